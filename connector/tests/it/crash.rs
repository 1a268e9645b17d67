//! Processes that die, share a directory, or come back from a backup: nothing lost, nothing
//! doubled, no nonce used twice. `AP_SOAK_KILLS` sets the number of kills (default 25).

use std::time::Duration;

use mock_hosts::{Action, Fault, HoldAt, Route};
use serde_json::{Value, json};

use crate::connector_support::{Connector, PATIENCE, Scene};

fn status(answer: &Value) -> &str {
    answer["result"]["structuredContent"]["status"].as_str().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_between_signature_and_answer() {
    for at in [HoldAt::Before, HoldAt::After] {
        let scene = Scene::new().await;
        let (mut c, ann, room) = scene.joined().await;
        scene.host.add_fault(
            Fault::new(Action::Hold { at }).on(Route::Submit).for_agent(&scene.me).once(),
        );
        c.post_call("room_send_message", json!({ "room_id": room, "content": "once" })).await;
        assert!(scene.host.step().wait_held(1, Duration::from_secs(10)).await);
        c.kill().await;
        scene.host.step().release_all();
        let mut c = scene.connector().await;
        // The agent was told nothing, so it says it again.
        let again =
            c.call("room_send_message", json!({ "room_id": room, "content": "once" })).await;
        let said = scene.said(&room);
        match again["status"].as_str() {
            Some("sent") => assert!(said.len() <= 2, "{at:?}"),
            Some("held") => assert_eq!(said, ["once"], "{at:?}"),
            other => panic!("{at:?}: {other:?}"),
        }
        ann.say(&scene.host, &room, "next").await.unwrap();
        scene.check_nonces();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_again_and_again_under_load() {
    let kills: u32 = std::env::var("AP_SOAK_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(25);
    let scene = Scene::with(json!({ "tuning": { "writes_per_minute": 1_000_000 } })).await;
    let (c, _ann, room) = scene.joined().await;
    c.kill().await;
    let mut sent = Vec::new();
    let mut random: u32 = 0x2545_f491;
    for round in 0..kills {
        let mut c = scene.connector().await;
        random ^= random << 13;
        random ^= random >> 17;
        random ^= random << 5;
        // Killed when the host has seen so many more requests: somewhere in a write, however
        // fast or busy the machine is.
        let mark = scene.host.journal().mark();
        let enough = u64::from(random % 9) + 1;
        let posted = async {
            for n in 0.. {
                let text = format!("{round}.{n}");
                let write =
                    json!({ "room_id": room, "content": text, "on_head_mismatch": "send_anyway" });
                let id = c.post_call("room_send_message", write).await;
                if status(&c.answer(id).await) == "sent" {
                    sent.push(text);
                }
            }
        };
        let journal = scene.host.journal();
        let seen = journal.wait_after(mark + enough - 1, |_| true, PATIENCE);
        tokio::select! {
            seen = seen => drop(seen.expect("a connector that writes asks the host")),
            () = posted => unreachable!("it writes until it is killed"),
        }
        c.kill().await;
    }
    let mut c = scene.connector().await;
    let last = c
        .call(
            "room_send_message",
            json!({ "room_id": room, "content": "last", "on_head_mismatch": "send_anyway" }),
        )
        .await;
    assert_eq!(last["status"], "sent", "{last}");
    sent.push("last".to_owned());
    let said = scene.said(&room);
    let mut once = said.clone();
    once.sort();
    once.dedup();
    assert_eq!(once.len(), said.len(), "something stands twice");
    for text in &sent {
        assert!(said.contains(text), "{text} was reported as sent and is not there");
    }
    let positions: Vec<usize> =
        sent.iter().map(|t| said.iter().position(|s| s == t).unwrap()).collect();
    assert!(positions.is_sorted(), "wrong order");
    let local =
        c.call("room_timeline", json!({ "room_id": room, "limit": 1, "refresh": true })).await;
    assert_eq!(
        local["sync"]["synced_seq"].as_u64().unwrap(),
        scene.host.records(&room).len() as u64
    );
    scene.check_nonces();
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_write_from_one_state_directory() {
    let each: u32 = 60;
    let scene = Scene::with(json!({ "tuning": { "writes_per_minute": 1_000_000 } })).await;
    let (ann, room) = scene.room(json!({ "types": [{ "use": "adp:reactions/1.0" }] })).await;
    let mut first = scene.connector().await;
    first
        .call("room_join", json!({ "host": scene.host.url(), "room_id": room, "role": "speaker" }))
        .await;
    let said = ann.say(&scene.host, &room, "hi").await.unwrap();
    let event = said["envelope"]["hash"].clone();
    let second = scene.connector().await;
    async fn work(
        mut c: Connector,
        room: String,
        event: Value,
        name: &str,
        each: u32,
    ) -> Connector {
        for n in 0..each {
            let payload = json!({ "event_id": event, "reaction": format!("{name}{n}") });
            let write = json!({ "room_id": room, "type": "reaction.create", "payload": payload });
            assert_eq!(c.call("room_submit_event", write).await["status"], "sent");
        }
        c
    }
    let (mut c, _) = tokio::join!(
        work(first, room.clone(), event.clone(), "a", each),
        work(second, room.clone(), event.clone(), "b", each),
    );
    let own = scene
        .host
        .records(&room)
        .iter()
        .filter(|r| r["envelope"]["event"]["type"] == "reaction.create")
        .count();
    assert_eq!(own, 2 * each as usize);
    let local =
        c.call("room_timeline", json!({ "room_id": room, "limit": 1, "refresh": true })).await;
    assert_eq!(local["sync"]["synced_seq"], 3 + 2 * each);
    scene.check_nonces();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restored_backup_uses_no_nonce_again() {
    let scene = Scene::new().await;
    let (mut c, _ann, room) = scene.joined().await;
    c.call("room_send_message", json!({ "room_id": room, "content": "before" })).await;
    c.close().await;
    let backup = scene.back_up();
    let mut c = scene.connector().await;
    for n in 0..5 {
        let write = json!({ "room_id": room, "content": format!("m{n}") });
        assert_eq!(c.call("room_send_message", write).await["status"], "sent");
    }
    c.close().await;
    scene.restore(&backup);
    let mut c = scene.connector().await;
    let sent = c
        .call(
            "room_send_message",
            json!({ "room_id": room, "content": "after", "on_head_mismatch": "send_anyway" }),
        )
        .await;
    assert_eq!(sent["status"], "sent", "{sent}");
    assert_eq!(scene.said(&room).len(), 7);
    scene.check_nonces();
}

/// Nonces that only a profile service, or a room of a later day, has seen are spent as well. The
/// sequence runs ahead of the clock, so that the clock cannot hide a reuse.
#[tokio::test(flavor = "multi_thread")]
async fn a_restored_backup_knows_the_nonces_of_profiles_and_of_rooms_it_never_saw() {
    for first in ["profile", "message", "create"] {
        let scene = Scene::new().await;
        let other = scene.lab.adp("b").await.unwrap();
        let app = scene.lab.app("profiles").await.unwrap();
        let rooms = [&scene.host, &other].map(|h| json!({ "host": h.url(), "label": h.label() }));
        scene.provision_with(json!({ "hosts": rooms, "profile_services": [app.url()] }));
        let (c, ann, room) = scene.joined().await;
        c.close().await;
        let later = ann.create_room(&other, json!({})).await.unwrap();
        let ahead = scene.lab.clock().now_ms() + 1_000_000_000;
        rusqlite::Connection::open(scene.state_dir().join("state.sqlite3"))
            .and_then(|c| c.execute("UPDATE nonces SET last = ?1", [ahead as i64]))
            .unwrap();
        let backup = scene.back_up();
        let profile =
            |name: &str| json!({ "profile_service": app.url(), "profile": { "name": name } });
        let mut c = scene.connector().await;
        let join = json!({ "host": other.url(), "room_id": later, "role": "speaker" });
        c.call("room_join", join).await;
        c.call("room_send_message", json!({ "room_id": later, "content": "unknown" })).await;
        for name in ["one", "two"] {
            c.call("profile_update", profile(name)).await;
        }
        c.close().await;
        scene.restore(&backup);
        let mut c = scene.connector().await;
        match first {
            "profile" => drop(c.call("profile_update", profile("three")).await),
            "message" => {
                let write = json!({ "room_id": room, "content": "restored" });
                assert_eq!(c.call("room_send_message", write).await["status"], "sent");
            }
            _ => {
                let now = scene.lab.clock().now_ms();
                let create = json!({
                    "host": scene.host.url(), "topic": "anew", "visibility": "public",
                    "start_time": now, "end_time": now + 3_600_000,
                });
                c.call("room_create", create).await;
            }
        }
        let mut nonces: Vec<u64> = Vec::new();
        for entry in scene.lab.hosts().iter().flat_map(mock_hosts::Host::requests) {
            let Some(event) = entry.envelope.as_ref().map(|e| &e["event"]) else { continue };
            if event["actor"] == scene.me.as_str() {
                nonces.push(event["nonce"].as_u64().unwrap());
            }
        }
        nonces.sort_unstable();
        assert!(nonces.len() >= 6, "{first}: {nonces:?}");
        assert!(nonces.windows(2).all(|n| n[0] < n[1]), "{first}: used twice: {nonces:?}");
    }
}
