//! The ranked family: instant run-off and pairwise comparison by strongest paths.

use serde_json::{Value, json};

use super::{
    Ballot, Cleaned, EngineError, Parameters, Run, Scores, Tally, TieBreak, Verdict, clean, draw,
    scores_json,
};

/// Rankings with unknown options and repeats dropped; an empty one is invalid.
fn rankings(
    parameters: &Parameters,
    ballots: &[Ballot],
) -> (Vec<(String, Vec<String>, f64)>, Cleaned) {
    clean(ballots, true, |choice: &Value| {
        let mut ranking: Vec<String> = Vec::new();
        for o in choice.as_array()?.iter().filter_map(Value::as_str) {
            if parameters.options.iter().any(|known| known == o)
                && !ranking.iter().any(|seen| seen == o)
            {
                ranking.push(o.to_owned());
            }
        }
        (!ranking.is_empty()).then_some(ranking)
    })
}

pub(super) fn instant_runoff(run: &Run<'_>) -> Result<Tally, EngineError> {
    let p = run.parameters;
    let (ballots, counts) = rankings(p, run.ballots);
    let quorum_met = run.quorum_met(counts.cast)?;
    if !quorum_met {
        let mut out = run.result(&counts, Scores::zero(&p.options), false);
        out.trace.insert("rounds".into(), json!([]));
        return Ok(out);
    }
    let mut remaining = p.options.clone();
    let mut rounds = Vec::new();
    loop {
        let mut scores = Scores::zero(&remaining);
        let mut exhausted = 0u64;
        for (_, ranking, weight) in &ballots {
            match ranking.iter().find(|o| remaining.contains(o)) {
                Some(first) => scores.add(first, *weight),
                None => exhausted += 1,
            }
        }
        let mut round = json!({
            "tally": scores_json(&scores.0), "remaining": remaining, "eliminated": [],
            "exhausted_ballots": exhausted,
        });
        let active: f64 = scores.0.iter().map(|(_, s)| s).sum();
        let finish =
            |verdict, winner: Option<String>, scores: Scores, mut rounds: Vec<Value>, round| {
                rounds.push(round);
                let mut out = run.result(&counts, scores, true);
                out.verdict = verdict;
                out.winner = winner;
                out.trace.insert("rounds".into(), Value::Array(rounds));
                Ok(out)
            };
        if active == 0.0 {
            let left = scores.names();
            let winner = match p.tie_break {
                TieBreak::NoPass => None,
                TieBreak::FirstListed => p.options.iter().find(|o| left.contains(o)).cloned(),
                TieBreak::RandomSeeded => {
                    let drawn = json!({ "exhausted": true, "remaining": left });
                    left.get(draw(run.seed, &drawn, left.len())).cloned()
                }
            };
            let verdict = if winner.is_some() { Verdict::Pass } else { Verdict::Tied };
            return finish(verdict, winner, scores, rounds, round);
        }
        let (top, leaders) = scores.top();
        if leaders.len() == 1 && (top > active / 2.0 || remaining.len() == 1) {
            return finish(Verdict::Pass, leaders.into_iter().next(), scores, rounds, round);
        }
        let bottom = scores.0.iter().map(|(_, s)| *s).fold(f64::INFINITY, f64::min);
        let losers = scores.at(bottom);
        let eliminated = match (losers.as_slice(), p.tie_break) {
            ([only], _) => only.clone(),
            (_, TieBreak::NoPass) => return finish(Verdict::Tied, None, scores, rounds, round),
            (_, TieBreak::FirstListed) => p
                .options
                .iter()
                .rfind(|o| losers.contains(o))
                .cloned()
                .expect("the losers are options of the slate"),
            (_, TieBreak::RandomSeeded) => {
                let drawn =
                    json!({ "round": rounds.len(), "remaining": remaining, "tied": losers });
                losers[draw(run.seed, &drawn, losers.len())].clone()
            }
        };
        round["eliminated"] = json!([eliminated]);
        rounds.push(round);
        remaining.retain(|o| *o != eliminated);
    }
}

// Two indices into square matrices read best as indices.
#[allow(clippy::needless_range_loop)]
pub(super) fn pairwise(run: &Run<'_>) -> Result<Tally, EngineError> {
    let p = run.parameters;
    let (ballots, counts) = rankings(p, run.ballots);
    let quorum_met = run.quorum_met(counts.cast)?;
    let mut scores = Scores::zero(&p.options);
    if !quorum_met {
        let mut out = run.result(&counts, scores, false);
        out.trace.insert("tied_options".into(), json!([]));
        return Ok(out);
    }
    let n = p.options.len();
    let mut prefer = vec![vec![0.0f64; n]; n];
    for (_, ranking, weight) in &ballots {
        let rank: Vec<Option<usize>> =
            p.options.iter().map(|o| ranking.iter().position(|r| r == o)).collect();
        for a in 0..n {
            for b in 0..n {
                let ahead = match (rank[a], rank[b]) {
                    (Some(a), Some(b)) => a < b,
                    (Some(_), None) => true,
                    (None, _) => false,
                };
                if ahead {
                    prefer[a][b] += weight;
                }
            }
        }
    }
    let mut path = vec![vec![0.0f64; n]; n];
    for a in 0..n {
        for b in 0..n {
            if prefer[a][b] > prefer[b][a] {
                path[a][b] = prefer[a][b];
            }
        }
    }
    for via in 0..n {
        for from in 0..n {
            for to in 0..n {
                if from != via && to != via && from != to {
                    path[from][to] = path[from][to].max(path[from][via].min(path[via][to]));
                }
            }
        }
    }
    for a in 0..n {
        for b in 0..n {
            if path[a][b] > path[b][a] {
                scores.add(&p.options[a], 1.0);
            } else if path[a][b] < path[b][a] {
                scores.add(&p.options[a], -1.0);
            }
        }
    }
    let (_, ties) = scores.top();
    let mut out = run.result(&counts, scores, true);
    out.winner = run.resolve_tie(&ties);
    out.verdict = if out.winner.is_some() { Verdict::Pass } else { Verdict::Tied };
    out.trace.insert("tied_options".into(), json!(ties));
    let matrix = |m: &[Vec<f64>]| {
        Value::Object(
            p.options
                .iter()
                .zip(m)
                .map(|(a, row)| {
                    let row: Vec<(String, f64)> =
                        p.options.iter().cloned().zip(row.iter().copied()).collect();
                    (a.clone(), scores_json(&row))
                })
                .collect(),
        )
    };
    out.trace.insert("pairwise_preferences".into(), matrix(&prefer));
    out.trace.insert("strongest_paths".into(), matrix(&path));
    Ok(out)
}
