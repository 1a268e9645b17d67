//! The GRP host without transports: one function an operation goes through, whatever
//! carried it. Operation, arguments, credential and idempotency key in; result or error out.
//!
//! Order of every call: mandate signature → room → due time → who is calling → remembered
//! answer → the act → one commit → wake the waiters. Transports must not decide anything.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use ap_protocol::{SecretKey, jcs, json};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use tokio::sync::{Notify, watch};

use super::args::Args;
use super::clock::{Entropy, GrpClock};
use super::config::{Auth, Authority, Visibility};
use super::defects::{Defect, Defects};
use super::error::GrpError;
use super::jws;
use super::lifecycle::{self, Ctx};
use super::mandate::{Issuers, Mandate, Scope};
use super::model::{Agent, Event, Role, Room};
use super::secrets;
use super::store::{Batch, Remembered, Storage, StoreError};

/// How long an idempotent answer is remembered (ms).
pub const IDEMPOTENCY_TTL_MS: i64 = 48 * 3_600 * 1_000;
/// Longest long-poll (s), unless configured shorter.
pub const MAX_WAIT_S: f64 = 50.0;

macro_rules! ops {
    ($($variant:ident = $name:literal, $gate:ident, $action:expr, $mutates:literal;)+) => {
        /// An operation, named as its MCP tool.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[allow(missing_docs)]
        pub enum Op { $($variant,)+ }

        impl Op {
            /// All operations.
            pub const ALL: &'static [Op] = &[$(Op::$variant,)+];
            /// Name.
            pub fn name(self) -> &'static str {
                match self { $(Op::$variant => $name,)+ }
            }
            /// Who gets past the door.
            pub fn gate(self) -> Gate {
                match self { $(Op::$variant => Gate::$gate,)+ }
            }
            /// The mandate action it takes; `Some("")`: no mandate covers it.
            pub fn action(self) -> Option<&'static str> {
                match self { $(Op::$variant => $action,)+ }
            }
            /// Whether it changes anything, and so honours Idempotency-Key.
            pub fn mutates(self) -> bool {
                match self { $(Op::$variant => $mutates,)+ }
            }
        }
    };
}

/// Who gets past the door of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    /// Everybody.
    Open,
    /// Whoever may read the room.
    Read,
    /// Members.
    Member,
}

ops! {
    CreateRoom = "create_room", Open, None, true;
    JoinRoom = "join_room", Open, None, true;
    ReadRoom = "read_room", Read, None, false;
    Ask = "ask", Member, Some("ask"), true;
    StartChoosing = "start_choosing", Member, Some("start_choosing"), true;
    Choose = "choose", Member, Some("choose"), true;
    Abstain = "abstain", Member, Some("choose"), true;
    Discuss = "discuss", Member, Some("discuss"), true;
    Propose = "propose", Member, Some("propose"), true;
    Wait = "wait", Member, None, false;
    WaitOutcome = "wait_outcome", Member, None, false;
    CloseRoom = "close_room", Member, Some("close"), true;
    Outcome = "outcome", Read, None, false;
    ListDecisions = "list_decisions", Read, None, false;
    ListEvents = "list_events", Read, None, false;
    ListRooms = "list_rooms", Open, None, false;
    DeleteRoom = "delete_room", Member, Some(""), true;
    InviteToRoom = "invite_to_room", Member, Some(""), true;
    ListInvites = "list_invites", Member, None, false;
    RevokeInvite = "revoke_invite", Member, Some(""), true;
    UpdateMember = "update_member", Member, Some(""), true;
    UpdateRoomSettings = "update_room_settings", Member, Some(""), true;
    RegisterWebhook = "register_webhook", Member, Some(""), true;
    UnregisterWebhook = "unregister_webhook", Member, Some(""), true;
    ListWebhooks = "list_webhooks", Member, None, false;
}

/// What a caller presents. `Debug` shows none of it.
#[derive(Clone, Default)]
pub struct Credential {
    /// Participant token.
    pub token: Option<String>,
    /// Compact mandate.
    pub mandate: Option<String>,
    /// Room password (read access).
    pub password: Option<String>,
}

impl std::fmt::Debug for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Credential(..)")
    }
}

/// One call.
#[derive(Debug, Clone)]
pub struct Call {
    /// What.
    pub op: Op,
    /// Which room, for every operation but creation and `list_rooms`.
    pub slug: Option<String>,
    /// Arguments: the REST body or query, or the MCP arguments without slug and token.
    pub args: Map<String, Value>,
    /// Who.
    pub credential: Credential,
    /// Idempotency-Key.
    pub idempotency_key: Option<String>,
    /// `rest` or `mcp`.
    pub transport: &'static str,
}

/// Who is calling, after the door.
#[derive(Debug, Clone, Default)]
pub struct Caller {
    /// Seat, if a member.
    pub seat: Option<usize>,
    /// The mandate it acts under.
    pub mandate: Option<Mandate>,
}

impl Caller {
    /// The seat of a call that passed the member gate.
    pub fn member(&self) -> usize {
        self.seat.expect("the member gate lets nobody through without a seat")
    }

    /// The mandate as rows keep it.
    pub fn agent(&self) -> Option<Agent> {
        self.mandate.as_ref().map(|m| Agent {
            iss: m.iss.clone(),
            sub: m.sub.clone(),
            jti: m.jti.clone(),
        })
    }
}

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

/// An event for somebody outside.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// Target.
    pub url: String,
    /// HMAC key.
    pub secret: String,
    /// Registration.
    pub webhook_id: String,
    /// Room slug.
    pub room: String,
    /// What happened.
    pub event: Event,
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
    store: Box<dyn Storage>,
    creating: Mutex<()>,
    /// Rung when a deadline may have moved.
    pub deadlines: Notify,
    deliveries: tokio::sync::mpsc::UnboundedSender<Delivery>,
}

fn storage_error(e: &StoreError) -> GrpError {
    tracing::error!(error = %e, "grp storage");
    GrpError::new("internal.error", "The host could not store this; repeat the same request.")
}

fn not_found() -> GrpError {
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
        deliveries: tokio::sync::mpsc::UnboundedSender<Delivery>,
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
        for slug in core.store.rooms()? {
            core.reload(&slug)?;
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
        let mut rooms = self.rooms.write().unwrap_or_else(PoisonError::into_inner);
        self.store.clear()?;
        for cell in rooms.drain().map(|(_, cell)| cell) {
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
        let skip = self.has(Defect::MandateSignatureIgnored);
        self.config.issuers.verify(compact, self.now(), skip).await.map(Some)
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
        let cell = self.cell(slug)?;
        let mut guard = cell.lock();
        let room = guard.as_mut().ok_or_else(not_found)?;
        self.with_ctx(call.transport, |ctx| lifecycle::advance(room, ctx));
        let marks = (room.events.len(), room.audit.len());
        let mut remember = None;
        let answer = self.decide(room, call, mandate, &mut remember);
        if call.transport == "mcp" && self.has(Defect::McpSilent) {
            room.events.truncate(marks.0);
            room.audit.truncate(marks.1);
        }
        let delete = call.op == Op::DeleteRoom && answer.is_ok();
        self.commit(&cell, &mut guard, delete, remember)?;
        answer
    }

    fn decide(
        &self,
        room: &mut Room,
        call: &Call,
        mandate: Option<Mandate>,
        remember: &mut Option<([u8; 32], Remembered)>,
    ) -> Result<Value, GrpError> {
        let honoured = call.op.mutates()
            && (!self.has(Defect::IdempotencyDiscussOnly) || call.op == Op::Discuss);
        let key = call.idempotency_key.as_deref().filter(|_| honoured);
        let Some(key) = key else {
            let caller = self.identify(room, call, mandate, false)?;
            return self.act(room, call, &caller);
        };
        // A repeat spends nothing of a mandate's rate cap: whether it is one is known before
        // the scope is checked, and used only when the caller turns out to be that caller.
        let seat = self.presumed_seat(room, call, mandate.as_ref());
        let who = seat.map_or_else(
            || mandate.as_ref().map_or("-".to_owned(), |m| format!("{}|{}", m.iss, m.sub)),
            |s| room.participants[s].id.clone(),
        );
        let who = if call.op == Op::JoinRoom { join_identity(mandate.as_ref()) } else { who };
        let slot = Slot::new(call, &room.head.id, &who, key);
        let earlier = self.earlier(&slot)?;
        let caller = self.identify(room, call, mandate, earlier.is_some())?;
        if let Some(earlier) = earlier {
            return self.replay(&slot, &earlier);
        }
        let answer = self.act(room, call, &caller);
        *remember = slot.remember(&answer, self.now());
        answer
    }

    fn earlier(&self, slot: &Slot<'_>) -> Result<Option<Remembered>, GrpError> {
        let not_before = self.now() - IDEMPOTENCY_TTL_MS;
        self.store.remembered(&slot.name, not_before).map_err(|e| storage_error(&e))
    }

    fn replay(&self, slot: &Slot<'_>, earlier: &Remembered) -> Result<Value, GrpError> {
        if earlier.body != slot.body && !self.has(Defect::IdempotencyNoConflict) {
            return Err(GrpError::new(
                "idempotency.conflict",
                "This Idempotency-Key was used for another request; nothing was done. Use a new \
                 key for a new request.",
            ));
        }
        slot.answer(earlier)
    }

    /// The seat the credential points at, checked or not.
    fn presumed_seat(&self, room: &Room, call: &Call, mandate: Option<&Mandate>) -> Option<usize> {
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
            Some(row) if row.superseded => Err(GrpError::new(
                "participant.token_superseded",
                "This seat was recovered elsewhere and the token replaced: stand down, do not \
                 join again.",
            )),
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
        let names = self.room_names(room);
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
        let (base, slug) = (self.base(), &room.head.slug);
        vec![
            format!("{base}/r/{slug}"),
            format!("{base}/api/rooms/{slug}"),
            format!("urn:grp:room:{slug}"),
            format!("urn:grp:room:{}", room.head.id),
        ]
    }

    /// Whether somebody without a seat may read.
    ///
    /// # Errors
    /// `room.join_required`, `auth.invalid_password`.
    pub fn may_read(&self, room: &Room, password: Option<&str>) -> Result<(), GrpError> {
        let config = &room.head.config;
        if config.visibility == Visibility::Public {
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

    /// Commits what changed, wakes waiters, hands events to webhooks.
    pub fn commit(
        &self,
        cell: &RoomCell,
        guard: &mut Option<Room>,
        delete: bool,
        remember: Option<([u8; 32], Remembered)>,
    ) -> Result<(), GrpError> {
        let Some(room) = guard.as_mut() else { return Ok(()) };
        if room.is_clean() && remember.is_none() && !delete {
            return Ok(());
        }
        let slug = room.head.slug.clone();
        let rows = room.take_dirty(self.store.keeps_rows());
        let batch = Batch { room: slug.clone(), rows, delete, remember };
        if let Err(e) = self.store.commit(batch) {
            // What is in memory is ahead of the truth: back to the truth.
            *guard = None;
            if let Err(e) = self.reload(&slug) {
                tracing::error!(error = %e, "grp room could not be read back");
            }
            cell.changed.send_modify(|n| *n += 1);
            return Err(storage_error(&e));
        }
        self.deliver(room);
        if delete {
            *guard = None;
            self.rooms.write().unwrap_or_else(PoisonError::into_inner).remove(&slug);
        }
        cell.changed.send_modify(|n| *n += 1);
        self.deadlines.notify_one();
        Ok(())
    }

    fn deliver(&self, room: &mut Room) {
        for i in std::mem::take(&mut room.undelivered) {
            let Some(event) = room.events.get(i) else { continue };
            for hook in room.webhooks.iter().filter(|h| h.disabled_at.is_none()) {
                if hook.event_types.is_empty() || hook.event_types.contains(&event.event_type) {
                    // The worker is gone only when the host is.
                    let _ = self.deliveries.send(Delivery {
                        url: hook.url.clone(),
                        secret: hook.secret.clone(),
                        webhook_id: hook.id.clone(),
                        room: room.head.slug.clone(),
                        event: event.clone(),
                    });
                }
            }
        }
    }

    /// Carries out what time made due in a room, and returns its next deadline.
    pub fn tick(&self, cell: &RoomCell) -> Option<i64> {
        let mut guard = cell.lock();
        let room = guard.as_mut()?;
        self.with_ctx("host", |ctx| lifecycle::advance(room, ctx));
        let next = lifecycle::next_deadline(room, self.now());
        if self.commit(cell, &mut guard, false, None).is_err() {
            return None;
        }
        next
    }

    pub(super) fn insert(
        &self,
        room: Room,
        remember: Option<([u8; 32], Remembered)>,
    ) -> Result<(), GrpError> {
        let slug = room.head.slug.clone();
        let cell = RoomCell::new(room);
        {
            let mut guard = cell.lock();
            self.commit(&cell, &mut guard, false, remember)?;
        }
        self.rooms.write().unwrap_or_else(PoisonError::into_inner).insert(slug, cell);
        self.deadlines.notify_one();
        Ok(())
    }

    fn create(&self, call: &Call, mandate: Option<Mandate>) -> Result<Value, GrpError> {
        if let Some(m) = &mandate {
            m.check(&Scope {
                now_ms: self.now(),
                rooms: None,
                action: None,
                weight: 0.0,
                acts: &[],
                replay: false,
            })?;
        }
        let Some(key) =
            call.idempotency_key.as_deref().filter(|_| !self.has(Defect::IdempotencyDiscussOnly))
        else {
            let (room, answer) = self.build_room(call, mandate.as_ref())?;
            self.insert(room, None)?;
            return Ok(answer);
        };
        // Two equal creations must not both find nothing remembered.
        let _one = self.creating.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = Slot::new(call, "", &join_identity(mandate.as_ref()), key);
        if let Some(earlier) = self.earlier(&slot)? {
            return self.replay(&slot, &earlier);
        }
        let (room, answer) = self.build_room(call, mandate.as_ref())?;
        let answer = Ok(answer);
        self.insert(room, slot.remember(&answer, self.now()))?;
        answer
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

fn mandate_not_accepted() -> GrpError {
    GrpError::new(
        "auth.mandate_not_accepted",
        "This room takes participant tokens only; join without a mandate.",
    )
}

fn join_identity(mandate: Option<&Mandate>) -> String {
    mandate.map_or("-".to_owned(), |m| format!("{}|{}", m.iss, m.sub))
}

/// Issuer and subject together: another issuer may name the same subject.
fn seat_of_agent(room: &Room, m: &Mandate) -> Option<usize> {
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

/// The place of one idempotent answer.
struct Slot<'a> {
    scope: [String; 4],
    key: &'a str,
    name: [u8; 32],
    body: [u8; 32],
}

impl<'a> Slot<'a> {
    fn new(call: &Call, room: &str, who: &str, key: &'a str) -> Self {
        let asked = json!({ "op": call.op.name(), "slug": call.slug, "args": call.args });
        let body: [u8; 32] = Sha256::digest(jcs::to_vec(&asked)).into();
        let scope = [call.op.name().to_owned(), room.to_owned(), who.to_owned(), jws::hex(&body)];
        let named: Vec<&str> = scope[..3].iter().map(String::as_str).collect();
        let name = secrets::idempotency_name(&named, key);
        Slot { scope, key, name, body }
    }

    fn scope(&self) -> Vec<&str> {
        self.scope.iter().map(String::as_str).collect()
    }

    fn remember(
        &self,
        answer: &Result<Value, GrpError>,
        now: i64,
    ) -> Option<([u8; 32], Remembered)> {
        let stored = match answer {
            Ok(value) => json!({ "ok": value }),
            Err(e) if e.is_deterministic() => json!({ "error": e.to_stored() }),
            Err(_) => return None,
        };
        let sealed = secrets::seal(&self.scope(), self.key, stored.to_string().as_bytes());
        Some((self.name, Remembered { body: self.body, sealed, at: now }))
    }

    fn answer(&self, earlier: &Remembered) -> Result<Value, GrpError> {
        // With the conflict defect the body differs, and so does the sealing scope.
        let mut scope = self.scope.clone();
        scope[3] = jws::hex(&earlier.body);
        let scope: Vec<&str> = scope.iter().map(String::as_str).collect();
        let stored = secrets::open(&scope, self.key, &earlier.sealed)
            .and_then(|bytes| json::parse(&bytes).ok())
            .ok_or_else(|| {
                GrpError::new("internal.error", "The remembered answer cannot be read.")
            })?;
        match stored.get("ok") {
            Some(value) => Ok(value.clone()),
            None => Err(GrpError::from_stored(&stored["error"])),
        }
    }
}
