//! The journal: every request a host received, decoded, in order of arrival.
//!
//! It records what crossed the wire and what was answered; it judges nothing.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use tokio::sync::watch;

use crate::sync::lock;

/// Most entries kept; older ones are forgotten (their numbers stay used).
pub const MAX_ENTRIES: usize = 50_000;

/// One request.
#[derive(Debug, Clone, Default, Serialize)]
pub struct JournalEntry {
    /// Number in this host's journal, from 1.
    pub n: u64,
    /// Host label.
    pub host: String,
    /// Lab time of arrival (Unix ms).
    pub at_ms: u64,
    /// Connection number, from 1.
    pub connection: u64,
    /// HTTP method.
    pub method: String,
    /// Path as sent.
    pub path: String,
    /// Query as sent.
    pub query: Option<String>,
    /// Route name (see [`crate::Route`]), none for an unknown path.
    pub route: Option<String>,
    /// Operation of a GRP host, whichever transport carried it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// Room of the path, or of the arguments of an MCP call.
    pub room: Option<String>,
    /// Request headers, names in lower case, credentials left out.
    pub headers: BTreeMap<String, String>,
    /// Body, when it is strict JSON and no envelope.
    pub body: Option<Value>,
    /// The signed envelope of a write, as sent.
    pub envelope: Option<Value>,
    /// Subject of the request JWT, when the token holds here and now; at a GRP host the
    /// participant whose token it is.
    pub subject: Option<String>,
    /// Claims of the request JWT, decoded even when the token does not hold.
    pub claims: Option<Value>,
    /// Why the request JWT does not hold.
    pub token_error: Option<String>,
    /// Status answered; none while under way, or when no answer was given.
    pub status: Option<u16>,
    /// Error code answered.
    pub error: Option<String>,
    /// Ids of the faults that hit.
    pub faults: Vec<u64>,
    /// Whether the host is done with it.
    pub done: bool,
}

impl JournalEntry {
    /// Type of the signed event, if the request carried one.
    pub fn event_type(&self) -> Option<&str> {
        self.envelope.as_ref()?.pointer("/event/type")?.as_str()
    }

    /// Nonce of the signed event, if the request carried one.
    pub fn nonce(&self) -> Option<u64> {
        self.envelope.as_ref()?.pointer("/event/nonce")?.as_u64()
    }

    /// Whether this is `route` (see [`crate::Route::as_str`]).
    pub fn is(&self, route: crate::Route) -> bool {
        self.route.as_deref() == Some(route.as_str())
    }
}

/// No entry matched in time.
#[derive(Debug, thiserror::Error)]
#[error(
    "no matching request within {waited_ms} ms; the journal holds {seen} requests, the last: {last}"
)]
pub struct JournalTimeout {
    /// How long was waited (ms).
    pub waited_ms: u128,
    /// Entries present.
    pub seen: usize,
    /// The last entry, short.
    pub last: String,
}

#[derive(Debug, Default)]
struct Entries {
    list: VecDeque<JournalEntry>,
    next: u64,
}

/// A host's journal. Clones are the same journal.
#[derive(Debug, Clone)]
pub struct Journal {
    entries: Arc<Mutex<Entries>>,
    changed: watch::Sender<u64>,
}

impl Default for Journal {
    fn default() -> Self {
        Journal { entries: Arc::default(), changed: watch::Sender::new(0) }
    }
}

impl Journal {
    pub(crate) fn begin(&self, mut entry: JournalEntry) -> u64 {
        let n = {
            let mut entries = lock(&self.entries);
            entries.next += 1;
            entry.n = entries.next;
            if entries.list.len() == MAX_ENTRIES {
                entries.list.pop_front();
            }
            entries.list.push_back(entry);
            entries.next
        };
        self.changed.send_modify(|v| *v += 1);
        n
    }

    pub(crate) fn update(&self, n: u64, change: impl FnOnce(&mut JournalEntry)) {
        {
            let mut entries = lock(&self.entries);
            let first = entries.list.front().map_or(1, |e| e.n);
            let Some(index) = n.checked_sub(first) else { return };
            let Some(entry) = usize::try_from(index).ok().and_then(|i| entries.list.get_mut(i))
            else {
                return;
            };
            change(entry);
        }
        self.changed.send_modify(|v| *v += 1);
    }

    /// A copy of all entries, oldest first.
    pub fn entries(&self) -> Vec<JournalEntry> {
        lock(&self.entries).list.iter().cloned().collect()
    }

    /// The entries that satisfy `pred`.
    pub fn matching(&self, pred: impl Fn(&JournalEntry) -> bool) -> Vec<JournalEntry> {
        lock(&self.entries).list.iter().filter(|e| pred(e)).cloned().collect()
    }

    /// How many entries satisfy `pred`.
    pub fn count(&self, pred: impl Fn(&JournalEntry) -> bool) -> usize {
        lock(&self.entries).list.iter().filter(|e| pred(e)).count()
    }

    /// The number of the latest entry: pass it to [`Journal::wait_after`].
    pub fn mark(&self) -> u64 {
        lock(&self.entries).next
    }

    /// Forgets all entries; numbering goes on.
    pub fn clear(&self) {
        lock(&self.entries).list.clear();
    }

    /// Waits for the first entry, past or future, that satisfies `pred`.
    ///
    /// # Errors
    /// [`JournalTimeout`] after `deadline`.
    pub async fn wait_for(
        &self,
        pred: impl Fn(&JournalEntry) -> bool,
        deadline: Duration,
    ) -> Result<JournalEntry, JournalTimeout> {
        self.wait_after(0, pred, deadline).await
    }

    /// As [`Journal::wait_for`], for entries numbered above `mark` only.
    ///
    /// # Errors
    /// [`JournalTimeout`] after `deadline`.
    pub async fn wait_after(
        &self,
        mark: u64,
        pred: impl Fn(&JournalEntry) -> bool,
        deadline: Duration,
    ) -> Result<JournalEntry, JournalTimeout> {
        let mut changes = self.changed.subscribe();
        let search = async {
            loop {
                changes.borrow_and_update();
                let found =
                    lock(&self.entries).list.iter().find(|e| e.n > mark && pred(e)).cloned();
                if let Some(entry) = found {
                    return entry;
                }
                // Cannot fail: this journal holds the sender.
                let _ = changes.changed().await;
            }
        };
        tokio::time::timeout(deadline, search).await.map_err(|_| {
            let entries = lock(&self.entries);
            JournalTimeout {
                waited_ms: deadline.as_millis(),
                seen: entries.list.len(),
                last: entries.list.back().map_or_else(
                    || "none".to_owned(),
                    |e| format!("{} {} -> {:?} {:?}", e.method, e.path, e.status, e.error),
                ),
            }
        })
    }
}
