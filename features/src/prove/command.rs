//! `conformance prove`: which suspects, how far, and what is said about them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;

use super::hunt::{Depth, Kind, Matrix, Progress, Row, Suspect, hunt};
use super::kills::Kills;
use super::{Saboteur, saboteurs};
use crate::cli::{Stop, TargetArgs, default_jobs, defect, probe, usage};
use crate::grp::{self, Target, is_grp};
use crate::host::prove as hosts;
use crate::ledger::Ledger;
use crate::run::{quiet_panics, run_case};
use crate::select::CaseGlob;
use crate::suite::{self, Case};
use crate::target::TargetCommand;
use crate::verdict::Exit;
use crate::world::RunContext;

/// What `prove` takes.
#[derive(Debug, Clone, Default, Args)]
pub struct ProveArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// Hunt broken ADP hosts with the features for hosts.
    #[arg(long, conflicts_with = "connector")]
    hosts: bool,
    /// Hunt GRP hosts with seeded defects.
    #[arg(long, conflicts_with_all = ["connector", "hosts"])]
    grp: bool,
    /// Only saboteurs, hosts or defects with this name (glob, repeatable).
    #[arg(long, visible_alias = "defect", value_name = "GLOB")]
    saboteur: Vec<String>,
    /// Only scenarios with this id or requirement (glob, repeatable), whatever is aimed at.
    #[arg(long, value_name = "GLOB")]
    run: Vec<String>,
    /// Do not stop at the first scenario that catches a saboteur.
    #[arg(long)]
    all: bool,
    /// Every scenario against everyone, not only those that should notice (long).
    #[arg(long)]
    full: bool,
    /// Fail too when a MUST scenario was never seen to fail, neither here nor by a break that
    /// the ledger tells of.
    #[arg(long)]
    strict: bool,
    /// Print who would be hunted.
    #[arg(long)]
    list: bool,
    /// Scenarios at once; twice the cores when absent.
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Seed of names and keys.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Write the table as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// With --all or --full: note who was caught by whom (features/kills.toml).
    #[arg(long, value_name = "FILE", conflicts_with = "run")]
    write: Option<PathBuf>,
}

/// How long a scenario waits for what should happen soon, with and without a saboteur: much of
/// what a saboteur suppresses would otherwise be waited for in full.
const PATIENCE: Duration = Duration::from_secs(5);

struct Globs(Vec<CaseGlob>);

impl Globs {
    fn new<T: AsRef<str>>(texts: &[T]) -> Result<Self, Stop> {
        let globs = texts.iter().map(|t| CaseGlob::new(t.as_ref()));
        globs.collect::<Result<Vec<_>, _>>().map(Globs).map_err(usage)
    }

    fn name(&self, name: &str) -> bool {
        self.0.is_empty() || self.0.iter().any(|g| g.matches_ids(name, &[]))
    }

    fn case(&self, case: &Case) -> bool {
        self.0.iter().any(|g| g.matches(case))
    }
}

impl ProveArgs {
    fn depth(&self) -> Depth {
        if self.all || self.full { Depth::Everything } else { Depth::FirstCatch }
    }

    /// Suspects of the wanted names, with the scenarios to try.
    fn suspects<'a>(
        &self,
        kind: Kind,
        kills: &Kills,
        cases: &[Case],
        all: impl Iterator<Item = (&'a str, String, &'a [&'a str])>,
    ) -> Result<Vec<Suspect>, Stop> {
        let (names, only) = (Globs::new(&self.saboteur)?, Globs::new(&self.run)?);
        let mut found = Vec::new();
        for (name, what, aims) in all.filter(|(name, ..)| names.name(name)) {
            let aims = Globs::new(aims)?;
            let wanted = |c: &Case| match (self.run.is_empty(), self.full) {
                (false, _) => only.case(c),
                (true, true) => true,
                (true, false) => aims.case(c),
            };
            let cases = cases.iter().filter(|c| wanted(c)).cloned().collect();
            let mut suspect = Suspect { name: name.to_owned(), what, cases };
            suspect.remember(kind, kills);
            found.push(suspect);
        }
        if found.is_empty() {
            return Err(Stop(Exit::NothingObserved, "nobody of that name".to_owned()));
        }
        Ok(found)
    }

    fn said(row: &Row, progress: Progress) {
        mock_hosts::say!("{} {progress}", row.render());
    }

    fn finish(
        &self,
        mut matrix: Matrix,
        known: &Known,
        cases: &[Case],
        began: Instant,
    ) -> Result<Exit, Stop> {
        matrix.find_idle(&known.ledger, &known.kills, cases);
        mock_hosts::put!("{}", matrix.summary(cases, began.elapsed()));
        if let Some(path) = &self.json {
            let text = serde_json::to_vec_pretty(&matrix).map_err(defect)?;
            std::fs::write(path, text).map_err(|e| usage(format!("{}: {e}", path.display())))?;
        }
        if let Some(path) = &self.write {
            if matrix.depth != Depth::Everything {
                return Err(usage("--write notes complete hunts only: add --all"));
            }
            // The file may be newer than this binary.
            let mut kills = match std::fs::read_to_string(path) {
                Ok(text) => Kills::parse(&text).map_err(usage)?,
                Err(_) => Kills::default(),
            };
            kills.note(&matrix);
            let text = kills.to_toml().map_err(defect)?;
            std::fs::write(path, text).map_err(|e| usage(format!("{}: {e}", path.display())))?;
        }
        Ok(matrix.exit(self.strict))
    }
}

/// What earlier hunts and breaks made by hand have shown.
struct Known {
    ledger: Ledger,
    kills: Kills,
}

impl Known {
    fn new(ledger: Result<Ledger, String>) -> Result<Self, Stop> {
        let kills = Kills::embedded().map_err(defect)?;
        Ok(Known { ledger: ledger.map_err(defect)?, kills })
    }
}

fn listed(suspects: &[Suspect]) -> Exit {
    for s in suspects {
        mock_hosts::say!("{:<26} {} ({} scenarios)", s.name, s.what, s.cases.len());
    }
    Exit::Conformant
}

/// Hunts what the arguments name.
pub(crate) async fn prove(args: ProveArgs) -> Result<Exit, Stop> {
    if args.hosts {
        return prove_hosts(args).await;
    }
    let known = Known::new(Ledger::embedded())?;
    let mut cases = suite::load(None).map_err(defect)?;
    cases.retain(|case| is_grp(case) == args.grp);
    if args.grp {
        prove_grp(args, &known, &cases).await
    } else {
        prove_connector(args, &known, cases).await
    }
}

async fn prove_connector(
    args: ProveArgs,
    known: &Known,
    mut cases: Vec<Case>,
) -> Result<Exit, Stop> {
    let target = args.target.command()?;
    let profile = args.target.profile(&target)?;
    let reference = target.is_reference();
    cases.retain(|case| reference || !case.reference);
    let all = saboteurs().map(|s| (s.name, s.what.to_owned(), s.aims));
    let suspects = args.suspects(Kind::Saboteur, &known.kills, &cases, all)?;
    if args.list {
        return Ok(listed(&suspects));
    }
    let mut honest = RunContext {
        target,
        profile,
        seed: args.seed,
        saboteur: None,
        patience: Some(PATIENCE),
        grp: Target::default(),
    };
    let (_panics, began) = (quiet_panics(), Instant::now());
    probe(&mut honest).await?;
    let with = |saboteur: Option<Saboteur>| {
        Arc::new(RunContext {
            target: honest.target.clone(),
            profile: honest.profile.clone(),
            seed: args.seed,
            saboteur,
            patience: Some(PATIENCE),
            grp: Target::default(),
        })
    };
    let contexts: Vec<Arc<RunContext>> = suspects
        .iter()
        .map(|s| with(saboteurs().find(|one| one.name == s.name).copied()))
        .collect();
    let (honest, steps) = (with(None), crate::steps::all());
    let (contexts, honest, steps) = (&contexts, &honest, &steps);
    let trial = |who: Option<usize>, case: Case| async move {
        run_case(who.map_or(honest, |i| &contexts[i]), steps, &case, 1).await
    };
    let jobs = args.jobs.unwrap_or_else(default_jobs);
    let matrix = hunt(Kind::Saboteur, args.depth(), jobs, &suspects, trial, ProveArgs::said).await;
    args.finish(matrix, known, &cases, began)
}

async fn prove_grp(args: ProveArgs, known: &Known, cases: &[Case]) -> Result<Exit, Stop> {
    let all = grp::prove::defects();
    let suspects = args.suspects(Kind::GrpHost, &known.kills, cases, all)?;
    if args.list {
        return Ok(listed(&suspects));
    }
    let (_panics, began) = (quiet_panics(), Instant::now());
    let target = TargetCommand::reference().map_err(defect)?;
    let trial = grp::prove::trial(&target, args.seed, &suspects);
    let jobs = args.jobs.unwrap_or_else(default_jobs);
    let matrix = hunt(Kind::GrpHost, args.depth(), jobs, &suspects, trial, ProveArgs::said).await;
    let unsound = !matrix.unsound.is_empty();
    let exit = args.finish(matrix, known, cases, began)?;
    Ok(if unsound { Exit::Defect } else { exit })
}

async fn prove_hosts(args: ProveArgs) -> Result<Exit, Stop> {
    let known = Known::new(crate::host::ledger())?;
    let cases = crate::host::load().map_err(defect)?;
    let all = hosts::BROKEN.iter().map(|b| (b.name, b.what.to_owned(), &["*"][..]));
    let suspects = args.suspects(Kind::Host, &known.kills, &cases, all)?;
    if args.list {
        return Ok(listed(&suspects));
    }
    let (_panics, began) = (quiet_panics(), Instant::now());
    let jobs = args.jobs.unwrap_or_else(default_jobs);
    let stage = hosts::Stage::new(args.seed, &suspects).await.map_err(defect)?;
    let trial = |who, case| stage.trial(who, case);
    let matrix = hunt(Kind::Host, args.depth(), jobs, &suspects, trial, ProveArgs::said).await;
    let unsound = !matrix.unsound.is_empty();
    let exit = args.finish(matrix, &known, &cases, began)?;
    Ok(if unsound { Exit::Defect } else { exit })
}
