//! The strict parser against serde_json: never more permissive, never another value.

use ap_protocol::json::{self, Limits};
use proptest::prelude::*;
use serde_json::Value;

use crate::support::value;

/// Whether a refusal is one of those we make on purpose where serde_json accepts.
fn stricter(code: &str) -> bool {
    matches!(
        code,
        "json_duplicate_member" | "json_unsafe_integer" | "json_too_deep" | "json_lone_surrogate"
    )
}

fn compare(text: &[u8]) -> Result<(), TestCaseError> {
    let ours = json::parse(text);
    let theirs: Result<Value, _> = serde_json::from_slice(text);
    match (ours, theirs) {
        (Ok(ours), Ok(theirs)) => {
            // -0 is the integer 0 for us and a double for them: equal as JSON, not as values.
            let (ours, theirs) =
                (ap_protocol::jcs::to_vec(&ours), ap_protocol::jcs::to_vec(&theirs));
            prop_assert_eq!(ours, theirs);
        }
        (Err(ours), Ok(_)) => prop_assert!(stricter(ours.code()), "{ours}"),
        (Ok(_), Err(theirs)) => prop_assert!(false, "more permissive than serde_json: {theirs}"),
        (Err(ours), Err(_)) => prop_assert!(ours.offset <= text.len()),
    }
    Ok(())
}

proptest! {
    #![proptest_config(crate::support::runs(10_000))]

    #[test]
    fn serialized_values_come_back(v in value()) {
        let text = serde_json::to_vec(&v).unwrap();
        prop_assert_eq!(json::parse(&text).unwrap(), v.clone());
        let text = serde_json::to_vec_pretty(&v).unwrap();
        prop_assert_eq!(json::parse(&text).unwrap(), v);
    }

    #[test]
    fn damaged_texts_are_judged_alike(
        v in value(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut text = serde_json::to_vec(&v).unwrap();
        for (at, byte) in damage {
            let at = at.index(text.len());
            text[at] = byte;
        }
        compare(&text)?;
    }

    #[test]
    fn token_soup_is_judged_alike(
        tokens in prop::collection::vec(prop::sample::select(vec![
            "{", "}", "[", "]", ",", ":", "\"a\"", "\"\\u0061\"", "\"\\ud83d\\ude00\"", "\"\\ud83d\"",
            "0", "-0", "1.5", "1e5", "01", "-", "true", "null", " ", "\n", "\"", "\\", "9007199254740993",
        ]), 0..12),
    ) {
        compare(tokens.concat().as_bytes())?;
    }

    /// The parser rounds by itself: the bits do not depend on serde_json's features.
    #[test]
    fn doubles_are_correctly_rounded(bits in any::<u64>(), digits in 17usize..40) {
        let double = f64::from_bits(bits);
        prop_assume!(double.is_finite());
        for text in [format!("{double:e}"), format!("{double:.digits$e}")] {
            let parsed = json::parse(text.as_bytes()).unwrap().as_f64().unwrap();
            prop_assert_eq!(parsed.to_bits(), text.parse::<f64>().unwrap().to_bits(), "{}", text);
        }
    }
}

/// C14: typed error, no crash, bounded time; on a small stack.
#[test]
fn depth_is_bounded() {
    let run = || {
        for open in ["[", "{\"a\":", "[{\"a\":["] {
            let e = json::parse(open.repeat(100_000).as_bytes()).unwrap_err();
            assert_eq!(e.code(), "json_too_deep");
        }
        let deep = Limits { max_bytes: 1000, max_depth: 3 };
        assert!(json::parse_with(b"[[[1]]]", &deep).is_ok());
        assert_eq!(json::parse_with(b"[[[[1]]]]", &deep).unwrap_err().code(), "json_too_deep");
    };
    std::thread::Builder::new().stack_size(1024 * 1024).spawn(run).unwrap().join().unwrap();
}

#[test]
fn size_is_bounded_before_anything_is_read() {
    let small = Limits { max_bytes: 8, max_depth: 9 };
    assert!(json::parse_with(b"12345678", &small).is_ok());
    let e = json::parse_with(b"\xff23456789", &small).unwrap_err();
    assert_eq!((e.code(), e.offset), ("json_too_large", 8));
}

#[test]
fn values_built_in_code_are_checked_before_they_are_signed() {
    use serde_json::json;
    let path = |v: Value| json::check_value(&v).map_err(|(kind, path)| (kind.code(), path));
    assert_eq!(path(json!({ "a": [1, -0.5, 1e300] })), Ok(()));
    let unsafe_one = Err(("json_unsafe_integer", "/a~1b/1".to_owned()));
    assert_eq!(path(json!({ "a/b": [0, 9_007_199_254_740_992u64] })), unsafe_one);
    assert_eq!(path(json!([u64::MAX])), Err(("json_unsafe_integer", "/0".to_owned())));
    assert_eq!(path(json!([i64::MIN])), Err(("json_unsafe_integer", "/0".to_owned())));
    let deep = (0..200).fold(json!(1), |v, _| json!([v]));
    assert_eq!(path(deep).unwrap_err().0, "json_too_deep");
}
