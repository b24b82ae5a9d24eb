//! Listings at common terminal widths, and what they say when there is nothing.

use anyhow::Result;
use baton_testkit::Home;
use baton_testkit::hooks::Client;
use baton_testkit::pty::Pty;
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::json;

use crate::BATON;

/// What `line` prints in a terminal of so many columns.
pub(crate) fn at(home: &Home, columns: u16, line: &str, coloured: bool) -> Result<String> {
    let mut command = home.baton(line.split(' '));
    command.env("PAGER", "cat").env("TERM", "xterm");
    if !coloured {
        command.env("NO_COLOR", "1");
    }
    let size = Winsize { ws_row: 50, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    let mut pty = Pty::start_with(&command, |terminal| Ok(tcsetwinsize(terminal, size)?))?;
    pty.wait_for_end()?;
    pty.drained()?;
    Ok(String::from_utf8_lossy(&pty.raw()).replace('\r', ""))
}

fn columns(line: &str) -> usize {
    let mut seen = 0;
    let mut rest = line.chars();
    while let Some(c) = rest.next() {
        match c {
            '\x1b' => while rest.next().is_some_and(|c| c != 'm') {},
            c => seen += baton_core::plain::columns(c),
        }
    }
    seen
}

#[test]
fn no_row_of_a_table_is_wider_than_the_terminal_and_what_matters_stays() -> Result<()> {
    let home = Home::new(BATON);
    home.run("memory init").ok();
    let client = Client::new(&home);
    client.starts("startup").ok();
    client.record(&json!({ "type": "user", "uuid": "u", "sessionId": client.session,
        "cwd": home.project(), "timestamp": "2026-11-16T01:00:00Z", "message": { "role": "user", "content": "日本語のパーサーを書いてください、そしてテストも全部書いてください" } }));
    client.answers(130_000);
    client.hook("Stop").ok();
    home.run_with_input(
        "memory save -",
        "Here.\n=== session document ===\n# 長い題名のある文書\n\nWhat was done.\n",
    )
    .ok();
    home.run("checkpoint --goal リリースの準備をすべて終わらせる --now テストを書いて、そして直す").ok();
    let sealed = home.run_with_input("handoffs seal -", "# Go on\n").ok();
    let id = sealed.split_whitespace().find(|word| word.starts_with("HO-")).unwrap();
    let document = crate::install::files(&home.project().join(".claude/memory"));
    let document = &document.iter().find(|(name, _)| name.starts_with("session-")).unwrap().0;
    for width in [60, 80, 120] {
        for (line, words) in [
            ("handoffs", &["STATE", id][..]),
            ("handoffs list --all", &["STATE", id]),
            ("memory list", &["ABOUT", document]),
            ("log -n 20", &["session-start", "level=critical"]),
            ("checkpoint list", &["リリース"]),
            ("status", &["AGENT", "critical"][..]),
            ("agents", &["AGENT", "65%"]),
            ("sessions list", &["ABOUT"]),
            ("backup list", &["ABOUT"]),
            ("config", &["context.enabled", "true"]),
        ] {
            let shown = at(&home, width, line, true)?;
            let plain = at(&home, width, line, false)?;
            let is_coloured = ["\x1b[3", "\x1b[1m", "\x1b[2m"].iter().any(|code| plain.contains(code));
            assert!(!is_coloured, "{line} at {width}: {plain:?}");
            assert_eq!(plain.lines().count(), shown.lines().count(), "{line}: colour changes no line");
            for word in words {
                assert!(shown.contains(word), "{line} at {width}: {shown}");
            }
            let table = shown.lines().take_while(|line| !line.is_empty() && !line.contains("on disk"));
            for row in table {
                assert!(columns(row) <= usize::from(width), "{line} at {width}: {row:?}");
            }
        }
    }
    assert!(at(&home, 120, "status", true)?.contains("\x1b[31mcritical"), "levels are coloured");
    Ok(())
}

#[test]
fn backups_are_listed_with_what_they_were_about() {
    let home = Home::new(BATON);
    let client = Client::new(&home);
    client.starts("startup").ok();
    client.record(&json!({ "type": "user", "uuid": "u", "sessionId": client.session,
        "cwd": home.project(), "timestamp": "2026-11-16T01:00:00Z", "message": { "role": "user", "content": "Write the parser" } }));
    client.answers(20_000);
    client.hook("Stop").ok();
    let listed = home.run("backup list").ok();
    assert!(listed.contains(&client.session) && listed.contains("Write the parser"), "{listed}");
}

/// An agent that was woken by a message has that message as its title, without our frame.
#[test]
fn titles_and_previews_show_no_frames() {
    let home = Home::new(BATON);
    let client = Client::new(&home);
    client.starts("startup").ok();
    let sent = home.run("send app Port_the_parser --json").json();
    std::fs::write(home.state().join("fence.key"), [7; 32]).unwrap();
    let framed =
        baton_testkit::home::framed(&home.state(), sent["id"].as_str().unwrap(), "user", "Port the parser");
    client.record(&json!({ "type": "user", "uuid": "u", "sessionId": client.session,
        "cwd": home.project(), "timestamp": "2026-11-16T01:00:00Z", "message": { "role": "user", "content": framed } }));
    client.answers(20_000);
    client.hook("Stop").ok();
    for line in ["sessions list", "backup list"] {
        let shown = home.run(line).ok();
        assert!(
            shown.contains("user: Port the parser") && !shown.contains("[baton message"),
            "{line}: {shown}"
        );
    }
    let told = home.run("tail app").ok();
    assert!(told.contains("user   Port the parser") && !told.contains("[baton message"), "{told}");
}

#[test]
fn the_log_is_of_this_project_unless_all_is_asked_for() {
    let home = Home::new(BATON);
    assert!(home.run("log").out.contains("Nothing yet in this project; `--all`"));
    Client::new(&home).starts("startup").ok();
    std::fs::create_dir_all(home.path().join("work/other/.git")).unwrap();
    let other = home.path().join("work/other");
    let log = |line: &[&str]| baton_testkit::home::run(home.baton(line).current_dir(&other));
    let here = home.run("log").ok();
    assert!(here.contains("session-start"), "{here}");
    let there = log(&["log"]);
    assert_eq!(there.code, Some(3));
    assert!(!there.out.contains("session-start"), "{}", there.out);
    assert!(log(&["log", "--all"]).out.contains("session-start"));
    assert!(log(&["log", "--json", "--all"]).out.contains("session-start"));
}

#[test]
fn people_see_words_and_programs_see_identifiers() {
    let home = Home::new(BATON);
    let client = Client::new(&home);
    client.starts("startup").ok();
    client.answers(90_000);
    client.hook("Stop").ok();
    let shown = home.run("status").ok();
    assert!(shown.contains("early warning") && !shown.contains("EARLY_WARN"), "{shown}");
    assert_eq!(home.run("status --json").json()[0]["level"], "EARLY_WARN");
    assert!(!home.run("config").ok().contains("CRITICAL"));
    let said = home.run("handoff notes.md").fails(2);
    assert!(said.contains("baton handoffs seal FILE") && said.contains("baton rotate"), "{said}");
}
