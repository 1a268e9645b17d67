//! The suite's side of the loopback HTTP endpoint: raw requests with full control of the
//! headers, and a small Streamable HTTP session.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::mcp::{McpError, PROTOCOL_VERSION, frame_of};
use crate::wire::WireLog;

/// Largest answer that is read (bytes).
const MAX_ANSWER: usize = 8 * 1024 * 1024;

/// A raw HTTP answer.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    /// Status code, 0 when the connection ended without one.
    pub status: u16,
    /// Header lines, names in lower case.
    pub headers: Vec<(String, String)>,
    /// Body, chunks joined.
    pub body: String,
}

impl Answer {
    /// A header by its lower-case name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }
}

/// Sends one request exactly as given and reads the answer until the connection ends or,
/// for an event stream, until `enough` says so.
///
/// # Errors
/// A sentence for the report.
pub async fn exchange(
    authority: &str,
    method: &str,
    path: &str,
    headers: &[(String, String)],
    body: Option<&str>,
    timeout: Duration,
    enough: impl Fn(&str) -> bool,
) -> Result<Answer, String> {
    let work = async {
        let mut stream =
            TcpStream::connect(authority).await.map_err(|e| format!("connect: {e}"))?;
        let mut request = format!("{method} {path} HTTP/1.1\r\n");
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        request.push_str("Connection: close\r\n");
        if let Some(body) = body {
            request.push_str(&format!(
                "Content-Type: application/json\r\nContent-Length: {}\r\n",
                body.len()
            ));
        }
        request.push_str("\r\n");
        request.push_str(body.unwrap_or_default());
        stream.write_all(request.as_bytes()).await.map_err(|e| format!("write: {e}"))?;
        let mut bytes = Vec::new();
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let n = stream.read(&mut buffer).await.map_err(|e| format!("read: {e}"))?;
            bytes.extend_from_slice(&buffer[..n]);
            let answer = parse(&bytes);
            let whole = answer.header("content-length").and_then(|l| l.parse::<usize>().ok());
            let complete = whole.is_some_and(|l| answer.status > 0 && answer.body.len() >= l);
            if n == 0 || complete || bytes.len() > MAX_ANSWER || enough(&answer.body) {
                return Ok(answer);
            }
        }
    };
    tokio::time::timeout(timeout, work)
        .await
        .unwrap_or_else(|_| Err(format!("no answer within {} ms", timeout.as_millis())))
}

fn parse(bytes: &[u8]) -> Answer {
    let text = String::from_utf8_lossy(bytes);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return Answer::default() };
    let mut lines = head.split("\r\n");
    let status =
        lines.next().and_then(|l| l.split(' ').nth(1)).and_then(|s| s.parse().ok()).unwrap_or(0);
    let headers: Vec<(String, String)> = lines
        .filter_map(|l| l.split_once(':'))
        .map(|(n, v)| (n.to_lowercase(), v.trim().to_owned()))
        .collect();
    let chunked = headers
        .iter()
        .any(|(n, v)| n == "transfer-encoding" && v.to_lowercase().contains("chunked"));
    let body = if chunked { dechunk(body) } else { body.to_owned() };
    Answer { status, headers, body }
}

/// Chunk contents so far, in text: sizes count bytes, so cut on bytes.
fn dechunk(mut rest: &str) -> String {
    let mut out = String::new();
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = size.split(';').next().unwrap_or_default().trim();
        let Ok(size) = usize::from_str_radix(size, 16) else { break };
        if size == 0 || !after.is_char_boundary(size.min(after.len())) {
            break;
        }
        out.push_str(&after[..size.min(after.len())]);
        rest = after.get(size + 2..).unwrap_or_default();
    }
    out
}

/// One MCP session over Streamable HTTP.
pub struct HttpSession {
    authority: String,
    path: String,
    token: String,
    id: Option<String>,
    next_id: u64,
    log: WireLog,
    name: String,
}

impl HttpSession {
    /// A session that was not started yet.
    pub fn new(url: &url::Url, token: String, name: &str, log: WireLog) -> Self {
        HttpSession {
            authority: format!(
                "{}:{}",
                url.host_str().unwrap_or_default(),
                url.port_or_known_default().unwrap_or(80)
            ),
            path: url.path().to_owned(),
            token,
            id: None,
            next_id: 1,
            log,
            name: name.to_owned(),
        }
    }

    /// Goes through `initialize`.
    ///
    /// # Errors
    /// [`McpError`].
    pub async fn initialize(&mut self, timeout: Duration) -> Result<Value, McpError> {
        let params = json!({
            "protocolVersion": PROTOCOL_VERSION, "capabilities": {},
            "clientInfo": { "name": "conformance", "version": env!("CARGO_PKG_VERSION") },
        });
        let result = self.request("initialize", params, timeout).await?;
        let note = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        self.post(&note, timeout).await?;
        Ok(result)
    }

    /// Sends a request and waits for its result.
    ///
    /// # Errors
    /// [`McpError`].
    pub async fn request(
        &mut self,
        method: &str,
        params: Value,
        timeout: Duration,
    ) -> Result<Value, McpError> {
        let id = self.next_id;
        self.next_id += 1;
        let frame = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        let answer = self.post(&frame, timeout).await?;
        if let Some(session) = answer.header("mcp-session-id") {
            self.id = Some(session.to_owned());
        }
        match answers(&answer.body).into_iter().find(|f| f["id"] == id) {
            Some(frame) => crate::mcp::into_result(frame),
            None => Err(McpError::Exited(format!(
                "HTTP {} without an answer to {method}: {}",
                answer.status, answer.body
            ))),
        }
    }

    async fn post(&self, frame: &Value, timeout: Duration) -> Result<Answer, McpError> {
        let mut headers = vec![
            ("Host".to_owned(), self.authority.clone()),
            ("Authorization".to_owned(), format!("Bearer {}", self.token)),
            ("Accept".to_owned(), "application/json, text/event-stream".to_owned()),
        ];
        if let Some(id) = &self.id {
            headers.push(("Mcp-Session-Id".to_owned(), id.clone()));
            headers.push(("MCP-Protocol-Version".to_owned(), PROTOCOL_VERSION.to_owned()));
        }
        let text = frame.to_string();
        self.log.push(&format!("{}>", self.name), &text);
        let wanted = frame.get("id").cloned();
        let enough = |body: &str| {
            wanted.as_ref().is_some_and(|id| answers(body).iter().any(|f| f["id"] == *id))
        };
        let answer =
            exchange(&self.authority, "POST", &self.path, &headers, Some(&text), timeout, enough)
                .await
                .map_err(McpError::Exited)?;
        self.log.push(&format!("{}<", self.name), &answer.body);
        Ok(answer)
    }
}

/// JSON-RPC messages of a body: one JSON text, or the data lines of an event stream.
fn answers(body: &str) -> Vec<Value> {
    if let Ok(frame) = frame_of(body.trim().as_bytes()) {
        return vec![frame];
    }
    body.lines()
        .filter_map(|l| l.strip_prefix("data:"))
        .filter_map(|l| frame_of(l.trim().as_bytes()).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_plain_chunked_and_as_events() {
        let plain = b"HTTP/1.1 401 Unauthorized\r\nX-A: b\r\n\r\nno";
        let a = parse(plain);
        assert_eq!((a.status, a.header("x-a"), a.body.as_str()), (401, Some("b"), "no"));
        let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
        assert_eq!(parse(chunked).body, "abcde");
        let events = "id: 0\ndata:\n\nevent: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n";
        assert_eq!(answers(events).len(), 1);
    }
}
