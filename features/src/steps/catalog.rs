//! The tool catalogue: names, schemas, annotations, descriptions.

use std::collections::BTreeMap;

use cucumber::{given, then};
use serde_json::{Value, json};

use crate::failure::{StepResult, check, no};
use crate::profile::{TOOL_PREFIX, TOOLS, short};
use crate::world::{AGENT, World, target_error};

/// One tool of the seed's tables: name, members (`!` required, types after a colon),
/// hints as the table states them (read-only, idempotent, open world).
pub(super) struct Row {
    pub tool: &'static str,
    pub members: &'static [(&'static str, &'static str)],
    read_only: bool,
    idempotent: Option<bool>,
    open_world: Option<bool>,
}

const fn row(
    tool: &'static str,
    members: &'static [(&'static str, &'static str)],
    read_only: bool,
    idempotent: Option<bool>,
    open_world: Option<bool>,
) -> Row {
    Row { tool, members, read_only, idempotent, open_world }
}

const YES: Option<bool> = Some(true);

/// The tables of section 4.3. `host` beside `room_id` is a rule of its own.
#[rustfmt::skip]
pub(super) const TABLE: &[Row] = &[
    row("identity_current", &[], true, None, None),
    row("hosts_list", &[], true, None, None),
    row("rooms_search", &[("host", "!string"), ("status", "string"), ("tag", "string"), ("keyword", "string"), ("creator", "string"), ("starts_after", "number"), ("ends_before", "number"), ("language", "string"), ("limit", "number"), ("cursor", "string")], true, None, YES),
    row("rooms_list", &[("status", "string"), ("membership", "string"), ("limit", "number"), ("cursor", "string")], true, None, None),
    row("room_open", &[("host", "!string"), ("room_id", "!string"), ("subscribe", "boolean"), ("refresh", "boolean")], false, YES, YES),
    row("room_state", &[("room_id", "!string"), ("refresh", "boolean"), ("include_types", "boolean")], true, None, None),
    row("room_members_list", &[("room_id", "!string"), ("status", "string"), ("role", "string"), ("include_profiles", "boolean"), ("limit", "number"), ("cursor", "string")], true, None, None),
    row("room_member_get", &[("room_id", "!string"), ("agent_id", "!string"), ("include_profile", "boolean"), ("include_recent_activity", "boolean")], true, None, None),
    row("agent_status_list", &[("room_id", "!string"), ("refresh", "boolean")], true, None, YES),
    row("agent_status_get", &[("room_id", "!string"), ("agent_id", "!string"), ("refresh", "boolean")], true, None, YES),
    row("agent_status_set", &[("room_id", "!string"), ("state", "!string"), ("summary", "string"), ("seen_seq", "number"), ("seen_hash", "string"), ("claim_id", "string"), ("activity", "string"), ("expires_at", "number"), ("extra", "object")], false, None, YES),
    row("room_timeline", &[("room_id", "!string"), ("after_seq", "number"), ("before_seq", "number"), ("limit", "number"), ("types", "array"), ("actors", "array"), ("unread_only", "boolean"), ("mark_read", "boolean"), ("refresh", "boolean"), ("include_records", "boolean")], false, YES, None),
    row("room_mark_read", &[("room_id", "!string"), ("through_seq", "!number")], false, YES, None),
    row("inbox_next", &[("room_id", "string"), ("kinds", "array"), ("limit", "number"), ("wait_ms", "number"), ("claim", "boolean")], false, None, None),
    row("inbox_ack", &[("ids", "!array"), ("action", "!string"), ("defer_until", "number")], false, YES, None),
    row("drafts_list", &[("room_id", "string"), ("limit", "number"), ("cursor", "string")], true, None, None),
    row("draft_get", &[("draft_id", "!string")], true, None, None),
    row("draft_commit", &[("draft_id", "!string"), ("action", "!string"), ("content", "string"), ("content_type", "string"), ("mentions", "array"), ("references", "array"), ("extra", "object"), ("type", "string"), ("payload", "object"), ("base_seq", "number"), ("base_hash", "string"), ("on_head_mismatch", "string")], false, None, YES),
    row("draft_drop", &[("draft_id", "!string")], false, YES, None),
    row("profile_update", &[("profile_service", "!string"), ("profile", "!object")], false, None, YES),
    row("room_create", &[("host", "!string"), ("topic", "!string"), ("visibility", "!string"), ("start_time", "!number"), ("end_time", "!number"), ("agenda", "string"), ("guidance", "string"), ("tags", "array"), ("language", "string"), ("policy", "object"), ("types", "array")], false, None, YES),
    row("room_join", &[("host", "string"), ("room_id", "!string"), ("role", "!string"), ("perspective", "string"), ("reason", "string"), ("request_id", "string"), ("extra", "object")], false, None, YES),
    row("room_leave", &[("room_id", "!string"), ("reason", "string")], false, None, None),
    row("room_send_message", &[("room_id", "!string"), ("content", "!string"), ("content_type", "string"), ("mentions", "array"), ("references", "array"), ("extra", "object"), ("base_seq", "number"), ("base_hash", "string"), ("on_head_mismatch", "string")], false, None, None),
    row("room_submit_event", &[("room_id", "!string"), ("type", "!string"), ("payload", "!object"), ("mentions", "array"), ("references", "array"), ("base_seq", "number"), ("base_hash", "string"), ("on_head_mismatch", "string")], false, None, None),
    row("join_requests_list", &[("room_id", "!string"), ("status", "string"), ("limit", "number"), ("cursor", "string")], true, None, None),
    row("join_request_review", &[("room_id", "!string"), ("request_id", "!string"), ("decision", "!string"), ("role", "string"), ("reason", "string")], false, None, None),
];

/// Closed lists of values that the tables spell out.
#[rustfmt::skip]
pub(super) const ENUMS: &[(&str, &str, &[&str])] = &[
    ("rooms_list", "membership", &["member", "creator", "moderator", "pending", "all"]),
    ("room_members_list", "status", &["active", "left", "removed", "banned", "all"]),
    ("room_members_list", "role", &["moderator", "speaker", "observer"]),
    ("inbox_ack", "action", &["handled", "dismissed", "defer"]),
    ("draft_commit", "action", &["revise", "send_as_is", "stay_silent", "send_anyway"]),
    ("draft_commit", "on_head_mismatch", &["hold", "reject", "send_anyway"]),
    ("room_create", "visibility", &["public", "restricted", "private"]),
    ("room_join", "role", &["moderator", "speaker", "observer"]),
    ("room_send_message", "on_head_mismatch", &["hold", "reject", "send_anyway"]),
    ("room_submit_event", "on_head_mismatch", &["hold", "reject", "send_anyway"]),
    ("join_request_review", "decision", &["approve", "reject"]),
    ("join_request_review", "role", &["moderator", "speaker", "observer"]),
];

#[given("the tool catalogue")]
async fn catalogue(w: &mut World) -> StepResult {
    if !w.sessions.contains_key(AGENT) {
        w.start(AGENT).await?;
    }
    let (mut tools, mut cursor) = (Vec::new(), None::<String>);
    // A list that never ends is no list.
    for _ in 0..20 {
        let params = cursor.map_or(json!({}), |c| json!({ "cursor": c }));
        let page = w.session(AGENT)?.request("tools/list", params, w.run.timeout()).await;
        let page = page.map_err(target_error)?;
        tools.extend(page["tools"].as_array().cloned().unwrap_or_default());
        cursor = page["nextCursor"].as_str().map(str::to_owned);
        if cursor.is_none() {
            w.notes.insert("tools".to_owned(), Value::Array(tools));
            return Ok(());
        }
    }
    no("a tool list that ends", "20 pages and another cursor")
}

fn offered(w: &World) -> BTreeMap<String, Value> {
    let tools = w.notes.get("tools").and_then(Value::as_array).cloned().unwrap_or_default();
    tools
        .into_iter()
        .filter_map(|t| {
            let name = t["name"].as_str()?;
            let known = name.starts_with(TOOL_PREFIX) && TOOLS.contains(&short(name));
            known.then(|| (short(name).to_owned(), t.clone()))
        })
        .collect()
}

/// Collects what is wrong over all offered tools, so that one run names everything.
fn judge(w: &World, what: &str, mut wrong: impl FnMut(&Row, &Value) -> Vec<String>) -> StepResult {
    let offered = offered(w);
    let mut found = Vec::new();
    for row in TABLE {
        if let Some(tool) = offered.get(row.tool) {
            found.extend(wrong(row, tool).into_iter().map(|m| format!("{}: {m}", row.tool)));
        }
    }
    check(!offered.is_empty(), "standard tools in tools/list", "none")?;
    check(found.is_empty(), what, found.join("; "))
}

#[then("every claimed standard tool is offered once")]
fn all_offered(w: &mut World) -> StepResult {
    let names: Vec<String> = w.notes["tools"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|t| t["name"].as_str().map(str::to_owned))
        .collect();
    for tool in w.run.profile.tools() {
        let full = format!("{TOOL_PREFIX}{tool}");
        let count = names.iter().filter(|n| **n == full).count();
        check(count == 1, format!("{full} once"), format!("{count} times"))?;
    }
    Ok(())
}

#[then("each has the seed's required and optional inputs")]
fn inputs(w: &mut World) -> StepResult {
    judge(w, "the input members of the seed's tables", |row, tool| {
        let schema = &tool["inputSchema"];
        let properties = &schema["properties"];
        let required: Vec<&str> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let mut wrong = Vec::new();
        if schema["type"] != "object" {
            wrong.push("inputSchema is not of type object".to_owned());
        }
        for (name, kind) in row.members {
            let (must, kind) = match kind.strip_prefix('!') {
                Some(kind) => (true, kind),
                None => (false, *kind),
            };
            if properties.get(name).is_none() {
                wrong.push(format!("no input {name}"));
            } else if must != required.contains(name) {
                wrong.push(format!("{name} is {}required", if must { "not " } else { "" }));
            } else if !accepts_type(&properties[*name], kind) {
                wrong.push(format!("{name} does not take a {kind}"));
            }
        }
        for name in &required {
            if !row.members.iter().any(|(n, _)| n == name) {
                wrong.push(format!("requires {name}, which the seed does not know"));
            }
        }
        wrong
    })
}

/// Whether a member's schema takes values of the type; a schema that says nothing does.
fn accepts_type(schema: &Value, kind: &str) -> bool {
    let fits =
        |t: &Value| t.as_str().is_some_and(|t| t == kind || (kind == "number" && t == "integer"));
    if schema["enum"].is_array() || schema["const"].is_string() {
        return kind == "string";
    }
    let alternatives = ["anyOf", "oneOf"].iter().find_map(|k| schema[*k].as_array());
    match (&schema["type"], alternatives) {
        (_, Some(list)) => list.iter().any(|s| accepts_type(s, kind)),
        (Value::Array(types), _) => types.iter().any(fits),
        (Value::Null, _) => true,
        (t, _) => fits(t),
    }
}

#[then("each tool with a room_id also takes host")]
fn host_everywhere(w: &mut World) -> StepResult {
    judge(w, "an optional host beside every room_id", |row, tool| {
        let schema = &tool["inputSchema"];
        let has_room = row.members.iter().any(|(n, _)| *n == "room_id");
        let has_host = schema["properties"].get("host").is_some();
        let closed = schema["additionalProperties"] == false;
        match has_room && !has_host && closed {
            true => vec!["a closed schema without host".to_owned()],
            false if has_room && !has_host => vec!["host is not described".to_owned()],
            false => Vec::new(),
        }
    })
}

#[then("each closed list of values is the seed's")]
fn enumerations(w: &mut World) -> StepResult {
    judge(w, "the enumerations of the seed's tables", |row, tool| {
        let properties = &tool["inputSchema"]["properties"];
        let mut wrong = Vec::new();
        for (_, member, values) in ENUMS.iter().filter(|(t, ..)| *t == row.tool) {
            if let Some(mut seen) = values_of(&properties[*member]) {
                let mut wanted: Vec<String> = values.iter().map(|v| (*v).to_owned()).collect();
                seen.sort();
                wanted.sort();
                if seen != wanted {
                    wrong.push(format!("{member} takes {}", seen.join("|")));
                }
            }
        }
        wrong
    })
}

/// The closed list of a member's schema, wherever schema generators put it.
fn values_of(schema: &Value) -> Option<Vec<String>> {
    let text = |v: &Value| v.as_str().map(str::to_owned);
    if let Some(list) = schema["enum"].as_array() {
        return Some(list.iter().filter_map(text).collect());
    }
    let alternatives = ["anyOf", "oneOf"].iter().find_map(|k| schema[*k].as_array())?;
    let mut all = Vec::new();
    for one in alternatives {
        all.extend(text(&one["const"]));
        all.extend(values_of(one).unwrap_or_default());
    }
    (!all.is_empty()).then_some(all)
}

#[then("each annotation that the seed states is declared so")]
fn annotations(w: &mut World) -> StepResult {
    judge(w, "the annotations of the seed's tables", |row, tool| {
        let hints = &tool["annotations"];
        // An absent hint has the default of MCP: not read-only, not idempotent, open world.
        let hint = |name: &str, default: bool| hints[name].as_bool().unwrap_or(default);
        let mut wrong = Vec::new();
        if hint("readOnlyHint", false) != row.read_only {
            wrong.push(format!("readOnlyHint is not {}", row.read_only));
        }
        if row.idempotent.is_some_and(|v| hint("idempotentHint", false) != v) {
            wrong.push("idempotentHint differs".to_owned());
        }
        if row.open_world.is_some_and(|v| hint("openWorldHint", true) != v) {
            wrong.push("openWorldHint differs".to_owned());
        }
        wrong
    })
}

#[then("each of the four hints is explicit on every tool")]
fn explicit_hints(w: &mut World) -> StepResult {
    judge(w, "all four hints written out", |_, tool| {
        ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"]
            .iter()
            .filter(|name| !tool["annotations"][**name].is_boolean())
            .map(|name| format!("no {name}"))
            .collect()
    })
}

#[then("each description says whether the tool reads locally, reads remotely or signs")]
fn descriptions(w: &mut World) -> StepResult {
    judge(w, "a description that names local reads, remote reads or signing", |_, tool| {
        let text = tool["description"].as_str().unwrap_or_default().to_lowercase();
        // Any wording of the three passes; silence does not.
        let words = ["local", "cache", "remote", "http", "host", "network", "sign", "submit"];
        if words.iter().any(|w| text.contains(w)) { Vec::new() } else { vec![format!("{text:?}")] }
    })
}

#[then("each has an output schema")]
fn output_schemas(w: &mut World) -> StepResult {
    judge(w, "an outputSchema", |_, tool| {
        if tool["outputSchema"].is_object() { Vec::new() } else { vec!["none".to_owned()] }
    })
}

#[then("no tool takes what only the connector may decide")]
fn no_signing_inputs(w: &mut World) -> StepResult {
    let writes = [
        "room_create",
        "room_join",
        "room_leave",
        "room_send_message",
        "room_submit_event",
        "join_request_review",
        "profile_update",
        "draft_commit",
    ];
    judge(w, "no input for actor, nonce, created_at, hash or signature", |row, tool| {
        let properties = &tool["inputSchema"]["properties"];
        ["actor", "nonce", "created_at", "hash", "signature"]
            .iter()
            .filter(|name| writes.contains(&row.tool) && properties.get(**name).is_some())
            .map(|name| format!("takes {name}"))
            .collect()
    })
}

#[then("no tool signs arbitrary data, hands out tokens or changes the allowlist")]
fn no_dangerous_tool(w: &mut World) -> StepResult {
    if w.run.profile.claims("debug-tools") {
        return Ok(());
    }
    // By name only: a tool outside the standard set whose name promises one of the three.
    let all = w.notes["tools"].as_array().cloned().unwrap_or_default();
    let suspicious: Vec<&str> = all
        .iter()
        .filter_map(|t| t["name"].as_str())
        .filter(|name| !TOOLS.contains(&short(name)))
        .filter(|name| {
            let words: Vec<&str> = name.split(['_', '-', '.', '/']).collect();
            let has = |w: &str| words.contains(&w);
            has("sign")
                || has("jwt")
                || has("token")
                || has("allow")
                || has("allowlist")
                || has("key")
                || has("seed")
                || (has("host") || has("hosts")) && (has("add") || has("set") || has("remove"))
                || has("identity") && (has("switch") || has("select") || has("set"))
        })
        .collect();
    check(suspicious.is_empty(), "no such tool", suspicious.join(", "))
}

#[then("no debug tool is offered unless the profile claims them")]
fn no_debug_tool(w: &mut World) -> StepResult {
    if w.run.profile.claims("debug-tools") {
        return Ok(());
    }
    let all = w.notes["tools"].as_array().cloned().unwrap_or_default();
    let debug: Vec<&str> = all
        .iter()
        .filter_map(|t| t["name"].as_str())
        .filter(|n| !TOOLS.contains(&short(n)) && (n.contains("debug") || n.contains("envelope")))
        .collect();
    check(debug.is_empty(), "no debug tool by default", debug.join(", "))
}

#[then(
    "instructions and descriptions speak of waking, reading, deciding, announcing, writing, held drafts and closing"
)]
fn teaches_the_loop(w: &mut World) -> StepResult {
    let initialized = w.session(AGENT)?.initialized.clone().unwrap_or_default();
    let mut text = initialized["instructions"].as_str().unwrap_or_default().to_lowercase();
    check(!text.is_empty(), "server instructions", "none")?;
    for tool in w.notes["tools"].as_array().into_iter().flatten() {
        text.push_str(&tool["description"].as_str().unwrap_or_default().to_lowercase());
    }
    // One telling word for each turn of the loop; any wording around it passes.
    let turns: [(&str, &[&str]); 7] = [
        ("waking", &["inbox"]),
        ("reading", &["timeline", "room_state", "snapshot", "unread"]),
        ("deciding", &["silent", "silence", "decide", "dismiss"]),
        ("announcing", &["status"]),
        ("writing", &["send", "submit", "write"]),
        ("held drafts", &["held", "draft"]),
        ("closing", &["ack", "handled", "mark"]),
    ];
    let missing: Vec<&str> = turns
        .iter()
        .filter(|(_, words)| !words.iter().any(|w| text.contains(w)))
        .map(|(turn, _)| *turn)
        .collect();
    check(
        missing.is_empty(),
        "every turn of the loop",
        format!("nothing on {}", missing.join(", ")),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_every_tool_once() {
        let mut rows: Vec<&str> = TABLE.iter().map(|r| r.tool).collect();
        let mut tools = TOOLS.to_vec();
        rows.sort_unstable();
        tools.sort_unstable();
        assert_eq!(rows, tools);
    }

    #[test]
    fn schema_generators_differ_and_all_pass() {
        for schema in [
            json!({ "type": "string" }),
            json!({ "type": ["string", "null"] }),
            json!({ "anyOf": [{ "type": "string" }, { "type": "null" }] }),
            json!({ "enum": ["a"] }),
            json!({}),
        ] {
            assert!(accepts_type(&schema, "string"), "{schema}");
        }
        assert!(accepts_type(&json!({ "type": "integer" }), "number"));
        assert!(!accepts_type(&json!({ "type": "integer" }), "string"));
        let one_of = json!({ "oneOf": [{ "const": "a" }, { "const": "b" }] });
        assert_eq!(values_of(&one_of), Some(vec!["a".into(), "b".into()]));
    }
}
