//! Rows of rooms and records, and replay's view of the history inside a transaction.

use ap_protocol::{Hash, RoomContext, RoomState, Tip, VerifiedRecord, json};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::ToolError;

/// Why a room is suspended: writes are refused while it lasts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Condition {
    /// Stable code, see [`crate::error::OWN_CODES`] or a record error's code.
    pub code: String,
    /// What was seen.
    pub message: String,
    /// The seq it was seen at.
    pub seq: Option<u64>,
    /// When (Unix ms).
    pub at: u64,
    /// Only the operator ends it; otherwise the next clean sync does.
    pub sticky: bool,
}

impl Condition {
    /// The error that a refused call carries.
    pub fn to_error(&self, host: &str, room_id: &str) -> ToolError {
        let then = if self.sticky {
            "Writes to this room are stopped and verified state is kept until the operator runs \
             `ap-connector room resolve`."
        } else {
            "Verified state is kept; writes are refused until a read of the room succeeds."
        };
        ToolError::new(&self.code, format!("{} {then}", self.message)).with(serde_json::json!({
            "host": host, "room_id": room_id, "seq": self.seq, "since": self.at,
        }))
    }
}

/// One room's row without its replayed state.
#[derive(Debug, Clone)]
pub struct RoomRow {
    /// Row id.
    pub id: i64,
    /// Origin of the host.
    pub host: String,
    /// The room.
    pub room_id: String,
    /// Latest verified record.
    pub tip: Option<Tip>,
    /// Latest verified head-advancing record.
    pub head: Option<Tip>,
    /// What the host last advertised.
    pub remote_seq: u64,
    /// Read cursor.
    pub read_seq: u64,
    /// Tip when the first full sync ended.
    pub baseline_seq: Option<u64>,
    /// The operator's or agent's wish for a stream.
    pub subscribe: Option<bool>,
    /// Why the room is suspended.
    pub condition: Option<Condition>,
    /// What the host last said, unverified.
    pub resource: Option<Value>,
    /// Lifecycle status last reported to the inbox.
    pub last_status: Option<String>,
    /// Advertised head a join was signed on, not yet proven.
    pub anchor: Option<Tip>,
}

/// One stored record.
#[derive(Debug, Clone)]
pub struct StoredRecord {
    /// Position.
    pub seq: u64,
    /// Record hash.
    pub hash: String,
    /// Event id.
    pub event_id: String,
    /// Event type.
    pub event_type: String,
    /// `message`, `signal`, `control` or `lifecycle`.
    pub kind: String,
    /// The whole record.
    pub body: Value,
}

/// Parses JSON that this store wrote.
///
/// # Errors
/// `store_error` when the row is damaged.
pub fn parse_json(text: &str) -> Result<Value, ToolError> {
    json::parse(text.as_bytes())
        .map_err(|e| ToolError::new("store_error", format!("a damaged row: {e}")))
}

const COLUMNS: &str = "id, host, room_id, tip_seq, tip_hash, head_seq, head_hash, remote_seq, \
    read_seq, baseline_seq, subscribe, condition, resource, last_status, anchor";

fn unsigned(n: i64) -> u64 {
    u64::try_from(n).unwrap_or(0)
}

fn tip(seq: i64, hash: Option<String>) -> Option<Tip> {
    Some(Tip { seq: unsigned(seq), hash: Hash::parse(&hash?).ok()? })
}

fn room(r: &Row<'_>) -> rusqlite::Result<RoomRow> {
    let condition: Option<String> = r.get(11)?;
    let resource: Option<String> = r.get(12)?;
    let anchor: Option<String> = r.get(14)?;
    Ok(RoomRow {
        id: r.get(0)?,
        host: r.get(1)?,
        room_id: r.get(2)?,
        tip: tip(r.get(3)?, r.get(4)?),
        head: tip(r.get(5)?, r.get(6)?),
        remote_seq: unsigned(r.get(7)?),
        read_seq: unsigned(r.get(8)?),
        baseline_seq: r.get::<_, Option<i64>>(9)?.map(unsigned),
        subscribe: r.get::<_, Option<bool>>(10)?,
        condition: condition.and_then(|t| serde_json::from_str(&t).ok()),
        resource: resource.and_then(|t| json::parse(t.as_bytes()).ok()),
        last_status: r.get(13)?,
        anchor: anchor.and_then(|t| serde_json::from_str(&t).ok()),
    })
}

fn record(r: &Row<'_>) -> rusqlite::Result<(StoredRecord, String)> {
    let stored = StoredRecord {
        seq: unsigned(r.get(0)?),
        hash: r.get(1)?,
        event_id: r.get(2)?,
        event_type: r.get(3)?,
        kind: r.get(4)?,
        body: Value::Null,
    };
    Ok((stored, r.get(5)?))
}

const RECORD_COLUMNS: &str = "seq, hash, event_id, type, kind, body";

fn finish((mut stored, body): (StoredRecord, String)) -> Result<StoredRecord, ToolError> {
    stored.body = parse_json(&body)?;
    Ok(stored)
}

impl RoomRow {
    /// The room of `(host, room_id)`.
    pub fn find(conn: &Connection, host: &str, room_id: &str) -> Result<Option<Self>, ToolError> {
        let sql = format!("SELECT {COLUMNS} FROM rooms WHERE host = ?1 AND room_id = ?2");
        Ok(conn.prepare_cached(&sql)?.query_row([host, room_id], room).optional()?)
    }

    /// Every room with this id, on whatever host.
    pub fn with_id(conn: &Connection, room_id: &str) -> Result<Vec<Self>, ToolError> {
        let sql = format!("SELECT {COLUMNS} FROM rooms WHERE room_id = ?1 ORDER BY host");
        let mut statement = conn.prepare_cached(&sql)?;
        let rows = statement.query_map([room_id], room)?.collect::<Result<_, _>>()?;
        Ok(rows)
    }

    /// The row of a known id.
    pub fn get(conn: &Connection, id: i64) -> Result<Self, ToolError> {
        let sql = format!("SELECT {COLUMNS} FROM rooms WHERE id = ?1");
        let row = conn.prepare_cached(&sql)?.query_row([id], room).optional()?;
        row.ok_or_else(|| ToolError::new("room_not_known", "the room was removed by the operator"))
    }

    /// Every room, in the order they became known.
    pub fn all(conn: &Connection) -> Result<Vec<Self>, ToolError> {
        let sql = format!("SELECT {COLUMNS} FROM rooms ORDER BY id");
        let mut statement = conn.prepare_cached(&sql)?;
        let rows = statement.query_map([], room)?.collect::<Result<_, _>>()?;
        Ok(rows)
    }

    /// The row of `(host, room_id)`, made if need be.
    pub fn ensure(conn: &Connection, host: &str, room_id: &str) -> Result<Self, ToolError> {
        conn.execute(
            "INSERT INTO rooms(host, room_id) VALUES(?1, ?2) ON CONFLICT DO NOTHING",
            [host, room_id],
        )?;
        Ok(Self::find(conn, host, room_id)?.expect("inserted just above"))
    }

    /// The replayed state.
    pub fn state(&self, conn: &Connection) -> Result<Option<RoomState>, ToolError> {
        let text: Option<String> = conn
            .prepare_cached("SELECT state FROM rooms WHERE id = ?1")?
            .query_row([self.id], |r| r.get(0))
            .optional()?
            .flatten();
        let Some(text) = text else { return Ok(None) };
        serde_json::from_str(&text)
            .map(Some)
            .map_err(|e| ToolError::new("store_error", format!("a damaged room state: {e}")))
    }

    /// Writes the replayed state with tip and head.
    pub fn save_state(&mut self, conn: &Connection, state: &RoomState) -> Result<(), ToolError> {
        let text = serde_json::to_string(state).map_err(ToolError::internal)?;
        self.tip = Some(state.tip);
        self.head = Some(state.head);
        self.remote_seq = self.remote_seq.max(state.tip.seq);
        conn.prepare_cached(
            "UPDATE rooms SET state = ?2, tip_seq = ?3, tip_hash = ?4, head_seq = ?5, head_hash = ?6,
             remote_seq = max(remote_seq, ?3) WHERE id = ?1",
        )?
        .execute(params![
            self.id,
            text,
            state.tip.seq as i64,
            state.tip.hash.to_string(),
            state.head.seq as i64,
            state.head.hash.to_string(),
        ])?;
        Ok(())
    }

    /// Sets or clears the condition.
    pub fn save_condition(
        &mut self,
        conn: &Connection,
        condition: Option<Condition>,
    ) -> Result<(), ToolError> {
        let text = match &condition {
            Some(c) => Some(serde_json::to_string(c).map_err(ToolError::internal)?),
            None => None,
        };
        conn.execute("UPDATE rooms SET condition = ?2 WHERE id = ?1", params![self.id, text])?;
        self.condition = condition;
        Ok(())
    }

    /// The record at `seq`.
    pub fn record(&self, conn: &Connection, seq: u64) -> Result<Option<StoredRecord>, ToolError> {
        let sql = format!("SELECT {RECORD_COLUMNS} FROM records WHERE room = ?1 AND seq = ?2");
        let row = conn
            .prepare_cached(&sql)?
            .query_row(params![self.id, seq as i64], record)
            .optional()?;
        row.map(finish).transpose()
    }

    /// The record that carries an event.
    pub fn record_of_event(
        &self,
        conn: &Connection,
        event_id: &str,
    ) -> Result<Option<StoredRecord>, ToolError> {
        let sql = format!("SELECT {RECORD_COLUMNS} FROM records WHERE room = ?1 AND event_id = ?2");
        let row =
            conn.prepare_cached(&sql)?.query_row(params![self.id, event_id], record).optional()?;
        row.map(finish).transpose()
    }

    /// Records after `after`, ascending, at most `limit`.
    pub fn records_after(
        &self,
        conn: &Connection,
        after: u64,
        limit: usize,
    ) -> Result<Vec<StoredRecord>, ToolError> {
        let sql = format!(
            "SELECT {RECORD_COLUMNS} FROM records WHERE room = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3"
        );
        let mut statement = conn.prepare_cached(&sql)?;
        let rows: Vec<_> = statement
            .query_map(params![self.id, after as i64, limit as i64], record)?
            .collect::<Result<_, _>>()?;
        rows.into_iter().map(finish).collect()
    }

    /// Runs a record query with extra conditions; `sql_tail` follows `WHERE room = ?1`.
    pub fn records_where(
        &self,
        conn: &Connection,
        sql_tail: &str,
        args: &[&dyn rusqlite::ToSql],
    ) -> Result<Vec<StoredRecord>, ToolError> {
        let sql = format!("SELECT {RECORD_COLUMNS} FROM records WHERE room = ?1 {sql_tail}");
        let mut statement = conn.prepare_cached(&sql)?;
        let mut all: Vec<&dyn rusqlite::ToSql> = vec![&self.id];
        all.extend_from_slice(args);
        let rows: Vec<_> =
            statement.query_map(all.as_slice(), record)?.collect::<Result<_, _>>()?;
        rows.into_iter().map(finish).collect()
    }

    /// Stores an applied record.
    pub fn insert_record(
        &self,
        conn: &Connection,
        record: &VerifiedRecord,
        kind: &str,
        countable: bool,
    ) -> Result<(), ToolError> {
        conn.prepare_cached(
            "INSERT INTO records(room, seq, hash, event_id, type, kind, actor, countable, body)
             VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )?
        .execute(params![
            self.id,
            record.seq() as i64,
            record.hash().to_string(),
            record.envelope().hash().to_string(),
            record.envelope().event_type(),
            kind,
            record.actor().as_str(),
            countable,
            record.to_value().to_string(),
        ])?;
        Ok(())
    }

    /// Verified records after the read cursor that count as unread.
    pub fn unread_count(&self, conn: &Connection) -> Result<u64, ToolError> {
        let n: i64 = conn
            .prepare_cached(
                "SELECT count(*) FROM records WHERE room = ?1 AND countable = 1 AND seq > ?2",
            )?
            .query_row(params![self.id, self.read_seq as i64], |r| r.get(0))?;
        Ok(unsigned(n))
    }

    /// Inbox items of this room that wait for the agent.
    pub fn pending_inbox(&self, conn: &Connection, now_ms: u64) -> Result<u64, ToolError> {
        let n: i64 = conn
            .prepare_cached(
                "SELECT count(*) FROM inbox WHERE room = ?1 AND status = 'pending' AND defer_until <= ?2",
            )?
            .query_row(params![self.id, now_ms as i64], |r| r.get(0))?;
        Ok(unsigned(n))
    }

    /// Keeps both sides of a conflict for the operator.
    pub fn keep_evidence(
        &self,
        conn: &Connection,
        code: &str,
        seq: Option<u64>,
        stored: Option<&Value>,
        offered: Option<&Value>,
        now_ms: u64,
    ) -> Result<(), ToolError> {
        let shorten = |v: &Value| v.to_string().chars().take(1_000_000).collect::<String>();
        let offered = offered.map(shorten);
        let again: i64 = conn.query_row(
            "SELECT count(*) FROM evidence WHERE room = ?1 AND code = ?2 AND offered IS ?3",
            params![self.id, code, offered],
            |r| r.get(0),
        )?;
        let all: i64 =
            conn.query_row("SELECT count(*) FROM evidence WHERE room = ?1", [self.id], |r| {
                r.get(0)
            })?;
        // A host that lies all day must not fill the disk.
        if again == 0 && all < 100 {
            conn.execute(
                "INSERT INTO evidence(room, code, seq, stored, offered, at) VALUES(?1,?2,?3,?4,?5,?6)",
                params![self.id, code, seq.map(|s| s as i64), stored.map(shorten), offered, now_ms as i64],
            )?;
        }
        Ok(())
    }
}

/// Replay's view of the history, inside the transaction that commits.
pub struct TxContext<'a> {
    /// The transaction.
    pub conn: &'a Connection,
    /// The room's row id.
    pub room: i64,
}

impl RoomContext for TxContext<'_> {
    fn hash_at(&self, seq: u64) -> Option<Hash> {
        let seq = i64::try_from(seq).ok()?;
        let text: String = self
            .conn
            .prepare_cached("SELECT hash FROM records WHERE room = ?1 AND seq = ?2")
            .ok()?
            .query_row(params![self.room, seq], |r| r.get(0))
            .ok()?;
        Hash::parse(&text).ok()
    }

    fn contains_event(&self, event_id: &Hash) -> bool {
        let found = self
            .conn
            .prepare_cached("SELECT 1 FROM records WHERE room = ?1 AND event_id = ?2")
            .and_then(|mut s| s.exists(params![self.room, event_id.to_string()]));
        // A failing read must not let a replayed event pass.
        found.unwrap_or(true)
    }

    fn pack(&self, uri: &str, digest: &str) -> Option<Vec<u8>> {
        self.conn
            .prepare_cached("SELECT bytes FROM packs WHERE uri = ?1 AND digest = ?2")
            .ok()?
            .query_row([uri, digest], |r| r.get(0))
            .ok()
    }
}
