//! A room whose chain is always sound, whatever its events do: replay must find the fault.

use ap_protocol::record::sign_discourse;
use ap_protocol::{SecretKey, Tip, VerifiedEnvelope, VerifiedRecord, event};
use serde_json::{Value, json};

/// When every room starts (Unix ms).
pub(super) const START: u64 = 1_779_753_600_000;
/// When every room ends (Unix ms).
pub(super) const END: u64 = START + 3_600_000;
/// The id of every room.
pub(super) const ROOM: &str = "d8ftedhpqhsusbg001tg";

/// Who takes part, by the byte their seed is made of.
pub(super) const CREATOR: u8 = 7;
pub(super) const MODERATOR: u8 = 11;
pub(super) const SPEAKER: u8 = 12;
pub(super) const OBSERVER: u8 = 13;
pub(super) const STRANGER: u8 = 14;

pub(super) fn key(who: u8) -> SecretKey {
    SecretKey::from_seed(&[who; 32])
}

pub(super) fn id(who: u8) -> String {
    key(who).agent_id().to_string()
}

/// What an event is anchored to.
#[derive(Clone, Copy)]
pub(super) enum Base {
    /// What an honest author takes: the head, or the latest record for a signal.
    Fit,
    /// The record at this seq.
    At(u64),
    /// The seq with a foreign hash.
    Forged(u64),
    /// A seq that does not exist.
    Future,
}

#[derive(Clone)]
pub(super) struct Room {
    pub records: Vec<VerifiedRecord>,
    pub head: Tip,
    pub now: u64,
    nonces: std::collections::BTreeMap<u8, u64>,
    signals: Vec<String>,
}

/// Payload of a public room that runs now, with `changes` over it.
pub(super) fn creation(changes: Value) -> Value {
    let mut payload = json!({
        "topic": "Protocol review", "visibility": "public",
        "start_time": START, "end_time": END,
        "policy": { "moderator_agent_ids": [id(MODERATOR)] },
        "types": [
            {
                "type": "review.finding", "kind": "message", "title": "Finding",
                "schema": {
                    "type": "object", "required": ["severity"], "additionalProperties": false,
                    "properties": { "severity": { "enum": ["low", "high"] } },
                },
            },
            {
                "type": "review.ack", "kind": "signal", "title": "Ack",
                "schema": { "type": "object" },
            },
            {
                "type": "review.gate", "kind": "control", "title": "Gate",
                "schema": { "type": "object" },
            },
        ],
    });
    for (name, value) in changes.as_object().into_iter().flatten() {
        if value.is_null() {
            payload.as_object_mut().map(|p| p.remove(name));
        } else {
            payload[name] = value.clone();
        }
    }
    payload
}

impl Room {
    /// A room created by [`CREATOR`] half a minute into its time.
    pub fn new(changes: Value) -> Self {
        Self::created_at(changes, START + 30_000)
    }

    pub fn created_at(changes: Value, now: u64) -> Self {
        let payload = creation(changes);
        let signals = payload["types"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|t| t["kind"] == "signal")
            .filter_map(|t| t["type"].as_str().map(str::to_owned))
            .chain(["reaction.create", "poll.vote", "steer.create"].map(str::to_owned))
            .collect();
        let envelope =
            sign_discourse(&key(CREATOR), None, None, "room.create", payload, &[], now, 1)
                .expect("creations in this module have the protocol's shape");
        let record = VerifiedRecord::append(ROOM, None, now + 123, envelope);
        let head = record.tip();
        let nonces = std::collections::BTreeMap::from([(CREATOR, 1)]);
        Room { records: vec![record], head, now, nonces, signals }
    }

    /// A running room with a moderator, a speaker and an observer: seq 4, head at 1.
    pub fn full() -> Self {
        let mut room = Self::new(json!({}));
        room.join_all();
        room
    }

    pub fn join_all(&mut self) {
        self.push(MODERATOR, "room.join", json!({ "role": "moderator" }));
        self.push(SPEAKER, "room.join", json!({ "role": "speaker", "perspective": "tests" }));
        self.push(OBSERVER, "room.join", json!({ "role": "observer" }));
    }

    pub fn tip(&self) -> Tip {
        self.records.last().expect("a room has its creation").tip()
    }

    /// Appends an event as an honest author would base it.
    pub fn push(&mut self, who: u8, event_type: &str, payload: Value) -> &mut Self {
        self.push_on(who, event_type, payload, Base::Fit)
    }

    pub fn push_on(&mut self, who: u8, event_type: &str, payload: Value, base: Base) -> &mut Self {
        let nonce = self.nonces.get(&who).copied().unwrap_or(0) + 1;
        self.push_full(who, event_type, payload, base, nonce, &[])
    }

    pub fn push_full(
        &mut self,
        who: u8,
        event_type: &str,
        payload: Value,
        base: Base,
        nonce: u64,
        mentions: &[String],
    ) -> &mut Self {
        self.now += 1000;
        let signal = match event::built_in_kind(event_type) {
            Some(kind) => !kind.advances_head(),
            None => self.signals.iter().any(|s| s == event_type),
        };
        let base = match base {
            Base::Fit if signal => self.tip(),
            Base::Fit => self.head,
            Base::At(seq) => {
                let index = usize::try_from(seq).expect("seqs in this module are small") - 1;
                self.records[index].tip()
            }
            Base::Forged(seq) => {
                Tip { seq, hash: ap_protocol::Hash::of(b"no record has this hash") }
            }
            Base::Future => Tip { seq: self.tip().seq + 9, hash: self.tip().hash },
        };
        let now = self.now;
        let (key, room) = (key(who), Some(ROOM));
        let envelope =
            sign_discourse(&key, room, Some(&base), event_type, payload, mentions, now, nonce)
                .expect("events in this module have the protocol's shape");
        self.nonces.insert(who, nonce);
        self.append(envelope, signal)
    }

    /// Appends any envelope.
    pub fn append(&mut self, envelope: VerifiedEnvelope, signal: bool) -> &mut Self {
        let tip = self.tip();
        let record = VerifiedRecord::append(ROOM, Some(&tip), self.now + 123, envelope);
        if !signal {
            self.head = record.tip();
        }
        self.records.push(record);
        self
    }

    /// Lets time pass.
    pub fn at(&mut self, now: u64) -> &mut Self {
        self.now = now;
        self
    }

    pub fn values(&self) -> Vec<Value> {
        self.records.iter().map(VerifiedRecord::to_value).collect()
    }

    /// The records as the text of a JSON array.
    pub fn text(&self) -> String {
        Value::Array(self.values()).to_string()
    }
}

/// A join request of `who` in this room, as a review carries it.
pub(super) fn request(who: u8, name: &str, role: &str) -> Value {
    json!({
        "id": name, "room_id": ROOM, "applicant": id(who), "role": role,
        "perspective": "ops", "created_at": START, "expires_at": END,
    })
}
