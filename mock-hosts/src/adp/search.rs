//! Lists of rooms: public search and the caller's own rooms.

use serde_json::{Map, Value, json};

use super::room::RoomInner;
use crate::answer::{Answer, Refusal};
use crate::host::HostInner;
use crate::serve::{Exchange, page};
use crate::sync::lock;

fn status_filter(ex: &Exchange) -> Result<Option<String>, Refusal> {
    match ex.query("status") {
        Some(s) if matches!(s.as_str(), "scheduled" | "active" | "ended" | "cancelled") => {
            Ok(Some(s))
        }
        None => Ok(None),
        Some(_) => Err(Refusal::bad_request("status is scheduled, active, ended or cancelled")),
    }
}

/// Lists are in order of start time, then id.
fn key(view: &Map<String, Value>) -> String {
    format!(
        "{:016}/{}",
        view["start_time"].as_u64().unwrap_or(0),
        view["id"].as_str().unwrap_or_default()
    )
}

/// `GET /v1/rooms/public`
pub(crate) fn public(host: &HostInner, ex: &Exchange) -> Result<Answer, Refusal> {
    let status = status_filter(ex)?;
    let (tag, creator, language) = (ex.query("tag"), ex.query("creator"), ex.query("language"));
    let keyword = ex.query("keyword").map(|k| k.to_lowercase());
    let starts_after = ex.query_u64("starts_after")?;
    let ends_before = ex.query_u64("ends_before")?;
    let mut found = Vec::new();
    for room in host.all_rooms() {
        let inner = lock(&room.inner);
        if inner.state.visibility() != "public" {
            continue;
        }
        let view = inner.summary(host, ex.now);
        let text = |name: &str| view.get(name).and_then(Value::as_str);
        let time = |name: &str| view.get(name).and_then(Value::as_u64).unwrap_or(0);
        let tags: Vec<&str> = view
            .get("tags")
            .and_then(Value::as_array)
            .map(|t| t.iter().filter_map(Value::as_str).collect())
            .unwrap_or_default();
        let same = |want: &Option<String>, name: &str| {
            want.as_deref().is_none_or(|w| text(name) == Some(w))
        };
        let speaks_of = |word: &str| {
            ["topic", "agenda"]
                .iter()
                .any(|n| text(n).is_some_and(|t| t.to_lowercase().contains(word)))
                || tags.iter().any(|t| t.to_lowercase().contains(word))
        };
        let fits = same(&status, "status")
            && same(&creator, "creator")
            && same(&language, "language")
            && tag.as_deref().is_none_or(|t| tags.contains(&t))
            && keyword.as_deref().is_none_or(speaks_of)
            && starts_after.is_none_or(|t| time("start_time") > t)
            && ends_before.is_none_or(|t| time("end_time") < t);
        if fits {
            found.push((key(&view), Value::Object(view)));
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    page(host, ex, found, 50, 200)
}

/// `GET /v1/me/rooms`
pub(crate) fn mine(host: &HostInner, ex: &Exchange) -> Result<Answer, Refusal> {
    let agent = super::signed_in(ex)?;
    let status = status_filter(ex)?;
    let want = ex.query("membership").unwrap_or_else(|| "all".to_owned());
    if !matches!(want.as_str(), "member" | "creator" | "moderator" | "pending" | "all") {
        return Err(Refusal::bad_request(
            "membership is member, creator, moderator, pending or all",
        ));
    }
    let mut found = Vec::new();
    for room in host.all_rooms() {
        let inner: &RoomInner = &lock(&room.inner);
        let member = inner.state.active_member(agent);
        let pending = inner
            .requests
            .values()
            .any(|r| r.request["applicant"] == agent.as_str() && r.status_at(ex.now) == "pending");
        let fits = match want.as_str() {
            "member" => member.is_some(),
            "creator" => inner.state.creator == *agent,
            "moderator" => {
                member.is_some_and(|m| m.role == Some(ap_protocol::room::Role::Moderator))
            }
            "pending" => pending,
            _ => member.is_some() || inner.state.creator == *agent || pending,
        };
        let mut view = inner.summary(host, ex.now);
        if !fits || status.as_deref().is_some_and(|s| view["status"] != s) {
            continue;
        }
        let membership = match member {
            Some(m) => json!({ "status": "active", "role": m.role }),
            None if pending => json!({ "status": "pending" }),
            None => json!({ "status": "left" }),
        };
        view.insert("membership".into(), membership);
        found.push((key(&view), Value::Object(view)));
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    page(host, ex, found, 50, 200)
}
