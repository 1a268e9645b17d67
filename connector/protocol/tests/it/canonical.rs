//! Our JCS writer against two others and against the parser.

use ap_protocol::{jcs, json};
use proptest::prelude::*;
use serde_json::Value;

use crate::support::{number, value};

proptest! {
    #![proptest_config(crate::support::runs(10_000))]

    #[test]
    fn agrees_with_two_other_writers(v in value()) {
        let ours = jcs::to_vec(&v);
        prop_assert_eq!(&ours, &serde_jcs::to_vec(&v).unwrap());
        prop_assert_eq!(&ours, &serde_json_canonicalizer::to_vec(&v).unwrap());
    }

    #[test]
    fn numbers_agree_with_two_other_writers(n in number()) {
        let ours = jcs::to_vec(&n);
        prop_assert_eq!(&ours, &serde_jcs::to_vec(&n).unwrap());
        prop_assert_eq!(&ours, &serde_json_canonicalizer::to_vec(&n).unwrap());
    }

    /// Reading the canonical form gives the same canonical form, unless it holds an integer
    /// that strict readers refuse.
    #[test]
    fn canonical_form_is_stable(v in value()) {
        let canonical = jcs::to_vec(&v);
        match json::parse(&canonical) {
            Ok(again) => prop_assert_eq!(jcs::to_vec(&again), canonical),
            Err(e) => {
                prop_assert_eq!(e.code(), "json_unsafe_integer");
                prop_assert!(holds_large_double(&v));
            }
        }
    }
}

fn holds_large_double(v: &Value) -> bool {
    match v {
        Value::Number(n) => {
            n.as_f64().is_some_and(|d| d.abs() > 9_007_199_254_740_991.0 && d.abs() < 1e21)
        }
        Value::Array(items) => items.iter().any(holds_large_double),
        Value::Object(members) => members.values().any(holds_large_double),
        _ => false,
    }
}

/// Values that never came out of the strict parser have a canonical form too.
#[test]
fn integers_beyond_the_safe_range_are_written_as_doubles() {
    let v = serde_json::json!([u64::MAX, i64::MIN, 9_007_199_254_740_993u64]);
    assert_eq!(jcs::to_string(&v), "[18446744073709552000,-9223372036854776000,9007199254740992]");
}
