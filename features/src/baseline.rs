//! Known failures of a target, each with a reason. An entry that no longer fails is stale.

use serde::Deserialize;

use crate::select::{CaseGlob, SelectError};
use crate::verdict::{CaseReport, Status};

/// The file as written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default, rename = "expected-failure")]
    entries: Vec<RawEntry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawEntry {
    check: String,
    reason: String,
    issue: Option<String>,
    expires: Option<String>,
}

/// One expected failure.
#[derive(Debug)]
pub struct Entry {
    text: String,
    glob: CaseGlob,
    reason: String,
    expired: bool,
}

/// The expected failures of a target.
#[derive(Debug, Default)]
pub struct Baseline(Vec<Entry>);

/// A baseline that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BaselineError {
    /// Not the TOML shape.
    #[error("baseline: {0}")]
    Toml(#[from] toml::de::Error),
    /// A check that is no glob.
    #[error("baseline: {0}")]
    Glob(#[from] SelectError),
    /// An empty reason.
    #[error("baseline entry {0:?}: the reason is empty; say why this failure is accepted")]
    Reason(String),
    /// An unreadable date.
    #[error("baseline entry {0:?}: expires is not a date (YYYY-MM-DD)")]
    Date(String),
    /// Names no case at all.
    #[error("baseline entry {0:?} names no case of the suite; see `conformance run --list`")]
    Unknown(String),
}

impl Baseline {
    /// Parses a baseline; entries that expired before `now_ms` excuse nothing.
    ///
    /// # Errors
    /// [`BaselineError`].
    pub fn parse(text: &str, now_ms: u64) -> Result<Self, BaselineError> {
        let file: File = toml::from_str(text)?;
        let entries = file.entries.into_iter().map(|raw| {
            if raw.reason.trim().is_empty() {
                return Err(BaselineError::Reason(raw.check));
            }
            let expired = match &raw.expires {
                None => false,
                Some(date) => {
                    let day = day_of(date).ok_or_else(|| BaselineError::Date(raw.check.clone()))?;
                    i64::try_from(now_ms / 86_400_000).unwrap_or(i64::MAX) > day
                }
            };
            let issue = raw.issue.map(|i| format!(" ({i})")).unwrap_or_default();
            Ok(Entry {
                glob: CaseGlob::new(&raw.check)?,
                text: raw.check,
                reason: format!("{}{issue}", raw.reason),
                expired,
            })
        });
        Ok(Baseline(entries.collect::<Result<_, _>>()?))
    }

    /// Refuses entries that name nothing in the whole suite.
    ///
    /// # Errors
    /// [`BaselineError::Unknown`].
    pub fn check_known(&self, suite: &[crate::suite::Case]) -> Result<(), BaselineError> {
        match self.0.iter().find(|e| !suite.iter().any(|c| e.glob.matches(c))) {
            Some(entry) => Err(BaselineError::Unknown(entry.text.clone())),
            None => Ok(()),
        }
    }

    /// Excuses failures in place and returns the stale entries: those whose cases were
    /// judged and all hold.
    pub fn apply(&self, cases: &mut [CaseReport]) -> Vec<String> {
        let mut stale = Vec::new();
        for entry in &self.0 {
            let (mut judged, mut failed) = (0, 0);
            for case in cases.iter_mut() {
                if !entry.glob.matches_ids(&case.id, &case.requirements) {
                    continue;
                }
                match case.status {
                    Status::Failed | Status::Blocked => {
                        judged += 1;
                        failed += 1;
                        if !entry.expired {
                            case.excused = Some(entry.reason.clone());
                        }
                    }
                    Status::Passed => judged += 1,
                    _ => {}
                }
            }
            if judged > 0 && failed == 0 {
                stale.push(entry.text.clone());
            }
        }
        stale
    }
}

/// Days since 1970-01-01 of a `YYYY-MM-DD` date (proleptic Gregorian).
fn day_of(date: &str) -> Option<i64> {
    let mut parts = date.splitn(3, '-').map(str::parse::<i64>);
    let (y, m, d) = (parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?);
    if !(1..=12).contains(&m) || !(1..=31).contains(&d) {
        return None;
    }
    let y = if m <= 2 { y - 1 } else { y };
    let era = y.div_euclid(400);
    let year_of_era = y - era * 400;
    let day_of_year = (153 * ((m + 9) % 12) + 2) / 5 + d - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    Some(era * 146_097 + day_of_era - 719_468)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_for_people_is_a_baseline() {
        let example = Baseline::parse(include_str!("../examples/baseline.toml"), 0);
        let suite = crate::suite::load(None).expect("loads");
        example.expect("parses").check_known(&suite).expect("names a scenario");
    }
    use crate::suite::Level;
    use crate::verdict::tests::case;

    const ENTRY: &str = "[[expected-failure]]\ncheck = \"f/*\"\nreason = \"known\"\n";

    #[test]
    fn excuses_failures_and_reports_stale_entries() {
        let baseline = Baseline::parse(ENTRY, 0).expect("parses");
        let mut cases = [case(Level::Must, Status::Failed)];
        assert!(baseline.apply(&mut cases).is_empty());
        assert_eq!(cases[0].excused.as_deref(), Some("known"));
        let mut cases = [case(Level::Must, Status::Passed)];
        assert_eq!(baseline.apply(&mut cases), ["f/*"]);
        let mut cases = [case(Level::Must, Status::NotClaimed)];
        assert!(baseline.apply(&mut cases).is_empty());
    }

    #[test]
    fn expiry() {
        assert_eq!(day_of("1970-01-01"), Some(0));
        assert_eq!(day_of("2024-02-29"), Some(19_782));
        let text = format!("{ENTRY}expires = \"2024-02-29\"\n");
        let on_the_day = Baseline::parse(&text, 19_782 * 86_400_000).expect("parses");
        let mut cases = [case(Level::Must, Status::Failed)];
        on_the_day.apply(&mut cases);
        assert!(cases[0].excused.is_some());
        let after = Baseline::parse(&text, 19_783 * 86_400_000).expect("parses");
        let mut cases = [case(Level::Must, Status::Failed)];
        after.apply(&mut cases);
        assert!(cases[0].excused.is_none());
    }

    #[test]
    fn a_reason_is_required() {
        assert!(
            Baseline::parse("[[expected-failure]]\ncheck = \"x\"\nreason = \" \"\n", 0).is_err()
        );
        assert!(Baseline::parse("[[expected-failure]]\ncheck = \"x\"\n", 0).is_err());
    }
}
