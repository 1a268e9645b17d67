//! The lab clock: one time for every host of a lab, moved by tests, never read from the
//! system anywhere else in this crate (delays on the wire excepted, which are real).

use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::sync::lock;

#[derive(Debug, Clone, Copy)]
enum State {
    /// System time plus an offset (ms).
    Follows(i64),
    /// Stands still at this time (Unix ms).
    Frozen(u64),
}

/// A shared, settable clock (Unix ms). Clones are the same clock.
#[derive(Debug, Clone)]
pub struct Clock(Arc<Mutex<State>>);

impl Default for Clock {
    /// Follows system time.
    fn default() -> Self {
        Clock(Arc::new(Mutex::new(State::Follows(0))))
    }
}

fn system_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

impl Clock {
    /// A clock that stands still at `ms` until it is moved: same plan, same run.
    pub fn frozen_at(ms: u64) -> Self {
        Clock(Arc::new(Mutex::new(State::Frozen(ms))))
    }

    /// The time (Unix ms).
    pub fn now_ms(&self) -> u64 {
        match *lock(&self.0) {
            State::Follows(offset) => system_ms().saturating_add_signed(offset),
            State::Frozen(ms) => ms,
        }
    }

    /// The time (Unix s).
    pub fn now_secs(&self) -> u64 {
        self.now_ms() / 1000
    }

    /// Makes it `ms` now. A frozen clock stays frozen, a running one runs on from there.
    pub fn set(&self, ms: u64) {
        let mut state = lock(&self.0);
        *state = match *state {
            State::Follows(_) => {
                let ahead = i128::from(ms) - i128::from(system_ms());
                State::Follows(i64::try_from(ahead).unwrap_or(i64::MAX))
            }
            State::Frozen(_) => State::Frozen(ms),
        };
    }

    /// Moves it forward.
    pub fn advance(&self, ms: u64) {
        let mut state = lock(&self.0);
        *state = match *state {
            State::Follows(offset) => {
                State::Follows(offset.saturating_add(i64::try_from(ms).unwrap_or(i64::MAX)))
            }
            State::Frozen(now) => State::Frozen(now.saturating_add(ms)),
        };
    }

    /// Stops it at the present moment.
    pub fn freeze(&self) {
        let now = self.now_ms();
        *lock(&self.0) = State::Frozen(now);
    }

    /// Back to system time.
    pub fn follow_system(&self) {
        *lock(&self.0) = State::Follows(0);
    }
}

#[cfg(test)]
mod tests {
    use super::Clock;

    #[test]
    fn moves_only_when_told() {
        let clock = Clock::frozen_at(1_000);
        let twin = clock.clone();
        clock.advance(500);
        assert_eq!((twin.now_ms(), twin.now_secs()), (1_500, 1));
        let running = Clock::default();
        running.set(5_000);
        assert!((5_000..6_000).contains(&running.now_ms()));
        running.freeze();
        assert_eq!(running.now_ms(), running.now_ms());
    }
}
