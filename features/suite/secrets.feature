Feature: Keys stay where they are

  @LC-10 @LC-24 @must
  Scenario: Neither key nor token shows up in any output
    Given a host "a"
    And ada opened the public room "lounge" on "a"
    And the agent is a speaker of "lounge"
    And the agent is subscribed to "lounge"
    And the agent has said "hello" in "lounge"
    When the agent calls "identity_current"
    And the agent calls "hosts_list"
    And the agent reads "lounge"
    And the agent calls "room_send_message" with
      """
      { "room_id": "nowhere", "content": "an error" }
      """
    Then neither seed nor token is in any output, on stderr or in the state directory
