//! Idempotency as a kind: every mutating operation, on both transports, repeated under its
//! key, with another body, by somebody else, after the room is gone, after a restart.

use std::sync::Arc;

use mock_hosts::grp::core::{Call, Core, Op};
use mock_hosts::grp::{GrpConfig, GrpHost};
use serde_json::{Value, json};

use crate::grp_support::{act, call, text};

/// A call of one member, to be made again and again.
#[derive(Clone)]
struct Story {
    op: Op,
    slug: Option<String>,
    token: Option<String>,
    args: Value,
    other: Value,
    transport: &'static str,
}

impl Story {
    async fn told(&self, core: &Arc<Core>, token: Option<&str>, args: &Value) -> Answer {
        let slug = self.slug.as_deref().unwrap_or_default();
        let call = Call {
            idempotency_key: Some("once".into()),
            transport: self.transport,
            ..call(self.op, slug, token.unwrap_or_default(), args)
        };
        core.execute(call).await.map_err(|e| e.code.to_owned())
    }

    async fn again(&self, core: &Arc<Core>) -> Answer {
        self.told(core, self.token.as_deref(), &self.args).await
    }
}

type Answer = Result<Value, String>;

/// A room in which `op` can be done by its owner, and somebody else's token.
async fn stage(core: &Arc<Core>, op: Op, transport: &'static str) -> (Story, String, String) {
    let config = json!({ "type": "persistent", "visibility": "unlisted", "settle_window": 0 });
    let made = act(core, Op::CreateRoom, "", "", json!({ "about": "x", "config": config })).await;
    let (slug, owner) = (text(&made["slug"]), text(&made["creator_token"]));
    let bob = act(core, Op::JoinRoom, &slug, "", json!({ "display_name": "bob" })).await;
    let ask = async |window: Value| {
        let mut args = json!({ "question": "Tea or coffee?", "options": ["tea", "coffee"] });
        if !window.is_null() {
            args["proposal_window"] = window;
        }
        act(core, Op::Ask, &slug, &owner, args).await
    };
    // A mutating operation without a line here does not compile into this test silently.
    let (args, other) = match op {
        Op::CreateRoom => (json!({ "about": "one" }), json!({ "about": "two" })),
        Op::JoinRoom => (json!({ "display_name": "eve" }), json!({ "display_name": "mallory" })),
        Op::Ask => (
            json!({ "question": "Where to?", "options": ["park", "library"] }),
            json!({ "question": "Where else?", "options": ["park", "library"] }),
        ),
        Op::StartChoosing => {
            let asked = ask(json!(300)).await;
            (json!({}), json!({ "decision_id": asked["decision"]["id"] }))
        }
        Op::Choose => {
            ask(Value::Null).await;
            (json!({ "choice": "tea" }), json!({ "choice": "coffee" }))
        }
        Op::Abstain => {
            ask(Value::Null).await;
            (json!({ "reason": "water" }), json!({ "reason": "milk" }))
        }
        Op::Discuss => (json!({ "body": "one" }), json!({ "body": "two" })),
        Op::Propose => {
            ask(json!(300)).await;
            (json!({ "option": "water" }), json!({ "option": "milk" }))
        }
        Op::CloseRoom => (json!({ "statement": "bye" }), json!({ "statement": "farewell" })),
        Op::DeleteRoom => (json!({ "confirm": slug }), json!({ "confirm": "something" })),
        Op::InviteToRoom => (json!({ "label": "carol" }), json!({ "label": "dave" })),
        Op::RevokeInvite => {
            let args = json!({ "label": "carol" });
            let invite = act(core, Op::InviteToRoom, &slug, &owner, args).await;
            (json!({ "code": invite["invite"]["code"] }), json!({ "code": "other" }))
        }
        Op::UpdateMember => (
            json!({ "participant": "bob", "role": "observer" }),
            json!({ "participant": "bob", "role": "participant" }),
        ),
        Op::UpdateRoomSettings => (
            json!({ "settings": { "settle_window": 7 } }),
            json!({ "settings": { "settle_window": 8 } }),
        ),
        Op::RegisterWebhook => (
            json!({ "url": "http://127.0.0.1:9/a", "event_types": ["room.concluded"] }),
            json!({ "url": "http://127.0.0.1:9/b", "event_types": ["room.concluded"] }),
        ),
        Op::UnregisterWebhook => {
            let args = json!({ "url": "http://127.0.0.1:9/a", "event_types": ["room.concluded"] });
            let hook = act(core, Op::RegisterWebhook, &slug, &owner, args).await;
            (json!({ "webhook_id": hook["webhook_id"] }), json!({ "webhook_id": "other" }))
        }
        Op::ReadRoom
        | Op::Wait
        | Op::WaitOutcome
        | Op::Outcome
        | Op::ListDecisions
        | Op::ListEvents
        | Op::ListRooms
        | Op::ListInvites
        | Op::ListWebhooks => unreachable!("these change nothing"),
    };
    let in_room = op != Op::CreateRoom;
    let story = Story {
        op,
        slug: in_room.then(|| slug.clone()),
        token: (in_room && op != Op::JoinRoom).then(|| owner.clone()),
        args,
        other,
        transport,
    };
    (story, slug, format!("{owner} {}", text(&bob["participant_token"])))
}

fn config(folder: &std::path::Path) -> GrpConfig {
    GrpConfig { data: Some(folder.into()), allow_private_targets: true, ..GrpConfig::default() }
}

#[tokio::test]
async fn every_act_repeated_under_its_key_is_one_act() {
    let folder = tempfile::tempdir().unwrap();
    let host = GrpHost::start(config(folder.path())).await.unwrap();
    let core = host.core();
    let conflict: Answer = Err("idempotency.conflict".into());
    let mut told = Vec::new();
    for (op, transport) in
        Op::ALL.iter().filter(|op| op.mutates()).flat_map(|op| [(*op, "rest"), (*op, "mcp")])
    {
        let what = format!("{op:?} over {transport}");
        let (story, slug, tokens) = stage(core, op, transport).await;
        let (owner, bob) = tokens.split_once(' ').unwrap();
        let first = story.again(core).await;
        assert!(first.is_ok(), "{what}: {first:?}");
        let left = host.dump(&slug);
        assert_eq!(story.again(core).await, first, "{what}");
        assert_eq!(
            story.told(core, story.token.as_deref(), &story.other).await,
            conflict,
            "{what}"
        );
        // The other transport is the same caller under the same key.
        let twin =
            Story { transport: if transport == "rest" { "mcp" } else { "rest" }, ..story.clone() };
        assert_eq!(twin.again(core).await, first, "{what}: the other transport");
        assert_eq!(host.dump(&slug), left, "{what} left more behind the second time");
        let mut theirs = None;
        if story.token.is_some() {
            // Another member's key is another key, even when it is the same text.
            let answer = story.told(core, Some(bob), &story.args).await;
            // Their act is refused, answered differently, or done: not answered from memory.
            let own = answer != first || host.dump(&slug) != left;
            assert!(own && answer != conflict, "{what}: somebody else: {answer:?}");
            theirs = Some((bob.to_owned(), answer));
        }
        if op != Op::DeleteRoom {
            act(core, Op::DeleteRoom, &slug, owner, json!({ "confirm": slug })).await;
        }
        assert_eq!(story.again(core).await, first, "{what}: after the room is gone");
        told.push((what, story, theirs, first));
    }
    assert!(told.len() >= 32, "{}", told.len());
    // The storage alone knows it all: another host on it answers the same.
    drop(host);
    let host = GrpHost::start(config(folder.path())).await.unwrap();
    for (what, story, theirs, first) in &told {
        assert_eq!(story.again(host.core()).await, *first, "{what}: after a restart");
        let other = story.told(host.core(), story.token.as_deref(), &story.other).await;
        assert_eq!(other, conflict, "{what}: another body after a restart");
        if let Some((bob, answer)) = theirs {
            let again = story.told(host.core(), Some(bob), &story.args).await;
            assert_eq!(again, *answer, "{what}: the other member's own answer");
            for token in [None, Some("t_unknown")] {
                let strange = story.told(host.core(), token, &story.args).await;
                assert_eq!(strange, Err("room.not_found".into()), "{what}: a stranger");
            }
        }
    }
}

#[tokio::test]
async fn who_lost_the_seat_does_not_repeat_and_who_recovered_it_does() {
    let folder = tempfile::tempdir().unwrap();
    let host = GrpHost::start(config(folder.path())).await.unwrap();
    let core = host.core();
    let made = act(core, Op::CreateRoom, "", "", json!({ "about": "x" })).await;
    let (slug, owner) = (text(&made["slug"]), text(&made["creator_token"]));
    let invite = act(core, Op::InviteToRoom, &slug, &owner, json!({ "label": "bob" })).await;
    let redeem = json!({ "invite": invite["invite_token"] });
    let old = text(&act(core, Op::JoinRoom, &slug, "", redeem.clone()).await["participant_token"]);
    let say = Story {
        op: Op::Discuss,
        slug: Some(slug.clone()),
        token: Some(old.clone()),
        args: json!({ "body": "mine" }),
        other: json!({}),
        transport: "rest",
    };
    let said = say.again(core).await;
    let new = text(&act(core, Op::JoinRoom, &slug, "", redeem).await["participant_token"]);
    for gone in [false, true] {
        if gone {
            act(core, Op::DeleteRoom, &slug, &owner, json!({ "confirm": slug })).await;
        }
        let lost = say.told(core, Some(&old), &say.args).await;
        assert_eq!(lost, Err("participant.token_superseded".into()), "room gone: {gone}");
        assert_eq!(say.told(core, Some(&new), &say.args).await, said, "room gone: {gone}");
    }
}

#[tokio::test]
async fn a_refused_creation_is_remembered_as_refused() {
    let host = GrpHost::start(GrpConfig::default()).await.unwrap();
    let create = Story {
        op: Op::CreateRoom,
        slug: None,
        token: None,
        args: json!({ "config": { "voting_window": "1h" } }),
        other: json!({ "about": "mended" }),
        transport: "rest",
    };
    let refused: Answer = Err("input.invalid".into());
    assert_eq!(create.again(host.core()).await, refused);
    assert_eq!(create.again(host.core()).await, refused);
    let mended = create.told(host.core(), None, &create.other).await;
    assert_eq!(mended, Err("idempotency.conflict".into()));
}
