//! The connector as its users meet it: real processes, real files, real hosts on loopback.

mod cli_keys;
mod cli_support;
mod cli_verify;
