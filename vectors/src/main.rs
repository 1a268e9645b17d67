//! `ap-vectors`: writes the vector files, answers them, or drives another implementation.

use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use ap_vectors::{answer, case, drive, generate};
use clap::{Parser, Subcommand};
use serde_json::{Value, json};

#[derive(Parser)]
#[command(version, about = "Known answers for the Agent Protocols")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Write the generated vector files.
    Generate {
        /// Folder to write to.
        #[arg(long, default_value = "vectors/v1")]
        out: PathBuf,
    },
    /// Answer questions from standard input, one JSON object a line.
    Check,
    /// Feed the vectors to another implementation and judge its answers.
    Drive {
        /// Shell command of the implementation.
        command: String,
        /// Only cases whose id starts with this.
        #[arg(long, default_value = "")]
        prefix: String,
        /// Another code, stage, path or offset on a refusal fails too.
        #[arg(long)]
        details: bool,
        /// Give up when nothing arrives for this long (s).
        #[arg(long, default_value_t = 20)]
        patience: u64,
        /// Print the report as JSON.
        #[arg(long)]
        json: bool,
    },
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Generate { out } => generate(&out),
        Command::Check => check().map(|()| 0),
        Command::Drive { command, prefix, details, patience, json } => {
            drive(&command, &prefix, details, patience, json)
        }
    };
    match outcome {
        Ok(code) => ExitCode::from(code),
        Err(e) => {
            eprintln!("ap-vectors: {e}");
            ExitCode::from(2)
        }
    }
}

fn generate(out: &std::path::Path) -> std::io::Result<u8> {
    std::fs::create_dir_all(out)?;
    let mut count = 0;
    for (name, file) in generate::files() {
        count += file.cases.len();
        std::fs::write(out.join(format!("{name}.json")), generate::to_text(&file))?;
    }
    eprintln!("wrote {count} cases to {}", out.display());
    Ok(0)
}

fn check() -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let question = ap_protocol::json::parse(line.as_bytes()).unwrap_or(Value::Null);
        let id = question.get("id").cloned().unwrap_or(Value::Null);
        let input = question.get("in").and_then(Value::as_object);
        let answer = question
            .get("op")
            .and_then(Value::as_str)
            .zip(input)
            .and_then(|(op, input)| answer::answer(op, input));
        let reply = match answer {
            Some(answer) => json!({ "id": id, "out": answer }),
            None => json!({ "id": id, "unsupported": true }),
        };
        writeln!(out, "{reply}")?;
    }
    Ok(())
}

fn drive(
    command: &str,
    prefix: &str,
    details: bool,
    patience: u64,
    as_json: bool,
) -> std::io::Result<u8> {
    let mut cases = case::bundled();
    cases.retain(|case| case.id.starts_with(prefix));
    let report = drive::run(command, &cases, details, Duration::from_secs(patience))?;
    let mut out = std::io::stdout().lock();
    if as_json {
        writeln!(out, "{:#}", report.to_json())?;
    } else {
        report.write_text(&mut out)?;
    }
    Ok(report.exit_code())
}
