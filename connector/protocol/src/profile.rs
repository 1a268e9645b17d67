//! Agent profiles (APP): the shape of an update and the document it makes.
//!
//! A profile describes and never authorizes: nothing here is asked when a write is judged.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::event::{ShapeError, object, one_of, optional_object, optional_string, string, strings};
use crate::{PROFILE_PROTOCOL, VerifiedEnvelope};

/// Members of the document that the agent controls, in the order of the protocol text.
pub const MEMBERS: &[&str] = &[
    "id",
    "name",
    "description",
    "avatar_url",
    "provider",
    "capabilities",
    "service_endpoints",
    "links",
    "delegations",
    "extra",
];

/// Checks the payload of a `profile.update`. Unknown members are legal and ignored.
///
/// # Errors
/// The path, from `payload` on, and what is wrong there.
pub fn check_payload(p: &Map<String, Value>, actor: &str) -> Result<(), ShapeError> {
    check(p, actor).map_err(|e| ShapeError::new(&format!("payload.{}", e.path), &e.message))
}

fn check(p: &Map<String, Value>, actor: &str) -> Result<(), ShapeError> {
    if string(p, "id")? != actor {
        return Err(ShapeError::new("id", "must be the actor"));
    }
    string(p, "name")?;
    for name in ["description", "avatar_url", "provider"] {
        optional_string(p, name)?;
    }
    if p.contains_key("capabilities") {
        strings(p, "capabilities")?;
    }
    each(p, "service_endpoints", &["type", "url"], |endpoint| {
        string(endpoint, "type")?;
        string(endpoint, "url")?;
        if endpoint.contains_key("protocols") {
            strings(endpoint, "protocols")?;
        }
        Ok(())
    })?;
    each(p, "links", &["url", "rel"], |link| {
        string(link, "name")?;
        string(link, "url")?;
        let rels = ["homepage", "documentation", "source_code", "social", "browser"];
        one_of(link, "rel", &rels).map(|_| ())
    })?;
    each(p, "delegations", &[], |delegation| {
        string(object(delegation, "principal")?, "id")?;
        string(delegation, "credential_url")?;
        for name in ["id", "relationship", "status_url"] {
            optional_string(delegation, name)?;
        }
        if delegation.contains_key("scopes") {
            strings(delegation, "scopes")?;
        }
        Ok(())
    })?;
    optional_object(p, "extra")
}

/// An optional array of objects, unique by the members in `key`.
fn each(
    p: &Map<String, Value>,
    name: &str,
    key: &[&str],
    check: impl Fn(&Map<String, Value>) -> Result<(), ShapeError>,
) -> Result<(), ShapeError> {
    let Some(list) = p.get(name) else { return Ok(()) };
    let list = list.as_array().ok_or_else(|| ShapeError::new(name, "an array"))?;
    let mut seen = BTreeSet::new();
    for (i, item) in list.iter().enumerate() {
        let at = format!("{name}.{i}");
        let item = item.as_object().ok_or_else(|| ShapeError::new(&at, "an object"))?;
        check(item).map_err(|e| ShapeError::new(&format!("{at}.{}", e.path), &e.message))?;
        let value: Vec<&str> = key.iter().filter_map(|k| item[*k].as_str()).collect();
        if !key.is_empty() && !seen.insert(value) {
            return Err(ShapeError::new(&at, &format!("unique by {}", key.join(" and "))));
        }
    }
    Ok(())
}

/// The document that an accepted update makes: the known members of its payload, with
/// `updated_at` and `event_id`. None when the envelope is no profile update.
pub fn materialize(envelope: &VerifiedEnvelope) -> Option<Value> {
    if envelope.event()["protocol"] != PROFILE_PROTOCOL {
        return None;
    }
    let p = envelope.payload();
    let mut document: Map<String, Value> = MEMBERS
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), p.get(*name)?.clone())))
        .collect();
    document.insert("updated_at".to_owned(), json!(envelope.created_at()));
    document.insert("event_id".to_owned(), json!(envelope.hash()));
    Some(Value::Object(document))
}

/// The update that is current: the one with the greatest nonce.
pub fn latest<'a>(
    updates: impl IntoIterator<Item = &'a VerifiedEnvelope>,
) -> Option<&'a VerifiedEnvelope> {
    updates.into_iter().max_by_key(|envelope| envelope.nonce())
}
