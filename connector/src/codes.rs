//! Every error code that is not the protocol's, in one table: `ERRORS.md` is generated from
//! it, and a test holds the two together.

use crate::cli::CLI_CODES;
use crate::error::OWN_CODES;
use crate::transport::guard::REFUSALS;

/// Codes with which the connector does not start: code, when, what to do.
pub const START_CODES: &[(&str, &str, &str)] = &[
    (
        "config_unreadable",
        "the configuration or a file it names cannot be read",
        "check the path and its permissions",
    ),
    (
        "config_invalid",
        "the configuration has an unknown or wrong member",
        "the message names the line; connector.example.toml explains every member",
    ),
    (
        "config_origin_refused",
        "a host or profile service is no https origin (http on loopback)",
        "write the origin only, such as https://api.example",
    ),
    (
        "config_identity_refused",
        "the identity section is contradictory, or the key is another one",
        "see connector.example.toml",
    ),
    (
        "key_missing",
        "the key store holds no key for agent_id",
        "check agent_id and the path; make an identity with `ap-connector key create`",
    ),
    ("key_exists", "a key would be overwritten", "choose another place"),
    (
        "key_other_identity",
        "the key there belongs to another Agent ID",
        "correct agent_id or the path",
    ),
    ("key_file_permissions", "others may access a secret file", "chmod 600 FILE"),
    (
        "key_wrong_passphrase",
        "the key file does not open",
        "give the right passphrase, or restore the file from a backup",
    ),
    ("key_file_damaged", "the file is no key file of a known version", "restore it from a backup"),
    (
        "key_passphrase_missing",
        "no passphrase can be had",
        "name passphrase_env or passphrase_file",
    ),
    (
        "keychain_unavailable",
        "the system's keychain does not answer",
        "start a session with one, or choose an encrypted key file; nothing was stored elsewhere",
    ),
    (
        "key_file_io",
        "a key or passphrase file cannot be read or written",
        "check the path, the disk and the permissions",
    ),
    (
        "random_unavailable",
        "the operating system gives no random numbers",
        "nothing was created; try again later",
    ),
    (
        "http_not_loopback",
        "http.listen is not 127.0.0.1 or [::1]",
        "use a loopback address, and an SSH tunnel for clients elsewhere",
    ),
    ("http_bind_failed", "http.listen cannot be bound", "choose another port, or 0"),
    ("http_url_file_failed", "http.url_file cannot be written", "check the path"),
    ("http_failed", "the HTTP endpoint failed while it was running", "start the connector again"),
    ("nothing_to_serve", "--no-stdio without an http section", "add one, or leave --no-stdio out"),
    ("runtime_failed", "threads cannot be started", "free memory or raise the limit"),
];

/// The page `ERRORS.md`.
pub fn table() -> String {
    let mut page = String::from(
        "# Error codes\n\n\
         Codes are stable; messages are not. A tool error is `{\"error\": {\"code\", \"message\", \
         \"data\"}}` in the text item of a result with `isError`. Codes of the Agent Protocols \
         themselves (`room_head_mismatch`, `permission_denied`, …) pass through unchanged, with \
         their `data`, and are not repeated here.\n\n\
         This page is generated: `ap-connector errors`.\n",
    );
    let mut section =
        |title: &str, intro: &str, rows: &mut dyn Iterator<Item = (&str, String, &str)>| {
            page.push_str(&format!(
                "\n## {title}\n\n{intro}\n\n| code | when | what to do |\n| --- | --- | --- |\n"
            ));
            for (code, when, then) in rows {
                let (when, then) = (when.replace('|', "\\|"), then.replace('|', "\\|"));
                page.push_str(&format!("| `{code}` | {when} | {then} |\n"));
            }
        };
    section(
        "In tool results",
        "What an agent sees.",
        &mut OWN_CODES.iter().map(|(c, w, t)| (*c, (*w).to_owned(), *t)),
    );
    section(
        "At the HTTP endpoint",
        "Refused before any MCP work, with the HTTP status shown.",
        &mut REFUSALS.iter().map(|(c, s, w, t)| (*c, format!("{s}: {w}"), *t)),
    );
    section(
        "At start and on the command line",
        "On stderr, in square brackets at the end of the message. Exit codes: see `ap-connector --help`.",
        &mut START_CODES.iter().chain(CLI_CODES).map(|(c, w, t)| (*c, (*w).to_owned(), *t)),
    );
    page
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::PathBuf;

    use ap_protocol::AgentId;

    use super::*;
    use crate::config::ConfigError;
    use crate::error::ToolError;
    use crate::keystore::KeyStoreError;
    use crate::serve::ServeError;
    use crate::transport::http::HttpServeError;

    #[test]
    fn the_page_is_the_table() {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("ERRORS.md");
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&path, table()).unwrap();
        }
        let page = std::fs::read_to_string(&path).unwrap();
        assert!(page == table(), "ERRORS.md is stale: BLESS=1 cargo test --workspace --lib codes");
    }

    fn io() -> std::io::Error {
        std::io::Error::other("x")
    }

    /// One value of every variant. A new variant does not compile without a word here.
    fn start_codes_of_the_enums() -> Vec<&'static str> {
        let (path, place, id) = (PathBuf::new, String::new, String::new);
        let keys = [
            KeyStoreError::Missing { place: place(), id: id() },
            KeyStoreError::Exists { place: place() },
            KeyStoreError::OtherIdentity { place: place(), wanted: id(), found: id() },
            KeyStoreError::Permissions { path: path(), mode: 0 },
            KeyStoreError::WrongPassphrase { path: path() },
            KeyStoreError::Damaged { path: path(), why: String::new() },
            KeyStoreError::Passphrase { why: String::new() },
            KeyStoreError::NoKeychain { why: String::new() },
            KeyStoreError::Io { what: "", path: path(), source: io() },
            KeyStoreError::Random(String::new()),
        ];
        let configs = [
            ConfigError::Read { path: path(), source: io() },
            ConfigError::Document(String::new()),
            ConfigError::Origin { member: String::new(), value: String::new(), why: String::new() },
            ConfigError::Identity(String::new()),
            ConfigError::NotLoopback(String::new()),
        ];
        let address = ([127, 0, 0, 1], 0).into();
        let https = [
            HttpServeError::NotLoopback(address),
            HttpServeError::Bind { address, source: io() },
            HttpServeError::UrlFile { path: path(), source: io() },
            HttpServeError::Serve(io()),
        ];
        let mut codes: Vec<&'static str> = Vec::new();
        for e in &keys {
            match e {
                KeyStoreError::Missing { .. }
                | KeyStoreError::Exists { .. }
                | KeyStoreError::OtherIdentity { .. }
                | KeyStoreError::Permissions { .. }
                | KeyStoreError::WrongPassphrase { .. }
                | KeyStoreError::Damaged { .. }
                | KeyStoreError::Passphrase { .. }
                | KeyStoreError::NoKeychain { .. }
                | KeyStoreError::Io { .. }
                | KeyStoreError::Random(_) => codes.push(e.code()),
            }
        }
        for e in &configs {
            match e {
                ConfigError::Read { .. }
                | ConfigError::Document(_)
                | ConfigError::Origin { .. }
                | ConfigError::Identity(_)
                | ConfigError::NotLoopback(_) => codes.push(e.code()),
            }
        }
        for e in &https {
            match e {
                HttpServeError::NotLoopback(_)
                | HttpServeError::Bind { .. }
                | HttpServeError::UrlFile { .. }
                | HttpServeError::Serve(_) => codes.push(e.code()),
            }
        }
        for e in [ServeError::Nothing, ServeError::Runtime(String::new())] {
            match e {
                ServeError::Nothing => codes.push("nothing_to_serve"),
                ServeError::Runtime(_) => codes.push("runtime_failed"),
                ServeError::State(_) | ServeError::Http(_) => unreachable!("not in the list"),
            }
        }
        codes
    }

    #[test]
    fn every_code_of_the_enums_is_in_the_table_and_no_other() {
        let listed: BTreeSet<_> = START_CODES.iter().map(|(c, ..)| *c).collect();
        let found: BTreeSet<_> = start_codes_of_the_enums().into_iter().collect();
        assert_eq!(listed, found);
        assert_eq!(listed.len(), START_CODES.len(), "a code stands twice");
        let state = ServeError::State(ToolError::new("store_error", "x"));
        assert!(OWN_CODES.iter().any(|(c, ..)| *c == state.code()));
    }

    #[test]
    fn no_code_means_two_things() {
        let mut seen = BTreeSet::new();
        let all = OWN_CODES
            .iter()
            .map(|(c, ..)| *c)
            .chain(REFUSALS.iter().map(|(c, ..)| *c))
            .chain(START_CODES.iter().chain(CLI_CODES).map(|(c, ..)| *c));
        for code in all {
            assert!(seen.insert(code), "{code} stands in two tables");
            assert!(ap_protocol::ErrorCode::from_text(code).is_none(), "{code} is a protocol code");
        }
    }

    /// Codes that the source makes with `ToolError::new("…")` or names as a condition must be
    /// documented.
    #[test]
    fn every_code_in_the_source_is_documented() {
        let known: BTreeSet<&str> = OWN_CODES.iter().map(|(c, ..)| *c).collect();
        let mut looked = 0;
        let mut folders = vec![PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src")];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                let text = std::fs::read_to_string(&path).unwrap();
                let production = text.split("#[cfg(test)]").next().unwrap();
                for part in production.split("ToolError::new(").skip(1) {
                    let part = part.trim_start();
                    let Some(code) = part.strip_prefix('"').and_then(|p| p.split('"').next())
                    else {
                        continue;
                    };
                    looked += 1;
                    let protocol = ap_protocol::ErrorCode::from_text(code).is_some();
                    assert!(
                        protocol || known.contains(code),
                        "{}: {code} is not in OWN_CODES",
                        path.display()
                    );
                }
            }
        }
        assert!(looked > 20, "the search found only {looked}");
        // Used above only to keep the import honest.
        assert!(AgentId::parse("x").is_err());
    }
}
