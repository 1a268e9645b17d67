//! Reading operation arguments: one place that says what is missing, of the wrong kind or
//! out of range, in the words of `input.invalid`.

use serde_json::{Map, Value};

use super::error::GrpError;

/// The arguments of one call, a JSON object.
#[derive(Debug, Clone, Copy)]
pub struct Args<'a>(&'a Map<String, Value>);

impl<'a> Args<'a> {
    /// Wraps an object.
    pub fn new(map: &'a Map<String, Value>) -> Self {
        Args(map)
    }

    /// The member, `null` counting as absent.
    pub fn get(self, name: &str) -> Option<&'a Value> {
        self.0.get(name).filter(|v| !v.is_null())
    }

    /// An optional text of `min..=max` characters.
    pub fn text(self, name: &str, min: usize, max: usize) -> Result<Option<&'a str>, GrpError> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let text =
            value.as_str().ok_or_else(|| GrpError::input(format!("{name} must be a string.")))?;
        let n = text.chars().count();
        if n < min || n > max {
            return Err(GrpError::input(format!(
                "{name} must have {min} to {max} characters; it has {n}."
            )));
        }
        Ok(Some(text))
    }

    /// A text that must be there.
    pub fn required(self, name: &str, min: usize, max: usize) -> Result<&'a str, GrpError> {
        self.text(name, min, max)?.ok_or_else(|| GrpError::input(format!("{name} is required.")))
    }

    /// An optional boolean, of that JSON type only.
    pub fn flag(self, name: &str) -> Result<Option<bool>, GrpError> {
        self.get(name)
            .map(|v| {
                v.as_bool().ok_or_else(|| GrpError::input(format!("{name} must be true or false.")))
            })
            .transpose()
    }

    /// An optional whole number in `min..=max`. Numbers spelled as strings are refused.
    pub fn integer(self, name: &str, min: i64, max: i64) -> Result<Option<i64>, GrpError> {
        self.get(name).map(|v| integer(name, v, min, max)).transpose()
    }

    /// An optional list of strings.
    pub fn strings(self, name: &str) -> Result<Option<Vec<String>>, GrpError> {
        let wrong = || GrpError::input(format!("{name} must be an array of strings."));
        self.get(name)
            .map(|v| {
                let items = v.as_array().ok_or_else(wrong)?;
                items.iter().map(|i| i.as_str().map(str::to_owned).ok_or_else(wrong)).collect()
            })
            .transpose()
    }

    /// An optional object.
    pub fn object(self, name: &str) -> Result<Option<&'a Map<String, Value>>, GrpError> {
        self.get(name)
            .map(|v| {
                v.as_object().ok_or_else(|| GrpError::input(format!("{name} must be an object.")))
            })
            .transpose()
    }
}

/// A whole number in `min..=max`.
pub fn integer(name: &str, v: &Value, min: i64, max: i64) -> Result<i64, GrpError> {
    let whole = v
        .as_i64()
        .or_else(|| v.as_f64().filter(|f| f.fract() == 0.0 && f.abs() < 9e15).map(|f| f as i64));
    match whole {
        Some(n) if (min..=max).contains(&n) => Ok(n),
        _ => Err(GrpError::input(format!("{name} must be a whole number from {min} to {max}."))),
    }
}
