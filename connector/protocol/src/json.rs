//! The one strict JSON parser: every byte from a wire, a file or a vector goes through it.
//!
//! Accepts I-JSON (RFC 7493) only and says where it stopped. It must never repair: what it
//! returns is exactly what the text says, or there is no value at all.

use serde_json::{Map, Number, Value};

use crate::MAX_SAFE_INTEGER;

/// Bounds that hold before anything is allocated for the value.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Longest accepted text (bytes).
    pub max_bytes: usize,
    /// Deepest accepted nesting of arrays and objects.
    pub max_depth: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { max_bytes: 8 * 1024 * 1024, max_depth: 128 }
    }
}

/// Why a text is not acceptable JSON, and the byte offset where that showed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} at byte {offset}")]
pub struct JsonError {
    /// What is wrong.
    pub kind: JsonErrorKind,
    /// Offset into the text (bytes).
    pub offset: usize,
}

impl JsonError {
    /// Stable machine-readable code.
    pub fn code(&self) -> &'static str {
        self.kind.code()
    }
}

/// The kinds of refusal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonErrorKind {
    /// Not JSON at all.
    #[error("unexpected {0}")]
    Syntax(String),
    /// A byte order mark before the text.
    #[error("a byte order mark is not allowed")]
    Bom,
    /// The bytes are not UTF-8.
    #[error("invalid UTF-8")]
    InvalidUtf8,
    /// The same member name twice in one object, also when spelled with escapes.
    #[error("duplicate member {0:?}")]
    DuplicateMember(String),
    /// An escape names half of a surrogate pair.
    #[error("unpaired surrogate escape")]
    LoneSurrogate,
    /// An integer outside ±(2^53 - 1).
    #[error("integer outside the interoperable range")]
    UnsafeInteger,
    /// A number too large for a double.
    #[error("number is not finite")]
    NotFinite,
    /// Something follows the value.
    #[error("data after the value")]
    TrailingData,
    /// Nested deeper than [`Limits::max_depth`].
    #[error("nested too deeply")]
    TooDeep,
    /// Longer than [`Limits::max_bytes`].
    #[error("text too large")]
    TooLarge,
}

impl JsonErrorKind {
    /// Stable machine-readable code.
    pub fn code(&self) -> &'static str {
        match self {
            JsonErrorKind::Syntax(_) => "json_syntax",
            JsonErrorKind::Bom => "json_bom",
            JsonErrorKind::InvalidUtf8 => "json_invalid_utf8",
            JsonErrorKind::DuplicateMember(_) => "json_duplicate_member",
            JsonErrorKind::LoneSurrogate => "json_lone_surrogate",
            JsonErrorKind::UnsafeInteger => "json_unsafe_integer",
            JsonErrorKind::NotFinite => "json_not_finite",
            JsonErrorKind::TrailingData => "json_trailing_data",
            JsonErrorKind::TooDeep => "json_too_deep",
            JsonErrorKind::TooLarge => "json_too_large",
        }
    }
}

/// Parses `bytes` with the default [`Limits`].
///
/// # Errors
/// [`JsonError`] with the byte offset; nothing is returned in part.
pub fn parse(bytes: &[u8]) -> Result<Value, JsonError> {
    parse_with(bytes, &Limits::default())
}

/// Parses `bytes` within `limits`.
///
/// # Errors
/// As [`parse`].
pub fn parse_with(bytes: &[u8], limits: &Limits) -> Result<Value, JsonError> {
    if bytes.len() > limits.max_bytes {
        return Err(JsonError { kind: JsonErrorKind::TooLarge, offset: limits.max_bytes });
    }
    if bytes.starts_with(&[0xEF, 0xBB, 0xBF]) {
        return Err(JsonError { kind: JsonErrorKind::Bom, offset: 0 });
    }
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(e) => {
            return Err(JsonError { kind: JsonErrorKind::InvalidUtf8, offset: e.valid_up_to() });
        }
    };
    let mut parser = Parser { text, bytes, at: 0, depth: 0, max_depth: limits.max_depth };
    parser.skip_space();
    let value = parser.value()?;
    parser.skip_space();
    if parser.at != bytes.len() {
        return Err(parser.fail(JsonErrorKind::TrailingData));
    }
    Ok(value)
}

/// Checks a value that did not come from [`parse`] (a tool argument, a value built in code)
/// against the same rules for numbers and depth, before it is hashed or signed.
///
/// # Errors
/// The kind of refusal and the JSON pointer of the member.
pub fn check_value(value: &Value) -> Result<(), (JsonErrorKind, String)> {
    fn walk(v: &Value, depth: usize, path: &mut String) -> Result<(), JsonErrorKind> {
        if depth > 128 {
            return Err(JsonErrorKind::TooDeep);
        }
        match v {
            Value::Number(n) => {
                let safe = if let Some(i) = n.as_i64() {
                    i.unsigned_abs() <= MAX_SAFE_INTEGER
                } else {
                    !n.is_u64()
                };
                if safe { Ok(()) } else { Err(JsonErrorKind::UnsafeInteger) }
            }
            Value::Array(items) => {
                for (i, item) in items.iter().enumerate() {
                    let len = path.len();
                    path.push_str(&format!("/{i}"));
                    walk(item, depth + 1, path)?;
                    path.truncate(len);
                }
                Ok(())
            }
            Value::Object(map) => {
                for (k, item) in map {
                    let len = path.len();
                    path.push('/');
                    path.push_str(&k.replace('~', "~0").replace('/', "~1"));
                    walk(item, depth + 1, path)?;
                    path.truncate(len);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
    let mut path = String::new();
    walk(value, 0, &mut path).map_err(|kind| (kind, path))
}

struct Parser<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    depth: usize,
    max_depth: usize,
}

impl Parser<'_> {
    fn fail(&self, kind: JsonErrorKind) -> JsonError {
        JsonError { kind, offset: self.at }
    }

    fn unexpected(&self) -> JsonError {
        let what = match self.text[self.at..].chars().next() {
            Some(c) => format!("{c:?}"),
            None => "end of text".to_owned(),
        };
        self.fail(JsonErrorKind::Syntax(what))
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.bytes.get(self.at) {
            self.at += 1;
        }
    }

    fn value(&mut self) -> Result<Value, JsonError> {
        match self.bytes.get(self.at) {
            Some(b'{') => self.nested(Self::object),
            Some(b'[') => self.nested(Self::array),
            Some(b'"') => Ok(Value::String(self.string()?)),
            Some(b'-' | b'0'..=b'9') => Ok(Value::Number(self.number()?)),
            Some(b't') => self.word("true", Value::Bool(true)),
            Some(b'f') => self.word("false", Value::Bool(false)),
            Some(b'n') => self.word("null", Value::Null),
            _ => Err(self.unexpected()),
        }
    }

    fn word(&mut self, word: &str, value: Value) -> Result<Value, JsonError> {
        for expected in word.bytes() {
            if self.bytes.get(self.at) != Some(&expected) {
                return Err(self.unexpected());
            }
            self.at += 1;
        }
        Ok(value)
    }

    fn nested(
        &mut self,
        inner: fn(&mut Self) -> Result<Value, JsonError>,
    ) -> Result<Value, JsonError> {
        if self.depth == self.max_depth {
            return Err(self.fail(JsonErrorKind::TooDeep));
        }
        self.depth += 1;
        self.at += 1;
        self.skip_space();
        let value = inner(self)?;
        self.depth -= 1;
        Ok(value)
    }

    fn array(&mut self) -> Result<Value, JsonError> {
        let mut items = Vec::new();
        if self.bytes.get(self.at) == Some(&b']') {
            self.at += 1;
            return Ok(Value::Array(items));
        }
        loop {
            items.push(self.value()?);
            self.skip_space();
            match self.bytes.get(self.at) {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(Value::Array(items));
                }
                _ => return Err(self.unexpected()),
            }
            self.skip_space();
        }
    }

    fn object(&mut self) -> Result<Value, JsonError> {
        let mut members = Map::new();
        if self.bytes.get(self.at) == Some(&b'}') {
            self.at += 1;
            return Ok(Value::Object(members));
        }
        loop {
            if self.bytes.get(self.at) != Some(&b'"') {
                return Err(self.unexpected());
            }
            let name_at = self.at;
            let name = self.string()?;
            if members.contains_key(&name) {
                return Err(JsonError {
                    kind: JsonErrorKind::DuplicateMember(name),
                    offset: name_at,
                });
            }
            self.skip_space();
            if self.bytes.get(self.at) != Some(&b':') {
                return Err(self.unexpected());
            }
            self.at += 1;
            self.skip_space();
            let value = self.value()?;
            members.insert(name, value);
            self.skip_space();
            match self.bytes.get(self.at) {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(Value::Object(members));
                }
                _ => return Err(self.unexpected()),
            }
            self.skip_space();
        }
    }

    fn string(&mut self) -> Result<String, JsonError> {
        self.at += 1;
        let mut out = String::new();
        loop {
            let start = self.at;
            while let Some(&b) = self.bytes.get(self.at) {
                if b == b'"' || b == b'\\' || b < 0x20 {
                    break;
                }
                self.at += 1;
            }
            out.push_str(&self.text[start..self.at]);
            match self.bytes.get(self.at) {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(out);
                }
                Some(b'\\') => self.escape(&mut out)?,
                _ => return Err(self.unexpected()),
            }
        }
    }

    fn escape(&mut self, out: &mut String) -> Result<(), JsonError> {
        let escape_at = self.at;
        self.at += 1;
        let plain = match self.bytes.get(self.at) {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                self.at += 1;
                let lone = JsonError { kind: JsonErrorKind::LoneSurrogate, offset: escape_at };
                let unit = self.hex4()?;
                let scalar = match unit {
                    0xD800..=0xDBFF => {
                        if !self.bytes[self.at..].starts_with(b"\\u") {
                            return Err(lone);
                        }
                        self.at += 2;
                        let low = self.hex4()?;
                        if !(0xDC00..=0xDFFF).contains(&low) {
                            return Err(lone);
                        }
                        0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00)
                    }
                    unit => unit,
                };
                // Only a low surrogate is left that is no scalar value.
                out.push(char::from_u32(scalar).ok_or(lone)?);
                return Ok(());
            }
            _ => return Err(self.unexpected()),
        };
        self.at += 1;
        out.push(plain);
        Ok(())
    }

    fn hex4(&mut self) -> Result<u32, JsonError> {
        let mut unit = 0;
        for _ in 0..4 {
            let digit = match self.bytes.get(self.at) {
                Some(b) if b.is_ascii_hexdigit() => (*b as char).to_digit(16),
                _ => None,
            };
            unit = unit * 16 + digit.ok_or_else(|| self.unexpected())?;
            self.at += 1;
        }
        Ok(unit)
    }

    fn digits(&mut self) -> Result<(), JsonError> {
        let start = self.at;
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        if self.at == start { Err(self.unexpected()) } else { Ok(()) }
    }

    fn number(&mut self) -> Result<Number, JsonError> {
        let start = self.at;
        let negative = self.bytes[self.at] == b'-';
        if negative {
            self.at += 1;
        }
        if self.bytes.get(self.at) == Some(&b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        let mut integer = true;
        if self.bytes.get(self.at) == Some(&b'.') {
            integer = false;
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.bytes.get(self.at) {
            integer = false;
            self.at += 1;
            if let Some(b'+' | b'-') = self.bytes.get(self.at) {
                self.at += 1;
            }
            self.digits()?;
        }
        let text = &self.text[start..self.at];
        let at_start = |kind| JsonError { kind, offset: start };
        if integer {
            // A text of more digits than i64 holds is out of range all the more.
            return match text.parse::<i64>() {
                Ok(i) if i.unsigned_abs() <= MAX_SAFE_INTEGER => Ok(Number::from(i)),
                _ => Err(at_start(JsonErrorKind::UnsafeInteger)),
            };
        }
        // str::parse is correctly rounded by contract, whatever serde_json features are on.
        let double: f64 =
            text.parse().map_err(|_| at_start(JsonErrorKind::Syntax(text.to_owned())))?;
        Number::from_f64(double).ok_or_else(|| at_start(JsonErrorKind::NotFinite))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> (&'static str, usize) {
        let e = parse(text.as_bytes()).expect_err(text);
        (e.code(), e.offset)
    }

    #[test]
    fn refuses_with_code_and_offset() {
        assert_eq!(code(r#"{"a":1,"a":2}"#), ("json_duplicate_member", 7));
        assert_eq!(code(r#"{"a":1,"\u0061":2}"#), ("json_duplicate_member", 7));
        assert_eq!(code(r#"{"k":"\uD800"}"#), ("json_lone_surrogate", 6));
        assert_eq!(code(r#"["\ude00\ud83d"]"#), ("json_lone_surrogate", 2));
        assert_eq!(code("9007199254740992"), ("json_unsafe_integer", 0));
        assert_eq!(code("-99999999999999999999999"), ("json_unsafe_integer", 0));
        assert_eq!(code("1e400"), ("json_not_finite", 0));
        assert_eq!(code("1 2"), ("json_trailing_data", 2));
        assert_eq!(code("NaN"), ("json_syntax", 0));
        assert_eq!(code("01"), ("json_trailing_data", 1));
        assert_eq!(code("\u{feff}1"), ("json_bom", 0));
        assert_eq!(code("\"a\nb\""), ("json_syntax", 2));
        assert_eq!(code(&"[".repeat(100_000)), ("json_too_deep", 128));
        assert_eq!(parse(b"\"\xff\"").unwrap_err().code(), "json_invalid_utf8");
    }

    #[test]
    fn reads_what_is_legal() {
        assert_eq!(parse(b" [1e2, 1E+20, -0, 1.0, \"\\ud83d\\ude00\"] ").unwrap()[4], "😀");
        let n = parse(b"117.63331139400017").unwrap();
        assert_eq!(n.as_f64(), Some("117.63331139400017".parse().unwrap()));
    }
}
