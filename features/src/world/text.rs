//! Placeholders in feature texts: `$(agent)`, `$(room lounge)`, `$(host a)`, `$(note x)`,
//! `$(hash 1 lounge)`, `$(now 60000)`.

use serde_json::Value;

use super::World;
use crate::failure::{StepError, StepResult};

impl World {
    /// The value of one placeholder, given without `$(` and `)`.
    ///
    /// # Errors
    /// [`StepError::Defect`] when nothing has that name.
    pub fn placeholder(&self, text: &str) -> StepResult<Value> {
        let unknown = || StepError::Defect(format!("nothing is called $({text})"));
        let (kind, name) = text.split_once(' ').unwrap_or((text, ""));
        let now = || Value::from(crate::run::now_ms());
        Ok(match (kind, name) {
            ("agent", "") => Value::from(self.agent_id()),
            ("agent", name) => Value::from(self.key(name).agent_id().to_string()),
            ("now", "") => now(),
            ("now", offset) => {
                let offset: i64 = offset.parse().map_err(|_| unknown())?;
                Value::from(crate::run::now_ms().saturating_add_signed(offset))
            }
            ("room", name) => Value::from(self.hosts.room(name)?.id.clone()),
            ("host", name) => Value::from(self.hosts.url(name)?),
            ("hash", place) => {
                let (seq, room) = place.split_once(' ').ok_or_else(unknown)?;
                let seq: u64 = seq.parse().map_err(|_| unknown())?;
                let record = self.records(room)?.into_iter().find(|r| r["seq"] == seq);
                record.ok_or_else(unknown)?["hash"].clone()
            }
            ("token", "") => Value::from(self.http_token()),
            ("half", "token") => Value::from(self.http_token()[..10].to_owned()),
            ("endpoint", "") => Value::from(self.endpoint()?.0),
            ("port", "") => Value::from(self.endpoint()?.1),
            ("authority", name) => {
                let url = self.hosts.url(name)?;
                Value::from(url.trim_start_matches("http://").to_owned())
            }
            ("note", path) if path.contains(' ') => {
                let (name, member) = path.split_once(' ').unwrap_or((path, ""));
                let value = self.notes.get(name).ok_or_else(unknown)?;
                crate::outcome::at(value, member).cloned().ok_or_else(unknown)?
            }
            ("note", name) => self.notes.get(name).cloned().ok_or_else(unknown)?,
            _ => return Err(unknown()),
        })
    }

    /// Fills placeholders into a text.
    ///
    /// # Errors
    /// [`StepError::Defect`].
    pub fn fill(&self, text: &str) -> StepResult<String> {
        let mut out = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("$(") {
            let (name, tail) = after
                .split_once(')')
                .ok_or_else(|| StepError::Defect(format!("open placeholder in {text:?}")))?;
            out.push_str(before);
            match self.placeholder(name)? {
                Value::String(s) => out.push_str(&s),
                other => out.push_str(&other.to_string()),
            }
            rest = tail;
        }
        out.push_str(rest);
        Ok(out)
    }

    /// Fills placeholders into every string of a value. A string that is one placeholder
    /// and nothing else becomes the placeholder's value, whatever its type.
    ///
    /// # Errors
    /// [`StepError::Defect`].
    pub fn fill_value(&self, value: Value) -> StepResult<Value> {
        Ok(match value {
            Value::String(text) => {
                let whole = text.strip_prefix("$(").and_then(|t| t.strip_suffix(')'));
                match whole {
                    Some(name) if !name.contains("$(") => self.placeholder(name)?,
                    _ => Value::String(self.fill(&text)?),
                }
            }
            Value::Array(items) => Value::Array(
                items.into_iter().map(|v| self.fill_value(v)).collect::<StepResult<_>>()?,
            ),
            Value::Object(members) => Value::Object(
                members
                    .into_iter()
                    .map(|(k, v)| Ok((self.fill(&k)?, self.fill_value(v)?)))
                    .collect::<StepResult<_>>()?,
            ),
            other => other,
        })
    }

    /// A JSON text of a feature, placeholders filled.
    ///
    /// # Errors
    /// [`StepError::Defect`] when it is no JSON.
    pub fn json(&self, text: &str) -> StepResult<Value> {
        let value = serde_json::from_str(text.trim())
            .map_err(|e| StepError::Defect(format!("not JSON in a feature: {e}: {text}")))?;
        self.fill_value(value)
    }
}
