//! The GRP host in a lab: one clock, its journal, its state, plans and buttons for its defects.

use std::sync::Arc;
use std::time::Duration;

use mock_hosts::grp::{Defect, GrpConfig};
use mock_hosts::{Action, Clock, Control, Fault, Lab, LabConfig, Persona, Plan, Route};
use reqwest::Method;
use serde_json::{Value, json};

use crate::grp_support::{Grp, text};
use crate::support::SOON;

struct Desk {
    grp: Grp,
    lab: Arc<Lab>,
    control: Control,
}

impl Desk {
    async fn new() -> Self {
        let (grp, lab) = Grp::in_lab(LabConfig::default()).await;
        let lab = Arc::new(lab);
        let control = Control::start(Arc::clone(&lab), "127.0.0.1:0".parse().unwrap()).await;
        Desk { grp, lab, control: control.unwrap() }
    }

    async fn send(&self, method: Method, path: &str, content_type: &str, body: String) -> String {
        let request = crate::support::http()
            .request(method, format!("{}{path}", self.control.url()))
            .bearer_auth(self.control.token())
            .header("content-type", content_type)
            .body(body);
        let answer = request.send().await.unwrap();
        let status = answer.status();
        let body = answer.text().await.unwrap();
        assert!(status.is_success(), "{path}: {status} {body}");
        body
    }

    async fn call(&self, method: Method, path: &str, body: Value) -> Value {
        let answer = self.send(method, path, "application/json", body.to_string()).await;
        serde_json::from_str(&answer).unwrap()
    }
}

/// Whether answers echo the correlation id: the host of the `no-correlation` defect does not.
async fn echoes(grp: &Grp) -> bool {
    let request = grp.request(Method::GET, "/healthz").header("x-correlation-id", "me");
    request.send().await.unwrap().headers().contains_key("x-correlation-id")
}

#[tokio::test]
async fn the_clock_of_the_lab_is_the_hosts_clock() {
    let start = 1_800_000_000_000;
    let config = LabConfig { clock: Clock::frozen_at(start), ..LabConfig::default() };
    let (grp, lab) = Grp::in_lab(config).await;
    let (slug, token) = grp.room(json!({ "creator_votes": true })).await;
    let outcome = format!("/api/rooms/{slug}/outcome");
    assert_eq!(grp.host.room(&slug).unwrap()["decisions"][0]["status"], "voting");
    // Somebody waits for the end while the lab moves past it: no real time goes by.
    let path = format!("/api/rooms/{slug}/next-action?for=completion&wait=50");
    let waiting = grp.get(&path, &token);
    let moving = async {
        grp.host.journal().wait_for(|e| e.is(Route::GrpWait), SOON).await.unwrap();
        lab.clock().advance(599_000);
        lab.clock().advance(2_000);
    };
    let began = std::time::Instant::now();
    let ((status, done), ()) = tokio::join!(waiting, moving);
    assert_eq!(status, 200, "{done}");
    assert!(began.elapsed() < Duration::from_secs(20));
    let (_, outcome) = grp.get(&outcome, &token).await;
    assert_ne!(outcome["status"], "voting", "{outcome}");
    assert_ne!(grp.host.room(&slug).unwrap()["decisions"][0]["status"], "voting");
    assert_eq!(grp.host.clock().now_ms(), i64::try_from(start + 601_000).unwrap());
}

#[tokio::test]
async fn the_journal_names_operations_and_leaves_credentials_out() {
    let grp = Grp::start().await;
    let (slug, token) = grp.room(json!({})).await;
    let seat = grp.join(&slug, "ann").await;
    let choose = format!("/api/rooms/{slug}/choose");
    let key = [("idempotency-key", "once-and-secret")];
    grp.post(&choose, &seat, &key, json!({ "choice": "tea" })).await;
    grp.get(&format!("/api/rooms/{slug}?token={token}"), &token).await;
    grp.get("/nowhere", "").await;
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "discuss", "arguments": { "slug": slug, "token": seat, "body": "hello" } } });
    let mcp = grp
        .request(Method::POST, "/mcp")
        .header("accept", "application/json, text/event-stream")
        .json(&call)
        .send()
        .await
        .unwrap();
    assert_eq!(mcp.status(), 200);
    let entries = grp.host.requests();
    let seen: Vec<(Option<&str>, Option<&str>, Option<u16>)> =
        entries.iter().map(|e| (e.route.as_deref(), e.operation.as_deref(), e.status)).collect();
    assert_eq!(
        seen,
        [
            (Some("grp_create_room"), Some("create_room"), Some(200)),
            (Some("grp_join_room"), Some("join_room"), Some(200)),
            (Some("grp_choose"), Some("choose"), Some(200)),
            (Some("grp_read_room"), Some("read_room"), Some(200)),
            (None, None, Some(404)),
            (Some("grp_mcp"), Some("discuss"), Some(200)),
        ]
    );
    assert_eq!(entries[4].error.as_deref(), Some("vendor:lab:route_not_found"));
    assert_eq!(entries[5].room.as_deref(), Some(slug.as_str()));
    let ann = entries[2].subject.as_deref().expect("the token's participant");
    assert_eq!(entries[5].subject.as_deref(), Some(ann), "by either transport");
    assert_eq!(entries[2].body, Some(json!({ "choice": "tea" })));
    let all = json!(entries).to_string();
    for secret in [token, seat, "once-and-secret".to_owned()] {
        assert!(!all.contains(&secret), "{secret}");
    }
    assert!(entries.iter().all(|e| e.done && e.host == "grp"));
    // The code in a path is a credential, too.
    let path = format!("/api/rooms/{slug}/invites/code-of-a-seat");
    grp.request(Method::DELETE, &path).send().await.unwrap();
    let all = json!(grp.host.requests()).to_string();
    assert!(all.contains("/invites/(left out)") && !all.contains("code-of-a-seat"));
}

#[tokio::test]
async fn defects_are_switched_by_plans_of_every_kind() {
    let desk = Desk::new().await;
    let grp = &desk.grp;
    assert!(echoes(grp).await);
    // From Rust.
    let id = grp.host.add_fault(Fault::new(Action::Defect { name: Defect::NoCorrelation }));
    assert!(!echoes(grp).await);
    assert!(grp.host.remove_fault(id));
    assert!(echoes(grp).await);
    // As TOML at the control port, beside a fault for another host.
    let toml = "[[fault]]\naction = { defect = { name = \"no-correlation\" } }\n\
                [[fault]]\nwhen = { host = \"x\" }\naction = { defect = { name = \"false-a2a\" } }\n";
    desk.send(Method::PUT, "/control/plan", "application/toml", toml.to_owned()).await;
    assert!(!echoes(grp).await);
    assert_eq!(grp.host.defects(), [Defect::NoCorrelation]);
    let listed = desk.call(Method::GET, "/control/defects", json!({})).await;
    assert_eq!(listed["defects"].as_array().unwrap().len(), Defect::ALL.len());
    let on = |d: &Value| d["on"] == json!(["g"]);
    let on: Vec<&Value> = listed["defects"].as_array().unwrap().iter().filter(|d| on(d)).collect();
    assert_eq!((on.len(), &on[0]["name"]), (1, &json!("no-correlation")));
    desk.call(Method::DELETE, "/control/faults?host=g", json!({})).await;
    assert!(echoes(grp).await);
    // By the button of the monitor page: what it posts is read from the page.
    let page = desk.send(Method::GET, "/monitor", "text/plain", String::new()).await;
    let button = page
        .split("<button ")
        .find(|b| b.contains(">no-correlation</button>"))
        .expect("a button for the defect");
    let attribute = |name: &str| {
        let value = button.split(&format!("data-{name}=\"")).nth(1).unwrap();
        value.split('"').next().unwrap().replace("&quot;", "\"").replace("&amp;", "&")
    };
    let body: Value = serde_json::from_str(&attribute("body")).unwrap();
    let method = Method::from_bytes(attribute("method").as_bytes()).unwrap();
    desk.call(method, &attribute("path"), body).await;
    assert!(!echoes(grp).await);
    let page = desk.send(Method::GET, "/monitor", "text/plain", String::new()).await;
    assert!(page.contains(">no-correlation off</button>"));
    // A defect by setting outlives plans.
    grp.host.set_defects([Defect::ShortToken]);
    grp.host.clear_faults();
    assert_eq!(grp.host.defects(), [Defect::ShortToken]);
}

#[tokio::test]
async fn the_control_port_shows_dumps_steps_and_resets_it() {
    let desk = Desk::new().await;
    desk.lab.adp("a").await.unwrap();
    let grp = &desk.grp;
    let (slug, token) = grp.room(json!({ "visibility": "unlisted" })).await;
    let hosts = desk.call(Method::GET, "/control/hosts", json!({})).await;
    assert_eq!(hosts["hosts"][1]["label"], "g");
    assert_eq!(hosts["hosts"][1]["rooms"], json!([slug]));
    assert_eq!(
        (&hosts["hosts"][0]["grp"], &hosts["hosts"][1]["grp"]),
        (&json!(false), &json!(true))
    );
    let state = desk.call(Method::GET, "/control/state?host=g", json!({})).await;
    let room = &state["hosts"]["g"]["rooms"][&slug];
    assert_eq!(room["resource"]["decisions"][0]["question"], "Tea or coffee?");
    assert!(!state.to_string().contains(&token), "tokens are kept as hashes");
    let journal = desk.call(Method::GET, "/control/journal?host=g", json!({})).await;
    assert_eq!(journal["journal"]["g"][0]["route"], "grp_create_room");
    // A room with markup in it is text on the page, its audit chain is marked.
    let hostile = json!({ "question": "<img src=x onerror=alert(1)>", "options": ["</td>", "b"],
        "about": "<script>alert(2)</script>" });
    let (status, _) = grp.post("/api/rooms", "", &[], hostile).await;
    assert_eq!(status, 200);
    let page = desk.send(Method::GET, "/monitor", "text/plain", String::new()).await;
    assert!(
        page.contains("&lt;img src=x") && !page.contains("<img") && !page.contains("<script>a")
    );
    assert!(page.matches("class=\"good\"").count() >= 2, "{page}");
    assert_eq!(page.matches("class=\"bad\"").count(), 0);
    // Step: held before the host looks.
    let plan = json!({ "fault": [{ "when": { "route": "grp_read_room", "host": "g" },
        "action": { "hold": { "at": "before" } } }] });
    desk.call(Method::PUT, "/control/plan", plan).await;
    let path = format!("/api/rooms/{slug}");
    let reading = grp.get(&path, &token);
    let stepping = async {
        assert!(grp.host.step().wait_held(1, SOON).await);
        let held = desk.call(Method::GET, "/control/held", json!({})).await;
        assert_eq!(held["held"]["g"][0]["request"], format!("GET /api/rooms/{slug}"));
        desk.call(Method::POST, "/control/step", json!({ "host": "g" })).await
    };
    let ((status, _), released) = tokio::join!(reading, stepping);
    assert_eq!((status.as_u16(), &released["released"]), (200, &json!(1)));
    // What is for records is refused by name, and goes past a GRP host otherwise.
    let limits = desk.call(Method::PUT, "/control/limits", json!("recommended")).await;
    assert_eq!(limits["limits"]["messages_per_minute"], 5);
    let only = crate::support::http()
        .put(format!("{}/control/limits?host=g", desk.control.url()))
        .bearer_auth(desk.control.token())
        .body("null");
    assert_eq!(only.send().await.unwrap().status(), 400);
    // Reset: rooms, faults and journal are gone, whoever waits learns of it.
    grp.host.clear_faults();
    let path = format!("/api/rooms/{slug}/next-action?for=completion&wait=50");
    let waiting = grp.get(&path, &token);
    let resetting = async {
        grp.host.journal().wait_for(|e| e.is(Route::GrpWait), SOON).await.unwrap();
        desk.call(Method::POST, "/control/reset", json!({ "host": "g" })).await;
    };
    let ((status, gone), ()) = tokio::join!(waiting, resetting);
    assert_eq!((status.as_u16(), &gone["error"]["code"]), (404, &json!("room.not_found")));
    assert!(grp.host.rooms().is_empty() && grp.host.faults().is_empty());
    assert!(!json!(grp.host.requests()).to_string().contains("grp_create_room"));
}

#[tokio::test]
async fn a_reset_forgets_stored_rooms_and_remembered_answers() {
    let folder = tempfile::tempdir().unwrap();
    let config = || GrpConfig { data: Some(folder.path().into()), ..GrpConfig::default() };
    let lab = Lab::start(LabConfig::default()).await.unwrap();
    let grp = Grp::over(lab.grp("g", config()).await.unwrap());
    let key = [("idempotency-key", "same")];
    let body = json!({ "question": "Which?", "options": ["a", "b"] });
    let make = || grp.post("/api/rooms", "", &key, body.clone());
    let (first, again) = (make().await.1, make().await.1);
    assert_eq!(first["slug"], again["slug"], "remembered");
    grp.host.reset();
    let fresh = make().await.1;
    assert_ne!(first["slug"], fresh["slug"], "forgotten");
    let key_before = grp.host.core().public_key().1;
    drop(grp);
    lab.stop().await;
    let lab = Lab::start(LabConfig::default()).await.unwrap();
    let host = lab.grp("g", config()).await.unwrap();
    assert_eq!(host.rooms(), [text(&fresh["slug"])]);
    assert_eq!(host.core().public_key().1, key_before);
}

#[tokio::test]
async fn labels_are_one_name_space() {
    let lab = Lab::start(LabConfig::default()).await.unwrap();
    lab.grp("x", GrpConfig::default()).await.unwrap();
    assert_eq!(lab.adp("x").await.unwrap_err().code(), "label_taken");
    lab.adp("y").await.unwrap();
    let again = lab.grp("y", GrpConfig::default()).await.unwrap_err();
    assert_eq!(again.code(), "label_taken");
    for bad in ["", "../x", ".x", "a/b", "a b", "\u{e4}", &"x".repeat(65)] {
        assert_eq!(lab.adp(bad).await.unwrap_err().code(), "label_invalid", "{bad:?}");
        let refused = lab.grp(bad, GrpConfig::default()).await.unwrap_err();
        assert_eq!(refused.code(), "label_invalid", "{bad:?}");
    }
    let taken = lab.grp_hosts()[0].url().trim_start_matches("http://").parse().unwrap();
    let busy = GrpConfig { listen: taken, ..GrpConfig::default() };
    let refused = lab.grp("z", busy).await.unwrap_err();
    assert_eq!(refused.code(), "listen_failed");
    assert!(refused.to_string().contains(&taken.to_string()), "{refused}");
}

#[tokio::test]
async fn personas_play_where_they_mean_something() {
    let grp = Grp::start().await;
    let (slug, token) = grp.room(json!({})).await;
    let read =
        || grp.request(Method::GET, &format!("/api/rooms/{slug}")).bearer_auth(&token).send();
    grp.host.play(Persona::Redirector);
    let moved = read().await.unwrap();
    assert_eq!(moved.status(), 302);
    let to = moved.headers()["location"].to_str().unwrap().to_owned();
    assert_eq!(to, format!("http://127.0.0.1:9/api/rooms/{slug}"));
    grp.host.play(Persona::Slow);
    let began = std::time::Instant::now();
    assert_eq!(read().await.unwrap().status(), 200);
    assert!(began.elapsed() >= Duration::from_secs(1));
    grp.host.plan(Plan { seed: 1, ..Persona::FlakyStream.grp_plan(1) });
    let mut broken = 0;
    for _ in 0..40 {
        broken += usize::from(read().await.is_err());
    }
    assert!((1..39).contains(&broken), "{broken} of 40 reads were reset");
    grp.host.plan(Persona::Forgetful.grp_plan(1));
    let mut lost = 0;
    for n in 0..12 {
        let said = grp
            .request(Method::POST, &format!("/api/rooms/{slug}/discuss"))
            .bearer_auth(&token)
            .json(&json!({ "body": format!("message {n}") }))
            .send()
            .await;
        lost += usize::from(said.is_err());
    }
    assert!((1..12).contains(&lost), "{lost} of 12 answers were lost");
    let said = grp.host.state()["rooms"][&slug]["stored"]["messages"].as_array().unwrap().len();
    assert_eq!(said, 12, "and every one was carried out");
    for honest in [Persona::Rollback, Persona::Equivocator, Persona::LiarHead] {
        grp.host.play(honest);
        assert!(grp.host.faults().is_empty());
        assert!(!honest.plays_grp());
    }
}
