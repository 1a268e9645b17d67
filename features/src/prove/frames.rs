//! The saboteurs between client and connector: what each does to the MCP frames.
//!
//! Only corruptions stand here; how a frame gets to them is `tap`'s business.

use serde_json::{Value, json};

use super::{Reply, Request, Sabotage, Saboteur};

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

/// All of them.
pub(super) const SABOTEURS: &[Saboteur] = &[
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
    Saboteur {
        name: "reuses-an-item-id",
        what: "gives every inbox item of a room the same id",
        aims: &["inbox/*", "inbox*"],
        sabotage: Sabotage::Results(|r| {
            if r.tool == "inbox_next" {
                each(r.body, "items", |i| i["id"] = json!("item-1"));
            }
        }),
    },
    Saboteur {
        name: "never-notifies",
        what: "announces no changed resource",
        aims: &["resources/updates/*", "resources*"],
        sabotage: Sabotage::ToClient(|frame| {
            let lost = frame["method"] == "notifications/resources/updated";
            if lost { Vec::new() } else { vec![frame] }
        }),
    },
    Saboteur {
        name: "notifies-too-much",
        what: "announces the members as changed whenever somebody speaks",
        aims: &["resources/updates/*", "resources*"],
        sabotage: Sabotage::ToClient(|frame| {
            let mut more = frame.clone();
            let uri = frame["params"]["uri"].as_str().unwrap_or_default();
            match uri.strip_suffix("/timeline") {
                Some(room) if frame["method"] == "notifications/resources/updated" => {
                    more["params"]["uri"] = json!(format!("{room}/members"));
                    vec![frame, more]
                }
                _ => vec![frame],
            }
        }),
    },
    Saboteur {
        name: "hears-no-unsubscribe",
        what: "announces changes after the subscription ended",
        aims: &["resources/updates/*", "resources*"],
        sabotage: Sabotage::ToTarget(|mut frame| {
            if frame["method"] == "resources/unsubscribe" {
                frame["method"] = json!("ping");
                remove(&mut frame, "params");
            }
            vec![frame]
        }),
    },
    Saboteur {
        name: "hears-no-cancel",
        what: "goes on with a call that was cancelled",
        aims: &["inbox/*", "lifecycle/*"],
        sabotage: Sabotage::ToTarget(|frame| {
            let lost = frame["method"] == "notifications/cancelled";
            if lost { Vec::new() } else { vec![frame] }
        }),
    },
    Saboteur {
        name: "lists-no-resources",
        what: "lists neither resources nor templates",
        aims: &["resources*", "resources/*"],
        sabotage: Sabotage::Results(|r| match r.tool {
            "resources/list" => r.result["resources"] = json!([]),
            "resources/templates/list" => r.result["resourceTemplates"] = json!([]),
            _ => {}
        }),
    },
    Saboteur {
        name: "shows-empty-resources",
        what: "reads every resource as an empty object",
        aims: &["resources*", "resources/*"],
        sabotage: Sabotage::Results(|r| {
            if r.tool == "resources/read" {
                each(r.result, "contents", |c| c["text"] = json!("{}"));
            }
        }),
    },
    Saboteur {
        name: "chats-on-stdout",
        what: "writes log lines to its standard output",
        aims: &["lifecycle/*"],
        sabotage: Sabotage::ToClient(|frame| vec![json!("INFO answering"), frame]),
    },
    Saboteur {
        name: "asks-the-client",
        what: "wants a language model's answer from its client",
        aims: &["lifecycle/*"],
        sabotage: Sabotage::ToClient(|frame| {
            let wish = json!({ "jsonrpc": "2.0", "id": "wish-1",
                "method": "sampling/createMessage",
                "params": { "messages": [], "maxTokens": 1 } });
            vec![frame, wish]
        }),
    },
    Saboteur {
        name: "shares-nothing",
        what: "gives every session a store of its own",
        aims: &["inbox/*", "restart/*", "drafts/*", "tools/drafts/*"],
        sabotage: Sabotage::SharesNothing,
    },
];
