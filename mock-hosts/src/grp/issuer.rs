//! Issuers of mandates: fetching what they publish, and a small one of our own for tests.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ap_protocol::{SecretKey, json};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::jws;
use super::mandate::{IssuerSource, to_did_key};
use super::webhooks;

/// Fetches issuer documents over HTTPS, without redirects and not from private addresses.
#[derive(Debug)]
pub struct HttpIssuers {
    /// Private addresses and plain http are allowed.
    pub private: bool,
}

const MAX_DOCUMENT: usize = 256 * 1024;

impl IssuerSource for HttpIssuers {
    fn fetch<'a>(
        &'a self,
        url: &'a str,
    ) -> Pin<Box<dyn Future<Output = Result<Value, String>> + Send + 'a>> {
        Box::pin(async move {
            let checked = webhooks::check_url(url, self.private)?;
            let host = checked.host_str().ok_or("no host")?.to_owned();
            let name = host.trim_start_matches('[').trim_end_matches(']').to_owned();
            let port = checked.port_or_known_default().ok_or("no port")?;
            let addresses: Vec<_> = tokio::net::lookup_host((name.as_str(), port))
                .await
                .map_err(|_| "the issuer's name does not resolve")?
                .collect();
            if !self.private && addresses.iter().any(|a| !webhooks::is_public(a.ip())) {
                return Err("the issuer resolves to a private address".into());
            }
            let client = super::http_client()
                .redirect(reqwest::redirect::Policy::none())
                .timeout(Duration::from_secs(5))
                .no_proxy()
                .resolve_to_addrs(&name, &addresses)
                .build()
                .map_err(|e| e.to_string())?;
            let mut answer = client
                .get(checked)
                .send()
                .await
                .map_err(|_| "the issuer cannot be reached".to_owned())?;
            if answer.status() != reqwest::StatusCode::OK {
                return Err("the issuer's document is not there".into());
            }
            let mut bytes = Vec::new();
            while let Some(chunk) =
                answer.chunk().await.map_err(|_| "the issuer's document broke off".to_owned())?
            {
                if bytes.len() + chunk.len() > MAX_DOCUMENT {
                    return Err("the issuer's document is too large".into());
                }
                bytes.extend_from_slice(&chunk);
            }
            json::parse(&bytes).map_err(|_| "the issuer's document is not JSON".to_owned())
        })
    }
}

/// A principal for tests: makes mandates, and serves its keys and revocations on loopback.
#[derive(Debug, Clone)]
pub struct TestIssuer {
    key: Arc<SecretKey>,
    url: String,
    revoked: Arc<Mutex<Vec<String>>>,
    _stop: Arc<super::StopOnDrop>,
}

impl TestIssuer {
    /// Starts an issuer with a key from `seed`.
    ///
    /// # Errors
    /// When no port is free.
    pub async fn start(seed: [u8; 32]) -> std::io::Result<Self> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let key = Arc::new(SecretKey::from_seed(&seed));
        let revoked: Arc<Mutex<Vec<String>>> = Arc::default();
        let stop = CancellationToken::new();
        let (served_key, served_revoked) = (Arc::clone(&key), Arc::clone(&revoked));
        let document = move || {
            let revoked = served_revoked.lock().unwrap_or_else(PoisonError::into_inner);
            let revocations: Vec<Value> = revoked
                .iter()
                .map(|jti| json!({ "jti": jti, "revoked_at": "2026-01-01T00:00:00Z" }))
                .collect();
            let key = jws::jwk("principal-1", served_key.agent_id().key_bytes());
            axum::Json(json!({ "keys": [key], "revocations": revocations }))
        };
        let router = axum::Router::new()
            .route("/.well-known/grp.json", axum::routing::get(async move || document()));
        let serving = stop.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = serving.cancelled() => {}
                _ = axum::serve(listener, router).into_future() => {}
            }
        });
        Ok(TestIssuer { key, url, revoked, _stop: Arc::new(super::StopOnDrop(stop)) })
    }

    /// Its `iss`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Publishes a revocation.
    pub fn revoke(&self, jti: &str) {
        self.revoked.lock().unwrap_or_else(PoisonError::into_inner).push(jti.to_owned());
    }

    /// Signs a mandate with this issuer's key; `claims` override the defaults.
    pub fn mandate(&self, now_ms: i64, claims: Value) -> String {
        let payload = claims_over(&self.url, now_ms, claims);
        jws::sign(&self.key, "principal-1", jws::MANDATE_TYP, &payload)
    }
}

/// Signs a mandate as a `did:key` issuer; `claims` override the defaults.
pub fn did_key_mandate(key: &SecretKey, now_ms: i64, claims: Value) -> String {
    let did = to_did_key(key.agent_id().key_bytes());
    let payload = claims_over(&did, now_ms, claims);
    jws::sign(key, &did, jws::MANDATE_TYP, &payload)
}

fn claims_over(iss: &str, now_ms: i64, claims: Value) -> Value {
    let now = now_ms.div_euclid(1_000);
    let mut payload = json!({
        "iss": iss, "sub": "urn:grp:agent:test", "jti": "urn:uuid:test-mandate",
        "nbf": now - 60, "exp": now + 600,
        "grp": {
            "actions": ["choose", "discuss", "propose"], "rooms": ["*"], "weight_cap": 1,
            "trust_stage": 2,
        },
    });
    let Value::Object(claims) = claims else { return payload };
    for (name, value) in claims {
        if let ("grp", Value::Object(inner)) = (name.as_str(), &value) {
            for (k, v) in inner {
                payload["grp"][k] = v.clone();
            }
        } else {
            payload[name] = value;
        }
    }
    payload
}
