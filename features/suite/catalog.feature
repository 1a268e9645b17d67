Feature: The tool catalogue
  A connector may offer a subset of the standard tools; what it offers under a standard name
  has the standard meaning (section 3).

  Background:
    Given the tool catalogue

  @LC-08 @must
  Scenario: Standard tools have the standard inputs
    Then every claimed standard tool is offered once
    And each has the seed's required and optional inputs
    And each closed list of values is the seed's

  @LC-53 @must
  Scenario: Every tool with a room_id accepts a host
    Then each tool with a room_id also takes host

  @LC-51 @must
  Scenario: Annotations equal the table's
    Then each annotation that the seed states is declared so

  @LC-51 @should @reference
  Scenario: All four hints are explicit
    Then each of the four hints is explicit on every tool

  @LC-50 @must
  Scenario: Descriptions say what a tool does to the world
    Then each description says whether the tool reads locally, reads remotely or signs

  @LC-30 @should
  Scenario: Tools declare the shape of their results
    Then each has an output schema

  @LC-67 @must
  Scenario: The agent supplies neither actor nor nonce nor signature
    Then no tool takes what only the connector may decide

  @LC-24 @LC-54 @must
  Scenario: No tool signs at will or changes the allowlist
    Then no tool signs arbitrary data, hands out tokens or changes the allowlist
