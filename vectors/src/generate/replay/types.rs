//! Replay cases about what a room may contain: its contract, defined types, packs.

use serde_json::{Value, json};

use super::super::room::{CREATOR, END, MODERATOR, OBSERVER, ROOM, Room, SPEAKER, START, id};
use super::Replay;

pub(super) fn contract(r: &mut Replay) {
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

pub(super) fn registry(r: &mut Replay) {
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

pub(super) fn packs(r: &mut Replay) {
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
