//! The long campaigns: `cargo run --release -p ap-connector --example soak -- [KILLS] [WRITES] [SEED]`
//! kills a writing connector 500 times, lets two processes write 200 messages each into one
//! state directory, and puts a backup back. Prints what was seen; exits 1 at the first thing
//! that does not add up.

#[path = "../tests/support/mcp.rs"]
mod mcp;
#[path = "../tests/support/soak.rs"]
mod soak;

use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let mut args = std::env::args_os().peekable();
    let program = args.next();
    if args.peek().is_some_and(|a| a == "as-connector") {
        args.next();
        return ap_connector::run_cli(program.into_iter().chain(args));
    }
    let numbers: Vec<u64> = args.filter_map(|a| a.to_str()?.parse().ok()).collect();
    let number = |i: usize, default| numbers.get(i).copied().unwrap_or(default);
    let (kills, writes, seed) = (number(0, 500) as u32, number(1, 200) as u32, number(2, 1));
    let runtime = tokio::runtime::Runtime::new().expect("threads can be started");
    match runtime.block_on(async { tokio::task::block_in_place(|| campaign(kills, writes, seed)) })
    {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("FAILED: {e}");
            ExitCode::FAILURE
        }
    }
}

fn campaign(kills: u32, writes: u32, seed: u64) -> Result<(), String> {
    let me = std::env::current_exe().map_err(|e| e.to_string())?;
    let launch = move |path: &std::path::Path| {
        let mut command = Command::new(&me);
        command.args(["as-connector", "serve", "--provision"]).arg(path);
        command
    };
    let scene = || tokio::runtime::Handle::current().block_on(soak::Scene::new());
    let report = soak::kills(&scene(), &launch, kills, seed, &|n| {
        if n % 50 == 0 {
            eprintln!("{n} kills");
        }
    })?;
    println!("{report:#?}");
    let elapsed = soak::two_processes(&scene(), &launch, writes)?;
    println!("two processes × {writes} writes: {elapsed:.1?}");
    for look_first in [false, true] {
        soak::restored_backup(&scene(), &launch, look_first)?;
    }
    println!("restored backup: no nonce twice");
    Ok(())
}
