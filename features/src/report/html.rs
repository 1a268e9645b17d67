//! A single HTML file: requirement matrix, and a page section for each scenario with its
//! steps, wire log and the hosts at the end. No script is needed to read it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use mock_hosts::html::escape as esc;

use crate::ledger::Ledger;
use crate::verdict::{CaseReport, RunReport, Status};

fn word(case: &CaseReport) -> (&'static str, &'static str) {
    match (case.status, case.excused.is_some()) {
        (Status::Passed, _) => ("pass", "passed"),
        (Status::NotClaimed, _) => ("na", "not claimed"),
        (Status::Defect, _) => ("defect", "defect"),
        (Status::Failed | Status::Blocked, true) => ("warn", "in the baseline"),
        (Status::Blocked, false) => ("na", "blocked: not judged"),
        (Status::Failed, false) => match case.level {
            crate::suite::Level::Must => ("fail", "failed"),
            crate::suite::Level::Should => ("warn", "warning"),
            crate::suite::Level::May => ("info", "information"),
        },
    }
}

const STYLE: &str = "
:root{color-scheme:light dark;--pass:#1a7f37;--fail:#cf222e;--warn:#9a6700;--info:#0969da;--na:#6e7781;--defect:#8250df}
body{font:15px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem}h2{font-size:1.2rem;margin-top:2.5rem}
table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:.3rem .5rem;border-bottom:1px solid #8884;vertical-align:top}
.pass{color:var(--pass)}.fail{color:var(--fail)}.warn{color:var(--warn)}.info{color:var(--info)}.na{color:var(--na)}.defect{color:var(--defect)}
.pass,.fail,.warn,.info,.na,.defect{font-weight:600;white-space:nowrap}
details{border:1px solid #8884;border-radius:6px;margin:.5rem 0;padding:.4rem .8rem}summary{cursor:pointer}
pre{overflow:auto;background:#8881;padding:.6rem;border-radius:6px;font-size:12px;white-space:pre-wrap;word-break:break-all}
ol.steps{padding-left:1.5rem}li.no{color:var(--fail);font-weight:600}li.unreached{opacity:.5}
";

/// Renders the report.
pub fn render(report: &RunReport, ledger: &Ledger) -> String {
    let mut out = String::from("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">");
    out.push_str("<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">");
    out.push_str(
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src \
         'unsafe-inline'\">",
    );
    let _ = write!(out, "<title>Conformance report</title><style>{STYLE}</style></head><body>");
    let s = report.summary;
    let verdict_class =
        if report.verdict == crate::verdict::Exit::Conformant { "pass" } else { "fail" };
    let _ = write!(
        out,
        "<h1>Conformance report</h1><p><span class=\"{verdict_class}\">{}</span></p>\
         <table><tr><th>target</th><td>{}</td></tr><tr><th>server</th><td>{}</td></tr>\
         <tr><th>profile</th><td>{}</td></tr><tr><th>seed</th><td>{}</td></tr>\
         <tr><th>scenarios</th><td>{} passed, {} failed, {} blocked, {} warned, {} informed, {} in \
         the baseline, {} not claimed, {} defects</td></tr></table>",
        esc(report.verdict.sentence()),
        esc(&report.target.command),
        esc(&report.target.server_info.to_string()),
        esc(&report.target.profile),
        report.seed,
        s.passed,
        s.failed,
        s.blocked,
        s.warned,
        s.informed,
        s.excused,
        s.not_claimed,
        s.defects
    );
    for defect in &report.defects {
        let _ = write!(out, "<p class=\"defect\">{}</p>", esc(defect));
    }
    matrix(&mut out, report, ledger);
    out.push_str("<h2>Scenarios</h2>");
    for (i, case) in report.cases.iter().enumerate() {
        scenario(&mut out, i, case);
    }
    out.push_str("</body></html>\n");
    out
}

fn matrix(out: &mut String, report: &RunReport, ledger: &Ledger) {
    let mut judged: BTreeMap<&str, Vec<(usize, &CaseReport)>> = BTreeMap::new();
    for (i, case) in report.cases.iter().enumerate() {
        for r in &case.requirements {
            judged.entry(r).or_default().push((i, case));
        }
    }
    out.push_str(
        "<h2>Requirements</h2><table><tr><th>id</th><th>level</th><th>section</th>\
         <th>obligation</th><th>scenarios</th></tr>",
    );
    for r in ledger.iter() {
        let _ = write!(
            out,
            "<tr id=\"{0}\"><td>{0}</td><td>{1}</td><td>{2}</td><td>{3}</td><td>",
            esc(&r.id),
            esc(&r.level),
            esc(&r.section),
            esc(&r.text)
        );
        match (judged.get(r.id.as_str()), &r.excluded) {
            (Some(cases), _) => {
                for (i, case) in cases {
                    let (class, _) = word(case);
                    let _ = write!(
                        out,
                        "<a class=\"{class}\" href=\"#case-{i}\" title=\"{}\">●</a> ",
                        esc(&case.id)
                    );
                }
            }
            (None, Some(reason)) => {
                let _ = write!(
                    out,
                    "<span class=\"na\" style=\"white-space:normal\">{}</span>",
                    esc(reason)
                );
            }
            (None, None) => out.push_str("<span class=\"na\">not in this run</span>"),
        }
        out.push_str("</td></tr>");
    }
    out.push_str("</table>");
}

fn scenario(out: &mut String, i: usize, case: &CaseReport) {
    let (class, text) = word(case);
    let open = if matches!(case.status, Status::Failed | Status::Defect) { " open" } else { "" };
    let _ = write!(
        out,
        "<details id=\"case-{i}\"{open}><summary><span class=\"{class}\">{text}</span> \
         <code>{}</code> {} <small>{} ms</small></summary>",
        esc(&case.id),
        esc(&case.name),
        case.duration_ms
    );
    if let Some(d) = &case.description {
        let _ = write!(out, "<p>{}</p>", esc(d));
    }
    let links: Vec<String> =
        case.requirements.iter().map(|r| format!("<a href=\"#{0}\">{0}</a>", esc(r))).collect();
    let _ =
        write!(out, "<p>{} · {}</p><ol class=\"steps\">", case.level.as_str(), links.join(", "));
    for step in &case.steps {
        let class = match step.held {
            Some(true) => "yes",
            Some(false) => "no",
            None => "unreached",
        };
        let _ =
            write!(out, "<li class=\"{class}\">{} {}</li>", esc(&step.keyword), esc(&step.text));
    }
    out.push_str("</ol>");
    if let Some(f) = &case.failure {
        let _ = write!(
            out,
            "<table><tr><th>step</th><td>{}</td></tr><tr><th>expected</th><td>{}</td></tr><tr>\
             <th>seen</th><td>{}</td></tr></table>",
            esc(&f.step),
            esc(&f.expected),
            esc(&f.seen)
        );
    }
    for (title, reason) in [("not claimed", &case.not_claimed), ("baseline", &case.excused)] {
        if let Some(reason) = reason {
            let _ = write!(out, "<p>{title}: {}</p>", esc(reason));
        }
    }
    out.push_str("<details><summary>wire log</summary><pre>");
    for l in &case.wire {
        let _ = writeln!(out, "{:>7} {:<8} {}", l.at_ms, esc(&l.channel), esc(&l.text));
    }
    out.push_str("</pre></details>");
    for (host, dump) in &case.hosts {
        let text = serde_json::to_string_pretty(dump).unwrap_or_default();
        let _ = write!(
            out,
            "<details><summary>host {}</summary><pre>{}</pre></details>",
            esc(host),
            esc(&text)
        );
    }
    out.push_str("</details>");
}
