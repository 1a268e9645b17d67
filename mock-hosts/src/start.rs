//! The program behind the `mock-hosts` binary: options, start, what it prints, the end.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ap_protocol::{SecretKey, encoding};
use clap::Parser;
use mock_hosts::grp::{GrpConfig, GrpHost};
use mock_hosts::{
    Clock, Control, Host, HostConfig, Lab, LabConfig, LabError, Limits, Peer, Persona, Plan,
};
use serde_json::{Value, json};

const AFTER_HELP: &str = "\
Try it:
  mock-hosts                                   an ADP, an APP and a GRP host, a demo room
  mock-hosts --adp a --adp b                   two ADP hosts, e.g. for the same room id on both
  mock-hosts --persona flaky-stream            streams that break, reads that are reset
  mock-hosts --plan faults.toml                faults of your own
  mock-hosts --data ./hosts --port 8710        rooms that survive a restart, at fixed addresses
  mock-hosts grp --help                        a GRP room host instead

A plan names what happens when, and how often:
  seed = 7
  [[fault]]
  name   = \"the answer to the second message is lost\"
  when   = { route = \"submit\", event_type = \"message.create\", nth = 2 }
  action = { lose_response = {} }

Routes: discovery create submit room events live join_request join_requests
join_request_read public my_rooms statuses status status_put archive archive_jsonl archive_md
pack openapi profile_discovery profile_update profile_batch profile profile_events. At the GRP
host: grp_ and the name of an operation (grp_create_room, grp_join_room, grp_read_room,
grp_choose, …), grp_stream grp_page grp_discovery grp_openapi grp_health grp_mcp grp_mcp_host.
\"when\" takes host method route room agent event_type seq nth skip chance.
Actions: delay hold status error redirect reset stall refuse clock_skew move_head lenient
lose_response cut_after_bytes slice wrong_content_type oversize bom body duplicate_key
max_seen_nonce header set remove bare_lists wrap_lists repeat_cursor answer_other tamper resign
drop_record duplicate reorder rollback fork liar_head cut_after_events framing inject
oversize_event silence replay defect.
delay and hold act on single events of a stream with at = \"event\"; defect = { name = \"…\" } gives
the GRP host a seeded defect (mock-hosts grp --defects lists them).

The control port takes the token printed at the start:
  curl -H \"Authorization: Bearer $TOKEN\" $CONTROL/control/journal
  curl -X PUT -H \"Authorization: Bearer $TOKEN\" -H 'Content-Type: application/toml' \\
       --data-binary @faults.toml $CONTROL/control/plan
Everything under /control: hosts plan faults personas persona defects journal held step clock
state reset move-head accept append-unchecked limits. A page to watch it all is at /monitor.

Exit codes: 0 ended by Ctrl-C, 2 wrong options or plan, 3 could not start.";

/// ADP, APP and GRP hosts that behave by the book, or misbehave on command.
#[derive(Debug, Parser)]
#[command(version, about, after_help = AFTER_HELP)]
pub struct Options {
    /// An ADP host of this label (repeatable; default: one called "a")
    #[arg(long = "adp", value_name = "LABEL")]
    adp: Vec<String>,
    /// An APP host of this label (repeatable; default: one called "p")
    #[arg(long = "app", value_name = "LABEL")]
    app: Vec<String>,
    /// A GRP room host too
    #[arg(long)]
    grp: bool,
    /// Play a persona on every host (repeatable); see --personas
    #[arg(long, value_name = "NAME")]
    persona: Vec<String>,
    /// List the personas and end
    #[arg(long)]
    personas: bool,
    /// A fault plan (TOML) for every host
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
    /// Keep everything in SQLite databases below this directory
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Address to listen on
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    listen: IpAddr,
    /// First port; the APP, ADP and GRP hosts take it and the ones after it, the control port
    /// the last. 0: any
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Do not start the control port
    #[arg(long)]
    no_control: bool,
    /// Decides generated ids and every chance in a plan
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Enforce the recommended quotas and sizes
    #[arg(long)]
    limits: bool,
    /// Send lists as bare arrays
    #[arg(long)]
    bare_lists: bool,
    /// Start with the lab clock standing still at this time (Unix ms)
    #[arg(long, value_name = "MS")]
    frozen_clock: Option<u64>,
    /// Do not create the demo room
    #[arg(long)]
    no_demo: bool,
    /// Write the provisioning document there (mode 0600) instead of printing it; the identity of
    /// one that is there already is kept
    #[arg(long, value_name = "FILE")]
    provision: Option<PathBuf>,
    /// Print one JSON object with every address instead of text
    #[arg(long)]
    json: bool,
}

/// Why the program ends early.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("{0}")]
    Usage(String),
    #[error("{0}")]
    Lab(#[from] mock_hosts::LabError),
    #[error("{0}")]
    Control(#[from] mock_hosts::ControlError),
    #[error("the demo room could not be made: {0}")]
    Demo(#[from] mock_hosts::PeerError),
    #[error("{path}: {error}")]
    File { path: String, error: std::io::Error },
}

impl StartError {
    pub fn exit_code(&self) -> u8 {
        match self {
            StartError::Usage(_) | StartError::Lab(LabError::Label(_) | LabError::BadLabel(_)) => 2,
            _ => 3,
        }
    }
}

fn file(path: &Path) -> impl FnOnce(std::io::Error) -> StartError {
    let path = path.display().to_string();
    move |error| StartError::File { path, error }
}

pub async fn run(options: Options) -> Result<(), StartError> {
    if options.personas {
        for persona in Persona::ALL {
            mock_hosts::say!("{:14} {}", persona.name(), persona.about());
        }
        return Ok(());
    }
    let plan = plan_of(options.plan.as_deref(), options.seed)?;
    let personas = personas_of(&options.persona)?;
    let seed = match kept_identity(options.provision.as_deref())? {
        Some(seed) => seed,
        None => random_seed()?,
    };
    let clock = options.frozen_clock.map_or_else(Clock::default, Clock::frozen_at);
    let lab = Arc::new(Lab::start(LabConfig { clock, seed: options.seed }).await?);
    let mut ports = Ports(options.port);
    let (adp, app) = start_hosts(&lab, &options, &mut ports).await?;
    let grp = if options.grp || (options.adp.is_empty() && options.app.is_empty()) {
        let config = GrpConfig {
            listen: SocketAddr::from((options.listen, ports.next()?)),
            data: options.data.clone(),
            ..GrpConfig::default()
        };
        Some(lab.grp("grp", config).await?)
    } else {
        None
    };
    let control = if options.no_control {
        None
    } else {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, ports.next()?));
        Some(Control::start(Arc::clone(&lab), address).await?)
    };
    let demo = match adp.first() {
        Some(host) if !options.no_demo => Some(demo_room(host).await?),
        _ => None,
    };
    // Faults come last: the demo room itself is made honestly.
    for host in lab.hosts() {
        if options.limits {
            host.set_limits(Limits::recommended());
        }
        if let Some(limits) = personas.iter().find_map(|p| p.limits()) {
            host.set_limits(limits);
        }
        host.plan(with(&plan, &personas, Persona::plan));
    }
    for host in lab.grp_hosts() {
        host.plan(with(&plan, &personas, Persona::grp_plan));
    }
    let provisioning = provisioning(&adp, &app, seed);
    if let Some(path) = &options.provision {
        write_private(path, &format!("{provisioning:#}\n"))?;
    }
    let grp_url = grp.as_ref().map(GrpHost::url);
    announce(&options, &adp, &app, grp_url, control.as_ref(), demo.as_deref(), &provisioning);
    wait_for_end().await;
    drop(control);
    end(lab).await;
    Ok(())
}

/// Stops the hosts, and waits for their connections unless somebody else holds the lab.
pub async fn end(lab: Arc<Lab>) {
    match Arc::try_unwrap(lab) {
        Ok(lab) => lab.stop().await,
        Err(lab) => drop(lab),
    }
}

/// The plan of a file, or an empty one.
pub fn plan_of(path: Option<&Path>, seed: u64) -> Result<Plan, StartError> {
    let Some(path) = path else { return Ok(Plan { seed, faults: Vec::new() }) };
    let usage = |e: &dyn std::fmt::Display| {
        StartError::Usage(format!("{}: {}", path.display(), e.to_string().trim_end()))
    };
    let text = std::fs::read_to_string(path).map_err(|e| usage(&e))?;
    Plan::from_toml(&text).map_err(|e| usage(&e))
}

fn personas_of(names: &[String]) -> Result<Vec<Persona>, StartError> {
    let find = |name: &String| {
        Persona::find(name).ok_or_else(|| {
            StartError::Usage(format!("there is no persona {name:?}; --personas lists them"))
        })
    };
    names.iter().map(find).collect()
}

/// A plan with the faults of personas behind its own.
fn with(plan: &Plan, personas: &[Persona], faults: impl Fn(Persona, u64) -> Plan) -> Plan {
    let mut plan = plan.clone();
    for persona in personas {
        plan.faults.extend(faults(*persona, plan.seed).faults);
    }
    plan
}

/// Ports in a row, or any free ones from 0.
struct Ports(u16);

impl Ports {
    fn next(&mut self) -> Result<u16, StartError> {
        let this = self.0;
        if this != 0 {
            // After the last port there is none: 0 would be a free one.
            self.0 = this.checked_add(1).ok_or_else(|| {
                StartError::Usage("--port is too high for so many hosts".to_owned())
            })?;
        }
        Ok(this)
    }
}

async fn start_hosts(
    lab: &Lab,
    options: &Options,
    ports: &mut Ports,
) -> Result<(Vec<Host>, Vec<Host>), StartError> {
    let default = |list: &[String], label: &str| {
        if options.adp.is_empty() && options.app.is_empty() {
            vec![label.to_owned()]
        } else {
            list.to_vec()
        }
    };
    let (adp, app) = (default(&options.adp, "a"), default(&options.app, "p"));
    let mut next = || ports.next().map(|port| SocketAddr::from((options.listen, port)));
    let base = HostConfig {
        bare_lists: options.bare_lists,
        data: options.data.clone(),
        ..HostConfig::default()
    };
    let mut profiles = Vec::new();
    for label in &app {
        let config =
            HostConfig { discourse: false, profiles: true, listen: next()?, ..base.clone() };
        profiles.push(lab.host(label, config).await?);
    }
    let mut discourse = Vec::new();
    for label in &adp {
        let config = HostConfig {
            listen: next()?,
            profile_service: profiles.first().map(|h| h.url().to_owned()),
            ..base.clone()
        };
        discourse.push(lab.host(label, config).await?);
    }
    Ok((discourse, profiles))
}

/// One public room to look at; a restarted host keeps the one it has.
async fn demo_room(host: &Host) -> Result<String, StartError> {
    if let Some(room) = host.rooms().into_iter().next() {
        return Ok(room);
    }
    let seed = random_seed()?;
    let peer = Peer::new(SecretKey::from_seed(&seed), host.clock());
    let now = host.clock().now_ms();
    let room = peer
        .create_room(
            host,
            json!({
                "topic": "Demo room", "end_time": now + 6 * 86_400_000, "tags": ["demo"],
                "agenda": "Say hello, look around, switch on a fault.",
                "types": [{ "use": "adp:reactions/1.0" }, { "use": "adp:moderation/1.0" }],
            }),
        )
        .await?;
    peer.say(host, &room, "Welcome. This host does what its plan tells it to.").await?;
    Ok(room)
}

fn random_seed() -> Result<[u8; 32], StartError> {
    let mut seed = [0u8; 32];
    getrandom::fill(&mut seed)
        .map_err(|e| StartError::Usage(format!("no randomness from the system: {e}")))?;
    Ok(seed)
}

/// The identity in an earlier provisioning document at this path: a connector's state belongs
/// to it, so a restart keeps it. A file of another kind is not written over.
fn kept_identity(path: Option<&Path>) -> Result<Option<[u8; 32]>, StartError> {
    let Some(path) = path else { return Ok(None) };
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(file(path)(e)),
    };
    let document = ap_protocol::json::parse(&bytes).unwrap_or(Value::Null);
    let seed = document.pointer("/identity/seed").and_then(Value::as_str);
    match seed.and_then(|text| encoding::decode(text).ok()).map(<[u8; 32]>::try_from) {
        Some(Ok(seed)) => Ok(Some(seed)),
        _ => Err(StartError::Usage(format!(
            "{} exists and is no provisioning document: name another file with --provision",
            path.display()
        ))),
    }
}

/// A provisioning document, ready for a connector.
fn provisioning(adp: &[Host], app: &[Host], seed: [u8; 32]) -> Value {
    let key = SecretKey::from_seed(&seed);
    let service = app.first().map(|h| h.url().to_owned());
    let hosts: Vec<Value> = adp
        .iter()
        .map(|h| {
            let mut host = json!({ "host": h.url(), "label": h.label() });
            if let Some(service) = &service {
                host["profile_service"] = json!(service);
            }
            host
        })
        .collect();
    json!({
        "version": 1,
        "state_dir": "connector-state",
        "identity": { "seed": encoding::encode(seed), "agent_id": key.agent_id() },
        "hosts": hosts,
        "profile_services": app.iter().map(Host::url).collect::<Vec<_>>(),
        "watch": [],
        "http": null,
    })
}

fn write_private(path: &Path, text: &str) -> Result<(), StartError> {
    use std::io::Write as _;
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut out = options.open(path).map_err(file(path))?;
    // An older file may be readable by others.
    #[cfg(unix)]
    out.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600)).map_err(file(path))?;
    out.write_all(text.as_bytes()).map_err(file(path))
}

fn announce(
    options: &Options,
    adp: &[Host],
    app: &[Host],
    grp: Option<&str>,
    control: Option<&Control>,
    demo: Option<&str>,
    provisioning: &Value,
) {
    let named = |hosts: &[Host]| -> Vec<Value> {
        hosts.iter().map(|h| json!({ "label": h.label(), "url": h.url() })).collect()
    };
    // An MCP client starts the connector wherever it likes.
    let file = options.provision.clone().unwrap_or_else(|| PathBuf::from("provision.json"));
    let file = std::path::absolute(&file).unwrap_or(file);
    let client = json!({ "mcpServers": { "agent-protocols": {
        "command": "ap-connector",
        "args": ["serve", "--provision", file.display().to_string()],
    } } });
    if options.json {
        let control = control
            .map(|c| json!({ "url": c.url(), "token": c.token(), "monitor": c.monitor_url() }));
        let all = json!({
            "adp": named(adp), "app": named(app), "grp": grp, "control": control, "demo_room": demo,
            "provisioning": if options.provision.is_none() { provisioning } else { &Value::Null },
            "mcp_client": client,
        });
        mock_hosts::say!("{all}");
        return;
    }
    for host in adp {
        mock_hosts::say!("ADP host {:8} {}", host.label(), host.url());
    }
    for host in app {
        mock_hosts::say!("APP host {:8} {}", host.label(), host.url());
    }
    if let Some(url) = grp {
        mock_hosts::say!("GRP host          {url}");
    }
    if let (Some(room), Some(host)) = (demo, adp.first()) {
        mock_hosts::say!("demo room         {}/v1/rooms/{room}", host.url());
    }
    if let Some(control) = control {
        announce_control(control);
    }
    if options.provision.is_some() {
        mock_hosts::say!("\nProvisioning document written to {}.", file.display());
    } else {
        mock_hosts::say!(
            "\nProvisioning document (a fresh identity; keep it private), save as {}:",
            file.display()
        );
        mock_hosts::say!("{provisioning:#}");
    }
    mock_hosts::say!("\nMCP client configuration:\n{client:#}\n\nCtrl-C ends it.");
}

/// Where the control port is.
pub fn announce_control(control: &Control) {
    mock_hosts::say!("control port      {}", control.url());
    mock_hosts::say!("control token     {}", control.token());
    mock_hosts::say!("monitor page      {}", control.monitor_url());
}

/// Ctrl-C or a polite kill.
pub async fn wait_for_end() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut term) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = term.recv() => {}
            }
            return;
        }
    }
    let _ = tokio::signal::ctrl_c().await;
}
