Feature: What a host accepts as a signed write

  Background:
    Given "ann" has the public room "tea"
    And "bob" is a speaker in "tea"

  @HC-04 @must
  Scenario: A good message becomes a record that carries it
    Given the head of "tea" is noted
    When "bob" says "hello" in "tea"
    Then it is accepted
    And the answer is the accepted record of what was sent
    And the head of "tea" has moved
    And the history of "tea" verifies and has 3 records

  @HC-02 @must
  Scenario Outline: An envelope that is <flaw> is refused
    When "bob" posts a message to "tea" that is "<flaw>"
    Then it is refused as "<code>"
    And the history of "tea" verifies and has 2 records

    Examples:
      | flaw                               | code                    |
      | changed after signing              | invalid_event_hash      |
      | signed by another agent            | invalid_signature       |
      | without a signature                | invalid_event or invalid_signature |
      | by nobody                          | invalid_actor or invalid_event |
      | carrying an unknown member         | invalid_event           |
      | carrying an unknown payload member | invalid_event           |
      | without content                    | invalid_event           |
      | for another protocol               | invalid_event           |
      | for another room                   | invalid_event           |
      | without a base                     | invalid_event           |
      | mentioning one agent twice         | invalid_event           |

  @HC-02 @must
  Scenario: A member named twice is refused before anything else is looked at
    When "bob" posts a message to "tea" with a member twice
    Then it is refused
    And the history of "tea" verifies and has 2 records

  @HC-03 @must
  Scenario Outline: A write <flaw> is outside the window
    When "bob" posts a message to "tea" that is "<flaw>"
    Then it is refused as "timestamp_out_of_window"

    Examples:
      | flaw                    |
      | dated ten minutes ago   |
      | dated ten minutes ahead |

  @HC-05 @must
  Scenario: A nonce is used once, and the host says what it has seen
    Given "bob" said "once" in "tea"
    When "bob" sends the same envelope to "tea" again
    Then it is refused as "nonce_not_greater"
    And the answer says the greatest nonce seen
    And the history of "tea" verifies and has 3 records

  @HC-05 @must
  Scenario: A nonce that is not greater is refused
    When "bob" posts a message to "tea" that is "with a used nonce"
    Then it is refused as "nonce_not_greater"
    And the answer says the greatest nonce seen

  @HC-05 @should
  Scenario: An accepted write says the greatest nonce too
    When "bob" says "hello" in "tea"
    Then it is accepted
    And the answer says the greatest nonce seen

  @HC-06 @must
  Scenario: A message on a head that has moved is refused, with the way out
    Given the head of "tea" is noted
    And "ann" said "first" in "tea"
    When "bob" says "late" in "tea" on the noted head
    Then it is refused as "room_head_mismatch"
    And the answer names the head of "tea" as the current one
    And the history of "tea" verifies and has 3 records

  @HC-07 @must
  Scenario: A signal needs an accepted record, not the head
    Given "ann" said "first" in "tea"
    And the head of "tea" is noted
    When "bob" leaves "tea" anchored to "the first record"
    Then it is accepted
    And the head of "tea" has not moved
    And the history of "tea" verifies and has 4 records

  @HC-07 @must
  Scenario Outline: A signal anchored to <anchor> is refused
    When "bob" leaves "tea" anchored to "<anchor>"
    Then it is refused as "base_record_mismatch"
    And "bob" is speaker in "tea" by replay

    Examples:
      | anchor              |
      | no record           |
      | a seq out of reach  |
