Feature: Forged records are refused
  Record hashes and signatures are verified before local state changes. A forged record is
  neither shown nor becomes the head; what was verified before stays; the agent is told.

  Background:
    Given a host "a"
    And ada opened the public room "lounge" on "a"
    And ada said "true words" in "lounge"

  @LC-16 @LC-15 @LC-01 @must
  Scenario Outline: A record with a forged <field> is refused
    Given the agent opened "lounge"
    And ada said "later words" in "lounge"
    And host "a" misbehaves
      """
      [[fault]]
      when = { route = "events", seq = 3 }
      action = { tamper = { field = "<pointer>"<more> } }
      [[fault]]
      when = { route = "live", seq = 3 }
      action = { tamper = { field = "<pointer>"<more> } }
      """
    When the agent refreshes "lounge"
    Then the agent is told that seq 3 of "lounge" cannot be trusted
    And the verified head of "lounge" is still seq 2
    And nothing of seq 3 of "lounge" is shown

    Examples:
      | field                    | pointer                           | more                                        |
      | record hash              | /hash                             |                                             |
      | pre_hash                 | /pre_hash                         |                                             |
      | pre_hash, hashed anew    | /pre_hash                         | , relink = true                             |
      | seq, hashed anew         | /seq                              | , value = 4, relink = true                  |
      | received_at              | /received_at                      |                                             |
      | room_id                  | /room_id                          | , relink = true                             |
      | envelope hash            | /envelope/hash                    | , relink = true                             |
      | envelope hash alone      | /envelope/hash                    |                                             |
      | signature                | /envelope/signature               | , relink = true                             |
      | content                  | /envelope/event/payload/content   | , relink = true                             |
      | actor                    | /envelope/event/actor             | , relink = true                             |
      | nonce                    | /envelope/event/nonce             | , relink = true                             |
      | created_at               | /envelope/event/created_at        | , relink = true                             |
      | event type               | /envelope/event/type              | , value = "room.close", relink = true       |
      | extra event member       | /envelope/event/surprise          | , value = true, relink = true               |

    # A record beside its envelope is the host's; that it is a closed shape is not written.
    @reference
    Examples:
      | field                    | pointer                           | more                                        |
      | extra record member      | /surprise                         | , value = true                              |

  @LC-16 @must
  Scenario: A record signed by a stranger in another's name is refused
    Given the agent opened "lounge"
    And ada said "later words" in "lounge"
    And host "a" misbehaves
      """
      [[fault]]
      when = { route = "events", seq = 3 }
      action = { resign = {} }
      """
    When the agent refreshes "lounge"
    Then the agent is told that seq 3 of "lounge" cannot be trusted
    And the verified head of "lounge" is still seq 2
    And nothing of seq 3 of "lounge" is shown

  @LC-16 @must
  Scenario: A gap in the history is not stepped over
    Given the agent opened "lounge"
    And ada said "second words" in "lounge"
    And ada said "third words" in "lounge"
    And host "a" misbehaves
      """
      [[fault]]
      when = { route = "events", seq = 3 }
      action = { drop_record = {} }
      """
    When the agent refreshes "lounge"
    Then the verified head of "lounge" is still seq 2
    And nothing of seq 4 of "lounge" is shown
    When host "a" behaves again
    And the agent refreshes "lounge"
    And the agent reads "lounge"
    Then the items show "third words"

  @LC-16 @must
  Scenario: A history that was never true is not opened
    Given host "a" misbehaves
      """
      [[fault]]
      when = { route = "events", seq = 2 }
      action = { tamper = { field = "/envelope/event/payload/content", value = "forged words", relink = true } }
      """
    When the agent opens "lounge"
    Then no result so far holds
      """
      forged words
      """

  @LC-01 @LC-38 @must
  Scenario Outline: A record that no host may accept is not applied: <what>
    Given the agent is a speaker of "lounge"
    And bob joined "lounge" as <role>
    And the agent read "lounge"
    When a record that nobody should accept enters "lounge": "<type>" by <actor> with
      """
      <payload>
      """
    And the agent refreshes "lounge"
    Then <judgement>

    Examples:
      | what                       | role     | type               | actor   | payload                                                    | judgement                                    |
      | a speaker closes the room  | speaker  | room.close         | bob     | {}                                                         | "lounge" is not shown as ended               |
      | a stranger bans a member   | speaker  | room.member.remove | mallory | { "member": "$(agent bob)", "ban": true }                  | bob is still shown as active in "lounge"     |
      | an observer speaks         | observer | message.create     | bob     | { "content_type": "text/plain", "content": "I may not" }   | nothing of "I may not" in "lounge" is shown  |

  @LC-17 @must
  Scenario: A fork is detected and nothing is signed on it
    Given the agent is a speaker of "lounge"
    And the agent read "lounge"
    And ada said "third words" in "lounge"
    And host "a" misbehaves
      """
      [[fault]]
      when = { seq = 2 }
      action = { fork = {} }
      """
    When the agent refreshes "lounge"
    Then the agent is told that something is wrong with "lounge"
    When we count from here
    And the agent says "on which side am I?" in "lounge" with
      """
      { "on_head_mismatch": "send_anyway" }
      """
    Then nothing was signed on a forked base of "lounge"
    And no events were sent to "a" since

  @LC-17 @should @reference
  Scenario: A fork of the very last record is detected as well
    Given the agent is a speaker of "lounge"
    And the agent read "lounge"
    And host "a" misbehaves
      """
      [[fault]]
      when = { seq = 3 }
      action = { fork = {} }
      """
    When the agent refreshes "lounge"
    Then the agent is told that something is wrong with "lounge"
    When we count from here
    And the agent says "on which side am I?" in "lounge" with
      """
      { "on_head_mismatch": "send_anyway" }
      """
    Then no events were sent to "a" since

  @LC-17 @must
  Scenario: A rollback is detected and the verified state stays
    Given the agent is a speaker of "lounge"
    And ada said "fourth words" in "lounge"
    And the agent read "lounge"
    And host "a" misbehaves
      """
      [[fault]]
      action = { rollback = { to = 2 } }
      """
    When the agent refreshes "lounge"
    Then the agent is told that something is wrong with "lounge"
    And the verified head of "lounge" is still seq 4
    When we count from here
    And the agent says "is anybody there?" in "lounge" with
      """
      { "on_head_mismatch": "send_anyway" }
      """
    Then no events were sent to "a" since

  @LC-33 @LC-15 @must
  Scenario: A head that the host only claims is not taken on trust
    Given host "a" misbehaves
      """
      [[fault]]
      when = { route = "room" }
      action = { liar_head = { ahead = 100 } }
      """
    When the agent opens "lounge"
    Then the claimed head of "lounge" is nowhere shown as verified

  @LC-16 @must
  Scenario Outline: An answer that is no strict JSON is refused: <what>
    Given the agent opened "lounge"
    And ada said "later words" in "lounge"
    And host "a" misbehaves
      """
      [[fault]]
      when = { route = "events" }
      action = <action>
      """
    When the agent refreshes "lounge"
    Then the verified head of "lounge" is still seq 2
    When host "a" behaves again
    And the agent reads "lounge"
    Then the items show "later words"

    Examples:
      | what                | action                             |
      | a duplicated member | { duplicate_key = {} }             |
      | trailing data       | { oversize = { bytes = 100000000 } } |
      | not JSON at all     | { body = { text = "<html>" } }     |
      | cut in the middle   | { cut_after_bytes = { bytes = 40 } } |
