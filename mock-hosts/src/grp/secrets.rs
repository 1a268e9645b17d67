//! Small secrets: password hashes and the sealing of idempotent answers.
//!
//! A sealed answer opens only with the client's own Idempotency-Key, which the host does
//! not keep: a join can be replayed with its token although no token is stored.

use argon2::Argon2;
use chacha20poly1305::{ChaCha20Poly1305, KeyInit, aead::Aead};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::clock::Entropy;
use super::jws::hex;

/// Salted, slow hash of a room password.
pub fn hash_password(password: &str, entropy: &Entropy) -> String {
    let salt: [u8; 16] = entropy.bytes();
    format!("{}${}", hex(&salt), hex(&stretch(password, &salt)))
}

/// Compares in constant time.
pub fn password_matches(password: &str, stored: &str) -> bool {
    let Some((salt, hash)) = stored.split_once('$') else { return false };
    let salt: Option<Vec<u8>> =
        (0..salt.len() / 2).map(|i| u8::from_str_radix(&salt[2 * i..2 * i + 2], 16).ok()).collect();
    let Some(salt) = salt else { return false };
    hex(&stretch(password, &salt)).as_bytes().ct_eq(hash.as_bytes()).into()
}

fn stretch(password: &str, salt: &[u8]) -> [u8; 32] {
    // 1 MiB, two passes: a laboratory host must stay fast, and says so.
    let params =
        argon2::Params::new(1_024, 2, 1, Some(32)).expect("constants within the documented bounds");
    let mut out = [0u8; 32];
    Argon2::new(argon2::Algorithm::Argon2id, argon2::Version::V0x13, params)
        .hash_password_into(password.as_bytes(), salt, &mut out)
        .expect("salt and output lengths are within bounds");
    out
}

/// Name under which an answer is remembered. Tells nothing about the key.
pub fn idempotency_name(scope: &[&str], key: &str) -> [u8; 32] {
    derive("grp idempotency name", scope, key)
}

/// Seals an answer under the client's key.
pub fn seal(scope: &[&str], key: &str, answer: &[u8]) -> Vec<u8> {
    // Each derived key encrypts one answer, so a fixed nonce never repeats under it.
    cipher(scope, key)
        .encrypt(&[0u8; 12].into(), answer)
        .expect("an in-memory answer is far below the cipher's limit")
}

/// Opens a sealed answer.
pub fn open(scope: &[&str], key: &str, sealed: &[u8]) -> Option<Vec<u8>> {
    cipher(scope, key).decrypt(&[0u8; 12].into(), sealed).ok()
}

fn cipher(scope: &[&str], key: &str) -> ChaCha20Poly1305 {
    ChaCha20Poly1305::new(&derive("grp idempotency seal", scope, key).into())
}

fn derive(purpose: &str, scope: &[&str], key: &str) -> [u8; 32] {
    let mut digest = Sha256::new();
    for part in [purpose].iter().chain(scope).chain(&[key]) {
        digest.update((part.len() as u64).to_be_bytes());
        digest.update(part.as_bytes());
    }
    digest.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords() {
        let stored = hash_password("correct horse battery", &Entropy::seeded(7));
        assert!(password_matches("correct horse battery", &stored));
        assert!(!password_matches("correct horse batterz", &stored));
        assert!(!stored.contains("horse"));
    }

    #[test]
    fn an_answer_opens_with_its_own_key_only() {
        let sealed = seal(&["join", "room"], "k1", b"t_secret");
        assert_eq!(open(&["join", "room"], "k1", &sealed).as_deref(), Some(&b"t_secret"[..]));
        assert_eq!(open(&["join", "room"], "k2", &sealed), None);
        assert_eq!(open(&["join", "other"], "k1", &sealed), None);
    }
}
