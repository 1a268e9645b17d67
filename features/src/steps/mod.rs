//! The vocabulary of the features. Steps are thin: they arrange, act or judge once.

pub mod call;
pub mod catalog;
pub mod drafts;
pub mod faults;
pub mod folk;
pub mod http;
pub mod inbox;
pub mod inputs;
pub mod joining;
pub mod judge;
pub mod lifecycle;
pub mod queue;
pub mod reference;
pub mod resource_feed;
pub mod resources;
pub mod results;
pub mod rooms;
pub mod shorthand;
pub mod status;
pub mod teaching;
pub mod trouble;
pub mod trust;

use cucumber::World as _;
use cucumber::step::Collection;

use crate::world::World;

/// All steps, by keyword.
pub fn all() -> Collection<World> {
    World::collection()
}

/// Texts of `cases` that no step, or more than one, answers to.
pub fn undefined(steps: &Collection<World>, cases: &[crate::suite::Case]) -> Vec<String> {
    let mut found = Vec::new();
    for case in cases {
        for step in &case.steps {
            let at = |what: String| {
                format!("{}:{}: {} {what}", case.file, step.position.line, step.keyword.trim())
            };
            match steps.find(step) {
                Ok(Some(_)) => {}
                Ok(None) => found.push(at(format!("{:?} is not defined", step.value))),
                Err(e) => found.push(at(format!("{:?} is ambiguous: {e}", step.value))),
            }
        }
    }
    found.sort();
    found.dedup();
    found
}
