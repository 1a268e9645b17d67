//! The reference Local Agent Protocols MCP connector.
//!
//! **What runs where.** [`serve`] puts MCP sessions ([`server`], over stdio and [`transport`])
//! on one [`core::Core`]. A tool call ([`tools`]) reads rows ([`store`]) and shows them
//! ([`views`]), or goes out: reads through [`sync`] and [`live`], writes through [`write`],
//! [`join`], [`create`], [`profiles`], [`status`].
//!
//! **Invariants.** Signatures are made in [`signer`] alone. Requests leave through
//! [`http`] alone, which knows only allowed origins. A record enters the store through
//! `Core::commit` alone: verify → replay → commit, one transaction. Nothing in [`tools`] or
//! [`resources`] shows a key, a token or an envelope that was not submitted.

pub mod args;
mod claim;
pub mod cli;
pub mod clock;
pub mod codes;
pub mod config;
pub mod core;
mod create;
mod discovery;
pub mod drafts;
pub mod error;
mod freshness;
pub mod http;
pub mod inbox;
pub mod join;
pub mod keystore;
pub mod lifecycle;
pub mod live;
pub mod operator;
mod packs;
mod profiles;
pub mod progress;
pub mod rate;
pub mod resources;
mod review;
pub mod serve;
pub mod server;
pub mod session;
pub mod signer;
pub mod status;
pub mod store;
pub mod sync;
pub mod text;
pub mod tools;
pub mod transport;
pub mod views;
mod watch;
pub mod write;

pub use cli::run_cli;
