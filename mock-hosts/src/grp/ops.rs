//! The acts of members on decisions: ask, start choosing, propose, discuss, choose, abstain,
//! close. Each validates everything before it changes anything.

use serde_json::{Value, json};

use super::args::{self, Args};
use super::ballots;
use super::clock::rfc3339;
use super::config::{Authority, DeliberationMode};
use super::core::{Call, Caller, Core, Op};
use super::defects::Defect;
use super::engine::Mechanism;
use super::error::GrpError;
use super::lifecycle::{self, Ctx, actor_json};
use super::model::{Answer, Decision, Kind, Message, Phase, Response, Role, Room};
use super::views;

/// What an act works with.
pub(super) struct Act<'a> {
    pub core: &'a Core,
    pub caller: &'a Caller,
    pub args: Args<'a>,
    pub ctx: &'a Ctx<'a>,
}

impl Core {
    /// Carries out an act of somebody who passed the door.
    pub(super) fn act(
        &self,
        room: &mut Room,
        call: &Call,
        caller: &Caller,
    ) -> Result<Value, GrpError> {
        let admits = call.op == Op::JoinRoom && self.has(Defect::ConcludedRoomAdmits);
        if call.op.mutates()
            && call.op != Op::DeleteRoom
            && room.head.conclusion.is_some()
            && !admits
        {
            return Err(GrpError::new(
                "room.concluded",
                "This room is closed and read-only for good; read its outcome instead.",
            ));
        }
        self.with_ctx(call.transport, |ctx| {
            let act = Act { core: self, caller, args: Args::new(&call.args), ctx };
            let answer = match call.op {
                Op::JoinRoom => act.join(room),
                Op::Ask => act.ask(room),
                Op::StartChoosing => act.start_choosing(room),
                Op::Choose => act.choose(room),
                Op::Abstain => act.abstain(room),
                Op::Discuss => act.discuss(room),
                Op::Propose => act.propose(room),
                Op::CloseRoom => act.close(room),
                Op::ReadRoom => act.read(room),
                Op::Outcome => Ok(views::outcome(room, ctx.base)),
                Op::ListDecisions => Ok(views::decisions(room)),
                Op::ListEvents => act.events(room),
                Op::DeleteRoom => act.delete(room),
                Op::InviteToRoom => act.invite(room),
                Op::ListInvites => act.invites(room),
                Op::RevokeInvite => act.revoke_invite(room),
                Op::UpdateMember => act.update_member(room),
                Op::UpdateRoomSettings => act.update_settings(room),
                Op::RegisterWebhook => act.register_webhook(room),
                Op::UnregisterWebhook => act.unregister_webhook(room),
                Op::ListWebhooks => act.webhooks(room),
                Op::CreateRoom | Op::ListRooms | Op::Wait | Op::WaitOutcome => {
                    unreachable!("these do not act inside one locked room")
                }
            };
            if answer.is_ok() && call.op.action().is_some() {
                self.count_act(room, caller);
            }
            answer
        })
    }
}

impl Act<'_> {
    /// The caller's seat, refused when it only watches.
    fn actor(&self, room: &Room) -> Result<usize, GrpError> {
        let seat = self.caller.member();
        if room.participants[seat].role == Role::Observer && !self.core.has(Defect::ObserverActs) {
            return Err(GrpError::new(
                "authority.denied",
                "Observers read this room and do not act in it.",
            ));
        }
        Ok(seat)
    }

    /// The decision an act means: the selected one, or the oldest open one.
    fn target(&self, room: &Room) -> Result<usize, GrpError> {
        let selected = self.args.integer("decision", 1, i64::MAX >> 11)?;
        let open = room.open_decisions();
        let Some(seq) = selected else {
            return open.first().copied().ok_or_else(|| {
                GrpError::new("decision.not_open", "No decision is open; ask a question first.")
            });
        };
        let index = usize::try_from(seq - 1).unwrap_or(usize::MAX);
        match room.decisions.get(index) {
            None => {
                let list: Vec<Value> = open
                    .iter()
                    .map(|i| &room.decisions[*i])
                    .map(|d| json!({ "seq": d.seq, "question": views::clip(&d.question, 200) }))
                    .collect();
                let named = open
                    .iter()
                    .map(|i| &room.decisions[*i])
                    .map(|d| format!("{} ({})", d.seq, views::clip(&d.question, 80)))
                    .collect::<Vec<_>>();
                Err(GrpError::new(
                    "decision.not_found",
                    format!(
                        "There is no decision {seq} in this room. Open: {}.",
                        if named.is_empty() { "none".to_owned() } else { named.join("; ") }
                    ),
                )
                .with(json!({ "open": list })))
            }
            Some(d) if d.phase == Phase::Resolved => Err(GrpError::new(
                "decision.not_open",
                format!("Decision {seq} is sealed and takes nothing more."),
            )),
            Some(_) => Ok(index),
        }
    }

    /// Writes the audit entry of an act by a member.
    pub(super) fn log(&self, room: &mut Room, action: &str, authority: &str, subject: Value) {
        let actor = room.participants[self.caller.member()].id.clone();
        room.log(self.ctx.now, action, &actor, authority, self.ctx.transport, subject);
    }

    fn ask(&self, room: &mut Room) -> Result<Value, GrpError> {
        let seat = self.actor(room)?;
        let config = room.head.config.clone();
        let authority =
            self.core.authorize(room, seat, &config.decision_opening_authority, "asking")?;
        let open = room.open_decisions();
        let index = self.open_decision(room, seat, authority, |act, room| {
            let question = act.args.required("question", 3, 500)?.to_owned();
            let options = act.args.strings("options")?.unwrap_or_default();
            if open.len() as i64 >= config.max_open_decisions {
                let named: Vec<String> = open
                    .iter()
                    .map(|i| &room.decisions[*i])
                    .map(|d| format!("{} ({})", d.seq, views::clip(&d.question, 80)))
                    .collect();
                return Err(GrpError::new(
                    "decision.already_open",
                    format!(
                        "This room holds {} open decision(s) at most; open now: {}. Choose on \
                         one, or wait until it seals.",
                        config.max_open_decisions,
                        named.join("; ")
                    ),
                ));
            }
            Ok((question, options))
        })?;
        let decision = views::decision_brief(room, index);
        Ok(json!({ "ok": true, "slug": room.head.slug, "decision": decision }))
    }

    /// Validates and opens a decision; also used by room creation.
    pub(super) fn open_decision(
        &self,
        room: &mut Room,
        seat: usize,
        authority: &str,
        read: impl FnOnce(&Self, &Room) -> Result<(String, Vec<String>), GrpError>,
    ) -> Result<usize, GrpError> {
        let (question, options) = read(self, room)?;
        let config = &room.head.config;
        let context = self.args.text("context", 0, 20_000)?.map(str::to_owned);
        validate_slate(&options, config.max_options)?;
        if config.option_proposal_authority == Authority::None && options.len() < 2 {
            return Err(GrpError::input(
                "At least 2 options are needed, because this room takes no proposals.",
            ));
        }
        let window_s = self.args.integer("voting_window", 1, 1_209_600)?;
        let proposals_s = self.args.integer("proposal_window", 1, 1_209_600)?;
        let agreement = self.args.flag("agreement")?.unwrap_or(false);
        if agreement
            && !matches!(config.mechanism(), Mechanism::SimpleMajority | Mechanism::Supermajority)
        {
            return Err(GrpError::input(
                "agreement needs a room whose mechanism is simple_majority or supermajority.",
            ));
        }
        let eligible = self.electorate(room)?;
        let now = self.ctx.now;
        let voting_window_ms = window_s.unwrap_or(config.voting_window) * 1_000;
        let proposals_end_at = proposals_s.map(|s| now + s * 1_000);
        let index = room.decisions.len();
        let proposing = proposals_end_at.is_some();
        room.decisions.push(Decision {
            id: self.ctx.entropy.uuid(),
            seq: index as u64 + 1,
            question,
            context,
            proposers: vec![None; options.len()],
            options,
            eligible,
            agreement,
            opened_by: seat,
            opened_at: now,
            proposals_end_at,
            had_slate_phase: proposing,
            voting_started_at: (!proposing).then_some(now),
            voting_ends_at: proposals_end_at.unwrap_or(now) + voting_window_ms,
            voting_window_ms,
            phase: if proposing { Phase::Proposing } else { Phase::Voting },
            settle: None,
            settle_restarts: 0,
            sealed: None,
            opener_told: false,
            responses: Vec::new(),
            by_seat: std::collections::HashMap::new(),
        });
        room.touch(Kind::Decision, index);
        let d = &room.decisions[index];
        let data = json!({
            "seq": d.seq, "question": d.question, "options": d.options.len(),
            "status": d.phase.name(), "voting_ends_at": rfc3339(d.voting_ends_at),
            "opened_by": actor_json(room, seat),
        });
        let subject = json!({ "decision": d.seq });
        let id = self.ctx.entropy.uuid();
        room.emit(id, now, "decision.opened", Some(index), Some(seat), data);
        let actor = room.participants[seat].id.clone();
        room.log(now, "decision.opened", &actor, authority, self.ctx.transport, subject);
        Ok(index)
    }

    fn electorate(&self, room: &Room) -> Result<Option<Vec<usize>>, GrpError> {
        let ids = self.args.strings("eligible_participant_ids")?;
        let names = self.args.strings("eligible")?;
        if ids.is_none() && names.is_none() {
            return Ok(None);
        }
        let mut seats = Vec::new();
        for id in ids.unwrap_or_default() {
            seats.push(room.seat_of(&id).ok_or_else(|| {
                GrpError::input("eligible_participant_ids names somebody who is not in this room.")
            })?);
        }
        for name in names.unwrap_or_default() {
            seats.push(seat_by_name(room, &name)?);
        }
        seats.sort_unstable();
        seats.dedup();
        if seats.is_empty() {
            return Err(GrpError::input("An explicit electorate must name somebody."));
        }
        if seats.iter().any(|s| room.participants[*s].role == Role::Observer) {
            return Err(GrpError::input("An observer cannot be eligible."));
        }
        Ok(Some(seats))
    }

    fn start_choosing(&self, room: &mut Room) -> Result<Value, GrpError> {
        let seat = self.actor(room)?;
        let authority = room.head.config.decision_opening_authority.clone();
        let authority = self.core.authorize(room, seat, &authority, "opening choosing")?;
        let index = match self.args.text("decision_id", 1, 200)? {
            None => {
                let open = room.open_decisions();
                let proposing = open.iter().find(|i| room.decisions[**i].phase == Phase::Proposing);
                proposing.or(open.first()).copied().ok_or_else(|| {
                    GrpError::new("decision.not_open", "No decision is open; ask a question first.")
                })?
            }
            Some(id) => {
                let found = room.decisions.iter().position(|d| d.id == id);
                let index = found.ok_or_else(|| {
                    GrpError::new("decision.not_found", "This room has no such decision.")
                })?;
                if room.decisions[index].phase == Phase::Resolved {
                    return Err(GrpError::new("decision.not_open", "That decision is sealed."));
                }
                index
            }
        };
        let already =
            room.decisions[index].phase == Phase::Voting && !self.core.has(Defect::StartTwice);
        if !already {
            if room.decisions[index].options.is_empty() {
                return Err(GrpError::input(
                    "An empty slate cannot be chosen from: propose an option first.",
                ));
            }
            lifecycle::start_voting(room, index, self.ctx.now, Some(seat), authority, self.ctx);
        }
        let decision = views::decision_brief(room, index);
        let mut out = json!({ "ok": true, "slug": room.head.slug, "decision": decision });
        if already {
            out["already_open"] = json!(true);
        }
        Ok(out)
    }

    fn propose(&self, room: &mut Room) -> Result<Value, GrpError> {
        let seat = self.actor(room)?;
        let option = self.args.required("option", 1, 500_000)?.to_owned();
        let authority = room.head.config.option_proposal_authority.clone();
        let authority = self.core.authorize(room, seat, &authority, "proposing options")?;
        let index = self.target(room)?;
        let max = room.head.config.max_options;
        let d = &mut room.decisions[index];
        if d.phase == Phase::Voting && d.had_slate_phase {
            return Err(GrpError::new(
                "decision.not_open",
                "The slate of this decision is frozen: choosing is open.",
            ));
        }
        let refuse = |d: &Decision, reason: &str| {
            Ok(json!({
                "accepted": false, "options": d.options,
                "choosing_open": d.phase == Phase::Voting, "reason": reason,
            }))
        };
        if d.options.contains(&option) {
            return refuse(d, "This option is on the slate already.");
        }
        if d.options.len() as i64 >= max {
            return Err(GrpError::input(format!("The slate is full: {max} options.")));
        }
        if d.options.is_empty() && d.phase == Phase::Proposing {
            // The proposal time is over and waited for a first option.
            d.proposals_end_at = d.proposals_end_at.map(|end| end.max(self.ctx.now));
        }
        d.options.push(option.clone());
        d.proposers.push(Some(seat));
        let (seq, number) = (d.seq, d.options.len());
        room.touch(Kind::Decision, index);
        let data = json!({
            "seq": seq, "number": number, "option": views::clip(&option, 500),
            "proposed_by": actor_json(room, seat),
        });
        let id = self.ctx.entropy.uuid();
        room.emit(id, self.ctx.now, "option.proposed", Some(index), Some(seat), data);
        self.log(room, "option.proposed", authority, json!({ "decision": seq, "number": number }));
        lifecycle::reconsider(room, self.ctx);
        let d = &room.decisions[index];
        Ok(json!({
            "accepted": true, "options": d.options, "choosing_open": d.phase == Phase::Voting,
        }))
    }

    fn discuss(&self, room: &mut Room) -> Result<Value, GrpError> {
        let seat = self.actor(room)?;
        let uncapped = self.core.has(Defect::DiscussionUncapped);
        let longest = if uncapped { 1_000_000 } else { 100_000 };
        let body = self.args.required("body", 1, longest)?.to_owned();
        let stance = self.args.text("stance", 1, 20)?.map(str::to_owned);
        if stance
            .as_deref()
            .is_some_and(|s| !["agree", "disagree", "clarify", "extend"].contains(&s))
        {
            return Err(GrpError::input("stance must be agree, disagree, clarify or extend."));
        }
        let config = &room.head.config;
        if config.deliberation_mode == DeliberationMode::Disabled && !uncapped {
            return Err(GrpError::new("authority.denied", "Discussion is disabled in this room."));
        }
        let mine = room.messages.iter().filter(|m| m.seat == seat).count() as i64;
        let full = mine >= config.max_deliberation_messages_per_participant
            || room.messages.len() as i64 >= config.max_total_deliberation_messages;
        if full && !uncapped {
            return Err(GrpError::input("The room's cap on discussion messages is reached."));
        }
        let decision = if self.args.get("decision").is_some() {
            Some(self.target(room)?)
        } else {
            room.open_decisions().first().copied()
        };
        let now = self.ctx.now;
        let id = self.ctx.entropy.uuid();
        let mut data = json!({
            "message_id": id, "participant": actor_json(room, seat), "stance": stance,
            "body": views::clip(&body, 2_000), "truncated": body.chars().count() > 2_000,
        });
        if self.core.has(Defect::TokenInEvent) {
            data["token_hint"] = json!(self.ctx.entropy.token("t_"));
        }
        let event = room.emit(
            self.ctx.entropy.uuid(),
            now,
            "discussion.posted",
            decision,
            Some(seat),
            data,
        );
        let index = room.messages.len();
        room.messages.push(Message {
            id: id.clone(),
            seat,
            body,
            stance,
            at: now,
            decision,
            event,
        });
        room.touch(Kind::Message, index);
        room.participants[seat].deliberated_at = Some(now);
        room.touch(Kind::Participant, seat);
        let seq = decision.map(|i| room.decisions[i].seq);
        self.log(room, "discussion.posted", "member", json!({ "decision": seq }));
        Ok(json!({ "ok": true, "id": id }))
    }

    fn choose(&self, room: &mut Room) -> Result<Value, GrpError> {
        let seat = self.actor(room)?;
        let choice =
            self.args.get("choice").ok_or_else(|| GrpError::input("choice is required."))?;
        let rationale = self.args.text("rationale", 0, 2_000)?.map(str::to_owned);
        if let Some(weight) = self.args.get("weight") {
            args::integer("weight", weight, 1, 1)?;
        }
        let index = self.target(room)?;
        self.may_respond(room, index, seat)?;
        let mechanism = room.head.config.mechanism();
        let proposals = room.head.config.option_proposal_authority != Authority::None
            && !room.decisions[index].had_slate_phase;
        let ballot =
            ballots::canonical(mechanism, &room.decisions[index].options, choice, proposals)?;
        self.respond(room, index, seat, Answer::Choice(ballot.clone()), rationale);
        let mut out = self.response_result(room, index);
        out["cast_choice"] = ballot.clone();
        out["choice"] = ballot;
        if room.decisions[index].agreement {
            out["agreement"] = json!(true);
        }
        Ok(out)
    }

    fn abstain(&self, room: &mut Room) -> Result<Value, GrpError> {
        let seat = self.actor(room)?;
        let reason = self.args.required("reason", 1, 500)?.to_owned();
        let index = self.target(room)?;
        self.may_respond(room, index, seat)?;
        if room.decisions[index].agreement {
            return Err(GrpError::input(
                "An agreement needs everybody's acceptance: nobody can abstain from it.",
            ));
        }
        self.respond(room, index, seat, Answer::Abstain(reason.clone()), None);
        let mut out = self.response_result(room, index);
        out["abstained"] = json!(true);
        out["reason"] = json!(reason);
        Ok(out)
    }

    fn may_respond(&self, room: &Room, index: usize, seat: usize) -> Result<(), GrpError> {
        let d = &room.decisions[index];
        if d.phase == Phase::Proposing {
            return Err(GrpError::new(
                "decision.proposing",
                "The slate is still open; choices are taken once choosing starts.",
            ));
        }
        if !lifecycle::is_eligible(room, index, seat) {
            return Err(GrpError::new(
                "choice.not_eligible",
                "You may read, watch and discuss this decision, and not choose on it.",
            ));
        }
        Ok(())
    }

    fn respond(
        &self,
        room: &mut Room,
        index: usize,
        seat: usize,
        answer: Answer,
        rationale: Option<String>,
    ) {
        let now = self.ctx.now;
        let abstained = matches!(answer, Answer::Abstain(_));
        let response =
            Response { seat, answer, cast_at: now, rationale, mandate: self.caller.agent() };
        let d = &mut room.decisions[index];
        let place = match d.by_seat.get(&seat) {
            Some(place) if !self.core.has(Defect::ChoiceNotUpserted) => {
                d.responses[*place] = response;
                *place
            }
            _ => {
                d.by_seat.insert(seat, d.responses.len());
                d.responses.push(response);
                d.responses.len() - 1
            }
        };
        let seq = d.seq;
        room.touch_response(index, place);
        room.participants[seat].voted_at = Some(now);
        room.touch(Kind::Participant, seat);
        let action = if abstained { "choice.abstained" } else { "choice.submitted" };
        let mut data = json!({ "seq": seq, "participant": actor_json(room, seat) });
        let answer = &room.decisions[index].responses[place].answer;
        match answer {
            Answer::Abstain(reason) => data["reason"] = json!(reason),
            Answer::Choice(choice) if views::choices_shown(room, index) => {
                data["choice"] = views::clip_value(choice);
            }
            Answer::Choice(_) => {}
        }
        let id = self.ctx.entropy.uuid();
        room.emit(id, now, action, Some(index), Some(seat), data);
        self.log(room, action, "eligible", json!({ "decision": seq }));
        lifecycle::reconsider(room, self.ctx);
    }

    fn response_result(&self, room: &Room, index: usize) -> Value {
        let d = &room.decisions[index];
        let mut out = json!({
            "ok": true, "slug": room.head.slug, "decision": d.seq, "status": d.phase.name(),
            "resolved_winner": d.sealed.as_ref().and_then(|s| s.winner.clone()),
            "resolved_outcome": d.sealed.as_ref().map(|s| s.outcome.clone()),
        });
        if let Some(settling) = views::settling(d, self.ctx.now) {
            out["settling"] = settling;
        }
        out
    }

    fn close(&self, room: &mut Room) -> Result<Value, GrpError> {
        let seat = self.actor(room)?;
        let statement = self.args.text("statement", 0, 20_000)?.map(str::to_owned);
        let authority = room.head.config.conclusion_authority.clone();
        let authority = self.core.authorize(room, seat, &authority, "closing the room")?;
        if let Some(open) = room.open_decisions().first() {
            return Err(GrpError::new(
                "decision.not_open",
                format!(
                    "Decision {} is not sealed yet; the room closes when nothing is open.",
                    room.decisions[*open].seq
                ),
            ));
        }
        let agent = self.caller.agent();
        lifecycle::conclude(room, seat, agent.as_ref(), statement, authority, self.ctx);
        let conclusion =
            room.head.conclusion.as_ref().expect("conclude has just put the conclusion there");
        Ok(json!({
            "ok": true, "slug": room.head.slug, "concluded_at": rfc3339(conclusion.at),
            "receipt_hash": conclusion.receipt.hash, "prev_hash": conclusion.receipt.prev_hash,
        }))
    }

    fn read(&self, room: &mut Room) -> Result<Value, GrpError> {
        if let Some(seat) = self.caller.seat {
            room.participants[seat].last_seen_at = Some(self.ctx.now);
            room.touch(Kind::Participant, seat);
        }
        let since = self.args.get("since").map(|v| number_like("since", v)).transpose()?;
        match self.args.text("include", 1, 20)? {
            Some("full") => Ok(views::full(room)),
            Some(_) => Err(GrpError::input("include takes one word: full.")),
            None => Ok(match since {
                Some(since) => views::delta(room, self.caller.seat, since, self.ctx),
                None => views::agent(room, self.caller.seat, self.ctx),
            }),
        }
    }

    fn events(&self, room: &mut Room) -> Result<Value, GrpError> {
        let since = self.args.get("since_seq").map(|v| number_like("since_seq", v)).transpose()?;
        let limit = self.args.get("limit").map(|v| number_like("limit", v)).transpose()?;
        let after = match self.args.text("since_event_id", 1, 100)? {
            None => since.unwrap_or(0),
            Some(id) => room
                .events
                .iter()
                .find(|e| e.id == id)
                .map(|e| e.seq)
                .ok_or_else(|| GrpError::input("since_event_id names no event of this room."))?,
        };
        let limit = usize::try_from(limit.unwrap_or(1_000).clamp(1, 1_000)).unwrap_or(1_000);
        let events: Vec<Value> = room
            .events
            .iter()
            .skip(usize::try_from(after).unwrap_or(usize::MAX))
            .take(limit)
            .map(super::model::Event::to_json)
            .collect();
        Ok(json!({ "slug": room.head.slug, "events": events }))
    }
}

/// A count that came in a query string or as a JSON number.
pub(super) fn number_like(name: &str, v: &Value) -> Result<u64, GrpError> {
    let n = match v {
        Value::String(s) => s.parse::<u64>().ok(),
        other => other.as_u64(),
    };
    n.ok_or_else(|| GrpError::input(format!("{name} must be a non-negative whole number.")))
}

pub(super) fn seat_by_name(room: &Room, name: &str) -> Result<usize, GrpError> {
    let mut found = room.participants.iter().enumerate().filter(|(_, p)| p.display_name == name);
    match (found.next(), found.next()) {
        (Some((seat, _)), None) => Ok(seat),
        (None, _) => Err(GrpError::input("Nobody in this room bears that name.")),
        _ => Err(GrpError::input("Several members bear that name: use the participant id.")),
    }
}

/// Options as they may stand on a slate.
pub(super) fn validate_slate(options: &[String], max: i64) -> Result<(), GrpError> {
    if options.len() as i64 > max {
        return Err(GrpError::input(format!("At most {max} options are allowed.")));
    }
    let mut seen = std::collections::HashSet::new();
    for o in options {
        if o.is_empty() || o.chars().count() > 500_000 {
            return Err(GrpError::input("An option has 1 to 500000 characters."));
        }
        if !seen.insert(o) {
            return Err(GrpError::input("An option stands on the slate twice."));
        }
    }
    Ok(())
}
