//! The whole cycle, as an agent and its user experience it.

use baton_testkit::Home;
use baton_testkit::agent::Script;
use baton_testkit::hooks::register;

use crate::BATON;

/// 40 % → 52 % (one sentence) → 55 % (silence) → 67 % (request) → handoff → clear → loaded → 52 % (one sentence
/// again).
#[test]
fn an_agent_is_told_once_hands_over_and_its_successor_knows_what_it_knew() {
    let home = Home::new(BATON);
    register(&home);
    let script = "
        window 200k
        asked obey
        context
        turn
          tokens 40%
          bash echo looking around
        turn
          tokens 52%
          bash echo first half
        turn
          tokens 55%
          bash echo second half
        turn
          tokens 67%
          bash echo nearly there
          note Make the last test pass.
        context
        turn
          recall
          tokens 52%
          bash echo on with it
    ";
    let played =
        Script::new(&home, script).play(&["fix it", "go on", "go on", "go on", "/clear", "continue"]);
    assert_eq!(played.ran.code, Some(0), "{}", played.ran.err);

    // The files in play come with the first prompt of the fresh context.
    let (files, heard): (Vec<_>, Vec<_>) =
        played.texts("context").into_iter().partition(|text| text.contains("FILES IN PLAY"));
    assert_eq!(files.len(), 1, "{files:#?}");
    assert_eq!(heard.len(), 4, "{heard:#?}");
    assert!(heard[0].starts_with("[baton] Context is 52% full (104k of 200k tokens"), "{}", heard[0]);
    assert!(heard[0].contains("you will be asked for a handoff at 65%"), "{}", heard[0]);
    assert!(heard[1].starts_with("[baton] Context is 67% full (134k of 200k tokens"), "{}", heard[1]);
    assert!(heard[1].contains("run `baton handoff .baton/handoff-app.md`"), "{}", heard[1]);
    assert!(heard[2].starts_with("=== HANDOFF LOADED (ID: HO-"), "{}", heard[2]);
    assert!(heard[2].contains("Make the last test pass."), "{}", heard[2]);
    assert!(heard[3].starts_with("[baton] Context is 52% full"), "a new cycle, so once more: {}", heard[3]);

    let said = played.texts("said");
    assert!(said.contains(&"I continue from the handoff. Next: Make the last test pass."), "{said:#?}");
    let user: Vec<_> = played.texts("message").iter().map(|m| m.split(" HO-").next().unwrap()).collect();
    assert_eq!(user.len(), 3, "{user:#?}");
    assert!(user[0].ends_with("the agent was asked for a handoff"), "{}", user[0]);
    assert_eq!(user[1..], ["baton: handoff", "baton: continuing from handoff"]);
    assert!(played.hook_codes().iter().all(|code| *code == 0));
    assert_eq!(played.texts("invalid"), [""; 0], "every answer is one that the client takes");

    let history = home.run("handoffs history --json").ok();
    assert_eq!(history.matches("\"what\": \"consumed\"").count(), 1, "{history}");
}

/// The same when the agent says nothing: what the transcript proves is sealed for it.
#[test]
fn an_agent_that_does_not_answer_is_asked_once_and_a_handoff_is_sealed_for_it() {
    let home = Home::new(BATON);
    register(&home);
    let script = "
        asked ignore
        context
        turn
          tokens 70%
          bash echo cargo test: 3 failed
        turn
          bash echo still at it
        context
        turn
          say What now?
    ";
    let played = Script::new(&home, script).play(&["fix the parser", "go on", "/clear", "go on"]);
    let heard = played.texts("context");
    assert_eq!(heard.len(), 2, "asked once, loaded once: {heard:#?}");
    assert!(heard[0].contains("baton handoff"), "{}", heard[0]);
    assert!(heard[1].contains("Type: auto"), "{}", heard[1]);
    assert!(heard[1].contains("fix the parser"), "the user's words are kept: {}", heard[1]);
    let told = played.texts("message").iter().any(|m| m.contains("type /clear to continue from it"));
    assert!(told, "{:#?}", played.texts("message"));
}

#[test]
fn compaction_that_came_first_is_survived_by_what_the_transcript_proves() {
    let home = Home::new(BATON);
    register(&home);
    let script = "
        asked ignore
        context
        turn
          tokens 95%
          bash echo the error is in src/lexer.rs
          bash echo next
          say It is in the lexer.
        turn
          tokens 52%
          bash true
    ";
    let played = Script::new(&home, script).play(&["find the bug", "go on"]);
    let heard = played.texts("context");
    assert_eq!(heard.len(), 3, "asked, compacted and loaded, told once in the new cycle: {heard:#?}");
    assert!(heard[1].starts_with("=== HANDOFF LOADED"), "{}", heard[1]);
    assert!(heard[1].contains("Type: precompact") && heard[1].contains("find the bug"), "{}", heard[1]);
    assert!(heard[2].starts_with("[baton] Context is 52% full"), "{}", heard[2]);
    assert_eq!(played.texts("instructions"), [""; 0], "nothing of ours becomes part of the summary's orders");
}
