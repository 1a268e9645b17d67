Feature: A host that was caught lying stays under suspicion
  A head that no record proves is never a base. That a room stays stopped until the operator
  decides, however honest the host is afterwards, and what counts as a mere delay, is our choice.

  Background:
    Given a host "a"
    And ada opened the public room "lounge" on "a"
    And the agent is a speaker of "lounge"
    And the agent read "lounge"

  @LC-15 @LC-33 @must
  Scenario Outline: Nothing is signed on a head that the host only claims: <claim>
    Given host "a" misbehaves
      """
      [[fault]]
      when = { route = "room" }
      action = { liar_head = { ahead = <ahead> } }
      """
    When the agent refreshes "lounge"
    Then the claimed head of "lounge" is nowhere shown as verified
    When the agent says "on what do I stand?" in "lounge"
    Then nothing was signed on a forked base of "lounge"

    Examples:
      | claim                        | ahead |
      | far ahead of every record    | 50    |
      | one record ahead             | 1     |
      | another hash for the records | 0     |

  @LC-17 @must @reference
  Scenario Outline: Writes stay stopped after <lie>, although the host is honest again
    Given ada said "third words" in "lounge"
    And host "a" misbehaves
      """
      [[fault]]
      when = <when>
      action = <action>
      """
    When the agent refreshes "lounge"
    Then the agent is told that something is wrong with "lounge"
    When host "a" behaves again
    And we count from here
    And the agent refreshes "lounge"
    Then the agent is told that something is wrong with "lounge"
    When the agent says "may I?" in "lounge"
    Then the call fails with code "<code>"
    And the error data "room_id" is "$(room lounge)"
    When the connector stops
    And the connector starts again
    And the agent says "may I now?" in "lounge"
    Then the call fails with code "<code>"
    And no event was sent to "a" since

    Examples:
      | lie                   | when                          | action                             | code                 |
      | a fork                | { seq = 2 }                   | { fork = {} }                      | room_forked          |
      | a rollback            | {}                            | { rollback = { to = 1 } }          | room_rolled_back     |
      | a head without record | { route = "room" }            | { liar_head = { ahead = 50 } }     | head_unproven        |
      | a contradicted head   | { route = "room" }            | { liar_head = { ahead = 0 } }      | head_contradicted    |
      | a forged hash         | { route = "events", seq = 3 } | { tamper = { field = "/hash" } }   | record_hash_mismatch |
      | a foreign record      | { route = "events", seq = 3 } | { tamper = { field = "/room_id" } } | record_room_mismatch |

  @LC-16 @LC-17 @must @reference
  Scenario: A history that lags for a moment is no lie
    Given ada said "third words" in "lounge"
    And host "a" misbehaves
      """
      [[fault]]
      when = { route = "events", seq = 3 }
      action = { drop_record = {} }
      times = 2
      """
    When the agent refreshes "lounge"
    Then the result's sync names the head of "lounge"
    And the result has no "sync.condition"
    When the agent says "on we go" in "lounge"
    Then the write is sent
