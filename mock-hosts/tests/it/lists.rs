//! Lists: public search with every filter, my rooms, history pages, cursors, and bare arrays.

use mock_hosts::HostConfig;
use serde_json::{Value, json};

use crate::support::{Stage, history, refused};

fn topics(page: &Value) -> Vec<String> {
    let list = page["result"].as_array().unwrap();
    list.iter().map(|r| r["topic"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn public_search_filters_sorts_and_pages() {
    let s = Stage::new().await;
    s.host.clock().freeze();
    let now = s.host.clock().now_ms();
    let plan = [
        ("tea", now - 1000, json!({ "tags": ["drinks", "hot"], "language": "en" })),
        ("coffee", now - 500, json!({ "agenda": "TEA is not discussed", "language": "de" })),
        ("juice", now + 60_000, json!({ "tags": ["drinks"] })),
        ("hidden", now, json!({ "visibility": "restricted", "tags": ["drinks"] })),
    ];
    for (topic, start, extra) in plan {
        let mut payload = extra;
        payload["topic"] = json!(topic);
        payload["start_time"] = json!(start);
        payload["end_time"] = json!(start + 600_000);
        s.ann.create_room(&s.host, payload).await.unwrap();
    }
    let bob_room = json!({ "topic": "water", "start_time": now + 1 });
    s.bob.create_room(&s.host, bob_room).await.unwrap();
    let search = |query: String| {
        let s = &s;
        async move {
            let path = format!("/v1/rooms/public{query}");
            let page = s.eve.request(http::Method::GET, &s.host, &path, None, false).await;
            page.map(|p| topics(&p))
        }
    };
    let all = ["tea", "coffee", "water", "juice"];
    assert_eq!(search(String::new()).await.unwrap(), all);
    for (query, found) in [
        ("?tag=drinks".to_owned(), vec!["tea", "juice"]),
        ("?keyword=tea".to_owned(), vec!["tea", "coffee"]),
        ("?language=de".to_owned(), vec!["coffee"]),
        (format!("?creator={}", s.bob.id()), vec!["water"]),
        ("?status=scheduled".to_owned(), vec!["water", "juice"]),
        (format!("?starts_after={now}"), vec!["water", "juice"]),
        (format!("?ends_before={}", now + 599_501), vec!["tea", "coffee"]),
        ("?tag=drinks&status=active".to_owned(), vec!["tea"]),
        ("?keyword=nothing".to_owned(), vec![]),
    ] {
        assert_eq!(search(query.clone()).await.unwrap(), found, "{query}");
    }
    for bad in ["?status=open", "?limit=0", "?limit=-1", "?starts_after=x", "?cursor=zzz"] {
        refused(search(bad.to_owned()).await, "invalid_request");
    }
    // Pages end, in order, and an insert behind the cursor does not shift them.
    let first = s.eve.get(&s.host, "/v1/rooms/public?limit=2").await.unwrap();
    let early = json!({ "topic": "milk", "start_time": now - 5000 });
    s.bob.create_room(&s.host, early).await.unwrap();
    let cursor = first["next_cursor"].as_str().unwrap();
    let rest = s.eve.get(&s.host, &format!("/v1/rooms/public?limit=9&cursor={cursor}")).await;
    let rest = rest.unwrap();
    assert_eq!([topics(&first), topics(&rest)].concat(), all);
    assert!(rest.get("next_cursor").is_none());
}

#[tokio::test]
async fn my_rooms_by_membership() {
    let s = Stage::new().await;
    let own = s.room().await;
    let joined = s.bob.create_room(&s.host, json!({ "topic": "joined" })).await.unwrap();
    s.ann.join(&s.host, &joined, "speaker").await.unwrap();
    let wanted = json!({ "topic": "wanted", "visibility": "private" });
    let wanted = s.bob.create_room(&s.host, wanted).await.unwrap();
    s.ann.request_join(&s.host, &wanted, json!({ "role": "speaker" })).await.unwrap();
    s.bob.create_room(&s.host, json!({ "topic": "strange" })).await.unwrap();
    for (membership, found) in [
        ("creator", vec![&own]),
        ("member", vec![&own, &joined]),
        ("moderator", vec![&own]),
        ("pending", vec![&wanted]),
        ("all", vec![&own, &joined, &wanted]),
    ] {
        let path = format!("/v1/me/rooms?membership={membership}");
        let page = s.ann.get(&s.host, &path).await.unwrap();
        let mut ids: Vec<&str> =
            page["result"].as_array().unwrap().iter().map(|r| r["id"].as_str().unwrap()).collect();
        let mut want: Vec<&str> = found.iter().map(|r| r.as_str()).collect();
        ids.sort_unstable();
        want.sort_unstable();
        assert_eq!(ids, want, "{membership}");
    }
    let none = s.ann.get(&s.host, "/v1/me/rooms?status=ended").await.unwrap();
    assert_eq!(none["result"], json!([]));
    refused(s.ann.get(&s.host, "/v1/me/rooms?membership=king").await, "invalid_request");
    let path = "/v1/me/rooms";
    let anonymous = s.ann.request(http::Method::GET, &s.host, path, None, false).await;
    refused(anonymous, "invalid_token");
}

#[tokio::test]
async fn history_pages_by_seq_and_by_cursor() {
    let s = Stage::new().await;
    let room = s.shared_room().await;
    s.host.move_head(&room, 20).unwrap();
    let path = format!("/v1/rooms/{room}/events");
    let page = s.ann.get(&s.host, &format!("{path}?after_seq=3&limit=5")).await.unwrap();
    let seqs: Vec<u64> =
        page["result"].as_array().unwrap().iter().map(|r| r["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, [4, 5, 6, 7, 8]);
    let cursor = page["next_cursor"].as_str().unwrap();
    let next = s.ann.get(&s.host, &format!("{path}?limit=1000&cursor={cursor}")).await.unwrap();
    assert_eq!(next["result"][0]["seq"], 9);
    assert!(next.get("next_cursor").is_none());
    let past = s.ann.get(&s.host, &format!("{path}?after_seq=900")).await.unwrap();
    assert_eq!(past, json!({ "result": [] }));
    assert_eq!(history(&s.host, &room, &s.ann).await.len(), 23);
}

#[tokio::test]
async fn lists_can_be_bare_arrays() {
    let s = Stage::with(HostConfig { bare_lists: true, ..HostConfig::default() }).await;
    let room = s.shared_room().await;
    for path in [
        format!("/v1/rooms/{room}/events"),
        "/v1/rooms/public".to_owned(),
        "/v1/me/rooms".to_owned(),
        format!("/v1/rooms/{room}/join-requests"),
    ] {
        let list = s.ann.get(&s.host, &path).await.unwrap();
        assert!(list.is_array(), "{path}: {list}");
    }
}

#[tokio::test]
async fn unknown_paths_and_methods() {
    let s = Stage::new().await;
    refused(s.ann.get(&s.host, "/v2/rooms").await, "not_found");
    refused(s.ann.get(&s.host, "/.well-known/agent-profile").await, "not_found");
    let wrong = s.ann.request(http::Method::DELETE, &s.host, "/v1/rooms", None, false).await;
    assert_eq!(wrong.as_ref().unwrap_err().status(), 405);
    refused(wrong, "method_not_allowed");
    let big = "x".repeat(3 * 1024 * 1024);
    let answer =
        crate::support::http().post(format!("{}/v1/rooms", s.host.url())).body(big).send().await;
    // The host may close before it has read it all; an answer says 413.
    if let Ok(answer) = answer {
        assert_eq!(answer.status(), 413);
    }
    let twice = crate::support::http()
        .post(format!("{}/v1/rooms", s.host.url()))
        .body("{\"hash\":1,\"hash\":2}")
        .send()
        .await
        .unwrap();
    assert_eq!(twice.status(), 400);
    assert!(twice.text().await.unwrap().contains("duplicate member"));
}
