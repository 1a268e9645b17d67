//! Signing keys and the one signature predicate.

use std::fmt;

use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use zeroize::Zeroizing;

use crate::AgentId;

/// An Ed25519 private key. Shows nothing of itself; erased when dropped.
pub struct SecretKey(SigningKey);

impl SecretKey {
    /// From the 32-byte seed of RFC 8032.
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        SecretKey(SigningKey::from_bytes(seed))
    }

    /// The seed, for a key store to encrypt.
    pub fn seed(&self) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(self.0.to_bytes())
    }

    /// The Agent ID of this key.
    pub fn agent_id(&self) -> AgentId {
        AgentId::from_key(self.0.verifying_key().to_bytes())
    }

    /// Signs `message`. In a connector only the signer module may call this.
    pub fn sign(&self, message: &[u8]) -> [u8; 64] {
        self.0.sign(message).to_bytes()
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretKey({})", self.agent_id())
    }
}

/// Why a signature does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// The Agent ID's bytes are no canonical, full-order curve point.
    #[error("the actor's key is not a usable Ed25519 public key")]
    Key,
    /// The equation does not hold, or S or R is not in canonical form.
    #[error("the signature does not verify")]
    Signature,
}

/// Verifies one signature: canonical `A`, canonical and non-small-order `A` and `R`,
/// `S < L`, cofactorless equation. The only predicate in the project; batch verification
/// is never used to accept.
///
/// # Errors
/// [`SignatureError`].
pub fn verify(agent: &AgentId, message: &[u8], signature: &[u8; 64]) -> Result<(), SignatureError> {
    let key = VerifyingKey::from_bytes(agent.key_bytes()).map_err(|_| SignatureError::Key)?;
    // from_bytes accepts x = 0 with the sign bit set: re-encoding tells.
    if key.is_weak() || key.to_edwards().compress().as_bytes() != agent.key_bytes() {
        return Err(SignatureError::Key);
    }
    key.verify_strict(message, &Signature::from_bytes(signature))
        .map_err(|_| SignatureError::Signature)
}
