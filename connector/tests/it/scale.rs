//! A long history: opened completely, kept without replay, memory flat.
//! `AP_SCALE_RECORDS` sets its length (default 3000).

use mock_hosts::{Action, Fault};
use serde_json::json;

use crate::connector_support::Scene;

#[tokio::test(flavor = "multi_thread")]
async fn a_long_room_opens_completely_and_starts_without_replay() {
    let records: u64 =
        std::env::var("AP_SCALE_RECORDS").ok().and_then(|n| n.parse().ok()).unwrap_or(3_000);
    let scene = Scene::with(json!({ "tuning": { "request_timeout_ms": 120_000 } })).await;
    let (ann, room) = scene.room(json!({})).await;
    let mut tip = ann.tips(&scene.host, &room).await.unwrap().0;
    for n in 1..records {
        let payload = json!({ "content_type": "text/plain", "content": format!("message {n}") });
        let envelope = ann.sign(Some(&room), Some(&tip), "message.create", payload, &[]).unwrap();
        let record = scene.host.accept(&envelope).unwrap();
        tip = serde_json::from_value(json!({ "seq": record["seq"], "hash": record["hash"] }))
            .unwrap();
    }
    let mut c = scene.connector().await;
    let before = c.memory_kib();
    let started = std::time::Instant::now();
    let open = c.call("room_open", json!({ "host": scene.host.url(), "room_id": room })).await;
    assert_eq!(open["sync"]["synced_seq"], records);
    let (opened, grown) = (started.elapsed(), c.memory_kib().saturating_sub(before));
    c.close().await;
    eprintln!("{records} records: opened in {opened:?}, grew by {grown} KiB");
    // No replay at start: the history is not even looked at. Every body is unreadable while the
    // connector starts and answers, and no host is there to read from.
    let database = scene.state_dir().join("state.sqlite3");
    let scramble = |sql: &str| {
        rusqlite::Connection::open(&database).and_then(|c| c.execute(sql, [])).unwrap();
    };
    scramble("UPDATE records SET body = '!' || body WHERE seq < (SELECT max(seq) FROM records)");
    scene.host.add_fault(Fault::new(Action::Refuse {}));
    let mut c = scene.connector().await;
    let state = c.call("room_state", json!({ "room_id": room })).await;
    assert_eq!(state["sync"]["synced_seq"], records);
    assert_eq!(state["sync"]["unread_count"], records);
    scramble("UPDATE records SET body = substr(body, 2) WHERE body LIKE '!%'");
    let mut after = 0;
    let mut seen = 0;
    loop {
        let page = c
            .call("room_timeline", json!({ "room_id": room, "after_seq": after, "limit": 500 }))
            .await;
        seen += page["items"].as_array().unwrap().len() as u64;
        let Some(next) = page["next_after_seq"].as_u64() else { break };
        after = next;
    }
    assert_eq!(seen, records);
}
