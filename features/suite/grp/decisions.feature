Feature: Decisions, receipts and rooms

  @GT-01 @GT-05 @story-23 @must
  Scenario: Every receipt verifies and the chain holds to the conclusion
    Given ann opened the room "den" to decide "Tea or coffee?" between "tea / coffee" with the settings
      """
      {"type": "persistent"}
      """
    And bob took a seat in "den"
    And bob chose "tea" in "den"
    And ann called ask in "den" with
      """
      {"question": "And when?", "options": ["now", "later"]}
      """
    And bob chose "later" in "den"
    And ann called close_room in "den" with
      """
      {"statement": "Decided twice."}
      """
    Then the receipts of "den" verify and form one chain of 3

  @GT-05 @must
  Scenario: Every advertised mechanism is real
    Then every mechanism it advertises decides a question

  @GT-05 @story-20 @must
  Scenario: A closed room takes nothing more and still reads
    Given ann opened the room "den" to decide "Tea or coffee?" between "tea / coffee"
    And bob took a seat in "den"
    And bob chose "tea" in "den"
    And ann called close_room in "den"
    When bob tells "den": "one more thing"
    Then it is refused with "room.concluded"
    When eve takes a seat in "den"
    Then it is refused with "room.concluded"
    When ann calls ask in "den" with
      """
      {"question": "Again?", "options": ["a", "b"]}
      """
    Then it is refused with "room.concluded"
    When bob calls read_room in "den"
    Then it succeeds
    And its "/status" is "concluded"
    And its "/brief" matches "read-only"

  @GT-05 @story-21 @must
  Scenario: What a stranger learns of a hidden room
    Given ann opened the room "den" to decide "Whom to promote?" between "bob / eve" with the settings
      """
      {"visibility": "private"}
      """
    When GET /api/rooms/{room:den} is sent
    Then it is refused with "room.join_required"
    And its "/error/details/visibility" is "private"
    And its text lacks "promote"
    When GET /api/rooms/{room:den}/events is sent
    Then it is refused with "room.join_required"
    When GET /api/rooms/{room:den}/events/stream is sent
    Then it is refused with "room.join_required"
    When GET /api/rooms/{room:den}/decisions is sent
    Then it is refused with "room.join_required"
    When bob takes a seat in "den"
    Then it is refused with "room.invite_required"

  @GT-05 @story-11 @must
  Scenario: An option is its exact text before it is a number
    Given ann opened the room "den" to decide "Which number?" between "one / 3 / Nd5 / nd5 / tea, black" with the settings
      """
      {"early_close": false}
      """
    And bob took a seat in "den"
    And eve took a seat in "den"
    When bob chooses "3" in "den"
    Then its "/cast_choice" is "3"
    When eve chooses "#4" in "den"
    Then its "/cast_choice" is "nd5"
    When eve chooses "tea, black" in "den"
    Then its "/cast_choice" is "tea, black"
    When bob chooses "ND5" in "den"
    Then it is refused with "choice.invalid_option"

  @GT-05 @story-09 @story-10 @story-12 @must
  Scenario: Starting twice is one start, and an empty slate cannot start
    Given ann opened the room "den" for questions to come
    And ann called ask in "den" with
      """
      {"question": "What shall we call it?", "options": [], "proposal_window": 300}
      """
    When ann calls start_choosing in "den"
    Then it is refused
    Given ann called propose in "den" with
      """
      {"option": "Rover"}
      """
    When ann calls propose in "den" with
      """
      {"option": "Rover"}
      """
    Then it succeeds
    And its "/accepted" is false
    When ann calls start_choosing in "den"
    Then it succeeds
    When ann calls start_choosing in "den"
    Then it succeeds
    And its "/already_open" is true
    And "den" has 1 event "decision.voting_phase_started"

  @GT-05 @must
  Scenario: A room holds one open question unless it says more
    Given ann opened the room "den" for questions to come
    And ann called ask in "den" with
      """
      {"question": "First one?", "options": ["a", "b"]}
      """
    When ann calls ask in "den" with
      """
      {"question": "Second one?", "options": ["a", "b"]}
      """
    Then it is refused with "decision.already_open"
    And the status is 409
    And its "/error/message" matches "First one?"

  @GT-05 @story-16 @must
  Scenario: Abstaining counts for the quorum and not for the tally
    Given ann opened the room "den" to decide "Tea or coffee?" between "tea / coffee" with the settings
      """
      {"quorum": 2}
      """
    And bob took a seat in "den"
    And eve took a seat in "den"
    And bob chose "tea" in "den"
    When eve calls abstain in "den" with
      """
      {"reason": "I drink water."}
      """
    Then it succeeds
    And its "/resolved_winner" is "tea"
    And the receipts of "den" verify and form one chain of 1
    And its "/receipts/0/grp/votes" has 1 entry

  @GT-05 @story-18 @must
  Scenario: A quorum is a floor of the electorate
    Given ann opened the room "den" to decide "Tea or coffee?" between "tea / coffee" with the settings
      """
      {"quorum": 4}
      """
    And bob took a seat in "den"
    And eve took a seat in "den"
    And bob chose "tea" in "den"
    When eve chooses "tea" in "den"
    Then it succeeds
    And its "/status" is "voting"
    And its "/resolved_winner" is null

  @GT-05 @story-17 @must
  Scenario: An agreement waits for everybody and a split stays open
    Given ann opened the room "den" for questions to come with the settings
      """
      {"mechanism": "simple_majority"}
      """
    And bob took a seat in "den"
    And eve took a seat in "den"
    And ann called ask in "den" with
      """
      {"question": "Do we all agree?", "options": ["on this", "on that"], "agreement": true}
      """
    When eve calls wait in "den" with
      """
      {"wait": 0}
      """
    Then its "/status" is "timeout"
    Given bob chose "on this" in "den"
    When eve calls wait in "den" with
      """
      {"wait": 0}
      """
    Then its "/status" is "actionable"
    When eve chooses "on that" in "den"
    Then its "/status" is "voting"
    When eve calls abstain in "den" with
      """
      {"reason": "no"}
      """
    Then it is refused with "input.invalid"
    When eve chooses "on this" in "den"
    Then its "/resolved_winner" is "on this"
    And the receipts of "den" verify and form one chain of 1
    And its "/receipts/0/grp/mechanism/parameters/agreement" is true

  @GT-05 @story-17 @story-25 @must
  Scenario: agreement is a boolean and windows are whole seconds
    Given ann opened the room "den" for questions to come with the settings
      """
      {"mechanism": "simple_majority"}
      """
    When ann calls ask in "den" with
      """
      {"question": "Do we all agree?", "options": ["a", "b"], "agreement": "true"}
      """
    Then it is refused with "input.invalid"
    When POST /api/rooms is sent with
      """
      {"body": {"about": "x", "config": {"voting_window": "1h"}}}
      """
    Then it is refused with "input.invalid"
    When POST /api/rooms is sent with
      """
      {"body": {"about": "x", "config": {"voting_window": 59}}}
      """
    Then it is refused with "input.invalid"
    When POST /api/rooms is sent with
      """
      {"body": {"about": "x", "config": {"mechanism": "budget_allocation"}}}
      """
    Then it is refused with "input.invalid"

  @GT-05 @story-07 @must
  Scenario: Early close waits for whom the room expects
    Given ann opened the room "den" to decide "Tea or coffee?" between "tea / coffee"
    And bob took a seat in "den"
    And ann called invite_to_room in "den" with
      """
      {"label": "Carol"}
      """
    And the answer is kept as "invite"
    When bob chooses "tea" in "den"
    Then its "/status" is "voting"
    When ann calls revoke_invite in "den" with
      """
      {"code": "{kept:invite:/invite/code}"}
      """
    Then it succeeds
    When bob calls read_room in "den"
    Then its "/status" is "resolved"

  @GT-05 @story-14 @must
  Scenario: An older outcome does not end a wait for the open question
    Given ann opened the room "den" for questions to come
    And bob took a seat in "den"
    And ann called ask in "den" with
      """
      {"question": "First one?", "options": ["a", "b"]}
      """
    And bob chose "a" in "den"
    And ann called ask in "den" with
      """
      {"question": "Second one?", "options": ["a", "b"]}
      """
    And ann waits in "den" for completion up to 4 s
    Then ann still waits after 0.3 s
    When bob chooses "b" in "den"
    Then the wait of ann ends actionable within 3 s
    And its "/decision/seq" is 2

  @GT-05 @story-16 @must
  Scenario: Hidden choices stay out of the room and of the receipt
    Given ann opened the room "den" to decide "Tea or coffee?" between "tea / coffee" with the settings
      """
      {"choice_visibility": "never", "quorum": 2}
      """
    And bob took a seat in "den"
    And eve took a seat in "den"
    And bob chose "tea" in "den"
    When eve calls read_room in "den"
    Then it has no "/choices"
    When eve calls read_room in "den" with
      """
      {"include": "full"}
      """
    Then its "/votes" is null
    Given eve chose "tea" in "den"
    Then the receipts of "den" verify and form one chain of 1
    And its "/receipts/0/grp/votes" has 0 entries
    And its "/receipts/0/grp/outcome/tallies/tea" is 2

  @GT-22 @may
  Scenario: The event stream resumes where it broke off
    Given ann opened the room "den" to decide "Tea or coffee?" between "tea / coffee"
    And bob took a seat in "den"
    And bob called discuss in "den" with
      """
      {"body": "one"}
      """
    And bob called discuss in "den" with
      """
      {"body": "two"}
      """
    Then the event stream of bob in "den" repeats what came after event 3

  @GT-01 @must
  Scenario: The audit log is a chain
    Given ann opened the room "den" to decide "Tea or coffee?" between "tea / coffee"
    And bob took a seat in "den"
    And bob chose "tea" in "den"
    Then the audit chain of "den" holds
