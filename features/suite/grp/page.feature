Feature: The shareable page

  @GT-23 @GT-24 @GT-26 @must
  Scenario: The page of a public room carries its state and a view for people
    Given ann opened the room "den" to decide "Tea or coffee?" between "tea / coffee" with the settings
      """
      {"visibility": "public"}
      """
    Then the page of "den" embeds its state as JSON
    And its "/question" is "Tea or coffee?"
    And its "/status" is "voting"
    And the page has nothing to submit with
    And the visible page shows "Tea or coffee?"
    And its header "content-type" contains "text/html"

  @GT-23 @must
  Scenario: Hostile text neither ends the script nor becomes markup
    Given ann opened the room "den" to decide "</script><script>alert(1)</script>" between "<img src=x onerror=alert(2)> / &amp; ]]>" with the settings
      """
      {"visibility": "public"}
      """
    Then the page of "den" embeds its state as JSON
    And its "/question" is "</script><script>alert(1)</script>"
    And its text lacks "<script>alert(1)"
    And its text lacks "<img src=x"

  @GT-23 @GT-07 @story-21 @must
  Scenario Outline: The page of a room that is <visibility> tells only how to get in
    Given ann opened the room "den" to decide "Whom to promote?" between "bob / eve" with the settings
      """
      {"visibility": "<visibility>"}
      """
    Then the page of "den" embeds its state as JSON
    And its "/join_required" is true
    And it has no "/question"
    And it has no "/participants"
    And its text lacks "Whom to promote?"
    And the page has nothing to submit with

    Examples:
      | visibility |
      | unlisted   |
      | private    |

  @GT-23 @must
  Scenario: A page that is not there is not found
    When GET /r/no-such-room is sent
    Then the status is 404

  @GT-07 @GT-23 @must
  Scenario: A token on the page's address is not repeated
    Given ann opened the room "den" to decide "Tea or coffee?" between "tea / coffee" with the settings
      """
      {"visibility": "public"}
      """
    When GET /r/{room:den}?token={token:ann:den} is sent
    Then the status is 200
    And its text lacks "{token:ann:den}"

  @GT-25 @GT-26 @must
  Scenario Outline: An act in a URL is refused: <method> <path>
    Given ann opened the room "den" to decide "Tea or coffee?" between "tea / coffee"
    And bob took a seat in "den"
    When <method> <path> is sent with
      """
      {"headers": {"authorization": "Bearer {token:bob:den}"}}
      """
    Then the status is one of 4xx
    And "den" has 0 events "choice.submitted"

    Examples:
      | method | path                                                         |
      | GET    | /api/rooms/{room:den}/choose?choice=tea                      |
      | GET    | /api/rooms/{room:den}?vote=yes&signature=AAAA                |
      | GET    | /r/{room:den}?vote=yes&signature=AAAA                        |
      | POST   | /api/rooms/{room:den}/choose?choice=tea&signature=AAAA       |
      | GET    | /api/rooms/{room:den}/next-action?wait=0&mandate=eyJhbGciOiJ |

  @GT-25 @must
  Scenario Outline: <verb> is no address to GET
    Given ann opened the room "den" to decide "Tea or coffee?" between "tea / coffee"
    And bob took a seat in "den"
    When GET /api/rooms/{room:den}/<verb> is sent with
      """
      {"headers": {"authorization": "Bearer {token:bob:den}"}}
      """
    Then the status is 405
    And its header "allow" contains "post"

    Examples:
      | verb           |
      | join           |
      | ask            |
      | start-choosing |
      | choose         |
      | abstain        |
      | discuss        |
      | options        |
      | close          |
