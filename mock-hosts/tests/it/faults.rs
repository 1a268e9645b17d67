//! Every fault on requests, answers and records, at the wire: what it does, and that the host is
//! honest again without it.

use std::io::{Read as _, Write as _};
use std::time::Duration;

use mock_hosts::{
    Action, Clock, DelayAt, End, Fault, HoldAt, HostConfig, Lab, LabConfig, Peer, Plan, RetryAfter,
    Route, When,
};
use serde_json::{Value, json};

use crate::support::{SOON, Stage, history, http, refused, verify};

async fn get(s: &Stage, path: &str) -> reqwest::Response {
    let token = s.ann.token(s.host.url());
    let url = format!("{}{path}", s.host.url());
    http().get(url).bearer_auth(token).send().await.unwrap()
}

/// The raw bytes of an answer, and how the connection ended.
fn raw(s: &Stage, path: &str) -> (Vec<u8>, std::io::Result<usize>) {
    let address = s.host.url().strip_prefix("http://").unwrap();
    let mut socket = std::net::TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).unwrap();
    let mut out = Vec::new();
    let end = socket.read_to_end(&mut out);
    (out, end)
}

async fn raw_on_thread(s: &Stage, path: &str) -> (Vec<u8>, std::io::Result<usize>) {
    tokio::task::block_in_place(|| raw(s, path))
}

fn body_of(bytes: &[u8]) -> &[u8] {
    let at = bytes.windows(4).position(|w| w == b"\r\n\r\n").expect("a head") + 4;
    &bytes[at..]
}

#[tokio::test]
async fn statuses_errors_and_retry_after() {
    let s = Stage::new().await;
    s.host.clock().freeze();
    s.host.clock().set(784_111_777_000);
    let room = s.room().await;
    let path = format!("/v1/rooms/{room}");
    let status = |code, retry_after| Fault::new(Action::Status { code, body: None, retry_after });
    s.host.plan(Plan {
        seed: 0,
        faults: vec![
            status(429, Some(RetryAfter::Seconds(7))).nth(1),
            status(429, Some(RetryAfter::DateIn(60))).nth(2),
            status(503, None).nth(3),
            status(204, None).nth(4),
            Fault::new(Action::Error {
                code: "rate_limited".into(),
                status: None,
                data: Some(json!({ "retry_after": 2 })),
                retry_after: Some(RetryAfter::Text("soon".into())),
            })
            .nth(5),
        ],
    });
    let first = get(&s, &path).await;
    assert_eq!(
        (first.status().as_u16(), &first.headers()["retry-after"]),
        (429, &"7".parse().unwrap())
    );
    assert_eq!(get(&s, &path).await.headers()["retry-after"], "Sun, 06 Nov 1994 08:50:37 GMT");
    assert_eq!(get(&s, &path).await.status(), 503);
    let empty = get(&s, &path).await;
    assert_eq!((empty.status().as_u16(), empty.bytes().await.unwrap().len()), (204, 0));
    let error = get(&s, &path).await;
    assert_eq!(
        (error.status().as_u16(), &error.headers()["retry-after"]),
        (429, &"soon".parse().unwrap())
    );
    let error: Value = error.json().await.unwrap();
    assert_eq!(
        (&error["error"]["code"], &error["error"]["data"]),
        (&json!("rate_limited"), &json!({ "retry_after": 2 }))
    );
    assert_eq!(get(&s, &path).await.status(), 200, "the plan is used up");
    let seen: Vec<Option<u16>> = s.host.requests().iter().rev().take(6).map(|e| e.status).collect();
    assert_eq!(seen, [200, 429, 204, 503, 429, 429].map(Some));
}

#[tokio::test]
async fn redirects_of_every_kind() {
    let s = Stage::new().await;
    for status in [301, 302, 307, 308] {
        let to = "http://127.0.0.1:9/elsewhere?x=1";
        s.host.add_fault(Fault::new(Action::Redirect { status, to: to.into() }).once());
        let answer = get(&s, "/v1/rooms/public").await;
        assert_eq!(
            (answer.status().as_u16(), &answer.headers()["location"]),
            (status, &to.parse().unwrap())
        );
    }
}

#[tokio::test]
async fn bodies_that_no_client_should_take() {
    let s = Stage::new().await;
    let room = s.room().await;
    let path = format!("/v1/rooms/{room}");
    let honest = get(&s, &path).await.bytes().await.unwrap();
    let parse = |bytes: &[u8]| ap_protocol::json::parse(bytes);
    let spoiled = |action: Action| {
        s.host.add_fault(Fault::new(action).on(Route::Room).once());
        let (s, path) = (&s, path.clone());
        async move {
            let answer = get(s, &path).await;
            let kind = answer.headers().get("content-type").map(|v| v.to_str().unwrap().to_owned());
            (kind, answer.bytes().await.unwrap())
        }
    };
    let (kind, body) = spoiled(Action::WrongContentType { to: "text/html".into() }).await;
    assert_eq!((kind.as_deref(), &body), (Some("text/html"), &honest));
    let (kind, _) = spoiled(Action::WrongContentType { to: String::new() }).await;
    assert_eq!(kind, None);
    let (_, body) = spoiled(Action::Bom {}).await;
    assert_eq!(parse(&body).unwrap_err().code(), "json_bom");
    assert_eq!(body[3..], honest);
    let (_, body) = spoiled(Action::Body { text: "<html>".into() }).await;
    assert_eq!(parse(&body).unwrap_err().code(), "json_syntax");
    let (_, body) = spoiled(Action::DuplicateKey { member: Some("status".into()) }).await;
    assert_eq!(parse(&body).unwrap_err().code(), "json_duplicate_member");
    let (_, body) = spoiled(Action::Oversize { bytes: 1_000_000 }).await;
    assert!(body.len() > 1_000_000 && parse(&body).is_ok());
    let set = Action::Set { pointer: "/head/seq".into(), value: json!(99) };
    assert_eq!(parse(&spoiled(set).await.1).unwrap()["head"]["seq"], 99);
    let remove = Action::Remove { pointer: "/head".into() };
    assert!(parse(&spoiled(remove).await.1).unwrap().get("head").is_none());
    let header = Action::Header { name: "content-type".into(), value: "text/plain".into() };
    assert_eq!(spoiled(header).await.0.as_deref(), Some("text/plain"));
    assert_eq!(get(&s, &path).await.bytes().await.unwrap(), honest);
}

#[tokio::test]
async fn discovery_and_errors_can_point_elsewhere() {
    let s = Stage::new().await;
    let set = |pointer: &str| {
        Fault::new(Action::Set { pointer: pointer.into(), value: json!("http://127.0.0.1:9") })
    };
    s.host.add_fault(set("/profile/service").on(Route::Discovery));
    s.host.add_fault(set("/endpoints/api").on(Route::Discovery));
    s.host.add_fault(set("/error/data/events_url").on(Route::Submit));
    let found: Value = get(&s, "/.well-known/agent-discourse").await.json().await.unwrap();
    assert_eq!(found["profile"]["service"], "http://127.0.0.1:9");
    assert_eq!(found["endpoints"]["api"], "http://127.0.0.1:9");
    assert_eq!(found["host"], s.host.url());
    let room = s.room().await;
    let (head, _) = s.ann.tips(&s.host, &room).await.unwrap();
    s.host.move_head(&room, 1).unwrap();
    let payload = json!({ "content_type": "text/plain", "content": "x" });
    let stale = s.ann.sign(Some(&room), Some(&head), "message.create", payload, &[]).unwrap();
    let error = s.ann.post(&s.host, &stale).await.unwrap_err();
    assert_eq!(error.data()["events_url"], "http://127.0.0.1:9");
    assert_eq!(error.data()["base_seq"], 1, "the rest is untouched");
}

#[tokio::test]
async fn lists_in_the_other_shape_and_pages_without_end() {
    let s = Stage::new().await;
    let room = s.shared_room().await;
    let path = format!("/v1/rooms/{room}/events");
    s.host.add_fault(Fault::new(Action::BareLists {}).on(Route::Events).once());
    assert_eq!(s.ann.get(&s.host, &path).await.unwrap().as_array().unwrap().len(), 2);
    s.host.add_fault(Fault::new(Action::RepeatCursor {}).on(Route::Events));
    let first = s.ann.get(&s.host, &path).await.unwrap();
    let cursor = first["next_cursor"].as_str().unwrap().to_owned();
    let again = s.ann.get(&s.host, &format!("{path}?cursor={cursor}")).await.unwrap();
    assert_eq!(again, first, "the same page and the same cursor for ever");
    let bare = Stage::with(HostConfig { bare_lists: true, ..HostConfig::default() }).await;
    bare.host.add_fault(Fault::new(Action::WrapLists {}).on(Route::Public));
    assert!(bare.ann.get(&bare.host, "/v1/rooms/public").await.unwrap()["result"].is_array());
}

#[tokio::test]
async fn max_seen_nonce_may_be_anything() {
    let s = Stage::new().await;
    let room = s.room().await;
    let post = |n: u32| {
        let s = &s;
        let room = room.clone();
        async move {
            let (head, _) = s.ann.tips(&s.host, &room).await.unwrap();
            let payload = json!({ "content_type": "text/plain", "content": n.to_string() });
            let e = s.ann.sign(Some(&room), Some(&head), "message.create", payload, &[]).unwrap();
            let nonce = e["event"]["nonce"].to_string();
            let url = format!("{}/v1/rooms/{room}", s.host.url());
            let answer = http().post(url).body(e.to_string()).send().await.unwrap();
            assert_eq!(answer.status(), 200);
            (answer.headers()["max-seen-nonce"].to_str().unwrap().to_owned(), nonce)
        }
    };
    for to in ["9007199254740991", "-1", "1e9", "abc"] {
        s.host
            .add_fault(Fault::new(Action::MaxSeenNonce { to: to.into() }).on(Route::Submit).once());
        assert_eq!(post(1).await.0, to);
    }
    let (header, nonce) = post(2).await;
    assert_eq!(header, nonce, "the truth on an accepted write");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_break_at_the_byte_and_in_the_way_asked_for() {
    let s = Stage::new().await;
    let path = "/v1/rooms/public";
    let (honest, end) = raw_on_thread(&s, path).await;
    assert!(end.is_ok());
    assert_eq!(body_of(&honest), b"{\"result\":[]}");
    let cut =
        |bytes, end| Fault::new(Action::CutAfterBytes { bytes, end }).on(Route::Public).once();
    s.host.add_fault(cut(5, End::Close));
    let (bytes, end) = raw_on_thread(&s, path).await;
    assert_eq!((body_of(&bytes), end.is_ok()), (&b"{\"res"[..], true));
    s.host.add_fault(cut(0, End::Close));
    assert_eq!(body_of(&raw_on_thread(&s, path).await.0), b"");
    s.host.add_fault(cut(5, End::Stall));
    let (bytes, end) = raw_on_thread(&s, path).await;
    assert_eq!(body_of(&bytes), b"{\"res");
    assert_eq!(end.unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "open, and silent");
    s.host.add_fault(cut(5, End::Reset));
    let (_, end) = raw_on_thread(&s, path).await;
    assert_eq!(end.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
    s.host.add_fault(Fault::new(Action::Reset {}).on(Route::Public).once());
    let (bytes, end) = raw_on_thread(&s, path).await;
    assert_eq!((bytes.len(), end.unwrap_err().kind()), (0, std::io::ErrorKind::ConnectionReset));
    s.host.add_fault(Fault::new(Action::Stall {}).on(Route::Public).once());
    let (bytes, end) = raw_on_thread(&s, path).await;
    assert_eq!((bytes.len(), end.unwrap_err().kind()), (0, std::io::ErrorKind::WouldBlock));
    s.host.add_fault(Fault::new(Action::Slice { bytes: 1, pause_ms: 1 }).on(Route::Public).once());
    let started = std::time::Instant::now();
    let (bytes, _) = raw_on_thread(&s, path).await;
    assert_eq!(body_of(&bytes), body_of(&honest));
    let slices = u128::try_from(honest.len()).unwrap();
    assert!(started.elapsed().as_millis() >= slices, "{slices} slices, 1 ms apart");
    s.host.add_fault(
        Fault::new(Action::Delay { ms: 150, at: DelayAt::Request }).on(Route::Public).once(),
    );
    let started = std::time::Instant::now();
    assert_eq!(body_of(&raw_on_thread(&s, path).await.0), body_of(&honest));
    assert!(started.elapsed().as_millis() >= 150);
}

#[tokio::test]
async fn the_port_refuses_while_the_plan_says_so() {
    let s = Stage::new().await;
    let mut stream = crate::support::Stream::open(&s.host, &s.room().await, &s.ann).await;
    let id = s.host.add_fault(Fault::new(Action::Refuse {}));
    assert_eq!(stream.next().await, None, "open connections are closed");
    let url = format!("{}/v1/rooms/public", s.host.url());
    let refused_now = async {
        loop {
            match http().get(&url).send().await {
                Err(e) if e.is_connect() => return,
                _ => tokio::task::yield_now().await,
            }
        }
    };
    tokio::time::timeout(SOON, refused_now).await.unwrap();
    s.host.remove_fault(id);
    let back = async {
        while http().get(&url).send().await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(SOON, back).await.unwrap();
}

#[tokio::test]
async fn held_requests_make_a_race_exact() {
    let s = Stage::new().await;
    let room = s.shared_room().await;
    s.host.add_fault(
        Fault::new(Action::Hold { at: HoldAt::Before })
            .on(Route::Submit)
            .for_agent(s.bob.id().as_str())
            .once(),
    );
    let late = s.bob.say(&s.host, &room, "held");
    let meanwhile = async {
        assert!(s.host.step().wait_held(1, SOON).await);
        let held = s.host.step().list();
        assert_eq!((held.len(), held[0].at), (1, "before"));
        s.ann.say(&s.host, &room, "first").await.unwrap();
        assert!(s.host.step().release(held[0].id));
        assert!(!s.host.step().release(held[0].id), "only once");
    };
    let (record, ()) = tokio::join!(late, meanwhile);
    assert_eq!(record.unwrap()["seq"], 4, "bob's first attempt met a moved head");
    assert_eq!(s.host.journal().count(|e| e.error.as_deref() == Some("room_head_mismatch")), 1);
    // Held after the commit: the record is there, the answer is not.
    s.host.add_fault(Fault::new(Action::Hold { at: HoldAt::After }).on(Route::Submit).once());
    let said = s.bob.say(&s.host, &room, "committed");
    let watch = async {
        assert!(s.host.step().wait_held(1, SOON).await);
        assert_eq!(s.host.records(&room).len(), 5);
        assert_eq!(s.host.step().release_all(), 1);
    };
    let (record, ()) = tokio::join!(said, watch);
    assert_eq!(record.unwrap()["seq"], 5);
}

#[tokio::test]
async fn a_skewed_clock_refuses_and_misdates() {
    let s = Stage::new().await;
    let early = json!({ "start_time": s.host.clock().now_ms() - 200_000 });
    let room = s.ann.create_room(&s.host, early).await.unwrap();
    s.host.add_fault(Fault::new(Action::ClockSkew { ms: 400_000 }).on(Route::Submit).once());
    refused(s.ann.say(&s.host, &room, "x").await, "timestamp_out_of_window");
    s.host.add_fault(Fault::new(Action::ClockSkew { ms: -100_000 }).on(Route::Submit).once());
    let record = s.ann.say(&s.host, &room, "x").await.unwrap();
    let created = record["envelope"]["event"]["created_at"].as_u64().unwrap();
    assert!(created - record["received_at"].as_u64().unwrap() > 90_000);
}

#[tokio::test]
async fn writes_meet_moving_heads_lost_answers_and_other_records() {
    let s = Stage::new().await;
    let room = s.shared_room().await;
    // Enough moves to meet a cap of re-signs.
    let id = s.host.add_fault(Fault::new(Action::MoveHead { by: 1 }).on(Route::Submit).times(4));
    s.bob.say(&s.host, &room, "at last").await.unwrap();
    assert_eq!(s.host.hits(id), 4);
    for end in [End::Close, End::Reset] {
        s.host.add_fault(Fault::new(Action::LoseResponse { end }).on(Route::Submit).once());
        let before = s.host.records(&room).len();
        let lost = s.bob.say(&s.host, &room, "lost").await;
        assert!(matches!(lost, Err(mock_hosts::PeerError::Transport(_))));
        assert_eq!(s.host.records(&room).len(), before + 1, "committed all the same");
        let entry = s.host.requests().pop().unwrap();
        assert_eq!((entry.status, entry.done), (None, true));
    }
    s.host.add_fault(Fault::new(Action::AnswerOther { seq: None }).on(Route::Submit).once());
    let other = s.bob.say(&s.host, &room, "mine").await.unwrap();
    let records = s.host.records(&room);
    assert_eq!(other, records[records.len() - 2]);
    s.host.add_fault(Fault::new(Action::AnswerOther { seq: Some(1) }).on(Route::Submit).once());
    assert_eq!(s.bob.say(&s.host, &room, "mine").await.unwrap(), records[0]);
}

#[tokio::test]
async fn a_record_fault_shows_what_it_says_and_nothing_else() {
    let s = Stage::new().await;
    let room = s.shared_room().await;
    for n in 0..4 {
        s.ann.say(&s.host, &room, &n.to_string()).await.unwrap();
    }
    let truth = s.host.records(&room);
    let shown = |fault: Fault| {
        s.host.clear_faults();
        s.host.add_fault(fault.on(Route::Events));
        history(&s.host, &room, &s.ann)
    };
    let seqs =
        |list: &[Value]| -> Vec<u64> { list.iter().map(|r| r["seq"].as_u64().unwrap()).collect() };
    let list = shown(Fault::new(Action::DropRecord {}).at_seq(3)).await;
    assert_eq!(seqs(&list), [1, 2, 4, 5, 6]);
    assert_eq!(verify(&room, &list).unwrap_err(), "record_gap");
    let list = shown(Fault::new(Action::Duplicate {}).at_seq(3)).await;
    assert_eq!(seqs(&list), [1, 2, 3, 3, 4, 5, 6]);
    assert_eq!(verify(&room, &list).unwrap_err(), "record_repeat");
    let list = shown(Fault::new(Action::Reorder {}).at_seq(3)).await;
    assert_eq!(seqs(&list), [1, 2, 4, 3, 5, 6]);
    let list = shown(Fault::new(Action::Rollback { to: 4 })).await;
    assert_eq!(list, truth[..4]);
    let list = shown(Fault::new(Action::Fork { envelope: None }).at_seq(6)).await;
    assert_eq!(list[..5], truth[..5]);
    assert_ne!(list[5]["hash"], truth[5]["hash"]);
    verify(&room, &list).expect("a fork at the tip is a chain of its own");
    // Another event in its place, signed by the same member.
    let base = ap_protocol::Tip {
        seq: 5,
        hash: ap_protocol::Hash::parse(truth[4]["hash"].as_str().unwrap()).unwrap(),
    };
    let payload = json!({ "content_type": "text/plain", "content": "what others saw" });
    let other = s.ann.sign(Some(&room), Some(&base), "message.create", payload, &[]).unwrap();
    let list = shown(Fault::new(Action::Fork { envelope: Some(other.clone()) }).at_seq(6)).await;
    assert_eq!(list[5]["envelope"], other);
    verify(&room, &list).unwrap();
    // A stranger's signature under a member's name, and a stranger under its own.
    let list = shown(Fault::new(Action::Resign { as_actor: false }).at_seq(6)).await;
    assert_eq!(verify(&room, &list).unwrap_err(), "invalid_signature");
    let list = shown(Fault::new(Action::Resign { as_actor: true }).at_seq(6)).await;
    assert_eq!(verify(&room, &list).unwrap_err(), "membership_required");
    s.host.clear_faults();
    assert_eq!(history(&s.host, &room, &s.ann).await, truth);
}

#[tokio::test]
async fn tampering_with_each_field_is_seen_by_a_verifier() {
    let s = Stage::new().await;
    let room = s.shared_room().await;
    s.ann.say_to(&s.host, &room, "for bob", &[s.bob.id().as_str()]).await.unwrap();
    let fields = [
        ("/room_id", "record_room_mismatch"),
        ("/seq", "record_hash_mismatch"),
        ("/pre_hash", "record_hash_mismatch"),
        ("/hash", "record_hash_mismatch"),
        ("/received_at", "record_hash_mismatch"),
        ("/surplus", "record_shape"),
        ("/envelope/hash", "invalid_event_hash"),
        ("/envelope/signature", "invalid_signature"),
        ("/envelope/surplus", "invalid_event"),
        ("/envelope/event/protocol", "invalid_event"),
        ("/envelope/event/type", "invalid_event_hash"),
        ("/envelope/event/actor", "invalid_event_hash"),
        ("/envelope/event/created_at", "invalid_event_hash"),
        ("/envelope/event/nonce", "invalid_event_hash"),
        ("/envelope/event/base_seq", "invalid_event_hash"),
        ("/envelope/event/base_hash", "invalid_event_hash"),
        ("/envelope/event/mentions/0", "invalid_event_hash"),
        ("/envelope/event/payload/content", "invalid_event_hash"),
        ("/envelope/event/surplus", "invalid_event"),
    ];
    for (field, code) in fields {
        s.host.clear_faults();
        let tamper = Action::Tamper { field: field.into(), value: None, relink: false };
        s.host.add_fault(Fault::new(tamper).at_seq(3));
        let list = history(&s.host, &room, &s.ann).await;
        assert_ne!(list[2], s.host.records(&room)[2], "{field}");
        let found = verify(&room, &list).unwrap_err();
        // A tampered event type may also be no type name at all.
        let fits = found == code || (field.ends_with("/type") && found == "invalid_event");
        assert!(fits, "{field}: {found}, not {code}");
    }
    // Relinked, a date alone leaves no trace but the changed hash: that is a fork.
    s.host.clear_faults();
    let redate = Action::Tamper { field: "/received_at".into(), value: None, relink: true };
    s.host.add_fault(Fault::new(redate).at_seq(3));
    verify(&room, &history(&s.host, &room, &s.ann).await).unwrap();
}

#[tokio::test]
async fn a_liar_head_and_faults_for_one_reader_only() {
    let s = Stage::new().await;
    let room = s.shared_room().await;
    s.host.add_fault(
        Fault::new(Action::LiarHead { ahead: 3 }).on(Route::Room).for_agent(s.bob.id().as_str()),
    );
    let lie = s.bob.room(&s.host, &room).await.unwrap();
    assert_eq!((&lie["seq"], &lie["head"]["seq"]), (&json!(5), &json!(5)));
    assert_eq!(s.ann.room(&s.host, &room).await.unwrap()["seq"], 2);
    s.host.clear_faults();
    // A fork after the first look.
    s.host.add_fault(
        Fault::new(Action::Fork { envelope: None }).on(Route::Events).at_seq(2).after(1),
    );
    let first = history(&s.host, &room, &s.bob).await;
    let second = history(&s.host, &room, &s.bob).await;
    assert_ne!(first[1]["hash"], second[1]["hash"]);
    assert_eq!(first[1]["envelope"], second[1]["envelope"]);
}

#[tokio::test]
async fn records_a_host_should_have_refused() {
    let s = Stage::new().await;
    let room = s.shared_room().await;
    let (_, tip) = s.ann.tips(&s.host, &room).await.unwrap();
    let ban = json!({ "member": s.ann.id(), "ban": true });
    let stranger = s.eve.sign(Some(&room), Some(&tip), "room.member.remove", ban, &[]).unwrap();
    refused(s.eve.post(&s.host, &stranger).await, "membership_required");
    s.host.add_fault(Fault::new(Action::Lenient {}).on(Route::Submit).once());
    s.eve.post(&s.host, &stranger).await.unwrap();
    let list = history(&s.host, &room, &s.ann).await;
    assert_eq!(list.len(), 3);
    assert_eq!(verify(&room, &list).unwrap_err(), "membership_required");
    s.ann.say(&s.host, &room, "still here").await.expect("the host did not believe it itself");
    // After the end, without HTTP.
    s.ann.send(&s.host, &room, "room.close", json!({}), &[]).await.unwrap();
    let (head, _) = s.ann.tips(&s.host, &room).await.unwrap();
    let payload = json!({ "content_type": "text/plain", "content": "too late" });
    let late = s.bob.sign(Some(&room), Some(&head), "message.create", payload, &[]).unwrap();
    assert_eq!(s.host.accept(&late).unwrap_err().code, "room_ended");
    let record = s.host.append_unchecked(&room, &late).unwrap();
    assert_eq!(record["envelope"], late);
    // Even what does not verify.
    let broken = json!({ "hash": "x", "event": { "type": "message.create" }, "signature": "" });
    let record = s.host.append_unchecked(&room, &broken).unwrap();
    assert_eq!(s.host.records(&room).pop().unwrap(), record);
}

#[tokio::test]
async fn the_same_seed_and_plan_give_the_same_run() {
    let run = || async {
        let clock = Clock::frozen_at(1_800_000_000_000);
        let lab = Lab::start(LabConfig { clock, seed: 42 }).await.unwrap();
        let host = lab.adp("a").await.unwrap();
        let ann = Peer::named("ann", lab.clock());
        let room = ann.create_room(&host, json!({})).await.unwrap();
        let when = When { chance: Some(0.5), route: Some(Route::Submit), ..When::default() };
        let fault = Fault { when, ..Fault::new(Action::MoveHead { by: 1 }) };
        host.plan(Plan { seed: 9, faults: vec![fault] });
        for n in 0..8 {
            ann.say(&host, &room, &n.to_string()).await.unwrap();
            lab.clock().advance(10);
        }
        host.records(&room)
    };
    let first = run().await;
    assert!(first.len() > 9, "some heads moved");
    assert_eq!(first, run().await);
}

#[test]
fn plans_read_from_toml_are_what_was_written() {
    let text = r#"
        seed = 7
        [[fault]]
        name = "lost"
        when = { route = "submit", event_type = "message.create", nth = 2 }
        action = { lose_response = {} }
        times = 1
        [[fault]]
        when = { route = "live", room = "r", seq = 4 }
        action = { tamper = { field = "/envelope/event/payload/content" } }
        [[fault]]
        action = { status = { code = 429, retry_after = { seconds = 3 } } }
        [[fault]]
        when = { skip = 1, chance = 0.5 }
        action = { cut_after_events = { events = 2, end = "reset" } }
    "#;
    let plan = Plan::from_toml(text).unwrap();
    assert_eq!(plan.seed, 7);
    assert_eq!(plan.faults[0].action, Action::LoseResponse { end: End::Close });
    assert_eq!(plan.faults[1].when.seq, Some(4));
    let json = serde_json::to_vec(&plan).unwrap();
    assert_eq!(Plan::from_json(&json).unwrap(), plan);
    for bad in [
        "[[fault]]\naction = { explode = {} }",
        "[[fault]]\naction = { delay = { ms = 1, s = 2 } }",
        "[[fault]]\nwhen = { rute = \"live\" }\naction = { reset = {} }",
        "sed = 1",
    ] {
        assert_eq!(Plan::from_toml(bad).unwrap_err().code(), "invalid_plan", "{bad}");
    }
}

/// Every action of the vocabulary is explained by `--help` and proven at the wire by a test here:
/// the names come from the parser itself.
#[test]
fn no_action_is_without_explanation_and_proof() {
    let tests = [
        include_str!("faults.rs"),
        include_str!("stream_faults.rs"),
        include_str!("grp_faults.rs"),
        include_str!("grp_lab.rs"),
        include_str!("lists.rs"),
    ]
    .concat();
    let help = std::process::Command::new(env!("CARGO_BIN_EXE_mock-hosts"))
        .arg("--help")
        .output()
        .unwrap()
        .stdout;
    let help = String::from_utf8(help).unwrap();
    let words: Vec<&str> = help.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).collect();
    let error = Plan::from_toml("[[fault]]\naction = { nonsense = {} }\n").unwrap_err();
    let names = error.to_string();
    let names: Vec<&str> =
        names.rsplit_once("expected one of").unwrap().1.split('`').skip(1).step_by(2).collect();
    assert!(names.len() > 40, "{names:?}");
    for name in names {
        assert!(words.contains(&name), "{name} is not in --help");
        let variant: String =
            name.split('_').map(|word| word[..1].to_uppercase() + &word[1..]).collect();
        assert!(tests.contains(&format!("Action::{variant} {{")), "{name} has no test");
    }
    for route in Route::ALL.iter().filter(|r| !r.is_grp()) {
        assert!(words.contains(&route.as_str()), "{} is not in --help", route.as_str());
    }
}
