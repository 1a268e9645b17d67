//! The driver: runs cases concurrently, catches what they throw, writes down what happened.
//!
//! cucumber's own runner is not used: it cannot hand a run's context to a world, and it
//! knows one kind of failure where we need four.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use cucumber::step::Collection;
use futures::{FutureExt as _, StreamExt as _};

use crate::failure::{StepError, StepResult};
use crate::suite::Case;
use crate::verdict::{CaseReport, Failure, Status, StepReport};
use crate::world::{RunContext, World, case_seed};

/// No scenario takes longer; one that does is stuck.
const CASE_DEADLINE: Duration = Duration::from_secs(180);

/// The wall clock (Unix ms). The suite is the outermost layer: here time enters.
pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn ms(d: Duration) -> u64 {
    u64::try_from(d.as_millis()).unwrap_or(u64::MAX)
}

/// Panics that are no step's way of saying no, collected by [`quiet_panics`].
#[derive(Debug, Clone, Default)]
pub struct Panics(Arc<Mutex<Vec<String>>>);

impl Panics {
    /// What was collected so far.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }
}

/// Silences the panics by which steps fail and collects all others: a panic in a host or in
/// the client is a defect of the suite even when no step notices.
pub fn quiet_panics() -> Panics {
    let panics = Panics::default();
    let sink = panics.clone();
    std::panic::set_hook(Box::new(move |info| {
        let message = panic_text(info.payload());
        if StepError::is_marked(&message) {
            return;
        }
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        let text = format!("panic at {place}: {message}");
        eprintln!("{text}");
        sink.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(text);
    }));
    panics
}

pub(crate) fn panic_text(payload: &dyn std::any::Any) -> String {
    payload
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| payload.downcast_ref::<&str>().map(|s| (*s).to_owned()))
        .unwrap_or_else(|| "a panic without text".to_owned())
}

/// Runs every case `repeat` times, `jobs` at once; `done` sees each as it ends. The result
/// is in suite order.
pub async fn run_cases(
    run: &Arc<RunContext>,
    cases: &[Case],
    jobs: usize,
    repeat: u32,
    mut done: impl FnMut(&CaseReport),
) -> Vec<CaseReport> {
    let steps = crate::steps::all();
    let rounds = (1..=repeat).flat_map(|round| cases.iter().map(move |case| (round, case)));
    let mut reports: Vec<(usize, CaseReport)> = futures::stream::iter(rounds.enumerate())
        .map(|(i, (round, case))| {
            let steps = &steps;
            async move { (i, run_case(run, steps, case, round).await) }
        })
        .buffer_unordered(jobs.max(1))
        .inspect(|(_, report)| done(report))
        .collect()
        .await;
    reports.sort_by_key(|(i, _)| *i);
    reports.into_iter().map(|(_, report)| report).collect()
}

/// Runs one case in a world of its own.
pub async fn run_case(
    run: &Arc<RunContext>,
    steps: &Collection<World>,
    case: &Case,
    round: u32,
) -> CaseReport {
    let started = Instant::now();
    let mut report = blank(run.seed, case, round);
    let missing = case.needs.iter().find(|c| !run.profile.claims(c));
    if let Some(capability) = missing {
        report.status = Status::NotClaimed;
        report.not_claimed = Some(format!("the target does not claim {capability}"));
        return report;
    }
    let mut world = match World::begin(run.clone(), &case.id, round) {
        Ok(world) => world,
        Err(e) => {
            settle(&mut report, case, 0, &e);
            return report;
        }
    };
    let mut failed = None;
    let deadline = tokio::time::Instant::now() + CASE_DEADLINE;
    for (i, step) in case.steps.iter().enumerate() {
        let began = Instant::now();
        world.log.push("step", &format!("{}{}", step.keyword, step.value));
        let held = one_step(steps, &mut world, step, deadline).await;
        report.steps[i].duration_ms = ms(began.elapsed());
        report.steps[i].held = Some(held.is_ok());
        if let Err(e) = held {
            failed = Some((i, e));
            break;
        }
    }
    world.end().await;
    let judged = !matches!(failed, Some((_, StepError::NotClaimed(_) | StepError::Defect(_))));
    let breaches = if judged { world.breaches() } else { Vec::new() };
    report.answered = world.answered;
    match failed {
        Some((i, e)) => settle(&mut report, case, i, &e),
        None => report.status = Status::Passed,
    }
    if let Some(breach) = breaches.first()
        && matches!(report.status, Status::Passed | Status::Blocked)
    {
        report.status = Status::Failed;
        report.failure = Some(Failure {
            step: format!("(standing rule, {})", breach.requirement),
            line: case.line,
            expected: breach.rule.to_owned(),
            seen: breach.seen.clone(),
        });
    }
    if let Some(failure) = &mut report.failure {
        failure.expected = world.log.clean(&failure.expected);
        failure.seen = world.log.clean(&failure.seen);
    }
    report.wire = world.wire();
    if !matches!(report.status, Status::Passed | Status::NotClaimed) {
        report.hosts = world.hosts.dumps();
    }
    report.duration_ms = ms(started.elapsed());
    report
}

async fn one_step(
    steps: &Collection<World>,
    world: &mut World,
    step: &cucumber::gherkin::Step,
    deadline: tokio::time::Instant,
) -> StepResult {
    let (run, _, _, context) = match steps.find(step) {
        Ok(Some(found)) => found,
        Ok(None) => return Err(StepError::Defect("the step is not defined".to_owned())),
        Err(e) => return Err(StepError::Defect(e.to_string())),
    };
    let caught = AssertUnwindSafe(run(world, context)).catch_unwind();
    match tokio::time::timeout_at(deadline, caught).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(payload)) => Err(StepError::from_panic(&panic_text(&*payload))),
        Err(_) => Err(StepError::Target(format!(
            "the scenario is not done after {} s",
            CASE_DEADLINE.as_secs()
        ))),
    }
}

pub(crate) fn blank(seed: u64, case: &Case, round: u32) -> CaseReport {
    CaseReport {
        id: case.id.clone(),
        round,
        feature: case.feature.clone(),
        name: case.name.clone(),
        description: case.description.as_ref().map(|d| d.trim().to_owned()),
        file: case.file.clone(),
        line: case.line,
        level: case.level,
        requirements: case.requirements.clone(),
        reference: case.reference,
        status: Status::Defect,
        seed: case_seed(seed, &case.id, round),
        duration_ms: 0,
        answered: false,
        steps: case
            .steps
            .iter()
            .map(|s| StepReport {
                keyword: s.keyword.trim().to_owned(),
                text: s.value.clone(),
                held: None,
                duration_ms: 0,
            })
            .collect(),
        failure: None,
        not_claimed: None,
        excused: None,
        wire: Vec::new(),
        hosts: std::collections::BTreeMap::new(),
    }
}

pub(crate) fn settle(report: &mut CaseReport, case: &Case, step: usize, error: &StepError) {
    let (status, expected, seen) = match error {
        StepError::Check { expected, seen } => (Status::Failed, expected.clone(), seen.clone()),
        StepError::Target(seen) => (Status::Failed, "the target answers".to_owned(), seen.clone()),
        StepError::NotClaimed(reason) => {
            report.status = Status::NotClaimed;
            report.not_claimed = Some(reason.clone());
            return;
        }
        StepError::Defect(message) => {
            (Status::Defect, "the suite works".to_owned(), message.clone())
        }
    };
    let at = case.steps.get(step);
    // What stands under Given prepares the story. A target that fails there may well break a
    // rule, but not the one this scenario is about.
    let preparing = at.is_some_and(|s| s.ty == cucumber::gherkin::StepType::Given);
    report.status = if preparing && status == Status::Failed { Status::Blocked } else { status };
    report.failure = Some(Failure {
        step: at.map(|s| format!("{}{}", s.keyword, s.value)).unwrap_or_default(),
        line: at.map_or(case.line, |s| s.position.line),
        expected,
        seen,
    });
}
