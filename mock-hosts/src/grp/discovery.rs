//! `/.well-known/grp.json`: what this host is and can, every claim of it true.

use serde_json::{Value, json};

use super::config;
use super::core::Core;
use super::defects::Defect;
use super::engine::{Mechanism, number};
use super::jws;
use super::mandate::ACTIONS;

/// MCP revisions served at both endpoints.
pub const MCP_VERSIONS: [&str; 2] = ["2025-11-25", "2026-07-28"];

/// The discovery document.
pub fn document(core: &Core) -> Value {
    let base = core.base();
    let (kid, key) = core.public_key();
    let defaults = config::defaults_json();
    let mut out = json!({
        "protocol_version": "0.1",
        "issuer_id": base,
        "name": "Agent Protocols laboratory GRP host",
        "purpose": "Reference room host for conformance work; not for production decisions.",
        "operator": { "name": "local operator", "contact": null },
        "transports": {
            "rest": format!("{base}/api/rooms"),
            "mcp": format!("{base}/mcp"),
            "mcp_host": format!("{base}/mcp/host"),
            "mcp_protocol_versions": MCP_VERSIONS,
            "openapi": format!("{base}/api/openapi.json"),
        },
        "auth": {
            "auth_modes": ["token", "mandate"],
            "mandate_required": false,
            "mandate_alg": ["EdDSA"],
        },
        "mandate_actions": ACTIONS,
        "mechanisms_supported": Mechanism::ALL.map(Mechanism::name),
        "room_kind": "persistent",
        "visibility": "public",
        "deliberation_modes_supported": ["optional", "disabled"],
        "long_running_pattern": "webhook",
        "supports_long_poll": true,
        "long_poll_max_wait_seconds": number(core.config.max_wait_s),
        "supports_sse_upgrade": true,
        "default_voting_window_seconds": defaults["voting_window"],
        "room_config_defaults": defaults,
        "keys": [jws::jwk(kid, &key)],
        "revocations": [],
        "membership_rule": { "kind": "open" },
        "conformance": {
            "self_attested": true, "validated": false, "validated_at": null,
            "validated_against": null,
        },
    });
    if core.has(Defect::FalseA2a) {
        out["transports"]["a2a"] = json!(format!("{base}/a2a"));
    }
    out
}

/// `/healthz`.
pub fn health() -> Value {
    json!({ "status": "ok", "version": env!("CARGO_PKG_VERSION"), "checks": {} })
}
