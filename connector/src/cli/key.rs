//! `ap-connector key`: nothing here prints or logs a private key.

use std::io::Read;
use std::path::Path;

use ap_protocol::{AgentId, SecretKey, encoding};
use serde_json::json;
use zeroize::Zeroizing;

use super::args::{self, KeyCommand, KeyRef};
use super::{CliError, exit, out, tell};
use crate::keystore::{self, FileKeyStore, KeyStore, KeychainStore};

/// Longest seed text that is read (bytes): 43 and some white space.
const MAX_SEED_TEXT: u64 = 128;

pub(super) fn run(command: KeyCommand) -> Result<u8, CliError> {
    match command {
        KeyCommand::Create(place) => {
            if place.keychain {
                // Say that there is none before a key is made.
                KeychainStore::probe()?;
            }
            keep(&*place.store(), &keystore::generate()?)
        }
        KeyCommand::Import { place, seed_file } => {
            let key = import(seed_file.as_deref())?;
            keep(&*place.store(), &key)
        }
        KeyCommand::ExportPublic(key) => {
            let id = whose(&key)?;
            let public = encoding::encode(id.key_bytes());
            let value = json!({
                "agent_id": id, "public_key": public,
                "jwk": { "kty": "OKP", "crv": "Ed25519", "x": public, "alg": "EdDSA", "use": "sig" },
            });
            out(&format!("{value:#}"));
            Ok(exit::OK)
        }
        KeyCommand::Show { key, open } => {
            let id = whose(&key)?;
            let store = key.place.store();
            if open || key.place.keychain {
                store.load(&id)?;
            }
            out(id.as_str());
            tell(&format!(
                "in {}{}",
                store.place(),
                if open { "; it opens and is the key of this Agent ID" } else { "" }
            ));
            Ok(exit::OK)
        }
        KeyCommand::ChangePassphrase {
            key_file,
            passphrase,
            new_passphrase_env,
            new_passphrase_file,
        } => {
            let store = FileKeyStore::new(&key_file, passphrase.source());
            let new = args::source(new_passphrase_env.as_deref(), new_passphrase_file.as_ref());
            store.change_passphrase(&new)?;
            tell(
                "The key file is encrypted under the new passphrase. Old copies of the file still open with the old one.",
            );
            Ok(exit::OK)
        }
    }
}

fn keep(store: &dyn KeyStore, key: &SecretKey) -> Result<u8, CliError> {
    store.save(key)?;
    out(key.agent_id().as_str());
    tell(&format!(
        "The key is in {}. Keep a backup: without it nobody can act as this Agent ID again.",
        store.place()
    ));
    Ok(exit::OK)
}

pub(super) fn whose(key: &KeyRef) -> Result<AgentId, CliError> {
    let named = match &key.agent_id {
        Some(text) => Some(parse_id(text)?),
        None => None,
    };
    match (&key.place.key_file, named) {
        (Some(path), named) => {
            let store = FileKeyStore::new(path, key.place.passphrase.source());
            let found = store.agent_id()?;
            match named {
                Some(wanted) if wanted != found => {
                    Err(CliError::Key(keystore::KeyStoreError::OtherIdentity {
                        place: store.place(),
                        wanted: wanted.to_string(),
                        found: found.to_string(),
                    }))
                }
                _ => Ok(found),
            }
        }
        (None, Some(id)) => Ok(id),
        (None, None) => Err(CliError::usage("bad_argument", "name the key with --agent-id")),
    }
}

pub(super) fn parse_id(text: &str) -> Result<AgentId, CliError> {
    AgentId::parse(text).map_err(|e| CliError::usage("bad_argument", format!("agent id: {e}")))
}

fn import(seed_file: Option<&Path>) -> Result<SecretKey, CliError> {
    let mut text = Zeroizing::new(String::with_capacity(MAX_SEED_TEXT as usize));
    match seed_file {
        Some(path) => {
            let failed = |e| CliError::file("cannot read", path, e);
            let file = std::fs::File::open(path).map_err(failed)?;
            keystore::file::require_private(path, &file)?;
            file.take(MAX_SEED_TEXT).read_to_string(&mut text).map_err(failed)?;
        }
        None => {
            let failed = |e| CliError::file("cannot read", Path::new("stdin"), e);
            std::io::stdin().take(MAX_SEED_TEXT).read_to_string(&mut text).map_err(failed)?;
        }
    }
    let seed = encoding::decode_array::<32>(text.trim()).map(Zeroizing::new).map_err(|e| {
        CliError::usage("bad_argument", format!("the seed {e}; it is 32 bytes in base64url"))
    })?;
    Ok(SecretKey::from_seed(&seed))
}
