//! Waiting: long-polls in flight, and the host's clock.

use std::time::Duration;

use cucumber::{given, then, when};
use serde_json::json;

use super::super::client::{Reply, Via};
use crate::failure::{StepError, StepResult, check, no};
use crate::world::World;

#[given(regex = r#"^(\w+) waits in "([^"]*)" for (\w+) up to ([\d.]+) s$"#)]
#[when(regex = r#"^(\w+) waits in "([^"]*)" for (\w+) up to ([\d.]+) s$"#)]
async fn waits(w: &mut World, who: String, room: String, what: String, secs: f64) -> StepResult {
    let client = w.grp_client().await?;
    let slug = w.grp_room(&room)?.slug.clone();
    let caller = w.grp_who(&who, &room);
    let via = w.grp.via.unwrap_or(Via::Rest);
    let args = json!({ "wait": secs, "for": what });
    let task =
        tokio::spawn(async move { client.call(via, "wait", &slug, &caller, &args, None).await });
    w.grp.waits.insert(who, task);
    Ok(())
}

async fn ended(w: &mut World, who: &str, within: Duration) -> StepResult<Reply> {
    let task =
        w.grp.waits.remove(who).ok_or_else(|| StepError::Defect(format!("{who} does not wait")))?;
    match tokio::time::timeout(within, task).await {
        Ok(joined) => joined.map_err(StepError::defect)?,
        Err(_) => no(format!("the wait of {who} ends within {within:?}"), "it still sleeps"),
    }
}

#[then(regex = r"^the wait of (\w+) ends (actionable|activity|timeout) within ([\d.]+) s$")]
async fn wait_ends(w: &mut World, who: String, how: String, secs: f64) -> StepResult {
    let reply = ended(w, &who, Duration::from_secs_f64(secs)).await?;
    w.answered = true;
    w.grp.last = Some(reply.clone());
    check(reply.body["status"] == how.as_str(), format!("a wait that ends {how}"), reply.brief())
}

#[then(regex = r"^(\w+) still waits after ([\d.]+) s$")]
async fn still_waits(w: &mut World, who: String, secs: f64) -> StepResult {
    let task = w
        .grp
        .waits
        .get_mut(&who)
        .ok_or_else(|| StepError::Defect(format!("{who} does not wait")))?;
    // That nothing happens can only be seen by giving it the time to happen.
    match tokio::time::timeout(Duration::from_secs_f64(secs), task).await {
        Err(_) => Ok(()),
        Ok(reply) => {
            let reply = reply.map_err(StepError::defect)??;
            no(format!("{who} goes on waiting"), reply.brief())
        }
    }
}

#[then(regex = r"^it took between ([\d.]+) and ([\d.]+) s$")]
async fn took(w: &mut World, least: f64, most: f64) -> StepResult {
    let took = w.grp_last()?.took.as_secs_f64();
    check(
        (least..=most).contains(&took),
        format!("an answer after {least} to {most} s"),
        format!("{took:.2} s"),
    )
}

#[given("the host's clock stands still")]
async fn clock_stands(w: &mut World) -> StepResult {
    let clock = w.grp_lab().await?.clock().clone();
    clock.set(clock.now_ms());
    Ok(())
}

#[when(regex = r"^the host's clock moves (\d+) s$")]
async fn clock_moves(w: &mut World, secs: i64) -> StepResult {
    w.grp_lab().await?.clock().advance(secs * 1_000);
    Ok(())
}
