//! The encrypted key file: argon2id makes a key of the passphrase, XChaCha20-Poly1305 encrypts
//! the 32-byte seed, and the whole header line is authenticated with it.
//!
//! Two lines of text: a JSON header (public: version, Agent ID, cost, salt, nonce), then the
//! sealed seed in base64url. The header's exact bytes are the associated data, so that no
//! member of it can be changed unnoticed. Nothing here writes outside of the file's folder.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use ap_protocol::{AgentId, SecretKey, encoding, json};
use argon2::{Algorithm, Argon2, Params, Version};
use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{KeyInit, XChaCha20Poly1305, XNonce};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::{KeyStore, KeyStoreError, PassphraseSource};

/// The header's `format`.
const FORMAT: &str = "ap-connector-key";
/// The version this build writes and reads.
const VERSION: u64 = 1;
/// Largest key file (bytes).
const MAX_FILE_BYTES: u64 = 4096;
const SALT_BYTES: usize = 16;
const NONCE_BYTES: usize = 24;

/// What one guess of the passphrase costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KdfCost {
    /// Memory (KiB).
    pub memory_kib: u32,
    /// Passes over the memory.
    pub passes: u32,
    /// Lanes.
    pub lanes: u32,
}

impl KdfCost {
    /// For real keys: 64 MiB, three passes.
    pub const STANDARD: KdfCost = KdfCost { memory_kib: 64 * 1024, passes: 3, lanes: 1 };
    /// The least that is accepted; for tests.
    pub const LEAST: KdfCost = KdfCost { memory_kib: 8 * 1024, passes: 1, lanes: 1 };

    /// A file must not be able to demand any amount of memory or time.
    fn acceptable(self) -> bool {
        (KdfCost::LEAST.memory_kib..=1024 * 1024).contains(&self.memory_kib)
            && (1..=16).contains(&self.passes)
            && (1..=8).contains(&self.lanes)
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    format: String,
    version: u64,
    agent_id: AgentId,
    kdf: String,
    cost: KdfCost,
    salt: String,
    cipher: String,
    nonce: String,
}

struct Parsed {
    header_line: String,
    header: Header,
    salt: [u8; SALT_BYTES],
    nonce: [u8; NONCE_BYTES],
    sealed: Vec<u8>,
}

/// One key in one encrypted file.
pub struct FileKeyStore {
    path: PathBuf,
    passphrase: PassphraseSource,
    cost: KdfCost,
}

impl FileKeyStore {
    /// The file at `path`; `passphrase` is read only when it is needed.
    pub fn new(path: impl Into<PathBuf>, passphrase: PassphraseSource) -> Self {
        FileKeyStore { path: path.into(), passphrase, cost: KdfCost::STANDARD }
    }

    /// The same with another cost for new files.
    #[must_use]
    pub fn with_cost(mut self, cost: KdfCost) -> Self {
        self.cost = cost;
        self
    }

    /// Whose key the file says it holds, without the passphrase. Proven only by [`Self::open`].
    ///
    /// # Errors
    /// [`KeyStoreError`].
    pub fn agent_id(&self) -> Result<AgentId, KeyStoreError> {
        Ok(self.read()?.header.agent_id)
    }

    /// Decrypts the key, whoever's it is.
    ///
    /// # Errors
    /// [`KeyStoreError`].
    pub fn open(&self) -> Result<SecretKey, KeyStoreError> {
        let parsed = self.read()?;
        let passphrase = self.passphrase.read()?;
        let cipher = self.cipher(&passphrase, &parsed.salt, parsed.header.cost)?;
        let payload = Payload { msg: &parsed.sealed, aad: parsed.header_line.as_bytes() };
        let opened = cipher
            .decrypt(&XNonce::from(parsed.nonce), payload)
            .map(Zeroizing::new)
            .map_err(|_| KeyStoreError::WrongPassphrase { path: self.path.clone() })?;
        let seed: Zeroizing<[u8; 32]> = Zeroizing::new(
            opened
                .as_slice()
                .try_into()
                .map_err(|_| self.damaged("the sealed part is not a 32-byte seed"))?,
        );
        let key = SecretKey::from_seed(&seed);
        if key.agent_id() != parsed.header.agent_id {
            return Err(self.damaged("the seed is not the one of the header's Agent ID"));
        }
        Ok(key)
    }

    /// Encrypts the key again under another passphrase, in one atomic replacement.
    ///
    /// # Errors
    /// [`KeyStoreError`]; the old file stands then.
    pub fn change_passphrase(&self, new: &PassphraseSource) -> Result<(), KeyStoreError> {
        let key = self.open()?;
        let text = self.seal(&key, &new.read_new()?)?;
        let temporary = self.write_temporary(&text)?;
        std::fs::rename(&temporary, &self.path).map_err(|source| {
            let _ = std::fs::remove_file(&temporary);
            self.io("cannot replace", source)
        })?;
        self.sync_folder()
    }

    fn read(&self) -> Result<Parsed, KeyStoreError> {
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                return Err(KeyStoreError::Missing {
                    place: self.place(),
                    id: "the configured identity".to_owned(),
                });
            }
            Err(e) => return Err(self.io("cannot open", e)),
        };
        require_private(&self.path, &file)?;
        let mut text = String::new();
        file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text).map_err(|e| match e.kind() {
            std::io::ErrorKind::InvalidData => self.damaged("it is not text"),
            _ => self.io("cannot read", e),
        })?;
        if text.len() as u64 > MAX_FILE_BYTES {
            return Err(self.damaged("it is too large"));
        }
        let mut lines = text.split('\n');
        let (Some(header_line), Some(sealed), Some(""), None) =
            (lines.next(), lines.next(), lines.next(), lines.next())
        else {
            return Err(self.damaged("it is not two complete lines"));
        };
        let value = json::parse(header_line.as_bytes())
            .map_err(|e| self.damaged(format!("the header is not acceptable JSON: {e}")))?;
        if value["format"] != FORMAT {
            return Err(self.damaged("the header does not say that it is one"));
        }
        if value["version"] != VERSION {
            return Err(self.damaged(format!(
                "its version is {}, this build reads {VERSION}",
                value["version"]
            )));
        }
        let header: Header = serde_json::from_value(value)
            .map_err(|e| self.damaged(format!("the header does not fit: {e}")))?;
        if header.kdf != "argon2id" || header.cipher != "xchacha20poly1305" {
            return Err(self.damaged("it names other algorithms"));
        }
        if !header.cost.acceptable() {
            return Err(self.damaged("its cost is out of bounds"));
        }
        let salt =
            encoding::decode_array(&header.salt).map_err(|e| self.damaged(format!("salt: {e}")))?;
        let nonce = encoding::decode_array(&header.nonce)
            .map_err(|e| self.damaged(format!("nonce: {e}")))?;
        let sealed =
            encoding::decode(sealed).map_err(|e| self.damaged(format!("sealed part: {e}")))?;
        Ok(Parsed { header_line: header_line.to_owned(), header, salt, nonce, sealed })
    }

    fn seal(&self, key: &SecretKey, passphrase: &str) -> Result<String, KeyStoreError> {
        let mut salt = [0u8; SALT_BYTES];
        let mut nonce = [0u8; NONCE_BYTES];
        for random in [&mut salt[..], &mut nonce[..]] {
            getrandom::fill(random).map_err(|e| KeyStoreError::Random(e.to_string()))?;
        }
        let header = Header {
            format: FORMAT.to_owned(),
            version: VERSION,
            agent_id: key.agent_id(),
            kdf: "argon2id".to_owned(),
            cost: self.cost,
            salt: encoding::encode(salt),
            cipher: "xchacha20poly1305".to_owned(),
            nonce: encoding::encode(nonce),
        };
        let header_line = serde_json::to_string(&header).expect("strings and integers serialize");
        let cipher = self.cipher(passphrase, &salt, self.cost)?;
        let seed = key.seed();
        let payload = Payload { msg: seed.as_slice(), aad: header_line.as_bytes() };
        let sealed = cipher
            .encrypt(&XNonce::from(nonce), payload)
            .expect("32 bytes are far below the cipher's limit");
        Ok(format!("{header_line}\n{}\n", encoding::encode(sealed)))
    }

    fn cipher(
        &self,
        passphrase: &str,
        salt: &[u8],
        cost: KdfCost,
    ) -> Result<XChaCha20Poly1305, KeyStoreError> {
        let params = Params::new(cost.memory_kib, cost.passes, cost.lanes, Some(32))
            .map_err(|e| self.damaged(format!("cost: {e}")))?;
        let mut derived = Zeroizing::new([0u8; 32]);
        Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
            .hash_password_into(passphrase.as_bytes(), salt, derived.as_mut_slice())
            .map_err(|e| self.damaged(format!("key derivation: {e}")))?;
        Ok(XChaCha20Poly1305::new(&(*derived).into()))
    }

    /// Writes a private file beside the key file, durable before it is moved.
    fn write_temporary(&self, text: &str) -> Result<PathBuf, KeyStoreError> {
        let mut suffix = [0u8; 6];
        getrandom::fill(&mut suffix).map_err(|e| KeyStoreError::Random(e.to_string()))?;
        let mut name = self.path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.tmp", encoding::encode(suffix)));
        let temporary = self.path.with_file_name(name);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let written = options
            .open(&temporary)
            .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()));
        if let Err(source) = written {
            let _ = std::fs::remove_file(&temporary);
            return Err(KeyStoreError::Io { what: "cannot write", path: temporary, source });
        }
        Ok(temporary)
    }

    fn sync_folder(&self) -> Result<(), KeyStoreError> {
        #[cfg(unix)]
        {
            let folder = match self.path.parent() {
                Some(p) if !p.as_os_str().is_empty() => p,
                _ => Path::new("."),
            };
            File::open(folder)
                .and_then(|f| f.sync_all())
                .map_err(|e| self.io("cannot make durable", e))?;
        }
        Ok(())
    }

    fn damaged(&self, why: impl Into<String>) -> KeyStoreError {
        KeyStoreError::Damaged { path: self.path.clone(), why: why.into() }
    }

    fn io(&self, what: &'static str, source: std::io::Error) -> KeyStoreError {
        KeyStoreError::Io { what, path: self.path.clone(), source }
    }
}

impl KeyStore for FileKeyStore {
    fn place(&self) -> String {
        format!("the key file {}", self.path.display())
    }

    fn load(&self, id: &AgentId) -> Result<SecretKey, KeyStoreError> {
        let found = self.agent_id()?;
        if found != *id {
            return Err(KeyStoreError::OtherIdentity {
                place: self.place(),
                wanted: id.to_string(),
                found: found.to_string(),
            });
        }
        self.open()
    }

    fn save(&self, key: &SecretKey) -> Result<(), KeyStoreError> {
        if self.path.symlink_metadata().is_ok() {
            return Err(KeyStoreError::Exists { place: self.place() });
        }
        let text = self.seal(key, &self.passphrase.read_new()?)?;
        super::make_folder_of(&self.path).map_err(|e| self.io("cannot make the folder of", e))?;
        let temporary = self.write_temporary(&text)?;
        // A link fails when the name is taken: unlike a rename it can overwrite nothing, even
        // when two processes create a key at the same moment.
        let linked = std::fs::hard_link(&temporary, &self.path);
        let _ = std::fs::remove_file(&temporary);
        linked.map_err(|e| match e.kind() {
            std::io::ErrorKind::AlreadyExists => KeyStoreError::Exists { place: self.place() },
            _ => self.io("cannot create", e),
        })?;
        self.sync_folder()
    }
}

/// Refuses a secret file that group or others can touch. Asks the open file, not the name.
pub(crate) fn require_private(path: &Path, file: &File) -> Result<(), KeyStoreError> {
    let io = |source| KeyStoreError::Io { what: "cannot examine", path: path.to_owned(), source };
    let metadata = file.metadata().map_err(io)?;
    if !metadata.is_file() {
        return Err(KeyStoreError::Damaged {
            path: path.to_owned(),
            why: "it is not a regular file".to_owned(),
        });
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = metadata.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(KeyStoreError::Permissions { path: path.to_owned(), mode });
        }
    }
    Ok(())
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    struct Place {
        dir: tempfile::TempDir,
    }

    impl Place {
        fn new() -> Self {
            Place { dir: tempfile::tempdir().unwrap() }
        }

        fn passphrase(&self, name: &str, text: &str) -> PassphraseSource {
            let path = self.dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
            PassphraseSource::File(path)
        }

        fn path(&self) -> PathBuf {
            self.dir.path().join("key")
        }

        fn store(&self, passphrase: PassphraseSource) -> FileKeyStore {
            FileKeyStore::new(self.path(), passphrase).with_cost(KdfCost::LEAST)
        }

        fn saved(&self) -> (FileKeyStore, SecretKey) {
            let store = self.store(self.passphrase("pass", "correct horse battery"));
            let key = super::super::generate().unwrap();
            store.save(&key).unwrap();
            (store, key)
        }

        fn rewrite(&self, f: impl FnOnce(String) -> String) {
            let text = std::fs::read_to_string(self.path()).unwrap();
            let changed = f(text.clone());
            assert_ne!(text, changed, "the test changed nothing");
            std::fs::write(self.path(), changed).unwrap();
        }
    }

    #[test]
    fn a_key_survives_and_the_file_is_private() {
        let place = Place::new();
        let (store, key) = place.saved();
        assert_eq!(*store.load(&key.agent_id()).unwrap().seed(), *key.seed());
        assert_eq!(store.agent_id().unwrap(), key.agent_id());
        let mode = std::fs::metadata(place.path()).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600);
        let text = std::fs::read_to_string(place.path()).unwrap();
        assert!(!text.contains(&encoding::encode(*key.seed())));
        let names: Vec<_> = std::fs::read_dir(place.dir.path())
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        assert!(!names.iter().any(|n| n.ends_with(".tmp")), "{names:?}");
    }

    #[test]
    fn an_existing_file_is_never_overwritten() {
        let place = Place::new();
        let (store, key) = place.saved();
        let other = super::super::generate().unwrap();
        assert_eq!(store.save(&other).unwrap_err().code(), "key_exists");
        assert_eq!(store.open().unwrap().agent_id(), key.agent_id());
        let e = store.load(&other.agent_id()).unwrap_err();
        assert_eq!(e.code(), "key_other_identity");
    }

    #[test]
    fn a_missing_file_is_an_error_and_stays_missing() {
        let place = Place::new();
        let store = place.store(place.passphrase("pass", "correct horse battery"));
        let id = super::super::generate().unwrap().agent_id();
        assert_eq!(store.load(&id).unwrap_err().code(), "key_missing");
        assert!(!place.path().exists());
    }

    #[test]
    fn a_wrong_passphrase_opens_nothing() {
        let place = Place::new();
        place.saved();
        let store = place.store(place.passphrase("wrong", "correct horse batterz"));
        assert_eq!(store.open().unwrap_err().code(), "key_wrong_passphrase");
    }

    #[test]
    fn every_member_of_the_header_is_authenticated() {
        let place = Place::new();
        let (store, _) = place.saved();
        let original = std::fs::read_to_string(place.path()).unwrap();
        let other = super::super::generate().unwrap().agent_id();
        let header = original.lines().next().unwrap().to_owned();
        let value: serde_json::Value = serde_json::from_str(&header).unwrap();
        let salt = value["salt"].as_str().unwrap();
        let nonce = value["nonce"].as_str().unwrap();
        let changes = [
            (value["agent_id"].as_str().unwrap().to_owned(), other.to_string()),
            (salt.to_owned(), encoding::encode([7u8; SALT_BYTES])),
            (nonce.to_owned(), encoding::encode([7u8; NONCE_BYTES])),
            ("\"passes\":1".to_owned(), "\"passes\":2".to_owned()),
            ("\"memory_kib\":8192".to_owned(), "\"memory_kib\":8200".to_owned()),
            // The same header in other bytes.
            ("{\"format\"".to_owned(), "{ \"format\"".to_owned()),
        ];
        for (from, to) in changes {
            place.rewrite(|text| text.replacen(&from, &to, 1));
            assert_eq!(store.open().unwrap_err().code(), "key_wrong_passphrase", "{from} → {to}");
            std::fs::write(place.path(), &original).unwrap();
        }
        assert!(store.open().is_ok());
    }

    #[test]
    fn a_header_cannot_choose_algorithms_versions_or_any_cost() {
        let place = Place::new();
        let (store, _) = place.saved();
        let original = std::fs::read_to_string(place.path()).unwrap();
        for (from, to) in [
            ("argon2id", "none"),
            ("xchacha20poly1305", "plain"),
            ("\"version\":1", "\"version\":2"),
            ("ap-connector-key", "something-else"),
            ("\"memory_kib\":8192", "\"memory_kib\":4294967295"),
            ("\"memory_kib\":8192", "\"memory_kib\":8"),
            ("\"passes\":1", "\"passes\":4000000000"),
            ("\"kdf\"", "\"extra\":1,\"kdf\""),
            ("\"version\":1", "\"version\":1,\"version\":1"),
        ] {
            place.rewrite(|text| text.replacen(from, to, 1));
            let e = store.open().unwrap_err();
            assert_eq!(e.code(), "key_file_damaged", "{from} → {to}: {e}");
            std::fs::write(place.path(), &original).unwrap();
        }
    }

    #[test]
    fn a_tampered_body_opens_nothing() {
        let place = Place::new();
        let (store, _) = place.saved();
        let original = std::fs::read_to_string(place.path()).unwrap();
        let body = original.lines().nth(1).unwrap();
        // The key derivation is slow on purpose: some positions, and the last.
        for at in (0..body.len()).step_by(16).chain([body.len() - 1]) {
            let mut bytes = body.as_bytes().to_vec();
            bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(bytes).unwrap();
            place.rewrite(|text| text.replace(body, &changed));
            let e = store.open().unwrap_err();
            assert!(
                matches!(e.code(), "key_wrong_passphrase" | "key_file_damaged"),
                "position {at}: {e}"
            );
            std::fs::write(place.path(), &original).unwrap();
        }
    }

    #[test]
    fn a_truncated_file_is_named_as_damaged_at_every_length() {
        let place = Place::new();
        let (store, _) = place.saved();
        let original = std::fs::read(place.path()).unwrap();
        for length in 0..original.len() {
            std::fs::write(place.path(), &original[..length]).unwrap();
            let e = store.open().unwrap_err();
            assert_eq!(e.code(), "key_file_damaged", "{length} bytes: {e}");
        }
        let mut long = original.clone();
        long.extend_from_slice(&[b'x'; 5000]);
        std::fs::write(place.path(), long).unwrap();
        assert_eq!(store.open().unwrap_err().code(), "key_file_damaged");
    }

    #[test]
    fn a_file_that_others_can_touch_is_refused() {
        let place = Place::new();
        let (store, _) = place.saved();
        for mode in [0o640, 0o604, 0o620, 0o666, 0o601] {
            std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(mode)).unwrap();
            let e = store.open().unwrap_err();
            assert_eq!(e.code(), "key_file_permissions", "{mode:o}");
            assert!(e.to_string().contains("chmod 600"), "{e}");
        }
        std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o400)).unwrap();
        assert!(store.open().is_ok());
    }

    #[test]
    fn the_passphrase_can_be_changed_and_the_old_one_is_dead() {
        let place = Place::new();
        let (old, key) = place.saved();
        let source = place.passphrase("new", "another good phrase");
        old.change_passphrase(&source).unwrap();
        assert_eq!(old.open().unwrap_err().code(), "key_wrong_passphrase");
        assert_eq!(place.store(source).open().unwrap().agent_id(), key.agent_id());
        let mode = std::fs::metadata(place.path()).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600);
    }
}
