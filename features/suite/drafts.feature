Feature: The room moves while the agent thinks

  Background:
    Given a host "a"
    And ada opened the public room "lounge" on "a"
    And the agent is a speaker of "lounge"
    And the agent read "lounge"
    And ada said "wait, there is news" in "lounge"

  @LC-72 @LC-44 @LC-46 @must
  Scenario: A message on a head that moved is held and not sent
    When the agent says "I agree" in "lounge"
    Then the write is held
    And the draft holds neither envelope nor signature nor token
    And "lounge" holds no message "I agree"
    And 1 draft is held

  @LC-45 @should
  Scenario: The held result shows the draft, the changes and the ways on
    When the agent says "I agree" in "lounge"
    Then the write is held
    And the result "draft.draft.content" is "I agree"
    And the result "draft.reason" is "room_head_mismatch"
    And the result "draft.options" contains "revise"
    And the result "draft.options" contains "send_as_is"
    And the result "draft.options" contains "stay_silent"
    And the result "draft.options" contains "send_anyway"
    And the result has "draft.base_seq", "draft.base_hash" and "draft.current_sync"
    And the changes show "wait, there is news"

  @LC-66 @LC-T.draft_commit @must
  Scenario: The draft is sent as it is after the context was seen
    When the agent says "I agree" in "lounge"
    And the write is held
    And the agent sends the draft as it is
    Then the write is sent
    And "lounge" holds exactly one message "I agree" by the agent
    And 0 drafts are held

  @LC-66 @LC-T.draft_commit @must
  Scenario: The draft is revised
    When the agent says "I agree" in "lounge"
    And the write is held
    And the agent revises the draft to "I changed my mind"
    Then the write is sent
    And "lounge" holds exactly one message "I changed my mind" by the agent
    And "lounge" holds no message "I agree"
    And 0 drafts are held

  @LC-66 @LC-T.draft_commit @must
  Scenario: The draft is sent anyway on the newest head
    When the agent says "I agree" in "lounge"
    And the write is held
    And ada says "and more news" in "lounge"
    And the agent sends the draft anyway
    Then the write is sent
    And "lounge" holds exactly one message "I agree" by the agent
    And the chain of "lounge" verifies

  @LC-66 @LC-T.draft_commit @must
  Scenario: The agent stays silent
    When the agent says "I agree" in "lounge"
    And the write is held
    And we count from here
    And the agent stays silent on the draft
    Then the call succeeds
    And no events were sent to "a" since
    And 0 drafts are held
    And "lounge" holds no message "I agree"

  @LC-66 @must
  Scenario: A draft is committed at most once
    When the agent says "I agree" in "lounge"
    And the write is held
    And the agent sends the draft as it is
    And the write is sent
    And the agent sends the draft as it is
    Then the call fails with a code and a message
    And "lounge" holds exactly one message "I agree" by the agent

  @LC-66 @must
  Scenario: A draft whose room moved again is held again
    When the agent says "I agree" in "lounge"
    And the write is held
    And ada says "and more news" in "lounge"
    And the agent sends the draft as it is
    Then the write is held
    And the changes show "and more news"
    And "lounge" holds no message "I agree"

  @LC-72 @must
  Scenario: Reject returns the changes and keeps nothing
    When the agent says "I agree" in "lounge" with
      """
      { "on_head_mismatch": "reject" }
      """
    Then the write is rejected with the changes
    And the changes show "wait, there is news"
    And 0 drafts are held
    And "lounge" holds no message "I agree"

  @LC-72 @must
  Scenario: Send anyway re-signs on the newest head
    When the agent says "I agree" in "lounge" with
      """
      { "on_head_mismatch": "send_anyway" }
      """
    Then the write is sent
    And "lounge" holds exactly one message "I agree" by the agent

  @LC-73 @should
  Scenario: A room that never rests does not trap the connector
    Given host "a" misbehaves
      """
      [[fault]]
      when = { route = "submit", agent = "$(agent)" }
      action = { move_head = { by = 1 } }
      """
    When we count from here
    And the agent says "let me speak" in "lounge" with
      """
      { "on_head_mismatch": "send_anyway" }
      """
    Then the write is held
    And at most 4 events were sent to "a" since
    And "lounge" holds no message "let me speak"

  @LC-T.draft_get @must
  Scenario: A draft can be looked at with what has changed
    When the agent says "I agree" in "lounge"
    And the write is held
    And the agent looks at the draft
    Then the result "draft.draft.content" is "I agree"
    And the changes show "wait, there is news"
    And the result's sync is complete

  @LC-T.draft_drop @must
  Scenario: A draft is dropped
    When the agent says "I agree" in "lounge"
    And the write is held
    And the agent drops the draft
    Then the result "status" is "dropped"
    And 0 drafts are held

  @LC-T.drafts_list @must
  Scenario: Drafts are listed by room
    Given ada opened the public room "other" on "a"
    And the agent is a speaker of "other"
    When the agent says "I agree" in "lounge"
    And the write is held
    And the agent calls "drafts_list" with
      """
      { "room_id": "$(room other)" }
      """
    Then the result "drafts" has 0 entries
    When the agent calls "drafts_list" with
      """
      { "room_id": "$(room lounge)" }
      """
    Then the result "drafts" has 1 entry

  @LC-14 @LC-66 @must
  Scenario: A draft survives a restart and is committed afterwards
    When the agent says "I agree" in "lounge"
    And the write is held
    And the connector stops
    And the connector starts again
    And the agent looks at the draft
    And the agent sends the draft as it is
    Then the write is sent
    And "lounge" holds exactly one message "I agree" by the agent
