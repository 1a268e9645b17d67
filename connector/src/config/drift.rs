//! Holds `provision.schema.json` and the parser together: what one takes, the other takes.

use serde_json::{Value, json};

use super::{ConfigError, PROVISION_SCHEMA, Settings, Tuning};

fn schema() -> Value {
    ap_protocol::json::parse(PROVISION_SCHEMA.as_bytes()).unwrap()
}

fn by_schema(document: &Value) -> bool {
    jsonschema::validator_for(&schema()).unwrap().is_valid(document)
}

fn by_parser(document: &Value) -> Result<Settings, ConfigError> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("provision.json");
    std::fs::write(&path, document.to_string()).unwrap();
    Settings::from_provision(&path)
}

/// A document with every member that the schema knows.
fn full() -> Value {
    let key = ap_protocol::SecretKey::from_seed(&[7; 32]);
    let tuning = Tuning::default();
    let tuning: serde_json::Map<String, Value> =
        tuning.bounds().iter().map(|(name, value, _)| ((*name).to_owned(), json!(value))).collect();
    json!({
        "version": 1, "state_dir": "state",
        "identity": { "seed": ap_protocol::encoding::encode([7u8; 32]), "agent_id": key.agent_id() },
        "hosts": [{ "host": "https://a.example", "label": "a", "profile_service": "https://p.example" }],
        "profile_services": ["https://q.example"],
        "watch": [{ "type": "review.*", "room_id": "r", "host": "https://a.example" }],
        "http": { "listen": "127.0.0.1:0", "token": "0123456789abcdef", "url_file": "url" },
        "tuning": tuning,
    })
}

#[track_caller]
fn agree(document: &Value, what: &str) {
    let (schema, parser) = (by_schema(document), by_parser(document));
    let parser_says = parser.as_ref().err().map(ToString::to_string);
    assert_eq!(schema, parser.is_ok(), "{what}: the parser says {parser_says:?}");
}

/// Pointers to every object, and to every member, of a document.
fn places(value: &Value, at: &str, objects: &mut Vec<String>, members: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            objects.push(at.to_owned());
            for (name, member) in map {
                let path = format!("{at}/{name}");
                members.push(path.clone());
                places(member, &path, objects, members);
            }
        }
        Value::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                places(item, &format!("{at}/{i}"), objects, members);
            }
        }
        _ => {}
    }
}

/// Names of every property anywhere in a schema.
fn properties(schema: &Value, found: &mut Vec<String>) {
    match schema {
        Value::Object(map) => {
            if let Some(Value::Object(named)) = map.get("properties") {
                found.extend(named.keys().cloned());
            }
            map.values().for_each(|v| properties(v, found));
        }
        Value::Array(items) => items.iter().for_each(|v| properties(v, found)),
        _ => {}
    }
}

#[test]
fn every_member_of_the_schema_is_one_of_the_parser_and_the_other_way_round() {
    let full = full();
    assert!(by_schema(&full));
    by_parser(&full).map(|_| ()).unwrap();
    let (mut objects, mut members) = (Vec::new(), Vec::new());
    places(&full, "", &mut objects, &mut members);
    let mut known = Vec::new();
    properties(&schema(), &mut known);
    for name in &known {
        // The one way to a token that the full document cannot show beside the other.
        let shown =
            name == "token_file" || members.iter().any(|m| m.ends_with(&format!("/{name}")));
        assert!(shown, "the full document of this test lacks {name}");
    }
    for at in &objects {
        let mut document = full.clone();
        document.pointer_mut(at).unwrap()["surprise"] = json!(1);
        assert!(!by_schema(&document), "the schema takes anything at {at:?}");
        agree(&document, &format!("an unknown member at {at:?}"));
    }
    for member in &members {
        let (parent, name) = member.rsplit_once('/').unwrap();
        let mut document = full.clone();
        document.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(name);
        agree(&document, &format!("without {member}"));
        for other in
            [json!(null), json!("text"), json!(7), json!(-1), json!(true), json!([]), json!({})]
        {
            let mut document = full.clone();
            let old = document.pointer_mut(member).unwrap();
            // Another text may be refused for what it says: see the table below.
            if old.is_string() && other.is_string() {
                continue;
            }
            *old = other.clone();
            agree(&document, &format!("{member} = {other}"));
        }
    }
}

#[test]
fn the_bounds_of_the_tuning_are_the_same() {
    let tuning = schema()["properties"]["tuning"]["properties"].clone();
    for (name, _, bounds) in Tuning::default().bounds() {
        assert_eq!(tuning[name]["minimum"], *bounds.start(), "{name}");
        for value in [0, 1, 2, 1000, 1001, 1023, 1024, 4_294_967_295, 4_294_967_296_u64] {
            let mut document = full();
            document["tuning"][name] = json!(value);
            agree(&document, &format!("{name} = {value}"));
        }
    }
}

#[test]
fn refusals_agree() {
    for (pointer, value) in [
        ("/version", json!(2)),
        ("/version", json!("1")),
        ("/state_dir", json!("")),
        ("/identity/seed", json!("short")),
        ("/identity/seed", json!(format!("{}=", "A".repeat(43)))),
        ("/identity/agent_id", json!("did:agent:short")),
        ("/hosts", json!({})),
        ("/hosts/0", json!(["https://a.example"])),
        ("/identity", json!(["AAAA", "did:agent:x"])),
        ("/http", json!(["127.0.0.1:0", "0123456789abcdef"])),
        ("/hosts/0", json!("https://a.example")),
        ("/watch/0/type", json!("")),
        ("/http/token", json!("short")),
        ("/http/token_file", json!("both")),
    ] {
        let mut document = full();
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        match document.pointer_mut(parent).unwrap() {
            Value::Array(items) => items[0] = value.clone(),
            object => object[name] = value.clone(),
        }
        assert!(!by_schema(&document), "{pointer} = {value}: the schema takes it");
        assert!(by_parser(&document).is_err(), "{pointer} = {value}: the parser takes it");
    }
}

/// What no schema can say, the parser refuses with a code of its own.
#[test]
fn what_a_text_means_is_the_parsers_to_judge() {
    let other = ap_protocol::SecretKey::from_seed(&[8; 32]).agent_id().to_string();
    for (pointer, value, code) in [
        ("/identity/agent_id", other.as_str(), "config_identity_refused"),
        ("/hosts/0/host", "http://a.example", "config_origin_refused"),
        ("/hosts/0/host", "https://a.example/path", "config_origin_refused"),
        ("/hosts/0/profile_service", "ftp://a.example", "config_origin_refused"),
        ("/profile_services/0", "not a url", "config_origin_refused"),
        ("/http/listen", "0.0.0.0:0", "http_not_loopback"),
        ("/http/listen", "localhost:0", "http_not_loopback"),
    ] {
        let mut document = full();
        *document.pointer_mut(pointer).unwrap() = json!(value);
        let e = by_parser(&document).err().unwrap_or_else(|| panic!("{pointer} = {value}"));
        assert_eq!(e.code(), code, "{pointer} = {value}: {e}");
        assert!(!e.to_string().contains(document["identity"]["seed"].as_str().unwrap()));
    }
}
