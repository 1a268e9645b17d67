//! The `ap-connector` binary: everything is in the library.

fn main() -> std::process::ExitCode {
    ap_connector::run_cli(std::env::args_os())
}
