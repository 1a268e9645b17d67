//! The `conformance` binary: `run` when no command is given.

use std::process::ExitCode;

fn main() -> ExitCode {
    // The reference connector is this same binary, re-executed with a hidden subcommand,
    // so that `cargo run --release` needs nothing else.
    let mut args = std::env::args_os();
    let program = args.next();
    if let Some(first) = args.next()
        && first == conformance::target::REFERENCE_SUBCOMMAND
    {
        return ap_connector::run_cli(program.into_iter().chain(args));
    }
    conformance::cli::main()
}
