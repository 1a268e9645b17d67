//! Webhooks: signed, retried, in the caller's hands only, and never inside the house.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::State;
use hmac::{Hmac, KeyInit, Mac};
use http::{HeaderMap, StatusCode};
use mock_hosts::grp::GrpConfig;
use mock_hosts::grp::webhooks::DeliveryPolicy;
use serde_json::{Value, json};
use sha2::Sha256;

use crate::grp_support::{Grp, text};

#[derive(Clone, Default)]
struct Sink {
    got: Arc<Mutex<Vec<(String, String)>>>,
    refusals: Arc<Mutex<u32>>,
    rang: Arc<tokio::sync::Notify>,
}

async fn take(State(sink): State<Sink>, headers: HeaderMap, body: String) -> StatusCode {
    let mut refusals = sink.refusals.lock().unwrap();
    if *refusals > 0 {
        *refusals -= 1;
        return StatusCode::SERVICE_UNAVAILABLE;
    }
    let signature = headers["webhook-signature"].to_str().unwrap().to_owned();
    sink.got.lock().unwrap().push((signature, body));
    sink.rang.notify_one();
    StatusCode::OK
}

#[tokio::test]
async fn events_are_pushed_signed_and_again_until_taken() {
    let sink = Sink::default();
    *sink.refusals.lock().unwrap() = 2;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let app =
        axum::Router::new().route("/hook", axum::routing::post(take)).with_state(sink.clone());
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });

    let config = GrpConfig {
        allow_private_targets: true,
        delivery: DeliveryPolicy { backoff: Duration::from_millis(5), ..DeliveryPolicy::default() },
        ..GrpConfig::default()
    };
    let grp = Grp::with(config).await;
    let (slug, owner) = grp.room(json!({})).await;
    let path = format!("/api/rooms/{slug}/webhooks");
    let (status, hook) = grp
        .post(&path, &owner, &[], json!({ "url": url, "event_types": ["discussion.posted"] }))
        .await;
    assert_eq!(status, 200, "{hook}");
    let secret = text(&hook["signing_secret"]);
    let said = format!("/api/rooms/{slug}/discuss");
    grp.post(&said, &owner, &[], json!({ "body": "hello" })).await;
    tokio::time::timeout(Duration::from_secs(10), sink.rang.notified()).await.unwrap();
    let (signature, body) = sink.got.lock().unwrap()[0].clone();
    let (t, v1) = signature.strip_prefix("t=").unwrap().split_once(",v1=").unwrap();
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    mac.update(format!("{t}.{body}").as_bytes());
    let hex: String = mac.finalize().into_bytes().iter().map(|b| format!("{b:02x}")).collect();
    assert_eq!(hex, v1);
    let delivered: Value = ap_protocol::json::parse(body.as_bytes()).unwrap();
    assert_eq!(delivered["event"]["event_type"], "discussion.posted");
    assert_eq!(*sink.refusals.lock().unwrap(), 0, "it was tried again");
    // The secret is shown once; a removed hook is told nothing more.
    let (_, list) = grp.get(&path, &owner).await;
    assert!(!list.to_string().contains(&secret));
    let id = text(&hook["webhook_id"]);
    let gone = grp
        .request(reqwest::Method::DELETE, &format!("{path}/{id}"))
        .bearer_auth(&owner)
        .send()
        .await
        .unwrap();
    assert_eq!(gone.status(), 200);
    grp.post(&said, &owner, &[], json!({ "body": "unheard" })).await;
    let (_, events) = grp.get(&format!("/api/rooms/{slug}/events?since_seq=0"), &owner).await;
    assert_eq!(events["events"].as_array().unwrap().len(), 4, "{events}");
    assert_eq!(sink.got.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_hook_into_the_house_is_refused() {
    let grp = Grp::start().await;
    let (slug, owner) = grp.room(json!({})).await;
    let bob = grp.join(&slug, "bob").await;
    let path = format!("/api/rooms/{slug}/webhooks");
    for url in
        ["http://example.com/", "https://127.0.0.1/", "https://169.254.169.254/", "https://[::1]/"]
    {
        let (status, e) = grp.post(&path, &owner, &[], json!({ "url": url })).await;
        assert_eq!((status.as_u16(), &e["error"]["code"]), (400, &json!("input.invalid")), "{url}");
        assert!(!e.to_string().contains(url), "the answer does not repeat the target");
    }
    let (status, _) = grp.post(&path, &bob, &[], json!({ "url": "https://example.com/" })).await;
    assert_eq!(status, 403);
}
