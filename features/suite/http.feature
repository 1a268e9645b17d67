@needs:http
Feature: The loopback HTTP endpoint

  Background:
    Given a host "a"
    And the connector also serves HTTP

  @LC-03 @must
  Scenario: The endpoint is on the loopback
    Then the endpoint's address is a loopback address

  @LC-03 @must
  Scenario Outline: A listen address that is not loopback is refused: <address>
    When the connector is asked to listen on "<address>"
    Then it does not serve beyond the loopback

    Examples:
      | address      |
      | 0.0.0.0:0    |
      | [::]:0       |

  @LC-06 @must
  Scenario Outline: <method> <with> is unauthorized before any MCP work
    When a <method> arrives with the headers
      | Host   | $(endpoint)                         |
      | Accept | application/json, text/event-stream |
      | <name> | <value>                             |
    Then the HTTP status is 401

    Examples:
      | method | with                    | name          | value                  |
      | POST   | without a token         | X-Nothing     | here                   |
      | GET    | without a token         | X-Nothing     | here                   |
      | DELETE | without a token         | X-Nothing     | here                   |
      | POST   | with a wrong token      | Authorization | Bearer wrong           |
      | GET    | with a wrong token      | Authorization | Bearer wrong           |
      | POST   | with half a token       | Authorization | Bearer $(half token)   |
      | POST   | with another scheme     | Authorization | Basic $(token)         |
      | POST   | with a bare token       | Authorization | $(token)               |

  @LC-04 @must
  Scenario Outline: A foreign Origin is refused although Host and token are right: <origin>
    When a POST arrives with the headers
      | Host          | $(endpoint)                         |
      | Accept        | application/json, text/event-stream |
      | Authorization | Bearer $(token)                     |
      | Origin        | <origin>                            |
    Then the HTTP status is 403

    Examples:
      | origin                       |
      | http://evil.test             |
      | https://localhost.evil.test  |
      | http://127.0.0.1.evil.test   |
      | null                         |
      | file://                      |
      | junk                         |

  @LC-05 @must
  Scenario Outline: A foreign Host is refused although the token is right: <host>
    When a POST arrives with the headers
      | Host          | <host>                              |
      | Accept        | application/json, text/event-stream |
      | Authorization | Bearer $(token)                     |
    Then the HTTP request is refused

    Examples:
      | host                          |
      | evil.test                     |
      | evil.test:$(port)             |
      | 127.0.0.1.evil.test:$(port)   |
      | localhost.evil.test:$(port)   |
      | 127.0.0.1:1                   |

  @LC-06 @LC-04 @LC-05 @must
  Scenario: With the right Host and token and without Origin the endpoint works
    When HTTP session "web" starts
    And session "web" calls "hosts_list"
    Then the result "hosts.0.host" is "$(host a)"

  @LC-37 @must
  Scenario: HTTP sessions have presented heads of their own
    Given ada opened the public room "lounge" on "a"
    When HTTP session "one" starts
    And HTTP session "two" starts
    And session "one" joins "lounge" as speaker
    And session "one" reads "lounge"
    And session "two" reads "lounge"
    And ada says "news" in "lounge"
    And session "two" reads "lounge"
    And session "two" says "I read it" in "lounge"
    Then the write is sent
    When session "one" says "I did not" in "lounge"
    Then the write is held

  @LC-06 @LC-10 @must
  Scenario: The token is in no output
    When HTTP session "web" starts
    And session "web" calls "identity_current"
    And a POST arrives with the headers
      | Host          | $(endpoint)   |
      | Authorization | Bearer wrong  |
    Then the token is in no output and not on stderr
