//! What a room is made of, and which rows of it changed since the last commit.
//!
//! Data and bookkeeping only: rules live in `lifecycle` and the operations, shapes for the
//! wire in `views`. Nothing here holds a raw credential.

use std::collections::{BTreeSet, HashMap};

use ap_protocol::jcs;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::clock::rfc3339;
use super::config::RoomConfig;
use super::jws::hex;

/// A member's role.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Acts.
    Participant,
    /// Reads.
    Observer,
}

impl Role {
    /// Wire name.
    pub fn name(self) -> &'static str {
        match self {
            Role::Participant => "participant",
            Role::Observer => "observer",
        }
    }
}

/// A seat in the room.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Participant {
    /// Id, unique everywhere.
    pub id: String,
    /// Name shown to the others.
    pub display_name: String,
    /// Role.
    pub role: Role,
    /// Made the room.
    pub creator: bool,
    /// Unix ms.
    pub joined_at: i64,
    /// Last authenticated read (Unix ms).
    pub last_seen_at: Option<i64>,
    /// Last message (Unix ms).
    pub deliberated_at: Option<i64>,
    /// Last choice (Unix ms).
    pub voted_at: Option<i64>,
    /// Mandate subject and issuer, for mandate seats.
    pub agent: Option<Agent>,
    /// Acts under a mandate: jti and Unix ms, as far back as a rate cap looks.
    pub acts: Vec<(String, i64)>,
}

/// The agent behind a mandate seat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Agent {
    /// Principal.
    pub iss: String,
    /// Agent.
    pub sub: String,
    /// Mandate it joined with.
    pub jti: String,
}

/// A token as the host knows it: never the token itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TokenRow {
    /// Hex SHA-256.
    pub hash: String,
    /// Index of the seat.
    pub seat: usize,
    /// Rotated out by a seat recovery.
    pub superseded: bool,
}

/// Where a decision stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The slate is open, ballots are not.
    Proposing,
    /// Ballots are open.
    Voting,
    /// Sealed.
    Resolved,
}

impl Phase {
    /// Wire name.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Proposing => "proposing",
            Phase::Voting => "voting",
            Phase::Resolved => "resolved",
        }
    }
}

/// One question.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Decision {
    /// Id: also the seed of drawn ties.
    pub id: String,
    /// Number in the room, from 1.
    pub seq: u64,
    /// The question.
    pub question: String,
    /// Framing.
    pub context: Option<String>,
    /// The slate, byte for byte.
    pub options: Vec<String>,
    /// Seat that proposed each option; `None` when it came with the question.
    pub proposers: Vec<Option<usize>>,
    /// Explicit electorate (seats).
    pub eligible: Option<Vec<usize>>,
    /// Unanimity asked for.
    pub agreement: bool,
    /// Seat that asked.
    pub opened_by: usize,
    /// Unix ms.
    pub opened_at: i64,
    /// End of the proposal phase (Unix ms).
    pub proposals_end_at: Option<i64>,
    /// It began with a proposal phase: the slate froze when choosing opened.
    pub had_slate_phase: bool,
    /// Unix ms.
    pub voting_started_at: Option<i64>,
    /// Unix ms.
    pub voting_ends_at: i64,
    /// Length of the choosing window (ms).
    pub voting_window_ms: i64,
    /// Where it stands.
    pub phase: Phase,
    /// A determined outcome that waits.
    pub settle: Option<Settle>,
    /// Times the settle window started anew.
    pub settle_restarts: u32,
    /// How it ended.
    pub sealed: Option<Sealed>,
    /// The opener was told that it sealed.
    pub opener_told: bool,
    /// Responses in the order first cast. Stored as rows of their own.
    #[serde(skip)]
    pub responses: Vec<Response>,
    /// Seat → index in `responses`.
    #[serde(skip)]
    pub by_seat: HashMap<usize, usize>,
}

/// A settle window in progress.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settle {
    /// Unix ms.
    pub seals_at: i64,
    /// The winner it would seal with.
    pub presumptive: Option<String>,
}

/// A sealed decision.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Sealed {
    /// Unix ms.
    pub at: i64,
    /// Verdict of the mechanism.
    pub outcome: String,
    /// Receipt status.
    pub status: String,
    /// The winning option.
    pub winner: Option<String>,
    /// The mechanism's full output.
    pub payload: Value,
    /// Signed receipt.
    pub receipt: Receipt,
}

/// A signed receipt and its place in the chain.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Receipt {
    /// Compact JWS.
    pub jws: String,
    /// `sha256:` hash of it.
    pub hash: String,
    /// Hash of the receipt before.
    pub prev_hash: Option<String>,
}

/// A choice or an abstention.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Response {
    /// Seat.
    pub seat: usize,
    /// Canonical ballot, or the reason of an abstention.
    pub answer: Answer,
    /// Unix ms of the last revision.
    pub cast_at: i64,
    /// Why.
    pub rationale: Option<String>,
    /// Mandate it was cast under.
    pub mandate: Option<Agent>,
}

/// What a response says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// A ballot, canonical.
    Choice(Value),
    /// A reason.
    Abstain(String),
}

/// A discussion message.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Message {
    /// Id.
    pub id: String,
    /// Author's seat.
    pub seat: usize,
    /// Text.
    pub body: String,
    /// Signal.
    pub stance: Option<String>,
    /// Unix ms.
    pub at: i64,
    /// Decision it belongs to (index), or the room.
    pub decision: Option<usize>,
    /// Event number it was announced with.
    pub event: u64,
}

/// An invitation.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Invite {
    /// Public name of the invite.
    pub code: String,
    /// Hex SHA-256 of the token.
    pub token_hash: String,
    /// Name the redeemer will bear.
    pub label: String,
    /// Role the redeemer will hold.
    pub role: Role,
    /// The room waits for this one.
    pub expected: bool,
    /// Binding kind.
    pub binding: String,
    /// Bound value.
    pub bound_to: Option<String>,
    /// Unix ms.
    pub created_at: i64,
    /// Unix ms.
    pub expires_at: Option<i64>,
    /// Unix ms.
    pub accepted_at: Option<i64>,
    /// Seat it gave.
    pub seat: Option<usize>,
    /// Unix ms.
    pub revoked_at: Option<i64>,
    /// Its expiry was noted.
    pub expired: bool,
}

impl Invite {
    /// Wire name of where it stands.
    pub fn status(&self, now: i64) -> &'static str {
        if self.revoked_at.is_some() {
            "revoked"
        } else if self.seat.is_some() {
            "accepted"
        } else if self.expired || self.expires_at.is_some_and(|e| e <= now) {
            "expired"
        } else {
            "pending"
        }
    }
}

/// A webhook registration.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Webhook {
    /// Id.
    pub id: String,
    /// Target.
    pub url: String,
    /// Wanted event types; empty: all.
    pub event_types: Vec<String>,
    /// HMAC key; leaves the host once, at registration.
    pub secret: String,
    /// Unix ms.
    pub created_at: i64,
    /// Unix ms.
    pub disabled_at: Option<i64>,
}

/// Something that happened: a mirror of the state, not the truth.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Event {
    /// Id.
    pub id: String,
    /// Number in the room, from 1, without gaps.
    pub seq: u64,
    /// Type.
    pub event_type: String,
    /// Unix ms.
    pub at: i64,
    /// Decision it is about.
    pub decision_id: Option<String>,
    /// Details, without hidden choices or credentials.
    pub data: Value,
    /// Seat whose act it was.
    pub actor: Option<usize>,
}

impl Event {
    /// Wire form.
    pub fn to_json(&self) -> Value {
        json!({
            "id": self.id, "seq": self.seq, "event_type": self.event_type,
            "occurred_at": rfc3339(self.at), "decision_id": self.decision_id, "data": self.data,
        })
    }
}

/// One link of the audit chain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AuditEntry {
    /// Number, from 1.
    pub seq: u64,
    /// RFC 3339.
    pub ts: String,
    /// What was done.
    pub action: String,
    /// Room slug.
    pub room: String,
    /// Participant id, or `host`.
    pub actor: String,
    /// What allowed it.
    pub authority: String,
    /// What it was done to.
    pub subject: Value,
    /// `rest`, `mcp` or `host`: told, not hashed, so that both transports leave equal links.
    pub transport: String,
    /// Hex hash: SHA-256(previous raw hash ‖ JCS(body) ‖ ts).
    pub hash: String,
}

impl AuditEntry {
    /// The hashed part.
    pub fn body(&self) -> Value {
        json!({
            "seq": self.seq, "action": self.action, "room": self.room, "actor": self.actor,
            "authority": self.authority, "subject": self.subject,
        })
    }

    /// The hash this entry must have after `previous`.
    pub fn expected_hash(&self, previous: Option<&str>) -> String {
        let mut digest = Sha256::new();
        if let Some(previous) = previous {
            let raw: Vec<u8> = (0..previous.len() / 2)
                .filter_map(|i| u8::from_str_radix(&previous[2 * i..2 * i + 2], 16).ok())
                .collect();
            digest.update(raw);
        }
        digest.update(jcs::to_vec(&self.body()));
        digest.update(self.ts.as_bytes());
        hex(&digest.finalize())
    }
}

/// The end of a room.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Conclusion {
    /// Unix ms.
    pub at: i64,
    /// Last words.
    pub statement: Option<String>,
    /// Signed receipt.
    pub receipt: Receipt,
}

/// The room itself, without its lists.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Head {
    /// Address.
    pub slug: String,
    /// Id.
    pub id: String,
    /// Unix ms.
    pub created_at: i64,
    /// What the room is for.
    pub about: Option<String>,
    /// Principal of a creator who came with a mandate.
    pub owner: Option<String>,
    /// Resolved configuration.
    pub config: RoomConfig,
    /// Salted hash.
    pub password: Option<String>,
    /// How it ended.
    pub conclusion: Option<Conclusion>,
    /// Newest receipt of the chain.
    pub last_receipt: Option<String>,
}

/// Kinds of stored rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Kind {
    Head = 0,
    Participant = 1,
    Decision = 2,
    Response = 3,
    Message = 4,
    Invite = 5,
    Webhook = 6,
    Event = 7,
    Audit = 8,
    Token = 9,
}

impl Kind {
    const ALL: [Kind; 10] = [
        Kind::Head,
        Kind::Participant,
        Kind::Decision,
        Kind::Response,
        Kind::Message,
        Kind::Invite,
        Kind::Webhook,
        Kind::Event,
        Kind::Audit,
        Kind::Token,
    ];

    /// By stored number.
    pub fn from_number(n: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|k| *k as u8 == n)
    }
}

/// A stored row: kind, index, JSON.
#[derive(Debug, Clone)]
pub struct Row {
    /// Kind.
    pub kind: Kind,
    /// Place in its list; for responses decision index × 2^32 + place.
    pub index: u64,
    /// Content.
    pub doc: String,
}

/// A room with everything in it.
#[derive(Debug, Clone)]
pub struct Room {
    /// The room itself.
    pub head: Head,
    /// Seats; an index is for life.
    pub participants: Vec<Participant>,
    /// Questions; index = seq − 1.
    pub decisions: Vec<Decision>,
    /// Messages.
    pub messages: Vec<Message>,
    /// Invitations.
    pub invites: Vec<Invite>,
    /// Webhooks.
    pub webhooks: Vec<Webhook>,
    /// Events; index = seq − 1.
    pub events: Vec<Event>,
    /// Audit chain.
    pub audit: Vec<AuditEntry>,
    /// Tokens.
    pub tokens: Vec<TokenRow>,
    token_index: HashMap<String, usize>,
    dirty: BTreeSet<(Kind, u64)>,
    /// Events (indices) no webhook was told yet.
    pub undelivered: Vec<usize>,
}

impl Room {
    /// An empty room.
    pub fn new(head: Head) -> Self {
        let mut room = Room {
            head,
            participants: Vec::new(),
            decisions: Vec::new(),
            messages: Vec::new(),
            invites: Vec::new(),
            webhooks: Vec::new(),
            events: Vec::new(),
            audit: Vec::new(),
            tokens: Vec::new(),
            token_index: HashMap::new(),
            dirty: BTreeSet::new(),
            undelivered: Vec::new(),
        };
        room.touch(Kind::Head, 0);
        room
    }

    /// Marks a row as changed.
    pub fn touch(&mut self, kind: Kind, index: usize) {
        self.dirty.insert((kind, index as u64));
    }

    /// Marks a response as changed.
    pub fn touch_response(&mut self, decision: usize, place: usize) {
        self.dirty.insert((Kind::Response, ((decision as u64) << 32) | place as u64));
    }

    /// Seat and state of a token hash.
    pub fn token(&self, hash: &str) -> Option<&TokenRow> {
        self.token_index.get(hash).map(|i| &self.tokens[*i])
    }

    /// Issues a token for a seat; with `rotate`, the seat's older ones stop working.
    pub fn add_token(&mut self, seat: usize, hash: String, rotate: bool) {
        if rotate {
            for i in 0..self.tokens.len() {
                if self.tokens[i].seat == seat && !self.tokens[i].superseded {
                    self.tokens[i].superseded = true;
                    self.touch(Kind::Token, i);
                }
            }
        }
        let index = self.tokens.len();
        self.token_index.insert(hash.clone(), index);
        self.tokens.push(TokenRow { hash, seat, superseded: false });
        self.touch(Kind::Token, index);
    }

    /// Appends an event.
    pub fn emit(
        &mut self,
        id: String,
        at: i64,
        event_type: &str,
        decision: Option<usize>,
        actor: Option<usize>,
        data: Value,
    ) -> u64 {
        let seq = self.events.len() as u64 + 1;
        let decision_id = decision.map(|i| self.decisions[i].id.clone());
        self.touch(Kind::Event, self.events.len());
        self.undelivered.push(self.events.len());
        self.events.push(Event {
            id,
            seq,
            event_type: event_type.to_owned(),
            at,
            decision_id,
            data,
            actor,
        });
        seq
    }

    /// Appends an audit entry.
    pub fn log(
        &mut self,
        at: i64,
        action: &str,
        actor: &str,
        authority: &str,
        transport: &str,
        subject: Value,
    ) {
        let mut entry = AuditEntry {
            seq: self.audit.len() as u64 + 1,
            ts: rfc3339(at),
            action: action.to_owned(),
            room: self.head.slug.clone(),
            actor: actor.to_owned(),
            authority: authority.to_owned(),
            subject,
            transport: transport.to_owned(),
            hash: String::new(),
        };
        entry.hash = entry.expected_hash(self.audit.last().map(|e| e.hash.as_str()));
        self.touch(Kind::Audit, self.audit.len());
        self.audit.push(entry);
    }

    /// The rows that changed since the last call, `with_content` or only counted.
    pub fn take_dirty(&mut self, with_content: bool) -> Vec<Row> {
        let dirty = std::mem::take(&mut self.dirty);
        if !with_content {
            return Vec::new();
        }
        dirty
            .into_iter()
            .map(|(kind, index)| Row { kind, index, doc: self.row(kind, index).to_string() })
            .collect()
    }

    fn row(&self, kind: Kind, index: u64) -> Value {
        let i = index as usize;
        let value = match kind {
            Kind::Head => serde_json::to_value(&self.head),
            Kind::Participant => serde_json::to_value(&self.participants[i]),
            Kind::Decision => serde_json::to_value(&self.decisions[i]),
            Kind::Response => {
                let (d, p) = ((index >> 32) as usize, (index & 0xffff_ffff) as usize);
                serde_json::to_value(&self.decisions[d].responses[p])
            }
            Kind::Message => serde_json::to_value(&self.messages[i]),
            Kind::Invite => serde_json::to_value(&self.invites[i]),
            Kind::Webhook => serde_json::to_value(&self.webhooks[i]),
            Kind::Event => serde_json::to_value(&self.events[i]),
            Kind::Audit => serde_json::to_value(&self.audit[i]),
            Kind::Token => serde_json::to_value(&self.tokens[i]),
        };
        value.expect("rows hold strings, numbers and JSON values")
    }

    /// Rebuilds a room from its rows, which come ordered by kind and index.
    ///
    /// # Errors
    /// A row that is missing or does not parse.
    pub fn from_rows(rows: &[Row]) -> Result<Self, String> {
        fn list<T: serde::de::DeserializeOwned>(
            rows: &[Row],
            kind: Kind,
        ) -> Result<Vec<T>, String> {
            rows.iter()
                .filter(|r| r.kind == kind)
                .map(|r| serde_json::from_str(&r.doc).map_err(|e| format!("{kind:?}: {e}")))
                .collect()
        }
        let head = list(rows, Kind::Head)?.pop().ok_or("a room without its head row")?;
        let mut room = Room::new(head);
        room.participants = list(rows, Kind::Participant)?;
        room.decisions = list(rows, Kind::Decision)?;
        for row in rows.iter().filter(|r| r.kind == Kind::Response) {
            let response: Response = serde_json::from_str(&row.doc).map_err(|e| e.to_string())?;
            let d = room
                .decisions
                .get_mut((row.index >> 32) as usize)
                .ok_or("a response without its decision")?;
            d.by_seat.insert(response.seat, d.responses.len());
            d.responses.push(response);
        }
        room.messages = list(rows, Kind::Message)?;
        room.invites = list(rows, Kind::Invite)?;
        room.webhooks = list(rows, Kind::Webhook)?;
        room.events = list(rows, Kind::Event)?;
        room.audit = list(rows, Kind::Audit)?;
        room.tokens = list(rows, Kind::Token)?;
        room.token_index =
            room.tokens.iter().enumerate().map(|(i, t)| (t.hash.clone(), i)).collect();
        room.dirty.clear();
        Ok(room)
    }

    /// Everything stored about the room, to look for what must not be there.
    pub fn dump(room: &Room) -> Value {
        json!({
            "head": room.head, "participants": room.participants, "decisions": room.decisions,
            "responses":
                room.decisions.iter().map(|d| json!(d.responses)).collect::<Vec<_>>(),
            "messages": room.messages, "invites": room.invites, "events": room.events,
            "audit": room.audit, "tokens": room.tokens,
        })
    }

    /// Whether nothing changed since the last commit.
    pub fn is_clean(&self) -> bool {
        self.dirty.is_empty()
    }

    /// Seat of a participant id.
    pub fn seat_of(&self, id: &str) -> Option<usize> {
        self.participants.iter().position(|p| p.id == id)
    }

    /// Indices of decisions not yet sealed, oldest first.
    pub fn open_decisions(&self) -> Vec<usize> {
        (0..self.decisions.len()).filter(|i| self.decisions[*i].phase != Phase::Resolved).collect()
    }

    /// Highest event number.
    pub fn event_head(&self) -> u64 {
        self.events.len() as u64
    }
}
