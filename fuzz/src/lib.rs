//! Bodies of the fuzz targets: each takes any bytes and panics when a promise is broken.
//!
//! They are ordinary functions, so that the committed corpus runs as a plain test on every
//! machine; the libFuzzer binaries only call them.

use std::sync::LazyLock;

use ap_protocol::archive::{self, Verifier};
use ap_protocol::origin::Origin;
use ap_protocol::record::sign_discourse;
use ap_protocol::room::MemoryContext;
use ap_protocol::schema::CompiledSchema;
use ap_protocol::sse::{Limits, SseEvent, SseParser};
use ap_protocol::{
    AgentId, CheckedRecord, Hash, RoomState, SecretKey, Tip, VerifiedEnvelope, VerifiedRecord,
    encoding, jcs, json, jwt, nonce,
};
use arbitrary::{Arbitrary, Unstructured};
use serde_json::{Value, json};

/// A target: its name and its body.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const TARGETS: &[Target] = &[
    ("json", json_text),
    ("jcs", canonical),
    ("envelope", envelope),
    ("chain", chain),
    ("replay", replay),
    ("sse", server_sent),
    ("jwt", token),
    ("ids", ids),
    ("schema", schema),
    ("archive", whole_archive),
];

/// The strict parser accepts nothing that serde_json refuses, reads the same value, and
/// refuses more only for its declared reasons.
pub fn json_text(data: &[u8]) {
    let theirs: Result<Value, _> = serde_json::from_slice(data);
    match (json::parse(data), theirs) {
        (Ok(ours), Ok(theirs)) => assert_eq!(jcs::to_vec(&ours), jcs::to_vec(&theirs)),
        // It stops at the 128th level, we after it.
        (Ok(_), Err(e)) if e.to_string().starts_with("recursion limit") => {}
        (Ok(_), Err(e)) => panic!("accepted what serde_json refuses: {e}"),
        (Err(e), Ok(_)) => assert!(
            matches!(
                e.code(),
                "json_duplicate_member"
                    | "json_unsafe_integer"
                    | "json_too_deep"
                    | "json_lone_surrogate"
            ),
            "{e}"
        ),
        (Err(e), Err(_)) => assert!(e.offset <= data.len()),
    }
}

/// Our canonical form is that of another implementation, and reading it changes nothing.
pub fn canonical(data: &[u8]) {
    let Ok(value) = json::parse(data) else { return };
    let ours = jcs::to_vec(&value);
    let theirs = serde_json_canonicalizer::to_vec(&value).expect("a strictly parsed value");
    assert_eq!(ours, theirs);
    match json::parse(&ours) {
        Ok(again) => assert_eq!(jcs::to_vec(&again), ours),
        // A double such as 1e20 is printed as an integer that strict readers refuse.
        Err(e) => assert_eq!(e.code(), "json_unsafe_integer"),
    }
}

/// Any bytes are judged without a panic; any event that we sign, we accept.
pub fn envelope(data: &[u8]) {
    let Ok(value) = json::parse(data) else { return };
    if let Ok(envelope) = VerifiedEnvelope::verify(&value) {
        assert_eq!(envelope.value(), &value);
        let _ = (envelope.event_type(), envelope.payload(), envelope.base(), envelope.room_id());
        assert!(envelope.mentions().count() <= ap_protocol::MAX_MENTIONS);
    }
    // The same bytes as an event of ours.
    let event = value.get("event").unwrap_or(&value);
    let Value::Object(mut event) = event.clone() else { return };
    let key = &KEYS[0];
    event.insert("actor".to_owned(), json!(key.agent_id()));
    if let Ok(signed) = VerifiedEnvelope::sign(key, event) {
        let again = VerifiedEnvelope::verify(signed.value()).expect("what we sign, we accept");
        assert_eq!(again, signed);
        let wire = signed.value().to_string();
        let wire = json::parse(wire.as_bytes()).expect("what we send, we read");
        assert!(VerifiedEnvelope::verify(&wire).is_ok_and(|e| e == signed));
    }
}

/// Any list of records is judged without a panic, and judged the same twice.
pub fn chain(data: &[u8]) {
    let Ok(Value::Array(records)) = json::parse(data) else { return };
    let verdict = |records: &[Value]| {
        let mut verifier = Verifier::new(None);
        for record in records {
            verifier.push_record(record);
        }
        verifier.finish()
    };
    let first = verdict(&records);
    assert_eq!(first, verdict(&records));
    if first.verified {
        let all = Value::Array(records);
        assert_eq!(first.events_sha3_256, Hash::of(&jcs::to_vec(&all)));
    }
}

/// One attempt of somebody in a room.
#[derive(Debug, Arbitrary)]
struct Attempt {
    who: u8,
    what: u8,
    target: u8,
    base: u8,
    pause: u16,
    flag: bool,
}

const ROOM: &str = "d8ftedhpqhsusbg001tg";
const START: u64 = 1_779_753_600_000;

static KEYS: LazyLock<Vec<SecretKey>> =
    LazyLock::new(|| (1..=5).map(|n| SecretKey::from_seed(&[n; 32])).collect());

/// The creation of two rooms: compiled once, as schemas take their time.
static ROOMS: LazyLock<[(RoomState, VerifiedRecord); 2]> = LazyLock::new(|| {
    ["public", "restricted"].map(|visibility| {
        let payload = json!({
            "topic": "t", "visibility": visibility,
            "start_time": START + 60_000, "end_time": START + 3_600_000,
            "policy": { "moderator_agent_ids": [KEYS[1].agent_id()], "max_speakers": 3 },
            "types": [
                { "type": "a.message", "kind": "message", "title": "m", "schema": {} },
                { "type": "a.signal", "kind": "signal", "title": "s", "schema": { "required": ["x"] } },
                { "type": "a.control", "kind": "control", "title": "c", "schema": {}, "roles": ["speaker"] },
            ],
        });
        let sign = sign_discourse(&KEYS[0], None, None, "room.create", payload, &[], START, 1);
        let record = VerifiedRecord::append(ROOM, None, START, sign.expect("the shape holds"));
        let state = RoomState::genesis(&record, &MemoryContext::default());
        (state.expect("an honest creation"), record)
    })
});

/// What is admitted applies, what is refused leaves no trace, and storing the state on the
/// way changes nothing.
pub fn replay(data: &[u8]) {
    let mut input = Unstructured::new(data);
    let restricted = bool::arbitrary(&mut input).unwrap_or_default();
    let (state, record) = &ROOMS[usize::from(restricted)];
    let (mut state, mut context) = (state.clone(), MemoryContext::default());
    context.push(record);
    let mut accepted = vec![record.clone()];
    let (mut now, mut count) = (START + 1_000, 1);
    while let Ok(attempt) = Attempt::arbitrary(&mut input) {
        if count > 32 {
            break;
        }
        count += 1;
        now += 1 + u64::from(attempt.pause) * 4;
        let key = &KEYS[usize::from(attempt.who) % KEYS.len()];
        let (event_type, payload) = event_of(&attempt, count);
        let head_bound = state.kind_of(event_type).is_none_or(|k| k.advances_head());
        let base = match attempt.base % 8 {
            0 => Tip { seq: 1, hash: *accepted[0].hash() },
            1 => Tip { seq: state.tip.seq, hash: Hash::of(data) },
            2 => state.tip,
            _ if head_bound => state.head,
            _ => state.tip,
        };
        let nonce = if attempt.base == 255 { 1 } else { count };
        let signed =
            sign_discourse(key, Some(ROOM), Some(&base), event_type, payload, &[], now, nonce);
        let Ok(envelope) = signed else { continue };
        let admitted = state.admit(&envelope, now, &context);
        let record = VerifiedRecord::append(ROOM, Some(&state.tip), now, envelope);
        let before = state.clone();
        let applied = state.apply(&record, &context);
        match (admitted, applied) {
            (Ok(kind), Ok(same)) => {
                assert_eq!(kind, same);
                assert_eq!(state.tip, record.tip());
                context.push(&record);
                accepted.push(record);
            }
            (Err(rejection), Err(violation)) => {
                assert_eq!(rejection, violation.rejection);
                assert_eq!(state, before);
            }
            // Only the verifier's patience with a late scheduler may tell them apart.
            (Err(_), Ok(_)) => {
                let time = |name: &str| before.contract[name].as_u64().unwrap_or(0);
                let late = |due: u64| now >= due && now - due < 5_000;
                assert!(late(time("end_time")) || late(time("start_time")));
                state = before;
            }
            (Ok(_), Err(e)) => panic!("admitted and then refused: {e}"),
        }
    }
    let stored = serde_json::to_string(&state).expect("plain data");
    let again: RoomState = serde_json::from_str(&stored).expect("as it was stored");
    assert_eq!(again, state);
    // From the creation on once more, over the wire form of every record.
    let (mut again, mut tip) = (ROOMS[usize::from(restricted)].0.clone(), record.tip());
    let mut context = MemoryContext::default();
    context.push(record);
    for record in &accepted[1..] {
        let checked = CheckedRecord::check(&record.to_value(), ROOM).expect("made above");
        let linked = checked.link(Some(&tip)).expect("in the order it was made");
        again.apply(&linked, &context).expect("it was accepted before");
        context.push(&linked);
        tip = linked.tip();
    }
    assert_eq!(again, state);
}

fn event_of(a: &Attempt, count: u64) -> (&'static str, Value) {
    let target = KEYS[usize::from(a.target) % KEYS.len()].agent_id();
    let role = ["moderator", "speaker", "observer"][usize::from(a.target / 8) % 3];
    let request = format!("jr_{}", count % 4);
    let ask = json!({
        "id": request, "room_id": ROOM, "applicant": target, "role": role,
        "created_at": START, "expires_at": START + 2_000_000,
    });
    match a.what % 20 {
        0..=2 => ("message.create", json!({ "content_type": "text/plain", "content": "x" })),
        3 => ("a.message", json!({ "x": a.pause })),
        4 if a.flag => ("a.signal", json!({})),
        4 => ("a.signal", json!({ "x": 1 })),
        5 => ("a.control", json!({})),
        6..=8 => ("room.join", json!({ "role": role })),
        9 => ("room.join", json!({ "role": role, "request_id": request })),
        10 => ("room.leave", json!({})),
        11 => ("room.member.role.update", json!({ "member": target, "role": role })),
        12 => ("room.member.remove", json!({ "member": target, "ban": a.flag })),
        13 => ("room.join.review", json!({ "request": ask, "decision": "approve", "role": role })),
        14 => ("room.join.review", json!({ "request": ask, "decision": "reject" })),
        15 => ("room.update", json!({ "policy": { "observer_allowed": a.flag } })),
        16 if a.flag => ("room.update", json!({ "start_time": START + u64::from(a.pause) })),
        16 => ("room.update", json!({ "end_time": START + u64::from(a.pause) * 64 })),
        17 if a.flag => ("room.close", json!({})),
        17 => ("room.cancel", json!({})),
        18 => (
            "type.define",
            json!({ "type": "a.signal", "kind": if a.flag { "signal" } else { "control" }, "title": "s", "schema": {} }),
        ),
        _ => (
            "message.create",
            json!({ "content_type": "t", "content": "x", "references": [Hash::of(&[a.pause.to_le_bytes()[0]])] }),
        ),
    }
}

/// However the bytes are cut, the events are the same; the caps hold.
pub fn server_sent(data: &[u8]) {
    let Some((&size, stream)) = data.split_first() else { return };
    let limits = Limits { max_line: 256, max_event: 512 };
    let parse = |chunk: usize| -> (Vec<SseEvent>, Option<String>) {
        let mut parser = SseParser::new(limits);
        let mut out = Vec::new();
        for part in stream.chunks(chunk) {
            if let Err(e) = parser.push(part, &mut out) {
                return (out, Some(e.to_string()));
            }
        }
        (out, None)
    };
    let whole = parse(stream.len().max(1));
    assert_eq!(whole, parse(1));
    assert_eq!(whole, parse(usize::from(size).max(1)));
    for event in &whole.0 {
        assert!(event.data.len() < limits.max_event && event.event.len() <= limits.max_line);
    }
}

/// Any text is judged without a panic; a token is good only with the right header and claims.
pub fn token(data: &[u8]) {
    let (here, now) = ("https://a.example", 1_779_753_600);
    if let Ok(text) = std::str::from_utf8(data)
        && let Ok(agent) = jwt::verify(text, here, now)
    {
        // Nobody without a key makes one: it must be one of the committed seeds.
        assert!(KEYS.iter().any(|key| key.agent_id() == agent), "forged for {agent}");
    }
    // Header and claims from the input, signed properly.
    let split = data.iter().position(|b| *b == 0).unwrap_or(data.len());
    let (header, claims) = (&data[..split], data.get(split + 1..).unwrap_or_default());
    let signed = format!("{}.{}", encoding::encode(header), encoding::encode(claims));
    let signature = encoding::encode(KEYS[0].sign(signed.as_bytes()));
    if let Ok(agent) = jwt::verify(&format!("{signed}.{signature}"), here, now) {
        assert_eq!(agent, KEYS[0].agent_id());
        let claims = json::parse(claims).expect("accepted claims are strict JSON");
        assert_eq!(claims["aud"], here);
        let (iat, exp) = (claims["iat"].as_u64(), claims["exp"].as_u64());
        let (iat, exp) = (iat.expect("checked"), exp.expect("checked"));
        assert!(exp > iat && exp - iat <= 300 && now <= exp && iat <= now + 60);
    }
}

/// What is accepted has one spelling.
pub fn ids(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(bytes) = encoding::decode(text) {
        assert_eq!(encoding::encode(bytes), text);
    }
    if let Ok(hash) = Hash::parse(text) {
        assert_eq!(hash.to_string(), text);
    }
    if let Ok(id) = AgentId::parse(text) {
        assert_eq!(id.as_str(), text);
        assert_eq!(AgentId::parse_named(text), Ok(id));
    }
    if let Ok(origin) = Origin::parse(text) {
        assert_eq!(
            Origin::parse(origin.as_str()).as_ref(),
            Ok(&origin),
            "an origin is its own origin"
        );
        assert!(!origin.as_str().contains('@'));
    }
    let mut sequence = nonce::NonceSequence::after(5);
    if sequence.observe(text, START) == Ok(true) {
        assert!(sequence.last() > 5 && sequence.last() <= START + nonce::MAX_JUMP);
    } else {
        assert_eq!(sequence.last(), 5);
    }
}

/// A stranger's schema and a stranger's payload, a NUL between them: bounded work, no panic,
/// and a violation names a place in the payload.
pub fn schema(data: &[u8]) {
    let split = data.iter().position(|b| *b == 0).unwrap_or(data.len());
    let Ok(source) = json::parse(&data[..split]) else { return };
    let payload = json::parse(data.get(split + 1..).unwrap_or_default()).unwrap_or(json!({}));
    let Ok(compiled) = CompiledSchema::compile(&source) else { return };
    if let Err(violation) = compiled.validate(&payload) {
        let parent = violation.path.rsplit_once('/').map_or("", |(parent, _)| parent);
        assert!(
            payload.pointer(&violation.path).is_some() || payload.pointer(parent).is_some(),
            "{} is nowhere in the payload",
            violation.path
        );
    }
}

/// Any file is judged without a panic.
pub fn whole_archive(data: &[u8]) {
    let verdict = archive::verify(data, None);
    assert_eq!(verdict.verified, verdict.failure.is_none());
    assert!(!verdict.verified || verdict.event_count > 0);
}
