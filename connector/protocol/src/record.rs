//! Accepted records and the hash chain of a room (ADP 15).
//!
//! Two steps, so that the costly one can run on every core: [`CheckedRecord::check`] judges
//! a record by itself, [`CheckedRecord::link`] joins it to the chain, in order.

use serde_json::{Value, json};

use crate::encoding::Hash;
use crate::envelope::{EnvelopeError, VerifiedEnvelope};
use crate::{AgentId, SecretKey};

/// Why a record cannot be the next of its room.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// Not the closed shape of a record.
    #[error("record {0}")]
    Shape(String),
    /// Record, event or path name different rooms.
    #[error("the record belongs to another room")]
    Room,
    /// The record hash does not recompute.
    #[error("the record hash does not recompute")]
    RecordHash,
    /// The envelope is not acceptable.
    #[error("{0}")]
    Envelope(#[from] EnvelopeError),
    /// The first record is no `room.create`, or a later one is.
    #[error("room.create is the first record and only the first")]
    Create,
    /// A seq is missing.
    #[error("gap: expected seq {expected}, got {got}")]
    Gap {
        /// The next seq of the chain.
        expected: u64,
        /// What came.
        got: u64,
    },
    /// A seq that is already verified.
    #[error("seq {got} was already verified, expected {expected}")]
    Repeat {
        /// The next seq of the chain.
        expected: u64,
        /// What came.
        got: u64,
    },
    /// `pre_hash` is not the hash of the record before.
    #[error("pre_hash is not the hash of the record before")]
    PreHash,
}

impl RecordError {
    /// Stable machine-readable code.
    pub fn code(&self) -> &'static str {
        match self {
            RecordError::Shape(_) => "record_shape",
            RecordError::Room => "record_room_mismatch",
            RecordError::RecordHash => "record_hash_mismatch",
            RecordError::Envelope(e) => e.code().as_str(),
            RecordError::Create => "record_create_position",
            RecordError::Gap { .. } => "record_gap",
            RecordError::Repeat { .. } => "record_repeat",
            RecordError::PreHash => "record_pre_hash_mismatch",
        }
    }
}

/// The end of a verified chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Tip {
    /// Latest verified seq.
    pub seq: u64,
    /// Its record hash.
    pub hash: Hash,
}

/// A record that is sound by itself, not yet joined to a chain.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckedRecord(VerifiedRecord);

/// A record joined to a verified chain. Only [`CheckedRecord::link`] makes one.
#[derive(Debug, Clone, PartialEq)]
pub struct VerifiedRecord {
    room_id: String,
    seq: u64,
    pre_hash: Option<Hash>,
    hash: Hash,
    received_at: u64,
    envelope: VerifiedEnvelope,
}

/// The record hash (ADP 15): what the host commits to.
pub fn record_hash(
    room_id: &str,
    seq: u64,
    pre_hash: Option<&Hash>,
    envelope_hash: &Hash,
    received_at: u64,
) -> Hash {
    Hash::of_value(&json!({
        "room_id": room_id, "seq": seq, "pre_hash": pre_hash,
        "envelope_hash": envelope_hash, "received_at": received_at,
    }))
}

impl CheckedRecord {
    /// Checks shape, room, record hash, envelope hash and signature of one record.
    ///
    /// # Errors
    /// [`RecordError`], the first thing that is wrong.
    pub fn check(value: &Value, room_id: &str) -> Result<Self, RecordError> {
        let shape = |message: &str| RecordError::Shape(message.to_owned());
        let r = value.as_object().ok_or_else(|| shape("is not an object"))?;
        for name in r.keys() {
            if !matches!(
                name.as_str(),
                "room_id" | "seq" | "pre_hash" | "hash" | "received_at" | "envelope"
            ) {
                return Err(RecordError::Shape(format!("has the unknown member {name:?}")));
            }
        }
        let integer = |name: &str, min: u64| {
            crate::event::integer(r, name, min).map_err(|e| RecordError::Shape(e.to_string()))
        };
        let seq = integer("seq", 1)?;
        let received_at = integer("received_at", 0)?;
        let hash_of = |v: &Value| v.as_str().and_then(|t| Hash::parse(t).ok());
        let hash = r.get("hash").and_then(hash_of).ok_or_else(|| shape("hash is not a hash"))?;
        let pre_hash = match r.get("pre_hash") {
            Some(Value::Null) => None,
            Some(v) => Some(hash_of(v).ok_or_else(|| shape("pre_hash is not a hash"))?),
            None => return Err(shape("pre_hash is missing")),
        };
        let own_room = r
            .get("room_id")
            .and_then(Value::as_str)
            .ok_or_else(|| shape("room_id is not a string"))?;
        if own_room != room_id {
            return Err(RecordError::Room);
        }
        let envelope = r.get("envelope").ok_or_else(|| shape("envelope is missing"))?;
        let envelope = VerifiedEnvelope::verify(envelope)?;
        let is_create = envelope.event_type() == "room.create";
        if is_create != (seq == 1) {
            return Err(RecordError::Create);
        }
        if envelope.event()["protocol"] != crate::DISCOURSE_PROTOCOL
            || (!is_create && envelope.room_id() != Some(room_id))
        {
            return Err(RecordError::Room);
        }
        if record_hash(room_id, seq, pre_hash.as_ref(), envelope.hash(), received_at) != hash {
            return Err(RecordError::RecordHash);
        }
        Ok(CheckedRecord(VerifiedRecord {
            room_id: room_id.to_owned(),
            seq,
            pre_hash,
            hash,
            received_at,
            envelope,
        }))
    }

    /// The record's seq, before it is linked.
    pub fn seq(&self) -> u64 {
        self.0.seq
    }

    /// The record's hash, before it is linked.
    pub fn hash(&self) -> &Hash {
        &self.0.hash
    }

    /// The signed envelope.
    pub fn envelope(&self) -> &VerifiedEnvelope {
        &self.0.envelope
    }

    /// The room it says it belongs to.
    pub fn room_id(&self) -> &str {
        &self.0.room_id
    }

    /// When the host says it accepted it (Unix ms).
    pub fn received_at(&self) -> u64 {
        self.0.received_at
    }

    /// The record as it goes over the wire.
    pub fn to_value(&self) -> Value {
        self.0.to_value()
    }

    /// Joins the record to the chain that ends at `tip` (none before the first record).
    ///
    /// # Errors
    /// [`RecordError::Gap`], [`RecordError::Repeat`] or [`RecordError::PreHash`].
    pub fn link(self, tip: Option<&Tip>) -> Result<VerifiedRecord, RecordError> {
        let expected = tip.map_or(1, |t| t.seq + 1);
        let got = self.0.seq;
        if got > expected {
            return Err(RecordError::Gap { expected, got });
        }
        if got < expected {
            return Err(RecordError::Repeat { expected, got });
        }
        if self.0.pre_hash != tip.map(|t| t.hash) {
            return Err(RecordError::PreHash);
        }
        Ok(self.0)
    }
}

impl VerifiedRecord {
    /// A host's own step: appends an admitted envelope after `tip`.
    pub fn append(
        room_id: &str,
        tip: Option<&Tip>,
        received_at: u64,
        envelope: VerifiedEnvelope,
    ) -> Self {
        let seq = tip.map_or(1, |t| t.seq + 1);
        let pre_hash = tip.map(|t| t.hash);
        let hash = record_hash(room_id, seq, pre_hash.as_ref(), envelope.hash(), received_at);
        VerifiedRecord { room_id: room_id.to_owned(), seq, pre_hash, hash, received_at, envelope }
    }

    /// The room.
    pub fn room_id(&self) -> &str {
        &self.room_id
    }

    /// Position in the chain, from 1.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// Hash of the record before; none at seq 1.
    pub fn pre_hash(&self) -> Option<&Hash> {
        self.pre_hash.as_ref()
    }

    /// The record hash.
    pub fn hash(&self) -> &Hash {
        &self.hash
    }

    /// When the host accepted it (Unix ms, the host's clock).
    pub fn received_at(&self) -> u64 {
        self.received_at
    }

    /// The signed envelope.
    pub fn envelope(&self) -> &VerifiedEnvelope {
        &self.envelope
    }

    /// Who wrote the event.
    pub fn actor(&self) -> &AgentId {
        self.envelope.actor()
    }

    /// The end of the chain after this record.
    pub fn tip(&self) -> Tip {
        Tip { seq: self.seq, hash: self.hash }
    }

    /// The record as it goes over the wire.
    pub fn to_value(&self) -> Value {
        json!({
            "room_id": self.room_id, "seq": self.seq, "pre_hash": self.pre_hash,
            "hash": self.hash, "received_at": self.received_at,
            "envelope": self.envelope.value(),
        })
    }
}

/// Fills in and signs a discourse event: the members that are not the author's choice.
///
/// # Errors
/// As [`VerifiedEnvelope::sign`].
#[allow(clippy::too_many_arguments)]
pub fn sign_discourse(
    key: &SecretKey,
    room_id: Option<&str>,
    base: Option<&Tip>,
    event_type: &str,
    payload: Value,
    mentions: &[String],
    created_at: u64,
    nonce: u64,
) -> Result<VerifiedEnvelope, EnvelopeError> {
    let mut event = json!({
        "protocol": crate::DISCOURSE_PROTOCOL, "type": event_type, "actor": key.agent_id(),
        "created_at": created_at, "nonce": nonce, "payload": payload,
    });
    if let Some(room_id) = room_id {
        event["room_id"] = json!(room_id);
    }
    if let Some(base) = base {
        event["base_seq"] = json!(base.seq);
        event["base_hash"] = json!(base.hash);
    }
    if !mentions.is_empty() {
        event["mentions"] = json!(mentions);
    }
    match event {
        Value::Object(members) => VerifiedEnvelope::sign(key, members),
        _ => unreachable!("built as an object above"),
    }
}
