Feature: The inbox as a queue

  Background:
    Given a host "a"
    And ada opened the public room "lounge" on "a"
    And ada opened the public room "other" on "a"
    And the agent is a speaker of "lounge"
    And the agent is a speaker of "other"
    And the agent is subscribed to "lounge"
    And the agent is subscribed to "other"

  @LC-T.inbox_next @must
  Scenario: room_id and kinds narrow, limit bounds, pending_count counts
    When ada asks the agent "one" in "lounge"
    And ada asks the agent "two" in "lounge"
    And ada asks the agent "three" in "other"
    And the inbox holds 3 "room.mention" items
    And the agent calls "inbox_next" for "lounge" given {"kinds": ["room.mention"]}
    Then the result "items" has 2 entries
    When the agent calls "inbox_next" for "lounge" given {"kinds": ["room.steer", "room.mention"]}
    Then the result "items" has 2 entries
    When the agent calls "inbox_next" for "other" on "a" given {"kinds": ["room.mention"]}
    Then the result "items" has 1 entry
    When the agent calls "inbox_next" given {"limit": 1}
    Then the result "items" has 1 entry
    And the result "pending_count" reaches 2

  @LC-T.inbox_next @LC-43 @must
  Scenario: What is urgent comes first
    When ada says "nothing special" in "lounge"
    And ada asks the agent "urgent?" in "lounge"
    And the inbox holds 1 "room.mention" items
    And the agent calls "inbox_next" given {"limit": 100}
    Then the items are in order of priority

  @LC-T.inbox_ack @LC-65 @must
  Scenario: Several ids at once, and the count goes down
    When ada asks the agent "one" in "lounge"
    And ada asks the agent "two" in "lounge"
    And the inbox holds 2 "room.mention" items
    And the agent acknowledges all "room.mention" items as dismissed
    Then the result "acknowledged" has 2 entries
    When the agent calls "inbox_next" given {"kinds": ["room.mention"]}
    Then the result "items" is []

  @LC-T.inbox_ack @LC-65 @must
  Scenario: Unknown ids are told apart from known ones
    When ada asks the agent "one" in "lounge"
    And soon the agent finds a "room.mention" item in the inbox
    And the agent acknowledges the item and an unknown one
    Then only the item is acknowledged

  @LC-65 @must
  Scenario: A deferred item does not come back early, for no session
    Given a second session "two" on the same state directory
    When ada asks the agent "later" in "lounge"
    And soon the agent finds a "room.mention" item in the inbox
    And the agent defers the item for 600 s
    And session "two" looks into the inbox
    Then the inbox shows no "room.mention" item
    When the agent calls "inbox_next" given {"claim": true, "kinds": ["room.mention"]}
    Then the result "items" is []

  @LC-64 @must
  Scenario: Many claims at once never hand one item to two sessions
    Given a second session "two" on the same state directory
    And ada asked the agent "one" in "lounge"
    And ada asked the agent "two" in "lounge"
    And ada asked the agent "three" in "lounge"
    And ada asked the agent "four" in "lounge"
    And the inbox holds 4 "room.mention" items
    When both sessions claim one item at a time until nothing is left: "two"
    Then no item went to two sessions
    And 4 "room.mention" items were handed out

  @LC-64 @must
  Scenario: A claimed item stays with its session, and a deferral frees it
    Given a second session "two" on the same state directory
    And ada asked the agent "mine?" in "lounge"
    And soon the agent finds a "room.mention" item in the inbox
    When the agent calls "inbox_next" given {"claim": true, "kinds": ["room.mention"]}
    Then the noted item is in the result
    When the agent calls "inbox_next" given {"claim": true, "kinds": ["room.mention"]}
    Then the noted item is in the result
    When session "two" calls "inbox_next" given {"kinds": ["room.mention"]}
    Then the result "items" is []
    When the agent defers the item for 1 s
    Then soon session "two" is handed the noted item

  @LC-63 @may
  Scenario: A wait is for what was asked for
    When the agent starts waiting for the inbox up to 20000 ms for "room.mention"
    And ada says "not a mention" in "lounge"
    And ada asks the agent "a mention" in "lounge"
    And the call of the agent returns
    Then the result "items.0.kind" is "room.mention"

  @LC-63 @may
  Scenario: A cancelled wait ends, and the connector answers on
    When the agent starts waiting for the inbox up to 30000 ms
    And the agent cancels the call
    And the client pings
    And ada asks the agent "after the cancellation" in "lounge"
    And soon the agent finds a "room.mention" item in the inbox
    Then the cancelled call was never answered

  @LC-64 @LC-63 @may
  Scenario: A cancelled claim keeps nothing from others
    Given a second session "two" on the same state directory
    When the agent starts claiming from the inbox up to 30000 ms for "room.mention"
    And the agent cancels the call
    And ada asks the agent "for whom?" in "lounge"
    Then soon session "two" finds a "room.mention" item in the inbox
