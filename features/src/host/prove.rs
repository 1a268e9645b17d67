//! Proof that the features for ADP hosts can fail: hosts that break one thing each.
//!
//! The hunt itself is [`crate::prove::hunt`].

use std::sync::Arc;

use cucumber::step::Collection;
use mock_hosts::{Action, End, Fault, HostConfig, Lab, LabConfig, LabError, Plan, Route, When};
use serde_json::json;

use super::world::HostWorld;
use super::{HostRun, all_steps, run_case};
use crate::prove::hunt::Suspect;
use crate::suite::Case;
use crate::verdict::CaseReport;

/// A host with one fault.
pub struct Broken {
    /// Stable name.
    pub name: &'static str,
    /// What is wrong with it.
    pub what: &'static str,
    /// The fault, for ever.
    pub fault: fn() -> Fault,
}

fn status(code: u16, body: &str) -> Action {
    Action::Status { code, body: Some(body.to_owned()), retry_after: None }
}

fn another_date() -> Action {
    Action::Tamper { field: "/received_at".into(), value: None, relink: false }
}

/// All of them.
pub const BROKEN: &[Broken] = &[
    Broken {
        name: "accepts-everything",
        what: "accepts every event",
        fault: || Fault::new(Action::Lenient {}).on(Route::Submit),
    },
    Broken {
        name: "creates-everything",
        what: "creates every room",
        fault: || Fault::new(status(200, "{\"id\":\"x\"}")).on(Route::Create),
    },
    Broken {
        name: "shows-everything",
        what: "answers yes to every read",
        fault: || Fault {
            when: When { method: Some("GET".to_owned()), ..When::default() },
            ..Fault::new(status(200, "{\"result\":[]}"))
        },
    },
    Broken {
        name: "reads-to-anybody",
        what: "shows closed rooms to strangers",
        fault: || Fault {
            when: When { method: Some("GET".to_owned()), ..When::default() },
            ..Fault::new(Action::Lenient {})
        },
    },
    Broken {
        name: "rewrites-history",
        what: "changes a date in its history",
        fault: || Fault::new(another_date()).on(Route::Events),
    },
    Broken {
        name: "rewrites-archives",
        what: "changes a date in its archive",
        fault: || Fault::new(another_date()).on(Route::Archive),
    },
    Broken {
        name: "boasts-of-a-head",
        what: "claims a head that is not there",
        fault: || Fault::new(Action::LiarHead { ahead: 1 }).on(Route::Room),
    },
    Broken {
        name: "swallows-live-events",
        what: "leaves records out of its streams",
        fault: || Fault::new(Action::DropRecord {}).on(Route::Live),
    },
    Broken {
        name: "never-ends-a-stream",
        what: "keeps streams up for ever",
        fault: || Fault::new(Action::CutAfterEvents { events: 0, end: End::Stall }).on(Route::Live),
    },
    Broken {
        name: "tells-no-nonce",
        what: "answers writes without Max-Seen-Nonce",
        fault: || Fault::new(Action::MaxSeenNonce { to: "none".into() }).on(Route::Submit),
    },
    Broken {
        name: "hides-the-head",
        what: "refuses a base without saying where the head is",
        fault: || {
            Fault::new(Action::Set { pointer: "/error/data".into(), value: json!({}) })
                .on(Route::Submit)
        },
    },
    Broken {
        name: "answers-with-another",
        what: "answers a write with another record",
        fault: || Fault::new(Action::AnswerOther { seq: Some(1) }).on(Route::Submit),
    },
    Broken {
        name: "lives-in-the-future",
        what: "has a clock ten minutes ahead",
        fault: || Fault::new(Action::ClockSkew { ms: 600_000 }).on(Route::Submit),
    },
    Broken {
        name: "repeats-a-record",
        what: "lists a record twice",
        fault: || Fault::new(Action::Duplicate {}).at_seq(3).on(Route::Events),
    },
];

/// The hosts of a hunt: an honest one and one for each suspect. Scenarios share them, because
/// every agent and room of a scenario is new.
pub struct Stage {
    _lab: Lab,
    steps: Collection<HostWorld>,
    honest: Arc<HostRun>,
    broken: Vec<Arc<HostRun>>,
}

impl Stage {
    /// Starts the hosts.
    ///
    /// # Errors
    /// [`LabError`].
    pub async fn new(seed: u64, suspects: &[Suspect]) -> Result<Self, LabError> {
        let lab = Lab::start(LabConfig::default()).await?;
        let mut broken = Vec::new();
        let run = |url: &str| Arc::new(HostRun { url: Some(url.to_owned()), seed });
        let honest = lab.host("honest", HostConfig::default()).await?;
        for suspect in suspects {
            let host = lab.host(&suspect.name, HostConfig::default()).await?;
            let faults = BROKEN.iter().filter(|b| b.name == suspect.name).map(|b| (b.fault)());
            host.plan(Plan { seed: 1, faults: faults.collect() });
            broken.push(run(host.url()));
        }
        Ok(Stage { honest: run(honest.url()), _lab: lab, steps: all_steps(), broken })
    }

    /// Runs a case against a suspect, or the honest host.
    pub async fn trial(&self, who: Option<usize>, case: Case) -> CaseReport {
        run_case(who.map_or(&self.honest, |i| &self.broken[i]), &self.steps, &case, 1).await
    }
}
