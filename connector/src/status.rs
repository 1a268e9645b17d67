//! Transient agent status: read, written and remembered, never part of records or replay.

use ap_protocol::AgentId;
use rusqlite::{Connection, OptionalExtension, params};
use serde_json::{Map, Value, json};

use crate::core::{Change, Core};
use crate::error::ToolError;
use crate::http::Request;
use crate::store::{RoomRow, parse_json};

/// AgentStatus from what a host sent; none when it is malformed or of another room.
fn view(row: &RoomRow, status: &Value) -> Option<(AgentId, u64, Value)> {
    let agent = AgentId::parse(status["agent_id"].as_str()?).ok()?;
    if status["room_id"].as_str().is_some_and(|r| r != row.room_id) {
        return None;
    }
    let expires_at = status["expires_at"].as_u64()?;
    let state = status["state"].as_str()?;
    let get = |name: &str| status.get(name).cloned().unwrap_or(Value::Null);
    let view = json!({
        "room_id": row.room_id, "host": row.host, "agent_id": agent, "state": state,
        "summary": get("summary"), "seen_seq": get("seen_seq"), "seen_hash": get("seen_hash"),
        "claim_id": get("claim_id"), "activity": get("activity"), "expires_at": expires_at,
        "updated_at": get("updated_at"),
        "extra": if status["extra"].is_object() { get("extra") } else { json!({}) },
    });
    Some((agent, expires_at, view))
}

/// Remembers a status that a stream or an answer brought. Returns whether it was usable.
///
/// # Errors
/// `store_error`.
pub fn remember(core: &Core, row: &RoomRow, status: &Value) -> Result<bool, ToolError> {
    let Some((agent, expires_at, view)) = view(row, status) else { return Ok(false) };
    let now = core.clock.now_ms();
    core.store.write(|tx| {
        if expires_at <= now {
            tx.execute(
                "DELETE FROM agent_status WHERE room = ?1 AND agent_id = ?2",
                params![row.id, agent.as_str()],
            )?;
        } else {
            tx.execute(
                "INSERT INTO agent_status(room, agent_id, body, expires_at) VALUES(?1, ?2, ?3, ?4)
                 ON CONFLICT(room, agent_id) DO UPDATE SET body = excluded.body, expires_at = excluded.expires_at",
                params![row.id, agent.as_str(), view.to_string(), expires_at as i64],
            )?;
        }
        Ok(true)
    })
}

/// Remembered, unexpired statuses of a room.
///
/// # Errors
/// `store_error`.
pub fn cached(conn: &Connection, row: &RoomRow, now_ms: u64) -> Result<Vec<Value>, ToolError> {
    let mut statement = conn.prepare_cached(
        "SELECT body FROM agent_status WHERE room = ?1 AND expires_at > ?2 ORDER BY agent_id",
    )?;
    let rows: Vec<String> = statement
        .query_map(params![row.id, now_ms as i64], |r| r.get(0))?
        .collect::<Result<_, _>>()?;
    rows.iter().map(|t| parse_json(t)).collect()
}

/// The remembered, unexpired status of one agent.
///
/// # Errors
/// `store_error`.
pub fn cached_of(
    conn: &Connection,
    row: &RoomRow,
    agent: &AgentId,
    now_ms: u64,
) -> Result<Option<Value>, ToolError> {
    let text: Option<String> = conn
        .prepare_cached(
            "SELECT body FROM agent_status WHERE room = ?1 AND agent_id = ?2 AND expires_at > ?3",
        )?
        .query_row(params![row.id, agent.as_str(), now_ms as i64], |r| r.get(0))
        .optional()?;
    text.map(|t| parse_json(&t)).transpose()
}

impl Core {
    /// Reads every current status from the host.
    ///
    /// # Errors
    /// The protocol's code.
    pub async fn read_statuses(&self, row: &RoomRow) -> Result<(), ToolError> {
        let host = self.http.host(&row.host)?;
        let reply = self.read_room_path(row, &host, &["agent-status"], &[]).await?;
        if let Some(e) = reply.error() {
            return Err(e.and("host", row.host.as_str()));
        }
        let list = match &reply.body {
            Value::Array(items) => items.clone(),
            body => ["statuses", "result"]
                .iter()
                .find_map(|n| body[*n].as_array().cloned())
                .ok_or_else(|| {
                    ToolError::new("bad_response", "the host's status list is no list")
                })?,
        };
        self.store.write(|tx| {
            tx.execute("DELETE FROM agent_status WHERE room = ?1", [row.id])?;
            Ok::<_, ToolError>(())
        })?;
        for status in &list {
            remember(self, row, status)?;
        }
        Ok(())
    }

    /// Reads one agent's status from the host; none when it has none.
    ///
    /// # Errors
    /// The protocol's code.
    pub async fn read_status(&self, row: &RoomRow, agent: &AgentId) -> Result<(), ToolError> {
        let host = self.http.host(&row.host)?;
        let reply = self.read_room_path(row, &host, &["agent-status", agent.as_str()], &[]).await?;
        match reply.error() {
            Some(e) if e.code == "agent_status_not_found" => self.forget_status(row, agent),
            Some(e) => Err(e.and("host", row.host.as_str())),
            None => {
                let body = &reply.body;
                let status = if body["status"].is_object() { &body["status"] } else { body };
                if status["agent_id"] != agent.as_str() || !remember(self, row, status)? {
                    return Err(ToolError::new("bad_response", "the host's status is not usable"));
                }
                Ok(())
            }
        }
    }

    fn forget_status(&self, row: &RoomRow, agent: &AgentId) -> Result<(), ToolError> {
        self.store.write(|tx| {
            tx.execute(
                "DELETE FROM agent_status WHERE room = ?1 AND agent_id = ?2",
                params![row.id, agent.as_str()],
            )?;
            Ok(())
        })
    }

    /// Sets this agent's own status: a request under a JWT, no event. `seen` is the latest seq
    /// the agent has read or was shown.
    ///
    /// # Errors
    /// The protocol's code.
    pub async fn set_status(
        &self,
        row: &RoomRow,
        seen: u64,
        mut body: Map<String, Value>,
    ) -> Result<Value, ToolError> {
        let host = self.http.host(&row.host)?;
        let (has_seq, has_hash) = (body.contains_key("seen_seq"), body.contains_key("seen_hash"));
        if !has_seq && has_hash {
            return Err(ToolError::input("/seen_seq", "seen_hash needs seen_seq"));
        }
        if !has_hash {
            // What the agent has read is what it has seen.
            let seq = body.get("seen_seq").and_then(crate::args::integer).unwrap_or(seen);
            if let Some(record) = self.store.read(|c| row.record(c, seq))? {
                body.insert("seen_seq".to_owned(), json!(seq));
                body.insert("seen_hash".to_owned(), json!(record.hash));
            }
        }
        let body = Value::Object(body);
        let path = ["v1", "rooms", row.room_id.as_str(), "agent-status"];
        let request = Request {
            method: reqwest::Method::PUT,
            path: &path,
            query: &[],
            body: Some(&body),
            auth: true,
        };
        let answer = self.http.call(&host, &request).await?;
        let status = if answer["status"].is_object() { answer["status"].clone() } else { answer };
        let Some((agent, _, shown)) = view(row, &status) else {
            return Err(ToolError::new("bad_response", "the host's status is not usable"));
        };
        if agent != *self.me() {
            return Err(ToolError::new(
                "bad_response",
                "the host stored the status of another agent",
            ));
        }
        remember(self, row, &status)?;
        self.announce([Change::AgentStatus {
            host: row.host.clone(),
            room_id: row.room_id.clone(),
        }]);
        Ok(shown)
    }
}
