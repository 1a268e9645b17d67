Feature: Participant tokens

  @GT-06 @must
  Scenario Outline: A token is t_ and 32 random bytes, whoever receives it over <transport>
    Given the calls go over <transport>
    And ann opened the room "den" to decide "Tea or coffee?" between "tea / coffee"
    Then its "/creator_token" matches "t_[43]"
    When bob takes a seat in "den"
    Then it succeeds
    And its "/participant_token" matches "t_[43]"

    Examples:
      | transport |
      | REST      |
      | MCP       |

  @GT-09 @must
  Scenario: A token is taken from the query and from the header
    Given ann opened the room "den" to decide "Tea or coffee?" between "tea / coffee"
    When GET /api/rooms/{room:den}?token={token:ann:den} is sent
    Then it succeeds
    And its "/role" is "participant"
    When GET /api/rooms/{room:den} is sent with
      """
      {"headers": {"authorization": "Bearer {token:ann:den}"}}
      """
    Then it succeeds
    And its "/role" is "participant"
    When POST /api/rooms/{room:den}/discuss?token={token:ann:den} is sent with
      """
      {"body": {"body": "by query"}}
      """
    Then it succeeds

  @GT-09 @must
  Scenario: Two different tokens in one request are refused
    Given ann opened the room "den" to decide "Tea or coffee?" between "tea / coffee"
    And bob took a seat in "den"
    When GET /api/rooms/{room:den}?token={token:bob:den} is sent with
      """
      {"headers": {"authorization": "Bearer {token:ann:den}"}}
      """
    Then it is refused

  @GT-08 @must
  Scenario: A token of one room opens no other
    Given ann opened the room "den" to decide "Tea or coffee?" between "tea / coffee"
    And eve opened the room "lair" to decide "Whom to fool?" between "ann / bob"
    When POST /api/rooms/{room:den}/discuss is sent with
      """
      {"headers": {"authorization": "Bearer {token:eve:lair}"}, "body": {"body": "hello from next door"}}
      """
    Then it is refused with "auth.invalid_token"
    And the status is 401
    When GET /api/rooms/{room:den}?token={token:eve:lair} is sent
    Then it is refused with "auth.invalid_token"
    And "den" has 0 events "discussion.posted"

  @GT-07 @story-26 @must
  Scenario: A token is shown once and found nowhere again
    Given ann opened the room "den" to decide "Tea or coffee?" between "tea / coffee"
    And bob took a seat in "den"
    And bob called discuss in "den" with
      """
      {"body": "mine is safe"}
      """
    And bob chose "tea" in "den"
    Then no secret of "den" is found in anything it shows

  @GT-07 @story-04 @must
  Scenario: A second session on an invite replaces the first one's token
    Given ann opened the room "den" to decide "Tea or coffee?" between "tea / coffee"
    And ann called invite_to_room in "den" with
      """
      {"label": "Bob"}
      """
    And the answer is kept as "invite"
    When POST /api/rooms/{room:den}/join is sent with
      """
      {"body": {"invite": "{kept:invite:/invite_token}", "display_name": "Mallory"}}
      """
    Then it succeeds
    And the answer is kept as "first"
    When POST /api/rooms/{room:den}/join is sent with
      """
      {"body": {"invite": "{kept:invite:/invite_token}"}}
      """
    Then it succeeds
    And its "/participant_id" equals that of "first"
    When GET /api/rooms/{room:den} is sent with
      """
      {"headers": {"authorization": "Bearer {kept:first:/participant_token}"}}
      """
    Then it is refused with "participant.token_superseded"
    And the status is 401

  @GT-08 @must
  Scenario Outline: Without a credential nobody acts, over <transport>
    Given the calls go over <transport>
    And ann opened the room "den" to decide "Tea or coffee?" between "tea / coffee"
    When stranger calls discuss in "den" with
      """
      {"body": "who am I?"}
      """
    Then it is refused with "auth.required"
    When stranger calls wait in "den"
    Then it is refused with "auth.required"
    And "den" has 0 events "discussion.posted"

    Examples:
      | transport |
      | REST      |
      | MCP       |
