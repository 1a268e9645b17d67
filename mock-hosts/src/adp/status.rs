//! Transient agent status (ADP 17.4): not an event, no seq, never archived, gone in minutes.

use ap_protocol::room::Role;
use ap_protocol::{AgentId, ErrorCode, Hash};
use serde_json::{Value, json};

use super::room::{Part, Room, RoomInner};
use crate::answer::{Answer, Refusal};
use crate::host::HostInner;
use crate::serve::Exchange;
use crate::sync::lock;

fn live_at(status: &Value, now: u64) -> bool {
    status["expires_at"].as_u64().is_some_and(|end| now < end)
}

/// `GET /v1/rooms/{room_id}/agent-status`
pub(crate) fn list(host: &HostInner, ex: &Exchange) -> Result<Answer, Refusal> {
    let room = host.room(&ex.target.first)?;
    let inner = lock(&room.inner);
    super::read::allowed(ex, &inner, Part::Inside)?;
    let statuses: Vec<&Value> = inner.statuses.values().filter(|s| live_at(s, ex.now)).collect();
    Ok(Answer::json(json!({ "statuses": statuses })))
}

/// `GET /v1/rooms/{room_id}/agent-status/{agent_id}`
pub(crate) fn read(host: &HostInner, ex: &Exchange) -> Result<Answer, Refusal> {
    let room = host.room(&ex.target.first)?;
    let inner = lock(&room.inner);
    super::read::allowed(ex, &inner, Part::Inside)?;
    let agent = AgentId::parse(&ex.target.second)
        .map_err(|e| Refusal::bad_request(format!("not an Agent ID: {e}")))?;
    match inner.statuses.get(&agent).filter(|s| live_at(s, ex.now)) {
        Some(status) => Ok(Answer::json(json!({ "status": status }))),
        None => Err(Refusal::new(ErrorCode::AgentStatusNotFound, "no current status")),
    }
}

/// `PUT /v1/rooms/{room_id}/agent-status`
pub(crate) fn put(host: &HostInner, ex: &Exchange) -> Result<Answer, Refusal> {
    let agent = super::signed_in(ex)?.clone();
    let room = host.room(&ex.target.first)?;
    let input = ex.object_body()?;
    let bad = |what: String| Refusal::bad_request(format!("agent status: {what}"));
    for (name, value) in input {
        let fits = match name.as_str() {
            "state" => value.as_str().is_some_and(|s| !s.is_empty()),
            "summary" | "claim_id" | "activity" => value.is_string(),
            "seen_seq" | "expires_at" => value.is_u64(),
            "seen_hash" => value.as_str().is_some_and(|t| Hash::parse(t).is_ok()),
            "extra" => value.is_object(),
            _ => return Err(bad(format!("unknown member {name:?}"))),
        };
        if !fits {
            return Err(bad(format!("{name} has the wrong type")));
        }
    }
    if !input.contains_key("state") {
        return Err(bad("state is required".to_owned()));
    }
    let mut inner = lock(&room.inner);
    match inner.status_at(ex.now).as_str() {
        "ended" => return Err(Refusal::new(ErrorCode::RoomEnded, "the room has ended")),
        "cancelled" => {
            return Err(Refusal::new(ErrorCode::RoomNotActive, "the room was cancelled"));
        }
        _ => {}
    }
    match inner.state.active_member(&agent).map(|m| m.role) {
        None => {
            return Err(Refusal::new(
                ErrorCode::MembershipRequired,
                "status is written by active members",
            ));
        }
        Some(role) if !role.is_some_and(Role::speaks) => {
            return Err(Refusal::new(
                ErrorCode::PermissionDenied,
                "status is written by moderators and speakers",
            ));
        }
        Some(_) => {}
    }
    let most = ex.now + host.config.status_ttl_max_ms;
    let expires_at = input.get("expires_at").and_then(Value::as_u64).unwrap_or(most).min(most);
    let mut status = Value::Object(input.clone());
    status["room_id"] = json!(room.id);
    status["agent_id"] = json!(agent);
    status["expires_at"] = json!(expires_at);
    status["updated_at"] = json!(ex.now);
    if expires_at <= ex.now {
        inner.statuses.remove(&agent);
    } else {
        inner.statuses.insert(agent, status.clone());
    }
    room.live.notify("room.agent_status", &status, |_| true);
    Ok(Answer::json(status))
}

/// Whoever left, was removed or became an observer has no status any more; neither has
/// anybody in a room that is over.
pub(crate) fn settle(_host: &HostInner, room: &Room, r: &mut RoomInner, now: u64) {
    let over = matches!(r.status_at(now).as_str(), "ended" | "cancelled");
    let state = &r.state;
    let mut cleared = Vec::new();
    r.statuses.retain(|agent, status| {
        let speaks = state.active_member(agent).is_some_and(|m| m.role.is_some_and(Role::speaks));
        let keep = speaks && !over;
        if !keep && live_at(status, now) {
            let mut gone = status.clone();
            gone["expires_at"] = json!(now);
            gone["updated_at"] = json!(now);
            cleared.push(gone);
        }
        keep
    });
    for status in cleared {
        room.live.notify("room.agent_status", &status, |_| true);
    }
}
