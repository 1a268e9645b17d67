//! REST requests and MCP tool calls as raw HTTP, and what came back.

use std::time::{Duration, Instant};

use ap_protocol::json;
use reqwest::{Method, RequestBuilder};
use serde_json::{Map, Value, json};

use crate::failure::{StepError, StepResult};
use crate::wire::WireLog;

/// How a call travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Via {
    /// JSON over HTTP.
    Rest,
    /// MCP Streamable HTTP.
    Mcp,
}

/// What came back.
#[derive(Debug, Clone)]
pub struct Reply {
    /// HTTP status.
    pub status: u16,
    /// Headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The text.
    pub text: String,
    /// The JSON of the answer: a REST body, or the JSON text of a tool result. Null if none.
    pub body: Value,
    /// Failure: an HTTP error, `isError`, or a JSON-RPC error.
    pub failed: bool,
    /// How long it took.
    pub took: Duration,
}

impl Reply {
    /// First header of a name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(k, _)| k == name).map(|(_, v)| v.as_str())
    }

    /// `error.code`.
    pub fn code(&self) -> Option<&str> {
        self.body["error"]["code"].as_str()
    }

    /// For a failure message.
    pub fn brief(&self) -> String {
        let body = if self.body.is_null() {
            self.text.chars().take(300).collect()
        } else {
            crate::wire::brief(&self.body)
        };
        format!("HTTP {} {body}", self.status)
    }
}

/// Who calls, with what.
#[derive(Debug, Clone, Default)]
pub struct Who {
    /// Participant token.
    pub token: Option<String>,
    /// Compact mandate.
    pub mandate: Option<String>,
}

/// A client of one host.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    /// Origin of the host.
    pub base: String,
    log: WireLog,
}

/// MCP revision spoken to hosts.
pub const MCP_REVISION: &str = "2025-11-25";
const TIMEOUT: Duration = Duration::from_secs(70);

/// Which catalog a tool is called at.
fn catalog(tool: &str) -> &'static str {
    const PARTICIPANT: [&str; 11] = [
        "join_room",
        "read_room",
        "choose",
        "abstain",
        "discuss",
        "propose",
        "outcome",
        "wait",
        "ask",
        "start_choosing",
        "close_room",
    ];
    if PARTICIPANT.contains(&tool) { "/mcp" } else { "/mcp/host" }
}

/// Method and path of an operation, and which arguments are part of the path.
pub fn rest_route(op: &str, slug: &str, args: &mut Map<String, Value>) -> Option<(Method, String)> {
    let room = format!("/api/rooms/{slug}");
    let mut take = |name: &str| {
        args.remove(name).and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default()
    };
    Some(match op {
        "create_room" => (Method::POST, "/api/rooms".to_owned()),
        "join_room" => (Method::POST, format!("{room}/join")),
        "read_room" => (Method::GET, room),
        "ask" => (Method::POST, format!("{room}/ask")),
        "start_choosing" => (Method::POST, format!("{room}/start-choosing")),
        "choose" => (Method::POST, format!("{room}/choose")),
        "abstain" => (Method::POST, format!("{room}/abstain")),
        "discuss" => (Method::POST, format!("{room}/discuss")),
        "propose" => (Method::POST, format!("{room}/options")),
        "wait" => (Method::GET, format!("{room}/next-action")),
        "close_room" => (Method::POST, format!("{room}/close")),
        "outcome" => (Method::GET, format!("{room}/outcome")),
        "list_decisions" => (Method::GET, format!("{room}/decisions")),
        "list_events" => (Method::GET, format!("{room}/events")),
        "invite_to_room" => (Method::POST, format!("{room}/invites")),
        "list_invites" => (Method::GET, format!("{room}/invites")),
        "revoke_invite" => (Method::DELETE, format!("{room}/invites/{}", take("code"))),
        "update_member" => (Method::PATCH, format!("{room}/members/{}", take("participant"))),
        "update_room_settings" => (Method::PATCH, format!("{room}/settings")),
        "register_webhook" => (Method::POST, format!("{room}/webhooks")),
        "list_webhooks" => (Method::GET, format!("{room}/webhooks")),
        "delete_room" => (Method::DELETE, room),
        _ => return None,
    })
}

impl Client {
    /// A client that follows no redirect.
    ///
    /// # Errors
    /// [`StepError::Defect`].
    pub fn new(base: &str, log: WireLog) -> StepResult<Self> {
        // The TLS provider of the process; somebody may have installed it before.
        mock_hosts::grp::install_tls();
        let http = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .timeout(TIMEOUT)
            .build()
            .map_err(StepError::defect)?;
        Ok(Client { http, base: base.trim_end_matches('/').to_owned(), log })
    }

    /// A request to a path of the host.
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.base))
    }

    /// A request to a path with what somebody presents.
    pub fn request_as(
        &self,
        method: Method,
        path: &str,
        who: &Who,
        key: Option<&str>,
    ) -> RequestBuilder {
        let mut request = self.request(method, path);
        if let Some(token) = &who.token {
            request = request.bearer_auth(token);
        }
        if let Some(mandate) = &who.mandate {
            request = request.header("x-mandate", mandate);
        }
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        request
    }

    /// A request with a JSON body, to which answers may come as JSON or as an event stream.
    fn posted(request: RequestBuilder, body: &Value) -> RequestBuilder {
        request
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .body(body.to_string())
    }

    /// Sends a request and reads the whole answer.
    ///
    /// # Errors
    /// [`StepError::Target`] when no answer comes.
    pub async fn send(&self, request: RequestBuilder, what: &str) -> StepResult<Reply> {
        let began = Instant::now();
        let fail = |e: reqwest::Error| StepError::Target(format!("{what}: {}", e.without_url()));
        let answer = request.send().await.map_err(fail)?;
        let status = answer.status();
        let headers = answer
            .headers()
            .iter()
            .map(|(k, v)| {
                (k.as_str().to_owned(), String::from_utf8_lossy(v.as_bytes()).into_owned())
            })
            .collect();
        let bytes = answer.bytes().await.map_err(fail)?;
        let reply = Reply {
            status: status.as_u16(),
            headers,
            text: String::from_utf8_lossy(&bytes).into_owned(),
            body: json::parse(&bytes).unwrap_or(Value::Null),
            failed: !status.is_success(),
            took: began.elapsed(),
        };
        self.log.push("grp", &without_tokens(&format!("{what} -> {}", reply.brief())));
        Ok(reply)
    }

    /// One operation over REST.
    ///
    /// # Errors
    /// [`StepError`].
    pub async fn rest(
        &self,
        op: &str,
        slug: &str,
        who: &Who,
        args: &Value,
        key: Option<&str>,
    ) -> StepResult<Reply> {
        let mut args = args.as_object().cloned().unwrap_or_default();
        let (method, path) = rest_route(op, slug, &mut args)
            .ok_or_else(|| StepError::Defect(format!("{op} has no REST form")))?;
        let mut request = self.request_as(method.clone(), &path, who, key);
        let shown = Value::Object(args.clone());
        if method == Method::DELETE {
            if let Some(Value::String(confirm)) = args.get("confirm") {
                request = request.header("x-confirm-delete", confirm);
            }
        } else if method == Method::GET {
            let query: Vec<(String, String)> = args
                .iter()
                .map(|(k, v)| (k.clone(), v.as_str().map_or_else(|| v.to_string(), str::to_owned)))
                .collect();
            request = request.query(&query);
        } else {
            request = Self::posted(request, &shown);
        }
        self.send(request, &format!("{method} {path} {}", crate::wire::brief(&shown))).await
    }

    /// One JSON-RPC request to an MCP endpoint; the result or the error of the answer.
    ///
    /// # Errors
    /// [`StepError::Target`].
    pub async fn rpc(
        &self,
        endpoint: &str,
        method: &str,
        params: Value,
        headers: &[(&str, &str)],
    ) -> StepResult<(Reply, Value)> {
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let mut request = Self::posted(self.request(Method::POST, endpoint), &message)
            .header("mcp-protocol-version", MCP_REVISION);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let what = format!("POST {endpoint} {method} {}", crate::wire::brief(&params));
        let mut reply = self.send(request, &what).await?;
        if reply.body.is_null() {
            reply.body = last_event(&reply.text).unwrap_or(Value::Null);
        }
        let answer = std::mem::take(&mut reply.body);
        Ok((reply, answer))
    }

    /// One operation as an MCP tool call.
    ///
    /// # Errors
    /// [`StepError`].
    pub async fn mcp(
        &self,
        op: &str,
        slug: &str,
        who: &Who,
        args: &Value,
        key: Option<&str>,
    ) -> StepResult<Reply> {
        let mut args = args.as_object().cloned().unwrap_or_default();
        if !slug.is_empty() {
            args.insert("slug".to_owned(), json!(slug));
        }
        if let Some(token) = &who.token {
            args.insert("token".to_owned(), json!(token));
        }
        let mut meta = Map::new();
        if let Some(mandate) = &who.mandate {
            meta.insert("mandate".to_owned(), json!(mandate));
        }
        let mut params = json!({ "name": op, "arguments": args });
        if !meta.is_empty() {
            params["_meta"] = Value::Object(meta);
        }
        let headers: Vec<(&str, &str)> = key.map(|k| ("idempotency-key", k)).into_iter().collect();
        let (mut reply, answer) = self.rpc(catalog(op), "tools/call", params, &headers).await?;
        if let Some(error) = answer.get("error") {
            reply.failed = true;
            reply.body = json!({ "error": { "code": "json-rpc", "message": error.to_string() } });
            return Ok(reply);
        }
        let result = &answer["result"];
        let text = result["content"][0]["text"].as_str().unwrap_or_default();
        reply.body = json::parse(text.as_bytes())
            .map_err(|e| StepError::Target(format!("{op}: the first content is no JSON: {e}")))?;
        reply.failed |= result["isError"] == true;
        Ok(reply)
    }

    /// One operation over either transport.
    ///
    /// # Errors
    /// [`StepError`].
    pub async fn call(
        &self,
        via: Via,
        op: &str,
        slug: &str,
        who: &Who,
        args: &Value,
        key: Option<&str>,
    ) -> StepResult<Reply> {
        match via {
            Via::Rest => self.rest(op, slug, who, args, key).await,
            Via::Mcp => self.mcp(op, slug, who, args, key).await,
        }
    }
}

/// A text without anything of the shape of a token: reports go further than tokens may.
pub fn without_tokens(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("_") {
        let from = rest[..at]
            .rfind(|c: char| !c.is_ascii_alphanumeric())
            .map_or(0, |i| i + rest[i..].chars().next().map_or(1, char::len_utf8));
        let prefix = &rest[from..at];
        let tail = &rest[at + 1..];
        let end = tail
            .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_')))
            .unwrap_or(tail.len());
        if matches!(prefix, "t" | "it" | "whsec") && end == 43 {
            out.push_str(&rest[..=at]);
            out.push('…');
            rest = &tail[end..];
        } else {
            out.push_str(&rest[..=at]);
            rest = tail;
        }
    }
    out.push_str(rest);
    out
}

/// The JSON of the last `data:` line of an event stream.
fn last_event(text: &str) -> Option<Value> {
    text.lines()
        .rev()
        .filter_map(|l| l.strip_prefix("data:"))
        .find_map(|d| json::parse(d.trim().as_bytes()).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_taken_out_and_nothing_else() {
        let token = format!("t_{}", "A_b-".repeat(10) + "xyz");
        let text =
            format!("{{\"participant_token\":\"{token}\",\"é_t_short\":1}} it_{}", &token[2..]);
        assert_eq!(without_tokens(&text), "{\"participant_token\":\"t_…\",\"é_t_short\":1} it_…");
    }
}
