//! Evidence against a host: what was seen, kept so that somebody else can judge it again.
//!
//! A finding is a value with both sides in it, never only a sentence. Records carry no
//! signature of the host, so evidence shows what was served to whoever kept it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::encoding::Hash;
use crate::record::{CheckedRecord, RecordError, Tip, VerifiedRecord};
use crate::room::{HostViolation, RoomContext};

/// One finding.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Evidence {
    /// Two different, well-formed records at one seq of one room.
    Fork {
        /// The room.
        room_id: String,
        /// Where the chains part.
        seq: u64,
        /// The record that was verified first.
        ours: Value,
        /// The record that came later.
        theirs: Value,
    },
    /// A head or a history that ends before records that were verified.
    Rollback {
        /// The room.
        room_id: String,
        /// The end of the verified chain.
        ours: Tip,
        /// What the host claims now.
        theirs: Tip,
    },
    /// The host names another hash at a seq that was verified, without showing the record.
    HeadConflict {
        /// The room.
        room_id: String,
        /// The verified record at that seq.
        ours: Tip,
        /// What the host claims.
        theirs: Tip,
    },
    /// A record that the host accepted against the rules.
    Violation {
        /// The room.
        room_id: String,
        /// The record's seq.
        seq: u64,
        /// The rule, as protocol code.
        code: String,
        /// What is wrong.
        message: String,
        /// The record.
        record: Value,
    },
    /// A record that does not hold by itself, or does not continue the chain.
    BadRecord {
        /// The room.
        room_id: String,
        /// Stable code of the refusal.
        code: String,
        /// What is wrong.
        message: String,
        /// What was served.
        record: Value,
    },
}

impl Evidence {
    /// Stable code: what a tool result or a log names.
    pub fn code(&self) -> &'static str {
        match self {
            Evidence::Fork { .. } => "host_fork",
            Evidence::Rollback { .. } => "host_rollback",
            Evidence::HeadConflict { .. } => "host_head_conflict",
            Evidence::Violation { .. } => "host_violation",
            Evidence::BadRecord { .. } => "host_bad_record",
        }
    }

    /// The room it is about.
    pub fn room_id(&self) -> &str {
        match self {
            Evidence::Fork { room_id, .. }
            | Evidence::Rollback { room_id, .. }
            | Evidence::HeadConflict { room_id, .. }
            | Evidence::Violation { room_id, .. }
            | Evidence::BadRecord { room_id, .. } => room_id,
        }
    }

    /// Of a record that replay refused.
    pub fn of_violation(record: &VerifiedRecord, violation: &HostViolation) -> Self {
        Evidence::Violation {
            room_id: record.room_id().to_owned(),
            seq: violation.seq,
            code: violation.rejection.code.as_str().to_owned(),
            message: violation.rejection.message.clone(),
            record: record.to_value(),
        }
    }

    /// Of a record that does not hold by itself or in the chain.
    pub fn of_bad_record(room_id: &str, record: &Value, error: &RecordError) -> Self {
        Evidence::BadRecord {
            room_id: room_id.to_owned(),
            code: error.code().to_owned(),
            message: error.to_string(),
            record: record.clone(),
        }
    }

    /// Of a record that came at a seq already verified: none when it is the same record.
    pub fn of_repeat(ours: &VerifiedRecord, theirs: &CheckedRecord) -> Option<Self> {
        (ours.room_id() == theirs.room_id()
            && ours.seq() == theirs.seq()
            && ours.hash() != theirs.hash())
        .then(|| Evidence::Fork {
            room_id: ours.room_id().to_owned(),
            seq: ours.seq(),
            ours: ours.to_value(),
            theirs: theirs.to_value(),
        })
    }

    /// Of a latest record the host advertises, against the verified chain that ends at
    /// `tip`: none when the host is level with us, or ahead.
    pub fn of_claim(room_id: &str, tip: Tip, claim: Tip, chain: &dyn RoomContext) -> Option<Self> {
        let room_id = room_id.to_owned();
        if claim.seq > tip.seq {
            return None;
        }
        let ours = if claim.seq == tip.seq { Some(tip.hash) } else { chain.hash_at(claim.seq) };
        match ours {
            Some(hash) if hash != claim.hash => Some(Evidence::HeadConflict {
                room_id,
                ours: Tip { seq: claim.seq, hash },
                theirs: claim,
            }),
            _ if claim.seq < tip.seq => {
                Some(Evidence::Rollback { room_id, ours: tip, theirs: claim })
            }
            _ => None,
        }
    }

    /// Judges the finding again from its own contents: whether it shows what it says.
    /// Whether a violation broke a rule, and a bad record the chain, needs the room's history:
    /// of those only the form is judged.
    pub fn holds(&self) -> bool {
        match self {
            Evidence::Fork { room_id, seq, ours, theirs } => {
                let check = |value: &Value| -> Option<Hash> {
                    let record = CheckedRecord::check(value, room_id).ok()?;
                    (record.seq() == *seq).then_some(*record.hash())
                };
                matches!((check(ours), check(theirs)), (Some(a), Some(b)) if a != b)
            }
            Evidence::Rollback { ours, theirs, .. } => theirs.seq < ours.seq,
            Evidence::HeadConflict { ours, theirs, .. } => {
                ours.seq == theirs.seq && ours.hash != theirs.hash
            }
            Evidence::BadRecord { .. } => true,
            Evidence::Violation { room_id, seq, record, .. } => {
                CheckedRecord::check(record, room_id).is_ok_and(|r| r.seq() == *seq)
            }
        }
    }
}
