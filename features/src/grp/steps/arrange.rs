//! Arranging: transports, rooms, seats, invitations, mandates.

use cucumber::gherkin::Step;
use cucumber::{given, when};
use serde_json::{Value, json};

use super::super::client::Via;
use super::{doc_json, optional_json, quick, succeeded};
use crate::failure::{StepError, StepResult};
use crate::world::World;

#[given(regex = r"^the calls go over (REST|MCP)$")]
#[when(regex = r"^the calls go over (REST|MCP)$")]
async fn over(w: &mut World, via: String) -> StepResult {
    w.grp.via = Some(if via == "MCP" { Via::Mcp } else { Via::Rest });
    Ok(())
}

#[given(regex = r#"^(\w+) opened the room "([^"]*)" to decide "([^"]*)" between "([^"]*)"$"#)]
async fn opened(
    w: &mut World,
    who: String,
    room: String,
    question: String,
    options: String,
) -> StepResult {
    opened_so(w, who, room, question, options, &json!({})).await
}

#[given(
    regex = r#"^(\w+) opened the room "([^"]*)" to decide "([^"]*)" between "([^"]*)" with the settings$"#
)]
async fn opened_with(
    w: &mut World,
    who: String,
    room: String,
    question: String,
    options: String,
    step: &Step,
) -> StepResult {
    let changes = doc_json(w, step)?;
    opened_so(w, who, room, question, options, &changes).await
}

async fn opened_so(
    w: &mut World,
    who: String,
    room: String,
    question: String,
    options: String,
    changes: &Value,
) -> StepResult {
    let options: Vec<&str> = options.split(" / ").collect();
    let body = quick(json!({ "question": question, "options": options }), changes);
    w.grp_call(&who, "create_room", &room, body, None).await?;
    succeeded(w)
}

#[given(regex = r#"^(\w+) opened the room "([^"]*)" for questions to come$"#)]
async fn opened_empty(w: &mut World, who: String, room: String) -> StepResult {
    let body = quick(json!({ "about": "Questions to come" }), &json!({ "type": "persistent" }));
    w.grp_call(&who, "create_room", &room, body, None).await?;
    succeeded(w)
}

#[given(regex = r#"^(\w+) opened the room "([^"]*)" for questions to come with the settings$"#)]
async fn opened_empty_with(w: &mut World, who: String, room: String, step: &Step) -> StepResult {
    let mut changes = doc_json(w, step)?;
    changes["type"] = json!("persistent");
    let body = quick(json!({ "about": "Questions to come" }), &changes);
    w.grp_call(&who, "create_room", &room, body, None).await?;
    succeeded(w)
}

#[given(regex = r#"^(\w+) took a seat in "([^"]*)"$"#)]
async fn joined(w: &mut World, who: String, room: String) -> StepResult {
    w.grp_call(&who, "join_room", &room, json!({ "display_name": who }), None).await?;
    succeeded(w)
}

#[given(regex = r"^(\w+) holds a mandate$")]
async fn holds(w: &mut World, who: String) -> StepResult {
    let mandate = w.grp_mandate(&who, json!({}), false).await?;
    w.grp.mandates.insert(who, mandate);
    Ok(())
}

#[given(regex = r"^(\w+) holds a mandate with the claims$")]
#[when(regex = r"^(\w+) holds a mandate with the claims$")]
async fn holds_with(w: &mut World, who: String, step: &Step) -> StepResult {
    let claims = claims(w, step)?;
    let mandate = w.grp_mandate(&who, claims, false).await?;
    put_mandate(w, who, mandate);
    Ok(())
}

#[given(regex = r"^(\w+) holds a mandate of the trusted issuer( with the claims)?$")]
async fn holds_issued(w: &mut World, who: String, _with: String, step: &Step) -> StepResult {
    w.grp_client().await?;
    let claims = claims(w, step)?;
    let mandate = w.grp_mandate(&who, claims, true).await?;
    put_mandate(w, who, mandate);
    Ok(())
}

/// A new mandate replaces the old one in every seat that is held by mandate.
fn put_mandate(w: &mut World, who: String, mandate: String) {
    for ((person, _), seat) in &mut w.grp.seats {
        if *person == who && seat.mandate.is_some() {
            seat.mandate = Some(mandate.clone());
        }
    }
    w.grp.mandates.insert(who, mandate);
}

/// Claims, with `now±N` written for Unix seconds.
fn claims(w: &World, step: &Step) -> StepResult<Value> {
    let mut claims = optional_json(w, step)?;
    let now = w.grp_now().div_euclid(1_000);
    for name in ["nbf", "exp"] {
        if let Some(offset) = claims[name].as_str().and_then(|s| s.strip_prefix("now")) {
            let offset: i64 =
                if offset.is_empty() { 0 } else { offset.parse().map_err(StepError::defect)? };
            claims[name] = json!(now + offset);
        }
    }
    Ok(claims)
}

#[given(regex = r"^the mandate of (\w+) is (\w+)$")]
#[when(regex = r"^the mandate of (\w+) is (\w+)$")]
async fn mandate_broken(w: &mut World, who: String, how: String) -> StepResult {
    let good = w
        .grp
        .mandates
        .get(&who)
        .cloned()
        .ok_or_else(|| StepError::Defect(format!("{who} holds no mandate")))?;
    let (input, signature) = good.rsplit_once('.').unwrap_or((&good, ""));
    let broken = match how.as_str() {
        "forged" => {
            let mut raw = ap_protocol::encoding::decode(signature).map_err(StepError::defect)?;
            raw[10] ^= 1;
            format!("{input}.{}", ap_protocol::encoding::encode(raw))
        }
        "padded" => format!("{good}="),
        "cut" => input.to_owned(),
        "loose" => {
            // The last character of 64 bytes carries two bits; the others must be zero.
            let last = signature.chars().last().unwrap_or('A');
            const ALPHABET: &str =
                "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
            let at = ALPHABET.find(last).unwrap_or(0);
            let stray = ALPHABET.chars().nth(at | 1).unwrap_or('B');
            format!("{}{stray}", good.strip_suffix(last).unwrap_or(&good))
        }
        "critical" => {
            let (header, payload) = input.split_once('.').unwrap_or_default();
            let header = ap_protocol::encoding::decode(header).map_err(StepError::defect)?;
            let mut header = ap_protocol::json::parse(&header).map_err(StepError::defect)?;
            header["crit"] = json!(["b64"]);
            header["b64"] = json!(true);
            let header = ap_protocol::encoding::encode(ap_protocol::jcs::to_vec(&header));
            let input = format!("{header}.{payload}");
            let signature = w.grp_principal(&who).sign(input.as_bytes());
            format!("{input}.{}", ap_protocol::encoding::encode(signature))
        }
        "revoked" => {
            let payload = input.split('.').nth(1).unwrap_or_default();
            let payload = ap_protocol::encoding::decode(payload).map_err(StepError::defect)?;
            let payload = ap_protocol::json::parse(&payload).map_err(StepError::defect)?;
            let issuer = w.grp.issuer.as_ref().ok_or_else(|| {
                StepError::NotClaimed("a foreign host does not know our issuer".to_owned())
            })?;
            issuer.revoke(payload["jti"].as_str().unwrap_or_default());
            good
        }
        other => return Err(StepError::Defect(format!("a mandate cannot be {other}"))),
    };
    put_mandate(w, who, broken);
    Ok(())
}

#[given(
    regex = r#"^(\w+) opened the room "([^"]*)" that is (between questions|proposing|choosing)$"#
)]
async fn opened_that_is(w: &mut World, who: String, room: String, state: String) -> StepResult {
    let settings = json!({ "type": "persistent", "creator_votes": true });
    let body = quick(json!({ "about": "Questions to come" }), &settings);
    w.grp_call(&who, "create_room", &room, body, None).await?;
    succeeded(w)?;
    let mut ask = json!({ "question": "Where to meet?", "options": ["park", "library"] });
    match state.as_str() {
        "proposing" => ask["proposal_window"] = json!(300),
        "choosing" => {}
        _ => return Ok(()),
    }
    w.grp_call(&who, "ask", &room, ask, None).await?;
    succeeded(w)
}

/// The invite is kept as `invite of NAME`, whose name the seat will bear.
#[given(regex = r#"^(\w+) invited (\w+) to "([^"]*)"( with)?$"#)]
async fn invited(
    w: &mut World,
    who: String,
    guest: String,
    room: String,
    _with: String,
    step: &Step,
) -> StepResult {
    let mut args = optional_json(w, step)?;
    args["label"] = json!(guest);
    w.grp_call(&who, "invite_to_room", &room, args, None).await?;
    succeeded(w)?;
    let last = w.grp_last()?.clone();
    if let Some(token) = last.body["invite_token"].as_str() {
        w.log.hide(token, "invite token");
        w.grp.tokens.push(token.to_owned());
    }
    w.grp.kept.insert(format!("invite of {guest}"), last);
    Ok(())
}
