Feature: Errors keep their code
  Section 5: "Errors SHOULD preserve the Agent Protocol error code and data fields where
  available." Every protocol code stays what it is; every failure of the network has a code.

  Background:
    Given a host "a"
    And ada opened the public room "lounge" on "a"
    And the agent is a speaker of "lounge"

  @LC-91 @LC-92 @must
  Scenario Outline: <code> stays <code>
    Given host "a" misbehaves
      """
      [[fault]]
      when = { route = "status_put" }
      action = { error = { code = "<code>" } }
      """
    When the agent calls "agent_status_set" for "lounge" given {"state": "working"}
    Then the call fails with code "<code>"
    And the failure says what to do

    Examples:
      | code                       |
      | invalid_event              |
      | invalid_event_hash         |
      | invalid_signature          |
      | invalid_actor              |
      | timestamp_out_of_window    |
      | nonce_not_greater          |
      | room_not_found             |
      | room_not_active            |
      | room_ended                 |
      | permission_denied          |
      | approval_required          |
      | join_request_not_found     |
      | join_request_not_approved  |
      | join_request_role_mismatch |
      | join_request_expired       |
      | member_banned              |
      | role_not_allowed           |
      | max_speakers_exceeded      |
      | membership_required        |
      | invalid_token              |
      | room_head_mismatch         |
      | base_record_mismatch       |
      | agent_status_not_found     |
      | rate_limited               |
      | payload_too_large          |
      | type_not_defined           |
      | type_disabled              |
      | payload_schema_violation   |
      | pack_unavailable           |

  @LC-91 @LC-92 @must
  Scenario Outline: A signed write refused with <code> is that refusal, and nothing else
    Given host "a" misbehaves
      """
      [[fault]]
      when = { route = "submit", agent = "$(agent)" }
      action = { error = { code = "<code>", data = { hint = "kept" } } }
      """
    When the agent says "hello" in "lounge"
    Then the call fails with code "<code>"
    And the error data "hint" is "kept"
    And "lounge" holds no message "hello"
    When host "a" behaves again
    And the agent says "after that" in "lounge"
    Then the write is sent

    Examples:
      | code                    |
      | invalid_event           |
      | invalid_actor           |
      | timestamp_out_of_window |
      | room_ended              |
      | permission_denied       |
      | membership_required     |
      | role_not_allowed        |
      | type_disabled           |
      | payload_too_large       |
      | pack_unavailable        |

  @LC-91 @should
  Scenario: An error code that no protocol knows is kept too
    Given host "a" misbehaves
      """
      [[fault]]
      when = { route = "submit", agent = "$(agent)" }
      action = { error = { code = "only_on_tuesdays", status = 403, data = { day = "monday" } } }
      """
    When the agent says "hello" in "lounge"
    Then the call fails with code "only_on_tuesdays"
    And the error data "day" is "monday"

  @LC-92 @must
  Scenario Outline: A read from a host that is <trouble> fails clearly, and passes
    Given host "a" misbehaves
      """
      [[fault]]
      when = { route = "public" }
      action = <action>
      """
    When the agent patiently calls "rooms_search" on "a" given {}
    Then the call fails with a code and a message
    And the failure says what to do
    When host "a" behaves again
    And the agent calls "rooms_search" on "a" given {}
    Then the rooms are "lounge"

    Examples:
      | trouble                    | action                                              |
      | resetting connections      | { reset = {} }                                      |
      | closing in the middle      | { cut_after_bytes = { bytes = 20 } }                |
      | answering no JSON          | { body = { text = "<html>sorry</html>" } }          |
      | answering a bare number    | { body = { text = "42" } }                          |
      | doubling a member          | { duplicate_key = {} }                              |
      | failing with a 500         | { status = { code = 500 } }                         |
      | failing with an HTML 502   | { status = { code = 502, body = "<html>bad</html>" } } |
      | redirecting                | { redirect = { status = 302, to = "$(host a)/v1/rooms/public" } } |

  @LC-92 @must
  Scenario: A host that never answers is given up
    Given host "a" misbehaves
      """
      [[fault]]
      when = { route = "public" }
      action = { stall = {} }
      """
    When the agent starts calling "rooms_search" with
      """
      {"host": "$(host a)"}
      """
    And the call of the agent returns within 90 s
    Then the call fails with a code and a message

  # No text asks for calls side by side.
  @LC-92 @should @reference
  Scenario: A host that never answers is given up, and other tools answer meanwhile
    Given host "a" misbehaves
      """
      [[fault]]
      when = { route = "public" }
      action = { stall = {} }
      """
    When the agent starts calling "rooms_search" with
      """
      {"host": "$(host a)"}
      """
    And the agent calls "identity_current" meanwhile
    Then the call succeeds

  @LC-92 @must
  Scenario: A host whose port refuses connections
    Given host "a" misbehaves
      """
      [[fault]]
      action = { refuse = {} }
      """
    When the agent patiently calls "rooms_search" on "a" given {}
    Then the call fails with a code and a message
    And the failure says what to do

  @LC-92 @must
  Scenario: A host that speaks no TLS where TLS was configured
    Given a host "b" that is listed as https
    When the agent patiently calls "rooms_search" given {"host": "$(note https_b)"}
    Then the call fails with a code and a message
    And the failure says what to do

  @LC-92 @must @reference
  Scenario: An answer that is far too large is cut off
    Given host "a" misbehaves
      """
      [[fault]]
      when = { route = "public" }
      action = { oversize = { bytes = 80000000 } }
      """
    When the agent patiently calls "rooms_search" on "a" given {}
    Then the call fails with code "response_too_large"

  @LC-92 @must @reference
  Scenario: Troubles of the network have codes of their own
    Then each of these troubles of host "a" has a code of its own
      | trouble  | action                          |
      | refused  | { refuse = {} }                 |
      | not JSON | { body = { text = "<html>" } }  |
      | redirect | { redirect = { status = 307, to = "$(host a)" } } |

  @LC-95 @should
  Scenario: A host's 429 says when to try again
    Given host "a" misbehaves
      """
      [[fault]]
      when = { route = "submit", agent = "$(agent)" }
      action = { error = { code = "rate_limited", retry_after = { seconds = 30 } } }
      """
    When the agent says "hello" in "lounge"
    Then the call fails with code "rate_limited"
    And the failure tells the 30 seconds to wait
    And host "a" received the event "message.create" at most 1 time

  @LC-95 @should
  Scenario: A 429 without a protocol error is rate_limited too
    Given host "a" misbehaves
      """
      [[fault]]
      when = { route = "submit", agent = "$(agent)" }
      action = { status = { code = 429, retry_after = { seconds = 30 } } }
      """
    When the agent says "hello" in "lounge"
    Then the call fails with code "rate_limited"
    And the failure tells the 30 seconds to wait

  @LC-90 @LC-91 @should
  Scenario: A failure is a tool error with one JSON object in a text item
    When the agent calls "room_submit_event" for "lounge" given {"type": "no.such.type", "payload": {}}
    Then the failure is a tool error with the code in a JSON text item
