//! The inbox: what of the room's life asks for this agent's attention.
//!
//! Items are made in the transaction that commits their record, so an item exists exactly
//! when its record does. Ids derive from what the item is about and never change.

use ap_protocol::event::Kind;
use ap_protocol::room::{Member, MemberStatus, Role};
use ap_protocol::{Hash, RoomState, VerifiedRecord};
use rusqlite::{Connection, OptionalExtension, params};
use serde_json::{Value, json};

use crate::config::WatchRule;
use crate::error::ToolError;
use crate::store::{RoomRow, parse_json};
use crate::text;
use crate::views;

/// The ten kinds of the seed.
pub const KINDS: [&str; 10] = [
    "room.message.new",
    "room.mention",
    "room.turn.assigned",
    "room.steer",
    "room.join.requested",
    "room.join.approved",
    "room.role.changed",
    "room.member.removed",
    "room.state.changed",
    "room.event.custom",
];

/// A new item, before it has an id.
pub struct NewItem<'a> {
    /// One of [`KINDS`].
    pub kind: &'a str,
    /// Record's seq; none for local items.
    pub seq: Option<u64>,
    /// Record's event id, or what makes a local item unique.
    pub about: &'a str,
    /// Whether `about` is an event id.
    pub is_event: bool,
    /// Who caused it.
    pub actor: Option<&'a str>,
    /// Record's `received_at`, or local time (Unix ms).
    pub created_at: u64,
    /// Latest useful answer (Unix ms).
    pub deadline: Option<u64>,
    /// Why it is here.
    pub reason: &'a str,
    /// Untrusted text, cleaned here.
    pub summary: &'a str,
}

fn priority(kind: &str) -> (i64, &'static str) {
    match kind {
        "room.mention" | "room.turn.assigned" | "room.join.approved" | "room.member.removed" => {
            (0, "high")
        }
        "room.message.new" => (2, "low"),
        _ => (1, "normal"),
    }
}

fn suggested_tools(kind: &str) -> &'static [&'static str] {
    match kind {
        "room.mention" | "room.turn.assigned" => {
            &["agent_protocols_room_timeline", "agent_protocols_room_send_message"]
        }
        "room.steer" | "room.message.new" | "room.event.custom" => {
            &["agent_protocols_room_timeline"]
        }
        "room.join.requested" => {
            &["agent_protocols_join_requests_list", "agent_protocols_join_request_review"]
        }
        "room.join.approved" => &["agent_protocols_room_join"],
        "room.role.changed" | "room.state.changed" => &["agent_protocols_room_state"],
        _ => &["agent_protocols_rooms_list"],
    }
}

/// Adds an item unless there is one about the same. Returns whether it is new.
pub fn add(conn: &Connection, row: &RoomRow, item: &NewItem<'_>) -> Result<bool, ToolError> {
    // A request is told about once, whether the record or a look at the host brought it.
    let seq = if item.kind.starts_with("room.join.") { None } else { item.seq };
    let dedupe = json!([row.host, row.room_id, item.kind, seq, item.about]).to_string();
    let id = format!("inbox_{}", &Hash::of(dedupe.as_bytes()).to_string()[..26]);
    let (rank, priority) = priority(item.kind);
    let body = json!({
        "id": id, "kind": item.kind, "priority": priority,
        "host": row.host, "room_id": row.room_id, "seq": item.seq,
        "event_id": item.is_event.then_some(item.about), "actor": item.actor,
        "created_at": item.created_at,
        "requires_response": matches!(item.kind,
            "room.mention" | "room.turn.assigned" | "room.join.requested" | "room.join.approved"),
        "deadline": item.deadline, "reason": item.reason,
        "suggested_tools": suggested_tools(item.kind),
        "message": { "summary": text::summary(item.summary) },
    });
    let mut body = body;
    if !item.is_event && item.kind.starts_with("room.join.") {
        body["request_id"] = json!(item.about);
    }
    let added = conn
        .prepare_cached(
            "INSERT INTO inbox(id, dedupe, room, kind, seq, created_at, priority, body)
             VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT DO NOTHING",
        )?
        .execute(params![
            id,
            dedupe,
            row.id,
            item.kind,
            item.seq.map(|s| s as i64),
            item.created_at as i64,
            rank,
            body.to_string(),
        ])?;
    Ok(added > 0)
}

/// What replay knew about this agent when a record was applied.
pub struct Applied<'a> {
    /// The state after the record.
    pub state: &'a RoomState,
    /// This agent's membership before the record.
    pub before: Option<&'a Member>,
    /// The record's kind.
    pub kind: Kind,
}

/// Makes the items of one committed record. Returns whether there are any.
pub fn project(
    conn: &Connection,
    row: &RoomRow,
    record: &VerifiedRecord,
    applied: &Applied<'_>,
    me: &str,
    watch: &[WatchRule],
) -> Result<bool, ToolError> {
    if record.actor().as_str() == me {
        return Ok(false);
    }
    let envelope = record.envelope();
    let p = envelope.payload();
    let text = |name: &str| p.get(name).and_then(Value::as_str);
    let event_id = envelope.hash().to_string();
    let summary = views::event_summary(envelope.event_type(), p);
    let base = NewItem {
        kind: "",
        seq: Some(record.seq()),
        about: &event_id,
        is_event: true,
        actor: Some(record.actor().as_str()),
        created_at: record.received_at(),
        deadline: None,
        reason: "",
        summary: &summary,
    };
    let item = |kind, reason| NewItem { kind, reason, ..base };
    let mut any = false;
    let mut told = false;

    if envelope.mentions().any(|m| m == me) {
        any |= add(conn, row, &item("room.mention", "mentioned"))?;
        told = true;
    }
    let active = applied
        .state
        .members
        .iter()
        .any(|(id, m)| id.as_str() == me && m.status == MemberStatus::Active);
    match envelope.event_type() {
        "turn.update"
            if text("speaker") == Some(me)
                && matches!(text("state").unwrap_or("assigned"), "assigned" | "handoff") =>
        {
            let deadline = p.get("expires_at").and_then(Value::as_u64);
            any |= add(
                conn,
                row,
                &NewItem { deadline, ..item("room.turn.assigned", "turn_assigned") },
            )?;
            told = true;
        }
        "steer.create" => {
            let speaks = applied.before.is_some_and(|m| {
                m.status == MemberStatus::Active && m.role.is_some_and(Role::speaks)
            });
            if speaks || text("target") == Some(me) {
                any |= add(conn, row, &item("room.steer", "steered"))?;
                told = true;
            }
        }
        "room.member.role.update" if text("member") == Some(me) => {
            let changed = applied.before.and_then(|m| m.role).map(Role::as_str) != text("role");
            if changed {
                any |= add(conn, row, &item("room.role.changed", "role_changed"))?;
            }
            told = true;
        }
        "room.member.remove" if text("member") == Some(me) => {
            let banned = p.get("ban").and_then(Value::as_bool).unwrap_or(false);
            let reason = if banned { "banned" } else { "removed" };
            any |= add(conn, row, &item("room.member.removed", reason))?;
            told = true;
        }
        "room.join.review" => {
            let request = p.get("request").unwrap_or(&Value::Null);
            if request["applicant"] == me && text("decision") == Some("approve") {
                let id = request["id"].as_str().unwrap_or_default();
                let approved = NewItem {
                    about: id,
                    is_event: false,
                    deadline: request["expires_at"].as_u64(),
                    ..item("room.join.approved", "join_request_approved")
                };
                any |= add(conn, row, &approved)?;
            }
            // Reviewed by somebody: nothing is left to review.
            if let Some(id) = request["id"].as_str() {
                settle_join_request(conn, row, id)?;
            }
            told = true;
        }
        "room.update" | "room.close" | "room.cancel" | "type.define" => {
            if active || row.baseline_seq.is_some() {
                any |= add(conn, row, &item("room.state.changed", envelope.event_type()))?;
            }
            told = true;
        }
        _ => {}
    }
    let custom = ap_protocol::event::built_in_kind(envelope.event_type()).is_none();
    if custom && watch.iter().any(|w| w.matches(&row.host, &row.room_id, envelope.event_type())) {
        any |= add(conn, row, &item("room.event.custom", "watch_rule"))?;
        told = true;
    }
    // Old messages of a room just joined are history, not news.
    let news = row.baseline_seq.is_some_and(|b| record.seq() > b) || active;
    if applied.kind == Kind::Message && !told && news {
        any |= add(conn, row, &item("room.message.new", "unread_message"))?;
    }
    Ok(any)
}

/// Takes the "please review" item of a request away once somebody reviewed it.
pub fn settle_join_request(
    conn: &Connection,
    row: &RoomRow,
    request_id: &str,
) -> Result<(), ToolError> {
    let dedupe =
        json!([row.host, row.room_id, "room.join.requested", Value::Null, request_id]).to_string();
    conn.execute(
        "UPDATE inbox SET status = 'handled' WHERE dedupe = ?1 AND status = 'pending'",
        [dedupe],
    )?;
    Ok(())
}

/// Which items a call asks for.
#[derive(Debug, Default)]
pub struct Query {
    /// Only of this room.
    pub room: Option<i64>,
    /// Only of these kinds; empty means all.
    pub kinds: Vec<String>,
    /// Most items.
    pub limit: usize,
}

impl Query {
    fn tail(&self) -> String {
        let mut sql = String::from("status = 'pending' AND defer_until <= ?1");
        if let Some(room) = self.room {
            sql.push_str(&format!(" AND room = {room}"));
        }
        if !self.kinds.is_empty() {
            // Kinds were checked against the closed list: no quoting problem.
            let list: Vec<String> = self.kinds.iter().map(|k| format!("'{k}'")).collect();
            sql.push_str(&format!(" AND kind IN ({})", list.join(",")));
        }
        sql
    }

    /// How many items wait, deferred ones left out.
    pub fn pending(&self, conn: &Connection, now_ms: u64) -> Result<u64, ToolError> {
        let sql = format!("SELECT count(*) FROM inbox WHERE {}", self.tail());
        let n: i64 = conn.query_row(&sql, [now_ms as i64], |r| r.get(0))?;
        Ok(u64::try_from(n).unwrap_or(0))
    }

    /// Items this session may take, best first.
    pub fn items(
        &self,
        conn: &Connection,
        session: &str,
        now_ms: u64,
    ) -> Result<Vec<(String, Value)>, ToolError> {
        let sql = format!(
            "SELECT id, body FROM inbox WHERE {}
             AND (claimed_by IS NULL OR claimed_by = ?2 OR claimed_until <= ?1)
             ORDER BY priority, created_at, seq, id LIMIT ?3",
            self.tail()
        );
        let mut statement = conn.prepare(&sql)?;
        let rows: Vec<(String, String)> = statement
            .query_map(params![now_ms as i64, session, self.limit as i64], |r| {
                Ok((r.get(0)?, r.get(1)?))
            })?
            .collect::<Result<_, _>>()?;
        rows.into_iter().map(|(id, body)| Ok((id, parse_json(&body)?))).collect()
    }

    /// The earliest moment at which a deferred or claimed item may show up (Unix ms).
    pub fn next_wake(&self, conn: &Connection, now_ms: u64) -> Result<Option<u64>, ToolError> {
        let at: Option<i64> = conn
            .query_row(
                "SELECT min(max(defer_until, claimed_until)) FROM inbox
                 WHERE status = 'pending' AND (defer_until > ?1 OR claimed_until > ?1)",
                [now_ms as i64],
                |r| r.get(0),
            )
            .optional()?
            .flatten();
        Ok(at.map(|t| u64::try_from(t).unwrap_or(0)))
    }
}

/// Leases items to a session.
pub fn claim(
    conn: &Connection,
    ids: &[String],
    session: &str,
    until: u64,
) -> Result<(), ToolError> {
    let mut statement =
        conn.prepare_cached("UPDATE inbox SET claimed_by = ?2, claimed_until = ?3 WHERE id = ?1")?;
    for id in ids {
        statement.execute(params![id, session, until as i64])?;
    }
    Ok(())
}

/// Gives leases back.
pub fn release(conn: &Connection, ids: &[String], session: &str) -> Result<(), ToolError> {
    let mut statement = conn.prepare_cached(
        "UPDATE inbox SET claimed_by = NULL, claimed_until = 0 WHERE id = ?1 AND claimed_by = ?2",
    )?;
    for id in ids {
        statement.execute([id.as_str(), session])?;
    }
    Ok(())
}

/// Acknowledges or defers one item. Returns whether the id is known.
pub fn acknowledge(
    conn: &Connection,
    id: &str,
    action: &str,
    defer_until: u64,
) -> Result<bool, ToolError> {
    let changed = if action == "defer" {
        conn.execute(
            "UPDATE inbox SET defer_until = ?2, claimed_by = NULL, claimed_until = 0
             WHERE id = ?1 AND status = 'pending'",
            params![id, defer_until as i64],
        )?
    } else {
        conn.execute(
            "UPDATE inbox SET status = ?2, claimed_by = NULL, claimed_until = 0
             WHERE id = ?1 AND status = 'pending'",
            [id, action],
        )?
    };
    if changed > 0 {
        return Ok(true);
    }
    Ok(conn.prepare_cached("SELECT 1 FROM inbox WHERE id = ?1")?.exists([id])?)
}

/// All waiting items, for the resource.
pub fn pending_items(conn: &Connection, now_ms: u64) -> Result<Vec<Value>, ToolError> {
    let query = Query { limit: 500, ..Query::default() };
    let sql = format!(
        "SELECT body FROM inbox WHERE {} ORDER BY priority, created_at, seq, id LIMIT ?2",
        query.tail()
    );
    let mut statement = conn.prepare(&sql)?;
    let rows: Vec<String> = statement
        .query_map(params![now_ms as i64, query.limit as i64], |r| r.get(0))?
        .collect::<Result<_, _>>()?;
    rows.iter().map(|body| parse_json(body)).collect()
}
