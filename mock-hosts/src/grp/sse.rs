//! The event stream (GRP T6.5): events of a room as server-sent events, resumable by
//! Last-Event-ID, with bounded frames. It reads the room's own list from a cursor, so a slow
//! reader costs no memory.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::response::Response;
use futures::{StreamExt, stream};
use http::{HeaderValue, header};

use super::core::{Call, Core, Op, RoomCell};
use super::defects::Defect;
use super::error::GrpError;
use super::model::Event;

const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Events fetched at once.
const PAGE: usize = 64;

fn frame(event: &Event) -> String {
    format!("id: {}\nevent: {}\ndata: {}\n\n", event.id, event.event_type, event.to_json())
}

/// Opens the stream; the reader is checked now and again at every wake-up.
///
/// # Errors
/// As a read of the room.
pub async fn stream(
    core: &Arc<Core>,
    call: Call,
    last_event_id: Option<&str>,
    since_seq: Option<u64>,
) -> Result<Response, GrpError> {
    let cell = core.cell(call.slug.as_deref().unwrap_or_default())?;
    let mandate = core.mandate(&call.credential).await?;
    let cursor = {
        let guard = cell.lock();
        let room = guard
            .as_ref()
            .ok_or_else(|| GrpError::new("room.not_found", "There is no such room here."))?;
        core.identify(room, &call, mandate.clone(), false)?;
        let resumed = last_event_id
            .filter(|_| !core.has(Defect::SseNoResume))
            // An unknown id may be older than anything kept: then everything is repeated.
            .map(|id| room.events.iter().find(|e| e.id == id).map_or(0, |e| e.seq));
        resumed.or(since_seq).unwrap_or_else(|| room.event_head())
    };
    let bell = cell.changed.subscribe();
    let first = stream::once(async { Ok::<_, Infallible>(Bytes::from_static(b": open\n\n")) });
    let state = State { core: Arc::clone(core), cell, call, mandate, cursor, bell };
    let rest = stream::unfold(state, |mut state| async move {
        state.next().await.map(|bytes| (Ok(bytes), state))
    });
    let mut response = Response::new(Body::from_stream(first.chain(rest)));
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    Ok(response)
}

struct State {
    core: Arc<Core>,
    cell: Arc<RoomCell>,
    call: Call,
    mandate: Option<super::mandate::Mandate>,
    cursor: u64,
    bell: tokio::sync::watch::Receiver<u64>,
}

impl State {
    /// The next frames, a keep-alive, or the end.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            self.bell.borrow_and_update();
            let frames = {
                let guard = self.cell.lock();
                let room = guard.as_ref()?;
                debug_assert_eq!(self.call.op, Op::ListEvents);
                self.core.identify(room, &self.call, self.mandate.clone(), false).ok()?;
                let after = usize::try_from(self.cursor).unwrap_or(usize::MAX);
                let fresh: Vec<&Event> = room.events.iter().skip(after).take(PAGE).collect();
                if let Some(last) = fresh.last() {
                    self.cursor = last.seq;
                }
                fresh.into_iter().map(frame).collect::<String>()
            };
            if !frames.is_empty() {
                return Some(Bytes::from(frames));
            }
            tokio::select! {
                changed = self.bell.changed() => { changed.ok()?; }
                () = tokio::time::sleep(KEEP_ALIVE) => {
                    return Some(Bytes::from_static(b": keep-alive\n\n"));
                }
            }
        }
    }
}
