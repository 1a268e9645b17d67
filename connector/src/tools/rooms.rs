//! Identity, hosts, rooms, members: what an agent looks around with.

use std::sync::Arc;

use ap_protocol::room::Role;
use ap_protocol::{AgentId, RoomState, encoding};
use serde_json::{Map, Value, json};

use super::{Call, cursor, read_cursor};
use crate::args::Args;
use crate::core::Core;
use crate::error::ToolError;
use crate::http::Request;
use crate::join::check_segment;
use crate::progress::Progress;
use crate::store::RoomRow;
use crate::sync::list_of;
use crate::views::{self, RoomViewOptions};

impl Core {
    /// Opens a room that may be unknown. A room that cannot be read leaves no trace.
    ///
    /// # Errors
    /// As [`Core::sync_room`].
    pub async fn open_room(
        self: &Arc<Self>,
        host: &str,
        room_id: &str,
        progress: Option<&Progress>,
    ) -> Result<RoomRow, ToolError> {
        check_segment("room_id", room_id)?;
        let host = self.http.host(host)?;
        let row = self.store.write(|tx| RoomRow::ensure(tx, host.as_str(), room_id))?;
        match self.sync_room_telling(row.id, progress).await {
            Ok(row) => {
                self.tend_stream(row.id)?;
                Ok(row)
            }
            Err(e) => {
                self.forget_if_empty(row.id)?;
                Err(e)
            }
        }
    }

    /// Removes a row that stands for nothing.
    pub(crate) fn forget_if_empty(&self, room: i64) -> Result<(), ToolError> {
        self.store.write(|tx| {
            tx.execute(
                "DELETE FROM rooms WHERE id = ?1 AND state IS NULL AND condition IS NULL
                 AND NOT EXISTS (SELECT 1 FROM join_requests WHERE room = ?1)
                 AND NOT EXISTS (SELECT 1 FROM outbox WHERE room = ?1)",
                [room],
            )?;
            Ok(())
        })
    }
}

impl Call {
    pub(super) async fn identity_current(&self) -> Result<Value, ToolError> {
        let me = self.core.me();
        Ok(json!({
            "agent_id": me, "public_key": encoding::encode(me.key_bytes()),
            "profiles": self.core.profile_services, "hosts": self.core.hosts_view().await?,
        }))
    }

    pub(super) async fn hosts_list(&self) -> Result<Value, ToolError> {
        Ok(json!({ "hosts": self.core.hosts_view().await? }))
    }

    pub(super) async fn rooms_search(&self, args: &Args) -> Result<Value, ToolError> {
        let host = self.core.http.host(args.required("host"))?;
        let mut query: Vec<(&str, String)> = Vec::new();
        for name in ["status", "tag", "keyword", "creator", "language", "cursor"] {
            if let Some(text) = args.text(name) {
                query.push((name, text.to_owned()));
            }
        }
        for name in ["starts_after", "ends_before"] {
            if let Some(n) = args.number(name) {
                query.push((name, n.to_string()));
            }
        }
        query.push(("limit", args.limit(50, 200).to_string()));
        let path = ["v1", "rooms", "public"];
        let body = self.core.http.call(&host, &Request::get(&path).query(&query)).await?;
        let (found, next) = list_of(body, "rooms")?;
        let me = self.core.me();
        let now = self.core.clock.now_ms();
        let rooms = self.core.store.read(|c| {
            let mut rooms = Vec::new();
            for resource in found {
                let id =
                    resource["id"].as_str().or(resource["room_id"].as_str()).unwrap_or_default();
                if check_segment("room_id", id).is_err() {
                    continue;
                }
                match RoomRow::find(c, host.as_str(), id)? {
                    // Verified replay wins over what the host says.
                    Some(row) if row.tip.is_some() => {
                        let state = row.state(c)?;
                        rooms.push(views::room_summary(c, &row, state.as_ref(), me, now)?);
                    }
                    _ => rooms.push(host_summary(host.as_str(), id, &resource)),
                }
            }
            Ok::<_, ToolError>(rooms)
        })?;
        let mut result = json!({ "rooms": rooms });
        if let Some(next) = next.filter(|n| Some(n.as_str()) != args.text("cursor")) {
            result["next_cursor"] = json!(next);
        }
        Ok(result)
    }

    pub(super) fn rooms_list(&self, args: &Args) -> Result<Value, ToolError> {
        let after = match read_cursor(args)? {
            Some(c) => c[0]
                .as_i64()
                .ok_or_else(|| ToolError::input("/cursor", "not a cursor of this tool"))?,
            None => 0,
        };
        let limit = args.limit(50, 200);
        let me = self.core.me();
        let now = self.core.clock.now_ms();
        let (rooms, next) = self.core.store.read(|c| {
            let mut rooms = Vec::new();
            let mut next = None;
            for row in RoomRow::all(c)?.into_iter().filter(|r| r.id > after) {
                let state = row.state(c)?;
                let summary = views::room_summary(c, &row, state.as_ref(), me, now)?;
                let status_fits = args.text("status").is_none_or(|s| summary["status"] == s);
                let active = state.as_ref().and_then(|s| s.active_member(me));
                let membership_fits = match args.text("membership").unwrap_or("all") {
                    "member" => active.is_some(),
                    "creator" => state.as_ref().is_some_and(|s| s.creator == *me),
                    "moderator" => active.is_some_and(|m| m.role == Some(Role::Moderator)),
                    "pending" => active.is_none() && self.core.pending_request(c, &row)?.is_some(),
                    _ => true,
                };
                if !status_fits || !membership_fits {
                    continue;
                }
                if rooms.len() == limit {
                    let (last, _): &(i64, Value) = rooms.last().expect("limit is at least 1");
                    next = Some(cursor(&json!([last])));
                    break;
                }
                rooms.push((row.id, summary));
            }
            Ok::<_, ToolError>((rooms, next))
        })?;
        let rooms: Vec<Value> = rooms.into_iter().map(|(_, r)| r).collect();
        let mut result = json!({ "rooms": rooms });
        if let Some(next) = next {
            result["next_cursor"] = json!(next);
        }
        Ok(result)
    }

    pub(super) async fn room_open(&self, args: &Args) -> Result<Value, ToolError> {
        let host = self.core.http.host(args.required("host"))?;
        let room_id = args.required("room_id");
        check_segment("room_id", room_id)?;
        let known = self.core.store.read(|c| RoomRow::find(c, host.as_str(), room_id))?;
        let current = known.as_ref().is_some_and(|r| {
            r.tip.is_some()
                && (self.core.live.subscribed(r.id)
                    || r.condition.as_ref().is_some_and(|c| c.sticky))
        });
        let row = match known {
            Some(row) if current && args.flag("refresh") != Some(true) => row,
            _ => self.core.open_room(host.as_str(), room_id, self.progress.as_ref()).await?,
        };
        if let Some(subscribe) = args.flag("subscribe") {
            self.core.store.write(|tx| {
                tx.execute(
                    "UPDATE rooms SET subscribe = ?2 WHERE id = ?1",
                    rusqlite::params![row.id, subscribe],
                )?;
                Ok::<_, ToolError>(())
            })?;
        }
        self.core.tend_stream(row.id)?;
        let mut result = self.room_result(row.id, true)?;
        if result["room"]["active_turn"].is_object() {
            result["active_turn"] = result["room"]["active_turn"].clone();
        }
        Ok(result)
    }

    pub(super) async fn room_state(&self, args: &Args) -> Result<Value, ToolError> {
        let row = self.room(args).await?;
        if args.flag("refresh") == Some(true) {
            self.core.sync_room(row.id).await?;
        }
        self.room_result(row.id, args.flag("include_types").unwrap_or(true))
    }

    /// RoomStateView with its SyncState.
    fn room_result(&self, room: i64, include_types: bool) -> Result<Value, ToolError> {
        let options = RoomViewOptions { include_types, now_ms: self.core.clock.now_ms() };
        let (view, sync) = self.snapshot(room, |c, row| {
            let state = row.state(c)?;
            views::room_view(c, row, state.as_ref(), self.core.me(), options)
        })?;
        Ok(json!({ "room": view, "sync": self.present(sync) }))
    }

    pub(super) async fn members_list(&self, args: &Args) -> Result<Value, ToolError> {
        let row = self.room(args).await?;
        let (state, sync) = self.snapshot(row.id, |c, row| verified(row.state(c)?))?;
        let after = read_cursor(args)?;
        let after = after.as_ref().and_then(|c| c[0].as_str()).unwrap_or_default();
        let limit = args.limit(100, 500);
        let wanted = args.text("status").unwrap_or("active");
        let role = args.text("role").and_then(Role::from_text);
        let mut found: Vec<(&AgentId, Value)> = state
            .members
            .iter()
            .filter(|(id, m)| {
                id.as_str() > after
                    && (wanted == "all" || m.status.as_str() == wanted)
                    && (role.is_none() || m.role == role)
            })
            .take(limit + 1)
            .map(|(id, m)| (id, views::member_view(&state, id, m)))
            .collect();
        let more = found.len() > limit;
        found.truncate(limit);
        let next = more.then(|| found.last().map(|(id, _)| cursor(&json!([id])))).flatten();
        let mut members = Vec::with_capacity(found.len());
        for (id, mut member) in found {
            if args.flag("include_profiles") == Some(true) {
                member["profile"] = self.core.profile_of(&row.host, id).await;
            }
            members.push(member);
        }
        let mut result = json!({ "members": members, "sync": self.present(sync) });
        if let Some(next) = next {
            result["next_cursor"] = json!(next);
        }
        Ok(result)
    }

    pub(super) async fn member_get(&self, args: &Args) -> Result<Value, ToolError> {
        let agent = args.agent("agent_id")?;
        let row = self.room(args).await?;
        let wants_recent = args.flag("include_recent_activity") == Some(true);
        let ((state, recent), sync) = self.snapshot(row.id, |c, row| {
            let state = verified(row.state(c)?)?;
            let mut recent = Vec::new();
            if wants_recent {
                let tail = "AND actor = ?2 ORDER BY seq DESC LIMIT 10";
                recent = row.records_where(c, tail, &[&agent.as_str()])?;
                recent.reverse();
            }
            Ok((state, recent))
        })?;
        let mut member = match state.members.get(&agent) {
            Some(m) => views::member_view(&state, &agent, m),
            None => views::unknown_member(&agent),
        };
        if args.flag("include_profile") == Some(true) {
            member["profile"] = self.core.profile_of(&row.host, &agent).await;
        }
        let mut result = json!({ "member": member });
        if wants_recent {
            let recent: Vec<Value> = recent.iter().map(|r| views::timeline_item(&row, r)).collect();
            result["recent"] = json!(recent);
        }
        result["sync"] = self.present(sync);
        Ok(result)
    }

    pub(super) async fn status_list(&self, args: &Args) -> Result<Value, ToolError> {
        let row = self.room(args).await?;
        if args.flag("refresh") != Some(false) {
            self.core.read_statuses(&row).await?;
        }
        let now = self.core.clock.now_ms();
        let (statuses, sync) =
            self.snapshot(row.id, |c, row| crate::status::cached(c, row, now))?;
        Ok(json!({ "statuses": statuses, "sync": self.present(sync) }))
    }

    pub(super) async fn status_get(&self, args: &Args) -> Result<Value, ToolError> {
        let agent = args.agent("agent_id")?;
        let row = self.room(args).await?;
        if args.flag("refresh") != Some(false) {
            self.core.read_status(&row, &agent).await?;
        }
        let now = self.core.clock.now_ms();
        let (status, sync) =
            self.snapshot(row.id, |c, row| crate::status::cached_of(c, row, &agent, now))?;
        let mut result = json!({ "sync": self.present(sync) });
        if let Some(status) = status {
            result["status"] = status;
        }
        Ok(result)
    }

    pub(super) async fn status_set(&self, args: &Args) -> Result<Value, ToolError> {
        let row = self.room(args).await?;
        let mut body = Map::new();
        for name in ["state", "summary", "seen_hash", "claim_id", "activity", "extra"] {
            if let Some(value) = args.0.get(name) {
                body.insert(name.to_owned(), value.clone());
            }
        }
        for name in ["seen_seq", "expires_at"] {
            if let Some(n) = args.number(name) {
                body.insert(name.to_owned(), json!(n));
            }
        }
        // Read, or shown in this session: both were seen.
        let shown = self.session.presented(row.id).map_or(0, |head| head.seq);
        let status = self.core.set_status(&row, row.read_seq.max(shown), body).await?;
        Ok(json!({ "status": status, "sync": self.sync(row.id)? }))
    }

    pub(super) async fn room_create(&self, args: &Args) -> Result<Value, ToolError> {
        let host = self.core.http.host(args.required("host"))?;
        let mut payload = args.0.clone();
        payload.remove("host");
        for name in ["start_time", "end_time"] {
            if let Some(n) = args.number(name) {
                payload.insert(name.to_owned(), json!(n));
            }
        }
        ap_protocol::event::check_payload("room.create", &payload)
            .map_err(|e| ToolError::input(&format!("/{}", e.path.replace('.', "/")), e.message))?;
        let mut registry = ap_protocol::registry::Registry::default();
        for declaration in payload.get("types").and_then(Value::as_array).into_iter().flatten() {
            // External packs are the host's to resolve; everything else is judged here first.
            if let Some(d) = declaration.as_object().filter(|d| !d.contains_key("pack")) {
                registry.declare(d, &|_, _| None).map_err(|e| {
                    ToolError::new(e.code.as_str(), format!("types: {e}; nothing was signed"))
                })?;
            }
        }
        let (row, envelope) = self.core.create_room(&host, Value::Object(payload)).await?;
        let mut result = self.room_result(row.id, true)?;
        result["envelope"] = envelope;
        Ok(result)
    }

    pub(super) async fn profile_update(&self, args: &Args) -> Result<Value, ToolError> {
        let service = self.core.http.profile_service(args.required("profile_service"))?;
        let mut profile = args.object("profile").cloned().unwrap_or_default();
        let me = self.core.me().as_str();
        if profile.get("id").is_some_and(|id| id != me) {
            return Err(ToolError::new(
                "profile_id_mismatch",
                "the profile's id is not the active Agent ID; leave it out. Nothing was signed",
            )
            .with(json!({ "path": "/profile/id", "agent_id": me })));
        }
        profile.insert("id".to_owned(), json!(me));
        if !profile.get("name").is_some_and(Value::is_string) {
            return Err(ToolError::input("/profile/name", "is required, a string"));
        }
        let (document, envelope) = self.core.update_profile(&service, &profile).await?;
        Ok(json!({ "profile": document, "envelope": envelope }))
    }

    pub(super) async fn room_join(&self, args: &Args) -> Result<Value, ToolError> {
        if let Some(id) = args.text("request_id") {
            check_segment("request_id", id)?;
        }
        let row = match self.known_room(args)? {
            super::Known::Row(row) => *row,
            super::Known::Unknown { host: Some(host), room_id } => {
                self.core.store.write(|tx| RoomRow::ensure(tx, &host, &room_id))?
            }
            super::Known::Unknown { host: None, room_id } => {
                return Err(super::not_known(&room_id));
            }
        };
        let join = crate::join::JoinArgs {
            role: args.required("role").to_owned(),
            perspective: args.text("perspective").map(str::to_owned),
            reason: args.text("reason").map(str::to_owned),
            request_id: args.text("request_id").map(str::to_owned),
            extra: args.0.get("extra").cloned(),
        };
        let joined = match self.core.join(&self.session, row.id, &join).await {
            Ok(joined) => joined,
            Err(e) => {
                self.core.forget_if_empty(row.id)?;
                return Err(e);
            }
        };
        match joined {
            crate::join::Joined::Pending(request) => {
                let mut result = json!({ "status": "approval_required", "join_request": request });
                result["sync"] = self.sync(row.id)?;
                Ok(result)
            }
            crate::join::Joined::Member { record, request } => {
                let (state, sync) = self.snapshot(row.id, |c, row| verified(row.state(c)?))?;
                let me = self.core.me();
                let mut result = json!({ "status": "joined" });
                if let Some(member) = state.members.get(me) {
                    result["member"] = views::member_view(&state, me, member);
                }
                if let Some(record) = record {
                    result["record"] = record.body;
                }
                if let Some(request) = request {
                    result["join_request"] = request;
                }
                result["sync"] = self.present(sync);
                Ok(result)
            }
        }
    }

    pub(super) async fn join_requests_list(&self, args: &Args) -> Result<Value, ToolError> {
        let row = self.room(args).await?;
        let mut query: Vec<(&str, String)> = Vec::new();
        for name in ["status", "cursor"] {
            if let Some(text) = args.text(name) {
                query.push((name, text.to_owned()));
            }
        }
        query.push(("limit", args.limit(50, 200).to_string()));
        let (requests, next) = self.core.list_join_requests(&row, &query).await?;
        let mut result = json!({ "join_requests": requests });
        if let Some(next) = next.filter(|n| Some(n.as_str()) != args.text("cursor")) {
            result["next_cursor"] = json!(next);
        }
        Ok(result)
    }

    pub(super) async fn join_request_review(&self, args: &Args) -> Result<Value, ToolError> {
        check_segment("request_id", args.required("request_id"))?;
        let row = self.room(args).await?;
        if args.required("decision") == "reject" && args.text("role").is_some() {
            return Err(ToolError::input("/role", "a rejection assigns no role"));
        }
        let record = self
            .core
            .review(
                &self.session,
                &row,
                args.required("request_id"),
                args.required("decision"),
                args.text("role"),
                args.text("reason"),
            )
            .await?;
        Ok(json!({ "record": record.body, "sync": self.sync(row.id)? }))
    }
}

/// The replayed state of a room that has one.
fn verified(state: Option<RoomState>) -> Result<RoomState, ToolError> {
    state.ok_or_else(crate::write::not_verified)
}

/// RoomSummary of a room that only the host speaks for.
fn host_summary(host: &str, room_id: &str, resource: &Value) -> Value {
    let text =
        |name: &str| resource.get(name).filter(|v| v.is_string()).cloned().unwrap_or(Value::Null);
    let number =
        |name: &str| resource.get(name).filter(|v| v.is_u64()).cloned().unwrap_or(Value::Null);
    let tags: Vec<&Value> =
        resource["tags"].as_array().into_iter().flatten().filter(|t| t.is_string()).collect();
    json!({
        "room_id": room_id, "host": host, "topic": text("topic"), "status": text("status"),
        "visibility": text("visibility"), "start_time": number("start_time"),
        "end_time": number("end_time"), "tags": tags, "language": text("language"), "role": null,
        "membership": null, "unread_count": 0, "pending_inbox_count": 0, "verified": false,
        "condition": null,
    })
}
