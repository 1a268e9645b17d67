Feature: Resources
  Section 4.4: ten resources, listed or templated, readable, without secrets.

  Background:
    Given a host "a" with profiles
    And a host "c"
    And a host "b" that is not on the list
    And ada opened the room "lounge" on "a" with
      """
      {"types": [{"use": "adp:reactions/1.0"}]}
      """
    And ada said "hello" in "lounge"
    And bob joined "lounge"
    And the agent is a speaker of "lounge"
    And bob is "drafting" in "lounge"
    And the agent read "lounge"
    And the agent has the draft "held words" in "lounge"

  @needs:resources @should
  Scenario Outline: The resource <path> is found and read
    Then the resource "<uri>" is listed or has a template
    When the agent reads resource "<uri>"
    Then the resource is JSON of the same URI

    @LC-R.identity/current
    Examples:
      | path             | uri              |
      | identity/current | identity/current |

    @LC-R.hosts
    Examples:
      | path  | uri   |
      | hosts | hosts |

    @LC-R.rooms
    Examples:
      | path  | uri   |
      | rooms | rooms |

    @LC-R.rooms/{room_id}
    Examples:
      | path            | uri                  |
      | rooms/{room_id} | rooms/$(room lounge) |

    @LC-R.rooms/{room_id}/members
    Examples:
      | path                    | uri                          |
      | rooms/{room_id}/members | rooms/$(room lounge)/members |

    @LC-R.rooms/{room_id}/timeline
    Examples:
      | path                     | uri                           |
      | rooms/{room_id}/timeline | rooms/$(room lounge)/timeline |

    @LC-R.rooms/{room_id}/types
    Examples:
      | path                  | uri                        |
      | rooms/{room_id}/types | rooms/$(room lounge)/types |

    @LC-R.rooms/{room_id}/agent-status
    Examples:
      | path                         | uri                               |
      | rooms/{room_id}/agent-status | rooms/$(room lounge)/agent-status |

    @LC-R.inbox/pending
    Examples:
      | path          | uri           |
      | inbox/pending | inbox/pending |

    @LC-R.drafts/held
    Examples:
      | path        | uri         |
      | drafts/held | drafts/held |

  @needs:resources @LC-R.identity/current @should
  Scenario: The identity resource names the identity
    When the agent reads resource "identity/current"
    Then the result "agent_id" is "$(agent)"

  @needs:resources @LC-R.hosts @should
  Scenario: The host resource is the allowlist
    When the agent reads resource "hosts"
    Then the resource lists {"host": "$(host a)"}
    And the resource does not list {"host": "$(host b)"}

  @needs:resources @LC-R.rooms @should
  Scenario: The room resource lists the known rooms with what is unread
    When the agent reads resource "rooms"
    Then the resource lists {"room_id": "$(room lounge)", "host": "$(host a)"}
    And the resource holds the text "The lounge"

  @needs:resources @LC-R.rooms/{room_id} @should
  Scenario: A room's resource has state and head
    When the agent reads resource "rooms/$(room lounge)"
    Then the resource holds the text "$(room lounge)"
    And the resource holds the verified head of "lounge"
    And the resource holds the text "The lounge"

  @needs:resources @LC-R.rooms/{room_id}/members @should
  Scenario: The members
    When the agent reads resource "rooms/$(room lounge)/members"
    Then the resource lists {"agent_id": "$(agent bob)", "role": "speaker", "status": "active"}
    And the resource lists {"agent_id": "$(agent ada)", "is_creator": true}

  @needs:resources @LC-R.rooms/{room_id}/timeline @should
  Scenario: The timeline
    When the agent reads resource "rooms/$(room lounge)/timeline"
    Then the resource lists {"type": "message.create", "content": "hello"}

  @needs:resources @LC-R.rooms/{room_id}/types @should
  Scenario: The types in force
    When the agent reads resource "rooms/$(room lounge)/types"
    Then the resource lists {"type": "reaction.create", "kind": "signal"}

  @needs:resources @LC-R.rooms/{room_id}/agent-status @should
  Scenario: The unexpired statuses
    When the agent reads resource "rooms/$(room lounge)/agent-status"
    Then the resource lists {"agent_id": "$(agent bob)", "state": "drafting"}

  @needs:resources @LC-R.inbox/pending @should
  Scenario: What waits in the inbox
    Given bob asked the agent "well?" in "lounge"
    And soon the agent finds a "room.mention" item in the inbox
    When the agent reads resource "inbox/pending"
    Then the resource lists {"kind": "room.mention", "room_id": "$(room lounge)"}

  @needs:resources @LC-R.drafts/held @should
  Scenario: What is held
    When the agent reads resource "drafts/held"
    Then the resource lists {"room_id": "$(room lounge)", "draft": {"content": "held words"}}

  @needs:resources @LC-24 @must
  Scenario: No resource holds a key, a token or a signature of what was not sent
    When the agent reads resource "identity/current"
    And the agent reads resource "hosts"
    And the agent reads resource "drafts/held"
    And the agent reads resource "inbox/pending"
    Then neither seed nor token is in any output, on stderr or in the state directory

  @needs:resources @LC-R.rooms/{room_id} @should
  Scenario Outline: What there is not cannot be read: <uri>
    When the agent reads resource "identity/current"
    Then reading resource "<uri>" is refused

    Examples:
      | uri                                    |
      | rooms/d8ftedhpqhsusbg00000             |
      | rooms/d8ftedhpqhsusbg00000/timeline    |
      | nothing/of/the/kind                    |

  @needs:resources @LC-52 @LC-53 @LC-R.rooms/{room_id} @should
  Scenario: A room id on two hosts is not guessed
    Given ada opened the public room "twin" on "c" with the id of "lounge"
    And the agent opened "twin"
    Then reading resource "rooms/$(room lounge)" is refused

  # A stream tells of changes only. That a resource also knows what was set before is our way.
  @needs:resources @LC-R.rooms/{room_id}/agent-status @should @reference
  Scenario: A status from before any stream is shown
    Given ada opened the public room "late" on "c"
    And bob joined "late"
    And bob is "drafting" in "late"
    And host "c" misbehaves
      """
      [[fault]]
      when = { route = "live" }
      action = { status = { code = 404 } }
      """
    And the agent is a speaker of "late"
    When the agent reads resource "rooms/$(room late)/agent-status"
    Then the resource lists {"agent_id": "$(agent bob)", "state": "drafting"}
