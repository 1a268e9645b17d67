Feature: A room is keyed by its host, in every tool
  "when room_id alone matches rooms on more than one configured host, the connector MUST return
  an ambiguity error instead of guessing" (4.3).

  Background:
    Given a host "a"
    And a host "b"
    And ada opened the public room "lounge" on "a"
    And ada opened the public room "twin" on "b" with the id of "lounge"
    And ada said "on a" in "lounge"
    And ada said "on b" in "twin"
    And the agent is a speaker of "lounge"
    And the agent has called "room_join" for "twin" on "b" given {"role": "observer"}

  @LC-53 @must
  Scenario Outline: <tool> without host is ambiguous and names the hosts
    Given we count from here
    When the agent calls "<tool>" for "lounge" given <input>
    Then the call fails with a code and a message
    And no events were sent to "a" since
    And no events were sent to "b" since

    Examples:
      | tool                | input                                                              |
      | room_state          | {}                                                                 |
      | room_timeline       | {}                                                                 |
      | room_members_list   | {}                                                                 |
      | room_member_get     | {"agent_id": "$(agent)"}                                           |
      | agent_status_list   | {}                                                                 |
      | agent_status_get    | {"agent_id": "$(agent)"}                                           |
      | agent_status_set    | {"state": "working"}                                               |
      | room_mark_read      | {"through_seq": 1}                                                 |
      | inbox_next          | {}                                                                 |
      | drafts_list         | {}                                                                 |
      | room_leave          | {}                                                                 |
      | room_send_message   | {"content": "where am I?"}                                         |
      | room_submit_event   | {"type": "room.update", "payload": {"topic": "x"}}                 |
      | join_requests_list  | {}                                                                 |
      | join_request_review | {"request_id": "x", "decision": "reject"}                          |
      | room_join           | {"role": "speaker"}                                                |

  @LC-53 @should
  Scenario Outline: An ambiguity says between which hosts: <tool>
    When the agent calls "<tool>" for "lounge" given <input>
    Then the call fails with a code and a message
    And the failure names "$(host a)" and "$(host b)"

    Examples:
      | tool              | input                      |
      | room_state        | {}                         |
      | room_send_message | {"content": "where am I?"} |
      | inbox_next        | {}                         |

  @LC-52 @must
  Scenario: Read cursors, inboxes, drafts and presented heads are apart
    When the agent calls "room_mark_read" for "lounge" on "a" given {"through_seq": 3}
    And the agent calls "room_state" for "twin" on "b"
    Then the result "sync.unread_count" reaches 1
    And the result "room.self_member.role" is "observer"
    When the agent calls "room_state" for "lounge" on "a"
    Then the result "sync.unread_count" is 0
    And the result "room.self_member.role" is "speaker"

  @LC-52 @LC-53 @must
  Scenario: A write goes to the host that is named
    When the agent calls "room_send_message" for "lounge" on "a" given {"content": "only here"}
    Then the write is sent
    And "lounge" holds exactly one message "only here"
    And "twin" holds no message "only here"
    And the result "sync.host" is "$(host a)"
