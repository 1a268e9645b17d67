//! External type packs: fetched from allowed origins only, without any token, and kept only
//! when their digest is the declared one.

use ap_protocol::pack;
use rusqlite::params;
use serde_json::Value;

use crate::core::Core;
use crate::error::ToolError;
use crate::sync::Received;

/// Largest pack document (bytes).
const MAX_PACK_BYTES: usize = 1024 * 1024;
/// Most packs looked for in one page of records.
const MAX_PACKS: usize = 64;

/// The imports of external packs that sound records declare: (uri, digest).
fn declared(records: &[Received]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for payload in records.iter().filter_map(Received::declares_types) {
        let listed = payload.get("types").and_then(Value::as_array).into_iter().flatten();
        let inline = payload.get("pack").map(|_| payload).into_iter();
        let imports = listed.filter_map(Value::as_object).chain(inline);
        for d in imports {
            if let (Some(uri), Some(digest)) =
                (d.get("pack").and_then(Value::as_str), d.get("digest").and_then(Value::as_str))
                && found.len() < MAX_PACKS
            {
                found.push((uri.to_owned(), digest.to_owned()));
            }
        }
    }
    found
}

impl Core {
    /// Obtains the packs that these records import. What cannot be had stays unavailable:
    /// replay says so when it gets there.
    pub(crate) async fn obtain_packs(&self, records: &[Received]) {
        for (uri, digest) in declared(records) {
            if let Err(e) = self.obtain_pack(&uri, &digest).await {
                tracing::debug!(code = %e.code, "a type pack was not obtained");
            }
        }
    }

    async fn obtain_pack(&self, uri: &str, digest: &str) -> Result<(), ToolError> {
        let known = self.store.read(|c| {
            c.prepare_cached("SELECT 1 FROM packs WHERE uri = ?1 AND digest = ?2")?
                .exists([uri, digest])
        })?;
        if known {
            return Ok(());
        }
        let bytes = self.http.fetch(uri, MAX_PACK_BYTES).await?;
        pack::parse(&bytes, digest)
            .map_err(|e| ToolError::new("pack_unavailable", e.to_string()))?;
        self.store.write(|tx| {
            tx.execute(
                "INSERT INTO packs(uri, digest, bytes) VALUES(?1, ?2, ?3) ON CONFLICT DO NOTHING",
                params![uri, digest, bytes],
            )?;
            Ok(())
        })
    }
}
