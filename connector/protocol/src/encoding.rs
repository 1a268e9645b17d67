//! base64url without padding, in its one canonical spelling, and the SHA3-256 [`Hash`].

use std::fmt;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use sha3::{Digest, Sha3_256};

/// A text is not the canonical base64url of the expected number of bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EncodingError {
    /// Padding, a foreign alphabet, white space or set unused bits.
    #[error("not canonical base64url without padding")]
    NotCanonical,
    /// Decodes to another length.
    #[error("decodes to {got} bytes, expected {expected}")]
    Length {
        /// Wanted length (bytes).
        expected: usize,
        /// Found length (bytes).
        got: usize,
    },
}

/// base64url without padding.
pub fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Decodes canonical base64url only: every byte string has exactly one accepted text.
///
/// # Errors
/// [`EncodingError::NotCanonical`].
pub fn decode(text: &str) -> Result<Vec<u8>, EncodingError> {
    // The engine refuses padding, foreign symbols and non-zero unused bits.
    URL_SAFE_NO_PAD.decode(text).map_err(|_| EncodingError::NotCanonical)
}

/// Decodes exactly `N` bytes.
///
/// # Errors
/// As [`decode`], or [`EncodingError::Length`].
pub fn decode_array<const N: usize>(text: &str) -> Result<[u8; N], EncodingError> {
    let bytes = decode(text)?;
    let got = bytes.len();
    bytes.try_into().map_err(|_| EncodingError::Length { expected: N, got })
}

/// A SHA3-256 digest: event id, record hash, archive digest. 43 characters as text.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Hash([u8; 32]);

impl Hash {
    /// Digest of raw bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Hash(Sha3_256::digest(bytes).into())
    }

    /// Digest of the canonical form of a JSON value.
    pub fn of_value(value: &Value) -> Self {
        Self::of(&crate::jcs::to_vec(value))
    }

    /// Parses the canonical text.
    ///
    /// # Errors
    /// [`EncodingError`].
    pub fn parse(text: &str) -> Result<Self, EncodingError> {
        decode_array(text).map(Hash)
    }

    /// From raw digest bytes.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Hash(bytes)
    }

    /// The raw digest bytes: what a signature is made over.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&encode(self.0))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hash({self})")
    }
}

impl Serialize for Hash {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Hash {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        Hash::parse(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_spelling_only() {
        assert!(decode("QQ").is_ok());
        for bad in ["QR", "QQ==", "Q Q", "+/+/", "QQ\n", "Q"] {
            assert_eq!(decode(bad), Err(EncodingError::NotCanonical), "{bad}");
        }
    }
}
