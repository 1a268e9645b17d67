//! Replay as a process: step by step it comes to what replaying everything at once comes to,
//! host and verifier agree, and a refused record leaves no trace.

use ap_protocol::room::{MemoryContext, RoomContext};
use ap_protocol::{Hash, RoomState, Tip, VerifiedRecord};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{END, Host, ROOM, START, creation, id, key, message};

/// What somebody may try: who, what, on whom, on which base.
#[derive(Debug, Clone)]
struct Attempt {
    who: u8,
    what: usize,
    target: u8,
    base: usize,
    pause_ms: u64,
}

fn attempts() -> impl Strategy<Value = Vec<Attempt>> {
    let one =
        (1u8..6, 0usize..24, 1u8..6, 0usize..4, prop_oneof![Just(0), Just(1_000), 0..600_000u64])
            .prop_map(|(who, what, target, base, pause_ms)| Attempt {
                who,
                what,
                target,
                base,
                pause_ms,
            });
    prop::collection::vec(one, 1..30)
}

fn event(a: &Attempt, request: usize) -> (&'static str, Value) {
    let target = id(a.target).to_string();
    let roles = ["moderator", "speaker", "observer"];
    let role = roles[usize::from(a.target) % 3];
    let ask = json!({
        "id": format!("jr_{}", request % 5), "room_id": ROOM, "applicant": target, "role": role,
        "created_at": START, "expires_at": END - 600_000,
    });
    match a.what {
        0..=4 => ("message.create", message("x")),
        5 | 6 => ("a.message", json!({})),
        7 | 8 => ("a.signal", json!({})),
        9 => ("a.control", json!({})),
        10 | 11 => ("room.join", json!({ "role": role })),
        12 => ("room.join", json!({ "role": role, "request_id": format!("jr_{}", request % 5) })),
        13 => ("room.leave", json!({})),
        14 => ("room.member.role.update", json!({ "member": target, "role": role })),
        15 => ("room.member.remove", json!({ "member": target })),
        16 => ("room.member.remove", json!({ "member": target, "ban": true })),
        17 => ("room.join.review", json!({ "request": ask, "decision": "approve", "role": role })),
        18 => ("room.join.review", json!({ "request": ask, "decision": "reject" })),
        19 => (
            "room.update",
            json!({ "policy": { "max_speakers": 2, "observer_allowed": a.target.is_multiple_of(2) } }),
        ),
        20 => ("room.update", json!({ "end_time": END + 1_000_000 })),
        21 => ("type.define", json!({ "use": "adp:moderation/1.0" })),
        22 => ("turn.update", json!({ "turn_id": 1, "speaker": target, "intent": "go" })),
        _ if a.target == 5 => ("room.close", json!({})),
        _ => (
            "type.define",
            json!({ "type": "a.signal", "kind": "signal", "title": "s", "status": "deprecated", "schema": {} }),
        ),
    }
}

proptest! {
    #![proptest_config(crate::support::runs(1_000))]

    #[test]
    fn incremental_equals_batch(attempts in attempts(), restricted in any::<bool>(), stored_at in any::<prop::sample::Index>()) {
        let visibility = if restricted { "restricted" } else { "public" };
        let mut host = Host::new(json!({ "visibility": visibility }));
        for (i, a) in attempts.iter().enumerate() {
            host.now += 1 + a.pause_ms;
            let (event_type, payload) = event(a, i);
            let (head, tip) = (host.state.head, host.state.tip);
            let base = match a.base {
                0 => tip,
                1 => Tip { seq: 1, hash: *host.records[0].hash() },
                2 => Tip { seq: tip.seq, hash: Hash::of(b"forged") },
                _ if host.state.kind_of(event_type).is_some_and(|k| !k.advances_head()) => tip,
                _ => head,
            };
            let before = host.state.clone();
            let envelope = host.sign(a.who, event_type, payload, base);
            let admitted = host.state.admit(&envelope, host.now, &host.context);
            match admitted {
                Ok(_) => {
                    let record = host.append(envelope);
                    let kind = host.state.kind_of(record.envelope().event_type()).expect("it was admitted");
                    prop_assert_eq!(host.state.head == record.tip(), kind.advances_head());
                }
                Err(rejection) => {
                    // A host that takes it all the same is caught by the same rule, and the
                    // state stays as it was.
                    let bad = VerifiedRecord::append(ROOM, Some(&tip), host.now, envelope);
                    let received = bad.received_at();
                    match host.state.apply(&bad, &host.context) {
                        Err(violation) => {
                            prop_assert_eq!(violation.rejection, rejection);
                            prop_assert_eq!(&host.state, &before);
                        }
                        // The verifier's patience with a late scheduler is the one difference.
                        Ok(_) => {
                            let end = before.contract["end_time"].as_u64().unwrap_or(0);
                            prop_assert!(received >= end && received - end < 5_000);
                            host.state = before;
                        }
                    }
                }
            }
        }
        // Everything at once, with the state stored and read back somewhere on the way.
        let stored_at = stored_at.index(host.records.len());
        let mut context = MemoryContext::default();
        let mut state = RoomState::genesis(&host.records[0], &context).unwrap();
        context.push(&host.records[0]);
        for (i, record) in host.records.iter().enumerate().skip(1) {
            if i == stored_at {
                let text = serde_json::to_string(&state).unwrap();
                state = serde_json::from_str(&text).unwrap();
            }
            state.apply(record, &context).unwrap();
            context.push(record);
        }
        prop_assert_eq!(state, host.state);
    }
}

#[test]
fn rejections_carry_what_a_client_needs() {
    let mut host = Host::new(json!({}));
    let first = host.state.head;
    let moved = host.say(1, "message.create", message("one"));
    let e = host.submit(1, "message.create", message("two"), first).unwrap_err();
    assert_eq!(e.code.as_str(), "room_head_mismatch");
    assert_eq!(
        e.data.unwrap(),
        json!({ "base_seq": 1, "base_hash": first.hash, "current_seq": 2, "current_hash": moved.hash() })
    );
    let mut host = Host::new(json!({ "types": [{
        "type": "a.b", "kind": "signal", "title": "t",
        "schema": { "properties": { "list": { "items": { "type": "integer" } } } },
    }] }));
    let tip = host.state.tip;
    let e = host.submit(1, "a.b", json!({ "list": [1, "x"] }), tip).unwrap_err();
    assert_eq!(e.code.as_str(), "payload_schema_violation");
    assert_eq!(e.data.unwrap()["path"], "/list/1");
}

#[test]
fn members_remember_where_they_came_from() {
    let mut host = Host::new(json!({}));
    host.say(2, "room.join", json!({ "role": "speaker", "perspective": "ops" }));
    host.say(2, "message.create", message("x"));
    host.say(2, "room.leave", json!({}));
    let member = &host.state.members[&id(2)];
    assert_eq!(member.perspective.as_deref(), Some("ops"));
    assert_eq!(
        (member.joined_seq, member.left_seq, member.last_event_seq),
        (Some(2), Some(4), Some(4))
    );
    assert_eq!(member.status.as_str(), "left");
    host.say(2, "room.join", json!({ "role": "observer" }));
    let member = &host.state.members[&id(2)];
    assert_eq!((member.joined_seq, member.left_seq), (Some(5), None));
    assert_eq!(member.perspective, None);
    assert_eq!(host.state.head.seq, 3);
}

#[test]
fn a_lifted_ban_leaves_no_member_that_never_joined() {
    let mut host = Host::new(json!({}));
    host.say(1, "room.member.remove", json!({ "member": id(3), "ban": true }));
    assert_eq!(host.state.members[&id(3)].status.as_str(), "banned");
    let request = json!({
        "id": "jr_1", "room_id": ROOM, "applicant": id(3), "role": "speaker",
        "created_at": START, "expires_at": END,
    });
    let approve = json!({ "request": request, "decision": "approve", "role": "speaker" });
    host.say(1, "room.join.review", approve);
    assert!(!host.state.members.contains_key(&id(3)) && host.state.bans.is_empty());
}

#[test]
fn the_turn_is_the_latest_floor_assignment() {
    let mut host = Host::new(json!({ "types": [{ "use": "adp:moderation/1.0" }] }));
    let turn = |more: Value| {
        let mut payload = json!({ "turn_id": 1, "speaker": id(2) });
        for (name, value) in more.as_object().into_iter().flatten() {
            payload[name] = value.clone();
        }
        payload
    };
    let end = host.now + 60_000;
    let assigned =
        host.say(1, "turn.update", turn(json!({ "intent": "review", "expires_at": end })));
    let running = host.state.active_turn(host.now).unwrap();
    assert_eq!(
        (running.assigned_seq, running.instruction.as_deref()),
        (assigned.seq(), Some("review"))
    );
    assert!(host.state.active_turn(end).is_none(), "the deadline passed");
    host.say(1, "turn.update", turn(json!({ "scope": "task", "claim_id": "c" })));
    assert!(host.state.active_turn(host.now).is_some(), "a task is no floor");
    host.say(1, "turn.update", turn(json!({ "state": "handoff", "turn_id": 2 })));
    assert_eq!(host.state.active_turn(host.now).unwrap().turn_id, json!(2));
    host.say(1, "turn.update", turn(json!({ "state": "released" })));
    assert!(host.state.active_turn(host.now).is_none());
}

#[test]
fn updates_replace_and_clear() {
    let mut host =
        Host::new(json!({ "agenda": "a", "tags": ["t"], "policy": { "max_speakers": 3 } }));
    host.say(1, "room.update", json!({ "agenda": "", "tags": [], "policy": { "observer_allowed": false }, "topic": "New" }));
    let contract = &host.state.contract;
    assert!(!contract.contains_key("agenda") && !contract.contains_key("tags"));
    assert_eq!(contract["policy"], json!({ "observer_allowed": false }));
    assert_eq!(contract["topic"], "New");
}

/// Memory outside the store does not grow with the history.
#[test]
fn state_size_does_not_grow_with_messages() {
    let mut host = Host::new(json!({}));
    host.say(1, "message.create", message("x"));
    let size = |host: &Host| serde_json::to_vec(&host.state).unwrap().len();
    let before = size(&host);
    for _ in 0..200 {
        host.say(1, "message.create", message("x"));
    }
    assert!(size(&host) < before + 32, "{before} bytes became {}", size(&host));
}

/// A room that takes its context from elsewhere asks for nothing but hashes and ids.
#[test]
fn context_is_asked_for_the_base_and_the_event_only() {
    struct Nothing;
    impl RoomContext for Nothing {
        fn hash_at(&self, _: u64) -> Option<Hash> {
            None
        }
        fn contains_event(&self, _: &Hash) -> bool {
            false
        }
    }
    let mut host = Host::new(json!({}));
    let (head, now) = (host.state.head, host.now);
    let head_bound = host.sign(1, "message.create", message("x"), head);
    assert!(host.state.admit(&head_bound, now, &Nothing).is_ok());
    let anchored = host.sign(1, "a.signal", json!({}), head);
    let e = host.state.admit(&anchored, now, &Nothing).unwrap_err();
    assert_eq!(e.code.as_str(), "base_record_mismatch");
}

#[test]
fn a_creation_is_judged_like_the_record_it_becomes() {
    let now = START + 10_000;
    let create = |payload: Value| {
        ap_protocol::record::sign_discourse(
            &key(1),
            None,
            None,
            "room.create",
            payload,
            &[],
            now,
            1,
        )
        .unwrap()
    };
    let context = MemoryContext::default();
    let tip = Tip { seq: 1, hash: Hash::of(b"not yet known") };
    let bad = create(creation(json!({ "types": [{ "use": "adp:nothing/1.0" }] })));
    let before = RoomState::from_creation(ROOM, &bad, now, tip, &context).unwrap_err();
    let record = VerifiedRecord::append(ROOM, None, now, bad);
    let after = RoomState::genesis(&record, &context).unwrap_err();
    assert_eq!(before, after.rejection);
    assert_eq!(before.code.as_str(), "pack_unavailable");
}
