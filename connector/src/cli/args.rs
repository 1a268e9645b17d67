//! What may be written on the command line, and the help that goes with it.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::keystore::{FileKeyStore, KeyStore, KeychainStore, PassphraseSource};

const LONG_ABOUT: &str = "\
A local connector between an MCP client and Agent Protocols hosts. It keeps the private key,
signs and submits events, verifies every record, and shows rooms to the agent as MCP tools.

A first setup, step by step:
  1. ap-connector key create --key-file ~/.ap/key          make an identity
  2. ap-connector init --config ~/.ap/connector.toml \\
         --key-file ~/.ap/key --host https://api.example    write a configuration
  3. ap-connector doctor --config ~/.ap/connector.toml     is everything in order?
  4. ap-connector client-config --config ~/.ap/connector.toml   what to put into the MCP client
";

const AFTER_HELP: &str = "\
Exit codes: 0 done · 1 a check found something wrong · 2 arguments or configuration ·
3 key store · 4 state directory · 5 HTTP endpoint · 6 a file
";

#[derive(Parser)]
#[command(name = "ap-connector", version, about = "Agent Protocols for MCP clients", long_about = LONG_ABOUT, after_help = AFTER_HELP)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub(super) enum Command {
    /// Serve MCP on stdio, and on loopback HTTP when the configuration says so
    ///
    /// An MCP client starts this. stdout carries JSON-RPC only; RUST_LOG sets what is logged
    /// on stderr (default: warn). The connector ends when stdin ends.
    Serve(ServeArgs),
    /// Make, import and look at identities
    #[command(subcommand)]
    Key(KeyCommand),
    /// Write a configuration file to start from
    Init(InitArgs),
    /// Check key, state directory, hosts and clock, and say what to do
    Doctor(DoctorArgs),
    /// Look at rooms, and settle what stopped them
    #[command(subcommand)]
    Room(RoomCommand),
    /// Print the JSON that makes an MCP client start this connector
    ClientConfig(ClientConfigArgs),
    /// Verify an archived room offline, from its first record on
    Verify(VerifyArgs),
    /// Print every error code with its meaning, as the table of ERRORS.md
    Errors,
    /// Print the JSON Schema of the provisioning document
    Schema,
}

/// Which configuration.
#[derive(Args)]
#[group(skip)]
pub(super) struct Source {
    /// The operator's configuration (TOML)
    #[arg(
        long,
        value_name = "FILE",
        required_unless_present = "provision",
        conflicts_with = "provision"
    )]
    pub config: Option<PathBuf>,
    /// A provisioning document (JSON) of the conformance contract; holds a seed, for tests only
    #[arg(long, value_name = "FILE")]
    pub provision: Option<PathBuf>,
}

#[derive(Args)]
pub(super) struct ServeArgs {
    #[command(flatten)]
    pub source: Source,
    /// Serve HTTP only, until a signal comes
    #[arg(long)]
    pub no_stdio: bool,
}

#[derive(Args)]
pub(super) struct DoctorArgs {
    #[command(flatten)]
    pub source: Source,
    /// Print the checks as JSON
    #[arg(long)]
    pub json: bool,
    /// Ask no host
    #[arg(long)]
    pub offline: bool,
}

#[derive(Subcommand)]
pub(super) enum RoomCommand {
    /// List known rooms with their verified length and condition
    List {
        #[command(flatten)]
        source: Source,
        /// Print the rooms as JSON
        #[arg(long)]
        json: bool,
    },
    /// Print both sides of what a host could not explain, one JSON object a line
    Evidence {
        #[command(flatten)]
        source: Source,
        #[command(flatten)]
        room: RoomName,
    },
    /// Let a stopped room go on
    ///
    /// A room stops when its host lies: another record at a verified seq, a shorter history, a
    /// record that does not verify or that the rules forbid, a head that no record proves. Look
    /// at `room evidence` first, and ask the host's operator.
    Resolve {
        #[command(flatten)]
        source: Source,
        #[command(flatten)]
        room: RoomName,
        /// keep: trust the verified state; the room stops again if the host still contradicts.
        /// reset: drop the verified history, drafts and inbox, and read the host's anew.
        /// forget: remove the room with its evidence
        #[arg(long, value_enum)]
        action: crate::operator::Action,
    },
}

#[derive(Args)]
pub(super) struct RoomName {
    /// Origin of the host
    pub host: String,
    /// The room
    pub room_id: String,
}

#[derive(Subcommand)]
pub(super) enum KeyCommand {
    /// Make a new identity and print its Agent ID
    Create(KeyPlace),
    /// Keep a key that exists already; its seed is read from a file or from stdin
    ///
    /// The seed is the 32-byte Ed25519 seed in base64url without padding (43 characters).
    /// It is never taken from the command line, where every process could read it.
    Import {
        #[command(flatten)]
        place: KeyPlace,
        /// File with the seed, readable by the owner only; without it, stdin
        #[arg(long, value_name = "FILE")]
        seed_file: Option<PathBuf>,
    },
    /// Print the public half as JSON (Agent ID, key, JWK)
    ExportPublic(KeyRef),
    /// Say whose key is kept where; with --open, prove that it opens
    Show {
        #[command(flatten)]
        key: KeyRef,
        /// Open the key and check that it belongs to the Agent ID
        #[arg(long)]
        open: bool,
    },
    /// Encrypt a key file under another passphrase
    ChangePassphrase {
        /// The key file
        #[arg(long, value_name = "FILE")]
        key_file: PathBuf,
        #[command(flatten)]
        passphrase: PassphraseArgs,
        /// Environment variable with the new passphrase
        #[arg(long, value_name = "NAME", conflicts_with = "new_passphrase_file")]
        new_passphrase_env: Option<String>,
        /// Private file whose first line is the new passphrase
        #[arg(long, value_name = "FILE")]
        new_passphrase_file: Option<PathBuf>,
    },
}

/// Where the passphrase comes from; without either, it is asked for on the terminal.
#[derive(Args)]
pub(super) struct PassphraseArgs {
    /// Environment variable with the passphrase
    #[arg(long, value_name = "NAME", conflicts_with = "passphrase_file")]
    passphrase_env: Option<String>,
    /// Private file whose first line is the passphrase
    #[arg(long, value_name = "FILE")]
    passphrase_file: Option<PathBuf>,
}

impl PassphraseArgs {
    pub fn source(&self) -> PassphraseSource {
        source(self.passphrase_env.as_deref(), self.passphrase_file.as_ref())
    }
}

pub(super) fn source(env: Option<&str>, file: Option<&PathBuf>) -> PassphraseSource {
    match (env, file) {
        (Some(name), _) => PassphraseSource::Env(name.to_owned()),
        (None, Some(path)) => PassphraseSource::File(path.clone()),
        (None, None) => PassphraseSource::Prompt,
    }
}

/// A place for a key. There is no default: which one is a decision.
#[derive(Args)]
#[group(skip)]
pub(super) struct KeyPlace {
    /// Encrypted file (argon2id, XChaCha20-Poly1305), made with mode 0600
    #[arg(
        long,
        value_name = "FILE",
        required_unless_present = "keychain",
        conflicts_with = "keychain"
    )]
    pub key_file: Option<PathBuf>,
    /// The keychain of the operating system
    #[arg(long)]
    pub keychain: bool,
    #[command(flatten)]
    pub passphrase: PassphraseArgs,
}

impl KeyPlace {
    pub fn store(&self) -> Box<dyn KeyStore> {
        match &self.key_file {
            Some(path) => Box::new(FileKeyStore::new(path, self.passphrase.source())),
            None => Box::new(KeychainStore::system()),
        }
    }
}

/// A key that exists.
#[derive(Args)]
#[group(skip)]
pub(super) struct KeyRef {
    #[command(flatten)]
    pub place: KeyPlace,
    /// Whose key; needed with --keychain
    #[arg(long, value_name = "AGENT_ID", required_unless_present = "key_file")]
    pub agent_id: Option<String>,
}

#[derive(Args)]
#[group(skip)]
pub(super) struct InitArgs {
    /// The file to write; an existing one is left alone
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// A host that the connector may sign requests for (repeatable)
    #[arg(long = "host", value_name = "URL", required = true)]
    pub hosts: Vec<String>,
    /// Profile service of the first host
    #[arg(long, value_name = "URL")]
    pub profile_service: Option<String>,
    #[command(flatten)]
    pub key: KeyRef,
    /// Where the state lives; relative to the configuration file
    #[arg(long, value_name = "DIR", default_value = "state")]
    pub state_dir: PathBuf,
}

#[derive(Args)]
pub(super) struct ClientConfigArgs {
    /// The configuration that the client shall use
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// Name of the server in the client
    #[arg(long, value_name = "NAME", default_value = "agent-protocols")]
    pub name: String,
}

#[derive(Args)]
pub(super) struct VerifyArgs {
    /// The archive: JSON lines, one JSON document, or a folder with archive.jsonl
    pub archive: PathBuf,
    /// A manifest in a file of its own
    #[arg(long, value_name = "FILE")]
    pub manifest: Option<PathBuf>,
    /// The room it must be; without it, the room of the first record
    #[arg(long, value_name = "ROOM_ID")]
    pub room: Option<String>,
    /// Print the verdict as JSON
    #[arg(long)]
    pub json: bool,
}
