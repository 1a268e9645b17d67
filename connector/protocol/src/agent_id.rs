//! `did:agent:` identifiers: the text of an Ed25519 public key.

use std::fmt;
use std::sync::LazyLock;

use curve25519_dalek::constants::EIGHT_TORSION;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::encoding::{self, EncodingError};

/// What every Agent ID starts with.
pub const PREFIX: &str = "did:agent:";

/// Why a text is not an Agent ID.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AgentIdError {
    /// Does not start with `did:agent:`.
    #[error("an Agent ID starts with did:agent:")]
    Prefix,
    /// The rest is not the canonical base64url of 32 bytes.
    #[error("the key part is {0}")]
    Encoding(#[from] EncodingError),
    /// A small-order key: one signature would be valid for many messages.
    #[error("the key has small order")]
    WeakKey,
    /// The y coordinate is not reduced: a second spelling of some other key.
    #[error("the key is not canonically encoded")]
    NonCanonicalKey,
}

/// A syntactically sound Agent ID: canonical text, 32 bytes, canonical coordinate, not a
/// small-order key. Whether the bytes are a curve point shows when a signature is checked
/// ([`crate::keys::verify`]): ids that are only mentioned need not be.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AgentId {
    text: String,
    key: [u8; 32],
}

static SMALL_ORDER: LazyLock<[[u8; 32]; 8]> =
    LazyLock::new(|| EIGHT_TORSION.map(|p| p.compress().to_bytes()));

impl AgentId {
    /// Parses the text.
    ///
    /// # Errors
    /// [`AgentIdError`].
    pub fn parse(text: &str) -> Result<Self, AgentIdError> {
        let rest = text.strip_prefix(PREFIX).ok_or(AgentIdError::Prefix)?;
        let key = encoding::decode_array::<32>(rest)?;
        if !is_canonical_y(&key) {
            return Err(AgentIdError::NonCanonicalKey);
        }
        // x = 0 has no sign: a set sign bit there is a second spelling of a small-order key.
        let mut unsigned = key;
        unsigned[31] &= 0x7f;
        if SMALL_ORDER.contains(&key) || SMALL_ORDER.contains(&unsigned) {
            return Err(AgentIdError::WeakKey);
        }
        Ok(AgentId { text: text.to_owned(), key })
    }

    /// Parses an id that an event only names: a mention, a member, an applicant.
    ///
    /// Canonical text of 32 bytes, the key's quality not asked. Anybody can write a weak key
    /// into a mention, and a host that checks the syntax only, as ADP 6 asks of it, is not at
    /// fault for passing it on. Nothing can be signed with such an id: [`crate::keys::verify`]
    /// refuses it again.
    ///
    /// # Errors
    /// [`AgentIdError::Prefix`] or [`AgentIdError::Encoding`].
    pub fn parse_named(text: &str) -> Result<Self, AgentIdError> {
        let rest = text.strip_prefix(PREFIX).ok_or(AgentIdError::Prefix)?;
        let key = encoding::decode_array::<32>(rest)?;
        Ok(AgentId { text: text.to_owned(), key })
    }

    pub(crate) fn from_key(key: [u8; 32]) -> Self {
        AgentId { text: format!("{PREFIX}{}", encoding::encode(key)), key }
    }

    /// The whole text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The raw public key.
    pub fn key_bytes(&self) -> &[u8; 32] {
        &self.key
    }
}

/// y < p = 2^255 - 19, the sign bit left aside.
fn is_canonical_y(key: &[u8; 32]) -> bool {
    let high = key[31] & 0x7f;
    !(high == 0x7f && key[1..31].iter().all(|b| *b == 0xff) && key[0] >= 0xed)
}

impl fmt::Display for AgentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for AgentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for AgentId {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for AgentId {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        // Room state names members that only ever were named: the signature check is what
        // keeps weak keys from acting.
        AgentId::parse_named(&text).map_err(serde::de::Error::custom)
    }
}
