//! Replay cases about who is in the room: joining, leaving, roles, bans, approvals.

use ap_protocol::encoding;
use serde_json::{Value, json};

use super::super::room::{
    CREATOR, MODERATOR, OBSERVER, Room, SPEAKER, START, STRANGER, id, request,
};
use super::{Replay, members, message};

pub(super) fn membership(r: &mut Replay) {
    let full = Room::full();
    r.ok(
        "members",
        &full,
        json!({ "head_seq": 1, "members": members(&[
        (CREATOR, "active moderator"), (MODERATOR, "active moderator"),
        (SPEAKER, "active speaker"), (OBSERVER, "active observer"),
    ]) }),
    )
    .about("Joins take seqs and leave the head where it was.");
    let join = |role: &str| ("room.join", json!({ "role": role }));
    r.next("join-twice", &full, SPEAKER, join("speaker"), Some("invalid_event"));
    r.next("join-creator", &full, CREATOR, join("moderator"), Some("invalid_event"));
    r.next("join-moderator-unlisted", &full, STRANGER, join("moderator"), Some("role_not_allowed"));
    let mut closed_eyes = Room::new(json!({ "policy": { "observer_allowed": false } }));
    r.next(
        "join-observer-forbidden",
        &closed_eyes,
        STRANGER,
        join("observer"),
        Some("role_not_allowed"),
    );
    closed_eyes.push(SPEAKER, "room.join", json!({ "role": "speaker" }));
    let demote = ("room.member.role.update", json!({ "member": id(SPEAKER), "role": "observer" }));
    r.next(
        "demote-observer-forbidden",
        &closed_eyes,
        CREATOR,
        demote.clone(),
        Some("role_not_allowed"),
    );

    let mut small = Room::new(json!({ "policy": { "max_speakers": 2 } }));
    small.push(SPEAKER, "room.join", json!({ "role": "speaker" }));
    r.next("max-speakers-join", &small, STRANGER, join("speaker"), Some("max_speakers_exceeded"));
    r.next("max-speakers-observer-joins", &small, STRANGER, join("observer"), None);
    let approve = json!({ "request": request(STRANGER, "jr_a", "speaker"), "decision": "approve", "role": "speaker" });
    r.next(
        "max-speakers-approve",
        &small,
        CREATOR,
        ("room.join.review", approve),
        Some("max_speakers_exceeded"),
    );
    let mut watching = small.clone();
    watching.push(OBSERVER, "room.join", json!({ "role": "observer" }));
    let promote = ("room.member.role.update", json!({ "member": id(OBSERVER), "role": "speaker" }));
    r.next(
        "max-speakers-promote",
        &watching,
        CREATOR,
        promote.clone(),
        Some("max_speakers_exceeded"),
    );
    let keep = ("room.member.role.update", json!({ "member": id(SPEAKER), "role": "moderator" }));
    r.next("max-speakers-speaker-to-moderator", &watching, CREATOR, keep, None);
    let mut freed = watching.clone();
    freed.push(SPEAKER, "room.leave", json!({}));
    r.next("max-speakers-seat-freed", &freed, CREATOR, promote.clone(), None);
    let mut reduced = Room::full();
    reduced.push(CREATOR, "room.update", json!({ "policy": { "max_speakers": 1 } }));
    r.next(
        "max-speakers-reduced-nobody-demoted",
        &reduced,
        SPEAKER,
        ("message.create", message()),
        None,
    );
    r.next(
        "max-speakers-reduced-join",
        &reduced,
        STRANGER,
        join("speaker"),
        Some("max_speakers_exceeded"),
    );

    let mut left = full.clone();
    left.push(SPEAKER, "room.leave", json!({ "reason": "done" }));
    r.ok("left", &left, json!({ "head_seq": 1 }));
    r.next(
        "left-message",
        &left,
        SPEAKER,
        ("message.create", message()),
        Some("membership_required"),
    );
    r.next(
        "left-leave-again",
        &left,
        SPEAKER,
        ("room.leave", json!({})),
        Some("membership_required"),
    );
    r.next("left-rejoin", &left, SPEAKER, join("observer"), None);
    let act = |member: Value, more: Value| {
        let mut payload = json!({ "member": member });
        for (name, value) in more.as_object().into_iter().flatten() {
            payload[name] = value.clone();
        }
        ("room.member.remove", payload)
    };
    let mut removed = full.clone();
    let (event_type, payload) = act(json!(id(SPEAKER)), json!({ "reason": "spam" }));
    removed.push(MODERATOR, event_type, payload);
    r.next(
        "removed-message",
        &removed,
        SPEAKER,
        ("message.create", message()),
        Some("membership_required"),
    );
    r.next("removed-rejoin", &removed, SPEAKER, join("speaker"), None);
    r.next("removed-role-update", &removed, MODERATOR, demote.clone(), Some("membership_required"));
    let mut banned = full.clone();
    banned.push(MODERATOR, "room.member.remove", json!({ "member": id(SPEAKER), "ban": true }));
    r.ok(
        "banned",
        &banned,
        json!({ "members": members(&[
        (CREATOR, "active moderator"), (MODERATOR, "active moderator"),
        (SPEAKER, "banned speaker"), (OBSERVER, "active observer"),
    ]) }),
    );
    r.next(
        "banned-message",
        &banned,
        SPEAKER,
        ("message.create", message()),
        Some("member_banned"),
    );
    r.next("banned-join", &banned, SPEAKER, join("speaker"), Some("member_banned"));
    let mut ahead = full.clone();
    ahead.push(MODERATOR, "room.member.remove", json!({ "member": id(STRANGER), "ban": true }));
    r.next("banned-ahead-join", &ahead, STRANGER, join("speaker"), Some("member_banned"));
    let lift = json!({ "request": request(STRANGER, "jr_b", "speaker"), "decision": "approve", "role": "observer" });
    let mut lifted = ahead.clone();
    lifted.push(CREATOR, "room.join.review", lift);
    let with = |role: &str| ("room.join", json!({ "request_id": "jr_b", "role": role }));
    r.next("ban-lifted-join", &lifted, STRANGER, with("observer"), None);
    r.next("ban-lifted-join-directly", &lifted, STRANGER, join("speaker"), None);
    let refuse = json!({ "request": request(STRANGER, "jr_b", "speaker"), "decision": "reject" });
    let mut kept = ahead;
    kept.push(CREATOR, "room.join.review", refuse);
    r.next("ban-kept-by-rejection-join", &kept, STRANGER, join("speaker"), Some("member_banned"));
    for (name, target, more, code) in [
        ("creator", CREATOR, json!({}), Some("permission_denied")),
        ("creator-ban", CREATOR, json!({ "ban": true }), Some("permission_denied")),
        ("oneself", MODERATOR, json!({}), Some("permission_denied")),
        ("oneself-ban", MODERATOR, json!({ "ban": true }), Some("permission_denied")),
        ("nobody", STRANGER, json!({}), Some("membership_required")),
        ("nobody-ban", STRANGER, json!({ "ban": true }), None),
    ] {
        r.next(&format!("remove-{name}"), &full, MODERATOR, act(json!(id(target)), more), code);
    }
    let weak = format!("did:agent:{}", encoding::encode([0u8; 32]));
    r.next("remove-weak-key", &full, MODERATOR, act(json!(weak), json!({ "ban": true })), None);
    let mut muted = full.clone();
    muted.push(MODERATOR, demote.0, demote.1);
    r.next(
        "muted-message",
        &muted,
        SPEAKER,
        ("message.create", message()),
        Some("permission_denied"),
    );
    r.next("muted-signal", &muted, SPEAKER, ("review.ack", json!({})), None);
    let mut raised = full.clone();
    raised.push(MODERATOR, promote.0, promote.1);
    r.next("raised-message", &raised, OBSERVER, ("message.create", message()), None);
    let stranger =
        ("room.member.role.update", json!({ "member": id(STRANGER), "role": "speaker" }));
    r.next("role-of-nobody", &full, MODERATOR, stranger, Some("membership_required"));
}

pub(super) fn approvals(r: &mut Replay) {
    let review = |who: u8, name: &str, decision: &str, role: Option<&str>| {
        let mut payload = json!({ "request": request(who, name, "speaker"), "decision": decision });
        if let Some(role) = role {
            payload["role"] = json!(role);
        }
        ("room.join.review", payload)
    };
    let with = |name: &str, role: &str| ("room.join", json!({ "request_id": name, "role": role }));
    for visibility in ["restricted", "private"] {
        let room = Room::new(json!({ "visibility": visibility }));
        let direct = ("room.join", json!({ "role": "speaker" }));
        let name = |what: &str| format!("{visibility}-{what}");
        r.next(&name("direct"), &room, SPEAKER, direct, Some("approval_required"));
        r.next(
            &name("unknown-request"),
            &room,
            SPEAKER,
            with("jr_x", "speaker"),
            Some("join_request_not_approved"),
        );
        let mut approved = room.clone();
        let (event_type, payload) = review(SPEAKER, "jr_1", "approve", Some("speaker"));
        approved.push(CREATOR, event_type, payload);
        r.next(&name("approved"), &approved, SPEAKER, with("jr_1", "speaker"), None);
        r.next(
            &name("role-mismatch"),
            &approved,
            SPEAKER,
            with("jr_1", "observer"),
            Some("join_request_role_mismatch"),
        );
        r.next(
            &name("anothers-request"),
            &approved,
            STRANGER,
            with("jr_1", "speaker"),
            Some("join_request_not_approved"),
        );
        let mut used = approved.clone();
        used.push(SPEAKER, "room.join", with("jr_1", "speaker").1);
        used.push(SPEAKER, "room.leave", json!({}));
        r.next(
            &name("used-request"),
            &used,
            SPEAKER,
            with("jr_1", "speaker"),
            Some("join_request_not_approved"),
        );
        let mut rejected = room.clone();
        let (event_type, payload) = review(SPEAKER, "jr_1", "reject", None);
        rejected.push(CREATOR, event_type, payload);
        r.next(
            &name("rejected"),
            &rejected,
            SPEAKER,
            with("jr_1", "speaker"),
            Some("join_request_not_approved"),
        );
    }
    let room = Room::new(json!({ "visibility": "restricted" }));
    let mut other_role = room.clone();
    other_role.push(
        CREATOR,
        "room.join.review",
        review(SPEAKER, "jr_1", "approve", Some("observer")).1,
    );
    r.next("approved-other-role", &other_role, SPEAKER, with("jr_1", "observer"), None);
    r.next(
        "approved-other-role-asked-role",
        &other_role,
        SPEAKER,
        with("jr_1", "speaker"),
        Some("join_request_role_mismatch"),
    );
    let mut moderator = room.clone();
    moderator.push(
        CREATOR,
        "room.join.review",
        review(STRANGER, "jr_1", "approve", Some("moderator")).1,
    );
    r.next("approved-moderator", &moderator, STRANGER, with("jr_1", "moderator"), None);
    r.next(
        "reviewed-twice",
        &other_role,
        CREATOR,
        review(SPEAKER, "jr_1", "approve", Some("speaker")),
        Some("join_request_not_found"),
    );
    r.next(
        "rejected-after-approval",
        &other_role,
        CREATOR,
        review(SPEAKER, "jr_1", "reject", None),
        Some("join_request_not_found"),
    );
    r.next(
        "rejection-names-a-role",
        &room,
        CREATOR,
        review(SPEAKER, "jr_1", "reject", Some("speaker")),
        None,
    );
    let mut foreign = request(SPEAKER, "jr_1", "speaker");
    foreign["room_id"] = json!("d8ftedhpqhsusbg001th");
    let foreign = json!({ "request": foreign, "decision": "approve", "role": "speaker" });
    r.next(
        "request-of-another-room",
        &room,
        CREATOR,
        ("room.join.review", foreign),
        Some("join_request_not_found"),
    );
    let mut short = request(SPEAKER, "jr_1", "speaker");
    short["expires_at"] = json!(START + 60_000);
    let mut expired = room.clone();
    expired.push(
        CREATOR,
        "room.join.review",
        json!({ "request": short, "decision": "approve", "role": "speaker" }),
    );
    let mut at_last = expired.clone();
    at_last.at(START + 60_000 - 1_000 - 123);
    r.next("approval-last-millisecond", &at_last, SPEAKER, with("jr_1", "speaker"), None);
    expired.at(START + 60_000);
    r.next(
        "approval-expired",
        &expired,
        SPEAKER,
        with("jr_1", "speaker"),
        Some("join_request_expired"),
    );
    let no_observers =
        Room::new(json!({ "visibility": "restricted", "policy": { "observer_allowed": false } }));
    r.next(
        "approve-observer-forbidden",
        &no_observers,
        CREATOR,
        review(SPEAKER, "jr_1", "approve", Some("observer")),
        Some("role_not_allowed"),
    );
    let public = Room::new(json!({}));
    r.next("public-with-request", &public, SPEAKER, with("jr_auto", "speaker"), None);
    r.next(
        "public-with-request-moderator",
        &public,
        SPEAKER,
        with("jr_auto", "moderator"),
        Some("role_not_allowed"),
    );
}
