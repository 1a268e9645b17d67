//! The conformance suite for Local Agent Protocols MCP connectors.
//!
//! It starts the connector under test as a child process, plays the other agents and the
//! hosts itself, and judges only what crosses the wire: MCP frames on one side, HTTP
//! requests on the other.
//!
//! Reading order: [`cli`] (the commands) → [`suite`] (cases from Gherkin) → [`run`] (the
//! driver) → [`world`] (what one scenario owns) → [`steps`] → [`report`].
#![warn(missing_docs)]

pub mod baseline;
pub mod cli;
pub mod failure;
pub mod grp;
pub mod host;
pub mod http_session;
pub mod judgement;
pub mod ledger;
pub mod mcp;
pub mod outcome;
pub mod profile;
pub mod prove;
pub mod report;
pub mod run;
pub mod select;
pub mod steps;
pub mod suite;
pub mod target;
pub mod verdict;
pub mod wire;
pub mod world;
