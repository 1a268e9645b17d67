//! Known answers made elsewhere: mechanisms, seeded ties, receipts, mandates.

use ap_protocol::{SecretKey, json};
use mock_hosts::grp::engine::{Ballot, Parameters, Run};
use mock_hosts::grp::jws;
use mock_hosts::grp::mandate::{IssuerSource, Issuers, Scope};
use serde_json::{Value, json};
use std::pin::Pin;
use std::sync::Arc;

fn data(text: &str) -> Value {
    json::parse(text.as_bytes()).unwrap()
}

struct Case {
    parameters: Parameters,
    eligible: u64,
    participating: Option<u64>,
    ballots: Vec<Ballot>,
    seed: String,
}

fn case(mechanism: &str, input: &Value) -> Case {
    let ballots = input["votes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|v| {
            let choice = ["choice", "ranking", "scores", "allocation"]
                .iter()
                .find_map(|name| v.get(name))
                .unwrap();
            Ballot {
                voter: v["voter_id"].as_str().unwrap().to_owned(),
                choice: choice.clone(),
                weight: v["weight"].as_f64().unwrap_or(1.0),
            }
        })
        .collect();
    Case {
        parameters: Parameters::from_json(mechanism, &input["parameters"]).unwrap(),
        eligible: input["eligible_voters"].as_u64().unwrap(),
        participating: input["participating_voters"].as_u64(),
        ballots,
        seed: input["deterministic_seed"].as_str().unwrap().to_owned(),
    }
}

impl Case {
    fn run(&self) -> Value {
        let run = Run {
            parameters: &self.parameters,
            eligible_voters: self.eligible,
            participating: self.participating,
            ballots: &self.ballots,
            seed: &self.seed,
        };
        run.tally().unwrap().to_json()
    }
}

#[test]
fn mechanisms_give_the_known_results() {
    let cases = data(include_str!("../../../vectors/grp/mechanisms.json"));
    let cases = cases.as_array().unwrap();
    assert_eq!(cases.len(), 10);
    for c in cases {
        let got = case(c["mechanism"].as_str().unwrap(), &c["input"]).run();
        for (name, expected) in c["expected"].as_object().unwrap() {
            let seen = match name.strip_prefix("trace.") {
                Some(inner) => &got["trace"][inner],
                None => &got[name],
            };
            // Compared as canonical bytes: 2 and 2.0 are one number, 2.23606797749979 exact.
            let canon = ap_protocol::jcs::to_string;
            assert_eq!(canon(seen), canon(expected), "{} {name}", c["id"]);
        }
    }
}

#[test]
fn seeded_ties_fall_as_known() {
    let cases = data(include_str!("../../../vectors/grp/tie-breaks.json"));
    let cases = cases.as_array().unwrap();
    assert_eq!(cases.len(), 18);
    for c in cases {
        let kind = c["kind"].as_str().unwrap();
        let mechanism = match kind.split(' ').next().unwrap() {
            "irv" => "ranked_choice",
            "pairwise" => "ranked_pairwise",
            "score" => "score_vote",
            "quadratic" => "quadratic_vote",
            _ => "generic_vote",
        };
        let got = case(mechanism, &c["input"]).run();
        assert_eq!(got["winner"], c["winner"], "{kind} {}", c["seed"]);
        assert_eq!(got["outcome"], c["outcome"], "{kind} {}", c["seed"]);
    }
}

fn hex32(text: &str) -> [u8; 32] {
    std::array::from_fn(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap())
}

#[test]
fn receipts_verify_hash_and_chain() {
    let v = data(include_str!("../../../vectors/grp/receipts.json"));
    let key = hex32(v["public_key_hex"].as_str().unwrap());
    let mut previous: Option<String> = None;
    for (jws_text, hash) in
        v["chain"].as_array().unwrap().iter().zip(v["hashes"].as_array().unwrap())
    {
        let text = jws_text.as_str().unwrap();
        let parsed = jws::parse(text, jws::RECEIPT_TYP).unwrap();
        parsed.verify(key).unwrap();
        assert_eq!(jws::receipt_hash(text), hash.as_str().unwrap());
        assert_eq!(parsed.payload["grp"]["prev_hash"].as_str(), previous.as_deref());
        previous = Some(jws::receipt_hash(text));
        // Our own signer writes the same header and payload bytes for the same content.
        let ours = jws::sign(
            &SecretKey::from_seed(&[1; 32]),
            &parsed.kid,
            jws::RECEIPT_TYP,
            &parsed.payload,
        );
        let unsigned = |t: &str| t.rsplit_once('.').unwrap().0.to_owned();
        assert_eq!(unsigned(&ours), unsigned(text));
    }
    for bad in ["tamperedSecondLink", "wrongKeyReceipt"] {
        let accepted = jws::parse(v[bad].as_str().unwrap(), jws::RECEIPT_TYP)
            .and_then(|parsed| parsed.verify(key));
        assert!(accepted.is_err(), "{bad}");
    }
}

#[test]
fn a_receipt_has_one_spelling() {
    let v = data(include_str!("../../../vectors/grp/receipts.json"));
    let good = v["chain"][0].as_str().unwrap();
    let (head, tail) = good.split_at(good.len() - 1);
    for last in ["R", "S", "T", "="] {
        assert_ne!(last, tail);
        assert!(jws::parse(&format!("{head}{last}"), jws::RECEIPT_TYP).is_err(), "{last}");
    }
    assert!(jws::parse(&format!("{good}="), jws::RECEIPT_TYP).is_err());
    assert!(jws::parse(good, jws::MANDATE_TYP).is_err());
    let encode = |v: Value| ap_protocol::encoding::encode(v.to_string());
    let (_, rest) = good.split_once('.').unwrap();
    for header in [
        json!({"alg": "none", "kid": "room-key-1", "typ": "grp-receipt+jwt"}),
        json!({"alg": "EdDSA", "kid": "room-key-1", "typ": "grp-receipt+jwt", "crit": ["b64"]}),
        json!({"alg": "EdDSA", "typ": "grp-receipt+jwt"}),
        json!({"alg": "EdDSA", "kid": "room-key-1", "typ": "JWT"}),
    ] {
        let text = format!("{}.{rest}", encode(header.clone()));
        assert!(jws::parse(&text, jws::RECEIPT_TYP).is_err(), "{header}");
    }
}

/// Serves one issuer document, as the published cases describe it.
#[derive(Debug)]
struct Published(Value);

impl IssuerSource for Published {
    fn fetch<'a>(
        &'a self,
        _url: &'a str,
    ) -> Pin<Box<dyn Future<Output = Result<Value, String>> + Send + 'a>> {
        Box::pin(std::future::ready(Ok(self.0.clone())))
    }
}

#[tokio::test]
async fn mandates_get_the_known_verdicts() {
    let v = data(include_str!("../../../vectors/grp/mandates.json"));
    let key = jws::jwk("principal-key-1", &hex32(v["public_key_hex"].as_str().unwrap()));
    let vectors = v["vectors"].as_array().unwrap();
    assert_eq!(vectors.len(), 7);
    for c in vectors {
        let document = json!({ "keys": [key], "revocations": c["revocations"] });
        let trusted = ["https://principal.example".to_owned()];
        let issuers = Issuers::new(false, &trusted, Arc::new(Published(document)), 0);
        let now_ms = c["context"]["now"].as_i64().unwrap() * 1_000;
        let rooms = [c["context"]["room"].as_str().unwrap().to_owned()];
        let verdict = async {
            let m = issuers.verify(c["jws"].as_str().unwrap(), now_ms, Default::default()).await?;
            m.check(&Scope {
                now_ms,
                rooms: Some(&rooms),
                action: c["context"]["action"].as_str(),
                weight: 1.0,
                acts: &[],
                replay: false,
            })
        }
        .await;
        let got = verdict.as_ref().map_or_else(|e| e.code, |()| "valid");
        let expected = match c["expect"]["reason"].as_str() {
            None => "valid".to_owned(),
            Some(reason) => format!("mandate.{reason}"),
        };
        assert_eq!(got, expected, "{}", c["id"]);
    }
}
