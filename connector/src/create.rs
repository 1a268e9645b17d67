//! Creating a room, and finding one again whose creation was answered by silence.

use std::sync::Arc;

use ap_protocol::record::record_hash;
use ap_protocol::{Hash, LIVE_WINDOW_MS, VerifiedEnvelope};
use serde_json::{Value, json};

use crate::core::Core;
use crate::error::ToolError;
use crate::freshness::Target;
use crate::http::{AllowedOrigin, Request};
use crate::join::check_segment;
use crate::signer::EventDraft;
use crate::store::RoomRow;
use crate::sync::{Received, Source, list_of};
use crate::write::{Attempt, enqueue};

impl Core {
    /// Signs and submits a `room.create`. Returns the new room's row and the envelope.
    ///
    /// # Errors
    /// The protocol's code; `response_mismatch` when the answer does not prove that this
    /// event made the room; `write_uncertain` when the answer was lost.
    pub async fn create_room(
        self: &Arc<Self>,
        host: &AllowedOrigin,
        payload: Value,
    ) -> Result<(RoomRow, Value), ToolError> {
        let _running = self.writes.token();
        let _turn = self.write_turn(host).await?;
        self.settle_nonces(Target::Unread).await?;
        let mut envelope = match self.repeatable_creation(host, &payload)? {
            Some(envelope) => {
                if let Some(row) = self.find_created(host, &envelope).await? {
                    return self.created(row, &envelope);
                }
                envelope
            }
            None => self.sign_creation(host, &payload)?,
        };
        let (mut offered_again, mut nonce_retried) = (false, false);
        loop {
            let path = ["v1", "rooms"];
            let sent = self.http.exchange(host, &Request::post(&path, envelope.value())).await;
            let cause = match self.classify(host.as_str(), "create", envelope.hash(), sent)? {
                Ok(body) => match self.adopt_creation(host, &envelope, &body).await {
                    Ok(row) => return self.created(row, &envelope),
                    Err(e) => e,
                },
                Err(Attempt::Refused(e, max_seen)) => {
                    if offered_again && let Some(row) = self.find_created(host, &envelope).await? {
                        return self.created(row, &envelope);
                    }
                    self.drop_outbox(envelope.hash())?;
                    match max_seen {
                        Some(header) if e.code == "nonce_not_greater" && !nonce_retried => {
                            nonce_retried = true;
                            self.adopt_max_seen(&header)?;
                            envelope = self.sign_creation(host, &payload)?;
                            continue;
                        }
                        _ => return Err(e),
                    }
                }
                Err(Attempt::Lost(e)) => e,
                Err(Attempt::Sent(_)) => unreachable!("classify never says so"),
            };
            let mismatch = cause.code == "response_mismatch";
            match self.find_created(host, &envelope).await {
                Ok(Some(row)) => return self.created(row, &envelope),
                _ if mismatch => return Err(cause),
                // A host takes one envelope at most once, so it may be offered again.
                Ok(None) if !offered_again => offered_again = true,
                _ => {
                    return Err(ToolError::new(
                        "write_uncertain",
                        format!(
                            "whether the host created the room is not known yet ({}); calling \
                             room_create again with the same arguments settles it",
                            cause.code
                        ),
                    )
                    .with(json!({ "host": host.as_str(), "event_id": envelope.hash(), "cause": cause.code })));
                }
            }
        }
    }

    fn created(
        self: &Arc<Self>,
        row: RoomRow,
        envelope: &VerifiedEnvelope,
    ) -> Result<(RoomRow, Value), ToolError> {
        self.drop_outbox(envelope.hash())?;
        self.tend_stream(row.id)?;
        Ok((row, envelope.value().clone()))
    }

    fn sign_creation(
        &self,
        host: &AllowedOrigin,
        payload: &Value,
    ) -> Result<VerifiedEnvelope, ToolError> {
        let now = self.clock.now_ms();
        self.rate.take(&format!("{} create", host.as_str()), now)?;
        self.store.write(|tx| {
            let draft = EventDraft {
                room_id: None,
                base: None,
                event_type: "room.create",
                payload: payload.clone(),
                mentions: &[],
            };
            let envelope = self.signer.sign_discourse(tx, &draft, now)?;
            enqueue(tx, None, host.as_str(), &envelope, true, None, now)?;
            Ok(envelope)
        })
    }

    /// An uncertain creation with exactly this content.
    fn repeatable_creation(
        &self,
        host: &AllowedOrigin,
        payload: &Value,
    ) -> Result<Option<VerifiedEnvelope>, ToolError> {
        let now = self.clock.now_ms();
        for entry in self.outbox(None, host.as_str())? {
            if entry.envelope.event_type() != "room.create" {
                continue;
            }
            if now.abs_diff(entry.created_at) > LIVE_WINDOW_MS + 60_000 {
                self.drop_outbox(entry.envelope.hash())?;
            } else if Value::Object(entry.envelope.payload().clone()) == *payload {
                return Ok(Some(entry.envelope));
            }
        }
        Ok(None)
    }

    /// The answer must prove that the submitted event is the room's first record.
    async fn adopt_creation(
        &self,
        host: &AllowedOrigin,
        envelope: &VerifiedEnvelope,
        body: &Value,
    ) -> Result<RoomRow, ToolError> {
        let mismatch = |what: &str| {
            ToolError::new("response_mismatch", format!("the host's answer to room.create {what}"))
                .with(json!({ "host": host.as_str(), "event_id": envelope.hash() }))
        };
        let id = body["id"].as_str().ok_or_else(|| mismatch("names no room"))?;
        check_segment("room_id", id).map_err(|_| mismatch("names an unusable room id"))?;
        if body["seq"] != 1 || !body["pre_hash"].is_null() {
            return Err(mismatch("is not about a first record"));
        }
        let received_at =
            body["received_at"].as_u64().ok_or_else(|| mismatch("has no received_at"))?;
        let hash = record_hash(id, 1, None, envelope.hash(), received_at);
        if body["hash"].as_str().and_then(|t| Hash::parse(t).ok()) != Some(hash) {
            return Err(mismatch("does not commit to the submitted event"));
        }
        let record = json!({
            "room_id": id, "seq": 1, "pre_hash": null, "hash": hash, "received_at": received_at,
            "envelope": envelope.value(),
        });
        let row = self.store.write(|tx| RoomRow::ensure(tx, host.as_str(), id))?;
        let received = vec![Received::check(record, id)];
        self.obtain_packs(&received).await;
        let done = self.commit(row.id, received, Source::Live)?;
        if let Some(f) = done.fault {
            return Err(f.to_error(host.as_str(), id));
        }
        self.store.write(|tx| {
            tx.execute(
                "UPDATE rooms SET baseline_seq = coalesce(baseline_seq, 1) WHERE id = ?1",
                [row.id],
            )?;
            RoomRow::get(tx, row.id)
        })
    }

    /// Looks among the own rooms for the one that `envelope` created.
    async fn find_created(
        self: &Arc<Self>,
        host: &AllowedOrigin,
        envelope: &VerifiedEnvelope,
    ) -> Result<Option<RoomRow>, ToolError> {
        let path = ["v1", "me", "rooms"];
        let mut cursor: Option<String> = None;
        for _ in 0..20 {
            let mut query = vec![("membership", "creator".to_owned()), ("limit", "100".to_owned())];
            if let Some(c) = &cursor {
                query.push(("cursor", c.clone()));
            }
            let body = self.http.call(host, &Request::get(&path).query(&query).auth(true)).await?;
            let (rooms, next) = list_of(body, "rooms")?;
            for room in &rooms {
                let Some(id) = room["id"].as_str().or(room["room_id"].as_str()) else { continue };
                if check_segment("room_id", id).is_err() {
                    continue;
                }
                let first = ["v1", "rooms", id, "events"];
                let query = [("after_seq", "0".to_owned()), ("limit", "1".to_owned())];
                let Ok(page) =
                    self.http.call(host, &Request::get(&first).query(&query).auth(true)).await
                else {
                    continue;
                };
                let (records, _) = list_of(page, "records")?;
                let Some(record) = records.into_iter().next() else { continue };
                let received = Received::check(record, id);
                if received.event_id() == Some(*envelope.hash()) {
                    let row = self.store.write(|tx| RoomRow::ensure(tx, host.as_str(), id))?;
                    return self.sync_room(row.id).await.map(Some);
                }
            }
            if next.is_none() || next == cursor || rooms.is_empty() {
                break;
            }
            cursor = next;
        }
        Ok(None)
    }
}
