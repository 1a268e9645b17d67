//! Cases about replay: what an honest host accepts, what no honest host accepts.
//!
//! Every chain here is sound: hashes, links and signatures hold. Only the room's rules say
//! no, at the last record.

use ap_protocol::encoding;
use ap_protocol::record::sign_discourse;
use serde_json::{Map, Value, json};

use super::Writer;
use super::room::{
    Base, CREATOR, END, MODERATOR, OBSERVER, ROOM, Room, SPEAKER, START, STRANGER, id, key, request,
};
use crate::answer::unhex;
use crate::case::{Case, File};

struct Replay(Writer);

impl Replay {
    /// The last record is fine; `more` is what else must come out.
    fn ok(&mut self, id: &str, room: &Room, more: Value) -> &mut Case {
        let mut out = json!({ "ok": true, "seq": room.records.len() });
        for (name, value) in more.as_object().into_iter().flatten() {
            out[name] = value.clone();
        }
        self.0.add(id, "room.replay", json!({ "room_id": ROOM, "records": room.text() }), out)
    }

    /// The last record breaks the rule with this code.
    fn no(&mut self, id: &str, room: &Room, code: &str) -> &mut Case {
        let out = json!({ "ok": false, "code": code, "seq": room.records.len() });
        self.0.add(id, "room.replay", json!({ "room_id": ROOM, "records": room.text() }), out)
    }

    /// `room` with one more event.
    fn next(&mut self, name: &str, room: &Room, who: u8, event: (&str, Value), code: Option<&str>) {
        let mut room = room.clone();
        room.push(who, event.0, event.1);
        match code {
            None => self.ok(name, &room, json!({})),
            Some(code) => self.no(name, &room, code),
        };
    }
}

fn message() -> Value {
    json!({ "content_type": "text/plain", "content": "I support this." })
}

/// A view of the members, as the answers spell it.
fn members(list: &[(u8, &str)]) -> Value {
    Value::Object(list.iter().map(|(who, state)| (id(*who), json!(state))).collect::<Map<_, _>>())
}

pub(super) fn replay() -> File {
    let mut r = Replay(Writer::new(
        "replay",
        "Room replay: state, authority, membership, registry, base",
        "Agent Discourse 1.0 sections 6, 8 to 15 (revision of 2026-07-04)",
    ));
    creation(&mut r);
    authority(&mut r);
    states(&mut r);
    membership(&mut r);
    approvals(&mut r);
    contract(&mut r);
    bases(&mut r);
    registry(&mut r);
    packs(&mut r);
    guards(&mut r);
    r.0.done()
}

fn creation(r: &mut Replay) {
    let creator = members(&[(CREATOR, "active moderator")]);
    r.ok(
        "create-active",
        &Room::new(json!({})),
        json!({
            "head_seq": 1, "status": "active", "members": creator, "types": 3,
        }),
    )
    .about("The creator is a moderator from the first record on.");
    let later = json!({ "start_time": START + 600_000 });
    r.ok("create-scheduled", &Room::new(later), json!({ "status": "scheduled" }));
    for visibility in ["restricted", "private"] {
        let room = Room::new(json!({ "visibility": visibility }));
        r.ok(&format!("create-{visibility}"), &room, json!({ "status": "active" }));
    }
    r.ok(
        "create-already-over",
        &Room::created_at(json!({}), END + 5_000),
        json!({ "status": "ended" }),
    )
    .decision("A host may refuse it, none must: it is no violation.");
    let room = Room::new(json!({ "types": [{ "use": "adp:unknown/9.9" }] }));
    r.no("create-unknown-pack", &room, "pack_unavailable");
    let types = json!([
        { "type": "a.b", "kind": "signal", "title": "x", "schema": {} },
        { "type": "a.b", "kind": "control", "title": "x", "schema": {} },
    ]);
    r.no("create-type-of-two-kinds", &Room::new(json!({ "types": types })), "invalid_event");
    let types = json!([{ "type": "a.b", "kind": "signal", "title": "x", "schema": { "$ref": "https://example.com/s" } }]);
    r.no("create-remote-schema", &Room::new(json!({ "types": types })), "invalid_event");
    let types: Vec<Value> = (0..70)
        .map(|i| json!({ "type": format!("a.t{i}"), "kind": "signal", "title": "x", "schema": {} }))
        .collect();
    r.ok("create-70-types", &Room::new(json!({ "types": types })), json!({ "types": 70 }))
        .decision("64 types are a recommended quota of hosts, no rule of replay.");
}

fn authority(r: &mut Replay) {
    let room = Room::full();
    let events: Vec<(&str, Value, [Option<&str>; 5])> = {
        const NO: Option<&str> = Some("permission_denied");
        const OUT: Option<&str> = Some("membership_required");
        vec![
            // Creator, moderator, speaker, observer, stranger.
            ("message.create", message(), [None, None, None, NO, OUT]),
            ("room.update", json!({ "agenda": "x" }), [None, None, NO, NO, OUT]),
            ("room.close", json!({}), [None, None, NO, NO, OUT]),
            ("type.define", json!({ "use": "adp:reactions/1.0" }), [None, None, NO, NO, OUT]),
            ("room.leave", json!({}), [None, None, None, None, OUT]),
            (
                "room.member.role.update",
                json!({ "member": id(OBSERVER), "role": "speaker" }),
                [None, None, NO, NO, OUT],
            ),
            (
                "room.member.remove",
                json!({ "member": id(99), "ban": true }),
                [None, None, NO, NO, OUT],
            ),
            (
                "room.join.review",
                json!({ "request": request(98, "jr_a", "speaker"), "decision": "approve", "role": "speaker" }),
                [None, None, NO, NO, OUT],
            ),
            ("review.finding", json!({ "severity": "low" }), [None, None, None, NO, OUT]),
            ("review.ack", json!({}), [None, None, None, None, OUT]),
            ("review.gate", json!({}), [None, None, NO, NO, OUT]),
        ]
    };
    let actors = [
        (CREATOR, "creator"),
        (MODERATOR, "moderator"),
        (SPEAKER, "speaker"),
        (OBSERVER, "observer"),
        (STRANGER, "stranger"),
    ];
    for (event_type, payload, codes) in events {
        for ((who, name), code) in actors.into_iter().zip(codes) {
            let id = format!("{event_type}-by-{name}");
            r.next(&id, &room, who, (event_type, payload.clone()), code);
        }
    }
    // The creator's authority does not depend on its role, but it does on being there.
    let mut room = Room::full();
    room.push(
        MODERATOR,
        "room.member.role.update",
        json!({ "member": id(CREATOR), "role": "observer" }),
    );
    r.next("creator-as-observer-messages", &room, CREATOR, ("message.create", message()), None);
    r.next("creator-as-observer-closes", &room, CREATOR, ("room.close", json!({})), None);
    r.next("creator-as-observer-gates", &room, CREATOR, ("review.gate", json!({})), None);
    let mut room = Room::full();
    room.push(CREATOR, "room.leave", json!({}));
    r.next(
        "creator-left-messages",
        &room,
        CREATOR,
        ("message.create", message()),
        Some("membership_required"),
    );
    r.next(
        "creator-left-closes",
        &room,
        CREATOR,
        ("room.close", json!({})),
        Some("membership_required"),
    );
    r.next(
        "creator-left-rejoins",
        &room,
        CREATOR,
        ("room.join", json!({ "role": "moderator" })),
        None,
    );
    // Roles of a definition replace the kind's default.
    let types = json!([
        { "type": "a.speakers", "kind": "signal", "title": "x", "schema": {}, "roles": ["speaker"] },
        { "type": "a.all", "kind": "control", "title": "x", "schema": {}, "roles": ["moderator", "speaker", "observer"] },
    ]);
    let mut room = Room::new(json!({ "types": types }));
    room.join_all();
    const NO: Option<&str> = Some("permission_denied");
    r.next("roles-narrowed-speaker", &room, SPEAKER, ("a.speakers", json!({})), None);
    r.next("roles-narrowed-moderator", &room, MODERATOR, ("a.speakers", json!({})), NO);
    r.next("roles-narrowed-observer", &room, OBSERVER, ("a.speakers", json!({})), NO);
    r.next("roles-narrowed-creator", &room, CREATOR, ("a.speakers", json!({})), None);
    r.next("roles-widened-observer", &room, OBSERVER, ("a.all", json!({})), None);
    r.next(
        "roles-widened-stranger",
        &room,
        STRANGER,
        ("a.all", json!({})),
        Some("membership_required"),
    );
}

fn states(r: &mut Replay) {
    let mut room = Room::new(json!({ "start_time": START + 600_000 }));
    room.join_all();
    const EARLY: Option<&str> = Some("room_not_active");
    for (name, who, event, code) in [
        ("message", SPEAKER, ("message.create", message()), EARLY),
        ("custom-message", SPEAKER, ("review.finding", json!({ "severity": "low" })), EARLY),
        ("custom-signal", SPEAKER, ("review.ack", json!({})), EARLY),
        ("custom-control", MODERATOR, ("review.gate", json!({})), EARLY),
        ("close", MODERATOR, ("room.close", json!({})), EARLY),
        ("join", STRANGER, ("room.join", json!({ "role": "speaker" })), None),
        ("leave", SPEAKER, ("room.leave", json!({})), None),
        ("update", MODERATOR, ("room.update", json!({ "topic": "New" })), None),
        ("define", MODERATOR, ("type.define", json!({ "use": "adp:moderation/1.0" })), None),
        (
            "role",
            MODERATOR,
            ("room.member.role.update", json!({ "member": id(SPEAKER), "role": "observer" })),
            None,
        ),
        ("remove", MODERATOR, ("room.member.remove", json!({ "member": id(SPEAKER) })), None),
        (
            "review",
            MODERATOR,
            (
                "room.join.review",
                json!({ "request": request(98, "jr_a", "speaker"), "decision": "reject" }),
            ),
            None,
        ),
        ("cancel", MODERATOR, ("room.cancel", json!({})), None),
        ("cancel-by-speaker", SPEAKER, ("room.cancel", json!({})), Some("permission_denied")),
    ] {
        r.next(&format!("scheduled-{name}"), &room, who, event, code);
    }
    let mut started = room.clone();
    started.at(START + 600_000);
    r.next("starts-on-time-message", &started, SPEAKER, ("message.create", message()), None);
    let mut late = room.clone();
    late.at(START + 700_000);
    r.next(
        "started-cancel",
        &late,
        MODERATOR,
        ("room.cancel", json!({})),
        Some("permission_denied"),
    );
    let mut moved = room.clone();
    moved.push(MODERATOR, "room.update", json!({ "start_time": START }));
    r.next("moved-start-message", &moved, SPEAKER, ("message.create", message()), None);

    const OVER: Option<&str> = Some("room_ended");
    let after = |finish: &str, room: &Room| {
        let mut room = room.clone();
        room.push(MODERATOR, finish, json!({ "reason": "done" }));
        room
    };
    let closed = after("room.close", &Room::full());
    let cancelled = after("room.cancel", &room);
    for (name, room) in [("closed", &closed), ("cancelled", &cancelled)] {
        for (what, who, event) in [
            ("message", CREATOR, ("message.create", message())),
            ("signal", SPEAKER, ("review.ack", json!({}))),
            ("join", STRANGER, ("room.join", json!({ "role": "speaker" }))),
            ("leave", SPEAKER, ("room.leave", json!({}))),
            ("update", CREATOR, ("room.update", json!({ "end_time": END + 1 }))),
            ("ban", CREATOR, ("room.member.remove", json!({ "member": id(SPEAKER), "ban": true }))),
            ("close", CREATOR, ("room.close", json!({}))),
        ] {
            r.next(&format!("{name}-{what}"), room, who, event, OVER);
        }
    }
    r.ok("closed", &closed, json!({ "status": "ended", "head_seq": 5 }));
    r.ok("cancelled", &cancelled, json!({ "status": "cancelled", "head_seq": 5 }));
    let mut over = Room::full();
    over.at(END + 60_000);
    r.next("time-over-message", &over, SPEAKER, ("message.create", message()), OVER);
    r.next("time-over-leave", &over, SPEAKER, ("room.leave", json!({})), OVER);
    let mut over = Room::full();
    over.at(END + 1_000);
    r.next("scheduler-late-message", &over, SPEAKER, ("message.create", message()), None);
    let mut longer = Room::full();
    longer.push(MODERATOR, "room.update", json!({ "end_time": END + 600_000 }));
    longer.at(END + 60_000);
    r.next("prolonged-message", &longer, SPEAKER, ("message.create", message()), None);
    let mut shorter = Room::full();
    shorter.push(MODERATOR, "room.update", json!({ "end_time": START + 100_000 }));
    shorter.at(START + 200_000);
    r.next("shortened-message", &shorter, SPEAKER, ("message.create", message()), OVER);
}

fn membership(r: &mut Replay) {
    let full = Room::full();
    r.ok(
        "members",
        &full,
        json!({ "head_seq": 1, "members": members(&[
        (CREATOR, "active moderator"), (MODERATOR, "active moderator"),
        (SPEAKER, "active speaker"), (OBSERVER, "active observer"),
    ]) }),
    )
    .about("Joins take seqs and leave the head where it was.");
    let join = |role: &str| ("room.join", json!({ "role": role }));
    r.next("join-twice", &full, SPEAKER, join("speaker"), Some("invalid_event"));
    r.next("join-creator", &full, CREATOR, join("moderator"), Some("invalid_event"));
    r.next("join-moderator-unlisted", &full, STRANGER, join("moderator"), Some("role_not_allowed"));
    let mut closed_eyes = Room::new(json!({ "policy": { "observer_allowed": false } }));
    r.next(
        "join-observer-forbidden",
        &closed_eyes,
        STRANGER,
        join("observer"),
        Some("role_not_allowed"),
    );
    closed_eyes.push(SPEAKER, "room.join", json!({ "role": "speaker" }));
    let demote = ("room.member.role.update", json!({ "member": id(SPEAKER), "role": "observer" }));
    r.next(
        "demote-observer-forbidden",
        &closed_eyes,
        CREATOR,
        demote.clone(),
        Some("role_not_allowed"),
    );

    let mut small = Room::new(json!({ "policy": { "max_speakers": 2 } }));
    small.push(SPEAKER, "room.join", json!({ "role": "speaker" }));
    r.next("max-speakers-join", &small, STRANGER, join("speaker"), Some("max_speakers_exceeded"));
    r.next("max-speakers-observer-joins", &small, STRANGER, join("observer"), None);
    let approve = json!({ "request": request(STRANGER, "jr_a", "speaker"), "decision": "approve", "role": "speaker" });
    r.next(
        "max-speakers-approve",
        &small,
        CREATOR,
        ("room.join.review", approve),
        Some("max_speakers_exceeded"),
    );
    let mut watching = small.clone();
    watching.push(OBSERVER, "room.join", json!({ "role": "observer" }));
    let promote = ("room.member.role.update", json!({ "member": id(OBSERVER), "role": "speaker" }));
    r.next(
        "max-speakers-promote",
        &watching,
        CREATOR,
        promote.clone(),
        Some("max_speakers_exceeded"),
    );
    let keep = ("room.member.role.update", json!({ "member": id(SPEAKER), "role": "moderator" }));
    r.next("max-speakers-speaker-to-moderator", &watching, CREATOR, keep, None);
    let mut freed = watching.clone();
    freed.push(SPEAKER, "room.leave", json!({}));
    r.next("max-speakers-seat-freed", &freed, CREATOR, promote.clone(), None);
    let mut reduced = Room::full();
    reduced.push(CREATOR, "room.update", json!({ "policy": { "max_speakers": 1 } }));
    r.next(
        "max-speakers-reduced-nobody-demoted",
        &reduced,
        SPEAKER,
        ("message.create", message()),
        None,
    );
    r.next(
        "max-speakers-reduced-join",
        &reduced,
        STRANGER,
        join("speaker"),
        Some("max_speakers_exceeded"),
    );

    let mut left = full.clone();
    left.push(SPEAKER, "room.leave", json!({ "reason": "done" }));
    r.ok("left", &left, json!({ "head_seq": 1 }));
    r.next(
        "left-message",
        &left,
        SPEAKER,
        ("message.create", message()),
        Some("membership_required"),
    );
    r.next(
        "left-leave-again",
        &left,
        SPEAKER,
        ("room.leave", json!({})),
        Some("membership_required"),
    );
    r.next("left-rejoin", &left, SPEAKER, join("observer"), None);
    let act = |member: Value, more: Value| {
        let mut payload = json!({ "member": member });
        for (name, value) in more.as_object().into_iter().flatten() {
            payload[name] = value.clone();
        }
        ("room.member.remove", payload)
    };
    let mut removed = full.clone();
    let (event_type, payload) = act(json!(id(SPEAKER)), json!({ "reason": "spam" }));
    removed.push(MODERATOR, event_type, payload);
    r.next(
        "removed-message",
        &removed,
        SPEAKER,
        ("message.create", message()),
        Some("membership_required"),
    );
    r.next("removed-rejoin", &removed, SPEAKER, join("speaker"), None);
    r.next("removed-role-update", &removed, MODERATOR, demote.clone(), Some("membership_required"));
    let mut banned = full.clone();
    banned.push(MODERATOR, "room.member.remove", json!({ "member": id(SPEAKER), "ban": true }));
    r.ok(
        "banned",
        &banned,
        json!({ "members": members(&[
        (CREATOR, "active moderator"), (MODERATOR, "active moderator"),
        (SPEAKER, "banned speaker"), (OBSERVER, "active observer"),
    ]) }),
    );
    r.next(
        "banned-message",
        &banned,
        SPEAKER,
        ("message.create", message()),
        Some("member_banned"),
    );
    r.next("banned-join", &banned, SPEAKER, join("speaker"), Some("member_banned"));
    let mut ahead = full.clone();
    ahead.push(MODERATOR, "room.member.remove", json!({ "member": id(STRANGER), "ban": true }));
    r.next("banned-ahead-join", &ahead, STRANGER, join("speaker"), Some("member_banned"));
    let lift = json!({ "request": request(STRANGER, "jr_b", "speaker"), "decision": "approve", "role": "observer" });
    let mut lifted = ahead.clone();
    lifted.push(CREATOR, "room.join.review", lift);
    let with = |role: &str| ("room.join", json!({ "request_id": "jr_b", "role": role }));
    r.next("ban-lifted-join", &lifted, STRANGER, with("observer"), None);
    r.next("ban-lifted-join-directly", &lifted, STRANGER, join("speaker"), None);
    let refuse = json!({ "request": request(STRANGER, "jr_b", "speaker"), "decision": "reject" });
    let mut kept = ahead;
    kept.push(CREATOR, "room.join.review", refuse);
    r.next("ban-kept-by-rejection-join", &kept, STRANGER, join("speaker"), Some("member_banned"));
    for (name, target, more, code) in [
        ("creator", CREATOR, json!({}), Some("permission_denied")),
        ("creator-ban", CREATOR, json!({ "ban": true }), Some("permission_denied")),
        ("oneself", MODERATOR, json!({}), Some("permission_denied")),
        ("oneself-ban", MODERATOR, json!({ "ban": true }), Some("permission_denied")),
        ("nobody", STRANGER, json!({}), Some("membership_required")),
        ("nobody-ban", STRANGER, json!({ "ban": true }), None),
    ] {
        r.next(&format!("remove-{name}"), &full, MODERATOR, act(json!(id(target)), more), code);
    }
    let weak = format!("did:agent:{}", encoding::encode([0u8; 32]));
    r.next("remove-weak-key", &full, MODERATOR, act(json!(weak), json!({ "ban": true })), None);
    let mut muted = full.clone();
    muted.push(MODERATOR, demote.0, demote.1);
    r.next(
        "muted-message",
        &muted,
        SPEAKER,
        ("message.create", message()),
        Some("permission_denied"),
    );
    r.next("muted-signal", &muted, SPEAKER, ("review.ack", json!({})), None);
    let mut raised = full.clone();
    raised.push(MODERATOR, promote.0, promote.1);
    r.next("raised-message", &raised, OBSERVER, ("message.create", message()), None);
    let stranger =
        ("room.member.role.update", json!({ "member": id(STRANGER), "role": "speaker" }));
    r.next("role-of-nobody", &full, MODERATOR, stranger, Some("membership_required"));
}

fn approvals(r: &mut Replay) {
    let review = |who: u8, name: &str, decision: &str, role: Option<&str>| {
        let mut payload = json!({ "request": request(who, name, "speaker"), "decision": decision });
        if let Some(role) = role {
            payload["role"] = json!(role);
        }
        ("room.join.review", payload)
    };
    let with = |name: &str, role: &str| ("room.join", json!({ "request_id": name, "role": role }));
    for visibility in ["restricted", "private"] {
        let room = Room::new(json!({ "visibility": visibility }));
        let direct = ("room.join", json!({ "role": "speaker" }));
        let name = |what: &str| format!("{visibility}-{what}");
        r.next(&name("direct"), &room, SPEAKER, direct, Some("approval_required"));
        r.next(
            &name("unknown-request"),
            &room,
            SPEAKER,
            with("jr_x", "speaker"),
            Some("join_request_not_approved"),
        );
        let mut approved = room.clone();
        let (event_type, payload) = review(SPEAKER, "jr_1", "approve", Some("speaker"));
        approved.push(CREATOR, event_type, payload);
        r.next(&name("approved"), &approved, SPEAKER, with("jr_1", "speaker"), None);
        r.next(
            &name("role-mismatch"),
            &approved,
            SPEAKER,
            with("jr_1", "observer"),
            Some("join_request_role_mismatch"),
        );
        r.next(
            &name("anothers-request"),
            &approved,
            STRANGER,
            with("jr_1", "speaker"),
            Some("join_request_not_approved"),
        );
        let mut used = approved.clone();
        used.push(SPEAKER, "room.join", with("jr_1", "speaker").1);
        used.push(SPEAKER, "room.leave", json!({}));
        r.next(
            &name("used-request"),
            &used,
            SPEAKER,
            with("jr_1", "speaker"),
            Some("join_request_not_approved"),
        );
        let mut rejected = room.clone();
        let (event_type, payload) = review(SPEAKER, "jr_1", "reject", None);
        rejected.push(CREATOR, event_type, payload);
        r.next(
            &name("rejected"),
            &rejected,
            SPEAKER,
            with("jr_1", "speaker"),
            Some("join_request_not_approved"),
        );
    }
    let room = Room::new(json!({ "visibility": "restricted" }));
    let mut other_role = room.clone();
    other_role.push(
        CREATOR,
        "room.join.review",
        review(SPEAKER, "jr_1", "approve", Some("observer")).1,
    );
    r.next("approved-other-role", &other_role, SPEAKER, with("jr_1", "observer"), None);
    r.next(
        "approved-other-role-asked-role",
        &other_role,
        SPEAKER,
        with("jr_1", "speaker"),
        Some("join_request_role_mismatch"),
    );
    let mut moderator = room.clone();
    moderator.push(
        CREATOR,
        "room.join.review",
        review(STRANGER, "jr_1", "approve", Some("moderator")).1,
    );
    r.next("approved-moderator", &moderator, STRANGER, with("jr_1", "moderator"), None);
    r.next(
        "reviewed-twice",
        &other_role,
        CREATOR,
        review(SPEAKER, "jr_1", "approve", Some("speaker")),
        Some("join_request_not_found"),
    );
    r.next(
        "rejected-after-approval",
        &other_role,
        CREATOR,
        review(SPEAKER, "jr_1", "reject", None),
        Some("join_request_not_found"),
    );
    r.next(
        "rejection-names-a-role",
        &room,
        CREATOR,
        review(SPEAKER, "jr_1", "reject", Some("speaker")),
        None,
    );
    let mut foreign = request(SPEAKER, "jr_1", "speaker");
    foreign["room_id"] = json!("d8ftedhpqhsusbg001th");
    let foreign = json!({ "request": foreign, "decision": "approve", "role": "speaker" });
    r.next(
        "request-of-another-room",
        &room,
        CREATOR,
        ("room.join.review", foreign),
        Some("join_request_not_found"),
    );
    let mut short = request(SPEAKER, "jr_1", "speaker");
    short["expires_at"] = json!(START + 60_000);
    let mut expired = room.clone();
    expired.push(
        CREATOR,
        "room.join.review",
        json!({ "request": short, "decision": "approve", "role": "speaker" }),
    );
    let mut at_last = expired.clone();
    at_last.at(START + 60_000 - 1_000 - 123);
    r.next("approval-last-millisecond", &at_last, SPEAKER, with("jr_1", "speaker"), None);
    expired.at(START + 60_000);
    r.next(
        "approval-expired",
        &expired,
        SPEAKER,
        with("jr_1", "speaker"),
        Some("join_request_expired"),
    );
    let no_observers =
        Room::new(json!({ "visibility": "restricted", "policy": { "observer_allowed": false } }));
    r.next(
        "approve-observer-forbidden",
        &no_observers,
        CREATOR,
        review(SPEAKER, "jr_1", "approve", Some("observer")),
        Some("role_not_allowed"),
    );
    let public = Room::new(json!({}));
    r.next("public-with-request", &public, SPEAKER, with("jr_auto", "speaker"), None);
    r.next(
        "public-with-request-moderator",
        &public,
        SPEAKER,
        with("jr_auto", "moderator"),
        Some("role_not_allowed"),
    );
}

fn contract(r: &mut Replay) {
    let room = Room::full();
    let update = |payload: Value| ("room.update", payload);
    const BAD: Option<&str> = Some("invalid_event");
    r.next(
        "update-start-while-active",
        &room,
        CREATOR,
        update(json!({ "start_time": START + 1 })),
        BAD,
    );
    r.next(
        "update-end-in-the-past",
        &room,
        CREATOR,
        update(json!({ "end_time": START + 1_000 })),
        BAD,
    );
    r.next(
        "update-end-before-start",
        &room,
        CREATOR,
        update(json!({ "end_time": START - 1 })),
        BAD,
    );
    r.next("update-end", &room, CREATOR, update(json!({ "end_time": END + 1 })), None);
    r.next(
        "update-clears",
        &room,
        CREATOR,
        update(json!({ "agenda": "", "tags": [], "policy": {} })),
        None,
    );
    let scheduled = Room::new(json!({ "start_time": START + 600_000 }));
    r.next(
        "update-scheduled-start-after-end",
        &scheduled,
        CREATOR,
        update(json!({ "start_time": END })),
        BAD,
    );
    r.next(
        "update-scheduled-both",
        &scheduled,
        CREATOR,
        update(json!({ "start_time": END, "end_time": END + 1 })),
        None,
    );
    let mut replaced = Room::new(json!({}));
    replaced.push(CREATOR, "room.update", json!({ "policy": { "max_speakers": 9 } }));
    r.next(
        "policy-is-replaced-not-merged",
        &replaced,
        MODERATOR,
        ("room.join", json!({ "role": "moderator" })),
        Some("role_not_allowed"),
    );
}

fn bases(r: &mut Replay) {
    let mut room = Room::full();
    room.push(SPEAKER, "message.create", message()); // seq 5, the head
    room.push(OBSERVER, "review.ack", json!({})); // seq 6
    r.ok("head-after-signals", &room, json!({ "seq": 6, "head_seq": 5 }));
    let head_bound = [
        ("message.create", message()),
        ("review.finding", json!({ "severity": "low" })),
        ("review.gate", json!({})),
        ("type.define", json!({ "use": "adp:reactions/1.0" })),
        ("room.update", json!({ "topic": "New" })),
        ("room.close", json!({})),
    ];
    for (event_type, payload) in head_bound {
        for (name, base, code) in [
            ("head", Base::At(5), None),
            ("latest-signal", Base::At(6), Some("room_head_mismatch")),
            ("old-head", Base::At(1), Some("room_head_mismatch")),
            ("forged", Base::Forged(5), Some("room_head_mismatch")),
            ("future", Base::Future, Some("room_head_mismatch")),
        ] {
            let mut room = room.clone();
            room.push_on(CREATOR, event_type, payload.clone(), base);
            let id = format!("base-{event_type}-{name}");
            match code {
                None => r.ok(&id, &room, json!({ "head_seq": 7 })),
                Some(code) => r.no(&id, &room, code),
            };
        }
    }
    let anchored = [
        ("review.ack", json!({}), SPEAKER),
        ("room.join", json!({ "role": "speaker" }), STRANGER),
        ("room.leave", json!({}), SPEAKER),
        ("room.member.role.update", json!({ "member": id(SPEAKER), "role": "observer" }), CREATOR),
        ("room.member.remove", json!({ "member": id(SPEAKER) }), CREATOR),
        (
            "room.join.review",
            json!({ "request": request(98, "jr_a", "speaker"), "decision": "reject" }),
            CREATOR,
        ),
    ];
    for (event_type, payload, who) in anchored {
        for (name, base, code) in [
            ("latest", Base::At(6), None),
            ("first", Base::At(1), None),
            ("forged", Base::Forged(3), Some("base_record_mismatch")),
            ("future", Base::Future, Some("base_record_mismatch")),
        ] {
            let mut room = room.clone();
            room.push_on(who, event_type, payload.clone(), base);
            let id = format!("base-{event_type}-{name}");
            match code {
                None => r.ok(&id, &room, json!({ "head_seq": 5 })),
                Some(code) => r.no(&id, &room, code),
            };
        }
    }
}

fn registry(r: &mut Replay) {
    let room = Room::full();
    r.next(
        "type-undefined",
        &room,
        CREATOR,
        ("review.unknown", json!({})),
        Some("type_not_defined"),
    );
    r.next(
        "type-of-no-pack-imported",
        &room,
        CREATOR,
        ("turn.update", json!({ "turn_id": 1, "speaker": id(SPEAKER) })),
        Some("type_not_defined"),
    );
    const BAD: Option<&str> = Some("payload_schema_violation");
    r.next("payload-fits", &room, SPEAKER, ("review.finding", json!({ "severity": "high" })), None);
    r.next(
        "payload-wrong-value",
        &room,
        SPEAKER,
        ("review.finding", json!({ "severity": "huge" })),
        BAD,
    );
    r.next("payload-missing", &room, SPEAKER, ("review.finding", json!({})), BAD);
    r.next(
        "payload-extra",
        &room,
        SPEAKER,
        ("review.finding", json!({ "severity": "low", "x": 1 })),
        BAD,
    );
    let define = |changes: Value| {
        let mut definition = json!({
            "type": "review.finding", "kind": "message", "title": "Finding",
            "schema": { "type": "object", "required": ["level"], "properties": { "level": { "type": "integer" } } },
        });
        for (name, value) in changes.as_object().into_iter().flatten() {
            definition[name] = value.clone();
        }
        ("type.define", definition)
    };
    let redefined = |changes: Value| {
        let mut room = room.clone();
        room.push(MODERATOR, "type.define", define(changes).1);
        room
    };
    r.next(
        "redefined-new-payload",
        &redefined(json!({})),
        SPEAKER,
        ("review.finding", json!({ "level": 3 })),
        None,
    );
    r.next(
        "redefined-old-payload",
        &redefined(json!({})),
        SPEAKER,
        ("review.finding", json!({ "severity": "low" })),
        BAD,
    );
    r.next(
        "redefined-kind",
        &room,
        MODERATOR,
        define(json!({ "kind": "control" })),
        Some("invalid_event"),
    );
    r.next(
        "redefined-kind-signal",
        &room,
        MODERATOR,
        define(json!({ "kind": "signal" })),
        Some("invalid_event"),
    );
    r.next(
        "disabled",
        &redefined(json!({ "status": "disabled" })),
        SPEAKER,
        ("review.finding", json!({ "level": 3 })),
        Some("type_disabled"),
    );
    r.next(
        "deprecated",
        &redefined(json!({ "status": "deprecated" })),
        SPEAKER,
        ("review.finding", json!({ "level": 3 })),
        None,
    );
    let mut again = redefined(json!({ "status": "disabled" }));
    again.push(MODERATOR, "type.define", define(json!({ "status": "active" })).1);
    r.next(
        "disabled-then-active",
        &again,
        SPEAKER,
        ("review.finding", json!({ "level": 3 })),
        None,
    );
    r.next(
        "roles-redefined",
        &redefined(json!({ "roles": ["moderator"] })),
        SPEAKER,
        ("review.finding", json!({ "level": 3 })),
        Some("permission_denied"),
    );
    for (name, schema) in [
        ("remote-ref", json!({ "$ref": "https://example.com/s.json" })),
        ("dangling-ref", json!({ "$ref": "#/$defs/nowhere" })),
        ("circular", json!({ "allOf": [{ "$ref": "#" }] })),
        ("not-a-schema", json!({ "type": 12 })),
        ("bad-pattern", json!({ "pattern": "(" })),
    ] {
        r.next(
            &format!("schema-{name}"),
            &room,
            MODERATOR,
            define(json!({ "schema": schema })),
            Some("invalid_event"),
        );
    }
    let mut silent = room.clone();
    silent.push(SPEAKER, "review.finding", json!({ "severity": "low" }));
    r.ok("definition-in-force-at-its-seq", &silent, json!({ "head_seq": 5 }));
}

fn packs(r: &mut Replay) {
    let import = |declaration: Value| {
        let mut room = Room::full();
        room.push(MODERATOR, "type.define", declaration);
        room
    };
    let deliberation = import(json!({ "use": "adp:deliberation/1.0" }));
    r.ok("pack-imported", &deliberation, json!({ "types": 7, "head_seq": 5 }));
    let vote = |room: &Room| {
        let event = room.records[0].envelope().hash().to_string();
        ("poll.vote", json!({ "poll_event_id": event, "option_ids": ["a"] }))
    };
    r.next("pack-vote-by-speaker", &deliberation, SPEAKER, vote(&deliberation), None);
    r.next(
        "pack-vote-by-observer",
        &deliberation,
        OBSERVER,
        vote(&deliberation),
        Some("permission_denied"),
    );
    let everyone = import(json!({
        "use": "adp:deliberation/1.0",
        "overrides": { "poll.vote": { "roles": ["moderator", "speaker", "observer"] } },
    }));
    r.next("pack-override-roles", &everyone, OBSERVER, vote(&everyone), None);
    let off = import(json!({
        "use": "adp:deliberation/1.0", "overrides": { "poll.vote": { "status": "disabled" } },
    }));
    r.next("pack-override-status", &off, SPEAKER, vote(&off), Some("type_disabled"));
    let subset = import(json!({ "use": "adp:deliberation/1.0", "types": ["poll.create"] }));
    r.ok("pack-subset", &subset, json!({ "types": 4 }));
    r.next("pack-subset-excludes", &subset, SPEAKER, vote(&subset), Some("type_not_defined"));
    let full = Room::full();
    let declare = |declaration: Value| ("type.define", declaration);
    r.next(
        "pack-subset-unknown",
        &full,
        MODERATOR,
        declare(json!({ "use": "adp:deliberation/1.0", "types": ["poll.unknown"] })),
        Some("invalid_event"),
    );
    r.next(
        "pack-override-unknown",
        &full,
        MODERATOR,
        declare(json!({ "use": "adp:deliberation/1.0", "overrides": { "a.b": {} } })),
        Some("invalid_event"),
    );
    r.next(
        "pack-unknown",
        &full,
        MODERATOR,
        declare(json!({ "use": "adp:deliberation/2.0" })),
        Some("pack_unavailable"),
    );
    let mut clash = Room::new(
        json!({ "types": [{ "type": "poll.vote", "kind": "control", "title": "x", "schema": {} }] }),
    );
    clash.push(CREATOR, "type.define", json!({ "use": "adp:deliberation/1.0" }));
    r.no("pack-changes-a-kind", &clash, "invalid_event");

    let document = json!({
        "id": "https://example.com/packs/triage-1.0.json", "title": "Triage",
        "types": [{ "type": "triage.label", "kind": "signal", "title": "Label", "schema": { "type": "object", "required": ["label"] } }],
    })
    .to_string();
    let uri = "https://example.com/packs/triage-1.0.json";
    let declaration = |digest: &str| json!({ "pack": uri, "digest": digest });
    let digest = "sha256:tDD485WqstldkoQbMW1RhrHL05kPJujB1gIANA1xDLY";
    let mut external =
        |name: &str, declared: &str, document: Option<&str>, label: Option<Value>, out: Value| {
            let mut room = import(declaration(declared));
            if let Some(payload) = label {
                room.push(SPEAKER, "triage.label", payload);
            }
            let mut input = json!({ "room_id": ROOM, "records": room.text() });
            if let Some(document) = document {
                input["packs"] = json!([{ "uri": uri, "document": document }]);
            }
            let mut out = out;
            out["seq"] = json!(room.records.len());
            r.0.add(name, "room.replay", input, out);
        };
    let wrong = |code: &str| json!({ "ok": false, "code": code });
    external("external-pack", digest, Some(&document), None, json!({ "ok": true, "types": 4 }));
    external(
        "external-pack-used",
        digest,
        Some(&document),
        Some(json!({ "label": "x" })),
        json!({ "ok": true }),
    );
    external(
        "external-pack-violated",
        digest,
        Some(&document),
        Some(json!({})),
        wrong("payload_schema_violation"),
    );
    external("external-pack-missing", digest, None, None, wrong("pack_unavailable"));
    external(
        "external-pack-changed",
        digest,
        Some(&format!("{document} ")),
        None,
        wrong("pack_unavailable"),
    );
}

fn guards(r: &mut Replay) {
    let mut room = Room::full();
    room.push(SPEAKER, "review.ack", json!({}));
    let envelope = room.records[4].envelope().clone();
    room.push(OBSERVER, "review.ack", json!({}));
    let mut twice = room.clone();
    twice.append(envelope, true);
    r.no("event-twice", &twice, "invalid_event");
    let nonce = |room: &Room, who: u8, nonce: u64| {
        let mut room = room.clone();
        room.push_full(who, "review.ack", json!({}), Base::Fit, nonce, &[]);
        room
    };
    r.no("nonce-equal", &nonce(&room, SPEAKER, 2), "nonce_not_greater");
    r.no("nonce-smaller", &nonce(&room, SPEAKER, 1), "nonce_not_greater");
    r.ok("nonce-gap", &nonce(&room, SPEAKER, 1_779_753_600_000), json!({}));
    let ack = json!({ "x": 1 });
    let mut greatest = room.clone();
    greatest.push_full(SPEAKER, "review.ack", ack, Base::Fit, (1 << 53) - 1, &[]);
    r.ok("nonce-greatest", &greatest, json!({}));

    let with = |references: Value, mentions: &[String]| {
        let mut room = Room::full();
        let payload =
            json!({ "content_type": "text/plain", "content": "x", "references": references });
        room.push_full(SPEAKER, "message.create", payload, Base::Fit, 2, mentions);
        room
    };
    let own = Room::full().records[0].envelope().hash().to_string();
    r.ok("references-own-room", &with(json!([own]), &[]), json!({}));
    let foreign = encoding::encode([1u8; 32]);
    r.no("references-foreign", &with(json!([foreign]), &[]), "invalid_event");
    r.no("references-one-foreign", &with(json!([own, foreign]), &[]), "invalid_event");
    let record = Room::full().records[0].hash().to_string();
    r.no("references-record-hash", &with(json!([record]), &[]), "invalid_event");
    r.ok("mentions", &with(json!([]), &[id(CREATOR), id(STRANGER)]), json!({}));
    let weak = unhex("ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff");
    let weak = format!("did:agent:{}", encoding::encode(weak.expect("written above")));
    r.ok("mentions-weak-key", &with(json!([]), &[weak]), json!({}))
        .decision("A mention is checked for syntax: a host that accepts it is not at fault.");

    let mut foreign = Room::full();
    let base = foreign.head;
    let other = Some("d8ftedhpqhsusbg001th");
    let payload = message();
    let envelope = sign_discourse(
        &key(SPEAKER),
        other,
        Some(&base),
        "message.create",
        payload,
        &[],
        foreign.now,
        2,
    )
    .expect("the shape holds, only the room is another");
    foreign.append(envelope, false);
    r.no("event-of-another-room", &foreign, "record_room_mismatch");
    let mut created = Room::full();
    let payload = super::room::creation(json!({}));
    let envelope =
        sign_discourse(&key(CREATOR), None, None, "room.create", payload, &[], created.now, 2)
            .expect("the shape holds, only the place is wrong");
    created.append(envelope, false);
    r.no("created-again", &created, "record_create_position");
    let mut headless = Room::full();
    headless.records.remove(0);
    let out = json!({ "ok": false, "code": "record_gap", "seq": 2 });
    r.0.add(
        "no-creation",
        "room.replay",
        json!({ "room_id": ROOM, "records": headless.text() }),
        out,
    );
}
