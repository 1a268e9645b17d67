//! The step gate: requests held by a `hold` fault wait here until a test lets them go.
//!
//! That makes races exact: hold the answer, do the other thing, release.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::Serialize;
use tokio::sync::{oneshot, watch};

use crate::sync::lock;

/// One request that waits.
#[derive(Debug, Clone, Serialize)]
pub struct Held {
    /// Id for [`Gate::release`].
    pub id: u64,
    /// Number of the request in the journal.
    pub journal: u64,
    /// `before` the host handles it; `after`, when it is committed and only the answer is
    /// held; `event`, when an event of its stream is held.
    pub at: &'static str,
    /// Method and path.
    pub request: String,
}

#[derive(Debug, Default)]
struct Waiting {
    next: u64,
    list: Vec<(Held, oneshot::Sender<()>)>,
}

/// The held requests of one host. Clones are the same gate.
#[derive(Debug, Clone)]
pub struct Gate {
    waiting: Arc<Mutex<Waiting>>,
    changed: watch::Sender<u64>,
}

impl Default for Gate {
    fn default() -> Self {
        Gate { waiting: Arc::default(), changed: watch::Sender::new(0) }
    }
}

/// Takes a request off the list when its holder goes away.
struct Place<'a> {
    gate: &'a Gate,
    id: u64,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.gate.release(self.id);
    }
}

impl Gate {
    pub(crate) async fn hold(&self, journal: u64, at: &'static str, request: String) {
        let (tx, rx) = oneshot::channel();
        let id = {
            let mut waiting = lock(&self.waiting);
            waiting.next += 1;
            let id = waiting.next;
            waiting.list.push((Held { id, journal, at, request }, tx));
            id
        };
        self.changed.send_modify(|v| *v += 1);
        // Whoever hangs up while held waits no longer.
        let _place = Place { gate: self, id };
        // An error means the gate was dropped: nobody is left to wait for.
        let _ = rx.await;
    }

    /// The requests that wait, oldest first.
    pub fn list(&self) -> Vec<Held> {
        lock(&self.waiting).list.iter().map(|(held, _)| held.clone()).collect()
    }

    /// Lets the request `id` go. Returns whether it waited.
    pub fn release(&self, id: u64) -> bool {
        let sender = {
            let mut waiting = lock(&self.waiting);
            let Some(at) = waiting.list.iter().position(|(held, _)| held.id == id) else {
                return false;
            };
            waiting.list.remove(at).1
        };
        let gone = sender.send(()).is_ok();
        self.changed.send_modify(|v| *v += 1);
        gone
    }

    /// Lets the oldest held request go. Returns it.
    pub fn release_next(&self) -> Option<Held> {
        let held = self.list().into_iter().next()?;
        self.release(held.id).then_some(held)
    }

    /// Lets every held request go. Returns how many there were.
    pub fn release_all(&self) -> usize {
        let all = std::mem::take(&mut lock(&self.waiting).list);
        let count = all.len();
        for (_, sender) in all {
            let _ = sender.send(());
        }
        self.changed.send_modify(|v| *v += 1);
        count
    }

    /// Waits until at least `n` requests are held; whether that came true in time.
    pub async fn wait_held(&self, n: usize, deadline: Duration) -> bool {
        let mut changes = self.changed.subscribe();
        let reached = changes.wait_for(|_| lock(&self.waiting).list.len() >= n);
        matches!(tokio::time::timeout(deadline, reached).await, Ok(Ok(_)))
    }
}
