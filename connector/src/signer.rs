//! The one place where signatures are made.
//!
//! A nonce is reserved in the caller's transaction before the event is signed, and the
//! envelope only leaves [`crate::http`] after that transaction is durable. Nothing here
//! returns a signature over bytes that a caller chose.

use ap_protocol::nonce::{NonceError, NonceSequence};
use ap_protocol::record::sign_discourse;
use ap_protocol::{AgentId, PROFILE_PROTOCOL, SecretKey, Tip, VerifiedEnvelope, jwt};
use rusqlite::{OptionalExtension, Transaction, params};
use serde_json::{Map, Value, json};

use crate::error::ToolError;
use crate::http::AllowedOrigin;

/// Lifetime of a request JWT (s).
const TOKEN_TTL_SECS: u64 = 120;

/// Holds the key; signs events and request tokens, nothing else.
pub struct Signer {
    key: SecretKey,
    id: AgentId,
}

/// What a discourse event says; everything else is filled in here.
#[derive(Debug, Clone)]
pub struct EventDraft<'a> {
    /// None for `room.create`.
    pub room_id: Option<&'a str>,
    /// None for `room.create`.
    pub base: Option<Tip>,
    /// Event type.
    pub event_type: &'a str,
    /// Payload object.
    pub payload: Value,
    /// Top-level mentions.
    pub mentions: &'a [String],
}

impl Signer {
    /// Takes the key.
    pub fn new(key: SecretKey) -> Self {
        let id = key.agent_id();
        Signer { key, id }
    }

    /// Who signs.
    pub fn agent_id(&self) -> &AgentId {
        &self.id
    }

    /// Reserves a nonce in `tx` and signs a discourse event with it.
    ///
    /// # Errors
    /// `invalid_input` when the event does not have the protocol's shape.
    pub fn sign_discourse(
        &self,
        tx: &Transaction<'_>,
        draft: &EventDraft<'_>,
        now_ms: u64,
    ) -> Result<VerifiedEnvelope, ToolError> {
        let nonce = reserve_nonce(tx, &self.id, now_ms)?;
        sign_discourse(
            &self.key,
            draft.room_id,
            draft.base.as_ref(),
            draft.event_type,
            draft.payload.clone(),
            draft.mentions,
            now_ms,
            nonce,
        )
        .map_err(|e| ToolError::new("invalid_input", format!("the event was not signed: {e}")))
    }

    /// Reserves a nonce in `tx` and signs a `profile.update` of the own profile.
    ///
    /// # Errors
    /// `invalid_input` when the profile does not have the protocol's shape.
    pub fn sign_profile(
        &self,
        tx: &Transaction<'_>,
        profile: &Map<String, Value>,
        now_ms: u64,
    ) -> Result<VerifiedEnvelope, ToolError> {
        let nonce = reserve_nonce(tx, &self.id, now_ms)?;
        let event = json!({
            "protocol": PROFILE_PROTOCOL, "type": "profile.update", "actor": self.id,
            "created_at": now_ms, "nonce": nonce, "payload": profile,
        });
        let Value::Object(event) = event else { unreachable!("an object literal") };
        VerifiedEnvelope::sign(&self.key, event)
            .map_err(|e| ToolError::new("invalid_input", format!("the event was not signed: {e}")))
    }

    /// A request JWT for one allowed service. Only [`crate::http`] asks for it.
    pub(crate) fn token(&self, audience: &AllowedOrigin, now_ms: u64) -> String {
        jwt::sign(&self.key, audience.as_str(), now_ms / 1000, TOKEN_TTL_SECS)
    }
}

/// The last nonce issued or adopted.
pub(crate) fn last_nonce(tx: &Transaction<'_>, id: &AgentId) -> Result<u64, ToolError> {
    let last: Option<i64> = tx
        .query_row("SELECT last FROM nonces WHERE agent_id = ?1", [id.as_str()], |r| r.get(0))
        .optional()?;
    Ok(last.map_or(0, |n| u64::try_from(n).unwrap_or(0)))
}

fn store_nonce(tx: &Transaction<'_>, id: &AgentId, last: u64) -> Result<(), ToolError> {
    tx.execute(
        "INSERT INTO nonces(agent_id, last) VALUES(?1, ?2)
         ON CONFLICT(agent_id) DO UPDATE SET last = max(last, excluded.last)",
        params![id.as_str(), last as i64],
    )?;
    Ok(())
}

/// Takes the next nonce; durable when `tx` is.
fn reserve_nonce(tx: &Transaction<'_>, id: &AgentId, now_ms: u64) -> Result<u64, ToolError> {
    let mut sequence = NonceSequence::after(last_nonce(tx, id)?);
    let nonce =
        sequence.issue(now_ms).map_err(|e| ToolError::new("nonce_exhausted", e.to_string()))?;
    store_nonce(tx, id, nonce)?;
    Ok(nonce)
}

/// Makes sure no nonce up to `seen` is issued again: own records of a restored backup.
pub fn adopt_nonce(tx: &Transaction<'_>, id: &AgentId, seen: u64) -> Result<(), ToolError> {
    store_nonce(tx, id, seen)
}

/// Applies a `Max-Seen-Nonce` header within its bound.
///
/// # Errors
/// `nonce_not_applied` when the header is malformed or absurd; nothing changes then.
pub fn observe_header(
    tx: &Transaction<'_>,
    id: &AgentId,
    header: &str,
    now_ms: u64,
) -> Result<(), ToolError> {
    let mut sequence = NonceSequence::after(last_nonce(tx, id)?);
    match sequence.observe(header, now_ms) {
        Ok(_) => store_nonce(tx, id, sequence.last()),
        Err(e @ (NonceError::Absurd(_) | NonceError::Malformed(_))) => {
            Err(ToolError::new("nonce_not_applied", e.to_string())
                .with(json!({ "max_seen_nonce": header.chars().take(40).collect::<String>() })))
        }
        Err(e) => Err(ToolError::new("nonce_exhausted", e.to_string())),
    }
}
