//! What a host may refuse by policy (ADP 21), kept apart from what it must refuse.
//!
//! A verifier never asks these: a host with other quotas is not at fault. Everything is off
//! by default; `recommended` holds the numbers of the protocol text.

use serde_json::{Map, Value};

use crate::error_code::ErrorCode;
use crate::event::Kind;
use crate::room::{Rejection, RoomState};
use crate::{VerifiedEnvelope, jcs};

/// A host's quotas. None means no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HostLimits {
    /// Largest canonical payload (bytes).
    pub payload_bytes: Option<usize>,
    /// Largest canonical payload of a type with a `max_payload_hint` (bytes).
    pub payload_ceiling_bytes: Option<usize>,
    /// Largest canonical schema (bytes).
    pub schema_bytes: Option<usize>,
    /// Most custom types in one room.
    pub types: Option<usize>,
    /// Shortest time from `start_time` to `end_time` (ms).
    pub min_duration_ms: Option<u64>,
    /// Longest time from `start_time` to `end_time` (ms).
    pub max_duration_ms: Option<u64>,
    /// Most active moderators and speakers, whatever the room's own policy says.
    pub speakers: Option<usize>,
    /// Most active observers.
    pub observers: Option<usize>,
    /// Whether a room may be created or moved so that it has ended already.
    pub refuse_past_end: bool,
}

impl HostLimits {
    /// No quota at all.
    pub const OFF: HostLimits = HostLimits {
        payload_bytes: None,
        payload_ceiling_bytes: None,
        schema_bytes: None,
        types: None,
        min_duration_ms: None,
        max_duration_ms: None,
        speakers: None,
        observers: None,
        refuse_past_end: false,
    };

    /// The defaults that ADP 21 recommends.
    pub const RECOMMENDED: HostLimits = HostLimits {
        payload_bytes: Some(64 * 1024),
        payload_ceiling_bytes: Some(256 * 1024),
        schema_bytes: Some(crate::registry::MAX_SCHEMA_BYTES),
        types: Some(crate::registry::MAX_TYPES),
        min_duration_ms: Some(10 * 60_000),
        max_duration_ms: Some(7 * 24 * 3_600_000),
        speakers: Some(100),
        observers: Some(1000),
        refuse_past_end: true,
    };

    /// Judges a write against the quotas, after [`RoomState::admit`] has found it lawful.
    /// `after` is the room as it would be: for `room.create`, what
    /// [`RoomState::from_creation`] made; for others, the state with the event applied, or
    /// the current state when only the size matters.
    ///
    /// # Errors
    /// `payload_too_large`, `max_speakers_exceeded` or `invalid_event`.
    pub fn check(
        &self,
        after: &RoomState,
        envelope: &VerifiedEnvelope,
        now: u64,
    ) -> Result<(), Rejection> {
        let fail = |code, message: String| Err(Rejection::new(code, message));
        let hint = after
            .registry
            .get(envelope.event_type())
            .and_then(|def| def.definition.get("max_payload_hint")?.as_u64())
            .and_then(|hint| usize::try_from(hint).ok());
        let size = jcs::to_vec(&envelope.event()["payload"]).len();
        let most = match (self.payload_bytes, hint) {
            (Some(_), Some(hint)) => {
                Some(self.payload_ceiling_bytes.map_or(hint, |top| hint.min(top)))
            }
            (most, _) => most,
        };
        if most.is_some_and(|most| size > most) {
            return fail(ErrorCode::PayloadTooLarge, format!("the payload has {size} bytes"));
        }
        if matches!(envelope.event_type(), "room.create" | "type.define") {
            if self.types.is_some_and(|most| after.registry.iter().count() > most) {
                return fail(ErrorCode::PayloadTooLarge, "too many types in this room".to_owned());
            }
            for (name, def) in after.registry.iter() {
                let size = jcs::to_vec(&def.definition["schema"]).len();
                if self.schema_bytes.is_some_and(|most| size > most) {
                    let message = format!("the schema of {name} has {size} bytes");
                    return fail(ErrorCode::PayloadTooLarge, message);
                }
            }
        }
        if matches!(envelope.event_type(), "room.create" | "room.update") {
            let time = |name: &str| after.contract[name].as_u64().unwrap_or(0);
            let duration = time("end_time").saturating_sub(time("start_time"));
            if self.min_duration_ms.is_some_and(|least| duration < least)
                || self.max_duration_ms.is_some_and(|most| duration > most)
            {
                let message = format!("a duration of {duration} ms is outside this host's limits");
                return fail(ErrorCode::InvalidEvent, message);
            }
            if self.refuse_past_end && time("end_time") <= now {
                return fail(ErrorCode::InvalidEvent, "end_time lies in the past".to_owned());
            }
        }
        let (speakers, observers) = after.head_count();
        if self.speakers.is_some_and(|most| speakers > most)
            || self.observers.is_some_and(|most| observers > most)
        {
            let message = "the room is full".to_owned();
            return fail(ErrorCode::MaxSpeakersExceeded, message);
        }
        Ok(())
    }

    /// Events of a kind per agent and minute that ADP 21 recommends; none for lifecycle.
    pub fn recommended_rate(kind: Kind) -> Option<u32> {
        match kind {
            Kind::Message => Some(5),
            Kind::Signal => Some(60),
            Kind::Control => Some(10),
            Kind::Lifecycle => None,
        }
    }
}

/// The sizes of a profile document that APP recommends, for the service that takes it. A
/// verifier never asks: a document beyond them is as true as any other.
pub const PROFILE_NAME_CHARS: usize = 128;
/// Longest description (Unicode scalar values).
pub const PROFILE_DESCRIPTION_CHARS: usize = 2048;
/// Most items of each list of a profile.
pub const PROFILE_ITEMS: [(&str, usize); 4] =
    [("capabilities", 64), ("service_endpoints", 32), ("links", 64), ("delegations", 32)];
/// Largest `extra` of a profile (bytes, canonical).
pub const PROFILE_EXTRA_BYTES: usize = 32 * 1024;

/// Judges the payload of a verified `profile.update` against the recommended sizes.
///
/// # Errors
/// `invalid_event`, naming the first member that is too large.
pub fn check_profile(p: &Map<String, Value>) -> Result<(), Rejection> {
    let fail = |message: String| Err(Rejection::new(ErrorCode::InvalidEvent, message));
    let texts = [("name", PROFILE_NAME_CHARS), ("description", PROFILE_DESCRIPTION_CHARS)];
    for (name, most) in texts {
        let chars = p.get(name).and_then(Value::as_str).map_or(0, |text| text.chars().count());
        if chars > most {
            return fail(format!(
                "payload.{name} has {chars} characters, at most {most} are taken"
            ));
        }
    }
    if p.get("name").and_then(Value::as_str).is_none_or(|name| name.trim().is_empty()) {
        return fail("payload.name is blank: nobody could be told by it".to_owned());
    }
    let avatar = p.get("avatar_url").and_then(Value::as_str);
    if avatar.is_some_and(|url| !url.starts_with("https://")) {
        return fail("payload.avatar_url is an https URL".to_owned());
    }
    for (name, most) in PROFILE_ITEMS {
        let items = p.get(name).and_then(Value::as_array).map_or(0, Vec::len);
        if items > most {
            return fail(format!("payload.{name} has {items} items, at most {most} are taken"));
        }
    }
    let extra = p.get("extra").map_or(0, |extra| jcs::to_vec(extra).len());
    if extra > PROFILE_EXTRA_BYTES {
        let most = PROFILE_EXTRA_BYTES;
        return fail(format!("payload.extra has {extra} bytes, at most {most} are taken"));
    }
    Ok(())
}
