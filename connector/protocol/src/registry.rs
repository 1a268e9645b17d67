//! The room's type registry: definitions, imports and payload validation (ADP 13).

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error_code::ErrorCode;
use crate::event::{
    self, Kind, ShapeError, integer, is_custom_type_name, object, one_of, only, optional_object,
    optional_string, string,
};
pub use crate::schema::SchemaViolation;
use crate::schema::{CompiledSchema, SchemaError};

/// Largest serialized schema that ADP 21 recommends to hosts (bytes).
pub const MAX_SCHEMA_BYTES: usize = 16 * 1024;
/// Most types in one room that ADP 21 recommends to hosts.
pub const MAX_TYPES: usize = 64;

/// Whether a type may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TypeStatus {
    /// In use.
    Active,
    /// Still accepted, discouraged.
    Deprecated,
    /// Refused with `type_disabled`.
    Disabled,
}

/// One materialized type definition.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TypeDef {
    /// Kind, fixed for the life of the type.
    pub kind: Kind,
    /// Roles that may send it; none means the kind's default.
    pub roles: Option<Vec<String>>,
    /// Whether it may be used.
    pub status: TypeStatus,
    /// The definition as declared, overrides applied: what views show.
    pub definition: Map<String, Value>,
    #[serde(skip)]
    compiled: OnceLock<Option<Arc<CompiledSchema>>>,
}

impl PartialEq for TypeDef {
    fn eq(&self, other: &Self) -> bool {
        self.definition == other.definition
    }
}

/// A registry refusal with its protocol code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct RegistryError {
    /// Protocol code.
    pub code: ErrorCode,
    /// What is wrong.
    pub message: String,
}

fn refuse(code: ErrorCode, message: impl Into<String>) -> RegistryError {
    RegistryError { code, message: message.into() }
}

impl TypeDef {
    /// Reads one inline definition.
    ///
    /// # Errors
    /// `invalid_event`, for the shape or for a schema that is none, leaves the document or
    /// is too costly.
    pub fn from_definition(d: &Map<String, Value>) -> Result<Self, RegistryError> {
        check_definition(d)
            .map_err(|e| refuse(ErrorCode::InvalidEvent, format!("type definition {e}")))?;
        let kind = match d["kind"].as_str() {
            Some("message") => Kind::Message,
            Some("control") => Kind::Control,
            _ => Kind::Signal,
        };
        let roles = d
            .get("roles")
            .and_then(Value::as_array)
            .map(|roles| roles.iter().filter_map(Value::as_str).map(str::to_owned).collect());
        let status = match d.get("status").and_then(Value::as_str) {
            Some("deprecated") => TypeStatus::Deprecated,
            Some("disabled") => TypeStatus::Disabled,
            _ => TypeStatus::Active,
        };
        let schema = CompiledSchema::compile(&d["schema"]).map_err(|e: SchemaError| {
            let name = d["type"].as_str().unwrap_or_default();
            refuse(ErrorCode::InvalidEvent, format!("type definition {name}: schema: {e}"))
        })?;
        let compiled = OnceLock::from(Some(Arc::new(schema)));
        Ok(TypeDef { kind, roles, status, definition: d.clone(), compiled })
    }

    /// A definition that was read back from storage compiles on first use.
    fn schema(&self) -> Option<&Arc<CompiledSchema>> {
        self.compiled
            .get_or_init(|| CompiledSchema::compile(&self.definition["schema"]).ok().map(Arc::new))
            .as_ref()
    }

    /// Validates a payload.
    ///
    /// # Errors
    /// The first failing member.
    pub fn validate(&self, payload: &Value) -> Result<(), SchemaViolation> {
        match self.schema() {
            Some(schema) => schema.validate(payload),
            None => Err(SchemaViolation {
                path: String::new(),
                message: "the schema does not compile".to_owned(),
            }),
        }
    }

    /// Whether a member of `role` may send it (the creator is not asked).
    pub fn role_may_send(&self, role: &str) -> bool {
        match &self.roles {
            Some(roles) => roles.iter().any(|r| r == role),
            None => match self.kind {
                Kind::Message => matches!(role, "moderator" | "speaker"),
                Kind::Signal => true,
                Kind::Control | Kind::Lifecycle => role == "moderator",
            },
        }
    }
}

/// All custom types of a room, by name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Registry {
    types: BTreeMap<String, TypeDef>,
}

/// Gives the bytes of an external pack document, already checked against nothing.
pub type PackSource<'a> = &'a dyn Fn(&str, &str) -> Option<Vec<u8>>;

impl Registry {
    /// The definition of a custom type.
    pub fn get(&self, event_type: &str) -> Option<&TypeDef> {
        self.types.get(event_type)
    }

    /// Every definition with its name, in name order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &TypeDef)> {
        self.types.iter().map(|(k, v)| (k.as_str(), v))
    }

    /// Applies one declaration (inline or import). Nothing changes on error.
    ///
    /// # Errors
    /// [`RegistryError`].
    pub fn declare(
        &mut self,
        declaration: &Map<String, Value>,
        packs: PackSource<'_>,
    ) -> Result<(), RegistryError> {
        let defs = resolve(declaration, packs)?;
        let mut next = self.types.clone();
        for def in defs {
            let name = def.definition["type"].as_str().expect("checked shape").to_owned();
            if let Some(old) = next.get(&name)
                && old.kind != def.kind
            {
                return Err(refuse(
                    ErrorCode::InvalidEvent,
                    format!("{name}: a redefinition keeps its kind"),
                ));
            }
            next.insert(name, def);
        }
        self.types = next;
        Ok(())
    }
}

fn resolve(d: &Map<String, Value>, packs: PackSource<'_>) -> Result<Vec<TypeDef>, RegistryError> {
    let definitions = if let Some(id) = d.get("use").and_then(Value::as_str) {
        crate::pack::registered(id).ok_or_else(|| {
            refuse(ErrorCode::PackUnavailable, format!("{id} is no registered pack"))
        })?
    } else if let Some(uri) = d.get("pack").and_then(Value::as_str) {
        let digest = d["digest"].as_str().expect("checked shape");
        let bytes = packs(uri, digest).ok_or_else(|| {
            refuse(ErrorCode::PackUnavailable, "the pack document is not available")
        })?;
        crate::pack::parse_for(&bytes, digest, uri)
            .map_err(|e| refuse(ErrorCode::PackUnavailable, e.to_string()))?
    } else {
        return Ok(vec![TypeDef::from_definition(d)?]);
    };
    let named = |name: &str| definitions.iter().any(|def| def["type"] == name);
    let subset: Option<Vec<&str>> = d
        .get("types")
        .and_then(Value::as_array)
        .map(|list| list.iter().filter_map(Value::as_str).collect());
    for name in subset.iter().flatten() {
        if !named(name) {
            return Err(refuse(ErrorCode::InvalidEvent, format!("the pack has no type {name}")));
        }
    }
    let overrides = d.get("overrides").and_then(Value::as_object);
    for name in overrides.into_iter().flat_map(Map::keys) {
        if !named(name) {
            return Err(refuse(ErrorCode::InvalidEvent, format!("the pack has no type {name}")));
        }
    }
    let mut out = Vec::new();
    for mut def in definitions {
        let name = def["type"].as_str().unwrap_or_default().to_owned();
        if subset.as_ref().is_some_and(|s| !s.contains(&name.as_str())) {
            continue;
        }
        if let Some(changes) = overrides.and_then(|o| o.get(&name)).and_then(Value::as_object) {
            for (member, value) in changes {
                def.insert(member.clone(), value.clone());
            }
        }
        out.push(TypeDef::from_definition(&def)?);
    }
    Ok(out)
}

/// Closed shape of one declaration: inline definition or import.
///
/// # Errors
/// Path and message.
pub fn check_declaration(d: &Map<String, Value>) -> Result<(), ShapeError> {
    let import = d.contains_key("use") || d.contains_key("pack");
    if !import {
        return check_definition(d);
    }
    if d.contains_key("use") {
        only(d, "", &["use", "types", "overrides"])?;
        string(d, "use")?;
    } else {
        only(d, "", &["pack", "digest", "types", "overrides"])?;
        string(d, "pack")?;
        if crate::pack::PackDigest::parse(string(d, "digest")?).is_none() {
            return Err(ShapeError::new(
                "digest",
                "sha256: or sha3-256: and base64url of 32 bytes",
            ));
        }
    }
    if let Some(types) = d.get("types") {
        let ok = types.as_array().is_some_and(|t| !t.is_empty() && t.iter().all(Value::is_string));
        if !ok {
            return Err(ShapeError::new("types", "a non-empty array of type names"));
        }
    }
    if d.contains_key("overrides") {
        for (name, change) in object(d, "overrides")? {
            let at = format!("overrides.{name}");
            let change = change.as_object().ok_or_else(|| ShapeError::new(&at, "an object"))?;
            only(
                change,
                &at,
                &["roles", "instructions", "status", "rate_hint", "max_payload_hint"],
            )?;
            check_tunables(change)?;
        }
    }
    Ok(())
}

fn check_definition(d: &Map<String, Value>) -> Result<(), ShapeError> {
    only(
        d,
        "",
        &[
            "type",
            "kind",
            "title",
            "schema",
            "description",
            "roles",
            "instructions",
            "version",
            "status",
            "rate_hint",
            "max_payload_hint",
            "extra",
        ],
    )?;
    let name = string(d, "type")?;
    if !is_custom_type_name(name) {
        return Err(ShapeError::new("type", "not a custom type name"));
    }
    one_of(d, "kind", &["message", "signal", "control"])?;
    event::not_empty(d, "title")?;
    // What the schema may hold and cost is judged when it is compiled.
    object(d, "schema")?;
    optional_string(d, "description")?;
    optional_string(d, "version")?;
    optional_object(d, "extra")?;
    check_tunables(d)
}

fn check_tunables(d: &Map<String, Value>) -> Result<(), ShapeError> {
    if let Some(roles) = d.get("roles") {
        let ok = roles.as_array().is_some_and(|roles| {
            roles.iter().all(|r| matches!(r.as_str(), Some("moderator" | "speaker" | "observer")))
        });
        if !ok {
            return Err(ShapeError::new("roles", "an array of roles"));
        }
    }
    optional_string(d, "instructions")?;
    if d.contains_key("status") {
        one_of(d, "status", &["active", "deprecated", "disabled"])?;
    }
    for name in ["rate_hint", "max_payload_hint"] {
        if d.contains_key(name) {
            integer(d, name, 1)?;
        }
    }
    Ok(())
}
