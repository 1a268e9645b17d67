//! Judging what a story leaves behind: receipts, audit chain, events, secrets, twins.

use cucumber::then;
use reqwest::Method;
use serde_json::{Value, json};

use super::super::client::Who;
use super::super::{receipts, twin};
use super::{SOON, as_creator, quick, succeeded};
use crate::failure::{StepError, StepResult, check};
use crate::wire::brief;
use crate::world::World;

#[then(regex = r#"^the receipts of "([^"]*)" verify and form one chain of (\d+)$"#)]
async fn receipts_verify(w: &mut World, room: String, n: usize) -> StepResult {
    let reply = as_creator(w, "outcome", &room).await?;
    let client = w.grp_client().await?;
    let all = receipts::verify_outcome(&client, &reply.body).await?;
    check(all.len() == n, format!("{n} receipts"), format!("{}", all.len()))?;
    let payloads: Vec<Value> = all.into_iter().map(|v| v.payload).collect();
    let mut last = reply;
    last.body = json!({ "receipts": payloads });
    w.grp.last = Some(last);
    Ok(())
}

#[then(regex = r#"^no secret of "([^"]*)" is found in anything it shows$"#)]
async fn no_secret(w: &mut World, room: String) -> StepResult {
    let client = w.grp_client().await?;
    let at = w.grp_room(&room)?.clone();
    let who = w.grp_who(&at.creator, &room);
    let mut shown = Vec::new();
    for (op, args) in [
        ("read_room", json!({})),
        ("read_room", json!({ "include": "full" })),
        ("read_room", json!({ "since": 0 })),
        ("outcome", json!({})),
        ("list_events", json!({})),
        ("list_decisions", json!({})),
        ("list_invites", json!({})),
    ] {
        let reply = client.rest(op, &at.slug, &who, &args, None).await?;
        check(!reply.failed, format!("{op} answers"), reply.brief())?;
        shown.push((op, reply.text));
    }
    let page = format!("/r/{}?token={}", at.slug, who.token.clone().unwrap_or_default());
    shown.push(("page", client.send(client.request(Method::GET, &page), "GET page").await?.text));
    let wrong = Who { token: Some("t_wrong-but-secret".to_owned()), mandate: None };
    let error = client.rest("read_room", &at.slug, &wrong, &json!({}), None).await?;
    check(
        !error.text.contains("wrong-but-secret"),
        "an error that does not repeat the credential",
        error.brief(),
    )?;
    for (op, text) in &shown {
        let known = w.grp.tokens.iter().any(|t| text.contains(t.as_str()));
        // Anything of the shape of a token is one too many, whoever it belongs to.
        let shaped = text.match_indices("t_").any(|(i, _)| {
            let tail: String = text[i + 2..]
                .chars()
                .take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
                .collect();
            tail.len() == 43 && !text[..i].ends_with(|c: char| c.is_ascii_alphanumeric())
        });
        check(!known && !shaped, format!("no token in {op}"), "there is one")?;
    }
    if let Some(host) = &w.grp.host {
        let dump = host.dump(&at.slug).unwrap_or_default().to_string();
        let stored = w.grp.tokens.iter().any(|t| dump.contains(t.as_str()));
        check(!stored, "no raw token among the stored rows", "there is one")?;
    }
    Ok(())
}

#[then(regex = r#"^the audit chain of "([^"]*)" holds$"#)]
async fn audit_holds(w: &mut World, room: String) -> StepResult {
    let host = w.grp_lab().await?;
    let slug = w.grp_room(&room)?.slug.clone();
    let log = host.audit(&slug).unwrap_or_default();
    check(!log.is_empty(), "an audit log", "it is empty")?;
    let mut previous: Option<&str> = None;
    for entry in &log {
        check(
            entry.hash == entry.expected_hash(previous),
            "each entry hashes onto the one before",
            format!("entry {}", entry.seq),
        )?;
        previous = Some(&entry.hash);
    }
    Ok(())
}

#[then("the same story leaves the same traces over REST and over MCP")]
async fn twins(w: &mut World) -> StepResult {
    twin::compare(w).await
}

#[then("every mechanism it advertises decides a question")]
async fn mechanisms(w: &mut World) -> StepResult {
    let client = w.grp_client().await?;
    let doc = client
        .send(client.request(Method::GET, "/.well-known/grp.json"), "GET discovery")
        .await?
        .body;
    let advertised: Vec<String> = doc["mechanisms_supported"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|m| m.as_str().map(str::to_owned))
        .collect();
    check(!advertised.is_empty(), "advertised mechanisms", brief(&doc))?;
    for name in advertised {
        let choice = match name.as_str() {
            "approval" => json!(["b"]),
            "ranked_choice" | "ranked_pairwise" => json!(["b", "a"]),
            "score_vote" => json!({ "b": 5 }),
            "quadratic_vote" => json!({ "b": 4 }),
            _ => json!("b"),
        };
        let room = format!("of {name}");
        let body = quick(
            json!({ "question": "Which one?", "options": ["a", "b"] }),
            &json!({ "mechanism": name, "creator_votes": true }),
        );
        w.grp_call("ann", "create_room", &room, body, None).await?;
        succeeded(w)?;
        w.grp_call("ann", "choose", &room, json!({ "choice": choice }), None).await?;
        succeeded(w)?;
        let outcome = as_creator(w, "outcome", &room).await?;
        check(
            outcome.body["resolved_winner"] == "b",
            format!("{name} decides for b"),
            outcome.brief(),
        )?;
        receipts::verify_outcome(&client, &outcome.body).await?;
    }
    Ok(())
}

#[then(
    regex = r"^the event stream of (\w+) in \x22([^\x22]*)\x22 repeats what came after event (\d+)$"
)]
async fn stream_resumes(w: &mut World, who: String, room: String, seq: u64) -> StepResult {
    use futures::StreamExt as _;
    let client = w.grp_client().await?;
    let slug = w.grp_room(&room)?.slug.clone();
    let listed = as_creator(w, "list_events", &room).await?;
    let events = listed.body["events"].as_array().cloned().unwrap_or_default();
    let at = events.iter().position(|e| e["seq"] == seq).unwrap_or(0);
    let after: Vec<Value> = events[at + 1..].to_vec();
    let reader = w.grp_who(&who, &room);
    let answer = client
        .request_as(Method::GET, &format!("/api/rooms/{slug}/events/stream"), &reader, None)
        .header("last-event-id", events[at]["id"].as_str().unwrap_or_default())
        .send()
        .await
        .map_err(|e| StepError::Target(e.without_url().to_string()))?;
    let mut stream = answer.bytes_stream();
    let mut text = String::new();
    let got = |text: &str| -> Vec<Value> {
        text.lines()
            .filter_map(|l| l.strip_prefix("data:"))
            .filter_map(|d| ap_protocol::json::parse(d.trim().as_bytes()).ok())
            .collect()
    };
    let deadline = tokio::time::Instant::now() + SOON;
    while got(&text).len() < after.len() {
        match tokio::time::timeout_at(deadline, stream.next()).await {
            Ok(Some(Ok(bytes))) => text.push_str(&String::from_utf8_lossy(&bytes)),
            _ => break,
        }
    }
    let seen = got(&text);
    w.answered = true;
    check(
        seen == after,
        format!("the {} events after number {seq}", after.len()),
        format!("{} events: {}", seen.len(), brief(&json!(seen))),
    )
}
