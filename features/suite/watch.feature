Feature: Watched custom events and requests to review

  @LC-41.room.event.custom @must
  Scenario: A watched custom event raises an item
    Given a host "a"
    And the connector watches "review.finding"
    And ada opened the public room "lounge" on "a"
    And ada sent "type.define" to "lounge" with
      """
      { "type": "review.finding", "kind": "signal", "title": "Finding", "schema": { "type": "object" } }
      """
    And the agent is a speaker of "lounge"
    And the agent is subscribed to "lounge"
    When ada sends "review.finding" to "lounge" with
      """
      { "severity": "high" }
      """
    Then soon the agent finds a "room.event.custom" item in the inbox

  @LC-41.room.join.requested @LC-T.join_requests_list @LC-T.join_request_review @must
  Scenario: A creator is asked to review, and approves
    Given a host "a"
    When the agent calls "room_create" with
      """
      { "host": "$(host a)", "topic": "Board", "visibility": "restricted",
        "start_time": "$(now -1000)", "end_time": "$(now 3600000)" }
      """
    And the room of the result is called "board" on "a"
    And the agent is subscribed to "board"
    And carol asks to join "board" as speaker
    Then soon the agent finds a "room.join.requested" item in the inbox
    When the agent calls "join_requests_list" with
      """
      { "room_id": "$(room board)" }
      """
    Then the result "join_requests" has 1 entry
    When the agent calls "join_request_review" with
      """
      { "room_id": "$(room board)", "request_id": "$(note request id)", "decision": "approve", "role": "speaker" }
      """
    Then the call succeeds
    And the result has "record" and "sync"
    And the agent's last event in "board" has "payload.request" "$(note request)"

  @LC-41.room.join.approved @must
  Scenario: An approval wakes the applicant
    Given a host "a"
    And ada opened the restricted room "board" on "a"
    When the agent joins "board" as speaker
    And ada approves the agent's request for "board"
    Then soon the agent finds a "room.join.approved" item in the inbox
