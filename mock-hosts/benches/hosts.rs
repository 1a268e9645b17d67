//! How fast an honest host is: accepted signed writes per second into one room, and one record
//! to a thousand live streams, next to the raw verify rate, which bounds the first.
//!
//! `cargo bench --workspace --bench hosts`. The clients run in the same process and share the
//! cores, so these are lower bounds.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ap_protocol::{Tip, VerifiedEnvelope};
use criterion::{BenchmarkId, Criterion, Throughput};
use mock_hosts::{Clock, Host, HostConfig, Lab, LabConfig, Peer};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;

/// Writes in one measured batch.
const WRITES: usize = 2000;
/// Connections that write at the same time.
const WRITERS: usize = 16;
/// Live streams in the fan-out.
const STREAMS: usize = 1000;

fn address(host: &Host) -> String {
    host.url().trim_start_matches("http://").to_owned()
}

/// Signals of one writer for one room, all anchored to the creation record, signed beforehand.
fn prepared(peer: &Peer, room: &str, anchor: &Tip, count: usize) -> Vec<Value> {
    let payload = json!({ "event_id": anchor.hash, "reaction": "heart" });
    (0..count)
        .map(|_| {
            peer.sign(Some(room), Some(anchor), "reaction.create", payload.clone(), &[])
                .expect("a well-formed event")
        })
        .collect()
}

/// A room, and for each writer its key and an open connection.
struct Floor {
    _lab: Lab,
    host: Host,
    room: String,
    anchor: Tip,
    writers: Vec<Peer>,
}

impl Floor {
    async fn new(config: HostConfig) -> Self {
        let lab = Lab::start(LabConfig::default()).await.expect("a free port");
        let host = lab.host("bench", config).await.expect("a free port");
        let owner = Peer::named("owner", lab.clock());
        let types = json!({ "types": [{ "use": "adp:reactions/1.0" }] });
        let room = owner.create_room(&host, types).await.expect("a room");
        let mut writers = Vec::new();
        for n in 0..WRITERS {
            let peer = Peer::named(&format!("writer {n}"), lab.clock());
            peer.join(&host, &room, "speaker").await.expect("public");
            writers.push(peer);
        }
        let anchor = Tip {
            seq: 1,
            hash: host.records(&room)[0]["hash"]
                .as_str()
                .and_then(|h| ap_protocol::Hash::parse(h).ok())
                .expect("a record hash"),
        };
        Floor { _lab: lab, host, room, anchor, writers }
    }

    /// Requests, ready to be sent, one list a writer.
    fn requests(&self) -> Vec<Vec<Vec<u8>>> {
        let path = format!("/v1/rooms/{}", self.room);
        self.writers
            .iter()
            .map(|w| {
                prepared(w, &self.room, &self.anchor, WRITES / WRITERS)
                    .iter()
                    .map(|envelope| {
                        let body = envelope.to_string();
                        format!(
                            "POST {path} HTTP/1.1\r\nHost: {}\r\nContent-Length: {}\r\n\r\n{body}",
                            address(&self.host),
                            body.len()
                        )
                        .into_bytes()
                    })
                    .collect()
            })
            .collect()
    }

    /// Sends them all; every one must be accepted. Returns how long that took.
    async fn write(&self, requests: Vec<Vec<Vec<u8>>>) -> Duration {
        let mut lines = Vec::new();
        for list in requests {
            let socket = TcpStream::connect(address(&self.host)).await.expect("the host listens");
            socket.set_nodelay(true).expect("a TCP option");
            lines.push((socket, list));
        }
        let started = Instant::now();
        let tasks: Vec<_> = lines
            .into_iter()
            .map(|(mut socket, list)| {
                tokio::spawn(async move {
                    let mut buffer = vec![0u8; 16 * 1024];
                    for request in list {
                        socket.write_all(&request).await.expect("the host reads");
                        let mut have = 0;
                        while !complete(&buffer[..have]) {
                            let n = socket.read(&mut buffer[have..]).await.expect("an answer");
                            assert!(n > 0, "the host closed");
                            have += n;
                        }
                        assert!(buffer.starts_with(b"HTTP/1.1 200"), "not accepted");
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("no panic");
        }
        started.elapsed()
    }
}

/// Whether a whole answer with a content length is there.
fn complete(bytes: &[u8]) -> bool {
    let Some(head) = bytes.windows(4).position(|w| w == b"\r\n\r\n") else { return false };
    let text = String::from_utf8_lossy(&bytes[..head]).to_ascii_lowercase();
    let length = text
        .lines()
        .find_map(|l| l.strip_prefix("content-length: ")?.parse::<usize>().ok())
        .unwrap_or(0);
    bytes.len() >= head + 4 + length
}

fn verify_rate(c: &mut Criterion) {
    let peer = Peer::named("verify", Clock::default());
    let anchor = Tip { seq: 1, hash: ap_protocol::Hash::of(b"anchor") };
    let envelope = prepared(&peer, "room", &anchor, 1).remove(0);
    let text = envelope.to_string();
    let mut group = c.benchmark_group("verify");
    group.throughput(Throughput::Elements(1));
    group.bench_function("parse and verify one envelope", |b| {
        b.iter(|| {
            let value = ap_protocol::json::parse(text.as_bytes()).expect("strict JSON");
            VerifiedEnvelope::verify(&value).expect("signed above")
        });
    });
    group.finish();
}

fn writes(c: &mut Criterion, runtime: &Runtime) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let stored = HostConfig { data: Some(directory.path().to_owned()), ..HostConfig::default() };
    let mut group = c.benchmark_group("accepted writes into one room");
    group.throughput(Throughput::Elements(WRITES as u64)).sample_size(10);
    for (name, config) in [("memory", HostConfig::default()), ("sqlite", stored)] {
        let floor = runtime.block_on(Floor::new(config));
        group.bench_function(BenchmarkId::from_parameter(name), |b| {
            b.iter_custom(|times| {
                let mut total = Duration::ZERO;
                for _ in 0..times {
                    let requests = floor.requests();
                    total += runtime.block_on(floor.write(requests));
                }
                total
            });
        });
    }
    group.finish();
}

fn fan_out(c: &mut Criterion, runtime: &Runtime) {
    let floor = runtime.block_on(Floor::new(HostConfig::default()));
    let seen = Arc::new(AtomicUsize::new(0));
    let arrived = Arc::new(tokio::sync::Notify::new());
    runtime.block_on(async {
        // The resident joins now, so that later one move is one record.
        floor.host.move_head(&floor.room, 1).expect("an active room");
        // One member may listen often: what is measured is delivery, not membership.
        let token = floor.writers[0].token(floor.host.url());
        for n in 0..STREAMS {
            let mut socket = TcpStream::connect(address(&floor.host)).await.expect("it listens");
            let request = format!(
                "GET /v1/rooms/{}/events/live HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\n\r\n",
                floor.room,
                address(&floor.host)
            );
            socket.write_all(request.as_bytes()).await.expect("the host reads");
            let (seen, arrived) = (Arc::clone(&seen), Arc::clone(&arrived));
            tokio::spawn(async move {
                let mut buffer = vec![0u8; 16 * 1024];
                loop {
                    match socket.read(&mut buffer).await {
                        Ok(0) | Err(_) => return,
                        Ok(n) => {
                            let events = count(&buffer[..n]);
                            if events > 0
                                && seen.fetch_add(events, Ordering::AcqRel) + events == STREAMS
                            {
                                arrived.notify_one();
                            }
                        }
                    }
                }
            });
            let there = floor
                .host
                .wait_for_subscribers(&floor.room, n + 1, Duration::from_secs(10))
                .await;
            assert!(there, "stream {n} is up");
        }
    });
    let mut group = c.benchmark_group("one record to live streams");
    group.throughput(Throughput::Elements(STREAMS as u64)).sample_size(20);
    group.bench_function(BenchmarkId::from_parameter(STREAMS), |b| {
        b.iter_custom(|times| {
            let mut total = Duration::ZERO;
            for _ in 0..times {
                seen.store(0, Ordering::Release);
                let started = Instant::now();
                runtime.block_on(async {
                    floor.host.move_head(&floor.room, 1).expect("an active room");
                    arrived.notified().await;
                });
                total += started.elapsed();
            }
            total
        });
    });
    group.finish();
}

/// Room events that begin in these bytes: an event is written in one piece, so its first line
/// is not split.
fn count(bytes: &[u8]) -> usize {
    bytes.windows(17).filter(|w| *w == b"event: room.event").count()
}

fn main() {
    let runtime = Runtime::new().expect("threads");
    let mut criterion = Criterion::default().configure_from_args();
    verify_rate(&mut criterion);
    writes(&mut criterion, &runtime);
    fan_out(&mut criterion, &runtime);
    criterion.final_summary();
}
