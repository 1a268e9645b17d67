//! `--data DIR`: one SQLite database a host. A record, a profile or a review becomes durable in
//! the same transaction as the nonce it used, before the answer goes out.
//!
//! One thread writes: whatever waits goes into one transaction, so that a sync of the disk
//! serves many writes. Writes are queued in the order in which they happened, and become durable
//! in that order. Nothing may leave the host before [`Store::settled`]: neither an answer nor an
//! event of a stream.
//!
//! Keeps, never judges: on start everything is replayed through the kernel again.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use ap_protocol::AgentId;
use rusqlite::{Connection, Transaction, TransactionBehavior, params};
use serde_json::Value;
use tokio::sync::watch;

use crate::sync::lock;

/// Why the data of a host cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// SQLite said no.
    #[error("the database {path}: {error}; is another mock-hosts using this directory?")]
    Sqlite {
        /// Which file.
        path: String,
        /// Why.
        error: rusqlite::Error,
    },
    /// The directory cannot be made.
    #[error("the data directory {path}: {error}")]
    Directory {
        /// Which.
        path: String,
        /// Why.
        error: std::io::Error,
    },
    /// The file belongs to another program or a later version.
    #[error(
        "{path} is not a mock-hosts database of this version; move it away or choose another --data"
    )]
    Foreign {
        /// Which file.
        path: String,
    },
    /// A stored text is not what was stored.
    #[error("{path} holds a damaged entry ({what}); restore it from a copy or remove it")]
    Damaged {
        /// Which file.
        path: String,
        /// What.
        what: String,
    },
    /// Writes wait for the disk.
    #[error(
        "{path} could not be written for {} s and what was asked may still happen: \
         free the disk or the database, then read before you repeat it",
        PATIENCE.as_secs()
    )]
    Stuck {
        /// Which file.
        path: String,
    },
}

impl StoreError {
    /// Stable machine-readable code.
    pub fn code(&self) -> &'static str {
        match self {
            StoreError::Sqlite { .. } => "store_sqlite",
            StoreError::Directory { .. } => "store_directory",
            StoreError::Foreign { .. } => "store_foreign",
            StoreError::Damaged { .. } => "store_damaged",
            StoreError::Stuck { .. } => "store_stuck",
        }
    }
}

/// "MOCK" as the SQLite application id.
const APPLICATION_ID: i64 = 0x4d4f_434b;
const VERSION: i64 = 1;

const SCHEMA: &str = "
    CREATE TABLE records (room TEXT NOT NULL, seq INTEGER NOT NULL, json TEXT NOT NULL,
                          PRIMARY KEY (room, seq)) WITHOUT ROWID;
    CREATE TABLE nonces (agent TEXT PRIMARY KEY, max INTEGER NOT NULL, at INTEGER NOT NULL)
                          WITHOUT ROWID;
    CREATE TABLE requests (room TEXT NOT NULL, id TEXT NOT NULL, json TEXT NOT NULL,
                          PRIMARY KEY (room, id)) WITHOUT ROWID;
    CREATE TABLE profiles (n INTEGER PRIMARY KEY, agent TEXT NOT NULL, json TEXT NOT NULL);
    CREATE TABLE packs (uri TEXT PRIMARY KEY, document BLOB NOT NULL) WITHOUT ROWID;
    CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
";

/// Longest wait for the disk before an answer says that it waits.
const PATIENCE: Duration = Duration::from_secs(5);
/// Pause before a failed transaction is tried again.
const RETRY: Duration = Duration::from_millis(100);
/// Most writes in one transaction.
const MAX_BATCH: usize = 512;

/// One write.
enum Write {
    Record { value: Arc<Value>, nonce: Option<(AgentId, u64, u64)> },
    Request { room: String, id: String, value: Value },
    Profile { value: Value, nonce: (AgentId, u64, u64) },
    Pack { uri: String, document: Vec<u8> },
    Meta { name: String, value: String },
    Clear,
}

impl Write {
    fn apply(&self, tx: &Transaction<'_>) -> rusqlite::Result<()> {
        match self {
            Write::Record { value, nonce } => {
                tx.prepare_cached("INSERT INTO records VALUES (?1, ?2, ?3)")?.execute(params![
                    value["room_id"].as_str(),
                    value["seq"].as_u64().map(as_integer),
                    value.to_string()
                ])?;
                nonce.as_ref().map_or(Ok(()), |nonce| take_nonce(tx, nonce))
            }
            Write::Request { room, id, value } => tx
                .prepare_cached("INSERT OR REPLACE INTO requests VALUES (?1, ?2, ?3)")?
                .execute(params![room, id, value.to_string()])
                .map(|_| ()),
            Write::Profile { value, nonce } => {
                tx.prepare_cached("INSERT INTO profiles (agent, json) VALUES (?1, ?2)")?
                    .execute(params![nonce.0.as_str(), value.to_string()])?;
                take_nonce(tx, nonce)
            }
            Write::Pack { uri, document } => tx
                .execute("INSERT OR REPLACE INTO packs VALUES (?1, ?2)", params![uri, document])
                .map(|_| ()),
            Write::Meta { name, value } => {
                tx.execute("INSERT OR REPLACE INTO meta VALUES (?1, ?2)", [name, value]).map(|_| ())
            }
            Write::Clear => tx.execute_batch(
                "DELETE FROM records; DELETE FROM nonces; DELETE FROM requests;
                 DELETE FROM profiles; DELETE FROM packs;",
            ),
        }
    }
}

/// Where writes are queued, and how many were.
#[derive(Debug)]
struct Queue {
    queued: u64,
    /// None once the store closes.
    to: Option<mpsc::Sender<Write>>,
}

/// The database of one host.
#[derive(Debug)]
pub(crate) struct Store {
    connection: Arc<Mutex<Connection>>,
    path: String,
    queue: Mutex<Queue>,
    /// How many of the queued writes are durable.
    durable: watch::Sender<u64>,
    closing: Arc<AtomicBool>,
    writer: Option<JoinHandle<()>>,
}

/// Writes what is queued until the queue is gone.
fn write_all(
    queue: &mpsc::Receiver<Write>,
    connection: &Mutex<Connection>,
    durable: &watch::Sender<u64>,
    closing: &AtomicBool,
) {
    while let Ok(first) = queue.recv() {
        let mut batch = vec![first];
        batch.extend(queue.try_iter().take(MAX_BATCH - 1));
        let mut told = false;
        while let Err(error) = commit(&mut lock(connection), &batch) {
            if !told {
                tracing::error!(%error, "nothing can be stored: trying again");
                told = true;
            }
            if closing.load(Ordering::Acquire) {
                return;
            }
            std::thread::sleep(RETRY);
        }
        durable.send_modify(|n| *n += batch.len() as u64);
    }
}

fn commit(connection: &mut Connection, batch: &[Write]) -> rusqlite::Result<()> {
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for write in batch {
        write.apply(&tx)?;
    }
    tx.commit()
}

impl Drop for Store {
    fn drop(&mut self) {
        lock(&self.queue).to = None;
        self.closing.store(true, Ordering::Release);
        if let Some(writer) = self.writer.take()
            && writer.join().is_err()
        {
            tracing::error!("the thread that stores records panicked");
        }
    }
}

/// What a store gives back at the start.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    /// Records of every room, by room and seq.
    pub records: Vec<Value>,
    pub nonces: Vec<(AgentId, u64, u64)>,
    pub requests: Vec<(String, Value)>,
    pub profiles: Vec<(AgentId, Value)>,
    pub packs: Vec<(String, Vec<u8>)>,
    /// How often this data was started before.
    pub starts: u64,
}

impl Store {
    pub(crate) fn open(directory: &Path, label: &str) -> Result<Self, StoreError> {
        std::fs::create_dir_all(directory).map_err(|error| StoreError::Directory {
            path: directory.display().to_string(),
            error,
        })?;
        let path = directory.join(format!("{label}.sqlite"));
        let text = path.display().to_string();
        let connection = Self::prepare(&path)
            .map_err(|error| StoreError::Sqlite { path: text.clone(), error })?;
        let Some(connection) = connection else { return Err(StoreError::Foreign { path: text }) };
        let connection = Arc::new(Mutex::new(connection));
        let (to, queue) = mpsc::channel();
        let durable = watch::Sender::new(0);
        let closing = Arc::new(AtomicBool::new(false));
        let writer = {
            let (connection, durable) = (Arc::clone(&connection), durable.clone());
            let closing = Arc::clone(&closing);
            std::thread::Builder::new()
                .name(format!("store {label}"))
                .spawn(move || write_all(&queue, &connection, &durable, &closing))
                .map_err(|error| StoreError::Directory { path: text.clone(), error })?
        };
        Ok(Store {
            connection,
            path: text,
            queue: Mutex::new(Queue { queued: 0, to: Some(to) }),
            durable,
            closing,
            writer: Some(writer),
        })
    }

    fn prepare(path: &Path) -> rusqlite::Result<Option<Connection>> {
        let connection = Connection::open(path)?;
        connection.busy_timeout(std::time::Duration::from_secs(5))?;
        let pragma = |name: &str| -> rusqlite::Result<i64> {
            connection.pragma_query_value(None, name, |row| row.get(0))
        };
        match (pragma("application_id")?, pragma("user_version")?) {
            (0, 0) => {
                connection.pragma_update(None, "journal_mode", "WAL")?;
                connection.execute_batch(&format!(
                    "BEGIN IMMEDIATE; {SCHEMA} PRAGMA application_id = {APPLICATION_ID};
                     PRAGMA user_version = {VERSION}; COMMIT;"
                ))?;
            }
            (APPLICATION_ID, VERSION) => {}
            _ => return Ok(None),
        }
        // A nonce that was answered must survive power loss.
        connection.pragma_update(None, "synchronous", "FULL")?;
        Ok(Some(connection))
    }

    fn queue(&self, write: Write) {
        let mut queue = lock(&self.queue);
        queue.queued += 1;
        let sent = queue.to.as_ref().is_some_and(|to| to.send(write).is_ok());
        // A writer that is gone makes nothing durable, and so nothing is answered any more.
        if !sent {
            tracing::error!(path = %self.path, "the thread that stores records is gone");
        }
    }

    /// Waits until everything queued so far is durable.
    ///
    /// # Errors
    /// [`StoreError::Stuck`] when the disk does not take it in time.
    pub(crate) async fn settled(&self) -> Result<(), StoreError> {
        let want = lock(&self.queue).queued;
        if *self.durable.borrow() >= want {
            return Ok(());
        }
        let mut durable = self.durable.subscribe();
        let reached = durable.wait_for(|n| *n >= want);
        match tokio::time::timeout(PATIENCE, reached).await {
            Ok(Ok(_)) => Ok(()),
            _ => Err(StoreError::Stuck { path: self.path.clone() }),
        }
    }

    /// As [`Store::settled`], for callers that are not asynchronous.
    ///
    /// # Errors
    /// [`StoreError::Stuck`].
    pub(crate) fn settle(&self) -> Result<(), StoreError> {
        let want = lock(&self.queue).queued;
        let began = std::time::Instant::now();
        while *self.durable.borrow() < want {
            if began.elapsed() > PATIENCE {
                return Err(StoreError::Stuck { path: self.path.clone() });
            }
            // The writer thread has no bell for threads; a commit takes about so long.
            std::thread::sleep(Duration::from_micros(200));
        }
        Ok(())
    }

    /// A record and the nonce it used, in one transaction.
    pub(crate) fn record(&self, value: Arc<Value>, nonce: Option<(&AgentId, u64)>, now: u64) {
        let nonce = nonce.map(|(agent, nonce)| (agent.clone(), nonce, now));
        self.queue(Write::Record { value, nonce });
    }

    pub(crate) fn request(&self, room: &str, id: &str, value: Value) {
        self.queue(Write::Request { room: room.to_owned(), id: id.to_owned(), value });
    }

    pub(crate) fn profile(&self, value: &Value, agent: &AgentId, nonce: u64, now: u64) {
        self.queue(Write::Profile { value: value.clone(), nonce: (agent.clone(), nonce, now) });
    }

    pub(crate) fn pack(&self, uri: &str, document: &[u8]) {
        self.queue(Write::Pack { uri: uri.to_owned(), document: document.to_vec() });
    }

    pub(crate) fn meta(&self, name: &str) -> Option<String> {
        lock(&self.connection)
            .query_row("SELECT value FROM meta WHERE name = ?1", [name], |row| row.get(0))
            .ok()
    }

    pub(crate) fn set_meta(&self, name: &str, value: &str) -> Result<(), StoreError> {
        self.queue(Write::Meta { name: name.to_owned(), value: value.to_owned() });
        self.settle()
    }

    pub(crate) fn clear(&self) -> Result<(), StoreError> {
        self.queue(Write::Clear);
        self.settle()
    }

    /// Reads everything, and counts this start.
    pub(crate) fn load(&self) -> Result<Loaded, StoreError> {
        let starts = self.meta("starts").and_then(|s| s.parse().ok()).unwrap_or(0u64);
        self.set_meta("starts", &(starts + 1).to_string())?;
        let damaged = |what: String| StoreError::Damaged { path: self.path.clone(), what };
        let json = |text: &str, what: &str| {
            ap_protocol::json::parse(text.as_bytes()).map_err(|e| damaged(format!("{what}: {e}")))
        };
        let agent = |text: &str| {
            AgentId::parse(text).map_err(|e| damaged(format!("Agent ID {text:?}: {e}")))
        };
        let mut loaded = Loaded { starts, ..Loaded::default() };
        for (room, text) in self.pairs("SELECT room, json FROM records ORDER BY room, seq")? {
            loaded.records.push(json(&text, &format!("a record of {room}"))?);
        }
        for (room, text) in self.pairs("SELECT room, json FROM requests")? {
            loaded.requests.push((room, json(&text, "a join request")?));
        }
        for (who, text) in self.pairs("SELECT agent, json FROM profiles ORDER BY n")? {
            loaded.profiles.push((agent(&who)?, json(&text, "a profile")?));
        }
        for (who, text) in self.pairs("SELECT agent, max || ' ' || at FROM nonces")? {
            let numbers: Vec<u64> = text.split(' ').filter_map(|n| n.parse().ok()).collect();
            let [max, at] = numbers[..] else { return Err(damaged(format!("nonce of {who}"))) };
            loaded.nonces.push((agent(&who)?, max, at));
        }
        let connection = lock(&self.connection);
        let sql = |error| StoreError::Sqlite { path: self.path.clone(), error };
        let mut statement = connection.prepare("SELECT uri, document FROM packs").map_err(sql)?;
        let rows = statement.query_map([], |r| Ok((r.get(0)?, r.get(1)?))).map_err(sql)?;
        loaded.packs = rows.collect::<rusqlite::Result<_>>().map_err(sql)?;
        Ok(loaded)
    }

    fn pairs(&self, query: &str) -> Result<Vec<(String, String)>, StoreError> {
        let connection = lock(&self.connection);
        let read = || -> rusqlite::Result<Vec<(String, String)>> {
            let mut statement = connection.prepare(query)?;
            let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
            rows.collect()
        };
        read().map_err(|error| StoreError::Sqlite { path: self.path.clone(), error })
    }
}

fn take_nonce(
    tx: &Transaction<'_>,
    (agent, nonce, now): &(AgentId, u64, u64),
) -> rusqlite::Result<()> {
    tx.prepare_cached(
        "INSERT INTO nonces VALUES (?1, ?2, ?3)
         ON CONFLICT (agent) DO UPDATE SET max = max(max, excluded.max), at = excluded.at",
    )?
    .execute(params![agent.as_str(), as_integer(*nonce), as_integer(*now)])
    .map(|_| ())
}

/// Safe integers fit SQLite's.
fn as_integer(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
