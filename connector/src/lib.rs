//! The reference Local Agent Protocols MCP connector.
#![warn(missing_docs)]

pub mod keystore;
pub mod transport;
