//! Running: stdio and loopback HTTP over one core, until the client goes.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use rmcp::service::serve_server;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use crate::clock::Clock;
use crate::config::{HttpSettings, Settings};
use crate::core::Core;
use crate::error::ToolError;
use crate::server::Server;
use crate::transport::http::{Endpoint, HttpServeError};

/// How long unfinished writes may take when the client is gone (ms).
const LAST_WRITES_MS: u64 = 10_000;
/// Longest line a client may send (bytes).
const MAX_LINE: usize = 4 * 1024 * 1024;
/// Pause between looks at room lifecycles (ms).
const LIFECYCLE_MS: u64 = 1_000;

/// Why the connector cannot run.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// No transport.
    #[error("nothing to serve: --no-stdio needs an http section in the configuration")]
    Nothing,
    /// The state directory.
    #[error("{}", .0.message)]
    State(#[from] ToolError),
    /// The loopback endpoint.
    #[error(transparent)]
    Http(#[from] HttpServeError),
    /// No threads.
    #[error("the runtime does not start: {0}. Free some memory or threads")]
    Runtime(String),
}

impl ServeError {
    /// The stable code.
    pub fn code(&self) -> &str {
        match self {
            ServeError::Nothing => "nothing_to_serve",
            ServeError::State(e) => &e.code,
            ServeError::Http(e) => e.code(),
            ServeError::Runtime(_) => "runtime_failed",
        }
    }
}

/// Serves until stdin ends (or, without stdio, until a signal comes).
///
/// # Errors
/// What the operator must fix before the connector can run.
pub async fn serve(settings: Settings, stdio: bool) -> Result<(), ServeError> {
    let http = settings.http.clone();
    if !stdio && http.is_none() {
        return Err(ServeError::Nothing);
    }
    let core = Core::open(settings, Clock::system())?;
    let endpoint = match http {
        Some(http) => Some(start_http(&core, http).await?),
        None => None,
    };
    core.tend_all_streams()?;
    let background = core.clone();
    tokio::spawn(async move { background.discover_all().await });
    let background = core.clone();
    tokio::spawn(async move {
        loop {
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(LIFECYCLE_MS)) => background.check_lifecycles(),
                () = background.shutdown.cancelled() => return,
            }
        }
    });
    tokio::spawn(core.clone().watch_store());
    if stdio {
        tokio::select! {
            done = serve_stdio(&core) => done?,
            () = signal() => {}
        }
    } else {
        signal().await;
    }
    core.shutdown.cancel();
    core.writes.close();
    // A write that is out must be told from one that is not.
    let _ = tokio::time::timeout(Duration::from_millis(LAST_WRITES_MS), core.writes.wait()).await;
    if let Some(endpoint) = endpoint {
        let _ = tokio::time::timeout(Duration::from_secs(2), endpoint).await;
    }
    Ok(())
}

async fn start_http(
    core: &Arc<Core>,
    http: HttpSettings,
) -> Result<tokio::task::JoinHandle<()>, ServeError> {
    let endpoint = Endpoint::bind(http.listen, http.token, http.url_file).await?;
    let _ = writeln!(io::stderr(), "ap-connector: MCP over HTTP at {}", endpoint.url());
    let shutdown = core.shutdown.clone();
    let core = core.clone();
    Ok(tokio::spawn(async move {
        if let Err(e) = endpoint.serve_mcp(move || Server::new(core.clone()), shutdown).await {
            let _ = writeln!(io::stderr(), "ap-connector: {e}");
        }
    }))
}

async fn signal() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut term) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = term.recv() => {}
                _ = tokio::signal::ctrl_c() => {}
            }
            return;
        }
    }
    let _ = tokio::signal::ctrl_c().await;
}

async fn serve_stdio(core: &Arc<Core>) -> Result<(), ServeError> {
    // The strict parser stands before rmcp: what is no acceptable JSON is answered here, and
    // rmcp only sees lines that mean one thing.
    let (to_server, from_client) = tokio::io::duplex(256 * 1024);
    let (from_server, to_client) = tokio::io::duplex(256 * 1024);
    let (refusals, mut refused) = tokio::sync::mpsc::channel::<String>(16);
    let reader = tokio::spawn(async move {
        let mut out = to_server;
        let (input, _) = rmcp::transport::stdio_pipes();
        let mut input = BufReader::with_capacity(64 * 1024, input);
        let mut line = Vec::new();
        loop {
            line.clear();
            match read_line(&mut input, &mut line).await {
                Ok(0) | Err(_) => break,
                Ok(_) => {}
            }
            let text = line.trim_ascii();
            if text.is_empty() {
                continue;
            }
            if let Err(why) = acceptable(text) {
                let answer = serde_json::json!({
                    "jsonrpc": "2.0", "id": null,
                    "error": { "code": -32700, "message": format!("Parse error: {why}") },
                });
                if refusals.send(answer.to_string()).await.is_err() {
                    break;
                }
                continue;
            }
            if out.write_all(text).await.is_err() || out.write_all(b"\n").await.is_err() {
                break;
            }
        }
        let _ = out.shutdown().await;
    });
    let writer = tokio::spawn(async move {
        let (_, mut stdout) = rmcp::transport::stdio_pipes();
        let mut lines = BufReader::with_capacity(64 * 1024, to_client);
        let mut line = Vec::new();
        let mut refusing = true;
        loop {
            tokio::select! {
                answer = refused.recv(), if refusing && line.is_empty() => match answer {
                    Some(answer) => {
                        if write_line(&mut stdout, answer.as_bytes()).await.is_err() { return; }
                    }
                    None => refusing = false,
                },
                read = lines.read_until(b'\n', &mut line) => {
                    match read {
                        Ok(0) | Err(_) => return,
                        Ok(_) if line.ends_with(b"\n") => {
                            if write_line(&mut stdout, line.trim_ascii()).await.is_err() { return; }
                            line.clear();
                        }
                        Ok(_) => {}
                    }
                }
            }
        }
    });
    let server = Server::new(core.clone());
    match serve_server(server, (from_client, from_server)).await {
        Ok(running) => {
            let _ = running.waiting().await;
        }
        Err(e) => tracing::debug!(error = %e, "the client left before initialize"),
    }
    let _ = tokio::time::timeout(Duration::from_secs(2), writer).await;
    reader.abort();
    Ok(())
}

fn acceptable(line: &[u8]) -> Result<(), String> {
    if line.len() >= MAX_LINE {
        return Err("the line is too long".to_owned());
    }
    ap_protocol::json::parse(line).map(|_| ()).map_err(|e| e.to_string())
}

/// Reads one line; what exceeds the limit is read to its end and dropped.
async fn read_line(
    input: &mut (impl tokio::io::AsyncBufRead + Unpin),
    line: &mut Vec<u8>,
) -> io::Result<usize> {
    let mut total = 0;
    loop {
        let available = input.fill_buf().await?;
        if available.is_empty() {
            return Ok(total);
        }
        let end = available.iter().position(|b| *b == b'\n');
        let take = end.map_or(available.len(), |i| i + 1);
        let room = MAX_LINE.saturating_sub(line.len()).min(take);
        line.extend_from_slice(&available[..room]);
        input.consume(take);
        total += take;
        if end.is_some() {
            return Ok(total);
        }
    }
}

async fn write_line(out: &mut (impl tokio::io::AsyncWrite + Unpin), line: &[u8]) -> io::Result<()> {
    out.write_all(line).await?;
    out.write_all(b"\n").await?;
    out.flush().await
}
