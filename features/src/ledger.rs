//! The requirement ledger: every obligation, and the scenarios that judge it or the reason
//! why none does.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::suite::Case;

static EMBEDDED: &str = include_str!("../requirements.toml");

/// One obligation.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Requirement {
    /// Stable id, as in scenario tags.
    pub id: String,
    /// BCP 14 key word.
    pub level: String,
    /// Section of the seed it rests on.
    pub section: String,
    /// The obligation in our own words.
    pub text: String,
    /// Ids or globs of the scenarios that judge it.
    #[serde(default)]
    pub scenarios: Vec<String>,
    /// Why nothing judges it (yet).
    #[serde(default)]
    pub excluded: Option<String>,
    /// Breaks made by hand in the reference connector, and the scenarios seen to fail with
    /// each: what shows that they can.
    #[serde(default)]
    pub broken_by: Vec<Break>,
}

/// A break made by hand, and what noticed it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Break {
    /// What was changed.
    pub change: String,
    /// Scenarios of this requirement that failed.
    pub failed: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    requirement: Vec<Requirement>,
}

/// All obligations by id.
#[derive(Debug, Clone)]
pub struct Ledger(BTreeMap<String, Requirement>);

/// Two accounts that do not agree.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Drift {
    /// A tag that names nothing.
    #[error("{case} is tagged {tag}, which is no requirement of the ledger")]
    UnknownTag {
        /// The scenario.
        case: String,
        /// Its tag.
        tag: String,
    },
    /// Neither scenario nor reason.
    #[error("{0} has neither a scenario nor a reason to be excluded")]
    Untested(String),
    /// Both scenario and reason.
    #[error("{0} is excluded although scenarios judge it: {1}")]
    ExcludedButTested(String, String),
    /// The ledger names a scenario that does not exist, or that does not carry the tag.
    #[error("{0} names {1}, which is no scenario tagged with it")]
    UnknownScenario(String, String),
    /// A note about a scenario that is none of the requirement's.
    #[error("{0} has a break that {1} noticed, which is no scenario tagged with it")]
    UnknownBreak(String, String),
    /// A tagged scenario that the ledger does not name.
    #[error("{0} does not name {1}, which is tagged with it")]
    MissingScenario(String, String),
}

impl Ledger {
    /// The ledger that is part of this binary.
    ///
    /// # Errors
    /// When the TOML does not parse, or an id is there twice.
    pub fn embedded() -> Result<Self, String> {
        Self::parse(EMBEDDED)
    }

    /// Parses a ledger.
    ///
    /// # Errors
    /// When the TOML does not parse, or an id is there twice.
    pub fn parse(text: &str) -> Result<Self, String> {
        let file: File = toml::from_str(text).map_err(|e| e.to_string())?;
        let mut all = BTreeMap::new();
        for r in file.requirement {
            if let Some(twice) = all.insert(r.id.clone(), r) {
                return Err(format!("{} is there twice", twice.id));
            }
        }
        Ok(Ledger(all))
    }

    /// The requirement of this id.
    pub fn get(&self, id: &str) -> Option<&Requirement> {
        self.0.get(id)
    }

    /// All, by id.
    pub fn iter(&self) -> impl Iterator<Item = &Requirement> {
        self.0.values()
    }

    /// Everything on which ledger and suite disagree.
    pub fn drift(&self, cases: &[Case]) -> Vec<Drift> {
        let mut found = Vec::new();
        let mut judged: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for case in cases {
            for tag in &case.requirements {
                if self.0.contains_key(tag) {
                    judged.entry(tag).or_default().insert(&case.id);
                } else {
                    found.push(Drift::UnknownTag { case: case.id.clone(), tag: tag.clone() });
                }
            }
        }
        for (id, r) in &self.0 {
            let actual = judged.remove(id.as_str()).unwrap_or_default();
            if let (Some(_), Some(case)) = (&r.excluded, actual.first()) {
                found.push(Drift::ExcludedButTested(id.clone(), (*case).to_owned()));
            }
            if r.excluded.as_ref().is_none_or(|e| e.trim().is_empty()) && actual.is_empty() {
                found.push(Drift::Untested(id.clone()));
            }
            for named in &r.scenarios {
                if !actual.contains(named.as_str()) {
                    found.push(Drift::UnknownScenario(id.clone(), named.clone()));
                }
            }
            for noticed in r.broken_by.iter().flat_map(|b| &b.failed) {
                if !actual.contains(noticed.as_str()) {
                    found.push(Drift::UnknownBreak(id.clone(), noticed.clone()));
                }
            }
            if r.excluded.is_none() {
                for case in actual {
                    if !r.scenarios.iter().any(|n| n == case) {
                        found.push(Drift::MissingScenario(id.clone(), case.to_owned()));
                    }
                }
            }
        }
        found
    }

    /// Scenarios of level must that no break was seen to fail.
    pub fn never_failed<'a>(&self, cases: &'a [Case]) -> Vec<&'a str> {
        let noticed: BTreeSet<&str> = self
            .iter()
            .flat_map(|r| &r.broken_by)
            .flat_map(|b| b.failed.iter().map(String::as_str))
            .collect();
        cases
            .iter()
            .filter(|c| c.level == crate::suite::Level::Must && !noticed.contains(c.id.as_str()))
            .map(|c| c.id.as_str())
            .collect()
    }

    /// Notes that `change` made the scenarios `failed` fail.
    pub fn note_break(&mut self, change: &str, failed: &BTreeSet<String>, cases: &[Case]) {
        for r in self.0.values_mut() {
            r.broken_by.retain(|b| b.change != change);
            let own: Vec<String> = cases
                .iter()
                .filter(|c| c.requirements.contains(&r.id) && failed.contains(&c.id))
                .map(|c| c.id.clone())
                .collect();
            if !own.is_empty() {
                r.broken_by.push(Break { change: change.to_owned(), failed: own });
            }
        }
    }

    /// The ledger with its scenario lists as the tags have them: what
    /// `conformance ledger --write` saves.
    pub fn synced(&self, cases: &[Case]) -> String {
        let mut out = String::from(HEADER);
        for r in self.0.values() {
            let judged: BTreeSet<&str> = cases
                .iter()
                .filter(|c| c.requirements.contains(&r.id))
                .map(|c| c.id.as_str())
                .collect();
            let quote = |text: &str| toml::Value::String(text.to_owned()).to_string();
            out.push_str("\n[[requirement]]\n");
            for (name, text) in
                [("id", &r.id), ("level", &r.level), ("section", &r.section), ("text", &r.text)]
            {
                out.push_str(&format!("{name} = {}\n", quote(text)));
            }
            if judged.is_empty() {
                let reason = r.excluded.as_deref().unwrap_or("not yet: no scenario judges it");
                out.push_str(&format!("excluded = {}\n", quote(reason)));
            } else {
                out.push_str("scenarios = [\n");
                for id in &judged {
                    out.push_str(&format!("    {},\n", quote(id)));
                }
                out.push_str("]\n");
            }
            for b in &r.broken_by {
                // A scenario that is gone takes its note along.
                let failed: Vec<&String> =
                    b.failed.iter().filter(|id| judged.contains(id.as_str())).collect();
                if failed.is_empty() {
                    continue;
                }
                out.push_str("[[requirement.broken_by]]\n");
                out.push_str(&format!("change = {}\nfailed = [\n", quote(&b.change)));
                for id in failed {
                    out.push_str(&format!("    {},\n", quote(id)));
                }
                out.push_str("]\n");
            }
        }
        out
    }
}

const HEADER: &str = "\
# The requirement ledger: one entry for each obligation of the seeds. `scenarios` is kept in
# step with the tags by `conformance ledger --write FILE`; `excluded` says why nothing judges
# an obligation; `broken_by` names breaks made by hand and the scenarios seen to fail with them
# (`conformance ledger --write FILE --change TEXT --report REPORT`). A unit test fails when this file and the suite disagree.
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::{load, parse};

    const LEDGER: &str = "[[requirement]]\nid = \"LC-35\"\nlevel = \"MUST\"\nsection = \"4.2\"\n\
        text = \"t\"\n";

    #[test]
    fn the_ledger_and_the_suite_agree() {
        let ledger = Ledger::embedded().expect("parses");
        let drift = ledger.drift(&load(None).expect("loads"));
        let text: Vec<String> = drift.iter().map(ToString::to_string).collect();
        assert!(text.is_empty(), "run `conformance ledger --write`:\n{}", text.join("\n"));
    }

    #[test]
    fn a_requirement_without_scenario_or_reason_is_drift() {
        let ledger = Ledger::parse(LEDGER).expect("parses");
        assert_eq!(ledger.drift(&[]), [Drift::Untested("LC-35".into())]);
        let excused = format!("{LEDGER}excluded = \"because\"\n");
        assert!(Ledger::parse(&excused).expect("parses").drift(&[]).is_empty());
    }

    #[test]
    fn an_unknown_tag_is_drift() {
        let cases = parse("f.feature", "Feature: F\n  @LC-999 @must\n  Scenario: A\n    Given x\n")
            .expect("parses");
        let ledger = Ledger::parse(&format!("{LEDGER}excluded = \"because\"\n")).expect("parses");
        assert_eq!(
            ledger.drift(&cases),
            [Drift::UnknownTag { case: "f/a".into(), tag: "LC-999".into() }]
        );
    }

    #[test]
    fn a_break_is_noted_kept_and_replaced() {
        let text = "Feature: F\n  @LC-35 @must\n  Scenario: A\n    Given x\n  @LC-35 @must\n  \
            Scenario: B\n    Given x\n";
        let cases = parse("f.feature", text).expect("parses");
        let mut ledger = Ledger::parse(LEDGER).expect("parses");
        assert_eq!(ledger.never_failed(&cases), ["f/a", "f/b"]);
        let failed = |id: &str| BTreeSet::from([id.to_owned()]);
        ledger.note_break("old", &failed("f/a"), &cases);
        ledger.note_break("old", &failed("f/b"), &cases);
        let again = Ledger::parse(&ledger.synced(&cases)).expect("parses");
        assert!(again.drift(&cases).is_empty());
        assert_eq!(again.never_failed(&cases), ["f/a"]);
        let one = Break { change: "old".to_owned(), failed: vec!["f/b".to_owned()] };
        assert_eq!(again.get("LC-35").expect("there").broken_by, [one]);
    }

    #[test]
    fn writing_brings_both_together() {
        let cases = parse("f.feature", "Feature: F\n  @LC-35 @must\n  Scenario: A\n    Given x\n")
            .expect("parses");
        let ledger = Ledger::parse(LEDGER).expect("parses");
        assert!(!ledger.drift(&cases).is_empty());
        let synced = Ledger::parse(&ledger.synced(&cases)).expect("parses");
        assert!(synced.drift(&cases).is_empty());
    }
}
