//! Judging the shape of results: structured content, schemas, records, types.

use cucumber::{then, when};
use serde_json::{Value, json};

use crate::failure::{StepError, StepResult, check, no};
use crate::profile::TOOL_PREFIX;
use crate::wire::brief;
use crate::world::{AGENT, World, target_error};

#[when(regex = r#"^the room of the result is called "([^"]*)" on "([^"]*)"$"#)]
fn name_room(w: &mut World, name: String, host: String) -> StepResult {
    let body = w.success()?;
    let id = [&body["sync"]["room_id"], &body["room"]["room_id"], &body["room"]["id"]]
        .into_iter()
        .find_map(Value::as_str)
        .map(str::to_owned);
    match id {
        Some(id) => {
            w.hosts.name_room(&name, &host, &id);
            Ok(())
        }
        None => no("a room id in the result", brief(&body)),
    }
}

#[when(regex = r#"^we remember the hash of the first record of "([^"]*)" as "([^"]*)"$"#)]
fn first_hash(w: &mut World, room: String, name: String) -> StepResult {
    let first = w.records(&room)?.into_iter().next().unwrap_or_default();
    w.notes.insert(name, first["hash"].clone());
    Ok(())
}

#[then(regex = r#"^the full record of seq (\d+) of "([^"]*)" is in the result$"#)]
fn full_record(w: &mut World, seq: u64, room: String) -> StepResult {
    let record = w
        .records(&room)?
        .into_iter()
        .find(|r| r["seq"] == seq)
        .ok_or_else(|| StepError::Defect(format!("no seq {seq} in {room}")))?;
    let body = w.success()?;
    check(contains(&body, &record), format!("the record of seq {seq}"), brief(&body))
}

fn contains(value: &Value, wanted: &Value) -> bool {
    value == wanted
        || match value {
            Value::Object(members) => members.values().any(|v| contains(v, wanted)),
            Value::Array(items) => items.iter().any(|v| contains(v, wanted)),
            _ => false,
        }
}

#[then(regex = r#"^the state lists the type "([^"]*)"$"#)]
fn lists_type(w: &mut World, name: String) -> StepResult {
    let body = w.success()?;
    let types = &body["room"]["types"];
    let found = match types {
        Value::Array(items) => {
            items.iter().any(|t| t == name.as_str() || t["type"] == name.as_str())
        }
        Value::Object(members) => members.contains_key(&name),
        _ => false,
    };
    check(found, format!("the type {name}"), brief(types))
}

#[then(regex = r#"^the tool catalogue does not hold "([^"]*)"$"#)]
fn catalogue_is_clean(w: &mut World, text: String) -> StepResult {
    let tools = w.notes.get("tools").cloned().unwrap_or_default().to_string();
    let instructions = w.session(AGENT)?.initialized.clone().unwrap_or_default().to_string();
    check(
        !tools.contains(&text) && !instructions.contains(&text),
        "descriptions and instructions free of room content",
        "the text is in there",
    )
}

#[then("the structured result conforms to the output schema and equals the JSON text")]
async fn structured(w: &mut World) -> StepResult {
    let outcome = w.outcome()?.clone();
    w.success()?;
    let Some(structured) = outcome.structured() else {
        return no("structuredContent", outcome.texts().join(" "));
    };
    let same = outcome.json_items().iter().any(|item| item == structured);
    check(same, "a JSON text item equal to structuredContent", outcome.texts().join(" "))?;
    let listed = w.session(AGENT)?.request("tools/list", json!({}), w.run.timeout()).await;
    let listed = listed.map_err(target_error)?;
    let name = format!("{TOOL_PREFIX}{}", outcome.tool);
    let tool =
        listed["tools"].as_array().into_iter().flatten().find(|t| t["name"] == name.as_str());
    let Some(schema) = tool.and_then(|t| t.get("outputSchema")) else { return Ok(()) };
    let validator = jsonschema::validator_for(schema).map_err(|e| StepError::Check {
        expected: "an output schema that is a JSON Schema".to_owned(),
        seen: e.to_string(),
    })?;
    let errors: Vec<String> =
        validator.iter_errors(structured).map(|e| format!("{}: {e}", e.instance_path())).collect();
    check(errors.is_empty(), "a result that fits its outputSchema", errors.join("; "))
}
