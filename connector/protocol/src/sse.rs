//! A sans-io parser for `text/event-stream` (WHATWG HTML 9.2.6) with hard caps.
//!
//! Bytes go in as they arrive, split anywhere; events come out. No buffer grows past the
//! caps, whatever the server sends.

/// Bounds on what a stream may make us hold.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Longest line (bytes).
    pub max_line: usize,
    /// Longest event: all its `data` lines together (bytes).
    pub max_event: usize,
}

impl Default for Limits {
    fn default() -> Self {
        // A 256 KiB payload, escaped as badly as JSON allows, and its envelope.
        Limits { max_line: 2 * 1024 * 1024, max_event: 2 * 1024 * 1024 }
    }
}

/// Why the stream must be given up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SseError {
    /// A line longer than [`Limits::max_line`].
    #[error("a line of the event stream exceeds {0} bytes")]
    LineTooLong(usize),
    /// An event longer than [`Limits::max_event`].
    #[error("an event of the stream exceeds {0} bytes")]
    EventTooLong(usize),
}

/// One dispatched event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SseEvent {
    /// The `event` field, `message` when absent.
    pub event: String,
    /// The `data` lines joined by line feeds.
    pub data: String,
    /// The last `id` seen on the stream.
    pub last_event_id: Option<String>,
}

/// The parser. Feed it with [`SseParser::push`].
#[derive(Debug)]
pub struct SseParser {
    limits: Limits,
    line: Vec<u8>,
    bom_seen: usize,
    at_start: bool,
    after_cr: bool,
    event: String,
    data: String,
    has_data: bool,
    last_event_id: Option<String>,
    retry_ms: Option<u64>,
}

const BOM: [u8; 3] = [0xEF, 0xBB, 0xBF];

impl SseParser {
    /// A parser at the start of a stream.
    pub fn new(limits: Limits) -> Self {
        SseParser {
            limits,
            line: Vec::new(),
            bom_seen: 0,
            at_start: true,
            after_cr: false,
            event: String::new(),
            data: String::new(),
            has_data: false,
            last_event_id: None,
            retry_ms: None,
        }
    }

    /// The server's last `retry` wish (ms).
    pub fn retry_ms(&self) -> Option<u64> {
        self.retry_ms
    }

    /// Takes the next bytes; complete events are appended to `out`.
    ///
    /// # Errors
    /// [`SseError`] when a cap is reached; the parser must then be dropped.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<SseEvent>) -> Result<(), SseError> {
        let mut rest = bytes;
        while self.at_start && !rest.is_empty() {
            if rest[0] == BOM[self.bom_seen] {
                self.bom_seen += 1;
                rest = &rest[1..];
                self.at_start = self.bom_seen < 3;
            } else {
                // No BOM after all: the bytes held back are the start of the first line.
                self.line.extend_from_slice(&BOM[..self.bom_seen]);
                self.at_start = false;
            }
        }
        while let Some(&first) = rest.first() {
            if self.after_cr {
                self.after_cr = false;
                if first == b'\n' {
                    rest = &rest[1..];
                    continue;
                }
            }
            match rest.iter().position(|b| matches!(b, b'\n' | b'\r')) {
                Some(end) => {
                    self.grow(&rest[..end])?;
                    self.after_cr = rest[end] == b'\r';
                    rest = &rest[end + 1..];
                    let line = std::mem::take(&mut self.line);
                    self.take_line(&line, out)?;
                    self.line = line;
                    self.line.clear();
                }
                None => {
                    self.grow(rest)?;
                    rest = &[];
                }
            }
        }
        Ok(())
    }

    fn grow(&mut self, bytes: &[u8]) -> Result<(), SseError> {
        if self.line.len() + bytes.len() > self.limits.max_line {
            return Err(SseError::LineTooLong(self.limits.max_line));
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn take_line(&mut self, line: &[u8], out: &mut Vec<SseEvent>) -> Result<(), SseError> {
        if line.is_empty() {
            let event = std::mem::take(&mut self.event);
            let mut data = std::mem::take(&mut self.data);
            if std::mem::take(&mut self.has_data) {
                data.pop();
                out.push(SseEvent {
                    event: if event.is_empty() { "message".to_owned() } else { event },
                    data,
                    last_event_id: self.last_event_id.clone(),
                });
            }
            return Ok(());
        }
        let text = String::from_utf8_lossy(line);
        // Each invalid byte becomes a character of three: the cap holds for what is kept.
        if text.len() > self.limits.max_line {
            return Err(SseError::LineTooLong(self.limits.max_line));
        }
        let (field, value) = match text.split_once(':') {
            Some(("", _)) => return Ok(()),
            Some((field, value)) => (field, value.strip_prefix(' ').unwrap_or(value)),
            None => (text.as_ref(), ""),
        };
        match field {
            "event" => self.event = value.to_owned(),
            "data" => {
                if self.data.len() + value.len() + 1 > self.limits.max_event {
                    return Err(SseError::EventTooLong(self.limits.max_event));
                }
                self.data.push_str(value);
                self.data.push('\n');
                self.has_data = true;
            }
            "id" if !value.contains('\0') => self.last_event_id = Some(value.to_owned()),
            "retry" if !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit()) => {
                self.retry_ms = value.parse().ok();
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(chunks: &[&[u8]]) -> Vec<(String, String)> {
        let mut parser = SseParser::new(Limits::default());
        let mut out = Vec::new();
        for chunk in chunks {
            parser.push(chunk, &mut out).unwrap();
        }
        out.into_iter().map(|e| (e.event, e.data)).collect()
    }

    fn one(data: &str) -> Vec<(String, String)> {
        vec![("message".into(), data.into())]
    }

    #[test]
    fn framing_survives_every_split() {
        let text = "\u{feff}: hi\revent: message\r\ndata: a\r\ndata: b北\n\n".as_bytes();
        for i in 0..text.len() {
            assert_eq!(parse(&[&text[..i], &text[i..]]), one("a\nb北"), "split at {i}");
        }
        assert_eq!(parse(&[b"foo: bar\ndata: x\n\n"]), one("x"));
        assert_eq!(parse(&[b"data: a\rdata: b\r\r"]), one("a\nb"));
        assert_eq!(parse(&[b"data\n\n"]), one(""));
        assert_eq!(parse(&[b"id\n\n"]), vec![]);
        assert_eq!(parse(&[b"data: \xef", b"\xbb\xbfx\n\n"]), one("\u{feff}x"));
    }

    #[test]
    fn caps_hold() {
        let mut parser = SseParser::new(Limits { max_line: 100, max_event: 100 });
        let mut out = Vec::new();
        assert_eq!(parser.push(&[b'x'; 101], &mut out), Err(SseError::LineTooLong(100)));
        let mut parser = SseParser::new(Limits { max_line: 100, max_event: 100 });
        let grows = [b"event:", &[0xff; 60][..], b"\n"].concat();
        assert_eq!(parser.push(&grows, &mut out), Err(SseError::LineTooLong(100)));
        let mut parser = SseParser::new(Limits { max_line: 100, max_event: 100 });
        let flood = b"data: x\n".repeat(100);
        assert_eq!(parser.push(&flood, &mut out), Err(SseError::EventTooLong(100)));
    }
}
