//! The loopback endpoint of a running connector: guard, sessions, shutdown.

use std::time::{Duration, Instant};

use ap_protocol::SecretKey;
use mock_hosts::{Lab, LabConfig, Peer};
use reqwest::{Client, Response, StatusCode};
use serde_json::{Value, json};

use crate::cli_support::Place;
use crate::mcp::{self, Connector, provision};

const TOKEN: &str = "the-token-of-the-endpoint-tests";

struct Session {
    client: Client,
    url: String,
    id: String,
}

async fn post(client: &Client, url: &str, session: Option<&str>, body: String) -> Response {
    let mut request = client
        .post(url)
        .bearer_auth(TOKEN)
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .body(body);
    if let Some(session) = session {
        request = request.header("mcp-session-id", session);
    }
    request.send().await.unwrap()
}

/// The JSON-RPC answer in an SSE body.
async fn answer(response: Response) -> Value {
    let text = response.text().await.unwrap();
    let mut data = text.lines().filter_map(|l| l.strip_prefix("data:")).map(str::trim);
    let last = data.rfind(|d| d.starts_with('{'));
    ap_protocol::json::parse(last.unwrap_or(&text).as_bytes()).unwrap()
}

impl Session {
    async fn open(url: &str) -> Self {
        let client = Client::builder().no_proxy().build().unwrap();
        let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": { "name": "t", "version": "0" } } });
        let response = post(&client, url, None, hello.to_string()).await;
        assert_eq!(response.status(), StatusCode::OK);
        let id = response.headers()["mcp-session-id"].to_str().unwrap().to_owned();
        assert_eq!(answer(response).await["result"]["protocolVersion"], "2025-11-25");
        let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        let accepted = post(&client, url, Some(&id), ready.to_string()).await;
        assert_eq!(accepted.status(), StatusCode::ACCEPTED);
        Session { client, url: url.to_owned(), id }
    }

    async fn call(&self, tool: &str, arguments: Value) -> Result<Value, Value> {
        let name = format!("agent_protocols_{tool}");
        let request = json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call",
            "params": { "name": name, "arguments": arguments } });
        let response = post(&self.client, &self.url, Some(&self.id), request.to_string()).await;
        mcp::outcome(&answer(response).await)
    }
}

struct Scene {
    lab: Lab,
    room: String,
    place: Place,
    connector: Option<Connector>,
    url: String,
}

async fn scene() -> Scene {
    let lab = Lab::start(LabConfig::default()).await.unwrap();
    let host = lab.adp("a").await.unwrap();
    let creator = Peer::named("creator", lab.clock());
    let room = creator.create_room(&host, json!({})).await.unwrap();
    let place = Place::new();
    let url_file = place.path("url");
    let changes =
        json!({ "http": { "listen": "127.0.0.1:0", "token": TOKEN, "url_file": url_file } });
    let path = provision(&place.path(""), &SecretKey::from_seed(&[5; 32]), &[host.url()], changes);
    let command = place.command(&["serve", "--provision", path.to_str().unwrap()]);
    let connector = tokio::task::block_in_place(|| Connector::start(command));
    let until = Instant::now() + Duration::from_secs(20);
    let url = loop {
        match std::fs::read_to_string(&url_file) {
            Ok(url) => break url.trim().to_owned(),
            Err(_) => assert!(Instant::now() < until, "no URL was written"),
        }
        tokio::task::yield_now().await;
    };
    Scene { lab, room, place, connector: Some(connector), url }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sessions_see_their_own_heads_and_share_the_rest() {
    let scene = scene().await;
    #[cfg(unix)]
    assert_eq!(crate::cli_support::mode(&scene.place.path("url")), 0o600);
    let host = scene.lab.find("a").unwrap();
    let (one, two) = (Session::open(&scene.url).await, Session::open(&scene.url).await);
    assert_ne!(one.id, two.id);
    let open = json!({ "host": host.url(), "room_id": scene.room });
    one.call("room_open", open.clone()).await.unwrap();
    one.call("room_join", json!({ "room_id": scene.room, "role": "speaker" })).await.unwrap();
    two.call("room_open", open).await.unwrap();
    one.call("room_state", json!({ "room_id": scene.room })).await.unwrap();
    // The room moves in session two: session one is measured against what it saw.
    let say = |content: &str| json!({ "room_id": scene.room, "content": content });
    assert_eq!(two.call("room_send_message", say("two")).await.unwrap()["status"], "sent");
    assert_eq!(one.call("room_send_message", say("one")).await.unwrap()["status"], "held");
    // Stdio is a session of its own.
    let mut scene = scene;
    let room = scene.room.clone();
    let connector = scene.connector.as_mut().unwrap();
    tokio::task::block_in_place(|| {
        let drafts = connector.ok("drafts_list", json!({ "room_id": room }));
        assert_eq!(drafts["drafts"].as_array().unwrap().len(), 1, "drafts belong to the identity");
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_is_done_without_the_token_and_nothing_twofold_gets_in() {
    let scene = scene().await;
    let session = Session::open(&scene.url).await;
    let request = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" }).to_string();
    for method in ["POST", "GET", "DELETE", "OPTIONS"] {
        let response = session
            .client
            .request(method.parse().unwrap(), &scene.url)
            .header("mcp-session-id", &session.id)
            .body(request.clone())
            .send()
            .await
            .unwrap();
        assert_eq!(response.status(), StatusCode::UNAUTHORIZED, "{method}");
    }
    // A member that is there twice means two things: refused before anybody reads one.
    let double = r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"agent_protocols_hosts_list","arguments":{},"arguments":{"x":1}}}"#;
    let response = post(&session.client, &scene.url, Some(&session.id), double.to_owned()).await;
    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
    assert_eq!(answer(response).await["error"]["code"], -32700);
    let big = format!("{{\"jsonrpc\":\"2.0\",\"x\":\"{}\"}}", "y".repeat(1024 * 1024));
    let response = post(&session.client, &scene.url, Some(&session.id), big).await;
    assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE);
    assert!(session.call("hosts_list", json!({})).await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_end_of_stdin_ends_the_endpoint_too() {
    let mut scene = scene().await;
    let session = Session::open(&scene.url).await;
    let live = session
        .client
        .get(&scene.url)
        .bearer_auth(TOKEN)
        .header("accept", "text/event-stream")
        .header("mcp-session-id", &session.id)
        .send()
        .await
        .unwrap();
    assert_eq!(live.status(), StatusCode::OK);
    let connector = scene.connector.take().unwrap();
    let began = Instant::now();
    let code = tokio::task::block_in_place(|| connector.close());
    assert_eq!(code, Some(0));
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    assert!(!scene.place.path("url").exists());
}
