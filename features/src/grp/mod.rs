//! Judging GRP room hosts: the embedded one, or any host by its URL.
//!
//! A scenario's [`Stage`] speaks REST and MCP to the host and remembers who sits where. It
//! judges only what crosses the wire; looking inside (audit chain, clock) is possible with
//! the embedded host alone and never needed for a MUST of a foreign one.

pub mod client;
pub mod prove;
pub mod receipts;
pub mod stage;
pub mod steps;
pub mod twin;

pub use stage::Stage;

use mock_hosts::grp::Defect;

/// Which host is judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A fresh embedded host for each scenario, with these defects (none in an honest run).
    Embedded(Vec<Defect>),
    /// A host somebody else runs.
    Url(String),
}

impl Default for Target {
    fn default() -> Self {
        Target::Embedded(Vec::new())
    }
}

/// Whether a case judges a GRP host.
pub fn is_grp(case: &crate::suite::Case) -> bool {
    case.file.starts_with("grp/") || case.file.starts_with("grp\\")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The stories of the host contract, which the suite must tell (`@story-NN`).
    const STORIES: u32 = 28;

    #[test]
    fn every_story_is_told() {
        let cases = crate::suite::load(None).expect("the suite parses");
        let told: std::collections::BTreeSet<String> =
            cases.iter().filter(|c| is_grp(c)).flat_map(|c| c.tags.iter().cloned()).collect();
        let untold: Vec<String> = (1..=STORIES)
            .map(|n| format!("story-{n:02}"))
            .filter(|tag| !told.contains(tag))
            .collect();
        assert!(untold.is_empty(), "no scenario tells {untold:?}");
        let strange: Vec<&String> = told
            .iter()
            .filter_map(|t| t.strip_prefix("story-").map(|n| (t, n)))
            .filter(|(_, n)| n.parse::<u32>().is_ok_and(|n| n == 0 || n > STORIES) || n.len() != 2)
            .map(|(t, _)| t)
            .collect();
        assert!(strange.is_empty(), "{strange:?}");
    }
}
