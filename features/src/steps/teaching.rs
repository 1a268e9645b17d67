//! What the connector tells an agent about itself, and what must not get into that.

use cucumber::then;
use serde_json::{Value, json};

use crate::failure::{StepResult, check, no};
use crate::profile::TOOL_PREFIX;
use crate::world::{AGENT, World, target_error};

/// The steps of the loop in 4.5, each with words of which any will do.
const LOOP: &[(&str, &[&str])] = &[
    ("wake up on demand", &["inbox_next"]),
    ("read before deciding", &["room_timeline", "room_state"]),
    ("decide whether to speak", &["silen", "dismiss", "nothing to add", "say nothing"]),
    ("announce long work", &["agent_status_set"]),
    ("write against what was seen", &["base_seq", "presented", "snapshot", "head you"]),
    ("handle held drafts", &["held", "draft_commit"]),
    ("close the loop", &["inbox_ack", "mark_read"]),
];

async fn told(w: &mut World, session: &str) -> StepResult<String> {
    let s = w.session(session)?;
    let tools = s.request("tools/list", json!({}), w.run.timeout()).await.map_err(target_error)?;
    let hello = s.initialized.clone().unwrap_or_default();
    Ok(format!("{hello} {tools}"))
}

#[then("instructions and descriptions together speak of every step of the loop")]
async fn teaches(w: &mut World) -> StepResult {
    let tools = w.notes.get("tools").and_then(Value::as_array).cloned().unwrap_or_default();
    let hello = w.session(AGENT)?.initialized.clone().unwrap_or_default();
    let mut text = hello["instructions"].as_str().unwrap_or_default().to_lowercase();
    for tool in &tools {
        text.push_str(&tool["description"].as_str().unwrap_or_default().to_lowercase());
        text.push('\n');
    }
    let missing: Vec<&str> = LOOP
        .iter()
        .filter(|(_, words)| !words.iter().any(|w| text.contains(w)))
        .map(|(step, _)| *step)
        .collect();
    check(
        missing.is_empty(),
        "every step of the loop",
        format!("nothing of: {}", missing.join(", ")),
    )
}

#[then(regex = r#"^neither the catalogue nor the instructions of any session hold "([^"]*)"$"#)]
async fn clean_catalogue(w: &mut World, text: String) -> StepResult {
    let names: Vec<String> = w.sessions.keys().cloned().collect();
    for name in names {
        if told(w, &name).await?.contains(&text) {
            return no("tools and instructions free of room content", format!("{text} in {name}"));
        }
    }
    Ok(())
}

fn breaks_out(c: char) -> bool {
    (c.is_control() && !matches!(c, '\n' | '\t' | '\r'))
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[then("no text item but JSON holds a control or bidirectional character")]
fn plain_texts(w: &mut World) -> StepResult {
    check(!w.history.is_empty(), "results to judge", "none")?;
    for outcome in &w.history {
        for text in outcome.texts() {
            if ap_protocol::json::parse(text.as_bytes()).is_err() && text.chars().any(breaks_out) {
                return no("cleaned text beside the JSON", format!("{text:?}"));
            }
        }
    }
    Ok(())
}

#[then("every tool name is short and plain")]
fn names(w: &mut World) -> StepResult {
    let tools = w.notes.get("tools").and_then(Value::as_array).cloned().unwrap_or_default();
    check(!tools.is_empty(), "tools", "none")?;
    for tool in &tools {
        let name = tool["name"].as_str().unwrap_or_default();
        let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'));
        check(
            plain && name.len() <= 64 && !name.is_empty(),
            format!("a name of letters, digits and _ like {TOOL_PREFIX}room_open"),
            name,
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::breaks_out;

    #[test]
    fn what_breaks_out_is_control_or_bidirectional() {
        assert!("\u{202e}\u{2066}\u{7}\u{1b}\u{9b}".chars().all(breaks_out));
        assert!(!"Zoë said: “ok”\n\t".chars().any(breaks_out));
    }
}
