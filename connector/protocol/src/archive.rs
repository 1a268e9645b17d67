//! Room archives (ADP 19): the digest, the manifest and full verification offline.
//!
//! A [`Verifier`] takes records one by one, so memory stays small however long the room was;
//! it makes the same judgements as live replay and then compares the manifest. Reading files,
//! threads and progress bars belong to the caller.

use serde::Serialize;
use serde_json::{Map, Value, json};
use sha3::{Digest, Sha3_256};

use crate::encoding::{self, Hash};
use crate::event::{integer, string};
use crate::record::{CheckedRecord, RecordError, Tip};
use crate::room::{HostViolation, MemoryContext, RoomState};
use crate::{DISCOURSE_PROTOCOL, jcs, json};

/// The `type` of an archive manifest.
pub const MANIFEST_TYPE: &str = "room.archive";
/// The `type` of a line or member that carries an imported pack document.
pub const PACK_TYPE: &str = "type.pack";
/// The `type` of a line that carries room metadata: shown, never trusted.
pub const ROOM_TYPE: &str = "room.metadata";

/// `events_sha3_256`, fed record by record.
#[derive(Debug, Clone, Default)]
pub struct EventsDigest {
    hasher: Sha3_256,
    count: u64,
}

impl EventsDigest {
    /// Adds the next record, as it stands in the archive.
    pub fn push(&mut self, record: &Value) {
        self.hasher.update(if self.count == 0 { b"[" } else { b"," });
        self.hasher.update(jcs::to_vec(record));
        self.count += 1;
    }

    /// The digest of the records so far.
    pub fn finish(self) -> Hash {
        let mut hasher = self.hasher;
        if self.count == 0 {
            hasher.update(b"[");
        }
        hasher.update(b"]");
        Hash::from_bytes(hasher.finalize().into())
    }
}

/// The digest of a whole list of records.
pub fn events_sha3_256<'a>(records: impl IntoIterator<Item = &'a Value>) -> Hash {
    let mut digest = EventsDigest::default();
    for record in records {
        digest.push(record);
    }
    digest.finish()
}

/// Makes the manifest of an archive. `formats` maps a format name to its URL.
#[allow(clippy::too_many_arguments)]
pub fn manifest(
    host: &str,
    room_id: &str,
    url: &str,
    generated_at: u64,
    tip: Tip,
    events: Hash,
    formats: Value,
) -> Value {
    json!({
        "protocol": DISCOURSE_PROTOCOL, "type": MANIFEST_TYPE,
        "host": host, "room_id": room_id, "url": url, "generated_at": generated_at,
        "event_count": tip.seq, "first_seq": 1, "last_seq": tip.seq, "last_hash": tip.hash,
        "events_sha3_256": events, "archive_root": events, "formats": formats, "extra": {},
    })
}

/// An imported pack document as an archive carries it: its raw text, so that the digest in
/// the declaration still holds.
pub fn pack_entry(uri: &str, digest: &str, bytes: &[u8]) -> Value {
    let mut entry = json!({ "type": PACK_TYPE, "uri": uri, "digest": digest });
    match std::str::from_utf8(bytes) {
        Ok(text) => entry["document"] = json!(text),
        Err(_) => entry["document_base64url"] = json!(encoding::encode(bytes)),
    }
    entry
}

/// One part of an archive.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    /// The manifest.
    Manifest(Value),
    /// An imported pack document.
    Pack {
        /// The URI that declarations import it by.
        uri: String,
        /// Its raw bytes.
        bytes: Vec<u8>,
    },
    /// Room metadata, descriptive only.
    Room(Value),
    /// An accepted record.
    Record(Value),
}

impl Part {
    /// Tells what a line of `archive.jsonl` holds.
    ///
    /// # Errors
    /// [`Failure`] of the stage `format`.
    pub fn of(value: Value) -> Result<Self, Failure> {
        let named = value.get("type").and_then(Value::as_str);
        match named {
            Some(MANIFEST_TYPE) => Ok(Part::Manifest(value)),
            Some(ROOM_TYPE) => Ok(Part::Room(value)),
            Some(PACK_TYPE) => Self::pack(&value),
            _ if value.get("envelope").is_some() => Ok(Part::Record(value)),
            _ => Err(Failure::format("neither a manifest, a pack nor a record")),
        }
    }

    fn pack(value: &Value) -> Result<Self, Failure> {
        let uri = value.get("uri").and_then(Value::as_str);
        let text = value.get("document").and_then(Value::as_str).map(|t| t.as_bytes().to_vec());
        let bytes = text.or_else(|| {
            encoding::decode(value.get("document_base64url").and_then(Value::as_str)?).ok()
        });
        match (uri, bytes) {
            (Some(uri), Some(bytes)) => Ok(Part::Pack { uri: uri.to_owned(), bytes }),
            _ => Err(Failure::format("a pack has a uri and its document as text")),
        }
    }

    /// The parts of an archive that is one JSON document: the manifest's members at the top
    /// or in `manifest`, the records in `records` or `events`, the packs in `packs`.
    /// Packs come first, as replay needs them.
    ///
    /// # Errors
    /// [`Failure`] of the stage `format`.
    pub fn of_document(document: Value) -> Result<Vec<Self>, Failure> {
        let Value::Object(mut members) = document else {
            return Err(Failure::format("an archive document is an object"));
        };
        let mut parts = Vec::new();
        if let Some(packs) = members.remove("packs") {
            for pack in packs.as_array().into_iter().flatten() {
                parts.push(Self::pack(pack)?);
            }
        }
        let records = ["records", "events"].iter().find_map(|name| match members.remove(*name) {
            Some(Value::Array(records)) => Some(records),
            _ => None,
        });
        let records = records.ok_or_else(|| Failure::format("no records"))?;
        let manifest = match members.remove("manifest") {
            Some(manifest) => Some(manifest),
            None => members.contains_key("events_sha3_256").then_some(Value::Object(members)),
        };
        parts.extend(manifest.map(Part::Manifest));
        parts.extend(records.into_iter().map(Part::Record));
        Ok(parts)
    }
}

/// Where verification stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{stage}: {message}")]
pub struct Failure {
    /// `format`, `record`, `replay` or `manifest`.
    pub stage: &'static str,
    /// Stable code.
    pub code: String,
    /// The record's seq, when one is at fault.
    pub seq: Option<u64>,
    /// What is wrong.
    pub message: String,
}

impl Failure {
    /// A failure of the stage `format`.
    pub fn format(message: impl Into<String>) -> Self {
        Failure {
            stage: "format",
            code: "archive_format".to_owned(),
            seq: None,
            message: message.into(),
        }
    }

    fn record(error: &RecordError, seq: Option<u64>) -> Self {
        Failure { stage: "record", code: error.code().to_owned(), seq, message: error.to_string() }
    }

    fn replay(violation: &HostViolation) -> Self {
        Failure {
            stage: "replay",
            code: violation.rejection.code.as_str().to_owned(),
            seq: Some(violation.seq),
            message: violation.rejection.message.clone(),
        }
    }

    fn manifest(code: &str, message: String) -> Self {
        Failure { stage: "manifest", code: code.to_owned(), seq: None, message }
    }
}

/// Something worth knowing that breaks no rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Note {
    /// Stable code.
    pub code: &'static str,
    /// The record's seq, when it is about one.
    pub seq: Option<u64>,
    /// What was noticed.
    pub message: String,
}

/// The outcome.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verdict {
    /// Whether everything holds.
    pub verified: bool,
    /// Whether a manifest was there to compare.
    pub manifest: bool,
    /// The room.
    pub room_id: Option<String>,
    /// Verified records.
    pub event_count: u64,
    /// Latest verified record.
    pub last: Option<Tip>,
    /// Latest head-advancing record.
    pub head: Option<Tip>,
    /// Digest of the records that were read.
    pub events_sha3_256: Hash,
    /// Topic of the room as last agreed: untrusted text.
    pub topic: Option<String>,
    /// Lifecycle status right after the last record.
    pub status: Option<&'static str>,
    /// Active members after the last record.
    pub active_members: usize,
    /// What was noticed on the way.
    pub notes: Vec<Note>,
    /// The first thing that does not hold.
    pub failure: Option<Failure>,
}

/// Verifies an archive, or any list of records, from the first record on.
#[derive(Debug, Default)]
pub struct Verifier {
    room_id: Option<String>,
    context: MemoryContext,
    state: Option<RoomState>,
    digest: EventsDigest,
    last_received_at: u64,
    manifest: Option<Value>,
    notes: Vec<Note>,
    failure: Option<Failure>,
}

impl Verifier {
    /// For the room `room_id`, or the room of the first record.
    pub fn new(room_id: Option<&str>) -> Self {
        Verifier { room_id: room_id.map(str::to_owned), ..Verifier::default() }
    }

    /// Takes one part. Packs must come before the records that import them. After a failure
    /// the rest is ignored.
    pub fn push(&mut self, part: Part) {
        match part {
            Part::Manifest(manifest) => self.manifest = Some(manifest),
            Part::Pack { uri, bytes } => self.context.add_pack(&uri, bytes),
            Part::Room(_) => {}
            Part::Record(record) => self.push_record(&record),
        }
    }

    /// Verifies and applies the next record.
    pub fn push_record(&mut self, record: &Value) {
        if self.failure.is_some() {
            return;
        }
        let room_id = match self.room_id.as_deref().or_else(|| record["room_id"].as_str()) {
            Some(room_id) => room_id.to_owned(),
            None => return self.fail(Failure::format("the record names no room")),
        };
        let checked = CheckedRecord::check(record, &room_id);
        self.push_checked(record, checked);
    }

    /// As [`Verifier::push_record`], for a record that was checked already: the costly part
    /// can so run on other threads.
    pub fn push_checked(&mut self, record: &Value, checked: Result<CheckedRecord, RecordError>) {
        if self.failure.is_some() {
            return;
        }
        let seq = record["seq"].as_u64();
        let tip = self.state.as_ref().map(|state| state.tip);
        let verified = match checked.and_then(|checked| checked.link(tip.as_ref())) {
            Ok(verified) => verified,
            Err(error) => return self.fail(Failure::record(&error, seq)),
        };
        if *self.room_id.get_or_insert_with(|| verified.room_id().to_owned()) != verified.room_id()
        {
            return self.fail(Failure::record(&RecordError::Room, seq));
        }
        let outcome = match &mut self.state {
            Some(state) => state.apply(&verified, &self.context).map(|_| ()),
            None => RoomState::genesis(&verified, &self.context).map(|state| {
                self.state = Some(state);
            }),
        };
        if let Err(violation) = outcome {
            return self.fail(Failure::replay(&violation));
        }
        if verified.received_at() < self.last_received_at {
            self.notes.push(Note {
                code: "received_at_backwards",
                seq,
                message: "the host's clock went back".to_owned(),
            });
        }
        self.last_received_at = self.last_received_at.max(verified.received_at());
        self.context.push(&verified);
        self.digest.push(record);
    }

    /// Records a failure that the caller found, such as a line that is no JSON.
    pub fn fail(&mut self, failure: Failure) {
        self.failure.get_or_insert(failure);
    }

    /// Whether something failed already: the rest need not be read.
    pub fn failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Verified records so far.
    pub fn count(&self) -> u64 {
        self.state.as_ref().map_or(0, |state| state.tip.seq)
    }

    /// The room after the records so far.
    pub fn state(&self) -> Option<&RoomState> {
        self.state.as_ref()
    }

    /// Compares the manifest, if there is one, and sums up.
    pub fn finish(mut self) -> Verdict {
        let events = self.digest.clone().finish();
        if self.state.is_none() {
            self.fail(Failure::format("no records"));
        }
        if self.failure.is_none()
            && let Some(manifest) = self.manifest.take()
        {
            let state = self.state.as_ref().expect("a room without records failed above");
            match check_manifest(&manifest, &state.room_id, state.tip, events) {
                Ok(notes) => self.notes.extend(notes),
                Err(failure) => self.failure = Some(failure),
            }
            self.manifest = Some(manifest);
        }
        let state = self.state.as_ref();
        Verdict {
            verified: self.failure.is_none(),
            manifest: self.manifest.is_some(),
            room_id: self.room_id.clone(),
            event_count: state.map_or(0, |s| s.tip.seq),
            last: state.map(|s| s.tip),
            head: state.map(|s| s.head),
            events_sha3_256: events,
            topic: state.and_then(|s| Some(s.contract.get("topic")?.as_str()?.to_owned())),
            status: state.map(|s| s.status_at(self.last_received_at).as_str()),
            active_members: state.map_or(0, |s| {
                let (speaking, observing) = s.head_count();
                speaking + observing
            }),
            notes: self.notes,
            failure: self.failure,
        }
    }
}

/// Compares a manifest with what the records gave. Members beyond the known ones are legal.
///
/// # Errors
/// [`Failure`] of the stage `manifest`.
pub fn check_manifest(
    manifest: &Value,
    room_id: &str,
    tip: Tip,
    events: Hash,
) -> Result<Vec<Note>, Failure> {
    let shape = |message: String| Failure::manifest("manifest_shape", message);
    let m: &Map<String, Value> =
        manifest.as_object().ok_or_else(|| shape("a manifest is an object".to_owned()))?;
    let text = |name: &str| string(m, name).map_err(|e| shape(e.to_string()));
    let number = |name: &str| integer(m, name, 0).map_err(|e| shape(e.to_string()));
    let hash = |name: &str| Hash::parse(text(name)?).map_err(|e| shape(format!("{name}: {e}")));
    let differs = |code: &str, what: &str| {
        Err(Failure::manifest(code, format!("{what} is not what the records give")))
    };
    if text("protocol")? != DISCOURSE_PROTOCOL || text("type")? != MANIFEST_TYPE {
        return Err(shape("not a manifest of this protocol".to_owned()));
    }
    text("host")?;
    number("generated_at")?;
    if text("room_id")? != room_id {
        return differs("manifest_room_mismatch", "room_id");
    }
    if number("first_seq")? != 1
        || number("last_seq")? != tip.seq
        || number("event_count")? != tip.seq
    {
        return differs("manifest_count_mismatch", "first_seq, last_seq or event_count");
    }
    if hash("last_hash")? != tip.hash {
        return differs("manifest_last_hash_mismatch", "last_hash");
    }
    if hash("events_sha3_256")? != events {
        return differs("events_digest_mismatch", "events_sha3_256");
    }
    let mut notes = Vec::new();
    if hash("archive_root")? != events {
        // A tree of the host's own is legal where the host says so; it cannot be recomputed.
        if manifest["extra"].get("archive_root_scheme").is_none() {
            return differs("archive_root_mismatch", "archive_root");
        }
        notes.push(Note {
            code: "archive_root_unverified",
            seq: None,
            message: "archive_root follows a scheme of the host's own".to_owned(),
        });
    }
    Ok(notes)
}

/// Verifies an archive held in memory: one JSON document, or JSON lines.
pub fn verify(bytes: &[u8], room_id: Option<&str>) -> Verdict {
    let limits = json::Limits { max_bytes: usize::MAX, max_depth: 128 };
    let mut verifier = Verifier::new(room_id);
    if let Ok(document) = json::parse_with(bytes, &limits)
        && document.get("envelope").is_none()
        && document.get("type").and_then(Value::as_str) != Some(PACK_TYPE)
    {
        match Part::of_document(document) {
            Ok(parts) => parts.into_iter().for_each(|part| verifier.push(part)),
            Err(failure) => verifier.fail(failure),
        }
        return verifier.finish();
    }
    for (i, line) in bytes.split(|b| *b == b'\n').enumerate() {
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let part = json::parse_with(line, &limits)
            .map_err(|e| Failure::format(format!("line {}: {e}", i + 1)))
            .and_then(Part::of);
        match part {
            Ok(part) => verifier.push(part),
            Err(failure) => verifier.fail(failure),
        }
    }
    verifier.finish()
}
