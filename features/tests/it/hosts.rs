//! The features for ADP hosts can fail: every scenario is caught out by at least one host that
//! breaks one thing, every such host by at least one scenario, and an honest one by none.

use std::collections::BTreeSet;

use conformance::host::load;
use conformance::host::prove::{BROKEN, Stage};
use conformance::prove::hunt::{Depth, Kind, Suspect, hunt};

use crate::fixture::conformance;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_scenario_for_hosts_is_caught_out_and_every_broken_host_caught() {
    let _quiet = conformance::run::quiet_panics();
    let cases = load().expect("the embedded features");
    let suspects: Vec<Suspect> = BROKEN
        .iter()
        .map(|b| Suspect { name: b.name.into(), what: b.what.into(), cases: cases.clone() })
        .collect();
    let stage = Stage::new(7, &suspects).await.expect("hosts");
    let trial = |who, case| stage.trial(who, case);
    let matrix = hunt(Kind::Host, Depth::Everything, 24, &suspects, trial, |_, _| {}).await;
    assert!(matrix.unsound.is_empty(), "an honest host is accused by {:?}", matrix.unsound);
    assert!(matrix.survivors().is_empty(), "nobody notices {:?}", matrix.survivors());
    let caught: BTreeSet<&str> =
        matrix.rows.iter().flat_map(|r| &r.caught).map(|c| c.scenario.as_str()).collect();
    let idle: Vec<&String> =
        cases.iter().map(|c| &c.id).filter(|id| !caught.contains(id.as_str())).collect();
    assert!(idle.is_empty(), "no broken host makes these fail: {idle:#?}");
}

#[test]
fn broken_hosts_are_a_table_for_people() {
    conformance(&["prove", "--hosts", "--saboteur", "tells-no-nonce"])
        .expect(0)
        .says("caught    tells-no-nonce: answers writes without Max-Seen-Nonce")
        .says("1 broken ADP hosts, 0 survive");
    // Nobody notices a fault where it is not looked for, and that is what the exit says.
    conformance(&["prove", "--hosts", "--saboteur", "tells-no-nonce", "--run", "reads/*"])
        .expect(1)
        .says("survives  tells-no-nonce");
}
