//! Making hosts misbehave, and judging what the target sent to whom.

use std::time::Duration;

use cucumber::gherkin::Step;
use cucumber::{given, then, when};
use mock_hosts::{Action, End, Fault, JournalEntry, Route};
use serde_json::{Value, json};

use super::call::docstring;
use super::rooms::SOON;
use crate::failure::{StepError, StepResult, check, no};
use crate::wire::brief;
use crate::world::World;

#[given(regex = r#"^host "([^"]*)" misbehaves$"#)]
#[when(regex = r#"^host "([^"]*)" misbehaves$"#)]
fn misbehaves(w: &mut World, host: String, step: &Step) -> StepResult {
    let plan = step
        .docstring
        .as_ref()
        .ok_or_else(|| StepError::Defect("the step needs a plan".to_owned()))?;
    w.add_faults(&host, plan)
}

/// The signature holds; only the agent is another one.
#[given(regex = r#"^host "([^"]*)" serves (\w+)'s profile whoever is asked for$"#)]
fn serves_other_profile(w: &mut World, host: String, peer: String) -> StepResult {
    let agent = w.key(&peer).agent_id().to_string();
    let host = w.hosts.host(&host)?;
    let envelope = host.dump()["profiles"][&agent]
        .as_array()
        .and_then(|events| events.last().cloned())
        .ok_or_else(|| StepError::Defect(format!("{peer} published no profile")))?;
    let name = envelope["event"]["payload"]["name"].clone();
    for (route, pointer, value) in [
        (Route::ProfileEvents, "/result/0", envelope),
        (Route::Profile, "/name", name.clone()),
        (Route::ProfileBatch, "/result/0/name", name),
    ] {
        let action = Action::Set { pointer: pointer.to_owned(), value };
        host.add_fault(Fault::new(action).on(route));
    }
    Ok(())
}

/// A plan that never hits makes a blind scenario: that is the suite's fault, not the target's.
#[then(regex = r#"^the faults of host "([^"]*)" did their work$"#)]
fn faults_hit(w: &mut World, host: String) -> StepResult {
    let faults = w.hosts.host(&host)?.faults();
    let idle: Vec<String> =
        faults.iter().filter(|f| f.hits == 0).map(|f| format!("{:?}", f.fault)).collect();
    if faults.is_empty() || !idle.is_empty() {
        return Err(StepError::Defect(format!("faults of {host} that never hit: {idle:?}")));
    }
    Ok(())
}

#[when(regex = r#"^host "([^"]*)" behaves again$"#)]
fn behaves(w: &mut World, host: String) -> StepResult {
    w.hosts.host(&host)?.clear_faults();
    Ok(())
}

#[given(regex = r#"^the agent is subscribed to "([^"]*)"$"#)]
#[when(regex = r#"^the agent is subscribed to "([^"]*)"(?: again)?$"#)]
#[then(regex = r#"^soon the agent is subscribed to "([^"]*)"$"#)]
async fn subscribed(w: &mut World, room: String) -> StepResult {
    let (host, id) = w.hosts.host_of(&room)?;
    let up = w.eventually(SOON, async |_: &mut World| Ok(host.live_subscribers(&id) > 0)).await?;
    check(up, format!("a live stream on {room}"), format!("{} streams", host.live_subscribers(&id)))
}

#[when(regex = r#"^the live streams of "([^"]*)" break$"#)]
fn streams_break(w: &mut World, room: String) -> StepResult {
    let (host, id) = w.hosts.host_of(&room)?;
    let cut = host.cut_streams(&id, End::default());
    check(cut > 0, "a live stream to break", "none")
}

#[when(regex = r#"^the head of "([^"]*)" moves(?: by (\d+))?$"#)]
fn head_moves(w: &mut World, room: String, by: String) -> StepResult {
    let (host, id) = w.hosts.host_of(&room)?;
    host.move_head(&id, by.parse().unwrap_or(1))
        .map_err(|e| StepError::Defect(format!("the resident cannot write: {e:?}")))
}

#[when(regex = r#"^host "([^"]*)" holds (\d+) requests?$"#)]
#[then(regex = r#"^host "([^"]*)" holds (\d+) requests?$"#)]
async fn host_holds(w: &mut World, host: String, count: usize) -> StepResult {
    let host = w.hosts.host(&host)?;
    let held = host.step().wait_held(count, SOON).await;
    check(held, format!("{count} held requests"), format!("{:?}", host.step().list()))
}

#[when(regex = r#"^host "([^"]*)" lets go$"#)]
fn lets_go(w: &mut World, host: String) -> StepResult {
    w.hosts.host(&host)?.step().release_all();
    Ok(())
}

#[when(regex = r#"^a record that nobody should accept enters "([^"]*)": "([^"]*)" by (\w+) with$"#)]
fn unchecked(
    w: &mut World,
    room: String,
    event_type: String,
    peer: String,
    step: &Step,
) -> StepResult {
    let payload = docstring(w, step)?;
    let (host, id) = w.hosts.host_of(&room)?;
    let state = host.state(&id).ok_or_else(|| StepError::Defect("no such room".to_owned()))?;
    let envelope = w
        .peer(&peer)?
        .sign(Some(&id), Some(&state.head), &event_type, payload, &[])
        .map_err(StepError::defect)?;
    host.append_unchecked(&id, &envelope)
        .map(|_| ())
        .map_err(|e| StepError::Defect(format!("cannot append: {e:?}")))
}

#[when(regex = r#"^the clock of the hosts advances by (\d+) s$"#)]
fn clock_advances(w: &mut World, seconds: u64) -> StepResult {
    w.hosts.clock()?.advance(seconds * 1000);
    Ok(())
}

// --- what the target sent ---

#[then(regex = r#"^host "([^"]*)" was never contacted$"#)]
fn never_contacted(w: &mut World, host: String) -> StepResult {
    let requests = w.hosts.host(&host)?.requests();
    check(requests.is_empty(), format!("no request to {host}"), list(&requests))
}

#[given(regex = r#"^we forget what host "([^"]*)" saw$"#)]
#[when(regex = r#"^we forget what host "([^"]*)" saw$"#)]
fn forget(w: &mut World, host: String) -> StepResult {
    w.hosts.host(&host)?.journal().clear();
    Ok(())
}

#[then(regex = r#"^host "([^"]*)" received (\d+) join requests? for "([^"]*)"$"#)]
fn join_requests(w: &mut World, host: String, count: usize, room: String) -> StepResult {
    let agent = w.agent_id();
    let id = w.hosts.room(&room)?.id.clone();
    let seen = w.hosts.host(&host)?.journal().count(|e| {
        e.is(Route::JoinRequest)
            && e.room.as_deref() == Some(&id)
            && e.subject.as_deref() == Some(&agent)
    });
    check(seen == count, format!("{count} join requests"), seen.to_string())
}

#[then(regex = r#"^the host's join request for "([^"]*)" has "([^"]*)" (.+)$"#)]
fn join_request_has(w: &mut World, room: String, path: String, value: String) -> StepResult {
    let wanted = w.json(&value)?;
    let (host, id) = w.hosts.host_of(&room)?;
    let dump = host.dump();
    let requests = &dump["rooms"][&id]["join_requests"];
    let agent = w.agent_id();
    let request = requests
        .as_array()
        .into_iter()
        .flatten()
        .find(|r| r["request"]["applicant"] == agent.as_str())
        .cloned()
        .unwrap_or_default();
    let seen = crate::outcome::at(&request, &path).cloned().unwrap_or(Value::Null);
    check(seen == wanted, format!("{path} = {wanted}"), brief(&request))
}

#[then(regex = r#"^host "([^"]*)" received nothing signed$"#)]
fn nothing_signed(w: &mut World, host: String) -> StepResult {
    let signed: Vec<JournalEntry> = w
        .hosts
        .host(&host)?
        .requests()
        .into_iter()
        .filter(|e| e.envelope.is_some() || e.claims.is_some() || e.token_error.is_some())
        .collect();
    check(signed.is_empty(), format!("no envelope and no token at {host}"), list(&signed))
}

fn list(requests: &[JournalEntry]) -> String {
    let lines: Vec<String> = requests.iter().map(|e| format!("{} {}", e.method, e.path)).collect();
    lines.join(", ")
}

/// Writes of the target that reached a host.
fn writes(w: &World, host: &str) -> StepResult<Vec<JournalEntry>> {
    let agent = w.agent_id();
    Ok(w.hosts
        .host(host)?
        .requests()
        .into_iter()
        .filter(|e| e.envelope.as_ref().is_some_and(|v| v["event"]["actor"] == agent.as_str()))
        .collect())
}

#[given(regex = r#"^we count from here$"#)]
#[when(regex = r#"^we count from here$"#)]
fn count_from_here(w: &mut World) -> StepResult {
    for host in w.hosts.all() {
        w.notes.insert(format!("mark {}", host.label()), json!(host.journal().mark()));
    }
    Ok(())
}

#[then(regex = r#"^(no|\d+) (?:event was|events were) sent to "([^"]*)" since$"#)]
fn sent_since(w: &mut World, count: String, host: String) -> StepResult {
    let mark = w.notes.get(&format!("mark {host}")).and_then(Value::as_u64).unwrap_or(0);
    let sent: Vec<_> = writes(w, &host)?.into_iter().filter(|e| e.n > mark).collect();
    let wanted: usize = count.parse().unwrap_or(0);
    let types: Vec<_> = sent.iter().map(|e| (e.event_type(), e.nonce())).collect();
    check(sent.len() == wanted, format!("{wanted} events sent to {host}"), format!("{types:?}"))
}

#[then(regex = r#"^at most (\d+) events were sent to "([^"]*)" since$"#)]
fn sent_at_most(w: &mut World, most: usize, host: String) -> StepResult {
    let mark = w.notes.get(&format!("mark {host}")).and_then(Value::as_u64).unwrap_or(0);
    let sent = writes(w, &host)?.into_iter().filter(|e| e.n > mark).count();
    check(sent <= most, format!("at most {most} events sent to {host}"), sent.to_string())
}

#[then(regex = r#"^host "([^"]*)" received the event "([^"]*)" (\d+) times?$"#)]
fn received(w: &mut World, host: String, event_type: String, count: usize) -> StepResult {
    let seen =
        writes(w, &host)?.iter().filter(|e| e.event_type() == Some(event_type.as_str())).count();
    check(seen == count, format!("{event_type} {count} times"), seen.to_string())
}

#[then("the nonces of everything the agent sent grow strictly")]
fn nonces_grow(w: &mut World) -> StepResult {
    let nonces: Vec<u64> =
        w.sent_envelopes().iter().filter_map(|e| e["event"]["nonce"].as_u64()).collect();
    check(nonces.len() > 1, "at least two signed events", nonces.len().to_string())?;
    let falls = nonces.windows(2).find(|p| p[1] <= p[0]);
    check(
        falls.is_none() && nonces.iter().all(|n| *n <= ap_protocol::MAX_SAFE_INTEGER),
        "strictly growing nonces within 2^53 - 1",
        format!("{nonces:?}"),
    )
}

#[then("no nonce was signed twice")]
fn no_nonce_twice(w: &mut World) -> StepResult {
    let sent = w.sent_envelopes();
    check(!sent.is_empty(), "at least one signed event", "none")?;
    match crate::world::standing::reused_nonce(&sent) {
        Some(breach) => no(breach.rule, breach.seen),
        None => Ok(()),
    }
}

#[then(regex = r#"^the agent's latest nonce is at least (\d+) s ahead$"#)]
fn nonce_ahead(w: &mut World, seconds: u64) -> StepResult {
    let least = crate::run::now_ms() + seconds * 1000;
    let seen = w.sent_envelopes().last().and_then(|e| e["event"]["nonce"].as_u64());
    check(seen >= Some(least), format!("a nonce from {least}"), format!("{seen:?}"))
}

#[then("no nonce of the agent is beyond a day from now")]
fn nonces_are_sane(w: &mut World) -> StepResult {
    let limit = crate::run::now_ms() + 86_400_000;
    let greatest =
        w.sent_envelopes().iter().filter_map(|e| e["event"]["nonce"].as_u64()).max().unwrap_or(0);
    check(greatest <= limit, format!("nonces up to {limit}"), greatest.to_string())
}

#[then(regex = r#"^no event of the agent has nonce (\d+) or another actor$"#)]
fn nothing_smuggled(w: &mut World, nonce: u64) -> StepResult {
    let agent = w.agent_id();
    let bad = w.hosts.requests().into_iter().filter_map(|e| e.envelope).find(|e| {
        let own = e["event"]["actor"] == agent.as_str();
        (own && e["event"]["nonce"] == nonce)
            || (!own && e["event"]["payload"]["content"] == "hello")
    });
    check(bad.is_none(), "nothing the agent supplied is signed", format!("{bad:?}"))
}

#[then("every event that the agent sent verifies independently")]
fn all_verify(w: &mut World) -> StepResult {
    let sent = w.sent_envelopes();
    check(!sent.is_empty(), "at least one signed event", "none")?;
    for envelope in sent {
        if let Err(e) = ap_protocol::VerifiedEnvelope::verify(&envelope) {
            return no("sound hash and signature", format!("{e}: {}", brief(&envelope)));
        }
    }
    Ok(())
}

#[then(regex = r#"^every request of "([^"]*)" at host "([^"]*)" carried a sound request JWT$"#)]
fn sound_tokens(w: &mut World, route: String, host: String) -> StepResult {
    let agent = w.agent_id();
    let host = w.hosts.host(&host)?;
    let route: Route = serde_json::from_value(json!(route)).map_err(StepError::defect)?;
    // Other agents of the story use the same host, with tokens of their own.
    let requests: Vec<JournalEntry> = host
        .requests()
        .into_iter()
        .filter(|e| e.is(route))
        .filter(|e| {
            e.claims.as_ref().is_none_or(|c| c["sub"] == agent.as_str() || e.token_error.is_some())
        })
        .collect();
    check(!requests.is_empty(), format!("requests of {}", route.as_str()), "none")?;
    for e in &requests {
        let claims = e.claims.clone().unwrap_or_default();
        let lifetime = claims["exp"]
            .as_u64()
            .unwrap_or(0)
            .saturating_sub(claims["iat"].as_u64().unwrap_or(u64::MAX));
        check(
            e.subject.as_deref() == Some(&agent)
                && e.token_error.is_none()
                && claims["aud"] == host.url()
                && claims["iss"] == claims["sub"]
                && (1..=300).contains(&lifetime),
            format!("a request JWT of the agent for {}", host.url()),
            format!("{} {}: {claims} {:?}", e.method, e.path, e.token_error),
        )?;
    }
    Ok(())
}

#[when(regex = r#"^soon host "([^"]*)" saw (\d+) requests? of "([^"]*)"$"#)]
#[then(regex = r#"^soon host "([^"]*)" saw (\d+) requests? of "([^"]*)"$"#)]
async fn saw(w: &mut World, host: String, count: usize, route: String) -> StepResult {
    let host = w.hosts.host(&host)?;
    let route: Route = serde_json::from_value(json!(route)).map_err(StepError::defect)?;
    let seen = w
        .eventually(SOON, async |_: &mut World| Ok(host.journal().count(|e| e.is(route)) >= count))
        .await?;
    check(seen, format!("{count} requests"), host.journal().count(|e| e.is(route)).to_string())
}

#[when(regex = r#"^(\d+) ms pass without any request of "([^"]*)" at host "([^"]*)"$"#)]
async fn quiet(w: &mut World, ms: u64, route: String, host: String) -> StepResult {
    let host = w.hosts.host(&host)?;
    let route: Route = serde_json::from_value(json!(route)).map_err(StepError::defect)?;
    let mark = host.journal().mark();
    let seen = host.journal().wait_after(mark, |e| e.is(route), Duration::from_millis(ms)).await;
    match seen {
        Ok(entry) => no("no request", format!("{} {}", entry.method, entry.path)),
        Err(_) => Ok(()),
    }
}
