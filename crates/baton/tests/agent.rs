//! The scripted agent ends as the client does: same exit codes, SessionEnd, and a restored terminal.

use std::io::{Read as _, Write as _};
use std::process::{Child, Stdio};

use baton_testkit::Home;
use baton_testkit::agent::{Script, seen};
use baton_testkit::hooks::register;
use baton_testkit::wait::wait_until;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::BATON;

/// Starts the agent and leaves it in the middle of a turn, waiting for a file that never comes.
fn at_work(home: &Home, args: &[&str]) -> Child {
    register(home);
    let script = "turn\n  tokens 10%\n  bash echo begun > begun; while :; do :; done\n";
    let script = args.iter().fold(Script::new(home, script), |script, arg| script.arg(arg));
    let mut command = script.command();
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.as_mut().unwrap().write_all(b"begin\n").unwrap();
    wait_until("its first command", || home.project().join("begun").exists());
    child
}

fn reasons(home: &Home) -> Vec<Value> {
    let all = seen(home, &home.path().join("seen.jsonl"));
    all.into_iter().filter(|s| s["kind"] == "end").map(|mut s| s["reason"].take()).collect()
}

#[test]
fn signals_end_it_with_the_clients_codes_after_session_end_and_leave_no_tool_behind() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129), (Signal::INT, 0)] {
        for args in [&[][..], &["-p", "do it"]] {
            let home = Home::in_memory(BATON);
            let mut child = at_work(&home, args);
            let pid = Pid::from_child(&child);
            kill_process(pid, signal).unwrap();
            assert_eq!(child.wait().unwrap().code(), Some(code), "{signal:?} {args:?}");
            assert_eq!(reasons(&home), ["other"], "{signal:?} {args:?}");
            let log = home.run("log --json").ok();
            assert!(log.contains("session-end"), "the SessionEnd hook has run: {log}");
            let mine = home.path().display().to_string();
            wait_until("the end of its tools", || !runs_in(&mine));
        }
    }
}

/// Whether any process has its working folder below `path`.
fn runs_in(path: &str) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let mut folders = processes.filter_map(|p| std::fs::read_link(p.path().join("cwd")).ok());
    folders.any(|cwd| cwd.starts_with(path))
}

#[test]
fn headless_output_comes_in_the_clients_three_formats() {
    let home = Home::in_memory(BATON);
    register(&home);
    let play = |format: &str| {
        let script = Script::new(&home, "turn\n  tokens 10%\n  bash true\n  say All is well.\n");
        script.arg("-p").arg("--output-format").arg(format).arg("how is it?").play(&[]).ran
    };
    assert_eq!(play("text").ok(), "All is well.\n");
    let result = play("json").json();
    assert_eq!((&result["type"], &result["result"]), (&"result".into(), &"All is well.".into()));
    assert_eq!(result["is_error"], false);
    let stream = play("stream-json").ok();
    let kinds: Vec<String> = stream
        .lines()
        .map(|l| serde_json::from_str::<Value>(l).unwrap()["type"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(kinds, ["system", "assistant", "assistant", "result"]);
}

#[test]
fn an_api_error_is_a_stop_failure_and_exit_1_when_headless() {
    let home = Home::in_memory(BATON);
    register(&home);
    let ran =
        Script::new(&home, "turn\n  fail rate_limit API Error: limit\n").arg("-p").arg("x").play(&[]).ran;
    assert_eq!(ran.code, Some(1));
    assert!(home.run("log --json").ok().contains("stop-failure"));
}

#[test]
fn conversations_can_be_resumed_continued_forked_and_not_begun_twice() {
    let home = Home::in_memory(BATON);
    register(&home);
    let script = "turn\n  tokens 20%\n  say hello\n";
    let id = "11111111-2222-4333-8444-555555555555";
    let play = |args: &[&str]| {
        args.iter().fold(Script::new(&home, script), |s, arg| s.arg(arg)).arg("-p").arg("hi").play(&[]).ran
    };
    play(&["--session-id", id]).ok();
    let refused = play(&["--session-id", id]).fails(1);
    assert!(refused.contains("already in use"), "{refused}");
    play(&["--resume", id]).ok();
    play(&["--continue"]).ok();
    play(&["--resume", id, "--fork-session"]).ok();
    let missing = play(&["--resume", "no-such-one"]).fails(1);
    assert!(missing.contains("No conversation found"), "{missing}");
    let sources: Vec<_> = home
        .run("log --json")
        .ok()
        .lines()
        .map(|l| serde_json::from_str::<Value>(l).unwrap())
        .filter(|l| l["event"] == "session-start")
        .map(|l| l["detail"]["source"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(sources, ["startup", "resume", "resume", "fork"]);
}

/// In a real terminal: it restores what it changes, however it is told to end.
#[test]
fn the_terminal_is_as_it_was_however_it_ends() {
    for (how, ends) in [
        ("/exit", &b"/exit\r"[..]),
        ("Ctrl-C twice", b"\x03\x03"),
        ("Ctrl-D twice", b"\x04\x04"),
        ("SIGTERM", b""),
    ] {
        let home = Home::in_memory(BATON);
        register(&home);
        let script = Script::new(&home, "screen alternate\nturn\n  say hello\n").env("TERM", "xterm");
        let (master, user) = terminal();
        let before = rustix::termios::tcgetattr(&user).unwrap();
        let mut command = script.command();
        command.stdin(user.try_clone().unwrap()).stdout(user.try_clone().unwrap()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let keys = std::fs::File::from(master);
        let mut screen = keys.try_clone().unwrap();
        let mut shown = Vec::new();
        let mut buffer = [0; 4096];
        let mut read_until = |shown: &mut Vec<u8>, mark: &str| {
            while !String::from_utf8_lossy(shown).contains(mark) {
                let n = screen.read(&mut buffer).unwrap();
                shown.extend_from_slice(&buffer[..n]);
            }
        };
        read_until(&mut shown, "❯");
        (&keys).write_all(b"hi\r").unwrap();
        read_until(&mut shown, "● hello");
        if ends.is_empty() {
            kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        } else {
            wait_until("its first word", || home.path().join("seen.jsonl").exists());
            (&keys).write_all(ends).unwrap();
        }
        read_until(&mut shown, "\u{1b}[?1049l");
        let code = child.wait().unwrap().code();
        assert_eq!(code, Some(if ends.is_empty() { 143 } else { 0 }), "{how}");
        let after = rustix::termios::tcgetattr(&user).unwrap();
        assert_eq!(format!("{before:?}"), format!("{after:?}"), "{how}");
        let shown = String::from_utf8_lossy(&shown).into_owned();
        for (on, off) in [("[?1049h", "[?1049l"), ("[?1000h", "[?1000l"), ("[?25l", "[?25h")] {
            assert!(shown.rfind(off) > shown.rfind(on), "{how}: {on} was left on");
        }
    }
}

/// Both ends of a new terminal.
fn terminal() -> (std::os::fd::OwnedFd, std::os::fd::OwnedFd) {
    use rustix::fs::{Mode, OFlags};
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let user = rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
    (master, user)
}
