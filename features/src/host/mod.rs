//! Conformance of ADP hosts: `conformance run --adp-host [URL]`.
//!
//! Its own features (`hosts/`), ledger and world; reports, selection and verdicts are the
//! suite's. It judges over HTTP only, so that any host will do: no clock is moved, no state is
//! looked into, and every agent and room is new.

pub mod prove;
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
use crate::judgement::Judgement;
use crate::ledger::Ledger;
use crate::run::{blank, panic_text, settle};
use crate::suite::{self, Case, SuiteError};
use crate::verdict::{CaseReport, Exit, Status, TargetReport};
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

/// What a report says was judged when there is no URL.
pub const EMBEDDED: &str = "the embedded ADP host";

/// Nothing is judged against a host that does not answer at all.
///
/// # Errors
/// What went wrong, for people.
async fn probe(run: &Arc<HostRun>) -> Result<(), String> {
    let Some(url) = &run.url else { return Ok(()) };
    let said = |e: &StepError| match e {
        StepError::Target(what) => what.clone(),
        other => other.to_string(),
    };
    let mut world = HostWorld::begin(run, "probe", 0).await.map_err(|e| said(&e))?;
    let path = "/.well-known/agent-discourse";
    match world.call("GET", path, None, None).await {
        Ok(_) => Ok(()),
        Err(e) => Err(format!("{url} does not answer: {}", said(&e))),
    }
}

/// Judges the cases within a judgement.
///
/// # Errors
/// An exit and its reason when there is no verdict.
pub async fn run(
    run: HostRun,
    cases: &[Case],
    judgement: Judgement,
) -> Result<Exit, (Exit, String)> {
    let steps = all_steps();
    let undefined = undefined(&steps, cases);
    if !undefined.is_empty() {
        return Err((Exit::Defect, format!("steps are missing:\n  {}", undefined.join("\n  "))));
    }
    if cases.is_empty() {
        return Err((Exit::NothingObserved, "no scenario matches the selection".to_owned()));
    }
    let run = Arc::new(run);
    probe(&run).await.map_err(|what| (Exit::NothingObserved, what))?;
    let name = run.url.clone().unwrap_or_else(|| EMBEDDED.to_owned());
    judgement.announce(cases.len(), &name);
    let rounds = (1..=judgement.wanted.repeat).flat_map(|r| cases.iter().map(move |c| (r, c)));
    let mut done: Vec<(usize, CaseReport)> = futures::stream::iter(rounds.enumerate())
        .map(|(i, (round, case))| {
            let (run, steps) = (&run, &steps);
            async move { (i, run_case(run, steps, case, round).await) }
        })
        .buffer_unordered(judgement.wanted.jobs.max(1))
        .inspect(|(_, case)| judgement.show(case))
        .collect()
        .await;
    done.sort_by_key(|(i, _)| *i);
    let target = TargetReport {
        command: name,
        server_info: Value::Null,
        protocol_version: json!(ap_protocol::DISCOURSE_PROTOCOL),
        profile: TargetReport::ADP_HOST.to_owned(),
        capabilities: Vec::new(),
    };
    let reports = done.into_iter().map(|(_, case)| case).collect();
    judgement.finish(target, reports).map_err(|e| (Exit::Usage, e.to_string()))
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
