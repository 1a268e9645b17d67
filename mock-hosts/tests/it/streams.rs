//! Live streams by the book: who may listen, what arrives, what ends them; and agent status.

use mock_hosts::{End, HostConfig};
use serde_json::json;

use crate::support::{SOON, Stage, Stream, refused};

#[tokio::test]
async fn only_active_members_listen_and_only_while_they_are() {
    let s = Stage::new().await;
    let room = s.shared_room().await;
    let path = format!("/v1/rooms/{room}/events/live");
    refused(s.eve.get(&s.host, &path).await, "membership_required");
    let anonymous = s.eve.request(http::Method::GET, &s.host, &path, None, false).await;
    refused(anonymous, "invalid_token");
    let mut bob = Stream::open(&s.host, &room, &s.bob).await;
    let mut ann = Stream::open(&s.host, &room, &s.ann).await;
    let removal = json!({ "member": s.bob.id() });
    s.ann.send(&s.host, &room, "room.member.remove", removal, &[]).await.unwrap();
    assert_eq!(bob.seqs(1).await, [3], "the removal itself still arrives");
    assert_eq!(bob.next().await, None, "then the stream ends");
    assert_eq!(ann.seqs(1).await, [3]);
    assert_eq!(s.host.live_subscribers(&room), 1);
}

#[tokio::test]
async fn join_requests_reach_reviewers_only() {
    let s = Stage::new().await;
    let room = s.ann.create_room(&s.host, json!({ "visibility": "restricted" })).await.unwrap();
    let filed = s.bob.request_join(&s.host, &room, json!({ "role": "speaker" })).await.unwrap();
    s.ann.review(&s.host, &room, &filed["request"], Some("speaker")).await.unwrap();
    let id = filed["request"]["id"].as_str().unwrap();
    s.bob.join_with(&s.host, &room, "speaker", id).await.unwrap();
    let mut ann = Stream::open(&s.host, &room, &s.ann).await;
    let mut bob = Stream::open(&s.host, &room, &s.bob).await;
    let filed = s.eve.request_join(&s.host, &room, json!({ "role": "observer" })).await.unwrap();
    s.ann.say(&s.host, &room, "a request came in").await.unwrap();
    let (name, data) = ann.next().await.unwrap();
    assert_eq!(name, "room.join_request");
    let item = ap_protocol::json::parse(data.as_bytes()).unwrap();
    assert_eq!(item["request_id"], filed["request"]["id"]);
    assert_eq!(item["applicant"], json!(s.eve.id()));
    assert_eq!(ann.next().await.unwrap().0, "room.event");
    assert_eq!(bob.next().await.unwrap().0, "room.event", "bob is told nothing of the request");
}

#[tokio::test]
async fn status_is_capped_cleared_and_no_record() {
    let s = Stage::new().await;
    s.host.clock().freeze();
    let room = s.shared_room().await;
    let now = s.host.clock().now_ms();
    let mut stream = Stream::open(&s.host, &room, &s.ann).await;
    let wish =
        json!({ "state": "drafting", "summary": "an answer", "expires_at": now + 9_000_000 });
    let stored = s.bob.put_status(&s.host, &room, wish).await.unwrap();
    assert_eq!(stored["expires_at"], now + 300_000, "capped");
    assert_eq!(stored["agent_id"], json!(s.bob.id()));
    assert_eq!(stream.next().await.unwrap().0, "room.agent_status");
    let list = format!("/v1/rooms/{room}/agent-status");
    let one = format!("{list}/{}", s.bob.id());
    assert_eq!(s.ann.get(&s.host, &one).await.unwrap()["status"], stored);
    assert_eq!(s.ann.get(&s.host, &list).await.unwrap()["statuses"], json!([stored]));
    assert_eq!(s.host.records(&room).len(), 2, "no record");
    s.host.clock().advance(300_000);
    refused(s.ann.get(&s.host, &one).await, "agent_status_not_found");
    // Clearing by an expiry that is now.
    s.bob.put_status(&s.host, &room, json!({ "state": "working" })).await.unwrap();
    let now = s.host.clock().now_ms();
    let clear = json!({ "state": "idle", "expires_at": now });
    s.bob.put_status(&s.host, &room, clear).await.unwrap();
    refused(s.ann.get(&s.host, &one).await, "agent_status_not_found");
    // Demotion clears, and observers write none.
    s.bob.put_status(&s.host, &room, json!({ "state": "working" })).await.unwrap();
    let demote = json!({ "member": s.bob.id(), "role": "observer" });
    s.ann.send(&s.host, &room, "room.member.role.update", demote, &[]).await.unwrap();
    refused(s.ann.get(&s.host, &one).await, "agent_status_not_found");
    let again = s.bob.put_status(&s.host, &room, json!({ "state": "working" })).await;
    refused(again, "permission_denied");
    let stranger = s.eve.put_status(&s.host, &room, json!({ "state": "working" })).await;
    refused(stranger, "membership_required");
    for bad in [json!({}), json!({ "state": 1 }), json!({ "state": "x", "colour": "red" })] {
        refused(s.ann.put_status(&s.host, &room, bad).await, "invalid_request");
    }
}

#[tokio::test]
async fn quiet_streams_beat_and_can_be_cut() {
    let s = Stage::with(HostConfig { heartbeat_ms: 5, ..HostConfig::default() }).await;
    let room = s.shared_room().await;
    let url = format!("{}/v1/rooms/{room}/events/live", s.host.url());
    let request = crate::support::http().get(url).bearer_auth(s.bob.token(s.host.url()));
    let mut response = request.send().await.unwrap();
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let mut seen = String::new();
    while !seen.contains(": heartbeat\n\n") {
        seen.push_str(&String::from_utf8_lossy(&response.chunk().await.unwrap().unwrap()));
    }
    assert!(seen.starts_with(": welcome\n\n"), "{seen}");
    assert_eq!(s.host.cut_streams(&room, End::Finish), 1);
    while response.chunk().await.unwrap().is_some() {}
    assert!(s.host.wait_for_subscribers(&room, 0, SOON).await);
}
