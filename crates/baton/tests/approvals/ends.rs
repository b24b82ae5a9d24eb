//! How waiting ends when files, clients and subagents are not as they should be.

use super::*;

fn folder(home: &Home, row: &Value) -> std::path::PathBuf {
    home.state().join("approvals/waiting").join(row["id"].as_str().unwrap())
}

#[test]
fn a_hook_whose_record_was_removed_ends_and_says_nothing() {
    let home = home();
    let client = started(&home);
    let hook = bash(&client, "ls");
    let row = listed(&home, 1).remove(0);
    std::fs::remove_dir_all(folder(&home, &row)).unwrap();
    assert_eq!(hook.heard(), None);
}

#[test]
fn one_record_that_cannot_be_read_does_not_hide_the_others() {
    let home = home();
    let client = started(&home);
    let broken = bash(&client, "one");
    let dir = folder(&home, &listed(&home, 1)[0]);
    std::fs::write(dir.join("answer.json"), "{\"v\":1,\"at\":").unwrap();
    let hook = bash(&client, "two");
    let row = listed(&home, 1).remove(0);
    assert_eq!(row["input"]["command"], "two");
    assert!(home.run("log --faults").ok().contains("read a permission request"));
    run(&home, &["approve", &short(&row)]).ok();
    assert_eq!(hook.decision()["behavior"], "allow");
    drop(client);
    assert_eq!(broken.heard(), None);
}

#[test]
fn a_client_that_ended_before_its_hook_waits_is_not_waited_for() {
    let home = home();
    let client = started(&home);
    let payload = client
        .payload("PermissionRequest", json!({ "tool_name": "Bash", "tool_input": { "command": "ls" } }));
    let command = client.command("PermissionRequest");
    drop(client);
    assert_eq!(Waiting::start(command, &payload).heard(), None);
    assert_eq!(newest(&home)["answer"]["because"], "client-gone");
}

#[test]
fn a_subagent_in_the_background_outlives_the_turn_and_the_next_prompt() {
    let home = home();
    let client = started(&home);
    client.hook("UserPromptSubmit").ok();
    let asks = || {
        ask(
            &client,
            json!({ "agent_id": "a1", "agent_type": "general-purpose", "tool_name": "Bash",
                "tool_input": { "command": "make" } }),
        )
    };
    let (own, sub) = (bash(&client, "ls"), asks());
    listed(&home, 2);
    let tasks = json!([{ "id": "a1", "type": "subagent", "status": "running", "description": "Build" }]);
    client.hook_with("Stop", json!({ "background_tasks": tasks })).ok();
    assert_eq!(own.heard(), None);
    client.hook("UserPromptSubmit").ok();
    let row = listed(&home, 1).remove(0);
    assert_eq!(row["subagent"], "a1");
    run(&home, &["approve", &short(&row)]).ok();
    assert_eq!(sub.decision()["behavior"], "allow");
    // A subagent in the foreground is gone when its session's turn has ended.
    let sub = asks();
    listed(&home, 1);
    client.hook("Stop").ok();
    assert_eq!(sub.heard(), None);
}

#[test]
fn an_unknown_caller_is_not_taken_for_the_user() {
    let home = home();
    let client = started(&home);
    let hook = bash(&client, "ls");
    let id = short(&listed(&home, 1)[0]);
    // A newer baton wrote the record of a process above the command, so that process may be an agent.
    let record = home.state().join(format!("processes/{}.json", std::process::id()));
    std::fs::write(&record, "{\"v\":4000000000}").unwrap();
    for args in [&["approve", &id][..], &["deny", &id, "no"], &["approve", "--all", "--agent", "app"]] {
        let said = run(&home, args).fails(1);
        assert!(said.contains("it could not be determined who runs this command"), "{said}");
    }
    std::fs::remove_file(&record).unwrap();
    wait_until("it still waits", || listed(&home, 1).len() == 1);
    run(&home, &["approve", &id]).ok();
    assert_eq!(hook.decision()["behavior"], "allow");
}

/// The real client ends a waiting hook with SIGTERM when somebody says no in its dialog or leaves it with Esc; no event
/// follows.
#[test]
fn a_no_at_the_terminal_ends_the_waiting_and_the_turn() {
    let home = home();
    let client = started(&home);
    client.hook("UserPromptSubmit").ok();
    let hook = bash(&client, "ls");
    let id = short(&listed(&home, 1)[0]);
    let pid = rustix::process::Pid::from_raw(i32::try_from(hook.pid()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(hook.heard(), None);
    assert_eq!(newest(&home)["answer"]["because"], "dismissed");
    assert_eq!(client.kept()["turn"], "idle");
    home.run("approvals").fails(3);
    let late = run(&home, &["approve", &id]).fails(1);
    assert!(late.contains("refused or closed at the terminal"), "{late}");
}

#[test]
fn a_plan_that_can_be_read_is_accepted_and_one_that_cannot_is_not() {
    let home = home();
    let client = started(&home);
    let asks = |input: Value| ask(&client, json!({ "tool_name": "ExitPlanMode", "tool_input": input }));
    let hook = asks(json!({}));
    let said = run(&home, &["approve", &short(&listed(&home, 1)[0])]).fails(1);
    assert!(said.contains("baton attach app"), "{said}");
    client_ends(&client, hook);
    let plan = json!({ "plan": "# The plan\n1. Write it\n", "planFilePath": "/p/plan.md" });
    let hook = asks(plan.clone());
    listed(&home, 1);
    let screen = home.run("approvals").ok();
    assert!(screen.contains("    # The plan\n    1. Write it\n    in /p/plan.md\n"), "{screen}");
    run(&home, &["approve", &short(&listed(&home, 1)[0])]).ok();
    assert_eq!(
        hook.decision(),
        json!({ "behavior": "allow", "updatedInput": plan }),
        "it closes on nothing less"
    );
    client.hook_with("PostToolUse", json!({ "tool_name": "ExitPlanMode", "tool_input": {} })).ok();
    assert_eq!(newest(&home)["state"], "allowed");
}
