//! Failures of hosts and networks: what the agent is told, and how patient a target is.

use std::collections::BTreeMap;
use std::time::Duration;

use cucumber::gherkin::Step;
use cucumber::{given, then, when};
use mock_hosts::Route;
use serde_json::{Value, json};

use crate::failure::{StepError, StepResult, check, no};
use crate::outcome::Outcome;
use crate::world::{AGENT, World, target_error};

#[when(regex = r#"^the agent calls "([^"]*)" meanwhile$"#)]
async fn meanwhile(w: &mut World, tool: String) -> StepResult {
    w.tool(AGENT, &tool, json!({})).await
}

#[when(regex = r#"^the call of the agent returns within (\d+) s$"#)]
async fn returns_within(w: &mut World, seconds: u64) -> StepResult {
    let (tool, arguments, call) = super::call::pending(w, AGENT)?;
    let answer = call.wait(Duration::from_secs(seconds)).await;
    w.last = Some(Outcome::new(&tool, arguments, answer).map_err(target_error)?);
    Ok(())
}

/// A host that speaks plain HTTP, on the list under https.
#[given(regex = r#"^a host "([^"]*)" that is listed as https$"#)]
async fn listed_as_https(w: &mut World, label: String) -> StepResult {
    let host = w.add_host(&label, mock_hosts::HostConfig::default(), false).await?;
    let url = host.url().replacen("http://", "https://", 1);
    w.provision.hosts.push((url.clone(), label.clone(), None));
    w.notes.insert(format!("https_{label}"), json!(url));
    // The list is read at the start.
    if w.sessions.contains_key(AGENT) {
        return super::lifecycle::restart(w).await;
    }
    Ok(())
}

#[then(regex = r#"^each of these troubles of host "([^"]*)" has a code of its own$"#)]
async fn distinct_codes(w: &mut World, label: String, step: &Step) -> StepResult {
    let table = step
        .table
        .as_ref()
        .ok_or_else(|| StepError::Defect("the step needs a table".to_owned()))?;
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    for row in table.rows.iter().skip(1) {
        let (name, action) = (&row[0], &row[1]);
        w.add_faults(&label, &format!("[[fault]]\naction = {action}\n"))?;
        let url = w.hosts.url(&label)?;
        let patience = Duration::from_secs(60);
        let outcome =
            w.call_within(AGENT, "rooms_search", json!({ "host": url }), patience).await?;
        w.hosts.host(&label)?.clear_faults();
        let code = outcome.codes().into_iter().next().unwrap_or_default();
        check(
            outcome.is_error() && !code.is_empty(),
            format!("a code for {name}"),
            outcome.brief(),
        )?;
        if let Some(other) = seen.insert(code.clone(), name.clone()) {
            return no(format!("another code for {name} than for {other}"), code);
        }
    }
    Ok(())
}

#[then(regex = r#"^the failure tells the (\d+) seconds to wait$"#)]
fn tells_wait(w: &mut World, seconds: u64) -> StepResult {
    let outcome = w.outcome()?;
    let text = outcome.result.as_ref().map(Value::to_string).unwrap_or_default();
    let now = crate::run::now_ms();
    // Seconds, milliseconds or a point in time: some number has to say it.
    let told =
        text.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse::<u64>().ok()).any(|n| {
            (seconds - 2..=seconds + 1).contains(&n)
                || (seconds * 1000 - 2000..=seconds * 1000 + 1000).contains(&n)
                || (now..now + (seconds + 1) * 1000).contains(&n) && n > now + (seconds - 10) * 1000
        });
    check(outcome.is_error() && told, format!("the wait of {seconds} s"), outcome.brief())
}

#[then(regex = r#"^host "([^"]*)" received the event "([^"]*)" at most (\d+) times?$"#)]
fn received_at_most(w: &mut World, host: String, event_type: String, most: usize) -> StepResult {
    let agent = w.agent_id();
    let seen = w.hosts.host(&host)?.journal().count(|e| {
        e.event_type() == Some(event_type.as_str())
            && e.envelope.as_ref().is_some_and(|v| v["event"]["actor"] == agent.as_str())
    });
    check(seen <= most, format!("at most {most} times {event_type}"), seen.to_string())
}

#[then("the failure is a tool error with the code in a JSON text item")]
fn shaped_error(w: &mut World) -> StepResult {
    let outcome = w.outcome()?;
    let flagged = outcome.result.as_ref().is_some_and(|r| r["isError"] == true);
    let coded = outcome
        .json_items()
        .iter()
        .any(|b| b["error"]["code"].is_string() || b["code"].is_string());
    check(flagged && coded, "isError, and a JSON text item with the code", outcome.brief())
}

#[then(regex = r#"^the failure names ((?:"[^"]*"(?: and )?)+)$"#)]
fn names(w: &mut World, words: String) -> StepResult {
    let wanted: Vec<String> =
        super::judge::quoted(&words).into_iter().map(|t| w.fill(&t)).collect::<StepResult<_>>()?;
    let outcome = w.outcome()?;
    let text = outcome.result.as_ref().map(Value::to_string).unwrap_or_default();
    let rpc = outcome.rpc.as_ref().map(|(_, m, d)| format!("{m} {d:?}")).unwrap_or_default();
    check(
        wanted.iter().all(|t| text.contains(t) || rpc.contains(t)),
        format!("{wanted:?} in the error"),
        outcome.brief(),
    )
}

#[then(regex = r#"^within (\d+) s host "([^"]*)" sees at most (\d+) requests of "([^"]*)"$"#)]
async fn at_most(
    w: &mut World,
    seconds: u64,
    host: String,
    most: usize,
    route: String,
) -> StepResult {
    let host = w.hosts.host(&host)?;
    let route: Route = serde_json::from_value(json!(route)).map_err(StepError::defect)?;
    // A time has to pass: the rule is about how often something happens in it.
    let more = w
        .eventually(Duration::from_secs(seconds), async |_: &mut World| {
            Ok(host.journal().count(|e| e.is(route)) > most)
        })
        .await?;
    let seen = host.journal().count(|e| e.is(route));
    check(!more && seen > 0, format!("1 to {most} requests in {seconds} s"), seen.to_string())
}
