//! Type packs: the registered ones, bundled, and external ones by digest.

use serde_json::{Map, Value};

use crate::{encoding, json};
use sha2::{Digest, Sha256};

/// Why an external pack document is unusable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PackError {
    /// The bytes are not what the digest names.
    #[error("the pack document does not have the declared digest")]
    Digest,
    /// Not a pack document.
    #[error("not a pack document: {0}")]
    Shape(String),
}

/// The registered packs and their documents.
const REGISTERED: &[(&str, &str)] = &[
    ("adp:reactions/1.0", include_str!("../packs/reactions-1.0.json")),
    ("adp:deliberation/1.0", include_str!("../packs/deliberation-1.0.json")),
    ("adp:curation/1.0", include_str!("../packs/curation-1.0.json")),
    ("adp:moderation/1.0", include_str!("../packs/moderation-1.0.json")),
    ("adp:realtime/1.0", include_str!("../packs/realtime-1.0.json")),
];

/// Ids of the registered packs.
pub fn registered_ids() -> impl Iterator<Item = &'static str> {
    REGISTERED.iter().map(|(id, _)| *id)
}

/// The bundled document of a registered pack.
pub fn document(id: &str) -> Option<&'static str> {
    REGISTERED.iter().find(|(name, _)| *name == id).map(|(_, text)| *text)
}

/// The definitions of a registered pack.
pub fn registered(id: &str) -> Option<Vec<Map<String, Value>>> {
    let value = json::parse(document(id)?.as_bytes()).expect("bundled documents are tested");
    Some(definitions(&value).expect("bundled documents are tested"))
}

/// Parses an external pack document after checking its digest (`sha256:<base64url>`).
///
/// # Errors
/// [`PackError`].
pub fn parse(bytes: &[u8], digest: &str) -> Result<Vec<Map<String, Value>>, PackError> {
    if digest != format!("sha256:{}", encoding::encode(Sha256::digest(bytes))) {
        return Err(PackError::Digest);
    }
    let value = json::parse(bytes).map_err(|e| PackError::Shape(e.to_string()))?;
    definitions(&value)
}

fn definitions(value: &Value) -> Result<Vec<Map<String, Value>>, PackError> {
    let types = value
        .get("types")
        .and_then(Value::as_array)
        .ok_or_else(|| PackError::Shape("types is no array".to_owned()))?;
    types
        .iter()
        .map(|t| {
            t.as_object().cloned().ok_or_else(|| PackError::Shape("a type is no object".to_owned()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn bundled_documents_declare() {
        for id in super::registered_ids() {
            for def in super::registered(id).unwrap() {
                crate::registry::TypeDef::from_definition(&def).unwrap();
            }
        }
    }
}
