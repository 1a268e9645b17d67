//! Sign and verify, encode and decode: what we make we accept, and one change breaks it.

use ap_protocol::record::{CheckedRecord, sign_discourse};
use ap_protocol::{AgentId, Hash, Tip, VerifiedEnvelope, VerifiedRecord, encoding, json, jwt};
use proptest::prelude::*;
use serde_json::json;

use crate::support::{ROOM, START, id, key, text, value};

proptest! {
    #![proptest_config(crate::support::runs(10_000))]

    /// Over the wire and back, any payload keeps its hash, its signature and its record hash.
    #[test]
    fn envelopes_survive_the_wire(who in 1u8..9, payload in value(), nonce in 1u64..1 << 53) {
        let base = Tip { seq: 1, hash: Hash::of(b"x") };
        let payload = json!({ "any": payload });
        let envelope =
            sign_discourse(&key(who), Some(ROOM), Some(&base), "a.b", payload, &[], START, nonce).unwrap();
        let record = VerifiedRecord::append(ROOM, Some(&base), START, envelope.clone());
        let wire = record.to_value().to_string();
        let again = CheckedRecord::check(&json::parse(wire.as_bytes()).unwrap(), ROOM).unwrap();
        prop_assert_eq!(again.envelope().hash(), envelope.hash());
        prop_assert_eq!(again.hash(), record.hash());
        prop_assert_eq!(again.to_value(), record.to_value());
    }

    /// One changed character anywhere in the text of an envelope is noticed, or changes nothing.
    #[test]
    fn one_changed_byte_is_noticed(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let base = Tip { seq: 1, hash: Hash::of(b"x") };
        let payload = json!({ "content_type": "text/plain", "content": "I support this." });
        let envelope =
            sign_discourse(&key(1), Some(ROOM), Some(&base), "message.create", payload, &[], START, 5).unwrap();
        let mut text = envelope.value().to_string().into_bytes();
        let at = at.index(text.len());
        text[at] = byte;
        if let Ok(value) = json::parse(&text)
            && let Ok(again) = VerifiedEnvelope::verify(&value)
        {
            prop_assert_eq!(again.value(), envelope.value());
        }
    }

    #[test]
    fn base64url_has_one_spelling(bytes in prop::collection::vec(any::<u8>(), 0..80), damage in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let text = encoding::encode(&bytes);
        prop_assert_eq!(encoding::decode(&text).unwrap(), bytes.clone());
        let mut other = text.clone().into_bytes();
        if !other.is_empty() {
            let at = damage.index(other.len());
            other[at] = byte;
        }
        if let Ok(other) = String::from_utf8(other)
            && let Ok(decoded) = encoding::decode(&other)
        {
            prop_assert_eq!(decoded == bytes, other == text);
        }
    }

    #[test]
    fn agent_ids_come_back(seed in any::<[u8; 32]>()) {
        let id = ap_protocol::SecretKey::from_seed(&seed).agent_id();
        prop_assert_eq!(AgentId::parse(id.as_str()).unwrap(), id);
    }

    #[test]
    fn any_text_is_no_agent_id_or_itself(text in text()) {
        if let Ok(id) = AgentId::parse(&text) {
            prop_assert_eq!(id.as_str(), text);
        }
    }

    #[test]
    fn tokens_hold_for_their_time_and_place_only(who in 1u8..9, iat in 0u64..1 << 40, ttl in 1u64..600, later in 0u64..1200) {
        let (here, there) = ("https://a.example", "https://b.example");
        let token = jwt::sign(&key(who), here, iat, ttl);
        let now = (iat + later).saturating_sub(300);
        let expected = now + 60 >= iat && now <= iat + ttl.min(300);
        prop_assert_eq!(jwt::verify(&token, here, now).is_ok(), expected);
        prop_assert!(jwt::verify(&token, there, iat).is_err());
        prop_assert_eq!(jwt::verify(&token, here, iat).unwrap(), id(who));
    }
}
