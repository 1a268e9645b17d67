//! Cases about text: strict JSON, canonical JSON, event streams.

use serde_json::{Value, json};

use super::Writer;
use crate::answer::hex;
use crate::case::File;

pub(super) fn json() -> File {
    let mut w = Writer::new(
        "json",
        "Strict JSON: what is parsed at all, and where it stops",
        "RFC 8259, RFC 7493 (I-JSON); numbers as the README decides",
    );
    let refused = [
        ("duplicate", r#"{"a":1,"a":2}"#, "json_duplicate_member", 7),
        ("duplicate-depth-3", r#"{"x":[{"a":1,"b":2,"a":3}]}"#, "json_duplicate_member", 19),
        ("duplicate-by-escape", r#"{"a":1,"\u0061":2}"#, "json_duplicate_member", 7),
        ("duplicate-empty-name", r#"{"":1,"":1}"#, "json_duplicate_member", 6),
        ("duplicate-same-value", r#"{"hash":"x","hash":"x"}"#, "json_duplicate_member", 12),
        ("high-surrogate", r#"{"k":"\uD800"}"#, "json_lone_surrogate", 6),
        ("low-surrogate", r#"{"k":"\uDC00"}"#, "json_lone_surrogate", 6),
        ("reversed-surrogates", r#"["\ude00\ud83d"]"#, "json_lone_surrogate", 2),
        ("surrogate-name", r#"{"\uDEAD":1}"#, "json_lone_surrogate", 2),
        ("high-then-text", r#"["\ud83dx"]"#, "json_lone_surrogate", 2),
        ("high-then-escape", r#"["\ud83d\n"]"#, "json_lone_surrogate", 2),
        ("high-twice", r#"["\ud83d\ud83d"]"#, "json_lone_surrogate", 2),
        ("unsafe-integer", "9007199254740992", "json_unsafe_integer", 0),
        ("unsafe-negative", "[-9007199254740992]", "json_unsafe_integer", 1),
        ("unsafe-beyond-u64", "99999999999999999999999", "json_unsafe_integer", 0),
        ("unsafe-jcs-form", "[100000000000000000000]", "json_unsafe_integer", 1),
        ("not-finite", "1e400", "json_not_finite", 0),
        ("not-finite-negative", "[-1E309]", "json_not_finite", 1),
        ("nan", "NaN", "json_syntax", 0),
        ("infinity", "[Infinity]", "json_syntax", 1),
        ("minus-infinity", "[-Infinity]", "json_syntax", 2),
        ("trailing-value", "1 2", "json_trailing_data", 2),
        ("trailing-comma-top", "{},", "json_trailing_data", 2),
        ("trailing-nul", "{}\u{0}", "json_trailing_data", 2),
        ("leading-zero", "01", "json_trailing_data", 1),
        ("leading-zero-inside", "[01]", "json_syntax", 2),
        ("plus", "+1", "json_syntax", 0),
        ("bare-point", "[.5]", "json_syntax", 1),
        ("point-without-digits", "[1.]", "json_syntax", 3),
        ("exponent-without-digits", "[1e]", "json_syntax", 3),
        ("minus-alone", "[-]", "json_syntax", 2),
        ("hexadecimal", "[0x10]", "json_syntax", 2),
        ("comma-before-end", "[1,]", "json_syntax", 3),
        ("comma-before-brace", r#"{"a":1,}"#, "json_syntax", 7),
        ("single-quotes", "{'a':1}", "json_syntax", 1),
        ("bare-name", "{a:1}", "json_syntax", 1),
        ("comment", "[1/*x*/]", "json_syntax", 2),
        ("raw-newline", "\"a\nb\"", "json_syntax", 2),
        ("raw-tab", "[\"\t\"]", "json_syntax", 2),
        ("bad-escape", r#"["\x41"]"#, "json_syntax", 3),
        ("short-unicode-escape", r#"["\u12"]"#, "json_syntax", 6),
        ("sign-in-unicode-escape", r#"["\u+041"]"#, "json_syntax", 4),
        ("unterminated-string", "\"abc", "json_syntax", 4),
        ("unterminated-array", "[1,2", "json_syntax", 4),
        ("empty", "", "json_syntax", 0),
        ("only-space", " \n ", "json_syntax", 3),
        ("form-feed-space", "\u{c}1", "json_syntax", 0),
        ("no-break-space", "\u{a0}1", "json_syntax", 0),
        ("wrong-case-word", "[True]", "json_syntax", 1),
        ("bom", "\u{feff}{}", "json_bom", 0),
    ];
    for (id, text, code, offset) in refused {
        let out = json!({ "ok": false, "code": code, "offset": offset });
        w.add(id, "json.parse", json!({ "text": text }), out);
    }
    for (id, bytes, offset) in [
        ("utf8-stray", &b"\"\xff\""[..], 1),
        ("utf8-overlong", b"\"\xc0\xaf\"", 1),
        ("utf8-surrogate", b"[\"\xed\xa0\x80\"]", 2),
        ("utf8-cut", b"\"\xe5\x8c\"", 1),
        ("utf8-beyond", b"\"\xf4\x90\x80\x80\"", 1),
        ("utf16-text", b"\xff\xfe{\x00}\x00", 0),
    ] {
        let out = json!({ "ok": false, "code": "json_invalid_utf8", "offset": offset });
        w.add(id, "json.parse", json!({ "hex": hex(bytes) }), out);
    }
    let out = json!({ "ok": false, "code": "json_too_deep", "offset": 128 });
    w.add("depth-129", "json.parse", json!({ "text": "[".repeat(129) + &"]".repeat(129) }), out)
        .decision("Nesting of 128 is the documented bound.");
    let out = json!({ "ok": false, "code": "json_too_deep" });
    w.add("depth-unclosed", "json.parse", json!({ "text": "[".repeat(5000) }), out);

    let accepted = [
        ("space", " \t\r\n{ \"a\" : [ 1 , 2 ] } ", r#"{"a":[1,2]}"#),
        ("names-differ-by-case", r#"{"a":1,"A":2}"#, r#"{"A":2,"a":1}"#),
        (
            "names-differ-by-normal-form",
            "{\"\u{e5}\":1,\"a\u{30a}\":2}",
            "{\"a\u{30a}\":2,\"\u{e5}\":1}",
        ),
        ("same-name-in-siblings", r#"[{"a":1},{"a":2}]"#, r#"[{"a":1},{"a":2}]"#),
        ("surrogate-pair", r#"["\ud83d\ude00"]"#, "[\"\u{1f600}\"]"),
        ("escaped-backslash-u", r#"["\\ud800"]"#, r#"["\\ud800"]"#),
        ("noncharacter", r#"["\uffff"]"#, "[\"\u{ffff}\"]"),
        (
            "greatest-safe",
            "[9007199254740991,-9007199254740991]",
            "[9007199254740991,-9007199254740991]",
        ),
        ("exponent-is-double", "[1E+20,1e300]", "[100000000000000000000,1e+300]"),
        ("underflow", "[1e-400]", "[0]"),
        ("scalar", "null", "null"),
        ("empty-name", r#"{"":{}}"#, r#"{"":{}}"#),
        ("proto", r#"{"__proto__":1}"#, r#"{"__proto__":1}"#),
        ("bom-inside", "[\"\u{feff}\"]", "[\"\u{feff}\"]"),
    ];
    for (id, text, canonical) in accepted {
        let out = json!({ "ok": true, "canonical": canonical });
        w.add(id, "json.parse", json!({ "text": text }), out);
    }
    let deep = "[".repeat(128) + &"]".repeat(128);
    let out = json!({ "ok": true, "canonical": deep });
    w.add("depth-128", "json.parse", json!({ "text": deep }), out);
    w.done()
}

pub(super) fn jcs() -> File {
    let mut w = Writer::new(
        "jcs",
        "Canonical JSON: numbers, strings, member order",
        "RFC 8785 with its appendix B, ECMAScript number-to-string",
    );
    // RFC 8785, appendix B: IEEE 754 bits and the text they are printed as.
    for (bits, text) in [
        (0x0000_0000_0000_0000, "0"),
        (0x8000_0000_0000_0000, "0"),
        (0x0000_0000_0000_0001, "5e-324"),
        (0x8000_0000_0000_0001, "-5e-324"),
        (0x7fef_ffff_ffff_ffff, "1.7976931348623157e+308"),
        (0xffef_ffff_ffff_ffff, "-1.7976931348623157e+308"),
        (0x4340_0000_0000_0000, "9007199254740992"),
        (0xc340_0000_0000_0000, "-9007199254740992"),
        (0x4430_0000_0000_0000, "295147905179352830000"),
        (0x44b5_2d02_c7e1_4af5, "9.999999999999997e+22"),
        (0x44b5_2d02_c7e1_4af6, "1e+23"),
        (0x44b5_2d02_c7e1_4af7, "1.0000000000000001e+23"),
        (0x444b_1ae4_d6e2_ef4e, "999999999999999700000"),
        (0x444b_1ae4_d6e2_ef4f, "999999999999999900000"),
        (0x444b_1ae4_d6e2_ef50, "1e+21"),
        (0x3eb0_c6f7_a0b5_ed8c, "9.999999999999997e-7"),
        (0x3eb0_c6f7_a0b5_ed8d, "0.000001"),
        (0x41b3_de43_5555_5553, "333333333.3333332"),
        (0x41b3_de43_5555_5554, "333333333.33333325"),
        (0x41b3_de43_5555_5555, "333333333.3333333"),
        (0x41b3_de43_5555_5556, "333333333.3333334"),
        (0x41b3_de43_5555_5557, "333333333.33333343"),
        (0xbecb_f647_612f_3696, "-0.0000033333333333333333"),
        (0x4314_3ff3_c1cb_0959, "1424953923781206.2"),
    ] {
        let double = f64::from_bits(bits);
        let out = json!({ "ok": true, "canonical": format!("[{text}]") });
        w.add(&format!("bits-{bits:016x}"), "jcs", json!({ "text": format!("[{double:e}]") }), out)
            .anchor("RFC 8785 appendix B");
    }
    let numbers = [
        ("one-point-zero", "[1.0,100.00,-5.0e0]", "[1,100,-5]"),
        ("negative-zero", "[-0,-0.0,-0e10]", "[0,0,0]"),
        (
            "exponent-forms",
            "[1e-6,1E+20,2951479051793528258.56e2]",
            "[0.000001,100000000000000000000,295147905179352830000]",
        ),
        ("small", "[1e-7,0.0000001,123e-9]", "[1e-7,1e-7,1.23e-7]"),
        ("large", "[1e21,999999999999999900000.0]", "[1e+21,999999999999999900000]"),
        (
            "last-bit",
            "[1.5777777777770001,117.63331139400017,122.416294033786585]",
            "[1.5777777777770001,117.63331139400017,122.41629403378658]",
        ),
        ("halfway", "[9007199254740993.0,0.1e1]", "[9007199254740992,1]"),
        (
            "subnormal",
            "[2.2250738585072011e-308,4.9406564584124654e-324]",
            "[2.225073858507201e-308,5e-324]",
        ),
        ("many-digits", "[0.1000000000000000055511151231257827021181583404541015625]", "[0.1]"),
        ("score", r#"{"score":-0.25}"#, r#"{"score":-0.25}"#),
    ];
    for (id, text, canonical) in numbers {
        w.add(id, "jcs", json!({ "text": text }), json!({ "ok": true, "canonical": canonical }))
            .anchor("ECMAScript Number::toString");
    }
    let strings = [
        ("escapes", r#"["\"\\\/\b\f\n\r\t"]"#, r#"["\"\\/\b\f\n\r\t"]"#),
        (
            "control-characters",
            r#"["\u0000\u0001\u000b\u001f"]"#,
            r#"["\u0000\u0001\u000b\u001f"]"#,
        ),
        ("lowercase-hex", r#"["\u001F\u000E"]"#, r#"["\u001f\u000e"]"#),
        (
            "no-over-escaping",
            "[\"\\u2028/\\u007f\\u0000\\u0008\"]",
            "[\"\u{2028}/\u{7f}\\u0000\\b\"]",
        ),
        ("c1-controls", r#"["\u0080\u009f"]"#, "[\"\u{80}\u{9f}\"]"),
        (
            "not-normalized",
            r#"{"Unnormalized Unicode":"A\u030a"}"#,
            "{\"Unnormalized Unicode\":\"A\u{30a}\"}",
        ),
        ("astral", r#"["\ud834\udd1e"]"#, "[\"\u{1d11e}\"]"),
        ("html", r#"["</script>&'"]"#, r#"["</script>&'"]"#),
    ];
    for (id, text, canonical) in strings {
        w.add(id, "jcs", json!({ "text": text }), json!({ "ok": true, "canonical": canonical }))
            .anchor("RFC 8785 3.2.2.2");
    }
    let orders = [
        ("order-utf16", "{\"\u{fffd}\":1,\"\u{1f600}\":2}", "{\"\u{1f600}\":2,\"\u{fffd}\":1}"),
        (
            "order-utf16-nested",
            "{\"a\":{\"\u{ff5e}\":1,\"\u{10000}\":{\"\u{e000}\":1,\"\u{10ffff}\":2}}}",
            "{\"a\":{\"\u{10000}\":{\"\u{10ffff}\":2,\"\u{e000}\":1},\"\u{ff5e}\":1}}",
        ),
        ("order-digits", r#"{"10":1,"1":2,"9":3,"":4}"#, r#"{"":4,"1":2,"10":1,"9":3}"#),
        ("order-case", r#"{"b":1,"B":2,"a":3,"A":4}"#, r#"{"A":4,"B":2,"a":3,"b":1}"#),
        ("order-prefix", r#"{"aa":1,"a":2,"aaa":3}"#, r#"{"a":2,"aa":1,"aaa":3}"#),
        (
            "order-accents",
            "{\"p\u{ea}che\":1,\"peach\":2,\"p\u{e9}ch\u{e9}\":3,\"sin\":4}",
            "{\"peach\":2,\"p\u{e9}ch\u{e9}\":3,\"p\u{ea}che\":1,\"sin\":4}",
        ),
        (
            "order-escapes",
            r#"{"\n":1,"\u0000":2," ":3,"\"":4}"#,
            r#"{"\u0000":2,"\n":1," ":3,"\"":4}"#,
        ),
        ("arrays-keep-order", r#"[3,1,2,{"b":[2,1],"a":[]}]"#, r#"[3,1,2,{"a":[],"b":[2,1]}]"#),
    ];
    for (id, text, canonical) in orders {
        w.add(id, "jcs", json!({ "text": text }), json!({ "ok": true, "canonical": canonical }))
            .anchor("RFC 8785 3.2.3");
    }
    let sample = r#"{
  "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
  "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
  "literals": [null, true, false]
}"#;
    let canonical = "{\"literals\":[null,true,false],\"numbers\":[333333333.3333333,1e+30,4.5,0.002,1e-27],\"string\":\"\u{20ac}$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"}";
    w.add(
        "rfc-sample",
        "jcs",
        json!({ "text": sample }),
        json!({ "ok": true, "canonical": canonical }),
    )
    .anchor("RFC 8785 3.2.2");
    let sample = r#"{
  "\u20ac": "Euro Sign", "\r": "Carriage Return", "\ufb33": "Hebrew Letter Dalet With Dagesh",
  "1": "One", "\ud83d\ude00": "Emoji: Grinning Face", "\u0080": "Control",
  "\u00f6": "Latin Small Letter O With Diaeresis"
}"#;
    let canonical = "{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"\u{80}\":\"Control\",\"\u{f6}\":\"Latin Small Letter O With Diaeresis\",\"\u{20ac}\":\"Euro Sign\",\"\u{1f600}\":\"Emoji: Grinning Face\",\"\u{fb33}\":\"Hebrew Letter Dalet With Dagesh\"}";
    w.add(
        "rfc-sorting",
        "jcs",
        json!({ "text": sample }),
        json!({ "ok": true, "canonical": canonical }),
    )
    .anchor("RFC 8785 3.2.3");
    w.done()
}

pub(super) fn sse() -> File {
    let mut w = Writer::new(
        "sse",
        "Event streams: framing, whatever the chunks",
        "WHATWG HTML, server-sent events",
    );
    let event = |data: &str| json!({ "event": "message", "data": data, "id": null });
    let emoji = "\u{1f600}".as_bytes();
    type Streams = Vec<(&'static str, Vec<Vec<u8>>, Vec<Value>)>;
    let cases: Streams = vec![
        (
            "crlf-split",
            vec![b"data: a\r".to_vec(), b"\ndata: b\r\n\r\n".to_vec()],
            vec![event("a\nb")],
        ),
        ("cr-only", vec![b"data: a\rdata: b\r\r".to_vec()], vec![event("a\nb")]),
        (
            "cr-then-lf-alone",
            vec![b"data: a\r".to_vec(), b"\n".to_vec(), b"\r".to_vec(), b"\n".to_vec()],
            vec![event("a")],
        ),
        ("mixed-ends", vec![b"data: a\ndata: b\r\ndata: c\r\n\n".to_vec()], vec![event("a\nb\nc")]),
        ("bom", vec![b"\xef\xbb\xbfdata: x\n\n".to_vec()], vec![event("x")]),
        ("bom-split", vec![b"\xef".to_vec(), b"\xbb\xbfdata: x\n\n".to_vec()], vec![event("x")]),
        (
            "bom-later-stays",
            vec!["data: \u{feff}x\n\n".as_bytes().to_vec()],
            vec![event("\u{feff}x")],
        ),
        ("half-bom-is-a-field", vec![b"\xef\xbb: y\ndata: x\n\n".to_vec()], vec![event("x")]),
        (
            "utf8-split",
            vec![b"data: \xe5\x8c".to_vec(), b"\x97 \n\n".to_vec()],
            vec![event("\u{5317} ")],
        ),
        (
            "emoji-cut-1",
            vec![[b"data: ", &emoji[..1]].concat(), [&emoji[1..], b"\n\n"].concat()],
            vec![event("\u{1f600}")],
        ),
        (
            "emoji-cut-2",
            vec![[b"data: ", &emoji[..2]].concat(), [&emoji[2..], b"\n\n"].concat()],
            vec![event("\u{1f600}")],
        ),
        (
            "emoji-cut-3",
            vec![[b"data: ", &emoji[..3]].concat(), [&emoji[3..], b"\n\n"].concat()],
            vec![event("\u{1f600}")],
        ),
        ("unknown-field", vec![b"foo: bar\ndata: x\n\n".to_vec()], vec![event("x")]),
        ("bare-data", vec![b"data\n\n".to_vec()], vec![event("")]),
        ("bare-data-twice", vec![b"data\ndata\n\n".to_vec()], vec![event("\n")]),
        ("bare-id", vec![b"id\n\n".to_vec()], vec![]),
        ("comment", vec![b": heartbeat\n\n:\n\ndata: x\n\n".to_vec()], vec![event("x")]),
        ("one-space-only", vec![b"data:  x\n\ndata:y\n\n".to_vec()], vec![event(" x"), event("y")]),
        ("colon-in-value", vec![b"data: a:b: c\n\n".to_vec()], vec![event("a:b: c")]),
        ("unfinished", vec![b"data: x\n".to_vec()], vec![]),
        ("no-data-no-event", vec![b"event: room.event\n\ndata: x\n\n".to_vec()], vec![event("x")]),
        ("field-name-case", vec![b"Data: x\nDATA: y\n\n".to_vec()], vec![]),
    ];
    let chunks = |chunks: &[Vec<u8>]| -> Value {
        json!({ "chunks": chunks.iter().map(|c| hex(c)).collect::<Vec<_>>() })
    };
    for (id, parts, events) in cases {
        w.add(id, "sse.parse", chunks(&parts), json!({ "ok": true, "events": events }));
    }
    let named = json!([
        { "event": "room.event", "data": "{}", "id": "0" },
        { "event": "message", "data": "x", "id": "0" },
        { "event": "message", "data": "y", "id": "" },
    ]);
    let text =
        b"id: 0\ndata: \n\nevent: room.event\ndata: {}\n\ndata: x\n\nid\ndata: y\n\n".to_vec();
    let mut events = vec![json!({ "event": "message", "data": "", "id": "0" })];
    events.extend(named.as_array().cloned().into_iter().flatten());
    w.add("names-and-ids", "sse.parse", chunks(&[text]), json!({ "ok": true, "events": events }))
        .about("The id stays until another one comes; the event name does not.");
    let text = b"id: a\x00b\ndata: x\n\n".to_vec();
    w.add(
        "id-with-nul",
        "sse.parse",
        chunks(&[text]),
        json!({ "ok": true, "events": [event("x")] }),
    );
    // Every way to cut one stream in two gives the same events.
    let stream = "\u{feff}: hi\revent: message\r\ndata: a\r\ndata: b\u{5317}\n\n".as_bytes();
    for at in (1..stream.len()).step_by(3) {
        let parts = [stream[..at].to_vec(), stream[at..].to_vec()];
        let out = json!({ "ok": true, "events": [event("a\nb\u{5317}")] });
        w.add(&format!("cut-at-{at}"), "sse.parse", chunks(&parts), out);
    }
    w.done()
}
