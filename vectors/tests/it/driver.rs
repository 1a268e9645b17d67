//! The driver must tell right answers from wrong ones, and silence from both.

use std::time::Duration;

use ap_vectors::case;
use ap_vectors::drive::{Outcome, Report, run};

fn drive(command: &str) -> Report {
    let cases = case::bundled();
    run(command, &cases, true, Duration::from_secs(20)).expect("sh is there")
}

#[test]
fn our_own_checker_passes_over_the_line_protocol() {
    let report = drive(&format!("{} check", env!("CARGO_BIN_EXE_ap-vectors")));
    let mut text = Vec::new();
    report.write_text(&mut text).unwrap();
    assert_eq!(report.exit_code(), 0, "{}", String::from_utf8_lossy(&text));
    assert!(report.results.iter().all(|r| r.outcome == Outcome::Pass));
}

#[test]
fn one_wrong_answer_fails_the_run() {
    let checker = env!("CARGO_BIN_EXE_ap-vectors");
    let case = &case::bundled()[0];
    let report = drive(&format!(
        "printf '%s\\n' '{{\"id\":\"{}\",\"out\":{{\"ok\":false}}}}'; {checker} check",
        case.id
    ));
    assert_eq!(report.exit_code(), 1);
    let wrong: Vec<_> = report.results.iter().filter(|r| r.outcome != Outcome::Pass).collect();
    assert_eq!(wrong.len(), 1);
    assert_eq!(wrong[0].id, case.id);
}

#[test]
fn silence_and_noise_are_not_passes() {
    for command in ["true", "cat", "sh -c 'echo hello; exit 1'", "/does/not/exist"] {
        let report = drive(command);
        assert_eq!(report.exit_code(), if command == "cat" { 1 } else { 3 }, "{command}");
    }
    // Everything unsupported is nothing answered.
    let sed = r#"sed -E 's/^\{"id":("[^"]*").*/{"id":\1,"unsupported":true}/'"#;
    assert_eq!(drive(sed).exit_code(), 3);
}

#[test]
fn missing_answers_fail_the_run() {
    let checker = env!("CARGO_BIN_EXE_ap-vectors");
    let report = drive(&format!("head -n 5 | {checker} check"));
    assert_eq!(report.exit_code(), 1);
    let missing = report.results.iter().filter(|r| r.outcome == Outcome::Unanswered).count();
    assert_eq!(missing, report.results.len() - 5);
}
