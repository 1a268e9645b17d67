//! Reads of a room: the resource with its head, and the history.

use std::sync::Arc;

use ap_protocol::Hash;
use serde_json::{Value, json};

use super::room::{Part, RoomInner};
use crate::answer::{Answer, Refusal};
use crate::fault::{Action, view};
use crate::host::HostInner;
use crate::serve::Exchange;
use crate::sync::lock;

/// The history as the faults of this request show it.
pub(crate) fn shown(host: &HostInner, ex: &Exchange, inner: &RoomInner) -> Vec<Arc<Value>> {
    let values = inner.log.values();
    if view::concerns_records(&ex.hits) {
        view::project(&values, &ex.hits, &host.stranger)
    } else {
        values
    }
}

/// The read rules, unless a fault leaves them unasked.
pub(crate) fn allowed(ex: &Exchange, inner: &RoomInner, part: Part) -> Result<(), Refusal> {
    if ex.hits.iter().any(|h| matches!(h.action, Action::Lenient {})) {
        return Ok(());
    }
    inner.may_read(ex.agent_opt()?, part, ex.now)
}

/// `GET /v1/rooms/{room_id}`
pub(crate) fn room(host: &HostInner, ex: &Exchange) -> Result<Answer, Refusal> {
    let room = host.room(&ex.target.first)?;
    let inner = lock(&room.inner);
    allowed(ex, &inner, Part::Resource)?;
    let mut resource = inner.resource(host, ex.now, &shown(host, ex, &inner));
    for hit in &ex.hits {
        if let Action::LiarHead { ahead } = hit.action {
            let seq = resource["seq"].as_u64().unwrap_or(0) + ahead;
            let hash = Hash::of(format!("no record has this hash: {seq}").as_bytes());
            resource["seq"] = json!(seq);
            resource["hash"] = json!(hash);
            resource["head"] = json!({ "seq": seq, "hash": hash });
        }
    }
    Ok(Answer::json(resource))
}

/// `GET /v1/rooms/{room_id}/events`
pub(crate) fn events(host: &HostInner, ex: &Exchange) -> Result<Answer, Refusal> {
    let room = host.room(&ex.target.first)?;
    let limit = ex.limit(100, 1000)?;
    let mut after = ex.query_u64("after_seq")?.unwrap_or(0);
    if let Some(cursor) = ex.query("cursor") {
        let at = ap_protocol::encoding::decode(&cursor)
            .ok()
            .and_then(|b| String::from_utf8(b).ok())
            .and_then(|t| t.strip_prefix("after:").and_then(|n| n.parse::<u64>().ok()))
            .ok_or_else(|| Refusal::bad_request("cursor is not one of this host's"))?;
        after = after.max(at);
    }
    let inner = lock(&room.inner);
    allowed(ex, &inner, Part::Inside)?;
    let faulty = view::concerns_records(&ex.hits);
    let (list, more): (Vec<Arc<Value>>, bool) = if faulty {
        let all: Vec<Arc<Value>> = shown(host, ex, &inner)
            .into_iter()
            .filter(|r| r["seq"].as_u64().is_none_or(|s| s > after))
            .collect();
        let more = all.len() > limit;
        (all.into_iter().take(limit).collect(), more)
    } else {
        let from = usize::try_from(after).unwrap_or(usize::MAX).min(inner.log.all().len());
        let rest = &inner.log.all()[from..];
        (rest.iter().take(limit).map(|r| Arc::clone(&r.value)).collect(), rest.len() > limit)
    };
    drop(inner);
    let last = list.last().and_then(|r| r["seq"].as_u64()).unwrap_or(after);
    let repeat = ex.hits.iter().any(|h| matches!(h.action, Action::RepeatCursor {}));
    let cursor = if repeat {
        Some(ap_protocol::encoding::encode(format!("after:{after}")))
    } else {
        more.then(|| ap_protocol::encoding::encode(format!("after:{last}")))
    };
    // Written piece by piece: a page of a thousand records is not copied as a tree.
    let mut text = String::with_capacity(list.len() * 900 + 64);
    if !host.config.bare_lists {
        text.push_str("{\"result\":");
    }
    text.push('[');
    for (i, record) in list.iter().enumerate() {
        if i > 0 {
            text.push(',');
        }
        text.push_str(&record.to_string());
    }
    text.push(']');
    if !host.config.bare_lists {
        if let Some(cursor) = cursor {
            text.push_str(&format!(",\"next_cursor\":{}", json!(cursor)));
        }
        text.push('}');
    }
    if ex.hits.is_empty() {
        return Ok(Answer::raw("application/json", text));
    }
    // Under faults the answer must stay a value that later faults can change.
    serde_json::from_str(&text)
        .map(Answer::json)
        .map_err(|_| Refusal::http(500, "internal", "a page could not be assembled"))
}
