//! The target contract: which command is judged, and the provisioning document it gets.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

/// How reports name our own connector.
pub const REFERENCE: &str = "the reference connector";
/// Hidden subcommand under which this binary is the reference connector.
pub const REFERENCE_SUBCOMMAND: &str = "connector";
/// Variable that names the provisioning document, beside the `{config}` placeholder.
pub const CONFIG_VARIABLE: &str = "AP_CONFORMANCE_CONFIG";

/// A target command as given.
#[derive(Debug, Clone)]
pub struct TargetCommand {
    words: Vec<String>,
    reference: bool,
}

/// A command line that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the connector command {0:?} {1}")]
pub struct CommandError(String, &'static str);

impl TargetCommand {
    /// This binary again, as the reference connector.
    ///
    /// # Errors
    /// When the path of the running binary is unknown.
    pub fn reference() -> std::io::Result<Self> {
        let exe = std::env::current_exe()?.to_string_lossy().into_owned();
        let words = [&exe, REFERENCE_SUBCOMMAND, "serve", "--provision", "{config}"];
        Ok(TargetCommand { words: words.map(str::to_owned).to_vec(), reference: true })
    }

    /// A command line with `{config}` in it, split as a shell would without expansions.
    ///
    /// # Errors
    /// [`CommandError`] for an empty command or an open quote.
    pub fn parse(text: &str) -> Result<Self, CommandError> {
        let words = split(text).ok_or(CommandError(text.to_owned(), "has an open quote"))?;
        if words.is_empty() {
            return Err(CommandError(text.to_owned(), "is empty"));
        }
        Ok(TargetCommand { words, reference: false })
    }

    /// Whether it is our own connector.
    pub fn is_reference(&self) -> bool {
        self.reference
    }

    /// The words with the placeholder filled in. What names an existing file by a relative path
    /// is made absolute, as is a relative program path: scenarios run in their own directories.
    pub fn words(&self, config: &Path) -> Vec<String> {
        let config = config.to_string_lossy();
        let word = |(i, word): (usize, &String)| {
            let path = Path::new(word);
            let program = i == 0 && word.contains('/');
            let argument = i > 0 && word.contains(['/', '.']) && path.is_file();
            match std::path::absolute(path) {
                Ok(path) if program || argument => path.to_string_lossy().into_owned(),
                _ => word.replace("{config}", &config),
            }
        };
        self.words.iter().enumerate().map(word).collect()
    }

    /// For reports.
    pub fn display(&self) -> String {
        if self.reference { REFERENCE.to_owned() } else { self.words.join(" ") }
    }
}

fn split(text: &str) -> Option<Vec<String>> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(q), c) if c == q => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => word.get_or_insert_default().push(chars.next()?),
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

/// What a scenario tells its target.
#[derive(Debug, Clone, Default)]
pub struct Provision {
    /// State directory, kept over restarts.
    pub state_dir: PathBuf,
    /// Base64url seed of the identity.
    pub seed: String,
    /// Its Agent ID.
    pub agent_id: String,
    /// Allowed hosts: URL, label, profile service.
    pub hosts: Vec<(String, String, Option<String>)>,
    /// Allowed profile services.
    pub profile_services: Vec<String>,
    /// Watched custom types.
    pub watch: Vec<Value>,
    /// Loopback HTTP settings.
    pub http: Option<Value>,
    /// Times and sizes of the reference connector: for `@reference` scenarios only, no part of
    /// the target contract.
    pub tuning: Option<Value>,
}

impl Provision {
    /// The document of the target contract.
    pub fn document(&self) -> Value {
        let hosts: Vec<Value> = self
            .hosts
            .iter()
            .map(|(url, label, profile)| {
                let mut host = json!({ "host": url, "label": label });
                if let Some(profile) = profile {
                    host["profile_service"] = json!(profile);
                }
                host
            })
            .collect();
        let mut document = json!({
            "version": 1,
            "state_dir": self.state_dir,
            "identity": { "seed": self.seed, "agent_id": self.agent_id },
            "hosts": hosts,
            "profile_services": self.profile_services,
            "watch": self.watch,
            "http": self.http,
        });
        if let Some(tuning) = &self.tuning {
            document["tuning"] = tuning.clone();
        }
        document
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_split_like_a_shell() {
        let words = |t| split(t);
        assert_eq!(words("a b  c"), Some(vec!["a".into(), "b".into(), "c".into()]));
        assert_eq!(
            words("a 'b c' \"d \\\" e\""),
            Some(vec!["a".into(), "b c".into(), "d \" e".into()])
        );
        assert_eq!(words("sh -c ''"), Some(vec!["sh".into(), "-c".into(), String::new()]));
        assert_eq!(words("a 'b"), None);
    }

    #[test]
    fn a_script_is_found_from_the_directory_of_a_scenario() {
        // Unit tests run in the folder of this crate.
        let script = "examples/wrapped-connector.sh";
        let t = TargetCommand::parse(&format!("sh {script} --name no/such/file {{config}}"));
        let words = t.expect("parses").words(Path::new("/c"));
        assert!(Path::new(&words[1]).is_absolute() && words[1].ends_with(script), "{words:?}");
        assert_eq!(words[2..], ["--name", "no/such/file", "/c"]);
    }

    #[test]
    fn the_placeholder_is_filled_anywhere() {
        let t = TargetCommand::parse("my serve --config={config}").expect("parses");
        assert_eq!(t.words(Path::new("/x y")), ["my", "serve", "--config=/x y"]);
    }
}
