//! `mock-hosts`: ADP and APP hosts on this machine, for people who write connectors.

mod start;

use clap::Parser;

#[tokio::main]
async fn main() -> std::process::ExitCode {
    tracing_subscriber::fmt()
        .with_env_filter(
            tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "warn".into()),
        )
        .with_writer(std::io::stderr)
        .init();
    match start::run(start::Options::parse()).await {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mock-hosts: {error}");
            std::process::ExitCode::from(error.exit_code())
        }
    }
}
