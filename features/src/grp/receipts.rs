//! Verifying a room's receipts as a stranger would: published key, signature over the exact
//! bytes, hash, chain, and the mechanism run again.

use ap_protocol::{AgentId, encoding, json, keys};
use mock_hosts::grp::engine::{Ballot, Parameters, Run};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::client::Client;
use crate::failure::{StepResult, check, no};

/// One verified receipt.
#[derive(Debug, Clone)]
pub struct Verified {
    /// Decoded payload.
    pub payload: Value,
    /// `sha256:` hash of the compact bytes.
    pub hash: String,
}

/// Verifies one compact receipt under the published keys.
///
/// # Errors
/// What does not hold.
pub fn verify(compact: &str, published: &Value) -> StepResult<Verified> {
    let parts: Vec<&str> = compact.split('.').collect();
    let [header, payload, signature] = parts.as_slice() else {
        return no("a receipt of three segments", compact.chars().take(80).collect::<String>());
    };
    let read = |text: &str| {
        let bytes = encoding::decode(text).map_err(|e| e.to_string())?;
        json::parse(&bytes).map_err(|e| e.to_string())
    };
    let (Ok(head), Ok(body), Ok(raw)) =
        (read(header), read(payload), encoding::decode_array::<64>(signature))
    else {
        return no("canonical base64url segments of JSON and a 64-byte signature", compact);
    };
    check(
        head["alg"] == "EdDSA" && head["typ"] == "grp-receipt+jwt" && head.get("crit").is_none(),
        "a header of alg EdDSA and typ grp-receipt+jwt",
        head.to_string(),
    )?;
    for (what, segment, value) in [("header", header, &head), ("payload", payload, &body)] {
        check(
            encoding::encode(ap_protocol::jcs::to_vec(value)) == **segment,
            format!("the {what} in its canonical form"),
            value.to_string(),
        )?;
    }
    let key = published["keys"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|k| k["kid"] == head["kid"] && k["kty"] == "OKP" && k["crv"] == "Ed25519")
        .and_then(|k| k["x"].as_str())
        .and_then(|x| AgentId::parse(&format!("{}{x}", ap_protocol::agent_id::PREFIX)).ok());
    let Some(key) = key else {
        return no("a published Ed25519 key for the receipt's kid", published["keys"].to_string());
    };
    let input = format!("{header}.{payload}");
    check(
        keys::verify(&key, input.as_bytes(), &raw).is_ok(),
        "a signature that verifies under the published key",
        head.to_string(),
    )?;
    let digest = Sha256::digest(compact.as_bytes());
    let hex: String = digest.iter().map(|b| format!("{b:02x}")).collect();
    Ok(Verified { payload: body, hash: format!("sha256:{hex}") })
}

/// Verifies every receipt of an outcome, the chain they form, and what they say.
///
/// # Errors
/// What does not hold.
pub async fn verify_outcome(client: &Client, outcome: &Value) -> StepResult<Vec<Verified>> {
    let Some(jwks) = outcome["verification"]["jwks_url"].as_str() else {
        return no("an outcome with verification.jwks_url", outcome.to_string());
    };
    let path = jwks.strip_prefix(client.base.as_str()).unwrap_or("/.well-known/grp.json");
    let published = client.send(client.request(reqwest::Method::GET, path), "GET keys").await?.body;
    let mut all = Vec::new();
    for d in outcome["decisions"].as_array().into_iter().flatten() {
        let v = verify(d["receipt_jws"].as_str().unwrap_or_default(), &published)?;
        let grp = &v.payload["grp"];
        check(d["receipt_hash"] == v.hash, "receipt_hash of the exact bytes", d.to_string())?;
        check(
            grp["prev_hash"] == d["prev_hash"],
            "a signed prev_hash equal to the summary's",
            format!("{} and {}", grp["prev_hash"], d["prev_hash"]),
        )?;
        check(
            grp["sequence"] == d["seq"],
            "a signed sequence equal to the decision's number",
            format!("{} and {}", grp["sequence"], d["seq"]),
        )?;
        check(
            grp["outcome"]["winning_option"] == d["resolved_winner"],
            "a signed winner equal to the summary's",
            grp["outcome"].to_string(),
        )?;
        replay(grp)?;
        all.push(v);
    }
    if let Some(c) = outcome.get("conclusion").filter(|c| c.is_object()) {
        let v = verify(c["receipt_jws"].as_str().unwrap_or_default(), &published)?;
        let grp = &v.payload["grp"];
        check(
            c["receipt_hash"] == v.hash
                && grp["prev_hash"] == c["prev_hash"]
                && grp["decision_kind"] == "conclusion",
            "a conclusion receipt that agrees with its summary",
            c.to_string(),
        )?;
        all.push(v);
    }
    let roots = all.iter().filter(|v| v.payload["grp"]["prev_hash"].is_null()).count();
    check(all.is_empty() || roots == 1, "one first receipt", format!("{roots} of them"))?;
    for v in &all {
        let prev = &v.payload["grp"]["prev_hash"];
        let linked = prev.is_null() || all.iter().any(|o| *prev == json!(o.hash));
        check(linked, "every prev_hash names a receipt of the room", prev.to_string())?;
        let twice = all.iter().filter(|o| o.payload["grp"]["prev_hash"] == *prev).count();
        check(twice == 1, "a chain without forks", format!("{prev} is followed {twice} times"))?;
    }
    Ok(all)
}

/// Runs the signed mechanism on the signed ballots, when both are there.
fn replay(grp: &Value) -> StepResult {
    let parameters = &grp["mechanism"]["parameters"];
    let kind = grp["mechanism"]["kind"].as_str().unwrap_or_default();
    let (Ok(p), Some(seed)) =
        (Parameters::from_json(kind, parameters), parameters["deterministic_seed"].as_str())
    else {
        // A host may sign less than a replay needs: then there is nothing to compare.
        return Ok(());
    };
    let diagnostics = &grp["outcome"]["diagnostics"];
    let votes = grp["votes"].as_array().map(Vec::as_slice).unwrap_or_default();
    if votes.is_empty() && diagnostics["cast_votes"].as_u64() != Some(0) {
        return Ok(());
    }
    let ballots: Vec<Ballot> = votes
        .iter()
        .map(|v| Ballot {
            voter: v["agent_id"].as_str().unwrap_or_default().to_owned(),
            choice: v["choice"].clone(),
            weight: v["weight"].as_f64().unwrap_or(1.0),
        })
        .collect();
    let abstained = grp["abstentions"].as_array().map_or(0, Vec::len) as u64;
    let run = Run {
        parameters: &p,
        eligible_voters: diagnostics["eligible_voters"].as_u64().unwrap_or(0),
        participating: Some(ballots.len() as u64 + abstained),
        ballots: &ballots,
        seed,
    };
    let Ok(tally) = run.tally() else { return Ok(()) };
    check(
        json!(tally.winner) == grp["outcome"]["winning_option"],
        "the signed winner is what the signed ballots give",
        format!("{:?} and {}", tally.winner, grp["outcome"]),
    )
}
