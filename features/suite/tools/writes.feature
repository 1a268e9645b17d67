Feature: Write tools, input by input

  Background:
    Given a host "a"
    And ada opened the room "lounge" on "a" with
      """
      {"types": [
        {"type": "demo.note", "kind": "message", "title": "Note", "schema": {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}}},
        {"type": "demo.wave", "kind": "signal", "title": "Wave", "schema": {"type": "object"}},
        {"type": "demo.board", "kind": "control", "title": "Board", "roles": ["speaker", "moderator"], "schema": {"type": "object"}}]}
      """
    And ada said "hello" in "lounge"
    And the agent is a speaker of "lounge"
    And the agent read "lounge"

  @LC-T.room_send_message @must
  Scenario: Plain text is the default, and the host input is taken
    When the agent calls "room_send_message" for "lounge" on "a" given {"content": "just text"}
    Then the write is sent
    And the agent's last event in "lounge" has "payload.content" "just text"
    And the agent's last event in "lounge" has "payload.content_type" "text/plain"
    And the result "item.content" is "just text"
    And the result is about the last record of "lounge"
    And the result "record.envelope.event.actor" is "$(agent)"

  @LC-T.room_send_message @LC-11 @must
  Scenario Outline: A text is signed as it was given: <what>
    When the agent calls "room_send_message" for "lounge" given {"content": <text>}
    Then the write is sent
    And the agent's last event in "lounge" has "payload.content" <text>
    When the agent calls "room_timeline" for "lounge" given {"types": ["message.create"]}
    Then the result "items.-1.content" is <text>

    Examples:
      | what                      | text                                   |
      | decomposed letters        | "e\\u0301 and A\\u030a"                |
      | white space at both ends  | "  \\n x \\t\\n "                      |
      | line ends of every kind   | "a\\r\\nb\\rc\\n\\nd\\u2028e"         |
      | beyond the basic plane    | "\\ud83d\\ude00 \\ud835\\udd04"        |
      | markup and quotes         | "<b>\\"x\\" & 'y'</b> \\\\  %2F $ " |

  @LC-T.room_send_message @LC-71 @must
  Scenario: All mentions and references are signed, in their order
    When the event id of the first record of "lounge" is noted as "first"
    And the event id of the last record of "lounge" is noted as "last"
    And the agent calls "room_send_message" for "lounge" given {"content": "both of you", "mentions": ["$(agent bob)", "$(agent ada)"], "references": ["$(note last)", "$(note first)"]}
    Then the write is sent
    And the agent's last event in "lounge" has "mentions" ["$(agent bob)", "$(agent ada)"]
    And the agent's last event in "lounge" has "payload.references" ["$(note last)", "$(note first)"]

  @LC-T.room_submit_event @LC-11 @LC-70 @must
  Scenario Outline: A payload is signed as it was given: <what>
    When the agent calls "room_submit_event" for "lounge" given {"type": "demo.note", "payload": {"text": "x", "more": <value>}}
    Then the write is sent
    And the agent's last event in "lounge" has "payload" {"text": "x", "more": <value>}
    When the agent calls "room_timeline" for "lounge" given {"types": ["demo.note"]}
    Then the result "items.-1.payload" is {"text": "x", "more": <value>}

    Examples:
      | what                    | value                                             |
      | nothing                 | null                                              |
      | the greatest integer    | 9007199254740991                                  |
      | the least integer       | -9007199254740991                                 |
      | a fraction              | 0.1                                               |
      | members of every depth  | {"": [[], {}, [null, false, {"deep": [1, 2.5]}]]} |
      | names that look special | {"__proto__": 1, "$ref": "#", "constructor": {}}  |

  @LC-T.room_send_message @LC-08 @must
  Scenario Outline: <what> is refused before anything is signed
    Given we count from here
    When the agent calls "room_send_message" for "lounge" given <input>
    Then the call fails with a code and a message
    And no events were sent to "a" since

    Examples:
      | what                           | input                                                                              |
      | a mention that is no Agent ID  | {"content": "x", "mentions": ["ada"]}                                              |
      | a reference that is no hash    | {"content": "x", "references": ["the one above"]}                                  |

  @LC-T.room_send_message @must
  Scenario: An unknown room is not guessed
    Given we count from here
    When the agent calls "room_send_message" given {"room_id": "d8ftedhpqhsusbg00000", "content": "anybody?"}
    Then the call fails with a code and a message
    And no events were sent to "a" since

  @LC-T.room_submit_event @LC-71 @must
  Scenario: Mentions go to the top level and references into the payload of any type
    When the event id of the first record of "lounge" is noted as "event"
    And the agent calls "room_submit_event" for "lounge" on "a" given {"type": "demo.note", "payload": {"text": "see"}, "mentions": ["$(agent ada)"], "references": ["$(note event)"]}
    Then the write is sent
    And the agent's last event in "lounge" has "mentions" ["$(agent ada)"]
    And the agent's last event in "lounge" has "payload" {"text": "see", "references": ["$(note event)"]}

  # What a timeline item calls the kind of a custom event is shown for messages only; ours
  # says what the registry says.
  @LC-T.room_submit_event @LC-74 @LC-70 @must @reference
  Scenario Outline: A <type> is of kind <kind>
    When the agent submits "<type>" to "lounge" with
      """
      {"text": "x"}
      """
    Then the write is sent
    And the result "item.type" is "<type>"
    And the result "item.kind" is "<kind>"

    Examples:
      | type       | kind    |
      | demo.note  | message |
      | demo.wave  | signal  |
      | demo.board | control |

  @LC-T.room_submit_event @LC-72 @must
  Scenario Outline: on_head_mismatch <policy> of a message-kind event
    Given ada said "the head moves" in "lounge"
    When the agent submits "demo.note" to "lounge" with
      """
      {"text": "x", "+on_head_mismatch": "<policy>"}
      """
    Then the result "status" is "<status>"

    Examples:
      | policy      | status   |
      | hold        | held     |
      | reject      | rejected |
      | send_anyway | sent     |

  @LC-T.room_submit_event @LC-70 @must
  Scenario: A scheduled room can be cancelled
    Given the agent founded the public room "later" on "a" given {"start_time": "$(now 3600000)", "end_time": "$(now 7200000)"}
    When the agent submits "room.cancel" to "later" with
      """
      {"reason": "no time"}
      """
    Then the write is sent
    When the agent looks at "later"
    Then the result "room.status" is "cancelled"

  @LC-70 @LC-75 @must
  Scenario Outline: <what> is refused with the reason
    When the agent submits "<type>" to "lounge" with
      """
      <payload>
      """
    Then the call fails with code <codes>
    And "lounge" has 3 records

    Examples:
      | what                              | type                    | payload                                         | codes                                                                |
      | a payload without what it needs   | demo.note               | {}                                              | "payload_schema_violation" or "invalid_input"                        |
      | a type nobody defined             | demo.missing            | {}                                              | "type_not_defined"                                                   |
      | a room update by a speaker        | room.update             | {"topic": "Mine now"}                           | "permission_denied" or "role_not_allowed"                            |
      | a removal by a speaker            | room.member.remove      | {"member": "$(agent ada)"}                      | "permission_denied" or "role_not_allowed" or "invalid_event"         |
      | a new type by a speaker           | type.define             | {"use": "adp:reactions/1.0"}                    | "permission_denied" or "role_not_allowed"                            |

  @LC-T.room_create @must
  Scenario Outline: room_create puts <member> into the signed contract
    When the agent founds the <visibility> room "mine" on "a" given {"<member>": <value>}
    Then the agent's last event in "mine" has "payload.<member>" <value>
    And the agent's last event in "mine" has "payload.visibility" "<visibility>"
    And the result's sync names the head of "mine"
    And the result "room.visibility" is "<visibility>"

    Examples:
      | visibility | member   | value                                                                                                   |
      | public     | topic    | "Of herbs"                                                                                              |
      | restricted | agenda   | "First things first"                                                                                    |
      | private    | guidance | "Be brief"                                                                                              |
      | public     | tags     | ["plants", "herbs"]                                                                                     |
      | public     | language | "en"                                                                                                    |
      | public     | policy   | {"max_speakers": 3, "observer_allowed": false}                                                          |
      | public     | types    | [{"use": "adp:reactions/1.0"}]                                                                          |

  @LC-T.room_create @must
  Scenario: The creator is the first member, and follows the room
    When the agent founds the public room "mine" on "a"
    Then the result "room.self_member.role" is "moderator"
    And the result "room.creator" is "$(agent)"
    And soon the agent is subscribed to "mine"

  @LC-T.room_leave @must
  Scenario: Leaving takes a reason and a host, and ends the stream
    Given the agent is subscribed to "lounge"
    When the agent calls "room_leave" for "lounge" on "a" given {"reason": "enough for today"}
    Then the result "record.envelope.event.type" is "room.leave"
    And the agent's last event in "lounge" has "payload.reason" "enough for today"
    And soon nobody is subscribed to "lounge"
    When the agent calls "room_member_get" for "lounge" given {"agent_id": "$(agent)"}
    Then the result "member.status" is "left"
    When we count from here
    And the agent says "one more thing" in "lounge"
    Then the call fails with a code and a message
    And "lounge" holds no message "one more thing"

  @LC-T.room_leave @LC-92 @must
  Scenario: Leaving a room twice is an error, not a second record
    Given the agent has called "room_leave" for "lounge" given {}
    When the agent calls "room_leave" for "lounge"
    Then the call fails with a code and a message
    And "lounge" has 4 records
