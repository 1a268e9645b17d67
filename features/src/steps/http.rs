//! The loopback HTTP endpoint: authentication, Origin, Host, sessions.

use std::net::IpAddr;
use std::time::Duration;

use cucumber::gherkin::Step;
use cucumber::{given, then, when};
use serde_json::{Value, json};

use super::rooms::SOON;
use crate::failure::{StepError, StepResult, check, no};
use crate::http_session::{HttpSession, exchange};
use crate::mcp::{PROTOCOL_VERSION, Session};
use crate::world::{AGENT, World, target_error};

fn ask_for_http(w: &mut World, listen: &str) -> std::path::PathBuf {
    let url_file = w.dir.path().join("http-url");
    let token = w.http_token();
    w.log.hide(&token, "http token");
    w.provision.http = Some(json!({ "listen": listen, "token": token, "url_file": url_file }));
    url_file
}

async fn url_of(w: &mut World, file: &std::path::Path) -> StepResult<Option<url::Url>> {
    let mut found = None;
    w.eventually(SOON, async |_: &mut World| {
        // A half-written file is no URL yet.
        let text = std::fs::read_to_string(file).unwrap_or_default();
        found = url::Url::parse(text.trim()).ok().filter(|u| u.port_or_known_default().is_some());
        Ok(found.is_some())
    })
    .await?;
    Ok(found)
}

#[given("the connector also serves HTTP")]
async fn serves_http(w: &mut World) -> StepResult {
    w.needs("http")?;
    let file = ask_for_http(w, "127.0.0.1:0");
    w.start(AGENT).await?;
    match url_of(w, &file).await? {
        Some(url) => {
            w.notes.insert("http url".to_owned(), json!(url.as_str()));
            Ok(())
        }
        None => no("a URL in the url_file", std::fs::read_to_string(&file).unwrap_or_default()),
    }
}

#[then("the endpoint's address is a loopback address")]
async fn is_loopback(w: &mut World) -> StepResult {
    let text = w.notes["http url"].as_str().unwrap_or_default().to_owned();
    let url = url::Url::parse(&text).map_err(StepError::defect)?;
    check(loopback(&url), "http on 127.0.0.1 or ::1", text)?;
    nobody_elsewhere(&url).await
}

/// The URL may say loopback while the socket does not: knocks on other addresses.
async fn nobody_elsewhere(url: &url::Url) -> StepResult {
    let port = url.port_or_known_default().unwrap_or(80);
    for ip in other_addresses(url) {
        let knock = tokio::net::TcpStream::connect((ip, port));
        let open = tokio::time::timeout(Duration::from_secs(2), knock).await;
        check(!matches!(open, Ok(Ok(_))), "no listener but on the loopback", ip.to_string())?;
    }
    Ok(())
}

fn loopback(url: &url::Url) -> bool {
    match url.host() {
        Some(url::Host::Ipv4(ip)) => ip.is_loopback(),
        Some(url::Host::Ipv6(ip)) => ip.is_loopback(),
        Some(url::Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

#[when(regex = r#"^the connector is asked to listen on "([^"]*)"$"#)]
async fn listens_elsewhere(w: &mut World, listen: String) -> StepResult {
    if let Some(session) = w.sessions.remove(AGENT) {
        let _ = session.stop(Duration::from_secs(5)).await;
        w.ended.push(session);
    }
    let file = ask_for_http(w, &listen);
    let _ = std::fs::remove_file(&file);
    let mut session = Session::start(&w.launch(AGENT)?).map_err(target_error)?;
    // Refusing to start is one right answer, so an error here is none.
    let _ = session.initialize(PROTOCOL_VERSION, w.run.timeout()).await;
    w.notes
        .insert("http url".to_owned(), json!(std::fs::read_to_string(&file).unwrap_or_default()));
    w.sessions.insert(AGENT.to_owned(), session);
    Ok(())
}

#[then("it does not serve beyond the loopback")]
async fn not_beyond(w: &mut World) -> StepResult {
    let text = w.notes["http url"].as_str().unwrap_or_default().trim().to_owned();
    let running = w.session(AGENT)?.is_running();
    if !running || text.is_empty() {
        return Ok(());
    }
    let url = url::Url::parse(&text).map_err(StepError::defect)?;
    check(loopback(&url), "a refusal, or an endpoint on the loopback only", text)?;
    nobody_elsewhere(&url).await
}

/// Addresses of this machine on which nothing may listen: what a routing question tells, and
/// where it is one, a second loopback address, which only a listener for all addresses answers.
fn other_addresses(url: &url::Url) -> Vec<IpAddr> {
    let probe = std::net::UdpSocket::bind("0.0.0.0:0").and_then(|s| {
        // Connecting a datagram socket sends nothing; it only picks a source address.
        s.connect("192.0.2.1:9")?;
        s.local_addr()
    });
    let second = IpAddr::from([127, 0, 0, 2]);
    let own = probe.map(|a| a.ip()).into_iter().filter(|ip| !ip.is_loopback());
    let asked = url.host_str() != Some(second.to_string().as_str());
    own.chain(asked.then_some(second)).collect()
}

#[when(regex = r#"^a (POST|GET|DELETE) arrives with the headers$"#)]
async fn arrives(w: &mut World, method: String, step: &Step) -> StepResult {
    let table = step
        .table
        .as_ref()
        .ok_or_else(|| StepError::Defect("the step needs a table".to_owned()))?;
    let mut headers = Vec::new();
    for row in &table.rows {
        let [name, value] = &row[..] else {
            return Err(StepError::Defect("two columns: name and value".to_owned()));
        };
        headers.push((name.clone(), w.fill(value)?));
    }
    let url = url::Url::parse(w.notes["http url"].as_str().unwrap_or_default())
        .map_err(StepError::defect)?;
    let authority = w.endpoint()?.0;
    let body = json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": { "protocolVersion": PROTOCOL_VERSION, "capabilities": {},
                    "clientInfo": { "name": "conformance", "version": "1" } },
    })
    .to_string();
    let body = (method == "POST").then_some(body.as_str());
    // A wrong answer to GET would be an endless stream: any byte of it is enough.
    let enough = |body: &str| !body.is_empty();
    let timeout = w.run.timeout();
    let answer = exchange(&authority, &method, url.path(), &headers, body, timeout, enough).await;
    let answer = answer.map_err(StepError::Target)?;
    w.log.push("http<", &format!("{method} -> {} {}", answer.status, answer.body));
    w.notes.insert("http status".to_owned(), json!(answer.status));
    w.notes.insert("http body".to_owned(), json!(answer.body));
    Ok(())
}

#[then(regex = r#"^the HTTP status is (\d+)$"#)]
fn status_is(w: &mut World, status: u64) -> StepResult {
    check(
        w.notes["http status"] == status,
        format!("status {status}"),
        format!("{} {}", w.notes["http status"], w.notes["http body"]),
    )
}

#[then("the HTTP request is refused")]
fn is_refused(w: &mut World) -> StepResult {
    let status = w.notes["http status"].as_u64().unwrap_or(0);
    let answered = w.notes["http body"].as_str().is_some_and(|b| b.contains("serverInfo"));
    check(
        (400..500).contains(&status) && !answered,
        "a 4xx status and no MCP answer",
        format!("{status} {}", w.notes["http body"]),
    )
}

#[when(regex = r#"^HTTP session "([^"]*)" starts$"#)]
async fn http_starts(w: &mut World, name: String) -> StepResult {
    let url = url::Url::parse(w.notes["http url"].as_str().unwrap_or_default())
        .map_err(StepError::defect)?;
    let mut session = HttpSession::new(&url, w.http_token(), &name, w.log.clone());
    let initialized = session.initialize(w.run.timeout()).await.map_err(target_error)?;
    check(initialized["serverInfo"].is_object(), "an initialize result", initialized.to_string())?;
    w.http.insert(name, session);
    Ok(())
}

#[then("the token is in no output and not on stderr")]
fn token_is_secret(w: &mut World) -> StepResult {
    let token = w.http_token();
    let session = w.session(AGENT)?;
    let mut texts = session.heard();
    texts.extend(session.stderr_tail());
    texts.push(w.notes.get("http body").and_then(Value::as_str).unwrap_or_default().to_owned());
    if let Some(last) = &w.last {
        texts.push(last.brief());
    }
    let leak = texts.iter().find(|t| t.contains(&token));
    check(leak.is_none(), "no bearer token in any output", "the token is there")
}
