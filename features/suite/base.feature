Feature: What a write is based on

  Background:
    Given a host "a"
    And ada opened the public room "lounge" on "a"
    And the agent is a speaker of "lounge"

  @LC-34 @must
  Scenario: A base that the agent gives is signed unchanged
    When the agent looks at "lounge"
    And we remember the result "sync.head_seq" as "seq"
    And we remember the result "sync.head_hash" as "hash"
    And the agent says "based" in "lounge" with
      """
      { "base_seq": "$(note seq)", "base_hash": "$(note hash)" }
      """
    Then the write is sent
    And the agent's last event in "lounge" has "base_seq" "$(note seq)"
    And the agent's last event in "lounge" has "base_hash" "$(note hash)"

  @LC-34 @should @reference
  Scenario Outline: Half a base is refused: <half>
    Given we count from here
    When the agent calls "room_send_message" for "lounge" given {"content": "on what?", <half>}
    Then the call fails with a code and a message
    And no events were sent to "a" since

    Examples:
      | half                           |
      | "base_seq": 1                  |
      | "base_hash": "$(hash 1 lounge)" |

  @LC-34 @LC-74 @must
  Scenario: A signal keeps the base that the agent gives, however old
    Given ada sent "type.define" to "lounge" with
      """
      { "type": "demo.wave", "kind": "signal", "title": "Wave", "schema": { "type": "object" } }
      """
    And ada said "later" in "lounge"
    When the agent reads "lounge"
    And we remember the result "items.0.seq" as "seq"
    And the agent calls "room_timeline" with
      """
      { "room_id": "$(room lounge)", "limit": 1, "include_records": true, "after_seq": 1 }
      """
    And we remember the hash of the first record of "lounge" as "hash"
    And the agent submits "demo.wave" to "lounge" with
      """
      { "+base_seq": 1, "+base_hash": "$(note hash)" }
      """
    Then the write is sent
    And the agent's last event in "lounge" has "base_seq" 1

  @LC-35 @must
  Scenario: Without a base the presented head is used, also after the connector has synced further
    Given a second session "watcher" on the same state directory
    And the agent is subscribed to "lounge"
    When the agent reads "lounge"
    And we remember the result "sync.head_seq" as "seq"
    And ada says "something new" in "lounge"
    Then soon session "watcher" sees "something new" in "lounge" without refreshing
    When the agent says "I did not read that" in "lounge"
    Then the write is held
    And the result "draft.base_seq" is "$(note seq)"
    And "lounge" holds no message "I did not read that"

  @LC-35 @must
  Scenario: Any result with sync presents its head
    When the agent reads "lounge"
    And ada says "something new" in "lounge"
    And the agent refreshes "lounge"
    And the agent says "now I know" in "lounge"
    Then the write is sent

  @LC-35 @LC-T.rooms_list @must
  Scenario: The inbox and the list of rooms present nothing
    Given the agent read "lounge"
    And ada asked the agent "are you there?" in "lounge"
    When soon the agent finds a "room.mention" item in the inbox
    And the agent calls "rooms_list"
    And the agent says "I have not read the room" in "lounge"
    Then the write is held

  @LC-36 @must
  Scenario: With nothing presented a write syncs first
    Given ada said "before" in "lounge"
    And the agent has called "room_open" for "lounge" on "a" given {"subscribe": false}
    And soon nobody is subscribed to "lounge"
    And a second session "fresh" on the same state directory
    And ada said "just now" in "lounge"
    When session "fresh" says "hello" in "lounge"
    Then the write is sent
    And "lounge" holds exactly one message "hello" by the agent

  @LC-37 @must
  Scenario: Two sessions have separate presented heads
    Given a second session "two" on the same state directory
    And the agent read "lounge"
    And session "two" read "lounge"
    And ada said "news" in "lounge"
    And session "two" read "lounge"
    When session "two" says "I read it" in "lounge"
    Then the write is sent
    When the agent says "I did not" in "lounge"
    Then the write is held

  @LC-32 @must
  Scenario: Signals move the synced seq and not the head
    When the agent looks at "lounge"
    Then the result's sync names the head of "lounge"
    And the result "sync.head_seq" is 1
    And the result "sync.synced_seq" is 2
    When bob joins "lounge"
    And the agent refreshes "lounge"
    Then the result "sync.head_seq" is 1
    And the result "sync.synced_seq" is 3

  @LC-31 @LC-33 @should
  Scenario: Every room-scoped result carries a complete sync
    When the agent opens "lounge"
    Then the result's sync is complete
    When the agent looks at "lounge"
    Then the result's sync is complete
    When the agent reads "lounge"
    Then the result's sync is complete
    When the agent says "hello" in "lounge"
    Then the result's sync is complete

  @LC-31 @must
  Scenario: What waits in one room is not counted for another
    Given ada opened the public room "other" on "a"
    And the agent is a speaker of "other"
    And the agent read "lounge"
    When we remember the result "sync.unread_count" as "unread"
    And we remember the result "sync.pending_inbox_count" as "pending"
    And ada asks the agent "over here" in "other"
    And the agent reads "other"
    And soon the agent finds a "room.mention" item in the inbox
    And the agent looks at "lounge"
    Then the result "sync.unread_count" is "$(note unread)"
    And the result "sync.pending_inbox_count" is "$(note pending)"
    When the agent looks at "other"
    Then the result "sync.unread_count" reaches 1
    And the result "sync.pending_inbox_count" reaches 1

  @LC-33 @should @reference
  Scenario: The host may advertise more than can be read
    Given the agent has called "room_open" for "lounge" on "a" given {"subscribe": false}
    And soon nobody is subscribed to "lounge"
    And ada said "out of reach" in "lounge"
    And host "a" misbehaves
      """
      [[fault]]
      when = { route = "events" }
      action = { status = { code = 503 } }
      """
    When the agent refreshes "lounge"
    And the agent looks at "lounge"
    Then the result "sync.synced_seq" is 2
    And the result "sync.remote_seq" is 3

  @LC-74 @must
  Scenario: A membership write is never held
    Given the agent read "lounge"
    And ada said "the head moves" in "lounge"
    When the agent calls "room_leave" with
      """
      { "room_id": "$(room lounge)" }
      """
    Then the call succeeds
    And the agent's last event in "lounge" has "type" "room.leave"
