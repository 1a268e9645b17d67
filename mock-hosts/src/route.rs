//! Route names and path parsing of the ADP and APP hosts.

use serde::{Deserialize, Serialize};

/// The routes of the hosts, as faults and the journal name them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Route {
    /// `GET /.well-known/agent-discourse`
    Discovery,
    /// `POST /v1/rooms`
    Create,
    /// `POST /v1/rooms/{room}`
    Submit,
    /// `GET /v1/rooms/{room}`
    Room,
    /// `GET /v1/rooms/{room}/events`
    Events,
    /// `GET /v1/rooms/{room}/events/live`
    Live,
    /// `POST /v1/rooms/{room}/join-requests`
    JoinRequest,
    /// `GET /v1/rooms/{room}/join-requests`
    JoinRequests,
    /// `GET /v1/rooms/{room}/join-requests/{id}`
    JoinRequestRead,
    /// `GET /v1/rooms/public`
    Public,
    /// `GET /v1/me/rooms`
    MyRooms,
    /// `GET /v1/rooms/{room}/agent-status`
    Statuses,
    /// `GET /v1/rooms/{room}/agent-status/{agent}`
    Status,
    /// `PUT /v1/rooms/{room}/agent-status`
    StatusPut,
    /// `GET /v1/rooms/{room}/archive`
    Archive,
    /// `GET /v1/rooms/{room}/archive.jsonl`
    ArchiveJsonl,
    /// `GET /v1/rooms/{room}/archive.md`
    ArchiveMd,
    /// `GET /packs/{name}`: pack documents the host offers
    Pack,
    /// `GET /openapi.json`
    Openapi,
    /// `GET /.well-known/agent-profile`
    ProfileDiscovery,
    /// `POST /v1/profiles`
    ProfileUpdate,
    /// `POST /v1/profiles/batch`
    ProfileBatch,
    /// `GET /v1/profiles/{agent}`
    Profile,
    /// `GET /v1/profiles/{agent}/events`
    ProfileEvents,
}

impl Route {
    /// The name, as in plans and the journal.
    pub fn as_str(self) -> &'static str {
        match self {
            Route::Discovery => "discovery",
            Route::Create => "create",
            Route::Submit => "submit",
            Route::Room => "room",
            Route::Events => "events",
            Route::Live => "live",
            Route::JoinRequest => "join_request",
            Route::JoinRequests => "join_requests",
            Route::JoinRequestRead => "join_request_read",
            Route::Public => "public",
            Route::MyRooms => "my_rooms",
            Route::Statuses => "statuses",
            Route::Status => "status",
            Route::StatusPut => "status_put",
            Route::Archive => "archive",
            Route::ArchiveJsonl => "archive_jsonl",
            Route::ArchiveMd => "archive_md",
            Route::Pack => "pack",
            Route::Openapi => "openapi",
            Route::ProfileDiscovery => "profile_discovery",
            Route::ProfileUpdate => "profile_update",
            Route::ProfileBatch => "profile_batch",
            Route::Profile => "profile",
            Route::ProfileEvents => "profile_events",
        }
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
