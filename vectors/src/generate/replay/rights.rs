//! Replay cases about who may do what, and when: creation, authority, the states of a room.

use serde_json::{Value, json};

use super::super::room::{
    CREATOR, END, MODERATOR, OBSERVER, Room, SPEAKER, START, STRANGER, id, request,
};
use super::{Replay, members, message};

pub(super) fn creation(r: &mut Replay) {
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

pub(super) fn authority(r: &mut Replay) {
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

pub(super) fn states(r: &mut Replay) {
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
