Feature: A restart, a crash, and everything still there

  Background:
    Given a host "a"
    And ada opened the public room "lounge" on "a"
    And the agent is a speaker of "lounge"

  @LC-14 @must
  Scenario: After a restart rooms, head, members and history are there, with the host down
    Given ada said "before" in "lounge"
    And the agent read "lounge"
    When the connector stops
    And host "a" misbehaves
      """
      [[fault]]
      action = { refuse = {} }
      """
    And the connector starts again
    And the agent calls "rooms_list"
    Then the result "rooms" has 1 entry
    And the result "rooms.0.room_id" is "$(room lounge)"
    When the agent calls "room_members_list" with
      """
      { "room_id": "$(room lounge)" }
      """
    Then the result "members" has 2 entries
    When the agent calls "room_timeline" with
      """
      { "room_id": "$(room lounge)" }
      """
    Then the items show "before"
    And the result "sync.head_seq" is 3

  @LC-14 @LC-62 @must
  Scenario: The read cursor survives
    Given ada said "read me" in "lounge"
    And the agent has called "room_timeline" with
      """
      { "room_id": "$(room lounge)", "unread_only": true, "mark_read": true, "refresh": true }
      """
    When the connector stops
    And the connector starts again
    And ada says "new" in "lounge"
    And the agent calls "room_timeline" with
      """
      { "room_id": "$(room lounge)", "unread_only": true, "refresh": true }
      """
    Then the items are the messages "new"

  @LC-14 @LC-42 @must
  Scenario: Inbox items keep their ids over a restart
    Given ada asked the agent "still there?" in "lounge"
    And soon the agent finds a "room.mention" item in the inbox
    When the connector stops
    And the connector starts again
    Then the same item is there under the same id

  @LC-12 @must
  Scenario: Nonces grow over restarts
    Given the agent has said "one" in "lounge"
    When the connector stops
    And the connector starts again
    And the agent says "two" in "lounge"
    And the write is sent
    And the connector is killed
    And the connector starts again
    And the agent says "three" in "lounge"
    And the write is sent
    Then the nonces of everything the agent sent grow strictly

  @LC-12 @LC-14 @LC-77 @should
  Scenario: A sequence of nonces that runs ahead of the clock is kept over a restart
    Given host "a" misbehaves
      """
      [[fault]]
      when = { route = "submit", agent = "$(agent)", nth = 1 }
      action = { error = { code = "nonce_not_greater" } }
      [[fault]]
      when = { route = "submit", agent = "$(agent)", nth = 1 }
      action = { max_seen_nonce = { to = "$(now 600000)" } }
      """
    When the agent says "one" in "lounge"
    And the agent says "two" in "lounge"
    And the connector is killed
    And the connector starts again
    And the agent says "three" in "lounge"
    Then the write is sent
    And the nonces of everything the agent sent grow strictly
    And the agent's latest nonce is at least 500 s ahead

  @LC-12 @LC-14 @LC-76 @must
  Scenario: Killed between signing and the answer, no nonce is reused and nothing is doubled
    Given host "a" misbehaves
      """
      [[fault]]
      when = { route = "submit", agent = "$(agent)", event_type = "message.create", nth = 1 }
      action = { hold = { at = "after" } }
      """
    When the agent starts saying "once only" in "lounge"
    And host "a" holds 1 request
    And the connector is killed
    And host "a" lets go
    And the connector starts again
    And the agent reads "lounge"
    And the agent says "and on we go" in "lounge"
    Then "lounge" holds exactly one message "once only"
    And "lounge" holds exactly one message "and on we go"
    And the chain of "lounge" verifies
    And the nonces of everything the agent sent grow strictly

  @LC-12 @LC-14 @must
  Scenario: Killed before the host saw the write, no nonce is reused
    Given host "a" misbehaves
      """
      [[fault]]
      when = { route = "submit", agent = "$(agent)", event_type = "message.create", nth = 1 }
      action = { hold = { at = "before" } }
      """
    When the agent starts saying "maybe" in "lounge"
    And host "a" holds 1 request
    And the connector is killed
    And the connector starts again
    And the agent reads "lounge"
    And the agent says "surely" in "lounge"
    Then "lounge" holds exactly one message "surely"
    And no nonce was signed twice

  @LC-12 @must
  Scenario: Two processes on one state directory never share a nonce
    Given a second session "two" on the same state directory
    And session "two" read "lounge"
    When the agent and session "two" say 5 things each in "lounge" at the same time
    Then no nonce was signed twice
    And the chain of "lounge" verifies

  @LC-12 @must
  Scenario: One sequence of nonces for every host
    Given a host "b"
    And ada opened the public room "annex" on "b"
    When the connector stops
    And the connector starts again
    And the agent joins "annex" as speaker
    And the agent says "here" in "annex"
    And the agent refreshes "lounge"
    And the agent says "there" in "lounge"
    And the agent says "here again" in "annex"
    Then the nonces of everything the agent sent grow strictly
