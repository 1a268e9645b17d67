//! A state directory can go back in time: a restored backup. Its nonce sequence then points at
//! nonces that are spent, and only the hosts' histories know. So a process reads a room's
//! history before its first signature there, and, when the sequence runs ahead of the clock
//! (otherwise the clock alone keeps it above whatever was used), that of every other room.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::core::Core;
use crate::error::ToolError;
use crate::signer::last_nonce;
use crate::store::RoomRow;

/// What this process has read since it started.
#[derive(Default)]
pub struct Freshness {
    rooms: Mutex<HashSet<i64>>,
    all: AtomicBool,
}

impl Freshness {
    /// Notes that a room's history was read to its end.
    pub(crate) fn mark(&self, room: i64) {
        self.rooms.lock().unwrap_or_else(PoisonError::into_inner).insert(room);
    }

    fn has(&self, room: i64) -> bool {
        self.rooms.lock().unwrap_or_else(PoisonError::into_inner).contains(&room)
    }
}

impl Core {
    /// Makes sure that the next nonce is above every nonce that was ever used. Cheap after
    /// the first time. `room` is where the event goes.
    ///
    /// # Errors
    /// The sync's code: without the room's history nothing is signed for it.
    pub(crate) async fn settle_nonces(&self, room: Option<i64>) -> Result<(), ToolError> {
        if let Some(room) = room
            && !self.freshness.has(room)
        {
            self.sync_room(room).await?;
        }
        if self.freshness.all.load(Ordering::Acquire) {
            return Ok(());
        }
        let me = self.me().clone();
        let last = self.store.write(|tx| last_nonce(tx, &me))?;
        if last >= self.clock.now_ms() {
            for row in self.store.read(RoomRow::all)? {
                if row.tip.is_none() || self.freshness.has(row.id) {
                    continue;
                }
                if let Err(e) = self.sync_room(row.id).await {
                    tracing::warn!(host = %row.host, code = %e.code, "a room was not read before signing");
                }
            }
        }
        self.freshness.all.store(true, Ordering::Release);
        Ok(())
    }
}
