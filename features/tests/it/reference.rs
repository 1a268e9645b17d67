//! The suite against a real connector: the reference one, and the same behind a wrapper.

use crate::fixture::{conformance, conformance_with};

const EXE: &str = env!("CARGO_BIN_EXE_conformance");

#[test]
fn the_reference_connector_passes_its_stories() {
    conformance(&["run", "--run", "join/*", "--min", "8", "--seed", "3"])
        .expect(0)
        .says("0 failed (MUST)")
        .says("conformant");
}

#[test]
fn a_wrapper_script_is_a_connector_like_any_other() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/wrapped-connector.sh");
    let connector = format!("{EXE} connector");
    conformance_with(
        &[
            "run",
            "--connector",
            &format!("sh '{script}' {{config}}"),
            "--run",
            "drafts/*",
            "--min",
            "10",
        ],
        &[("AP_CONNECTOR", &connector)],
    )
    .expect(0)
    .says("sh ");
}

#[test]
fn the_same_seed_gives_the_same_names_and_keys() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let agent = |name: &str| {
        let file = dir.path().join(name).display().to_string();
        conformance(&["run", "--run", "allowlist/the-identity*", "--seed", "11", "--json", &file])
            .expect(0);
        let text = std::fs::read_to_string(file).expect("the report");
        // The log shortens Agent IDs; the first characters tell two keys apart.
        let at = text.find("did:agent:").expect("an Agent ID in the wire log");
        text[at..at + 18].to_owned()
    };
    assert_eq!(agent("one.json"), agent("two.json"));
}

#[test]
fn a_broken_connector_is_found_out() {
    // The target answers initialize and nothing else: every story fails, none passes.
    let fixture = crate::fixture::Fixture::new();
    let profile = fixture.write("all.toml", "capabilities = []\ntools = [\"room_join\"]\n");
    conformance(&[
        "run",
        "--connector",
        &fixture.target(),
        "--profile",
        &profile,
        "--run",
        "join/an-agent-joins*",
    ])
    .expect(1)
    .says("0 passed, 1 failed (MUST)");
}

#[test]
fn saboteurs_are_caught() {
    // One between client and connector, one before the hosts, one on the state directory.
    for name in ["overwrites", "tells-a-second-origin", "forgets-everything"] {
        conformance(&["prove", "--saboteur", name]).expect(0).says("0 survive");
    }
    conformance(&["prove", "--saboteur", "nobody"]).expect(3);
}

#[test]
fn a_saboteur_that_nobody_notices_is_a_failure() {
    conformance(&["prove", "--saboteur", "leaks-a-token", "--run", "catalog/*room-id*"])
        .expect(1)
        .says("SURVIVES  leaks-a-token");
}
