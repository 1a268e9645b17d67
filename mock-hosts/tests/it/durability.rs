//! `--data`: everything is there after kill -9, and no nonce is accepted twice.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use mock_hosts::{Clock, HostConfig, Lab, LabConfig, Peer, Route};
use serde_json::{Value, json};

use crate::support::{SOON, refused, verify};

struct Program {
    child: Child,
    started: Value,
}

impl Program {
    fn start(directory: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_mock-hosts"))
            .args(["--json", "--no-demo", "--data"])
            .arg(directory)
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let started = ap_protocol::json::parse(line.as_bytes()).unwrap();
        Program { child, started }
    }

    fn url(&self, kind: &str) -> String {
        self.started[kind][0]["url"].as_str().unwrap().to_owned()
    }

    /// SIGKILL: nothing gets a chance to be saved.
    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn kill_nine_loses_nothing_that_was_answered() {
    let directory = tempfile::tempdir().unwrap();
    let (ann, bob) = (Peer::named("ann", Clock::default()), Peer::named("bob", Clock::default()));
    let program = Program::start(directory.path());
    let (adp, app) = (program.url("adp"), program.url("app"));
    let room = ann.create_room(&adp, json!({ "visibility": "restricted" })).await.unwrap();
    let filed = bob.request_join(&adp, &room, json!({ "role": "speaker" })).await.unwrap();
    ann.review(&adp, &room, &filed["request"], Some("speaker")).await.unwrap();
    let (head, _) = ann.tips(&adp, &room).await.unwrap();
    let payload = json!({ "content_type": "text/plain", "content": "kept" });
    let said = ann.sign(Some(&room), Some(&head), "message.create", payload, &[]).unwrap();
    ann.post(&adp, &said).await.unwrap();
    let profile = ann.update_profile(&app, json!({ "name": "Ann" })).await.unwrap();
    let before = ann.get(&adp, &format!("/v1/rooms/{room}/events")).await.unwrap();
    program.kill();

    let program = Program::start(directory.path());
    assert_eq!(program.url("adp"), adp, "at its old address");
    let after = ann.get(&adp, &format!("/v1/rooms/{room}/events")).await.unwrap();
    assert_eq!(after, before);
    verify(&room, after["result"].as_array().unwrap()).unwrap();
    refused(ann.post(&adp, &said).await, "nonce_not_greater");
    assert_eq!(ann.get(&app, &format!("/v1/profiles/{}", ann.id())).await.unwrap(), profile);
    let id = filed["request"]["id"].as_str().unwrap();
    let path = format!("/v1/rooms/{room}/join-requests/{id}");
    assert_eq!(bob.get(&adp, &path).await.unwrap()["status"], "approved");
    bob.join_with(&adp, &room, "speaker", id).await.unwrap();
    let second = ann.create_room(&adp, json!({})).await.unwrap();
    assert_ne!(second, room, "ids are not used twice");
    program.kill();
}

/// While the disk takes nothing, nobody learns of what is not on it: no writer, no reader, no
/// stream. When it does again, everything arrives, in order.
#[tokio::test]
async fn nothing_is_told_before_it_is_durable() {
    let directory = tempfile::tempdir().unwrap();
    let config = HostConfig { data: Some(directory.path().to_owned()), ..HostConfig::default() };
    let lab = Lab::start(LabConfig::default()).await.unwrap();
    let host = lab.host("a", config).await.unwrap();
    let (ann, bob) = (Peer::named("ann", lab.clock()), Peer::named("bob", lab.clock()));
    let room = ann.create_room(&host, json!({})).await.unwrap();
    bob.join(&host, &room, "speaker").await.unwrap();
    let mut stream = crate::support::Stream::open(&host, &room, &bob).await;
    let file = directory.path().join("a.sqlite");
    let busy = rusqlite::Connection::open(&file).unwrap();
    busy.execute_batch("BEGIN IMMEDIATE").unwrap();
    let told = std::sync::atomic::AtomicUsize::new(0);
    let note = || told.fetch_add(1, std::sync::atomic::Ordering::AcqRel);
    let count = || told.load(std::sync::atomic::Ordering::Acquire);
    let writing = async {
        let said = ann.say(&host, &room, "not yet on the disk").await.unwrap();
        note();
        said
    };
    let path = format!("/v1/rooms/{room}/events");
    let reading = async {
        host.journal().wait_for(|e| e.nonce().is_some() && e.n > 3, SOON).await.unwrap();
        while host.records(&room).len() < 3 {
            tokio::task::yield_now().await;
        }
        let read = bob.get(&host, &path).await.unwrap();
        note();
        read
    };
    let hearing = async {
        let heard = stream.json().await;
        note();
        heard
    };
    let freeing = async {
        host.journal().wait_for(|e| e.n > 4 && e.is(Route::Events), SOON).await.unwrap();
        // The host had every opportunity to speak.
        for _ in 0..1000 {
            tokio::task::yield_now().await;
        }
        assert_eq!(count(), 0, "nobody knows");
        busy.execute_batch("ROLLBACK").unwrap();
    };
    let (said, read, heard, ()) = tokio::join!(writing, reading, hearing, freeing);
    assert_eq!((said["seq"].as_u64(), count()), (Some(3), 3));
    assert_eq!(heard, said);
    assert_eq!(read["result"][2], said);
    let stored: i64 = busy.query_row("SELECT count(*) FROM records", [], |row| row.get(0)).unwrap();
    assert_eq!(stored, 3);
}

/// A disk that takes nothing for long is said, and what was asked may still happen.
#[tokio::test]
async fn a_stuck_disk_is_an_error_and_heals() {
    let directory = tempfile::tempdir().unwrap();
    let config = HostConfig { data: Some(directory.path().to_owned()), ..HostConfig::default() };
    let lab = Lab::start(LabConfig::default()).await.unwrap();
    let host = lab.host("a", config).await.unwrap();
    let ann = Peer::named("ann", lab.clock());
    let room = ann.create_room(&host, json!({})).await.unwrap();
    let (head, _) = ann.tips(&host, &room).await.unwrap();
    let payload = json!({ "content_type": "text/plain", "content": "late" });
    let said = ann.sign(Some(&room), Some(&head), "message.create", payload, &[]).unwrap();
    let busy = rusqlite::Connection::open(directory.path().join("a.sqlite")).unwrap();
    busy.execute_batch("BEGIN IMMEDIATE").unwrap();
    refused(ann.post(&host, &said).await, "storage_unavailable");
    busy.execute_batch("ROLLBACK").unwrap();
    let healed = async {
        while ann.room(&host, &room).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(SOON, healed).await.unwrap();
    refused(ann.post(&host, &said).await, "nonce_not_greater");
    assert_eq!(ann.room(&host, &room).await.unwrap()["seq"], 2, "it happened, once");
}

#[tokio::test]
async fn records_no_rule_allowed_come_back_as_they_were() {
    let directory = tempfile::tempdir().unwrap();
    let config = || HostConfig { data: Some(directory.path().to_owned()), ..HostConfig::default() };
    let lab = Lab::start(LabConfig::default()).await.unwrap();
    let host = lab.host("a", config()).await.unwrap();
    let (ann, eve) = (Peer::named("ann", lab.clock()), Peer::named("eve", lab.clock()));
    let room = ann.create_room(&host, json!({})).await.unwrap();
    let (_, tip) = ann.tips(&host, &room).await.unwrap();
    let ban = json!({ "member": ann.id(), "ban": true });
    let stranger = eve.sign(Some(&room), Some(&tip), "room.member.remove", ban, &[]).unwrap();
    host.append_unchecked(&room, &stranger).unwrap();
    host.append_unchecked(&room, &json!({ "hash": "x", "event": {}, "signature": 1 })).unwrap();
    let before = host.records(&room);
    drop(host);
    lab.stop().await;
    let lab = Lab::start(LabConfig::default()).await.unwrap();
    let host = lab.host("a", config()).await.unwrap();
    assert_eq!(host.records(&room), before);
    ann.say(&host, &room, "still a member").await.unwrap();
}

#[test]
fn the_program_explains_itself_and_refuses_nonsense() {
    let run =
        |args: &[&str]| Command::new(env!("CARGO_BIN_EXE_mock-hosts")).args(args).output().unwrap();
    let help = run(&["--help"]);
    let text = String::from_utf8(help.stdout).unwrap();
    for word in ["--persona", "--plan", "--data", "lose_response", "/monitor", "Exit codes"] {
        assert!(text.contains(word), "{word}");
    }
    let list = String::from_utf8(run(&["--personas"]).stdout).unwrap();
    assert_eq!(list.lines().count(), 9);
    let bad = run(&["--persona", "saint"]);
    assert_eq!(bad.status.code(), Some(2));
    assert!(String::from_utf8(bad.stderr).unwrap().contains("--personas lists them"));
    assert_eq!(run(&["--plan", "/nonexistent.toml"]).status.code(), Some(2));
    assert_eq!(run(&["--adp", "../up"]).status.code(), Some(2));
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("notes.txt");
    std::fs::write(&other, "mine").unwrap();
    let kept = run(&["--provision", &other.display().to_string()]);
    assert_eq!(kept.status.code(), Some(2));
    assert_eq!(std::fs::read_to_string(&other).unwrap(), "mine", "not written over");
    assert_eq!(run(&["--adp", "a", "--adp", "a"]).status.code(), Some(2));
    assert_eq!(run(&["--port", "65535"]).status.code(), Some(2));
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let busy = run(&["--port", &port]);
    assert_eq!(busy.status.code(), Some(3));
    assert!(String::from_utf8(busy.stderr).unwrap().contains(&format!("127.0.0.1:{port}")));
    let grp = run(&["grp", "--listen", &format!("127.0.0.1:{port}")]);
    assert_eq!(grp.status.code(), Some(3));
    let defects = String::from_utf8(run(&["grp", "--defects"]).stdout).unwrap();
    assert_eq!(defects.lines().count(), mock_hosts::grp::Defect::ALL.len());
    assert_eq!(run(&["grp", "--plan", "/nonexistent.toml"]).status.code(), Some(2));
}

/// A connector's state belongs to an identity: the next start writes the same one.
#[cfg(unix)]
#[test]
fn a_restart_keeps_the_identity_it_handed_out() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("provision.json");
    let start = || {
        let mut child = Command::new(env!("CARGO_BIN_EXE_mock-hosts"))
            .args(["--json", "--no-demo", "--provision"])
            .arg(&file)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let client = ap_protocol::json::parse(line.as_bytes()).unwrap();
        let named = &client["mcp_client"]["mcpServers"]["agent-protocols"]["args"][2];
        assert_eq!(named.as_str(), file.to_str(), "from wherever the client starts it");
        ap_protocol::json::parse(&std::fs::read(&file).unwrap()).unwrap()
    };
    let first = start();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let second = start();
    assert_eq!(first["identity"], second["identity"]);
    assert_ne!(first["hosts"], second["hosts"], "new ports");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
}

#[cfg(unix)]
#[tokio::test]
async fn ctrl_c_ends_it_cleanly_even_with_streams_open() {
    let directory = tempfile::tempdir().unwrap();
    let ann = Peer::named("ann", Clock::default());
    let mut program = Program::start(directory.path());
    let adp = program.url("adp");
    let room = ann.create_room(&adp, json!({})).await.unwrap();
    let stream = crate::support::http()
        .get(format!("{adp}/v1/rooms/{room}/events/live"))
        .bearer_auth(ann.token(&adp))
        .send()
        .await
        .unwrap();
    assert_eq!(stream.status(), 200);
    let pid = program.child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let ended = tokio::task::spawn_blocking(move || program.child.wait().unwrap());
    let ended = tokio::time::timeout(crate::support::SOON, ended).await.expect("it ends").unwrap();
    assert_eq!(ended.code(), Some(0));
}
