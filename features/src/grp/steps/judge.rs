//! Judging one answer: success, refusal, status, headers, members.

use cucumber::then;
use serde_json::{Value, json};

use super::{as_creator, at, succeeded};
use crate::failure::{StepError, StepResult, check};
use crate::wire::brief;
use crate::world::World;

#[then("it succeeds")]
async fn it_succeeds(w: &mut World) -> StepResult {
    succeeded(w)
}

#[then(regex = r#"^it is refused with "([^"]*)"$"#)]
async fn refused(w: &mut World, code: String) -> StepResult {
    let last = w.grp_last()?;
    let seen = last.code().unwrap_or_default();
    let fits = match code.strip_suffix('*') {
        Some(prefix) => seen.starts_with(prefix),
        None => code.split(" or ").any(|c| c == seen),
    };
    check(last.failed && fits, format!("a refusal with {code}"), last.brief())
}

#[then("it is refused")]
async fn refused_somehow(w: &mut World) -> StepResult {
    let last = w.grp_last()?;
    check(
        last.failed && last.body["error"].is_object(),
        "a refusal with an error envelope",
        last.brief(),
    )
}

#[then(regex = r#"^no tool takes a "([^"]*)" argument$"#)]
async fn no_argument(w: &mut World, name: String) -> StepResult {
    let last = w.grp_last()?;
    let tools = last.body["result"]["tools"].as_array().cloned().unwrap_or_default();
    check(!tools.is_empty(), "a list of tools", last.brief())?;
    let takes = tools.iter().find(|t| t["inputSchema"]["properties"].get(&name).is_some());
    check(takes.is_none(), format!("no tool with {name}"), brief(&json!(takes)))
}

#[then("it is refused over MCP")]
async fn refused_mcp(w: &mut World) -> StepResult {
    let last = w.grp_last()?;
    let refused = last.body.get("error").is_some() || last.body["result"]["isError"] == true;
    check(refused, "a tool or JSON-RPC error", last.brief())
}

#[then("the status is one of 4xx")]
async fn status_4xx(w: &mut World) -> StepResult {
    let last = w.grp_last()?;
    check((400..500).contains(&last.status), "a 4xx status", last.brief())
}

#[then(regex = r"^the status is (\d+)$")]
async fn status_is(w: &mut World, status: u16) -> StepResult {
    let last = w.grp_last()?;
    check(last.status == status, format!("HTTP {status}"), last.brief())
}

#[then(regex = r#"^its header "([^"]*)" is "([^"]*)"$"#)]
async fn header_is(w: &mut World, name: String, value: String) -> StepResult {
    let last = w.grp_last()?;
    let seen = last.header(&name).unwrap_or("(absent)");
    check(seen == value, format!("{name}: {value}"), format!("{name}: {seen}"))
}

#[then(regex = r#"^its header "([^"]*)" contains "([^"]*)"$"#)]
async fn header_contains(w: &mut World, name: String, value: String) -> StepResult {
    let last = w.grp_last()?;
    let seen = last.header(&name).unwrap_or("(absent)").to_ascii_lowercase();
    check(seen.contains(&value), format!("{name} with {value}"), format!("{name}: {seen}"))
}

#[then(regex = r#"^its "([^"]*)" is (.+)$"#)]
async fn value_is(w: &mut World, pointer: String, expected: String) -> StepResult {
    let expected = w.grp_fill(&expected)?;
    let expected: Value =
        ap_protocol::json::parse(expected.as_bytes()).map_err(StepError::defect)?;
    let seen = at(w, &pointer)?;
    check(
        seen == Some(&expected),
        format!("{pointer} is {expected}"),
        seen.map_or("it is absent".to_owned(), brief),
    )
}

#[then(regex = r#"^its "([^"]*)" matches "(.+)"$"#)]
async fn value_matches(w: &mut World, pointer: String, pattern: String) -> StepResult {
    let seen = at(w, &pointer)?.and_then(Value::as_str).unwrap_or_default().to_owned();
    check(fits(&pattern, &seen), format!("{pointer} like {pattern}"), w.log.clean(&seen))
}

/// Tiny patterns: `t_[43]` (base64url of that length after a prefix), `sha256:[hex]`, or a
/// text that must be contained.
fn fits(pattern: &str, seen: &str) -> bool {
    if let Some((prefix, rest)) = pattern.split_once('[') {
        let Some(tail) = seen.strip_prefix(prefix) else { return false };
        return match rest.trim_end_matches(']') {
            "hex" => tail.len() == 64 && tail.bytes().all(|b| b.is_ascii_hexdigit()),
            n => {
                tail.len() == n.parse().unwrap_or(0) && ap_protocol::encoding::decode(tail).is_ok()
            }
        };
    }
    seen.to_lowercase().contains(&pattern.to_lowercase())
}

#[then(regex = r#"^it has no "([^"]*)"$"#)]
async fn value_absent(w: &mut World, pointer: String) -> StepResult {
    let seen = at(w, &pointer)?;
    check(seen.is_none(), format!("no {pointer}"), seen.map_or(String::new(), brief))
}

#[then(regex = r#"^its "([^"]*)" has (\d+) entr(?:y|ies)$"#)]
async fn value_counts(w: &mut World, pointer: String, n: usize) -> StepResult {
    let seen = at(w, &pointer)?;
    let len = seen.and_then(Value::as_array).map_or(0, Vec::len);
    check(len == n, format!("{n} entries in {pointer}"), seen.map_or(String::new(), brief))
}

#[then(regex = r#"^its "([^"]*)" equals that of "([^"]*)"$"#)]
async fn value_equals(w: &mut World, pointer: String, name: String) -> StepResult {
    let kept = w.grp.kept.get(&name).map(|r| r.body.pointer(&pointer).cloned());
    let kept = kept.ok_or_else(|| StepError::Defect(format!("nothing is kept as {name}")))?;
    let seen = at(w, &pointer)?.cloned();
    check(
        seen == kept && seen.is_some(),
        format!("{pointer} as in {name}"),
        format!("{} and {}", brief(&json!(seen)), brief(&json!(kept))),
    )
}

#[then(regex = r#"^its text (contains|lacks) "([^"]*)"$"#)]
async fn text_contains(w: &mut World, how: String, text: String) -> StepResult {
    let text = w.grp_fill(&text)?;
    let last = w.grp_last()?;
    let has = last.text.contains(&text);
    check(
        has == (how == "contains"),
        format!("an answer that {how} {:?}", w.log.clean(&text)),
        w.log.clean(&last.brief()),
    )
}

#[then(regex = r#"^"([^"]*)" has (\d+) events? "([^"]*)"$"#)]
async fn events(w: &mut World, room: String, n: usize, event_type: String) -> StepResult {
    let reply = as_creator(w, "list_events", &room).await?;
    let seen: Vec<&str> = reply.body["events"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|e| e["event_type"].as_str())
        .collect();
    let count = seen.iter().filter(|t| **t == event_type).count();
    check(count == n, format!("{n} events {event_type}"), format!("{seen:?}"))
}

#[then(regex = r#"^its "([^"]*)" lacks "(.+)"$"#)]
async fn value_lacks(w: &mut World, pointer: String, text: String) -> StepResult {
    let seen = at(w, &pointer)?.and_then(Value::as_str).map(str::to_owned);
    check(
        seen.as_ref().is_some_and(|s| !s.contains(&text)),
        format!("{pointer} without {text:?}"),
        w.log.clean(&seen.unwrap_or_else(|| "it is absent".to_owned())),
    )
}

#[then("it is no redirect")]
async fn no_redirect(w: &mut World) -> StepResult {
    let last = w.grp_last()?;
    check(!(300..400).contains(&last.status), "no 3xx status", last.brief())
}

#[then("both succeed")]
async fn both_succeed(w: &mut World) -> StepResult {
    let failed = w.grp.both.iter().find(|r| r.failed);
    check(
        failed.is_none() && w.grp.both.len() == 2,
        "two successes",
        failed.map_or_else(String::new, super::super::client::Reply::brief),
    )
}

#[then(regex = r#"^one of both answers has "([^"]*)"$"#)]
async fn one_has(w: &mut World, pointer: String) -> StepResult {
    let with = w.grp.both.iter().filter(|r| r.body.pointer(&pointer).is_some()).count();
    check(with == 1, format!("one answer with {pointer}"), format!("{with} of them"))
}

#[then(regex = r#"^it is the answer "([^"]*)" again$"#)]
async fn same_answer(w: &mut World, name: String) -> StepResult {
    let kept = w.grp.kept.get(&name);
    let kept = kept.ok_or_else(|| StepError::Defect(format!("nothing is kept as {name}")))?;
    let last = w.grp_last()?;
    // Tool results say ok; an answer over REST need not.
    let meaning = |body: &Value| {
        let mut body = body.clone();
        if let Some(map) = body.as_object_mut() {
            map.remove("ok");
        }
        body
    };
    check(
        !last.failed && meaning(&last.body) == meaning(&kept.body),
        format!("the same answer as before: {}", w.log.clean(&kept.brief())),
        w.log.clean(&last.brief()),
    )
}

#[then(regex = r#"^what happened in "([^"]*)" is kept as "([^"]*)"$"#)]
async fn keep_events(w: &mut World, room: String, name: String) -> StepResult {
    let events = as_creator(w, "list_events", &room).await?;
    w.grp.kept.insert(name, events);
    Ok(())
}

#[then(regex = r#"^nothing happened in "([^"]*)" since "([^"]*)"$"#)]
async fn nothing_since(w: &mut World, room: String, name: String) -> StepResult {
    let before = w.grp.kept.get(&name).map(|r| r.body["events"].clone());
    let now = as_creator(w, "list_events", &room).await?.body["events"].clone();
    let count = |v: &Value| v.as_array().map_or(0, Vec::len);
    check(
        before.as_ref() == Some(&now),
        format!("the {} events of before", before.as_ref().map_or(0, count)),
        format!("{} events", count(&now)),
    )
}
