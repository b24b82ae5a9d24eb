//! An agent's claims against what the transcript shows.

use baton_core::handoff::verify::{mark, unproven};

use crate::claude::{Transcript, working_session};

#[test]
fn claims_that_the_transcript_does_not_show_are_marked_in_place() {
    let narrative = "\
Fixed `src/login.rs` and src/session.rs in commit 1a2b3c4, then deadbee1.
PR #17 is open; coverage went from 71% to 93%.
All tests pass.
```
cargo test --test 4242
```";
    insta::assert_snapshot!(mark(narrative, &working_session().ledger()), @r#"
    Fixed `src/login.rs` and src/session.rs [unproven] in commit 1a2b3c4, then deadbee1 [unproven].
    PR #17 is open; coverage went from 71% [unproven] to 93% [unproven].
    All tests pass.
    ```
    cargo test --test 4242
    ```
    "#);
    assert_eq!(
        unproven(narrative, &working_session().ledger()),
        ["src/session.rs", "deadbee1", "71%", "93%"]
    );
}

#[test]
fn a_claim_of_passing_tests_needs_a_last_run_that_passed() {
    let failing = Transcript::default().user("Go.").shell_fails("cargo test", "Exit code 101\nFAILED");
    assert_eq!(mark("All tests pass now.", &failing.ledger()), "All tests pass [unproven] now.");
    assert_eq!(
        mark("The tests do not pass: make sure all tests pass.", &failing.ledger()),
        "The tests do not pass: make sure all tests pass."
    );
    let passing = failing.shell("cargo test", "test result: ok. 2 passed; 0 failed");
    assert_eq!(mark("All tests pass now.", &passing.ledger()), "All tests pass now.");
}

#[test]
fn text_that_is_not_a_claim_is_left_alone() {
    let ledger = working_session().ledger();
    for text in [
        "1. First do this.\n2. Then that.",
        "See https://example.com/a.html and version 1.2.3 of 2026-11-16.",
        "The function `login.verify()` e.g. returns early.",
        "<!-- CREATED: 2026-11-16T10:00:00Z -->",
        "Ask @someone, then wait.",
    ] {
        assert_eq!(mark(text, &ledger), text);
    }
}
