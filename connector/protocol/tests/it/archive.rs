//! Archives at length: piece by piece, with progress, in memory that does not grow much.

use ap_protocol::archive::{self, EventsDigest, Part, Verifier, events_sha3_256};
use ap_protocol::{CheckedRecord, json as strict};
use serde_json::json;

use crate::support::{Host, ROOM, message};

fn long(n: usize) -> Host {
    let mut host = Host::new(json!({}));
    for i in 0..n {
        host.say(1, "message.create", message(&format!("message {i}")));
    }
    host
}

#[test]
fn pieces_give_the_same_verdict_as_the_whole() {
    let host = long(300);
    let records = host.values();
    let lines: String = records.iter().map(|r| format!("{r}\n")).collect();
    let whole = archive::verify(lines.as_bytes(), Some(ROOM));
    assert!(whole.verified, "{:?}", whole.failure);
    let mut verifier = Verifier::new(Some(ROOM));
    for (i, line) in lines.lines().enumerate() {
        verifier.push(Part::of(strict::parse(line.as_bytes()).unwrap()).unwrap());
        assert_eq!(verifier.count(), i as u64 + 1, "progress");
    }
    assert_eq!(verifier.finish(), whole);
    // Checked elsewhere, applied here.
    let mut verifier = Verifier::new(Some(ROOM));
    for record in &records {
        verifier.push_checked(record, CheckedRecord::check(record, ROOM));
    }
    assert_eq!(verifier.finish(), whole);
    assert_eq!(whole.events_sha3_256, events_sha3_256(&records));
    assert_eq!((whole.event_count, whole.head.unwrap().seq), (301, 301));
}

#[test]
fn the_digest_is_over_the_canonical_array() {
    let host = long(3);
    let array = serde_json::Value::Array(host.values());
    let whole = ap_protocol::Hash::of(&serde_jcs::to_vec(&array).unwrap());
    assert_eq!(events_sha3_256(&host.values()), whole);
    assert_eq!(EventsDigest::default().finish(), ap_protocol::Hash::of(b"[]"));
}

#[test]
fn the_first_fault_is_kept_and_the_rest_ignored() {
    let mut records = long(10).values();
    records[4]["received_at"] = json!(0);
    records[7]["received_at"] = json!(0);
    let mut verifier = Verifier::new(None);
    for record in &records {
        verifier.push_record(record);
    }
    assert!(verifier.failed());
    let verdict = verifier.finish();
    let failure = verdict.failure.unwrap();
    assert_eq!((failure.stage, failure.seq, verdict.event_count), ("record", Some(5), 4));
}

/// A record read from another room's archive is not slipped in by leaving the room open.
#[test]
fn the_room_of_the_first_record_is_the_room() {
    let records = long(2).values();
    assert!(
        archive::verify(
            serde_json::to_string(&json!({ "records": records })).unwrap().as_bytes(),
            None
        )
        .verified
    );
    let verdict =
        archive::verify(json!({ "records": records }).to_string().as_bytes(), Some("another"));
    assert_eq!(verdict.failure.unwrap().code, "record_room_mismatch");
}
