//! JUnit XML: one suite a feature, one test case a scenario.

use std::time::Duration;

use quick_junit::{NonSuccessKind, Report, SerializeError, TestCase, TestCaseStatus, TestSuite};

use crate::suite::Level;
use crate::verdict::{CaseReport, RunReport, Status};

/// Renders the report.
///
/// # Errors
/// When the XML cannot be written.
pub fn render(report: &RunReport) -> Result<String, SerializeError> {
    let mut junit = Report::new("conformance");
    junit.set_time(Duration::from_millis(report.duration_ms));
    let mut suites: Vec<(String, TestSuite)> = Vec::new();
    for case in &report.cases {
        if suites.iter().all(|(name, _)| *name != case.feature) {
            suites.push((case.feature.clone(), TestSuite::new(&case.feature)));
        }
        if let Some((_, suite)) = suites.iter_mut().find(|(name, _)| *name == case.feature) {
            suite.add_test_case(test_case(case, report.strict));
        }
    }
    for defect in &report.defects {
        let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
        status.set_message(defect);
        let mut suite = TestSuite::new("defects of the suite");
        suite.add_test_case(TestCase::new("defect", status));
        suites.push(("defects".to_owned(), suite));
    }
    junit.add_test_suites(suites.into_iter().map(|(_, suite)| suite));
    junit.to_string()
}

fn test_case(case: &CaseReport, strict: bool) -> TestCase {
    let fails = case.level == Level::Must || (strict && case.level == Level::Should);
    let mut status = match case.status {
        Status::Passed => TestCaseStatus::success(),
        Status::Defect => TestCaseStatus::non_success(NonSuccessKind::Error),
        Status::Failed | Status::Blocked if fails && case.excused.is_none() => {
            TestCaseStatus::non_success(NonSuccessKind::Failure)
        }
        // A warning must not turn a pipeline red: it is shown as skipped, with its reason.
        Status::Failed | Status::Blocked | Status::NotClaimed => TestCaseStatus::skipped(),
    };
    if let Some(f) = &case.failure {
        let blocked = if case.status == Status::Blocked { "blocked in preparation: " } else { "" };
        status
            .set_message(format!("{blocked}{}: expected {}, seen {}", f.step, f.expected, f.seen));
        status.set_description(format!(
            "{}:{}\n{}\nexpected: {}\nseen: {}",
            case.file, f.line, f.step, f.expected, f.seen
        ));
    } else if let Some(reason) = &case.not_claimed {
        status.set_message(reason);
    }
    let name = match case.round {
        1 => case.name.clone(),
        round => format!("{} (round {round})", case.name),
    };
    let mut test = TestCase::new(name, status);
    test.set_classname(&case.id);
    test.set_time(Duration::from_millis(case.duration_ms));
    test.add_property(("requirements", case.requirements.join(" ").as_str()));
    test.add_property(("level", case.level.as_str()));
    if !matches!(case.status, Status::Passed | Status::NotClaimed) {
        let wire: Vec<String> =
            case.wire.iter().map(|l| format!("{:>6} {} {}", l.at_ms, l.channel, l.text)).collect();
        test.set_system_out(wire.join("\n"));
    }
    test
}
