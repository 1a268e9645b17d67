Feature: The MCP lifecycle over stdio

  @LC-02 @should
  Scenario: The revision of the seed is negotiated
    Given the connector process runs without being initialized
    When the client asks for protocol version "2025-11-25"
    Then the server answers with protocol version "2025-11-25"
    And it introduces itself with a name and a version

  @LC-02 @should
  Scenario: A client that asks for an unknown revision is offered one
    Given the connector process runs without being initialized
    When the client asks for protocol version "1999-01-01"
    Then the server answers with protocol version "2025-11-25"

  @LC-07 @should
  Scenario: No deprecated client feature is advertised or needed
    Given the connector runs
    When the client pings
    Then it offers tools and neither logging nor anything of roots or sampling
    And it asked nothing of the client but pings

  @LC-02 @should
  Scenario: Nothing but JSON-RPC reaches stdout
    Given the connector runs
    When the client sends the line "this is no JSON"
    And the client pings
    And the client closes stdin
    Then the process ends by itself within 5 s
    And every line of stdout was a JSON-RPC message
