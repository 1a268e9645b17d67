//! One run, whatever is judged: what is excused, how it is counted, said and
//! reported. What is run, and against whom, is for the callers.

use std::time::Instant;

use crate::baseline::Baseline;
use crate::report::{self, Outputs, ReportError, terminal};
use crate::run::{Panics, now_ms, quiet_panics};
use crate::suite::Case;
use crate::verdict::{CaseReport, Exit, REPORT_VERSION, RunReport, Summary, TargetReport};

/// How a run is wanted, the same for connectors, ADP hosts and GRP hosts.
#[derive(Debug)]
pub struct Wanted {
    /// Seed of names and keys.
    pub seed: u64,
    /// Cases at once.
    pub jobs: usize,
    /// Rounds.
    pub repeat: u32,
    /// The part of a divided run, as text.
    pub shard: Option<String>,
    /// SHOULD counts like MUST.
    pub strict: bool,
    /// Fewer passed cases than this is no pass.
    pub min: usize,
    /// Say less.
    pub quiet: bool,
    /// Colours.
    pub style: terminal::Style,
    /// Known failures.
    pub baseline: Baseline,
    /// Reports to write.
    pub outputs: Outputs,
}

/// A run under way.
#[derive(Debug)]
pub struct Judgement {
    /// How it is wanted.
    pub wanted: Wanted,
    panics: Panics,
    began: Instant,
    started_at: u64,
}

/// Prints what would run.
pub fn list(cases: &[Case]) -> Exit {
    for case in cases {
        mock_hosts::say!("{}  [{}] {}", case.id, case.level.as_str(), case.requirements.join(" "));
    }
    if cases.is_empty() { Exit::NothingObserved } else { Exit::Conformant }
}

impl Judgement {
    /// Begins a run: from here on panics are collected and time counts.
    pub fn begin(wanted: Wanted) -> Self {
        Judgement { wanted, panics: quiet_panics(), began: Instant::now(), started_at: now_ms() }
    }

    /// Says what is about to be judged.
    pub fn announce(&self, cases: usize, judged: &str) {
        mock_hosts::say!(
            "{} scenarios against {judged} (seed {})\n",
            cases * self.wanted.repeat as usize,
            self.wanted.seed
        );
    }

    /// Says how a case ended.
    pub fn show(&self, case: &CaseReport) {
        if !self.wanted.quiet {
            mock_hosts::say!("{}", terminal::line(case, self.wanted.style));
        }
    }

    /// Excuses what is known, counts, writes the reports and says the verdict.
    ///
    /// # Errors
    /// [`ReportError`] when a report cannot be written.
    pub fn finish(self, target: TargetReport, cases: Vec<CaseReport>) -> Result<Exit, ReportError> {
        let wanted = self.wanted;
        let mut report = RunReport {
            version: REPORT_VERSION,
            suite_version: env!("CARGO_PKG_VERSION").to_owned(),
            started_at: self.started_at,
            duration_ms: u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX),
            seed: wanted.seed,
            shard: wanted.shard,
            strict: wanted.strict,
            min: wanted.min,
            target,
            cases,
            stale_baseline: Vec::new(),
            defects: self.panics.take(),
            summary: Summary::default(),
            verdict: Exit::Defect,
        };
        report.stale_baseline = wanted.baseline.apply(&mut report.cases);
        report.conclude();
        report::write(&report, &wanted.outputs)?;
        mock_hosts::put!("{}", terminal::summary(&report, wanted.style));
        Ok(report.verdict)
    }
}
