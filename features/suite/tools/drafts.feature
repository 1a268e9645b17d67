Feature: Draft tools

  Background:
    Given a host "a"
    And ada opened the room "lounge" on "a" with
      """
      {"types": [{"type": "demo.note", "kind": "message", "title": "Note", "schema": {"type": "object", "required": ["text"]}}]}
      """
    And ada opened the public room "other" on "a"
    And ada said "hello" in "lounge"
    And ada said "hello" in "other"
    And the agent is a speaker of "lounge"
    And the agent is a speaker of "other"
    And the agent has the draft "one" in "lounge"
    And the agent has the draft "two" in "lounge"
    And the agent has the draft "three" in "other"

  @LC-T.drafts_list @must
  Scenario: The list, by room, and page by page
    When the agent calls "drafts_list"
    Then the drafts are "one", "two", "three"
    When the agent calls "drafts_list" for "lounge"
    Then the drafts are "one", "two"
    When the agent calls "drafts_list" for "other" on "a"
    Then the drafts are "three"
    When the agent pages through the "drafts" of "drafts_list", 1 at a time
    Then the drafts are "one", "two", "three"

  @LC-T.drafts_list @LC-45 @LC-44 @must
  Scenario: A listed draft has what the seed shows, and nothing to sign with
    When the agent calls "drafts_list" for "other"
    Then the result has "drafts.0.id", "drafts.0.created_at", "drafts.0.base_seq", "drafts.0.base_hash", "drafts.0.reason" and "drafts.0.options"
    And the result "drafts.0.kind" is "message"
    And the result "drafts.0.room_id" is "$(room other)"
    And the result "drafts.0.draft.content" is "three"
    And nothing in the drafts could be used to sign

  @LC-T.draft_get @must
  Scenario: One draft with what happened since its base
    When the agent looks at the draft
    Then the result "draft.draft.content" is "three"
    And the result "draft.base_seq" is 1
    And the changes show "hello"
    And the result's sync is complete

  @LC-T.draft_drop @must
  Scenario: A dropped draft is unknown afterwards, and the count goes down
    When the agent drops the draft
    Then the result "status" is "dropped"
    And the result "draft_id" is "$(note draft)"
    And the result "pending_count" is 2
    When the agent looks at the draft
    Then the call fails with a code and a message
    When the agent calls "drafts_list"
    Then the drafts are "one", "two"
    And host "a" received the event "message.create" 0 times

  @LC-T.draft_commit @LC-66 @must
  Scenario: A revision takes new fields and keeps the others
    When the agent calls "draft_commit" given {"draft_id": "$(note draft)", "action": "revise", "content": "revised", "content_type": "text/markdown", "mentions": ["$(agent ada)"], "extra": {"k": 1}}
    Then the write is sent
    And the agent's last event in "other" has "payload.content" "revised"
    And the agent's last event in "other" has "payload.content_type" "text/markdown"
    And the agent's last event in "other" has "payload.extra" {"k": 1}
    And the agent's last event in "other" has "mentions" ["$(agent ada)"]

  @LC-T.draft_commit @LC-66 @LC-71 @must
  Scenario: A draft is sent with everything that was held
    When the event id of the first record of "other" is noted as "event"
    And the agent calls "room_send_message" for "other" given {"content": "all of it", "content_type": "text/markdown", "mentions": ["$(agent ada)"], "references": ["$(note event)"], "extra": {"k": 1}, "base_seq": 1, "base_hash": "$(hash 1 other)"}
    And the write is held
    And the agent sends the draft as it is
    Then the write is sent
    And the agent's last event in "other" has "payload.content" "all of it"
    And the agent's last event in "other" has "payload.content_type" "text/markdown"
    And the agent's last event in "other" has "payload.references" ["$(note event)"]
    And the agent's last event in "other" has "payload.extra" {"k": 1}
    And the agent's last event in "other" has "mentions" ["$(agent ada)"]

  @LC-T.draft_commit @LC-66 @should @reference
  Scenario: A revision of the text alone keeps the rest
    When the agent calls "room_send_message" for "other" given {"content": "first", "content_type": "text/markdown", "mentions": ["$(agent ada)"], "extra": {"k": 1}, "base_seq": 1, "base_hash": "$(hash 1 other)"}
    And the write is held
    And the agent revises the draft to "second"
    Then the write is sent
    And the agent's last event in "other" has "payload.content" "second"
    And the agent's last event in "other" has "payload.content_type" "text/markdown"
    And the agent's last event in "other" has "payload.extra" {"k": 1}
    And the agent's last event in "other" has "mentions" ["$(agent ada)"]

  @LC-T.draft_commit @LC-66 @must
  Scenario: A revision takes references
    When the event id of the first record of "other" is noted as "event"
    And the agent calls "draft_commit" given {"draft_id": "$(note draft)", "action": "revise", "content": "see there", "references": ["$(note event)"]}
    Then the write is sent
    And the agent's last event in "other" has "payload.references" ["$(note event)"]

  @LC-T.draft_commit @LC-66 @must
  Scenario: A revision on a base of its own that is not the head is held again
    When we remember the hash of the first record of "other" as "hash"
    And the agent calls "draft_commit" given {"draft_id": "$(note draft)", "action": "revise", "content": "again", "base_seq": 1, "base_hash": "$(note hash)"}
    Then the write is held
    And host "a" received the event "message.create" 0 times

  @LC-T.draft_commit @LC-72 @must
  Scenario: on_head_mismatch of a commit is honoured
    When we remember the hash of the first record of "other" as "hash"
    And the agent calls "draft_commit" given {"draft_id": "$(note draft)", "action": "revise", "content": "again", "base_seq": 1, "base_hash": "$(note hash)", "on_head_mismatch": "reject"}
    Then the write is rejected with the changes

  @LC-T.draft_commit @LC-46 @LC-70 @must
  Scenario: A held custom event keeps type and payload, and can be revised
    When we remember the hash of the first record of "lounge" as "hash"
    And the agent submits "demo.note" to "lounge" with
      """
      {"text": "held", "+base_seq": 1, "+base_hash": "$(note hash)"}
      """
    And the write is held
    Then the result "draft.draft.type" is "demo.note"
    And the result "draft.draft.payload" is {"text": "held"}
    When the agent calls "draft_commit" given {"draft_id": "$(note draft)", "action": "revise", "payload": {"text": "revised"}}
    Then the write is sent
    And the agent's last event in "lounge" has "type" "demo.note"
    And the agent's last event in "lounge" has "payload" {"text": "revised"}

  @LC-46 @LC-70 @must
  Scenario Outline: A <type> on an old base is held, not sent
    Given the agent founded the public room "mine" on "a"
    And ada joined "mine"
    And ada said "hello" in "mine"
    When we remember the hash of the first record of "mine" as "hash"
    And the agent submits "<type>" to "mine" with
      """
      {<payload> "+base_seq": 1, "+base_hash": "$(note hash)"}
      """
    Then the write is held
    And "mine" has 3 records

    Examples:
      | type        | payload                                                                                   |
      | room.update | "agenda": "New",                                                                          |
      | room.close  | "reason": "done",                                                                         |
      | type.define | "type": "demo.vote", "kind": "signal", "title": "Vote", "schema": {"type": "object"},     |

  @LC-66 @must
  Scenario: Two commits of one draft at the same time send it once
    Given a second session "two" on the same state directory
    And host "a" misbehaves
      """
      [[fault]]
      when = { route = "submit", agent = "$(agent)", nth = 1 }
      action = { hold = { at = "before" } }
      """
    When the agent starts committing the draft
    And host "a" holds 1 request
    And session "two" starts committing the draft
    And 300 ms pass without any request of "submit" at host "a"
    And host "a" lets go
    And the call of the agent returns
    And the call of session "two" returns
    Then "other" holds exactly one message "three"

  @LC-14 @LC-66 @must
  Scenario: Drafts outlive a crash and can be committed afterwards
    When the connector is killed
    And the connector starts again
    And the agent calls "drafts_list"
    Then the drafts are "one", "two", "three"
    When the agent looks at the draft
    And the agent sends the draft as it is
    Then the write is sent
    And "other" holds exactly one message "three" by the agent

  @LC-66 @must
  Scenario: A draft that is not there cannot be committed
    When the agent calls "draft_commit" given {"draft_id": "draft_of_nothing", "action": "send_anyway"}
    Then the call fails with a code and a message
    And host "a" received the event "message.create" 0 times
