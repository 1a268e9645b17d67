//! Proof that the suite can fail: saboteurs, and who catches them.
//!
//! A saboteur is one small corruption of a correct connector, applied from outside: to the
//! MCP frames on their way, to the requests on their way to a host, or to the state directory
//! between two starts. It never touches the connector's code. Each must be caught by at least
//! one scenario that holds without it.

mod command;
mod frames;
pub mod hunt;
pub mod kills;
mod relay;
mod tap;

use std::sync::{Arc, Mutex};

use serde_json::Value;

pub use command::ProveArgs;
pub(crate) use command::prove;
pub use relay::{Letter, Sender};

use crate::mcp::Tap;

/// One tool call on its way to the target.
pub struct Request<'a> {
    /// Tool without prefix.
    pub tool: &'a str,
    /// Its arguments.
    pub arguments: &'a mut Value,
}

/// One answer on its way back.
pub struct Reply<'a> {
    /// Tool without prefix, or the method for anything that is no tool call.
    pub tool: &'a str,
    /// The documented shape of the result.
    pub body: &'a mut Value,
    /// The whole result.
    pub result: &'a mut Value,
}

/// What a saboteur does.
#[derive(Clone, Copy)]
pub enum Sabotage {
    /// Rewrites calls.
    Calls(fn(&mut Request<'_>)),
    /// Sends some calls twice.
    Doubles(fn(&str) -> bool),
    /// Rewrites results.
    Results(fn(&mut Reply<'_>)),
    /// Rewrites any frame towards the connector.
    ToTarget(fn(Value) -> Vec<Value>),
    /// Rewrites any frame towards the agent.
    ToClient(fn(Value) -> Vec<Value>),
    /// Rewrites, adds or misdirects the connector's requests to hosts.
    Letters(fn(&Sender<'_>, Letter) -> Vec<Letter>),
    /// Empties the state directory before every start but the first.
    ForgetsState,
    /// Gives every further session a state directory of its own.
    SharesNothing,
}

/// A named saboteur.
#[derive(Clone, Copy)]
pub struct Saboteur {
    /// Stable name.
    pub name: &'static str,
    /// What a connector with this defect would do.
    pub what: &'static str,
    /// Globs of the scenarios that should notice.
    pub aims: &'static [&'static str],
    /// The corruption.
    pub sabotage: Sabotage,
}

/// All saboteurs.
pub fn saboteurs() -> impl Iterator<Item = &'static Saboteur> {
    frames::SABOTEURS.iter().chain(relay::SABOTEURS)
}

impl Saboteur {
    /// A fresh corruption for one session; none for saboteurs that stand elsewhere.
    pub fn tap(&self) -> Option<Arc<dyn Tap>> {
        match self.sabotage {
            Sabotage::ForgetsState | Sabotage::SharesNothing | Sabotage::Letters(_) => None,
            sabotage => Some(Arc::new(tap::Rewriter::new(sabotage))),
        }
    }

    /// A fresh corruption of what the agent with `key` sends to one host; none for saboteurs
    /// that stand elsewhere. `hosts` are the addresses of all hosts of the scenario.
    pub fn relay(
        &self,
        key: &ap_protocol::SecretKey,
        host: &str,
        hosts: &Arc<Mutex<Vec<String>>>,
    ) -> Option<Arc<dyn mock_hosts::Relay>> {
        match self.sabotage {
            Sabotage::Letters(change) => {
                let copy = ap_protocol::SecretKey::from_seed(&key.seed());
                Some(Arc::new(relay::Post::new(change, copy, host, hosts.clone())))
            }
            _ => None,
        }
    }

    /// Whether the state directory is emptied before every start but the first.
    pub fn forgets_state(&self) -> bool {
        matches!(self.sabotage, Sabotage::ForgetsState)
    }

    /// Whether every further session gets a state directory of its own.
    pub fn shares_nothing(&self) -> bool {
        matches!(self.sabotage, Sabotage::SharesNothing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::select::CaseGlob;

    #[test]
    fn names_are_unique_and_aims_name_scenarios() {
        let cases = crate::suite::load(None).expect("loads");
        let mut names: Vec<_> = saboteurs().map(|s| s.name).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
        for s in saboteurs() {
            for aim in s.aims {
                let glob = CaseGlob::new(aim).expect("a glob");
                assert!(cases.iter().any(|c| glob.matches(c)), "{}: {aim}", s.name);
            }
        }
    }
}
