//! The vocabulary of the GRP features. Steps arrange, act or judge once.
//!
//! Here is what several of them share; the steps themselves stand in `arrange`, `act`,
//! `waiting`, `judge`, `traces` and `page`.

mod act;
mod arrange;
mod judge;
mod page;
mod traces;
mod waiting;

use std::time::Duration;

use cucumber::gherkin::Step;
use serde_json::{Value, json};

use super::client::Reply;
use crate::failure::{StepError, StepResult, check};
use crate::world::World;

/// Generous: machines are busy.
const SOON: Duration = Duration::from_secs(10);

fn doc(step: &Step) -> StepResult<String> {
    step.docstring
        .clone()
        .ok_or_else(|| StepError::Defect("this step needs a doc string".to_owned()))
}

fn doc_json(w: &World, step: &Step) -> StepResult<Value> {
    let text = w.grp_fill(&doc(step)?)?;
    ap_protocol::json::parse(text.trim().as_bytes()).map_err(StepError::defect)
}

fn optional_json(w: &World, step: &Step) -> StepResult<Value> {
    if step.docstring.is_some() { doc_json(w, step) } else { Ok(json!({})) }
}

fn quick(mut body: Value, changes: &Value) -> Value {
    let mut config = json!({
        "visibility": "unlisted", "mechanism": "plurality", "voting_window": 600,
        "settle_window": 0, "early_close": true, "creator_votes": false,
    });
    for (k, v) in changes.as_object().into_iter().flatten() {
        config[k] = v.clone();
    }
    body["config"] = config;
    body
}

fn succeeded(w: &World) -> StepResult {
    let last = w.grp_last()?;
    check(!last.failed, "the call succeeds", last.brief())
}

fn at<'a>(w: &'a World, pointer: &str) -> StepResult<Option<&'a Value>> {
    Ok(w.grp_last()?.body.pointer(pointer))
}

async fn as_creator(w: &mut World, op: &str, room: &str) -> StepResult<Reply> {
    let client = w.grp_client().await?;
    let at = w.grp_room(room)?.clone();
    let who = w.grp_who(&at.creator, room);
    let reply = client.rest(op, &at.slug, &who, &json!({}), None).await?;
    check(!reply.failed, format!("{op} answers the creator"), reply.brief())?;
    Ok(reply)
}
