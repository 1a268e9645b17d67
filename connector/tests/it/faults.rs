//! Hosts that misbehave: what is refused, what is kept, what the agent is told.

use mock_hosts::{Action, End, Fault, Route};
use serde_json::{Value, json};

use crate::connector_support::Scene;

fn seqs(timeline: &Value) -> Vec<u64> {
    timeline["items"].as_array().unwrap().iter().map(|i| i["seq"].as_u64().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forged_record_stops_the_room_until_the_operator_resolves_it() {
    for (field, code) in [
        ("/envelope/event/payload/content", "invalid_event_hash"),
        ("/envelope/signature", "invalid_signature"),
        ("/hash", "record_hash_mismatch"),
        ("/received_at", "record_hash_mismatch"),
        ("/room_id", "record_room_mismatch"),
    ] {
        let scene = Scene::new().await;
        let (ann, room) = scene.room(json!({})).await;
        for text in ["one", "two", "three"] {
            ann.say(&scene.host, &room, text).await.unwrap();
        }
        let tamper = Action::Tamper { field: field.to_owned(), value: None, relink: false };
        scene.host.add_fault(Fault::new(tamper).at_seq(3));
        let mut c = scene.connector().await;
        let at = json!({ "host": scene.host.url(), "room_id": room, "refresh": true });
        let refused = c.fail("room_open", at.clone()).await;
        assert_eq!(refused["code"], code, "{field}: {refused}");
        let kept = c.call("room_timeline", json!({ "room_id": room })).await;
        assert_eq!(seqs(&kept), [1, 2], "{field}");
        assert_eq!(kept["sync"]["condition"]["code"], code);
        // A later honest page does not make it unsaid.
        scene.host.clear_faults();
        assert_eq!(c.fail("room_open", at.clone()).await["code"], code, "{field}");
        c.close().await;
        let evidence = scene.operator(&["evidence", scene.host.url(), &room]);
        assert!(evidence.contains(code), "{field}: {evidence}");
        scene.operator(&["resolve", scene.host.url(), &room, "--action", "keep"]);
        let mut c = scene.connector().await;
        let open = c.call("room_open", at).await;
        assert_eq!(open["sync"]["synced_seq"], 4, "{field}");
        assert!(open["sync"].get("condition").is_none());
    }
}

/// What is not there yet is no lie: histories may lag behind heads, and pages may be short.
#[tokio::test(flavor = "multi_thread")]
async fn a_history_that_lags_for_a_moment_is_no_lie() {
    let scene = Scene::new().await;
    let (ann, room) = scene.room(json!({})).await;
    ann.say(&scene.host, &room, "late").await.unwrap();
    let lag = Fault::new(Action::DropRecord {}).on(Route::Events).at_seq(2).times(3);
    scene.host.add_fault(lag);
    let mut c = scene.connector().await;
    let open = c.call("room_open", json!({ "host": scene.host.url(), "room_id": room })).await;
    assert_eq!(open["sync"]["synced_seq"], 2);
    assert!(open["sync"].get("condition").is_none());
    let said = scene.operator(&["evidence", scene.host.url(), &room]);
    assert_eq!(said.trim(), "", "an honest host was accused");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_a_rollback_and_a_violation_need_the_operator() {
    for (name, code) in
        [("fork", "room_forked"), ("rollback", "room_rolled_back"), ("violation", "host_violation")]
    {
        let scene = Scene::new().await;
        let (mut c, ann, room) = scene.joined().await;
        ann.say(&scene.host, &room, "before").await.unwrap();
        c.call("room_timeline", json!({ "room_id": room, "refresh": true })).await;
        match name {
            "fork" => {
                scene.host.add_fault(Fault::new(Action::Fork { envelope: None }).at_seq(3));
            }
            "rollback" => {
                scene.host.add_fault(Fault::new(Action::Rollback { to: 2 }));
            }
            _ => {
                // A stranger bans the agent, and the host accepts it.
                let mallory = scene.peer("mallory");
                let (_, tip) = ann.tips(&scene.host, &room).await.unwrap();
                let ban = json!({ "member": scene.me, "ban": true });
                let envelope =
                    mallory.sign(Some(&room), Some(&tip), "room.member.remove", ban, &[]).unwrap();
                scene.host.append_unchecked(&room, &envelope).unwrap();
            }
        }
        let told =
            c.raw_until_error("room_timeline", json!({ "room_id": room, "refresh": true })).await;
        assert_eq!(told["code"], code, "{name}: {told}");
        let kept = c.call("room_timeline", json!({ "room_id": room })).await;
        assert_eq!(seqs(&kept), [1, 2, 3], "{name}");
        let state = c.call("room_state", json!({ "room_id": room })).await;
        assert_eq!(state["room"]["self_member"]["status"], "active");
        assert_eq!(state["room"]["condition"]["code"], code);
        let posts = scene.host.journal().count(|e| e.is(Route::Submit));
        let refused = c.fail("room_send_message", json!({ "room_id": room, "content": "x" })).await;
        assert_eq!(refused["code"], code, "{name}");
        assert_eq!(
            scene.host.journal().count(|e| e.is(Route::Submit)),
            posts,
            "{name}: something was signed"
        );
        c.close().await;

        // It outlives a restart, and honesty alone does not end it.
        scene.host.clear_faults();
        let mut c = scene.connector().await;
        let still = c.fail("room_state", json!({ "room_id": room, "refresh": true })).await;
        assert_eq!(still["code"], code);
        c.close().await;
        let evidence = scene.operator(&["evidence", scene.host.url(), &room]);
        assert!(evidence.contains(code), "{evidence}");
        if name != "violation" {
            scene.operator(&["resolve", scene.host.url(), &room, "--action", "keep"]);
            let mut c = scene.connector().await;
            let sent = c
                .call("room_send_message", json!({ "room_id": room, "content": "on we go" }))
                .await;
            assert_eq!(sent["status"], "sent", "{name}: {sent}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lying_head_is_never_a_base_and_needs_the_operator() {
    // Ahead of every record, or another hash at a seq that has one.
    for (ahead, code) in [(40, "head_unproven"), (0, "head_contradicted")] {
        let scene = Scene::new().await;
        let (mut c, _ann, room) = scene.joined().await;
        scene.host.add_fault(Fault::new(Action::LiarHead { ahead }).on(Route::Room));
        let told =
            c.raw_until_error("room_state", json!({ "room_id": room, "refresh": true })).await;
        assert_eq!(told["code"], code, "{told}");
        let state = c.call("room_state", json!({ "room_id": room })).await;
        assert_eq!(state["sync"]["head_seq"], 1);
        assert_eq!(state["sync"]["synced_seq"], 2);
        assert_eq!(state["sync"]["remote_seq"], 2 + ahead);
        assert_eq!(state["room"]["condition"]["code"], code);
        assert_eq!(state["room"]["condition"]["needs_operator"], true);
        let posts = scene.host.journal().count(|e| e.is(Route::Submit));
        let write = json!({ "room_id": room, "content": "x" });
        assert_eq!(c.fail("room_send_message", write.clone()).await["code"], code);
        // An honest answer later does not take it back.
        scene.host.clear_faults();
        assert_eq!(c.fail("room_send_message", write.clone()).await["code"], code);
        assert_eq!(scene.host.journal().count(|e| e.is(Route::Submit)), posts, "signed something");
        c.close().await;
        let evidence = scene.operator(&["evidence", scene.host.url(), &room]);
        assert!(evidence.contains(code) && evidence.contains("\"head\""), "{evidence}");
        scene.operator(&["resolve", scene.host.url(), &room, "--action", "keep"]);
        let mut c = scene.connector().await;
        let sent = c.call("room_send_message", write).await;
        assert_eq!(sent["status"], "sent", "{sent}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_answers_end_in_exactly_one_record() {
    for action in [
        Action::LoseResponse { end: End::default() },
        Action::Reset {},
        Action::Status { code: 503, body: None, retry_after: None },
        Action::AnswerOther { seq: None },
        Action::Body { text: "not json".to_owned() },
    ] {
        for event in ["message", "signal"] {
            let name = format!("{action:?} {event}");
            let scene = Scene::new().await;
            let (ann, room) =
                scene.room(json!({ "types": [{ "use": "adp:reactions/1.0" }] })).await;
            let mut c = scene.connector().await;
            let join = json!({ "host": scene.host.url(), "room_id": room, "role": "speaker" });
            c.call("room_join", join).await;
            let said = ann.say(&scene.host, &room, "hi").await.unwrap();
            c.call("room_timeline", json!({ "room_id": room, "refresh": true })).await;
            scene.host.add_fault(
                Fault::new(action.clone()).on(Route::Submit).for_agent(&scene.me).once(),
            );
            let sent = if event == "message" {
                c.call("room_send_message", json!({ "room_id": room, "content": "once" })).await
            } else {
                let payload = json!({ "event_id": said["envelope"]["hash"], "reaction": "+1" });
                let write =
                    json!({ "room_id": room, "type": "reaction.create", "payload": payload });
                c.call("room_submit_event", write).await
            };
            assert_eq!(sent["status"], "sent", "{name}: {sent}");
            let own = scene
                .host
                .records(&room)
                .iter()
                .filter(|r| {
                    let e = &r["envelope"]["event"];
                    e["actor"] == scene.me.as_str() && e["type"] != "room.join"
                })
                .count();
            assert_eq!(own, 1, "{name}");
            scene.check_nonces();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_drop_and_nothing_is_lost() {
    for action in [
        Action::CutAfterEvents { events: 2, end: End::default() },
        Action::Slice { bytes: 7, pause_ms: 0 },
        Action::Duplicate {},
        Action::Reorder {},
        Action::DropRecord {},
        Action::Silence {},
        Action::Inject { text: ": noise\n\nevent: what\ndata: {\"a\":1}\n\ndata: {broken\n\nevent: room.event\ndata: {\"seq\":\"x\"}\n\n".to_owned() },
        Action::OversizeEvent { bytes: 3 * 1024 * 1024 },
        Action::WrongContentType { to: "application/json".to_owned() },
        Action::Status { code: 500, body: None, retry_after: None },
    ] {
        let name = format!("{action:?}");
        let scene = Scene::with(json!({ "tuning": { "backoff_base_ms": 20, "poll_ms": 50, "resync_ms": 300 } })).await;
        scene.host.add_fault(Fault::new(action).on(Route::Live));
        let (mut c, ann, room) = scene.joined().await;
        for n in 0..12 {
            ann.say(&scene.host, &room, &format!("m{n}")).await.unwrap();
        }
        let at = json!({ "room_id": room, "limit": 500 });
        let all = c.until("room_timeline", at, |t| t["sync"]["synced_seq"] == 14).await;
        assert_eq!(seqs(&all), (1..=14).collect::<Vec<u64>>(), "{name}");
        let inbox = c.call("inbox_next", json!({ "limit": 100, "kinds": ["room.message.new"] })).await;
        assert_eq!(inbox["items"].as_array().unwrap().len(), 12, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_room_moves_under_every_attempt_and_the_cap_holds() {
    let scene = Scene::new().await;
    let (mut c, _ann, room) = scene.joined().await;
    scene
        .host
        .add_fault(Fault::new(Action::MoveHead { by: 1 }).on(Route::Submit).for_agent(&scene.me));
    let mark = scene.host.journal().mark();
    let forced = json!({ "room_id": room, "content": "now", "on_head_mismatch": "send_anyway" });
    let held = c.call("room_send_message", forced).await;
    assert_eq!(held["status"], "held", "{held}");
    let posts = scene.host.requests().iter().filter(|e| e.n > mark && e.is(Route::Submit)).count();
    assert_eq!(posts, 4, "one try and three re-signs");
    scene.host.clear_faults();
    let id = held["draft"]["id"].clone();
    let sent = c.call("draft_commit", json!({ "draft_id": id, "action": "send_as_is" })).await;
    assert_eq!(sent["status"], "sent", "{sent}");
    assert_eq!(scene.said(&room), ["now"]);
    scene.check_nonces();
}

#[tokio::test(flavor = "multi_thread")]
async fn nonces_resynchronize_once_and_absurd_headers_are_not_applied() {
    let scene = Scene::new().await;
    let (mut c, _ann, room) = scene.joined().await;
    let error = |code: &str| Action::Error {
        code: code.to_owned(),
        status: None,
        data: None,
        retry_after: None,
    };
    let far = scene.lab.clock().now_ms() + 1_000_000;
    let mine = |f: Fault| f.on(Route::Submit).for_agent(&scene.me);
    scene.host.add_fault(mine(Fault::new(error("nonce_not_greater"))).once());
    scene.host.add_fault(mine(Fault::new(Action::MaxSeenNonce { to: far.to_string() })).once());
    let sent = c.call("room_send_message", json!({ "room_id": room, "content": "a" })).await;
    assert_eq!(sent["status"], "sent", "{sent}");
    assert!(sent["record"]["envelope"]["event"]["nonce"].as_u64().unwrap() > far);
    scene.host.clear_faults();
    scene.host.add_fault(mine(Fault::new(error("nonce_not_greater"))).once());
    scene.host.add_fault(
        mine(Fault::new(Action::MaxSeenNonce { to: "9007199254740990".to_owned() })).once(),
    );
    let refused = c.fail("room_send_message", json!({ "room_id": room, "content": "b" })).await;
    assert_eq!(refused["code"], "nonce_not_applied");
    scene.host.clear_faults();
    assert_eq!(
        c.call("room_send_message", json!({ "room_id": room, "content": "c" })).await["status"],
        "sent"
    );
    scene.check_nonces();
}

#[tokio::test(flavor = "multi_thread")]
async fn redirects_and_strangers_are_never_followed() {
    let scene = Scene::new().await;
    let other = scene.lab.adp("elsewhere").await.unwrap();
    let (mut c, _ann, room) = scene.joined().await;
    let to = other.url().to_owned();
    scene.host.add_fault(Fault::new(Action::Redirect { status: 307, to: to.clone() }));
    let refused = c.fail("room_send_message", json!({ "room_id": room, "content": "x" })).await;
    assert_eq!(refused["code"], "write_uncertain");
    assert_eq!(
        c.fail("room_state", json!({ "room_id": room, "refresh": true })).await["code"],
        "redirect_refused"
    );
    let stranger = json!({ "host": to, "room_id": room });
    assert_eq!(c.fail("room_open", stranger).await["code"], "host_not_allowed");
    let lookalike = json!({ "host": format!("{}@evil.test", scene.host.url()), "room_id": room });
    assert_eq!(c.fail("room_open", lookalike).await["code"], "host_not_allowed");
    assert!(other.requests().is_empty());
}
