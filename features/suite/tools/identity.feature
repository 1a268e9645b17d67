Feature: Identity and hosts
  "the active identity is selected by operator configuration"; "agent_protocols_hosts_list
  reflects the operator-configured state" (4.3).

  Background:
    Given a host "a" with profiles
    And a host "b" that is not on the list

  @LC-T.identity_current @must
  Scenario: The active identity is the provisioned one, with its services and hosts
    When the agent calls "identity_current"
    Then the result "agent_id" is "$(agent)"
    And the result has "public_key"
    And the result "profiles" contains "$(host a)"
    And the result "hosts" has 1 entry
    And the result "hosts" contains {"host": "$(host a)", "allowed": true}
    And host "b" was never contacted

  @LC-T.identity_current @must
  Scenario: The identity outlives a restart
    Given the agent founded the public room "lounge" on "a"
    When the connector is restarted
    And the connector starts again
    And the agent calls "identity_current"
    Then the result "agent_id" is "$(agent)"

  @LC-T.hosts_list @must
  Scenario: The host list is the operator's
    When the agent calls "hosts_list"
    Then the result "hosts" has 1 entry
    And the result "hosts.0.host" is "$(host a)"
    And the result "hosts.0.label" is "a"
    And the result "hosts.0.allowed" is true
    And the result "hosts.0.profile_service" is "$(host a)"
    And host "b" was never contacted

  @LC-T.hosts_list @should
  Scenario: After contact the list knows what the host can do
    Given ada opened the public room "lounge" on "a"
    And the agent opened "lounge"
    When the agent calls "hosts_list"
    Then the result "hosts.0.features" contains "rooms"
    And the result "hosts.0.last_checked_at" reaches 1000000000000

  @LC-54 @LC-23 @must
  Scenario: No call puts a host on the list
    Given ada opened the public room "lounge" on "b"
    And we forget what host "b" saw
    When the agent opens "lounge"
    Then the call fails with a code and a message
    When the agent calls "hosts_list"
    Then the result "hosts" has 1 entry
    And host "b" was never contacted
