//! From what happened to what it means: statuses, exit codes, the report of a run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::suite::Level;
use crate::wire::WireLine;

/// Version of the JSON report's shape.
pub const REPORT_VERSION: u32 = 1;

/// How the process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// Everything that was judged holds.
    Conformant,
    /// A rule does not hold.
    NotConformant,
    /// The command line or an input file is wrong.
    Usage,
    /// Nothing was observed: no case, or a target that never answered.
    NothingObserved,
    /// A baseline entry excuses what passes.
    StaleBaseline,
    /// The suite itself failed.
    Defect,
}

impl Exit {
    /// The process exit code.
    pub fn code(self) -> u8 {
        match self {
            Exit::Conformant => 0,
            Exit::NotConformant => 1,
            Exit::Usage => 2,
            Exit::NothingObserved => 3,
            Exit::StaleBaseline => 4,
            Exit::Defect => 5,
        }
    }

    /// One line for people.
    pub fn sentence(self) -> &'static str {
        match self {
            Exit::Conformant => "conformant: every judged rule holds",
            Exit::NotConformant => "not conformant",
            Exit::Usage => "usage error",
            Exit::NothingObserved => "nothing observed: this is not a pass",
            Exit::StaleBaseline => {
                "the baseline excuses checks that pass: remove the stale entries"
            }
            Exit::Defect => "defect of the suite: no verdict on the target",
        }
    }
}

/// What became of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Judged, holds.
    Passed,
    /// Judged, does not hold.
    Failed,
    /// Not judged: the target did not get through the preparation (a Given), so the scenario
    /// says nothing about the rule it names.
    Blocked,
    /// Not judged: the target does not claim what it needs.
    NotClaimed,
    /// Could not be judged: the suite failed.
    Defect,
}

/// One step of a case.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StepReport {
    /// Given, When, Then, And, But.
    pub keyword: String,
    /// Its text.
    pub text: String,
    /// Whether it held; none when it was not reached.
    pub held: Option<bool>,
    /// How long it took (ms).
    pub duration_ms: u64,
}

/// Why a case is not passed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Failure {
    /// The step, as written, or the standing rule.
    pub step: String,
    /// Line in the feature file.
    pub line: usize,
    /// What the rule asks for.
    pub expected: String,
    /// What was observed.
    pub seen: String,
}

/// One case after a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CaseReport {
    /// Case id.
    pub id: String,
    /// Which repetition, from 1.
    pub round: u32,
    /// Feature title.
    pub feature: String,
    /// Scenario title.
    pub name: String,
    /// Description, when written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Feature file.
    pub file: String,
    /// Line in it.
    pub line: usize,
    /// BCP 14 level.
    pub level: Level,
    /// Requirement ids.
    pub requirements: Vec<String>,
    /// Judges our own choice, not a rule.
    pub reference: bool,
    /// What became of it.
    pub status: Status,
    /// Reproduces the case's names and keys.
    pub seed: u64,
    /// How long it took (ms).
    pub duration_ms: u64,
    /// Whether the target answered at least once.
    pub answered: bool,
    /// Steps.
    pub steps: Vec<StepReport>,
    /// Why not passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// Why not judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_claimed: Option<String>,
    /// Reason of the baseline entry that excuses a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub excused: Option<String>,
    /// MCP frames and HTTP requests.
    pub wire: Vec<WireLine>,
    /// The hosts at the end, only when it did not pass.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub hosts: BTreeMap<String, Value>,
}

/// What was judged.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct TargetReport {
    /// The command as given.
    pub command: String,
    /// `serverInfo` of the first answer.
    #[serde(default)]
    pub server_info: Value,
    /// Negotiated revision.
    #[serde(default)]
    pub protocol_version: Value,
    /// Name of the profile.
    pub profile: String,
    /// Claimed capabilities.
    pub capabilities: Vec<String>,
}

impl TargetReport {
    /// Profile of a run against an ADP host.
    pub const ADP_HOST: &str = "adp-host";
    /// How a run against a GRP host names it, before its URL.
    pub const GRP_HOST: &str = "GRP host ";
    /// The GRP host of the suite itself.
    pub const EMBEDDED_GRP_HOST: &str = "the embedded GRP host";

    /// The option that chose this target, and its value; none for the reference connector.
    pub fn asked(&self) -> Option<(&'static str, String)> {
        let command = self.command.as_str();
        if self.profile == Self::ADP_HOST {
            let url = if command == crate::host::EMBEDDED { "embedded" } else { command };
            Some(("--adp-host", url.to_owned()))
        } else if command == Self::EMBEDDED_GRP_HOST {
            Some(("--grp-host", "embedded".to_owned()))
        } else if let Some(url) = command.strip_prefix(Self::GRP_HOST) {
            Some(("--grp-host", url.to_owned()))
        } else if command == crate::target::REFERENCE {
            None
        } else {
            Some(("--connector", command.to_owned()))
        }
    }
}

/// Counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// Judged and held.
    pub passed: usize,
    /// MUST failures without excuse.
    pub failed: usize,
    /// SHOULD failures without excuse.
    pub warned: usize,
    /// MAY failures.
    pub informed: usize,
    /// Not judged, because the preparation failed, without excuse.
    pub blocked: usize,
    /// Failures that the baseline excuses.
    pub excused: usize,
    /// Not judged.
    pub not_claimed: usize,
    /// Could not be judged.
    pub defects: usize,
}

/// A whole run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunReport {
    /// [`REPORT_VERSION`].
    pub version: u32,
    /// Version of the suite.
    pub suite_version: String,
    /// When it began (Unix ms).
    pub started_at: u64,
    /// How long it took (ms).
    pub duration_ms: u64,
    /// Seed of the run.
    pub seed: u64,
    /// `k/n` when sharded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<String>,
    /// SHOULD counts like MUST.
    pub strict: bool,
    /// Least number of passed cases asked for.
    pub min: usize,
    /// What was judged.
    pub target: TargetReport,
    /// Every case.
    pub cases: Vec<CaseReport>,
    /// Baseline entries that excuse what passes.
    pub stale_baseline: Vec<String>,
    /// Defects outside any case.
    pub defects: Vec<String>,
    /// Counts.
    pub summary: Summary,
    /// The verdict.
    pub verdict: Exit,
}

impl RunReport {
    /// Fills in summary and verdict from the cases.
    pub fn conclude(&mut self) {
        let mut s = Summary::default();
        for case in &self.cases {
            match (case.status, case.level, case.excused.is_some()) {
                (Status::Passed, ..) => s.passed += 1,
                (Status::NotClaimed, ..) => s.not_claimed += 1,
                (Status::Defect, ..) => s.defects += 1,
                (Status::Failed | Status::Blocked, _, true) => s.excused += 1,
                (Status::Blocked, ..) => s.blocked += 1,
                (Status::Failed, Level::Must, _) => s.failed += 1,
                (Status::Failed, Level::Should, _) => s.warned += 1,
                (Status::Failed, Level::May, _) => s.informed += 1,
            }
        }
        self.summary = s;
        let judged = s.passed + s.failed + s.warned + s.informed + s.excused;
        let answered = self.cases.iter().any(|c| c.answered);
        self.verdict = if s.defects > 0 || !self.defects.is_empty() {
            Exit::Defect
        } else if judged == 0 || !answered || s.passed < self.min {
            // Too few passes is only "nothing observed" when no rule is known to be broken.
            if answered && s.failed + s.blocked > 0 {
                Exit::NotConformant
            } else {
                Exit::NothingObserved
            }
        } else if s.failed + s.blocked > 0 || (self.strict && s.warned > 0) {
            Exit::NotConformant
        } else if !self.stale_baseline.is_empty() {
            Exit::StaleBaseline
        } else {
            Exit::Conformant
        };
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    #[test]
    fn a_target_tells_how_it_was_asked_for() {
        let asked = |command: &str, profile: &str| {
            let target = TargetReport {
                command: command.into(),
                profile: profile.into(),
                ..TargetReport::default()
            };
            target.asked().map(|(option, value)| format!("{option} {value}"))
        };
        assert_eq!(asked(crate::target::REFERENCE, "reference"), None);
        assert_eq!(asked("mine --x", "advertised").as_deref(), Some("--connector mine --x"));
        let (adp, grp) = ("https://a.example", "GRP host https://g.example");
        assert_eq!(asked(adp, "adp-host").as_deref(), Some("--adp-host https://a.example"));
        assert_eq!(
            asked(crate::host::EMBEDDED, "adp-host").as_deref(),
            Some("--adp-host embedded")
        );
        assert_eq!(asked(grp, "reference").as_deref(), Some("--grp-host https://g.example"));
        let embedded = TargetReport::EMBEDDED_GRP_HOST;
        assert_eq!(asked(embedded, "reference").as_deref(), Some("--grp-host embedded"));
    }

    pub(crate) fn case(level: Level, status: Status) -> CaseReport {
        CaseReport {
            id: "f/c".into(),
            round: 1,
            feature: "F".into(),
            name: "C".into(),
            description: None,
            file: "f.feature".into(),
            line: 1,
            level,
            requirements: vec!["LC-35".into()],
            reference: false,
            status,
            seed: 1,
            duration_ms: 1,
            answered: true,
            steps: Vec::new(),
            failure: None,
            not_claimed: None,
            excused: None,
            wire: Vec::new(),
            hosts: BTreeMap::new(),
        }
    }

    pub(crate) fn report(cases: Vec<CaseReport>) -> RunReport {
        let mut r = RunReport {
            version: REPORT_VERSION,
            suite_version: "0".into(),
            started_at: 0,
            duration_ms: 0,
            seed: 1,
            shard: None,
            strict: false,
            min: 1,
            target: TargetReport::default(),
            cases,
            stale_baseline: Vec::new(),
            defects: Vec::new(),
            summary: Summary::default(),
            verdict: Exit::Defect,
        };
        r.conclude();
        r
    }

    #[test]
    fn verdicts() {
        use Level::{May, Must, Should};
        use Status::{Blocked, Defect, Failed, NotClaimed, Passed};
        let exit = |cases: &[(Level, Status)]| {
            report(cases.iter().map(|(l, s)| case(*l, *s)).collect()).verdict
        };
        assert_eq!(exit(&[(Must, Passed), (Should, Failed), (May, Failed)]), Exit::Conformant);
        assert_eq!(exit(&[(Must, Passed), (Must, Failed)]), Exit::NotConformant);
        assert_eq!(exit(&[]), Exit::NothingObserved);
        assert_eq!(exit(&[(Must, NotClaimed)]), Exit::NothingObserved);
        assert_eq!(exit(&[(Must, Passed), (May, Defect)]), Exit::Defect);
        assert_eq!(exit(&[(Must, Failed)]), Exit::NotConformant);
        assert_eq!(exit(&[(Must, Passed), (May, Blocked)]), Exit::NotConformant);
        assert_eq!(exit(&[(Must, Blocked)]), Exit::NotConformant);
    }

    #[test]
    fn strict_min_silence_and_stale_entries() {
        let mut r =
            report(vec![case(Level::Must, Status::Passed), case(Level::Should, Status::Failed)]);
        r.strict = true;
        r.conclude();
        assert_eq!(r.verdict, Exit::NotConformant);
        r.strict = false;
        r.stale_baseline = vec!["x".into()];
        r.conclude();
        assert_eq!(r.verdict, Exit::StaleBaseline);
        r.min = 2;
        r.conclude();
        assert_eq!(r.verdict, Exit::NothingObserved);
        let mut silent = case(Level::Must, Status::Failed);
        silent.answered = false;
        assert_eq!(report(vec![silent]).verdict, Exit::NothingObserved);
    }
}
