//! `baton run` with the scripted agent: rotations, their limits, crashes, several at once, headless.
//! Promises 8, 9 and 11.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use baton_testkit::Home;
use baton_testkit::pty::{LONG, Pty, code};
use baton_testkit::tmux::is_running;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Hands over in every context, for ever.
const FOR_EVER: &str = "turn\n  tokens 20%\n  bash echo \"work of $CLAUDE_SESSION_MANAGER_ID\" | baton handoff -\n  say Handed over.\n";
/// Hands over once; the second context says what it knows.
const ONCE: &str = "context\nturn\n  tokens 20%\n  say First words.\n  bash printf '# H\\n\\n## Next\\nRun it again.\\n' | baton handoff -\n\
                    context\nturn\n  tokens 10%\n  recall\n";
/// Full, and deaf to what it is asked.
const DEAF: &str = "asked ignore\nturn\n  tokens 70%\n  say I go on.\n";
/// Hands over once and is quiet after that.
const KILLED: &str = "context\nturn\n  tokens 20%\n  bash echo \"work of $CLAUDE_SESSION_MANAGER_ID\" | baton handoff -\n  say Handed over.\n\
                      context\nturn\n  tokens 5%\n  say Quiet now.\n";
/// Does nothing of note.
const QUIET: &str = "turn\n  tokens 5%\n  say Hello.\n";

/// One `baton run` without a terminal, and what it leaves.
struct Run<'a> {
    home: &'a Home,
    name: String,
    child: Child,
    stdin: Option<ChildStdin>,
}

fn home(script: &str) -> Home {
    let home = Home::in_memory(crate::BATON);
    home.write("agent.script", script);
    // Its own project, and the client's folder, as they are in life.
    home.write("work/app/.claude/keep", "");
    home.write(".claude/keep", "");
    home
}

fn command<S: AsRef<std::ffi::OsStr>>(home: &Home, name: &str, args: impl IntoIterator<Item = S>) -> Command {
    let mut command = home.baton(["run", "--name", name, "demo"]);
    command.args(args);
    command.env("BATON_AGENT_SCRIPT", home.path().join("agent.script"));
    command.env("BATON_AGENT_SEEN", seen_path(home, name));
    command
}

fn seen_path(home: &Home, name: &str) -> PathBuf {
    home.path().join(format!("seen-{name}.jsonl"))
}

fn start<'a, S: AsRef<std::ffi::OsStr>>(
    home: &'a Home,
    name: &str,
    args: impl IntoIterator<Item = S>,
) -> Run<'a> {
    launch(home, name, command(home, name, args))
}

fn launch<'a>(home: &'a Home, name: &str, mut command: Command) -> Run<'a> {
    command.stdin(Stdio::piped());
    command.stdout(File::create(home.path().join(format!("{name}.out"))).unwrap());
    command.stderr(File::create(home.path().join(format!("{name}.err"))).unwrap());
    let mut child = command.spawn().unwrap();
    let stdin = child.stdin.take();
    Run { home, name: name.to_owned(), child, stdin }
}

/// Waits until `look` finds something.
#[track_caller]
fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + LONG * 3;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Waits until `count` rotations have begun. How long all of them take is the machine's affair; that one follows the
/// other is ours. Looks at names only: parsing every record again and again would take the time that the agents need.
#[track_caller]
fn wait_for_rotations(home: &Home, count: usize) {
    let begun = || std::fs::read_dir(state(home).join("rotations")).into_iter().flatten().count();
    let mut seen = 0;
    while seen < count {
        seen = wait_for(&format!("another rotation after {seen}"), || {
            std::thread::sleep(Duration::from_millis(20));
            Some(begun()).filter(|n| *n > seen)
        });
    }
}

fn state(home: &Home) -> PathBuf {
    home.path().join(".local/state/baton")
}

fn json_files(dir: &Path) -> Vec<Value> {
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(dir).into_iter().flatten().flatten().map(|e| e.path()).collect();
    paths.sort();
    let jsons = paths.iter().filter(|p| p.extension().is_some_and(|e| e == "json"));
    jsons.filter_map(|p| serde_json::from_slice(&std::fs::read(p).ok()?).ok()).collect()
}

fn rotations(home: &Home) -> Vec<Value> {
    json_files(&state(home).join("rotations"))
}

fn log(home: &Home, event: &str) -> Vec<Value> {
    let dir = std::fs::read_dir(state(home).join("log")).into_iter().flatten().flatten();
    let mut lines = Vec::new();
    for file in dir {
        let text = std::fs::read_to_string(file.path()).unwrap_or_default();
        lines.extend(text.lines().filter_map(|l| serde_json::from_str::<Value>(l).ok()));
    }
    lines.retain(|l| l["event"] == event);
    lines
}

fn agent(home: &Home, name: &str) -> Value {
    let bytes = std::fs::read(state(home).join(format!("agents/{name}.json"))).unwrap_or_default();
    serde_json::from_slice(&bytes).unwrap_or_default()
}

fn pid_of(process: &Value) -> Option<i32> {
    process["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok())
}

fn kill(pid: i32, signal: Signal) {
    // It may have been faster than we.
    let _ = kill_process(Pid::from_raw(pid).unwrap(), signal);
}

/// How often a process has gone to sleep; nothing while it is awake.
fn naps(pid: i32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let field = |name: &str| status.lines().find_map(|l| l.strip_prefix(name)).map(str::trim);
    if !field("State:")?.starts_with('S') {
        return None;
    }
    field("voluntary_ctxt_switches:")?.parse().ok()
}

/// Every running process that lives in this home.
fn processes(home: &Home) -> Vec<i32> {
    processes_with(&format!("HOME={}\0", home.path().display()))
}

/// Every running process with this in its environment.
fn processes_with(mark: &str) -> Vec<i32> {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = all.filter_map(|e| e.file_name().to_str()?.parse().ok());
    let ours = |pid: &i32| {
        std::fs::read(format!("/proc/{pid}/environ"))
            .is_ok_and(|env| env.windows(mark.len()).any(|w| w == mark.as_bytes()))
    };
    pids.filter(|pid| ours(pid) && is_running(*pid)).collect()
}

impl Run<'_> {
    fn seen(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(seen_path(self.home, &self.name)).unwrap_or_default();
        text.lines().filter_map(|l| serde_json::from_str(l).ok()).collect()
    }

    fn of_kind(&self, kind: &str) -> Vec<Value> {
        self.seen().into_iter().filter(|e| e["kind"] == kind).collect()
    }

    /// Waits until the agent has said `text`.
    #[track_caller]
    fn said(&self, text: &str) {
        self.said_times(text, 1);
    }

    #[track_caller]
    fn said_times(&self, text: &str, times: usize) {
        wait_for(&format!("{text:?} of {}; it said: {}", self.name, self.err()), || {
            let said =
                self.of_kind("said").iter().filter(|e| e["text"].as_str().unwrap().contains(text)).count();
            (said >= times).then_some(())
        });
    }

    fn agent(&self) -> Value {
        agent(self.home, &self.name)
    }

    /// The client's process.
    fn client(&self) -> i32 {
        wait_for("the client's process", || pid_of(&self.agent()["process"]))
    }

    fn session(&self) -> String {
        wait_for("a session", || self.agent()["session"].as_str().map(str::to_owned))
    }

    fn supervisor(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    fn type_line(&mut self, line: &str) {
        writeln!(self.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    #[track_caller]
    fn ends(&mut self) -> ExitStatus {
        wait_for(&format!("the end of {}: {}", self.name, self.err()), || self.child.try_wait().unwrap())
    }

    #[track_caller]
    fn exits(mut self) -> Left {
        self.type_line("/exit");
        let code = code(self.ends());
        Left { code, err: self.err(), seen: self.seen() }
    }

    fn err(&self) -> String {
        std::fs::read_to_string(self.home.path().join(format!("{}.err", self.name))).unwrap_or_default()
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let mark = format!("BATON_AGENT_SEEN={}\0", seen_path(self.home, &self.name).display());
        for pid in processes_with(&mark) {
            kill(pid, Signal::KILL);
        }
    }
}

struct Left {
    code: i32,
    err: String,
    seen: Vec<Value>,
}

/// The ids of the handoffs that were put in front of a context, in order.
fn loads(seen: &[Value]) -> Vec<String> {
    let texts = seen.iter().filter(|e| e["kind"] == "context").filter_map(|e| e["text"].as_str());
    let ids = texts.filter_map(|t| t.split_once("=== HANDOFF LOADED (ID: ")?.1.split_once(')'));
    ids.map(|(id, _)| id.to_owned()).collect()
}

#[test]
fn an_agent_that_hands_over_goes_on_in_a_new_process_that_knows_what_it_knew() {
    let home = home(ONCE);
    let args =
        ["--permission-mode", "plan", "--session-id", "11111111-1111-4111-8111-111111111111", "Do the task."];
    let run = start(&home, "a", args);
    run.said("I continue from the handoff. Next: Run it again.");
    let pid = run.client();
    let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap().replace('\0', " ");
    assert!(line.contains("demo-agent --plugin-dir"), "{line}");
    assert!(line.ends_with("left off. --permission-mode plan "), "{line}");
    assert!(!line.contains("Do the task.") && !line.contains("--session-id"), "{line}");
    wait_for("the end of the rotation", || {
        rotations(&home).first().filter(|r| r["step"] == "done").map(drop)
    });
    let left = run.exits();
    assert_eq!((left.code, left.err.as_str()), (0, ""), "nothing had to be said");
    assert_eq!(loads(&left.seen).len(), 1);
    let rotation = rotations(&home).remove(0);
    assert_eq!(rotation["handoff"], loads(&left.seen)[0].as_str());
    assert_eq!(rotation["by"], "the agent");
    assert_ne!(rotation["old"]["pid"], rotation["new"]["pid"]);
    assert_eq!(processes(&home), Vec::<i32>::new());
}

#[test]
fn a_person_in_another_terminal_gets_a_rotation_at_once() {
    let home = home(&format!("{QUIET}context\nturn\n  tokens 6%\n  recall\n"));
    let run = start(&home, "a", ["Go."]);
    run.said("Hello.");
    let said = home.run("rotate a").ok();
    assert!(said.contains("a gets a fresh context now"), "{said}");
    wait_for("the second context", || (loads(&run.seen()).len() == 1).then_some(()));
    assert_eq!(run.exits().code, 0);
}

#[test]
fn a_restart_signal_counts_only_with_the_id_of_the_running_session() {
    let home = home(&format!("{QUIET}context\nturn\n  say Again.\n"));
    let run = start(&home, "a", ["Go."]);
    run.said("Hello.");
    let session = run.session();
    let sealed = || std::fs::read_dir(home.store().join("archive")).into_iter().flatten().count();
    let before = sealed();
    for other in ["22222222-2222-4222-8222-222222222222", &session[..session.len() - 1], "", "../x"] {
        let slept = wait_for("sleep", || naps(run.supervisor()));
        home.write(".claude/.restart-session", format!("{other}:/elsewhere\n"));
        // It has woken for it, looked, and gone to sleep again.
        wait_for("a look at the signal", || naps(run.supervisor()).filter(|n| *n > slept));
        assert_eq!((rotations(&home).len(), sealed()), (0, before), "a signal for {other:?} was heeded");
        assert!(run.agent()["rotation"].is_null());
    }
    home.write(".claude/.restart-session", format!("{session}:{}\n", home.project().display()));
    run.said("Again.");
    let all = rotations(&home);
    assert_eq!(all.len(), 1, "{all:?}");
    assert_eq!(all[0]["by"], "a restart signal");
    assert_eq!(run.exits().code, 0);
}

#[test]
fn a_critical_end_of_turn_waits_until_nobody_types() {
    let home = home(&format!("idle 300\n{DEAF}context\nturn\n  tokens 10%\n  say Fresh.\n"));
    let run = start(&home, "a", ["Go."]);
    let request = wait_for("the request", || Some(run.agent()["rotation"].clone()).filter(|r| !r.is_null()));
    assert_eq!(request["by"], "a critical end of turn");
    assert_eq!(request["wait_for_idle"], true);
    run.said("Fresh.");
    assert_eq!(run.exits().code, 0);
}

#[test]
fn a_draft_is_not_killed_and_after_the_user_quit_nothing_is_started() {
    let home = home(DEAF);
    let mut pty = Pty::start(&command(&home, "a", ["Go."])).unwrap();
    pty.wait_for("is sealed").unwrap();
    pty.send("half a thou").unwrap();
    pty.wait_for("half a thou").unwrap();
    // Everything that wakes the supervisor: its own record, a signal, a word from another terminal.
    home.run("status --json").ok();
    home.run_with_input("send a -", "hello").ok();
    pty.send("ght").unwrap();
    pty.wait_for("half a thought").unwrap();
    assert_eq!(rotations(&home).len(), 0);
    pty.send("\x03").unwrap();
    pty.wait_until("an empty prompt", |s| !s.contains("half a thought")).unwrap();
    pty.send("/exit\r").unwrap();
    let status = pty.wait_for_end().unwrap();
    assert_eq!(code(status), 0);
    assert!(
        pty.screen().replace('\n', "").contains("the next start in this project begins with it"),
        "{}",
        pty.screen()
    );
    assert_eq!(rotations(&home).len(), 0);
    // And so it does.
    let again = start(&home, "a", ["Go on."]);
    wait_for("the load", || (loads(&again.seen()).len() == 1).then_some(()));
    assert_eq!(again.exits().code, 0);
}

#[test]
fn the_hard_ceiling_cuts_into_a_turn() {
    let home = home(
        "asked ignore\ncontext\nturn\n  tokens 85%\n  bash true\n  wait never\ncontext\nturn\n  say Fresh.\n",
    );
    home.write("work/app/.baton.toml", "[run]\nceiling_percentage = 80\n");
    let run = start(&home, "a", ["Go."]);
    run.said("Fresh.");
    assert_eq!(rotations(&home)[0]["by"], "the hard ceiling");
    assert_eq!(run.exits().code, 0);
}

#[test]
fn ten_in_a_row_are_enough_and_the_refusal_says_why() {
    let home = home(FOR_EVER);
    let mut run = start(&home, "a", ["Go."]);
    wait_for("the refusal", || log(&home, "rotation-refused").pop());
    assert_eq!(rotations(&home).len(), 10);
    run.said_times("Handed over.", 11);
    // A person's word begins the count anew.
    run.type_line("Go on.");
    wait_for("its prompt", || run.of_kind("prompt").iter().any(|p| p["text"] == "Go on.").then_some(()));
    wait_for("the count", || (run.agent()["in_a_row"] == 0).then_some(()));
    let left = run.exits();
    assert_eq!(left.code, 0);
    let why =
        "baton: no further rotation: 10 rotations in a row without a prompt by a person (run.max_restarts)";
    assert!(left.err.contains(why), "{}", left.err);
    assert_eq!(log(&home, "rotation-refused").len(), 1);
}

/// Promises 8 and 11.
#[test]
fn two_hundred_rotations_leave_no_orphan_no_zombie_no_descriptor_and_one_load_each() {
    const COUNT: usize = 200;
    let home = home(FOR_EVER);
    home.write("work/app/.baton.toml", format!("[run]\nmax_restarts = {COUNT}\n"));
    let began = Instant::now();
    let run = start(&home, "a", ["Go."]);
    run.said_times("Handed over.", 2);
    let descriptors = |pid: i32| std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    let before = descriptors(run.supervisor());
    wait_for_rotations(&home, COUNT);
    wait_for("the last one", || log(&home, "rotation-refused").pop());
    let took = began.elapsed();
    run.said_times("Handed over.", COUNT + 1);
    let client = run.client();
    wait_for("quiet", || (processes(&home).len() == 2).then_some(()));
    let mut left = processes(&home);
    left.sort_unstable();
    let mut expected = vec![run.supervisor(), client];
    expected.sort_unstable();
    assert_eq!(left, expected, "only the supervisor and one client run");
    let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", run.supervisor())).unwrap();
    assert_eq!(
        children.split_whitespace().collect::<Vec<_>>(),
        [client.to_string()],
        "zombies count as children"
    );
    assert_eq!(descriptors(run.supervisor()), before);
    let inherited = descriptors(client);
    assert!(inherited <= 12, "the client has {inherited} descriptors");

    let memory = memory_kib(run.supervisor());
    let done = rotations(&home);
    assert_eq!(done.iter().filter(|r| r["step"] == "done").count(), COUNT);
    let left = run.exits();
    let mut loaded = loads(&left.seen);
    assert_eq!(loaded.len(), COUNT);
    loaded.sort_unstable();
    loaded.dedup();
    assert_eq!(loaded.len(), COUNT, "a handoff was loaded twice");
    let mut handoffs: Vec<_> = done.iter().map(|r| r["handoff"].as_str().unwrap().to_owned()).collect();
    handoffs.sort_unstable();
    assert_eq!(handoffs, loaded);
    assert_eq!(processes(&home), Vec::<i32>::new());

    // Targets: 5 MiB, 50 ms. Tests assert ten times that, and print what was measured.
    let mut ours: Vec<f64> = log(&home, "rotated").iter().filter_map(|l| ours_ms(&l["detail"])).collect();
    ours.sort_by(f64::total_cmp);
    assert!(ours.len() > COUNT / 2);
    let median = ours[ours.len() / 2];
    println!(
        "{COUNT} rotations in {took:.1?}; supervisor {memory} KiB; from Stop to the new process, the agent's own \
         exit not counted: median {median:.1} ms, 90 % {:.1} ms",
        ours[ours.len() * 9 / 10]
    );
    assert!(median < 500.0, "{median} ms");
    assert!(memory < 50 << 10, "{memory} KiB");
}

/// What a rotation took, without the time the client needed to end.
fn ours_ms(detail: &Value) -> Option<f64> {
    Some(detail["ms_until_told"].as_f64()? + detail["ms_until_started"].as_f64()?)
}

/// Resident memory, in KiB.
fn memory_kib(pid: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|l| l.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_crash_is_sealed_and_the_exit_code_is_the_clients() {
    let home = home(QUIET);
    let mut run = start(&home, "a", ["Go."]);
    run.said("Hello.");
    kill(run.client(), Signal::KILL);
    assert_eq!(code(run.ends()), 137);
    assert!(
        run.err().contains("a ended without a word; what its transcript proves is kept in handoff HO-"),
        "{}",
        run.err()
    );
    let list = home.run("handoffs --json").json();
    assert_eq!(list[0]["type"], "crash", "{list}");
    assert_eq!(run.of_kind("context-begins").len(), 1);
}

#[test]
fn kept_alive_it_starts_again_with_what_its_transcript_proves() {
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
fn one_that_dies_at_once_is_started_less_and_less_often_and_then_not_at_all() {
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

#[test]
fn without_a_single_hook_the_newest_transcript_is_taken_and_called_a_guess() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = home(QUIET);
    let slug: String = home.project().canonicalize().unwrap().display().to_string();
    let slug: String = slug.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let transcripts = home.path().join(".claude/projects").join(slug);
    let record = r#"{"type":"user","message":{"role":"user","content":"Paint it green."}}"#;
    let text = format!(
        "#!/bin/sh\nmkdir -p '{0}'\necho '{record}' >'{0}/33333333-3333-4333-8333-333333333333.jsonl'\nkill -9 $$\n",
        transcripts.display()
    );
    let program = home.write("bin/claude", text);
    std::fs::set_permissions(program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = home.baton(["run", "--name", "a", "claude"]);
    command.env("PATH", format!("{}:{}", home.path().join("bin").display(), std::env::var("PATH").unwrap()));
    let ran = baton_testkit::home::run(&mut command);
    assert!(
        ran.err.contains("(the newest one of the folder, a guess) is kept in handoff HO-"),
        "{}",
        ran.err
    );
    let id = ran.err.split_whitespace().find(|w| w.starts_with("HO-")).unwrap();
    let document = home.run(&format!("handoffs show {id}")).ok();
    assert!(document.contains("is a guess") && document.contains("Paint it green."), "{document}");
}

/// Between a client's fork and the record of it nobody would know of the client: a killed supervisor must not leave one.
#[test]
fn a_supervisor_killed_before_it_has_recorded_its_client_leaves_none() {
    if !baton_testkit::trace::available() {
        return;
    }
    let home = home(QUIET);
    let run = command(&home, "a", ["Go."]);
    let mut traced = home.command("strace");
    // The child is there when its pidfd is asked for, and not yet recorded.
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
    // The next start is the only one.
    let again = start(&home, "b", ["Go."]);
    again.said("Hello.");
    assert_eq!(again.exits().code, 0);
}

/// Real `baton run` processes, made to hand over at the same instant again and again.
#[test]
fn two_that_rotate_at_the_same_instant_get_their_own_handoff_each_time() {
    let count = if baton_testkit::times(1) > 1 { 1000 } else { 20 };
    let gate = "d=$HOME/gate; me=$CLAUDE_SESSION_MANAGER_ID; k=$(ls $d | grep -c \"^$me\\.\"); touch $d/$me.$k; \
                for i in $(seq 1000); do [ $(ls $d | grep -c \"\\.$k\\$\") = 2 ] && break; sleep 0.01; done; \
                echo \"work of $me number $k\" | baton handoff -";
    let home = home(&format!("turn\n  tokens 20%\n  bash {gate}\n  say Handed over.\n"));
    std::fs::create_dir(home.path().join("gate")).unwrap();
    home.write("work/app/.baton.toml", format!("[run]\nmax_restarts = {count}\n"));
    let runs = [start(&home, "left", ["Go."]), start(&home, "right", ["Go."])];
    wait_for_rotations(&home, 2 * count);
    for run in &runs {
        run.said_times("Handed over.", count);
    }
    wait_for("both refusals", || (log(&home, "rotation-refused").len() == 2).then_some(()));
    for run in &runs {
        let texts: Vec<String> = run
            .of_kind("context")
            .iter()
            .map(|e| e["text"].as_str().unwrap().to_owned())
            .filter(|t| t.contains("=== HANDOFF LOADED"))
            .collect();
        assert_eq!(texts.len(), count, "{}", run.name);
        for (n, text) in texts.iter().enumerate() {
            // Behind a number that nothing proves stands a remark.
            let own = format!("work of {} number {n}", run.name);
            assert!(text.lines().any(|l| l.split(" [").next() == Some(&own)), "{own}: {text}");
        }
    }
    println!("{count} rotations of two at the same instant");
    let agents = home.run("agents --json").json();
    assert_eq!(agents.as_array().unwrap().len(), 2, "{agents}");
    let table = home.run("status").ok();
    assert!(table.contains("left ") && table.contains("right "), "{table}");
    let several = home.run("rotate").fails(3);
    assert!(several.contains("several agents run in this project; name one of left, right"), "{several}");
    for run in runs {
        assert_eq!(run.exits().code, 0);
    }
}

fn at_a_limit(seconds: i64) -> String {
    let reset = jiff::Timestamp::now().as_second() + seconds;
    format!(
        "context\nturn\n  tokens 5%\n  say Hello.\n  fail rate_limit Usage limit reached|{reset}\ncontext\nturn\n  say Back at work.\n"
    )
}

#[test]
fn a_usage_limit_parks_the_agent_until_it_ends() {
    let home = home(&at_a_limit(3));
    let run = start(&home, "a", ["Go."]);
    let parked = wait_for("parking", || Some(run.agent()["parked"].clone()).filter(|p| !p.is_null()));
    assert_eq!(parked["guess"], false);
    let session = run.session();
    let payload = serde_json::json!({ "session_id": session, "cwd": home.project() });
    let line = home.run_with_input("statusline", &payload.to_string()).ok();
    assert!(line.contains("parked until "), "{line}");
    run.said("Back at work.");
    assert_eq!(run.session(), session, "the same conversation goes on");
    let prompts = run.of_kind("prompt");
    assert_eq!(prompts[1]["text"], "The usage limit has ended. Continue.");
    let until: jiff::Timestamp = parked["until"].as_str().unwrap().parse().unwrap();
    assert!(jiff::Timestamp::now() >= until);
    assert_eq!(run.exits().code, 0);
}

#[test]
fn with_parking_switched_off_nothing_comes_back_by_itself() {
    let home = home(&at_a_limit(1));
    home.write("work/app/.baton.toml", "[run]\npark = false\n");
    let run = start(&home, "a", ["Go."]);
    wait_for("the limit", || log(&home, "stop-failure").pop());
    let left = run.exits();
    assert_eq!(left.code, 0);
    assert_eq!(log(&home, "parked").len(), 0);
}

const THREE: &str = "context\nturn\n  tokens 20%\n  bash echo one | baton handoff -\n  say First over.\n\
                     context\nturn\n  tokens 20%\n  bash echo two | baton handoff -\n  say Second over.\n\
                     context\nturn\n  tokens 10%\n  say All done.\n";

fn headless(format: &str) -> (Home, baton_testkit::Ran) {
    let home = home(THREE);
    let args = ["-p", "--output-format", format, "Do it."];
    let ran = baton_testkit::home::run(command(&home, "a", args).stdin(Stdio::null()));
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let progress: Vec<_> = ran.err.lines().collect();
    assert_eq!(progress.len(), 2, "{}", ran.err);
    assert!(
        progress.iter().all(|l| l.starts_with("baton: a continues in a fresh context from HO-")),
        "{}",
        ran.err
    );
    (home, ran)
}

#[test]
fn headless_text_is_the_last_answer_alone() {
    let (_home, ran) = headless("text");
    assert_eq!(ran.out, "All done.\n");
}

#[test]
fn headless_json_is_one_result() {
    let (_home, ran) = headless("json");
    assert_eq!(ran.out.lines().count(), 1, "{}", ran.out);
    let result: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&result["type"], &result["result"]), (&"result".into(), &"All done.".into()));
}

#[test]
fn headless_stream_json_is_everything_and_one_result_at_the_end() {
    let (home, ran) = headless("stream-json");
    let records: Vec<Value> = ran.out.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let of = |kind: &str| records.iter().filter(|r| r["type"] == kind).count();
    assert_eq!((of("system"), of("result")), (3, 1), "{}", ran.out);
    assert_eq!(records.last().unwrap()["result"], "All done.");
    assert!(of("assistant") >= 5, "{}", ran.out);
    assert_eq!(processes(&home), Vec::<i32>::new());
}

#[test]
fn undo_resumes_the_earlier_conversation_and_its_handoff_is_active_again() {
    let home = home(&format!("{ONCE}context\nturn\n"));
    let run = start(&home, "a", ["Go."]);
    let first = run.session();
    run.said("I continue from the handoff.");
    wait_for("the rotation", || rotations(&home).first().filter(|r| r["step"] == "done").map(drop));
    let said = home.run("undo a").ok();
    assert!(said.contains(&format!("a goes back to session {first}; handoff HO-")), "{said}");
    wait_for("the first conversation", || {
        run.of_kind("context-begins")
            .iter()
            .any(|e| e["source"] == "resume" && e["session"] == *first)
            .then_some(())
    });
    wait_for("its record", || (run.agent()["session"] == *first).then_some(()));
    let list = home.run("handoffs --json").json();
    assert_eq!(list[0]["status"], "active", "{list}");
    assert_eq!(run.exits().code, 0);
}

#[test]
fn retire_stops_an_agent_for_good() {
    let home = home(QUIET);
    let mut run = start(&home, "a", ["Go."]);
    run.said("Hello.");
    home.run("retire a").ok();
    assert_eq!(code(run.ends()), 143);
    assert_eq!(home.run("status --json").fails(3), "");
    let agents = home.run("agents --json").json();
    assert_eq!(agents[0]["state"], "dead");
    assert!(home.run("retire a").ok().contains("was not running"));
}

/// Who is killed in the middle of a rotation.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Victim {
    Supervisor,
    Client,
    Both,
}

/// Holds every rotation at a step: a hook of the project's own that waits for a file.
fn hold(home: &Home, event: &str) {
    let wait = "while [ ! -e $HOME/go ]; do sleep 0.01; done";
    let hooks = serde_json::json!({ "hooks": { event: [{ "hooks": [
        { "type": "command", "command": wait, "timeout": 60 }] }] } });
    home.write("work/app/.claude/settings.json", hooks.to_string());
}

/// After whatever happened in the first run: the next start has the handoff, or says where it is; of each agent at
/// most one client runs; no rotation stays open without somebody who drives it.
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
    // What a client has forked looks like it until it becomes something else.
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
        assert!(matches!(status, "active" | "claimed" | "consumed"), "{what}: lost: {handoff}");
        let document = home.run(&format!("handoffs show {}", handoff["id"].as_str().unwrap())).ok();
        let expected = handoff["type"] == "crash" || document.contains("work of a");
        assert!(expected, "{what}: {document}");
    }
    let lines = next.err();
    assert!(lines.lines().count() <= 1, "{what}: one line at most: {lines}");
}

#[test]
fn whoever_is_killed_at_whatever_step_the_next_start_is_sound() {
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
                // The rotation goes on: it wanted that client gone.
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

/// The same at instants that nobody chose.
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
