//! Rooms begin and end by the clock, without a record: the inbox is told here.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use ap_protocol::room::RoomStatus;
use rusqlite::params;

use crate::core::{Change, Core};
use crate::error::ToolError;
use crate::inbox;
use crate::store::RoomRow;
use crate::views;

/// When each room has to be looked at again: (tip it was judged at, time in ms).
#[derive(Default)]
pub struct Lifecycles(Mutex<HashMap<i64, (u64, u64)>>);

impl Core {
    /// Tells the inbox about rooms whose status changed by time. Cheap when none is due.
    pub fn check_lifecycles(&self) {
        if let Err(e) = self.try_check_lifecycles() {
            tracing::debug!(code = %e.code, "room lifecycles were not checked");
        }
    }

    fn try_check_lifecycles(&self) -> Result<(), ToolError> {
        let now = self.clock.now_ms();
        let rows = self.store.read(RoomRow::all)?;
        let mut told = Vec::new();
        for row in rows {
            let tip = row.tip.map_or(0, |t| t.seq);
            let due = {
                let known = self.lifecycles.0.lock().unwrap_or_else(PoisonError::into_inner);
                known.get(&row.id).is_none_or(|(at, next)| *at != tip || now >= *next)
            };
            if tip == 0 || !due {
                continue;
            }
            let (next, changed) = self.judge(&row, now)?;
            let mut known = self.lifecycles.0.lock().unwrap_or_else(PoisonError::into_inner);
            known.insert(row.id, (tip, next));
            if changed {
                told.extend(Core::room_changes(&row));
                told.push(Change::Inbox);
            }
        }
        if !told.is_empty() {
            self.announce(told);
        }
        Ok(())
    }

    /// Returns when to look again (Unix ms) and whether the status changed by time.
    fn judge(&self, row: &RoomRow, now: u64) -> Result<(u64, bool), ToolError> {
        let me = self.me().clone();
        self.store.write(|tx| {
            let row = RoomRow::get(tx, row.id)?;
            let Some(state) = row.state(tx)? else { return Ok((u64::MAX, false)) };
            let room_now = views::room_now(tx, &row, now)?;
            let status = state.status_at(room_now);
            let time = |name: &str| {
                state.contract.get(name).and_then(serde_json::Value::as_u64).unwrap_or(0)
            };
            let next = match status {
                RoomStatus::Scheduled => time("start_time"),
                RoomStatus::Active => time("end_time"),
                RoomStatus::Ended | RoomStatus::Cancelled => u64::MAX,
            };
            if row.last_status.as_deref() == Some(status.as_str()) {
                return Ok((next, false));
            }
            tx.execute(
                "UPDATE rooms SET last_status = ?2 WHERE id = ?1",
                params![row.id, status.as_str()],
            )?;
            // The first look is no change, and a closing record has its own item.
            let by_time = row.last_status.is_some() && state.finished.is_none();
            if by_time && state.active_member(&me).is_some() {
                let about = format!("status:{}", status.as_str());
                let summary = format!("the room is {} now", status.as_str());
                inbox::add(
                    tx,
                    &row,
                    &inbox::NewItem {
                        kind: "room.state.changed",
                        seq: None,
                        about: &about,
                        is_event: false,
                        actor: None,
                        created_at: now,
                        deadline: None,
                        reason: if status == RoomStatus::Active {
                            "room_started"
                        } else {
                            "room_ended"
                        },
                        summary: &summary,
                    },
                )?;
            }
            Ok((next, by_time))
        })
    }
}
