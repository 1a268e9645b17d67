//! Held drafts: content that was not sent because the room moved.
//!
//! A draft is plain content. It never holds an envelope, a signature, a nonce or a token; a
//! commit makes a fresh event from it.

use ap_protocol::{Hash, Tip, encoding};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde_json::{Value, json};

use crate::core::Core;
use crate::error::ToolError;
use crate::store::{RoomRow, parse_json};
use crate::write::Write;

/// How long one call may take to commit a draft before another may try (ms).
const COMMIT_LEASE_MS: u64 = 120_000;

/// One held draft.
#[derive(Debug, Clone)]
pub struct Draft {
    /// Its id.
    pub id: String,
    /// The room's row.
    pub room: i64,
    /// `message` or `event`.
    pub kind: String,
    /// When it was first held (Unix ms).
    pub created_at: u64,
    /// The base it was prepared on.
    pub base: Tip,
    /// The write input it mirrors.
    pub draft: Value,
    /// Why it is held.
    pub reason: String,
}

fn read(r: &Row<'_>) -> rusqlite::Result<(Draft, String, String)> {
    let draft = Draft {
        id: r.get(0)?,
        room: r.get(1)?,
        kind: r.get(2)?,
        created_at: r.get::<_, i64>(3)? as u64,
        base: Tip { seq: r.get::<_, i64>(4)? as u64, hash: Hash::from_bytes([0; 32]) },
        draft: Value::Null,
        reason: r.get(7)?,
    };
    Ok((draft, r.get(5)?, r.get(6)?))
}

fn finish((mut draft, hash, body): (Draft, String, String)) -> Result<Draft, ToolError> {
    draft.base.hash = Hash::parse(&hash)
        .map_err(|e| ToolError::new("store_error", format!("a damaged draft: {e}")))?;
    draft.draft = parse_json(&body)?;
    Ok(draft)
}

const COLUMNS: &str = "id, room, kind, created_at, base_seq, base_hash, draft, reason";

/// Keeps a write: a new draft, or the one it committed with a new base.
///
/// # Errors
/// `store_error`.
pub fn hold(core: &Core, row: &RoomRow, w: &Write, base: Tip) -> Result<Draft, ToolError> {
    let id = match &w.draft_id {
        Some(id) => id.clone(),
        None => {
            let mut random = [0u8; 12];
            getrandom::fill(&mut random).map_err(ToolError::internal)?;
            format!("draft_{}", encoding::encode(random))
        }
    };
    let draft = Draft {
        id,
        room: row.id,
        kind: w.draft_kind.to_owned(),
        created_at: core.clock.now_ms(),
        base,
        draft: w.mirror.clone(),
        reason: "room_head_mismatch".to_owned(),
    };
    core.store.write(|tx| {
        tx.execute(
            "INSERT INTO drafts(id, room, kind, created_at, base_seq, base_hash, draft, reason)
             VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
             ON CONFLICT(id) DO UPDATE SET base_seq = excluded.base_seq, base_hash = excluded.base_hash,
               draft = excluded.draft, reason = excluded.reason, committing = NULL, committing_until = 0",
            params![
                draft.id,
                draft.room,
                draft.kind,
                draft.created_at as i64,
                base.seq as i64,
                base.hash.to_string(),
                draft.draft.to_string(),
                draft.reason,
            ],
        )?;
        // Whatever was on its way for this draft was refused: it must not take the draft along.
        tx.execute("UPDATE outbox SET draft_id = NULL WHERE draft_id = ?1", [&draft.id])?;
        Ok(draft)
    })
}

fn not_found(id: &str) -> ToolError {
    ToolError::new(
        "draft_not_found",
        "no held draft has this id; it was committed or dropped. agent_protocols_drafts_list shows what is held",
    )
    .with(json!({ "draft_id": id.chars().take(100).collect::<String>() }))
}

/// The draft with this id.
///
/// # Errors
/// `draft_not_found`.
pub fn get(conn: &Connection, id: &str) -> Result<Draft, ToolError> {
    let sql = format!("SELECT {COLUMNS} FROM drafts WHERE id = ?1");
    let found = conn.prepare_cached(&sql)?.query_row([id], read).optional()?;
    finish(found.ok_or_else(|| not_found(id))?)
}

/// Held drafts in the order they were held, after the cursor's draft.
///
/// # Errors
/// `store_error`.
pub fn list(
    conn: &Connection,
    room: Option<i64>,
    after: Option<(u64, String)>,
    limit: usize,
) -> Result<Vec<Draft>, ToolError> {
    let (at, id) = after.unwrap_or((0, String::new()));
    let sql = format!(
        "SELECT {COLUMNS} FROM drafts WHERE (?1 IS NULL OR room = ?1)
         AND (created_at > ?2 OR (created_at = ?2 AND id > ?3)) ORDER BY created_at, id LIMIT ?4"
    );
    let mut statement = conn.prepare_cached(&sql)?;
    let rows: Vec<_> = statement
        .query_map(params![room, at as i64, id, limit as i64], read)?
        .collect::<Result<_, _>>()?;
    rows.into_iter().map(finish).collect()
}

/// How many drafts are held.
///
/// # Errors
/// `store_error`.
pub fn count(conn: &Connection) -> Result<u64, ToolError> {
    let n: i64 = conn.query_row("SELECT count(*) FROM drafts", [], |r| r.get(0))?;
    Ok(n as u64)
}

/// Takes the right to commit a draft: of two calls at once, one gets it.
///
/// # Errors
/// `draft_not_found`, `draft_busy`.
pub fn take(core: &Core, id: &str, who: &str) -> Result<Draft, ToolError> {
    let now = core.clock.now_ms();
    core.store.write(|tx| {
        let draft = get(tx, id)?;
        let taken = tx.execute(
            "UPDATE drafts SET committing = ?2, committing_until = ?3
             WHERE id = ?1 AND (committing IS NULL OR committing_until <= ?4)",
            params![id, who, (now + COMMIT_LEASE_MS) as i64, now as i64],
        )?;
        if taken == 0 {
            return Err(ToolError::new(
                "draft_busy",
                "another call is committing this draft; wait for it",
            )
            .with(json!({ "draft_id": id })));
        }
        Ok(draft)
    })
}

/// Gives the right back after a commit that did not end the draft.
///
/// # Errors
/// `store_error`.
pub fn give_back(core: &Core, id: &str, who: &str) -> Result<(), ToolError> {
    core.store.write(|tx| {
        tx.execute(
            "UPDATE drafts SET committing = NULL, committing_until = 0 WHERE id = ?1 AND committing = ?2",
            [id, who],
        )?;
        Ok(())
    })
}

/// Discards a draft without any event.
///
/// # Errors
/// `draft_not_found`, `draft_busy`.
pub fn discard(core: &Core, id: &str) -> Result<u64, ToolError> {
    let now = core.clock.now_ms();
    let left = core.store.write(|tx| {
        get(tx, id)?;
        let gone = tx.execute(
            "DELETE FROM drafts WHERE id = ?1 AND (committing IS NULL OR committing_until <= ?2)",
            params![id, now as i64],
        )?;
        if gone == 0 {
            return Err(ToolError::new(
                "draft_busy",
                "another call is committing this draft; wait for it",
            )
            .with(json!({ "draft_id": id })));
        }
        count(tx)
    })?;
    core.announce([crate::core::Change::Drafts]);
    Ok(left)
}

/// Takes a draft away that was sent.
///
/// # Errors
/// `store_error`.
pub fn finished(core: &Core, id: &str) -> Result<(), ToolError> {
    core.store.write(|tx| {
        tx.execute("DELETE FROM drafts WHERE id = ?1", [id])?;
        Ok::<_, ToolError>(())
    })?;
    core.announce([crate::core::Change::Drafts]);
    Ok(())
}

/// HeldDraft, with where its room stands now.
pub fn view(draft: &Draft, row: &RoomRow, current_sync: Value) -> Value {
    json!({
        "id": draft.id, "host": row.host, "room_id": row.room_id, "kind": draft.kind,
        "created_at": draft.created_at,
        "base_seq": draft.base.seq, "base_hash": draft.base.hash,
        "current_sync": current_sync, "draft": draft.draft, "reason": draft.reason,
        "options": ["revise", "send_as_is", "stay_silent", "send_anyway"],
    })
}
