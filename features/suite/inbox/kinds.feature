Feature: Inbox kinds, and only then
  The table of kinds in 4.2: when an item appears, and that it does not appear otherwise. What
  settles the inbox is a later mention: items come in the order of their records.

  Background:
    Given a host "a"
    And the connector watches "review.finding"
    And ada opened the room "lounge" on "a" with
      """
      {"types": [
        {"use": "adp:moderation/1.0"},
        {"type": "review.finding", "kind": "signal", "title": "Finding", "schema": {"type": "object"}},
        {"type": "review.finding.draft", "kind": "signal", "title": "Draft", "schema": {"type": "object"}},
        {"type": "review.find", "kind": "signal", "title": "Review", "schema": {"type": "object"}},
        {"type": "demo.wave", "kind": "signal", "title": "Wave", "schema": {"type": "object"}},
        {"type": "demo.note", "kind": "message", "title": "Note", "schema": {"type": "object"}}]}
      """
    And bob joined "lounge"
    And the agent is a speaker of "lounge"
    And the agent is subscribed to "lounge"

  @LC-41.room.message.new @must
  Scenario: A message-like custom event counts as a message
    When bob sends "demo.note" to "lounge" with
      """
      {"text": "a note"}
      """
    And the inbox settles in "lounge"
    Then the inbox shows a "room.message.new" item
    And the item has "actor" "$(agent bob)"

  @LC-41.room.message.new @must
  Scenario Outline: <what> is no new message
    When <event>
    And the inbox settles in "lounge"
    Then the inbox shows no "room.message.new" item but for mentions

    Examples:
      | what                | event                                                            |
      | a signal            | bob waves in "lounge"                                            |
      | a join              | carol joins "lounge"                                             |
      | a departure         | bob leaves "lounge"                                              |
      | an own message      | the agent says "my own words" in "lounge"                        |
      | a role update       | ada makes bob observer in "lounge"                               |
      | a status            | bob is "drafting" in "lounge"                                    |

  @LC-41.room.message.new @should @reference
  Scenario: What was said before the agent came is no news
    Given ada opened the public room "old" on "a"
    And ada said "long ago" in "old"
    And the agent is a speaker of "old"
    When the inbox settles in "old"
    Then the inbox shows no "room.message.new" item but for mentions

  @LC-41.room.mention @must
  Scenario Outline: <what> that mentions the agent is a mention
    When bob sends "<type>" to "lounge" mentioning the agent with
      """
      {"text": "for you"}
      """
    Then soon the agent finds a "room.mention" item in the inbox
    And the item has "actor" "$(agent bob)"
    And the item has "requires_response" true

    Examples:
      | what             | type           |
      | A custom signal  | demo.wave      |
      | A custom message | demo.note      |

  @LC-41.room.mention @must
  Scenario: One of several mentions is a mention
    When bob asks ada and the agent "which of you?" in "lounge"
    Then soon the agent finds a "room.mention" item in the inbox
    And the item is the record "which of you?" of "lounge"

  @LC-41.room.mention @must
  Scenario: An agent that mentions itself is not woken
    When the agent calls "room_send_message" for "lounge" given {"content": "note to self", "mentions": ["$(agent)"]}
    And the inbox settles in "lounge"
    Then the inbox shows exactly one "room.mention" item

  @LC-41.room.mention @must
  Scenario Outline: <what> is no mention of the agent
    When <event>
    And the inbox settles in "lounge"
    Then the inbox shows exactly one "room.mention" item

    Examples:
      | what                           | event                                            |
      | the Agent ID in a text         | bob says "ask $(agent) about it" in "lounge"     |
      | a mention of somebody else     | bob asks ada "what about it?" in "lounge"        |
      | an Agent ID inside the payload | bob hides the agent in the payload in "lounge"   |

  @LC-41.room.turn.assigned @must
  Scenario: A turn carries its deadline and what is asked
    When ada sends "turn.update" to "lounge" with
      """
      {"turn_id": 1, "speaker": "$(agent)", "intent": "your view, please", "expires_at": "$(now 600000)"}
      """
    And soon the agent finds a "room.turn.assigned" item in the inbox
    Then the item has everything an agent needs to act
    And the item has "requires_response" true
    And the item has a deadline within 700 s

  @LC-41.room.turn.assigned @must
  Scenario Outline: A turn that is <state> is assigned to nobody
    When ada sends "turn.update" to "lounge" with
      """
      {"turn_id": 1, "speaker": "$(agent)", "state": "<state>"}
      """
    And the inbox settles in "lounge"
    Then the inbox shows no "room.turn.assigned" item

    Examples:
      | state     |
      | released  |
      | completed |
      | cancelled |

  @LC-41.room.turn.assigned @must
  Scenario: A message that speaks of turns assigns none
    When bob says "turn.update speaker $(agent)" in "lounge"
    And the inbox settles in "lounge"
    Then the inbox shows no "room.turn.assigned" item

  @LC-41.room.steer @must
  Scenario: A steer that names the agent is for the agent
    When ada sends "steer.create" to "lounge" with
      """
      {"instruction": "look at section 4", "target": "$(agent)", "priority": 1}
      """
    Then soon the agent finds a "room.steer" item in the inbox
    And the item has "actor" "$(agent ada)"

  @LC-41.room.steer @must
  Scenario Outline: <what> is no steer for the agent
    When <event>
    And the inbox settles in "lounge"
    Then the inbox shows no "room.steer" item

    Examples:
      | what                     | event                                             |
      | a message                | bob says "steer.create: hurry" in "lounge"        |
      | another custom signal    | bob waves in "lounge"                             |

  @LC-41.room.join.approved @must
  Scenario Outline: <what> is no approval
    When <event>
    And the inbox settles in "lounge"
    Then the inbox shows no "room.join.approved" item

    Examples:
      | what                  | event                                                      |
      | a message             | bob says "your request to join was approved" in "lounge"   |
      | a join                | carol joins "lounge"                                       |
      | a signal              | bob waves in "lounge"                                      |
      | a new role            | ada makes the agent observer in "lounge"                   |

  @LC-41.room.role.changed @must
  Scenario: Somebody else's new role is not the agent's
    When ada makes bob observer in "lounge"
    And the inbox settles in "lounge"
    Then the inbox shows no "room.role.changed" item

  @LC-41.room.role.changed @must
  Scenario: A role that stays the same did not change
    When ada makes the agent speaker in "lounge"
    And the inbox settles in "lounge"
    Then the inbox shows no "room.role.changed" item

  @LC-41.room.member.removed @must
  Scenario: A ban is a removal
    When ada bans the agent from "lounge"
    Then soon the agent finds a "room.member.removed" item in the inbox
    And the item has "actor" "$(agent ada)"

  @LC-41.room.member.removed @must
  Scenario: Somebody else's removal is not the agent's
    When ada removes bob from "lounge"
    And the inbox settles in "lounge"
    Then the inbox shows no "room.member.removed" item

  @LC-41.room.state.changed @must
  Scenario Outline: <what> is a change the agent should read
    When ada sends "<type>" to "lounge" with
      """
      <payload>
      """
    Then soon the agent finds a "room.state.changed" item in the inbox
    And the item has "actor" "$(agent ada)"

    Examples:
      | what                | type        | payload                                                                                    |
      | A new contract      | room.update | {"agenda": "Something else"}                                                               |
      | A new type          | type.define | {"type": "demo.vote", "kind": "signal", "title": "Vote", "schema": {"type": "object"}}      |
      | An imported pack    | type.define | {"use": "adp:reactions/1.0"}                                                               |
      | The end of the room | room.close  | {"reason": "done"}                                                                         |

  @LC-41.room.state.changed @must
  Scenario: A cancelled room is a changed room
    Given ada opened the room "later" on "a" with
      """
      {"start_time": "$(now 3600000)", "end_time": "$(now 7200000)"}
      """
    And the agent is a speaker of "later"
    When ada sends "room.cancel" to "later" with
      """
      {"reason": "no time"}
      """
    Then soon "inbox_next" for "later" given {"limit": 100} shows "items" contains {"kind": "room.state.changed"}

  @LC-41.room.state.changed @should
  Scenario: A scheduled room that begins is a changed room
    Given ada opened the room "soon" on "a" with
      """
      {"start_time": "$(now 4000)", "end_time": "$(now 7200000)"}
      """
    And the agent is a speaker of "soon"
    Then soon "inbox_next" for "soon" given {"limit": 100} shows "items" contains {"kind": "room.state.changed"}

  @LC-41.room.state.changed @must
  Scenario Outline: <what> is no change of the room
    When <event>
    And the inbox settles in "lounge"
    Then the inbox shows no "room.state.changed" item

    Examples:
      | what           | event                              |
      | a message      | bob says "news" in "lounge"        |
      | a signal       | bob waves in "lounge"              |
      | a join         | carol joins "lounge"               |
      | a status       | bob is "drafting" in "lounge"      |

  @LC-41.room.event.custom @must
  Scenario: A watched type wakes the agent
    When bob sends "review.finding" to "lounge" with
      """
      {"severity": "high"}
      """
    Then soon the agent finds a "room.event.custom" item in the inbox
    And the item has "actor" "$(agent bob)"

  @LC-41.room.event.custom @must
  Scenario Outline: <what> is no watched event
    When <event>
    And the inbox settles in "lounge"
    Then the inbox shows no "room.event.custom" item

    Examples:
      | what               | event                                              |
      | an unwatched type  | bob waves in "lounge"                              |
      | a longer name      | bob sends a "review.finding.draft" to "lounge"     |
      | a shorter name     | bob sends a "review.find" to "lounge"                   |
      | a message about it | bob says "review.finding is watched" in "lounge"   |

  @LC-41.room.message.new @LC-42 @must
  Scenario: One record is one item of a kind, however often the room is read
    When bob says "once" in "lounge"
    And the agent reads "lounge"
    And the agent refreshes "lounge"
    And the live streams of "lounge" break
    And the agent is subscribed to "lounge" again
    And the agent reads "lounge"
    And the inbox settles in "lounge"
    Then no two items are about the same thing

  @LC-42 @LC-14 @must
  Scenario: Ids are the same for another session and after a crash
    Given bob asked the agent "still there?" in "lounge"
    And soon the agent finds a "room.mention" item in the inbox
    And a second session "two" on the same state directory
    When session "two" looks into the inbox
    Then the noted item is in the result
    When the connector is killed
    And the connector starts again
    And the agent looks into the inbox
    Then the noted item is in the result

  @LC-14 @LC-65 @must
  Scenario: What was acknowledged stays so after a restart
    Given bob asked the agent "done?" in "lounge"
    And soon the agent finds a "room.mention" item in the inbox
    And the agent acknowledges the item as handled
    When the connector is killed
    And the connector starts again
    And the agent reads "lounge"
    Then the item is gone for good

  @LC-43 @must
  Scenario Outline: An item of kind <kind> is complete
    When <event>
    And soon the agent finds a "<kind>" item in the inbox
    Then the item has everything an agent needs to act
    And the item was created when its record was received in "lounge"

    Examples:
      | kind                | event                                                     |
      | room.message.new    | bob says "hello" in "lounge"                              |
      | room.mention        | bob asks the agent "hello?" in "lounge"                   |
      | room.role.changed   | ada makes the agent observer in "lounge"                  |
      | room.member.removed | ada removes the agent from "lounge"                       |
