//! The long-poll under pressure: no wake-up is lost, deadlines wake, many sleepers wake at
//! once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mock_hosts::grp::core::Op;
use mock_hosts::grp::{Entropy, GrpClock, GrpConfig, GrpHost};
use serde_json::{Value, json};

use crate::grp_support::{act, call, text};

async fn room(host: &GrpHost, config: Value) -> (String, String) {
    let args = json!({ "about": "x", "config": config });
    let made = act(host.core(), Op::CreateRoom, "", "", args).await;
    (text(&made["slug"]), text(&made["creator_token"]))
}

async fn join(host: &GrpHost, slug: &str) -> String {
    text(&act(host.core(), Op::JoinRoom, slug, "", json!({})).await["participant_token"])
}

fn quick() -> Value {
    json!({ "early_close": true, "settle_window": 0, "creator_votes": false, "mechanism": "plurality" })
}

/// Ten thousand races between a wait that begins and the question that should wake it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_wake_up_is_lost() {
    let host = GrpHost::start(GrpConfig { entropy: Entropy::seeded(7), ..GrpConfig::default() })
        .await
        .unwrap();
    let core = Arc::clone(host.core());
    let (slug, owner) = room(&host, quick()).await;
    let bob = join(&host, &slug).await;
    for round in 0..10_000u32 {
        let waiting = tokio::spawn({
            let core = Arc::clone(&core);
            let call = call(Op::Wait, &slug, &bob, &json!({ "wait": 30 }));
            async move { core.wait(call).await }
        });
        // Vary who comes first: the waiter, the question, or both at once.
        for _ in 0..round % 5 {
            tokio::task::yield_now().await;
        }
        act(
            &core,
            Op::Ask,
            &slug,
            &owner,
            json!({ "question": format!("Round {round}?"), "options": ["a", "b"] }),
        )
        .await;
        let woken = tokio::time::timeout(Duration::from_secs(10), waiting).await;
        let answer = woken.unwrap_or_else(|_| panic!("round {round} slept on")).unwrap().unwrap();
        assert_eq!(answer["status"], "actionable", "round {round}: {answer}");
        assert_eq!(answer["decision"]["seq"], round + 1);
        act(&core, Op::Choose, &slug, &bob, json!({ "choice": "a" })).await;
    }
}

/// With a clock that stands still only the clock's own jump can end the window.
#[tokio::test]
async fn a_deadline_wakes_every_sleeper() {
    let clock = GrpClock::frozen(1_800_000_000_000);
    let config = GrpConfig { clock: clock.clone(), ..GrpConfig::default() };
    let host = GrpHost::start(config).await.unwrap();
    let core = Arc::clone(host.core());
    let (slug, owner) = room(&host, json!({ "voting_window": 60 })).await;
    act(&core, Op::Ask, &slug, &owner, json!({ "question": "Now?", "options": ["a", "b"] })).await;
    let mut waits = Vec::new();
    for _ in 0..50 {
        let core = Arc::clone(&core);
        let call = call(Op::Wait, &slug, &owner, &json!({ "for": "completion", "wait": 50 }));
        waits.push(tokio::spawn(async move { core.wait(call).await.unwrap() }));
    }
    let cell = core.cell(&slug).unwrap();
    while cell.changed.receiver_count() < 50 {
        tokio::task::yield_now().await;
    }
    clock.advance(40_000);
    assert!(waits.iter().all(|w| !w.is_finished()));
    clock.advance(20_000);
    for wait in waits {
        let answer = tokio::time::timeout(Duration::from_secs(10), wait).await.unwrap().unwrap();
        assert_eq!(answer["decision"]["status"], "resolved", "{answer}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_waits_wake_together() {
    let host = GrpHost::start(GrpConfig::default()).await.unwrap();
    let core = Arc::clone(host.core());
    let (slug, owner) = room(&host, quick()).await;
    let mut waits = Vec::new();
    for _ in 0..1_000 {
        let token = join(&host, &slug).await;
        let (core, slug) = (Arc::clone(&core), slug.clone());
        waits.push(tokio::spawn(async move {
            core.wait(call(Op::Wait, &slug, &token, &json!({ "wait": 50 }))).await.unwrap()
        }));
    }
    let cell = core.cell(&slug).unwrap();
    while cell.changed.receiver_count() < 1_000 {
        tokio::task::yield_now().await;
    }
    let began = Instant::now();
    act(&core, Op::Ask, &slug, &owner, json!({ "question": "Now?", "options": ["a", "b"] })).await;
    for wait in waits {
        let answer = tokio::time::timeout(Duration::from_secs(30), wait).await.unwrap().unwrap();
        assert_eq!(answer["status"], "actionable");
    }
    eprintln!("1000 waits woken in {:?}", began.elapsed());
}

#[tokio::test]
async fn the_same_resolution_is_told_to_its_opener_once() {
    let host = GrpHost::start(GrpConfig::default()).await.unwrap();
    let core = Arc::clone(host.core());
    let (slug, owner) = room(&host, quick()).await;
    let bob = join(&host, &slug).await;
    act(&core, Op::Ask, &slug, &owner, json!({ "question": "Now?", "options": ["a", "b"] })).await;
    act(&core, Op::Choose, &slug, &bob, json!({ "choice": "a" })).await;
    let wait = || core.wait(call(Op::Wait, &slug, &owner, &json!({ "wait": 0 })));
    let first = wait().await.unwrap();
    assert_eq!(first["decision"]["status"], "resolved", "{first}");
    assert_eq!(wait().await.unwrap()["status"], "timeout");
}

#[tokio::test]
async fn news_of_others_wake_and_own_acts_do_not() {
    let host = GrpHost::start(GrpConfig::default()).await.unwrap();
    let core = Arc::clone(host.core());
    let (slug, _owner) = room(&host, quick()).await;
    let (bob, eve) = (join(&host, &slug).await, join(&host, &slug).await);
    let head =
        act(&core, Op::ReadRoom, &slug, &bob, json!({})).await["current_through"].as_u64().unwrap();
    let say = async |token: &str| {
        act(&core, Op::Discuss, &slug, token, json!({ "body": "x" })).await;
    };
    let wait = || core.wait(call(Op::Wait, &slug, &bob, &json!({ "wait": 0, "since": head })));
    say(&bob).await;
    assert_eq!(wait().await.unwrap()["status"], "timeout");
    say(&eve).await;
    let woken = wait().await.unwrap();
    assert_eq!(woken["status"], "activity", "{woken}");
    assert_eq!(woken["event"]["type"], "discussion.posted");
}
