//! One request to an ADP or APP host: reading it, choosing faults, handling, answering.
//! The socket and the faults that concern no protocol are `front`'s.

use std::sync::Arc;

use ap_protocol::json::JsonError;
use ap_protocol::{AgentId, ErrorCode, encoding, json as strict, jwt};
use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use serde_json::{Map, Value, json};

use crate::answer::{Answer, AnswerBody, Refusal};
use crate::fault::Action;
use crate::fault::engine::{Facts, Hit, Moment};
use crate::front::{Asked, Serve, shown_headers};
use crate::host::HostInner;
use crate::journal::JournalEntry;
use crate::route::{self, Parsed, Route, Target};
use crate::wire::Wire;

/// One request with everything that was found out about it.
pub(crate) struct Exchange {
    pub target: Target,
    pub query: Vec<(String, String)>,
    /// The body as strict JSON; none when there is no body.
    pub body: Option<Result<Value, JsonError>>,
    /// Who the request JWT proves: nobody, somebody, or a token that does not hold.
    pub agent: Result<Option<AgentId>, Refusal>,
    /// The host's time for this request (Unix ms).
    pub now: u64,
    pub hits: Vec<Hit>,
    pub wire: Arc<Wire>,
    /// Its number in the journal.
    pub journal: u64,
}

impl Exchange {
    pub(crate) fn agent_opt(&self) -> Result<Option<&AgentId>, Refusal> {
        self.agent.as_ref().map(Option::as_ref).map_err(Clone::clone)
    }

    pub(crate) fn query(&self, name: &str) -> Option<String> {
        self.query.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone())
    }

    pub(crate) fn query_u64(&self, name: &str) -> Result<Option<u64>, Refusal> {
        self.query(name)
            .map(|text| {
                let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
                let n = text.parse::<u64>().ok().filter(|n| *n <= ap_protocol::MAX_SAFE_INTEGER);
                n.filter(|_| digits)
                    .ok_or_else(|| Refusal::bad_request(format!("{name} is a safe integer")))
            })
            .transpose()
    }

    /// Page size: `default` when absent, at most `cap`.
    pub(crate) fn limit(&self, default: usize, cap: usize) -> Result<usize, Refusal> {
        match self.query_u64("limit")? {
            None => Ok(default),
            Some(0) => Err(Refusal::bad_request("limit is at least 1")),
            Some(n) => Ok(usize::try_from(n).unwrap_or(cap).min(cap)),
        }
    }

    pub(crate) fn object_body(&self) -> Result<&Map<String, Value>, Refusal> {
        match &self.body {
            Some(Ok(Value::Object(members))) => Ok(members),
            Some(Err(e)) => Err(Refusal::bad_request(format!("the body is not I-JSON: {e}"))),
            _ => Err(Refusal::bad_request("the body is a JSON object")),
        }
    }
}

/// One page of a sorted list. Keys are unique; the cursor is the last key of a page, so that
/// inserts never shift what is still to come.
pub(crate) fn page(
    host: &HostInner,
    ex: &Exchange,
    items: Vec<(String, Value)>,
    default: usize,
    cap: usize,
) -> Result<Answer, Refusal> {
    let limit = ex.limit(default, cap)?;
    let after = match ex.query("cursor") {
        None => None,
        Some(cursor) => Some(
            encoding::decode(&cursor)
                .ok()
                .and_then(|b| String::from_utf8(b).ok())
                .and_then(|t| t.strip_prefix("key:").map(str::to_owned))
                .ok_or_else(|| Refusal::bad_request("cursor is not one of this host's"))?,
        ),
    };
    let mut rest = items.into_iter().filter(|(k, _)| after.as_ref().is_none_or(|a| k > a));
    let shown: Vec<(String, Value)> = rest.by_ref().take(limit).collect();
    let mut cursor = match (rest.next(), shown.last()) {
        (Some(_), Some((key, _))) => Some(encoding::encode(format!("key:{key}"))),
        _ => None,
    };
    if ex.hits.iter().any(|h| matches!(h.action, Action::RepeatCursor {})) {
        cursor = Some(encoding::encode(format!("key:{}", after.unwrap_or_default())));
    }
    let list: Vec<Value> = shown.into_iter().map(|(_, v)| v).collect();
    if host.config.bare_lists {
        return Ok(Answer::json(Value::Array(list)));
    }
    let mut out = json!({ "result": list });
    if let Some(cursor) = cursor {
        out["next_cursor"] = json!(cursor);
    }
    Ok(Answer::json(out))
}

/// What a request JWT says, whether or not it holds.
struct Token {
    agent: Result<Option<AgentId>, Refusal>,
    claims: Option<Value>,
    error: Option<String>,
}

fn read_token(host: &HostInner, headers: &http::HeaderMap, now_ms: u64) -> Token {
    let Some(header) = headers.get(http::header::AUTHORIZATION) else {
        return Token { agent: Ok(None), claims: None, error: None };
    };
    let bad = |claims: Option<Value>, why: String| Token {
        agent: Err(Refusal::new(ErrorCode::InvalidToken, format!("request JWT: {why}"))),
        claims,
        error: Some(why),
    };
    let Some(token) = header.to_str().ok().and_then(|h| h.strip_prefix("Bearer ")) else {
        return bad(None, "the Authorization header is not Bearer".to_owned());
    };
    let claims = token
        .split('.')
        .nth(1)
        .and_then(|part| encoding::decode(part).ok())
        .and_then(|bytes| strict::parse(&bytes).ok());
    match jwt::verify(token, &host.front.url, now_ms / 1000) {
        Ok(agent) => Token { agent: Ok(Some(agent)), claims, error: None },
        Err(error) => bad(claims, error.to_string()),
    }
}

impl Serve for Arc<HostInner> {
    async fn serve(
        &self,
        connection: u64,
        wire: Arc<Wire>,
        request: http::Request<Incoming>,
    ) -> http::Response<AnswerBody> {
        exchange(self, connection, wire, request).await
    }
}

/// Reads a request, lets the relay have its way with it, and answers what is left.
async fn exchange(
    host: &Arc<HostInner>,
    connection: u64,
    wire: Arc<Wire>,
    request: http::Request<Incoming>,
) -> http::Response<AnswerBody> {
    let (parts, incoming) = request.into_parts();
    let collected = Limited::new(incoming, host.config.max_body_bytes).collect().await;
    let bytes: Result<Bytes, Refusal> = match collected {
        Ok(body) => Ok(body.to_bytes()),
        Err(_) => Err(Refusal::new(
            ErrorCode::PayloadTooLarge,
            format!("a request body has at most {} bytes", host.config.max_body_bytes),
        )),
    };
    let (Some(relay), Ok(body)) = (host.relay.get(), &bytes) else {
        return answer(host, connection, wire, parts, bytes).await;
    };
    let passed = relay.pass(http::Request::from_parts(parts, body.clone())).await;
    let mut first = None;
    for request in passed {
        let (parts, body) = request.into_parts();
        let answered = answer(host, connection, Arc::clone(&wire), parts, Ok(body)).await;
        first.get_or_insert(answered);
    }
    first.unwrap_or_else(|| {
        let refusal = Refusal::http(502, "lost", "the relay let nothing through");
        Answer::from(refusal).into_response()
    })
}

async fn answer(
    host: &Arc<HostInner>,
    connection: u64,
    wire: Arc<Wire>,
    parts: http::request::Parts,
    bytes: Result<Bytes, Refusal>,
) -> http::Response<AnswerBody> {
    let front = &host.front;
    let body = bytes.as_ref().ok().filter(|b| !b.is_empty()).map(|b| strict::parse(b));
    let path = parts.uri.path();
    let parsed = route::parse(parts.method.as_str(), path);
    let target = match &parsed {
        Parsed::Target(target) => Some(target.clone()),
        _ => None,
    };
    let mut now = front.clock.now_ms();
    let token = read_token(host, &parts.headers, now);
    let room = target
        .as_ref()
        .filter(|t| !t.route.is_profile() && t.route != Route::Pack && !t.first.is_empty())
        .map(|t| t.first.clone());
    let envelope = match (&body, target.as_ref().map(|t| t.route)) {
        (Some(Ok(v)), Some(Route::Create | Route::Submit | Route::ProfileUpdate)) => {
            Some(v.clone())
        }
        _ => None,
    };
    let actor = envelope
        .as_ref()
        .and_then(|e| e.pointer("/event/actor"))
        .and_then(Value::as_str)
        .map(str::to_owned);
    let subject = token.agent.as_ref().ok().and_then(|a| a.as_ref().map(ToString::to_string));
    let event_type = envelope
        .as_ref()
        .and_then(|e| e.pointer("/event/type"))
        .and_then(Value::as_str)
        .map(str::to_owned);
    let entry = JournalEntry {
        host: front.label.clone(),
        at_ms: now,
        connection,
        method: parts.method.to_string(),
        path: path.to_owned(),
        query: parts.uri.query().map(str::to_owned),
        route: target.as_ref().map(|t| t.route.as_str().to_owned()),
        room: room.clone(),
        headers: shown_headers(&parts.headers, &[]),
        body: match (&body, &envelope) {
            (Some(Ok(v)), None) => Some(v.clone()),
            _ => None,
        },
        envelope,
        subject: subject.clone(),
        claims: token.claims,
        token_error: token.error,
        ..JournalEntry::default()
    };
    let journal = front.journal.begin(entry);
    let agent_text = actor.or(subject);
    let hits = front.faults.hits(&Facts {
        method: parts.method.as_str(),
        route: target.as_ref().map(|t| t.route),
        room: room.as_deref(),
        agent: agent_text.as_deref(),
        event_type: event_type.as_deref(),
        moment: Moment::Request,
        delivered: 0,
    });
    front.note_hits(journal, &hits);
    let asked = Asked { journal, uri: &parts.uri, line: format!("{} {path}", parts.method) };
    let early = front.before(&hits, &wire, &asked, &mut now).await;
    let mut answer = match (early, parsed, bytes) {
        (Some(answer), ..) => answer,
        (None, Parsed::Target(target), Ok(_)) => {
            let ex = Exchange {
                query: url::form_urlencoded::parse(parts.uri.query().unwrap_or("").as_bytes())
                    .into_owned()
                    .collect(),
                target,
                body,
                // The token is judged by the host's time for this request, skew included.
                agent: read_token(host, &parts.headers, now).agent,
                now,
                hits: hits.clone(),
                wire: Arc::clone(&wire),
                journal,
            };
            handle(host, &ex).await.unwrap_or_else(Answer::from)
        }
        (None, Parsed::Target(_), Err(refusal)) => refusal.into(),
        (None, Parsed::Method(allow), _) => {
            let refusal = Refusal::http(405, "method_not_allowed", format!("allowed: {allow}"));
            Answer::from(refusal).with_header("Allow", allow)
        }
        (None, Parsed::Unknown, _) => {
            Refusal::http(404, "not_found", "no such path on this host").into()
        }
    };
    if let Err(refusal) = host.settled().await {
        answer = refusal.into();
    }
    front.after(&hits, &wire, &asked, &mut answer).await;
    let (status, error) = (answer.status, answer.error_code().map(str::to_owned));
    front.conclude(journal, &hits, status, error);
    answer.into_response()
}

async fn handle(host: &HostInner, ex: &Exchange) -> Result<Answer, Refusal> {
    let profile = ex.target.route.is_profile();
    if (profile && !host.config.profiles) || (!profile && !host.config.discourse) {
        if ex.target.route == Route::Openapi {
            return crate::openapi::answer(host);
        }
        return Err(Refusal::http(404, "not_found", "this host does not serve that protocol"));
    }
    match ex.target.route {
        Route::Openapi => crate::openapi::answer(host),
        _ if profile => crate::app::handle(host, ex),
        _ => crate::adp::handle(host, ex).await,
    }
}
