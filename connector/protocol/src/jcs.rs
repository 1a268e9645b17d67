//! Canonical JSON (RFC 8785) of strictly parsed values.
//!
//! Only values are canonicalized, never typed structs: a struct would drop or add members
//! and so hash something nobody signed. The writer is our own; the tests hold it to two
//! serializer-based crates, byte for byte, and `benches/jcs.rs` compares their speed.

use std::cmp::Ordering;

use serde_json::{Number, Value};

use crate::MAX_SAFE_INTEGER;

/// The canonical bytes of `value`.
pub fn to_vec(value: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    write(value, &mut out);
    out
}

/// The canonical text of `value`.
pub fn to_string(value: &Value) -> String {
    String::from_utf8(to_vec(value)).expect("the writer copies UTF-8 strings and ASCII only")
}

/// Appends the canonical bytes of `value` to `out`.
pub fn write(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(number) => write_number(number, out),
        Value::String(text) => write_string(text, out),
        Value::Array(items) => {
            out.push(b'[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                write(item, out);
            }
            out.push(b']');
        }
        Value::Object(members) => {
            out.push(b'{');
            let mut sorted: Vec<(&String, &Value)> = members.iter().collect();
            // Maps come sorted by UTF-8 bytes unless a build turns on `preserve_order`: that
            // is the UTF-16 order already, except where astral and high BMP characters meet.
            if !sorted.is_sorted_by(|a, b| utf16_order(a.0, b.0) != Ordering::Greater) {
                sorted.sort_unstable_by(|a, b| utf16_order(a.0, b.0));
            }
            for (i, (name, item)) in sorted.into_iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                write_string(name, out);
                out.push(b':');
                write(item, out);
            }
            out.push(b'}');
        }
    }
}

fn utf16_order(a: &str, b: &str) -> Ordering {
    if a.is_ascii() && b.is_ascii() {
        return a.as_bytes().cmp(b.as_bytes());
    }
    a.encode_utf16().cmp(b.encode_utf16())
}

fn write_number(number: &Number, out: &mut Vec<u8>) {
    if let Some(i) = number.as_i64()
        && i.unsigned_abs() <= MAX_SAFE_INTEGER
    {
        let mut digits = [0u8; 16];
        let mut at = digits.len();
        let mut rest = i.unsigned_abs();
        loop {
            at -= 1;
            digits[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        if i < 0 {
            out.push(b'-');
        }
        out.extend_from_slice(&digits[at..]);
        return;
    }
    // Integers beyond the safe range do not come out of the strict parser; a value built in
    // code is written as the double that ECMAScript would read.
    let double = number.as_f64().expect("a serde_json number without arbitrary precision");
    out.extend_from_slice(ryu_js::Buffer::new().format_finite(double).as_bytes());
}

fn write_string(text: &str, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    let bytes = text.as_bytes();
    let mut start = 0;
    for (i, &b) in bytes.iter().enumerate() {
        if b >= 0x20 && b != b'"' && b != b'\\' {
            continue;
        }
        out.extend_from_slice(&bytes[start..i]);
        start = i + 1;
        match b {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x09 => out.extend_from_slice(b"\\t"),
            0x0a => out.extend_from_slice(b"\\n"),
            0x0c => out.extend_from_slice(b"\\f"),
            0x0d => out.extend_from_slice(b"\\r"),
            _ => {
                out.extend_from_slice(b"\\u00");
                out.push(HEX[usize::from(b >> 4)]);
                out.push(HEX[usize::from(b & 15)]);
            }
        }
    }
    out.extend_from_slice(&bytes[start..]);
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_key_order() {
        let canon = |t: &str| to_string(&crate::json::parse(t.as_bytes()).unwrap());
        assert_eq!(
            canon("[1e-6,1E+20,9.999999999999997e22,1.0,-0,-0.0,1e300]"),
            "[0.000001,100000000000000000000,9.999999999999997e+22,1,0,0,1e+300]"
        );
        assert_eq!(canon("{\"\u{fffd}\":1,\"\u{1f600}\":2}"), "{\"\u{1f600}\":2,\"\u{fffd}\":1}");
        assert_eq!(
            canon("[1.5777777777770001,117.63331139400017,122.416294033786585]"),
            "[1.5777777777770001,117.63331139400017,122.41629403378658]"
        );
        assert_eq!(
            canon("[9007199254740991,-9007199254740991,7,-10]"),
            "[9007199254740991,-9007199254740991,7,-10]"
        );
    }
}
