//! Signed push of events to registered URLs (GRP T6.5), with retries and a guard against
//! being used to reach somebody's inner network.
//!
//! A delivery is a hint: whoever misses one reads `/events` from its cursor. With a storage
//! it is kept until it is taken or given up, so that a crash loses none; it may then come
//! twice, under one id.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::Sha256;
use tokio::sync::mpsc::Receiver;
use url::{Host, Url};

use super::clock::GrpClock;
use super::core::Core;
use super::jws::hex;
use super::model::Event;

/// Pushes that may wait for their turn; above it new ones are dropped.
pub const MAX_QUEUE: usize = 10_000;

/// An event on its way to somebody outside.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Delivery {
    /// Id: the same in every try, also after a restart.
    pub id: String,
    /// Target.
    pub url: String,
    /// HMAC key.
    pub secret: String,
    /// Registration.
    pub webhook_id: String,
    /// Room slug.
    pub room: String,
    /// What happened.
    pub event: Event,
}

/// How deliveries are tried.
#[derive(Debug, Clone)]
pub struct DeliveryPolicy {
    /// Tries in all.
    pub attempts: u32,
    /// Pause before the second try; doubled after each.
    pub backoff: Duration,
    /// Longest one try may take.
    pub timeout: Duration,
    /// Targets on private addresses are allowed.
    pub private: bool,
}

impl Default for DeliveryPolicy {
    fn default() -> Self {
        DeliveryPolicy {
            attempts: 5,
            backoff: Duration::from_millis(500),
            timeout: Duration::from_secs(10),
            private: false,
        }
    }
}

/// The `Webhook-Signature` header: `t=<unix s>,v1=<hex HMAC-SHA-256 of "t.body">`.
pub fn signature(secret: &str, t: i64, body: &[u8]) -> String {
    let mut mac =
        Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("HMAC takes keys of any length");
    mac.update(t.to_string().as_bytes());
    mac.update(b".");
    mac.update(body);
    format!("t={t},v1={}", hex(&mac.finalize().into_bytes()))
}

/// Whether a registration may name this URL. Names are resolved, and checked again, at each
/// delivery.
///
/// # Errors
/// A sentence for the caller.
pub fn check_url(text: &str, private: bool) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|_| "url must be an absolute URL.".to_owned())?;
    if url.scheme() != "https" && !(private && url.scheme() == "http") {
        return Err("url must be an https URL.".into());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("url must not carry credentials.".into());
    }
    let refused = || "url names an address this host does not call.".to_owned();
    match url.host() {
        Some(Host::Ipv4(ip)) if !private && !is_public(ip.into()) => Err(refused()),
        Some(Host::Ipv6(ip)) if !private && !is_public(ip.into()) => Err(refused()),
        Some(Host::Domain(name))
            if !private
                && (name.eq_ignore_ascii_case("localhost")
                    || name.to_ascii_lowercase().ends_with(".localhost")
                    || name.to_ascii_lowercase().ends_with(".internal")
                    || name.to_ascii_lowercase().ends_with(".local")
                    || !name.contains('.')) =>
        {
            Err(refused())
        }
        Some(_) => Ok(url),
        None => Err("url must name a host.".into()),
    }
}

/// Whether an address is one of the public Internet.
pub fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => public_v4(ip),
        IpAddr::V6(ip) => public_v6(ip),
    }
}

fn public_v4(ip: Ipv4Addr) -> bool {
    let [a, b, c, _] = ip.octets();
    !(ip.is_private()
        || ip.is_loopback()
        || ip.is_link_local()
        || ip.is_broadcast()
        || ip.is_documentation()
        || ip.is_multicast()
        || a == 0
        || a >= 240
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 198 && (b == 18 || b == 19)))
}

fn public_v6(ip: Ipv6Addr) -> bool {
    if let Some(v4) = ip.to_ipv4() {
        return public_v4(v4);
    }
    let s = ip.segments();
    // NAT64 and 6to4 carry an IPv4 address inside.
    if s[..6] == [0x64, 0xff9b, 0, 0, 0, 0] {
        return public_v4(Ipv4Addr::from((u32::from(s[6]) << 16) | u32::from(s[7])));
    }
    if s[0] == 0x2002 {
        return public_v4(Ipv4Addr::from((u32::from(s[1]) << 16) | u32::from(s[2])));
    }
    s[0] & 0xe000 == 0x2000 && !(s[0] == 0x2001 && s[1] == 0x0db8)
}

/// Delivers until the host is gone.
pub async fn run(core: Arc<Core>, mut queue: Receiver<Delivery>, policy: DeliveryPolicy) {
    let policy = Arc::new(policy);
    let parallel = Arc::new(tokio::sync::Semaphore::new(32));
    // Dropped with this task when the host stops: no try outlives it.
    let mut tries = tokio::task::JoinSet::new();
    while let Some(delivery) = queue.recv().await {
        let Ok(permit) = Arc::clone(&parallel).acquire_owned().await else { return };
        let (core, policy) = (Arc::clone(&core), Arc::clone(&policy));
        while tries.try_join_next().is_some() {}
        tries.spawn(async move {
            deliver(&core, &delivery, &policy).await;
            core.settled(delivery.id).await;
            drop(permit);
        });
    }
}

async fn deliver(core: &Core, delivery: &Delivery, policy: &DeliveryPolicy) {
    let body = json!({
        "delivery_id": delivery.id, "webhook_id": delivery.webhook_id, "room": delivery.room,
        "event": delivery.event.to_json(),
    })
    .to_string();
    let mut pause = policy.backoff;
    for attempt in 1..=policy.attempts {
        if !core.wants(delivery) {
            return;
        }
        match attempt_once(delivery, policy, &core.config.clock, &body).await {
            Ok(status) if status.is_success() => return,
            Ok(status) => tracing::debug!(%status, attempt, "webhook not taken"),
            Err(e) => tracing::debug!(error = %e, attempt, "webhook not delivered"),
        }
        if attempt < policy.attempts {
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
    }
}

async fn attempt_once(
    delivery: &Delivery,
    policy: &DeliveryPolicy,
    clock: &GrpClock,
    body: &str,
) -> Result<reqwest::StatusCode, String> {
    let url = check_url(&delivery.url, policy.private)?;
    let host = url.host_str().ok_or("no host")?.to_owned();
    let port = url.port_or_known_default().ok_or("no port")?;
    // The addresses that were checked are the addresses that are called: a name cannot
    // change its mind between the two.
    let name = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let addresses: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), port))
        .await
        .map_err(|_| "the name does not resolve")?
        .collect();
    if addresses.is_empty() || !policy.private && addresses.iter().any(|a| !is_public(a.ip())) {
        return Err("the name resolves to an address this host does not call".into());
    }
    let client = super::http_client()
        .redirect(reqwest::redirect::Policy::none())
        .timeout(policy.timeout)
        .no_proxy()
        .resolve_to_addrs(&name, &addresses)
        .build()
        .map_err(|e| e.to_string())?;
    let t = clock.now_ms().div_euclid(1_000);
    let response = client
        .post(url)
        .header("content-type", "application/json")
        .header("webhook-delivery", &delivery.id)
        .header("webhook-signature", signature(&delivery.secret, t, body.as_bytes()))
        .body(body.to_owned())
        .send()
        .await
        .map_err(|e| e.without_url().to_string())?;
    Ok(response.status())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_targets_are_refused() {
        for bad in [
            "http://example.com/hook",
            "https://127.0.0.1/",
            "https://10.1.2.3/",
            "https://169.254.169.254/latest",
            "https://[::1]/",
            "https://[::ffff:10.0.0.1]/",
            "https://[fd00::1]/",
            "https://[64:ff9b::a00:1]/",
            "https://[2002:a00:1::]/",
            "https://localhost/",
            "https://metadata/",
            "https://db.internal/",
            "https://2130706433/",
            "https://0x7f.1/",
            "https://100.64.0.1/",
            "https://user:pw@example.com/",
            "ftp://example.com/",
        ] {
            assert!(check_url(bad, false).is_err(), "{bad}");
        }
        assert!(check_url("https://example.com/hook", false).is_ok());
        assert!(check_url("https://[2606:4700::1111]/", false).is_ok());
        assert!(check_url("http://127.0.0.1:9/hook", true).is_ok());
    }

    #[test]
    fn signature_is_over_time_and_body() {
        let a = signature("whsec_x", 1, b"{}");
        assert!(a.starts_with("t=1,v1=") && a.len() == 7 + 64);
        assert_ne!(a, signature("whsec_x", 2, b"{}"));
        assert_ne!(a, signature("whsec_y", 1, b"{}"));
    }
}
