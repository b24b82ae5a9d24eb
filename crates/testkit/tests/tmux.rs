//! The tmux driver on its own, with plain programs.

use std::time::Duration;

use anyhow::Result;
use baton_testkit::clients::{ClientHome, Launch};
use baton_testkit::tmux::{Ended, Tmux, is_running};

const SOON: Duration = Duration::from_secs(10);

fn sh(place: &ClientHome, script: &str) -> Launch {
    place.launch("/bin/sh").args(&["-c", script])
}

#[test]
fn typed_text_reaches_the_program_and_its_exit_code_comes_back() -> Result<()> {
    let Some(tmux) = Tmux::installed()? else { return Ok(()) };
    let place = ClientHome::new()?;
    let pane = tmux.run("typed", &sh(&place, "read line; echo got:$line; exit 7"))?;
    pane.submit("Enter; the word;")?;
    pane.wait_for("got:Enter; the word;", SOON)?;
    assert_eq!(pane.wait_for_end(SOON)?, Ended::Code(7));
    Ok(())
}

#[test]
fn a_program_that_ends_at_once_still_leaves_its_exit_code() -> Result<()> {
    let Some(tmux) = Tmux::installed()? else { return Ok(()) };
    let place = ClientHome::new()?;
    assert_eq!(tmux.run("short", &sh(&place, "exit 3"))?.wait_for_end(SOON)?, Ended::Code(3));
    let killed = tmux.run("killed", &sh(&place, "kill -TERM $$"))?;
    assert_eq!(killed.wait_for_end(SOON)?, Ended::Signal(15));
    Ok(())
}

#[test]
fn a_pane_sees_its_own_environment_and_nothing_of_ours() -> Result<()> {
    let Some(tmux) = Tmux::installed()? else { return Ok(()) };
    let place = ClientHome::new()?;
    let launch = sh(&place, "env | cut -d= -f1 | sort; sleep 60").env("MARK", "x y");
    let screen = tmux.run("env", &launch)?.wait_for("TMUX_PANE", SOON)?;
    let names: Vec<&str> =
        screen.split_whitespace().filter(|name| !["_", "PWD", "SHLVL"].contains(name)).collect();
    let expected = [
        "HOME",
        "LANG",
        "MARK",
        "PATH",
        "SHELL",
        "TERM",
        "TERM_PROGRAM",
        "TERM_PROGRAM_VERSION",
        "TMPDIR",
        "TMUX",
        "TMUX_PANE",
        "TMUX_TMPDIR",
    ];
    assert_eq!(names, expected);
    Ok(())
}

#[test]
fn a_paste_is_bracketed_and_whole() -> Result<()> {
    let Some(tmux) = Tmux::installed()? else { return Ok(()) };
    let place = ClientHome::new()?;
    // Requests bracketed paste as the clients do, and shows the bytes.
    let show =
        r"stty raw -echo; printf '\033[?2004h'; echo ready; dd bs=1 count=25 2>/dev/null | od -An -c -w32";
    let pane = tmux.run("paste", &sh(&place, show))?;
    pane.wait_for("ready", SOON)?;
    pane.paste("line one\nlast")?;
    pane.wait_until("the whole paste", SOON, |screen| {
        let seen: String = screen.split_whitespace().collect();
        seen.contains(r"033[200~lineone\rlast033[201~")
    })?;
    Ok(())
}

#[test]
fn a_wait_that_runs_out_shows_the_screen() -> Result<()> {
    let Some(tmux) = Tmux::installed()? else { return Ok(()) };
    let place = ClientHome::new()?;
    let pane = tmux.run("wait", &sh(&place, "echo something else; sleep 60"))?;
    pane.wait_for("something else", SOON)?;
    let error = pane.wait_for("never shown", Duration::from_millis(40)).unwrap_err().to_string();
    assert!(error.contains("never shown") && error.contains("something else"), "{error}");
    Ok(())
}

#[test]
fn dropping_the_server_ends_what_runs_in_it() -> Result<()> {
    let Some(tmux) = Tmux::installed()? else { return Ok(()) };
    let place = ClientHome::new()?;
    let pid = tmux.run("dropped", &sh(&place, "exec sleep 600"))?.pid()?;
    assert!(is_running(pid));
    drop(tmux);
    assert!(!is_running(pid), "the program outlived its terminal");
    Ok(())
}
