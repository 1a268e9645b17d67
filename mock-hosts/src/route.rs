//! Route names of all hosts, and path parsing of the ADP and APP hosts.

use serde::{Deserialize, Serialize};

macro_rules! routes {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal,)+) => {
        /// The routes of the hosts, as faults and the journal name them.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum Route { $($(#[doc = $doc])+ #[serde(rename = $name)] $variant,)+ }

        impl Route {
            /// All of them.
            pub const ALL: &'static [Route] = &[$(Route::$variant,)+];

            /// The name, as in plans and the journal.
            pub fn as_str(self) -> &'static str {
                match self { $(Route::$variant => $name,)+ }
            }
        }
    };
}

routes! {
    /// `GET /.well-known/agent-discourse`
    Discovery = "discovery",
    /// `POST /v1/rooms`
    Create = "create",
    /// `POST /v1/rooms/{room}`
    Submit = "submit",
    /// `GET /v1/rooms/{room}`
    Room = "room",
    /// `GET /v1/rooms/{room}/events`
    Events = "events",
    /// `GET /v1/rooms/{room}/events/live`
    Live = "live",
    /// `POST /v1/rooms/{room}/join-requests`
    JoinRequest = "join_request",
    /// `GET /v1/rooms/{room}/join-requests`
    JoinRequests = "join_requests",
    /// `GET /v1/rooms/{room}/join-requests/{id}`
    JoinRequestRead = "join_request_read",
    /// `GET /v1/rooms/public`
    Public = "public",
    /// `GET /v1/me/rooms`
    MyRooms = "my_rooms",
    /// `GET /v1/rooms/{room}/agent-status`
    Statuses = "statuses",
    /// `GET /v1/rooms/{room}/agent-status/{agent}`
    Status = "status",
    /// `PUT /v1/rooms/{room}/agent-status`
    StatusPut = "status_put",
    /// `GET /v1/rooms/{room}/archive`
    Archive = "archive",
    /// `GET /v1/rooms/{room}/archive.jsonl`
    ArchiveJsonl = "archive_jsonl",
    /// `GET /v1/rooms/{room}/archive.md`
    ArchiveMd = "archive_md",
    /// `GET /packs/{name}`: pack documents the host offers
    Pack = "pack",
    /// `GET /openapi.json`
    Openapi = "openapi",
    /// `GET /.well-known/agent-profile`
    ProfileDiscovery = "profile_discovery",
    /// `POST /v1/profiles`
    ProfileUpdate = "profile_update",
    /// `POST /v1/profiles/batch`
    ProfileBatch = "profile_batch",
    /// `GET /v1/profiles/{agent}`
    Profile = "profile",
    /// `GET /v1/profiles/{agent}/events`
    ProfileEvents = "profile_events",
    /// `POST /api/rooms`
    GrpCreateRoom = "grp_create_room",
    /// `GET /api/rooms/{slug}`
    GrpReadRoom = "grp_read_room",
    /// `DELETE /api/rooms/{slug}`
    GrpDeleteRoom = "grp_delete_room",
    /// `POST /api/rooms/{slug}/join`
    GrpJoinRoom = "grp_join_room",
    /// `POST /api/rooms/{slug}/ask`
    GrpAsk = "grp_ask",
    /// `POST /api/rooms/{slug}/start-choosing`
    GrpStartChoosing = "grp_start_choosing",
    /// `POST /api/rooms/{slug}/choose`
    GrpChoose = "grp_choose",
    /// `POST /api/rooms/{slug}/abstain`
    GrpAbstain = "grp_abstain",
    /// `POST /api/rooms/{slug}/discuss`
    GrpDiscuss = "grp_discuss",
    /// `POST /api/rooms/{slug}/options`
    GrpPropose = "grp_propose",
    /// `POST /api/rooms/{slug}/close`
    GrpCloseRoom = "grp_close_room",
    /// `GET /api/rooms/{slug}/next-action`
    GrpWait = "grp_wait",
    /// `GET /api/rooms/{slug}/outcome`
    GrpOutcome = "grp_outcome",
    /// `GET /api/rooms/{slug}/decisions`
    GrpListDecisions = "grp_list_decisions",
    /// `GET /api/rooms/{slug}/events`
    GrpListEvents = "grp_list_events",
    /// `PATCH /api/rooms/{slug}/settings`
    GrpUpdateRoomSettings = "grp_update_room_settings",
    /// `POST /api/rooms/{slug}/invites`
    GrpInviteToRoom = "grp_invite_to_room",
    /// `GET /api/rooms/{slug}/invites`
    GrpListInvites = "grp_list_invites",
    /// `DELETE /api/rooms/{slug}/invites/{code}`
    GrpRevokeInvite = "grp_revoke_invite",
    /// `PATCH /api/rooms/{slug}/members/{participant}`
    GrpUpdateMember = "grp_update_member",
    /// `POST /api/rooms/{slug}/webhooks`
    GrpRegisterWebhook = "grp_register_webhook",
    /// `GET /api/rooms/{slug}/webhooks`
    GrpListWebhooks = "grp_list_webhooks",
    /// `DELETE /api/rooms/{slug}/webhooks/{id}`
    GrpUnregisterWebhook = "grp_unregister_webhook",
    /// `GET /api/rooms/{slug}/events/stream`
    GrpStream = "grp_stream",
    /// `GET /r/{slug}`
    GrpPage = "grp_page",
    /// `GET /.well-known/grp.json`
    GrpDiscovery = "grp_discovery",
    /// `GET /api/openapi.json`
    GrpOpenapi = "grp_openapi",
    /// `GET /healthz, GET /readyz`
    GrpHealth = "grp_health",
    /// `POST /mcp`
    GrpMcp = "grp_mcp",
    /// `POST /mcp/host`
    GrpMcpHost = "grp_mcp_host",
}

impl Route {
    /// By its name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|r| r.as_str() == name)
    }

    /// Whether the route belongs to the profile host.
    pub fn is_profile(self) -> bool {
        matches!(
            self,
            Route::ProfileDiscovery
                | Route::ProfileUpdate
                | Route::ProfileBatch
                | Route::Profile
                | Route::ProfileEvents
        )
    }

    /// Whether the route belongs to a GRP host.
    pub fn is_grp(self) -> bool {
        self.as_str().starts_with("grp_")
    }

    /// Whether the answer is an event stream.
    pub fn is_stream(self) -> bool {
        matches!(self, Route::Live | Route::GrpStream)
    }
}

/// A parsed path: the route for the method, and the variable parts, decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub route: Route,
    /// Room id, or Agent ID on profile routes.
    pub first: String,
    /// Request id or Agent ID below a room.
    pub second: String,
}

/// What a method and a path mean.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Parsed {
    Target(Target),
    /// The path exists, not with this method.
    Method(&'static str),
    Unknown,
}

pub(crate) fn parse(method: &str, path: &str) -> Parsed {
    let Some(parts) = path
        .strip_prefix('/')
        .and_then(|p| p.split('/').map(decode).collect::<Option<Vec<String>>>())
    else {
        return Parsed::Unknown;
    };
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let of = |table: &[(&'static str, Route)], first: &str, second: &str| match table
        .iter()
        .find(|(m, _)| *m == method)
    {
        Some((_, route)) => Parsed::Target(Target {
            route: *route,
            first: first.to_owned(),
            second: second.to_owned(),
        }),
        None if table.len() == 2 => Parsed::Method("GET, POST"),
        None => Parsed::Method(table[0].0),
    };
    match parts[..] {
        [".well-known", "agent-discourse"] => of(&[("GET", Route::Discovery)], "", ""),
        [".well-known", "agent-profile"] => of(&[("GET", Route::ProfileDiscovery)], "", ""),
        ["openapi.json"] => of(&[("GET", Route::Openapi)], "", ""),
        ["packs", name] => of(&[("GET", Route::Pack)], name, ""),
        ["v1", "rooms"] => of(&[("POST", Route::Create)], "", ""),
        ["v1", "rooms", "public"] => of(&[("GET", Route::Public)], "", ""),
        ["v1", "me", "rooms"] => of(&[("GET", Route::MyRooms)], "", ""),
        ["v1", "rooms", room] if !room.is_empty() => {
            of(&[("GET", Route::Room), ("POST", Route::Submit)], room, "")
        }
        ["v1", "rooms", room, "events"] => of(&[("GET", Route::Events)], room, ""),
        ["v1", "rooms", room, "events", "live"] => of(&[("GET", Route::Live)], room, ""),
        ["v1", "rooms", room, "join-requests"] => {
            of(&[("GET", Route::JoinRequests), ("POST", Route::JoinRequest)], room, "")
        }
        ["v1", "rooms", room, "join-requests", id] => {
            of(&[("GET", Route::JoinRequestRead)], room, id)
        }
        ["v1", "rooms", room, "agent-status"] => {
            of(&[("GET", Route::Statuses), ("PUT", Route::StatusPut)], room, "")
        }
        ["v1", "rooms", room, "agent-status", agent] => of(&[("GET", Route::Status)], room, agent),
        ["v1", "rooms", room, "archive"] => of(&[("GET", Route::Archive)], room, ""),
        ["v1", "rooms", room, "archive.jsonl"] => of(&[("GET", Route::ArchiveJsonl)], room, ""),
        ["v1", "rooms", room, "archive.md"] => of(&[("GET", Route::ArchiveMd)], room, ""),
        ["v1", "profiles"] => of(&[("POST", Route::ProfileUpdate)], "", ""),
        ["v1", "profiles", "batch"] => of(&[("POST", Route::ProfileBatch)], "", ""),
        ["v1", "profiles", agent] => of(&[("GET", Route::Profile)], agent, ""),
        ["v1", "profiles", agent, "events"] => of(&[("GET", Route::ProfileEvents)], agent, ""),
        _ => Parsed::Unknown,
    }
}

/// Percent-decodes one path segment; none when that is not UTF-8 or not well formed.
fn decode(segment: &str) -> Option<String> {
    if !segment.contains('%') {
        return Some(segment.to_owned());
    }
    let mut out = Vec::with_capacity(segment.len());
    let mut bytes = segment.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let high = char::from(bytes.next()?).to_digit(16)?;
            let low = char::from(bytes.next()?).to_digit(16)?;
            out.push(u8::try_from(high * 16 + low).ok()?);
        } else {
            out.push(byte);
        }
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        let target = |route, first: &str, second: &str| {
            Parsed::Target(Target { route, first: first.into(), second: second.into() })
        };
        assert_eq!(parse("GET", "/v1/rooms/public"), target(Route::Public, "", ""));
        assert_eq!(parse("POST", "/v1/rooms/a%2Fb"), target(Route::Submit, "a/b", ""));
        assert_eq!(
            parse("GET", "/v1/rooms/r/join-requests/q"),
            target(Route::JoinRequestRead, "r", "q")
        );
        assert_eq!(parse("DELETE", "/v1/rooms/r"), Parsed::Method("GET, POST"));
        assert_eq!(parse("POST", "/v1/rooms/r/archive"), Parsed::Method("GET"));
        for unknown in ["/", "/v1/rooms/", "/v1/rooms/%zz", "/v1/rooms/%ff/events"] {
            assert_eq!(parse("GET", unknown), Parsed::Unknown, "{unknown}");
        }
    }
}
