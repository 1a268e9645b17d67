//! Live streams: one task a subscribed room, for as long as the process runs.
//!
//! Subscribe first, then read history, then take what the stream brings: a known seq is
//! dropped, the next one is committed, a gap sends us back to the history. The cursor is the
//! verified tip, so a hole is never passed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ap_protocol::json;
use ap_protocol::room::MemberStatus;
use ap_protocol::sse::{Limits, SseEvent, SseParser};
use futures::StreamExt;
use rusqlite::params;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::core::{Change, Core};
use crate::error::ToolError;
use crate::inbox;
use crate::store::RoomRow;
use crate::sync::{Received, Source};

/// How a subscribed room is kept current.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// A stream is up, or being established again.
    Stream,
    /// The host refuses a stream: history is read from time to time.
    Poll,
}

struct Task {
    stop: CancellationToken,
    mode: Mode,
}

/// The running streams of this process.
#[derive(Default)]
pub struct LiveRooms(Mutex<HashMap<i64, Task>>);

impl LiveRooms {
    fn tasks(&self) -> std::sync::MutexGuard<'_, HashMap<i64, Task>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a live stream keeps the room current.
    pub fn subscribed(&self, room: i64) -> bool {
        self.tasks().get(&room).is_some_and(|t| t.mode == Mode::Stream)
    }

    fn set_mode(&self, room: i64, mode: Mode) {
        if let Some(task) = self.tasks().get_mut(&room) {
            task.mode = mode;
        }
    }

    /// Ends the room's stream.
    pub fn stop(&self, room: i64) {
        if let Some(task) = self.tasks().remove(&room) {
            task.stop.cancel();
        }
    }
}

/// Why one connection ended, and whether it brought the room forward.
struct Ended {
    progress: bool,
    refused: bool,
    gone: bool,
}

impl Core {
    /// Starts or stops the room's stream as its row wants it. Safe to call at any time.
    ///
    /// # Errors
    /// `store_error`.
    pub fn tend_stream(self: &Arc<Self>, room: i64) -> Result<(), ToolError> {
        let me = self.me().clone();
        let wanted = self.store.read(|c| {
            let row = RoomRow::get(c, room)?;
            let active = row.state(c)?.is_some_and(|s| s.active_member(&me).is_some());
            let suspended = row.condition.as_ref().is_some_and(|c| c.sticky);
            Ok::<_, ToolError>(
                active
                    && row.subscribe != Some(false)
                    && !suspended
                    && self.http.host(&row.host).is_ok(),
            )
        })?;
        if !wanted {
            self.live.stop(room);
            return Ok(());
        }
        let stop = {
            let mut tasks = self.live.tasks();
            if tasks.contains_key(&room) {
                return Ok(());
            }
            let stop = self.shutdown.child_token();
            tasks.insert(room, Task { stop: stop.clone(), mode: Mode::Stream });
            stop
        };
        let core = self.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = core.keep_current(room) => { core.live.stop(room); }
            }
        });
        Ok(())
    }

    /// Starts the streams of every known room: at process start.
    ///
    /// # Errors
    /// `store_error`.
    pub fn tend_all_streams(self: &Arc<Self>) -> Result<(), ToolError> {
        for row in self.store.read(RoomRow::all)? {
            self.tend_stream(row.id)?;
        }
        Ok(())
    }

    async fn keep_current(self: &Arc<Self>, room: i64) {
        let mut failures: u32 = 0;
        loop {
            let ended = self.one_connection(room).await;
            if ended.gone {
                return;
            }
            self.live.set_mode(room, if ended.refused { Mode::Poll } else { Mode::Stream });
            failures = if ended.progress { 0 } else { failures.saturating_add(1) };
            let pause = if ended.refused {
                Duration::from_millis(self.tuning.poll_ms)
            } else {
                backoff(self.tuning.backoff_base_ms, self.tuning.backoff_max_ms, failures)
            };
            tokio::time::sleep(pause).await;
        }
    }

    async fn one_connection(self: &Arc<Self>, room: i64) -> Ended {
        let mut ended = Ended { progress: false, refused: false, gone: false };
        let Ok(row) = self.store.read(|c| RoomRow::get(c, room)) else {
            ended.gone = true;
            return ended;
        };
        let Ok(host) = self.http.host(&row.host) else {
            ended.gone = true;
            return ended;
        };
        let path = ["v1", "rooms", row.room_id.as_str(), "events", "live"];
        let response = match self.http.stream(&host, &path).await {
            Ok(response) => response,
            Err(e) => {
                tracing::debug!(room = %row.room_id, code = %e.code, "no event stream");
                let status = e.data["status"].as_u64().unwrap_or(0);
                ended.refused = matches!(status, 404 | 405 | 406 | 501) || e.code == "bad_response";
                // No stream, but the history may be there: every attempt catches up.
                if let Ok(after) = self.sync_room(room).await {
                    ended.progress = after.tip != row.tip;
                }
                ended.gone = self.suspended(room)
                    || (matches!(status, 401 | 403) && !self.still_member(room));
                return ended;
            }
        };
        // Subscribed: whatever the history lacks from here on, the stream will bring.
        match self.sync_room(room).await {
            Ok(after) => ended.progress = after.tip != row.tip,
            Err(e) => {
                tracing::debug!(room = %row.room_id, code = %e.code, "catching up failed");
                if self.suspended(room) {
                    ended.gone = true;
                }
                return ended;
            }
        }
        let mut parser = SseParser::new(Limits::default());
        let mut stream = response.bytes_stream();
        let idle = Duration::from_millis(self.tuning.idle_timeout_ms);
        let mut events = Vec::new();
        let mut last_byte = tokio::time::Instant::now();
        let mut next_look = last_byte + Duration::from_millis(self.tuning.resync_ms);
        loop {
            let now = tokio::time::Instant::now();
            if now >= next_look {
                // A stream may swallow events and look alive: the history is asked too.
                next_look = now + Duration::from_millis(self.tuning.resync_ms);
                match self.sync_room(room).await {
                    Ok(after) => ended.progress |= after.tip != row.tip,
                    Err(_) if self.suspended(room) => {
                        ended.gone = true;
                        return ended;
                    }
                    Err(e) => tracing::debug!(code = %e.code, "a look at the history failed"),
                }
            }
            let wake = next_look.min(last_byte + idle);
            let chunk = match tokio::time::timeout_at(wake, stream.next()).await {
                Ok(Some(Ok(chunk))) => chunk,
                Ok(Some(Err(_)) | None) => return ended,
                Err(_) if tokio::time::Instant::now() >= last_byte + idle => return ended,
                Err(_) => continue,
            };
            last_byte = tokio::time::Instant::now();
            if let Err(e) = parser.push(&chunk, &mut events) {
                tracing::debug!(room = %row.room_id, error = %e, "the event stream is given up");
                return ended;
            }
            for event in events.drain(..) {
                match self.take_event(room, &row, &event).await {
                    Ok(progress) => ended.progress |= progress,
                    Err(e) => {
                        tracing::debug!(room = %row.room_id, code = %e.code, "an event was not taken");
                        if self.suspended(room) {
                            ended.gone = true;
                            return ended;
                        }
                    }
                }
            }
            if !self.still_member(room) {
                ended.gone = true;
                return ended;
            }
        }
    }

    fn still_member(&self, room: i64) -> bool {
        let me = self.me().clone();
        let status = self.store.read(|c| {
            let row = RoomRow::get(c, room)?;
            Ok::<_, ToolError>(row.state(c)?.and_then(|s| s.members.get(&me).map(|m| m.status)))
        });
        // A failing read is no reason to end a stream.
        !matches!(
            status,
            Ok(Some(MemberStatus::Left | MemberStatus::Removed | MemberStatus::Banned))
        )
    }

    fn suspended(&self, room: i64) -> bool {
        let row = self.store.read(|c| RoomRow::get(c, room));
        row.is_ok_and(|r| r.condition.is_some_and(|c| c.sticky))
    }

    /// Takes one event of the stream. Noise changes nothing. Returns whether the room moved.
    async fn take_event(
        self: &Arc<Self>,
        room: i64,
        row: &RoomRow,
        event: &SseEvent,
    ) -> Result<bool, ToolError> {
        if event.data.is_empty() {
            return Ok(false);
        }
        let Ok(value) = json::parse(event.data.as_bytes()) else {
            tracing::debug!(room = %row.room_id, "an event of the stream is no acceptable JSON");
            return Ok(false);
        };
        match event.event.as_str() {
            "room.event" => self.take_record(room, row, value).await,
            "room.agent_status" => self.take_status(row, &value).map(|()| false),
            "room.join_request" => self.take_join_request(row, &value).map(|()| false),
            _ => Ok(false),
        }
    }

    async fn take_record(
        self: &Arc<Self>,
        room: i64,
        row: &RoomRow,
        value: Value,
    ) -> Result<bool, ToolError> {
        let received = [Received::check(value, &row.room_id)];
        self.obtain_packs(&received).await;
        let [received] = received;
        let lock = self.room_lock(room);
        let guard = lock.lock().await;
        let tip = self.store.read(|c| RoomRow::get(c, room))?.tip.map_or(0, |t| t.seq);
        if received.error().is_none() && received.seq() <= tip + 1 {
            let done = self.commit(room, vec![received], Source::Live)?;
            if done.fault.is_none() {
                return Ok(done.applied > 0);
            }
        }
        drop(guard);
        // A gap, or a record that does not fit: the history decides.
        let after = self.sync_room(room).await?;
        Ok(after.tip.map_or(0, |t| t.seq) > tip)
    }

    fn take_status(&self, row: &RoomRow, value: &Value) -> Result<(), ToolError> {
        // Wrapped or bare, as hosts send it.
        let status = if value["status"].is_object() { &value["status"] } else { value };
        if crate::status::remember(self, row, status)? {
            self.announce([Change::AgentStatus {
                host: row.host.clone(),
                room_id: row.room_id.clone(),
            }]);
        }
        Ok(())
    }

    /// A hint that somebody asks to join.
    fn take_join_request(&self, row: &RoomRow, hint: &Value) -> Result<(), ToolError> {
        if hint["room_id"].as_str().is_some_and(|r| r != row.room_id) {
            return Ok(());
        }
        let (Some(id), Some(applicant)) = (hint["request_id"].as_str(), hint["applicant"].as_str())
        else {
            return Ok(());
        };
        self.note_join_request(
            row,
            id,
            applicant,
            hint["role"].as_str().unwrap_or_default(),
            hint["expires_at"].as_u64(),
        )
    }

    /// Makes the inbox item of a request that waits for this agent's review.
    pub fn note_join_request(
        &self,
        row: &RoomRow,
        id: &str,
        applicant: &str,
        role: &str,
        deadline: Option<u64>,
    ) -> Result<(), ToolError> {
        if id.is_empty() || id.len() > 128 || applicant == self.me().as_str() {
            return Ok(());
        }
        let now = self.clock.now_ms();
        let me = self.me().clone();
        let added = self.store.write(|tx| {
            let reviews = row.state(tx)?.is_some_and(|s| s.moderates(&me));
            let settled: i64 = tx.query_row(
                "SELECT count(*) FROM join_requests WHERE room = ?1 AND request_id = ?2 AND status NOT IN ('pending')",
                params![row.id, id],
                |r| r.get(0),
            )?;
            if !reviews || settled > 0 {
                return Ok(false);
            }
            let summary = format!("asks to join as {role}");
            inbox::add(tx, row, &inbox::NewItem {
                kind: "room.join.requested",
                seq: None,
                about: id,
                is_event: false,
                actor: Some(applicant),
                created_at: now,
                deadline,
                reason: "join_request_pending",
                summary: &summary,
            })
        })?;
        if added {
            self.announce([Change::Inbox]);
        }
        Ok(())
    }
}

/// Doubling pauses with full jitter in their upper half.
fn backoff(base_ms: u64, max_ms: u64, failures: u32) -> Duration {
    if failures == 0 {
        // Progress was made: come back at once, but never in a busy loop.
        return Duration::from_millis(base_ms.min(50));
    }
    let full = base_ms.saturating_mul(1 << (failures - 1).min(16)).min(max_ms).max(1);
    let half = full / 2;
    let jitter = getrandom::u64().unwrap_or(0) % (half + 1);
    Duration::from_millis(half + jitter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_grows_and_stays_bounded() {
        for failures in 0..40 {
            let pause = backoff(250, 30_000, failures).as_millis();
            assert!(pause <= 30_000, "{failures}: {pause}");
        }
        assert!(backoff(250, 30_000, 1).as_millis() >= 125);
        assert!(backoff(250, 30_000, 20).as_millis() >= 15_000);
    }
}
