//! Every bundled case, answered by the kernel, down to codes and paths.

use ap_vectors::answer::answer;
use ap_vectors::case;
use ap_vectors::drive::{Outcome, judge};

#[test]
fn every_case_is_answered_as_expected() {
    let mut wrong = Vec::new();
    for case in case::bundled() {
        let got = answer(&case.op, &case.input);
        match got.map(|got| judge(&case.output, &got)) {
            Some(Outcome::Pass) => {}
            other => wrong.push(format!(
                "{} {}\n  want {}\n  got  {other:?}",
                case.id,
                case.op,
                serde_json::to_string(&case.output).unwrap()
            )),
        }
    }
    assert!(wrong.is_empty(), "{} cases:\n{}", wrong.len(), wrong.join("\n"));
}
