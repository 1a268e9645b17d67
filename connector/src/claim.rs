//! What a host claims about a room: believed only as far as the records prove it.
//!
//! A claim that the verified chain contradicts is a lie at once. What lacks a record, or lags
//! behind, is one when it stays so after the host was asked again: [`crate::sync`] decides how
//! often, since an honest host's parts may lag behind each other for a moment.
//! A lie suspends the room, with both sides kept, until the operator resolves it.

use ap_protocol::{Hash, MAX_SAFE_INTEGER, Tip};
use rusqlite::{Connection, params};
use serde_json::{Value, json};

use crate::core::Core;
use crate::error::ToolError;
use crate::store::{Condition, RoomRow};

/// The room resource, as far as it is usable.
#[derive(Debug, Clone)]
pub struct Claimed {
    /// The latest record's seq.
    pub seq: u64,
    /// The latest record's hash.
    pub hash: Option<Hash>,
    /// The advertised head.
    pub head: Option<Tip>,
    /// The whole resource.
    pub resource: Value,
}

/// What is wrong with a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lie {
    /// Code of the condition.
    pub code: &'static str,
    /// What was seen.
    pub message: String,
    /// Where.
    pub seq: u64,
}

/// How a claim stands when the history was read to its end.
#[derive(Debug)]
pub enum Proof {
    /// The records show it.
    Holds(Box<RoomRow>),
    /// They do not show it, yet.
    Lacks(Lie),
}

impl Claimed {
    /// Reads a room resource.
    ///
    /// # Errors
    /// `bad_response` when it is none, or another room's.
    pub fn of(resource: Value, room_id: &str) -> Result<Self, ToolError> {
        let bad = |what: &str| {
            ToolError::new("bad_response", format!("the host's room resource {what}"))
                .with(json!({ "room_id": room_id }))
        };
        if !resource.is_object() {
            return Err(bad("is no object"));
        }
        let named = resource["id"].as_str().or_else(|| resource["room_id"].as_str());
        if named != Some(room_id) {
            return Err(bad("is of another room"));
        }
        let seq = resource["seq"]
            .as_u64()
            .filter(|s| (1..=MAX_SAFE_INTEGER).contains(s))
            .ok_or_else(|| bad("has no usable seq"))?;
        let hash_of = |v: &Value| v.as_str().and_then(|t| Hash::parse(t).ok());
        let head = &resource["head"];
        let head =
            head["seq"].as_u64().zip(hash_of(&head["hash"])).map(|(seq, hash)| Tip { seq, hash });
        Ok(Claimed { seq, hash: hash_of(&resource["hash"]), head, resource })
    }

    /// Whether it goes back behind `known`, which was verified before it was asked for.
    pub(crate) fn rolled_back(&self, known: Option<Tip>) -> Option<Lie> {
        let tip = known.filter(|t| self.seq < t.seq)?;
        let message =
            format!("The host advertises seq {} after seq {} was verified.", self.seq, tip.seq);
        Some(Lie { code: "room_rolled_back", message, seq: self.seq })
    }

    /// What the verified records contradict: no later record can make it true.
    fn contradicted(&self, row: &RoomRow, conn: &Connection) -> Result<Option<Lie>, ToolError> {
        let Some(tip) = row.tip else { return Ok(None) };
        if let (Some(hash), Some(stored)) = (self.hash, row.record(conn, self.seq)?)
            && stored.hash != hash.to_string()
        {
            return Ok(Some(Lie {
                code: "head_contradicted",
                message: format!(
                    "The host advertises another hash at seq {} than the verified record has.",
                    self.seq
                ),
                seq: self.seq,
            }));
        }
        let Some(head) = self.head.filter(|h| h.seq <= tip.seq) else { return Ok(None) };
        let right = row
            .record(conn, head.seq)?
            .is_some_and(|r| r.hash == head.hash.to_string() && r.kind != "signal");
        Ok((!right).then(|| Lie {
            code: "head_contradicted",
            message: format!(
                "The host advertises a head at seq {} that the verified records contradict.",
                head.seq
            ),
            seq: head.seq,
        }))
    }

    /// What no verified record shows.
    fn unproven(&self, row: &RoomRow) -> Option<Lie> {
        let tip = row.tip.map_or(0, |t| t.seq);
        let lacks = |code, what: &str, seq: u64| {
            (seq > tip).then(|| Lie {
                code,
                message: format!("The host {what} seq {seq}, its history ends at {tip}."),
                seq,
            })
        };
        let highest = self.head.map_or(self.seq, |h| h.seq.max(self.seq));
        lacks("head_unproven", "advertises", highest).or_else(|| {
            let anchor = row.anchor?;
            lacks("join_anchor_missing", "advertised before the join", anchor.seq)
        })
    }
}

impl Core {
    /// Ends a reading of the history that met no fault: the claim is compared with the records,
    /// and when it holds, passing conditions end.
    pub(crate) fn finish_sync(&self, room: i64, claimed: &Claimed) -> Result<Proof, ToolError> {
        self.check_contradiction(room, claimed)?;
        let (proof, changed) = self.store.write(|tx| {
            let mut row = RoomRow::get(tx, room)?;
            if row.baseline_seq.is_none()
                && let Some(tip) = row.tip
            {
                tx.execute(
                    "UPDATE rooms SET baseline_seq = ?2 WHERE id = ?1",
                    params![room, tip.seq as i64],
                )?;
                row.baseline_seq = Some(tip.seq);
            }
            if let Some(lie) = claimed.unproven(&row) {
                return Ok((Proof::Lacks(lie), false));
            }
            let passing = row.condition.as_ref().is_some_and(|c| !c.sticky);
            if passing {
                row.save_condition(tx, None)?;
            }
            Ok::<_, ToolError>((Proof::Holds(Box::new(row)), passing))
        })?;
        if let (Proof::Holds(row), true) = (&proof, changed) {
            self.announce(Core::room_changes(row));
        }
        Ok(proof)
    }

    /// Whether the verified records say otherwise than a claim.
    ///
    /// # Errors
    /// `head_contradicted`; the room is suspended then.
    pub(crate) fn check_contradiction(
        &self,
        room: i64,
        claimed: &Claimed,
    ) -> Result<(), ToolError> {
        let lie = self.store.read(|c| claimed.contradicted(&RoomRow::get(c, room)?, c))?;
        match lie {
            Some(lie) => Err(self.suspend(room, &lie, Some(&claimed.resource))?),
            None => Ok(()),
        }
    }

    /// Suspends a room until the operator resolves it: both sides are kept. Returns the error
    /// that goes with it.
    pub(crate) fn suspend(
        &self,
        room: i64,
        lie: &Lie,
        offered: Option<&Value>,
    ) -> Result<ToolError, ToolError> {
        let condition = Condition {
            code: lie.code.to_owned(),
            message: lie.message.clone(),
            seq: Some(lie.seq),
            at: self.clock.now_ms(),
            sticky: true,
        };
        let row = self.store.write(|tx| {
            let mut row = RoomRow::get(tx, room)?;
            let stored = match (row.record(tx, lie.seq)?, row.tip) {
                (Some(record), _) => Some(record),
                (None, Some(tip)) => row.record(tx, tip.seq)?,
                (None, None) => None,
            };
            let stored = stored.map(|r| r.body);
            row.keep_evidence(tx, lie.code, Some(lie.seq), stored.as_ref(), offered, condition.at)?;
            row.save_condition(tx, Some(condition.clone()))?;
            Ok::<_, ToolError>(row)
        })?;
        self.announce(Core::room_changes(&row));
        Ok(condition.to_error(&row.host, &row.room_id))
    }

    /// Remembers what the host says, unverified.
    pub(crate) fn store_claim(&self, room: i64, claimed: &Claimed) -> Result<(), ToolError> {
        self.store.write(|tx| {
            tx.execute(
                "UPDATE rooms SET resource = ?2, remote_seq = max(?3, tip_seq) WHERE id = ?1",
                params![room, claimed.resource.to_string(), claimed.seq as i64],
            )?;
            Ok::<_, ToolError>(())
        })
    }
}
