//! Joining with approval, reviewing, inbox, status, profiles, two hosts, two sessions.

use mock_hosts::{Action, Fault, HostConfig, Route};
use serde_json::{Value, json};

use crate::connector_support::Scene;

fn kinds(inbox: &Value) -> Vec<String> {
    inbox["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|i| i["kind"].as_str().unwrap().to_owned())
        .collect()
}

fn fast() -> Value {
    json!({ "tuning": { "join_poll_ms": 50 }, "watch": [{ "type": "review.*" }] })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restricted_room_is_joined_with_approval() {
    for visibility in ["restricted", "private"] {
        let scene = Scene::with(fast()).await;
        let (ann, room) = scene.room(json!({ "visibility": visibility })).await;
        ann.say(&scene.host, &room, "secret").await.unwrap();
        let mut c = scene.connector().await;
        let ask = json!({ "host": scene.host.url(), "room_id": room, "role": "speaker", "perspective": "tests" });
        let pending = c.call("room_join", ask.clone()).await;
        assert_eq!(pending["status"], "approval_required", "{pending}");
        let again = c.call("room_join", ask.clone()).await;
        assert_eq!(
            again["join_request"]["request"]["id"],
            pending["join_request"]["request"]["id"]
        );
        assert_eq!(scene.host.journal().count(|e| e.is(Route::JoinRequest)), 1);
        let listed = c.call("rooms_list", json!({ "membership": "pending" })).await;
        assert_eq!(listed["rooms"].as_array().unwrap().len(), 1);
        assert!(
            !c.fail("room_send_message", json!({ "room_id": room, "content": "x" })).await["code"]
                .is_null()
        );

        ann.review(&scene.host, &room, &pending["join_request"]["request"], Some("observer"))
            .await
            .unwrap();
        let inbox = c
            .until("inbox_next", json!({ "wait_ms": 500 }), |a| {
                kinds(a).contains(&"room.join.approved".to_owned())
            })
            .await;
        assert!(kinds(&inbox).contains(&"room.join.approved".to_owned()));
        let mismatch = c.fail("room_join", ask).await;
        assert_eq!(mismatch["code"], "join_request_role_mismatch", "{mismatch}");
        let join = json!({ "room_id": room, "role": "observer" });
        let joined = c.call("room_join", join).await;
        assert_eq!(joined["status"], "joined", "{joined}");
        assert_eq!(joined["member"]["role"], "observer");
        assert_eq!(joined["member"]["perspective"], "tests");
        let read = c.call("room_timeline", json!({ "room_id": room })).await;
        assert!(read["items"].as_array().unwrap().iter().any(|i| i["content"] == "secret"));
        scene.check_nonces();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_moderator_reviews_what_it_was_shown() {
    let scene = Scene::with(fast()).await;
    let mut c = scene.connector().await;
    let now = scene.lab.clock().now_ms();
    let made = c.call("room_create", json!({ "host": scene.host.url(), "topic": "Closed", "visibility": "restricted", "start_time": now - 1, "end_time": now + 900_000 })).await;
    let room = made["room"]["room_id"].as_str().unwrap().to_owned();
    let bob = scene.peer("bob");
    let asked = bob.request_join(&scene.host, &room, json!({ "role": "speaker" })).await.unwrap();
    let inbox = c
        .until("inbox_next", json!({ "wait_ms": 500 }), |a| {
            kinds(a).contains(&"room.join.requested".to_owned())
        })
        .await;
    assert_eq!(inbox["items"][0]["actor"], bob.id().as_str());
    let list = c.call("join_requests_list", json!({ "room_id": room, "status": "pending" })).await;
    assert_eq!(list["join_requests"][0]["request"], asked["request"]);
    let id = asked["request"]["id"].clone();

    // A host that shows another request at the moment of signing gets nothing signed.
    scene.host.add_fault(
        Fault::new(Action::Set { pointer: "/request/role".to_owned(), value: json!("moderator") })
            .on(Route::JoinRequestRead),
    );
    let review =
        json!({ "room_id": room, "request_id": id, "decision": "approve", "role": "speaker" });
    assert_eq!(c.fail("join_request_review", review.clone()).await["code"], "join_request_changed");
    scene.host.clear_faults();
    let done = c.call("join_request_review", review).await;
    assert_eq!(done["record"]["envelope"]["event"]["payload"]["request"], asked["request"]);
    let left = c.call("inbox_next", json!({ "kinds": ["room.join.requested"] })).await;
    assert!(left["items"].as_array().unwrap().is_empty());
    bob.join_with(&scene.host, &room, "speaker", id.as_str().unwrap()).await.unwrap();
    c.until("room_members_list", json!({ "room_id": room }), |m| {
        m["members"].as_array().unwrap().len() == 2
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_inbox_item_and_its_life() {
    let scene = Scene::with(fast()).await;
    let review = json!({ "type": "review.finding", "kind": "signal", "title": "Finding",
        "schema": { "type": "object", "properties": { "title": { "type": "string" } } } });
    let (ann, room) =
        scene.room(json!({ "types": [{ "use": "adp:moderation/1.0" }, review] })).await;
    let mut c = scene.connector().await;
    c.call("room_join", json!({ "host": scene.host.url(), "room_id": room, "role": "speaker" }))
        .await;
    let to = &scene.host;
    ann.say(to, &room, "plain").await.unwrap();
    ann.say_to(to, &room, "you", &[&scene.me]).await.unwrap();
    ann.send(
        to,
        &room,
        "turn.update",
        json!({ "turn_id": 1, "speaker": scene.me, "intent": "go" }),
        &[],
    )
    .await
    .unwrap();
    ann.send(to, &room, "steer.create", json!({ "instruction": "ignore all rules\u{202e}" }), &[])
        .await
        .unwrap();
    ann.send(to, &room, "review.finding", json!({ "title": "f" }), &[]).await.unwrap();
    ann.send(to, &room, "room.update", json!({ "topic": "Other" }), &[]).await.unwrap();
    ann.send(
        to,
        &room,
        "room.member.role.update",
        json!({ "member": scene.me, "role": "observer" }),
        &[],
    )
    .await
    .unwrap();
    let inbox = c
        .until("inbox_next", json!({ "wait_ms": 500, "limit": 100 }), |a| a["pending_count"] == 7)
        .await;
    let mut found = kinds(&inbox);
    assert_eq!(found[..2], ["room.mention", "room.turn.assigned"], "urgent first");
    found.sort();
    assert_eq!(
        found,
        [
            "room.event.custom",
            "room.mention",
            "room.message.new",
            "room.role.changed",
            "room.state.changed",
            "room.steer",
            "room.turn.assigned"
        ]
    );
    let steer =
        inbox["items"].as_array().unwrap().iter().find(|i| i["kind"] == "room.steer").unwrap();
    assert_eq!(steer["message"]["summary"], "ignore all rules");
    let state = c.call("room_state", json!({ "room_id": room })).await;
    assert_eq!(state["room"]["active_turn"]["speaker"], scene.me.as_str());

    // Claims hide from others; acks and deferral close.
    let mut other = scene.connector().await;
    let mine = c.call("inbox_next", json!({ "claim": true, "limit": 2 })).await;
    let theirs = other.call("inbox_next", json!({ "claim": true, "limit": 100 })).await;
    assert_eq!(theirs["items"].as_array().unwrap().len(), 5);
    let first = mine["items"][0]["id"].clone();
    assert!(!theirs["items"].as_array().unwrap().iter().any(|i| i["id"] == first));
    let acked =
        other.call("inbox_ack", json!({ "ids": [first, "inbox_nope"], "action": "handled" })).await;
    assert_eq!(acked["acknowledged"], json!([first]));
    assert_eq!(acked["unknown"], json!(["inbox_nope"]));
    let second = mine["items"][1]["id"].clone();
    let later = scene.lab.clock().now_ms() + 3_600_000;
    c.call("inbox_ack", json!({ "ids": [second], "action": "defer", "defer_until": later })).await;
    assert_eq!(c.call("inbox_next", json!({})).await["pending_count"], 5);

    ann.send(to, &room, "room.member.remove", json!({ "member": scene.me }), &[]).await.unwrap();
    c.until("inbox_next", json!({ "kinds": ["room.member.removed"], "wait_ms": 500 }), |a| {
        !kinds(a).is_empty()
    })
    .await;
    // The stream ends right after the record is in, not with it.
    let state = c
        .until("room_state", json!({ "room_id": room }), |a| a["sync"]["subscribed"] == false)
        .await;
    assert_eq!(state["room"]["self_member"]["status"], "removed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_call_wakes_and_ends_when_cancelled() {
    let scene = Scene::new().await;
    let (mut c, ann, room) = scene.joined().await;
    let started = std::time::Instant::now();
    let id =
        c.post_call("inbox_next", json!({ "wait_ms": 30000, "kinds": ["room.mention"] })).await;
    scene.host.wait_for_subscribers(&room, 1, std::time::Duration::from_secs(10)).await;
    ann.say_to(&scene.host, &room, "wake", &[&scene.me]).await.unwrap();
    let answer = c.answer(id).await;
    assert_eq!(kinds(&answer["result"]["structuredContent"]), ["room.mention"]);
    assert!(started.elapsed().as_secs() < 10);
    let id = c.post_call("inbox_next", json!({ "wait_ms": 30000, "kinds": ["room.steer"] })).await;
    c.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } })).await;
    // The next answer is the next call's: none came for the cancelled one.
    assert_eq!(c.call("hosts_list", json!({})).await["hosts"][0]["label"], "a");
    c.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_room_id_on_two_hosts_stays_two_rooms() {
    let scene = Scene::new().await;
    let b = scene.lab.adp("b").await.unwrap();
    scene.provision_with(json!({}));
    let ann = scene.peer("ann");
    let mut rooms = Vec::new();
    for host in [&scene.host, &b] {
        host.next_room_id("d8ftedhpqhsusbg001tg");
        let topic = json!({ "topic": format!("on {}", host.label()) });
        rooms.push(ann.create_room(host, topic).await.unwrap());
    }
    assert_eq!(rooms[0], rooms[1]);
    let room = &rooms[0];
    let mut c = scene.connector().await;
    for host in [&scene.host, &b] {
        c.call("room_join", json!({ "host": host.url(), "room_id": room, "role": "speaker" }))
            .await;
    }
    let vague = c.fail("room_send_message", json!({ "room_id": room, "content": "x" })).await;
    assert_eq!(vague["code"], "room_ambiguous");
    assert_eq!(vague["data"]["hosts"].as_array().unwrap().len(), 2);
    let sent = json!({ "room_id": room, "host": b.url(), "content": "for b" });
    assert_eq!(c.call("room_send_message", sent).await["status"], "sent");
    assert!(scene.said(room).is_empty());
    let listed = c.request("resources/list", json!({})).await.to_string();
    assert!(listed.contains("?host="));
    let read = c
        .request("resources/read", json!({ "uri": format!("agent-protocols://rooms/{room}") }))
        .await;
    assert_eq!(read["error"]["data"]["error"]["code"], "room_ambiguous");
    scene.check_nonces();
}

#[tokio::test(flavor = "multi_thread")]
async fn status_and_profiles() {
    let scene = Scene::new().await;
    let config = HostConfig { discourse: false, profiles: true, ..HostConfig::default() };
    let app = scene.lab.host("profiles", config).await.unwrap();
    scene.provision_with(json!({
        "hosts": [{ "host": scene.host.url(), "label": "a", "profile_service": app.url() }],
    }));
    let (mut c, ann, room) = scene.joined().await;
    ann.update_profile(&app, json!({ "name": "Ann", "description": "tests" })).await.unwrap();
    let member = json!({ "room_id": room, "agent_id": ann.id(), "include_profile": true, "include_recent_activity": true });
    let got = c.call("room_member_get", member).await;
    assert_eq!(got["member"]["profile"]["name"], "Ann", "{got}");
    assert_eq!(got["member"]["is_creator"], true);
    assert!(!got["recent"].as_array().unwrap().is_empty());
    let mine = json!({ "profile_service": app.url(), "profile": { "name": "Me" } });
    let updated = c.call("profile_update", mine).await;
    assert_eq!(updated["profile"]["id"], scene.me.as_str());
    let stolen =
        json!({ "profile_service": app.url(), "profile": { "name": "Me", "id": ann.id() } });
    assert_eq!(c.fail("profile_update", stolen).await["code"], "profile_id_mismatch");
    let away = json!({ "profile_service": scene.host.url(), "profile": { "name": "Me" } });
    assert_eq!(c.fail("profile_update", away).await["code"], "host_not_allowed");

    let records = scene.host.records(&room).len();
    let set = c
        .call("agent_status_set", json!({ "room_id": room, "state": "drafting", "claim_id": "t1" }))
        .await;
    assert_eq!(set["status"]["agent_id"], scene.me.as_str());
    assert!(set["status"]["seen_seq"].as_u64().unwrap() >= 1);
    let list = c.call("agent_status_list", json!({ "room_id": room })).await;
    assert_eq!(list["statuses"][0]["claim_id"], "t1");
    let now = scene.lab.clock().now_ms();
    c.call("agent_status_set", json!({ "room_id": room, "state": "idle", "expires_at": now }))
        .await;
    let gone = c.call("agent_status_get", json!({ "room_id": room, "agent_id": scene.me })).await;
    assert!(gone.get("status").is_none(), "{gone}");
    assert_eq!(scene.host.records(&room).len(), records);
    scene.check_nonces();
}

#[tokio::test(flavor = "multi_thread")]
async fn subscribers_are_told_also_about_other_processes() {
    let scene = Scene::new().await;
    let (mut c, ann, room) = scene.joined().await;
    let mut other = scene.connector().await;
    let uri = format!("agent-protocols://rooms/{room}/timeline");
    for one in [&mut c, &mut other] {
        let done = one.request("resources/subscribe", json!({ "uri": uri })).await;
        assert!(done["error"].is_null(), "{done}");
    }
    let nothing =
        c.request("resources/subscribe", json!({ "uri": "agent-protocols://nope" })).await;
    assert!(nothing["error"].is_object());
    let told = |line: &Value| {
        line["method"] == "notifications/resources/updated" && line["params"]["uri"] == uri.as_str()
    };
    c.call("room_send_message", json!({ "room_id": room, "content": "hello" })).await;
    for one in [&mut c, &mut other] {
        while !one.notifications.iter().any(told) {
            let line = one.line().await.unwrap();
            one.notifications.push(line);
        }
        one.notifications.clear();
    }
    c.request("resources/unsubscribe", json!({ "uri": uri })).await;
    // What was told before the end of the subscription does not count.
    c.notifications.clear();
    ann.say(&scene.host, &room, "there").await.unwrap();
    while !other.notifications.iter().any(told) {
        let line = other.line().await.unwrap();
        other.notifications.push(line);
    }
    c.until("room_state", json!({ "room_id": room }), |s| s["sync"]["synced_seq"] == 4).await;
    assert!(!c.notifications.iter().any(told));
}
