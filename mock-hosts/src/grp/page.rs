//! `/r/{slug}`: the room's address. State for agents in one JSON script, a monitor view for
//! people, nothing that acts and no credential.
//!
//! All text is hostile: members wrote it. In the JSON `<`, `>`, `&` and the line separators
//! are escaped, in HTML everything is.

use axum::body::Body;
use axum::response::Response;
use base64::{Engine, engine::general_purpose::STANDARD};
use http::{HeaderValue, header};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::config::Visibility;
use super::core::Core;
use super::defects::Defect;
use super::model::Room;
use super::views;
use crate::html::{escape as html, script_json};

/// Refreshes the monitor when the room says that something happened. Runs only where the
/// event stream is readable without a credential.
const LIVE: &str = r#"(() => {
  const main = document.querySelector("main");
  const stream = main && main.dataset.stream;
  if (!stream) return;
  let asked = false;
  const refresh = async () => {
    if (asked) return;
    asked = true;
    const answer = await fetch(location.pathname, { cache: "no-store" });
    asked = false;
    if (!answer.ok) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    main.replaceChildren(...fresh.querySelector("main").childNodes);
    document.title = fresh.title;
  };
  const events = new EventSource(stream);
  for (const type of main.dataset.events.split(" ")) events.addEventListener(type, refresh);
})();"#;

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:46rem;margin:2rem auto;\
padding:0 1rem;color:#1b1f24;background:#fff}h1{font-size:1.4rem;margin:0}h2{font-size:1.05rem;\
margin:1.6rem 0 .4rem}.status{display:inline-block;padding:.1rem .6rem;border-radius:1rem;\
background:#e7eefc;color:#143a7b}.muted{color:#5a6472}ol,ul{padding-left:1.4rem}\
li{overflow-wrap:anywhere;white-space:pre-wrap}code{font-size:.85em}\
@media(prefers-color-scheme:dark){body{color:#e6e9ee;background:#15181d}\
.status{background:#1f3358;color:#cfe0ff}.muted{color:#9aa5b4}}";

const EVENTS: &str = "participant.joined participant.role_updated decision.opened \
decision.voting_phase_started option.proposed discussion.posted choice.submitted \
choice.abstained decision.completed room.settings_updated room.concluded";

/// The page of a room.
pub fn render(core: &Core, room: &Room) -> Response {
    let base = core.base();
    let leak = core.has(Defect::PrivateDetailsInPage);
    let state = views::page(room, &base, leak);
    let public = room.head.config.visibility == Visibility::Public || leak;
    let json =
        if core.has(Defect::PageUnescaped) { state.to_string() } else { script_json(&state) };
    let title = if public {
        let named = room.head.about.as_deref().or(state["question"].as_str());
        views::clip(named.unwrap_or("Decision room"), 80)
    } else {
        "Members-only decision room".to_owned()
    };
    let main = if public { monitor(room) } else { gate(&state) };
    let stream = if public { state["event_stream_url"].as_str().unwrap_or_default() } else { "" };
    // The stream is named by its path: the page may be read through another origin.
    let stream = stream.strip_prefix(&base).unwrap_or(stream);
    let form = if core.has(Defect::FormOnPage) {
        "<form method=\"post\" action=\"choose\"><input name=\"choice\"><button>Choose</button></form>"
    } else {
        ""
    };
    let page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <meta name=\"robots\" content=\"noindex\"><title>{title}</title>\
         <style>{STYLE}</style>\
         <script type=\"application/grp+json\">{json}</script></head>\
         <body><main data-stream=\"{stream}\" data-events=\"{EVENTS}\">{main}</main>{form}\
         <script>{LIVE}</script></body></html>\n",
        title = html(&title),
        stream = html(stream),
    );
    let hash = |text: &str| STANDARD.encode(Sha256::digest(text.as_bytes()));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; connect-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        hash(STYLE),
        hash(LIVE)
    );
    let mut response = Response::new(Body::from(page));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Ok(policy) = HeaderValue::from_str(&policy) {
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    response
}

fn gate(state: &Value) -> String {
    format!(
        "<h1>This room shows itself to its members</h1><p class=\"muted\">{}</p>",
        html(state["instructions"]["summary"].as_str().unwrap_or_default())
    )
}

fn monitor(room: &Room) -> String {
    let full = views::full(room);
    let mut out = String::new();
    let text = |v: &Value| v.as_str().map(html).unwrap_or_default();
    let about = room.head.about.as_deref().unwrap_or("Decision room");
    out.push_str(&format!(
        "<h1>{}</h1><p><span class=\"status\">{}</span> <span class=\"muted\">{} member(s)</span></p>",
        html(about),
        text(&full["status"]),
        room.participants.len()
    ));
    for d in full["decisions"].as_array().into_iter().flatten().rev() {
        out.push_str(&format!(
            "<h2>{}. {}</h2><p class=\"muted\">{}",
            d["seq"],
            text(&d["question"]),
            text(&d["status"])
        ));
        if let Some(winner) = d["resolved_winner"].as_str() {
            out.push_str(&format!(" — decided: <strong>{}</strong>", html(winner)));
        } else if d["resolved_outcome"].is_string() {
            out.push_str(&format!(" — no winner ({})", text(&d["resolved_outcome"])));
        } else {
            out.push_str(&format!(" — until <time>{}</time>", text(&d["voting_ends_at"])));
        }
        out.push_str("</p><ol>");
        for o in d["options"].as_array().into_iter().flatten() {
            let shown = views::clip(o.as_str().unwrap_or_default(), 500);
            out.push_str(&format!("<li>{}</li>", html(&shown)));
        }
        out.push_str("</ol>");
    }
    if !room.messages.is_empty() {
        out.push_str("<h2>Discussion</h2><ul>");
        for m in room.messages.iter().rev().take(20) {
            let who = &room.participants[m.seat].display_name;
            let said = views::clip(&m.body, 1_000);
            out.push_str(&format!("<li><strong>{}</strong> {}</li>", html(who), html(&said)));
        }
        out.push_str("</ul>");
    }
    out.push_str("<h2>Members</h2><ul>");
    for p in &room.participants {
        out.push_str(&format!(
            "<li>{} <span class=\"muted\">{}</span></li>",
            html(&p.display_name),
            p.role.name()
        ));
    }
    out.push_str("</ul>");
    out
}
