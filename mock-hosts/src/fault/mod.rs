//! The fault vocabulary: what a plan may say. Plain data, the same in TOML, in JSON on the
//! control port and in Rust; the doing is elsewhere ([`engine`], [`view`], the hosts).
//!
//! ```toml
//! seed = 7
//! [[fault]]
//! name   = "lose the answer to the second message"
//! when   = { route = "submit", event_type = "message.create", nth = 2 }
//! action = { lose_response = {} }
//! ```

pub mod engine;
pub mod persona;
pub mod view;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::front::Dialect;
pub use crate::grp::Defect;
pub use crate::route::Route;
pub use crate::wire::End;

/// A seed and the faults, tried in order.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Decides every `chance`.
    #[serde(default)]
    pub seed: u64,
    /// The faults.
    #[serde(default, rename = "fault")]
    pub faults: Vec<Fault>,
}

/// Why a plan text is no plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// Not TOML, or not of this shape.
    #[error("the plan is not valid: {0}")]
    Toml(#[from] toml::de::Error),
    /// Not strict JSON.
    #[error("the plan is not strict JSON: {0}")]
    Json(#[from] ap_protocol::json::JsonError),
    /// JSON, but not of this shape.
    #[error("the plan is not valid: {0}")]
    Shape(#[from] serde_json::Error),
    /// A fault that could never act as it is written.
    #[error("the plan is not valid: {fault}: {what}")]
    Never {
        /// Which fault.
        fault: String,
        /// Why, and what to write instead.
        what: &'static str,
    },
}

impl PlanError {
    /// Stable machine-readable code.
    pub fn code(&self) -> &'static str {
        "invalid_plan"
    }
}

impl Plan {
    /// Reads a TOML plan.
    ///
    /// # Errors
    /// [`PlanError`] with line and column.
    pub fn from_toml(text: &str) -> Result<Self, PlanError> {
        let plan: Plan = toml::from_str(text)?;
        plan.check()?;
        Ok(plan)
    }

    /// Reads a JSON plan.
    ///
    /// # Errors
    /// [`PlanError`].
    pub fn from_json(bytes: &[u8]) -> Result<Self, PlanError> {
        let plan: Plan = serde_json::from_value(ap_protocol::json::parse(bytes)?)?;
        plan.check()?;
        Ok(plan)
    }

    fn check(&self) -> Result<(), PlanError> {
        for (i, fault) in self.faults.iter().enumerate() {
            fault.check().map_err(|what| PlanError::Never {
                fault: match &fault.name {
                    Some(name) => format!("fault {} ({name})", i + 1),
                    None => format!("fault {}", i + 1),
                },
                what,
            })?;
        }
        Ok(())
    }
}

/// One fault: when, what, how often.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Which requests or stream events it concerns; everything when empty.
    #[serde(default)]
    pub when: When,
    /// What happens to them.
    pub action: Action,
    /// How many times at most; no end when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u64>,
}

impl Fault {
    /// A fault on everything, without end. Narrow it with the builder methods.
    pub fn new(action: Action) -> Self {
        Fault { name: None, when: When::default(), action, times: None }
    }

    /// Refuses what could never act as it is written.
    ///
    /// # Errors
    /// What is wrong, and what to write instead.
    pub fn check(&self) -> Result<(), &'static str> {
        let of_host = When { host: self.when.host.clone(), ..When::default() };
        if self.action.is_state() && (self.when != of_host || self.times.is_some()) {
            return Err("this action lasts as long as the plan holds it: \
                        \"when\" may name a host and nothing else, and there is no \"times\"");
        }
        let Some(route) = self.when.route else { return Ok(()) };
        if self.action.of_stream_events() && !route.is_stream() {
            return Err("this action concerns the events of a stream: \
                        its route is live or grp_stream, or none");
        }
        let dialect = if route.is_grp() { Dialect::Grp } else { Dialect::Agent };
        if !self.action.concerns(dialect) {
            return Err(match dialect {
                Dialect::Grp => "this action is for ADP and APP hosts, the route for a GRP host",
                Dialect::Agent => "this action is for GRP hosts, the route for an ADP or APP host",
            });
        }
        Ok(())
    }

    /// Only on this route.
    #[must_use]
    pub fn on(mut self, route: Route) -> Self {
        self.when.route = Some(route);
        self
    }

    /// Only in this room.
    #[must_use]
    pub fn in_room(mut self, room: &str) -> Self {
        self.when.room = Some(room.to_owned());
        self
    }

    /// Only for the record with this seq (see [`When::seq`]).
    #[must_use]
    pub fn at_seq(mut self, seq: u64) -> Self {
        self.when.seq = Some(seq);
        self
    }

    /// Only the n-th match, from 1.
    #[must_use]
    pub fn nth(mut self, n: u64) -> Self {
        self.when.nth = Some(n);
        self
    }

    /// Not for the first `n` matches.
    #[must_use]
    pub fn after(mut self, n: u64) -> Self {
        self.when.skip = Some(n);
        self
    }

    /// Only for this agent: JWT subject or event actor.
    #[must_use]
    pub fn for_agent(mut self, agent: &str) -> Self {
        self.when.agent = Some(agent.to_owned());
        self
    }

    /// Only for writes of this event type.
    #[must_use]
    pub fn of_type(mut self, event_type: &str) -> Self {
        self.when.event_type = Some(event_type.to_owned());
        self
    }

    /// At most `n` times.
    #[must_use]
    pub fn times(mut self, n: u64) -> Self {
        self.times = Some(n);
        self
    }

    /// Once.
    #[must_use]
    pub fn once(self) -> Self {
        self.times(1)
    }

    /// With a name.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }
}

/// Which requests or stream events a fault concerns. Every member given must hold.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct When {
    /// Host label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// HTTP method.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Route.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route: Option<Route>,
    /// Room of the path, or of the arguments of an MCP call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub room: Option<String>,
    /// JWT subject or event actor; at a GRP host the participant id of the token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Type of the submitted event, or of the record on a stream. At a GRP host the operation,
    /// whichever transport carries it (`choose`), or the type of the event on a stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_type: Option<String>,
    /// The record a record fault works on; on a stream also: only when this record passes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// Only the n-th match, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nth: Option<u64>,
    /// Not for the first matches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip: Option<u64>,
    /// With this probability, decided by the plan's seed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chance: Option<f64>,
}

/// `Retry-After`, in either of its forms.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetryAfter {
    /// Delay in seconds.
    Seconds(u64),
    /// An HTTP date, this many seconds after now by the lab clock.
    DateIn(u64),
    /// Anything else, verbatim.
    Text(String),
}

/// Where a `hold` waits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HoldAt {
    /// Before the host looks at the request.
    Before,
    /// After it is done, with the answer ready.
    #[default]
    After,
    /// Before each event of a stream that matches; the events after it wait, too.
    Event,
}

/// What a `delay` delays.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DelayAt {
    /// The request, before the host looks at it.
    #[default]
    Request,
    /// Each event of a stream that matches; the events after it wait, too.
    Event,
}

/// Line ends of an event stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Eol {
    /// LF.
    #[default]
    Lf,
    /// CR LF.
    Crlf,
    /// CR.
    Cr,
}

/// What a fault does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Action {
    // --- before the host handles the request ---
    /// Waits, in real time.
    Delay {
        /// How long (ms).
        ms: u64,
        /// What.
        #[serde(default)]
        at: DelayAt,
    },
    /// Waits at the step gate until released.
    Hold {
        /// Before or after the handling, or before an event of a stream.
        #[serde(default)]
        at: HoldAt,
    },
    /// Answers this status instead of handling.
    Status {
        /// HTTP status.
        code: u16,
        /// Body, empty when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        body: Option<String>,
        /// `Retry-After` header.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after: Option<RetryAfter>,
    },
    /// Answers a protocol error instead of handling.
    Error {
        /// Error code; the status follows it for the 29 protocol codes, else 400.
        code: String,
        /// HTTP status, if another one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<u16>,
        /// `data` member.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        data: Option<Value>,
        /// `Retry-After` header.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after: Option<RetryAfter>,
    },
    /// Answers a redirect instead of handling.
    Redirect {
        /// 301, 302, 303, 307 or 308.
        status: u16,
        /// Target. An origin alone keeps path and query.
        to: String,
    },
    /// Resets the connection instead of handling.
    Reset {},
    /// Never answers; the connection stays open.
    Stall {},
    /// While the plan holds this, the port refuses connections (and open ones are closed).
    Refuse {},
    /// While the plan holds this, a GRP host has this seeded defect.
    Defect {
        /// Which; `mock-hosts grp --defects` lists them.
        name: Defect,
    },
    /// The host's clock is off, for this request.
    ClockSkew {
        /// How far (ms), positive for ahead.
        ms: i64,
    },
    /// Before a write is handled, the host's resident agent moves the head of its room.
    MoveHead {
        /// By how many messages.
        #[serde(default = "one")]
        by: u64,
    },
    /// A write is committed and a room is read, whatever the rules say and whoever asks.
    Lenient {},

    // --- the answer ---
    /// The request is handled, then the answer is lost.
    LoseResponse {
        /// How.
        #[serde(default)]
        end: End,
    },
    /// The answer breaks off after so many body bytes (chunk framing included).
    CutAfterBytes {
        /// How many.
        bytes: usize,
        /// How.
        #[serde(default)]
        end: End,
    },
    /// The answer goes out in slices.
    Slice {
        /// Bytes a slice.
        bytes: usize,
        /// Pause between slices (ms).
        #[serde(default)]
        pause_ms: u64,
    },
    /// Another content type; none when empty.
    WrongContentType {
        /// The type.
        to: String,
    },
    /// The answer is blown up: a JSON object gets a long member, anything else a long tail.
    Oversize {
        /// By how many bytes.
        bytes: usize,
    },
    /// A byte order mark before the body.
    Bom {},
    /// This text instead of the body.
    Body {
        /// The text.
        text: String,
    },
    /// One member of the JSON answer twice, with different values.
    DuplicateKey {
        /// Which; the first one when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        member: Option<String>,
    },
    /// This `Max-Seen-Nonce` header, whatever the truth is.
    MaxSeenNonce {
        /// Header text, so that absurd, negative and non-numeric ones can be said.
        to: String,
    },
    /// A response header.
    Header {
        /// Name.
        name: String,
        /// Value.
        value: String,
    },
    /// Sets a member of the JSON answer.
    Set {
        /// JSON pointer.
        pointer: String,
        /// Value.
        value: Value,
    },
    /// Removes a member of the JSON answer.
    Remove {
        /// JSON pointer.
        pointer: String,
    },
    /// Lists as bare arrays.
    BareLists {},
    /// Lists wrapped in `result`.
    WrapLists {},
    /// Every list page names a next page: itself.
    RepeatCursor {},
    /// A write is answered with another record of the room.
    AnswerOther {
        /// Which record; the one before when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        seq: Option<u64>,
    },

    // --- records, wherever they are shown (`when.seq` names the record) ---
    /// Changes one field of the record.
    Tamper {
        /// JSON pointer into the record, e.g. `/envelope/event/payload/content`.
        field: String,
        /// New value; a small change of the old one when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        value: Option<Value>,
        /// Recompute the record hash and relink all later records, so that only the
        /// field itself gives it away.
        #[serde(default)]
        relink: bool,
    },
    /// The record's event is signed again by a stranger.
    Resign {
        /// The stranger is also named as the actor (then everything is consistent except
        /// authority); otherwise only the signature is theirs.
        #[serde(default)]
        as_actor: bool,
    },
    /// The record is left out.
    DropRecord {},
    /// The record comes twice.
    Duplicate {},
    /// The record comes after its successor.
    Reorder {},
    /// History ends at this seq; what came after is denied.
    Rollback {
        /// Last seq shown.
        to: u64,
    },
    /// From `when.seq` on, another chain is shown: the same history accepted at other
    /// times, so every hash from there on differs and every signature holds.
    Fork {
        /// Another signed envelope for that seq, instead of the same one at another time.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        envelope: Option<Value>,
    },
    /// The room resource claims a head and a latest record that do not exist.
    LiarHead {
        /// How far beyond the truth.
        #[serde(default = "one")]
        ahead: u64,
    },

    // --- live streams ---
    /// The stream ends after so many room events on this connection.
    CutAfterEvents {
        /// How many.
        events: u64,
        /// How.
        #[serde(default)]
        end: End,
    },
    /// Framing of the stream.
    Framing {
        /// Line ends.
        #[serde(default)]
        eol: Eol,
        /// A byte order mark at the start.
        #[serde(default)]
        bom: bool,
    },
    /// This text on the stream, before the matching event, or at the start.
    Inject {
        /// The text, verbatim.
        text: String,
    },
    /// An event with a huge payload on the stream, before the matching event.
    OversizeEvent {
        /// Its size (bytes).
        bytes: usize,
    },
    /// Events are swallowed while the stream stays up.
    Silence {},
    /// The history from this seq on is sent on connecting, although SSE has no replay.
    Replay {
        /// First seq.
        from: u64,
    },
}

impl Action {
    /// A state of the host while the plan holds it, rather than something done to requests.
    pub(crate) fn is_state(&self) -> bool {
        matches!(self, Action::Refuse {} | Action::Defect { .. })
    }

    /// Whether the action concerns the events of a stream, and nothing else.
    pub(crate) fn of_stream_events(&self) -> bool {
        matches!(
            self,
            Action::CutAfterEvents { .. }
                | Action::Inject { .. }
                | Action::OversizeEvent { .. }
                | Action::Silence {}
                | Action::Delay { at: DelayAt::Event, .. }
                | Action::Hold { at: HoldAt::Event }
        )
    }

    /// Whether the action belongs to each event of a stream, when it meets one, rather than to
    /// the request that opened the stream.
    pub(crate) fn per_event(&self) -> bool {
        self.of_stream_events()
            || matches!(
                self,
                Action::Tamper { .. }
                    | Action::Resign { .. }
                    | Action::DropRecord {}
                    | Action::Duplicate {}
                    | Action::Reorder {}
                    | Action::Fork { .. }
                    | Action::Rollback { .. }
            )
    }

    /// Whether hosts of this kind can do it. What is left out has no meaning there: a GRP host
    /// has no records, nonces or heads of the discourse protocol.
    pub(crate) fn concerns(&self, dialect: Dialect) -> bool {
        let agent_only = matches!(
            self,
            Action::ClockSkew { .. }
                | Action::MoveHead { .. }
                | Action::Lenient {}
                | Action::MaxSeenNonce { .. }
                | Action::BareLists {}
                | Action::WrapLists {}
                | Action::RepeatCursor {}
                | Action::AnswerOther { .. }
                | Action::Tamper { .. }
                | Action::Resign { .. }
                | Action::Rollback { .. }
                | Action::Fork { .. }
                | Action::LiarHead { .. }
                | Action::Replay { .. }
        );
        match dialect {
            Dialect::Agent => !matches!(self, Action::Defect { .. }),
            Dialect::Grp => !agent_only,
        }
    }
}

fn one() -> u64 {
    1
}
