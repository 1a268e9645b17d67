//! Time as a value that is passed in. Nothing else reads the system clock.

use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Unix milliseconds from somewhere.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> u64 + Send + Sync>);

impl Clock {
    /// The machine's clock.
    pub fn system() -> Self {
        Clock::of(|| {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
        })
    }

    /// A clock of the caller's making.
    pub fn of(now_ms: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Clock(Arc::new(now_ms))
    }

    /// Now (Unix ms).
    pub fn now_ms(&self) -> u64 {
        (self.0)()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}
