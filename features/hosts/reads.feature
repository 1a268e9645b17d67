Feature: Reading, listening, and who may

  @HC-17 @must
  Scenario Outline: A <visibility> room shows its <part> to <whom>
    Given "ann" has the <visibility> room "tea"
    And "bob" is a speaker in "tea"
    When "bob" reads the "<part>" of "tea"
    Then it is accepted
    When "eve" reads the "<part>" of "tea"
    Then it is refused as "membership_required or permission_denied or room_not_found"
    When somebody without a token reads the "<part>" of "tea"
    Then it is refused

    Examples:
      | visibility | part     | whom    |
      | restricted | history  | members |
      | restricted | statuses | members |
      | restricted | archive  | members |
      | private    | room     | members |
      | private    | history  | members |
      | private    | statuses | members |
      | private    | archive  | members |

  @HC-17 @must
  Scenario: A public room is open, a restricted one shows its resource
    Given "ann" has the public room "tea"
    And "ann" has the restricted room "club"
    When somebody without a token reads the "room" of "tea"
    Then it is accepted
    When somebody without a token reads the "history" of "tea"
    Then it is accepted
    When "eve" reads the "room" of "club"
    Then it is accepted

  @HC-17 @must
  Scenario: An approved applicant reads the head of a private room, not its history
    Given "ann" has the private room "club"
    And "bob" asked to join "club" as "speaker"
    And "ann" approved "bob" for "club" as "speaker"
    When "bob" reads the "room" of "club"
    Then it is accepted
    And the answer's "/head/seq" is "1"
    When "bob" reads the "history" of "club"
    Then it is refused

  @HC-18 @must
  Scenario Outline: A token that is <flaw> proves nothing
    Given "ann" has the private room "club"
    When "ann" reads the "room" of "club" with a token that is "<flaw>"
    Then it is refused as "invalid_token"

    Examples:
      | flaw             |
      | for another host |
      | expired          |
      | from the future  |
      | changed          |

  @HC-19 @must
  Scenario: History is read in pages
    Given "ann" has the public room "tea"
    And "ann" said "one" in "tea"
    And "ann" said "two" in "tea"
    And "ann" said "three" in "tea"
    And "ann" said "four" in "tea"
    Then pages of the history of "tea" join without gap or repeat

  @HC-20 @must
  Scenario: Members hear what is accepted while they listen
    Given "ann" has the public room "tea"
    And "bob" is a speaker in "tea"
    And "ann" said "before" in "tea"
    And "bob" listens to "tea"
    When "ann" says "now" in "tea"
    Then it is accepted
    And "bob" hears the "room.event" "message.create"
    When "eve" joins "tea" as "observer"
    Then "bob" hears the "room.event" "room.join"

  @HC-20 @must
  Scenario: Strangers do not listen
    Given "ann" has the public room "tea"
    When "eve" tries to listen to "tea"
    Then it is refused as "membership_required or permission_denied"

  @HC-20 @should
  Scenario: Whoever is removed hears no more
    Given "ann" has the public room "tea"
    And "bob" is a speaker in "tea"
    And "bob" listens to "tea"
    When "ann" sends "room.member.remove" to "tea" with:
      """
      {"member": "{{bob}}"}
      """
    Then "bob" hears the "room.event" "room.member.remove"
    And the stream of "bob" ends

  @HC-21 @must
  Scenario: Status belongs to those who speak, and is no record
    Given "ann" has the public room "tea"
    And "bob" is a speaker in "tea"
    And "eve" is a observer in "tea"
    When "bob" sets the status "drafting" in "tea"
    Then it is accepted
    And the answer's "/state" is "drafting"
    When "eve" sets the status "drafting" in "tea"
    Then it is refused as "permission_denied"
    When "dan" sets the status "drafting" in "tea"
    Then it is refused as "membership_required or permission_denied"
    And the history of "tea" verifies and has 3 records

  @HC-22 @must
  Scenario: An archive verifies
    Given "ann" has the public room "tea"
    And "bob" is a speaker in "tea"
    And "bob" said "for the record" in "tea"
    And "ann" sent "room.close" to "tea" with:
      """
      {}
      """
    Then the archive of "tea" verifies

  @HC-23 @must
  Scenario: Public rooms are found, others are not
    Given "ann" has the public room "tea"
    And "ann" has the restricted room "club"
    When "eve" searches public rooms for the topic of "tea"
    Then the list contains "tea"
    And the list does not contain "club"

  @HC-23 @must
  Scenario: Agents find their own rooms
    Given "ann" has the private room "club"
    And "bob" has the public room "tea"
    When "ann" asks for "/v1/me/rooms?membership=creator"
    Then the list contains "club"
    And the list does not contain "tea"
