//! Time and outcome: who is eligible, when a decision opens, locks, settles and seals, and
//! the receipt it seals with.
//!
//! Every function takes the time; none asks for it. A decision's sealed state and its
//! receipt change together, within one commit of the room.

use ap_protocol::SecretKey;
use serde_json::{Value, json};

use super::clock::{Entropy, rfc3339};
use super::config::{ChoiceVisibility, RoomType};
use super::defects::{Defect, Defects};
use super::engine::{Ballot, Parameters, Rule, Run, Tally, TieBreak, Verdict, scores_json};
use super::jws;
use super::model::{Agent, Answer, Conclusion, Kind, Phase, Receipt, Role, Room, Sealed, Settle};

/// What acts need besides the room.
#[derive(Debug, Clone, Copy)]
pub struct Ctx<'a> {
    /// Unix ms.
    pub now: i64,
    /// Ids.
    pub entropy: &'a Entropy,
    /// The room key.
    pub key: &'a SecretKey,
    /// Its name.
    pub kid: &'a str,
    /// Origin of the host, without a slash at the end.
    pub base: &'a str,
    /// Transport of the call, for the audit log.
    pub transport: &'a str,
    /// Switched-on defects.
    pub defects: &'a Defects,
}

impl Ctx<'_> {
    fn room_url(&self, room: &Room) -> String {
        format!("{}/api/rooms/{}", self.base, room.head.slug)
    }
}

/// A member as receipts and audit entries name it.
pub fn agent_id(room: &Room, seat: usize, mandate: Option<&Agent>) -> String {
    match mandate {
        Some(agent) => agent.sub.clone(),
        None => format!("participant:{}", room.participants[seat].id),
    }
}

/// Seats that may choose on a decision.
pub fn electorate(room: &Room, decision: usize) -> Vec<usize> {
    (0..room.participants.len()).filter(|s| is_eligible(room, decision, *s)).collect()
}

/// Whether a seat may choose on a decision.
pub fn is_eligible(room: &Room, decision: usize, seat: usize) -> bool {
    let p = &room.participants[seat];
    if p.role != Role::Participant {
        return false;
    }
    match &room.decisions[decision].eligible {
        Some(seats) => seats.contains(&seat),
        None => room.head.config.creator_votes || !p.creator,
    }
}

/// Whether an eligible seat still owes its response.
pub fn owes(room: &Room, decision: usize, seat: usize) -> bool {
    let d = &room.decisions[decision];
    if d.phase != Phase::Voting || d.options.is_empty() || d.by_seat.contains_key(&seat) {
        return false;
    }
    if !is_eligible(room, decision, seat) {
        return false;
    }
    // An agreement is owed by the last hold-out only: everybody else accepted one option.
    !d.agreement || agreed_option(room, decision, Some(seat)).is_some()
}

/// The one option every eligible seat (besides `but`) accepted.
fn agreed_option(room: &Room, decision: usize, but: Option<usize>) -> Option<String> {
    let d = &room.decisions[decision];
    let mut agreed: Option<&str> = None;
    let mut voters = 0;
    for seat in electorate(room, decision).into_iter().filter(|s| Some(*s) != but) {
        let response = &d.responses[*d.by_seat.get(&seat)?];
        let Answer::Choice(Value::String(option)) = &response.answer else { return None };
        if agreed.is_some_and(|a| a != option) {
            return None;
        }
        agreed = Some(option);
        voters += 1;
    }
    let floor = room.head.config.quorum.unwrap_or(0) - i64::from(but.is_some());
    (voters >= floor).then(|| agreed.map(str::to_owned)).flatten()
}

/// Everything one run of the mechanism takes.
pub struct Prepared {
    /// Parameters.
    pub parameters: Parameters,
    /// Ballots of the eligible, in cast order.
    pub ballots: Vec<Ballot>,
    /// Electorate the maths measures against.
    pub eligible: u64,
    /// Ballots and abstentions.
    pub responses: u64,
}

impl Prepared {
    fn run<'a>(&'a self, seed: &'a str) -> Run<'a> {
        Run {
            parameters: &self.parameters,
            eligible_voters: self.eligible,
            participating: Some(self.responses),
            ballots: &self.ballots,
            seed,
        }
    }
}

/// Collects what a run of the decision's mechanism takes, as things stand.
pub fn prepare(room: &Room, decision: usize) -> Prepared {
    let d = &room.decisions[decision];
    let config = &room.head.config;
    let members = electorate(room, decision).len() as u64;
    let floor = config.quorum.and_then(|q| u64::try_from(q).ok());
    let eligible = members.max(floor.unwrap_or(0));
    let mut ballots = Vec::new();
    let mut responses = 0;
    for r in &d.responses {
        if is_eligible(room, decision, r.seat) {
            responses += 1;
            if let Answer::Choice(choice) = &r.answer {
                ballots.push(Ballot {
                    voter: agent_id(room, r.seat, r.mandate.as_ref()),
                    choice: choice.clone(),
                    weight: 1.0,
                });
            }
        }
    }
    let needed = floor.unwrap_or(1);
    let quorum = if eligible == 0 { 1.0 } else { (needed as f64 / eligible as f64).min(1.0) };
    let mut parameters = config.mechanism().parameters(d.options.clone(), quorum);
    if d.agreement {
        parameters.quorum = 1.0;
        parameters.tie_break = TieBreak::NoPass;
        parameters.rule = Rule::Generic {
            approval: false,
            pass_threshold: 1.0,
            strict: Some(false),
            plurality_fallthrough: Some(false),
        };
    }
    Prepared { parameters, ballots, eligible, responses }
}

/// What a locked decision would seal with; `None` while anything can still change it.
fn determined(room: &Room, decision: usize, ctx: &Ctx<'_>) -> Option<Option<String>> {
    let d = &room.decisions[decision];
    if d.phase != Phase::Voting || d.options.is_empty() {
        return None;
    }
    if d.agreement {
        return agreed_option(room, decision, None).map(Some);
    }
    if !room.head.config.early_close {
        return None;
    }
    let gates = ctx.defects.has(Defect::PendingInvitesGate);
    let awaited = |i: &super::model::Invite| {
        (i.expected && i.role == Role::Participant || gates) && i.status(ctx.now) == "pending"
    };
    if (d.eligible.is_none() || gates) && room.invites.iter().any(awaited) {
        return None;
    }
    if ctx.defects.has(Defect::RankedNeverLocks) && room.head.config.mechanism.starts_with("ranked")
    {
        return None;
    }
    let prepared = prepare(room, decision);
    let run = prepared.run(&d.id);
    if prepared.responses == 0 || !run.locked().unwrap_or(false) {
        return None;
    }
    let tally = run.tally().ok()?;
    tally.quorum_met.then_some(tally.winner)
}

/// Restarts a settle window at most this often: revisions cannot postpone a seal for ever.
const MAX_SETTLE_RESTARTS: u32 = 4;

/// Looks at every open decision again after something changed who or what counts.
pub fn reconsider(room: &mut Room, ctx: &Ctx<'_>) {
    for i in room.open_decisions() {
        let Some(winner) = determined(room, i, ctx) else {
            if room.decisions[i].settle.take().is_some() {
                room.touch(Kind::Decision, i);
            }
            continue;
        };
        let window_ms = room.head.config.settle_window * 1_000;
        let d = &mut room.decisions[i];
        match &mut d.settle {
            Some(settle) if settle.presumptive == winner => {}
            Some(settle)
                if d.settle_restarts >= MAX_SETTLE_RESTARTS
                    && !ctx.defects.has(Defect::SettleForever) =>
            {
                settle.presumptive = winner;
            }
            running => {
                if running.is_some() {
                    d.settle_restarts += 1;
                }
                *running = Some(Settle { seals_at: ctx.now + window_ms, presumptive: winner });
            }
        }
        room.touch(Kind::Decision, i);
    }
    advance(room, ctx);
}

/// The next moment at which time alone changes this room (Unix ms).
pub fn next_deadline(room: &Room, now: i64) -> Option<i64> {
    if room.head.conclusion.is_some() {
        return None;
    }
    let decisions = room.open_decisions().into_iter().map(|i| due_at(room, i));
    let invites = room
        .invites
        .iter()
        .filter(|i| !i.expired && i.expected && i.status(now) == "pending")
        .filter_map(|i| i.expires_at);
    decisions.chain(invites).min()
}

fn due_at(room: &Room, decision: usize) -> i64 {
    let d = &room.decisions[decision];
    match d.phase {
        Phase::Proposing if !d.options.is_empty() => {
            d.proposals_end_at.unwrap_or(i64::MAX).min(d.voting_ends_at)
        }
        _ => d.settle.as_ref().map_or(d.voting_ends_at, |s| s.seals_at.min(d.voting_ends_at)),
    }
}

/// Carries out everything that time has made due, in the order it became due.
pub fn advance(room: &mut Room, ctx: &Ctx<'_>) {
    if room.head.conclusion.is_some() {
        return;
    }
    let mut expired = false;
    for i in 0..room.invites.len() {
        let invite = &mut room.invites[i];
        if !invite.expired
            && invite.seat.is_none()
            && invite.revoked_at.is_none()
            && invite.expires_at.is_some_and(|e| e <= ctx.now)
        {
            invite.expired = true;
            expired |= invite.expected;
            room.touch(Kind::Invite, i);
        }
    }
    loop {
        let due = room
            .open_decisions()
            .into_iter()
            .map(|i| (due_at(room, i), i))
            .filter(|(at, _)| *at <= ctx.now)
            .min();
        let Some((at, i)) = due else { break };
        let d = &room.decisions[i];
        if d.phase == Phase::Proposing && !d.options.is_empty() {
            start_voting(room, i, at, None, "proposal_window", ctx);
        } else {
            seal(room, i, at, ctx);
        }
    }
    if expired {
        reconsider(room, ctx);
    }
}

/// Opens choosing: the slate freezes.
pub fn start_voting(
    room: &mut Room,
    decision: usize,
    at: i64,
    seat: Option<usize>,
    authority: &str,
    ctx: &Ctx<'_>,
) {
    let d = &mut room.decisions[decision];
    d.phase = Phase::Voting;
    d.voting_started_at = Some(at);
    d.voting_ends_at = at + d.voting_window_ms;
    let (seq, ends) = (d.seq, d.voting_ends_at);
    room.touch(Kind::Decision, decision);
    let by = seat.map(|s| actor_json(room, s));
    let data = json!({ "seq": seq, "voting_ends_at": rfc3339(ends), "started_by": by });
    let id = ctx.entropy.uuid();
    room.emit(id, ctx.now, "decision.voting_phase_started", Some(decision), seat, data);
    let actor = seat.map_or("host".to_owned(), |s| room.participants[s].id.clone());
    room.log(
        ctx.now,
        "decision.voting_phase_started",
        &actor,
        authority,
        ctx.transport,
        json!({ "decision": seq }),
    );
}

/// A member as events name it.
pub fn actor_json(room: &Room, seat: usize) -> Value {
    let p = &room.participants[seat];
    json!({ "display_name": p.display_name, "participant_id": p.id })
}

/// Seals a decision: tally, receipt, event and audit entry, all or none.
fn seal(room: &mut Room, decision: usize, at: i64, ctx: &Ctx<'_>) {
    let prepared = prepare(room, decision);
    let d = &room.decisions[decision];
    // An empty slate, or counts that contradict each other, end as nothing won.
    let mut tally = prepared.run(&d.id).tally().unwrap_or_else(|_| Tally {
        verdict: Verdict::NoPass,
        winner: None,
        scores: Vec::new(),
        cast_votes: prepared.ballots.len() as u64,
        eligible_voters: prepared.eligible,
        quorum_met: prepared.responses > 0,
        threshold_met: None,
        invalid_votes: 0,
        trace: serde_json::Map::new(),
    });
    if tally.winner.is_none() && ctx.defects.has(Defect::TiedIsWinner) {
        tally.winner = Some("tied".to_owned());
    }
    let status = match (&tally.winner, tally.quorum_met, tally.verdict) {
        (Some(_), ..) => "completed",
        (None, false, _) => "no_quorum",
        (None, true, Verdict::Tied) => "tied",
        _ => "rejected",
    };
    let receipt = decision_receipt(room, decision, at, &prepared, &tally, status, ctx);
    let d = &mut room.decisions[decision];
    let mut payload = tally.to_json();
    payload["parameters"] = Value::Object(prepared.parameters.to_json());
    d.phase = Phase::Resolved;
    d.settle = None;
    let data = json!({
        "seq": d.seq, "outcome": tally.verdict.name(), "winner": tally.winner,
        "receipt_hash": receipt.hash,
    });
    let (seq, hash) = (d.seq, receipt.hash.clone());
    d.sealed = Some(Sealed {
        at,
        outcome: tally.verdict.name().to_owned(),
        status: status.to_owned(),
        winner: tally.winner,
        payload,
        receipt,
    });
    room.head.last_receipt = Some(hash.clone());
    room.touch(Kind::Head, 0);
    room.touch(Kind::Decision, decision);
    let id = ctx.entropy.uuid();
    room.emit(id, ctx.now, "decision.completed", Some(decision), None, data);
    let subject = json!({ "decision": seq });
    room.log(ctx.now, "decision.completed", "host", "mechanism", ctx.transport, subject.clone());
    room.log(ctx.now, "receipt.emitted", "host", "room_key", ctx.transport, subject);
}

fn decision_receipt(
    room: &Room,
    decision: usize,
    at: i64,
    prepared: &Prepared,
    tally: &Tally,
    status: &str,
    ctx: &Ctx<'_>,
) -> Receipt {
    let d = &room.decisions[decision];
    let config = &room.head.config;
    let mut parameters = prepared.parameters.to_json();
    parameters.insert("question".into(), json!(d.question));
    parameters.insert("deterministic_seed".into(), json!(d.id));
    if d.agreement {
        parameters.insert("agreement".into(), json!(true));
    }
    let hidden = config.choice_visibility == ChoiceVisibility::Never;
    let counted = |seat: usize| is_eligible(room, decision, seat);
    let votes: Vec<Value> = d
        .responses
        .iter()
        .filter(|r| !hidden && counted(r.seat))
        .filter_map(|r| match &r.answer {
            Answer::Choice(choice) => Some((r, choice)),
            Answer::Abstain(_) => None,
        })
        .map(|(r, choice)| {
            let mandate_ref = r
                .mandate
                .as_ref()
                .map(|m| m.jti.clone())
                .filter(|_| !ctx.defects.has(Defect::NoMandateRef));
            json!({
                "agent_id": agent_id(room, r.seat, r.mandate.as_ref()), "choice": choice,
                "weight": 1, "cast_at": rfc3339(r.cast_at), "mandate_ref": mandate_ref,
                "signature": null,
            })
        })
        .collect();
    let abstentions: Vec<Value> = d
        .responses
        .iter()
        .filter(|r| counted(r.seat))
        .filter(|_| !(hidden && ctx.defects.has(Defect::AbstentionHidden)))
        .filter_map(|r| match &r.answer {
            Answer::Abstain(reason) => Some((r, reason)),
            Answer::Choice(_) => None,
        })
        .map(|(r, reason)| {
            json!({
                "agent_id": agent_id(room, r.seat, r.mandate.as_ref()), "reason": reason,
                "declared_at": rfc3339(r.cast_at),
                "mandate_ref": r.mandate.as_ref().map(|m| m.jti.clone()),
            })
        })
        .collect();
    let messages = room.messages.iter().filter(|m| m.decision == Some(decision)).count();
    let kind = match config.r#type {
        RoomType::Persistent => "standing",
        RoomType::Ephemeral => "ephemeral",
    };
    let started = d.voting_started_at.unwrap_or(at);
    let grp = json!({
        "decision_id": format!("urn:uuid:{}", d.id),
        "decision_kind": kind,
        "room_id": ctx.room_url(room),
        "mechanism": { "kind": config.mechanism, "parameters": parameters },
        "windows": {
            "deliberation_started_at": rfc3339(d.opened_at),
            "voting_started_at": rfc3339(started),
            "voting_ended_at": rfc3339(at),
            "cooldown_ended_at": rfc3339(at),
        },
        "deliberation_message_count": messages,
        "votes": votes,
        "abstentions": abstentions,
        "overrides": [],
        "outcome": {
            "status": status,
            "winning_option": tally.winner,
            "tallies": scores_json(&tally.scores),
            "diagnostics": {
                "cast_votes": tally.cast_votes, "eligible_voters": tally.eligible_voters,
                "responses": prepared.responses, "verdict": tally.verdict.name(),
                "quorum_met": tally.quorum_met,
            },
        },
        "sequence": d.seq + u64::from(ctx.defects.has(Defect::WrongSequence)),
    });
    sign_receipt(room, grp, ctx)
}

/// Signs a receipt onto the end of the room's chain.
fn sign_receipt(room: &Room, mut grp: Value, ctx: &Ctx<'_>) -> Receipt {
    let prev_hash = room.head.last_receipt.clone();
    let signed_prev = match &prev_hash {
        Some(hash) if ctx.defects.has(Defect::WrongPrevHash) => Some(jws::receipt_hash(hash)),
        other => other.clone(),
    };
    grp["prev_hash"] = json!(signed_prev);
    let url = ctx.room_url(room);
    let payload = json!({
        "iss": url, "aud": url, "jti": format!("urn:uuid:{}", ctx.entropy.uuid()),
        "iat": ctx.now.div_euclid(1_000), "grp": grp,
    });
    let jws = jws::sign(ctx.key, ctx.kid, jws::RECEIPT_TYP, &payload);
    Receipt { hash: jws::receipt_hash(&jws), jws, prev_hash }
}

/// Ends the room: the conclusion receipt terminates the chain.
pub fn conclude(
    room: &mut Room,
    seat: usize,
    mandate: Option<&Agent>,
    statement: Option<String>,
    authority: &str,
    ctx: &Ctx<'_>,
) {
    let now = rfc3339(ctx.now);
    let grp = json!({
        "decision_id": format!("urn:uuid:{}", room.head.id),
        "decision_kind": "conclusion",
        "room_id": ctx.room_url(room),
        "mechanism": { "kind": "conclusion", "parameters": { "question": "", "options": [] } },
        "windows": {
            "deliberation_started_at": rfc3339(room.head.created_at), "voting_started_at": now,
            "voting_ended_at": now, "cooldown_ended_at": now,
        },
        "deliberation_message_count":
            room.messages.iter().filter(|m| m.decision.is_none()).count(),
        "votes": [], "overrides": [],
        "outcome": {
            "status": "completed", "winning_option": null, "tallies": {},
            "diagnostics": { "cast_votes": 0, "eligible_voters": 0 },
        },
        "sequence": room.decisions.len() + 1,
        "closing_statement": statement,
        "concluded_by": agent_id(room, seat, mandate),
    });
    let receipt = sign_receipt(room, grp, ctx);
    room.head.last_receipt = Some(receipt.hash.clone());
    let data = json!({
        "participant": actor_json(room, seat), "receipt_hash": receipt.hash,
        "closing_statement": statement.as_deref().map(|s| super::views::clip(s, 2_000)),
    });
    room.head.conclusion = Some(Conclusion { at: ctx.now, statement, receipt });
    room.touch(Kind::Head, 0);
    room.emit(ctx.entropy.uuid(), ctx.now, "room.concluded", None, Some(seat), data);
    let actor = room.participants[seat].id.clone();
    room.log(ctx.now, "room.concluded", &actor, authority, ctx.transport, json!({}));
    room.log(ctx.now, "receipt.emitted", "host", "room_key", ctx.transport, json!({}));
}
