//! Closed shapes of APP and ADP events: what may stand where, before anything is hashed.
//!
//! Shape only: authority, state and registry are judged by [`crate::room`].

use serde_json::{Map, Value};

use crate::{AgentId, DISCOURSE_PROTOCOL, Hash, MAX_MENTIONS, MAX_SAFE_INTEGER, PROFILE_PROTOCOL};

/// Where an event departs from its closed shape.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{message}", if path.is_empty() { String::new() } else { format!("{path}: ") })]
pub struct ShapeError {
    /// Member path, dot separated, empty for the whole.
    pub path: String,
    /// What is wrong there.
    pub message: String,
}

impl ShapeError {
    pub(crate) fn new(path: &str, message: &str) -> Self {
        ShapeError { path: path.to_owned(), message: message.to_owned() }
    }
}

/// How a type stands to the room head (ADP 6.1, 13.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Room life: create, update, close, cancel.
    Lifecycle,
    /// Rules of the room: `type.define` and custom control types.
    Control,
    /// Talk: `message.create` and custom message types.
    Message,
    /// Membership and custom signals: anchored, never moving the head.
    Signal,
}

impl Kind {
    /// Whether an accepted event of this kind becomes the room head.
    pub fn advances_head(self) -> bool {
        self != Kind::Signal
    }

    /// Text used in views and definitions.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Lifecycle => "lifecycle",
            Kind::Control => "control",
            Kind::Message => "message",
            Kind::Signal => "signal",
        }
    }
}

/// The eleven built-in types with their kinds.
pub const BUILT_IN: &[(&str, Kind)] = &[
    ("room.create", Kind::Lifecycle),
    ("room.update", Kind::Lifecycle),
    ("room.close", Kind::Lifecycle),
    ("room.cancel", Kind::Lifecycle),
    ("type.define", Kind::Control),
    ("message.create", Kind::Message),
    ("room.join", Kind::Signal),
    ("room.join.review", Kind::Signal),
    ("room.leave", Kind::Signal),
    ("room.member.role.update", Kind::Signal),
    ("room.member.remove", Kind::Signal),
];

/// The kind of a built-in type.
pub fn built_in_kind(event_type: &str) -> Option<Kind> {
    BUILT_IN.iter().find(|(name, _)| *name == event_type).map(|(_, kind)| *kind)
}

/// Whether the type is one of the five that change membership.
pub fn is_membership(event_type: &str) -> bool {
    built_in_kind(event_type) == Some(Kind::Signal)
}

/// Whether `name` can be a custom type: lowercase, at least two dotted parts, not in a
/// reserved family, not built in.
pub fn is_custom_type_name(name: &str) -> bool {
    name.len() <= 128
        && name.contains('.')
        && built_in_kind(name).is_none()
        && !name.starts_with("room.")
        && !name.starts_with("type.")
        && name.split('.').all(|part| {
            part.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
                && part
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_')
        })
}

/// Members every event has, already checked.
pub(crate) struct Common<'a> {
    pub actor: &'a str,
    pub nonce: u64,
    pub created_at: u64,
}

/// Checks the closed shape of an APP or ADP event.
pub(crate) fn check(event: &Map<String, Value>) -> Result<Common<'_>, ShapeError> {
    let protocol = string(event, "protocol")?;
    let event_type = string(event, "type")?;
    let actor = string(event, "actor")?;
    let created_at = integer(event, "created_at", 0)?;
    let nonce = integer(event, "nonce", 1)?;
    let payload = object(event, "payload")?;
    match protocol {
        PROFILE_PROTOCOL => {
            only(event, "", &["protocol", "type", "actor", "created_at", "nonce", "payload"])?;
            if event_type != "profile.update" {
                return Err(ShapeError::new("type", "a profile event is a profile.update"));
            }
            crate::profile::check_payload(payload, actor)?;
        }
        DISCOURSE_PROTOCOL => check_discourse(event, event_type, payload)?,
        _ => return Err(ShapeError::new("protocol", "unknown protocol")),
    }
    Ok(Common { actor, nonce, created_at })
}

fn check_discourse(
    event: &Map<String, Value>,
    event_type: &str,
    payload: &Map<String, Value>,
) -> Result<(), ShapeError> {
    let base = ["protocol", "type", "actor", "created_at", "nonce", "payload"];
    if event_type == "room.create" {
        only(event, "", &base)?;
    } else {
        let mut allowed = base.to_vec();
        allowed.extend(["room_id", "base_seq", "base_hash", "mentions"]);
        only(event, "", &allowed)?;
        not_empty(event, "room_id")?;
        integer(event, "base_seq", 1)?;
        hash(event, "base_hash")?;
        if event.contains_key("mentions") {
            let mentions = agents(event, "mentions")?;
            if mentions > MAX_MENTIONS {
                return Err(ShapeError::new("mentions", "more than 32 mentions"));
            }
        }
    }
    if built_in_kind(event_type).is_none() && !is_custom_type_name(event_type) {
        return Err(ShapeError::new("type", "not a type name"));
    }
    check_payload(event_type, payload).map_err(|mut e| {
        e.path = if e.path.is_empty() { "payload".into() } else { format!("payload.{}", e.path) };
        e
    })
}

/// Checks the payload of a built-in type. Custom payloads are judged by their schema.
///
/// # Errors
/// The path inside the payload and what is wrong there.
pub fn check_payload(event_type: &str, p: &Map<String, Value>) -> Result<(), ShapeError> {
    match event_type {
        "room.create" => {
            only(
                p,
                "",
                &[
                    "topic",
                    "visibility",
                    "start_time",
                    "end_time",
                    "agenda",
                    "guidance",
                    "tags",
                    "language",
                    "policy",
                    "types",
                    "extra",
                ],
            )?;
            not_blank(p, "topic")?;
            one_of(p, "visibility", &["public", "restricted", "private"])?;
            let (start, end) = (integer(p, "start_time", 0)?, integer(p, "end_time", 0)?);
            if start >= end {
                return Err(ShapeError::new("end_time", "must be after start_time"));
            }
            contract(p)?;
            if let Some(types) = p.get("types") {
                let types = types.as_array().ok_or_else(|| ShapeError::new("types", "an array"))?;
                for (i, declaration) in types.iter().enumerate() {
                    let declaration = declaration
                        .as_object()
                        .ok_or_else(|| ShapeError::new(&format!("types.{i}"), "an object"))?;
                    crate::registry::check_declaration(declaration).map_err(|mut e| {
                        e.path = format!("types.{i}.{}", e.path);
                        e
                    })?;
                }
            }
            Ok(())
        }
        "room.update" => {
            only(
                p,
                "",
                &[
                    "topic",
                    "agenda",
                    "guidance",
                    "tags",
                    "language",
                    "policy",
                    "start_time",
                    "end_time",
                ],
            )?;
            if p.is_empty() {
                return Err(ShapeError::new("", "an update changes something"));
            }
            if p.contains_key("topic") {
                not_blank(p, "topic")?;
            }
            for name in ["start_time", "end_time"] {
                if p.contains_key(name) {
                    integer(p, name, 0)?;
                }
            }
            contract(p)
        }
        "room.close" | "room.cancel" | "room.leave" => {
            only(p, "", &["reason", "references", "extra"])?;
            optional_string(p, "reason")?;
            references(p)?;
            optional_object(p, "extra")
        }
        "type.define" => crate::registry::check_declaration(p),
        "message.create" => {
            only(p, "", &["content_type", "content", "references", "extra"])?;
            not_empty(p, "content_type")?;
            match p.get("content") {
                Some(Value::String(_) | Value::Object(_)) => {}
                _ => return Err(ShapeError::new("content", "required, a string or an object")),
            }
            references(p)?;
            optional_object(p, "extra")
        }
        "room.join" => {
            role(p, "role")?;
            if p.contains_key("request_id") {
                only(p, "", &["role", "request_id"])?;
                not_empty(p, "request_id").map(|_| ())
            } else {
                only(p, "", &["role", "perspective"])?;
                optional_string(p, "perspective")
            }
        }
        "room.join.review" => {
            only(p, "", &["request", "decision", "role", "reason", "extra"])?;
            let request = object(p, "request")?;
            check_join_request(request).map_err(|mut e| {
                e.path = format!("request.{}", e.path);
                e
            })?;
            let decision = one_of(p, "decision", &["approve", "reject"])?;
            // A rejection may still name the role it was about.
            if decision == "approve" || p.contains_key("role") {
                role(p, "role")?;
            }
            optional_string(p, "reason")?;
            optional_object(p, "extra")
        }
        "room.member.role.update" => {
            only(p, "", &["member", "role", "reason", "extra"])?;
            agent(p, "member")?;
            role(p, "role")?;
            optional_string(p, "reason")?;
            optional_object(p, "extra")
        }
        "room.member.remove" => {
            only(p, "", &["member", "ban", "reason", "references", "extra"])?;
            agent(p, "member")?;
            if p.get("ban").is_some_and(|v| !v.is_boolean()) {
                return Err(ShapeError::new("ban", "a boolean"));
            }
            optional_string(p, "reason")?;
            references(p)?;
            optional_object(p, "extra")
        }
        _ => Ok(()),
    }
}

/// The immutable join request object that a review signs (ADP 11).
///
/// # Errors
/// The path inside the request and what is wrong there.
pub fn check_join_request(r: &Map<String, Value>) -> Result<(), ShapeError> {
    only(
        r,
        "",
        &[
            "id",
            "room_id",
            "applicant",
            "role",
            "perspective",
            "reason",
            "created_at",
            "expires_at",
            "extra",
        ],
    )?;
    not_empty(r, "id")?;
    not_empty(r, "room_id")?;
    agent(r, "applicant")?;
    role(r, "role")?;
    optional_string(r, "perspective")?;
    optional_string(r, "reason")?;
    integer(r, "created_at", 0)?;
    integer(r, "expires_at", 0)?;
    optional_object(r, "extra")
}

/// Contract members that `room.create` and `room.update` share.
fn contract(p: &Map<String, Value>) -> Result<(), ShapeError> {
    for name in ["agenda", "guidance", "language"] {
        optional_string(p, name)?;
    }
    if let Some(tags) = p.get("tags") {
        let ok = tags.as_array().is_some_and(|tags| tags.iter().all(Value::is_string));
        if !ok {
            return Err(ShapeError::new("tags", "an array of strings"));
        }
    }
    optional_object(p, "extra")?;
    let Some(policy) = p.get("policy") else { return Ok(()) };
    let bad = |name: &str, message: &str| ShapeError::new(&format!("policy.{name}"), message);
    let policy = policy.as_object().ok_or_else(|| ShapeError::new("policy", "an object"))?;
    for name in policy.keys() {
        if !matches!(
            name.as_str(),
            "moderator_agent_ids" | "max_speakers" | "observer_allowed" | "extra"
        ) {
            return Err(bad(name, "unknown member"));
        }
    }
    if policy.contains_key("moderator_agent_ids") {
        agents(policy, "moderator_agent_ids")
            .map_err(|e| bad("moderator_agent_ids", &e.message))?;
    }
    if policy.contains_key("max_speakers") {
        integer(policy, "max_speakers", 1).map_err(|e| bad("max_speakers", &e.message))?;
    }
    if policy.get("observer_allowed").is_some_and(|v| !v.is_boolean()) {
        return Err(bad("observer_allowed", "a boolean"));
    }
    optional_object(policy, "extra").map_err(|e| bad("extra", &e.message))
}

// Small readers: each names the member it could not read.

pub(crate) fn only(m: &Map<String, Value>, at: &str, allowed: &[&str]) -> Result<(), ShapeError> {
    match m.keys().find(|name| !allowed.contains(&name.as_str())) {
        Some(name) if at.is_empty() => Err(ShapeError::new(name, "unknown member")),
        Some(name) => Err(ShapeError::new(&format!("{at}.{name}"), "unknown member")),
        None => Ok(()),
    }
}

pub(crate) fn string<'a>(m: &'a Map<String, Value>, name: &str) -> Result<&'a str, ShapeError> {
    m.get(name).and_then(Value::as_str).ok_or_else(|| ShapeError::new(name, "required, a string"))
}

pub(crate) fn not_blank<'a>(m: &'a Map<String, Value>, name: &str) -> Result<&'a str, ShapeError> {
    let text = string(m, name)?;
    if text.trim().is_empty() {
        return Err(ShapeError::new(name, "must not be blank"));
    }
    Ok(text)
}

pub(crate) fn not_empty<'a>(m: &'a Map<String, Value>, name: &str) -> Result<&'a str, ShapeError> {
    let text = string(m, name)?;
    if text.is_empty() {
        return Err(ShapeError::new(name, "must not be empty"));
    }
    Ok(text)
}

pub(crate) fn optional_string(m: &Map<String, Value>, name: &str) -> Result<(), ShapeError> {
    match m.get(name) {
        None | Some(Value::String(_)) => Ok(()),
        Some(_) => Err(ShapeError::new(name, "a string")),
    }
}

pub(crate) fn optional_object(m: &Map<String, Value>, name: &str) -> Result<(), ShapeError> {
    match m.get(name) {
        None | Some(Value::Object(_)) => Ok(()),
        Some(_) => Err(ShapeError::new(name, "an object")),
    }
}

pub(crate) fn object<'a>(
    m: &'a Map<String, Value>,
    name: &str,
) -> Result<&'a Map<String, Value>, ShapeError> {
    m.get(name)
        .and_then(Value::as_object)
        .ok_or_else(|| ShapeError::new(name, "required, an object"))
}

pub(crate) fn integer(m: &Map<String, Value>, name: &str, min: u64) -> Result<u64, ShapeError> {
    // A double such as 2.0 is no integer here: the signed text says what it says.
    m.get(name)
        .and_then(Value::as_u64)
        .filter(|n| (min..=MAX_SAFE_INTEGER).contains(n))
        .ok_or_else(|| ShapeError::new(name, "required, a safe integer in range"))
}

fn hash(m: &Map<String, Value>, name: &str) -> Result<Hash, ShapeError> {
    Hash::parse(string(m, name)?).map_err(|e| ShapeError::new(name, &e.to_string()))
}

fn agent(m: &Map<String, Value>, name: &str) -> Result<(), ShapeError> {
    AgentId::parse_named(string(m, name)?)
        .map(|_| ())
        .map_err(|e| ShapeError::new(name, &e.to_string()))
}

fn unique<'a>(list: &'a [Value], name: &str) -> Result<Vec<&'a str>, ShapeError> {
    let mut seen: Vec<&str> = Vec::with_capacity(list.len());
    for item in list {
        let text = item.as_str().ok_or_else(|| ShapeError::new(name, "an array of strings"))?;
        seen.push(text);
    }
    let mut sorted = seen.clone();
    sorted.sort_unstable();
    if sorted.windows(2).any(|w| w[0] == w[1]) {
        return Err(ShapeError::new(name, "items must be unique"));
    }
    Ok(seen)
}

/// A required array of strings.
pub(crate) fn strings(m: &Map<String, Value>, name: &str) -> Result<(), ShapeError> {
    let list = m.get(name).and_then(Value::as_array);
    match list {
        Some(list) if list.iter().all(Value::is_string) => Ok(()),
        _ => Err(ShapeError::new(name, "an array of strings")),
    }
}

fn agents(m: &Map<String, Value>, name: &str) -> Result<usize, ShapeError> {
    let list = m[name].as_array().ok_or_else(|| ShapeError::new(name, "an array"))?;
    for text in unique(list, name)? {
        AgentId::parse_named(text).map_err(|e| ShapeError::new(name, &e.to_string()))?;
    }
    Ok(list.len())
}

fn references(p: &Map<String, Value>) -> Result<(), ShapeError> {
    let Some(list) = p.get("references") else { return Ok(()) };
    let list = list.as_array().ok_or_else(|| ShapeError::new("references", "an array"))?;
    for text in unique(list, "references")? {
        Hash::parse(text).map_err(|_| ShapeError::new("references", "event hashes"))?;
    }
    Ok(())
}

pub(crate) fn one_of<'a>(
    m: &'a Map<String, Value>,
    name: &str,
    allowed: &[&str],
) -> Result<&'a str, ShapeError> {
    let text = string(m, name)?;
    if allowed.contains(&text) {
        Ok(text)
    } else {
        Err(ShapeError::new(name, &format!("one of {}", allowed.join(", "))))
    }
}

fn role(m: &Map<String, Value>, name: &str) -> Result<(), ShapeError> {
    one_of(m, name, &["moderator", "speaker", "observer"]).map(|_| ())
}
