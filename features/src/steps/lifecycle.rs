//! Starting, stopping, killing the target, and the MCP lifecycle.

use std::time::Duration;

use cucumber::{given, then, when};
use serde_json::json;

use crate::failure::{StepError, StepResult, check};
use crate::mcp::Session;
use crate::world::{AGENT, World, target_error};

#[given("the connector runs")]
#[when("the connector starts")]
#[when("the connector starts again")]
async fn starts(w: &mut World) -> StepResult {
    w.start(AGENT).await
}

#[given(expr = "a second session {string} on the same state directory")]
#[when(expr = "a second session {string} starts on the same state directory")]
async fn second(w: &mut World, name: String) -> StepResult {
    w.start(&name).await
}

#[given("the connector process runs without being initialized")]
fn starts_raw(w: &mut World) -> StepResult {
    let session = Session::start(&w.launch(AGENT)?).map_err(target_error)?;
    w.sessions.insert(AGENT.to_owned(), session);
    Ok(())
}

#[when(expr = "the client asks for protocol version {string}")]
async fn asks_version(w: &mut World, version: String) -> StepResult {
    let timeout = w.run.timeout();
    let session = w
        .sessions
        .get_mut(AGENT)
        .ok_or_else(|| StepError::Defect("no session was started".to_owned()))?;
    session.initialize(&version, timeout).await.map_err(target_error)?;
    w.answered = true;
    Ok(())
}

#[then(expr = "the server answers with protocol version {string}")]
fn answered_version(w: &mut World, version: String) -> StepResult {
    let session = w.session(AGENT)?;
    let answer = session.initialized.clone().unwrap_or_default();
    check(
        answer["protocolVersion"] == version.as_str(),
        format!("protocolVersion {version:?}"),
        answer["protocolVersion"].to_string(),
    )
}

#[then("it introduces itself with a name and a version")]
fn introduces_itself(w: &mut World) -> StepResult {
    let answer = w.session(AGENT)?.initialized.clone().unwrap_or_default();
    let info = &answer["serverInfo"];
    let text = |name: &str| info[name].as_str().is_some_and(|t| !t.is_empty());
    check(text("name") && text("version"), "serverInfo with name and version", info.to_string())
}

#[then("it offers tools and neither logging nor anything of roots or sampling")]
fn offers_no_deprecated_feature(w: &mut World) -> StepResult {
    let answer = w.session(AGENT)?.initialized.clone().unwrap_or_default();
    let offered = &answer["capabilities"];
    check(offered["tools"].is_object(), "the tools capability", offered.to_string())?;
    check(
        ["logging", "roots", "sampling"].iter().all(|name| offered.get(name).is_none()),
        "no logging, roots or sampling among the capabilities",
        offered.to_string(),
    )
}

#[then("it asked nothing of the client but pings")]
fn asked_nothing(w: &mut World) -> StepResult {
    let asked = w.session(AGENT)?.server_requests();
    let other: Vec<_> = asked.iter().filter(|r| r["method"] != "ping").collect();
    check(other.is_empty(), "no request to the client", format!("{other:?}"))
}

#[when("the client pings")]
async fn pings(w: &mut World) -> StepResult {
    let answer = w.session(AGENT)?.request("ping", json!({}), w.run.timeout()).await;
    let answer = answer.map_err(target_error)?;
    check(answer == json!({}), "an empty result", answer.to_string())
}

#[then(expr = "every line of stdout was a JSON-RPC message")]
fn stdout_is_clean(w: &mut World) -> StepResult {
    let noise: Vec<String> =
        w.ended.iter().chain(w.sessions.values()).flat_map(Session::noise).collect();
    check(noise.is_empty(), "only JSON-RPC messages on stdout", noise.join(" | "))
}

#[when(expr = "the client sends the line {string}")]
fn sends_line(w: &mut World, line: String) -> StepResult {
    w.session(AGENT)?.raw(&line);
    Ok(())
}

#[when("the client closes stdin")]
fn closes_stdin(w: &mut World) -> StepResult {
    w.session(AGENT)?.close_stdin();
    Ok(())
}

#[then(expr = "the process ends by itself within {int} s")]
async fn ends(w: &mut World, seconds: u64) -> StepResult {
    let status = w.session(AGENT)?.exited(Duration::from_secs(seconds)).await;
    check(status.is_some(), format!("an exit within {seconds} s"), "it still runs")
}

#[when("the connector stops")]
#[when("the connector is restarted")]
async fn restarts(w: &mut World) -> StepResult {
    stop(w, AGENT).await
}

/// Stops and starts the first session, so that it reads its provisioning again.
///
/// # Errors
/// As [`World::start`].
pub async fn restart(w: &mut World) -> StepResult {
    stop(w, AGENT).await?;
    w.start(AGENT).await
}

#[when("the connector is killed")]
async fn killed(w: &mut World) -> StepResult {
    if let Some(session) = w.sessions.remove(AGENT) {
        session.kill().await;
        w.ended.push(session);
    }
    Ok(())
}

async fn stop(w: &mut World, name: &str) -> StepResult {
    if let Some(session) = w.sessions.remove(name) {
        // How it ends is judged where the scenario is about that; here it only must.
        let _ = session.stop(Duration::from_secs(5)).await;
        w.ended.push(session);
    }
    Ok(())
}
