//! What an agent is told when a tool call fails: a stable code, what happened, what to do.
//!
//! Protocol codes (ADP 20) pass through unchanged. The connector's own codes are listed once,
//! in [`OWN_CODES`]. No message here may contain key material, a token or an envelope.

use serde_json::{Value, json};

/// A failed tool call.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct ToolError {
    /// Stable machine-readable code.
    pub code: String,
    /// What happened and what to do next.
    pub message: String,
    /// Details, `null` when there are none.
    pub data: Value,
}

impl ToolError {
    /// An error without details.
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        ToolError { code: code.to_owned(), message: message.into(), data: Value::Null }
    }

    /// The same error with details.
    #[must_use]
    pub fn with(mut self, data: Value) -> Self {
        self.data = data;
        self
    }

    /// Adds one member to the details.
    #[must_use]
    pub fn and(mut self, name: &str, value: impl Into<Value>) -> Self {
        if !self.data.is_object() {
            self.data = json!({});
        }
        self.data[name] = value.into();
        self
    }

    /// A tool argument that the schema or a rule refuses; `path` is a JSON pointer.
    pub fn input(path: &str, message: impl Into<String>) -> Self {
        let message = message.into();
        let shown = if path.is_empty() { String::new() } else { format!("{path}: ") };
        ToolError::new("invalid_input", format!("{shown}{message}")).with(json!({ "path": path }))
    }

    /// A fault of ours that no input explains.
    pub fn internal(message: impl std::fmt::Display) -> Self {
        ToolError::new("internal_error", format!("{message}. Nothing was signed or sent."))
    }

    /// The JSON an agent sees.
    pub fn to_value(&self) -> Value {
        json!({ "error": { "code": self.code, "message": self.message, "data": self.data } })
    }
}

impl From<rusqlite::Error> for ToolError {
    fn from(e: rusqlite::Error) -> Self {
        let busy = matches!(
            e.sqlite_error_code(),
            Some(rusqlite::ErrorCode::DatabaseBusy | rusqlite::ErrorCode::DatabaseLocked)
        );
        if busy {
            ToolError::new(
                "store_busy",
                "another connector process holds the state database; call again in a moment",
            )
        } else {
            ToolError::new("store_error", format!("the state database failed: {e}"))
        }
    }
}

/// The connector's own codes: (code, when, what to do).
pub const OWN_CODES: &[(&str, &str, &str)] = &[
    (
        "invalid_input",
        "an argument does not fit the tool's input schema",
        "correct the member that `data.path` names",
    ),
    (
        "host_not_allowed",
        "the host or profile service is not on the operator's allowlist",
        "use a host from agent_protocols_hosts_list, or ask the operator",
    ),
    (
        "room_not_known",
        "the room is not in the local state",
        "call agent_protocols_room_open with host and room_id",
    ),
    (
        "room_ambiguous",
        "the room_id exists on several hosts",
        "repeat the call with one of `data.hosts` as host",
    ),
    (
        "room_not_verified",
        "no history of the room is verified yet",
        "call agent_protocols_room_open, then try again",
    ),
    (
        "room_forked",
        "the host served a different valid record at a verified seq",
        "stop; tell the operator, who settles it with `ap-connector room resolve`",
    ),
    (
        "room_rolled_back",
        "the host's chain ends before what was verified",
        "stop; tell the operator, who settles it with `ap-connector room resolve`",
    ),
    (
        "host_violation",
        "the host accepted a record against the room's rules",
        "stop; tell the operator, who settles it with `ap-connector room resolve`",
    ),
    (
        "join_anchor_missing",
        "the history lacks the head that the host advertised before the join",
        "stop; tell the operator, who settles it with `ap-connector room resolve`",
    ),
    (
        "head_unproven",
        "the host advertises a head that its history lacks, also after it was read again",
        "stop; tell the operator, who settles it with `ap-connector room resolve`",
    ),
    (
        "head_contradicted",
        "the host advertises a head that the verified records contradict",
        "stop; tell the operator, who settles it with `ap-connector room resolve`",
    ),
    (
        "history_stalled",
        "a page of history brought no new record and no end",
        "read again later, or tell the operator",
    ),
    (
        "record_shape",
        "a record has unknown, missing or malformed members",
        "stop; tell the operator, who settles it with `ap-connector room resolve`",
    ),
    (
        "record_room_mismatch",
        "a record belongs to another room",
        "stop; tell the operator, who settles it with `ap-connector room resolve`",
    ),
    (
        "record_hash_mismatch",
        "a record's hash does not recompute",
        "stop; tell the operator, who settles it with `ap-connector room resolve`",
    ),
    (
        "record_pre_hash_mismatch",
        "a record does not continue the verified chain",
        "stop; tell the operator, who settles it with `ap-connector room resolve`",
    ),
    (
        "record_gap",
        "a record is missing from the history",
        "read again later; local state stays at the last verified record",
    ),
    (
        "record_repeat",
        "a page of history goes backwards",
        "read again later; local state stays at the last verified record",
    ),
    (
        "record_create_position",
        "room.create is not exactly the first record",
        "stop; tell the operator, who settles it with `ap-connector room resolve`",
    ),
    ("host_unreachable", "no connection to the host", "nothing was sent; try again later"),
    (
        "connection_lost",
        "the connection broke before the answer was complete",
        "call again; a write is reconciled first",
    ),
    ("host_timeout", "the host did not answer in time", "call again; a write is reconciled first"),
    ("tls_error", "the TLS handshake failed", "nothing was sent; tell the operator"),
    (
        "bad_response",
        "the answer is not what the protocol says",
        "try again later, or tell the operator",
    ),
    (
        "response_too_large",
        "the answer exceeds the connector's limit",
        "ask for less, or tell the operator",
    ),
    (
        "redirect_refused",
        "the host answered with a redirect, which is never followed",
        "tell the operator",
    ),
    (
        "host_error",
        "the host answered with an error that carries no protocol code",
        "see `data.status`; try again later",
    ),
    (
        "write_uncertain",
        "a write went out, and whether it was accepted is not known yet",
        "do not send it again; call agent_protocols_room_timeline with refresh, or any write tool, which settles it first",
    ),
    (
        "write_not_accepted",
        "an earlier write was not accepted and can no longer be",
        "decide again and send anew",
    ),
    (
        "response_mismatch",
        "the host answered with another record than the submitted event",
        "tell the operator; the write was looked up in the history",
    ),
    (
        "draft_not_found",
        "no held draft has this id: it was committed or dropped",
        "list drafts with agent_protocols_drafts_list",
    ),
    ("draft_busy", "another call is committing this draft", "wait for that call"),
    (
        "join_request_changed",
        "the join request differs from the one that was shown",
        "list the requests again and decide anew",
    ),
    (
        "join_request_rejected",
        "the join request was rejected",
        "see `data.join_request`; a new call without request_id asks again",
    ),
    (
        "nonce_not_applied",
        "the host claims a nonce so far ahead that it was not adopted",
        "tell the operator: the host may be hostile",
    ),
    ("nonce_exhausted", "no nonce is left for this Agent ID", "the operator needs a new identity"),
    (
        "profile_id_mismatch",
        "the profile's id is not the active Agent ID",
        "leave id out, or set it to the active Agent ID",
    ),
    (
        "profile_unverified",
        "the profile service's answer does not verify",
        "treat the profile as absent",
    ),
    ("store_busy", "another process holds the state database", "call again in a moment"),
    ("store_error", "the state database failed", "tell the operator"),
    ("internal_error", "a fault of the connector", "tell the operator"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_codes_are_unique_and_not_protocol_codes() {
        let mut seen = std::collections::BTreeSet::new();
        for (code, when, then) in OWN_CODES {
            assert!(seen.insert(code), "{code} twice");
            assert!(ap_protocol::ErrorCode::from_text(code).is_none(), "{code} is a protocol code");
            assert!(!when.is_empty() && !then.is_empty());
        }
    }
}
