//! Room configuration: defaults, validation of what a creator asks for, and the settings an
//! operator may change later. Resolved values are always readable.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::args;
use super::engine::Mechanism;
use super::error::GrpError;

/// Who may perform an act.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Authority {
    /// Nobody.
    None,
    /// The room's creator.
    Operator,
    /// The listed participants.
    Designated {
        /// Their ids.
        participant_ids: Vec<String>,
    },
    /// Everybody who joined as a participant.
    AnyParticipant,
}

impl Authority {
    /// Wire name.
    pub fn kind(&self) -> &'static str {
        match self {
            Authority::None => "none",
            Authority::Operator => "operator",
            Authority::Designated { .. } => "designated",
            Authority::AnyParticipant => "any_participant",
        }
    }
}

/// Which credentials act in the room (GRP T4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Auth {
    /// Participant tokens.
    TokenOnly,
    /// Mandates.
    MandateRequired,
    /// Both.
    Either,
}

/// Who may read and join.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Visibility {
    /// Everybody reads and joins.
    Public,
    /// Everybody who knows the address joins; members read.
    Unlisted,
    /// Invite or password.
    Private,
}

impl Visibility {
    /// Wire name.
    pub fn name(self) -> &'static str {
        match self {
            Visibility::Public => "public",
            Visibility::Unlisted => "unlisted",
            Visibility::Private => "private",
        }
    }
}

/// When single choices are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChoiceVisibility {
    /// Once the decision is sealed.
    AfterDecided,
    /// As they are cast.
    Live,
    /// Not at all, not even in the receipt.
    Never,
}

/// A resolved room configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RoomConfig {
    /// `ephemeral` or `persistent`.
    pub r#type: RoomType,
    /// Who reads and joins.
    pub visibility: Visibility,
    /// Name of the mechanism.
    pub mechanism: String,
    /// Who invites.
    pub invite_authority: Authority,
    /// Who adds options.
    pub option_proposal_authority: Authority,
    /// Who asks.
    pub decision_opening_authority: Authority,
    /// Who closes the room.
    pub conclusion_authority: Authority,
    /// Accepted credentials.
    pub auth: Auth,
    /// Least number of responses, and floor of the electorate.
    pub quorum: Option<i64>,
    /// Length of the choosing window (s).
    pub voting_window: i64,
    /// Whether discussion is open.
    pub deliberation_mode: DeliberationMode,
    /// Most members.
    pub max_participants: Option<i64>,
    /// Longest slate.
    pub max_options: i64,
    /// Most messages of one member.
    pub max_deliberation_messages_per_participant: i64,
    /// Most messages in all.
    pub max_total_deliberation_messages: i64,
    /// Whether `last_seen_at` is shown.
    pub read_receipts: bool,
    /// When choices are shown.
    pub choice_visibility: ChoiceVisibility,
    /// Seal when the outcome is determined.
    pub early_close: bool,
    /// How long a determined outcome waits before it seals (s).
    pub settle_window: i64,
    /// Whether the creator chooses too.
    pub creator_votes: bool,
    /// Most decisions open at once.
    pub max_open_decisions: i64,
}

/// Usual workflow of the room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RoomType {
    /// One question.
    Ephemeral,
    /// Many questions.
    Persistent,
}

/// Whether members may discuss.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeliberationMode {
    /// Allowed.
    Optional,
    /// Refused.
    Disabled,
}

/// Keys that never change after creation.
const FIXED: [&str; 3] = ["type", "visibility", "mechanism"];

/// The keys `PATCH settings` takes.
pub const MUTABLE: [&str; 18] = [
    "invite_authority",
    "option_proposal_authority",
    "decision_opening_authority",
    "conclusion_authority",
    "auth",
    "quorum",
    "voting_window",
    "deliberation_mode",
    "max_participants",
    "max_options",
    "max_deliberation_messages_per_participant",
    "max_total_deliberation_messages",
    "read_receipts",
    "choice_visibility",
    "early_close",
    "settle_window",
    "creator_votes",
    "max_open_decisions",
];

impl Default for RoomConfig {
    fn default() -> Self {
        RoomConfig {
            r#type: RoomType::Ephemeral,
            visibility: Visibility::Unlisted,
            mechanism: Mechanism::SimpleMajority.name().to_owned(),
            invite_authority: Authority::Operator,
            option_proposal_authority: Authority::AnyParticipant,
            decision_opening_authority: Authority::AnyParticipant,
            conclusion_authority: Authority::Operator,
            auth: Auth::Either,
            quorum: None,
            voting_window: 3_600,
            deliberation_mode: DeliberationMode::Optional,
            max_participants: None,
            max_options: 100,
            max_deliberation_messages_per_participant: 200,
            max_total_deliberation_messages: 500,
            read_receipts: false,
            choice_visibility: ChoiceVisibility::Live,
            early_close: false,
            settle_window: 45,
            creator_votes: true,
            max_open_decisions: 1,
        }
    }
}

impl RoomConfig {
    /// The mechanism.
    pub fn mechanism(&self) -> Mechanism {
        Mechanism::from_name(&self.mechanism)
            .expect("a configuration is only made with one of the eight names")
    }

    /// Wire form.
    pub fn to_json(&self) -> Value {
        serde_json::to_value(self).expect("strings, numbers and enums have a JSON form")
    }

    /// Applies what a creator asks for on top of the defaults.
    ///
    /// # Errors
    /// `input.invalid` naming the key.
    pub fn from_request(asked: &Map<String, Value>) -> Result<Self, GrpError> {
        let mut config = RoomConfig::default();
        for (key, value) in asked {
            config.set(key, value)?;
        }
        Ok(config)
    }

    /// Applies an operator's changes; returns the keys whose value changed.
    ///
    /// # Errors
    /// `input.invalid` naming the allowed keys, or the key that is wrong.
    pub fn patch(&mut self, asked: &Map<String, Value>) -> Result<Vec<String>, GrpError> {
        let mut next = self.clone();
        let mut changed = Vec::new();
        for (key, value) in asked {
            if !MUTABLE.contains(&key.as_str()) {
                return Err(GrpError::input(format!(
                    "{key} cannot be changed; the settings are {}.",
                    MUTABLE.join(", ")
                )));
            }
            let before = next.clone();
            next.set(key, value)?;
            if before != next {
                changed.push(key.clone());
            }
        }
        *self = next;
        Ok(changed)
    }

    fn set(&mut self, key: &str, v: &Value) -> Result<(), GrpError> {
        let flag =
            || v.as_bool().ok_or_else(|| GrpError::input(format!("{key} must be true or false.")));
        let whole = |min, max| args::integer(key, v, min, max);
        let optional = |min, max| {
            if v.is_null() { Ok(None) } else { args::integer(key, v, min, max).map(Some) }
        };
        match key {
            "type" => self.r#type = word(key, v)?,
            "visibility" => self.visibility = word(key, v)?,
            "mechanism" => {
                let known = v.as_str().and_then(Mechanism::from_name);
                let names = Mechanism::ALL.map(Mechanism::name).join(", ");
                self.mechanism = known
                    .ok_or_else(|| GrpError::input(format!("mechanism must be one of {names}.")))?
                    .name()
                    .to_owned();
            }
            "invite_authority" => self.invite_authority = authority(key, v)?,
            "option_proposal_authority" => self.option_proposal_authority = authority(key, v)?,
            "decision_opening_authority" => self.decision_opening_authority = authority(key, v)?,
            "conclusion_authority" => self.conclusion_authority = authority(key, v)?,
            "auth" => self.auth = word(key, v)?,
            "quorum" => self.quorum = optional(1, 1_000_000)?,
            "voting_window" => self.voting_window = whole(60, 1_209_600)?,
            "deliberation_mode" => self.deliberation_mode = word(key, v)?,
            "max_participants" => self.max_participants = optional(1, 1_000_000)?,
            "max_options" => self.max_options = whole(2, 500)?,
            "max_deliberation_messages_per_participant" => {
                self.max_deliberation_messages_per_participant = whole(1, 500)?;
            }
            "max_total_deliberation_messages" => {
                self.max_total_deliberation_messages = whole(1, 5_000)?;
            }
            "read_receipts" => self.read_receipts = flag()?,
            "choice_visibility" => self.choice_visibility = word(key, v)?,
            "early_close" => self.early_close = flag()?,
            "settle_window" => self.settle_window = whole(0, 3_600)?,
            "creator_votes" => self.creator_votes = flag()?,
            "max_open_decisions" => self.max_open_decisions = whole(1, 5)?,
            "recurrence" => {
                return Err(GrpError::input("recurrence is reserved and not offered here."));
            }
            _ => {
                let keys = FIXED.iter().chain(&MUTABLE).copied().collect::<Vec<_>>().join(", ");
                return Err(GrpError::input(format!(
                    "{key} is no room setting; there are {keys}."
                )));
            }
        }
        Ok(())
    }
}

fn word<T: serde::de::DeserializeOwned>(key: &str, v: &Value) -> Result<T, GrpError> {
    // serde's message lists the allowed words; the value itself is not repeated.
    serde_json::from_value(v.clone()).map_err(|e| {
        let text = e.to_string();
        let allowed = text.split_once("expected ").map_or("a known word", |(_, a)| a);
        GrpError::input(format!("{key} must be {allowed}."))
    })
}

fn authority(key: &str, v: &Value) -> Result<Authority, GrpError> {
    let wrong = || {
        GrpError::input(format!(
            "{key} must be an object with kind none, operator, designated (with participant_ids) \
             or any_participant."
        ))
    };
    let kind = v["kind"].as_str().ok_or_else(wrong)?;
    Ok(match kind {
        "none" => Authority::None,
        "operator" => Authority::Operator,
        "any_participant" => Authority::AnyParticipant,
        "designated" => {
            let ids = v["participant_ids"].as_array().ok_or_else(wrong)?;
            let participant_ids = ids
                .iter()
                .map(|i| i.as_str().map(str::to_owned).ok_or_else(wrong))
                .collect::<Result<_, _>>()?;
            Authority::Designated { participant_ids }
        }
        _ => return Err(wrong()),
    })
}

/// The defaults a discovery document advertises.
pub fn defaults_json() -> Value {
    json!(RoomConfig::default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(v: Value) -> Result<RoomConfig, GrpError> {
        RoomConfig::from_request(v.as_object().unwrap())
    }

    #[test]
    fn refuses_what_it_does_not_honour() {
        for bad in [
            json!({"voting_window": "1h"}),
            json!({"voting_window": 59}),
            json!({"voting_window": 1_209_601}),
            json!({"mechanism": "budget_allocation"}),
            json!({"mechanism": "conviction_vote"}),
            json!({"visibility": "password"}),
            json!({"recurrence": {"kind": "weekly"}}),
            json!({"max_open_decisions": 6}),
            json!({"creator_votes": "true"}),
            json!({"invite_authority": {"kind": "designated"}}),
            json!({"votingWindow": 60}),
        ] {
            assert_eq!(ask(bad.clone()).unwrap_err().code, "input.invalid", "{bad}");
        }
        assert_eq!(ask(json!({"quorum": null})).unwrap(), RoomConfig::default());
    }

    #[test]
    fn a_patch_is_all_or_nothing() {
        let mut c = RoomConfig::default();
        let bad = json!({"early_close": true, "mechanism": "plurality"});
        let e = c.patch(bad.as_object().unwrap()).unwrap_err();
        assert!(e.message.contains("early_close"), "{e}");
        assert_eq!(c, RoomConfig::default());
        let ok = json!({"early_close": true, "settle_window": 45});
        assert_eq!(c.patch(ok.as_object().unwrap()).unwrap(), ["early_close"]);
    }
}
