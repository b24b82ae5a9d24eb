//! Who speaks and who may: a message names its true sender, and an agent acts only on itself and its descendants.

use std::process::Command;

use baton_testkit::daemon::Served;
use baton_testkit::hooks::Client;
use baton_testkit::{CommandOutput, Home, tools};

use crate::BATON;

fn as_agent(home: &Home, client: &Client<'_>, line: &str) -> CommandOutput {
    let mut command = home.baton(line.split(' '));
    client.dress(&mut command);
    baton_testkit::home::run(&mut command)
}

fn parent_of(home: &Home, child: &str, parent: &str) {
    let path = home.state().join(format!("agents/{child}.json"));
    let mut record = baton_testkit::home::record(&path);
    record["parent"] = parent.into();
    std::fs::write(path, record.to_string()).unwrap();
}

#[test]
fn an_agent_cannot_send_as_the_user_or_as_another() {
    let home = Home::new(BATON);
    let (ada, bob) = (Client::new(&home), Client::new(&home));
    ada.starts("startup").ok();
    bob.starts("startup").ok();
    for from in ["user", "app-oak"] {
        let said = as_agent(&home, &ada, &format!("send app-oak --from {from} hello")).fails(1);
        assert!(said.contains("cannot send in the name of"), "{said}");
    }
    as_agent(&home, &ada, "send app-oak --from app hello").ok();
    as_agent(&home, &ada, "send app-oak again").ok();
    let inbox = home.run("inbox app-oak --json").json();
    let from: Vec<_> = inbox.as_array().unwrap().iter().map(|m| m["from"].as_str().unwrap()).collect();
    assert_eq!(from, ["app", "app"]);
    let said = home.run("send app-oak --from app hello").fails(1);
    assert!(said.contains("run by user"), "{said}");
}

/// The client's own process is the parent here, as it is of everything that an agent runs.
#[test]
fn an_agent_that_unsets_its_variables_is_still_an_agent() {
    let home = Home::new(BATON);
    let client = Client::new(&home);
    client.starts("startup").ok();
    // A client that runs `baton` as its child is recognised by its record, whatever the variables say.
    let mut shell = home.command("sh");
    let script = format!(
        "CLAUDE_PID=$$ CLAUDECODE=1 {BATON} hook SessionStart < start.json > /dev/null; \
         env -u CLAUDECODE -u CLAUDE_CODE_SESSION_ID {BATON} trust; echo $?"
    );
    let payload = client.payload(
        "SessionStart",
        serde_json::json!({ "source": "startup", "session_id": baton_testkit::hooks::session_id() }),
    );
    std::fs::write(home.project().join("start.json"), payload.to_string()).unwrap();
    let output = shell.current_dir(home.project()).args(["-c", &script]).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(out.trim(), "1", "{err}");
    assert!(err.contains("only the user may accept a folder"), "{err}");
}

#[test]
fn an_agent_retires_itself_and_its_descendants_and_nobody_else() {
    let home = Home::new(BATON);
    let clients: Vec<Client<'_>> = (0..4).map(|_| Client::new(&home)).collect();
    for client in &clients {
        client.starts("startup").ok();
    }
    // app is the parent of app-oak, which is the parent of app-elm; app-ash has no parent.
    parent_of(&home, "app-oak", "app");
    parent_of(&home, "app-elm", "app-oak");
    for (by, whom) in [(2, "app-oak"), (2, "app"), (1, "app"), (0, "app-ash"), (3, "app")] {
        for verb in ["retire", "rotate", "undo", "adopt", "agents restore"] {
            let said = as_agent(&home, &clients[by], &format!("{verb} {whom}")).fails(1);
            assert!(said.contains("ask the user"), "{verb} {whom} by {by}: {said}");
        }
    }
    as_agent(&home, &clients[0], "retire app-elm").ok();
    as_agent(&home, &clients[1], "retire app-oak").ok();
}

/// What `line` prints in its own session after init has adopted it; before that it is still in this test's tree.
fn cut_loose(home: &Home, line: &str) -> String {
    let said = home.project().join("said");
    let _ = std::fs::remove_file(&said);
    let script = format!(
        "n=0; while [ $n -lt 2000 ] && [ \"$(cut -d' ' -f4 /proc/$$/stat)\" != 1 ]; do n=$((n+1)); done; \
         touch started; {{ {line}; }} > said.part 2>&1; mv said.part said"
    );
    let mut setsid = home.command("setsid");
    setsid.args(["-f", "sh", "-c", &script]).current_dir(home.project());
    assert!(setsid.status().unwrap().success());
    baton_testkit::wait::wait_until("the command has ended", || said.exists());
    std::fs::read_to_string(&said).unwrap()
}

/// `setsid -f` and the like leave the client's process tree; a terminal, a script or cron look different.
#[test]
fn a_command_detached_from_its_process_tree_is_not_the_users() {
    if !tools::has(&["setsid"]) {
        return;
    }
    let home = Home::new(BATON);
    let detour = |line: &str| cut_loose(&home, &format!("{BATON} {line}"));
    // Without any agent, only the user can have started it.
    assert!(detour("trust").contains("is accepted"));
    home.run("trust --forget").ok();
    let client = Client::new(&home);
    client.starts("startup").ok();
    for line in ["trust", "memory init", "install --project --yes"] {
        let said = detour(line);
        assert!(said.contains("only the user may") && said.contains("has no terminal"), "{line}: {said}");
    }
    let said = detour("retire app");
    assert!(said.contains("ask the user"), "{said}");
    // The user's own script has no terminal either, like this test.
    home.run("trust").ok();
}

/// A process that left the tree can claim any name, because it sets its own variables.
#[test]
fn a_detached_command_cannot_borrow_an_agents_name() {
    if !tools::has(&["setsid"]) {
        return;
    }
    let home = Home::new(BATON);
    let (parent, child) = (Client::new(&home), Client::new(&home));
    parent.starts("startup").ok();
    child.starts("startup").ok();
    parent_of(&home, "app-oak", "app");
    for (variable, value) in
        [("CLAUDE_SESSION_MANAGER_ID", "app"), ("CLAUDE_CODE_SESSION_ID", parent.session.as_str())]
    {
        let said = cut_loose(&home, &format!("{variable}={value} {BATON} retire app"));
        assert!(said.contains("ask the user"), "{variable}: {said}");
        let said = cut_loose(&home, &format!("{variable}={value} {BATON} send app-oak --from app hello"));
        assert!(said.contains("cannot send in the name of"), "{variable}: {said}");
    }
    assert!(home.run("agents --json").out.contains("\"app\""), "it is still there");
}

/// Processes that a client leaves behind do not become the user when that client ends.
#[test]
fn a_detached_command_is_not_the_users_after_its_client_has_ended() {
    if !tools::has(&["setsid"]) {
        return;
    }
    let home = Home::new(BATON);
    let client = Client::new(&home);
    client.starts("startup").ok();
    let go = home.project().join("go");
    let waits = format!("while [ ! -e {} ]; do :; done; {BATON} trust", go.display());
    let said = std::thread::scope(|scope| {
        let orphan = scope.spawn(|| cut_loose(&home, &waits));
        baton_testkit::wait::wait_until("it waits", || home.project().join("started").exists());
        client.hook("SessionEnd").ok();
        drop(client);
        Client::new(&home).starts("startup").ok();
        std::fs::write(&go, "").unwrap();
        orphan.join().unwrap()
    });
    assert!(said.contains("only the user may"), "{said}");
}

#[test]
fn an_agent_spawns_with_harmless_options_for_itself_and_under_a_free_name() {
    let home = Home::new(BATON);
    let clients: Vec<Client<'_>> = (0..2).map(|_| Client::new(&home)).collect();
    for client in &clients {
        client.starts("startup").ok();
    }
    for (line, why) in [
        (
            "spawn w --provider demo -- --dangerously-skip-permissions",
            "may not give \"--dangerously-skip-permissions\"",
        ),
        (
            "spawn w --provider demo -- --permission-mode bypassPermissions",
            "may not give \"--permission-mode\"",
        ),
        ("spawn w --provider demo -- --settings x.json", "may not give \"--settings\""),
        ("spawn w --provider demo --parent app-oak", "ask the user"),
        ("spawn app-oak --provider demo", "ask the user"),
    ] {
        let said = as_agent(&home, &clients[0], line).fails(1);
        assert!(said.contains(why), "{line}: {said}");
    }
    assert!(!home.state().join("agents/w.json").exists());
}

/// Through a link, git would create the worktree in another folder.
#[test]
fn a_work_tree_is_made_in_a_folder_of_ours_and_nowhere_else() {
    if !tools::has(&["git"]) {
        return;
    }
    let home = Home::new(BATON);
    let project = home.project();
    let outside = home.path().join("outside");
    std::fs::create_dir_all(&outside).unwrap();
    let git = |args: &[&str]| {
        let mut git = home.command("git");
        git.current_dir(&project).args(["-c", "user.name=t", "-c", "user.email=t@t"]).args(args);
        assert!(git.output().unwrap().status.success(), "{args:?}");
    };
    git(&["init", "-q"]);
    git(&["commit", "-q", "--allow-empty", "-m", "one"]);
    std::os::unix::fs::symlink(&outside, project.join(".baton")).unwrap();
    let said = home.run("spawn w --worktree --provider demo").fails(1);
    assert!(said.contains(".baton is not baton's own"), "{said}");
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
    // It contains our names but came from an archive: nothing shows that we created it.
    std::fs::remove_file(project.join(".baton")).unwrap();
    std::fs::create_dir_all(project.join(".baton/worktrees/w/.git")).unwrap();
    std::fs::write(project.join(".baton/.gitignore"), "*\n").unwrap();
    let _ = std::fs::remove_file(project.join(".git/index"));
    let said = home.run("spawn w --worktree --provider demo").fails(1);
    assert!(said.contains(".baton is not baton's own"), "{said}");
    assert!(!home.state().join("agents/w.json").exists());
}

/// Whoever can write into it reads what an agent hands over, and puts other words in their place.
#[test]
fn an_agent_is_offered_no_folder_that_somebody_else_can_write_into() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = Home::new(BATON);
    let project = home.project();
    let folder = project.join(".baton");
    // As a version before the list of folders would have left it.
    std::fs::create_dir_all(project.join(".git")).unwrap();
    std::fs::write(project.join(".git/index"), b"DIRC\0\0\0\x02\0\0\0\0").unwrap();
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join(".gitignore"), "*\n").unwrap();
    let asked = || {
        let client = Client::new(&home);
        client.starts("startup").ok();
        client.answers(150_000);
        client.hook("PostToolUse").context().unwrap()
    };
    assert!(asked().contains(".baton/handoff-"), "{}", asked());
    let mode = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(&folder, 0o777);
    assert!(!asked().contains(".baton/handoff-"), "{}", asked());
    mode(&folder, 0o755);
    if Command::new("chown").arg("12345").arg(&folder).status().unwrap().success() {
        assert!(!asked().contains(".baton/handoff-"), "{}", asked());
    }
    // A folder like /tmp, where somebody put a `.git`.
    std::fs::remove_dir_all(&folder).unwrap();
    mode(&project, 0o1777);
    assert!(!asked().contains(".baton/handoff-"), "{}", asked());
    let inside = project.join("mine");
    std::fs::create_dir(&inside).unwrap();
    let channel = baton_testkit::home::run(home.baton(["channel"]).current_dir(&inside)).ok();
    assert_eq!(channel.trim(), "global");
}

#[test]
fn an_agent_clears_its_own_handoffs_and_nobody_elses() {
    let home = Home::new(BATON);
    let clients: Vec<Client<'_>> = (0..2).map(|_| Client::new(&home)).collect();
    for client in &clients {
        client.starts("startup").ok();
    }
    home.write("work/app/doc.md", "A person's words.\n");
    home.run("handoffs seal doc.md").ok();
    let said = as_agent(&home, &clients[0], "handoffs clear").fails(1);
    assert!(said.contains("only the user may clear a handoff that no agent wrote"), "{said}");
    home.run("handoffs clear").ok();
    home.run("handoffs seal doc.md --for-agent app-oak").ok();
    let said = as_agent(&home, &clients[0], "handoffs clear").fails(1);
    assert!(said.contains("ask the user"), "{said}");
    as_agent(&home, &clients[1], "handoffs clear").ok();
    let said = as_agent(&home, &clients[0], "--channel other handoffs repair").fails(1);
    assert!(said.contains("only the user may repair"), "{said}");
}

#[test]
fn a_folder_that_somebody_else_made_in_advance_is_not_taken_for_ours() {
    let home = Home::new(BATON);
    let state = home.state();
    std::fs::create_dir_all(&state).unwrap();
    let owned = Command::new("chown").arg("12345").arg(&state).status().unwrap().success();
    if !owned {
        tools::skip("changing an owner takes root");
        return;
    }
    // The folder belongs to another user than everything around it.
    let said = home.run("send nobody hello");
    assert_ne!(said.code, Some(0));
    let client = Client::new(&home);
    client.starts("startup").ok();
    assert!(!state.join("sessions").exists(), "nothing of ours lies in a stranger's folder");
}

/// The temporary homes of `demo` and the rehearsal were once named after their pid, which is predictable.
#[test]
fn a_home_that_somebody_prepared_in_the_temporary_folder_is_not_used() {
    let home = Home::new(BATON);
    let tmp = home.path().join("tmp");
    std::fs::create_dir_all(&tmp).unwrap();
    let precious = home.write("precious", "precious");
    for (name, line) in [("rehearsal", "doctor --rehearse"), ("demo", "demo --fast")] {
        // `exec` keeps the pid of the process that prepares the folder.
        let script = format!(
            "d=\"$TMPDIR/baton-{name}-$$\"; mkdir -p \"$d/bin\" \"$d/.claude\"; \
             printf '#!/bin/sh\\ntouch %s\\n' '{ran}' > \"$d/bin/claude\"; chmod 755 \"$d/bin/claude\"; \
             ln -s '{precious}' \"$d/.claude/settings.json\"; chown -R 12345 \"$d\" 2>/dev/null; \
             ls -lR --time-style=full-iso \"$d\" > '{before}'; exec {BATON} {line}",
            ran = home.path().join("ran").display(),
            precious = precious.display(),
            before = home.path().join("before").display(),
        );
        let mut sh = home.command("sh");
        let ran = baton_testkit::home::run(sh.env("TMPDIR", &tmp).args(["-c", &script]));
        assert!(matches!(ran.code, Some(0 | 1)), "{ran:?}");
        let planted: Vec<_> = std::fs::read_dir(&tmp).unwrap().flatten().map(|e| e.path()).collect();
        assert_eq!(planted.len(), 1, "only what was planted is left: {planted:?}");
        let after =
            home.command("ls").args(["-lR", "--time-style=full-iso"]).arg(&planted[0]).output().unwrap();
        let before = std::fs::read(home.path().join("before")).unwrap();
        assert_eq!(String::from_utf8_lossy(&after.stdout), String::from_utf8_lossy(&before), "{line}");
        assert_eq!(std::fs::read_to_string(&precious).unwrap(), "precious", "{line}");
        assert!(!home.path().join("ran").exists(), "{line} ran a stranger's program");
        std::fs::remove_dir_all(&planted[0]).unwrap();
    }
}

/// The daemon identifies the process at the other end of its socket.
#[test]
fn an_agent_speaks_for_itself_through_the_api_and_gets_no_login() {
    if !tools::has(&["curl"]) {
        return;
    }
    let home = Home::new(BATON);
    let (ada, bob) = (Client::new(&home), Client::new(&home));
    ada.starts("startup").ok();
    bob.starts("startup").ok();
    let served = Served::new(&home);
    let as_ada = |path: &str, body: &str| {
        let mut curl = home.command("curl");
        ada.dress(&mut curl);
        curl.args([
            "-s",
            "-w",
            "%{http_code}",
            "-H",
            "Content-Type: application/json",
            "-d",
            body,
            "--unix-socket",
        ]);
        let output = curl.arg(served.socket()).arg(format!("http://localhost{path}")).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    for from in ["user", "app-oak"] {
        let said = as_ada("/sessions/app-oak/messages", &format!(r#"{{"text":"hello","from":"{from}"}}"#));
        assert!(said.ends_with("403") && said.contains("you are app"), "{said}");
    }
    assert!(as_ada("/sessions/app-oak/messages", r#"{"text":"hello"}"#).ends_with("200"));
    let inbox = home.run("inbox app-oak --json").json();
    assert_eq!((inbox[0]["from"].as_str(), inbox.as_array().map(Vec::len)), (Some("app"), Some(1)));
    assert!(as_ada("/codes", "{}").ends_with("403"), "a page decides as the user does");
    for path in ["/confirmations", "/listen", "/inbox/m/reply", "/inbox/m/read"] {
        assert!(as_ada(path, "{\"text\":\"x\"}").ends_with("403"), "{path} is the user's alone");
    }
    for verb in ["rotate", "undo", "retire", "cancel"] {
        let said = as_ada(&format!("/sessions/app-oak/{verb}"), "{}");
        assert!(said.ends_with("403") && said.contains("ask the user"), "{verb}: {said}");
    }
    let approver = r#"{"name":"x","cwd":"/","approver":"app"}"#;
    assert!(as_ada("/spawn", approver).ends_with("403"), "nobody makes itself an approver");
    let body = serde_json::json!({ "text": "x", "from": "app" });
    assert_eq!(
        served.ask("POST", "/sessions/app-oak/messages", Some(&body)).status,
        403,
        "the user is no agent"
    );
}
