//! The report a person reads first.

use std::fmt::Write as _;

use crate::suite::Level;
use crate::verdict::{CaseReport, RunReport, Status, TargetReport};

/// Colours, or none.
#[derive(Debug, Clone, Copy)]
pub struct Style {
    /// Whether to use ANSI colours.
    pub colour: bool,
}

impl Style {
    fn paint(self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

fn mark(case: &CaseReport, style: Style) -> String {
    match (case.status, case.excused.is_some(), case.level) {
        (Status::Passed, ..) => style.paint("32", "ok  "),
        (Status::NotClaimed, ..) => style.paint("2", "n/a "),
        (Status::Defect, ..) => style.paint("35", "DEF "),
        (Status::Failed | Status::Blocked, true, _) => style.paint("33", "base"),
        (Status::Blocked, ..) => style.paint("35", "blkd"),
        (Status::Failed, _, Level::Must) => style.paint("31;1", "FAIL"),
        (Status::Failed, _, Level::Should) => style.paint("33", "warn"),
        (Status::Failed, _, Level::May) => style.paint("36", "info"),
    }
}

/// One line for a case that ended.
pub fn line(case: &CaseReport, style: Style) -> String {
    let round = if case.round > 1 { format!(" #{}", case.round) } else { String::new() };
    format!(
        "  {} {}{round} {}",
        mark(case, style),
        case.id,
        style.paint("2", &format!("({} ms)", case.duration_ms))
    )
}

/// Everything about a case that did not pass.
pub fn failure(case: &CaseReport, target: &TargetReport, run_seed: u64, style: Style) -> String {
    let mut out = String::new();
    let Some(f) = &case.failure else { return out };
    let _ = writeln!(
        out,
        "{} {} — {}\n     {}:{}  requirements: {}",
        mark(case, style),
        style.paint("1", &case.id),
        case.name,
        case.file,
        f.line,
        case.requirements.join(", ")
    );
    for step in &case.steps {
        let sign = match step.held {
            Some(true) => style.paint("32", "+"),
            Some(false) => style.paint("31;1", "x"),
            None => " ".to_owned(),
        };
        let _ = writeln!(out, "       {sign} {} {}", step.keyword, step.text);
    }
    let _ = writeln!(out, "     step:     {}", f.step);
    let _ = writeln!(out, "     expected: {}", f.expected);
    let _ = writeln!(out, "     seen:     {}", f.seen);
    if let Some(reason) = &case.excused {
        let _ = writeln!(out, "     baseline: {reason}");
    }
    let last = |mcp: bool, n: usize| {
        let lines = case
            .wire
            .iter()
            .rev()
            .filter(|l| l.channel != "step" && (l.channel.ends_with(['>', '<']) == mcp));
        let mut lines: Vec<_> = lines.take(n).collect();
        lines.reverse();
        lines
    };
    for (title, lines) in
        [("last MCP frames", last(true, 4)), ("last HTTP and stderr", last(false, 6))]
    {
        if !lines.is_empty() {
            let _ = writeln!(out, "     {title}:");
        }
        for l in lines {
            let text: String = l.text.chars().take(400).collect();
            let _ = writeln!(out, "       {:>6} ms {} {}", l.at_ms, l.channel, text);
        }
    }
    let target = match target.asked() {
        None => String::new(),
        // For a POSIX shell: what stands between single quotes is taken as it is.
        Some((option, value)) => format!(" {option} '{}'", value.replace('\'', "'\\''")),
    };
    let _ = writeln!(
        out,
        "     again:    conformance run{target} --run '{}' --seed {run_seed}",
        case.id
    );
    out
}

/// Cases whose preparation failed, together where the same thing stood in their way: one
/// missing ability can block a hundred scenarios, and none of them judged its own rule.
fn blocked(out: &mut String, report: &RunReport, style: Style) {
    let mut groups: std::collections::BTreeMap<(&str, &str), Vec<&CaseReport>> =
        std::collections::BTreeMap::new();
    for case in &report.cases {
        if case.status == Status::Blocked
            && let Some(f) = &case.failure
        {
            groups.entry((&f.step, &f.expected)).or_default().push(case);
        }
    }
    if groups.is_empty() {
        return;
    }
    let title = "Not judged: the target did not get through the preparation";
    let _ = writeln!(out, "\n{}", style.paint("1", title));
    for ((step, expected), cases) in groups {
        let seen = cases[0].failure.as_ref().map_or("", |f| f.seen.as_str());
        let seen: String = seen.chars().take(300).collect();
        let _ = writeln!(
            out,
            "\n{} {} at: {step}\n     expected: {expected}\n     seen:     {seen}",
            mark(cases[0], style),
            if cases.len() == 1 {
                "1 scenario".into()
            } else {
                format!("{} scenarios", cases.len())
            },
        );
        for case in &cases {
            let _ = writeln!(out, "       {}", case.id);
        }
        let _ = writeln!(
            out,
            "     again:    conformance run --run '{}' --seed {}",
            cases[0].id, report.seed
        );
    }
}

/// The end of the report: failures, counts, verdict.
pub fn summary(report: &RunReport, style: Style) -> String {
    let mut out = String::new();
    let bad = |c: &&CaseReport| matches!(c.status, Status::Failed | Status::Defect);
    if report.cases.iter().any(|c| bad(&c)) {
        let _ = writeln!(out, "\n{}", style.paint("1", "What did not hold"));
        for case in report.cases.iter().filter(bad) {
            let _ =
                writeln!(out, "\n{}", failure(case, &report.target, report.seed, style).trim_end());
        }
    }
    blocked(&mut out, report, style);
    for defect in &report.defects {
        let _ = writeln!(out, "\n{} {defect}", style.paint("35", "defect:"));
    }
    for entry in &report.stale_baseline {
        let _ = writeln!(
            out,
            "\n{} baseline entry {entry:?} excuses nothing",
            style.paint("33", "stale:")
        );
    }
    let s = report.summary;
    let _ = writeln!(out, "\n{}", style.paint("1", "Summary"));
    let _ = writeln!(out, "  target      {}", report.target.command);
    let info = &report.target.server_info;
    if let (Some(name), Some(version)) = (info["name"].as_str(), info["version"].as_str()) {
        let _ = writeln!(out, "              {name} {version}, profile {}", report.target.profile);
    }
    let _ = writeln!(out, "  seed        {}", report.seed);
    let _ = writeln!(
        out,
        "  scenarios   {} passed, {} failed (MUST), {} warned (SHOULD), {} informed (MAY), {} \
         blocked, {} in the baseline, {} not claimed, {} defects",
        s.passed, s.failed, s.warned, s.informed, s.blocked, s.excused, s.not_claimed, s.defects
    );
    let judged: std::collections::BTreeSet<&String> = report
        .cases
        .iter()
        .filter(|c| matches!(c.status, Status::Passed | Status::Failed))
        .flat_map(|c| &c.requirements)
        .collect();
    let _ = writeln!(
        out,
        "  obligations {} judged in {:.1} s",
        judged.len(),
        report.duration_ms as f64 / 1000.0
    );
    let colour = if report.verdict == crate::verdict::Exit::Conformant { "32;1" } else { "31;1" };
    let _ = writeln!(
        out,
        "\n{}",
        style.paint(
            colour,
            &format!("{} (exit {})", report.verdict.sentence(), report.verdict.code())
        )
    );
    out
}
