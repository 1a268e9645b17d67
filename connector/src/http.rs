//! The one way out: every request of the connector passes [`Http::send`].
//!
//! Only allowlisted origins, no redirects, no proxy from the environment, bounded time and
//! bounded bodies. Bodies become values through the strict parser or not at all.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ap_protocol::nonce::MAX_SEEN_NONCE;
use ap_protocol::origin::Origin;
use ap_protocol::{ErrorCode, json};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use serde_json::{Value, json};

use crate::clock::Clock;
use crate::config::{HostEntry, Tuning, bare_origin};
use crate::error::ToolError;
use crate::signer::Signer;

/// An origin that the operator allowed. Only [`Http::host`] and [`Http::profile_service`]
/// make one, so no request can be addressed elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AllowedOrigin(Origin);

impl AllowedOrigin {
    /// The origin's text.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

/// A complete answer.
#[derive(Debug, Clone)]
pub struct Reply {
    /// HTTP status.
    pub status: u16,
    /// The parsed body, `null` when empty.
    pub body: Value,
    /// `Max-Seen-Nonce`, if sent.
    pub max_seen_nonce: Option<String>,
    /// `Retry-After` in ms, if sent in seconds.
    pub retry_after_ms: Option<u64>,
    /// `Date`, if sent: the host's clock, for the operator to compare.
    pub date: Option<String>,
}

/// One request.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// Method.
    pub method: reqwest::Method,
    /// Path segments, encoded one by one.
    pub path: &'a [&'a str],
    /// Query members.
    pub query: &'a [(&'a str, String)],
    /// JSON body.
    pub body: Option<&'a Value>,
    /// Whether to prove the Agent ID with a request JWT.
    pub auth: bool,
}

impl<'a> Request<'a> {
    /// A plain GET.
    pub fn get(path: &'a [&'a str]) -> Self {
        Request { method: reqwest::Method::GET, path, query: &[], body: None, auth: false }
    }

    /// A POST with a body.
    pub fn post(path: &'a [&'a str], body: &'a Value) -> Self {
        Request { method: reqwest::Method::POST, path, query: &[], body: Some(body), auth: false }
    }

    /// The same with a query.
    #[must_use]
    pub fn query(mut self, query: &'a [(&'a str, String)]) -> Self {
        self.query = query;
        self
    }

    /// The same with a request JWT.
    #[must_use]
    pub fn auth(mut self, auth: bool) -> Self {
        self.auth = auth;
        self
    }
}

/// The guarded client.
pub struct Http {
    client: reqwest::Client,
    hosts: Vec<HostEntry>,
    profile_services: BTreeSet<Origin>,
    signer: Arc<Signer>,
    clock: Clock,
    tuning: Tuning,
}

impl Http {
    /// Builds the client for an allowlist.
    ///
    /// # Errors
    /// `internal_error` when TLS cannot be set up.
    pub fn new(
        hosts: Vec<HostEntry>,
        profile_services: &[Origin],
        signer: Arc<Signer>,
        clock: Clock,
        tuning: Tuning,
    ) -> Result<Self, ToolError> {
        // A second call finds the provider installed already; both are ring.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .connect_timeout(Duration::from_millis(tuning.connect_timeout_ms))
            .pool_idle_timeout(Duration::from_secs(20))
            .user_agent(concat!("ap-connector/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(ToolError::internal)?;
        let profile_services = profile_services.iter().cloned().collect();
        Ok(Http { client, hosts, profile_services, signer, clock, tuning })
    }

    /// The allowlist.
    pub fn hosts(&self) -> &[HostEntry] {
        &self.hosts
    }

    /// The allowed host that `text` names.
    ///
    /// # Errors
    /// `host_not_allowed`.
    pub fn host(&self, text: &str) -> Result<AllowedOrigin, ToolError> {
        let origin = bare_origin(text).map_err(|why| not_allowed(text, &why))?;
        if self.hosts.iter().any(|h| h.origin == origin) {
            Ok(AllowedOrigin(origin))
        } else {
            Err(not_allowed(text, "not on the operator's allowlist"))
        }
    }

    /// The allowed profile service that `text` names.
    ///
    /// # Errors
    /// `host_not_allowed`.
    pub fn profile_service(&self, text: &str) -> Result<AllowedOrigin, ToolError> {
        let origin = bare_origin(text).map_err(|why| not_allowed(text, &why))?;
        if self.profile_services.contains(&origin) {
            Ok(AllowedOrigin(origin))
        } else {
            Err(not_allowed(text, "not among the operator's profile services"))
        }
    }

    /// Every allowed host.
    pub fn host_origins(&self) -> Vec<AllowedOrigin> {
        self.hosts.iter().map(|h| AllowedOrigin(h.origin.clone())).collect()
    }

    /// Every allowed profile service of the identity.
    pub fn profile_services(&self) -> Vec<AllowedOrigin> {
        self.profile_services.iter().cloned().map(AllowedOrigin).collect()
    }

    /// The profile service of an allowed host.
    pub fn profile_service_of(&self, host: &str) -> Option<AllowedOrigin> {
        let entry = self.hosts.iter().find(|h| h.origin.as_str() == host)?;
        entry.profile_service.clone().map(AllowedOrigin)
    }

    async fn send(
        &self,
        to: &AllowedOrigin,
        request: &Request<'_>,
        accept: &'static str,
        timeout: Option<Duration>,
    ) -> Result<reqwest::Response, ToolError> {
        let mut url = url::Url::parse(to.as_str()).expect("an Origin is a URL");
        url.path_segments_mut().expect("http URLs have a path").clear().extend(request.path);
        if !request.query.is_empty() {
            let mut pairs = url.query_pairs_mut();
            for (name, value) in request.query {
                pairs.append_pair(name, value);
            }
        }
        // The allowlist again, on what is really addressed.
        debug_assert_eq!(Origin::of(&url).as_ref().map(Origin::as_str), Ok(to.as_str()));
        let mut builder = self.client.request(request.method.clone(), url).header(ACCEPT, accept);
        if let Some(timeout) = timeout {
            builder = builder.timeout(timeout);
        }
        if request.auth {
            let token = self.signer.token(to, self.clock.now_ms());
            let mut value = HeaderValue::try_from(format!("Bearer {token}"))
                .expect("a compact JWS is ASCII without control characters");
            value.set_sensitive(true);
            builder = builder.header(AUTHORIZATION, value);
        }
        if let Some(body) = request.body {
            builder = builder.header(CONTENT_TYPE, "application/json").body(body.to_string());
        }
        let response = builder.send().await.map_err(|e| transport_error(to, &e))?;
        if response.status().is_redirection() {
            return Err(ToolError::new(
                "redirect_refused",
                "the host answered with a redirect; redirects are never followed",
            )
            .with(json!({ "host": to.as_str(), "status": response.status().as_u16() })));
        }
        Ok(response)
    }

    /// Sends a request and reads the whole answer. A protocol error is still a [`Reply`].
    ///
    /// # Errors
    /// Codes of the transport: unreachable, lost, timeout, too large, not JSON.
    pub async fn exchange(
        &self,
        to: &AllowedOrigin,
        request: &Request<'_>,
    ) -> Result<Reply, ToolError> {
        let response =
            self.send(to, request, "application/json", Some(self.tuning.request_timeout())).await?;
        let status = response.status().as_u16();
        let header = |name: &str| {
            response.headers().get(name).and_then(|v| v.to_str().ok()).map(str::to_owned)
        };
        let max_seen_nonce = header(MAX_SEEN_NONCE);
        let retry_after_ms = header(RETRY_AFTER.as_str())
            .and_then(|s| s.trim().parse::<u64>().ok())
            .map(|s| s.saturating_mul(1000));
        let date = header(reqwest::header::DATE.as_str());
        let bytes = read_capped(to, response, self.tuning.max_response_bytes).await?;
        let body = if bytes.iter().all(u8::is_ascii_whitespace) {
            Value::Null
        } else {
            let limits = json::Limits { max_bytes: self.tuning.max_response_bytes, max_depth: 128 };
            match json::parse_with(&bytes, &limits) {
                Ok(value) => value,
                // An error page of some proxy: the status says more than its text.
                Err(_) if status >= 400 => Value::Null,
                Err(e) => {
                    return Err(ToolError::new(
                        "bad_response",
                        format!("the host's answer is not acceptable JSON: {e}"),
                    )
                    .with(json!({ "host": to.as_str(), "status": status, "reason": e.code() })));
                }
            }
        };
        Ok(Reply { status, body, max_seen_nonce, retry_after_ms, date })
    }

    /// Sends a request; anything but a 2xx answer is an error with the protocol's code.
    ///
    /// # Errors
    /// As [`Http::exchange`], and [`Reply::error`].
    pub async fn call(
        &self,
        to: &AllowedOrigin,
        request: &Request<'_>,
    ) -> Result<Value, ToolError> {
        let reply = self.exchange(to, request).await?;
        match reply.error() {
            Some(e) => Err(e.and("host", to.as_str())),
            None => Ok(reply.body),
        }
    }

    /// Reads a public document by its full address, without a token, from an allowed origin.
    ///
    /// # Errors
    /// `host_not_allowed` for any other origin; transport codes; `host_error`.
    pub async fn fetch(&self, address: &str, cap: usize) -> Result<Vec<u8>, ToolError> {
        let url =
            url::Url::parse(address).map_err(|_| not_allowed(address, "not an absolute URL"))?;
        let origin = Origin::of(&url).map_err(|e| not_allowed(address, &e.to_string()))?;
        let to = self.host(origin.as_str()).or_else(|_| self.profile_service(origin.as_str()))?;
        let path: Vec<String> =
            url.path_segments().into_iter().flatten().map(percent_decode).collect();
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        let pairs: Vec<(String, String)> = url.query_pairs().into_owned().collect();
        let query: Vec<(&str, String)> =
            pairs.iter().map(|(n, v)| (n.as_str(), v.clone())).collect();
        let request = Request::get(&path).query(&query);
        let response = self.send(&to, &request, "*/*", Some(self.tuning.request_timeout())).await?;
        let status = response.status().as_u16();
        if status != 200 {
            return Err(ToolError::new(
                "host_error",
                format!("the document is not served: HTTP status {status}"),
            )
            .with(json!({ "status": status })));
        }
        read_capped(&to, response, cap).await
    }

    /// Opens an event stream.
    ///
    /// # Errors
    /// Transport codes; a protocol code when the host refuses; `bad_response` for another
    /// content type.
    pub async fn stream(
        &self,
        to: &AllowedOrigin,
        path: &[&str],
    ) -> Result<reqwest::Response, ToolError> {
        let request = Request::get(path).auth(true);
        let headers = self.send(to, &request, "text/event-stream", None);
        let response = tokio::time::timeout(self.tuning.request_timeout(), headers)
            .await
            .map_err(|_| timeout_error(to))??;
        let status = response.status().as_u16();
        if status != 200 {
            let bytes = read_capped(to, response, 1024 * 1024).await.unwrap_or_default();
            let body = json::parse(&bytes).unwrap_or(Value::Null);
            let reply =
                Reply { status, body, max_seen_nonce: None, retry_after_ms: None, date: None };
            return Err(reply.error().unwrap_or_else(|| {
                ToolError::new("bad_response", "the event stream was not opened")
            }));
        }
        let content_type = response
            .headers()
            .get(CONTENT_TYPE)
            .and_then(|v| v.to_str().ok())
            .unwrap_or_default()
            .to_ascii_lowercase();
        if content_type.split(';').next().unwrap_or_default().trim() != "text/event-stream" {
            return Err(ToolError::new("bad_response", "the answer is no event stream")
                .with(json!({ "content_type": content_type })));
        }
        Ok(response)
    }
}

impl Reply {
    /// The error this answer carries, with the protocol's code and data kept.
    pub fn error(&self) -> Option<ToolError> {
        if (200..300).contains(&self.status) {
            return None;
        }
        let error = &self.body["error"];
        let Some(code) = error["code"].as_str().filter(|c| is_code(c)) else {
            let code = if self.status == 429 { "rate_limited" } else { "host_error" };
            let mut e = ToolError::new(
                code,
                format!("the host answered with HTTP status {} and no protocol error", self.status),
            )
            .with(json!({ "status": self.status }));
            if let Some(ms) = self.retry_after_ms {
                e = e.and("retry_after_ms", ms);
            }
            return Some(e);
        };
        let said: String = error["message"]
            .as_str()
            .unwrap_or_default()
            .chars()
            .filter(|c| !crate::text::is_unsafe(*c))
            .take(500)
            .collect();
        let advice = ErrorCode::from_text(code).map_or("see the host's message", advice);
        let mut e = ToolError::new(code, format!("the host refused: {said:?}. {advice}"));
        e.data = match &error["data"] {
            Value::Object(members) => Value::Object(members.clone()),
            Value::Null => json!({}),
            other => json!({ "host_data": other }),
        };
        e = e.and("status", self.status);
        if let Some(ms) = self.retry_after_ms {
            e = e.and("retry_after_ms", ms);
        }
        Some(e)
    }

    /// Whether the host certainly took no effect: a client error, or any protocol code.
    pub fn is_definite_refusal(&self) -> bool {
        let known =
            self.body["error"]["code"].as_str().is_some_and(|c| ErrorCode::from_text(c).is_some());
        (400..500).contains(&self.status) && self.status != 408 || (self.status >= 500 && known)
    }
}

/// One path segment as it was before it was encoded.
fn percent_decode(segment: &str) -> String {
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let hex = tail.get(..2).and_then(|h| std::str::from_utf8(h).ok());
        match hex.and_then(|h| u8::from_str_radix(h, 16).ok()) {
            Some(byte) if first == b'%' => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            _ => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn is_code(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 64
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}

/// What an agent does about a protocol error.
fn advice(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::InvalidEvent
        | ErrorCode::InvalidEventHash
        | ErrorCode::InvalidSignature
        | ErrorCode::InvalidActor => "Check the arguments; if they are right, tell the operator.",
        ErrorCode::TimestampOutOfWindow => {
            "The clocks of host and connector differ: tell the operator."
        }
        ErrorCode::NonceNotGreater => "The sequence was resynchronized; call again.",
        ErrorCode::RoomNotFound => "Check room_id and host.",
        ErrorCode::RoomNotActive => "Wait until the room starts.",
        ErrorCode::RoomEnded => "The room takes nothing more.",
        ErrorCode::PermissionDenied => "Your role does not allow this; ask a moderator.",
        ErrorCode::ApprovalRequired => "Call agent_protocols_room_join to ask for approval.",
        ErrorCode::JoinRequestNotFound => "Ask again with agent_protocols_room_join.",
        ErrorCode::JoinRequestNotApproved => "Wait for the review.",
        ErrorCode::JoinRequestRoleMismatch => "Join with the approved role.",
        ErrorCode::JoinRequestExpired => "Ask again with agent_protocols_room_join.",
        ErrorCode::MemberBanned => "You are banned from this room.",
        ErrorCode::RoleNotAllowed => "Choose another role.",
        ErrorCode::MaxSpeakersExceeded => "Join as observer, or wait for a place.",
        ErrorCode::MembershipRequired => "Join the room first.",
        ErrorCode::InvalidToken => {
            "The host did not take the request token: tell the operator to check the clock."
        }
        ErrorCode::RoomHeadMismatch => "The room moved: read the changes and decide again.",
        ErrorCode::BaseRecordMismatch => {
            "The base names no record of this room; leave base_seq and base_hash out."
        }
        ErrorCode::AgentStatusNotFound => "There is no current status.",
        ErrorCode::RateLimited => "Wait for `data.retry_after_ms`, then call again.",
        ErrorCode::PayloadTooLarge => "Send less.",
        ErrorCode::TypeNotDefined => "Use a type from the room's registry.",
        ErrorCode::TypeDisabled => "This type is switched off in the room.",
        ErrorCode::PayloadSchemaViolation => "Make the payload fit the type's schema.",
        ErrorCode::PackUnavailable => "The type pack could not be resolved.",
    }
}

fn not_allowed(text: &str, why: &str) -> ToolError {
    let shown: String = text.chars().filter(|c| !crate::text::is_unsafe(*c)).take(200).collect();
    ToolError::new(
        "host_not_allowed",
        format!(
            "{shown:?} is not an allowed service ({why}); nothing was sent. \
             agent_protocols_hosts_list shows the allowed hosts; only the operator adds one"
        ),
    )
    .with(json!({ "host": shown }))
}

fn timeout_error(to: &AllowedOrigin) -> ToolError {
    ToolError::new("host_timeout", "the host did not answer in time")
        .with(json!({ "host": to.as_str() }))
}

fn transport_error(to: &AllowedOrigin, e: &reqwest::Error) -> ToolError {
    let mut chain = String::new();
    let mut source: Option<&dyn std::error::Error> = std::error::Error::source(e);
    while let Some(s) = source {
        chain = s.to_string();
        source = s.source();
    }
    let lower = chain.to_ascii_lowercase();
    let (code, message) = if e.is_timeout() && !e.is_connect() {
        ("host_timeout", "the host did not answer in time".to_owned())
    } else if lower.contains("certificate") || lower.contains("tls") || lower.contains("handshake")
    {
        ("tls_error", format!("the TLS connection failed: {chain}"))
    } else if e.is_connect() {
        ("host_unreachable", format!("no connection to the host, nothing was sent: {chain}"))
    } else {
        ("connection_lost", format!("the connection broke before the answer was complete: {chain}"))
    };
    ToolError::new(code, message).with(json!({ "host": to.as_str() }))
}

async fn read_capped(
    to: &AllowedOrigin,
    mut response: reqwest::Response,
    cap: usize,
) -> Result<Vec<u8>, ToolError> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|e| transport_error(to, &e))? {
        if bytes.len() + chunk.len() > cap {
            return Err(ToolError::new(
                "response_too_large",
                format!("the host's answer exceeds {cap} bytes"),
            )
            .with(json!({ "host": to.as_str(), "limit_bytes": cap })));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}
