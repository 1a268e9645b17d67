//! The command line: serve, keys, operator's decisions.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ap_protocol::{AgentId, SecretKey, encoding};
use clap::{Args, Parser, Subcommand};
use zeroize::Zeroizing;

use crate::clock::Clock;
use crate::config::{ConfigError, OperatorIdentity, Settings};
use crate::error::OWN_CODES;
use crate::keystore::{self, FileKeyStore, KeyStore, KeyStoreError, KeychainStore, PassphraseSource};
use crate::{operator, serve};

/// Local Agent Protocols MCP connector: takes part in agent rooms for an MCP client.
///
/// An MCP client starts `ap-connector serve --config FILE` and talks to it on stdin and
/// stdout. The connector holds the private key, signs, verifies every record, keeps the
/// state, and never lets the agent sign anything else.
///
/// First steps:
///   1. ap-connector key create --out key.json         (asks for a passphrase)
///   2. write connector.toml:
///        state_dir = "state"
///        [identity]
///        key_file = "key.json"
///        passphrase_env = "AP_PASSPHRASE"
///        [[hosts]]
///        host = "https://rooms.example"
///   3. ap-connector doctor --config connector.toml
///   4. configure your MCP client with: ap-connector serve --config connector.toml
#[derive(Parser)]
#[command(name = "ap-connector", version, verbatim_doc_comment)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve MCP on stdio, and on loopback HTTP when configured.
    Serve(Serve),
    /// Make, import and look at keys.
    #[command(subcommand)]
    Key(Key),
    /// Check configuration, key, state directory and hosts.
    Doctor(Source),
    /// Look at rooms and settle what stopped them.
    #[command(subcommand)]
    Room(Room),
    /// Print the connector's own error codes: when, and what to do.
    Errors,
    /// Print the JSON Schema of the provisioning document.
    Schema,
}

#[derive(Args)]
struct Source {
    /// The operator's TOML.
    #[arg(long, required_unless_present = "provision", conflicts_with = "provision")]
    config: Option<PathBuf>,
    /// A provisioning document of the conformance contract (JSON).
    #[arg(long)]
    provision: Option<PathBuf>,
}

#[derive(Args)]
struct Serve {
    #[command(flatten)]
    source: Source,
    /// Serve HTTP only.
    #[arg(long)]
    no_stdio: bool,
}

#[derive(Args)]
struct Passphrase {
    /// Environment variable that holds the passphrase.
    #[arg(long)]
    passphrase_env: Option<String>,
    /// File whose first line is the passphrase.
    #[arg(long, conflicts_with = "passphrase_env")]
    passphrase_file: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Key {
    /// Make a new key.
    Create {
        /// Encrypted key file to write.
        #[arg(long, required_unless_present = "keychain", conflicts_with = "keychain")]
        out: Option<PathBuf>,
        /// Keep it in the OS keychain instead.
        #[arg(long)]
        keychain: bool,
        #[command(flatten)]
        passphrase: Passphrase,
    },
    /// Import a seed (base64url of 32 bytes) from standard input.
    Import {
        /// Encrypted key file to write.
        #[arg(long, required_unless_present = "keychain", conflicts_with = "keychain")]
        out: Option<PathBuf>,
        /// Keep it in the OS keychain instead.
        #[arg(long)]
        keychain: bool,
        #[command(flatten)]
        passphrase: Passphrase,
    },
    /// Print the Agent ID of a key file; with a passphrase, also check that it opens.
    Show {
        /// The key file.
        file: PathBuf,
        /// Open it.
        #[arg(long)]
        verify: bool,
        #[command(flatten)]
        passphrase: Passphrase,
    },
}

#[derive(Subcommand)]
enum Room {
    /// List rooms with their conditions.
    List(Source),
    /// Print the evidence that was kept about a room, as JSON.
    Evidence {
        #[command(flatten)]
        source: Source,
        /// Origin of the host.
        host: String,
        /// The room.
        room_id: String,
    },
    /// Settle a condition: stop no longer, read anew, or forget the room.
    Resolve {
        #[command(flatten)]
        source: Source,
        /// Origin of the host.
        host: String,
        /// The room.
        room_id: String,
        /// keep: trust the verified state and go on; reset: drop the verified history and read
        /// the host's anew; forget: remove the room.
        #[arg(long, value_enum)]
        action: operator::Action,
    },
}

/// Runs the connector's command line. `args` includes the program name.
pub fn run_cli(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(e) => {
            let _ = e.print();
            return ExitCode::from(u8::try_from(e.exit_code()).unwrap_or(2));
        }
    };
    match run(cli.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            let _ = writeln!(io::stderr(), "ap-connector: {message}");
            ExitCode::FAILURE
        }
    }
}

fn out(text: &str) {
    // A closed pipe is no error of ours.
    let _ = writeln!(io::stdout(), "{text}");
}

fn run(command: Command) -> Result<(), String> {
    match command {
        Command::Serve(s) => {
            start_logging();
            let settings = settings(&s.source)?;
            in_runtime(serve::serve(settings, !s.no_stdio))
        }
        Command::Key(key) => run_key(key),
        Command::Doctor(source) => {
            let settings = settings(&source)?;
            in_runtime(operator::doctor(settings, out))
        }
        Command::Room(room) => run_room(room),
        Command::Errors => {
            out("code | when | what to do");
            for (code, when, then) in OWN_CODES {
                out(&format!("{code} | {when} | {then}"));
            }
            Ok(())
        }
        Command::Schema => {
            out(crate::config::PROVISION_SCHEMA.trim_end());
            Ok(())
        }
    }
}

fn in_runtime(work: impl Future<Output = Result<(), String>>) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|e| format!("no runtime: {e}"))?;
    let result = runtime.block_on(work);
    // A reader blocked on stdin must not keep the process alive.
    runtime.shutdown_background();
    result
}

fn start_logging() {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn"));
    // Stdout belongs to JSON-RPC alone.
    let _ = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).with_ansi(false).try_init();
}

fn settings(source: &Source) -> Result<Settings, String> {
    let read = match (&source.config, &source.provision) {
        (_, Some(path)) => Settings::from_provision(path),
        (Some(path), None) => Settings::from_operator(path, unlock),
        (None, None) => return Err("give --config or --provision".to_owned()),
    };
    read.map_err(|e| e.to_string())
}

fn unlock(identity: &OperatorIdentity, base: &Path) -> Result<SecretKey, ConfigError> {
    let refuse = |e: KeyStoreError| ConfigError::Identity(e.to_string());
    match (&identity.key_file, &identity.keychain) {
        (Some(file), None) => {
            let source = Passphrase {
                passphrase_env: identity.passphrase_env.clone(),
                passphrase_file: identity.passphrase_file.as_ref().map(|p| base.join(p)),
            };
            FileKeyStore::new(base.join(file), source.source()).open().map_err(refuse)
        }
        (None, Some(agent_id)) => {
            let id = AgentId::parse(agent_id).map_err(|e| ConfigError::Identity(e.to_string()))?;
            KeychainStore::system().load(&id).map_err(refuse)
        }
        _ => Err(ConfigError::Identity("give exactly one of key_file and keychain".to_owned())),
    }
}

impl Passphrase {
    fn source(&self) -> PassphraseSource {
        match (&self.passphrase_env, &self.passphrase_file) {
            (Some(name), _) => PassphraseSource::Env(name.clone()),
            (None, Some(path)) => PassphraseSource::File(path.clone()),
            (None, None) => PassphraseSource::Prompt,
        }
    }
}

fn run_key(key: Key) -> Result<(), String> {
    let text_of = |e: KeyStoreError| e.to_string();
    match key {
        Key::Create { out: file, keychain, passphrase } => {
            store_key(&keystore::generate().map_err(text_of)?, file, keychain, &passphrase)
        }
        Key::Import { out: file, keychain, passphrase } => {
            let mut text = Zeroizing::new(String::new());
            io::stdin().read_to_string(&mut text).map_err(|e| format!("standard input: {e}"))?;
            let seed = encoding::decode_array::<32>(text.trim()).map_err(|e| format!("seed: {e}"))?;
            store_key(&SecretKey::from_seed(&Zeroizing::new(seed)), file, keychain, &passphrase)
        }
        Key::Show { file, verify, passphrase } => {
            let store = FileKeyStore::new(file, passphrase.source());
            let id = if verify {
                store.open().map_err(text_of)?.agent_id()
            } else {
                store.agent_id().map_err(text_of)?
            };
            out(id.as_str());
            Ok(())
        }
    }
}

fn store_key(key: &SecretKey, file: Option<PathBuf>, keychain: bool, passphrase: &Passphrase) -> Result<(), String> {
    let store: Box<dyn KeyStore> = match file {
        _ if keychain => Box::new(KeychainStore::system()),
        Some(file) => Box::new(FileKeyStore::new(file, passphrase.source())),
        None => return Err("give --out or --keychain".to_owned()),
    };
    store.save(key).map_err(|e| e.to_string())?;
    out(key.agent_id().as_str());
    Ok(())
}

fn run_room(room: Room) -> Result<(), String> {
    let text_of = |e: crate::error::ToolError| e.to_string();
    let open = |source: &Source| {
        crate::core::Core::open(settings(source)?, Clock::system()).map_err(text_of)
    };
    match room {
        Room::List(source) => operator::list_rooms(&*open(&source)?, out).map_err(text_of),
        Room::Evidence { source, host, room_id } => {
            operator::evidence(&*open(&source)?, &host, &room_id, out).map_err(text_of)
        }
        Room::Resolve { source, host, room_id, action } => {
            operator::resolve(&*open(&source)?, &host, &room_id, action).map_err(text_of)?;
            out("done; running connectors see it at their next read of the room");
            Ok(())
        }
    }
}
