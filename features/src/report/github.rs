//! Markdown for a GitHub step summary.

use std::fmt::Write as _;

use crate::verdict::{RunReport, Status};

/// Renders the report.
pub fn render(report: &RunReport) -> String {
    let s = report.summary;
    let mut out = format!(
        "## Conformance: {}\n\n| passed | failed | blocked | warned | informed | baseline | not \
         claimed | defects |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n| {} | {} | {} | {} \
         | {} | {} | {} | {} |\n",
        report.verdict.sentence(),
        s.passed,
        s.failed,
        s.blocked,
        s.warned,
        s.informed,
        s.excused,
        s.not_claimed,
        s.defects
    );
    let clean =
        |text: &str| text.replace('|', "\\|").replace('<', "&lt;").replace(['\n', '\r'], " ");
    let bad: Vec<_> = report
        .cases
        .iter()
        .filter(|c| matches!(c.status, Status::Failed | Status::Blocked | Status::Defect))
        .collect();
    if !bad.is_empty() {
        out.push_str("\n| case | level | requirements | expected | seen |\n| --- | --- | --- | --- | --- |\n");
        for case in bad {
            let (expected, seen) = case
                .failure
                .as_ref()
                .map_or((String::new(), String::new()), |f| (clean(&f.expected), clean(&f.seen)));
            let _ = writeln!(
                out,
                "| `{}` | {} | {} | {expected} | {seen} |",
                case.id,
                case.level.as_str(),
                match case.status {
                    Status::Blocked => "(blocked: not judged)".to_owned(),
                    _ => case.requirements.join(", "),
                }
            );
        }
    }
    for defect in &report.defects {
        let _ = writeln!(out, "\ndefect: {}", clean(defect));
    }
    out
}
