//! The GRP host as one host of a lab: its faults, journal, gate, state dump and reset, under
//! the same names as those of the other hosts.

use serde_json::{Map, Value, json};

use super::{Defect, GrpHost, views};
use crate::fault::engine::{FaultId, FaultState};
use crate::fault::persona::Persona;
use crate::fault::{Fault, Plan};
use crate::front::Front;
use crate::gate::Gate;
use crate::journal::{Journal, JournalEntry};

impl GrpHost {
    pub(crate) fn front(&self) -> &Front {
        &self.front
    }

    /// The label given at the start.
    pub fn label(&self) -> &str {
        &self.front.label
    }

    /// Replaces all faults, seeded defects of earlier plans included.
    pub fn plan(&self, plan: Plan) -> Vec<FaultId> {
        self.front.faults.set_plan(plan)
    }

    /// Adds a fault.
    pub fn add_fault(&self, fault: Fault) -> FaultId {
        self.front.faults.add(fault)
    }

    /// Removes one fault; whether it was there.
    pub fn remove_fault(&self, id: FaultId) -> bool {
        self.front.faults.remove(id)
    }

    /// Back to honesty, but for the defects the host was started with. Held requests stay held.
    pub fn clear_faults(&self) {
        self.front.faults.clear();
    }

    /// The faults with their counters.
    pub fn faults(&self) -> Vec<FaultState> {
        self.front.faults.list()
    }

    /// How often a fault hit; 0 for an unknown one.
    pub fn hits(&self, id: FaultId) -> u64 {
        self.faults().into_iter().find(|f| f.id == id).map_or(0, |f| f.hits)
    }

    /// The present plan.
    pub fn current_plan(&self) -> Plan {
        self.front.faults.plan()
    }

    /// Plays a persona: its faults replace all others. A persona that needs records or signed
    /// profiles plays nothing here.
    pub fn play(&self, persona: Persona) {
        self.plan(persona.grp_plan(0));
    }

    /// The seeded defects that are on, by setting or by plan.
    pub fn defects(&self) -> Vec<Defect> {
        Defect::ALL.iter().copied().filter(|d| self.core.has(*d)).collect()
    }

    /// The journal itself, for waiting and counting. Credentials are left out of it.
    pub fn journal(&self) -> &Journal {
        &self.front.journal
    }

    /// A copy of the journal's entries.
    pub fn requests(&self) -> Vec<JournalEntry> {
        self.front.journal.entries()
    }

    /// The gate where `hold` faults wait.
    pub fn step(&self) -> &Gate {
        &self.front.gate
    }

    /// Slugs of all rooms, in order.
    pub fn rooms(&self) -> Vec<String> {
        let mut slugs: Vec<String> = self
            .core
            .cells()
            .iter()
            .filter_map(|cell| cell.lock().as_ref().map(|room| room.head.slug.clone()))
            .collect();
        slugs.sort();
        slugs
    }

    /// A room as its members see it, with due deadlines carried out.
    pub fn room(&self, slug: &str) -> Option<Value> {
        let cell = self.core.cell(slug).ok()?;
        self.core.tick(&cell);
        let guard = cell.lock();
        guard.as_ref().map(views::full)
    }

    /// Everything the host knows, as JSON: tokens and passwords only as the hashes it keeps.
    pub fn state(&self) -> Value {
        let rooms: Map<String, Value> = self
            .rooms()
            .into_iter()
            .filter_map(|slug| {
                let (room, stored) = (self.room(&slug)?, self.dump(&slug)?);
                Some((slug, json!({ "resource": room, "stored": stored })))
            })
            .collect();
        json!({
            "label": self.label(), "url": self.url(), "now": self.front.clock.now_ms(),
            "rooms": rooms,
            "defects": self.defects(),
            "faults": self.faults(),
            "held": self.front.gate.list(),
        })
    }

    /// Forgets everything: rooms, remembered answers, faults, journal, held requests. The key
    /// that signs receipts stays, and so do the defects the host was started with.
    pub fn reset(&self) {
        self.front.faults.clear();
        self.front.gate.release_all();
        if let Err(error) = self.core.reset() {
            tracing::error!(%error, "the stored rooms were not cleared");
        }
        self.front.journal.clear();
    }
}
