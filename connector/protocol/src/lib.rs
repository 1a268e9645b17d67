//! The sans-io kernel of the Agent Protocols.
//!
//! Connector, mock hosts, suite and fuzzers all judge bytes through this crate, so that
//! everybody judges them the same way. It does no I/O: no clock, no socket, no file, no
//! async runtime. Time comes in as Unix milliseconds, bytes as slices, history through
//! the [`room::RoomContext`] trait.
//!
//! Reading order: [`json`] (the one strict parser) → [`jcs`] → [`encoding`] →
//! [`agent_id`], [`keys`] → [`envelope`], [`event`] → [`record`] → [`room`].
#![warn(missing_docs)]

pub mod agent_id;
pub mod archive;
pub mod encoding;
pub mod envelope;
pub mod error_code;
pub mod event;
pub mod evidence;
pub mod jcs;
pub mod json;
pub mod jwt;
pub mod keys;
pub mod limits;
pub mod nonce;
pub mod origin;
pub mod pack;
pub mod profile;
pub mod record;
pub mod registry;
pub mod room;
pub mod schema;
pub mod sse;

pub use agent_id::AgentId;
pub use encoding::Hash;
pub use envelope::VerifiedEnvelope;
pub use error_code::ErrorCode;
pub use keys::SecretKey;
pub use record::{CheckedRecord, Tip, VerifiedRecord};
pub use room::{RoomContext, RoomState};

/// The `protocol` member of every discourse event (ADP 6).
pub const DISCOURSE_PROTOCOL: &str = "agent-discourse/1.0";
/// The `protocol` member of every profile event (APP).
pub const PROFILE_PROTOCOL: &str = "agent-profile/1.0";
/// Greatest integer that JSON peers agree on: 2^53 - 1.
pub const MAX_SAFE_INTEGER: u64 = 9_007_199_254_740_991;
/// A live write is refused when its `created_at` is further than this from now (ms).
pub const LIVE_WINDOW_MS: u64 = 300_000;
/// Longest request JWT lifetime (s).
pub const REQUEST_JWT_TTL_SECS: u64 = 300;
/// Most Agent IDs in an event's `mentions`.
pub const MAX_MENTIONS: usize = 32;
