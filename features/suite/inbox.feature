Feature: The inbox wakes the agent

  Background:
    Given a host "a"
    And ada opened the public room "lounge" on "a"
    And the agent is a speaker of "lounge"
    And the agent is subscribed to "lounge"

  @LC-41.room.mention @LC-43 @LC-T.inbox_next @must
  Scenario: A mention raises an item
    When ada asks the agent "can you review?" in "lounge"
    And soon the agent finds a "room.mention" item in the inbox
    Then the item has everything an agent needs to act
    And the item is the record "can you review?" of "lounge"
    And the item has "room_id" "$(room lounge)"

  @LC-41.room.mention @must
  Scenario: A message that names nobody raises no mention
    When ada says "nobody in particular" in "lounge"
    And soon the agent finds a "room.message.new" item in the inbox
    Then the inbox shows no "room.mention" item

  @LC-41.room.mention @must
  Scenario: A custom event that mentions the agent raises an item
    Given ada sent "type.define" to "lounge" with
      """
      { "type": "review.finding", "kind": "message", "title": "Finding", "schema": { "type": "object" } }
      """
    When ada sends "review.finding" to "lounge" mentioning the agent with
      """
      { "severity": "high" }
      """
    Then soon the agent finds a "room.mention" item in the inbox

  @LC-41.room.message.new @must
  Scenario: A new message raises an item, an own message does not
    When ada says "hello" in "lounge"
    And soon the agent finds a "room.message.new" item in the inbox
    Then the item is the record "hello" of "lounge"
    When the agent reads "lounge"
    And the agent acknowledges the item as handled
    And the agent says "hello yourself" in "lounge"
    And the write is sent
    And the agent looks into the inbox
    Then the inbox shows no "room.message.new" item

  @LC-41.room.role.changed @must
  Scenario: A changed role raises an item
    When ada makes the agent observer in "lounge"
    Then soon the agent finds a "room.role.changed" item in the inbox

  @LC-41.room.member.removed @must
  Scenario: Removal raises an item
    When ada removes the agent from "lounge"
    Then soon the agent finds a "room.member.removed" item in the inbox

  @LC-41.room.state.changed @must
  Scenario: A changed contract raises an item
    When ada sends "room.update" to "lounge" with
      """
      { "topic": "Something else" }
      """
    Then soon the agent finds a "room.state.changed" item in the inbox

  @LC-41.room.turn.assigned @must
  Scenario: The floor raises an item when the registry has turns
    Given ada sent "type.define" to "lounge" with
      """
      { "use": "adp:moderation/1.0" }
      """
    When ada sends "turn.update" to "lounge" with
      """
      { "turn_id": 1, "speaker": "$(agent)", "intent": "your view, please" }
      """
    Then soon the agent finds a "room.turn.assigned" item in the inbox
    When the agent looks at "lounge"
    Then the result "room.active_turn.speaker" is "$(agent)"

  @LC-41.room.turn.assigned @must
  Scenario: The floor of somebody else raises no turn item
    Given bob joined "lounge"
    And ada sent "type.define" to "lounge" with
      """
      { "use": "adp:moderation/1.0" }
      """
    When ada sends "turn.update" to "lounge" with
      """
      { "turn_id": 1, "speaker": "$(agent bob)" }
      """
    And ada asks the agent "did you see?" in "lounge"
    And soon the agent finds a "room.mention" item in the inbox
    Then the inbox shows no "room.turn.assigned" item

  @LC-41.room.steer @must
  Scenario: Steering raises an item when the registry has it
    Given ada sent "type.define" to "lounge" with
      """
      { "use": "adp:moderation/1.0" }
      """
    When ada sends "steer.create" to "lounge" with
      """
      { "instruction": "come to a decision" }
      """
    Then soon the agent finds a "room.steer" item in the inbox

  @LC-42 @must
  Scenario: An item keeps its id until it is acknowledged
    When ada asks the agent "once" in "lounge"
    And soon the agent finds a "room.mention" item in the inbox
    Then the same item is there under the same id
    When the agent reads "lounge"
    Then the same item is there under the same id

  @LC-65 @LC-T.inbox_ack @must
  Scenario Outline: An item acknowledged as <action> does not return
    When ada asks the agent "once" in "lounge"
    And soon the agent finds a "room.mention" item in the inbox
    And the agent acknowledges the item as <action>
    Then the call succeeds
    And the item is gone for good

    Examples:
      | action    |
      | handled   |
      | dismissed |

  @LC-65 @must
  Scenario: Repeated and unknown acknowledgements are harmless
    When ada asks the agent "once" in "lounge"
    And soon the agent finds a "room.mention" item in the inbox
    And the agent acknowledges the item as handled
    And the agent acknowledges the item as handled
    And the agent calls "inbox_ack" with
      """
      { "ids": ["inbox_that_never_was"], "action": "handled" }
      """
    Then the unknown id is not acknowledged
    And the item is gone for good

  @LC-65 @must
  Scenario: A deferred item hides and comes back
    When ada asks the agent "later" in "lounge"
    And soon the agent finds a "room.mention" item in the inbox
    And the agent defers the item for 2 s
    And the agent looks into the inbox
    Then the inbox shows no "room.mention" item
    And the same item is there under the same id

  @LC-64 @must
  Scenario: A claimed item is not handed to another session
    Given a second session "two" on the same state directory
    When ada asks the agent "who takes it?" in "lounge"
    And soon the agent finds a "room.mention" item in the inbox
    And the agent claims what is in the inbox
    Then the inbox shows a "room.mention" item
    When session "two" claims what is in the inbox
    Then the inbox shows no "room.mention" item

  @LC-64 @must
  Scenario: An acknowledgement from another session counts
    Given a second session "two" on the same state directory
    When ada asks the agent "who takes it?" in "lounge"
    And soon the agent finds a "room.mention" item in the inbox
    And session "two" acknowledges the item as handled
    Then the item is gone for good

  @LC-63 @may
  Scenario: Waiting ends as soon as something happens
    When the agent starts waiting for the inbox up to 30000 ms
    And ada asks the agent "wake up" in "lounge"
    And the call of the agent returns
    Then the result "items" is not []

  @LC-63 @may
  Scenario: Waiting ends with nothing when nothing happens
    When the agent waits for the inbox up to 1500 ms
    Then the result "items" is []
    And the wait took at least 1500 ms
    And the wait took less than 8000 ms

  @LC-T.inbox_next @must
  Scenario: The inbox is filtered by kind and room
    When ada asks the agent "both" in "lounge"
    And soon the agent finds a "room.mention" item in the inbox
    And the agent calls "inbox_next" with
      """
      { "kinds": ["room.steer"] }
      """
    Then the result "items" is []
    When the agent calls "inbox_next" with
      """
      { "kinds": ["room.mention"], "room_id": "$(room lounge)" }
      """
    Then the inbox shows exactly one "room.mention" item
