//! `--data DIR`: one SQLite database a host. A record, a profile or a review becomes durable in
//! the same transaction as the nonce it used, before the answer goes out.
//!
//! Keeps, never judges: on start everything is replayed through the kernel again.

use std::path::Path;
use std::sync::Mutex;

use ap_protocol::AgentId;
use rusqlite::{Connection, TransactionBehavior, params};
use serde_json::Value;

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
}

impl StoreError {
    /// Stable machine-readable code.
    pub fn code(&self) -> &'static str {
        match self {
            StoreError::Sqlite { .. } => "store_sqlite",
            StoreError::Directory { .. } => "store_directory",
            StoreError::Foreign { .. } => "store_foreign",
            StoreError::Damaged { .. } => "store_damaged",
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

/// The database of one host.
#[derive(Debug)]
pub(crate) struct Store {
    connection: Mutex<Connection>,
    path: String,
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
        match connection {
            Some(connection) => Ok(Store { connection: Mutex::new(connection), path: text }),
            None => Err(StoreError::Foreign { path: text }),
        }
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

    fn write(
        &self,
        work: impl FnOnce(&rusqlite::Transaction<'_>) -> rusqlite::Result<()>,
    ) -> Result<(), StoreError> {
        let mut connection = lock(&self.connection);
        let done = connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .and_then(|tx| work(&tx).and_then(|()| tx.commit()));
        done.map_err(|error| StoreError::Sqlite { path: self.path.clone(), error })
    }

    /// A record and the nonce it used, in one transaction.
    pub(crate) fn record(
        &self,
        record: &Value,
        nonce: Option<(&AgentId, u64)>,
        now: u64,
    ) -> Result<(), StoreError> {
        self.write(|tx| {
            tx.prepare_cached("INSERT INTO records VALUES (?1, ?2, ?3)")?.execute(params![
                record["room_id"].as_str(),
                record["seq"].as_u64().map(as_integer),
                record.to_string()
            ])?;
            nonce.map_or(Ok(()), |(agent, nonce)| take_nonce(tx, agent, nonce, now))
        })
    }

    pub(crate) fn request(&self, room: &str, id: &str, json: &Value) -> Result<(), StoreError> {
        self.write(|tx| {
            tx.prepare_cached("INSERT OR REPLACE INTO requests VALUES (?1, ?2, ?3)")?
                .execute(params![room, id, json.to_string()])
                .map(|_| ())
        })
    }

    pub(crate) fn profile(
        &self,
        envelope: &Value,
        agent: &AgentId,
        nonce: u64,
        now: u64,
    ) -> Result<(), StoreError> {
        self.write(|tx| {
            tx.prepare_cached("INSERT INTO profiles (agent, json) VALUES (?1, ?2)")?
                .execute(params![agent.as_str(), envelope.to_string()])?;
            take_nonce(tx, agent, nonce, now)
        })
    }

    pub(crate) fn pack(&self, uri: &str, document: &[u8]) -> Result<(), StoreError> {
        self.write(|tx| {
            tx.execute("INSERT OR REPLACE INTO packs VALUES (?1, ?2)", params![uri, document])
                .map(|_| ())
        })
    }

    pub(crate) fn meta(&self, name: &str) -> Option<String> {
        lock(&self.connection)
            .query_row("SELECT value FROM meta WHERE name = ?1", [name], |row| row.get(0))
            .ok()
    }

    pub(crate) fn set_meta(&self, name: &str, value: &str) -> Result<(), StoreError> {
        self.write(|tx| {
            tx.execute("INSERT OR REPLACE INTO meta VALUES (?1, ?2)", [name, value]).map(|_| ())
        })
    }

    pub(crate) fn clear(&self) -> Result<(), StoreError> {
        self.write(|tx| {
            tx.execute_batch(
                "DELETE FROM records; DELETE FROM nonces; DELETE FROM requests;
                 DELETE FROM profiles; DELETE FROM packs;",
            )
        })
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
    tx: &rusqlite::Transaction<'_>,
    agent: &AgentId,
    nonce: u64,
    now: u64,
) -> rusqlite::Result<()> {
    tx.prepare_cached(
        "INSERT INTO nonces VALUES (?1, ?2, ?3)
         ON CONFLICT (agent) DO UPDATE SET max = max(max, excluded.max), at = excluded.at",
    )?
    .execute(params![agent.as_str(), as_integer(nonce), as_integer(now)])
    .map(|_| ())
}

/// Safe integers fit SQLite's.
fn as_integer(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
