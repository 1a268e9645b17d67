//! What every host of a lab has in front of its protocol: a port that can refuse, a journal,
//! a clock, the faults and the gate.
//!
//! It moves bytes and applies faults; what a request means is for the host behind it.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ap_protocol::ErrorCode;
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::answer::{Answer, AnswerBody, Content, Refusal};
use crate::clock::Clock;
use crate::fault::engine::{Engine, Hit};
use crate::fault::{Action, DelayAt, End, HoldAt};
use crate::gate::Gate;
use crate::grp::Defects;
use crate::journal::Journal;
use crate::wire::{FaultIo, Wire};

/// Which protocols a host speaks: it decides which faults concern it and how an error looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// ADP and APP.
    Agent,
    /// GRP.
    Grp,
}

/// The front of one host.
#[derive(Debug)]
pub(crate) struct Front {
    pub label: String,
    pub url: String,
    pub dialect: Dialect,
    pub clock: Clock,
    pub journal: Journal,
    pub faults: Engine,
    pub gate: Gate,
    pub connections: AtomicU64,
    pub stop: CancellationToken,
}

/// A request as faults name it while they act on it.
pub(crate) struct Asked<'a> {
    pub journal: u64,
    pub uri: &'a http::Uri,
    /// Method and path.
    pub line: String,
}

impl Front {
    pub(crate) fn new(label: &str, url: String, dialect: Dialect, clock: Clock) -> Self {
        Self::with_defects(label, url, dialect, clock, Defects::default())
    }

    /// The front of a host whose seeded defects a plan can switch.
    pub(crate) fn with_defects(
        label: &str,
        url: String,
        dialect: Dialect,
        clock: Clock,
        defects: Defects,
    ) -> Self {
        Front {
            label: label.to_owned(),
            url,
            dialect,
            clock,
            journal: Journal::default(),
            faults: Engine::new(label, dialect, defects),
            gate: Gate::default(),
            connections: AtomicU64::new(0),
            stop: CancellationToken::new(),
        }
    }

    /// Stops the port; what waits at the gate goes on, to end.
    pub(crate) fn cancel(&self) {
        self.stop.cancel();
        self.gate.release_all();
    }

    /// An error answered by a plan, in the words of the host's protocol.
    fn error(&self, code: &str, status: Option<u16>, data: Option<&Value>) -> Answer {
        let message = "answered by a planned fault";
        match self.dialect {
            Dialect::Agent => {
                let known = ErrorCode::from_text(code).map_or(400, ErrorCode::http_status);
                let mut refusal = Refusal::http(status.unwrap_or(known), code, message);
                refusal.data = data.cloned();
                Answer::from(refusal)
            }
            Dialect::Grp => {
                let known = crate::grp::error::codes().find(|(c, _)| *c == code);
                let mut error = json!({ "code": code, "message": message });
                if let Some(data) = data {
                    error["details"] = data.clone();
                }
                let mut answer = Answer::json(json!({ "error": error }));
                answer.status = status.or(known.map(|(_, s)| s)).unwrap_or(400);
                answer
            }
        }
    }

    /// Faults that act before the host looks at the request. An answer ends it here.
    pub(crate) async fn before(
        &self,
        hits: &[Hit],
        wire: &Wire,
        asked: &Asked<'_>,
        now: &mut u64,
    ) -> Option<Answer> {
        let mut answer = None;
        for hit in hits {
            match &hit.action {
                Action::Delay { ms, at: DelayAt::Request } => {
                    tokio::time::sleep(Duration::from_millis(*ms)).await;
                }
                Action::Hold { at: HoldAt::Before } => {
                    self.gate.hold(asked.journal, "before", asked.line.clone()).await;
                    *now = self.clock.now_ms();
                }
                Action::ClockSkew { ms } => *now = now.saturating_add_signed(*ms),
                Action::Status { code, body, retry_after } => {
                    let mut out = match body {
                        Some(text) => Answer::raw("text/plain", text.clone()),
                        None => Answer::empty(),
                    };
                    out.status = *code;
                    if let Some(after) = retry_after {
                        out.set_retry_after(after, *now);
                    }
                    answer.get_or_insert(out);
                }
                Action::Error { code, status, data, retry_after } => {
                    let mut out = self.error(code, *status, data.as_ref());
                    if let Some(after) = retry_after {
                        out.set_retry_after(after, *now);
                    }
                    answer.get_or_insert(out);
                }
                Action::Redirect { status, to } => {
                    let bare =
                        url::Url::parse(to).is_ok_and(|u| u.path() == "/" && u.query().is_none());
                    let target = match (bare, asked.uri.path_and_query()) {
                        (true, Some(rest)) => format!("{}{rest}", to.trim_end_matches('/')),
                        _ => to.clone(),
                    };
                    let mut out = Answer::empty();
                    out.status = *status;
                    out.set_header("Location", &target);
                    answer.get_or_insert(out);
                }
                Action::Reset {} => {
                    wire.kill(End::Reset);
                    answer.get_or_insert(Answer::raw("text/plain", "reset"));
                }
                Action::Stall {} => {
                    wire.kill(End::Stall);
                    answer.get_or_insert(Answer::raw("text/plain", "stalled"));
                }
                _ => {}
            }
        }
        answer
    }

    /// Faults that act on the finished answer and on its way out.
    pub(crate) async fn after(
        &self,
        hits: &[Hit],
        wire: &Wire,
        asked: &Asked<'_>,
        answer: &mut Answer,
    ) {
        for hit in hits {
            match &hit.action {
                Action::LoseResponse { end } => wire.kill(*end),
                Action::CutAfterBytes { bytes, end } => wire.cut_after(*bytes, *end),
                Action::Slice { bytes, pause_ms } => {
                    wire.slice(*bytes, Duration::from_millis(*pause_ms));
                }
                Action::Hold { at: HoldAt::After } => {
                    self.gate.hold(asked.journal, "after", asked.line.clone()).await;
                }
                action => answer.spoil(action),
            }
        }
    }

    /// Notes the answer in the journal.
    pub(crate) fn conclude(&self, journal: u64, hits: &[Hit], status: u16, error: Option<String>) {
        let lost = hits.iter().any(|h| {
            matches!(h.action, Action::LoseResponse { .. } | Action::Reset {} | Action::Stall {})
        });
        self.journal.update(journal, |e| {
            e.status = (!lost).then_some(status);
            e.error = error;
            e.done = true;
        });
    }

    /// Notes which faults hit a request.
    pub(crate) fn note_hits(&self, journal: u64, hits: &[Hit]) {
        if !hits.is_empty() {
            let ids: Vec<u64> = hits.iter().map(|h| h.id.0).collect();
            self.journal.update(journal, |e| e.faults = ids);
        }
    }
}

/// The host behind a front: one request to its answer.
pub(crate) trait Serve: Clone + Send + Sync + 'static {
    fn serve(
        &self,
        connection: u64,
        wire: Arc<Wire>,
        request: http::Request<Incoming>,
    ) -> impl Future<Output = http::Response<AnswerBody>> + Send;
}

/// Accepts connections until the host stops. A `refuse` fault closes the port meanwhile.
pub(crate) async fn accept_loop<S: Serve>(
    front: Arc<Front>,
    host: S,
    listener: TcpListener,
    tracker: TaskTracker,
) {
    let address = listener.local_addr().ok();
    let mut listener = Some(listener);
    let mut refusing = front.faults.refusing();
    loop {
        if *refusing.borrow_and_update() {
            listener = None;
        } else if listener.is_none() {
            listener = bind_again(address).await;
        }
        tokio::select! {
            () = front.stop.cancelled() => return,
            _ = refusing.changed() => {}
            accepted = async {
                match &listener {
                    Some(listener) => listener.accept().await,
                    None => std::future::pending().await,
                }
            } => if let Ok((stream, _)) = accepted {
                let number = front.connections.fetch_add(1, Ordering::Relaxed) + 1;
                tracker.spawn(connection(Arc::clone(&front), host.clone(), stream, number));
            }
        }
    }
}

/// The same port again. Connections of the closed listener may need a moment to go.
async fn bind_again(address: Option<SocketAddr>) -> Option<TcpListener> {
    let address = address?;
    for _ in 0..200 {
        match TcpListener::bind(address).await {
            Ok(listener) => return Some(listener),
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
    tracing::error!(%address, "the port could not be opened again");
    None
}

async fn connection<S: Serve>(front: Arc<Front>, host: S, stream: TcpStream, number: u64) {
    let _ = stream.set_nodelay(true);
    let wire = Arc::new(Wire::default());
    let io = TokioIo::new(FaultIo::new(stream, Arc::clone(&wire)));
    let service = {
        let wire = Arc::clone(&wire);
        hyper::service::service_fn(move |request| {
            let (host, wire) = (host.clone(), Arc::clone(&wire));
            async move {
                wire.next_answer();
                Ok::<_, Infallible>(host.serve(number, wire, request).await)
            }
        })
    };
    let serving = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .serve_connection(io, service);
    let mut refusing = front.faults.refusing();
    tokio::select! {
        () = front.stop.cancelled() => {}
        _ = refusing.wait_for(|refuse| *refuse) => {}
        served = serving => if let Err(error) = served {
            tracing::debug!(%error, connection = number, "connection ended");
        }
    }
}

/// Headers as the journal shows them: credentials are named and left out.
pub(crate) fn shown_headers(
    headers: &http::HeaderMap,
    secret: &[&str],
) -> std::collections::BTreeMap<String, String> {
    headers
        .iter()
        .filter(|(name, _)| *name != http::header::AUTHORIZATION)
        .map(|(name, value)| {
            let shown = if secret.contains(&name.as_str()) {
                LEFT_OUT.to_owned()
            } else {
                String::from_utf8_lossy(value.as_bytes()).into_owned()
            };
            (name.as_str().to_owned(), shown)
        })
        .collect()
}

/// What stands in the journal where a credential stood on the wire.
pub(crate) const LEFT_OUT: &str = "(left out)";

impl Answer {
    pub(crate) fn empty() -> Self {
        Answer { status: 200, headers: Vec::new(), content: Content::Empty }
    }
}
