//! A GRP room host on a port of its own, until Ctrl-C.
//!
//!     cargo run --example grp_host -- [PORT] [DATA_DIR]

use mock_hosts::grp::{GrpConfig, GrpHost};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let port = args.next().map_or(Ok(0), |p| p.parse())?;
    let config = GrpConfig {
        listen: ([127, 0, 0, 1], port).into(),
        data: args.next().map(Into::into),
        ..GrpConfig::default()
    };
    let host = GrpHost::start(config).await?;
    println!("{}", host.url());
    tokio::signal::ctrl_c().await?;
    Ok(())
}
