//! A GRP host that is somebody else's: another process, known by its URL alone.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::fixture::{Fixture, conformance};

/// `mock-hosts grp` as a program of its own, killed when dropped.
struct Foreign {
    child: Child,
    url: String,
}

impl Foreign {
    fn start(args: &[&str]) -> Self {
        let ours = PathBuf::from(env!("CARGO_BIN_EXE_conformance"));
        let program = ours.with_file_name(format!("mock-hosts{}", std::env::consts::EXE_SUFFIX));
        assert!(program.exists(), "build the whole workspace: {} is missing", program.display());
        let mut child = Command::new(program)
            .args(["grp", "--max-wait", "4"])
            .args(args)
            .stdout(Stdio::piped())
            .spawn()
            .expect("mock-hosts starts");
        let out = child.stdout.take().expect("its output is piped");
        let url = BufReader::new(out)
            .lines()
            .map_while(Result::ok)
            .find_map(|l| {
                l.split_whitespace().find(|w| w.starts_with("http://")).map(str::to_owned)
            })
            .expect("it prints its URL");
        Foreign { child, url }
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_host_known_by_its_url_is_judged_and_what_cannot_be_seen_there_is_skipped_with_a_reason() {
    let foreign = Foreign::start(&[]);
    let files = Fixture::new();
    let report = files.path("report.json").display().to_string();
    let run = conformance(&["run", "--grp-host", &foreign.url, "--jobs", "8", "--json", &report]);
    run.expect(0).says("conformant");
    let text = std::fs::read(files.path("report.json")).expect("a report");
    let report = ap_protocol::json::parse(&text).expect("strict JSON");
    let cases = report["cases"].as_array().expect("cases");
    let of = |status: &str| cases.iter().filter(|c| c["status"] == status).collect::<Vec<_>>();
    assert!(of("passed").len() > 120, "{} passed", of("passed").len());
    assert!(of("failed").is_empty() && of("defect").is_empty());
    // The clock and the audit chain are ours to look at, a trusted issuer ours to name.
    let skipped = of("not_claimed");
    assert!((1..=15).contains(&skipped.len()), "{} skipped", skipped.len());
    for case in skipped {
        let reason = case["not_claimed"].as_str().unwrap_or_default();
        let known = reason.contains("embedded") || reason.contains("issuer");
        assert!(known, "{}: {reason:?}", case["id"]);
    }
}

#[test]
fn a_broken_host_known_by_its_url_is_not_conformant() {
    let foreign = Foreign::start(&["--defect", "wrong-token-prefix"]);
    conformance(&["run", "--grp-host", &foreign.url, "--run", "GT-06"]).expect(1).says("t_");
}

#[test]
fn a_url_where_nobody_answers_is_nothing_observed() {
    conformance(&["run", "--grp-host", "http://127.0.0.1:9", "--run", "GT-06"]).expect(3);
}
