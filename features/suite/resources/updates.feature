Feature: Resource updates
  Section 4.4: notifications "when the corresponding local state changes", to subscribers only.

  Background:
    Given a host "a"
    And ada opened the public room "lounge" on "a"
    And the agent is a speaker of "lounge"
    And the agent is subscribed to "lounge"

  @needs:resource-updates @LC-80 @should
  Scenario: Subscriptions are offered
    Then it offers resources with subscriptions

  @needs:resource-updates @LC-80 @should
  Scenario Outline: <what> updates <path>
    Given the agent subscribes to resource "<uri>"
    And we count the updates of "<uri>" from here
    When <event>
    Then soon the agent hears that "<uri>" changed

    Examples:
      | what              | path                         | uri                               | event                                      |
      | a new message     | rooms/{room_id}/timeline     | rooms/$(room lounge)/timeline     | ada says "news" in "lounge"                |
      | an own message    | rooms/{room_id}/timeline     | rooms/$(room lounge)/timeline     | the agent says "mine" in "lounge"          |
      | a mention         | inbox/pending                | inbox/pending                     | ada asks the agent "well?" in "lounge"     |
      | a status          | rooms/{room_id}/agent-status | rooms/$(room lounge)/agent-status | ada is "drafting" in "lounge"              |
      | a new topic       | rooms/{room_id}              | rooms/$(room lounge)              | ada renames "lounge" to "Parlour"          |
      | a join            | rooms/{room_id}              | rooms/$(room lounge)              | bob joins "lounge"                         |

  @needs:resource-updates @LC-80 @should
  Scenario: A held draft updates drafts/held
    Given ada said "news" in "lounge"
    And the agent subscribes to resource "drafts/held"
    And we count the updates of "drafts/held" from here
    And the agent has the draft "held" in "lounge"
    Then soon the agent hears that "drafts/held" changed
    When we count the updates of "drafts/held" from here
    And the agent drops the draft
    Then soon the agent hears that "drafts/held" changed

  @needs:resource-updates @LC-80 @should
  Scenario: An acknowledgement updates inbox/pending
    Given ada asked the agent "well?" in "lounge"
    And soon the agent finds a "room.mention" item in the inbox
    And the agent subscribes to resource "inbox/pending"
    And we count the updates of "inbox/pending" from here
    When the agent acknowledges the item as handled
    Then soon the agent hears that "inbox/pending" changed

  @needs:resource-updates @LC-80 @should
  Scenario: Who has not subscribed is told nothing
    Given a second session "two" on the same state directory
    And the agent subscribes to resource "rooms/$(room lounge)/timeline"
    And we count the updates of "rooms/$(room lounge)/timeline" from here
    When ada says "news" in "lounge"
    Then soon the agent hears that "rooms/$(room lounge)/timeline" changed
    And session "two" hears nothing of "rooms/$(room lounge)/timeline"
    And the agent hears nothing of "rooms/$(room lounge)/members"

  @needs:resource-updates @LC-80 @should
  Scenario: What did not change is not told
    Given the agent subscribes to resource "drafts/held"
    And the agent subscribes to resource "rooms/$(room lounge)/agent-status"
    And the agent subscribes to resource "rooms/$(room lounge)/timeline"
    And we count the updates of "rooms/$(room lounge)/timeline" from here
    When ada says "news" in "lounge"
    Then soon the agent hears that "rooms/$(room lounge)/timeline" changed
    And the agent hears nothing of "drafts/held"
    And the agent hears nothing of "rooms/$(room lounge)/agent-status"

  @needs:resource-updates @LC-80 @should
  Scenario: Who has unsubscribed is told nothing any more
    Given a second session "two" on the same state directory
    And the agent subscribes to resource "rooms/$(room lounge)/timeline"
    And session "two" subscribes to resource "rooms/$(room lounge)/timeline"
    When session "two" unsubscribes from resource "rooms/$(room lounge)/timeline"
    And we count the updates of "rooms/$(room lounge)/timeline" from here
    And ada says "news" in "lounge"
    Then soon the agent hears that "rooms/$(room lounge)/timeline" changed
    And session "two" hears nothing of "rooms/$(room lounge)/timeline"

  @needs:resource-updates @LC-80 @LC-37 @should
  Scenario: What one session does, another one's subscription sees
    Given a second session "two" on the same state directory
    And session "two" subscribes to resource "rooms/$(room lounge)/timeline"
    And we count the updates of "rooms/$(room lounge)/timeline" from here
    When the agent says "said in one process" in "lounge"
    Then soon session "two" hears that "rooms/$(room lounge)/timeline" changed
