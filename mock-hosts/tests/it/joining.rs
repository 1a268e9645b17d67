//! Join requests from filing to joining, and who may read what meanwhile.

use serde_json::json;

use crate::support::{Stage, history, refused, verify};

#[tokio::test]
async fn an_approved_applicant_reads_the_head_joins_once_and_reads_the_rest() {
    let s = Stage::new().await;
    let (host, ann, bob, eve) = (&s.host, &s.ann, &s.bob, &s.eve);
    for visibility in ["restricted", "private"] {
        let room = ann.create_room(host, json!({ "visibility": visibility })).await.unwrap();
        let outside = bob.room(host, &room).await;
        match visibility {
            "restricted" => assert_eq!(outside.unwrap()["seq"], 1),
            _ => refused(outside, "membership_required"),
        }
        let events = format!("/v1/rooms/{room}/events");
        refused(bob.get(host, &events).await, "membership_required");
        let archive = format!("/v1/rooms/{room}/archive");
        refused(bob.get(host, &archive).await, "membership_required");
        let anonymous = bob.request(http::Method::GET, host, &events, None, false).await;
        refused(anonymous, "invalid_token");

        let input = json!({ "role": "speaker", "perspective": "tester", "reason": "please" });
        let filed = bob.request_join(host, &room, input).await.unwrap();
        assert_eq!(filed["status"], "pending");
        assert_eq!(filed["request"]["applicant"], json!(bob.id()));
        let list = format!("/v1/rooms/{room}/join-requests");
        refused(bob.get(host, &list).await, "permission_denied");
        let id = filed["request"]["id"].as_str().unwrap();
        let one = format!("{list}/{id}");
        refused(eve.get(host, &one).await, "permission_denied");
        let pending = ann.get(host, &format!("{list}?status=pending")).await.unwrap();
        assert_eq!(pending["result"][0]["request"], filed["request"]);

        // What is signed must be what was filed.
        let mut forged = filed["request"].clone();
        forged["role"] = json!("moderator");
        refused(ann.review(host, &room, &forged, Some("moderator")).await, "invalid_event");
        ann.review(host, &room, &filed["request"], Some("speaker")).await.unwrap();
        let seen = bob.get(host, &one).await.unwrap();
        assert_eq!(
            (&seen["status"], &seen["approved_role"]),
            (&json!("approved"), &json!("speaker"))
        );
        assert_eq!(seen["reviewed_by"], json!(ann.id()));
        assert_eq!(seen["request"], filed["request"], "the request never changes");
        assert_eq!(bob.room(host, &room).await.unwrap()["head"]["seq"], 1);
        refused(bob.get(host, &events).await, "membership_required");

        bob.join_with(host, &room, "speaker", id).await.unwrap();
        let state = verify(&room, &history(host, &room, bob).await).unwrap();
        let member = &state.members[&bob.id()];
        assert_eq!(member.perspective.as_deref(), Some("tester"), "the request's perspective");
        bob.leave(host, &room).await.unwrap();
        if visibility == "restricted" {
            let again = bob.join_with(host, &room, "speaker", id).await;
            refused(again, "join_request_not_approved");
        }
    }
}

#[tokio::test]
async fn a_rejected_request_stays_rejected() {
    let s = Stage::new().await;
    let room = s.ann.create_room(&s.host, json!({ "visibility": "restricted" })).await.unwrap();
    let filed = s.bob.request_join(&s.host, &room, json!({ "role": "speaker" })).await.unwrap();
    s.ann.review(&s.host, &room, &filed["request"], None).await.unwrap();
    let id = filed["request"]["id"].as_str().unwrap();
    let path = format!("/v1/rooms/{room}/join-requests/{id}");
    assert_eq!(s.bob.get(&s.host, &path).await.unwrap()["status"], "rejected");
    let joined = s.bob.join_with(&s.host, &room, "speaker", id).await;
    refused(joined, "join_request_not_approved");
    let late = s.ann.review(&s.host, &room, &filed["request"], Some("speaker")).await;
    refused(late, "join_request_not_found");
}

#[tokio::test]
async fn public_rooms_approve_by_themselves_but_never_moderators() {
    let s = Stage::new().await;
    let listed = json!({ "policy": { "moderator_agent_ids": [s.eve.id()] } });
    let room = s.ann.create_room(&s.host, listed).await.unwrap();
    let filed = s.bob.request_join(&s.host, &room, json!({ "role": "speaker" })).await.unwrap();
    assert_eq!(filed["status"], "approved");
    let wish = s.bob.request_join(&s.host, &room, json!({ "role": "moderator" })).await.unwrap();
    assert_eq!(wish["status"], "pending");
    refused(s.bob.join(&s.host, &room, "moderator").await, "role_not_allowed");
    s.eve.join(&s.host, &room, "moderator").await.unwrap();
    let id = filed["request"]["id"].as_str().unwrap();
    s.bob.join_with(&s.host, &room, "speaker", id).await.unwrap();
    refused(s.bob.join(&s.host, &room, "speaker").await, "invalid_event");
    for bad in [json!({}), json!({ "role": "king" }), json!({ "role": "speaker", "x": 1 })] {
        refused(s.bob.request_join(&s.host, &room, bad).await, "invalid_request");
    }
}

#[tokio::test]
async fn tokens_are_for_one_host_and_a_few_minutes() {
    let s = Stage::new().await;
    let room = s.ann.create_room(&s.host, json!({ "visibility": "private" })).await.unwrap();
    let url = format!("{}/v1/rooms/{room}", s.host.url());
    let now = s.host.clock().now_secs();
    let sign = |aud: &str, iat: u64| ap_protocol::jwt::sign(s.ann.key(), aud, iat, 300);
    let good = sign(s.host.url(), now);
    let answer = |token: String| {
        let request = crate::support::http().get(&url).bearer_auth(token);
        async move { request.send().await.unwrap().status().as_u16() }
    };
    assert_eq!(answer(good).await, 200);
    assert_eq!(answer(sign("http://127.0.0.1:1", now)).await, 401, "another audience");
    assert_eq!(answer(sign(s.host.url(), now - 400)).await, 401, "expired");
    assert_eq!(answer(sign(s.host.url(), now + 120)).await, 401, "from the future");
    assert_eq!(answer("not.a.token".to_owned()).await, 401);
    let entry = s.host.journal().matching(|e| e.token_error.is_some()).remove(0);
    assert_eq!(entry.claims.unwrap()["aud"], "http://127.0.0.1:1", "decoded all the same");
}
