//! Ballots that carry numbers: score vote and quadratic vote.

use serde_json::{Map, Value, json};

use super::{EngineError, Run, Scores, Tally, Verdict, clean, number};

/// The number a map ballot gives an option; absent and null count as `default`.
fn given(ballot: &Map<String, Value>, option: &str, default: f64) -> Option<f64> {
    match ballot.get(option) {
        None | Some(Value::Null) => Some(default),
        Some(v) => v.as_f64().filter(|n| n.is_finite()),
    }
}

pub(super) fn score(run: &Run<'_>, min: f64, max: f64) -> Result<Tally, EngineError> {
    let p = run.parameters;
    if !(min.is_finite() && max.is_finite() && 0.0 <= min && min < max) {
        return Err(EngineError("score range must satisfy 0 <= min < max".into()));
    }
    let (kept, counts) = clean(run.ballots, true, |choice| {
        let ballot = choice.as_object()?;
        let points: Vec<f64> = p
            .options
            .iter()
            .map(|o| given(ballot, o, min).filter(|n| (min..=max).contains(n)))
            .collect::<Option<_>>()?;
        points.iter().any(|n| *n > min).then_some(points)
    });
    let quorum_met = run.quorum_met(counts.cast)?;
    let mut scores = Scores::zero(&p.options);
    let mut total_weight = 0.0;
    if quorum_met {
        for (_, points, weight) in &kept {
            total_weight += weight;
            for (option, n) in p.options.iter().zip(points) {
                scores.add(option, n * weight);
            }
        }
    }
    let (top, ties) = scores.top();
    let mut out = run.result(&counts, scores, quorum_met);
    if quorum_met && top > min * total_weight {
        out.winner = run.resolve_tie(&ties);
        out.verdict = if out.winner.is_some() { Verdict::Pass } else { Verdict::Tied };
    }
    out.trace.insert("total_weight".into(), number(total_weight));
    Ok(out)
}

pub(super) fn quadratic(run: &Run<'_>, credits: f64) -> Result<Tally, EngineError> {
    let p = run.parameters;
    if credits.fract() != 0.0 || !(1.0..=1000.0).contains(&credits) {
        return Err(EngineError("credits_per_voter must be an integer in [1, 1000]".into()));
    }
    let (kept, counts) = clean(run.ballots, true, |choice| {
        let ballot = choice.as_object()?;
        let spent: Vec<f64> = p
            .options
            .iter()
            .map(|o| given(ballot, o, 0.0).filter(|n| *n >= 0.0).map(f64::floor))
            .collect::<Option<_>>()?;
        let sum: f64 = spent.iter().sum();
        (sum > 0.0 && sum <= credits).then_some(spent)
    });
    let quorum_met = run.quorum_met(counts.cast)?;
    let mut scores = Scores::zero(&p.options);
    let mut by_voter = Map::new();
    for (voter, spent, weight) in &kept {
        by_voter.insert(voter.clone(), number(spent.iter().sum()));
        if quorum_met {
            for (option, n) in p.options.iter().zip(spent) {
                scores.add(option, n.sqrt() * weight);
            }
        }
    }
    let (top, ties) = scores.top();
    let mut out = run.result(&counts, scores, quorum_met);
    if quorum_met && top > 0.0 {
        out.winner = run.resolve_tie(&ties);
        out.verdict = if out.winner.is_some() { Verdict::Pass } else { Verdict::Tied };
    }
    out.trace.insert("spent_credits_by_voter".into(), json!(by_voter));
    Ok(out)
}
