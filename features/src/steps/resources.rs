//! Resources: listed or templated, readable, and announced to subscribers when they change.

use cucumber::{then, when};
use serde_json::{Value, json};

use super::rooms::SOON;
use crate::failure::{StepResult, check, no};
use crate::mcp::McpError;
use crate::outcome::Outcome;
use crate::world::{AGENT, World, target_error};

async fn pages(w: &World, method: &str, list: &str) -> StepResult<Vec<Value>> {
    let (mut all, mut cursor) = (Vec::new(), None::<String>);
    for _ in 0..50 {
        let params = cursor.map_or(json!({}), |c| json!({ "cursor": c }));
        let page = match w.session(AGENT)?.request(method, params, w.run.timeout()).await {
            Ok(page) => page,
            // A server without templates may not know the method.
            Err(McpError::Rpc { code: -32601, .. }) => return Ok(all),
            Err(e) => return Err(target_error(e)),
        };
        all.extend(page[list].as_array().cloned().unwrap_or_default());
        cursor = page["nextCursor"].as_str().map(str::to_owned);
        if cursor.is_none() {
            return Ok(all);
        }
    }
    no("a list that ends", "50 pages and another cursor")
}

#[then(regex = r#"^the resource "([^"]*)" is listed$"#)]
async fn listed(w: &mut World, uri: String) -> StepResult {
    let uri = w.fill(&uri)?;
    let resources = pages(w, "resources/list", "resources").await?;
    let templates = pages(w, "resources/templates/list", "resourceTemplates").await?;
    let direct = resources.iter().any(|r| r["uri"] == uri.as_str());
    let templated = templates
        .iter()
        .filter_map(|t| t["uriTemplate"].as_str())
        .any(|template| fits(template, &uri));
    check(direct || templated, format!("{uri} listed or templated"), {
        let known: Vec<String> = resources
            .iter()
            .map(|r| r["uri"].to_string())
            .chain(templates.iter().map(|t| t["uriTemplate"].to_string()))
            .collect();
        known.join(", ")
    })
}

/// Whether a URI is what a level-1 or form-query template makes.
fn fits(template: &str, uri: &str) -> bool {
    let template = template.split("{?").next().unwrap_or_default();
    let uri = uri.split('?').next().unwrap_or_default();
    let (t, u): (Vec<&str>, Vec<&str>) = (template.split('/').collect(), uri.split('/').collect());
    t.len() == u.len()
        && t.iter()
            .zip(&u)
            .all(|(t, u)| t == u || (t.starts_with('{') && t.ends_with('}') && !u.is_empty()))
}

#[when(regex = r#"^the agent reads the resource "([^"]*)"$"#)]
async fn reads(w: &mut World, uri: String) -> StepResult {
    let uri = w.fill(&uri)?;
    let answer = w
        .session(AGENT)?
        .request("resources/read", json!({ "uri": uri }), w.run.timeout())
        .await
        .map_err(target_error)?;
    let text = answer["contents"][0]["text"].as_str().unwrap_or_default().to_owned();
    let Ok(value) = ap_protocol::json::parse(text.as_bytes()) else {
        return no(format!("JSON text in {uri}"), answer.to_string());
    };
    w.notes.insert("resource".to_owned(), json!(text));
    let result = json!({ "structuredContent": value, "content": [] });
    w.last = Some(Outcome { tool: uri, arguments: json!({}), result: Some(result), rpc: None });
    Ok(())
}

#[then(regex = r#"^the resource (holds|does not hold) "([^"]*)"$"#)]
fn holds(w: &mut World, which: String, text: String) -> StepResult {
    let text = w.fill(&text)?;
    let content = w.notes["resource"].as_str().unwrap_or_default();
    let shown: String = content.chars().take(400).collect();
    check(
        content.contains(&text) == (which == "holds"),
        format!("a resource that {which} {text:?}"),
        shown,
    )
}

#[then("the resource does not hold the seed")]
fn no_seed(w: &mut World) -> StepResult {
    let content = w.notes["resource"].as_str().unwrap_or_default();
    check(!content.contains(&w.provision.seed), "no key material", "the seed is there")
}

#[when(regex = r#"^the agent subscribes to the resource "([^"]*)"$"#)]
async fn subscribes(w: &mut World, uri: String) -> StepResult {
    w.needs("resource-updates")?;
    let uri = w.fill(&uri)?;
    let params = json!({ "uri": uri });
    w.session(AGENT)?
        .request("resources/subscribe", params, w.run.timeout())
        .await
        .map_err(target_error)?;
    w.notes.insert("subscribed".to_owned(), json!(uri));
    Ok(())
}

fn is_update(n: &Value) -> bool {
    n["method"] == "notifications/resources/updated"
}

#[then(regex = r#"^soon the agent is told that "([^"]*)" changed$"#)]
async fn told(w: &mut World, uri: String) -> StepResult {
    let uri = w.fill(&uri)?;
    let told = w
        .session(AGENT)?
        .notification(SOON, |n| is_update(n) && n["params"]["uri"] == uri.as_str())
        .await;
    check(
        told.is_some(),
        format!("notifications/resources/updated for {uri}"),
        format!("{:?}", w.session(AGENT)?.notifications()),
    )
}

#[then("the agent was told of nothing else")]
fn nothing_else(w: &mut World) -> StepResult {
    let subscribed = w.notes["subscribed"].clone();
    let other: Vec<String> = w
        .session(AGENT)?
        .notifications()
        .iter()
        .filter(|n| is_update(n) && n["params"]["uri"] != subscribed)
        .map(|n| n["params"]["uri"].to_string())
        .collect();
    check(other.is_empty(), format!("updates of {subscribed} only"), other.join(", "))
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn templates_fit_their_uris_and_no_others() {
        assert!(fits("x://rooms/{room_id}{?host}", "x://rooms/abc"));
        assert!(fits("x://rooms/{room_id}/types", "x://rooms/abc/types"));
        assert!(!fits("x://rooms/{room_id}", "x://rooms/abc/types"));
        assert!(!fits("x://rooms/{room_id}", "x://hosts/abc"));
    }
}
