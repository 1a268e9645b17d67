//! What one scenario owns: a state directory, hosts, the target's sessions, the other
//! agents, remembered values, and the log of everything that crossed the wire.
//!
//! Steps change it; it judges nothing except the standing rules ([`standing`]).

pub mod hosts;
pub mod standing;
pub mod text;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ap_protocol::SecretKey;
use serde_json::{Value, json};

use crate::failure::{StepError, StepResult};
use crate::mcp::{Launch, McpError, PROTOCOL_VERSION, Session};
use crate::outcome::Outcome;
use crate::profile::{Profile, TOOL_PREFIX, short};
use crate::target::{CONFIG_VARIABLE, Provision, TargetCommand};
use crate::wire::WireLog;

/// What every scenario of a run shares.
pub struct RunContext {
    /// The command under test.
    pub target: TargetCommand,
    /// What it claims.
    pub profile: Profile,
    /// Seed of the run.
    pub seed: u64,
    /// Saboteur of this run; none in an honest one.
    pub saboteur: Option<crate::prove::Saboteur>,
    /// Longest wait for what should happen soon, when shorter than the step's own.
    pub patience: Option<Duration>,
    /// The GRP host that the GRP features judge.
    pub grp: crate::grp::Target,
}

impl RunContext {
    /// Deadline of one answer.
    pub fn timeout(&self) -> Duration {
        Duration::from_millis(self.profile.timeout_ms)
    }
}

/// Name of the first session of the target.
pub const AGENT: &str = "agent";

/// One scenario's world.
#[derive(cucumber::World)]
#[world(init = World::detached)]
pub struct World {
    /// What the run shares.
    pub run: Arc<RunContext>,
    /// Seed of this case.
    pub seed: u64,
    /// Temporary directory: `state/` for the target, `config.json` beside it.
    pub dir: tempfile::TempDir,
    /// Log of the wire.
    pub log: WireLog,
    /// The identity that the suite provisioned.
    pub identity: SecretKey,
    /// The provisioning document so far.
    pub provision: Provision,
    /// The target's processes by session name.
    pub sessions: BTreeMap<String, Session>,
    /// HTTP sessions by name.
    pub http: BTreeMap<String, crate::http_session::HttpSession>,
    /// Sessions that ended; kept for the search for secrets and noise.
    pub ended: Vec<Session>,
    /// Hosts, rooms and the other agents.
    pub hosts: hosts::Hosts,
    /// Remembered values.
    pub notes: BTreeMap<String, Value>,
    /// Outcome of the latest tool call.
    pub last: Option<Outcome>,
    /// Every outcome so far, oldest first.
    pub history: Vec<Outcome>,
    /// Calls that were sent and not awaited yet.
    pub calls: BTreeMap<String, (String, Value, crate::mcp::Call)>,
    /// Whether the target ever answered.
    pub answered: bool,
    /// Everything of a GRP scenario.
    pub grp: crate::grp::Stage,
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World").field("seed", &self.seed).finish_non_exhaustive()
    }
}

impl World {
    /// Only the driver makes worlds: one needs the run's context.
    fn detached() -> Result<Self, StepError> {
        Err(StepError::Defect("a world is made by the driver only".to_owned()))
    }

    /// A fresh world for one case.
    ///
    /// # Errors
    /// [`StepError::Defect`] when the temporary directory cannot be made.
    pub fn begin(run: Arc<RunContext>, case_id: &str, round: u32) -> StepResult<Self> {
        let seed = case_seed(run.seed, case_id, round);
        let dir =
            tempfile::Builder::new().prefix("conformance-").tempdir().map_err(StepError::defect)?;
        let state_dir = dir.path().join("state");
        std::fs::create_dir(&state_dir).map_err(StepError::defect)?;
        let bytes = key_seed(seed, "the agent under test");
        let identity = SecretKey::from_seed(&bytes);
        let seed_text = ap_protocol::encoding::encode(bytes);
        let log = WireLog::default();
        log.hide(&seed_text, "seed");
        let provision = Provision {
            state_dir,
            seed: seed_text,
            agent_id: identity.agent_id().to_string(),
            ..Provision::default()
        };
        Ok(World {
            run,
            seed,
            dir,
            log,
            identity,
            provision,
            sessions: BTreeMap::new(),
            http: BTreeMap::new(),
            ended: Vec::new(),
            hosts: hosts::Hosts::default(),
            notes: BTreeMap::new(),
            last: None,
            history: Vec::new(),
            calls: BTreeMap::new(),
            answered: false,
            grp: crate::grp::Stage::default(),
        })
    }

    /// The bearer token of the target's HTTP endpoint in this world.
    pub fn http_token(&self) -> String {
        ap_protocol::encoding::encode(key_seed(self.seed, "http token"))
    }

    /// The target's HTTP endpoint: authority and port.
    ///
    /// # Errors
    /// [`StepError::Defect`] when it was not started.
    pub fn endpoint(&self) -> StepResult<(String, String)> {
        let url = self.notes.get("http url").and_then(Value::as_str).unwrap_or_default();
        let url = url::Url::parse(url)
            .map_err(|_| StepError::Defect("the HTTP endpoint was not started".to_owned()))?;
        let port = url.port_or_known_default().unwrap_or(80).to_string();
        Ok((format!("{}:{port}", url.host_str().unwrap_or_default()), port))
    }

    /// The Agent ID of the target.
    pub fn agent_id(&self) -> String {
        self.provision.agent_id.clone()
    }

    /// Skips the scenario unless the target claims `capability`.
    ///
    /// # Errors
    /// [`StepError::NotClaimed`].
    pub fn needs(&self, capability: &str) -> StepResult {
        if self.run.profile.claims(capability) {
            Ok(())
        } else {
            Err(StepError::NotClaimed(format!("the target does not claim {capability}")))
        }
    }

    /// How to launch the target in this world.
    ///
    /// # Errors
    /// [`StepError::Defect`] when the provisioning document cannot be written.
    pub fn launch(&self, name: &str) -> StepResult<Launch> {
        let config = self.dir.path().join("config.json");
        let mut provision = self.provision.clone();
        if name != AGENT && self.run.saboteur.is_some_and(|s| s.shares_nothing()) {
            provision.state_dir = self.dir.path().join(format!("state of {name}"));
            std::fs::create_dir_all(&provision.state_dir).map_err(StepError::defect)?;
        }
        let document =
            serde_json::to_vec_pretty(&provision.document()).map_err(StepError::defect)?;
        std::fs::write(&config, document).map_err(StepError::defect)?;
        let mut env = self.run.profile.env.clone();
        env.insert(CONFIG_VARIABLE.to_owned(), config.to_string_lossy().into_owned());
        Ok(Launch {
            command: self.run.target.words(&config),
            env,
            dir: self.dir.path().to_owned(),
            name: name.to_owned(),
            log: self.log.clone(),
            tap: self.run.saboteur.and_then(|s| s.tap()),
        })
    }

    /// Starts a session of the target and goes through `initialize`.
    ///
    /// # Errors
    /// [`StepError::Target`].
    pub async fn start(&mut self, name: &str) -> StepResult {
        let forgets = self.run.saboteur.is_some_and(|s| s.forgets_state());
        if forgets && !self.ended.is_empty() {
            let state = &self.provision.state_dir;
            std::fs::remove_dir_all(state)
                .and_then(|()| std::fs::create_dir(state))
                .map_err(StepError::defect)?;
        }
        let mut session = Session::start(&self.launch(name)?).map_err(target_error)?;
        let initialized = session.initialize(PROTOCOL_VERSION, self.run.timeout()).await;
        if initialized.is_ok() {
            self.answered = true;
        }
        let tail = session.stderr_tail();
        if let Some(old) = self.sessions.insert(name.to_owned(), session) {
            self.ended.push(old);
        }
        initialized.map(|_| ()).map_err(|e| with_stderr(e, &tail))
    }

    /// A session that runs.
    ///
    /// # Errors
    /// [`StepError::Defect`] when the scenario has not started it.
    pub fn session(&self, name: &str) -> StepResult<&Session> {
        self.sessions
            .get(name)
            .ok_or_else(|| StepError::Defect(format!("the session {name:?} was never started")))
    }

    /// Calls a tool on a session, starting the first session when there is none.
    ///
    /// # Errors
    /// [`StepError::NotClaimed`] for a tool outside the profile, [`StepError::Target`] when
    /// no answer comes.
    pub async fn call(
        &mut self,
        session: &str,
        tool: &str,
        arguments: Value,
    ) -> StepResult<Outcome> {
        self.call_within(session, tool, arguments, self.run.timeout()).await
    }

    /// As [`World::call`], with another deadline.
    ///
    /// # Errors
    /// As [`World::call`].
    pub async fn call_within(
        &mut self,
        session: &str,
        tool: &str,
        arguments: Value,
        timeout: Duration,
    ) -> StepResult<Outcome> {
        let tool = short(tool);
        if !self.run.profile.claims_tool(tool) {
            return Err(StepError::NotClaimed(format!("the target does not offer {tool}")));
        }
        let full = format!("{TOOL_PREFIX}{tool}");
        if let Some(http) = self.http.get_mut(session) {
            let params = json!({ "name": full, "arguments": arguments });
            let answer = http.request("tools/call", params, timeout).await;
            return Outcome::new(tool, arguments, answer).map_err(target_error);
        }
        if !self.sessions.contains_key(session) {
            self.start(session).await?;
        }
        let s = self.session(session)?;
        let answer = s.send_tool(&full, arguments.clone()).wait(timeout).await;
        let outcome =
            Outcome::new(tool, arguments, answer).map_err(|e| with_stderr(e, &s.stderr_tail()))?;
        self.answered = true;
        self.history.push(outcome.clone());
        Ok(outcome)
    }

    /// Calls a tool and remembers the outcome for the steps that follow.
    ///
    /// # Errors
    /// As [`World::call`].
    pub async fn tool(&mut self, session: &str, tool: &str, arguments: Value) -> StepResult {
        self.last = Some(self.call(session, tool, arguments).await?);
        Ok(())
    }

    /// The latest outcome.
    ///
    /// # Errors
    /// [`StepError::Defect`] when no tool was called.
    pub fn outcome(&self) -> StepResult<&Outcome> {
        self.last.as_ref().ok_or_else(|| StepError::Defect("no tool was called yet".to_owned()))
    }

    /// The body of the latest outcome, which must be a success.
    ///
    /// # Errors
    /// [`StepError::Check`] when it is an error.
    pub fn success(&self) -> StepResult<Value> {
        let outcome = self.outcome()?;
        if outcome.is_error() {
            return crate::failure::no(format!("{} succeeds", outcome.tool), outcome.brief());
        }
        Ok(outcome.body())
    }

    /// A seed for a named part of this case.
    pub fn key(&self, name: &str) -> SecretKey {
        SecretKey::from_seed(&key_seed(self.seed, name))
    }

    /// Everything the target ever wrote to stdout in this scenario.
    pub fn heard(&self) -> Vec<String> {
        self.ended.iter().chain(self.sessions.values()).flat_map(Session::heard).collect()
    }

    /// MCP frames and HTTP requests, by time.
    pub fn wire(&self) -> Vec<crate::wire::WireLine> {
        let mut lines = self.log.lines();
        lines.extend(self.hosts.wire().into_iter().map(|mut l| {
            l.text = self.log.clean(&l.text);
            l
        }));
        lines.sort_by_key(|l| l.at_ms);
        lines
    }

    /// Ends what runs.
    pub async fn end(&mut self) {
        for session in self.sessions.values() {
            if session.is_running() {
                session.kill().await;
            }
        }
    }
}

/// A step error from the client's.
pub fn target_error(e: McpError) -> StepError {
    StepError::Target(e.to_string())
}

fn with_stderr(e: McpError, tail: &[String]) -> StepError {
    let last: Vec<&str> = tail.iter().rev().take(5).rev().map(String::as_str).collect();
    if last.is_empty() {
        target_error(e)
    } else {
        StepError::Target(format!("{e}; stderr: {}", last.join(" | ")))
    }
}

/// The same run seed, case and round give the same seed.
pub fn case_seed(run: u64, case_id: &str, round: u32) -> u64 {
    let digest = ap_protocol::Hash::of_value(&json!([run, case_id, round]));
    // Seeds stand in the JSON report, and a number there is safe for every reader.
    u64::from_be_bytes(digest.as_bytes()[..8].try_into().expect("eight bytes of a digest")) >> 11
}

/// Key material for a named agent of a case.
pub fn key_seed(seed: u64, name: &str) -> [u8; 32] {
    *ap_protocol::Hash::of(format!("{seed}/{name}").as_bytes()).as_bytes()
}
