//! What an agent sees of rooms, records and members: the shapes of seed 4.2.
//!
//! Everything shown comes from verified replay; what only the host says is shown where
//! replay has nothing, and marked as such.

use ap_protocol::room::{Member, Turn};
use ap_protocol::{AgentId, RoomState};
use rusqlite::Connection;
use serde_json::{Map, Value, json};

use crate::error::ToolError;
use crate::store::{RoomRow, StoredRecord};
use crate::text;

/// SyncState: where the room stands and what waits.
pub fn sync_state(
    conn: &Connection,
    row: &RoomRow,
    subscribed: bool,
    now_ms: u64,
) -> Result<Value, ToolError> {
    let synced = row.tip.map(|t| t.seq);
    let mut sync = json!({
        "host": row.host, "room_id": row.room_id,
        "head_seq": row.head.map(|h| h.seq), "head_hash": row.head.map(|h| h.hash),
        "synced_seq": synced, "remote_seq": row.remote_seq.max(synced.unwrap_or(0)),
        "subscribed": subscribed,
        "unread_count": row.unread_count(conn)?,
        "pending_inbox_count": row.pending_inbox(conn, now_ms)?,
    });
    if let Some(c) = &row.condition {
        sync["condition"] = json!({ "code": c.code, "message": c.message, "seq": c.seq });
    }
    Ok(sync)
}

/// A one-line summary of an event's untrusted payload.
pub fn event_summary(event_type: &str, payload: &Map<String, Value>) -> String {
    let text_of = |name: &str| payload.get(name).and_then(Value::as_str);
    let found = match event_type {
        "message.create" => match payload.get("content") {
            Some(Value::String(s)) => Some(s.clone()),
            Some(other) => Some(other.to_string()),
            None => None,
        },
        "room.create" => text_of("topic").map(str::to_owned),
        "room.join" => text_of("role").map(|r| format!("joined as {r}")),
        "room.member.role.update" => text_of("role").map(|r| format!("role set to {r}")),
        "room.join.review" => text_of("decision").map(|d| format!("join request: {d}")),
        "room.update" => {
            let names: Vec<&str> = payload.keys().map(String::as_str).collect();
            Some(format!("changed {}", names.join(", ")))
        }
        "type.define" => {
            ["type", "use", "pack"].iter().find_map(|n| text_of(n)).map(|t| format!("defined {t}"))
        }
        "room.leave" | "room.close" | "room.cancel" | "room.member.remove" => {
            text_of("reason").map(str::to_owned)
        }
        _ => [
            "title",
            "question",
            "instruction",
            "summary",
            "body",
            "reaction",
            "intent",
            "topic",
            "reason",
        ]
        .iter()
        .find_map(|n| text_of(n))
        .map(str::to_owned),
    };
    text::summary(&found.unwrap_or_else(|| event_type.to_owned()))
}

/// TimelineItem of one verified record.
pub fn timeline_item(row: &RoomRow, record: &StoredRecord) -> Value {
    let event = &record.body["envelope"]["event"];
    let empty = Map::new();
    let payload = event["payload"].as_object().unwrap_or(&empty);
    let list = |v: Option<&Value>| match v {
        Some(v @ Value::Array(_)) => v.clone(),
        _ => json!([]),
    };
    let mut item = json!({
        "room_id": row.room_id, "host": row.host, "seq": record.seq,
        "event_id": record.event_id, "type": record.event_type, "kind": record.kind,
        "actor": event["actor"], "created_at": event["created_at"],
        "received_at": record.body["received_at"],
        "summary": event_summary(&record.event_type, payload),
        "mentions": list(event.get("mentions")),
        "references": list(payload.get("references")),
        "payload": event["payload"],
    });
    if record.event_type == "message.create" {
        item["content_type"] = payload.get("content_type").cloned().unwrap_or(Value::Null);
        item["content"] = payload.get("content").cloned().unwrap_or(Value::Null);
    }
    item
}

/// RoomMemberView from replay.
pub fn member_view(state: &RoomState, id: &AgentId, member: &Member) -> Value {
    json!({
        "agent_id": id, "role": member.role, "status": member.status,
        "is_creator": *id == state.creator, "perspective": member.perspective,
        "joined_seq": member.joined_seq, "left_seq": member.left_seq,
        "last_event_seq": member.last_event_seq, "profile": null, "extra": {},
    })
}

/// RoomMemberView of an agent that never appears in the records.
pub fn unknown_member(id: &AgentId) -> Value {
    json!({
        "agent_id": id, "role": null, "status": "unknown", "is_creator": false,
        "perspective": null, "joined_seq": null, "left_seq": null, "last_event_seq": null,
        "profile": null, "extra": {},
    })
}

/// ActiveTurn.
pub fn turn_view(turn: &Turn) -> Value {
    json!({
        "turn_id": turn.turn_id, "speaker": turn.speaker, "assigned_seq": turn.assigned_seq,
        "expires_at": turn.expires_at, "instruction": turn.instruction,
        "source_event_id": turn.source_event_id,
    })
}

/// The moment the room's life is judged at: ours, but never before its latest record.
pub fn room_now(conn: &Connection, row: &RoomRow, now_ms: u64) -> Result<u64, ToolError> {
    let Some(tip) = row.tip else { return Ok(now_ms) };
    let received = row.record(conn, tip.seq)?.and_then(|r| r.body["received_at"].as_u64());
    Ok(now_ms.max(received.unwrap_or(0)))
}

/// Options of [`room_view`].
#[derive(Debug, Clone, Copy)]
pub struct RoomViewOptions {
    /// Whether `types` is shown.
    pub include_types: bool,
    /// Judge lifecycle at this time (Unix ms).
    pub now_ms: u64,
}

/// RoomStateView.
pub fn room_view(
    conn: &Connection,
    row: &RoomRow,
    state: Option<&RoomState>,
    me: &AgentId,
    options: RoomViewOptions,
) -> Result<Value, ToolError> {
    let now_ms = room_now(conn, row, options.now_ms)?;
    let host_says = row.resource.clone().unwrap_or(Value::Null);
    let mut view = match state {
        Some(state) => verified_view(row, state, me, now_ms),
        None => {
            // Nothing is verified: everything shown is the host's word.
            let mut view = json!({ "host": row.host, "room_id": row.room_id, "verified": false });
            for name in CONTRACT.iter().chain(&["status", "creator", "created_at"]) {
                view[*name] = host_says.get(*name).cloned().unwrap_or(Value::Null);
            }
            view["self_member"] = Value::Null;
            view["members_count"] = Value::Null;
            view["active_turn"] = Value::Null;
            view["types"] = json!([]);
            view
        }
    };
    if !options.include_types {
        view.as_object_mut().map(|v| v.remove("types"));
    }
    view["host_reported"] = json!({
        "status": host_says.get("status"), "url": host_says.get("url"), "seq": host_says.get("seq"),
    });
    view["unread_count"] = json!(row.unread_count(conn)?);
    view["pending_inbox_count"] = json!(row.pending_inbox(conn, options.now_ms)?);
    view["condition"] = match &row.condition {
        Some(c) => {
            json!({ "code": c.code, "message": c.message, "seq": c.seq, "since": c.at, "needs_operator": c.sticky })
        }
        None => Value::Null,
    };
    Ok(view)
}

const CONTRACT: [&str; 10] = [
    "topic",
    "agenda",
    "guidance",
    "visibility",
    "start_time",
    "end_time",
    "tags",
    "language",
    "policy",
    "extra",
];

fn verified_view(row: &RoomRow, state: &RoomState, me: &AgentId, now_ms: u64) -> Value {
    let mut view = json!({
        "host": row.host, "room_id": row.room_id, "verified": true,
        "status": state.status_at(now_ms), "creator": state.creator,
        "created_at": state.created_at,
    });
    for name in CONTRACT {
        view[name] = state.contract.get(name).cloned().unwrap_or(Value::Null);
    }
    if view["tags"].is_null() {
        view["tags"] = json!([]);
    }
    let types: Vec<&Map<String, Value>> =
        state.registry.iter().map(|(_, d)| &d.definition).collect();
    view["types"] = json!(types);
    view["self_member"] = state.members.get(me).map_or(Value::Null, |m| member_view(state, me, m));
    view["members_count"] = json!(
        state
            .members
            .values()
            .filter(|m| m.status == ap_protocol::room::MemberStatus::Active)
            .count()
    );
    view["active_turn"] = state.active_turn(now_ms).map_or(Value::Null, turn_view);
    view
}

/// RoomSummary.
pub fn room_summary(
    conn: &Connection,
    row: &RoomRow,
    state: Option<&RoomState>,
    me: &AgentId,
    now_ms: u64,
) -> Result<Value, ToolError> {
    let options = RoomViewOptions { include_types: false, now_ms };
    let view = room_view(conn, row, state, me, options)?;
    let member = &view["self_member"];
    let active = member["status"] == "active";
    Ok(json!({
        "room_id": row.room_id, "host": row.host, "topic": view["topic"], "status": view["status"],
        "visibility": view["visibility"], "start_time": view["start_time"],
        "end_time": view["end_time"],
        "tags": if view["tags"].is_array() { view["tags"].clone() } else { json!([]) },
        "language": view["language"],
        "role": if active { member["role"].clone() } else { Value::Null },
        "membership": member["status"],
        "unread_count": view["unread_count"], "pending_inbox_count": view["pending_inbox_count"],
        "verified": view["verified"], "condition": view["condition"],
    }))
}
