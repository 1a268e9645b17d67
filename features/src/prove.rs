//! Proof that the suite can fail: saboteurs, and who catches them.
//!
//! A saboteur is one small corruption of a correct connector, applied from outside: to the
//! MCP frames on their way, or to the state directory between two starts. It never touches
//! the connector's code. Each must be caught by at least one scenario that holds without it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::mcp::Tap;
use crate::profile::short;

/// One tool call on its way to the target.
pub struct Request<'a> {
    /// Tool without prefix.
    pub tool: &'a str,
    /// Its arguments.
    pub arguments: &'a mut Value,
}

/// One answer on its way back.
pub struct Reply<'a> {
    /// Tool without prefix, or the method for anything that is no tool call.
    pub tool: &'a str,
    /// The documented shape of the result.
    pub body: &'a mut Value,
    /// The whole result.
    pub result: &'a mut Value,
}

/// What a saboteur does.
#[derive(Clone, Copy)]
pub enum Sabotage {
    /// Rewrites calls.
    Calls(fn(&mut Request<'_>)),
    /// Sends some calls twice.
    Doubles(fn(&str) -> bool),
    /// Rewrites results.
    Results(fn(&mut Reply<'_>)),
    /// Empties the state directory before every start but the first.
    ForgetsState,
}

/// A named saboteur.
#[derive(Clone, Copy)]
pub struct Saboteur {
    /// Stable name.
    pub name: &'static str,
    /// What a connector with this defect would do.
    pub what: &'static str,
    /// Globs of the scenarios that should notice.
    pub aims: &'static [&'static str],
    /// The corruption.
    pub sabotage: Sabotage,
}

fn remove(value: &mut Value, name: &str) {
    if let Some(members) = value.as_object_mut() {
        members.remove(name);
    }
}

fn strip(r: &mut Request<'_>, tool: &str, name: &str) {
    if r.tool == tool {
        remove(r.arguments, name);
    }
}

fn each(value: &mut Value, list: &str, change: impl Fn(&mut Value)) {
    if let Some(items) = value.get_mut(list).and_then(Value::as_array_mut) {
        items.iter_mut().for_each(change);
    }
}

fn tools(r: &mut Reply<'_>, change: impl Fn(&mut Value)) {
    if r.tool == "tools/list" {
        each(r.result, "tools", change);
    }
}

/// All saboteurs.
pub const SABOTEURS: &[Saboteur] = &[
    Saboteur {
        name: "forgets-everything",
        what: "keeps nothing over a restart",
        aims: &["restart/*", "drafts/a-draft-survives*"],
        sabotage: Sabotage::ForgetsState,
    },
    Saboteur {
        name: "overwrites",
        what: "sends on the newest head instead of holding the draft",
        aims: &["drafts/*", "base/*"],
        sabotage: Sabotage::Calls(|r| {
            if r.tool == "room_send_message" && r.arguments.get("on_head_mismatch").is_none() {
                r.arguments["on_head_mismatch"] = json!("send_anyway");
            }
        }),
    },
    Saboteur {
        name: "sends-twice",
        what: "submits a message again although it was accepted",
        aims: &["writes/*", "join/*", "drafts/*"],
        sabotage: Sabotage::Doubles(|tool| tool == "room_send_message"),
    },
    Saboteur {
        name: "says-sent",
        what: "reports a held draft as sent",
        aims: &["drafts/*"],
        sabotage: Sabotage::Results(|r| {
            if r.body["status"] == "held" {
                r.body["status"] = json!("sent");
            }
        }),
    },
    Saboteur {
        name: "hides-changes",
        what: "holds a draft without showing what changed",
        aims: &["drafts/*"],
        sabotage: Sabotage::Results(|r| remove(r.body, "changes")),
    },
    Saboteur {
        name: "ignores-reject",
        what: "holds where the agent asked to reject",
        aims: &["drafts/reject*", "inputs/a-stale*"],
        sabotage: Sabotage::Calls(|r| {
            if r.arguments["on_head_mismatch"] == "reject" {
                r.arguments["on_head_mismatch"] = json!("hold");
            }
        }),
    },
    Saboteur {
        name: "keeps-the-draft",
        what: "revises a draft with the old words",
        aims: &["drafts/the-draft-is-revised", "inputs/*"],
        sabotage: Sabotage::Calls(|r| {
            if r.arguments["action"] == "revise" {
                r.arguments["action"] = json!("send_as_is");
                remove(r.arguments, "content");
                remove(r.arguments, "payload");
            }
        }),
    },
    Saboteur {
        name: "swallows-sync",
        what: "leaves the sync state out of results",
        aims: &["base/*", "drafts/*"],
        sabotage: Sabotage::Results(|r| remove(r.body, "sync")),
    },
    Saboteur {
        name: "counts-signals",
        what: "shows the latest record of any kind as the head",
        aims: &["base/signals*"],
        sabotage: Sabotage::Results(|r| {
            if let Some(synced) = r.body["sync"].get("synced_seq").cloned() {
                r.body["sync"]["head_seq"] = synced;
            }
        }),
    },
    Saboteur {
        name: "ignores-base",
        what: "drops the base that the agent gives",
        aims: &["base/*", "inputs/*"],
        sabotage: Sabotage::Calls(|r| {
            remove(r.arguments, "base_seq");
            remove(r.arguments, "base_hash");
        }),
    },
    Saboteur {
        name: "deaf",
        what: "never has anything in the inbox",
        aims: &["inbox/*", "watch/*"],
        sabotage: Sabotage::Results(|r| {
            if r.tool == "inbox_next" && r.body["items"].is_array() {
                r.body["items"] = json!([]);
            }
        }),
    },
    Saboteur {
        name: "renames-items",
        what: "gives an inbox item a new id on every poll",
        aims: &["inbox/*"],
        sabotage: Sabotage::Results(|r| {
            if r.tool == "inbox_next" {
                let stamp = crate::run::now_ms();
                each(r.body, "items", |i| {
                    i["id"] = json!(format!("{}-{stamp}", i["id"].as_str().unwrap_or_default()));
                });
            }
        }),
    },
    Saboteur {
        name: "takes-no-ack",
        what: "hands out acknowledged items again",
        aims: &["inbox/*"],
        sabotage: Sabotage::Calls(|r| {
            if r.tool == "inbox_ack" {
                r.arguments["ids"] = json!([]);
            }
        }),
    },
    Saboteur {
        name: "shares-claims",
        what: "hands a claimed item to every session",
        aims: &["inbox/*"],
        sabotage: Sabotage::Calls(|r| strip(r, "inbox_next", "claim")),
    },
    Saboteur {
        name: "sees-mentions-everywhere",
        what: "turns every message into a mention",
        aims: &["inbox/*"],
        sabotage: Sabotage::Results(|r| {
            if r.tool == "inbox_next" {
                each(r.body, "items", |i| i["kind"] = json!("room.mention"));
            }
        }),
    },
    Saboteur {
        name: "forgets-defer",
        what: "shows a deferred item at once",
        aims: &["inbox/a-deferred*"],
        sabotage: Sabotage::Calls(|r| {
            if r.arguments.get("defer_until").is_some() {
                r.arguments["defer_until"] = json!(crate::run::now_ms().saturating_sub(1));
            }
        }),
    },
    Saboteur {
        name: "does-not-wait",
        what: "answers a long poll at once",
        aims: &["inbox/waiting*"],
        sabotage: Sabotage::Calls(|r| strip(r, "inbox_next", "wait_ms")),
    },
    Saboteur {
        name: "loses-a-record",
        what: "leaves the newest item out of the timeline",
        aims: &["stream/*", "reading/*"],
        sabotage: Sabotage::Results(|r| {
            if r.tool == "room_timeline"
                && let Some(items) = r.body.get_mut("items").and_then(Value::as_array_mut)
            {
                items.pop();
            }
        }),
    },
    Saboteur {
        name: "doubles-a-record",
        what: "shows the newest item twice",
        aims: &["stream/*", "reading/*"],
        sabotage: Sabotage::Results(|r| {
            if r.tool == "room_timeline"
                && let Some(items) = r.body.get_mut("items").and_then(Value::as_array_mut)
            {
                items.extend(items.last().cloned());
            }
        }),
    },
    Saboteur {
        name: "reads-nothing-as-read",
        what: "returns unread items without moving the cursor",
        aims: &["reading/*", "restart/the-read*"],
        sabotage: Sabotage::Calls(|r| strip(r, "room_timeline", "mark_read")),
    },
    Saboteur {
        name: "ignores-filters",
        what: "ignores the timeline's filters",
        aims: &["reading/*"],
        sabotage: Sabotage::Calls(|r| {
            for name in ["after_seq", "before_seq", "types", "actors"] {
                strip(r, "room_timeline", name);
            }
        }),
    },
    Saboteur {
        name: "everybody-is-active",
        what: "shows removed and banned members as active",
        aims: &["reading/*"],
        sabotage: Sabotage::Results(|r| {
            if r.body["member"].is_object() {
                r.body["member"]["status"] = json!("active");
            }
            each(r.body, "members", |m| m["status"] = json!("active"));
        }),
    },
    Saboteur {
        name: "guesses-the-host",
        what: "picks a host when a room id is ambiguous",
        aims: &["two_hosts/*"],
        sabotage: Sabotage::Results(|r| {
            if r.result["isError"] == true {
                r.result["isError"] = json!(false);
                *r.body = json!({ "status": "sent", "items": [], "members": [] });
            }
        }),
    },
    Saboteur {
        name: "hides-codes",
        what: "flattens every error to one code",
        aims: &["writes/*", "input/*", "inputs/*"],
        sabotage: Sabotage::Results(|r| {
            if r.body["error"].is_object() {
                r.body["error"]["code"] = json!("internal_error");
            }
        }),
    },
    Saboteur {
        name: "drops-mentions",
        what: "does not pass mentions and references on",
        aims: &["writes/*", "inputs/*"],
        sabotage: Sabotage::Calls(|r| {
            remove(r.arguments, "mentions");
            remove(r.arguments, "references");
        }),
    },
    Saboteur {
        name: "leaks-a-token",
        what: "shows a request JWT to the agent",
        aims: &["allowlist/the-identity*", "secrets/*"],
        sabotage: Sabotage::Results(|r| {
            if r.tool == "identity_current" {
                let part = "QUJDREVGR0hJSktMTU5PUFFS";
                r.body["debug"] = json!(format!("eyJ{part}.{part}.{part}"));
            }
        }),
    },
    Saboteur {
        name: "speaks-the-future",
        what: "answers with another MCP revision",
        aims: &["lifecycle/*"],
        sabotage: Sabotage::Results(|r| {
            if r.tool == "initialize" {
                r.result["protocolVersion"] = json!("2026-07-28");
            }
        }),
    },
    Saboteur {
        name: "logs-to-the-client",
        what: "advertises the deprecated logging capability",
        aims: &["lifecycle/*"],
        sabotage: Sabotage::Results(|r| {
            if r.tool == "initialize" {
                r.result["capabilities"]["logging"] = json!({});
            }
        }),
    },
    Saboteur {
        name: "wrong-hints",
        what: "declares every tool read-only",
        aims: &["catalog/*"],
        sabotage: Sabotage::Results(|r| {
            tools(r, |t| t["annotations"]["readOnlyHint"] = json!(true));
        }),
    },
    Saboteur {
        name: "loose-inputs",
        what: "requires no input",
        aims: &["catalog/*"],
        sabotage: Sabotage::Results(|r| tools(r, |t| remove(&mut t["inputSchema"], "required"))),
    },
    Saboteur {
        name: "one-host-only",
        what: "takes no host beside room_id",
        aims: &["catalog/*"],
        sabotage: Sabotage::Results(|r| {
            tools(r, |t| remove(&mut t["inputSchema"]["properties"], "host"));
        }),
    },
    Saboteur {
        name: "says-nothing",
        what: "does not describe its tools",
        aims: &["catalog/*"],
        sabotage: Sabotage::Results(|r| tools(r, |t| t["description"] = json!("A tool."))),
    },
    Saboteur {
        name: "text-only",
        what: "returns no structured content",
        aims: &["reading/results-are-structured*"],
        sabotage: Sabotage::Results(|r| remove(r.result, "structuredContent")),
    },
    Saboteur {
        name: "signs-at-will",
        what: "offers a tool that signs whatever it is given",
        aims: &["catalog/no-tool-signs*"],
        sabotage: Sabotage::Results(|r| {
            if r.tool == "tools/list"
                && let Some(list) = r.result["tools"].as_array_mut()
            {
                list.push(json!({ "name": "agent_protocols_sign_bytes",
                    "description": "Signs locally.", "inputSchema": { "type": "object" } }));
            }
        }),
    },
    Saboteur {
        name: "trusts-the-host",
        what: "never tells that a record was refused",
        aims: &["verification/*"],
        sabotage: Sabotage::Results(|r| {
            if r.tool == "room_state" && r.result["isError"] == true {
                r.result["isError"] = json!(false);
                *r.body = json!({ "room": { "status": "active" } });
            } else if r.tool == "room_state" {
                remove(&mut r.body["room"], "condition");
                remove(r.body, "warnings");
            }
        }),
    },
];

/// A saboteur in one session.
struct Rewriter {
    sabotage: Sabotage,
    /// What the answer to a request id belongs to.
    calls: Mutex<HashMap<u64, String>>,
}

/// Ids of doubled calls, far from those the client hands out.
const DOUBLE: u64 = 1 << 40;

impl Rewriter {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, String>> {
        self.calls.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Tap for Rewriter {
    fn to_target(&self, mut frame: Value) -> Vec<Value> {
        let method = frame["method"].as_str().unwrap_or_default().to_owned();
        let tool = if method == "tools/call" {
            short(frame["params"]["name"].as_str().unwrap_or_default()).to_owned()
        } else {
            method.clone()
        };
        if let Some(id) = frame["id"].as_u64() {
            self.lock().insert(id, tool.clone());
        }
        if method != "tools/call" {
            return vec![frame];
        }
        match self.sabotage {
            Sabotage::Calls(change) => {
                let arguments = &mut frame["params"]["arguments"];
                change(&mut Request { tool: &tool, arguments });
                vec![frame]
            }
            Sabotage::Doubles(which) if which(&tool) => {
                let mut again = frame.clone();
                again["id"] = json!(frame["id"].as_u64().unwrap_or(0) + DOUBLE);
                again["params"]["arguments"]["on_head_mismatch"] = json!("send_anyway");
                vec![frame, again]
            }
            _ => vec![frame],
        }
    }

    fn to_client(&self, mut frame: Value) -> Vec<Value> {
        let Some(id) = frame["id"].as_u64() else { return vec![frame] };
        if id >= DOUBLE {
            return Vec::new();
        }
        let tool = self.lock().get(&id).cloned();
        if let (Sabotage::Results(change), Some(tool)) = (self.sabotage, tool)
            && let Some(result) = frame.get_mut("result")
        {
            rewrite(change, &tool, result);
        }
        vec![frame]
    }
}

/// Changes a result and keeps its two forms alike, as a real connector would.
fn rewrite(change: fn(&mut Reply<'_>), tool: &str, result: &mut Value) {
    let text = result["content"][0]["text"].as_str().map(str::to_owned);
    let parsed = text.and_then(|t| serde_json::from_str::<Value>(&t).ok());
    let structured = result.get("structuredContent").cloned();
    let Some(mut body) = structured.clone().or(parsed.clone()) else {
        let mut none = Value::Null;
        change(&mut Reply { tool, body: &mut none, result });
        return;
    };
    let before = body.clone();
    change(&mut Reply { tool, body: &mut body, result });
    if body != before {
        if parsed.is_some() {
            result["content"][0]["text"] = json!(body.to_string());
        }
        if structured.is_some() {
            result["structuredContent"] = body;
        }
    }
}

impl Saboteur {
    /// A fresh corruption for one session; none for saboteurs of the state directory.
    pub fn tap(&self) -> Option<Arc<dyn Tap>> {
        match self.sabotage {
            Sabotage::ForgetsState => None,
            sabotage => Some(Arc::new(Rewriter { sabotage, calls: Mutex::default() })),
        }
    }

    /// Whether the state directory is emptied before every start but the first.
    pub fn forgets_state(&self) -> bool {
        matches!(self.sabotage, Sabotage::ForgetsState)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::select::CaseGlob;

    #[test]
    fn names_are_unique_and_aims_name_scenarios() {
        let cases = crate::suite::load(None).expect("loads");
        let mut names: Vec<_> = SABOTEURS.iter().map(|s| s.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), SABOTEURS.len());
        for s in SABOTEURS {
            for aim in s.aims {
                let glob = CaseGlob::new(aim).expect("a glob");
                assert!(cases.iter().any(|c| glob.matches(c)), "{}: {aim}", s.name);
            }
        }
    }

    #[test]
    fn both_forms_of_a_result_change_together() {
        let mut result = json!({
            "structuredContent": { "status": "held" },
            "content": [{ "type": "text", "text": "{\"status\":\"held\"}" }],
        });
        rewrite(|r| r.body["status"] = json!("sent"), "x", &mut result);
        assert_eq!(result["structuredContent"]["status"], "sent");
        assert!(result["content"][0]["text"].as_str().is_some_and(|t| t.contains("sent")));
    }
}
