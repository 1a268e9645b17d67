//! Quotas and sizes (ADP 21). Every limit is off unless a configuration turns it on.

use ap_protocol::event::Kind;
use ap_protocol::room::Role;
use ap_protocol::{ErrorCode, VerifiedEnvelope, jcs};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::adp::room::RoomInner;
use crate::answer::Refusal;

/// Limits of a host. `None` means no limit.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Message-kind events an agent may send a minute, per room.
    pub messages_per_minute: Option<u32>,
    /// Signal-kind events an agent may send a minute, per room.
    pub signals_per_minute: Option<u32>,
    /// Control and lifecycle events an agent may send a minute, per room.
    pub controls_per_minute: Option<u32>,
    /// Honour the `rate_hint` of type definitions.
    pub rate_hints: bool,
    /// Canonical size of a payload (bytes).
    pub payload_bytes: Option<usize>,
    /// The same where the type's `max_payload_hint` asks for more (bytes).
    pub hinted_payload_bytes: Option<usize>,
    /// Shortest room (ms).
    pub min_duration_ms: Option<u64>,
    /// Longest room (ms).
    pub max_duration_ms: Option<u64>,
    /// Active moderators and speakers in a room.
    pub speakers: Option<usize>,
    /// Active observers in a room.
    pub observers: Option<usize>,
    /// Types in a room.
    pub types: Option<usize>,
}

impl Limits {
    /// The numbers the protocol text recommends.
    pub fn recommended() -> Self {
        Limits {
            messages_per_minute: Some(5),
            signals_per_minute: Some(60),
            controls_per_minute: Some(10),
            rate_hints: true,
            payload_bytes: Some(64 * 1024),
            hinted_payload_bytes: Some(256 * 1024),
            min_duration_ms: Some(10 * 60_000),
            max_duration_ms: Some(7 * 86_400_000),
            speakers: Some(100),
            observers: Some(1000),
            types: Some(64),
        }
    }

    fn check_payload(
        &self,
        envelope: &VerifiedEnvelope,
        most: Option<usize>,
    ) -> Result<(), Refusal> {
        let Some(most) = most else { return Ok(()) };
        let size = jcs::to_vec(&envelope.event()["payload"]).len();
        if size <= most {
            return Ok(());
        }
        let mut refusal = Refusal::new(
            ErrorCode::PayloadTooLarge,
            format!("the payload has {size} bytes, the limit is {most}"),
        );
        refusal.data = Some(json!({ "size": size, "limit": most }));
        Err(refusal)
    }

    /// The limits on a new room.
    pub(crate) fn check_creation(&self, envelope: &VerifiedEnvelope) -> Result<(), Refusal> {
        self.check_payload(envelope, self.payload_bytes)?;
        let p = envelope.payload();
        let time = |name: &str| p.get(name).and_then(Value::as_u64).unwrap_or(0);
        let duration = time("end_time").saturating_sub(time("start_time"));
        let bad = |what: String| Refusal::new(ErrorCode::InvalidEvent, what);
        if self.min_duration_ms.is_some_and(|min| duration < min) {
            return Err(bad(format!("a room of {duration} ms is shorter than this host allows")));
        }
        if self.max_duration_ms.is_some_and(|max| duration > max) {
            return Err(bad(format!("a room of {duration} ms is longer than this host allows")));
        }
        let types = p.get("types").and_then(Value::as_array).map_or(0, Vec::len);
        if self.types.is_some_and(|max| types > max) {
            return Err(bad(format!("{types} type declarations are more than this host allows")));
        }
        Ok(())
    }

    /// The limits on a room event.
    pub(crate) fn check_write(
        &self,
        r: &mut RoomInner,
        envelope: &VerifiedEnvelope,
        now: u64,
    ) -> Result<(), Refusal> {
        if *self == Limits::default() {
            return Ok(());
        }
        let def = r.state.registry.get(envelope.event_type());
        let hint = |name: &str| def.and_then(|d| d.definition.get(name)).and_then(Value::as_u64);
        let payload = match (self.payload_bytes, hint("max_payload_hint")) {
            (Some(plain), Some(hint)) => {
                let most = self.hinted_payload_bytes.unwrap_or(plain).max(plain);
                Some(usize::try_from(hint).unwrap_or(usize::MAX).min(most))
            }
            (plain, _) => plain,
        };
        self.check_payload(envelope, payload)?;
        let kind = r.state.kind_of(envelope.event_type()).unwrap_or(Kind::Signal);
        let quota = match kind {
            Kind::Message => self.messages_per_minute,
            Kind::Signal => self.signals_per_minute,
            Kind::Control | Kind::Lifecycle => self.controls_per_minute,
        };
        let quota = match hint("rate_hint").filter(|_| self.rate_hints) {
            Some(hint) => Some(u32::try_from(hint).unwrap_or(u32::MAX)),
            None => quota,
        };
        if let Some(quota) = quota {
            let recent = r.recent.entry((envelope.actor().clone(), kind)).or_default();
            recent.retain(|t| now.saturating_sub(*t) < 60_000);
            if recent.len() >= quota as usize {
                let wait_ms = recent.first().map_or(60_000, |t| 60_000 - now.saturating_sub(*t));
                let wait = wait_ms.div_ceil(1000).max(1);
                let mut refusal = Refusal::new(
                    ErrorCode::RateLimited,
                    format!("{quota} {} events a minute; try again in {wait} s", kind.as_str()),
                );
                refusal.data = Some(json!({ "retry_after": wait }));
                refusal.headers.push(("Retry-After".to_owned(), wait.to_string()));
                return Err(refusal);
            }
        }
        if envelope.event_type() == "room.join" {
            let role = envelope.payload()["role"].as_str().unwrap_or_default();
            let speaks = Role::from_text(role).is_some_and(Role::speaks);
            let there = r
                .state
                .members
                .values()
                .filter(|m| m.status == ap_protocol::room::MemberStatus::Active)
                .filter(|m| m.role.is_some_and(Role::speaks) == speaks)
                .count();
            let most = if speaks { self.speakers } else { self.observers };
            if most.is_some_and(|most| there >= most) {
                return Err(Refusal::new(
                    ErrorCode::MaxSpeakersExceeded,
                    "the room has as many members of this role as the host allows",
                ));
            }
        }
        Ok(())
    }
}
