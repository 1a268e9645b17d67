//! The JSON side of the control port.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post, put};
use http::{HeaderMap, StatusCode, header};
use serde_json::{Value, json};

use super::{Shared, problem};
use crate::fault::engine::FaultId;
use crate::fault::persona::Persona;
use crate::fault::{Fault, Plan};
use crate::host::Host;

type Shares = State<Arc<Shared>>;
type Params = Query<HashMap<String, String>>;

pub(super) fn routes() -> Router<Arc<Shared>> {
    Router::new()
        .route("/control/hosts", get(hosts))
        .route("/control/plan", get(read_plan).put(write_plan))
        .route("/control/faults", get(read_faults).post(add_fault).delete(clear_faults))
        .route("/control/faults/{id}", delete(remove_fault))
        .route("/control/personas", get(personas))
        .route("/control/persona", post(play))
        .route("/control/journal", get(journal))
        .route("/control/held", get(held))
        .route("/control/step", post(step))
        .route("/control/clock", get(read_clock).put(write_clock))
        .route("/control/state", get(state))
        .route("/control/reset", post(reset))
        .route("/control/move-head", post(move_head))
        .route("/control/accept", post(accept))
        .route("/control/append-unchecked", post(append_unchecked))
        .route("/control/limits", put(limits))
}

struct Problem(StatusCode, &'static str, String);

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        problem(self.0, self.1, &self.2)
    }
}

impl From<crate::answer::Refusal> for Problem {
    fn from(r: crate::answer::Refusal) -> Self {
        let status = StatusCode::from_u16(r.status).unwrap_or(StatusCode::BAD_REQUEST);
        Problem(status, "refused", r.to_string())
    }
}

type Answered = Result<Response, Problem>;

fn ok(value: &Value) -> Answered {
    Ok(([(header::CONTENT_TYPE, "application/json")], value.to_string()).into_response())
}

fn bad(message: impl Into<String>) -> Problem {
    Problem(StatusCode::BAD_REQUEST, "invalid_request", message.into())
}

fn body(bytes: &Bytes) -> Result<Value, Problem> {
    if bytes.is_empty() {
        return Ok(json!({}));
    }
    ap_protocol::json::parse(bytes).map_err(|e| bad(format!("the body is no strict JSON: {e}")))
}

/// The host that `?host=` names; all of them without it.
fn chosen(shared: &Shared, label: Option<&str>) -> Result<Vec<Host>, Problem> {
    match label {
        None => Ok(shared.lab.hosts()),
        Some(label) => match shared.lab.find(label) {
            Some(host) => Ok(vec![host]),
            None => Err(Problem(
                StatusCode::NOT_FOUND,
                "host_not_found",
                format!("there is no host {label:?} here"),
            )),
        },
    }
}

fn of_query(shared: &Shared, params: &HashMap<String, String>) -> Result<Vec<Host>, Problem> {
    chosen(shared, params.get("host").map(String::as_str))
}

fn only(hosts: Vec<Host>) -> Result<Host, Problem> {
    let [host] = <[Host; 1]>::try_from(hosts)
        .map_err(|_| bad("several hosts run here: say which one with \"host\""))?;
    Ok(host)
}

fn text<'a>(input: &'a Value, name: &str) -> Result<&'a str, Problem> {
    input[name].as_str().ok_or_else(|| bad(format!("{name} is required, a string")))
}

async fn hosts(State(shared): Shares) -> Answered {
    let list: Vec<Value> = shared
        .lab
        .hosts()
        .iter()
        .map(|h| {
            json!({
                "label": h.label(), "url": h.url(), "rooms": h.rooms(),
                "discourse": h.config().discourse, "profiles": h.config().profiles,
                "resident": h.resident(), "faults": h.faults().len(),
            })
        })
        .collect();
    ok(&json!({ "hosts": list }))
}

async fn read_plan(State(shared): Shares, Query(params): Params) -> Answered {
    let host = only(of_query(&shared, &params)?)?;
    ok(&json!(host.current_plan()))
}

/// JSON, or TOML when the content type says so.
async fn write_plan(
    State(shared): Shares,
    Query(params): Params,
    headers: HeaderMap,
    bytes: Bytes,
) -> Answered {
    let toml = headers
        .get(header::CONTENT_TYPE)
        .and_then(|t| t.to_str().ok())
        .is_some_and(|t| t.contains("toml"));
    let plan = if toml {
        let text = std::str::from_utf8(&bytes).map_err(|e| bad(e.to_string()))?;
        Plan::from_toml(text)
    } else {
        Plan::from_json(&bytes)
    };
    let plan =
        plan.map_err(|e| Problem(StatusCode::UNPROCESSABLE_ENTITY, "invalid_plan", e.to_string()))?;
    let mut set = serde_json::Map::new();
    for host in of_query(&shared, &params)? {
        let ids = host.plan(plan.clone());
        set.insert(host.label().to_owned(), json!(ids));
    }
    ok(&json!({ "faults": set }))
}

async fn read_faults(State(shared): Shares, Query(params): Params) -> Answered {
    let mut list = serde_json::Map::new();
    for host in of_query(&shared, &params)? {
        list.insert(host.label().to_owned(), json!(host.faults()));
    }
    ok(&json!({ "faults": list }))
}

async fn add_fault(State(shared): Shares, Query(params): Params, bytes: Bytes) -> Answered {
    let fault: Fault = serde_json::from_value(body(&bytes)?)
        .map_err(|e| Problem(StatusCode::UNPROCESSABLE_ENTITY, "invalid_plan", e.to_string()))?;
    let mut set = serde_json::Map::new();
    for host in of_query(&shared, &params)? {
        set.insert(host.label().to_owned(), json!(host.add_fault(fault.clone())));
    }
    ok(&json!({ "fault": set }))
}

async fn clear_faults(State(shared): Shares, Query(params): Params) -> Answered {
    of_query(&shared, &params)?.iter().for_each(Host::clear_faults);
    ok(&json!({}))
}

async fn remove_fault(
    State(shared): Shares,
    Path(id): Path<u64>,
    Query(params): Params,
) -> Answered {
    let host = only(of_query(&shared, &params)?)?;
    if host.remove_fault(FaultId(id)) {
        ok(&json!({}))
    } else {
        Err(Problem(StatusCode::NOT_FOUND, "fault_not_found", format!("no fault {id}")))
    }
}

async fn personas() -> Answered {
    let list: Vec<Value> =
        Persona::ALL.into_iter().map(|p| json!({ "name": p.name(), "about": p.about() })).collect();
    ok(&json!({ "personas": list }))
}

async fn play(State(shared): Shares, bytes: Bytes) -> Answered {
    let input = body(&bytes)?;
    let name = text(&input, "name")?;
    let persona =
        Persona::find(name).ok_or_else(|| bad(format!("no persona is called {name:?}")))?;
    for host in chosen(&shared, input["host"].as_str())? {
        host.play(persona);
    }
    ok(&json!({}))
}

async fn journal(State(shared): Shares, Query(params): Params) -> Answered {
    let after: u64 = match params.get("after") {
        None => 0,
        Some(text) => text.parse().map_err(|_| bad("after is a journal number"))?,
    };
    let mut list = serde_json::Map::new();
    for host in of_query(&shared, &params)? {
        let entries = host.journal().matching(|e| e.n > after);
        list.insert(host.label().to_owned(), json!(entries));
    }
    ok(&json!({ "journal": list }))
}

async fn held(State(shared): Shares, Query(params): Params) -> Answered {
    let mut list = serde_json::Map::new();
    for host in of_query(&shared, &params)? {
        list.insert(host.label().to_owned(), json!(host.step().list()));
    }
    ok(&json!({ "held": list }))
}

/// Releases `id`, or the oldest held request, or with `"all": true` every one.
async fn step(State(shared): Shares, bytes: Bytes) -> Answered {
    let input = body(&bytes)?;
    let mut released = 0;
    for host in chosen(&shared, input["host"].as_str())? {
        let gate = host.step();
        released += if input["all"] == true {
            gate.release_all()
        } else if let Some(id) = input["id"].as_u64() {
            usize::from(gate.release(id))
        } else {
            usize::from(gate.release_next().is_some())
        };
    }
    ok(&json!({ "released": released }))
}

async fn read_clock(State(shared): Shares) -> Answered {
    ok(&json!({ "now_ms": shared.lab.clock().now_ms() }))
}

async fn write_clock(State(shared): Shares, bytes: Bytes) -> Answered {
    let input = body(&bytes)?;
    let clock = shared.lab.clock();
    let members = input.as_object().ok_or_else(|| bad("the body is an object"))?;
    for (name, value) in members {
        match (name.as_str(), value.as_u64(), value.as_bool()) {
            ("set_ms", Some(ms), _) => clock.set(ms),
            ("advance_ms", Some(ms), _) => clock.advance(ms),
            ("freeze", _, Some(true)) => clock.freeze(),
            ("follow", _, Some(true)) => clock.follow_system(),
            _ => {
                return Err(bad("give set_ms, advance_ms, \"freeze\": true or \"follow\": true"));
            }
        }
    }
    ok(&json!({ "now_ms": clock.now_ms() }))
}

async fn state(State(shared): Shares, Query(params): Params) -> Answered {
    let mut list = serde_json::Map::new();
    for host in of_query(&shared, &params)? {
        list.insert(host.label().to_owned(), host.dump());
    }
    ok(&json!({ "hosts": list }))
}

async fn reset(State(shared): Shares, bytes: Bytes) -> Answered {
    let input = body(&bytes)?;
    chosen(&shared, input["host"].as_str())?.iter().for_each(Host::reset);
    ok(&json!({}))
}

async fn move_head(State(shared): Shares, bytes: Bytes) -> Answered {
    let input = body(&bytes)?;
    let host = only(chosen(&shared, input["host"].as_str())?)?;
    host.move_head(text(&input, "room")?, input["by"].as_u64().unwrap_or(1))?;
    ok(&json!({ "room": host.room(text(&input, "room")?) }))
}

async fn accept(State(shared): Shares, bytes: Bytes) -> Answered {
    let input = body(&bytes)?;
    let host = only(chosen(&shared, input["host"].as_str())?)?;
    ok(&host.accept(&input["envelope"])?)
}

async fn append_unchecked(State(shared): Shares, bytes: Bytes) -> Answered {
    let input = body(&bytes)?;
    let host = only(chosen(&shared, input["host"].as_str())?)?;
    ok(&host.append_unchecked(text(&input, "room")?, &input["envelope"])?)
}

/// Sets the limits: an object, or `"recommended"`, or null for none.
async fn limits(State(shared): Shares, Query(params): Params, bytes: Bytes) -> Answered {
    let limits = match body(&bytes)? {
        Value::Null => crate::Limits::default(),
        Value::String(s) if s == "recommended" => crate::Limits::recommended(),
        value => serde_json::from_value(value).map_err(|e| bad(e.to_string()))?,
    };
    for host in of_query(&shared, &params)? {
        host.set_limits(limits.clone());
    }
    ok(&json!({ "limits": limits }))
}
