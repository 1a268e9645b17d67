//! A connector as a child process, spoken to over stdio, one line a message. Knows MCP's
//! frames and nothing of what the connector does.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use ap_protocol::{SecretKey, encoding, json as strict};
use serde_json::{Value, json};

/// How long an answer may take before the test gives up.
const DEADLINE: Duration = Duration::from_secs(60);

/// Writes a provisioning document into `dir` and returns its path. `changes` replaces or adds
/// members.
pub fn provision(dir: &Path, key: &SecretKey, hosts: &[&str], changes: Value) -> PathBuf {
    let hosts: Vec<Value> = hosts.iter().map(|h| json!({ "host": h })).collect();
    let mut document = json!({
        "version": 1, "state_dir": dir.join("state"),
        "identity": { "seed": encoding::encode(*key.seed()), "agent_id": key.agent_id() },
        "hosts": hosts, "profile_services": [], "watch": [], "http": null,
        "tuning": { "writes_per_minute": 1_000_000, "backoff_base_ms": 20 },
    });
    if let (Value::Object(document), Value::Object(changes)) = (&mut document, changes) {
        document.extend(changes);
    }
    let path = dir.join("provision.json");
    std::fs::write(&path, document.to_string()).expect("the test's own folder is writable");
    path
}

/// A running connector. Dropping it kills it.
pub struct Connector {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    next_id: u64,
    early: HashMap<u64, Value>,
}

impl Connector {
    /// Starts `command` (stdin and stdout are taken, stderr is the caller's choice) and does
    /// the MCP handshake.
    pub fn start(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the connector's binary can be started");
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().expect("stdout is piped");
        let (send, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines() {
                let Ok(line) = line else { return };
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        let mut connector = Connector { child, stdin, lines, next_id: 1, early: HashMap::new() };
        let hello = connector.request(
            "initialize",
            json!({
                "protocolVersion": "2025-11-25", "capabilities": {},
                "clientInfo": { "name": "connector-tests", "version": "0" },
            }),
        );
        assert_eq!(hello["result"]["protocolVersion"], "2025-11-25", "{hello}");
        connector.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        connector
    }

    fn send(&mut self, message: &Value) {
        // A connector that was killed takes nothing: the answer's absence tells.
        if let Some(stdin) = &mut self.stdin {
            let _ = writeln!(stdin, "{message}").and_then(|()| stdin.flush());
        }
    }

    fn post(&mut self, method: &str, params: Value) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    fn take(line: &str) -> Value {
        // Whatever stands on stdout must be JSON-RPC.
        let value = strict::parse(line.as_bytes()).unwrap_or_else(|e| panic!("{e}: {line}"));
        assert_eq!(value["jsonrpc"], "2.0", "{line}");
        value
    }

    fn wait_within(&mut self, id: u64, deadline: Duration) -> Option<Value> {
        if let Some(answer) = self.early.remove(&id) {
            return Some(answer);
        }
        let until = Instant::now() + deadline;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => {
                    let message = Self::take(&line);
                    match message["id"].as_u64() {
                        Some(got) if got == id => return Some(message),
                        Some(got) => {
                            self.early.insert(got, message);
                        }
                        None => {}
                    }
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return None,
            }
        }
    }

    /// Sends a request and waits for its answer.
    pub fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.post(method, params);
        self.wait_within(id, DEADLINE).unwrap_or_else(|| panic!("no answer to {method}"))
    }

    /// Calls a tool without waiting. Returns the request's id.
    pub fn begin(&mut self, tool: &str, arguments: &Value) -> u64 {
        let name = format!("agent_protocols_{tool}");
        self.post("tools/call", json!({ "name": name, "arguments": arguments }))
    }

    /// The outcome of a call that [`Self::begin`] sent.
    pub fn outcome(&mut self, id: u64) -> Result<Value, Value> {
        let answer = self.wait_within(id, DEADLINE).expect("the connector answers in time");
        outcome(&answer)
    }

    /// Calls a tool: its structured result, or its error object.
    pub fn call(&mut self, tool: &str, arguments: Value) -> Result<Value, Value> {
        let id = self.begin(tool, &arguments);
        self.outcome(id)
    }

    /// Calls a tool that must succeed.
    #[track_caller]
    pub fn ok(&mut self, tool: &str, arguments: Value) -> Value {
        self.call(tool, arguments).unwrap_or_else(|e| panic!("{tool}: {e}"))
    }

    /// How many answers are out that nobody has taken yet.
    pub fn answers(&mut self) -> u64 {
        while let Ok(line) = self.lines.try_recv() {
            let message = Self::take(&line);
            if let Some(id) = message["id"].as_u64() {
                self.early.insert(id, message);
            }
        }
        self.early.len() as u64
    }

    /// SIGKILL. Returns the answers that were out by then, by request id.
    pub fn kill(mut self) -> HashMap<u64, Value> {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let mut answers = std::mem::take(&mut self.early);
        while let Ok(line) = self.lines.recv_timeout(DEADLINE) {
            // The last line may be cut.
            if let Ok(message) = strict::parse(line.as_bytes())
                && let Some(id) = message["id"].as_u64()
            {
                answers.insert(id, message);
            }
        }
        answers
    }

    /// Closes stdin and waits for the end. Returns the exit code.
    pub fn close(mut self) -> Option<i32> {
        drop(self.stdin.take());
        let until = Instant::now() + DEADLINE;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return status.code(),
                Ok(None) if Instant::now() < until => {
                    // Its output must not block it; this also paces the loop.
                    let _ = self.lines.recv_timeout(Duration::from_millis(10));
                }
                _ => return None,
            }
        }
    }
}

impl Drop for Connector {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads a `tools/call` answer: structured content, or the error object of the tool or of
/// JSON-RPC.
pub fn outcome(answer: &Value) -> Result<Value, Value> {
    let result = &answer["result"];
    if result.is_null() {
        return Err(answer["error"].clone());
    }
    if result["isError"] == true {
        let text = result["content"][0]["text"].as_str().unwrap_or_default();
        let value = strict::parse(text.as_bytes()).unwrap_or(Value::Null);
        return Err(value["error"].clone());
    }
    Ok(result["structuredContent"].clone())
}
