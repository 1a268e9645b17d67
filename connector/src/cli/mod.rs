//! The command line. It reads arguments, calls the library and prints; stdout holds results
//! only (for `serve` nothing but JSON-RPC), stderr what a person should know.

mod args;
mod doctor;
mod key;
mod rooms;
mod setup;
mod verify;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use clap::Parser;

use crate::config::operator::Operator;
use crate::config::{ConfigError, PROVISION_SCHEMA, Settings};
use crate::error::ToolError;
use crate::keystore::KeyStoreError;
use crate::serve::{self, ServeError};
use args::{Cli, Command, Source};

/// Exit codes. They are part of the interface.
pub mod exit {
    /// Done; a check found nothing wrong.
    pub const OK: u8 = 0;
    /// The command ran, and what it checked is not in order.
    pub const CHECK_FAILED: u8 = 1;
    /// The arguments or the configuration cannot be used.
    pub const USAGE: u8 = 2;
    /// The key store gives or takes no key.
    pub const KEY: u8 = 3;
    /// The state directory or its database cannot be used.
    pub const STATE: u8 = 4;
    /// The HTTP endpoint does not come up.
    pub const ENDPOINT: u8 = 5;
    /// A file cannot be read or written.
    pub const FILE: u8 = 6;
}

/// A command that failed: its exit code, its stable code, and what to do.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    #[error("{message}")]
    Usage { code: &'static str, message: String },
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Key(#[from] KeyStoreError),
    #[error("{}", .0.message)]
    State(#[from] ToolError),
    #[error(transparent)]
    Serve(#[from] ServeError),
    #[error("{what} {path}: {source}")]
    File { what: &'static str, path: String, source: std::io::Error },
}

impl CliError {
    fn usage(code: &'static str, message: impl Into<String>) -> Self {
        CliError::Usage { code, message: message.into() }
    }

    fn file(what: &'static str, path: &std::path::Path, source: std::io::Error) -> Self {
        CliError::File { what, path: path.display().to_string(), source }
    }

    fn code(&self) -> &str {
        match self {
            CliError::Usage { code, .. } => code,
            CliError::Config(e) => e.code(),
            CliError::Key(e) => e.code(),
            CliError::State(e) => &e.code,
            CliError::Serve(e) => e.code(),
            CliError::File { .. } => "file_failed",
        }
    }

    fn exit(&self) -> u8 {
        match self {
            CliError::Usage { .. } | CliError::Config(_) => exit::USAGE,
            CliError::Key(_) => exit::KEY,
            CliError::State(_) | CliError::Serve(ServeError::State(_)) => exit::STATE,
            CliError::Serve(ServeError::Http(_) | ServeError::Runtime(_)) => exit::ENDPOINT,
            CliError::Serve(ServeError::Nothing) => exit::USAGE,
            CliError::File { .. } => exit::FILE,
        }
    }
}

/// Codes of the command line's own errors: code, when, what to do.
pub const CLI_CODES: &[(&str, &str, &str)] = &[
    ("bad_argument", "an argument or an input is not acceptable", "see the message and `--help`"),
    ("file_failed", "a file cannot be read or written", "check the path and its permissions"),
];

/// Runs `ap-connector`; `args` begins with the program's name.
pub fn run_cli(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(e) => {
            // Help and version are no errors; the rest is usage. clap picks the stream.
            let code = if e.use_stderr() { exit::USAGE } else { exit::OK };
            let _ = e.print();
            return ExitCode::from(code);
        }
    };
    let done = match cli.command {
        Command::Serve(options) => start(&options),
        Command::Doctor(options) => doctor::run(&options),
        Command::Room(command) => rooms::run(&command),
        Command::Errors => {
            out(crate::codes::table().trim_end());
            Ok(exit::OK)
        }
        Command::Schema => {
            out(PROVISION_SCHEMA.trim_end());
            Ok(exit::OK)
        }
        Command::Key(command) => key::run(command),
        Command::Init(options) => setup::init(&options),
        Command::ClientConfig(options) => setup::client_config(&options),
        Command::Verify(options) => verify::run(&options),
    };
    match done {
        Ok(code) => ExitCode::from(code),
        Err(e) => {
            tell(&format!("ap-connector: {e} [{}]", e.code()));
            ExitCode::from(e.exit())
        }
    }
}

fn start(options: &args::ServeArgs) -> Result<u8, CliError> {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn"));
    // stdout belongs to JSON-RPC alone.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .try_init();
    let settings = settings(&options.source)?;
    in_runtime(serve::serve(settings, !options.no_stdio))??;
    Ok(exit::OK)
}

/// Runs work on a runtime of its own; whatever still blocks at the end is left behind, such
/// as a read of stdin.
fn in_runtime<T>(work: impl Future<Output = T>) -> Result<T, CliError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|e| ServeError::Runtime(e.to_string()))?;
    let result = runtime.block_on(work);
    runtime.shutdown_background();
    Ok(result)
}

/// Reads the configuration and opens the key.
fn settings(source: &Source) -> Result<Settings, CliError> {
    match (&source.config, &source.provision) {
        (_, Some(path)) => Ok(Settings::from_provision(path)?),
        (Some(path), None) => {
            let operator = Operator::read(path)?;
            let key = operator.key_store().load(operator.agent_id())?;
            Ok(operator.settings(key)?)
        }
        (None, None) => Err(CliError::usage("bad_argument", "give --config or --provision")),
    }
}

/// Prints a result. A reader that went away is no error of ours.
fn out(text: &str) {
    let mut stdout = std::io::stdout().lock();
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.write_all(b"\n"));
    let _ = stdout.flush();
}

/// Tells the person at the terminal something.
fn tell(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Foreign text for a terminal: no control characters, no direction overrides.
fn printable(text: &str) -> String {
    text.chars().map(|c| if crate::text::is_unsafe(c) { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn foreign_text_cannot_move_the_cursor() {
        assert_eq!(printable("a\u{1b}[2Jb\u{202e}c\n"), "a\u{fffd}[2Jb\u{fffd}c\u{fffd}");
    }
}
