//! The long-poll floor (GRP T6): a call that sleeps until something is actionable for its
//! caller, or its time is over.
//!
//! The bell is marked as heard before the room is looked at, so whatever happens between
//! the look and the sleep rings again: no wake-up is lost.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::args::Args;
use super::clock::rfc3339;
use super::core::{Call, Caller, Core, Op};
use super::defects::Defect;
use super::error::GrpError;
use super::lifecycle;
use super::model::{Decision, Kind, Phase, Room};
use super::ops::number_like;
use super::views;

/// What the caller waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum For {
    MyChoice,
    Completion,
    Activity,
}

#[derive(Debug)]
struct Wanted {
    what: For,
    since: Option<u64>,
    seconds: f64,
}

const DEFAULT_WAIT_S: f64 = 25.0;

impl Core {
    fn wanted(&self, call: &Call) -> Result<Wanted, GrpError> {
        let args = Args::new(&call.args);
        let since = args.get("since").map(|v| number_like("since", v)).transpose()?;
        let since_seq = args.get("since_seq").map(|v| number_like("since_seq", v)).transpose()?;
        let named = args.text("for", 0, 40)?;
        let what = match named {
            _ if call.op == Op::WaitOutcome => For::Completion,
            None | Some("") if since.is_some() => For::Activity,
            None | Some("" | "my_choice" | "my_vote") => For::MyChoice,
            Some("completion") => For::Completion,
            Some("activity") => For::Activity,
            Some(_) if self.has(Defect::AnyWaitTaken) => For::MyChoice,
            Some(_) => {
                return Err(GrpError::input("for must be my_choice, completion or activity."));
            }
        };
        let asked = match args.get("wait") {
            None => DEFAULT_WAIT_S,
            Some(Value::String(s)) => s.parse().unwrap_or(f64::NAN),
            Some(v) => v.as_f64().unwrap_or(f64::NAN),
        };
        if asked.is_nan() {
            return Err(GrpError::input("wait must be a number of seconds."));
        }
        if self.has(Defect::NoWaitClamp) && !(0.0..=self.config.max_wait_s).contains(&asked) {
            return Err(GrpError::input("wait is out of range."));
        }
        let seconds = asked.clamp(0.0, self.config.max_wait_s);
        Ok(Wanted { what, since: since_seq.or(since), seconds })
    }

    /// Sleeps until something is actionable for the caller.
    ///
    /// # Errors
    /// As any operation; `room.not_found` also when the room is deleted meanwhile.
    pub async fn wait(self: &Arc<Self>, call: Call) -> Result<Value, GrpError> {
        let wanted = self.wanted(&call)?;
        let slug = call.slug.as_deref().ok_or_else(|| GrpError::input("slug is required."))?;
        let mandate = self.mandate(&call.credential).await?;
        let cell = self.cell(slug)?;
        let mut bell = cell.changed.subscribe();
        let began = tokio::time::Instant::now();
        let length = Duration::from_secs_f64(wanted.seconds);
        // The sum cannot overflow: at most 50 s on top of now.
        let ends_ms = self.now() + i64::try_from(length.as_millis()).unwrap_or(0);
        let mut watch = None;
        loop {
            bell.borrow_and_update();
            let found = {
                let mut guard = cell.lock();
                let room = guard.as_mut().ok_or_else(|| {
                    GrpError::new("room.not_found", "There is no such room here.")
                })?;
                self.with_ctx(call.transport, |ctx| lifecycle::advance(room, ctx));
                let caller = self.identify(room, &call, mandate.clone(), false)?;
                if caller.mandate.is_some() && self.has(Defect::MandateCannotWait) {
                    return Err(GrpError::new("auth.required", "Present a participant token."));
                }
                let watch = watch.get_or_insert_with(|| Watch::begin(room, &wanted));
                let asleep = self.has(Defect::WaitNeverWakes) && began.elapsed() < length;
                let found =
                    if asleep { None } else { self.actionable(room, &caller, &wanted, watch) };
                self.commit(&cell, &mut guard, None, None)?;
                found
            };
            if let Some(mut answer) = found {
                if call.op == Op::WaitOutcome
                    && let Some(room) = &*cell.lock()
                {
                    answer["outcome"] = views::outcome(room, &self.base());
                }
                return Ok(answer);
            }
            if began.elapsed() >= length || self.now() >= ends_ms {
                return Ok(self.timeout());
            }
            tokio::select! {
                // The cell lives in this frame: its sender cannot be gone.
                _ = bell.changed() => {}
                () = self.config.clock.reached(ends_ms) => {}
                () = tokio::time::sleep_until(began + length) => {}
            }
        }
    }

    fn timeout(&self) -> Value {
        let mut out = json!({
            "status": "timeout",
            "next_poll_at": rfc3339(self.now()),
            "hint": "Nothing needs you yet. Call again: waiting is the action.",
        });
        if self.has(Defect::TimeoutWithoutNextPoll)
            && let Some(map) = out.as_object_mut()
        {
            map.remove("next_poll_at");
        }
        out
    }

    fn actionable(
        &self,
        room: &mut Room,
        caller: &Caller,
        wanted: &Wanted,
        watch: &Watch,
    ) -> Option<Value> {
        let seat = caller.member();
        match wanted.what {
            For::MyChoice => {
                let forgetful = self.has(Defect::OpenerToldAgain);
                self.owed(room, seat).or_else(|| own_question_sealed(room, seat, forgetful))
            }
            For::Completion => watch.completed(room),
            // A choice that is owed outranks news.
            For::Activity => {
                let own = self.has(Defect::OwnActWakes);
                self.owed(room, seat).or_else(|| activity(room, seat, watch.since_event, own))
            }
        }
    }

    fn owed(&self, room: &Room, seat: usize) -> Option<Value> {
        let careless = self.has(Defect::WaitIgnoresCaller);
        let owed: Vec<usize> = room
            .open_decisions()
            .into_iter()
            .filter(|i| {
                lifecycle::owes(room, *i, seat)
                    || careless && room.decisions[*i].phase == Phase::Voting
            })
            .collect();
        let (first, rest) = owed.split_first()?;
        let mut out = json!({
            "status": "actionable", "for": "my_choice",
            "decision": waited(&room.decisions[*first]),
        });
        if !rest.is_empty() {
            out["also_actionable"] =
                json!(rest.iter().map(|i| waited(&room.decisions[*i])).collect::<Vec<_>>());
        }
        Some(out)
    }
}

fn waited(d: &Decision) -> Value {
    let mut out = json!({
        "id": d.id, "seq": d.seq, "question": d.question, "options": d.options,
        "voting_ends_at": rfc3339(d.voting_ends_at), "status": d.phase.name(),
    });
    if d.agreement {
        out["agreement"] = json!(true);
    }
    if let Some(s) = &d.sealed {
        out["resolved_winner"] = json!(s.winner);
        out["resolved_outcome"] = json!(s.outcome);
        out["receipt_hash"] = json!(s.receipt.hash);
    }
    out
}

/// Tells an opener once that its own question sealed.
fn own_question_sealed(room: &mut Room, seat: usize, forgetful: bool) -> Option<Value> {
    let index = room
        .decisions
        .iter()
        .position(|d| d.opened_by == seat && d.sealed.is_some() && !d.opener_told)?;
    room.decisions[index].opener_told = !forgetful;
    room.touch(Kind::Decision, index);
    Some(json!({
        "status": "actionable", "for": "my_choice", "decision": waited(&room.decisions[index]),
    }))
}

/// What a wait saw when it began.
#[derive(Debug)]
struct Watch {
    /// Completion: these decisions; `None`: any that seals later than `base`.
    decisions: Option<BTreeSet<usize>>,
    since_decision: Option<u64>,
    since_event: u64,
}

impl Watch {
    fn begin(room: &Room, wanted: &Wanted) -> Self {
        let open: BTreeSet<usize> = room.open_decisions().into_iter().collect();
        Watch {
            decisions: (!open.is_empty()).then_some(open),
            since_decision: wanted.since.filter(|_| wanted.what == For::Completion),
            since_event: wanted.since.unwrap_or_else(|| room.event_head()),
        }
    }

    fn completed(&self, room: &Room) -> Option<Value> {
        let sealed = |i: &usize| room.decisions[*i].sealed.is_some();
        let all = 0..room.decisions.len();
        let index = if let Some(seq) = self.since_decision {
            all.into_iter().filter(|i| room.decisions[*i].seq > seq).find(sealed)
        } else if let Some(watched) = &self.decisions {
            watched.iter().copied().find(sealed)
        } else {
            all.into_iter()
                .filter(sealed)
                .max_by_key(|i| (room.decisions[*i].sealed.as_ref().map(|s| s.at), *i))
        };
        if index.is_none() && room.head.conclusion.is_none() {
            return None;
        }
        Some(json!({
            "status": "actionable", "for": "completion",
            "decision": index.map(|i| waited(&room.decisions[i])),
        }))
    }
}

/// The first substantive event by somebody else.
fn activity(room: &Room, seat: usize, since: u64, own: bool) -> Option<Value> {
    let after = usize::try_from(since).unwrap_or(usize::MAX);
    let event = room
        .events
        .iter()
        .skip(after)
        .find(|e| (own || e.actor != Some(seat)) && e.event_type != "room.settings_updated")?;
    let who = event.actor.map(|s| room.participants[s].display_name.clone());
    Some(json!({
        "status": "activity",
        "event": { "seq": event.seq, "type": event.event_type, "who": who },
    }))
}
