//! Telling a waiting client how far a call is, when it asked. Never waits, and never says
//! anything about what rooms contain.

use tokio::sync::mpsc;

/// Steps that wait to be told; more are dropped, the next one tells more anyway.
const WAITING_STEPS: usize = 64;

/// How far a call is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Grows from step to step.
    pub done: u64,
    /// Of how many, when that is known.
    pub total: Option<u64>,
    /// What is counted.
    pub message: String,
}

/// Where the steps of one call go.
#[derive(Debug, Clone)]
pub struct Progress(mpsc::Sender<Step>);

impl Progress {
    /// A way to tell, and what was told, in its order.
    pub fn channel() -> (Self, mpsc::Receiver<Step>) {
        let (sender, receiver) = mpsc::channel(WAITING_STEPS);
        (Progress(sender), receiver)
    }

    /// Tells how far the call is.
    pub fn tell(&self, done: u64, total: Option<u64>, message: &str) {
        // A client that does not read must not hold up the call.
        let _ = self.0.try_send(Step { done, total, message: message.to_owned() });
    }
}
