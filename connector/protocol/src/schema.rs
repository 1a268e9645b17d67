//! JSON Schema 2020-12 from strangers: compiled without fetching, evaluated at bounded cost.
//!
//! A type definition's schema is written by one agent and run by everybody, so its size,
//! depth, references, patterns and the work it can cause are bounded before the engine sees
//! it. This module never retrieves a reference and never asserts `format`.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::Serialize;
use serde_json::{Map, Value};

/// Bounds on a schema and on what evaluating it may cost. Far above what the protocol
/// recommends to hosts ([`crate::limits`]): passing these is no privilege, failing them is
/// no ordinary schema.
#[derive(Debug, Clone, Copy)]
pub struct SchemaLimits {
    /// Largest canonical form (bytes).
    pub max_bytes: usize,
    /// Deepest nesting of the schema text.
    pub max_depth: usize,
    /// Most subschemas.
    pub max_subschemas: usize,
    /// Longest run of `$ref`, `allOf` and the like that applies to one instance value.
    pub max_chain: usize,
    /// Longest regular expression (bytes).
    pub max_pattern_bytes: usize,
    /// Most (subschema, value) evaluations for one payload, counted as an upper bound.
    pub max_evaluations: u64,
}

impl SchemaLimits {
    /// The bounds in force.
    pub const DEFAULT: SchemaLimits = SchemaLimits {
        max_bytes: 256 * 1024,
        max_depth: 96,
        max_subschemas: 4096,
        max_chain: 64,
        max_pattern_bytes: 4096,
        max_evaluations: 1_000_000,
    };
}

/// Steps a backtracking pattern may take on one string. Patterns without look-around and
/// back-references never backtrack: they run in linear time.
const BACKTRACK_LIMIT: usize = 20_000;
/// Largest compiled pattern (bytes).
const PATTERN_SIZE_LIMIT: usize = 1 << 20;

/// Why a schema is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// The schema is no object.
    #[error("a type's schema is an object")]
    NotAnObject,
    /// A reference leaves the document.
    #[error("{0}: only references into the schema itself are resolved")]
    RemoteReference(String),
    /// A subschema names itself a resource of its own.
    #[error("{0}: embedded resources are not supported, drop the $id")]
    EmbeddedResource(String),
    /// A reference names nothing.
    #[error("{0}: the reference leads nowhere")]
    DanglingReference(String),
    /// Subschemas apply to the same value for ever.
    #[error("{0}: the schema applies itself to the same value")]
    Circular(String),
    /// One of [`SchemaLimits`] is exceeded.
    #[error("the schema is too costly: {0}")]
    TooCostly(&'static str),
    /// The engine does not take it.
    #[error("not a JSON Schema: {0}")]
    Invalid(String),
}

impl SchemaError {
    /// Stable machine-readable code.
    pub fn code(&self) -> &'static str {
        match self {
            SchemaError::NotAnObject => "schema_not_an_object",
            SchemaError::RemoteReference(_) => "schema_remote_reference",
            SchemaError::EmbeddedResource(_) => "schema_embedded_resource",
            SchemaError::DanglingReference(_) => "schema_dangling_reference",
            SchemaError::Circular(_) => "schema_circular",
            SchemaError::TooCostly(_) => "schema_too_costly",
            SchemaError::Invalid(_) => "schema_invalid",
        }
    }
}

/// Where a payload fails its schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SchemaViolation {
    /// JSON pointer into the payload, down to the member that fails, is missing or is extra.
    pub path: String,
    /// What the schema wants there.
    pub message: String,
}

/// A schema that passed the bounds and compiled.
#[derive(Debug)]
pub struct CompiledSchema {
    source: Value,
    validator: jsonschema::Validator,
}

impl CompiledSchema {
    /// Checks the bounds and compiles.
    ///
    /// # Errors
    /// [`SchemaError`].
    pub fn compile(schema: &Value) -> Result<Self, SchemaError> {
        Self::compile_with(schema, &SchemaLimits::DEFAULT)
    }

    /// As [`CompiledSchema::compile`], with other bounds.
    ///
    /// # Errors
    /// [`SchemaError`].
    pub fn compile_with(schema: &Value, limits: &SchemaLimits) -> Result<Self, SchemaError> {
        check(schema, limits)?;
        let validator = jsonschema::options()
            .with_draft(jsonschema::Draft::Draft202012)
            .should_validate_formats(false)
            .with_pattern_options(
                jsonschema::PatternOptions::fancy_regex()
                    .backtrack_limit(BACKTRACK_LIMIT)
                    .size_limit(PATTERN_SIZE_LIMIT)
                    .dfa_size_limit(PATTERN_SIZE_LIMIT),
            )
            .build(schema)
            .map_err(|e| SchemaError::Invalid(shorten(&e.to_string())))?;
        Ok(CompiledSchema { source: schema.clone(), validator })
    }

    /// Validates a payload, if that is affordable.
    ///
    /// # Errors
    /// The first failing member, or the whole payload when evaluating it would exceed
    /// [`SchemaLimits::max_evaluations`].
    pub fn validate(&self, payload: &Value) -> Result<(), SchemaViolation> {
        let budget = SchemaLimits::DEFAULT.max_evaluations;
        if cost(&self.source, payload, budget).is_none() {
            return Err(SchemaViolation {
                path: String::new(),
                message: format!("needs more than {budget} schema evaluations"),
            });
        }
        self.validator.validate(payload).map_err(|e| {
            use jsonschema::error::ValidationErrorKind as Kind;
            let mut path = e.instance_path().to_string();
            let member = match e.kind() {
                Kind::Required { property } => property.as_str(),
                Kind::AdditionalProperties { unexpected }
                | Kind::UnevaluatedProperties { unexpected } => {
                    unexpected.first().map(String::as_str)
                }
                _ => None,
            };
            if let Some(member) = member {
                path.push('/');
                path.push_str(&member.replace('~', "~0").replace('/', "~1"));
            }
            SchemaViolation { path, message: shorten(&e.to_string()) }
        })
    }
}

fn shorten(text: &str) -> String {
    text.chars().take(400).collect()
}

/// How a keyword applies its subschemas.
enum Applies<'s> {
    /// To the same value.
    InPlace(&'s Value),
    /// To a member, item or member name of the value.
    Child(&'s Value),
    /// Only when referenced.
    Definition(&'s Value),
}

/// Calls `visit` for each direct subschema of `schema`.
fn subschemas<'s>(schema: &'s Map<String, Value>, visit: &mut dyn FnMut(&'s str, Applies<'s>)) {
    for (keyword, value) in schema {
        match keyword.as_str() {
            "allOf" | "anyOf" | "oneOf" => {
                for item in value.as_array().into_iter().flatten() {
                    visit(keyword, Applies::InPlace(item));
                }
            }
            "not" | "if" | "then" | "else" => visit(keyword, Applies::InPlace(value)),
            "dependentSchemas" | "dependencies" => {
                for item in value.as_object().into_iter().flat_map(Map::values) {
                    visit(keyword, Applies::InPlace(item));
                }
            }
            "properties" | "patternProperties" => {
                for item in value.as_object().into_iter().flat_map(Map::values) {
                    visit(keyword, Applies::Child(item));
                }
            }
            "prefixItems" => {
                for item in value.as_array().into_iter().flatten() {
                    visit(keyword, Applies::Child(item));
                }
            }
            "additionalProperties"
            | "unevaluatedProperties"
            | "propertyNames"
            | "items"
            | "unevaluatedItems"
            | "contains" => visit(keyword, Applies::Child(value)),
            "$defs" | "definitions" => {
                for item in value.as_object().into_iter().flat_map(Map::values) {
                    visit(keyword, Applies::Definition(item));
                }
            }
            _ => {}
        }
    }
}

/// The schema document with what its references can name.
struct Document<'s> {
    root: &'s Value,
    anchors: BTreeMap<&'s str, &'s Value>,
}

impl<'s> Document<'s> {
    fn resolve(&self, reference: &str) -> Result<&'s Value, SchemaError> {
        let own_id = self.root.get("$id").and_then(Value::as_str).filter(|id| !id.is_empty());
        let fragment = match own_id.and_then(|id| reference.strip_prefix(id)) {
            Some("") => "",
            Some(rest) if rest.starts_with('#') => &rest[1..],
            _ => reference
                .strip_prefix('#')
                .ok_or_else(|| SchemaError::RemoteReference(shorten(reference)))?,
        };
        let found = if fragment.is_empty() {
            Some(self.root)
        } else if fragment.starts_with('/') {
            self.root.pointer(&percent_decode(fragment))
        } else {
            self.anchors.get(fragment).copied()
        };
        found.ok_or_else(|| SchemaError::DanglingReference(shorten(reference)))
    }

    /// The schemas that apply to the same value as `schema` does, references resolved.
    fn in_place(&self, schema: &'s Map<String, Value>) -> Result<Vec<&'s Value>, SchemaError> {
        let mut out = Vec::new();
        subschemas(schema, &mut |_, applies| {
            if let Applies::InPlace(sub) = applies {
                out.push(sub);
            }
        });
        for keyword in ["$ref", "$dynamicRef"] {
            if let Some(reference) = schema.get(keyword).and_then(Value::as_str) {
                out.push(self.resolve(reference)?);
            }
        }
        Ok(out)
    }
}

fn percent_decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let hex = tail.get(..2).filter(|_| first == b'%');
        let byte = hex
            .and_then(|h| std::str::from_utf8(h).ok())
            .and_then(|h| u8::from_str_radix(h, 16).ok());
        match byte {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            None => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn document(root: &Value) -> Document<'_> {
    let mut document = Document { root, anchors: BTreeMap::new() };
    let mut seen = HashSet::new();
    let mut open = vec![root];
    while let Some(schema) = open.pop() {
        let Some(members) = schema.as_object() else { continue };
        if !seen.insert(std::ptr::from_ref(schema)) {
            continue;
        }
        for keyword in ["$anchor", "$dynamicAnchor"] {
            if let Some(name) = members.get(keyword).and_then(Value::as_str) {
                document.anchors.insert(name, schema);
            }
        }
        subschemas(members, &mut |_, applies| match applies {
            Applies::InPlace(s) | Applies::Child(s) | Applies::Definition(s) => open.push(s),
        });
    }
    document
}

/// Checks the bounds without compiling.
///
/// # Errors
/// [`SchemaError`].
pub fn check(schema: &Value, limits: &SchemaLimits) -> Result<(), SchemaError> {
    if !schema.is_object() {
        return Err(SchemaError::NotAnObject);
    }
    if depth(schema, limits.max_depth).is_none() {
        return Err(SchemaError::TooCostly("nested too deeply"));
    }
    if crate::jcs::to_vec(schema).len() > limits.max_bytes {
        return Err(SchemaError::TooCostly("too large"));
    }
    let document = document(schema);
    let mut seen = HashSet::new();
    let mut open = vec![schema];
    while let Some(schema) = open.pop() {
        let Some(members) = schema.as_object() else { continue };
        if !seen.insert(std::ptr::from_ref(schema)) {
            continue;
        }
        if seen.len() > limits.max_subschemas {
            return Err(SchemaError::TooCostly("too many subschemas"));
        }
        if !std::ptr::eq(schema, document.root)
            && let Some(id) = members.get("$id").and_then(Value::as_str)
        {
            return Err(SchemaError::EmbeddedResource(shorten(id)));
        }
        for pattern in patterns(members) {
            if pattern.len() > limits.max_pattern_bytes {
                return Err(SchemaError::TooCostly("a pattern is too long"));
            }
        }
        subschemas(members, &mut |_, applies| match applies {
            Applies::InPlace(s) | Applies::Child(s) | Applies::Definition(s) => open.push(s),
        });
        // A reference may lead into a place no keyword makes a schema: it is one then.
        open.extend(document.in_place(members)?);
    }
    let mut chains = Chains { document: &document, lengths: HashMap::new(), limits };
    let mut open = vec![document.root];
    let mut walked = HashSet::new();
    while let Some(schema) = open.pop() {
        let Some(members) = schema.as_object() else { continue };
        if !walked.insert(std::ptr::from_ref(schema)) {
            continue;
        }
        chains.longest(schema)?;
        subschemas(members, &mut |_, applies| match applies {
            Applies::InPlace(s) | Applies::Child(s) | Applies::Definition(s) => open.push(s),
        });
        open.extend(document.in_place(members)?);
    }
    Ok(())
}

fn patterns(schema: &Map<String, Value>) -> impl Iterator<Item = &str> {
    let own = schema.get("pattern").and_then(Value::as_str);
    let names = schema.get("patternProperties").and_then(Value::as_object);
    own.into_iter().chain(names.into_iter().flat_map(Map::keys).map(String::as_str))
}

fn depth(value: &Value, left: usize) -> Option<()> {
    let left = left.checked_sub(1)?;
    match value {
        Value::Array(items) => items.iter().try_for_each(|item| depth(item, left)),
        Value::Object(members) => members.values().try_for_each(|item| depth(item, left)),
        _ => Some(()),
    }
}

/// Longest in-place chains, and the circles among them.
struct Chains<'d, 's> {
    document: &'d Document<'s>,
    /// None while the schema is being measured.
    lengths: HashMap<*const Value, Option<usize>>,
    limits: &'d SchemaLimits,
}

impl<'s> Chains<'_, 's> {
    /// The longest in-place chain that starts at `schema`.
    fn longest(&mut self, schema: &'s Value) -> Result<usize, SchemaError> {
        self.measure(schema, 0)
    }

    fn measure(&mut self, schema: &'s Value, above: usize) -> Result<usize, SchemaError> {
        let Some(members) = schema.as_object() else { return Ok(0) };
        match self.lengths.get(&std::ptr::from_ref(schema)) {
            Some(Some(length)) => return Ok(*length),
            Some(None) => {
                let name = members.get("$ref").and_then(Value::as_str).unwrap_or("#");
                return Err(SchemaError::Circular(shorten(name)));
            }
            None => {}
        }
        // Bounds this recursion as well as the engine's.
        if above > self.limits.max_chain {
            return Err(SchemaError::TooCostly("a chain of references is too long"));
        }
        self.lengths.insert(std::ptr::from_ref(schema), None);
        let mut longest = 0;
        for sub in self.document.in_place(members)? {
            longest = longest.max(1 + self.measure(sub, above + 1)?);
        }
        if longest > self.limits.max_chain {
            return Err(SchemaError::TooCostly("a chain of references is too long"));
        }
        self.lengths.insert(std::ptr::from_ref(schema), Some(longest));
        Ok(longest)
    }
}

/// An upper bound on the evaluations of (subschema, value) pairs that `payload` causes, or
/// none when it exceeds `budget`. Each pair is counted once and multiplied, so the bound
/// itself is cheap where the evaluation would explode.
pub fn cost(schema: &Value, payload: &Value, budget: u64) -> Option<u64> {
    let document = document(schema);
    let mut meter = Meter { document: &document, known: HashMap::new(), budget };
    meter.measure(schema, payload, 0)
}

/// Deepest alternation of schema and value that the engine may recurse through.
const MAX_EVALUATION_DEPTH: usize = 1024;

struct Meter<'d, 's> {
    document: &'d Document<'s>,
    known: HashMap<(*const Value, *const Value), u64>,
    budget: u64,
}

impl<'s> Meter<'_, 's> {
    fn measure(&mut self, schema: &'s Value, value: &Value, depth: usize) -> Option<u64> {
        let Some(members) = schema.as_object() else { return Some(1) };
        let pair = (std::ptr::from_ref(schema), std::ptr::from_ref(value));
        if let Some(cost) = self.known.get(&pair) {
            return Some(*cost);
        }
        if depth > MAX_EVALUATION_DEPTH || self.known.len() as u64 > self.budget {
            return None;
        }
        let mut in_place = 1u64;
        for sub in self.document.in_place(members).ok()? {
            let more = self.measure(sub, value, depth + 1)?;
            in_place = self.within(in_place, more)?;
        }
        // Unevaluated members are found by walking the in-place schemas a second time.
        if members.contains_key("unevaluatedProperties") || members.contains_key("unevaluatedItems")
        {
            in_place = self.within(in_place, in_place)?;
        }
        let mut total = in_place;
        for (sub, child) in children(members, value) {
            let more = self.measure(sub, child, depth + 1)?;
            total = self.within(total, more)?;
        }
        // Comparing all items with each other.
        if members.get("uniqueItems") == Some(&Value::Bool(true))
            && let Value::Array(items) = value
        {
            total = self.within(total, items.len() as u64)?;
        }
        self.known.insert(pair, total);
        Some(total)
    }

    fn within(&self, a: u64, b: u64) -> Option<u64> {
        a.checked_add(b).filter(|sum| *sum <= self.budget)
    }
}

/// The (subschema, child value) pairs one step down. Member names count as the object.
fn children<'s, 'v>(
    schema: &'s Map<String, Value>,
    value: &'v Value,
) -> Vec<(&'s Value, &'v Value)> {
    let mut out = Vec::new();
    let object = |keyword: &str| schema.get(keyword).and_then(Value::as_object);
    match value {
        Value::Object(members) => {
            for (name, child) in members {
                if let Some(sub) = object("properties").and_then(|p| p.get(name)) {
                    out.push((sub, child));
                }
                for sub in object("patternProperties").into_iter().flat_map(Map::values) {
                    out.push((sub, child));
                }
                for keyword in ["additionalProperties", "unevaluatedProperties", "propertyNames"] {
                    if let Some(sub) = schema.get(keyword) {
                        out.push((sub, child));
                    }
                }
            }
        }
        Value::Array(items) => {
            let prefix = schema.get("prefixItems").and_then(Value::as_array);
            for (i, child) in items.iter().enumerate() {
                if let Some(sub) = prefix.and_then(|p| p.get(i)) {
                    out.push((sub, child));
                }
                for keyword in ["items", "unevaluatedItems", "contains"] {
                    if let Some(sub) = schema.get(keyword) {
                        out.push((sub, child));
                    }
                }
            }
        }
        _ => {}
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn code(schema: Value) -> &'static str {
        CompiledSchema::compile(&schema).map(|_| "ok").unwrap_or_else(|e| e.code())
    }

    #[test]
    fn references_stay_inside() {
        assert_eq!(code(json!({"$ref": "https://example.com/s.json"})), "schema_remote_reference");
        assert_eq!(code(json!({"$ref": "other.json#/a"})), "schema_remote_reference");
        assert_eq!(code(json!({"$ref": "file:///etc/passwd"})), "schema_remote_reference");
        assert_eq!(code(json!({"$dynamicRef": "#x"})), "schema_dangling_reference");
        assert_eq!(code(json!({"$ref": "#/$defs/a", "$defs": {"a": {"type": "string"}}})), "ok");
        assert_eq!(code(json!({"$ref": "#b", "$defs": {"a": {"$anchor": "b"}}})), "ok");
        // Data is no schema, whatever its members are called.
        assert_eq!(code(json!({"const": {"$ref": "https://example.com"}})), "ok");
        assert_eq!(code(json!({"properties": {"$ref": {"type": "string"}}})), "ok");
        let nested = json!({"properties": {"a": {"$id": "https://x/y", "type": "object"}}});
        assert_eq!(code(nested), "schema_embedded_resource");
    }

    #[test]
    fn circles_and_chains_are_refused_before_the_engine_runs() {
        assert_eq!(code(json!({"$ref": "#"})), "schema_circular");
        assert_eq!(code(json!({"allOf": [{"anyOf": [{"$ref": "#"}]}]})), "schema_circular");
        let recursive = json!({"type": "object", "properties": {"next": {"$ref": "#"}}});
        assert_eq!(code(recursive), "ok");
        let mut defs = Map::new();
        for i in 0..2000 {
            defs.insert(format!("a{i}"), json!({"$ref": format!("#/$defs/a{}", i + 1)}));
        }
        defs.insert("a2000".to_owned(), json!({}));
        assert_eq!(code(json!({"$ref": "#/$defs/a0", "$defs": defs})), "schema_too_costly");
    }

    /// Each child schema refers to the next: no chain on one value, but deep to compile.
    #[test]
    fn long_child_chains_compile_on_a_small_stack() {
        let run = || {
            let mut defs = Map::new();
            for i in 0..1300 {
                let next = json!({"$ref": format!("#/$defs/a{}", i + 1)});
                defs.insert(format!("a{i}"), json!({"properties": {"x": next}}));
            }
            defs.insert("a1300".to_owned(), json!({}));
            code(json!({"$ref": "#/$defs/a0", "$defs": defs}))
        };
        let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(run).unwrap();
        assert_eq!(thread.join().unwrap(), "ok");
    }

    #[test]
    fn exponential_work_is_refused_without_doing_it() {
        // 2^40 evaluations of one value.
        let mut defs = Map::new();
        for i in 0..40 {
            let next = json!({"$ref": format!("#/$defs/a{}", i + 1)});
            defs.insert(format!("a{i}"), json!({"allOf": [next, next]}));
        }
        defs.insert("a40".to_owned(), json!({}));
        let schema = json!({"$ref": "#/$defs/a0", "$defs": defs});
        assert_eq!(cost(&schema, &json!({}), 1_000_000), None);
        // 2^depth evaluations of a nested value.
        let schema = json!({"anyOf": [
            {"properties": {"a": {"$ref": "#"}}},
            {"properties": {"a": {"$ref": "#"}}},
        ]});
        let compiled = CompiledSchema::compile(&schema).unwrap();
        let mut payload = json!({});
        for _ in 0..60 {
            payload = json!({ "a": payload });
        }
        assert!(compiled.validate(&payload).unwrap_err().message.contains("evaluations"));
        assert!(compiled.validate(&json!({"a": {"a": {}}})).is_ok());
    }

    #[test]
    fn patterns_are_bounded() {
        let schema = json!({"properties": {"s": {"type": "string", "pattern": "^(?=(a+)+$)b"}}});
        let compiled = CompiledSchema::compile(&schema).unwrap();
        let started = std::time::Instant::now();
        assert!(compiled.validate(&json!({"s": format!("{}c", "a".repeat(4000))})).is_err());
        assert!(started.elapsed().as_secs() < 2, "{:?}", started.elapsed());
        let schema = json!({"pattern": "(a{1000}){1000}{1000}"});
        assert_eq!(code(schema), "schema_invalid");
        assert_eq!(code(json!({"pattern": "x".repeat(5000)})), "schema_too_costly");
        assert_eq!(code(json!({"pattern": "(?=a)b"})), "ok");
    }

    #[test]
    fn violations_name_the_member() {
        let schema = json!({
            "type": "object", "required": ["a/b"], "additionalProperties": false,
            "properties": {
                "a/b": {"type": "string"},
                "list": {"items": {"type": "integer"}},
            },
        });
        let compiled = CompiledSchema::compile(&schema).unwrap();
        let path = |payload: Value| compiled.validate(&payload).unwrap_err().path;
        assert_eq!(path(json!({})), "/a~1b");
        assert_eq!(path(json!({"a/b": 1})), "/a~1b");
        assert_eq!(path(json!({"a/b": "", "list": [1, "x"]})), "/list/1");
        assert_eq!(path(json!({"a/b": "", "zz": 1})), "/zz");
    }
}
