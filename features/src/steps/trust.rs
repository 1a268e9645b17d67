//! Judging what a target does with a host that cannot be trusted.
//!
//! Fixed by the seed: nothing unverified is shown or becomes the head, nothing is signed on
//! it, the agent is told. Open: code, wording, whether reads go on.

use cucumber::{then, when};
use serde_json::{Value, json};

use super::rooms::contents;
use crate::failure::{StepError, StepResult, check, no};
use crate::outcome::Outcome;
use crate::wire::brief;
use crate::world::{AGENT, World};

/// Words under which a sensible connector may say that something is wrong.
const TROUBLE: &[&str] = &[
    "error",
    "warning",
    "warn",
    "condition",
    "conflict",
    "fork",
    "rollback",
    "violation",
    "flag",
    "frozen",
    "untrusted",
    "unverified",
    "rejected",
    "problem",
    "issue",
    "alert",
    "evidence",
    "degraded",
    "integrity",
    "invalid",
    "halted",
    "diverged",
];

/// Whether a value says so: a non-empty member with a telling name, anywhere in it.
fn tells(value: &Value) -> bool {
    match value {
        Value::Object(members) => members.iter().any(|(name, v)| {
            let name = name.to_lowercase();
            let empty = match v {
                Value::Null | Value::Bool(false) => true,
                Value::Array(items) => items.is_empty(),
                Value::String(text) => text.is_empty() || text == "ok" || text == "none",
                Value::Object(members) => members.is_empty(),
                _ => false,
            };
            (TROUBLE.iter().any(|t| name.contains(t)) && !empty) || tells(v)
        }),
        Value::Array(items) => items.iter().any(tells),
        _ => false,
    }
}

fn told(outcome: &Outcome) -> bool {
    let body = outcome.body();
    let words = outcome
        .texts()
        .iter()
        .filter(|t| ap_protocol::json::parse(t.as_bytes()).is_err())
        .any(|t| TROUBLE.iter().any(|w| t.to_lowercase().contains(w)));
    outcome.is_error() || tells(&body) || words
}

#[then(regex = r#"^the agent is told that seq (\d+) of "([^"]*)" cannot be trusted$"#)]
fn told_of_seq(w: &mut World, _seq: u64, room: String) -> StepResult {
    told_of_room(w, room)
}

#[then(regex = r#"^the agent is told that something is wrong with "([^"]*)"$"#)]
fn told_of_room(w: &mut World, room: String) -> StepResult {
    let outcome = w.outcome()?;
    check(
        told(outcome),
        format!("an error or a warning about {room} in the result"),
        outcome.brief(),
    )
}

#[then(regex = r#"^the verified head of "([^"]*)" is still seq (\d+)$"#)]
async fn head_still(w: &mut World, room: String, seq: u64) -> StepResult {
    let id = w.hosts.room(&room)?.id.clone();
    let truth = w.records(&room)?;
    let outcome = w.call(AGENT, "room_state", json!({ "room_id": id })).await?;
    if outcome.is_error() {
        // A connector may refuse to read a room that it flagged.
        return check(!outcome.codes().is_empty(), "a state or a clear error", outcome.brief());
    }
    let sync = &outcome.body()["sync"];
    let (head, synced) = (sync["head_seq"].as_u64(), sync["synced_seq"].as_u64());
    let hash_is_true =
        truth.iter().any(|r| r["seq"] == sync["head_seq"] && r["hash"] == sync["head_hash"]);
    check(
        synced == Some(seq) && head.is_some_and(|h| h <= seq) && hash_is_true,
        format!("synced_seq {seq} and the true head hash"),
        sync.to_string(),
    )
}

#[then(regex = r#"^nothing of seq (\d+) of "([^"]*)" is shown$"#)]
async fn nothing_of_seq(w: &mut World, seq: u64, room: String) -> StepResult {
    let id = w.hosts.room(&room)?.id.clone();
    let arguments = json!({ "room_id": id, "limit": 500 });
    let outcome = w.call(AGENT, "room_timeline", arguments).await?;
    let body = outcome.body();
    let shown = body["items"].as_array().is_some_and(|l| l.iter().any(|i| i["seq"] == seq));
    check(!shown, format!("no item of seq {seq}"), outcome.brief())
}

#[then(regex = r#"^nothing of "([^"]*)" in "([^"]*)" is shown$"#)]
async fn nothing_of_text(w: &mut World, text: String, room: String) -> StepResult {
    let id = w.hosts.room(&room)?.id.clone();
    let arguments = json!({ "room_id": id, "limit": 500 });
    let outcome = w.call(AGENT, "room_timeline", arguments).await?;
    let shown = contents(&outcome.body()["items"]).contains(&text);
    check(!shown, format!("no item {text:?}"), outcome.brief())
}

#[then(regex = r#"^"([^"]*)" is not shown as ended$"#)]
async fn not_ended(w: &mut World, room: String) -> StepResult {
    let id = w.hosts.room(&room)?.id.clone();
    let outcome = w.call(AGENT, "room_state", json!({ "room_id": id })).await?;
    check(outcome.body()["room"]["status"] != "ended", "a room that goes on", outcome.brief())
}

#[then(regex = r#"^(\w+) is still shown as active in "([^"]*)"$"#)]
async fn still_active(w: &mut World, peer: String, room: String) -> StepResult {
    let id = w.hosts.room(&room)?.id.clone();
    let agent = w.key(&peer).agent_id().to_string();
    let arguments = json!({ "room_id": id, "agent_id": agent });
    let outcome = w.call(AGENT, "room_member_get", arguments).await?;
    check(
        outcome.is_error() || outcome.body()["member"]["status"] == "active",
        format!("{peer} active"),
        outcome.brief(),
    )
}

#[then(regex = r#"^nothing was signed on a forked base of "([^"]*)"$"#)]
fn no_forked_base(w: &mut World, room: String) -> StepResult {
    let room_id = w.hosts.room(&room)?.id.clone();
    let truth = w.records(&room)?;
    let forked = w.sent_envelopes().into_iter().find(|e| {
        let event = &e["event"];
        event["room_id"] == room_id.as_str()
            && !truth
                .iter()
                .any(|r| r["seq"] == event["base_seq"] && r["hash"] == event["base_hash"])
    });
    match forked {
        None => Ok(()),
        Some(e) => no("only bases of the verified chain", brief(&e["event"])),
    }
}

#[then(regex = r#"^the claimed head of "([^"]*)" is nowhere shown as verified$"#)]
fn liar_head(w: &mut World, room: String) -> StepResult {
    let truth = w.records(&room)?;
    let outcome = w.outcome()?;
    if outcome.is_error() {
        return Ok(());
    }
    let sync = &outcome.body()["sync"];
    let known = |seq: &Value, hash: Option<&Value>| {
        seq.is_null()
            || truth.iter().any(|r| r["seq"] == *seq && hash.is_none_or(|h| r["hash"] == *h))
    };
    check(
        known(&sync["head_seq"], Some(&sync["head_hash"])) && known(&sync["synced_seq"], None),
        "head and synced_seq among the verified records",
        sync.to_string(),
    )
}

#[then("a false creation record is not shown as the head")]
fn false_creation(w: &mut World) -> StepResult {
    let outcome = w.outcome()?.clone();
    if outcome.is_error() {
        return Ok(());
    }
    let body = outcome.body();
    let sync = &body["sync"];
    let id = sync["room_id"].as_str().unwrap_or_default();
    let truth = w.hosts.all().iter().flat_map(|h| h.records(id)).next();
    check(
        truth.is_some_and(|r| r["hash"] == sync["head_hash"]),
        "an error, or the true creation record as head",
        outcome.brief(),
    )
}

#[then(regex = r#"^a record in the result is the agent's own "([^"]*)"$"#)]
fn own_record(w: &mut World, text: String) -> StepResult {
    let outcome = w.outcome()?;
    if outcome.is_error() {
        return Ok(());
    }
    let body = outcome.body();
    let in_record = body["record"].is_null()
        || body["record"]["envelope"]["event"]["payload"]["content"] == text.as_str();
    let in_item = body["item"].is_null()
        || body["item"]["content"] == text.as_str()
        || body["item"]["payload"]["content"] == text.as_str();
    check(in_record && in_item, format!("the record of {text:?}, or none"), brief(&body))
}

#[when(regex = r#"^(?:the agent) opens "([^"]*)" as host "([^"]*)"$"#)]
async fn opens_as(w: &mut World, room: String, host: String) -> StepResult {
    let id = w.hosts.room(&room)?.id.clone();
    let host = w.fill(&host)?;
    w.tool(AGENT, "room_open", json!({ "host": host, "room_id": id })).await
}

#[then("neither seed nor token is in any output, on stderr or in the state directory")]
fn no_secret_anywhere(w: &mut World) -> StepResult {
    let bytes = crate::world::key_seed(w.seed, "the agent under test");
    let seed = w.provision.seed.clone();
    let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
    let mut places: Vec<(String, Vec<u8>)> =
        vec![("MCP output".to_owned(), w.heard().join("\n").into_bytes())];
    for session in w.ended.iter().chain(w.sessions.values()) {
        places.push(("stderr".to_owned(), session.stderr_tail().join("\n").into_bytes()));
    }
    files(&w.provision.state_dir, &mut places)?;
    for (place, content) in &places {
        let has = |needle: &[u8]| content.windows(needle.len()).any(|x| x == needle);
        check(
            !has(seed.as_bytes()) && !has(hex.as_bytes()) && !has(&bytes),
            "no key material in plain form",
            format!("the seed in {place}"),
        )?;
        let text = String::from_utf8_lossy(content);
        check(
            crate::wire::find_tokens(&text).is_empty(),
            "no request JWT kept or shown",
            format!("a token in {place}"),
        )?;
    }
    Ok(())
}

fn files(dir: &std::path::Path, found: &mut Vec<(String, Vec<u8>)>) -> StepResult {
    for entry in std::fs::read_dir(dir).map_err(StepError::defect)? {
        let path = entry.map_err(StepError::defect)?.path();
        if path.is_dir() {
            files(&path, found)?;
        } else if let Ok(content) = std::fs::read(&path) {
            found.push((path.display().to_string(), content));
        }
    }
    Ok(())
}

#[when(
    regex = r#"^the agent and session "([^"]*)" say (\d+) things each in "([^"]*)" at the same time$"#
)]
async fn both_say(w: &mut World, other: String, count: u64, room: String) -> StepResult {
    let id = w.hosts.room(&room)?.id.clone();
    let timeout = w.run.timeout();
    for n in 0..count {
        let mut calls = Vec::new();
        for who in [AGENT, other.as_str()] {
            let arguments = json!({
                "room_id": id, "content": format!("{who} {n}"), "on_head_mismatch": "send_anyway",
            });
            let tool = format!("{}room_send_message", crate::profile::TOOL_PREFIX);
            calls.push((arguments.clone(), w.session(who)?.send_tool(&tool, arguments)));
        }
        for (arguments, call) in calls {
            let outcome = Outcome::new("room_send_message", arguments, call.wait(timeout).await)
                .map_err(crate::world::target_error)?;
            check(
                !outcome.is_error(),
                "two processes on one state directory both write",
                outcome.brief(),
            )?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn telling_needs_a_telling_name_with_a_value() {
        assert!(tells(&json!({ "room": { "condition": { "kind": "fork" } } })));
        assert!(tells(&json!({ "warnings": ["x"] })));
        assert!(!tells(&json!({ "warnings": [], "condition": null, "forked": false })));
        assert!(!tells(&json!({ "sync": { "head_seq": 3 } })));
    }
}
