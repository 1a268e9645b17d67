//! A GRP 0.1 room host: rooms, decisions, receipts, over REST and MCP.
//!
//! Reading order: [`core`] (what every call goes through: [`op`], the door, [`replay`]) → `ops`, `members` (the acts) →
//! [`lifecycle`] (time, outcome, receipts) → [`engine`] (the mechanisms) → [`rest`], [`mcp`]
//! (translation). It shares the strict JSON parser and the signature predicate of
//! `ap_protocol`, and nothing else, with the other hosts.
//!
//! ```no_run
//! # async fn f() -> Result<(), Box<dyn std::error::Error>> {
//! use mock_hosts::grp::{GrpConfig, GrpHost};
//! let host = GrpHost::start(GrpConfig::default()).await?;
//! println!("{}", host.url());
//! # Ok(()) }
//! ```

pub mod args;
pub mod ballots;
pub mod clock;
pub mod config;
pub mod core;
pub mod defects;
pub mod discovery;
mod door;
pub mod engine;
pub mod error;
mod full;
pub mod issuer;
pub mod jws;
mod lab;
pub mod lifecycle;
pub mod mandate;
pub mod mcp;
mod members;
pub mod model;
pub mod op;
pub mod openapi;
mod ops;
mod page;
pub mod replay;
pub mod rest;
pub mod secrets;
mod serve;
mod sse;
pub mod store;
pub mod views;
mod wait;
pub mod webhooks;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use http::Request;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::front::{Dialect, Front, accept_loop};

pub use clock::{Entropy, GrpClock};
pub use defects::{Defect, Defects};
pub use error::GrpError;
pub use issuer::TestIssuer;

/// Settings of a host.
#[derive(Debug, Clone)]
pub struct GrpConfig {
    /// Its name in a lab, in plans and in the journal.
    pub label: String,
    /// Where it listens; port 0: a free one.
    pub listen: SocketAddr,
    /// Origin it tells others; the listening address when empty.
    pub public_url: String,
    /// Folder of the SQLite file; nothing is kept when absent.
    pub data: Option<PathBuf>,
    /// Time.
    pub clock: GrpClock,
    /// Randomness.
    pub entropy: Entropy,
    /// Longest wait (s), at most 50.
    pub max_wait_s: f64,
    /// Whether `did:key` mandates are believed: their issuer is whoever made the key.
    pub allow_did_key: bool,
    /// Issuer URLs whose mandates are believed.
    pub trusted_issuers: Vec<String>,
    /// Whether issuers and webhooks may be on private addresses and plain http.
    pub allow_private_targets: bool,
    /// Longest time an issuer's document is believed (ms), at most 300 000.
    pub issuer_ttl_ms: i64,
    /// How webhooks are tried.
    pub delivery: webhooks::DeliveryPolicy,
    /// Host names the MCP endpoints answer to, besides loopback.
    pub mcp_hosts: Vec<String>,
    /// Switched-on defects.
    pub defects: Vec<Defect>,
}

impl Default for GrpConfig {
    fn default() -> Self {
        GrpConfig {
            label: "grp".to_owned(),
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            public_url: String::new(),
            data: None,
            clock: GrpClock::default(),
            entropy: Entropy::system(),
            max_wait_s: core::MAX_WAIT_S,
            allow_did_key: true,
            trusted_issuers: Vec::new(),
            allow_private_targets: false,
            issuer_ttl_ms: 60_000,
            delivery: webhooks::DeliveryPolicy::default(),
            mcp_hosts: Vec::new(),
            defects: Vec::new(),
        }
    }
}

/// The host could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address cannot be listened on.
    #[error("the GRP host cannot listen on {address}: {error}; choose another address or port")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why not.
        error: std::io::Error,
    },
    /// The data folder cannot be made.
    #[error("the data directory {path}: {error}")]
    Directory {
        /// Which.
        path: String,
        /// Why.
        error: std::io::Error,
    },
    /// The storage cannot be opened.
    #[error(transparent)]
    Storage(#[from] store::StoreError),
}

impl StartError {
    /// Stable machine-readable code.
    pub fn code(&self) -> &'static str {
        match self {
            StartError::Listen { .. } => "listen_failed",
            StartError::Directory { .. } => "store_directory",
            StartError::Storage(_) => "store_sqlite",
        }
    }
}

/// A running host. Dropping the last clone stops it.
#[derive(Debug, Clone)]
pub struct GrpHost {
    core: Arc<core::Core>,
    front: Arc<Front>,
    _open: Arc<Open>,
}

/// Keeps the front open; it closes with the last handle.
#[derive(Debug)]
struct Open(Arc<Front>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

#[derive(Debug)]
struct StopOnDrop(CancellationToken);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Installs the TLS provider of the process, unless somebody did.
pub fn install_tls() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// An HTTP client builder with the one TLS provider of the project.
pub(crate) fn http_client() -> reqwest::ClientBuilder {
    install_tls();
    reqwest::Client::builder()
}

impl GrpHost {
    /// Starts a host.
    ///
    /// # Errors
    /// [`StartError`].
    pub async fn start(config: GrpConfig) -> Result<Self, StartError> {
        Self::start_in(config, &TaskTracker::new()).await
    }

    /// Starts a host whose connections somebody waits for.
    pub(crate) async fn start_in(
        config: GrpConfig,
        tracker: &TaskTracker,
    ) -> Result<Self, StartError> {
        let fail = |error| StartError::Listen { address: config.listen, error };
        let listener = TcpListener::bind(config.listen).await.map_err(fail)?;
        let address = listener.local_addr().map_err(fail)?;
        let url = if config.public_url.is_empty() {
            format!("http://{address}")
        } else {
            config.public_url.trim_end_matches('/').to_owned()
        };
        let store: Box<dyn store::Storage> = match &config.data {
            None => Box::new(store::Memory::default()),
            Some(folder) => {
                std::fs::create_dir_all(folder).map_err(|error| StartError::Directory {
                    path: folder.display().to_string(),
                    error,
                })?;
                let file = folder.join(format!("{}.sqlite", config.label));
                Box::new(store::Sqlite::open(&file)?)
            }
        };
        let defects = Defects::default();
        defects.set(config.defects.iter().copied());
        let front = Arc::new(Front::with_defects(
            &config.label,
            url,
            Dialect::Grp,
            config.clock.lab().clone(),
            defects.clone(),
        ));
        let source = Arc::new(issuer::HttpIssuers { private: config.allow_private_targets });
        let issuers = mandate::Issuers::new(
            config.allow_did_key,
            &config.trusted_issuers,
            source,
            config.issuer_ttl_ms,
        );
        let (deliveries, queue) = mpsc::channel(webhooks::MAX_QUEUE);
        let core = Arc::new(core::Core::open(
            core::CoreConfig {
                clock: config.clock.clone(),
                entropy: config.entropy,
                issuers,
                max_wait_s: config.max_wait_s.clamp(0.001, core::MAX_WAIT_S),
                private_webhooks: config.allow_private_targets,
                defects,
            },
            store,
            deliveries,
        )?);
        core.set_base(&front.url);
        let stop = &front.stop;
        let mut delivery = config.delivery;
        delivery.private = config.allow_private_targets;
        let pushing = webhooks::run(Arc::clone(&core), queue, delivery);
        let ticking = tick(Arc::clone(&core));
        let mut mcp_hosts = config.mcp_hosts;
        if !mcp_hosts.is_empty() {
            mcp_hosts.extend(["localhost", "127.0.0.1", "::1"].map(str::to_owned));
        }
        let app = App {
            participant: mcp::service(
                &core,
                mcp::Catalog::Participant,
                mcp_hosts.clone(),
                stop.child_token(),
            ),
            host: mcp::service(&core, mcp::Catalog::Host, mcp_hosts, stop.child_token()),
            core: Arc::clone(&core),
        };
        for task in [stop.clone(), stop.clone()].into_iter().zip([
            Box::pin(pushing) as std::pin::Pin<Box<dyn Future<Output = ()> + Send>>,
            Box::pin(ticking),
        ]) {
            let (stop, work) = task;
            tokio::spawn(async move {
                tokio::select! { () = stop.cancelled() => {}, () = work => {} }
            });
        }
        tracker.spawn(accept_loop(
            Arc::clone(&front),
            serve::Served { app, front: Arc::clone(&front) },
            listener,
            tracker.clone(),
        ));
        let open = Arc::new(Open(Arc::clone(&front)));
        Ok(GrpHost { core, front, _open: open })
    }

    /// Origin of the host.
    pub fn url(&self) -> &str {
        &self.front.url
    }

    /// The host without its transports: for arranging and looking inside.
    pub fn core(&self) -> &Arc<core::Core> {
        &self.core
    }

    /// The host's clock.
    pub fn clock(&self) -> &GrpClock {
        &self.core.config.clock
    }

    /// Switches exactly these defects on.
    pub fn set_defects(&self, defects: impl IntoIterator<Item = Defect>) {
        self.core.config.defects.set(defects);
    }

    /// The audit chain of a room, transport left out: what both transports must agree on.
    pub fn audit(&self, slug: &str) -> Option<Vec<model::AuditEntry>> {
        let cell = self.core.cell(slug).ok()?;
        let guard = cell.lock();
        guard.as_ref().map(|room| room.audit.clone())
    }

    /// Every stored row of a room as text, to look for things that must not be there.
    pub fn dump(&self, slug: &str) -> Option<Value> {
        let cell = self.core.cell(slug).ok()?;
        let guard = cell.lock();
        guard.as_ref().map(model::Room::dump)
    }
}

/// Wakes at the next deadline of any room, whoever is looking.
async fn tick(core: Arc<core::Core>) {
    loop {
        let moved = core.deadlines.notified();
        let next = core.cells().iter().filter_map(|cell| core.tick(cell)).min();
        match next {
            None => moved.await,
            Some(at) => {
                tokio::select! {
                    () = moved => {}
                    () = core.config.clock.reached(at) => {}
                }
            }
        }
    }
}

#[derive(Clone)]
struct App {
    core: Arc<core::Core>,
    participant: mcp::Service,
    host: mcp::Service,
}

impl App {
    async fn handle(&self, request: Request<Body>) -> Response {
        let service = match request.uri().path() {
            "/mcp" => &self.participant,
            "/mcp/host" => &self.host,
            _ => return rest::handle(Arc::clone(&self.core), request).await,
        };
        let (parts, body) = request.into_parts();
        let incoming = rest::incoming(&self.core, &parts);
        let mut response = match rest::refuse_url_rpc(&self.core, &incoming) {
            Err(e) => rest::failure(&e, &incoming.correlation),
            Ok(()) => mcp::handle(service.clone(), Request::from_parts(parts, body)).await,
        };
        rest::finish(&self.core, &incoming, &mut response);
        response
    }
}
