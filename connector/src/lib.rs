//! The reference Local Agent Protocols MCP connector.
#![warn(missing_docs)]

pub mod cli;
pub mod keystore;
pub mod transport;

pub use cli::run_cli;
