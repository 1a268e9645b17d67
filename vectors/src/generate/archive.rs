//! Cases about chains and archives: what the bytes must give, whatever the room's rules say.

use ap_protocol::archive::{events_sha3_256, manifest, pack_entry};
use ap_protocol::{Hash, Tip};
use serde_json::{Value, json};

use super::Writer;
use super::room::{END, ROOM, Room, SPEAKER};
use crate::case::File;

fn room() -> Room {
    let mut room = Room::full();
    let message = json!({ "content_type": "text/plain", "content": "\u{4f60}\u{597d} \u{1f600}" });
    room.push(SPEAKER, "message.create", message);
    room
}

pub(super) fn records() -> File {
    let mut w = Writer::new(
        "records",
        "Records and the chain",
        "Agent Discourse 1.0 section 15 (revision of 2026-07-04)",
    );
    let good = room().values();
    let mut add = |name: &str, records: Vec<Value>, fault: Option<(&str, u64)>| {
        let out = match fault {
            None => json!({ "ok": true, "seq": records.len() }),
            // A record whose seq cannot be read has none.
            Some((code, 0)) => json!({ "ok": false, "code": code }),
            Some((code, seq)) => json!({ "ok": false, "code": code, "seq": seq }),
        };
        let input = json!({ "room_id": ROOM, "records": Value::Array(records).to_string() });
        w.add(name, "room.replay", input, out);
    };
    add("chain", good.clone(), None);
    add("first-only", good[..1].to_vec(), None);
    let bent = |at: usize, change: &dyn Fn(&mut Value)| {
        let mut records = good.clone();
        change(&mut records[at]);
        records
    };
    let other = json!(Hash::of(b"another"));
    let set =
        |name: &'static str, value: Value| move |record: &mut Value| record[name] = value.clone();
    add("gap", [&good[..2], &good[3..]].concat(), Some(("record_gap", 4)));
    add("repeat", [&good[..2], &good[1..]].concat(), Some(("record_repeat", 2)));
    add(
        "swapped",
        vec![good[0].clone(), good[2].clone(), good[1].clone()],
        Some(("record_gap", 3)),
    );
    add("starts-late", good[1..].to_vec(), Some(("record_gap", 2)));
    add("seq-changed", bent(4, &set("seq", json!(6))), Some(("record_hash_mismatch", 6)));
    add("hash-changed", bent(4, &set("hash", other.clone())), Some(("record_hash_mismatch", 5)));
    add(
        "received-at-changed",
        bent(4, &set("received_at", json!(END))),
        Some(("record_hash_mismatch", 5)),
    );
    add(
        "pre-hash-changed",
        bent(4, &set("pre_hash", other.clone())),
        Some(("record_hash_mismatch", 5)),
    );
    add(
        "pre-hash-null-later",
        bent(4, &set("pre_hash", Value::Null)),
        Some(("record_hash_mismatch", 5)),
    );
    add(
        "pre-hash-missing",
        bent(4, &|r| {
            r.as_object_mut().map(|m| m.remove("pre_hash"));
        }),
        Some(("record_shape", 5)),
    );
    add("pre-hash-text", bent(4, &set("pre_hash", json!("x"))), Some(("record_shape", 5)));
    add(
        "room-changed",
        bent(4, &set("room_id", json!("d8ftedhpqhsusbg001th"))),
        Some(("record_room_mismatch", 5)),
    );
    add("seq-text", bent(4, &set("seq", json!("5"))), Some(("record_shape", 0)));
    add("received-at-negative", bent(4, &set("received_at", json!(-1))), Some(("record_shape", 5)));
    add(
        "received-at-fraction",
        bent(4, &set("received_at", json!(1.5))),
        Some(("record_shape", 5)),
    );
    add("unknown-member", bent(4, &set("note", json!("x"))), Some(("record_shape", 5)));
    add(
        "envelope-missing",
        bent(4, &|r| {
            r.as_object_mut().map(|m| m.remove("envelope"));
        }),
        Some(("record_shape", 5)),
    );
    add(
        "payload-changed",
        bent(4, &|r| r["envelope"]["event"]["payload"]["content"] = json!("other")),
        Some(("invalid_event_hash", 5)),
    );
    add(
        "payload-changed-and-rehashed",
        bent(4, &|r| {
            r["envelope"]["event"]["payload"]["content"] = json!("other");
            r["envelope"]["hash"] = json!(Hash::of_value(&r["envelope"]["event"]));
        }),
        Some(("invalid_signature", 5)),
    );
    add(
        "signature-of-another-event",
        bent(4, &|r| r["envelope"]["signature"] = good[3]["envelope"]["signature"].clone()),
        Some(("invalid_signature", 5)),
    );
    add(
        "envelope-of-another-record",
        bent(4, &|r| r["envelope"] = good[3]["envelope"].clone()),
        Some(("record_hash_mismatch", 5)),
    );
    // The same two records after each of two different ones: the second chain does not link.
    let mut fork = Room::full();
    fork.push(
        SPEAKER,
        "message.create",
        json!({ "content_type": "text/plain", "content": "fork" }),
    );
    let mut after = fork.clone();
    after.push(SPEAKER, "review.ack", json!({}));
    let grafted = [&good[..], &after.values()[5..]].concat();
    add("grafted", grafted, Some(("record_pre_hash_mismatch", 6)));
    let mut backwards = Room::full();
    let now = backwards.now;
    backwards.at(now - 2_500);
    backwards.push(SPEAKER, "review.ack", json!({}));
    let input = json!({ "room_id": ROOM, "records": backwards.text() });
    let out = json!({ "ok": true, "seq": 5, "notes": ["received_at_backwards"] });
    w.add("received-at-backwards", "room.replay", input, out)
        .decision("The host's clock may go back: worth a note, no violation.");
    for (i, record) in good.iter().enumerate() {
        let input = json!({
            "room_id": ROOM, "seq": record["seq"], "pre_hash": record["pre_hash"],
            "envelope_hash": record["envelope"]["hash"], "received_at": record["received_at"],
        });
        let preimage = format!(
            "{{\"envelope_hash\":{},\"pre_hash\":{},\"received_at\":{},\"room_id\":\"{ROOM}\",\"seq\":{}}}",
            record["envelope"]["hash"], record["pre_hash"], record["received_at"], record["seq"],
        );
        let out = json!({ "ok": true, "preimage": preimage, "hash": record["hash"] });
        w.add(&format!("record-hash-{}", i + 1), "record.hash", input, out);
    }
    w.done()
}

pub(super) fn archive() -> File {
    let mut w = Writer::new(
        "archive",
        "Archives: manifest, digest, records, packs",
        "Agent Discourse 1.0 section 19 (revision of 2026-07-04)",
    );
    let mut closed = room();
    closed.push(super::room::CREATOR, "room.close", json!({}));
    let records = closed.values();
    let events = events_sha3_256(&records);
    let head = |records: &[Value], tip: Tip| {
        let events = events_sha3_256(records);
        let url = format!("https://api.example.com/v1/rooms/{ROOM}");
        manifest("api.example.com", ROOM, &url, END, tip, events, json!({}))
    };
    let good = head(&records, closed.tip());
    let lines = |parts: &[Value]| -> String { parts.iter().map(|p| format!("{p}\n")).collect() };
    let all = |manifest: &Value, records: &[Value]| {
        lines(&[std::slice::from_ref(manifest), records].concat())
    };
    let mut add = |name: &str, archive: String, fault: Option<(&str, &str)>| {
        let out = match fault {
            None => json!({ "ok": true, "event_count": 6, "events_sha3_256": events }),
            Some((stage, code)) => json!({ "ok": false, "stage": stage, "code": code }),
        };
        w.add(name, "archive.verify", json!({ "archive": archive }), out);
    };
    add("jsonl", all(&good, &records), None);
    add("jsonl-manifest-last", lines(&[&records[..], std::slice::from_ref(&good)].concat()), None);
    add("jsonl-without-manifest", lines(&records), None);
    add("jsonl-crlf-and-blank-lines", all(&good, &records).replace('\n', "\r\n\r\n"), None);
    add("document", json!({ "manifest": good, "records": records }).to_string(), None);
    let mut flat = good.clone();
    flat["records"] = json!(records);
    add("document-flat", flat.to_string(), None);
    add("document-events", json!({ "manifest": good, "events": records }).to_string(), None);
    let with = |name: &str, value: Value| {
        let mut manifest = good.clone();
        manifest[name] = value;
        all(&manifest, &records)
    };
    let foreign = json!(Hash::of(b"another"));
    add("manifest-extra-member", with("note", json!("x")), None);
    add(
        "manifest-digest",
        with("events_sha3_256", foreign.clone()),
        Some(("manifest", "events_digest_mismatch")),
    );
    add(
        "manifest-last-hash",
        with("last_hash", foreign.clone()),
        Some(("manifest", "manifest_last_hash_mismatch")),
    );
    add(
        "manifest-root",
        with("archive_root", foreign.clone()),
        Some(("manifest", "archive_root_mismatch")),
    );
    add(
        "manifest-count",
        with("event_count", json!(5)),
        Some(("manifest", "manifest_count_mismatch")),
    );
    add(
        "manifest-last-seq",
        with("last_seq", json!(7)),
        Some(("manifest", "manifest_count_mismatch")),
    );
    add(
        "manifest-first-seq",
        with("first_seq", json!(2)),
        Some(("manifest", "manifest_count_mismatch")),
    );
    add(
        "manifest-room",
        with("room_id", json!("d8ftedhpqhsusbg001th")),
        Some(("manifest", "manifest_room_mismatch")),
    );
    add(
        "manifest-protocol",
        with("protocol", json!("agent-discourse/2.0")),
        Some(("manifest", "manifest_shape")),
    );
    add(
        "manifest-hash-spelling",
        with("events_sha3_256", json!(format!("{events}="))),
        Some(("manifest", "manifest_shape")),
    );
    let mut tree = good.clone();
    tree["archive_root"] = foreign;
    tree["extra"] = json!({ "archive_root_scheme": "merkle-sha3" });
    add("manifest-root-of-own-scheme", all(&tree, &records), None);
    add("truncated", all(&good, &records[..5]), Some(("manifest", "manifest_count_mismatch")));
    add(
        "record-missing",
        all(&good, &[&records[..2], &records[3..]].concat()),
        Some(("record", "record_gap")),
    );
    let mut bent = records.clone();
    bent[4]["envelope"]["event"]["payload"]["content"] = json!("other");
    add("record-changed", all(&good, &bent), Some(("record", "invalid_event_hash")));
    add(
        "broken-line",
        all(&good, &records).replacen("{\"envelope\"", "{\"envelope\":1,\"envelope\"", 1),
        Some(("format", "archive_format")),
    );
    add("cut-line", all(&good, &records)[..3000].to_owned(), Some(("format", "archive_format")));
    add(
        "foreign-line",
        lines(&[good.clone(), json!({ "x": 1 })]),
        Some(("format", "archive_format")),
    );
    add("empty", String::new(), Some(("format", "archive_format")));
    add("manifest-only", lines(std::slice::from_ref(&good)), Some(("format", "archive_format")));
    let mut late = room();
    late.push(super::room::CREATOR, "room.close", json!({}));
    late.push(SPEAKER, "review.ack", json!({}));
    add(
        "record-after-the-close",
        all(&head(&late.values(), late.tip()), &late.values()),
        Some(("replay", "room_ended")),
    );
    let input = json!({ "records": Value::Array(records.clone()).to_string() });
    w.add("digest", "archive.digest", input, json!({ "ok": true, "events_sha3_256": events }));
    let empty = json!({ "ok": true, "events_sha3_256": Hash::of(b"[]") });
    w.add("digest-of-nothing", "archive.digest", json!({ "records": "[]" }), empty);

    // An archive carries the pack documents its rooms import.
    let uri = "https://example.com/packs/triage-1.0.json";
    let document = r#"{"id":"triage","title":"Triage","types":[{"type":"triage.label","kind":"signal","title":"Label","schema":{}}]}"#;
    let digest = "sha256:OsNSmHj3DC6dsVaHpAwS5ZdIdZlHvsQ8KRlUlbww5qM";
    let mut importing = Room::full();
    importing.push(super::room::CREATOR, "type.define", json!({ "pack": uri, "digest": digest }));
    importing.push(SPEAKER, "triage.label", json!({}));
    let head = head(&importing.values(), importing.tip());
    let pack = pack_entry(uri, digest, document.as_bytes());
    let parts = [vec![head.clone(), pack.clone()], importing.values()].concat();
    let out = json!({ "ok": true, "event_count": 6 });
    w.add("pack-included", "archive.verify", json!({ "archive": lines(&parts) }), out.clone());
    let document = json!({ "manifest": head, "packs": [pack], "records": importing.values() });
    w.add(
        "pack-included-document",
        "archive.verify",
        json!({ "archive": document.to_string() }),
        out,
    );
    let parts = [vec![head.clone()], importing.values()].concat();
    let out = json!({ "ok": false, "stage": "replay", "code": "pack_unavailable" });
    w.add("pack-left-out", "archive.verify", json!({ "archive": lines(&parts) }), out.clone());
    let other = pack_entry(uri, digest, b"{}");
    let parts = [vec![head, other], importing.values()].concat();
    w.add("pack-changed", "archive.verify", json!({ "archive": lines(&parts) }), out);
    w.done()
}
