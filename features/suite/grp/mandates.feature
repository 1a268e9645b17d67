Feature: Mandates

  @GT-11 @GT-12 @GT-26 @must
  Scenario Outline: An agent joins and acts by mandate alone over <transport>
    Given the calls go over <transport>
    And ann opened the room "den" to decide "Ship it?" between "yes / no"
    And mia holds a mandate
    When mia takes a seat in "den"
    Then it succeeds
    And its "/participant_token" is null
    When mia tells "den": "I come by mandate."
    Then it succeeds
    When mia chooses "yes" in "den"
    Then it succeeds
    When mia calls outcome in "den"
    Then it succeeds
    And its "/resolved_winner" is "yes"

    Examples:
      | transport |
      | REST      |
      | MCP       |

  @GT-11 @must
  Scenario: The receipt names agent and mandate
    Given ann opened the room "den" to decide "Ship it?" between "yes / no"
    And mia holds a mandate with the claims
      """
      {"sub": "urn:grp:agent:mia", "jti": "urn:uuid:the-mandate-of-mia"}
      """
    And mia took a seat in "den"
    And mia chose "yes" in "den"
    Then the receipts of "den" verify and form one chain of 1
    And its "/receipts/0/grp/votes/0/agent_id" is "urn:grp:agent:mia"
    And its "/receipts/0/grp/votes/0/mandate_ref" is "urn:uuid:the-mandate-of-mia"

  @GT-12 @must
  Scenario: A restricted key beside the mandate changes nothing
    Given ann opened the room "den" to decide "Ship it?" between "yes / no"
    And mia holds a mandate
    And mia took a seat in "den"
    When POST /api/rooms/{room:den}/discuss is sent with
      """
      {"headers": {"authorization": "Bearer rk_something", "x-mandate": "{mandate:mia}"}, "body": {"body": "with a key"}}
      """
    Then it succeeds

  @GT-15 @must
  Scenario: Reserved headers are tolerated
    Given ann opened the room "den" to decide "Ship it?" between "yes / no"
    When POST /api/rooms/{room:den}/discuss is sent with
      """
      {"headers": {"authorization": "Bearer {token:ann:den}", "x-body-signature": "AAAA", "x-timestamp": "1"}, "body": {"body": "signed, they say"}}
      """
    Then it succeeds

  @GT-03 @must
  Scenario: A mandate is no tool argument
    Given the calls go over MCP
    And ann opened the room "den" to decide "Ship it?" between "yes / no"
    And mia holds a mandate
    When the MCP endpoint /mcp is asked tools/call with
      """
      {"name": "join_room", "arguments": {"slug": "{room:den}", "display_name": "mia", "mandate": "{mandate:mia}"}}
      """
    Then it is refused over MCP
    And "den" has 0 events "participant.joined"
    When the MCP endpoint /mcp is asked tools/list
    Then no tool takes a "mandate" argument

  @GT-14 @story-24 @must
  Scenario Outline: A <fault> mandate is refused over <transport>
    Given the calls go over <transport>
    And ann opened the room "den" to decide "Ship it?" between "yes / no"
    And mia holds a mandate
    And mia took a seat in "den"
    And the mandate of mia is <fault>
    When mia tells "den": "let me in"
    Then it is refused with "<code>"
    And "den" has 0 events "discussion.posted"

    Examples:
      | fault  | code                      | transport |
      | forged | mandate.signature_invalid | REST      |
      | forged | mandate.signature_invalid | MCP       |
      | padded | mandate.malformed         | REST      |
      | cut    | mandate.malformed         | REST      |
      | loose  | mandate.malformed         | REST      |
      | critical | mandate.malformed       | REST      |
      | critical | mandate.malformed       | MCP       |

  @GT-14 @must
  Scenario Outline: Scope is checked: <what>
    Given ann opened the room "den" to decide "Ship it?" between "yes / no"
    And mia holds a mandate
    And mia took a seat in "den"
    When mia holds a mandate with the claims
      """
      <claims>
      """
    And mia chooses "yes" in "den"
    Then it is refused with "<code>"
    And "den" has 0 events "decision.completed"

    Examples:
      | what            | claims                                              | code                          |
      | expired         | {"exp": "now-1"}                                    | mandate.expired               |
      | expires now     | {"exp": "now"}                                      | mandate.expired               |
      | not yet valid   | {"nbf": "now+300"}                                  | mandate.not_yet_valid         |
      | another room    | {"grp": {"rooms": ["https://room.example/r/other"]}} | mandate.room_not_in_scope     |
      | another action  | {"grp": {"actions": ["discuss"]}}                   | mandate.action_not_in_scope   |
      | too little weight | {"grp": {"weight_cap": 0}}                        | mandate.weight_cap_exceeded   |
      | reserved stage  | {"grp": {"trust_stage": 3}}                         | mandate.malformed             |

  @GT-14 @must
  Scenario: A mandate for this very room is enough
    Given ann opened the room "den" to decide "Ship it?" between "yes / no"
    And mia holds a mandate with the claims
      """
      {"grp": {"rooms": ["{url:den}"]}}
      """
    When mia takes a seat in "den"
    Then it succeeds
    When mia chooses "yes" in "den"
    Then it succeeds

  @GT-14 @must
  Scenario: The signature is judged before the scope, and the scope before the room's setting
    Given ann opened the room "den" to decide "Ship it?" between "yes / no" with the settings
      """
      {"auth": "token_only"}
      """
    And mia holds a mandate with the claims
      """
      {"exp": "now-1"}
      """
    And the mandate of mia is forged
    When mia takes a seat in "den"
    Then it is refused with "mandate.signature_invalid"
    When mia holds a mandate with the claims
      """
      {"exp": "now-1", "grp": {"rooms": ["elsewhere"]}}
      """
    And mia takes a seat in "den"
    Then it is refused with "mandate.expired"
    When mia holds a mandate with the claims
      """
      {"grp": {"rooms": ["elsewhere"]}}
      """
    And mia takes a seat in "den"
    Then it is refused with "mandate.room_not_in_scope"
    When mia holds a mandate with the claims
      """
      {}
      """
    And mia takes a seat in "den"
    Then it is refused with "auth.mandate_not_accepted"

  @GT-14 @must
  Scenario: A rate cap is kept, and says when to come back
    Given ann opened the room "den" to decide "Ship it?" between "yes / no"
    And mia holds a mandate with the claims
      """
      {"grp": {"rate_caps": {"limit": 2, "window_seconds": 600}}}
      """
    And mia took a seat in "den"
    When mia tells "den": "one"
    Then it succeeds
    When mia tells "den": "two"
    Then it succeeds
    When mia tells "den": "three"
    Then it is refused with "mandate.rate_cap_exceeded"
    And the status is 429
    And "den" has 2 events "discussion.posted"

  @GT-14 @must
  Scenario: A revoked mandate stops acting, and what it did stays
    Given ann opened the room "den" to decide "Ship it?" between "yes / no"
    And mia holds a mandate of the trusted issuer
    And mia took a seat in "den"
    When mia tells "den": "still mine"
    Then it succeeds
    When the mandate of mia is revoked
    And mia chooses "yes" in "den"
    Then it is refused with "mandate.revoked"
    And "den" has 1 event "discussion.posted"
    And "den" has 0 events "choice.submitted"

  @GT-10 @must
  Scenario: A room that requires mandates takes no token joins
    Given ann opened the room "den" to decide "Ship it?" between "yes / no" with the settings
      """
      {"auth": "mandate_required"}
      """
    When bob takes a seat in "den"
    Then it is refused with "auth.mandate_required"
    Given mia holds a mandate
    And mia took a seat in "den"
    When mia chooses "yes" in "den"
    Then it succeeds

  @GT-10 @must
  Scenario: A room of tokens takes no mandates, and either takes both
    Given ann opened the room "den" to decide "Ship it?" between "yes / no" with the settings
      """
      {"auth": "token_only"}
      """
    And mia holds a mandate
    When mia takes a seat in "den"
    Then it is refused with "auth.mandate_not_accepted"
    Given ann opened the room "agora" to decide "Ship it?" between "yes / no"
    Then its "/config/auth" is "either"
    When mia takes a seat in "agora"
    Then it succeeds
    When bob takes a seat in "agora"
    Then it succeeds

  @GT-11 @must
  Scenario: Joining twice by mandate is one seat
    Given ann opened the room "den" to decide "Ship it?" between "yes / no"
    And mia holds a mandate
    And mia took a seat in "den"
    And the answer is kept as "first"
    When mia takes a seat in "den"
    Then it succeeds
    And its "/participant_id" equals that of "first"
    And "den" has 1 event "participant.joined"
