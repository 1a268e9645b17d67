//! What the tests share: a lab with a host and agents, raw requests, an independent SSE client.

use std::time::Duration;

use futures::StreamExt;
use mock_hosts::{Host, HostConfig, Lab, LabConfig, Peer};
use reqwest_eventsource::{Event, EventSource, retry::Never};
use serde_json::{Value, json};

/// Longest any condition may take to come true.
pub const SOON: Duration = Duration::from_secs(10);

/// A lab with one discourse host and three agents; `ann` owns the room.
pub struct Stage {
    #[allow(dead_code)] // dropping it stops the host
    pub lab: Lab,
    pub host: Host,
    pub ann: Peer,
    pub bob: Peer,
    pub eve: Peer,
}

impl Stage {
    pub async fn new() -> Self {
        Self::with(HostConfig::default()).await
    }

    pub async fn with(config: HostConfig) -> Self {
        let lab = Lab::start(LabConfig::default()).await.unwrap();
        let host = lab.host("a", config).await.unwrap();
        let peer = |name: &str| Peer::named(name, lab.clock());
        let (ann, bob, eve) = (peer("ann"), peer("bob"), peer("eve"));
        Stage { lab, host, ann, bob, eve }
    }

    pub async fn room(&self) -> String {
        self.ann.create_room(&self.host, json!({})).await.unwrap()
    }

    /// A room of ann's in which bob is a speaker.
    pub async fn shared_room(&self) -> String {
        let room = self.room().await;
        self.bob.join(&self.host, &room, "speaker").await.unwrap();
        room
    }
}

/// Asserts that a call was refused with this code.
#[track_caller]
pub fn refused<T: std::fmt::Debug>(result: Result<T, mock_hosts::PeerError>, code: &str) {
    match result {
        Err(e) if e.code() == code => {}
        other => panic!("expected {code}, got {other:?}"),
    }
}

pub fn http() -> reqwest::Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .timeout(Duration::from_secs(20))
        .no_proxy()
        .build()
        .unwrap()
}

/// A live stream read by an independent client.
pub struct Stream {
    source: EventSource,
}

impl Stream {
    /// Opens the stream and waits until the host counts it.
    pub async fn open(host: &Host, room: &str, peer: &Peer) -> Self {
        let before = host.live_subscribers(room);
        let mut stream = Self::connect(host, room, peer);
        assert!(matches!(stream.source.next().await, Some(Ok(Event::Open))), "the stream opens");
        assert!(host.wait_for_subscribers(room, before + 1, SOON).await);
        stream
    }

    pub fn connect(host: &Host, room: &str, peer: &Peer) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let request = client
            .get(format!("{}/v1/rooms/{room}/events/live", host.url()))
            .bearer_auth(peer.token(host.url()));
        let mut source = EventSource::new(request).unwrap();
        source.set_retry_policy(Box::new(Never));
        Stream { source }
    }

    /// The next event's name and data; none when the stream has ended.
    pub async fn next(&mut self) -> Option<(String, String)> {
        loop {
            let item = tokio::time::timeout(SOON, self.source.next()).await.expect("in time");
            match item {
                Some(Ok(Event::Message(m))) => return Some((m.event, m.data)),
                Some(Ok(Event::Open)) => {}
                Some(Err(_)) | None => return None,
            }
        }
    }

    /// The next event's data as JSON.
    pub async fn json(&mut self) -> Value {
        let (_, data) = self.next().await.expect("an event");
        ap_protocol::json::parse(data.as_bytes()).expect("strict JSON")
    }

    /// Seqs of the next `n` room events.
    pub async fn seqs(&mut self, n: usize) -> Vec<u64> {
        let mut seqs = Vec::new();
        while seqs.len() < n {
            seqs.push(self.json().await["seq"].as_u64().expect("a record"));
        }
        seqs
    }
}

/// The history as the host shows it to `peer`, page by page.
pub async fn history(host: &Host, room: &str, peer: &Peer) -> Vec<Value> {
    let mut all = Vec::new();
    let mut path = format!("/v1/rooms/{room}/events");
    loop {
        let page = peer.get(host, &path).await.unwrap();
        all.extend(page["result"].as_array().unwrap().iter().cloned());
        match page["next_cursor"].as_str() {
            Some(cursor) => path = format!("/v1/rooms/{room}/events?cursor={cursor}"),
            None => return all,
        }
    }
}

/// Verifies a chain from its first record; the error names what is wrong.
pub fn verify(room: &str, records: &[Value]) -> Result<ap_protocol::RoomState, String> {
    use ap_protocol::room::MemoryContext;
    let mut ctx = MemoryContext::default();
    let mut state: Option<ap_protocol::RoomState> = None;
    for value in records {
        let checked =
            ap_protocol::CheckedRecord::check(value, room).map_err(|e| e.code().to_owned())?;
        let tip = state.as_ref().map(|s| s.tip);
        let record = checked.link(tip.as_ref()).map_err(|e| e.code().to_owned())?;
        match &mut state {
            None => {
                state = Some(
                    ap_protocol::RoomState::genesis(&record, &ctx)
                        .map_err(|v| v.rejection.code.to_string())?,
                );
            }
            Some(state) => {
                state.apply(&record, &ctx).map_err(|v| v.rejection.code.to_string())?;
            }
        }
        ctx.push(&record);
    }
    state.ok_or_else(|| "empty".to_owned())
}
