//! Membership: joining with or without approval.
//!
//! A join request travels over HTTP under a request JWT and is no event. Nothing is signed for a
//! role that was not asked for, or not approved.

use std::sync::Arc;

use ap_protocol::event::check_join_request;
use ap_protocol::{ErrorCode, Tip};
use rusqlite::{OptionalExtension, params};
use serde_json::{Map, Value, json};

use crate::core::{Change, Core};
use crate::error::ToolError;
use crate::freshness::Target;
use crate::http::{AllowedOrigin, Request};
use crate::inbox;
use crate::session::Session;
use crate::signer::EventDraft;
use crate::store::{RoomRow, StoredRecord, parse_json};
use crate::sync::Received;
use crate::write::{Attempt, Write, Written, enqueue};

/// What the agent asks for.
pub struct JoinArgs {
    /// Wanted role.
    pub role: String,
    /// What it brings.
    pub perspective: Option<String>,
    /// For the reviewers.
    pub reason: Option<String>,
    /// A request made earlier.
    pub request_id: Option<String>,
    /// For the request.
    pub extra: Option<Value>,
}

/// How a join ended.
pub enum Joined {
    /// An active member now, or already.
    Member {
        /// The join's record; none for a creator, who never joined.
        record: Option<StoredRecord>,
        /// The request that was consumed.
        request: Option<Value>,
    },
    /// Somebody has to approve.
    Pending(Value),
}

/// A join request as the host tells it.
#[derive(Debug, Clone)]
pub(crate) struct JoinRequest {
    pub(crate) id: String,
    pub(crate) status: String,
    pub(crate) role: String,
    approved_role: Option<String>,
    pub(crate) expires_at: u64,
    pub(crate) body: Value,
}

impl JoinRequest {
    pub(crate) fn of(body: Value, room_id: &str) -> Result<Self, ToolError> {
        let bad = |what: String| {
            ToolError::new("bad_response", format!("the host's join request {what}"))
        };
        let request =
            body["request"].as_object().ok_or_else(|| bad("has no request".to_owned()))?;
        check_join_request(request).map_err(|e| bad(format!("is malformed: {e}")))?;
        if request["room_id"] != room_id {
            return Err(bad("is of another room".to_owned()));
        }
        let id = request["id"].as_str().unwrap_or_default().to_owned();
        check_segment("request_id", &id).map_err(|_| bad("has an unusable id".to_owned()))?;
        let status = body["status"].as_str().unwrap_or_default();
        if !matches!(status, "pending" | "approved" | "rejected" | "expired") {
            return Err(bad("has an unknown status".to_owned()));
        }
        Ok(JoinRequest {
            id,
            status: status.to_owned(),
            role: request["role"].as_str().unwrap_or_default().to_owned(),
            approved_role: body["approved_role"].as_str().map(str::to_owned),
            expires_at: request["expires_at"].as_u64().unwrap_or(0),
            body,
        })
    }

    pub(crate) fn applicant(&self) -> &str {
        self.body["request"]["applicant"].as_str().unwrap_or_default()
    }
}

/// A path part from outside: one segment, nothing that a server could read otherwise.
///
/// # Errors
/// `invalid_input` that names the member.
pub fn check_segment(name: &str, text: &str) -> Result<(), ToolError> {
    let ok = !text.is_empty()
        && text.len() <= 128
        && !matches!(text, "." | "..")
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b':' | b'~'));
    if ok {
        Ok(())
    } else {
        Err(ToolError::input(&format!("/{name}"), "1 to 128 letters, digits and _ - . : ~"))
    }
}

impl Core {
    /// Joins a room, or asks for approval.
    ///
    /// # Errors
    /// The protocol's code; `join_request_role_mismatch` when another role was approved.
    pub async fn join(
        self: &Arc<Self>,
        session: &Session,
        room: i64,
        args: &JoinArgs,
    ) -> Result<Joined, ToolError> {
        let _running = self.writes.token();
        let me = self.me().clone();
        let synced = self.sync_room(room).await;
        let row = self.store.read(|c| RoomRow::get(c, room))?;
        let readable = match synced {
            Ok(_) => true,
            Err(e) if is_closed(&e) => false,
            Err(e) => return Err(e),
        };
        let state = self.store.read(|c| row.state(c))?;
        if readable && let Some(member) = state.as_ref().and_then(|s| s.active_member(&me)) {
            let role = member.role.map_or("", |r| r.as_str());
            if role != args.role {
                return Err(ToolError::new(
                    ErrorCode::RoleNotAllowed.as_str(),
                    format!("you are a member of this room already, as {role}; a moderator changes roles"),
                )
                .with(json!({ "role": role })));
            }
            let record = match member.joined_seq {
                Some(seq) => self.store.read(|c| row.record(c, seq))?,
                None => None,
            };
            return Ok(Joined::Member { record, request: None });
        }
        let visibility = match &state {
            Some(state) if readable => state.visibility().to_owned(),
            _ => row
                .resource
                .as_ref()
                .and_then(|r| r["visibility"].as_str())
                .unwrap_or("private")
                .to_owned(),
        };
        if readable && visibility == "public" && args.request_id.is_none() {
            let mut payload = json!({ "role": args.role });
            if let Some(perspective) = &args.perspective {
                payload["perspective"] = json!(perspective);
            }
            match self.write_join(session, room, payload).await {
                Ok(record) => return self.joined(room, Some(record), None),
                Err(e) if e.code == ErrorCode::ApprovalRequired.as_str() => {}
                Err(e) => return Err(e),
            }
        }
        self.join_by_request(session, &row, args, readable).await
    }

    async fn join_by_request(
        self: &Arc<Self>,
        session: &Session,
        row: &RoomRow,
        args: &JoinArgs,
        readable: bool,
    ) -> Result<Joined, ToolError> {
        let host = self.http.host(&row.host)?;
        let now = self.clock.now_ms();
        let mut usable = None;
        match &args.request_id {
            Some(id) => usable = Some(self.fetch_join_request(row, &host, id).await?),
            None => {
                for id in self.own_request_ids(row)? {
                    match self.fetch_join_request(row, &host, &id).await {
                        Ok(r)
                            if r.status == "approved"
                                || (r.status == "pending" && now < r.expires_at) =>
                        {
                            usable = Some(r);
                            break;
                        }
                        Ok(_) => {}
                        Err(e) if e.code == ErrorCode::JoinRequestNotFound.as_str() => {
                            self.forget_request(row, &id)?;
                        }
                        Err(e) => return Err(e),
                    }
                }
            }
        }
        let request = match usable {
            Some(r) => r,
            None => self.ask_to_join(row, &host, args).await?,
        };
        match request.status.as_str() {
            "pending" => return Ok(Joined::Pending(request.body)),
            "approved" => {}
            status => {
                let code = if status == "expired" {
                    "join_request_expired"
                } else {
                    "join_request_rejected"
                };
                return Err(ToolError::new(
                    code,
                    format!(
                        "the join request is {status}; call again without request_id to ask anew"
                    ),
                )
                .with(json!({ "join_request": request.body })));
            }
        }
        let approved = request.approved_role.as_deref().unwrap_or(&request.role);
        if approved != args.role {
            return Err(ToolError::new(
                ErrorCode::JoinRequestRoleMismatch.as_str(),
                format!("the approved role is {approved}; call again with role {approved:?}. Nothing was signed"),
            )
            .with(json!({ "approved_role": approved, "role": args.role, "join_request": request.body })));
        }
        let payload = json!({ "request_id": request.id, "role": approved });
        let record = if readable {
            self.write_join(session, row.id, payload).await?
        } else {
            self.write_closed_join(row, &host, payload).await?
        };
        self.joined(row.id, Some(record), Some(request.body))
    }

    fn joined(
        self: &Arc<Self>,
        room: i64,
        record: Option<StoredRecord>,
        request: Option<Value>,
    ) -> Result<Joined, ToolError> {
        self.tend_stream(room)?;
        Ok(Joined::Member { record, request })
    }

    async fn write_join(
        self: &Arc<Self>,
        session: &Session,
        room: i64,
        payload: Value,
    ) -> Result<StoredRecord, ToolError> {
        sent(self.write_event(session, Write::membership(room, "room.join", payload)).await?)
    }

    /// Joins a room whose history is closed to us until we are in: the advertised head is
    /// the anchor, and the history must contain it as soon as we can read it.
    async fn write_closed_join(
        self: &Arc<Self>,
        row: &RoomRow,
        host: &AllowedOrigin,
        payload: Value,
    ) -> Result<StoredRecord, ToolError> {
        if let Some(c) = row.condition.as_ref().filter(|c| c.sticky) {
            return Err(c.to_error(&row.host, &row.room_id));
        }
        let claim = self.read_claim(row).await?;
        // A former member may know better than what the host advertises now.
        if let Some(lie) = claim.rolled_back(row.tip) {
            return Err(self.suspend(row.id, &lie, Some(&claim.resource))?);
        }
        self.check_contradiction(row.id, &claim)?;
        let anchor: Tip = claim.head.ok_or_else(|| {
            ToolError::new(
                "bad_response",
                "the host advertises no head of this room; nothing was signed",
            )
        })?;
        let _turn = self.write_turn(host).await?;
        self.settle_nonces(Target::Unread).await?;
        let now = self.clock.now_ms();
        self.rate.take(&format!("{} {}", row.host, row.room_id), now)?;
        let (mut envelope, mut nonce_retries) = (self.sign_closed_join(row, anchor, &payload)?, 0);
        let path = ["v1", "rooms", row.room_id.as_str()];
        let mut offered_again = false;
        loop {
            let answer = self.http.exchange(host, &Request::post(&path, envelope.value())).await;
            let cause = match self.classify(&row.host, &row.room_id, envelope.hash(), answer)? {
                Ok(body) => {
                    let received = Received::check(body, &row.room_id);
                    if received.event_id() == Some(*envelope.hash()) {
                        ToolError::new(
                            "bad_response",
                            "the history does not show the accepted join",
                        )
                    } else {
                        ToolError::new(
                            "response_mismatch",
                            "the host's answer to the join is another record",
                        )
                    }
                }
                Err(Attempt::Refused(e, max_seen)) => {
                    if let Some(found) =
                        self.after_closed_join(row, envelope.hash()).await.ok().flatten()
                    {
                        return Ok(found);
                    }
                    self.drop_outbox(envelope.hash())?;
                    match max_seen {
                        Some(header)
                            if e.code == ErrorCode::NonceNotGreater.as_str()
                                && nonce_retries == 0 =>
                        {
                            nonce_retries += 1;
                            self.adopt_max_seen(&header)?;
                            envelope = self.sign_closed_join(row, anchor, &payload)?;
                            continue;
                        }
                        _ => {
                            self.set_anchor(row, None)?;
                            return Err(e);
                        }
                    }
                }
                Err(Attempt::Lost(e)) => e,
                Err(Attempt::Sent(_)) => unreachable!("classify never says so"),
            };
            // A member now, or not: the history tells.
            match self.after_closed_join(row, envelope.hash()).await {
                Ok(Some(found)) => return Ok(found),
                Err(e) if !is_closed(&e) => return Err(e),
                _ if offered_again => {
                    return Err(ToolError::new(
                        "write_uncertain",
                        format!("whether the host accepted the join is not known yet ({}); call room_join again", cause.code),
                    )
                    .with(json!({ "event_id": envelope.hash(), "cause": cause.code })));
                }
                _ => offered_again = true,
            }
        }
    }

    fn sign_closed_join(
        &self,
        row: &RoomRow,
        anchor: Tip,
        payload: &Value,
    ) -> Result<ap_protocol::VerifiedEnvelope, ToolError> {
        let now = self.clock.now_ms();
        self.store.write(|tx| {
            let draft = EventDraft {
                room_id: Some(&row.room_id),
                base: Some(anchor),
                event_type: "room.join",
                payload: payload.clone(),
                mentions: &[],
            };
            let envelope = self.signer.sign_discourse(tx, &draft, now)?;
            enqueue(tx, Some(row.id), &row.host, &envelope, false, None, now)?;
            let anchor = serde_json::to_string(&anchor).map_err(ToolError::internal)?;
            tx.execute("UPDATE rooms SET anchor = ?2 WHERE id = ?1", params![row.id, anchor])?;
            Ok(envelope)
        })
    }

    fn set_anchor(&self, row: &RoomRow, anchor: Option<Tip>) -> Result<(), ToolError> {
        let text =
            anchor.map(|a| serde_json::to_string(&a)).transpose().map_err(ToolError::internal)?;
        self.store.write(|tx| {
            tx.execute("UPDATE rooms SET anchor = ?2 WHERE id = ?1", params![row.id, text])?;
            Ok(())
        })
    }

    async fn after_closed_join(
        &self,
        row: &RoomRow,
        event_id: &ap_protocol::Hash,
    ) -> Result<Option<StoredRecord>, ToolError> {
        self.sync_room(row.id).await?;
        self.find_event(row, &[*event_id])
    }

    async fn ask_to_join(
        &self,
        row: &RoomRow,
        host: &AllowedOrigin,
        args: &JoinArgs,
    ) -> Result<JoinRequest, ToolError> {
        let mut body = Map::new();
        body.insert("role".to_owned(), json!(args.role));
        for (name, value) in [("perspective", &args.perspective), ("reason", &args.reason)] {
            if let Some(text) = value {
                body.insert(name.to_owned(), json!(text));
            }
        }
        if let Some(extra) = &args.extra {
            body.insert("extra".to_owned(), extra.clone());
        }
        let body = Value::Object(body);
        let path = ["v1", "rooms", row.room_id.as_str(), "join-requests"];
        self.rate.take(&format!("{} {}", row.host, row.room_id), self.clock.now_ms())?;
        let answer = self.http.call(host, &Request::post(&path, &body).auth(true)).await?;
        let request = JoinRequest::of(answer, &row.room_id)?;
        if request.applicant() != self.me().as_str() {
            return Err(ToolError::new(
                "bad_response",
                "the host made a join request for somebody else",
            ));
        }
        self.keep_request(row, &request, true)?;
        Ok(request)
    }

    pub(crate) async fn fetch_join_request(
        &self,
        row: &RoomRow,
        host: &AllowedOrigin,
        id: &str,
    ) -> Result<JoinRequest, ToolError> {
        let path = ["v1", "rooms", row.room_id.as_str(), "join-requests", id];
        let answer = self.http.call(host, &Request::get(&path).auth(true)).await?;
        let request = JoinRequest::of(answer, &row.room_id)?;
        if request.id != id {
            return Err(ToolError::new(
                "bad_response",
                "the host answered with another join request",
            ));
        }
        let own = request.applicant() == self.me().as_str();
        self.keep_request(row, &request, own)?;
        Ok(request)
    }

    pub(crate) fn keep_request(
        &self,
        row: &RoomRow,
        r: &JoinRequest,
        own: bool,
    ) -> Result<(), ToolError> {
        let now = self.clock.now_ms();
        let changed = self.store.write(|tx| {
            let old: Option<String> = tx
                .query_row(
                    "SELECT status FROM join_requests WHERE room = ?1 AND request_id = ?2",
                    params![row.id, r.id],
                    |row| row.get(0),
                )
                .optional()?;
            tx.execute(
                "INSERT INTO join_requests(room, request_id, own, status, body, polled_at)
                 VALUES(?1, ?2, ?3, ?4, ?5, ?6)
                 ON CONFLICT(room, request_id) DO UPDATE SET status = excluded.status,
                   body = excluded.body, polled_at = excluded.polled_at",
                params![row.id, r.id, own, r.status, r.body.to_string(), now as i64],
            )?;
            let mut changed = false;
            if own && r.status == "approved" && old.as_deref().is_some_and(|s| s != "approved") {
                let role = r.approved_role.as_deref().unwrap_or(&r.role);
                let summary = format!("your request to join was approved as {role}");
                changed |= inbox::add(
                    tx,
                    row,
                    &inbox::NewItem {
                        kind: "room.join.approved",
                        seq: None,
                        about: &r.id,
                        is_event: false,
                        actor: r.body["reviewed_by"].as_str(),
                        created_at: now,
                        deadline: Some(r.expires_at),
                        reason: "join_request_approved",
                        summary: &summary,
                    },
                )?;
            }
            if !own && r.status != "pending" {
                inbox::settle_join_request(tx, row, &r.id)?;
                changed = true;
            }
            Ok::<_, ToolError>(changed)
        })?;
        if changed {
            self.announce([Change::Inbox]);
        }
        Ok(())
    }

    fn forget_request(&self, row: &RoomRow, id: &str) -> Result<(), ToolError> {
        self.store.write(|tx| {
            tx.execute(
                "DELETE FROM join_requests WHERE room = ?1 AND request_id = ?2",
                params![row.id, id],
            )?;
            Ok(())
        })
    }

    /// Own requests that may still be usable, newest first.
    fn own_request_ids(&self, row: &RoomRow) -> Result<Vec<String>, ToolError> {
        self.store.read(|c| {
            let mut statement = c.prepare_cached(
                "SELECT request_id FROM join_requests WHERE room = ?1 AND own = 1
                 AND status IN ('pending', 'approved') ORDER BY polled_at DESC",
            )?;
            let ids = statement.query_map([row.id], |r| r.get(0))?.collect::<Result<_, _>>()?;
            Ok(ids)
        })
    }

    /// Whether an own join request of the room is open, and its stored body.
    pub fn pending_request(
        &self,
        conn: &rusqlite::Connection,
        row: &RoomRow,
    ) -> Result<Option<Value>, ToolError> {
        let body: Option<String> = conn
            .prepare_cached("SELECT body FROM join_requests WHERE room = ?1 AND own = 1 AND status IN ('pending','approved') LIMIT 1")?
            .query_row([row.id], |r| r.get(0))
            .optional()?;
        body.map(|b| parse_json(&b)).transpose()
    }
}

/// Whether an error says that the room is closed to us, not that something is broken.
pub fn is_closed(e: &ToolError) -> bool {
    matches!(
        e.code.as_str(),
        "membership_required" | "permission_denied" | "approval_required" | "member_banned"
    ) || matches!(e.data["status"].as_u64(), Some(401 | 403))
}

/// The record of a write that is never held.
pub fn sent(written: Written) -> Result<StoredRecord, ToolError> {
    match written {
        Written::Sent(record) => Ok(record),
        Written::Held(_) | Written::Rejected(_) => {
            Err(ToolError::internal("a signal-kind write was held, which cannot happen"))
        }
    }
}
