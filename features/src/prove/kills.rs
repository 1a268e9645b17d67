//! What is remembered of earlier hunts: who was caught by which scenarios, cheapest first.
//!
//! A memory, not a judgement: it says where to look first, and which scenarios were seen to
//! fail. `prove --all --write features/kills.toml` renews it.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::hunt::{Kind, Matrix};
use crate::ledger::Ledger;
use crate::suite::Case;

static EMBEDDED: &str = include_str!("../../kills.toml");

const HEADER: &str = "\
# Who was caught by which scenarios, cheapest first, in the last complete hunts. Written by
# `conformance prove --all --write FILE`, and so with --hosts and --grp.
";

type Caught = BTreeMap<String, Vec<String>>;

/// Scenarios by suspect, by kind.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Kills {
    saboteur: Caught,
    host: Caught,
    grp_host: Caught,
}

impl Kills {
    /// What this binary remembers.
    ///
    /// # Errors
    /// When the TOML does not parse.
    pub fn embedded() -> Result<Self, String> {
        Self::parse(EMBEDDED)
    }

    /// Parses a memory.
    ///
    /// # Errors
    /// When the TOML does not parse.
    pub fn parse(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|e| e.to_string())
    }

    /// The file.
    ///
    /// # Errors
    /// None that these tables can have.
    pub fn to_toml(&self) -> Result<String, String> {
        toml::to_string_pretty(self)
            .map(|text| format!("{HEADER}\n{text}"))
            .map_err(|e| e.to_string())
    }

    fn of(&self, kind: Kind) -> &Caught {
        match kind {
            Kind::Saboteur => &self.saboteur,
            Kind::Host => &self.host,
            Kind::GrpHost => &self.grp_host,
        }
    }

    /// Scenarios that caught a suspect, cheapest first.
    pub fn by(&self, kind: Kind, suspect: &str) -> &[String] {
        self.of(kind).get(suspect).map_or(&[], Vec::as_slice)
    }

    /// Takes over what a complete hunt found about its suspects.
    pub fn note(&mut self, matrix: &Matrix) {
        let table = match matrix.kind {
            Kind::Saboteur => &mut self.saboteur,
            Kind::Host => &mut self.host,
            Kind::GrpHost => &mut self.grp_host,
        };
        for row in &matrix.rows {
            let mut caught: Vec<_> =
                row.caught.iter().map(|c| (c.duration_ms, c.scenario.clone())).collect();
            caught.sort();
            table.insert(row.name.clone(), caught.into_iter().map(|(_, id)| id).collect());
        }
    }

    /// MUST scenarios that neither a break of the ledger nor a suspect was seen to make fail.
    pub fn never_failed<'a>(&self, ledger: &Ledger, cases: &'a [Case]) -> Vec<&'a str> {
        let seen: BTreeSet<&str> = [&self.saboteur, &self.host, &self.grp_host]
            .into_iter()
            .flat_map(BTreeMap::values)
            .flatten()
            .map(String::as_str)
            .collect();
        let mut never = ledger.never_failed(cases);
        never.retain(|id| !seen.contains(id));
        never
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everyone_is_remembered_to_have_been_caught_by_a_scenario_that_exists() {
        let kills = Kills::embedded().expect("parses");
        let ids = |cases: Vec<Case>| cases.into_iter().map(|c| c.id).collect::<BTreeSet<_>>();
        let suite = ids(crate::suite::load(None).expect("loads"));
        let hosts = ids(crate::host::load().expect("loads"));
        let known = |kind, name: &str, cases: &BTreeSet<String>| {
            let by = kills.by(kind, name);
            assert!(by.iter().any(|id| cases.contains(id)), "{name} is caught by {by:?}");
        };
        for s in super::super::saboteurs() {
            known(Kind::Saboteur, s.name, &suite);
        }
        for b in crate::host::prove::BROKEN {
            known(Kind::Host, b.name, &hosts);
        }
        for d in mock_hosts::grp::Defect::ALL {
            known(Kind::GrpHost, d.name(), &suite);
        }
    }

    #[test]
    fn what_parts_rest_from_mcp_shows_in_one_story_told_over_both() {
        let kills = Kills::embedded().expect("parses");
        let twins = "grp/surface/the-same-story-leaves-the-same-traces".to_owned();
        for d in mock_hosts::grp::Defect::ALL.iter().filter(|d| d.parts_the_transports()) {
            assert!(kills.by(Kind::GrpHost, d.name()).contains(&twins), "{}", d.name());
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let kills = Kills::embedded().expect("parses");
        let text = kills.to_toml().expect("plain tables");
        assert_eq!(Kills::parse(&text), Ok(kills));
    }
}
