//! Feeds cases to a foreign implementation, line by line, and judges its answers.
//!
//! One JSON object a line goes in, `{ "id", "op", "in" }`; one a line comes back,
//! `{ "id", "out" }` or `{ "id", "unsupported": true }`, in any order. Silence is never a
//! pass.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::case::Case;

/// Longest accepted answer line (bytes).
const MAX_LINE_BYTES: u64 = 16 * 1024 * 1024;

/// What an answer is worth.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// As expected.
    Pass,
    /// Refused as expected, with another code, stage, path or offset: names are a matter of
    /// taste, so this is a mismatch only when asked for.
    OtherDetail {
        /// The answer.
        got: Value,
    },
    /// Another verdict or another value.
    Mismatch {
        /// The answer.
        got: Value,
    },
    /// The implementation says that it does not do this operation.
    Unsupported,
    /// No answer came.
    Unanswered,
}

/// One case with its outcome.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CaseResult {
    /// The case.
    pub id: String,
    /// Its operation.
    pub op: String,
    /// What was expected.
    pub expected: Value,
    /// What it came to.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// All outcomes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// The command that was judged.
    pub command: String,
    /// Whether other details count as mismatches.
    pub details_count: bool,
    /// Every case, in order.
    pub results: Vec<CaseResult>,
    /// Lines that were no answer, shortened; at most 20.
    pub noise: Vec<String>,
}

impl Report {
    /// Cases with outcomes that satisfy `which`.
    fn count(&self, which: impl Fn(&Outcome) -> bool) -> usize {
        self.results.iter().filter(|r| which(&r.outcome)).count()
    }

    /// Whether this result fails the run.
    fn fails(&self, outcome: &Outcome) -> bool {
        match outcome {
            Outcome::Mismatch { .. } | Outcome::Unanswered => true,
            Outcome::OtherDetail { .. } => self.details_count,
            Outcome::Pass | Outcome::Unsupported => false,
        }
    }

    /// 0: every answer is right; 1: some are not, or are missing; 3: nothing was answered.
    pub fn exit_code(&self) -> u8 {
        let answered = self.count(|o| !matches!(o, Outcome::Unanswered | Outcome::Unsupported));
        if answered == 0 { 3 } else { u8::from(self.count(|o| self.fails(o)) > 0) }
    }

    /// The machine-readable form.
    pub fn to_json(&self) -> Value {
        let mut report = serde_json::to_value(self).expect("strings and JSON values only");
        report["summary"] = self.summary();
        report["exit_code"] = json!(self.exit_code());
        report
    }

    fn summary(&self) -> Value {
        json!({
            "total": self.results.len(),
            "pass": self.count(|o| *o == Outcome::Pass),
            "other_detail": self.count(|o| matches!(o, Outcome::OtherDetail { .. })),
            "mismatch": self.count(|o| matches!(o, Outcome::Mismatch { .. })),
            "unsupported": self.count(|o| *o == Outcome::Unsupported),
            "unanswered": self.count(|o| *o == Outcome::Unanswered),
        })
    }

    /// The readable form: what differs, what was left out by operation, and the sums.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_text(&self, out: &mut dyn Write) -> std::io::Result<()> {
        let mut unsupported: BTreeMap<&str, usize> = BTreeMap::new();
        for result in &self.results {
            match &result.outcome {
                Outcome::Mismatch { got } => {
                    writeln!(out, "MISMATCH    {}", result.id)?;
                    writeln!(out, "  expected  {}", result.expected)?;
                    writeln!(out, "  got       {got}")?;
                }
                Outcome::OtherDetail { got } if self.details_count => {
                    writeln!(out, "DETAIL      {}", result.id)?;
                    writeln!(out, "  expected  {}", result.expected)?;
                    writeln!(out, "  got       {got}")?;
                }
                Outcome::Unanswered => writeln!(out, "NO ANSWER   {}", result.id)?,
                Outcome::Unsupported => *unsupported.entry(&result.op).or_default() += 1,
                _ => {}
            }
        }
        for (op, count) in unsupported {
            writeln!(out, "unsupported {op} ({count} cases)")?;
        }
        for line in &self.noise {
            writeln!(out, "not an answer: {line}")?;
        }
        let sums = self.summary();
        let sums: Vec<String> = sums
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, n)| format!("{n} {}", name.replace('_', " ")))
            .collect();
        writeln!(out, "{}", sums.join(", "))
    }
}

/// Judges one answer.
pub fn judge(expected: &Map<String, Value>, got: &Value) -> Outcome {
    let same = |name: &str| got.get(name) == expected.get(name);
    let got = || got.clone();
    if !same("ok") {
        return Outcome::Mismatch { got: got() };
    }
    if expected.keys().all(|name| same(name)) {
        return Outcome::Pass;
    }
    if expected.get("ok") == Some(&Value::Bool(true)) {
        Outcome::Mismatch { got: got() }
    } else {
        Outcome::OtherDetail { got: got() }
    }
}

/// Runs `command` in a shell, sends it every case and collects its answers. Gives up when
/// nothing arrives for `patience`.
///
/// # Errors
/// When the command cannot be started.
pub fn run(
    command: &str,
    cases: &[Case],
    details_count: bool,
    patience: Duration,
) -> std::io::Result<Report> {
    let mut child = Command::new("sh")
        .args(["-c", command])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut stdin = child.stdin.take().expect("piped above");
    let stdout = child.stdout.take().expect("piped above");
    let lines: Vec<String> = cases
        .iter()
        .map(|c| json!({ "id": c.id, "op": c.op, "in": c.input }).to_string() + "\n")
        .collect();
    // Both pipes have bounded buffers: writing and reading must not wait for each other.
    let writer = std::thread::spawn(move || {
        for line in lines {
            if stdin.write_all(line.as_bytes()).is_err() {
                break; // The command is gone; what it has not answered shows below.
            }
        }
    });
    let (sender, receiver) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        let mut stdout = BufReader::new(stdout);
        loop {
            let mut line = Vec::new();
            match stdout.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line) {
                Ok(n) if n > 0 => {
                    if sender.send(line).is_err() {
                        break;
                    }
                }
                _ => break,
            }
        }
    });
    let mut answers: BTreeMap<String, Value> = BTreeMap::new();
    let mut noise = Vec::new();
    while answers.len() < cases.len() {
        let Ok(line) = receiver.recv_timeout(patience) else { break };
        let answer = ap_protocol::json::parse(&line).ok();
        match answer.as_ref().and_then(|a| Some((a, a.get("id")?.as_str()?))) {
            // The first answer counts: a second one cannot improve it.
            Some((answer, id)) => {
                answers.entry(id.to_owned()).or_insert_with(|| answer.clone());
            }
            None if noise.len() < 20 => {
                noise.push(String::from_utf8_lossy(&line).chars().take(200).collect());
            }
            None => {}
        }
    }
    // Only our own child, and only when it is still there.
    let _ = child.kill();
    let _ = child.wait();
    let _ = writer.join();
    drop(receiver);
    let _ = reader.join();
    let results = cases
        .iter()
        .map(|case| CaseResult {
            id: case.id.clone(),
            op: case.op.clone(),
            expected: Value::Object(case.output.clone()),
            outcome: match answers.get(&case.id) {
                None => Outcome::Unanswered,
                Some(answer) if answer.get("unsupported") == Some(&Value::Bool(true)) => {
                    Outcome::Unsupported
                }
                Some(answer) => judge(&case.output, answer.get("out").unwrap_or(&Value::Null)),
            },
        })
        .collect();
    Ok(Report { command: command.to_owned(), details_count, results, noise })
}
