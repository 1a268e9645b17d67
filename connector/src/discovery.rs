//! Service discovery: what an allowed host announces. Told to the agent, never obeyed: no
//! endpoint named there is contacted.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::{OptionalExtension, params};
use serde_json::{Value, json};

use crate::core::Core;
use crate::error::ToolError;
use crate::http::Request;
use crate::store::parse_json;

/// How long a tool call waits for hosts that were never asked (ms).
const FIRST_LOOK_MS: u64 = 2_000;

impl Core {
    /// Asks every allowed host once.
    pub async fn discover_all(self: &Arc<Self>) {
        let hosts: Vec<String> =
            self.http.hosts().iter().map(|h| h.origin.as_str().to_owned()).collect();
        let looks = hosts.into_iter().map(|host| {
            let core = self.clone();
            async move {
                if let Err(e) = core.discover(&host).await {
                    tracing::debug!(%host, code = %e.code, "discovery failed");
                }
            }
        });
        futures::future::join_all(looks).await;
    }

    async fn discover(&self, host: &str) -> Result<(), ToolError> {
        let host = self.http.host(host)?;
        let path = [".well-known", "agent-discourse"];
        let document = self.http.call(&host, &Request::get(&path)).await?;
        if !document.is_object() {
            return Err(ToolError::new("bad_response", "the discovery document is no object"));
        }
        let now = self.clock.now_ms();
        self.store.write(|tx| {
            tx.execute(
                "INSERT INTO hosts(host, discovery, last_checked_at) VALUES(?1, ?2, ?3)
                 ON CONFLICT(host) DO UPDATE SET discovery = excluded.discovery, last_checked_at = excluded.last_checked_at",
                params![host.as_str(), document.to_string(), now as i64],
            )?;
            Ok(())
        })
    }

    fn stored_hosts(&self) -> Result<Vec<Value>, ToolError> {
        self.store.read(|c| {
            self.http
                .hosts()
                .iter()
                .map(|h| {
                    let row: Option<(Option<String>, Option<i64>)> = c
                        .query_row(
                            "SELECT discovery, last_checked_at FROM hosts WHERE host = ?1",
                            [h.origin.as_str()],
                            |r| Ok((r.get(0)?, r.get(1)?)),
                        )
                        .optional()?;
                    let (document, at) = row.unwrap_or((None, None));
                    let document =
                        document.map(|d| parse_json(&d)).transpose()?.unwrap_or(Value::Null);
                    let features: Vec<&str> = document["features"]
                        .as_array()
                        .into_iter()
                        .flatten()
                        .filter_map(Value::as_str)
                        .filter(|f| f.len() <= 64 && !f.chars().any(crate::text::is_unsafe))
                        .take(64)
                        .collect();
                    Ok(json!({
                        "host": h.origin.as_str(), "label": h.label, "allowed": true,
                        "features": features,
                        "profile_service": h.profile_service.as_ref().map(|p| p.as_str()),
                        "last_checked_at": at,
                    }))
                })
                .collect()
        })
    }

    /// The allowlist as agents see it.
    ///
    /// # Errors
    /// `store_error`.
    pub async fn hosts_view(self: &Arc<Self>) -> Result<Vec<Value>, ToolError> {
        let hosts = self.stored_hosts()?;
        if hosts.iter().all(|h| !h["last_checked_at"].is_null()) {
            return Ok(hosts);
        }
        let look = self.discover_all();
        // A host that does not answer keeps nobody waiting.
        let _ = tokio::time::timeout(Duration::from_millis(FIRST_LOOK_MS), look).await;
        self.stored_hosts()
    }
}
