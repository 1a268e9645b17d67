//! What only the operator does: settle suspended rooms, look at evidence, check the setup.
//! None of it is reachable from a tool.

use std::sync::Arc;

use rusqlite::params;
use serde_json::{Value, json};

use crate::clock::Clock;
use crate::config::Settings;
use crate::core::Core;
use crate::error::ToolError;
use crate::store::RoomRow;

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

fn find(core: &Core, host: &str, room_id: &str) -> Result<RoomRow, ToolError> {
    let host = host.trim_end_matches('/');
    core.store
        .read(|c| RoomRow::find(c, host, room_id))?
        .ok_or_else(|| ToolError::new("room_not_known", "no such room in this state directory"))
}

/// Settles a room's condition.
///
/// # Errors
/// `room_not_known`, `store_error`.
pub fn resolve(core: &Core, host: &str, room_id: &str, action: Action) -> Result<(), ToolError> {
    let row = find(core, host, room_id)?;
    core.store.write(|tx| {
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
pub fn list_rooms(core: &Core, mut print: impl FnMut(&str)) -> Result<(), ToolError> {
    for row in core.store.read(RoomRow::all)? {
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
    core: &Core,
    host: &str,
    room_id: &str,
    mut print: impl FnMut(&str),
) -> Result<(), ToolError> {
    let row = find(core, host, room_id)?;
    let lines: Vec<Value> = core.store.read(|c| {
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

/// Checks that everything a connector needs is there, and says what is not.
///
/// Returns the number of problems.
///
/// # Errors
/// `store_error`.
pub async fn doctor(settings: Settings, print: impl Fn(&str)) -> Result<u32, ToolError> {
    let mut problems = 0u32;
    print(&format!("identity       {}", settings.agent_id()));
    print(&format!("state_dir      {}", settings.state_dir.display()));
    let core: Arc<Core> = Core::open(settings, Clock::system())?;
    print("state database ok");
    if core.http.hosts().is_empty() {
        problems += 1;
        print("hosts          none: add at least one [[hosts]] entry");
    }
    core.discover_all().await;
    for host in core.hosts_view().await? {
        let name = host["host"].as_str().unwrap_or_default();
        if host["last_checked_at"].is_null() {
            problems += 1;
            print(&format!("host           {name}: no answer to discovery"));
        } else {
            print(&format!("host           {name}: {}", host["features"]));
        }
    }
    let suspended = core.store.read(RoomRow::all)?;
    for row in suspended.iter().filter(|r| r.condition.is_some()) {
        problems += 1;
        let code = row.condition.as_ref().map_or("", |c| c.code.as_str());
        print(&format!("room           {} on {}: {code}", row.room_id, row.host));
    }
    Ok(problems)
}
