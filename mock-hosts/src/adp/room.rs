//! One room: its log, its replayed state, and what a host keeps beside the records.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex};

use ap_protocol::event::Kind;
use ap_protocol::room::RoomStatus;
use ap_protocol::{
    AgentId, CheckedRecord, ErrorCode, Hash, RoomContext, RoomState, Tip, VerifiedRecord,
};
use serde_json::{Map, Value, json};

use super::joins::JoinRequest;
use super::live::Hub;
use crate::answer::Refusal;
use crate::host::HostInner;
use crate::sync::lock;

/// One accepted record as the host keeps it.
#[derive(Debug, Clone)]
pub(crate) struct Logged {
    pub seq: u64,
    pub hash: Hash,
    pub event_id: Hash,
    pub value: Arc<Value>,
}

impl Logged {
    pub(crate) fn of(record: &VerifiedRecord) -> Self {
        Logged {
            seq: record.seq(),
            hash: *record.hash(),
            event_id: *record.envelope().hash(),
            value: Arc::new(record.to_value()),
        }
    }

    pub(crate) fn event_type(&self) -> &str {
        self.value["envelope"]["event"]["type"].as_str().unwrap_or_default()
    }
}

/// The records of a room, in order.
#[derive(Debug, Default)]
pub(crate) struct Log {
    records: Vec<Logged>,
    events: HashSet<Hash>,
}

impl Log {
    pub(crate) fn push(&mut self, record: Logged) {
        self.events.insert(record.event_id);
        self.records.push(record);
    }

    pub(crate) fn all(&self) -> &[Logged] {
        &self.records
    }

    pub(crate) fn at(&self, seq: u64) -> Option<&Logged> {
        self.records.get(usize::try_from(seq.checked_sub(1)?).ok()?)
    }

    pub(crate) fn values(&self) -> Vec<Arc<Value>> {
        self.records.iter().map(|r| Arc::clone(&r.value)).collect()
    }
}

/// What the kernel may look up while it judges.
pub(crate) struct Ctx<'a> {
    pub log: &'a Log,
    pub packs: &'a BTreeMap<String, Vec<u8>>,
}

impl RoomContext for Ctx<'_> {
    fn hash_at(&self, seq: u64) -> Option<Hash> {
        self.log.at(seq).map(|r| r.hash)
    }

    fn contains_event(&self, event_id: &Hash) -> bool {
        self.log.events.contains(event_id)
    }

    fn pack(&self, uri: &str, _digest: &str) -> Option<Vec<u8>> {
        self.packs.get(uri).cloned()
    }
}

/// Times of an agent's recent writes, for quotas (Unix ms, by kind).
pub(crate) type Recent = HashMap<(AgentId, Kind), Vec<u64>>;

pub(crate) struct RoomInner {
    pub state: RoomState,
    pub log: Log,
    pub requests: BTreeMap<String, JoinRequest>,
    pub statuses: BTreeMap<AgentId, Value>,
    pub recent: Recent,
}

/// A room of a host. Everything that must be atomic happens under `inner`'s lock.
pub(crate) struct Room {
    pub id: String,
    pub inner: Mutex<RoomInner>,
    pub live: Hub,
}

impl Room {
    pub(crate) fn new(id: &str, state: RoomState, first: Logged) -> Self {
        let mut log = Log::default();
        log.push(first);
        Room {
            id: id.to_owned(),
            inner: Mutex::new(RoomInner {
                state,
                log,
                requests: BTreeMap::new(),
                statuses: BTreeMap::new(),
                recent: Recent::new(),
            }),
            live: Hub::default(),
        }
    }
}

impl Room {
    /// A room from its stored first record; none when that is no creation.
    pub(crate) fn restore_first(
        id: &str,
        value: &Value,
        packs: &BTreeMap<String, Vec<u8>>,
    ) -> Option<Self> {
        let record = CheckedRecord::check(value, id).ok()?.link(None).ok()?;
        let log = Log::default();
        let state = RoomState::genesis(&record, &Ctx { log: &log, packs }).ok()?;
        Some(Room::new(id, state, Logged::of(&record)))
    }

    /// The next stored record. One that no rule allowed was appended unchecked, and is again.
    pub(crate) fn restore(&self, value: &Value, packs: &BTreeMap<String, Vec<u8>>) {
        let inner = &mut *lock(&self.inner);
        let record = CheckedRecord::check(value, &self.id)
            .and_then(|checked| checked.link(Some(&inner.state.tip)));
        let (logged, applied) = match &record {
            Ok(record) => {
                let ctx = Ctx { log: &inner.log, packs };
                (Logged::of(record), inner.state.apply(record, &ctx).is_ok())
            }
            Err(_) => {
                let hash = |v: &Value| v.as_str().and_then(|t| Hash::parse(t).ok());
                // As when it was appended: an envelope without a usable hash goes by its event's.
                let event_id = hash(&value["envelope"]["hash"])
                    .unwrap_or_else(|| Hash::of_value(&value["envelope"]["event"]));
                let (Some(own), Some(seq)) = (hash(&value["hash"]), value["seq"].as_u64()) else {
                    tracing::error!(room = %self.id, "a stored record is damaged and was left out");
                    return;
                };
                let value = Arc::new(value.clone());
                (Logged { seq, hash: own, event_id, value }, false)
            }
        };
        if !applied {
            inner.bump(&logged);
        }
        inner.log.push(logged);
    }
}

/// Who may see what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// The room resource with its head.
    Resource,
    /// Events, status, archive.
    Inside,
}

impl RoomInner {
    /// The read rules (ADP 16).
    pub(crate) fn may_read(
        &self,
        agent: Option<&AgentId>,
        part: Part,
        now: u64,
    ) -> Result<(), Refusal> {
        match (self.state.visibility(), part) {
            ("public", _) | ("restricted", Part::Resource) => return Ok(()),
            _ => {}
        }
        let Some(agent) = agent else {
            return Err(Refusal::new(
                ErrorCode::InvalidToken,
                "this part of the room needs a request JWT",
            ));
        };
        if self.inside(agent) {
            return Ok(());
        }
        let approved = self.requests.values().any(|r| {
            r.request["applicant"] == agent.as_str() && r.status_at(now) == "approved" && !r.used
        });
        if part == Part::Resource && approved {
            return Ok(());
        }
        Err(Refusal::new(
            ErrorCode::MembershipRequired,
            "only the creator and members may read this",
        ))
    }

    /// The creator, or an active member.
    pub(crate) fn inside(&self, agent: &AgentId) -> bool {
        *agent == self.state.creator || self.state.active_member(agent).is_some()
    }

    /// A move of the tip past a record that replay would not apply.
    pub(crate) fn bump(&mut self, record: &Logged) {
        let tip = Tip { seq: record.seq, hash: record.hash };
        self.state.tip = tip;
        if self.state.kind_of(record.event_type()).is_none_or(Kind::advances_head) {
            self.state.head = tip;
        }
    }

    /// The contract part every view of the room shares.
    fn contract(&self, host: &HostInner, now: u64) -> Map<String, Value> {
        let s = &self.state;
        let mut view = Map::new();
        view.insert("id".into(), json!(s.room_id));
        view.insert("status".into(), json!(s.status_at(now).as_str()));
        view.insert("url".into(), json!(host.room_url(&s.room_id)));
        view.insert("creator".into(), json!(s.creator));
        view.insert("created_at".into(), json!(s.created_at));
        for (name, value) in &s.contract {
            view.insert(name.clone(), value.clone());
        }
        view
    }

    /// The room resource. `shown` is the history as this reader is shown it.
    pub(crate) fn resource(&self, host: &HostInner, now: u64, shown: &[Arc<Value>]) -> Value {
        let mut view = self.contract(host, now);
        let types: Vec<&Map<String, Value>> =
            self.state.registry.iter().map(|(_, def)| &def.definition).collect();
        view.insert("types".into(), json!(types));
        let last = shown.last();
        for name in ["seq", "pre_hash", "hash", "received_at"] {
            view.insert(name.into(), last.map_or(Value::Null, |r| r[name].clone()));
        }
        let head = shown.iter().rev().find(|r| {
            let event_type = r["envelope"]["event"]["type"].as_str().unwrap_or_default();
            self.state.kind_of(event_type).is_none_or(Kind::advances_head)
        });
        if let Some(head) = head {
            view.insert("head".into(), json!({ "seq": head["seq"], "hash": head["hash"] }));
        }
        Value::Object(view)
    }

    /// A room in a list.
    pub(crate) fn summary(&self, host: &HostInner, now: u64) -> Map<String, Value> {
        let mut view = self.contract(host, now);
        let (tip, head) = (self.state.tip, self.state.head);
        view.remove("guidance");
        view.insert("seq".into(), json!(tip.seq));
        view.insert("hash".into(), json!(tip.hash));
        view.insert("head".into(), json!({ "seq": head.seq, "hash": head.hash }));
        view
    }

    pub(crate) fn status_at(&self, now: u64) -> RoomStatus {
        self.state.status_at(now)
    }
}
