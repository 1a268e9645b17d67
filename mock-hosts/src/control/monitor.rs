//! The monitor page: rooms, chains with verification marks, journal, and fault buttons. What is
//! special to GRP hosts is in `monitor_grp`.
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
use serde_json::{Value, json};

use super::{COOKIE, Shared};
use crate::fault::persona::Persona;
use crate::host::Host;
use crate::html::escape;
use crate::journal::Journal;
use crate::lab::Member;

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

/// An Agent ID or hash, short, whole in the tooltip.
pub(super) fn short(text: &str) -> String {
    let tail = text.strip_prefix(ap_protocol::agent_id::PREFIX).unwrap_or(text);
    let head: String = tail.chars().take(8).collect();
    format!("<code title=\"{}\">{}</code>", escape(text), escape(&head))
}

fn render(shared: &Shared) -> String {
    let mut out = String::new();
    let _ = write!(out, "<p>Lab time {} ms</p>", shared.lab.clock().now_ms());
    for member in shared.lab.members() {
        render_host(&mut out, &member);
    }
    out
}

fn render_host(out: &mut String, member: &Member) {
    let front = member.front();
    let label = escape(&front.label);
    let kind = match member {
        Member::Agent(h) if !h.config().discourse => "APP",
        Member::Agent(_) => "ADP",
        Member::Grp(_) => "GRP",
    };
    let _ = write!(
        out,
        "<section class=\"host\" data-host=\"{label}\"><h2>{label} <small>{kind} {}</small></h2>",
        escape(&front.url)
    );
    render_faults(out, member);
    match member {
        Member::Agent(host) => {
            for room_id in host.rooms() {
                render_room(out, host, &room_id);
            }
        }
        Member::Grp(host) => super::monitor_grp::render(out, host),
    }
    render_journal(out, &front.journal);
    out.push_str("</section>");
}

/// A button that asks the control port for something.
pub(super) fn button(out: &mut String, at: (&str, &str), body: &Value, title: &str, text: &str) {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let _ = write!(
        out,
        "<button data-method=\"{}\" data-path=\"{}\" data-body=\"{}\" title=\"{}\">{}</button> ",
        escape(at.0),
        escape(at.1),
        escape(&body),
        escape(title),
        escape(text)
    );
}

/// A label as a query value.
pub(super) fn in_query(label: &str) -> String {
    url::form_urlencoded::byte_serialize(label.as_bytes()).collect()
}

fn render_faults(out: &mut String, member: &Member) {
    let front = member.front();
    let label = &front.label;
    out.push_str("<h3>Faults</h3><p class=\"buttons\">");
    for persona in Persona::ALL {
        if matches!(member, Member::Grp(_)) && !persona.plays_grp() {
            continue;
        }
        let body = json!({ "name": persona.name(), "host": label });
        button(out, ("POST", "/control/persona"), &body, persona.about(), persona.name());
    }
    let clear = format!("/control/faults?host={}", in_query(label));
    button(out, ("DELETE", &clear), &Value::Null, "No faults at all", "honest again");
    out.push_str("</p>");
    let faults = front.faults.list();
    if faults.is_empty() {
        let _ = write!(out, "<p class=\"none\">{} is honest.</p>", escape(label));
    } else {
        out.push_str("<table><tr><th>id<th>name<th>fault<th>matched<th>hits<th></tr>");
        for f in faults {
            let _ = write!(
                out,
                "<tr><td>{}<td>{}<td><code>{}</code><td>{}<td>{}<td>",
                f.id.0,
                escape(f.fault.name.as_deref().unwrap_or("")),
                escape(&json!([f.fault.when, f.fault.action]).to_string()),
                f.matched,
                f.hits
            );
            let remove = format!("/control/faults/{}?host={}", f.id.0, in_query(label));
            button(out, ("DELETE", &remove), &Value::Null, "Switch this fault off", "off");
            out.push_str("</tr>");
        }
        out.push_str("</table>");
    }
    let held = front.gate.list();
    if !held.is_empty() {
        out.push_str("<p>Held: ");
        for h in held {
            let body = json!({ "host": label, "id": h.id });
            let text = format!("release {} ({})", h.request, h.at);
            button(out, ("POST", "/control/step"), &body, "Let it go on", &text);
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
        "<details open data-key=\"{}/{}\"><summary>{} <small>{} · {} · head {} · {} records · {} streams</small>\
         </summary><table class=\"chain\"><tr><th>✓<th>seq<th>hash<th>type<th>actor<th>text</tr>",
        escape(host.label()),
        escape(room_id),
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

fn render_journal(out: &mut String, journal: &Journal) {
    out.push_str(
        "<h3>Journal</h3><table class=\"journal\"><tr><th>n<th>request<th>who<th>answer<th>faults</tr>",
    );
    for e in journal.entries().iter().rev().take(SHOWN) {
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
            escape(e.event_type().or(e.operation.as_deref()).unwrap_or("")),
            short(who),
            escape(&answer),
            escape(&e.faults.iter().map(u64::to_string).collect::<Vec<_>>().join(" "))
        );
    }
    out.push_str("</table>");
}
