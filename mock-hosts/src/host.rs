//! One host: its state and the handle that tests, the suite and the control port hold.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ap_protocol::{AgentId, ErrorCode, Hash, SecretKey};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::adp::joins::JoinRequest;
use crate::adp::room::Room;
use crate::adp::write;
use crate::answer::Refusal;
use crate::app::Profiles;
use crate::clock::Clock;
use crate::fault::engine::{FaultId, FaultState};
use crate::fault::persona::Persona;
use crate::fault::{End, Fault, Plan};
use crate::front::{Dialect, Front};
use crate::gate::Gate;
use crate::journal::{Journal, JournalEntry};
use crate::limits::Limits;
use crate::nonces::NonceCache;
use crate::store::{Store, StoreError};
use crate::sync::lock;

/// How a host is set up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HostConfig {
    /// Serves the discourse endpoints.
    pub discourse: bool,
    /// Serves the profile endpoints.
    pub profiles: bool,
    /// Decides generated ids and the resident's key.
    pub seed: u64,
    /// Where to listen; port 0 picks a free one.
    pub listen: SocketAddr,
    /// Lists as bare arrays instead of `{ "result": […] }`.
    pub bare_lists: bool,
    /// Limits; all off by default.
    pub limits: Limits,
    /// Time between heartbeats on a quiet stream (ms).
    pub heartbeat_ms: u64,
    /// Longest life of an agent status (ms).
    pub status_ttl_max_ms: u64,
    /// Life of a join request (ms).
    pub join_request_ttl_ms: u64,
    /// Profile service that discovery names; this host itself when absent.
    pub profile_service: Option<String>,
    /// Largest request body (bytes).
    pub max_body_bytes: usize,
    /// Directory for the host's database; in memory when absent.
    pub data: Option<std::path::PathBuf>,
    /// Nonces are never forgotten, instead of after twice the live window.
    pub keep_nonces: bool,
}

impl Default for HostConfig {
    fn default() -> Self {
        HostConfig {
            discourse: true,
            profiles: false,
            seed: 0,
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            bare_lists: false,
            limits: Limits::default(),
            heartbeat_ms: 15_000,
            status_ttl_max_ms: 300_000,
            join_request_ttl_ms: 7 * 86_400_000,
            profile_service: None,
            max_body_bytes: 2 * 1024 * 1024,
            data: None,
            keep_nonces: true,
        }
    }
}

/// Everything a host is. Shared by its connections and its handles.
pub(crate) struct HostInner {
    pub front: Arc<Front>,
    pub config: HostConfig,
    pub nonces: Mutex<NonceCache>,
    pub rooms: Mutex<BTreeMap<String, Arc<Room>>>,
    pub profiles: Mutex<Profiles>,
    /// External pack documents by URI.
    pub packs: Mutex<BTreeMap<String, Vec<u8>>>,
    /// The agent that moves heads on demand.
    pub resident: SecretKey,
    /// The agent that signs what others should have signed.
    pub stranger: SecretKey,
    pub ids: AtomicU64,
    pub next_rooms: Mutex<VecDeque<String>>,
    pub limits: Mutex<Limits>,
    pub store: Option<Arc<Store>>,
    /// Stands between the clients and this host.
    pub relay: std::sync::OnceLock<Arc<dyn crate::relay::Relay>>,
}

fn derived_key(label: &str, seed: u64, name: &str) -> SecretKey {
    SecretKey::from_seed(Hash::of(format!("{name}/{seed}/{label}").as_bytes()).as_bytes())
}

/// 12 bytes as a Xid: 20 lowercase base32hex characters.
fn xid(bytes: &[u8; 32]) -> String {
    const ALPHABET: &[u8; 32] = b"0123456789abcdefghijklmnopqrstuv";
    let mut out = String::with_capacity(20);
    let (mut bits, mut have) = (0u32, 0u32);
    for &byte in &bytes[..12] {
        bits = (bits << 8) | u32::from(byte);
        have += 8;
        while have >= 5 {
            have -= 5;
            out.push(char::from(ALPHABET[((bits >> have) & 31) as usize]));
        }
    }
    out.push(char::from(ALPHABET[((bits << (5 - have)) & 31) as usize]));
    out
}

fn unstored(error: StoreError) -> Refusal {
    Refusal::http(503, "storage_unavailable", error.to_string())
}

impl HostInner {
    pub(crate) fn new(
        label: &str,
        url: String,
        config: HostConfig,
        clock: Clock,
        store: Option<Arc<Store>>,
    ) -> Self {
        HostInner {
            relay: std::sync::OnceLock::new(),
            resident: derived_key(label, config.seed, "resident"),
            stranger: derived_key(label, config.seed, "stranger"),
            nonces: Mutex::new(NonceCache::new(config.keep_nonces)),
            limits: Mutex::new(config.limits.clone()),
            store,
            front: Arc::new(Front::new(label, url, Dialect::Agent, clock)),
            config,
            rooms: Mutex::default(),
            profiles: Mutex::default(),
            packs: Mutex::default(),
            ids: AtomicU64::new(0),
            next_rooms: Mutex::default(),
        }
    }

    pub(crate) fn next_id(&self, kind: &str) -> String {
        let n = self.ids.fetch_add(1, Ordering::Relaxed);
        let text = format!("{kind}/{}/{}/{n}", self.config.seed, self.front.label);
        xid(Hash::of(text.as_bytes()).as_bytes())
    }

    pub(crate) fn next_room_id(&self) -> String {
        let chosen = lock(&self.next_rooms).pop_front();
        chosen.unwrap_or_else(|| self.next_id("room"))
    }

    pub(crate) fn room_url(&self, room_id: &str) -> String {
        format!("{}/v1/rooms/{room_id}", self.front.url)
    }

    pub(crate) fn room(&self, room_id: &str) -> Result<Arc<Room>, Refusal> {
        lock(&self.rooms)
            .get(room_id)
            .cloned()
            .ok_or_else(|| Refusal::new(ErrorCode::RoomNotFound, "no such room on this host"))
    }

    pub(crate) fn all_rooms(&self) -> Vec<Arc<Room>> {
        lock(&self.rooms).values().cloned().collect()
    }

    /// Waits until what this host did so far is durable. Nothing is told to anybody before.
    pub(crate) async fn settled(&self) -> Result<(), Refusal> {
        match &self.store {
            Some(store) => store.settled().await.map_err(unstored),
            None => Ok(()),
        }
    }

    /// As `settled`, for the Rust API.
    fn settle(&self) -> Result<(), Refusal> {
        self.store.as_ref().map_or(Ok(()), |store| store.settle().map_err(unstored))
    }

    /// Queues a record with its nonce for the disk.
    pub(crate) fn store_record(&self, record: &Arc<Value>, actor: &AgentId, nonce: u64, now: u64) {
        if let Some(store) = &self.store {
            store.record(Arc::clone(record), Some((actor, nonce)), now);
        }
    }

    /// Queues a record that used no nonce.
    pub(crate) fn store_raw(&self, record: &Arc<Value>) {
        if let Some(store) = &self.store {
            store.record(Arc::clone(record), None, 0);
        }
    }

    pub(crate) fn store_request(&self, room: &str, request: &JoinRequest) {
        if let Some(store) = &self.store {
            let id = request.request["id"].as_str().unwrap_or_default();
            store.request(room, id, request.to_stored());
        }
    }

    pub(crate) fn store_profile(&self, envelope: &Value, actor: &AgentId, nonce: u64, now: u64) {
        if let Some(store) = &self.store {
            store.profile(envelope, actor, nonce, now);
        }
    }

    /// Takes back what the store holds, through the same judgement as when it came.
    pub(crate) fn restore(&self) -> Result<(), StoreError> {
        let Some(store) = &self.store else { return Ok(()) };
        let loaded = store.load()?;
        self.ids.store(loaded.starts << 32, Ordering::Relaxed);
        lock(&self.packs).extend(loaded.packs);
        let mut nonces = lock(&self.nonces);
        for (agent, max, at) in loaded.nonces {
            nonces.take(&agent, max, at);
        }
        drop(nonces);
        let mut profiles = lock(&self.profiles);
        for (agent, envelope) in loaded.profiles {
            profiles.push(agent, envelope);
        }
        drop(profiles);
        let packs = lock(&self.packs);
        let mut rooms = lock(&self.rooms);
        for value in loaded.records {
            let id = value["room_id"].as_str().unwrap_or_default().to_owned();
            match rooms.get(&id) {
                Some(room) => room.restore(&value, &packs),
                None => {
                    if let Some(room) = Room::restore_first(&id, &value, &packs) {
                        rooms.insert(id, Arc::new(room));
                    }
                }
            }
        }
        for (room, value) in loaded.requests {
            if let (Some(room), Some(request)) = (rooms.get(&room), JoinRequest::of_stored(&value))
            {
                let id = request.request["id"].as_str().unwrap_or_default().to_owned();
                lock(&room.inner).requests.insert(id, request);
            }
        }
        Ok(())
    }
}

/// A running host. Clones are the same host; it lives as long as its [`crate::Lab`].
#[derive(Clone)]
pub struct Host {
    pub(crate) inner: Arc<HostInner>,
}

/// A host that serves the discourse endpoints.
pub type AdpHost = Host;
/// A host that serves the profile endpoints.
pub type AppHost = Host;

impl AsRef<str> for Host {
    fn as_ref(&self) -> &str {
        &self.inner.front.url
    }
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Host({} at {})", self.inner.front.label, self.inner.front.url)
    }
}

impl Host {
    /// The label given at the start.
    pub fn label(&self) -> &str {
        &self.inner.front.label
    }

    /// Base URL, which is also the origin and so the `aud` of request JWTs.
    pub fn url(&self) -> &str {
        &self.inner.front.url
    }

    /// The lab's clock.
    pub fn clock(&self) -> Clock {
        self.inner.front.clock.clone()
    }

    /// The settings it runs with.
    pub fn config(&self) -> &HostConfig {
        &self.inner.config
    }

    /// Puts something between the clients and this host, once and for all; whether the place
    /// was free.
    pub fn set_relay(&self, relay: Arc<dyn crate::Relay>) -> bool {
        self.inner.relay.set(relay).is_ok()
    }

    // --- faults ---

    /// Replaces all faults.
    pub fn plan(&self, plan: Plan) -> Vec<FaultId> {
        self.inner.front.faults.set_plan(plan)
    }

    /// Adds a fault.
    pub fn add_fault(&self, fault: Fault) -> FaultId {
        self.inner.front.faults.add(fault)
    }

    /// Removes one fault; whether it was there.
    pub fn remove_fault(&self, id: FaultId) -> bool {
        self.inner.front.faults.remove(id)
    }

    /// Back to honesty. Held requests stay held.
    pub fn clear_faults(&self) {
        self.inner.front.faults.clear();
    }

    /// The faults with their counters.
    pub fn faults(&self) -> Vec<FaultState> {
        self.inner.front.faults.list()
    }

    /// How often a fault hit; 0 for an unknown one.
    pub fn hits(&self, id: FaultId) -> u64 {
        self.faults().into_iter().find(|f| f.id == id).map_or(0, |f| f.hits)
    }

    /// The present plan.
    pub fn current_plan(&self) -> Plan {
        self.inner.front.faults.plan()
    }

    /// Plays a persona: its faults replace all others, its limits apply.
    pub fn play(&self, persona: Persona) {
        self.plan(persona.plan(self.inner.config.seed));
        if let Some(limits) = persona.limits() {
            self.set_limits(limits);
        }
    }

    /// Replaces the limits.
    pub fn set_limits(&self, limits: Limits) {
        *lock(&self.inner.limits) = limits;
    }

    // --- watching ---

    /// The journal itself, for waiting and counting.
    pub fn journal(&self) -> &Journal {
        &self.inner.front.journal
    }

    /// A copy of the journal's entries.
    pub fn requests(&self) -> Vec<JournalEntry> {
        self.inner.front.journal.entries()
    }

    /// The gate where `hold` faults wait.
    pub fn step(&self) -> &Gate {
        &self.inner.front.gate
    }

    /// Ids of all rooms, in id order.
    pub fn rooms(&self) -> Vec<String> {
        lock(&self.inner.rooms).keys().cloned().collect()
    }

    /// The true records of a room; empty for an unknown room.
    pub fn records(&self, room_id: &str) -> Vec<Value> {
        let Ok(room) = self.inner.room(room_id) else { return Vec::new() };
        let inner = lock(&room.inner);
        inner.log.all().iter().map(|r| Value::clone(&r.value)).collect()
    }

    /// The true room resource.
    pub fn room(&self, room_id: &str) -> Option<Value> {
        let room = self.inner.room(room_id).ok()?;
        let inner = lock(&room.inner);
        Some(inner.resource(&self.inner, self.inner.front.clock.now_ms(), &inner.log.values()))
    }

    /// A copy of the replayed state.
    pub fn state(&self, room_id: &str) -> Option<ap_protocol::RoomState> {
        let room = self.inner.room(room_id).ok()?;
        let inner = lock(&room.inner);
        Some(inner.state.clone())
    }

    /// Live streams open on a room now.
    pub fn live_subscribers(&self, room_id: &str) -> usize {
        self.inner.room(room_id).map_or(0, |r| r.live.count())
    }

    /// Waits until a room has exactly `n` live streams; whether that came true in time.
    pub async fn wait_for_subscribers(&self, room_id: &str, n: usize, deadline: Duration) -> bool {
        let Ok(room) = self.inner.room(room_id) else { return false };
        let mut count = room.live.watch();
        let reached = count.wait_for(|c| *c == n);
        matches!(tokio::time::timeout(deadline, reached).await, Ok(Ok(_)))
    }

    /// Ends all live streams of a room now. Returns how many there were.
    pub fn cut_streams(&self, room_id: &str, end: End) -> usize {
        self.inner.room(room_id).map_or(0, |r| r.live.cut(end))
    }

    /// Everything the host knows, as JSON.
    pub fn dump(&self) -> Value {
        let now = self.inner.front.clock.now_ms();
        let mut rooms = serde_json::Map::new();
        for room in self.inner.all_rooms() {
            let subscribers = room.live.count();
            let inner = lock(&room.inner);
            let requests: Vec<Value> = inner.requests.values().map(|r| r.view(now)).collect();
            let view = json!({
                "resource": inner.resource(&self.inner, now, &inner.log.values()),
                "records": inner.log.all().iter().map(|r| Value::clone(&r.value)).collect::<Vec<_>>(),
                "members": inner.state.members.iter()
                    .map(|(a, m)| (a.to_string(), json!(m)))
                    .collect::<serde_json::Map<_, _>>(),
                "bans": inner.state.bans,
                "join_requests": requests,
                "statuses": inner.statuses.values().collect::<Vec<_>>(),
                "live_subscribers": subscribers,
            });
            rooms.insert(room.id.clone(), view);
        }
        let nonces: serde_json::Map<String, Value> =
            lock(&self.inner.nonces).all().map(|(a, n)| (a.to_string(), json!(n))).collect();
        json!({
            "label": self.inner.front.label, "url": self.inner.front.url, "now": now,
            "resident": self.inner.resident.agent_id(),
            "rooms": rooms,
            "profiles": lock(&self.inner.profiles).dump(),
            "nonces": nonces,
            "faults": self.faults(),
            "held": self.inner.front.gate.list(),
        })
    }

    /// Forgets everything: rooms, profiles, nonces, faults, journal, held requests.
    pub fn reset(&self) {
        self.inner.front.faults.clear();
        self.inner.front.gate.release_all();
        for room in self.inner.all_rooms() {
            room.live.cut(End::Finish);
        }
        if let Some(store) = &self.inner.store
            && let Err(error) = store.clear()
        {
            tracing::error!(%error, "the stored data was not cleared");
        }
        *lock(&self.inner.limits) = self.inner.config.limits.clone();
        lock(&self.inner.rooms).clear();
        lock(&self.inner.profiles).clear();
        lock(&self.inner.nonces).clear();
        lock(&self.inner.packs).clear();
        lock(&self.inner.next_rooms).clear();
        self.inner.ids.store(0, Ordering::Relaxed);
        self.inner.front.journal.clear();
    }

    // --- arranging ---

    /// The id of the next room created here, instead of a generated one.
    pub fn next_room_id(&self, id: &str) {
        lock(&self.inner.next_rooms).push_back(id.to_owned());
    }

    /// Offers a pack document at `{url}/packs/{name}` and resolves imports of that URI.
    /// Returns the URI.
    pub fn add_pack(&self, name: &str, document: &[u8]) -> String {
        let uri = format!("{}/packs/{name}", self.inner.front.url);
        self.add_pack_at(&uri, document);
        uri
    }

    /// Resolves imports of any URI to this document, without serving it there.
    pub fn add_pack_at(&self, uri: &str, document: &[u8]) {
        lock(&self.inner.packs).insert(uri.to_owned(), document.to_vec());
        if let Some(store) = &self.inner.store {
            store.pack(uri, document);
        }
    }

    /// The Agent ID of the resident, which moves heads on demand.
    pub fn resident(&self) -> AgentId {
        self.inner.resident.agent_id()
    }

    /// The resident says `by` things in a room, so that its head moves. In a public room it
    /// joins by itself.
    ///
    /// # Errors
    /// [`Refusal`], as for anybody.
    pub fn move_head(&self, room_id: &str, by: u64) -> Result<(), Refusal> {
        write::move_head(&self.inner, room_id, by, self.inner.front.clock.now_ms())?;
        self.inner.settle()
    }

    /// Accepts an envelope as the write endpoints would, without HTTP and without faults.
    /// Returns the record; for a profile.update, the document.
    ///
    /// # Errors
    /// [`Refusal`], what the HTTP answer would say.
    pub fn accept(&self, envelope: &Value) -> Result<Value, Refusal> {
        let now = self.inner.front.clock.now_ms();
        let verified = write::check_envelope(&self.inner, envelope, now)?;
        if verified.event()["protocol"] == ap_protocol::PROFILE_PROTOCOL {
            let (document, _) = crate::app::accept(&self.inner, verified, now)?;
            self.inner.settle()?;
            return Ok(document);
        }
        let done = match verified.room_id().map(str::to_owned) {
            None => write::make_room(&self.inner, verified, now)?,
            Some(room_id) => write::submit(&self.inner, &room_id, verified, now)?,
        };
        self.inner.settle()?;
        Ok(Value::clone(&done.record))
    }

    /// Commits a record that no rule allowed, even one whose envelope does not verify.
    /// The host's own state follows as far as replay lets it. Returns the record.
    ///
    /// # Errors
    /// `room_not_found`.
    pub fn append_unchecked(&self, room_id: &str, envelope: &Value) -> Result<Value, Refusal> {
        let now = self.inner.front.clock.now_ms();
        let done = write::append_unchecked(&self.inner, room_id, envelope, now)?;
        self.inner.settle()?;
        Ok(Value::clone(&done.record))
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn ids_look_like_xids() {
        let mut bytes = [0u8; 32];
        assert_eq!(super::xid(&bytes), "0".repeat(20));
        bytes[..12].fill(0xff);
        // 96 bits fill 19 characters and one bit of the last.
        assert_eq!(super::xid(&bytes), format!("{}g", "v".repeat(19)));
    }
}
