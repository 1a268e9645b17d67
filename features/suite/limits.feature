Feature: An agent in a loop is slowed down
  Beside what hosts allow, the connector limits signed writes itself. How many is our choice; that
  the refusal says when to try again, and that nothing is signed meanwhile, is checked here.

  Background:
    Given a host "a"
    And ada opened the public room "lounge" on "a"
    And ada opened the public room "annex" on "a"
    And the connector is tuned with {"writes_per_minute": 2}
    And the agent is a speaker of "lounge"
    And the agent is a speaker of "annex"

  @LC-95 @should @reference
  Scenario: Too many writes are refused with a time to wait, and nothing leaves
    Given the agent has said "one" in "lounge"
    When we count from here
    And the agent says "two" in "lounge"
    Then the call fails with code "rate_limited"
    And the failure says when to try again, within 30 s
    And no event was sent to "a" since
    When the agent says "another room" in "annex"
    Then the write is sent

  @LC-95 @should @reference
  Scenario: A refused write is not remembered as sent
    Given the agent has said "one" in "lounge"
    When the agent says "two" in "lounge"
    Then the call fails with code "rate_limited"
    And "lounge" holds no message "two"
    When the agent reads "lounge"
    Then the items do not show "two"
