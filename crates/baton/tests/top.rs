//! The live screen in real terminals: keys in, cells out, and a restored terminal afterwards.

use std::process::Command;

use baton_testkit::clients::Launch;
use baton_testkit::daemon::Served;
use baton_testkit::hooks::Client;
use baton_testkit::pty::{LONG, Pty, TerminalState, code};
use baton_testkit::rng::Rng;
use baton_testkit::tmux::Tmux;
use baton_testkit::wait::wait_until;
use baton_testkit::{Home, tools};
use rustix::process::Signal;
use serde_json::json;

use crate::BATON;
use crate::api::approvals::{ask, decision};
use crate::world::World;

fn top(home: &Home, args: &[&str]) -> Command {
    let mut command = home.baton(["top"]);
    command.args(args).env("LANG", "C.UTF-8");
    command
}

/// The screen in a terminal of 140 × 40.
fn wide(home: &Home, args: &[&str]) -> Pty {
    wide_for(&top(home, args))
}

pub(crate) fn wide_for(command: &Command) -> Pty {
    let pty = Pty::start(command).unwrap();
    pty.resize(140, 40).unwrap();
    pty
}

#[test]
fn the_screen_shows_each_change_of_an_agent_as_it_happens() {
    let home = Home::new(BATON);
    home.write(".config/baton/config.toml", "[approvals]\nwait_for = \"all\"\n");
    let served = Served::new(&home);
    let mut pty = wide(&home, &[]);
    pty.wait_for("No agent is here").unwrap();
    let client = Client::new(&home);
    client.starts("startup").ok();
    pty.wait_for("○ app").unwrap();
    client.says("Port the parser.");
    client.hook_with("UserPromptSubmit", json!({ "prompt": "Port the parser." })).ok();
    pty.wait_for("● app").unwrap();
    pty.wait_for("you     Port the parser.").unwrap();
    client.answers(134_000);
    client.hook("PostToolUse").ok();
    pty.wait_for("▰▰▰▰▰│▰│").unwrap();
    let hook = ask(&client, "rm x");
    pty.wait_for("? app").unwrap();
    pty.wait_for("asks: Bash \"rm x\"").unwrap();
    pty.wait_for("1 needs you").unwrap();
    pty.wait_for("[a] allow…").unwrap();
    pty.send("a").unwrap();
    pty.wait_for("allow once").unwrap();
    pty.send("\r").unwrap();
    assert_eq!(decision(hook)["behavior"], "allow");
    pty.wait_for("nobody needs you").unwrap();
    home.run("send app hello").ok();
    pty.wait_for("✉1").unwrap();
    pty.send("6").unwrap();
    pty.wait_for("UserPromptSubmit").unwrap();
    pty.send("r").unwrap();
    pty.wait_for("baton rotate app").unwrap();
    pty.send("y").unwrap();
    pty.wait_for("sealed: type /clear").unwrap();
    pty.send("3").unwrap();
    pty.wait_for("made by baton").unwrap();
    // The screen shows that the daemon is gone, and starts it again.
    served.kill();
    pty.wait_until("the screen is served again", |screen| screen.contains("daemon ok")).unwrap();
    client.hook("SessionEnd").ok();
    pty.wait_for("· app").unwrap();
    pty.send("q").unwrap();
    assert_eq!(code(pty.wait_for_end().unwrap()), 0);
    home.run("serve --stop").ok();
}

#[test]
fn without_the_daemon_the_files_are_read_and_nothing_is_started() {
    let home = Home::new(BATON);
    let client = Client::new(&home);
    client.starts("startup").ok();
    let mut pty = wide(&home, &["--no-daemon"]);
    pty.wait_for("○ app").unwrap();
    pty.wait_for("from the files").unwrap();
    client.answers(104_000);
    client.hook("UserPromptSubmit").ok();
    pty.wait_for("● app").unwrap();
    pty.send("3").unwrap();
    pty.wait_for("started").unwrap();
    pty.send("q").unwrap();
    pty.wait_for_end().unwrap();
    assert!(!home.state().join("run/daemon.sock").exists());
}

#[test]
fn a_small_terminal_shows_one_thing_at_a_time_and_a_larger_one_both() {
    let home = Home::new(BATON);
    let client = Client::new(&home);
    client.starts("startup").ok();
    let mut pty = Pty::start(&top(&home, &["--no-daemon"])).unwrap();
    pty.wait_for("○ app").unwrap();
    assert!(!pty.screen().contains("Handoff"));
    pty.send("\r").unwrap();
    pty.wait_for("Handoff").unwrap();
    pty.send("\x1b").unwrap();
    pty.wait_until("the list", |screen| !screen.contains("Handoff")).unwrap();
    pty.resize(150, 45).unwrap();
    pty.wait_until("both", |screen| screen.contains("Handoff") && screen.contains("context of app")).unwrap();
    pty.resize(60, 20).unwrap();
    pty.wait_until("the list", |screen| screen.contains("○ app") && !screen.contains("Handoff")).unwrap();
    pty.send("q").unwrap();
    pty.wait_for_end().unwrap();
}

#[test]
fn a_key_that_comes_with_a_resize_is_not_lost() {
    let home = Home::new(BATON);
    let mut pty = wide(&home, &["--no-daemon"]);
    pty.wait_for("No agent is here").unwrap();
    for n in 0..baton_testkit::times(20) {
        let width = 120 + u16::try_from(n % 2).unwrap();
        pty.resize(width, 40).unwrap();
        pty.send("?").unwrap();
        pty.wait_for("any key closes this").unwrap();
        pty.resize(width + 2, 40).unwrap();
        pty.send("x").unwrap();
        pty.wait_until("the help is closed", |screen| !screen.contains("any key closes this")).unwrap();
    }
    pty.send("q").unwrap();
    pty.wait_for_end().unwrap();
}

#[test]
fn in_tmux_keys_and_colours_come_through_and_no_color_is_kept() {
    let Some(tmux) = Tmux::installed().unwrap() else { return };
    let home = Home::new(BATON);
    let client = Client::new(&home);
    client.starts("startup").ok();
    client.hook("UserPromptSubmit").ok();
    let launch = |no_color: bool| {
        let command = top(&home, &["--no-daemon"]);
        let mut launch = Launch::new(BATON, home.project()).args(&["top", "--no-daemon"]);
        for (name, value) in command.get_envs() {
            if let Some(value) = value {
                launch = launch.env(name.to_string_lossy(), value);
            }
        }
        if no_color { launch.env("NO_COLOR", "1") } else { launch }
    };
    for (name, no_color) in [("colour", false), ("plain", true)] {
        let pane = tmux.run(name, &launch(no_color)).unwrap();
        pane.wait_for("● app", LONG).unwrap();
        let styled = pane.styled_screen().unwrap();
        let is_coloured = ["[32m", ";32m", "38;5;2m"].iter().any(|code| styled.contains(code));
        assert_eq!(is_coloured, !no_color, "{styled:?}");
        pane.keys(&["?"]).unwrap();
        pane.wait_for("baton rotate app", LONG).unwrap();
        pane.keys(&["Escape"]).unwrap();
        pane.type_text("/nobody").unwrap();
        pane.wait_for("Nobody matches", LONG).unwrap();
        pane.keys(&["Escape"]).unwrap();
        pane.wait_for("● app", LONG).unwrap();
        pane.keys(&["q"]).unwrap();
        pane.wait_for_end(LONG).unwrap();
    }
}

#[test]
fn in_tmux_several_agents_are_led_through_the_daemon() {
    let Some(tmux) = Tmux::installed().unwrap() else { return };
    let home = Home::new(BATON);
    home.write(".config/baton/config.toml", "[approvals]\nwait_for = \"all\"\n");
    let served = Served::new(&home);
    let clients: Vec<Client<'_>> = (0..3).map(|_| Client::new(&home)).collect();
    for client in &clients {
        client.starts("startup").ok();
    }
    clients[1].hook("UserPromptSubmit").ok();
    let mut launch = Launch::new(BATON, home.project()).args(&["top"]);
    for (name, value) in top(&home, &[]).get_envs() {
        if let Some(value) = value {
            launch = launch.env(name.to_string_lossy(), value);
        }
    }
    let pane = tmux.run("led", &launch).unwrap();
    for row in ["○ app ", "● app-oak", "○ app-elm", "daemon ok"] {
        pane.wait_for(row, LONG).unwrap();
    }
    // An agent that asks moves up, is answered with a key, and returns to its place.
    let hook = ask(&clients[2], "make release");
    pane.wait_for("? app-elm", LONG).unwrap();
    pane.wait_for("1 needs you", LONG).unwrap();
    pane.keys(&["g", "a"]).unwrap();
    pane.wait_for("allow once", LONG).unwrap();
    pane.keys(&["Enter"]).unwrap();
    assert_eq!(decision(hook)["behavior"], "allow");
    pane.wait_for("nobody needs you", LONG).unwrap();
    assert_eq!(home.run("approvals log --json").json()[0]["answer"]["door"], "screen");
    // A message by a key, seen in the daemon's own listing.
    pane.type_text("/oak").unwrap();
    pane.keys(&["Enter", "s"]).unwrap();
    pane.type_text("hello there").unwrap();
    pane.keys(&["Enter"]).unwrap();
    wait_until("the message waits", || served.get("/sessions/app-oak")["mail"] == 1);
    pane.wait_for("✉1", LONG).unwrap();
    pane.keys(&["q"]).unwrap();
    pane.wait_for_end(LONG).unwrap();
}

/// How a terminal is that nobody has changed.
fn untouched(home: &Home) -> TerminalState {
    let mut pty = Pty::start(&home.command("true")).unwrap();
    pty.wait_for_end().unwrap();
    pty.left().unwrap()
}

#[test]
fn the_terminal_is_whole_however_and_whenever_the_screen_is_ended() {
    let home = Home::in_memory(BATON);
    baton_testkit::load::populate(&home, 50);
    let untouched = untouched(&home);
    let mut rng = Rng::new(23);
    // A debug build panics on the last signal.
    let ways = [("SIGTERM", Signal::TERM), ("SIGHUP", Signal::HUP), ("a panic", Signal::USR2)];
    for n in 0..baton_testkit::times(20) {
        let (name, signal) = ways[usize::try_from(rng.pick(0..3)).unwrap()];
        let mut pty = Pty::start(&top(&home, &["--no-daemon"])).unwrap();
        // While it starts, while it reads the agents, or while it is in use.
        let moment = rng.pick(0..4);
        if moment > 0 {
            pty.wait_for(if moment == 1 { " baton " } else { "load-" }).unwrap();
        }
        if moment == 3 {
            for key in ["j", "\t", "s", "x", "\x1b", "?", " ", "/", "\x1b"]
                .iter()
                .take(usize::try_from(rng.pick(0..10)).unwrap())
            {
                pty.send(key).unwrap();
            }
        }
        pty.signal(signal).unwrap();
        let status = pty.wait_for_end().unwrap();
        let left = pty.left().unwrap();
        let round = format!("round {n}, {name} at moment {moment} ({status})");
        assert_eq!(left.termios, untouched.termios, "{round}");
        let without_cursor = |modes: &str| modes.rsplit_once(" at ").unwrap().0.to_owned();
        assert_eq!(without_cursor(&left.modes), without_cursor(&untouched.modes), "{round}");
        if name != "a panic" {
            assert_eq!(left, untouched, "{round}");
            assert_eq!(code(status), if name == "SIGTERM" { 128 + 15 } else { 128 + 1 }, "{round}");
        } else if moment > 0 {
            // The panic message is readable on the screen.
            assert!(left.text.contains("asked to panic"), "{round}: {}", left.text);
        }
    }
}

#[test]
fn the_terminal_is_whole_after_the_user_has_left() {
    let home = Home::in_memory(BATON);
    baton_testkit::load::populate(&home, 3);
    let untouched = untouched(&home);
    for keys in ["q", "\x03", "s\x03\x03", "?\x1bq", "/load\rq"] {
        let mut pty = Pty::start(&top(&home, &["--no-daemon"])).unwrap();
        pty.wait_for("load-").unwrap();
        pty.send(keys).unwrap();
        assert_eq!(code(pty.wait_for_end().unwrap()), 0, "{keys:?}");
        assert_eq!(pty.left().unwrap(), untouched, "{keys:?}");
    }
}

#[test]
fn control_z_gives_the_terminal_to_the_shell_and_fg_brings_the_screen_back() {
    if !tools::has(&["bash"]) {
        return;
    }
    let home = Home::new(BATON);
    let client = Client::new(&home);
    client.starts("startup").ok();
    let mut shell = home.command("bash");
    shell.args(["--norc", "--noprofile", "-i"]).env("PS1", "shell> ").env("LANG", "C.UTF-8");
    let mut pty = Pty::start(&shell).unwrap();
    pty.wait_for("shell> ").unwrap();
    pty.send(format!("{BATON} top --no-daemon\r")).unwrap();
    pty.wait_for("○ app").unwrap();
    pty.send("\x1a").unwrap();
    pty.wait_for("Stopped").unwrap();
    pty.send("echo still$((40+2))here\r").unwrap();
    pty.wait_for("still42here").unwrap();
    pty.send("fg\r").unwrap();
    pty.wait_for("○ app").unwrap();
    pty.send("q").unwrap();
    pty.wait_until("the shell again", |screen| screen.trim_end().ends_with("shell>")).unwrap();
    pty.send("exit\r").unwrap();
    pty.wait_for_end().unwrap();
}

#[test]
fn without_a_terminal_or_an_install_there_is_help_instead() {
    let home = Home::new(BATON);
    let said = home.run("top").fails(2);
    assert!(said.contains("needs a terminal") && said.contains("baton agents"), "{said}");
    let mut alone = Pty::start(&home.baton([""; 0])).unwrap();
    alone.wait_for("`baton help COMMAND` explains one").unwrap();
    assert_eq!(code(alone.wait_for_end().unwrap()), 0, "a person has what they wanted");
}

#[test]
fn an_agent_that_the_api_starts_is_on_the_screen_and_retired_from_it() {
    let Some(world) = World::unattended("turn\n  tokens 5%\n  say Done.\n") else { return };
    let served = Served::start(&world.home, world.command(&["serve"]));
    let mut pty = wide_for(&world.command(&["top"]));
    pty.wait_for("No agent is here").unwrap();
    let body = json!({ "name": "ada", "cwd": world.home.project(), "provider": "demo", "prompt": "Port it" });
    let agent = served.post("/spawn", &body);
    assert_eq!(agent["id"], "ada");
    pty.wait_for("ada").unwrap();
    wait_until("it has worked", || served.get("/sessions/ada")["state"] == "idle");
    pty.wait_for("agent   Done.").unwrap();
    pty.send("R").unwrap();
    pty.wait_for("baton retire ada").unwrap();
    pty.send("y").unwrap();
    pty.wait_for("· ada").unwrap();
    wait_until("it is retired", || served.get("/sessions/ada")["state"] == "retired");
    pty.send("q").unwrap();
    pty.wait_for_end().unwrap();
}

#[test]
fn enter_attaches_and_a_detach_returns_to_the_screen() {
    let Some(world) = World::new("turn\n  tokens 5%\n  say Hello there.\n") else { return };
    world.spawn("ada", &["--prompt", "Say hello"]).ok();
    wait_until("it has worked", || world.session("ada")["turn"] == "idle");
    let mut command = world.command(&["top", "--no-daemon"]);
    command.env("LANG", "C.UTF-8").env("TERM", "xterm-256color");
    let mut pty = wide_for(&command);
    pty.wait_for("○ ada").unwrap();
    pty.send("\r").unwrap();
    pty.wait_until("its own terminal", |screen| {
        screen.contains("Hello there.") && !screen.contains("nobody needs you")
    })
    .unwrap();
    world.tmux(&["detach-client", "-s", "ada"]);
    pty.wait_for("nobody needs you").unwrap();
    pty.send("q").unwrap();
    assert_eq!(code(pty.wait_for_end().unwrap()), 0);
}

#[test]
fn a_long_message_is_written_in_the_editor_and_a_path_is_copied_through_the_terminal() {
    let home = Home::new(BATON);
    let client = Client::new(&home);
    client.starts("startup").ok();
    let mut command = top(&home, &["--no-daemon"]);
    command.env_remove("VISUAL").env("EDITOR", "printf 'written in the\\neditor' >>");
    let mut pty = wide_for(&command);
    pty.wait_for("○ app").unwrap();
    pty.send("s").unwrap();
    pty.wait_for("baton send app").unwrap();
    pty.send("\x05").unwrap();
    pty.wait_for("✉1").unwrap();
    assert_eq!(home.run("inbox app --json").json()[0]["text"], "written in the\neditor");
    pty.send("y").unwrap();
    // The terminal's own clipboard sequence, which ssh and tmux pass on.
    wait_until("it is copied", || String::from_utf8_lossy(&pty.raw()).contains("\x1b]52;c;"));
    pty.send("q").unwrap();
    pty.wait_for_end().unwrap();
}
