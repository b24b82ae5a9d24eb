//! What the kernel is asked for, and faults put in its answers: strace around a real process.
//!
//! A first run records the calls that touch the test's home; then each of them can be made to fail, or be the
//! last one, by its name and number.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

use crate::home::{Home, Ran, run};

/// Every call by which baton changes files, or opens them. `?`: not every architecture has each.
const CALLS: &str = "?open,openat,?mkdir,mkdirat,write,pwrite64,writev,fsync,fdatasync,?rename,renameat,renameat2,\
                     ?link,linkat,?unlink,unlinkat,ftruncate,flock,?chmod,fchmod,fchmodat";

/// One call of a recorded run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The system call's name.
    pub name: String,
    /// It is the nth of that name in the process.
    pub nth: usize,
    /// As strace shows it.
    pub line: String,
}

/// Whether strace is here and may be used. Says so when not, because a test is about to be skipped.
pub fn available() -> bool {
    static WORKS: LazyLock<bool> = LazyLock::new(|| {
        let works = Command::new("strace").args(["-qq", "-e", "trace=none", "true"]).output();
        works.is_ok_and(|out| out.status.success())
    });
    if !*WORKS {
        eprintln!(
            "SKIPPED: strace is missing or may not trace here; install it (scripts/test does) and try again"
        );
    }
    *WORKS
}

/// Runs `line` to its end and returns the calls that touch `home`, in their order.
pub fn record(home: &Home, line: &str) -> (Vec<Call>, Ran) {
    record_as(home, line, &|_| {})
}

/// The same for a command that is started in a way of its own: an environment, an input.
pub fn record_as(home: &Home, line: &str, dress: &dyn Fn(&mut Command)) -> (Vec<Call>, Ran) {
    let log = home.path().join("strace.log");
    let mut command = strace(home, &log);
    command.args(["-y", "-s", "0"]).arg(home.binary()).args(line.split_whitespace());
    dress(&mut command);
    let ran = run(&mut command);
    let text = std::fs::read_to_string(&log).expect("strace wrote its log");
    let _ = std::fs::remove_file(&log);
    let mut seen = std::collections::HashMap::<String, usize>::new();
    let mut calls = Vec::new();
    for line in text.lines() {
        // `1234  openat(AT_FDCWD</cwd>, "/path", …) = 3</path>`; the current folder says nothing of the call.
        let Some((_, rest)) = line.split_once(char::is_whitespace) else { continue };
        let Some((name, arguments)) = rest.trim_start().split_once('(') else { continue };
        let nth = seen.entry(name.to_owned()).and_modify(|n| *n += 1).or_insert(1);
        let arguments = without_current_folder(arguments);
        if arguments.contains(&home.path().display().to_string()) {
            calls.push(Call { name: name.to_owned(), nth: *nth, line: format!("{name}({arguments}") });
        }
    }
    (calls, ran)
}

/// What a process asked of the kernel.
#[derive(Debug, Default)]
pub struct Counts {
    /// By the name of the call.
    pub calls: BTreeMap<String, usize>,
    /// What all of its reads gave.
    pub bytes_read: u64,
}

/// Runs `line` to its end and counts everything it asks of the kernel.
pub fn counted(home: &Home, line: &str) -> (Counts, Ran) {
    let log = home.path().join("strace.log");
    let mut command = home.command("strace");
    command.args(["-qq", "-f", "-e", "signal=none", "-s", "0", "-o"]).arg(&log);
    let ran = run(command.arg(home.binary()).args(line.split_whitespace()));
    let text = std::fs::read_to_string(&log).expect("strace wrote its log");
    let _ = std::fs::remove_file(&log);
    let mut counts = Counts::default();
    for line in text.lines() {
        let Some((_, call)) = line.split_once(char::is_whitespace) else { continue };
        // `<... read resumed> …` is the end of a call that was counted when it began.
        let (name, begins) = match call.trim_start().strip_prefix("<... ") {
            Some(rest) => (rest.split(' ').next().unwrap_or_default(), false),
            None => (call.trim_start().split('(').next().unwrap_or_default(), true),
        };
        if begins {
            *counts.calls.entry(name.to_owned()).or_insert(0) += 1;
        }
        if matches!(name, "read" | "pread64") {
            counts.bytes_read += line.rsplit(" = ").next().and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
        }
    }
    (counts, ran)
}

/// Runs `line` while strace answers `call` with `fault`, like `error=ENOSPC` or `signal=KILL`.
pub fn inject(home: &Home, line: &str, call: &Call, fault: &str) -> Ran {
    inject_as(home, line, &|_| {}, call, fault)
}

/// The same for a command that is started in a way of its own.
pub fn inject_as(home: &Home, line: &str, dress: &dyn Fn(&mut Command), call: &Call, fault: &str) -> Ran {
    let log = home.path().join("strace.log");
    let rule = format!("inject={}:{fault}:when={}", call.name, call.nth);
    let mut command = strace(home, &log);
    // Only what is traced can be answered; a call may be one that is not recorded.
    let traced = format!("trace={CALLS},{}", call.name);
    command.args(["-e", &traced, "-e", &rule]).arg(home.binary()).args(line.split_whitespace());
    dress(&mut command);
    let ran = run(&mut command);
    let _ = std::fs::remove_file(&log);
    ran
}

fn strace(home: &Home, log: &Path) -> Command {
    let mut command = home.command("strace");
    command.args(["-qq", "-f", "-e", &format!("trace={CALLS}"), "-o"]).arg(log);
    command
}

fn without_current_folder(arguments: &str) -> String {
    let mut out = String::new();
    let mut rest = arguments;
    while let Some((before, after)) = rest.split_once("AT_FDCWD<") {
        out.push_str(before);
        out.push_str("AT_FDCWD");
        rest = after.split_once('>').map_or("", |(_, rest)| rest);
    }
    out + rest
}
