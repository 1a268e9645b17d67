//! The lab clock: one time for every host of a lab, moved by tests, never read from the
//! system anywhere else in this crate (delays on the wire excepted, which are real).

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::watch;

use crate::sync::lock;

#[derive(Debug, Clone, Copy)]
enum State {
    /// System time plus an offset (ms).
    Follows(i64),
    /// Stands still at this time (Unix ms).
    Frozen(u64),
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Rung when the clock is moved by hand.
    moved: watch::Sender<u64>,
}

/// A shared, settable clock (Unix ms). Clones are the same clock.
#[derive(Debug, Clone)]
pub struct Clock(Arc<Shared>);

impl Default for Clock {
    /// Follows system time.
    fn default() -> Self {
        Clock::of(State::Follows(0))
    }
}

fn system_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

impl Clock {
    fn of(state: State) -> Self {
        Clock(Arc::new(Shared { state: Mutex::new(state), moved: watch::Sender::new(0) }))
    }

    /// A clock that stands still at `ms` until it is moved: same plan, same run.
    pub fn frozen_at(ms: u64) -> Self {
        Clock::of(State::Frozen(ms))
    }

    /// The time (Unix ms).
    pub fn now_ms(&self) -> u64 {
        match *lock(&self.0.state) {
            State::Follows(offset) => system_ms().saturating_add_signed(offset),
            State::Frozen(ms) => ms,
        }
    }

    /// The time (Unix s).
    pub fn now_secs(&self) -> u64 {
        self.now_ms() / 1000
    }

    fn change(&self, change: impl FnOnce(State) -> State) {
        {
            let mut state = lock(&self.0.state);
            *state = change(*state);
        }
        self.0.moved.send_modify(|n| *n += 1);
    }

    /// Makes it `ms` now. A frozen clock stays frozen, a running one runs on from there.
    pub fn set(&self, ms: u64) {
        self.change(|state| match state {
            State::Follows(_) => {
                let ahead = i128::from(ms) - i128::from(system_ms());
                State::Follows(i64::try_from(ahead).unwrap_or(i64::MAX))
            }
            State::Frozen(_) => State::Frozen(ms),
        });
    }

    /// Moves it forward.
    pub fn advance(&self, ms: u64) {
        self.shift(i64::try_from(ms).unwrap_or(i64::MAX));
    }

    /// Moves it, back with a negative number. It keeps running, or standing.
    pub fn shift(&self, ms: i64) {
        self.change(|state| match state {
            State::Follows(offset) => State::Follows(offset.saturating_add(ms)),
            State::Frozen(now) => State::Frozen(now.saturating_add_signed(ms)),
        });
    }

    /// Stops it at the present moment.
    pub fn freeze(&self) {
        let now = self.now_ms();
        self.freeze_at(now);
    }

    /// Stops it at `ms`.
    pub fn freeze_at(&self, ms: u64) {
        self.change(|_| State::Frozen(ms));
    }

    /// Back to system time.
    pub fn follow_system(&self) {
        self.change(|_| State::Follows(0));
    }

    /// Returns when the clock reaches `at_ms`, however it gets there.
    pub async fn reached(&self, at_ms: u64) {
        let mut moved = self.0.moved.subscribe();
        loop {
            moved.borrow_and_update();
            let state = *lock(&self.0.state);
            let left = at_ms.saturating_sub(self.now_ms());
            if left == 0 {
                return;
            }
            let jump = async {
                // The sender lives in self: it cannot be gone.
                let _ = moved.changed().await;
            };
            match state {
                State::Frozen(_) => jump.await,
                State::Follows(_) => {
                    let left = Duration::from_millis(left);
                    tokio::select! { () = jump => {}, () = tokio::time::sleep(left) => {} }
                }
            }
        }
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

    #[tokio::test]
    async fn a_frozen_clock_wakes_when_moved() {
        let clock = Clock::frozen_at(1_000);
        let waiting = tokio::spawn({
            let clock = clock.clone();
            async move { clock.reached(5_000).await }
        });
        clock.advance(3_999);
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        clock.advance(1);
        waiting.await.unwrap();
    }
}
