//! Personas: named bundles of faults for use by hand, and as a first look at what can go wrong.

use super::{Action, DelayAt, End, Fault, Plan, Route};
use crate::limits::Limits;

/// A character a host can play.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Persona {
    /// Shows one history at first and another one later.
    Equivocator,
    /// Denies its latest records once they were seen.
    Rollback,
    /// Drops streams and answers.
    FlakyStream,
    /// Never lets a head stand still.
    BusyRoom,
    /// Commits, then forgets to say so, and to tell others.
    Forgetful,
    /// Takes its time for everything.
    Slow,
    /// Points to somebody else.
    Redirector,
    /// Applies every recommended limit.
    StrictLimits,
    /// Claims a head that does not exist.
    LiarHead,
}

impl Persona {
    /// All of them.
    pub const ALL: [Persona; 9] = [
        Persona::Equivocator,
        Persona::Rollback,
        Persona::FlakyStream,
        Persona::BusyRoom,
        Persona::Forgetful,
        Persona::Slow,
        Persona::Redirector,
        Persona::StrictLimits,
        Persona::LiarHead,
    ];

    /// Name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Persona::Equivocator => "equivocator",
            Persona::Rollback => "rollback",
            Persona::FlakyStream => "flaky-stream",
            Persona::BusyRoom => "busy-room",
            Persona::Forgetful => "forgetful",
            Persona::Slow => "slow",
            Persona::Redirector => "redirector",
            Persona::StrictLimits => "strict-limits",
            Persona::LiarHead => "liar-head",
        }
    }

    /// By its name.
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|p| p.name() == name)
    }

    /// What it does, in a line.
    pub fn about(self) -> &'static str {
        match self {
            Persona::Equivocator => "from the second look on, history differs from seq 2",
            Persona::Rollback => "from the second look on, history ends at seq 2",
            Persona::FlakyStream => "streams break after 2 events, every fifth read is reset",
            Persona::BusyRoom => "every second message meets a head that just moved",
            Persona::Forgetful => {
                "every third write is committed but never answered; every third live event is lost"
            }
            Persona::Slow => "each answer takes a second and then trickles",
            Persona::Redirector => "writes and reads are redirected to another origin",
            Persona::StrictLimits => "all recommended quotas and sizes are enforced",
            Persona::LiarHead => "the room resource claims a head three records ahead",
        }
    }

    /// Its faults. Chances are drawn from `seed`.
    pub fn plan(self, seed: u64) -> Plan {
        let chance = |mut fault: Fault, chance: f64| {
            fault.when.chance = Some(chance);
            fault
        };
        let faults = match self {
            Persona::Equivocator => [Route::Events, Route::Room, Route::Archive]
                .map(|r| Fault::new(Action::Fork { envelope: None }).on(r).at_seq(2).after(1))
                .to_vec(),
            Persona::Rollback => [Route::Events, Route::Room, Route::Archive]
                .map(|r| Fault::new(Action::Rollback { to: 2 }).on(r).after(1))
                .to_vec(),
            Persona::FlakyStream => vec![
                Fault::new(Action::CutAfterEvents { events: 2, end: End::Close }).on(Route::Live),
                chance(Fault::new(Action::Reset {}).on(Route::Events), 0.2),
                chance(Fault::new(Action::Reset {}).on(Route::Room), 0.2),
            ],
            Persona::BusyRoom => vec![chance(
                Fault::new(Action::MoveHead { by: 1 }).on(Route::Submit).of_type("message.create"),
                0.5,
            )],
            Persona::Forgetful => vec![
                chance(
                    Fault::new(Action::LoseResponse { end: End::Close }).on(Route::Submit),
                    1.0 / 3.0,
                ),
                chance(Fault::new(Action::DropRecord {}).on(Route::Live), 1.0 / 3.0),
            ],
            Persona::Slow => vec![
                Fault::new(Action::Delay { ms: 1000, at: DelayAt::Request }),
                Fault::new(Action::Slice { bytes: 64, pause_ms: 20 }),
            ],
            Persona::Redirector => vec![
                Fault::new(Action::Redirect { status: 307, to: ELSEWHERE.to_owned() })
                    .on(Route::Submit),
                Fault::new(Action::Redirect { status: 302, to: ELSEWHERE.to_owned() })
                    .on(Route::Events),
            ],
            Persona::StrictLimits => Vec::new(),
            Persona::LiarHead => vec![Fault::new(Action::LiarHead { ahead: 3 }).on(Route::Room)],
        };
        let faults = faults.into_iter().map(|f| f.named(self.name())).collect();
        Plan { seed, faults }
    }

    /// Its faults at a GRP host; none where it has no meaning there.
    pub fn grp_plan(self, seed: u64) -> Plan {
        let chance = |mut fault: Fault, chance: f64| {
            fault.when.chance = Some(chance);
            fault
        };
        let redirect = |status| Fault::new(Action::Redirect { status, to: ELSEWHERE.to_owned() });
        let lose = || Fault::new(Action::LoseResponse { end: End::Close });
        let faults = match self {
            Persona::FlakyStream => vec![
                Fault::new(Action::CutAfterEvents { events: 2, end: End::Close })
                    .on(Route::GrpStream),
                chance(Fault::new(Action::Reset {}).on(Route::GrpReadRoom), 0.2),
                chance(Fault::new(Action::Reset {}).on(Route::GrpListEvents), 0.2),
            ],
            Persona::Forgetful => vec![
                chance(lose().on(Route::GrpChoose), 1.0 / 3.0),
                chance(lose().on(Route::GrpDiscuss), 1.0 / 3.0),
                chance(Fault::new(Action::DropRecord {}).on(Route::GrpStream), 1.0 / 3.0),
            ],
            Persona::Slow => return self.plan(seed),
            Persona::Redirector => {
                vec![redirect(307).on(Route::GrpChoose), redirect(302).on(Route::GrpReadRoom)]
            }
            _ => Vec::new(),
        };
        let faults = faults.into_iter().map(|f| f.named(self.name())).collect();
        Plan { seed, faults }
    }

    /// Whether it does anything at a GRP host.
    pub fn plays_grp(self) -> bool {
        !self.grp_plan(0).faults.is_empty()
    }

    /// Limits it sets.
    pub fn limits(self) -> Option<Limits> {
        (self == Persona::StrictLimits).then(Limits::recommended)
    }
}

/// Another origin, on a port where nothing can listen without privileges.
const ELSEWHERE: &str = "http://127.0.0.1:9";
