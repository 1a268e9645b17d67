Feature: More noise on the live stream
  LC-20: noise changes nothing. What was said during the noise is seen once, whatever it took.

  Background:
    Given a host "a"
    And ada opened the public room "lounge" on "a"

  @LC-20 @must
  Scenario Outline: <noise> in the middle of a stream
    Given the agent is a speaker of "lounge"
    And the agent is subscribed to "lounge"
    When host "a" misbehaves
      """
      [[fault]]
      when = { route = "live", seq = 4 }
      action = <action>
      """
    And ada says "one €uro 😀" in "lounge"
    And ada says "two" in "lounge"
    And ada says "three" in "lounge"
    Then soon the agent sees "three" in "lounge" without refreshing
    And every record of "lounge" is shown exactly once
    And the faults of host "a" did their work

    Examples:
      | noise                               | action                                                                                          |
      | a record that is JSON of no record  | { inject = { text = "event: room.event\\ndata: {\\"seq\\": 3}\\n\\n" } }                           |
      | a record that is an array           | { inject = { text = "event: room.event\\ndata: []\\n\\n" } }                                      |
      | a number beyond what is safe        | { inject = { text = "event: room.event\\ndata: {\\"seq\\": 9007199254740993}\\n\\n" } }            |
      | data of many lines                  | { inject = { text = "event: room.weather\\ndata: a\\ndata: b\\ndata\\n\\n" } }                     |
      | a status of no shape                | { inject = { text = "event: room.agent_status\\ndata: {\\"state\\": 1}\\n\\n" } }                  |
      | a join request of no shape          | { inject = { text = "event: room.join_request\\ndata: null\\n\\n" } }                            |
      | an id and a retry of no sense       | { inject = { text = "id: \\nretry: -7\\nretry: x\\n\\n" } }                                        |
      | a thousand comments                 | { inject = { text = ":\\n:\\n:\\n:\\n:\\n:\\n:\\n:\\n:\\n:\\n\\n\\n\\n" } }                                |
      | silence about what is said          | { silence = {} }                                                                                |

  @LC-20 @should @reference
  Scenario Outline: The stream alone brings what is said, with <framing>
    Given the agent is a speaker of "lounge"
    And the agent is subscribed to "lounge"
    When host "a" misbehaves
      """
      [[fault]]
      when = { route = "live" }
      action = <action>
      """
    And the live streams of "lounge" break
    And the agent is subscribed to "lounge" again
    And ada says "history and stream" in "lounge"
    Then soon the agent sees "history and stream" in "lounge" without refreshing
    When host "a" misbehaves
      """
      [[fault]]
      when = { route = "events" }
      action = { status = { code = 503 } }
      """
    And ada says "one €uro 😀" in "lounge"
    And ada says "another €uro" in "lounge"
    Then soon the agent sees "another €uro" in "lounge" without refreshing
    And every record of "lounge" is shown exactly once

    Examples:
      | framing            | action                                                                     |
      | nothing strange    | { inject = { text = ": quiet\\n\\n" } }                                    |
      | CRLF line ends     | { framing = { eol = "crlf" } }                                             |
      | CR line ends       | { framing = { eol = "cr" } }                                               |
      | single byte chunks | { slice = { bytes = 1, pause_ms = 1 } }                                    |
      | doubled records    | { duplicate = {} }                                                         |
      | unknown events     | { inject = { text = "event: room.weather\\ndata: {\\"rain\\":true}\\n\\n" } } |

  @LC-20 @must
  Scenario Outline: A tampered record on the stream (<what>) is not believed
    Given the agent is a speaker of "lounge"
    And the agent is subscribed to "lounge"
    When host "a" misbehaves
      """
      [[fault]]
      when = { route = "live", seq = 3 }
      action = <action>
      """
    And ada says "true words" in "lounge"
    And ada says "more true words" in "lounge"
    Then soon the agent sees "more true words" in "lounge" without refreshing
    And every record of "lounge" is shown exactly once
    And the faults of host "a" did their work
    And no result so far holds
      """
      false words
      """

    Examples:
      | what              | action                                                                                        |
      | content           | { tamper = { field = "/envelope/event/payload/content", value = "false words" } }             |
      | relinked content  | { tamper = { field = "/envelope/event/payload/content", value = "false words", relink = true } } |
      | record hash       | { tamper = { field = "/hash" } }                                                              |
      | signature         | { resign = {} }                                                                               |

  @LC-20 @LC-18 @must
  Scenario Outline: A stream answered with <status> is polled or tried again
    Given host "a" misbehaves
      """
      [[fault]]
      when = { route = "live" }
      action = { status = { code = <status> } }
      times = <times>
      """
    And the agent is a speaker of "lounge"
    When ada says "without a stream" in "lounge"
    Then soon the agent sees "without a stream" in "lounge" without refreshing
    And every record of "lounge" is shown exactly once

    Examples:
      | status | times |
      | 503    | 2     |
      | 500    | 1     |
      | 401    | 1     |
      | 204    | 1     |

  @LC-18 @must
  Scenario: A host without streams is polled
    Given host "a" misbehaves
      """
      [[fault]]
      when = { route = "live" }
      action = { status = { code = 404 } }
      """
    And the agent is a speaker of "lounge"
    When ada says "found by polling" in "lounge"
    Then soon the agent sees "found by polling" in "lounge" without refreshing

  @LC-18 @must
  Scenario Outline: A stream that ends by <end> loses nothing
    Given host "a" misbehaves
      """
      [[fault]]
      when = { route = "live" }
      action = { cut_after_events = { events = 1, end = "<end>" } }
      times = 3
      """
    And the agent is a speaker of "lounge"
    And the agent is subscribed to "lounge"
    When ada says 4 things in "lounge"
    Then soon the agent sees "thing 4" in "lounge" without refreshing
    And every record of "lounge" is shown exactly once

    Examples:
      | end    |
      | close  |
      | reset  |
      | finish |

  @LC-18 @should
  Scenario: A stream that always breaks at once is not tried in a frenzy
    Given host "a" misbehaves
      """
      [[fault]]
      when = { route = "live" }
      action = { cut_after_events = { events = 0 } }
      """
    And the agent is a speaker of "lounge"
    Then within 3 s host "a" sees at most 15 requests of "live"

  @LC-18 @LC-13 @must
  Scenario: Every stream of a private room is opened with a fresh, sound JWT
    Given the agent founded the private room "den" on "a"
    And the agent is subscribed to "den"
    When the live streams of "den" break
    And the agent is subscribed to "den" again
    Then every request of "live" at host "a" carried a sound request JWT

  @LC-20 @must
  Scenario: A stream whose event never ends does not take the connector down
    Given the agent is a speaker of "lounge"
    And the agent is subscribed to "lounge"
    When host "a" misbehaves
      """
      [[fault]]
      when = { route = "live", seq = 3 }
      action = { oversize_event = { bytes = 40000000 } }
      """
    And ada says "behind a wall" in "lounge"
    Then soon the agent sees "behind a wall" in "lounge" without refreshing
    And every record of "lounge" is shown exactly once
    And the faults of host "a" did their work

  @LC-19 @LC-18 @must
  Scenario: Two rooms on one host are followed apart
    Given ada opened the public room "attic" on "a"
    And the agent is a speaker of "lounge"
    And the agent is a speaker of "attic"
    And the agent is subscribed to "lounge"
    And the agent is subscribed to "attic"
    When the live streams of "lounge" break
    And ada says "up here" in "attic"
    And ada says "down here" in "lounge"
    Then soon the agent sees "up here" in "attic" without refreshing
    And soon the agent sees "down here" in "lounge" without refreshing
    And every record of "attic" is shown exactly once
    And every record of "lounge" is shown exactly once
