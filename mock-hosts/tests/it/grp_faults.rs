//! The faults of any HTTP host at the routes of the GRP host, each at the wire.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use futures::StreamExt;
use mock_hosts::{Action, DelayAt, End, Eol, Fault, HoldAt, LabConfig, RetryAfter, Route};
use reqwest::Method;
use reqwest_eventsource::{Event, EventSource, retry::Never};
use serde_json::{Value, json};

use crate::grp_support::Grp;
use crate::support::SOON;

/// A room with a member, and its read as bytes on a socket.
struct Scene {
    grp: Grp,
    slug: String,
    token: String,
}

impl Scene {
    async fn new() -> Self {
        let grp = Grp::start().await;
        let (slug, _) = grp.room(json!({})).await;
        let token = grp.join(&slug, "ann").await;
        Scene { grp, slug, token }
    }

    fn fault(&self, action: Action) {
        self.grp.host.add_fault(Fault::new(action).on(Route::GrpReadRoom).once());
    }

    async fn read(&self) -> reqwest::Response {
        self.try_read().await.unwrap()
    }

    async fn try_read(&self) -> reqwest::Result<reqwest::Response> {
        let path = format!("/api/rooms/{}", self.slug);
        self.grp.request(Method::GET, &path).bearer_auth(&self.token).send().await
    }

    /// Everything the host sends until it closes, or is silent for a while.
    async fn raw(&self) -> (Vec<u8>, std::io::Result<()>) {
        let address = self.grp.host.url().trim_start_matches("http://").to_owned();
        let request = format!(
            "GET /api/rooms/{} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {}\r\n\
             Connection: close\r\n\r\n",
            self.slug, self.token
        );
        let run = move || {
            let mut socket = TcpStream::connect(address).unwrap();
            socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
            socket.write_all(request.as_bytes()).unwrap();
            let (mut out, mut buffer) = (Vec::new(), [0u8; 4096]);
            loop {
                match socket.read(&mut buffer) {
                    Ok(0) => return (out, Ok(())),
                    Ok(n) => out.extend_from_slice(&buffer[..n]),
                    Err(e) => return (out, Err(e)),
                }
            }
        };
        tokio::task::spawn_blocking(run).await.unwrap()
    }

    async fn say(&self, text: &str) {
        let path = format!("/api/rooms/{}/discuss", self.slug);
        let (status, said) = self.grp.post(&path, &self.token, &[], json!({ "body": text })).await;
        assert_eq!(status, 200, "{said}");
    }

    async fn stream(&self) -> EventSource {
        let path = format!("/api/rooms/{}/events/stream", self.slug);
        let request = self.grp.request(Method::GET, &path).bearer_auth(&self.token);
        let mut source = EventSource::new(request).unwrap();
        source.set_retry_policy(Box::new(Never));
        assert!(matches!(source.next().await, Some(Ok(Event::Open))));
        source
    }
}

fn body_of(bytes: &[u8]) -> &[u8] {
    let head = bytes.windows(4).position(|w| w == b"\r\n\r\n").expect("a head");
    &bytes[head + 4..]
}

/// Seq of the next event; none when the stream has ended.
async fn seq(source: &mut EventSource) -> Option<u64> {
    match tokio::time::timeout(SOON, source.next()).await.expect("in time") {
        Some(Ok(Event::Message(m))) => {
            let event: Value = serde_json::from_str(&m.data).unwrap();
            Some(event["seq"].as_u64().expect("an event of the room"))
        }
        Some(Ok(Event::Open)) => panic!("opened twice"),
        Some(Err(_)) | None => None,
    }
}

#[tokio::test]
async fn answers_instead_of_the_host() {
    let s = Scene::new().await;
    s.fault(Action::Status {
        code: 503,
        body: Some("later".into()),
        retry_after: Some(RetryAfter::Seconds(7)),
    });
    let busy = s.read().await;
    assert_eq!(
        (busy.status().as_u16(), &busy.headers()["retry-after"]),
        (503, &"7".parse().unwrap())
    );
    assert_eq!(busy.text().await.unwrap(), "later");
    s.fault(Action::Error {
        code: "room.concluded".into(),
        status: None,
        data: Some(json!({ "at": 1 })),
        retry_after: None,
    });
    let refused = s.read().await;
    assert_eq!(refused.status(), 400, "the status of the code");
    let refused: Value = refused.json().await.unwrap();
    assert_eq!(refused["error"]["code"], "room.concluded");
    assert_eq!(refused["error"]["details"]["at"], 1);
    for status in [301, 302, 303, 307, 308] {
        s.fault(Action::Redirect { status, to: "http://127.0.0.1:9".into() });
        let moved = s.read().await;
        assert_eq!(moved.status(), status);
        let to = format!("http://127.0.0.1:9/api/rooms/{}", s.slug);
        assert_eq!(moved.headers()["location"], to);
    }
    s.fault(Action::Delay { ms: 150, at: DelayAt::Request });
    let began = Instant::now();
    assert_eq!(s.read().await.status(), 200);
    assert!(began.elapsed() >= Duration::from_millis(150));
    assert_eq!(s.read().await.status(), 200, "and honest again");
}

#[tokio::test]
async fn spoiled_answers() {
    let s = Scene::new().await;
    let honest = s.read().await;
    assert_eq!(honest.headers()["content-type"], "application/json; charset=utf-8");
    let honest: Value = honest.json().await.unwrap();
    s.fault(Action::WrongContentType { to: "text/html".into() });
    assert_eq!(s.read().await.headers()["content-type"], "text/html");
    s.fault(Action::Oversize { bytes: 3_000_000 });
    assert!(s.read().await.bytes().await.unwrap().len() > 3_000_000);
    s.fault(Action::Bom {});
    assert!(s.read().await.bytes().await.unwrap().starts_with(&[0xEF, 0xBB, 0xBF]));
    s.fault(Action::Body { text: "<html>".into() });
    assert_eq!(s.read().await.text().await.unwrap(), "<html>");
    s.fault(Action::DuplicateKey { member: Some("slug".into()) });
    let twice = s.read().await.bytes().await.unwrap();
    let error = ap_protocol::json::parse(&twice).unwrap_err();
    assert_eq!(error.code(), "json_duplicate_member");
    s.fault(Action::Header { name: "x-correlation-id".into(), value: "another".into() });
    assert_eq!(s.read().await.headers()["x-correlation-id"], "another");
    s.fault(Action::Set { pointer: "/slug".into(), value: json!("elsewhere") });
    s.fault(Action::Remove { pointer: "/brief".into() });
    let changed: Value = s.read().await.json().await.unwrap();
    assert_eq!(changed["slug"], "elsewhere");
    assert!(changed.get("brief").is_none() && honest.get("brief").is_some());
    // The same for a tool's answer.
    let id = s.grp.host.add_fault(
        Fault::new(Action::Set {
            pointer: "/result/structuredContent/slug".into(),
            value: json!("x"),
        })
        .on(Route::GrpMcp)
        .of_type("read_room"),
    );
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "read_room", "arguments": { "slug": s.slug, "token": s.token } } });
    let answer = s
        .grp
        .request(Method::POST, "/mcp")
        .header("accept", "application/json, text/event-stream")
        .json(&call);
    let answer: Value = answer.send().await.unwrap().json().await.unwrap();
    assert_eq!(answer["result"]["structuredContent"]["slug"], "x");
    assert_eq!(s.grp.host.hits(id), 1);
}

#[tokio::test]
async fn broken_connections() {
    let s = Scene::new().await;
    let (honest, end) = s.raw().await;
    end.unwrap();
    s.fault(Action::Reset {});
    let (bytes, end) = s.raw().await;
    assert_eq!((bytes.len(), end.unwrap_err().kind()), (0, std::io::ErrorKind::ConnectionReset));
    s.fault(Action::Stall {});
    let (bytes, end) = s.raw().await;
    assert_eq!((bytes.len(), end.unwrap_err().kind()), (0, std::io::ErrorKind::WouldBlock));
    s.fault(Action::CutAfterBytes { bytes: 5, end: End::Close });
    let (bytes, _) = s.raw().await;
    assert_eq!(body_of(&bytes), &body_of(&honest)[..5]);
    s.fault(Action::CutAfterBytes { bytes: 5, end: End::Stall });
    let (bytes, end) = s.raw().await;
    assert_eq!(
        (body_of(&bytes).len(), end.unwrap_err().kind()),
        (5, std::io::ErrorKind::WouldBlock)
    );
    s.fault(Action::Slice { bytes: 8, pause_ms: 1 });
    let began = Instant::now();
    let (bytes, _) = s.raw().await;
    assert_eq!(body_of(&bytes).len(), body_of(&honest).len());
    let slices = u128::try_from(honest.len() / 8).unwrap();
    assert!(began.elapsed().as_millis() >= slices, "{slices} slices, 1 ms apart");
    // Refused: the port is closed while the plan holds it, and open ones end.
    let id = s.grp.host.add_fault(Fault::new(Action::Refuse {}));
    let refused = async {
        while !s.try_read().await.is_err_and(|e| e.is_connect()) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(SOON, refused).await.unwrap();
    s.grp.host.remove_fault(id);
    let back = async {
        while s.try_read().await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(SOON, back).await.unwrap();
}

#[tokio::test]
async fn an_answer_is_lost_after_the_commit_and_repeated_by_its_key() {
    let s = Scene::new().await;
    let choose = format!("/api/rooms/{}/choose", s.slug);
    let vote = || {
        s.grp
            .request(Method::POST, &choose)
            .bearer_auth(&s.token)
            .header("idempotency-key", "my-vote")
            .json(&json!({ "choice": "tea" }))
            .send()
    };
    for end in [End::Close, End::Reset] {
        s.grp.host.add_fault(Fault::new(Action::LoseResponse { end }).on(Route::GrpChoose).once());
        assert!(vote().await.is_err(), "{end:?}: no answer");
        let lost = s.grp.host.requests().pop().unwrap();
        assert_eq!((lost.status, lost.done), (None, true));
    }
    let stored = || s.grp.host.state()["rooms"][&s.slug]["stored"].clone();
    assert_eq!(stored()["responses"][0].as_array().unwrap().len(), 1, "committed");
    let again = vote().await.unwrap();
    assert_eq!(again.status(), 200);
    assert_eq!(stored()["responses"][0].as_array().unwrap().len(), 1, "and not twice");
}

#[tokio::test]
async fn requests_are_held_before_and_after_the_commit() {
    let (grp, _lab) = Grp::in_lab(LabConfig::default()).await;
    let (slug, _) = grp.room(json!({})).await;
    let token = grp.join(&slug, "ann").await;
    let messages =
        || grp.host.state()["rooms"][&slug]["stored"]["messages"].as_array().unwrap().len();
    for (at, name, committed) in [(HoldAt::Before, "before", 0), (HoldAt::After, "after", 2)] {
        grp.host.add_fault(Fault::new(Action::Hold { at }).of_type("discuss").once());
        let path = format!("/api/rooms/{slug}/discuss");
        let said = grp.post(&path, &token, &[], json!({ "body": "held" }));
        let watching = async {
            assert!(grp.host.step().wait_held(1, SOON).await);
            assert_eq!((grp.host.step().list()[0].at, messages()), (name, committed));
            grp.host.step().release_all();
        };
        let ((status, _), ()) = tokio::join!(said, watching);
        assert_eq!(status, 200);
    }
    // Whoever hangs up waits no longer.
    grp.host.add_fault(Fault::new(Action::Hold { at: HoldAt::Before }).on(Route::GrpPage).once());
    let page = grp.request(Method::GET, &format!("/r/{slug}")).timeout(Duration::from_millis(200));
    assert!(page.send().await.is_err());
    let empty = async {
        while !grp.host.step().list().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(SOON, empty).await.unwrap();
}

#[tokio::test]
async fn events_of_the_stream_one_by_one() {
    let s = Scene::new().await;
    let mut stream = s.stream().await;
    s.say("first").await;
    let first = seq(&mut stream).await.unwrap();
    let at = |n: u64, action: Action| {
        s.grp.host.add_fault(Fault::new(action).on(Route::GrpStream).at_seq(first + n));
    };
    at(1, Action::DropRecord {});
    at(2, Action::Duplicate {});
    at(3, Action::Reorder {});
    at(5, Action::Delay { ms: 200, at: DelayAt::Event });
    at(6, Action::Hold { at: HoldAt::Event });
    at(7, Action::CutAfterEvents { events: 0, end: End::Close });
    for n in 1..=5 {
        s.say(&format!("message {n}")).await;
    }
    let mut got = Vec::new();
    for _ in 0..4 {
        got.push(seq(&mut stream).await.unwrap() - first);
    }
    assert_eq!(got, [2, 2, 4, 3]);
    let began = Instant::now();
    assert_eq!(seq(&mut stream).await, Some(first + 5));
    assert!(began.elapsed() >= Duration::from_millis(100), "the event itself came late");
    s.say("held").await;
    s.say("last").await;
    assert!(s.grp.host.step().wait_held(1, SOON).await);
    let held = s.grp.host.step().list().remove(0);
    assert_eq!((held.at, held.request), ("event", format!("event {} of {}", first + 6, s.slug)));
    assert!(s.grp.host.step().release(held.id));
    assert_eq!(seq(&mut stream).await, Some(first + 6));
    assert_eq!(seq(&mut stream).await, Some(first + 7));
    assert_eq!(seq(&mut stream).await, None, "cut after that event");
    // What was lost is there on resuming, unless the events are silenced.
    s.grp.host.clear_faults();
    s.grp.host.add_fault(
        Fault::new(Action::Silence {}).on(Route::GrpStream).of_type("discussion.posted"),
    );
    let mut quiet = s.stream().await;
    s.say("not heard").await;
    let path = format!("/api/rooms/{}/abstain", s.slug);
    let (status, _) = s.grp.post(&path, &s.token, &[], json!({ "reason": "neither" })).await;
    assert_eq!(status, 200);
    assert_eq!(seq(&mut quiet).await, Some(first + 9), "the abstention, not the message");
}

#[tokio::test]
async fn the_stream_is_framed_and_stuffed_as_planned() {
    let s = Scene::new().await;
    let host = &s.grp.host;
    host.add_fault(Fault::new(Action::Framing { eol: Eol::Crlf, bom: true }).on(Route::GrpStream));
    host.add_fault(
        Fault::new(Action::Inject { text: ": stuffed\n\n".into() }).on(Route::GrpStream),
    );
    host.add_fault(Fault::new(Action::OversizeEvent { bytes: 100_000 }).on(Route::GrpStream));
    let path = format!("/api/rooms/{}/events/stream", s.slug);
    let answer = s.grp.request(Method::GET, &path).bearer_auth(&s.token).send().await.unwrap();
    assert_eq!(answer.headers()["content-type"], "text/event-stream; charset=utf-8");
    s.say("framed").await;
    let mut bytes = Vec::new();
    let mut body = answer.bytes_stream();
    let whole = async {
        while !String::from_utf8_lossy(&bytes).contains("discussion.posted\r\ndata:") {
            bytes.extend_from_slice(&body.next().await.unwrap().unwrap());
        }
    };
    tokio::time::timeout(SOON, whole).await.unwrap();
    assert!(bytes.starts_with("\u{feff}: stuffed\n\n".as_bytes()));
    assert!(bytes.len() > 100_000);
}
