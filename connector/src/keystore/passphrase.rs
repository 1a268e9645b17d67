//! Where the passphrase of a key file comes from. A passphrase is never an argument: those
//! are visible to every process of the machine.

use std::io::{IsTerminal, Read};
use std::path::PathBuf;

use zeroize::Zeroizing;

use super::KeyStoreError;

/// Longest passphrase that is read (bytes).
pub const MAX_PASSPHRASE_BYTES: usize = 4096;
/// Shortest passphrase for a new file (characters).
pub const MIN_NEW_CHARS: usize = 8;

/// One way to a passphrase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PassphraseSource {
    /// The value of this environment variable.
    Env(String),
    /// The first line of this file, which must be private.
    File(PathBuf),
    /// A question on the terminal, without echo.
    Prompt,
    /// None was named, and nobody can be asked.
    None,
}

impl PassphraseSource {
    /// Reads the passphrase.
    ///
    /// # Errors
    /// [`KeyStoreError::Passphrase`] that says what is missing.
    pub fn read(&self) -> Result<Zeroizing<String>, KeyStoreError> {
        let text = match self {
            PassphraseSource::Env(name) => match std::env::var(name) {
                Ok(value) => Zeroizing::new(value),
                Err(std::env::VarError::NotPresent) => {
                    return Err(missing(format!("the environment variable {name} is not set")));
                }
                Err(std::env::VarError::NotUnicode(_)) => {
                    return Err(missing(format!("the environment variable {name} is not UTF-8")));
                }
            },
            PassphraseSource::File(path) => from_file(path)?,
            PassphraseSource::Prompt => prompt("Passphrase: ")?,
            PassphraseSource::None => {
                return Err(missing(
                    "name one with passphrase_env or passphrase_file (on the command line \
                     --passphrase-env NAME or --passphrase-file FILE)"
                        .to_owned(),
                ));
            }
        };
        if text.is_empty() {
            return Err(missing("it is empty".to_owned()));
        }
        if text.len() > MAX_PASSPHRASE_BYTES {
            return Err(missing(format!("it is longer than {MAX_PASSPHRASE_BYTES} bytes")));
        }
        Ok(text)
    }

    /// Reads the passphrase for a new file: asked twice, and not too short.
    ///
    /// # Errors
    /// [`KeyStoreError::Passphrase`].
    pub fn read_new(&self) -> Result<Zeroizing<String>, KeyStoreError> {
        let first = self.read()?;
        if first.chars().count() < MIN_NEW_CHARS {
            return Err(missing(format!("choose one of at least {MIN_NEW_CHARS} characters")));
        }
        if *self == PassphraseSource::Prompt && *prompt("Again: ")? != *first {
            return Err(missing("the two entries differ".to_owned()));
        }
        Ok(first)
    }
}

fn missing(why: String) -> KeyStoreError {
    KeyStoreError::Passphrase { why }
}

fn from_file(path: &std::path::Path) -> Result<Zeroizing<String>, KeyStoreError> {
    let io = |source| KeyStoreError::Io { what: "cannot read", path: path.to_owned(), source };
    let file = std::fs::File::open(path).map_err(io)?;
    super::file::require_private(path, &file)?;
    let mut text = Zeroizing::new(String::new());
    let limit = MAX_PASSPHRASE_BYTES as u64 + 2;
    file.take(limit).read_to_string(&mut text).map_err(io)?;
    let line = text.split(['\n', '\r']).next().unwrap_or_default();
    Ok(Zeroizing::new(line.to_owned()))
}

fn prompt(label: &str) -> Result<Zeroizing<String>, KeyStoreError> {
    let term = console::Term::stderr();
    if !std::io::stdin().is_terminal() || !term.is_term() {
        return Err(missing(
            "there is no terminal to ask on; name one with --passphrase-env NAME or \
             --passphrase-file FILE"
                .to_owned(),
        ));
    }
    let failed = |e: std::io::Error| missing(format!("the terminal failed: {e}"));
    term.write_str(label).map_err(failed)?;
    term.read_secure_line().map(Zeroizing::new).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    fn private(path: &std::path::Path, text: &str, mode: u32) {
        use std::os::unix::fs::PermissionsExt;
        std::fs::write(path, text).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn a_file_gives_its_first_line_and_must_be_private() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pass");
        private(&path, "correct horse\r\nsecond\n", 0o600);
        let source = PassphraseSource::File(path.clone());
        assert_eq!(source.read().unwrap().as_str(), "correct horse");
        private(&path, "correct horse\n", 0o640);
        assert_eq!(source.read().unwrap_err().code(), "key_file_permissions");
        private(&path, "\n", 0o600);
        assert_eq!(source.read().unwrap_err().code(), "key_passphrase_missing");
        private(&path, &"x".repeat(MAX_PASSPHRASE_BYTES + 1), 0o600);
        assert_eq!(source.read().unwrap_err().code(), "key_passphrase_missing");
    }

    #[cfg(unix)]
    #[test]
    fn a_new_passphrase_is_not_too_short() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pass");
        private(&path, "seven77\n", 0o600);
        assert!(PassphraseSource::File(path.clone()).read().is_ok());
        let e = PassphraseSource::File(path).read_new().unwrap_err();
        assert!(e.to_string().contains("at least 8"), "{e}");
    }

    #[test]
    fn what_is_missing_is_named() {
        let e = PassphraseSource::Env("AP_TEST_SURELY_NOT_SET".to_owned()).read().unwrap_err();
        assert!(e.to_string().contains("AP_TEST_SURELY_NOT_SET"), "{e}");
        let e = PassphraseSource::None.read().unwrap_err();
        assert!(e.to_string().contains("passphrase_env"), "{e}");
    }
}
