//! Where the passphrase of a key file comes from. A passphrase is never an argument: those
//! are visible to every process of the machine.

use std::io::IsTerminal;
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
        self.read_at(&Person)
    }

    fn read_at(&self, terminal: &dyn Terminal) -> Result<Zeroizing<String>, KeyStoreError> {
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
            PassphraseSource::Prompt => ask(terminal, "Passphrase: ")?,
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
        self.read_new_at(&Person)
    }

    fn read_new_at(&self, terminal: &dyn Terminal) -> Result<Zeroizing<String>, KeyStoreError> {
        let first = self.read_at(terminal)?;
        if first.chars().count() < MIN_NEW_CHARS {
            return Err(missing(format!("choose one of at least {MIN_NEW_CHARS} characters")));
        }
        if *self == PassphraseSource::Prompt && *ask(terminal, "Again: ")? != *first {
            return Err(missing("the two entries differ".to_owned()));
        }
        Ok(first)
    }
}

fn missing(why: String) -> KeyStoreError {
    KeyStoreError::Passphrase { why }
}

fn from_file(path: &std::path::Path) -> Result<Zeroizing<String>, KeyStoreError> {
    super::private_line(path, MAX_PASSPHRASE_BYTES as u64 + 2)
}

/// Somebody who can be asked.
trait Terminal {
    /// Whether anybody is there.
    fn present(&self) -> bool;

    /// Asks without showing what is typed.
    fn ask(&self, label: &str) -> std::io::Result<String>;
}

/// The terminal that the process runs on.
struct Person;

impl Terminal for Person {
    fn present(&self) -> bool {
        std::io::stdin().is_terminal() && console::Term::stderr().is_term()
    }

    fn ask(&self, label: &str) -> std::io::Result<String> {
        let term = console::Term::stderr();
        term.write_str(label)?;
        term.read_secure_line()
    }
}

fn ask(terminal: &dyn Terminal, label: &str) -> Result<Zeroizing<String>, KeyStoreError> {
    if !terminal.present() {
        return Err(missing(
            "there is no terminal to ask on; name one with --passphrase-env NAME or \
             --passphrase-file FILE"
                .to_owned(),
        ));
    }
    terminal
        .ask(label)
        .map(Zeroizing::new)
        .map_err(|e| missing(format!("the terminal failed: {e}")))
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

    /// Says what it was told to, one line a question.
    struct Script(std::cell::RefCell<Vec<&'static str>>);

    impl Terminal for Script {
        fn present(&self) -> bool {
            !self.0.borrow().is_empty()
        }

        fn ask(&self, _label: &str) -> std::io::Result<String> {
            Ok(self.0.borrow_mut().remove(0).to_owned())
        }
    }

    fn asked(lines: &[&'static str]) -> Result<String, String> {
        let script = Script(std::cell::RefCell::new(lines.to_vec()));
        let new = PassphraseSource::Prompt.read_new_at(&script);
        new.map(|p| p.as_str().to_owned()).map_err(|e| e.to_string())
    }

    #[test]
    fn a_new_passphrase_is_asked_for_twice() {
        assert_eq!(asked(&["correct horse", "correct horse"]).unwrap(), "correct horse");
        assert!(asked(&["correct horse", "correct hose"]).unwrap_err().contains("differ"));
        assert!(asked(&["seven77", "seven77"]).unwrap_err().contains("at least 8"));
        assert!(asked(&["", ""]).unwrap_err().contains("empty"));
        assert!(asked(&[]).unwrap_err().contains("no terminal"));
    }
}
