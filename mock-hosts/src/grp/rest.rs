//! The REST binding: paths, headers and bodies to calls, answers and errors to HTTP.
//!
//! It decides nothing about rooms. What it does decide is transport: which forms of a
//! credential count, that actions never ride in a URL, what may be cached or read across
//! origins, and that no credential comes back in an answer.

use std::sync::Arc;

use ap_protocol::json::{self, Limits};
use axum::body::{Body, Bytes};
use axum::response::Response;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header};
use serde_json::{Map, Value};

use super::core::{Call, Core, Credential, Op};
use super::defects::Defect;
use super::error::GrpError;
use super::{discovery, page, sse};

/// Longest request body (bytes): a message of 100 000 four-byte characters, escaped.
pub const MAX_BODY: usize = 4 * 1024 * 1024;
const MAX_QUERY: usize = 8 * 1024;

/// Query names that stand for an act or a signature (GRP T8). `token` is not among them.
const ACTION_NAMES: [&str; 12] = [
    "vote",
    "votes",
    "choice",
    "choose",
    "ballot",
    "signature",
    "sig",
    "mandate",
    "x_mandate",
    "x-mandate",
    "jws",
    "body_signature",
];

/// One request, taken apart.
pub struct Incoming {
    /// Method.
    pub method: Method,
    /// Path segments, without empty ones.
    pub path: Vec<String>,
    /// Query pairs, decoded.
    pub query: Vec<(String, String)>,
    /// Headers.
    pub headers: HeaderMap,
    /// Echoed or minted.
    pub correlation: String,
}

impl Incoming {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|v| v.to_str().ok()).filter(|v| !v.is_empty())
    }

    fn query(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(k, _)| k == name).map(|(_, v)| v.as_str())
    }
}

/// Takes a request apart; `None` for a correlation id means: mint one.
pub fn incoming(core: &Core, parts: &http::request::Parts) -> Incoming {
    let given = parts
        .headers
        .get("x-correlation-id")
        .and_then(|v| v.to_str().ok())
        .filter(|v| !v.is_empty() && v.len() <= 128);
    let correlation = given.map_or_else(|| core.config.entropy.uuid(), str::to_owned);
    let query = parts.uri.query().unwrap_or_default();
    Incoming {
        method: parts.method.clone(),
        path: parts.uri.path().split('/').filter(|s| !s.is_empty()).map(percent_decoded).collect(),
        query: url::form_urlencoded::parse(query.as_bytes()).into_owned().collect(),
        headers: parts.headers.clone(),
        correlation,
    }
}

fn percent_decoded(segment: &str) -> String {
    // A path segment is a query value without the plus rule.
    let pair = format!("x={}", segment.replace('+', "%2B"));
    url::form_urlencoded::parse(pair.as_bytes())
        .next()
        .map_or_else(|| segment.to_owned(), |(_, v)| v.into_owned())
}

/// Refuses actions in a URL, on every path and before routing.
///
/// # Errors
/// `input.invalid`, without repeating what was sent.
pub fn refuse_url_rpc(core: &Core, request: &Incoming) -> Result<(), GrpError> {
    if core.has(Defect::UrlRpcAccepted) {
        return Ok(());
    }
    let allowed_choice = core.has(Defect::GetChoose);
    let acts = request.query.iter().any(|(k, _)| {
        let k = k.to_ascii_lowercase();
        ACTION_NAMES.contains(&k.as_str()) && !(allowed_choice && k == "choice")
    });
    if acts {
        return Err(GrpError::input(
            "Actions and signatures do not go into a URL: send them in the body or headers of a \
             POST. Nothing was done.",
        ));
    }
    Ok(())
}

/// Reads the credentials of a request.
///
/// # Errors
/// `input.invalid` when two different tokens are presented.
pub fn credential(core: &Core, request: &Incoming) -> Result<Credential, GrpError> {
    let bearer = request
        .header("authorization")
        .and_then(|v| v.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        .map(|(_, token)| token.trim().to_owned())
        .filter(|t| !t.is_empty())
        .filter(|_| !core.has(Defect::HeaderTokenRefused));
    let queried: Vec<&str> = request
        .query
        .iter()
        .filter(|(k, v)| k == "token" && !v.is_empty())
        .map(|(_, v)| v.as_str())
        .filter(|_| !core.has(Defect::QueryTokenRefused))
        .collect();
    // A restricted key may stand beside a mandate or a token and is neither (GRP T4.1).
    let bearer = bearer.filter(|t| !t.starts_with("rk_") || core.has(Defect::RestrictedKeyMisread));
    let mut tokens: Vec<&str> = bearer.as_deref().into_iter().chain(queried).collect();
    tokens.dedup();
    if tokens.len() > 1 {
        return Err(GrpError::input(
            "Two different tokens were presented; present one, in the Authorization header.",
        ));
    }
    Ok(Credential {
        token: tokens.first().map(|t| (*t).to_owned()),
        mandate: request.header("x-mandate").map(str::to_owned),
        password: request.header("x-room-password").map(str::to_owned),
    })
}

/// What a path and method stand for.
enum Route {
    Call(Op, Option<String>, Map<String, Value>),
    Stream(String),
    Page(String),
    Discovery,
    OpenApi,
    Health,
    Wrong(&'static str),
    Missing,
}

fn route(core: &Core, r: &Incoming) -> Route {
    let method = if r.method == Method::HEAD { Method::GET } else { r.method.clone() };
    let path: Vec<&str> = r.path.iter().map(String::as_str).collect();
    let one = |name: &str, value: &str| {
        Map::from_iter([(name.to_owned(), Value::from(value.to_owned()))])
    };
    let room = |op, slug: &str| Route::Call(op, Some(slug.to_owned()), Map::new());
    let only = |wanted: Method, allow: &'static str, then: Route| {
        let by_get = method == Method::GET && core.has(Defect::GetVerbs);
        if method == wanted || by_get { then } else { Route::Wrong(allow) }
    };
    match path.as_slice() {
        ["api", "rooms"] => {
            only(Method::POST, "POST", Route::Call(Op::CreateRoom, None, Map::new()))
        }
        ["api", "rooms", slug] => match method {
            Method::GET => room(Op::ReadRoom, slug),
            Method::DELETE => room(Op::DeleteRoom, slug),
            _ => Route::Wrong("GET, HEAD, DELETE"),
        },
        ["api", "rooms", slug, verb] => match *verb {
            "choose" if core.has(Defect::GetChoose) => room(Op::Choose, slug),
            "join" => only(Method::POST, "POST", room(Op::JoinRoom, slug)),
            "ask" => only(Method::POST, "POST", room(Op::Ask, slug)),
            "start-choosing" => only(Method::POST, "POST", room(Op::StartChoosing, slug)),
            "choose" => only(Method::POST, "POST", room(Op::Choose, slug)),
            "abstain" => only(Method::POST, "POST", room(Op::Abstain, slug)),
            "discuss" => only(Method::POST, "POST", room(Op::Discuss, slug)),
            "options" => only(Method::POST, "POST", room(Op::Propose, slug)),
            "close" => only(Method::POST, "POST", room(Op::CloseRoom, slug)),
            "next-action" => only(Method::GET, "GET, HEAD", room(Op::Wait, slug)),
            "outcome" => only(Method::GET, "GET, HEAD", room(Op::Outcome, slug)),
            "decisions" => only(Method::GET, "GET, HEAD", room(Op::ListDecisions, slug)),
            "events" => only(Method::GET, "GET, HEAD", room(Op::ListEvents, slug)),
            "settings" => only(Method::PATCH, "PATCH", room(Op::UpdateRoomSettings, slug)),
            "invites" => match method {
                Method::POST => room(Op::InviteToRoom, slug),
                Method::GET => room(Op::ListInvites, slug),
                _ => Route::Wrong("GET, HEAD, POST"),
            },
            "webhooks" => match method {
                Method::POST => room(Op::RegisterWebhook, slug),
                Method::GET => room(Op::ListWebhooks, slug),
                _ => Route::Wrong("GET, HEAD, POST"),
            },
            _ => Route::Missing,
        },
        ["api", "rooms", slug, "events", "stream"] => {
            only(Method::GET, "GET", Route::Stream((*slug).to_owned()))
        }
        ["api", "rooms", slug, "invites", code] => only(
            Method::DELETE,
            "DELETE",
            Route::Call(Op::RevokeInvite, Some((*slug).to_owned()), one("code", code)),
        ),
        ["api", "rooms", slug, "webhooks", id] => only(
            Method::DELETE,
            "DELETE",
            Route::Call(Op::UnregisterWebhook, Some((*slug).to_owned()), one("webhook_id", id)),
        ),
        ["api", "rooms", slug, "members", who] => only(
            Method::PATCH,
            "PATCH",
            Route::Call(Op::UpdateMember, Some((*slug).to_owned()), one("participant", who)),
        ),
        ["r", slug] => only(Method::GET, "GET, HEAD", Route::Page((*slug).to_owned())),
        [".well-known", "grp.json"] => only(Method::GET, "GET, HEAD", Route::Discovery),
        ["api", "openapi.json"] if core.has(Defect::OpenApiMissing) => Route::Missing,
        ["api", "openapi.json"] => only(Method::GET, "GET, HEAD", Route::OpenApi),
        ["healthz" | "readyz"] => only(Method::GET, "GET, HEAD", Route::Health),
        _ => Route::Missing,
    }
}

/// How faults and the journal name what a request is for: route and operation.
pub(crate) fn named(
    core: &Core,
    incoming: &Incoming,
) -> (Option<crate::Route>, Option<&'static str>) {
    use crate::Route as Name;
    match route(core, incoming) {
        Route::Call(op, ..) => (Name::from_name(&format!("grp_{}", op.name())), Some(op.name())),
        Route::Stream(_) => (Some(Name::GrpStream), None),
        Route::Page(_) => (Some(Name::GrpPage), None),
        Route::Discovery => (Some(Name::GrpDiscovery), None),
        Route::OpenApi => (Some(Name::GrpOpenapi), None),
        Route::Health => (Some(Name::GrpHealth), None),
        Route::Wrong(_) | Route::Missing => (None, None),
    }
}

/// Answers one REST request.
pub async fn handle(core: Arc<Core>, request: Request<Body>) -> Response {
    let (parts, body) = request.into_parts();
    let incoming = incoming(&core, &parts);
    let slash = parts.uri.path().len() > 1 && parts.uri.path().ends_with('/');
    let mut response = if slash && core.has(Defect::SlashRedirects) {
        let mut r = Response::new(Body::empty());
        *r.status_mut() = StatusCode::PERMANENT_REDIRECT;
        r
    } else if incoming.method == Method::OPTIONS {
        preflight()
    } else {
        answer(&core, &incoming, parts.uri.query(), body)
            .await
            .unwrap_or_else(|e| failure(&e, &incoming.correlation))
    };
    finish(&core, &incoming, &mut response);
    response
}

/// Headers every answer carries.
pub fn finish(core: &Core, incoming: &Incoming, response: &mut Response) {
    let headers = response.headers_mut();
    let fixed = |v| HeaderValue::from_static(v);
    headers.entry(header::CACHE_CONTROL).or_insert(fixed("no-store"));
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, fixed("*"));
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, fixed("x-correlation-id, retry-after"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, fixed("nosniff"));
    headers.insert(header::REFERRER_POLICY, fixed("no-referrer"));
    if !core.has(Defect::NoCorrelation)
        && let Ok(id) = HeaderValue::from_str(&incoming.correlation)
    {
        headers.insert("x-correlation-id", id);
    }
}

fn preflight() -> Response {
    let mut r = Response::new(Body::empty());
    *r.status_mut() = StatusCode::NO_CONTENT;
    let headers = r.headers_mut();
    headers.insert(
        header::ACCESS_CONTROL_ALLOW_METHODS,
        HeaderValue::from_static("GET, HEAD, POST, PATCH, DELETE"),
    );
    headers.insert(
        header::ACCESS_CONTROL_ALLOW_HEADERS,
        HeaderValue::from_static(
            "authorization, content-type, idempotency-key, last-event-id, x-body-signature, \
             x-confirm-delete, x-correlation-id, x-mandate, x-room-password, x-timestamp",
        ),
    );
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    r
}

/// A JSON answer.
pub fn reply(status: StatusCode, value: &Value) -> Response {
    let mut r = Response::new(Body::from(value.to_string()));
    *r.status_mut() = status;
    r.headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json; charset=utf-8"));
    r
}

/// An error as the envelope.
pub fn failure(e: &GrpError, correlation: &str) -> Response {
    let status = StatusCode::from_u16(e.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut r = reply(status, &e.envelope(Some(correlation)));
    if let Some(s) = e.retry_after_s {
        r.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(s));
    }
    if status == StatusCode::UNAUTHORIZED {
        r.headers_mut()
            .insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"grp\""));
    }
    r
}

async fn answer(
    core: &Arc<Core>,
    incoming: &Incoming,
    raw_query: Option<&str>,
    body: Body,
) -> Result<Response, GrpError> {
    if raw_query.is_some_and(|q| q.len() > MAX_QUERY) {
        return Err(GrpError::input("The query is too long."));
    }
    refuse_url_rpc(core, incoming)?;
    if core.has(Defect::BodySignatureRejected) && incoming.header("x-body-signature").is_some() {
        return Err(GrpError::input("Body signatures are not understood here."));
    }
    match route(core, incoming) {
        Route::Call(op, slug, mut args) => {
            read_args(incoming, op, body, &mut args).await?;
            let call = Call {
                op,
                slug,
                args,
                credential: credential(core, incoming)?,
                idempotency_key: idempotency_key(incoming)?,
                transport: "rest",
            };
            let value = match op {
                Op::Wait => core.wait(call).await?,
                _ => core.execute(call).await?,
            };
            Ok(reply(StatusCode::OK, &value))
        }
        Route::Stream(slug) => {
            let call = Call {
                op: Op::ListEvents,
                slug: Some(slug),
                args: Map::new(),
                credential: credential(core, incoming)?,
                idempotency_key: None,
                transport: "rest",
            };
            let last = incoming.header("last-event-id").or(incoming.query("last_event_id"));
            let since = incoming
                .query("since_seq")
                .map(|s| super::ops::number_like("since_seq", &Value::from(s.to_owned())));
            sse::stream(core, call, last, since.transpose()?).await
        }
        Route::Page(slug) => {
            // A token on the page address is tolerated, and neither used nor repeated.
            let found = core.cell(&slug);
            if found.is_err() && core.has(Defect::PageAlways) {
                return Ok(Response::new(Body::from("<!doctype html><title>Room</title>")));
            }
            let cell = found?;
            core.tick(&cell);
            let mut page = {
                let guard = cell.lock();
                let room = guard.as_ref().ok_or_else(|| {
                    GrpError::new("room.not_found", "There is no such room here.")
                })?;
                page::render(core, room)
            };
            if core.has(Defect::PageEchoesQuery) {
                let body = std::mem::take(page.body_mut());
                let html = axum::body::to_bytes(body, MAX_BODY).await.unwrap_or_default();
                let echo = format!("<!-- {} -->", raw_query.unwrap_or_default());
                *page.body_mut() = Body::from([&html[..], echo.as_bytes()].concat());
            }
            Ok(page)
        }
        Route::Discovery => Ok(cached(&discovery::document(core))),
        Route::OpenApi => Ok(cached(&super::openapi::document(&core.base()))),
        Route::Health => Ok(reply(StatusCode::OK, &discovery::health())),
        Route::Wrong(allow) => {
            let e = GrpError::new(
                "vendor:lab:method_not_allowed",
                format!("This address takes {allow}. Nothing was done."),
            );
            let mut r = failure(&e, &incoming.correlation);
            r.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allow));
            Ok(r)
        }
        Route::Missing => Err(GrpError::new(
            "vendor:lab:route_not_found",
            "There is nothing at this address; GET /.well-known/grp.json names what there is.",
        )),
    }
}

fn cached(value: &Value) -> Response {
    let mut r = reply(StatusCode::OK, value);
    r.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=60"));
    r
}

fn idempotency_key(incoming: &Incoming) -> Result<Option<String>, GrpError> {
    let Some(value) = incoming.headers.get("idempotency-key") else { return Ok(None) };
    if incoming.headers.get_all("idempotency-key").iter().count() > 1 {
        return Err(GrpError::input("Idempotency-Key was sent twice."));
    }
    value.to_str().map(|v| Some(v.to_owned())).map_err(|_| {
        GrpError::input("Idempotency-Key must be 1 to 255 printable ASCII characters.")
    })
}

/// Arguments: the body of an act, the query of a read. A path argument is never overridden.
async fn read_args(
    incoming: &Incoming,
    op: Op,
    body: Body,
    args: &mut Map<String, Value>,
) -> Result<(), GrpError> {
    let too_large = || {
        GrpError::new(
            "vendor:lab:payload_too_large",
            format!("A body has at most {MAX_BODY} bytes."),
        )
    };
    let bytes: Bytes = axum::body::to_bytes(body, MAX_BODY).await.map_err(|_| too_large())?;
    if op == Op::DeleteRoom {
        if let Some(slug) = incoming.header("x-confirm-delete") {
            args.insert("confirm".into(), Value::from(slug));
        }
        return Ok(());
    }
    if matches!(incoming.method, Method::GET | Method::HEAD) {
        for (k, v) in &incoming.query {
            if k != "token" {
                args.entry(k.clone()).or_insert_with(|| Value::from(v.clone()));
            }
        }
        return Ok(());
    }
    if bytes.is_empty() {
        return Ok(());
    }
    let limits = Limits { max_bytes: MAX_BODY, ..Limits::default() };
    let value = json::parse_with(&bytes, &limits)
        .map_err(|e| GrpError::input(format!("The body is not acceptable JSON: {e}.")))?;
    let Value::Object(map) = value else {
        return Err(GrpError::input("The body must be a JSON object."));
    };
    for (k, v) in map {
        args.entry(k).or_insert(v);
    }
    Ok(())
}
