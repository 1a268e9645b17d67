//! Stream faults, read by an independent SSE client where it can read them at all, and by the
//! bytes where it cannot (a BOM kills its parser, bare CR never dispatches).

use ap_protocol::sse::{Limits, SseParser};
use mock_hosts::{Action, DelayAt, End, Eol, Fault, HoldAt, Route};
use serde_json::json;

use crate::support::{SOON, Stage, Stream};

async fn say(s: &Stage, room: &str, count: usize) {
    for n in 0..count {
        s.ann.say(&s.host, room, &format!("message {n}")).await.unwrap();
    }
}

#[tokio::test]
async fn streams_are_cut_after_events_in_every_way() {
    let s = Stage::new().await;
    let room = s.shared_room().await;
    let mut seq = 2;
    for end in [End::Close, End::Reset, End::Finish] {
        s.host.clear_faults();
        s.host.add_fault(Fault::new(Action::CutAfterEvents { events: 2, end }));
        let mut stream = Stream::open(&s.host, &room, &s.bob).await;
        say(&s, &room, 2).await;
        let (got, want) = (stream.seqs(2).await, [seq + 1, seq + 2]);
        assert_eq!(got, want, "{end:?}: everything before the cut arrives");
        assert_eq!(stream.next().await, None, "{end:?}");
        assert!(s.host.wait_for_subscribers(&room, 0, SOON).await);
        seq += 2;
    }
    s.host.clear_faults();
    s.host.add_fault(Fault::new(Action::CutAfterEvents { events: 0, end: End::Close }).once());
    let mut none = Stream::connect(&s.host, &room, &s.bob);
    assert_eq!(none.next().await, None, "200, headers, end");
    // At a given record, for one agent, on its second stream only.
    s.host.clear_faults();
    let cut = Action::CutAfterEvents { events: 0, end: End::Close };
    s.host.add_fault(Fault::new(cut).at_seq(seq + 1).for_agent(s.bob.id().as_str()));
    let mut ann = Stream::open(&s.host, &room, &s.ann).await;
    let mut bob = Stream::open(&s.host, &room, &s.bob).await;
    say(&s, &room, 2).await;
    assert_eq!(bob.seqs(1).await, [seq + 1]);
    assert_eq!(bob.next().await, None);
    assert_eq!(ann.seqs(2).await, [seq + 1, seq + 2]);
}

#[tokio::test]
async fn events_are_dropped_doubled_swapped_and_changed() {
    let s = Stage::new().await;
    let room = s.shared_room().await;
    for (seq, action) in [
        (3, Action::DropRecord {}),
        (4, Action::Duplicate {}),
        (5, Action::Reorder {}),
        (
            7,
            Action::Tamper {
                field: "/envelope/event/payload/content".into(),
                value: Some(json!("forged")),
                relink: false,
            },
        ),
        (8, Action::Resign { as_actor: false }),
    ] {
        s.host.add_fault(Fault::new(action).on(Route::Live).at_seq(seq));
    }
    let mut stream = Stream::open(&s.host, &room, &s.bob).await;
    say(&s, &room, 7).await;
    assert_eq!(stream.seqs(4).await, [4, 4, 6, 5]);
    let forged = stream.json().await;
    assert_eq!(forged["envelope"]["event"]["payload"]["content"], "forged");
    let resigned = stream.json().await;
    let truth = &s.host.records(&room)[7];
    assert_eq!(resigned["envelope"]["event"], truth["envelope"]["event"]);
    assert_ne!(resigned["envelope"]["signature"], truth["envelope"]["signature"]);
    assert_eq!(stream.json().await, s.host.records(&room)[8], "and honest again");
}

#[tokio::test]
async fn streams_fork_roll_back_and_fall_silent() {
    let s = Stage::new().await;
    let room = s.shared_room().await;
    let mut stream = Stream::open(&s.host, &room, &s.bob).await;
    // Faults planned while the stream is up act on it too.
    let fork = s.host.add_fault(Fault::new(Action::Fork { envelope: None }).at_seq(3));
    say(&s, &room, 1).await;
    let forked = stream.json().await;
    assert_eq!(forked["pre_hash"], s.host.records(&room)[1]["hash"]);
    assert_ne!(forked["hash"], s.host.records(&room)[2]["hash"]);
    s.host.remove_fault(fork);
    let silence = s.host.add_fault(Fault::new(Action::Silence {}).on(Route::Live));
    say(&s, &room, 2).await;
    assert_eq!(s.host.hits(silence), 2);
    s.host.remove_fault(silence);
    let back = s.host.add_fault(Fault::new(Action::Rollback { to: 5 }).on(Route::Live));
    say(&s, &room, 1).await;
    s.host.remove_fault(back);
    say(&s, &room, 1).await;
    assert_eq!(stream.seqs(1).await, [7], "4 to 6 never came");
    assert_eq!(s.host.live_subscribers(&room), 1);
}

#[tokio::test]
async fn noise_and_oversize_come_before_the_event() {
    let s = Stage::new().await;
    let room = s.shared_room().await;
    let inject = |text: &str| Fault::new(Action::Inject { text: text.into() });
    s.host
        .add_fault(inject(": noise\nid: 0\nretry: 1\ndata\n\nevent: odd\nfoo: bar\ndata: {}\n\n"));
    s.host.add_fault(inject("event: room.event\ndata: {not json\n\n").at_seq(3));
    s.host.add_fault(Fault::new(Action::OversizeEvent { bytes: 100_000 }).at_seq(4));
    let mut stream = Stream::open(&s.host, &room, &s.bob).await;
    say(&s, &room, 2).await;
    assert_eq!(stream.next().await.unwrap().1, "", "this client dispatches empty data");
    assert_eq!(stream.next().await.unwrap(), ("odd".to_owned(), "{}".to_owned()));
    assert_eq!(stream.next().await.unwrap().1, "{not json");
    assert_eq!(stream.seqs(1).await, [3]);
    assert_eq!(stream.next().await.unwrap().1.len(), 100_002);
    assert_eq!(stream.seqs(1).await, [4]);
}

#[tokio::test]
async fn a_replaying_stream_repeats_history() {
    let s = Stage::new().await;
    let room = s.shared_room().await;
    s.host.add_fault(Fault::new(Action::Replay { from: 1 }));
    let mut stream = Stream::open(&s.host, &room, &s.bob).await;
    say(&s, &room, 1).await;
    assert_eq!(stream.seqs(3).await, [1, 2, 3]);
}

#[tokio::test]
async fn framing_is_crlf_cr_bom_and_sliced_at_every_byte() {
    let s = Stage::new().await;
    let room = s.shared_room().await;
    // CR LF in slices of one byte, read by the independent client.
    s.host.add_fault(Fault::new(Action::Framing { eol: Eol::Crlf, bom: false }));
    s.host.add_fault(Fault::new(Action::Slice { bytes: 1, pause_ms: 0 }).on(Route::Live));
    let mut stream = Stream::open(&s.host, &room, &s.bob).await;
    say(&s, &room, 2).await;
    assert_eq!(stream.seqs(2).await, [3, 4]);
    drop(stream);
    for (eol, bom, separator) in [(Eol::Cr, true, "\r\r"), (Eol::Crlf, true, "\r\n\r\n")] {
        s.host.clear_faults();
        s.host.add_fault(Fault::new(Action::Framing { eol, bom }));
        assert!(s.host.wait_for_subscribers(&room, 0, SOON).await);
        let url = format!("{}/v1/rooms/{room}/events/live", s.host.url());
        let request = crate::support::http().get(url).bearer_auth(s.bob.token(s.host.url()));
        let mut response = request.send().await.unwrap();
        assert!(s.host.wait_for_subscribers(&room, 1, SOON).await);
        let before = s.host.records(&room).len();
        say(&s, &room, 1).await;
        let (mut bytes, mut events) = (Vec::new(), Vec::new());
        let mut parser = SseParser::new(Limits::default());
        while events.is_empty() {
            let chunk = response.chunk().await.unwrap().unwrap();
            parser.push(&chunk, &mut events).unwrap();
            bytes.extend_from_slice(&chunk);
        }
        assert!(bytes.starts_with(&[0xEF, 0xBB, 0xBF]), "{eol:?}");
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.contains(separator), "{eol:?}");
        assert!(eol != Eol::Cr || !text.contains('\n'));
        let record = ap_protocol::json::parse(events[0].data.as_bytes()).unwrap();
        assert_eq!(record, s.host.records(&room)[before]);
    }
}

#[tokio::test]
async fn a_stream_can_be_refused_or_stall() {
    let s = Stage::new().await;
    let room = s.shared_room().await;
    let status = Action::Status { code: 503, body: None, retry_after: None };
    s.host.add_fault(Fault::new(status).on(Route::Live).once());
    assert_eq!(Stream::connect(&s.host, &room, &s.bob).next().await, None);
    s.host.add_fault(
        Fault::new(Action::WrongContentType { to: "application/json".into() })
            .on(Route::Live)
            .once(),
    );
    assert_eq!(Stream::connect(&s.host, &room, &s.bob).next().await, None, "not an event stream");
    assert!(s.host.wait_for_subscribers(&room, 0, SOON).await);
    s.host.add_fault(
        Fault::new(Action::CutAfterEvents { events: 1, end: End::Stall }).on(Route::Live).once(),
    );
    let mut stream = Stream::open(&s.host, &room, &s.bob).await;
    say(&s, &room, 2).await;
    assert_eq!(stream.seqs(1).await, [3]);
    assert_eq!(s.host.live_subscribers(&room), 0, "the host has let go, the socket stays");
}

#[tokio::test]
async fn single_events_are_delayed_and_held() {
    let s = Stage::new().await;
    let room = s.shared_room().await;
    let late = Action::Delay { ms: 250, at: DelayAt::Event };
    let late = s.host.add_fault(Fault::new(late).at_seq(4).for_agent(s.bob.id().as_str()));
    let held = Action::Hold { at: HoldAt::Event };
    let held =
        s.host.add_fault(Fault::new(held).on(Route::Live).at_seq(5).for_agent(s.bob.id().as_str()));
    let mut bob = Stream::open(&s.host, &room, &s.bob).await;
    let mut ann = Stream::open(&s.host, &room, &s.ann).await;
    say(&s, &room, 2).await;
    let said = std::time::Instant::now();
    say(&s, &room, 2).await;
    assert_eq!(ann.seqs(4).await, [3, 4, 5, 6], "the writes and the other stream do not wait");
    assert_eq!(bob.seqs(2).await, [3, 4]);
    assert!(said.elapsed().as_millis() >= 200, "{:?}", said.elapsed());
    assert!(s.host.step().wait_held(1, SOON).await);
    let waiting = s.host.step().list().remove(0);
    assert_eq!((waiting.at, waiting.request), ("event", format!("event 5 of {room}")));
    let opened = s.host.journal().matching(|e| e.n == waiting.journal).remove(0);
    assert!(opened.is(Route::Live) && opened.subject.as_deref() == Some(s.bob.id().as_str()));
    assert!(s.host.step().release(waiting.id));
    assert_eq!(bob.seqs(2).await, [5, 6], "in order");
    assert_eq!((s.host.hits(late), s.host.hits(held)), (1, 1));
    // Neither concerns requests.
    crate::support::history(&s.host, &room, &s.bob).await;
    assert_eq!((s.host.hits(late), s.host.hits(held)), (1, 1));
}
