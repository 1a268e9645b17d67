//! The features for ADP hosts can fail: every scenario is caught out by at least one host that
//! breaks one thing, every such host by at least one scenario, and an honest one by none.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use conformance::host::{HostRun, all_steps, load, run_case};
use conformance::verdict::Status;
use futures::StreamExt as _;
use mock_hosts::{Action, End, Fault, HostConfig, Lab, LabConfig, Plan, Route, When};
use serde_json::json;

/// A host with one fault, by name.
fn saboteurs() -> Vec<(&'static str, Vec<Fault>)> {
    let status =
        |code, body: &str| Action::Status { code, body: Some(body.to_owned()), retry_after: None };
    let gets = |action: Action| Fault {
        when: When { method: Some("GET".to_owned()), ..When::default() },
        ..Fault::new(action)
    };
    vec![
        ("accepts every event", vec![Fault::new(Action::Lenient {}).on(Route::Submit)]),
        ("creates every room", vec![Fault::new(status(200, "{\"id\":\"x\"}")).on(Route::Create)]),
        ("answers yes to every read", vec![gets(status(200, "{\"result\":[]}"))]),
        (
            "changes a date in its history",
            vec![
                Fault::new(Action::Tamper {
                    field: "/received_at".into(),
                    value: None,
                    relink: false,
                })
                .on(Route::Events),
            ],
        ),
        (
            "changes a date in its archive",
            vec![
                Fault::new(Action::Tamper {
                    field: "/received_at".into(),
                    value: None,
                    relink: false,
                })
                .on(Route::Archive),
            ],
        ),
        (
            "claims a head that is not there",
            vec![Fault::new(Action::LiarHead { ahead: 1 }).on(Route::Room)],
        ),
        ("swallows live events", vec![Fault::new(Action::DropRecord {}).on(Route::Live)]),
        (
            "keeps streams up for ever",
            vec![Fault::new(Action::CutAfterEvents { events: 0, end: End::Stall }).on(Route::Live)],
        ),
        (
            "tells no nonce",
            vec![Fault::new(Action::MaxSeenNonce { to: "none".into() }).on(Route::Submit)],
        ),
        (
            "hides where the head is",
            vec![
                Fault::new(Action::Set { pointer: "/error/data".into(), value: json!({}) })
                    .on(Route::Submit),
            ],
        ),
        (
            "answers with another record",
            vec![Fault::new(Action::AnswerOther { seq: Some(1) }).on(Route::Submit)],
        ),
        (
            "has a clock ten minutes ahead",
            vec![Fault::new(Action::ClockSkew { ms: 600_000 }).on(Route::Submit)],
        ),
        ("repeats a record", vec![Fault::new(Action::Duplicate {}).at_seq(3).on(Route::Events)]),
    ]
}

/// Ids of the scenarios that do not pass against this host.
async fn failing(faults: Vec<Fault>) -> BTreeSet<String> {
    let lab = Lab::start(LabConfig::default()).await.expect("a lab");
    let host = lab.host("judged", HostConfig::default()).await.expect("a host");
    host.plan(Plan { seed: 1, faults });
    let run = Arc::new(HostRun { url: Some(host.url().to_owned()), seed: 7 });
    let (cases, steps) = (load().expect("the embedded features"), all_steps());
    futures::stream::iter(&cases)
        .map(|case| run_case(&run, &steps, case, 1))
        .buffer_unordered(24)
        .filter_map(|report| async move {
            assert_ne!(report.status, Status::Defect, "{}: {:?}", report.id, report.failure);
            (report.status != Status::Passed).then_some(report.id)
        })
        .collect()
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_scenario_for_hosts_is_caught_out_and_every_saboteur_caught() {
    let _quiet = conformance::run::quiet_panics();
    let honest = failing(Vec::new()).await;
    assert!(honest.is_empty(), "an honest host is accused by {honest:?}");
    let matrix: BTreeMap<&str, BTreeSet<String>> = futures::stream::iter(saboteurs())
        .map(|(name, faults)| async move { (name, failing(faults).await) })
        .buffer_unordered(4)
        .collect()
        .await;
    for (name, caught) in &matrix {
        println!("{name}: caught by {} scenarios", caught.len());
        assert!(!caught.is_empty(), "no scenario notices a host that {name}");
    }
    let caught: BTreeSet<&String> = matrix.values().flatten().collect();
    let cases = load().expect("the embedded features");
    let idle: Vec<&String> =
        cases.iter().map(|c| &c.id).filter(|id| !caught.contains(id)).collect();
    assert!(idle.is_empty(), "no saboteur makes these fail: {idle:#?}");
}
