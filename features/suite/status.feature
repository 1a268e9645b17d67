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

  @LC-61 @should
  Scenario: What the agent has read is filled in
    Given ada said "read me" in "lounge"
    And the agent has called "room_timeline" with
      """
      { "room_id": "$(room lounge)", "refresh": true, "mark_read": true }
      """
    When the agent calls "agent_status_set" with
      """
      { "room_id": "$(room lounge)", "state": "drafting" }
      """
    Then the result "status.seen_seq" is 3
    And the result has "status.seen_hash"

  @LC-T.agent_status_set @must
  Scenario: Every optional input reaches the host
    When the agent calls "agent_status_set" with
      """
      { "room_id": "$(room lounge)", "state": "working", "summary": "s", "claim_id": "task-7",
        "activity": "reviewing", "seen_seq": 1, "extra": { "mood": "calm" }, "expires_at": "$(now 60000)" }
      """
    Then the result "status" contains { "state": "working", "summary": "s", "claim_id": "task-7" }
    And the result "status.activity" is "reviewing"
    And the result "status.extra" is { "mood": "calm" }
    And the result "status.seen_seq" is 1

  @LC-T.agent_status_set @must
  Scenario: An observer's status is refused by the host, and the code is kept
    Given ada opened the public room "hall" on "a"
    And the agent is an observer of "hall"
    When the agent calls "agent_status_set" with
      """
      { "room_id": "$(room hall)", "state": "working" }
      """
    Then the call fails with a code and a message

  @LC-21 @LC-20 @must
  Scenario: A status of another room is none of this one
    Given bob joined "lounge"
    And the agent is subscribed to "lounge"
    When host "a" misbehaves
      """
      [[fault]]
      when = { route = "live", seq = 4 }
      action = { inject = { text = "event: room.agent_status\ndata: {\"room_id\": \"d8ftedhpqhsusbg00000\", \"agent_id\": \"$(agent bob)\", \"state\": \"elsewhere\", \"updated_at\": $(now), \"expires_at\": $(now 600000)}\n\n" } }
      """
    And ada says "after the status" in "lounge"
    And the inbox settles in "lounge"
    And the agent calls "agent_status_list" for "lounge" given {"refresh": false}
    Then the result "statuses" lacks {"state": "elsewhere"}
    And the faults of host "a" did their work

  @LC-21 @must
  Scenario: A status on the live stream moves neither chain nor head
    Given the agent is subscribed to "lounge"
    When ada is "drafting" in "lounge"
    And ada says "after the status" in "lounge"
    Then soon the agent sees "after the status" in "lounge" without refreshing
    And every record of "lounge" is shown exactly once
