//! The nonce sequence of one Agent ID, shared by every protocol and service.

use crate::MAX_SAFE_INTEGER;

/// The response header with the greatest nonce a host has seen.
pub const MAX_SEEN_NONCE: &str = "Max-Seen-Nonce";
/// A header may move the sequence at most this far beyond max(next nonce, now in ms).
pub const MAX_JUMP: u64 = 1 << 32;

/// Why a `Max-Seen-Nonce` header or the sequence itself is unusable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NonceError {
    /// Not a decimal integer in 1 … 2^53-1.
    #[error("Max-Seen-Nonce is not a nonce: {0:?}")]
    Malformed(String),
    /// Applying it would exhaust the sequence.
    #[error("Max-Seen-Nonce {0} is implausibly far ahead and was not applied")]
    Absurd(u64),
    /// No nonce is left for this Agent ID.
    #[error("the nonce sequence of this Agent ID is exhausted")]
    Exhausted,
}

/// The last nonce issued (0 before the first). Pure: whoever stores it makes it durable
/// before a signature is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NonceSequence {
    last: u64,
}

impl NonceSequence {
    /// Continues after `last`.
    pub fn after(last: u64) -> Self {
        NonceSequence { last }
    }

    /// The last nonce issued or adopted.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Issues max(last + 1, now): the clock is a floor, so a lost database cannot rewind it.
    ///
    /// # Errors
    /// [`NonceError::Exhausted`].
    pub fn issue(&mut self, now_ms: u64) -> Result<u64, NonceError> {
        let next = self.last.saturating_add(1).max(now_ms);
        if next > MAX_SAFE_INTEGER {
            return Err(NonceError::Exhausted);
        }
        self.last = next;
        Ok(next)
    }

    /// Adopts a `Max-Seen-Nonce` header. Returns whether the sequence moved.
    ///
    /// # Errors
    /// Malformed or absurd headers change nothing.
    pub fn observe(&mut self, header: &str, now_ms: u64) -> Result<bool, NonceError> {
        let malformed = || NonceError::Malformed(header.chars().take(40).collect());
        if header.is_empty() || !header.bytes().all(|b| b.is_ascii_digit()) {
            return Err(malformed());
        }
        let seen: u64 = header.parse().map_err(|_| malformed())?;
        if seen == 0 || seen > MAX_SAFE_INTEGER {
            return Err(malformed());
        }
        if seen <= self.last {
            return Ok(false);
        }
        let floor = self.last.saturating_add(1).max(now_ms);
        if seen > floor.saturating_add(MAX_JUMP) {
            return Err(NonceError::Absurd(seen));
        }
        self.last = seen;
        Ok(true)
    }
}
