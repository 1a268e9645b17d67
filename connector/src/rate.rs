//! The connector's own limit on signed writes: a token bucket for each room.
//!
//! It protects the operator's reputation from an agent in a loop; hosts have their own.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use serde_json::json;

use crate::error::ToolError;

/// Buckets by room or service.
pub struct RateLimits {
    per_minute: u32,
    buckets: Mutex<HashMap<String, Bucket>>,
}

struct Bucket {
    tokens: f64,
    at_ms: u64,
    /// Set by a host's 429.
    blocked_until_ms: u64,
}

impl RateLimits {
    /// Limits to `per_minute` writes a minute, with bursts of that size.
    pub fn new(per_minute: u32) -> Self {
        RateLimits { per_minute: per_minute.max(1), buckets: Mutex::default() }
    }

    /// Takes one write.
    ///
    /// # Errors
    /// `rate_limited` with `retry_after_ms`.
    pub fn take(&self, key: &str, now_ms: u64) -> Result<(), ToolError> {
        let full = f64::from(self.per_minute);
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() > 10_000 {
            buckets.retain(|_, b| now_ms.saturating_sub(b.at_ms) < 60_000);
        }
        let bucket = buckets.entry(key.to_owned()).or_insert(Bucket {
            tokens: full,
            at_ms: now_ms,
            blocked_until_ms: 0,
        });
        let passed = now_ms.saturating_sub(bucket.at_ms) as f64;
        bucket.tokens = (bucket.tokens + passed * full / 60_000.0).min(full);
        bucket.at_ms = now_ms;
        let wait_ms = if now_ms < bucket.blocked_until_ms {
            bucket.blocked_until_ms - now_ms
        } else if bucket.tokens < 1.0 {
            ((1.0 - bucket.tokens) * 60_000.0 / full).ceil() as u64
        } else {
            bucket.tokens -= 1.0;
            return Ok(());
        };
        Err(ToolError::new(
            "rate_limited",
            format!("too many writes; wait {wait_ms} ms, then call again"),
        )
        .with(json!({ "retry_after_ms": wait_ms })))
    }

    /// Honours a host's `Retry-After`.
    pub fn block(&self, key: &str, now_ms: u64, for_ms: u64) {
        let full = f64::from(self.per_minute);
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let bucket = buckets.entry(key.to_owned()).or_insert(Bucket {
            tokens: full,
            at_ms: now_ms,
            blocked_until_ms: 0,
        });
        // A hostile header must not silence the agent for good.
        bucket.blocked_until_ms = now_ms.saturating_add(for_ms.min(600_000));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_then_the_rate() {
        let limits = RateLimits::new(2);
        assert!(limits.take("r", 0).is_ok());
        assert!(limits.take("r", 0).is_ok());
        let refused = limits.take("r", 0).unwrap_err();
        assert_eq!(refused.code, "rate_limited");
        assert_eq!(refused.data["retry_after_ms"], 30_000);
        assert!(limits.take("other", 0).is_ok());
        assert!(limits.take("r", 30_000).is_ok());
        limits.block("r", 100_000, 5_000);
        assert_eq!(limits.take("r", 101_000).unwrap_err().data["retry_after_ms"], 4_000);
        assert!(limits.take("r", 105_000).is_ok());
    }
}
