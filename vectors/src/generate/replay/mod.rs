//! Cases about replay: what an honest host accepts, what no honest host accepts.
//!
//! Every chain here is sound: hashes, links and signatures hold. Only the room's rules say
//! no, at the last record.

mod heads;
mod members;
mod rights;
mod types;

use serde_json::{Map, Value, json};

use super::Writer;
use super::room::{ROOM, Room, id};
use crate::case::{Case, File};

struct Replay(Writer);

impl Replay {
    /// The last record is fine; `more` is what else must come out.
    fn ok(&mut self, id: &str, room: &Room, more: Value) -> &mut Case {
        let mut out = json!({ "ok": true, "seq": room.records.len() });
        for (name, value) in more.as_object().into_iter().flatten() {
            out[name] = value.clone();
        }
        self.0.add(id, "room.replay", json!({ "room_id": ROOM, "records": room.text() }), out)
    }

    /// The last record breaks the rule with this code.
    fn no(&mut self, id: &str, room: &Room, code: &str) -> &mut Case {
        let out = json!({ "ok": false, "code": code, "seq": room.records.len() });
        self.0.add(id, "room.replay", json!({ "room_id": ROOM, "records": room.text() }), out)
    }

    /// `room` with one more event.
    fn next(&mut self, name: &str, room: &Room, who: u8, event: (&str, Value), code: Option<&str>) {
        let mut room = room.clone();
        room.push(who, event.0, event.1);
        match code {
            None => self.ok(name, &room, json!({})),
            Some(code) => self.no(name, &room, code),
        };
    }
}

fn message() -> Value {
    json!({ "content_type": "text/plain", "content": "I support this." })
}

/// A view of the members, as the answers spell it.
fn members(list: &[(u8, &str)]) -> Value {
    Value::Object(list.iter().map(|(who, state)| (id(*who), json!(state))).collect::<Map<_, _>>())
}

pub(super) fn replay() -> File {
    let mut r = Replay(Writer::new(
        "replay",
        "Room replay: state, authority, membership, registry, base",
        "Agent Discourse 1.0 sections 6, 8 to 15 (revision of 2026-07-04)",
    ));
    rights::creation(&mut r);
    rights::authority(&mut r);
    rights::states(&mut r);
    members::membership(&mut r);
    members::approvals(&mut r);
    types::contract(&mut r);
    heads::bases(&mut r);
    types::registry(&mut r);
    types::packs(&mut r);
    heads::guards(&mut r);
    r.0.done()
}
