//! Sessions that died without a SessionEnd.

use baton_testkit::Home;
use baton_testkit::hooks::Client;

use super::{asked, says};

/// A session that was killed: the next one in this channel gets its facts, once.
#[test]
fn a_session_that_died_without_an_end_is_offered_to_the_next_one_once() {
    let home = Home::new(crate::BATON);
    let dead = asked(&home, "Write the parser, never touch the grammar");
    let session = dead.session.clone();
    std::fs::remove_file(dead.transcript()).unwrap();
    drop(dead);
    let next = Client::new(&home);
    let heard = next.starts("startup");
    let context = heard.context().unwrap();
    assert!(context.contains("Type: crash") && context.contains(&session), "{context}");
    assert!(
        context.contains("never touch the grammar"),
        "from the mirror, the transcript is gone: {context}"
    );
    assert!(heard.message().unwrap().contains("ended unexpectedly"));
    next.hook("UserPromptSubmit").ok();
    next.hook("SessionEnd").ok();
    assert_eq!(Client::new(&home).starts("startup").context(), None, "once");
}

#[test]
fn sessions_that_live_ended_were_handed_over_or_belong_elsewhere_are_not_offered() {
    let home = Home::new(crate::BATON);
    let alive = asked(&home, "I am still here");
    let ended = asked(&home, "I have ended");
    ended.hook("SessionEnd").ok();
    drop(ended);
    // Nothing was ever said in it.
    let silent = Client::new(&home);
    silent.starts("startup").ok();
    silent.answers(10);
    silent.hook("PostToolUse").ok();
    drop(silent);
    let headless = Client::new(&home).headless();
    headless.starts("startup").ok();
    says(&headless, "A script asked");
    drop(headless);
    assert_eq!(Client::new(&home).starts("startup").context(), None);
    drop(alive);
}

/// The next plain start is offered only a plain client's work; a named agent sees a note on what else waits.
#[test]
fn a_named_agent_takes_only_what_is_addressed_to_it_and_is_told_of_the_rest() {
    let home = Home::new(crate::BATON);
    drop(asked(&home, "Write the parser"));
    home.write("agent.script", "turn\n  tokens 5%\n  say Hello.\n");
    let seen = home.path().join("seen.jsonl");
    let named = |name: &str| {
        let mut command = home.baton(["run", "--name", name, "demo", "-p", "Go."]);
        command.env("BATON_AGENT_SCRIPT", home.path().join("agent.script")).env("BATON_AGENT_SEEN", &seen);
        baton_testkit::home::run(&mut command).ok();
        std::fs::read_to_string(&seen).unwrap()
    };
    assert!(!named("lead").contains("HANDOFF LOADED"), "{}", named("lead"));
    let heard = Client::new(&home).starts("startup");
    assert!(heard.context().unwrap().contains("Write the parser"), "the next plain start has it: {heard:?}");
}
