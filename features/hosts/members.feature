Feature: Joining, asking, banning

  @HC-13 @must
  Scenario: A public room is joined directly, once
    Given "ann" has the public room "tea"
    When "bob" joins "tea" as "speaker"
    Then it is accepted
    And the answer is the accepted record of what was sent
    When "bob" joins "tea" as "speaker"
    Then it is refused
    And the history of "tea" verifies and has 2 records

  @HC-13 @must
  Scenario: Moderators are listed or appointed, never self-made
    Given "ann" has the public room "tea"
    When "bob" joins "tea" as "moderator"
    Then it is refused as "role_not_allowed"

  @HC-13 @must
  Scenario: The room's policy counts speakers and may do without observers
    Given "ann" has the room "tea" with:
      """
      {"policy": {"max_speakers": 1, "observer_allowed": false}}
      """
    When "bob" joins "tea" as "speaker"
    Then it is refused as "max_speakers_exceeded"
    When "bob" joins "tea" as "observer"
    Then it is refused as "role_not_allowed"

  @HC-14 @must
  Scenario: A restricted room is joined with an approved request, in the approved role
    Given "ann" has the restricted room "tea"
    When "bob" joins "tea" as "speaker"
    Then it is refused as "approval_required"
    When "bob" asks to join "tea" as "speaker"
    Then it is accepted
    And the answer's "/status" is "pending"
    When "bob" joins "tea" as "speaker" with the request
    Then it is refused as "join_request_not_approved"
    When "ann" approves "bob" for "tea" as "observer"
    Then it is accepted
    When "bob" joins "tea" as "speaker" with the request
    Then it is refused as "join_request_role_mismatch"
    When "bob" joins "tea" as "observer" with the request
    Then it is accepted
    And "bob" is observer in "tea" by replay

  @HC-14 @must
  Scenario: A used request is consumed
    Given "ann" has the restricted room "tea"
    And "bob" asked to join "tea" as "speaker"
    And "ann" approved "bob" for "tea" as "speaker"
    When "bob" joins "tea" as "speaker" with the request
    Then it is accepted
    When "bob" sends "room.leave" to "tea" with:
      """
      {}
      """
    Then it is accepted
    When "bob" joins "tea" as "speaker" with the request
    Then it is refused

  @HC-14 @must
  Scenario: A rejected request opens nothing, an unknown one neither
    Given "ann" has the restricted room "tea"
    And "bob" asked to join "tea" as "speaker"
    When "ann" rejects "bob" for "tea"
    Then it is accepted
    When "bob" joins "tea" as "speaker" with the request
    Then it is refused as "join_request_not_approved"
    When "eve" joins "tea" as "speaker" with the request
    Then it is refused as "join_request_not_found"

  @HC-15 @must
  Scenario: What is reviewed is what was filed, by those who may
    Given "ann" has the restricted room "tea"
    And "bob" asked to join "tea" as "speaker"
    When "eve" approves "bob" for "tea" as "speaker"
    Then it is refused
    When "ann" approves a changed request of "bob" for "tea"
    Then it is refused
    And "bob" is unknown in "tea" by replay

  @HC-15 @must
  Scenario: Requests are read by their applicant and by reviewers
    Given "ann" has the restricted room "tea"
    And "bob" asked to join "tea" as "speaker"
    When "bob" reads the request of "bob" for "tea"
    Then it is accepted
    And the answer's "/status" is "pending"
    When "eve" reads the request of "bob" for "tea"
    Then it is refused
    When "bob" reads the "join requests" of "tea"
    Then it is refused as "permission_denied"
    When "ann" reads the "join requests" of "tea"
    Then it is accepted

  @HC-16 @must
  Scenario: A ban keeps an agent out until a review lets it back in
    Given "ann" has the public room "tea"
    And "bob" is a speaker in "tea"
    And "ann" sent "room.member.remove" to "tea" with:
      """
      {"member": "{{bob}}", "ban": true}
      """
    When "bob" joins "tea" as "speaker"
    Then it is refused as "member_banned"
    When "bob" asks to join "tea" as "speaker"
    Then it is accepted
    And the answer's "/status" is "pending"
    When "ann" approves "bob" for "tea" as "speaker"
    Then it is accepted
    When "bob" joins "tea" as "speaker" with the request
    Then it is accepted
    And "bob" is speaker in "tea" by replay
