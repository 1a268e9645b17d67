//! `serve`, `doctor`, `room`, `errors`, `schema`: running a connector and settling what only
//! the operator settles.

use std::path::Path;

use ap_protocol::SecretKey;

use super::args::{self, RoomCommand, ServeArgs, SourceArgs};
use super::{CLI_CODES, CliError, exit, out, tell};
use crate::clock::Clock;
use crate::config::{ConfigError, OperatorIdentity, Settings};
use crate::core::Core;
use crate::error::{OWN_CODES, ToolError};
use crate::keystore::{FileKeyStore, KeyStore, KeychainStore};
use crate::{operator, serve};

pub(super) fn serve(options: &ServeArgs) -> Result<u8, CliError> {
    start_logging();
    let settings = settings(&options.source)?;
    in_runtime(serve::serve(settings, !options.no_stdio))?.map_err(|e| CliError::Serve {
        code: e.code,
        exit: e.exit,
        message: e.message,
    })?;
    Ok(exit::OK)
}

pub(super) fn doctor(source: &SourceArgs) -> Result<u8, CliError> {
    let settings = settings(source)?;
    let problems = in_runtime(operator::doctor(settings, out))?.map_err(state)?;
    if problems == 0 {
        return Ok(exit::OK);
    }
    tell(&format!("{problems} problem(s), see above"));
    Ok(exit::CHECK_FAILED)
}

pub(super) fn room(command: &RoomCommand) -> Result<u8, CliError> {
    let open = |source: &SourceArgs| Core::open(settings(source)?, Clock::system()).map_err(state);
    match command {
        RoomCommand::List(source) => {
            operator::list_rooms(&*open(source)?, out).map_err(state)?;
        }
        RoomCommand::Evidence { source, host, room_id } => {
            operator::evidence(&*open(source)?, host, room_id, out).map_err(state)?;
        }
        RoomCommand::Resolve { source, host, room_id, action } => {
            operator::resolve(&*open(source)?, host, room_id, *action).map_err(state)?;
            tell("Done. Running connectors see it at their next read of the room.");
        }
    }
    Ok(exit::OK)
}

pub(super) fn errors() -> u8 {
    out("| code | when | what to do |\n| --- | --- | --- |");
    for (code, when, then) in OWN_CODES.iter().chain(CLI_CODES) {
        out(&format!("| `{code}` | {when} | {then} |"));
    }
    exit::OK
}

pub(super) fn schema() -> u8 {
    out(crate::config::PROVISION_SCHEMA.trim_end());
    exit::OK
}

fn state(e: ToolError) -> CliError {
    CliError::Serve { code: e.code, exit: exit::STATE, message: e.message }
}

fn in_runtime<T>(work: impl Future<Output = T>) -> Result<T, CliError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|e| CliError::file("cannot start", Path::new("the runtime"), e))?;
    let result = runtime.block_on(work);
    // A reader blocked on stdin must not keep the process alive.
    runtime.shutdown_background();
    Ok(result)
}

fn start_logging() {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn"));
    // Stdout belongs to JSON-RPC alone.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .try_init();
}

fn settings(source: &SourceArgs) -> Result<Settings, CliError> {
    let read = match (&source.config, &source.provision) {
        (_, Some(path)) => Settings::from_provision(path),
        (Some(path), None) => Settings::from_operator(path, unlock),
        (None, None) => {
            return Err(CliError::usage("bad_argument", "give --config or --provision"));
        }
    };
    read.map_err(|e| match e {
        ConfigError::Key(e) => CliError::Key(e),
        e => CliError::usage("bad_configuration", e.to_string()),
    })
}

fn unlock(identity: &OperatorIdentity, base: &Path) -> Result<SecretKey, ConfigError> {
    let store: Box<dyn KeyStore> = match (&identity.key_file, identity.keychain) {
        (Some(file), false) => {
            let passphrase_file = identity.passphrase_file.as_ref().map(|p| base.join(p));
            let source = args::source(identity.passphrase_env.as_deref(), passphrase_file.as_ref());
            Box::new(FileKeyStore::new(base.join(file), source))
        }
        (None, true) => Box::new(KeychainStore::system()),
        _ => {
            return Err(ConfigError::Identity(
                "give exactly one of key_file and keychain = true".to_owned(),
            ));
        }
    };
    store.load(&identity.agent_id).map_err(ConfigError::Key)
}
