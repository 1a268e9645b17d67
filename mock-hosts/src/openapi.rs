//! The OpenAPI 3.1 documents of the hosts: committed as `openapi/*.json`, served at
//! `/openapi.json`, and held against real answers by a test.

use serde_json::{Map, Value, json};

use crate::answer::{Answer, Refusal};
use crate::host::HostInner;

/// The description of the discourse endpoints.
pub const ADP: &str = include_str!("../openapi/adp.json");
/// The description of the profile endpoints.
pub const APP: &str = include_str!("../openapi/app.json");

/// The document for a host: of one protocol, or of both merged.
pub(crate) fn answer(host: &HostInner) -> Result<Answer, Refusal> {
    let parse = |text: &str| -> Result<Value, Refusal> {
        ap_protocol::json::parse(text.as_bytes())
            .map_err(|e| Refusal::http(500, "internal", format!("the description: {e}")))
    };
    let mut document = match (host.config.discourse, host.config.profiles) {
        (true, false) => parse(ADP)?,
        (false, _) => parse(APP)?,
        (true, true) => {
            // Both protocols name their own Event, Envelope and Discovery: the profile ones get
            // a prefix, so that references keep their meaning.
            let mut whole = parse(ADP)?;
            let other = prefixed(parse(APP)?);
            for part in ["/paths", "/components/schemas"] {
                if let (Some(Value::Object(into)), Some(Value::Object(from))) =
                    (whole.pointer_mut(part), other.pointer(part))
                {
                    for (name, value) in from {
                        into.entry(name.clone()).or_insert_with(|| value.clone());
                    }
                }
            }
            whole
        }
    };
    document["servers"] = json!([{ "url": host.front.url }]);
    Ok(Answer::json(document))
}

fn prefixed(mut document: Value) -> Value {
    fn rename(value: &mut Value) {
        match value {
            Value::Object(members) => {
                if let Some(Value::String(target)) = members.get_mut("$ref") {
                    *target = target.replace("/schemas/", "/schemas/Profile.");
                }
                members.values_mut().for_each(rename);
            }
            Value::Array(items) => items.iter_mut().for_each(rename),
            _ => {}
        }
    }
    rename(&mut document);
    if let Some(Value::Object(schemas)) = document.pointer_mut("/components/schemas") {
        let old = std::mem::take(schemas);
        *schemas = old
            .into_iter()
            .map(|(name, value)| (format!("Profile.{name}"), value))
            .collect::<Map<_, _>>();
    }
    document
}
