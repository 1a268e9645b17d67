//! The threshold family: simple majority, supermajority, plurality, approval.

use serde_json::{Value, json};

use super::{EngineError, Rule, Run, Scores, Tally, TieBreak, Verdict, clean};

pub(super) fn reaches(score: f64, total: f64, threshold: f64, strict: Option<bool>) -> bool {
    if total <= 0.0 {
        return false;
    }
    let fraction = score / total;
    if strict == Some(true) { fraction > threshold } else { fraction >= threshold }
}

pub(super) fn tally(run: &Run<'_>) -> Result<Tally, EngineError> {
    let p = run.parameters;
    let Rule::Generic { approval, pass_threshold, strict, plurality_fallthrough } = p.rule else {
        unreachable!("the caller dispatches on the rule");
    };
    if !(pass_threshold > 0.0 && pass_threshold <= 1.0) {
        return Err(EngineError("pass_threshold must be in (0, 1]".into()));
    }
    let read = |choice: &Value| {
        let named: Vec<String> = match choice {
            Value::String(one) => vec![one.clone()],
            Value::Array(many) => {
                many.iter().map(|v| v.as_str().map(str::to_owned)).collect::<Option<_>>()?
            }
            _ => return None,
        };
        let right_size = approval || named.len() == 1;
        (right_size && named.iter().all(|o| p.options.contains(o))).then_some(named)
    };
    let (kept, counts) = clean(run.ballots, false, read);
    let mut scores = Scores::zero(&p.options);
    for (_, named, weight) in &kept {
        if *weight > 0.0 {
            named.iter().for_each(|o| scores.add(o, *weight));
        }
    }
    let quorum_met = run.quorum_met(counts.cast)?;
    let (top, ties) = scores.top();
    let mut out = run.result(&counts, scores, quorum_met);
    out.threshold_met = Some(false);
    if !quorum_met {
        return Ok(out);
    }
    let met = reaches(top, counts.cast as f64, pass_threshold, strict);
    out.threshold_met = Some(met);
    let falls_through = plurality_fallthrough == Some(true) && top > 0.0;
    if !met && !falls_through {
        return Ok(out);
    }
    out.winner = run.resolve_tie(&ties);
    out.verdict = match (&out.winner, met) {
        (Some(_), true) => Verdict::Pass,
        (Some(_), false) => Verdict::PluralityPass,
        (None, true) => Verdict::Tied,
        (None, false) => Verdict::NoPass,
    };
    if ties.len() > 1 && (out.winner.is_some() || p.tie_break == TieBreak::NoPass) {
        out.trace.insert("tied_options".into(), json!(ties));
    }
    Ok(out)
}
