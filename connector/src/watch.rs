//! Notices what other processes did to the same state directory, and tells this process's
//! sessions. Looks at SQLite's change counter first, so that quiet times cost nothing.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;

use crate::core::{Change, Core};
use crate::error::ToolError;
use crate::store::RoomRow;

/// Pause between looks (ms).
const LOOK_MS: u64 = 250;

/// What sessions can see of the state.
#[derive(Default, PartialEq)]
struct Seen {
    rooms: HashMap<(String, String), (u64, u64, String)>,
    statuses: HashMap<i64, i64>,
    inbox: (i64, i64),
    drafts: (i64, i64),
}

fn look(c: &Connection) -> Result<Seen, ToolError> {
    let pair = |sql: &str| c.query_row(sql, [], |r| Ok((r.get(0)?, r.get(1)?)));
    let mut rooms = HashMap::new();
    for row in RoomRow::all(c)? {
        let condition = row.condition.map(|c| c.code).unwrap_or_default();
        let seen = (row.tip.map_or(0, |t| t.seq), row.read_seq, condition);
        rooms.insert((row.host, row.room_id), seen);
    }
    let mut statement =
        c.prepare("SELECT room, sum(expires_at) + count(*) FROM agent_status GROUP BY room")?;
    let statuses =
        statement.query_map([], |r| Ok((r.get(0)?, r.get(1)?)))?.collect::<Result<_, _>>()?;
    Ok(Seen {
        rooms,
        statuses,
        inbox: pair(
            "SELECT count(*), coalesce(sum(created_at + defer_until), 0) FROM inbox WHERE status = 'pending'",
        )?,
        drafts: pair("SELECT count(*), coalesce(sum(base_seq + created_at), 0) FROM drafts")?,
    })
}

impl Seen {
    fn changes(&self, newer: &Seen, c: &Connection) -> Result<Vec<Change>, ToolError> {
        let mut changes = Vec::new();
        for ((host, room_id), seen) in &newer.rooms {
            let old = self.rooms.get(&(host.clone(), room_id.clone()));
            if old == Some(seen) {
                continue;
            }
            changes.push(Change::Room { host: host.clone(), room_id: room_id.clone() });
            if old.is_none_or(|old| old.0 != seen.0) {
                changes.push(Change::Timeline { host: host.clone(), room_id: room_id.clone() });
            }
        }
        for (room, sum) in &newer.statuses {
            if self.statuses.get(room) != Some(sum) {
                let row = RoomRow::get(c, *room)?;
                changes.push(Change::AgentStatus { host: row.host, room_id: row.room_id });
            }
        }
        if self.inbox != newer.inbox {
            changes.push(Change::Inbox);
        }
        if self.drafts != newer.drafts {
            changes.push(Change::Drafts);
        }
        Ok(changes)
    }
}

impl Core {
    /// Tells about other processes' changes until the process ends.
    pub async fn watch_store(self: Arc<Self>) {
        let mut version = self.store.data_version().unwrap_or_default();
        let mut seen = self.store.read(look).unwrap_or_default();
        loop {
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(LOOK_MS)) => {}
                () = self.shutdown.cancelled() => return,
            }
            let now = self.store.data_version().unwrap_or(version);
            if now == version {
                continue;
            }
            version = now;
            let found = self.store.read(|c| {
                let newer = look(c)?;
                let changes = seen.changes(&newer, c)?;
                Ok::<_, ToolError>((newer, changes))
            });
            match found {
                Ok((newer, changes)) => {
                    seen = newer;
                    if !changes.is_empty() {
                        self.announce(changes);
                    }
                }
                Err(e) => tracing::debug!(code = %e.code, "the state could not be looked at"),
            }
        }
    }
}
