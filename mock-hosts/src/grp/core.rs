//! The GRP host without transports: one function an operation goes through, whatever
//! carried it. Operation, arguments, credential and idempotency key in; result or error out.
//!
//! Order of every call: mandate signature → room → due time → who is calling → remembered
//! answer → the act → one commit → wake the waiters. Transports must not decide anything.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use ap_protocol::SecretKey;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::sync::{Notify, watch};

use super::clock::{Entropy, GrpClock};
use super::config::Auth;
use super::defects::{Defect, Defects};
use super::door::mandate_not_accepted;
use super::error::GrpError;
use super::jws;
use super::lifecycle::{self, Ctx};
use super::mandate::{Issuers, Lenience, Mandate};
use super::model::Room;
pub use super::op::{Call, Caller, Credential, Gate, Op};
use super::replay::{IDEMPOTENCY_TTL_MS, Tombstone};
use super::store::{Batch, NewAnswer, Storage, StoreError};
use super::webhooks::Delivery;

/// Longest long-poll (s), unless configured shorter.
pub const MAX_WAIT_S: f64 = 50.0;

/// A room in memory, and the bell its waiters listen to.
#[derive(Debug)]
pub struct RoomCell {
    /// `None` once deleted.
    pub room: Mutex<Option<Room>>,
    /// Rung after every commit that changed something.
    pub changed: watch::Sender<u64>,
}

impl RoomCell {
    fn new(room: Room) -> Arc<Self> {
        Arc::new(RoomCell { room: Mutex::new(Some(room)), changed: watch::Sender::new(0) })
    }

    /// The room, locked.
    pub fn lock(&self) -> MutexGuard<'_, Option<Room>> {
        self.room.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Settings of the core.
#[derive(Debug)]
pub struct CoreConfig {
    /// Time.
    pub clock: GrpClock,
    /// Randomness.
    pub entropy: Entropy,
    /// Believed issuers.
    pub issuers: Issuers,
    /// Longest wait (s).
    pub max_wait_s: f64,
    /// Whether webhook targets on private addresses are allowed.
    pub private_webhooks: bool,
    /// Defects.
    pub defects: Defects,
}

/// The host without transports.
#[derive(Debug)]
pub struct Core {
    /// Settings.
    pub config: CoreConfig,
    base: RwLock<String>,
    key: SecretKey,
    kid: String,
    rooms: RwLock<HashMap<String, Arc<RoomCell>>>,
    pub(super) store: Box<dyn Storage>,
    pub(super) creating: Mutex<()>,
    /// Rung when a deadline may have moved.
    pub deadlines: Notify,
    deliveries: tokio::sync::mpsc::Sender<Delivery>,
}

pub(super) fn storage_error(e: &StoreError) -> GrpError {
    tracing::error!(error = %e, "grp storage");
    GrpError::new("internal.error", "The host could not store this; repeat the same request.")
}

pub(super) fn not_found() -> GrpError {
    GrpError::new("room.not_found", "There is no such room here.")
}

impl Core {
    /// Opens the storage: rooms and the signing key in it come back.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn open(
        config: CoreConfig,
        store: Box<dyn Storage>,
        deliveries: tokio::sync::mpsc::Sender<Delivery>,
    ) -> Result<Self, StoreError> {
        let seed = store.meta("room_key", &|| config.entropy.bytes::<32>().to_vec())?;
        let seed: [u8; 32] =
            seed.try_into().map_err(|_| StoreError("the room key has an odd length".into()))?;
        let key = SecretKey::from_seed(&seed);
        let fingerprint = jws::hex(&Sha256::digest(key.agent_id().key_bytes())[..8]);
        let core = Core {
            config,
            base: RwLock::default(),
            key,
            kid: format!("room-{fingerprint}"),
            rooms: RwLock::default(),
            store,
            creating: Mutex::default(),
            deadlines: Notify::new(),
            deliveries,
        };
        core.store.forget(core.now() - IDEMPOTENCY_TTL_MS)?;
        for slug in core.store.rooms()? {
            core.reload(&slug)?;
        }
        // What a crash left undelivered goes out first, under the ids it had.
        for delivery in core.store.deliveries()? {
            core.send(delivery);
        }
        Ok(core)
    }

    fn reload(&self, slug: &str) -> Result<(), StoreError> {
        let rows = self.store.rows(slug)?;
        let mut rooms = self.rooms.write().unwrap_or_else(PoisonError::into_inner);
        if rows.is_empty() {
            rooms.remove(slug);
        } else {
            let room = Room::from_rows(&rows).map_err(StoreError)?;
            rooms.insert(slug.to_owned(), RoomCell::new(room));
        }
        Ok(())
    }

    /// Sets the origin this host is reached at.
    pub fn set_base(&self, base: &str) {
        *self.base.write().unwrap_or_else(PoisonError::into_inner) = base.to_owned();
    }

    /// The origin this host is reached at.
    pub fn base(&self) -> String {
        self.base.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Key name and public key of the receipts.
    pub fn public_key(&self) -> (&str, [u8; 32]) {
        (&self.kid, *self.key.agent_id().key_bytes())
    }

    /// Unix ms by the host's clock.
    pub fn now(&self) -> i64 {
        self.config.clock.now_ms()
    }

    /// Whether a defect is switched on.
    pub fn has(&self, defect: Defect) -> bool {
        self.config.defects.has(defect)
    }

    /// Calls `f` with a context for acts at this moment.
    pub fn with_ctx<T>(&self, transport: &str, f: impl FnOnce(&Ctx<'_>) -> T) -> T {
        let base = self.base();
        f(&Ctx {
            now: self.now(),
            entropy: &self.config.entropy,
            key: &self.key,
            kid: &self.kid,
            base: &base,
            transport,
            defects: &self.config.defects,
        })
    }

    /// The cell of a room.
    ///
    /// # Errors
    /// `room.not_found`.
    pub fn cell(&self, slug: &str) -> Result<Arc<RoomCell>, GrpError> {
        let rooms = self.rooms.read().unwrap_or_else(PoisonError::into_inner);
        rooms.get(slug).cloned().ok_or_else(not_found)
    }

    /// All rooms in memory.
    pub fn cells(&self) -> Vec<Arc<RoomCell>> {
        let rooms = self.rooms.read().unwrap_or_else(PoisonError::into_inner);
        rooms.values().cloned().collect()
    }

    /// Forgets every room and every remembered answer; whoever waits learns of it.
    ///
    /// # Errors
    /// [`StoreError`]: nothing is forgotten then.
    pub fn reset(&self) -> Result<(), StoreError> {
        let gone: Vec<Arc<RoomCell>> = {
            let mut rooms = self.rooms.write().unwrap_or_else(PoisonError::into_inner);
            self.store.clear()?;
            rooms.drain().map(|(_, cell)| cell).collect()
        };
        // Not under the lock of the list: whoever deletes a room holds its cell and wants that.
        for cell in gone {
            *cell.lock() = None;
            cell.changed.send_modify(|n| *n += 1);
        }
        Ok(())
    }

    /// Verifies the mandate of a call, if it brings one (check 1 of GRP T4.2).
    ///
    /// # Errors
    /// `mandate.*`.
    pub async fn mandate(&self, credential: &Credential) -> Result<Option<Mandate>, GrpError> {
        let Some(compact) = &credential.mandate else { return Ok(None) };
        let lenience = Lenience {
            signature: self.has(Defect::MandateSignatureIgnored),
            form: self.has(Defect::MandateFormIgnored),
        };
        self.config.issuers.verify(compact, self.now(), lenience).await.map(Some)
    }

    /// Carries out one call. Waits go through [`super::wait`].
    ///
    /// # Errors
    /// [`GrpError`].
    pub async fn execute(self: &Arc<Self>, call: Call) -> Result<Value, GrpError> {
        if self.has(Defect::MandateOrder)
            && call.credential.mandate.is_some()
            && let Some(slug) = &call.slug
            && let Some(room) = &*self.cell(slug)?.lock()
            && room.head.config.auth == Auth::TokenOnly
        {
            return Err(mandate_not_accepted());
        }
        let mandate = self.mandate(&call.credential).await?;
        if !self.store.keeps_rows() {
            return self.run(&call, mandate);
        }
        // SQLite blocks: not on a thread that answers others.
        let core = Arc::clone(self);
        tokio::task::spawn_blocking(move || core.run(&call, mandate)).await.unwrap_or_else(|e| {
            tracing::error!(error = %e, "grp operation panicked");
            Err(GrpError::new("internal.error", "The host failed; repeat the same request."))
        })
    }

    fn run(&self, call: &Call, mandate: Option<Mandate>) -> Result<Value, GrpError> {
        if let Some(key) = &call.idempotency_key
            && (key.is_empty()
                || key.len() > 255
                || !key.bytes().all(|b| (0x20..0x7f).contains(&b)))
        {
            return Err(GrpError::input(
                "Idempotency-Key must be 1 to 255 printable ASCII characters.",
            ));
        }
        match call.op {
            Op::CreateRoom => self.create(call, mandate),
            Op::ListRooms => self.list_rooms(call),
            _ => self.in_room(call, mandate),
        }
    }

    fn in_room(&self, call: &Call, mandate: Option<Mandate>) -> Result<Value, GrpError> {
        let slug = call.slug.as_deref().ok_or_else(|| GrpError::input("slug is required."))?;
        loop {
            let Ok(cell) = self.cell(slug) else { return self.after_deletion(slug, call, mandate) };
            let mut guard = cell.lock();
            let Some(room) = guard.as_mut() else {
                // Deleted, or read back from the storage into a new cell while this call
                // waited for its turn; whoever emptied the cell is done with the map by now.
                continue;
            };
            self.with_ctx(call.transport, |ctx| lifecycle::advance(room, ctx));
            let marks = (room.events.len(), room.audit.len());
            let mut remember = None;
            let answer = self.decide(room, call, mandate, &mut remember);
            if call.transport == "mcp" && self.has(Defect::McpSilent) {
                room.events.truncate(marks.0);
                room.audit.truncate(marks.1);
            }
            let tombstone = (call.op == Op::DeleteRoom && answer.is_ok())
                .then(|| Tombstone::of(room, self.now()));
            self.commit(&cell, &mut guard, tombstone, remember)?;
            return answer;
        }
    }

    /// Commits what changed, wakes waiters, hands events to webhooks.
    pub fn commit(
        &self,
        cell: &RoomCell,
        guard: &mut Option<Room>,
        delete: Option<Tombstone>,
        remember: Option<NewAnswer>,
    ) -> Result<(), GrpError> {
        let Some(room) = guard.as_mut() else { return Ok(()) };
        if room.is_clean() && remember.is_none() && delete.is_none() {
            return Ok(());
        }
        let slug = room.head.slug.clone();
        let gone = delete.is_some();
        let rows = room.take_dirty(self.store.keeps_rows());
        let deliveries = self.outgoing(room);
        let batch = Batch {
            room: slug.clone(),
            rows,
            delete,
            remember,
            deliveries: if self.store.keeps_rows() { deliveries.clone() } else { Vec::new() },
        };
        if let Err(e) = self.store.commit(batch) {
            // What is in memory is ahead of the truth: back to the truth.
            *guard = None;
            if let Err(e) = self.reload(&slug) {
                tracing::error!(error = %e, "grp room could not be read back");
                self.rooms.write().unwrap_or_else(PoisonError::into_inner).remove(&slug);
            }
            cell.changed.send_modify(|n| *n += 1);
            return Err(storage_error(&e));
        }
        for delivery in deliveries {
            self.send(delivery);
        }
        if gone {
            *guard = None;
            self.rooms.write().unwrap_or_else(PoisonError::into_inner).remove(&slug);
        }
        cell.changed.send_modify(|n| *n += 1);
        self.deadlines.notify_one();
        Ok(())
    }

    /// The pushes that new events of a room are due.
    fn outgoing(&self, room: &mut Room) -> Vec<Delivery> {
        let mut out = Vec::new();
        for i in std::mem::take(&mut room.undelivered) {
            let Some(event) = room.events.get(i) else { continue };
            for hook in room.webhooks.iter().filter(|h| h.disabled_at.is_none()) {
                if hook.event_types.is_empty() || hook.event_types.contains(&event.event_type) {
                    out.push(Delivery {
                        id: self.config.entropy.uuid(),
                        url: hook.url.clone(),
                        secret: hook.secret.clone(),
                        webhook_id: hook.id.clone(),
                        room: room.head.slug.clone(),
                        event: event.clone(),
                    });
                }
            }
        }
        out
    }

    fn send(&self, delivery: Delivery) {
        // A full queue means that the targets do not listen: pushes are hints, and who
        // missed one reads the events from its cursor.
        if let Err(e) = self.deliveries.try_send(delivery) {
            tracing::warn!(
                "a webhook delivery is dropped: {}",
                match &e {
                    tokio::sync::mpsc::error::TrySendError::Full(_) => "the queue is full",
                    tokio::sync::mpsc::error::TrySendError::Closed(_) => "the host is stopping",
                }
            );
        }
    }

    /// Whether a push is still wanted: its room lives, its registration was not removed.
    pub fn wants(&self, delivery: &Delivery) -> bool {
        let Ok(cell) = self.cell(&delivery.room) else { return false };
        let guard = cell.lock();
        guard.as_ref().is_some_and(|room| {
            room.webhooks.iter().any(|h| h.id == delivery.webhook_id && h.disabled_at.is_none())
        })
    }

    /// Forgets a push that was taken, or that is not tried again.
    pub async fn settled(self: &Arc<Self>, delivery: String) {
        if !self.store.keeps_rows() {
            return;
        }
        let core = Arc::clone(self);
        let done = tokio::task::spawn_blocking(move || core.store.delivered(&delivery)).await;
        if let Ok(Err(e)) = done {
            // It will be pushed once more after a restart, under the same id.
            tracing::warn!(error = %e, "a delivery could not be marked as done");
        }
    }

    /// Carries out what time made due in a room, and returns its next deadline.
    pub fn tick(&self, cell: &RoomCell) -> Option<i64> {
        let mut guard = cell.lock();
        let room = guard.as_mut()?;
        self.with_ctx("host", |ctx| lifecycle::advance(room, ctx));
        let next = lifecycle::next_deadline(room, self.now());
        if self.commit(cell, &mut guard, None, None).is_err() {
            return None;
        }
        next
    }

    pub(super) fn insert(&self, room: Room, remember: Option<NewAnswer>) -> Result<(), GrpError> {
        let slug = room.head.slug.clone();
        let cell = RoomCell::new(room);
        {
            let mut guard = cell.lock();
            self.commit(&cell, &mut guard, None, remember)?;
        }
        self.rooms.write().unwrap_or_else(PoisonError::into_inner).insert(slug, cell);
        self.deadlines.notify_one();
        Ok(())
    }

    fn list_rooms(&self, call: &Call) -> Result<Value, GrpError> {
        let token = call.credential.token.as_deref().ok_or_else(|| {
            GrpError::new("auth.required", "Present the participant token of a room.")
        })?;
        let hash = jws::sha256_hex(token);
        let mut rooms = Vec::new();
        for cell in self.cells() {
            let guard = cell.lock();
            let Some(room) = guard.as_ref() else { continue };
            if let Some(row) = room.token(&hash).filter(|t| !t.superseded) {
                rooms.push(json!({
                    "slug": room.head.slug,
                    "about": room.head.about,
                    "url": format!("{}/r/{}", self.base(), room.head.slug),
                    "role": room.participants[row.seat].role.name(),
                    "participant_id": room.participants[row.seat].id,
                }));
            }
        }
        if rooms.is_empty() {
            return Err(GrpError::new(
                "auth.invalid_token",
                "The participant token is not known here.",
            ));
        }
        Ok(json!({ "rooms": rooms }))
    }

    /// Notes an act under a mandate for its rate cap.
    pub fn count_act(&self, room: &mut Room, caller: &Caller) {
        let (Some(seat), Some(mandate)) = (caller.seat, &caller.mandate) else { return };
        let Some(cap) = mandate.rate else { return };
        let now = self.now();
        let p = &mut room.participants[seat];
        p.acts.retain(|(_, at)| *at > now - cap.window_seconds * 1_000);
        p.acts.push((mandate.jti.clone(), now));
        room.touch(super::model::Kind::Participant, seat);
    }
}
