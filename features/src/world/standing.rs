//! Standing rules: judged at the end of every scenario, whatever it is about.
//!
//! Only rules that no honest connector can break under any fault stand here.

use std::collections::BTreeMap;

use ap_protocol::VerifiedEnvelope;
use serde_json::Value;

use super::World;
use crate::wire::find_tokens;

/// A standing rule that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Breach {
    /// The requirement.
    pub requirement: &'static str,
    /// The rule.
    pub rule: &'static str,
    /// What was observed.
    pub seen: String,
}

impl World {
    /// Judges the standing rules over everything that crossed the wire.
    pub fn breaches(&self) -> Vec<Breach> {
        let mut found = Vec::new();
        found.extend(self.secrets_in_output());
        let sent = self.sent_envelopes();
        found.extend(unsound(&sent));
        found.extend(reused_nonce(&sent));
        found.extend(self.strange_tokens());
        found
    }

    /// Every envelope that the target sent to any host, in order of arrival.
    pub fn sent_envelopes(&self) -> Vec<Value> {
        let agent = self.agent_id();
        self.hosts
            .requests()
            .into_iter()
            .filter_map(|e| e.envelope)
            .filter(|e| e["event"]["actor"] == agent.as_str())
            .collect()
    }

    /// No result, resource or notification holds the seed or a request JWT.
    fn secrets_in_output(&self) -> Option<Breach> {
        let heard = self.heard();
        let leak = heard.iter().find_map(|line| {
            if line.contains(&self.provision.seed) {
                return Some("the private seed".to_owned());
            }
            (!find_tokens(line).is_empty()).then(|| "a request JWT".to_owned())
        })?;
        Some(Breach {
            requirement: "LC-24",
            rule: "no MCP output holds key material or a request JWT",
            seen: leak,
        })
    }

    /// Every request JWT of the target holds at the host it was sent to.
    fn strange_tokens(&self) -> Option<Breach> {
        let agent = self.agent_id();
        let bad = self.hosts.requests().into_iter().find(|e| {
            let own = e.claims.as_ref().is_some_and(|c| c["sub"] == agent.as_str());
            own && e.token_error.is_some() && e.faults.is_empty()
        })?;
        Some(Breach {
            requirement: "LC-13",
            rule: "every request JWT holds for the host it is sent to",
            seen: format!(
                "{} {}: {} ({})",
                bad.method,
                bad.path,
                bad.token_error.unwrap_or_default(),
                bad.claims.unwrap_or_default()
            ),
        })
    }
}

/// Every hash and signature the target sent verifies independently.
fn unsound(sent: &[Value]) -> Option<Breach> {
    let (envelope, error) =
        sent.iter().find_map(|e| VerifiedEnvelope::verify(e).err().map(|err| (e, err)))?;
    Some(Breach {
        requirement: "LC-11",
        rule: "every envelope the connector sends has a sound shape, hash and signature",
        seen: format!("{error} in {}", crate::wire::brief(&envelope["event"])),
    })
}

/// No two different events share a nonce.
pub fn reused_nonce(sent: &[Value]) -> Option<Breach> {
    let mut seen: BTreeMap<u64, &Value> = BTreeMap::new();
    for envelope in sent {
        let Some(nonce) = envelope["event"]["nonce"].as_u64() else { continue };
        if let Some(other) = seen.insert(nonce, envelope)
            && other["hash"] != envelope["hash"]
        {
            return Some(Breach {
                requirement: "LC-12",
                rule: "no two events of the identity share a nonce",
                seen: format!(
                    "nonce {nonce} on {} and on {}",
                    other["event"]["type"], envelope["event"]["type"]
                ),
            });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_resent_envelope_is_no_reuse_and_another_one_is() {
        let a = json!({ "hash": "x", "event": { "nonce": 1, "type": "a" } });
        let b = json!({ "hash": "y", "event": { "nonce": 1, "type": "b" } });
        assert_eq!(reused_nonce(&[a.clone(), a.clone()]), None);
        assert!(reused_nonce(&[a, b]).is_some());
    }

    #[test]
    fn an_unsound_envelope_is_seen() {
        assert!(unsound(&[json!({ "hash": "x", "event": {}, "signature": "" })]).is_some());
    }
}
