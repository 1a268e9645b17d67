//! The vocabulary of the host features. Steps are thin: they arrange, act or judge once.

use std::time::Duration;

use ap_protocol::{Hash, Tip, archive};
use cucumber::gherkin::Step;
use cucumber::{given, then, when};
use serde_json::{Value, json};

use super::world::{HostWorld, list_of, verify};
use crate::failure::{StepError, StepResult, check, no};
use crate::run::now_ms;

fn docstring(step: &Step) -> &str {
    step.docstring.as_deref().unwrap_or("{}")
}

/// What the story needs to go well before anything is judged.
fn arranged(w: &HostWorld) -> StepResult {
    let reply = w.last()?;
    check(reply.ok(), "the host accepts what the story begins with", reply.brief())
}

async fn create(w: &mut HostWorld, who: &str, room: &str, changes: &str) -> StepResult {
    let changes = w.fill(changes)?;
    let peer = w.peer(who);
    let payload = peer.room_payload(changes);
    let envelope = peer.sign(None, None, "room.create", payload, &[]).map_err(StepError::defect)?;
    w.sent = envelope.clone();
    let reply = w.call("POST", "/v1/rooms", Some(envelope.to_string()), None).await?;
    if reply.ok() {
        let made = reply.json()?;
        let Some(id) = made["id"].as_str().or(made["room_id"].as_str()) else {
            return no("the id of the new room", reply.brief());
        };
        w.rooms.insert(room.to_owned(), (id.to_owned(), who.to_owned()));
    }
    Ok(())
}

// --- arranging ---

#[given(expr = "{string} has the {word} room {string}")]
async fn has_room(w: &mut HostWorld, who: String, visibility: String, room: String) -> StepResult {
    create(w, &who, &room, &json!({ "visibility": visibility }).to_string()).await?;
    arranged(w)
}

#[given(expr = "{string} has the room {string} with:")]
async fn has_room_with(w: &mut HostWorld, step: &Step, who: String, room: String) -> StepResult {
    create(w, &who, &room, docstring(step)).await?;
    arranged(w)
}

#[given(expr = "{string} is a {word} in {string}")]
async fn is_member(w: &mut HostWorld, who: String, role: String, room: String) -> StepResult {
    let creator = w.creator(&room)?;
    let id = w.room(&room)?;
    let resource = w.call("GET", &format!("/v1/rooms/{id}"), None, Some(&creator)).await?;
    if resource.json()?["visibility"] == "public" {
        w.send(&who, &room, "room.join", json!({ "role": role })).await?;
    } else {
        ask(w, &who, &room, &role).await?;
        arranged(w)?;
        approve(w, &creator, &who, &room, Some(&role)).await?;
        arranged(w)?;
        join_with(w, &who, &room, &role).await?;
    }
    arranged(w)
}

#[given(expr = "{string} said {string} in {string}")]
async fn said(w: &mut HostWorld, who: String, text: String, room: String) -> StepResult {
    says(w, who, text, room).await?;
    arranged(w)
}

#[given(expr = "{string} sent {string} to {string} with:")]
async fn sent(
    w: &mut HostWorld,
    step: &Step,
    who: String,
    kind: String,
    room: String,
) -> StepResult {
    sends(w, step, who, kind, room).await?;
    arranged(w)
}

#[given(expr = "{string} asked to join {string} as {string}")]
async fn asked(w: &mut HostWorld, who: String, room: String, role: String) -> StepResult {
    ask(w, &who, &room, &role).await?;
    arranged(w)
}

#[given(expr = "{string} approved {string} for {string} as {string}")]
async fn approved(
    w: &mut HostWorld,
    who: String,
    whom: String,
    room: String,
    role: String,
) -> StepResult {
    approve(w, &who, &whom, &room, Some(&role)).await?;
    arranged(w)
}

#[given(expr = "the head of {string} is noted")]
async fn note_head(w: &mut HostWorld, room: String) -> StepResult {
    let creator = w.creator(&room)?;
    let (head, _) = w.tips(&creator, &room).await?;
    w.noted.insert(room, head);
    Ok(())
}

#[given(expr = "{string} listens to {string}")]
async fn listens(w: &mut HostWorld, who: String, room: String) -> StepResult {
    w.listen(&who, &room).await?;
    arranged(w)
}

// --- acting ---

#[when(expr = "{string} creates the room {string} with:")]
async fn creates(w: &mut HostWorld, step: &Step, who: String, room: String) -> StepResult {
    create(w, &who, &room, docstring(step)).await
}

#[when(expr = "{string} says {string} in {string}")]
async fn says(w: &mut HostWorld, who: String, text: String, room: String) -> StepResult {
    let payload = json!({ "content_type": "text/plain", "content": text });
    w.send(&who, &room, "message.create", payload).await.map(|_| ())
}

#[when(expr = "{string} says {string} in {string} on the noted head")]
async fn says_late(w: &mut HostWorld, who: String, text: String, room: String) -> StepResult {
    let base = w.noted.get(&room).copied();
    let base = base.ok_or_else(|| StepError::Defect("no head was noted".to_owned()))?;
    let id = w.room(&room)?;
    let payload = json!({ "content_type": "text/plain", "content": text });
    let envelope = w
        .peer(&who)
        .sign(Some(&id), Some(&base), "message.create", payload, &[])
        .map_err(StepError::defect)?;
    w.post(&room, &envelope).await.map(|_| ())
}

#[when(expr = "{string} leaves {string} anchored to {string}")]
async fn leaves_anchored(
    w: &mut HostWorld,
    who: String,
    room: String,
    anchor: String,
) -> StepResult {
    let creator = w.creator(&room)?;
    let base = match anchor.as_str() {
        "the first record" => {
            let first = w.history(Some(&creator), &room).await?;
            let hash = first[0]["hash"].as_str().and_then(|t| Hash::parse(t).ok());
            Tip { seq: 1, hash: hash.ok_or_else(|| StepError::Defect("no hash".to_owned()))? }
        }
        "no record" => Tip { seq: 1, hash: Hash::of(b"no record has this hash") },
        _ => Tip { seq: 999_999, hash: w.tips(&creator, &room).await?.0.hash },
    };
    let id = w.room(&room)?;
    let envelope = w
        .peer(&who)
        .sign(Some(&id), Some(&base), "room.leave", json!({}), &[])
        .map_err(StepError::defect)?;
    w.post(&room, &envelope).await.map(|_| ())
}

#[when(expr = "{string} joins {string} as {string}")]
async fn joins(w: &mut HostWorld, who: String, room: String, role: String) -> StepResult {
    w.send(&who, &room, "room.join", json!({ "role": role })).await.map(|_| ())
}

#[when(expr = "{string} joins {string} as {string} with the request")]
async fn joins_with(w: &mut HostWorld, who: String, room: String, role: String) -> StepResult {
    join_with(w, &who, &room, &role).await
}

async fn join_with(w: &mut HostWorld, who: &str, room: &str, role: &str) -> StepResult {
    let id = w.requests.get(who).map_or(json!("no-such-request"), |r| r["id"].clone());
    let payload = json!({ "role": role, "request_id": id });
    w.send(who, room, "room.join", payload).await.map(|_| ())
}

#[when(expr = "{string} sends {string} to {string} with:")]
async fn sends(
    w: &mut HostWorld,
    step: &Step,
    who: String,
    kind: String,
    room: String,
) -> StepResult {
    let payload = w.fill(docstring(step))?;
    w.send(&who, &room, &kind, payload).await.map(|_| ())
}

#[when(expr = "{string} sends the same envelope to {string} again")]
async fn sends_again(w: &mut HostWorld, _who: String, room: String) -> StepResult {
    let envelope = w.sent.clone();
    w.post(&room, &envelope).await.map(|_| ())
}

#[when(expr = "{string} posts a message to {string} that is {string}")]
async fn posts_flawed(w: &mut HostWorld, who: String, room: String, flaw: String) -> StepResult {
    let payload = json!({ "content_type": "text/plain", "content": "as signed" });
    let mut envelope = w.sign(&who, &room, "message.create", payload).await?;
    let mut event = envelope["event"].clone();
    let mut resign = true;
    match flaw.as_str() {
        "changed after signing" => {
            envelope["event"]["payload"]["content"] = json!("changed");
            resign = false;
        }
        "signed by another agent" => {
            envelope["signature"] =
                w.peer("a stranger").sign_raw(event.clone())["signature"].clone();
            resign = false;
        }
        "without a signature" => {
            if let Value::Object(members) = &mut envelope {
                members.remove("signature");
            }
            resign = false;
        }
        "by nobody" => event["actor"] = json!("did:agent:nobody"),
        "dated ten minutes ago" => event["created_at"] = json!(now_ms() - 600_000),
        "dated ten minutes ahead" => event["created_at"] = json!(now_ms() + 600_000),
        "carrying an unknown member" => event["colour"] = json!("green"),
        "carrying an unknown payload member" => event["payload"]["colour"] = json!("green"),
        "without content" => event["payload"] = json!({ "content_type": "text/plain" }),
        "for another protocol" => event["protocol"] = json!("agent-discourse/9.0"),
        "for another room" => event["room_id"] = json!("d8ftedhpqhsusbg00000"),
        "without a base" => {
            if let Value::Object(members) = &mut event {
                members.remove("base_seq");
                members.remove("base_hash");
            }
        }
        "mentioning one agent twice" => {
            let id = w.peer("mentioned").id();
            event["mentions"] = json!([id, id]);
        }
        "with a used nonce" => event["nonce"] = json!(1),
        other => return Err(StepError::Defect(format!("unknown flaw {other:?}"))),
    }
    if resign {
        envelope = w.peer(&who).sign_raw(event);
    }
    w.post(&room, &envelope).await.map(|_| ())
}

#[when(expr = "{string} posts a message to {string} with a member twice")]
async fn posts_duplicate(w: &mut HostWorld, who: String, room: String) -> StepResult {
    let payload = json!({ "content_type": "text/plain", "content": "x" });
    let envelope = w.sign(&who, &room, "message.create", payload).await?;
    let text = envelope.to_string().replacen('{', "{\"hash\":\"other\",", 1);
    let id = w.room(&room)?;
    w.call("POST", &format!("/v1/rooms/{id}"), Some(text), None).await.map(|_| ())
}

#[when(expr = "{string} asks to join {string} as {string}")]
async fn asks(w: &mut HostWorld, who: String, room: String, role: String) -> StepResult {
    ask(w, &who, &room, &role).await
}

async fn ask(w: &mut HostWorld, who: &str, room: &str, role: &str) -> StepResult {
    let id = w.room(room)?;
    let body = json!({ "role": role, "perspective": "tester" }).to_string();
    let path = format!("/v1/rooms/{id}/join-requests");
    let reply = w.call("POST", &path, Some(body), Some(who)).await?;
    if reply.ok() {
        let filed = reply.json()?;
        w.requests.insert(who.to_owned(), filed["request"].clone());
    }
    Ok(())
}

async fn approve(
    w: &mut HostWorld,
    who: &str,
    whom: &str,
    room: &str,
    role: Option<&str>,
) -> StepResult {
    let request = w.requests.get(whom).cloned().unwrap_or(Value::Null);
    let payload = match role {
        Some(role) => json!({ "request": request, "decision": "approve", "role": role }),
        None => json!({ "request": request, "decision": "reject" }),
    };
    w.send(who, room, "room.join.review", payload).await.map(|_| ())
}

#[when(expr = "{string} approves {string} for {string} as {string}")]
async fn approves(
    w: &mut HostWorld,
    who: String,
    whom: String,
    room: String,
    role: String,
) -> StepResult {
    approve(w, &who, &whom, &room, Some(&role)).await
}

#[when(expr = "{string} rejects {string} for {string}")]
async fn rejects(w: &mut HostWorld, who: String, whom: String, room: String) -> StepResult {
    approve(w, &who, &whom, &room, None).await
}

#[when(expr = "{string} approves a changed request of {string} for {string}")]
async fn approves_changed(
    w: &mut HostWorld,
    who: String,
    whom: String,
    room: String,
) -> StepResult {
    let mut request = w.requests.get(&whom).cloned().unwrap_or(Value::Null);
    request["role"] = json!("moderator");
    let payload = json!({ "request": request, "decision": "approve", "role": "moderator" });
    w.send(&who, &room, "room.join.review", payload).await.map(|_| ())
}

fn part(what: &str) -> StepResult<&'static str> {
    match what {
        "room" => Ok(""),
        "history" => Ok("/events"),
        "archive" => Ok("/archive"),
        "statuses" => Ok("/agent-status"),
        "join requests" => Ok("/join-requests"),
        other => Err(StepError::Defect(format!("unknown part {other:?}"))),
    }
}

#[when(expr = "{string} reads the {string} of {string}")]
async fn reads(w: &mut HostWorld, who: String, what: String, room: String) -> StepResult {
    let path = format!("/v1/rooms/{}{}", w.room(&room)?, part(&what)?);
    w.call("GET", &path, None, Some(&who)).await.map(|_| ())
}

#[when(expr = "somebody without a token reads the {string} of {string}")]
async fn reads_anonymously(w: &mut HostWorld, what: String, room: String) -> StepResult {
    let path = format!("/v1/rooms/{}{}", w.room(&room)?, part(&what)?);
    w.call("GET", &path, None, None).await.map(|_| ())
}

#[when(expr = "{string} reads the {string} of {string} with a token that is {string}")]
async fn reads_badly(
    w: &mut HostWorld,
    who: String,
    what: String,
    room: String,
    flaw: String,
) -> StepResult {
    let path = format!("/v1/rooms/{}{}", w.room(&room)?, part(&what)?);
    let (url, now) = (w.url.clone(), now_ms() / 1000);
    let peer = w.peer(&who);
    let token = match flaw.as_str() {
        "for another host" => ap_protocol::jwt::sign(peer.key(), "https://other.example", now, 300),
        "expired" => ap_protocol::jwt::sign(peer.key(), &url, now - 900, 300),
        "from the future" => ap_protocol::jwt::sign(peer.key(), &url, now + 900, 300),
        _ => {
            // A character in the middle of the signature: every one of its bits counts.
            let mut token = ap_protocol::jwt::sign(peer.key(), &url, now, 300);
            let at = token.len() - 10;
            let other = if token[at..].starts_with('A') { "Q" } else { "A" };
            token.replace_range(at..=at, other);
            token
        }
    };
    w.call_with("GET", &path, None, Some(token)).await.map(|_| ())
}

#[when(expr = "{string} reads the request of {string} for {string}")]
async fn reads_request(w: &mut HostWorld, who: String, whom: String, room: String) -> StepResult {
    let id = w.requests.get(&whom).and_then(|r| r["id"].as_str()).unwrap_or("none").to_owned();
    let path = format!("/v1/rooms/{}/join-requests/{id}", w.room(&room)?);
    w.call("GET", &path, None, Some(&who)).await.map(|_| ())
}

#[when(expr = "{string} asks for {string}")]
async fn asks_for(w: &mut HostWorld, who: String, path: String) -> StepResult {
    w.call("GET", &path, None, Some(&who)).await.map(|_| ())
}

#[when(expr = "{string} searches public rooms for the topic of {string}")]
async fn searches(w: &mut HostWorld, who: String, room: String) -> StepResult {
    let creator = w.creator(&room)?;
    let id = w.peer(&creator).id();
    w.call("GET", &format!("/v1/rooms/public?creator={id}"), None, Some(&who)).await.map(|_| ())
}

#[when(expr = "{string} sets the status {string} in {string}")]
async fn sets_status(w: &mut HostWorld, who: String, state: String, room: String) -> StepResult {
    let path = format!("/v1/rooms/{}/agent-status", w.room(&room)?);
    w.call("PUT", &path, Some(json!({ "state": state }).to_string()), Some(&who)).await.map(|_| ())
}

#[when(expr = "{string} tries to listen to {string}")]
async fn tries_to_listen(w: &mut HostWorld, who: String, room: String) -> StepResult {
    w.listen(&who, &room).await
}

#[when(expr = "the room {string} has started")]
async fn has_started(w: &mut HostWorld, room: String) -> StepResult {
    let (id, creator) = (w.room(&room)?, w.creator(&room)?);
    let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
    loop {
        let reply = w.call("GET", &format!("/v1/rooms/{id}"), None, Some(&creator)).await?;
        if reply.json()?["status"] == "active" {
            return Ok(());
        }
        if tokio::time::Instant::now() > deadline {
            return no("the room is active once its start time has come", reply.brief());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

// --- judging ---

#[then("it is accepted")]
fn is_accepted(w: &mut HostWorld) -> StepResult {
    let reply = w.last()?;
    check(reply.ok(), "an accepting answer", reply.brief())
}

#[then(expr = "it is refused as {string}")]
fn is_refused_as(w: &mut HostWorld, code: String) -> StepResult {
    let reply = w.last()?;
    let named = code.split(" or ").any(|c| c == reply.code());
    check(named && reply.status >= 400, format!("a refusal with the code {code}"), reply.brief())?;
    let error = reply.json()?;
    check(
        error["error"]["message"].is_string(),
        "an error object with code and message",
        reply.brief(),
    )
}

#[then("it is refused")]
fn is_refused(w: &mut HostWorld) -> StepResult {
    let reply = w.last()?;
    check((400..500).contains(&reply.status), "a refusal (4xx)", reply.brief())
}

#[then("the answer is the accepted record of what was sent")]
fn is_the_record(w: &mut HostWorld) -> StepResult {
    let record = w.last()?.json()?;
    let id = record["room_id"].as_str().unwrap_or_default().to_owned();
    if let Err(e) = ap_protocol::CheckedRecord::check(&record, &id) {
        return no("a record that recomputes", e.to_string());
    }
    check(record["envelope"] == w.sent, "the envelope that was sent, unchanged", record.to_string())
}

#[then("the answer says the greatest nonce seen")]
fn says_nonce(w: &mut HostWorld) -> StepResult {
    let reply = w.last()?;
    let seen = reply.max_seen_nonce.as_deref().and_then(|n| n.parse::<u64>().ok());
    let have = format!("Max-Seen-Nonce: {:?}", reply.max_seen_nonce);
    check(seen.is_some_and(|n| n > 0), "a Max-Seen-Nonce header with a decimal integer", have)
}

#[then(expr = "the answer names the head of {string} as the current one")]
async fn names_head(w: &mut HostWorld, room: String) -> StepResult {
    let creator = w.creator(&room)?;
    let (head, _) = w.tips(&creator, &room).await?;
    let noted = w.noted.get(&room).copied().unwrap_or(head);
    let data = w.last()?.json()?["error"]["data"].clone();
    let right = data["current_seq"] == head.seq
        && data["current_hash"] == json!(head.hash)
        && data["base_seq"] == noted.seq
        && data["base_hash"] == json!(noted.hash)
        && data["events_url"].is_string();
    check(
        right,
        format!(
            "data with base_seq {}, current_seq {}, both hashes and events_url",
            noted.seq, head.seq
        ),
        data.to_string(),
    )
}

#[then(expr = "the head of {string} has moved")]
async fn head_moved(w: &mut HostWorld, room: String) -> StepResult {
    let creator = w.creator(&room)?;
    let (head, _) = w.tips(&creator, &room).await?;
    let noted = w.noted.get(&room).copied();
    check(Some(head) != noted, "another head than before", format!("{head:?}"))
}

#[then(expr = "the head of {string} has not moved")]
async fn head_stayed(w: &mut HostWorld, room: String) -> StepResult {
    let creator = w.creator(&room)?;
    let (head, _) = w.tips(&creator, &room).await?;
    let noted = w.noted.get(&room).copied();
    check(Some(head) == noted, format!("the head {noted:?}"), format!("{head:?}"))
}

#[then(expr = "the history of {string} verifies and has {int} records")]
async fn history_verifies(w: &mut HostWorld, room: String, count: usize) -> StepResult {
    let creator = w.creator(&room)?;
    let id = w.room(&room)?;
    let records = w.history(Some(&creator), &room).await?;
    let state = verify(&id, &records)?;
    check(records.len() == count, format!("{count} records"), format!("{}", records.len()))?;
    let (head, latest) = w.tips(&creator, &room).await?;
    check(
        (head, latest) == (state.head, state.tip),
        format!("a room resource with head {:?} and latest {:?}", state.head, state.tip),
        format!("{head:?}, {latest:?}"),
    )
}

#[then(expr = "{string} is {word} in {string} by replay")]
async fn has_standing(
    w: &mut HostWorld,
    who: String,
    standing: String,
    room: String,
) -> StepResult {
    let creator = w.creator(&room)?;
    let id = w.room(&room)?;
    let records = w.history(Some(&creator), &room).await?;
    let state = verify(&id, &records)?;
    let agent = w.peer(&who).id();
    let seen = match state.members.get(&agent) {
        Some(m) if m.status == ap_protocol::room::MemberStatus::Active => {
            m.role.map_or("active", ap_protocol::room::Role::as_str)
        }
        Some(m) => m.status.as_str(),
        None => "unknown",
    };
    check(seen == standing, standing, seen)
}

#[then(expr = "pages of the history of {string} join without gap or repeat")]
async fn pages_join(w: &mut HostWorld, room: String) -> StepResult {
    let creator = w.creator(&room)?;
    let id = w.room(&room)?;
    let mut seqs = Vec::new();
    loop {
        let after = seqs.last().copied().unwrap_or(0u64);
        let path = format!("/v1/rooms/{id}/events?after_seq={after}&limit=2");
        let reply = w.call("GET", &path, None, Some(&creator)).await?;
        let page = list_of(&reply)?;
        check(page.len() <= 2, "at most as many records as the limit says", reply.brief())?;
        if page.is_empty() {
            break;
        }
        seqs.extend(page.iter().filter_map(|r| r["seq"].as_u64()));
        check(seqs.last() > Some(&after), "progress", reply.brief())?;
    }
    let want: Vec<u64> = (1..=seqs.len() as u64).collect();
    check(seqs == want && seqs.len() > 2, "seqs from 1 without a hole", format!("{seqs:?}"))
}

#[then(expr = "the list contains {string}")]
fn contains(w: &mut HostWorld, room: String) -> StepResult {
    let id = w.room(&room)?;
    let list = list_of(w.last()?)?;
    let there = list.iter().any(|r| r["id"] == id.as_str() || r["room_id"] == id.as_str());
    check(there, format!("the room {id} in the list"), w.last()?.brief())
}

#[then(expr = "the list does not contain {string}")]
fn contains_not(w: &mut HostWorld, room: String) -> StepResult {
    let id = w.room(&room)?;
    let list = list_of(w.last()?)?;
    let there = list.iter().any(|r| r["id"] == id.as_str() || r["room_id"] == id.as_str());
    check(!there, format!("a list without the room {id}"), w.last()?.brief())
}

#[then(expr = "the answer's {string} is {string}")]
fn member_is(w: &mut HostWorld, pointer: String, value: String) -> StepResult {
    let json = w.last()?.json()?;
    let seen = json.pointer(&pointer).cloned().unwrap_or(Value::Null);
    let text = seen.as_str().map_or_else(|| seen.to_string(), str::to_owned);
    check(text == value, format!("{pointer} = {value}"), w.last()?.brief())
}

#[then("the discovery document is complete")]
fn discovery(w: &mut HostWorld) -> StepResult {
    let d = w.last()?.json()?;
    let whole = d["protocol"] == ap_protocol::DISCOURSE_PROTOCOL
        && d["host"].is_string()
        && d["features"].as_array().is_some_and(|f| f.contains(&json!("rooms")))
        && d["endpoints"].is_object();
    check(whole, "protocol, host, features with rooms, endpoints", w.last()?.brief())
}

#[then(expr = "the archive of {string} verifies")]
async fn archive_verifies(w: &mut HostWorld, room: String) -> StepResult {
    let creator = w.creator(&room)?;
    let id = w.room(&room)?;
    let reply = w.call("GET", &format!("/v1/rooms/{id}/archive"), None, Some(&creator)).await?;
    let parts = match archive::Part::of_document(reply.json()?) {
        Ok(parts) => parts,
        Err(e) => return no("an archive document", e.to_string()),
    };
    let mut records = Vec::new();
    let mut manifest = Value::Null;
    for part in parts {
        match part {
            archive::Part::Record(record) => records.push(record),
            archive::Part::Manifest(m) => manifest = m,
            _ => {}
        }
    }
    let state = verify(&id, &records)?;
    let digest = json!(archive::events_sha3_256(&records));
    let right = manifest["events_sha3_256"] == digest
        && manifest["last_hash"] == json!(state.tip.hash)
        && manifest["event_count"] == records.len();
    check(right, format!("a manifest with events_sha3_256 {digest}"), manifest.to_string())
}

#[then(expr = "{string} hears the {string} {string}")]
async fn hears(w: &mut HostWorld, who: String, event: String, kind: String) -> StepResult {
    let expected = format!("{event} of {kind} on the stream of {who}");
    let Some(heard) = w.hear(&who).await? else { return no(expected, "the stream ended") };
    let data = match ap_protocol::json::parse(heard.data.as_bytes()) {
        Ok(data) => data,
        Err(e) => return no(expected, format!("{e}: {}", heard.data)),
    };
    let right = heard.event == event
        && (event != "room.event" || data["envelope"]["event"]["type"] == kind.as_str());
    check(right, expected, format!("{} {data}", heard.event))
}

#[then(expr = "the stream of {string} ends")]
async fn stream_ends(w: &mut HostWorld, who: String) -> StepResult {
    match w.hear(&who).await? {
        None => Ok(()),
        Some(event) => no("the end of the stream", format!("{} {}", event.event, event.data)),
    }
}
