//! System calls and injected faults: strace around a real process.
//!
//! A first run records the calls that touch the test's home; then each of them can be made to fail, or to be the last
//! one, by name and number.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

use crate::home::{CommandOutput, Home, run};
use crate::tools;

/// Every call by which baton changes or opens files. `?`: not every architecture has it.
const CALLS: &str = "?open,openat,?mkdir,mkdirat,write,pwrite64,writev,fsync,fdatasync,?rename,renameat,renameat2,\
                     ?link,linkat,?unlink,unlinkat,ftruncate,flock,?chmod,fchmod,fchmodat";

/// One call of a recorded run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The system call's name.
    pub name: String,
    /// Its number among the process's calls of that name.
    pub nth: usize,
    /// As strace shows it.
    pub line: String,
}

/// Whether strace is installed and may trace. If not, the caller returns and the test is skipped.
#[must_use]
#[track_caller]
pub fn available() -> bool {
    static WORKS: LazyLock<bool> = LazyLock::new(|| {
        let works = Command::new("strace").args(["-qq", "-e", "trace=none", "true"]).output();
        works.is_ok_and(|out| out.status.success())
    });
    if cfg!(not(target_os = "linux")) {
        tools::skip("strace is for Linux");
        return false;
    }
    if !tools::has(&["strace"]) {
        return false;
    }
    if !*WORKS {
        tools::missing("strace may not trace here");
    }
    *WORKS
}

/// Runs `line` to its end and returns the calls that touch `home`, in order.
pub fn record(home: &Home, line: &str) -> (Vec<Call>, CommandOutput) {
    record_as(home, line, &|_| {})
}

/// The same for a command with its own environment or input.
pub fn record_as(home: &Home, line: &str, dress: &dyn Fn(&mut Command)) -> (Vec<Call>, CommandOutput) {
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
        // `1234  openat(AT_FDCWD</cwd>, "/path", …) = 3</path>`; the current folder says nothing about the call.
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

/// A process's system calls.
#[derive(Debug, Default)]
pub struct Counts {
    /// By the name of the call.
    pub calls: BTreeMap<String, usize>,
    /// The total of all its reads.
    pub bytes_read: u64,
}

/// Runs `line` to its end and counts all its system calls.
pub fn counted(home: &Home, line: &str) -> (Counts, CommandOutput) {
    let log = home.path().join("strace.log");
    let mut command = home.command("strace");
    command.args(["-qq", "-f", "-e", "signal=none", "-s", "0", "-o"]).arg(&log);
    let ran = run(command.arg(home.binary()).args(line.split_whitespace()));
    let text = std::fs::read_to_string(&log).expect("strace wrote its log");
    let _ = std::fs::remove_file(&log);
    let mut counts = Counts::default();
    for line in text.lines() {
        let Some((_, call)) = line.split_once(char::is_whitespace) else { continue };
        // `<... read resumed> …` ends a call that was counted when it began.
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
pub fn inject(home: &Home, line: &str, call: &Call, fault: &str) -> CommandOutput {
    inject_as(home, line, &|_| {}, call, fault)
}

/// The same for a command with its own environment or input.
pub fn inject_as(
    home: &Home,
    line: &str,
    dress: &dyn Fn(&mut Command),
    call: &Call,
    fault: &str,
) -> CommandOutput {
    let log = home.path().join("strace.log");
    let rule = format!("inject={}:{fault}:when={}", call.name, call.nth);
    let mut command = strace(home, &log);
    // strace can only inject into traced calls, and this one may not be among the recorded ones.
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
