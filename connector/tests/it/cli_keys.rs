//! `ap-connector key`, `init`, `client-config`: what a person does first.

use ap_protocol::{AgentId, SecretKey, encoding};

use crate::cli_support::Place;

const PASS: &str = "a passphrase of the tests";

fn created(place: &Place) -> String {
    place.private("pass", PASS);
    let args = ["key", "create", "--key-file", "key", "--passphrase-file", "pass"];
    let run = place.run(&args).ended(0);
    let id = run.stdout.trim().to_owned();
    AgentId::parse(&id).unwrap();
    id
}

#[test]
fn a_key_is_created_shown_opened_and_exported() {
    let place = Place::new();
    let id = created(&place);
    #[cfg(unix)]
    assert_eq!(crate::cli_support::mode(&place.path("key")), 0o600);
    let show = place.run(&["key", "show", "--key-file", "key"]).ended(0);
    assert_eq!(show.stdout.trim(), id);
    let open = ["key", "show", "--key-file", "key", "--open", "--passphrase-env", "P"];
    place.run_with(&open, &[("P", PASS)], "").ended(0);
    let wrong = place.run_with(&open, &[("P", "not the passphrase")], "").ended(3);
    assert!(wrong.stderr.contains("[key_wrong_passphrase]"), "{}", wrong.stderr);
    let absent = place.run(&open).ended(3);
    assert!(absent.stderr.contains("environment variable P is not set"), "{}", absent.stderr);
    let public = place.run(&["key", "export-public", "--key-file", "key"]).ended(0).json();
    assert_eq!(public["agent_id"], id.as_str());
    assert_eq!(public["jwk"]["x"], &id["did:agent:".len()..]);
    assert!(public["jwk"].get("d").is_none());
}

#[test]
fn nothing_is_overwritten_and_nothing_asks_without_a_terminal() {
    let place = Place::new();
    let id = created(&place);
    let again = ["key", "create", "--key-file", "key", "--passphrase-file", "pass"];
    let run = place.run(&again).ended(3);
    assert!(run.stderr.contains("[key_exists]") && run.stdout.is_empty(), "{}", run.stderr);
    assert_eq!(place.run(&["key", "show", "--key-file", "key"]).ended(0).stdout.trim(), id);
    let no_source = place.run(&["key", "create", "--key-file", "other"]).ended(3);
    assert!(no_source.stderr.contains("--passphrase-file"), "{}", no_source.stderr);
    assert_eq!(place.names(), ["key", "pass"]);
}

#[test]
fn a_seed_is_imported_from_stdin_or_a_private_file() {
    let place = Place::new();
    place.private("pass", PASS);
    let seed = encoding::encode([9u8; 32]);
    let id = SecretKey::from_seed(&[9u8; 32]).agent_id();
    let import = ["key", "import", "--key-file", "a", "--passphrase-file", "pass"];
    let run = place.run_with(&import, &[], &format!("{seed}\n")).ended(0);
    assert_eq!(run.stdout.trim(), id.as_str());
    place.private("seed", &seed);
    let from_file =
        ["key", "import", "--key-file", "b", "--passphrase-file", "pass", "--seed-file", "seed"];
    assert_eq!(place.run(&from_file).ended(0).stdout.trim(), id.as_str());
    for bad in ["", "short", &format!("{seed}="), &seed[1..]] {
        let bad_import = ["key", "import", "--key-file", "c", "--passphrase-file", "pass"];
        let run = place.run_with(&bad_import, &[], bad).ended(2);
        assert!(run.stderr.contains("seed"), "{}", run.stderr);
        assert!(bad.len() < 8 || !run.stderr.contains(bad), "a secret was repeated");
    }
    assert!(!place.path("c").exists());
}

#[cfg(unix)]
#[test]
fn secret_files_that_others_can_read_are_refused() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    created(&place);
    for name in ["key", "pass"] {
        std::fs::set_permissions(place.path(name), std::fs::Permissions::from_mode(0o644)).unwrap();
        let open = ["key", "show", "--key-file", "key", "--open", "--passphrase-file", "pass"];
        let run = place.run(&open).ended(3);
        assert!(run.stderr.contains("chmod 600"), "{}", run.stderr);
        std::fs::set_permissions(place.path(name), std::fs::Permissions::from_mode(0o600)).unwrap();
    }
}

#[cfg(target_os = "linux")]
#[test]
fn without_a_keychain_nothing_is_made_elsewhere() {
    let place = Place::new();
    let create = place.run(&["key", "create", "--keychain"]).ended(3);
    assert!(create.stderr.contains("[keychain_unavailable]"), "{}", create.stderr);
    assert!(create.stderr.contains("--key-file"), "{}", create.stderr);
    let id = SecretKey::from_seed(&[3; 32]).agent_id();
    let show = ["key", "show", "--keychain", "--agent-id", id.as_str()];
    let shown = place.run(&show).ended(3);
    assert!(shown.stderr.contains("[keychain_unavailable]"), "{}", shown.stderr);
    assert!(create.stdout.is_empty() && shown.stdout.is_empty());
    assert!(place.names().is_empty(), "{:?}", place.names());
}

#[test]
fn the_passphrase_is_changed() {
    let place = Place::new();
    created(&place);
    let change = [
        "key",
        "change-passphrase",
        "--key-file",
        "key",
        "--passphrase-file",
        "pass",
        "--new-passphrase-env",
        "NEW",
    ];
    place.run_with(&change, &[("NEW", "short")], "").ended(3);
    place.run_with(&change, &[("NEW", "a much better phrase")], "").ended(0);
    let open = ["key", "show", "--key-file", "key", "--open", "--passphrase-env", "P"];
    place.run_with(&open, &[("P", PASS)], "").ended(3);
    place.run_with(&open, &[("P", "a much better phrase")], "").ended(0);
}

#[test]
fn init_writes_a_configuration_once_and_the_client_is_told() {
    let place = Place::new();
    let id = created(&place);
    let init = [
        "init",
        "--config",
        "c.toml",
        "--key-file",
        "key",
        "--passphrase-file",
        "pass",
        "--host",
        "https://api.example",
        "--host",
        "http://127.0.0.1:9",
        "--profile-service",
        "https://profiles.example",
    ];
    place.run(&init).ended(0);
    let text = std::fs::read_to_string(place.path("c.toml")).unwrap();
    let table: toml::Table = text.parse().unwrap();
    assert_eq!(table["identity"]["agent_id"].as_str(), Some(id.as_str()));
    assert_eq!(table["hosts"][1]["host"].as_str(), Some("http://127.0.0.1:9"));
    assert!(!text.contains(PASS));
    let again = place.run(&init).ended(6);
    assert!(again.stderr.contains("c.toml"), "{}", again.stderr);
    let client = place.run(&["client-config", "--config", "c.toml"]).ended(0).json();
    let server = &client["mcpServers"]["agent-protocols"];
    assert_eq!(server["args"][0], "serve");
    assert!(server["args"][2].as_str().unwrap().starts_with('/'), "{server}");
    let plain = ["init", "--config", "d.toml", "--key-file", "key", "--host", "http://api.example"];
    let refused = place.run(&plain).ended(2);
    assert!(refused.stderr.contains("https is required"), "{}", refused.stderr);
    assert!(!place.path("d.toml").exists());
}

#[test]
fn usage_teaches() {
    let place = Place::new();
    let help = place.run(&["--help"]).ended(0);
    for word in ["key create", "client-config", "Exit codes"] {
        assert!(help.stdout.contains(word), "{word} is missing in {}", help.stdout);
    }
    let nothing = place.run(&[]).ended(2);
    assert!(nothing.stdout.is_empty());
    let unknown = place.run(&["key", "create", "--seed", "x"]).ended(2);
    assert!(unknown.stderr.contains("--seed"));
    let both = place.run(&["key", "create", "--key-file", "k", "--keychain"]).ended(2);
    assert!(both.stderr.contains("cannot be used with"), "{}", both.stderr);
    let neither = place.run(&["key", "create"]).ended(2);
    assert!(neither.stderr.contains("--key-file"), "{}", neither.stderr);
}

/// The first steps of the help, in a home that has no folder for them yet.
#[cfg(unix)]
#[test]
fn the_first_steps_make_their_folder_and_refuse_what_serve_would_refuse() {
    let place = Place::new();
    let pass = place.private("pass", "correct horse battery\n");
    let key = ["key", "create", "--key-file", "new/ap/key", "--passphrase-file", &pass];
    place.run(&key).ended(0);
    assert_eq!(crate::cli_support::mode(&place.path("new/ap")), 0o700);
    let init = |host| {
        let config = ["init", "--config", "other/c.toml", "--key-file", "new/ap/key"];
        place.run(&[&config[..], &["--passphrase-file", &pass, "--host", host]].concat())
    };
    let refused = init("https://api.example/v1").ended(2);
    assert!(refused.stderr.contains("without path"), "{}", refused.stderr);
    init("https://api.example").ended(0);
    place.run(&["doctor", "--config", "other/c.toml", "--offline"]).ended(0);
    let missing = place.run(&["doctor", "--config", "nothing.toml"]).ended(1);
    assert!(missing.stdout.contains("ap-connector init"), "{}", missing.stdout);
}

/// On a real terminal the passphrase is asked for, twice for a new key, and never shown.
#[cfg(target_os = "linux")]
#[test]
fn a_terminal_is_asked_and_shows_nothing_of_what_is_typed() {
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};
    let place = Place::new();
    let program = env!("CARGO_BIN_EXE_ap-connector");
    let command = format!("tty > tty; exec {program} key create --key-file k");
    let spawned = Command::new("script")
        .args(["-qfec", &command, "/dev/null"])
        .current_dir(place.path("."))
        .env("TERM", "xterm")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut child) = spawned else {
        eprintln!("skipped: no `script` (util-linux) here to make a terminal with");
        return;
    };
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut shown = String::new();
    for question in ["Passphrase: ", "Again: "] {
        while !shown.ends_with(question) {
            let mut byte = [0];
            assert_eq!(stdout.read(&mut byte).unwrap(), 1, "no question {question:?}: {shown}");
            shown.push(char::from(byte[0]));
        }
        // The question is out a moment before the echo is off: no person is that fast.
        let tty = std::fs::read_to_string(place.path("tty")).unwrap();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
        loop {
            let modes = Command::new("stty").args(["-a", "-F", tty.trim()]).output().unwrap();
            if String::from_utf8_lossy(&modes.stdout).contains("-echo ") {
                break;
            }
            assert!(std::time::Instant::now() < deadline, "the echo stays on: {shown}");
        }
        stdin.write_all(b"correct horse battery\n").unwrap();
    }
    let mut rest = Vec::new();
    stdout.read_to_end(&mut rest).unwrap();
    shown.push_str(&String::from_utf8_lossy(&rest));
    assert!(child.wait().unwrap().success(), "{shown}");
    assert!(shown.contains("did:agent:"), "{shown}");
    assert!(!shown.contains("horse"), "the passphrase was shown: {shown}");
    let file = place.private("pass", "correct horse battery\n");
    let opened = ["key", "show", "--key-file", "k", "--passphrase-file", &file, "--open"];
    place.run(&opened).ended(0);
}
