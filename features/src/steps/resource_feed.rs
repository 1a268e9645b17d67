//! Resources: listing, templates, reading, subscriptions and their notifications.

use std::time::Duration;

use cucumber::{given, then, when};
use serde_json::{Value, json};

use super::call::session;
use super::judge::covers;
use super::rooms::SOON;
use crate::failure::{StepError, StepResult, check, no};
use crate::mcp::McpError;
use crate::outcome::Outcome;
use crate::wire::brief;
use crate::world::{AGENT, World, target_error};

/// Most pages a list of resources may have.
const MAX_PAGES: usize = 20;

fn uri(w: &World, path: &str) -> StepResult<String> {
    Ok(format!("agent-protocols://{}", w.fill(path)?))
}

async fn request(w: &mut World, name: &str, method: &str, params: Value) -> StepResult<Value> {
    w.needs("resources")?;
    if !w.sessions.contains_key(name) {
        w.start(name).await?;
    }
    let answer = w.session(name)?.request(method, params, w.run.timeout()).await;
    match answer {
        Ok(result) => Ok(result),
        Err(e @ McpError::Rpc { .. }) => no(format!("{method} succeeds"), e.to_string()),
        Err(e) => Err(target_error(e)),
    }
}

async fn everything(w: &mut World, method: &str, member: &str) -> StepResult<Vec<Value>> {
    let (mut all, mut cursor) = (Vec::new(), None::<String>);
    for _ in 0..MAX_PAGES {
        let params = cursor.map_or(json!({}), |c| json!({ "cursor": c }));
        let page = request(w, AGENT, method, params).await?;
        all.extend(page[member].as_array().cloned().unwrap_or_default());
        cursor = page["nextCursor"].as_str().map(str::to_owned);
        if cursor.is_none() {
            return Ok(all);
        }
    }
    no(format!("a {member} list that ends"), format!("{MAX_PAGES} pages and another cursor"))
}

/// Listed as a resource, or covered by a template: either way a client finds it.
#[then(regex = r#"^the resource "([^"]*)" is listed or has a template$"#)]
async fn listed(w: &mut World, path: String) -> StepResult {
    let uri = uri(w, &path)?;
    let resources = everything(w, "resources/list", "resources").await?;
    let templates = everything(w, "resources/templates/list", "resourceTemplates").await?;
    let named = resources.iter().any(|r| r["uri"].as_str().is_some_and(|u| bare(u) == uri));
    let covered = templates
        .iter()
        .any(|t| t["uriTemplate"].as_str().is_some_and(|t| matches_template(t, &uri)));
    check(
        named || covered,
        format!("{uri} listed or templated"),
        format!(
            "{:?} and {:?}",
            resources.iter().map(|r| r["uri"].clone()).collect::<Vec<_>>(),
            templates.iter().map(|t| t["uriTemplate"].clone()).collect::<Vec<_>>()
        ),
    )
}

/// A listing may add `?host=` to keep rooms of two hosts apart.
fn bare(uri: &str) -> &str {
    uri.split('?').next().unwrap_or(uri)
}

/// Whether a template with `{room_id}` in it (and perhaps a `{?host}` at its end) makes `uri`.
fn matches_template(template: &str, uri: &str) -> bool {
    let template = match template.find("{?") {
        Some(at) => &template[..at],
        None => template,
    };
    let parts: Vec<&str> = template.split('/').collect();
    let wanted: Vec<&str> = uri.split('/').collect();
    parts.len() == wanted.len()
        && parts
            .iter()
            .zip(&wanted)
            .all(|(t, u)| t == u || (t.starts_with('{') && t.ends_with('}') && !u.is_empty()))
}

#[given(regex = r#"^(?:the agent|session "([^"]*)") has read resource "([^"]*)"$"#)]
#[when(regex = r#"^(?:the agent|session "([^"]*)") reads resource "([^"]*)"$"#)]
async fn reads(w: &mut World, name: String, path: String) -> StepResult {
    w.needs("resources")?;
    let uri = uri(w, &path)?;
    let name = session(&name).to_owned();
    if !w.sessions.contains_key(&name) {
        w.start(&name).await?;
    }
    let answer =
        w.session(&name)?.request("resources/read", json!({ "uri": uri }), w.run.timeout()).await;
    // The content is judged like a tool's result: the JSON of the first text content.
    let answer = answer.map(|result| {
        let contents = result["contents"].as_array().cloned().unwrap_or_default();
        let items: Vec<Value> = contents
            .iter()
            .filter_map(|c| c["text"].as_str())
            .map(|text| json!({ "type": "text", "text": text }))
            .collect();
        json!({ "content": items, "contents": contents })
    });
    let outcome = Outcome::new(&format!("reading {uri}"), json!({ "uri": uri }), answer);
    w.last = Some(outcome.map_err(target_error)?);
    Ok(())
}

#[then(regex = r#"^the resource is JSON of the same URI$"#)]
fn is_json(w: &mut World) -> StepResult {
    let body = w.success()?;
    let outcome = w.outcome()?;
    let first = outcome.result.as_ref().map(|r| r["contents"][0].clone()).unwrap_or_default();
    check(
        !body.is_null() && first["uri"] == outcome.arguments["uri"],
        format!("JSON content with the uri {}", outcome.arguments["uri"]),
        brief(&first),
    )
}

/// The list inside a resource, under whatever name it stands there.
fn inner_list(body: &Value) -> Option<&Vec<Value>> {
    body.as_array().or_else(|| body.as_object()?.values().find_map(Value::as_array))
}

#[then(regex = r#"^the resource lists (\d+) (?:entry|entries)$"#)]
fn lists(w: &mut World, count: usize) -> StepResult {
    let body = w.success()?;
    let seen = inner_list(&body).map(Vec::len);
    check(seen == Some(count), format!("{count} entries"), brief(&body))
}

#[then(regex = r#"^the resource (lists|does not list) (\{.*\})$"#)]
fn lists_one(w: &mut World, how: String, value: String) -> StepResult {
    let wanted = w.json(&value)?;
    let body = w.success()?;
    let found = inner_list(&body).is_some_and(|l| l.iter().any(|i| covers(i, &wanted)));
    check(found == (how == "lists"), format!("the resource {how} {wanted}"), brief(&body))
}

/// Whether a value appears anywhere in another.
fn appears(value: &Value, wanted: &Value) -> bool {
    value == wanted
        || match value {
            Value::Object(members) => members.values().any(|v| appears(v, wanted)),
            Value::Array(items) => items.iter().any(|v| appears(v, wanted)),
            _ => false,
        }
}

#[then(regex = r#"^the resource holds the text "([^"]*)"$"#)]
fn holds_text(w: &mut World, text: String) -> StepResult {
    let text = w.fill(&text)?;
    let body = w.success()?;
    check(appears(&body, &json!(text)), format!("{text:?} in the resource"), brief(&body))
}

#[then(regex = r#"^the resource holds the verified head of "([^"]*)"$"#)]
fn holds_head(w: &mut World, room: String) -> StepResult {
    let (host, id) = w.hosts.host_of(&room)?;
    let state = host.state(&id).ok_or_else(|| StepError::Defect("no such room".to_owned()))?;
    let body = w.success()?;
    let (seq, hash) = (json!(state.head.seq), json!(state.head.hash));
    check(
        appears(&body, &seq) && appears(&body, &hash),
        format!("head {seq} {hash} in the resource"),
        brief(&body),
    )
}

#[given(regex = r#"^(?:the agent|session "([^"]*)") subscribes to resource "([^"]*)"$"#)]
#[when(regex = r#"^(?:the agent|session "([^"]*)") subscribes to resource "([^"]*)"$"#)]
async fn subscribes(w: &mut World, name: String, path: String) -> StepResult {
    w.needs("resource-updates")?;
    let uri = uri(w, &path)?;
    request(w, session(&name), "resources/subscribe", json!({ "uri": uri })).await.map(|_| ())
}

#[when(regex = r#"^(?:the agent|session "([^"]*)") unsubscribes from resource "([^"]*)"$"#)]
async fn unsubscribes(w: &mut World, name: String, path: String) -> StepResult {
    w.needs("resource-updates")?;
    let uri = uri(w, &path)?;
    request(w, session(&name), "resources/unsubscribe", json!({ "uri": uri })).await.map(|_| ())
}

fn is_update(notification: &Value, uri: &str) -> bool {
    notification["method"] == "notifications/resources/updated"
        && notification["params"]["uri"].as_str().is_some_and(|u| bare(u) == uri)
}

fn updates(w: &World, name: &str, uri: &str) -> StepResult<usize> {
    Ok(w.session(name)?.notifications().iter().filter(|n| is_update(n, uri)).count())
}

#[given(regex = r#"^we count the updates of "([^"]*)" from here$"#)]
#[when(regex = r#"^we count the updates of "([^"]*)" from here$"#)]
fn count_from_here(w: &mut World, path: String) -> StepResult {
    let uri = uri(w, &path)?;
    let names: Vec<String> = w.sessions.keys().cloned().collect();
    for name in names {
        let seen = updates(w, &name, &uri)?;
        w.notes.insert(format!("updates {name} {uri}"), json!(seen));
    }
    Ok(())
}

#[then(regex = r#"^soon (?:the agent|session "([^"]*)") hears that "([^"]*)" changed$"#)]
async fn told(w: &mut World, name: String, path: String) -> StepResult {
    let uri = uri(w, &path)?;
    let name = session(&name).to_owned();
    let before = w.notes.get(&format!("updates {name} {uri}")).and_then(Value::as_u64).unwrap_or(0);
    let told = w
        .eventually(SOON, async |w: &mut World| Ok(updates(w, &name, &uri)? as u64 > before))
        .await?;
    check(
        told,
        format!("notifications/resources/updated for {uri}"),
        format!("{:?}", w.session(&name)?.notifications()),
    )
}

/// A quiet time is the only way to see that nothing comes; it begins when another, later
/// update has arrived, so it can be short.
#[then(regex = r#"^(?:the agent|session "([^"]*)") hears nothing of "([^"]*)"$"#)]
async fn told_nothing(w: &mut World, name: String, path: String) -> StepResult {
    let uri = uri(w, &path)?;
    let name = session(&name).to_owned();
    let before = w.notes.get(&format!("updates {name} {uri}")).and_then(Value::as_u64).unwrap_or(0);
    let told = w
        .eventually(Duration::from_millis(700), async |w: &mut World| {
            Ok(updates(w, &name, &uri)? as u64 > before)
        })
        .await?;
    check(!told, format!("no update of {uri}"), format!("{:?}", w.session(&name)?.notifications()))
}

#[then("it offers resources with subscriptions")]
fn offers(w: &mut World) -> StepResult {
    w.needs("resource-updates")?;
    let answer = w.session(AGENT)?.initialized.clone().unwrap_or_default();
    let resources = &answer["capabilities"]["resources"];
    check(resources["subscribe"] == true, "resources with subscribe", answer.to_string())
}

#[then(regex = r#"^reading resource "([^"]*)" is refused$"#)]
async fn refused(w: &mut World, path: String) -> StepResult {
    w.needs("resources")?;
    let uri = uri(w, &path)?;
    let params = json!({ "uri": uri });
    let answer = w.session(AGENT)?.request("resources/read", params, w.run.timeout()).await;
    match answer {
        Err(McpError::Rpc { .. }) => Ok(()),
        Err(e) => Err(target_error(e)),
        Ok(result) => no(format!("an error for {uri}"), brief(&result)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_match_their_uris_only() {
        let room = "agent-protocols://rooms/abc";
        assert!(matches_template("agent-protocols://rooms/{room_id}", room));
        assert!(matches_template("agent-protocols://rooms/{room_id}{?host}", room));
        assert!(!matches_template("agent-protocols://rooms/{room_id}/members", room));
        assert!(!matches_template("agent-protocols://inbox/{x}", room));
    }
}
