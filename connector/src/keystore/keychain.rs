//! The keychain of the operating system: Keychain on macOS, Credential Manager on Windows,
//! Secret Service elsewhere. When it does not answer, that is an error and nothing else.

use std::sync::Arc;

use ap_protocol::{AgentId, SecretKey, encoding};
use zeroize::Zeroizing;

use super::{KeyStore, KeyStoreError};

/// The service name under which keys are kept; the user name is the Agent ID.
pub const SERVICE: &str = "ap-connector";

/// What the keychain must do, so that tests can stand in for one.
pub trait Backend: Send + Sync {
    /// The secret of `user`, `None` when there is none.
    ///
    /// # Errors
    /// What the system says.
    fn get(&self, user: &str) -> Result<Option<Zeroizing<Vec<u8>>>, String>;

    /// Keeps a secret.
    ///
    /// # Errors
    /// What the system says.
    fn set(&self, user: &str, secret: &[u8]) -> Result<(), String>;
}

struct System;

fn entry(user: &str) -> Result<keyring::Entry, String> {
    if let Err(e) = keyring::Entry::store_status() {
        return Err(e.to_string());
    }
    keyring::Entry::new(SERVICE, user).map_err(|e| e.to_string())
}

impl Backend for System {
    fn get(&self, user: &str) -> Result<Option<Zeroizing<Vec<u8>>>, String> {
        match entry(user)?.get_secret() {
            Ok(secret) => Ok(Some(Zeroizing::new(secret))),
            Err(keyring::Error::NoEntry) => Ok(None),
            Err(e) => Err(e.to_string()),
        }
    }

    fn set(&self, user: &str, secret: &[u8]) -> Result<(), String> {
        entry(user)?.set_secret(secret).map_err(|e| e.to_string())
    }
}

/// Keys in the operating system's keychain, one entry an Agent ID.
pub struct KeychainStore(Arc<dyn Backend>);

impl KeychainStore {
    /// The system's own keychain. Answers before a runtime starts: it blocks.
    pub fn system() -> Self {
        KeychainStore(Arc::new(System))
    }

    /// Some other backend.
    pub fn with_backend(backend: Arc<dyn Backend>) -> Self {
        KeychainStore(backend)
    }

    /// Whether the system has a keychain that answers.
    ///
    /// # Errors
    /// [`KeyStoreError::NoKeychain`] with what the system says.
    pub fn probe() -> Result<(), KeyStoreError> {
        match keyring::Entry::store_status() {
            Ok(()) => Ok(()),
            Err(e) => Err(KeyStoreError::NoKeychain { why: e.to_string() }),
        }
    }

    fn get(&self, id: &AgentId) -> Result<Option<SecretKey>, KeyStoreError> {
        let secret = self.0.get(id.as_str()).map_err(|why| KeyStoreError::NoKeychain { why })?;
        let Some(secret) = secret else { return Ok(None) };
        // Text, because some keychains show and keep only text faithfully.
        let seed = std::str::from_utf8(&secret)
            .ok()
            .and_then(|text| encoding::decode_array::<32>(text).ok())
            .map(Zeroizing::new)
            .ok_or_else(|| KeyStoreError::Damaged {
                path: self.place().into(),
                why: "the entry is not a seed in base64url".to_owned(),
            })?;
        let key = SecretKey::from_seed(&seed);
        if key.agent_id() != *id {
            return Err(KeyStoreError::OtherIdentity {
                place: self.place(),
                wanted: id.to_string(),
                found: key.agent_id().to_string(),
            });
        }
        Ok(Some(key))
    }
}

impl KeyStore for KeychainStore {
    fn place(&self) -> String {
        format!("the system keychain (service {SERVICE})")
    }

    fn load(&self, id: &AgentId) -> Result<SecretKey, KeyStoreError> {
        self.get(id)?
            .ok_or_else(|| KeyStoreError::Missing { place: self.place(), id: id.to_string() })
    }

    fn save(&self, key: &SecretKey) -> Result<(), KeyStoreError> {
        let id = key.agent_id();
        if self.get(&id)?.is_some() {
            return Err(KeyStoreError::Exists { place: self.place() });
        }
        let text = Zeroizing::new(encoding::encode(*key.seed()));
        self.0
            .set(id.as_str(), text.as_bytes())
            .map_err(|why| KeyStoreError::NoKeychain { why })?;
        // Some stores accept and forget. Ask before the caller believes it.
        match self.get(&id)? {
            Some(_) => Ok(()),
            None => Err(KeyStoreError::NoKeychain {
                why: "it accepted the key but does not give it back".to_owned(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::Mutex;

    use super::*;

    #[derive(Default)]
    struct Fake {
        entries: Mutex<HashMap<String, Vec<u8>>>,
        forgetful: bool,
        broken: bool,
    }

    impl Backend for Fake {
        fn get(&self, user: &str) -> Result<Option<Zeroizing<Vec<u8>>>, String> {
            if self.broken {
                return Err("no D-Bus".to_owned());
            }
            Ok(self.entries.lock().unwrap().get(user).cloned().map(Zeroizing::new))
        }

        fn set(&self, user: &str, secret: &[u8]) -> Result<(), String> {
            if !self.forgetful {
                self.entries.lock().unwrap().insert(user.to_owned(), secret.to_vec());
            }
            Ok(())
        }
    }

    #[test]
    fn keeps_a_key_and_overwrites_nothing() {
        let store = KeychainStore::with_backend(Arc::new(Fake::default()));
        let key = super::super::generate().unwrap();
        assert_eq!(store.load(&key.agent_id()).unwrap_err().code(), "key_missing");
        store.save(&key).unwrap();
        assert_eq!(*store.load(&key.agent_id()).unwrap().seed(), *key.seed());
        assert_eq!(store.save(&key).unwrap_err().code(), "key_exists");
    }

    #[test]
    fn a_store_that_forgets_is_found_out_at_once() {
        let fake = Fake { forgetful: true, ..Fake::default() };
        let store = KeychainStore::with_backend(Arc::new(fake));
        let e = store.save(&super::super::generate().unwrap()).unwrap_err();
        assert_eq!(e.code(), "keychain_unavailable");
    }

    #[test]
    fn a_store_that_fails_is_an_error_that_names_the_way_out() {
        let fake = Fake { broken: true, ..Fake::default() };
        let store = KeychainStore::with_backend(Arc::new(fake));
        let key = super::super::generate().unwrap();
        for e in [store.load(&key.agent_id()).unwrap_err(), store.save(&key).unwrap_err()] {
            assert_eq!(e.code(), "keychain_unavailable");
            assert!(e.to_string().contains("key_file"), "{e}");
        }
    }

    #[test]
    fn a_foreign_or_damaged_entry_is_not_used() {
        let fake = Arc::new(Fake::default());
        let store = KeychainStore::with_backend(fake.clone());
        let key = super::super::generate().unwrap();
        let other = super::super::generate().unwrap();
        fake.set(key.agent_id().as_str(), encoding::encode(*other.seed()).as_bytes()).unwrap();
        assert_eq!(store.load(&key.agent_id()).unwrap_err().code(), "key_other_identity");
        fake.set(key.agent_id().as_str(), b"junk").unwrap();
        assert_eq!(store.load(&key.agent_id()).unwrap_err().code(), "key_file_damaged");
    }
}
