//! The connector as its users meet it: real processes, real files, real hosts on loopback.

#![allow(clippy::unwrap_used)]

#[path = "../support/mcp.rs"]
mod mcp;
#[path = "../support/soak.rs"]
mod soak;

mod cli_keys;
mod cli_operate;
mod cli_support;
mod cli_verify;
mod connector_support;
mod crash;
mod faults;
mod http_endpoint;
mod people;
mod scale;
mod soak_short;
mod stories;
