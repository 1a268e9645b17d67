//! The stream parser: however the bytes are cut, the events are the same.

use ap_protocol::sse::{Limits, SseError, SseEvent, SseParser};
use proptest::prelude::*;

fn parse(chunks: &[&[u8]]) -> Vec<SseEvent> {
    let mut parser = SseParser::new(Limits::default());
    let mut out = Vec::new();
    for chunk in chunks {
        parser.push(chunk, &mut out).unwrap();
    }
    out
}

fn stream() -> impl Strategy<Value = Vec<u8>> {
    let part = prop::sample::select(vec![
        "data: a",
        "data:",
        "data",
        "data: \u{1f600}",
        "event: room.event",
        "id: 7",
        "id",
        ": c",
        "retry: 5",
        "foo: bar",
        "\n",
        "\r",
        "\r\n",
        "\n\n",
        "\r\n\r\n",
        "\u{feff}",
        "",
        " ",
        ":",
    ]);
    prop::collection::vec(part, 0..40).prop_map(|parts| parts.concat().into_bytes())
}

proptest! {
    #![proptest_config(crate::support::runs(10_000))]

    #[test]
    fn cuts_change_nothing(bytes in stream(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6)) {
        let whole = parse(&[&bytes]);
        let mut at: Vec<usize> = cuts.iter().map(|c| c.index(bytes.len() + 1)).collect();
        at.sort_unstable();
        let mut chunks = Vec::new();
        let mut from = 0;
        for to in at {
            chunks.push(&bytes[from..to]);
            from = to;
        }
        chunks.push(&bytes[from..]);
        prop_assert_eq!(&parse(&chunks), &whole);
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        prop_assert_eq!(parse(&single), whole);
    }
}

/// E11: an endless line, and endless data lines, stop at the cap with flat memory.
#[test]
fn floods_stop_at_the_cap() {
    let cap = Limits::default().max_event;
    let mut parser = SseParser::new(Limits::default());
    let mut out = Vec::new();
    let mut sent = 0;
    let block = [b'A'; 64 * 1024];
    let stopped = loop {
        match parser.push(&block, &mut out) {
            Ok(()) => sent += block.len(),
            Err(e) => break e,
        }
    };
    assert_eq!(stopped, SseError::LineTooLong(cap));
    assert!(sent <= cap);
    let mut parser = SseParser::new(Limits::default());
    let lines = b"data: x\n".repeat(1_100_000);
    assert_eq!(parser.push(&lines, &mut out), Err(SseError::EventTooLong(cap)));
    assert!(out.is_empty());
}

/// Comments and unknown fields for ever are legal and hold nothing.
#[test]
fn noise_is_not_a_flood() {
    let mut parser = SseParser::new(Limits { max_line: 64, max_event: 64 });
    let mut out = Vec::new();
    for _ in 0..100_000 {
        parser.push(b": heartbeat\nfoo: bar\n\n", &mut out).unwrap();
    }
    assert!(out.is_empty());
}
