//! `ap-connector doctor`: looks at everything a connector needs and says what to do about
//! what is missing. It signs nothing and changes nothing but an empty state directory.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use serde::Serialize;

use super::args::DoctorArgs;
use super::{CliError, exit, in_runtime, out, printable};
use crate::clock::Clock;
use crate::config::operator::Operator;
use crate::config::{ConfigError, HttpSettings, Settings};
use crate::core::Core;
use crate::http::{AllowedOrigin, Request};
use crate::store::RoomRow;

/// From here on the clocks' distance deserves a word (ms).
const SKEW_WARN_MS: u64 = 30_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    Ok,
    Warn,
    Fail,
}

#[derive(Serialize)]
struct Check {
    name: String,
    status: Status,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    then: Option<String>,
}

#[derive(Default)]
struct Report(Vec<Check>);

impl Report {
    fn ok(&mut self, name: &str, detail: impl Into<String>) {
        self.add(name, Status::Ok, detail.into(), None);
    }

    fn warn(&mut self, name: &str, detail: impl Into<String>, then: impl Into<String>) {
        self.add(name, Status::Warn, detail.into(), Some(then.into()));
    }

    fn fail(&mut self, name: &str, detail: impl Into<String>, then: impl Into<String>) {
        self.add(name, Status::Fail, detail.into(), Some(then.into()));
    }

    fn add(&mut self, name: &str, status: Status, detail: String, then: Option<String>) {
        self.0.push(Check { name: name.to_owned(), status, detail: printable(&detail), then });
    }

    fn failed(&self) -> bool {
        self.0.iter().any(|c| c.status == Status::Fail)
    }
}

pub(super) fn run(options: &DoctorArgs) -> Result<u8, CliError> {
    let mut report = Report::default();
    if let Some(settings) = settings(options, &mut report) {
        state_dir(&settings.state_dir, &mut report);
        if let Some(http) = &settings.http {
            endpoint(http, &mut report);
        }
        match Core::open(settings, Clock::system()) {
            Ok(core) => {
                database(&core, &mut report);
                rooms(&core, options, &mut report);
                if !options.offline {
                    in_runtime(hosts(&core, &mut report))?;
                }
            }
            Err(e) => report.fail(
                "database",
                e.message,
                "make the state directory usable, or name another",
            ),
        }
    }
    let failed = report.failed();
    if options.json {
        let value = serde_json::json!({ "ok": !failed, "checks": report.0 });
        out(&format!("{value:#}"));
    } else {
        for check in &report.0 {
            let mark = match check.status {
                Status::Ok => "ok  ",
                Status::Warn => "warn",
                Status::Fail => "FAIL",
            };
            out(&format!("{mark}  {:<16} {}", check.name, check.detail));
            if let Some(then) = &check.then {
                out(&format!("      {:<16} → {then}", ""));
            }
        }
    }
    Ok(if failed { exit::CHECK_FAILED } else { exit::OK })
}

fn settings(options: &DoctorArgs, report: &mut Report) -> Option<Settings> {
    let source = &options.source;
    if let Some(path) = &source.provision {
        return match Settings::from_provision(path) {
            Ok(settings) => {
                report.ok("configuration", path.display().to_string());
                Some(settings)
            }
            Err(e) => {
                report.fail("configuration", e.to_string(), "correct the provisioning document");
                None
            }
        };
    }
    // The arguments' parser saw to it that one of the two is there.
    let path: PathBuf = source.config.clone().unwrap_or_default();
    let operator = match Operator::read(&path) {
        Ok(operator) => operator,
        Err(e) => {
            report.fail(
                "configuration",
                e.to_string(),
                match e {
                    ConfigError::Read { .. } => "check the path; `ap-connector init` writes one",
                    _ => "connector.example.toml explains every member",
                },
            );
            return None;
        }
    };
    let store = operator.key_store();
    let key = match store.load(operator.agent_id()) {
        Ok(key) => key,
        Err(e) => {
            report.fail("key", e.to_string(), "without its key the connector does not start");
            return None;
        }
    };
    report.ok("key", format!("{} opens in {}", operator.agent_id(), store.place()));
    match operator.settings(key) {
        Ok(settings) => {
            report.ok("configuration", path.display().to_string());
            Some(settings)
        }
        Err(e) => {
            report.fail(
                "configuration",
                e.to_string(),
                "connector.example.toml explains every member",
            );
            None
        }
    }
}

fn state_dir(dir: &Path, report: &mut Report) {
    let shown = dir.display();
    match std::fs::metadata(dir) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            report.ok("state directory", format!("{shown} is made now"));
        }
        Err(e) => report.fail("state directory", format!("{shown}: {e}"), "check the path"),
        Ok(metadata) if !metadata.is_dir() => {
            report.fail("state directory", format!("{shown} is no directory"), "name another");
        }
        #[cfg(unix)]
        Ok(metadata) => {
            use std::os::unix::fs::PermissionsExt;
            let mode = metadata.permissions().mode() & 0o777;
            if mode & 0o077 == 0 {
                report.ok("state directory", format!("{shown}, private"));
            } else {
                report.warn(
                    "state directory",
                    format!(
                        "{shown} is open to others (mode {mode:03o}): they may read your rooms"
                    ),
                    format!("chmod 700 {shown}"),
                );
            }
        }
        #[cfg(not(unix))]
        Ok(_) => report.ok("state directory", shown.to_string()),
    }
}

fn endpoint(http: &HttpSettings, report: &mut Report) {
    match std::net::TcpListener::bind(http.listen) {
        Ok(_) => report.ok("http endpoint", format!("{} can be bound", http.listen)),
        Err(e) => report.warn(
            "http endpoint",
            format!("{}: {e}", http.listen),
            "if another connector uses it, take port 0; two cannot share it",
        ),
    }
}

fn database(core: &Arc<Core>, report: &mut Report) {
    let checked = core.store.read(|c| {
        let verdict: String = c.query_row("PRAGMA quick_check(1)", [], |r| r.get(0))?;
        let waiting: i64 = c.query_row("SELECT count(*) FROM outbox", [], |r| r.get(0))?;
        Ok::<_, rusqlite::Error>((verdict, waiting))
    });
    match checked {
        Ok((verdict, waiting)) if verdict == "ok" => {
            report.ok("database", format!("sound, {waiting} writes in the outbox"));
        }
        Ok((verdict, _)) => report.fail(
            "database",
            format!("damaged: {verdict}"),
            "put a backup back; nonces stay safe, for they follow the clock and the hosts",
        ),
        Err(e) => {
            report.fail("database", e.to_string(), "put a backup back, or name another state_dir")
        }
    }
}

fn rooms(core: &Arc<Core>, options: &DoctorArgs, report: &mut Report) {
    let Ok(rooms) = core.store.read(RoomRow::all) else { return };
    let stopped: Vec<_> = rooms.iter().filter(|r| r.condition.is_some()).collect();
    if stopped.is_empty() {
        report.ok("rooms", format!("{} known, none stopped", rooms.len()));
    }
    let source = match (&options.source.config, &options.source.provision) {
        (Some(path), _) => format!("--config {}", path.display()),
        (None, Some(path)) => format!("--provision {}", path.display()),
        (None, None) => String::new(),
    };
    for room in stopped {
        let Some(condition) = &room.condition else { continue };
        let about = format!(
            "{} on {}: {} [{}]",
            room.room_id, room.host, condition.message, condition.code
        );
        let then = if condition.sticky {
            format!(
                "ap-connector room evidence {source} {host} {id}, then room resolve",
                host = room.host,
                id = room.room_id
            )
        } else {
            "it goes on by itself when the host answers soundly".to_owned()
        };
        report.warn("room", about, then);
    }
}

async fn hosts(core: &Arc<Core>, report: &mut Report) {
    if core.http.hosts().is_empty() {
        report.fail("hosts", "the allowlist is empty", "add a [[hosts]] entry");
    }
    let mut services: Vec<(AllowedOrigin, &str)> = Vec::new();
    for host in core.http.hosts() {
        if let Ok(origin) = core.http.host(host.origin.as_str()) {
            services.push((origin, "agent-discourse"));
        }
    }
    for service in &core.profile_services {
        if let Ok(origin) = core.http.profile_service(service) {
            services.push((origin, "agent-profile"));
        }
    }
    for (origin, document) in services {
        let name = if document == "agent-discourse" { "host" } else { "profile service" };
        let path = [".well-known", document];
        let reply = core.http.exchange(&origin, &Request::get(&path)).await;
        let shown = origin.as_str();
        match reply {
            Err(e) => report.fail(
                name,
                format!("{shown}: {} [{}]", e.message, e.code),
                "check the network and the URL; rooms of this host cannot be read or written",
            ),
            Ok(reply) if reply.status != 200 || !reply.body.is_object() => report.fail(
                name,
                format!("{shown} answers {} and no discovery document", reply.status),
                "is this the origin of such a service?",
            ),
            Ok(reply) => {
                report.ok(name, format!("{shown} answers"));
                clock(core, shown, reply.date.as_deref(), report);
            }
        }
    }
}

fn clock(core: &Arc<Core>, host: &str, date: Option<&str>, report: &mut Report) {
    let Some(skew) = date.and_then(|d| skew_ms(d, core.clock.now_ms())) else { return };
    if skew >= ap_protocol::LIVE_WINDOW_MS {
        report.fail(
            "clock",
            format!("{} s away from {host}, which refuses events beyond 300 s", skew / 1000),
            "set the clock of this machine (NTP)",
        );
    } else if skew >= SKEW_WARN_MS {
        report.warn(
            "clock",
            format!("{} s away from {host}", skew / 1000),
            "let NTP set the clock",
        );
    } else {
        report.ok("clock", format!("agrees with {host}"));
    }
}

/// Distance between a `Date` header and our clock (ms).
fn skew_ms(date: &str, now_ms: u64) -> Option<u64> {
    let theirs = httpdate::parse_http_date(date).ok()?.duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(Duration::from_millis(now_ms).abs_diff(theirs).as_millis()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_are_compared_both_ways() {
        let date = "Sun, 06 Nov 1994 08:49:37 GMT";
        let at = 784_111_777_000;
        assert_eq!(skew_ms(date, at), Some(0));
        assert_eq!(skew_ms(date, at + 400_000), Some(400_000));
        assert_eq!(skew_ms(date, at - 31_000), Some(31_000));
        assert_eq!(skew_ms("yesterday", at), None);
    }
}
