//! `ap-connector verify` on archives that a host made, whole and damaged.

use mock_hosts::{Lab, LabConfig, Peer};
use serde_json::{Value, json};

use crate::cli_support::{Place, Run};

struct Archive {
    place: Place,
    lines: Vec<Value>,
    room: String,
}

/// A room with a custom story, archived by an honest host.
async fn archived(messages: usize) -> Archive {
    let lab = Lab::start(LabConfig::default()).await.unwrap();
    let host = lab.adp("a").await.unwrap();
    let creator = Peer::named("creator", lab.clock());
    let room =
        creator.create_room(&host, json!({ "topic": "Archive \u{1b}[31m me" })).await.unwrap();
    for i in 0..messages {
        creator.say(&host, &room, &format!("message {i}")).await.unwrap();
    }
    let url = format!("{}/v1/rooms/{room}/archive.jsonl", host.url());
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let response = client.get(url).bearer_auth(creator.token(host.url())).send().await.unwrap();
    let text = response.error_for_status().unwrap().text().await.unwrap();
    let lines: Vec<Value> =
        text.lines().map(|l| ap_protocol::json::parse(l.as_bytes()).unwrap()).collect();
    lab.stop().await;
    let place = Place::new();
    std::fs::write(place.path("archive.jsonl"), text).unwrap();
    Archive { place, lines, room }
}

impl Archive {
    fn write(&self, name: &str, lines: &[Value]) {
        let text: String = lines.iter().map(|l| format!("{l}\n")).collect();
        std::fs::write(self.place.path(name), text).unwrap();
    }

    fn verify(&self, args: &[&str]) -> Run {
        let mut all = vec!["verify"];
        all.extend_from_slice(args);
        self.place.run(&all)
    }

    fn records(&self) -> Vec<Value> {
        self.lines.iter().filter(|l| l.get("envelope").is_some()).cloned().collect()
    }
}

#[tokio::test]
async fn a_whole_archive_verifies_in_every_form() {
    let archive = archived(30).await;
    let run = archive.verify(&["archive.jsonl"]).ended(0);
    assert!(run.stdout.contains("archive.jsonl: verified"), "{}", run.stdout);
    assert!(run.stdout.contains("compared"), "{}", run.stdout);
    // Untrusted text reaches the terminal harmless.
    assert!(!run.stdout.contains('\u{1b}') && run.stdout.contains("me"), "{}", run.stdout);
    let verdict =
        archive.verify(&["archive.jsonl", "--json", "--room", &archive.room]).ended(0).json();
    assert_eq!(verdict["verified"], true);
    assert_eq!(verdict["manifest"], true);
    assert_eq!(verdict["event_count"], archive.records().len());
    // A folder is what a download leaves behind.
    archive.verify(&["."]).ended(0);
    // One pretty-printed document with the manifest beside it.
    let manifest = archive.lines.iter().find(|l| l["type"] == "room.archive").unwrap();
    let document = json!({ "manifest": manifest, "records": archive.records() });
    std::fs::write(archive.place.path("one.json"), format!("{document:#}")).unwrap();
    archive.verify(&["one.json"]).ended(0);
    std::fs::write(archive.place.path("flat.json"), document.to_string()).unwrap();
    archive.verify(&["flat.json"]).ended(0);
    // Records alone verify too, but the verdict says what is not proven.
    archive.write("bare.jsonl", &archive.records());
    let bare = archive.verify(&["bare.jsonl"]).ended(0);
    assert!(bare.stdout.contains("not proven"), "{}", bare.stdout);
    archive.place.private("manifest.txt", &manifest.to_string());
    let with = archive.verify(&["bare.jsonl", "--manifest", "manifest.txt"]).ended(0);
    assert!(with.stdout.contains("compared"), "{}", with.stdout);
}

#[tokio::test]
async fn every_kind_of_damage_is_named() {
    let archive = archived(8).await;
    let at = |n: usize| {
        archive
            .lines
            .iter()
            .enumerate()
            .filter(|(_, l)| l.get("envelope").is_some())
            .nth(n)
            .unwrap()
            .0
    };
    let check = |name: &str, change: &dyn Fn(&mut Vec<Value>), stage: &str| {
        let mut lines = archive.lines.clone();
        change(&mut lines);
        archive.write(name, &lines);
        let verdict = archive.verify(&[name, "--json"]).ended(1).json();
        assert_eq!(verdict["verified"], false, "{name}");
        assert_eq!(verdict["failure"]["stage"], stage, "{name}: {verdict}");
        let shown = archive.verify(&[name]).ended(1);
        assert!(shown.stdout.contains("NOT VERIFIED"), "{}", shown.stdout);
    };
    check(
        "content.jsonl",
        &|l| l[at(4)]["envelope"]["event"]["payload"]["content"] = json!("forged"),
        "record",
    );
    check("removed.jsonl", &|l| drop(l.remove(at(5))), "record");
    check("swapped.jsonl", &|l| l.swap(at(4), at(5)), "record");
    check("cut.jsonl", &|l| drop(l.remove(at(8))), "manifest");
    check("late.jsonl", &|l| drop(l.remove(at(0))), "record");
    check("junk.jsonl", &|l| l[at(3)] = json!({ "some": "thing" }), "format");
    check("empty.jsonl", &|l| l.clear(), "format");
}

#[tokio::test]
async fn broken_lines_wrong_rooms_and_missing_files() {
    let archive = archived(3).await;
    let text = std::fs::read_to_string(archive.place.path("archive.jsonl")).unwrap();
    std::fs::write(archive.place.path("torn.jsonl"), &text[..text.len() - 20]).unwrap();
    let torn = archive.verify(&["torn.jsonl", "--json"]).ended(1).json();
    assert_eq!(torn["failure"]["code"], "archive_format");
    let doubled = text.replacen("{\"", "{\"room_id\":\"x\",\"room_id\":\"y\",\"", 1);
    std::fs::write(archive.place.path("doubled.jsonl"), doubled).unwrap();
    archive.verify(&["doubled.jsonl"]).ended(1);
    let other = archive.verify(&["archive.jsonl", "--room", "another_room", "--json"]).ended(1);
    assert_eq!(other.json()["verified"], false);
    let missing = archive.verify(&["nowhere.jsonl"]).ended(6);
    assert!(missing.stderr.contains("nowhere.jsonl"), "{}", missing.stderr);
}
