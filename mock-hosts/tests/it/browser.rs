//! The monitor page in a real, headless Chromium. Skips, and says so, where none is installed.
//!
//! Speaks the DevTools protocol over a pipe: messages are JSON, each ended by a NUL.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mock_hosts::grp::{Defect, GrpConfig};
use mock_hosts::{Control, Lab, LabConfig, Peer};
use serde_json::{Value, json};

fn find() -> Option<String> {
    let named = std::env::var("CHROMIUM").ok();
    let usual = ["chromium", "chromium-browser", "google-chrome", "chrome"].map(str::to_owned);
    named.into_iter().chain(usual).find(|name| {
        Command::new(name)
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|s| s.success())
    })
}

struct Browser {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    next: u64,
    session: Option<String>,
    _profile: tempfile::TempDir,
}

impl Browser {
    fn start(program: &str) -> Self {
        let profile = tempfile::tempdir().unwrap();
        // The browser reads commands on descriptor 3 and writes answers on 4.
        let mut child = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 1>/dev/null 2>/dev/null", program])
            .args(["--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu"])
            .args(["--disable-dev-shm-usage", "--no-first-run", "--no-proxy-server"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let to = child.stdin.take().unwrap();
        let from = BufReader::new(child.stdout.take().unwrap());
        Browser { child, to, from, next: 0, session: None, _profile: profile }
    }

    fn command(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let mut message = json!({ "id": self.next, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.to.write_all(format!("{message}\0").as_bytes()).unwrap();
        self.to.flush().unwrap();
        loop {
            let mut answer = Vec::new();
            self.from.read_until(0, &mut answer).unwrap();
            assert_eq!(answer.pop(), Some(0), "the browser went away");
            let answer: Value = serde_json::from_slice(&answer).unwrap();
            if answer["id"] == self.next {
                assert!(answer.get("error").is_none(), "{method}: {answer}");
                return answer["result"].clone();
            }
        }
    }

    fn open(&mut self, url: &str) {
        let target = self.command("Target.createTarget", json!({ "url": url }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = self.command("Target.attachToTarget", attach)["sessionId"].clone();
        self.session = session.as_str().map(str::to_owned);
    }

    fn evaluate(&mut self, expression: &str) -> Value {
        let params =
            json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let result = self.command("Runtime.evaluate", params);
        assert!(result.get("exceptionDetails").is_none(), "{expression}: {result}");
        result["result"]["value"].clone()
    }

    /// Asks until it is true.
    #[track_caller]
    fn until(&mut self, expression: &str) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while self.evaluate(expression) != true {
            let page = "document.documentElement.outerHTML.slice(0, 2000)";
            assert!(Instant::now() < deadline, "{expression}\n{}", self.evaluate(page));
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_monitor_page_lives() {
    let Some(program) = find() else {
        eprintln!("skipped: no Chromium is installed (set CHROMIUM to name one)");
        return;
    };
    let lab = Arc::new(Lab::start(LabConfig::default()).await.unwrap());
    let host = lab.adp("a").await.unwrap();
    let grp = lab.grp("g", GrpConfig::default()).await.unwrap();
    let control = Control::start(Arc::clone(&lab), "127.0.0.1:0".parse().unwrap()).await.unwrap();
    let ann = Peer::named("ann", lab.clock());
    let hostile = "<img src=x onerror=\"window.owned=1\"><script>window.owned=2</script>";
    let room = ann.create_room(&host, json!({ "topic": hostile })).await.unwrap();
    ann.say(&host, &room, hostile).await.unwrap();

    let mut browser = tokio::task::block_in_place(|| Browser::start(&program));
    let run = |browser: &mut Browser, expression: &str| {
        tokio::task::block_in_place(|| browser.until(expression));
    };
    tokio::task::block_in_place(|| browser.open(&control.monitor_url()));
    run(&mut browser, "document.querySelector('section.host') !== null");
    run(&mut browser, "location.search === ''");
    run(&mut browser, "document.querySelectorAll('td.good').length === 2");
    run(&mut browser, "document.querySelectorAll('img, main script').length === 0");
    run(&mut browser, "document.querySelector('summary').textContent.includes('<img src=x')");
    // It follows what happens without a reload.
    ann.say(&host, &room, "news").await.unwrap();
    run(&mut browser, "document.querySelectorAll('td.good').length === 3");
    // A button switches a fault on, another one off.
    let click = |which: &str| {
        format!(
            "[...document.querySelectorAll('button')].find(b => b.textContent === '{which}').click() ?? true"
        )
    };
    run(&mut browser, &click("liar-head"));
    run(&mut browser, "document.body.textContent.includes('liar_head')");
    assert_eq!(host.faults().len(), 1);
    run(&mut browser, &click("honest again"));
    run(&mut browser, "document.body.textContent.includes('a is honest')");
    assert!(host.faults().is_empty());
    // A seeded defect of a GRP host, by its button; what was unfolded stays unfolded.
    let folded = "document.querySelector('details[data-key=\"g/defects\"]')";
    run(&mut browser, &format!("({folded}.open = true)"));
    run(&mut browser, &click("no-correlation"));
    run(&mut browser, "document.body.textContent.includes('no-correlation off')");
    assert_eq!(grp.defects(), [Defect::NoCorrelation]);
    run(&mut browser, &format!("{folded}.open === true"));
    run(&mut browser, &click("no-correlation off"));
    run(&mut browser, "document.body.textContent.includes('g is honest')");
    assert!(grp.defects().is_empty());
    // A record that no rule allowed is marked.
    let broken = json!({ "hash": "x", "event": { "type": "message.create" }, "signature": "" });
    host.append_unchecked(&room, &broken).unwrap();
    run(&mut browser, "document.querySelectorAll('td.bad').length === 1");
    run(&mut browser, "window.owned === undefined");
}
