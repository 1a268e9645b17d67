//! Matching and counting: which faults hit a request or a stream event.
//!
//! Decides only; acts nowhere. The order of a plan is the order of its hits, and `chance` is
//! drawn from the plan's seed, so the same requests under the same plan meet the same faults.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use ap_protocol::Hash;
use serde::Serialize;
use tokio::sync::watch;

use super::{Action, Fault, Plan, Route};
use crate::front::Dialect;
use crate::grp::Defects;
use crate::sync::lock;

/// Names one fault of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct FaultId(pub u64);

/// A fault with its counters.
#[derive(Debug, Clone, Serialize)]
pub struct FaultState {
    /// Id.
    pub id: FaultId,
    /// The fault.
    pub fault: Fault,
    /// Requests or events that matched so far.
    pub matched: u64,
    /// How often it hit.
    pub hits: u64,
}

/// When faults are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Moment {
    /// A request arrived.
    #[default]
    Request,
    /// A stream is up, nothing was sent yet.
    Start,
    /// The record of this seq is about to go out on a stream.
    Event(u64),
    /// It went out.
    Delivered(u64),
}

/// What is known about a request when faults are chosen.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Facts<'a> {
    pub method: &'a str,
    pub route: Option<Route>,
    pub room: Option<&'a str>,
    pub agent: Option<&'a str>,
    pub event_type: Option<&'a str>,
    /// A request, or a moment in the life of a stream.
    pub moment: Moment,
    /// Room events this stream has delivered.
    pub delivered: u64,
}

/// A fault that hit.
#[derive(Debug, Clone)]
pub(crate) struct Hit {
    pub id: FaultId,
    pub action: Action,
    pub seq: Option<u64>,
}

#[derive(Debug, Default)]
struct Inner {
    seed: u64,
    next: u64,
    list: Vec<FaultState>,
}

/// The faults of one host.
#[derive(Debug)]
pub(crate) struct Engine {
    host: String,
    dialect: Dialect,
    /// Seeded defects, as far as plans switch them.
    defects: Defects,
    inner: Mutex<Inner>,
    any: AtomicBool,
    refusing: watch::Sender<bool>,
}

impl Engine {
    pub(crate) fn new(host: &str, dialect: Dialect, defects: Defects) -> Self {
        Engine {
            host: host.to_owned(),
            dialect,
            defects,
            inner: Mutex::default(),
            any: AtomicBool::new(false),
            refusing: watch::Sender::new(false),
        }
    }

    pub(crate) fn set_plan(&self, plan: Plan) -> Vec<FaultId> {
        let ids = {
            let mut inner = lock(&self.inner);
            inner.seed = plan.seed;
            inner.list.clear();
            plan.faults.into_iter().map(|fault| inner.push(fault)).collect()
        };
        self.changed();
        ids
    }

    pub(crate) fn add(&self, fault: Fault) -> FaultId {
        let id = lock(&self.inner).push(fault);
        self.changed();
        id
    }

    pub(crate) fn remove(&self, id: FaultId) -> bool {
        let removed = {
            let mut inner = lock(&self.inner);
            let before = inner.list.len();
            inner.list.retain(|f| f.id != id);
            inner.list.len() < before
        };
        self.changed();
        removed
    }

    pub(crate) fn clear(&self) {
        lock(&self.inner).list.clear();
        self.changed();
    }

    pub(crate) fn list(&self) -> Vec<FaultState> {
        lock(&self.inner).list.clone()
    }

    pub(crate) fn plan(&self) -> Plan {
        let inner = lock(&self.inner);
        Plan { seed: inner.seed, faults: inner.list.iter().map(|f| f.fault.clone()).collect() }
    }

    pub(crate) fn refusing(&self) -> watch::Receiver<bool> {
        self.refusing.subscribe()
    }

    /// Whether any fault is planned: the quick way past all this for an honest host.
    pub(crate) fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    fn changed(&self) {
        let inner = lock(&self.inner);
        self.any.store(!inner.list.is_empty(), Ordering::Release);
        let ours = || {
            inner.list.iter().map(|f| &f.fault).filter(|f| {
                f.when.host.as_ref().is_none_or(|host| *host == self.host)
                    && f.action.concerns(self.dialect)
            })
        };
        self.defects.plan(ours().filter_map(|f| match f.action {
            Action::Defect { name } => Some(name),
            _ => None,
        }));
        let refuse = ours().any(|f| matches!(f.action, Action::Refuse {}));
        self.refusing.send_if_modified(|now| std::mem::replace(now, refuse) != refuse);
    }

    /// The faults that hit, in plan order; they are counted as hit.
    pub(crate) fn hits(&self, facts: &Facts<'_>) -> Vec<Hit> {
        if !self.any() {
            return Vec::new();
        }
        let mut inner = lock(&self.inner);
        let seed = inner.seed;
        inner
            .list
            .iter_mut()
            .filter(|f| f.fault.action.concerns(self.dialect))
            .filter_map(|f| f.hit(&self.host, facts, seed))
            .collect()
    }
}

impl Inner {
    fn push(&mut self, fault: Fault) -> FaultId {
        self.next += 1;
        let id = FaultId(self.next);
        self.list.push(FaultState { id, fault, matched: 0, hits: 0 });
        id
    }
}

impl FaultState {
    fn hit(&mut self, host: &str, facts: &Facts<'_>, seed: u64) -> Option<Hit> {
        let (when, action) = (&self.fault.when, &self.fault.action);
        let on_stream = facts.moment != Moment::Request;
        let of_events = facts.route.is_some_and(Route::is_stream) && action.per_event();
        if on_stream != of_events || (action.of_stream_events() && !on_stream) || action.is_state()
        {
            return None;
        }
        fn is(want: Option<&str>, have: Option<&str>) -> bool {
            want.is_none_or(|want| have == Some(want))
        }
        let same = is(when.host.as_deref(), Some(host))
            && when.method.as_deref().is_none_or(|m| m.eq_ignore_ascii_case(facts.method))
            && when.route.is_none_or(|r| facts.route == Some(r))
            && is(when.room.as_deref(), facts.room)
            && is(when.agent.as_deref(), facts.agent)
            && is(when.event_type.as_deref(), facts.event_type);
        if !same {
            return None;
        }
        let due = match (&self.fault.action, facts.moment, when.seq) {
            (_, Moment::Request, _) => true,
            (Action::CutAfterEvents { events, .. }, Moment::Start, None) => *events == 0,
            (Action::CutAfterEvents { .. }, Moment::Delivered(seq), Some(want)) => seq == want,
            (Action::CutAfterEvents { events, .. }, Moment::Delivered(_), None) => {
                facts.delivered >= *events
            }
            (Action::CutAfterEvents { .. }, _, _) => false,
            (Action::Inject { .. } | Action::OversizeEvent { .. }, Moment::Start, want) => {
                want.is_none()
            }
            (Action::Inject { .. } | Action::OversizeEvent { .. }, Moment::Event(seq), want) => {
                want == Some(seq)
            }
            // Everything from the fork on is forked; other record faults name one record.
            (Action::Fork { .. }, Moment::Event(seq), Some(from)) => seq >= from,
            (Action::Rollback { to }, Moment::Event(seq), _) => seq > *to,
            (_, Moment::Event(seq), Some(want)) => seq == want,
            (_, Moment::Event(_), None) => true,
            _ => false,
        };
        if !due {
            return None;
        }
        self.matched += 1;
        if when.nth.is_some_and(|n| n != self.matched)
            || when.skip.is_some_and(|n| self.matched <= n)
            || self.fault.times.is_some_and(|n| self.hits >= n)
        {
            return None;
        }
        if let Some(chance) = when.chance
            && draw(seed, self.id.0, self.matched) >= chance
        {
            return None;
        }
        self.hits += 1;
        Some(Hit { id: self.id, action: self.fault.action.clone(), seq: when.seq })
    }
}

/// A number in [0, 1) that depends on nothing but its arguments.
fn draw(seed: u64, id: u64, n: u64) -> f64 {
    let digest = Hash::of(format!("chance/{seed}/{id}/{n}").as_bytes());
    let bytes = digest.as_bytes();
    let top = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    f64::from(top) / (f64::from(u32::MAX) + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grp::Defect;

    fn engine() -> Engine {
        Engine::new("a", Dialect::Agent, Defects::default())
    }

    fn facts(route: Route) -> Facts<'static> {
        Facts { method: "GET", route: Some(route), ..Facts::default() }
    }

    #[test]
    fn narrow_count_and_repeat() {
        let engine = engine();
        assert!(!engine.any());
        engine.add(Fault::new(Action::Reset {}).on(Route::Room).nth(2));
        engine.add(Fault::new(Action::Stall {}).on(Route::Room).after(1).times(2));
        let hits = |route| engine.hits(&facts(route)).len();
        assert_eq!(hits(Route::Events), 0);
        assert_eq!([hits(Route::Room), hits(Route::Room), hits(Route::Room)], [0, 2, 1]);
        assert_eq!(hits(Route::Room), 0);
    }

    #[test]
    fn chance_is_decided_by_the_seed() {
        let run = |seed| {
            let engine = engine();
            let mut fault = Fault::new(Action::Reset {});
            fault.when.chance = Some(0.5);
            engine.set_plan(Plan { seed, faults: vec![fault] });
            (0..64).map(|_| engine.hits(&facts(Route::Room)).len()).collect::<Vec<_>>()
        };
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
        let hits: usize = run(1).iter().sum();
        assert!((16..48).contains(&hits), "{hits} of 64");
    }

    #[test]
    fn stream_faults_wait_for_the_event() {
        let engine = engine();
        engine.add(Fault::new(Action::DropRecord {}).at_seq(3));
        assert_eq!(engine.hits(&facts(Route::Live)).len(), 0, "not on opening the stream");
        let frame = |seq| Facts { moment: Moment::Event(seq), ..facts(Route::Live) };
        assert_eq!(engine.hits(&frame(2)).len(), 0);
        assert_eq!(engine.hits(&frame(3)).len(), 1);
        assert_eq!(engine.hits(&facts(Route::Events)).len(), 1, "and history drops it too");
    }

    #[test]
    fn each_kind_of_host_takes_what_concerns_it() {
        let defects = Defects::default();
        let (agent, grp) = (engine(), Engine::new("g", Dialect::Grp, defects.clone()));
        let on = Fault::new(Action::Defect { name: Defect::NoCorrelation });
        let mut elsewhere = Fault::new(Action::Defect { name: Defect::ShortToken });
        elsewhere.when.host = Some("another".to_owned());
        let skew = Fault::new(Action::ClockSkew { ms: 1 });
        let reset = Fault::new(Action::Reset {});
        let plan = Plan { seed: 0, faults: vec![on, elsewhere, skew, reset] };
        let ids = grp.set_plan(plan.clone());
        agent.set_plan(plan);
        assert_eq!(agent.hits(&facts(Route::Room)).len(), 2, "skew and reset");
        assert_eq!(grp.hits(&facts(Route::GrpChoose)).len(), 1, "reset");
        assert!(defects.has(Defect::NoCorrelation) && !defects.has(Defect::ShortToken));
        assert!(grp.remove(ids[0]));
        assert!(!defects.has(Defect::NoCorrelation));
    }

    #[test]
    fn what_could_never_act_is_refused() {
        let bad = [
            "when = { route = \"submit\" }\naction = { refuse = {} }",
            "when = { nth = 2 }\naction = { defect = { name = \"short-token\" } }",
            "times = 1\naction = { refuse = {} }",
            "when = { route = \"events\" }\naction = { hold = { at = \"event\" } }",
            "when = { route = \"grp_choose\" }\naction = { move_head = {} }",
            "action = { defect = { name = \"no-such-defect\" } }",
        ];
        for text in bad {
            let plan = format!("[[fault]]\n{text}\n");
            assert!(Plan::from_toml(&plan).is_err(), "{text}");
        }
        for text in [
            "when = { host = \"a\" }\naction = { refuse = {} }",
            "when = { route = \"grp_stream\" }\naction = { delay = { ms = 1, at = \"event\" } }",
            "when = { route = \"live\" }\naction = { hold = { at = \"event\" } }",
            "action = { defect = { name = \"short-token\" } }",
        ] {
            let plan = format!("[[fault]]\n{text}\n");
            assert!(Plan::from_toml(&plan).is_ok(), "{text}");
        }
    }
}
