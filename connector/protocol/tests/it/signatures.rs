//! The signature predicate as a declared set of edge cases, tested both ways.
//!
//! The published vectors (RFC 8032, Wycheproof, speccheck) are in `vectors/`; here every
//! combination of orders of A and R is made, and the equation is made to hold where it can.

use std::collections::BTreeSet;

use ap_protocol::keys::{self, SignatureError};
use ap_protocol::{AgentId, encoding};
use curve25519_dalek::EdwardsPoint;
use curve25519_dalek::constants::{ED25519_BASEPOINT_POINT as B, EIGHT_TORSION};
use curve25519_dalek::scalar::Scalar;
use sha2::{Digest, Sha512};

/// What may be odd about a key and a signature whose equation holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Edge {
    /// A has small order.
    LowOrderA,
    /// R has small order.
    LowOrderR,
    /// A has a torsion part beside its large one.
    MixedOrderA,
    /// R has a torsion part beside its large one.
    MixedOrderR,
    /// A is spelled in a second way.
    NonCanonicalA,
    /// R is spelled in a second way.
    NonCanonicalR,
    /// S is not reduced.
    UnreducedS,
    /// The equation holds only after multiplying by the cofactor.
    CofactorOnly,
}

use Edge::*;

/// The whole predicate: these may occur, no other may.
const ALLOWED: &[Edge] = &[MixedOrderA, MixedOrderR];

struct Sample {
    key: [u8; 32],
    message: Vec<u8>,
    signature: [u8; 64],
    edges: BTreeSet<Edge>,
}

fn challenge(r: &[u8; 32], a: &[u8; 32], message: &[u8]) -> Scalar {
    let mut hash = Sha512::new();
    hash.update(r);
    hash.update(a);
    hash.update(message);
    Scalar::from_bytes_mod_order_wide(&hash.finalize().into())
}

/// Second spellings of points whose y leaves room for one.
fn second_spelling(point: &EdwardsPoint) -> Option<[u8; 32]> {
    let canonical = point.compress().to_bytes();
    if canonical[1..31].iter().all(|b| *b == 0) && canonical[0] <= 18 && canonical[31] & 0x7f == 0 {
        // y + p fits in 255 bits.
        let mut bytes = [0xff; 32];
        bytes[0] = 0xed + canonical[0];
        bytes[31] = 0x7f | (canonical[31] & 0x80);
        return Some(bytes);
    }
    if point.compress().to_bytes() == EIGHT_TORSION[4].compress().to_bytes() {
        // x = 0: the sign bit says nothing.
        let mut bytes = canonical;
        bytes[31] |= 0x80;
        return Some(bytes);
    }
    None
}

/// Every combination of A = aB + torsion, R = rB + torsion, spellings and S.
fn samples() -> Vec<Sample> {
    let scalar = |n: u64| Scalar::from(n);
    let mut out = Vec::new();
    for (a, r) in [(7, 11), (0, 11), (7, 0), (0, 0)] {
        for ta in EIGHT_TORSION {
            for tr in EIGHT_TORSION {
                let (a_point, r_point) = (B * scalar(a) + ta, B * scalar(r) + tr);
                let spell = |p: &EdwardsPoint| {
                    let canonical = [(p.compress().to_bytes(), false)];
                    canonical.into_iter().chain(second_spelling(p).map(|s| (s, true)))
                };
                for (key, odd_a) in spell(&a_point) {
                    for (r_bytes, odd_r) in spell(&r_point) {
                        for n in 0..4u8 {
                            let message = vec![n];
                            let k = challenge(&r_bytes, &key, &message);
                            let s = scalar(r) + k * scalar(a);
                            let holds = B * s == r_point + k * a_point;
                            let mut edges = BTreeSet::new();
                            let mut note = |condition: bool, edge: Edge| {
                                if condition {
                                    edges.insert(edge);
                                }
                            };
                            note(a == 0, LowOrderA);
                            note(r == 0, LowOrderR);
                            note(a != 0 && !a_point.is_torsion_free(), MixedOrderA);
                            note(r != 0 && !r_point.is_torsion_free(), MixedOrderR);
                            note(odd_a, NonCanonicalA);
                            note(odd_r, NonCanonicalR);
                            note(!holds, CofactorOnly);
                            let mut signature = [0; 64];
                            signature[..32].copy_from_slice(&r_bytes);
                            signature[32..].copy_from_slice(s.as_bytes());
                            let sample = |signature, edges| Sample {
                                key,
                                message: message.clone(),
                                signature,
                                edges,
                            };
                            let mut unreduced = signature;
                            if add_order(&mut unreduced[32..]) {
                                let mut edges = edges.clone();
                                edges.insert(UnreducedS);
                                out.push(sample(unreduced, edges));
                            }
                            out.push(sample(signature, edges));
                        }
                    }
                }
            }
        }
    }
    out
}

/// Adds the group order; false when the sum does not fit.
fn add_order(scalar: &mut [u8]) -> bool {
    let minus_one = (-Scalar::ONE).to_bytes();
    let mut carry = 1u16;
    for (byte, add) in scalar.iter_mut().zip(minus_one) {
        let sum = u16::from(*byte) + u16::from(add) + carry;
        *byte = sum.to_le_bytes()[0];
        carry = sum >> 8;
    }
    carry == 0
}

fn verdict(sample: &Sample) -> Result<(), SignatureError> {
    let text = format!("did:agent:{}", encoding::encode(sample.key));
    let id = AgentId::parse_named(&text).expect("32 bytes");
    keys::verify(&id, &sample.message, &sample.signature)
}

#[test]
fn the_predicate_is_exactly_what_is_declared() {
    let samples = samples();
    let mut accepted = BTreeSet::new();
    let mut refused = BTreeSet::new();
    for sample in &samples {
        let fine = sample.edges.iter().all(|edge| ALLOWED.contains(edge));
        assert_eq!(verdict(sample).is_ok(), fine, "{:?}", sample.edges);
        (if fine { &mut accepted } else { &mut refused }).insert(sample.edges.clone());
    }
    // The table must have seen every edge: alone where it can be alone.
    for edge in ALLOWED {
        assert!(accepted.iter().any(|edges| edges.contains(edge)), "{edge:?} never accepted");
    }
    assert!(accepted.contains(&BTreeSet::new()), "no ordinary signature among the samples");
    for edge in [LowOrderA, LowOrderR, NonCanonicalA, NonCanonicalR, UnreducedS, CofactorOnly] {
        assert!(refused.iter().any(|edges| edges.contains(&edge)), "{edge:?} never refused");
    }
    assert!(refused.contains(&BTreeSet::from([UnreducedS])), "an honest S + L");
}

/// S01: an Agent ID of small order is refused where an actor is decoded.
#[test]
fn weak_keys_are_no_agent_ids() {
    for point in EIGHT_TORSION {
        for bytes in
            [Some(point.compress().to_bytes()), second_spelling(&point)].into_iter().flatten()
        {
            let text = format!("did:agent:{}", encoding::encode(bytes));
            assert!(AgentId::parse(&text).is_err(), "{text}");
            let named = AgentId::parse_named(&text).expect("syntax holds");
            let signature = [[1u8; 32], [0u8; 32]].concat().try_into().unwrap();
            assert_eq!(keys::verify(&named, b"any", &signature), Err(SignatureError::Key));
        }
    }
}

#[test]
fn half_of_all_strings_are_no_points() {
    let id = AgentId::parse(&format!("did:agent:{}", encoding::encode([2u8; 32]))).unwrap();
    assert_eq!(keys::verify(&id, b"any", &[0; 64]), Err(SignatureError::Key));
}
