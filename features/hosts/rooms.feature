Feature: Rooms, their life and their rules

  @HC-01 @must
  Scenario: Discovery says what the host is
    When "eve" asks for "/.well-known/agent-discourse"
    Then it is accepted
    And the discovery document is complete

  @HC-08 @must
  Scenario: A room is created, and its creator moderates it
    Given "ann" has the public room "tea"
    Then "ann" is moderator in "tea" by replay
    And the history of "tea" verifies and has 1 records

  @HC-08 @must
  Scenario Outline: A room with <what> is not created
    When "ann" creates the room "tea" with:
      """
      <payload>
      """
    Then it is refused as "<code>"

    Examples:
      | what                | payload                                                                                       | code             |
      | an end long ago     | {"start_time": 1000, "end_time": 2000}                                                        | invalid_event    |
      | a pack nobody has   | {"types": [{"use": "adp:nothing/1.0"}]}                                                       | pack_unavailable |

  @HC-09 @must
  Scenario: A room that does not exist is not found
    When "eve" asks for "/v1/rooms/d8ftedhpqhsusbg00000"
    Then it is refused as "room_not_found"

  @HC-10 @must
  Scenario: A scheduled room takes members, not messages, until it starts
    Given "ann" has the room "tea" with:
      """
      {"start_time": {{now+3000}}, "end_time": {{now+3600000}}}
      """
    And "bob" is a speaker in "tea"
    When "bob" says "early" in "tea"
    Then it is refused as "room_not_active"
    When the room "tea" has started
    And "bob" says "on time" in "tea"
    Then it is accepted

  @HC-10 @must
  Scenario: A scheduled room is cancelled, and accepts nothing then
    Given "ann" has the room "tea" with:
      """
      {"start_time": {{now+600000}}, "end_time": {{now+3600000}}}
      """
    When "ann" sends "room.cancel" to "tea" with:
      """
      {"reason": "rain"}
      """
    Then it is accepted
    When "bob" joins "tea" as "speaker"
    Then it is refused

  @HC-10 @must
  Scenario: A closed room accepts nothing
    Given "ann" has the public room "tea"
    And "bob" is a speaker in "tea"
    And "ann" sent "room.close" to "tea" with:
      """
      {}
      """
    When "bob" says "late" in "tea"
    Then it is refused as "room_ended"
    And the history of "tea" verifies and has 3 records

  @HC-11 @must
  Scenario Outline: Only the creator and moderators send <event>
    Given "ann" has the public room "tea"
    And "bob" is a speaker in "tea"
    When "bob" sends "<event>" to "tea" with:
      """
      <payload>
      """
    Then it is refused as "permission_denied"
    When "ann" sends "<event>" to "tea" with:
      """
      <payload>
      """
    Then it is accepted

    Examples:
      | event                   | payload                                                                              |
      | room.update             | {"topic": "another"}                                                                 |
      | room.close              | {}                                                                                   |
      | type.define             | {"use": "adp:reactions/1.0"}                                                         |
      | room.member.role.update | {"member": "{{bob}}", "role": "observer"}                                            |

  @HC-11 @must
  Scenario: A stranger sends nothing, an observer no messages
    Given "ann" has the public room "tea"
    And "bob" is a observer in "tea"
    When "eve" says "hello" in "tea"
    Then it is refused as "membership_required"
    When "bob" says "hello" in "tea"
    Then it is refused as "permission_denied"
    And the history of "tea" verifies and has 2 records

  @HC-11 @must
  Scenario: The creator is never removed, nobody removes itself
    Given "ann" has the public room "tea"
    And "bob" is a speaker in "tea"
    When "ann" sends "room.member.remove" to "tea" with:
      """
      {"member": "{{ann}}"}
      """
    Then it is refused
    When "ann" sends "room.member.remove" to "tea" with:
      """
      {"member": "{{bob}}"}
      """
    Then it is accepted
    And "bob" is removed in "tea" by replay

  @HC-12 @must
  Scenario: Custom types are checked against the room's registry
    Given "ann" has the room "tea" with:
      """
      {"types": [{"use": "adp:reactions/1.0"}]}
      """
    And "ann" sent "type.define" to "tea" with:
      """
      {"type": "mood.note", "kind": "message", "title": "Mood", "schema":
        {"type": "object", "required": ["mood"], "properties": {"mood": {"type": "integer"}}}}
      """
    When "ann" sends "mood.note" to "tea" with:
      """
      {"mood": 3}
      """
    Then it is accepted
    When "ann" sends "mood.note" to "tea" with:
      """
      {"mood": "high"}
      """
    Then it is refused as "payload_schema_violation"
    When "ann" sends "mood.diary" to "tea" with:
      """
      {"mood": 3}
      """
    Then it is refused as "type_not_defined"
    And the history of "tea" verifies and has 3 records

  @HC-12 @must
  Scenario: A disabled type is refused, and a type keeps its kind
    Given "ann" has the public room "tea"
    And "ann" sent "type.define" to "tea" with:
      """
      {"type": "mood.note", "kind": "message", "title": "Mood", "schema": {"type": "object"}}
      """
    When "ann" sends "type.define" to "tea" with:
      """
      {"type": "mood.note", "kind": "signal", "title": "Mood", "schema": {"type": "object"}}
      """
    Then it is refused
    When "ann" sends "type.define" to "tea" with:
      """
      {"type": "mood.note", "kind": "message", "title": "Mood", "schema": {"type": "object"}, "status": "disabled"}
      """
    Then it is accepted
    When "ann" sends "mood.note" to "tea" with:
      """
      {}
      """
    Then it is refused as "type_disabled"
