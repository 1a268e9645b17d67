//! `conformance … | head`: a reader that goes away early is no reason to panic.

use std::process::{Command, Stdio};

#[test]
fn a_reader_that_went_away_changes_no_exit_code() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let ended = Command::new(env!("CARGO_BIN_EXE_conformance"))
        .args(["run", "--list"])
        .stdout(writer)
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(0), "{said}");
    assert!(!said.contains("panicked"), "{said}");
}
