//! Steps of `@reference` scenarios: settings and choices that are only our connector's. Nothing
//! here may be held against another target.

use cucumber::gherkin::Step;
use cucumber::{given, then, when};
use serde_json::{Value, json};

use super::call::docstring;
use crate::failure::{StepError, StepResult, check};
use crate::outcome::Outcome;
use crate::profile::{TOOL_PREFIX, short};
use crate::world::{AGENT, World, target_error};

/// The progress token of the suite's calls.
const TOKEN: &str = "how far?";

#[given(regex = r#"^the connector is tuned with (\{.*\})$"#)]
fn tuned(w: &mut World, tuning: String) -> StepResult {
    if w.sessions.contains_key(AGENT) {
        return Err(StepError::Defect("the configuration is read at the start".to_owned()));
    }
    w.provision.tuning = Some(w.json(&tuning)?);
    Ok(())
}

#[when(regex = r#"^the agent calls "([^"]*)" (with|without) a progress token for$"#)]
async fn with_token(w: &mut World, tool: String, which: String, step: &Step) -> StepResult {
    let arguments = docstring(w, step)?;
    if !w.sessions.contains_key(AGENT) {
        w.start(AGENT).await?;
    }
    let tool = short(&tool).to_owned();
    let mut params =
        json!({ "name": format!("{TOOL_PREFIX}{tool}"), "arguments": arguments.clone() });
    if which == "with" {
        params["_meta"] = json!({ "progressToken": TOKEN });
    }
    let call = w.session(AGENT)?.send("tools/call", params);
    w.notes.insert("progress call".to_owned(), json!(call.id));
    let answer = call.wait(w.run.timeout()).await;
    w.last = Some(Outcome::new(&tool, arguments, answer).map_err(target_error)?);
    Ok(())
}

/// What the target said of progress, and how much of it after the answer.
fn told(w: &World) -> StepResult<(Vec<Value>, usize)> {
    let id = w.notes.get("progress call").cloned().unwrap_or(Value::Null);
    let (mut steps, mut late, mut answered) = (Vec::new(), 0, false);
    for line in w.heard() {
        let frame = ap_protocol::json::parse(line.as_bytes()).map_err(StepError::defect)?;
        if frame["method"] == "notifications/progress" {
            late += usize::from(answered);
            steps.push(frame["params"].clone());
        }
        answered |= frame.get("result").is_some() && frame["id"] == id;
    }
    Ok((steps, late))
}

#[then(regex = r#"^progress was told at least (\d+) times?, growing, before the answer$"#)]
fn progress_grows(w: &mut World, times: usize) -> StepResult {
    let (steps, late) = told(w)?;
    let done: Vec<f64> = steps.iter().filter_map(|s| s["progress"].as_f64()).collect();
    let growing = done.windows(2).all(|pair| pair[0] < pair[1]);
    let ours = steps.iter().all(|s| s["progressToken"] == TOKEN);
    check(
        steps.len() >= times && done.len() == steps.len() && growing && ours && late == 0,
        format!("{times} or more growing steps for our token, all before the answer"),
        format!("{} of them late: {}", late, json!(steps)),
    )
}

#[then(regex = r#"^the failure says when to try again, within (\d+) s$"#)]
fn when_again(w: &mut World, seconds: u64) -> StepResult {
    let outcome = w.outcome()?;
    let wait_ms = outcome.body()["error"]["data"]["retry_after_ms"].as_u64();
    check(
        wait_ms.is_some_and(|ms| ms > 0 && ms <= seconds * 1000),
        format!("a wait of up to {seconds} s"),
        outcome.brief(),
    )
}

#[then("no progress was told")]
fn no_progress(w: &mut World) -> StepResult {
    let (steps, _) = told(w)?;
    check(steps.is_empty(), "no progress without a token", json!(steps).to_string())
}
