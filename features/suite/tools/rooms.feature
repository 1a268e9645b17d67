Feature: Finding, listing and opening rooms

  @LC-T.rooms_search @must
  Rule: Search asks one host, with every filter

    Background:
      Given a host "a"
      And ada opened the room "garden" on "a" with
        """
        {"tags": ["plants"], "language": "en", "topic": "A garden of herbs"}
        """
      And ada opened the room "bakery" on "a" with
        """
        {"tags": ["bread"], "language": "fr", "topic": "Le pain"}
        """
      And bob opened the room "harbour" on "a" with
        """
        {"tags": ["ships"], "language": "en", "topic": "Ships at night",
         "start_time": "$(now 7200000)", "end_time": "$(now 9000000)"}
        """
      And bob opened the private room "cellar" on "a"

    Scenario: Without a filter every public room is found, and no other
      When the agent calls "rooms_search" on "a" given {}
      Then the rooms are "garden", "bakery", "harbour"

    Scenario Outline: <filter> narrows the search
      When the agent calls "rooms_search" on "a" given {"<filter>": <value>}
      Then the rooms are <rooms>

      Examples:
        | filter       | value            | rooms              |
        | tag          | "bread"          | "bakery"           |
        | keyword      | "herbs"          | "garden"           |
        | language     | "en"             | "garden", "harbour" |
        | creator      | "$(agent bob)"   | "harbour"          |
        | status       | "scheduled"      | "harbour"          |
        | starts_after | "$(now 3600000)" | "harbour"          |
        | ends_before  | "$(now 5000000)" | "garden", "bakery" |

    Scenario: Filters combine
      When the agent calls "rooms_search" on "a" given {"language": "en", "creator": "$(agent ada)"}
      Then the rooms are "garden"

    Scenario: Pages lead to the end, with every room once
      When the agent pages through the "rooms" of "rooms_search" on "a", 1 at a time
      Then the rooms are "garden", "bakery", "harbour"
      And there were at least 3 pages

    Scenario: A summary says what a room is
      When the agent calls "rooms_search" on "a" given {"tag": "bread"}
      Then the result "rooms.0.topic" is "Le pain"
      And the result "rooms.0.host" is "$(host a)"
      And the result "rooms.0.visibility" is "public"
      And the result "rooms.0.status" is "active"
      And the result "rooms.0.language" is "fr"

    Scenario: A host off the list is not asked
      Given a host "b" that is not on the list
      When the agent calls "rooms_search" on "b" given {}
      Then the call fails with a code and a message
      And host "b" was never contacted

    @reference
    Scenario: A host with bare lists is understood
      Given a host "plain" that answers with bare lists
      And ada opened the public room "attic" on "plain"
      When the agent calls "rooms_search" on "plain" given {}
      Then the rooms are "attic"

  @LC-T.rooms_list @must
  Rule: The list holds what is known locally

    Background:
      Given a host "a"
      And the agent founded the public room "mine" on "a"
      And ada opened the public room "joined" on "a"
      And the agent is a speaker of "joined"
      And ada opened the public room "watched" on "a"
      And the agent opened "watched"
      And ada opened the restricted room "asked" on "a"
      And the agent joins "asked" as speaker
      And ada opened the public room "unheard of" on "a"

    Scenario: Every known room is listed
      When the agent calls "rooms_list"
      Then the rooms are "mine", "joined", "watched", "asked"

    Scenario Outline: membership <membership> narrows the list
      When the agent calls "rooms_list" given {"membership": "<membership>"}
      Then the rooms are <rooms>

      Examples:
        | membership | rooms                               |
        | member     | "mine", "joined"                    |
        | creator    | "mine"                              |
        | moderator  | "mine"                              |
        | pending    | "asked"                             |
        | all        | "mine", "joined", "watched", "asked" |

    Scenario: status narrows the list
      Given the agent founded the public room "later" on "a" given {"start_time": "$(now 3600000)", "end_time": "$(now 7200000)"}
      When the agent calls "rooms_list" given {"status": "scheduled"}
      Then the rooms are "later"

    Scenario: Pages of the list lead to the end, with every room once
      When the agent pages through the "rooms" of "rooms_list", 1 at a time
      Then the rooms are "mine", "joined", "watched", "asked"

    Scenario: The list is local
      Given host "a" misbehaves
        """
        [[fault]]
        action = { refuse = {} }
        """
      When the agent calls "rooms_list" given {"membership": "member"}
      Then the rooms are "mine", "joined"

    Scenario: A summary of the list says what the agent is there and what waits
      When ada says "one" in "joined"
      And the agent refreshes "joined"
      And the agent calls "rooms_list" given {"membership": "member"}
      Then the result "rooms" contains {"room_id": "$(room joined)", "role": "speaker"}
      And the room "joined" of the result has unread messages

  @LC-T.room_open @must
  Rule: Opening makes a room known, verified and followed

    Background:
      Given a host "a"
      And ada opened the public room "lounge" on "a"
      And ada said "hello" in "lounge"

    Scenario: The whole history is verified before the answer
      When the agent opens "lounge"
      Then the result's sync names the head of "lounge"
      And the result "sync.subscribed" is false

    @should
    Scenario: The answer is the room's state
      When the agent opens "lounge"
      Then the result "room.topic" is "The lounge"
      And the result "room.creator" is "$(agent ada)"
      And the result "room.status" is "active"
      And the result "room.host" is "$(host a)"

    Scenario: Opening twice is opening once
      When the agent opens "lounge"
      And the agent opens "lounge"
      Then the result's sync names the head of "lounge"
      When the agent calls "rooms_list"
      Then the rooms are "lounge"

    Scenario: refresh reads the host again
      Given the agent opened "lounge"
      And ada said "news" in "lounge"
      When the agent calls "room_open" for "lounge" on "a" given {"refresh": true}
      Then the result's sync names the head of "lounge"

    Scenario: A member's room is followed live unless it says no
      Given the agent is a speaker of "lounge"
      And the agent is subscribed to "lounge"
      When the agent calls "room_open" for "lounge" on "a" given {"subscribe": false}
      Then the result "sync.subscribed" is false
      And soon nobody is subscribed to "lounge"
      When the agent calls "room_open" for "lounge" on "a" given {"subscribe": true}
      Then the result "sync.subscribed" is true
      And soon the agent is subscribed to "lounge"

    Scenario: A room that the host does not have
      When the agent calls "room_open" on "a" given {"room_id": "d8ftedhpqhsusbg00000"}
      Then the call fails with code "room_not_found"
      When the agent calls "rooms_list"
      Then the rooms are none

    Scenario Outline: A room id <what> is no other path
      Given we count from here
      When the agent calls "room_open" on "a" given {"room_id": <id>}
      Then the call fails with a code and a message
      And host "a" saw no request outside of "/v1/rooms/" but discovery since

      Examples:
        | what           | id                          |
        | of dots        | "../../v1/me/rooms"         |
        | with a query   | "x/../../me/rooms?limit=1"  |
        | encoded twice  | "%2e%2e%2fme%2frooms"       |
        | of two dots    | ".."                        |
        | of one dot     | "."                         |
        | with a part    | "$(room lounge)/archive"    |

    Scenario: The active turn is shown
      Given ada opened the room "court" on "a" with
        """
        {"types": [{"use": "adp:moderation/1.0"}]}
        """
      And ada sent "turn.update" to "court" with
        """
        {"turn_id": 7, "speaker": "$(agent)", "intent": "Please begin", "expires_at": "$(now 600000)"}
        """
      When the agent opens "court"
      Then the result "active_turn.speaker" is "$(agent)"
      And the result "active_turn.assigned_seq" is 2
      And the result "active_turn.instruction" is "Please begin"
      And the result "room.active_turn.speaker" is "$(agent)"

    Scenario: A turn whose time has passed is nobody's turn
      Given ada opened the room "court" on "a" with
        """
        {"types": [{"use": "adp:moderation/1.0"}]}
        """
      And ada sent "turn.update" to "court" with
        """
        {"turn_id": 7, "speaker": "$(agent)", "expires_at": "$(now 2500)"}
        """
      When the agent opens "court"
      Then soon "room_state" for "court" shows "room.active_turn" is null

  @LC-T.room_state @must
  Rule: The state is the verified local one

    Background:
      Given a host "a"
      And ada opened the room "lounge" on "a" with
        """
        {"agenda": "Tea", "types": [{"type": "tea.served", "kind": "signal", "title": "Tea is served", "schema": {"type": "object"}}]}
        """
      And the agent is a speaker of "lounge"

    @should
    Scenario: The state has contract, membership and counts
      When the agent looks at "lounge"
      Then the result's sync is complete
      And the result "room.room_id" is "$(room lounge)"
      And the result "room.agenda" is "Tea"
      And the result "room.visibility" is "public"
      And the result "room.members_count" is 2
      And the result "room.self_member.role" is "speaker"
      And the result "room.self_member.status" is "active"
      And the result has "room.start_time", "room.end_time" and "room.created_at"

    Scenario: include_types decides whether the definitions are there
      When the agent calls "room_state" for "lounge" given {"include_types": true}
      Then the result "room.types" contains {"type": "tea.served", "kind": "signal"}
      When the agent calls "room_state" for "lounge" given {"include_types": false}
      Then the result "room.types" lacks {"type": "tea.served"}

    Scenario: refresh reads the host
      Given the agent has called "room_open" for "lounge" on "a" given {"subscribe": false}
      And ada said "news" in "lounge"
      When the agent refreshes "lounge"
      Then the result's sync names the head of "lounge"

    Scenario: Without refresh the local state answers, host or no host
      Given host "a" misbehaves
        """
        [[fault]]
        action = { refuse = {} }
        """
      When the agent looks at "lounge"
      Then the result "room.agenda" is "Tea"

    Scenario: An unknown room is no guess
      When the agent calls "room_state" given {"room_id": "d8ftedhpqhsusbg00000"}
      Then the call fails with a code and a message
