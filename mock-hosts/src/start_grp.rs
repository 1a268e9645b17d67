//! `mock-hosts grp`: a GRP room host on a port of its own.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use clap::Parser;
use mock_hosts::grp::{Defect, GrpConfig};
use mock_hosts::{Control, Lab, LabConfig};

use crate::start::{self, StartError};

const AFTER_HELP: &str = "\
Try it:
  mock-hosts grp                                a room host on a free port
  mock-hosts grp --listen 127.0.0.1:4780 --data ./rooms
  mock-hosts grp --defect no-wait-clamp         broken on purpose; --defects lists them
  mock-hosts grp --plan faults.toml             faults on its routes (mock-hosts --help)

  curl -s -X POST $URL/api/rooms -H 'content-type: application/json' \\
       -d '{\"question\": \"Tea or coffee?\", \"options\": [\"tea\", \"coffee\"]}'

The page of a room is at $URL/r/<slug>, the description at $URL/api/openapi.json, MCP at
$URL/mcp (participants) and $URL/mcp/host.";

/// A GRP 0.1 room host over REST and MCP.
#[derive(Debug, Parser)]
#[command(name = "mock-hosts grp", version, about, after_help = AFTER_HELP)]
pub struct Options {
    /// Address to listen on; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Keep rooms and idempotency keys in a SQLite file in this folder
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Origin that others reach this host at
    #[arg(long, value_name = "URL", default_value = "", hide_default_value = true)]
    public_url: String,
    /// Believe mandates of this issuer (https URL, repeatable)
    #[arg(long = "trust-issuer", value_name = "URL")]
    trusted_issuers: Vec<String>,
    /// Believe no did:key mandates: those are for tests, anybody can make one
    #[arg(long)]
    no_did_key: bool,
    /// Let webhooks and issuers be on private addresses and plain http
    #[arg(long)]
    allow_private_targets: bool,
    /// Longest long-poll (s), at most 50
    #[arg(long, default_value_t = 50.0)]
    max_wait: f64,
    /// Another host name the MCP endpoints answer to (repeatable)
    #[arg(long = "mcp-host", value_name = "NAME")]
    mcp_hosts: Vec<String>,
    /// A fault plan (TOML)
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
    /// Do not start the control port
    #[arg(long)]
    no_control: bool,
    /// Switch a seeded defect on (repeatable)
    #[arg(long = "defect", value_name = "NAME", value_parser = defect)]
    defects: Vec<Defect>,
    /// List the seeded defects and end
    #[arg(long = "defects")]
    list_defects: bool,
}

fn defect(name: &str) -> Result<Defect, String> {
    Defect::from_name(name).ok_or_else(|| "no such defect; --defects lists them".to_owned())
}

/// Runs until Ctrl-C.
pub async fn run(options: Options) -> Result<(), StartError> {
    if options.list_defects {
        for defect in Defect::ALL {
            mock_hosts::say!("{:28} {}", defect.name(), defect.about());
        }
        return Ok(());
    }
    let plan = start::plan_of(options.plan.as_deref(), 0)?;
    let lab = Arc::new(Lab::start(LabConfig::default()).await?);
    let config = GrpConfig {
        listen: options.listen,
        public_url: options.public_url,
        data: options.data,
        max_wait_s: options.max_wait,
        allow_did_key: !options.no_did_key,
        trusted_issuers: options.trusted_issuers,
        allow_private_targets: options.allow_private_targets,
        mcp_hosts: options.mcp_hosts,
        defects: options.defects,
        ..GrpConfig::default()
    };
    let host = lab.grp("grp", config).await?;
    host.plan(plan);
    let control = match options.no_control {
        true => None,
        false => Some(Control::start(Arc::clone(&lab), (Ipv4Addr::LOCALHOST, 0).into()).await?),
    };
    mock_hosts::say!("GRP host          {}", host.url());
    mock_hosts::say!("MCP               {url}/mcp and {url}/mcp/host", url = host.url());
    if let Some(control) = &control {
        start::announce_control(control);
    }
    mock_hosts::say!("\nCtrl-C ends it.");
    start::wait_for_end().await;
    drop((host, control));
    start::end(lab).await;
    Ok(())
}
