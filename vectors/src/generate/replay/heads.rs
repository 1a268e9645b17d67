//! Replay cases about where an event stands: bases, and records that only look right.

use ap_protocol::encoding;
use ap_protocol::record::sign_discourse;
use serde_json::{Value, json};

use super::super::room::{
    Base, CREATOR, OBSERVER, ROOM, Room, SPEAKER, STRANGER, id, key, request,
};
use super::{Replay, message};
use crate::answer::unhex;

pub(super) fn bases(r: &mut Replay) {
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

pub(super) fn guards(r: &mut Replay) {
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
    let payload = super::super::room::creation(json!({}));
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
