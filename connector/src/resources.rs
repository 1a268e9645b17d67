//! The ten resources of seed 4.4, and which changes concern which URI.

use std::sync::Arc;

use ap_protocol::RoomState;
use serde_json::{Map, Value, json};

use crate::core::{Change, Core};
use crate::drafts;
use crate::error::ToolError;
use crate::inbox;
use crate::join::check_segment;
use crate::store::RoomRow;
use crate::views::{self, RoomViewOptions};

/// How long a resource waits for the host's statuses.
const STATUS_PATIENCE: std::time::Duration = std::time::Duration::from_secs(2);

const SCHEME: &str = "agent-protocols://";
/// Most records that the timeline resource shows: the latest ones.
const TIMELINE_ITEMS: usize = 100;

/// The resources without a parameter: URI, name, description.
pub const FIXED: [(&str, &str, &str); 5] = [
    (
        "agent-protocols://identity/current",
        "identity",
        "Active local Agent ID and non-secret configuration.",
    ),
    ("agent-protocols://hosts", "hosts", "The operator's host allowlist with discovery metadata."),
    ("agent-protocols://rooms", "rooms", "Locally known rooms with unread summaries."),
    ("agent-protocols://inbox/pending", "inbox", "Inbox items that wait for the agent."),
    ("agent-protocols://drafts/held", "drafts", "Held drafts that wait for a decision."),
];

/// The resource templates: URI, name, description.
pub const TEMPLATES: [(&str, &str, &str); 5] = [
    (
        "agent-protocols://rooms/{room_id}{?host}",
        "room",
        "Materialized room state and the latest hash-chain head.",
    ),
    (
        "agent-protocols://rooms/{room_id}/members{?host}",
        "members",
        "Local member directory from verified records.",
    ),
    (
        "agent-protocols://rooms/{room_id}/timeline{?host}",
        "timeline",
        "The latest verified events.",
    ),
    ("agent-protocols://rooms/{room_id}/types{?host}", "types", "Materialized type registry."),
    (
        "agent-protocols://rooms/{room_id}/agent-status{?host}",
        "agent-status",
        "Current unexpired transient agent status.",
    ),
];

/// What a URI names.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Target {
    Identity,
    Hosts,
    Rooms,
    Inbox,
    Drafts,
    Room { room_id: String, host: Option<String>, part: Part },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    State,
    Members,
    Timeline,
    Types,
    AgentStatus,
}

fn parse(uri: &str) -> Option<Target> {
    let rest = uri.strip_prefix(SCHEME)?;
    let (path, query) = rest.split_once('?').map_or((rest, None), |(p, q)| (p, Some(q)));
    let host = match query {
        None => None,
        Some(query) => {
            let mut pairs = url::form_urlencoded::parse(query.as_bytes());
            let (name, value) = pairs.next()?;
            if name != "host" || pairs.next().is_some() {
                return None;
            }
            Some(value.into_owned())
        }
    };
    let parts: Vec<&str> = path.split('/').collect();
    let target = match parts[..] {
        ["identity", "current"] => Target::Identity,
        ["hosts"] => Target::Hosts,
        ["rooms"] => Target::Rooms,
        ["inbox", "pending"] => Target::Inbox,
        ["drafts", "held"] => Target::Drafts,
        ["rooms", id] => room(id, host.clone(), Part::State)?,
        ["rooms", id, "members"] => room(id, host.clone(), Part::Members)?,
        ["rooms", id, "timeline"] => room(id, host.clone(), Part::Timeline)?,
        ["rooms", id, "types"] => room(id, host.clone(), Part::Types)?,
        ["rooms", id, "agent-status"] => room(id, host.clone(), Part::AgentStatus)?,
        _ => return None,
    };
    let fixed = !matches!(target, Target::Room { .. });
    if fixed && host.is_some() { None } else { Some(target) }
}

fn room(id: &str, host: Option<String>, part: Part) -> Option<Target> {
    check_segment("room_id", id).ok()?;
    Some(Target::Room { room_id: id.to_owned(), host, part })
}

/// Whether the URI names one of our resources.
pub fn is_known(uri: &str) -> bool {
    parse(uri).is_some()
}

/// Whether a change is visible in the resource.
pub fn concerns(uri: &str, change: &Change) -> bool {
    let Some(target) = parse(uri) else { return false };
    let here = |room_id: &str, host: &Option<String>, at: &str, id: &str| {
        room_id == id && host.as_deref().is_none_or(|h| h.trim_end_matches('/') == at)
    };
    match (&target, change) {
        (Target::Inbox, Change::Inbox) | (Target::Drafts, Change::Drafts) => true,
        (Target::Rooms, Change::Room { .. } | Change::Timeline { .. }) => true,
        (
            Target::Room { room_id, host, part: Part::Timeline },
            Change::Timeline { host: at, room_id: id },
        )
        | (
            Target::Room { room_id, host, part: Part::AgentStatus },
            Change::AgentStatus { host: at, room_id: id },
        )
        | (
            Target::Room { room_id, host, part: Part::State | Part::Members | Part::Types },
            Change::Room { host: at, room_id: id },
        ) => here(room_id, host, at, id),
        _ => false,
    }
}

/// URI, name and description of every resource there is now.
///
/// # Errors
/// `store_error`.
pub fn list(core: &Core) -> Result<Vec<(String, String, String)>, ToolError> {
    let mut all: Vec<(String, String, String)> = FIXED
        .iter()
        .map(|(uri, name, text)| ((*uri).to_owned(), (*name).to_owned(), (*text).to_owned()))
        .collect();
    let rows = core.store.read(RoomRow::all)?;
    for row in &rows {
        let ambiguous = rows.iter().filter(|r| r.room_id == row.room_id).count() > 1;
        let query = if ambiguous {
            let host: String = url::form_urlencoded::byte_serialize(row.host.as_bytes()).collect();
            format!("?host={host}")
        } else {
            String::new()
        };
        for (part, what) in [
            ("", "state"),
            ("/members", "members"),
            ("/timeline", "timeline"),
            ("/types", "types"),
            ("/agent-status", "agent status"),
        ] {
            // The topic is somebody's words: it does not go into names or descriptions.
            all.push((
                format!("{SCHEME}rooms/{}{part}{query}", row.room_id),
                format!("{} {what}", row.room_id),
                format!("Room {} on {}: {what}.", row.room_id, row.host),
            ));
        }
    }
    Ok(all)
}

fn find(core: &Core, room_id: &str, host: Option<&str>) -> Result<RoomRow, ToolError> {
    let unknown = || {
        ToolError::new("room_not_known", "this connector does not know the room")
            .with(json!({ "room_id": room_id }))
    };
    if let Some(host) = host {
        let host = core.http.host(host)?;
        return core.store.read(|c| RoomRow::find(c, host.as_str(), room_id))?.ok_or_else(unknown);
    }
    let mut rows = core.store.read(|c| RoomRow::with_id(c, room_id))?;
    match rows.len() {
        0 => Err(unknown()),
        1 => Ok(rows.remove(0)),
        _ => {
            let hosts: Vec<&str> = rows.iter().map(|r| r.host.as_str()).collect();
            Err(ToolError::new(
                "room_ambiguous",
                "the room_id exists on several hosts; add ?host= to the URI",
            )
            .with(json!({ "room_id": room_id, "hosts": hosts })))
        }
    }
}

/// The content of a resource; none when the URI names none.
///
/// # Errors
/// `room_not_known`, `room_ambiguous`, `store_error`.
pub async fn read(core: &Arc<Core>, uri: &str) -> Result<Option<Value>, ToolError> {
    let Some(target) = parse(uri) else { return Ok(None) };
    let now = core.clock.now_ms();
    let me = core.me().clone();
    Ok(Some(match target {
        Target::Identity => json!({
            "agent_id": me, "public_key": ap_protocol::encoding::encode(me.key_bytes()),
            "profiles": core.profile_services, "hosts": core.hosts_view().await?,
        }),
        Target::Hosts => json!({ "hosts": core.hosts_view().await? }),
        Target::Rooms => core.store.read(|c| {
            let mut rooms = Vec::new();
            for row in RoomRow::all(c)? {
                let state = row.state(c)?;
                rooms.push(views::room_summary(c, &row, state.as_ref(), &me, now)?);
            }
            Ok::<_, ToolError>(json!({ "rooms": rooms }))
        })?,
        Target::Inbox => core.store.read(|c| {
            let items = inbox::pending_items(c, now)?;
            Ok::<_, ToolError>(json!({ "items": items, "pending_count": items.len() }))
        })?,
        Target::Drafts => core.store.read(|c| {
            let mut shown = Vec::new();
            for draft in drafts::list(c, None, None, 500)? {
                let row = RoomRow::get(c, draft.room)?;
                let sync = views::sync_state(c, &row, core.live.subscribed(row.id), now)?;
                shown.push(drafts::view(&draft, &row, sync));
            }
            Ok::<_, ToolError>(json!({ "drafts": shown }))
        })?,
        Target::Room { room_id, host, part } => {
            let row = find(core, &room_id, host.as_deref())?;
            if matches!(part, Part::AgentStatus) {
                // No stream tells of a status that was set before it was up. Where the host
                // does not answer in time, what is remembered and unexpired is shown.
                let asked = tokio::time::timeout(STATUS_PATIENCE, core.read_statuses(&row));
                if !matches!(asked.await, Ok(Ok(()))) {
                    tracing::debug!(room = %row.room_id, "statuses as remembered");
                }
            }
            room_part(core, &row, part)?
        }
    }))
}

fn room_part(core: &Core, row: &RoomRow, part: Part) -> Result<Value, ToolError> {
    let now = core.clock.now_ms();
    let me = core.me();
    let subscribed = core.live.subscribed(row.id);
    core.store.read(|c| {
        let row = RoomRow::get(c, row.id)?;
        let state: Option<RoomState> = row.state(c)?;
        let sync = views::sync_state(c, &row, subscribed, now)?;
        Ok(match part {
            Part::State => {
                let options = RoomViewOptions { include_types: true, now_ms: now };
                json!({ "room": views::room_view(c, &row, state.as_ref(), me, options)?, "sync": sync })
            }
            Part::Members => {
                let members: Vec<Value> = state
                    .as_ref()
                    .map(|s| s.members.iter().map(|(id, m)| views::member_view(s, id, m)).collect())
                    .unwrap_or_default();
                json!({ "members": members, "sync": sync })
            }
            Part::Timeline => {
                let records = row.records_where(
                    c,
                    "ORDER BY seq DESC LIMIT ?2",
                    &[&(TIMELINE_ITEMS as i64)],
                )?;
                let items: Vec<Value> =
                    records.iter().rev().map(|r| views::timeline_item(&row, r)).collect();
                json!({ "items": items, "sync": sync })
            }
            Part::Types => {
                let types: Vec<Map<String, Value>> = state
                    .as_ref()
                    .map(|s| s.registry.iter().map(|(_, d)| d.definition.clone()).collect())
                    .unwrap_or_default();
                json!({ "types": types, "sync": sync })
            }
            Part::AgentStatus => {
                json!({ "statuses": crate::status::cached(c, &row, now)?, "sync": sync })
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris() {
        assert_eq!(parse("agent-protocols://hosts"), Some(Target::Hosts));
        assert_eq!(
            parse("agent-protocols://rooms/r1/timeline?host=http%3A%2F%2F127.0.0.1%3A1"),
            Some(Target::Room {
                room_id: "r1".into(),
                host: Some("http://127.0.0.1:1".into()),
                part: Part::Timeline
            })
        );
        for bad in [
            "agent-protocols://rooms/../hosts",
            "agent-protocols://hosts?host=x",
            "http://hosts",
            "agent-protocols://rooms/a/b/c",
            "agent-protocols://rooms/a?x=1",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
        let change = Change::Timeline { host: "http://a".into(), room_id: "r".into() };
        assert!(concerns("agent-protocols://rooms/r/timeline", &change));
        assert!(!concerns("agent-protocols://rooms/r2/timeline", &change));
        assert!(!concerns("agent-protocols://rooms/r/timeline?host=http%3A%2F%2Fb", &change));
    }
}
