//! Who may answer, and who is recorded as the author of an answer.

use super::*;
use crate::world::QUIET;

/// Makes `approver` the approver of `agent`, as the user's `--approver` does, and with `parent` also its parent.
fn lead(home: &Home, agent: &str, approver: &str, parent: bool) {
    let path = home.state().join(format!("agents/{agent}.json"));
    let mut record = baton_testkit::home::record(&path);
    record["approver"] = json!(approver);
    if parent {
        record["parent"] = json!(approver);
    }
    std::fs::write(&path, record.to_string()).unwrap();
}

#[test]
fn an_approver_does_not_answer_for_its_child_with_more_rights() {
    let home = home();
    let (worker, chief) = (started(&home), started(&home));
    lead(&home, "app", "app-oak", true);
    let asks = |mode: &str| {
        ask(
            &worker,
            json!({ "permission_mode": mode, "tool_name": "Bash", "tool_input": { "command": "make" } }),
        )
    };
    let hook = asks("acceptEdits");
    let id = short(&listed(&home, 1)[0]);
    let said = as_agent(&home, &chief, &["approve", &id]).fails(1);
    assert!(said.contains("app runs with more rights than app-oak"), "{said}");
    client_ends(&worker, hook);
    let hook = asks("default");
    as_agent(&home, &chief, &["approve", &short(&listed(&home, 1)[0])]).ok();
    assert_eq!(hook.decision()["behavior"], "allow");
    // Now it is not the agent that gave those rights.
    let path = home.state().join("agents/app.json");
    let mut record = baton_testkit::home::record(&path);
    record.as_object_mut().unwrap().remove("parent");
    std::fs::write(&path, record.to_string()).unwrap();
    let hook = asks("acceptEdits");
    as_agent(&home, &chief, &["approve", &short(&listed(&home, 1)[0])]).ok();
    assert_eq!(hook.decision()["behavior"], "allow");
}

#[test]
fn an_option_that_an_agent_chose_stays_recorded_as_that_agents_choice() {
    let home = home();
    let (worker, chief) = (started(&home), started(&home));
    lead(&home, "app", "app-oak", false);
    let questions =
        json!([{ "question": "Which colour?", "options": [{ "label": "Red" }, { "label": "Blue" }] }]);
    let asks =
        || ask(&worker, json!({ "tool_name": "AskUserQuestion", "tool_input": { "questions": questions } }));
    let hook = asks();
    as_agent(&home, &chief, &["answer", &short(&listed(&home, 1)[0]), "2"]).ok();
    let input = hook.decision()["updatedInput"].clone();
    let answer = "Blue (answered by the agent app-oak)";
    assert_eq!(input["answers"], json!({ "Which colour?": answer }));
    // The client records it, and so does a handoff, but not as the user's words.
    worker.record(&json!({ "type": "assistant", "isSidechain": false, "uuid": "a", "timestamp": "2026-11-17T10:00:00.000Z",
        "message": { "role": "assistant", "id": "m", "content": [{ "type": "tool_use", "id": "toolu_q",
            "name": "AskUserQuestion", "input": { "questions": questions } }] } }));
    worker.record(
        &json!({ "type": "user", "isSidechain": false, "uuid": "b", "timestamp": "2026-11-17T10:00:01.000Z",
        "toolUseResult": { "questions": questions, "answers": input["answers"] },
        "message": { "role": "user", "content": [{ "type": "tool_result", "tool_use_id": "toolu_q",
            "content": format!("User has answered your questions: \"Which colour?\"=\"{answer}\".") }] } }),
    );
    let carried = seal(&home, &worker);
    let users = carried["words"]["answers"]["items"].as_array().cloned().unwrap_or_default();
    assert!(users.is_empty(), "{users:?}");
    let said = carried["words"]["recent"]["items"].to_string();
    assert!(said.contains("app-oak") && !said.contains("\"user\""), "{said}");
}

/// Seals a handoff; returns the ledger of this session.
fn seal(home: &Home, client: &Client<'_>) -> Value {
    let mut command = home.baton(["handoff", "-"]);
    client.dress(&mut command);
    baton_testkit::hooks::send(command, b"# Where I am\nHalf-way.\n").ok();
    client.hook("Stop").ok();
    let path = home.state().join(format!("ledgers/{}.json", client.session));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn the_reason_for_the_users_denial_is_carried_as_the_users_words() {
    let home = home();
    let client = started(&home);
    client.hook("UserPromptSubmit").ok();
    let hook = bash(&client, "rm -rf build");
    run(&home, &["deny", &short(&listed(&home, 1)[0]), "Never delete build: others use it."]).ok();
    hook.decision();
    let carried = seal(&home, &client);
    let said = carried["words"]["recent"]["items"].as_array().cloned().unwrap_or_default();
    let is_it = |said: &&Value| said["text"] == "Never delete build: others use it.";
    let denial = said.iter().find(is_it).unwrap_or_else(|| panic!("{carried}"));
    assert_eq!((&denial["way"], &denial["author"]), (&json!("refusal"), &json!("user")), "{denial}");
    assert_eq!(said.iter().filter(is_it).count(), 1);
}

#[test]
fn a_command_below_a_client_that_no_hook_knows_is_not_the_users() {
    let home = home();
    let client = started(&home);
    let hook = bash(&client, "ls");
    let id = short(&listed(&home, 1)[0]);
    // A client without our hooks, and Codex's daemon, whose shells can be recognised only by a variable.
    for (name, args) in [("claude", ""), ("codex", "app-server --listen unix://")] {
        let program = home.path().join(name);
        std::os::unix::fs::symlink("/bin/bash", &program).unwrap();
        let script = format!("'{}' approve {id}; exit $?", home.binary().display());
        let mut below = home.command(&program);
        below.args(["-c", &script, name]).args(args.split(' '));
        let said = baton_testkit::home::run(&mut below).fails(1);
        assert!(said.contains("it could not be determined who runs this command"), "{said}");
    }
    run(&home, &["approve", &id]).ok();
    assert_eq!(hook.decision()["behavior"], "allow");
}

#[test]
fn no_agent_takes_the_name_of_an_approver() {
    let Some(world) = World::new(QUIET) else { return };
    let unknown = world.spawn("worker", &["--approver", "boss"]).fails(3);
    assert!(unknown.contains("there is no agent boss that could be the approver"), "{unknown}");
    let mut run = world.home.baton(["run", "--approver", "boss", "--demo"]);
    assert!(baton_testkit::home::run(&mut run).fails(3).contains("no agent boss"));
    world.ready("boss");
    world.spawn("worker", &["--approver", "boss"]).ok();
    world.ready("rogue");
    let by = |name: &str, args: &[&str]| {
        let mut command = world.command(args);
        command.env("CLAUDE_SESSION_MANAGER_ID", name);
        baton_testkit::home::run(&mut command)
    };
    let away = by("boss", &["rename", "boss", "chief"]).fails(1);
    assert!(
        away.contains("only the user may give or take the name boss, which answers for worker"),
        "{away}"
    );
    world.baton(&["retire", "boss"]).ok();
    std::fs::remove_file(world.home.state().join("agents/boss.json")).unwrap();
    for args in [
        &["rename", "rogue", "boss"][..],
        &["spawn", "boss", "--provider", "demo"],
        &["run", "--name", "boss", "--demo"],
    ] {
        let said = by("rogue", args).fails(1);
        assert!(said.contains("only the user may give or take the name boss"), "{args:?}: {said}");
    }
    world.baton(&["rename", "rogue", "boss"]).ok();
    assert_eq!(world.agent("worker")["approver"], "boss", "the user may");
}

#[test]
fn no_agent_comes_by_a_name_of_which_rules_speak_or_leaves_one() {
    let home = Home::new(BATON);
    let rules = "[approvals]\nwait_for = \"all\"\n[approvals.agents.reviewer]\nallow = [\"Bash(make:*)\"]\n\
                 [approvals.trees.app]\ndeny = [\"Bash(rm:*)\"]\n";
    home.write(".config/baton/config.toml", rules);
    let client = started(&home);
    assert_eq!(client.agent(), "app", "whoever a person starts there has the folder's name");
    for (from, to) in [("app", "reviewer"), ("app", "free")] {
        let said = as_agent(&home, &client, &["rename", from, to]).fails(1);
        assert!(said.contains("only the user may give or take the name"), "{said}");
    }
    // A client that an agent starts in a folder of that name.
    let folder = home.path().join("work/reviewer");
    std::fs::create_dir_all(&folder).unwrap();
    let child = Client::new(&home).env("CLAUDE_SESSION_MANAGER_ID", "app");
    child.hook_with("SessionStart", json!({ "cwd": folder })).ok();
    assert_eq!(child.agent(), "reviewer-oak");
    let said = run(&home, &["rename", "app", "reviewer"]).ok();
    assert!(said.contains("[approvals] in ~/.config/baton/config.toml still says app"), "{said}");
}
