//! The user's inbox: messages from agents, answers to them, and what shows that something waits.

use std::process::Stdio;

use baton_testkit::Home;
use baton_testkit::home::run;
use baton_testkit::hooks::Client;
use baton_testkit::wait::{wait_for, wait_until};
use serde_json::Value;

use crate::BATON;

fn as_agent(home: &Home, client: &Client<'_>, args: &[&str]) -> baton_testkit::CommandOutput {
    let mut command = home.baton(args);
    client.dress(&mut command);
    run(&mut command)
}

fn short_of(home: &Home, text: &str) -> String {
    let list: Value = home.run("inbox --json").json();
    let found = list.as_array().unwrap().iter().find(|m| m["text"].as_str().unwrap().contains(text)).cloned();
    found.unwrap()["short"].as_str().unwrap().to_owned()
}

#[test]
fn a_message_to_the_user_is_shown_as_unread_everywhere_and_answered_by_its_id() {
    let home = Home::new(BATON);
    let client = Client::new(&home);
    client.starts("startup").silent();
    client.answers(100_000);
    assert!(!client.status_line(Some(100_000)).contains("for you"));
    as_agent(&home, &client, &["send", "user", "The release is out."]).ok();
    let line = client.status_line(Some(100_000));
    assert!(line.contains("✉ 1 for you"), "{line}");
    for verb in ["agents", "agents --tree", "status"] {
        let shown = home.run(verb).ok();
        assert!(shown.contains("1 unread message for you; `baton inbox`"), "{verb}: {shown}");
    }
    let id = short_of(&home, "release");
    let shown = home.run("inbox").ok();
    assert!(shown.contains(&id), "{shown}");
    assert!(!client.status_line(Some(100_000)).contains("for you"), "shown is read");
    assert!(!home.run("agents").ok().contains("unread"));
    assert!(home.run(&format!("reply {id} Announce it.")).ok().contains("app gets your answer"));
    let context = client.hook("UserPromptSubmit").ok().context().unwrap();
    assert!(context.contains("from user]") && context.contains("Announce it."), "{context}");
    assert!(home.run("reply 00000000 hello").fails(3).contains("there is no message 00000000"));
}

#[test]
fn an_agent_answers_its_own_messages_and_not_those_of_the_user() {
    let home = Home::new(BATON);
    let client = Client::new(&home);
    client.starts("startup").silent();
    as_agent(&home, &client, &["send", "user", "May I?"]).ok();
    let id = short_of(&home, "May I?");
    assert!(as_agent(&home, &client, &["reply", &id, "yes, said the user"]).fails(3).contains("no message"));
    let sent = home.run("send app how far are you? --json").json()["id"].as_str().unwrap().to_owned();
    client.hook("UserPromptSubmit").ok();
    as_agent(&home, &client, &["reply", &sent, "nearly there"]).ok();
    let inbox = home.run("inbox --json").json();
    let answer = inbox.as_array().unwrap().iter().find(|m| m["text"] == "nearly there").unwrap().clone();
    assert_eq!((&answer["reply_to"], &answer["from"]), (&sent.into(), &"app".into()));
}

#[test]
fn an_agent_that_asks_its_user_waits_shows_as_blocked_and_gets_the_answer_once() {
    let home = Home::new(BATON);
    let client = Client::new(&home);
    client.starts("startup").silent();
    client.hook("UserPromptSubmit").ok();
    let mut command = home.baton(["send", "user", "--ask", "Release now or tomorrow?"]);
    client.dress(&mut command);
    let asking = command.stdout(Stdio::piped()).spawn().unwrap();
    wait_until("it shows", || client.kept()["turn"] == "blocked");
    assert_eq!(client.kept()["blocked_on"], "Release now or tomorrow?");
    let shown = home.run("inbox").ok();
    assert!(shown.contains("waits for your answer: baton reply"), "{shown}");
    let id = short_of(&home, "Release now");
    home.run(&format!("reply {id} Tomorrow, please.")).ok();
    let output = asking.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "Tomorrow, please.\n");
    assert_eq!(client.kept()["turn"], "working");
    assert!(client.hook("PostToolUse").ok().context().is_none(), "it was printed");
    assert!(client.hook("UserPromptSubmit").ok().context().is_none(), "and is not given again");
    // Nobody answers in time, so the answer comes as a message.
    let late = as_agent(&home, &client, &["send", "user", "--ask", "--timeout", "100ms", "And the notes?"]);
    assert!(late.fails(1).contains("it comes as a message"));
    let id = short_of(&home, "And the notes?");
    home.run(&format!("reply {id} Short ones.")).ok();
    let context = wait_for("the answer", || client.hook("UserPromptSubmit").ok().context());
    assert!(context.contains("Short ones."), "{context}");
    assert!(home.run("send user --ask really?").fails(2).contains("--ask is for an agent"));
}
