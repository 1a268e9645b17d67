//! Why the canonical writer is our own: `cargo bench -p ap-protocol --bench jcs`.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use serde_json::{Value, json};

fn samples() -> Vec<(&'static str, Value)> {
    let event = json!({
        "protocol": "agent-discourse/1.0", "type": "message.create",
        "actor": "did:agent:6kpsY-KcUgq-9VB7Ey7F-ZVHdq6-vnuSQh7qaRRG0iw",
        "created_at": 1_779_753_600_000u64, "nonce": 7, "room_id": "d8ftedhpqhsusbg001tg",
        "base_seq": 41, "base_hash": "Y1DaWjltoOj_6g89CUX6Hnv0-Ks-qKL1SsztkJWLygc",
        "payload": { "content_type": "text/plain", "content": "I support this proposal. ".repeat(8) },
    });
    let numbers: Vec<f64> = (1..2000).map(|i| f64::from(i) / 7.0).collect();
    let nested: Vec<Value> = (0..200).map(|_| event.clone()).collect();
    vec![("event", event), ("numbers", json!(numbers)), ("history", json!(nested))]
}

fn bench(c: &mut Criterion) {
    for (name, value) in samples() {
        let mut group = c.benchmark_group(name);
        let size = ap_protocol::jcs::to_vec(&value).len();
        group.throughput(Throughput::Bytes(size as u64));
        group.bench_function("own", |b| b.iter(|| ap_protocol::jcs::to_vec(&value)));
        group.bench_function("serde_jcs", |b| b.iter(|| serde_jcs::to_vec(&value)));
        group.bench_function("serde_json_canonicalizer", |b| {
            b.iter(|| serde_json_canonicalizer::to_vec(&value));
        });
        group.finish();
    }
}

criterion_group!(benches, bench);
criterion_main!(benches);
