//! Join requests (ADP 11): filing, reading, reviewing, consuming, expiring.

use ap_protocol::room::Role;
use ap_protocol::{AgentId, ErrorCode, Hash, VerifiedEnvelope};
use serde_json::{Map, Value, json};

use super::live::join_request_item;
use super::room::RoomInner;
use crate::answer::{Answer, Refusal};
use crate::host::HostInner;
use crate::serve::{Exchange, page};
use crate::sync::lock;

/// A filed request with its fate.
#[derive(Debug, Clone)]
pub(crate) struct JoinRequest {
    /// The immutable object that a review signs.
    pub request: Value,
    /// `pending`, `approved` or `rejected`; expiry is a matter of time.
    pub status: &'static str,
    pub approved_role: Option<Role>,
    pub review_reason: Option<Value>,
    pub reviewed_by: Option<AgentId>,
    pub reviewed_at: Option<u64>,
    /// Consumed by a join.
    pub used: bool,
}

impl JoinRequest {
    pub(crate) fn status_at(&self, now: u64) -> &'static str {
        let expired = self.request["expires_at"].as_u64().is_some_and(|end| now >= end);
        if expired && self.status != "rejected" { "expired" } else { self.status }
    }

    pub(crate) fn view(&self, now: u64) -> Value {
        let mut v = json!({ "request": self.request, "status": self.status_at(now) });
        if let Some(role) = self.approved_role {
            v["approved_role"] = json!(role);
        }
        for (name, value) in [
            ("review_reason", self.review_reason.clone()),
            ("reviewed_by", self.reviewed_by.as_ref().map(|a| json!(a))),
            ("reviewed_at", self.reviewed_at.map(|t| json!(t))),
        ] {
            if let Some(value) = value {
                v[name] = value;
            }
        }
        v
    }

    /// As it is kept in a store.
    pub(crate) fn to_stored(&self) -> Value {
        json!({
            "request": self.request, "status": self.status, "approved_role": self.approved_role,
            "review_reason": self.review_reason, "reviewed_by": self.reviewed_by,
            "reviewed_at": self.reviewed_at, "used": self.used,
        })
    }

    /// From a store; none when that is damaged.
    pub(crate) fn of_stored(v: &Value) -> Option<Self> {
        Some(JoinRequest {
            request: v["request"].as_object().map(|r| Value::Object(r.clone()))?,
            status: ["pending", "approved", "rejected"].into_iter().find(|s| v["status"] == *s)?,
            approved_role: v["approved_role"].as_str().and_then(Role::from_text),
            review_reason: v.get("review_reason").filter(|r| !r.is_null()).cloned(),
            reviewed_by: v["reviewed_by"].as_str().and_then(|a| AgentId::parse(a).ok()),
            reviewed_at: v["reviewed_at"].as_u64(),
            used: v["used"].as_bool()?,
        })
    }

    fn applicant(&self) -> &str {
        self.request["applicant"].as_str().unwrap_or_default()
    }
}

/// `POST /v1/rooms/{room_id}/join-requests`
pub(crate) fn post(host: &HostInner, ex: &Exchange) -> Result<Answer, Refusal> {
    let agent = super::signed_in(ex)?.clone();
    let room = host.room(&ex.target.first)?;
    let input = ex.object_body()?;
    let (role, fields) = read_input(input)?;
    let mut inner = lock(&room.inner);
    let r = &mut *inner;
    match r.status_at(ex.now).as_str() {
        "ended" => return Err(Refusal::new(ErrorCode::RoomEnded, "the room has ended")),
        "cancelled" => {
            return Err(Refusal::new(ErrorCode::RoomNotActive, "the room was cancelled"));
        }
        _ => {}
    }
    if r.state.active_member(&agent).is_some() {
        return Err(Refusal::new(ErrorCode::InvalidEvent, "the agent is an active member already"));
    }
    let banned = r.state.bans.contains(&agent);
    let public = r.state.visibility() == "public";
    let alone = r.state.check_role(&agent, role, false);
    // Whether somebody else could approve it. A moderator role may be asked for; an observer
    // in a room without observers may not.
    let possible = r.state.check_role(&agent, role, true);
    if let Err(rejection) = possible
        && rejection.code == ErrorCode::RoleNotAllowed
    {
        return Err(rejection.into());
    }
    if public && !banned && role != Role::Moderator {
        alone.clone().map_err(Refusal::from)?;
    }
    let approved = public && !banned && alone.is_ok();
    let id = host.next_id("request");
    let mut request = json!({
        "id": id, "room_id": room.id, "applicant": agent, "role": role,
        "created_at": ex.now, "expires_at": ex.now + host.config.join_request_ttl_ms,
        "extra": {},
    });
    for (name, value) in fields {
        request[name.as_str()] = value;
    }
    let filed = JoinRequest {
        status: if approved { "approved" } else { "pending" },
        approved_role: approved.then_some(role),
        review_reason: None,
        reviewed_by: None,
        reviewed_at: approved.then_some(ex.now),
        used: false,
        request,
    };
    host.store_request(&room.id, &filed);
    if !approved {
        let item = join_request_item(&room.id, &filed.request);
        room.live.notify("room.join_request", &item, |a| r.state.moderates(a));
    }
    let view = filed.view(ex.now);
    r.requests.insert(id, filed);
    Ok(Answer::json(view))
}

fn read_input(input: &Map<String, Value>) -> Result<(Role, Map<String, Value>), Refusal> {
    let bad = |what: &str| Refusal::bad_request(format!("join request: {what}"));
    let mut fields = Map::new();
    for (name, value) in input {
        match (name.as_str(), value) {
            ("role", _) => {}
            ("perspective" | "reason", Value::String(_)) | ("extra", Value::Object(_)) => {
                fields.insert(name.clone(), value.clone());
            }
            ("perspective" | "reason", _) => return Err(bad(&format!("{name} is a string"))),
            ("extra", _) => return Err(bad("extra is an object")),
            _ => return Err(bad(&format!("unknown member {name:?}"))),
        }
    }
    let role = input
        .get("role")
        .and_then(Value::as_str)
        .and_then(Role::from_text)
        .ok_or_else(|| bad("role is moderator, speaker or observer"))?;
    Ok((role, fields))
}

/// `GET /v1/rooms/{room_id}/join-requests`
pub(crate) fn list(host: &HostInner, ex: &Exchange) -> Result<Answer, Refusal> {
    let agent = super::signed_in(ex)?;
    let room = host.room(&ex.target.first)?;
    let inner = lock(&room.inner);
    if !reviews(&inner, agent) {
        return Err(Refusal::new(
            ErrorCode::PermissionDenied,
            "join requests are listed for the creator and moderators",
        ));
    }
    let status = ex.query("status");
    if let Some(s) = &status
        && !matches!(s.as_str(), "pending" | "approved" | "rejected" | "expired")
    {
        return Err(Refusal::bad_request("status is pending, approved, rejected or expired"));
    }
    let mut found: Vec<(String, Value)> = inner
        .requests
        .values()
        .filter(|r| status.as_deref().is_none_or(|s| s == r.status_at(ex.now)))
        .map(|r| {
            let key = format!(
                "{:016}/{}",
                r.request["created_at"].as_u64().unwrap_or(0),
                r.request["id"].as_str().unwrap_or_default()
            );
            (key, r.view(ex.now))
        })
        .collect();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    page(host, ex, found, 50, 200)
}

/// `GET /v1/rooms/{room_id}/join-requests/{request_id}`
pub(crate) fn read(host: &HostInner, ex: &Exchange) -> Result<Answer, Refusal> {
    let agent = super::signed_in(ex)?;
    let room = host.room(&ex.target.first)?;
    let inner = lock(&room.inner);
    let not_found = || Refusal::new(ErrorCode::JoinRequestNotFound, "no such join request");
    let request = inner.requests.get(&ex.target.second).ok_or_else(not_found)?;
    if request.applicant() != agent.as_str() && !reviews(&inner, agent) {
        return Err(Refusal::new(
            ErrorCode::PermissionDenied,
            "a join request is read by its applicant and by reviewers",
        ));
    }
    Ok(Answer::json(request.view(ex.now)))
}

fn reviews(inner: &RoomInner, agent: &AgentId) -> bool {
    *agent == inner.state.creator || inner.state.moderates(agent)
}

/// What the host knows and replay does not: the stored request behind a join or a review.
pub(crate) fn check(r: &RoomInner, envelope: &VerifiedEnvelope, now: u64) -> Result<(), Refusal> {
    let p = envelope.payload();
    match envelope.event_type() {
        "room.join" => {
            let Some(id) = p.get("request_id").and_then(Value::as_str) else { return Ok(()) };
            let Some(request) =
                r.requests.get(id).filter(|q| q.applicant() == envelope.actor().as_str())
            else {
                return Err(Refusal::new(
                    ErrorCode::JoinRequestNotFound,
                    "this agent has no join request of that id",
                ));
            };
            if r.state.bans.contains(envelope.actor()) {
                return Err(Refusal::new(ErrorCode::MemberBanned, "the agent is banned"));
            }
            match request.status_at(now) {
                "expired" => {
                    Err(Refusal::new(ErrorCode::JoinRequestExpired, "the join request expired"))
                }
                "approved" if request.used => Err(Refusal::new(
                    ErrorCode::JoinRequestNotApproved,
                    "the join request was used already; joining again needs a new one",
                )),
                "approved" if request.approved_role.map(Role::as_str) != p["role"].as_str() => {
                    Err(Refusal::new(
                        ErrorCode::JoinRequestRoleMismatch,
                        "the role must be the approved one",
                    ))
                }
                "approved" => Ok(()),
                _ => Err(Refusal::new(
                    ErrorCode::JoinRequestNotApproved,
                    "the join request is not approved",
                )),
            }
        }
        "room.join.review" if reviews(r, envelope.actor()) => {
            let id = p["request"]["id"].as_str().unwrap_or_default();
            let Some(request) = r.requests.get(id) else {
                return Err(Refusal::new(ErrorCode::JoinRequestNotFound, "no such join request"));
            };
            if Hash::of_value(&request.request) != Hash::of_value(&p["request"]) {
                return Err(Refusal::new(
                    ErrorCode::InvalidEvent,
                    "payload.request: differs from the stored join request",
                ));
            }
            match request.status_at(now) {
                "expired" => {
                    Err(Refusal::new(ErrorCode::JoinRequestExpired, "the join request expired"))
                }
                _ if request.used => {
                    Err(Refusal::new(ErrorCode::InvalidEvent, "the join request was used already"))
                }
                _ => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

/// What an accepted join or review does to the stored requests.
pub(crate) fn settle(host: &HostInner, r: &mut RoomInner, envelope: &VerifiedEnvelope, now: u64) {
    let p = envelope.payload();
    let changed = match envelope.event_type() {
        "room.join" => p.get("request_id").and_then(Value::as_str).and_then(|id| {
            let request = r.requests.get_mut(id)?;
            request.used = true;
            Some(request)
        }),
        "room.join.review" => p["request"]["id"].as_str().and_then(|id| {
            let request = r.requests.get_mut(id)?;
            let approve = p["decision"] == "approve";
            request.status = if approve { "approved" } else { "rejected" };
            request.approved_role =
                p.get("role").and_then(Value::as_str).and_then(Role::from_text).filter(|_| approve);
            request.review_reason = p.get("reason").cloned();
            request.reviewed_by = Some(envelope.actor().clone());
            request.reviewed_at = Some(now);
            Some(request)
        }),
        _ => None,
    };
    if let Some(request) = changed {
        let request = request.clone();
        host.store_request(&r.state.room_id, &request);
    }
}
