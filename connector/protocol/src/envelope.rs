//! Signed envelopes: `{ "hash", "event", "signature" }`.
//!
//! What is hashed is the received value itself, never a struct made from it.

use serde_json::{Map, Value, json};

use crate::encoding::{self, Hash};
use crate::error_code::ErrorCode;
use crate::event::{self, ShapeError};
use crate::keys::{self, SecretKey, SignatureError};
use crate::{AgentId, json};

/// Why an envelope is not acceptable, by the stage that found it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EnvelopeError {
    /// The envelope or its event has the wrong shape.
    #[error("invalid event: {0}")]
    Shape(#[from] ShapeError),
    /// `hash` is not the canonical text of the event's digest.
    #[error("the envelope hash is not the digest of its event")]
    Hash,
    /// `actor` is no usable key.
    #[error("the actor is not a usable Agent ID: {0}")]
    Actor(String),
    /// `signature` does not hold over the digest.
    #[error("the signature does not verify for the actor")]
    Signature,
}

impl EnvelopeError {
    /// The protocol code a host answers with.
    pub fn code(&self) -> ErrorCode {
        match self {
            EnvelopeError::Shape(_) => ErrorCode::InvalidEvent,
            EnvelopeError::Hash => ErrorCode::InvalidEventHash,
            EnvelopeError::Actor(_) => ErrorCode::InvalidActor,
            EnvelopeError::Signature => ErrorCode::InvalidSignature,
        }
    }

    /// The stage of the check order: `shape`, `hash`, `actor` or `signature`.
    pub fn stage(&self) -> &'static str {
        match self {
            EnvelopeError::Shape(_) => "shape",
            EnvelopeError::Hash => "hash",
            EnvelopeError::Actor(_) => "actor",
            EnvelopeError::Signature => "signature",
        }
    }
}

/// An envelope whose shape, hash, actor and signature hold. Only [`VerifiedEnvelope::verify`]
/// and [`VerifiedEnvelope::sign`] make one.
#[derive(Debug, Clone, PartialEq)]
pub struct VerifiedEnvelope {
    hash: Hash,
    actor: AgentId,
    nonce: u64,
    created_at: u64,
    value: Value,
}

impl VerifiedEnvelope {
    /// Checks a strictly parsed value, in the order shape, hash, actor, signature.
    ///
    /// # Errors
    /// [`EnvelopeError`], the first stage that fails.
    pub fn verify(value: &Value) -> Result<Self, EnvelopeError> {
        let shape = |message: &str| ShapeError::new("", message);
        let members = value.as_object().ok_or_else(|| shape("an envelope is an object"))?;
        for name in members.keys() {
            if !matches!(name.as_str(), "hash" | "event" | "signature") {
                return Err(ShapeError::new(name, "unknown envelope member").into());
            }
        }
        let event = members
            .get("event")
            .and_then(Value::as_object)
            .ok_or_else(|| ShapeError::new("event", "required, an object"))?;
        let text = |name: &str| {
            members
                .get(name)
                .and_then(Value::as_str)
                .ok_or_else(|| ShapeError::new(name, "required, a string"))
        };
        let (hash_text, signature_text) = (text("hash")?, text("signature")?);
        let common = event::check(event)?;

        let hash = Hash::of_value(&members["event"]);
        if Hash::parse(hash_text) != Ok(hash) {
            return Err(EnvelopeError::Hash);
        }
        let actor =
            AgentId::parse(common.actor).map_err(|e| EnvelopeError::Actor(e.to_string()))?;
        let signature =
            encoding::decode_array::<64>(signature_text).map_err(|_| EnvelopeError::Signature)?;
        keys::verify(&actor, hash.as_bytes(), &signature).map_err(|e| match e {
            SignatureError::Key => EnvelopeError::Actor(e.to_string()),
            SignatureError::Signature => EnvelopeError::Signature,
        })?;
        Ok(VerifiedEnvelope {
            hash,
            actor,
            nonce: common.nonce,
            created_at: common.created_at,
            value: value.clone(),
        })
    }

    /// Signs `event`, whose `actor` must be the key's own Agent ID.
    ///
    /// # Errors
    /// [`EnvelopeError::Shape`] when the event does not have the protocol's shape or holds
    /// a number that JSON peers would not agree on.
    pub fn sign(key: &SecretKey, event: Map<String, Value>) -> Result<Self, EnvelopeError> {
        let event = Value::Object(event);
        if let Err((kind, path)) = json::check_value(&event) {
            return Err(ShapeError::new(&path, &kind.to_string()).into());
        }
        let members = event.as_object().expect("made from a map above");
        let common = event::check(members)?;
        let actor = key.agent_id();
        if common.actor != actor.as_str() {
            return Err(EnvelopeError::Actor("not the signing identity".to_owned()));
        }
        let hash = Hash::of_value(&event);
        let signature = encoding::encode(key.sign(hash.as_bytes()));
        let (nonce, created_at) = (common.nonce, common.created_at);
        let value = json!({ "hash": hash, "event": event, "signature": signature });
        Ok(VerifiedEnvelope { hash, actor, nonce, created_at, value })
    }

    /// The event id: the digest of the canonical event.
    pub fn hash(&self) -> &Hash {
        &self.hash
    }

    /// Who signed.
    pub fn actor(&self) -> &AgentId {
        &self.actor
    }

    /// The actor's sequence number.
    pub fn nonce(&self) -> u64 {
        self.nonce
    }

    /// When the actor says it was made (Unix ms).
    pub fn created_at(&self) -> u64 {
        self.created_at
    }

    /// The event object as received.
    pub fn event(&self) -> &Map<String, Value> {
        self.value["event"].as_object().expect("checked when this was made")
    }

    /// The event type.
    pub fn event_type(&self) -> &str {
        self.event()["type"].as_str().expect("checked when this was made")
    }

    /// The payload object.
    pub fn payload(&self) -> &Map<String, Value> {
        self.event()["payload"].as_object().expect("checked when this was made")
    }

    /// The room of the event; none for `room.create` and for profile events.
    pub fn room_id(&self) -> Option<&str> {
        self.event().get("room_id").and_then(Value::as_str)
    }

    /// `base_seq` and `base_hash`, which every event but `room.create` carries.
    pub fn base(&self) -> Option<(u64, Hash)> {
        let event = self.event();
        let seq = event.get("base_seq")?.as_u64()?;
        Some((seq, Hash::parse(event.get("base_hash")?.as_str()?).ok()?))
    }

    /// Top-level mentions, empty when absent.
    pub fn mentions(&self) -> impl Iterator<Item = &str> {
        let list = self.event().get("mentions").and_then(Value::as_array);
        list.into_iter().flatten().filter_map(Value::as_str)
    }

    /// The signature text.
    pub fn signature(&self) -> &str {
        self.value["signature"].as_str().expect("checked when this was made")
    }

    /// The whole envelope as received or made.
    pub fn value(&self) -> &Value {
        &self.value
    }
}
