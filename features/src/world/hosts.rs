//! Hosts, rooms and the other agents of a scenario.
//!
//! Arranges and observes; it judges nothing. The target never sees any of this but over
//! HTTP.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mock_hosts::{Fault, Host, HostConfig, JournalEntry, Lab, LabConfig, Peer, PeerError, Plan};
use serde_json::{Value, json};

use super::World;
use crate::failure::{StepError, StepResult};
use crate::wire::WireLine;

/// A room by its name in the story.
#[derive(Debug, Clone)]
pub struct Room {
    /// Label of its host.
    pub host: String,
    /// Room id.
    pub id: String,
}

/// Everything on the other side of the target.
#[derive(Default)]
pub struct Hosts {
    lab: Option<Lab>,
    rooms: BTreeMap<String, Room>,
    peers: BTreeMap<String, Peer>,
    started_at: u64,
    /// Addresses of all hosts, for a saboteur that writes to the wrong one.
    addresses: Arc<Mutex<Vec<String>>>,
}

/// A peer's failure is the suite's: the story needed it to go well.
pub fn peer_error(e: PeerError) -> StepError {
    StepError::Defect(format!("another agent's request failed: {e}"))
}

impl Hosts {
    /// A room of the story.
    ///
    /// # Errors
    /// [`StepError::Defect`].
    pub fn room(&self, name: &str) -> StepResult<&Room> {
        self.rooms.get(name).ok_or_else(|| StepError::Defect(format!("no room is called {name:?}")))
    }

    /// All rooms by name.
    pub fn rooms(&self) -> impl Iterator<Item = (&String, &Room)> {
        self.rooms.iter()
    }

    /// Gives a room a name.
    pub fn name_room(&mut self, name: &str, host: &str, id: &str) {
        self.rooms.insert(name.to_owned(), Room { host: host.to_owned(), id: id.to_owned() });
    }

    /// A running host.
    ///
    /// # Errors
    /// [`StepError::Defect`].
    pub fn host(&self, label: &str) -> StepResult<Host> {
        self.lab
            .as_ref()
            .and_then(|lab| lab.find(label))
            .ok_or_else(|| StepError::Defect(format!("no host is called {label:?}")))
    }

    /// The host of a room, and the room's id.
    ///
    /// # Errors
    /// [`StepError::Defect`].
    pub fn host_of(&self, room: &str) -> StepResult<(Host, String)> {
        let room = self.room(room)?;
        Ok((self.host(&room.host)?, room.id.clone()))
    }

    /// Every host.
    pub fn all(&self) -> Vec<Host> {
        self.lab.as_ref().map(Lab::hosts).unwrap_or_default()
    }

    /// URL of a host.
    ///
    /// # Errors
    /// [`StepError::Defect`].
    pub fn url(&self, label: &str) -> StepResult<String> {
        Ok(self.host(label)?.url().to_owned())
    }

    /// The hosts' clock.
    ///
    /// # Errors
    /// [`StepError::Defect`] before the first host.
    pub fn clock(&self) -> StepResult<mock_hosts::Clock> {
        let lab = self.lab.as_ref();
        lab.map(Lab::clock).ok_or_else(|| StepError::Defect("no host was started".to_owned()))
    }

    /// State of every host, for the report of a failure.
    pub fn dumps(&self) -> BTreeMap<String, Value> {
        self.all().iter().map(|h| (h.label().to_owned(), h.dump())).collect()
    }

    /// Every request to every host, in order of arrival.
    pub fn requests(&self) -> Vec<JournalEntry> {
        let mut all: Vec<_> = self.all().iter().flat_map(Host::requests).collect();
        all.sort_by_key(|e| e.at_ms);
        all
    }

    /// The requests as log lines.
    pub fn wire(&self) -> Vec<WireLine> {
        let line = |e: &JournalEntry| {
            let query = e.query.as_ref().map(|q| format!("?{q}")).unwrap_or_default();
            let who = match (&e.subject, e.envelope.as_ref().map(|v| &v["event"]["actor"])) {
                (Some(subject), _) => format!(" jwt {}", &subject[..subject.len().min(18)]),
                (None, Some(Value::String(actor))) => {
                    format!(" by {}", &actor[..actor.len().min(18)])
                }
                _ => String::new(),
            };
            let event = e
                .envelope
                .as_ref()
                .map(|v| {
                    let event = &v["event"];
                    format!(
                        " {} nonce {} base {} payload {}",
                        event["type"],
                        event["nonce"],
                        event["base_seq"],
                        crate::wire::brief(&event["payload"])
                    )
                })
                .or_else(|| e.body.as_ref().map(|b| format!(" {}", crate::wire::brief(b))))
                .unwrap_or_default();
            let status = match (e.status, &e.error) {
                (Some(status), Some(error)) => format!("{status} {error}"),
                (Some(status), None) => status.to_string(),
                (None, _) => "no answer".to_owned(),
            };
            let faults =
                if e.faults.is_empty() { String::new() } else { format!(" faults {:?}", e.faults) };
            WireLine {
                at_ms: e.at_ms.saturating_sub(self.started_at),
                channel: format!("http {}", e.host),
                text: format!("{} {}{query} -> {status}{who}{event}{faults}", e.method, e.path),
            }
        };
        self.requests().iter().map(line).collect()
    }
}

impl World {
    /// Starts a host; `allowed` puts it on the target's list.
    ///
    /// # Errors
    /// [`StepError::Defect`].
    pub async fn add_host(
        &mut self,
        label: &str,
        mut config: HostConfig,
        allowed: bool,
    ) -> StepResult<Host> {
        config.bare_lists |= self.run.profile.lists == crate::profile::Lists::Bare;
        if self.hosts.lab.is_none() {
            let config = LabConfig { seed: self.seed, ..LabConfig::default() };
            self.hosts.lab = Some(Lab::start(config).await.map_err(StepError::defect)?);
            // The log counts from the beginning of the scenario, by the same clock.
            self.hosts.started_at = crate::run::now_ms().saturating_sub(self.log.elapsed_ms());
        }
        let lab = self.hosts.lab.as_ref().expect("started just above");
        let host = lab.host(label, config).await.map_err(StepError::defect)?;
        let addresses = &self.hosts.addresses;
        addresses.lock().unwrap_or_else(PoisonError::into_inner).push(host.url().to_owned());
        let saboteur = self.run.saboteur;
        if let Some(relay) = saboteur.and_then(|s| s.relay(&self.identity, host.url(), addresses)) {
            host.set_relay(relay);
        }
        if allowed {
            if host.config().discourse {
                let profiles = host.config().profiles.then(|| host.url().to_owned());
                self.provision.hosts.push((host.url().to_owned(), label.to_owned(), profiles));
            }
            if host.config().profiles {
                self.provision.profile_services.push(host.url().to_owned());
            }
        }
        Ok(host)
    }

    /// Another agent of the story, made when first spoken of.
    ///
    /// # Errors
    /// [`StepError::Defect`] before the first host.
    pub fn peer(&mut self, name: &str) -> StepResult<&Peer> {
        if !self.hosts.peers.contains_key(name) {
            let peer = Peer::new(self.key(name), self.hosts.clock()?);
            self.hosts.peers.insert(name.to_owned(), peer);
        }
        Ok(&self.hosts.peers[name])
    }

    /// Lets a peer create a room on a host and names it.
    ///
    /// # Errors
    /// [`StepError::Defect`].
    pub async fn create_room(
        &mut self,
        peer: &str,
        name: &str,
        host: &str,
        mut changes: Value,
    ) -> StepResult {
        let at = self.hosts.host(host)?;
        if changes.get("topic").is_none() {
            changes["topic"] = json!(format!("The {name}"));
        }
        let id = self.peer(peer)?.create_room(&at, changes).await.map_err(peer_error)?;
        self.hosts.name_room(name, host, &id);
        Ok(())
    }

    /// Lets a peer send any event on the current head.
    ///
    /// # Errors
    /// [`StepError::Defect`].
    pub async fn peer_sends(
        &mut self,
        peer: &str,
        room: &str,
        event_type: &str,
        payload: Value,
        mentions: &[&str],
    ) -> StepResult<Value> {
        let (host, id) = self.hosts.host_of(room)?;
        let sent = self.peer(peer)?.send(&host, &id, event_type, payload, mentions).await;
        sent.map_err(peer_error)
    }

    /// The true records of a room.
    ///
    /// # Errors
    /// [`StepError::Defect`].
    pub fn records(&self, room: &str) -> StepResult<Vec<Value>> {
        let (host, id) = self.hosts.host_of(room)?;
        Ok(host.records(&id))
    }

    /// Plain texts of the messages of a room, with their authors.
    ///
    /// # Errors
    /// [`StepError::Defect`].
    pub fn messages(&self, room: &str) -> StepResult<Vec<(String, String)>> {
        let records = self.records(room)?;
        let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
        Ok(records
            .iter()
            .map(|r| &r["envelope"]["event"])
            .filter(|e| e["type"] == "message.create")
            .map(|e| (text(&e["actor"]), text(&e["payload"]["content"])))
            .collect())
    }

    /// Adds faults to a host, from TOML as a plan writes them, placeholders filled.
    ///
    /// # Errors
    /// [`StepError::Defect`] when it is no plan.
    pub fn add_faults(&self, host: &str, toml: &str) -> StepResult {
        let host = self.hosts.host(host)?;
        let plan = Plan::from_toml(&self.fill(toml)?).map_err(StepError::defect)?;
        for fault in plan.faults {
            host.add_fault(fault);
        }
        Ok(())
    }

    /// Adds one fault.
    ///
    /// # Errors
    /// [`StepError::Defect`].
    pub fn add_fault(&self, host: &str, fault: Fault) -> StepResult {
        self.hosts.host(host)?.add_fault(fault);
        Ok(())
    }

    /// Polls a condition until it holds or the deadline passes; whether it held.
    ///
    /// # Errors
    /// Those of the condition.
    pub async fn eventually<F>(&mut self, deadline: Duration, mut holds: F) -> StepResult<bool>
    where
        F: AsyncFnMut(&mut World) -> StepResult<bool>,
    {
        let deadline = self.run.patience.map_or(deadline, |p| p.min(deadline));
        let end = tokio::time::Instant::now() + deadline;
        loop {
            if holds(self).await? {
                return Ok(true);
            }
            if tokio::time::Instant::now() >= end {
                return Ok(false);
            }
            tokio::time::sleep(Duration::from_millis(40)).await;
        }
    }
}
