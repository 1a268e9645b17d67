//! Writes the vector files: the same bytes on every machine and in every build.
//!
//! Verdicts are written down here by hand, from the protocol texts; the kernel only makes
//! the material (signed events, chains). A test holds the kernel to the verdicts.

mod archive;
mod envelope;
mod identity;
mod packs;
mod replay;
mod room;
mod text;

use serde_json::{Map, Value};

use crate::case::{Case, FORMAT, File};

/// The generated files with their names.
pub fn files() -> Vec<(&'static str, File)> {
    vec![
        ("json", text::json()),
        ("jcs", text::jcs()),
        ("identity", identity::identity()),
        ("ed25519", identity::ed25519()),
        ("jwt", identity::jwt()),
        ("envelope", envelope::envelope()),
        ("profile", envelope::profile()),
        ("records", archive::records()),
        ("replay", replay::replay()),
        ("types", packs::types()),
        ("packs", packs::packs()),
        ("archive", archive::archive()),
        ("sse", text::sse()),
    ]
}

/// The exact bytes of a vector file.
pub fn to_text(file: &File) -> String {
    let mut text = serde_json::to_string_pretty(file).expect("strings and JSON values only");
    text.push('\n');
    text
}

/// A file under construction.
struct Writer {
    prefix: &'static str,
    file: File,
}

impl Writer {
    fn new(prefix: &'static str, title: &str, source: &str) -> Self {
        let (format, title, source) = (FORMAT.to_owned(), title.to_owned(), source.to_owned());
        Writer { prefix, file: File { format, title, source, cases: Vec::new() } }
    }

    fn add(&mut self, id: &str, op: &str, input: Value, output: Value) -> &mut Case {
        self.file.cases.push(Case {
            id: format!("{}/{id}", self.prefix),
            op: op.to_owned(),
            about: None,
            anchor: None,
            peer: None,
            decision: None,
            input: members(input),
            output: members(output),
        });
        self.file.cases.last_mut().expect("pushed just above")
    }

    fn done(self) -> File {
        self.file
    }
}

impl Case {
    fn anchor(&mut self, text: &str) -> &mut Self {
        self.anchor = Some(text.to_owned());
        self
    }

    fn about(&mut self, text: &str) -> &mut Self {
        self.about = Some(text.to_owned());
        self
    }

    fn decision(&mut self, text: &str) -> &mut Self {
        self.decision = Some(text.to_owned());
        self
    }
}

fn members(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        _ => unreachable!("cases are written as objects"),
    }
}
