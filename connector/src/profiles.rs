//! Profiles: descriptive data of agents, shown only from a verified envelope.

use ap_protocol::{AgentId, PROFILE_PROTOCOL, VerifiedEnvelope};
use rusqlite::{OptionalExtension, params};
use serde_json::{Map, Value, json};

use crate::core::Core;
use crate::error::ToolError;
use crate::freshness::Target;
use crate::http::{AllowedOrigin, Request};
use crate::store::parse_json;
use crate::sync::list_of;

/// The current document as the signed event makes it: the service's word is not needed.
fn signed_document(envelope: &VerifiedEnvelope) -> Value {
    ap_protocol::profile::materialize(envelope).unwrap_or(Value::Null)
}

/// What a verified profile envelope says, as members show it.
fn view(envelope: &VerifiedEnvelope) -> Value {
    let p = envelope.payload();
    let get = |name: &str| p.get(name).filter(|v| v.is_string()).cloned().unwrap_or(Value::Null);
    json!({ "name": get("name"), "description": get("description"), "avatar_url": get("avatar_url") })
}

/// Verifies a profile envelope of one agent.
fn verify(value: &Value, agent: &AgentId) -> Result<VerifiedEnvelope, ToolError> {
    let unverified = |why: String| {
        ToolError::new("profile_unverified", format!("the profile does not verify: {why}"))
    };
    let envelope = VerifiedEnvelope::verify(value).map_err(|e| unverified(e.to_string()))?;
    if envelope.event()["protocol"] != PROFILE_PROTOCOL {
        return Err(unverified("it is no profile event".to_owned()));
    }
    if envelope.actor() != agent {
        return Err(unverified("somebody else signed it".to_owned()));
    }
    Ok(envelope)
}

impl Core {
    /// The profile that members of `host` show for `agent`; none when there is no profile
    /// service, no profile, or none that verifies.
    pub async fn profile_of(&self, host: &str, agent: &AgentId) -> Value {
        let Some(service) = self.http.profile_service_of(host) else { return Value::Null };
        match self.verified_profile(&service, agent).await {
            Ok(Some(envelope)) => view(&envelope),
            Ok(None) => Value::Null,
            Err(e) => {
                tracing::debug!(code = %e.code, "no profile");
                Value::Null
            }
        }
    }

    async fn verified_profile(
        &self,
        service: &AllowedOrigin,
        agent: &AgentId,
    ) -> Result<Option<VerifiedEnvelope>, ToolError> {
        let now = self.clock.now_ms();
        let cached: Option<(Option<String>, i64)> = self.store.read(|c| {
            c.query_row(
                "SELECT envelope, fetched_at FROM profiles WHERE service = ?1 AND agent_id = ?2",
                [service.as_str(), agent.as_str()],
                |r| Ok((r.get(0)?, r.get(1)?)),
            )
            .optional()
        })?;
        let mut newest = None;
        if let Some((text, fetched_at)) = cached {
            newest =
                text.map(|t| parse_json(&t)).transpose()?.map(|v| verify(&v, agent)).transpose()?;
            if now.saturating_sub(fetched_at as u64) < self.tuning.profile_cache_ms {
                return Ok(newest);
            }
        }
        if let Some(fetched) = self.latest_profile_event(service, agent).await?
            // A service that shows an older document than before is behind, or lying.
            && newest.as_ref().is_none_or(|n| fetched.nonce() >= n.nonce())
        {
            newest = Some(fetched);
        }
        self.keep_profile(service, agent, newest.as_ref())?;
        Ok(newest)
    }

    fn keep_profile(
        &self,
        service: &AllowedOrigin,
        agent: &AgentId,
        envelope: Option<&VerifiedEnvelope>,
    ) -> Result<(), ToolError> {
        let now = self.clock.now_ms();
        self.store.write(|tx| {
            tx.execute(
                "INSERT INTO profiles(service, agent_id, envelope, fetched_at) VALUES(?1, ?2, ?3, ?4)
                 ON CONFLICT(service, agent_id) DO UPDATE SET envelope = excluded.envelope, fetched_at = excluded.fetched_at",
                params![service.as_str(), agent.as_str(), envelope.map(|e| e.value().to_string()), now as i64],
            )?;
            Ok(())
        })
    }

    /// The newest event of a profile's history, verified.
    pub(crate) async fn latest_profile_event(
        &self,
        service: &AllowedOrigin,
        agent: &AgentId,
    ) -> Result<Option<VerifiedEnvelope>, ToolError> {
        let path = ["v1", "profiles", agent.as_str(), "events"];
        let query = [("limit", "1".to_owned())];
        let reply = self.http.exchange(service, &Request::get(&path).query(&query)).await?;
        if reply.status == 404 {
            return Ok(None);
        }
        if let Some(e) = reply.error() {
            return Err(e);
        }
        let (items, _) = list_of(reply.body, "profile events")?;
        items.first().map(|v| verify(v, agent)).transpose()
    }

    /// Signs and submits the own profile. Returns the service's document and the envelope.
    ///
    /// # Errors
    /// The protocol's code; `write_uncertain` when the answer was lost and the history does
    /// not show the event.
    pub async fn update_profile(
        &self,
        service: &AllowedOrigin,
        profile: &Map<String, Value>,
    ) -> Result<(Value, Value), ToolError> {
        let _running = self.writes.token();
        let _turn = self.write_turn(service).await?;
        self.settle_nonces(Target::Profile(service)).await?;
        let mut retried = false;
        loop {
            let now = self.clock.now_ms();
            self.rate.take(&format!("{} profile", service.as_str()), now)?;
            let envelope = self.store.write(|tx| {
                let envelope = self.signer.sign_profile(tx, profile, now)?;
                crate::write::enqueue(tx, None, service.as_str(), &envelope, false, None, now)?;
                Ok::<_, ToolError>(envelope)
            })?;
            let path = ["v1", "profiles"];
            let sent = self.http.exchange(service, &Request::post(&path, envelope.value())).await;
            let cause = match self.classify(service.as_str(), "profile", envelope.hash(), sent)? {
                Ok(document) => {
                    let named = document["event_id"].as_str();
                    let ours = profile
                        .iter()
                        .filter(|(name, _)| ap_protocol::profile::MEMBERS.contains(&name.as_str()));
                    if named.is_none_or(|id| id == envelope.hash().to_string())
                        && ours.clone().all(|(name, value)| document.get(name) == Some(value))
                    {
                        self.drop_outbox(envelope.hash())?;
                        self.keep_profile(service, self.me(), Some(&envelope))?;
                        return Ok((signed_document(&envelope), envelope.value().clone()));
                    }
                    ToolError::new(
                        "response_mismatch",
                        "the profile service answered with another document than the signed one",
                    )
                }
                Err(crate::write::Attempt::Refused(e, max_seen)) => {
                    self.drop_outbox(envelope.hash())?;
                    match max_seen {
                        Some(header) if e.code == "nonce_not_greater" && !retried => {
                            retried = true;
                            self.adopt_max_seen(&header)?;
                            continue;
                        }
                        _ => return Err(e),
                    }
                }
                Err(crate::write::Attempt::Lost(e)) => e,
                Err(crate::write::Attempt::Sent(_)) => unreachable!("classify never says so"),
            };
            // The latest accepted update is the whole document: the history settles it.
            if let Ok(Some(latest)) = self.latest_profile_event(service, self.me()).await
                && latest.hash() == envelope.hash()
            {
                self.drop_outbox(envelope.hash())?;
                self.keep_profile(service, self.me(), Some(&envelope))?;
                return Ok((signed_document(&envelope), envelope.value().clone()));
            }
            return Err(ToolError::new(
                "write_uncertain",
                format!("whether the profile service accepted the update is not known yet ({}); sending it again replaces the document as a whole, which is safe", cause.code),
            )
            .with(json!({ "profile_service": service.as_str(), "event_id": envelope.hash(), "cause": cause.code })));
        }
    }
}
