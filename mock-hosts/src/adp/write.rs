//! Signed writes: the check order of a live write, and the one place where records are made.

use std::sync::Arc;

use ap_protocol::event::Kind;
use ap_protocol::room::RoomStatus;
use ap_protocol::{
    ErrorCode, Hash, LIVE_WINDOW_MS, RoomState, SecretKey, Tip, VerifiedEnvelope, VerifiedRecord,
    record,
};
use serde_json::{Value, json};

use super::room::{Ctx, Logged, Room, RoomInner};
use crate::answer::{Answer, Refusal};
use crate::fault::{Action, view};
use crate::host::HostInner;
use crate::serve::Exchange;
use crate::sync::lock;

/// An accepted write.
pub(crate) struct Accepted {
    pub room: Arc<Room>,
    pub record: Arc<Value>,
    pub max_seen: u64,
}

/// The envelope of a request body, verified, in time, with a fresh nonce.
pub(crate) fn envelope_of(host: &HostInner, ex: &Exchange) -> Result<VerifiedEnvelope, Refusal> {
    let value = match &ex.body {
        Some(Ok(value)) => value,
        Some(Err(e)) => {
            return Err(Refusal::new(
                ErrorCode::InvalidEvent,
                format!("the body is not I-JSON: {e}"),
            ));
        }
        None => return Err(Refusal::new(ErrorCode::InvalidEvent, "the body is an envelope")),
    };
    check_envelope(host, value, ex.now)
}

pub(crate) fn check_envelope(
    host: &HostInner,
    value: &Value,
    now: u64,
) -> Result<VerifiedEnvelope, Refusal> {
    let envelope =
        VerifiedEnvelope::verify(value).map_err(|e| Refusal::new(e.code(), e.to_string()))?;
    if envelope.created_at().abs_diff(now) > LIVE_WINDOW_MS {
        return Err(Refusal::new(
            ErrorCode::TimestampOutOfWindow,
            format!("created_at is more than {LIVE_WINDOW_MS} ms away from the host's time {now}"),
        ));
    }
    check_nonce(host, &envelope, now)?;
    Ok(envelope)
}

fn check_nonce(host: &HostInner, envelope: &VerifiedEnvelope, now: u64) -> Result<(), Refusal> {
    match lock(&host.nonces).max(envelope.actor(), now) {
        Some(max) if envelope.nonce() <= max => Err(Refusal::new(
            ErrorCode::NonceNotGreater,
            format!("the nonce must be greater than {max}"),
        )
        .with_max_seen(max)),
        _ => Ok(()),
    }
}

/// `POST /v1/rooms`
pub(crate) async fn create(host: &HostInner, ex: &Exchange) -> Result<Answer, Refusal> {
    let envelope = envelope_of(host, ex)?;
    let done = make_room(host, envelope, ex.now)?;
    let r = &done.record;
    Ok(Answer::json(json!({
        "id": done.room.id,
        "status": lock(&done.room.inner).status_at(ex.now).as_str(),
        "url": host.room_url(&done.room.id),
        "seq": r["seq"], "pre_hash": r["pre_hash"], "hash": r["hash"],
        "received_at": r["received_at"],
    }))
    .with_header(ap_protocol::nonce::MAX_SEEN_NONCE, done.max_seen.to_string()))
}

/// Accepts a `room.create`.
pub(crate) fn make_room(
    host: &HostInner,
    envelope: VerifiedEnvelope,
    now: u64,
) -> Result<Accepted, Refusal> {
    if envelope.event()["protocol"] != ap_protocol::DISCOURSE_PROTOCOL
        || envelope.event_type() != "room.create"
    {
        return Err(Refusal::new(
            ErrorCode::InvalidEvent,
            "this endpoint takes room.create; other events go to /v1/rooms/{room_id}",
        ));
    }
    let end = envelope.payload()["end_time"].as_u64().unwrap_or(0);
    if end <= now {
        return Err(Refusal::new(ErrorCode::InvalidEvent, "payload.end_time: lies in the past"));
    }
    lock(&host.limits).check_creation(&envelope)?;
    let id = host.next_room_id();
    let record = VerifiedRecord::append(&id, None, now, envelope);
    let state = {
        let packs = lock(&host.packs);
        let log = super::room::Log::default();
        RoomState::genesis(&record, &Ctx { log: &log, packs: &packs })
            .map_err(|v| Refusal::from(v.rejection))?
    };
    let logged = Logged::of(&record);
    let value = Arc::clone(&logged.value);
    let mut rooms = lock(&host.rooms);
    if rooms.contains_key(&id) {
        return Err(Refusal::http(409, "room_exists", "a room of this id exists"));
    }
    // Between the first look at the nonce and here another write may have used it.
    let max_seen = commit(host, record.envelope(), &logged, now)?;
    let room = Arc::new(Room::new(&id, state, logged));
    rooms.insert(id, Arc::clone(&room));
    Ok(Accepted { room, record: value, max_seen })
}

/// The last step, under the locks that guard the place: nonce again, queued for the disk, nonce
/// taken. The answer waits for the disk later, without the locks.
fn commit(
    host: &HostInner,
    envelope: &VerifiedEnvelope,
    logged: &Logged,
    now: u64,
) -> Result<u64, Refusal> {
    let mut nonces = lock(&host.nonces);
    if let Some(max) = nonces.max(envelope.actor(), now)
        && envelope.nonce() <= max
    {
        return Err(Refusal::new(
            ErrorCode::NonceNotGreater,
            format!("the nonce must be greater than {max}"),
        )
        .with_max_seen(max));
    }
    host.store_record(&logged.value, envelope.actor(), envelope.nonce(), now);
    nonces.take(envelope.actor(), envelope.nonce(), now);
    Ok(envelope.nonce())
}

/// `POST /v1/rooms/{room_id}`
pub(crate) async fn post(host: &HostInner, ex: &Exchange) -> Result<Answer, Refusal> {
    let room_id = &ex.target.first;
    for hit in &ex.hits {
        if let Action::MoveHead { by } = hit.action {
            move_head(host, room_id, by, ex.now)?;
        }
    }
    let lenient = ex.hits.iter().any(|h| matches!(h.action, Action::Lenient {}));
    let done = if lenient {
        let Some(Ok(value)) = &ex.body else {
            return Err(Refusal::new(ErrorCode::InvalidEvent, "the body is an envelope"));
        };
        append_unchecked(host, room_id, value, ex.now)?
    } else {
        let envelope = envelope_of(host, ex)?;
        submit(host, room_id, envelope, ex.now)?
    };
    let mut shown = Arc::clone(&done.record);
    if view::concerns_records(&ex.hits) {
        let all = lock(&done.room.inner).log.values();
        let projected = view::project(&all, &ex.hits, &host.stranger);
        let seq = shown["seq"].clone();
        if let Some(other) = projected.iter().find(|r| r["seq"] == seq) {
            shown = Arc::clone(other);
        }
    }
    for hit in &ex.hits {
        if let Action::AnswerOther { seq } = hit.action {
            let seq = seq.or(shown["seq"].as_u64().map(|s| s.saturating_sub(1))).unwrap_or(1);
            if let Some(other) = lock(&done.room.inner).log.at(seq) {
                shown = Arc::clone(&other.value);
            }
        }
    }
    Ok(Answer::json(Value::clone(&shown))
        .with_header(ap_protocol::nonce::MAX_SEEN_NONCE, done.max_seen.to_string()))
}

/// Accepts one event into a room: every rule, and head check and append in one step.
pub(crate) fn submit(
    host: &HostInner,
    room_id: &str,
    envelope: VerifiedEnvelope,
    now: u64,
) -> Result<Accepted, Refusal> {
    if envelope.event()["protocol"] != ap_protocol::DISCOURSE_PROTOCOL
        || envelope.event_type() == "room.create"
    {
        return Err(Refusal::new(
            ErrorCode::InvalidEvent,
            "this endpoint takes room events; room.create goes to /v1/rooms",
        ));
    }
    let room = host.room(room_id)?;
    if envelope.room_id() != Some(room_id) {
        return Err(Refusal::new(ErrorCode::InvalidEvent, "the event is signed for another room"));
    }
    let mut inner = lock(&room.inner);
    let r = &mut *inner;
    lock(&host.limits).check_write(r, &envelope, now)?;
    super::joins::check(r, &envelope, now)?;
    let record = VerifiedRecord::append(room_id, Some(&r.state.tip), now, envelope);
    // A dry run first: nothing may change before the nonce is taken.
    let kind = {
        let packs = lock(&host.packs);
        let ctx = Ctx { log: &r.log, packs: &packs };
        r.state
            .admit(record.envelope(), now, &ctx)
            .map_err(|rejection| refine(host, room_id, rejection))?
    };
    let logged = Logged::of(&record);
    let max_seen = commit(host, record.envelope(), &logged, now)?;
    {
        let packs = lock(&host.packs);
        let ctx = Ctx { log: &r.log, packs: &packs };
        r.state.apply(&record, &ctx).map_err(|v| Refusal::from(v.rejection))?;
    }
    settle(host, &room, r, &record, logged.clone(), kind, now);
    Ok(Accepted { record: logged.value, max_seen, room: Arc::clone(&room) })
}

/// What follows from an applied record: requests, statuses, log, streams.
fn settle(
    host: &HostInner,
    room: &Room,
    r: &mut RoomInner,
    record: &VerifiedRecord,
    logged: Logged,
    kind: Kind,
    now: u64,
) {
    super::joins::settle(host, r, record.envelope(), now);
    r.recent.entry((record.actor().clone(), kind)).or_default().push(now);
    r.log.push(logged.clone());
    super::status::settle(host, room, r, now);
    room.live.publish(host, r, &logged);
    // Streams belong to active members: whoever is out now hears no more.
    room.live.retain_members(&r.state);
}

fn refine(host: &HostInner, room_id: &str, rejection: ap_protocol::room::Rejection) -> Refusal {
    let mut refusal = Refusal::from(rejection);
    if refusal.code == ErrorCode::RoomHeadMismatch.as_str()
        && let Some(Value::Object(data)) = &mut refusal.data
    {
        data.insert("events_url".into(), json!(format!("{}/events", host.room_url(room_id))));
    }
    refusal
}

/// Commits what no rule allowed. The state follows as far as replay lets it.
pub(crate) fn append_unchecked(
    host: &HostInner,
    room_id: &str,
    envelope: &Value,
    now: u64,
) -> Result<Accepted, Refusal> {
    let room = host.room(room_id)?;
    let mut inner = lock(&room.inner);
    let r = &mut *inner;
    let tip = r.state.tip;
    let verified = VerifiedEnvelope::verify(envelope).ok();
    let (logged, max_seen) = match verified {
        Some(verified) => {
            let record = VerifiedRecord::append(room_id, Some(&tip), now, verified);
            let logged = Logged::of(&record);
            let (actor, nonce) = (record.actor(), record.envelope().nonce());
            host.store_record(&logged.value, actor, nonce, now);
            lock(&host.nonces).take(actor, nonce, now);
            let applied = {
                let packs = lock(&host.packs);
                r.state.apply(&record, &Ctx { log: &r.log, packs: &packs }).is_ok()
            };
            if !applied {
                r.bump(&logged);
            }
            (logged, nonce)
        }
        None => {
            let logged = raw(room_id, &tip, envelope, now);
            host.store_raw(&logged.value);
            r.bump(&logged);
            (logged, 0)
        }
    };
    r.log.push(logged.clone());
    room.live.publish(host, r, &logged);
    room.live.retain_members(&r.state);
    drop(inner);
    Ok(Accepted { room, record: logged.value, max_seen })
}

/// A record around an envelope that does not even verify.
fn raw(room_id: &str, tip: &Tip, envelope: &Value, now: u64) -> Logged {
    let event_id = envelope["hash"]
        .as_str()
        .and_then(|t| Hash::parse(t).ok())
        .unwrap_or_else(|| Hash::of_value(&envelope["event"]));
    let seq = tip.seq + 1;
    let hash = record::record_hash(room_id, seq, Some(&tip.hash), &event_id, now);
    let value = json!({
        "room_id": room_id, "seq": seq, "pre_hash": tip.hash, "hash": hash,
        "received_at": now, "envelope": envelope,
    });
    Logged { seq, hash, event_id, value: Arc::new(value) }
}

/// The host's resident agent says something, so that the head moves. It joins public rooms by
/// itself; elsewhere it must have been made a member.
pub(crate) fn move_head(host: &HostInner, room_id: &str, by: u64, now: u64) -> Result<(), Refusal> {
    let room = host.room(room_id)?;
    let resident = host.resident.agent_id();
    let joined = {
        let inner = lock(&room.inner);
        if inner.status_at(now) != RoomStatus::Active {
            return Err(Refusal::new(ErrorCode::RoomNotActive, "the head moves in active rooms"));
        }
        inner.state.active_member(&resident).is_some()
    };
    if !joined {
        let payload = json!({ "role": "speaker", "perspective": "resident of the mock host" });
        say(host, &room, "room.join", payload, now)?;
    }
    for n in 1..=by {
        let text = format!("the room moves on ({n} of {by})");
        let payload = json!({ "content_type": "text/plain", "content": text });
        say(host, &room, "message.create", payload, now)?;
    }
    Ok(())
}

fn say(
    host: &HostInner,
    room: &Room,
    event_type: &str,
    payload: Value,
    now: u64,
) -> Result<(), Refusal> {
    let key: &SecretKey = &host.resident;
    let base = {
        let inner = lock(&room.inner);
        if event_type == "room.join" { inner.state.tip } else { inner.state.head }
    };
    let nonce = lock(&host.nonces).max(&key.agent_id(), now).map_or(now, |m| now.max(m + 1));
    let envelope = record::sign_discourse(
        key,
        Some(&room.id),
        Some(&base),
        event_type,
        payload,
        &[],
        now,
        nonce,
    )
    .map_err(|e| Refusal::new(e.code(), e.to_string()))?;
    submit(host, &room.id, envelope, now).map(|_| ())
}
