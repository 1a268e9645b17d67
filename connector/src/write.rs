//! The write path: base, policy, nonce, signature, outbox, answer, reconciliation.
//!
//! An outbox row is durable before a request leaves, and goes when the event's fate is
//! certain. A head-bound event whose answer was lost is signed again only on the same base:
//! the host's compare-and-swap lets at most one of the two in. A signal whose answer was
//! lost is sent again as the identical envelope, which a host takes at most once.

use std::sync::Arc;

use ap_protocol::event::{self, Kind};
use ap_protocol::registry::TypeStatus;
use ap_protocol::{ErrorCode, Hash, LIVE_WINDOW_MS, RoomState, Tip, VerifiedEnvelope};
use rusqlite::{Connection, params};
use serde_json::{Value, json};

use crate::core::Core;
use crate::drafts::{self, Draft};
use crate::error::ToolError;
use crate::freshness::Target;
use crate::http::{AllowedOrigin, Reply, Request};
use crate::session::Session;
use crate::signer::{EventDraft, observe_header};
use crate::store::{RoomRow, StoredRecord, parse_json};
use crate::sync::{Received, Source};
use crate::views;

/// Automatic re-signs of one `send_anyway` before the draft is held.
pub const MAX_RESIGNS: u32 = 3;
/// Most records that `changes` shows.
const MAX_CHANGES: usize = 200;

/// What to do when the room moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// Keep a draft and show what changed.
    Hold,
    /// Send nothing and show what changed.
    Reject,
    /// Sign the same content again on the latest verified head.
    SendAnyway,
}

impl Policy {
    /// From the `on_head_mismatch` argument.
    pub fn from_text(text: Option<&str>) -> Self {
        match text {
            Some("reject") => Policy::Reject,
            Some("send_anyway") => Policy::SendAnyway,
            _ => Policy::Hold,
        }
    }
}

/// One room event to write.
#[derive(Debug, Clone)]
pub struct Write {
    /// The room's row.
    pub room: i64,
    /// Event type.
    pub event_type: String,
    /// Payload object.
    pub payload: Value,
    /// Top-level mentions.
    pub mentions: Vec<String>,
    /// The caller's base, if it gave one.
    pub base: Option<Tip>,
    /// What to do when the room moved.
    pub policy: Policy,
    /// Sign on the latest verified head, whatever was presented.
    pub latest: bool,
    /// The tool input, as a held draft mirrors it.
    pub mirror: Value,
    /// `message` or `event`.
    pub draft_kind: &'static str,
    /// The draft this commits, if any.
    pub draft_id: Option<String>,
}

impl Write {
    /// A membership event: anchored where the agent looked last, and never held.
    pub fn membership(room: i64, event_type: &str, payload: Value) -> Self {
        Write {
            room,
            event_type: event_type.to_owned(),
            payload,
            mentions: Vec::new(),
            base: None,
            policy: Policy::Hold,
            latest: false,
            mirror: Value::Null,
            draft_kind: "event",
            draft_id: None,
        }
    }
}

/// How a write ended.
pub enum Written {
    /// Accepted and in the verified history.
    Sent(StoredRecord),
    /// The room moved: the draft waits.
    Held(Draft),
    /// The room moved: nothing was kept. Holds the base.
    Rejected(Tip),
}

/// How one request ended.
pub(crate) enum Attempt {
    Sent(Box<StoredRecord>),
    /// Refused for good.
    Refused(ToolError, Option<String>),
    /// The answer is missing or makes no sense.
    Lost(ToolError),
}

impl Core {
    /// The room, verified and free of conditions, ready for a write.
    ///
    /// # Errors
    /// The condition's code; the sync's code when nothing is verified yet.
    pub async fn ready_to_write(self: &Arc<Self>, room: i64) -> Result<RoomRow, ToolError> {
        let row = self.store.read(|c| RoomRow::get(c, room))?;
        match &row.condition {
            Some(c) if c.sticky => return Err(c.to_error(&row.host, &row.room_id)),
            None if row.tip.is_some() => return Ok(row),
            _ => {}
        }
        let row = self.sync_room(room).await?;
        if let Some(c) = &row.condition {
            return Err(c.to_error(&row.host, &row.room_id));
        }
        if row.tip.is_none() {
            return Err(not_verified());
        }
        Ok(row)
    }

    /// Writes one room event.
    ///
    /// # Errors
    /// The protocol's code when the host refuses, own codes otherwise. Nothing is signed
    /// when the room is suspended or the payload does not fit.
    pub async fn write_event(
        self: &Arc<Self>,
        session: &Session,
        w: Write,
    ) -> Result<Written, ToolError> {
        let _running = self.writes.token();
        let row = self.ready_to_write(w.room).await?;
        let host = self.http.host(&row.host)?;
        let _turn = self.write_turn(&host).await?;
        self.settle_nonces(Target::Room(w.room)).await?;
        self.settle_outbox(&row, &host).await?;

        let mut row = self.store.read(|c| RoomRow::get(c, w.room))?;
        let mut base = match w.base.or_else(|| session.presented(w.room)) {
            Some(base) if !(w.latest && w.base.is_none()) => base,
            _ => {
                row = self.sync_room(w.room).await?;
                head_of(&row)?
            }
        };
        let state = self.state_of(&row)?;
        let kind = check_payload(&state, &w)?;
        let bound = kind.advances_head();

        let mut own: Vec<Hash> = Vec::new();
        let (mut resigns, mut losses, mut nonce_retries) = (0, 0, 0);
        let mut refused_base = false;
        loop {
            if bound && (refused_base || Some(base) != row.head) {
                match w.policy {
                    Policy::Reject => return Ok(Written::Rejected(base)),
                    Policy::SendAnyway if resigns < MAX_RESIGNS => {
                        resigns += 1;
                        base = head_of(&row)?;
                        refused_base = false;
                    }
                    _ => return self.hold(&row, &w, base).map(Written::Held),
                }
            }
            let envelope = match self.repeatable(&row, &w, bound)? {
                // The same signal once more: the envelope whose fate is open says it all.
                Some(envelope) => envelope,
                None => self.sign_for_room(&row, &w, base, bound)?,
            };
            own.push(*envelope.hash());
            let mut attempt = self.post(&row, &host, &envelope).await?;
            if let (Attempt::Lost(cause), false) = (&attempt, bound) {
                // A host takes one envelope at most once, so it may be offered again.
                if let Some(found) = self.look_up(&row, &own, cause).await? {
                    return Ok(Written::Sent(found));
                }
                attempt = self.post(&row, &host, &envelope).await?;
            }
            match attempt {
                Attempt::Sent(record) => return Ok(Written::Sent(*record)),
                Attempt::Lost(cause) => {
                    if let Some(found) = self.look_up(&row, &own, &cause).await? {
                        return Ok(Written::Sent(found));
                    }
                    losses += 1;
                    if losses > 1 || !bound {
                        return Err(uncertain(&row, envelope.hash(), &cause));
                    }
                    row = self.store.read(|c| RoomRow::get(c, w.room))?;
                }
                Attempt::Refused(e, max_seen) => {
                    self.drop_outbox(envelope.hash())?;
                    if e.code == ErrorCode::NonceNotGreater.as_str() {
                        // It may have been refused because it was accepted before.
                        if losses > 0
                            && let Some(found) = self.look_up(&row, &own, &e).await?
                        {
                            return Ok(Written::Sent(found));
                        }
                        let Some(header) = max_seen.filter(|_| nonce_retries == 0) else {
                            return Err(e);
                        };
                        nonce_retries += 1;
                        self.adopt_max_seen(&header)?;
                    } else if bound && e.code == ErrorCode::RoomHeadMismatch.as_str() {
                        // What moved the head decides; without it the draft is safe anyway.
                        match self.sync_room(w.room).await {
                            Ok(synced) => row = synced,
                            Err(cause) => {
                                tracing::debug!(code = %cause.code, "no sync after a head mismatch")
                            }
                        }
                        if let Some(found) = self.find_event(&row, &own)? {
                            return Ok(Written::Sent(found));
                        }
                        refused_base = true;
                    } else {
                        return Err(e);
                    }
                }
            }
        }
    }

    pub(crate) fn state_of(&self, row: &RoomRow) -> Result<RoomState, ToolError> {
        self.store.read(|c| row.state(c))?.ok_or_else(not_verified)
    }

    /// Signs an event and puts it into the outbox, in one transaction with its nonce.
    fn sign_for_room(
        &self,
        row: &RoomRow,
        w: &Write,
        base: Tip,
        bound: bool,
    ) -> Result<VerifiedEnvelope, ToolError> {
        let now = self.clock.now_ms();
        self.rate.take(&format!("{} {}", row.host, row.room_id), now)?;
        self.store.write(|tx| {
            let draft = EventDraft {
                room_id: Some(&row.room_id),
                base: Some(base),
                event_type: &w.event_type,
                payload: w.payload.clone(),
                mentions: &w.mentions,
            };
            let envelope = self.signer.sign_discourse(tx, &draft, now)?;
            enqueue(tx, Some(row.id), &row.host, &envelope, bound, w.draft_id.as_deref(), now)?;
            Ok(envelope)
        })
    }

    /// An uncertain signal with exactly this content, to be offered again as it is.
    fn repeatable(
        &self,
        row: &RoomRow,
        w: &Write,
        bound: bool,
    ) -> Result<Option<VerifiedEnvelope>, ToolError> {
        if bound {
            return Ok(None);
        }
        for entry in self.outbox(Some(row.id), &row.host)? {
            let same = entry.envelope.event_type() == w.event_type
                && Value::Object(entry.envelope.payload().clone()) == w.payload
                && entry.envelope.mentions().eq(w.mentions.iter().map(String::as_str))
                && w.base.is_none_or(|b| entry.envelope.base() == Some((b.seq, b.hash)));
            let now = self.clock.now_ms();
            if same && now.abs_diff(entry.created_at) < LIVE_WINDOW_MS {
                return Ok(Some(entry.envelope));
            }
        }
        Ok(None)
    }

    /// Sends one envelope to its room and takes the answer in.
    pub(crate) async fn post(
        self: &Arc<Self>,
        row: &RoomRow,
        host: &AllowedOrigin,
        envelope: &VerifiedEnvelope,
    ) -> Result<Attempt, ToolError> {
        let path = ["v1", "rooms", row.room_id.as_str()];
        let sent = self.http.exchange(host, &Request::post(&path, envelope.value())).await;
        match self.classify(&row.host, &row.room_id, envelope.hash(), sent)? {
            Ok(body) => self.take_answer(row, envelope, body).await,
            Err(attempt) => Ok(attempt),
        }
    }

    /// Sorts an answer into success, certain refusal, and not knowing.
    pub(crate) fn classify(
        &self,
        host: &str,
        bucket: &str,
        event_id: &Hash,
        sent: Result<Reply, ToolError>,
    ) -> Result<Result<Value, Attempt>, ToolError> {
        let reply = match sent {
            Ok(reply) => reply,
            Err(e) if matches!(e.code.as_str(), "host_unreachable" | "tls_error") => {
                self.drop_outbox(event_id)?;
                return Err(e);
            }
            Err(e) => {
                self.mark_uncertain(event_id)?;
                return Ok(Err(Attempt::Lost(e)));
            }
        };
        let Some(e) = reply.error() else { return Ok(Ok(reply.body)) };
        let e = e.and("host", host);
        if reply.is_definite_refusal() {
            if reply.status == 429 || e.code == ErrorCode::RateLimited.as_str() {
                let wait = reply.retry_after_ms.or(e.data["retry_after_ms"].as_u64());
                if let Some(ms) = wait {
                    self.rate.block(&format!("{host} {bucket}"), self.clock.now_ms(), ms);
                }
            }
            return Ok(Err(Attempt::Refused(e, reply.max_seen_nonce)));
        }
        self.mark_uncertain(event_id)?;
        Ok(Err(Attempt::Lost(e)))
    }

    /// Verifies the record a host answered with and brings it into the history.
    async fn take_answer(
        self: &Arc<Self>,
        row: &RoomRow,
        envelope: &VerifiedEnvelope,
        body: Value,
    ) -> Result<Attempt, ToolError> {
        let value = if body["record"].is_object() { body["record"].clone() } else { body };
        let received = [Received::check(value, &row.room_id)];
        self.obtain_packs(&received).await;
        let [received] = received;
        let mismatch = |what: String| {
            ToolError::new("response_mismatch", format!("the host's answer to the write {what}"))
                .with(json!({ "host": row.host, "room_id": row.room_id, "event_id": envelope.hash() }))
        };
        let answered = match (received.error(), received.event_id()) {
            (Some(e), _) => Some(mismatch(format!("does not verify: {e}"))),
            (None, id) if id != Some(*envelope.hash()) => {
                Some(mismatch("carries another event".to_owned()))
            }
            _ => None,
        };
        if let Some(e) = answered {
            self.mark_uncertain(envelope.hash())?;
            return Ok(Attempt::Lost(e));
        }
        {
            let lock = self.room_lock(row.id);
            let _guard = lock.lock().await;
            let tip = self.store.read(|c| RoomRow::get(c, row.id))?.tip.map_or(0, |t| t.seq);
            if received.seq() <= tip + 1 {
                let done = self.commit(row.id, vec![received], Source::Live)?;
                if let Some(f) = done.fault.filter(|f| f.sticky) {
                    return Err(f.to_error(&row.host, &row.room_id));
                }
            }
        }
        if let Some(found) = self.find_event(row, &[*envelope.hash()])? {
            return Ok(Attempt::Sent(Box::new(found)));
        }
        // Not the next seq: fetch what lies between.
        self.mark_uncertain(envelope.hash())?;
        match self.sync_room(row.id).await {
            Ok(_) => match self.find_event(row, &[*envelope.hash()])? {
                Some(found) => Ok(Attempt::Sent(Box::new(found))),
                None => Ok(Attempt::Lost(mismatch("is not in the room's history".to_owned()))),
            },
            Err(e) => Ok(Attempt::Lost(e)),
        }
    }

    /// Reads the history after a lost answer and looks for the own events.
    async fn look_up(
        self: &Arc<Self>,
        row: &RoomRow,
        own: &[Hash],
        cause: &ToolError,
    ) -> Result<Option<StoredRecord>, ToolError> {
        if let Err(e) = self.sync_room(row.id).await {
            let last = own.last().expect("called after something was sent");
            return Err(uncertain(row, last, cause).and("sync_error", e.code));
        }
        self.find_event(row, own)
    }

    pub(crate) fn find_event(
        &self,
        row: &RoomRow,
        own: &[Hash],
    ) -> Result<Option<StoredRecord>, ToolError> {
        self.store.read(|c| {
            for id in own {
                if let Some(found) = row.record_of_event(c, &id.to_string())? {
                    return Ok(Some(found));
                }
            }
            Ok(None)
        })
    }

    pub(crate) fn adopt_max_seen(&self, header: &str) -> Result<(), ToolError> {
        let now = self.clock.now_ms();
        self.store.write(|tx| observe_header(tx, self.me(), header, now))
    }

    pub(crate) fn drop_outbox(&self, event_id: &Hash) -> Result<(), ToolError> {
        self.store.write(|tx| {
            tx.execute("DELETE FROM outbox WHERE event_id = ?1", [event_id.to_string()])?;
            Ok(())
        })
    }

    fn mark_uncertain(&self, event_id: &Hash) -> Result<(), ToolError> {
        self.store.write(|tx| {
            tx.execute(
                "UPDATE outbox SET state = 'uncertain' WHERE event_id = ?1",
                [event_id.to_string()],
            )?;
            Ok(())
        })
    }

    /// Looks at writes whose fate is open before anything else is signed for the room. The
    /// caller holds the host's write turn, so none of them is under way.
    async fn settle_outbox(
        self: &Arc<Self>,
        row: &RoomRow,
        host: &AllowedOrigin,
    ) -> Result<(), ToolError> {
        if self.outbox(Some(row.id), &row.host)?.is_empty() {
            return Ok(());
        }
        let _ = host;
        // Committing a record takes its outbox row away.
        let row = self.sync_room(row.id).await?;
        let now = self.clock.now_ms();
        for entry in self.outbox(Some(row.id), &row.host)? {
            let moved_on =
                entry.advances_head && entry.envelope.base() != row.head.map(|h| (h.seq, h.hash));
            let too_old = now.saturating_sub(entry.created_at) > LIVE_WINDOW_MS + 60_000;
            if moved_on || too_old {
                self.drop_outbox(entry.envelope.hash())?;
            }
        }
        Ok(())
    }

    pub(crate) fn outbox(
        &self,
        room: Option<i64>,
        host: &str,
    ) -> Result<Vec<OutboxEntry>, ToolError> {
        self.store.read(|c| {
            let mut statement = c.prepare_cached(
                "SELECT envelope, created_at, advances_head FROM outbox
                 WHERE room IS ?1 AND host = ?2 ORDER BY created_at",
            )?;
            let rows: Vec<(String, i64, bool)> = statement
                .query_map(params![room, host], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?)))?
                .collect::<Result<_, _>>()?;
            rows.into_iter()
                .map(|(text, created_at, advances_head)| {
                    let envelope = VerifiedEnvelope::verify(&parse_json(&text)?).map_err(|e| {
                        ToolError::new("store_error", format!("a damaged outbox row: {e}"))
                    })?;
                    Ok(OutboxEntry {
                        envelope,
                        created_at: u64::try_from(created_at).unwrap_or(0),
                        advances_head,
                    })
                })
                .collect()
        })
    }

    /// Keeps a write as a held draft.
    fn hold(&self, row: &RoomRow, w: &Write, base: Tip) -> Result<Draft, ToolError> {
        let draft = drafts::hold(self, row, w, base)?;
        self.announce([crate::core::Change::Drafts]);
        Ok(draft)
    }
}

/// Timeline items since `base_seq`.
///
/// # Errors
/// `store_error`.
pub fn changes_since(
    conn: &Connection,
    row: &RoomRow,
    base_seq: u64,
) -> Result<Vec<Value>, ToolError> {
    let records = row.records_after(conn, base_seq, MAX_CHANGES)?;
    Ok(records.iter().map(|r| views::timeline_item(row, r)).collect())
}

/// One write whose fate is open.
pub(crate) struct OutboxEntry {
    pub envelope: VerifiedEnvelope,
    pub created_at: u64,
    advances_head: bool,
}

/// Puts a signed envelope into the outbox, in the transaction that reserved its nonce.
pub(crate) fn enqueue(
    tx: &rusqlite::Transaction<'_>,
    room: Option<i64>,
    host: &str,
    envelope: &VerifiedEnvelope,
    advances_head: bool,
    draft_id: Option<&str>,
    now_ms: u64,
) -> Result<(), ToolError> {
    tx.execute(
        "INSERT INTO outbox(event_id, room, host, type, base_seq, advances_head, envelope, created_at, draft_id, state)
         VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, 'pending')",
        params![
            envelope.hash().to_string(),
            room,
            host,
            envelope.event_type(),
            envelope.base().map(|(seq, _)| seq as i64),
            advances_head,
            envelope.value().to_string(),
            now_ms as i64,
            draft_id,
        ],
    )?;
    Ok(())
}

pub(crate) fn head_of(row: &RoomRow) -> Result<Tip, ToolError> {
    row.head.ok_or_else(not_verified)
}

/// Nothing can be shown, or signed, of a room without verified history.
pub(crate) fn not_verified() -> ToolError {
    ToolError::new(
        "room_not_verified",
        "no history of this room is verified yet; call agent_protocols_room_open",
    )
}

fn uncertain(row: &RoomRow, event_id: &Hash, cause: &ToolError) -> ToolError {
    ToolError::new(
        "write_uncertain",
        format!(
            "the write went out, but whether the host accepted it is not known yet ({}). \
             Do not assume it failed: read the room again with refresh before you decide",
            cause.code
        ),
    )
    .with(json!({
        "host": row.host, "room_id": row.room_id, "event_id": event_id, "cause": cause.code,
    }))
}

/// Judges a write by the room's materialized registry before anything is signed.
fn check_payload(state: &RoomState, w: &Write) -> Result<Kind, ToolError> {
    let payload = w.payload.as_object().expect("the input schema wants an object");
    if let Some(kind) = event::built_in_kind(&w.event_type) {
        event::check_payload(&w.event_type, payload).map_err(|e| {
            ToolError::new(
                "invalid_input",
                format!("the payload does not have the shape of {}: {e}", w.event_type),
            )
            .with(json!({ "path": format!("/payload/{}", e.path.replace('.', "/")) }))
        })?;
        return Ok(kind);
    }
    let Some(def) = state.registry.get(&w.event_type) else {
        let known: Vec<&str> = state.registry.iter().map(|(name, _)| name).collect();
        return Err(ToolError::new(
            ErrorCode::TypeNotDefined.as_str(),
            format!("{:?} is no type of this room; nothing was signed", w.event_type),
        )
        .with(json!({ "type": w.event_type, "types": known })));
    };
    if def.status == TypeStatus::Disabled {
        return Err(ToolError::new(
            ErrorCode::TypeDisabled.as_str(),
            format!("{:?} is switched off in this room; nothing was signed", w.event_type),
        )
        .with(json!({ "type": w.event_type })));
    }
    def.validate(&w.payload).map_err(|v| {
        ToolError::new(
            ErrorCode::PayloadSchemaViolation.as_str(),
            format!(
                "the payload does not fit the type's schema; nothing was signed. {}",
                v.message
            ),
        )
        .with(json!({ "path": format!("/payload{}", v.path), "message": v.message }))
    })?;
    Ok(def.kind)
}
