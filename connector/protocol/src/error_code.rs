//! The 29 error codes of ADP section 20.

macro_rules! codes {
    ($($variant:ident = $text:literal, $status:literal;)*) => {
        /// A protocol error code (ADP 20). Its text on the wire is stable.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[allow(missing_docs)]
        pub enum ErrorCode { $($variant,)* }

        impl ErrorCode {
            /// Every code, in the order of the protocol text.
            pub const ALL: &'static [ErrorCode] = &[$(ErrorCode::$variant,)*];

            /// The text on the wire.
            pub fn as_str(self) -> &'static str {
                match self { $(ErrorCode::$variant => $text,)* }
            }

            /// The HTTP status our hosts answer with.
            pub fn http_status(self) -> u16 {
                match self { $(ErrorCode::$variant => $status,)* }
            }

            /// The code of a wire text.
            pub fn from_text(text: &str) -> Option<Self> {
                match text { $($text => Some(ErrorCode::$variant),)* _ => None }
            }
        }
    };
}

codes! {
    InvalidEvent = "invalid_event", 400;
    InvalidEventHash = "invalid_event_hash", 400;
    InvalidSignature = "invalid_signature", 401;
    InvalidActor = "invalid_actor", 400;
    TimestampOutOfWindow = "timestamp_out_of_window", 400;
    NonceNotGreater = "nonce_not_greater", 409;
    RoomNotFound = "room_not_found", 404;
    RoomNotActive = "room_not_active", 409;
    RoomEnded = "room_ended", 409;
    PermissionDenied = "permission_denied", 403;
    ApprovalRequired = "approval_required", 403;
    JoinRequestNotFound = "join_request_not_found", 404;
    JoinRequestNotApproved = "join_request_not_approved", 409;
    JoinRequestRoleMismatch = "join_request_role_mismatch", 409;
    JoinRequestExpired = "join_request_expired", 409;
    MemberBanned = "member_banned", 403;
    RoleNotAllowed = "role_not_allowed", 403;
    MaxSpeakersExceeded = "max_speakers_exceeded", 409;
    MembershipRequired = "membership_required", 403;
    InvalidToken = "invalid_token", 401;
    RoomHeadMismatch = "room_head_mismatch", 409;
    BaseRecordMismatch = "base_record_mismatch", 409;
    AgentStatusNotFound = "agent_status_not_found", 404;
    RateLimited = "rate_limited", 429;
    PayloadTooLarge = "payload_too_large", 413;
    TypeNotDefined = "type_not_defined", 400;
    TypeDisabled = "type_disabled", 409;
    PayloadSchemaViolation = "payload_schema_violation", 422;
    PackUnavailable = "pack_unavailable", 422;
}

impl std::fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}
