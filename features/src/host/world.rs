//! What one host scenario owns: its agents, rooms, requests and streams, and the last answer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ap_protocol::room::MemoryContext;
use ap_protocol::sse::{Limits, SseEvent, SseParser};
use ap_protocol::{CheckedRecord, Hash, RoomState, Tip, json as strict};
use mock_hosts::{Clock, Lab, LabConfig, Peer};
use serde_json::{Value, json};

use super::HostRun;
use crate::failure::{StepError, StepResult, no};
use crate::run::now_ms;
use crate::wire::WireLog;
use crate::world::case_seed;

/// Longest wait for one answer or one stream event.
const ANSWER: Duration = Duration::from_secs(15);

/// One answer of the host.
#[derive(Debug, Clone, Default)]
pub struct Reply {
    /// HTTP status.
    pub status: u16,
    /// `Max-Seen-Nonce`.
    pub max_seen_nonce: Option<String>,
    /// Content type.
    pub content_type: String,
    /// Body.
    pub text: String,
}

impl Reply {
    /// Whether the host said yes.
    pub fn ok(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The body as strict JSON.
    ///
    /// # Errors
    /// [`StepError::Check`].
    pub fn json(&self) -> StepResult<Value> {
        strict::parse(self.text.as_bytes())
            .or_else(|e| no("an answer in strict JSON", format!("{e}: {}", self.brief())))
    }

    /// The error code, empty when there is none.
    pub fn code(&self) -> String {
        let json = strict::parse(self.text.as_bytes()).unwrap_or(Value::Null);
        json.pointer("/error/code").and_then(Value::as_str).unwrap_or_default().to_owned()
    }

    /// Status and body, short.
    pub fn brief(&self) -> String {
        let body: String = self.text.chars().take(300).collect();
        format!("{} {body}", self.status)
    }
}

/// A live stream that is being read.
pub struct Listening {
    response: reqwest::Response,
    parser: SseParser,
    events: std::collections::VecDeque<SseEvent>,
}

/// One scenario's world.
#[derive(cucumber::World)]
#[world(init = HostWorld::detached)]
pub struct HostWorld {
    /// Base URL and origin.
    pub url: String,
    /// The embedded host, when it is judged.
    lab: Option<Lab>,
    seed: u64,
    http: reqwest::Client,
    peers: BTreeMap<String, Peer>,
    /// Rooms by name: id and the name of the creator.
    pub rooms: BTreeMap<String, (String, String)>,
    /// Join requests by the applicant's name: the immutable object.
    pub requests: BTreeMap<String, Value>,
    /// Heads that were noted, by room name.
    pub noted: BTreeMap<String, Tip>,
    /// Streams by listener.
    pub streams: BTreeMap<String, Listening>,
    /// The last answer.
    pub last: Option<Reply>,
    /// The last envelope that was sent.
    pub sent: Value,
    /// Log of the wire.
    pub log: WireLog,
    /// Whether the host ever answered.
    pub answered: bool,
}

impl std::fmt::Debug for HostWorld {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostWorld").field("url", &self.url).finish_non_exhaustive()
    }
}

impl HostWorld {
    fn detached() -> Result<Self, StepError> {
        Err(StepError::Defect("a world is made by the driver only".to_owned()))
    }

    /// A fresh world for one case.
    ///
    /// # Errors
    /// [`StepError::Defect`].
    pub async fn begin(run: &Arc<HostRun>, case: &str, round: u32) -> StepResult<Self> {
        let (url, lab) = match &run.url {
            Some(url) => (url.trim_end_matches('/').to_owned(), None),
            None => {
                let lab = Lab::start(LabConfig::default()).await.map_err(StepError::defect)?;
                let host = lab.adp("judged").await.map_err(StepError::defect)?;
                (host.url().to_owned(), Some(lab))
            }
        };
        // Reuse of a provider that is installed already is what we want.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .build()
            .map_err(StepError::defect)?;
        // On a foreign host earlier runs left their agents behind: these are new ones.
        let seed = case_seed(run.seed, case, round) ^ if run.url.is_some() { now_ms() } else { 0 };
        Ok(HostWorld {
            url,
            lab,
            seed,
            http,
            peers: BTreeMap::new(),
            rooms: BTreeMap::new(),
            requests: BTreeMap::new(),
            noted: BTreeMap::new(),
            streams: BTreeMap::new(),
            last: None,
            sent: Value::Null,
            log: WireLog::default(),
            answered: false,
        })
    }

    /// State of the embedded host.
    pub fn dumps(&self) -> BTreeMap<String, Value> {
        let hosts = self.lab.as_ref().map(Lab::hosts).unwrap_or_default();
        hosts.iter().map(|h| (h.label().to_owned(), h.dump())).collect()
    }

    /// The agent of a name.
    pub fn peer(&mut self, name: &str) -> &Peer {
        let seed = self.seed;
        self.peers
            .entry(name.to_owned())
            .or_insert_with(|| Peer::named(&format!("{seed}/{name}"), Clock::default()))
    }

    /// Id of a room.
    ///
    /// # Errors
    /// [`StepError::Defect`].
    pub fn room(&self, name: &str) -> StepResult<String> {
        self.rooms
            .get(name)
            .map(|(id, _)| id.clone())
            .ok_or_else(|| StepError::Defect(format!("no room is called {name:?}")))
    }

    /// Who created a room.
    ///
    /// # Errors
    /// [`StepError::Defect`].
    pub fn creator(&self, name: &str) -> StepResult<String> {
        self.rooms
            .get(name)
            .map(|(_, creator)| creator.clone())
            .ok_or_else(|| StepError::Defect(format!("no room is called {name:?}")))
    }

    /// One request. `who` sends a request JWT.
    ///
    /// # Errors
    /// [`StepError::Target`] when no answer comes.
    pub async fn call(
        &mut self,
        method: &str,
        path: &str,
        body: Option<String>,
        who: Option<&str>,
    ) -> StepResult<Reply> {
        let token = who.map(|name| {
            let url = self.url.clone();
            self.peer(name).token(&url)
        });
        self.call_with(method, path, body, token).await
    }

    /// One request with this very token.
    ///
    /// # Errors
    /// [`StepError::Target`] when no answer comes.
    pub async fn call_with(
        &mut self,
        method: &str,
        path: &str,
        body: Option<String>,
        token: Option<String>,
    ) -> StepResult<Reply> {
        let method = method.parse::<reqwest::Method>().map_err(StepError::defect)?;
        let mut request =
            self.http.request(method.clone(), format!("{}{path}", self.url)).timeout(ANSWER);
        if let Some(token) = &token {
            self.log.hide(token, "token");
            request = request.bearer_auth(token);
        }
        self.log.push("http>", &format!("{method} {path} {}", body.as_deref().unwrap_or("")));
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body);
        }
        let gone = |e: reqwest::Error| StepError::Target(format!("{method} {path}: {e}"));
        let response = request.send().await.map_err(gone)?;
        let header = |name: &str| {
            response.headers().get(name).and_then(|v| v.to_str().ok()).map(str::to_owned)
        };
        let reply = Reply {
            status: response.status().as_u16(),
            max_seen_nonce: header("max-seen-nonce"),
            content_type: header("content-type").unwrap_or_default(),
            text: response.text().await.map_err(gone)?,
        };
        self.log.push("http<", &reply.brief());
        self.answered = true;
        self.last = Some(reply.clone());
        Ok(reply)
    }

    /// The last answer.
    ///
    /// # Errors
    /// [`StepError::Defect`].
    pub fn last(&self) -> StepResult<&Reply> {
        self.last.as_ref().ok_or_else(|| StepError::Defect("nothing was asked yet".to_owned()))
    }

    /// Head and latest record as the room resource tells `who`.
    ///
    /// # Errors
    /// [`StepError::Check`] when the resource names none.
    pub async fn tips(&mut self, who: &str, room: &str) -> StepResult<(Tip, Tip)> {
        let id = self.room(room)?;
        let kept = self.last.take();
        let reply = self.call("GET", &format!("/v1/rooms/{id}"), None, Some(who)).await?;
        self.last = kept;
        let resource = reply.json()?;
        let tip = |v: &Value| {
            let hash = v["hash"].as_str().and_then(|t| Hash::parse(t).ok())?;
            Some(Tip { seq: v["seq"].as_u64()?, hash })
        };
        match (tip(&resource["head"]), tip(&resource)) {
            (Some(head), Some(latest)) => Ok((head, latest)),
            _ => no("a room resource with seq, hash and head", reply.brief()),
        }
    }

    /// Posts an envelope to a room.
    ///
    /// # Errors
    /// [`StepError::Target`].
    pub async fn post(&mut self, room: &str, envelope: &Value) -> StepResult<Reply> {
        let id = self.room(room)?;
        self.sent = envelope.clone();
        self.call("POST", &format!("/v1/rooms/{id}"), Some(envelope.to_string()), None).await
    }

    /// Signs an event on the advertised head, signals on the latest record.
    ///
    /// # Errors
    /// [`StepError`].
    pub async fn sign(
        &mut self,
        who: &str,
        room: &str,
        event_type: &str,
        payload: Value,
    ) -> StepResult<Value> {
        let creator = self.creator(room)?;
        // Read by the creator: whether `who` may read is another question.
        let (head, latest) = self.tips(&creator, room).await?;
        let signal =
            ap_protocol::event::built_in_kind(event_type) == Some(ap_protocol::event::Kind::Signal);
        let base = if signal { latest } else { head };
        let id = self.room(room)?;
        self.peer(who)
            .sign(Some(&id), Some(&base), event_type, payload, &[])
            .map_err(StepError::defect)
    }

    /// Signs and posts.
    ///
    /// # Errors
    /// [`StepError`].
    pub async fn send(
        &mut self,
        who: &str,
        room: &str,
        event_type: &str,
        payload: Value,
    ) -> StepResult<Reply> {
        let envelope = self.sign(who, room, event_type, payload).await?;
        self.post(room, &envelope).await
    }

    /// The whole history as `who` is shown it, page by page.
    ///
    /// # Errors
    /// [`StepError::Check`] for a page that is no list, or paging without end.
    pub async fn history(&mut self, who: Option<&str>, room: &str) -> StepResult<Vec<Value>> {
        let id = self.room(room)?;
        let mut all: Vec<Value> = Vec::new();
        loop {
            let after = all.last().and_then(|r| r["seq"].as_u64()).unwrap_or(0);
            let path = format!("/v1/rooms/{id}/events?after_seq={after}&limit=100");
            let reply = self.call("GET", &path, None, who).await?;
            let page = list_of(&reply)?;
            if page.is_empty() {
                return Ok(all);
            }
            if page[0]["seq"].as_u64().is_none_or(|seq| seq <= after) {
                return no("records after the seq that was named", reply.brief());
            }
            all.extend(page);
        }
    }

    /// Opens a live stream.
    ///
    /// # Errors
    /// [`StepError::Target`].
    pub async fn listen(&mut self, who: &str, room: &str) -> StepResult {
        let id = self.room(room)?;
        let url = self.url.clone();
        let token = self.peer(who).token(&url);
        self.log.hide(&token, "token");
        let request = self.http.get(format!("{url}/v1/rooms/{id}/events/live")).bearer_auth(token);
        let opened = tokio::time::timeout(ANSWER, request.send()).await;
        let response = match opened {
            Ok(Ok(response)) => response,
            Ok(Err(e)) => return Err(StepError::Target(format!("the stream: {e}"))),
            Err(_) => return Err(StepError::Target("the stream does not open".to_owned())),
        };
        self.answered = true;
        let content_type = response.headers().get("content-type").and_then(|v| v.to_str().ok());
        let content_type = content_type.unwrap_or_default().to_owned();
        let status = response.status().as_u16();
        if status == 200 {
            let listening = Listening {
                response,
                parser: SseParser::new(Limits::default()),
                events: std::collections::VecDeque::new(),
            };
            self.streams.insert(who.to_owned(), listening);
            self.last = Some(Reply { status, content_type, ..Reply::default() });
        } else {
            let text = response.text().await.unwrap_or_default();
            self.last = Some(Reply { status, content_type, text, ..Reply::default() });
        }
        Ok(())
    }

    /// The next event of a stream; none when the stream ended.
    ///
    /// # Errors
    /// [`StepError::Check`] when nothing comes in time.
    pub async fn hear(&mut self, who: &str) -> StepResult<Option<SseEvent>> {
        let stream = self
            .streams
            .get_mut(who)
            .ok_or_else(|| StepError::Defect(format!("{who} does not listen")))?;
        loop {
            if let Some(event) = stream.events.pop_front() {
                self.log.push("sse", &format!("{} {}", event.event, event.data));
                return Ok(Some(event));
            }
            let chunk = match tokio::time::timeout(ANSWER, stream.response.chunk()).await {
                Ok(Ok(Some(chunk))) => chunk,
                Ok(_) => return Ok(None),
                Err(_) => return no("an event on the stream", "nothing for 15 s"),
            };
            let mut events = Vec::new();
            if let Err(e) = stream.parser.push(&chunk, &mut events) {
                return no("an event stream", e.to_string());
            }
            stream.events.extend(events);
        }
    }

    /// Puts ids and times in place of `{name}` and `{now+1000}`.
    ///
    /// # Errors
    /// [`StepError::Defect`] for a text that is no JSON then.
    pub fn fill(&mut self, text: &str) -> StepResult<Value> {
        let mut out = String::new();
        let mut rest = text;
        while let Some(at) = rest.find("{{") {
            let Some(end) = rest[at..].find("}}") else { break };
            let name = &rest[at + 2..at + end];
            out.push_str(&rest[..at]);
            match name.strip_prefix("now") {
                Some(offset) => {
                    let ms: i64 = offset.trim().parse().unwrap_or(0);
                    out.push_str(&now_ms().saturating_add_signed(ms).to_string());
                }
                None => out.push_str(self.peer(name).id().as_str()),
            }
            rest = &rest[at + end + 2..];
        }
        out.push_str(rest);
        strict::parse(out.as_bytes()).map_err(|e| StepError::Defect(format!("{e} in {out}")))
    }
}

/// A list, wrapped or bare.
///
/// # Errors
/// [`StepError::Check`].
pub fn list_of(reply: &Reply) -> StepResult<Vec<Value>> {
    let mut value = reply.json()?;
    if let Some(result) = value.get_mut("result") {
        value = result.take();
    }
    match value {
        Value::Array(list) if reply.ok() => Ok(list),
        _ => no("a list", reply.brief()),
    }
}

/// Verifies a chain from its first record and replays it.
///
/// # Errors
/// [`StepError::Check`] with the first thing that is wrong.
pub fn verify(room_id: &str, records: &[Value]) -> StepResult<RoomState> {
    let mut ctx = MemoryContext::default();
    let mut state: Option<RoomState> = None;
    for value in records {
        let seq = &value["seq"];
        let wrong = |e: String| no("a chain that verifies", format!("record {seq}: {e}"));
        let tip = state.as_ref().map(|s| s.tip);
        let linked = CheckedRecord::check(value, room_id).and_then(|c| c.link(tip.as_ref()));
        let record = match linked {
            Ok(record) => record,
            Err(e) => return wrong(e.to_string()),
        };
        let applied = match &mut state {
            None => RoomState::genesis(&record, &ctx).map(|s| state = Some(s)),
            Some(s) => s.apply(&record, &ctx).map(|_| ()),
        };
        if let Err(e) = applied {
            return wrong(e.to_string());
        }
        ctx.push(&record);
    }
    match state {
        Some(state) => Ok(state),
        None => no("a history", json!(records).to_string()),
    }
}
