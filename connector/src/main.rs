//! `ap-connector`: see `ap-connector --help`.

fn main() -> std::process::ExitCode {
    ap_connector::run_cli(std::env::args_os())
}
