//! Writing: messages, events, leaving, and the held drafts that writes may end in.

use serde_json::{Map, Value, json};

use super::{Call, cursor, read_cursor};
use crate::args::Args;
use crate::drafts;
use crate::error::ToolError;
use crate::store::RoomRow;
use crate::views;
use crate::write::{Policy, Write, Written, changes_since};

/// Built-in types that a tool of their own writes, or that only a host's answer makes.
fn dedicated_tool(event_type: &str) -> Option<&'static str> {
    match event_type {
        "room.create" => Some("agent_protocols_room_create"),
        "room.join" => Some("agent_protocols_room_join"),
        "room.leave" => Some("agent_protocols_room_leave"),
        "room.join.review" => Some("agent_protocols_join_request_review"),
        _ => None,
    }
}

/// Content of a message write, as given or as a draft mirrors it.
fn message_write(room: i64, room_id: &str, args: &Args) -> Result<Write, ToolError> {
    let mentions = args.mentions()?.unwrap_or_default();
    let references = args.references()?.unwrap_or_default();
    let content_type = args.text("content_type").unwrap_or("text/plain").to_owned();
    let extra = args.object("extra").cloned().unwrap_or_default();
    let mut payload = json!({ "content_type": content_type, "content": args.required("content") });
    if !references.is_empty() {
        payload["references"] = json!(references);
    }
    if !extra.is_empty() {
        payload["extra"] = json!(extra);
    }
    let mirror = json!({
        "room_id": room_id, "content": args.required("content"), "content_type": content_type,
        "mentions": mentions, "references": references, "extra": extra,
    });
    Ok(write(room, "message.create", payload, mentions, mirror, "message"))
}

/// Content of an event write, as given or as a draft mirrors it.
fn event_write(room: i64, room_id: &str, args: &Args) -> Result<Write, ToolError> {
    let event_type = args.required("type");
    if let Some(tool) = dedicated_tool(event_type) {
        return Err(ToolError::input("/type", format!("{event_type} has its own tool: {tool}"))
            .and("tool", tool));
    }
    let mentions = args.mentions()?.unwrap_or_default();
    let references = args.references()?;
    let given = args.object("payload").cloned().unwrap_or_default();
    let mut payload = given.clone();
    if let Some(references) = &references {
        if payload.get("references").is_some_and(|old| *old != json!(references)) {
            return Err(ToolError::input(
                "/references",
                "the payload has other references; give them once",
            ));
        }
        if !references.is_empty() {
            payload.insert("references".to_owned(), json!(references));
        }
    }
    let mirror = json!({
        "room_id": room_id, "type": event_type, "payload": given, "mentions": mentions,
        "references": references.unwrap_or_default(),
    });
    Ok(write(room, event_type, Value::Object(payload), mentions, mirror, "event"))
}

fn write(
    room: i64,
    event_type: &str,
    payload: Value,
    mentions: Vec<String>,
    mirror: Value,
    draft_kind: &'static str,
) -> Write {
    Write {
        room,
        event_type: event_type.to_owned(),
        payload,
        mentions,
        base: None,
        policy: Policy::Hold,
        latest: false,
        mirror,
        draft_kind,
        draft_id: None,
    }
}

impl Call {
    pub(super) async fn send_message(&self, args: &Args) -> Result<Value, ToolError> {
        let base = args.base()?;
        let row = self.room(args).await?;
        let mut w = message_write(row.id, &row.room_id, args)?;
        w.base = base;
        w.policy = Policy::from_text(args.text("on_head_mismatch"));
        let written = self.core.write_event(&self.session, w).await?;
        self.written(row.id, written)
    }

    pub(super) async fn submit_event(&self, args: &Args) -> Result<Value, ToolError> {
        let base = args.base()?;
        let row = self.room(args).await?;
        let mut w = event_write(row.id, &row.room_id, args)?;
        w.base = base;
        w.policy = Policy::from_text(args.text("on_head_mismatch"));
        let written = self.core.write_event(&self.session, w).await?;
        self.written(row.id, written)
    }

    pub(super) async fn room_leave(&self, args: &Args) -> Result<Value, ToolError> {
        let row = self.room(args).await?;
        let mut payload = json!({});
        if let Some(reason) = args.text("reason") {
            payload["reason"] = json!(reason);
        }
        let w = write(row.id, "room.leave", payload, Vec::new(), Value::Null, "event");
        let record = crate::join::sent(self.core.write_event(&self.session, w).await?)?;
        self.core.tend_stream(row.id)?;
        Ok(json!({ "record": record.body, "sync": self.sync(row.id)? }))
    }

    fn written(&self, room: i64, written: Written) -> Result<Value, ToolError> {
        match written {
            Written::Sent(record) => {
                let (item, sync) =
                    self.snapshot(room, |_, row| Ok(views::timeline_item(row, &record)))?;
                let sync = self.present(sync);
                Ok(json!({ "status": "sent", "record": record.body, "item": item, "sync": sync }))
            }
            Written::Rejected(base) => {
                let (changes, sync) =
                    self.snapshot(room, |c, row| changes_since(c, row, base.seq))?;
                let sync = self.present(sync);
                Ok(json!({ "status": "rejected", "changes": changes, "sync": sync }))
            }
            Written::Held(draft) => {
                let mut result = self.draft_result(&draft)?;
                result["status"] = json!("held");
                Ok(result)
            }
        }
    }

    /// A held draft with what changed since its base.
    fn draft_result(&self, draft: &drafts::Draft) -> Result<Value, ToolError> {
        let ((row, changes), sync) = self.snapshot(draft.room, |c, row| {
            let changes = changes_since(c, row, draft.base.seq)?;
            Ok((row.clone(), changes))
        })?;
        let sync = self.present(sync);
        let view = drafts::view(draft, &row, sync.clone());
        Ok(json!({ "draft": view, "changes": changes, "sync": sync }))
    }

    pub(super) fn drafts_list(&self, args: &Args) -> Result<Value, ToolError> {
        let room = self.optional_room(args)?.map(|r| r.id);
        let after = match read_cursor(args)? {
            Some(c) => Some(
                c[0].as_u64()
                    .zip(c[1].as_str().map(str::to_owned))
                    .ok_or_else(|| ToolError::input("/cursor", "not a cursor of this tool"))?,
            ),
            None => None,
        };
        let limit = args.limit(20, 100);
        let mut found = self.core.store.read(|c| drafts::list(c, room, after, limit + 1))?;
        let more = found.len() > limit;
        found.truncate(limit);
        let mut views_of = Vec::with_capacity(found.len());
        for draft in &found {
            views_of.push(self.draft_view(draft)?);
        }
        let mut result = json!({ "drafts": views_of });
        if more && let Some(last) = found.last() {
            result["next_cursor"] = json!(cursor(&json!([last.created_at, last.id])));
        }
        Ok(result)
    }

    /// A draft in a list: its room's state is told, but no head is presented.
    fn draft_view(&self, draft: &drafts::Draft) -> Result<Value, ToolError> {
        let now = self.core.clock.now_ms();
        let subscribed = self.core.live.subscribed(draft.room);
        self.core.store.read(|c| {
            let row = RoomRow::get(c, draft.room)?;
            let sync = views::sync_state(c, &row, subscribed, now)?;
            Ok(drafts::view(draft, &row, sync))
        })
    }

    pub(super) fn draft_get(&self, args: &Args) -> Result<Value, ToolError> {
        let draft = self.core.store.read(|c| drafts::get(c, args.required("draft_id")))?;
        self.draft_result(&draft)
    }

    pub(super) fn draft_drop(&self, args: &Args) -> Result<Value, ToolError> {
        let id = args.required("draft_id");
        let left = drafts::discard(&self.core, id)?;
        Ok(json!({ "status": "dropped", "draft_id": id, "pending_count": left }))
    }

    pub(super) async fn draft_commit(&self, args: &Args) -> Result<Value, ToolError> {
        let id = args.required("draft_id").to_owned();
        let action = args.required("action");
        let content =
            ["content", "content_type", "mentions", "references", "extra", "type", "payload"];
        if action != "revise"
            && let Some(name) = content.iter().find(|n| args.0.contains_key(**n))
        {
            return Err(ToolError::input(&format!("/{name}"), "goes with action revise only"));
        }
        if action == "stay_silent" {
            return self.draft_drop(args);
        }
        let base = args.base()?;
        let held = self.core.store.read(|c| drafts::get(c, &id))?;
        let row = self.core.store.read(|c| RoomRow::get(c, held.room))?;
        let mut merged: Map<String, Value> = held.draft.as_object().cloned().unwrap_or_default();
        if action == "revise" {
            let own: &[&str] = if held.kind == "message" {
                &["content", "content_type", "mentions", "references", "extra"]
            } else {
                &["type", "payload", "mentions", "references"]
            };
            for name in content {
                let Some(value) = args.0.get(name) else { continue };
                if !own.contains(&name) {
                    return Err(ToolError::input(
                        &format!("/{name}"),
                        format!("is no member of a {} draft", held.kind),
                    ));
                }
                merged.insert(name.to_owned(), value.clone());
            }
        }
        let merged = Args(merged);
        let mut w = if held.kind == "message" {
            message_write(row.id, &row.room_id, &merged)?
        } else {
            event_write(row.id, &row.room_id, &merged)?
        };
        w.base = base;
        w.draft_id = Some(id.clone());
        w.policy = Policy::from_text(args.text("on_head_mismatch"));
        if action == "send_anyway" {
            w.policy = Policy::SendAnyway;
            w.latest = true;
        }
        // From here on this call alone commits the draft.
        drafts::take(&self.core, &id, &self.session.id)?;
        let outcome = self.core.write_event(&self.session, w).await;
        match &outcome {
            Ok(Written::Sent(_)) => drafts::finished(&self.core, &id)?,
            // Holding it again has given it back already.
            Ok(Written::Held(_)) => {}
            Ok(Written::Rejected(_)) | Err(_) => {
                drafts::give_back(&self.core, &id, &self.session.id)?;
            }
        }
        self.written(row.id, outcome?)
    }
}
