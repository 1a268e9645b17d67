//! The first things a host must do, end to end.

use mock_hosts::{Action, End, Fault, Route};
use serde_json::json;

use crate::support::{SOON, Stage, Stream, history, refused, verify};

#[tokio::test]
async fn a_room_lives_and_its_chain_verifies() {
    let s = Stage::new().await;
    let room = s.shared_room().await;
    s.ann.say(&s.host, &room, "hello").await.unwrap();
    s.bob.say_to(&s.host, &room, "hi", &[s.ann.id().as_str()]).await.unwrap();
    s.bob.leave(&s.host, &room).await.unwrap();
    refused(s.bob.say(&s.host, &room, "again").await, "membership_required");
    let records = history(&s.host, &room, &s.eve).await;
    assert_eq!(records.len(), 5);
    let state = verify(&room, &records).unwrap();
    let resource = s.ann.room(&s.host, &room).await.unwrap();
    assert_eq!(resource["head"]["seq"], 4, "leaving moves no head");
    assert_eq!(resource["seq"], 5);
    assert_eq!(resource["hash"], json!(state.tip.hash));
    assert_eq!(s.host.records(&room), records);
}

#[tokio::test]
async fn a_stale_base_is_refused_with_the_current_head() {
    let s = Stage::new().await;
    let room = s.shared_room().await;
    let (head, _) = s.ann.tips(&s.host, &room).await.unwrap();
    s.host.move_head(&room, 2).unwrap();
    let payload = json!({ "content_type": "text/plain", "content": "late" });
    let late = s.ann.sign(Some(&room), Some(&head), "message.create", payload, &[]).unwrap();
    let error = s.ann.post(&s.host, &late).await.unwrap_err();
    assert_eq!((error.code(), error.status()), ("room_head_mismatch", 409));
    let data = error.data();
    assert_eq!(data["base_seq"], head.seq);
    assert_eq!(data["current_seq"], 5);
    assert_eq!(data["events_url"], format!("{}/v1/rooms/{room}/events", s.host.url()));
}

#[tokio::test]
async fn a_stream_carries_what_is_accepted_and_ends_when_told() {
    let s = Stage::new().await;
    let room = s.shared_room().await;
    s.host.add_fault(
        Fault::new(Action::CutAfterEvents { events: 2, end: End::Close }).on(Route::Live).once(),
    );
    let mut stream = Stream::open(&s.host, &room, &s.bob).await;
    for n in 0..3 {
        s.ann.say(&s.host, &room, &format!("message {n}")).await.unwrap();
    }
    assert_eq!(stream.seqs(2).await, [3, 4]);
    assert_eq!(stream.next().await, None, "cut after two events");
    assert!(s.host.wait_for_subscribers(&room, 0, SOON).await);
    let mut again = Stream::open(&s.host, &room, &s.bob).await;
    s.ann.say(&s.host, &room, "after").await.unwrap();
    assert_eq!(again.seqs(1).await, [6], "no replay of 5");
}

#[tokio::test]
async fn planned_faults_hit_where_they_are_planned() {
    let s = Stage::new().await;
    let room = s.shared_room().await;
    // A given error code.
    let id = s.host.add_fault(
        Fault::new(Action::Error {
            code: "type_disabled".into(),
            status: None,
            data: None,
            retry_after: None,
        })
        .on(Route::Submit)
        .once(),
    );
    refused(s.ann.say(&s.host, &room, "x").await, "type_disabled");
    assert_eq!(s.host.hits(id), 1);
    // The answer to a committed write is lost.
    s.host.add_fault(Fault::new(Action::LoseResponse { end: End::Reset }).on(Route::Submit).once());
    let before = s.host.records(&room).len();
    assert!(s.ann.say(&s.host, &room, "lost").await.is_err());
    assert_eq!(s.host.records(&room).len(), before + 1);
    // The head moves between read and write: the peer's own retry gets through.
    s.host.add_fault(Fault::new(Action::MoveHead { by: 1 }).on(Route::Submit).once());
    s.ann.say(&s.host, &room, "moved").await.unwrap();
    // A tampered record and a fork.
    s.host.add_fault(
        Fault::new(Action::Tamper {
            field: "/envelope/event/payload/content".into(),
            value: None,
            relink: true,
        })
        .at_seq(3)
        .once(),
    );
    let shown = history(&s.host, &room, &s.ann).await;
    assert_eq!(verify(&room, &shown).unwrap_err(), "invalid_event_hash");
    s.host.clear_faults();
    s.host.add_fault(Fault::new(Action::Fork { envelope: None }).at_seq(3));
    let (forked, truth) = (history(&s.host, &room, &s.ann).await, s.host.records(&room));
    assert_eq!(forked[1], truth[1]);
    assert_ne!(forked[2]["hash"], truth[2]["hash"]);
    verify(&room, &forked[..3]).unwrap();
    // A redirect.
    s.host.clear_faults();
    s.host.add_fault(
        Fault::new(Action::Redirect { status: 307, to: "http://127.0.0.1:9".into() })
            .on(Route::Submit),
    );
    let response = crate::support::http()
        .post(format!("{}/v1/rooms/{room}", s.host.url()))
        .body("{}")
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), 307);
    assert_eq!(response.headers()["location"], format!("http://127.0.0.1:9/v1/rooms/{room}"));
}
