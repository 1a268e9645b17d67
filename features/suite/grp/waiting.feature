Feature: The long-poll floor

  @GT-18 @GT-19 @GT-20 @GT-26 @must
  Scenario Outline: A question wakes who waits for <what>, over <transport>
    Given the calls go over <transport>
    And ann opened the room "den" for questions to come
    And bob took a seat in "den"
    And bob waits in "den" for <what> up to 4 s
    And ann called ask in "den" with
      """
      {"question": "Where to meet?", "options": ["park", "library"]}
      """
    Then the wait of bob ends actionable within 3 s
    And its "/decision/question" is "Where to meet?"
    And its "/for" is "my_choice"

    Examples:
      | transport | what      |
      | REST      | my_choice |
      | REST      | my_vote   |
      | MCP       | my_choice |

  @GT-18 @story-28 @must
  Scenario Outline: An agent with a mandate waits without a token, over <transport>
    Given the calls go over <transport>
    And ann opened the room "den" to decide "Ship it?" between "yes / no"
    And mia holds a mandate
    And mia took a seat in "den"
    When mia calls wait in "den" with
      """
      {"wait": 0}
      """
    Then it succeeds
    And its "/status" is "actionable"

    Examples:
      | transport |
      | REST      |
      | MCP       |

  @GT-19 @must
  Scenario: Who has chosen is not woken again
    Given ann opened the room "den" to decide "Tea or coffee?" between "tea / coffee" with the settings
      """
      {"early_close": false}
      """
    And bob took a seat in "den"
    And bob chose "tea" in "den"
    When bob calls wait in "den" with
      """
      {"wait": 0.2}
      """
    Then it succeeds
    And its "/status" is "timeout"

  @GT-20 @must
  Scenario: Completion wakes when the decision is sealed
    Given ann opened the room "den" to decide "Tea or coffee?" between "tea / coffee"
    And bob took a seat in "den"
    And ann waits in "den" for completion up to 4 s
    When bob chooses "tea" in "den"
    Then it succeeds
    And the wait of ann ends actionable within 3 s
    And its "/decision/resolved_winner" is "tea"

  @GT-20 @story-10 @must
  Scenario: A question without options wakes nobody
    Given ann opened the room "den" for questions to come
    And bob took a seat in "den"
    And ann called ask in "den" with
      """
      {"question": "What shall we call it?", "options": []}
      """
    When bob calls wait in "den" with
      """
      {"wait": 0.2}
      """
    Then its "/status" is "timeout"

  @GT-20 @must
  Scenario: Only a known kind of waiting is taken
    Given ann opened the room "den" to decide "Tea or coffee?" between "tea / coffee"
    When ann calls wait in "den" with
      """
      {"for": "godot", "wait": 0}
      """
    Then it is refused with "input.invalid"

  @GT-21 @must
  Scenario Outline: A timeout says when to call again, over <transport>
    Given the calls go over <transport>
    And ann opened the room "den" to decide "Tea or coffee?" between "tea / coffee"
    When ann calls wait in "den" with
      """
      {"wait": 0.3}
      """
    Then it succeeds
    And its "/status" is "timeout"
    And its "/next_poll_at" matches "T"

    Examples:
      | transport |
      | REST      |
      | MCP       |

  @GT-19 @must
  Scenario Outline: A wait of <asked> s is clamped, not refused
    Given ann opened the room "den" to decide "Tea or coffee?" between "tea / coffee"
    When ann calls wait in "den" with
      """
      {"wait": <asked>}
      """
    Then it succeeds
    And its "/status" is "timeout"
    And it took between 0 and 55 s

    Examples:
      | asked  |
      | -5     |
      | 100000 |

  @GT-19 @story-19 @must
  Scenario: The creator who does not vote sleeps on
    Given ann opened the room "den" to decide "Tea or coffee?" between "tea / coffee"
    And bob took a seat in "den"
    And ann waits in "den" for my_choice up to 3 s
    Then ann still waits after 0.4 s
    When ann chooses "tea" in "den"
    Then it is refused with "choice.not_eligible or authority.denied"

  @GT-19 @must
  Scenario: A window that closes while one sleeps wakes the sleeper
    Given ann opened the room "den" to decide "Tea or coffee?" between "tea / coffee"
    And bob took a seat in "den"
    And ann waits in "den" for completion up to 4 s
    Then ann still waits after 0.3 s
    When the host's clock moves 601 s
    Then the wait of ann ends actionable within 3 s
    And its "/decision/resolved_outcome" is "no_pass"

  @GT-19 @must
  Scenario: A proposal window that ends while one sleeps wakes the one who owes
    Given ann opened the room "den" for questions to come
    And bob took a seat in "den"
    And ann called ask in "den" with
      """
      {"question": "Where to meet?", "options": ["park"], "proposal_window": 120}
      """
    And bob waits in "den" for my_choice up to 4 s
    Then bob still waits after 0.3 s
    When the host's clock moves 121 s
    Then the wait of bob ends actionable within 3 s
