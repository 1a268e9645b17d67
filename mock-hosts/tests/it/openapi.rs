//! The OpenAPI documents against real answers: every operation is answered once as described,
//! every refusal met on the way is described too.

use std::collections::BTreeSet;

use http::Method;
use jsonschema::Draft;
use mock_hosts::{Host, HostConfig, Lab, LabConfig, Peer};
use serde_json::{Value, json};

use crate::support::http;

struct Probe<'a> {
    host: &'a Host,
    document: Value,
    answered: BTreeSet<String>,
}

impl<'a> Probe<'a> {
    async fn of(host: &'a Host) -> Self {
        let url = format!("{}/openapi.json", host.url());
        let text = http().get(url).send().await.unwrap().text().await.unwrap();
        let document = ap_protocol::json::parse(text.as_bytes()).unwrap();
        assert_eq!(document["servers"][0]["url"], host.url());
        Probe { host, document, answered: BTreeSet::new() }
    }

    /// The operation a path means: literal segments win over parameters.
    fn operation(&self, method: &str, path: &str) -> Value {
        let path = path.split('?').next().unwrap();
        let parts: Vec<&str> = path.split('/').collect();
        let fits = |template: &str| {
            let t: Vec<&str> = template.split('/').collect();
            t.len() == parts.len()
                && t.iter().zip(&parts).all(|(t, p)| t.starts_with('{') || t == p)
        };
        let paths = self.document["paths"].as_object().unwrap();
        let found = paths
            .iter()
            .filter(|(template, _)| fits(template))
            .min_by_key(|(template, _)| template.matches('{').count());
        let (_, item) = found.unwrap_or_else(|| panic!("{path} is not described"));
        let operation = item[method.to_lowercase()].clone();
        assert!(operation.is_object(), "{method} {path} is not described");
        operation
    }

    async fn call(
        &mut self,
        peer: &Peer,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Value {
        let operation = self.operation(method.as_str(), path);
        let id = operation["operationId"].as_str().unwrap().to_owned();
        let mut request = http().request(method, format!("{}{path}", self.host.url()));
        if operation["security"].as_array().is_some_and(|s| !s.is_empty()) {
            request = request.bearer_auth(peer.token(self.host.url()));
        }
        if let Some(body) = body {
            request = request.body(body.to_string());
        }
        let response = request.send().await.unwrap();
        let status = response.status().as_u16().to_string();
        let described = &operation["responses"][&status];
        assert!(described.is_object(), "{id} answered {status}, which is not described");
        for (name, _) in described["headers"].as_object().into_iter().flatten() {
            let optional = name == "Retry-After" || status == "409";
            assert!(optional || response.headers().contains_key(name), "{id} {status}: {name}");
        }
        let kind = response.headers()["content-type"].to_str().unwrap().to_owned();
        let schema = &described["content"][&kind]["schema"];
        assert!(schema.is_object(), "{id} {status}: {kind} is not described");
        if status == "200" {
            self.answered.insert(id.clone());
        }
        if kind != "application/json" {
            return Value::Null;
        }
        let value = ap_protocol::json::parse(&response.bytes().await.unwrap()).unwrap();
        let mut whole = schema.clone();
        whole["components"] = self.document["components"].clone();
        let validator = jsonschema::options().with_draft(Draft::Draft202012).build(&whole).unwrap();
        let errors: Vec<String> =
            validator.iter_errors(&value).map(|e| format!("{} {e}", e.instance_path())).collect();
        assert!(errors.is_empty(), "{id} {status}: {errors:?}\n{value:#}");
        value
    }

    #[track_caller]
    fn everything_was_answered(&self) {
        let all: BTreeSet<String> = self.document["paths"]
            .as_object()
            .unwrap()
            .values()
            .flat_map(|item| item.as_object().unwrap().values())
            .filter_map(|operation| operation["operationId"].as_str().map(str::to_owned))
            .collect();
        let missing: Vec<&String> = all.difference(&self.answered).collect();
        assert!(missing.is_empty(), "described, never answered: {missing:?}");
    }
}

async fn discourse(probe: &mut Probe<'_>, ann: &Peer, bob: &Peer) {
    let host = probe.host;
    host.add_pack("one.json", b"{\"types\":[]}");
    for path in ["/.well-known/agent-discourse", "/openapi.json", "/packs/one.json", "/packs/no"] {
        probe.call(ann, Method::GET, path, None).await;
    }
    let changes = json!({
        "visibility": "restricted", "agenda": "a", "guidance": "g", "tags": ["t"],
        "language": "en", "policy": { "max_speakers": 5 }, "extra": { "x": 1.5 },
        "types": [{ "use": "adp:reactions/1.0" }],
    });
    let create = ann.sign(None, None, "room.create", ann.room_payload(changes), &[]).unwrap();
    let created = probe.call(ann, Method::POST, "/v1/rooms", Some(&create)).await;
    probe.call(ann, Method::POST, "/v1/rooms", Some(&create)).await;
    let room = created["id"].as_str().unwrap().to_owned();
    let at = |rest: &str| format!("/v1/rooms/{room}{rest}");
    let input = json!({ "role": "speaker", "perspective": "p", "reason": "r" });
    let filed = probe.call(bob, Method::POST, &at("/join-requests"), Some(&input)).await;
    probe.call(bob, Method::POST, &at("/join-requests"), Some(&json!({}))).await;
    probe.call(bob, Method::GET, &at("/events"), None).await;
    probe.call(bob, Method::GET, &at("/join-requests"), None).await;
    ann.review(host, &room, &filed["request"], Some("speaker")).await.unwrap();
    probe.call(ann, Method::GET, &at("/join-requests"), None).await;
    let id = filed["request"]["id"].as_str().unwrap();
    probe.call(bob, Method::GET, &at(&format!("/join-requests/{id}")), None).await;
    probe.call(bob, Method::GET, &at("/join-requests/none"), None).await;
    bob.join_with(host, &room, "speaker", id).await.unwrap();
    let (head, _) = bob.tips(host, &room).await.unwrap();
    let payload = json!({ "content_type": "text/plain", "content": "x" });
    let who = ann.id();
    let say =
        bob.sign(Some(&room), Some(&head), "message.create", payload, &[who.as_str()]).unwrap();
    probe.call(bob, Method::POST, &at(""), Some(&say)).await;
    probe.call(bob, Method::POST, &at(""), Some(&say)).await;
    probe.call(bob, Method::POST, &at(""), Some(&json!({}))).await;
    probe.call(bob, Method::POST, "/v1/rooms/none", Some(&say)).await;
    let status = json!({ "state": "working", "summary": "s", "seen_seq": 1, "claim_id": "c" });
    probe.call(bob, Method::PUT, &at("/agent-status"), Some(&status)).await;
    probe.call(bob, Method::GET, &at("/agent-status"), None).await;
    probe.call(bob, Method::GET, &at(&format!("/agent-status/{}", bob.id())), None).await;
    probe.call(bob, Method::GET, &at(&format!("/agent-status/{}", ann.id())), None).await;
    for path in ["", "/events?limit=1", "/archive", "/archive.jsonl", "/archive.md", "/events/live"]
    {
        probe.call(bob, Method::GET, &at(path), None).await;
    }
    ann.create_room(host, json!({})).await.unwrap();
    for path in ["/v1/rooms/public?limit=1", "/v1/rooms/public?status=x", "/v1/me/rooms"] {
        probe.call(bob, Method::GET, path, None).await;
    }
}

async fn profiles(probe: &mut Probe<'_>, ann: &Peer) {
    let envelope = ann.sign_profile(json!({ "name": "Ann", "capabilities": ["x"] })).unwrap();
    probe.call(ann, Method::GET, "/.well-known/agent-profile", None).await;
    probe.call(ann, Method::GET, "/openapi.json", None).await;
    probe.call(ann, Method::POST, "/v1/profiles", Some(&envelope)).await;
    probe.call(ann, Method::POST, "/v1/profiles", Some(&envelope)).await;
    probe.call(ann, Method::POST, "/v1/profiles", Some(&json!([]))).await;
    let ids = json!({ "ids": [ann.id()] });
    probe.call(ann, Method::POST, "/v1/profiles/batch", Some(&ids)).await;
    let path = format!("/v1/profiles/{}", ann.id());
    probe.call(ann, Method::GET, &path, None).await;
    probe.call(ann, Method::GET, &format!("{path}/events"), None).await;
    probe.call(ann, Method::GET, "/v1/profiles/x", None).await;
}

#[tokio::test]
async fn answers_are_as_described() {
    let lab = Lab::start(LabConfig::default()).await.unwrap();
    let (ann, bob) = (Peer::named("ann", lab.clock()), Peer::named("bob", lab.clock()));
    let adp = lab.adp("a").await.unwrap();
    let mut probe = Probe::of(&adp).await;
    discourse(&mut probe, &ann, &bob).await;
    probe.everything_was_answered();
    let app = lab.app("p").await.unwrap();
    let mut probe = Probe::of(&app).await;
    profiles(&mut probe, &ann).await;
    probe.everything_was_answered();
    // A host of both protocols describes both.
    let config = HostConfig { profiles: true, ..HostConfig::default() };
    let both = lab.host("both", config).await.unwrap();
    let mut probe = Probe::of(&both).await;
    profiles(&mut probe, &ann).await;
    discourse(&mut probe, &ann, &bob).await;
    probe.everything_was_answered();
    // And lists as bare arrays are described as well.
    let bare = HostConfig { bare_lists: true, ..HostConfig::default() };
    let bare = lab.host("bare", bare).await.unwrap();
    discourse(&mut Probe::of(&bare).await, &ann, &bob).await;
}
