Feature: One backend, two transports

  @GT-01 @GT-05 @GT-26 @must
  Scenario: The same story leaves the same traces
    Then the same story leaves the same traces over REST and over MCP

  @GT-01 @must
  Scenario: The REST surface is described in OpenAPI 3.1
    When GET /.well-known/grp.json is sent
    Then it succeeds
    And the answer is kept as "discovery"
    When GET /api/openapi.json is sent
    Then it succeeds
    And its "/openapi" matches "3.1"
    And its text contains "/api/rooms/{slug}/next-action"
    And its text contains "/api/rooms/{slug}/start-choosing"

  @GT-02 @must
  Scenario: The participant catalog holds the verbs of a room and none of its host
    When the MCP endpoint /mcp is asked tools/list
    Then it succeeds
    And its text contains "join_room"
    And its text contains "read_room"
    And its text contains "choose"
    And its text contains "abstain"
    And its text contains "discuss"
    And its text contains "propose"
    And its text contains "outcome"
    And its text contains "wait"
    And its text contains "ask"
    And its text contains "start_choosing"
    And its text contains "close_room"
    And its text lacks "create_room"
    And its text lacks "list_decisions"
    And its text lacks "register_webhook"
    And its text lacks "update_room_settings"

  @GT-02 @must
  Scenario: The host catalog adds what a host needs
    When the MCP endpoint /mcp/host is asked tools/list
    Then it succeeds
    And its text contains "create_room"
    And its text contains "list_rooms"
    And its text contains "invite_to_room"
    And its text contains "list_invites"
    And its text contains "revoke_invite"
    And its text contains "update_room_settings"
    And its text contains "list_decisions"
    And its text contains "wait_outcome"
    And its text contains "register_webhook"
    And its text contains "list_events"

  @GT-02 @must
  Scenario: A host tool cannot be called at the participant catalog
    When the MCP endpoint /mcp is asked tools/call with
      """
      {"name": "create_room", "arguments": {"about": "not here"}}
      """
    Then it has no "/result/structuredContent/slug"
    And its text lacks "creator_token"

  @GT-05 @GT-26 @must
  Scenario Outline: All eleven operations work over <transport>
    Given the calls go over <transport>
    And ann opened the room "den" for questions to come
    And bob took a seat in "den"
    When ann calls ask in "den" with
      """
      {"question": "Where to meet?", "options": ["park"], "proposal_window": 300}
      """
    Then it succeeds
    And its "/decision/status" is "proposing"
    When bob calls propose in "den" with
      """
      {"option": "library"}
      """
    Then it succeeds
    And its "/accepted" is true
    When ann calls start_choosing in "den"
    Then it succeeds
    And its "/decision/status" is "voting"
    When bob calls discuss in "den" with
      """
      {"body": "The library is dry.", "stance": "agree"}
      """
    Then it succeeds
    When bob calls wait in "den" with
      """
      {"wait": 0}
      """
    Then it succeeds
    And its "/status" is "actionable"
    And its "/decision/seq" is 1
    When bob calls choose in "den" with
      """
      {"choice": "library"}
      """
    Then it succeeds
    And its "/cast_choice" is "library"
    When bob calls read_room in "den"
    Then it succeeds
    And its "/status" is "resolved"
    And its "/decision" is null
    When bob calls outcome in "den"
    Then it succeeds
    And its "/resolved_winner" is "library"
    When ann calls close_room in "den" with
      """
      {"statement": "See you there."}
      """
    Then it succeeds
    And its "/receipt_hash" matches "sha256:[hex]"

    Examples:
      | transport |
      | REST      |
      | MCP       |

  @GT-04 @may
  Scenario: A2A is advertised only when an agent card is served
    When GET /.well-known/grp.json is sent
    Then it succeeds
    And it has no "/transports/a2a"

  @GT-13 @must
  Scenario: A correlation id comes back, also in the error
    When GET /api/rooms/no-such-room is sent with
      """
      {"headers": {"x-correlation-id": "story-42"}}
      """
    Then the status is 404
    And it is refused with "room.not_found"
    And its header "x-correlation-id" is "story-42"
    And its "/error/request_id" is "story-42"

  @GT-05 @must
  Scenario: A request with duplicate members is refused
    Given ann opened the room "den" to decide "Tea or coffee?" between "tea / coffee"
    When POST /api/rooms/{room:den}/discuss is sent with
      """
      {"headers": {"authorization": "Bearer {token:ann:den}"}, "body": "{\"body\": \"one\", \"body\": \"two\"}"}
      """
    Then it is refused with "input.invalid"
    And "den" has 0 events "discussion.posted"

  @GT-05 @story-22 @must
  Scenario: Answers are neither cached nor redirected, and readable across origins
    Given ann opened the room "den" to decide "Tea or coffee?" between "tea / coffee"
    When GET /api/rooms/{room:den} is sent with
      """
      {"headers": {"authorization": "Bearer {token:ann:den}", "origin": "https://elsewhere.example"}}
      """
    Then the status is 200
    And its header "cache-control" contains "no-store"
    And its header "access-control-allow-origin" is "*"
    When OPTIONS /api/rooms/{room:den}/choose is sent with
      """
      {"headers": {"origin": "https://elsewhere.example", "access-control-request-method": "POST"}}
      """
    Then its header "access-control-allow-headers" contains "x-mandate"
    And its header "access-control-allow-methods" contains "post"
