//! Room archives (ADP 19): the same history as JSON, as lines and as a page to read.

use std::collections::BTreeMap;
use std::sync::Arc;

use ap_protocol::{Hash, Tip, archive as kernel, encoding};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::room::Part;
use crate::answer::{Answer, Refusal};
use crate::host::HostInner;
use crate::serve::Exchange;
use crate::sync::lock;

struct Parts {
    manifest: Value,
    room: Value,
    records: Vec<Arc<Value>>,
    packs: Vec<Value>,
}

fn collect(host: &HostInner, ex: &Exchange) -> Result<Parts, Refusal> {
    let room = host.room(&ex.target.first)?;
    let inner = lock(&room.inner);
    super::read::allowed(ex, &inner, Part::Inside)?;
    let records = super::read::shown(host, ex, &inner);
    let resource = inner.resource(host, ex.now, &records);
    let url = format!("{}/archive", host.room_url(&room.id));
    // The tip as shown: a host that denies its latest records denies them here too.
    let last = records.last();
    let tip = last.and_then(|r| {
        let hash = Hash::parse(r["hash"].as_str()?).ok()?;
        Some(Tip { seq: r["seq"].as_u64()?, hash })
    });
    let mut manifest = kernel::manifest(
        &host.front.url,
        &room.id,
        &url,
        ex.now,
        tip.unwrap_or(inner.state.tip),
        kernel::events_sha3_256(records.iter().map(|r| &**r)),
        json!({
            "application/json": url,
            "application/jsonl": format!("{url}.jsonl"),
            "text/markdown": format!("{url}.md"),
        }),
    );
    manifest["event_count"] = json!(records.len());
    let packs = imported(host, &records);
    Ok(Parts { manifest, room: resource, records, packs })
}

/// Every pack document that some record imports, registered or external, once.
fn imported(host: &HostInner, records: &[Arc<Value>]) -> Vec<Value> {
    let mut found: BTreeMap<String, Value> = BTreeMap::new();
    let external = lock(&host.packs);
    let mut note = |declaration: &Value| {
        if let Some(id) = declaration["use"].as_str()
            && let Some(text) = ap_protocol::pack::document(id)
        {
            let digest = format!("sha256:{}", encoding::encode(Sha256::digest(text)));
            found.insert(id.to_owned(), kernel::pack_entry(id, &digest, text.as_bytes()));
        }
        if let Some(uri) = declaration["pack"].as_str()
            && let Some(bytes) = external.get(uri)
        {
            let digest = declaration["digest"].as_str().unwrap_or_default();
            found.insert(uri.to_owned(), kernel::pack_entry(uri, digest, bytes));
        }
    };
    for record in records {
        let event = &record["envelope"]["event"];
        match event["type"].as_str() {
            Some("type.define") => note(&event["payload"]),
            Some("room.create") => {
                event["payload"]["types"].as_array().into_iter().flatten().for_each(&mut note);
            }
            _ => {}
        }
    }
    found.into_values().collect()
}

/// `GET /v1/rooms/{room_id}/archive`
pub(crate) fn json(host: &HostInner, ex: &Exchange) -> Result<Answer, Refusal> {
    let parts = collect(host, ex)?;
    let records: Vec<Value> = parts.records.iter().map(|r| Value::clone(r)).collect();
    Ok(Answer::json(json!({
        "manifest": parts.manifest, "room": parts.room, "records": records, "packs": parts.packs,
    })))
}

/// `GET /v1/rooms/{room_id}/archive.jsonl`: the manifest, the room, each pack, each record, one
/// a line; packs come before the records that need them.
pub(crate) fn jsonl(host: &HostInner, ex: &Exchange) -> Result<Answer, Refusal> {
    let parts = collect(host, ex)?;
    let mut text = String::new();
    let mut line = |value: &Value| {
        text.push_str(&value.to_string());
        text.push('\n');
    };
    line(&parts.manifest);
    let mut room = parts.room.clone();
    room["type"] = json!(kernel::ROOM_TYPE);
    line(&room);
    parts.packs.iter().for_each(&mut line);
    parts.records.iter().for_each(|r| line(r));
    Ok(Answer::raw("application/jsonl", text))
}

/// `GET /v1/rooms/{room_id}/archive.md`
pub(crate) fn markdown(host: &HostInner, ex: &Exchange) -> Result<Answer, Refusal> {
    let parts = collect(host, ex)?;
    let mut text = format!(
        "# {}\n\nRoom `{}` on {}, {} records, last hash `{}`.\n",
        inline(&parts.room["topic"]),
        parts.room["id"].as_str().unwrap_or_default(),
        host.front.url,
        parts.records.len(),
        parts.manifest["last_hash"].as_str().unwrap_or_default(),
    );
    for record in &parts.records {
        let event = &record["envelope"]["event"];
        text.push_str(&format!(
            "\n## {} {}\n\nby `{}` at {}\n\n",
            record["seq"],
            inline(&event["type"]),
            event["actor"].as_str().unwrap_or_default(),
            record["received_at"],
        ));
        // A fence longer than any run of backticks inside: content cannot break out.
        let (info, body) = match event["payload"]["content"].as_str() {
            Some(content) => ("", content.to_owned()),
            None => ("json", format!("{:#}", event["payload"])),
        };
        let longest = body.split(|c| c != '`').map(str::len).max().unwrap_or(0);
        let fence = "`".repeat(longest.max(2) + 1);
        text.push_str(&format!("{fence}{info}\n{body}\n{fence}\n"));
    }
    Ok(Answer::raw("text/markdown; charset=utf-8", text))
}

fn inline(value: &Value) -> String {
    let text = value.as_str().unwrap_or_default();
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() {
            out.push(' ');
        } else {
            if "\\`*_[]<>#".contains(c) {
                out.push('\\');
            }
            out.push(c);
        }
    }
    out
}
