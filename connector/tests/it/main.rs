//! The connector as its users meet it: real processes, real files, real hosts on loopback.

#![allow(clippy::unwrap_used)]

mod cli_keys;
mod cli_support;
mod cli_verify;
mod connector_support;
mod stories;
