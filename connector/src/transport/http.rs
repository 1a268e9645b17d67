//! The loopback endpoint: binds, guards, serves the MCP service at `/mcp`, tells where it is,
//! and ends without leaving a stream open. It never listens on anything but loopback.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use rmcp::ServerHandler;
use rmcp::transport::streamable_http_server::session::local::{LocalSessionManager, SessionConfig};
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio_util::sync::CancellationToken;

use super::guard::{Guard, MAX_BODY_BYTES};

/// Path of the MCP endpoint.
pub const MCP_PATH: &str = "/mcp";
/// A session without a request for this long is closed (s); its claims lapse with it.
pub const SESSION_IDLE_SECS: u64 = 30 * 60;
/// How long open answers may take after the end was asked for (ms).
pub const DRAIN_MS: u64 = 5_000;

/// Why the endpoint does not come up.
#[derive(Debug, thiserror::Error)]
pub enum HttpServeError {
    /// Not a loopback address.
    #[error(
        "http.listen {0} is not loopback: only 127.0.0.1 and ::1 are allowed. For clients elsewhere \
         use an SSH tunnel"
    )]
    NotLoopback(SocketAddr),
    /// The address is taken, or not there.
    #[error("cannot listen on {address}: {source}. Choose another port, or 0 for a free one")]
    Bind {
        /// Address.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// The URL cannot be published.
    #[error("cannot write http.url_file {}: {source}", path.display())]
    UrlFile {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The listener failed later.
    #[error("the HTTP endpoint failed: {0}")]
    Serve(std::io::Error),
}

impl HttpServeError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            HttpServeError::NotLoopback(_) => "http_not_loopback",
            HttpServeError::Bind { .. } => "http_bind_failed",
            HttpServeError::UrlFile { .. } => "http_url_file_failed",
            HttpServeError::Serve(_) => "http_failed",
        }
    }
}

/// A bound endpoint that does not answer yet.
pub struct Endpoint {
    listener: tokio::net::TcpListener,
    address: SocketAddr,
    token: String,
    url_file: Option<PathBuf>,
}

/// Exactly the two loopback addresses: the rest of 127/8 is refused as well, because not
/// every system keeps it local.
pub fn is_loopback(address: &SocketAddr) -> bool {
    match address.ip() {
        IpAddr::V4(ip) => ip == Ipv4Addr::LOCALHOST,
        IpAddr::V6(ip) => ip == Ipv6Addr::LOCALHOST,
    }
}

impl Endpoint {
    /// Binds. A `url_file` of an earlier run is taken away first, so that nobody reads a
    /// stale one.
    ///
    /// # Errors
    /// [`HttpServeError`].
    pub async fn bind(
        listen: SocketAddr,
        token: String,
        url_file: Option<PathBuf>,
    ) -> Result<Self, HttpServeError> {
        if !is_loopback(&listen) {
            return Err(HttpServeError::NotLoopback(listen));
        }
        if let Some(path) = &url_file {
            match std::fs::remove_file(path) {
                Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
                    return Err(HttpServeError::UrlFile { path: path.clone(), source });
                }
                _ => {}
            }
        }
        let failed = |source| HttpServeError::Bind { address: listen, source };
        let listener = tokio::net::TcpListener::bind(listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        // What was bound, not what was asked for, is what counts.
        if !is_loopback(&address) {
            return Err(HttpServeError::NotLoopback(address));
        }
        Ok(Endpoint { listener, address, token, url_file })
    }

    /// The bound address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL for clients.
    pub fn url(&self) -> String {
        format!("http://{}{MCP_PATH}", self.address)
    }

    /// Serves MCP sessions made by `factory` until `shutdown`; open streams are ended then.
    ///
    /// # Errors
    /// [`HttpServeError::UrlFile`], [`HttpServeError::Serve`].
    pub async fn serve_mcp<S: ServerHandler + Send + 'static>(
        self,
        factory: impl Fn() -> S + Send + Sync + 'static,
        shutdown: CancellationToken,
    ) -> Result<(), HttpServeError> {
        let mut sessions = LocalSessionManager::default();
        let mut session_config = SessionConfig::default();
        session_config.keep_alive = Some(Duration::from_secs(SESSION_IDLE_SECS));
        sessions.session_config = session_config;
        let config = StreamableHttpServerConfig::default()
            .with_cancellation_token(shutdown.clone())
            .with_max_request_body_bytes(MAX_BODY_BYTES);
        let service = StreamableHttpService::new(move || Ok(factory()), Arc::new(sessions), config);
        let router = Router::new()
            .route_service(MCP_PATH, service)
            .layer(axum::middleware::from_fn(one_meaning));
        self.serve(router, shutdown).await
    }

    /// Serves any router behind the guard.
    ///
    /// # Errors
    /// As [`Endpoint::serve_mcp`].
    pub async fn serve(
        self,
        router: Router,
        shutdown: CancellationToken,
    ) -> Result<(), HttpServeError> {
        let url = self.url();
        let guarded = Guard::new(self.address, &self.token).protect(router);
        // Connections queue from `bind` on, so the URL is good as soon as it can be read.
        if let Some(path) = &self.url_file {
            write_private(path, format!("{url}\n").as_bytes())
                .map_err(|source| HttpServeError::UrlFile { path: path.clone(), source })?;
        }
        tracing::info!(%url, "the MCP endpoint is up");
        let asked = shutdown.clone();
        let server = axum::serve(self.listener, guarded)
            .with_graceful_shutdown(async move { asked.cancelled().await });
        let drained = async {
            shutdown.cancelled().await;
            tokio::time::sleep(Duration::from_millis(DRAIN_MS)).await;
        };
        let result = tokio::select! {
            result = async { server.await } => result.map_err(HttpServeError::Serve),
            () = drained => {
                tracing::warn!("open HTTP answers were cut off");
                Ok(())
            }
        };
        if let Some(path) = &self.url_file {
            // The URL is dead now; a leftover would only mislead.
            let _ = std::fs::remove_file(path);
        }
        result
    }
}

/// The strict parser stands before rmcp, as on stdio: a body that is no acceptable JSON, or
/// that two readers could read in two ways, goes no further.
async fn one_meaning(request: Request, next: Next) -> Response {
    if request.method() != http::Method::POST {
        return next.run(request).await;
    }
    let (parts, body) = request.into_parts();
    let Ok(bytes) = axum::body::to_bytes(body, MAX_BODY_BYTES).await else {
        return super::guard::refuse("body_too_large");
    };
    if let Err(e) = ap_protocol::json::parse(&bytes) {
        let answer = serde_json::json!({
            "jsonrpc": "2.0", "id": null,
            "error": { "code": -32700, "message": format!("Parse error: {e}") },
        });
        return (http::StatusCode::BAD_REQUEST, axum::Json(answer)).into_response();
    }
    next.run(Request::from_parts(parts, Body::from(bytes))).await
}

/// Writes a file that only the owner can read, in one step for whoever watches it.
///
/// # Errors
/// The file system's.
pub fn write_private(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut suffix = [0u8; 6];
    getrandom::fill(&mut suffix).map_err(|e| std::io::Error::other(e.to_string()))?;
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", ap_protocol::encoding::encode(suffix)));
    let temporary = path.with_file_name(name);
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let result = options
        .open(&temporary)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
        .and_then(|()| std::fs::rename(&temporary, path));
    if result.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
    result
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    const TOKEN: &str = "another-token-of-the-test-42";

    async fn raw(address: SocketAddr, request: &str) -> String {
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).into_owned()
    }

    #[tokio::test]
    async fn only_the_two_loopback_addresses_are_bound() {
        for text in ["0.0.0.0:0", "[::]:0", "127.0.0.2:0", "192.0.2.1:0", "[::ffff:127.0.0.1]:0"] {
            let got = Endpoint::bind(text.parse().unwrap(), TOKEN.to_owned(), None).await;
            assert_eq!(got.err().unwrap().code(), "http_not_loopback", "{text}");
        }
        let endpoint =
            Endpoint::bind("127.0.0.1:0".parse().unwrap(), TOKEN.to_owned(), None).await.unwrap();
        assert_ne!(endpoint.address().port(), 0);
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn tells_its_url_privately_and_takes_it_back() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("url");
        std::fs::write(&path, "http://127.0.0.1:1/mcp\n").unwrap();
        let listen = "127.0.0.1:0".parse().unwrap();
        let endpoint = Endpoint::bind(listen, TOKEN.to_owned(), Some(path.clone())).await.unwrap();
        assert!(!path.exists(), "a stale URL would be believed");
        let (address, url) = (endpoint.address(), endpoint.url());
        let shutdown = CancellationToken::new();
        let router = Router::new().route(MCP_PATH, axum::routing::get(|| async { "here" }));
        let task = tokio::spawn(endpoint.serve(router, shutdown.clone()));
        let answer = raw(
            address,
            &format!(
                "GET /mcp HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {TOKEN}\r\nConnection: close\r\n\r\n"
            ),
        )
        .await;
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("here"), "{answer}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{url}\n"));
        let mode = std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600);
        shutdown.cancel();
        task.await.unwrap().unwrap();
        assert!(!path.exists());
    }

    /// The same axes as in the guard's tests, but through a real server, where hyper has its
    /// own opinion about missing and doubled headers.
    #[tokio::test]
    async fn header_axes_on_the_wire() {
        let listen = "127.0.0.1:0".parse().unwrap();
        let endpoint = Endpoint::bind(listen, TOKEN.to_owned(), None).await.unwrap();
        let address = endpoint.address();
        let shutdown = CancellationToken::new();
        let router = Router::new().route(MCP_PATH, axum::routing::get(|| async { "here" }));
        let task = tokio::spawn(endpoint.serve(router, shutdown.clone()));
        let port = address.port();
        let auth = format!("Authorization: Bearer {TOKEN}\r\n");
        let good = format!("Host: localhost:{port}\r\n");
        for (headers, statuses) in [
            (format!("{good}{auth}"), &[200][..]),
            (good.clone(), &[401]),
            (format!("Host: evil.test:{port}\r\n{auth}"), &[403]),
            (format!("Host: 127.0.0.1\r\n{auth}"), &[403]),
            (format!("{good}{good}{auth}"), &[400, 403]),
            (auth.clone(), &[400, 403]),
            (format!("{good}{auth}Origin: null\r\n"), &[403]),
            (format!("{good}{auth}Origin: \r\n"), &[403]),
            (format!("{good}{auth}Origin: http://evil.test\r\n"), &[403]),
            (format!("{good}{auth}Origin: http://localhost:{port}\r\n"), &[200]),
        ] {
            let request = format!("GET /mcp HTTP/1.1\r\n{headers}Connection: close\r\n\r\n");
            let answer = raw(address, &request).await;
            let status: u16 = answer[9..12].parse().unwrap();
            assert!(statuses.contains(&status), "{headers}: {answer}");
        }
        let absolute =
            format!("GET http://evil.test/mcp HTTP/1.1\r\n{good}{auth}Connection: close\r\n\r\n");
        assert!(raw(address, &absolute).await.starts_with("HTTP/1.1 403"));
        shutdown.cancel();
        task.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn an_open_stream_does_not_hold_up_the_end() {
        let listen = "127.0.0.1:0".parse().unwrap();
        let endpoint = Endpoint::bind(listen, TOKEN.to_owned(), None).await.unwrap();
        let address = endpoint.address();
        let shutdown = CancellationToken::new();
        struct Quiet;
        impl ServerHandler for Quiet {}
        let task = tokio::spawn(endpoint.serve_mcp(|| Quiet, shutdown.clone()));
        let head = format!(
            "Host: {address}\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\n"
        );
        let body = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"0"}}}"#;
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let request =
            format!("POST /mcp HTTP/1.1\r\n{head}Content-Length: {}\r\n\r\n{body}", body.len());
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut seen = String::new();
        let mut buffer = [0u8; 4096];
        while !seen.contains("mcp-session-id: ") || !seen.contains("serverInfo") {
            let n = stream.read(&mut buffer).await.unwrap();
            assert_ne!(n, 0, "{seen}");
            seen.push_str(&String::from_utf8_lossy(&buffer[..n]));
        }
        let session = seen
            .split("mcp-session-id: ")
            .nth(1)
            .and_then(|s| s.split("\r\n").next())
            .unwrap()
            .to_owned();
        let mut live = tokio::net::TcpStream::connect(address).await.unwrap();
        let get = format!("GET /mcp HTTP/1.1\r\n{head}Mcp-Session-Id: {session}\r\n\r\n");
        live.write_all(get.as_bytes()).await.unwrap();
        let n = live.read(&mut buffer).await.unwrap();
        assert!(String::from_utf8_lossy(&buffer[..n]).starts_with("HTTP/1.1 200"));
        shutdown.cancel();
        let ended = tokio::time::timeout(Duration::from_millis(DRAIN_MS / 2), task).await;
        ended.expect("the end waits for a stream").unwrap().unwrap();
    }
}
