//! What a successor reads.

use baton_core::handoff::render::{goal_and_now, render};

use crate::claude::working_session;

#[test]
fn a_session_becomes_a_short_document_of_facts() {
    insta::assert_snapshot!(render(&working_session().ledger(), None), @"");
}

#[test]
fn the_agents_own_words_come_first_and_the_facts_behind_them() {
    let body = render(&working_session().ledger(), Some("# Handoff\nFixed in `src/login.rs`.\n"));
    assert!(body.starts_with("# Handoff\nFixed in `src/login.rs`.\n\n# What the transcript shows\n\n## Goal\n"), "{body}");
}

#[test]
fn a_checkpoint_gets_the_users_goal_and_what_is_being_done() {
    let (goal, now) = goal_and_now(&working_session().ledger()).unwrap();
    assert_eq!((goal.as_str(), now.as_str()), ("Fix the login bug.", "Write the fix"));
}
