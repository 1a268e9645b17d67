//! Judging the shareable page, as a browser would read it.

use cucumber::then;
use reqwest::Method;
use serde_json::json;

use crate::failure::{StepResult, check, no};
use crate::wire::brief;
use crate::world::World;

#[then(regex = r#"^the page of "([^"]*)" embeds its state as JSON$"#)]
async fn page_embeds(w: &mut World, room: String) -> StepResult {
    let client = w.grp_client().await?;
    let at = w.grp_room(&room)?.clone();
    let page =
        client.send(client.request(Method::GET, &format!("/r/{}", at.slug)), "GET page").await?;
    w.answered = true;
    let embedded = embedded_state(&page.text)?;
    let state = ap_protocol::json::parse(embedded.as_bytes());
    let Ok(state) = state else {
        return no(
            "a grp+json script that holds strict JSON",
            crate::wire::brief(&json!(embedded)),
        );
    };
    check(state["slug"] == at.slug.as_str(), "the state of this room", brief(&state))?;
    let mut last = page;
    last.body = state;
    w.grp.last = Some(last);
    Ok(())
}

fn embedded_state(page: &str) -> StepResult<String> {
    let lower = page.to_ascii_lowercase();
    let begin = lower.match_indices("<script").map(|(i, _)| i).find(|i| {
        lower[*i..].split('>').next().is_some_and(|t| t.contains("application/grp+json"))
    });
    let Some(begin) = begin else {
        return no(
            "a script of type application/grp+json",
            page.chars().take(200).collect::<String>(),
        );
    };
    let Some(from) = page[begin..].find('>').map(|i| begin + i + 1) else {
        return no("a script tag that ends", "it does not");
    };
    // As a browser reads it: the element ends at the first end tag, whatever it stands in.
    let Some(end) = lower[from..].find("</script").map(|i| from + i) else {
        return no("a script element that ends", "it does not");
    };
    Ok(page[from..end].to_owned())
}

#[then("the page has nothing to submit with")]
async fn page_inert(w: &mut World) -> StepResult {
    let lower = w.grp_last()?.text.to_ascii_lowercase();
    for tag in ["<form", "<input", "<textarea", "<select", "<button", "formaction"] {
        if lower.contains(tag) {
            return no("a page without form controls", format!("it has {tag}"));
        }
    }
    Ok(())
}

#[then(regex = r#"^the visible page shows "([^"]*)"$"#)]
async fn page_shows(w: &mut World, text: String) -> StepResult {
    let page = &w.grp_last()?.text;
    let body = page.split("<body").nth(1).unwrap_or_default();
    check(body.contains(&text), format!("the visible text {text:?}"), brief(&json!(body)))
}
