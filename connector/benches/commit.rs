//! What a page of history costs: verification by itself, and verify → replay → commit into a
//! fresh state database. `cargo bench --workspace --bench commit`

use ap_connector::clock::Clock;
use ap_connector::config::Settings;
use ap_connector::core::Core;
use ap_connector::store::RoomRow;
use ap_connector::sync::{Source, check_all};
use ap_protocol::SecretKey;
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use mock_hosts::{Lab, LabConfig, Peer};
use serde_json::{Value, json};

const HOST: &str = "http://127.0.0.1:9";
const RECORDS: usize = 1_000;

/// A room's history as an honest host makes it.
fn history() -> (String, Vec<Value>) {
    let runtime = tokio::runtime::Runtime::new().expect("threads can be started");
    runtime.block_on(async {
        let lab = Lab::start(LabConfig::default()).await.expect("a lab needs nothing");
        let host = lab.adp("a").await.expect("a loopback port is free");
        let creator = Peer::named("creator", lab.clock());
        let room = creator.create_room(&host, json!({})).await.expect("an honest host");
        for n in 1..RECORDS {
            creator.say(&host, &room, &format!("message {n}")).await.expect("an honest host");
        }
        let records = host.records(&room);
        (room, records)
    })
}

fn fresh(room: &str) -> (tempfile::TempDir, std::sync::Arc<Core>, i64) {
    let dir = tempfile::tempdir().expect("a temporary folder can be made");
    let settings = Settings {
        state_dir: dir.path().join("state"),
        key: SecretKey::from_seed(&[1; 32]),
        hosts: Vec::new(),
        profile_services: Vec::new(),
        watch: Vec::new(),
        http: None,
        tuning: ap_connector::config::Tuning::default(),
    };
    let core = Core::open(settings, Clock::system()).expect("a fresh folder can be used");
    let row = core.store.write(|tx| RoomRow::ensure(tx, HOST, room)).expect("a row can be made");
    (dir, core, row.id)
}

fn commit(c: &mut Criterion) {
    let (room, records) = history();
    let mut group = c.benchmark_group("page of 1000 records");
    group.throughput(Throughput::Elements(RECORDS as u64)).sample_size(10);
    group.bench_function("verify", |b| {
        b.iter_batched(
            || records.clone(),
            |records| check_all(records, &room),
            BatchSize::LargeInput,
        );
    });
    group.bench_function("verify, replay, commit", |b| {
        b.iter_batched(
            || (fresh(&room), records.clone()),
            |((dir, core, id), records)| {
                let done = core.commit(id, check_all(records, &room), Source::History);
                let done = done.expect("the database takes it");
                assert_eq!(done.applied, RECORDS as u64);
                (dir, core)
            },
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

criterion_group!(benches, commit);
criterion_main!(benches);
