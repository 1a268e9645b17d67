//! The control port: its guards, each axis alone, and what it can do.

use std::sync::Arc;

use mock_hosts::{Control, Host, Lab, LabConfig, Peer};
use serde_json::{Value, json};

use crate::support::http;

struct Desk {
    control: Control,
    host: Host,
    lab: Arc<Lab>,
}

impl Desk {
    async fn new() -> Self {
        let lab = Arc::new(Lab::start(LabConfig::default()).await.unwrap());
        let host = lab.adp("a").await.unwrap();
        let any = "127.0.0.1:0".parse().unwrap();
        let control = Control::start(Arc::clone(&lab), any).await.unwrap();
        Desk { control, host, lab }
    }

    async fn call(&self, method: http::Method, path: &str, body: Value) -> (u16, Value) {
        let request = http()
            .request(method, format!("{}{path}", self.control.url()))
            .bearer_auth(self.control.token())
            .body(body.to_string());
        let answer = request.send().await.unwrap();
        let status = answer.status().as_u16();
        (status, serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap())
    }
}

#[tokio::test]
async fn host_origin_and_token_are_each_checked() {
    let desk = Desk::new().await;
    let port = desk.control.url().rsplit_once(':').unwrap().1.to_owned();
    let url = format!("{}/control/hosts", desk.control.url());
    let status = |headers: Vec<(&'static str, String)>| {
        let mut request = http().get(&url);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        async move { request.send().await.unwrap().status().as_u16() }
    };
    let token = ("authorization", format!("Bearer {}", desk.control.token()));
    assert_eq!(status(vec![token.clone()]).await, 200);
    assert_eq!(status(vec![]).await, 401);
    assert_eq!(status(vec![("authorization", "Bearer wrong".into())]).await, 401);
    assert_eq!(
        status(vec![("authorization", format!("Basic {}", desk.control.token()))]).await,
        401
    );
    for origin in
        ["http://evil.test", "null", "https://127.0.0.1", "junk", "", "http://127.0.0.1.evil.test"]
    {
        assert_eq!(status(vec![token.clone(), ("origin", origin.into())]).await, 403, "{origin}");
    }
    assert_eq!(
        status(vec![token.clone(), ("origin", format!("http://127.0.0.1:{port}"))]).await,
        200
    );
    for host in [
        "evil.test",
        "127.0.0.1",
        &format!("evil.test:{port}"),
        &format!("127.0.0.1.evil.test:{port}"),
    ] {
        assert_eq!(status(vec![token.clone(), ("host", host.to_owned())]).await, 403, "{host}");
    }
    assert_eq!(status(vec![token.clone(), ("host", format!("localhost:{port}"))]).await, 200);
    let everywhere = "0.0.0.0:0".parse().unwrap();
    let refused = Control::start(Arc::clone(&desk.lab), everywhere).await.unwrap_err();
    assert_eq!(refused.code(), "control_not_loopback");
}

#[tokio::test]
async fn the_cookie_of_the_monitor_reads_but_only_its_own_page_changes() {
    let desk = Desk::new().await;
    let answer = http().get(desk.control.monitor_url()).send().await.unwrap();
    assert_eq!(answer.headers()["location"], "/monitor");
    let cookie = answer.headers()["set-cookie"].to_str().unwrap().to_owned();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"));
    let cookie = cookie.split(';').next().unwrap().to_owned();
    let page = http()
        .get(format!("{}/monitor", desk.control.url()))
        .header("cookie", &cookie)
        .send()
        .await
        .unwrap();
    assert_eq!(page.status(), 200);
    assert!(
        page.headers()["content-security-policy"].to_str().unwrap().contains("default-src 'none'")
    );
    let change = |origin: Option<String>| {
        let mut request = http()
            .post(format!("{}/control/persona", desk.control.url()))
            .header("cookie", &cookie)
            .body("{\"name\":\"slow\"}");
        if let Some(origin) = origin {
            request = request.header("origin", origin);
        }
        async move { request.send().await.unwrap().status().as_u16() }
    };
    assert_eq!(change(None).await, 403);
    assert_eq!(change(Some("http://evil.test".into())).await, 403);
    assert!(desk.host.faults().is_empty());
    assert_eq!(change(Some(desk.control.url().to_owned())).await, 200);
    assert_eq!(desk.host.faults().len(), 2);
    // The token in a query opens the page only.
    let sneaky = format!("{}/control/hosts?token={}", desk.control.url(), desk.control.token());
    assert_eq!(http().get(sneaky).send().await.unwrap().status(), 401);
}

#[tokio::test]
async fn plans_clock_journal_step_state_and_reset() {
    use http::Method;
    let desk = Desk::new().await;
    let ann = Peer::named("ann", desk.lab.clock());
    let room = ann.create_room(&desk.host, json!({})).await.unwrap();
    let plan = json!({ "seed": 3, "fault": [{
        "when": { "route": "submit" }, "action": { "error": { "code": "room_ended" } }, "times": 1,
    }] });
    let (status, set) = desk.call(Method::PUT, "/control/plan", plan).await;
    assert_eq!((status, &set["faults"]["a"]), (200, &json!([1])));
    assert_eq!(ann.say(&desk.host, &room, "x").await.unwrap_err().code(), "room_ended");
    let (_, faults) = desk.call(Method::GET, "/control/faults", json!({})).await;
    assert_eq!(faults["faults"]["a"][0]["hits"], 1);
    let toml = http()
        .put(format!("{}/control/plan?host=a", desk.control.url()))
        .bearer_auth(desk.control.token())
        .header("content-type", "application/toml")
        .body("seed = 5\n[[fault]]\nwhen = { route = \"room\" }\naction = { hold = {} }\n")
        .send()
        .await
        .unwrap();
    assert_eq!(toml.status(), 200);
    assert_eq!(desk.host.current_plan().seed, 5);
    let reading = ann.room(&desk.host, &room);
    let stepping = async {
        assert!(desk.host.step().wait_held(1, crate::support::SOON).await);
        let (_, held) = desk.call(Method::GET, "/control/held", json!({})).await;
        assert_eq!(held["held"]["a"][0]["at"], "after");
        desk.call(Method::POST, "/control/step", json!({ "host": "a" })).await.1
    };
    let (read, released) = tokio::join!(reading, stepping);
    assert_eq!((read.unwrap()["seq"].as_u64(), &released["released"]), (Some(1), &json!(1)));
    for bad in [json!({ "fault": [{ "action": { "explode": {} } }] }), json!({ "faults": [] })] {
        let (status, error) = desk.call(Method::PUT, "/control/plan", bad).await;
        assert_eq!((status, &error["error"]["code"]), (422, &json!("invalid_plan")));
    }
    assert_eq!(desk.host.current_plan().seed, 5, "a bad plan changes nothing");
    desk.call(Method::DELETE, "/control/faults", json!({})).await;
    let moved = json!({ "room": room, "by": 2 });
    let (_, moved) = desk.call(Method::POST, "/control/move-head", moved).await;
    assert_eq!(moved["room"]["head"]["seq"], 4);
    let (_, now) = desk.call(Method::PUT, "/control/clock", json!({ "set_ms": 5_000 })).await;
    assert!(now["now_ms"].as_u64().unwrap() < 60_000);
    desk.call(Method::PUT, "/control/clock", json!({ "follow": true })).await;
    let (_, journal) = desk.call(Method::GET, "/control/journal?host=a&after=1", json!({})).await;
    assert_eq!(journal["journal"]["a"][0]["n"], 2);
    let (_, state) = desk.call(Method::GET, "/control/state", json!({})).await;
    assert_eq!(state["hosts"]["a"]["rooms"][&room]["records"].as_array().unwrap().len(), 4);
    let (status, _) = desk.call(Method::GET, "/control/state?host=zzz", json!({})).await;
    assert_eq!(status, 404);
    let (_, personas) = desk.call(Method::GET, "/control/personas", json!({})).await;
    assert_eq!(personas["personas"].as_array().unwrap().len(), 9);
    desk.call(Method::POST, "/control/reset", json!({})).await;
    assert!(desk.host.rooms().is_empty() && desk.host.requests().is_empty());
}

#[tokio::test]
async fn the_monitor_shows_hostile_text_as_text() {
    let desk = Desk::new().await;
    let ann = Peer::named("ann", desk.lab.clock());
    let topic = json!({ "topic": "<img src=x onerror=alert(1)>\u{202e}\"'" });
    let room = ann.create_room(&desk.host, topic).await.unwrap();
    ann.say(&desk.host, &room, "</td><script>alert(2)</script>").await.unwrap();
    let broken = ann
        .sign(
            Some(&room),
            Some(&ap_protocol::Tip { seq: 1, hash: ap_protocol::Hash::of(b"?") }),
            "message.create",
            json!({ "content_type": "t", "content": "forged" }),
            &[],
        )
        .unwrap();
    desk.host.append_unchecked(&room, &broken).unwrap();
    let page = http()
        .get(format!("{}/monitor", desk.control.url()))
        .bearer_auth(desk.control.token())
        .send()
        .await
        .unwrap()
        .text()
        .await
        .unwrap();
    assert!(page.contains("&lt;img src=x onerror=alert(1)&gt;\\u{202e}&quot;&#39;"), "{page}");
    assert!(!page.contains("<img") && !page.contains("<script>alert"));
    assert_eq!(page.matches("class=\"good\"").count(), 2);
    assert!(page.contains("class=\"bad\" title=\"room_head_mismatch"));
}
