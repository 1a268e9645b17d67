//! Room replay: who is who, what is agreed, where the head is, and whether one more event
//! may be accepted (ADP 8 to 15).
//!
//! The same judgement serves both sides: a host asks [`RoomState::admit`] before it appends,
//! a verifier asks it again in [`RoomState::apply`] for every record a host claims to have
//! accepted. A record that fails is a host violation: the state stays as it was.

mod admit;
mod apply;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::AgentId;
use crate::encoding::Hash;
use crate::envelope::VerifiedEnvelope;
use crate::error_code::ErrorCode;
use crate::event::{self, Kind};
use crate::record::{Tip, VerifiedRecord};
use crate::registry::Registry;

/// How late a host may carry out a scheduled end (or start, for a cancellation) before a
/// verifier calls it a violation (ms). A host that judges by its own clock never needs it.
pub const SCHEDULER_GRACE_MS: u64 = 5_000;

/// What replay must look up but does not hold: memory stays flat in the length of the
/// history.
pub trait RoomContext {
    /// The hash of the verified record at `seq`.
    fn hash_at(&self, seq: u64) -> Option<Hash>;
    /// Whether an event with this id is already in the room.
    fn contains_event(&self, event_id: &Hash) -> bool;
    /// The bytes of an external pack document, if it was obtained.
    fn pack(&self, _uri: &str, _digest: &str) -> Option<Vec<u8>> {
        None
    }
}

/// A context for rooms held in memory: archives, tests, small hosts.
#[derive(Debug, Clone, Default)]
pub struct MemoryContext {
    hashes: Vec<Hash>,
    events: BTreeSet<Hash>,
    packs: BTreeMap<String, Vec<u8>>,
}

impl MemoryContext {
    /// Remembers a record that was applied.
    pub fn push(&mut self, record: &VerifiedRecord) {
        self.hashes.push(*record.hash());
        self.events.insert(*record.envelope().hash());
    }

    /// Makes a pack document available.
    pub fn add_pack(&mut self, uri: &str, bytes: Vec<u8>) {
        self.packs.insert(uri.to_owned(), bytes);
    }
}

impl RoomContext for MemoryContext {
    fn hash_at(&self, seq: u64) -> Option<Hash> {
        let index = usize::try_from(seq.checked_sub(1)?).ok()?;
        self.hashes.get(index).copied()
    }

    fn contains_event(&self, event_id: &Hash) -> bool {
        self.events.contains(event_id)
    }

    fn pack(&self, uri: &str, _digest: &str) -> Option<Vec<u8>> {
        self.packs.get(uri).cloned()
    }
}

/// Role of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Steers the room.
    Moderator,
    /// Talks.
    Speaker,
    /// Reads and signals.
    Observer,
}

impl Role {
    /// Text on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::Moderator => "moderator",
            Role::Speaker => "speaker",
            Role::Observer => "observer",
        }
    }

    /// From the wire text.
    pub fn from_text(text: &str) -> Option<Self> {
        match text {
            "moderator" => Some(Role::Moderator),
            "speaker" => Some(Role::Speaker),
            "observer" => Some(Role::Observer),
            _ => None,
        }
    }

    /// Moderators and speakers count against `max_speakers`.
    pub fn speaks(self) -> bool {
        self != Role::Observer
    }
}

/// Standing of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MemberStatus {
    /// In the room.
    Active,
    /// Left by itself.
    Left,
    /// Removed.
    Removed,
    /// Removed and banned, or banned without ever joining.
    Banned,
}

impl MemberStatus {
    /// Text in views.
    pub fn as_str(self) -> &'static str {
        match self {
            MemberStatus::Active => "active",
            MemberStatus::Left => "left",
            MemberStatus::Removed => "removed",
            MemberStatus::Banned => "banned",
        }
    }
}

/// One member, from replay.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Member {
    /// Current or last role; none for an agent banned without ever joining.
    pub role: Option<Role>,
    /// Standing.
    pub status: MemberStatus,
    /// What it said it brings.
    pub perspective: Option<String>,
    /// Seq of the latest join (1 for the creator).
    pub joined_seq: Option<u64>,
    /// Seq of the leave or removal, while not active.
    pub left_seq: Option<u64>,
    /// Seq of its latest own record.
    pub last_event_seq: Option<u64>,
}

/// An approved, unused join request, as the review record carries it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Approval {
    /// Who asked.
    pub applicant: AgentId,
    /// The approved role.
    pub role: Role,
    /// From the request.
    pub perspective: Option<String>,
    /// When the request expires (Unix ms).
    pub expires_at: u64,
}

/// Lifecycle status of a room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RoomStatus {
    /// Before `start_time`.
    Scheduled,
    /// Between `start_time` and the end.
    Active,
    /// Closed, or `end_time` passed.
    Ended,
    /// Cancelled before it began.
    Cancelled,
}

impl RoomStatus {
    /// Text on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            RoomStatus::Scheduled => "scheduled",
            RoomStatus::Active => "active",
            RoomStatus::Ended => "ended",
            RoomStatus::Cancelled => "cancelled",
        }
    }
}

/// The floor as the latest `turn.update` left it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// As in the payload.
    pub turn_id: Value,
    /// Who has the floor.
    pub speaker: String,
    /// Seq of the record.
    pub assigned_seq: u64,
    /// Deadline (Unix ms).
    pub expires_at: Option<u64>,
    /// `intent` or `topic`.
    pub instruction: Option<String>,
    /// Event id.
    pub source_event_id: Hash,
}

/// Why an event may not be accepted.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct Rejection {
    /// Protocol code.
    pub code: ErrorCode,
    /// What is wrong.
    pub message: String,
    /// The `data` member of the error, when the code has one.
    pub data: Option<Value>,
}

impl Rejection {
    /// A rejection without data.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Rejection { code, message: message.into(), data: None }
    }
}

/// A record that the host accepted against the rules. It is not applied.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("host violation at seq {seq}: {rejection}")]
pub struct HostViolation {
    /// The record's seq.
    pub seq: u64,
    /// The record's hash.
    pub record_hash: Hash,
    /// The rule it breaks.
    pub rejection: Rejection,
}

/// Materialized state of one room.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RoomState {
    /// The room.
    pub room_id: String,
    /// Who created it.
    pub creator: AgentId,
    /// When the host accepted the creation (Unix ms).
    pub created_at: u64,
    /// Contract members as last set: topic, visibility, start_time, end_time and the
    /// optional ones.
    pub contract: Map<String, Value>,
    /// Everybody who ever was a member or was banned.
    pub members: BTreeMap<AgentId, Member>,
    /// Who may not join.
    pub bans: BTreeSet<AgentId>,
    /// Approved, unused join requests by id.
    pub approvals: BTreeMap<String, Approval>,
    /// Ids of the join requests that were reviewed: each is reviewed once.
    #[serde(default)]
    pub reviewed: BTreeSet<String>,
    /// Custom types.
    pub registry: Registry,
    /// Latest verified record.
    pub tip: Tip,
    /// Latest head-advancing record.
    pub head: Tip,
    /// Set by room.close or room.cancel.
    pub finished: Option<RoomStatus>,
    /// Latest floor assignment, expiry left to the reader.
    pub turn: Option<Turn>,
    /// Greatest nonce of each actor in this room.
    pub nonces: BTreeMap<AgentId, u64>,
}

fn reject<T>(code: ErrorCode, message: impl Into<String>) -> Result<T, Rejection> {
    Err(Rejection::new(code, message))
}

impl RoomState {
    /// Judges and applies a room's first record.
    ///
    /// # Errors
    /// [`HostViolation`] when the record is no acceptable creation.
    pub fn genesis(record: &VerifiedRecord, ctx: &dyn RoomContext) -> Result<Self, HostViolation> {
        let e = record.envelope();
        Self::from_creation(record.room_id(), e, record.received_at(), record.tip(), ctx)
            .map_err(|rejection| violation(record, rejection))
    }

    /// What the room would be, were `envelope` accepted as its creation. A host checks with
    /// this before it makes the record.
    ///
    /// # Errors
    /// [`Rejection`].
    pub fn from_creation(
        room_id: &str,
        envelope: &VerifiedEnvelope,
        received_at: u64,
        tip: Tip,
        ctx: &dyn RoomContext,
    ) -> Result<Self, Rejection> {
        if envelope.event_type() != "room.create" {
            return reject(ErrorCode::InvalidEvent, "the first record is room.create");
        }
        let mut contract = envelope.payload().clone();
        let types = contract.remove("types");
        let mut registry = Registry::default();
        for declaration in types.iter().filter_map(Value::as_array).flatten() {
            let declaration = declaration.as_object().expect("shape checked with the envelope");
            registry
                .declare(declaration, &|uri, digest| ctx.pack(uri, digest))
                .map_err(|e| Rejection::new(e.code, e.message))?;
        }
        let creator = envelope.actor().clone();
        let member = Member {
            role: Some(Role::Moderator),
            status: MemberStatus::Active,
            perspective: None,
            joined_seq: Some(1),
            left_seq: None,
            last_event_seq: Some(1),
        };
        Ok(RoomState {
            room_id: room_id.to_owned(),
            created_at: received_at,
            contract,
            members: BTreeMap::from([(creator.clone(), member)]),
            bans: BTreeSet::new(),
            approvals: BTreeMap::new(),
            reviewed: BTreeSet::new(),
            registry,
            tip,
            head: tip,
            finished: None,
            turn: None,
            nonces: BTreeMap::from([(creator.clone(), envelope.nonce())]),
            creator,
        })
    }

    /// `public`, `restricted` or `private`.
    pub fn visibility(&self) -> &str {
        self.contract["visibility"].as_str().unwrap_or("private")
    }

    fn time(&self, name: &str) -> u64 {
        self.contract.get(name).and_then(Value::as_u64).unwrap_or(0)
    }

    /// Lifecycle status at `now` (Unix ms).
    pub fn status_at(&self, now: u64) -> RoomStatus {
        match self.finished {
            Some(status) => status,
            None if now >= self.time("end_time") => RoomStatus::Ended,
            None if now >= self.time("start_time") => RoomStatus::Active,
            None => RoomStatus::Scheduled,
        }
    }

    /// The member if it is in the room now.
    pub fn active_member(&self, agent: &AgentId) -> Option<&Member> {
        self.members.get(agent).filter(|m| m.status == MemberStatus::Active)
    }

    /// Whether `agent` is an active moderator or the (active) creator.
    pub fn moderates(&self, agent: &AgentId) -> bool {
        self.active_member(agent)
            .is_some_and(|m| m.role == Some(Role::Moderator) || *agent == self.creator)
    }

    /// The kind of a built-in or registered type.
    pub fn kind_of(&self, event_type: &str) -> Option<Kind> {
        event::built_in_kind(event_type).or_else(|| self.registry.get(event_type).map(|d| d.kind))
    }

    /// The turn that is running at `now` (Unix ms).
    pub fn active_turn(&self, now: u64) -> Option<&Turn> {
        self.turn.as_ref().filter(|t| t.expires_at.is_none_or(|end| now < end))
    }

    /// Active members that speak (moderators and speakers), and active observers.
    pub fn head_count(&self) -> (usize, usize) {
        let active = self.members.values().filter(|m| m.status == MemberStatus::Active);
        let (speaking, observing): (Vec<_>, Vec<_>) =
            active.partition(|m| m.role.is_some_and(Role::speaks));
        (speaking.len(), observing.len())
    }

    fn policy(&self, name: &str) -> Option<&Value> {
        self.contract.get("policy").and_then(|p| p.get(name))
    }

    fn listed_moderator(&self, agent: &AgentId) -> bool {
        *agent == self.creator
            || self
                .policy("moderator_agent_ids")
                .and_then(Value::as_array)
                .is_some_and(|list| list.iter().any(|v| v == agent.as_str()))
    }

    fn observers_allowed(&self) -> bool {
        self.policy("observer_allowed").and_then(Value::as_bool).unwrap_or(true)
    }

    /// Whether `agent` could take `role` by itself, speakers counted: what a direct join
    /// and an automatic approval ask.
    ///
    /// # Errors
    /// [`Rejection`].
    pub fn check_role(&self, agent: &AgentId, role: Role, approved: bool) -> Result<(), Rejection> {
        if role == Role::Observer && !self.observers_allowed() {
            return reject(ErrorCode::RoleNotAllowed, "observers are not allowed in this room");
        }
        if role == Role::Moderator && !approved && !self.listed_moderator(agent) {
            return reject(ErrorCode::RoleNotAllowed, "only listed agents join as moderator");
        }
        let speaks_already =
            self.active_member(agent).and_then(|m| m.role).is_some_and(Role::speaks);
        if role.speaks()
            && !speaks_already
            && let Some(max) = self.policy("max_speakers").and_then(Value::as_u64)
            && self.head_count().0 as u64 >= max
        {
            return reject(ErrorCode::MaxSpeakersExceeded, format!("the room has {max} speakers"));
        }
        Ok(())
    }
}

fn violation(record: &VerifiedRecord, rejection: Rejection) -> HostViolation {
    HostViolation { seq: record.seq(), record_hash: *record.hash(), rejection }
}

fn member_of(p: &Map<String, Value>) -> Result<AgentId, Rejection> {
    named(p.get("member").unwrap_or(&Value::Null), "")
}

/// The Agent ID at `value`, or at its member `name`.
fn named(value: &Value, name: &str) -> Result<AgentId, Rejection> {
    let value = if name.is_empty() { value } else { &value[name] };
    value
        .as_str()
        .and_then(|text| AgentId::parse_named(text).ok())
        .ok_or_else(|| Rejection::new(ErrorCode::InvalidEvent, "not an Agent ID"))
}

fn role_of(p: &Map<String, Value>) -> Result<Role, Rejection> {
    p.get("role")
        .and_then(Value::as_str)
        .and_then(Role::from_text)
        .ok_or_else(|| Rejection::new(ErrorCode::InvalidEvent, "role is no role"))
}
