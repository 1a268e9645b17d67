//! Acting: operations by name, and raw requests.

use cucumber::gherkin::Step;
use cucumber::{given, then, when};
use reqwest::Method;
use serde_json::{Value, json};

use super::super::client::Via;
use super::{optional_json, succeeded};
use crate::failure::{StepError, StepResult};
use crate::world::World;

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
    with: String,
    step: &Step,
) -> StepResult {
    calls(w, who, op, room, with, step).await?;
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
    let key = w.grp_fill(&key)?;
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

#[given(regex = r#"^(\w+) comes to "([^"]*)" by invite$"#)]
async fn came(w: &mut World, who: String, room: String) -> StepResult {
    come(w, &who, &room, &who).await?;
    succeeded(w)
}

#[when(regex = r#"^(\w+) comes to "([^"]*)" by invite$"#)]
async fn comes(w: &mut World, who: String, room: String) -> StepResult {
    come(w, &who, &room, &who).await
}

#[when(regex = r#"^(\w+) comes to "([^"]*)" by the invite of (\w+)$"#)]
async fn comes_as(w: &mut World, who: String, room: String, guest: String) -> StepResult {
    come(w, &who, &room, &guest).await
}

async fn come(w: &mut World, who: &str, room: &str, guest: &str) -> StepResult {
    let token = w.grp_fill(&format!("{{kept:invite of {guest}:/invite_token}}"))?;
    w.grp_call(who, "join_room", room, json!({ "invite": token }), None).await
}

#[when(regex = r#"^(\w+) and (\w+) call (\w+) in "([^"]*)" at once$"#)]
async fn both_call(
    w: &mut World,
    one: String,
    other: String,
    op: String,
    room: String,
) -> StepResult {
    let client = w.grp_client().await?;
    let slug = w.grp_room(&room)?.slug.clone();
    let via = w.grp.via.unwrap_or(Via::Rest);
    let (first, second) = (w.grp_who(&one, &room), w.grp_who(&other, &room));
    let none = json!({});
    let (a, b) = tokio::join!(
        client.call(via, &op, &slug, &first, &none, None),
        client.call(via, &op, &slug, &second, &none, None),
    );
    w.answered = true;
    w.grp.both = vec![a?, b?];
    Ok(())
}

#[when(regex = r#"^(\w+) tells "([^"]*)" (\d+) characters$"#)]
async fn tells_much(w: &mut World, who: String, room: String, length: usize) -> StepResult {
    // Two bytes each: characters are counted, not bytes.
    let body = "\u{e9}".repeat(length);
    w.grp_call(&who, "discuss", &room, json!({ "body": body }), None).await
}
