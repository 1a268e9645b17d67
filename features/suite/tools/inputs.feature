Feature: Inputs that do not fit a tool's table
  Section 3: a tool that is offered under a standard name has the standard input semantics. What
  does not fit is refused clearly, before anything is signed, sent or changed.

  Background:
    Given a host "a" with profiles
    And the agent founded the public room "lounge" on "a"
    And ada joined "lounge"
    And ada said "hello" in "lounge"
    And ada is "reading" in "lounge"
    And the agent read "lounge"
    And the agent has the draft "one" in "lounge"
    And the agent has the draft "two" in "lounge"
    And the agent founded the restricted room "club" on "a"
    And bob asked to join "club" as speaker
    And ada opened the public room "annex" on "a"
    And the agent opened "annex"

  @LC-08 @must
  Scenario Outline: <tool> refuses other input and changes nothing
    Given we note how everything stands
    When the agent calls "<tool>" with each input broken in turn
    Then nothing changed anywhere

    @LC-T.rooms_search
    Examples:
      | tool         |
      | rooms_search |

    @LC-T.rooms_list
    Examples:
      | tool       |
      | rooms_list |

    @LC-T.room_open
    Examples:
      | tool      |
      | room_open |

    @LC-T.room_state
    Examples:
      | tool       |
      | room_state |

    @LC-T.room_members_list
    Examples:
      | tool              |
      | room_members_list |

    @LC-T.room_member_get
    Examples:
      | tool            |
      | room_member_get |

    @LC-T.agent_status_list
    Examples:
      | tool              |
      | agent_status_list |

    @LC-T.agent_status_get
    Examples:
      | tool             |
      | agent_status_get |

    @LC-T.agent_status_set
    Examples:
      | tool             |
      | agent_status_set |

    @LC-T.room_timeline
    Examples:
      | tool          |
      | room_timeline |

    @LC-T.room_mark_read
    Examples:
      | tool           |
      | room_mark_read |

    @LC-T.inbox_next
    Examples:
      | tool       |
      | inbox_next |

    @LC-T.inbox_ack
    Examples:
      | tool      |
      | inbox_ack |

    @LC-T.drafts_list
    Examples:
      | tool        |
      | drafts_list |

    @LC-T.draft_get
    Examples:
      | tool      |
      | draft_get |

    @LC-T.draft_commit
    Examples:
      | tool         |
      | draft_commit |

    @LC-T.draft_drop
    Examples:
      | tool       |
      | draft_drop |

    @LC-T.profile_update
    Examples:
      | tool           |
      | profile_update |

    @LC-T.room_create
    Examples:
      | tool        |
      | room_create |

    @LC-T.room_join
    Examples:
      | tool      |
      | room_join |

    @LC-T.room_leave
    Examples:
      | tool       |
      | room_leave |

    @LC-T.room_send_message
    Examples:
      | tool              |
      | room_send_message |

    @LC-T.room_submit_event
    Examples:
      | tool              |
      | room_submit_event |

    @LC-T.join_requests_list
    Examples:
      | tool               |
      | join_requests_list |

    @LC-T.join_request_review
    Examples:
      | tool                |
      | join_request_review |

  @LC-08 @must @reference
  Scenario: Unknown members are refused everywhere
    Given we note how everything stands
    When the agent calls every tool with a member that none of them knows
    Then nothing changed anywhere

  @LC-30 @LC-90 @should
  Scenario: Every tool's result is structured, conforms to its schema and is text too
    Given the tool catalogue
    When the agent uses every tool once
    Then every result so far conforms to its output schema and is there as JSON text too

  @LC-31 @should
  Scenario: Every room-scoped result carries a complete sync
    When the agent uses every tool once
    Then every room-scoped result so far carries a complete sync

  @LC-30 @should
  Scenario: Empty lists and failures keep to the schemas too
    Given the tool catalogue
    When the agent calls "rooms_search" on "a" given {"tag": "no-room-has-this"}
    And the agent calls "drafts_list" for "annex"
    And the agent calls "inbox_next" for "annex" given {"kinds": ["room.steer"]}
    And the agent calls "room_timeline" for "lounge" given {"after_seq": 100000}
    And the agent calls "room_members_list" for "lounge" given {"status": "banned"}
    And the agent calls "room_state" given {"room_id": "d8ftedhpqhsusbg00000"}
    And the agent calls "draft_get" given {"draft_id": "draft_of_nothing"}
    Then every result so far conforms to its output schema and is there as JSON text too
    And every failure so far carries isError, a code and a message
