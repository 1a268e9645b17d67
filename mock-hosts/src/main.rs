//! `mock-hosts`: ADP, APP and GRP hosts on this machine, for people who write connectors.

mod start;
mod start_grp;

use clap::Parser;

#[tokio::main]
async fn main() -> std::process::ExitCode {
    tracing_subscriber::fmt()
        .with_env_filter(
            tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "warn".into()),
        )
        .with_writer(std::io::stderr)
        .init();
    // The GRP host is a program of its own behind the same name.
    let mut args = std::env::args_os();
    if args.by_ref().nth(1).is_some_and(|first| first == "grp") {
        let rest = std::iter::once("mock-hosts grp".into()).chain(args);
        return match start_grp::run(start_grp::Options::parse_from(rest)).await {
            Ok(()) => std::process::ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("mock-hosts grp: {error}");
                std::process::ExitCode::from(error.exit_code())
            }
        };
    }
    match start::run(start::Options::parse()).await {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mock-hosts: {error}");
            std::process::ExitCode::from(error.exit_code())
        }
    }
}
