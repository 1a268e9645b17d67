Feature: Profiles

  @LC-68 @LC-T.profile_update @must
  Scenario: A profile is signed for the active identity
    Given a profile service "p"
    And a host "a"
    When the agent calls "profile_update" with
      """
      { "profile_service": "$(host p)", "profile": { "name": "Tester", "description": "Tests" } }
      """
    Then the result "envelope.event.payload.id" is "$(agent)"
    And the result "profile.name" is "Tester"

  @LC-68 @must
  Scenario: A profile of somebody else is refused
    Given a profile service "p"
    And a host "a"
    When the agent calls "profile_update" with
      """
      { "profile_service": "$(host p)", "profile": { "id": "$(agent ada)", "name": "Not me" } }
      """
    Then the call fails with a code and a message
    And host "p" received nothing signed

  @LC-39 @should
  Scenario: Profiles beside members are descriptive
    Given a host "a" with profiles
    And ada opened the public room "lounge" on "a"
    And ada published the profile "Ada the Host" at "a"
    And the agent opened "lounge"
    When the agent calls "room_members_list" with
      """
      { "room_id": "$(room lounge)", "include_profiles": true }
      """
    Then the result "members.0.profile.name" is "Ada the Host"

  @LC-39 @must
  Scenario: A profile that somebody else signed is not shown
    Given a host "a" with profiles
    And ada opened the public room "lounge" on "a"
    And ada published the profile "Ada the Host" at "a"
    And bob published the profile "Bob the Stranger" at "a"
    And host "a" serves bob's profile whoever is asked for
    And the agent opened "lounge"
    When the agent calls "room_members_list" with
      """
      { "room_id": "$(room lounge)", "include_profiles": true }
      """
    Then no result so far holds
      """
      Bob the Stranger
      """

  @LC-39 @must
  Scenario: A profile that nobody signed is not shown
    Given a host "a" with profiles
    And ada opened the public room "lounge" on "a"
    And ada published the profile "Ada the Host" at "a"
    And host "a" misbehaves
      """
      [[fault]]
      when = { route = "profile_events" }
      action = { set = { pointer = "/result/0/event/payload/name", value = "Forged Name" } }
      [[fault]]
      when = { route = "profile" }
      action = { set = { pointer = "/name", value = "Forged Name" } }
      [[fault]]
      when = { route = "profile_batch" }
      action = { set = { pointer = "/result/0/name", value = "Forged Name" } }
      """
    And the agent opened "lounge"
    When the agent calls "room_members_list" with
      """
      { "room_id": "$(room lounge)", "include_profiles": true }
      """
    Then no result so far holds
      """
      Forged Name
      """
