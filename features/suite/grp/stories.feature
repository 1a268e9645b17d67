Feature: Stumbles that others made, told as stories

  Each was a bug in somebody's host or client. The number is that of the story.

  @GT-19 @story-01 @must
  Scenario: One's own act does not end one's own wait
    Given ann opened the room "den" to decide "Tea or coffee?" between "tea / coffee" with the settings
      """
      {"early_close": false}
      """
    And bob took a seat in "den"
    And eve took a seat in "den"
    And bob chose "tea" in "den"
    And bob waits in "den" for my_choice up to 4 s
    And bob called discuss in "den" with
      """
      {"body": "thinking aloud"}
      """
    And bob chose "coffee" in "den"
    Then bob still waits after 0.4 s

  @GT-20 @story-01 @story-02 @may
  Scenario: News is what others did after what was read
    Given ann opened the room "den" to decide "Tea or coffee?" between "tea / coffee" with the settings
      """
      {"early_close": false}
      """
    And bob took a seat in "den"
    And eve took a seat in "den"
    And eve called discuss in "den" with
      """
      {"body": "read this first"}
      """
    And bob chose "tea" in "den"
    When bob calls read_room in "den"
    Then the answer is kept as "read"
    When bob calls wait in "den" with
      """
      {"for": "activity", "since_seq": {kept:read:/current_through}, "wait": 0.2}
      """
    Then its "/status" is "timeout"
    Given bob called discuss in "den" with
      """
      {"body": "my own words"}
      """
    When bob calls wait in "den" with
      """
      {"for": "activity", "since_seq": {kept:read:/current_through}, "wait": 0.2}
      """
    Then its "/status" is "timeout"
    Given eve called discuss in "den" with
      """
      {"body": "somebody else's words"}
      """
    When bob calls wait in "den" with
      """
      {"for": "activity", "since_seq": {kept:read:/current_through}, "wait": 3}
      """
    Then its "/status" is "activity"
    And its "/event/who" is "eve"

  @GT-19 @story-03 @must
  Scenario Outline: One resolution wakes its asker once, over <transport>
    Given the calls go over <transport>
    And ann opened the room "den" to decide "Tea or coffee?" between "tea / coffee"
    And bob took a seat in "den"
    And bob chose "tea" in "den"
    When ann calls wait in "den" with
      """
      {"wait": 0.2}
      """
    Then it succeeds
    When ann calls wait in "den" with
      """
      {"wait": 0.2}
      """
    Then its "/status" is "timeout"

    Examples:
      | transport |
      | REST      |
      | MCP       |

  @GT-20 @story-03 @should
  Scenario: A resolution that is known ends no second wait
    Given ann opened the room "den" to decide "Tea or coffee?" between "tea / coffee"
    And bob took a seat in "den"
    And bob chose "tea" in "den"
    When ann calls wait in "den" with
      """
      {"for": "completion", "since_seq": 0, "wait": 3}
      """
    Then its "/status" is "actionable"
    And its "/decision/seq" is 1
    When ann calls wait in "den" with
      """
      {"for": "completion", "since_seq": 1, "wait": 0.2}
      """
    Then its "/status" is "timeout"

  @GT-05 @GT-08 @story-05 @must
  Scenario: Revoking an accepted invite ends the way back and not the seat
    Given ann opened the room "den" to decide "Tea or coffee?" between "tea / coffee"
    And ann invited bob to "den"
    When bob comes to "den" by invite
    Then it succeeds
    Given ann called revoke_invite in "den" with
      """
      {"code": "{kept:invite of bob:/invite/code}"}
      """
    When bob calls discuss in "den" with
      """
      {"body": "still here"}
      """
    Then it succeeds
    When bob comes to "den" by invite
    Then it is refused with "invite.invalid"
    When bob calls read_room in "den"
    Then it succeeds

  @GT-05 @story-06 @must
  Scenario: An invite names the seat, whatever the guest says
    Given ann opened the room "den" to decide "Tea or coffee?" between "tea / coffee"
    And ann invited bob to "den"
    When POST /api/rooms/{room:den}/join is sent with
      """
      {"body": {"invite": "{kept:invite of bob:/invite_token}", "display_name": "Mallory"}}
      """
    Then it succeeds
    When ann calls read_room in "den"
    Then its text contains "bob"
    And its text lacks "Mallory"

  @GT-05 @story-06 @must
  Scenario Outline: A bound invite opens to whom it is bound, over <transport>
    Given the calls go over <transport>
    And ann opened the room "den" to decide "Ship it?" between "yes / no" with the settings
      """
      {"visibility": "private"}
      """
    And mia holds a mandate
    And rex holds a mandate
    And ann invited mia to "den" with
      """
      {"binding": {"kind": "principal", "value": "{principal:mia}"}}
      """
    When stranger comes to "den" by the invite of mia
    Then it is refused with "invite.invalid"
    When rex comes to "den" by the invite of mia
    Then it is refused with "invite.invalid"
    And "den" has 0 events "participant.joined"
    When mia comes to "den" by invite
    Then it succeeds
    And its "/participant_token" is null
    And "den" has 1 event "participant.joined"

    Examples:
      | transport |
      | REST      |
      | MCP       |

  @GT-05 @story-06 @must
  Scenario: An observer reads, is not waited for, and does not act
    Given ann opened the room "den" to decide "Tea or coffee?" between "tea / coffee"
    And bob took a seat in "den"
    And ann invited olga to "den" with
      """
      {"role": "observer"}
      """
    When olga comes to "den" by invite
    Then it succeeds
    And its "/role" is "observer"
    When olga calls read_room in "den"
    Then it succeeds
    When olga calls discuss in "den" with
      """
      {"body": "may I?"}
      """
    Then it is refused with "authority.denied"
    When olga calls propose in "den" with
      """
      {"option": "water"}
      """
    Then it is refused with "authority.denied"
    When olga chooses "tea" in "den"
    Then it is refused with "authority.denied or choice.not_eligible"
    When olga calls wait in "den" with
      """
      {"wait": 0.2}
      """
    Then its "/status" is "timeout"
    When bob chooses "coffee" in "den"
    Then its "/resolved_winner" is "coffee"
    And the receipts of "den" verify and form one chain of 1
    And its "/receipts/0/grp/outcome/diagnostics/eligible_voters" is 1

  @GT-05 @story-07 @must
  Scenario Outline: Early close does not wait for <whom>
    Given ann opened the room "den" to decide "Tea or coffee?" between "tea / coffee"
    And bob took a seat in "den"
    And ann invited olga to "den" with
      """
      <invite>
      """
    When bob chooses "tea" in "den"
    Then its "/status" is "resolved"

    Examples:
      | whom                      | invite                 |
      | an observer               | {"role": "observer"}   |
      | a guest it does not expect | {"expected": false}   |

  @GT-05 @story-07 @must
  Scenario: An electorate that is named waits for nobody else
    Given ann opened the room "den" for questions to come
    And bob took a seat in "den"
    And eve took a seat in "den"
    And ann invited olga to "den"
    And ann called ask in "den" with
      """
      {"question": "Bob's own matter?", "options": ["yes", "no"], "eligible_participant_ids": ["{id:bob:den}"]}
      """
    When eve chooses "no" in "den"
    Then it is refused with "choice.not_eligible"
    When bob chooses "yes" in "den"
    Then its "/status" is "resolved"
    And its "/resolved_winner" is "yes"

  @GT-05 @story-08 @must
  Scenario Outline: A question by <mechanism> seals when everybody has ranked
    Given ann opened the room "den" to decide "In which order?" between "a / b / c" with the settings
      """
      {"mechanism": "<mechanism>"}
      """
    And bob took a seat in "den"
    And eve took a seat in "den"
    When bob calls choose in "den" with
      """
      {"choice": ["b", "a"]}
      """
    Then its "/status" is "voting"
    When eve calls choose in "den" with
      """
      {"choice": ["b", "c", "a"]}
      """
    Then its "/status" is "resolved"
    And its "/resolved_winner" is "b"

    Examples:
      | mechanism       |
      | ranked_choice   |
      | ranked_pairwise |

  @GT-05 @story-09 @must
  Scenario Outline: Two who start choosing at once start it once, over <transport>
    Given the calls go over <transport>
    And ann opened the room "den" for questions to come
    And bob took a seat in "den"
    And ann called ask in "den" with
      """
      {"question": "Where to meet?", "options": ["park", "library"], "proposal_window": 300}
      """
    When ann and bob call start_choosing in "den" at once
    Then both succeed
    And one of both answers has "/already_open"
    And "den" has 1 event "decision.voting_phase_started"

    Examples:
      | transport |
      | REST      |
      | MCP       |

  @GT-05 @story-13 @must
  Scenario: What is decided is not shown as open
    Given ann opened the room "den" to decide "Tea or coffee?" between "tea / coffee"
    And bob took a seat in "den"
    And bob chose "tea" in "den"
    When bob calls read_room in "den"
    Then its "/status" is "resolved"
    And its "/decision" is null
    And its "/brief" lacks "Deciding now"
    And its "/decided/0/winner" is "tea"

  @GT-05 @story-13 @must
  Scenario: A tie has a status and no winner
    Given ann opened the room "den" to decide "Tea or coffee?" between "tea / coffee" with the settings
      """
      {"mechanism": "simple_majority"}
      """
    And bob took a seat in "den"
    And eve took a seat in "den"
    And bob chose "tea" in "den"
    When eve chooses "coffee" in "den"
    Then its "/status" is "resolved"
    And its "/resolved_winner" is null
    When bob calls read_room in "den"
    Then its "/status" is "resolved"
    And its "/decision" is null
    And it has no "/decided/0/winner"
    And the receipts of "den" verify and form one chain of 1
    And its "/receipts/0/grp/outcome/winning_option" is null

  @GT-17 @story-16 @must
  Scenario: A choice and an abstention take each other's place
    Given ann opened the room "den" to decide "Tea or coffee?" between "tea / coffee" with the settings
      """
      {"choice_visibility": "never", "quorum": 2}
      """
    And bob took a seat in "den"
    And eve took a seat in "den"
    And bob called abstain in "den" with
      """
      {"reason": "not thirsty"}
      """
    And bob chose "coffee" in "den"
    And bob chose "tea" in "den"
    And bob called abstain in "den" with
      """
      {"reason": "not thirsty after all"}
      """
    When eve calls read_room in "den" with
      """
      {"include": "full"}
      """
    Then its "/abstentions" has 1 entry
    And its "/abstentions/0/reason" is "not thirsty after all"
    And its "/votes" is null
    When eve chooses "coffee" in "den"
    Then its "/resolved_winner" is "coffee"
    And the receipts of "den" verify and form one chain of 1
    And its "/receipts/0/grp/votes" has 0 entries
    And its "/receipts/0/grp/abstentions" has 1 entry
    And its "/receipts/0/grp/outcome/tallies/coffee" is 1
    And its "/receipts/0/grp/outcome/diagnostics/cast_votes" is 1

  @GT-17 @story-16 @must
  Scenario: An abstention that became a choice is a choice
    Given ann opened the room "den" to decide "Tea or coffee?" between "tea / coffee" with the settings
      """
      {"quorum": 2}
      """
    And bob took a seat in "den"
    And eve took a seat in "den"
    And bob called abstain in "den" with
      """
      {"reason": "not yet"}
      """
    And bob chose "tea" in "den"
    When eve chooses "tea" in "den"
    Then its "/resolved_winner" is "tea"
    And the receipts of "den" verify and form one chain of 1
    And its "/receipts/0/grp/votes" has 2 entries
    And its "/receipts/0/grp/outcome/tallies/tea" is 2

  @GT-05 @story-20 @must
  Scenario Outline: A closed room lets nobody in and nobody back, over <transport>
    Given the calls go over <transport>
    And ann opened the room "den" to decide "Tea or coffee?" between "tea / coffee"
    And ann invited bob to "den"
    And ann invited carol to "den"
    And bob comes to "den" by invite
    And mia holds a mandate
    And mia took a seat in "den"
    And bob chose "tea" in "den"
    And mia chose "tea" in "den"
    And ann called revoke_invite in "den" with
      """
      {"code": "{kept:invite of carol:/invite/code}"}
      """
    And ann called close_room in "den"
    When bob comes to "den" by invite
    Then it is refused with "room.concluded"
    When carol comes to "den" by invite
    Then it is refused with "room.concluded"
    When mia takes a seat in "den"
    Then it is refused with "room.concluded"
    When eve takes a seat in "den"
    Then it is refused with "room.concluded"
    When bob calls outcome in "den"
    Then it succeeds
    And its "/resolved_winner" is "tea"

    Examples:
      | transport |
      | REST      |
      | MCP       |

  @GT-05 @story-22 @should
  Scenario Outline: No address sends its caller elsewhere: <method> <path>
    Given ann opened the room "den" to decide "Tea or coffee?" between "tea / coffee"
    When <method> <path> is sent with
      """
      {"headers": {"authorization": "Bearer {token:ann:den}"}}
      """
    Then it is no redirect

    Examples:
      | method | path                             |
      | GET    | /api/rooms/{room:den}/           |
      | GET    | /api/rooms/{room:den}/outcome/   |
      | POST   | /api/rooms/{room:den}/discuss/   |
      | GET    | /r/{room:den}/                   |
      | POST   | /mcp/                            |

  @GT-05 @story-25 @must
  Scenario Outline: A choosing window of <window> is refused
    When POST /api/rooms is sent with
      """
      {"body": {"about": "x", "config": {"voting_window": <window>}}}
      """
    Then it is refused with "input.invalid"

    Examples:
      | window  |
      | 59      |
      | 1209601 |
      | "1h"    |
      | "3600s" |
      | 90.5    |

  @GT-05 @story-27 @must
  Scenario Outline: The cap on discussion holds: <setting>
    Given ann opened the room "den" to decide "Tea or coffee?" between "tea / coffee" with the settings
      """
      {"<setting>": 2}
      """
    And bob took a seat in "den"
    When bob tells "den": "one"
    Then it succeeds
    When bob tells "den": "two"
    Then it succeeds
    When bob tells "den": "three"
    Then it is refused
    And "den" has 2 events "discussion.posted"

    Examples:
      | setting                                  |
      | max_deliberation_messages_per_participant |
      | max_total_deliberation_messages          |

  @GT-05 @story-27 @must
  Scenario: Where discussion is off nothing is said
    Given ann opened the room "den" to decide "Tea or coffee?" between "tea / coffee" with the settings
      """
      {"deliberation_mode": "disabled"}
      """
    And bob took a seat in "den"
    When bob tells "den": "anybody?"
    Then it is refused
    And "den" has 0 events "discussion.posted"

  @GT-05 @story-27 @must
  Scenario: A message has at most 100 000 characters
    Given ann opened the room "den" to decide "Tea or coffee?" between "tea / coffee"
    When ann tells "den" 100000 characters
    Then it succeeds
    When ann tells "den" 100001 characters
    Then it is refused with "input.invalid"
    And "den" has 1 event "discussion.posted"

  @GT-05 @must
  Scenario: A settle window starts anew when the winner changes, four times at most
    Given the host's clock stands still
    And ann opened the room "den" to decide "Tea or coffee?" between "tea / coffee" with the settings
      """
      {"settle_window": 60}
      """
    And bob took a seat in "den"
    When bob chooses "tea" in "den"
    Then its "/status" is "voting"
    And its "/settling/presumptive" is "tea"
    And its "/settling/seals_in_seconds" is 60
    When the host's clock moves 10 s
    And bob chooses "tea" in "den"
    Then its "/settling/seals_in_seconds" is 50
    When bob chooses "coffee" in "den"
    Then its "/settling/seals_in_seconds" is 60
    When the host's clock moves 10 s
    And bob chooses "tea" in "den"
    Then its "/settling/seals_in_seconds" is 60
    When the host's clock moves 10 s
    And bob chooses "coffee" in "den"
    Then its "/settling/seals_in_seconds" is 60
    When the host's clock moves 10 s
    And bob chooses "tea" in "den"
    Then its "/settling/seals_in_seconds" is 60
    When the host's clock moves 10 s
    And bob chooses "coffee" in "den"
    Then its "/settling/seals_in_seconds" is 50
    And its "/settling/presumptive" is "coffee"
    When the host's clock moves 51 s
    And bob calls read_room in "den"
    Then its "/status" is "resolved"
    And its "/decided/0/winner" is "coffee"
