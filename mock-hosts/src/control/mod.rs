//! The control port: plans, journal, clock, stepping and the monitor, for people and for tests
//! in other processes.
//!
//! It can make a host lie, so it is guarded like a product: loopback only, its own port, a token
//! on every call, Host and Origin checked before anything is read.

mod api;
mod monitor;
mod monitor_grp;

use std::net::SocketAddr;
use std::sync::Arc;

use ap_protocol::encoding;
use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode, header};
use serde_json::json;
use subtle::ConstantTimeEq;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::lab::Lab;

/// Name of the cookie that carries the token for the monitor page.
const COOKIE: &str = "mock_hosts_control";
/// Largest body the control port takes (bytes).
const MAX_BODY: usize = 4 * 1024 * 1024;

/// Why the control port could not start.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// Not a loopback address.
    #[error("the control port is for this machine only: {0} is no loopback address")]
    NotLoopback(SocketAddr),
    /// The port could not be opened.
    #[error("the control port {address} could not be opened: {error}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why not.
        error: std::io::Error,
    },
}

impl ControlError {
    /// Stable machine-readable code.
    pub fn code(&self) -> &'static str {
        match self {
            ControlError::NotLoopback(_) => "control_not_loopback",
            ControlError::Listen { .. } => "control_listen_failed",
        }
    }
}

/// A running control port. Dropping it stops it.
#[derive(Debug)]
pub struct Control {
    url: String,
    token: String,
    stop: CancellationToken,
}

pub(crate) struct Shared {
    lab: Arc<Lab>,
    token: String,
    port: u16,
}

impl Control {
    /// Starts the control port of a lab, with a fresh random token.
    ///
    /// # Errors
    /// [`ControlError`].
    pub async fn start(lab: Arc<Lab>, address: SocketAddr) -> Result<Self, ControlError> {
        if !address.ip().is_loopback() {
            return Err(ControlError::NotLoopback(address));
        }
        let fail = |error| ControlError::Listen { address, error };
        let listener = TcpListener::bind(address).await.map_err(fail)?;
        let bound = listener.local_addr().map_err(fail)?;
        let mut secret = [0u8; 24];
        getrandom::fill(&mut secret).map_err(|e| fail(std::io::Error::other(e.to_string())))?;
        let token = encoding::encode(secret);
        let shared = Arc::new(Shared { lab, token: token.clone(), port: bound.port() });
        let stop = CancellationToken::new();
        let app = Router::new()
            .merge(api::routes())
            .merge(monitor::routes())
            .fallback(|| async { problem(StatusCode::NOT_FOUND, "not_found", "no such path") })
            .layer(axum::extract::DefaultBodyLimit::max(MAX_BODY))
            .layer(middleware::from_fn_with_state(Arc::clone(&shared), guard))
            .with_state(shared);
        let stopped = stop.clone();
        tokio::spawn(async move {
            // Not a graceful shutdown: an open page must not keep the program alive.
            tokio::select! {
                () = stopped.cancelled() => {}
                served = axum::serve(listener, app) => if let Err(error) = served {
                    tracing::error!(%error, "the control port stopped");
                }
            }
        });
        Ok(Control { url: format!("http://{bound}"), token, stop })
    }

    /// Base URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The token, for `Authorization: Bearer`.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Address of the monitor page, token included: it is exchanged for a cookie.
    pub fn monitor_url(&self) -> String {
        format!("{}/monitor?token={}", self.url, self.token)
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn problem(status: StatusCode, code: &str, message: &str) -> Response {
    let body = json!({ "error": { "code": code, "message": message, "data": {} } });
    (status, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

/// Host, Origin, token, in this order, each by itself sufficient to refuse.
async fn guard(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let headers = request.headers();
    if !host_is_ours(headers, shared.port) {
        return problem(
            StatusCode::FORBIDDEN,
            "host_refused",
            "the Host header does not name this loopback port",
        );
    }
    if !origin_is_ours(headers, shared.port) {
        return problem(
            StatusCode::FORBIDDEN,
            "origin_refused",
            "requests from other origins are refused",
        );
    }
    let query_token = (request.uri().path() == "/monitor")
        .then(|| monitor::query_token(request.uri().query().unwrap_or_default()))
        .flatten();
    let presented = bearer(headers).or_else(|| cookie(headers)).or(query_token);
    let right =
        presented.is_some_and(|token| bool::from(token.as_bytes().ct_eq(shared.token.as_bytes())));
    if !right {
        return problem(
            StatusCode::UNAUTHORIZED,
            "token_required",
            "send the token printed at the start as Authorization: Bearer",
        );
    }
    // A cookie alone proves nothing about intent: what changes something must also come from
    // our own page or carry the token itself.
    let reads = request.method() == http::Method::GET || request.method() == http::Method::HEAD;
    if !reads && bearer(headers).is_none() && headers.get(header::ORIGIN).is_none() {
        return problem(
            StatusCode::FORBIDDEN,
            "origin_required",
            "a change asked for by cookie needs the Origin of the monitor page",
        );
    }
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
    ] {
        headers.insert(name, http::HeaderValue::from_static(value));
    }
    response
}

fn names_port(authority: &str, port: u16) -> bool {
    ["127.0.0.1", "localhost", "[::1]"]
        .iter()
        .any(|name| authority.eq_ignore_ascii_case(&format!("{name}:{port}")))
}

fn host_is_ours(headers: &HeaderMap, port: u16) -> bool {
    let mut hosts = headers.get_all(header::HOST).iter();
    let one = hosts.next().and_then(|h| h.to_str().ok());
    hosts.next().is_none() && one.is_some_and(|h| names_port(h, port))
}

fn origin_is_ours(headers: &HeaderMap, port: u16) -> bool {
    headers.get_all(header::ORIGIN).iter().all(|origin| {
        origin
            .to_str()
            .ok()
            .and_then(|o| o.strip_prefix("http://"))
            .is_some_and(|authority| names_port(authority, port))
    })
}

fn bearer(headers: &HeaderMap) -> Option<String> {
    headers.get(header::AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ").map(str::to_owned)
}

fn cookie(headers: &HeaderMap) -> Option<String> {
    headers
        .get(header::COOKIE)?
        .to_str()
        .ok()?
        .split("; ")
        .find_map(|pair| pair.strip_prefix(COOKIE)?.strip_prefix('=').map(str::to_owned))
}
