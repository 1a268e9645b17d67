//! What one scenario said and heard: MCP frames and HTTP requests, in order, without secrets.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Longest text kept of one line (bytes).
const MAX_LINE: usize = 4096;
/// Most lines kept of one scenario; the oldest go first.
const MAX_LINES: usize = 600;

/// One line of the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireLine {
    /// Since the scenario began (ms).
    pub at_ms: u64,
    /// `agent>`, `agent<`, `stderr`, `http`, `step`.
    pub channel: String,
    /// Redacted, shortened text.
    pub text: String,
}

#[derive(Debug)]
struct Inner {
    started: Instant,
    lines: std::collections::VecDeque<WireLine>,
    secrets: Vec<(String, String)>,
}

/// Shared, append-only log of a scenario.
#[derive(Debug, Clone)]
pub struct WireLog(Arc<Mutex<Inner>>);

impl Default for WireLog {
    fn default() -> Self {
        WireLog(Arc::new(Mutex::new(Inner {
            started: Instant::now(),
            lines: std::collections::VecDeque::new(),
            secrets: Vec::new(),
        })))
    }
}

impl WireLog {
    /// Writes `name` instead of `secret` from now on.
    pub fn hide(&self, secret: &str, name: &str) {
        if !secret.is_empty() {
            self.lock().secrets.push((secret.to_owned(), format!("[{name}]")));
        }
    }

    /// Adds a line.
    pub fn push(&self, channel: &str, text: &str) {
        let mut inner = self.lock();
        let text = shorten(&redact(text, &inner.secrets));
        let at_ms = u64::try_from(inner.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        if inner.lines.len() == MAX_LINES {
            inner.lines.pop_front();
        }
        inner.lines.push_back(WireLine { at_ms, channel: channel.to_owned(), text });
    }

    /// Since the scenario began (ms).
    pub fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.lock().started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Everything so far.
    pub fn lines(&self) -> Vec<WireLine> {
        self.lock().lines.iter().cloned().collect()
    }

    /// A text with the known secrets and every token taken out.
    pub fn clean(&self, text: &str) -> String {
        redact(text, &self.lock().secrets)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

fn shorten(text: &str) -> String {
    if text.len() <= MAX_LINE {
        return text.to_owned();
    }
    let mut end = MAX_LINE;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}… ({} bytes)", &text[..end], text.len())
}

fn redact(text: &str, secrets: &[(String, String)]) -> String {
    let mut text = text.to_owned();
    for (secret, name) in secrets {
        if text.contains(secret.as_str()) {
            text = text.replace(secret.as_str(), name);
        }
    }
    for token in find_tokens(&text) {
        text = text.replace(&token, "[request JWT]");
    }
    text
}

/// Compact JWS anywhere in a text: three base64url parts, the first an encoded `{"`.
pub fn find_tokens(text: &str) -> Vec<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    text.split(|c: char| !is_part(c) && c != '.')
        .filter(|word| {
            word.starts_with("eyJ")
                && word.split('.').count() == 3
                && word.split('.').all(|part| part.len() >= 20)
        })
        .map(str::to_owned)
        .collect()
}

/// Compact text of a value for a log line or a failure.
pub fn brief(value: &Value) -> String {
    let text = value.to_string();
    if text.len() <= 600 {
        return text;
    }
    let mut end = 600;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_and_tokens_never_stay() {
        let log = WireLog::default();
        log.hide("c2VlZA", "seed");
        let part = "A".repeat(24);
        log.push("x", &format!("seed=c2VlZA auth=Bearer eyJ{part}.{part}.{part}"));
        let line = &log.lines()[0].text;
        assert_eq!(line, "seed=[seed] auth=Bearer [request JWT]");
    }

    #[test]
    fn long_lines_are_cut_on_a_character() {
        let log = WireLog::default();
        log.push("x", &"é".repeat(4000));
        assert!(log.lines()[0].text.len() < MAX_LINE + 40);
    }
}
