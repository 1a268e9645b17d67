//! Type packs: the registered ones, bundled, and external ones by digest.

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use sha3::Sha3_256;

use crate::{encoding, json};

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

/// What a declaration says its pack document hashes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PackDigest {
    /// `sha256:<base64url>`, the form of the protocol text.
    Sha256([u8; 32]),
    /// `sha3-256:<base64url>`, which published peers write too.
    Sha3_256([u8; 32]),
}

impl PackDigest {
    /// Reads `<algorithm>:<base64url>`; none for a foreign algorithm or spelling.
    pub fn parse(text: &str) -> Option<Self> {
        let (algorithm, digest) = text.split_once(':')?;
        let digest = encoding::decode_array::<32>(digest).ok()?;
        match algorithm {
            "sha256" => Some(PackDigest::Sha256(digest)),
            "sha3-256" => Some(PackDigest::Sha3_256(digest)),
            _ => None,
        }
    }

    /// Whether `bytes` have this digest.
    pub fn matches(&self, bytes: &[u8]) -> bool {
        match self {
            PackDigest::Sha256(digest) => Sha256::digest(bytes).as_slice() == digest,
            PackDigest::Sha3_256(digest) => Sha3_256::digest(bytes).as_slice() == digest,
        }
    }
}

/// Checks the raw bytes of a pack document against its declared digest.
///
/// # Errors
/// [`PackError::Digest`].
pub fn check_digest(bytes: &[u8], digest: &str) -> Result<(), PackError> {
    match PackDigest::parse(digest) {
        Some(digest) if digest.matches(bytes) => Ok(()),
        _ => Err(PackError::Digest),
    }
}

/// Parses an external pack document after checking its digest.
///
/// # Errors
/// [`PackError`].
pub fn parse(bytes: &[u8], digest: &str) -> Result<Vec<Map<String, Value>>, PackError> {
    parse_for(bytes, digest, "")
}

/// As [`parse`], for the pack that `uri` names: a document may be one pack, or a collection
/// `{ protocol, packs }` that holds a pack with that id or only one.
///
/// # Errors
/// [`PackError`].
pub fn parse_for(
    bytes: &[u8],
    digest: &str,
    uri: &str,
) -> Result<Vec<Map<String, Value>>, PackError> {
    check_digest(bytes, digest)?;
    let value = json::parse(bytes).map_err(|e| PackError::Shape(e.to_string()))?;
    let pack = match value.get("packs").and_then(Value::as_array) {
        None => &value,
        Some(packs) => match packs.iter().find(|p| p["id"] == uri) {
            Some(pack) => pack,
            None if packs.len() == 1 => &packs[0],
            None => return Err(PackError::Shape(format!("no pack of the id {uri}"))),
        },
    };
    definitions(pack)
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
