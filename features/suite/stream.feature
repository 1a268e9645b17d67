Feature: The live stream breaks and nothing is lost

  Background:
    Given a host "a"
    And ada opened the public room "lounge" on "a"

  @LC-18 @must
  Scenario: Live records arrive without asking
    Given the agent is a speaker of "lounge"
    And the agent is subscribed to "lounge"
    When ada says "live" in "lounge"
    Then soon the agent sees "live" in "lounge" without refreshing

  @LC-18 @must
  Scenario: Records of a time without stream are recovered
    Given the agent is a speaker of "lounge"
    And the agent is subscribed to "lounge"
    When host "a" misbehaves
      """
      [[fault]]
      when = { route = "live" }
      action = { status = { code = 503 } }
      times = 1
      """
    And the live streams of "lounge" break
    And ada says 3 things in "lounge"
    Then soon the agent sees "thing 3" in "lounge" without refreshing
    And every record of "lounge" is shown exactly once

  @LC-18 @must
  Scenario: A stream that is cut after every event loses nothing
    Given host "a" misbehaves
      """
      [[fault]]
      when = { route = "live" }
      action = { cut_after_events = { events = 1 } }
      """
    And the agent is a speaker of "lounge"
    And the agent is subscribed to "lounge"
    When ada says 5 things in "lounge"
    Then soon the agent sees "thing 5" in "lounge" without refreshing
    And every record of "lounge" is shown exactly once

  @LC-19 @must
  Scenario: A record between the history and the stream is not missed
    Given host "a" misbehaves
      """
      [[fault]]
      when = { route = "live", nth = 1 }
      action = { hold = { at = "before" } }
      """
    And the agent is a speaker of "lounge"
    When host "a" holds 1 request
    And ada says "in between" in "lounge"
    And host "a" lets go
    And ada says "afterwards" in "lounge"
    Then soon the agent sees "in between" in "lounge" without refreshing
    And soon the agent sees "afterwards" in "lounge" without refreshing
    And every record of "lounge" is shown exactly once

  @LC-18 @LC-20 @must
  Scenario Outline: Noise on the stream changes nothing: <noise>
    Given the agent is a speaker of "lounge"
    And the agent is subscribed to "lounge"
    When host "a" misbehaves
      """
      [[fault]]
      when = { route = "live", seq = 4 }
      action = <action>
      """
    And ada says "first" in "lounge"
    And the live streams of "lounge" break
    And ada says "second" in "lounge"
    And ada says "third" in "lounge"
    Then soon the agent sees "third" in "lounge" without refreshing
    And every record of "lounge" is shown exactly once

    Examples:
      | noise                    | action                                                                              |
      | doubled records          | { duplicate = {} }                                                                  |
      | records out of order     | { reorder = {} }                                                                    |
      | a missing record         | { drop_record = {} }                                                                |
      | unknown event names      | { inject = { text = "event: room.weather\\ndata: {\\"rain\\":true}\\n\\n" } }            |
      | comments and bare fields | { inject = { text = ": quiet\\n\\ndata\\n\\nid\\n\\nretry: 10\\n\\n" } }                     |
      | data that is no JSON     | { inject = { text = "event: room.event\\ndata: {oops\\n\\n" } }                        |
      | CRLF line ends           | { framing = { eol = "crlf" } }                                                      |
      | CR line ends             | { framing = { eol = "cr" } }                                                        |
      | a byte order mark        | { framing = { eol = "lf", bom = true } }                                            |
      | single byte chunks       | { slice = { bytes = 1 } }                                                           |
      | a replayed history       | { replay = { from = 1 } }                                                           |
      | a wrong content type     | { wrong_content_type = { to = "text/html" } }                                       |

  @LC-18 @LC-T.room_open @must
  Scenario: Refreshing keeps the subscription
    Given the agent is a speaker of "lounge"
    And the agent is subscribed to "lounge"
    When the agent calls "room_open" with
      """
      { "host": "$(host a)", "room_id": "$(room lounge)", "refresh": true }
      """
    Then the result "sync.subscribed" is true
    When the agent calls "room_open" with
      """
      { "host": "$(host a)", "room_id": "$(room lounge)", "subscribe": false }
      """
    Then the result "sync.subscribed" is false

  @LC-13 @must
  Scenario: The stream is opened with a request JWT for that host
    Given the agent is a speaker of "lounge"
    And the agent is subscribed to "lounge"
    Then every request of "live" at host "a" carried a sound request JWT
