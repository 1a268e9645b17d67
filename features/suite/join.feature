Feature: Joining rooms and talking

  Background:
    Given a host "a"
    And ada opened the public room "lounge" on "a"

  @LC-69 @LC-67 @LC-T.room_join @must
  Scenario: An agent joins a public room and talks
    When the agent joins "lounge" as speaker
    Then the result "status" is "joined"
    And the result has "record" and "sync"
    When the agent says "hello" in "lounge"
    Then the write is sent
    And "lounge" holds exactly one message "hello" by the agent
    And the chain of "lounge" verifies

  @LC-T.room_join @LC-38 @must
  Scenario: A perspective given on joining is part of the record and of the member view
    When the agent calls "room_join" with
      """
      { "host": "$(host a)", "room_id": "$(room lounge)", "role": "speaker", "perspective": "security" }
      """
    Then the result "status" is "joined"
    And the agent's last event in "lounge" has "payload.perspective" "security"
    When the agent calls "room_member_get" with
      """
      { "room_id": "$(room lounge)", "agent_id": "$(agent)" }
      """
    Then the result "member.perspective" is "security"
    And the result "member.role" is "speaker"
    And the result "member.status" is "active"

  @LC-67 @LC-15 @must
  Scenario: Joining leads to a verified history before the result
    Given ada said "one" in "lounge"
    And ada said "two" in "lounge"
    When the agent joins "lounge" as observer
    Then the result's sync names the head of "lounge"
    When the agent reads "lounge"
    Then the items are the messages "one", "two"

  @LC-69 @must
  Scenario: A restricted room asks for approval, and approval completes the join
    Given ada opened the restricted room "board" on "a"
    When the agent joins "board" as speaker
    Then the result "status" is "approval_required"
    And the result has "join_request"
    And "board" has 1 records
    When ada approves the agent's request for "board"
    And the agent joins "board" as speaker
    Then the result "status" is "joined"
    And the agent's last event in "board" has "payload.role" "speaker"

  @LC-69 @must
  Scenario: Asking twice reuses the join request
    Given ada opened the restricted room "board" on "a"
    When the agent joins "board" as speaker
    And we remember the result "join_request" as "first"
    And the agent joins "board" as speaker
    Then the result "status" is "approval_required"
    And host "a" received 1 join requests for "board"

  @LC-69 @must
  Scenario: Another role than the approved one is a role mismatch, not a silent substitute
    Given ada opened the restricted room "board" on "a"
    When the agent joins "board" as speaker
    And ada approves the agent's request for "board" as observer
    And we count from here
    And the agent joins "board" as speaker
    Then the call fails with a code and a message
    And no events were sent to "a" since
    When the agent joins "board" as observer
    Then the result "status" is "joined"

  @LC-T.room_leave @LC-74 @must
  Scenario: Leaving a room
    Given the agent is a speaker of "lounge"
    When the agent calls "room_leave" with
      """
      { "room_id": "$(room lounge)", "reason": "done" }
      """
    Then the call succeeds
    And the result has "record" and "sync"
    And the agent's last event in "lounge" has "type" "room.leave"
    And the agent's last event in "lounge" has "payload.reason" "done"

  @LC-T.room_create @must
  Scenario: Creating a room with everything the seed lists
    When the agent calls "room_create" with
      """
      { "host": "$(host a)", "topic": "Plans", "visibility": "public",
        "start_time": "$(now -1000)", "end_time": "$(now 3600000)", "agenda": "first things first",
        "guidance": "be brief", "tags": ["plans"], "language": "en",
        "policy": { "max_speakers": 4 },
        "types": [ { "type": "demo.note", "kind": "signal", "title": "Note",
                     "schema": { "type": "object" } } ] }
      """
    Then the result "room.topic" is "Plans"
    And the result "room.status" is "active"
    And the result "sync.head_seq" is 1
    And the result "envelope.event.type" is "room.create"
    And the result "envelope.event.payload.agenda" is "first things first"
    And the result "envelope.event.payload.policy.max_speakers" is 4
    And every event that the agent sent verifies independently

  @LC-T.room_create @LC-16 @must
  Scenario: A creation answered with a record that does not recompute is not accepted
    Given host "a" misbehaves
      """
      [[fault]]
      when = { route = "create", agent = "$(agent)" }
      action = { set = { pointer = "/hash", value = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" } }
      """
    When the agent calls "room_create" with
      """
      { "host": "$(host a)", "topic": "Plans", "visibility": "public",
        "start_time": "$(now -1000)", "end_time": "$(now 3600000)" }
      """
    Then a false creation record is not shown as the head
