//! Reports of a run: for people (terminal, HTML, GitHub summary) and machines (JUnit, JSON).
//!
//! They show what [`crate::verdict`] concluded; they conclude nothing.

pub mod github;
pub mod html;
pub mod junit;
pub mod terminal;

use std::path::{Path, PathBuf};

use crate::verdict::RunReport;

/// The published JSON Schema of the JSON report.
pub const SCHEMA: &str = include_str!("../../report.schema.json");

/// Where to write which report.
#[derive(Debug, Clone, Default)]
pub struct Outputs {
    /// JUnit XML.
    pub junit: Option<PathBuf>,
    /// JSON.
    pub json: Option<PathBuf>,
    /// HTML.
    pub html: Option<PathBuf>,
    /// GitHub step summary.
    pub github: Option<PathBuf>,
}

/// A report that could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The file system refused.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// From the system.
        source: std::io::Error,
    },
    /// Not the report's shape.
    #[error("{path} is no conformance report: {message}")]
    Shape {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
    /// Rendering failed.
    #[error("cannot render the report: {0}")]
    Render(String),
}

/// Writes every report that was asked for.
///
/// # Errors
/// [`ReportError`].
pub fn write(report: &RunReport, outputs: &Outputs) -> Result<(), ReportError> {
    let render = |e: &dyn std::fmt::Display| ReportError::Render(e.to_string());
    if let Some(path) = &outputs.junit {
        save(path, junit::render(report).map_err(|e| render(&e))?.as_bytes())?;
    }
    if let Some(path) = &outputs.json {
        save(path, &serde_json::to_vec_pretty(report).map_err(|e| render(&e))?)?;
    }
    if let Some(path) = &outputs.html {
        let ledger = crate::ledger::Ledger::embedded().map_err(|e| render(&e))?;
        save(path, html::render(report, &ledger).as_bytes())?;
    }
    if let Some(path) = &outputs.github {
        use std::io::Write as _;
        let at = |source| ReportError::Io { path: path.clone(), source };
        let mut file =
            std::fs::OpenOptions::new().create(true).append(true).open(path).map_err(at)?;
        file.write_all(github::render(report).as_bytes()).map_err(at)?;
    }
    Ok(())
}

fn save(path: &Path, bytes: &[u8]) -> Result<(), ReportError> {
    let at = |source| ReportError::Io { path: path.to_owned(), source };
    if let Some(dir) = path.parent().filter(|d| !d.as_os_str().is_empty()) {
        std::fs::create_dir_all(dir).map_err(at)?;
    }
    std::fs::write(path, bytes).map_err(at)
}

/// Reads a JSON report back, checked against the published schema.
///
/// # Errors
/// [`ReportError`].
pub fn read(path: &Path) -> Result<RunReport, ReportError> {
    let bytes =
        std::fs::read(path).map_err(|source| ReportError::Io { path: path.to_owned(), source })?;
    let shape = |message: String| ReportError::Shape { path: path.to_owned(), message };
    let value: serde_json::Value =
        serde_json::from_slice(&bytes).map_err(|e| shape(e.to_string()))?;
    let schema: serde_json::Value =
        serde_json::from_str(SCHEMA).map_err(|e| ReportError::Render(e.to_string()))?;
    let validator =
        jsonschema::validator_for(&schema).map_err(|e| ReportError::Render(e.to_string()))?;
    if let Err(e) = validator.validate(&value) {
        return Err(shape(format!("{}: {e}", e.instance_path())));
    }
    serde_json::from_value(value).map_err(|e| shape(e.to_string()))
}

/// One report from the shards of a run.
///
/// # Errors
/// When there is none, or a case is in two of them.
pub fn merge(mut reports: Vec<RunReport>) -> Result<RunReport, String> {
    let mut all = reports.pop().ok_or("no report to merge")?;
    for other in reports {
        if other.seed != all.seed || other.target.command != all.target.command {
            return Err("the reports are of different runs (seed or target differ)".to_owned());
        }
        all.started_at = all.started_at.min(other.started_at);
        all.duration_ms = all.duration_ms.max(other.duration_ms);
        all.cases.extend(other.cases);
        all.stale_baseline.extend(other.stale_baseline);
        all.defects.extend(other.defects);
    }
    all.cases.sort_by(|a, b| (&a.id, a.round).cmp(&(&b.id, b.round)));
    if let Some(pair) =
        all.cases.windows(2).find(|p| p[0].id == p[1].id && p[0].round == p[1].round)
    {
        return Err(format!("{} is in two reports", pair[0].id));
    }
    // An entry is stale for the whole run only when it is stale in every shard that saw it;
    // a failure elsewhere keeps it alive.
    let excused: Vec<String> = all.cases.iter().filter_map(|c| c.excused.clone()).collect();
    if !excused.is_empty() {
        let failing: Vec<_> = all.cases.iter().filter(|c| c.excused.is_some()).cloned().collect();
        all.stale_baseline.retain(|text| {
            crate::select::CaseGlob::new(text)
                .is_ok_and(|g| !failing.iter().any(|c| g.matches_ids(&c.id, &c.requirements)))
        });
    }
    all.shard = None;
    all.conclude();
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::Level;
    use crate::verdict::{Exit, Failure, Status, tests};

    #[test]
    fn a_report_fits_its_schema_and_reads_back() {
        let mut failed = tests::case(Level::Must, Status::Failed);
        failed.failure = Some(Failure {
            step: "Then x".into(),
            line: 3,
            expected: "a".into(),
            seen: "b & <c>".into(),
        });
        let report = tests::report(vec![failed]);
        let dir = tempfile::tempdir().expect("a temporary directory");
        let outputs = Outputs {
            junit: Some(dir.path().join("sub/j.xml")),
            json: Some(dir.path().join("r.json")),
            html: Some(dir.path().join("r.html")),
            github: Some(dir.path().join("s.md")),
        };
        write(&report, &outputs).expect("writes");
        let back = read(&dir.path().join("r.json")).expect("reads");
        assert_eq!(back.verdict, Exit::NotConformant);
        let junit = std::fs::read_to_string(dir.path().join("sub/j.xml")).expect("junit");
        assert!(junit.contains("failures=\"1\"") && junit.contains("b &amp; &lt;c&gt;"));
        let html = std::fs::read_to_string(dir.path().join("r.html")).expect("html");
        assert!(html.contains("b &amp; &lt;c&gt;") && !html.contains("<c>"));
    }

    #[test]
    fn a_foreign_document_is_no_report() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("x.json");
        std::fs::write(&path, "{\"version\":1}").expect("writes");
        assert!(matches!(read(&path), Err(ReportError::Shape { .. })));
    }

    #[test]
    fn shards_merge_and_doubles_are_refused() {
        let mut other = tests::case(Level::Must, Status::Failed);
        other.id = "f/d".into();
        let one = tests::report(vec![tests::case(Level::Must, Status::Passed)]);
        let two = tests::report(vec![other]);
        let all = merge(vec![one.clone(), two]).expect("merges");
        assert_eq!((all.summary.passed, all.summary.failed), (1, 1));
        assert_eq!(all.verdict, Exit::NotConformant);
        assert!(merge(vec![one.clone(), one]).is_err());
    }
}
