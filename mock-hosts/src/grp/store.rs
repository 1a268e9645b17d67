//! Where rooms and idempotency keys are kept: nowhere, or in one SQLite file.
//!
//! A batch is everything one operation did, its idempotency key included, and commits as a
//! whole. Storage never sees a raw token, password or idempotency key.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use rusqlite::{Connection, OptionalExtension, params};

use super::model::{Kind, Row};
use super::replay::Tombstone;
use super::webhooks::Delivery;

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

/// An answer to remember, and the name it is remembered under.
pub type NewAnswer = ([u8; 32], Remembered);

/// One operation's effects.
#[derive(Debug, Default)]
pub struct Batch {
    /// Room the rows belong to.
    pub room: String,
    /// Changed rows.
    pub rows: Vec<Row>,
    /// The room is gone, and this is what is remembered of it.
    pub delete: Option<Tombstone>,
    /// Idempotency key and answer.
    pub remember: Option<NewAnswer>,
    /// Pushes that are due.
    pub deliveries: Vec<Delivery>,
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
    /// What is remembered of a room deleted after `not_before` (Unix ms).
    ///
    /// # Errors
    /// [`StoreError`].
    fn tombstone(&self, room: &str, not_before: i64) -> Result<Option<Tombstone>, StoreError>;
    /// Forgets answers and tombstones older than `not_before` (Unix ms).
    ///
    /// # Errors
    /// [`StoreError`].
    fn forget(&self, not_before: i64) -> Result<(), StoreError>;
    /// Pushes that were due and not settled, oldest first.
    ///
    /// # Errors
    /// [`StoreError`].
    fn deliveries(&self) -> Result<Vec<Delivery>, StoreError>;
    /// Forgets a push.
    ///
    /// # Errors
    /// [`StoreError`].
    fn delivered(&self, id: &str) -> Result<(), StoreError>;
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

/// Keeps idempotency keys and tombstones while the process lives, and nothing else.
#[derive(Debug, Default)]
pub struct Memory {
    answers: Mutex<HashMap<[u8; 32], Remembered>>,
    tombstones: Mutex<HashMap<String, Tombstone>>,
}

impl Storage for Memory {
    fn keeps_rows(&self) -> bool {
        false
    }

    fn commit(&self, batch: Batch) -> Result<(), StoreError> {
        if let Some(tombstone) = batch.delete {
            let mut map = self.tombstones.lock().unwrap_or_else(PoisonError::into_inner);
            if map.len() >= 10_000 {
                let oldest = tombstone.at - super::replay::IDEMPOTENCY_TTL_MS;
                map.retain(|_, t| t.at > oldest);
            }
            map.insert(tombstone.slug.clone(), tombstone);
        }
        if let Some((key, answer)) = batch.remember {
            let mut map = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
            // Bounded by age: a day is what clients are promised.
            if map.len() >= 100_000 {
                let oldest = answer.at - super::replay::IDEMPOTENCY_TTL_MS;
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
        let map = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(map.get(key).filter(|r| r.at >= not_before).cloned())
    }

    fn tombstone(&self, room: &str, not_before: i64) -> Result<Option<Tombstone>, StoreError> {
        let map = self.tombstones.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(map.get(room).filter(|t| t.at >= not_before).cloned())
    }

    fn forget(&self, _not_before: i64) -> Result<(), StoreError> {
        Ok(())
    }

    fn deliveries(&self) -> Result<Vec<Delivery>, StoreError> {
        Ok(Vec::new())
    }

    fn delivered(&self, _id: &str) -> Result<(), StoreError> {
        Ok(())
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
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.tombstones.lock().unwrap_or_else(PoisonError::into_inner).clear();
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
    CREATE TABLE IF NOT EXISTS grp_tombstones(
        room TEXT PRIMARY KEY, doc TEXT NOT NULL, at INTEGER NOT NULL) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS grp_deliveries(
        place INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, room TEXT NOT NULL, doc TEXT NOT NULL);
    CREATE TABLE IF NOT EXISTS grp_meta(name TEXT PRIMARY KEY, value BLOB NOT NULL);
";

fn json_of(value: &impl serde::Serialize) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|e| StoreError(e.to_string()))
}

fn value_of<T: serde::de::DeserializeOwned>(doc: &str) -> Result<T, StoreError> {
    serde_json::from_str(doc).map_err(|e| StoreError(e.to_string()))
}

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
        if let Some(tombstone) = &batch.delete {
            tx.execute("DELETE FROM grp_rows WHERE room = ?1", params![batch.room])?;
            tx.execute("DELETE FROM grp_deliveries WHERE room = ?1", params![batch.room])?;
            tx.execute(
                "INSERT OR REPLACE INTO grp_tombstones(room, doc, at) VALUES (?1, ?2, ?3)",
                params![batch.room, json_of(tombstone)?, tombstone.at],
            )?;
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
        for delivery in batch.deliveries.iter().filter(|_| batch.delete.is_none()) {
            tx.prepare_cached("INSERT INTO grp_deliveries(id, room, doc) VALUES (?1, ?2, ?3)")?
                .execute(params![delivery.id, delivery.room, json_of(delivery)?])?;
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

    fn tombstone(&self, room: &str, not_before: i64) -> Result<Option<Tombstone>, StoreError> {
        let doc: Option<String> = self
            .db()
            .prepare_cached("SELECT doc FROM grp_tombstones WHERE room = ?1 AND at >= ?2")?
            .query_row(params![room, not_before], |r| r.get(0))
            .optional()?;
        doc.map(|doc| value_of(&doc)).transpose()
    }

    fn forget(&self, not_before: i64) -> Result<(), StoreError> {
        let db = self.db();
        db.execute("DELETE FROM grp_idempotency WHERE at < ?1", params![not_before])?;
        db.execute("DELETE FROM grp_tombstones WHERE at < ?1", params![not_before])?;
        Ok(())
    }

    fn deliveries(&self) -> Result<Vec<Delivery>, StoreError> {
        let db = self.db();
        let mut get = db.prepare("SELECT doc FROM grp_deliveries ORDER BY place")?;
        let docs = get.query_map([], |r| r.get::<_, String>(0))?;
        docs.map(|doc| value_of(&doc?)).collect()
    }

    fn delivered(&self, id: &str) -> Result<(), StoreError> {
        self.db()
            .prepare_cached("DELETE FROM grp_deliveries WHERE id = ?1")?
            .execute(params![id])?;
        Ok(())
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
        tx.execute_batch(
            "DELETE FROM grp_rows; DELETE FROM grp_idempotency; DELETE FROM grp_tombstones;
             DELETE FROM grp_deliveries;",
        )?;
        tx.commit()?;
        Ok(())
    }
}
