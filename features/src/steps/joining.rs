//! Join requests and reviews as hosts hold them, and what the target reads to get there.

use cucumber::{then, when};
use mock_hosts::Route;
use serde_json::{Value, json};

use super::folk::requests;
use super::judge::covers;
use super::rooms::SOON;
use crate::failure::{StepError, StepResult, check, no};
use crate::wire::brief;
use crate::world::{AGENT, World};

#[then(regex = r#"^the agent's request for "([^"]*)" has (\{.*\})$"#)]
fn request_has(w: &mut World, room: String, value: String) -> StepResult {
    let wanted = w.json(&value)?;
    let filed = requests(w, &room, &w.agent_id())?;
    check(
        filed.iter().any(|r| covers(&r["request"], &wanted)),
        format!("a join request with {wanted}"),
        brief(&json!(filed)),
    )
}

#[when(regex = r#"^the agent's request for "([^"]*)" is noted as "([^"]*)"$"#)]
fn note_request(w: &mut World, room: String, name: String) -> StepResult {
    match requests(w, &room, &w.agent_id())?.pop() {
        Some(request) => {
            w.notes.insert(name, request["request"]["id"].clone());
            Ok(())
        }
        None => no(format!("a join request of the agent for {room}"), "none"),
    }
}

#[then(regex = r#"^host "([^"]*)" saw (\d+) requests? of "([^"]*)" from the agent$"#)]
fn saw_from_agent(w: &mut World, host: String, count: usize, route: String) -> StepResult {
    let agent = w.agent_id();
    let route: Route = serde_json::from_value(json!(route)).map_err(StepError::defect)?;
    let seen = w
        .hosts
        .host(&host)?
        .journal()
        .count(|e| e.is(route) && e.subject.as_deref() == Some(agent.as_str()));
    check(seen == count, format!("{count} requests of {}", route.as_str()), seen.to_string())
}

#[then(regex = r#"^the agent is not a member of "([^"]*)"$"#)]
fn no_member(w: &mut World, room: String) -> StepResult {
    let (host, id) = w.hosts.host_of(&room)?;
    let agent = w.identity.agent_id();
    let state = host.state(&id).ok_or_else(|| StepError::Defect("no such room".to_owned()))?;
    let outcome = w.outcome()?;
    let claimed = outcome.body()["status"] == "joined";
    check(
        state.active_member(&agent).is_none() && !claimed,
        format!("no membership of the agent in {room}, and none claimed"),
        outcome.brief(),
    )
}

#[then(regex = r#"^the agent's reads of "([^"]*)" carried a sound request JWT$"#)]
fn reads_are_signed(w: &mut World, room: String) -> StepResult {
    let (host, id) = w.hosts.host_of(&room)?;
    let agent = w.agent_id();
    let served: Vec<_> = host.journal().matching(|e| {
        (e.is(Route::Events) || e.is(Route::Room) || e.is(Route::Live))
            && e.room.as_deref() == Some(&id)
            && e.status == Some(200)
    });
    let own = served.iter().filter(|e| e.subject.as_deref() == Some(&agent)).count();
    check(own > 0, "reads with a request JWT of the agent", format!("{} reads", served.len()))
}

#[when(regex = r#"^the agent approves (bob|carol|dave)'s request for "([^"]*)" as (\w+)$"#)]
async fn agent_approves(w: &mut World, other: String, room: String, role: String) -> StepResult {
    let applicant = w.key(&other).agent_id().to_string();
    let request = requests(w, &room, &applicant)?
        .pop()
        .ok_or_else(|| StepError::Defect(format!("{other} filed no request for {room}")))?;
    let arguments = json!({
        "room_id": w.hosts.room(&room)?.id, "request_id": request["request"]["id"],
        "decision": "approve", "role": role,
    });
    w.tool(AGENT, "join_request_review", arguments).await?;
    w.success().map(|_| ())
}

#[then(regex = r#"^the listed request has (\{.*\})$"#)]
fn listed_has(w: &mut World, value: String) -> StepResult {
    let wanted = w.json(&value)?;
    let body = w.success()?;
    let first = &body["join_requests"][0];
    check(
        covers(first, &wanted) || covers(&first["request"], &wanted),
        format!("a listed request with {wanted}"),
        brief(&body),
    )
}

#[then(regex = r#"^no review grants another role than "([^"]*)" in "([^"]*)"$"#)]
fn review_role(w: &mut World, role: String, room: String) -> StepResult {
    let outcome = w.outcome()?.clone();
    let records = w.records(&room)?;
    let reviews: Vec<&Value> = records
        .iter()
        .map(|r| &r["envelope"]["event"])
        .filter(|e| e["type"] == "room.join.review")
        .collect();
    let other = reviews.iter().find(|e| e["payload"]["role"] != role.as_str());
    // Asking back is as good as taking the role that was asked for.
    check(
        other.is_none() && (outcome.is_error() || reviews.len() == 1),
        format!("a review as {role}, or an error"),
        format!("{} {:?}", outcome.brief(), reviews),
    )
}

#[then(regex = r#"^soon nobody is subscribed to "([^"]*)"$"#)]
#[cucumber::given(regex = r#"^soon nobody is subscribed to "([^"]*)"$"#)]
async fn nobody_subscribed(w: &mut World, room: String) -> StepResult {
    let (host, id) = w.hosts.host_of(&room)?;
    let none = host.wait_for_subscribers(&id, 0, SOON).await;
    check(none, format!("no live stream on {room}"), host.live_subscribers(&id).to_string())
}

#[then(regex = r#"^host "([^"]*)" saw no request outside of "([^"]*)" but discovery since$"#)]
fn no_other_path(w: &mut World, host: String, prefix: String) -> StepResult {
    let mark = w.notes.get(&format!("mark {host}")).and_then(Value::as_u64).unwrap_or(0);
    let strange: Vec<String> = w
        .hosts
        .host(&host)?
        .journal()
        .matching(|e| e.n > mark && !e.is(Route::Discovery))
        .into_iter()
        .filter(|e| {
            let rest = e.path.strip_prefix(prefix.as_str());
            // The id is one path part, with perhaps a known sub-resource behind it.
            rest.is_none_or(|r| !matches!(r.split('/').nth(1), None | Some("events")))
        })
        .map(|e| format!("{} {}", e.method, e.path))
        .collect();
    check(strange.is_empty(), "only requests for the room of that id", strange.join(", "))
}
