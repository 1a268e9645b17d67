Feature: Joining with approval, and reviewing
  "For rooms that require approval, it creates a join request … when no usable request exists"
  (4.3).

  @LC-69 @must
  Rule: The applicant

    Background:
      Given a host "a"
      And ada opened the restricted room "board" on "a"

    @LC-T.room_join
    Scenario: Perspective, reason and extra go into the request, and nothing into the chain
      When the agent calls "room_join" for "board" on "a" given {"role": "speaker", "perspective": "security", "reason": "to help", "extra": {"k": 1}}
      Then the result "status" is "approval_required"
      And the agent's request for "board" has {"role": "speaker", "perspective": "security", "reason": "to help"}
      And the agent's request for "board" has {"extra": {"k": 1}}
      And "board" has 1 records
      And every request of "join_request" at host "a" carried a sound request JWT

    @LC-T.room_join
    Scenario: A supplied request_id completes the join
      When the agent joins "board" as speaker
      And the agent's request for "board" is noted as "id"
      And ada approves the agent's request for "board"
      And the agent calls "room_join" for "board" on "a" given {"role": "speaker", "request_id": "$(note id)"}
      Then the result "status" is "joined"
      And the agent's last event in "board" has "payload.request_id" "$(note id)"
      And the result "member.role" is "speaker"

    @LC-14 @LC-T.room_join
    Scenario: The stored request is used after a restart
      When the agent joins "board" as speaker
      And the connector is killed
      And the connector starts again
      And the agent joins "board" as speaker
      Then the result "status" is "approval_required"
      And host "a" saw 1 request of "join_request" from the agent
      When ada approves the agent's request for "board"
      And the agent joins "board" as speaker
      Then the result "status" is "joined"
      And the agent's last event in "board" has "type" "room.join"

    Scenario: The approved role governs, whoever asked for what
      When the agent joins "board" as observer
      And ada approves the agent's request for "board" as speaker
      And we count from here
      And the agent joins "board" as observer
      Then the call fails with code "join_request_role_mismatch" or "role_mismatch"
      And no events were sent to "a" since
      When the agent joins "board" as speaker
      Then the result "status" is "joined"
      And the agent's last event in "board" has "payload.role" "speaker"

    Scenario: A rejection is told, and nothing is signed
      When the agent joins "board" as speaker
      And ada rejects the agent's request for "board"
      And we count from here
      And the agent joins "board" as speaker
      Then the agent is not a member of "board"
      And no events were sent to "a" since

    Scenario: A request of somebody else does not open the door
      Given bob asked to join "board" as speaker
      When we count from here
      And the agent calls "room_join" for "board" on "a" given {"role": "speaker", "request_id": "$(note request id)"}
      Then the agent is not a member of "board"
      And no events were sent to "a" since

    @LC-15
    Scenario: After an approved join the closed history is read and verified
      Given ada said "for members only" in "board"
      When the agent joins "board" as speaker
      And ada approves the agent's request for "board"
      And the agent joins "board" as speaker
      Then the result "status" is "joined"
      And the result's sync names the head of "board"
      When the agent calls "room_timeline" for "board"
      Then the items show "for members only"

    @LC-13
    Scenario: A private room works the same way, with signed reads
      Given ada opened the private room "den" on "a"
      And ada said "in private" in "den"
      When the agent joins "den" as speaker
      Then the result "status" is "approval_required"
      When ada approves the agent's request for "den"
      And the agent joins "den" as speaker
      Then the result "status" is "joined"
      When the agent reads "den"
      Then the items show "in private"
      And the agent's reads of "den" carried a sound request JWT

    Scenario: A public room needs no request
      Given ada opened the public room "lounge" on "a"
      When the agent joins "lounge" as observer
      Then the result "status" is "joined"
      And host "a" saw 0 requests of "join_request" from the agent

    Scenario: A full room says so
      Given ada opened the room "small" on "a" with
        """
        {"policy": {"max_speakers": 1}}
        """
      When the agent joins "small" as speaker
      Then the call fails with code "max_speakers_exceeded"
      When the agent joins "small" as observer
      Then the result "status" is "joined"

    Scenario: A banned agent is told so
      Given ada opened the public room "lounge" on "a"
      And the agent is a speaker of "lounge"
      And ada bans the agent from "lounge"
      When the agent joins "lounge" as speaker
      Then the agent is not a member of "lounge"

    Scenario: A member who comes back joins anew
      Given ada opened the public room "lounge" on "a"
      And the agent is a speaker of "lounge"
      And the agent has called "room_leave" for "lounge" given {}
      When the agent joins "lounge" as observer
      Then the result "status" is "joined"
      And the result "member.role" is "observer"

    Scenario: Joining a room one is in signs nothing new
      Given ada opened the public room "lounge" on "a"
      And the agent is a speaker of "lounge"
      When the agent joins "lounge" as speaker
      Then "lounge" has 2 records

    @LC-41.room.join.approved
    Scenario: An approval wakes the applicant, and says what to do
      When the agent joins "board" as speaker
      And ada approves the agent's request for "board"
      Then soon the agent finds a "room.join.approved" item in the inbox
      And the item has "room_id" "$(room board)"
      And the item has everything an agent needs to act
      And the item's tools contain "agent_protocols_room_join"

    @LC-41.room.join.approved
    Scenario: A member is not told of somebody else's approval as of its own
      When the agent joins "board" as speaker
      And ada approves the agent's request for "board"
      And the agent joins "board" as speaker
      And the agent is subscribed to "board"
      And carol asks to join "board" as observer
      And ada approves carol's request for "board"
      And the inbox settles in "board"
      Then the inbox shows no "room.join.approved" item

    @LC-41.room.join.approved
    Scenario: Neither a rejection nor somebody else's approval is an approval
      Given bob asked to join "board" as speaker
      And ada opened the restricted room "other" on "a"
      When the agent joins "board" as speaker
      And the agent joins "other" as speaker
      And ada rejects the agent's request for "board"
      And ada approves bob's request for "board"
      And ada approves the agent's request for "other"
      Then soon the agent finds a "room.join.approved" item in the inbox
      And the item has "room_id" "$(room other)"
      And the inbox shows exactly one "room.join.approved" item

  @must
  Rule: The reviewer

    Background:
      Given a host "a"
      And the agent founded the restricted room "board" on "a"
      And bob asked to join "board" as speaker

    @LC-T.join_requests_list
    Scenario: Requests are listed with what was asked
      When the agent calls "join_requests_list" for "board"
      Then the result "join_requests" has 1 entry
      And the listed request has {"applicant": "$(agent bob)", "role": "speaker", "reason": "I would like to help"}
      When the agent calls "join_requests_list" for "board" on "a"
      Then the result "join_requests" has 1 entry

    @LC-T.join_requests_list
    Scenario: status narrows the list, pages lead to the end
      Given carol asked to join "board" as observer
      And dave asked to join "board" as speaker
      When the agent pages through the "join_requests" of "join_requests_list" for "board", 1 at a time
      Then the result "join_requests" has 3 entries
      When the agent approves bob's request for "board" as speaker
      And the agent calls "join_requests_list" for "board" given {"status": "pending"}
      Then the result "join_requests" has 2 entries
      When the agent calls "join_requests_list" for "board" given {"status": "approved"}
      Then the listed request has {"applicant": "$(agent bob)"}

    @LC-T.join_request_review
    Scenario: An approval signs the request as the host stored it, with the role given
      When the agent calls "join_request_review" for "board" on "a" given {"request_id": "$(note request id)", "decision": "approve", "role": "observer", "reason": "welcome"}
      Then the result "record.envelope.event.type" is "room.join.review"
      And the agent's last event in "board" has "payload.request" "$(note request)"
      And the agent's last event in "board" has "payload.decision" "approve"
      And the agent's last event in "board" has "payload.role" "observer"
      And the agent's last event in "board" has "payload.reason" "welcome"
      And the result's sync is complete
      And bob can join "board" as observer

    @LC-T.join_request_review
    Scenario: An approval without a role grants the role that was asked for, or asks back
      When the agent calls "join_request_review" for "board" given {"request_id": "$(note request id)", "decision": "approve"}
      Then no review grants another role than "speaker" in "board"

    @LC-T.join_request_review
    Scenario: A rejection keeps the applicant out
      When the agent calls "join_request_review" for "board" given {"request_id": "$(note request id)", "decision": "reject", "reason": "not this time"}
      Then the agent's last event in "board" has "payload.decision" "reject"
      And the agent's last event in "board" has "payload.reason" "not this time"
      And bob cannot join "board" as speaker

    @LC-T.join_request_review
    Scenario: An unknown request is an error
      When we count from here
      And the agent calls "join_request_review" for "board" given {"request_id": "no-such-request", "decision": "approve", "role": "speaker"}
      Then the call fails with code "join_request_not_found"
      And no events were sent to "a" since

    @LC-T.join_requests_list
    Scenario: Who may not review may not list
      Given ada opened the public room "lounge" on "a"
      And the agent is a speaker of "lounge"
      When the agent calls "join_requests_list" for "lounge"
      Then the call fails with code "permission_denied"

    @LC-41.room.join.requested
    Scenario: A request wakes the reviewer, who finds everything in the item
      Then soon the agent finds a "room.join.requested" item in the inbox
      And the item has "room_id" "$(room board)"
      And the item has everything an agent needs to act
      And the item's tools contain "agent_protocols_join_request_review"

    @LC-41.room.join.requested
    Scenario: Where the stream is refused the request is found all the same
      Given host "a" misbehaves
        """
        [[fault]]
        when = { route = "live" }
        action = { status = { code = 503 } }
        """
      And the agent founded the restricted room "closed circuit" on "a"
      And carol asked to join "closed circuit" as speaker
      Then soon "inbox_next" for "closed circuit" given {"limit": 100, "wait_ms": 1000} shows "items" contains {"kind": "room.join.requested"}

    @LC-41.room.join.requested @LC-42
    Scenario: A request is one item, however often it is told of
      Given the agent is subscribed to "board"
      And soon the agent finds a "room.join.requested" item in the inbox
      When the agent calls "join_requests_list" for "board"
      And the live streams of "board" break
      And the agent is subscribed to "board" again
      And the agent calls "join_requests_list" for "board"
      And the agent looks into the inbox
      Then the inbox shows exactly one "room.join.requested" item
      And the noted item is in the result

    @LC-41.room.join.requested
    Scenario: A hint that names another room asks for nothing in this one
      Given the agent founded the public room "hall" on "a"
      And ada joined "hall"
      And the agent is subscribed to "hall"
      When host "a" misbehaves
        """
        [[fault]]
        when = { route = "live", room = "$(room hall)", seq = 3 }
        action = { inject = { text = "event: room.join_request\ndata: {\"room_id\": \"d8ftedhpqhsusbg00000\", \"request_id\": \"request-of-carol\", \"applicant\": \"$(agent carol)\", \"role\": \"speaker\", \"created_at\": $(now), \"expires_at\": $(now 600000)}\n\n" } }
        """
      And ada says "somebody asks" in "hall"
      And the inbox settles in "hall"
      Then no item of kind "room.join.requested" is about "hall"
      And the faults of host "a" did their work

    @LC-41.room.join.requested
    Scenario: A hint that reaches somebody who does not review asks for nothing
      Given ada opened the restricted room "other" on "a"
      And the agent joins "other" as speaker
      And ada approves the agent's request for "other"
      And the agent is a speaker of "other"
      And the agent is subscribed to "other"
      When host "a" misbehaves
        """
        [[fault]]
        when = { route = "live", room = "$(room other)", seq = 4 }
        action = { inject = { text = "event: room.join_request\ndata: {\"room_id\": \"$(room other)\", \"request_id\": \"request-of-carol\", \"applicant\": \"$(agent carol)\", \"role\": \"speaker\", \"created_at\": $(now), \"expires_at\": $(now 600000)}\n\n" } }
        """
      And ada says "somebody asks" in "other"
      And the inbox settles in "other"
      Then no item of kind "room.join.requested" is about "other"
      And the faults of host "a" did their work

    @LC-41.room.join.requested
    Scenario: Who does not review is not asked to
      Given ada opened the restricted room "other" on "a"
      And the agent joins "other" as speaker
      And ada approves the agent's request for "other"
      And the agent is a speaker of "other"
      And the agent is subscribed to "other"
      When carol asks to join "other" as speaker
      And the inbox settles in "other"
      Then no item of kind "room.join.requested" is about "other"
