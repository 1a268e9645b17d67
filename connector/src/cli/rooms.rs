//! `ap-connector room`: needs the state directory, not the key.

use serde_json::json;

use super::args::{RoomCommand, RoomName, Source};
use super::{CliError, exit, out, printable, tell};
use crate::config::Settings;
use crate::config::operator::Operator;
use crate::operator::{self, Action};
use crate::store::{RoomRow, Store};

pub(super) fn run(command: &RoomCommand) -> Result<u8, CliError> {
    match command {
        RoomCommand::List { source, json } => list(&open(source)?, *json),
        RoomCommand::Evidence { source, room: RoomName { host, room_id } } => {
            operator::evidence(&open(source)?, host, room_id, out)?;
            Ok(exit::OK)
        }
        RoomCommand::Resolve { source, room: RoomName { host, room_id }, action } => {
            operator::resolve(&open(source)?, host, room_id, *action)?;
            tell(match action {
                Action::Keep => "The room goes on from its verified state at the next read.",
                Action::Reset => {
                    "The room is read anew from its first record at the next room_open."
                }
                Action::Forget => "The room is gone from this state directory.",
            });
            Ok(exit::OK)
        }
    }
}

fn open(source: &Source) -> Result<Store, CliError> {
    let (dir, agent) = match (&source.config, &source.provision) {
        (Some(path), _) => {
            let operator = Operator::read(path)?;
            (operator.state_dir(), operator.agent_id().clone())
        }
        (None, Some(path)) => {
            let settings = Settings::from_provision(path)?;
            let agent = settings.agent_id();
            (settings.state_dir, agent)
        }
        (None, None) => {
            return Err(CliError::usage("bad_argument", "give --config or --provision"));
        }
    };
    if !dir.join("state.sqlite3").is_file() {
        return Err(CliError::usage(
            "bad_argument",
            format!("{} holds no state yet; the first `serve` makes it", dir.display()),
        ));
    }
    Ok(Store::open(&dir, &agent)?)
}

fn list(store: &Store, as_json: bool) -> Result<u8, CliError> {
    let rooms = store.read(RoomRow::all)?;
    let stopped = rooms.iter().any(|r| r.condition.as_ref().is_some_and(|c| c.sticky));
    if as_json {
        let rooms: Vec<_> = rooms
            .iter()
            .map(|r| {
                json!({
                    "host": r.host, "room_id": r.room_id, "synced_seq": r.tip.map(|t| t.seq),
                    "remote_seq": r.remote_seq, "condition": r.condition,
                })
            })
            .collect();
        out(&format!("{:#}", json!({ "rooms": rooms })));
    } else if rooms.is_empty() {
        out("no rooms yet");
    } else {
        for room in &rooms {
            let seq = room.tip.map_or(0, |t| t.seq);
            let condition = match &room.condition {
                None => "in order".to_owned(),
                Some(c) => format!(
                    "{} [{}]{}",
                    printable(&c.message),
                    c.code,
                    if c.sticky { ": stopped until `room resolve`" } else { "" }
                ),
            };
            out(&format!("{}  {}  {seq} verified  {condition}", room.host, room.room_id));
        }
    }
    Ok(if stopped { exit::CHECK_FAILED } else { exit::OK })
}
