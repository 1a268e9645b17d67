//! `init` writes a configuration, `client-config` tells an MCP client how to start us.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::args::{ClientConfigArgs, InitArgs};
use super::{CliError, exit, key, out, tell};
use crate::config::bare_origin;
use crate::keystore::{KeyStore, KeychainStore, PassphraseSource, make_folder_of};

/// Where the passphrase is expected when the operator names no source.
const DEFAULT_PASSPHRASE_ENV: &str = "AP_CONNECTOR_PASSPHRASE";

pub(super) fn init(options: &InitArgs) -> Result<u8, CliError> {
    let agent_id = key::whose(&options.key)?;
    if options.key.place.keychain {
        KeychainStore::system().load(&agent_id)?;
    }
    for url in options.hosts.iter().chain(&options.profile_service) {
        bare_origin(url).map_err(|why| CliError::usage("bad_argument", format!("{url}: {why}")))?;
    }
    let text = configuration(options, agent_id.as_str())?;
    let mut file = std::fs::OpenOptions::new();
    file.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut file, 0o600);
    make_folder_of(&options.config)
        .and_then(|()| file.open(&options.config))
        .and_then(|mut f| f.write_all(text.as_bytes()))
        .map_err(|e| CliError::file("cannot create", &options.config, e))?;
    if text.contains(DEFAULT_PASSPHRASE_ENV) {
        tell(&format!(
            "No passphrase source was named: the connector will read {DEFAULT_PASSPHRASE_ENV} \
             from its environment. --passphrase-file FILE names a private file instead."
        ));
    }
    tell(&format!(
        "Wrote {}. Next: `ap-connector doctor --config {}`",
        options.config.display(),
        options.config.display()
    ));
    Ok(exit::OK)
}

fn configuration(options: &InitArgs, agent_id: &str) -> Result<String, CliError> {
    let mut identity = toml::Table::new();
    identity.insert("agent_id".into(), agent_id.into());
    match &options.key.place.key_file {
        Some(path) => {
            identity.insert("key_file".into(), text(&absolute(path)?)?.into());
            match options.key.place.passphrase.source() {
                PassphraseSource::Env(name) => {
                    identity.insert("passphrase_env".into(), name.into());
                }
                PassphraseSource::File(path) => {
                    identity.insert("passphrase_file".into(), text(&absolute(&path)?)?.into());
                }
                // A client starts us without a terminal: some source must be named.
                PassphraseSource::Prompt | PassphraseSource::None => {
                    identity.insert("passphrase_env".into(), DEFAULT_PASSPHRASE_ENV.into());
                }
            }
        }
        None => {
            identity.insert("keychain".into(), true.into());
        }
    }
    let hosts: Vec<toml::Value> = options
        .hosts
        .iter()
        .enumerate()
        .map(|(i, url)| {
            let mut host = toml::Table::new();
            host.insert("host".into(), url.as_str().into());
            if let (0, Some(service)) = (i, &options.profile_service) {
                host.insert("profile_service".into(), service.as_str().into());
            }
            toml::Value::Table(host)
        })
        .collect();
    let mut root = toml::Table::new();
    root.insert("state_dir".into(), text(&options.state_dir)?.into());
    root.insert("identity".into(), identity.into());
    root.insert("hosts".into(), hosts.into());
    Ok(format!(
        "# Configuration of ap-connector. connector.example.toml explains every member.\n{root}"
    ))
}

fn text(path: &Path) -> Result<String, CliError> {
    path.to_str()
        .map(str::to_owned)
        .ok_or_else(|| CliError::usage("bad_argument", format!("{} is not UTF-8", path.display())))
}

fn absolute(path: &Path) -> Result<PathBuf, CliError> {
    std::path::absolute(path).map_err(|e| CliError::file("cannot resolve", path, e))
}

pub(super) fn client_config(options: &ClientConfigArgs) -> Result<u8, CliError> {
    let program = std::env::current_exe()
        .map_err(|e| CliError::file("cannot find", Path::new("ap-connector"), e))?;
    let config = absolute(&options.config)?;
    if !config.is_file() {
        return Err(CliError::usage(
            "bad_argument",
            format!("{} is no file; `ap-connector init` writes one", config.display()),
        ));
    }
    let value = json!({ "mcpServers": { &options.name: {
        "command": text(&program)?, "args": ["serve", "--config", text(&config)?],
    } } });
    out(&format!("{value:#}"));
    tell(
        "Most MCP clients take this as it stands. If the key file's passphrase comes from an \
         environment variable, the client must pass that variable on.",
    );
    Ok(exit::OK)
}
