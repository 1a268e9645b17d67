//! The committed OpenAPI description against real answers: every operation is called, and
//! every answer is valid against the schema the description gives it.

use std::collections::BTreeSet;

use mock_hosts::grp::openapi;
use reqwest::Method;
use serde_json::{Value, json};

use crate::grp_support::{Grp, text};

struct Described {
    document: Value,
    seen: BTreeSet<String>,
}

impl Described {
    fn check(&mut self, method: &str, path: &str, status: u16, answer: &Value) {
        let operation = &self.document["paths"][path][method];
        assert!(operation.is_object(), "{method} {path} is not described");
        let response = operation["responses"]
            .get(status.to_string())
            .unwrap_or(&operation["responses"]["default"]);
        let mut schema = response["content"]["application/json"]["schema"].clone();
        assert!(!schema.is_null(), "{method} {path} has no schema for {status}");
        schema["components"] = self.document["components"].clone();
        let validator = jsonschema::draft202012::new(&schema).unwrap();
        let errors: Vec<String> = validator
            .iter_errors(answer)
            .map(|e| format!("{} at {}", e, e.instance_path()))
            .collect();
        assert!(errors.is_empty(), "{method} {path} {status}: {errors:#?}\n{answer:#}");
        if status == 200 {
            self.seen.insert(operation["operationId"].as_str().unwrap().to_owned());
        }
    }
}

#[tokio::test]
async fn every_answer_is_as_described() {
    let grp = Grp::start().await;
    let (_, document) = grp.get("/api/openapi.json", "").await;
    assert_eq!(document["openapi"], "3.1.0");
    assert_eq!(document["servers"][0]["url"], grp.host.url());
    let committed = ap_protocol::json::parse(openapi::TEXT.as_bytes()).unwrap();
    assert_eq!(document["paths"], committed["paths"]);
    let mut described = Described { document, seen: BTreeSet::new() };
    let create = json!({
        "about": "Described", "config": {
            "type": "persistent", "mechanism": "simple_majority", "early_close": true, "settle_window": 30,
        },
    });
    let (status, made) = grp.post("/api/rooms", "", &[], create).await;
    described.check("post", "/api/rooms", status.as_u16(), &made);
    let (slug, owner) = (text(&made["slug"]), text(&made["creator_token"]));
    let room = "/api/rooms/{slug}";
    let mut bob = String::new();
    let mut invite = String::new();
    let mut hook = String::new();
    let steps = [
        ("post", "/join", "", json!({ "display_name": "bob" })),
        ("post", "/invites", "owner", json!({ "label": "Carol", "role": "observer" })),
        ("post", "/webhooks", "owner", json!({ "url": "https://hooks.example.com/x" })),
        ("get", "/webhooks", "owner", Value::Null),
        ("delete", "/webhooks/{id}", "owner", Value::Null),
        ("get", "/invites", "owner", Value::Null),
        ("delete", "/invites/{code}", "owner", Value::Null),
        ("patch", "/settings", "owner", json!({ "settings": { "read_receipts": true } })),
        (
            "post",
            "/ask",
            "owner",
            json!({ "question": "Which?", "options": ["a"], "proposal_window": 60 }),
        ),
        ("post", "/options", "bob", json!({ "option": "b" })),
        ("post", "/choose", "bob", json!({ "choice": "b" })),
        ("post", "/start-choosing", "owner", Value::Null),
        ("get", "/next-action?wait=0", "bob", Value::Null),
        ("get", "/next-action?wait=0&for=activity&since_seq=0", "bob", Value::Null),
        ("post", "/choose", "bob", json!({ "choice": "b", "rationale": "why not" })),
        ("get", "/next-action?wait=0", "bob", Value::Null),
        ("post", "/discuss", "bob", json!({ "body": "hello", "stance": "agree" })),
        ("get", "", "bob", Value::Null),
        ("get", "?include=full", "bob", Value::Null),
        ("get", "?since=2", "bob", Value::Null),
        ("post", "/abstain", "owner", json!({ "reason": "I host" })),
        ("get", "", "bob", Value::Null),
        ("get", "/decisions", "bob", Value::Null),
        ("get", "/events", "bob", Value::Null),
        ("patch", "/members/{participant}", "owner", json!({ "role": "observer" })),
        ("get", "/outcome", "bob", Value::Null),
        ("get", "?include=full", "owner", Value::Null),
    ];
    for (method, tail, who, body) in steps {
        let (bare, query) =
            tail.split_once('?').map_or((tail, String::new()), |(p, q)| (p, format!("?{q}")));
        let real =
            bare.replace("{code}", &invite).replace("{id}", &hook).replace("{participant}", "bob");
        let token = if who == "bob" { &bob } else { &owner };
        let mut request = grp.request(
            method.to_uppercase().parse().unwrap(),
            &format!("/api/rooms/{slug}{real}{query}"),
        );
        if !who.is_empty() {
            request = request.bearer_auth(token);
        }
        if !body.is_null() {
            request = request.json(&body);
        }
        let answer = request.send().await.unwrap();
        let status = answer.status().as_u16();
        let answer: Value = answer.json().await.unwrap();
        described.check(method, &format!("{room}{bare}"), status, &answer);
        let set = |to: &mut String, v: &Value| {
            if let Some(s) = v.as_str() {
                *to = s.to_owned();
            }
        };
        set(&mut bob, &answer["participant_token"]);
        set(&mut invite, &answer["invite"]["code"]);
        set(&mut hook, &answer["webhook_id"]);
    }
    grp.host.clock().advance(3_700_000);
    let (status, closed) = grp
        .post(&format!("/api/rooms/{slug}/close"), &owner, &[], json!({ "statement": "done" }))
        .await;
    described.check("post", "/api/rooms/{slug}/close", status.as_u16(), &closed);
    let (status, outcome) = grp.get(&format!("/api/rooms/{slug}/outcome"), &owner).await;
    described.check("get", "/api/rooms/{slug}/outcome", status.as_u16(), &outcome);
    assert!(outcome["conclusion"].is_object());
    let gone = grp
        .request(Method::DELETE, &format!("/api/rooms/{slug}"))
        .bearer_auth(&owner)
        .header("x-confirm-delete", &slug)
        .send()
        .await
        .unwrap();
    let status = gone.status().as_u16();
    described.check("delete", "/api/rooms/{slug}", status, &gone.json().await.unwrap());
    for path in ["/.well-known/grp.json", "/healthz", "/readyz"] {
        let (status, answer) = grp.get(path, "").await;
        described.check("get", path, status.as_u16(), &answer);
    }
    // Nothing described was left uncalled, save the two answers that are no JSON.
    let all: BTreeSet<String> = described.document["paths"]
        .as_object()
        .unwrap()
        .values()
        .flat_map(|p| p.as_object().unwrap().values())
        .map(|o| o["operationId"].as_str().unwrap().to_owned())
        .collect();
    let left: Vec<&String> = all.difference(&described.seen).collect();
    assert_eq!(left, ["room_page", "stream_events"]);
}
