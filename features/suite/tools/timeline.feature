Feature: Timeline and read cursor
  Seqs: 1 room.create, 2 bob joins, 3 to 6 messages, 7 the agent joins.

  Background:
    Given a host "a"
    And ada opened the public room "lounge" on "a"
    And bob joined "lounge"
    And ada said "three" in "lounge"
    And bob said "four" in "lounge"
    And ada said "five" in "lounge"
    And bob said "six" in "lounge"
    And the agent is a speaker of "lounge"

  @LC-T.room_timeline @must
  Scenario Outline: <what>
    When the agent calls "room_timeline" for "lounge" given <input>
    Then the items have the seqs <seqs>

    Examples:
      | what                                     | input                                                              | seqs                |
      | without a filter everything, ascending   | {}                                                                 | 1, 2, 3, 4, 5, 6, 7 |
      | after_seq is exclusive                   | {"after_seq": 5}                                                   | 6, 7                |
      | before_seq is exclusive                  | {"before_seq": 3}                                                  | 1, 2                |
      | both bound a range                       | {"after_seq": 2, "before_seq": 6}                                  | 3, 4, 5             |
      | limit counts from the start              | {"limit": 2}                                                       | 1, 2                |
      | types name event types                   | {"types": ["room.join"]}                                           | 2, 7                |
      | several types combine with or            | {"types": ["room.join", "room.create"]}                            | 1, 2, 7             |
      | actors name agents                       | {"actors": ["$(agent bob)"]}                                       | 2, 4, 6             |
      | filters combine with and                 | {"actors": ["$(agent bob)"], "types": ["message.create"], "after_seq": 4} | 6            |
      | nothing matches                          | {"types": ["no.such.type"]}                                        | none                |
      | beyond the end                           | {"after_seq": 7}                                                   | none                |
      | unread are the others' messages          | {"unread_only": true, "types": ["message.create"]}                 | 3, 4, 5, 6          |

  @LC-T.room_timeline @must
  Scenario Outline: Pages of <size> lead to the end, with every item once and in order
    When the agent pages through the "items" of "room_timeline" for "lounge", <size> at a time
    Then the items have the seqs 1, 2, 3, 4, 5, 6, 7

    Examples:
      | size |
      | 1    |
      | 3    |
      | 7    |

  @LC-T.room_timeline @must
  Scenario: Pages of a filter lead to the end too
    When the agent pages through the "items" of "room_timeline" for "lounge", 1 at a time, given {"actors": ["$(agent bob)"]}
    Then the items have the seqs 2, 4, 6

  @LC-T.room_timeline @must
  Scenario: refresh reads the host first, its absence does not
    Given the agent has called "room_open" for "lounge" on "a" given {"subscribe": false}
    And soon nobody is subscribed to "lounge"
    And ada said "eight" in "lounge"
    When the agent calls "room_timeline" for "lounge" given {"after_seq": 7}
    Then the items have the seqs none
    When the agent calls "room_timeline" for "lounge" given {"after_seq": 7, "refresh": true}
    Then the items have the seqs 8

  @LC-T.room_timeline @must
  Scenario: include_records adds the verified records
    When the agent calls "room_timeline" for "lounge" given {"after_seq": 5, "before_seq": 7, "include_records": true}
    Then the full record of seq 6 of "lounge" is in the result
    When the agent calls "room_timeline" for "lounge" given {"after_seq": 5, "before_seq": 7}
    Then the full record of seq 6 of "lounge" is not in the result

  @LC-T.room_timeline @LC-62 @must
  Scenario: mark_read goes as far as what was returned, and no further
    When the agent calls "room_timeline" for "lounge" given {"unread_only": true, "mark_read": true, "limit": 2, "types": ["message.create"]}
    Then the items have the seqs 3, 4
    When the agent calls "room_timeline" for "lounge" given {"unread_only": true, "types": ["message.create"]}
    Then the items have the seqs 5, 6

  @LC-62 @must
  Scenario: Reading without mark_read moves nothing
    When the agent calls "room_timeline" for "lounge" given {"unread_only": true}
    And the agent calls "room_timeline" for "lounge" given {"unread_only": true, "types": ["message.create"]}
    Then the items have the seqs 3, 4, 5, 6

  @LC-62 @must
  Scenario: Reading an old page with mark_read does not make later things unread again
    Given the agent has called "room_mark_read" for "lounge" given {"through_seq": 7}
    When the agent calls "room_timeline" for "lounge" given {"before_seq": 4, "mark_read": true}
    Then the result "sync.unread_count" is 0

  @LC-62 @LC-T.room_mark_read @must
  Scenario: Own messages are not unread
    Given the agent has called "room_mark_read" for "lounge" given {"through_seq": 7}
    When the agent says "eight" in "lounge"
    And the agent calls "room_timeline" for "lounge" given {"unread_only": true}
    Then the items do not show "eight"
    And the result "sync.unread_count" is 0

  @LC-T.room_mark_read @must
  Scenario: Marking answers where the cursor stands, under the room's host too
    When the agent calls "room_mark_read" for "lounge" on "a" given {"through_seq": 4}
    Then the result "room_id" is "$(room lounge)"
    And the result "read_seq" is 4
    And the result "unread_count" is 2
    When the agent calls "room_mark_read" for "lounge" given {"through_seq": 4}
    Then the result "read_seq" is 4

  @LC-T.room_mark_read @LC-14 @must
  Scenario: The cursor belongs to the identity and outlives the process
    Given the agent has called "room_mark_read" for "lounge" given {"through_seq": 5}
    When the connector is killed
    And the connector starts again
    And the agent calls "room_timeline" for "lounge" given {"unread_only": true, "types": ["message.create"]}
    Then the items have the seqs 6

  @LC-40 @must
  Scenario: Mentions come from the event's top level, whatever the text says
    When ada says "hello $(agent) and did:agent:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" in "lounge"
    And ada asks the agent "and you" in "lounge"
    And the agent calls "room_timeline" for "lounge" given {"after_seq": 7, "refresh": true}
    Then the result "items.0.mentions" holds nothing
    And the result "items.1.mentions" is ["$(agent)"]

  @LC-40 @must
  Scenario: A message whose content is an object keeps it
    Given bob sent "message.create" to "lounge" with
      """
      {"content_type": "application/json", "content": {"a": [1, 2.5, null]}, "extra": {"k": "v"}}
      """
    When the agent calls "room_timeline" for "lounge" given {"after_seq": 7, "refresh": true}
    Then the result "items.0.content_type" is "application/json"
    And the result "items.0.content" is {"a": [1, 2.5, null]}
    And the result "items.0.payload.extra" is {"k": "v"}
