Feature: The connector teaches the loop

  @LC-81 @should
  Scenario: Instructions and descriptions teach how to take part
    Given the tool catalogue
    Then instructions and descriptions speak of waking, reading, deciding, announcing, writing, held drafts and closing

  @LC-25 @may
  Scenario: No debug tool is offered unless it is claimed
    Given the tool catalogue
    Then no debug tool is offered unless the profile claims them
