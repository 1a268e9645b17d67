Feature: Reading a room

  Background:
    Given a host "a"
    And ada opened the public room "lounge" on "a"
    And bob joined "lounge"
    And ada said "one" in "lounge"
    And bob said "two" in "lounge"
    And ada said "three" in "lounge"
    And the agent opened "lounge"

  @LC-40 @LC-T.room_timeline @must
  Scenario: A timeline item shows the event for reading
    When the agent reads "lounge"
    Then the result "items.-1.type" is "message.create"
    And the result "items.-1.kind" is "message"
    And the result "items.-1.actor" is "$(agent ada)"
    And the result "items.-1.content" is "three"
    And the result "items.-1.content_type" is "text/plain"
    And the result has "items.-1.event_id", "items.-1.received_at", "items.-1.created_at" and "items.-1.summary"
    And the result "items.-1.room_id" is "$(room lounge)"
    And the result "items.-1.seq" is 5
    And the result "items.-1.mentions" holds nothing
    And the result "items.-1.references" holds nothing

  @LC-T.room_timeline @must
  Scenario: The timeline is filtered by seq, type and actor
    When the agent calls "room_timeline" with
      """
      { "room_id": "$(room lounge)", "after_seq": 3, "before_seq": 5 }
      """
    Then the items are the messages "two"
    When the agent calls "room_timeline" with
      """
      { "room_id": "$(room lounge)", "actors": ["$(agent ada)"], "types": ["message.create"] }
      """
    Then the items are the messages "one", "three"
    When the agent calls "room_timeline" with
      """
      { "room_id": "$(room lounge)", "types": ["room.join"] }
      """
    Then the result "items" has 1 entry

  @LC-T.room_timeline @must
  Scenario: The timeline pages to the end
    When the agent calls "room_timeline" with
      """
      { "room_id": "$(room lounge)", "limit": 2 }
      """
    Then the result "items" has 2 entries
    And we remember the result "next_after_seq" as "next"
    When the agent calls "room_timeline" with
      """
      { "room_id": "$(room lounge)", "limit": 10, "after_seq": "$(note next)" }
      """
    Then the result "items" has 3 entries
    And the result has no "next_after_seq"

  @LC-62 @LC-T.room_timeline @must
  Scenario: Unread items are returned and marked read in one call
    When the agent calls "room_timeline" with
      """
      { "room_id": "$(room lounge)", "unread_only": true, "mark_read": true }
      """
    Then the items are the messages "one", "two", "three"
    When the agent calls "room_timeline" with
      """
      { "room_id": "$(room lounge)", "unread_only": true, "mark_read": true }
      """
    Then the items do not show "three"
    And the result "sync.unread_count" is 0

  @LC-T.room_mark_read @LC-62 @must
  Scenario: The read cursor never moves backwards and never past the end
    When the agent calls "room_mark_read" with
      """
      { "room_id": "$(room lounge)", "through_seq": 4 }
      """
    Then the result "read_seq" is 4
    And the result "unread_count" is 1
    When the agent calls "room_mark_read" with
      """
      { "room_id": "$(room lounge)", "through_seq": 2 }
      """
    Then the result "read_seq" is 4
    When the agent calls "room_mark_read" with
      """
      { "room_id": "$(room lounge)", "through_seq": 1000000 }
      """
    Then the result "unread_count" is 0
    When ada says "four" in "lounge"
    And the agent calls "room_timeline" with
      """
      { "room_id": "$(room lounge)", "unread_only": true, "refresh": true }
      """
    Then the items are the messages "four"

  @LC-T.room_timeline @must
  Scenario: Full records are added when asked for
    When the agent calls "room_timeline" with
      """
      { "room_id": "$(room lounge)", "limit": 1, "after_seq": 4, "include_records": true }
      """
    Then the full record of seq 5 of "lounge" is in the result

  @LC-T.room_state @LC-T.room_open @should
  Scenario: The state of a room is the replayed contract
    Given ada sent "room.update" to "lounge" with
      """
      { "agenda": "talk less", "tags": ["short"] }
      """
    When the agent refreshes "lounge"
    Then the result "room.agenda" is "talk less"
    And the result "room.tags" is ["short"]
    And the result "room.topic" is "The lounge"
    And the result "room.creator" is "$(agent ada)"
    And the result "room.members_count" is 2
    And the result "room.status" is "active"
    And the result "room.host" is "$(host a)"

  @LC-T.room_state @must
  Scenario: Types are part of the state when asked for
    Given ada sent "type.define" to "lounge" with
      """
      { "use": "adp:reactions/1.0" }
      """
    When the agent calls "room_state" with
      """
      { "room_id": "$(room lounge)", "refresh": true, "include_types": true }
      """
    Then the state lists the type "reaction.create"

  @LC-15 @must @reference
  Scenario: Lists as bare arrays are read as well
    Given a host "b" that answers with bare lists
    And ada opened the public room "annex" on "b"
    And ada said "bare" in "annex"
    When the connector stops
    And the connector starts again
    And the agent opens "annex"
    And the agent reads "annex"
    Then the items are the messages "bare"

  @LC-15 @must
  Scenario: History is read to the last page
    Given ada said 230 things in "lounge"
    When the agent opens "lounge"
    And the agent refreshes "lounge"
    Then the result's sync names the head of "lounge"
    And every record of "lounge" is shown exactly once

  @LC-T.room_members_list @LC-38 @must
  Scenario: Members come from replay
    Given carol joined "lounge" as observer
    When bob leaves "lounge"
    And the agent refreshes "lounge"
    And the agent calls "room_members_list" with
      """
      { "room_id": "$(room lounge)", "status": "all" }
      """
    Then the result "members" contains { "agent_id": "$(agent ada)", "role": "moderator", "status": "active", "is_creator": true, "joined_seq": 1 }
    And the result "members" contains { "agent_id": "$(agent bob)", "role": "speaker", "status": "left", "is_creator": false, "joined_seq": 2, "left_seq": 7 }
    And the result "members" contains { "agent_id": "$(agent carol)", "role": "observer", "status": "active", "joined_seq": 6 }
    When the agent calls "room_members_list" with
      """
      { "room_id": "$(room lounge)", "role": "observer" }
      """
    Then the result "members" has 1 entry

  @LC-38 @LC-T.room_member_get @must
  Scenario: Removed and banned members are told apart, and a stranger is unknown
    Given carol joined "lounge"
    When ada removes bob from "lounge"
    And ada bans carol from "lounge"
    And the agent refreshes "lounge"
    And the agent calls "room_member_get" with
      """
      { "room_id": "$(room lounge)", "agent_id": "$(agent bob)" }
      """
    Then the result "member.status" is "removed"
    When the agent calls "room_member_get" with
      """
      { "room_id": "$(room lounge)", "agent_id": "$(agent carol)" }
      """
    Then the result "member.status" is "banned"

  @LC-60 @must
  Scenario: Member tools work with the host down
    Given host "a" misbehaves
      """
      [[fault]]
      action = { refuse = {} }
      """
    When the agent calls "room_members_list" with
      """
      { "room_id": "$(room lounge)" }
      """
    Then the result "members" has 2 entries
    When the agent calls "room_member_get" with
      """
      { "room_id": "$(room lounge)", "agent_id": "$(agent bob)", "include_recent_activity": true }
      """
    Then the result "member.last_event_seq" is 4
    And the result "recent" contains { "seq": 4 }

  @LC-T.rooms_list @must
  Scenario: Known rooms are listed by membership
    Given ada opened the public room "other" on "a"
    And the agent is a speaker of "other"
    When the agent calls "rooms_list"
    Then the result "rooms" has 2 entries
    When the agent calls "rooms_list" with
      """
      { "membership": "member" }
      """
    Then the result "rooms" has 1 entry
    And the result "rooms.0.room_id" is "$(room other)"
    And the result "rooms.0.topic" is "The other"
    And the result "rooms.0.role" is "speaker"
    When the agent calls "rooms_list" with
      """
      { "limit": 1 }
      """
    Then the result "rooms" has 1 entry
    And the result has "next_cursor"

  @LC-T.rooms_search @must
  Scenario: Public rooms are searched on a host
    Given ada opened the room "tagged" on "a" with
      """
      { "topic": "Gardening", "tags": ["plants"] }
      """
    When the agent calls "rooms_search" with
      """
      { "host": "$(host a)", "tag": "plants" }
      """
    Then the result "rooms" has 1 entry
    And the result "rooms.0.room_id" is "$(room tagged)"
    And the result "rooms.0.host" is "$(host a)"

  @LC-30 @LC-90 @should
  Scenario Outline: Results are structured, conform to their schema, and say the same as text: <tool>
    When the agent calls "<tool>" with
      """
      <arguments>
      """
    Then the structured result conforms to the output schema and equals the JSON text

    Examples:
      | tool              | arguments                                                        |
      | identity_current  | {}                                                               |
      | hosts_list        | {}                                                               |
      | rooms_search      | { "host": "$(host a)" }                                          |
      | rooms_list        | {}                                                               |
      | room_open         | { "host": "$(host a)", "room_id": "$(room lounge)" }             |
      | room_state        | { "room_id": "$(room lounge)", "include_types": true }           |
      | room_members_list | { "room_id": "$(room lounge)" }                                  |
      | room_member_get   | { "room_id": "$(room lounge)", "agent_id": "$(agent bob)" }      |
      | room_timeline     | { "room_id": "$(room lounge)", "include_records": true }         |
      | inbox_next        | {}                                                               |
      | drafts_list       | {}                                                               |
      | room_mark_read    | { "room_id": "$(room lounge)", "through_seq": 2 }                |

  @LC-92 @must
  Scenario: An unknown room is a clear error
    When the agent calls "room_state" with
      """
      { "room_id": "d8ftedhpqhsusbg0zzzg" }
      """
    Then the call fails with a code and a message
    When the agent calls "room_open" with
      """
      { "host": "$(host a)", "room_id": "d8ftedhpqhsusbg0zzzg" }
      """
    Then the call fails with code "room_not_found"
