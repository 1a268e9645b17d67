//! Which cases a run takes: globs, tag expressions, shards.

use cucumber::gherkin::tagexpr::TagOperation;
use cucumber::tag::Ext as _;
use globset::{Glob, GlobMatcher};

use crate::suite::Case;

/// A selection that could not be understood. Always a usage error.
#[derive(Debug, thiserror::Error)]
pub enum SelectError {
    /// Not a glob.
    #[error("{0:?} is not a glob: {1}")]
    Glob(String, globset::Error),
    /// Not a tag expression.
    #[error("{0:?} is not a tag expression (example: \"@must and not @reference\"): {1}")]
    Tags(String, String),
    /// Not `k/n`.
    #[error("{0:?} is not a shard: write k/n with 1 <= k <= n")]
    Shard(String),
}

/// One glob over case ids and requirement ids.
#[derive(Debug, Clone)]
pub struct CaseGlob(GlobMatcher);

impl CaseGlob {
    /// Compiles `text`.
    ///
    /// # Errors
    /// [`SelectError::Glob`].
    pub fn new(text: &str) -> Result<Self, SelectError> {
        let glob = Glob::new(text).map_err(|e| SelectError::Glob(text.to_owned(), e))?;
        Ok(CaseGlob(glob.compile_matcher()))
    }

    /// Whether the glob names this case, by its id or by a requirement it judges.
    pub fn matches(&self, case: &Case) -> bool {
        self.matches_ids(&case.id, &case.requirements)
    }

    /// As [`CaseGlob::matches`], for a case read from a report.
    pub fn matches_ids(&self, id: &str, requirements: &[String]) -> bool {
        self.0.is_match(id) || requirements.iter().any(|r| self.0.is_match(r))
    }
}

/// `k` of `n`, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    /// Which part.
    pub k: usize,
    /// Of how many.
    pub n: usize,
}

impl std::str::FromStr for Shard {
    type Err = SelectError;

    fn from_str(text: &str) -> Result<Self, SelectError> {
        let bad = || SelectError::Shard(text.to_owned());
        let (k, n) = text.split_once('/').ok_or_else(bad)?;
        let (k, n) = (k.parse().map_err(|_| bad())?, n.parse().map_err(|_| bad())?);
        if k == 0 || k > n { Err(bad()) } else { Ok(Shard { k, n }) }
    }
}

/// Everything that narrows a run.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// Only cases that one of these names; all when empty.
    pub run: Vec<CaseGlob>,
    /// Never cases that one of these names.
    pub skip: Vec<CaseGlob>,
    /// Tag expression.
    pub tags: Option<TagOperation>,
    /// Part of the rest.
    pub shard: Option<Shard>,
    /// Whether to judge our own choices too.
    pub reference: bool,
}

impl Selection {
    /// Builds a selection from command line texts.
    ///
    /// # Errors
    /// [`SelectError`].
    pub fn new(run: &[String], skip: &[String], tags: Option<&str>) -> Result<Self, SelectError> {
        let globs = |texts: &[String]| {
            texts.iter().map(|t| CaseGlob::new(t)).collect::<Result<Vec<_>, SelectError>>()
        };
        let tags = tags
            .map(|text| {
                text.parse::<TagOperation>()
                    .map_err(|e| SelectError::Tags(text.to_owned(), e.to_string()))
            })
            .transpose()?;
        Ok(Selection { run: globs(run)?, skip: globs(skip)?, tags, shard: None, reference: true })
    }

    /// The selected cases, in suite order.
    pub fn apply(&self, cases: Vec<Case>) -> Vec<Case> {
        let chosen = cases.into_iter().filter(|case| {
            (self.run.is_empty() || self.run.iter().any(|g| g.matches(case)))
                && !self.skip.iter().any(|g| g.matches(case))
                && (self.reference || !case.reference)
                && self.tags.as_ref().is_none_or(|t| t.eval(&case.tags))
        });
        match self.shard {
            None => chosen.collect(),
            Some(Shard { k, n }) => {
                chosen.enumerate().filter(|(i, _)| i % n == k - 1).map(|(_, case)| case).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::parse;

    fn cases() -> Vec<Case> {
        let text = "Feature: F\n  @LC-35 @must\n  Scenario: A\n    Given x\n  \
            @LC-36 @should @reference\n  Scenario: B\n    Given x\n  @LC-T.room_open @may\n  \
            Scenario: C\n    Given x\n";
        parse("f.feature", text).expect("parses")
    }

    fn ids(selection: &Selection) -> Vec<String> {
        selection.apply(cases()).into_iter().map(|c| c.id).collect()
    }

    #[test]
    fn globs_name_cases_and_requirements() {
        let by_id = Selection::new(&["f/a".into()], &[], None).expect("selection");
        assert_eq!(ids(&by_id), ["f/a"]);
        let by_requirement = Selection::new(&["LC-T.*".into()], &[], None).expect("selection");
        assert_eq!(ids(&by_requirement), ["f/c"]);
        let without = Selection::new(&[], &["LC-3?".into()], None).expect("selection");
        assert_eq!(ids(&without), ["f/c"]);
    }

    #[test]
    fn tags_and_reference() {
        let s = Selection::new(&[], &[], Some("@must or @may")).expect("selection");
        assert_eq!(ids(&s), ["f/a", "f/c"]);
        let s = Selection { reference: false, ..Selection::default() };
        assert_eq!(ids(&s), ["f/a", "f/c"]);
    }

    #[test]
    fn shards_cover_everything_once() {
        let part = |k| Selection {
            shard: Some(Shard { k, n: 2 }),
            reference: true,
            ..Selection::default()
        };
        let mut all = [ids(&part(1)), ids(&part(2))].concat();
        all.sort();
        assert_eq!(all, ["f/a", "f/b", "f/c"]);
        assert!("0/2".parse::<Shard>().is_err());
        assert!("3/2".parse::<Shard>().is_err());
    }
}
