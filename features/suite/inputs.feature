Feature: Every optional input has its effect

  Background:
    Given a host "a"
    And ada opened the room "garden" on "a" with
      """
      { "topic": "Gardening for beginners", "tags": ["plants", "soil"], "language": "en" }
      """
    And bob opened the room "kitchen" on "a" with
      """
      { "topic": "Cooking", "tags": ["food"], "language": "fr", "start_time": "$(now 600000)", "end_time": "$(now 7200000)" }
      """

  @LC-T.rooms_search @must
  Scenario Outline: Search narrows by <filter>
    When the agent calls "rooms_search" with
      """
      { "host": "$(host a)", <filter> }
      """
    Then the result "rooms" has 1 entry
    And the result "rooms.0.room_id" is "$(room <found>)"

    Examples:
      | filter                              | found   |
      | "status": "active"                  | garden  |
      | "status": "scheduled"               | kitchen |
      | "tag": "soil"                       | garden  |
      | "keyword": "Cooking"                | kitchen |
      | "creator": "$(agent ada)"           | garden  |
      | "language": "fr"                    | kitchen |
      | "starts_after": "$(now 60000)"      | kitchen |
      | "ends_before": "$(now 5400000)"     | garden  |

  @LC-T.rooms_search @must
  Scenario: Search pages to the end
    When the agent calls "rooms_search" with
      """
      { "host": "$(host a)", "limit": 1 }
      """
    Then the result "rooms" has 1 entry
    When we remember the result "rooms.0.room_id" as "first"
    And we remember the result "next_cursor" as "next"
    And the agent calls "rooms_search" with
      """
      { "host": "$(host a)", "limit": 1, "cursor": "$(note next)" }
      """
    Then the result "rooms" has 1 entry
    And the result "rooms.0.room_id" is not "$(note first)"

  @LC-T.rooms_list @must
  Scenario: Known rooms page to the end and filter by status
    Given the agent opened "garden"
    And the agent opened "kitchen"
    When the agent calls "rooms_list" with
      """
      { "limit": 1 }
      """
    And we remember the result "rooms.0.room_id" as "first"
    And we remember the result "next_cursor" as "next"
    And the agent calls "rooms_list" with
      """
      { "limit": 1, "cursor": "$(note next)" }
      """
    Then the result "rooms" has 1 entry
    And the result "rooms.0.room_id" is not "$(note first)"
    And the result has no "next_cursor"
    When the agent calls "rooms_list" with
      """
      { "status": "scheduled" }
      """
    Then the result "rooms" has 1 entry
    And the result "rooms.0.room_id" is "$(room kitchen)"

  @LC-T.rooms_list @must
  Scenario: The creator's rooms and the moderator's rooms
    Given the agent opened "garden"
    When the agent calls "room_create" with
      """
      { "host": "$(host a)", "topic": "Own", "visibility": "public",
        "start_time": "$(now -1000)", "end_time": "$(now 3600000)" }
      """
    And the room of the result is called "own" on "a"
    And the agent calls "rooms_list" with
      """
      { "membership": "creator" }
      """
    Then the result "rooms" has 1 entry
    And the result "rooms.0.room_id" is "$(room own)"
    When the agent calls "rooms_list" with
      """
      { "membership": "moderator" }
      """
    Then the result "rooms" has 1 entry

  @LC-T.rooms_list @LC-69 @must
  Scenario: A pending request is a pending membership
    Given ada opened the restricted room "board" on "a"
    When the agent joins "board" as speaker
    And the agent calls "rooms_list" with
      """
      { "membership": "pending" }
      """
    Then the result "rooms" has 1 entry
    And the result "rooms.0.room_id" is "$(room board)"

  @LC-T.room_members_list @must
  Scenario: Members page to the end
    Given bob joined "garden"
    And carol joined "garden" as observer
    And the agent opened "garden"
    When the agent calls "room_members_list" with
      """
      { "room_id": "$(room garden)", "limit": 2 }
      """
    Then the result "members" has 2 entries
    When we remember the result "next_cursor" as "next"
    And the agent calls "room_members_list" with
      """
      { "room_id": "$(room garden)", "limit": 2, "cursor": "$(note next)" }
      """
    Then the result "members" has 1 entry
    And the result has no "next_cursor"

  @LC-T.room_member_get @must
  Scenario: Recent activity only when asked for
    Given ada said "a recent thing" in "garden"
    And the agent opened "garden"
    When the agent calls "room_member_get" with
      """
      { "room_id": "$(room garden)", "agent_id": "$(agent ada)", "include_recent_activity": true }
      """
    Then the result "recent" is not []
    When the agent calls "room_member_get" with
      """
      { "room_id": "$(room garden)", "agent_id": "$(agent ada)" }
      """
    Then the result has no "recent.0"

  @LC-T.room_state @must
  Scenario: Without refresh the state is the local one
    Given the agent opened "garden"
    And the agent has called "room_open" with
      """
      { "host": "$(host a)", "room_id": "$(room garden)", "subscribe": false }
      """
    And ada sent "room.update" to "garden" with
      """
      { "agenda": "water first" }
      """
    When the agent calls "room_state" with
      """
      { "room_id": "$(room garden)", "refresh": true }
      """
    Then the result "room.agenda" is "water first"

  @LC-T.room_join @LC-69 @must
  Scenario: Perspective, reason and extra travel with a join request
    Given ada opened the restricted room "board" on "a"
    When the agent calls "room_join" with
      """
      { "host": "$(host a)", "room_id": "$(room board)", "role": "speaker",
        "perspective": "security", "reason": "to help", "extra": { "ticket": 7 } }
      """
    Then the result "status" is "approval_required"
    And the host's join request for "board" has "request.perspective" "security"
    And the host's join request for "board" has "request.reason" "to help"
    And the host's join request for "board" has "request.extra" { "ticket": 7 }

  @LC-T.join_request_review @LC-T.join_requests_list @must
  Scenario: A request is rejected with a reason
    When the agent calls "room_create" with
      """
      { "host": "$(host a)", "topic": "Board", "visibility": "restricted",
        "start_time": "$(now -1000)", "end_time": "$(now 3600000)" }
      """
    And the room of the result is called "board" on "a"
    And carol asks to join "board" as speaker
    And the agent calls "join_request_review" with
      """
      { "room_id": "$(room board)", "request_id": "$(note request id)", "decision": "reject", "reason": "full" }
      """
    Then the call succeeds
    And the agent's last event in "board" has "payload.decision" "reject"
    And the agent's last event in "board" has "payload.reason" "full"
    When the agent calls "join_requests_list" with
      """
      { "room_id": "$(room board)", "status": "pending" }
      """
    Then the result "join_requests" has 0 entries

  @LC-T.draft_commit @must
  Scenario: A revision may change mentions, references, content type and extra
    Given the agent is a speaker of "garden"
    And the agent read "garden"
    And ada said "the head moves" in "garden"
    When the agent says "first thought" in "garden"
    And the write is held
    And the agent calls "draft_commit" with
      """
      { "draft_id": "$(note draft)", "action": "revise", "content": "*second thought*",
        "content_type": "text/markdown", "mentions": ["$(agent ada)"], "extra": { "v": 2 } }
      """
    Then the write is sent
    And the agent's last event in "garden" has "payload.content" "*second thought*"
    And the agent's last event in "garden" has "payload.content_type" "text/markdown"
    And the agent's last event in "garden" has "payload.extra" { "v": 2 }
    And the agent's last event in "garden" has "mentions" ["$(agent ada)"]

  @LC-T.draft_commit @LC-66 @must
  Scenario: A custom event that is held is revised with another payload
    Given ada sent "type.define" to "garden" with
      """
      { "type": "demo.plan", "kind": "message", "title": "Plan", "schema": { "type": "object" } }
      """
    And the agent is a speaker of "garden"
    And the agent read "garden"
    And ada said "the head moves" in "garden"
    When the agent submits "demo.plan" to "garden" with
      """
      { "step": 1 }
      """
    And the write is held
    And the agent calls "draft_commit" with
      """
      { "draft_id": "$(note draft)", "action": "revise", "payload": { "step": 2 } }
      """
    Then the write is sent
    And the agent's last event in "garden" has "type" "demo.plan"
    And the agent's last event in "garden" has "payload.step" 2

  @LC-T.drafts_list @must
  Scenario: Drafts page to the end
    Given the agent is a speaker of "garden"
    And the agent read "garden"
    And ada said "the head moves" in "garden"
    When the agent says "one" in "garden" with
      """
      { "base_seq": 1, "base_hash": "$(hash 1 garden)" }
      """
    And the write is held
    And the agent says "two" in "garden" with
      """
      { "base_seq": 1, "base_hash": "$(hash 1 garden)" }
      """
    And the write is held
    And the agent calls "drafts_list" with
      """
      { "limit": 1 }
      """
    Then the result "drafts" has 1 entry
    When we remember the result "drafts.0.id" as "first"
    And we remember the result "next_cursor" as "next"
    And the agent calls "drafts_list" with
      """
      { "limit": 1, "cursor": "$(note next)" }
      """
    Then the result "drafts" has 1 entry
    And the result "drafts.0.id" is not "$(note first)"

  @LC-72 @LC-46 @must
  Scenario: A stale explicit base is held, rejected or re-signed as the agent says
    Given the agent is a speaker of "garden"
    And ada said "the head moves" in "garden"
    And the agent read "garden"
    When the agent says "held" in "garden" with
      """
      { "base_seq": 1, "base_hash": "$(hash 1 garden)" }
      """
    Then the write is held
    When the agent says "rejected" in "garden" with
      """
      { "base_seq": 1, "base_hash": "$(hash 1 garden)", "on_head_mismatch": "reject" }
      """
    Then the write is rejected with the changes
    When the agent says "re-signed" in "garden" with
      """
      { "base_seq": 1, "base_hash": "$(hash 1 garden)", "on_head_mismatch": "send_anyway" }
      """
    Then the write is sent
    And "garden" holds exactly one message "re-signed" by the agent

  @LC-34 @LC-91 @must
  Scenario: A signal on a base that never was comes back with the host's code
    Given ada sent "type.define" to "garden" with
      """
      { "type": "demo.wave", "kind": "signal", "title": "Wave", "schema": { "type": "object" } }
      """
    And the agent is a speaker of "garden"
    And the agent read "garden"
    When the agent submits "demo.wave" to "garden" with
      """
      { "+base_seq": 2, "+base_hash": "$(hash 1 garden)" }
      """
    Then the call fails with code "base_record_mismatch"
