//! The one error of the GRP host: a stable code, its HTTP status, a message that says what
//! to do, and nothing secret. Transports only translate it.

use serde_json::{Value, json};

/// A refused operation (GRP Errors).
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct GrpError {
    /// Stable code, such as `room.not_found`.
    pub code: &'static str,
    /// HTTP status of the REST binding.
    pub status: u16,
    /// One paragraph: what happened and what to do next. Never quotes a credential.
    pub message: String,
    /// Facts a program can use.
    pub details: Option<Value>,
    /// Seconds until another try can succeed (429).
    pub retry_after_s: Option<u64>,
}

impl GrpError {
    /// An error of a known code.
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        GrpError {
            code,
            status: status_of(code),
            message: message.into(),
            details: None,
            retry_after_s: None,
        }
    }

    /// `input.invalid`.
    pub fn input(message: impl Into<String>) -> Self {
        Self::new("input.invalid", message)
    }

    /// Adds `details`.
    #[must_use]
    pub fn with(mut self, details: Value) -> Self {
        self.details = Some(details);
        self
    }

    /// Adds `Retry-After`.
    #[must_use]
    pub fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after_s = Some(seconds);
        self
    }

    /// Whether the same request meets the same answer: such answers may be remembered under
    /// an idempotency key.
    pub fn is_deterministic(&self) -> bool {
        !matches!(self.status, 401 | 429 | 500..)
    }

    /// The wire envelope.
    pub fn envelope(&self, request_id: Option<&str>) -> Value {
        let mut error = json!({ "code": self.code, "message": self.message });
        if let Some(details) = &self.details {
            error["details"] = details.clone();
        }
        if let Some(s) = self.retry_after_s {
            error["hint"] = json!(format!("try again in {s} s"));
        }
        if let Some(id) = request_id {
            error["request_id"] = json!(id);
        }
        json!({ "error": error })
    }

    /// The stored form of an idempotent answer.
    pub(super) fn to_stored(&self) -> Value {
        json!({ "code": self.code, "message": self.message, "details": self.details })
    }

    pub(super) fn from_stored(v: &Value) -> Self {
        let code = v["code"].as_str().and_then(known_code).unwrap_or("internal.error");
        let mut e = GrpError::new(code, v["message"].as_str().unwrap_or_default());
        e.details = Some(v["details"].clone()).filter(|d| !d.is_null());
        e
    }
}

/// Code and status: the whole vocabulary.
const CODES: &[(&str, u16)] = &[
    ("input.invalid", 400),
    ("auth.required", 401),
    ("auth.invalid_token", 401),
    ("auth.invalid_password", 401),
    ("auth.mandate_required", 403),
    ("auth.mandate_not_accepted", 403),
    ("participant.token_superseded", 401),
    ("mandate.malformed", 401),
    ("mandate.issuer_unresolved", 401),
    ("mandate.signature_invalid", 401),
    ("mandate.not_yet_valid", 401),
    ("mandate.expired", 401),
    ("mandate.room_not_in_scope", 403),
    ("mandate.action_not_in_scope", 403),
    ("mandate.weight_cap_exceeded", 403),
    ("mandate.rate_cap_exceeded", 429),
    ("mandate.revoked", 401),
    ("room.not_found", 404),
    ("room.join_required", 403),
    ("room.invite_required", 403),
    ("room.at_capacity", 409),
    ("room.concluded", 400),
    ("decision.not_open", 400),
    ("decision.proposing", 400),
    ("decision.not_found", 404),
    ("decision.already_open", 409),
    ("choice.invalid_option", 400),
    ("choice.not_eligible", 403),
    ("invite.invalid", 400),
    ("authority.denied", 403),
    ("idempotency.conflict", 409),
    ("rate_limit.exceeded", 429),
    ("vendor:lab:method_not_allowed", 405),
    ("vendor:lab:route_not_found", 404),
    ("vendor:lab:payload_too_large", 413),
    ("vendor:lab:webhook_not_found", 404),
    ("vendor:lab:participant_not_found", 404),
    ("internal.error", 500),
];

/// Every code the host can answer with.
pub fn codes() -> impl Iterator<Item = (&'static str, u16)> {
    CODES.iter().copied()
}

fn known_code(code: &str) -> Option<&'static str> {
    CODES.iter().find(|(c, _)| *c == code).map(|(c, _)| *c)
}

fn status_of(code: &str) -> u16 {
    CODES.iter().find(|(c, _)| *c == code).map_or(500, |(_, s)| *s)
}
