//! Hosts, rooms, the other agents, and what the target's agent does in rooms.

use std::time::Duration;

use cucumber::gherkin::Step;
use cucumber::{given, then, when};
use mock_hosts::HostConfig;
use serde_json::{Value, json};

use super::call::{docstring, session};
use super::judge::quoted;
use crate::failure::{StepError, StepResult, check};
use crate::wire::brief;
use crate::world::hosts::peer_error;
use crate::world::{AGENT, World};

/// How long something that should happen soon may take. Generous: machines are busy.
pub const SOON: Duration = Duration::from_secs(15);

// --- arranging ---

#[given(regex = r#"^a host "([^"]*)"( that is not on the list)?$"#)]
async fn a_host(w: &mut World, label: String, stranger: String) -> StepResult {
    w.add_host(&label, HostConfig::default(), stranger.is_empty()).await.map(|_| ())
}

#[given(regex = r#"^a host "([^"]*)" that answers with bare lists$"#)]
async fn a_bare_host(w: &mut World, label: String) -> StepResult {
    let config = HostConfig { bare_lists: true, ..HostConfig::default() };
    w.add_host(&label, config, true).await.map(|_| ())
}

#[given(regex = r#"^a host "([^"]*)" with profiles$"#)]
async fn a_host_with_profiles(w: &mut World, label: String) -> StepResult {
    let config = HostConfig { profiles: true, ..HostConfig::default() };
    w.add_host(&label, config, true).await.map(|_| ())
}

#[given(regex = r#"^a profile service "([^"]*)"( that is not on the list)?$"#)]
async fn a_profile_service(w: &mut World, label: String, stranger: String) -> StepResult {
    let config = HostConfig { discourse: false, profiles: true, ..HostConfig::default() };
    w.add_host(&label, config, stranger.is_empty()).await.map(|_| ())
}

#[given(regex = r#"^(\w+) opened the (public|restricted|private) room "([^"]*)" on "([^"]*)"$"#)]
#[when(regex = r#"^(\w+) opened the (public|restricted|private) room "([^"]*)" on "([^"]*)"$"#)]
async fn opened(
    w: &mut World,
    peer: String,
    visibility: String,
    room: String,
    host: String,
) -> StepResult {
    w.create_room(&peer, &room, &host, json!({ "visibility": visibility })).await
}

#[given(regex = r#"^(\w+) opened the room "([^"]*)" on "([^"]*)" with$"#)]
async fn opened_with(
    w: &mut World,
    peer: String,
    room: String,
    host: String,
    step: &Step,
) -> StepResult {
    let changes = docstring(w, step)?;
    w.create_room(&peer, &room, &host, changes).await
}

#[given(
    regex = r#"^(\w+) opened the public room "([^"]*)" on "([^"]*)" with the id of "([^"]*)"$"#
)]
async fn opened_twin(
    w: &mut World,
    peer: String,
    room: String,
    host: String,
    twin: String,
) -> StepResult {
    let id = w.hosts.room(&twin)?.id.clone();
    w.hosts.host(&host)?.next_room_id(&id);
    w.create_room(&peer, &room, &host, json!({})).await
}

#[given(regex = r#"^the connector watches "([^"]*)"$"#)]
fn watches(w: &mut World, event_type: String) -> StepResult {
    w.provision.watch.push(json!({ "type": event_type }));
    Ok(())
}

// --- the others ---

#[given(regex = r#"^(\w+) joined "([^"]*)"(?: as (\w+))?$"#)]
#[when(regex = r#"^(\w+) joins "([^"]*)"(?: as (\w+))?$"#)]
async fn peer_joins(w: &mut World, peer: String, room: String, role: String) -> StepResult {
    let role = if role.is_empty() { "speaker".to_owned() } else { role };
    w.peer_sends(&peer, &room, "room.join", json!({ "role": role }), &[]).await.map(|_| ())
}

#[given(regex = r#"^(\w+) said "([^"]*)" in "([^"]*)"$"#)]
#[when(regex = r#"^(\w+) says "([^"]*)" in "([^"]*)"$"#)]
async fn peer_says(w: &mut World, peer: String, text: String, room: String) -> StepResult {
    if peer == AGENT {
        return Err(StepError::Defect("write: the agent says …".to_owned()));
    }
    let text = w.fill(&text)?;
    let payload = json!({ "content_type": "text/plain", "content": text });
    w.peer_sends(&peer, &room, "message.create", payload, &[]).await.map(|_| ())
}

#[given(regex = r#"^(\w+) said (\d+) things in "([^"]*)"$"#)]
#[when(regex = r#"^(\w+) says (\d+) things in "([^"]*)"$"#)]
async fn peer_says_many(w: &mut World, peer: String, count: u64, room: String) -> StepResult {
    for n in 1..=count {
        let payload = json!({ "content_type": "text/plain", "content": format!("thing {n}") });
        w.peer_sends(&peer, &room, "message.create", payload, &[]).await?;
    }
    Ok(())
}

#[given(regex = r#"^(\w+) asked the agent "([^"]*)" in "([^"]*)"$"#)]
#[when(regex = r#"^(\w+) asks the agent "([^"]*)" in "([^"]*)"$"#)]
async fn peer_mentions(w: &mut World, peer: String, text: String, room: String) -> StepResult {
    let agent = w.agent_id();
    let payload = json!({ "content_type": "text/plain", "content": text });
    w.peer_sends(&peer, &room, "message.create", payload, &[&agent]).await.map(|_| ())
}

#[given(regex = r#"^(\w+) sent "([^"]*)" to "([^"]*)" with$"#)]
#[when(regex = r#"^(\w+) sends "([^"]*)" to "([^"]*)" with$"#)]
async fn peer_event(
    w: &mut World,
    peer: String,
    event_type: String,
    room: String,
    step: &Step,
) -> StepResult {
    let payload = docstring(w, step)?;
    let sent = w.peer_sends(&peer, &room, &event_type, payload, &[]).await?;
    w.notes.insert("sent".to_owned(), sent);
    Ok(())
}

#[when(regex = r#"^(\w+) sends "([^"]*)" to "([^"]*)" mentioning the agent with$"#)]
async fn peer_event_mentioning(
    w: &mut World,
    peer: String,
    event_type: String,
    room: String,
    step: &Step,
) -> StepResult {
    let payload = docstring(w, step)?;
    let agent = w.agent_id();
    w.peer_sends(&peer, &room, &event_type, payload, &[&agent]).await.map(|_| ())
}

#[given(regex = r#"^(\w+) left "([^"]*)"$"#)]
#[when(regex = r#"^(\w+) leaves "([^"]*)"$"#)]
async fn peer_leaves(w: &mut World, peer: String, room: String) -> StepResult {
    w.peer_sends(&peer, &room, "room.leave", json!({}), &[]).await.map(|_| ())
}

#[given(regex = r#"^(\w+) (removes|bans) (the agent|\w+) (?:in|from) "([^"]*)"$"#)]
#[when(regex = r#"^(\w+) (removes|bans) (the agent|\w+) (?:in|from) "([^"]*)"$"#)]
async fn peer_removes(
    w: &mut World,
    peer: String,
    verb: String,
    target: String,
    room: String,
) -> StepResult {
    let member = who(w, &target);
    let payload = json!({ "member": member, "ban": verb == "bans" });
    w.peer_sends(&peer, &room, "room.member.remove", payload, &[]).await.map(|_| ())
}

#[given(
    regex = r#"^(\w+) makes (the agent|\w+) (?:an? )?(moderator|speaker|observer) in "([^"]*)"$"#
)]
#[when(
    regex = r#"^(\w+) makes (the agent|\w+) (?:an? )?(moderator|speaker|observer) in "([^"]*)"$"#
)]
async fn peer_changes_role(
    w: &mut World,
    peer: String,
    target: String,
    role: String,
    room: String,
) -> StepResult {
    let member = who(w, &target);
    let payload = json!({ "member": member, "role": role });
    w.peer_sends(&peer, &room, "room.member.role.update", payload, &[]).await.map(|_| ())
}

fn who(w: &World, name: &str) -> String {
    if name == "the agent" { w.agent_id() } else { w.key(name).agent_id().to_string() }
}

#[given(regex = r#"^(\w+) (approves|rejects) the agent's request for "([^"]*)"(?: as (\w+))?$"#)]
#[when(regex = r#"^(\w+) (approves|rejects) the agent's request for "([^"]*)"(?: as (\w+))?$"#)]
async fn peer_reviews(
    w: &mut World,
    peer: String,
    verb: String,
    room: String,
    role: String,
) -> StepResult {
    let (host, id) = w.hosts.host_of(&room)?;
    let agent = w.agent_id();
    let p = w.peer(&peer)?;
    let path = format!("/v1/rooms/{id}/join-requests");
    let listed = p.get(&host, &path).await.map_err(peer_error)?;
    let all = listed.get("result").unwrap_or(&listed);
    let request = all
        .as_array()
        .into_iter()
        .flatten()
        .map(|r| &r["request"])
        .find(|r| r["applicant"] == agent.as_str())
        .cloned()
        .ok_or_else(|| StepError::Check {
            expected: format!("a join request of the agent for {room}"),
            seen: brief(all),
        })?;
    let role = if role.is_empty() { request["role"].as_str().unwrap_or("speaker") } else { &role };
    let role = (verb == "approves").then_some(role);
    p.review(&host, &id, &request, role).await.map_err(peer_error)?;
    Ok(())
}

#[given(regex = r#"^(\w+) asked to join "([^"]*)" as (\w+)$"#)]
#[when(regex = r#"^(\w+) asks to join "([^"]*)" as (\w+)$"#)]
async fn peer_asks(w: &mut World, peer: String, room: String, role: String) -> StepResult {
    let (host, id) = w.hosts.host_of(&room)?;
    let body = json!({ "role": role, "reason": "I would like to help" });
    let asked = w.peer(&peer)?.request_join(&host, &id, body).await.map_err(peer_error)?;
    w.notes.insert("request".to_owned(), asked["request"].clone());
    Ok(())
}

#[given(regex = r#"^(\w+) is "([^"]*)" in "([^"]*)"$"#)]
#[when(regex = r#"^(\w+) is "([^"]*)" in "([^"]*)"$"#)]
async fn peer_status(w: &mut World, peer: String, state: String, room: String) -> StepResult {
    let (host, id) = w.hosts.host_of(&room)?;
    let body = json!({ "state": state, "summary": "as the story says" });
    w.peer(&peer)?.put_status(&host, &id, body).await.map(|_| ()).map_err(peer_error)
}

#[given(regex = r#"^(\w+) published the profile "([^"]*)" at "([^"]*)"$"#)]
async fn peer_profile(w: &mut World, peer: String, name: String, host: String) -> StepResult {
    let host = w.hosts.host(&host)?;
    let profile = json!({ "name": name, "description": "From a story" });
    w.peer(&peer)?.update_profile(&host, profile).await.map(|_| ()).map_err(peer_error)
}

// --- the target's agent ---

#[given(
    regex = r#"^(?:the agent|session "([^"]*)") is an? (speaker|observer|moderator) of "([^"]*)"$"#
)]
async fn agent_is(w: &mut World, name: String, role: String, room: String) -> StepResult {
    joins(w, name, room, role).await?;
    let body = w.success()?;
    check(body["status"] == "joined", "status joined", brief(&body))
}

#[given(regex = r#"^(?:the agent|session "([^"]*)") joins "([^"]*)" as (\w+)$"#)]
#[when(regex = r#"^(?:the agent|session "([^"]*)") joins "([^"]*)" as (\w+)$"#)]
async fn joins(w: &mut World, name: String, room: String, role: String) -> StepResult {
    let (host, id) = w.hosts.host_of(&room)?;
    let arguments = json!({ "host": host.url(), "room_id": id, "role": role });
    w.tool(session(&name), "room_join", arguments).await
}

#[given(regex = r#"^(?:the agent|session "([^"]*)") opened "([^"]*)"$"#)]
async fn has_opened(w: &mut World, name: String, room: String) -> StepResult {
    opens(w, name, room).await?;
    w.success().map(|_| ())
}

#[when(regex = r#"^(?:the agent|session "([^"]*)") opens "([^"]*)"$"#)]
async fn opens(w: &mut World, name: String, room: String) -> StepResult {
    let (host, id) = w.hosts.host_of(&room)?;
    let arguments = json!({ "host": host.url(), "room_id": id });
    w.tool(session(&name), "room_open", arguments).await
}

#[given(regex = r#"^(?:the agent|session "([^"]*)") read "([^"]*)"$"#)]
#[when(regex = r#"^(?:the agent|session "([^"]*)") reads "([^"]*)"$"#)]
async fn reads(w: &mut World, name: String, room: String) -> StepResult {
    let id = w.hosts.room(&room)?.id.clone();
    let arguments = json!({ "room_id": id, "limit": 200, "refresh": true });
    w.tool(session(&name), "room_timeline", arguments).await
}

#[when(regex = r#"^(?:the agent|session "([^"]*)") looks at "([^"]*)"$"#)]
async fn looks(w: &mut World, name: String, room: String) -> StepResult {
    let id = w.hosts.room(&room)?.id.clone();
    w.tool(session(&name), "room_state", json!({ "room_id": id })).await
}

#[when(regex = r#"^(?:the agent|session "([^"]*)") refreshes "([^"]*)"$"#)]
async fn refreshes(w: &mut World, name: String, room: String) -> StepResult {
    let id = w.hosts.room(&room)?.id.clone();
    w.tool(session(&name), "room_state", json!({ "room_id": id, "refresh": true })).await
}

#[given(regex = r#"^(?:the agent|session "([^"]*)") has said "([^"]*)" in "([^"]*)"$"#)]
async fn has_said(w: &mut World, name: String, text: String, room: String) -> StepResult {
    says(w, name, text, room).await?;
    let body = w.success()?;
    check(body["status"] == "sent", "status sent", brief(&body))
}

#[when(regex = r#"^(?:the agent|session "([^"]*)") says "([^"]*)" in "([^"]*)"$"#)]
async fn says(w: &mut World, name: String, text: String, room: String) -> StepResult {
    let id = w.hosts.room(&room)?.id.clone();
    w.tool(session(&name), "room_send_message", json!({ "room_id": id, "content": text })).await
}

#[when(regex = r#"^(?:the agent|session "([^"]*)") starts saying "([^"]*)" in "([^"]*)"$"#)]
fn starts_saying(w: &mut World, name: String, text: String, room: String) -> StepResult {
    let id = w.hosts.room(&room)?.id.clone();
    let arguments = json!({ "room_id": id, "content": text });
    super::call::start_call(w, session(&name), "room_send_message", arguments)
}

#[when(regex = r#"^(?:the agent|session "([^"]*)") says "([^"]*)" in "([^"]*)" with$"#)]
async fn says_with(
    w: &mut World,
    name: String,
    text: String,
    room: String,
    step: &Step,
) -> StepResult {
    let id = w.hosts.room(&room)?.id.clone();
    let mut arguments = docstring(w, step)?;
    arguments["room_id"] = json!(id);
    arguments["content"] = json!(text);
    w.tool(session(&name), "room_send_message", arguments).await
}

#[when(regex = r#"^(?:the agent|session "([^"]*)") submits "([^"]*)" to "([^"]*)" with$"#)]
async fn submits(
    w: &mut World,
    name: String,
    event_type: String,
    room: String,
    step: &Step,
) -> StepResult {
    let id = w.hosts.room(&room)?.id.clone();
    let mut payload = docstring(w, step)?;
    // `$base`, `$on_head_mismatch` … beside the payload would be tool arguments.
    let mut arguments = json!({ "room_id": id, "type": event_type });
    if let Some(members) = payload.as_object_mut() {
        for name in ["base_seq", "base_hash", "on_head_mismatch", "mentions", "references"] {
            if let Some(value) = members.remove(&format!("+{name}")) {
                arguments[name] = value;
            }
        }
    }
    arguments["payload"] = payload;
    w.tool(session(&name), "room_submit_event", arguments).await
}

// --- judging what the room holds ---

#[then(regex = r#"^"([^"]*)" holds (no|exactly one) message "([^"]*)"( by the agent)?$"#)]
fn holds(w: &mut World, room: String, count: String, text: String, own: String) -> StepResult {
    let agent = w.agent_id();
    let messages = w.messages(&room)?;
    let found = messages
        .iter()
        .filter(|(actor, content)| *content == text && (own.is_empty() || *actor == agent))
        .count();
    let wanted = usize::from(count != "no");
    check(
        found == wanted,
        format!("{count} message {text:?} in {room}"),
        format!("{found} among {messages:?}"),
    )
}

#[then(regex = r#"^soon "([^"]*)" holds exactly one message "([^"]*)"$"#)]
async fn soon_holds(w: &mut World, room: String, text: String) -> StepResult {
    w.eventually(SOON, async |w: &mut World| {
        Ok(w.messages(&room)?.iter().any(|(_, content)| *content == text))
    })
    .await?;
    holds(w, room, "exactly one".to_owned(), text, String::new())
}

#[then(regex = r#"^the agent's last event in "([^"]*)" has "([^"]*)" (.+)$"#)]
fn last_event(w: &mut World, room: String, path: String, value: String) -> StepResult {
    let wanted = w.json(&value)?;
    let agent = w.agent_id();
    let records = w.records(&room)?;
    let event = records
        .iter()
        .rev()
        .map(|r| &r["envelope"]["event"])
        .find(|e| e["actor"] == agent.as_str())
        .ok_or_else(|| StepError::Check {
            expected: format!("an event of the agent in {room}"),
            seen: "none".to_owned(),
        })?;
    let seen = crate::outcome::at(event, &path).unwrap_or(&Value::Null);
    check(*seen == wanted, format!("{path} = {wanted}"), brief(event))
}

#[then(regex = r#"^the chain of "([^"]*)" verifies$"#)]
fn chain_verifies(w: &mut World, room: String) -> StepResult {
    let (host, id) = w.hosts.host_of(&room)?;
    let mut tip = None;
    for record in host.records(&id) {
        let checked = ap_protocol::CheckedRecord::check(&record, &id)
            .and_then(|r| r.link(tip.as_ref()))
            .map_err(|e| StepError::Check {
                expected: "a chain that verifies".to_owned(),
                seen: format!("{e}: {}", brief(&record)),
            })?;
        tip = Some(checked.tip());
    }
    check(tip.is_some(), "records", "none")
}

#[then(regex = r#"^"([^"]*)" has (\d+) records$"#)]
fn record_count(w: &mut World, room: String, count: usize) -> StepResult {
    let seen = w.records(&room)?.len();
    check(seen == count, format!("{count} records"), seen.to_string())
}

// --- judging what the agent was shown ---

#[then(regex = r#"^the items are the messages ((?:"[^"]*"(?:, )?)+)$"#)]
fn items_are(w: &mut World, texts: String) -> StepResult {
    let body = w.success()?;
    let seen = contents(&body["items"]);
    check(seen == quoted(&texts), format!("the messages {texts}"), format!("{seen:?}"))
}

#[then(regex = r#"^the (items|changes) show "([^"]*)"$"#)]
fn shows(w: &mut World, list: String, text: String) -> StepResult {
    let body = w.success()?;
    let seen = contents(&body[list.as_str()]);
    check(seen.contains(&text), format!("{text:?} among the {list}"), format!("{seen:?}"))
}

#[then(regex = r#"^the (items|changes) do not show "([^"]*)"$"#)]
fn does_not_show(w: &mut World, list: String, text: String) -> StepResult {
    let body = w.success()?;
    let seen = contents(&body[list.as_str()]);
    check(!seen.contains(&text), format!("no {text:?} among the {list}"), format!("{seen:?}"))
}

/// Contents of the message items of a timeline.
pub fn contents(items: &Value) -> Vec<String> {
    items
        .as_array()
        .into_iter()
        .flatten()
        .filter(|i| i["type"] == "message.create")
        .map(|i| {
            let direct = i["content"].as_str();
            direct.or(i["payload"]["content"].as_str()).unwrap_or_default().to_owned()
        })
        .collect()
}

#[then(
    regex = r#"^soon (?:the agent|session "([^"]*)") sees "([^"]*)" in "([^"]*)" without refreshing$"#
)]
async fn soon_sees(w: &mut World, name: String, text: String, room: String) -> StepResult {
    let id = w.hosts.room(&room)?.id.clone();
    let who = session(&name).to_owned();
    let seen = w
        .eventually(SOON, async |w: &mut World| {
            let arguments = json!({ "room_id": id, "limit": 500 });
            w.tool(&who, "room_timeline", arguments).await?;
            Ok(contents(&w.outcome()?.body()["items"]).contains(&text))
        })
        .await?;
    check(seen, format!("{text:?} in the timeline soon"), w.outcome()?.brief())
}

#[then(regex = r#"^every record of "([^"]*)" is shown exactly once$"#)]
async fn all_shown_once(w: &mut World, room: String) -> StepResult {
    let count = w.records(&room)?.len() as u64;
    let id = w.hosts.room(&room)?.id.clone();
    let mut seen = Vec::new();
    let mut after = None::<u64>;
    // A page more than there are records would be a loop.
    for _ in 0..=count {
        let mut arguments = json!({ "room_id": id, "limit": 500 });
        if let Some(seq) = after {
            arguments["after_seq"] = json!(seq);
        }
        w.tool(AGENT, "room_timeline", arguments).await?;
        let body = w.success()?;
        let items = body["items"].as_array().cloned().unwrap_or_default();
        seen.extend(items.iter().filter_map(|i| i["seq"].as_u64()));
        after = body["next_after_seq"].as_u64();
        if after.is_none() {
            break;
        }
    }
    let wanted: Vec<u64> = (1..=count).collect();
    check(seen == wanted, format!("seqs 1 to {count}, once each, ascending"), format!("{seen:?}"))
}

#[then("the result's sync is complete")]
fn sync_complete(w: &mut World) -> StepResult {
    let body = w.success()?;
    let sync = &body["sync"];
    let number = |n: &str| sync[n].is_u64();
    let text = |n: &str| sync[n].as_str().is_some_and(|t| !t.is_empty());
    let complete = ["host", "room_id", "head_hash"].iter().all(|n| text(n))
        && ["head_seq", "synced_seq", "remote_seq", "unread_count", "pending_inbox_count"]
            .iter()
            .all(|n| number(n))
        && sync["subscribed"].is_boolean();
    check(complete, "a sync object with all nine members", brief(&body))
}

#[then(regex = r#"^the result's sync names the head of "([^"]*)"$"#)]
fn sync_head(w: &mut World, room: String) -> StepResult {
    let (host, id) = w.hosts.host_of(&room)?;
    let state = host.state(&id).ok_or_else(|| StepError::Defect("no such room".to_owned()))?;
    let body = w.success()?;
    let sync = &body["sync"];
    check(
        sync["head_seq"] == state.head.seq
            && sync["head_hash"] == json!(state.head.hash)
            && sync["synced_seq"] == state.tip.seq,
        format!("head {} {}, synced {}", state.head.seq, state.head.hash, state.tip.seq),
        sync.to_string(),
    )
}
