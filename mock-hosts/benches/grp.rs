//! How fast the GRP host is: choices a second in one room, kept and not kept, and a thousand
//! waits woken by one question; beside them what bounds the numbers: bare SQLite commits and
//! HTTP requests that do nothing.
//!
//! `cargo bench --workspace --bench grp`. Clients run in the same process and share the cores,
//! so these are lower bounds.

use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput};
use mock_hosts::grp::core::{Call, Core, Credential, Op};
use mock_hosts::grp::{GrpConfig, GrpHost};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

/// Members of the room that choose in turn.
const MEMBERS: usize = 100;
/// Waits in the fan-out.
const WAITS: usize = 1_000;
/// Fan-outs measured.
const ROUNDS: usize = 20;

fn call(op: Op, slug: &str, token: &str, args: Value) -> Call {
    let Value::Object(args) = args else { unreachable!("arguments are written as objects") };
    Call {
        op,
        slug: (!slug.is_empty()).then(|| slug.to_owned()),
        args,
        credential: Credential {
            token: (!token.is_empty()).then(|| token.to_owned()),
            ..Credential::default()
        },
        idempotency_key: None,
        transport: "rest",
    }
}

fn text(v: &Value) -> String {
    v.as_str().unwrap_or_default().to_owned()
}

/// A room with `members` seats; slug, owner's token, tokens.
async fn room(
    core: &Arc<Core>,
    members: usize,
    early_close: bool,
) -> (String, String, Vec<String>) {
    let config = json!({
        "type": "persistent", "mechanism": "plurality", "early_close": early_close,
        "settle_window": 0, "creator_votes": false, "voting_window": 1_209_600,
    });
    let made = core
        .execute(call(Op::CreateRoom, "", "", json!({ "about": "bench", "config": config })))
        .await
        .expect("a room");
    let slug = text(&made["slug"]);
    let mut tokens = Vec::new();
    for _ in 0..members {
        let seat = core.execute(call(Op::JoinRoom, &slug, "", json!({}))).await.expect("a seat");
        tokens.push(text(&seat["participant_token"]));
    }
    (slug, text(&made["creator_token"]), tokens)
}

async fn ask(core: &Arc<Core>, slug: &str, owner: &str) {
    let args = json!({ "question": "Tea or coffee?", "options": ["tea", "coffee"] });
    core.execute(call(Op::Ask, slug, owner, args)).await.expect("a question");
}

fn choices(c: &mut Criterion, rt: &Runtime) {
    let mut group = c.benchmark_group("grp");
    group.sample_size(10).warm_up_time(Duration::from_secs(1));
    group.measurement_time(Duration::from_secs(4)).throughput(Throughput::Elements(1));
    let folder = tempfile::tempdir().expect("a temporary directory");
    for (name, data) in [("memory", None), ("data", Some(folder.path().to_owned()))] {
        let config = GrpConfig { data, ..GrpConfig::default() };
        let host = rt.block_on(GrpHost::start(config)).expect("a host");
        let core = Arc::clone(host.core());
        let (slug, owner, tokens) = rt.block_on(room(&core, MEMBERS, false));
        rt.block_on(ask(&core, &slug, &owner));
        let mut turn = 0;
        group.bench_function(format!("choice, {name}"), |b| {
            b.iter(|| {
                turn += 1;
                let choice = if turn % 2 == 0 { "tea" } else { "coffee" };
                let args = json!({ "choice": choice });
                let chosen = core.execute(call(Op::Choose, &slug, &tokens[turn % MEMBERS], args));
                rt.block_on(chosen).expect("a choice");
            });
        });
        // The same over HTTP, one connection.
        let http = reqwest::Client::new();
        let url = format!("{}/api/rooms/{slug}/choose", host.url());
        group.bench_function(format!("choice over HTTP, {name}"), |b| {
            b.iter(|| {
                turn += 1;
                let sent = http.post(&url).bearer_auth(&tokens[turn % MEMBERS]);
                let sent = sent.json(&json!({ "choice": "tea" })).send();
                assert!(rt.block_on(sent).expect("an answer").status().is_success());
            });
        });
        if name == "memory" {
            let url = format!("{}/healthz", host.url());
            group.bench_function("limit: HTTP request that does nothing", |b| {
                b.iter(|| {
                    let answer = rt.block_on(http.get(&url).send()).expect("an answer");
                    assert!(answer.status().is_success());
                });
            });
        }
    }
    let db = rusqlite::Connection::open(folder.path().join("bare.sqlite")).expect("a database");
    db.pragma_update(None, "journal_mode", "WAL").expect("WAL");
    db.pragma_update(None, "synchronous", "FULL").expect("FULL");
    db.execute_batch("CREATE TABLE t(k INTEGER PRIMARY KEY, v TEXT)").expect("a table");
    group.bench_function("limit: bare SQLite commit of one row", |b| {
        b.iter(|| db.execute("INSERT INTO t(v) VALUES ('x')", []).expect("a row"));
    });
    group.finish();
}

/// From the call of the question to each wait's answer; the median of the rounds.
fn fan_out(rt: &Runtime, over_http: bool) {
    let host = rt.block_on(GrpHost::start(GrpConfig::default())).expect("a host");
    let core = Arc::clone(host.core());
    let (slug, owner, tokens) = rt.block_on(room(&core, WAITS, true));
    let http = reqwest::Client::new();
    let mut firsts = Vec::new();
    let mut lasts = Vec::new();
    for _ in 0..ROUNDS {
        let (first, last) = rt.block_on(async {
            let mut waits = Vec::new();
            for token in &tokens {
                let (core, slug, token) = (Arc::clone(&core), slug.clone(), token.clone());
                let (http, base) = (http.clone(), host.url().to_owned());
                waits.push(tokio::spawn(async move {
                    let answer: Value = if over_http {
                        let url = format!("{base}/api/rooms/{slug}/next-action?wait=50");
                        let sent = http.get(url).bearer_auth(token).send().await;
                        sent.expect("an answer").json().await.expect("JSON")
                    } else {
                        let wait = call(Op::Wait, &slug, &token, json!({ "wait": 50 }));
                        core.wait(wait).await.expect("an answer")
                    };
                    assert_eq!(answer["status"], "actionable");
                    Instant::now()
                }));
            }
            let cell = core.cell(&slug).expect("the room");
            while cell.changed.receiver_count() < WAITS {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            let began = Instant::now();
            ask(&core, &slug, &owner).await;
            let mut ended = Vec::new();
            for wait in waits {
                ended.push(wait.await.expect("a wait").duration_since(began));
            }
            ended.sort_unstable();
            // Everybody chooses, so that the next round begins with nothing owed.
            for token in &tokens {
                let args = json!({ "choice": "tea" });
                if core.execute(call(Op::Choose, &slug, token, args)).await.is_err() {
                    break;
                }
            }
            (ended[0], ended[WAITS - 1])
        });
        firsts.push(first);
        lasts.push(last);
    }
    firsts.sort_unstable();
    lasts.sort_unstable();
    let how = if over_http { "over HTTP" } else { "in process" };
    mock_hosts::say!(
        "grp/{WAITS} waits woken by one question, {how}: first {:?}, last {:?} (medians of {ROUNDS}, worst last {:?})",
        firsts[ROUNDS / 2],
        lasts[ROUNDS / 2],
        lasts[ROUNDS - 1]
    );
}

fn main() {
    mock_hosts::grp::install_tls();
    let rt = Runtime::new().expect("a runtime");
    let mut c = Criterion::default().configure_from_args();
    choices(&mut c, &rt);
    // A listing or a single-pass test of the harness is no measurement.
    if std::env::args().any(|a| a == "--bench") {
        fan_out(&rt, false);
        fan_out(&rt, true);
    }
    c.final_summary();
}
