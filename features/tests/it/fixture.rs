//! A tiny target in shell, feature files in a temporary directory, and the binary.

use std::path::PathBuf;
use std::process::{Command, Output};

/// Answers initialize, tools/list and ping; everything else is a JSON-RPC error.
const TARGET: &str = r#"
while IFS= read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9][0-9]*\).*/\1/p')
  [ -n "$id" ] || continue
  case "$line" in
    *'"method":"initialize"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"fixture","version":"1"}}}\n' "$id" ;;
    *'"method":"ping"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{}}\n' "$id" ;;
    *'"method":"tools/list"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"tools":[]}}\n' "$id" ;;
    *) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}\n' "$id" ;;
  esac
done
"#;

/// Where one test keeps its files.
pub struct Fixture {
    dir: tempfile::TempDir,
}

/// What the binary said.
pub struct Ran {
    /// Exit code.
    pub code: i32,
    /// stdout and stderr.
    pub text: String,
}

impl Fixture {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        std::fs::write(dir.path().join("target.sh"), TARGET).expect("writes the target");
        std::fs::create_dir(dir.path().join("suite")).expect("makes the suite directory");
        Fixture { dir }
    }

    /// Adds a feature with one scenario of these tags and steps.
    pub fn scenario(self, name: &str, tags: &str, steps: &str) -> Self {
        let text = format!("Feature: {name}\n  {tags}\n  Scenario: {name}\n{steps}\n");
        std::fs::write(self.path(&format!("suite/{name}.feature")), text).expect("writes it");
        self
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) -> String {
        std::fs::write(self.path(name), text).expect("writes it");
        self.path(name).display().to_string()
    }

    /// The command of the tiny target.
    pub fn target(&self) -> String {
        format!("sh {}", self.path("target.sh").display())
    }

    /// `conformance run` on this fixture's features and target, with more arguments.
    pub fn run(&self, args: &[&str]) -> Ran {
        self.run_against(&self.target(), args)
    }

    pub fn run_against(&self, target: &str, args: &[&str]) -> Ran {
        let suite = self.path("suite").display().to_string();
        let mut all = vec!["run", "--connector", target, "--features", &suite];
        all.extend(args);
        conformance(&all)
    }
}

pub fn conformance(args: &[&str]) -> Ran {
    conformance_with(args, &[])
}

pub fn conformance_with(args: &[&str], env: &[(&str, &str)]) -> Ran {
    let Output { status, stdout, stderr } = Command::new(env!("CARGO_BIN_EXE_conformance"))
        .args(args)
        .envs(env.iter().copied())
        .env_remove("GITHUB_STEP_SUMMARY")
        .output()
        .expect("the binary starts");
    let text = format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    Ran { code: status.code().unwrap_or(-1), text }
}

impl Ran {
    pub fn expect(&self, code: i32) -> &Self {
        assert_eq!(self.code, code, "{}", self.text);
        self
    }

    pub fn says(&self, words: &str) -> &Self {
        assert!(self.text.contains(words), "{words:?} is not in:\n{}", self.text);
        self
    }
}
