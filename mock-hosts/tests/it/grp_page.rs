//! The page of a GRP room in a real, headless Chromium: hostile text stays text, the view
//! follows the room, nothing on it acts, agents can read the state. Skips, and says so, where
//! no browser is installed.

use serde_json::json;

use crate::chromium::{Browser, find};
use crate::grp_support::{Grp, text};

const HOSTILE: &str = "</script><script>document.title='owned';window.owned=1</script>\
                       <img src=x onerror=\"document.title='owned';window.owned=2\">\
                       <!--<script>";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_of_a_room_lives_and_stays_inert() {
    let Some(program) = find() else {
        eprintln!("SKIPPED grp page: no Chromium is installed (set CHROMIUM to name one)");
        return;
    };
    let grp = Grp::start().await;
    let body = json!({
        "question": HOSTILE, "about": HOSTILE, "options": [HOSTILE, "tea"], "display_name": "ann",
        "config": {
            "visibility": "public", "mechanism": "plurality", "early_close": true,
            "settle_window": 0, "creator_votes": false,
        },
    });
    let (status, made) = grp.post("/api/rooms", "", &[], body).await;
    assert_eq!(status, 200, "{made}");
    let (slug, owner) = (text(&made["slug"]), text(&made["creator_token"]));
    let name: String = HOSTILE.chars().take(100).collect();
    let bob = grp.join(&slug, &name).await;
    let discuss = format!("/api/rooms/{slug}/discuss");
    grp.post(&discuss, &bob, &[], json!({ "body": HOSTILE })).await;

    let mut browser = tokio::task::block_in_place(|| Browser::start(&program));
    let run = |browser: &mut Browser, expression: &str| {
        tokio::task::block_in_place(|| browser.until(expression));
    };
    let inert = |browser: &mut Browser| {
        run(browser, "window.owned === undefined && document.title !== 'owned'");
        run(browser, "document.querySelectorAll('img, iframe, object, a[href]').length === 0");
        // The state and the live view; no script of a member.
        run(browser, "document.querySelectorAll('script').length === 2");
        let controls = "form, input, textarea, select, button, [contenteditable], [onclick]";
        run(browser, &format!("document.querySelectorAll('{controls}').length === 0"));
    };
    tokio::task::block_in_place(|| browser.open(&text(&made["url"])));
    run(
        &mut browser,
        "document.readyState === 'complete' && document.querySelector('h1') !== null",
    );
    inert(&mut browser);
    run(&mut browser, "document.querySelector('h1').textContent.includes('<img src=x')");
    run(&mut browser, "document.querySelector('.status').textContent === 'voting'");
    // What an agent reads: strict JSON, the exact text, no credential.
    let state =
        "JSON.parse(document.querySelector('script[type=\"application/grp+json\"]').textContent)";
    run(&mut browser, &format!("{state}.question === {}", json!(HOSTILE)));
    run(&mut browser, &format!("{state}.slug === {}", json!(slug)));
    run(&mut browser, &format!("!document.documentElement.outerHTML.includes({})", json!(owner)));

    // The view follows the room without a reload, and what comes later is text as well.
    tokio::task::block_in_place(|| browser.evaluate("window.mark = 'same document'"));
    grp.post(&discuss, &owner, &[], json!({ "body": "news of the day" })).await;
    run(&mut browser, "document.body.textContent.includes('news of the day')");
    grp.post(&discuss, &owner, &[], json!({ "body": format!("late {HOSTILE}") })).await;
    run(&mut browser, "document.body.textContent.includes('late </script>')");
    let choose = format!("/api/rooms/{slug}/choose");
    let (status, chose) = grp.post(&choose, &bob, &[], json!({ "choice": HOSTILE })).await;
    assert_eq!(status, 200, "{chose}");
    run(&mut browser, "document.querySelector('.status').textContent === 'resolved'");
    run(&mut browser, "document.querySelector('strong').textContent.includes('onerror')");
    inert(&mut browser);
    run(&mut browser, "window.mark === 'same document'");

    // A room for members shows strangers the way in and nothing else.
    let (hidden, _) = grp.room(json!({ "visibility": "private" })).await;
    tokio::task::block_in_place(|| browser.open(&format!("{}/r/{hidden}", grp.host.url())));
    run(
        &mut browser,
        "document.readyState === 'complete' && document.querySelector('h1') !== null",
    );
    run(&mut browser, "!document.documentElement.outerHTML.includes('Tea or coffee')");
    run(&mut browser, &format!("{state}.join_required === true"));
}
