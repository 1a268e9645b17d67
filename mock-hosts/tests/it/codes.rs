//! All 29 error codes, each reached at the wire by honest rules alone.

use std::collections::BTreeSet;

use ap_protocol::ErrorCode;
use mock_hosts::{Limits, PeerError};
use serde_json::{Value, json};

use crate::support::{Stage, refused};

struct Reached<'a> {
    stage: &'a Stage,
    codes: BTreeSet<String>,
}

impl Reached<'_> {
    #[track_caller]
    fn got<T: std::fmt::Debug>(&mut self, result: Result<T, PeerError>, code: &str) {
        if let Err(PeerError::Host(e)) = &result {
            let status = ErrorCode::from_text(code).unwrap().http_status();
            assert_eq!(e.status, status, "status of {code}");
            assert!(!e.message.is_empty());
        }
        refused(result, code);
        self.codes.insert(code.to_owned());
    }
}

fn message(text: &str) -> Value {
    json!({ "content_type": "text/plain", "content": text })
}

#[tokio::test]
async fn every_code_is_reachable() {
    let s = Stage::new().await;
    let (ann, bob, eve, host) = (&s.ann, &s.bob, &s.eve, &s.host);
    let mut r = Reached { stage: &s, codes: BTreeSet::new() };
    let room = s.shared_room().await;

    envelope_stages(&mut r, &room).await;

    r.got(ann.room(host, "nowhere").await, "room_not_found");
    r.got(eve.say(host, &room, "x").await, "membership_required");
    r.got(bob.send(host, &room, "room.close", json!({}), &[]).await, "permission_denied");
    let (head, _) = ann.tips(host, &room).await.unwrap();
    host.move_head(&room, 1).unwrap();
    let stale = ann.sign(Some(&room), Some(&head), "message.create", message("x"), &[]).unwrap();
    r.got(ann.post(host, &stale).await, "room_head_mismatch");
    let foreign = ap_protocol::Tip { seq: 2, hash: ap_protocol::Hash::of(b"no record") };
    let astray = bob.sign(Some(&room), Some(&foreign), "room.leave", json!({}), &[]).unwrap();
    r.got(bob.post(host, &astray).await, "base_record_mismatch");
    let path = format!("/v1/rooms/{room}/agent-status/{}", bob.id());
    r.got(bob.get(host, &path).await, "agent_status_not_found");

    types(&mut r, &room).await;
    membership(&mut r).await;

    // Life: not yet, no more.
    let now = host.clock().now_ms();
    let later = json!({ "start_time": now + 60_000, "end_time": now + 120_000 });
    let scheduled = ann.create_room(host, later).await.unwrap();
    r.got(ann.say(host, &scheduled, "early").await, "room_not_active");
    ann.send(host, &room, "room.close", json!({}), &[]).await.unwrap();
    r.got(ann.say(host, &room, "late").await, "room_ended");

    // Quotas, once switched on.
    let busy = s.room().await;
    host.set_limits(Limits { messages_per_minute: Some(1), ..Limits::default() });
    ann.say(host, &busy, "one").await.unwrap();
    let over = ann.say(host, &busy, "two").await;
    assert_eq!(over.as_ref().unwrap_err().host_error().unwrap().retry_after.as_deref(), Some("60"));
    r.got(over, "rate_limited");
    host.set_limits(Limits { payload_bytes: Some(100), ..Limits::default() });
    r.got(ann.say(host, &busy, &"x".repeat(200)).await, "payload_too_large");

    let all: BTreeSet<String> = ErrorCode::ALL.iter().map(|c| c.as_str().to_owned()).collect();
    let missing: Vec<&String> = all.difference(&r.codes).collect();
    assert!(missing.is_empty(), "not reached: {missing:?}");
    assert_eq!(all.len(), 29);
}

async fn envelope_stages(r: &mut Reached<'_>, room: &str) {
    let s = r.stage;
    let (ann, host) = (&s.ann, &s.host);
    let (head, _) = ann.tips(host, room).await.unwrap();
    let sign = || ann.sign(Some(room), Some(&head), "message.create", message("x"), &[]).unwrap();
    let mut open = sign();
    open["event"]["colour"] = json!("green");
    r.got(ann.post(host, &open).await, "invalid_event");
    let mut changed = sign();
    changed["event"]["payload"]["content"] = json!("y");
    r.got(ann.post(host, &changed).await, "invalid_event_hash");
    let mut resigned = sign();
    resigned["signature"] = s.eve.sign_raw(resigned["event"].clone())["signature"].clone();
    r.got(ann.post(host, &resigned).await, "invalid_signature");
    let mut event = sign()["event"].clone();
    event["actor"] = json!("did:agent:nobody");
    r.got(ann.post(host, &ann.sign_raw(event)).await, "invalid_actor");
    let mut event = sign()["event"].clone();
    event["created_at"] = json!(host.clock().now_ms() - 301_000);
    r.got(ann.post(host, &ann.sign_raw(event)).await, "timestamp_out_of_window");
    let mut event = sign()["event"].clone();
    event["nonce"] = json!(1);
    let old = ann.post(host, &ann.sign_raw(event)).await;
    let seen = old.as_ref().unwrap_err().host_error().unwrap().max_seen_nonce.clone().unwrap();
    r.got(old, "nonce_not_greater");
    let greatest = host.records(room)[0]["envelope"]["event"]["nonce"].as_u64().unwrap();
    assert_eq!(seen, greatest.to_string(), "ann wrote nothing else");
    let path = format!("/v1/rooms/{room}/events/live");
    r.got(ann.request(http::Method::GET, host, &path, None, false).await, "invalid_token");
    ann.post(host, &sign()).await.unwrap();
}

async fn types(r: &mut Reached<'_>, room: &str) {
    let (ann, host) = (&r.stage.ann, &r.stage.host);
    let mood = json!({ "mood": 1 });
    r.got(ann.send(host, room, "mood.note", mood.clone(), &[]).await, "type_not_defined");
    let mut def = json!({
        "type": "mood.note", "kind": "signal", "title": "A mood",
        "schema": { "type": "object", "required": ["mood"],
                    "properties": { "mood": { "type": "integer" } } },
    });
    ann.send(host, room, "type.define", def.clone(), &[]).await.unwrap();
    ann.send(host, room, "mood.note", mood.clone(), &[]).await.unwrap();
    let wrong = ann.send(host, room, "mood.note", json!({ "mood": "high" }), &[]).await;
    assert_eq!(wrong.as_ref().unwrap_err().data()["path"], "/mood");
    r.got(wrong, "payload_schema_violation");
    def["status"] = json!("disabled");
    ann.send(host, room, "type.define", def, &[]).await.unwrap();
    r.got(ann.send(host, room, "mood.note", mood, &[]).await, "type_disabled");
    let pack = json!({ "pack": "https://packs.example/none",
                       "digest": format!("sha256:{}", "A".repeat(43)) });
    r.got(ann.send(host, room, "type.define", pack, &[]).await, "pack_unavailable");
}

async fn membership(r: &mut Reached<'_>) {
    let (ann, bob, eve, host) = (&r.stage.ann, &r.stage.bob, &r.stage.eve, &r.stage.host);
    let policy = json!({ "policy": { "max_speakers": 1, "observer_allowed": false } });
    let small = ann.create_room(host, policy).await.unwrap();
    r.got(bob.join(host, &small, "speaker").await, "max_speakers_exceeded");
    r.got(bob.join(host, &small, "observer").await, "role_not_allowed");
    let ban = json!({ "member": eve.id(), "ban": true });
    ann.send(host, &small, "room.member.remove", ban, &[]).await.unwrap();
    r.got(eve.join(host, &small, "speaker").await, "member_banned");

    let closed = ann.create_room(host, json!({ "visibility": "restricted" })).await.unwrap();
    r.got(bob.join(host, &closed, "speaker").await, "approval_required");
    r.got(bob.join_with(host, &closed, "speaker", "none").await, "join_request_not_found");
    let filed = bob.request_join(host, &closed, json!({ "role": "speaker" })).await.unwrap();
    let id = filed["request"]["id"].as_str().unwrap();
    r.got(bob.join_with(host, &closed, "speaker", id).await, "join_request_not_approved");
    ann.review(host, &closed, &filed["request"], Some("observer")).await.unwrap();
    r.got(bob.join_with(host, &closed, "speaker", id).await, "join_request_role_mismatch");
    let expires = filed["request"]["expires_at"].as_u64().unwrap();
    let long = json!({ "visibility": "restricted", "end_time": expires + 10_000_000 });
    let patient = ann.create_room(host, long).await.unwrap();
    let filed = bob.request_join(host, &patient, json!({ "role": "speaker" })).await.unwrap();
    ann.review(host, &patient, &filed["request"], Some("speaker")).await.unwrap();
    host.clock().set(filed["request"]["expires_at"].as_u64().unwrap() + 1);
    let id = filed["request"]["id"].as_str().unwrap();
    r.got(bob.join_with_base(host, &patient, "speaker", id).await, "join_request_expired");
    host.clock().follow_system();
}
