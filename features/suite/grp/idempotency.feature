Feature: Idempotency

  @GT-16 @GT-26 @story-15 @must
  Scenario Outline: A repeated <op> answers as before and happens once, over <transport>
    Given the calls go over <transport>
    And ann opened the room "den" to decide "Tea or coffee?" between "tea / coffee" with the settings
      """
      {"early_close": false}
      """
    And bob took a seat in "den"
    When bob calls <op> in "den" under the key "k-1" with
      """
      <args>
      """
    Then it succeeds
    And the answer is kept as "first"
    When bob calls <op> in "den" under the key "k-1" with
      """
      <args>
      """
    Then it succeeds
    And its "<member>" equals that of "first"
    And "den" has 1 event "<event>"
    When bob calls <op> in "den" under the key "k-1" with
      """
      <other>
      """
    Then it is refused with "idempotency.conflict"
    And "den" has 1 event "<event>"

    Examples:
      | op      | transport | args                | other                | member      | event             |
      | discuss | REST      | {"body": "once"}    | {"body": "twice"}    | /id         | discussion.posted |
      | discuss | MCP       | {"body": "once"}    | {"body": "twice"}    | /id         | discussion.posted |
      | choose  | REST      | {"choice": "tea"}   | {"choice": "coffee"} | /cast_choice | choice.submitted |
      | choose  | MCP       | {"choice": "tea"}   | {"choice": "coffee"} | /cast_choice | choice.submitted |
      | propose | REST      | {"option": "water"} | {"option": "milk"}   | /accepted   | option.proposed   |
      | propose | MCP       | {"option": "water"} | {"option": "milk"}   | /accepted   | option.proposed   |

  @GT-16 @story-15 @must
  Scenario: A repeated join gives the same seat and the same token
    Given ann opened the room "den" to decide "Tea or coffee?" between "tea / coffee"
    When bob calls join_room in "den" under the key "join-1" with
      """
      {"display_name": "bob"}
      """
    Then it succeeds
    And the answer is kept as "first"
    When bob calls join_room in "den" under the key "join-1" with
      """
      {"display_name": "bob"}
      """
    Then it succeeds
    And its "/participant_id" equals that of "first"
    And its "/participant_token" equals that of "first"
    And "den" has 1 event "participant.joined"
    When bob calls join_room in "den" under the key "join-1" with
      """
      {"display_name": "robert"}
      """
    Then it is refused with "idempotency.conflict"

  @GT-16 @must
  Scenario: Key order and white space make no other body
    Given ann opened the room "den" to decide "Tea or coffee?" between "tea / coffee"
    When POST /api/rooms/{room:den}/discuss is sent with
      """
      {"headers": {"authorization": "Bearer {token:ann:den}", "idempotency-key": "same"}, "body": "{\"body\":\"x\",\"stance\":\"agree\"}"}
      """
    Then it succeeds
    And the answer is kept as "first"
    When POST /api/rooms/{room:den}/discuss is sent with
      """
      {"headers": {"authorization": "Bearer {token:ann:den}", "idempotency-key": "same"}, "body": "{ \"stance\": \"agree\",  \"body\": \"x\" }"}
      """
    Then it succeeds
    And its "/id" equals that of "first"

  @GT-16 @story-15 @must
  Scenario: A choice repeated after the seal still answers as before
    Given ann opened the room "den" to decide "Tea or coffee?" between "tea / coffee"
    And bob took a seat in "den"
    When bob calls choose in "den" under the key "last" with
      """
      {"choice": "tea"}
      """
    Then it succeeds
    And its "/resolved_winner" is "tea"
    When bob calls choose in "den" under the key "last" with
      """
      {"choice": "tea"}
      """
    Then it succeeds
    And its "/resolved_winner" is "tea"
    When bob chooses "tea" in "den"
    Then it is refused with "decision.not_open"

  @GT-16 @must
  Scenario: Two people may use the same key
    Given ann opened the room "den" to decide "Tea or coffee?" between "tea / coffee"
    And bob took a seat in "den"
    When ann calls discuss in "den" under the key "k" with
      """
      {"body": "from ann"}
      """
    Then it succeeds
    When bob calls discuss in "den" under the key "k" with
      """
      {"body": "from bob"}
      """
    Then it succeeds
    And "den" has 2 events "discussion.posted"

  @GT-17 @must
  Scenario: A second choice replaces the first
    Given ann opened the room "den" to decide "Tea or coffee?" between "tea / coffee" with the settings
      """
      {"quorum": 2}
      """
    And bob took a seat in "den"
    And eve took a seat in "den"
    And bob chose "tea" in "den"
    And bob chose "coffee" in "den"
    When eve chooses "coffee" in "den"
    Then it succeeds
    And its "/resolved_winner" is "coffee"
    And the receipts of "den" verify and form one chain of 1
    And its "/receipts/0/grp/votes" has 2 entries
    And its "/receipts/0/grp/outcome/tallies/coffee" is 2

  @GT-16 @story-15 @must
  Scenario Outline: <op> under a key is done once, over <transport>
    Given the calls go over <transport>
    And ann opened the room "den" that is <state>
    And bob took a seat in "den"
    And ann invited carol to "den"
    When ann calls <op> in "den" under the key "once" with
      """
      <args>
      """
    Then it succeeds
    And the answer is kept as "first"
    And what happened in "den" is kept as "before"
    When ann calls <op> in "den" under the key "once" with
      """
      <args>
      """
    Then it is the answer "first" again
    And nothing happened in "den" since "before"
    When ann calls <op> in "den" under the key "once" with
      """
      <other>
      """
    Then it is refused with "idempotency.conflict"
    And nothing happened in "den" since "before"

    Examples:
      | transport | op                   | state             | args                                        | other                            |
      | REST      | ask                  | between questions | {"question": "Why?", "options": ["a", "b"]} | {"question": "How?", "options": ["a", "b"]} |
      | MCP       | ask                  | between questions | {"question": "Why?", "options": ["a", "b"]} | {"question": "How?", "options": ["a", "b"]} |
      | REST      | start_choosing       | proposing         | {}                                          | {"decision_id": "another"}       |
      | MCP       | start_choosing       | proposing         | {}                                          | {"decision_id": "another"}       |
      | REST      | abstain              | choosing          | {"reason": "neither"}                       | {"reason": "both"}               |
      | MCP       | abstain              | choosing          | {"reason": "neither"}                       | {"reason": "both"}               |
      | REST      | invite_to_room       | between questions | {"label": "Dora"}                           | {"label": "Emil"}                |
      | MCP       | invite_to_room       | between questions | {"label": "Dora"}                           | {"label": "Emil"}                |
      | REST      | revoke_invite        | between questions | {"code": "{kept:invite of carol:/invite/code}"} | {"code": "another"}          |
      | MCP       | revoke_invite        | between questions | {"code": "{kept:invite of carol:/invite/code}"} | {"code": "another"}          |
      | REST      | update_room_settings | between questions | {"settings": {"max_options": 7}}            | {"settings": {"max_options": 8}} |
      | MCP       | update_room_settings | between questions | {"settings": {"max_options": 7}}            | {"settings": {"max_options": 8}} |
      | REST      | update_member        | between questions | {"participant": "{id:bob:den}", "role": "observer"} | {"participant": "{id:bob:den}", "role": "participant"} |
      | REST      | close_room           | between questions | {"statement": "That is all."}               | {"statement": "Or is it?"}       |
      | MCP       | close_room           | between questions | {"statement": "That is all."}               | {"statement": "Or is it?"}       |

  @GT-16 @story-15 @must
  Scenario Outline: A repeated creation makes one room, over <transport>
    Given the calls go over <transport>
    When ann calls create_room in "den" under the key "new-{seed}" with
      """
      {"about": "One room"}
      """
    Then it succeeds
    And the answer is kept as "first"
    When ann calls create_room in "den" under the key "new-{seed}" with
      """
      {"about": "One room"}
      """
    Then it is the answer "first" again
    When ann calls create_room in "den" under the key "new-{seed}" with
      """
      {"about": "Another room"}
      """
    Then it is refused with "idempotency.conflict"

    Examples:
      | transport |
      | REST      |
      | MCP       |

  @GT-16 @story-15 @must
  Scenario: A repeated deletion answers as before, also what was done in the room
    Given ann opened the room "den" to decide "Tea or coffee?" between "tea / coffee"
    And bob took a seat in "den"
    When ann calls discuss in "den" under the key "word" with
      """
      {"body": "last words"}
      """
    Then it succeeds
    And the answer is kept as "said"
    When ann calls delete_room in "den" under the key "end" with
      """
      {"confirm": "{room:den}"}
      """
    Then it succeeds
    And the answer is kept as "gone"
    When ann calls delete_room in "den" under the key "end" with
      """
      {"confirm": "{room:den}"}
      """
    Then it is the answer "gone" again
    When ann calls discuss in "den" under the key "word" with
      """
      {"body": "last words"}
      """
    Then it is the answer "said" again
    When ann calls discuss in "den" under the key "word" with
      """
      {"body": "other words"}
      """
    Then it is refused with "idempotency.conflict"
    When bob calls delete_room in "den" under the key "end" with
      """
      {"confirm": "{room:den}"}
      """
    Then it is refused with "room.not_found"
    When ann calls discuss in "den"
    Then it is refused with "room.not_found"

  @GT-16 @story-15 @must
  Scenario: One key over both transports is one key
    Given ann opened the room "den" to decide "Tea or coffee?" between "tea / coffee"
    When ann calls discuss in "den" under the key "both" with
      """
      {"body": "said once"}
      """
    Then it succeeds
    And the answer is kept as "first"
    Given the calls go over MCP
    When ann calls discuss in "den" under the key "both" with
      """
      {"body": "said once"}
      """
    Then it is the answer "first" again
    And "den" has 1 event "discussion.posted"
