//! A connector process, spoken to over stdio, and a room of other agents on mock hosts.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use ap_protocol::{SecretKey, encoding};
use mock_hosts::{Host, Lab, LabConfig, Peer};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// Longest wait for one answer.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// One running connector and one MCP session on it.
pub struct Connector {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Lines<BufReader<ChildStdout>>,
    next_id: u64,
    /// Notifications that came in between.
    pub notifications: Vec<Value>,
}

impl Connector {
    pub async fn start(provision: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_ap-connector"))
            .args(["serve", "--provision"])
            .arg(provision)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut me = Connector { child, stdin, stdout, next_id: 0, notifications: Vec::new() };
        let params = json!({
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": { "name": "it", "version": "0" },
        });
        let answer = me.request("initialize", params).await;
        assert_eq!(answer["result"]["protocolVersion"], "2025-11-25");
        me.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        me
    }

    pub async fn send(&mut self, message: &Value) {
        let line = format!("{message}\n");
        self.stdin.as_mut().unwrap().write_all(line.as_bytes()).await.unwrap();
    }

    /// Sends a request without waiting. Returns its id.
    pub async fn post(&mut self, method: &str, params: Value) -> u64 {
        self.next_id += 1;
        let id = self.next_id;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
        id
    }

    /// The next line of the connector, which must be JSON.
    pub async fn line(&mut self) -> Option<Value> {
        let line =
            tokio::time::timeout(PATIENCE, self.stdout.next_line()).await.expect("no answer");
        line.unwrap().map(|l| ap_protocol::json::parse(l.as_bytes()).expect(&l))
    }

    pub async fn answer(&mut self, id: u64) -> Value {
        loop {
            let line = self.line().await.expect("the connector ended");
            if line["id"] == id {
                return line;
            }
            assert!(line.get("id").is_none(), "an answer nobody waits for: {line}");
            self.notifications.push(line);
        }
    }

    pub async fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.post(method, params).await;
        self.answer(id).await
    }

    /// Posts a tool call without waiting.
    pub async fn post_call(&mut self, tool: &str, arguments: Value) -> u64 {
        let name = format!("agent_protocols_{tool}");
        self.post("tools/call", json!({ "name": name, "arguments": arguments })).await
    }

    /// A tool call that must succeed.
    #[track_caller]
    pub fn call(&mut self, tool: &str, arguments: Value) -> impl Future<Output = Value> {
        let at = std::panic::Location::caller();
        async move {
            let answer = self.raw_call(tool, arguments).await;
            let result = &answer["result"];
            assert_eq!(result["isError"], false, "{at}: {answer}");
            let text = result["content"][0]["text"].as_str().unwrap();
            let text: Value = ap_protocol::json::parse(text.as_bytes()).unwrap();
            assert_eq!(text, result["structuredContent"], "{at}");
            text
        }
    }

    /// A tool call that must fail; its `error` object.
    #[track_caller]
    pub fn fail(&mut self, tool: &str, arguments: Value) -> impl Future<Output = Value> {
        let at = std::panic::Location::caller();
        async move {
            let answer = self.raw_call(tool, arguments).await;
            let result = &answer["result"];
            assert_eq!(result["isError"], true, "{at}: {answer}");
            assert!(result.get("structuredContent").is_none(), "{at}: {answer}");
            let text = result["content"][0]["text"].as_str().unwrap();
            ap_protocol::json::parse(text.as_bytes()).unwrap()["error"].clone()
        }
    }

    /// Calls until the call fails; its `error` object.
    #[track_caller]
    pub fn raw_until_error(&mut self, tool: &str, arguments: Value) -> impl Future<Output = Value> {
        let at = std::panic::Location::caller();
        async move {
            let deadline = tokio::time::Instant::now() + PATIENCE;
            loop {
                let answer = self.raw_call(tool, arguments.clone()).await;
                if answer["result"]["isError"] == true {
                    let text = answer["result"]["content"][0]["text"].as_str().unwrap().to_owned();
                    return ap_protocol::json::parse(text.as_bytes()).unwrap()["error"].clone();
                }
                assert!(tokio::time::Instant::now() < deadline, "{at}: no error yet: {answer}");
            }
        }
    }

    async fn raw_call(&mut self, tool: &str, arguments: Value) -> Value {
        let id = self.post_call(tool, arguments).await;
        self.answer(id).await
    }

    /// Calls until `ready` likes the answer.
    #[track_caller]
    pub fn until(
        &mut self,
        tool: &str,
        arguments: Value,
        ready: impl Fn(&Value) -> bool,
    ) -> impl Future<Output = Value> {
        let at = std::panic::Location::caller();
        async move {
            let deadline = tokio::time::Instant::now() + PATIENCE;
            loop {
                let answer = self.call(tool, arguments.clone()).await;
                if ready(&answer) {
                    return answer;
                }
                assert!(tokio::time::Instant::now() < deadline, "{at}: still {answer}");
                tokio::task::yield_now().await;
            }
        }
    }

    /// Resident memory (KiB), 0 where the system does not tell.
    pub fn memory_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id().unwrap()));
        let status = status.unwrap_or_default();
        let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"));
        line.and_then(|l| l.split_whitespace().next()?.parse().ok()).unwrap_or(0)
    }

    /// kill -9.
    pub async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }

    /// Closes stdin and waits for a clean end.
    pub async fn close(mut self) {
        drop(self.stdin.take());
        let status =
            tokio::time::timeout(PATIENCE, self.child.wait()).await.expect("no end").unwrap();
        assert!(status.success(), "{status}");
    }
}

/// A lab with one or more hosts and a provisioned identity.
pub struct Scene {
    pub lab: Lab,
    pub host: Host,
    pub provision: PathBuf,
    pub me: String,
    dir: tempfile::TempDir,
}

impl Scene {
    pub async fn new() -> Self {
        Self::with(json!({})).await
    }

    /// `changes` are merged into the provisioning document.
    pub async fn with(changes: Value) -> Self {
        let lab = Lab::start(LabConfig::default()).await.unwrap();
        let host = lab.adp("a").await.unwrap();
        let dir = tempfile::tempdir().unwrap();
        let provision = dir.path().join("provision.json");
        let seed = [7u8; 32];
        let me = SecretKey::from_seed(&seed).agent_id().to_string();
        let scene = Scene { lab, host, provision, me, dir };
        scene.provision_with(changes);
        scene
    }

    /// Writes the provisioning document again, with every host of the lab.
    pub fn provision_with(&self, changes: Value) {
        let hosts: Vec<Value> = self
            .lab
            .hosts()
            .iter()
            .map(|h| json!({ "host": h.url(), "label": h.label() }))
            .collect();
        let mut document = json!({
            "version": 1, "state_dir": self.state_dir(),
            "identity": { "seed": encoding::encode([7u8; 32]), "agent_id": self.me },
            "hosts": hosts, "profile_services": [], "watch": [], "http": null,
        });
        for (name, value) in changes.as_object().unwrap() {
            document[name] = value.clone();
        }
        std::fs::write(&self.provision, document.to_string()).unwrap();
    }

    pub fn state_dir(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    /// Copies the state directory; no connector may run.
    pub fn back_up(&self) -> PathBuf {
        let backup = self.state_dir().with_extension("backup");
        std::fs::create_dir(&backup).unwrap();
        for file in std::fs::read_dir(self.state_dir()).unwrap() {
            let file = file.unwrap();
            std::fs::copy(file.path(), backup.join(file.file_name())).unwrap();
        }
        backup
    }

    /// Puts a backup in the state directory's place.
    pub fn restore(&self, backup: &Path) {
        std::fs::remove_dir_all(self.state_dir()).unwrap();
        std::fs::rename(backup, self.state_dir()).unwrap();
    }

    /// Runs `ap-connector room …` and returns what it printed.
    pub fn operator(&self, args: &[&str]) -> String {
        let done = std::process::Command::new(env!("CARGO_BIN_EXE_ap-connector"))
            .args(["room", args[0], "--provision"])
            .arg(&self.provision)
            .args(&args[1..])
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    }

    pub async fn connector(&self) -> Connector {
        Connector::start(&self.provision).await
    }

    pub fn peer(&self, name: &str) -> Peer {
        Peer::named(name, self.lab.clock())
    }

    /// A room of `ann`'s, public unless said otherwise.
    pub async fn room(&self, changes: Value) -> (Peer, String) {
        let ann = self.peer("ann");
        let room = ann.create_room(&self.host, changes).await.unwrap();
        (ann, room)
    }

    /// The connector joined to a fresh public room of `ann`'s, as speaker.
    pub async fn joined(&self) -> (Connector, Peer, String) {
        let (ann, room) = self.room(json!({})).await;
        let mut c = self.connector().await;
        let joined = c
            .call(
                "room_join",
                json!({ "host": self.host.url(), "room_id": room, "role": "speaker" }),
            )
            .await;
        assert_eq!(joined["status"], "joined");
        (c, ann, room)
    }

    /// Every nonce that reached this host from the connector grows strictly, and every
    /// record stands once.
    pub fn check_nonces(&self) {
        for host in self.lab.hosts() {
            let mut last = 0;
            let mut seen = std::collections::BTreeSet::new();
            for entry in host.requests() {
                let Some(envelope) = &entry.envelope else { continue };
                if envelope["event"]["actor"] != self.me.as_str() {
                    continue;
                }
                // The same envelope may be offered twice; another one never has its nonce.
                let fresh = seen.insert(envelope["hash"].to_string());
                let nonce = envelope["event"]["nonce"].as_u64().unwrap();
                assert!(!fresh || nonce > last, "nonce {nonce} after {last}");
                last = last.max(nonce);
            }
        }
    }

    /// Contents of the connector's own messages in a room, in order.
    pub fn said(&self, room: &str) -> Vec<String> {
        self.host
            .records(room)
            .iter()
            .map(|r| &r["envelope"]["event"])
            .filter(|e| e["actor"] == self.me.as_str() && e["type"] == "message.create")
            .map(|e| e["payload"]["content"].as_str().unwrap().to_owned())
            .collect()
    }
}
