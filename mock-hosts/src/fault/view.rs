//! Record faults: what a lying host shows instead of its history. Pure functions over record
//! values; the history itself is never touched.

use std::sync::Arc;

use ap_protocol::{Hash, SecretKey, encoding, record};
use serde_json::{Value, json};

use super::Action;
use super::engine::Hit;

/// Whether any hit changes what is shown of the records.
pub(crate) fn concerns_records(hits: &[Hit]) -> bool {
    hits.iter().any(|h| {
        matches!(
            h.action,
            Action::Tamper { .. }
                | Action::Resign { .. }
                | Action::DropRecord {}
                | Action::Duplicate {}
                | Action::Reorder {}
                | Action::Rollback { .. }
                | Action::Fork { .. }
        )
    })
}

/// The history as the faults show it.
pub(crate) fn project(
    records: &[Arc<Value>],
    hits: &[Hit],
    stranger: &SecretKey,
) -> Vec<Arc<Value>> {
    let mut shown = records.to_vec();
    for hit in hits {
        let at = position(&shown, hit.seq);
        match (&hit.action, at) {
            (Action::Fork { envelope }, Some(i)) => fork(&mut shown, i, envelope.as_ref()),
            (Action::Tamper { field, value, relink }, Some(i)) => {
                tamper(Arc::make_mut(&mut shown[i]), field, value.as_ref());
                if *relink {
                    // A forged link is hashed as it stands: it is what gives the record away.
                    if field == "/pre_hash" {
                        rehash(Arc::make_mut(&mut shown[i]));
                        relink_from(&mut shown, i + 1);
                    } else {
                        relink_from(&mut shown, i);
                    }
                }
            }
            (Action::Resign { as_actor }, Some(i)) => {
                resign(Arc::make_mut(&mut shown[i]), stranger, *as_actor);
                relink_from(&mut shown, i);
            }
            (Action::Rollback { to }, _) => shown.retain(|r| seq_of(r).is_none_or(|s| s <= *to)),
            _ => {}
        }
    }
    for hit in hits {
        let Some(i) = position(&shown, hit.seq) else { continue };
        match hit.action {
            Action::DropRecord {} => {
                shown.remove(i);
            }
            Action::Duplicate {} => shown.insert(i, Arc::clone(&shown[i])),
            Action::Reorder {} if i + 1 < shown.len() => shown.swap(i, i + 1),
            _ => {}
        }
    }
    shown
}

/// The record a fault names; the last one when it names none.
fn position(records: &[Arc<Value>], seq: Option<u64>) -> Option<usize> {
    match seq {
        Some(seq) => records.iter().position(|r| seq_of(r) == Some(seq)),
        None => records.len().checked_sub(1),
    }
}

fn seq_of(record: &Value) -> Option<u64> {
    record["seq"].as_u64()
}

fn fork(shown: &mut Vec<Arc<Value>>, i: usize, envelope: Option<&Value>) {
    let record = Arc::make_mut(&mut shown[i]);
    match envelope {
        Some(envelope) => {
            record["envelope"] = envelope.clone();
            shown.truncate(i + 1);
        }
        None => record["received_at"] = json!(record["received_at"].as_u64().unwrap_or(0) + 1),
    }
    relink_from(shown, i);
}

/// Makes hashes and links from `i` on consistent again, as far as the values allow.
fn relink_from(shown: &mut [Arc<Value>], i: usize) {
    let mut pre = i.checked_sub(1).and_then(|p| shown[p]["hash"].as_str()).map(str::to_owned);
    for record in &mut shown[i..] {
        let record = Arc::make_mut(record);
        record["pre_hash"] = json!(pre);
        rehash(record);
        pre = record["hash"].as_str().map(str::to_owned);
    }
}

fn rehash(record: &mut Value) {
    if let Some(hash) = recompute(record) {
        record["hash"] = json!(hash);
    }
}

fn recompute(record: &Value) -> Option<Hash> {
    let hash = |v: &Value| v.as_str().and_then(|t| Hash::parse(t).ok());
    let pre = match &record["pre_hash"] {
        Value::Null => None,
        v => Some(hash(v)?),
    };
    Some(record::record_hash(
        record["room_id"].as_str()?,
        record["seq"].as_u64()?,
        pre.as_ref(),
        &hash(&record["envelope"]["hash"])?,
        record["received_at"].as_u64()?,
    ))
}

fn resign(record: &mut Value, stranger: &SecretKey, as_actor: bool) {
    let envelope = &mut record["envelope"];
    if as_actor {
        envelope["event"]["actor"] = json!(stranger.agent_id());
    }
    let hash = Hash::of_value(&envelope["event"]);
    envelope["hash"] = json!(hash);
    envelope["signature"] = json!(encoding::encode(stranger.sign(hash.as_bytes())));
}

/// Changes one field; a missing one is added.
fn tamper(record: &mut Value, field: &str, value: Option<&Value>) {
    match (record.pointer_mut(field), value) {
        (Some(old), Some(new)) => *old = new.clone(),
        (Some(old), None) => *old = nudge(old),
        (None, _) => {
            let Some((parent, name)) = field.rsplit_once('/') else { return };
            if let Some(Value::Object(members)) = record.pointer_mut(parent) {
                members.insert(name.to_owned(), value.cloned().unwrap_or(json!("tampered")));
            }
        }
    }
}

/// A small change that keeps the type, and the look of hashes, signatures and Agent IDs.
fn nudge(old: &Value) -> Value {
    match old {
        Value::Null => json!("A".repeat(43)),
        Value::Bool(b) => json!(!b),
        Value::Number(n) => match n.as_i64() {
            Some(i) => json!(i + 1),
            None => json!(n.as_f64().unwrap_or(0.0) + 0.5),
        },
        Value::String(text) => {
            let at = if text.starts_with(ap_protocol::agent_id::PREFIX) {
                ap_protocol::agent_id::PREFIX.len()
            } else {
                0
            };
            let mut chars: Vec<char> = text.chars().collect();
            match chars.get_mut(at) {
                Some(c) => *c = if *c == 'A' { 'B' } else { 'A' },
                None => chars.push('A'),
            }
            json!(chars.into_iter().collect::<String>())
        }
        Value::Array(items) => {
            let mut items = items.clone();
            items.push(json!("tampered"));
            Value::Array(items)
        }
        Value::Object(members) => {
            let mut members = members.clone();
            members.insert("tampered".to_owned(), json!(true));
            Value::Object(members)
        }
    }
}
