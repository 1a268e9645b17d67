//! The operator's TOML. Closed like the provisioning document; paths are relative to the file;
//! no secret stands in it, only where secrets are.

use std::path::{Path, PathBuf};

use ap_protocol::{AgentId, SecretKey};
use serde::Deserialize;

use super::{
    ConfigError, HostDoc, HttpDoc, Settings, Tuning, WatchRule, check_watch, http, read, services,
};
use crate::keystore::{FileKeyStore, KeyStore, KeychainStore, PassphraseSource};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OperatorDoc {
    state_dir: PathBuf,
    identity: IdentityDoc,
    #[serde(default)]
    hosts: Vec<HostDoc>,
    #[serde(default)]
    profile_services: Vec<String>,
    #[serde(default)]
    watch: Vec<WatchRule>,
    #[serde(default)]
    http: Option<HttpDoc>,
    #[serde(default)]
    tuning: Tuning,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct IdentityDoc {
    agent_id: AgentId,
    #[serde(default)]
    key_file: Option<PathBuf>,
    #[serde(default)]
    keychain: bool,
    #[serde(default)]
    passphrase_env: Option<String>,
    #[serde(default)]
    passphrase_file: Option<PathBuf>,
}

/// A configuration that was read and is well formed; the key is still locked away.
pub struct Operator {
    base: PathBuf,
    doc: OperatorDoc,
}

impl Operator {
    /// Reads the file.
    ///
    /// # Errors
    /// [`ConfigError`] with the line, for a member that is unknown or of the wrong kind.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = read(path)?;
        let doc: OperatorDoc = toml::from_str(&text)
            .map_err(|e| ConfigError::Document(format!("{}: {e}", path.display())))?;
        let identity = &doc.identity;
        if identity.key_file.is_some() == identity.keychain {
            return Err(ConfigError::Identity(
                "give exactly one of key_file = \"FILE\" and keychain = true".to_owned(),
            ));
        }
        if identity.keychain
            && (identity.passphrase_env.is_some() || identity.passphrase_file.is_some())
        {
            return Err(ConfigError::Identity("a keychain takes no passphrase".to_owned()));
        }
        if identity.passphrase_env.is_some() && identity.passphrase_file.is_some() {
            return Err(ConfigError::Identity(
                "give at most one of passphrase_env and passphrase_file".to_owned(),
            ));
        }
        let base = path.parent().unwrap_or(Path::new("")).to_owned();
        Ok(Operator { base, doc })
    }

    /// Whom the connector acts as.
    pub fn agent_id(&self) -> &AgentId {
        &self.doc.identity.agent_id
    }

    /// Where the state lives.
    pub fn state_dir(&self) -> PathBuf {
        self.base.join(&self.doc.state_dir)
    }

    /// Where the key is. Nobody is asked on a terminal: an MCP client starts us without one.
    pub fn key_store(&self) -> Box<dyn KeyStore> {
        let identity = &self.doc.identity;
        let Some(file) = &identity.key_file else { return Box::new(KeychainStore::system()) };
        let passphrase = match (&identity.passphrase_env, &identity.passphrase_file) {
            (Some(name), _) => PassphraseSource::Env(name.clone()),
            (None, Some(path)) => PassphraseSource::File(self.base.join(path)),
            (None, None) => PassphraseSource::None,
        };
        Box::new(FileKeyStore::new(self.base.join(file), passphrase))
    }

    /// The settings with the key of [`Self::key_store`].
    ///
    /// # Errors
    /// [`ConfigError`] that names the member.
    pub fn settings(self, key: SecretKey) -> Result<Settings, ConfigError> {
        if key.agent_id() != self.doc.identity.agent_id {
            return Err(ConfigError::Identity("the key is not the one of agent_id".to_owned()));
        }
        let state_dir = self.state_dir();
        let Operator { base, doc } = self;
        let (hosts, profile_services) = services(doc.hosts, doc.profile_services)?;
        let http = http(doc.http.map(|h| h.relative_to(&base)))?;
        check_watch(&doc.watch)?;
        let (watch, tuning) = (doc.watch, doc.tuning.checked()?);
        Ok(Settings { state_dir, key, hosts, profile_services, watch, http, tuning })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = include_str!("../../connector.example.toml");

    fn read_text(text: &str) -> Result<(tempfile::TempDir, Operator), String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("connector.toml");
        std::fs::write(&path, text).unwrap();
        Operator::read(&path).map(|o| (dir, o)).map_err(|e| e.to_string())
    }

    fn key() -> SecretKey {
        SecretKey::from_seed(&[1; 32])
    }

    /// The example for the key of the tests.
    fn example() -> String {
        let from = EXAMPLE.find("did:agent:").unwrap();
        let id = &EXAMPLE[from..from + "did:agent:".len() + 43];
        EXAMPLE.replace(id, key().agent_id().as_str())
    }

    /// The example with every member that is commented out switched on.
    fn full_example() -> String {
        example()
            .lines()
            .map(|line| match line.strip_prefix("#: ") {
                Some(member) => member.to_owned(),
                None => line.to_owned(),
            })
            .collect::<Vec<_>>()
            .join("\n")
    }

    #[test]
    fn the_example_is_a_configuration() {
        let (dir, operator) = read_text(&example()).unwrap();
        assert_eq!(operator.state_dir(), dir.path().join("state"));
        let settings = operator.settings(key()).unwrap();
        assert!(!settings.hosts.is_empty());
        assert!(settings.http.is_none());
        assert_eq!(settings.tuning, Tuning::default());
    }

    #[cfg(unix)]
    #[test]
    fn the_example_with_everything_switched_on_too() {
        use std::os::unix::fs::PermissionsExt;
        // The two ways to a key and the two to a passphrase exclude each other.
        let text: String = full_example()
            .lines()
            .filter(|l| !l.starts_with("keychain") && !l.starts_with("passphrase_file"))
            .map(|l| format!("{l}\n"))
            .collect();
        let (dir, operator) = read_text(&text).unwrap();
        let token = dir.path().join("http-token");
        std::fs::write(&token, "0123456789abcdef0123456789abcdef\n").unwrap();
        std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o600)).unwrap();
        let settings = operator.settings(key()).unwrap();
        let http = settings.http.unwrap();
        assert_eq!(http.url_file, Some(dir.path().join("http-url")));
        assert!(!settings.watch.is_empty() && !settings.profile_services.is_empty());
        // What the example shows as defaults are the defaults.
        assert_eq!(settings.tuning, Tuning::default());
    }

    #[cfg(unix)]
    #[test]
    fn a_token_file_must_be_private() {
        use std::os::unix::fs::PermissionsExt;
        let text = format!(
            "{}\n[http]\nlisten = \"127.0.0.1:0\"\ntoken_file = \"t\"\n",
            example().split("[[watch]]").next().unwrap()
        );
        let (dir, operator) = read_text(&text).unwrap();
        let token = dir.path().join("t");
        std::fs::write(&token, "0123456789abcdef0123456789abcdef\n").unwrap();
        std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o644)).unwrap();
        let e = operator.settings(key()).err().unwrap().to_string();
        assert!(e.contains("chmod 600"), "{e}");
    }

    #[test]
    fn an_unknown_member_is_refused_with_its_line() {
        for (table, member) in [
            ("", "statedir = \"x\"\n"),
            ("[identity]\n", "passphrase = \"secret\"\n"),
            ("[[hosts]]\n", "allowed = true\n"),
            ("[[watch]]\n", "types = \"x\"\n"),
            ("[tuning]\n", "page_limits = 3\n"),
        ] {
            let full = full_example();
            let at = if table.is_empty() { 0 } else { full.find(table).unwrap() + table.len() };
            let text = format!("{}{member}{}", &full[..at], &full[at..]);
            let line = text[..at].lines().count() + 1;
            let e = read_text(&text).err().expect(member);
            assert!(e.contains(&format!("line {line}")), "{member}: {e}");
            assert!(e.contains("unknown field"), "{member}: {e}");
        }
    }

    #[test]
    fn identities_that_leave_a_choice_open_are_refused() {
        let id = key().agent_id();
        for identity in [
            format!("agent_id = \"{id}\""),
            format!("agent_id = \"{id}\"\nkey_file = \"k\"\nkeychain = true"),
            format!("agent_id = \"{id}\"\nkeychain = true\npassphrase_env = \"P\""),
            format!(
                "agent_id = \"{id}\"\nkey_file = \"k\"\npassphrase_env = \"P\"\npassphrase_file = \"p\""
            ),
            "agent_id = \"did:agent:short\"\nkeychain = true".to_owned(),
            "keychain = true".to_owned(),
        ] {
            let text = format!("state_dir = \"s\"\n[identity]\n{identity}\n");
            assert!(read_text(&text).is_err(), "{identity}");
        }
    }

    #[test]
    fn another_key_is_not_used() {
        let (_dir, operator) = read_text(&example()).unwrap();
        let other = SecretKey::from_seed(&[2; 32]);
        assert!(matches!(operator.settings(other), Err(ConfigError::Identity(_))));
    }
}
