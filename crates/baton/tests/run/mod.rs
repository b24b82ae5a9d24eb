//! `baton run` with the scripted agent: rotations, their limits, crashes, several at once, headless.
//! Promises 8, 9 and 11.

mod crashes;
mod headless;
mod limits;
mod long;
mod overflow;

use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use baton_testkit::Home;
use baton_testkit::home::records;
use baton_testkit::pty::{Pty, code};
use baton_testkit::tmux::is_running;
use baton_testkit::wait::wait_for;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Hands over in every context, forever.
const FOR_EVER: &str = "turn\n  tokens 20%\n  bash echo \"work of $CLAUDE_SESSION_MANAGER_ID\" | baton handoff -\n  say Handed over.\n";

/// Hands over once; the second context says what it knows.
const ONCE: &str = "context\nturn\n  tokens 20%\n  say First words.\n  bash printf '# H\\n\\n## Next\\nRun it again.\\n' | baton handoff -\n\
                    context\nturn\n  tokens 10%\n  recall\n";

/// Full, and ignores what it is asked.
const DEAF: &str = "asked ignore\nturn\n  tokens 70%\n  say I go on.\n";

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
    // Its own project, and the client's folder, as in real life.
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

/// Waits until `count` rotations have begun. The machine decides how long all of them take; we only expect one to
/// follow the other. Looks at names only: parsing every record repeatedly would take the time that the agents need.
#[track_caller]
fn wait_for_rotations(home: &Home, count: usize) {
    let begun = || std::fs::read_dir(state(home).join("rotations")).into_iter().flatten().count();
    let mut seen = 0;
    while seen < count {
        seen = wait_for(&format!("another rotation after {seen}"), || Some(begun()).filter(|n| *n > seen));
    }
}

fn state(home: &Home) -> PathBuf {
    home.path().join(".local/state/baton")
}

fn rotations(home: &Home) -> Vec<Value> {
    records(&state(home).join("rotations"))
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
    // It may have ended before we could send it.
    let _ = kill_process(Pid::from_raw(pid).unwrap(), signal);
}

/// How often a process has gone to sleep, or nothing while it is awake.
fn naps(pid: i32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let field = |name: &str| status.lines().find_map(|l| l.strip_prefix(name)).map(str::trim);
    if !field("State:")?.starts_with('S') {
        return None;
    }
    field("voluntary_ctxt_switches:")?.parse().ok()
}

/// All running processes of this home.
fn processes(home: &Home) -> Vec<i32> {
    processes_with(&format!("HOME={}\0", home.path().display()))
}

/// All running processes with this text in their environment.
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
    fn exits(mut self) -> RunEnd {
        self.type_line("/exit");
        let code = code(self.ends());
        RunEnd { code, err: self.err(), seen: self.seen() }
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

struct RunEnd {
    code: i32,
    err: String,
    seen: Vec<Value>,
}

/// The ids of the handoffs that contexts were given, in order.
fn loads(seen: &[Value]) -> Vec<String> {
    let texts = seen.iter().filter(|e| e["kind"] == "context").filter_map(|e| e["text"].as_str());
    let ids = texts.filter_map(|t| t.split_once("=== HANDOFF LOADED (ID: ")?.1.split_once(')'));
    ids.map(|(id, _)| id.to_owned()).collect()
}

#[test]
fn an_agent_that_hands_over_continues_in_a_new_process_that_knows_what_it_knew() {
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
        // It has woken up, looked, and gone to sleep again.
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
    // Everything that wakes the supervisor: its own record, a signal, a message from another terminal.
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
    // The next start really begins with it.
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
    home.trust();
    let run = start(&home, "a", ["Go."]);
    run.said("Fresh.");
    assert_eq!(rotations(&home)[0]["by"], "the hard ceiling");
    assert_eq!(run.exits().code, 0);
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

#[test]
fn undo_resumes_the_earlier_conversation_and_its_handoff_is_active_again() {
    let home = home(&format!("{ONCE}context\nturn\n"));
    let run = start(&home, "a", ["Go."]);
    let first = run.session();
    run.said("I continue from the handoff.");
    wait_for("the rotation", || rotations(&home).first().filter(|r| r["step"] == "done").map(drop));
    let said = home.run("undo a").ok();
    assert!(said.contains(&format!("a goes back to session {first}, as it was ")), "{said}");
    assert!(said.contains("; handoff HO-"), "{said}");
    let again = home.run("undo a").fails(3);
    assert!(again.contains("going back to session") || again.contains("nothing more to undo"), "{again}");
    wait_for("the first conversation", || {
        run.of_kind("context-begins")
            .iter()
            .any(|e| e["source"] == "resume" && e["session"] == *first)
            .then_some(())
    });
    wait_for("its record", || (run.agent()["session"] == *first).then_some(()));
    let list = home.run("handoffs --json").json();
    assert_eq!(list[0]["status"], "active", "{list}");
    let second = home.run("undo a").fails(3);
    assert!(second.contains("there is nothing more to undo: a is back already"), "{second}");
    home.run("rotate a").ok();
    wait_for("the next context", || (run.of_kind("context-begins").len() == 4).then_some(()));
    wait_for("its prompt", || (run.of_kind("prompt").len() >= 3).then_some(()));
    let continued = |p: &&Value| p["text"].as_str().is_some_and(|t| t.starts_with("Continue where"));
    let words = run.of_kind("prompt");
    assert_eq!(words.iter().filter(continued).count(), 2, "one for each rotation: {words:?}");
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
    assert_eq!(agents[0]["state"], "retired");
    assert!(home.run("retire a").ok().contains("was not running"));
}

/// A `PATH` folder with only these programs.
fn path_with(home: &Home, programs: &[(&str, &str)]) -> PathBuf {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = home.path().join("programs");
    std::fs::create_dir_all(&dir).unwrap();
    for (name, script) in programs {
        std::fs::write(dir.join(name), format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(dir.join(name), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    dir
}

#[test]
fn run_refuses_an_unknown_client_and_names_the_nearest() {
    let home = home(QUIET);
    let path =
        path_with(&home, &[("claude", "echo \"claude was started: $*\""), ("ls", "echo ls was started")]);
    let run = |args: &[&str]| {
        let mut command = home.baton([&["run"], args].concat());
        baton_testkit::home::run(command.env("PATH", &path).stdin(Stdio::null()))
    };
    let typo = run(&["cluade"]);
    assert!(!typo.out.contains("started"), "{}", typo.out);
    let said = typo.fails(1);
    assert!(said.contains("there is no client cluade") && said.contains("claude?"), "{said}");
    for program in [&["--", "ls"][..], &["--", "/bin/ls"], &["Fix the parser"]] {
        let ran = run(program);
        assert!(!ran.out.contains("started"), "{program:?}: {}", ran.out);
        let said = ran.fails(1);
        assert!(
            said.contains("is not a client that baton knows") && said.contains("claude, codex"),
            "{said}"
        );
    }
}

#[test]
fn run_takes_a_client_by_its_path() {
    let home = home(QUIET);
    let path = path_with(&home, &[("claude", "echo \"the wrong one: $*\"")]);
    let elsewhere = home.write("elsewhere/claude", "#!/bin/sh\necho \"the right one: $*\"\n");
    let mut mode = std::fs::metadata(&elsewhere).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut mode, 0o755);
    std::fs::set_permissions(&elsewhere, mode).unwrap();
    let link = home.path().join("my-client");
    std::os::unix::fs::symlink(&elsewhere, &link).unwrap();
    for program in [&elsewhere, &link] {
        let mut command = home.baton(["run", "--", program.to_str().unwrap(), "-p", "Go."]);
        let ran = baton_testkit::home::run(command.env("PATH", &path).stdin(Stdio::null()));
        let out = ran.ok();
        assert!(out.contains("the right one:") && out.trim_end().ends_with("-p Go."), "{out}");
    }
}

#[test]
fn without_a_client_the_scripted_agent_starts_only_when_it_is_asked_for() {
    let home = home(QUIET);
    let path = path_with(&home, &[]);
    let run = |args: &[&str]| {
        let mut command = home.baton([&["run"], args].concat());
        command.env("BATON_AGENT_SCRIPT", home.path().join("agent.script"));
        baton_testkit::home::run(command.env("PATH", &path).stdin(Stdio::null()))
    };
    let said = run(&[]).fails(1);
    assert!(said.contains("no client is on the PATH") && said.contains("baton run --demo"), "{said}");
    assert!(said.contains("npm install -g @anthropic-ai/claude-code"), "{said}");
    assert_eq!(run(&["--demo", "--", "-p", "Go."]).ok(), "Hello.\n");
}

#[test]
fn the_first_prompt_of_a_fresh_process_names_the_file_that_the_agent_wrote() {
    let home = home(
        "context\nturn\n  tokens 20%\n  write h.md <<END\n# H\n\n## Next\nRun it again.\nEND\n  \
         bash baton handoff h.md\n  say Handed over.\ncontext\nturn\n  tokens 10%\n  recall\n",
    );
    let run = start(&home, "a", ["Do the task."]);
    run.said("Next: Run it again.");
    let file = std::fs::canonicalize(home.project()).unwrap().join("h.md");
    let prompts = run.of_kind("prompt");
    let prompt = prompts[1]["text"].as_str().unwrap();
    let begins = format!("Read {} and continue from where you left off.", file.display());
    assert!(prompt.starts_with(&begins), "{prompt}");
    assert_eq!(run.exits().code, 0);
}

/// Each step is recorded before it is taken, so a step that cannot be recorded is not taken.
#[test]
fn a_client_is_not_ended_for_a_rotation_that_cannot_be_recorded() {
    let home = home(ONCE);
    // A file where the folder belongs: nothing can be written below it.
    home.write(".local/state/baton/rotations", "");
    let run = start(&home, "a", ["Do the task."]);
    run.said("First words.");
    let client = run.client();
    let fault = wait_for("the fault", || {
        log(&home, "fault").into_iter().find(|line| line.to_string().contains("rotations"))
    });
    wait_for("the request is withdrawn", || run.agent()["rotation"].is_null().then_some(()));
    assert!(is_running(client), "its client was ended: {fault}");
    assert_eq!(run.client(), client);
    let left = run.exits();
    assert!(left.err.contains("a continues as it was and handoff HO-"), "{}", left.err);
    assert!(left.err.contains("could not be recorded"), "{}", left.err);
    assert_eq!(home.run("handoffs --json").json()[0]["status"], "active");
}
