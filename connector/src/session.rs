//! One MCP session: what it was shown, what it subscribed to.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use ap_protocol::{Tip, encoding};

/// A stdio process or one `mcp-session-id`.
pub struct Session {
    /// Unique over all processes of the state directory.
    pub id: String,
    presented: Mutex<HashMap<i64, Tip>>,
    resources: Mutex<BTreeSet<String>>,
    forwarding: AtomicBool,
}

impl Default for Session {
    fn default() -> Self {
        let mut random = [0u8; 12];
        // Without randomness the process id still tells sessions of processes apart.
        if getrandom::fill(&mut random).is_err() {
            random[..4].copy_from_slice(&std::process::id().to_be_bytes());
        }
        Session {
            id: format!("session_{}", encoding::encode(random)),
            presented: Mutex::default(),
            resources: Mutex::default(),
            forwarding: AtomicBool::new(false),
        }
    }
}

impl Session {
    /// Notes the head that a result shows the agent.
    pub fn present(&self, room: i64, head: Option<Tip>) {
        if let Some(head) = head {
            let mut presented = self.presented.lock().unwrap_or_else(PoisonError::into_inner);
            presented.insert(room, head);
        }
    }

    /// The head that the agent last saw of a room.
    pub fn presented(&self, room: i64) -> Option<Tip> {
        self.presented.lock().unwrap_or_else(PoisonError::into_inner).get(&room).copied()
    }

    /// Remembers a resource subscription. Returns whether it is the first one ever: the
    /// moment to start telling about changes.
    pub fn subscribe(&self, uri: &str) -> bool {
        self.resources.lock().unwrap_or_else(PoisonError::into_inner).insert(uri.to_owned());
        !self.forwarding.swap(true, Ordering::AcqRel)
    }

    /// Ends a resource subscription.
    pub fn unsubscribe(&self, uri: &str) {
        self.resources.lock().unwrap_or_else(PoisonError::into_inner).remove(uri);
    }

    /// The subscribed resources.
    pub fn subscriptions(&self) -> Vec<String> {
        let resources = self.resources.lock().unwrap_or_else(PoisonError::into_inner);
        resources.iter().cloned().collect()
    }
}
