//! Every exit code, from a target that earns it.

use crate::fixture::{Fixture, conformance};

const HOLDS: &str = "    Given the connector runs\n    When the client pings";
const FAILS: &str =
    "    Given the connector runs\n    Then the server answers with protocol version \"x\"";

#[test]
fn zero_when_everything_holds() {
    let f = Fixture::new().scenario("good", "@LC-02 @must", HOLDS);
    f.run(&[]).expect(0).says("1 passed").says("conformant");
}

#[test]
fn one_when_a_must_fails_and_the_report_says_what_was_seen() {
    let f = Fixture::new().scenario("good", "@LC-02 @must", HOLDS).scenario(
        "bad",
        "@LC-02 @must",
        FAILS,
    );
    f.run(&[])
        .expect(1)
        .says("protocolVersion \"x\"")
        .says("\"2025-11-25\"")
        .says("last MCP frames");
}

#[test]
fn should_warns_and_fails_only_when_strict() {
    let f = Fixture::new().scenario("good", "@LC-02 @must", HOLDS).scenario(
        "bad",
        "@LC-02 @should",
        FAILS,
    );
    f.run(&[]).expect(0).says("1 warned");
    f.run(&["--strict"]).expect(1);
}

#[test]
fn a_failed_preparation_blocks_and_accuses_nobody_of_the_rule() {
    let f = Fixture::new().scenario("good", "@LC-02 @must", HOLDS).scenario(
        "unprepared",
        "@LC-96 @must",
        "    Given the connector runs\n    And the agent subscribes to resource \
         \"hosts\"\n    When the client pings",
    );
    let claims = f.write("p.toml", "capabilities = [\"resources\", \"resource-updates\"]\n");
    f.run(&["--profile", &claims])
        .expect(1)
        .says("1 blocked")
        .says("0 failed")
        .says("get through the preparation");
}

#[test]
fn may_only_informs() {
    let f = Fixture::new().scenario("good", "@LC-02 @must", HOLDS).scenario(
        "bad",
        "@LC-02 @may",
        FAILS,
    );
    f.run(&["--strict"]).expect(0).says("1 informed");
}

#[test]
fn two_for_a_wrong_command_line_or_file() {
    let f = Fixture::new().scenario("good", "@LC-02 @must", HOLDS);
    f.run(&["--no-such-flag"]).expect(2);
    f.run(&["--tags", "@a and and"]).expect(2);
    f.run(&["--shard", "3/2"]).expect(2);
    f.run(&["--run", "a{"]).expect(2);
    let unknown = f.write("b.toml", "[[expected-failure]]\ncheck = \"no/such\"\nreason = \"r\"\n");
    f.run(&["--baseline", &unknown]).expect(2).says("names no case");
    let profile = f.write("p.toml", "capabilities = [\"telepathy\"]\n");
    f.run(&["--profile", &profile]).expect(2).says("telepathy");
}

#[test]
fn three_when_nothing_matches() {
    let f = Fixture::new().scenario("good", "@LC-02 @must", HOLDS);
    f.run(&["--run", "no/such/*"]).expect(3).says("no scenario matches");
    f.run(&["--tags", "@nothing"]).expect(3);
    f.run(&["--min", "2"]).expect(3);
}

#[test]
fn three_when_the_target_never_answers() {
    let f = Fixture::new().scenario("good", "@LC-02 @must", HOLDS);
    for target in ["false", "no-such-program-anywhere", "sh -c 'echo hello; exit 0'"] {
        f.run_against(target, &[]).expect(3).says("does not answer");
    }
    f.run_against("sh -c 'cat > /dev/null'", &["--timeout", "300"]).expect(3);
}

#[test]
fn three_when_nothing_is_claimed() {
    let f = Fixture::new().scenario("other", "@LC-02 @must @needs:http", HOLDS);
    f.run(&[]).expect(3).says("1 not claimed");
}

#[test]
fn four_for_a_stale_baseline_and_zero_for_a_live_one() {
    let f = Fixture::new().scenario("good", "@LC-02 @must", HOLDS).scenario(
        "bad",
        "@LC-02 @must",
        FAILS,
    );
    let live = f.write("l.toml", "[[expected-failure]]\ncheck = \"bad/*\"\nreason = \"known\"\n");
    f.run(&["--baseline", &live]).expect(0).says("1 in the baseline");
    let stale = f.write(
        "s.toml",
        "[[expected-failure]]\ncheck = \"bad/*\"\nreason = \"known\"\n\
         [[expected-failure]]\ncheck = \"good/*\"\nreason = \"not so\"\n",
    );
    f.run(&["--baseline", &stale]).expect(4).says("good/*");
}

#[test]
fn five_for_defects_of_the_suite() {
    let undefined = Fixture::new().scenario("odd", "@LC-02 @must", "    Given nobody knows this");
    undefined.run(&[]).expect(5).says("nobody knows this").says("not defined");
    let untagged = Fixture::new().scenario("odd", "@LC-02", HOLDS);
    untagged.run(&[]).expect(5).says("exactly one of");
    let broken = Fixture::new().scenario(
        "odd",
        "@LC-02 @must",
        "    Given the connector runs\n    When the agent calls \"room_state\" with\n      \"\"\"\n      \
         { \"room_id\": \"$(room nowhere)\" }\n      \"\"\"",
    );
    broken.run(&[]).expect(5).says("no room is called");
}

#[test]
fn no_empty_implementation_passes() {
    // Answers everything with an empty object, also initialize.
    let f = Fixture::new().scenario("bad", "@LC-02 @must", FAILS);
    let yes = f.write(
        "yes.sh",
        r#"while IFS= read -r l; do
  id=$(printf '%s' "$l" | sed -n 's/.*"id":\([0-9][0-9]*\).*/\1/p')
  [ -n "$id" ] && printf '{"jsonrpc":"2.0","id":%s,"result":{}}\n' "$id"
done"#,
    );
    f.run_against(&format!("sh {yes}"), &[]).expect(1);
}

#[test]
fn reports_are_written_merged_and_replayed() {
    let f =
        Fixture::new().scenario("a", "@LC-02 @must", HOLDS).scenario("b", "@LC-02 @must", FAILS);
    let file = |name: &str| f.path(name).display().to_string();
    let (one, two, all) = (file("1.json"), file("2.json"), file("all.json"));
    f.run(&["--seed", "7", "--shard", "1/2", "--json", &one]).expect(0);
    f.run(&["--seed", "7", "--shard", "2/2", "--json", &two, "--html", &file("h.html")]).expect(1);
    conformance(&["merge", &one, &two, "--json", &all, "--junit", &file("j.xml")])
        .expect(1)
        .says("1 passed, 1 failed");
    conformance(&["merge", &one, &one]).expect(2);
    let html = std::fs::read_to_string(file("h.html")).expect("the html report");
    assert!(html.contains("b/b") && html.contains("LC-02"));
    let report = std::fs::read_to_string(&all).expect("the json report");
    assert!(report.contains("\"seed\": 7"));
    conformance(&["replay", &all, "no/such"]).expect(2);
}

#[test]
fn explain_list_and_ledger() {
    conformance(&["explain", "LC-35"]).expect(0).says("presented head");
    conformance(&["explain", "XX-1"]).expect(2);
    conformance(&["run", "--list", "--run", "lifecycle/*"]).expect(0).says("LC-02");
    conformance(&["ledger"]).expect(0).says("LC-12");
}

/// Hosts are judged in the same way as connectors: baseline, minimum, reports, exit codes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hosts_by_url_take_the_same_options() {
    use mock_hosts::{Action, Fault, Lab, LabConfig, Route};
    let lab = Lab::start(LabConfig::default()).await.expect("a free port");
    let host = lab.adp("foreign").await.expect("a free port");
    let f = Fixture::new();
    let url = host.url().to_owned();
    let run = |args: &[&str]| {
        let all = [&["run", "--adp-host", &url, "--run", "reads/*"], args].concat();
        tokio::task::block_in_place(|| conformance(&all))
    };
    let (json, junit) = (f.path("r.json"), f.path("r.xml"));
    let (json, junit) = (json.display().to_string(), junit.display().to_string());
    // Enough rounds that a step which changes a token by chance alone would be seen.
    let rounds = ["--repeat", "300", "--run", "reads/*changed*", "--quiet"];
    let all = [&["run", "--adp-host", &url], &rounds[..]].concat();
    tokio::task::block_in_place(|| conformance(&all)).expect(0).says("300 passed");
    run(&["--json", &json, "--junit", &junit]).expect(0).says(&url).says("conformant");
    let report = std::fs::read_to_string(&json).expect("a report");
    assert!(report.contains("adp-host") && report.contains(&url));
    assert!(std::fs::read_to_string(&junit).expect("a report").contains("<testsuite"));
    run(&["--min", "1000"]).expect(3);
    let stale = "[[expected-failure]]\ncheck = \"reads/*\"\nreason = \"known\"\n";
    let stale = f.write("b.toml", stale);
    run(&["--baseline", &stale]).expect(4);
    let unknown = "[[expected-failure]]\ncheck = \"LC-35\"\nreason = \"not a host's\"\n";
    let unknown = f.write("u.toml", unknown);
    run(&["--baseline", &unknown]).expect(2).says("names no case");
    // A host that gives no archive: known, or not.
    host.add_fault(
        Fault::new(Action::Status { code: 500, body: None, retry_after: None }).on(Route::Archive),
    );
    run(&[]).expect(1).says(&format!("conformance run --adp-host '{url}' --run"));
    let known = "[[expected-failure]]\ncheck = \"*archive*\"\nreason = \"not built yet\"\n";
    let known = f.write("k.toml", known);
    run(&["--baseline", &known]).expect(0).says("not built yet");
    // A scenario of a report runs again against the same host.
    run(&["--json", &json]).expect(1);
    let report: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&json).expect("a report")).expect("JSON");
    let failed =
        report["cases"].as_array().expect("cases").iter().find(|c| c["status"] == "failed");
    let id = failed.and_then(|c| c["id"].as_str()).expect("a failed case");
    let again = tokio::task::block_in_place(|| conformance(&["replay", &json, id]));
    again.expect(1).says(&url);
    host.clear_faults();
    tokio::task::block_in_place(|| conformance(&["replay", &json, id])).expect(0);
    // Nobody there.
    let gone = url.clone();
    drop(host);
    lab.stop().await;
    tokio::task::block_in_place(|| conformance(&["run", "--adp-host", &gone]))
        .expect(3)
        .says("does not answer");
}
