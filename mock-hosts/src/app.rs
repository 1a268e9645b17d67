//! The APP host: signed profiles, latest wins by nonce, history kept.

use std::collections::HashMap;

use ap_protocol::profile::MEMBERS;
use ap_protocol::{AgentId, ErrorCode, PROFILE_PROTOCOL, VerifiedEnvelope};
use serde_json::{Map, Value, json};

use crate::adp::write::envelope_of;
use crate::answer::{Answer, Refusal};
use crate::host::HostInner;
use crate::route::Route;
use crate::serve::{Exchange, page};
use crate::sync::lock;

/// Accepted envelopes of each agent, in order of acceptance (and so of nonce).
#[derive(Debug, Default)]
pub(crate) struct Profiles {
    history: HashMap<AgentId, Vec<Value>>,
}

impl Profiles {
    pub(crate) fn push(&mut self, agent: AgentId, envelope: Value) {
        self.history.entry(agent).or_default().push(envelope);
    }

    pub(crate) fn clear(&mut self) {
        self.history.clear();
    }

    pub(crate) fn document(&self, agent: &AgentId) -> Option<Value> {
        let latest = self.history.get(agent)?.last()?;
        Some(document(latest))
    }

    pub(crate) fn history(&self, agent: &AgentId) -> &[Value] {
        self.history.get(agent).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn dump(&self) -> Value {
        let list: Map<String, Value> =
            self.history.iter().map(|(a, l)| (a.to_string(), json!(l))).collect();
        Value::Object(list)
    }
}

fn document(envelope: &Value) -> Value {
    let payload = &envelope["event"]["payload"];
    let mut view = Map::new();
    for name in MEMBERS {
        if let Some(value) = payload.get(*name) {
            view.insert((*name).to_owned(), value.clone());
        }
    }
    view.insert("updated_at".into(), envelope["event"]["created_at"].clone());
    view.insert("event_id".into(), envelope["hash"].clone());
    Value::Object(view)
}

/// Handles one request to a profile route.
pub(crate) fn handle(host: &HostInner, ex: &Exchange) -> Result<Answer, Refusal> {
    let unknown = || Refusal::http(404, "profile_not_found", "no profile of this agent");
    match ex.target.route {
        Route::ProfileDiscovery => Ok(Answer::json(json!({
            "protocol": PROFILE_PROTOCOL,
            "service": host.front.url,
            "endpoints": {
                "profiles": format!("{}/v1/profiles", host.front.url),
                "profile_batch": format!("{}/v1/profiles/batch", host.front.url),
            },
            "features": ["signed-updates", "event-history", "batch-read"],
        }))),
        Route::ProfileUpdate => {
            let envelope = envelope_of(host, ex)?;
            let (document, max) = accept(host, envelope, ex.now)?;
            Ok(Answer::json(document)
                .with_header(ap_protocol::nonce::MAX_SEEN_NONCE, max.to_string()))
        }
        Route::Profile => {
            let agent = agent_of(&ex.target.first)?;
            lock(&host.profiles).document(&agent).map(Answer::json).ok_or_else(unknown)
        }
        Route::ProfileBatch => {
            let ids = ex
                .object_body()?
                .get("ids")
                .and_then(Value::as_array)
                .ok_or_else(|| Refusal::bad_request("ids is an array of Agent IDs"))?;
            if ids.len() > 1000 {
                return Err(Refusal::new(ErrorCode::PayloadTooLarge, "at most 1000 ids"));
            }
            let profiles = lock(&host.profiles);
            let mut found = Vec::new();
            for id in ids {
                let agent = agent_of(id.as_str().unwrap_or_default())?;
                found.extend(profiles.document(&agent));
            }
            Ok(Answer::json(json!({ "result": found })))
        }
        Route::ProfileEvents => {
            let agent = agent_of(&ex.target.first)?;
            let profiles = lock(&host.profiles);
            let history = profiles.history(&agent);
            if history.is_empty() {
                return Err(unknown());
            }
            // Newest first; the cursor key falls so that paging goes on where it stopped.
            let found = history
                .iter()
                .rev()
                .map(|e| {
                    let nonce = e["event"]["nonce"].as_u64().unwrap_or(0);
                    (format!("{:016}", ap_protocol::MAX_SAFE_INTEGER - nonce), e.clone())
                })
                .collect();
            page(host, ex, found, 1, 100)
        }
        _ => Err(Refusal::http(404, "not_found", "no such endpoint on a profile host")),
    }
}

fn agent_of(text: &str) -> Result<AgentId, Refusal> {
    AgentId::parse(text).map_err(|e| Refusal::bad_request(format!("not an Agent ID: {e}")))
}

/// Accepts a verified profile.update. Returns the document and the actor's greatest nonce.
pub(crate) fn accept(
    host: &HostInner,
    envelope: VerifiedEnvelope,
    now: u64,
) -> Result<(Value, u64), Refusal> {
    if envelope.event()["protocol"] != PROFILE_PROTOCOL {
        return Err(Refusal::new(ErrorCode::InvalidEvent, "this endpoint takes profile.update"));
    }
    ap_protocol::limits::check_profile(envelope.payload())
        .map_err(|e| Refusal::new(e.code, e.message))?;
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
    host.store_profile(envelope.value(), envelope.actor(), envelope.nonce(), now);
    nonces.take(envelope.actor(), envelope.nonce(), now);
    let view = document(envelope.value());
    lock(&host.profiles).push(envelope.actor().clone(), envelope.value().clone());
    Ok((view, envelope.nonce()))
}
