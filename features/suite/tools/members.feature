Feature: Member tools

  Background:
    Given a host "a" with profiles
    And ada opened the public room "lounge" on "a"
    And bob joined "lounge"
    And carol joined "lounge" as observer
    And dave joined "lounge"
    And dave left "lounge"
    And erin joined "lounge"
    And frank joined "lounge"
    And bob said "from bob" in "lounge"
    And ada removes erin from "lounge"
    And ada bans frank from "lounge"
    And the agent is a speaker of "lounge"

  @LC-T.room_members_list @LC-38 @must
  Scenario Outline: status <status> narrows the list
    When the agent calls "room_members_list" for "lounge" given {"status": "<status>"}
    Then the members are <members>

    Examples:
      | status  | members                                               |
      | active  | ada, bob, carol, the agent                            |
      | left    | dave                                                  |
      | removed | erin                                                  |
      | banned  | frank                                                 |
      | all     | ada, bob, carol, dave, erin, frank, the agent         |

  @LC-T.room_members_list @must
  Scenario Outline: role <role> narrows the list
    When the agent calls "room_members_list" for "lounge" given {"status": "active", "role": "<role>"}
    Then the members are <members>

    Examples:
      | role      | members        |
      | moderator | ada            |
      | speaker   | bob, the agent |
      | observer  | carol          |

  @LC-T.room_members_list @must
  Scenario: Pages lead to the end, with every member once
    When the agent pages through the "members" of "room_members_list" for "lounge", 2 at a time, given {"status": "all"}
    Then the members are ada, bob, carol, dave, erin, frank, the agent

  @LC-T.room_members_list @LC-39 @should
  Scenario: Profiles are added when asked for, and only beside a true member
    Given bob published the profile "Bob the Builder" at "a"
    When the agent calls "room_members_list" for "lounge" given {"include_profiles": true}
    Then the result "members" contains {"agent_id": "$(agent bob)", "role": "speaker", "profile": {"name": "Bob the Builder"}}
    When the agent calls "room_members_list" for "lounge" given {"include_profiles": false}
    Then the result "members" lacks {"profile": {"name": "Bob the Builder"}}

  @LC-T.room_members_list @LC-39 @must
  Scenario: A profile service that is down takes nothing from the members
    Given bob published the profile "Bob the Builder" at "a"
    And host "a" misbehaves
      """
      [[fault]]
      action = { refuse = {} }
      """
    When the agent calls "room_members_list" for "lounge" given {"include_profiles": true, "role": "speaker"}
    Then the members are bob, the agent

  @LC-T.room_members_list @LC-31 @must
  Scenario: The list says where it stands
    When the agent calls "room_members_list" for "lounge"
    Then the result's sync is complete
    When the agent calls "room_members_list" for "lounge" on "a"
    Then the call succeeds

  @LC-T.room_member_get @LC-38 @must
  Scenario: A member's view is the replayed one
    When the agent calls "room_member_get" for "lounge" given {"agent_id": "$(agent bob)"}
    Then the result "member.role" is "speaker"
    And the result "member.status" is "active"
    And the result "member.is_creator" is false
    And the result "member.joined_seq" is 2
    And the result "member.last_event_seq" is 8
    And the result's sync is complete
    When the agent calls "room_member_get" for "lounge" given {"agent_id": "$(agent ada)"}
    Then the result "member.is_creator" is true
    When the agent calls "room_member_get" for "lounge" given {"agent_id": "$(agent dave)"}
    Then the result "member.status" is "left"
    And the result "member.left_seq" is 5

  @LC-T.room_member_get @LC-38 @must
  Scenario: An agent that no record names is no member
    When the agent calls "room_member_get" for "lounge" given {"agent_id": "$(agent mallory)"}
    Then the agent is told that nobody is such a member

  @LC-T.room_member_get @must
  Scenario: Recent activity is added when asked for
    When the agent calls "room_member_get" for "lounge" given {"agent_id": "$(agent bob)", "include_profile": true, "include_recent_activity": true}
    Then the result "recent" contains {"seq": 8, "content": "from bob"}
    When the agent calls "room_member_get" for "lounge" given {"agent_id": "$(agent bob)"}
    Then the result has no "recent"

  @LC-38 @LC-T.room_member_get @must
  Scenario: A second moderator is no creator
    When ada makes bob moderator in "lounge"
    And the agent refreshes "lounge"
    And the agent calls "room_member_get" for "lounge" given {"agent_id": "$(agent bob)"}
    Then the result "member.role" is "moderator"
    And the result "member.is_creator" is false
    When the agent looks at "lounge"
    Then the result "room.creator" is "$(agent ada)"

  @LC-T.room_state @should @reference
  Scenario: Who left, was removed or banned is no longer counted
    When the agent looks at "lounge"
    Then the result "room.members_count" is 4

  @LC-38 @must
  Scenario: A role update, a return and a lifted ban are replayed
    When ada makes bob observer in "lounge"
    And dave joins "lounge" as observer
    And the agent refreshes "lounge"
    And the agent calls "room_members_list" for "lounge" given {"role": "observer"}
    Then the members are bob, carol, dave
    When the agent calls "room_member_get" for "lounge" given {"agent_id": "$(agent dave)"}
    Then the result "member.status" is "active"
    And the result "member.role" is "observer"
