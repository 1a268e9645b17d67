//! The OpenAPI 3.1 description: committed as `openapi.json`, served with this host's
//! address in it, and checked against real answers by the tests.

use serde_json::{Value, json};

/// The committed document.
pub const TEXT: &str = include_str!("openapi.json");

/// The document with this host as its server.
pub fn document(base: &str) -> Value {
    let mut doc = ap_protocol::json::parse(TEXT.as_bytes())
        .expect("the committed description is valid JSON: a test reads it");
    doc["servers"] = json!([{ "url": base }]);
    doc
}
