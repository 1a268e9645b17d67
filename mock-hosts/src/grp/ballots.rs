//! From what an agent sent as its choice to the one canonical ballot that is stored, counted
//! and signed. An option is its exact text first, and only then a 1-based number.

use serde_json::{Map, Value, json};

use super::engine::Mechanism;
use super::error::GrpError;

/// The canonical ballot. `open_slate`: options can still be proposed, which the refusal
/// then suggests.
///
/// # Errors
/// `choice.invalid_option` for options that are not on the slate or named twice,
/// `input.invalid` for the wrong shape or numbers out of range.
pub fn canonical(
    mechanism: Mechanism,
    options: &[String],
    choice: &Value,
    open_slate: bool,
) -> Result<Value, GrpError> {
    let option = |text: &str| resolve(options, text, open_slate);
    match mechanism {
        Mechanism::SimpleMajority | Mechanism::Supermajority | Mechanism::Plurality => {
            let one = match choice {
                Value::String(text) => text,
                Value::Array(items) if items.len() == 1 && items[0].is_string() => {
                    items[0].as_str().unwrap_or_default()
                }
                _ => return Err(GrpError::input("choice must be one option, as a string.")),
            };
            Ok(json!(option(one)?))
        }
        Mechanism::Approval | Mechanism::RankedChoice | Mechanism::RankedPairwise => {
            let named: Vec<&str> = match choice {
                Value::String(one) => vec![one],
                Value::Array(items) if !items.is_empty() => items
                    .iter()
                    .map(|v| v.as_str())
                    .collect::<Option<_>>()
                    .ok_or_else(|| GrpError::input("choice must be an array of options."))?,
                _ => {
                    return Err(GrpError::input(
                        "choice must be a non-empty array of options; to support none, abstain.",
                    ));
                }
            };
            let mut ballot: Vec<&str> = Vec::new();
            for text in named {
                let option = option(text)?;
                if ballot.contains(&option) {
                    return Err(GrpError::new(
                        "choice.invalid_option",
                        "An option is named twice on this ballot.",
                    ));
                }
                ballot.push(option);
            }
            Ok(json!(ballot))
        }
        Mechanism::ScoreVote => {
            let points = numbers(choice, option, "scores")?;
            if points.values().any(|v| !(0.0..=5.0).contains(&v.as_f64().unwrap_or(-1.0))) {
                return Err(GrpError::input("A score lies between 0 and 5."));
            }
            if points.values().all(|v| v.as_f64() == Some(0.0)) {
                return Err(GrpError::input(
                    "A ballot must score something above 0; to support nothing, abstain.",
                ));
            }
            Ok(Value::Object(points))
        }
        Mechanism::QuadraticVote => {
            let credits = numbers(choice, option, "credits")?;
            if credits.values().any(|v| v.as_f64().unwrap_or(-1.0) < 0.0) {
                return Err(GrpError::input("Credits cannot be negative."));
            }
            let spent: f64 = credits.values().filter_map(Value::as_f64).map(f64::floor).sum();
            if !(1.0..=9.0).contains(&spent) {
                return Err(GrpError::input(
                    "A ballot spends 1 to 9 credits in whole numbers; to spend none, abstain.",
                ));
            }
            Ok(Value::Object(credits))
        }
    }
}

fn numbers<'a>(
    choice: &Value,
    option: impl Fn(&str) -> Result<&'a str, GrpError>,
    what: &str,
) -> Result<Map<String, Value>, GrpError> {
    let wrong = || GrpError::input(format!("choice must map options to {what}."));
    let given = choice.as_object().filter(|m| !m.is_empty()).ok_or_else(wrong)?;
    let mut ballot = Map::new();
    for (text, n) in given {
        if !n.is_number() {
            return Err(wrong());
        }
        if ballot.insert(option(text)?.to_owned(), n.clone()).is_some() {
            return Err(GrpError::new(
                "choice.invalid_option",
                "An option is named twice on this ballot.",
            ));
        }
    }
    Ok(ballot)
}

fn resolve<'a>(options: &'a [String], text: &str, open_slate: bool) -> Result<&'a str, GrpError> {
    if let Some(exact) = options.iter().find(|o| *o == text) {
        return Ok(exact);
    }
    let digits = text.strip_prefix('#').unwrap_or(text);
    if !digits.is_empty()
        && digits.bytes().all(|b| b.is_ascii_digit())
        && let Ok(n) = digits.parse::<usize>()
        && let Some(numbered) = n.checked_sub(1).and_then(|i| options.get(i))
    {
        return Ok(numbered);
    }
    let list: Vec<String> = options
        .iter()
        .take(20)
        .enumerate()
        .map(|(i, o)| format!("#{} {}", i + 1, super::views::clip(o, 60)))
        .collect();
    let hint = if open_slate { " A missing option can be proposed." } else { "" };
    Err(GrpError::new(
        "choice.invalid_option",
        format!("That option is not on the slate. Open options: {}.{hint}", list.join("; ")),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slate() -> Vec<String> {
        ["Nd5", "nd5", "2", "a, b"].map(str::to_owned).into()
    }

    #[test]
    fn text_beats_number() {
        let one = |v: Value| canonical(Mechanism::Plurality, &slate(), &v, false);
        assert_eq!(one(json!("2")).unwrap(), json!("2"));
        assert_eq!(one(json!("#2")).unwrap(), json!("nd5"));
        assert_eq!(one(json!("4")).unwrap(), json!("a, b"));
        for bad in ["ND5", "5", "0", "#", "+1", " Nd5"] {
            assert_eq!(one(json!(bad)).unwrap_err().code, "choice.invalid_option", "{bad}");
        }
        assert_eq!(one(json!(1)).unwrap_err().code, "input.invalid");
    }

    #[test]
    fn shapes_and_ranges() {
        let try_one = |m, v: Value| canonical(m, &slate(), &v, false).map_err(|e| e.code);
        assert_eq!(
            try_one(Mechanism::RankedChoice, json!(["#1", "Nd5"])),
            Err("choice.invalid_option")
        );
        assert_eq!(try_one(Mechanism::Approval, json!([])), Err("input.invalid"));
        assert_eq!(try_one(Mechanism::ScoreVote, json!({"Nd5": 5.5})), Err("input.invalid"));
        assert_eq!(
            try_one(Mechanism::QuadraticVote, json!({"Nd5": 9, "nd5": 1})),
            Err("input.invalid")
        );
        assert_eq!(try_one(Mechanism::QuadraticVote, json!({"Nd5": 4})), Ok(json!({"Nd5": 4})));
    }
}
