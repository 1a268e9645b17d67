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
use crate::grp::Defect;
use crate::host::Host;
use crate::lab::Member;

type Shares = State<Arc<Shared>>;
type Params = Query<HashMap<String, String>>;

pub(super) fn routes() -> Router<Arc<Shared>> {
    Router::new()
        .route("/control/hosts", get(hosts))
        .route("/control/plan", get(read_plan).put(write_plan))
        .route("/control/faults", get(read_faults).post(add_fault).delete(clear_faults))
        .route("/control/faults/{id}", delete(remove_fault))
        .route("/control/defects", get(defects))
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
fn chosen(shared: &Shared, label: Option<&str>) -> Result<Vec<Member>, Problem> {
    let mut members = shared.lab.members();
    if let Some(label) = label {
        members.retain(|m| m.front().label == label);
        if members.is_empty() {
            return Err(Problem(
                StatusCode::NOT_FOUND,
                "host_not_found",
                format!("there is no host {label:?} here"),
            ));
        }
    }
    Ok(members)
}

fn of_query(shared: &Shared, params: &HashMap<String, String>) -> Result<Vec<Member>, Problem> {
    chosen(shared, params.get("host").map(String::as_str))
}

fn only<T>(hosts: Vec<T>) -> Result<T, Problem> {
    let [host] = <[T; 1]>::try_from(hosts)
        .map_err(|_| bad("several hosts run here: say which one with \"host\""))?;
    Ok(host)
}

/// The hosts among them that keep records; an error when a GRP host was asked for by name.
fn with_records(members: Vec<Member>) -> Result<Vec<Host>, Problem> {
    let alone = members.len() == 1;
    let hosts: Vec<Host> = members
        .into_iter()
        .filter_map(|m| match m {
            Member::Agent(host) => Some(host),
            Member::Grp(_) => None,
        })
        .collect();
    if hosts.is_empty() && alone {
        return Err(bad("this is for ADP and APP hosts"));
    }
    Ok(hosts)
}

fn text<'a>(input: &'a Value, name: &str) -> Result<&'a str, Problem> {
    input[name].as_str().ok_or_else(|| bad(format!("{name} is required, a string")))
}

async fn hosts(State(shared): Shares) -> Answered {
    let list: Vec<Value> = shared
        .lab
        .members()
        .iter()
        .map(|member| {
            let front = member.front();
            let mut view = json!({
                "label": front.label, "url": front.url, "rooms": member.rooms(),
                "discourse": false, "profiles": false, "grp": false,
                "faults": front.faults.list().len(),
            });
            match member {
                Member::Agent(h) => {
                    view["discourse"] = json!(h.config().discourse);
                    view["profiles"] = json!(h.config().profiles);
                    view["resident"] = json!(h.resident());
                }
                Member::Grp(h) => {
                    view["grp"] = json!(true);
                    view["defects"] = json!(h.defects());
                }
            }
            view
        })
        .collect();
    ok(&json!({ "hosts": list }))
}

async fn read_plan(State(shared): Shares, Query(params): Params) -> Answered {
    let host = only(of_query(&shared, &params)?)?;
    ok(&json!(host.front().faults.plan()))
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
        let ids = host.front().faults.set_plan(plan.clone());
        set.insert(host.front().label.clone(), json!(ids));
    }
    ok(&json!({ "faults": set }))
}

async fn read_faults(State(shared): Shares, Query(params): Params) -> Answered {
    let mut list = serde_json::Map::new();
    for host in of_query(&shared, &params)? {
        list.insert(host.front().label.clone(), json!(host.front().faults.list()));
    }
    ok(&json!({ "faults": list }))
}

async fn add_fault(State(shared): Shares, Query(params): Params, bytes: Bytes) -> Answered {
    let fault: Fault = serde_json::from_value(body(&bytes)?)
        .map_err(|e| Problem(StatusCode::UNPROCESSABLE_ENTITY, "invalid_plan", e.to_string()))?;
    fault.check().map_err(|what| {
        Problem(StatusCode::UNPROCESSABLE_ENTITY, "invalid_plan", what.to_owned())
    })?;
    let mut set = serde_json::Map::new();
    for host in of_query(&shared, &params)? {
        let id = host.front().faults.add(fault.clone());
        set.insert(host.front().label.clone(), json!(id));
    }
    ok(&json!({ "fault": set }))
}

async fn clear_faults(State(shared): Shares, Query(params): Params) -> Answered {
    of_query(&shared, &params)?.iter().for_each(|m| m.front().faults.clear());
    ok(&json!({}))
}

async fn remove_fault(
    State(shared): Shares,
    Path(id): Path<u64>,
    Query(params): Params,
) -> Answered {
    let host = only(of_query(&shared, &params)?)?;
    if host.front().faults.remove(FaultId(id)) {
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

/// The seeded defects of GRP hosts, and which hosts have them now.
async fn defects(State(shared): Shares) -> Answered {
    let hosts = shared.lab.grp_hosts();
    let list: Vec<Value> = Defect::ALL
        .iter()
        .map(|d| {
            let on: Vec<&str> =
                hosts.iter().filter(|h| h.core().has(*d)).map(|h| h.label()).collect();
            json!({ "name": d.name(), "about": d.about(), "on": on })
        })
        .collect();
    ok(&json!({ "defects": list }))
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
        let entries = host.front().journal.matching(|e| e.n > after);
        list.insert(host.front().label.clone(), json!(entries));
    }
    ok(&json!({ "journal": list }))
}

async fn held(State(shared): Shares, Query(params): Params) -> Answered {
    let mut list = serde_json::Map::new();
    for host in of_query(&shared, &params)? {
        list.insert(host.front().label.clone(), json!(host.front().gate.list()));
    }
    ok(&json!({ "held": list }))
}

/// Releases `id`, or the oldest held request, or with `"all": true` every one.
async fn step(State(shared): Shares, bytes: Bytes) -> Answered {
    let input = body(&bytes)?;
    let mut released = 0;
    for host in chosen(&shared, input["host"].as_str())? {
        let gate = &host.front().gate;
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
        list.insert(host.front().label.clone(), host.dump());
    }
    ok(&json!({ "hosts": list }))
}

async fn reset(State(shared): Shares, bytes: Bytes) -> Answered {
    let input = body(&bytes)?;
    chosen(&shared, input["host"].as_str())?.iter().for_each(Member::reset);
    ok(&json!({}))
}

async fn move_head(State(shared): Shares, bytes: Bytes) -> Answered {
    let input = body(&bytes)?;
    let host = only(with_records(chosen(&shared, input["host"].as_str())?)?)?;
    host.move_head(text(&input, "room")?, input["by"].as_u64().unwrap_or(1))?;
    ok(&json!({ "room": host.room(text(&input, "room")?) }))
}

async fn accept(State(shared): Shares, bytes: Bytes) -> Answered {
    let input = body(&bytes)?;
    let host = only(with_records(chosen(&shared, input["host"].as_str())?)?)?;
    ok(&host.accept(&input["envelope"])?)
}

async fn append_unchecked(State(shared): Shares, bytes: Bytes) -> Answered {
    let input = body(&bytes)?;
    let host = only(with_records(chosen(&shared, input["host"].as_str())?)?)?;
    ok(&host.append_unchecked(text(&input, "room")?, &input["envelope"])?)
}

/// Sets the limits: an object, or `"recommended"`, or null for none.
async fn limits(State(shared): Shares, Query(params): Params, bytes: Bytes) -> Answered {
    let limits = match body(&bytes)? {
        Value::Null => crate::Limits::default(),
        Value::String(s) if s == "recommended" => crate::Limits::recommended(),
        value => serde_json::from_value(value).map_err(|e| bad(e.to_string()))?,
    };
    for host in with_records(of_query(&shared, &params)?)? {
        host.set_limits(limits.clone());
    }
    ok(&json!({ "limits": limits }))
}
