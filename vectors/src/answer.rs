//! This project's answers, one function per operation.
//!
//! Thin on purpose: every judgement is the kernel's. An operation that is unknown has no
//! answer, which is not the same as a refusal.

use ap_protocol::archive::{self, Part, Verifier};
use ap_protocol::encoding;
use ap_protocol::event;
use ap_protocol::jwt;
use ap_protocol::nonce::NonceSequence;
use ap_protocol::origin::Origin;
use ap_protocol::record::record_hash;
use ap_protocol::schema::CompiledSchema;
use ap_protocol::sse::{self, SseParser};
use ap_protocol::{
    AgentId, ErrorCode, Hash, SecretKey, VerifiedEnvelope, jcs, json as strict, pack, profile,
};
use serde_json::{Map, Value, json};

/// The input of a case.
type Input = Map<String, Value>;

/// Answers one operation; none when the operation or its input is not understood.
pub fn answer(op: &str, input: &Input) -> Option<Value> {
    match op {
        "json.parse" => json_parse(input),
        "jcs" => canonical(input),
        "base64url.decode" => base64url(input),
        "agent_id.parse" => Some(match AgentId::parse(text(input, "text")?) {
            Ok(id) => json!({ "ok": true, "public_key": hex(id.key_bytes()) }),
            Err(_) => refused("invalid_actor"),
        }),
        "identity.from_seed" => {
            let id = key(input)?.agent_id();
            Some(json!({ "ok": true, "agent_id": id, "public_key": hex(id.key_bytes()) }))
        }
        "ed25519.verify" => ed25519(input),
        "event.sign" => event_sign(input),
        "envelope.verify" => envelope(input),
        "live_window" => {
            let apart = number(input, "created_at")?.abs_diff(number(input, "now")?);
            Some(if apart <= ap_protocol::LIVE_WINDOW_MS {
                ok()
            } else {
                refused("timestamp_out_of_window")
            })
        }
        "nonce.observe" => nonce_observe(input),
        "nonce.issue" => {
            let mut sequence = NonceSequence::after(number(input, "last")?);
            Some(match sequence.issue(number(input, "now")?) {
                Ok(nonce) => json!({ "ok": true, "nonce": nonce }),
                Err(_) => refused("nonce_exhausted"),
            })
        }
        "jwt.verify" => {
            let (token, audience) = (text(input, "token")?, text(input, "audience")?);
            Some(match jwt::verify(token, audience, number(input, "now")?) {
                Ok(agent) => json!({ "ok": true, "agent_id": agent }),
                Err(_) => refused("invalid_token"),
            })
        }
        "origin" => Some(match Origin::parse(text(input, "url")?) {
            Ok(origin) => json!({ "ok": true, "origin": origin.as_str() }),
            Err(_) => refused("origin"),
        }),
        "type_name" => {
            let fine = event::is_custom_type_name(text(input, "text")?);
            Some(if fine { ok() } else { refused("invalid_event") })
        }
        "built_in_type" => {
            let name = text(input, "text")?;
            Some(match event::built_in_kind(name) {
                Some(kind) => json!({
                    "ok": true, "kind": kind.as_str(), "advances_head": kind.advances_head(),
                    "membership": event::is_membership(name),
                }),
                None => refused("type_not_defined"),
            })
        }
        "error_code" => Some(match ErrorCode::from_text(text(input, "text")?) {
            Some(_) => ok(),
            None => refused("unknown_code"),
        }),
        "constants" => Some(json!({
            "ok": true,
            "live_write_window_ms": ap_protocol::LIVE_WINDOW_MS,
            "max_mentions": ap_protocol::MAX_MENTIONS,
            "max_nonce_header": ap_protocol::nonce::MAX_SEEN_NONCE,
            "max_safe_nonce": ap_protocol::MAX_SAFE_INTEGER,
            "request_jwt_ttl_secs": ap_protocol::REQUEST_JWT_TTL_SECS,
        })),
        "schema.check" => {
            let schema = parsed(input, "schema")?;
            Some(match CompiledSchema::compile(&schema) {
                Ok(_) => ok(),
                Err(e) => refused(e.code()),
            })
        }
        "schema.validate" => {
            let schema = CompiledSchema::compile(&parsed(input, "schema")?).ok()?;
            Some(match schema.validate(&parsed(input, "payload")?) {
                Ok(()) => ok(),
                Err(v) => with_path("payload_schema_violation", &v.path),
            })
        }
        "pack.digest" => {
            let bytes = text(input, "document")?.as_bytes();
            Some(match pack::check_digest(bytes, text(input, "digest")?) {
                Ok(()) => ok(),
                Err(_) => refused("pack_unavailable"),
            })
        }
        "pack.validate" => pack_validate(input),
        "record.hash" => record(input),
        "room.replay" => replay(input),
        "archive.digest" => {
            let records = parsed(input, "records")?;
            let digest = archive::events_sha3_256(records.as_array()?);
            Some(json!({ "ok": true, "events_sha3_256": digest }))
        }
        "archive.verify" => {
            let verdict = archive::verify(text(input, "archive")?.as_bytes(), None);
            Some(match verdict.failure {
                None => json!({
                    "ok": true, "event_count": verdict.event_count,
                    "events_sha3_256": verdict.events_sha3_256,
                }),
                Some(failure) => {
                    json!({ "ok": false, "stage": failure.stage, "code": failure.code })
                }
            })
        }
        "profile.materialize" => {
            let value = strict::parse(text(input, "text")?.as_bytes()).ok()?;
            Some(match VerifiedEnvelope::verify(&value) {
                Ok(envelope) => match profile::materialize(&envelope) {
                    Some(document) => json!({ "ok": true, "document": jcs::to_string(&document) }),
                    None => refused("invalid_event"),
                },
                Err(e) => refused(e.code().as_str()),
            })
        }
        "sse.parse" => server_sent(input),
        _ => None,
    }
}

fn ok() -> Value {
    json!({ "ok": true })
}

fn refused(code: &str) -> Value {
    json!({ "ok": false, "code": code })
}

fn with_path(code: &str, path: &str) -> Value {
    json!({ "ok": false, "code": code, "path": path })
}

fn text<'a>(input: &'a Input, name: &str) -> Option<&'a str> {
    input.get(name)?.as_str()
}

fn number(input: &Input, name: &str) -> Option<u64> {
    input.get(name)?.as_u64()
}

fn parsed(input: &Input, name: &str) -> Option<Value> {
    strict::parse(text(input, name)?.as_bytes()).ok()
}

fn key(input: &Input) -> Option<SecretKey> {
    Some(SecretKey::from_seed(&unhex(text(input, "seed")?)?.try_into().ok()?))
}

/// Lowercase hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Reads lowercase or uppercase hexadecimal.
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.is_ascii() || !text.len().is_multiple_of(2) {
        return None;
    }
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).ok()).collect()
}

/// The input bytes: `text`, or `hex` where the bytes are no text.
fn bytes(input: &Input) -> Option<Vec<u8>> {
    match input.get("text") {
        Some(text) => Some(text.as_str()?.as_bytes().to_vec()),
        None => unhex(text(input, "hex")?),
    }
}

fn json_parse(input: &Input) -> Option<Value> {
    Some(match strict::parse(&bytes(input)?) {
        Ok(value) => json!({ "ok": true, "canonical": jcs::to_string(&value) }),
        Err(e) => json!({ "ok": false, "code": e.code(), "offset": e.offset }),
    })
}

fn canonical(input: &Input) -> Option<Value> {
    Some(match strict::parse(&bytes(input)?) {
        Ok(value) => json!({
            "ok": true, "canonical": jcs::to_string(&value), "sha3_256": Hash::of_value(&value),
        }),
        Err(e) => refused(e.code()),
    })
}

fn base64url(input: &Input) -> Option<Value> {
    let decoded = encoding::decode(text(input, "text")?);
    let length = number(input, "length").and_then(|n| usize::try_from(n).ok());
    Some(match decoded {
        Ok(bytes) if length.is_none_or(|n| n == bytes.len()) => {
            json!({ "ok": true, "hex": hex(&bytes) })
        }
        _ => refused("not_canonical"),
    })
}

fn ed25519(input: &Input) -> Option<Value> {
    let public: [u8; 32] = unhex(text(input, "public_key")?)?.try_into().ok()?;
    let message = unhex(text(input, "message")?)?;
    let signature = unhex(text(input, "signature")?)?;
    let holds = <[u8; 64]>::try_from(signature).ok().is_some_and(|signature| {
        let id = format!("{}{}", ap_protocol::agent_id::PREFIX, encoding::encode(public));
        AgentId::parse_named(&id)
            .is_ok_and(|id| ap_protocol::keys::verify(&id, &message, &signature).is_ok())
    });
    Some(if holds { ok() } else { refused("invalid_signature") })
}

fn event_sign(input: &Input) -> Option<Value> {
    let Ok(Value::Object(event)) = strict::parse(text(input, "event")?.as_bytes()) else {
        return Some(refused("invalid_event"));
    };
    Some(match VerifiedEnvelope::sign(&key(input)?, event) {
        Ok(envelope) => json!({
            "ok": true, "hash": envelope.hash(), "signature": envelope.signature(),
        }),
        Err(e) => refused(e.code().as_str()),
    })
}

fn envelope(input: &Input) -> Option<Value> {
    let value = match strict::parse(text(input, "text")?.as_bytes()) {
        Ok(value) => value,
        Err(_) => {
            return Some(json!({ "ok": false, "stage": "parse", "code": "invalid_event" }));
        }
    };
    Some(match VerifiedEnvelope::verify(&value) {
        Ok(e) => json!({ "ok": true, "hash": e.hash(), "actor": e.actor() }),
        Err(e) => json!({ "ok": false, "stage": e.stage(), "code": e.code().as_str() }),
    })
}

fn nonce_observe(input: &Input) -> Option<Value> {
    let mut sequence = NonceSequence::after(number(input, "last")?);
    Some(match sequence.observe(text(input, "header")?, number(input, "now")?) {
        Ok(_) => json!({ "ok": true, "last": sequence.last() }),
        Err(_) => json!({ "ok": false, "last": sequence.last() }),
    })
}

fn pack_validate(input: &Input) -> Option<Value> {
    let types = pack::registered(text(input, "pack")?)?;
    let name = text(input, "type")?;
    let Some(definition) = types.iter().find(|d| d["type"] == name) else {
        return Some(refused("type_not_defined"));
    };
    let schema = CompiledSchema::compile(&definition["schema"]).ok()?;
    Some(match schema.validate(&parsed(input, "payload")?) {
        Ok(()) => json!({ "ok": true, "kind": definition["kind"] }),
        Err(v) => with_path("payload_schema_violation", &v.path),
    })
}

fn record(input: &Input) -> Option<Value> {
    let pre_hash = match input.get("pre_hash")? {
        Value::Null => None,
        hash => Some(Hash::parse(hash.as_str()?).ok()?),
    };
    let envelope_hash = Hash::parse(text(input, "envelope_hash")?).ok()?;
    let (seq, received_at) = (number(input, "seq")?, number(input, "received_at")?);
    let room_id = text(input, "room_id")?;
    let preimage = json!({
        "room_id": room_id, "seq": seq, "pre_hash": pre_hash,
        "envelope_hash": envelope_hash, "received_at": received_at,
    });
    Some(json!({
        "ok": true, "preimage": jcs::to_string(&preimage),
        "hash": record_hash(room_id, seq, pre_hash.as_ref(), &envelope_hash, received_at),
    }))
}

fn replay(input: &Input) -> Option<Value> {
    let records = match strict::parse(text(input, "records")?.as_bytes()) {
        Ok(records) => records,
        Err(_) => return Some(refused("invalid_event")),
    };
    let mut verifier = Verifier::new(input.get("room_id").and_then(Value::as_str));
    for pack in input.get("packs").and_then(Value::as_array).into_iter().flatten() {
        verifier.push(Part::Pack {
            uri: pack["uri"].as_str()?.to_owned(),
            bytes: pack["document"].as_str()?.as_bytes().to_vec(),
        });
    }
    for record in records.as_array()? {
        verifier.push_record(record);
    }
    let members = verifier.state().map(|state| {
        let view = state.members.iter().map(|(id, m)| {
            let role = m.role.map_or("none", |r| r.as_str());
            (id.to_string(), json!(format!("{} {role}", m.status.as_str())))
        });
        Value::Object(view.collect())
    });
    let types = verifier.state().map(|s| s.registry.iter().count());
    let verdict = verifier.finish();
    Some(match verdict.failure {
        None => {
            let last = verdict.last?;
            let head = verdict.head?;
            let mut out = json!({
                "ok": true, "seq": last.seq, "hash": last.hash, "head_seq": head.seq,
                "status": verdict.status, "members": members, "types": types,
            });
            if !verdict.notes.is_empty() {
                out["notes"] = verdict.notes.iter().map(|n| json!(n.code)).collect();
            }
            out
        }
        Some(failure) => json!({ "ok": false, "code": failure.code, "seq": failure.seq }),
    })
}

fn server_sent(input: &Input) -> Option<Value> {
    let mut parser = SseParser::new(sse::Limits::default());
    let mut events = Vec::new();
    for chunk in input.get("chunks")?.as_array()? {
        if parser.push(&unhex(chunk.as_str()?)?, &mut events).is_err() {
            return Some(refused("too_large"));
        }
    }
    let events: Vec<Value> = events
        .into_iter()
        .map(|e| json!({ "event": e.event, "data": e.data, "id": e.last_event_id }))
        .collect();
    Some(json!({ "ok": true, "events": events }))
}
