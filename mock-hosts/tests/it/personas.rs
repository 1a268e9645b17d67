//! Each persona does what its line in `--personas` says.

use mock_hosts::{Persona, Route};
use serde_json::json;

use crate::support::{Stage, Stream, history, http, refused, verify};

async fn cast(persona: Persona) -> (Stage, String) {
    let s = Stage::new().await;
    let room = s.shared_room().await;
    s.host.move_head(&room, 2).unwrap();
    s.host.play(persona);
    (s, room)
}

#[tokio::test]
async fn equivocator() {
    let (s, room) = cast(Persona::Equivocator).await;
    let first = history(&s.host, &room, &s.bob).await;
    verify(&room, &first).unwrap();
    let second = history(&s.host, &room, &s.bob).await;
    assert_eq!(first[0], second[0]);
    assert!(first.iter().zip(&second).skip(1).all(|(a, b)| a["hash"] != b["hash"]));
}

#[tokio::test]
async fn rollback() {
    let (s, room) = cast(Persona::Rollback).await;
    assert_eq!(s.bob.room(&s.host, &room).await.unwrap()["seq"], 5);
    assert_eq!(history(&s.host, &room, &s.bob).await.len(), 5);
    assert_eq!(s.bob.room(&s.host, &room).await.unwrap()["seq"], 2);
    assert_eq!(history(&s.host, &room, &s.bob).await.len(), 2);
}

#[tokio::test]
async fn flaky_stream() {
    let (s, room) = cast(Persona::FlakyStream).await;
    let mut stream = Stream::open(&s.host, &room, &s.bob).await;
    s.host.move_head(&room, 3).unwrap();
    assert_eq!(stream.seqs(2).await, [6, 7]);
    assert_eq!(stream.next().await, None);
    let url = format!("{}/v1/rooms/{room}/events", s.host.url());
    let mut broken = 0;
    for _ in 0..50 {
        broken += u32::from(http().get(&url).send().await.is_err());
    }
    assert!((3..20).contains(&broken), "{broken} of 50 reads were reset");
}

#[tokio::test]
async fn busy_room() {
    let (s, room) = cast(Persona::BusyRoom).await;
    for n in 0..10 {
        s.bob.say(&s.host, &room, &n.to_string()).await.unwrap();
    }
    let moved = s.host.journal().count(|e| e.error.as_deref() == Some("room_head_mismatch"));
    assert!(moved > 2, "{moved} of 10 messages met a moved head");
}

#[tokio::test]
async fn forgetful() {
    let (s, room) = cast(Persona::Forgetful).await;
    let before = s.host.records(&room).len();
    let mut lost = 0;
    for n in 0..12 {
        lost += usize::from(s.bob.say(&s.host, &room, &n.to_string()).await.is_err());
    }
    assert!((1..12).contains(&lost), "{lost} answers were lost");
    assert_eq!(s.host.records(&room).len(), before + 12, "no write was");
}

#[tokio::test]
async fn slow() {
    let (s, _) = cast(Persona::Slow).await;
    let started = std::time::Instant::now();
    let url = format!("{}/.well-known/agent-discourse", s.host.url());
    let text = http().get(url).send().await.unwrap().text().await.unwrap();
    assert!(text.contains("agent-discourse/1.0"));
    assert!(started.elapsed().as_millis() > 1000);
}

#[tokio::test]
async fn redirector() {
    let (s, room) = cast(Persona::Redirector).await;
    let said = s.bob.say(&s.host, &room, "x").await.unwrap_err();
    assert_eq!(said.status(), 307);
    let read = s.bob.get(&s.host, &format!("/v1/rooms/{room}/events")).await.unwrap_err();
    assert_eq!(read.status(), 302);
    assert_eq!(s.host.journal().count(|e| e.is(Route::Submit) && !e.faults.is_empty()), 1);
}

#[tokio::test]
async fn strict_limits() {
    let (s, room) = cast(Persona::StrictLimits).await;
    for n in 0..5 {
        s.bob.say(&s.host, &room, &n.to_string()).await.unwrap();
    }
    refused(s.bob.say(&s.host, &room, "six").await, "rate_limited");
    let big = json!({ "content_type": "text/plain", "content": "x".repeat(70_000) });
    refused(s.ann.send(&s.host, &room, "message.create", big, &[]).await, "payload_too_large");
}

#[tokio::test]
async fn liar_head() {
    let (s, room) = cast(Persona::LiarHead).await;
    let lie = s.bob.room(&s.host, &room).await.unwrap();
    assert_eq!(lie["head"]["seq"], 8);
    assert_eq!(history(&s.host, &room, &s.bob).await.len(), 5);
}

#[test]
fn names_are_found_again() {
    for persona in Persona::ALL {
        assert_eq!(Persona::find(persona.name()), Some(persona));
        assert!(!persona.about().is_empty());
    }
    assert_eq!(Persona::find("saint"), None);
}
