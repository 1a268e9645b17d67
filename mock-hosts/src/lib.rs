//! Mock hosts for the Agent Protocols: ADP, APP and GRP hosts that behave by the book, or
//! misbehave on command.
//!
//! ```no_run
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! use mock_hosts::{Action, Fault, Lab, LabConfig, Peer, Route};
//!
//! let lab = Lab::start(LabConfig::default()).await?;
//! let host = lab.adp("a").await?;
//! let ann = Peer::named("ann", lab.clock());
//! let room = ann.create_room(&host, serde_json::json!({ "topic": "Faults" })).await?;
//! host.add_fault(Fault::new(Action::LoseResponse { end: Default::default() })
//!     .on(Route::Submit)
//!     .nth(2));
//! ann.say(&host, &room, "this one is answered").await?;
//! # Ok(()) }
//! ```
//!
//! Reading order: [`Lab`] → [`Host`] → [`fault`] (the vocabulary of a plan) → [`Journal`],
//! [`Gate`] (watching and stepping) → [`Peer`] (the other agents) → [`grp`]. Inside: `front` is
//! what every host has before its protocol, `serve` takes a request to its answer, `adp` and
//! `app` hold the rules, `wire` is the raw connection layer.
//!
//! **Invariant**: an event enters a room only after the kernel's replay admitted it, under the
//! room's lock. The exceptions are explicit: [`Host::append_unchecked`] and the `lenient`
//! fault.
#![warn(missing_docs)]

mod adp;
mod answer;
mod app;
mod clock;
mod control;
pub mod fault;
mod front;
mod gate;
pub mod grp;
mod host;
pub mod html;
mod journal;
mod lab;
mod limits;
mod nonces;
mod openapi;
mod peer;
mod relay;
mod route;
mod say;
mod serve;
mod store;
mod sync;
mod wire;

pub use answer::Refusal;
pub use clock::Clock;
pub use control::{Control, ControlError};
pub use fault::engine::{FaultId, FaultState};
pub use fault::persona::Persona;
pub use fault::{Action, DelayAt, End, Eol, Fault, HoldAt, Plan, PlanError, RetryAfter, When};
pub use gate::{Gate, Held};
pub use host::{AdpHost, AppHost, Host, HostConfig};
pub use journal::{Journal, JournalEntry, JournalTimeout};
pub use lab::{Lab, LabConfig, LabError};
pub use limits::Limits;
pub use peer::{HostError, Peer, PeerError};
pub use relay::Relay;
pub use route::Route;
pub use store::StoreError;
