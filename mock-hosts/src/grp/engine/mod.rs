//! The eight decision mechanisms as pure functions: same ballots, same parameters, same
//! seed, same result, byte for byte.
//!
//! It must not know rooms, clocks or transports: a receipt verifier replays it with nothing
//! but what the receipt signs.

mod cardinal;
mod generic;
mod ranked;

use ap_protocol::jcs;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

/// What happens when several options lead together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TieBreak {
    /// The tie stays: no winner.
    NoPass,
    /// The option that comes first in the slate.
    FirstListed,
    /// Drawn from the seed, the same for everybody who knows it.
    RandomSeeded,
}

impl TieBreak {
    /// Wire name.
    pub fn name(self) -> &'static str {
        match self {
            TieBreak::NoPass => "no_pass",
            TieBreak::FirstListed => "first_listed",
            TieBreak::RandomSeeded => "random_seeded",
        }
    }
}

/// The tallying rule and its own numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rule {
    /// One point an option named, against a threshold of the ballots cast.
    Generic {
        /// Several options a ballot.
        approval: bool,
        /// Fraction of the ballots cast, in (0, 1].
        pass_threshold: f64,
        /// `None`: not stated, which means inclusive.
        strict: Option<bool>,
        /// Below the threshold the leader still wins.
        plurality_fallthrough: Option<bool>,
    },
    /// Instant run-off.
    RankedChoice,
    /// Schulze strongest paths, winning votes.
    RankedPairwise,
    /// Sum of scores.
    Score {
        /// Least score.
        min: f64,
        /// Greatest score.
        max: f64,
    },
    /// Sum of square roots of credits.
    Quadratic {
        /// Budget of one ballot.
        credits: f64,
    },
}

/// Everything a run depends on besides the ballots.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameters {
    /// The slate, in ballot order.
    pub options: Vec<String>,
    /// Least participation as a fraction of the electorate, in [0, 1].
    pub quorum: f64,
    /// Tie rule.
    pub tie_break: TieBreak,
    /// Tally rule.
    pub rule: Rule,
}

/// One response that names a preference.
#[derive(Debug, Clone)]
pub struct Ballot {
    /// Who cast it; a later ballot of the same voter replaces the earlier.
    pub voter: String,
    /// String, array of strings or map option → number, as the rule wants it.
    pub choice: Value,
    /// 1 unless stated.
    pub weight: f64,
}

/// What a run says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// An option won.
    Pass,
    /// An option won without reaching the threshold.
    PluralityPass,
    /// Several options lead and the rule does not choose.
    Tied,
    /// Nothing won.
    NoPass,
}

impl Verdict {
    /// Wire name.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Pass => "pass",
            Verdict::PluralityPass => "plurality_pass",
            Verdict::Tied => "tied",
            Verdict::NoPass => "no_pass",
        }
    }
}

/// The result of one run.
#[derive(Debug, Clone)]
pub struct Tally {
    /// How it ended.
    pub verdict: Verdict,
    /// The winning option.
    pub winner: Option<String>,
    /// Score of each option, in the enumeration order that ties are drawn in.
    pub scores: Vec<(String, f64)>,
    /// Valid ballots.
    pub cast_votes: u64,
    /// The electorate it was measured against.
    pub eligible_voters: u64,
    /// Whether enough took part.
    pub quorum_met: bool,
    /// Generic rules only: whether the leader reached the threshold.
    pub threshold_met: Option<bool>,
    /// Ballots dropped.
    pub invalid_votes: u64,
    /// Rule-specific evidence.
    pub trace: Map<String, Value>,
}

impl Tally {
    /// Wire form, `per_option_score` in JSON numbers as ECMAScript would print them.
    pub fn to_json(&self) -> Value {
        let mut out = json!({
            "outcome": self.verdict.name(),
            "winner": self.winner,
            "per_option_score": scores_json(&self.scores),
            "cast_votes": self.cast_votes,
            "eligible_voters": self.eligible_voters,
            "quorum_met": self.quorum_met,
            "trace": self.trace,
        });
        if let Some(met) = self.threshold_met {
            out["threshold_met"] = json!(met);
        }
        out["trace"]["invalid_votes"] = json!(self.invalid_votes);
        out
    }
}

/// Parameters or counts no run can be made with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("mechanism cannot run: {0}")]
pub struct EngineError(pub String);

/// One run, ready to go.
#[derive(Debug, Clone)]
pub struct Run<'a> {
    /// Parameters.
    pub parameters: &'a Parameters,
    /// Size of the electorate.
    pub eligible_voters: u64,
    /// Valid ballots plus formal abstentions; `None`: valid ballots alone.
    pub participating: Option<u64>,
    /// Ballots in the order cast.
    pub ballots: &'a [Ballot],
    /// Seed of drawn ties: the decision id.
    pub seed: &'a str,
}

impl Run<'_> {
    /// Runs the mechanism.
    ///
    /// # Errors
    /// Empty slate, quorum outside [0, 1], counts that contradict each other.
    pub fn tally(&self) -> Result<Tally, EngineError> {
        let p = self.parameters;
        if p.options.is_empty() {
            return Err(EngineError("options must be non-empty".into()));
        }
        if !(0.0..=1.0).contains(&p.quorum) {
            return Err(EngineError("quorum must be in [0, 1]".into()));
        }
        match p.rule {
            Rule::Generic { .. } => generic::tally(self),
            Rule::RankedChoice => ranked::instant_runoff(self),
            Rule::RankedPairwise => ranked::pairwise(self),
            Rule::Score { min, max } => cardinal::score(self, min, max),
            Rule::Quadratic { credits } => cardinal::quadratic(self, credits),
        }
    }

    /// Whether no completion of the missing ballots can change the winner. Conservative:
    /// `false` costs time, never a wrong outcome.
    ///
    /// # Errors
    /// As [`Run::tally`].
    pub fn locked(&self) -> Result<bool, EngineError> {
        let now = self.tally()?;
        let participating = self.participating.unwrap_or(now.cast_votes);
        let remaining = self.eligible_voters.saturating_sub(participating);
        if remaining == 0 {
            return Ok(true);
        }
        let Some(winner) = now.winner.as_deref() else { return Ok(false) };
        let left = remaining as f64;
        let gain = match self.parameters.rule {
            Rule::Generic { .. } => left,
            Rule::Score { min, max } => left * (max - min),
            Rule::Quadratic { credits } => left * credits.sqrt(),
            Rule::RankedChoice | Rule::RankedPairwise => return Ok(false),
        };
        let lead = now.scores.iter().find(|(o, _)| o == winner).map_or(0.0, |(_, s)| *s);
        if let Rule::Generic { pass_threshold, strict, .. } = self.parameters.rule {
            // The threshold must hold even if everybody else goes elsewhere, and an option
            // not yet proposed could take all of them.
            let total = now.cast_votes as f64 + left;
            if now.verdict == Verdict::Pass
                && !generic::reaches(lead, total, pass_threshold, strict)
            {
                return Ok(false);
            }
            if lead <= gain {
                return Ok(false);
            }
        }
        Ok(now.scores.iter().all(|(o, s)| o == winner || lead - s > gain))
    }

    fn participating(&self, cast: u64) -> Result<u64, EngineError> {
        let n = self.participating.unwrap_or(cast);
        if n < cast || n > self.eligible_voters {
            return Err(EngineError(
                "participating voters must lie between ballots cast and eligible voters".into(),
            ));
        }
        Ok(n)
    }

    fn quorum_met(&self, cast: u64) -> Result<bool, EngineError> {
        let n = self.participating(cast)?;
        Ok(self.eligible_voters > 0
            && n as f64 / self.eligible_voters as f64 >= self.parameters.quorum)
    }

    /// One winner out of `ties`, or `None` when the tie stays.
    fn resolve_tie(&self, ties: &[String]) -> Option<String> {
        match (ties, self.parameters.tie_break) {
            ([only], _) => Some(only.clone()),
            (_, TieBreak::NoPass) => None,
            (_, TieBreak::FirstListed) => {
                self.parameters.options.iter().find(|o| ties.contains(o)).cloned()
            }
            (_, TieBreak::RandomSeeded) => {
                let drawn = json!({ "options": self.parameters.options, "ties": ties });
                ties.get(draw(self.seed, &drawn, ties.len())).cloned()
            }
        }
    }

    fn result(&self, ballots: &Cleaned, scores: Scores, quorum_met: bool) -> Tally {
        Tally {
            verdict: Verdict::NoPass,
            winner: None,
            scores: scores.0,
            cast_votes: ballots.cast,
            eligible_voters: self.eligible_voters,
            quorum_met,
            threshold_met: None,
            invalid_votes: ballots.invalid,
            trace: Map::from_iter([("duplicate_voter_ids".to_owned(), json!(ballots.duplicates))]),
        }
    }
}

/// Counts of a sanitizing pass.
#[derive(Debug, Default)]
struct Cleaned {
    cast: u64,
    invalid: u64,
    duplicates: Vec<String>,
}

/// Keeps each voter's last ballot, at the place of that last ballot, and drops those
/// `read` refuses or whose weight is not a positive number.
fn clean<T>(
    ballots: &[Ballot],
    zero_weight_is_invalid: bool,
    mut read: impl FnMut(&Value) -> Option<T>,
) -> (Vec<(String, T, f64)>, Cleaned) {
    let mut kept: Vec<(String, T, f64)> = Vec::new();
    let mut counts = Cleaned::default();
    let mut seen = std::collections::HashSet::new();
    for b in ballots {
        if !seen.insert(b.voter.as_str()) {
            counts.duplicates.push(b.voter.clone());
            kept.retain(|(voter, ..)| *voter != b.voter);
        }
        if zero_weight_is_invalid && !(b.weight.is_finite() && b.weight > 0.0) {
            counts.invalid += 1;
            continue;
        }
        match read(&b.choice) {
            Some(parsed) => kept.push((b.voter.clone(), parsed, b.weight)),
            None => counts.invalid += 1,
        }
    }
    counts.cast = kept.len() as u64;
    (kept, counts)
}

/// Scores in the order a JavaScript object enumerates its keys: names that look like array
/// indices first, by number, then the others as inserted. The reference implementation
/// keeps scores so, and drawn ties depend on it.
#[derive(Debug, Clone)]
struct Scores(Vec<(String, f64)>);

impl Scores {
    fn zero(options: &[String]) -> Self {
        let mut indexed: Vec<(u64, &String)> = Vec::new();
        let mut named: Vec<&String> = Vec::new();
        for o in options {
            match array_index(o) {
                Some(i) => indexed.push((i, o)),
                None => named.push(o),
            }
        }
        indexed.sort_by_key(|(i, _)| *i);
        let order = indexed.into_iter().map(|(_, o)| o).chain(named);
        Scores(order.map(|o| (o.clone(), 0.0)).collect())
    }

    fn add(&mut self, option: &str, points: f64) {
        if let Some((_, score)) = self.0.iter_mut().find(|(o, _)| o == option) {
            *score += points;
        }
    }

    /// Greatest score, and everybody who has it.
    fn top(&self) -> (f64, Vec<String>) {
        let top = self.0.iter().map(|(_, s)| *s).fold(f64::NEG_INFINITY, f64::max);
        (top, self.at(top))
    }

    fn at(&self, score: f64) -> Vec<String> {
        self.0.iter().filter(|(_, s)| *s == score).map(|(o, _)| o.clone()).collect()
    }

    fn names(&self) -> Vec<String> {
        self.0.iter().map(|(o, _)| o.clone()).collect()
    }
}

/// The array index a property name stands for, if it is the canonical spelling of one.
fn array_index(name: &str) -> Option<u64> {
    let canonical = name == "0"
        || (!name.is_empty() && !name.starts_with('0') && name.bytes().all(|b| b.is_ascii_digit()));
    let i: u64 = if canonical { name.parse().ok()? } else { return None };
    (i < u64::from(u32::MAX)).then_some(i)
}

/// Index drawn from the seed: SHA-256 of the seed's UTF-8 bytes and the canonical form of
/// `object`, its first four bytes modulo `n`.
fn draw(seed: &str, object: &Value, n: usize) -> usize {
    let digest = Sha256::new().chain_update(seed.as_bytes()).chain_update(jcs::to_vec(object));
    let bytes = digest.finalize();
    let first = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    first as usize % n.max(1)
}

/// A double as the JSON number ECMAScript prints: whole numbers without a fraction.
pub fn number(n: f64) -> Value {
    if n.fract() == 0.0 && n.abs() <= ap_protocol::MAX_SAFE_INTEGER as f64 {
        json!(n as i64)
    } else {
        json!(n)
    }
}

/// `{option: score}`.
pub fn scores_json(scores: &[(String, f64)]) -> Value {
    Value::Object(scores.iter().map(|(o, s)| (o.clone(), number(*s))).collect())
}

impl Parameters {
    /// The signed form: everything a replay needs besides ballots and seed.
    pub fn to_json(&self) -> Map<String, Value> {
        let mut out = Map::new();
        let mut put = |k: &str, v: Value| out.insert(k.to_owned(), v);
        put("options", json!(self.options));
        put("quorum", number(self.quorum));
        put("tie_break", json!(self.tie_break.name()));
        match self.rule {
            Rule::Generic { approval, pass_threshold, strict, plurality_fallthrough } => {
                put("ballot_mode", json!(if approval { "approval" } else { "single_choice" }));
                put("pass_threshold", number(pass_threshold));
                if let Some(strict) = strict {
                    let name = if strict { "strict" } else { "inclusive" };
                    put("pass_threshold_comparison", json!(name));
                }
                if let Some(on) = plurality_fallthrough {
                    put("plurality_fallthrough", json!(on));
                }
            }
            Rule::Score { min, max } => {
                put("min_score", number(min));
                put("max_score", number(max));
            }
            Rule::Quadratic { credits } => {
                put("credits_per_voter", number(credits));
            }
            Rule::RankedChoice | Rule::RankedPairwise => {}
        }
        out
    }

    /// Reads the signed form back. `kind` is an engine name (`generic_vote`,
    /// `ranked_choice`, …) or one of the eight room mechanisms.
    ///
    /// # Errors
    /// A member that is missing or of the wrong kind.
    pub fn from_json(kind: &str, value: &Value) -> Result<Self, EngineError> {
        let missing = |name: &str| EngineError(format!("parameters lack {name}"));
        let number = |name: &str| value[name].as_f64().ok_or_else(|| missing(name));
        let options = value["options"]
            .as_array()
            .and_then(|o| o.iter().map(|v| v.as_str().map(str::to_owned)).collect())
            .ok_or_else(|| missing("options"))?;
        let tie_break = match value["tie_break"].as_str() {
            Some("no_pass") => TieBreak::NoPass,
            Some("first_listed") => TieBreak::FirstListed,
            Some("random_seeded") => TieBreak::RandomSeeded,
            _ => return Err(missing("tie_break")),
        };
        let rule = match kind {
            "ranked_choice" => Rule::RankedChoice,
            "ranked_pairwise" => Rule::RankedPairwise,
            "score_vote" => Rule::Score { min: number("min_score")?, max: number("max_score")? },
            "quadratic_vote" => Rule::Quadratic { credits: number("credits_per_voter")? },
            "generic_vote" | "simple_majority" | "supermajority" | "plurality" | "approval" => {
                Rule::Generic {
                    approval: value["ballot_mode"] == "approval",
                    pass_threshold: number("pass_threshold")?,
                    strict: value["pass_threshold_comparison"].as_str().map(|c| c == "strict"),
                    plurality_fallthrough: value["plurality_fallthrough"].as_bool(),
                }
            }
            other => return Err(EngineError(format!("no mechanism is called {other}"))),
        };
        Ok(Parameters { options, quorum: number("quorum")?, tie_break, rule })
    }
}

/// The mechanisms a room can be configured with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mechanism {
    /// More than half.
    SimpleMajority,
    /// Two thirds or more.
    Supermajority,
    /// The leader.
    Plurality,
    /// Any number of options a ballot.
    Approval,
    /// Instant run-off.
    RankedChoice,
    /// Schulze.
    RankedPairwise,
    /// 0 to 5 an option.
    ScoreVote,
    /// 9 credits, square roots.
    QuadraticVote,
}

impl Mechanism {
    /// All, in the order they are advertised.
    pub const ALL: [Mechanism; 8] = [
        Mechanism::SimpleMajority,
        Mechanism::Supermajority,
        Mechanism::Plurality,
        Mechanism::Approval,
        Mechanism::RankedChoice,
        Mechanism::RankedPairwise,
        Mechanism::ScoreVote,
        Mechanism::QuadraticVote,
    ];

    /// Wire name.
    pub fn name(self) -> &'static str {
        match self {
            Mechanism::SimpleMajority => "simple_majority",
            Mechanism::Supermajority => "supermajority",
            Mechanism::Plurality => "plurality",
            Mechanism::Approval => "approval",
            Mechanism::RankedChoice => "ranked_choice",
            Mechanism::RankedPairwise => "ranked_pairwise",
            Mechanism::ScoreVote => "score_vote",
            Mechanism::QuadraticVote => "quadratic_vote",
        }
    }

    /// By wire name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|m| m.name() == name)
    }

    /// How a ballot is written, for the agent.
    pub fn how_to_choose(self) -> &'static str {
        match self {
            Mechanism::SimpleMajority => {
                "choice is one option (its text, or its 1-based number); more than half of the \
                 choices cast must agree"
            }
            Mechanism::Supermajority => {
                "choice is one option (its text, or its 1-based number); at least two thirds of \
                 the choices cast must agree"
            }
            Mechanism::Plurality => {
                "choice is one option (its text, or its 1-based number); the most chosen wins"
            }
            Mechanism::Approval => "choice is an array of every option you approve of",
            Mechanism::RankedChoice => {
                "choice is an array of options, best first; weakest options are eliminated round \
                 by round"
            }
            Mechanism::RankedPairwise => {
                "choice is an array of options, best first; options are compared pair by pair"
            }
            Mechanism::ScoreVote => "choice is a map from option to a score of 0 to 5",
            Mechanism::QuadraticVote => {
                "choice is a map from option to credits, 9 in all; an option gains the square \
                 root of its credits"
            }
        }
    }

    /// Engine parameters for a slate.
    pub fn parameters(self, options: Vec<String>, quorum: f64) -> Parameters {
        let generic = |approval, pass_threshold, strict, fallthrough| Rule::Generic {
            approval,
            pass_threshold,
            strict: Some(strict),
            plurality_fallthrough: Some(fallthrough),
        };
        let (rule, tie_break) = match self {
            Mechanism::SimpleMajority => (generic(false, 0.5, true, false), TieBreak::NoPass),
            Mechanism::Supermajority => (generic(false, 2.0 / 3.0, false, false), TieBreak::NoPass),
            Mechanism::Plurality => (generic(false, 0.5, true, true), TieBreak::RandomSeeded),
            Mechanism::Approval => (generic(true, 0.5, false, true), TieBreak::RandomSeeded),
            Mechanism::RankedChoice => (Rule::RankedChoice, TieBreak::RandomSeeded),
            Mechanism::RankedPairwise => (Rule::RankedPairwise, TieBreak::RandomSeeded),
            Mechanism::ScoreVote => (Rule::Score { min: 0.0, max: 5.0 }, TieBreak::RandomSeeded),
            Mechanism::QuadraticVote => (Rule::Quadratic { credits: 9.0 }, TieBreak::RandomSeeded),
        };
        Parameters { options, quorum, tie_break, rule }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_enumerate_like_a_javascript_object() {
        let options: Vec<String> =
            ["b", "10", "2", "02", "a", "4294967295", "0"].map(str::to_owned).into();
        assert_eq!(Scores::zero(&options).names(), ["0", "2", "10", "b", "02", "a", "4294967295"]);
    }

    #[test]
    fn parameters_round_trip() {
        for m in Mechanism::ALL {
            let p = m.parameters(vec!["a".into(), "b".into()], 0.25);
            let back = Parameters::from_json(m.name(), &Value::Object(p.to_json())).unwrap();
            assert_eq!(back, p, "{}", m.name());
        }
    }
}
