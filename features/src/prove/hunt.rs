//! The hunt: suspects that are broken in a known way, scenarios that should notice, and the
//! table of who was caught by what. The same for connectors, ADP hosts and GRP hosts.
//!
//! It does not know what a suspect is: a trial runs one scenario against one of them, or
//! against the honest one, whose failure means that the scenario proves nothing.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use serde::{Deserialize, Serialize};
use tokio::sync::{OnceCell, Semaphore};

use super::kills::Kills;
use crate::ledger::Ledger;
use crate::suite::{Case, Level};
use crate::verdict::{CaseReport, Exit, Status};

/// What is hunted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A corrupted connector.
    Saboteur,
    /// An ADP host with one fault.
    Host,
    /// A GRP host with one seeded defect.
    GrpHost,
}

impl Kind {
    fn title(self) -> &'static str {
        match self {
            Kind::Saboteur => "connector saboteurs",
            Kind::Host => "broken ADP hosts",
            Kind::GrpHost => "broken GRP hosts",
        }
    }
}

/// One broken thing.
#[derive(Debug, Clone)]
pub struct Suspect {
    /// Stable name.
    pub name: String,
    /// What is wrong with it.
    pub what: String,
    /// Scenarios to try, in this order.
    pub cases: Vec<Case>,
}

impl Suspect {
    /// Puts the scenarios first that are remembered to have caught it, cheapest first.
    pub fn remember(&mut self, kind: Kind, kills: &Kills) {
        let known = kills.by(kind, &self.name);
        let place = |c: &Case| known.iter().position(|id| *id == c.id).unwrap_or(known.len());
        self.cases.sort_by_key(place);
    }
}

/// How far a hunt goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Depth {
    /// Until something catches the suspect.
    FirstCatch,
    /// Every scenario.
    Everything,
}

/// A scenario that caught a suspect.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Catch {
    /// Its id.
    pub scenario: String,
    /// The step that did not hold.
    pub step: String,
    /// How long the scenario took (ms).
    pub duration_ms: u64,
}

/// One line of the table.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Row {
    /// Name of the suspect.
    pub name: String,
    /// What is wrong with it.
    pub what: String,
    /// Who caught it.
    pub caught: Vec<Catch>,
    /// How many scenarios were tried.
    pub tried: usize,
}

impl Row {
    /// The line and its catches.
    pub fn render(&self) -> String {
        let word = if self.caught.is_empty() { "SURVIVES" } else { "caught" };
        let mut out = format!("{word:8}  {}: {}", self.name, self.what);
        out.push_str(&format!(" ({} of {} tried)", self.caught.len(), self.tried));
        for by in &self.caught {
            out.push_str(&format!("\n            {} ({} ms)", by.scenario, by.duration_ms));
        }
        out
    }
}

/// The kill matrix.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Matrix {
    /// What was hunted.
    pub kind: Kind,
    /// How far.
    pub depth: Depth,
    /// The suspects.
    pub rows: Vec<Row>,
    /// MUST scenarios that nothing here, in earlier hunts or in the ledger was seen to make fail.
    pub idle: Vec<String>,
    /// Scenarios that fail without any suspect.
    pub unsound: Vec<String>,
}

impl Matrix {
    /// Suspects that nobody caught.
    pub fn survivors(&self) -> Vec<&str> {
        self.rows.iter().filter(|r| r.caught.is_empty()).map(|r| r.name.as_str()).collect()
    }

    /// Fills in which MUST scenarios of `cases` nothing was ever seen to make fail.
    pub fn find_idle(&mut self, ledger: &Ledger, kills: &Kills, cases: &[Case]) {
        let mut kills = kills.clone();
        if self.depth == Depth::Everything {
            // What a complete hunt did not see again is no longer known of these suspects.
            kills.note(self);
        }
        let here: BTreeSet<&str> =
            self.rows.iter().flat_map(|r| &r.caught).map(|c| c.scenario.as_str()).collect();
        self.idle = kills
            .never_failed(ledger, cases)
            .into_iter()
            .filter(|id| !here.contains(id))
            .map(str::to_owned)
            .collect();
    }

    /// The last lines.
    pub fn summary(&self, cases: &[Case], took: Duration) -> String {
        let musts = cases.iter().filter(|c| c.level == Level::Must).count();
        let survivors = self.survivors();
        let mut out = format!(
            "\n{} {}, {} survive; {} of {musts} MUST scenarios never seen to fail; {} s\n",
            self.rows.len(),
            self.kind.title(),
            survivors.len(),
            self.idle.len(),
            took.as_secs(),
        );
        for name in survivors {
            out.push_str(&format!("  survives  {name}\n"));
        }
        for case in &self.idle {
            out.push_str(&format!("  idle      {case}\n"));
        }
        for case in &self.unsound {
            out.push_str(&format!("  unsound   {case}: it fails without any of them\n"));
        }
        out
    }

    /// How the process ends: a survivor is a hole in the suite, and so with `strict` is a MUST
    /// scenario that nothing was ever seen to make fail.
    pub fn exit(&self, strict: bool) -> Exit {
        let idle = strict && !self.idle.is_empty();
        if self.survivors().is_empty() && !idle { Exit::Conformant } else { Exit::NotConformant }
    }
}

/// What a trial says about a suspect.
enum Found {
    Nothing,
    Caught(Catch),
    Unsound(String),
}

/// Runs the suspects, `jobs` scenarios at once. `trial` runs a case against the suspect with
/// that index, or against the honest one; `ended` sees each row with how many suspects are
/// done.
pub async fn hunt<F, Fut>(
    kind: Kind,
    depth: Depth,
    jobs: usize,
    suspects: &[Suspect],
    trial: F,
    mut ended: impl FnMut(&Row, Progress),
) -> Matrix
where
    F: Fn(Option<usize>, Case) -> Fut,
    Fut: Future<Output = CaseReport>,
{
    let jobs = jobs.max(1);
    let began = Instant::now();
    let permits = Semaphore::new(jobs);
    let honest: Mutex<HashMap<String, Arc<OnceCell<bool>>>> = Mutex::default();
    let (permits, honest, trial) = (&permits, &honest, &trial);
    let run = move |who: Option<usize>, case: Case| async move {
        // The semaphore lives as long as this function and is never closed.
        let _permit = permits.acquire().await.expect("an open semaphore");
        trial(who, case).await
    };
    let holds = move |case: Case| {
        let mut known = honest.lock().unwrap_or_else(PoisonError::into_inner);
        let cell = known.entry(case.id.clone()).or_default().clone();
        async move {
            let judged = || async { run(None, case).await.status == Status::Passed };
            *cell.get_or_init(judged).await
        }
    };
    let look = move |who: usize, case: Case| async move {
        let report = run(Some(who), case.clone()).await;
        if report.status != Status::Failed {
            return Found::Nothing;
        }
        let id = case.id.clone();
        if !holds(case).await {
            return Found::Unsound(id);
        }
        let step = report.failure.map(|f| f.step).unwrap_or_default();
        Found::Caught(Catch { scenario: id, step, duration_ms: report.duration_ms })
    };
    let width = if depth == Depth::Everything { jobs } else { 1 };
    let mut rows = futures::stream::iter(suspects.iter().enumerate())
        .map(|(who, suspect)| async move {
            let mut row = Row {
                name: suspect.name.clone(),
                what: suspect.what.clone(),
                caught: Vec::new(),
                tried: 0,
            };
            let mut unsound = Vec::new();
            let mut trials = futures::stream::iter(suspect.cases.iter().cloned())
                .map(|case| look(who, case))
                .buffered(width);
            while let Some(found) = trials.next().await {
                row.tried += 1;
                match found {
                    Found::Nothing => {}
                    Found::Unsound(id) => unsound.push(id),
                    Found::Caught(by) => {
                        row.caught.push(by);
                        if depth == Depth::FirstCatch {
                            break;
                        }
                    }
                }
            }
            drop(trials);
            (who, row, unsound)
        })
        .buffer_unordered(jobs);
    let mut all = Vec::new();
    let mut unsound = BTreeSet::new();
    while let Some((who, row, bad)) = rows.next().await {
        unsound.extend(bad);
        let progress = Progress::new(all.len() + 1, suspects.len(), began.elapsed());
        ended(&row, progress);
        all.push((who, row));
    }
    drop(rows);
    all.sort_by_key(|(who, _)| *who);
    Matrix {
        kind,
        depth,
        rows: all.into_iter().map(|(_, row)| row).collect(),
        idle: Vec::new(),
        unsound: unsound.into_iter().collect(),
    }
}

/// Where a hunt stands.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    done: usize,
    all: usize,
    left: Duration,
}

impl Progress {
    fn new(done: usize, all: usize, elapsed: Duration) -> Self {
        let each = elapsed / u32::try_from(done.max(1)).unwrap_or(u32::MAX);
        let more = u32::try_from(all.saturating_sub(done)).unwrap_or(u32::MAX);
        Progress { done, all, left: each * more }
    }
}

impl std::fmt::Display for Progress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "[{}/{}", self.done, self.all)?;
        if self.done < self.all {
            write!(f, ", about {} s left", self.left.as_secs())?;
        }
        f.write_str("]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::parse;
    use crate::verdict::tests::case as report;

    fn cases() -> Vec<Case> {
        let text = "@LC-35 @must\nFeature: F\n  Scenario: A\n    Given x\n  Scenario: B\n    \
            Given x\n  Scenario: C\n    Given x\n";
        parse("f.feature", text).expect("parses")
    }

    fn suspect(name: &str) -> Suspect {
        Suspect { name: name.to_owned(), what: "w".to_owned(), cases: cases() }
    }

    /// Suspect 0 fails B and C, nobody else fails but C, which fails always.
    async fn trial(who: Option<usize>, case: Case) -> CaseReport {
        let failed = case.id == "f/c" || (who == Some(0) && case.id == "f/b");
        let status = if failed { Status::Failed } else { Status::Passed };
        CaseReport { id: case.id, ..report(Level::Must, status) }
    }

    async fn hunted(depth: Depth) -> Matrix {
        let suspects = [suspect("one"), suspect("two")];
        hunt(Kind::Saboteur, depth, 2, &suspects, trial, |_, _| {}).await
    }

    #[tokio::test]
    async fn only_what_holds_on_the_honest_one_catches() {
        let mut m = hunted(Depth::Everything).await;
        assert_eq!(m.survivors(), ["two"]);
        assert_eq!(m.rows[0].caught.len(), 1);
        assert_eq!(m.rows[0].caught[0].scenario, "f/b");
        assert_eq!(m.unsound, ["f/c"]);
        assert_eq!(m.exit(false), Exit::NotConformant);
        m.rows.pop();
        assert_eq!(m.exit(false), Exit::Conformant);
        let ledger = Ledger::parse("requirement = []").expect("parses");
        m.find_idle(&ledger, &Kills::default(), &cases());
        assert_eq!(m.idle, ["f/a", "f/c"]);
        assert_eq!(m.exit(true), Exit::NotConformant);
        // An older memory of the same suspect does not outlive a complete hunt.
        let old = Kills::parse("[saboteur]\none = [\"f/a\"]\n").expect("parses");
        m.find_idle(&ledger, &old, &cases());
        assert_eq!(m.idle, ["f/a", "f/c"]);
        m.depth = Depth::FirstCatch;
        m.find_idle(&ledger, &old, &cases());
        assert_eq!(m.idle, ["f/c"]);
    }

    #[tokio::test]
    async fn the_first_catch_is_enough_and_what_is_known_comes_first() {
        let m = hunted(Depth::FirstCatch).await;
        assert_eq!((m.rows[0].tried, m.rows[1].tried), (2, 3));
        let text = "[saboteur]\none = [\"f/c\", \"f/b\", \"f/gone\"]\n";
        let mut first = suspect("one");
        first.remember(Kind::Saboteur, &Kills::parse(text).expect("parses"));
        let ids: Vec<&str> = first.cases.iter().map(|c| c.id.as_str()).collect();
        assert_eq!(ids, ["f/c", "f/b", "f/a"]);
    }
}
