//! Hosts, rooms and the other agents of a scenario.

use std::collections::BTreeMap;

use crate::failure::{StepError, StepResult};

/// A room by its name in the story.
#[derive(Debug, Clone)]
pub struct Room {
    /// Label of its host.
    pub host: String,
    /// Room id.
    pub id: String,
}

/// Everything on the other side of the target.
#[derive(Default)]
pub struct Hosts {
    rooms: BTreeMap<String, Room>,
}

impl Hosts {
    /// A room of the story.
    ///
    /// # Errors
    /// [`StepError::Defect`].
    pub fn room(&self, name: &str) -> StepResult<&Room> {
        self.rooms
            .get(name)
            .ok_or_else(|| StepError::Defect(format!("no room is called {name:?}")))
    }

    /// State of every host, for the report of a failure.
    pub fn dumps(&self) -> BTreeMap<String, serde_json::Value> {
        BTreeMap::new()
    }

    /// URL of a host.
    ///
    /// # Errors
    /// [`StepError::Defect`].
    pub fn url(&self, label: &str) -> StepResult<String> {
        Err(StepError::Defect(format!("no host is called {label:?}")))
    }
}
