//! Tool arguments after validation, read by member.

use ap_protocol::{AgentId, Hash, Tip};
use serde_json::{Map, Value};

use crate::error::ToolError;

/// A non-negative integer, also when a client wrote it as `5.0`.
pub fn integer(v: &Value) -> Option<u64> {
    v.as_u64().or_else(|| {
        let f = v.as_f64()?;
        let safe = f >= 0.0 && f.fract() == 0.0 && f <= ap_protocol::MAX_SAFE_INTEGER as f64;
        safe.then_some(f as u64)
    })
}

/// The arguments of one call. They fit the tool's input schema.
pub struct Args(pub Map<String, Value>);

impl Args {
    /// An optional string.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(Value::as_str)
    }

    /// A string that the schema requires.
    pub fn required(&self, name: &str) -> &str {
        self.text(name).unwrap_or_default()
    }

    /// An optional boolean.
    pub fn flag(&self, name: &str) -> Option<bool> {
        self.0.get(name).and_then(Value::as_bool)
    }

    /// An optional non-negative integer.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.0.get(name).and_then(integer)
    }

    /// An optional list of strings.
    pub fn list(&self, name: &str) -> Option<Vec<String>> {
        let items = self.0.get(name)?.as_array()?;
        Some(items.iter().filter_map(Value::as_str).map(str::to_owned).collect())
    }

    /// An optional object.
    pub fn object(&self, name: &str) -> Option<&Map<String, Value>> {
        self.0.get(name).and_then(Value::as_object)
    }

    /// A page size: the default when absent, never more than `most`.
    pub fn limit(&self, default: usize, most: usize) -> usize {
        let wanted = self.number("limit").map_or(default, |n| usize::try_from(n).unwrap_or(most));
        wanted.clamp(1, most)
    }

    /// `base_seq` and `base_hash`, which come together or not at all.
    ///
    /// # Errors
    /// `invalid_input`.
    pub fn base(&self) -> Result<Option<Tip>, ToolError> {
        match (self.number("base_seq"), self.text("base_hash")) {
            (None, None) => Ok(None),
            (Some(seq), Some(hash)) => {
                let hash =
                    Hash::parse(hash).map_err(|e| ToolError::input("/base_hash", e.to_string()))?;
                if seq == 0 {
                    return Err(ToolError::input("/base_seq", "a seq starts at 1"));
                }
                Ok(Some(Tip { seq, hash }))
            }
            (Some(_), None) => {
                Err(ToolError::input("/base_hash", "give base_seq and base_hash together"))
            }
            (None, Some(_)) => {
                Err(ToolError::input("/base_seq", "give base_seq and base_hash together"))
            }
        }
    }

    /// An Agent ID that the schema requires.
    ///
    /// # Errors
    /// `invalid_input`.
    pub fn agent(&self, name: &str) -> Result<AgentId, ToolError> {
        AgentId::parse(self.required(name))
            .map_err(|e| ToolError::input(&format!("/{name}"), e.to_string()))
    }

    /// `mentions`, checked.
    ///
    /// # Errors
    /// `invalid_input`.
    pub fn mentions(&self) -> Result<Option<Vec<String>>, ToolError> {
        let Some(list) = self.list("mentions") else { return Ok(None) };
        if list.len() > ap_protocol::MAX_MENTIONS {
            return Err(ToolError::input("/mentions", "at most 32 mentions"));
        }
        for (i, id) in list.iter().enumerate() {
            AgentId::parse(id)
                .map_err(|e| ToolError::input(&format!("/mentions/{i}"), e.to_string()))?;
        }
        Ok(Some(list))
    }

    /// `references`, checked.
    ///
    /// # Errors
    /// `invalid_input`.
    pub fn references(&self) -> Result<Option<Vec<String>>, ToolError> {
        let Some(list) = self.list("references") else { return Ok(None) };
        for (i, id) in list.iter().enumerate() {
            Hash::parse(id).map_err(|e| {
                ToolError::input(&format!("/references/{i}"), format!("an event id: {e}"))
            })?;
        }
        Ok(Some(list))
    }
}
