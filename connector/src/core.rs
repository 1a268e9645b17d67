//! What every part of a running connector shares: identity, store, way out, change signals.
//!
//! One [`Core`] a process; sessions come and go on top of it. It holds nothing that grows
//! with a room's history.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use ap_protocol::AgentId;
use tokio::sync::{broadcast, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::clock::Clock;
use crate::config::{Settings, Tuning, WatchRule};
use crate::error::ToolError;
use crate::http::{AllowedOrigin, Http};
use crate::live::LiveRooms;
use crate::rate::RateLimits;
use crate::signer::Signer;
use crate::store::{RoomRow, Store};

/// Something that a resource shows has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// State, head or membership of a room.
    Room { host: String, room_id: String },
    /// New records in a room.
    Timeline { host: String, room_id: String },
    /// Transient status in a room.
    AgentStatus { host: String, room_id: String },
    /// Inbox items came or went.
    Inbox,
    /// Held drafts came or went.
    Drafts,
}

/// The shared parts.
pub struct Core {
    /// State database.
    pub store: Store,
    /// Guarded HTTP client.
    pub http: Http,
    /// The one signer.
    pub signer: Arc<Signer>,
    /// Time.
    pub clock: Clock,
    /// Times and sizes.
    pub tuning: Tuning,
    /// Watch rules.
    pub watch: Vec<WatchRule>,
    /// Profile services of the identity.
    pub profile_services: Vec<String>,
    /// Running streams.
    pub live: LiveRooms,
    /// Own write limits.
    pub rate: RateLimits,
    /// Cancelled when the process ends.
    pub shutdown: CancellationToken,
    /// Writes that must not be cut short when the process ends.
    pub writes: TaskTracker,
    changes: broadcast::Sender<Change>,
    version: watch::Sender<u64>,
    room_locks: Mutex<HashMap<i64, Arc<tokio::sync::Mutex<()>>>>,
    host_locks: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
    join_polls: Mutex<HashMap<i64, u64>>,
    /// When rooms begin and end.
    pub lifecycles: crate::lifecycle::Lifecycles,
    /// What this process has read since it started.
    pub freshness: crate::freshness::Freshness,
}

/// Holds both the in-process and the cross-process right to write to one host.
pub struct WriteTurn {
    _task: tokio::sync::OwnedMutexGuard<()>,
    _file: std::fs::File,
}

impl Core {
    /// Opens the state directory and builds the parts.
    ///
    /// # Errors
    /// `store_error` when the state directory cannot be used.
    pub fn open(settings: Settings, clock: Clock) -> Result<Arc<Self>, ToolError> {
        let Settings { state_dir, key, hosts, profile_services, watch, tuning, .. } = settings;
        let signer = Arc::new(Signer::new(key));
        let store = Store::open(&state_dir, signer.agent_id())?;
        let services = profile_services.iter().map(|o| o.as_str().to_owned()).collect();
        let http =
            Http::new(hosts, &profile_services, signer.clone(), clock.clone(), tuning.clone())?;
        Ok(Arc::new(Core {
            store,
            http,
            signer,
            clock,
            rate: RateLimits::new(tuning.writes_per_minute),
            tuning,
            watch,
            profile_services: services,
            live: LiveRooms::default(),
            shutdown: CancellationToken::new(),
            writes: TaskTracker::new(),
            changes: broadcast::Sender::new(256),
            version: watch::Sender::new(0),
            room_locks: Mutex::default(),
            host_locks: Mutex::default(),
            join_polls: Mutex::default(),
            lifecycles: crate::lifecycle::Lifecycles::default(),
            freshness: crate::freshness::Freshness::default(),
        }))
    }

    /// The active identity.
    pub fn me(&self) -> &AgentId {
        self.signer.agent_id()
    }

    /// Tells everybody who listens.
    pub fn announce(&self, changes: impl IntoIterator<Item = Change>) {
        for change in changes {
            // Nobody listening is fine.
            let _ = self.changes.send(change);
        }
        self.version.send_modify(|v| *v = v.wrapping_add(1));
    }

    /// Changes from now on.
    pub fn subscribe_changes(&self) -> broadcast::Receiver<Change> {
        self.changes.subscribe()
    }

    /// A counter that moves with every change: subscribe, look, then wait, and nothing is
    /// missed in between.
    pub fn version(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    /// Serializes syncs of one room.
    pub fn room_lock(&self, room: i64) -> Arc<tokio::sync::Mutex<()>> {
        let mut locks = self.room_locks.lock().unwrap_or_else(PoisonError::into_inner);
        locks.entry(room).or_default().clone()
    }

    /// Waits for the right to write to `host`. Signed writes reach a host in nonce order:
    /// one at a time over all tasks and, through a lock file, all processes of this state
    /// directory.
    ///
    /// # Errors
    /// `store_error` when the lock file cannot be used.
    pub async fn write_turn(&self, host: &AllowedOrigin) -> Result<WriteTurn, ToolError> {
        let lock = {
            let mut locks = self.host_locks.lock().unwrap_or_else(PoisonError::into_inner);
            locks.entry(host.as_str().to_owned()).or_default().clone()
        };
        let task = lock.lock_owned().await;
        let name: String = host
            .as_str()
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '_' })
            .collect();
        let path = self.store.dir().join(format!("write-{name}.lock"));
        let file = tokio::task::spawn_blocking(move || {
            let file =
                std::fs::OpenOptions::new().create(true).truncate(false).write(true).open(&path)?;
            file.lock()?;
            Ok::<_, std::io::Error>(file)
        })
        .await
        .map_err(ToolError::internal)?
        .map_err(|e| ToolError::new("store_error", format!("the write lock failed: {e}")))?;
        Ok(WriteTurn { _task: task, _file: file })
    }

    /// Whether a room's join requests may be listed again; notes that they are.
    pub fn join_poll_due(&self, room: i64, now_ms: u64) -> bool {
        let mut polls = self.join_polls.lock().unwrap_or_else(PoisonError::into_inner);
        let last = polls.entry(room).or_insert(0);
        let due = now_ms.saturating_sub(*last) >= self.tuning.join_poll_ms;
        if due {
            *last = now_ms;
        }
        due
    }

    /// The changes that a new state of `row` stands for.
    pub fn room_changes(row: &RoomRow) -> [Change; 2] {
        let (host, room_id) = (row.host.clone(), row.room_id.clone());
        [
            Change::Room { host: host.clone(), room_id: room_id.clone() },
            Change::Timeline { host, room_id },
        ]
    }
}
