//! Work that moves between agents of different providers.

use baton_testkit::Home;
use baton_testkit::codex::CodexClient;
use baton_testkit::hooks::Client;
use serde_json::{Value, json};

use crate::BATON;

/// A Claude Code session with a request and some work.
fn worked(home: &Home) -> Client<'_> {
    let client = Client::new(home);
    client.starts("startup").silent();
    client.record(&json!({ "type": "user", "uuid": "u1", "timestamp": "2026-11-16T01:00:00Z",
        "message": { "role": "user", "content": "Write the parser. Never use regular expressions." } }));
    client.answers(40_000);
    client.hook("Stop").silent();
    client
}

fn start(home: &Home, command: &str) -> Vec<String> {
    assert!(command.starts_with("baton run --name "), "{command}");
    let _ = home;
    baton::testing::words(command)
}

#[test]
fn a_person_hands_the_last_session_of_the_project_to_the_other_agent() {
    let home = Home::new(BATON);
    home.write("work/app/CLAUDE.md", "Be brief.");
    let client = worked(&home);
    let moved = home.run("handoff --to codex --json").json();
    assert_eq!(moved["provider"], "codex");
    let (agent, id) = (moved["agent"].as_str().unwrap(), moved["handoff"].as_str().unwrap());
    let words = start(&home, moved["command"].as_str().unwrap());
    assert_eq!(words[..5], ["baton", "run", "--name", agent, "codex"]);
    assert!(words[5].contains(id), "{words:?}");
    assert_eq!(words.len(), 6);
    let shown = home.run(&format!("handoffs show {id}")).ok();
    assert!(shown.contains("Never use regular expressions."), "{shown}");
    assert!(shown.contains("**Taken over from:** Claude Code; you are Codex."), "{shown}");
    assert!(shown.contains("The project's instructions are in CLAUDE.md"), "{shown}");
    assert!(shown.contains("## Instructions for Codex") && !shown.contains("for Claude"), "{shown}");
    assert_eq!(client.kept()["latches"]["handed_off"], true, "nobody asks it for another one");

    // The other client, as `baton run` starts it, gets the handoff; a third one does not while that client lives.
    let record = home.state().join(format!("agents/{agent}.json"));
    let mut kept: Value = serde_json::from_str(&std::fs::read_to_string(&record).unwrap()).unwrap();
    assert_eq!(kept["provider"], "codex");
    let mut codex = CodexClient::new(&home);
    let me = baton::testing::identify(codex.pid()).unwrap();
    kept["process"] = serde_json::to_value(&me).unwrap();
    std::fs::write(&record, kept.to_string()).unwrap();
    let mut other = CodexClient::new(&home);
    assert_eq!(other.starts("startup").context(), None, "it is addressed");
    let processes = home.state().join(format!("processes/{}.json", codex.pid()));
    std::fs::create_dir_all(processes.parent().unwrap()).unwrap();
    std::fs::write(&processes, json!({ "process": me, "agent": agent }).to_string()).unwrap();
    let context = codex.starts("startup").context();
    assert!(context.is_some_and(|c| c.contains("Never use regular expressions.")));
}

#[test]
fn an_agent_hands_over_its_own_words_and_one_that_runs_already_gets_mail() {
    let home = Home::new(BATON);
    let client = worked(&home);
    let mut codex = CodexClient::new(&home);
    codex.starts("startup").silent();
    let agent = codex.kept()["agent"].as_str().unwrap().to_owned();
    let mut command = home.baton(["handoff", "--to", &agent, "-"]);
    client.dress(&mut command);
    let heard =
        baton_testkit::hooks::send(command, b"# Where I am\nThe parser is half done: MY-OWN-WORDS.\n");
    assert_eq!(heard.code, Some(0), "{heard:?}");
    assert!(heard.out.contains("runs already and was notified by mail"), "{heard:?}");
    codex.prompt("anything new?").context().filter(|c| c.contains("baton handoffs load HO-")).unwrap();
    let history = home.run("handoffs --json").json();
    let id = history[0]["id"].as_str().unwrap().to_owned();
    assert!(home.run(&format!("handoffs load {id}")).ok().contains("MY-OWN-WORDS"));
}

#[test]
fn on_the_way_back_the_roles_are_exchanged() {
    let home = Home::new(BATON);
    let mut codex = CodexClient::new(&home);
    codex.starts("startup").silent();
    codex.says("user", "Finish the parser. Keep the grammar.");
    codex.prompt("Finish the parser. Keep the grammar.").silent();
    codex.stops(false).silent();
    let moved = home.run("handoff --to claude --json").json();
    let shown = home.run(&format!("handoffs show {}", moved["handoff"].as_str().unwrap())).ok();
    assert!(shown.contains("Keep the grammar."), "{shown}");
    assert!(shown.contains("**Taken over from:** Codex; you are Claude Code."), "{shown}");
}

#[test]
fn a_transfer_that_is_impossible_is_refused_with_the_reason() {
    let home = Home::new(BATON);
    assert!(home.run("handoff --to codex").fails(3).contains("no session of this project"));
    let client = worked(&home);
    assert!(
        home.run("handoff --to nobody")
            .fails(3)
            .contains("neither a provider (claude, codex, demo) nor an agent")
    );
    let own = client.agent();
    assert!(home.run(&format!("handoff --to {own}")).fails(1).contains("is the agent itself"));
}

#[test]
fn without_the_client_the_command_is_shown_with_how_to_install_it() {
    let home = Home::new(BATON);
    worked(&home);
    let mut command = home.baton(["handoff", "--to", "codex"]);
    let ran = baton_testkit::home::run(command.env("PATH", "/usr/bin:/bin"));
    assert!(ran.out.contains("npm install -g @openai/codex"), "{ran:?}");
    assert!(
        ran.out.contains("  baton run --name app-oak codex 'Continue where the loaded handoff HO-"),
        "{ran:?}"
    );
}
