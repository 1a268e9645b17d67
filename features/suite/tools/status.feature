Feature: Agent status tools

  Background:
    Given a host "a"
    And ada opened the public room "lounge" on "a"
    And bob joined "lounge"
    And ada said "hello" in "lounge"
    And the agent is a speaker of "lounge"
    And the agent has called "room_timeline" for "lounge" given {"mark_read": true}

  @LC-T.agent_status_set @LC-61 @must
  Scenario Outline: <member> reaches the host
    When the agent calls "agent_status_set" for "lounge" given {"state": "working", "<member>": <value>}
    Then the result "status.<member>" is <value>
    And the host has the agent's status in "lounge" with {"state": "working", "<member>": <value>}

    Examples:
      | member     | value                |
      | summary    | "counting"           |
      | claim_id   | "claim-7"            |
      | activity   | "proofreading"       |
      | seen_seq   | 1                    |
      | extra      | {"percent": 40}      |

  @LC-T.agent_status_set @LC-61 @should
  Scenario: seen_seq and seen_hash come from the local read state when they are left out
    When the agent calls "agent_status_set" for "lounge" given {"state": "reading"}
    Then the host has the agent's status in "lounge" with {"state": "reading"}
    And the status names a record of "lounge" as seen

  @LC-61 @must
  Scenario: What came in and was not read is not filled in as seen
    Given a second session "watcher" on the same state directory
    And the agent is subscribed to "lounge"
    When ada says "not read yet" in "lounge"
    Then soon session "watcher" sees "not read yet" in "lounge" without refreshing
    When the agent calls "agent_status_set" for "lounge" given {"state": "reading"}
    Then the result "status.seen_seq" is not 5

  @LC-T.agent_status_set @LC-61 @must
  Scenario: Given seen members go out as they are
    When we remember the hash of the first record of "lounge" as "hash"
    And the agent calls "agent_status_set" for "lounge" given {"state": "reading", "seen_seq": 1, "seen_hash": "$(note hash)"}
    Then the host has the agent's status in "lounge" with {"seen_seq": 1, "seen_hash": "$(note hash)"}

  @LC-T.agent_status_set @LC-61 @must
  Scenario: An expiry is taken as given, and one that is too late is what the host made of it
    When the agent calls "agent_status_set" for "lounge" given {"state": "away", "expires_at": "$(now 60000)"}
    Then the host has the agent's status in "lounge" with {"state": "away"}
    And the reported status is the host's for "lounge"
    When the agent calls "agent_status_set" for "lounge" given {"state": "away", "expires_at": "$(now 86400000)"}
    Then the reported status is the host's for "lounge"

  @LC-T.agent_status_set @LC-61 @must
  Scenario: A member who may not write is told so
    Given ada makes the agent observer in "lounge"
    When the agent calls "agent_status_set" for "lounge" given {"state": "drafting"}
    Then the call fails with code "permission_denied"
    And the host has no status of the agent in "lounge"

  @LC-T.agent_status_list @must
  Scenario: refresh asks the host
    When bob is "drafting" in "lounge"
    And the agent calls "agent_status_list" for "lounge" given {"refresh": true}
    Then the statuses are bob
    And the result "statuses" contains {"agent_id": "$(agent bob)", "state": "drafting", "room_id": "$(room lounge)"}
    When the agent calls "agent_status_list" for "lounge" on "a" given {"refresh": true}
    Then the statuses are bob

  @LC-T.agent_status_list @LC-21 @must
  Scenario: A status that has expired is not shown
    Given bob is "drafting" in "lounge" for 1500 ms
    When the agent calls "agent_status_list" for "lounge" given {"refresh": true}
    Then the statuses are bob
    And soon "agent_status_list" for "lounge" given {"refresh": false} shows "statuses" is []
    And soon "agent_status_list" for "lounge" given {"refresh": true} shows "statuses" is []

  @LC-T.agent_status_get @must
  Scenario: One agent's status, or none
    When bob is "drafting" in "lounge"
    And the agent calls "agent_status_get" for "lounge" given {"agent_id": "$(agent bob)", "refresh": true}
    Then the result "status.state" is "drafting"
    When the agent calls "agent_status_get" for "lounge" given {"agent_id": "$(agent ada)", "refresh": true}
    Then there is no status, said in either way

  @LC-21 @must
  Scenario: Status is no record: neither head nor seq nor timeline moves
    When the agent looks at "lounge"
    And we remember the result "sync.synced_seq" as "seq"
    And we remember the result "sync.head_seq" as "head"
    And bob is "drafting" in "lounge"
    And the agent calls "agent_status_set" for "lounge" given {"state": "working"}
    And the agent reads "lounge"
    Then the result "sync.synced_seq" is "$(note seq)"
    And the result "sync.head_seq" is "$(note head)"
    And "lounge" has 4 records
    And every record of "lounge" is shown exactly once

  @LC-61 @must
  Scenario: Leaving clears the status at the host
    Given the agent has called "agent_status_set" for "lounge" given {"state": "working"}
    When the agent calls "room_leave" for "lounge"
    Then the host has no status of the agent in "lounge"

  @LC-T.agent_status_list @must
  Scenario: A live status update is seen without asking the host
    Given the agent is subscribed to "lounge"
    When the agent calls "agent_status_list" for "lounge" given {"refresh": true}
    And bob is "drafting" in "lounge"
    Then soon "agent_status_list" for "lounge" given {"refresh": false} shows "statuses" contains {"agent_id": "$(agent bob)", "state": "drafting"}
