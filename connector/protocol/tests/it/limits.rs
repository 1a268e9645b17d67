//! Quotas refuse at a host, and only there.

use ap_protocol::limits::{HostLimits, PROFILE_ITEMS, check_profile};
use serde_json::{Value, json};

use crate::support::{Host, START, message};

/// What the limits say about the host's latest record, replay having accepted it.
fn verdict(limits: HostLimits, host: &Host) -> Option<&'static str> {
    let envelope = host.records.last().unwrap().envelope();
    limits.check(&host.state, envelope, host.now).err().map(|e| e.code.as_str())
}

fn room(changes: Value) -> Host {
    Host::new(changes)
}

#[test]
fn recommended_quotas_refuse_what_replay_accepts() {
    let on = HostLimits::RECOMMENDED;
    assert_eq!(verdict(on, &room(json!({}))), None);
    for (changes, code) in [
        (json!({ "end_time": START + 60_000 }), "invalid_event"),
        (json!({ "end_time": START + 8 * 24 * 3_600_000u64 }), "invalid_event"),
        (json!({ "start_time": START - 1_000_000, "end_time": START + 9_000 }), "invalid_event"),
        (json!({ "extra": { "x": "y".repeat(70_000) } }), "payload_too_large"),
        (
            json!({ "types": (0..65).map(|i| json!({
            "type": format!("a.t{i}"), "kind": "signal", "title": "x", "schema": {},
        })).collect::<Vec<_>>() }),
            "payload_too_large",
        ),
        (
            json!({ "types": [{
            "type": "a.b", "kind": "signal", "title": "x", "schema": { "description": "d".repeat(17_000) },
        }] }),
            "payload_too_large",
        ),
    ] {
        let host = room(changes);
        assert_eq!(verdict(on, &host), Some(code));
        assert_eq!(verdict(HostLimits::OFF, &host), None);
    }
}

#[test]
fn payload_hints_move_the_limit_up_to_the_ceiling() {
    let hinted = |hint: u64, size: usize| {
        let mut host = room(json!({ "types": [{
            "type": "a.b", "kind": "signal", "title": "x", "schema": {}, "max_payload_hint": hint,
        }] }));
        host.say(1, "a.b", json!({ "x": "y".repeat(size) }));
        verdict(HostLimits::RECOMMENDED, &host)
    };
    assert_eq!(hinted(200_000, 150_000), None);
    assert_eq!(hinted(200_000, 250_000), Some("payload_too_large"));
    assert_eq!(hinted(9_000_000, 250_000), None);
    assert_eq!(hinted(9_000_000, 270_000), Some("payload_too_large"));
    assert_eq!(hinted(1_000, 2_000), Some("payload_too_large"));
    let mut host = room(json!({}));
    host.say(1, "message.create", message(&"y".repeat(70_000)));
    assert_eq!(verdict(HostLimits::RECOMMENDED, &host), Some("payload_too_large"));
}

#[test]
fn a_full_room_is_full() {
    let limits = HostLimits { speakers: Some(2), observers: Some(1), ..HostLimits::OFF };
    let mut host = room(json!({}));
    host.say(2, "room.join", json!({ "role": "speaker" }));
    assert_eq!(verdict(limits, &host), None);
    host.say(3, "room.join", json!({ "role": "observer" }));
    assert_eq!(verdict(limits, &host), None);
    host.say(4, "room.join", json!({ "role": "observer" }));
    assert_eq!(verdict(limits, &host), Some("max_speakers_exceeded"));
}

#[test]
fn profile_sizes_are_taken_up_to_the_limit_and_not_beyond() {
    let fits = |member: &str, value: Value| {
        let payload = json!({ "id": "x", "name": "n", member: value });
        check_profile(payload.as_object().unwrap()).is_ok()
    };
    // Characters are Unicode scalar values, not bytes.
    let text = |n: usize| json!("\u{1F600}".repeat(n));
    assert!(fits("name", text(128)) && !fits("name", text(129)));
    assert!(!fits("name", json!(" ")));
    assert!(fits("description", text(2048)) && !fits("description", text(2049)));
    assert!(fits("avatar_url", json!("https://a.example/a.png")));
    assert!(!fits("avatar_url", json!("http://a.example/a.png")));
    for (member, most) in PROFILE_ITEMS {
        assert!(fits(member, json!(vec![1; most])) && !fits(member, json!(vec![1; most + 1])));
    }
    let extra = |bytes: usize| json!({ "x": "y".repeat(bytes - 8) });
    assert!(fits("extra", extra(32 * 1024)) && !fits("extra", extra(32 * 1024 + 1)));
}
