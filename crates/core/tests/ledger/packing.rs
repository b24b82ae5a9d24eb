//! Into a budget.

use baton_core::handoff::pack::{chars_for_tokens, pack, pack_document};
use baton_core::ledger::text::sentences;
use proptest::prelude::*;

use crate::claude::{Transcript, working_session};

const POINTER: &str = "archive/HO-1.md";

fn long_session(messages: usize) -> Transcript {
    let mut session = Transcript::default().user("Build the importer. It must stream.");
    for i in 0..messages {
        session = session
            .user(&format!("Point {i}: never drop row {i}. Ünïcode — keep it as it is, please, and tell me."))
            .edit(&format!("/home/dev/app/src/part_{i}.rs"))
            .shell(&format!("cargo test part_{i}"), "test result: ok. 1 passed; 0 failed");
    }
    session.user("Now write the report.")
}

#[test]
fn what_the_next_turn_needs_goes_in_first_and_the_rest_is_counted() {
    insta::assert_snapshot!(pack(&long_session(40).ledger(), None, 1200, POINTER).text, @r#"
    ## Goal
    First request:
    ```
    Build the importer. It must stream.
    ```

    ## Now
    Latest request (not answered yet):
    ```
    Now write the report.
    ```

    ## The user's words (6 of 40)
    - Point 39: never drop row 39. Ünïcode — keep it as it is, please, and tell me.
    - Point 38: never drop row 38. Ünïcode — keep it as it is, please, and tell me.
    - Point 37: never drop row 37. Ünïcode — keep it as it is, please, and tell me.
    - Point 36: never drop row 36. Ünïcode — keep it as it is, please, and tell me.
    - Point 35: never drop row 35. Ünïcode — keep it as it is, please, and tell me.
    - Point 34: never drop row 34. Ünïcode — keep it as it is, please, and tell me.

    ## Git
    - branch: `fix/login`
    - folder: `/home/dev/app`

    ## Files changed (6 of 40)
    - edited · `src/part_39.rs`
    - edited · `src/part_38.rs`
    - edited · `src/part_37.rs`
    - edited · `src/part_36.rs`
    - edited · `src/part_35.rs`
    - edited · `src/part_34.rs`

    ## Commands (2 of 40)
    - test · ok (exit 0) · `cargo test part_39`
    - test · ok (exit 0) · `cargo test part_38`

    Left out for space: the user's words 34, files changed 34, commands 38. Whole: archive/HO-1.md
    "#);
}

#[test]
fn a_request_too_long_for_its_share_ends_with_a_sentence_and_says_how_much_is_missing() {
    let request = vec!["One more sentence of a long request."; 400].join(" ");
    let packed = pack(&Transcript::default().user(&request).ledger(), None, 2000, POINTER);
    assert!(packed.text.contains("of a long request.\n```\n("), "{}", packed.text);
    assert!(packed.text.contains("more characters)"));
}

#[test]
fn the_narrative_and_the_facts_share_the_budget() {
    let narrative =
        format!("# Handoff\n\n## Now\nWrite the report.\n\n## History\n{}", "A long story. ".repeat(600));
    let packed = pack(&long_session(40).ledger(), Some(&narrative), 4000, POINTER);
    assert!(packed.text.chars().count() <= 4000);
    assert!(packed.text.contains("Write the report."));
    assert!(packed.text.contains("# What the transcript shows"));
    assert!(packed.text.contains("Latest request"));
}

#[test]
fn a_document_keeps_its_head_and_its_most_valuable_sections() {
    let filler = "Some words about it.\n".repeat(60);
    let text = format!(
        "<!-- HANDOFF-ID: HO-1 -->\n# Handoff\nOne line.\n\n## History\n{filler}\n## Next steps\nShip it.\n\n## Trivia\n```\n# no heading\n```\n{filler}"
    );
    let packed = pack_document(&text, 700, POINTER);
    insta::assert_snapshot!(packed.text, @r#"
    <!-- HANDOFF-ID: HO-1 -->

    # Handoff
    One line.

    ## History
    Some words about it.
    Some words about it.
    Some words about it.
    Some words about it.
    Some words about it.
    Some words about it.
    Some words about it.
    Some words about it.
    Some words about it.
    Some words about it.
    Some words about it.
    Some words about it.
    Some words about it.
    Some words about it.
    Some words about it.
    Some words about it.
    Some words about it.
    Some words about it.
    Some words about it.
    Some words about it.
    Some words about it.
    Some words about it.

    ## Next steps
    Ship it.

    Left out for space (characters): History (798), Trivia (1290). Whole: archive/HO-1.md
    "#);
    assert_eq!(packed.dropped.len(), 2);
    assert_eq!(pack_document(&text, 10_000, POINTER).text, text.trim_end(), "what fits is not touched");
}

#[test]
fn four_characters_are_a_token() {
    assert_eq!(chars_for_tokens(4_000), 16_000);
}

proptest! {
    #[test]
    fn no_budget_is_exceeded_and_the_way_to_the_whole_is_there(budget in 0_usize..6000, messages in 0_usize..30) {
        let ledger = long_session(messages).ledger();
        let packed = pack(&ledger, None, budget, POINTER);
        prop_assert!(packed.text.chars().count() <= budget);
        if budget >= 60 {
            prop_assert!(packed.text.ends_with(POINTER), "{}", packed.text);
        }
        prop_assert_eq!(&packed, &pack(&ledger, None, budget, POINTER));
    }

    #[test]
    fn the_users_sentences_are_shown_whole_or_not_at_all(budget in 300_usize..4000) {
        let session = long_session(25);
        let packed = pack(&session.ledger(), None, budget, POINTER);
        for i in 0..25 {
            let said = format!("Point {i}: never drop row {i}. Ünïcode — keep it as it is, please, and tell me.");
            for sentence in sentences(&said) {
                let begun: String = sentence.chars().take(12).collect();
                if i < 10 || !packed.text.contains(&begun) {
                    continue;
                }
                prop_assert!(packed.text.contains(sentence), "{begun:?} is cut in {}", packed.text);
            }
        }
    }

    #[test]
    fn no_document_exceeds_its_budget(text in "(#{0,3} ?[a-zä `\n]{0,40}\n){0,40}", budget in 0_usize..900) {
        let packed = pack_document(&text, budget, POINTER);
        prop_assert!(packed.text.chars().count() <= budget);
        prop_assert_eq!(&packed, &pack_document(&text, budget, POINTER));
    }

    #[test]
    fn a_narrative_never_breaks_the_budget(narrative in "(#{0,2} ?[a-z `.0-9/\n]{0,60}\n){0,30}", budget in 0_usize..3000) {
        let packed = pack(&working_session().ledger(), Some(&narrative), budget, POINTER);
        prop_assert!(packed.text.chars().count() <= budget);
    }
}
