//! What the operator decides: identity, state directory, hosts, watch rules, tuning.
//!
//! Two documents lead to the same [`Settings`]: the provisioning JSON of the conformance
//! contract and the operator's TOML. Both are closed: an unknown member is an error.

#[cfg(test)]
mod drift;
pub mod operator;

use std::collections::BTreeMap;
use std::io::Read;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ap_protocol::origin::Origin;
use ap_protocol::{AgentId, SecretKey, encoding, json};
use serde::Deserialize;
use serde_json::Value;

use crate::keystore::KeyStoreError;

/// JSON Schema of the provisioning document.
pub const PROVISION_SCHEMA: &str = include_str!("../provision.schema.json");

/// Longest HTTP token in a file (bytes).
const MAX_TOKEN_BYTES: u64 = 4096;
/// Longest configuration (bytes).
const MAX_CONFIG_BYTES: u64 = 4 * 1024 * 1024;

/// Why the configuration is unusable.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The text is no document of this kind.
    #[error("{0}")]
    Document(String),
    /// A host or profile service is not acceptable.
    #[error("{member} {value:?}: {why}")]
    Origin {
        /// Where it stands.
        member: String,
        /// What stands there.
        value: String,
        /// Why it is refused.
        why: String,
    },
    /// The identity cannot be used.
    #[error("identity: {0}")]
    Identity(String),
    /// The HTTP listener is not on loopback.
    #[error(
        "http.listen {0}: only 127.0.0.1 and ::1 are allowed; use an SSH tunnel for remote clients"
    )]
    NotLoopback(String),
}

impl ConfigError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            ConfigError::Read { .. } => "config_unreadable",
            ConfigError::Document(_) => "config_invalid",
            ConfigError::Origin { .. } => "config_origin_refused",
            ConfigError::Identity(_) => "config_identity_refused",
            ConfigError::NotLoopback(_) => "http_not_loopback",
        }
    }
}

/// A service the operator allows signed requests to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostEntry {
    /// Its origin.
    pub origin: Origin,
    /// Display name.
    pub label: String,
    /// Where profiles of this host's agents are read.
    pub profile_service: Option<Origin>,
}

/// Which custom events wake the agent.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WatchRule {
    /// Event type, or a prefix ending in `*`.
    #[serde(rename = "type")]
    pub event_type: String,
    /// Only in this room.
    #[serde(default, deserialize_with = "given")]
    pub room_id: Option<String>,
    /// Only on this host.
    #[serde(default, deserialize_with = "given")]
    pub host: Option<String>,
}

impl WatchRule {
    /// Whether the rule names this event.
    pub fn matches(&self, host: &str, room_id: &str, event_type: &str) -> bool {
        let by_type = match self.event_type.strip_suffix('*') {
            Some(prefix) => event_type.starts_with(prefix),
            None => self.event_type == event_type,
        };
        by_type
            && self.room_id.as_deref().is_none_or(|r| r == room_id)
            && self.host.as_deref().is_none_or(|h| h.trim_end_matches('/') == host)
    }
}

/// The loopback HTTP endpoint.
#[derive(Clone)]
pub struct HttpSettings {
    /// Loopback address; port 0 picks a free one.
    pub listen: SocketAddr,
    /// Bearer token that clients must present.
    pub token: String,
    /// Where to write the endpoint's URL once it is up.
    pub url_file: Option<PathBuf>,
}

impl std::fmt::Debug for HttpSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpSettings").field("listen", &self.listen).finish_non_exhaustive()
    }
}

/// Times and sizes. Reference-only: no other connector needs to know these.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tuning {
    /// Time for a TCP and TLS connection (ms).
    pub connect_timeout_ms: u64,
    /// Time for a whole request but a stream (ms).
    pub request_timeout_ms: u64,
    /// First pause before a stream is opened again (ms); doubles up to `backoff_max_ms`.
    pub backoff_base_ms: u64,
    /// Longest pause (ms).
    pub backoff_max_ms: u64,
    /// A stream without a byte for this long is given up (ms).
    pub idle_timeout_ms: u64,
    /// Pause between history reads where the host refuses a stream (ms).
    pub poll_ms: u64,
    /// Pause between looks at the history while a stream is up (ms): a stream may swallow
    /// events and look alive.
    pub resync_ms: u64,
    /// Pause between looks at a pending join request (ms).
    pub join_poll_ms: u64,
    /// Records asked for in one page.
    pub page_limit: u64,
    /// Largest response body (bytes).
    pub max_response_bytes: usize,
    /// How long a claimed inbox item is hidden from other sessions (ms).
    pub claim_lease_ms: u64,
    /// Own limit on signed writes a minute, in one room.
    pub writes_per_minute: u32,
    /// How long a profile is served from the state database (ms).
    pub profile_cache_ms: u64,
}

impl Default for Tuning {
    fn default() -> Self {
        Tuning {
            connect_timeout_ms: 5_000,
            request_timeout_ms: 15_000,
            backoff_base_ms: 250,
            backoff_max_ms: 30_000,
            idle_timeout_ms: 90_000,
            poll_ms: 5_000,
            resync_ms: 30_000,
            join_poll_ms: 2_000,
            page_limit: 500,
            max_response_bytes: 64 * 1024 * 1024,
            claim_lease_ms: 60_000,
            writes_per_minute: 240,
            profile_cache_ms: 300_000,
        }
    }
}

impl Tuning {
    /// Every member with its least and greatest value.
    fn bounds(&self) -> [(&'static str, u64, std::ops::RangeInclusive<u64>); 13] {
        const ANY: u64 = ap_protocol::MAX_SAFE_INTEGER;
        let time = 1..=ANY;
        [
            ("connect_timeout_ms", self.connect_timeout_ms, time.clone()),
            ("request_timeout_ms", self.request_timeout_ms, time.clone()),
            ("backoff_base_ms", self.backoff_base_ms, time.clone()),
            ("backoff_max_ms", self.backoff_max_ms, time.clone()),
            ("idle_timeout_ms", self.idle_timeout_ms, time.clone()),
            ("poll_ms", self.poll_ms, time.clone()),
            ("resync_ms", self.resync_ms, time.clone()),
            ("join_poll_ms", self.join_poll_ms, time.clone()),
            // A page of one record would hold nothing but the one that is known.
            ("page_limit", self.page_limit, 2..=1000),
            ("max_response_bytes", self.max_response_bytes as u64, 1024..=ANY),
            ("claim_lease_ms", self.claim_lease_ms, time),
            ("writes_per_minute", u64::from(self.writes_per_minute), 1..=u64::from(u32::MAX)),
            ("profile_cache_ms", self.profile_cache_ms, 0..=ANY),
        ]
    }

    /// The same, when every member is within its bounds.
    fn checked(self) -> Result<Self, ConfigError> {
        for (name, value, bounds) in self.bounds() {
            if !bounds.contains(&value) {
                return Err(ConfigError::Document(format!(
                    "tuning.{name}: {value} is not within {} and {}",
                    bounds.start(),
                    bounds.end()
                )));
            }
        }
        Ok(self)
    }

    /// Request timeout as a duration.
    pub fn request_timeout(&self) -> Duration {
        Duration::from_millis(self.request_timeout_ms)
    }
}

/// Everything a connector runs with.
pub struct Settings {
    /// Where the database lies.
    pub state_dir: PathBuf,
    /// The operator-selected identity.
    pub key: SecretKey,
    /// The host allowlist.
    pub hosts: Vec<HostEntry>,
    /// The profile service allowlist.
    pub profile_services: Vec<Origin>,
    /// Watch rules.
    pub watch: Vec<WatchRule>,
    /// Loopback HTTP endpoint, if wanted.
    pub http: Option<HttpSettings>,
    /// Times and sizes.
    pub tuning: Tuning,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProvisionDoc {
    version: u64,
    state_dir: PathBuf,
    identity: ProvisionIdentity,
    hosts: Vec<HostDoc>,
    #[serde(default)]
    profile_services: Vec<String>,
    #[serde(default)]
    watch: Vec<WatchRule>,
    #[serde(default)]
    http: Option<HttpDoc>,
    #[serde(default)]
    tuning: Tuning,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProvisionIdentity {
    seed: String,
    agent_id: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HostDoc {
    host: String,
    #[serde(default, deserialize_with = "given")]
    label: Option<String>,
    #[serde(default, deserialize_with = "given")]
    profile_service: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HttpDoc {
    listen: String,
    #[serde(default, deserialize_with = "given")]
    token: Option<String>,
    #[serde(default, deserialize_with = "given")]
    token_file: Option<PathBuf>,
    #[serde(default, deserialize_with = "given")]
    url_file: Option<PathBuf>,
}

/// An optional member that is absent or has a value: null is none.
fn given<'de, T: Deserialize<'de>, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

impl HttpDoc {
    /// The same with its paths read from `base`.
    fn relative_to(mut self, base: &Path) -> Self {
        for path in [&mut self.token_file, &mut self.url_file].into_iter().flatten() {
            *path = base.join(&*path);
        }
        self
    }
}

/// Reads a configuration as text: both documents come through here.
fn read(path: &Path) -> Result<String, ConfigError> {
    let failed = |source| ConfigError::Read { path: path.to_owned(), source };
    let file = std::fs::File::open(path).map_err(failed)?;
    let mut bytes = Vec::new();
    file.take(MAX_CONFIG_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MAX_CONFIG_BYTES {
        return Err(ConfigError::Document(format!(
            "{} is longer than {MAX_CONFIG_BYTES} bytes",
            path.display()
        )));
    }
    String::from_utf8(bytes)
        .map_err(|_| ConfigError::Document(format!("{} is not UTF-8", path.display())))
}

fn origin(member: &str, text: &str) -> Result<Origin, ConfigError> {
    let refuse = |why: String| ConfigError::Origin {
        member: member.to_owned(),
        value: text.to_owned(),
        why,
    };
    bare_origin(text).map_err(refuse)
}

/// An origin written as nothing but an origin: no path, query or fragment.
pub fn bare_origin(text: &str) -> Result<Origin, String> {
    let url = url::Url::parse(text).map_err(|_| "not an absolute URL".to_owned())?;
    if !matches!(url.path(), "" | "/") || url.query().is_some() || url.fragment().is_some() {
        return Err("write the origin only, without path, query or fragment".to_owned());
    }
    Origin::of(&url).map_err(|e| e.to_string())
}

/// A list may stand for an object's members in their order, as far as serde is concerned. Not
/// here: every object is written as one.
fn check_objects(document: &Value) -> Result<(), ConfigError> {
    let lists = ["hosts", "watch"].map(|name| (name, document[name].as_array()));
    let items =
        lists.iter().flat_map(|(name, l)| l.iter().copied().flatten().map(move |v| (*name, v)));
    let single = ["identity", "http", "tuning"].map(|name| (name, &document[name]));
    for (name, value) in items.chain(single).chain([("provisioning document", document)]) {
        if value.is_array() {
            return Err(ConfigError::Document(format!("{name}: a list where an object belongs")));
        }
    }
    Ok(())
}

fn not_empty(member: &str, empty: bool) -> Result<(), ConfigError> {
    if empty { Err(ConfigError::Document(format!("{member}: is empty"))) } else { Ok(()) }
}

fn check_watch(rules: &[WatchRule]) -> Result<(), ConfigError> {
    rules.iter().try_for_each(|r| not_empty("watch.type", r.event_type.is_empty()))
}

type Services = (Vec<HostEntry>, Vec<Origin>);

fn services(hosts: Vec<HostDoc>, profile_services: Vec<String>) -> Result<Services, ConfigError> {
    let mut entries: BTreeMap<Origin, HostEntry> = BTreeMap::new();
    let mut order = Vec::new();
    let mut profiles: Vec<Origin> = Vec::new();
    for (i, doc) in hosts.into_iter().enumerate() {
        let o = origin(&format!("hosts[{i}].host"), &doc.host)?;
        let profile_service = doc
            .profile_service
            .map(|text| origin(&format!("hosts[{i}].profile_service"), &text))
            .transpose()?;
        if let Some(p) = &profile_service
            && !profiles.contains(p)
        {
            profiles.push(p.clone());
        }
        let label = doc.label.unwrap_or_else(|| o.as_str().to_owned());
        let entry = HostEntry { origin: o.clone(), label, profile_service };
        if entries.insert(o.clone(), entry).is_some() {
            return Err(ConfigError::Document(format!("hosts[{i}]: {o} is listed twice")));
        }
        order.push(o);
    }
    for (i, text) in profile_services.iter().enumerate() {
        let o = origin(&format!("profile_services[{i}]"), text)?;
        if !profiles.contains(&o) {
            profiles.push(o);
        }
    }
    let hosts = order.iter().filter_map(|o| entries.remove(o)).collect();
    Ok((hosts, profiles))
}

fn http(doc: Option<HttpDoc>) -> Result<Option<HttpSettings>, ConfigError> {
    let Some(doc) = doc else { return Ok(None) };
    let listen: SocketAddr =
        doc.listen.parse().map_err(|_| ConfigError::NotLoopback(doc.listen.clone()))?;
    let ip = listen.ip();
    if ip != std::net::Ipv4Addr::LOCALHOST && ip != std::net::Ipv6Addr::LOCALHOST {
        return Err(ConfigError::NotLoopback(doc.listen));
    }
    let token = match (doc.token, doc.token_file) {
        (Some(token), None) => token,
        (None, Some(path)) => crate::keystore::private_line(&path, MAX_TOKEN_BYTES)
            .map_err(|e| match e {
                KeyStoreError::Io { path, source, .. } => ConfigError::Read { path, source },
                e => ConfigError::Document(format!("http.token_file: {e}")),
            })?
            .trim()
            .to_owned(),
        _ => {
            return Err(ConfigError::Document(
                "http: give exactly one of token and token_file".to_owned(),
            ));
        }
    };
    if token.len() < 16 {
        return Err(ConfigError::Document(
            "http.token: at least 16 characters, for example from `openssl rand -base64 32`"
                .to_owned(),
        ));
    }
    Ok(Some(HttpSettings { listen, token, url_file: doc.url_file }))
}

impl Settings {
    /// Reads the provisioning JSON.
    ///
    /// # Errors
    /// [`ConfigError`] that names the member.
    pub fn from_provision(path: &Path) -> Result<Self, ConfigError> {
        let value = json::parse(read(path)?.as_bytes())
            .map_err(|e| ConfigError::Document(format!("provisioning document: {e}")))?;
        check_objects(&value)?;
        let doc: ProvisionDoc = serde_json::from_value(value)
            .map_err(|e| ConfigError::Document(format!("provisioning document: {e}")))?;
        if doc.version != 1 {
            return Err(ConfigError::Document(format!(
                "provisioning document: version {} is not supported, only 1",
                doc.version
            )));
        }
        not_empty("state_dir", doc.state_dir.as_os_str().is_empty())?;
        let seed = encoding::decode_array::<32>(&doc.identity.seed)
            .map_err(|e| ConfigError::Identity(format!("seed: {e}")))?;
        let key = SecretKey::from_seed(&seed);
        if key.agent_id().as_str() != doc.identity.agent_id {
            return Err(ConfigError::Identity("agent_id does not belong to seed".to_owned()));
        }
        let (hosts, profile_services) = services(doc.hosts, doc.profile_services)?;
        check_watch(&doc.watch)?;
        Ok(Settings {
            state_dir: doc.state_dir,
            key,
            hosts,
            profile_services,
            watch: doc.watch,
            http: http(doc.http)?,
            tuning: doc.tuning.checked()?,
        })
    }

    /// The identity.
    pub fn agent_id(&self) -> AgentId {
        self.key.agent_id()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_origins_only() {
        for good in
            ["https://a.example", "https://A.example/", "http://127.0.0.1:8080", "http://[::1]:1"]
        {
            assert!(bare_origin(good).is_ok(), "{good}");
        }
        for bad in [
            "http://a.example",
            "https://a.example/x",
            "https://a.example?x",
            "https://u@a.example",
            "https://a.example.",
            "a.example",
            "file:///etc",
        ] {
            assert!(bare_origin(bad).is_err(), "{bad}");
        }
    }
}
