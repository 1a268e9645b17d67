//! The command line: what each command does, and with which code it ends.

use std::collections::BTreeSet;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Parser, Subcommand};
use serde_json::{Value, json};

use crate::baseline::Baseline;
use crate::grp::{self, Target};
use crate::judgement::{self, Judgement, Wanted};
use crate::ledger::Ledger;
use crate::mcp::{PROTOCOL_VERSION, Session};
use crate::profile::{Profile, TOOL_PREFIX};
use crate::prove::kills::Kills;
use crate::prove::{ProveArgs, prove};
use crate::report::{self, Outputs, terminal};
use crate::run::{now_ms, run_cases};
use crate::select::{Selection, Shard};
use crate::suite::{self, Case};
use crate::target::TargetCommand;
use crate::verdict::{Exit, RunReport, TargetReport};
use crate::world::{AGENT, RunContext, World};

const AFTER_HELP: &str = "\
Examples:
  conformance                                        judge the reference connector
  conformance run --connector 'my-connector serve --config {config}'
  conformance run --run 'drafts/*' --run LC-35       some scenarios, by id or requirement
  conformance run --html report.html --junit junit.xml
  conformance run --adp-host https://rooms.example   judge an ADP host
  conformance run --grp-host https://grp.example --baseline known.toml --min 50
  conformance explain LC-35

Exit codes: 0 conformant, 1 not conformant, 2 usage, 3 nothing observed,
4 stale baseline, 5 defect of the suite.";

#[derive(Debug, Parser)]
#[command(name = "conformance", version, about = "Judges Local Agent Protocols MCP connectors", after_help = AFTER_HELP)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the suite (the default command).
    Run(Box<RunArgs>),
    /// Make one report of the JSON reports of several shards.
    Merge(MergeArgs),
    /// Tell what a requirement or a scenario is about.
    Explain {
        /// Requirement id (LC-35) or scenario id.
        id: String,
        /// Feature files to use instead of the built-in ones.
        #[arg(long, value_name = "DIR")]
        features: Option<PathBuf>,
    },
    /// Run one scenario of a report again, with the same seed and target.
    Replay {
        /// JSON report.
        report: PathBuf,
        /// Scenario id.
        case: String,
    },
    /// Let saboteurs loose on the connector, or break a host, and see that the suite notices.
    ///
    /// Each is tried until a scenario catches it, those first that the ledger remembers. Ends
    /// with 1 when one survives.
    Prove(Box<ProveArgs>),
    /// Start the target once and say what works.
    Doctor(TargetArgs),
    /// Feed the known answers to another implementation of the protocols.
    Vectors {
        /// Shell command that reads one question a line and answers each.
        #[arg(long, value_name = "COMMAND")]
        check: String,
        /// Only cases whose id starts with this.
        #[arg(long, default_value = "")]
        prefix: String,
        /// Another code, stage, path or offset on a refusal fails too.
        #[arg(long)]
        details: bool,
        /// Print the report as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print the requirement ledger with its scenarios, or check it.
    Ledger {
        /// Write the ledger with scenario lists as the tags have them.
        #[arg(long, value_name = "FILE")]
        write: Option<PathBuf>,
        /// Print obligations that nothing judges, and MUST scenarios never seen to fail.
        #[arg(long)]
        open: bool,
        /// With --write: a break made by hand, noticed by what failed in --report.
        #[arg(long, value_name = "TEXT", requires = "report")]
        change: Option<String>,
        /// JSON report of the run against the broken connector.
        #[arg(long, value_name = "FILE", requires = "change")]
        report: Option<PathBuf>,
    },
}

#[derive(Debug, Clone, Default, Args)]
pub(crate) struct TargetArgs {
    /// Command of the connector; `{config}` becomes the provisioning document.
    #[arg(long, value_name = "COMMAND")]
    connector: Option<String>,
    /// What the connector claims (TOML).
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    /// Deadline of one answer (ms), over that of the profile.
    #[arg(long, value_name = "MS")]
    timeout: Option<u64>,
}

#[derive(Debug, Clone, Default, Args)]
struct RunArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// Judge an ADP host instead of a connector: the one at this URL, or without a URL the
    /// embedded one.
    #[arg(long, value_name = "URL", num_args = 0..=1, default_missing_value = "embedded",
          conflicts_with_all = ["connector", "profile", "timeout", "features"])]
    adp_host: Option<String>,
    /// Judge a GRP room host instead of a connector: its URL, or `embedded`.
    #[arg(long, value_name = "URL", conflicts_with_all = ["connector", "profile", "adp_host"])]
    grp_host: Option<String>,
    /// Known failures (TOML).
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    /// Only scenarios with this id or requirement (glob, repeatable).
    #[arg(long, value_name = "GLOB")]
    run: Vec<String>,
    /// Never scenarios with this id or requirement (glob, repeatable).
    #[arg(long, value_name = "GLOB")]
    skip: Vec<String>,
    /// Only scenarios whose tags satisfy this, as "@must and not @reference".
    #[arg(long, value_name = "EXPR")]
    tags: Option<String>,
    /// Judge our own connector's choices (@reference) on a foreign target too.
    #[arg(long)]
    reference: bool,
    /// Print what would run.
    #[arg(long)]
    list: bool,
    /// Scenarios at once; twice the cores when absent.
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Seed of names and keys; random when absent.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..1 << 53))]
    seed: Option<u64>,
    /// Run every scenario so many times.
    #[arg(long, value_name = "N", default_value_t = 1)]
    repeat: u32,
    /// Only the k-th of n parts.
    #[arg(long, value_name = "K/N")]
    shard: Option<Shard>,
    /// Fail on SHOULD too.
    #[arg(long)]
    strict: bool,
    /// Fewer passed scenarios than this is no pass.
    #[arg(long, value_name = "N", default_value_t = 1)]
    min: usize,
    /// Feature files to use instead of the built-in ones.
    #[arg(long, value_name = "DIR")]
    features: Option<PathBuf>,
    /// Only failures and the summary.
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    outputs: OutputArgs,
}

#[derive(Debug, Clone, Default, Args)]
struct OutputArgs {
    /// Write JUnit XML.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Write the JSON report.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the HTML report.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

impl OutputArgs {
    fn outputs(self) -> Outputs {
        let github = std::env::var_os("GITHUB_STEP_SUMMARY").map(PathBuf::from);
        Outputs { junit: self.junit, json: self.json, html: self.html, github }
    }
}

#[derive(Debug, Args)]
struct MergeArgs {
    /// JSON reports of the shards.
    #[arg(required = true)]
    reports: Vec<PathBuf>,
    #[command(flatten)]
    outputs: OutputArgs,
}

/// An end before the verdict.
pub(crate) struct Stop(pub Exit, pub String);

pub(crate) fn usage(e: impl std::fmt::Display) -> Stop {
    Stop(Exit::Usage, e.to_string())
}

pub(crate) fn defect(e: impl std::fmt::Display) -> Stop {
    Stop(Exit::Defect, e.to_string())
}

/// Parses the command line and runs it.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(e) => {
            let code = if e.use_stderr() { Exit::Usage.code() } else { 0 };
            let _ = e.print();
            return code.into();
        }
    };
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(e) => {
            eprintln!("cannot start: {e}");
            return Exit::Defect.code().into();
        }
    };
    let command = cli.command.unwrap_or_else(|| {
        Command::Run(Box::new(RunArgs { repeat: 1, min: 1, ..RunArgs::default() }))
    });
    let ended = runtime.block_on(async {
        match command {
            Command::Run(args) => run(*args).await,
            Command::Merge(args) => merge(args),
            Command::Explain { id, features } => explain(&id, features.as_deref()),
            Command::Replay { report, case } => replay(&report, &case).await,
            Command::Prove(args) => prove(*args).await,
            Command::Doctor(args) => doctor(&args).await,
            Command::Vectors { check, prefix, details, json } => {
                vectors(&check, &prefix, details, json)
            }
            Command::Ledger { write, open, change, report } => {
                ledger(write.as_deref(), open, change.as_deref().zip(report.as_deref()))
            }
        }
    });
    // Host tasks of a cancelled scenario may still hold sockets: do not wait for them.
    runtime.shutdown_background();
    match ended {
        Ok(exit) => exit.code().into(),
        Err(Stop(exit, message)) => {
            eprintln!("conformance: {message}");
            exit.code().into()
        }
    }
}

impl TargetArgs {
    pub(crate) fn command(&self) -> Result<TargetCommand, Stop> {
        match &self.connector {
            Some(text) => TargetCommand::parse(text).map_err(usage),
            None => TargetCommand::reference().map_err(defect),
        }
    }

    pub(crate) fn profile(&self, target: &TargetCommand) -> Result<Profile, Stop> {
        let mut profile = match &self.profile {
            Some(path) => Profile::parse(&read(path)?).map_err(usage)?,
            None if target.is_reference() => Profile::reference(),
            None => Profile::advertised(),
        };
        if let Some(ms) = self.timeout {
            profile.timeout_ms = ms;
        }
        Ok(profile)
    }
}

fn read(path: &Path) -> Result<String, Stop> {
    std::fs::read_to_string(path).map_err(|e| usage(format!("{}: {e}", path.display())))
}

/// The features for ADP hosts, against one.
async fn run_host(args: RunArgs, host: &str) -> Result<Exit, Stop> {
    let url = match host {
        "embedded" => None,
        url => {
            // Plain http is for loopback: what is judged signs with throw-away keys, but the
            // rule is the rule.
            ap_protocol::origin::Origin::parse(url)
                .map_err(|e| usage(format!("--adp-host {url}: {e}")))?;
            Some(url.to_owned())
        }
    };
    let suite = crate::host::load().map_err(defect)?;
    let baseline = args.baseline(&suite)?;
    let cases = args.selection(url.is_none())?.apply(suite);
    if args.list {
        return Ok(judgement::list(&cases));
    }
    let seed = args.seed.unwrap_or_else(random_seed);
    let judgement = Judgement::begin(args.wanted(seed, baseline));
    let run = crate::host::HostRun { url, seed };
    crate::host::run(run, &cases, judgement).await.map_err(|(exit, message)| Stop(exit, message))
}

impl RunArgs {
    /// Which cases; our own choices count against our own targets alone, unless asked for.
    fn selection(&self, ours: bool) -> Result<Selection, Stop> {
        let mut selection =
            Selection::new(&self.run, &self.skip, self.tags.as_deref()).map_err(usage)?;
        selection.shard = self.shard;
        selection.reference = ours || self.reference;
        Ok(selection)
    }

    /// The known failures, each of which names something in `suite`.
    fn baseline(&self, suite: &[Case]) -> Result<Baseline, Stop> {
        let baseline = match &self.baseline {
            Some(path) => Baseline::parse(&read(path)?, now_ms()).map_err(usage)?,
            None => Baseline::default(),
        };
        baseline.check_known(suite).map_err(usage)?;
        Ok(baseline)
    }

    fn wanted(self, seed: u64, baseline: Baseline) -> Wanted {
        Wanted {
            seed,
            jobs: self.jobs.unwrap_or_else(default_jobs),
            repeat: self.repeat,
            shard: self.shard.map(|s| format!("{}/{}", s.k, s.n)),
            strict: self.strict,
            min: self.min,
            quiet: self.quiet,
            style: terminal::Style { colour: std::io::stdout().is_terminal() },
            baseline,
            outputs: self.outputs.outputs(),
        }
    }
}

async fn run(args: RunArgs) -> Result<Exit, Stop> {
    if let Some(host) = args.adp_host.clone() {
        return run_host(args, &host).await;
    }
    let suite = suite::load(args.features.as_deref()).map_err(defect)?;
    let target = args.target.command()?;
    let profile = args.target.profile(&target)?;
    let baseline = args.baseline(&suite)?;
    let ours = match args.grp_host.as_deref() {
        Some(host) => host == "embedded",
        None => target.is_reference(),
    };
    let mut cases = args.selection(ours)?.apply(suite);
    // A foreign connector says nothing about GRP hosts, nor a GRP host about connectors.
    cases.retain(|case| match (grp::is_grp(case), &args.grp_host) {
        (true, None) => target.is_reference(),
        (is_grp, host) => is_grp == host.is_some(),
    });
    if args.list {
        return Ok(judgement::list(&cases));
    }
    let undefined = crate::steps::undefined(&crate::steps::all(), &cases);
    if !undefined.is_empty() {
        return Err(defect(format!("steps are missing:\n  {}", undefined.join("\n  "))));
    }
    if cases.is_empty() {
        return Err(Stop(Exit::NothingObserved, "no scenario matches the selection".to_owned()));
    }
    let seed = args.seed.unwrap_or_else(random_seed);
    let grp_target = match args.grp_host.as_deref() {
        None | Some("embedded") => Target::default(),
        Some(url) => Target::Url(url.to_owned()),
    };
    let mut run =
        RunContext { target, profile, seed, saboteur: None, patience: None, grp: grp_target };
    let probe = if cases.iter().all(grp::is_grp) {
        probe_grp(&run.grp).await?
    } else {
        probe(&mut run).await?
    };
    let judged = match (&args.grp_host, &run.grp) {
        (Some(_), Target::Url(url)) => format!("{}{url}", TargetReport::GRP_HOST),
        (Some(_), Target::Embedded(_)) => TargetReport::EMBEDDED_GRP_HOST.to_owned(),
        (None, _) => run.target.display(),
    };
    let run = Arc::new(run);
    let judgement = Judgement::begin(args.wanted(seed, baseline));
    judgement.announce(cases.len(), &judged);
    let (jobs, repeat) = (judgement.wanted.jobs, judgement.wanted.repeat);
    let reports = run_cases(&run, &cases, jobs, repeat, |case| judgement.show(case)).await;
    let target = TargetReport {
        command: judged,
        server_info: probe["serverInfo"].clone(),
        protocol_version: probe["protocolVersion"].clone(),
        profile: run.profile.name.clone(),
        capabilities: run.profile.capabilities(),
    };
    judgement.finish(target, reports).map_err(usage)
}

pub(crate) fn default_jobs() -> usize {
    std::thread::available_parallelism().map_or(2, std::num::NonZero::get) * 2
}

/// Nothing is judged against a GRP host that does not answer.
async fn probe_grp(target: &Target) -> Result<Value, Stop> {
    let Target::Url(url) = target else {
        return Ok(json!({ "serverInfo": { "name": "embedded GRP host" } }));
    };
    let nothing = |e: String| Stop(Exit::NothingObserved, format!("{url} does not answer: {e}"));
    let client = grp::client::Client::new(url, crate::wire::WireLog::default())
        .map_err(|e| defect(format!("{e:?}")))?;
    let request = client.request(reqwest::Method::GET, "/.well-known/grp.json");
    let reply =
        client.send(request, "GET discovery").await.map_err(|e| nothing(format!("{e:?}")))?;
    if reply.failed {
        return Err(nothing(format!("its discovery document is HTTP {}", reply.status)));
    }
    Ok(json!({
        "serverInfo": { "name": reply.body["name"] },
        "protocolVersion": format!("grp {}", reply.body["protocol_version"].as_str().unwrap_or("?")),
    }))
}

fn random_seed() -> u64 {
    // A seed for people to type: short, and within what JSON readers agree on.
    u64::from(rand::random::<u32>())
}

/// Starts the target once: nothing is judged against a target that does not answer.
pub(crate) async fn probe(run: &mut RunContext) -> Result<Value, Stop> {
    let nothing = |what: String| {
        Stop(
            Exit::NothingObserved,
            format!("{} does not answer: {what}\nTry `conformance doctor`.", run.target.display()),
        )
    };
    let shared = Arc::new(RunContext {
        target: run.target.clone(),
        profile: run.profile.clone(),
        seed: run.seed,
        saboteur: None,
        patience: None,
        grp: run.grp.clone(),
    });
    let world = World::begin(shared, "probe", 0).map_err(|e| defect(format!("{e:?}")))?;
    let launch = world.launch(AGENT).map_err(|e| defect(format!("{e:?}")))?;
    let mut session = Session::start(&launch).map_err(|e| nothing(e.to_string()))?;
    let timeout = run.timeout();
    let initialized = match session.initialize(PROTOCOL_VERSION, timeout).await {
        Ok(answer) => answer,
        Err(e) => {
            let tail = session.stderr_tail().join("\n  ");
            session.kill().await;
            return Err(nothing(if tail.is_empty() {
                e.to_string()
            } else {
                format!("{e}\n  {tail}")
            }));
        }
    };
    let mut listed = BTreeSet::new();
    if let Ok(answer) = session.request("tools/list", json!({}), timeout).await {
        for tool in answer["tools"].as_array().into_iter().flatten() {
            if let Some(short) = tool["name"].as_str().and_then(|n| n.strip_prefix(TOOL_PREFIX)) {
                listed.insert(short.to_owned());
            }
        }
    }
    let _ = session.stop(std::time::Duration::from_secs(5)).await;
    run.profile.complete(&initialized, &listed);
    Ok(initialized)
}

fn merge(args: MergeArgs) -> Result<Exit, Stop> {
    let reports: Vec<RunReport> =
        args.reports.iter().map(|p| report::read(p).map_err(usage)).collect::<Result<_, _>>()?;
    let all = report::merge(reports).map_err(usage)?;
    report::write(&all, &args.outputs.outputs()).map_err(usage)?;
    let style = terminal::Style { colour: std::io::stdout().is_terminal() };
    mock_hosts::put!("{}", terminal::summary(&all, style));
    Ok(all.verdict)
}

fn explain(id: &str, features: Option<&Path>) -> Result<Exit, Stop> {
    let ledger = Ledger::embedded().map_err(defect)?;
    let cases = suite::load(features).map_err(defect)?;
    if let Some(r) = ledger.get(id) {
        mock_hosts::say!("{} ({}, section {})\n  {}", r.id, r.level, r.section, r.text);
        if let Some(reason) = &r.excluded {
            mock_hosts::say!("\nexcluded: {reason}");
        }
        for case in cases.iter().filter(|c| c.requirements.iter().any(|x| x == id)) {
            mock_hosts::say!("\n{} [{}]\n  {}", case.id, case.level.as_str(), case.name);
        }
        return Ok(Exit::Conformant);
    }
    let found: Vec<&Case> = cases.iter().filter(|c| c.id == id).collect();
    let Some(case) = found.first() else {
        return Err(usage(format!("{id} is neither a requirement nor a scenario")));
    };
    mock_hosts::say!("{} [{}]\n{}: {}\n", case.id, case.level.as_str(), case.feature, case.name);
    if let Some(d) = &case.description {
        mock_hosts::say!("{}\n", d.trim());
    }
    for step in &case.steps {
        mock_hosts::say!("  {}{}", step.keyword, step.value);
        for line in step.docstring.iter().flat_map(|d| d.lines()) {
            mock_hosts::say!("      {line}");
        }
    }
    for r in case.requirements.iter().filter_map(|id| ledger.get(id)) {
        mock_hosts::say!("\n{} ({}, section {})\n  {}", r.id, r.level, r.section, r.text);
    }
    Ok(Exit::Conformant)
}

async fn replay(path: &Path, id: &str) -> Result<Exit, Stop> {
    let report = report::read(path).map_err(usage)?;
    if !report.cases.iter().any(|c| c.id == id) {
        return Err(usage(format!("{id} is not in {}", path.display())));
    }
    let (mut connector, mut adp_host, mut grp_host) = (None, None, None);
    match report.target.asked() {
        None => {}
        Some(("--adp-host", url)) => adp_host = Some(url),
        Some(("--grp-host", url)) => grp_host = Some(url),
        Some((_, command)) => connector = Some(command),
    }
    run(RunArgs {
        target: TargetArgs { connector, ..TargetArgs::default() },
        adp_host,
        grp_host,
        run: vec![globset::escape(id)],
        seed: Some(report.seed),
        reference: true,
        repeat: 1,
        min: 1,
        ..RunArgs::default()
    })
    .await
}

async fn doctor(args: &TargetArgs) -> Result<Exit, Stop> {
    let target = args.command()?;
    let profile = args.profile(&target)?;
    mock_hosts::say!("command     {}", target.display());
    let mut run = RunContext {
        target,
        profile,
        seed: 1,
        saboteur: None,
        patience: None,
        grp: Target::default(),
    };
    let answer = probe(&mut run).await?;
    mock_hosts::say!(
        "server      {} {}",
        answer["serverInfo"]["name"],
        answer["serverInfo"]["version"]
    );
    mock_hosts::say!("revision    {}", answer["protocolVersion"]);
    mock_hosts::say!("profile     {}", run.profile.name);
    mock_hosts::say!("claims      {}", run.profile.capabilities().join(", "));
    let tools = run.profile.tools();
    mock_hosts::say!("tools       {} of {}", tools.len(), crate::profile::TOOLS.len());
    let missing: Vec<&str> =
        crate::profile::TOOLS.iter().filter(|t| !tools.iter().any(|x| x == *t)).copied().collect();
    if !missing.is_empty() {
        mock_hosts::say!("not offered {}", missing.join(", "));
    }
    Ok(Exit::Conformant)
}

fn vectors(command: &str, prefix: &str, details: bool, as_json: bool) -> Result<Exit, Stop> {
    let mut cases = ap_vectors::case::bundled();
    cases.retain(|case| case.id.starts_with(prefix));
    if cases.is_empty() {
        return Err(Stop(Exit::NothingObserved, format!("no vector id starts with {prefix:?}")));
    }
    let patience = std::time::Duration::from_secs(20);
    let report = ap_vectors::drive::run(command, &cases, details, patience).map_err(usage)?;
    if as_json {
        mock_hosts::say!("{:#}", report.to_json());
    } else {
        report.write_text(&mut std::io::stdout().lock()).map_err(defect)?;
    }
    Ok(match report.exit_code() {
        0 => Exit::Conformant,
        3 => Exit::NothingObserved,
        _ => Exit::NotConformant,
    })
}

fn ledger(write: Option<&Path>, open: bool, broken: Option<(&str, &Path)>) -> Result<Exit, Stop> {
    let mut ledger = Ledger::embedded().map_err(defect)?;
    let cases = suite::load(None).map_err(defect)?;
    if let Some(path) = write {
        // Notes of earlier breaks may be newer in the file than in this binary.
        if let Ok(text) = std::fs::read_to_string(path) {
            ledger = Ledger::parse(&text).map_err(usage)?;
        }
        if let Some((change, report)) = broken {
            let text =
                std::fs::read(report).map_err(|e| usage(format!("{}: {e}", report.display())))?;
            let report: RunReport = serde_json::from_slice(&text).map_err(usage)?;
            let failed = report
                .cases
                .iter()
                .filter(|c| c.status == crate::verdict::Status::Failed)
                .map(|c| c.id.clone())
                .collect();
            ledger.note_break(change, &failed, &cases);
        }
        std::fs::write(path, ledger.synced(&cases))
            .map_err(|e| usage(format!("{}: {e}", path.display())))?;
        return Ok(Exit::Conformant);
    }
    for r in ledger.iter() {
        let judged = cases.iter().filter(|c| c.requirements.contains(&r.id)).count();
        if open && judged > 0 {
            continue;
        }
        let note = match (judged, &r.excluded) {
            (0, Some(reason)) => reason.clone(),
            (n, _) => format!("{n} scenarios"),
        };
        mock_hosts::say!("{:<28} {:<10} {note}", r.id, r.level);
    }
    if open {
        let kills = Kills::embedded().map_err(defect)?;
        for id in kills.never_failed(&ledger, &cases) {
            mock_hosts::say!("never seen to fail: {id}");
        }
    }
    let drift = ledger.drift(&cases);
    for d in &drift {
        eprintln!("drift: {d}");
    }
    Ok(if drift.is_empty() { Exit::Conformant } else { Exit::Defect })
}
