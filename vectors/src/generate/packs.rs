//! Cases about types: names, schemas and their cost, the registered packs.

use serde_json::{Map, Value, json};

use super::Writer;
use super::room::{SPEAKER, id};
use crate::case::File;

pub(super) fn types() -> File {
    let mut w = Writer::new(
        "types",
        "Type names, schemas from strangers, pack digests",
        "Agent Discourse 1.0 section 13, JSON Schema 2020-12",
    );
    for (name, fine) in [
        ("a.b", true),
        ("a.b.c.d", true),
        ("review.finding-2_x", true),
        ("9.9", true),
        ("message.update", true),
        ("x.example.custom", true),
        ("a", false),
        ("", false),
        (".", false),
        ("a.", false),
        (".a", false),
        ("a..b", false),
        ("a.B", false),
        ("a.-b", false),
        ("a._b", false),
        ("a b.c", false),
        ("a.\u{e9}", false),
        ("a.b\n", false),
        ("room.x", false),
        ("type.x", false),
        ("room.create", false),
        ("type.define", false),
        ("message.create", false),
    ] {
        let out = if fine {
            json!({ "ok": true })
        } else {
            json!({ "ok": false, "code": "invalid_event" })
        };
        w.add(&format!("name-{name:?}"), "type_name", json!({ "text": name }), out);
    }
    let mut chain = Map::new();
    for i in 0..200 {
        chain.insert(format!("a{i}"), json!({ "$ref": format!("#/$defs/a{}", i + 1) }));
    }
    chain.insert("a200".to_owned(), json!({}));
    let mut nested = json!({});
    for _ in 0..60 {
        nested = json!({ "properties": { "a": nested } });
    }
    let schemas: Vec<(&str, Value, Option<&str>)> = vec![
        ("empty", json!({}), None),
        ("local-ref", json!({ "$ref": "#/$defs/a", "$defs": { "a": { "type": "string" } } }), None),
        ("anchor", json!({ "$ref": "#a", "$defs": { "x": { "$anchor": "a" } } }), None),
        (
            "own-id-ref",
            json!({ "$id": "https://x.example/s", "$ref": "https://x.example/s#/$defs/a", "$defs": { "a": {} } }),
            None,
        ),
        ("recursive-value", json!({ "properties": { "next": { "$ref": "#" } } }), None),
        ("ref-as-data", json!({ "const": { "$ref": "https://example.com" } }), None),
        ("ref-as-property", json!({ "properties": { "$ref": { "type": "string" } } }), None),
        ("unknown-keyword", json!({ "x-color": { "$ref": "https://example.com" } }), None),
        ("boolean", json!(true), Some("schema_not_an_object")),
        ("array", json!([]), Some("schema_not_an_object")),
        ("http-ref", json!({ "$ref": "http://example.com/s" }), Some("schema_remote_reference")),
        (
            "relative-ref",
            json!({ "items": { "$ref": "other.json" } }),
            Some("schema_remote_reference"),
        ),
        ("file-ref", json!({ "$ref": "file:///etc/passwd" }), Some("schema_remote_reference")),
        (
            "dynamic-ref",
            json!({ "$dynamicRef": "https://example.com/s#a" }),
            Some("schema_remote_reference"),
        ),
        ("dangling-pointer", json!({ "$ref": "#/$defs/a" }), Some("schema_dangling_reference")),
        ("dangling-anchor", json!({ "$ref": "#a" }), Some("schema_dangling_reference")),
        (
            "embedded-resource",
            json!({ "$defs": { "a": { "$id": "https://x.example/a" } } }),
            Some("schema_embedded_resource"),
        ),
        ("circular", json!({ "$ref": "#" }), Some("schema_circular")),
        (
            "circular-through-two",
            json!({ "$ref": "#/$defs/a", "$defs": { "a": { "anyOf": [{ "$ref": "#/$defs/b" }] }, "b": { "not": { "$ref": "#/$defs/a" } } } }),
            Some("schema_circular"),
        ),
        ("long-chain", json!({ "$ref": "#/$defs/a0", "$defs": chain }), Some("schema_too_costly")),
        ("deep", nested, Some("schema_too_costly")),
        ("long-pattern", json!({ "pattern": "x".repeat(5000) }), Some("schema_too_costly")),
        ("bad-type", json!({ "type": "text" }), Some("schema_invalid")),
        ("bad-minimum", json!({ "minimum": "1" }), Some("schema_invalid")),
        ("bad-pattern", json!({ "pattern": "(" }), Some("schema_invalid")),
        (
            "exploding-pattern",
            json!({ "pattern": "((a{1000}){1000}){1000}" }),
            Some("schema_invalid"),
        ),
    ];
    for (name, schema, code) in schemas {
        let out = match code {
            None => json!({ "ok": true }),
            Some(code) => json!({ "ok": false, "code": code }),
        };
        w.add(
            &format!("schema-{name}"),
            "schema.check",
            json!({ "schema": schema.to_string() }),
            out,
        );
    }
    let schema = json!({
        "type": "object", "required": ["a/b"], "additionalProperties": false,
        "properties": {
            "a/b": { "type": "string" },
            "list": { "type": "array", "items": { "type": "integer" } },
            "deep": { "properties": { "x": { "enum": [1] } } },
            "~": { "type": "null" },
        },
    });
    for (name, payload, path) in [
        ("fits", r#"{"a/b":"","list":[1,2.0]}"#, None),
        ("missing", "{}", Some("/a~1b")),
        ("wrong-type", r#"{"a/b":1}"#, Some("/a~1b")),
        ("wrong-item", r#"{"a/b":"","list":[1,"x"]}"#, Some("/list/1")),
        ("not-an-integer", r#"{"a/b":"","list":[1.5]}"#, Some("/list/0")),
        ("deep", r#"{"a/b":"","deep":{"x":2}}"#, Some("/deep/x")),
        ("tilde", r#"{"a/b":"","~":0}"#, Some("/~0")),
        ("extra", r#"{"a/b":"","zz":1}"#, Some("/zz")),
        ("not-an-object", "[]", Some("")),
    ] {
        violation(&mut w, &format!("payload-{name}"), &schema, payload, path);
    }
    // Format is an annotation in 2020-12: nobody is at fault for a strange URI.
    violation(&mut w, "payload-format", &json!({ "format": "uri" }), "\"no uri\"", None);
    let doubling = json!({ "anyOf": [
        { "properties": { "a": { "$ref": "#" } } },
        { "properties": { "a": { "$ref": "#" } } },
    ] });
    let mut deep = "{}".to_owned();
    for _ in 0..40 {
        deep = format!("{{\"a\":{deep}}}");
    }
    violation(&mut w, "payload-exponential", &doubling, &deep, Some(""));
    violation(&mut w, "payload-exponential-but-small", &doubling, r#"{"a":{"a":{}}}"#, None);
    for (name, digest, fine) in [
        ("sha256", "sha256:RBNvo1WzZ4oRRq0W9-hknpT7T8If536DEMBg9hyq_4o", true),
        ("wrong", "sha256:RBNvo1WzZ4oRRq0W9-hknpT7T8If536DEMBg9hyq_4s", false),
        ("padded", "sha256:RBNvo1WzZ4oRRq0W9-hknpT7T8If536DEMBg9hyq_4o=", false),
        ("upper-case", "SHA256:RBNvo1WzZ4oRRq0W9-hknpT7T8If536DEMBg9hyq_4o", false),
        ("sha512", "sha512:RBNvo1WzZ4oRRq0W9-hknpT7T8If536DEMBg9hyq_4o", false),
        ("no-algorithm", "RBNvo1WzZ4oRRq0W9-hknpT7T8If536DEMBg9hyq_4o", false),
        (
            "hexadecimal",
            "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a",
            false,
        ),
        ("empty", "", false),
    ] {
        let out = if fine {
            json!({ "ok": true })
        } else {
            json!({ "ok": false, "code": "pack_unavailable" })
        };
        w.add(
            &format!("digest-{name}"),
            "pack.digest",
            json!({ "document": "{}", "digest": digest }),
            out,
        );
    }
    w.done()
}

fn violation(w: &mut Writer, name: &str, schema: &Value, payload: &str, path: Option<&str>) {
    let out = match path {
        None => json!({ "ok": true }),
        Some(path) => json!({ "ok": false, "code": "payload_schema_violation", "path": path }),
    };
    let input = json!({ "schema": schema.to_string(), "payload": payload });
    w.add(name, "schema.validate", input, out);
}

pub(super) fn packs() -> File {
    let mut w = Writer::new(
        "packs",
        "The registered packs: kinds and payload shapes",
        "Agent Discourse 1.0 appendix A and its pack documents, as facts",
    );
    let hash = "Y1DaWjltoOj_6g89CUX6Hnv0-Ks-qKL1SsztkJWLygc";
    let offer = json!({ "session_id": "s", "session_type": "webrtc", "media": ["audio"], "description": { "type": "offer", "sdp": "v=0", "more": 1 } });
    let node = json!({ "id": "n", "title": "t", "children": [{ "id": "m", "title": "u", "parent_id": null }] });
    // (pack, type, kind, a payload that fits, [(what, payload that does not, failing member)])
    type Faults = Vec<(&'static str, Value, &'static str)>;
    let table: Vec<(&str, &str, &str, Value, Faults)> = vec![
        (
            "adp:reactions/1.0",
            "reaction.create",
            "signal",
            json!({ "event_id": hash, "reaction": "agree", "score": -1 }),
            vec![
                ("no-event", json!({ "reaction": "agree" }), "/event_id"),
                ("event-not-hash", json!({ "event_id": "x", "reaction": "agree" }), "/event_id"),
                (
                    "reaction-long",
                    json!({ "event_id": hash, "reaction": "x".repeat(65) }),
                    "/reaction",
                ),
                ("score", json!({ "event_id": hash, "reaction": "agree", "score": 1.5 }), "/score"),
                (
                    "old-name",
                    json!({ "event_id": hash, "reaction": "agree", "target": hash }),
                    "/target",
                ),
            ],
        ),
        (
            "adp:deliberation/1.0",
            "question.create",
            "message",
            json!({ "question": "Why?", "basis": "graph_gap", "target_perspectives": ["ops"], "priority": 0.5 }),
            vec![
                ("empty", json!({ "question": "" }), "/question"),
                ("basis", json!({ "question": "x", "basis": "boredom" }), "/basis"),
                ("priority", json!({ "question": "x", "priority": 2 }), "/priority"),
                (
                    "perspectives-twice",
                    json!({ "question": "x", "target_perspectives": ["a", "a"] }),
                    "/target_perspectives",
                ),
            ],
        ),
        (
            "adp:deliberation/1.0",
            "proposal.create",
            "message",
            json!({ "proposal_id": "p", "title": "t", "body": "b", "references": [hash] }),
            vec![("no-body", json!({ "proposal_id": "p", "title": "t" }), "/body")],
        ),
        (
            "adp:deliberation/1.0",
            "poll.create",
            "message",
            json!({ "poll_id": "p", "question": "q", "options": [{ "id": "a", "label": "A" }], "max_choices": 2 }),
            vec![
                (
                    "no-options",
                    json!({ "poll_id": "p", "question": "q", "options": [] }),
                    "/options",
                ),
                (
                    "option-without-label",
                    json!({ "poll_id": "p", "question": "q", "options": [{ "id": "a" }] }),
                    "/options/0/label",
                ),
                (
                    "option-extra",
                    json!({ "poll_id": "p", "question": "q", "options": [{ "id": "a", "label": "A", "color": "x" }] }),
                    "/options/0/color",
                ),
                (
                    "choices",
                    json!({ "poll_id": "p", "question": "q", "options": [{ "id": "a", "label": "A" }], "min_choices": 0 }),
                    "/min_choices",
                ),
            ],
        ),
        (
            "adp:deliberation/1.0",
            "poll.vote",
            "signal",
            json!({ "poll_event_id": hash, "option_ids": ["a"] }),
            vec![
                ("no-option", json!({ "poll_event_id": hash, "option_ids": [] }), "/option_ids"),
                (
                    "option-twice",
                    json!({ "poll_event_id": hash, "option_ids": ["a", "a"] }),
                    "/option_ids",
                ),
                (
                    "old-name",
                    json!({ "poll_event_id": hash, "event_id": hash, "option_ids": ["a"] }),
                    "/event_id",
                ),
            ],
        ),
        (
            "adp:curation/1.0",
            "resource.add",
            "message",
            json!({ "resource_type": "paper", "uri": "https://a.example", "retrieved_at": 0 }),
            vec![("no-type", json!({ "uri": "https://a.example" }), "/resource_type")],
        ),
        (
            "adp:curation/1.0",
            "graph.update",
            "control",
            json!({ "operation": "upsert_node", "node": node }),
            vec![
                ("operation", json!({ "operation": "paint" }), "/operation"),
                ("upsert-without-node", json!({ "operation": "upsert_node" }), "/node"),
                (
                    "move-without-parent",
                    json!({ "operation": "move_node", "node_id": "n" }),
                    "/to_parent_id",
                ),
                (
                    "merge-without-ids",
                    json!({ "operation": "merge_nodes", "node_id": "n" }),
                    "/node_ids",
                ),
                ("snapshot-without-nodes", json!({ "operation": "replace_snapshot" }), "/nodes"),
                ("resolve-without-id", json!({ "operation": "mark_resolved" }), "/node_id"),
                (
                    "child-extra",
                    json!({ "operation": "upsert_node", "node": { "id": "n", "title": "t", "children": [{ "id": "m", "title": "u", "x": 1 }] } }),
                    "/node/children/0/x",
                ),
            ],
        ),
        (
            "adp:curation/1.0",
            "artifact.create",
            "control",
            json!({ "artifact_id": "a", "format": "markdown", "title": "t", "graph_event_id": hash }),
            vec![("no-format", json!({ "artifact_id": "a", "title": "t" }), "/format")],
        ),
        (
            "adp:moderation/1.0",
            "turn.update",
            "control",
            json!({ "turn_id": 1, "speaker": id(SPEAKER), "scope": "floor", "state": "assigned", "expires_at": 5 }),
            vec![
                ("turn-zero", json!({ "turn_id": 0, "speaker": id(SPEAKER) }), "/turn_id"),
                ("speaker", json!({ "turn_id": 1, "speaker": "someone" }), "/speaker"),
                (
                    "state",
                    json!({ "turn_id": 1, "speaker": id(SPEAKER), "state": "open" }),
                    "/state",
                ),
            ],
        ),
        (
            "adp:moderation/1.0",
            "steer.create",
            "signal",
            json!({ "instruction": "Stay on topic.", "priority": 1 }),
            vec![("empty", json!({ "instruction": "" }), "/instruction")],
        ),
        (
            "adp:realtime/1.0",
            "session.offer",
            "signal",
            offer.clone(),
            vec![
                (
                    "answer-inside",
                    json!({ "session_id": "s", "session_type": "webrtc", "media": ["audio"], "description": { "type": "answer", "sdp": "v=0" } }),
                    "/description/type",
                ),
                (
                    "no-media",
                    json!({ "session_id": "s", "session_type": "webrtc", "media": [], "description": { "type": "offer", "sdp": "v=0" } }),
                    "/media",
                ),
                (
                    "other-session",
                    json!({ "session_id": "s", "session_type": "sip", "media": ["audio"], "description": { "type": "offer", "sdp": "v=0" } }),
                    "/session_type",
                ),
            ],
        ),
        (
            "adp:realtime/1.0",
            "session.answer",
            "signal",
            json!({ "session_id": "s", "offer_event_id": hash, "description": { "type": "answer", "sdp": "v=0" }, "accepted_media": [] }),
            vec![(
                "no-offer",
                json!({ "session_id": "s", "description": { "type": "answer", "sdp": "v=0" } }),
                "/offer_event_id",
            )],
        ),
        (
            "adp:realtime/1.0",
            "session.candidate",
            "signal",
            json!({ "session_id": "s", "candidate": { "candidate": "c", "sdp_mline_index": 0 } }),
            vec![
                ("neither", json!({ "session_id": "s" }), ""),
                ("end-false", json!({ "session_id": "s", "end_of_candidates": false }), ""),
                (
                    "candidate-extra",
                    json!({ "session_id": "s", "candidate": { "candidate": "c", "x": 1 } }),
                    "/candidate/x",
                ),
            ],
        ),
        (
            "adp:realtime/1.0",
            "session.close",
            "signal",
            json!({ "session_id": "s", "reason": "bye", "extra": {} }),
            vec![("no-session", json!({ "reason": "bye" }), "/session_id")],
        ),
    ];
    let input = |pack: &str, name: &str, payload: &Value| json!({ "pack": pack, "type": name, "payload": payload.to_string() });
    for (pack, name, kind, fits, faults) in table {
        let out = json!({ "ok": true, "kind": kind });
        w.add(&format!("{name}-fits"), "pack.validate", input(pack, name, &fits), out);
        for (what, payload, path) in faults {
            let out = json!({ "ok": false, "code": "payload_schema_violation", "path": path });
            w.add(&format!("{name}-{what}"), "pack.validate", input(pack, name, &payload), out);
        }
    }
    let end = json!({ "session_id": "s", "end_of_candidates": true });
    let out = json!({ "ok": true, "kind": "signal" });
    w.add(
        "session.candidate-end",
        "pack.validate",
        input("adp:realtime/1.0", "session.candidate", &end),
        out,
    );
    let out = json!({ "ok": false, "code": "type_not_defined" });
    w.add("unknown-type", "pack.validate", input("adp:realtime/1.0", "poll.vote", &json!({})), out);
    w.done()
}
