//! Inputs that do not fit a tool's table, and using every tool once with inputs that do.

use cucumber::{then, when};
use serde_json::{Value, json};

use super::catalog::{ENUMS, TABLE};
use crate::failure::{StepError, StepResult, check, no};
use crate::outcome::Outcome;
use crate::profile::short;
use crate::world::{AGENT, World};

/// Arguments with which the tool works in the world of the features that break them: host
/// `a`, the agent's rooms `lounge` and `club`, the `annex` of ada, drafts `one` and `two`, a request.
fn good(w: &World, tool: &str) -> StepResult<Value> {
    let host = w.hosts.url("a")?;
    let lounge = w.hosts.room("lounge")?.id.clone();
    let note = |name: &str| w.notes.get(name).cloned().unwrap_or(Value::Null);
    let now = crate::run::now_ms();
    Ok(match tool {
        "rooms_search" => json!({ "host": host }),
        "room_open" => json!({ "host": host, "room_id": lounge }),
        "room_state" | "room_members_list" | "agent_status_list" | "room_timeline" => {
            json!({ "room_id": lounge })
        }
        "room_member_get" => json!({ "room_id": lounge, "agent_id": w.agent_id() }),
        "agent_status_get" => json!({ "room_id": lounge, "agent_id": w.key("ada").agent_id() }),
        "agent_status_set" => json!({ "room_id": lounge, "state": "reading" }),
        "room_mark_read" => json!({ "room_id": lounge, "through_seq": 1 }),
        "inbox_ack" => json!({ "ids": ["an-id-of-nothing"], "action": "handled" }),
        "draft_get" => json!({ "draft_id": note("draft") }),
        "draft_commit" => json!({ "draft_id": note("draft one"), "action": "send_as_is" }),
        "draft_drop" => json!({ "draft_id": note("draft two") }),
        "profile_update" => {
            json!({ "profile_service": host, "profile": { "name": "An agent under test" } })
        }
        "room_create" => json!({
            "host": host, "topic": "Another room", "visibility": "public",
            "start_time": now - 1000, "end_time": now + 3_600_000,
        }),
        "room_join" => {
            json!({ "host": host, "room_id": w.hosts.room("annex")?.id, "role": "speaker" })
        }
        "room_leave" => json!({ "room_id": w.hosts.room("annex")?.id }),
        "room_send_message" => json!({ "room_id": lounge, "content": "A good message" }),
        "room_submit_event" => {
            json!({ "room_id": lounge, "type": "room.update", "payload": { "agenda": "New" } })
        }
        "join_requests_list" => json!({ "room_id": w.hosts.room("club")?.id }),
        "join_request_review" => json!({
            "room_id": w.hosts.room("club")?.id, "request_id": note("request")["id"],
            "decision": "approve", "role": "speaker",
        }),
        _ => json!({}),
    })
}

/// A value of the wrong type, in each way that a table's type can be missed.
fn wrong_values(kind: &str) -> Vec<Value> {
    match kind.trim_start_matches('!') {
        "string" => vec![json!(7), json!(["x"]), json!({})],
        "number" => vec![json!("7"), json!(true), json!([7])],
        "boolean" => vec![json!("yes"), json!(1)],
        "array" => vec![json!("x"), json!({}), json!([7])],
        _ => vec![json!("x"), json!(["x"])],
    }
}

/// Every way to break one member of good arguments, with a name for it.
fn broken(tool: &str, good: &Value) -> Vec<(String, Value)> {
    let Some(row) = TABLE.iter().find(|r| r.tool == tool) else { return Vec::new() };
    let mut all = Vec::new();
    let mut with = |what: String, member: &str, value: Value| {
        let mut arguments = good.clone();
        arguments[member] = value;
        all.push((what, arguments));
    };
    for (member, kind) in row.members {
        for value in wrong_values(kind) {
            // An array of tables (types) may hold anything; numbers in it are wrong anyway.
            with(format!("{member} = {value}"), member, value);
        }
        if kind.starts_with('!') {
            with(format!("{member} = null"), member, Value::Null);
        }
    }
    for (_, member, _) in ENUMS.iter().filter(|(t, ..)| *t == tool) {
        with(format!("{member} of no known value"), member, json!("no-such-value"));
    }
    for (member, _) in row.members.iter().filter(|(_, kind)| kind.starts_with('!')) {
        let mut arguments = good.clone();
        if let Some(members) = arguments.as_object_mut() {
            members.remove(*member);
        }
        all.push((format!("without {member}"), arguments));
    }
    all
}

fn message(outcome: &Outcome) -> String {
    let body = outcome.body();
    let in_body = body["error"]["message"].as_str().or(body["message"].as_str());
    let in_rpc = outcome.rpc.as_ref().map(|(_, message, _)| message.as_str());
    in_body.or(in_rpc).map_or_else(|| outcome.texts().join(" "), str::to_owned)
}

#[when(regex = r#"^the agent calls "([^"]*)" with each input broken in turn$"#)]
async fn each_broken(w: &mut World, tool: String) -> StepResult {
    let good = good(w, &tool)?;
    let ways = broken(&tool, &good);
    check(!ways.is_empty(), "inputs to break", tool.clone())?;
    refused(w, &tool, ways).await
}

#[when("the agent calls every tool with a member that none of them knows")]
async fn unknown_members(w: &mut World) -> StepResult {
    for row in TABLE {
        if !w.run.profile.claims_tool(row.tool) {
            continue;
        }
        let mut arguments = good(w, row.tool)?;
        arguments["no_such_member"] = json!(1);
        refused(w, row.tool, vec![("no_such_member".to_owned(), arguments)]).await?;
    }
    Ok(())
}

async fn refused(w: &mut World, tool: &str, ways: Vec<(String, Value)>) -> StepResult {
    let mut wrong = Vec::new();
    for (what, arguments) in ways {
        let outcome = w.call(AGENT, tool, arguments).await?;
        if !outcome.is_error() {
            wrong.push(format!("{what} is accepted: {}", outcome.brief()));
        } else if outcome.codes().is_empty() {
            wrong.push(format!("{what} has no code: {}", outcome.brief()));
        } else if message(&outcome).trim().is_empty() {
            wrong.push(format!("{what} has no message: {}", outcome.brief()));
        }
    }
    check(wrong.is_empty(), format!("{tool} refuses each with code and message"), wrong.join("; "))
}

#[when("the agent uses every tool once")]
async fn uses_all(w: &mut World) -> StepResult {
    // Leaving comes after joining, and the order of the table has it so.
    for row in TABLE {
        if !w.run.profile.claims_tool(row.tool) {
            continue;
        }
        let arguments = good(w, row.tool)?;
        w.tool(AGENT, row.tool, arguments).await?;
        w.success()?;
    }
    Ok(())
}

#[then("every result so far conforms to its output schema and is there as JSON text too")]
fn conform(w: &mut World) -> StepResult {
    let tools = w.notes.get("tools").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut wrong = Vec::new();
    let mut judged = 0;
    for outcome in &w.history {
        let schema = tools
            .iter()
            .find(|t| t["name"].as_str().is_some_and(|n| short(n) == outcome.tool))
            .and_then(|t| t.get("outputSchema"));
        let Some(schema) = schema else {
            wrong.push(format!("{} has no output schema", outcome.tool));
            continue;
        };
        let validator = jsonschema::validator_for(schema).map_err(|e| StepError::Check {
            expected: format!("{}: an output schema that is JSON Schema", outcome.tool),
            seen: e.to_string(),
        })?;
        judged += 1;
        let fits = |v: &Value| {
            validator.iter_errors(v).next().map(|e| format!("{}: {e}", e.instance_path()))
        };
        match (outcome.is_error(), outcome.structured()) {
            (false, None) => wrong.push(format!("{}: no structuredContent", outcome.tool)),
            (false, Some(body)) => {
                if let Some(e) = fits(body) {
                    wrong.push(format!("{}: {e}", outcome.tool));
                }
                if !outcome.json_items().contains(body) {
                    wrong.push(format!("{}: no text item with the same JSON", outcome.tool));
                }
            }
            // MCP holds a declared schema against every structuredContent.
            (true, Some(body)) => {
                if let Some(e) = fits(body) {
                    wrong.push(format!("{}: an error that breaks the schema: {e}", outcome.tool));
                }
            }
            (true, None) => {}
        }
    }
    check(judged > 0, "results to judge", "none")?;
    wrong.dedup();
    check(wrong.is_empty(), "results that conform to their output schemas", wrong.join("; "))
}

/// Tools whose results carry `sync` by the seed's tables; `?` where the table has it optional.
const SYNCED: &[&str] = &[
    "room_open",
    "room_state",
    "room_members_list",
    "room_member_get",
    "room_timeline",
    "draft_get",
    "room_create",
    "room_leave",
    "room_send_message",
    "room_submit_event",
    "join_request_review",
];

#[then("every room-scoped result so far carries a complete sync")]
fn all_synced(w: &mut World) -> StepResult {
    let mut wrong = Vec::new();
    for outcome in w.history.iter().filter(|o| !o.is_error()) {
        if !SYNCED.contains(&outcome.tool.as_str()) {
            continue;
        }
        let body = outcome.body();
        let missing: Vec<&str> = [
            "host",
            "room_id",
            "head_seq",
            "head_hash",
            "synced_seq",
            "remote_seq",
            "subscribed",
            "unread_count",
            "pending_inbox_count",
        ]
        .into_iter()
        .filter(|m| body["sync"].get(m).is_none_or(Value::is_null))
        .collect();
        if !missing.is_empty() {
            wrong.push(format!("{} lacks {}", outcome.tool, missing.join(", ")));
        }
    }
    wrong.dedup();
    check(wrong.is_empty(), "a sync with all nine members", wrong.join("; "))
}

#[then("every failure so far carries isError, a code and a message")]
fn failures_are_clear(w: &mut World) -> StepResult {
    let failures: Vec<&Outcome> = w.history.iter().filter(|o| o.is_error()).collect();
    check(!failures.is_empty(), "failures to judge", "none")?;
    for outcome in failures {
        if outcome.codes().is_empty() || message(outcome).trim().is_empty() {
            return no("a code and a message", outcome.brief());
        }
    }
    Ok(())
}

#[then("the failure says what to do")]
fn says_what_to_do(w: &mut World) -> StepResult {
    let outcome = w.outcome()?;
    // More than the code again: a sentence.
    let message = message(outcome);
    check(
        message.split_whitespace().count() >= 3,
        "a message of some words beside the code",
        outcome.brief(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_member_is_broken_in_some_way() {
        for row in TABLE {
            let ways = broken(row.tool, &json!({}));
            for (member, _) in row.members {
                assert!(ways.iter().any(|(what, _)| what.starts_with(member)), "{member}");
            }
        }
    }
}
