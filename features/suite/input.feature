Feature: Bad input is a clear error and changes nothing

  @LC-08 @must
  Scenario Outline: <tool> refuses <what>
    Given a host "a"
    And ada opened the public room "lounge" on "a"
    And the agent is a speaker of "lounge"
    When we count from here
    And the agent calls "<tool>" with
      """
      <arguments>
      """
    Then the call fails with a code and a message
    And no events were sent to "a" since

    Examples:
      | tool              | what                    | arguments                                                                                   |
      | room_open         | no room_id              | { "host": "$(host a)" }                                                                     |
      | room_open         | a number as room_id     | { "host": "$(host a)", "room_id": 7 }                                                       |
      | room_join         | an unknown role         | { "host": "$(host a)", "room_id": "$(room lounge)", "role": "king" }                        |
      | room_send_message | no content              | { "room_id": "$(room lounge)" }                                                             |
      | room_send_message | a number as content     | { "room_id": "$(room lounge)", "content": 7 }                                               |
      | room_send_message | an unknown policy       | { "room_id": "$(room lounge)", "content": "x", "on_head_mismatch": "shout" }                |
      | room_submit_event | no payload              | { "room_id": "$(room lounge)", "type": "demo.note" }                                        |
      | room_submit_event | a text as payload       | { "room_id": "$(room lounge)", "type": "demo.note", "payload": "x" }                        |
      | inbox_ack         | an unknown action       | { "ids": ["x"], "action": "burn" }                                                          |
      | room_mark_read    | no through_seq          | { "room_id": "$(room lounge)" }                                                             |
      | draft_commit      | an unknown action       | { "draft_id": "x", "action": "burn" }                                                       |
      | room_create       | an unknown visibility   | { "host": "$(host a)", "topic": "T", "visibility": "secret", "start_time": 1, "end_time": 2 } |

  # How the refusal is called is open; ours has one name for it.
  @LC-08 @must @reference
  Scenario: Bad input has one code
    Given a host "a"
    And ada opened the public room "lounge" on "a"
    And the agent is a speaker of "lounge"
    When the agent calls "room_send_message" with
      """
      { "room_id": "$(room lounge)", "content": 7 }
      """
    Then the call fails with code "invalid_input" or "-32602"

  @LC-08 @LC-67 @must
  Scenario: A nonce or signature smuggled in is not signed
    Given a host "a"
    And ada opened the public room "lounge" on "a"
    And the agent is a speaker of "lounge"
    When the agent says "hello" in "lounge" with
      """
      { "nonce": 7, "actor": "$(agent ada)", "created_at": 1, "signature": "x" }
      """
    Then no event of the agent has nonce 7 or another actor
