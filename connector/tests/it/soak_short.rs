//! The short form of the soak campaigns.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::soak::{self, Scene};

fn launch(path: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ap-connector"));
    command.args(["serve", "--provision"]).arg(path).stderr(Stdio::null());
    command
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn killed_at_random_points_nothing_is_lost_or_doubled() {
    let scene = Scene::new().await;
    let report =
        tokio::task::block_in_place(|| soak::kills(&scene, &launch, 12, 20_261_130, &|_| {}))
            .unwrap();
    assert!(report.begun >= 12, "{report:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_processes_share_a_state_directory() {
    let scene = Scene::new().await;
    tokio::task::block_in_place(|| soak::two_processes(&scene, &launch, 15)).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_restored_backup_never_reuses_a_nonce() {
    for look_first in [false, true] {
        let scene = Scene::new().await;
        tokio::task::block_in_place(|| soak::restored_backup(&scene, &launch, look_first)).unwrap();
    }
}
