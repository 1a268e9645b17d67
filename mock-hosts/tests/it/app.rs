//! The profile host: signed updates, reads, batches, history, limits, one nonce sequence.

use mock_hosts::{Action, Fault, Host, HostConfig, Lab, LabConfig, Peer, Route};
use serde_json::{Value, json};

use crate::support::refused;

async fn stage() -> (Lab, Host, Peer, Peer) {
    let lab = Lab::start(LabConfig::default()).await.unwrap();
    let host = lab.app("p").await.unwrap();
    let (ann, bob) = (Peer::named("ann", lab.clock()), Peer::named("bob", lab.clock()));
    (lab, host, ann, bob)
}

#[tokio::test]
async fn the_latest_update_is_the_document() {
    let (_lab, host, ann, bob) = stage().await;
    let found = ann.get(&host, "/.well-known/agent-profile").await.unwrap();
    assert_eq!(found["protocol"], "agent-profile/1.0");
    assert_eq!(found["endpoints"]["profiles"], format!("{}/v1/profiles", host.url()));
    ann.update_profile(&host, json!({ "name": "Ann", "description": "first" })).await.unwrap();
    let envelope = ann.sign_profile(json!({ "name": "Ann 2", "colour": "green" })).unwrap();
    let document = ann.post(&host, &envelope).await.unwrap();
    assert_eq!(document["name"], "Ann 2");
    assert!(document.get("description").is_none(), "never a patch");
    assert!(document.get("colour").is_none(), "unknown members are not materialized");
    assert_eq!(document["event_id"], envelope["hash"]);
    assert_eq!(document["updated_at"], envelope["event"]["created_at"]);
    let path = format!("/v1/profiles/{}", ann.id());
    assert_eq!(bob.get(&host, &path).await.unwrap(), document);
    let newest = bob.get(&host, &format!("{path}/events")).await.unwrap();
    assert_eq!(newest["result"], json!([envelope]));
    let cursor = newest["next_cursor"].as_str().unwrap();
    let older = bob.get(&host, &format!("{path}/events?limit=9&cursor={cursor}")).await.unwrap();
    assert_eq!(older["result"].as_array().unwrap().len(), 1);
    assert_eq!(older["result"][0]["event"]["payload"]["description"], "first");
    bob.update_profile(&host, json!({ "name": "Bob" })).await.unwrap();
    let eve = Peer::named("eve", host.clock()).id();
    let ids = json!({ "ids": [bob.id(), eve, ann.id()] });
    let batch = ann
        .request(http::Method::POST, &host, "/v1/profiles/batch", Some(&ids), false)
        .await
        .unwrap();
    let names: Vec<&Value> =
        batch["result"].as_array().unwrap().iter().map(|d| &d["name"]).collect();
    assert_eq!(names, ["Bob", "Ann 2"], "in the order asked for, unknown ones left out");
    refused(bob.get(&host, &format!("/v1/profiles/{eve}")).await, "profile_not_found");
}

#[tokio::test]
async fn what_a_profile_host_refuses() {
    let (_lab, host, ann, bob) = stage().await;
    let envelope = ann.sign_profile(json!({ "name": "Ann" })).unwrap();
    ann.post(&host, &envelope).await.unwrap();
    refused(ann.post(&host, &envelope).await, "nonce_not_greater");
    let mut event = ann.sign_profile(json!({ "name": "Ann" })).unwrap()["event"].clone();
    event["payload"]["id"] = json!(bob.id());
    refused(ann.post(&host, &ann.sign_raw(event)).await, "invalid_event");
    for bad in [
        json!({ "name": "x".repeat(129) }),
        json!({ "name": " " }),
        json!({ "name": "x", "avatar_url": "http://plain.example/a.png" }),
        json!({ "name": "x", "capabilities": vec!["c"; 65] }),
        json!({ "name": "x", "links": [{ "name": "n", "url": "u", "rel": "friend" }] }),
        json!({ "name": "x", "service_endpoints": [
            { "type": "mcp", "url": "u" }, { "type": "mcp", "url": "u" } ] }),
        json!({ "name": "x", "extra": { "big": "x".repeat(33_000) } }),
    ] {
        let mut event = ann.sign_profile(json!({ "name": "Ann" })).unwrap()["event"].clone();
        event["payload"] = bad;
        event["payload"]["id"] = json!(ann.id());
        refused(ann.post(&host, &ann.sign_raw(event)).await, "invalid_event");
    }
    let ids = json!({ "ids": vec![ann.id().to_string(); 1001] });
    let batch = ann.request(http::Method::POST, &host, "/v1/profiles/batch", Some(&ids), false);
    refused(batch.await, "payload_too_large");
    refused(ann.get(&host, "/v1/profiles/nobody").await, "invalid_request");
    refused(ann.get(&host, "/v1/rooms/public").await, "not_found");
}

#[tokio::test]
async fn one_nonce_sequence_covers_rooms_and_profiles_of_a_host() {
    let lab = Lab::start(LabConfig::default()).await.unwrap();
    let config = HostConfig { profiles: true, ..HostConfig::default() };
    let host = lab.host("both", config).await.unwrap();
    let ann = Peer::named("ann", lab.clock());
    let early = ann.sign_profile(json!({ "name": "Ann" })).unwrap();
    ann.create_room(&host, json!({})).await.unwrap();
    refused(ann.post(&host, &early).await, "nonce_not_greater");
    ann.update_profile(&host, json!({ "name": "Ann" })).await.unwrap();
}

#[tokio::test]
async fn faults_work_on_profiles_too() {
    let (_lab, host, ann, _) = stage().await;
    ann.update_profile(&host, json!({ "name": "Ann" })).await.unwrap();
    let set = Action::Set { pointer: "/name".into(), value: json!("Mallory") };
    host.add_fault(Fault::new(set).on(Route::Profile));
    let path = format!("/v1/profiles/{}", ann.id());
    assert_eq!(ann.get(&host, &path).await.unwrap()["name"], "Mallory");
    let events = ann.get(&host, &format!("{path}/events")).await.unwrap();
    assert_eq!(events["result"][0]["event"]["payload"]["name"], "Ann");
}
