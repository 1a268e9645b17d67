//! Calling tools: any tool with any arguments, at once or without waiting.

use cucumber::gherkin::Step;
use cucumber::{given, when};
use serde_json::{Value, json};

use crate::failure::{StepError, StepResult};
use crate::outcome::Outcome;
use crate::profile::{TOOL_PREFIX, short};
use crate::world::{AGENT, World, target_error};

/// The session a sentence speaks of: `the agent`, or `session "x"`.
pub fn session(name: &str) -> &str {
    if name.is_empty() { AGENT } else { name }
}

/// The JSON of a step's docstring.
pub fn docstring(w: &World, step: &Step) -> StepResult<Value> {
    let text = step
        .docstring
        .as_ref()
        .ok_or_else(|| StepError::Defect("the step needs a docstring".to_owned()))?;
    w.json(text)
}

#[given(regex = r#"^(?:the agent|session "([^"]*)") has called "([^"]*)" with$"#)]
async fn has_called(w: &mut World, name: String, tool: String, step: &Step) -> StepResult {
    let arguments = docstring(w, step)?;
    w.tool(session(&name), &tool, arguments).await?;
    w.success().map(|_| ())
}

#[when(regex = r#"^(?:the agent|session "([^"]*)") calls "([^"]*)" with$"#)]
async fn calls_with(w: &mut World, name: String, tool: String, step: &Step) -> StepResult {
    let arguments = docstring(w, step)?;
    w.tool(session(&name), &tool, arguments).await
}

#[when(regex = r#"^(?:the agent|session "([^"]*)") calls "([^"]*)"$"#)]
async fn calls(w: &mut World, name: String, tool: String) -> StepResult {
    w.tool(session(&name), &tool, json!({})).await
}

#[when(regex = r#"^(?:the agent|session "([^"]*)") starts calling "([^"]*)" with$"#)]
async fn starts_calling(w: &mut World, name: String, tool: String, step: &Step) -> StepResult {
    let arguments = docstring(w, step)?;
    start_call(w, session(&name), &tool, arguments)
}

/// Sends a call whose answer a later step awaits.
pub fn start_call(w: &mut World, name: &str, tool: &str, arguments: Value) -> StepResult {
    let tool = short(tool);
    if !w.run.profile.claims_tool(tool) {
        return Err(StepError::NotClaimed(format!("the target does not offer {tool}")));
    }
    let call = w.session(name)?.send_tool(&format!("{TOOL_PREFIX}{tool}"), arguments.clone());
    w.calls.insert(name.to_owned(), (tool.to_owned(), arguments, call));
    Ok(())
}

#[when(regex = r#"^the call of (?:the agent|session "([^"]*)") returns$"#)]
async fn returns(w: &mut World, name: String) -> StepResult {
    let (tool, arguments, call) = pending(w, session(&name))?;
    let answer = call.wait(w.run.timeout()).await;
    w.last = Some(Outcome::new(&tool, arguments, answer).map_err(target_error)?);
    Ok(())
}

#[when(regex = r#"^(?:the agent|session "([^"]*)") cancels the call$"#)]
fn cancels(w: &mut World, name: String) -> StepResult {
    let name = session(&name).to_owned();
    let id = w.calls.get(&name).map(|(_, _, call)| call.id);
    let id = id.ok_or_else(|| StepError::Defect("no call is under way".to_owned()))?;
    w.session(&name)?.notify(
        "notifications/cancelled",
        Some(json!({ "requestId": id, "reason": "the user changed its mind" })),
    );
    Ok(())
}

/// Takes the call that is under way.
pub fn pending(w: &mut World, name: &str) -> StepResult<(String, Value, crate::mcp::Call)> {
    w.calls.remove(name).ok_or_else(|| StepError::Defect(format!("no call of {name} is under way")))
}
