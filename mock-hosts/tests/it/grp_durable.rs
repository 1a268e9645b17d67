//! Storage: what an answer promised is there after a kill -9, idempotency included.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use mock_hosts::grp::{GrpConfig, GrpHost};
use serde_json::{Value, json};

use crate::grp_support::{Grp, text};

struct Process {
    child: Child,
    url: String,
}

impl Process {
    /// The program with a GRP host on the same folder.
    fn start(data: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_mock-hosts"))
            .args(["grp", "--allow-private-targets", "--listen", "127.0.0.1:0", "--data"])
            .arg(data)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let url = lines
            .by_ref()
            .map(Result::unwrap)
            .find_map(|l| {
                l.split_whitespace().find(|w| w.starts_with("http://")).map(str::to_owned)
            })
            .expect("the program prints its URL");
        Process { child, url }
    }

    fn kill(mut self) {
        // On Unix this is SIGKILL: nothing of the program runs after it.
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

async fn post(url: &str, path: &str, token: &str, key: &str, body: Value) -> (u16, Value) {
    mock_hosts::grp::install_tls();
    let answer = reqwest::Client::new()
        .post(format!("{url}{path}"))
        .bearer_auth(token)
        .header("idempotency-key", key)
        .json(&body)
        .send()
        .await
        .unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap())
}

async fn delete(url: &str, slug: &str, token: &str, key: &str) -> (u16, Value) {
    let answer = reqwest::Client::new()
        .delete(format!("{url}/api/rooms/{slug}"))
        .bearer_auth(token)
        .header("idempotency-key", key)
        .header("x-confirm-delete", slug)
        .send()
        .await
        .unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap())
}

/// A webhook target that answers as told and keeps what it was told.
#[derive(Clone, Default)]
struct Target {
    takes: Arc<AtomicBool>,
    heard: Arc<Mutex<Vec<(bool, String, Value)>>>,
}

impl Target {
    async fn listen(&self) -> String {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let target = self.clone();
        let hook = move |headers: http::HeaderMap, body: String| async move {
            let taken = target.takes.load(Ordering::SeqCst);
            let id = headers["webhook-delivery"].to_str().unwrap().to_owned();
            let body = ap_protocol::json::parse(body.as_bytes()).unwrap();
            target.heard.lock().unwrap().push((taken, id, body));
            if taken { http::StatusCode::OK } else { http::StatusCode::SERVICE_UNAVAILABLE }
        };
        let app = axum::Router::new().route("/hook", axum::routing::post(hook));
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        url
    }

    async fn until(&self, what: &str, done: impl Fn(&[(bool, String, Value)]) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !done(&self.heard.lock().unwrap()) {
            assert!(Instant::now() < deadline, "{what}: {:?}", self.heard.lock().unwrap());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

#[tokio::test]
async fn a_push_pending_at_a_crash_arrives_after_it_under_the_same_id() {
    let folder = tempfile::tempdir().unwrap();
    let target = Target::default();
    let url = target.listen().await;
    let first = Process::start(folder.path());
    let (_, made) = post(&first.url, "/api/rooms", "", "k", json!({ "about": "x" })).await;
    let (slug, owner) = (text(&made["slug"]), text(&made["creator_token"]));
    let room = format!("/api/rooms/{slug}");
    let hook = json!({ "url": url, "event_types": ["discussion.posted"] });
    let (status, hook) = post(&first.url, &format!("{room}/webhooks"), &owner, "k", hook).await;
    assert_eq!(status, 200, "{hook}");
    let discuss = format!("{room}/discuss");
    for body in ["one", "two"] {
        post(&first.url, &discuss, &owner, body, json!({ "body": body })).await;
    }
    // Both were tried, neither was taken, and the answers had promised nothing less.
    target
        .until("two tries", |h| {
            h.iter().map(|(_, id, _)| id).collect::<std::collections::BTreeSet<_>>().len() == 2
        })
        .await;
    first.kill();
    let pending = |folder: &Path| -> i64 {
        let db = rusqlite::Connection::open(folder.join("grp.sqlite")).unwrap();
        db.query_row("SELECT count(*) FROM grp_deliveries", [], |r| r.get(0)).unwrap()
    };
    assert_eq!(pending(folder.path()), 2);
    let tried: BTreeMap<String, Value> =
        target.heard.lock().unwrap().iter().map(|(_, id, b)| (id.clone(), b.clone())).collect();

    target.takes.store(true, Ordering::SeqCst);
    let second = Process::start(folder.path());
    let taken = |h: &[(bool, String, Value)]| -> Vec<(String, Value)> {
        h.iter().filter(|(taken, ..)| *taken).map(|(_, id, b)| (id.clone(), b.clone())).collect()
    };
    target.until("both taken", |h| taken(h).len() == 2).await;
    let got: BTreeMap<_, _> = taken(&target.heard.lock().unwrap()).into_iter().collect();
    assert_eq!(got, tried, "the same ids, the same bodies");
    // What was taken is forgotten: a third process has nothing to say.
    let deadline = Instant::now() + Duration::from_secs(10);
    while pending(folder.path()) > 0 {
        assert!(Instant::now() < deadline, "a taken delivery is still kept");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    second.kill();
    let third = Process::start(folder.path());
    post(&third.url, &discuss, &owner, "three", json!({ "body": "three" })).await;
    target.until("the next one", |h| taken(h).len() >= 3).await;
    let all = taken(&target.heard.lock().unwrap());
    assert_eq!(all.len(), 3, "{all:?}");
    assert_eq!(all[2].1["event"]["data"]["body"], "three");
    third.kill();
}

#[tokio::test]
async fn kill_nine_loses_nothing_that_was_answered() {
    let folder = tempfile::tempdir().unwrap();
    let first = Process::start(folder.path());
    let body = json!({
        "question": "Tea or coffee?", "options": ["tea", "coffee"],
        "config": { "early_close": true, "settle_window": 0, "creator_votes": false, "mechanism": "plurality" },
    });
    let (_, made) = post(&first.url, "/api/rooms", "", "create", body.clone()).await;
    let (slug, owner) = (text(&made["slug"]), text(&made["creator_token"]));
    let join = format!("/api/rooms/{slug}/join");
    let (_, seat) = post(&first.url, &join, "", "join", json!({ "display_name": "bob" })).await;
    let bob = text(&seat["participant_token"]);
    let other = json!({ "about": "Soon gone" });
    let (_, doomed) = post(&first.url, "/api/rooms", "", "doomed", other).await;
    let (gone, its_owner) = (text(&doomed["slug"]), text(&doomed["creator_token"]));
    let talk = format!("/api/rooms/{gone}/discuss");
    let (_, last) = post(&first.url, &talk, &its_owner, "talk", json!({ "body": "bye" })).await;
    let (status, deleted) = delete(&first.url, &gone, &its_owner, "end").await;
    assert_eq!(status, 200, "{deleted}");
    let discuss = format!("/api/rooms/{slug}/discuss");
    let (_, said) = post(&first.url, &discuss, &bob, "say", json!({ "body": "hello" })).await;
    let choose = format!("/api/rooms/{slug}/choose");
    let (_, chose) = post(&first.url, &choose, &bob, "pick", json!({ "choice": "tea" })).await;
    assert_eq!(chose["resolved_winner"], "tea");
    first.kill();

    let second = Process::start(folder.path());
    // Every key still answers as before, and nothing happens twice.
    for (path, token, key, body, before) in [
        ("/api/rooms".to_owned(), "", "create", body, &made),
        (join, "", "join", json!({ "display_name": "bob" }), &seat),
        (discuss.clone(), &bob, "say", json!({ "body": "hello" }), &said),
        (choose, &bob, "pick", json!({ "choice": "tea" }), &chose),
        (talk.clone(), &its_owner, "talk", json!({ "body": "bye" }), &last),
    ] {
        let (status, again) = post(&second.url, &path, token, key, body).await;
        assert_eq!((status, &again), (200, before), "{path}");
    }
    let (status, conflict) =
        post(&second.url, &discuss, &bob, "say", json!({ "body": "other" })).await;
    assert_eq!((status, &conflict["error"]["code"]), (409, &json!("idempotency.conflict")));
    assert_eq!(delete(&second.url, &gone, &its_owner, "end").await, (200, deleted));
    let (status, e) = delete(&second.url, &gone, &its_owner, "another").await;
    assert_eq!((status, &e["error"]["code"]), (404, &json!("room.not_found")));
    let (status, e) = post(&second.url, &talk, &its_owner, "talk", json!({ "body": "x" })).await;
    assert_eq!((status, &e["error"]["code"]), (409, &json!("idempotency.conflict")));
    let http = reqwest::Client::new();
    let read = async |path: &str| -> Value {
        let url = format!("{}/api/rooms/{slug}/{path}", second.url);
        http.get(url).bearer_auth(&owner).send().await.unwrap().json().await.unwrap()
    };
    let events = read("events").await;
    let of = |t: &str| {
        events["events"].as_array().unwrap().iter().filter(|e| e["event_type"] == t).count()
    };
    assert_eq!(
        (of("discussion.posted"), of("choice.submitted"), of("participant.joined")),
        (1, 1, 1)
    );
    // The receipt verifies under the key that is published after the restart.
    let outcome = read("outcome").await;
    let keys: Value = http
        .get(format!("{}/.well-known/grp.json", second.url))
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    let receipt = text(&outcome["decisions"][0]["receipt_jws"]);
    let parsed = mock_hosts::grp::jws::parse(&receipt, "grp-receipt+jwt").unwrap();
    let key =
        mock_hosts::grp::jws::key_in(&keys["keys"], &parsed.kid).expect("the key is published");
    parsed.verify(key).unwrap();
    second.kill();
}

#[tokio::test]
async fn no_secret_reaches_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let config = GrpConfig { data: Some(folder.path().into()), ..GrpConfig::default() };
    let grp = Grp::over(GrpHost::start(config).await.unwrap());
    let body = json!({
        "about": "x", "password": "correct horse battery", "config": { "visibility": "private" },
    });
    let key = "a-key-that-only-the-client-knows";
    let (_, made) = grp.post("/api/rooms", "", &[("idempotency-key", key)], body).await;
    let (slug, owner) = (text(&made["slug"]), text(&made["creator_token"]));
    let path = format!("/api/rooms/{slug}/invites");
    let (_, invite) = grp.post(&path, &owner, &[], json!({ "label": "bob" })).await;
    let path = format!("/api/rooms/{slug}/join");
    let token = text(&invite["invite_token"]);
    let (_, seat) =
        grp.post(&path, "", &[("idempotency-key", key)], json!({ "invite": token })).await;
    let secrets = [
        owner,
        token,
        text(&seat["participant_token"]),
        "correct horse battery".into(),
        key.into(),
    ];
    let mut seen = 0;
    for file in std::fs::read_dir(folder.path()).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        seen += bytes.len();
        let text = String::from_utf8_lossy(&bytes);
        for secret in &secrets {
            assert!(!text.contains(secret.as_str()), "a secret is on the disk");
        }
    }
    assert!(seen > 4_096, "the database was looked at");
}
