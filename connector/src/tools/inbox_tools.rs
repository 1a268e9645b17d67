//! Reading and attention: timeline, read cursor, inbox.

use std::time::Duration;

use rusqlite::params;
use serde_json::{Value, json};

use super::Call;
use crate::args::Args;
use crate::core::{Change, Core};
use crate::error::ToolError;
use crate::inbox::{self, Query};
use crate::store::RoomRow;
use crate::views;

/// Longest wait of one `inbox_next` (ms): clients give up after 60 s.
pub const MAX_WAIT_MS: u64 = 55_000;
/// A waiting call looks at least this often, for what other processes brought (ms).
const LOOK_MS: u64 = 500;
/// A waiting call says that it is alive this often (ms).
const PROGRESS_MS: u64 = 10_000;

impl Core {
    /// Moves the read cursor forward, never past what is verified. Returns the cursor.
    fn advance_read(&self, room: i64, through: u64) -> Result<RoomRow, ToolError> {
        let row = self.store.write(|tx| {
            tx.execute(
                "UPDATE rooms SET read_seq = max(read_seq, min(?2, tip_seq)) WHERE id = ?1",
                params![room, through.min(i64::MAX as u64) as i64],
            )?;
            RoomRow::get(tx, room)
        })?;
        self.announce([Change::Room { host: row.host.clone(), room_id: row.room_id.clone() }]);
        Ok(row)
    }
}

impl Call {
    pub(super) async fn timeline(&self, args: &Args) -> Result<Value, ToolError> {
        let row = self.room(args).await?;
        if args.flag("refresh") == Some(true) {
            self.core.sync_room(row.id).await?;
        }
        let limit = args.limit(50, 500);
        let as_json = |list: Option<Vec<String>>| list.map(|l| json!(l).to_string());
        let (types, actors) = (as_json(args.list("types")), as_json(args.list("actors")));
        let unread = args.flag("unread_only") == Some(true);
        let mark_read = args.flag("mark_read") == Some(true);
        let ((row, records, more), sync) = self.snapshot(row.id, |c, row| {
            let mut after = args.number("after_seq").unwrap_or(0);
            if unread {
                after = after.max(row.read_seq);
            }
            let after = i64::try_from(after).unwrap_or(i64::MAX);
            let before = args
                .number("before_seq")
                .map_or(i64::MAX, |n| i64::try_from(n).unwrap_or(i64::MAX));
            let mut records = row.records_where(
                c,
                "AND seq > ?2 AND seq < ?3
                 AND (?4 IS NULL OR type IN (SELECT value FROM json_each(?4)))
                 AND (?5 IS NULL OR actor IN (SELECT value FROM json_each(?5)))
                 AND (?6 = 0 OR countable = 1) ORDER BY seq LIMIT ?7",
                &[&after, &before, &types, &actors, &unread, &((limit + 1) as i64)],
            )?;
            let more = records.len() > limit;
            records.truncate(limit);
            if let (true, Some(last)) = (mark_read, records.last()) {
                // What this result shows counts as read in its own sync, too.
                row.read_seq = row.read_seq.max(last.seq);
            }
            Ok((row.clone(), records, more))
        })?;
        let last = records.last().map(|r| r.seq);
        let items: Vec<Value> = records
            .into_iter()
            .map(|r| {
                let mut item = views::timeline_item(&row, &r);
                if args.flag("include_records") == Some(true) {
                    item["record"] = r.body;
                }
                item
            })
            .collect();
        if let (true, Some(last)) = (mark_read, last) {
            self.core.advance_read(row.id, last)?;
        }
        let mut result = json!({ "items": items, "sync": self.present(sync) });
        if more {
            result["next_after_seq"] = json!(last);
        }
        Ok(result)
    }

    pub(super) async fn mark_read(&self, args: &Args) -> Result<Value, ToolError> {
        let row = self.room(args).await?;
        let through = args.number("through_seq").unwrap_or(0);
        let row = self.core.advance_read(row.id, through)?;
        let unread = self.core.store.read(|c| row.unread_count(c))?;
        Ok(json!({
            "room_id": row.room_id, "host": row.host, "read_seq": row.read_seq, "unread_count": unread,
        }))
    }

    pub(super) async fn inbox_next(&self, args: &Args) -> Result<Value, ToolError> {
        let room = self.optional_room(args)?.map(|r| r.id);
        let query = Query {
            room,
            kinds: args.list("kinds").unwrap_or_default(),
            limit: args.limit(20, 100),
        };
        let claim = args.flag("claim") == Some(true);
        let wait_ms = args.number("wait_ms").unwrap_or(0).min(MAX_WAIT_MS);
        // Changes from here on wake us: nothing is missed between a look and the wait.
        let mut version = self.core.version();
        let mut items = self.look(&query, claim)?;
        if !items.is_empty() {
            // Something else may be due as well: not this call's business to wait for it.
            let core = self.core.clone();
            tokio::spawn(async move { core.poll_join_requests(room).await });
            return self.inbox_result(&query, items);
        }
        let started = tokio::time::Instant::now();
        let deadline = started + Duration::from_millis(wait_ms);
        let mut next_progress = started + Duration::from_millis(PROGRESS_MS);
        loop {
            version.mark_unchanged();
            self.core.check_lifecycles();
            tokio::select! {
                () = self.core.poll_join_requests(room) => {}
                () = self.cancel.cancelled() => return self.inbox_result(&query, Vec::new()),
            }
            items = self.look(&query, claim)?;
            let now = tokio::time::Instant::now();
            if !items.is_empty() || now >= deadline {
                break;
            }
            if now >= next_progress {
                next_progress = now + Duration::from_millis(PROGRESS_MS);
                if let Some(progress) = &self.progress {
                    let waited_ms = (now - started).as_millis() as u64;
                    progress.tell(waited_ms, None, "waiting for inbox items");
                }
            }
            let pause = Duration::from_millis(LOOK_MS).min(deadline - now);
            tokio::select! {
                _ = version.changed() => {}
                () = tokio::time::sleep(pause) => {}
                () = self.cancel.cancelled() => return self.inbox_result(&query, Vec::new()),
                () = self.core.shutdown.cancelled() => break,
            }
        }
        if self.cancel.is_cancelled() && claim {
            // Nobody will read this answer: others may have the items.
            let ids: Vec<String> = items.iter().map(|(id, _)| id.clone()).collect();
            self.core.store.write(|tx| inbox::release(tx, &ids, &self.session.id))?;
        }
        self.inbox_result(&query, items)
    }

    fn look(&self, query: &Query, claim: bool) -> Result<Vec<(String, Value)>, ToolError> {
        let now = self.core.clock.now_ms();
        let session = &self.session.id;
        if !claim {
            return self.core.store.read(|c| query.items(c, session, now));
        }
        // An empty look needs no write lock.
        if self.core.store.read(|c| query.items(c, session, now))?.is_empty() {
            return Ok(Vec::new());
        }
        self.core.store.write(|tx| {
            let items = query.items(tx, session, now)?;
            let ids: Vec<String> = items.iter().map(|(id, _)| id.clone()).collect();
            inbox::claim(tx, &ids, session, now + self.core.tuning.claim_lease_ms)?;
            Ok(items)
        })
    }

    fn inbox_result(&self, query: &Query, items: Vec<(String, Value)>) -> Result<Value, ToolError> {
        let now = self.core.clock.now_ms();
        let pending = self.core.store.read(|c| query.pending(c, now))?;
        let items: Vec<Value> = items.into_iter().map(|(_, item)| item).collect();
        Ok(json!({ "items": items, "pending_count": pending }))
    }

    pub(super) fn inbox_ack(&self, args: &Args) -> Result<Value, ToolError> {
        let action = args.required("action").to_owned();
        let defer_until = args.number("defer_until");
        match (action.as_str(), defer_until) {
            ("defer", None) => {
                return Err(ToolError::input("/defer_until", "is required with action defer"));
            }
            ("handled" | "dismissed", Some(_)) => {
                return Err(ToolError::input("/defer_until", "goes with action defer only"));
            }
            _ => {}
        }
        let until = defer_until.unwrap_or(0).min(i64::MAX as u64);
        let now = self.core.clock.now_ms();
        let (acknowledged, unknown, pending) = self.core.store.write(|tx| {
            let (mut acknowledged, mut unknown) = (Vec::new(), Vec::new());
            for id in args.list("ids").unwrap_or_default() {
                if inbox::acknowledge(tx, &id, &action, until)? {
                    acknowledged.push(id);
                } else {
                    unknown.push(id);
                }
            }
            Ok::<_, ToolError>((acknowledged, unknown, Query::default().pending(tx, now)?))
        })?;
        self.core.announce([Change::Inbox]);
        let mut result = json!({ "acknowledged": acknowledged, "pending_count": pending });
        if !unknown.is_empty() {
            result["unknown"] = json!(unknown);
        }
        Ok(result)
    }
}
