//! Judging the outcome of the latest call, by the rule and not by taste.

use cucumber::gherkin::Step;
use cucumber::{given, then, when};
use serde_json::Value;

use crate::failure::{StepError, StepResult, check, no};
use crate::outcome::at;
use crate::wire::brief;
use crate::world::World;

#[then("the call succeeds")]
#[when("the call succeeds")]
fn succeeds(w: &mut World) -> StepResult {
    w.success().map(|_| ())
}

#[then("the call fails")]
fn fails(w: &mut World) -> StepResult {
    let outcome = w.outcome()?;
    check(outcome.is_error(), format!("{} fails", outcome.tool), outcome.brief())
}

#[then("the call fails with a code and a message")]
fn fails_readably(w: &mut World) -> StepResult {
    fails(w)?;
    let outcome = w.outcome()?;
    check(!outcome.codes().is_empty(), "a machine-readable error code", outcome.brief())
}

#[then(regex = r#"^the call fails with code ("[^"]*"(?: or "[^"]*")*)$"#)]
fn fails_with(w: &mut World, codes: String) -> StepResult {
    let outcome = w.outcome()?;
    let wanted: Vec<&str> = codes.split(" or ").map(|c| c.trim_matches('"')).collect();
    let seen = outcome.codes();
    check(
        seen.iter().any(|c| wanted.contains(&c.as_str())),
        format!("{} fails with code {codes}", outcome.tool),
        outcome.brief(),
    )
}

#[then(regex = r#"^the error data "([^"]*)" is (.+)$"#)]
fn error_data(w: &mut World, path: String, value: String) -> StepResult {
    let wanted = w.json(&value)?;
    let outcome = w.outcome()?;
    let data = outcome.error_data().unwrap_or(Value::Null);
    check(
        at(&data, &path) == Some(&wanted),
        format!("error data {path} = {wanted}"),
        outcome.brief(),
    )
}

/// The member of the latest successful result.
pub fn member(w: &World, path: &str) -> StepResult<Option<Value>> {
    let body = w.success()?;
    Ok(at(&body, path).filter(|v| !v.is_null()).cloned())
}

#[then(regex = r#"^the result "([^"]*)" holds nothing$"#)]
fn result_holds_nothing(w: &mut World, path: String) -> StepResult {
    // A list without entries may be left out.
    let body = w.success()?;
    let seen = at(&body, &path).cloned().unwrap_or(Value::Null);
    check(
        seen.is_null() || seen.as_array().is_some_and(Vec::is_empty),
        format!("{path} empty or absent"),
        format!("{path} = {} in {}", brief(&seen), brief(&body)),
    )
}

#[then(regex = r#"^the result "([^"]*)" is (.+)$"#)]
fn result_is(w: &mut World, path: String, value: String) -> StepResult {
    let (negated, value) = match value.strip_prefix("not ") {
        Some(rest) => (true, rest.to_owned()),
        None => (false, value),
    };
    let wanted = w.json(&value)?;
    let body = w.success()?;
    let seen = at(&body, &path).cloned().unwrap_or(Value::Null);
    let holds = same(&seen, &wanted) != negated;
    check(
        holds,
        format!("{path} {}{wanted}", if negated { "is not " } else { "= " }),
        format!("{path} = {} in {}", brief(&seen), brief(&body)),
    )
}

/// Equal, numbers by value: 1 and 1.0 are the same number to JSON peers.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(x), Value::Number(y)) => x == y || x.as_f64() == y.as_f64(),
        (Value::Array(x), Value::Array(y)) => {
            x.len() == y.len() && x.iter().zip(y).all(|(x, y)| same(x, y))
        }
        _ => a == b,
    }
}

#[then(regex = r#"^the result "([^"]*)" reaches (\d+)$"#)]
fn result_at_least(w: &mut World, path: String, least: u64) -> StepResult {
    let seen = member(w, &path)?.and_then(|v| v.as_u64());
    check(
        seen.is_some_and(|n| n >= least),
        format!("{path} >= {least}"),
        format!("{path} = {seen:?}"),
    )
}

#[then(regex = r#"^the result has ((?:"[^"]*"(?:, | and )?)+)$"#)]
fn result_has(w: &mut World, names: String) -> StepResult {
    let body = w.success()?;
    for name in quoted(&names) {
        check(
            at(&body, &name).is_some_and(|v| !v.is_null()),
            format!("a member {name}"),
            brief(&body),
        )?;
    }
    Ok(())
}

#[then(regex = r#"^the result has no ((?:"[^"]*"(?:, | and )?)+)$"#)]
fn result_has_no(w: &mut World, names: String) -> StepResult {
    let body = w.success()?;
    for name in quoted(&names) {
        check(
            at(&body, &name).is_none_or(Value::is_null),
            format!("no member {name}"),
            brief(&body),
        )?;
    }
    Ok(())
}

#[then(regex = r#"^the result "([^"]*)" has (\d+) (?:entry|entries)$"#)]
fn result_len(w: &mut World, path: String, len: usize) -> StepResult {
    let seen = member(w, &path)?;
    let count = seen.as_ref().and_then(Value::as_array).map(Vec::len);
    check(
        count == Some(len),
        format!("{path} has {len} entries"),
        format!("{count:?}: {}", brief(&seen.unwrap_or(Value::Null))),
    )
}

#[then(regex = r#"^the result "([^"]*)" (contains|lacks) (.+)$"#)]
fn result_contains(w: &mut World, path: String, word: String, value: String) -> StepResult {
    let wanted = w.json(&value)?;
    let seen = member(w, &path)?.unwrap_or(Value::Null);
    let found = match (&seen, &wanted) {
        (Value::Array(items), wanted) => items.iter().any(|i| covers(i, wanted)),
        (Value::String(text), Value::String(part)) => text.contains(part.as_str()),
        (seen, wanted) => covers(seen, wanted),
    };
    check(found == (word == "contains"), format!("{path} {word} {wanted}"), brief(&seen))
}

/// Whether `value` has everything that `wanted` names, deep.
pub fn covers(value: &Value, wanted: &Value) -> bool {
    match (value, wanted) {
        (Value::Object(v), Value::Object(w)) => {
            w.iter().all(|(k, w)| v.get(k).is_some_and(|v| covers(v, w)))
        }
        _ => same(value, wanted),
    }
}

#[then(regex = r#"^we remember the result "([^"]*)" as "([^"]*)"$"#)]
#[given(regex = r#"^we remember the result "([^"]*)" as "([^"]*)"$"#)]
#[when(regex = r#"^we remember the result "([^"]*)" as "([^"]*)"$"#)]
fn remember(w: &mut World, path: String, name: String) -> StepResult {
    match member(w, &path)? {
        Some(value) => {
            w.notes.insert(name, value);
            Ok(())
        }
        None => no(format!("a member {path}"), w.outcome()?.brief()),
    }
}

#[then("no result so far holds")]
fn nothing_heard(w: &mut World, step: &Step) -> StepResult {
    let text = step
        .docstring
        .as_ref()
        .ok_or_else(|| StepError::Defect("the step needs a docstring".to_owned()))?;
    for needle in text.lines().map(str::trim).filter(|l| !l.is_empty()) {
        let needle = w.fill(needle)?;
        if let Some(line) = w.heard().iter().find(|l| l.contains(&needle)) {
            let near: String = line.chars().take(200).collect();
            return no(format!("no MCP output holds {needle:?}"), near);
        }
    }
    Ok(())
}

/// The quoted words of a sentence.
pub fn quoted(text: &str) -> Vec<String> {
    text.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn covering_is_deep_and_one_sided() {
        let value = json!({ "a": { "b": 1, "c": 2 }, "d": [1, 2.0] });
        assert!(covers(&value, &json!({ "a": { "b": 1 } })));
        assert!(covers(&value, &json!({ "d": [1, 2] })));
        assert!(!covers(&value, &json!({ "a": { "x": 1 } })));
        assert!(!covers(&value, &json!({ "d": [1] })));
    }
}
