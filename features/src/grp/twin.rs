//! One story told twice, over REST and over MCP, and everything it leaves behind compared:
//! state, events, outcome, receipts, and the audit chain where it can be seen.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::client::{Client, Via, Who};
use super::receipts;
use crate::failure::{StepResult, check};
use crate::wire::brief;
use crate::world::World;

/// Members that name one run and not another.
const NAMES: [&str; 34] = [
    "id",
    "slug",
    "url",
    "at",
    "ts",
    "jti",
    "iat",
    "iss",
    "aud",
    "room",
    "room_id",
    "agent_id",
    "decision_id",
    "participant_id",
    "message_id",
    "created_at",
    "joined_at",
    "last_seen_at",
    "deliberated_at",
    "voted_at",
    "posted_at",
    "cast_at",
    "declared_at",
    "occurred_at",
    "resolved_at",
    "voting_ends_at",
    "voting_opens_at",
    "concluded_at",
    "closes_at",
    "seconds_left",
    "receipt_jws",
    "receipt_hash",
    "prev_hash",
    "deterministic_seed",
];

/// Takes out what must differ, keeps whether it was there at all.
fn masked(value: &Value) -> Value {
    match value {
        Value::Object(map) => map
            .iter()
            .map(|(k, v)| {
                let named = NAMES.contains(&k.as_str())
                    || matches!(
                        k.as_str(),
                        "windows"
                            | "more"
                            | "active_decision_id"
                            | "eligible_participant_ids"
                            | "concluded_by"
                            | "hash"
                            | "actor"
                            | "jwks_url"
                            | "verification"
                            | "accepted_participant_id"
                            | "brief"
                            | "code"
                            | "voter_id"
                            | "accepted_at"
                            | "resolution_payload"
                    );
                (k.clone(), if named && !v.is_null() { json!("…") } else { masked(v) })
            })
            .collect(),
        Value::Array(items) => items.iter().map(masked).collect(),
        other => other.clone(),
    }
}

struct Trace(BTreeMap<&'static str, Value>);

async fn tell(w: &mut World, client: &Client, via: Via) -> StepResult<Trace> {
    let none = Who::default();
    let answer = async |op: &str, slug: &str, who: &Who, args: Value| {
        let reply = client.call(via, op, slug, who, &args, None).await?;
        check(!reply.failed, format!("{op} succeeds over {via:?}"), reply.brief())?;
        Ok::<Value, crate::failure::StepError>(reply.body)
    };
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    let seat =
        |v: &Value, name: &str| Who { token: v[name].as_str().map(str::to_owned), mandate: None };
    let made = answer(
        "create_room",
        "",
        &none,
        json!({
            "about": "Twins", "config": {
                "type": "persistent", "visibility": "unlisted", "mechanism": "approval",
                "voting_window": 600, "settle_window": 0, "early_close": true,
                "creator_votes": true,
            },
        }),
    )
    .await?;
    let slug = text(&made["slug"]);
    let ann = seat(&made, "creator_token");
    let joined = answer("join_room", &slug, &none, json!({ "display_name": "bob" })).await?;
    let bob = seat(&joined, "participant_token");
    let mandate = w.grp_mandate("eve", json!({}), false).await?;
    let eve = Who { token: None, mandate: Some(mandate) };
    answer("join_room", &slug, &eve, json!({ "display_name": "eve" })).await?;
    let early = client.call(via, "choose", &slug, &bob, &json!({ "choice": ["a"] }), None).await?;
    answer("discuss", &slug, &bob, json!({ "body": "Before any question", "stance": "clarify" }))
        .await?;
    answer(
        "ask",
        &slug,
        &ann,
        json!({
            "question": "Which of them?", "options": ["a", "b"], "proposal_window": 300,
        }),
    )
    .await?;
    answer("propose", &slug, &bob, json!({ "option": "c, with a comma" })).await?;
    let refused =
        client.call(via, "choose", &slug, &bob, &json!({ "choice": ["a"] }), None).await?;
    answer("start_choosing", &slug, &ann, json!({})).await?;
    answer("choose", &slug, &bob, json!({ "choice": ["a", "#3"], "rationale": "both" })).await?;
    answer("choose", &slug, &eve, json!({ "choice": ["c, with a comma"] })).await?;
    answer("abstain", &slug, &ann, json!({ "reason": "I only host" })).await?;
    // The same call under one key, twice: one message, one answer.
    let keyed = async || {
        let args = json!({ "body": "said once" });
        client.call(via, "discuss", &slug, &bob, &args, Some("twin")).await
    };
    let (once, again) = (keyed().await?, keyed().await?);
    let mut waited = answer("wait", &slug, &bob, json!({ "for": "completion", "wait": 1 })).await?;
    if let Some(map) = waited.as_object_mut() {
        // Tool results say ok; a long-poll answer over REST need not.
        map.remove("ok");
    }
    answer("close_room", &slug, &ann, json!({ "statement": "Done." })).await?;
    let after = client.call(via, "discuss", &slug, &bob, &json!({ "body": "late" }), None).await?;
    w.answered = true;
    // Reading back always over the same transport: what is compared is what was left behind.
    let read = async |op: &str, args: Value| {
        Ok::<Value, crate::failure::StepError>(
            client.rest(op, &slug, &ann, &args, None).await?.body,
        )
    };
    let outcome = read("outcome", json!({})).await?;
    let receipts: Vec<Value> = receipts::verify_outcome(client, &outcome)
        .await?
        .into_iter()
        .map(|v| masked(&v.payload))
        .collect();
    let codes = json!([early.code(), refused.code(), after.code()]);
    let mut trace = BTreeMap::from([
        ("refusals", codes),
        ("repeat", json!(once.body["id"] == again.body["id"] && !again.failed)),
        ("wait", masked(&waited)),
        ("state", masked(&read("read_room", json!({ "include": "full" })).await?)),
        ("events", masked(&read("list_events", json!({})).await?)),
        ("outcome", masked(&outcome)),
        ("receipts", json!(receipts)),
    ]);
    if let Some(host) = &w.grp.host {
        let log: Vec<Value> = host
            .audit(&slug)
            .unwrap_or_default()
            .iter()
            .map(|e| json!({ "seq": e.seq, "action": e.action, "authority": e.authority, "subject": e.subject }))
            .collect();
        trace.insert("audit", json!(log));
    }
    Ok(Trace(trace))
}

/// Tells the story over both transports and compares the traces.
///
/// # Errors
/// The first trace that differs.
pub async fn compare(w: &mut World) -> StepResult {
    let client = w.grp_client().await?;
    let rest = tell(w, &client, Via::Rest).await?;
    let mcp = tell(w, &client, Via::Mcp).await?;
    for (what, over_rest) in &rest.0 {
        let over_mcp = &mcp.0[what];
        check(
            over_rest == over_mcp,
            format!("equal {what} over REST and MCP"),
            difference(over_rest, over_mcp, String::new())
                .unwrap_or_else(|| format!("{} and {}", brief(over_rest), brief(over_mcp))),
        )?;
    }
    check(rest.0["events"]["events"].as_array().is_some_and(|e| e.len() > 8), "events", "few")
}

fn difference(a: &Value, b: &Value, at: String) -> Option<String> {
    match (a, b) {
        (Value::Object(x), Value::Object(y)) => {
            x.keys().chain(y.keys()).find_map(|k| difference(&a[k], &b[k], format!("{at}/{k}")))
        }
        (Value::Array(x), Value::Array(y)) if x.len() == y.len() => x
            .iter()
            .zip(y)
            .enumerate()
            .find_map(|(i, (p, q))| difference(p, q, format!("{at}/{i}"))),
        _ if a == b => None,
        _ => Some(format!("{at}: {} over REST, {} over MCP", brief(a), brief(b))),
    }
}
