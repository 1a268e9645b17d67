//! The MCP binding: two role-scoped catalogs over Streamable HTTP, stateless, both current
//! revisions. A tool call becomes the same core call a REST request becomes.
//!
//! Mandates come from `_meta.mandate` alone; a `mandate` argument is refused, so that a
//! principal's credential never stands in an argument schema or a transcript of arguments.

use std::borrow::Cow;
use std::sync::Arc;

use axum::response::Response;
use http::Request;
use rmcp::ErrorData;
use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, Implementation, ListToolsResult,
    PaginatedRequestParams, ProtocolVersion, ServerCapabilities, ServerConfig, Tool,
    ToolAnnotations,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use super::core::{Call, Core, Credential, Op};
use super::defects::Defect;
use super::error::GrpError;

/// Which tools a client sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Catalog {
    /// `/mcp`.
    Participant,
    /// `/mcp/host`.
    Host,
}

impl Catalog {
    /// The operations of the catalog, in the order they are listed.
    pub fn ops(self) -> &'static [Op] {
        match self {
            Catalog::Participant => &[
                Op::JoinRoom,
                Op::ReadRoom,
                Op::Choose,
                Op::Abstain,
                Op::Discuss,
                Op::Propose,
                Op::Outcome,
                Op::Wait,
                Op::Ask,
                Op::StartChoosing,
                Op::CloseRoom,
            ],
            Catalog::Host => &[
                Op::CreateRoom,
                Op::ListRooms,
                Op::InviteToRoom,
                Op::ListInvites,
                Op::RevokeInvite,
                Op::UpdateRoomSettings,
                Op::Ask,
                Op::StartChoosing,
                Op::CloseRoom,
                Op::ListDecisions,
                Op::WaitOutcome,
                Op::RegisterWebhook,
                Op::UnregisterWebhook,
                Op::ListWebhooks,
                Op::ListEvents,
            ],
        }
    }
}

/// The service behind one of the two endpoints.
pub type Service = StreamableHttpService<Handler, NeverSessionManager>;

/// Builds the service of a catalog.
pub fn service(
    core: &Arc<Core>,
    catalog: Catalog,
    allowed_hosts: Vec<String>,
    stop: CancellationToken,
) -> Service {
    let mut config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_max_request_body_bytes(super::rest::MAX_BODY)
        .with_cancellation_token(stop);
    if !allowed_hosts.is_empty() {
        config = config.with_allowed_hosts(allowed_hosts);
    }
    let handler = Handler { core: Arc::clone(core), catalog };
    StreamableHttpService::new(move || Ok(handler.clone()), Arc::default(), config)
}

/// Answers one POST to an MCP endpoint. The strict parser sees the bytes first: what one
/// parser reads differently from another never reaches a room.
pub async fn handle(service: Service, request: Request<axum::body::Body>) -> Response {
    let (parts, body) = request.into_parts();
    let Ok(bytes) = axum::body::to_bytes(body, super::rest::MAX_BODY).await else {
        return super::rest::failure(
            &GrpError::new("vendor:lab:payload_too_large", "The body is too large."),
            "",
        );
    };
    if !bytes.is_empty()
        && let Err(e) = ap_protocol::json::parse(&bytes)
    {
        let error = json!({
            "jsonrpc": "2.0", "id": null,
            "error": { "code": -32_700, "message": format!("not acceptable JSON: {e}") },
        });
        return super::rest::reply(http::StatusCode::BAD_REQUEST, &error);
    }
    let request = Request::from_parts(parts, http_body_util::Full::new(bytes));
    service.handle(request).await.map(axum::body::Body::new)
}

/// One catalog's MCP server.
#[derive(Debug, Clone)]
pub struct Handler {
    core: Arc<Core>,
    catalog: Catalog,
}

impl Handler {
    fn listed(&self) -> Vec<Op> {
        let mut ops = self.catalog.ops().to_vec();
        if self.catalog == Catalog::Participant && self.core.has(Defect::CatalogLeak) {
            ops.push(Op::CreateRoom);
        }
        if self.catalog == Catalog::Participant && self.core.has(Defect::McpLacksPropose) {
            ops.retain(|op| *op != Op::Propose);
        }
        if self.catalog == Catalog::Host && self.core.has(Defect::HostCatalogShort) {
            ops.retain(|op| !matches!(op, Op::ListRooms | Op::ListEvents));
        }
        ops
    }

    async fn call(
        &self,
        op: Op,
        mut args: Map<String, Value>,
        context: &RequestContext<RoleServer>,
        meta: &Map<String, Value>,
    ) -> Result<Value, GrpError> {
        let text = |v: Option<Value>, what: &str| match v {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(s)) if !s.is_empty() => Ok(Some(s)),
            Some(_) => Err(GrpError::input(format!("{what} must be a string."))),
        };
        let argument_mandate = text(args.remove("mandate"), "mandate")?;
        if argument_mandate.is_some() && !self.core.has(Defect::MandateArgumentTaken) {
            return Err(GrpError::input(
                "A mandate is no tool argument: put it into _meta.mandate.",
            ));
        }
        let header = |name: &str| {
            context
                .extensions
                .get::<http::request::Parts>()
                .and_then(|p| p.headers.get(name))
                .and_then(|v| v.to_str().ok())
                .map(str::to_owned)
        };
        let bearer = header("authorization")
            .and_then(|v| v.split_once(' ').map(|(s, t)| (s.to_owned(), t.trim().to_owned())))
            .filter(|(scheme, t)| scheme.eq_ignore_ascii_case("bearer") && !t.is_empty())
            .map(|(_, token)| token)
            .filter(|t| !t.starts_with("rk_"));
        let token = match (text(args.remove("token"), "token")?, bearer) {
            (Some(a), Some(b)) if a != b => {
                return Err(GrpError::input("Two different tokens were presented; present one."));
            }
            (a, b) => a.or(b),
        };
        let mandate = text(meta.get("mandate").cloned(), "_meta.mandate")?
            .filter(|_| !self.core.has(Defect::MetaMandateIgnored))
            .or(argument_mandate);
        let password = match op {
            Op::JoinRoom | Op::CreateRoom => None,
            _ => text(args.remove("password"), "password")?,
        };
        let key = text(meta.get("idempotency_key").cloned(), "_meta.idempotency_key")?
            .or_else(|| header("idempotency-key"));
        let slug = text(args.remove("slug"), "slug")?;
        let call = Call {
            op,
            slug,
            args,
            credential: Credential { token, mandate, password },
            idempotency_key: key,
            transport: "mcp",
        };
        match op {
            Op::Wait | Op::WaitOutcome => self.core.wait(call).await,
            _ => self.core.execute(call).await,
        }
    }
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let instructions = match self.catalog {
            Catalog::Participant => {
                "Act inside a GRP decision room: join_room, read_room, then wait and act. Send \
                 the token with each call, or a mandate in _meta.mandate."
            }
            Catalog::Host => "Create and administer GRP decision rooms.",
        };
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("grp-room-host", env!("CARGO_PKG_VERSION")))
            .with_instructions(instructions)
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(&[ProtocolVersion::V_2025_11_25, ProtocolVersion::V_2026_07_28])
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.listed().into_iter().map(tool).collect()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.listed().into_iter().find(|op| op.name() == name).map(tool)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(op) = self.listed().into_iter().find(|op| op.name() == request.name) else {
            return Err(ErrorData::invalid_params(
                format!("this catalog has no tool {:?}", request.name),
                None,
            ));
        };
        // rmcp moves the request's _meta into the context.
        let mut meta = context.meta.0.0.clone();
        meta.extend(request.meta.map(|m| m.0.0).unwrap_or_default());
        let result = self.call(op, request.arguments.unwrap_or_default(), &context, &meta).await;
        let result = match result {
            Ok(mut value) => {
                value["ok"] = json!(true);
                CallToolResult::structured(value)
            }
            Err(e) => {
                let request_id = context
                    .extensions
                    .get::<http::request::Parts>()
                    .and_then(|p| p.headers.get("x-correlation-id"))
                    .and_then(|v| v.to_str().ok())
                    .map_or_else(|| self.core.config.entropy.uuid(), str::to_owned);
                CallToolResult::structured_error(e.envelope(Some(&request_id)))
            }
        };
        Ok(result.into())
    }
}

/// What a tool does and takes.
pub fn tool(op: Op) -> Tool {
    let (about, schema) = described(op);
    let Value::Object(schema) = schema else { unreachable!("schemas are written as objects") };
    Tool::new(op.name(), about, schema).with_annotations(
        ToolAnnotations::new()
            .read_only(!op.mutates())
            .destructive(matches!(op, Op::CloseRoom))
            .idempotent(!op.mutates())
            .open_world(false),
    )
}

fn described(op: Op) -> (&'static str, Value) {
    let text = |about: &str| json!({ "type": "string", "description": about });
    let token = || text("Your participant token. Omit it when a mandate rides in _meta.mandate.");
    let object = |mut members: Vec<(&str, Value)>, required: &[&str], in_room: bool| {
        if in_room {
            members.insert(0, ("slug", text("The room.")));
            members.insert(1, ("token", token()));
        }
        let properties: Map<String, Value> =
            members.into_iter().map(|(k, v)| (k.to_owned(), v)).collect();
        let mut needed: Vec<&str> = required.to_vec();
        if in_room {
            needed.insert(0, "slug");
        }
        json!({ "type": "object", "properties": properties, "required": needed })
    };
    let decision = || {
        (
            "decision",
            json!({
                "type": "integer", "minimum": 1,
                "description": "Number of the decision; the oldest open one when omitted.",
            }),
        )
    };
    let strings = |about: &str| json!({ "type": "array", "items": { "type": "string" }, "description": about });
    let whole = |about: &str| json!({ "type": "integer", "minimum": 0, "description": about });
    match op {
        Op::CreateRoom => (
            "Create a room, with a first question or without. Returns the creator token once.",
            object(
                vec![
                    ("question", text("First question, 3 to 500 characters.")),
                    ("about", text("What the room is for.")),
                    ("context", text("Framing of the question.")),
                    ("options", strings("The slate.")),
                    ("config", json!({ "type": "object", "description": "Room settings." })),
                    ("password", text("12 to 1024 characters; makes the room private.")),
                    ("defer_first_decision", json!({ "type": "boolean" })),
                    ("display_name", text("Your name in the room.")),
                ],
                &[],
                false,
            ),
        ),
        Op::JoinRoom => (
            "Take a seat in a room. Returns your token once, or none when you join by mandate.",
            object(
                vec![
                    ("display_name", text("Your name in the room.")),
                    ("password", text("The room's password, if it has one.")),
                    ("invite", text("Your invite token, if you have one.")),
                ],
                &[],
                true,
            ),
        ),
        Op::ReadRoom => (
            "Read the room: what is decided now, who is there, what was said, what you can do.",
            object(
                vec![
                    ("since", whole("Only what came after this event number.")),
                    ("include", json!({ "enum": ["full"], "description": "The whole state." })),
                    ("password", text("Reads a private room without a seat.")),
                ],
                &[],
                true,
            ),
        ),
        Op::Ask => (
            "Open a question.",
            object(
                vec![
                    ("question", text("3 to 500 characters.")),
                    ("options", strings("The slate; may be empty where proposals are allowed.")),
                    ("context", text("Framing.")),
                    ("voting_window", whole("Seconds to choose.")),
                    ("proposal_window", whole("Seconds to collect options first.")),
                    ("eligible", strings("Names of those who may choose.")),
                    ("eligible_participant_ids", strings("Ids of those who may choose.")),
                    ("agreement", json!({ "type": "boolean", "description": "Unanimity." })),
                ],
                &["question"],
                true,
            ),
        ),
        Op::StartChoosing => (
            "Freeze the slate and open choosing.",
            object(vec![("decision_id", text("Id of the decision."))], &[], true),
        ),
        Op::Choose => (
            "Cast or revise your choice.",
            object(
                vec![
                    (
                        "choice",
                        json!({
                            "type": ["string", "array", "object"],
                            "description": "An option (text or 1-based number), a list of options, \
                                            or a map from option to number, as rules.how_to_choose \
                                            says.",
                        }),
                    ),
                    ("rationale", text("Why, up to 2000 characters.")),
                    decision(),
                ],
                &["choice"],
                true,
            ),
        ),
        Op::Abstain => (
            "Respond without supporting any option.",
            object(vec![("reason", text("1 to 500 characters.")), decision()], &["reason"], true),
        ),
        Op::Discuss => (
            "Say something to the room.",
            object(
                vec![
                    ("body", text("1 to 100000 characters.")),
                    ("stance", json!({ "enum": ["agree", "disagree", "clarify", "extend"] })),
                    decision(),
                ],
                &["body"],
                true,
            ),
        ),
        Op::Propose => (
            "Put an option on the slate.",
            object(vec![("option", text("The option.")), decision()], &["option"], true),
        ),
        Op::Wait => (
            "Sleep until something needs you. On timeout call again: waiting is the action.",
            object(
                vec![
                    ("wait", json!({ "type": "number", "description": "Seconds, 25 if omitted." })),
                    ("for", json!({ "enum": ["my_choice", "my_vote", "completion", "activity"] })),
                    ("since", whole("Also wake for events after this one, by others.")),
                    ("since_seq", whole("For completion: only decisions after this one.")),
                ],
                &[],
                true,
            ),
        ),
        Op::WaitOutcome => (
            "Sleep until a decision later than since_seq is sealed.",
            object(
                vec![
                    ("since_seq", whole("Number of the last decision you know.")),
                    ("wait", json!({ "type": "number", "description": "Seconds, 25 if omitted." })),
                ],
                &[],
                true,
            ),
        ),
        Op::CloseRoom => (
            "Close the room for good. Nothing can be undone.",
            object(vec![("statement", text("Last words."))], &[], true),
        ),
        Op::Outcome => ("Read the outcome and the receipt chain.", object(vec![], &[], true)),
        Op::ListDecisions => ("List the decisions with their chain.", object(vec![], &[], true)),
        Op::ListEvents => (
            "List events after a cursor.",
            object(
                vec![
                    ("since_seq", whole("Event number.")),
                    ("since_event_id", text("Event id.")),
                    ("limit", whole("At most 1000.")),
                ],
                &[],
                true,
            ),
        ),
        Op::ListRooms => (
            "List the rooms a token has joined.",
            object(vec![("token", token())], &["token"], false),
        ),
        Op::InviteToRoom => (
            "Create a named invite. Returns its token once.",
            object(
                vec![
                    ("label", text("Name the invited will bear.")),
                    ("role", json!({ "enum": ["participant", "observer"] })),
                    ("expected", json!({ "type": "boolean" })),
                    ("expires_at", text("RFC 3339.")),
                    ("binding", json!({ "type": "object" })),
                ],
                &["label"],
                true,
            ),
        ),
        Op::ListInvites => ("List the invites.", object(vec![], &[], true)),
        Op::RevokeInvite => {
            ("Revoke an invite.", object(vec![("code", text("Its code."))], &["code"], true))
        }
        Op::UpdateRoomSettings => (
            "Change settings of the room.",
            object(vec![("settings", json!({ "type": "object" }))], &["settings"], true),
        ),
        Op::RegisterWebhook => (
            "Push events to an https URL. Returns the signing secret once.",
            object(
                vec![
                    ("url", text("Target.")),
                    ("event_types", strings("Only these; all when omitted.")),
                ],
                &["url"],
                true,
            ),
        ),
        Op::UnregisterWebhook => (
            "Stop a webhook.",
            object(vec![("webhook_id", text("Its id."))], &["webhook_id"], true),
        ),
        Op::ListWebhooks => ("List the webhooks.", object(vec![], &[], true)),
        Op::DeleteRoom | Op::UpdateMember => ("Not offered over MCP.", object(vec![], &[], true)),
    }
}
