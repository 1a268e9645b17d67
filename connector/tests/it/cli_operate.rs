//! `serve --config`, `doctor`, `room`: what an operator does on a day when things are well,
//! and on one when they are not.

use ap_protocol::SecretKey;
use mock_hosts::{Host, Lab, LabConfig, Peer};
use serde_json::{Value, json};

use crate::cli_support::{Place, Run};
use crate::mcp::Connector;

const PASS: &str = "the operator's passphrase";

struct Desk {
    place: Place,
    lab: Lab,
    host: Host,
    id: String,
}

impl Desk {
    async fn new() -> Self {
        let lab = Lab::start(LabConfig::default()).await.unwrap();
        let host = lab.adp("a").await.unwrap();
        let place = Place::new();
        place.private("pass", PASS);
        let create = ["key", "create", "--key-file", "key", "--passphrase-file", "pass"];
        let id = place.run(&create).ended(0).stdout.trim().to_owned();
        let init = [
            "init",
            "--config",
            "c.toml",
            "--key-file",
            "key",
            "--passphrase-file",
            "pass",
            "--host",
            host.url(),
        ];
        place.run(&init).ended(0);
        Desk { place, lab, host, id }
    }

    fn doctor(&self) -> Run {
        tokio::task::block_in_place(|| self.place.run(&["doctor", "--config", "c.toml", "--json"]))
    }

    fn check(run: &Value, name: &str) -> Value {
        let checks = run["checks"].as_array().unwrap();
        checks.iter().find(|c| c["name"] == name).unwrap_or_else(|| panic!("{name}: {run}")).clone()
    }

    fn serve(&self) -> Connector {
        let command = self.place.command(&["serve", "--config", "c.toml"]);
        tokio::task::block_in_place(|| Connector::start(command))
    }

    fn edit(&self, change: impl FnOnce(String) -> String) {
        let path = self.place.path("c.toml");
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, change(text)).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_sound_setup_is_called_sound_and_serves_as_the_same_identity() {
    let desk = Desk::new().await;
    let report = desk.doctor().ended(0).json();
    assert_eq!(report["ok"], true, "{report}");
    for name in ["configuration", "key", "state directory", "database", "rooms", "host"] {
        assert_eq!(Desk::check(&report, name)["status"], "ok", "{report}");
    }
    for _ in 0..2 {
        let mut connector = desk.serve();
        tokio::task::block_in_place(|| {
            let me = connector.ok("identity_current", json!({}));
            assert_eq!(me["agent_id"], desk.id.as_str());
            assert_eq!(connector.close(), Some(0));
        });
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_is_wrong_is_named_with_what_to_do() {
    let desk = Desk::new().await;
    // The host is gone.
    let url = desk.host.url().to_owned();
    desk.edit(|t| t.replace(&url, "http://127.0.0.1:9"));
    let report = desk.doctor().ended(1).json();
    let host = Desk::check(&report, "host");
    assert_eq!((&host["status"], host["then"].is_string()), (&json!("fail"), true), "{report}");
    // The key file is open to others.
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = |m| std::fs::Permissions::from_mode(m);
        std::fs::set_permissions(desk.place.path("key"), mode(0o644)).unwrap();
        let report = desk.doctor().ended(1).json();
        assert!(Desk::check(&report, "key")["detail"].as_str().unwrap().contains("chmod 600"));
        std::fs::set_permissions(desk.place.path("key"), mode(0o600)).unwrap();
        std::fs::set_permissions(desk.place.path("state"), mode(0o755)).unwrap();
        let report = desk.doctor().ended(1).json();
        assert_eq!(Desk::check(&report, "state directory")["status"], "warn", "{report}");
        std::fs::set_permissions(desk.place.path("state"), mode(0o700)).unwrap();
    }
    // The passphrase is another.
    desk.place.private("pass", "something else entirely");
    let report = desk.doctor().ended(1).json();
    assert_eq!(Desk::check(&report, "key")["status"], "fail");
    let serve = tokio::task::block_in_place(|| desk.place.run(&["serve", "--config", "c.toml"]));
    let serve = serve.ended(3);
    assert!(serve.stdout.is_empty() && serve.stderr.contains("[key_wrong_passphrase]"));
    // The configuration has a member that nobody knows.
    desk.edit(|t| format!("colour = \"blue\"\n{t}"));
    let serve = tokio::task::block_in_place(|| desk.place.run(&["serve", "--config", "c.toml"]));
    let serve = serve.ended(2);
    assert!(serve.stderr.contains("line 1") && serve.stderr.contains("colour"), "{}", serve.stderr);
    assert!(serve.stdout.is_empty());
    let report = desk.doctor().ended(1).json();
    assert_eq!(Desk::check(&report, "configuration")["status"], "fail");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_stopped_room_is_listed_shown_and_resolved() {
    let desk = Desk::new().await;
    let creator = Peer::named("creator", desk.lab.clock());
    let room = creator.create_room(&desk.host, json!({})).await.unwrap();
    let none = ["room", "list", "--config", "c.toml"];
    let nothing = tokio::task::block_in_place(|| desk.place.run(&none)).ended(2);
    assert!(nothing.stderr.contains("no state yet"), "{}", nothing.stderr);
    let mut connector = desk.serve();
    tokio::task::block_in_place(|| {
        connector.ok(
            "room_open",
            json!({ "host": desk.host.url(), "room_id": room, "subscribe": false }),
        );
    });
    // A member's message by somebody who is none: the host breaks the room's rules.
    let stranger = Peer::new(SecretKey::from_seed(&[8; 32]), desk.lab.clock());
    let (head, _) = creator.tips(&desk.host, &room).await.unwrap();
    let payload = json!({ "content_type": "text/plain", "content": "let me in" });
    let envelope = stranger.sign(Some(&room), Some(&head), "message.create", payload, &[]).unwrap();
    desk.host.append_unchecked(&room, &envelope).unwrap();
    tokio::task::block_in_place(|| {
        let e = connector
            .call("room_open", json!({ "host": desk.host.url(), "room_id": room, "refresh": true }))
            .unwrap_err();
        assert_eq!(e["code"], "host_violation", "{e}");
        connector.close();
        let list =
            desk.place.run(&["room", "list", "--config", "c.toml", "--json"]).ended(1).json();
        assert_eq!(list["rooms"][0]["condition"]["code"], "host_violation", "{list}");
        let report = desk.place.run(&["doctor", "--config", "c.toml", "--json"]).ended(0).json();
        let stopped = Desk::check(&report, "room");
        assert!(stopped["then"].as_str().unwrap().contains("room evidence"), "{stopped}");
        let about = ["--config", "c.toml", desk.host.url(), room.as_str()];
        let evidence = [&["room", "evidence"], &about[..]].concat();
        let shown = desk.place.run(&evidence).ended(0).json();
        assert_eq!(shown["offered"]["envelope"]["hash"], envelope["hash"], "{shown}");
        let keep = [&["room", "resolve", "--action", "keep"], &about[..]].concat();
        desk.place.run(&keep).ended(0);
        desk.place.run(&["room", "list", "--config", "c.toml"]).ended(0);
        // The host still says the same, so the room stops again.
        let mut connector = desk.serve();
        let again = json!({ "host": desk.host.url(), "room_id": room, "refresh": true });
        assert_eq!(connector.call("room_open", again).unwrap_err()["code"], "host_violation");
        connector.close();
        let forget = [&["room", "resolve", "--action", "forget"], &about[..]].concat();
        desk.place.run(&forget).ended(0);
        let list =
            desk.place.run(&["room", "list", "--config", "c.toml", "--json"]).ended(0).json();
        assert_eq!(list["rooms"], json!([]));
        let unknown = [&["room", "resolve", "--action", "keep"], &about[..]].concat();
        let unknown = desk.place.run(&unknown).ended(4);
        assert!(unknown.stderr.contains("[room_not_known]"), "{}", unknown.stderr);
    });
}
