//! The state database: SQLite, WAL with full syncs, shared by every connector process of one
//! state directory. This module opens it and runs transactions; what the rows mean is told
//! in the modules below and in `schema.sql`.

mod rooms;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use ap_protocol::AgentId;
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior};

use crate::error::ToolError;
pub use rooms::{Condition, RoomRow, StoredRecord, TxContext, parse_json};

/// `PRAGMA application_id`: "APCN".
const APPLICATION_ID: i32 = 0x4150_434e;
/// `PRAGMA user_version` of this build.
const SCHEMA_VERSION: i32 = 1;
/// How long a statement waits for another process (ms).
const BUSY_TIMEOUT_MS: u64 = 20_000;

/// The database of one state directory.
pub struct Store {
    dir: PathBuf,
    writer: Mutex<Connection>,
    readers: Mutex<Vec<Connection>>,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // A panic while the lock was held rolled its transaction back: the connection is sound.
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Runs blocking work without stopping other tasks, inside and outside of a runtime.
pub fn blocking<T>(f: impl FnOnce() -> T) -> T {
    match tokio::runtime::Handle::try_current() {
        Ok(handle) if handle.runtime_flavor() == tokio::runtime::RuntimeFlavor::MultiThread => {
            tokio::task::block_in_place(f)
        }
        _ => f(),
    }
}

impl Store {
    /// Opens or creates `dir/state.sqlite3` for one identity.
    ///
    /// # Errors
    /// `store_error`: not our database, a newer version, or another identity's directory.
    pub fn open(dir: &Path, agent: &AgentId) -> Result<Self, ToolError> {
        create_private_dir(dir)?;
        let path = dir.join("state.sqlite3");
        let mut writer = connect(&path)?;
        migrate(&mut writer)?;
        let tx = writer.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let owner: Option<String> = tx
            .query_row("SELECT value FROM meta WHERE key = 'agent_id'", [], |r| r.get(0))
            .optional()?;
        match owner {
            Some(owner) if owner != agent.as_str() => {
                return Err(ToolError::new(
                    "store_error",
                    format!(
                        "{} holds the state of {owner}; give every identity its own state_dir",
                        dir.display()
                    ),
                ));
            }
            Some(_) => {}
            None => {
                tx.execute("INSERT INTO meta VALUES('agent_id', ?1)", [agent.as_str()])?;
            }
        }
        tx.commit()?;
        private_file(&path);
        Ok(Store { dir: dir.to_owned(), writer: Mutex::new(writer), readers: Mutex::default() })
    }

    /// The state directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Runs a read on a connection of its own.
    ///
    /// # Errors
    /// What `f` returns.
    pub fn read<T, E: From<rusqlite::Error>>(
        &self,
        f: impl FnOnce(&Connection) -> Result<T, E>,
    ) -> Result<T, E> {
        blocking(|| {
            let pooled = lock(&self.readers).pop();
            let conn = match pooled {
                Some(conn) => conn,
                None => connect(&self.dir.join("state.sqlite3"))?,
            };
            // One snapshot for everything that one answer shows.
            let result = conn.unchecked_transaction().map_err(E::from).and_then(|tx| f(&tx));
            let mut readers = lock(&self.readers);
            if readers.len() < 4 {
                readers.push(conn);
            }
            result
        })
    }

    /// Runs a write transaction; it is durable when this returns `Ok`, undone otherwise.
    ///
    /// # Errors
    /// What `f` returns.
    pub fn write<T, E: From<rusqlite::Error>>(
        &self,
        f: impl FnOnce(&Transaction<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        blocking(|| {
            let mut conn = lock(&self.writer);
            let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let out = f(&tx)?;
            tx.commit()?;
            Ok(out)
        })
    }

    /// Changes whenever another connection commits: for noticing other processes.
    pub fn data_version(&self) -> Result<i64, ToolError> {
        blocking(|| {
            let conn = lock(&self.writer);
            Ok(conn.query_row("PRAGMA data_version", [], |r| r.get(0))?)
        })
    }
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let conn = Connection::open(path)?;
    conn.busy_timeout(Duration::from_millis(BUSY_TIMEOUT_MS))?;
    conn.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    conn.pragma_update(None, "synchronous", "FULL")?;
    conn.pragma_update(None, "foreign_keys", "ON")?;
    conn.set_prepared_statement_cache_capacity(64);
    Ok(conn)
}

fn migrate(conn: &mut Connection) -> Result<(), ToolError> {
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let id: i32 = tx.query_row("PRAGMA application_id", [], |r| r.get(0))?;
    let version: i32 = tx.query_row("PRAGMA user_version", [], |r| r.get(0))?;
    if (id != 0 && id != APPLICATION_ID) || (id == 0 && version != 0) {
        return Err(ToolError::new("store_error", "state.sqlite3 belongs to another program"));
    }
    if version > SCHEMA_VERSION {
        return Err(ToolError::new(
            "store_error",
            format!(
                "state.sqlite3 has version {version}, this connector knows {SCHEMA_VERSION}: update it"
            ),
        ));
    }
    if version < 1 {
        tx.execute_batch(include_str!("schema.sql"))?;
        tx.pragma_update(None, "application_id", APPLICATION_ID)?;
        tx.pragma_update(None, "user_version", SCHEMA_VERSION)?;
    }
    tx.commit()?;
    Ok(())
}

fn create_private_dir(dir: &Path) -> Result<(), ToolError> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
        .create(dir)
        .map_err(|e| ToolError::new("store_error", format!("cannot create {}: {e}", dir.display())))
}

fn private_file(path: &Path) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // Best effort: the directory is private already.
        let _ = std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600));
    }
    #[cfg(not(unix))]
    let _ = path;
}
