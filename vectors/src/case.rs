//! The file format: a list of cases, each an operation with its input and expected output.
//!
//! Whatever is hashed or parsed stands in a case as text, so that reading the vector file
//! with an ordinary JSON parser changes nothing about it.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The `format` member of every vector file.
pub const FORMAT: &str = "agent-protocol-vectors/1";

/// One vector file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// [`FORMAT`].
    pub format: String,
    /// What the cases are about.
    pub title: String,
    /// Where the expectations come from.
    pub source: String,
    /// The cases.
    pub cases: Vec<Case>,
}

/// One case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Unique over all files.
    pub id: String,
    /// The operation, see the README.
    pub op: String,
    /// What the case is about, where the id does not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// Who else says so: a text, a test suite, an implementation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anchor: Option<String>,
    /// What the published peer implementation says, where it was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    /// Why the expectation differs from the peer's verdict, or picks one of several readings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<String>,
    /// Input members, by operation.
    #[serde(rename = "in")]
    pub input: Map<String, Value>,
    /// Expected members: `ok`, and what the operation yields.
    #[serde(rename = "out")]
    pub output: Map<String, Value>,
}

/// Why a vector file is unusable.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be read.
    #[error("{0}: {1}")]
    Io(PathBuf, std::io::Error),
    /// The file has another shape.
    #[error("{0}: {1}")]
    Format(PathBuf, serde_json::Error),
    /// Two cases of one id.
    #[error("two cases are called {0}")]
    Duplicate(String),
}

/// The vector files that came with this crate: (folder, name, text).
pub const BUNDLED: &[(&str, &str, &str)] = &[
    ("known", "agent-protocols-0.6.0", include_str!("../known/agent-protocols-0.6.0.json")),
    ("v1", "archive", include_str!("../v1/archive.json")),
    ("v1", "ed25519", include_str!("../v1/ed25519.json")),
    ("v1", "envelope", include_str!("../v1/envelope.json")),
    ("v1", "identity", include_str!("../v1/identity.json")),
    ("v1", "jcs", include_str!("../v1/jcs.json")),
    ("v1", "json", include_str!("../v1/json.json")),
    ("v1", "jwt", include_str!("../v1/jwt.json")),
    ("v1", "packs", include_str!("../v1/packs.json")),
    ("v1", "profile", include_str!("../v1/profile.json")),
    ("v1", "records", include_str!("../v1/records.json")),
    ("v1", "replay", include_str!("../v1/replay.json")),
    ("v1", "sse", include_str!("../v1/sse.json")),
    ("v1", "types", include_str!("../v1/types.json")),
];

/// All bundled cases.
pub fn bundled() -> Vec<Case> {
    let parse = |(_, name, text): &(&str, &str, &str)| -> File {
        serde_json::from_str(text).unwrap_or_else(|e| panic!("{name} is tested: {e}"))
    };
    BUNDLED.iter().flat_map(|file| parse(file).cases).collect()
}

/// Every case of every `*.json` vector file in `folder`, files in name order.
///
/// # Errors
/// [`LoadError`].
pub fn load(folder: &Path) -> Result<Vec<Case>, LoadError> {
    let io = |e| LoadError::Io(folder.to_owned(), e);
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)
        .map_err(io)?
        .map(|entry| entry.map(|e| e.path()))
        .collect::<Result<_, _>>()
        .map_err(io)?;
    paths.retain(|path| path.extension().is_some_and(|e| e == "json"));
    paths.sort();
    let mut cases = Vec::new();
    for path in paths {
        let text = std::fs::read(&path).map_err(|e| LoadError::Io(path.clone(), e))?;
        let file: File = serde_json::from_slice(&text).map_err(|e| LoadError::Format(path, e))?;
        cases.extend(file.cases);
    }
    let mut ids = std::collections::BTreeSet::new();
    match cases.iter().find(|case| !ids.insert(case.id.as_str())) {
        Some(twice) => Err(LoadError::Duplicate(twice.id.clone())),
        None => Ok(cases),
    }
}
