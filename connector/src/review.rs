//! Join requests of others, and looking after requests that are open.
//!
//! What a reviewer signs is the immutable request object that the agent was shown, never what
//! the host tells at the moment of signing.

use std::sync::Arc;

use rusqlite::{OptionalExtension, params};
use serde_json::{Value, json};

use crate::core::{Change, Core};
use crate::error::ToolError;
use crate::http::Request;
use crate::inbox;
use crate::join::{JoinRequest, sent};
use crate::session::Session;
use crate::store::{RoomRow, StoredRecord, parse_json};
use crate::sync::list_of;
use crate::write::Write;

impl Core {
    /// One page of a room's join requests, remembered as shown.
    ///
    /// # Errors
    /// The protocol's code.
    pub async fn list_join_requests(
        &self,
        row: &RoomRow,
        query: &[(&str, String)],
    ) -> Result<(Vec<Value>, Option<String>), ToolError> {
        let host = self.http.host(&row.host)?;
        let path = ["v1", "rooms", row.room_id.as_str(), "join-requests"];
        let body = self.http.call(&host, &Request::get(&path).query(query).auth(true)).await?;
        let (items, cursor) = list_of(body, "join requests")?;
        let mut shown = Vec::new();
        for item in items {
            match JoinRequest::of(item, &row.room_id) {
                Ok(r) => {
                    let own = r.applicant() == self.me().as_str();
                    if !own && r.status == "pending" {
                        let (id, applicant, role) =
                            (r.id.clone(), r.applicant().to_owned(), r.role.clone());
                        self.note_join_request(row, &id, &applicant, &role, Some(r.expires_at))?;
                    }
                    self.keep_request(row, &r, own)?;
                    shown.push(r.body);
                }
                Err(e) => tracing::debug!(code = %e.code, "a listed join request is malformed"),
            }
        }
        Ok((shown, cursor))
    }

    /// Reviews a request: signs the object that the agent was shown.
    ///
    /// # Errors
    /// `join_request_changed` when the host now tells another one.
    pub async fn review(
        self: &Arc<Self>,
        session: &Session,
        row: &RoomRow,
        request_id: &str,
        decision: &str,
        role: Option<&str>,
        reason: Option<&str>,
    ) -> Result<StoredRecord, ToolError> {
        let host = self.http.host(&row.host)?;
        let seen: Option<Value> = self.store.read(|c| {
            let text: Option<String> = c
                .query_row(
                    "SELECT body FROM join_requests WHERE room = ?1 AND request_id = ?2",
                    params![row.id, request_id],
                    |r| r.get(0),
                )
                .optional()?;
            text.map(|t| parse_json(&t)).transpose()
        })?;
        let path = ["v1", "rooms", row.room_id.as_str(), "join-requests", request_id];
        let now_told = JoinRequest::of(
            self.http.call(&host, &Request::get(&path).auth(true)).await?,
            &row.room_id,
        )?;
        if let Some(seen) = seen
            && seen["request"] != now_told.body["request"]
        {
            return Err(ToolError::new(
                "join_request_changed",
                "the host now tells another request than the one that was shown; list the requests again. Nothing was signed",
            )
            .with(json!({ "shown": seen["request"], "now": now_told.body["request"] })));
        }
        self.keep_request(row, &now_told, false)?;
        let mut payload = json!({ "request": now_told.body["request"], "decision": decision });
        if decision == "approve" {
            payload["role"] = json!(role.unwrap_or(&now_told.role));
        } else if role.is_some() {
            return Err(ToolError::input("/role", "a rejection assigns no role"));
        }
        if let Some(reason) = reason {
            payload["reason"] = json!(reason);
        }
        let write = Write::membership(row.id, "room.join.review", payload);
        let record = sent(self.write_event(session, write).await?)?;
        self.store.write(|tx| {
            tx.execute(
                "UPDATE join_requests SET status = ?3 WHERE room = ?1 AND request_id = ?2",
                params![
                    row.id,
                    request_id,
                    if decision == "approve" { "approved" } else { "rejected" }
                ],
            )?;
            inbox::settle_join_request(tx, row, request_id)
        })?;
        self.announce([Change::Inbox]);
        Ok(record)
    }

    /// Looks after join requests where no stream tells: own ones that are pending, and
    /// those that wait for this agent's review. At most once in `join_poll_ms` a room.
    pub async fn poll_join_requests(self: &Arc<Self>, only: Option<i64>) {
        let now = self.clock.now_ms();
        let due_before = now.saturating_sub(self.tuning.join_poll_ms) as i64;
        let own: Result<Vec<(i64, String)>, ToolError> = self.store.read(|c| {
            let mut statement = c.prepare_cached(
                "SELECT room, request_id FROM join_requests
                 WHERE own = 1 AND status = 'pending' AND polled_at <= ?1",
            )?;
            let rows = statement
                .query_map([due_before], |r| Ok((r.get(0)?, r.get(1)?)))?
                .collect::<Result<_, _>>()?;
            Ok(rows)
        });
        for (room, id) in own.unwrap_or_default() {
            if only.is_some_and(|o| o != room) {
                continue;
            }
            let Ok(row) = self.store.read(|c| RoomRow::get(c, room)) else { continue };
            let Ok(host) = self.http.host(&row.host) else { continue };
            if let Err(e) = self.fetch_join_request(&row, &host, &id).await {
                tracing::debug!(code = %e.code, "looking at a join request failed");
                // Not again before its time, also when it fails.
                let touched = self.store.write(|tx| {
                    tx.execute(
                        "UPDATE join_requests SET polled_at = ?3 WHERE room = ?1 AND request_id = ?2",
                        params![room, id, now as i64],
                    )?;
                    Ok::<_, ToolError>(())
                });
                if let Err(e) = touched {
                    tracing::debug!(code = %e.code, "the store is not available");
                }
            }
        }
        for row in self.rooms_to_review(only) {
            if !self.join_poll_due(row.id, now) {
                continue;
            }
            let query = [("status", "pending".to_owned())];
            if let Err(e) = self.list_join_requests(&row, &query).await {
                tracing::debug!(code = %e.code, "listing join requests failed");
            }
        }
    }

    fn rooms_to_review(&self, only: Option<i64>) -> Vec<RoomRow> {
        let me = self.me().clone();
        let now = self.clock.now_ms();
        let found: Result<Vec<RoomRow>, ToolError> = self.store.read(|c| {
            let mut rooms = Vec::new();
            for row in RoomRow::all(c)? {
                if only.is_some_and(|o| o != row.id)
                    || row.condition.as_ref().is_some_and(|c| c.sticky)
                {
                    continue;
                }
                let Some(state) = row.state(c)? else { continue };
                let open = matches!(state.status_at(now).as_str(), "scheduled" | "active");
                if open && state.visibility() != "public" && state.moderates(&me) {
                    rooms.push(row);
                }
            }
            Ok(rooms)
        });
        found.unwrap_or_default()
    }
}
