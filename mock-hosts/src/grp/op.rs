//! What can be asked of a room host, and what one request for it brings: operation, room,
//! arguments, credential, idempotency key. Data only; nothing here decides.

use serde_json::{Map, Value};

use super::mandate::Mandate;
use super::model::Agent;

macro_rules! ops {
    ($($variant:ident = $name:literal, $gate:ident, $action:expr, $mutates:literal;)+) => {
        /// An operation, named as its MCP tool.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[allow(missing_docs)]
        pub enum Op { $($variant,)+ }

        impl Op {
            /// All operations.
            pub const ALL: &'static [Op] = &[$(Op::$variant,)+];
            /// Name.
            pub fn name(self) -> &'static str {
                match self { $(Op::$variant => $name,)+ }
            }
            /// Who gets past the door.
            pub fn gate(self) -> Gate {
                match self { $(Op::$variant => Gate::$gate,)+ }
            }
            /// The mandate action it takes; `Some("")`: no mandate covers it.
            pub fn action(self) -> Option<&'static str> {
                match self { $(Op::$variant => $action,)+ }
            }
            /// Whether it changes anything, and so honours Idempotency-Key.
            pub fn mutates(self) -> bool {
                match self { $(Op::$variant => $mutates,)+ }
            }
        }
    };
}

/// Who gets past the door of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    /// Everybody.
    Open,
    /// Whoever may read the room.
    Read,
    /// Members.
    Member,
}

ops! {
    CreateRoom = "create_room", Open, None, true;
    JoinRoom = "join_room", Open, None, true;
    ReadRoom = "read_room", Read, None, false;
    Ask = "ask", Member, Some("ask"), true;
    StartChoosing = "start_choosing", Member, Some("start_choosing"), true;
    Choose = "choose", Member, Some("choose"), true;
    Abstain = "abstain", Member, Some("choose"), true;
    Discuss = "discuss", Member, Some("discuss"), true;
    Propose = "propose", Member, Some("propose"), true;
    Wait = "wait", Member, None, false;
    WaitOutcome = "wait_outcome", Member, None, false;
    CloseRoom = "close_room", Member, Some("close"), true;
    Outcome = "outcome", Read, None, false;
    ListDecisions = "list_decisions", Read, None, false;
    ListEvents = "list_events", Read, None, false;
    ListRooms = "list_rooms", Open, None, false;
    DeleteRoom = "delete_room", Member, Some(""), true;
    InviteToRoom = "invite_to_room", Member, Some(""), true;
    ListInvites = "list_invites", Member, None, false;
    RevokeInvite = "revoke_invite", Member, Some(""), true;
    UpdateMember = "update_member", Member, Some(""), true;
    UpdateRoomSettings = "update_room_settings", Member, Some(""), true;
    RegisterWebhook = "register_webhook", Member, Some(""), true;
    UnregisterWebhook = "unregister_webhook", Member, Some(""), true;
    ListWebhooks = "list_webhooks", Member, None, false;
}

/// What a caller presents. `Debug` shows none of it.
#[derive(Clone, Default)]
pub struct Credential {
    /// Participant token.
    pub token: Option<String>,
    /// Compact mandate.
    pub mandate: Option<String>,
    /// Room password (read access).
    pub password: Option<String>,
}

impl std::fmt::Debug for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Credential(..)")
    }
}

/// One call.
#[derive(Debug, Clone)]
pub struct Call {
    /// What.
    pub op: Op,
    /// Which room, for every operation but creation and `list_rooms`.
    pub slug: Option<String>,
    /// Arguments: the REST body or query, or the MCP arguments without slug and token.
    pub args: Map<String, Value>,
    /// Who.
    pub credential: Credential,
    /// Idempotency-Key.
    pub idempotency_key: Option<String>,
    /// `rest` or `mcp`.
    pub transport: &'static str,
}

/// Who is calling, after the door.
#[derive(Debug, Clone, Default)]
pub struct Caller {
    /// Seat, if a member.
    pub seat: Option<usize>,
    /// The mandate it acts under.
    pub mandate: Option<Mandate>,
}

impl Caller {
    /// The seat of a call that passed the member gate.
    pub fn member(&self) -> usize {
        self.seat.expect("the member gate lets nobody through without a seat")
    }

    /// The mandate as rows keep it.
    pub fn agent(&self) -> Option<Agent> {
        self.mandate.as_ref().map(|m| Agent {
            iss: m.iss.clone(),
            sub: m.sub.clone(),
            jti: m.jti.clone(),
        })
    }
}
