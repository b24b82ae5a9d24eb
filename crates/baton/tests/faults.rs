//! Promises 1 and 2: a kill between any two steps, and a fault in any call, leave a store that verifies and holds the
//! previous or the new handoff whole; the error names path, action and remedy.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use baton_core::handoff::{HandoffId, Status};
use baton_testkit::home::run;
use baton_testkit::race::on_all_processors;
use baton_testkit::trace::{self, Call};
use baton_testkit::{CommandOutput, Home, tools};

use crate::store::{archived_body, channel, leftovers, seal, verified};

const OLD: &str = "# The old one\n";
const NEW: &str = "# The new one\n";

/// A command, and the state of the store before it.
#[derive(Debug, Clone, Copy)]
struct Case {
    line: &'static str,
    /// Something was sealed before.
    sealed: bool,
    /// The previous command was killed: its temporary file and its text in the lock are still there.
    crashed: bool,
}

const FIRST_SEAL: Case = Case { line: "--channel app handoffs seal doc.md", sealed: false, crashed: false };
const SEAL: Case = Case { line: "--channel app handoffs seal doc.md", sealed: true, crashed: false };
const SEAL_AFTER_CRASH: Case = Case { crashed: true, ..SEAL };
const LOAD: Case = Case { line: "--channel app handoffs load", sealed: true, crashed: false };
const CLEAR: Case = Case { line: "--channel app handoffs clear", sealed: true, crashed: false };
const LIST: Case = Case { line: "--channel app handoffs list", sealed: true, crashed: false };
const REPAIR: Case = Case { line: "--channel app handoffs repair", sealed: true, crashed: false };
const CONFIG: Case = Case { line: "config", sealed: false, crashed: false };

impl Case {
    fn home(self) -> (Home, Option<HandoffId>) {
        let home = Home::new(crate::BATON);
        home.write("work/app/doc.md", NEW);
        home.write(".config/baton/config.toml", "[handoff]\nexpiry = \"2h\"\n");
        let old = self.sealed.then(|| seal(&home, "app", OLD));
        if self.crashed {
            // No process can have this pid.
            home.write(".claude/handoff/.app-CURRENT.md.4194305.0.tmp", "half a docum");
            home.write(".claude/handoff/app.lock.d/pid", "4194305:1");
        }
        (home, old)
    }

    fn calls(self) -> Vec<Call> {
        let (calls, ran) = trace::record(&self.home().0, self.line);
        ran.ok();
        calls
    }
}

/// What must hold after any run of `case`, however it ended.
fn check(home: &Home, case: Case, old: Option<&HandoffId>, ran: &CommandOutput, what: &str) {
    let app = channel("app");
    let current = verified(home, &app).current;
    let current_id = current.as_ref().map(|e| &e.id);
    if let Some(old) = old {
        assert_eq!(archived_body(home, old), OLD, "{what}: the old handoff changed");
    }
    if case.line.contains(" seal ") {
        let acknowledged = ran.out.trim().parse::<HandoffId>().ok();
        if let Some(id) = &acknowledged {
            assert_eq!(current_id, Some(id), "{what}: acknowledged, but not there");
            assert_eq!(archived_body(home, id), NEW, "{what}");
        }
        match current_id {
            Some(id) if Some(id) != old => assert_eq!(archived_body(home, id), NEW, "{what}"),
            other => assert_eq!(other, old, "{what}: the old one is gone"),
        }
    } else {
        assert_eq!(current_id, old, "{what}");
    }
    if case.line.ends_with(" load") && !ran.out.is_empty() {
        assert!(ran.out.ends_with(OLD), "{what}: {:?}", ran.out);
        assert_eq!(current.as_ref().map(|e| e.status), Some(Status::Consumed), "{what}");
    }
}

/// Asserts that the store still works and nothing is left lying around.
fn check_works(home: &Home, what: &str) {
    let id: HandoffId = home.run(SEAL.line).ok().trim().parse().unwrap();
    assert_eq!(leftovers(&home.store()), Vec::<String>::new(), "{what}");
    let printed = home.run(LOAD.line).ok();
    assert!(printed.contains(id.as_str()) && printed.ends_with(NEW), "{what}: {printed}");
}

/// Runs `each` for every element, on all processors.
fn for_each<T: Sync>(all: &[T], each: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    on_all_processors(|_, _| {
        while let Some(one) = all.get(next.fetch_add(1, Relaxed)) {
            each(one);
        }
    });
}

#[test]
fn a_kill_before_any_of_its_calls_leaves_the_old_handoff_or_the_new_one() {
    if !trace::available() {
        return;
    }
    let mut steps = Vec::new();
    for case in [FIRST_SEAL, SEAL, SEAL_AFTER_CRASH, LOAD, CLEAR, REPAIR] {
        steps.extend(case.calls().into_iter().map(|call| (case, call)));
    }
    let renames = steps.iter().filter(|(_, call)| call.name.starts_with("rename")).count();
    assert_eq!(
        renames,
        3 + 3 + 3 + 1 + 1,
        "archive, CURRENT and manifest of each seal; the manifest of the others"
    );
    for_each(&steps, |(case, call)| {
        let (home, old) = case.home();
        let ran = trace::inject(&home, case.line, call, "signal=KILL");
        let what = format!("{} killed before {}", case.line, call.line);
        assert_eq!(ran.code, None, "{what}: it got away");
        check(&home, *case, old.as_ref(), &ran, &what);
        check_works(&home, &what);
    });
    eprintln!("killed before each of {} calls, {renames} renames among them", steps.len());
}

/// The faults worth trying in a call of this name.
fn faults(name: &str) -> &'static [&'static str] {
    match name {
        "write" | "pwrite64" | "writev" => &["ENOSPC", "EIO", "EDQUOT"],
        "open" | "openat" => &["EMFILE", "ENOSPC", "EROFS", "EIO", "EACCES"],
        "flock" => &["EIO", "ENOLCK"],
        "rename" | "renameat" | "renameat2" => &["ENOSPC", "EROFS", "EIO", "ENOSYS"],
        _ => &["ENOSPC", "EIO", "EROFS"],
    }
}

#[test]
fn a_fault_in_any_call_corrupts_nothing_and_is_reported_with_path_action_and_remedy() {
    if !trace::available() {
        return;
    }
    let mut trials = Vec::new();
    for case in [FIRST_SEAL, SEAL, LOAD, CLEAR, LIST, REPAIR, CONFIG] {
        for call in case.calls() {
            trials.extend(faults(&call.name).iter().map(|fault| (case, call.clone(), *fault)));
        }
    }
    let tally: Mutex<BTreeMap<(&str, Option<i32>), usize>> = Mutex::default();
    for_each(&trials, |(case, call, fault)| {
        let (home, old) = case.home();
        let ran = trace::inject(&home, case.line, call, &format!("error={fault}"));
        let what = format!("{} with {fault} from {}\n{ran:?}", case.line, call.line);
        match ran.code {
            // The call was not essential, or there was another way.
            Some(0) => assert!(!ran.out.is_empty(), "{what}"),
            Some(1) => {
                let (problem, remedy) = ran.err.split_once("; ").unwrap_or_else(|| panic!("{what}"));
                assert!(problem.starts_with("baton: could not "), "{what}");
                let path = home.path().display().to_string();
                assert!(problem.contains(&path) || problem.contains("doc.md"), "{what}");
                assert!(remedy.trim_end().len() > 10 && ran.out.is_empty(), "{what}");
                assert_eq!(
                    problem.matches("os error").count() + remedy.matches("os error").count(),
                    1,
                    "{what}"
                );
            }
            _ => panic!("{what}"),
        }
        check(&home, *case, old.as_ref(), &ran, &what);
        if !call.name.starts_with("unlink") {
            assert_eq!(leftovers(&home.path().join(".claude")), Vec::<String>::new(), "{what}");
        }
        check_works(&home, &what);
        *tally.lock().unwrap().entry((case.line, ran.code)).or_default() += 1;
    });
    for ((line, code), count) in tally.into_inner().unwrap() {
        eprintln!("{count:4} faults in `{line}`: exit {}", code.unwrap_or(-1));
    }
}

/// Real short writes: the kernel writes what fits below the limit and refuses the rest.
#[test]
fn a_write_that_is_cut_short_changes_nothing() {
    for blocks in 0..24 {
        let (home, old) = SEAL.home();
        home.write("work/app/doc.md", "x".repeat(10_000) + "\n");
        let script = format!("ulimit -f {blocks}; exec \"$0\" {}", SEAL.line);
        let ran = run(home.command("sh").args(["-c", &script, crate::BATON]));
        let what = format!("at most {blocks} blocks: {ran:?}");
        if ran.code == Some(0) {
            let id: HandoffId = ran.out.trim().parse().unwrap();
            assert_eq!(archived_body(&home, &id).len(), 10_001, "{what}");
        } else {
            assert_eq!(ran.code, Some(1), "{what}");
            assert!(ran.err.contains("could not write") && ran.err.contains(".claude/handoff"), "{what}");
            let manifest = verified(&home, &channel("app"));
            assert_eq!(manifest.current.map(|e| e.id), old, "{what}");
        }
        assert_eq!(leftovers(&home.store()), Vec::<String>::new(), "{what}");
    }
}

/// Nobody ignores SIGXFSZ on the hook's behalf: it does so itself, ends well and says what it could not write.
#[test]
fn a_hook_survives_a_limit_on_the_size_of_files() {
    for blocks in 0..4 {
        for event in ["SessionStart", "PostToolUse", "Stop", "SessionEnd"] {
            let home = Home::new(crate::BATON);
            let client = baton_testkit::hooks::Client::new(&home);
            client.answers(150_000);
            let mut sh = home.command("sh");
            client.dress(&mut sh);
            let script = format!("ulimit -f {blocks}; exec \"$0\" hook {event}");
            sh.args(["-c", &script, crate::BATON]);
            baton_testkit::hooks::send(sh, client.usual(event).to_string().as_bytes()).ok();
            let _ = std::fs::remove_file(client.percentage_file());
        }
    }
}

/// The tracer delays the hook's first rename by `seconds`, which must exceed the whole deadline: time that the hook
/// waits for a processor does not count towards it, so a shorter delay might not be enough on a busy machine.
fn held_up(event: &str, seconds: u32) {
    if !tools::has(&["strace"]) {
        return;
    }
    let home = Home::new(crate::BATON);
    let client = baton_testkit::hooks::Client::new(&home);
    client.answers(10_000);
    client.starts("startup").ok();
    client.answers(150_000);
    let trace = home.path().join("trace");
    let mut strace = home.command("strace");
    client.dress(&mut strace);
    let delay = format!("inject=rename,renameat,renameat2:delay_enter={seconds}000000");
    strace.arg("-o").arg(&trace).args(["-e", "trace=rename,renameat,renameat2", "-e", &delay]);
    strace.args([crate::BATON, "hook", event]);
    baton_testkit::hooks::send(strace, client.usual(event).to_string().as_bytes()).ok();
    let trace = std::fs::read_to_string(trace).unwrap();
    assert!(trace.contains("SIGALRM") && trace.contains("exited with 0"), "{event}: {trace}");
    let _ = std::fs::remove_file(client.percentage_file());
}

/// A system call that does not return ends the hook before the client loses patience.
#[test]
fn a_hook_at_a_tool_call_that_is_held_up_ends_at_its_deadline() {
    held_up("PostToolUse", 5);
}

#[test]
fn a_hook_that_seals_and_is_held_up_ends_at_its_deadline() {
    held_up("PreCompact", 9);
}

#[test]
fn a_full_disk_under_the_output_is_an_error_and_not_a_silent_loss() {
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full");
    if full().is_err() {
        baton_testkit::tools::skip("there is no /dev/full here");
        return;
    }
    let (home, _) = LOAD.home();
    let err = run(home.baton(["--channel", "app", "handoffs"]).stdout(full().unwrap())).fails(1);
    assert!(err.starts_with("baton: could not write to standard output"), "{err}");
}
