//! The committed files: their shape, their number, and that the generator still writes them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use ap_vectors::{case, generate};

/// Whoever changes a case on purpose runs the generator and commits what it wrote.
#[test]
fn generator_reproduces_every_file_byte_for_byte() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("v1");
    let mut written = BTreeSet::new();
    for (name, file) in generate::files() {
        let committed = std::fs::read_to_string(folder.join(format!("{name}.json"))).unwrap();
        let now = generate::to_text(&file);
        let line = committed.lines().zip(now.lines()).position(|(a, b)| a != b);
        assert!(committed == now, "{name}.json differs from line {line:?}: generate it again");
        written.insert(format!("{name}.json"));
    }
    let present: BTreeSet<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(present, written, "a file without a generator, or one that is not committed");
}

#[test]
fn every_file_fits_the_schema_and_is_bundled() {
    let schema: serde_json::Value =
        serde_json::from_str(include_str!("../../vector-file.schema.json")).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut count = 0;
    for folder in ["known", "v1"] {
        for entry in std::fs::read_dir(root.join(folder)).unwrap() {
            let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
            let file: serde_json::Value = serde_json::from_str(&text).unwrap();
            if let Err(e) = validator.validate(&file) {
                panic!("{folder}: {e} at {}", e.instance_path());
            }
            count += file["cases"].as_array().unwrap().len();
        }
    }
    assert_eq!(case::bundled().len(), count);
}

#[test]
fn ids_are_unique_and_every_subject_is_covered_both_ways() {
    let cases = case::bundled();
    let mut ids = BTreeSet::new();
    let mut verdicts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for case in &cases {
        assert!(ids.insert(&case.id), "{} twice", case.id);
        let subject = case.id.split('/').next().unwrap();
        let counts = verdicts.entry(subject).or_default();
        match case.output["ok"].as_bool() {
            Some(true) => counts.0 += 1,
            Some(false) => counts.1 += 1,
            None => panic!("{} has no verdict", case.id),
        }
    }
    assert!(cases.len() >= 300, "{} cases", cases.len());
    for (subject, (accepted, refused)) in verdicts {
        let refusable = !matches!(subject, "jcs" | "sse");
        assert!(accepted > 0 && (refused > 0 || !refusable), "{subject} is one-sided");
    }
}
