//! Idempotency (GRP T5): one key, one answer, whatever became of the room meanwhile.
//!
//! Who repeats is authenticated first, then the key is looked up, then the state of the room
//! matters. A remembered answer is sealed: only the client's own key opens it.

use ap_protocol::{jcs, json};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::core::{Call, Core, Op, not_found, storage_error};
use super::defects::Defect;
use super::door::superseded;
use super::error::GrpError;
use super::jws;
use super::mandate::{Mandate, Scope};
use super::model::{Agent, Room, TokenRow};
use super::secrets;
use super::store::{Batch, NewAnswer, Remembered};

/// How long an idempotent answer is remembered (ms).
pub const IDEMPOTENCY_TTL_MS: i64 = 48 * 3_600 * 1_000;

/// What is remembered of a deleted room: enough to know who repeats a request made in it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Tombstone {
    /// Address the room had.
    pub slug: String,
    /// Its id.
    pub room_id: String,
    /// Participant ids by seat, with the agents that held them.
    pub seats: Vec<(String, Option<Agent>)>,
    /// Token hashes.
    pub tokens: Vec<TokenRow>,
    /// When it was deleted (Unix ms).
    pub at: i64,
}

impl Tombstone {
    /// Of a room about to go.
    pub fn of(room: &Room, now: i64) -> Self {
        let seats = room.participants.iter().map(|p| (p.id.clone(), p.agent.clone())).collect();
        Tombstone {
            slug: room.head.slug.clone(),
            room_id: room.head.id.clone(),
            seats,
            tokens: room.tokens.clone(),
            at: now,
        }
    }
}

impl Core {
    /// A creation, once for each key.
    pub(super) fn create(&self, call: &Call, mandate: Option<Mandate>) -> Result<Value, GrpError> {
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
        let Some(key) = self.honoured_key(call) else {
            let (room, answer) = self.build_room(call, mandate.as_ref())?;
            self.insert(room, None)?;
            return Ok(answer);
        };
        // Two equal creations must not both find nothing remembered.
        let _one = self.creating.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let slot = Slot::new(call, "", &join_identity(mandate.as_ref()), key);
        if let Some(earlier) = self.earlier(&slot)? {
            return self.replay(&slot, &earlier);
        }
        match self.build_room(call, mandate.as_ref()) {
            Ok((room, answer)) => {
                let answer = Ok(answer);
                self.insert(room, slot.remember(&answer, self.now()))?;
                answer
            }
            Err(e) => {
                // A refusal is an answer, too: the key now stands for this request.
                let refusal = Err(e);
                let remember = slot.remember(&refusal, self.now());
                self.store
                    .commit(Batch { remember, ..Batch::default() })
                    .map_err(|e| storage_error(&e))?;
                refusal
            }
        }
    }

    /// The key of a call, if this operation honours one.
    fn honoured_key<'a>(&self, call: &'a Call) -> Option<&'a str> {
        let honoured = call.op.mutates()
            && !(call.transport == "mcp" && self.has(Defect::IdempotencyRestOnly))
            && (!self.has(Defect::IdempotencyDiscussOnly) || call.op == Op::Discuss);
        call.idempotency_key.as_deref().filter(|_| honoured)
    }

    /// A call to a room that is not there: a repeat of what was done while it was is answered
    /// as then, to whom it was answered then. To everybody else there is no room.
    pub(super) fn after_deletion(
        &self,
        slug: &str,
        call: &Call,
        mandate: Option<Mandate>,
    ) -> Result<Value, GrpError> {
        let Some(key) = self.honoured_key(call) else { return Err(not_found()) };
        if self.has(Defect::DeletionForgets) {
            return Err(not_found());
        }
        let not_before = self.now() - IDEMPOTENCY_TTL_MS;
        let found = self.store.tombstone(slug, not_before).map_err(|e| storage_error(&e))?;
        let Some(gone) = found else { return Err(not_found()) };
        let hash = call.credential.token.as_deref().map(jws::sha256_hex);
        let token = hash.and_then(|h| gone.tokens.iter().find(|t| t.hash == h));
        let who = match (&mandate, token) {
            _ if call.op == Op::JoinRoom => join_identity(mandate.as_ref()),
            (Some(m), _) => gone
                .seats
                .iter()
                .find(|(_, a)| a.as_ref().is_some_and(|a| a.iss == m.iss && a.sub == m.sub))
                .map_or_else(|| join_identity(Some(m)), |(id, _)| id.clone()),
            (None, Some(token)) => gone.seats[token.seat].0.clone(),
            (None, None) => return Err(not_found()),
        };
        let slot = Slot::new(call, &gone.room_id, &who, key);
        let Some(earlier) = self.earlier(&slot)? else { return Err(not_found()) };
        if mandate.is_none() && call.op != Op::JoinRoom && token.is_some_and(|t| t.superseded) {
            return Err(superseded());
        }
        if let Some(m) = &mandate {
            let names = self.names_of(slug, &gone.room_id);
            m.check(&Scope {
                now_ms: self.now(),
                rooms: Some(&names),
                action: call.op.action(),
                weight: 0.0,
                acts: &[],
                replay: true,
            })?;
        }
        self.replay(&slot, &earlier)
    }

    pub(super) fn decide(
        &self,
        room: &mut Room,
        call: &Call,
        mandate: Option<Mandate>,
        remember: &mut Option<NewAnswer>,
    ) -> Result<Value, GrpError> {
        let Some(key) = self.honoured_key(call) else {
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
            if self.has(Defect::RepeatActsAgain) {
                // What comes of it is of no interest.
                let _ = self.act(room, call, &caller);
            }
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
}

fn join_identity(mandate: Option<&Mandate>) -> String {
    mandate.map_or("-".to_owned(), |m| format!("{}|{}", m.iss, m.sub))
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

    fn remember(&self, answer: &Result<Value, GrpError>, now: i64) -> Option<NewAnswer> {
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
