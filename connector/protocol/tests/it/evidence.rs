//! Findings hold both sides, survive storage, and cannot be made up from one side.

use ap_protocol::CheckedRecord;
use ap_protocol::evidence::Evidence;
use ap_protocol::room::RoomContext;
use ap_protocol::{Hash, Tip, VerifiedRecord};
use serde_json::json;

use crate::support::{Host, ROOM, message};

fn two_chains() -> (Host, Host) {
    let mut ours = Host::new(json!({}));
    ours.say(1, "message.create", message("one"));
    let mut theirs = ours.clone();
    ours.say(1, "message.create", message("ours"));
    theirs.say(1, "message.create", message("theirs"));
    (ours, theirs)
}

fn last(host: &Host) -> &VerifiedRecord {
    host.records.last().unwrap()
}

#[test]
fn a_fork_shows_both_records() {
    let (ours, theirs) = two_chains();
    let checked = CheckedRecord::check(&last(&theirs).to_value(), ROOM).unwrap();
    let fork = Evidence::of_repeat(last(&ours), &checked).unwrap();
    assert_eq!((fork.code(), fork.room_id()), ("host_fork", ROOM));
    let stored = serde_json::to_string(&fork).unwrap();
    let again: Evidence = serde_json::from_str(&stored).unwrap();
    assert!(again == fork && again.holds());
    // The same record again is no fork; neither is a made-up other side.
    let same = CheckedRecord::check(&last(&ours).to_value(), ROOM).unwrap();
    assert_eq!(Evidence::of_repeat(last(&ours), &same), None);
    let Evidence::Fork { room_id, seq, ours, mut theirs } = fork else { panic!("made as a fork") };
    theirs["envelope"]["event"]["payload"]["content"] = json!("never said");
    let forged = Evidence::Fork { room_id: room_id.clone(), seq, ours: ours.clone(), theirs };
    assert!(!forged.holds());
    assert!(!Evidence::Fork { room_id, seq, theirs: ours.clone(), ours }.holds());
}

#[test]
fn claims_behind_or_beside_the_chain_are_found() {
    let (host, other) = two_chains();
    let (tip, chain) = (host.state.tip, &host.context);
    let claim = |claim: Tip| Evidence::of_claim(ROOM, tip, claim, chain).map(|e| e.code());
    assert_eq!(claim(tip), None);
    assert_eq!(claim(Tip { seq: tip.seq + 4, hash: Hash::of(b"new") }), None);
    let earlier = Tip { seq: 2, hash: chain.hash_at(2).unwrap() };
    assert_eq!(claim(earlier), Some("host_rollback"));
    assert_eq!(claim(other.state.tip), Some("host_head_conflict"));
    assert_eq!(claim(Tip { seq: 2, hash: Hash::of(b"other") }), Some("host_head_conflict"));
}

#[test]
fn violations_and_bad_records_keep_what_was_served() {
    let mut host = Host::new(json!({}));
    host.say(1, "room.close", json!({}));
    let (head, tip) = (host.state.head, host.state.tip);
    let envelope = host.sign(1, "message.create", message("after the end"), head);
    let record = VerifiedRecord::append(ROOM, Some(&tip), host.now, envelope);
    let violation = host.state.apply(&record, &host.context).unwrap_err();
    let finding = Evidence::of_violation(&record, &violation);
    assert!(finding.holds());
    let Evidence::Violation { code, seq, record: kept, .. } = &finding else {
        panic!("made as one")
    };
    assert_eq!((code.as_str(), *seq, kept), ("room_ended", 3, &record.to_value()));
    let mut bad = record.to_value();
    bad["received_at"] = json!(1);
    let error = CheckedRecord::check(&bad, ROOM).unwrap_err();
    let finding = Evidence::of_bad_record(ROOM, &bad, &error);
    assert_eq!(finding.code(), "host_bad_record");
    let value = serde_json::to_value(&finding).unwrap();
    assert_eq!(
        (&value["kind"], &value["code"]),
        (&json!("bad_record"), &json!("record_hash_mismatch"))
    );
}
