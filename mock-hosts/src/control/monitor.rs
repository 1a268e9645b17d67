//! The monitor page: rooms, chains with verification marks, journal, and fault buttons.
//!
//! Rendered here, escaped here; the script only asks for a fresh rendering and posts buttons.
//! Everything shown comes from agents, so nothing of it may become markup.

use std::fmt::Write as _;
use std::sync::Arc;

use ap_protocol::room::MemoryContext;
use ap_protocol::{CheckedRecord, RoomState};
use axum::Router;
use axum::extract::State;
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::routing::get;
use http::header;
use serde_json::Value;

use super::{COOKIE, Shared};
use crate::fault::persona::Persona;
use crate::host::Host;

/// Records and requests shown of each room and host.
const SHOWN: usize = 40;

pub(super) fn routes() -> Router<Arc<Shared>> {
    Router::new()
        .route("/", get(|| async { Redirect::to("/monitor") }))
        .route("/monitor", get(page))
        .route("/monitor/fragment", get(fragment))
        .route("/monitor/script.js", get(script))
        .route("/monitor/style.css", get(style))
}

pub(super) fn query_token(query: &str) -> Option<String> {
    url::form_urlencoded::parse(query.as_bytes())
        .find(|(name, _)| name == "token")
        .map(|(_, value)| value.into_owned())
}

async fn page(State(shared): State<Arc<Shared>>, uri: axum::http::Uri) -> Response {
    if query_token(uri.query().unwrap_or_default()).is_some() {
        // The token leaves the address bar: it becomes a cookie for this port's pages.
        let cookie = format!("{COOKIE}={}; Path=/; HttpOnly; SameSite=Strict", shared.token);
        return ([(header::SET_COOKIE, cookie)], Redirect::to("/monitor")).into_response();
    }
    let html = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>Mock hosts</title>\
         <link rel=\"stylesheet\" href=\"/monitor/style.css\">\
         <script src=\"/monitor/script.js\" defer></script></head><body>\
         <h1>Mock hosts</h1><p id=\"stale\" hidden>The hosts do not answer any more.</p>\
         <main id=\"view\">{}</main></body></html>",
        render(&shared)
    );
    let csp = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
               base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
    ([(header::CONTENT_SECURITY_POLICY, csp)], Html(html)).into_response()
}

async fn fragment(State(shared): State<Arc<Shared>>) -> Html<String> {
    Html(render(&shared))
}

async fn script() -> Response {
    ([(header::CONTENT_TYPE, "text/javascript; charset=utf-8")], include_str!("monitor.js"))
        .into_response()
}

async fn style() -> Response {
    ([(header::CONTENT_TYPE, "text/css; charset=utf-8")], include_str!("monitor.css"))
        .into_response()
}

/// Text as HTML text or attribute value. Direction overrides and controls become visible.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            c if c.is_control()
                || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') =>
            {
                let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out
}

/// An Agent ID or hash, short, whole in the tooltip.
fn short(text: &str) -> String {
    let tail = text.strip_prefix(ap_protocol::agent_id::PREFIX).unwrap_or(text);
    let head: String = tail.chars().take(8).collect();
    format!("<code title=\"{}\">{}</code>", escape(text), escape(&head))
}

fn render(shared: &Shared) -> String {
    let mut out = String::new();
    let _ = write!(out, "<p>Lab time {} ms</p>", shared.lab.clock().now_ms());
    for host in shared.lab.hosts() {
        render_host(&mut out, &host);
    }
    out
}

fn render_host(out: &mut String, host: &Host) {
    let label = escape(host.label());
    let _ = write!(
        out,
        "<section class=\"host\" data-host=\"{label}\"><h2>{label} <small>{}</small></h2>",
        escape(host.url())
    );
    render_faults(out, host, &label);
    for room_id in host.rooms() {
        render_room(out, host, &room_id);
    }
    render_journal(out, host);
    out.push_str("</section>");
}

fn render_faults(out: &mut String, host: &Host, label: &str) {
    out.push_str("<h3>Faults</h3><p class=\"buttons\">");
    for persona in Persona::ALL {
        let _ = write!(
            out,
            "<button data-path=\"/control/persona\" data-method=\"POST\" \
             data-body=\"{}\" title=\"{}\">{}</button> ",
            escape(
                &serde_json::json!({ "name": persona.name(), "host": host.label() }).to_string()
            ),
            escape(persona.about()),
            persona.name()
        );
    }
    let _ = write!(
        out,
        "<button class=\"honest\" data-path=\"/control/faults?host={}\" \
         data-method=\"DELETE\">honest again</button></p>",
        escape(&url::form_urlencoded::byte_serialize(host.label().as_bytes()).collect::<String>())
    );
    let faults = host.faults();
    if faults.is_empty() {
        let _ = write!(out, "<p class=\"none\">{label} is honest.</p>");
    } else {
        out.push_str("<table><tr><th>id<th>name<th>fault<th>matched<th>hits</tr>");
        for f in faults {
            let _ = write!(
                out,
                "<tr><td>{}<td>{}<td><code>{}</code><td>{}<td>{}</tr>",
                f.id.0,
                escape(f.fault.name.as_deref().unwrap_or("")),
                escape(&serde_json::json!([f.fault.when, f.fault.action]).to_string()),
                f.matched,
                f.hits
            );
        }
        out.push_str("</table>");
    }
    let held = host.step().list();
    if !held.is_empty() {
        out.push_str("<p>Held: ");
        for h in held {
            let body = serde_json::json!({ "host": host.label(), "id": h.id });
            let _ = write!(
                out,
                "<button data-path=\"/control/step\" data-method=\"POST\" data-body=\"{}\">\
                 release {} ({})</button> ",
                escape(&body.to_string()),
                escape(&h.request),
                h.at
            );
        }
        out.push_str("</p>");
    }
}

/// The verdict on each record: none when it holds, else the reason.
fn verdicts(room_id: &str, records: &[Value]) -> Vec<Option<String>> {
    let mut ctx = MemoryContext::default();
    let mut state: Option<RoomState> = None;
    let mut broken = false;
    records
        .iter()
        .map(|value| {
            if broken {
                return Some("not judged: the chain is broken before it".to_owned());
            }
            let tip = state.as_ref().map(|s| s.tip);
            let linked = CheckedRecord::check(value, room_id).and_then(|c| c.link(tip.as_ref()));
            let record = match linked {
                Ok(record) => record,
                Err(e) => {
                    broken = true;
                    return Some(e.to_string());
                }
            };
            let judged = match &mut state {
                None => RoomState::genesis(&record, &ctx).map(|s| state = Some(s)),
                Some(s) => s.apply(&record, &ctx).map(|_| ()),
            };
            match judged {
                Ok(()) => {
                    ctx.push(&record);
                    None
                }
                Err(violation) => {
                    broken = true;
                    Some(violation.rejection.to_string())
                }
            }
        })
        .collect()
}

fn render_room(out: &mut String, host: &Host, room_id: &str) {
    let Some(room) = host.room(room_id) else { return };
    let records = host.records(room_id);
    let verdicts = verdicts(room_id, &records);
    let _ = write!(
        out,
        "<details open><summary>{} <small>{} · {} · head {} · {} records · {} streams</small>\
         </summary><table class=\"chain\"><tr><th>✓<th>seq<th>hash<th>type<th>actor<th>text</tr>",
        escape(room["topic"].as_str().unwrap_or_default()),
        escape(room_id),
        escape(room["status"].as_str().unwrap_or_default()),
        room["head"]["seq"],
        records.len(),
        host.live_subscribers(room_id),
    );
    for (record, verdict) in records.iter().zip(&verdicts).rev().take(SHOWN) {
        let event = &record["envelope"]["event"];
        let payload = &event["payload"];
        let text = match payload["content"].as_str() {
            Some(content) => content.to_owned(),
            None => payload.to_string(),
        };
        let text: String = text.chars().take(200).collect();
        let mark = match verdict {
            None => "<td class=\"good\">✓".to_owned(),
            Some(why) => format!("<td class=\"bad\" title=\"{}\">✗", escape(why)),
        };
        let _ = write!(
            out,
            "<tr>{mark}<td>{}<td>{}<td>{}<td>{}<td>{}</tr>",
            record["seq"],
            short(record["hash"].as_str().unwrap_or_default()),
            escape(event["type"].as_str().unwrap_or_default()),
            short(event["actor"].as_str().unwrap_or_default()),
            escape(&text)
        );
    }
    out.push_str("</table></details>");
}

fn render_journal(out: &mut String, host: &Host) {
    out.push_str(
        "<h3>Journal</h3><table class=\"journal\"><tr><th>n<th>request<th>who<th>answer<th>faults</tr>",
    );
    for e in host.requests().iter().rev().take(SHOWN) {
        let who = e
            .envelope
            .as_ref()
            .and_then(|v| v.pointer("/event/actor"))
            .and_then(Value::as_str)
            .or(e.subject.as_deref())
            .unwrap_or("");
        let answer = match (e.status, &e.error) {
            (Some(status), Some(code)) => format!("{status} {code}"),
            (Some(status), None) => status.to_string(),
            (None, _) if e.done => "none".to_owned(),
            (None, _) => "…".to_owned(),
        };
        let _ = write!(
            out,
            "<tr><td>{}<td>{} {} {}<td>{}<td>{}<td>{}</tr>",
            e.n,
            escape(&e.method),
            escape(&e.path),
            escape(e.event_type().unwrap_or("")),
            short(who),
            escape(&answer),
            escape(&e.faults.iter().map(u64::to_string).collect::<Vec<_>>().join(" "))
        );
    }
    out.push_str("</table>");
}
