//! Where rooms and idempotency keys are kept: nowhere, or in one SQLite file.
//!
//! A batch is everything one operation did, its idempotency key included, and commits as a
//! whole. Storage never sees a raw token, password or idempotency key.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use rusqlite::{Connection, OptionalExtension, params};

use super::model::{Kind, Row};

/// A remembered answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remembered {
    /// SHA-256 of what was asked.
    pub body: [u8; 32],
    /// The answer, sealed under a key only the client's Idempotency-Key gives.
    pub sealed: Vec<u8>,
    /// Unix ms.
    pub at: i64,
}

/// One operation's effects.
#[derive(Debug, Default)]
pub struct Batch {
    /// Room the rows belong to.
    pub room: String,
    /// Changed rows.
    pub rows: Vec<Row>,
    /// The room is gone.
    pub delete: bool,
    /// Idempotency key and answer.
    pub remember: Option<([u8; 32], Remembered)>,
}

/// Storage failed; the operation did not happen.
#[derive(Debug, thiserror::Error)]
#[error("storage failed: {0}")]
pub struct StoreError(pub String);

impl From<rusqlite::Error> for StoreError {
    fn from(e: rusqlite::Error) -> Self {
        StoreError(e.to_string())
    }
}

/// What the host needs of a storage.
pub trait Storage: Send + Sync + std::fmt::Debug {
    /// Whether rows are kept at all: if not, none need be written out.
    fn keeps_rows(&self) -> bool;
    /// Commits a batch in one transaction.
    ///
    /// # Errors
    /// [`StoreError`]: nothing of the batch is kept then.
    fn commit(&self, batch: Batch) -> Result<(), StoreError>;
    /// An idempotent answer younger than `not_before` (Unix ms).
    ///
    /// # Errors
    /// [`StoreError`].
    fn remembered(&self, key: &[u8; 32], not_before: i64)
    -> Result<Option<Remembered>, StoreError>;
    /// Rows of one room, ordered by kind and index.
    ///
    /// # Errors
    /// [`StoreError`].
    fn rows(&self, room: &str) -> Result<Vec<Row>, StoreError>;
    /// All rooms kept.
    ///
    /// # Errors
    /// [`StoreError`].
    fn rooms(&self) -> Result<Vec<String>, StoreError>;
    /// A host-wide value, made by `make` when there is none yet.
    ///
    /// # Errors
    /// [`StoreError`].
    fn meta(&self, name: &str, make: &dyn Fn() -> Vec<u8>) -> Result<Vec<u8>, StoreError>;
    /// Forgets every room and idempotent answer.
    ///
    /// # Errors
    /// [`StoreError`]: nothing is forgotten then.
    fn clear(&self) -> Result<(), StoreError>;
}

/// Keeps idempotency keys while the process lives, and nothing else.
#[derive(Debug, Default)]
pub struct Memory(Mutex<HashMap<[u8; 32], Remembered>>);

impl Storage for Memory {
    fn keeps_rows(&self) -> bool {
        false
    }

    fn commit(&self, batch: Batch) -> Result<(), StoreError> {
        if let Some((key, answer)) = batch.remember {
            let mut map = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            // Bounded by age: a day is what clients are promised.
            if map.len() >= 100_000 {
                let oldest = answer.at - super::core::IDEMPOTENCY_TTL_MS;
                map.retain(|_, r| r.at > oldest);
            }
            map.insert(key, answer);
        }
        Ok(())
    }

    fn remembered(
        &self,
        key: &[u8; 32],
        not_before: i64,
    ) -> Result<Option<Remembered>, StoreError> {
        let map = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(map.get(key).filter(|r| r.at >= not_before).cloned())
    }

    fn rows(&self, _room: &str) -> Result<Vec<Row>, StoreError> {
        Ok(Vec::new())
    }

    fn rooms(&self) -> Result<Vec<String>, StoreError> {
        Ok(Vec::new())
    }

    fn meta(&self, _name: &str, make: &dyn Fn() -> Vec<u8>) -> Result<Vec<u8>, StoreError> {
        Ok(make())
    }

    fn clear(&self) -> Result<(), StoreError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
        Ok(())
    }
}

const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS grp_rows(
        room TEXT NOT NULL, kind INTEGER NOT NULL, idx INTEGER NOT NULL, doc TEXT NOT NULL,
        PRIMARY KEY(room, kind, idx)) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS grp_idempotency(
        key BLOB PRIMARY KEY, body BLOB NOT NULL, sealed BLOB NOT NULL, at INTEGER NOT NULL
        ) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS grp_meta(name TEXT PRIMARY KEY, value BLOB NOT NULL);
";

/// One SQLite file, written through: what an answer promised survives a power cut.
#[derive(Debug)]
pub struct Sqlite(Mutex<Connection>);

impl Sqlite {
    /// Opens or creates the file.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let db = Connection::open(path)?;
        db.busy_timeout(std::time::Duration::from_secs(5))?;
        db.pragma_update(None, "journal_mode", "WAL")?;
        db.pragma_update(None, "synchronous", "FULL")?;
        db.execute_batch(SCHEMA)?;
        Ok(Sqlite(Mutex::new(db)))
    }

    fn db(&self) -> std::sync::MutexGuard<'_, Connection> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Storage for Sqlite {
    fn keeps_rows(&self) -> bool {
        true
    }

    fn commit(&self, batch: Batch) -> Result<(), StoreError> {
        let mut db = self.db();
        let tx = db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        if batch.delete {
            tx.execute("DELETE FROM grp_rows WHERE room = ?1", params![batch.room])?;
        } else {
            let mut put = tx.prepare_cached(
                "INSERT INTO grp_rows(room, kind, idx, doc) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT(room, kind, idx) DO UPDATE SET doc = excluded.doc",
            )?;
            for row in &batch.rows {
                let index = i64::try_from(row.index).map_err(|e| StoreError(e.to_string()))?;
                put.execute(params![batch.room, row.kind as u8, index, row.doc])?;
            }
        }
        if let Some((key, answer)) = &batch.remember {
            tx.prepare_cached(
                "INSERT OR REPLACE INTO grp_idempotency(key, body, sealed, at)
                 VALUES (?1, ?2, ?3, ?4)",
            )?
            .execute(params![&key[..], &answer.body[..], answer.sealed, answer.at])?;
        }
        tx.commit()?;
        Ok(())
    }

    fn remembered(
        &self,
        key: &[u8; 32],
        not_before: i64,
    ) -> Result<Option<Remembered>, StoreError> {
        let db = self.db();
        let mut get = db.prepare_cached(
            "SELECT body, sealed, at FROM grp_idempotency WHERE key = ?1 AND at >= ?2",
        )?;
        let found = get
            .query_row(params![&key[..], not_before], |r| {
                Ok((r.get::<_, Vec<u8>>(0)?, r.get::<_, Vec<u8>>(1)?, r.get::<_, i64>(2)?))
            })
            .optional()?;
        found
            .map(|(body, sealed, at)| {
                let body =
                    body.try_into().map_err(|_| StoreError("a body hash of odd length".into()))?;
                Ok(Remembered { body, sealed, at })
            })
            .transpose()
    }

    fn rows(&self, room: &str) -> Result<Vec<Row>, StoreError> {
        let db = self.db();
        let mut get = db.prepare_cached(
            "SELECT kind, idx, doc FROM grp_rows WHERE room = ?1 ORDER BY kind, idx",
        )?;
        let rows = get.query_map(params![room], |r| {
            Ok((r.get::<_, u8>(0)?, r.get::<_, i64>(1)?, r.get::<_, String>(2)?))
        })?;
        rows.map(|row| {
            let (kind, index, doc) = row?;
            let kind = Kind::from_number(kind)
                .ok_or_else(|| StoreError(format!("rows of an unknown kind {kind}")))?;
            let index = u64::try_from(index).map_err(|e| StoreError(e.to_string()))?;
            Ok(Row { kind, index, doc })
        })
        .collect()
    }

    fn rooms(&self) -> Result<Vec<String>, StoreError> {
        let db = self.db();
        let mut get = db.prepare("SELECT room FROM grp_rows WHERE kind = 0")?;
        let names = get.query_map([], |r| r.get(0))?;
        Ok(names.collect::<Result<_, _>>()?)
    }

    fn meta(&self, name: &str, make: &dyn Fn() -> Vec<u8>) -> Result<Vec<u8>, StoreError> {
        let db = self.db();
        db.execute(
            "INSERT OR IGNORE INTO grp_meta(name, value) VALUES (?1, ?2)",
            params![name, make()],
        )?;
        Ok(db
            .query_row("SELECT value FROM grp_meta WHERE name = ?1", params![name], |r| r.get(0))?)
    }

    fn clear(&self) -> Result<(), StoreError> {
        let mut db = self.db();
        let tx = db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        tx.execute_batch("DELETE FROM grp_rows; DELETE FROM grp_idempotency;")?;
        tx.commit()?;
        Ok(())
    }
}
