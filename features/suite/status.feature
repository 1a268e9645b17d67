Feature: Agent status

  Background:
    Given a host "a"
    And ada opened the public room "lounge" on "a"
    And the agent is a speaker of "lounge"

  @LC-61 @LC-21 @LC-T.agent_status_set @must
  Scenario: A status is set with a request JWT and moves nothing
    When the agent looks at "lounge"
    And we remember the result "sync.synced_seq" as "seq"
    And we count from here
    And the agent calls "agent_status_set" with
      """
      { "room_id": "$(room lounge)", "state": "drafting", "summary": "thinking" }
      """
    Then the result "status.state" is "drafting"
    And the result "status.agent_id" is "$(agent)"
    And the result has "status.expires_at"
    And the result "status.seen_seq" reaches 1
    And no events were sent to "a" since
    And "lounge" has 2 records
    And every request of "status_put" at host "a" carried a sound request JWT

  @LC-61 @must
  Scenario: A status is cleared by letting it expire now
    Given the agent has called "agent_status_set" with
      """
      { "room_id": "$(room lounge)", "state": "working" }
      """
    When the agent calls "agent_status_set" with
      """
      { "room_id": "$(room lounge)", "state": "working", "expires_at": "$(now)" }
      """
    And the agent calls "agent_status_list" with
      """
      { "room_id": "$(room lounge)", "refresh": true }
      """
    Then the result "statuses" has 0 entries

  @LC-T.agent_status_list @LC-T.agent_status_get @must
  Scenario: The status of others is read
    Given ada is "reviewing" in "lounge"
    When the agent calls "agent_status_list" with
      """
      { "room_id": "$(room lounge)", "refresh": true }
      """
    Then the result "statuses" contains { "agent_id": "$(agent ada)", "state": "reviewing" }
    When the agent calls "agent_status_get" with
      """
      { "room_id": "$(room lounge)", "agent_id": "$(agent ada)", "refresh": true }
      """
    Then the result "status.state" is "reviewing"
    When the agent calls "agent_status_get" with
      """
      { "room_id": "$(room lounge)", "agent_id": "$(agent bob)", "refresh": true }
      """
    Then the result has no "status"
