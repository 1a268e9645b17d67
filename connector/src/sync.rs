//! The sync engine: read the room, read its history, verify, replay, commit.
//!
//! A record enters the store only through [`Core::commit`], in one transaction with the
//! replayed state, the projections and the conditions that follow from it. Whatever a host
//! sends, verified state never goes backwards.

use ap_protocol::record::RecordError;
use ap_protocol::room::HostViolation;
use ap_protocol::{CheckedRecord, ErrorCode, Hash, RoomState, VerifiedRecord};
use std::time::Duration;

use rusqlite::{Transaction, params};
use serde_json::{Value, json};

use crate::claim::{Claimed, Lie, Proof};
use crate::core::{Change, Core};
use crate::error::ToolError;
use crate::http::{AllowedOrigin, Reply, Request};
use crate::inbox;
use crate::progress::Progress;
use crate::signer::adopt_nonce;
use crate::store::{Condition, RoomRow, TxContext};

/// Below this many records a thread costs more than it saves.
const PARALLEL_FROM: usize = 32;
/// Pauses before a history is read again that lacks what the host advertised (ms). After the
/// last one it is a lie.
const PROOF_PAUSES_MS: [u64; 3] = [100, 300, 900];

/// A received record with its own verdict, not yet joined to the chain.
pub struct Received {
    value: Value,
    checked: Result<CheckedRecord, RecordError>,
}

impl Received {
    /// Judges one record by itself.
    pub fn check(value: Value, room_id: &str) -> Self {
        let checked = CheckedRecord::check(&value, room_id);
        Received { value, checked }
    }

    /// The seq it claims.
    pub fn seq(&self) -> u64 {
        self.value["seq"].as_u64().unwrap_or(0)
    }

    /// The event id, when the record is sound by itself.
    pub fn event_id(&self) -> Option<Hash> {
        self.checked.as_ref().ok().map(|c| *c.envelope().hash())
    }

    /// The payload, when the record is sound by itself and may declare types.
    pub fn declares_types(&self) -> Option<&serde_json::Map<String, Value>> {
        let envelope = self.checked.as_ref().ok()?.envelope();
        matches!(envelope.event_type(), "room.create" | "type.define").then(|| envelope.payload())
    }

    /// Why it is not sound by itself.
    pub fn error(&self) -> Option<&RecordError> {
        self.checked.as_ref().err()
    }
}

/// Judges a page of records on every core; their order is kept.
pub fn check_all(values: Vec<Value>, room_id: &str) -> Vec<Received> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if values.len() < PARALLEL_FROM || cores == 1 {
        return values.into_iter().map(|v| Received::check(v, room_id)).collect();
    }
    let chunk = values.len().div_ceil(cores);
    let mut chunks: Vec<Vec<Value>> = Vec::new();
    let mut rest = values;
    while rest.len() > chunk {
        let tail = rest.split_off(chunk);
        chunks.push(std::mem::replace(&mut rest, tail));
    }
    chunks.push(rest);
    std::thread::scope(|scope| {
        let workers: Vec<_> = chunks
            .into_iter()
            .map(|part| {
                scope.spawn(move || {
                    part.into_iter().map(|v| Received::check(v, room_id)).collect::<Vec<_>>()
                })
            })
            .collect();
        workers
            .into_iter()
            .flat_map(|w| w.join().expect("checking a record does not panic"))
            .collect()
    })
}

/// What a commit did.
#[derive(Debug)]
pub struct Committed {
    /// Records that are new.
    pub applied: u64,
    /// Records that were known already.
    pub known: u64,
    /// The row after the commit.
    pub row: RoomRow,
    /// Why it stopped before the end of what it was given.
    pub fault: Option<Condition>,
}

/// Where the records of a commit came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The history endpoint, the host's word of record.
    History,
    /// The live stream or a write's answer: a bad record there is noise until history says
    /// the same.
    Live,
}

impl Core {
    /// Verifies, replays and commits records of one room in one transaction. Stops at the
    /// first record that cannot follow; everything before it stays committed.
    ///
    /// # Errors
    /// `store_error`. Faults of the host are in [`Committed::fault`], recorded with the room.
    pub fn commit(
        &self,
        room: i64,
        mut received: Vec<Received>,
        source: Source,
    ) -> Result<Committed, ToolError> {
        // The order within a page is no evidence of anything.
        received.sort_by_key(Received::seq);
        let now = self.clock.now_ms();
        let mut inbox_changed = false;
        let done = self.store.write(|tx| {
            let mut row = RoomRow::get(tx, room)?;
            let mut state = row.state(tx)?;
            let (mut applied, mut known) = (0, 0);
            let mut fault = None;
            for r in received {
                match self.commit_one(tx, &mut row, &mut state, &r, source, &mut inbox_changed) {
                    Ok(true) => applied += 1,
                    Ok(false) => known += 1,
                    Err(CommitError::Store(e)) => return Err(e),
                    Err(CommitError::Fault(f)) => {
                        let keep = f.sticky || source == Source::History;
                        if keep {
                            let stored = match f.seq {
                                Some(seq) => row.record(tx, seq)?.map(|s| s.body),
                                None => None,
                            };
                            row.keep_evidence(
                                tx,
                                &f.code,
                                f.seq,
                                stored.as_ref(),
                                Some(&r.value),
                                now,
                            )?;
                        }
                        fault = Some(Condition { at: now, ..f });
                        break;
                    }
                }
            }
            if applied > 0 {
                let state = state.as_ref().expect("a record was applied");
                row.save_state(tx, state)?;
                if fault.is_none() {
                    fault = self.prove_anchor(tx, &mut row, now)?;
                }
            }
            if let Some(f) = &fault
                && (f.sticky || source == Source::History)
                && row.condition.as_ref().is_none_or(|old| !old.sticky)
            {
                row.save_condition(tx, Some(f.clone()))?;
            }
            Ok(Committed { applied, known, row, fault })
        })?;
        if done.applied > 0 || done.fault.is_some() {
            self.announce(Core::room_changes(&done.row));
        }
        if inbox_changed {
            self.announce([Change::Inbox]);
        }
        Ok(done)
    }

    fn commit_one(
        &self,
        tx: &Transaction<'_>,
        row: &mut RoomRow,
        state: &mut Option<RoomState>,
        received: &Received,
        source: Source,
        inbox_changed: &mut bool,
    ) -> Result<bool, CommitError> {
        let tip = state.as_ref().map(|s| s.tip);
        // No race makes a history hold a record that does not verify.
        let sticky = source == Source::History;
        let checked = match &received.checked {
            Ok(checked) => checked,
            Err(e) => {
                return Err(fault(
                    e.code(),
                    &format!("The host served a record that does not verify: {e}."),
                    received.seq(),
                    sticky,
                ));
            }
        };
        if let Some(tip) = tip
            && checked.seq() <= tip.seq
        {
            let stored = row.record(tx, checked.seq())?;
            return match stored {
                Some(s) if s.hash == checked.hash().to_string() => Ok(false),
                _ => Err(fault(
                    "room_forked",
                    "The host served a different valid record at a seq that was verified already.",
                    checked.seq(),
                    true,
                )),
            };
        }
        let record: VerifiedRecord = checked.clone().link(tip.as_ref()).map_err(|e| {
            fault(
                e.code(),
                &format!("The host's history does not continue the verified chain: {e}."),
                received.seq(),
                // What is missing may still come; what contradicts the chain is a lie.
                sticky && !matches!(e, RecordError::Gap { .. } | RecordError::Repeat { .. }),
            )
        })?;
        let ctx = TxContext { conn: tx, room: row.id };
        let me = self.me();
        let before = state.as_ref().and_then(|s| s.members.get(me).cloned());
        let kind = match state.as_mut() {
            Some(state) => state.apply(&record, &ctx),
            None => RoomState::genesis(&record, &ctx).map(|fresh| {
                *state = Some(fresh);
                ap_protocol::event::Kind::Lifecycle
            }),
        }
        .map_err(|v| violation(&v))?;
        let own = record.actor() == me;
        let membership = ap_protocol::event::is_membership(record.envelope().event_type());
        row.insert_record(tx, &record, kind.as_str(), !own && !membership)?;
        let state = state.as_ref().expect("applied just above");
        let applied = inbox::Applied { state, before: before.as_ref(), kind };
        *inbox_changed |= inbox::project(tx, row, &record, &applied, me.as_str(), &self.watch)?;
        if own {
            self.settle_own(tx, row, &record)?;
        }
        if matches!(
            record.envelope().event_type(),
            "room.leave" | "room.member.remove" | "room.member.role.update"
        ) {
            forget_status(tx, row, &record)?;
        }
        Ok(true)
    }

    /// An own record is out: nothing waits for it any more, and its nonce is spent.
    fn settle_own(
        &self,
        tx: &Transaction<'_>,
        row: &RoomRow,
        record: &VerifiedRecord,
    ) -> Result<(), ToolError> {
        adopt_nonce(tx, self.me(), record.envelope().nonce())?;
        let event_id = record.envelope().hash().to_string();
        tx.prepare_cached(
            "DELETE FROM drafts WHERE id = (SELECT draft_id FROM outbox WHERE event_id = ?1)",
        )?
        .execute([&event_id])?;
        tx.prepare_cached("DELETE FROM outbox WHERE event_id = ?1")?.execute([&event_id])?;
        if record.envelope().event_type() == "room.join" {
            // The request is consumed: joining again needs a new one.
            tx.execute("DELETE FROM join_requests WHERE room = ?1 AND own = 1", [row.id])?;
            tx.execute(
                "UPDATE inbox SET status = 'handled' WHERE room = ?1 AND kind = 'room.join.approved' AND status = 'pending'",
                [row.id],
            )?;
        }
        Ok(())
    }

    /// The advertised head that a join was signed on must turn up in the history.
    fn prove_anchor(
        &self,
        tx: &Transaction<'_>,
        row: &mut RoomRow,
        now: u64,
    ) -> Result<Option<Condition>, ToolError> {
        let (Some(anchor), Some(tip)) = (row.anchor, row.tip) else { return Ok(None) };
        if tip.seq < anchor.seq {
            return Ok(None);
        }
        let proven = row.record(tx, anchor.seq)?.is_some_and(|r| r.hash == anchor.hash.to_string());
        if proven {
            tx.execute("UPDATE rooms SET anchor = NULL WHERE id = ?1", [row.id])?;
            row.anchor = None;
            return Ok(None);
        }
        row.keep_evidence(
            tx,
            "join_anchor_missing",
            Some(anchor.seq),
            None,
            Some(&json!(anchor)),
            now,
        )?;
        Ok(Some(Condition {
            code: "join_anchor_missing".to_owned(),
            message: "The head that the host advertised before the join is not in its history."
                .to_owned(),
            seq: Some(anchor.seq),
            at: now,
            sticky: true,
        }))
    }

    /// Brings one room up to date with its host.
    ///
    /// # Errors
    /// Transport and protocol codes; the code of a condition when the host's history does
    /// not hold. Verified state stays in every case.
    pub async fn sync_room(&self, room: i64) -> Result<RoomRow, ToolError> {
        self.sync_room_telling(room, None).await
    }

    /// As [`Core::sync_room`], telling a waiting client how far it is.
    ///
    /// # Errors
    /// As [`Core::sync_room`].
    pub async fn sync_room_telling(
        &self,
        room: i64,
        progress: Option<&Progress>,
    ) -> Result<RoomRow, ToolError> {
        let lock = self.room_lock(room);
        let _guard = lock.lock().await;
        let row = self.sync_locked(room, progress).await?;
        self.freshness.mark(room);
        Ok(row)
    }

    async fn sync_locked(
        &self,
        room: i64,
        progress: Option<&Progress>,
    ) -> Result<RoomRow, ToolError> {
        let row = self.store.read(|c| RoomRow::get(c, room))?;
        if let Some(c) = row.condition.as_ref().filter(|c| c.sticky) {
            return Err(c.to_error(&row.host, &row.room_id));
        }
        let host = self.http.host(&row.host)?;
        let mut pauses = PROOF_PAUSES_MS.iter();
        loop {
            // What was verified before we ask: other processes may commit more meanwhile.
            let known = self.store.read(|c| RoomRow::get(c, room))?.tip;
            let claimed = self.read_resource(&row, &host).await?;
            let mut lie = claimed.rolled_back(known);
            if lie.is_none() {
                lie = self.read_history(&row, &host, &claimed, progress).await?;
            }
            let lie = match lie {
                Some(lie) => lie,
                None => match self.finish_sync(room, &claimed)? {
                    Proof::Holds(row) => return Ok(*row),
                    Proof::Lacks(lie) => lie,
                },
            };
            // The head moves while we read, and a host's parts may lag behind each other:
            // what is missing is looked for again before it is a lie.
            match pauses.next() {
                Some(ms) => tokio::time::sleep(Duration::from_millis(*ms)).await,
                None => return Err(self.suspend(room, &lie, Some(&claimed.resource))?),
            }
        }
    }

    /// Reads the history after the verified tip until it holds what the host claimed, or ends.
    /// Returns what it lacks of the verified records.
    async fn read_history(
        &self,
        row: &RoomRow,
        host: &AllowedOrigin,
        claimed: &Claimed,
        progress: Option<&Progress>,
    ) -> Result<Option<Lie>, ToolError> {
        let mut tip = self.store.read(|c| RoomRow::get(c, row.id))?.tip;
        let mut first = true;
        loop {
            let after = match (first, tip) {
                (true, Some(tip)) => tip.seq - 1,
                (_, Some(tip)) => tip.seq,
                (_, None) => 0,
            };
            let page = self.read_page(row, host, after).await?;
            if page.is_empty() {
                let lost = tip.filter(|_| first).map(|tip| Lie {
                    code: "room_rolled_back",
                    message: "The host no longer serves the latest verified record.".to_owned(),
                    seq: tip.seq,
                });
                return Ok(lost);
            }
            let room_id = row.room_id.clone();
            let checked = crate::store::blocking(|| check_all(page, &room_id));
            self.obtain_packs(&checked).await;
            let done = self.commit(row.id, checked, Source::History)?;
            if let Some(f) = done.fault {
                return Err(f
                    .to_error(&row.host, &row.room_id)
                    .and("synced_seq", json!(done.row.tip.map(|t| t.seq))));
            }
            tip = done.row.tip;
            let seq = tip.map_or(0, |t| t.seq);
            if let Some(progress) = progress {
                progress.tell(seq, Some(claimed.seq.max(seq)), "records verified");
            }
            if seq >= claimed.seq {
                return Ok(None);
            }
            if done.applied == 0 && !(first && done.known > 0) {
                return Err(ToolError::new(
                    "history_stalled",
                    "a page of history brought no new record and no end",
                )
                .with(json!({ "host": row.host, "room_id": row.room_id, "after_seq": after })));
            }
            first = false;
        }
    }

    /// Whether reads of this room need a request JWT, as far as we know.
    fn needs_token(row: &RoomRow, state_visibility: Option<&str>) -> bool {
        let said = row.resource.as_ref().and_then(|r| r["visibility"].as_str());
        matches!(state_visibility.or(said), Some("restricted" | "private"))
    }

    /// A GET that shows a request JWT where the room asks for one.
    pub async fn read_room_path(
        &self,
        row: &RoomRow,
        host: &AllowedOrigin,
        tail: &[&str],
        query: &[(&str, String)],
    ) -> Result<Reply, ToolError> {
        let mut path = vec!["v1", "rooms", row.room_id.as_str()];
        path.extend_from_slice(tail);
        let visibility = self.store.read(|c| row.state(c))?.map(|s| s.visibility().to_owned());
        let auth = Self::needs_token(row, visibility.as_deref());
        let request = Request::get(&path).query(query).auth(auth);
        let reply = self.http.exchange(host, &request).await?;
        if !auth && matches!(reply.status, 401 | 403) {
            return self.http.exchange(host, &request.auth(true)).await;
        }
        Ok(reply)
    }

    async fn read_resource(
        &self,
        row: &RoomRow,
        host: &AllowedOrigin,
    ) -> Result<Claimed, ToolError> {
        let reply = self.read_room_path(row, host, &[], &[]).await?;
        if let Some(e) = reply.error() {
            return Err(e.and("host", row.host.as_str()).and("room_id", row.room_id.as_str()));
        }
        let claimed = Claimed::of(reply.body, &row.room_id)?;
        self.store_claim(row.id, &claimed)?;
        Ok(claimed)
    }

    /// Reads the room resource alone: before joining a closed room.
    ///
    /// # Errors
    /// As [`Core::sync_room`].
    pub async fn read_claim(&self, row: &RoomRow) -> Result<Claimed, ToolError> {
        let host = self.http.host(&row.host)?;
        self.read_resource(row, &host).await
    }

    async fn read_page(
        &self,
        row: &RoomRow,
        host: &AllowedOrigin,
        after: u64,
    ) -> Result<Vec<Value>, ToolError> {
        let query =
            [("after_seq", after.to_string()), ("limit", self.tuning.page_limit.to_string())];
        let reply = self.read_room_path(row, host, &["events"], &query).await?;
        if let Some(e) = reply.error() {
            return Err(e.and("host", row.host.as_str()).and("room_id", row.room_id.as_str()));
        }
        Ok(list_of(reply.body, "records")?.0)
    }
}

/// The items of a list answer, bare or wrapped, and its cursor.
///
/// # Errors
/// `bad_response` for any other shape.
pub fn list_of(body: Value, what: &str) -> Result<(Vec<Value>, Option<String>), ToolError> {
    let bad = || ToolError::new("bad_response", format!("the host's list of {what} is no list"));
    match body {
        Value::Array(items) => Ok((items, None)),
        Value::Object(mut members) => {
            let cursor = members.get("next_cursor").and_then(Value::as_str).map(str::to_owned);
            match members.remove("result") {
                Some(Value::Array(items)) => Ok((items, cursor)),
                _ => Err(bad()),
            }
        }
        _ => Err(bad()),
    }
}

enum CommitError {
    Store(ToolError),
    Fault(Condition),
}

impl From<ToolError> for CommitError {
    fn from(e: ToolError) -> Self {
        CommitError::Store(e)
    }
}

fn fault(code: &str, message: &str, seq: u64, sticky: bool) -> CommitError {
    CommitError::Fault(Condition {
        code: code.to_owned(),
        message: message.to_owned(),
        seq: Some(seq),
        at: 0,
        sticky,
    })
}

fn violation(v: &HostViolation) -> CommitError {
    if v.rejection.code == ErrorCode::PackUnavailable {
        return fault(
            v.rejection.code.as_str(),
            "The room uses a type pack that could not be resolved, so later records cannot be judged.",
            v.seq,
            false,
        );
    }
    fault(
        "host_violation",
        &format!("The host accepted a record against the room's rules ({}).", v.rejection),
        v.seq,
        true,
    )
}

fn forget_status(
    tx: &Transaction<'_>,
    row: &RoomRow,
    record: &VerifiedRecord,
) -> Result<(), ToolError> {
    let target = record.envelope().payload().get("member").and_then(Value::as_str);
    let agent = target.unwrap_or(record.actor().as_str());
    tx.execute(
        "DELETE FROM agent_status WHERE room = ?1 AND agent_id = ?2",
        params![row.id, agent],
    )?;
    Ok(())
}
