//! The inbox: what wakes the agent, claims and acknowledgements.

use std::time::Duration;

use cucumber::{given, then, when};
use serde_json::{Value, json};

use super::call::session;
use super::rooms::SOON;
use crate::failure::{StepError, StepResult, check};
use crate::wire::brief;
use crate::world::{AGENT, World};

#[when(regex = r#"^(?:the agent|session "([^"]*)") looks into the inbox$"#)]
async fn looks(w: &mut World, name: String) -> StepResult {
    w.tool(session(&name), "inbox_next", json!({ "limit": 100 })).await
}

#[when(regex = r#"^(?:the agent|session "([^"]*)") claims what is in the inbox$"#)]
async fn claims(w: &mut World, name: String) -> StepResult {
    w.tool(session(&name), "inbox_next", json!({ "limit": 100, "claim": true })).await
}

#[given(regex = r#"^soon (?:the agent|session "([^"]*)") finds a "([^"]*)" item in the inbox$"#)]
#[when(regex = r#"^soon (?:the agent|session "([^"]*)") finds a "([^"]*)" item in the inbox$"#)]
#[then(regex = r#"^soon (?:the agent|session "([^"]*)") finds a "([^"]*)" item in the inbox$"#)]
async fn soon_finds(w: &mut World, name: String, kind: String) -> StepResult {
    let who = session(&name).to_owned();
    let found = w
        .eventually(SOON, async |w: &mut World| {
            w.tool(&who, "inbox_next", json!({ "limit": 100 })).await?;
            let body = w.success()?;
            match item(&body, &kind) {
                Some(item) => {
                    w.notes.insert("item".to_owned(), item.clone());
                    Ok(true)
                }
                None => Ok(false),
            }
        })
        .await?;
    check(found, format!("an inbox item {kind}"), w.outcome()?.brief())
}

fn item<'a>(body: &'a Value, kind: &str) -> Option<&'a Value> {
    body["items"].as_array()?.iter().find(|i| i["kind"] == kind)
}

#[then(regex = r#"^the inbox shows (no|a|exactly one) "([^"]*)" item$"#)]
fn shows(w: &mut World, count: String, kind: String) -> StepResult {
    let body = w.success()?;
    let items = body["items"].as_array().cloned().unwrap_or_default();
    let seen = items.iter().filter(|i| i["kind"] == kind.as_str()).count();
    let holds = match count.as_str() {
        "no" => seen == 0,
        "a" => seen >= 1,
        _ => seen == 1,
    };
    if let Some(item) = item(&body, &kind) {
        w.notes.insert("item".to_owned(), item.clone());
    }
    check(holds, format!("{count} {kind} item"), brief(&body))
}

#[then(regex = r#"^the item has "([^"]*)" (.+)$"#)]
fn item_has(w: &mut World, path: String, value: String) -> StepResult {
    let wanted = w.json(&value)?;
    let item = noted(w)?;
    let seen = crate::outcome::at(&item, &path).cloned().unwrap_or(Value::Null);
    check(seen == wanted, format!("{path} = {wanted}"), brief(&item))
}

#[then("the item has everything an agent needs to act")]
fn item_is_complete(w: &mut World) -> StepResult {
    let item = noted(w)?;
    let text = |n: &str| item[n].as_str().is_some_and(|t| !t.is_empty());
    let complete = ["id", "kind", "room_id", "reason"].iter().all(|n| text(n))
        && ["high", "normal", "low"].iter().any(|p| item["priority"] == *p)
        && item["created_at"].is_u64()
        && item["requires_response"].is_boolean()
        && item["suggested_tools"].is_array()
        && item["message"]["summary"].is_string();
    check(
        complete,
        "id, kind, priority, room_id, created_at, requires_response, reason, \
        suggested_tools and message.summary",
        brief(&item),
    )
}

#[then(regex = r#"^the item is the record "([^"]*)" of "([^"]*)"$"#)]
fn item_is_record(w: &mut World, text: String, room: String) -> StepResult {
    let item = noted(w)?;
    let records = w.records(&room)?;
    let record = records
        .iter()
        .find(|r| r["envelope"]["event"]["payload"]["content"] == text.as_str())
        .ok_or_else(|| StepError::Defect(format!("no message {text:?} in {room}")))?;
    check(
        item["seq"] == record["seq"]
            && item["event_id"] == record["envelope"]["hash"]
            && item["actor"] == record["envelope"]["event"]["actor"]
            && item["created_at"] == record["received_at"],
        format!(
            "seq {}, event_id {}, created_at {}",
            record["seq"], record["envelope"]["hash"], record["received_at"]
        ),
        brief(&item),
    )
}

/// The item that an earlier step found.
pub fn noted(w: &World) -> StepResult<Value> {
    w.notes
        .get("item")
        .cloned()
        .ok_or_else(|| StepError::Defect("no inbox item was found yet".to_owned()))
}

#[given(
    regex = r#"^(?:the agent|session "([^"]*)") acknowledges the item as (handled|dismissed)$"#
)]
#[when(regex = r#"^(?:the agent|session "([^"]*)") acknowledges the item as (handled|dismissed)$"#)]
async fn acks(w: &mut World, name: String, action: String) -> StepResult {
    let id = noted(w)?["id"].clone();
    w.tool(session(&name), "inbox_ack", json!({ "ids": [id], "action": action })).await
}

#[when(regex = r#"^(?:the agent|session "([^"]*)") defers the item for (\d+) s$"#)]
async fn defers(w: &mut World, name: String, seconds: u64) -> StepResult {
    let id = noted(w)?["id"].clone();
    let until = crate::run::now_ms() + seconds * 1000;
    let arguments = json!({ "ids": [id], "action": "defer", "defer_until": until });
    w.tool(session(&name), "inbox_ack", arguments).await
}

#[then("the unknown id is not acknowledged")]
fn unknown_id(w: &mut World) -> StepResult {
    let outcome = w.outcome()?;
    let body = outcome.body();
    let claimed = body["acknowledged"].as_array().is_some_and(|l| !l.is_empty());
    check(outcome.is_error() || !claimed, "an unknown id is reported as such", outcome.brief())
}

#[then("the item is gone for good")]
async fn gone(w: &mut World) -> StepResult {
    let id = noted(w)?["id"].clone();
    w.tool(AGENT, "inbox_next", json!({ "limit": 100 })).await?;
    let body = w.success()?;
    let back = body["items"].as_array().is_some_and(|l| l.iter().any(|i| i["id"] == id));
    check(!back, "the acknowledged item does not return", brief(&body))
}

#[then("the same item is there under the same id")]
async fn same(w: &mut World) -> StepResult {
    let item = noted(w)?;
    let found = w
        .eventually(SOON, async |w: &mut World| {
            w.tool(AGENT, "inbox_next", json!({ "limit": 100 })).await?;
            let body = w.success()?;
            Ok(body["items"].as_array().is_some_and(|l| l.iter().any(|i| i["id"] == item["id"])))
        })
        .await?;
    check(found, format!("the item {}", item["id"]), w.outcome()?.brief())?;
    let body = w.success()?;
    let doubles = body["items"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|i| {
            i["kind"] == item["kind"]
                && i["seq"] == item["seq"]
                && i["event_id"] == item["event_id"]
                && i["room_id"] == item["room_id"]
        })
        .count();
    check(doubles == 1, "one item for the record", brief(&body))
}

#[when(regex = r#"^(?:the agent|session "([^"]*)") waits for the inbox up to (\d+) ms$"#)]
async fn waits(w: &mut World, name: String, wait_ms: u64) -> StepResult {
    w.needs("inbox-wait")?;
    let deadline = Duration::from_millis(wait_ms) + w.run.timeout();
    let who = session(&name).to_owned();
    let began = std::time::Instant::now();
    let arguments = json!({ "limit": 100, "wait_ms": wait_ms });
    w.last = Some(w.call_within(&who, "inbox_next", arguments, deadline).await?);
    let took = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    w.notes.insert("waited_ms".to_owned(), json!(took));
    Ok(())
}

#[when(regex = r#"^(?:the agent|session "([^"]*)") starts waiting for the inbox up to (\d+) ms$"#)]
fn starts_waiting(w: &mut World, name: String, wait_ms: u64) -> StepResult {
    w.needs("inbox-wait")?;
    let arguments = json!({ "limit": 100, "wait_ms": wait_ms });
    super::call::start_call(w, session(&name), "inbox_next", arguments)
}

#[then(regex = r#"^the wait took (at least|less than) (\d+) ms$"#)]
fn took(w: &mut World, which: String, limit: u64) -> StepResult {
    let took = w.notes.get("waited_ms").and_then(Value::as_u64).unwrap_or(0);
    let holds = if which == "at least" { took + 50 >= limit } else { took < limit };
    check(holds, format!("{which} {limit} ms"), format!("{took} ms"))
}
