//! Promise 10: under `baton run` the terminal and the exit status are as they would be without us.
//!
//! Each scenario runs twice, with the client alone and under `baton run`; what is left behind must be equal.

use std::process::Command;

use anyhow::Result;
use baton_testkit::Home;
use baton_testkit::pty::{LONG, Pty, TerminalState, code};
use baton_testkit::tmux::is_running;
use rustix::process::{Pid, Signal, kill_process};

/// How often each scenario runs: 20 times with `BATON_LONG=1`.
fn repeat() -> usize {
    baton_testkit::times(2)
}

/// A home with a program `claude`: the scripted agent, or the shell script `client`.
fn home(client: Option<&str>) -> Home {
    use std::os::unix::fs::PermissionsExt as _;
    let home = Home::in_memory(crate::BATON);
    let text = client.map_or_else(|| format!("exec '{}' demo-agent \"$@\"", crate::BATON), str::to_owned);
    let program = home.write("bin/claude", format!("#!/bin/sh\necho $$ >'{}'\n{text}\n", pid_file(&home)));
    std::fs::set_permissions(program, std::fs::Permissions::from_mode(0o755)).unwrap();
    home.write("agent.script", "screen alternate\nturn\n  tokens 5%\n  say Hello, terminal.\n");
    home
}

fn pid_file(home: &Home) -> String {
    home.path().join("pid").display().to_string()
}

fn with_client(home: &Home, command: &mut Command) {
    let path = format!("{}:{}", home.path().join("bin").display(), std::env::var("PATH").unwrap());
    command.env("PATH", path).env("BATON_AGENT_SCRIPT", home.path().join("agent.script"));
    command.env("PS1", "$ ").env("INPUTRC", "/dev/null").env("HISTFILE", "/dev/null");
}

/// The client alone, or under `baton run`.
fn client(home: &Home, under: bool) -> Command {
    let mut command =
        if under { home.baton(["run", "claude"]) } else { home.command(home.path().join("bin/claude")) };
    with_client(home, &mut command);
    command
}

/// The pid of the client, which is not the terminal's leader under `baton run`.
fn client_pid(home: &Home) -> Pid {
    let text = std::fs::read_to_string(pid_file(home)).unwrap();
    Pid::from_raw(text.trim().parse().unwrap()).unwrap()
}

/// Whether it runs in the terminal's foreground process group.
fn is_in_front(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    // After the name in parentheses: state, parent, group, session, terminal, the terminal's group.
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    matches!(fields.as_slice(), [state, _, group, _, _, front, ..] if *state != "T" && group == front)
}

/// How the program ended, and how it left the terminal.
type Outcome = (i32, TerminalState);

/// Runs `scenario` alone and under `baton run`, each in a fresh home, and compares.
#[track_caller]
fn the_same_with_and_without(
    program: Option<&str>,
    expected: i32,
    scenario: impl Fn(&Home, &mut Pty) -> Result<()>,
) {
    let play = |under: bool| -> Result<Outcome> {
        let home = home(program);
        let mut pty = Pty::start(&client(&home, under))?;
        scenario(&home, &mut pty)?;
        let status = pty.wait_for_end()?;
        let mut left = pty.left()?;
        left.text = without_us(&home, &left.text);
        // Our last words moved the cursor; scenarios in which we say nothing compare its position.
        if pty.screen().contains("baton:") {
            left.modes = left.modes.split(" at ").next().unwrap_or_default().to_owned();
        }
        assert!(!is_running(client_pid(&home).as_raw_nonzero().get()), "the client still runs");
        Ok((code(status), left))
    };
    for _ in 0..repeat() {
        let (alone, mut under) = (play(false).unwrap(), play(true).unwrap());
        assert_eq!(alone.0, expected, "without us: {alone:?}");
        if under.1.modes != alone.1.modes && alone.1.modes.starts_with(&under.1.modes) {
            under.1.modes.clone_from(&alone.1.modes);
        }
        assert_eq!(under, alone, "under baton run, and alone");
    }
}

/// The screen without our lines and without the home's path.
fn without_us(home: &Home, screen: &str) -> String {
    let mut kept = Vec::new();
    let mut ours = false;
    for line in screen.lines() {
        // A line of ours may be longer than the terminal is wide.
        ours = line.starts_with("baton:") || (ours && !line.is_empty());
        if !ours {
            kept.push(line);
        }
    }
    // Temporary folders have names of equal length, so lines break at the same columns.
    home.tidy(kept.join("\n").trim_end())
}

/// Waits until the client has drawn its first lines and reacts to signals and keys.
fn ready(pty: &Pty) -> Result<()> {
    pty.wait_until("the client's prompt", |s| s.contains("Scripted agent") && s.contains('❯')).map(drop)
}

#[test]
fn after_exit_0() {
    the_same_with_and_without(None, 0, |_, pty| {
        ready(pty)?;
        pty.send("/exit\r")
    });
}

#[test]
fn after_exit_with_any_other_code() {
    the_same_with_and_without(Some("echo bye; exit 7"), 7, |_, _| Ok(()));
}

#[test]
fn when_it_dies_at_once_without_output() {
    the_same_with_and_without(Some("exit 1"), 1, |_, _| Ok(()));
}

#[test]
fn when_it_leaves_the_terminal_as_it_likes() {
    the_same_with_and_without(Some("stty -echo -icanon; printf '\\033[?2004h'; exit 0"), 0, |_, _| Ok(()));
}

#[test]
fn after_sigterm_of_the_client() {
    the_same_with_and_without(None, 143, |home, pty| {
        ready(pty)?;
        Ok(kill_process(client_pid(home), Signal::TERM)?)
    });
}

#[test]
fn after_sigterm_of_us() {
    the_same_with_and_without(None, 143, |_, pty| {
        ready(pty)?;
        pty.signal(Signal::TERM)
    });
}

#[test]
fn after_sigkill_of_the_client() {
    the_same_with_and_without(None, 137, |home, pty| {
        ready(pty)?;
        Ok(kill_process(client_pid(home), Signal::KILL)?)
    });
}

#[test]
fn after_a_crash_of_the_client() {
    the_same_with_and_without(Some("kill -SEGV $$"), 139, |_, _| Ok(()));
}

#[test]
fn after_ctrl_c_in_a_client_that_leaves_it_to_the_terminal() {
    the_same_with_and_without(Some("echo ready; exec sleep 60"), 130, |_, pty| {
        pty.wait_for("ready")?;
        pty.send("\x03")
    });
}

#[test]
fn after_ctrl_c_twice_in_a_client_that_reads_keys() {
    the_same_with_and_without(None, 0, |_, pty| {
        ready(pty)?;
        pty.send("\x03")?;
        pty.wait_for("Press Ctrl-C again")?;
        pty.send("\x03")
    });
}

#[test]
fn a_resize_reaches_the_client() {
    let client = "trap 'stty size; exit 3' WINCH; echo ready; while :; do sleep 0.02; done";
    the_same_with_and_without(Some(client), 3, |_, pty| {
        pty.wait_for("ready")?;
        pty.resize(100, 30)?;
        pty.wait_for("30 100").map(drop)
    });
}

#[test]
fn a_paste_reaches_the_client_whole() {
    the_same_with_and_without(None, 0, |_, pty| {
        ready(pty)?;
        pty.send("\x1b[200~one\rtwo — drei\x1b[201~")?;
        pty.wait_for("one⏎two — drei")?;
        pty.send("\r")?;
        pty.wait_for("Hello, terminal.")?;
        pty.send("/exit\r")
    });
}

/// The window is closed: the client has ended, the terminal's owner exits with 129, and no process is left.
#[test]
fn after_the_window_was_closed() {
    for under in [false, true] {
        for _ in 0..repeat() {
            let home = home(None);
            let mut pty = Pty::start(&client(&home, under)).unwrap();
            ready(&pty).unwrap();
            pty.hang_up();
            assert_eq!(code(pty.wait_for_end().unwrap()), 129, "under baton run: {under}");
            assert!(!is_running(client_pid(&home).as_raw_nonzero().get()));
        }
    }
}

/// Ctrl+Z and `fg` in a real shell, to which client and supervisor are one job.
#[test]
fn suspended_and_continued_by_a_shell() {
    let play = |under: bool| -> Result<(String, String)> {
        let home = home(None);
        let mut shell = home.command("bash");
        shell.args(["--norc", "--noprofile", "-i"]);
        with_client(&home, &mut shell);
        let mut pty = Pty::start(&shell)?;
        pty.wait_for("$ ")?;
        let word = if under { format!("{} run claude", crate::BATON) } else { "claude".to_owned() };
        pty.send(format!("{word}\r"))?;
        ready(&pty)?;
        for n in 0..3 {
            pty.send(format!("draft{n}"))?;
            pty.wait_for(&format!("draft{n}"))?;
            pty.send("\x1a")?;
            pty.wait_for("Stopped")?;
            pty.send("stty -a | grep -o ' .\\?echo ' ; clear; fg\r")?;
            // What the client had drawn stays on the screen until the shell clears it: a Ctrl+C before that would be the
            // shell's.
            pty.wait_until("the client again", |s| {
                !s.contains("Stopped") && s.contains('❯') && s.contains(&format!("draft{n}"))
            })?;
            assert!(is_running(client_pid(&home).as_raw_nonzero().get()));
            pty.send("\x03")?;
        }
        pty.wait_until("an empty prompt", |s| !s.contains("draft"))?;
        pty.send("/exit\r")?;
        // Wait for the shell's prompt, or the client would still read what is typed.
        pty.wait_until("the shell's prompt", |s| !s.contains('❯') && s.trim_end().ends_with("\n$"))?;
        pty.send("echo status=$?\r")?;
        pty.wait_for("status=0")?;
        pty.send("exit 5\r")?;
        let status = code(pty.wait_for_end()?);
        assert_eq!(status, 5);
        let left = pty.left()?;
        Ok((left.termios, left.modes.split(" at ").next().unwrap_or_default().to_owned()))
    };
    for _ in 0..repeat() {
        assert_eq!(play(true).unwrap(), play(false).unwrap());
    }
}

/// An interactive shell in a home whose client is `program`, with `baton run` started in it.
fn in_a_shell(program: &str) -> (Home, Pty) {
    let home = home(Some(program));
    let mut shell = home.command("bash");
    shell.args(["--norc", "--noprofile", "-i"]);
    with_client(&home, &mut shell);
    let mut pty = Pty::start(&shell).unwrap();
    pty.wait_for("$ ").unwrap();
    pty.send(format!("{} run claude\r", crate::BATON)).unwrap();
    pty.wait_for("ready").unwrap();
    (home, pty)
}

/// Ctrl+Z reaches both of us at once. The shell must not notice before the client has stopped: otherwise it could
/// continue the job, which would stop again a moment later.
#[test]
fn a_client_that_takes_its_time_to_stop_is_waited_for() {
    for _ in 0..repeat() {
        let client = "trap 'sleep 0.3; kill -STOP $$; echo back; exit 6' TSTP; echo ready; while :; do read x || :; done";
        let (_home, mut pty) = in_a_shell(client);
        pty.send("\x1a").unwrap();
        pty.wait_for("Stopped").unwrap();
        pty.send("clear; fg\r").unwrap();
        pty.wait_for("back").unwrap();
        pty.wait_until("the shell's prompt", |s| s.trim_end().ends_with("\n$")).unwrap();
        assert!(!pty.screen().contains("Stopped"), "{}", pty.screen());
        pty.send("echo status=$?\r").unwrap();
        pty.wait_for("status=6").unwrap();
    }
}

/// If the client ignores Ctrl+Z, we do not stop either.
#[test]
fn a_client_that_ignores_ctrl_z_stays_in_front() {
    let (_home, mut pty) = in_a_shell("trap '' TSTP; echo ready; read x; echo \"got $x\"; exit 4");
    pty.send("\x1a").unwrap();
    pty.wait_for("^Z").unwrap();
    pty.send("hello\r").unwrap();
    pty.wait_for("got hello").unwrap();
    pty.send("echo status=$?\r").unwrap();
    pty.wait_for("status=4").unwrap();
}

/// If the client is stopped from outside, we stop too, so that the shell gets its prompt back.
#[test]
fn a_client_stopped_from_outside_gives_the_shell_its_prompt_back() {
    let (home, mut pty) = in_a_shell("echo ready; while :; do sleep 0.02; done");
    kill_process(client_pid(&home), Signal::STOP).unwrap();
    pty.wait_for("Stopped").unwrap();
    pty.send("clear; fg\r").unwrap();
    pty.wait_until("the job's name", |s| s.contains("run claude") && !s.contains("Stopped")).unwrap();
    // The shell prints the job before it gives it the terminal; a key pressed in between would go to the shell.
    let began = std::time::Instant::now();
    while !is_in_front(client_pid(&home)) {
        assert!(began.elapsed() < LONG, "the job is not in front");
        std::thread::yield_now();
    }
    pty.send("\x03").unwrap();
    pty.wait_for("^C").unwrap();
    pty.send("echo status=$?\r").unwrap();
    pty.wait_for("status=130").unwrap();
}
