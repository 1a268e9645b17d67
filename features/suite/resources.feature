@needs:resources
Feature: Resources

  Background:
    Given a host "a"
    And ada opened the public room "lounge" on "a"
    And ada said "words in the room" in "lounge"
    And the agent is a speaker of "lounge"

  @should
  Rule: Every documented resource is listed or templated, and readable

    @LC-R.identity/current
    Scenario: The identity
      Then the resource "agent-protocols://identity/current" is listed
      When the agent reads the resource "agent-protocols://identity/current"
      Then the resource holds "$(agent)"
      And the resource does not hold the seed

    @LC-R.hosts
    Scenario: The hosts
      Then the resource "agent-protocols://hosts" is listed
      When the agent reads the resource "agent-protocols://hosts"
      Then the resource holds "$(host a)"

    @LC-R.rooms
    Scenario: The rooms
      Then the resource "agent-protocols://rooms" is listed
      When the agent reads the resource "agent-protocols://rooms"
      Then the resource holds "$(room lounge)"

    @LC-R.rooms/{room_id}
    Scenario: One room
      Then the resource "agent-protocols://rooms/$(room lounge)" is listed
      When the agent reads the resource "agent-protocols://rooms/$(room lounge)"
      Then the resource holds "The lounge"

    @LC-R.rooms/{room_id}/members
    Scenario: Its members
      Then the resource "agent-protocols://rooms/$(room lounge)/members" is listed
      When the agent reads the resource "agent-protocols://rooms/$(room lounge)/members"
      Then the resource holds "$(agent ada)"

    @LC-R.rooms/{room_id}/timeline
    Scenario: Its timeline
      Then the resource "agent-protocols://rooms/$(room lounge)/timeline" is listed
      When the agent reads the resource "agent-protocols://rooms/$(room lounge)/timeline"
      Then the resource holds "words in the room"

    @LC-R.rooms/{room_id}/types
    Scenario: Its types
      Given ada sent "type.define" to "lounge" with
        """
        { "use": "adp:reactions/1.0" }
        """
      And the agent read "lounge"
      Then the resource "agent-protocols://rooms/$(room lounge)/types" is listed
      When the agent reads the resource "agent-protocols://rooms/$(room lounge)/types"
      Then the resource holds "reaction.create"

    @LC-R.rooms/{room_id}/agent-status
    Scenario: Its agent status
      Given the agent has called "agent_status_set" with
        """
        { "room_id": "$(room lounge)", "state": "thinking-hard" }
        """
      Then the resource "agent-protocols://rooms/$(room lounge)/agent-status" is listed
      When the agent reads the resource "agent-protocols://rooms/$(room lounge)/agent-status"
      Then the resource holds "thinking-hard"

    @LC-R.inbox/pending
    Scenario: The inbox
      Given the agent is subscribed to "lounge"
      And ada asked the agent "wake up" in "lounge"
      And soon the agent finds a "room.mention" item in the inbox
      Then the resource "agent-protocols://inbox/pending" is listed
      When the agent reads the resource "agent-protocols://inbox/pending"
      Then the resource holds "room.mention"

    @LC-R.drafts/held
    Scenario: The held drafts
      Given the agent read "lounge"
      And ada said "the head moves" in "lounge"
      When the agent says "held words" in "lounge"
      And the write is held
      Then the resource "agent-protocols://drafts/held" is listed
      When the agent reads the resource "agent-protocols://drafts/held"
      Then the resource holds "held words"
      And the resource does not hold "signature"

  @LC-80 @should @needs:resource-updates
  Rule: Subscribers are told when a resource changes, and only they

    Scenario: The timeline of a room changes
      Given the agent is subscribed to "lounge"
      When the agent subscribes to the resource "agent-protocols://rooms/$(room lounge)/timeline"
      And ada says "something new" in "lounge"
      Then soon the agent is told that "agent-protocols://rooms/$(room lounge)/timeline" changed
      And the agent was told of nothing else

    Scenario: The inbox changes
      Given the agent is subscribed to "lounge"
      When the agent subscribes to the resource "agent-protocols://inbox/pending"
      And ada asks the agent "wake up" in "lounge"
      Then soon the agent is told that "agent-protocols://inbox/pending" changed
      And the agent was told of nothing else

    Scenario: The held drafts changes
      Given the agent read "lounge"
      When the agent subscribes to the resource "agent-protocols://drafts/held"
      And ada says "the head moves" in "lounge"
      And the agent says "held words" in "lounge"
      And the write is held
      Then soon the agent is told that "agent-protocols://drafts/held" changed

    Scenario: The state of a room changes
      Given the agent is subscribed to "lounge"
      When the agent subscribes to the resource "agent-protocols://rooms/$(room lounge)"
      And ada sends "room.update" to "lounge" with
        """
        { "topic": "Another topic" }
        """
      Then soon the agent is told that "agent-protocols://rooms/$(room lounge)" changed

    Scenario: The agent status of a room changes
      Given the agent is subscribed to "lounge"
      When the agent subscribes to the resource "agent-protocols://rooms/$(room lounge)/agent-status"
      And ada is "drafting" in "lounge"
      Then soon the agent is told that "agent-protocols://rooms/$(room lounge)/agent-status" changed
