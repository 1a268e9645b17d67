//! Cases about envelopes and profile updates: the stage that refuses, and its code.

use ap_protocol::{Hash, SecretKey, encoding, jcs, json as strict};
use serde_json::{Value, json};

use super::Writer;
use super::room::{CREATOR, ROOM, SPEAKER, START, creation, id, key, request};
use crate::case::File;

/// Signs any value as an event, whatever its shape.
fn sealed(event: &Value, key: &SecretKey) -> Value {
    let hash = Hash::of_value(event);
    let signature = encoding::encode(key.sign(hash.as_bytes()));
    json!({ "hash": hash, "event": event, "signature": signature })
}

fn message() -> Value {
    event("message.create", json!({ "content_type": "text/plain", "content": "x" }))
}

fn event(event_type: &str, payload: Value) -> Value {
    json!({
        "protocol": "agent-discourse/1.0", "type": event_type, "actor": id(SPEAKER),
        "created_at": START, "nonce": 2, "room_id": ROOM, "base_seq": 1,
        "base_hash": "Y1DaWjltoOj_6g89CUX6Hnv0-Ks-qKL1SsztkJWLygc", "payload": payload,
    })
}

fn without(value: &Value, name: &str) -> Value {
    let mut value = value.clone();
    value.as_object_mut().map(|m| m.remove(name));
    value
}

fn with(value: &Value, name: &str, member: Value) -> Value {
    let mut value = value.clone();
    value[name] = member;
    value
}

struct Envelopes(Writer);

impl Envelopes {
    fn text(&mut self, id: &str, text: String, fault: Option<&str>) {
        let out = match fault {
            None => json!({ "ok": true }),
            Some(stage) => {
                let code = match stage {
                    "hash" => "invalid_event_hash",
                    "actor" => "invalid_actor",
                    "signature" => "invalid_signature",
                    _ => "invalid_event",
                };
                json!({ "ok": false, "stage": stage, "code": code })
            }
        };
        self.0.add(id, "envelope.verify", json!({ "text": text }), out);
    }

    fn value(&mut self, id: &str, envelope: &Value, fault: Option<&str>) {
        self.text(id, envelope.to_string(), fault);
    }

    /// An event that is signed properly: only its shape can be wrong.
    fn event(&mut self, id: &str, event: &Value, fine: bool) {
        let fault = if fine { None } else { Some("shape") };
        self.value(id, &sealed(event, &key(SPEAKER)), fault);
    }
}

pub(super) fn envelope() -> File {
    let mut e = Envelopes(Writer::new(
        "envelope",
        "Signed envelopes: parse, shape, hash, actor, signature",
        "Agent Identity 1.0 sections 6 and 7, Agent Discourse 1.0 sections 6 and 9 to 13",
    ));
    let good = sealed(&message(), &key(SPEAKER));
    e.value("message", &good, None);
    e.text("message-canonical", jcs::to_string(&good), None);
    e.text("message-pretty", format!("{good:#}"), None);
    let escaped = good.to_string().replace("message.create", "mess\\u0061ge.create");
    e.text("message-escaped", escaped, None);
    common(&mut e, &good);
    top_level(&mut e);
    numbers(&mut e);
    room_create(&mut e);
    payloads(&mut e);
    declarations(&mut e);
    e.0.done()
}

fn common(e: &mut Envelopes, good: &Value) {
    for name in ["hash", "event", "signature"] {
        e.value(&format!("no-{name}"), &without(good, name), Some("shape"));
        e.value(&format!("null-{name}"), &with(good, name, Value::Null), Some("shape"));
    }
    e.value("unknown-member", &with(good, "extra", json!({})), Some("shape"));
    e.value("not-an-object", &json!([good]), Some("shape"));
    let text = good.to_string();
    e.text("duplicate-hash", text.replacen('{', "{\"hash\":\"x\",", 1), Some("parse"));
    e.text(
        "duplicate-in-payload",
        text.replace("\"content\":", "\"content\":\"y\",\"content\":"),
        Some("parse"),
    );
    e.text(
        "duplicate-by-escape",
        text.replace("\"nonce\":", "\"\\u006eonce\":1,\"nonce\":"),
        Some("parse"),
    );
    e.text("bom", format!("\u{feff}{text}"), Some("parse"));
    e.text("trailing-data", format!("{text}{{}}"), Some("parse"));
    e.text("lone-surrogate", text.replace("\"x\"", "\"\\ud800\""), Some("parse"));
    let hash = good["hash"].as_str().unwrap_or_default();
    let signature = good["signature"].as_str().unwrap_or_default();
    for (name, value) in [
        ("padded", format!("{hash}=")),
        ("of-another-event", Hash::of(b"another").to_string()),
        ("hexadecimal", crate::answer::hex(&encoding::decode(hash).unwrap_or_default())),
        ("empty", String::new()),
    ] {
        e.value(&format!("hash-{name}"), &with(good, "hash", json!(value)), Some("hash"));
    }
    for (name, value) in [
        ("padded", format!("{signature}==")),
        ("short", signature[..84].to_owned()),
        ("empty", String::new()),
        (
            "of-another-event",
            sealed(&with(&message(), "nonce", json!(3)), &key(SPEAKER))["signature"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
        ),
        (
            "of-another-key",
            sealed(&message(), &key(CREATOR))["signature"].as_str().unwrap_or_default().to_owned(),
        ),
        ("over-the-text", encoding::encode(key(SPEAKER).sign(hash.as_bytes()))),
        ("over-the-json", encoding::encode(key(SPEAKER).sign(&jcs::to_vec(&good["event"])))),
    ] {
        e.value(
            &format!("signature-{name}"),
            &with(good, "signature", json!(value)),
            Some("signature"),
        );
    }
    for (name, actor) in [
        ("padded", format!("{}=", id(SPEAKER))),
        ("no-prefix", id(SPEAKER).replace("did:agent:", "")),
        ("weak", format!("did:agent:{}", encoding::encode([0u8; 32]))),
        ("off-curve", format!("did:agent:{}", encoding::encode([2u8; 32]))),
        ("empty", String::new()),
    ] {
        let event = with(&message(), "actor", json!(actor));
        e.value(&format!("actor-{name}"), &sealed(&event, &key(SPEAKER)), Some("actor"));
    }
    let mut tampered = good.clone();
    tampered["event"]["payload"]["content"] = json!("y");
    e.value("payload-changed", &tampered, Some("hash"));
}

fn top_level(e: &mut Envelopes) {
    let m = message();
    for name in [
        "protocol",
        "type",
        "actor",
        "created_at",
        "nonce",
        "payload",
        "room_id",
        "base_seq",
        "base_hash",
    ] {
        e.event(&format!("event-without-{name}"), &without(&m, name), false);
        e.event(&format!("event-null-{name}"), &with(&m, name, Value::Null), false);
    }
    e.event("event-unknown-member", &with(&m, "extra", json!({})), false);
    e.event("event-null-mentions", &with(&m, "mentions", Value::Null), false);
    for (name, member, value, fine) in [
        ("protocol-other", "protocol", json!("agent-discourse/2.0"), false),
        ("protocol-case", "protocol", json!("Agent-Discourse/1.0"), false),
        ("type-single-word", "type", json!("message"), false),
        ("type-upper-case", "type", json!("Message.create"), false),
        ("type-reserved-room", "type", json!("room.custom"), false),
        ("type-reserved-type", "type", json!("type.custom"), false),
        ("room-id-empty", "room_id", json!(""), false),
        ("room-id-number", "room_id", json!(5), false),
        ("base-seq-zero", "base_seq", json!(0), false),
        ("base-seq-text", "base_seq", json!("1"), false),
        ("base-hash-short", "base_hash", json!("abc"), false),
        (
            "base-hash-unused-bits",
            "base_hash",
            json!("Y1DaWjltoOj_6g89CUX6Hnv0-Ks-qKL1SsztkJWLygd"),
            false,
        ),
        ("created-at-negative", "created_at", json!(-1), false),
        ("created-at-text", "created_at", json!("2026"), false),
        ("created-at-zero", "created_at", json!(0), true),
        ("nonce-greatest", "nonce", json!(9_007_199_254_740_991u64), true),
        ("nonce-zero", "nonce", json!(0), false),
        ("nonce-negative", "nonce", json!(-1), false),
        ("nonce-text", "nonce", json!("2"), false),
        ("nonce-true", "nonce", json!(true), false),
        ("payload-array", "payload", json!([]), false),
        ("payload-text", "payload", json!("{}"), false),
        ("mentions-empty", "mentions", json!([]), true),
        ("mentions-one", "mentions", json!([id(CREATOR)]), true),
        ("mentions-twice", "mentions", json!([id(CREATOR), id(CREATOR)]), false),
        ("mentions-text", "mentions", json!(id(CREATOR)), false),
        ("mentions-not-ids", "mentions", json!(["someone"]), false),
        ("mentions-padded", "mentions", json!([format!("{}=", id(CREATOR))]), false),
    ] {
        e.event(name, &with(&m, member, value), fine);
    }
    let ids = |n: u8| json!((1..=n).map(id).collect::<Vec<_>>());
    e.event("mentions-32", &with(&m, "mentions", ids(32)), true);
    e.event("mentions-33", &with(&m, "mentions", ids(33)), false);
    e.event("custom-type", &event("review.finding", json!({ "anything": [1, null] })), true);
}

/// The hash is over the value as received: other spellings of a number are the same value,
/// a double where an integer belongs is not.
fn numbers(e: &mut Envelopes) {
    let good = sealed(&message(), &key(SPEAKER)).to_string();
    e.text("nonce-2.0", good.replace("\"nonce\":2", "\"nonce\":2.0"), Some("shape"));
    e.text("nonce-2e0", good.replace("\"nonce\":2", "\"nonce\":2e0"), Some("shape"));
    e.text(
        "nonce-unsafe",
        good.replace("\"nonce\":2", "\"nonce\":9007199254740993"),
        Some("parse"),
    );
    let text = r#"{"score":0.5,"tiny":1e-7,"large":1e300,"exact":117.63331139400017}"#;
    let payload = strict::parse(text.as_bytes()).unwrap_or_default();
    let doubles = sealed(&event("review.finding", payload), &key(SPEAKER)).to_string();
    e.text("doubles", doubles.clone(), None);
    e.text(
        "doubles-respelled",
        doubles.replace("0.5", "5.00e-1").replace("1e+300", "10E+299"),
        None,
    );
    e.text(
        "doubles-last-bit",
        doubles.replace("117.63331139400017", "117.63331139400019"),
        Some("hash"),
    );
    e.text("doubles-not-finite", doubles.replace("1e+300", "1e400"), Some("parse"));
}

fn room_create(e: &mut Envelopes) {
    let create = |changes: Value| {
        let mut event = without(&event("room.create", creation(changes)), "room_id");
        for name in ["base_seq", "base_hash"] {
            event = without(&event, name);
        }
        event
    };
    let good = create(json!({}));
    e.event("create", &good, true);
    e.event("create-with-room-id", &with(&good, "room_id", json!(ROOM)), false);
    e.event("create-with-base", &with(&good, "base_seq", json!(1)), false);
    e.event("create-with-mentions", &with(&good, "mentions", json!([])), false);
    for (name, changes, fine) in [
        ("minimal", json!({ "policy": null, "types": null }), true),
        (
            "everything",
            json!({ "agenda": "a", "guidance": "g", "tags": ["t"], "language": "en", "extra": {} }),
            true,
        ),
        ("blank-topic", json!({ "topic": " \t\n" }), false),
        ("no-topic", json!({ "topic": null }), false),
        ("no-visibility", json!({ "visibility": null }), false),
        ("other-visibility", json!({ "visibility": "secret" }), false),
        ("no-start", json!({ "start_time": null }), false),
        ("end-is-start", json!({ "end_time": START }), false),
        ("end-before-start", json!({ "end_time": START - 1 }), false),
        ("start-text", json!({ "start_time": "now" }), false),
        ("unknown-member", json!({ "turn_policy": "x" }), false),
        ("tags-text", json!({ "tags": "x" }), false),
        ("tags-numbers", json!({ "tags": [1] }), false),
        ("policy-unknown-member", json!({ "policy": { "max_participants": 3 } }), false),
        ("policy-no-speakers", json!({ "policy": { "max_speakers": 0 } }), false),
        ("policy-bad-moderator", json!({ "policy": { "moderator_agent_ids": ["x"] } }), false),
        ("policy-observer-text", json!({ "policy": { "observer_allowed": "no" } }), false),
        ("types-object", json!({ "types": {} }), false),
        ("types-not-objects", json!({ "types": ["adp:reactions/1.0"] }), false),
        ("types-empty", json!({ "types": [] }), true),
        ("extra-text", json!({ "extra": "x" }), false),
    ] {
        e.event(&format!("create-{name}"), &create(changes), fine);
    }
}

fn payloads(e: &mut Envelopes) {
    let hash = "Y1DaWjltoOj_6g89CUX6Hnv0-Ks-qKL1SsztkJWLygc";
    let asked = request(SPEAKER, "jr_1", "speaker");
    let cases: Vec<(&str, &str, Value, bool)> = vec![
        (
            "object",
            "message.create",
            json!({ "content_type": "application/json", "content": {} }),
            true,
        ),
        (
            "references",
            "message.create",
            json!({ "content_type": "t", "content": "", "references": [hash] }),
            true,
        ),
        (
            "references-empty",
            "message.create",
            json!({ "content_type": "t", "content": "", "references": [] }),
            true,
        ),
        (
            "references-twice",
            "message.create",
            json!({ "content_type": "t", "content": "", "references": [hash, hash] }),
            false,
        ),
        (
            "references-not-hashes",
            "message.create",
            json!({ "content_type": "t", "content": "", "references": ["x"] }),
            false,
        ),
        (
            "content-type-empty",
            "message.create",
            json!({ "content_type": "", "content": "x" }),
            false,
        ),
        ("content-missing", "message.create", json!({ "content_type": "t" }), false),
        ("content-number", "message.create", json!({ "content_type": "t", "content": 5 }), false),
        ("content-null", "message.create", json!({ "content_type": "t", "content": null }), false),
        ("content-array", "message.create", json!({ "content_type": "t", "content": [] }), false),
        (
            "unknown-member",
            "message.create",
            json!({ "content_type": "t", "content": "x", "mentions": [] }),
            false,
        ),
        (
            "extra",
            "message.create",
            json!({ "content_type": "t", "content": "x", "extra": {} }),
            true,
        ),
        (
            "null-extra",
            "message.create",
            json!({ "content_type": "t", "content": "x", "extra": null }),
            false,
        ),
        ("direct", "room.join", json!({ "role": "speaker", "perspective": "p" }), true),
        ("with-request", "room.join", json!({ "role": "speaker", "request_id": "jr_1" }), true),
        (
            "request-and-perspective",
            "room.join",
            json!({ "role": "speaker", "request_id": "jr_1", "perspective": "p" }),
            false,
        ),
        ("empty-request", "room.join", json!({ "role": "speaker", "request_id": "" }), false),
        ("other-role", "room.join", json!({ "role": "expert" }), false),
        ("no-role", "room.join", json!({}), false),
        (
            "approve",
            "room.join.review",
            json!({ "request": asked, "decision": "approve", "role": "observer" }),
            true,
        ),
        (
            "approve-without-role",
            "room.join.review",
            json!({ "request": asked, "decision": "approve" }),
            false,
        ),
        (
            "reject",
            "room.join.review",
            json!({ "request": asked, "decision": "reject", "reason": "no" }),
            true,
        ),
        ("maybe", "room.join.review", json!({ "request": asked, "decision": "maybe" }), false),
        ("without-request", "room.join.review", json!({ "decision": "reject" }), false),
        (
            "request-with-token",
            "room.join.review",
            json!({ "request": with(&asked, "token", json!("x")), "decision": "reject" }),
            false,
        ),
        (
            "request-without-expiry",
            "room.join.review",
            json!({ "request": without(&asked, "expires_at"), "decision": "reject" }),
            false,
        ),
        ("plain", "room.leave", json!({}), true),
        ("reason", "room.leave", json!({ "reason": "r", "references": [hash], "extra": {} }), true),
        ("unknown-member", "room.leave", json!({ "ban": true }), false),
        (
            "plain",
            "room.member.role.update",
            json!({ "member": id(CREATOR), "role": "observer", "reason": "r", "extra": {} }),
            true,
        ),
        ("no-member", "room.member.role.update", json!({ "role": "observer" }), false),
        (
            "member-not-id",
            "room.member.role.update",
            json!({ "member": "x", "role": "observer" }),
            false,
        ),
        ("ban", "room.member.remove", json!({ "member": id(CREATOR), "ban": true }), true),
        ("ban-text", "room.member.remove", json!({ "member": id(CREATOR), "ban": "yes" }), false),
        ("no-member", "room.member.remove", json!({ "ban": true }), false),
        ("one-member", "room.update", json!({ "agenda": "" }), true),
        ("nothing", "room.update", json!({}), false),
        ("visibility", "room.update", json!({ "visibility": "private" }), false),
        ("types", "room.update", json!({ "types": [] }), false),
        ("extra", "room.update", json!({ "extra": {} }), false),
        ("blank-topic", "room.update", json!({ "topic": " " }), false),
        ("bad-policy", "room.update", json!({ "policy": { "max_speakers": 0 } }), false),
        ("plain", "room.close", json!({}), true),
        ("text-reason", "room.close", json!({ "reason": 5 }), false),
        ("plain", "room.cancel", json!({ "reason": "r" }), true),
    ];
    for (name, event_type, payload, fine) in cases {
        e.event(&format!("{event_type}-{name}"), &event(event_type, payload), fine);
    }
}

fn declarations(e: &mut Envelopes) {
    let inline = json!({ "type": "a.b", "kind": "signal", "title": "t", "schema": {} });
    let digest = "sha256:VR3Xgoi9gvUp4Wl74fdLkdWuIngxnwFCGKk7Kpl8oPc";
    let uri = "https://example.com/p.json";
    let cases: Vec<(&str, Value, bool)> = vec![
        ("inline", inline.clone(), true),
        (
            "inline-everything",
            json!({
                "type": "a.b", "kind": "signal", "title": "t", "schema": {}, "description": "d",
                "roles": ["speaker"], "instructions": "i", "version": "1.0", "status": "active",
                "rate_hint": 30, "max_payload_hint": 1024, "extra": {},
            }),
            true,
        ),
        ("no-kind", without(&inline, "kind"), false),
        ("kind-lifecycle", with(&inline, "kind", json!("lifecycle")), false),
        ("no-title", without(&inline, "title"), false),
        ("title-empty", with(&inline, "title", json!("")), false),
        ("no-schema", without(&inline, "schema"), false),
        ("schema-true", with(&inline, "schema", json!(true)), false),
        ("built-in", with(&inline, "type", json!("message.create")), false),
        ("reserved", with(&inline, "type", json!("room.poll")), false),
        ("status-other", with(&inline, "status", json!("retired")), false),
        ("roles-other", with(&inline, "roles", json!(["guest"])), false),
        ("hint-zero", with(&inline, "rate_hint", json!(0)), false),
        ("unknown-member", with(&inline, "color", json!("red")), false),
        ("use", json!({ "use": "adp:reactions/1.0" }), true),
        ("use-subset", json!({ "use": "adp:deliberation/1.0", "types": ["poll.create"] }), true),
        ("use-no-types", json!({ "use": "adp:deliberation/1.0", "types": [] }), false),
        (
            "use-override",
            json!({ "use": "adp:deliberation/1.0", "overrides": { "poll.vote": { "roles": ["observer"] } } }),
            true,
        ),
        (
            "use-override-kind",
            json!({ "use": "adp:deliberation/1.0", "overrides": { "poll.vote": { "kind": "control" } } }),
            false,
        ),
        (
            "use-override-schema",
            json!({ "use": "adp:deliberation/1.0", "overrides": { "poll.vote": { "schema": {} } } }),
            false,
        ),
        (
            "use-and-pack",
            json!({ "use": "adp:reactions/1.0", "pack": uri, "digest": digest }),
            false,
        ),
        ("use-and-inline", json!({ "use": "adp:reactions/1.0", "type": "a.b" }), false),
        ("pack", json!({ "pack": uri, "digest": digest }), true),
        ("pack-without-digest", json!({ "pack": uri }), false),
        (
            "pack-hex-digest",
            json!({ "pack": uri, "digest": "sha256:551dd7828abd82f529e1697be1f74b91d5ae2278319f014218a93b2a997ca0f7" }),
            false,
        ),
        (
            "pack-bare-digest",
            json!({ "pack": uri, "digest": "VR3Xgoi9gvUp4Wl74fdLkdWuIngxnwFCGKk7Kpl8oPc" }),
            false,
        ),
        ("empty", json!({}), false),
    ];
    for (name, payload, fine) in cases {
        e.event(&format!("type.define-{name}"), &event("type.define", payload), fine);
    }
}

pub(super) fn profile() -> File {
    let mut e = Envelopes(Writer::new(
        "profile",
        "Profile updates and the document they make",
        "Agent Profile 1.0 (revision of 2026-07-04)",
    ));
    let update = |payload: Value| {
        json!({
            "protocol": "agent-profile/1.0", "type": "profile.update", "actor": id(SPEAKER),
            "created_at": START, "nonce": 4, "payload": payload,
        })
    };
    let least = json!({ "id": id(SPEAKER), "name": "Reviewer" });
    let link = json!({ "name": "n", "url": "https://a.example", "rel": "homepage" });
    let endpoint = json!({ "type": "mcp", "url": "https://a.example/mcp", "protocols": ["x"] });
    let hint = json!({ "principal": { "id": "https://org.example" }, "credential_url": "https://org.example/c" });
    let many: Vec<Value> =
        (0..65).map(|i| with(&link, "url", json!(format!("https://a.example/{i}")))).collect();
    let cases: Vec<(&str, Value, bool)> = vec![
        ("least", least.clone(), true),
        (
            "everything",
            json!({
                "id": id(SPEAKER), "name": "Reviewer", "description": "d", "avatar_url": "https://a.example/a.png",
                "provider": "p", "capabilities": ["review"], "service_endpoints": [endpoint],
                "links": [link], "delegations": [hint], "extra": { "x": 1 },
            }),
            true,
        ),
        ("unknown-member", with(&least, "color", json!("red")), true),
        ("another-id", with(&least, "id", json!(id(CREATOR))), false),
        ("no-id", without(&least, "id"), false),
        ("no-name", without(&least, "name"), false),
        ("name-number", with(&least, "name", json!(5)), false),
        ("description-null", with(&least, "description", Value::Null), false),
        ("capabilities-text", with(&least, "capabilities", json!("review")), false),
        ("capabilities-numbers", with(&least, "capabilities", json!([1])), false),
        ("links-same", with(&least, "links", json!([link, link])), false),
        (
            "links-other-rel",
            with(&least, "links", json!([with(&link, "rel", json!("shop"))])),
            false,
        ),
        (
            "links-two-rels",
            with(&least, "links", json!([link, with(&link, "rel", json!("social"))])),
            true,
        ),
        ("endpoints-same", with(&least, "service_endpoints", json!([endpoint, endpoint])), false),
        (
            "endpoints-without-url",
            with(&least, "service_endpoints", json!([without(&endpoint, "url")])),
            false,
        ),
        (
            "delegation-without-principal",
            with(&least, "delegations", json!([without(&hint, "principal")])),
            false,
        ),
        ("extra-text", with(&least, "extra", json!("x")), false),
        // The sizes of APP are for the service that takes an update; a verifier asks none.
        ("name-beyond-the-recommended", with(&least, "name", json!("n".repeat(129))), true),
        ("links-beyond-the-recommended", with(&least, "links", json!(many)), true),
        ("avatar-not-https", with(&least, "avatar_url", json!("http://a.example/a.png")), true),
    ];
    for (name, payload, fine) in cases {
        e.event(name, &update(payload), fine);
    }
    e.event("other-type", &with(&update(least.clone()), "type", json!("profile.delete")), false);
    e.event("with-room-id", &with(&update(least.clone()), "room_id", json!(ROOM)), false);
    e.event("with-mentions", &with(&update(least.clone()), "mentions", json!([])), false);
    let envelope = sealed(&update(with(&least, "color", json!("red"))), &key(SPEAKER));
    let document = format!(
        "{{\"event_id\":{},\"id\":\"{}\",\"name\":\"Reviewer\",\"updated_at\":{START}}}",
        envelope["hash"],
        id(SPEAKER),
    );
    let out = json!({ "ok": true, "document": document });
    e.0.add("materialized", "profile.materialize", json!({ "text": envelope.to_string() }), out)
        .about("Members the protocol does not know are not part of the document.");
    e.0.done()
}
