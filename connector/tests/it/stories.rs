//! Whole stories: a real connector process, real mock hosts, other agents.

use serde_json::{Value, json};

use crate::connector_support::Scene;

#[tokio::test(flavor = "multi_thread")]
async fn join_read_and_talk() {
    let scene = Scene::new().await;
    let (mut c, ann, room) = scene.joined().await;
    ann.say(&scene.host, &room, "hello").await.unwrap();
    let at = json!({ "room_id": room, "refresh": true, "unread_only": true, "mark_read": true });
    let read = c.call("room_timeline", at).await;
    assert_eq!(read["items"].as_array().unwrap().last().unwrap()["content"], "hello");
    assert_eq!(read["sync"]["unread_count"], 0);
    let sent = c.call("room_send_message", json!({ "room_id": room, "content": "hi" })).await;
    assert_eq!(sent["status"], "sent", "{sent}");
    assert_eq!(sent["sync"]["head_seq"], sent["record"]["seq"]);
    assert_eq!(scene.said(&room), ["hi"]);
    let state = c.call("room_state", json!({ "room_id": room })).await;
    assert_eq!(state["room"]["self_member"]["role"], "speaker");
    assert_eq!(state["room"]["members_count"], 2);
    scene.check_nonces();
    c.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_room_moves_and_the_draft_is_held() {
    let scene = Scene::new().await;
    let (mut c, ann, room) = scene.joined().await;
    c.call("room_state", json!({ "room_id": room })).await;
    ann.say(&scene.host, &room, "wait").await.unwrap();
    let held = c.call("room_send_message", json!({ "room_id": room, "content": "A" })).await;
    assert_eq!(held["status"], "held", "{held}");
    assert_eq!(held["draft"]["draft"]["content"], "A");
    assert!(held["changes"].as_array().unwrap().iter().any(|i| i["content"] == "wait"));
    assert!(scene.said(&room).is_empty());
    let id = held["draft"]["id"].clone();
    let revised = json!({ "draft_id": id, "action": "revise", "content": "B" });
    let sent = c.call("draft_commit", revised.clone()).await;
    assert_eq!(sent["status"], "sent", "{sent}");
    assert_eq!(scene.said(&room), ["B"]);
    assert_eq!(c.fail("draft_commit", revised).await["code"], "draft_not_found");

    ann.say(&scene.host, &room, "again").await.unwrap();
    let forced = json!({ "room_id": room, "content": "C", "on_head_mismatch": "send_anyway" });
    assert_eq!(c.call("room_send_message", forced).await["status"], "sent");
    ann.say(&scene.host, &room, "and again").await.unwrap();
    let rejected = json!({ "room_id": room, "content": "D", "on_head_mismatch": "reject" });
    let rejected = c.call("room_send_message", rejected).await;
    assert_eq!(rejected["status"], "rejected");
    assert_eq!(rejected["changes"].as_array().unwrap().last().unwrap()["content"], "and again");
    assert_eq!(scene.said(&room), ["B", "C"]);
    scene.check_nonces();
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_is_still_there_after_a_restart() {
    let scene = Scene::new().await;
    let (mut c, ann, room) = scene.joined().await;
    c.call("room_send_message", json!({ "room_id": room, "content": "one" })).await;
    ann.say_to(&scene.host, &room, "you there?", &[&scene.me]).await.unwrap();
    let inbox = c
        .until("inbox_next", json!({ "wait_ms": 1000 }), |a| {
            a["items"].as_array().is_some_and(|i| !i.is_empty())
        })
        .await;
    assert_eq!(inbox["items"][0]["kind"], "room.mention");
    let before = c.call("room_state", json!({ "room_id": room })).await;
    c.kill().await;
    let mut c = scene.connector().await;
    let after = c.call("room_state", json!({ "room_id": room })).await;
    assert_eq!(after["room"]["self_member"], before["room"]["self_member"]);
    assert_eq!(after["sync"]["head_hash"], before["sync"]["head_hash"]);
    let again = c.call("inbox_next", json!({})).await;
    assert_eq!(again["items"], inbox["items"]);
    c.call("room_send_message", json!({ "room_id": room, "content": "two" })).await;
    assert_eq!(scene.said(&room), ["one", "two"]);
    scene.check_nonces();
}

#[tokio::test(flavor = "multi_thread")]
async fn create_a_room_and_see_it() {
    let scene = Scene::new().await;
    let mut c = scene.connector().await;
    let now = scene.lab.clock().now_ms();
    let created = c
        .call(
            "room_create",
            json!({
                "host": scene.host.url(), "topic": "New", "visibility": "public",
                "start_time": now - 1000, "end_time": now + 3_600_000,
                "types": [{ "use": "adp:reactions/1.0" }],
            }),
        )
        .await;
    let room = created["room"]["room_id"].as_str().unwrap().to_owned();
    assert_eq!(created["sync"]["head_seq"], 1);
    let sent = c.call("room_send_message", json!({ "room_id": room, "content": "first" })).await;
    assert_eq!(sent["status"], "sent", "{sent}");
    let reaction = json!({ "room_id": room, "type": "reaction.create",
        "payload": { "event_id": sent["item"]["event_id"], "reaction": "+1", "score": 0.5 } });
    let reacted = c.call("room_submit_event", reaction).await;
    assert_eq!(reacted["status"], "sent");
    assert_eq!(reacted["sync"]["head_seq"], 2);
    assert_eq!(reacted["sync"]["synced_seq"], 3);
    let bad = json!({ "room_id": room, "type": "reaction.create", "payload": { "reaction": "" } });
    assert_eq!(c.fail("room_submit_event", bad).await["code"], "payload_schema_violation");
    let unknown = json!({ "room_id": room, "type": "no.such", "payload": {} });
    assert_eq!(c.fail("room_submit_event", unknown).await["code"], "type_not_defined");
    let rooms = c.call("rooms_list", json!({ "membership": "creator" })).await;
    assert_eq!(rooms["rooms"][0]["room_id"], room.as_str());
    scene.check_nonces();
}

#[tokio::test(flavor = "multi_thread")]
async fn every_tool_and_resource_is_listed() {
    let scene = Scene::new().await;
    let mut c = scene.connector().await;
    let tools = c.request("tools/list", json!({})).await;
    let tools = tools["result"]["tools"].as_array().unwrap().clone();
    assert_eq!(tools.len(), 27);
    for t in &tools {
        for hint in ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"] {
            assert!(t["annotations"][hint].is_boolean(), "{} {hint}", t["name"]);
        }
        assert!(t["outputSchema"].is_object());
    }
    let who = c.call("identity_current", json!({})).await;
    assert_eq!(who["agent_id"], scene.me.as_str());
    assert!(who["hosts"][0]["features"].as_array().unwrap().iter().any(|f| f == "rooms"));
    let refused = c.fail("identity_current", json!({ "x": 1 })).await;
    assert_eq!(
        (refused["code"].as_str(), refused["data"]["path"].as_str()),
        (Some("invalid_input"), Some("/x"))
    );
    let resources = c.request("resources/list", json!({})).await;
    assert!(resources["result"]["resources"].as_array().unwrap().len() >= 5);
    let read =
        c.request("resources/read", json!({ "uri": "agent-protocols://identity/current" })).await;
    let text: Value =
        serde_json::from_str(read["result"]["contents"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(text["agent_id"], scene.me.as_str());
}
