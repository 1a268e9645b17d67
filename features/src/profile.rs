//! What a target claims: capabilities and tools. Claimed means judged.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;

/// The common prefix of the standard tool names.
pub const TOOL_PREFIX: &str = "agent_protocols_";
/// Capabilities that a profile can claim.
pub const CAPABILITIES: &[&str] =
    &["http", "resources", "resource-updates", "inbox-wait", "debug-tools"];

/// The profile file.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: Option<String>,
    capabilities: Option<BTreeSet<String>>,
    tools: Option<BTreeSet<String>>,
    timeout_ms: Option<u64>,
    #[serde(default)]
    lists: Lists,
    #[serde(default)]
    env: BTreeMap<String, String>,
}

/// How the mock hosts write lists. No text fixes it: services of either kind exist, and a
/// target is not held to a form that its own hosts do not use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Lists {
    /// `{ "result": […] }`
    #[default]
    Wrapped,
    /// `[…]`
    Bare,
}

/// What the target claims.
#[derive(Debug, Clone)]
pub struct Profile {
    /// For reports.
    pub name: String,
    /// Claimed capabilities; none while they are to be taken from the target's answer.
    capabilities: Option<BTreeSet<String>>,
    /// Claimed tools without prefix; none while they are to be taken from `tools/list`.
    tools: Option<BTreeSet<String>>,
    /// Deadline of one answer (ms).
    pub timeout_ms: u64,
    /// The form of lists that the target reads.
    pub lists: Lists,
    /// Extra environment of the target.
    pub env: BTreeMap<String, String>,
}

/// A profile that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// Not the TOML shape.
    #[error("profile: {0}")]
    Toml(#[from] toml::de::Error),
    /// A capability that does not exist.
    #[error(
        "profile: unknown capability {0:?}; known are http, resources, resource-updates, inbox-wait, debug-tools"
    )]
    Capability(String),
    /// A tool that does not exist.
    #[error("profile: {0:?} is not one of the standard tools")]
    Tool(String),
}

impl Profile {
    /// Everything, as our own connector claims.
    pub fn reference() -> Self {
        Profile {
            name: "reference".to_owned(),
            capabilities: Some(
                CAPABILITIES
                    .iter()
                    .filter(|c| **c != "debug-tools")
                    .map(|c| (*c).to_owned())
                    .collect(),
            ),
            tools: Some(TOOLS.iter().map(|t| (*t).to_owned()).collect()),
            timeout_ms: DEFAULT_TIMEOUT_MS,
            lists: Lists::Wrapped,
            env: BTreeMap::new(),
        }
    }

    /// Whatever the target advertises.
    pub fn advertised() -> Self {
        Profile {
            name: "as advertised".to_owned(),
            capabilities: None,
            tools: None,
            timeout_ms: DEFAULT_TIMEOUT_MS,
            lists: Lists::Wrapped,
            env: BTreeMap::new(),
        }
    }

    /// Parses a profile file.
    ///
    /// # Errors
    /// [`ProfileError`].
    pub fn parse(text: &str) -> Result<Self, ProfileError> {
        let file: File = toml::from_str(text)?;
        for name in file.capabilities.iter().flatten() {
            if !CAPABILITIES.contains(&name.as_str()) {
                return Err(ProfileError::Capability(name.clone()));
            }
        }
        let mut tools = file.tools;
        if let Some(tools) = &mut tools {
            *tools = tools.iter().map(|t| short(t).to_owned()).collect();
            if let Some(bad) = tools.iter().find(|t| !TOOLS.contains(&t.as_str())) {
                return Err(ProfileError::Tool(bad.clone()));
            }
        }
        Ok(Profile {
            name: file.name.unwrap_or_else(|| "unnamed".to_owned()),
            capabilities: file.capabilities,
            tools,
            timeout_ms: file.timeout_ms.unwrap_or(DEFAULT_TIMEOUT_MS),
            lists: file.lists,
            env: file.env,
        })
    }

    /// Fills in what the profile leaves open from the target's own answers.
    pub fn complete(&mut self, initialize: &Value, listed: &BTreeSet<String>) {
        let tools =
            || TOOLS.iter().filter(|t| listed.contains(**t)).map(|t| (*t).to_owned()).collect();
        self.tools.get_or_insert_with(tools);
        self.capabilities.get_or_insert_with(|| {
            let resources = &initialize["capabilities"]["resources"];
            let mut claimed = BTreeSet::new();
            if resources.is_object() {
                claimed.insert("resources".to_owned());
            }
            if resources["subscribe"] == true {
                claimed.insert("resource-updates".to_owned());
            }
            claimed
        });
    }

    /// Whether the capability is claimed.
    pub fn claims(&self, capability: &str) -> bool {
        self.capabilities.as_ref().is_some_and(|c| c.contains(capability))
    }

    /// Whether the tool (without prefix) is claimed.
    pub fn claims_tool(&self, tool: &str) -> bool {
        self.tools.as_ref().is_none_or(|t| t.contains(short(tool)))
    }

    /// The claimed tools, without prefix.
    pub fn tools(&self) -> Vec<String> {
        self.tools.iter().flatten().cloned().collect()
    }

    /// The claimed capabilities.
    pub fn capabilities(&self) -> Vec<String> {
        self.capabilities.iter().flatten().cloned().collect()
    }
}

/// Deadline of one answer unless the profile says otherwise (ms).
pub const DEFAULT_TIMEOUT_MS: u64 = 15_000;

/// A tool name without the common prefix.
pub fn short(tool: &str) -> &str {
    tool.strip_prefix(TOOL_PREFIX).unwrap_or(tool)
}

/// The standard tools, without prefix, in the order of the seed.
pub const TOOLS: &[&str] = &[
    "identity_current",
    "hosts_list",
    "rooms_search",
    "rooms_list",
    "room_open",
    "room_state",
    "room_members_list",
    "room_member_get",
    "agent_status_list",
    "agent_status_get",
    "agent_status_set",
    "room_timeline",
    "room_mark_read",
    "inbox_next",
    "inbox_ack",
    "drafts_list",
    "draft_get",
    "draft_commit",
    "draft_drop",
    "profile_update",
    "room_create",
    "room_join",
    "room_leave",
    "room_send_message",
    "room_submit_event",
    "join_requests_list",
    "join_request_review",
];

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_profile_narrows_tools_and_claims_capabilities() {
        let p = Profile::parse(
            "capabilities = [\"http\"]\ntools = [\"room_open\", \"agent_protocols_room_state\"]\n",
        )
        .expect("parses");
        assert!(p.claims("http") && !p.claims("resources"));
        assert!(p.claims_tool("agent_protocols_room_open") && !p.claims_tool("room_leave"));
        assert_eq!(p.lists, Lists::Wrapped);
        assert_eq!(Profile::parse("lists = \"bare\"").expect("parses").lists, Lists::Bare);
        assert!(Profile::parse("lists = \"naked\"").is_err());
        assert!(Profile::parse("capabilities = [\"telepathy\"]").is_err());
        assert!(Profile::parse("tools = [\"sign_anything\"]").is_err());
    }

    #[test]
    fn the_example_for_people_is_a_profile() {
        let p = Profile::parse(include_str!("../examples/profile.toml")).expect("parses");
        assert!(p.claims("resources") && !p.claims("http") && !p.claims_tool("room_create"));
    }

    #[test]
    fn open_parts_come_from_the_target() {
        let mut p = Profile::advertised();
        let init = json!({ "capabilities": { "resources": {} } });
        p.complete(&init, &BTreeSet::from(["room_open".to_owned()]));
        assert!(p.claims("resources") && !p.claims("resource-updates"));
        assert!(p.claims_tool("room_open") && !p.claims_tool("room_leave"));
    }
}
