//! Mandates: signed permissions of a principal for an agent (GRP T4, Mandates 3).
//!
//! Two steps, in the order the chapter demands: [`Issuers::verify`] checks form and
//! signature, [`Mandate::check`] the scope. Whether the room takes mandates at all is the
//! room's third check. Nothing here may accept what an earlier check refused.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use super::error::GrpError;
use super::jws::{self, JwsError};

/// Every action a mandate can name.
pub const ACTIONS: [&str; 11] = [
    "choose",
    "propose",
    "discuss",
    "ask",
    "start_choosing",
    "close",
    "react",
    "coalition_offer",
    "revoke_own_action",
    "member_join_request",
    "member_leave",
];

/// A mandate whose signature verified. Scope is still to be checked, on every call.
#[derive(Debug, Clone, PartialEq)]
pub struct Mandate {
    /// The principal.
    pub iss: String,
    /// The acting agent.
    pub sub: String,
    /// Name of this mandate.
    pub jti: String,
    /// First second it is valid.
    pub nbf: i64,
    /// First second it is no longer valid (s).
    pub exp: i64,
    /// Rooms, or `*`.
    pub rooms: Vec<String>,
    /// Allowed actions.
    pub actions: Vec<String>,
    /// Greatest weight of one act.
    pub weight_cap: f64,
    /// Most acts in a room in a window.
    pub rate: Option<RateCap>,
    /// Whether the issuer has withdrawn it, as last read.
    pub revoked: bool,
}

/// `grp.rate_caps`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateCap {
    /// Acts.
    pub limit: u64,
    /// Window (s).
    pub window_seconds: i64,
}

/// What a call asks of a mandate.
#[derive(Debug, Clone)]
pub struct Scope<'a> {
    /// Unix milliseconds.
    pub now_ms: i64,
    /// Every name this room is known by; `None`: no room yet (creation).
    pub rooms: Option<&'a [String]>,
    /// The action, or `None` for reads, waits and joins.
    pub action: Option<&'a str>,
    /// Weight the act carries.
    pub weight: f64,
    /// Acts under this mandate in this room already, as Unix ms, and whether this call only
    /// repeats one of them.
    pub acts: &'a [i64],
    /// The call repeats an act already counted.
    pub replay: bool,
}

fn malformed(what: &str) -> GrpError {
    GrpError::new("mandate.malformed", format!("The mandate is not acceptable: {what}."))
}

impl Mandate {
    fn from_payload(p: &Value) -> Result<Self, GrpError> {
        let text = |name: &str| {
            p[name]
                .as_str()
                .filter(|s| !s.is_empty())
                .map(str::to_owned)
                .ok_or_else(|| malformed(&format!("{name} is missing")))
        };
        let seconds = |name: &str| {
            p[name].as_i64().ok_or_else(|| malformed(&format!("{name} must be Unix seconds")))
        };
        let g = &p["grp"];
        let list = |name: &str| {
            g[name]
                .as_array()
                .and_then(|l| l.iter().map(|v| v.as_str().map(str::to_owned)).collect())
                .ok_or_else(|| malformed(&format!("grp.{name} must list strings")))
        };
        let actions: Vec<String> = list("actions")?;
        if let Some(unknown) = actions.iter().find(|a| !ACTIONS.contains(&a.as_str())) {
            return Err(malformed(&format!("grp.actions names {unknown:?}, which is no action")));
        }
        match g["trust_stage"].as_u64() {
            Some(0..=2) => {}
            Some(3) => return Err(malformed("trust stage 3 is reserved")),
            _ => return Err(malformed("grp.trust_stage must be 0, 1 or 2")),
        }
        let rate = match &g["rate_caps"] {
            Value::Null => None,
            caps => {
                let limit = caps["limit"].as_u64();
                let window = caps["window_seconds"].as_i64().filter(|s| *s > 0);
                let (Some(limit), Some(window_seconds)) = (limit, window) else {
                    return Err(malformed("grp.rate_caps needs limit and window_seconds"));
                };
                Some(RateCap { limit, window_seconds })
            }
        };
        let weight_cap = g["weight_cap"]
            .as_f64()
            .filter(|w| *w >= 0.0)
            .ok_or_else(|| malformed("grp.weight_cap must be a number"))?;
        Ok(Mandate {
            iss: text("iss")?,
            sub: text("sub")?,
            jti: text("jti")?,
            nbf: seconds("nbf")?,
            exp: seconds("exp")?,
            rooms: list("rooms")?,
            actions,
            weight_cap,
            rate,
            revoked: false,
        })
    }

    /// The scope checks in their order: window, room, action, weight, rate, revocation.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn check(&self, scope: &Scope<'_>) -> Result<(), GrpError> {
        let now_s = scope.now_ms.div_euclid(1_000);
        if now_s < self.nbf {
            return Err(GrpError::new(
                "mandate.not_yet_valid",
                "The mandate is not valid yet (validity window).",
            ));
        }
        if now_s >= self.exp {
            return Err(GrpError::new(
                "mandate.expired",
                "The mandate has expired (validity window): ask its issuer for a new one.",
            ));
        }
        let names_room = |known: &[String]| self.rooms.iter().any(|r| known.contains(r));
        let everywhere = self.rooms.iter().any(|r| r == "*");
        if !everywhere && !scope.rooms.is_some_and(names_room) {
            return Err(GrpError::new(
                "mandate.room_not_in_scope",
                "The mandate does not name this room (room match).",
            ));
        }
        if let Some(action) = scope.action
            && !self.actions.iter().any(|a| a == action)
        {
            return Err(GrpError::new(
                "mandate.action_not_in_scope",
                format!("The mandate does not allow the action {action} (action match)."),
            ));
        }
        if scope.weight > self.weight_cap {
            return Err(GrpError::new(
                "mandate.weight_cap_exceeded",
                "The act weighs more than the mandate allows (weight cap).",
            ));
        }
        if let (Some(cap), Some(_), false) = (self.rate, scope.action, scope.replay) {
            let from = scope.now_ms - cap.window_seconds * 1_000;
            let recent: Vec<i64> = scope.acts.iter().copied().filter(|t| *t > from).collect();
            if recent.len() as u64 >= cap.limit {
                let oldest = recent.iter().min().copied().unwrap_or(scope.now_ms);
                let wait_ms = oldest + cap.window_seconds * 1_000 - scope.now_ms;
                let wait_s = u64::try_from(wait_ms.max(0)).unwrap_or(0).div_ceil(1_000);
                return Err(GrpError::new(
                    "mandate.rate_cap_exceeded",
                    "The mandate's rate cap is used up for now (rate cap).",
                )
                .retry_after(wait_s.max(1)));
            }
        }
        if self.revoked {
            return Err(GrpError::new(
                "mandate.revoked",
                "The issuer has revoked this mandate (revocation).",
            ));
        }
        Ok(())
    }
}

/// The 32 bytes of a `did:key` for Ed25519.
pub fn did_key(did: &str) -> Option<[u8; 32]> {
    let encoded = did.strip_prefix("did:key:z")?;
    // 34 bytes take at most 47 symbols: longer texts are refused before any arithmetic.
    if encoded.is_empty() || encoded.len() > 50 {
        return None;
    }
    let mut bytes: Vec<u8> = Vec::new();
    for c in encoded.bytes() {
        let mut carry = BASE58.iter().position(|b| *b == c)?;
        for b in bytes.iter_mut().rev() {
            carry += usize::from(*b) * 58;
            *b = (carry & 0xff) as u8;
            carry >>= 8;
        }
        if carry > 0 {
            bytes.insert(0, carry as u8);
        }
    }
    bytes.strip_prefix(&[0xed, 0x01])?.try_into().ok()
}

/// The `did:key` of an Ed25519 public key.
pub fn to_did_key(public_key: &[u8; 32]) -> String {
    let mut digits: Vec<u8> = Vec::new();
    for b in [0xed, 0x01].iter().chain(public_key) {
        let mut carry = usize::from(*b);
        for d in &mut digits {
            carry += usize::from(*d) << 8;
            *d = (carry % 58) as u8;
            carry /= 58;
        }
        while carry > 0 {
            digits.push((carry % 58) as u8);
            carry /= 58;
        }
    }
    let text: String = digits.iter().rev().map(|d| BASE58[usize::from(*d)] as char).collect();
    format!("did:key:z{text}")
}

const BASE58: &[u8; 58] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";

/// Document of an issuer: its keys and what it revoked.
#[derive(Debug, Clone, Default)]
pub struct IssuerDocument {
    keys: Value,
    revoked: HashSet<String>,
}

impl IssuerDocument {
    /// From `/.well-known/grp.json`.
    pub fn from_json(doc: &Value) -> Self {
        let revoked = doc["revocations"].as_array().map(Vec::as_slice).unwrap_or_default();
        IssuerDocument {
            keys: doc["keys"].clone(),
            revoked: revoked
                .iter()
                .filter_map(|r| r["jti"].as_str().or(r.as_str()))
                .map(str::to_owned)
                .collect(),
        }
    }
}

/// Where issuer documents come from.
pub trait IssuerSource: Send + Sync + std::fmt::Debug {
    /// Fetches the document at `url`, which is on the allow list.
    fn fetch<'a>(
        &'a self,
        url: &'a str,
    ) -> std::pin::Pin<Box<dyn Future<Output = Result<Value, String>> + Send + 'a>>;
}

/// What a verification lets pass: nothing, unless a defect is switched on.
#[derive(Debug, Clone, Copy, Default)]
pub struct Lenience {
    /// A signature that does not verify.
    pub signature: bool,
    /// Critical headers, padding, stray bits.
    pub form: bool,
}

/// The issuers a host believes, and a short cache of what they publish.
#[derive(Debug, Clone)]
pub struct Issuers {
    allow_did_key: bool,
    trusted: Vec<String>,
    source: Arc<dyn IssuerSource>,
    cache: Arc<Mutex<HashMap<String, (i64, IssuerDocument)>>>,
    ttl_ms: i64,
}

const WELL_KNOWN: &str = "/.well-known/grp.json";

impl Issuers {
    /// `trusted`: issuer URLs, with or without the well-known path. `ttl_ms`: longest a
    /// fetched document is believed, at most five minutes.
    pub fn new(
        allow_did_key: bool,
        trusted: &[String],
        source: Arc<dyn IssuerSource>,
        ttl_ms: i64,
    ) -> Self {
        let document_url = |iss: &String| document_url(iss);
        Issuers {
            allow_did_key,
            trusted: trusted.iter().map(document_url).collect(),
            source,
            cache: Arc::default(),
            ttl_ms: ttl_ms.clamp(0, 300_000),
        }
    }

    /// Parses a compact mandate and verifies its signature against the issuer's keys
    /// (check 1). `skip_signature` is the named defect, never set by an honest host.
    ///
    /// # Errors
    /// `mandate.malformed`, `mandate.issuer_unresolved`, `mandate.signature_invalid`.
    pub async fn verify(
        &self,
        compact: &str,
        now_ms: i64,
        lenience: Lenience,
    ) -> Result<Mandate, GrpError> {
        let read = if lenience.form { jws::parse_loosely } else { jws::parse };
        let jws = read(compact, jws::MANDATE_TYP).map_err(|e| malformed(&e.to_string()))?;
        let unresolved = |why: &str| {
            GrpError::new(
                "mandate.issuer_unresolved",
                format!("The mandate's key cannot be resolved: {why}."),
            )
        };
        let iss = jws.payload["iss"].as_str().unwrap_or_default().to_owned();
        let (key, document) = if iss.starts_with("did:") {
            if !self.allow_did_key {
                return Err(unresolved("this host takes no did:key issuers"));
            }
            if jws.kid != iss {
                return Err(unresolved("kid must equal the did:key issuer"));
            }
            let key = did_key(&iss).ok_or_else(|| unresolved("no Ed25519 did:key"))?;
            (key, IssuerDocument::default())
        } else {
            let document = self.document(&iss, now_ms).await.map_err(|e| unresolved(&e))?;
            let key = jws::key_in(&document.keys, &jws.kid)
                .ok_or_else(|| unresolved("the issuer publishes no such kid"))?;
            (key, document)
        };
        match jws.verify(key) {
            Err(JwsError::Signature) if !lenience.signature => {
                return Err(GrpError::new(
                    "mandate.signature_invalid",
                    "The mandate's signature does not verify (signature).",
                ));
            }
            _ => {}
        }
        let mut mandate = Mandate::from_payload(&jws.payload)?;
        mandate.revoked = document.revoked.contains(&mandate.jti);
        Ok(mandate)
    }

    async fn document(&self, iss: &str, now_ms: i64) -> Result<IssuerDocument, String> {
        let url = document_url(iss);
        if !self.trusted.contains(&url) {
            return Err("the issuer is not on this host's list".into());
        }
        let cached = {
            let cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
            cache.get(&url).filter(|(at, _)| now_ms - at < self.ttl_ms).map(|(_, d)| d.clone())
        };
        if let Some(document) = cached {
            return Ok(document);
        }
        let document = IssuerDocument::from_json(&self.source.fetch(&url).await?);
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.insert(url, (now_ms, document.clone()));
        Ok(document)
    }
}

fn document_url(iss: &str) -> String {
    if iss.ends_with(WELL_KNOWN) {
        iss.to_owned()
    } else {
        format!("{}{WELL_KNOWN}", iss.trim_end_matches('/'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn did_key_round_trip() {
        let key: [u8; 32] = std::array::from_fn(|i| i as u8);
        let did = to_did_key(&key);
        assert_eq!(did_key(&did), Some(key));
        for bad in ["did:key:z", "did:key:z0OIl", "did:key:z6Mk", "did:web:x"] {
            assert_eq!(did_key(bad), None, "{bad}");
        }
    }

    #[test]
    fn published_did_key() {
        // The did:key of RFC 8032's first test key.
        let key = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
        let key: Vec<u8> =
            (0..32).map(|i| u8::from_str_radix(&key[2 * i..2 * i + 2], 16).unwrap()).collect();
        let did = to_did_key(&key.try_into().unwrap());
        assert!(did.starts_with("did:key:z6Mk"), "{did}");
    }
}
