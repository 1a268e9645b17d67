//! JSON Schemas of tool inputs and results. Inputs are closed; results are open, since a
//! later revision may show more.

use serde_json::{Map, Value, json};

/// A closed object with these members.
pub fn input(members: Value, required: &[&str]) -> Value {
    json!({ "type": "object", "additionalProperties": false, "properties": members, "required": required })
}

/// An open object with these members.
pub fn output(members: Value, required: &[&str]) -> Value {
    json!({ "type": "object", "properties": members, "required": required })
}

/// The members of `base` and of `more` in one object.
pub fn with(mut base: Value, more: Value) -> Value {
    if let (Value::Object(base), Value::Object(more)) = (&mut base, more) {
        base.extend(more);
    }
    base
}

/// `text` with a description.
pub fn text(description: &str) -> Value {
    json!({ "type": "string", "description": description })
}

/// A non-empty string.
pub fn name(description: &str) -> Value {
    json!({ "type": "string", "minLength": 1, "description": description })
}

/// One of a closed list.
pub fn one_of(values: &[&str], description: &str) -> Value {
    json!({ "type": "string", "enum": values, "description": description })
}

/// A flag.
pub fn flag(description: &str) -> Value {
    json!({ "type": "boolean", "description": description })
}

/// A safe non-negative integer from `min`.
pub fn count(min: u64, description: &str) -> Value {
    json!({ "type": "integer", "minimum": min, "maximum": ap_protocol::MAX_SAFE_INTEGER, "description": description })
}

/// A list of distinct strings.
pub fn texts(description: &str) -> Value {
    json!({ "type": "array", "items": { "type": "string" }, "uniqueItems": true, "description": description })
}

/// Any object.
pub fn object(description: &str) -> Value {
    json!({ "type": "object", "description": description })
}

/// `room_id` and the `host` that goes with it everywhere.
pub fn room() -> Value {
    json!({
        "room_id": name("The room."),
        "host": name("Origin of the room's host. Needed only when the room_id exists on several hosts, or the room is not known yet."),
    })
}

/// `limit` and `cursor`.
pub fn paging(most: u64) -> Value {
    json!({
        "limit": count(1, &format!("Most items in this page; at most {most} are returned.")),
        "cursor": text("next_cursor of the page before."),
    })
}

/// The members that every write bound to the head takes.
pub fn base() -> Value {
    json!({
        "base_seq": count(1, "sync.head_seq of the snapshot this write answers. Default: the head last shown in this session."),
        "base_hash": name("sync.head_hash of the same snapshot."),
        "on_head_mismatch": one_of(&["hold", "reject", "send_anyway"],
            "What to do when the room moved since the base: hold a draft (default), reject, or sign the same content again on the newest head (at most 3 times). Ignored for signal-kind events."),
    })
}

fn or_null(kind: &str) -> Value {
    json!({ "type": [kind, "null"] })
}

/// SyncState.
pub fn sync() -> Value {
    output(
        json!({
            "host": { "type": "string" }, "room_id": { "type": "string" },
            "head_seq": or_null("integer"), "head_hash": or_null("string"),
            "synced_seq": or_null("integer"), "remote_seq": { "type": "integer" },
            "subscribed": { "type": "boolean" }, "unread_count": { "type": "integer" },
            "pending_inbox_count": { "type": "integer" },
            "condition": { "type": "object" },
        }),
        &[
            "host",
            "room_id",
            "head_seq",
            "head_hash",
            "synced_seq",
            "remote_seq",
            "subscribed",
            "unread_count",
            "pending_inbox_count",
        ],
    )
}

/// TimelineItem.
pub fn item() -> Value {
    output(
        json!({
            "room_id": { "type": "string" }, "seq": { "type": "integer" }, "event_id": { "type": "string" },
            "type": { "type": "string" }, "kind": { "type": "string" }, "actor": { "type": "string" },
            "created_at": { "type": "integer" }, "received_at": { "type": "integer" },
            "summary": { "type": "string" }, "content_type": { "type": "string" },
            "content": { "type": ["string", "object"] },
            "mentions": { "type": "array", "items": { "type": "string" } },
            "references": { "type": "array" }, "payload": { "type": "object" }, "record": { "type": "object" },
        }),
        &[
            "room_id",
            "seq",
            "event_id",
            "type",
            "kind",
            "actor",
            "created_at",
            "received_at",
            "summary",
            "mentions",
            "references",
            "payload",
        ],
    )
}

/// A list of `of`.
pub fn list(of: Value) -> Value {
    json!({ "type": "array", "items": of })
}

/// RoomMemberView.
pub fn member() -> Value {
    output(
        json!({
            "agent_id": { "type": "string" }, "role": or_null("string"),
            "status": { "type": "string", "enum": ["active", "left", "removed", "banned", "unknown"] },
            "is_creator": { "type": "boolean" }, "perspective": or_null("string"),
            "joined_seq": or_null("integer"), "left_seq": or_null("integer"),
            "last_event_seq": or_null("integer"), "profile": or_null("object"), "extra": { "type": "object" },
        }),
        &["agent_id", "role", "status", "is_creator", "joined_seq", "left_seq", "last_event_seq"],
    )
}

/// ActiveTurn.
pub fn turn() -> Value {
    output(
        json!({ "speaker": { "type": "string" }, "assigned_seq": { "type": "integer" },
            "expires_at": or_null("integer"), "instruction": or_null("string"), "source_event_id": { "type": "string" } }),
        &["turn_id", "speaker", "assigned_seq", "source_event_id"],
    )
}

/// RoomStateView.
pub fn room_state() -> Value {
    output(
        json!({
            "host": { "type": "string" }, "room_id": { "type": "string" }, "status": or_null("string"),
            "visibility": or_null("string"), "topic": or_null("string"), "agenda": or_null("string"),
            "guidance": or_null("string"), "creator": or_null("string"), "created_at": or_null("integer"),
            "start_time": or_null("integer"), "end_time": or_null("integer"),
            "tags": { "type": ["array", "null"] }, "language": or_null("string"), "policy": or_null("object"),
            "types": { "type": "array" }, "self_member": or_null("object"), "members_count": or_null("integer"),
            "active_turn": or_null("object"), "unread_count": { "type": "integer" },
            "pending_inbox_count": { "type": "integer" }, "verified": { "type": "boolean" }, "condition": or_null("object"),
        }),
        &[
            "host",
            "room_id",
            "status",
            "visibility",
            "topic",
            "creator",
            "self_member",
            "members_count",
            "unread_count",
            "pending_inbox_count",
        ],
    )
}

/// RoomSummary.
pub fn room_summary() -> Value {
    output(
        json!({
            "room_id": { "type": "string" }, "host": { "type": "string" }, "topic": or_null("string"),
            "status": or_null("string"), "visibility": or_null("string"), "start_time": or_null("integer"),
            "end_time": or_null("integer"), "tags": { "type": "array" }, "language": or_null("string"),
            "role": or_null("string"), "unread_count": { "type": "integer" }, "pending_inbox_count": { "type": "integer" },
        }),
        &[
            "room_id",
            "host",
            "topic",
            "status",
            "visibility",
            "unread_count",
            "pending_inbox_count",
        ],
    )
}

/// AgentProtocolsHost.
pub fn host() -> Value {
    output(
        json!({
            "host": { "type": "string" }, "label": { "type": "string" }, "allowed": { "type": "boolean" },
            "features": { "type": "array", "items": { "type": "string" } },
            "profile_service": or_null("string"), "last_checked_at": or_null("integer"),
        }),
        &["host", "label", "allowed", "features"],
    )
}

/// AgentStatus.
pub fn status() -> Value {
    output(
        json!({
            "room_id": { "type": "string" }, "agent_id": { "type": "string" }, "state": { "type": "string" },
            "expires_at": { "type": "integer" },
        }),
        &["room_id", "agent_id", "state", "expires_at"],
    )
}

/// InboxItem.
pub fn inbox_item() -> Value {
    output(
        json!({
            "id": { "type": "string" }, "kind": { "type": "string" },
            "priority": { "type": "string", "enum": ["high", "normal", "low"] },
            "room_id": { "type": "string" }, "seq": or_null("integer"), "event_id": or_null("string"),
            "actor": or_null("string"), "created_at": { "type": "integer" },
            "requires_response": { "type": "boolean" }, "deadline": or_null("integer"),
            "reason": { "type": "string" }, "suggested_tools": { "type": "array", "items": { "type": "string" } },
            "message": { "type": "object" },
        }),
        &[
            "id",
            "kind",
            "priority",
            "room_id",
            "created_at",
            "requires_response",
            "deadline",
            "reason",
            "suggested_tools",
            "message",
        ],
    )
}

/// HeldDraft.
pub fn draft() -> Value {
    output(
        json!({
            "id": { "type": "string" }, "room_id": { "type": "string" }, "kind": { "type": "string" },
            "created_at": { "type": "integer" }, "base_seq": { "type": "integer" }, "base_hash": { "type": "string" },
            "current_sync": sync(), "draft": { "type": "object" }, "reason": { "type": "string" },
            "options": { "type": "array", "items": { "type": "string" } },
        }),
        &[
            "id",
            "room_id",
            "kind",
            "created_at",
            "base_seq",
            "base_hash",
            "current_sync",
            "draft",
            "reason",
            "options",
        ],
    )
}

/// What `room_send_message` and `room_submit_event` answer.
pub fn written() -> Value {
    output(
        json!({
            "status": { "type": "string", "enum": ["sent", "held", "rejected"] },
            "record": { "type": "object" }, "item": item(), "draft": draft(),
            "changes": list(item()), "sync": sync(),
        }),
        &["status", "sync"],
    )
}

/// As a map, as rmcp wants it.
pub fn map(schema: Value) -> Map<String, Value> {
    match schema {
        Value::Object(map) => map,
        _ => unreachable!("every schema here is an object"),
    }
}
