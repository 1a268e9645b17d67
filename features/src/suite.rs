//! Cases from Gherkin: parsing, outlines, ids, levels and requirement tags.
//!
//! Nothing is run here.

use std::collections::BTreeMap;
use std::path::Path;

use cucumber::feature::Ext as _;
use cucumber::gherkin::{Feature, GherkinEnv, Step};
use include_dir::{Dir, include_dir};
use serde::{Deserialize, Serialize};

static EMBEDDED: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/suite");

/// How hard the rule is that a case judges (BCP 14).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// A failure means not conformant.
    Must,
    /// A failure warns, and fails the run under `--strict`.
    Should,
    /// A failure informs.
    May,
}

impl Level {
    /// Text in tags and reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Level::Must => "must",
            Level::Should => "should",
            Level::May => "may",
        }
    }
}

/// One scenario, outlines expanded.
#[derive(Debug, Clone)]
pub struct Case {
    /// Stable id: file path without extension, a slash, the scenario's slug.
    pub id: String,
    /// Title of the feature.
    pub feature: String,
    /// Title of the scenario.
    pub name: String,
    /// The sentence the rule rests on, when the scenario has a description.
    pub description: Option<String>,
    /// File inside the suite.
    pub file: String,
    /// Line of the scenario.
    pub line: usize,
    /// All tags, feature tags included, without `@`.
    pub tags: Vec<String>,
    /// From `@must`, `@should`, `@may`.
    pub level: Level,
    /// Requirement ids among the tags.
    pub requirements: Vec<String>,
    /// Capabilities the target must claim (`@needs:http`).
    pub needs: Vec<String>,
    /// Judges a choice of our own connector, not a rule.
    pub reference: bool,
    /// Background and own steps.
    pub steps: Vec<Step>,
}

/// What is wrong with the suite's files. Always a defect of the suite.
#[derive(Debug, thiserror::Error)]
#[error("{file}: {message}")]
pub struct SuiteError {
    /// The feature file.
    pub file: String,
    /// What is wrong.
    pub message: String,
}

/// Whether a tag names a requirement: `LC-35`, `GT-01`, `LC-T.room_open`.
pub fn is_requirement(tag: &str) -> bool {
    let Some((family, rest)) = tag.split_once('-') else { return false };
    family.len() >= 2 && family.bytes().all(|b| b.is_ascii_uppercase()) && !rest.is_empty()
}

/// Reads the embedded suite, or every `.feature` below `dir`.
///
/// # Errors
/// [`SuiteError`] for the first file that cannot be used.
pub fn load(dir: Option<&Path>) -> Result<Vec<Case>, SuiteError> {
    let mut files = BTreeMap::new();
    match dir {
        None => embedded(&EMBEDDED, &mut files),
        Some(dir) => from_disk(dir, dir, &mut files)?,
    }
    let mut cases = Vec::new();
    for (file, text) in &files {
        cases.extend(parse(file, text)?);
    }
    let mut seen = BTreeMap::new();
    for case in &cases {
        if let Some(other) = seen.insert(&case.id, &case.file) {
            return Err(SuiteError {
                file: case.file.clone(),
                message: format!("the id {} is used twice (also in {other})", case.id),
            });
        }
    }
    Ok(cases)
}

fn embedded(dir: &Dir<'_>, files: &mut BTreeMap<String, String>) {
    for file in dir.files() {
        let path = file.path().to_string_lossy().into_owned();
        if let (true, Some(text)) = (path.ends_with(".feature"), file.contents_utf8()) {
            files.insert(path, text.to_owned());
        }
    }
    for sub in dir.dirs() {
        embedded(sub, files);
    }
}

fn from_disk(
    root: &Path,
    dir: &Path,
    files: &mut BTreeMap<String, String>,
) -> Result<(), SuiteError> {
    let at = |path: &Path, e: std::io::Error| SuiteError {
        file: path.display().to_string(),
        message: e.to_string(),
    };
    for entry in std::fs::read_dir(dir).map_err(|e| at(dir, e))? {
        let path = entry.map_err(|e| at(dir, e))?.path();
        if path.is_dir() {
            from_disk(root, &path, files)?;
        } else if path.extension().is_some_and(|e| e == "feature") {
            let text = std::fs::read_to_string(&path).map_err(|e| at(&path, e))?;
            let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
            files.insert(name, text);
        }
    }
    Ok(())
}

/// The level that these tags name: none, one, or a contradiction.
fn level_of(tags: &[String]) -> Option<Result<Level, ()>> {
    let mut named = tags.iter().filter_map(|t| match t.trim_start_matches('@') {
        "must" => Some(Level::Must),
        "should" => Some(Level::Should),
        "may" => Some(Level::May),
        _ => None,
    });
    let first = named.next()?;
    Some(if named.all(|other| other == first) { Ok(first) } else { Err(()) })
}

/// Parses one feature file into cases.
///
/// # Errors
/// [`SuiteError`] for Gherkin that does not parse, or a scenario without level or
/// requirement.
pub fn parse(file: &str, text: &str) -> Result<Vec<Case>, SuiteError> {
    let err = |message: String| SuiteError { file: file.to_owned(), message };
    let feature = Feature::parse(text, GherkinEnv::default()).map_err(|e| err(e.to_string()))?;
    let feature = feature.expand_examples().map_err(|e| err(e.to_string()))?;
    let background = |b: &Option<cucumber::gherkin::Background>| {
        b.as_ref().map(|b| b.steps.clone()).unwrap_or_default()
    };
    let outer = background(&feature.background);
    let mut cases = Vec::new();
    let groups = std::iter::once((Vec::new(), Vec::new(), &feature.scenarios)).chain(
        feature.rules.iter().map(|r| (background(&r.background), r.tags.clone(), &r.scenarios)),
    );
    for (inner, rule_tags, scenarios) in groups {
        for scenario in scenarios {
            let mut tags: Vec<String> = Vec::new();
            for tag in feature.tags.iter().chain(&rule_tags).chain(&scenario.tags) {
                let tag = tag.trim_start_matches('@').to_owned();
                if !tags.contains(&tag) {
                    tags.push(tag);
                }
            }
            let has = |t: &str| tags.iter().any(|x| x == t);
            // The innermost level counts: a scenario may differ from its rule.
            let level = [&scenario.tags, &rule_tags, &feature.tags]
                .into_iter()
                .find_map(|tags| level_of(tags))
                .unwrap_or(Err(()))
                .map_err(|()| {
                    err(format!(
                        "scenario {:?} needs exactly one of @must, @should, @may",
                        scenario.name
                    ))
                })?;
            let requirements: Vec<String> =
                tags.iter().filter(|t| is_requirement(t)).cloned().collect();
            if requirements.is_empty() {
                return Err(err(format!("scenario {:?} names no requirement", scenario.name)));
            }
            let needs =
                tags.iter().filter_map(|t| t.strip_prefix("needs:")).map(str::to_owned).collect();
            let stem = file.trim_end_matches(".feature").replace('\\', "/");
            cases.push(Case {
                id: format!("{stem}/{}", slug(&scenario.name)),
                feature: feature.name.clone(),
                name: scenario.name.clone(),
                description: scenario.description.clone(),
                file: file.to_owned(),
                line: scenario.position.line,
                level,
                requirements,
                needs,
                reference: has("reference"),
                steps: [outer.clone(), inner.clone(), scenario.steps.clone()].concat(),
                tags,
            });
        }
    }
    Ok(cases)
}

fn slug(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        if c.is_ascii_alphanumeric() {
            out.push(c.to_ascii_lowercase());
        } else if !out.ends_with('-') && !out.is_empty() && c != '\'' {
            out.push('-');
        }
    }
    out.trim_end_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FEATURE: &str = "@LC-35\nFeature: F\n  Background:\n    Given one\n  @must\n  \
        Scenario Outline: Case <n>\n    When <n>\n    Examples:\n      | n |\n      | a |\n      \
        | b |\n";

    #[test]
    fn outlines_expand_and_inherit_tags_and_background() {
        let cases = parse("x/y.feature", FEATURE).expect("parses");
        assert_eq!(cases.len(), 2);
        assert_eq!(cases[1].id, "x/y/case-b");
        assert_eq!(cases[1].steps.len(), 2);
        assert_eq!(cases[1].steps[1].value, "b");
        assert_eq!(cases[0].requirements, ["LC-35"]);
    }

    #[test]
    fn a_scenario_without_level_is_refused() {
        let text = FEATURE.replace("@must", "@LC-36");
        assert!(parse("x.feature", &text).is_err());
    }

    #[test]
    fn a_scenario_without_requirement_is_refused() {
        let text = FEATURE.replace("@LC-35", "@other");
        assert!(parse("x.feature", &text).is_err());
    }

    #[test]
    fn the_embedded_suite_loads() {
        assert!(!load(None).expect("loads").is_empty());
    }
}
