Feature: Writes arrive exactly once and say what became of them

  Background:
    Given a host "a"
    And ada opened the public room "lounge" on "a"
    And the agent is a speaker of "lounge"

  @LC-76 @must
  Scenario: A lost answer is reconciled, not repeated
    Given host "a" misbehaves
      """
      [[fault]]
      when = { route = "submit", agent = "$(agent)", event_type = "message.create", nth = 1 }
      action = { lose_response = {} }
      """
    When the agent says "only once" in "lounge"
    And the agent reads "lounge"
    Then "lounge" holds exactly one message "only once"
    And the items show "only once"
    When the agent says "and more" in "lounge"
    Then the write is sent
    And "lounge" holds exactly one message "only once"

  @LC-76 @should
  Scenario Outline: A write whose answer is <lost> is told as sent
    Given host "a" misbehaves
      """
      [[fault]]
      when = { route = "submit", agent = "$(agent)", event_type = "message.create", nth = 1 }
      action = <action>
      """
    When the agent says "only once" in "lounge"
    Then the write is sent
    And the result is about the last record of "lounge"
    And "lounge" holds exactly one message "only once"

    Examples:
      | lost              | action                             |
      | lost              | { lose_response = {} }             |
      | cut in the middle | { cut_after_bytes = { bytes = 40 } } |
      | no JSON           | { body = { text = "<html>" } }     |

  @LC-76 @LC-67 @must
  Scenario: An answer with somebody else's record is not reported as sent
    Given ada said "mine" in "lounge"
    And the agent read "lounge"
    And host "a" misbehaves
      """
      [[fault]]
      when = { route = "submit", agent = "$(agent)", event_type = "message.create", nth = 1 }
      action = { answer_other = {} }
      """
    When the agent says "and this is mine" in "lounge"
    Then a record in the result is the agent's own "and this is mine"
    And "lounge" holds exactly one message "and this is mine"

  @LC-67 @must
  Scenario: Local state has the accepted record before the tool returns
    When the agent says "hello" in "lounge"
    And the write is sent
    And the agent calls "room_timeline" with
      """
      { "room_id": "$(room lounge)" }
      """
    Then the items show "hello"
    And the result's sync names the head of "lounge"

  @LC-11 @LC-67 @must
  Scenario: Everything that is signed verifies independently
    When the agent says "one" in "lounge"
    And the agent says "two" in "lounge"
    Then every event that the agent sent verifies independently
    And the nonces of everything the agent sent grow strictly

  @LC-71 @must
  Scenario: Mentions go to the top level, references into the payload
    Given the agent has said "first" in "lounge"
    And we remember the result "record.envelope.hash" as "event"
    When the agent says "see above" in "lounge" with
      """
      { "mentions": ["$(agent ada)"], "references": ["$(note event)"] }
      """
    Then the write is sent
    And the agent's last event in "lounge" has "mentions" ["$(agent ada)"]
    And the agent's last event in "lounge" has "payload.references" ["$(note event)"]

  @LC-T.room_send_message @must
  Scenario: Content type and extra members reach the payload
    When the agent says "# Title" in "lounge" with
      """
      { "content_type": "text/markdown", "extra": { "draft": 3 } }
      """
    Then the write is sent
    And the agent's last event in "lounge" has "payload.content_type" "text/markdown"
    And the agent's last event in "lounge" has "payload.extra" { "draft": 3 }

  @LC-91 @should
  Scenario Outline: The host's error code is kept: <code>
    Given host "a" misbehaves
      """
      [[fault]]
      when = { route = "submit", agent = "$(agent)" }
      action = { error = { code = "<code>", data = { hint = "kept" } } }
      """
    When the agent says "hello" in "lounge"
    Then the call fails with code "<code>"
    And the error data "hint" is "kept"

    Examples:
      | code                |
      | permission_denied   |
      | membership_required |
      | room_not_active     |
      | payload_too_large   |
      | member_banned       |

  @LC-91 @LC-T.room_submit_event @must
  Scenario: An agent without the role gets permission_denied
    When the agent submits "room.close" to "lounge" with
      """
      { "reason": "I want to" }
      """
    Then the call fails with code "permission_denied" or "role_not_allowed"
    And the chain of "lounge" verifies

  @LC-77 @should
  Scenario: A nonce that is too low is corrected once
    Given host "a" misbehaves
      """
      [[fault]]
      when = { route = "submit", agent = "$(agent)", nth = 1 }
      action = { error = { code = "nonce_not_greater" } }
      [[fault]]
      when = { route = "submit", agent = "$(agent)", nth = 1 }
      action = { max_seen_nonce = { to = "$(now 60000)" } }
      """
    When the agent says "try again" in "lounge"
    Then the write is sent
    And the agent's latest nonce is at least 50 s ahead
    And "lounge" holds exactly one message "try again"
    And the nonces of everything the agent sent grow strictly

  @LC-77 @should
  Scenario Outline: An absurd Max-Seen-Nonce is not applied: <header>
    Given host "a" misbehaves
      """
      [[fault]]
      when = { route = "submit", agent = "$(agent)", nth = 1 }
      action = { error = { code = "nonce_not_greater" } }
      [[fault]]
      when = { route = "submit", agent = "$(agent)", nth = 1 }
      action = { max_seen_nonce = { to = "<header>" } }
      """
    When the agent says "hostile" in "lounge"
    Then no nonce of the agent is beyond a day from now

    Examples:
      | header              |
      | 9007199254740990    |
      | 9007199254740993    |
      | -1                  |
      | lots                |

  @LC-70 @LC-75 @must
  Scenario: A custom event is validated locally before anything is signed
    Given ada sent "type.define" to "lounge" with
      """
      { "type": "review.finding", "kind": "message", "title": "Finding",
        "schema": { "type": "object", "required": ["severity"], "properties": { "severity": { "enum": ["low", "high"] } } } }
      """
    And the agent read "lounge"
    When we count from here
    And the agent submits "review.finding" to "lounge" with
      """
      { "severity": "enormous" }
      """
    Then the call fails with a code and a message
    When the agent submits "review.finding" to "lounge" with
      """
      { "severity": "high" }
      """
    Then the write is sent
    And 1 event was sent to "a" since

  @LC-75 @should
  Scenario: A schema violation is named as such and is not sent
    Given ada sent "type.define" to "lounge" with
      """
      { "type": "demo.vote", "kind": "signal", "title": "Vote", "schema": { "type": "object", "required": ["option"] } }
      """
    And the agent read "lounge"
    When we count from here
    And the agent submits "demo.vote" to "lounge" with
      """
      { }
      """
    Then the call fails with code "payload_schema_violation" or "invalid_input"
    And no events were sent to "a" since

  @LC-70 @LC-T.room_submit_event @must
  Scenario: An undefined type is refused
    When we count from here
    And the agent submits "demo.unknown" to "lounge" with
      """
      { }
      """
    Then the call fails with code "type_not_defined"

  @LC-74 @must
  Scenario: A signal is never held, wherever the head is
    Given ada sent "type.define" to "lounge" with
      """
      { "type": "demo.wave", "kind": "signal", "title": "Wave", "schema": { "type": "object" } }
      """
    And the agent read "lounge"
    And ada said "the head moves on" in "lounge"
    When the agent submits "demo.wave" to "lounge" with
      """
      { "+on_head_mismatch": "reject" }
      """
    Then the write is sent

  @LC-70 @LC-T.room_submit_event @must
  Scenario: A moderator manages the life of its room
    When the agent calls "room_create" with
      """
      { "host": "$(host a)", "topic": "Mine", "visibility": "public",
        "start_time": "$(now -1000)", "end_time": "$(now 3600000)" }
      """
    And the room of the result is called "mine" on "a"
    And bob joins "mine"
    And the agent refreshes "mine"
    And the agent submits "type.define" to "mine" with
      """
      { "type": "demo.note", "kind": "message", "title": "Note", "schema": { "type": "object" } }
      """
    And the write is sent
    And the agent submits "room.update" to "mine" with
      """
      { "topic": "Ours" }
      """
    And the write is sent
    And the agent submits "room.member.role.update" to "mine" with
      """
      { "member": "$(agent bob)", "role": "observer" }
      """
    And the write is sent
    And the agent submits "room.member.remove" to "mine" with
      """
      { "member": "$(agent bob)", "reason": "the end" }
      """
    And the write is sent
    And the agent submits "room.close" to "mine" with
      """
      { "reason": "done" }
      """
    Then the write is sent
    And the chain of "mine" verifies
    When the agent looks at "mine"
    Then the result "room.topic" is "Ours"
    And the result "room.status" is "ended"

  @LC-92 @must
  Scenario Outline: A host that is <trouble> is told as such, and the connector lives on
    Given host "a" misbehaves
      """
      [[fault]]
      when = { route = "submit", agent = "$(agent)" }
      action = <action>
      """
    When the agent says "hello" in "lounge"
    Then the call fails with a code and a message
    When host "a" behaves again
    And the agent reads "lounge"
    And the agent says "after the trouble" in "lounge"
    Then the write is sent
    And "lounge" holds exactly one message "after the trouble"

    Examples:
      | trouble            | action                                     |
      | resetting          | { reset = {} }                             |
      | failing with a 500 | { status = { code = 500 } }                |
      | not speaking JSON  | { status = { code = 400, body = "<html>" } } |

  @LC-95 @should
  Scenario: Retry-After of a host is passed on
    Given host "a" misbehaves
      """
      [[fault]]
      when = { route = "submit", agent = "$(agent)" }
      action = { error = { code = "rate_limited", retry_after = { seconds = 30 } } }
      """
    When the agent says "hello" in "lounge"
    Then the call fails with code "rate_limited"
    And the failure tells the 30 seconds to wait
    When we count from here
    And the agent says "hello again" in "lounge"
    Then the call fails with code "rate_limited"
    And no events were sent to "a" since
