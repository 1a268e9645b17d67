//! `ap-connector verify`: reads an archive in pieces, checks signatures on every core, and
//! prints what holds. Judgement is the kernel's; nothing is fetched.

use std::fs::File;
use std::io::{BufRead, BufReader, IsTerminal, Read};
use std::path::{Path, PathBuf};

use ap_protocol::archive::{Failure, Part, Verdict, Verifier};
use ap_protocol::record::RecordError;
use ap_protocol::{CheckedRecord, json};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;

use super::args::VerifyArgs;
use super::{CliError, exit, out, printable};

/// Longest line (bytes); records are at most 64 KiB of payload on honest hosts.
const MAX_LINE_BYTES: usize = 16 * 1024 * 1024;
/// Largest archive that is one JSON document (bytes), for it is read whole.
const MAX_DOCUMENT_BYTES: usize = 1024 * 1024 * 1024;
/// Records that are checked together.
const BATCH: usize = 1024;

pub(super) fn run(options: &VerifyArgs) -> Result<u8, CliError> {
    let path = archive_file(&options.archive);
    let file = File::open(&path).map_err(|e| CliError::file("cannot open", &path, e))?;
    let size = file.metadata().map(|m| m.len()).unwrap_or(0);
    let mut verifier = Verifier::new(options.room.as_deref());
    if let Some(manifest) = manifest_file(options) {
        match part_of_file(&manifest)? {
            Ok(part) => verifier.push(part),
            Err(failure) => verifier.fail(failure),
        }
    }
    let progress = progress(size);
    read(BufReader::with_capacity(256 * 1024, file), &path, options, &mut verifier, &progress)?;
    progress.finish_and_clear();
    let verdict = verifier.finish();
    if options.json {
        let value = serde_json::to_value(&verdict).expect("a verdict is plain data");
        out(&format!("{value:#}"));
    } else {
        out(&readable(&path, &verdict));
    }
    Ok(if verdict.verified { exit::OK } else { exit::CHECK_FAILED })
}

fn archive_file(given: &Path) -> PathBuf {
    if given.is_dir() { given.join("archive.jsonl") } else { given.to_owned() }
}

fn manifest_file(options: &VerifyArgs) -> Option<PathBuf> {
    let beside = || {
        let found = options.archive.join("manifest.json");
        (options.archive.is_dir() && found.is_file()).then_some(found)
    };
    options.manifest.clone().or_else(beside)
}

fn progress(size: u64) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(size);
    let style = ProgressStyle::with_template("{bytes}/{total_bytes} {wide_bar} {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

fn part_of_file(path: &Path) -> Result<Result<Part, Failure>, CliError> {
    let bytes = std::fs::read(path).map_err(|e| CliError::file("cannot read", path, e))?;
    Ok(json::parse(&bytes)
        .map_err(|e| Failure::format(format!("{}: {e}", path.display())))
        .and_then(Part::of))
}

/// A line up to the limit; `None` at the end.
fn line(reader: &mut impl BufRead, buffer: &mut Vec<u8>) -> std::io::Result<Option<bool>> {
    buffer.clear();
    let n = reader.take(MAX_LINE_BYTES as u64 + 1).read_until(b'\n', buffer)?;
    Ok((n > 0).then_some(n <= MAX_LINE_BYTES))
}

fn read(
    mut reader: impl BufRead,
    path: &Path,
    options: &VerifyArgs,
    verifier: &mut Verifier,
    progress: &ProgressBar,
) -> Result<(), CliError> {
    let failed = |e| CliError::file("cannot read", path, e);
    let mut room = options.room.clone();
    let mut buffer = Vec::new();
    let mut batch: Vec<Part> = Vec::with_capacity(BATCH);
    let (mut number, mut at) = (0u64, 0u64);
    while let Some(fits) = line(&mut reader, &mut buffer).map_err(failed)? {
        number += 1;
        at += buffer.len() as u64;
        if buffer.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let limits = json::Limits { max_bytes: MAX_LINE_BYTES, max_depth: 128 };
        let parsed = if fits { json::parse_with(&buffer, &limits).ok() } else { None };
        let first = batch.is_empty() && verifier.count() == 0;
        let is_document =
            |v: &Value| v.get("records").or(v.get("events")).is_some_and(Value::is_array);
        if first && parsed.as_ref().is_none_or(is_document) {
            // Not a line by itself: the file is one document.
            let mut rest = std::mem::take(&mut buffer);
            reader.take(MAX_DOCUMENT_BYTES as u64).read_to_end(&mut rest).map_err(failed)?;
            document(&rest, verifier);
            return Ok(());
        }
        let part = match parsed {
            Some(value) => Part::of(value),
            None if fits => json::parse_with(&buffer, &limits)
                .map_err(|e| Failure::format(format!("line {number}: {e}")))
                .and_then(Part::of),
            None => Err(Failure::format(format!("line {number} is longer than 16 MiB"))),
        };
        match part {
            Ok(part) => batch.push(part),
            Err(failure) => {
                push(&mut batch, &mut room, verifier);
                verifier.fail(failure);
                return Ok(());
            }
        }
        if batch.len() == BATCH {
            push(&mut batch, &mut room, verifier);
            progress.set_position(at);
            progress.set_message(format!("{} records", verifier.count()));
            if verifier.failed() {
                return Ok(());
            }
        }
    }
    push(&mut batch, &mut room, verifier);
    Ok(())
}

fn document(bytes: &[u8], verifier: &mut Verifier) {
    let limits = json::Limits { max_bytes: MAX_DOCUMENT_BYTES, max_depth: 128 };
    let parts = json::parse_with(bytes, &limits)
        .map_err(|e| Failure::format(format!("neither JSON lines nor one JSON document: {e}")))
        .and_then(Part::of_document);
    match parts {
        Ok(mut parts) => push(&mut parts, &mut None, verifier),
        Err(failure) => verifier.fail(failure),
    }
}

/// Checks the records of a batch by themselves on every core, then hands all parts over in
/// their order.
fn push(batch: &mut Vec<Part>, room: &mut Option<String>, verifier: &mut Verifier) {
    let parts = std::mem::take(batch);
    if room.is_none() {
        *room = parts.iter().find_map(|part| match part {
            Part::Record(record) => record["room_id"].as_str().map(str::to_owned),
            _ => None,
        });
    }
    let room = room.clone().unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let chunk = parts.len().div_ceil(cores).max(1);
    let checked: Vec<Option<Result<CheckedRecord, RecordError>>> = std::thread::scope(|scope| {
        let workers: Vec<_> = parts
            .chunks(chunk)
            .map(|part| {
                let room = &room;
                scope.spawn(move || part.iter().map(|p| check(p, room)).collect::<Vec<_>>())
            })
            .collect();
        workers
            .into_iter()
            .flat_map(|w| w.join().expect("checking a record does not panic"))
            .collect()
    });
    for (part, checked) in parts.into_iter().zip(checked) {
        match (part, checked) {
            (Part::Record(record), Some(checked)) => verifier.push_checked(&record, checked),
            (part, _) => verifier.push(part),
        }
    }
}

fn check(part: &Part, room: &str) -> Option<Result<CheckedRecord, RecordError>> {
    match part {
        Part::Record(record) => Some(CheckedRecord::check(record, room)),
        _ => None,
    }
}

fn readable(path: &Path, verdict: &Verdict) -> String {
    let mut lines = Vec::new();
    let say = |lines: &mut Vec<String>, name: &str, value: String| {
        lines.push(format!("  {name:<14} {value}"));
    };
    lines.push(format!(
        "{}: {}",
        path.display(),
        if verdict.verified { "verified" } else { "NOT VERIFIED" }
    ));
    if let Some(room) = &verdict.room_id {
        say(&mut lines, "room", printable(room));
    }
    if let Some(topic) = &verdict.topic {
        say(&mut lines, "topic", format!("{:?}", printable(topic)));
    }
    if let Some(status) = verdict.status {
        say(&mut lines, "status", status.to_owned());
    }
    say(&mut lines, "records", verdict.event_count.to_string());
    if let Some(last) = &verdict.last {
        say(&mut lines, "last record", format!("{} {}", last.seq, last.hash));
    }
    if let Some(head) = &verdict.head {
        say(&mut lines, "room head", format!("{} {}", head.seq, head.hash));
    }
    say(&mut lines, "members", verdict.active_members.to_string());
    say(&mut lines, "events digest", verdict.events_sha3_256.to_string());
    let manifest = if verdict.manifest {
        "compared"
    } else {
        "none given: the end of the history is not proven"
    };
    say(&mut lines, "manifest", manifest.to_owned());
    for note in &verdict.notes {
        let at = note.seq.map_or(String::new(), |seq| format!(" at record {seq}"));
        say(&mut lines, "note", format!("{} [{}]{at}", printable(&note.message), note.code));
    }
    if let Some(failure) = &verdict.failure {
        let at = failure.seq.map_or(String::new(), |seq| format!(" at record {seq}"));
        say(
            &mut lines,
            "failed",
            format!("{}{at}: {} [{}]", failure.stage, printable(&failure.message), failure.code),
        );
    }
    lines.join("\n")
}
