//! Where the private key rests: an encrypted file, the keychain of the operating system, or
//! (in tests) memory. Which one is the operator's choice and never changes by itself: a store
//! that does not answer is an error, not a reason to try another or to make a new identity.

pub mod file;
pub mod keychain;
pub mod memory;
pub mod passphrase;

use std::io::Read;
use std::path::{Path, PathBuf};

use ap_protocol::{AgentId, SecretKey};
use zeroize::Zeroizing;

pub use file::{FileKeyStore, KdfCost};
pub use keychain::KeychainStore;
pub use memory::MemoryKeyStore;
pub use passphrase::PassphraseSource;

/// A place that keeps private keys.
pub trait KeyStore: Send + Sync {
    /// What and where it is, for a person to read. Holds no secret.
    fn place(&self) -> String;

    /// The key of `id`.
    ///
    /// # Errors
    /// [`KeyStoreError`]; never a fresh key instead of a missing one.
    fn load(&self, id: &AgentId) -> Result<SecretKey, KeyStoreError>;

    /// Keeps a key that is not there yet.
    ///
    /// # Errors
    /// [`KeyStoreError::Exists`] rather than overwriting; otherwise what went wrong.
    fn save(&self, key: &SecretKey) -> Result<(), KeyStoreError>;
}

/// Why a key cannot be read or kept. Says what to do; never holds key material.
#[derive(Debug, thiserror::Error)]
pub enum KeyStoreError {
    /// Nothing is there.
    #[error(
        "{place} holds no key for {id}. Check agent_id and the path; a new identity is only ever \
         made by `ap-connector key create`"
    )]
    Missing {
        /// The store.
        place: String,
        /// Whose key was wanted.
        id: String,
    },
    /// Something is there already.
    #[error("{place} holds a key already and is not overwritten. Choose another place")]
    Exists {
        /// The store.
        place: String,
    },
    /// The key there is somebody else's.
    #[error("{place} holds the key of {found}, not of {wanted}. Correct agent_id or the path")]
    OtherIdentity {
        /// The store.
        place: String,
        /// Whose key was wanted.
        wanted: String,
        /// Whose key is there.
        found: String,
    },
    /// Others on this machine may read the file.
    #[error("{} is accessible to others (mode {mode:03o}). Run: chmod 600 {}", path.display(), path.display())]
    Permissions {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The authentication tag does not match.
    #[error(
        "{} does not open: the passphrase is wrong, or the file was changed. If the passphrase is \
         right, restore the file from a backup", path.display()
    )]
    WrongPassphrase {
        /// The file.
        path: PathBuf,
    },
    /// Not a key file of a version we know.
    #[error("{} is not a usable key file: {why}. Restore it from a backup", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What does not fit.
        why: String,
    },
    /// No passphrase could be had.
    #[error("no passphrase: {why}")]
    Passphrase {
        /// Why, and what to do.
        why: String,
    },
    /// The operating system offers no keychain, or it does not answer.
    #[error(
        "the keychain of this system is not available ({why}). Start a session with one, or keep \
         the key in an encrypted file: `ap-connector key create --key-file FILE` and identity.key_file \
         in the configuration. Nothing was stored elsewhere instead"
    )]
    NoKeychain {
        /// What the system said.
        why: String,
    },
    /// The file system failed.
    #[error("{what} {}: {source}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why it failed.
        source: std::io::Error,
    },
    /// No randomness from the operating system.
    #[error("the operating system gives no random numbers: {0}. Nothing was created")]
    Random(String),
}

impl KeyStoreError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            KeyStoreError::Missing { .. } => "key_missing",
            KeyStoreError::Exists { .. } => "key_exists",
            KeyStoreError::OtherIdentity { .. } => "key_other_identity",
            KeyStoreError::Permissions { .. } => "key_file_permissions",
            KeyStoreError::WrongPassphrase { .. } => "key_wrong_passphrase",
            KeyStoreError::Damaged { .. } => "key_file_damaged",
            KeyStoreError::Passphrase { .. } => "key_passphrase_missing",
            KeyStoreError::NoKeychain { .. } => "keychain_unavailable",
            KeyStoreError::Io { .. } => "key_file_io",
            KeyStoreError::Random(_) => "random_unavailable",
        }
    }
}

/// The first line of a file that only its owner may read, at most `limit_bytes` of it.
///
/// # Errors
/// [`KeyStoreError::Permissions`], [`KeyStoreError::Io`].
pub(crate) fn private_line(
    path: &Path,
    limit_bytes: u64,
) -> Result<Zeroizing<String>, KeyStoreError> {
    let io = |source| KeyStoreError::Io { what: "cannot read", path: path.to_owned(), source };
    let file = std::fs::File::open(path).map_err(io)?;
    file::require_private(path, &file)?;
    let mut text = Zeroizing::new(String::new());
    file.take(limit_bytes).read_to_string(&mut text).map_err(io)?;
    let line = text.split(['\n', '\r']).next().unwrap_or_default();
    Ok(Zeroizing::new(line.to_owned()))
}

/// Makes the folder that a file is to lie in, for its owner only; one that is there stays as
/// it is.
pub(crate) fn make_folder_of(path: &Path) -> std::io::Result<()> {
    let Some(folder) = path.parent().filter(|p| !p.as_os_str().is_empty()) else { return Ok(()) };
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Makes a new key from the operating system's randomness.
///
/// # Errors
/// [`KeyStoreError::Random`].
pub fn generate() -> Result<SecretKey, KeyStoreError> {
    let mut seed = Zeroizing::new([0u8; 32]);
    getrandom::fill(seed.as_mut_slice()).map_err(|e| KeyStoreError::Random(e.to_string()))?;
    Ok(SecretKey::from_seed(&seed))
}
