//! What the architecture promises about this crate.

use std::path::Path;
use std::process::Command;

/// The kernel judges; it does not wait, connect, or store.
#[test]
fn no_runtime_socket_or_database_in_the_tree() {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "-p", "ap-protocol", "-e", "normal", "--prefix", "none", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let tree = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(tree.contains("ed25519-dalek"), "the tree was not listed: {tree}");
    for name in ["tokio", "hyper", "reqwest", "rusqlite", "mio", "rustls", "axum"] {
        let found = tree.lines().any(|line| line.split(' ').next() == Some(name));
        assert!(!found, "{name} is in the kernel's tree");
    }
}

fn sources() -> Vec<(String, String)> {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    let mut out = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.file_name().unwrap().to_string_lossy().into_owned();
                out.push((name, std::fs::read_to_string(path).unwrap()));
            }
        }
    }
    assert!(out.len() > 20, "the sources were not found");
    out
}

/// The part of a source file before its unit tests.
fn shipped(text: &str) -> &str {
    text.split("#[cfg(test)]").next().unwrap()
}

#[test]
fn no_clock_no_files_no_sockets_in_the_sources() {
    for (name, text) in sources() {
        for word in ["std::fs", "std::net", "SystemTime", "Instant::now", "std::env", "std::thread"]
        {
            assert!(!shipped(&text).contains(word), "{name} uses {word}");
        }
    }
}

/// Wire bytes become values through one parser.
#[test]
fn serde_json_never_parses() {
    for (name, text) in sources() {
        for word in ["serde_json::from_str", "serde_json::from_slice", "serde_json::from_reader"] {
            assert!(!shipped(&text).contains(word), "{name} calls {word}");
        }
    }
}

/// One place makes signatures hold, one accepts them.
#[test]
fn one_signature_predicate() {
    for (name, text) in sources() {
        if name != "keys.rs" {
            for word in ["verify_strict", "verify_batch", "VerifyingKey", "legacy_compatibility"] {
                assert!(!shipped(&text).contains(word), "{name} verifies by itself: {word}");
            }
        }
    }
}
