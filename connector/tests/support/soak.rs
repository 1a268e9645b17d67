//! Campaigns that no single test tells: kills at random points, two processes on one state
//! directory, a state directory that went back in time. A short form runs with the tests, the
//! long one with the example `soak`.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use ap_protocol::SecretKey;
use mock_hosts::{Host, Lab, LabConfig, Peer};
use serde_json::{Value, json};

use super::mcp::{Connector, outcome, provision};

/// Starts a connector on a provisioning document.
pub type Launch = dyn Fn(&Path) -> Command + Send + Sync;

/// SplitMix64: the campaign's only source of chance, so that a seed repeats it.
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Self {
        Chance(seed)
    }

    /// A number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }
}

/// One room on one honest host, and the key of the connector that writes there.
pub struct Scene {
    pub lab: Lab,
    pub host: Host,
    pub room: String,
    pub key: SecretKey,
    pub dir: tempfile::TempDir,
}

impl Scene {
    pub async fn new() -> Self {
        let lab = Lab::start(LabConfig::default()).await.expect("a lab needs nothing");
        let host = lab.adp("a").await.expect("a loopback port is free");
        let creator = Peer::named("creator", lab.clock());
        let room = creator.create_room(&host, json!({})).await.expect("an honest host");
        let dir = tempfile::tempdir().expect("a temporary folder can be made");
        Scene { lab, host, room, key: SecretKey::from_seed(&[77; 32]), dir }
    }

    pub fn provision(&self) -> std::path::PathBuf {
        provision(self.dir.path(), &self.key, &[self.host.url()], json!({}))
    }

    pub fn enter(&self, connector: &mut Connector) {
        connector.ok(
            "room_open",
            json!({ "host": self.host.url(), "room_id": self.room, "subscribe": false }),
        );
        connector.ok("room_join", json!({ "room_id": self.room, "role": "speaker" }));
    }

    fn message(&self, content: &str) -> Value {
        json!({ "room_id": self.room, "content": content, "on_head_mismatch": "send_anyway" })
    }

    /// Sends until the message is in, also through held drafts.
    pub fn say(&self, connector: &mut Connector, content: &str) -> Result<Value, Value> {
        let mut result = connector.call("room_send_message", self.message(content))?;
        for _ in 0..200 {
            if result["status"] == "sent" {
                return Ok(result);
            }
            let draft = result["draft"]["id"].clone();
            let commit = json!({ "draft_id": draft, "action": "send_anyway" });
            result = connector.call("draft_commit", commit)?;
        }
        Err(json!({ "code": "test_gave_up", "message": result }))
    }

    /// Our messages in the order of the host's history: (seq, content).
    fn messages(&self) -> Vec<(u64, String)> {
        let own = self.key.agent_id();
        self.host
            .records(&self.room)
            .iter()
            .filter(|r| r["envelope"]["event"]["type"] == "message.create")
            .filter(|r| r["envelope"]["event"]["actor"] == own.as_str())
            .filter_map(|r| {
                let content = r["envelope"]["event"]["payload"]["content"].as_str()?;
                Some((r["seq"].as_u64()?, content.to_owned()))
            })
            .collect()
    }

    /// No nonce signs two events, and the accepted ones only grow.
    pub fn check_nonces(&self) -> Result<usize, String> {
        let own = self.key.agent_id();
        let mut used: HashMap<u64, String> = HashMap::new();
        for entry in self.host.requests() {
            let (Some(nonce), Some(envelope)) = (entry.nonce(), &entry.envelope) else { continue };
            if envelope["event"]["actor"] != own.as_str() {
                continue;
            }
            let hash = envelope["hash"].as_str().unwrap_or_default().to_owned();
            match used.insert(nonce, hash.clone()) {
                Some(other) if other != hash => {
                    return Err(format!("nonce {nonce} signed {other} and {hash}"));
                }
                _ => {}
            }
        }
        let mut last = 0;
        for record in self.host.records(&self.room) {
            let event = &record["envelope"]["event"];
            if event["actor"] != own.as_str() {
                continue;
            }
            let nonce = event["nonce"].as_u64().unwrap_or(0);
            if nonce <= last {
                return Err(format!("nonce {nonce} at seq {} follows {last}", record["seq"]));
            }
            last = nonce;
        }
        Ok(used.len())
    }

    /// What the connector holds is the host's history, record for record.
    pub fn check_local(&self, connector: &mut Connector) -> Result<(), String> {
        let mut local = Vec::new();
        let mut after = 0u64;
        loop {
            let page = connector
                .call("room_timeline", json!({ "room_id": self.room, "after_seq": after, "limit": 500, "refresh": after == 0 }))
                .map_err(|e| format!("timeline: {e}"))?;
            let items = page["items"].as_array().cloned().unwrap_or_default();
            for item in &items {
                local.push((item["seq"].as_u64(), item["event_id"].as_str().map(str::to_owned)));
            }
            match page["next_after_seq"].as_u64() {
                Some(next) => after = next,
                None => break,
            }
        }
        let host: Vec<_> = self
            .host
            .records(&self.room)
            .iter()
            .map(|r| (r["seq"].as_u64(), r["envelope"]["hash"].as_str().map(str::to_owned)))
            .collect();
        if local == host {
            Ok(())
        } else {
            Err(format!(
                "local history of {} records is not the host's of {}",
                local.len(),
                host.len()
            ))
        }
    }

    fn outbox(&self) -> Result<i64, String> {
        let path = self.dir.path().join("state/state.sqlite3");
        rusqlite::Connection::open(path)
            .and_then(|c| c.query_row("SELECT count(*) FROM outbox", [], |r| r.get(0)))
            .map_err(|e| e.to_string())
    }
}

/// What a kill campaign saw.
#[derive(Debug, Default)]
pub struct KillReport {
    pub begun: usize,
    pub acknowledged: usize,
    pub accepted: usize,
    pub accepted_without_answer: usize,
    pub envelopes: usize,
    pub slowest_start_ms: u128,
    pub elapsed: Duration,
}

/// Kills the connector `kills` times while it writes; then everything must add up.
///
/// # Errors
/// The first thing that does not.
pub fn kills(
    scene: &Scene,
    launch: &Launch,
    kills: u32,
    seed: u64,
    progress: &dyn Fn(u32),
) -> Result<KillReport, String> {
    let began = Instant::now();
    let mut chance = Chance::new(seed);
    let path = scene.provision();
    let mut report = KillReport::default();
    let mut connector = Connector::start(launch(&path));
    scene.enter(&mut connector);
    let mut next = 0u64;
    let mut acknowledged: BTreeMap<String, u64> = BTreeMap::new();
    for round in 0..kills {
        let mut begun: HashMap<u64, String> = HashMap::new();
        let pipelined = 1 + chance.below(3);
        // From before the first request to after several answers: counted in what the host and
        // the client see, so that a busy machine changes nothing.
        let mark = scene.host.journal().mark();
        let (requests, answers) = (chance.below(16), 1 + chance.below(pipelined));
        let answered = connector.answers();
        for _ in 0..pipelined {
            let content = format!("{round:05}/{next:06}");
            next += 1;
            begun.insert(connector.begin("room_send_message", &scene.message(&content)), content);
        }
        let deadline = Instant::now() + Duration::from_secs(60);
        while scene.host.journal().mark() < mark + requests
            && connector.answers() < answered + answers
        {
            if Instant::now() > deadline {
                return Err(format!("round {round}: neither requests nor answers"));
            }
            std::thread::yield_now();
        }
        report.begun += begun.len();
        for (id, answer) in connector.kill() {
            let Some(content) = begun.get(&id) else { continue };
            match outcome(&answer) {
                Ok(result) if result["status"] == "sent" => {
                    let seq = result["event"]["seq"].as_u64().or(result["item"]["seq"].as_u64());
                    let seq = seq.or(result["record"]["seq"].as_u64()).unwrap_or(0);
                    acknowledged.insert(content.clone(), seq);
                }
                Ok(_) => {}
                Err(e) => {
                    let text = e.to_string();
                    if text.contains("locked") || e["code"] == "internal_error" {
                        return Err(format!("round {round}: {text}"));
                    }
                }
            }
        }
        let start = Instant::now();
        connector = Connector::start(launch(&path));
        report.slowest_start_ms = report.slowest_start_ms.max(start.elapsed().as_millis());
        progress(round + 1);
    }
    // The first write moves the head, which decides the fate of whatever was signed on the old
    // one; the second finds it decided.
    for content in ["99999/end", "99999/fin"] {
        scene.say(&mut connector, content).map_err(|e| format!("the last writes: {e}"))?;
    }
    report.acknowledged = acknowledged.len();
    let messages = scene.messages();
    report.accepted = messages.len() - 2;
    let mut seen: HashSet<&str> = HashSet::new();
    let mut last_round = String::new();
    for (seq, content) in &messages {
        if !seen.insert(content) {
            return Err(format!("{content} was accepted twice, again at seq {seq}"));
        }
        let round = content[..5].to_owned();
        if round < last_round {
            return Err(format!("{content} of an earlier round stands after round {last_round}"));
        }
        last_round = round;
    }
    for content in acknowledged.keys() {
        if !seen.contains(content.as_str()) {
            return Err(format!("{content} was reported as sent and is lost"));
        }
    }
    for (seq, content) in &messages {
        if let Some(told) = acknowledged.get(content)
            && *told != 0
            && told != seq
        {
            return Err(format!("{content} was reported at seq {told} and stands at {seq}"));
        }
    }
    report.accepted_without_answer = report.accepted - acknowledged.len();
    report.envelopes = scene.check_nonces()?;
    scene.check_local(&mut connector)?;
    connector.close();
    match scene.outbox()? {
        0 => {}
        n => return Err(format!("{n} writes are left in the outbox")),
    }
    report.elapsed = began.elapsed();
    if kills >= 20 && report.accepted == 0 {
        return Err("no write ever reached the room: these kills prove nothing".to_owned());
    }
    Ok(report)
}

/// Two connectors on one state directory, `writes` messages each.
///
/// # Errors
/// The first thing that does not add up.
pub fn two_processes(scene: &Scene, launch: &Launch, writes: u32) -> Result<Duration, String> {
    let began = Instant::now();
    let path = scene.provision();
    let mut first = Connector::start(launch(&path));
    scene.enter(&mut first);
    let second = Connector::start(launch(&path));
    let results: Vec<Result<Connector, String>> = std::thread::scope(|scope| {
        let workers: Vec<_> = [(0, first), (1, second)]
            .into_iter()
            .map(|(who, mut connector)| {
                scope.spawn(move || {
                    for n in 0..writes {
                        let content = format!("{who}/{n:05}");
                        scene
                            .say(&mut connector, &content)
                            .map_err(|e| format!("process {who}, write {n}: {e}"))?;
                    }
                    Ok(connector)
                })
            })
            .collect();
        workers
            .into_iter()
            .map(|w| w.join().unwrap_or_else(|_| Err("a worker panicked".to_owned())))
            .collect()
    });
    let mut connectors = results.into_iter().collect::<Result<Vec<_>, _>>()?;
    let messages = scene.messages();
    for who in 0..2 {
        let own: Vec<String> = messages
            .iter()
            .filter(|(_, c)| c.starts_with(&format!("{who}/")))
            .map(|(_, c)| c.clone())
            .collect();
        let wanted: Vec<String> = (0..writes).map(|n| format!("{who}/{n:05}")).collect();
        if own != wanted {
            return Err(format!(
                "process {who}: {} records for {writes} writes, or out of order",
                own.len()
            ));
        }
    }
    scene.check_nonces()?;
    for connector in &mut connectors {
        scene.check_local(connector)?;
    }
    for connector in connectors {
        connector.close();
    }
    match scene.outbox()? {
        0 => Ok(began.elapsed()),
        n => Err(format!("{n} writes are left in the outbox")),
    }
}

/// A backup of the state directory is put back after more was sent. The nonce sequence runs
/// ahead of the clock, so that the clock cannot hide a reuse.
///
/// # Errors
/// The first thing that does not add up.
pub fn restored_backup(scene: &Scene, launch: &Launch, look_first: bool) -> Result<(), String> {
    let path = scene.provision();
    let state = scene.dir.path().join("state");
    let backup = scene.dir.path().join("backup");
    let mut connector = Connector::start(launch(&path));
    scene.enter(&mut connector);
    connector.close();
    let ahead = scene.lab.clock().now_ms() + 1_000_000_000;
    rusqlite::Connection::open(state.join("state.sqlite3"))
        .and_then(|c| c.execute("UPDATE nonces SET last = ?1", [ahead as i64]))
        .map_err(|e| e.to_string())?;
    let mut connector = Connector::start(launch(&path));
    for n in 0..3 {
        scene.say(&mut connector, &format!("before/{n}")).map_err(|e| format!("before: {e}"))?;
    }
    connector.close();
    copy_folder(&state, &backup)?;
    let mut connector = Connector::start(launch(&path));
    for n in 0..5 {
        scene.say(&mut connector, &format!("after/{n}")).map_err(|e| format!("after: {e}"))?;
    }
    connector.close();
    std::fs::remove_dir_all(&state).map_err(|e| e.to_string())?;
    copy_folder(&backup, &state)?;
    let mut connector = Connector::start(launch(&path));
    if look_first {
        // The agent is shown the old head first, from local rows.
        connector.ok("room_state", json!({ "room_id": scene.room }));
    }
    let result = scene.say(&mut connector, "restored/0");
    scene.check_nonces()?;
    if let Err(e) = result {
        return Err(format!("the restored connector does not write: {e}"));
    }
    let messages = scene.messages();
    if messages.len() != 9 {
        return Err(format!("{} messages instead of 9", messages.len()));
    }
    scene.check_local(&mut connector)?;
    connector.close();
    Ok(())
}

fn copy_folder(from: &Path, to: &Path) -> Result<(), String> {
    let copy = || -> std::io::Result<()> {
        std::fs::create_dir_all(to)?;
        for entry in std::fs::read_dir(from)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                std::fs::copy(entry.path(), to.join(entry.file_name()))?;
            }
        }
        Ok(())
    };
    copy().map_err(|e| e.to_string())
}
