//! The greatest nonce a host has seen of each actor: one sequence over all its rooms and
//! profiles.

use std::collections::HashMap;

use ap_protocol::{AgentId, LIVE_WINDOW_MS};

#[derive(Debug, Clone, Copy)]
struct Seen {
    max: u64,
    /// When it was seen (Unix ms).
    at: u64,
}

/// The nonce cache. An entry lives at least twice the live window after its last use: an
/// envelope old enough to be forgotten is too old to be accepted.
#[derive(Debug, Default)]
pub(crate) struct NonceCache {
    seen: HashMap<AgentId, Seen>,
    keep_for_ever: bool,
}

impl NonceCache {
    pub(crate) fn new(keep_for_ever: bool) -> Self {
        NonceCache { seen: HashMap::new(), keep_for_ever }
    }

    /// The cached maximum, if any.
    pub(crate) fn max(&self, actor: &AgentId, now: u64) -> Option<u64> {
        let seen = self.seen.get(actor)?;
        let fresh = self.keep_for_ever || now.saturating_sub(seen.at) <= 2 * LIVE_WINDOW_MS;
        fresh.then_some(seen.max)
    }

    pub(crate) fn take(&mut self, actor: &AgentId, nonce: u64, now: u64) {
        let entry = self.seen.entry(actor.clone()).or_insert(Seen { max: nonce, at: now });
        entry.max = entry.max.max(nonce);
        entry.at = now;
    }

    pub(crate) fn clear(&mut self) {
        self.seen.clear();
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (&AgentId, u64)> {
        self.seen.iter().map(|(agent, seen)| (agent, seen.max))
    }
}
