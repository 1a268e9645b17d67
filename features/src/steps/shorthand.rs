//! Short forms of tool calls, and what they leave behind: paging, drafts, rooms that the
//! agent founds, and the footprint by which a step sees that nothing changed.

use std::collections::BTreeSet;

use cucumber::{given, then, when};
use serde_json::{Value, json};

use super::call::session;
use super::judge::{covers, quoted};
use super::rooms::SOON;
use crate::failure::{StepError, StepResult, check, no};
use crate::outcome::Outcome;
use crate::wire::brief;
use crate::world::{AGENT, World};

/// Most pages a list of a story may have.
const MAX_PAGES: usize = 50;

/// Arguments of a short call: inline JSON, the room by name, the host by label.
fn arguments(w: &World, room: &str, host: &str, inline: &str) -> StepResult<Value> {
    let mut arguments = w.json(if inline.is_empty() { "{}" } else { inline })?;
    if !room.is_empty() {
        arguments["room_id"] = json!(w.hosts.room(room)?.id);
    }
    if !host.is_empty() {
        arguments["host"] = json!(w.hosts.url(host)?);
    }
    Ok(arguments)
}

#[given(
    regex = r#"^(?:the agent|session "([^"]*)") has called "([^"]*)"(?: for "([^"]*)")?(?: on "([^"]*)")? given (\{.*\})$"#
)]
async fn has_called(
    w: &mut World,
    name: String,
    tool: String,
    room: String,
    host: String,
    inline: String,
) -> StepResult {
    calls(w, name, tool, room, host, inline).await?;
    w.success().map(|_| ())
}

#[when(
    regex = r#"^(?:the agent|session "([^"]*)") calls "([^"]*)"(?: for "([^"]*)")?(?: on "([^"]*)")? given (\{.*\})$"#
)]
async fn calls(
    w: &mut World,
    name: String,
    tool: String,
    room: String,
    host: String,
    inline: String,
) -> StepResult {
    let arguments = arguments(w, &room, &host, &inline)?;
    w.tool(session(&name), &tool, arguments).await
}

#[when(
    regex = r#"^(?:the agent|session "([^"]*)") calls "([^"]*)" for "([^"]*)"(?: on "([^"]*)")?$"#
)]
async fn calls_for(
    w: &mut World,
    name: String,
    tool: String,
    room: String,
    host: String,
) -> StepResult {
    calls(w, name, tool, room, host, String::new()).await
}

/// A call that a slow host may hold up for as long as a patient connector waits.
#[when(
    regex = r#"^the agent patiently calls "([^"]*)"(?: for "([^"]*)")?(?: on "([^"]*)")? given (\{.*\})$"#
)]
async fn calls_patiently(
    w: &mut World,
    tool: String,
    room: String,
    host: String,
    inline: String,
) -> StepResult {
    let arguments = arguments(w, &room, &host, &inline)?;
    let patience = std::time::Duration::from_secs(90).max(w.run.timeout());
    w.last = Some(w.call_within(AGENT, &tool, arguments, patience).await?);
    Ok(())
}

/// Pages to the end and leaves one result that holds the whole list.
#[when(
    regex = r#"^the agent pages through the "([^"]*)" of "([^"]*)"(?: for "([^"]*)")?(?: on "([^"]*)")?, (\d+) at a time(?:, given (\{.*\}))?$"#
)]
async fn pages(
    w: &mut World,
    list: String,
    tool: String,
    room: String,
    host: String,
    size: usize,
    inline: String,
) -> StepResult {
    let first = arguments(w, &room, &host, &inline)?;
    let (mut all, mut cursor, mut cursors) = (Vec::new(), None::<Value>, BTreeSet::new());
    let (member, argument) = match tool.as_str() {
        "room_timeline" => ("next_after_seq", "after_seq"),
        _ => ("next_cursor", "cursor"),
    };
    for _ in 0..MAX_PAGES {
        let mut arguments = first.clone();
        arguments["limit"] = json!(size);
        if let Some(cursor) = &cursor {
            arguments[argument] = cursor.clone();
        }
        w.tool(AGENT, &tool, arguments).await?;
        let body = w.success()?;
        let items = body[list.as_str()].as_array().cloned().unwrap_or_default();
        check(items.len() <= size, format!("at most {size} {list} a page"), brief(&body))?;
        all.extend(items);
        cursor = body.get(member).filter(|c| !c.is_null()).cloned();
        match &cursor {
            None => {
                let whole =
                    json!({ "structuredContent": { list: all, "pages": cursors.len() + 1 } });
                let outcome = Outcome::new(&tool, first, Ok(whole)).expect("an answer is given");
                w.last = Some(outcome);
                return Ok(());
            }
            Some(c) => {
                check(cursors.insert(c.to_string()), "a new cursor on every page", brief(&body))?;
            }
        }
    }
    no("a list that ends", format!("{MAX_PAGES} pages and another cursor"))
}

#[then(regex = r#"^there were at least (\d+) pages$"#)]
fn page_count(w: &mut World, least: u64) -> StepResult {
    let body = w.success()?;
    check(
        body["pages"].as_u64().is_some_and(|n| n >= least),
        format!("at least {least} pages"),
        body["pages"].to_string(),
    )
}

#[then(regex = r#"^the rooms are (none|(?:"[^"]*"(?:, )?)+)$"#)]
fn rooms_are(w: &mut World, names: String) -> StepResult {
    let body = w.success()?;
    let seen: Vec<String> = ids(&body["rooms"], &["room_id", "id"]);
    let mut wanted = Vec::new();
    for name in quoted(&names) {
        wanted.push(w.hosts.room(&name)?.id.clone());
    }
    same_set(wanted, seen, &format!("the rooms {names}"), &body)
}

/// How much counts as unread besides messages of others is open.
#[then(regex = r#"^the room "([^"]*)" of the result has unread messages$"#)]
fn room_has_unread(w: &mut World, room: String) -> StepResult {
    let id = w.hosts.room(&room)?.id.clone();
    let body = w.success()?;
    let found =
        body["rooms"].as_array().into_iter().flatten().find(|r| r["room_id"] == id.as_str());
    let unread = found.and_then(|r| r["unread_count"].as_u64());
    check(unread.is_some_and(|n| n > 0), format!("{room} with unread_count > 0"), brief(&body))
}

#[then(regex = r#"^the (members|statuses) are (none|(?:(?:the agent|\w+)(?:, )?)+)$"#)]
fn people_are(w: &mut World, list: String, names: String) -> StepResult {
    let body = w.success()?;
    let seen = ids(&body[list.as_str()], &["agent_id"]);
    let wanted = names
        .split(", ")
        .filter(|n| *n != "none")
        .map(|n| if n == "the agent" { w.agent_id() } else { w.key(n).agent_id().to_string() })
        .collect();
    same_set(wanted, seen, &format!("the {list} {names}"), &body)
}

fn ids(list: &Value, members: &[&str]) -> Vec<String> {
    let id = |v: &Value| members.iter().find_map(|m| v[*m].as_str().map(str::to_owned));
    list.as_array().into_iter().flatten().filter_map(id).collect()
}

/// The same things, each once, in any order.
fn same_set(
    mut wanted: Vec<String>,
    mut seen: Vec<String>,
    what: &str,
    body: &Value,
) -> StepResult {
    wanted.sort();
    seen.sort();
    check(wanted == seen, what, format!("{seen:?} in {}", brief(body)))
}

#[then(regex = r#"^the (?:items|changes) have the seqs? (none|[\d, ]+)$"#)]
fn seqs_are(w: &mut World, seqs: String) -> StepResult {
    let body = w.success()?;
    let list = if body["items"].is_array() { &body["items"] } else { &body["changes"] };
    let seen: Vec<u64> =
        list.as_array().into_iter().flatten().filter_map(|i| i["seq"].as_u64()).collect();
    let wanted: Vec<u64> = seqs.split(", ").filter_map(|s| s.parse().ok()).collect();
    check(seen == wanted, format!("the seqs {seqs}"), brief(&body))
}

// --- rooms and drafts of the agent ---

#[given(
    regex = r#"^the agent founded the (public|restricted|private) room "([^"]*)" on "([^"]*)"(?: given (\{.*\}))?$"#
)]
#[when(
    regex = r#"^the agent founds the (public|restricted|private) room "([^"]*)" on "([^"]*)"(?: given (\{.*\}))?$"#
)]
async fn founded(
    w: &mut World,
    visibility: String,
    room: String,
    host: String,
    inline: String,
) -> StepResult {
    let now = crate::run::now_ms();
    let mut call = json!({
        "host": w.hosts.url(&host)?, "topic": format!("The {room}"), "visibility": visibility,
        "start_time": now - 1000, "end_time": now + 3_600_000,
    });
    let changes = arguments(w, "", "", &inline)?;
    if let (Value::Object(call), Value::Object(changes)) = (&mut call, changes) {
        call.extend(changes);
    }
    w.tool(AGENT, "room_create", call).await?;
    let body = w.success()?;
    let id = [&body["room"]["room_id"], &body["room"]["id"], &body["sync"]["room_id"]]
        .iter()
        .find_map(|v| v.as_str().map(str::to_owned));
    match id {
        Some(id) => {
            w.hosts.name_room(&room, &host, &id);
            Ok(())
        }
        None => no("the id of the new room", brief(&body)),
    }
}

/// Holds a draft by writing on the very first record, which any later message outdates.
#[given(regex = r#"^the agent has the draft "([^"]*)" in "([^"]*)"$"#)]
async fn has_draft(w: &mut World, text: String, room: String) -> StepResult {
    let records = w.records(&room)?;
    let arguments = json!({
        "room_id": w.hosts.room(&room)?.id, "content": text,
        "base_seq": 1, "base_hash": records[0]["hash"],
    });
    w.tool(AGENT, "room_send_message", arguments).await?;
    let body = w.success()?;
    match (body["status"].as_str(), body["draft"]["id"].as_str()) {
        (Some("held"), Some(id)) => {
            w.notes.insert("draft".to_owned(), json!(id));
            w.notes.insert(format!("draft {text}"), json!(id));
            Ok(())
        }
        _ => no("status held, with a draft", brief(&body)),
    }
}

#[then(regex = r#"^the drafts are (none|(?:"[^"]*"(?:, )?)+)$"#)]
fn drafts_are(w: &mut World, texts: String) -> StepResult {
    let body = w.success()?;
    let seen = body["drafts"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|d| d["draft"]["content"].as_str().map(str::to_owned))
        .collect();
    same_set(quoted(&texts), seen, &format!("the drafts {texts}"), &body)
}

// --- waiting for what a fault or a stream brings about ---

/// Repeats a read until its result has a member that covers the value.
#[then(
    regex = r#"^soon "([^"]*)"(?: for "([^"]*)")?(?: given (\{.*?\}))? shows "([^"]*)" (is|contains|lacks) (.+)$"#
)]
#[when(
    regex = r#"^soon "([^"]*)"(?: for "([^"]*)")?(?: given (\{.*?\}))? shows "([^"]*)" (is|contains|lacks) (.+)$"#
)]
async fn soon_shows(
    w: &mut World,
    tool: String,
    room: String,
    inline: String,
    path: String,
    how: String,
    value: String,
) -> StepResult {
    let call = arguments(w, &room, "", &inline)?;
    let wanted = w.json(&value)?;
    let seen = w
        .eventually(SOON, async |w: &mut World| {
            w.tool(AGENT, &tool, call.clone()).await?;
            let outcome = w.outcome()?;
            if outcome.is_error() {
                return Ok(false);
            }
            let body = outcome.body();
            let found = crate::outcome::at(&body, &path).cloned().unwrap_or(Value::Null);
            Ok(match how.as_str() {
                "is" => covers(&found, &wanted),
                "lacks" => !holds(&found, &wanted),
                _ => holds(&found, &wanted),
            })
        })
        .await?;
    check(seen, format!("soon {path} {how} {wanted}"), w.outcome()?.brief())
}

fn holds(list: &Value, wanted: &Value) -> bool {
    list.as_array().is_some_and(|l| l.iter().any(|i| covers(i, wanted)))
}

// --- the footprint ---

/// Everything a refused call must not touch: what hosts hold, what the agent sent, what its
/// rooms and drafts look like.
pub async fn footprint(w: &mut World) -> StepResult<Value> {
    let mut hosts = Vec::new();
    for host in w.hosts.all() {
        let dump = host.dump();
        let rooms: Vec<Value> = dump["rooms"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(id, r)| json!([id, r["records"], r["join_requests"], r["statuses"]]))
            .collect();
        hosts.push(json!([host.label(), rooms, dump["profiles"]]));
    }
    let sent = w.sent_envelopes().len();
    let mut local = Vec::new();
    let rooms: Vec<(String, Value)> = w
        .hosts
        .rooms()
        .map(|(name, r)| (name.clone(), json!({ "room_id": r.id, "host": r.host })))
        .collect();
    for (name, mut at) in rooms {
        at["host"] = json!(w.hosts.url(at["host"].as_str().unwrap_or_default())?);
        let seen = w.call(AGENT, "room_state", at).await?;
        let body = seen.body();
        let sync = &body["sync"];
        local.push(json!([
            name,
            seen.is_error(),
            sync["head_seq"],
            sync["synced_seq"],
            sync["unread_count"],
            body["room"]["self_member"]
        ]));
    }
    if w.run.profile.claims_tool("drafts_list") {
        let drafts = w.call(AGENT, "drafts_list", json!({ "limit": 100 })).await?.body();
        local.push(json!(ids(&drafts["drafts"], &["id"])));
    }
    Ok(json!({ "hosts": hosts, "sent": sent, "local": local }))
}

#[when(regex = r#"^the event id of the (first|last) record of "([^"]*)" is noted as "([^"]*)"$"#)]
fn note_event(w: &mut World, which: String, room: String, name: String) -> StepResult {
    let records = w.records(&room)?;
    let record = if which == "first" { records.first() } else { records.last() };
    w.notes.insert(name, record.map(|r| r["envelope"]["hash"].clone()).unwrap_or_default());
    Ok(())
}

#[then(regex = r#"^the result is about the last record of "([^"]*)"$"#)]
fn about_last(w: &mut World, room: String) -> StepResult {
    let last = w.records(&room)?.pop().unwrap_or_default();
    let body = w.success()?;
    check(
        body["record"] == last
            && body["item"]["seq"] == last["seq"]
            && body["item"]["event_id"] == last["envelope"]["hash"],
        format!("the record and the item of seq {}", last["seq"]),
        brief(&body),
    )
}

#[then(regex = r#"^the full record of seq (\d+) of "([^"]*)" is not in the result$"#)]
fn no_full_record(w: &mut World, seq: u64, room: String) -> StepResult {
    let record = w.records(&room)?.into_iter().find(|r| r["seq"] == seq).unwrap_or_default();
    let body = w.success()?;
    let signature = record["envelope"]["signature"].as_str().unwrap_or("no such record");
    check(!body.to_string().contains(signature), "no full record", brief(&body))
}

#[then("nothing in the drafts could be used to sign")]
fn drafts_are_local(w: &mut World) -> StepResult {
    let body = w.success()?;
    let mut bad = Vec::new();
    super::drafts::forbidden(&body["drafts"], "drafts", &mut bad);
    check(bad.is_empty(), "no signing material in held drafts", bad.join(", "))
}

#[given("we note how everything stands")]
#[when("we note how everything stands")]
async fn note_footprint(w: &mut World) -> StepResult {
    let last = w.last.take();
    let footprint = footprint(w).await?;
    w.notes.insert("footprint".to_owned(), footprint);
    w.last = last;
    Ok(())
}

#[then("nothing changed anywhere")]
async fn nothing_changed(w: &mut World) -> StepResult {
    let before = w
        .notes
        .get("footprint")
        .cloned()
        .ok_or_else(|| StepError::Defect("nothing was noted before".to_owned()))?;
    let last = w.last.take();
    let after = footprint(w).await?;
    w.last = last;
    for part in ["hosts", "sent", "local"] {
        check(
            before[part] == after[part],
            format!("{part} as before: {}", brief(&before[part])),
            brief(&after[part]),
        )?;
    }
    Ok(())
}
