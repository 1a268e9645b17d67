//! What only the operator does: settle suspended rooms, look at evidence.
//! None of it is reachable from a tool.

use rusqlite::params;
use serde_json::{Value, json};

use crate::error::ToolError;
use crate::store::{RoomRow, Store};

/// How a suspended room goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Action {
    /// Trust the verified state and go on; the condition comes back if the host still lies.
    Keep,
    /// Drop the verified history and read the host's anew.
    Reset,
    /// Remove the room.
    Forget,
}

fn find(store: &Store, host: &str, room_id: &str) -> Result<RoomRow, ToolError> {
    let host = host.trim_end_matches('/');
    store.read(|c| RoomRow::find(c, host, room_id))?.ok_or_else(|| {
        ToolError::new(
            "room_not_known",
            "no such room in this state directory; `ap-connector room list` shows what there is",
        )
    })
}

/// Settles a room's condition.
///
/// # Errors
/// `room_not_known`, `store_error`.
pub fn resolve(store: &Store, host: &str, room_id: &str, action: Action) -> Result<(), ToolError> {
    let row = find(store, host, room_id)?;
    store.write(|tx| {
        if action == Action::Keep {
            tx.execute("UPDATE rooms SET condition = NULL WHERE id = ?1", [row.id])?;
            return Ok(());
        }
        for table in ["records", "inbox", "drafts", "outbox", "join_requests", "agent_status"] {
            tx.execute(&format!("DELETE FROM {table} WHERE room = ?1"), [row.id])?;
        }
        if action == Action::Forget {
            tx.execute("DELETE FROM evidence WHERE room = ?1", [row.id])?;
            tx.execute("DELETE FROM rooms WHERE id = ?1", [row.id])?;
        } else {
            tx.execute(
                "UPDATE rooms SET state = NULL, tip_seq = 0, tip_hash = NULL, head_seq = 0,
                 head_hash = NULL, remote_seq = 0, read_seq = 0, baseline_seq = NULL,
                 condition = NULL, last_status = NULL, anchor = NULL WHERE id = ?1",
                [row.id],
            )?;
        }
        Ok(())
    })
}

/// Prints every room with its condition.
///
/// # Errors
/// `store_error`.
pub fn list_rooms(store: &Store, mut print: impl FnMut(&str)) -> Result<(), ToolError> {
    for row in store.read(RoomRow::all)? {
        let condition =
            row.condition.map_or("ok".to_owned(), |c| format!("{} at seq {:?}", c.code, c.seq));
        let seq = row.tip.map_or(0, |t| t.seq);
        print(&format!("{} {} seq {seq}: {condition}", row.host, row.room_id));
    }
    Ok(())
}

/// Prints what was kept about a room's host, one JSON object a line.
///
/// # Errors
/// `room_not_known`, `store_error`.
pub fn evidence(
    store: &Store,
    host: &str,
    room_id: &str,
    mut print: impl FnMut(&str),
) -> Result<(), ToolError> {
    let row = find(store, host, room_id)?;
    let lines: Vec<Value> = store.read(|c| {
        let mut statement =
            c.prepare("SELECT code, seq, stored, offered, at FROM evidence WHERE room = ?1 ORDER BY id")?;
        let rows = statement
            .query_map(params![row.id], |r| {
                let parsed = |t: Option<String>| t.map(|t| serde_json::from_str(&t).unwrap_or(Value::String(t)));
                Ok(json!({
                    "code": r.get::<_, String>(0)?, "seq": r.get::<_, Option<i64>>(1)?,
                    "stored": parsed(r.get(2)?), "offered": parsed(r.get(3)?), "at": r.get::<_, i64>(4)?,
                }))
            })?
            .collect::<Result<_, _>>()?;
        Ok::<_, ToolError>(rows)
    })?;
    for line in lines {
        print(&line.to_string());
    }
    Ok(())
}
