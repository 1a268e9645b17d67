//! Held drafts: what is held, and the four ways to commit it.

use cucumber::{given, then, when};
use serde_json::{Value, json};

use super::call::session;
use crate::failure::{StepError, StepResult, check};
use crate::wire::brief;
use crate::world::World;

#[then("the write is sent")]
#[when("the write is sent")]
fn sent(w: &mut World) -> StepResult {
    let body = w.success()?;
    check(body["status"] == "sent", "status sent", brief(&body))
}

#[then("the write is held")]
#[given("the write is held")]
#[when("the write is held")]
fn held(w: &mut World) -> StepResult {
    let body = w.success()?;
    let id = body["draft"]["id"].as_str();
    check(
        body["status"] == "held" && id.is_some_and(|id| !id.is_empty()),
        "status held, with a draft",
        brief(&body),
    )?;
    w.notes.insert("draft".to_owned(), json!(id));
    Ok(())
}

#[then("the write is rejected with the changes")]
fn rejected(w: &mut World) -> StepResult {
    let body = w.success()?;
    check(
        body["status"] == "rejected" && body["changes"].is_array(),
        "status rejected, with changes",
        brief(&body),
    )
}

/// The id of the draft the story is about.
fn draft(w: &World) -> StepResult<Value> {
    w.notes
        .get("draft")
        .cloned()
        .ok_or_else(|| StepError::Defect("no draft was held yet".to_owned()))
}

#[then("the draft holds neither envelope nor signature nor token")]
fn draft_is_local(w: &mut World) -> StepResult {
    let body = w.success()?;
    let draft = &body["draft"];
    let mut bad = Vec::new();
    forbidden(draft, "draft", &mut bad);
    check(bad.is_empty(), "no signing material in a held draft", bad.join(", "))
}

/// Paths of everything in a value that belongs to signing.
pub fn forbidden(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (name, v) in members {
                let at = format!("{path}.{name}");
                if ["envelope", "signature", "nonce", "jwt", "token", "authorization"]
                    .contains(&name.as_str())
                {
                    found.push(at.clone());
                }
                forbidden(v, &at, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|v| forbidden(v, path, found)),
        _ => {}
    }
}

#[when(
    regex = r#"^(?:the agent|session "([^"]*)") (sends the draft as it is|sends the draft anyway|stays silent on the draft)$"#
)]
async fn commits(w: &mut World, name: String, how: String) -> StepResult {
    let action = match how.as_str() {
        "sends the draft as it is" => "send_as_is",
        "sends the draft anyway" => "send_anyway",
        _ => "stay_silent",
    };
    let arguments = json!({ "draft_id": draft(w)?, "action": action });
    w.tool(session(&name), "draft_commit", arguments).await
}

#[when(regex = r#"^(?:the agent|session "([^"]*)") revises the draft to "([^"]*)"$"#)]
async fn revises(w: &mut World, name: String, text: String) -> StepResult {
    let arguments = json!({ "draft_id": draft(w)?, "action": "revise", "content": text });
    w.tool(session(&name), "draft_commit", arguments).await
}

#[when(regex = r#"^(?:the agent|session "([^"]*)") looks at the draft$"#)]
async fn looks(w: &mut World, name: String) -> StepResult {
    let arguments = json!({ "draft_id": draft(w)? });
    w.tool(session(&name), "draft_get", arguments).await
}

#[when(regex = r#"^(?:the agent|session "([^"]*)") drops the draft$"#)]
async fn drops(w: &mut World, name: String) -> StepResult {
    let arguments = json!({ "draft_id": draft(w)? });
    w.tool(session(&name), "draft_drop", arguments).await
}

#[then(regex = r#"^(\d+) drafts? (?:is|are) held$"#)]
async fn count(w: &mut World, wanted: usize) -> StepResult {
    w.tool(crate::world::AGENT, "drafts_list", json!({})).await?;
    let body = w.success()?;
    let seen = body["drafts"].as_array().map_or(0, Vec::len);
    check(seen == wanted, format!("{wanted} held drafts"), brief(&body))
}
