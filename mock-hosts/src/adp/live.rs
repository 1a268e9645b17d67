//! Live streams (ADP 17): subscribers of a room, delivery, heartbeats, stream faults.
//!
//! No replay: a stream carries what is accepted while it is up. Delivery happens under the
//! room's lock, so every subscriber sees records in order.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ap_protocol::{AgentId, ErrorCode, RoomState};
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};

use super::room::{Logged, RoomInner};
use crate::answer::{Answer, Content, Refusal};
use crate::fault::engine::{Facts, Hit, Moment};
use crate::fault::{Action, End, Eol, Route, view};
use crate::host::HostInner;
use crate::serve::Exchange;
use crate::sync::lock;
use crate::wire::finish;

/// Events a subscriber may lag behind before its stream is closed.
const BACKLOG: usize = 4096;

enum Item {
    Bytes(Bytes),
    /// A pause before what follows (ms).
    Pause(u64),
    /// A wait at the gate before what follows.
    Held(String),
    End(End),
}

struct Subscriber {
    id: u64,
    agent: AgentId,
    tx: mpsc::Sender<Item>,
    framing: Option<Eol>,
    delivered: u64,
    /// Events held back by a `reorder`, sent after the next one.
    late: Vec<Bytes>,
}

/// The subscribers of one room.
pub(crate) struct Hub {
    list: Mutex<(u64, Vec<Subscriber>)>,
    count: watch::Sender<usize>,
}

impl Default for Hub {
    fn default() -> Self {
        Hub { list: Mutex::default(), count: watch::Sender::new(0) }
    }
}

fn encode(event: &str, data: &Value) -> Bytes {
    Bytes::from(format!("event: {event}\ndata: {data}\n\n"))
}

impl Hub {
    pub(crate) fn count(&self) -> usize {
        *self.count.borrow()
    }

    pub(crate) fn watch(&self) -> watch::Receiver<usize> {
        self.count.subscribe()
    }

    fn recount(&self, len: usize) {
        self.count.send_replace(len);
    }

    /// Delivers a record to everybody. Called under the room's lock.
    pub(crate) fn publish(&self, host: &HostInner, r: &RoomInner, record: &Logged) {
        let mut list = lock(&self.list);
        if list.1.is_empty() {
            return;
        }
        let plain = encode("room.event", &record.value);
        let faults = host.front.faults.any();
        list.1.retain_mut(|sub| {
            if faults {
                sub.deliver(host, r, record, &plain)
            } else {
                sub.delivered += 1;
                sub.send(plain.clone())
            }
        });
        self.recount(list.1.len());
    }

    /// Delivers something that is no record, to those `to` picks.
    pub(crate) fn notify(&self, event: &str, data: &Value, to: impl Fn(&AgentId) -> bool) {
        let mut list = lock(&self.list);
        if list.1.is_empty() {
            return;
        }
        let bytes = encode(event, data);
        list.1.retain_mut(|sub| !to(&sub.agent) || sub.send(bytes.clone()));
        self.recount(list.1.len());
    }

    pub(crate) fn retain_members(&self, state: &RoomState) {
        let mut list = lock(&self.list);
        if list.1.is_empty() {
            return;
        }
        list.1.retain(|sub| state.active_member(&sub.agent).is_some());
        self.recount(list.1.len());
    }

    /// Ends every stream of the room. Returns how many there were.
    pub(crate) fn cut(&self, end: End) -> usize {
        let all = std::mem::take(&mut lock(&self.list).1);
        for sub in &all {
            let _ = sub.tx.try_send(Item::End(end));
        }
        self.recount(0);
        all.len()
    }

    fn leave(&self, id: u64) {
        let mut list = lock(&self.list);
        list.1.retain(|sub| sub.id != id);
        self.recount(list.1.len());
    }
}

impl Subscriber {
    /// Whether the subscriber is still there.
    fn send(&mut self, bytes: Bytes) -> bool {
        let bytes = match self.framing {
            None | Some(Eol::Lf) => bytes,
            Some(eol) => {
                let to = if eol == Eol::Cr { "\r" } else { "\r\n" };
                Bytes::from(String::from_utf8_lossy(&bytes).replace('\n', to))
            }
        };
        self.tx.try_send(Item::Bytes(bytes)).is_ok()
    }

    fn facts<'a>(
        &'a self,
        room: &'a str,
        event_type: Option<&'a str>,
        moment: Moment,
    ) -> Facts<'a> {
        Facts {
            method: "GET",
            route: Some(Route::Live),
            room: Some(room),
            agent: Some(self.agent.as_str()),
            event_type,
            moment,
            delivered: self.delivered,
        }
    }

    /// Delivers under faults; whether the subscriber is still there.
    fn deliver(&mut self, host: &HostInner, r: &RoomInner, record: &Logged, plain: &Bytes) -> bool {
        let room = r.state.room_id.as_str();
        let kind = Some(record.event_type());
        let hits = host.front.faults.hits(&self.facts(room, kind, Moment::Event(record.seq)));
        let is = |want: fn(&Action) -> bool| hits.iter().any(|h| want(&h.action));
        if is(|a| matches!(a, Action::Silence {} | Action::DropRecord {} | Action::Rollback { .. }))
        {
            return true;
        }
        for hit in &hits {
            let item = match hit.action {
                Action::Delay { ms, .. } => Item::Pause(ms),
                Action::Hold { .. } => Item::Held(format!("event {} of {room}", record.seq)),
                _ => continue,
            };
            if self.tx.try_send(item).is_err() {
                return false;
            }
        }
        for hit in &hits {
            let extra = match &hit.action {
                Action::Inject { text } => Bytes::from(text.clone()),
                Action::OversizeEvent { bytes } => oversize(*bytes),
                _ => continue,
            };
            // Injected text is sent as it is: its framing is the plan's own.
            if self.tx.try_send(Item::Bytes(extra)).is_err() {
                return false;
            }
        }
        let bytes = if view::concerns_records(&hits) {
            let shown = view::project(&r.log.values(), &value_hits(&hits), &host.stranger);
            let want = usize::try_from(record.seq - 1).unwrap_or(usize::MAX);
            shown.get(want).map_or_else(|| plain.clone(), |v| encode("room.event", v))
        } else {
            plain.clone()
        };
        if is(|a| matches!(a, Action::Reorder {})) {
            self.late.push(bytes);
            return true;
        }
        let mut alive = self.send(bytes.clone());
        if is(|a| matches!(a, Action::Duplicate {})) {
            alive &= self.send(bytes);
        }
        for late in std::mem::take(&mut self.late) {
            alive &= self.send(late);
            self.delivered += 1;
        }
        self.delivered += 1;
        let after = Moment::Delivered(record.seq);
        for hit in host.front.faults.hits(&self.facts(room, kind, after)) {
            if let Action::CutAfterEvents { end, .. } = hit.action {
                let _ = self.tx.try_send(Item::End(end));
                return false;
            }
        }
        alive
    }
}

/// Only the hits that change values: position faults act on the stream itself here.
fn value_hits(hits: &[Hit]) -> Vec<Hit> {
    hits.iter()
        .filter(|h| {
            matches!(h.action, Action::Tamper { .. } | Action::Resign { .. } | Action::Fork { .. })
        })
        .cloned()
        .collect()
}

/// An event with a huge payload.
pub(crate) fn oversize(bytes: usize) -> Bytes {
    let mut text = String::with_capacity(bytes + 32);
    text.push_str("event: room.event\ndata: \"");
    text.extend(std::iter::repeat_n('x', bytes));
    text.push_str("\"\n\n");
    Bytes::from(text)
}

/// Takes a subscriber off its room when the stream is dropped.
struct Seat {
    room: Arc<super::room::Room>,
    id: u64,
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.room.live.leave(self.id);
    }
}

/// `GET /v1/rooms/{room_id}/events/live`
pub(crate) fn open(host: &HostInner, ex: &Exchange) -> Result<Answer, Refusal> {
    let room = host.room(&ex.target.first)?;
    let agent = super::signed_in(ex)?.clone();
    let (tx, rx) = mpsc::channel(BACKLOG);
    let inner = lock(&room.inner);
    if inner.state.active_member(&agent).is_none() {
        return Err(Refusal::new(ErrorCode::MembershipRequired, "streams are for active members"));
    }
    let mut sub = Subscriber { id: 0, agent, tx, framing: None, delivered: 0, late: Vec::new() };
    for hit in &ex.hits {
        match &hit.action {
            Action::Framing { eol, bom } => {
                sub.framing = Some(*eol);
                if *bom {
                    let _ = sub.tx.try_send(Item::Bytes(Bytes::from_static("\u{feff}".as_bytes())));
                }
            }
            Action::Bom {} => {
                let _ = sub.tx.try_send(Item::Bytes(Bytes::from_static("\u{feff}".as_bytes())));
            }
            _ => {}
        }
    }
    sub.send(Bytes::from_static(b": welcome\n\n"));
    for hit in &ex.hits {
        if let Action::Replay { from } = hit.action {
            for record in inner.log.all().iter().filter(|r| r.seq >= from) {
                sub.send(encode("room.event", &record.value));
            }
        }
    }
    let mut gone = false;
    for hit in host.front.faults.hits(&sub.facts(&room.id, None, Moment::Start)) {
        match hit.action {
            Action::CutAfterEvents { end, .. } => {
                let _ = sub.tx.try_send(Item::End(end));
                gone = true;
            }
            Action::Inject { text } => {
                let _ = sub.tx.try_send(Item::Bytes(text.into()));
            }
            Action::OversizeEvent { bytes } => {
                let _ = sub.tx.try_send(Item::Bytes(oversize(bytes)));
            }
            _ => {}
        }
    }
    let id = {
        let mut list = lock(&room.live.list);
        list.0 += 1;
        sub.id = list.0;
        let id = sub.id;
        if !gone {
            list.1.push(sub);
        }
        room.live.recount(list.1.len());
        id
    };
    drop(inner);
    let seat = Seat { room, id };
    let beat = Duration::from_millis(host.config.heartbeat_ms.max(1));
    let (wire, journal) = (Arc::clone(&ex.wire), ex.journal);
    let state = (rx, seat, wire, Arc::clone(&host.front));
    let store = host.store.clone();
    let stream = futures::stream::unfold(state, move |(mut rx, seat, wire, front)| {
        let store = store.clone();
        async move {
            loop {
                let item = tokio::select! {
                    biased;
                    item = rx.recv() => item,
                    () = tokio::time::sleep(beat) => {
                        Some(Item::Bytes(Bytes::from_static(b": heartbeat\n\n")))
                    }
                };
                match item {
                    Some(Item::Bytes(bytes)) => {
                        // A reader must never know more than the disk.
                        if let Some(store) = &store
                            && let Err(error) = store.settled().await
                        {
                            let error = std::io::Error::other(error);
                            return Some((Err(error), (rx, seat, wire, front)));
                        }
                        return Some((Ok(bytes), (rx, seat, wire, front)));
                    }
                    Some(Item::Pause(ms)) => tokio::time::sleep(Duration::from_millis(ms)).await,
                    Some(Item::Held(what)) => front.gate.hold(journal, "event", what).await,
                    Some(Item::End(end)) => {
                        let error = finish(end, &wire).await?;
                        return Some((Err(error), (rx, seat, wire, front)));
                    }
                    None => return None,
                }
            }
        }
    });
    Ok(Answer {
        status: 200,
        headers: vec![("x-accel-buffering".to_owned(), "no".to_owned())],
        content: Content::Live(Box::pin(stream)),
    })
}

/// A stream item about join requests, as reviewers get it.
pub(crate) fn join_request_item(room_id: &str, request: &Value) -> Value {
    json!({
        "room_id": room_id, "request_id": request["id"], "applicant": request["applicant"],
        "role": request["role"], "created_at": request["created_at"],
        "expires_at": request["expires_at"],
    })
}
