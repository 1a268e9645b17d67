//! How a step says that it did not hold, and how that crosses cucumber's panic boundary.
//!
//! The step macros turn an `Err` into a panic with its text. [`StepError`] writes itself as
//! marked JSON so that the driver can tell a broken rule from a broken step.

use serde::{Deserialize, Serialize};

/// Marks a panic message that carries a [`StepError`].
const MARK: &str = "\u{1}step-error ";

/// Why a step ended its scenario.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum StepError {
    /// The rule does not hold.
    Check {
        /// What the rule asks for.
        expected: String,
        /// What was observed.
        seen: String,
    },
    /// The target exited, hung, or broke the frame format, so nothing could be judged.
    Target(String),
    /// The target does not claim what this scenario needs: not judged.
    NotClaimed(String),
    /// The suite itself is at fault.
    Defect(String),
}

impl std::fmt::Display for StepError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let json = serde_json::to_string(self).map_err(|_| std::fmt::Error)?;
        write!(f, "{MARK}{json}")
    }
}

impl StepError {
    /// Reads back what [`std::fmt::Display`] wrote; anything else is a panic of the suite.
    pub fn from_panic(message: &str) -> Self {
        message
            .strip_prefix(MARK)
            .and_then(|json| serde_json::from_str(json).ok())
            .unwrap_or_else(|| StepError::Defect(format!("panic in a step: {message}")))
    }

    /// Whether a panic message is only a step's way of saying no.
    pub fn is_marked(message: &str) -> bool {
        message.starts_with(MARK)
    }

    /// A defect of the suite from any error.
    pub fn defect(e: impl std::fmt::Display) -> Self {
        StepError::Defect(e.to_string())
    }
}

/// What every step returns.
pub type StepResult<T = ()> = Result<T, StepError>;

/// Fails with what was expected and what was seen.
pub fn check(holds: bool, expected: impl Into<String>, seen: impl Into<String>) -> StepResult {
    if holds { Ok(()) } else { no(expected, seen) }
}

/// A plain refusal.
pub fn no<T>(expected: impl Into<String>, seen: impl Into<String>) -> StepResult<T> {
    Err(StepError::Check { expected: expected.into(), seen: seen.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_error_survives_the_panic_boundary() {
        let e = StepError::Check { expected: "a \"b\"".into(), seen: "c\nd".into() };
        assert_eq!(StepError::from_panic(&e.to_string()), e);
    }

    #[test]
    fn any_other_panic_is_a_defect() {
        assert!(matches!(StepError::from_panic("index out of bounds"), StepError::Defect(_)));
    }
}
