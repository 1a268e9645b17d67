//! The agent-facing tools: validation against closed schemas, dispatch, results.
//!
//! Nothing below this module shows a key, a token or an unsubmitted envelope.

mod inbox_tools;
mod rooms;
pub mod schema;
pub mod table;
mod writes;

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use ap_protocol::{Tip, json};
use jsonschema::error::ValidationErrorKind;
use rusqlite::Connection;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use crate::args::Args;
use crate::core::Core;
use crate::error::ToolError;
use crate::join::check_segment;
use crate::progress::Progress;
use crate::session::Session;
use crate::store::RoomRow;
use crate::views;
use table::Tool;

struct Toolbox {
    tools: Vec<Tool>,
    validators: HashMap<&'static str, jsonschema::Validator>,
}

static TOOLBOX: LazyLock<Toolbox> = LazyLock::new(|| {
    let tools = table::all();
    let validators = tools
        .iter()
        .map(|t| (t.name, jsonschema::validator_for(&t.input).expect("checked by a unit test")))
        .collect();
    Toolbox { tools, validators }
});

/// Every tool, for `tools/list`.
pub fn list() -> &'static [Tool] {
    &TOOLBOX.tools
}

/// Whether there is a tool of this name.
pub fn exists(name: &str) -> bool {
    TOOLBOX.validators.contains_key(name)
}

/// Checks arguments against the tool's closed input schema.
///
/// # Errors
/// `invalid_input` with the path of the member.
pub fn check_arguments(name: &str, arguments: &Value) -> Result<(), ToolError> {
    json::check_value(arguments)
        .map_err(|(kind, path)| ToolError::input(&path, kind.to_string()))?;
    let validator = TOOLBOX.validators.get(name).expect("the caller checked the name");
    let Err(e) = validator.validate(arguments) else { return Ok(()) };
    let at = e.instance_path().to_string();
    let (path, message) = match e.kind() {
        ValidationErrorKind::Required { property } => {
            (format!("{at}/{}", property.as_str().unwrap_or_default()), "is required".to_owned())
        }
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            let member = unexpected.first().map_or("", String::as_str);
            (format!("{at}/{member}"), "is no member of this tool's input".to_owned())
        }
        _ => (at, e.to_string().chars().take(300).collect()),
    };
    Err(ToolError::input(&path, message))
}

/// One tool call in its session.
pub struct Call {
    /// Shared parts.
    pub core: Arc<Core>,
    /// The session.
    pub session: Arc<Session>,
    /// Cancelled by the client.
    pub cancel: CancellationToken,
    /// Where progress goes, if the client asked.
    pub progress: Option<Progress>,
}

impl Call {
    /// Runs a tool whose arguments fit its schema.
    ///
    /// # Errors
    /// What the agent is told.
    pub async fn run(&self, name: &str, arguments: Map<String, Value>) -> Result<Value, ToolError> {
        let args = Args(arguments);
        match name {
            "agent_protocols_identity_current" => self.identity_current().await,
            "agent_protocols_hosts_list" => self.hosts_list().await,
            "agent_protocols_rooms_search" => self.rooms_search(&args).await,
            "agent_protocols_rooms_list" => self.rooms_list(&args),
            "agent_protocols_room_open" => self.room_open(&args).await,
            "agent_protocols_room_state" => self.room_state(&args).await,
            "agent_protocols_room_members_list" => self.members_list(&args).await,
            "agent_protocols_room_member_get" => self.member_get(&args).await,
            "agent_protocols_agent_status_list" => self.status_list(&args).await,
            "agent_protocols_agent_status_get" => self.status_get(&args).await,
            "agent_protocols_agent_status_set" => self.status_set(&args).await,
            "agent_protocols_room_timeline" => self.timeline(&args).await,
            "agent_protocols_room_mark_read" => self.mark_read(&args).await,
            "agent_protocols_inbox_next" => self.inbox_next(&args).await,
            "agent_protocols_inbox_ack" => self.inbox_ack(&args),
            "agent_protocols_drafts_list" => self.drafts_list(&args),
            "agent_protocols_draft_get" => self.draft_get(&args),
            "agent_protocols_draft_commit" => self.draft_commit(&args).await,
            "agent_protocols_draft_drop" => self.draft_drop(&args),
            "agent_protocols_profile_update" => self.profile_update(&args).await,
            "agent_protocols_room_create" => self.room_create(&args).await,
            "agent_protocols_room_join" => self.room_join(&args).await,
            "agent_protocols_room_leave" => self.room_leave(&args).await,
            "agent_protocols_room_send_message" => self.send_message(&args).await,
            "agent_protocols_room_submit_event" => self.submit_event(&args).await,
            "agent_protocols_join_requests_list" => self.join_requests_list(&args).await,
            "agent_protocols_join_request_review" => self.join_request_review(&args).await,
            _ => Err(ToolError::internal("a tool without a handler")),
        }
    }

    /// The known room that `room_id` and `host` name; with an allowed host, an unknown room
    /// is opened.
    async fn room(&self, args: &Args) -> Result<RoomRow, ToolError> {
        match self.known_room(args)? {
            Known::Row(row) => Ok(*row),
            Known::Unknown { host: Some(host), room_id } => {
                self.core.open_room(&host, &room_id, self.progress.as_ref()).await
            }
            Known::Unknown { host: None, room_id } => Err(not_known(&room_id)),
        }
    }

    fn known_room(&self, args: &Args) -> Result<Known, ToolError> {
        let room_id = args.required("room_id").to_owned();
        check_segment("room_id", &room_id)?;
        if let Some(host) = args.text("host") {
            let host = self.core.http.host(host)?.as_str().to_owned();
            let row = self.core.store.read(|c| RoomRow::find(c, &host, &room_id))?;
            return Ok(row.map_or(Known::Unknown { host: Some(host), room_id }, |r| {
                Known::Row(Box::new(r))
            }));
        }
        let mut rows = self.core.store.read(|c| RoomRow::with_id(c, &room_id))?;
        match rows.len() {
            0 => Ok(Known::Unknown { host: None, room_id }),
            1 => Ok(Known::Row(Box::new(rows.remove(0)))),
            _ => Err(ambiguous(&room_id, &rows)),
        }
    }

    /// The room filter of tools where `room_id` is optional.
    fn optional_room(&self, args: &Args) -> Result<Option<RoomRow>, ToolError> {
        if args.text("room_id").is_none() {
            return match args.text("host") {
                Some(_) => Err(ToolError::input("/host", "host goes with room_id")),
                None => Ok(None),
            };
        }
        match self.known_room(args)? {
            Known::Row(row) => Ok(Some(*row)),
            Known::Unknown { room_id, .. } => Err(not_known(&room_id)),
        }
    }

    /// Reads what a result shows of a room, and the SyncState that goes with it, from one
    /// snapshot of the state: `sync` is never ahead of what the agent is given.
    fn snapshot<T>(
        &self,
        room: i64,
        read: impl FnOnce(&Connection, &mut RoomRow) -> Result<T, ToolError>,
    ) -> Result<(T, Sync), ToolError> {
        let now = self.core.clock.now_ms();
        let subscribed = self.core.live.subscribed(room);
        self.core.store.read(|c| {
            let mut row = RoomRow::get(c, room)?;
            let content = read(c, &mut row)?;
            let value = views::sync_state(c, &row, subscribed, now)?;
            Ok((content, Sync { room, head: row.head, value }))
        })
    }

    /// SyncState for a result that shows nothing else of the room.
    fn sync(&self, room: i64) -> Result<Value, ToolError> {
        let ((), sync) = self.snapshot(room, |_, _| Ok(()))?;
        Ok(self.present(sync))
    }

    /// The SyncState as a result returns it: from here on the agent has seen its head.
    fn present(&self, sync: Sync) -> Value {
        self.session.present(sync.room, sync.head);
        sync.value
    }
}

/// A SyncState that was read and not returned yet.
struct Sync {
    room: i64,
    head: Option<Tip>,
    value: Value,
}

enum Known {
    Row(Box<RoomRow>),
    Unknown { host: Option<String>, room_id: String },
}

fn not_known(room_id: &str) -> ToolError {
    ToolError::new(
        "room_not_known",
        "this connector does not know the room; call agent_protocols_room_open with host and room_id",
    )
    .with(json!({ "room_id": room_id }))
}

fn ambiguous(room_id: &str, rows: &[RoomRow]) -> ToolError {
    let hosts: Vec<&str> = rows.iter().map(|r| r.host.as_str()).collect();
    ToolError::new(
        "room_ambiguous",
        format!(
            "the room_id exists on {} hosts; call again with host. Nothing was done",
            hosts.len()
        ),
    )
    .with(json!({ "room_id": room_id, "hosts": hosts }))
}

/// An opaque cursor over a tuple of values.
fn cursor(parts: &Value) -> String {
    ap_protocol::encoding::encode(parts.to_string())
}

/// Reads a cursor that [`cursor`] made.
fn read_cursor(args: &Args) -> Result<Option<Value>, ToolError> {
    let Some(text) = args.text("cursor") else { return Ok(None) };
    ap_protocol::encoding::decode(text)
        .ok()
        .and_then(|bytes| json::parse(&bytes).ok())
        .filter(Value::is_array)
        .map(Some)
        .ok_or_else(|| ToolError::input("/cursor", "not a cursor of this tool"))
}
