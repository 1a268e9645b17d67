//! A small test agent: "the others" in a room. Signs with its own key and nonce sequence and
//! speaks plain HTTP, to any ADP or APP host.
//!
//! It trusts the host it talks to; it is no connector and must not become one.

use std::sync::Mutex;
use std::time::Duration;

use ap_protocol::event::{Kind, built_in_kind};
use ap_protocol::nonce::{MAX_SEEN_NONCE, NonceSequence};
use ap_protocol::record::sign_discourse;
use ap_protocol::{
    AgentId, Hash, PROFILE_PROTOCOL, SecretKey, Tip, VerifiedEnvelope, json as strict, jwt,
};
use http::Method;
use serde_json::{Map, Value, json};

use crate::clock::Clock;
use crate::sync::lock;

/// An error answer.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{status} {code}: {message}")]
pub struct HostError {
    /// HTTP status.
    pub status: u16,
    /// Error code, empty when the answer had none.
    pub code: String,
    /// Message.
    pub message: String,
    /// `data` member.
    pub data: Value,
    /// `Max-Seen-Nonce`, if it came.
    pub max_seen_nonce: Option<String>,
    /// `Retry-After`, if it came.
    pub retry_after: Option<String>,
}

/// What went wrong for a peer.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// The host answered an error.
    #[error("{0}")]
    Host(Box<HostError>),
    /// No answer.
    #[error("no answer: {0}")]
    Transport(#[from] reqwest::Error),
    /// An answer that is no strict JSON.
    #[error("the answer is no strict JSON: {0}")]
    Json(#[from] ap_protocol::json::JsonError),
    /// The event cannot be signed, or the answer lacks what is needed.
    #[error("{0}")]
    Event(String),
}

impl PeerError {
    /// The host's error code, empty for anything else.
    pub fn code(&self) -> &str {
        match self {
            PeerError::Host(e) => &e.code,
            _ => "",
        }
    }

    /// The HTTP status, 0 for anything else.
    pub fn status(&self) -> u16 {
        match self {
            PeerError::Host(e) => e.status,
            _ => 0,
        }
    }

    /// The error answer, if there was one.
    pub fn host_error(&self) -> Option<&HostError> {
        match self {
            PeerError::Host(e) => Some(e),
            _ => None,
        }
    }

    /// The `data` member of the error, null for anything else.
    pub fn data(&self) -> &Value {
        match self {
            PeerError::Host(e) => &e.data,
            _ => &Value::Null,
        }
    }
}

/// A test agent.
pub struct Peer {
    key: SecretKey,
    clock: Clock,
    nonces: Mutex<NonceSequence>,
    http: reqwest::Client,
}

impl std::fmt::Debug for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Peer({})", self.id())
    }
}

impl Peer {
    /// An agent whose key follows from its name, on the lab's clock.
    pub fn named(name: &str, clock: Clock) -> Self {
        let seed = Hash::of(format!("peer/{name}").as_bytes());
        Self::new(SecretKey::from_seed(seed.as_bytes()), clock)
    }

    /// An agent with this key.
    pub fn new(key: SecretKey, clock: Clock) -> Self {
        // The ring provider may be installed already, by another peer or the program.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .timeout(Duration::from_secs(20))
            // A kept connection to a host that was killed would fail for the wrong reason.
            .pool_max_idle_per_host(0)
            .no_proxy()
            .build()
            .expect("static client settings are valid");
        Peer { key, clock, nonces: Mutex::new(NonceSequence::after(0)), http }
    }

    /// Its Agent ID.
    pub fn id(&self) -> AgentId {
        self.key.agent_id()
    }

    /// Its key, for tests that sign by hand.
    pub fn key(&self) -> &SecretKey {
        &self.key
    }

    /// Issues the next nonce.
    pub fn next_nonce(&self) -> u64 {
        lock(&self.nonces).issue(self.clock.now_ms()).unwrap_or(ap_protocol::MAX_SAFE_INTEGER)
    }

    /// A request JWT for a host.
    pub fn token(&self, host: &str) -> String {
        jwt::sign(&self.key, host, self.clock.now_secs(), 300)
    }

    /// Signs a discourse event without sending it.
    ///
    /// # Errors
    /// [`PeerError::Event`] for an event without the protocol's shape.
    pub fn sign(
        &self,
        room_id: Option<&str>,
        base: Option<&Tip>,
        event_type: &str,
        payload: Value,
        mentions: &[&str],
    ) -> Result<Value, PeerError> {
        let mentions: Vec<String> = mentions.iter().map(|m| (*m).to_owned()).collect();
        let (now, nonce) = (self.clock.now_ms(), self.next_nonce());
        sign_discourse(&self.key, room_id, base, event_type, payload, &mentions, now, nonce)
            .map(|e| e.value().clone())
            .map_err(|e| PeerError::Event(e.to_string()))
    }

    /// Signs any event object as it is, shape unchecked: for events that must be refused.
    /// `actor` is filled in when absent.
    pub fn sign_raw(&self, mut event: Value) -> Value {
        if event.get("actor").is_none() {
            event["actor"] = json!(self.id());
        }
        let hash = Hash::of_value(&event);
        let signature = ap_protocol::encoding::encode(self.key.sign(hash.as_bytes()));
        json!({ "hash": hash, "event": event, "signature": signature })
    }

    /// One HTTP request. `signed_in` adds the request JWT.
    ///
    /// # Errors
    /// [`PeerError`].
    pub async fn request(
        &self,
        method: Method,
        host: impl AsRef<str>,
        path: &str,
        body: Option<&Value>,
        signed_in: bool,
    ) -> Result<Value, PeerError> {
        let host = host.as_ref();
        let mut request = self.http.request(method, format!("{host}{path}"));
        if signed_in {
            request = request.bearer_auth(self.token(host));
        }
        if let Some(body) = body {
            request = request
                .header(http::header::CONTENT_TYPE, "application/json")
                .body(body.to_string());
        }
        let response = request.send().await?;
        let status = response.status().as_u16();
        let header = |name: &str| {
            response.headers().get(name).and_then(|v| v.to_str().ok()).map(str::to_owned)
        };
        let (max_seen_nonce, retry_after) = (header(MAX_SEEN_NONCE), header("retry-after"));
        let bytes = response.bytes().await?;
        if (200..300).contains(&status) {
            return Ok(strict::parse(&bytes)?);
        }
        let error = strict::parse(&bytes).unwrap_or(Value::Null);
        let text = |name: &str| {
            error.pointer(&format!("/error/{name}")).and_then(Value::as_str).unwrap_or_default()
        };
        Err(PeerError::Host(Box::new(HostError {
            status,
            code: text("code").to_owned(),
            message: text("message").to_owned(),
            data: error.pointer("/error/data").cloned().unwrap_or(Value::Null),
            max_seen_nonce,
            retry_after,
        })))
    }

    /// `GET` with the request JWT.
    ///
    /// # Errors
    /// [`PeerError`].
    pub async fn get(&self, host: impl AsRef<str>, path: &str) -> Result<Value, PeerError> {
        self.request(Method::GET, host, path, None, true).await
    }

    /// Posts a signed envelope to where its event belongs. Returns the record (for
    /// room.create its summary, for profile.update the document).
    ///
    /// # Errors
    /// [`PeerError`].
    pub async fn post(&self, host: impl AsRef<str>, envelope: &Value) -> Result<Value, PeerError> {
        let event = &envelope["event"];
        let path = match event["room_id"].as_str() {
            Some(room_id) => format!("/v1/rooms/{room_id}"),
            None if event["protocol"] == PROFILE_PROTOCOL => "/v1/profiles".to_owned(),
            None => "/v1/rooms".to_owned(),
        };
        self.request(Method::POST, host, &path, Some(envelope), false).await
    }

    /// Creates a room that is active for an hour from now. `changes` replaces or adds
    /// payload members. Returns the room id.
    ///
    /// # Errors
    /// [`PeerError`].
    pub async fn create_room(
        &self,
        host: impl AsRef<str>,
        changes: Value,
    ) -> Result<String, PeerError> {
        let envelope = self.sign(None, None, "room.create", self.room_payload(changes), &[])?;
        let created = self.post(host, &envelope).await?;
        let id = created["id"].as_str().ok_or_else(|| PeerError::Event("no room id".to_owned()))?;
        Ok(id.to_owned())
    }

    /// The payload [`Peer::create_room`] signs.
    pub fn room_payload(&self, changes: Value) -> Value {
        let now = self.clock.now_ms();
        let mut payload = json!({
            "topic": "A room to test in", "visibility": "public",
            "start_time": now.saturating_sub(1000), "end_time": now + 3_600_000,
        });
        if let (Value::Object(payload), Value::Object(changes)) = (&mut payload, changes) {
            payload.extend(changes);
        }
        payload
    }

    /// The room resource.
    ///
    /// # Errors
    /// [`PeerError`].
    pub async fn room(&self, host: impl AsRef<str>, room_id: &str) -> Result<Value, PeerError> {
        self.get(host, &format!("/v1/rooms/{room_id}")).await
    }

    /// The advertised room head and latest record.
    ///
    /// # Errors
    /// [`PeerError`].
    pub async fn tips(
        &self,
        host: impl AsRef<str>,
        room_id: &str,
    ) -> Result<(Tip, Tip), PeerError> {
        let room = self.room(host, room_id).await?;
        let tip = |v: &Value| {
            let hash = v["hash"].as_str().and_then(|t| Hash::parse(t).ok())?;
            Some(Tip { seq: v["seq"].as_u64()?, hash })
        };
        match (tip(&room["head"]), tip(&room)) {
            (Some(head), Some(latest)) => Ok((head, latest)),
            _ => Err(PeerError::Event("the room resource names no head".to_owned())),
        }
    }

    /// Sends one event on the advertised head (signals: on the latest record).
    ///
    /// # Errors
    /// [`PeerError`].
    pub async fn send(
        &self,
        host: impl AsRef<str>,
        room_id: &str,
        event_type: &str,
        payload: Value,
        mentions: &[&str],
    ) -> Result<Value, PeerError> {
        let host = host.as_ref();
        // Busy rooms move between reading the head and writing on it.
        let mut attempts = 0;
        loop {
            let (head, latest) = self.tips(host, room_id).await?;
            let base = if built_in_kind(event_type) == Some(Kind::Signal) { latest } else { head };
            let envelope =
                self.sign(Some(room_id), Some(&base), event_type, payload.clone(), mentions)?;
            attempts += 1;
            match self.post(host, &envelope).await {
                Err(e) if e.code() == "room_head_mismatch" && attempts < 10 => {}
                other => return other,
            }
        }
    }

    /// Joins a public room.
    ///
    /// # Errors
    /// [`PeerError`].
    pub async fn join(
        &self,
        host: impl AsRef<str>,
        room_id: &str,
        role: &str,
    ) -> Result<Value, PeerError> {
        self.send(host, room_id, "room.join", json!({ "role": role }), &[]).await
    }

    /// Joins with an approved request.
    ///
    /// # Errors
    /// [`PeerError`].
    pub async fn join_with(
        &self,
        host: impl AsRef<str>,
        room_id: &str,
        role: &str,
        request_id: &str,
    ) -> Result<Value, PeerError> {
        let payload = json!({ "role": role, "request_id": request_id });
        self.send(host, room_id, "room.join", payload, &[]).await
    }

    /// As [`Peer::join_with`], anchored to the advertised head even where the resource is not
    /// readable any more: the base is the room's first record as `host` advertised it before.
    ///
    /// # Errors
    /// [`PeerError`].
    pub async fn join_with_base(
        &self,
        host: &crate::Host,
        room_id: &str,
        role: &str,
        request_id: &str,
    ) -> Result<Value, PeerError> {
        let state = host.state(room_id).ok_or_else(|| PeerError::Event("no room".to_owned()))?;
        let payload = json!({ "role": role, "request_id": request_id });
        let envelope = self.sign(Some(room_id), Some(&state.tip), "room.join", payload, &[])?;
        self.post(host, &envelope).await
    }

    /// Leaves.
    ///
    /// # Errors
    /// [`PeerError`].
    pub async fn leave(&self, host: impl AsRef<str>, room_id: &str) -> Result<Value, PeerError> {
        self.send(host, room_id, "room.leave", json!({}), &[]).await
    }

    /// Says something in plain text.
    ///
    /// # Errors
    /// [`PeerError`].
    pub async fn say(
        &self,
        host: impl AsRef<str>,
        room_id: &str,
        text: &str,
    ) -> Result<Value, PeerError> {
        self.say_to(host, room_id, text, &[]).await
    }

    /// Says something in plain text and mentions agents.
    ///
    /// # Errors
    /// [`PeerError`].
    pub async fn say_to(
        &self,
        host: impl AsRef<str>,
        room_id: &str,
        text: &str,
        mentions: &[&str],
    ) -> Result<Value, PeerError> {
        let payload = json!({ "content_type": "text/plain", "content": text });
        self.send(host, room_id, "message.create", payload, mentions).await
    }

    /// Files a join request. Returns the answer: `request`, `status`, …
    ///
    /// # Errors
    /// [`PeerError`].
    pub async fn request_join(
        &self,
        host: impl AsRef<str>,
        room_id: &str,
        input: Value,
    ) -> Result<Value, PeerError> {
        let path = format!("/v1/rooms/{room_id}/join-requests");
        self.request(Method::POST, host, &path, Some(&input), true).await
    }

    /// Reviews a join request: `role` given approves with it, none rejects.
    ///
    /// # Errors
    /// [`PeerError`].
    pub async fn review(
        &self,
        host: impl AsRef<str>,
        room_id: &str,
        request: &Value,
        role: Option<&str>,
    ) -> Result<Value, PeerError> {
        let payload = match role {
            Some(role) => json!({ "request": request, "decision": "approve", "role": role }),
            None => json!({ "request": request, "decision": "reject" }),
        };
        self.send(host, room_id, "room.join.review", payload, &[]).await
    }

    /// Writes its agent status.
    ///
    /// # Errors
    /// [`PeerError`].
    pub async fn put_status(
        &self,
        host: impl AsRef<str>,
        room_id: &str,
        status: Value,
    ) -> Result<Value, PeerError> {
        let path = format!("/v1/rooms/{room_id}/agent-status");
        self.request(Method::PUT, host, &path, Some(&status), true).await
    }

    /// Signs a profile.update without sending it. `id` is filled in when absent.
    ///
    /// # Errors
    /// [`PeerError::Event`].
    pub fn sign_profile(&self, profile: Value) -> Result<Value, PeerError> {
        let mut payload = profile;
        if payload.get("id").is_none() {
            payload["id"] = json!(self.id());
        }
        let mut event = Map::new();
        event.insert("protocol".into(), json!(PROFILE_PROTOCOL));
        event.insert("type".into(), json!("profile.update"));
        event.insert("actor".into(), json!(self.id()));
        event.insert("created_at".into(), json!(self.clock.now_ms()));
        event.insert("nonce".into(), json!(self.next_nonce()));
        event.insert("payload".into(), payload);
        VerifiedEnvelope::sign(&self.key, event)
            .map(|e| e.value().clone())
            .map_err(|e| PeerError::Event(e.to_string()))
    }

    /// Updates its profile. Returns the accepted document.
    ///
    /// # Errors
    /// [`PeerError`].
    pub async fn update_profile(
        &self,
        host: impl AsRef<str>,
        profile: Value,
    ) -> Result<Value, PeerError> {
        let envelope = self.sign_profile(profile)?;
        self.post(host, &envelope).await
    }
}
