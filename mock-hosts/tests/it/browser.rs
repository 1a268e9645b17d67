//! The monitor page in a real, headless Chromium. Skips, and says so, where none is installed.

use std::sync::Arc;

use mock_hosts::grp::{Defect, GrpConfig};
use mock_hosts::{Control, Lab, LabConfig, Peer};
use serde_json::json;

use crate::chromium::{Browser, find};

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
