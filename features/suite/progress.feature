Feature: A long opening tells how far it is
  A room's history may be long. A client that gives a progress token is told while pages are
  verified; a client that gives none is told nothing.

  Background:
    Given a host "a"
    And ada opened the public room "lounge" on "a"
    And ada said 7 things in "lounge"
    And the connector is tuned with {"page_limit": 2}

  @LC-15 @should @reference
  Scenario: Opening tells its progress, page by page
    When the agent calls "room_open" with a progress token for
      """
      { "host": "$(host a)", "room_id": "$(room lounge)" }
      """
    Then the call succeeds
    And progress was told at least 3 times, growing, before the answer
    And the result "sync.synced_seq" is 8

  @LC-15 @must @reference
  Scenario: Without a token nothing is told
    When the agent calls "room_open" without a progress token for
      """
      { "host": "$(host a)", "room_id": "$(room lounge)" }
      """
    Then the call succeeds
    And no progress was told
