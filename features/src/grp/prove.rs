//! Proof that the GRP features can fail: each seeded defect of the embedded host must be
//! caught by a scenario, and the table says by which.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::Arc;

use mock_hosts::grp::Defect;

use super::{Target, is_grp};
use crate::run::run_cases;
use crate::suite::{Case, Level};
use crate::verdict::Status;
use crate::world::RunContext;

/// `prove --grp …` is `prove-grp …`: one question, one command for people to remember.
pub fn aliased(args: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut args: Vec<OsString> = args.into_iter().collect();
    let asks = args.get(1).is_some_and(|a| a == "prove") && args.iter().any(|a| a == "--grp");
    if asks {
        args[1] = "prove-grp".into();
        args.retain(|a| a != "--grp");
    }
    args
}

/// Which scenarios caught which defect.
#[derive(Debug, Default)]
pub struct KillMatrix {
    /// Scenarios by defect name.
    pub killed_by: BTreeMap<&'static str, Vec<String>>,
    /// MUST scenarios that no defect made fail.
    pub idle: Vec<String>,
    /// Scenarios that fail on the honest host, or could not run.
    pub unsound: Vec<String>,
}

impl KillMatrix {
    /// Defects nobody caught.
    pub fn survivors(&self) -> Vec<&'static str> {
        self.killed_by.iter().filter(|(_, by)| by.is_empty()).map(|(d, _)| *d).collect()
    }

    /// The table.
    pub fn render(&self) -> String {
        let mut out = String::from("GRP host defects and the scenarios that catch them\n\n");
        for (defect, by) in &self.killed_by {
            let about = Defect::from_name(defect).map_or("", Defect::about);
            let verdict = if by.is_empty() { "SURVIVES" } else { "caught" };
            out.push_str(&format!("{verdict:8}  {defect}: {about}\n"));
            for case in by {
                out.push_str(&format!("            {case}\n"));
            }
        }
        out.push_str(&format!(
            "\n{} defects, {} survive; {} MUST scenarios were never the one to fail\n",
            self.killed_by.len(),
            self.survivors().len(),
            self.idle.len()
        ));
        for case in &self.idle {
            out.push_str(&format!("  idle      {case}\n"));
        }
        for case in &self.unsound {
            out.push_str(&format!("  unsound   {case}\n"));
        }
        out
    }
}

/// Runs the GRP features against the honest host, then against every defect.
pub async fn run(
    context: impl Fn(Target) -> RunContext,
    cases: &[Case],
    jobs: usize,
    only: Option<&str>,
) -> KillMatrix {
    let cases: Vec<Case> = cases.iter().filter(|c| is_grp(c)).cloned().collect();
    let mut matrix = KillMatrix::default();
    let honest = Arc::new(context(Target::Embedded(Vec::new())));
    let sound: Vec<Case> = {
        let reports = run_cases(&honest, &cases, jobs, 1, |_| {}).await;
        let failed: Vec<String> =
            reports.iter().filter(|r| r.status != Status::Passed).map(|r| r.id.clone()).collect();
        matrix.unsound = failed.clone();
        cases.into_iter().filter(|c| !failed.contains(&c.id)).collect()
    };
    let mut busy: Vec<String> = Vec::new();
    for defect in Defect::ALL.iter().filter(|d| only.is_none_or(|o| o == d.name())) {
        let broken = Arc::new(context(Target::Embedded(vec![*defect])));
        let reports = run_cases(&broken, &sound, jobs, 1, |_| {}).await;
        let caught: Vec<String> =
            reports.iter().filter(|r| r.status == Status::Failed).map(|r| r.id.clone()).collect();
        busy.extend(caught.iter().cloned());
        matrix.killed_by.insert(defect.name(), caught);
    }
    matrix.idle = sound
        .iter()
        .filter(|c| c.level == Level::Must && !busy.contains(&c.id))
        .map(|c| c.id.clone())
        .collect();
    matrix
}
