//! Room life: activation and end by the clock, contract changes, roles, bans, types, archives.

use ap_protocol::archive;
use mock_hosts::{Host, HostConfig, Lab, LabConfig, Limits, Peer};
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::support::{Stage, history, refused, verify};

async fn status(host: &Host, room: &str, peer: &Peer) -> String {
    peer.room(host, room).await.unwrap()["status"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_room_starts_and_ends_by_the_clock() {
    let s = Stage::new().await;
    let clock = s.host.clock();
    clock.freeze();
    let now = clock.now_ms();
    let times = json!({ "start_time": now + 60_000, "end_time": now + 660_000 });
    let room = s.ann.create_room(&s.host, times).await.unwrap();
    assert_eq!(status(&s.host, &room, &s.eve).await, "scheduled");
    s.bob.join(&s.host, &room, "speaker").await.unwrap();
    refused(s.ann.send(&s.host, &room, "room.close", json!({}), &[]).await, "room_not_active");
    let later = json!({ "start_time": now + 120_000 });
    s.ann.send(&s.host, &room, "room.update", later, &[]).await.unwrap();
    clock.set(now + 60_000);
    assert_eq!(status(&s.host, &room, &s.eve).await, "scheduled", "the update moved it");
    clock.set(now + 120_000);
    assert_eq!(status(&s.host, &room, &s.eve).await, "active");
    s.bob.say(&s.host, &room, "on time").await.unwrap();
    let again = json!({ "start_time": now + 300_000 });
    refused(s.ann.send(&s.host, &room, "room.update", again, &[]).await, "invalid_event");
    refused(s.ann.send(&s.host, &room, "room.cancel", json!({}), &[]).await, "permission_denied");
    clock.set(now + 660_000);
    assert_eq!(status(&s.host, &room, &s.eve).await, "ended");
    refused(s.bob.say(&s.host, &room, "late").await, "room_ended");
    refused(s.eve.join(&s.host, &room, "speaker").await, "room_ended");
    let filed = s.eve.request_join(&s.host, &room, json!({ "role": "speaker" })).await;
    refused(filed, "room_ended");
    verify(&room, &history(&s.host, &room, &s.eve).await).unwrap();
}

#[tokio::test]
async fn a_scheduled_room_can_be_cancelled_an_active_one_closed() {
    let s = Stage::new().await;
    let now = s.host.clock().now_ms();
    let times = json!({ "start_time": now + 60_000, "end_time": now + 660_000 });
    let room = s.ann.create_room(&s.host, times).await.unwrap();
    s.bob.join(&s.host, &room, "speaker").await.unwrap();
    refused(s.bob.send(&s.host, &room, "room.cancel", json!({}), &[]).await, "permission_denied");
    s.ann.send(&s.host, &room, "room.cancel", json!({ "reason": "rain" }), &[]).await.unwrap();
    assert_eq!(status(&s.host, &room, &s.bob).await, "cancelled");
    assert!(s.bob.leave(&s.host, &room).await.is_err(), "a cancelled room accepts nothing");
    let active = s.shared_room().await;
    s.ann.send(&s.host, &active, "room.close", json!({}), &[]).await.unwrap();
    assert_eq!(status(&s.host, &active, &s.bob).await, "ended");
    let past = json!({ "start_time": now - 20_000, "end_time": now - 10_000 });
    refused(s.ann.create_room(&s.host, past).await, "invalid_event");
}

#[tokio::test]
async fn roles_removals_and_bans() {
    let s = Stage::new().await;
    let room = s.shared_room().await;
    let (host, bob) = (&s.host, s.bob.id());
    let role = |role: &str| json!({ "member": bob, "role": role });
    let update = "room.member.role.update";
    refused(s.bob.send(host, &room, update, role("moderator"), &[]).await, "permission_denied");
    s.ann.send(host, &room, update, role("observer"), &[]).await.unwrap();
    refused(s.bob.say(host, &room, "x").await, "permission_denied");
    s.ann.send(host, &room, update, role("moderator"), &[]).await.unwrap();
    s.bob.say(host, &room, "x").await.unwrap();
    let remove = "room.member.remove";
    let creator = json!({ "member": s.ann.id() });
    refused(s.bob.send(host, &room, remove, creator, &[]).await, "permission_denied");
    let own = json!({ "member": bob });
    refused(s.bob.send(host, &room, remove, own.clone(), &[]).await, "permission_denied");
    s.ann.send(host, &room, remove, own.clone(), &[]).await.unwrap();
    refused(s.bob.say(host, &room, "x").await, "membership_required");
    refused(s.ann.send(host, &room, remove, own, &[]).await, "membership_required");
    s.bob.join(host, &room, "speaker").await.unwrap();
    let ban = json!({ "member": bob, "ban": true });
    s.ann.send(host, &room, remove, ban, &[]).await.unwrap();
    refused(s.bob.join(host, &room, "speaker").await, "member_banned");
    // A banned agent may ask; only a reviewer lets it back in.
    let filed = s.bob.request_join(host, &room, json!({ "role": "speaker" })).await.unwrap();
    assert_eq!(filed["status"], "pending", "no automatic approval");
    s.ann.review(host, &room, &filed["request"], Some("speaker")).await.unwrap();
    let id = filed["request"]["id"].as_str().unwrap();
    s.bob.join_with(host, &room, "speaker", id).await.unwrap();
    verify(&room, &history(host, &room, &s.ann).await).unwrap();
}

#[tokio::test]
async fn packs_are_imported_by_name_and_by_digest() {
    let s = Stage::new().await;
    let host = &s.host;
    let document = json!({ "types": [{
        "type": "shop.order", "kind": "message", "title": "Order",
        "schema": { "type": "object", "required": ["item"] },
    }] })
    .to_string();
    let uri = host.add_pack("shop.json", document.as_bytes());
    let digest = ap_protocol::encoding::encode(Sha256::digest(&document));
    let types = json!([
        { "use": "adp:reactions/1.0" },
        { "pack": uri, "digest": format!("sha256:{digest}") },
    ]);
    let room = s.ann.create_room(host, json!({ "types": types })).await.unwrap();
    let names: Vec<String> = s.ann.room(host, &room).await.unwrap()["types"]
        .as_array()
        .unwrap()
        .iter()
        .map(|t| t["type"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(names, ["reaction.create", "shop.order"]);
    let order = s.ann.send(host, &room, "shop.order", json!({ "item": "tea" }), &[]).await.unwrap();
    let heart = json!({ "event_id": order["envelope"]["hash"], "reaction": "heart" });
    s.ann.send(host, &room, "reaction.create", heart, &[]).await.unwrap();
    let (head, tip) = s.ann.tips(host, &room).await.unwrap();
    assert_eq!((head.seq, tip.seq), (2, 3));
    let served = crate::support::http().get(&uri).send().await.unwrap().text().await.unwrap();
    assert_eq!(served, document, "the document is served as it is");
    let wrong =
        json!({ "types": [{ "pack": uri, "digest": format!("sha256:{}", "A".repeat(43)) }] });
    refused(s.ann.create_room(host, wrong).await, "pack_unavailable");
    refused(
        s.ann.create_room(host, json!({ "types": [{ "use": "adp:none/1.0" }] })).await,
        "pack_unavailable",
    );
    // The archive carries what a verifier needs, in all its forms.
    for path in ["archive", "archive.jsonl"] {
        let url = format!("{}/v1/rooms/{room}/{path}", host.url());
        let text = crate::support::http().get(url).send().await.unwrap().text().await.unwrap();
        let parts = if path == "archive" {
            let value = ap_protocol::json::parse(text.as_bytes()).unwrap();
            archive::Part::of_document(value).unwrap()
        } else {
            text.lines()
                .map(|l| {
                    archive::Part::of(ap_protocol::json::parse(l.as_bytes()).unwrap()).unwrap()
                })
                .collect()
        };
        let records = parts.iter().filter(|p| matches!(p, archive::Part::Record(_))).count();
        let packs: Vec<&[u8]> = parts
            .iter()
            .filter_map(|p| match p {
                archive::Part::Pack { uri: u, bytes } if *u == uri => Some(bytes.as_slice()),
                _ => None,
            })
            .collect();
        assert_eq!((records, packs), (3, vec![document.as_bytes()]), "{path}");
        let manifest = parts.iter().find_map(|p| match p {
            archive::Part::Manifest(m) => Some(m),
            _ => None,
        });
        let digest = archive::events_sha3_256(&host.records(&room));
        assert_eq!(manifest.unwrap()["events_sha3_256"], json!(digest), "{path}");
    }
}

#[tokio::test]
async fn markdown_archives_cannot_be_broken_out_of() {
    let s = Stage::new().await;
    let topic = json!({ "topic": "# a\n<script>" });
    let room = s.ann.create_room(&s.host, topic).await.unwrap();
    s.ann.say(&s.host, &room, "```\n# not a heading\n```").await.unwrap();
    let url = format!("{}/v1/rooms/{room}/archive.md", s.host.url());
    let text = crate::support::http().get(url).send().await.unwrap().text().await.unwrap();
    assert!(text.starts_with("# \\# a \\<script\\>\n"), "{text}");
    assert!(text.contains("````\n```\n# not a heading\n```\n````"), "{text}");
}

#[tokio::test]
async fn two_hosts_may_have_the_same_room_id() {
    let lab = Lab::start(LabConfig::default()).await.unwrap();
    let (a, b) = (lab.adp("a").await.unwrap(), lab.adp("b").await.unwrap());
    assert!(lab.adp("a").await.is_err(), "a label names one host");
    let ann = Peer::named("ann", lab.clock());
    for host in [&a, &b] {
        host.next_room_id("d8ftedhpqhsusbg001tg");
        let room = ann.create_room(host, json!({ "topic": host.label() })).await.unwrap();
        assert_eq!(room, "d8ftedhpqhsusbg001tg");
    }
    let topics = [&a, &b].map(|h| h.room("d8ftedhpqhsusbg001tg").unwrap()["topic"].clone());
    assert_eq!(topics, [json!("a"), json!("b")]);
    // An event for one host's room is refused by the other: its base is another chain.
    ann.say(&a, "d8ftedhpqhsusbg001tg", "here").await.unwrap();
    assert_eq!(b.records("d8ftedhpqhsusbg001tg").len(), 1);
    lab.stop().await;
}

#[tokio::test]
async fn the_recommended_limits_can_be_switched_on() {
    let s =
        Stage::with(HostConfig { limits: Limits::recommended(), ..HostConfig::default() }).await;
    let now = s.host.clock().now_ms();
    let short = json!({ "end_time": now + 1000 });
    refused(s.ann.create_room(&s.host, short).await, "invalid_event");
    let long = json!({ "end_time": now + 8 * 86_400_000 });
    refused(s.ann.create_room(&s.host, long).await, "invalid_event");
    let room = s.room().await;
    for n in 0..5 {
        s.ann.say(&s.host, &room, &n.to_string()).await.unwrap();
    }
    refused(s.ann.say(&s.host, &room, "six").await, "rate_limited");
    s.host.clock().advance(61_000);
    s.ann.say(&s.host, &room, "a minute later").await.unwrap();
}
