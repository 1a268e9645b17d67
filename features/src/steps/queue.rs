//! The inbox as a queue: settling, counting, order, claims of several sessions.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use cucumber::{given, then, when};
use serde_json::{Value, json};

use super::call::session;
use super::inbox::noted;
use super::rooms::SOON;
use crate::failure::{StepError, StepResult, check, no};
use crate::outcome::Outcome;
use crate::wire::brief;
use crate::world::{AGENT, World};

fn items(body: &Value) -> Vec<Value> {
    body["items"].as_array().cloned().unwrap_or_default()
}

/// A later mention by the room's creator: when its item is there, every earlier record has
/// had its effect on the inbox.
#[when(regex = r#"^the inbox settles in "([^"]*)"$"#)]
async fn settles(w: &mut World, room: String) -> StepResult {
    let agent = w.agent_id();
    let payload = json!({ "content_type": "text/plain", "content": "Are you with us?" });
    let record = w.peer_sends("ada", &room, "message.create", payload, &[&agent]).await?;
    let event_id = record["envelope"]["hash"].clone();
    let arrived = w
        .eventually(SOON, async |w: &mut World| {
            w.tool(AGENT, "inbox_next", json!({ "limit": 100 })).await?;
            let body = w.success()?;
            Ok(items(&body)
                .iter()
                .any(|i| i["event_id"] == event_id && i["kind"] == "room.mention"))
        })
        .await?;
    check(arrived, "a room.mention item of the latest record", w.outcome()?.brief())
}

/// A record that mentions the agent may be a new message too: that is open.
#[then(regex = r#"^the inbox shows no "([^"]*)" item but for mentions$"#)]
fn none_but_mentions(w: &mut World, kind: String) -> StepResult {
    let body = w.success()?;
    let all = items(&body);
    let mentioned: BTreeSet<String> = all
        .iter()
        .filter(|i| i["kind"] == "room.mention")
        .map(|i| i["event_id"].to_string())
        .collect();
    let bad: Vec<&Value> = all
        .iter()
        .filter(|i| i["kind"] == kind.as_str())
        .filter(|i| !mentioned.contains(&i["event_id"].to_string()))
        .collect();
    check(bad.is_empty(), format!("no {kind} item"), format!("{bad:?}"))
}

#[then(regex = r#"^no item of kind "([^"]*)" is about "([^"]*)"$"#)]
fn none_about(w: &mut World, kind: String, room: String) -> StepResult {
    let id = w.hosts.room(&room)?.id.clone();
    let body = w.success()?;
    let bad = items(&body).into_iter().find(|i| i["kind"] == kind && i["room_id"] == id.as_str());
    check(bad.is_none(), format!("no {kind} item about {room}"), format!("{bad:?}"))
}

#[then(regex = r#"^the item has a deadline within (\d+) s$"#)]
fn deadline(w: &mut World, seconds: u64) -> StepResult {
    let item = noted(w)?;
    let now = crate::run::now_ms();
    let at = item["deadline"].as_u64();
    check(
        at.is_some_and(|t| t > now && t < now + seconds * 1000),
        format!("a deadline within {seconds} s"),
        brief(&item),
    )
}

#[then("no two items are about the same thing")]
fn no_doubles(w: &mut World) -> StepResult {
    let body = w.success()?;
    let (mut about, mut ids) = (BTreeSet::new(), BTreeSet::new());
    for i in items(&body) {
        let key = json!([i["room_id"], i["kind"], i["seq"], i["event_id"]]).to_string();
        check(about.insert(key), "one item for each (room_id, kind, seq, event_id)", brief(&body))?;
        check(ids.insert(i["id"].to_string()), "an id for each item", brief(&body))?;
    }
    Ok(())
}

#[then("the noted item is in the result")]
fn noted_is_there(w: &mut World) -> StepResult {
    let item = noted(w)?;
    let body = w.success()?;
    let there = items(&body).iter().any(|i| {
        i["id"] == item["id"] && i["event_id"] == item["event_id"] && i["kind"] == item["kind"]
    });
    check(there, format!("the item {}", item["id"]), brief(&body))
}

#[then(regex = r#"^the item was created when its record was received in "([^"]*)"$"#)]
fn created_at(w: &mut World, room: String) -> StepResult {
    let item = noted(w)?;
    let records = w.records(&room)?;
    let record = records.iter().find(|r| r["envelope"]["hash"] == item["event_id"]);
    check(
        record.is_some_and(|r| r["received_at"] == item["created_at"] && r["seq"] == item["seq"]),
        "event_id, seq and created_at of one record",
        format!("{} and {:?}", brief(&item), record.map(|r| r["received_at"].clone())),
    )
}

#[given(regex = r#"^the inbox holds (\d+) "([^"]*)" items$"#)]
#[when(regex = r#"^the inbox holds (\d+) "([^"]*)" items$"#)]
async fn holds(w: &mut World, count: usize, kind: String) -> StepResult {
    let there = w
        .eventually(SOON, async |w: &mut World| {
            w.tool(AGENT, "inbox_next", json!({ "limit": 100 })).await?;
            let body = w.success()?;
            Ok(items(&body).iter().filter(|i| i["kind"] == kind.as_str()).count() == count)
        })
        .await?;
    check(there, format!("{count} {kind} items"), w.outcome()?.brief())
}

#[then("the items are in order of priority")]
fn ordered(w: &mut World) -> StepResult {
    let body = w.success()?;
    let rank = |i: &Value| ["high", "normal", "low"].iter().position(|p| i["priority"] == *p);
    let ranks: Vec<_> = items(&body).iter().map(rank).collect();
    check(
        ranks.len() > 1 && ranks.windows(2).all(|p| p[0] <= p[1]),
        "high before normal before low",
        brief(&body),
    )
}

#[when(regex = r#"^the agent acknowledges all "([^"]*)" items as (\w+)$"#)]
async fn acks_all(w: &mut World, kind: String, action: String) -> StepResult {
    let body = w.success()?;
    let ids: Vec<Value> = items(&body)
        .iter()
        .filter(|i| i["kind"] == kind.as_str())
        .map(|i| i["id"].clone())
        .collect();
    w.tool(AGENT, "inbox_ack", json!({ "ids": ids, "action": action })).await
}

#[when("the agent acknowledges the item and an unknown one")]
async fn acks_mixed(w: &mut World) -> StepResult {
    let id = noted(w)?["id"].clone();
    let arguments = json!({ "ids": [id, "inbox_that_never_was"], "action": "handled" });
    w.tool(AGENT, "inbox_ack", arguments).await
}

#[then("only the item is acknowledged")]
fn only_known(w: &mut World) -> StepResult {
    let id = noted(w)?["id"].clone();
    let body = w.success()?;
    check(body["acknowledged"] == json!([id]), format!("acknowledged [{id}]"), brief(&body))
}

#[when(regex = r#"^both sessions claim one item at a time until nothing is left: "([^"]*)"$"#)]
async fn race(w: &mut World, other: String) -> StepResult {
    let mut taken: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    let timeout = w.run.timeout();
    // An acknowledgement frees the session for its next item; ten rounds are plenty.
    for _ in 0..10 {
        let mut calls = Vec::new();
        for who in [AGENT, other.as_str()] {
            let arguments = json!({ "limit": 1, "claim": true, "kinds": ["room.mention"] });
            let tool = format!("{}inbox_next", crate::profile::TOOL_PREFIX);
            calls.push((
                who.to_owned(),
                arguments.clone(),
                w.session(who)?.send_tool(&tool, arguments),
            ));
        }
        let mut got = Vec::new();
        for (who, arguments, call) in calls {
            let outcome = Outcome::new("inbox_next", arguments, call.wait(timeout).await)
                .map_err(crate::world::target_error)?;
            if outcome.is_error() {
                return no("a claim", outcome.brief());
            }
            for item in items(&outcome.body()) {
                taken.entry(who.clone()).or_default().push(item["id"].clone());
                got.push((who.clone(), item["id"].clone()));
            }
        }
        if got.is_empty() {
            break;
        }
        for (who, id) in got {
            w.call(&who, "inbox_ack", json!({ "ids": [id], "action": "handled" })).await?;
        }
    }
    w.notes.insert("taken".to_owned(), json!(taken));
    Ok(())
}

#[then("no item went to two sessions")]
fn no_shared_item(w: &mut World) -> StepResult {
    let taken = w.notes.get("taken").cloned().unwrap_or_default();
    let mut seen = BTreeSet::new();
    for id in
        taken.as_object().into_iter().flatten().filter_map(|(_, ids)| ids.as_array()).flatten()
    {
        check(seen.insert(id.to_string()), "each item handed to one session", taken.to_string())?;
    }
    Ok(())
}

#[then(regex = r#"^(\d+) "room.mention" items were handed out$"#)]
fn handed_out(w: &mut World, count: usize) -> StepResult {
    let taken = w.notes.get("taken").cloned().unwrap_or_default();
    let seen: usize = taken
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(_, v)| v.as_array())
        .map(Vec::len)
        .sum();
    check(seen == count, format!("{count} items"), taken.to_string())
}

#[then(regex = r#"^soon session "([^"]*)" is handed the noted item$"#)]
async fn handed(w: &mut World, name: String) -> StepResult {
    let item = noted(w)?;
    let got = w
        .eventually(SOON, async |w: &mut World| {
            w.tool(&name, "inbox_next", json!({ "limit": 100 })).await?;
            let body = w.success()?;
            Ok(items(&body).iter().any(|i| i["id"] == item["id"]))
        })
        .await?;
    check(got, format!("the item {}", item["id"]), w.outcome()?.brief())
}

#[when(
    regex = r#"^the agent starts (waiting for|claiming from) the inbox up to (\d+) ms for "([^"]*)"$"#
)]
fn starts_waiting(w: &mut World, how: String, wait_ms: u64, kind: String) -> StepResult {
    w.needs("inbox-wait")?;
    let claim = how.starts_with("claiming");
    let arguments = json!({ "limit": 100, "wait_ms": wait_ms, "kinds": [kind], "claim": claim });
    super::call::start_call(w, AGENT, "inbox_next", arguments)
}

#[then("the cancelled call was never answered")]
async fn never_answered(w: &mut World) -> StepResult {
    let (_, _, call) = super::call::pending(w, AGENT)?;
    // Something later was answered already, so an answer would be there by now.
    match call.wait(Duration::from_millis(300)).await {
        Err(crate::mcp::McpError::Timeout { .. }) => Ok(()),
        Err(crate::mcp::McpError::Exited(how)) => Err(StepError::Target(format!("exited: {how}"))),
        other => no("no answer to a cancelled call", format!("{other:?}")),
    }
}

#[then(regex = r#"^the item's tools contain "([^"]*)"$"#)]
fn tools_contain(w: &mut World, tool: String) -> StepResult {
    let item = noted(w)?;
    let there =
        item["suggested_tools"].as_array().is_some_and(|l| l.iter().any(|t| t == tool.as_str()));
    check(there, format!("{tool} among suggested_tools"), brief(&item))
}

#[when(regex = r#"^(?:the agent|session "([^"]*)") starts committing the draft$"#)]
fn starts_committing(w: &mut World, name: String) -> StepResult {
    let draft = w.notes.get("draft").cloned().unwrap_or_default();
    let arguments = json!({ "draft_id": draft, "action": "send_as_is" });
    super::call::start_call(w, session(&name), "draft_commit", arguments)
}
