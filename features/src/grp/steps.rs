//! The vocabulary of the GRP features. Steps arrange, act or judge once.

use std::time::Duration;

use cucumber::gherkin::Step;
use cucumber::{given, then, when};
use reqwest::Method;
use serde_json::{Value, json};

use super::client::{Reply, Via, Who};
use super::receipts;
use super::twin;
use crate::failure::{StepError, StepResult, check, no};
use crate::wire::brief;
use crate::world::World;

/// Generous: machines are busy.
const SOON: Duration = Duration::from_secs(10);

fn doc(step: &Step) -> StepResult<String> {
    step.docstring
        .clone()
        .ok_or_else(|| StepError::Defect("this step needs a doc string".to_owned()))
}

fn doc_json(w: &World, step: &Step) -> StepResult<Value> {
    let text = w.grp_fill(&doc(step)?)?;
    ap_protocol::json::parse(text.trim().as_bytes()).map_err(StepError::defect)
}

fn optional_json(w: &World, step: &Step) -> StepResult<Value> {
    if step.docstring.is_some() { doc_json(w, step) } else { Ok(json!({})) }
}

fn quick(mut body: Value, changes: &Value) -> Value {
    let mut config = json!({
        "visibility": "unlisted", "mechanism": "plurality", "voting_window": 600,
        "settle_window": 0, "early_close": true, "creator_votes": false,
    });
    for (k, v) in changes.as_object().into_iter().flatten() {
        config[k] = v.clone();
    }
    body["config"] = config;
    body
}

// --- arranging ---

#[given(regex = r"^the calls go over (REST|MCP)$")]
#[when(regex = r"^the calls go over (REST|MCP)$")]
async fn over(w: &mut World, via: String) -> StepResult {
    w.grp.via = Some(if via == "MCP" { Via::Mcp } else { Via::Rest });
    Ok(())
}

#[given(regex = r#"^(\w+) opened the room "([^"]*)" to decide "([^"]*)" between "([^"]*)"$"#)]
async fn opened(
    w: &mut World,
    who: String,
    room: String,
    question: String,
    options: String,
) -> StepResult {
    opened_so(w, who, room, question, options, &json!({})).await
}

#[given(
    regex = r#"^(\w+) opened the room "([^"]*)" to decide "([^"]*)" between "([^"]*)" with the settings$"#
)]
async fn opened_with(
    w: &mut World,
    who: String,
    room: String,
    question: String,
    options: String,
    step: &Step,
) -> StepResult {
    let changes = doc_json(w, step)?;
    opened_so(w, who, room, question, options, &changes).await
}

async fn opened_so(
    w: &mut World,
    who: String,
    room: String,
    question: String,
    options: String,
    changes: &Value,
) -> StepResult {
    let options: Vec<&str> = options.split(" / ").collect();
    let body = quick(json!({ "question": question, "options": options }), changes);
    w.grp_call(&who, "create_room", &room, body, None).await?;
    succeeded(w)
}

#[given(regex = r#"^(\w+) opened the room "([^"]*)" for questions to come$"#)]
async fn opened_empty(w: &mut World, who: String, room: String) -> StepResult {
    let body = quick(json!({ "about": "Questions to come" }), &json!({ "type": "persistent" }));
    w.grp_call(&who, "create_room", &room, body, None).await?;
    succeeded(w)
}

#[given(regex = r#"^(\w+) opened the room "([^"]*)" for questions to come with the settings$"#)]
async fn opened_empty_with(w: &mut World, who: String, room: String, step: &Step) -> StepResult {
    let mut changes = doc_json(w, step)?;
    changes["type"] = json!("persistent");
    let body = quick(json!({ "about": "Questions to come" }), &changes);
    w.grp_call(&who, "create_room", &room, body, None).await?;
    succeeded(w)
}

#[given(regex = r#"^(\w+) took a seat in "([^"]*)"$"#)]
async fn joined(w: &mut World, who: String, room: String) -> StepResult {
    w.grp_call(&who, "join_room", &room, json!({ "display_name": who }), None).await?;
    succeeded(w)
}

#[given(regex = r"^(\w+) holds a mandate$")]
async fn holds(w: &mut World, who: String) -> StepResult {
    let mandate = w.grp_mandate(&who, json!({}), false).await?;
    w.grp.mandates.insert(who, mandate);
    Ok(())
}

#[given(regex = r"^(\w+) holds a mandate with the claims$")]
#[when(regex = r"^(\w+) holds a mandate with the claims$")]
async fn holds_with(w: &mut World, who: String, step: &Step) -> StepResult {
    let claims = claims(w, step)?;
    let mandate = w.grp_mandate(&who, claims, false).await?;
    put_mandate(w, who, mandate);
    Ok(())
}

#[given(regex = r"^(\w+) holds a mandate of the trusted issuer( with the claims)?$")]
async fn holds_issued(w: &mut World, who: String, _with: String, step: &Step) -> StepResult {
    w.grp_client().await?;
    let claims = claims(w, step)?;
    let mandate = w.grp_mandate(&who, claims, true).await?;
    put_mandate(w, who, mandate);
    Ok(())
}

/// A new mandate replaces the old one in every seat that is held by mandate.
fn put_mandate(w: &mut World, who: String, mandate: String) {
    for ((person, _), seat) in &mut w.grp.seats {
        if *person == who && seat.mandate.is_some() {
            seat.mandate = Some(mandate.clone());
        }
    }
    w.grp.mandates.insert(who, mandate);
}

/// Claims, with `now±N` written for Unix seconds.
fn claims(w: &World, step: &Step) -> StepResult<Value> {
    let mut claims = optional_json(w, step)?;
    let now = w.grp_now().div_euclid(1_000);
    for name in ["nbf", "exp"] {
        if let Some(offset) = claims[name].as_str().and_then(|s| s.strip_prefix("now")) {
            let offset: i64 =
                if offset.is_empty() { 0 } else { offset.parse().map_err(StepError::defect)? };
            claims[name] = json!(now + offset);
        }
    }
    Ok(claims)
}

#[given(regex = r"^the mandate of (\w+) is (\w+)$")]
#[when(regex = r"^the mandate of (\w+) is (\w+)$")]
async fn mandate_broken(w: &mut World, who: String, how: String) -> StepResult {
    let good = w
        .grp
        .mandates
        .get(&who)
        .cloned()
        .ok_or_else(|| StepError::Defect(format!("{who} holds no mandate")))?;
    let (input, signature) = good.rsplit_once('.').unwrap_or((&good, ""));
    let broken = match how.as_str() {
        "forged" => {
            let mut raw = ap_protocol::encoding::decode(signature).map_err(StepError::defect)?;
            raw[10] ^= 1;
            format!("{input}.{}", ap_protocol::encoding::encode(raw))
        }
        "padded" => format!("{good}="),
        "cut" => input.to_owned(),
        "revoked" => {
            let payload = input.split('.').nth(1).unwrap_or_default();
            let payload = ap_protocol::encoding::decode(payload).map_err(StepError::defect)?;
            let payload = ap_protocol::json::parse(&payload).map_err(StepError::defect)?;
            let issuer = w.grp.issuer.as_ref().ok_or_else(|| {
                StepError::NotClaimed("a foreign host does not know our issuer".to_owned())
            })?;
            issuer.revoke(payload["jti"].as_str().unwrap_or_default());
            good
        }
        other => return Err(StepError::Defect(format!("a mandate cannot be {other}"))),
    };
    put_mandate(w, who, broken);
    Ok(())
}

// --- acting ---

#[given(regex = r#"^(\w+) chose "([^"]*)" in "([^"]*)"$"#)]
async fn chose(w: &mut World, who: String, choice: String, room: String) -> StepResult {
    w.grp_call(&who, "choose", &room, json!({ "choice": choice }), None).await?;
    succeeded(w)
}

#[when(regex = r#"^(\w+) chooses "([^"]*)" in "([^"]*)"$"#)]
async fn chooses(w: &mut World, who: String, choice: String, room: String) -> StepResult {
    w.grp_call(&who, "choose", &room, json!({ "choice": choice }), None).await
}

#[when(regex = r#"^(\w+) tells "([^"]*)": "([^"]*)"$"#)]
async fn tells(w: &mut World, who: String, room: String, body: String) -> StepResult {
    w.grp_call(&who, "discuss", &room, json!({ "body": body }), None).await
}

#[when(regex = r#"^(\w+) takes a seat in "([^"]*)"$"#)]
async fn joins(w: &mut World, who: String, room: String) -> StepResult {
    w.grp_call(&who, "join_room", &room, json!({ "display_name": who }), None).await
}

#[given(regex = r#"^(\w+) called (\w+) in "([^"]*)"( with)?$"#)]
async fn called(
    w: &mut World,
    who: String,
    op: String,
    room: String,
    _with: String,
    step: &Step,
) -> StepResult {
    let args = optional_json(w, step)?;
    w.grp_call(&who, &op, &room, args, None).await?;
    succeeded(w)
}

#[when(regex = r#"^(\w+) calls (\w+) in "([^"]*)"( with)?$"#)]
async fn calls(
    w: &mut World,
    who: String,
    op: String,
    room: String,
    _with: String,
    step: &Step,
) -> StepResult {
    let args = optional_json(w, step)?;
    w.grp_call(&who, &op, &room, args, None).await
}

#[when(regex = r#"^(\w+) calls (\w+) in "([^"]*)" under the key "([^"]*)"( with)?$"#)]
async fn calls_keyed(
    w: &mut World,
    who: String,
    op: String,
    room: String,
    key: String,
    _with: String,
    step: &Step,
) -> StepResult {
    let args = optional_json(w, step)?;
    w.grp_call(&who, &op, &room, args, Some(&key)).await
}

#[given(regex = r#"^the answer is kept as "([^"]*)"$"#)]
#[when(regex = r#"^the answer is kept as "([^"]*)"$"#)]
#[then(regex = r#"^the answer is kept as "([^"]*)"$"#)]
async fn keep(w: &mut World, name: String) -> StepResult {
    let last = w.grp_last()?.clone();
    w.grp.kept.insert(name, last);
    Ok(())
}

/// A raw request: method and path with placeholders, headers and body as a doc string of
/// `{"headers": {…}, "body": …}`.
#[when(regex = r#"^(GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS) (/\S*) is sent( with)?$"#)]
async fn raw(
    w: &mut World,
    method: String,
    path: String,
    _with: String,
    step: &Step,
) -> StepResult {
    let client = w.grp_client().await?;
    let extra = optional_json(w, step)?;
    let path = w.grp_fill(&path)?;
    let method: Method = method.parse().map_err(StepError::defect)?;
    let mut request = client.request(method.clone(), &path);
    for (name, value) in extra["headers"].as_object().into_iter().flatten() {
        request = request.header(name, value.as_str().unwrap_or_default());
    }
    match &extra["body"] {
        Value::Null => {}
        Value::String(text) => {
            request = request.header("content-type", "application/json").body(text.clone());
        }
        body => {
            request = request.header("content-type", "application/json").body(body.to_string());
        }
    }
    let reply = client.send(request, &format!("{method} {path}")).await?;
    w.answered = true;
    w.grp.last = Some(reply);
    Ok(())
}

#[when(regex = r#"^the MCP endpoint (/\S+) is asked (\S+)( with)?$"#)]
async fn rpc(
    w: &mut World,
    endpoint: String,
    method: String,
    _with: String,
    step: &Step,
) -> StepResult {
    let client = w.grp_client().await?;
    let params = optional_json(w, step)?;
    let (mut reply, answer) = client.rpc(&endpoint, &method, params, &[]).await?;
    reply.failed |= answer.get("error").is_some() || answer["result"]["isError"] == true;
    reply.body = answer;
    w.answered = true;
    w.grp.last = Some(reply);
    Ok(())
}

// --- waiting ---

#[given(regex = r#"^(\w+) waits in "([^"]*)" for (\w+) up to ([\d.]+) s$"#)]
#[when(regex = r#"^(\w+) waits in "([^"]*)" for (\w+) up to ([\d.]+) s$"#)]
async fn waits(w: &mut World, who: String, room: String, what: String, secs: f64) -> StepResult {
    let client = w.grp_client().await?;
    let slug = w.grp_room(&room)?.slug.clone();
    let caller = w.grp_who(&who, &room);
    let via = w.grp.via.unwrap_or(Via::Rest);
    let args = json!({ "wait": secs, "for": what });
    let task =
        tokio::spawn(async move { client.call(via, "wait", &slug, &caller, &args, None).await });
    w.grp.waits.insert(who, task);
    Ok(())
}

async fn ended(w: &mut World, who: &str, within: Duration) -> StepResult<Reply> {
    let task =
        w.grp.waits.remove(who).ok_or_else(|| StepError::Defect(format!("{who} does not wait")))?;
    match tokio::time::timeout(within, task).await {
        Ok(joined) => joined.map_err(StepError::defect)?,
        Err(_) => no(format!("the wait of {who} ends within {within:?}"), "it still sleeps"),
    }
}

#[then(regex = r"^the wait of (\w+) ends (actionable|activity|timeout) within ([\d.]+) s$")]
async fn wait_ends(w: &mut World, who: String, how: String, secs: f64) -> StepResult {
    let reply = ended(w, &who, Duration::from_secs_f64(secs)).await?;
    w.answered = true;
    w.grp.last = Some(reply.clone());
    check(reply.body["status"] == how.as_str(), format!("a wait that ends {how}"), reply.brief())
}

#[then(regex = r"^(\w+) still waits after ([\d.]+) s$")]
async fn still_waits(w: &mut World, who: String, secs: f64) -> StepResult {
    let task = w
        .grp
        .waits
        .get_mut(&who)
        .ok_or_else(|| StepError::Defect(format!("{who} does not wait")))?;
    // That nothing happens can only be seen by giving it the time to happen.
    match tokio::time::timeout(Duration::from_secs_f64(secs), task).await {
        Err(_) => Ok(()),
        Ok(reply) => {
            let reply = reply.map_err(StepError::defect)??;
            no(format!("{who} goes on waiting"), reply.brief())
        }
    }
}

#[then(regex = r"^it took between ([\d.]+) and ([\d.]+) s$")]
async fn took(w: &mut World, least: f64, most: f64) -> StepResult {
    let took = w.grp_last()?.took.as_secs_f64();
    check(
        (least..=most).contains(&took),
        format!("an answer after {least} to {most} s"),
        format!("{took:.2} s"),
    )
}

#[when(regex = r"^the host's clock moves (\d+) s$")]
async fn clock_moves(w: &mut World, secs: i64) -> StepResult {
    w.grp_lab().await?.clock().advance(secs * 1_000);
    Ok(())
}

// --- judging ---

fn succeeded(w: &World) -> StepResult {
    let last = w.grp_last()?;
    check(!last.failed, "the call succeeds", last.brief())
}

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

fn at<'a>(w: &'a World, pointer: &str) -> StepResult<Option<&'a Value>> {
    Ok(w.grp_last()?.body.pointer(pointer))
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

async fn as_creator(w: &mut World, op: &str, room: &str) -> StepResult<Reply> {
    let client = w.grp_client().await?;
    let at = w.grp_room(room)?.clone();
    let who = w.grp_who(&at.creator, room);
    let reply = client.rest(op, &at.slug, &who, &json!({}), None).await?;
    check(!reply.failed, format!("{op} answers the creator"), reply.brief())?;
    Ok(reply)
}

#[then(regex = r#"^the receipts of "([^"]*)" verify and form one chain of (\d+)$"#)]
async fn receipts_verify(w: &mut World, room: String, n: usize) -> StepResult {
    let reply = as_creator(w, "outcome", &room).await?;
    let client = w.grp_client().await?;
    let all = receipts::verify_outcome(&client, &reply.body).await?;
    check(all.len() == n, format!("{n} receipts"), format!("{}", all.len()))?;
    let payloads: Vec<Value> = all.into_iter().map(|v| v.payload).collect();
    let mut last = reply;
    last.body = json!({ "receipts": payloads });
    w.grp.last = Some(last);
    Ok(())
}

#[then(regex = r#"^the page of "([^"]*)" embeds its state as JSON$"#)]
async fn page_embeds(w: &mut World, room: String) -> StepResult {
    let client = w.grp_client().await?;
    let at = w.grp_room(&room)?.clone();
    let page =
        client.send(client.request(Method::GET, &format!("/r/{}", at.slug)), "GET page").await?;
    w.answered = true;
    let embedded = embedded_state(&page.text)?;
    let state = ap_protocol::json::parse(embedded.as_bytes());
    let Ok(state) = state else {
        return no(
            "a grp+json script that holds strict JSON",
            crate::wire::brief(&json!(embedded)),
        );
    };
    check(state["slug"] == at.slug.as_str(), "the state of this room", brief(&state))?;
    let mut last = page;
    last.body = state;
    w.grp.last = Some(last);
    Ok(())
}

fn embedded_state(page: &str) -> StepResult<String> {
    let lower = page.to_ascii_lowercase();
    let begin = lower.match_indices("<script").map(|(i, _)| i).find(|i| {
        lower[*i..].split('>').next().is_some_and(|t| t.contains("application/grp+json"))
    });
    let Some(begin) = begin else {
        return no(
            "a script of type application/grp+json",
            page.chars().take(200).collect::<String>(),
        );
    };
    let Some(from) = page[begin..].find('>').map(|i| begin + i + 1) else {
        return no("a script tag that ends", "it does not");
    };
    // As a browser reads it: the element ends at the first end tag, whatever it stands in.
    let Some(end) = lower[from..].find("</script").map(|i| from + i) else {
        return no("a script element that ends", "it does not");
    };
    Ok(page[from..end].to_owned())
}

#[then("the page has nothing to submit with")]
async fn page_inert(w: &mut World) -> StepResult {
    let lower = w.grp_last()?.text.to_ascii_lowercase();
    for tag in ["<form", "<input", "<textarea", "<select", "<button", "formaction"] {
        if lower.contains(tag) {
            return no("a page without form controls", format!("it has {tag}"));
        }
    }
    Ok(())
}

#[then(regex = r#"^the visible page shows "([^"]*)"$"#)]
async fn page_shows(w: &mut World, text: String) -> StepResult {
    let page = &w.grp_last()?.text;
    let body = page.split("<body").nth(1).unwrap_or_default();
    check(body.contains(&text), format!("the visible text {text:?}"), brief(&json!(body)))
}

#[then(regex = r#"^no secret of "([^"]*)" is found in anything it shows$"#)]
async fn no_secret(w: &mut World, room: String) -> StepResult {
    let client = w.grp_client().await?;
    let at = w.grp_room(&room)?.clone();
    let who = w.grp_who(&at.creator, &room);
    let mut shown = Vec::new();
    for (op, args) in [
        ("read_room", json!({})),
        ("read_room", json!({ "include": "full" })),
        ("read_room", json!({ "since": 0 })),
        ("outcome", json!({})),
        ("list_events", json!({})),
        ("list_decisions", json!({})),
        ("list_invites", json!({})),
    ] {
        let reply = client.rest(op, &at.slug, &who, &args, None).await?;
        check(!reply.failed, format!("{op} answers"), reply.brief())?;
        shown.push((op, reply.text));
    }
    let page = format!("/r/{}?token={}", at.slug, who.token.clone().unwrap_or_default());
    shown.push(("page", client.send(client.request(Method::GET, &page), "GET page").await?.text));
    let wrong = Who { token: Some("t_wrong-but-secret".to_owned()), mandate: None };
    let error = client.rest("read_room", &at.slug, &wrong, &json!({}), None).await?;
    check(
        !error.text.contains("wrong-but-secret"),
        "an error that does not repeat the credential",
        error.brief(),
    )?;
    for (op, text) in &shown {
        let known = w.grp.tokens.iter().any(|t| text.contains(t.as_str()));
        // Anything of the shape of a token is one too many, whoever it belongs to.
        let shaped = text.match_indices("t_").any(|(i, _)| {
            let tail: String = text[i + 2..]
                .chars()
                .take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
                .collect();
            tail.len() == 43 && !text[..i].ends_with(|c: char| c.is_ascii_alphanumeric())
        });
        check(!known && !shaped, format!("no token in {op}"), "there is one")?;
    }
    if let Some(host) = &w.grp.host {
        let dump = host.dump(&at.slug).unwrap_or_default().to_string();
        let stored = w.grp.tokens.iter().any(|t| dump.contains(t.as_str()));
        check(!stored, "no raw token among the stored rows", "there is one")?;
    }
    Ok(())
}

#[then(regex = r#"^the audit chain of "([^"]*)" holds$"#)]
async fn audit_holds(w: &mut World, room: String) -> StepResult {
    let host = w.grp_lab().await?;
    let slug = w.grp_room(&room)?.slug.clone();
    let log = host.audit(&slug).unwrap_or_default();
    check(!log.is_empty(), "an audit log", "it is empty")?;
    let mut previous: Option<&str> = None;
    for entry in &log {
        check(
            entry.hash == entry.expected_hash(previous),
            "each entry hashes onto the one before",
            format!("entry {}", entry.seq),
        )?;
        previous = Some(&entry.hash);
    }
    Ok(())
}

#[then("the same story leaves the same traces over REST and over MCP")]
async fn twins(w: &mut World) -> StepResult {
    twin::compare(w).await
}

#[then("every mechanism it advertises decides a question")]
async fn mechanisms(w: &mut World) -> StepResult {
    let client = w.grp_client().await?;
    let doc = client
        .send(client.request(Method::GET, "/.well-known/grp.json"), "GET discovery")
        .await?
        .body;
    let advertised: Vec<String> = doc["mechanisms_supported"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|m| m.as_str().map(str::to_owned))
        .collect();
    check(!advertised.is_empty(), "advertised mechanisms", brief(&doc))?;
    for name in advertised {
        let choice = match name.as_str() {
            "approval" => json!(["b"]),
            "ranked_choice" | "ranked_pairwise" => json!(["b", "a"]),
            "score_vote" => json!({ "b": 5 }),
            "quadratic_vote" => json!({ "b": 4 }),
            _ => json!("b"),
        };
        let room = format!("of {name}");
        let body = quick(
            json!({ "question": "Which one?", "options": ["a", "b"] }),
            &json!({ "mechanism": name, "creator_votes": true }),
        );
        w.grp_call("ann", "create_room", &room, body, None).await?;
        succeeded(w)?;
        w.grp_call("ann", "choose", &room, json!({ "choice": choice }), None).await?;
        succeeded(w)?;
        let outcome = as_creator(w, "outcome", &room).await?;
        check(
            outcome.body["resolved_winner"] == "b",
            format!("{name} decides for b"),
            outcome.brief(),
        )?;
        receipts::verify_outcome(&client, &outcome.body).await?;
    }
    Ok(())
}

#[then(
    regex = r"^the event stream of (\w+) in \x22([^\x22]*)\x22 repeats what came after event (\d+)$"
)]
async fn stream_resumes(w: &mut World, who: String, room: String, seq: u64) -> StepResult {
    use futures::StreamExt as _;
    let client = w.grp_client().await?;
    let slug = w.grp_room(&room)?.slug.clone();
    let listed = as_creator(w, "list_events", &room).await?;
    let events = listed.body["events"].as_array().cloned().unwrap_or_default();
    let at = events.iter().position(|e| e["seq"] == seq).unwrap_or(0);
    let after: Vec<Value> = events[at + 1..].to_vec();
    let token = w.grp_who(&who, &room).token.unwrap_or_default();
    let answer = client
        .request(Method::GET, &format!("/api/rooms/{slug}/events/stream"))
        .bearer_auth(token)
        .header("last-event-id", events[at]["id"].as_str().unwrap_or_default())
        .send()
        .await
        .map_err(|e| StepError::Target(e.without_url().to_string()))?;
    let mut stream = answer.bytes_stream();
    let mut text = String::new();
    let got = |text: &str| -> Vec<Value> {
        text.lines()
            .filter_map(|l| l.strip_prefix("data:"))
            .filter_map(|d| ap_protocol::json::parse(d.trim().as_bytes()).ok())
            .collect()
    };
    let deadline = tokio::time::Instant::now() + SOON;
    while got(&text).len() < after.len() {
        match tokio::time::timeout_at(deadline, stream.next()).await {
            Ok(Some(Ok(bytes))) => text.push_str(&String::from_utf8_lossy(&bytes)),
            _ => break,
        }
    }
    let seen = got(&text);
    w.answered = true;
    check(
        seen == after,
        format!("the {} events after number {seq}", after.len()),
        format!("{} events: {}", seen.len(), brief(&json!(seen))),
    )
}
