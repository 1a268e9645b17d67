//! Conformance of ADP hosts: `conformance run --adp-host [URL]`.
//!
//! Its own features (`hosts/`), ledger and world; reports, selection and verdicts are the
//! suite's. It judges over HTTP only, so that any host will do: no clock is moved, no state is
//! looked into, and every agent and room is new.

mod steps;
pub mod world;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cucumber::World as _;
use cucumber::step::Collection;
use futures::{FutureExt as _, StreamExt as _};
use include_dir::{Dir, include_dir};
use serde_json::{Value, json};

use crate::failure::StepError;
use crate::ledger::Ledger;
use crate::report::{self, Outputs, terminal};
use crate::run::{blank, now_ms, panic_text, quiet_panics, settle};
use crate::suite::{self, Case, SuiteError};
use crate::verdict::{CaseReport, Exit, REPORT_VERSION, RunReport, Status, Summary, TargetReport};
use world::HostWorld;

static FEATURES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/hosts");
static LEDGER: &str = include_str!("../../host-requirements.toml");

/// No scenario takes longer; one that does is stuck.
const CASE_DEADLINE: Duration = Duration::from_secs(120);

/// The cases for hosts.
///
/// # Errors
/// [`SuiteError`] for a feature file that cannot be used.
pub fn load() -> Result<Vec<Case>, SuiteError> {
    let mut cases = Vec::new();
    for file in FEATURES.files() {
        let path = file.path().to_string_lossy().into_owned();
        if let (true, Some(text)) = (path.ends_with(".feature"), file.contents_utf8()) {
            cases.extend(suite::parse(&path, text)?);
        }
    }
    Ok(cases)
}

/// The obligations of hosts.
///
/// # Errors
/// When the TOML does not parse.
pub fn ledger() -> Result<Ledger, String> {
    Ledger::parse(LEDGER)
}

/// All steps for hosts.
pub fn all_steps() -> Collection<HostWorld> {
    HostWorld::collection()
}

/// What every case of a run shares.
#[derive(Debug, Clone)]
pub struct HostRun {
    /// Base URL of the host; none for the embedded one, fresh for every case.
    pub url: Option<String>,
    /// Seed of the run: agents' keys and names follow from it.
    pub seed: u64,
}

/// How a run is wanted.
#[derive(Debug)]
pub struct Wanted {
    /// The host, or the embedded one.
    pub run: HostRun,
    /// The cases that were selected.
    pub cases: Vec<Case>,
    /// Cases at once.
    pub jobs: usize,
    /// Rounds.
    pub repeat: u32,
    /// SHOULD counts like MUST.
    pub strict: bool,
    /// Fewer passed cases than this is no pass.
    pub min: usize,
    /// Say less.
    pub quiet: bool,
    /// Colours.
    pub style: terminal::Style,
    /// Reports to write.
    pub outputs: Outputs,
}

/// Runs the cases and writes the reports.
///
/// # Errors
/// An exit and its reason when there is no verdict.
pub async fn run(wanted: Wanted) -> Result<Exit, (Exit, String)> {
    let steps = all_steps();
    let undefined = undefined(&steps, &wanted.cases);
    if !undefined.is_empty() {
        return Err((Exit::Defect, format!("steps are missing:\n  {}", undefined.join("\n  "))));
    }
    if wanted.cases.is_empty() {
        return Err((Exit::NothingObserved, "no scenario matches the selection".to_owned()));
    }
    let panics = quiet_panics();
    let (began, started_at) = (Instant::now(), now_ms());
    let name = wanted.run.url.clone().unwrap_or_else(|| "the embedded ADP host".to_owned());
    mock_hosts::say!(
        "{} scenarios against {name} (seed {})\n",
        wanted.cases.len() * wanted.repeat as usize,
        wanted.run.seed
    );
    let rounds = (1..=wanted.repeat).flat_map(|r| wanted.cases.iter().map(move |c| (r, c)));
    let run = Arc::new(wanted.run);
    let mut cases: Vec<(usize, CaseReport)> = futures::stream::iter(rounds.enumerate())
        .map(|(i, (round, case))| {
            let (run, steps) = (&run, &steps);
            async move { (i, run_case(run, steps, case, round).await) }
        })
        .buffer_unordered(wanted.jobs.max(1))
        .inspect(|(_, case)| {
            if !wanted.quiet {
                mock_hosts::say!("{}", terminal::line(case, wanted.style));
            }
        })
        .collect()
        .await;
    cases.sort_by_key(|(i, _)| *i);
    let mut report = RunReport {
        version: REPORT_VERSION,
        suite_version: env!("CARGO_PKG_VERSION").to_owned(),
        started_at,
        duration_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        seed: run.seed,
        shard: None,
        strict: wanted.strict,
        min: wanted.min,
        target: TargetReport {
            command: name,
            server_info: Value::Null,
            protocol_version: json!(ap_protocol::DISCOURSE_PROTOCOL),
            profile: "adp-host".to_owned(),
            capabilities: Vec::new(),
        },
        cases: cases.into_iter().map(|(_, case)| case).collect(),
        stale_baseline: Vec::new(),
        defects: panics.take(),
        summary: Summary::default(),
        verdict: Exit::Defect,
    };
    report.conclude();
    report::write(&report, &wanted.outputs).map_err(|e| (Exit::Usage, e.to_string()))?;
    mock_hosts::put!("{}", terminal::summary(&report, wanted.style));
    Ok(report.verdict)
}

fn undefined(steps: &Collection<HostWorld>, cases: &[Case]) -> Vec<String> {
    let mut found = Vec::new();
    for case in cases {
        for step in &case.steps {
            let at = format!("{}:{}: {:?}", case.file, step.position.line, step.value);
            match steps.find(step) {
                Ok(Some(_)) => {}
                Ok(None) => found.push(format!("{at} is not defined")),
                Err(e) => found.push(format!("{at} is ambiguous: {e}")),
            }
        }
    }
    found.sort();
    found.dedup();
    found
}

/// Runs one case in a world of its own.
pub async fn run_case(
    run: &Arc<HostRun>,
    steps: &Collection<HostWorld>,
    case: &Case,
    round: u32,
) -> CaseReport {
    let started = Instant::now();
    let mut report = blank(run.seed, case, round);
    let mut world = match HostWorld::begin(run, &case.id, round).await {
        Ok(world) => world,
        Err(e) => {
            settle(&mut report, case, 0, &e);
            return report;
        }
    };
    report.status = Status::Passed;
    let deadline = tokio::time::Instant::now() + CASE_DEADLINE;
    for (i, step) in case.steps.iter().enumerate() {
        let began = Instant::now();
        world.log.push("step", &format!("{}{}", step.keyword, step.value));
        let held = match steps.find(step) {
            Ok(Some((function, _, _, context))) => {
                let caught = AssertUnwindSafe(function(&mut world, context)).catch_unwind();
                match tokio::time::timeout_at(deadline, caught).await {
                    Ok(Ok(())) => Ok(()),
                    Ok(Err(panic)) => Err(StepError::from_panic(&panic_text(&*panic))),
                    Err(_) => Err(StepError::Target("the scenario does not end".to_owned())),
                }
            }
            _ => Err(StepError::Defect("the step is not defined".to_owned())),
        };
        report.steps[i].duration_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(0);
        report.steps[i].held = Some(held.is_ok());
        if let Err(e) = held {
            settle(&mut report, case, i, &e);
            break;
        }
    }
    report.answered = world.answered;
    report.wire = world.log.lines();
    if report.status != Status::Passed {
        report.hosts = world.dumps();
    }
    report.duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    report
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_obligation_of_hosts_is_judged_and_every_step_defined() {
        let cases = super::load().expect("the files are part of this crate");
        let drift = super::ledger().expect("a ledger").drift(&cases);
        assert!(drift.is_empty(), "{drift:#?}");
        let undefined = super::undefined(&super::all_steps(), &cases);
        assert!(undefined.is_empty(), "{undefined:#?}");
        assert!(cases.len() >= 40, "{} cases", cases.len());
    }
}
