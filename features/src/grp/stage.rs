//! What one GRP scenario owns: the host (its own when embedded), rooms, seats, mandates, the
//! latest answer, waits in flight.

use std::collections::BTreeMap;

use ap_protocol::SecretKey;
use mock_hosts::grp::{GrpConfig, GrpHost, TestIssuer, issuer::did_key_mandate};
use serde_json::{Value, json};

use super::Target;
use super::client::{Client, Reply, Via, Who};
use crate::failure::{StepError, StepResult};
use crate::world::World;

/// A room of the story.
#[derive(Debug, Clone)]
pub struct Room {
    /// Its address.
    pub slug: String,
    /// Page URL as the host gave it.
    pub url: String,
    /// Who made it.
    pub creator: String,
}

/// Everything of a GRP scenario.
#[derive(Default)]
pub struct Stage {
    /// The host, when it is ours.
    pub host: Option<GrpHost>,
    /// An issuer the embedded host trusts.
    pub issuer: Option<TestIssuer>,
    client: Option<Client>,
    /// Transport of the acts that follow.
    pub via: Option<Via>,
    /// Rooms by name.
    pub rooms: BTreeMap<String, Room>,
    /// Credentials by person and room.
    pub seats: BTreeMap<(String, String), Who>,
    /// Participant ids by person and room.
    pub ids: BTreeMap<(String, String), String>,
    /// Mandates by person.
    pub mandates: BTreeMap<String, String>,
    /// The latest answer.
    pub last: Option<Reply>,
    /// Answers kept by name.
    pub kept: BTreeMap<String, Reply>,
    /// Two answers to two calls made at once.
    pub both: Vec<Reply>,
    /// Waits in flight.
    pub waits: BTreeMap<String, tokio::task::JoinHandle<StepResult<Reply>>>,
    /// Every secret token seen.
    pub tokens: Vec<String>,
}

/// Longest wait of the embedded host (s): the clamp shows without waiting 50 s.
pub const EMBEDDED_MAX_WAIT_S: f64 = 4.0;

impl World {
    /// The client of the judged host, which is started when first needed.
    ///
    /// # Errors
    /// [`StepError::Defect`].
    pub async fn grp_client(&mut self) -> StepResult<Client> {
        if let Some(client) = &self.grp.client {
            return Ok(client.clone());
        }
        let base = match &self.run.grp {
            Target::Url(url) => url.clone(),
            Target::Embedded(defects) => {
                let issuer = TestIssuer::start(crate::world::key_seed(self.seed, "the principal"))
                    .await
                    .map_err(StepError::defect)?;
                let config = GrpConfig {
                    max_wait_s: EMBEDDED_MAX_WAIT_S,
                    trusted_issuers: vec![issuer.url().to_owned()],
                    allow_private_targets: true,
                    issuer_ttl_ms: 0,
                    defects: defects.clone(),
                    ..GrpConfig::default()
                };
                let host = GrpHost::start(config).await.map_err(StepError::defect)?;
                let base = host.url().to_owned();
                self.grp.host = Some(host);
                self.grp.issuer = Some(issuer);
                base
            }
        };
        let client = Client::new(&base, self.log.clone())?;
        self.grp.client = Some(client.clone());
        Ok(client)
    }

    /// The embedded host: for what cannot be seen at the wire.
    ///
    /// # Errors
    /// [`StepError::NotClaimed`] for a foreign host.
    pub async fn grp_lab(&mut self) -> StepResult<GrpHost> {
        self.grp_client().await?;
        self.grp.host.clone().ok_or_else(|| {
            StepError::NotClaimed("only the embedded host can be looked into".to_owned())
        })
    }

    /// A room of the story.
    ///
    /// # Errors
    /// [`StepError::Defect`].
    pub fn grp_room(&self, name: &str) -> StepResult<&Room> {
        self.grp
            .rooms
            .get(name)
            .ok_or_else(|| StepError::Defect(format!("no room is called {name:?}")))
    }

    /// The credential of a person in a room: a seat, else the person's mandate, else none.
    pub fn grp_who(&self, person: &str, room: &str) -> Who {
        let seat = self.grp.seats.get(&(person.to_owned(), room.to_owned()));
        seat.cloned()
            .unwrap_or_else(|| Who { token: None, mandate: self.grp.mandates.get(person).cloned() })
    }

    /// Calls an operation and keeps the answer.
    ///
    /// # Errors
    /// [`StepError`].
    pub async fn grp_call(
        &mut self,
        person: &str,
        op: &str,
        room: &str,
        args: Value,
        key: Option<&str>,
    ) -> StepResult {
        let client = self.grp_client().await?;
        let via = self.grp.via.unwrap_or(Via::Rest);
        let slug =
            if op == "create_room" { String::new() } else { self.grp_room(room)?.slug.clone() };
        let who = if op == "create_room" || op == "join_room" {
            Who { token: None, mandate: self.grp.mandates.get(person).cloned() }
        } else {
            self.grp_who(person, room)
        };
        let reply = client.call(via, op, &slug, &who, &args, key).await?;
        self.answered = true;
        if !reply.failed {
            self.take_seat(person, op, room, &reply, &who);
        }
        self.grp.last = Some(reply);
        Ok(())
    }

    fn take_seat(&mut self, person: &str, op: &str, room: &str, reply: &Reply, who: &Who) {
        let text = |name: &str| reply.body[name].as_str().map(str::to_owned);
        let token = match op {
            "create_room" => {
                let (slug, url) = (text("slug"), text("url"));
                if let (Some(slug), Some(url)) = (slug, url) {
                    let creator = person.to_owned();
                    self.grp.rooms.insert(room.to_owned(), Room { slug, url, creator });
                }
                text("creator_token")
            }
            "join_room" => text("participant_token"),
            _ => return,
        };
        let at = (person.to_owned(), room.to_owned());
        if let Some(token) = &token {
            self.log.hide(token, "participant token");
            self.grp.tokens.push(token.clone());
        }
        if let Some(id) = text("participant_id") {
            self.grp.ids.insert(at.clone(), id);
        }
        let mandate = if token.is_none() { who.mandate.clone() } else { None };
        self.grp.seats.insert(at, Who { token, mandate });
    }

    /// The latest answer.
    ///
    /// # Errors
    /// [`StepError::Defect`].
    pub fn grp_last(&self) -> StepResult<&Reply> {
        self.grp.last.as_ref().ok_or_else(|| StepError::Defect("nothing was asked yet".to_owned()))
    }

    /// Makes a mandate for a person: from the trusted issuer when `by_issuer` (embedded
    /// only), else as a `did:key` principal.
    ///
    /// # Errors
    /// [`StepError`].
    pub async fn grp_mandate(
        &mut self,
        person: &str,
        mut claims: Value,
        by_issuer: bool,
    ) -> StepResult<String> {
        self.grp_client().await?;
        if claims.get("sub").is_none() {
            claims["sub"] = json!(format!("urn:grp:agent:{person}-{:x}", self.seed));
        }
        if claims.get("jti").is_none() {
            claims["jti"] = json!(format!("urn:uuid:{person}-{:x}", self.seed));
        }
        let now = self.grp_now();
        if by_issuer {
            let issuer = self.grp.issuer.as_ref().ok_or_else(|| {
                StepError::NotClaimed("a foreign host does not know our issuer".to_owned())
            })?;
            return Ok(issuer.mandate(now, claims));
        }
        Ok(did_key_mandate(&self.grp_principal(person), now, claims))
    }

    /// The key of a person's principal.
    pub fn grp_principal(&self, person: &str) -> SecretKey {
        self.key(&format!("principal of {person}"))
    }

    /// The time mandates are made for (Unix ms).
    pub fn grp_now(&self) -> i64 {
        match &self.grp.host {
            Some(host) => host.clock().now_ms(),
            None => i64::try_from(crate::run::now_ms()).unwrap_or(i64::MAX),
        }
    }

    /// Fills `{room:NAME}`, `{url:NAME}`, `{token:PERSON:ROOM}`, `{id:PERSON:ROOM}`,
    /// `{mandate:PERSON}`,
    /// `{principal:PERSON}`, `{kept:NAME:POINTER}`, `{seed}`.
    ///
    /// # Errors
    /// [`StepError::Defect`] for a name nobody bears.
    pub fn grp_fill(&self, text: &str) -> StepResult<String> {
        let mut out = String::new();
        let mut rest = text;
        while let Some(open) = rest.find('{') {
            let (before, from) = rest.split_at(open);
            out.push_str(before);
            let value =
                from[1..].split_once('}').map(|(inner, after)| (self.grp_value(inner), after));
            match value {
                Some((Some(value), after)) => {
                    out.push_str(&value);
                    rest = after;
                }
                _ => {
                    out.push('{');
                    rest = &from[1..];
                }
            }
        }
        out.push_str(rest);
        for left in ["{room:", "{url:", "{token:", "{id:", "{mandate:", "{kept:"] {
            if out.contains(left) {
                return Err(StepError::Defect(format!(
                    "{left}…}} names nothing known in {text:?}"
                )));
            }
        }
        Ok(out)
    }

    fn grp_value(&self, inner: &str) -> Option<String> {
        let mut parts = inner.split(':');
        let kind = parts.next()?;
        if kind == "seed" {
            return Some(format!("{:x}", self.seed));
        }
        let one = parts.next()?;
        let seat = |room: &str| self.grp.seats.get(&(one.to_owned(), room.to_owned()));
        match kind {
            "room" => Some(self.grp.rooms.get(one)?.slug.clone()),
            "url" => Some(self.grp.rooms.get(one)?.url.clone()),
            "token" => seat(parts.next()?)?.token.clone(),
            "id" => self.grp.ids.get(&(one.to_owned(), parts.next()?.to_owned())).cloned(),
            "principal" => {
                let key = self.grp_principal(one);
                Some(mock_hosts::grp::mandate::to_did_key(key.agent_id().key_bytes()))
            }
            "mandate" => self.grp.mandates.get(one).cloned(),
            "kept" => {
                let value = self.grp.kept.get(one)?.body.pointer(parts.next()?)?.clone();
                Some(value.as_str().map_or_else(|| value.to_string(), str::to_owned))
            }
            _ => None,
        }
    }
}
