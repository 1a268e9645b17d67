//! A thin MCP client over stdio that hides nothing: raw frames, late answers, noise on
//! stdout, cancellation, kill.
//!
//! It is not rmcp on purpose: the suite must see what a library would tidy away.

use std::collections::{BTreeMap, HashMap};
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::{Notify, mpsc, oneshot, watch};

use crate::wire::WireLog;

/// The MCP revision the seed names.
pub const PROTOCOL_VERSION: &str = "2025-11-25";
/// Longest line read from a target (bytes).
const MAX_LINE: usize = 32 * 1024 * 1024;

/// Why no answer came.
#[derive(Debug, Clone, thiserror::Error)]
pub enum McpError {
    /// JSON-RPC error object.
    #[error("JSON-RPC error {code}: {message}")]
    Rpc {
        /// JSON-RPC code.
        code: i64,
        /// Its message.
        message: String,
        /// Its data.
        data: Option<Value>,
    },
    /// The process is gone.
    #[error("the target exited ({0})")]
    Exited(String),
    /// Nothing came in time.
    #[error("no answer to {method} within {timeout_ms} ms")]
    Timeout {
        /// The method.
        method: String,
        /// How long it was waited for (ms).
        timeout_ms: u128,
    },
    /// The process could not be started.
    #[error("cannot start {program:?}: {source}")]
    Start {
        /// First word of the command.
        program: String,
        /// From the system.
        source: Arc<std::io::Error>,
    },
}

/// Sees every frame between the suite and its target, and may change it. Saboteurs live
/// here; an honest run has none.
pub trait Tap: Send + Sync {
    /// Frames that go on in place of `frame`, towards the target.
    fn to_target(&self, frame: Value) -> Vec<Value> {
        vec![frame]
    }
    /// Frames that go on in place of `frame`, towards the suite.
    fn to_client(&self, frame: Value) -> Vec<Value> {
        vec![frame]
    }
}

/// How to start a target.
#[derive(Clone)]
pub struct Launch {
    /// Command words.
    pub command: Vec<String>,
    /// Extra environment.
    pub env: BTreeMap<String, String>,
    /// Working directory.
    pub dir: std::path::PathBuf,
    /// Log channel prefix.
    pub name: String,
    /// Where frames are logged.
    pub log: WireLog,
    /// Saboteur, if any.
    pub tap: Option<Arc<dyn Tap>>,
}

#[derive(Default)]
struct Shared {
    pending: Mutex<HashMap<u64, oneshot::Sender<Value>>>,
    /// Lines of stdout that are no JSON-RPC message, with the reason.
    noise: Mutex<Vec<String>>,
    notifications: Mutex<Vec<Value>>,
    /// Requests of the server to the client.
    server_requests: Mutex<Vec<Value>>,
    /// Answers to ids nobody waits for (any more).
    unexpected: Mutex<Vec<Value>>,
    /// Everything the target ever wrote, for the search for secrets.
    heard: Mutex<Vec<String>>,
    stderr: Mutex<std::collections::VecDeque<String>>,
    changed: Notify,
}

fn lock<T>(m: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    m.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// One MCP session with one process.
pub struct Session {
    name: String,
    next_id: AtomicU64,
    writer: mpsc::UnboundedSender<Option<String>>,
    shared: Arc<Shared>,
    exit: watch::Receiver<Option<String>>,
    kill: mpsc::UnboundedSender<()>,
    pid: Option<u32>,
    log: WireLog,
    tap: Option<Arc<dyn Tap>>,
    /// The answer to `initialize`.
    pub initialized: Option<Value>,
}

/// A request that was sent; its answer can be awaited later.
pub struct Call {
    /// JSON-RPC id.
    pub id: u64,
    method: String,
    answer: oneshot::Receiver<Value>,
    exit: watch::Receiver<Option<String>>,
}

impl Session {
    /// Starts the process and its reader tasks. Nothing is sent yet.
    ///
    /// # Errors
    /// [`McpError::Start`].
    pub fn start(launch: &Launch) -> Result<Self, McpError> {
        let program = launch.command.first().cloned().unwrap_or_default();
        let mut command = Command::new(&program);
        command
            .args(launch.command.iter().skip(1))
            .envs(&launch.env)
            .current_dir(&launch.dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        #[cfg(unix)]
        command.process_group(0);
        let mut child =
            command.spawn().map_err(|e| McpError::Start { program, source: Arc::new(e) })?;
        let shared = Arc::new(Shared::default());
        let (writer, outgoing) = mpsc::unbounded_channel();
        let (kill, killed) = mpsc::unbounded_channel();
        let (exit_tx, exit) = watch::channel(None);
        let pid = child.id();
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        if let Some(stdin) = stdin {
            tokio::spawn(write_lines(stdin, outgoing));
        }
        let mut readers = Vec::new();
        if let Some(stdout) = stdout {
            let session = Reader {
                shared: shared.clone(),
                log: launch.log.clone(),
                name: launch.name.clone(),
                tap: launch.tap.clone(),
                writer: writer.clone(),
            };
            readers.push(tokio::spawn(session.read(stdout)));
        }
        if let Some(stderr) = stderr {
            readers.push(tokio::spawn(read_stderr(stderr, shared.clone(), launch.log.clone())));
        }
        tokio::spawn(wait_for_exit(child, killed, readers, shared.clone(), exit_tx));
        Ok(Session {
            name: launch.name.clone(),
            next_id: AtomicU64::new(1),
            writer,
            shared,
            exit,
            kill,
            pid,
            log: launch.log.clone(),
            tap: launch.tap.clone(),
            initialized: None,
        })
    }

    /// The lifecycle's first two messages. The client offers no optional capability.
    ///
    /// # Errors
    /// [`McpError`].
    pub async fn initialize(
        &mut self,
        version: &str,
        timeout: Duration,
    ) -> Result<Value, McpError> {
        let params = json!({
            "protocolVersion": version, "capabilities": {},
            "clientInfo": { "name": "conformance", "version": env!("CARGO_PKG_VERSION") },
        });
        let result = self.request("initialize", params, timeout).await?;
        self.notify("notifications/initialized", None);
        self.initialized = Some(result.clone());
        Ok(result)
    }

    /// Sends a request and waits for its result.
    ///
    /// # Errors
    /// [`McpError`].
    pub async fn request(
        &self,
        method: &str,
        params: Value,
        timeout: Duration,
    ) -> Result<Value, McpError> {
        self.send(method, params).wait(timeout).await
    }

    /// Sends a request without waiting.
    pub fn send(&self, method: &str, params: Value) -> Call {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (tx, answer) = oneshot::channel();
        lock(&self.shared.pending).insert(id, tx);
        self.frame(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        Call { id, method: method.to_owned(), answer, exit: self.exit.clone() }
    }

    /// Calls a tool without waiting.
    pub fn send_tool(&self, tool: &str, arguments: Value) -> Call {
        self.send("tools/call", json!({ "name": tool, "arguments": arguments }))
    }

    /// Sends a notification.
    pub fn notify(&self, method: &str, params: Option<Value>) {
        let mut frame = json!({ "jsonrpc": "2.0", "method": method });
        if let Some(params) = params {
            frame["params"] = params;
        }
        self.frame(frame);
    }

    fn frame(&self, frame: Value) {
        let frames = match &self.tap {
            Some(tap) => tap.to_target(frame),
            None => vec![frame],
        };
        for frame in frames {
            self.raw(&frame.to_string());
        }
    }

    /// Writes one raw line, valid or not.
    pub fn raw(&self, line: &str) {
        self.log.push(&format!("{}>", self.name), line);
        // A closed channel means the process is gone; the exit watch tells.
        let _ = self.writer.send(Some(line.to_owned()));
    }

    /// Closes the target's stdin.
    pub fn close_stdin(&self) {
        let _ = self.writer.send(None);
    }

    /// SIGKILL to the whole process group; returns once the process is gone.
    pub async fn kill(&self) {
        self.log.push("step", &format!("kill -9 {}", self.name));
        self.kill_group();
        let _ = self.kill.send(());
        let _ = self.exited(Duration::from_secs(10)).await;
    }

    fn kill_group(&self) {
        // A wrapper's children die with it. The shell's own kill needs no extra crate.
        if let Some(pid) = self.pid {
            let _ = std::process::Command::new("sh")
                .args(["-c", &format!("kill -KILL -{pid} 2>/dev/null")])
                .status();
        }
    }

    /// Closes stdin and waits for the process to end by itself.
    ///
    /// # Errors
    /// [`McpError::Timeout`] when it does not; it is killed then.
    pub async fn stop(&self, timeout: Duration) -> Result<String, McpError> {
        self.close_stdin();
        match self.exited(timeout).await {
            Some(status) => {
                // A wrapper may have left children behind.
                self.kill_group();
                Ok(status)
            }
            None => {
                self.kill().await;
                Err(McpError::Timeout {
                    method: "end after stdin was closed".to_owned(),
                    timeout_ms: timeout.as_millis(),
                })
            }
        }
    }

    /// The exit status, once there is one.
    pub async fn exited(&self, timeout: Duration) -> Option<String> {
        let mut exit = self.exit.clone();
        let waited = tokio::time::timeout(timeout, exit.wait_for(Option::is_some)).await;
        match waited {
            Ok(Ok(status)) => status.clone(),
            _ => None,
        }
    }

    /// Whether the process still runs.
    pub fn is_running(&self) -> bool {
        self.exit.borrow().is_none()
    }

    /// Lines of stdout that were no JSON-RPC message.
    pub fn noise(&self) -> Vec<String> {
        lock(&self.shared.noise).clone()
    }

    /// Requests the server made of the client.
    pub fn server_requests(&self) -> Vec<Value> {
        lock(&self.shared.server_requests).clone()
    }

    /// Answers to ids that nobody waited for.
    pub fn unexpected(&self) -> Vec<Value> {
        lock(&self.shared.unexpected).clone()
    }

    /// Notifications so far.
    pub fn notifications(&self) -> Vec<Value> {
        lock(&self.shared.notifications).clone()
    }

    /// Everything the target wrote to stdout.
    pub fn heard(&self) -> Vec<String> {
        lock(&self.shared.heard).clone()
    }

    /// Last lines of stderr.
    pub fn stderr_tail(&self) -> Vec<String> {
        lock(&self.shared.stderr).iter().cloned().collect()
    }

    /// Waits until a notification satisfies `wanted`.
    pub async fn notification(
        &self,
        timeout: Duration,
        wanted: impl Fn(&Value) -> bool,
    ) -> Option<Value> {
        let deadline = tokio::time::Instant::now() + timeout;
        loop {
            let changed = self.shared.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if let Some(n) = self.notifications().into_iter().find(|n| wanted(n)) {
                return Some(n);
            }
            if tokio::time::timeout_at(deadline, changed).await.is_err() {
                return None;
            }
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.is_running() {
            self.kill_group();
        }
    }
}

impl Call {
    /// Waits for the answer.
    ///
    /// # Errors
    /// [`McpError`].
    pub async fn wait(mut self, timeout: Duration) -> Result<Value, McpError> {
        let last_status = self.exit.clone();
        tokio::select! {
            biased;
            answer = &mut self.answer => match answer {
                Ok(frame) => into_result(frame),
                Err(_) => Err(McpError::Exited(last_status.borrow().clone().unwrap_or_default())),
            },
            gone = self.exit.wait_for(Option::is_some) => {
                let status = gone.ok().and_then(|s| s.clone()).unwrap_or_default();
                // The reader ends before the exit is told, so an answer is there by now.
                match self.answer.try_recv() {
                    Ok(frame) => into_result(frame),
                    Err(_) => Err(McpError::Exited(status)),
                }
            }
            () = tokio::time::sleep(timeout) => Err(McpError::Timeout {
                method: self.method.clone(),
                timeout_ms: timeout.as_millis(),
            }),
        }
    }

    /// Whether an answer is there already.
    pub fn answered(&mut self) -> bool {
        !matches!(self.answer.try_recv(), Err(oneshot::error::TryRecvError::Empty))
    }
}

/// The result or the error of an answer.
pub(crate) fn into_result(frame: Value) -> Result<Value, McpError> {
    match frame.get("error") {
        Some(e) => Err(McpError::Rpc {
            code: e["code"].as_i64().unwrap_or(0),
            message: e["message"].as_str().unwrap_or_default().to_owned(),
            data: e.get("data").cloned(),
        }),
        None => Ok(frame.get("result").cloned().unwrap_or(Value::Null)),
    }
}

async fn write_lines(mut stdin: ChildStdin, mut lines: mpsc::UnboundedReceiver<Option<String>>) {
    while let Some(Some(line)) = lines.recv().await {
        if stdin.write_all(format!("{line}\n").as_bytes()).await.is_err()
            || stdin.flush().await.is_err()
        {
            return;
        }
    }
}

async fn read_stderr(stream: impl AsyncRead + Unpin, shared: Arc<Shared>, log: WireLog) {
    let mut lines = BufReader::new(stream).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        log.push("stderr", &line);
        let mut tail = lock(&shared.stderr);
        if tail.len() == 200 {
            tail.pop_front();
        }
        tail.push_back(line);
    }
}

async fn wait_for_exit(
    mut child: Child,
    mut killed: mpsc::UnboundedReceiver<()>,
    readers: Vec<tokio::task::JoinHandle<()>>,
    shared: Arc<Shared>,
    exit: watch::Sender<Option<String>>,
) {
    let status = tokio::select! {
        status = child.wait() => status,
        // Kill on request, and when the session is dropped.
        _ = killed.recv() => {
            let _ = child.start_kill();
            child.wait().await
        }
    };
    // A grandchild may hold the pipes open: do not wait for it for ever.
    for reader in readers {
        let _ = tokio::time::timeout(Duration::from_secs(2), reader).await;
    }
    let text = status.map_or_else(|e| e.to_string(), |s| s.to_string());
    exit.send_replace(Some(text));
    lock(&shared.pending).clear();
    shared.changed.notify_waiters();
}

struct Reader {
    shared: Arc<Shared>,
    log: WireLog,
    name: String,
    tap: Option<Arc<dyn Tap>>,
    writer: mpsc::UnboundedSender<Option<String>>,
}

impl Reader {
    async fn read(self, stdout: impl AsyncRead + Unpin) {
        let mut stdout = BufReader::new(stdout);
        let mut line = Vec::new();
        loop {
            line.clear();
            match tokio::io::AsyncReadExt::take(&mut stdout, MAX_LINE as u64)
                .read_until(b'\n', &mut line)
                .await
            {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
            let text = String::from_utf8_lossy(&line);
            let text = text.trim_end_matches(['\n', '\r']);
            self.log.push(&format!("{}<", self.name), text);
            match (frame_of(&line), &self.tap) {
                (Ok(frame), None) => {
                    lock(&self.shared.heard).push(text.to_owned());
                    self.take(frame);
                }
                (Ok(frame), Some(tap)) => {
                    for frame in tap.to_client(frame) {
                        let text = frame.to_string();
                        match frame_of(text.as_bytes()) {
                            Ok(frame) => self.take(frame),
                            Err(e) => lock(&self.shared.noise).push(format!("{e}: {text}")),
                        }
                        lock(&self.shared.heard).push(text);
                    }
                }
                (Err(reason), _) => {
                    lock(&self.shared.heard).push(text.to_owned());
                    lock(&self.shared.noise).push(format!("{reason}: {text}"));
                }
            }
            self.shared.changed.notify_waiters();
        }
    }

    fn take(&self, frame: Value) {
        match (frame.get("method").is_some(), frame.get("id")) {
            (true, Some(id)) => {
                // No optional client capability was offered: only ping is answered.
                let answer = if frame["method"] == "ping" {
                    json!({ "jsonrpc": "2.0", "id": id, "result": {} })
                } else {
                    json!({ "jsonrpc": "2.0", "id": id,
                            "error": { "code": -32601, "message": "not offered by this client" } })
                };
                lock(&self.shared.server_requests).push(frame);
                let _ = self.writer.send(Some(answer.to_string()));
            }
            (true, None) => lock(&self.shared.notifications).push(frame),
            (false, id) => {
                let waiting = id
                    .and_then(Value::as_u64)
                    .and_then(|id| lock(&self.shared.pending).remove(&id));
                let late = match waiting {
                    Some(tx) => tx.send(frame).err(),
                    None => Some(frame),
                };
                lock(&self.shared.unexpected).extend(late);
            }
        }
    }
}

/// One line as a JSON-RPC 2.0 message.
///
/// # Errors
/// Why it is none.
pub fn frame_of(line: &[u8]) -> Result<Value, String> {
    let end = line.iter().rposition(|b| !matches!(b, b'\n' | b'\r')).map_or(0, |i| i + 1);
    let frame = ap_protocol::json::parse(&line[..end]).map_err(|e| e.to_string())?;
    let members = frame.as_object().ok_or("not an object")?;
    if members.get("jsonrpc") != Some(&json!("2.0")) {
        return Err("jsonrpc is not \"2.0\"".to_owned());
    }
    let id_ok = members.get("id").is_none_or(|id| id.is_string() || id.is_number());
    let shape = (
        members.get("method").is_some_and(Value::is_string),
        members.contains_key("result"),
        members.contains_key("error"),
        members.contains_key("id"),
    );
    match shape {
        _ if !id_ok && !shape.2 => Err("id is neither string nor number".to_owned()),
        (true, false, false, _) | (false, true, false, true) | (false, false, true, _) => Ok(frame),
        _ => Err("neither request, notification nor answer".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_and_noise() {
        for good in [
            r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":"a","error":{"code":1,"message":"m"}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/x"}"#,
        ] {
            assert!(frame_of(good.as_bytes()).is_ok(), "{good}");
        }
        for bad in [
            "",
            "INFO starting",
            r#"{"id":1,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{}}"#,
            r#"{"jsonrpc":"2.0","id":1}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{"a":1,"a":2}}"#,
        ] {
            assert!(frame_of(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
