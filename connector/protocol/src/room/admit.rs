//! Whether one more event may be accepted: the judgement that hosts and verifiers share.
//!
//! Looks only: nothing here changes a room.

use serde_json::{Map, Value, json};

use super::{
    Rejection, Role, RoomContext, RoomState, RoomStatus, member_of, named, reject, role_of,
};
use crate::AgentId;
use crate::encoding::Hash;
use crate::envelope::VerifiedEnvelope;
use crate::error_code::ErrorCode;
use crate::event::{self, Kind};
use crate::registry::{Registry, TypeStatus};

impl RoomState {
    /// Whether `envelope` may become the next record at `now` (Unix ms). Returns its kind.
    ///
    /// Order: replay guards, state of the room, membership, type, authority, payload, base.
    ///
    /// # Errors
    /// [`Rejection`]; `room_head_mismatch` carries base and current head in `data`.
    pub fn admit(
        &self,
        envelope: &VerifiedEnvelope,
        now: u64,
        ctx: &dyn RoomContext,
    ) -> Result<Kind, Rejection> {
        self.judge(envelope, now, ctx).map(|(kind, _)| kind)
    }

    /// As [`RoomState::admit`], with the registry that a `type.define` makes: its schemas are
    /// compiled once, not again when the record is applied.
    pub(super) fn judge(
        &self,
        envelope: &VerifiedEnvelope,
        now: u64,
        ctx: &dyn RoomContext,
    ) -> Result<(Kind, Option<Registry>), Rejection> {
        let event_type = envelope.event_type();
        let actor = envelope.actor();
        if event_type == "room.create" || envelope.room_id() != Some(&self.room_id) {
            return reject(ErrorCode::InvalidEvent, "the event belongs to another room");
        }
        if ctx.contains_event(envelope.hash()) {
            return reject(ErrorCode::InvalidEvent, "the event is already in the room");
        }
        if self.nonces.get(actor).is_some_and(|last| envelope.nonce() <= *last) {
            return reject(
                ErrorCode::NonceNotGreater,
                "the nonce does not exceed the actor's last one in this room",
            );
        }
        let kind = event::built_in_kind(event_type);
        match self.status_at(now) {
            RoomStatus::Ended => return reject(ErrorCode::RoomEnded, "the room has ended"),
            RoomStatus::Cancelled => {
                return reject(ErrorCode::RoomEnded, "the room was cancelled");
            }
            RoomStatus::Active if event_type == "room.cancel" => {
                return reject(ErrorCode::PermissionDenied, "only a scheduled room is cancelled");
            }
            RoomStatus::Scheduled
                if kind.is_none() || matches!(event_type, "message.create" | "room.close") =>
            {
                return reject(ErrorCode::RoomNotActive, "the room has not started");
            }
            _ => {}
        }
        if event_type != "room.join" && self.active_member(actor).is_none() {
            let code = if self.bans.contains(actor) {
                ErrorCode::MemberBanned
            } else {
                ErrorCode::MembershipRequired
            };
            return reject(code, "the actor is not an active member");
        }
        let kind = match kind {
            Some(kind) => kind,
            None => self.admit_custom(envelope)?,
        };
        let registry = self.admit_built_in(envelope, now, ctx)?;
        self.admit_base(envelope, kind, ctx)?;
        Ok((kind, registry))
    }

    fn admit_custom(&self, envelope: &VerifiedEnvelope) -> Result<Kind, Rejection> {
        let event_type = envelope.event_type();
        let Some(def) = self.registry.get(event_type) else {
            return reject(
                ErrorCode::TypeNotDefined,
                format!("{event_type} is not defined in this room"),
            );
        };
        if def.status == TypeStatus::Disabled {
            return reject(ErrorCode::TypeDisabled, format!("{event_type} is disabled"));
        }
        let actor = envelope.actor();
        let role = self.active_member(actor).and_then(|m| m.role).map_or("", Role::as_str);
        if *actor != self.creator && !def.role_may_send(role) {
            return reject(
                ErrorCode::PermissionDenied,
                format!("the role {role:?} may not send {event_type}"),
            );
        }
        def.validate(&envelope.event()["payload"]).map_err(|v| Rejection {
            code: ErrorCode::PayloadSchemaViolation,
            message: format!("payload{}: {}", v.path, v.message),
            data: Some(json!({ "path": v.path, "message": v.message })),
        })?;
        Ok(def.kind)
    }

    fn admit_built_in(
        &self,
        envelope: &VerifiedEnvelope,
        now: u64,
        ctx: &dyn RoomContext,
    ) -> Result<Option<Registry>, Rejection> {
        let p = envelope.payload();
        let actor = envelope.actor();
        let moderates = || {
            if self.moderates(actor) {
                Ok(())
            } else {
                reject(ErrorCode::PermissionDenied, "the creator or a moderator may do this")
            }
        };
        let outcome = match envelope.event_type() {
            "room.update" => {
                moderates()?;
                self.admit_update(p, now)
            }
            "room.close" | "room.cancel" => moderates(),
            "type.define" => {
                moderates()?;
                let mut registry = self.registry.clone();
                registry
                    .declare(p, &|uri, digest| ctx.pack(uri, digest))
                    .map_err(|e| Rejection::new(e.code, e.message))?;
                return Ok(Some(registry));
            }
            "message.create" => {
                let role = self.active_member(actor).and_then(|m| m.role);
                if *actor != self.creator && !role.is_some_and(Role::speaks) {
                    return reject(ErrorCode::PermissionDenied, "observers do not send messages");
                }
                let foreign = |id: &Value| {
                    let id = id.as_str().and_then(|text| Hash::parse(text).ok());
                    !id.is_some_and(|id| ctx.contains_event(&id))
                };
                if p.get("references")
                    .and_then(Value::as_array)
                    .is_some_and(|r| r.iter().any(foreign))
                {
                    return reject(
                        ErrorCode::InvalidEvent,
                        "references name events of this room only",
                    );
                }
                Ok(())
            }
            "room.join" => self.admit_join(actor, p, now),
            "room.join.review" => {
                moderates()?;
                let request = &p["request"];
                if request["room_id"] != self.room_id.as_str() {
                    return reject(ErrorCode::JoinRequestNotFound, "a request of another room");
                }
                if request["id"].as_str().is_some_and(|id| self.reviewed.contains(id)) {
                    return reject(
                        ErrorCode::JoinRequestNotFound,
                        "the request was reviewed before: none is pending",
                    );
                }
                if p["decision"] == "approve" {
                    let applicant = named(request, "applicant")?;
                    self.check_role(&applicant, role_of(p)?, true)?;
                }
                Ok(())
            }
            "room.member.role.update" => {
                moderates()?;
                let member = member_of(p)?;
                if self.active_member(&member).is_none() {
                    return reject(
                        ErrorCode::MembershipRequired,
                        "the target is not an active member",
                    );
                }
                self.check_role(&member, role_of(p)?, true)
            }
            "room.member.remove" => {
                moderates()?;
                let member = member_of(p)?;
                if member == self.creator {
                    return reject(ErrorCode::PermissionDenied, "the creator is never removed");
                }
                if member == *actor {
                    return reject(ErrorCode::PermissionDenied, "leaving is room.leave");
                }
                let ban = p.get("ban").and_then(Value::as_bool).unwrap_or(false);
                if !ban && self.active_member(&member).is_none() {
                    return reject(
                        ErrorCode::MembershipRequired,
                        "the target is not an active member",
                    );
                }
                Ok(())
            }
            _ => Ok(()),
        };
        outcome.map(|()| None)
    }

    fn admit_update(&self, p: &Map<String, Value>, now: u64) -> Result<(), Rejection> {
        let active = self.status_at(now) == RoomStatus::Active;
        if active && p.contains_key("start_time") {
            return reject(ErrorCode::InvalidEvent, "an active room has started already");
        }
        let effective =
            |name: &str| p.get(name).and_then(Value::as_u64).unwrap_or_else(|| self.time(name));
        if effective("start_time") >= effective("end_time") {
            return reject(ErrorCode::InvalidEvent, "end_time must be after start_time");
        }
        if active && p.contains_key("end_time") && effective("end_time") <= now {
            return reject(ErrorCode::InvalidEvent, "end_time must lie in the future");
        }
        Ok(())
    }

    fn admit_join(
        &self,
        actor: &AgentId,
        p: &Map<String, Value>,
        now: u64,
    ) -> Result<(), Rejection> {
        if self.bans.contains(actor) {
            return reject(ErrorCode::MemberBanned, "the agent is banned from this room");
        }
        if self.active_member(actor).is_some() {
            return reject(ErrorCode::InvalidEvent, "the agent is an active member already");
        }
        let role = role_of(p)?;
        let Some(request_id) = p.get("request_id").and_then(Value::as_str) else {
            if self.visibility() != "public" {
                return reject(
                    ErrorCode::ApprovalRequired,
                    "this room is joined with an approved request",
                );
            }
            return self.check_role(actor, role, false);
        };
        match self.approvals.get(request_id) {
            Some(approval) if approval.applicant == *actor => {
                if approval.role != role {
                    return reject(
                        ErrorCode::JoinRequestRoleMismatch,
                        format!("the approved role is {}", approval.role.as_str()),
                    );
                }
                if now > approval.expires_at {
                    return reject(ErrorCode::JoinRequestExpired, "the approval has expired");
                }
                self.check_role(actor, role, true)
            }
            // A public room approves by itself, which leaves no record.
            None if self.visibility() == "public" => self.check_role(actor, role, false),
            _ => reject(ErrorCode::JoinRequestNotApproved, "no approved request of this id"),
        }
    }

    fn admit_base(
        &self,
        envelope: &VerifiedEnvelope,
        kind: Kind,
        ctx: &dyn RoomContext,
    ) -> Result<(), Rejection> {
        let Some((seq, hash)) = envelope.base() else {
            return reject(ErrorCode::InvalidEvent, "base_seq and base_hash are required");
        };
        if kind.advances_head() {
            if (seq, hash) != (self.head.seq, self.head.hash) {
                return Err(Rejection {
                    code: ErrorCode::RoomHeadMismatch,
                    message: "the room head has moved".to_owned(),
                    data: Some(json!({
                        "base_seq": seq, "base_hash": hash,
                        "current_seq": self.head.seq, "current_hash": self.head.hash,
                    })),
                });
            }
        } else if ctx.hash_at(seq) != Some(hash) {
            return Err(Rejection {
                code: ErrorCode::BaseRecordMismatch,
                message: "the base names no accepted record".to_owned(),
                data: Some(json!({
                    "base_seq": seq, "base_hash": hash,
                    "current_seq": self.tip.seq, "current_hash": self.tip.hash,
                })),
            });
        }
        Ok(())
    }
}
