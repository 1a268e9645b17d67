//! The complete state of a room, and what its page embeds of it.
//!
//! Shapes only, as in `views`: nothing here may show a hidden choice or a credential.

use serde_json::{Value, json};

use super::clock::rfc3339;
use super::config::{Authority, ChoiceVisibility, RoomType, Visibility};
use super::lifecycle;
use super::members::invite_json;
use super::model::{Answer, Phase, Role, Room};
use super::views::{AGENT, choices_shown, status, summary};

/// The complete state.
pub fn full(room: &Room) -> Value {
    let config = &room.head.config;
    let latest =
        room.open_decisions().first().copied().or_else(|| room.decisions.len().checked_sub(1));
    let d = latest.map(|i| &room.decisions[i]);
    let sealed = d.and_then(|d| d.sealed.as_ref());
    let shown = latest.is_some_and(|i| choices_shown(room, i));
    let votes: Vec<Value> = d
        .map(|d| d.responses.as_slice())
        .unwrap_or_default()
        .iter()
        .filter_map(|r| match &r.answer {
            Answer::Choice(choice) => Some(json!({
                "participant_id": room.participants[r.seat].id, "choice": choice,
                "cast_at": rfc3339(r.cast_at), "rationale": r.rationale,
            })),
            Answer::Abstain(_) => None,
        })
        .collect();
    let abstained: Vec<Value> = d
        .map(|d| d.responses.as_slice())
        .unwrap_or_default()
        .iter()
        .filter_map(|r| match &r.answer {
            Answer::Abstain(reason) => Some(json!({
                "participant_id": room.participants[r.seat].id, "reason": reason,
                "declared_at": rfc3339(r.cast_at),
            })),
            Answer::Choice(_) => None,
        })
        .collect();
    let discussion: Vec<Value> = room
        .messages
        .iter()
        .map(|m| {
            json!({
                "id": m.id, "participant_id": room.participants[m.seat].id, "body": m.body,
                "stance": m.stance, "posted_at": rfc3339(m.at),
                "decision_id": m.decision.map(|i| room.decisions[i].id.clone()),
            })
        })
        .collect();
    let now = i64::MIN;
    let invites: Vec<Value> = (0..room.invites.len()).map(|i| invite_json(room, i, now)).collect();
    let vote_count = votes.len();
    json!({
        "slug": room.head.slug, "about": room.head.about,
        "question": d.map(|d| &d.question), "context": d.and_then(|d| d.context.as_ref()),
        "options": d.map(|d| d.options.clone()).unwrap_or_default(),
        "status": status(room),
        "voting_ends_at": d.map(|d| rfc3339(d.voting_ends_at)),
        "created_at": rfc3339(room.head.created_at),
        "resolved_at": sealed.map(|s| rfc3339(s.at)),
        "resolved_outcome": sealed.map(|s| &s.outcome),
        "resolved_winner": sealed.and_then(|s| s.winner.as_ref()),
        "resolution_payload": sealed.map(|s| &s.payload),
        "config": config.to_json(),
        "participant_count": room.participants.len(),
        "eligible_voters": latest.map_or_else(
            || room.participants.iter()
                .filter(|p| p.role == Role::Participant && (config.creator_votes || !p.creator))
                .count() as u64,
            |i| lifecycle::prepare(room, i).eligible,
        ),
        "vote_count": vote_count,
        "active_decision_id": room.open_decisions().first().map(|i| room.decisions[*i].id.clone()),
        "concluded_at": room.head.conclusion.as_ref().map(|c| rfc3339(c.at)),
        "closing_statement": room.head.conclusion.as_ref().and_then(|c| c.statement.as_ref()),
        "decisions": (0..room.decisions.len()).map(|i| summary(room, i)).collect::<Vec<_>>(),
        "participants": participants(room, config.read_receipts),
        "invites": invites,
        "discussion": discussion,
        "votes_visible_during": config.choice_visibility == ChoiceVisibility::Live,
        "votes": shown.then_some(votes),
        "abstentions": abstained,
        "current_through": room.event_head(),
    })
}

fn participants(room: &Room, read_receipts: bool) -> Vec<Value> {
    room.participants
        .iter()
        .map(|p| {
            json!({
                "id": p.id, "display_name": p.display_name, "role": p.role.name(),
                "joined_at": rfc3339(p.joined_at),
                "last_seen_at": p.last_seen_at.filter(|_| read_receipts).map(rfc3339),
                "deliberated_at": p.deliberated_at.map(rfc3339),
                "voted_at": p.voted_at.map(rfc3339),
                "agent_did": p.agent.as_ref().map(|a| &a.sub),
                "mandate_id": p.agent.as_ref().map(|a| &a.jti),
            })
        })
        .collect()
}

/// Name of the embedded state's schema (Discovery 4).
pub const PAGE_SCHEMA: &str = "https://groupresolutionprotocol.org/schema/url-room/v0";

/// The state embedded in the page: everything for a public room, the address and the way in
/// for any other.
pub fn page(room: &Room, base: &str, show_private: bool) -> Value {
    let slug = &room.head.slug;
    let url = format!("{base}/api/rooms/{slug}");
    let config = &room.head.config;
    if config.visibility != Visibility::Public && !show_private {
        return json!({
            "schema": PAGE_SCHEMA, "slug": slug, "visibility": config.visibility.name(),
            "join_required": true, "password_supported": room.head.password.is_some(),
            "join_url": format!("{url}/join"), "state_url": url,
            "events_url": format!("{url}/events"),
            "event_stream_url": format!("{url}/events/stream"),
            "instructions": {
                "summary": "This room shows itself to its members only. Join it to read it.",
                "flow": [
                    "POST join_url with display_name (and invite or password for a private room)",
                    "GET state_url with the participant token in the Authorization header",
                ],
            },
        });
    }
    let full = full(room);
    let open = room.open_decisions();
    let proposing = open.iter().any(|i| room.decisions[*i].phase == Phase::Proposing);
    let when = |on: bool, path: &str| json!(on.then(|| format!("{url}/{path}")));
    let asks = config.r#type == RoomType::Persistent
        && config.decision_opening_authority != Authority::None;
    json!({
        "schema": PAGE_SCHEMA, "agent": AGENT, "slug": slug, "about": room.head.about,
        "question": full["question"], "options": full["options"],
        "voting_ends_at": full["voting_ends_at"], "status": full["status"],
        "config": full["config"], "participant_count": full["participant_count"],
        "eligible_voters": full["eligible_voters"], "vote_count": full["vote_count"],
        "resolved_outcome": full["resolved_outcome"], "resolved_winner": full["resolved_winner"],
        "join_url": format!("{url}/join"), "state_url": url,
        "wait_url": format!("{url}/next-action"), "choose_url": format!("{url}/choose"),
        "discuss_url": format!("{url}/discuss"),
        "propose_url": when(config.option_proposal_authority != Authority::None, "options"),
        "ask_url": when(asks, "ask"),
        "start_choosing_url": when(proposing, "start-choosing"),
        "close_url": when(config.conclusion_authority != Authority::None, "close"),
        "outcome_url": format!("{url}/outcome"),
        "events_url": format!("{url}/events"),
        "event_stream_url": format!("{url}/events/stream"),
        "participants": participants(room, config.read_receipts)
            .into_iter()
            .map(|p| json!({
                "id": p["id"], "display_name": p["display_name"], "joined_at": p["joined_at"],
                "last_seen_at": p["last_seen_at"], "deliberated_at": p["deliberated_at"],
                "voted_at": p["voted_at"],
            }))
            .collect::<Vec<_>>(),
        "instructions": {
            "summary": "Join, read the state, discuss, choose, and wait with the long-poll.",
            "flow": [
                "POST join_url with display_name; keep the participant_token",
                "GET state_url with the token in the Authorization header",
                "POST choose_url with choice, POST discuss_url with body",
                "GET wait_url?wait=25 until it says actionable",
            ],
        },
    })
}
