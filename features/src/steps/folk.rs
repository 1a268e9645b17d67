//! Smaller acts of the other agents, as one line each.

use cucumber::{given, then, when};
use serde_json::{Value, json};

use crate::failure::{StepError, StepResult, check};
use crate::wire::brief;
use crate::world::World;
use crate::world::hosts::peer_error;

#[given(regex = r#"^(\w+) waves in "([^"]*)"$"#)]
#[when(regex = r#"^(\w+) waves in "([^"]*)"$"#)]
async fn waves(w: &mut World, peer: String, room: String) -> StepResult {
    w.peer_sends(&peer, &room, "demo.wave", json!({}), &[]).await.map(|_| ())
}

#[when(regex = r#"^(\w+) asks (ada|bob|carol) "([^"]*)" in "([^"]*)"$"#)]
async fn asks_other(
    w: &mut World,
    peer: String,
    other: String,
    text: String,
    room: String,
) -> StepResult {
    let other = w.key(&other).agent_id().to_string();
    asks(w, &peer, &text, &room, &[&other]).await
}

/// A message that mentions these.
async fn asks(w: &mut World, peer: &str, text: &str, room: &str, mentions: &[&str]) -> StepResult {
    let payload = json!({ "content_type": "text/plain", "content": text });
    w.peer_sends(peer, room, "message.create", payload, mentions).await.map(|_| ())
}

#[when(regex = r#"^(\w+) asks (ada|bob|carol) and the agent "([^"]*)" in "([^"]*)"$"#)]
async fn asks_both(
    w: &mut World,
    peer: String,
    other: String,
    text: String,
    room: String,
) -> StepResult {
    let (other, agent) = (w.key(&other).agent_id().to_string(), w.agent_id());
    asks(w, &peer, &text, &room, &[&other, &agent]).await
}

#[when(regex = r#"^(\w+) sends a "([^"]*)" to "([^"]*)"$"#)]
async fn sends_bare(w: &mut World, peer: String, event_type: String, room: String) -> StepResult {
    w.peer_sends(&peer, &room, &event_type, json!({}), &[]).await.map(|_| ())
}

/// The Agent ID everywhere in a payload, and not among the mentions.
#[when(regex = r#"^(\w+) hides the agent in the payload in "([^"]*)"$"#)]
async fn hides(w: &mut World, peer: String, room: String) -> StepResult {
    let agent = w.agent_id();
    let payload =
        json!({ "mentions": [agent], "speaker": agent, "extra": { "mentions": [agent] } });
    w.peer_sends(&peer, &room, "demo.note", payload, &[]).await.map(|_| ())
}

#[when(regex = r#"^(\w+) renames "([^"]*)" to "([^"]*)"$"#)]
async fn renames(w: &mut World, peer: String, room: String, topic: String) -> StepResult {
    w.peer_sends(&peer, &room, "room.update", json!({ "topic": topic }), &[]).await.map(|_| ())
}

/// A text with JSON escapes in it, for characters that no feature file should hold.
#[given(regex = r#"^(\w+) said "([^"]*)" in "([^"]*)" escaped$"#)]
async fn says_escaped(w: &mut World, peer: String, text: String, room: String) -> StepResult {
    let text: String = serde_json::from_str(&format!("\"{text}\"")).map_err(StepError::defect)?;
    let payload = json!({ "content_type": "text/plain", "content": text });
    w.peer_sends(&peer, &room, "message.create", payload, &[]).await.map(|_| ())
}

#[given(regex = r#"^(\w+) is "([^"]*)" in "([^"]*)" for (\d+) ms$"#)]
async fn status_for(
    w: &mut World,
    peer: String,
    state: String,
    room: String,
    ms: u64,
) -> StepResult {
    let (host, id) = w.hosts.host_of(&room)?;
    let until = w.hosts.clock()?.now_ms() + ms;
    let body = json!({ "state": state, "expires_at": until });
    w.peer(&peer)?.put_status(&host, &id, body).await.map(|_| ()).map_err(peer_error)
}

/// Filed join requests of a room, as the host holds them.
pub fn requests(w: &World, room: &str, applicant: &str) -> StepResult<Vec<Value>> {
    let (host, id) = w.hosts.host_of(room)?;
    let dump = host.dump();
    let all = dump["rooms"][&id]["join_requests"].as_array().cloned().unwrap_or_default();
    Ok(all.into_iter().filter(|r| r["request"]["applicant"] == applicant).collect())
}

#[given(regex = r#"^(ada|bob|carol) approves (bob|carol|dave)'s request for "([^"]*)"$"#)]
#[when(regex = r#"^(ada|bob|carol) approves (bob|carol|dave)'s request for "([^"]*)"$"#)]
async fn approves_other(w: &mut World, peer: String, other: String, room: String) -> StepResult {
    let applicant = w.key(&other).agent_id().to_string();
    let request = requests(w, &room, &applicant)?
        .pop()
        .ok_or_else(|| StepError::Defect(format!("{other} filed no request for {room}")))?;
    let role = request["request"]["role"].as_str().unwrap_or("speaker").to_owned();
    let (host, id) = w.hosts.host_of(&room)?;
    let done = w.peer(&peer)?.review(&host, &id, &request["request"], Some(&role)).await;
    done.map(|_| ()).map_err(peer_error)
}

#[then(regex = r#"^(bob|carol|dave) (can|cannot) join "([^"]*)" as (\w+)$"#)]
async fn can_join(
    w: &mut World,
    peer: String,
    how: String,
    room: String,
    role: String,
) -> StepResult {
    let applicant = w.key(&peer).agent_id().to_string();
    let request = requests(w, &room, &applicant)?.pop().unwrap_or_default();
    let (host, id) = w.hosts.host_of(&room)?;
    let request_id = request["request"]["id"].as_str().unwrap_or_default().to_owned();
    let joined = w.peer(&peer)?.join_with(&host, &id, &role, &request_id).await;
    check(
        joined.is_ok() == (how == "can"),
        format!("{peer} {how} join {room} as {role}"),
        format!("{:?} with {}", joined.map(|_| "joined"), brief(&request)),
    )
}
