//! The door of a room: who is calling, in which seat, and whether that opens this operation
//! (GRP T3, T4.2). It changes nothing in the room.

use serde_json::{Value, json};

use super::args::Args;
use super::config::{Auth, Authority, Visibility};
use super::core::{Call, Caller, Core, Op};
use super::defects::Defect;
use super::error::GrpError;
use super::jws;
use super::mandate::{Mandate, Scope};
use super::model::{Role, Room};
use super::op::Gate;
use super::secrets;

impl Core {
    /// The seat the credential points at, checked or not.
    pub(super) fn presumed_seat(
        &self,
        room: &Room,
        call: &Call,
        mandate: Option<&Mandate>,
    ) -> Option<usize> {
        match (mandate, &call.credential.token) {
            (Some(m), _) => seat_of_agent(room, m),
            (None, Some(token)) => room.token(&jws::sha256_hex(token)).map(|t| t.seat),
            (None, None) => None,
        }
    }

    /// Who is calling, and whether this door is open to them.
    pub fn identify(
        &self,
        room: &Room,
        call: &Call,
        mandate: Option<Mandate>,
        replay: bool,
    ) -> Result<Caller, GrpError> {
        let auth =
            if self.has(Defect::AuthModeIgnored) { Auth::Either } else { room.head.config.auth };
        let mut caller = Caller::default();
        if self.has(Defect::RestrictedKeyMisread)
            && let Some(key) = call.credential.token.as_deref().filter(|t| t.starts_with("rk_"))
        {
            self.seat_of_token(room, key)?;
        }
        if let Some(mandate) = mandate {
            let seat = seat_of_agent(room, &mandate);
            self.check_scope(room, call, &mandate, seat, replay)?;
            if auth == Auth::TokenOnly {
                return Err(mandate_not_accepted());
            }
            caller = Caller { seat, mandate: Some(mandate) };
        } else if let Some(token) =
            call.credential.token.as_deref().filter(|t| !t.starts_with("rk_"))
        {
            if call.op == Op::JoinRoom {
                // A join makes its own seat; a token says nothing there.
            } else {
                let seat = self.seat_of_token(room, token)?;
                let administers = room.participants[seat].creator
                    && (call.op.action() != Some("choose")
                        && !matches!(call.op, Op::Discuss | Op::Propose));
                if auth == Auth::MandateRequired && !administers {
                    return Err(GrpError::new(
                        "auth.mandate_required",
                        "This room takes mandates only: present one in X-Mandate (REST) or \
                         _meta.mandate (MCP).",
                    ));
                }
                caller.seat = Some(seat);
            }
        }
        match call.op.gate() {
            Gate::Open => Ok(caller),
            Gate::Read => {
                if caller.seat.is_none() {
                    self.may_read(room, call.credential.password.as_deref())?;
                }
                Ok(caller)
            }
            Gate::Member if caller.seat.is_some() => Ok(caller),
            Gate::Member if caller.mandate.is_some() => Err(GrpError::new(
                "room.join_required",
                "This agent has not joined the room: join first, with the same mandate.",
            )),
            Gate::Member => Err(GrpError::new(
                "auth.required",
                "Present a participant token (Authorization: Bearer) or a mandate.",
            )),
        }
    }

    fn seat_of_token(&self, room: &Room, token: &str) -> Result<usize, GrpError> {
        match room.token(&jws::sha256_hex(token)) {
            Some(row) if row.superseded => Err(superseded()),
            Some(row) => Ok(row.seat),
            None if self.has(Defect::CrossRoomToken) && token.starts_with("t_") => Ok(0),
            None => Err(GrpError::new(
                "auth.invalid_token",
                "The participant token is not known in this room.",
            )),
        }
    }

    fn check_scope(
        &self,
        room: &Room,
        call: &Call,
        mandate: &Mandate,
        seat: Option<usize>,
        replay: bool,
    ) -> Result<(), GrpError> {
        let mut names = self.room_names(room);
        if self.has(Defect::MandateWildcardOnly) {
            names.clear();
        }
        let acts: Vec<i64> = seat
            .map(|s| room.participants[s].acts.iter())
            .into_iter()
            .flatten()
            .filter(|(jti, _)| *jti == mandate.jti)
            .map(|(_, at)| *at)
            .collect();
        let mut checked = mandate.clone();
        if self.has(Defect::MandateExpiryIgnored) {
            (checked.nbf, checked.exp) = (i64::MIN, i64::MAX);
        }
        if self.has(Defect::MandateRoomIgnored) {
            checked.rooms = vec!["*".to_owned()];
        }
        if self.has(Defect::MandateRevocationIgnored) {
            checked.revoked = false;
        }
        let action = call.op.action().filter(|_| !self.has(Defect::MandateActionIgnored));
        checked.check(&Scope {
            now_ms: self.now(),
            rooms: Some(&names),
            action,
            weight: weight_of(room, call),
            acts: &acts,
            replay,
        })
    }

    /// Every name of a room that a mandate may use.
    pub fn room_names(&self, room: &Room) -> Vec<String> {
        self.names_of(&room.head.slug, &room.head.id)
    }

    pub(super) fn names_of(&self, slug: &str, id: &str) -> Vec<String> {
        let base = self.base();
        vec![
            format!("{base}/r/{slug}"),
            format!("{base}/api/rooms/{slug}"),
            format!("urn:grp:room:{slug}"),
            format!("urn:grp:room:{id}"),
        ]
    }

    /// Whether somebody without a seat may read.
    ///
    /// # Errors
    /// `room.join_required`, `auth.invalid_password`.
    pub fn may_read(&self, room: &Room, password: Option<&str>) -> Result<(), GrpError> {
        let config = &room.head.config;
        if config.visibility == Visibility::Public || self.has(Defect::HiddenRoomReadable) {
            return Ok(());
        }
        if let (Some(stored), Some(given)) = (&room.head.password, password) {
            return if secrets::password_matches(given, stored) {
                Ok(())
            } else {
                Err(GrpError::new("auth.invalid_password", "That is not this room's password."))
            };
        }
        Err(GrpError::new("room.join_required", "Join this room to read it.").with(json!({
            "slug": room.head.slug,
            "visibility": config.visibility.name(),
            "join_required": true,
            "password_supported": room.head.password.is_some(),
        })))
    }

    /// Whether a member may use an authority; names the authority for the audit log.
    ///
    /// # Errors
    /// `authority.denied`.
    pub fn authorize(
        &self,
        room: &Room,
        seat: usize,
        authority: &Authority,
        what: &str,
    ) -> Result<&'static str, GrpError> {
        let p = &room.participants[seat];
        let allowed = match authority {
            Authority::None => false,
            Authority::Operator => p.creator,
            Authority::Designated { participant_ids } => participant_ids.contains(&p.id),
            Authority::AnyParticipant => true,
        };
        if allowed && p.role == Role::Participant {
            return Ok(authority.kind());
        }
        Err(GrpError::new(
            "authority.denied",
            format!("In this room {what} is for: {}.", authority.kind()),
        ))
    }
}

pub(super) fn superseded() -> GrpError {
    GrpError::new(
        "participant.token_superseded",
        "This seat was recovered elsewhere and the token replaced: stand down, do not join again.",
    )
}

pub(super) fn mandate_not_accepted() -> GrpError {
    GrpError::new(
        "auth.mandate_not_accepted",
        "This room takes participant tokens only; join without a mandate.",
    )
}

/// Issuer and subject together: another issuer may name the same subject.
pub(super) fn seat_of_agent(room: &Room, m: &Mandate) -> Option<usize> {
    room.participants
        .iter()
        .position(|p| p.agent.as_ref().is_some_and(|a| a.iss == m.iss && a.sub == m.sub))
}

/// The weight an act carries against a mandate's cap: credits of a quadratic ballot, an
/// explicit weight, or 1 for a choice; nothing for other acts.
fn weight_of(room: &Room, call: &Call) -> f64 {
    if call.op != Op::Choose {
        return 0.0;
    }
    let args = Args::new(&call.args);
    let explicit = args.get("weight").and_then(Value::as_f64).unwrap_or(1.0);
    let quadratic = room.head.config.mechanism == "quadratic_vote";
    let credits = match args.get("choice") {
        Some(Value::Object(map)) if quadratic => map.values().filter_map(Value::as_f64).sum(),
        _ => 0.0,
    };
    explicit.max(credits)
}
