//! Agent status as the host holds it.

use cucumber::then;
use serde_json::{Value, json};

use super::judge::covers;
use crate::failure::{StepResult, check};
use crate::wire::brief;
use crate::world::World;

fn held(w: &World, room: &str) -> StepResult<Option<Value>> {
    let (host, id) = w.hosts.host_of(room)?;
    let agent = w.agent_id();
    let dump = host.dump();
    let all = dump["rooms"][&id]["statuses"].as_array().cloned().unwrap_or_default();
    Ok(all.into_iter().find(|s| s["agent_id"] == agent.as_str()))
}

#[then(regex = r#"^the host has the agent's status in "([^"]*)" with (\{.*\})$"#)]
fn host_has(w: &mut World, room: String, value: String) -> StepResult {
    let wanted = w.json(&value)?;
    w.success()?;
    let seen = held(w, &room)?.unwrap_or_default();
    check(covers(&seen, &wanted), format!("a status with {wanted}"), brief(&seen))
}

#[then(regex = r#"^the host has no status of the agent in "([^"]*)"$"#)]
fn host_has_none(w: &mut World, room: String) -> StepResult {
    let seen = held(w, &room)?;
    check(seen.is_none(), "no status of the agent", format!("{seen:?}"))
}

#[then(regex = r#"^the status names a record of "([^"]*)" as seen$"#)]
fn seen_is_a_record(w: &mut World, room: String) -> StepResult {
    let status = held(w, &room)?.unwrap_or_default();
    let found = w
        .records(&room)?
        .iter()
        .any(|r| r["seq"] == status["seen_seq"] && r["hash"] == status["seen_hash"]);
    check(found, "seen_seq and seen_hash of a record of the room", brief(&status))
}

#[then(regex = r#"^the reported status is the host's for "([^"]*)"$"#)]
fn as_stored(w: &mut World, room: String) -> StepResult {
    let stored = held(w, &room)?.unwrap_or_default();
    let body = w.success()?;
    check(
        body["status"]["expires_at"] == stored["expires_at"] && stored["expires_at"].is_u64(),
        format!("expires_at {}", stored["expires_at"]),
        brief(&body),
    )
}

#[then("there is no status, said in either way")]
fn none(w: &mut World) -> StepResult {
    let outcome = w.outcome()?;
    let absent = outcome.body()["status"].is_null();
    let told = outcome.codes().contains(&"agent_status_not_found".to_owned());
    check(
        if outcome.is_error() { told } else { absent },
        "no status, or agent_status_not_found",
        outcome.brief(),
    )
}

#[then("the agent is told that nobody is such a member")]
fn unknown_member(w: &mut World) -> StepResult {
    let outcome = w.outcome()?;
    let member = outcome.body()["member"].clone();
    let unknown = member["status"] == "unknown" && member["joined_seq"] == json!(null);
    check(
        if outcome.is_error() { !outcome.codes().is_empty() } else { unknown },
        "status unknown, or a clear error",
        outcome.brief(),
    )
}
