//! Judging GRP room hosts: the embedded one, or any host by its URL.
//!
//! A scenario's [`Stage`] speaks REST and MCP to the host and remembers who sits where. It
//! judges only what crosses the wire; looking inside (audit chain, clock) is possible with
//! the embedded host alone and never needed for a MUST of a foreign one.

pub mod client;
pub mod prove;
pub mod receipts;
pub mod stage;
pub mod steps;
pub mod twin;

pub use stage::Stage;

use mock_hosts::grp::Defect;

/// Which host is judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A fresh embedded host for each scenario, with these defects (none in an honest run).
    Embedded(Vec<Defect>),
    /// A host somebody else runs.
    Url(String),
}

impl Default for Target {
    fn default() -> Self {
        Target::Embedded(Vec::new())
    }
}

/// Whether a case judges a GRP host.
pub fn is_grp(case: &crate::suite::Case) -> bool {
    case.file.starts_with("grp/") || case.file.starts_with("grp\\")
}
