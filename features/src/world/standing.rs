//! Standing rules: judged at the end of every scenario, whatever it is about.

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
        found
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
}
