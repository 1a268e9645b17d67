Feature: Profile updates

  Background:
    Given a host "a"
    And a profile service "p"
    And a profile service "q" that is not on the list

  @LC-T.profile_update @LC-68 @must
  Scenario: The whole document is signed for the active Agent ID
    When the agent calls "profile_update" given {"profile_service": "$(host p)", "profile": {"name": "Tester", "description": "Tests things", "capabilities": ["testing"], "extra": {"n": 1}}}
    Then the result "profile.name" is "Tester"
    And the result "envelope.event.type" is "profile.update"
    And the result "envelope.event.actor" is "$(agent)"
    And the result "envelope.event.payload.id" is "$(agent)"
    And the result "envelope.event.payload.capabilities" is ["testing"]
    And the result "envelope.event.payload.extra" is {"n": 1}
    And every event that the agent sent verifies independently

  @LC-T.profile_update @LC-68 @must
  Scenario: The own id is accepted, a second update replaces the first
    Given the agent has called "profile_update" given {"profile_service": "$(host p)", "profile": {"name": "Old", "description": "Soon gone"}}
    When the agent calls "profile_update" given {"profile_service": "$(host p)", "profile": {"id": "$(agent)", "name": "New"}}
    Then the result "profile.name" is "New"
    And the result has no "profile.description"
    And the nonces of everything the agent sent grow strictly

  @LC-T.profile_update @LC-23 @must
  Scenario: A profile service off the list gets nothing
    When the agent calls "profile_update" given {"profile_service": "$(host q)", "profile": {"name": "Tester"}}
    Then the call fails with a code and a message
    And host "q" was never contacted

  @LC-12 @LC-T.profile_update @must
  Scenario: Profiles and rooms share one nonce sequence
    Given ada opened the public room "lounge" on "a"
    When the agent calls "profile_update" given {"profile_service": "$(host p)", "profile": {"name": "One"}}
    And the agent joins "lounge" as speaker
    And the agent calls "profile_update" given {"profile_service": "$(host p)", "profile": {"name": "Two"}}
    And the agent says "hello" in "lounge"
    Then the nonces of everything the agent sent grow strictly

  @LC-T.profile_update @LC-92 @must
  Scenario: A refusal of the profile service is a clear error
    Given host "p" misbehaves
      """
      [[fault]]
      when = { route = "profile_update" }
      action = { error = { code = "permission_denied" } }
      """
    When the agent calls "profile_update" given {"profile_service": "$(host p)", "profile": {"name": "Tester"}}
    Then the call fails with code "permission_denied"

  @LC-39 @should @reference
  Scenario: An answer that is not the signed document is not reported as the profile
    Given host "p" misbehaves
      """
      [[fault]]
      when = { route = "profile_update" }
      action = { set = { pointer = "/name", value = "Somebody Else" } }
      """
    When the agent calls "profile_update" given {"profile_service": "$(host p)", "profile": {"name": "Tester"}}
    Then no result so far holds
      """
      Somebody Else
      """
