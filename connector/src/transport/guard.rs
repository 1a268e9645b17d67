//! The guard of the loopback endpoint (seed 3): Host, Origin, bearer token, size, load. It
//! stands before any MCP work, on every method and every path, and it is generic over what
//! stands behind it. It never logs a token and never answers with CORS permissions.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use http::header::{AUTHORIZATION, CONTENT_LENGTH, HOST, ORIGIN, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use tokio::sync::Semaphore;

/// Largest request body (bytes).
pub const MAX_BODY_BYTES: usize = 1024 * 1024;
/// Requests that are worked on at the same time; more are answered 503.
pub const MAX_IN_FLIGHT: usize = 64;

/// Every refusal: code, HTTP status, when, what to do. One table for code, tests and page.
pub const REFUSALS: &[(&str, u16, &str, &str)] = &[
    (
        "host_header_refused",
        403,
        "the Host header is not one loopback name with this endpoint's port",
        "use the URL from url_file; a browser page under another name may not call this endpoint",
    ),
    (
        "origin_refused",
        403,
        "an Origin header is present and is not this endpoint",
        "call from an MCP client, not from a web page",
    ),
    (
        "unauthorized",
        401,
        "the bearer token is missing or wrong",
        "send `Authorization: Bearer TOKEN` with the token of the configuration",
    ),
    ("body_too_large", 413, "the body exceeds 1 MiB", "send less in one call"),
    (
        "too_many_requests_in_flight",
        503,
        "64 requests are being worked on already",
        "wait for some of them, then call again",
    ),
];

/// What is let in.
pub struct Guard {
    hosts: Vec<String>,
    origins: Vec<String>,
    /// Digests have one length, so the comparison tells nothing about the token's.
    token: [u8; 32],
    in_flight: Arc<Semaphore>,
}

impl Guard {
    /// For an endpoint that is bound to `address`.
    pub fn new(address: SocketAddr, token: &str) -> Self {
        let port = address.port();
        let mut hosts: Vec<String> = ["127.0.0.1", "localhost", "[::1]"]
            .iter()
            .map(|name| format!("{name}:{port}"))
            .collect();
        if port == 80 {
            hosts.extend(["127.0.0.1", "localhost", "[::1]"].map(str::to_owned));
        }
        let origins = hosts.iter().map(|host| format!("http://{host}")).collect();
        Guard {
            hosts,
            origins,
            token: Sha256::digest(token.as_bytes()).into(),
            in_flight: Arc::new(Semaphore::new(MAX_IN_FLIGHT)),
        }
    }

    /// Puts the guard before everything in `router`, unknown paths included.
    pub fn protect(self, router: Router) -> Router {
        router.layer(middleware::from_fn_with_state(Arc::new(self), check))
    }

    fn refusal(&self, uri: &Uri, headers: &HeaderMap) -> Option<&'static str> {
        // A request target with an authority would override Host: both must be ours.
        let target = uri.authority().map(|a| a.as_str());
        if !self.host_is_ours(headers) || target.is_some_and(|t| !self.is_host(t)) {
            return Some("host_header_refused");
        }
        if headers.contains_key(ORIGIN) && !self.origin_is_ours(headers) {
            return Some("origin_refused");
        }
        if !self.is_authorized(headers) {
            return Some("unauthorized");
        }
        let declared = headers.get(CONTENT_LENGTH).and_then(|v| v.to_str().ok());
        if declared.and_then(|v| v.parse::<u64>().ok()).is_some_and(|n| n > MAX_BODY_BYTES as u64) {
            return Some("body_too_large");
        }
        None
    }

    fn is_host(&self, text: &str) -> bool {
        self.hosts.iter().any(|h| h.eq_ignore_ascii_case(text))
    }

    fn host_is_ours(&self, headers: &HeaderMap) -> bool {
        single(headers, &HOST).is_some_and(|host| self.is_host(host))
    }

    fn origin_is_ours(&self, headers: &HeaderMap) -> bool {
        // Browsers send the origin in lower case: nothing else is one.
        single(headers, &ORIGIN).is_some_and(|o| self.origins.iter().any(|ours| ours == o))
    }

    fn is_authorized(&self, headers: &HeaderMap) -> bool {
        let presented = single(headers, &AUTHORIZATION)
            .and_then(|v| v.split_once(' '))
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
            .map_or("", |(_, token)| token.trim());
        let digest: [u8; 32] = Sha256::digest(presented.as_bytes()).into();
        bool::from(digest.ct_eq(&self.token)) && !presented.is_empty()
    }
}

/// The value of a header that is there exactly once, as visible ASCII.
fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok(),
        _ => None,
    }
}

async fn check(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    if let Some(code) = guard.refusal(request.uri(), request.headers()) {
        tracing::debug!(code, method = %request.method(), "an HTTP request was refused");
        return refuse(code);
    }
    // Held until the answer's head is there; an open event stream holds nothing.
    let Ok(_permit) = guard.in_flight.clone().try_acquire_owned() else {
        return refuse("too_many_requests_in_flight");
    };
    let (mut parts, body) = request.into_parts();
    // What stands behind needs no credentials, and its logs should not see any.
    parts.headers.remove(AUTHORIZATION);
    let body = Body::new(http_body_util::Limited::new(body, MAX_BODY_BYTES));
    next.run(Request::from_parts(parts, body)).await
}

pub(super) fn refuse(code: &'static str) -> Response {
    let (_, status, when, then) = REFUSALS
        .iter()
        .find(|(c, ..)| *c == code)
        .expect("every code used above stands in the table");
    let status = StatusCode::from_u16(*status).expect("the table holds valid statuses");
    let body = serde_json::json!({
        "error": { "code": code, "message": format!("{when}: {then}"), "data": null }
    });
    let mut response = (status, axum::Json(body)).into_response();
    if status == StatusCode::UNAUTHORIZED {
        let value = HeaderValue::from_static("Bearer realm=\"ap-connector\"");
        response.headers_mut().insert(WWW_AUTHENTICATE, value);
    }
    response
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tower::ServiceExt;

    use super::*;

    const TOKEN: &str = "a-token-of-the-test-0123456789";
    const PORT: u16 = 45_678;

    fn guarded() -> (Router, Arc<AtomicUsize>) {
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = calls.clone();
        let inner = Router::new().route(
            "/mcp",
            axum::routing::any(move |request: Request| {
                counted.fetch_add(1, Ordering::SeqCst);
                async move {
                    assert!(!request.headers().contains_key(AUTHORIZATION));
                    match axum::body::to_bytes(request.into_body(), usize::MAX).await {
                        Ok(bytes) => bytes.len().to_string().into_response(),
                        Err(_) => StatusCode::PAYLOAD_TOO_LARGE.into_response(),
                    }
                }
            }),
        );
        (Guard::new(([127, 0, 0, 1], PORT).into(), TOKEN).protect(inner), calls)
    }

    async fn ask(headers: &[(&str, &str)], method: &str, uri: &str, body: Body) -> (u16, usize) {
        let (router, calls) = guarded();
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = router.oneshot(request.body(body).unwrap()).await.unwrap();
        assert!(!response.headers().contains_key("access-control-allow-origin"));
        (response.status().as_u16(), calls.load(Ordering::SeqCst))
    }

    const GOOD_HOST: (&str, &str) = ("host", "127.0.0.1:45678");

    fn bearer() -> String {
        format!("Bearer {TOKEN}")
    }

    #[tokio::test]
    async fn hosts_one_axis_alone() {
        let bearer = bearer();
        for host in ["127.0.0.1:45678", "localhost:45678", "[::1]:45678", "LOCALHOST:45678"] {
            let headers = [("host", host), ("authorization", bearer.as_str())];
            assert_eq!(ask(&headers, "POST", "/mcp", "x".into()).await, (200, 1), "{host}");
        }
        for host in [
            "evil.test:45678",
            "127.0.0.1.evil.test:45678",
            "127.0.0.1",
            "localhost",
            "127.0.0.1:45679",
            "127.0.0.2:45678",
            "0.0.0.0:45678",
            "::1:45678",
            "localhost:45678.evil.test",
            "user@127.0.0.1:45678",
            "127.0.0.1:045678",
            "",
        ] {
            let headers = [("host", host), ("authorization", bearer.as_str())];
            assert_eq!(ask(&headers, "POST", "/mcp", "x".into()).await, (403, 0), "{host}");
        }
        let absent = [("authorization", bearer.as_str())];
        assert_eq!(ask(&absent, "POST", "/mcp", "x".into()).await, (403, 0));
        let two = [GOOD_HOST, GOOD_HOST, ("authorization", bearer.as_str())];
        assert_eq!(ask(&two, "POST", "/mcp", "x".into()).await, (403, 0));
        let other_target = [GOOD_HOST, ("authorization", bearer.as_str())];
        let got = ask(&other_target, "POST", "http://evil.test/mcp", "x".into());
        assert_eq!(got.await, (403, 0));
    }

    #[tokio::test]
    async fn origins_one_axis_alone() {
        let bearer = bearer();
        let absent = [GOOD_HOST, ("authorization", bearer.as_str())];
        assert_eq!(ask(&absent, "POST", "/mcp", "x".into()).await, (200, 1));
        for origin in ["http://127.0.0.1:45678", "http://localhost:45678", "http://[::1]:45678"] {
            let headers = [GOOD_HOST, ("authorization", bearer.as_str()), ("origin", origin)];
            assert_eq!(ask(&headers, "POST", "/mcp", "x".into()).await, (200, 1), "{origin}");
        }
        for origin in [
            "http://evil.test",
            "http://evil.test:45678",
            "null",
            "http://localhost.evil.test",
            "http://localhost.evil.test:45678",
            "https://127.0.0.1:45678",
            "http://127.0.0.1",
            "http://127.0.0.1:45679",
            "HTTP://127.0.0.1:45678",
            "http://127.0.0.1:45678/",
            "file://",
            "junk",
            "",
        ] {
            let headers = [GOOD_HOST, ("authorization", bearer.as_str()), ("origin", origin)];
            assert_eq!(ask(&headers, "POST", "/mcp", "x".into()).await, (403, 0), "{origin:?}");
        }
        let ours = ("origin", "http://127.0.0.1:45678");
        let two = [GOOD_HOST, ("authorization", bearer.as_str()), ours, ours];
        assert_eq!(ask(&two, "POST", "/mcp", "x".into()).await, (403, 0));
    }

    #[tokio::test]
    async fn tokens_on_every_method_before_any_work() {
        for method in ["GET", "POST", "DELETE", "PUT", "PATCH", "HEAD", "OPTIONS", "TRACE"] {
            for path in ["/mcp", "/", "/unknown"] {
                let got = ask(&[GOOD_HOST], method, path, Body::empty()).await;
                assert_eq!(got, (401, 0), "{method} {path}");
            }
        }
        let right = bearer();
        let doubled = format!("Bearer {TOKEN}{TOKEN}");
        let cut = right[..right.len() - 1].to_owned();
        let longer = format!("{right}x");
        for value in
            ["", "Bearer", "Bearer ", TOKEN, "Basic YTpi", &doubled, &cut, &longer, "Bearer wrong"]
        {
            let headers = [GOOD_HOST, ("authorization", value)];
            assert_eq!(ask(&headers, "POST", "/mcp", "x".into()).await, (401, 0), "{value:?}");
        }
        let twice = [GOOD_HOST, ("authorization", right.as_str()), ("authorization", &right)];
        assert_eq!(ask(&twice, "POST", "/mcp", "x".into()).await, (401, 0));
        let lower = right.replace("Bearer", "bearer");
        let headers = [GOOD_HOST, ("authorization", lower.as_str())];
        assert_eq!(ask(&headers, "POST", "/mcp", "x".into()).await, (200, 1));
    }

    #[tokio::test]
    async fn a_query_token_is_no_token() {
        let uri = format!("/mcp?access_token={TOKEN}");
        assert_eq!(ask(&[GOOD_HOST], "POST", &uri, "x".into()).await, (401, 0));
    }

    #[tokio::test]
    async fn a_401_says_how_and_holds_no_token() {
        let (router, _) = guarded();
        let request = Request::builder()
            .uri("/mcp")
            .header(HOST, "127.0.0.1:45678")
            .header(AUTHORIZATION, "Bearer nearly-right")
            .body(Body::empty())
            .unwrap();
        let response = router.oneshot(request).await.unwrap();
        assert!(response.headers()[WWW_AUTHENTICATE].to_str().unwrap().starts_with("Bearer"));
        let bytes = axum::body::to_bytes(response.into_body(), 10_000).await.unwrap();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        assert!(text.contains("\"unauthorized\"") && !text.contains("nearly-right"), "{text}");
        assert!(!text.contains(TOKEN));
    }

    #[tokio::test]
    async fn bodies_are_bounded_declared_or_not() {
        let bearer = bearer();
        let headers = [GOOD_HOST, ("authorization", bearer.as_str())];
        let full = vec![b'x'; MAX_BODY_BYTES];
        assert_eq!(ask(&headers, "POST", "/mcp", full.into()).await, (200, 1));
        let declared =
            [GOOD_HOST, ("authorization", bearer.as_str()), ("content-length", "1048577")];
        assert_eq!(ask(&declared, "POST", "/mcp", "x".into()).await, (413, 0));
        // A stream without a declared length is cut at the limit.
        let chunk = bytes::Bytes::from(vec![b'x'; 64 * 1024]);
        let endless = futures::stream::iter(
            std::iter::repeat_n(chunk, 17).map(Ok::<_, std::convert::Infallible>),
        );
        let got = ask(&headers, "POST", "/mcp", Body::from_stream(endless)).await;
        assert_eq!(got, (413, 1));
    }

    #[tokio::test]
    async fn load_is_bounded() {
        let entered = Arc::new(Semaphore::new(0));
        let release = Arc::new(Semaphore::new(0));
        let (e, r) = (entered.clone(), release.clone());
        let inner = Router::new().route(
            "/mcp",
            axum::routing::any(move || {
                let (e, r) = (e.clone(), r.clone());
                async move {
                    e.add_permits(1);
                    let _ = r.acquire().await;
                    "done"
                }
            }),
        );
        let router = Guard::new(([127, 0, 0, 1], PORT).into(), TOKEN).protect(inner);
        let request = || {
            Request::builder()
                .uri("/mcp")
                .header(HOST, "127.0.0.1:45678")
                .header(AUTHORIZATION, bearer())
                .body(Body::empty())
                .unwrap()
        };
        let busy: Vec<_> =
            (0..MAX_IN_FLIGHT).map(|_| tokio::spawn(router.clone().oneshot(request()))).collect();
        let _ = entered.acquire_many(MAX_IN_FLIGHT as u32).await.unwrap();
        let over = router.clone().oneshot(request()).await.unwrap();
        assert_eq!(over.status(), 503);
        release.add_permits(1000);
        for task in busy {
            assert_eq!(task.await.unwrap().unwrap().status(), 200);
        }
        assert_eq!(router.oneshot(request()).await.unwrap().status(), 200);
    }

    #[test]
    fn refusal_codes_are_unique() {
        let codes: std::collections::BTreeSet<_> = REFUSALS.iter().map(|r| r.0).collect();
        assert_eq!(codes.len(), REFUSALS.len());
    }
}
