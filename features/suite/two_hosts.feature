Feature: The same room id on two hosts stays two rooms

  Background:
    Given a host "a"
    And a host "b"
    And ada opened the public room "lounge" on "a"
    And ada opened the public room "twin" on "b" with the id of "lounge"
    And ada said "said on a" in "lounge"
    And the agent opened "lounge"
    And the agent opened "twin"

  @LC-53 @must
  Scenario Outline: A room_id that names two rooms is an ambiguity, and nothing is signed: <tool>
    When we count from here
    And the agent calls "<tool>" with
      """
      <arguments>
      """
    Then the call fails with a code and a message
    And no events were sent to "a" since
    And no events were sent to "b" since

    Examples:
      | tool              | arguments                                                |
      | room_state        | { "room_id": "$(room lounge)" }                          |
      | room_timeline     | { "room_id": "$(room lounge)" }                          |
      | room_members_list | { "room_id": "$(room lounge)" }                          |
      | room_send_message | { "room_id": "$(room lounge)", "content": "where?" }     |
      | room_mark_read    | { "room_id": "$(room lounge)", "through_seq": 1 }        |

  @LC-52 @LC-53 @must
  Scenario: With host the rooms are told apart
    When the agent calls "room_timeline" with
      """
      { "room_id": "$(room lounge)", "host": "$(host a)" }
      """
    Then the items are the messages "said on a"
    And the result "sync.host" is "$(host a)"
    When the agent calls "room_timeline" with
      """
      { "room_id": "$(room twin)", "host": "$(host b)" }
      """
    Then the items do not show "said on a"
    And the result "sync.host" is "$(host b)"

  @LC-52 @must
  Scenario: A member of one is no member of the other
    When the agent joins "twin" as speaker
    And the agent calls "room_send_message" with
      """
      { "room_id": "$(room twin)", "host": "$(host b)", "content": "on b only" }
      """
    Then the write is sent
    And "twin" holds exactly one message "on b only"
    And "lounge" holds no message "on b only"
