//! Proof that the GRP features can fail: each seeded defect of the embedded host must be
//! caught by a scenario. The hunt itself is [`crate::prove::hunt`].

use std::pin::Pin;
use std::sync::Arc;

use mock_hosts::grp::Defect;

use super::Target;
use crate::profile::Profile;
use crate::prove::hunt::Suspect;
use crate::run::run_case;
use crate::suite::Case;
use crate::target::TargetCommand;
use crate::verdict::CaseReport;
use crate::world::RunContext;

/// All defects: name, what is wrong, scenarios that should notice.
pub fn defects() -> impl Iterator<Item = (&'static str, String, &'static [&'static str])> {
    Defect::ALL.iter().map(|d| (d.name(), d.about().to_owned(), &["*"][..]))
}

/// What runs a case against the honest embedded host, or against one of the suspects.
pub fn trial(
    target: &TargetCommand,
    seed: u64,
    suspects: &[Suspect],
) -> impl Fn(Option<usize>, Case) -> Pin<Box<dyn Future<Output = CaseReport>>> {
    let context = |defects: Vec<Defect>| {
        Arc::new(RunContext {
            target: target.clone(),
            profile: Profile::reference(),
            seed,
            saboteur: None,
            patience: None,
            grp: Target::Embedded(defects),
        })
    };
    let broken: Vec<Arc<RunContext>> = suspects
        .iter()
        .map(|s| context(Defect::from_name(&s.name).into_iter().collect()))
        .collect();
    let (honest, steps) = (context(Vec::new()), Arc::new(crate::steps::all()));
    move |who, case| {
        let run = who.map_or(&honest, |i| &broken[i]).clone();
        let steps = Arc::clone(&steps);
        Box::pin(async move { run_case(&run, &steps, &case, 1).await })
    }
}
