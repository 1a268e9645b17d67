//! Canonical JSON (RFC 8785) of strictly parsed values.
//!
//! Only values are canonicalized, never typed structs: a struct would drop or add members
//! and so hash something nobody signed.

use serde_json::Value;

/// The canonical bytes of `value`.
pub fn to_vec(value: &Value) -> Vec<u8> {
    serde_jcs::to_vec(value)
        .expect("a serde_json value holds only string keys and finite numbers: it has a JCS form")
}

/// The canonical text of `value`.
pub fn to_string(value: &Value) -> String {
    String::from_utf8(to_vec(value)).expect("JCS output is built from UTF-8 strings and ASCII")
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
    }
}
