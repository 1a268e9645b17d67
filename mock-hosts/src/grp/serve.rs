//! One request to a GRP host from the socket to its answer: the journal entry, the planned
//! faults, and between them the honest host. It decides nothing about rooms.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use ap_protocol::json as strict;
use axum::body::{Body, Bytes};
use futures::{Stream, StreamExt, stream};
use http::{Request, Response, header};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use serde_json::Value;

use super::core::Core;
use super::rest::{self, MAX_BODY};
use super::{App, jws};
use crate::adp::live::oversize;
use crate::answer::{Answer, AnswerBody, Content};
use crate::fault::engine::{Facts, Moment};
use crate::fault::{Action, Eol};
use crate::front::{Asked, Front, LEFT_OUT, Serve, shown_headers};
use crate::journal::JournalEntry;
use crate::route::Route;
use crate::wire::{Wire, finish};

/// Headers that are credentials, or open what was sealed for the client alone.
const SECRET_HEADERS: [&str; 3] = ["x-mandate", "x-room-password", "idempotency-key"];
/// Arguments that are credentials, wherever they stand in a body or a query.
const SECRET_NAMES: [&str; 6] =
    ["token", "password", "secret", "mandate", "invite", "idempotency_key"];

/// The app behind its front.
#[derive(Clone)]
pub(super) struct Served {
    pub app: App,
    pub front: Arc<Front>,
}

impl Serve for Served {
    async fn serve(
        &self,
        connection: u64,
        wire: Arc<Wire>,
        request: Request<Incoming>,
    ) -> Response<AnswerBody> {
        let (front, core) = (&self.front, &self.app.core);
        let (parts, body) = request.into_parts();
        let bytes = Limited::new(body, MAX_BODY).collect().await.map(|b| b.to_bytes()).ok();
        let limits = strict::Limits { max_bytes: MAX_BODY, ..strict::Limits::default() };
        let value = bytes
            .as_ref()
            .filter(|b| !b.is_empty())
            .and_then(|b| strict::parse_with(b, &limits).ok());
        let known = Known::of(core, &parts, value.as_ref());
        let mut now = front.clock.now_ms();
        let journal = front.journal.begin(JournalEntry {
            host: front.label.clone(),
            at_ms: now,
            connection,
            method: parts.method.to_string(),
            path: shown_path(parts.uri.path()),
            query: parts.uri.query().map(shown_query),
            route: known.route.map(|r| r.as_str().to_owned()),
            operation: known.operation.clone(),
            room: known.room.clone(),
            headers: shown_headers(&parts.headers, &SECRET_HEADERS),
            body: value.map(shown_body),
            subject: known.seat.clone(),
            ..JournalEntry::default()
        });
        let hits = front.faults.hits(&known.facts(parts.method.as_str(), Moment::Request, 0));
        front.note_hits(journal, &hits);
        let asked = Asked {
            journal,
            uri: &parts.uri,
            line: format!("{} {}", parts.method, shown_path(parts.uri.path())),
        };
        let early = front.before(&hits, &wire, &asked, &mut now).await;
        let mut answer = match early {
            Some(answer) => answer,
            None => {
                // A body beyond the limit fails where the host reads it, with its own error.
                let body = bytes.map_or_else(
                    || Body::from_stream(stream::iter([Err::<Bytes, _>("beyond the limit")])),
                    Body::from,
                );
                let request = Request::from_parts(parts.clone(), body);
                answer_of(self.app.handle(request).await).await
            }
        };
        let error = error_code(&answer);
        if !hits.is_empty() {
            as_value(&mut answer);
        }
        front.after(&hits, &wire, &asked, &mut answer).await;
        front.conclude(journal, &hits, answer.status, error);
        if let Content::Live(inner) = answer.content {
            let framing = hits.iter().find_map(|h| match h.action {
                Action::Framing { eol, bom } => Some((eol, bom)),
                _ => None,
            });
            let feed = Feed::new(Arc::clone(front), wire, inner, known, journal, framing);
            answer.content = Content::Live(feed.run());
        }
        answer.into_response()
    }
}

/// What a request is about, as far as can be told before it is judged.
struct Known {
    route: Option<Route>,
    operation: Option<String>,
    room: Option<String>,
    /// Participant id of the token, when it is one of the room's.
    seat: Option<String>,
}

impl Known {
    fn of(core: &Core, parts: &http::request::Parts, body: Option<&Value>) -> Self {
        let incoming = rest::incoming(core, parts);
        let bearer = parts
            .headers
            .get(header::AUTHORIZATION)
            .and_then(|v| v.to_str().ok())
            .and_then(|v| v.split_once(' '))
            .map(|(_, token)| token.trim());
        let mcp = match parts.uri.path() {
            "/mcp" => Some(Route::GrpMcp),
            "/mcp/host" => Some(Route::GrpMcpHost),
            _ => None,
        };
        let (route, operation, room, token) = match mcp {
            Some(route) => {
                let text =
                    |pointer: &str| body.and_then(|b| b.pointer(pointer)).and_then(Value::as_str);
                let operation = match text("/method") {
                    Some("tools/call") => text("/params/name"),
                    other => other,
                };
                let token = text("/params/arguments/token").or(bearer);
                (Some(route), operation.map(str::to_owned), text("/params/arguments/slug"), token)
            }
            None => {
                let (route, operation) = rest::named(core, &incoming);
                let slug = match incoming.path.as_slice() {
                    [a, b, slug, ..] if a == "api" && b == "rooms" => Some(slug.as_str()),
                    [r, slug] if r == "r" => Some(slug.as_str()),
                    _ => None,
                };
                let queried = incoming.query.iter().find(|(k, _)| k == "token");
                let token = bearer.or(queried.map(|(_, v)| v.as_str()));
                (route, operation.map(str::to_owned), slug, token)
            }
        };
        let seat = room.zip(token).and_then(|(slug, token)| {
            let cell = core.cell(slug).ok()?;
            let guard = cell.lock();
            let room = guard.as_ref()?;
            let row = room.token(&jws::sha256_hex(token))?;
            Some(room.participants.get(row.seat)?.id.clone())
        });
        Known { route, operation, room: room.map(str::to_owned), seat }
    }

    fn facts<'a>(&'a self, method: &'a str, moment: Moment, delivered: u64) -> Facts<'a> {
        Facts {
            method,
            route: self.route,
            room: self.room.as_deref(),
            agent: self.seat.as_deref(),
            event_type: self.operation.as_deref(),
            moment,
            delivered,
        }
    }
}

/// A path without the invite code in it: who knows the code takes the seat.
fn shown_path(path: &str) -> String {
    match path.split_once("/invites/") {
        Some((room, code)) if !code.is_empty() => format!("{room}/invites/{LEFT_OUT}"),
        _ => path.to_owned(),
    }
}

fn shown_query(query: &str) -> String {
    let mut shown = url::form_urlencoded::Serializer::new(String::new());
    for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
        let secret = SECRET_NAMES.contains(&name.to_ascii_lowercase().as_str());
        shown.append_pair(&name, if secret { LEFT_OUT } else { &value });
    }
    shown.finish()
}

/// A body without the credentials in it.
fn shown_body(mut value: Value) -> Value {
    fn clean(value: &mut Value) {
        match value {
            Value::Object(members) => {
                for (name, value) in members {
                    if SECRET_NAMES.contains(&name.as_str()) && value.is_string() {
                        *value = LEFT_OUT.into();
                    } else {
                        clean(value);
                    }
                }
            }
            Value::Array(items) => items.iter_mut().for_each(clean),
            _ => {}
        }
    }
    clean(&mut value);
    value
}

fn is_type(content_type: &str, wanted: &str) -> bool {
    content_type.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(wanted)
}

/// The host's response as an answer that faults can act on.
async fn answer_of(response: axum::response::Response) -> Answer {
    let (parts, body) = response.into_parts();
    let mut content_type = String::new();
    let mut headers = Vec::new();
    for (name, value) in &parts.headers {
        let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
        if name == header::CONTENT_TYPE {
            content_type = value;
        } else {
            headers.push((name.as_str().to_owned(), value));
        }
    }
    let content = if is_type(&content_type, "text/event-stream") {
        headers.push(("content-type".to_owned(), content_type));
        Content::Live(Box::pin(
            body.into_data_stream().map(|item| item.map_err(std::io::Error::other)),
        ))
    } else {
        match body.collect().await {
            Ok(bytes) => Content::Raw(content_type, bytes.to_bytes()),
            Err(error) => {
                tracing::error!(%error, "an answer broke off inside the host");
                Content::Empty
            }
        }
    };
    Answer { status: parts.status.as_u16(), headers, content }
}

fn json_of(answer: &Answer) -> Option<Value> {
    match &answer.content {
        Content::Raw(content_type, bytes) if is_type(content_type, "application/json") => {
            let limits = strict::Limits { max_bytes: bytes.len(), ..strict::Limits::default() };
            strict::parse_with(bytes, &limits).ok()
        }
        _ => None,
    }
}

/// A JSON answer as a value, for faults that change one.
fn as_value(answer: &mut Answer) {
    if let Some(value) = json_of(answer) {
        answer.content = Content::Json(value);
    }
}

/// The error code of an answer: of the REST envelope, or of a failed tool.
fn error_code(answer: &Answer) -> Option<String> {
    let value = match &answer.content {
        Content::Json(value) => value.clone(),
        _ => json_of(answer)?,
    };
    let code = match value.pointer("/result/isError") {
        Some(Value::Bool(true)) => value.pointer("/result/structuredContent/error/code"),
        _ => value.pointer("/error/code"),
    }?;
    Some(code.as_str().map_or_else(|| code.to_string(), str::to_owned))
}

type Inner = Pin<Box<dyn Stream<Item = std::io::Result<Bytes>> + Send>>;

/// The host's event stream, event by event, under the faults of the plan.
struct Feed {
    front: Arc<Front>,
    wire: Arc<Wire>,
    inner: Inner,
    known: Known,
    journal: u64,
    framing: Option<Eol>,
    /// Bytes of frames not yet complete.
    partial: Vec<u8>,
    /// Complete frames of the host, not yet looked at.
    frames: VecDeque<Vec<u8>>,
    /// What goes out next.
    ready: VecDeque<Bytes>,
    /// Events held back by a `reorder`, sent after the next one.
    late: Vec<Bytes>,
    delivered: u64,
    /// The stream ends so once `ready` is empty.
    ending: Option<crate::wire::End>,
}

impl Feed {
    fn new(
        front: Arc<Front>,
        wire: Arc<Wire>,
        inner: Inner,
        known: Known,
        journal: u64,
        framing: Option<(Eol, bool)>,
    ) -> Self {
        let mut feed = Feed {
            front,
            wire,
            inner,
            known,
            journal,
            framing: framing.map(|(eol, _)| eol),
            partial: Vec::new(),
            frames: VecDeque::new(),
            ready: VecDeque::new(),
            late: Vec::new(),
            delivered: 0,
            ending: None,
        };
        if framing.is_some_and(|(_, bom)| bom) {
            feed.ready.push_back(Bytes::from_static("\u{feff}".as_bytes()));
        }
        for hit in feed.front.faults.hits(&feed.known.facts("GET", Moment::Start, 0)) {
            match hit.action {
                Action::CutAfterEvents { end, .. } => feed.ending = Some(end),
                Action::Inject { text } => feed.ready.push_back(text.into()),
                Action::OversizeEvent { bytes } => feed.ready.push_back(oversize(bytes)),
                _ => {}
            }
        }
        feed
    }

    fn run(self) -> Inner {
        Box::pin(stream::unfold(self, |mut feed| async move {
            feed.next().await.map(|item| (item, feed))
        }))
    }

    async fn next(&mut self) -> Option<std::io::Result<Bytes>> {
        loop {
            if let Some(bytes) = self.ready.pop_front() {
                return Some(Ok(bytes));
            }
            if let Some(end) = self.ending {
                return finish(end, &self.wire).await.map(Err);
            }
            if let Some(frame) = self.frames.pop_front() {
                self.event(frame).await;
                continue;
            }
            match self.inner.next().await? {
                Ok(bytes) => self.partial.extend_from_slice(&bytes),
                Err(error) => return Some(Err(error)),
            }
            // The host ends its lines with LF alone.
            while let Some(at) = self.partial.windows(2).position(|w| w == b"\n\n") {
                let rest = self.partial.split_off(at + 2);
                self.frames.push_back(std::mem::replace(&mut self.partial, rest));
            }
        }
    }

    fn framed(&self, frame: &[u8]) -> Bytes {
        match self.framing {
            None | Some(Eol::Lf) => Bytes::copy_from_slice(frame),
            Some(eol) => {
                let to = if eol == Eol::Cr { "\r" } else { "\r\n" };
                String::from_utf8_lossy(frame).replace('\n', to).into()
            }
        }
    }

    /// One frame of the host's, as the plan lets it out.
    async fn event(&mut self, frame: Vec<u8>) {
        let text = String::from_utf8_lossy(&frame).into_owned();
        let field = |name: &str| text.lines().find_map(|l| l.strip_prefix(name)).map(str::trim);
        let seq = field("data:")
            .and_then(|data| strict::parse(data.as_bytes()).ok())
            .and_then(|event| event["seq"].as_u64());
        let out = self.framed(&frame);
        let Some(seq) = seq else {
            // A comment, such as a keep-alive.
            self.ready.push_back(out);
            return;
        };
        self.known.operation = field("event:").map(str::to_owned);
        let facts = self.known.facts("GET", Moment::Event(seq), self.delivered);
        let hits = self.front.faults.hits(&facts);
        let has = |want: fn(&Action) -> bool| hits.iter().any(|h| want(&h.action));
        if has(|a| matches!(a, Action::Silence {} | Action::DropRecord {})) {
            return;
        }
        for hit in &hits {
            match &hit.action {
                Action::Delay { ms, .. } => tokio::time::sleep(Duration::from_millis(*ms)).await,
                Action::Hold { .. } => {
                    let room = self.known.room.as_deref().unwrap_or_default();
                    let what = format!("event {seq} of {room}");
                    self.front.gate.hold(self.journal, "event", what).await;
                }
                Action::Inject { text } => self.ready.push_back(text.clone().into()),
                Action::OversizeEvent { bytes } => self.ready.push_back(oversize(*bytes)),
                _ => {}
            }
        }
        if has(|a| matches!(a, Action::Reorder {})) {
            self.late.push(out);
            return;
        }
        self.ready.push_back(out.clone());
        if has(|a| matches!(a, Action::Duplicate {})) {
            self.ready.push_back(out);
        }
        self.delivered += 1 + self.late.len() as u64;
        self.ready.extend(self.late.drain(..));
        let facts = self.known.facts("GET", Moment::Delivered(seq), self.delivered);
        for hit in self.front.faults.hits(&facts) {
            if let Action::CutAfterEvents { end, .. } = hit.action {
                self.ending = Some(end);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn credentials_are_left_out() {
        let body = json!({ "slug": "s", "token": "t_1", "params": [{ "password": "p", "x": 1 }] });
        let shown = shown_body(body);
        assert_eq!(shown["slug"], "s");
        assert_eq!(
            (&shown["token"], &shown["params"][0]["password"]),
            (&json!(LEFT_OUT), &json!(LEFT_OUT))
        );
        assert_eq!(shown["params"][0]["x"], 1);
        assert_eq!(
            shown_query("a=1&TOKEN=t_1&since_seq=2"),
            "a=1&TOKEN=%28left+out%29&since_seq=2"
        );
    }
}
