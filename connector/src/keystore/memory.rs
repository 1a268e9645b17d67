//! Keys in memory, for tests and for the provisioning document. Nothing here survives.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use ap_protocol::{AgentId, SecretKey};
use zeroize::Zeroizing;

use super::{KeyStore, KeyStoreError};

/// Keeps seeds until it is dropped.
#[derive(Default)]
pub struct MemoryKeyStore(Mutex<BTreeMap<AgentId, Zeroizing<[u8; 32]>>>);

impl KeyStore for MemoryKeyStore {
    fn place(&self) -> String {
        "memory".to_owned()
    }

    fn load(&self, id: &AgentId) -> Result<SecretKey, KeyStoreError> {
        let keys = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let seed = keys
            .get(id)
            .ok_or_else(|| KeyStoreError::Missing { place: self.place(), id: id.to_string() })?;
        Ok(SecretKey::from_seed(seed))
    }

    fn save(&self, key: &SecretKey) -> Result<(), KeyStoreError> {
        let mut keys = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if keys.contains_key(&key.agent_id()) {
            return Err(KeyStoreError::Exists { place: self.place() });
        }
        keys.insert(key.agent_id(), key.seed());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_what_it_is_given_and_overwrites_nothing() {
        let store = MemoryKeyStore::default();
        let key = super::super::generate().unwrap();
        let id = key.agent_id();
        assert_eq!(store.load(&id).unwrap_err().code(), "key_missing");
        store.save(&key).unwrap();
        assert_eq!(store.load(&id).unwrap().agent_id(), id);
        assert_eq!(store.save(&key).unwrap_err().code(), "key_exists");
    }
}
