//! What a page of history costs: verification by itself, and verify → replay → commit into a
//! fresh state database; and what opening a room of 20 000 records costs, over HTTP from a host
//! on the same machine. `cargo bench --workspace --bench commit`

use ap_connector::clock::Clock;
use ap_connector::config::{HostEntry, Settings, bare_origin};
use ap_connector::core::Core;
use ap_connector::store::RoomRow;
use ap_connector::sync::{Source, check_all};
use ap_protocol::SecretKey;
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use mock_hosts::{Lab, LabConfig, Peer};
use serde_json::{Value, json};

const HOST: &str = "http://127.0.0.1:9";
const RECORDS: usize = 1_000;
const LONG_ROOM: usize = 20_000;

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
    let (dir, core) = fresh_core(HOST);
    let row = core.store.write(|tx| RoomRow::ensure(tx, HOST, room)).expect("a row can be made");
    (dir, core, row.id)
}

fn fresh_core(host: &str) -> (tempfile::TempDir, std::sync::Arc<Core>) {
    let dir = tempfile::tempdir().expect("a temporary folder can be made");
    let origin = bare_origin(host).expect("a loopback origin");
    let settings = Settings {
        state_dir: dir.path().join("state"),
        key: SecretKey::from_seed(&[1; 32]),
        hosts: vec![HostEntry { origin, label: "a".to_owned(), profile_service: None }],
        profile_services: Vec::new(),
        watch: Vec::new(),
        http: None,
        tuning: ap_connector::config::Tuning::default(),
    };
    let core = Core::open(settings, Clock::system()).expect("a fresh folder can be used");
    (dir, core)
}

fn open(c: &mut Criterion) {
    let runtime = tokio::runtime::Runtime::new().expect("threads can be started");
    let (lab, url, room) = runtime.block_on(async {
        let lab = Lab::start(LabConfig::default()).await.expect("a lab needs nothing");
        let host = lab.adp("a").await.expect("a loopback port is free");
        let ann = Peer::named("ann", lab.clock());
        let room = ann.create_room(&host, json!({})).await.expect("an honest host");
        for n in 1..LONG_ROOM {
            let head = host.state(&room).expect("the room is there").head;
            let payload =
                json!({ "content_type": "text/plain", "content": format!("message {n}") });
            let envelope = ann.sign(Some(&room), Some(&head), "message.create", payload, &[]);
            host.accept(&envelope.expect("a sound event")).expect("an honest host");
        }
        let url = host.url().to_owned();
        (lab, url, room)
    });
    let mut group = c.benchmark_group("room of 20000 records");
    group.throughput(Throughput::Elements(LONG_ROOM as u64)).sample_size(10);
    group.bench_function("open over HTTP", |b| {
        b.iter_batched(
            || fresh_core(&url),
            |(dir, core)| {
                let opened = runtime.block_on(core.open_room(&url, &room, None));
                let seq = opened.expect("an honest host").tip.map(|t| t.seq);
                assert_eq!(seq, Some(LONG_ROOM as u64));
                (dir, core)
            },
            BatchSize::PerIteration,
        );
    });
    group.finish();
    drop(lab);
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

criterion_group!(benches, commit, open);
criterion_main!(benches);
