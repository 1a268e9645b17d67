//! The ADP host: rooms, their records, and every discourse endpoint.
//!
//! Honest by construction: an event enters a room only through [`write::submit`], which asks
//! the kernel's replay under the room's lock. Dishonesty is planned elsewhere ([`crate::fault`])
//! and shown, never believed: what a room holds is what the rules allowed, except after an
//! explicit `append_unchecked` or a `lenient` fault.

pub(crate) mod archive;
pub(crate) mod joins;
pub(crate) mod live;
pub(crate) mod read;
pub(crate) mod room;
pub(crate) mod search;
pub(crate) mod status;
pub(crate) mod write;

use ap_protocol::{AgentId, DISCOURSE_PROTOCOL, PROFILE_PROTOCOL, pack};
use serde_json::json;

use crate::answer::{Answer, Refusal};
use crate::host::HostInner;
use crate::route::Route;
use crate::serve::Exchange;

/// Handles one request to an ADP route.
pub(crate) async fn handle(host: &HostInner, ex: &Exchange) -> Result<Answer, Refusal> {
    match ex.target.route {
        Route::Discovery => Ok(discovery(host)),
        Route::Create => write::create(host, ex).await,
        Route::Submit => write::post(host, ex).await,
        Route::Room => read::room(host, ex),
        Route::Events => read::events(host, ex),
        Route::Live => live::open(host, ex),
        Route::JoinRequest => joins::post(host, ex),
        Route::JoinRequests => joins::list(host, ex),
        Route::JoinRequestRead => joins::read(host, ex),
        Route::Public => search::public(host, ex),
        Route::MyRooms => search::mine(host, ex),
        Route::Statuses => status::list(host, ex),
        Route::Status => status::read(host, ex),
        Route::StatusPut => status::put(host, ex),
        Route::Archive => archive::json(host, ex),
        Route::ArchiveJsonl => archive::jsonl(host, ex),
        Route::ArchiveMd => archive::markdown(host, ex),
        Route::Pack => pack_document(host, ex),
        _ => Err(Refusal::http(404, "not_found", "no such endpoint on a discourse host")),
    }
}

fn discovery(host: &HostInner) -> Answer {
    let profile_service =
        host.config.profile_service.clone().unwrap_or_else(|| host.front.url.clone());
    let packs: Vec<&str> = pack::registered_ids().collect();
    Answer::json(json!({
        "protocol": DISCOURSE_PROTOCOL,
        "host": host.front.url,
        "features": [
            "rooms", "restricted-rooms", "private-rooms", "join-requests", "join-review",
            "sse-event-stream", "agent-status", "archives", "profiles", "registered-packs",
            "external-packs",
        ],
        "registered_packs": packs,
        "profile": {
            "mode": if host.config.profile_service.is_some() { "external" } else { "embedded" },
            "service": profile_service,
            "protocol": PROFILE_PROTOCOL,
        },
        "endpoints": {
            "api": format!("{}/v1", host.front.url),
            "sse": format!("{}/v1/rooms/{{room_id}}/events/live", host.front.url),
        },
    }))
}

fn pack_document(host: &HostInner, ex: &Exchange) -> Result<Answer, Refusal> {
    let uri = format!("{}/packs/{}", host.front.url, ex.target.first);
    let document = crate::sync::lock(&host.packs).get(&uri).cloned();
    match document {
        Some(bytes) => Ok(Answer::raw("application/json", bytes)),
        None => Err(Refusal::http(404, "not_found", "this host offers no such pack document")),
    }
}

/// The agent of a request JWT that must be there.
pub(crate) fn signed_in(ex: &Exchange) -> Result<&AgentId, Refusal> {
    ex.agent.as_ref().map_err(Clone::clone)?.as_ref().ok_or_else(|| {
        Refusal::new(
            ap_protocol::ErrorCode::InvalidToken,
            "this needs a request JWT in the Authorization header",
        )
    })
}
