//! Packing into a budget.

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
    First request: Build the importer. It must stream.

    ## Now
    Latest request (not answered yet): Now write the report.

    ## The user's words (10 of 75)
    - Point 39: never drop row 39. Ünïcode — keep it as it is, please, and tell me.
    - Point 38: never drop row 38. Ünïcode — keep it as it is, please, and tell me.
    - Point 37: never drop row 37. Ünïcode — keep it as it is, please, and tell me.
    - Point 36: never drop row 36. Ünïcode — keep it as it is, please, and tell me.
    - Point 35: never drop row 35. Ünïcode — keep it as it is, please, and tell me.
    - Point 34: never drop row 34.
    - Point 33: never drop row 33.
    - Point 32: never drop row 32.
    - Point 31: never drop row 31.
    - Point 30: never drop row 30.

    ## Git
    - branch: `fix/login`
    - folder: `/home/dev/app`

    ## Working set: files, and the names in play there (11 of 40)
    - edited · `src/part_39.rs` · `src/part_38.rs` · `src/part_37.rs` · `src/part_36.rs` · `src/part_35.rs` · `src/part_34.rs` · `src/part_33.rs` · `src/part_32.rs`
    - edited · `src/part_31.rs` · `src/part_30.rs` · `src/part_29.rs`

    Left out for space: the user's words 65, working set 29, commands 40, recent activity 34. Whole: archive/HO-1.md
    "#);
}

#[test]
fn a_request_too_long_for_its_share_ends_with_a_sentence_and_says_how_much_is_missing() {
    let request = vec!["One more sentence of a long request."; 400].join(" ");
    let packed = pack(&Transcript::default().user(&request).ledger(), None, 2000, POINTER);
    assert!(packed.text.contains("(not answered yet): in part ("), "{}", packed.text);
    assert!(packed.text.contains("of a long request.\n"), "{}", packed.text);
}

/// The text has no sentence or line break, so no part of it could be shown whole; packing used to panic.
#[test]
fn a_long_message_without_a_sentence_break_is_packed() {
    let endless = ["word ".repeat(600), "\u{65e5}\u{672c}\u{8a9e}".repeat(900), "{\"a\":1,".repeat(700)];
    for middle in endless {
        let session = Transcript::default().user("Start the work.").agent("ok").user(&middle).agent("done");
        let ledger = session.user("Now the next thing.").ledger();
        for budget in [200, 1_000, 9_500, 60_000] {
            let packed = pack(&ledger, None, budget, POINTER);
            assert!(packed.text.chars().count() <= budget);
            assert!(budget < 1_000 || packed.text.contains("Now the next thing."), "{}", packed.text);
        }
    }
}

/// A session with far more names than fit: in files, in searches, and in outputs that belong to no file.
fn session_of_names() -> Transcript {
    let mut session = Transcript::default().user("Build the importer. Never edit the lock file.");
    for i in 0..30 {
        let names: Vec<String> =
            (0..20).map(|n| format!("    {n}→let value_{i}_{n} = load_part_{i}_{n}();")).collect();
        let path = format!("/home/dev/app/src/part_{i}.rs");
        session = session.tool("Read", &serde_json::json!({"file_path": path}), &names.join("\n"));
        let log: Vec<String> =
            (0..12).map(|n| format!("step {n} of run_{i}_{n} wrote artifact_{i}_{n}")).collect();
        session = session.shell(&format!("./deploy --stage stage_name_{i}"), &log.join("\n")).edit(&path);
    }
    session.user("Now write the report.")
}

#[test]
fn a_budget_is_used_up_before_anything_is_left_out() {
    for ledger in [session_of_names().ledger(), long_session(60).ledger()] {
        for budget in [3_000, 4_000, 6_000, 9_500, 16_000, 24_000, 40_000] {
            let packed = pack(&ledger, None, budget, POINTER);
            let size = packed.text.chars().count();
            assert!(size <= budget);
            assert!(
                packed.dropped.is_empty() || size * 100 >= budget * 95,
                "{size} of {budget}: {:?}\n{}",
                packed.dropped,
                packed.text
            );
        }
    }
}

#[test]
fn names_that_do_not_fit_are_counted_and_bare_ones_have_their_share() {
    let ledger = session_of_names().ledger();
    let small = pack(&ledger, None, 4_000, POINTER);
    assert!(small.dropped.iter().any(|(title, n)| title == "names" && *n > 500), "{:?}", small.dropped);
    let large = pack(&ledger, None, 40_000, POINTER).text;
    let bare = large.split("## Names used last, without a file\n").nth(1).unwrap().lines().next().unwrap();
    assert!(bare.chars().count() <= 40_000 * 15 / 100 + 2, "{bare}");
    assert!(large.contains("## Lines seen last, for the names in them\n- `step "), "{large}");
}

/// At 6,000 and 16,000 characters the share of names used to jump by a third of the budget.
#[test]
fn a_little_more_budget_never_changes_the_document_a_lot() {
    let ledger = session_of_names().ledger();
    let map = |budget: usize| {
        let text = pack(&ledger, None, budget, POINTER).text;
        let from = text.find("## Working set").unwrap();
        let end = text[from + 3..].find("\n## ").map_or(text.len(), |n| from + 3 + n);
        text[from..end].chars().count()
    };
    for budget in [5_980, 11_980, 15_980] {
        let (before, after) = (map(budget), map(budget + 40));
        assert!(before.abs_diff(after) < 400, "{budget}: {before} and {after}");
    }
}

/// "no" is a part of "now" and of a hundred other words.
#[test]
fn a_short_answer_is_never_taken_for_a_part_of_other_words() {
    let session = Transcript::default()
        .user("Now build the importer, and know that 2 nodes push at once.")
        .agent("Shall I drop the table?")
        .user("no")
        .agent("Shall I keep the log?")
        .user("yes")
        .agent("1. Retry.\n2. Give up.\nWhich one?")
        .user("2")
        .agent("And with the lock?")
        .user("no")
        .agent("Ready.")
        .user("push")
        .agent("Pushed.")
        .user("Now write the report, yes, all of it.");
    let packed = pack(&session.ledger(), None, 9_500, POINTER);
    for said in [
        "- asked \u{201c}Shall I drop the table?\u{201d}: no\n",
        "- asked \u{201c}Shall I keep the log?\u{201d}: yes\n",
        "- asked \u{201c}2. Give up.\u{201d}: 2\n",
        "- asked \u{201c}And with the lock?\u{201d}: no\n",
        "- push\n",
    ] {
        assert_eq!(packed.text.matches(said).count(), 1, "{said}{}", packed.text);
    }
    assert!(!packed.text.contains("- user: no"), "{}", packed.text);
    assert!(packed.dropped.is_empty(), "{:?}", packed.dropped);
}

#[test]
fn a_sentence_that_a_message_shows_is_not_said_again_and_not_counted_as_left_out() {
    let session = Transcript::default()
        .user("Build it. Never drop a row of the table.")
        .user("Go on with the tests.\n- Never drop a row of the table.\nThen stop.")
        .user("Done?");
    let packed = pack(&session.ledger(), None, 9_500, POINTER);
    assert_eq!(packed.text.matches("Never drop a row of the table.").count(), 2, "{}", packed.text);
    assert!(
        packed.text.lines().filter(|line| line.starts_with("## ")).all(|line| !line.ends_with(')')),
        "{}",
        packed.text
    );
}

#[test]
fn answers_of_twelve_contexts_are_all_carried() {
    let mut ledger = baton_core::ledger::Ledger::new();
    for context in 0..12 {
        let session = Transcript::default()
            .user(&format!("Now do step {context} of the port, nothing else."))
            .call(
                "q",
                "AskUserQuestion",
                &serde_json::json!({"questions": [{"question": format!("Keep part {context}?")}]}),
            )
            .result(
                "q",
                &format!("User has answered your questions: \"Keep part {context}?\"=\"No\"."),
                false,
            )
            .agent("ok");
        ledger.read(session.text().as_bytes()).unwrap();
        ledger = crate::authors::hop(ledger, context);
    }
    let packed = pack(&ledger, None, 9_500, POINTER);
    for context in 0..12 {
        let said = format!("- asked \u{201c}Keep part {context}?\u{201d}: No\n");
        assert!(packed.text.contains(&said), "{said}{}", packed.text);
    }
}

#[test]
fn an_agents_own_words_get_what_the_facts_leave_free() {
    let ledger = Transcript::default().user("Port the tests.").agent("ok").ledger();
    let section = |n: usize| {
        format!("## Part {n}\n{}\n", format!("Sentence {n} says what was found there. ").repeat(25))
    };
    let narrative: String = (0..7).map(section).collect();
    let packed = pack(&ledger, Some(&narrative), 9_500, POINTER);
    assert!(packed.text.contains(narrative.trim_end()), "{}", packed.text);
    assert!(packed.dropped.is_empty(), "{:?}", packed.dropped);
    // One that is far too long takes all that is free, whether its lines are short or endless.
    let endless = "One long line that goes on and on. ".repeat(900);
    for narrative in [(0..40).map(section).collect(), endless] {
        for (ledger, least) in [(&ledger, 0), (&session_of_names().ledger(), 3_000)] {
            let packed = pack(ledger, Some(&narrative), 9_500, POINTER);
            let (own, facts) = packed.text.split_once("# What the transcript shows").unwrap();
            assert!(packed.text.chars().count() >= 9_025, "{}", packed.text);
            assert!(own.chars().count() >= 4_200 && facts.chars().count() > least, "{}", packed.text);
        }
    }
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
    Some words about it.
    Some words about it.
    Some words about it.

    ## Next steps
    Ship it.

    Left out for space (characters): History (735), Trivia (1290). Whole: archive/HO-1.md
    "#);
    assert_eq!(packed.dropped.len(), 2);
    assert_eq!(pack_document(&text, 10_000, POINTER).text, text.trim_end(), "what fits is not touched");
}

#[test]
fn four_characters_are_a_token() {
    assert_eq!(chars_for_tokens(4_000), 16_000);
}

/// Texts of every shape that has broken the packer: without breaks, multi-byte, fences, quotes, JSON, blank.
fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        "(?s).{0,80}",
        "[a-z ]{0,40}[.!?] [A-Z][a-z ]{0,60}",
        ("[a-zé日\\n`{}\":,. ]{1,12}", 0_usize..900).prop_map(|(piece, times)| piece.repeat(times)),
        "(#{0,3} [a-z]{0,12}\n|```[a-z]{0,3}\n|> [a-z ]{0,20}\n|- [a-z]{0,8}\n|\n){0,30}",
        "[\u{200b}\u{202e}\u{1b}\r\n\t ]{0,40}",
    ]
}

fn any_session() -> impl Strategy<Value = Transcript> {
    let step = (0_u8..8, any_text(), any_text());
    proptest::collection::vec(step, 0..24).prop_map(|steps| {
        steps.into_iter().fold(Transcript::default(), |session, (what, a, b)| match what {
            0 | 1 => session.user(&a),
            2 => session.agent(&a),
            3 => session.shell(&a, &b),
            4 => session.shell_fails(&a, &b),
            5 => session.edit(&a),
            6 => session.tool("Read", &serde_json::json!({"file_path": a}), &b),
            _ => session.compacted(),
        })
    })
}

proptest! {
    #[test]
    fn any_session_is_packed_into_any_budget(session in any_session(), budget in 200_usize..60_000) {
        let ledger = session.ledger();
        let packed = pack(&ledger, None, budget, POINTER);
        prop_assert!(packed.text.chars().count() <= budget);
        prop_assert!(packed.text.ends_with(POINTER), "{}", packed.text);
        prop_assert_eq!(&packed, &pack(&ledger, None, budget, POINTER));
    }

    #[test]
    fn no_budget_is_exceeded_and_the_path_of_the_whole_is_there(budget in 0_usize..6000, messages in 0_usize..30) {
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
    fn with_a_narrative_a_budget_is_used_up_as_well(
        sections in proptest::collection::vec((1_usize..80, 1_usize..12), 1..12),
        budget in 3_000_usize..40_000,
        many_names in any::<bool>(),
    ) {
        let section = |(i, (lines, times)): (usize, &(usize, usize))| {
            let line = format!("Found in part {i}: {}", "it works as it should. ".repeat(*times));
            format!("## Part {i}\n{}\n", vec![line; *lines].join("\n"))
        };
        let narrative: String = sections.iter().enumerate().map(section).collect();
        let ledger = if many_names { session_of_names().ledger() } else { working_session().ledger() };
        let packed = pack(&ledger, Some(&narrative), budget, POINTER);
        let size = packed.text.chars().count();
        prop_assert!(size <= budget);
        prop_assert!(packed.dropped.is_empty() || size * 100 >= budget * 95, "{size} of {budget}: {:?}", packed.dropped);
    }

    #[test]
    fn a_narrative_never_breaks_the_budget(narrative in "(#{0,2} ?[a-z `.0-9/\n]{0,60}\n){0,30}", budget in 0_usize..3000) {
        let packed = pack(&working_session().ledger(), Some(&narrative), budget, POINTER);
        prop_assert!(packed.text.chars().count() <= budget);
    }
}
