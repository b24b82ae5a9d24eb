//! Whichever process dies, at whatever step: nothing is lost, and the next start works.

use super::*;

/// Which process is killed in the middle of a rotation.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Victim {
    Supervisor,
    Client,
    Both,
}

/// Hands over once and is quiet after that.
const KILLED: &str = "context\nturn\n  tokens 20%\n  bash echo \"work of $CLAUDE_SESSION_MANAGER_ID\" | baton handoff -\n  say Handed over.\n\
                      context\nturn\n  tokens 5%\n  say Quiet now.\n";

#[test]
fn a_crash_is_sealed_and_the_exit_code_is_the_clients() {
    let home = home(QUIET);
    let mut run = start(&home, "a", ["Go."]);
    run.said("Hello.");
    kill(run.client(), Signal::KILL);
    assert_eq!(code(run.ends()), 137);
    assert!(
        run.err().contains("a ended unexpectedly; what its transcript proves is kept in handoff HO-"),
        "{}",
        run.err()
    );
    let list = home.run("handoffs --json").json();
    assert_eq!(list[0]["type"], "crash", "{list}");
    assert_eq!(run.of_kind("context-begins").len(), 1);
}

#[test]
fn with_keep_alive_a_crashed_client_starts_again_with_what_its_transcript_proves() {
    let home = home(&format!("{QUIET}context\nturn\n  tokens 5%\n  say Back.\n"));
    let mut command = home.baton(["run", "--keep-alive", "--name", "a", "demo", "Go."]);
    command.env("BATON_AGENT_SCRIPT", home.path().join("agent.script"));
    command.env("BATON_AGENT_SEEN", seen_path(&home, "a"));
    let run = launch(&home, "a", command);
    run.said("Hello.");
    kill(run.client(), Signal::KILL);
    run.said("Back.");
    assert_eq!(loads(&run.seen()).len(), 1);
    let left = run.exits();
    assert_eq!(left.code, 0);
    assert!(left.err.contains("baton: starting a again in 0.25 s"), "{}", left.err);
}

#[test]
fn a_client_that_dies_at_once_is_started_less_and_less_often_and_then_not_at_all() {
    let home = home("turn\n  tokens 5%\n  bash kill -9 $CLAUDE_PID\n  wait never\n");
    let mut command = home.baton(["run", "--keep-alive", "--name", "a", "demo", "Go."]);
    command.env("BATON_AGENT_SCRIPT", home.path().join("agent.script"));
    command.env("BATON_AGENT_SEEN", seen_path(&home, "a"));
    let began = Instant::now();
    let mut run = launch(&home, "a", command);
    assert_eq!(code(run.ends()), 137);
    let err = run.err();
    for pause in ["0.25", "0.50", "1.00", "2.00", "4.00"] {
        assert!(err.contains(&format!("starting a again in {pause} s")), "{err}");
    }
    assert!(err.contains("a died at once 5 times in a row; it is not started again"), "{err}");
    assert!(began.elapsed() > Duration::from_millis(7_750));
    assert_eq!(run.of_kind("context-begins").len(), 6);
}

/// Between a client's fork and its record nobody knows of the client, so a killed supervisor must not leave one.
#[test]
fn a_supervisor_killed_before_it_has_recorded_its_client_leaves_none() {
    if !baton_testkit::trace::available() {
        return;
    }
    let home = home(QUIET);
    let run = command(&home, "a", ["Go."]);
    let mut traced = home.command("strace");
    // When its pidfd is requested, the child exists but is not recorded yet.
    let kill =
        ["-qq", "-e", "trace=pidfd_open", "-e", "inject=pidfd_open:signal=KILL:when=1", "-o", "/dev/null"];
    traced.args(kill).arg(run.get_program()).args(run.get_args());
    for (name, value) in run.get_envs() {
        traced.env(name, value.unwrap_or_default());
    }
    let status = traced.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    assert_eq!(code(status), 137, "the supervisor was killed");
    wait_for("an empty house", || processes(&home).is_empty().then_some(()));
    assert!(agent(&home, "a")["process"].is_null());
    assert!(!seen_path(&home, "a").exists(), "a client nobody knew of has run");
    // The next start is the only client.
    let again = start(&home, "b", ["Go."]);
    again.said("Hello.");
    assert_eq!(again.exits().code, 0);
}

/// Holds every rotation at a step, with a hook of the project that waits for a file.
fn hold(home: &Home, event: &str) {
    let wait = "while [ ! -e $HOME/go ]; do sleep 0.01; done";
    let hooks = serde_json::json!({ "hooks": { event: [{ "hooks": [
        { "type": "command", "command": wait, "timeout": 60 }] }] } });
    home.write("work/app/.claude/settings.json", hooks.to_string());
}

/// Whatever happened in the first run: the next start has the handoff or says where it is, each agent has at most one
/// client, and no rotation stays open without a process that drives it.
fn the_next_start_is_sound(home: &Home, what: &str) {
    home.write("go", "");
    home.write("agent.script", QUIET);
    let next = start(home, "next", ["Go on."]);
    next.said("Hello.");
    let read = |pid: i32, name: &str| {
        let text = std::fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
        String::from_utf8_lossy(&text).into_owned()
    };
    let is_client = |pid: i32| read(pid, "cmdline").contains("demo-agent\0--plugin-dir");
    // A process that a client forks looks like the client until it calls exec.
    let parent = |pid: i32| read(pid, "stat").rsplit(") ").next()?.split(' ').nth(1)?.parse().ok();
    let clients =
        processes(home).into_iter().filter(|pid| is_client(*pid) && !parent(*pid).is_some_and(is_client));
    let name = |pid: i32| {
        let env = read(pid, "environ");
        env.split('\0').find_map(|v| v.strip_prefix("CLAUDE_SESSION_MANAGER_ID=").map(str::to_owned))
    };
    let mut clients: Vec<String> = clients.filter_map(name).collect();
    clients.sort();
    let all = clients.len();
    clients.dedup();
    assert_eq!(clients.len(), all, "{what}: two clients of one agent: {clients:?}");
    for rotation in rotations(home) {
        let by = pid_of(&rotation["supervisor"]).unwrap();
        let open = rotation["step"] != "done" && rotation["step"] != "failed";
        assert!(!open || is_running(by), "{what}: nobody drives {rotation}");
    }
    let handoffs = home.run("handoffs --json").json();
    assert!(handoffs.as_array().unwrap().iter().any(|h| h["type"] == "manual"), "{what}: {handoffs}");
    for handoff in handoffs.as_array().unwrap() {
        let status = handoff["status"].as_str().unwrap();
        assert!(matches!(status, "active" | "claimed" | "consumed"), "{what}: lost: {handoff} of {handoffs}");
        let document = home.run(&format!("handoffs show {}", handoff["id"].as_str().unwrap())).ok();
        let expected = handoff["type"] == "crash" || document.contains("work of a");
        assert!(expected, "{what}: {document}");
    }
    let lines = next.err();
    assert!(lines.lines().count() <= 1, "{what}: one line at most: {lines}");
}

#[test]
fn whichever_process_is_killed_at_whatever_step_the_next_start_works() {
    let steps = [("SessionEnd", "stopping"), ("SessionStart", "started")];
    for (event, step) in steps {
        for victim in [Victim::Supervisor, Victim::Client, Victim::Both] {
            let what = format!("{victim:?} killed at {step}");
            let home = home(KILLED);
            if event == "SessionEnd" {
                hold(&home, event);
            }
            let mut run = start(&home, "a", ["Go."]);
            if event == "SessionStart" {
                run.said("Handed over.");
                hold(&home, event);
            }
            let rotation =
                wait_for(&what, || rotations(&home).into_iter().next_back().filter(|r| r["step"] == step));
            let client = pid_of(&rotation[if step == "stopping" { "old" } else { "new" }]).unwrap();
            if victim != Victim::Client {
                kill(run.supervisor(), Signal::KILL);
            }
            if victim != Victim::Supervisor {
                kill(client, Signal::KILL);
            }
            if victim == Victim::Client && step == "stopping" {
                // The rotation continues, because it wanted that client gone.
                home.write("go", "");
                wait_for(&what, || (loads(&run.seen()).len() == 1).then_some(()));
                run.type_line("/exit");
            }
            run.ends();
            drop(run.stdin.take());
            the_next_start_is_sound(&home, &what);
        }
    }
}

/// The same at random instants.
#[test]
fn a_supervisor_killed_at_any_instant_of_a_rotation_loses_nothing() {
    let mut rng = baton_testkit::rng::Rng::new(20_261_116);
    for n in 0..baton_testkit::times(12) {
        let home = home(KILLED);
        let mut run = start(&home, "a", ["Go."]);
        wait_for("a request", || log(&home, "rotation-requested").pop());
        std::thread::sleep(Duration::from_micros(rng.pick(0..60_000)));
        kill(run.supervisor(), Signal::KILL);
        run.ends();
        drop(run.stdin.take());
        the_next_start_is_sound(&home, &format!("kill {n}"));
    }
}

/// Nothing could be sealed at the end of the turn, and only the supervisor can try again.
#[test]
fn a_handoff_that_could_not_be_sealed_at_the_end_of_its_turn_is_sealed_by_the_supervisor() {
    let home = home(ONCE);
    let archive = home.path().join(".claude/handoff");
    std::fs::write(&archive, "in the way").unwrap();
    let run = start(&home, "a", ["Go."]);
    wait_for("the first try", || {
        let session =
            baton_testkit::home::record(&state(&home).join(format!("sessions/{}.json", run.session())));
        (session["request"]["tries"].as_u64() >= Some(1)).then_some(())
    });
    std::fs::remove_file(&archive).unwrap();
    run.said("Next: Run it again.");
    assert_eq!(run.exits().code, 0);
}
