//! What an accepted record changes in a room.
//!
//! Every record is judged first; one that is refused changes nothing.

use serde_json::{Map, Value};

use super::{
    Approval, HostViolation, Member, MemberStatus, RoomContext, RoomState, RoomStatus,
    SCHEDULER_GRACE_MS, Turn, member_of, named, role_of, violation,
};
use crate::AgentId;
use crate::event::Kind;
use crate::record::VerifiedRecord;

impl RoomState {
    /// Judges the next record and applies it. `ctx` knows every record before this one.
    /// Returns the event's kind.
    ///
    /// # Errors
    /// [`HostViolation`]; the state is unchanged.
    pub fn apply(
        &mut self,
        record: &VerifiedRecord,
        ctx: &dyn RoomContext,
    ) -> Result<Kind, HostViolation> {
        let envelope = record.envelope();
        let (kind, registry) = match self.judge(envelope, record.received_at(), ctx) {
            Ok(judged) => judged,
            Err(rejection) => self
                .moment_before(record)
                .and_then(|before| self.judge(envelope, before, ctx).ok())
                .ok_or_else(|| violation(record, rejection))?,
        };
        let actor = envelope.actor().clone();
        let p = envelope.payload();
        match envelope.event_type() {
            "room.update" => self.apply_update(p),
            "room.close" => self.finished = Some(RoomStatus::Ended),
            "room.cancel" => self.finished = Some(RoomStatus::Cancelled),
            "type.define" => {
                self.registry = registry.expect("judged just above: a declaration makes one");
            }
            "room.join" => self.apply_join(&actor, p, record.seq()),
            "room.join.review" => self.apply_review(p),
            "room.leave" => {
                if let Some(m) = self.members.get_mut(&actor) {
                    m.status = MemberStatus::Left;
                    m.left_seq = Some(record.seq());
                }
            }
            "room.member.role.update" => {
                if let (Ok(target), Ok(role)) = (member_of(p), role_of(p))
                    && let Some(m) = self.members.get_mut(&target)
                {
                    m.role = Some(role);
                }
            }
            "room.member.remove" => self.apply_remove(p, record.seq()),
            "turn.update" => self.apply_turn(p, record),
            _ => {}
        }
        if let Some(m) = self.members.get_mut(&actor) {
            m.last_event_seq = Some(record.seq());
        }
        self.nonces.insert(actor, envelope.nonce());
        self.tip = record.tip();
        if kind.advances_head() {
            self.head = record.tip();
        }
        Ok(kind)
    }

    /// The moment before a scheduled change that lies so little in the past of `record` that
    /// the host's scheduler may not have run yet (ADP 8 binds hosts to their "scheduler
    /// guarantees" only). What was lawful then, no verifier calls a violation.
    fn moment_before(&self, record: &VerifiedRecord) -> Option<u64> {
        let due = match record.envelope().event_type() {
            "room.cancel" => self.time("start_time"),
            _ => self.time("end_time"),
        };
        let late_by = record.received_at().checked_sub(due)?;
        (self.finished.is_none() && late_by < SCHEDULER_GRACE_MS).then(|| due.saturating_sub(1))
    }

    fn apply_update(&mut self, p: &Map<String, Value>) {
        for (name, value) in p {
            let cleared = match value {
                Value::String(text) => text.is_empty(),
                Value::Array(items) => items.is_empty(),
                Value::Object(members) => members.is_empty(),
                _ => false,
            };
            if cleared {
                self.contract.remove(name);
            } else {
                self.contract.insert(name.clone(), value.clone());
            }
        }
    }

    fn apply_join(&mut self, actor: &AgentId, p: &Map<String, Value>, seq: u64) {
        let approval =
            p.get("request_id").and_then(Value::as_str).and_then(|id| self.approvals.remove(id));
        let perspective = match approval {
            Some(approval) => approval.perspective,
            None => p.get("perspective").and_then(Value::as_str).map(str::to_owned),
        };
        let member = Member {
            role: role_of(p).ok(),
            status: MemberStatus::Active,
            perspective,
            joined_seq: Some(seq),
            left_seq: None,
            last_event_seq: Some(seq),
        };
        self.members.insert(actor.clone(), member);
    }

    fn apply_review(&mut self, p: &Map<String, Value>) {
        let request = &p["request"];
        let (Some(id), Ok(applicant)) = (request["id"].as_str(), named(request, "applicant"))
        else {
            return;
        };
        self.reviewed.insert(id.to_owned());
        if p["decision"] == "approve"
            && let Ok(role) = role_of(p)
        {
            if self.bans.remove(&applicant)
                && let Some(m) = self.members.get_mut(&applicant)
            {
                if m.joined_seq.is_none() {
                    // Banned before it ever came: with the ban gone nothing is known of it.
                    self.members.remove(&applicant);
                } else {
                    m.status = MemberStatus::Removed;
                }
            }
            self.approvals.insert(
                id.to_owned(),
                Approval {
                    applicant,
                    role,
                    perspective: request["perspective"].as_str().map(str::to_owned),
                    expires_at: request["expires_at"].as_u64().unwrap_or(0),
                },
            );
        } else {
            self.approvals.remove(id);
        }
    }

    fn apply_remove(&mut self, p: &Map<String, Value>, seq: u64) {
        let Ok(target) = member_of(p) else { return };
        let ban = p.get("ban").and_then(Value::as_bool).unwrap_or(false);
        if ban {
            self.bans.insert(target.clone());
        }
        let status = if ban { MemberStatus::Banned } else { MemberStatus::Removed };
        let member = self.members.entry(target).or_insert(Member {
            role: None,
            status,
            perspective: None,
            joined_seq: None,
            left_seq: None,
            last_event_seq: None,
        });
        if member.status == MemberStatus::Active {
            member.left_seq = Some(seq);
        }
        member.status = status;
    }

    fn apply_turn(&mut self, p: &Map<String, Value>, record: &VerifiedRecord) {
        let text = |name: &str| p.get(name).and_then(Value::as_str);
        if text("scope").unwrap_or("floor") != "floor" {
            return;
        }
        self.turn = match text("state").unwrap_or("assigned") {
            "assigned" | "handoff" => Some(Turn {
                turn_id: p.get("turn_id").cloned().unwrap_or(Value::Null),
                speaker: text("speaker").unwrap_or_default().to_owned(),
                assigned_seq: record.seq(),
                expires_at: p.get("expires_at").and_then(Value::as_u64),
                instruction: text("intent").or(text("topic")).map(str::to_owned),
                source_event_id: *record.envelope().hash(),
            }),
            _ => None,
        };
    }
}
