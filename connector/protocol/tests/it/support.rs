//! Random material, and a room that an honest host keeps.

use ap_protocol::record::sign_discourse;
use ap_protocol::room::{MemoryContext, Rejection};
use ap_protocol::{AgentId, RoomState, SecretKey, Tip, VerifiedEnvelope, VerifiedRecord};
use proptest::prelude::*;
use serde_json::{Map, Number, Value, json};

/// How often a property is tried: as often as PROPTEST_CASES says, else `cases` times.
pub fn runs(cases: u32) -> ProptestConfig {
    let wanted = std::env::var("PROPTEST_CASES").ok().map(|text| text.parse());
    let cases = match wanted {
        Some(wanted) => wanted.expect("PROPTEST_CASES is a number"),
        None => cases,
    };
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

pub const ROOM: &str = "d8ftedhpqhsusbg001tg";
pub const START: u64 = 1_779_753_600_000;
pub const END: u64 = START + 3_600_000;

pub fn key(who: u8) -> SecretKey {
    SecretKey::from_seed(&[who; 32])
}

pub fn id(who: u8) -> AgentId {
    key(who).agent_id()
}

/// Any text, weighted towards what canonicalization has to think about.
pub fn text() -> impl Strategy<Value = String> {
    let special = prop::sample::select(vec![
        '"',
        '\\',
        '/',
        '\u{0}',
        '\u{8}',
        '\n',
        '\u{1f}',
        '\u{7f}',
        '\u{80}',
        '\u{2028}',
        '\u{d7ff}',
        '\u{e000}',
        '\u{fffd}',
        '\u{ffff}',
        '\u{10000}',
        '\u{1f600}',
        '\u{10ffff}',
    ]);
    prop::collection::vec(prop_oneof![any::<char>(), special, prop::char::range('a', 'e')], 0..8)
        .prop_map(|chars| chars.into_iter().collect())
}

/// Any number that the strict parser can give.
pub fn number() -> impl Strategy<Value = Value> {
    let max = ap_protocol::MAX_SAFE_INTEGER as i64;
    prop_oneof![
        (-max..=max).prop_map(|i| json!(i)),
        (-1000i64..1000).prop_map(|i| json!(i)),
        any::<u64>().prop_filter_map("finite", |bits| {
            Number::from_f64(f64::from_bits(bits)).map(Value::Number)
        }),
        any::<f32>()
            .prop_filter_map("finite", |f| { Number::from_f64(f64::from(f)).map(Value::Number) }),
    ]
}

/// Any I-JSON value of moderate size.
pub fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        number(),
        text().prop_map(Value::String),
    ];
    leaf.prop_recursive(4, 24, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::Array),
            prop::collection::vec((text(), inner), 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// A host that judges with `admit` before it appends, and never lies.
#[derive(Debug, Clone)]
pub struct Host {
    pub state: RoomState,
    pub context: MemoryContext,
    pub records: Vec<VerifiedRecord>,
    pub now: u64,
    pub nonce: u64,
}

pub fn creation(changes: Value) -> Value {
    let mut payload = json!({
        "topic": "t", "visibility": "public", "start_time": START, "end_time": END,
        "types": [
            { "type": "a.message", "kind": "message", "title": "m", "schema": { "type": "object" } },
            { "type": "a.signal", "kind": "signal", "title": "s", "schema": { "type": "object" } },
            { "type": "a.control", "kind": "control", "title": "c", "schema": { "type": "object" } },
        ],
    });
    for (name, value) in changes.as_object().into_iter().flatten() {
        payload[name] = value.clone();
    }
    payload
}

impl Host {
    /// A room created by agent 1.
    pub fn new(changes: Value) -> Self {
        let now = START + 10_000;
        let payload = creation(changes);
        let envelope =
            sign_discourse(&key(1), None, None, "room.create", payload, &[], now, 1).unwrap();
        let record = VerifiedRecord::append(ROOM, None, now, envelope);
        let mut context = MemoryContext::default();
        let state = RoomState::genesis(&record, &context).unwrap();
        context.push(&record);
        Host { state, context, records: vec![record], now, nonce: 1 }
    }

    pub fn sign(
        &mut self,
        who: u8,
        event_type: &str,
        payload: Value,
        base: Tip,
    ) -> VerifiedEnvelope {
        self.nonce += 1;
        let (room, now) = (Some(ROOM), self.now);
        sign_discourse(&key(who), room, Some(&base), event_type, payload, &[], now, self.nonce)
            .unwrap()
    }

    /// Submits an event; the record if it was accepted.
    pub fn submit(
        &mut self,
        who: u8,
        event_type: &str,
        payload: Value,
        base: Tip,
    ) -> Result<VerifiedRecord, Rejection> {
        self.now += 1_000;
        let envelope = self.sign(who, event_type, payload, base);
        self.state.admit(&envelope, self.now, &self.context)?;
        Ok(self.append(envelope))
    }

    /// Appends and applies without asking.
    pub fn append(&mut self, envelope: VerifiedEnvelope) -> VerifiedRecord {
        let record = VerifiedRecord::append(ROOM, Some(&self.state.tip), self.now, envelope);
        self.state.apply(&record, &self.context).unwrap();
        self.context.push(&record);
        self.records.push(record.clone());
        record
    }

    /// Submits on the base an honest author takes.
    pub fn say(&mut self, who: u8, event_type: &str, payload: Value) -> VerifiedRecord {
        let head_bound = self.state.kind_of(event_type).is_none_or(|k| k.advances_head());
        let base = if head_bound { self.state.head } else { self.state.tip };
        self.submit(who, event_type, payload, base).unwrap()
    }

    pub fn values(&self) -> Vec<Value> {
        self.records.iter().map(VerifiedRecord::to_value).collect()
    }
}

pub fn message(text: &str) -> Value {
    json!({ "content_type": "text/plain", "content": text })
}
