//! What a room looks like from outside: agent view, delta, outcome, lists (the whole: `full`).
//!
//! Shapes only: nothing here changes a room, and nothing here may show a hidden choice or a
//! credential, because none is in the rows.

use serde_json::{Map, Value, json};

use super::clock::rfc3339;
use super::config::{Authority, ChoiceVisibility, RoomType};
use super::defects::Defect;
pub use super::full::{PAGE_SCHEMA, full, page};
use super::lifecycle::{self, Ctx};
use super::model::{Answer, Decision, Phase, Role, Room};

/// Messages shown in the agent view.
const TAIL: usize = 20;
/// Characters of a text before it is clipped in a tail.
const CLIP: usize = 2_000;

/// The first `max` characters, with an ellipsis when something was cut.
pub fn clip(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        None => text.to_owned(),
        Some((at, _)) => format!("{}…", &text[..at]),
    }
}

/// A ballot short enough for an event.
pub fn clip_value(choice: &Value) -> Value {
    match choice {
        Value::String(s) => json!(clip(s, 500)),
        other if other.to_string().len() > 8_000 => json!("…"),
        other => other.clone(),
    }
}

/// Whether single choices of a decision are shown now.
pub fn choices_shown(room: &Room, decision: usize) -> bool {
    match room.head.config.choice_visibility {
        ChoiceVisibility::Live => true,
        ChoiceVisibility::AfterDecided => room.decisions[decision].phase == Phase::Resolved,
        ChoiceVisibility::Never => false,
    }
}

/// A settle window in progress.
pub fn settling(d: &Decision, now: i64) -> Option<Value> {
    d.settle.as_ref().map(|s| {
        json!({
            "seals_in_seconds": ((s.seals_at - now).max(0) + 999) / 1_000,
            "presumptive": s.presumptive,
        })
    })
}

/// Status of the room (GRP Rooms 7.1).
pub fn status(room: &Room) -> &'static str {
    if room.head.conclusion.is_some() {
        return "concluded";
    }
    match room.open_decisions().first() {
        Some(i) => room.decisions[*i].phase.name(),
        None if room.decisions.is_empty() => "open",
        None => "resolved",
    }
}

fn seconds_left(at: i64, now: i64) -> i64 {
    ((at - now).max(0) + 999) / 1_000
}

fn ids(room: &Room, seats: Option<&Vec<usize>>) -> Value {
    json!(seats.map(|s| s.iter().map(|i| room.participants[*i].id.clone()).collect::<Vec<_>>()))
}

fn names(room: &Room, seats: Option<&Vec<usize>>) -> Value {
    json!(seats.map(|s| {
        s.iter().map(|i| room.participants[*i].display_name.clone()).collect::<Vec<_>>()
    }))
}

fn proposers(room: &Room, d: &Decision) -> Value {
    json!(
        d.proposers
            .iter()
            .map(|p| p.map(|s| room.participants[s].display_name.clone()))
            .collect::<Vec<_>>()
    )
}

/// When choosing opens or opened, for a decision that collected options first.
fn voting_opens_at(d: &Decision) -> Option<String> {
    d.had_slate_phase.then(|| d.voting_started_at.or(d.proposals_end_at).map(rfc3339)).flatten()
}

/// A decision as `ask` and `start_choosing` return it.
pub fn decision_brief(room: &Room, index: usize) -> Value {
    let d = &room.decisions[index];
    let mut out = json!({
        "id": d.id, "seq": d.seq, "question": d.question, "context": d.context,
        "options": d.options, "eligible_participant_ids": ids(room, d.eligible.as_ref()),
        "voting_opens_at": voting_opens_at(d), "voting_ends_at": rfc3339(d.voting_ends_at),
        "prev_hash": room.head.last_receipt, "status": d.phase.name(),
    });
    if d.agreement {
        out["agreement"] = json!(true);
    }
    out
}

/// A decision in lists and in the full state.
pub(super) fn summary(room: &Room, index: usize) -> Value {
    let d = &room.decisions[index];
    let sealed = d.sealed.as_ref();
    let proposals_open = d.phase != Phase::Resolved
        && (d.phase == Phase::Proposing || !d.had_slate_phase)
        && room.head.config.option_proposal_authority != Authority::None;
    json!({
        "id": d.id, "seq": d.seq, "question": d.question, "context": d.context,
        "options": d.options, "option_proposers": proposers(room, d),
        "eligible_participant_ids": ids(room, d.eligible.as_ref()),
        "voting_opens_at": voting_opens_at(d), "voting_ends_at": rfc3339(d.voting_ends_at),
        "resolved_at": sealed.map(|s| rfc3339(s.at)),
        "resolved_outcome": sealed.map(|s| &s.outcome),
        "resolved_winner": sealed.and_then(|s| s.winner.as_ref()),
        "prev_hash": sealed.and_then(|s| s.receipt.prev_hash.as_ref()),
        "receipt_hash": sealed.map(|s| &s.receipt.hash),
        "status": d.phase.name(), "agreement": d.agreement, "proposals_open": proposals_open,
    })
}

/// `GET …/decisions`.
pub fn decisions(room: &Room) -> Value {
    let list: Vec<Value> = (0..room.decisions.len()).map(|i| summary(room, i)).collect();
    json!({ "slug": room.head.slug, "decisions": list })
}

/// `GET …/outcome`: the newest decision and the whole receipt chain.
pub fn outcome(room: &Room, base: &str) -> Value {
    let latest = room
        .open_decisions()
        .first()
        .copied()
        .or_else(|| room.decisions.len().checked_sub(1))
        .map(|i| &room.decisions[i]);
    let sealed_of = |d: &Decision| d.sealed.clone();
    let newest_sealed = room
        .decisions
        .iter()
        .filter(|d| d.sealed.is_some())
        .max_by_key(|d| (d.sealed.as_ref().map(|s| s.at), d.seq))
        .and_then(sealed_of);
    let shown = match latest {
        Some(d) if d.phase == Phase::Resolved => d.sealed.clone(),
        Some(_) => None,
        None => newest_sealed,
    };
    let chain: Vec<Value> = room
        .decisions
        .iter()
        .filter_map(|d| d.sealed.as_ref().map(|s| (d, s)))
        .map(|(d, s)| {
            let mut out = json!({
                "id": d.id, "seq": d.seq, "question": d.question, "context": d.context,
                "resolved_winner": s.winner, "resolved_outcome": s.outcome,
                "resolved_at": rfc3339(s.at), "receipt_jws": s.receipt.jws,
                "receipt_hash": s.receipt.hash, "prev_hash": s.receipt.prev_hash,
            });
            if d.agreement {
                out["agreement"] = json!(true);
            }
            out
        })
        .collect();
    let conclusion = room.head.conclusion.as_ref().map(|c| {
        json!({
            "concluded_at": rfc3339(c.at), "closing_statement": c.statement,
            "receipt_jws": c.receipt.jws, "receipt_hash": c.receipt.hash,
            "prev_hash": c.receipt.prev_hash,
        })
    });
    json!({
        "slug": room.head.slug,
        "question": latest.map(|d| &d.question),
        "context": latest.and_then(|d| d.context.as_ref()),
        "options": latest.map(|d| d.options.clone()).unwrap_or_default(),
        "status": status(room),
        "resolved_at": shown.as_ref().map(|s| rfc3339(s.at)),
        "resolved_outcome": shown.as_ref().map(|s| &s.outcome),
        "resolved_winner": shown.as_ref().and_then(|s| s.winner.as_ref()),
        "resolution_payload": shown.as_ref().map(|s| &s.payload),
        "created_at": rfc3339(room.head.created_at),
        "decisions": chain,
        "conclusion": conclusion,
        "verification": { "jwks_url": format!("{base}/.well-known/grp.json") },
    })
}

pub(super) const AGENT: &str = "You are in a GRP decision room: read brief and decision, use the links in \
                     more, wait with the long-poll instead of polling, and act only through the \
                     API.";

fn brief(room: &Room, now: i64) -> String {
    if let Some(c) = &room.head.conclusion {
        let words = c.statement.as_deref().map(|s| clip(s, 300)).unwrap_or_default();
        return format!("Room closed: it is read-only and its record is final. {words}")
            .trim_end()
            .to_owned();
    }
    let open = room.open_decisions();
    let Some(first) = open.first() else {
        return match room.decisions.last() {
            None => "No question is open yet.".to_owned(),
            Some(d) => {
                let sealed = d.sealed.as_ref().map_or_else(String::new, |s| match &s.winner {
                    Some(w) => format!("it was decided: {}", clip(w, 200)),
                    None => format!("it ended without a winner ({})", s.status),
                });
                format!("Nothing is open. Last question, {}: {sealed}.", clip(&d.question, 200))
            }
        };
    };
    let d = &room.decisions[*first];
    let more =
        if open.len() > 1 { format!(" {} decisions are open.", open.len()) } else { String::new() };
    let prepared = lifecycle::prepare(room, *first);
    match d.phase {
        Phase::Proposing => format!(
            "Collecting options for decision {}: {} ({} so far).{more}",
            d.seq,
            clip(&d.question, 300),
            d.options.len()
        ),
        _ => format!(
            "Deciding now, decision {}: {} — {}/{} responses in, {} s left.{more}",
            d.seq,
            clip(&d.question, 300),
            prepared.responses,
            prepared.eligible,
            seconds_left(d.voting_ends_at, now)
        ),
    }
}

fn can(room: &Room, seat: Option<usize>, authority: &Authority) -> bool {
    let Some(p) = seat.map(|s| &room.participants[s]) else { return false };
    p.role == Role::Participant
        && match authority {
            Authority::None => false,
            Authority::Operator => p.creator,
            Authority::Designated { participant_ids } => participant_ids.contains(&p.id),
            Authority::AnyParticipant => true,
        }
}

fn live_decision(room: &Room, index: usize, seat: Option<usize>, now: i64) -> Value {
    let d = &room.decisions[index];
    let config = &room.head.config;
    let prepared = lifecycle::prepare(room, index);
    let open_slate = d.phase == Phase::Proposing || !d.had_slate_phase;
    let mut out = json!({
        "id": d.id, "seq": d.seq, "question": d.question, "context": d.context,
        "options": d.options, "option_proposers": proposers(room, d), "status": d.phase.name(),
        "can_propose_more": open_slate && can(room, seat, &config.option_proposal_authority),
        "can_start_choosing": d.phase == Phase::Proposing
            && !d.options.is_empty()
            && can(room, seat, &config.decision_opening_authority),
        "closes_at": rfc3339(d.voting_ends_at),
        "seconds_left": seconds_left(d.voting_ends_at, now),
        "choices_cast": prepared.ballots.len(),
        "eligible_voters": prepared.eligible,
        "eligible": names(room, d.eligible.as_ref()),
        "eligible_participant_ids": ids(room, d.eligible.as_ref()),
    });
    if d.agreement {
        out["agreement"] = json!(true);
    }
    if let (Phase::Proposing, Some(end)) = (d.phase, d.proposals_end_at) {
        out["proposals_close_at"] = json!(rfc3339(end));
        out["seconds_until_voting"] = json!(seconds_left(end, now));
    }
    if let Some(settling) = settling(d, now) {
        out["settling"] = settling;
    }
    out
}

/// The default read.
pub fn agent(room: &Room, seat: Option<usize>, ctx: &Ctx<'_>) -> Value {
    let now = ctx.now;
    let config = &room.head.config;
    let open = room.open_decisions();
    let earlier = room.messages.len().saturating_sub(TAIL);
    let discussion: Vec<Value> = room.messages[earlier..]
        .iter()
        .map(|m| {
            let mut out = json!({
                "who": room.participants[m.seat].display_name, "said": clip(&m.body, CLIP),
                "at": rfc3339(m.at),
            });
            if let Some(stance) = &m.stance {
                out["stance"] = json!(stance);
            }
            out
        })
        .collect();
    let sealed: Vec<&Decision> = room.decisions.iter().filter(|d| d.sealed.is_some()).collect();
    let decided_earlier = sealed.len().saturating_sub(10);
    let decided: Vec<Value> = sealed[decided_earlier..]
        .iter()
        .filter_map(|d| d.sealed.as_ref().map(|s| (d, s)))
        .map(|(d, s)| {
            let mut out = json!({
                "seq": d.seq, "question": clip(&d.question, 200), "outcome": s.outcome,
                "status": s.status, "receipt": s.receipt.hash,
            });
            if let Some(winner) = &s.winner {
                out["winner"] = json!(winner);
            }
            out
        })
        .collect();
    let stale = ctx.defects.has(Defect::ResolvedShownLive);
    let live =
        open.first().copied().or_else(|| room.decisions.len().checked_sub(1).filter(|_| stale));
    let mut out = json!({
        "slug": room.head.slug,
        "status": status(room),
        "about": room.head.about,
        "agent": AGENT,
        "brief": brief(room, now),
        "current_through": room.event_head(),
        "decision": live.map(|i| live_decision(room, i, seat, now)),
        "discussion": discussion,
        "roster": roster(room, now),
        "decided": decided,
        "rules": {
            "how_to_choose": config.mechanism().how_to_choose(),
            "can_propose": can(room, seat, &config.option_proposal_authority),
            "choices_lock": if config.early_close { "when_determined" } else { "at_close" },
            "choices_visible": config.choice_visibility,
        },
        "more": links(room, seat, ctx.base),
    });
    if let Some(seat) = seat {
        out["role"] = json!(room.participants[seat].role.name());
    }
    if earlier > 0 {
        out["discussion_earlier"] = json!(earlier);
    }
    if decided_earlier > 0 {
        out["decided_earlier"] = json!(decided_earlier);
    }
    if open.len() > 1 {
        let rows: Vec<Value> = open
            .iter()
            .map(|i| {
                let d = &room.decisions[*i];
                let mut row = json!({
                    "seq": d.seq, "question": clip(&d.question, 200), "status": d.phase.name(),
                    "options": d.options.len(),
                    "choices_cast": lifecycle::prepare(room, *i).ballots.len(),
                    "closes_at": rfc3339(d.voting_ends_at),
                    "seconds_left": seconds_left(d.voting_ends_at, now),
                });
                if d.agreement {
                    row["agreement"] = json!(true);
                }
                if seat.is_some_and(|s| lifecycle::owes(room, *i, s)) {
                    row["needs_you"] = json!(true);
                }
                row
            })
            .collect();
        out["decisions_open"] = json!(rows);
    }
    let subject = open.first().copied().or_else(|| room.decisions.len().checked_sub(1));
    if let Some(index) = subject {
        if choices_shown(room, index) {
            out["choices"] = json!(choices(room, index));
        }
        let abstentions = abstentions(room, index);
        if !abstentions.is_empty() {
            out["abstentions"] = json!(abstentions);
        }
    }
    out
}

fn choices(room: &Room, index: usize) -> Vec<Value> {
    let d = &room.decisions[index];
    d.responses
        .iter()
        .filter_map(|r| match &r.answer {
            Answer::Choice(choice) => Some((r, choice)),
            Answer::Abstain(_) => None,
        })
        .map(|(r, choice)| {
            let mut out = json!({
                "who": room.participants[r.seat].display_name, "at": rfc3339(r.cast_at),
            });
            let number = choice.as_str().and_then(|c| d.options.iter().position(|o| o == c));
            match number {
                Some(n) => out["option"] = json!(n + 1),
                None => out["choice"] = choice.clone(),
            }
            out
        })
        .collect()
}

fn abstentions(room: &Room, index: usize) -> Vec<Value> {
    room.decisions[index]
        .responses
        .iter()
        .filter_map(|r| match &r.answer {
            Answer::Abstain(reason) => Some(json!({
                "who": room.participants[r.seat].display_name, "reason": reason,
                "at": rfc3339(r.cast_at),
            })),
            Answer::Choice(_) => None,
        })
        .collect()
}

fn roster(room: &Room, now: i64) -> Value {
    let joined: Vec<Value> = room
        .participants
        .iter()
        .filter(|p| p.role == Role::Participant)
        .map(|p| json!({ "name": p.display_name, "role": p.role.name() }))
        .collect();
    let observers = room.participants.iter().filter(|p| p.role == Role::Observer).count();
    let expected: Vec<Value> = room
        .invites
        .iter()
        .filter(|i| i.expected && i.status(now) != "revoked")
        .map(|i| json!({ "name": i.label, "role": i.role.name(), "status": i.status(now) }))
        .collect();
    let waiting: Vec<&str> = room
        .invites
        .iter()
        .filter(|i| i.expected && i.status(now) == "pending")
        .map(|i| i.label.as_str())
        .collect();
    let mut out = json!({ "joined": joined, "expected": expected, "waiting_for": waiting });
    if observers > 0 {
        out["observers"] = json!(observers);
    }
    out
}

fn links(room: &Room, seat: Option<usize>, base: &str) -> Value {
    let url = format!("{base}/api/rooms/{}", room.head.slug);
    let config = &room.head.config;
    let mut out = Map::new();
    let mut put = |name: &str, text: String| out.insert(name.to_owned(), json!(text));
    put("wait", format!("GET {url}/next-action?wait=25 (long-poll; call it again on timeout)"));
    put("history", format!("GET {url}/events?since_seq=0"));
    put("config", format!("GET {url}?include=full"));
    put("outcome", format!("GET {url}/outcome"));
    if room.head.conclusion.is_some() {
        return Value::Object(out);
    }
    match seat {
        None => {
            put("join", format!("POST {url}/join {{\"display_name\": …}}"));
        }
        Some(s) if room.participants[s].role == Role::Participant => {
            put("choose", format!("POST {url}/choose {{\"choice\": …}}"));
            put("abstain", format!("POST {url}/abstain {{\"reason\": …}}"));
            put("discuss", format!("POST {url}/discuss {{\"body\": …}}"));
            if can(room, seat, &config.option_proposal_authority) {
                put("propose", format!("POST {url}/options {{\"option\": …}}"));
            }
            if can(room, seat, &config.decision_opening_authority) {
                if config.r#type == RoomType::Persistent {
                    put("ask", format!("POST {url}/ask {{\"question\": …, \"options\": […]}}"));
                }
                let proposing = room
                    .open_decisions()
                    .iter()
                    .any(|i| room.decisions[*i].phase == Phase::Proposing);
                if proposing {
                    put("start_choosing", format!("POST {url}/start-choosing {{}}"));
                }
            }
        }
        Some(_) => {}
    }
    Value::Object(out)
}

/// The anchored delta: everything substantive after event `since`.
pub fn delta(room: &Room, seat: Option<usize>, since: u64, ctx: &Ctx<'_>) -> Value {
    let after = usize::try_from(since).unwrap_or(usize::MAX);
    let news: Vec<Value> = room
        .events
        .iter()
        .skip(after)
        .filter_map(|e| {
            let kind = match e.event_type.as_str() {
                "discussion.posted" => "discussion",
                "option.proposed" => "option_proposed",
                "decision.opened" => "decision_opened",
                "decision.voting_phase_started" => "choosing_started",
                "choice.submitted" => "choice_submitted",
                "choice.abstained" => "abstained",
                "decision.completed" => "decision_resolved",
                "participant.joined" => "joined",
                "participant.role_updated" => "role_updated",
                "invite.created" => "invite_created",
                "room.concluded" => "room_concluded",
                _ => return None,
            };
            let mut out = json!({ "type": kind, "seq": e.seq, "at": rfc3339(e.at) });
            if let Some(who) = e.actor {
                out["who"] = json!(room.participants[who].display_name);
            }
            let wanted = [
                "body",
                "stance",
                "question",
                "option",
                "number",
                "winner",
                "outcome",
                "reason",
                "choice",
                "role",
                "label",
                "receipt_hash",
            ];
            for name in wanted {
                if let Some(v) = e.data.get(name).filter(|v| !v.is_null()) {
                    let name = if name == "body" { "said" } else { name };
                    out[name] = v.clone();
                }
            }
            if let Some(n) = e.data.get("seq") {
                out["decision"] = n.clone();
            }
            Some(out)
        })
        .collect();
    let mut out = json!({
        "slug": room.head.slug, "status": status(room), "agent": AGENT,
        "state": brief(room, ctx.now), "new": news, "current_through": room.event_head(),
        "more": links(room, seat, ctx.base),
    });
    if let Some(seat) = seat {
        out["role"] = json!(room.participants[seat].role.name());
        let owed: Vec<u64> = room
            .open_decisions()
            .into_iter()
            .filter(|i| lifecycle::owes(room, *i, seat))
            .map(|i| room.decisions[i].seq)
            .collect();
        if !owed.is_empty() {
            out["your_status"] = json!(if room.open_decisions().len() == 1 {
                "you have not chosen on the open decision".to_owned()
            } else {
                let list = owed.iter().map(u64::to_string).collect::<Vec<_>>().join(" and ");
                format!(
                    "you have not chosen on decisions {list} (target each with decision: <seq>)"
                )
            });
        }
    }
    out
}
