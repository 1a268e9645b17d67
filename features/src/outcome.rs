//! The answer to a tool call, read the way any sensible connector may have shaped it.
//!
//! A code may stand in `error.code` or `code`, in structuredContent or in a JSON text
//! item; a refusal may be a tool error or JSON-RPC -32602. Nothing here prefers one.

use serde_json::Value;

use crate::mcp::McpError;

/// What a tool call came to.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The tool, for messages.
    pub tool: String,
    /// Arguments as sent.
    pub arguments: Value,
    /// The `tools/call` result, or none when JSON-RPC refused the call.
    pub result: Option<Value>,
    /// JSON-RPC refusal.
    pub rpc: Option<(i64, String, Option<Value>)>,
}

impl Outcome {
    /// From the client's answer.
    ///
    /// # Errors
    /// Anything but an answer: the target is gone or silent.
    pub fn new(
        tool: &str,
        arguments: Value,
        answer: Result<Value, McpError>,
    ) -> Result<Self, McpError> {
        let base = Outcome { tool: tool.to_owned(), arguments, result: None, rpc: None };
        match answer {
            Ok(result) => Ok(Outcome { result: Some(result), ..base }),
            Err(McpError::Rpc { code, message, data }) => {
                Ok(Outcome { rpc: Some((code, message, data)), ..base })
            }
            Err(e) => Err(e),
        }
    }

    /// Whether the call failed in either of the two ways.
    pub fn is_error(&self) -> bool {
        self.result.as_ref().is_none_or(|r| r["isError"] == Value::Bool(true))
    }

    /// structuredContent, when there is one.
    pub fn structured(&self) -> Option<&Value> {
        self.result.as_ref()?.get("structuredContent").filter(|v| v.is_object())
    }

    /// Every text item that is a JSON object, strictly parsed.
    pub fn json_items(&self) -> Vec<Value> {
        self.texts()
            .iter()
            .filter_map(|text| ap_protocol::json::parse(text.as_bytes()).ok())
            .filter(Value::is_object)
            .collect()
    }

    /// Every text item.
    pub fn texts(&self) -> Vec<String> {
        let content = self.result.as_ref().and_then(|r| r["content"].as_array());
        content
            .into_iter()
            .flatten()
            .filter(|item| item["type"] == "text")
            .filter_map(|item| item["text"].as_str().map(str::to_owned))
            .collect()
    }

    /// The documented shape: structuredContent, else the JSON text item.
    pub fn body(&self) -> Value {
        self.structured()
            .cloned()
            .or_else(|| self.json_items().into_iter().next())
            .unwrap_or(Value::Null)
    }

    /// All machine-readable error codes of the answer.
    pub fn codes(&self) -> Vec<String> {
        if !self.is_error() {
            return Vec::new();
        }
        let mut codes = Vec::new();
        let mut bodies: Vec<Value> = self.structured().cloned().into_iter().collect();
        bodies.extend(self.json_items());
        if let Some((code, _, data)) = &self.rpc {
            codes.push(code.to_string());
            if *code == -32602 {
                codes.push("invalid_input".to_owned());
            }
            bodies.extend(data.clone());
        }
        for body in bodies {
            for code in [&body["error"]["code"], &body["code"]] {
                match code {
                    Value::String(text) => codes.push(text.clone()),
                    Value::Number(n) => codes.push(n.to_string()),
                    _ => {}
                }
            }
        }
        codes
    }

    /// The `data` of the error, wherever it stands.
    pub fn error_data(&self) -> Option<Value> {
        let mut bodies: Vec<Value> = self.structured().cloned().into_iter().collect();
        bodies.extend(self.json_items());
        bodies.extend(self.rpc.as_ref().and_then(|(_, _, data)| data.clone()));
        bodies
            .iter()
            .flat_map(|b| [b["error"].get("data"), b.get("data")])
            .flatten()
            .find(|d| !d.is_null())
            .cloned()
    }

    /// One line for failures and logs.
    pub fn brief(&self) -> String {
        match (&self.rpc, &self.result) {
            (Some((code, message, _)), _) => format!("JSON-RPC error {code}: {message}"),
            (None, Some(_)) if self.is_error() => {
                let body = self.body();
                let text = if body.is_null() { self.texts().join(" ") } else { body.to_string() };
                format!("tool error {text}")
            }
            _ => crate::wire::brief(&self.body()),
        }
    }
}

/// A member by dotted path; numbers index arrays, negative ones from the end.
pub fn at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').filter(|p| !p.is_empty()).try_fold(value, |v, part| match v {
        Value::Array(items) => {
            let index: i64 = part.parse().ok()?;
            let len = i64::try_from(items.len()).ok()?;
            items.get(usize::try_from(if index < 0 { len + index } else { index }).ok()?)
        }
        _ => v.get(part),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn error(result: Value) -> Outcome {
        Outcome::new("t", json!({}), Ok(result)).expect("an answer")
    }

    #[test]
    fn codes_are_found_in_every_sensible_place() {
        let shapes = [
            json!({ "isError": true, "structuredContent": { "error": { "code": "x" } } }),
            json!({ "isError": true, "structuredContent": { "code": "x" } }),
            json!({ "isError": true,
                    "content": [{ "type": "text", "text": "{\"error\":{\"code\":\"x\"}}" }] }),
            json!({ "isError": true, "content": [{ "type": "text", "text": "sorry" },
                    { "type": "text", "text": "{\"code\":\"x\"}" }] }),
        ];
        for shape in shapes {
            assert_eq!(error(shape).codes(), ["x"]);
        }
        let refused = McpError::Rpc { code: -32602, message: "m".into(), data: None };
        let o = Outcome::new("t", json!({}), Err(refused)).expect("an answer");
        assert!(o.is_error() && o.codes().contains(&"invalid_input".to_owned()));
    }

    #[test]
    fn a_success_has_no_code() {
        assert!(error(json!({ "structuredContent": { "code": "x" } })).codes().is_empty());
    }

    #[test]
    fn paths_index_arrays_from_both_ends() {
        let v = json!({ "a": [{ "b": 1 }, { "b": 2 }] });
        assert_eq!(at(&v, "a.0.b"), Some(&json!(1)));
        assert_eq!(at(&v, "a.-1.b"), Some(&json!(2)));
        assert_eq!(at(&v, "a.2.b"), None);
    }
}
