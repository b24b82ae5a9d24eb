//! `baton sessions` in a terminal, and the pager for long output.

use anyhow::Result;
use baton_testkit::Home;
use baton_testkit::hooks::Client;
use baton_testkit::pty::{Pty, code};
use serde_json::json;

use super::made::{Claude, id};
use super::resume::{home, started, with_client};

fn sessions(home: &Home, args: &[&str]) -> std::process::Command {
    let mut command = home.baton(["sessions"].iter().chain(args));
    with_client(home, &mut command);
    command
}

#[test]
fn typing_filters_arrows_choose_and_enter_resumes() -> Result<()> {
    let home = home();
    for (n, title) in [(1, "Port the parser"), (2, "Fix the parser"), (3, "Write the docs")] {
        Claude::new(&home, n, &home.project()).user(title).says("Yes.").write();
    }
    Claude::new(&home, 4, &home.path().join("work/other")).user("Elsewhere").says("Yes.").write();
    let mut pty = Pty::start(&sessions(&home, &[]))?;
    let screen = pty.wait_for("Write the docs")?;
    assert!(screen.contains("(3 of 4)") && !screen.contains("Elsewhere"), "{screen}");
    pty.send("\t")?;
    pty.wait_for("Elsewhere")?;
    pty.send("\tPARSER")?;
    pty.wait_until("two choices", |s| s.contains("(2 of 4)") && !s.contains("Write the docs"))?;
    pty.send("\x1b[B")?;
    pty.wait_until("the second one marked", |s| s.contains("> 00000001"))?;
    pty.send("\r")?;
    assert_eq!(code(pty.wait_for_end()?), 0);
    let screen = pty.screen();
    assert!(screen.contains("resumed") && !screen.contains("Resume which"), "{screen}");
    assert!(started(&home).unwrap().contains(&id(1)));
    Ok(())
}

#[test]
fn esc_leaves_and_the_terminal_is_as_it_was() -> Result<()> {
    let home = home();
    Claude::new(&home, 1, &home.project()).user("Port the parser").says("Yes.").write();
    for (key, expected) in [("\x1b", 0), ("\x03", 0)] {
        let mut pty = Pty::start(&sessions(&home, &[]))?;
        let before = Pty::start(&home.command("true"))?.left()?;
        pty.wait_for("Port the parser")?;
        assert!(pty.left()?.modes.contains("alternate true"));
        pty.send(key)?;
        assert_eq!(code(pty.wait_for_end()?), expected);
        let after = pty.left()?;
        assert_eq!(
            (after.termios, after.modes, after.text.trim()),
            (before.termios, before.modes, ""),
            "{key:?}"
        );
    }
    assert_eq!(started(&home), None);
    Ok(())
}

#[test]
fn a_signal_while_choosing_leaves_the_terminal_as_it_was() -> Result<()> {
    let home = home();
    Claude::new(&home, 1, &home.project()).user("Port the parser").says("Yes.").write();
    let mut pty = Pty::start(&sessions(&home, &[]))?;
    let before = Pty::start(&home.command("true"))?.left()?;
    pty.wait_for("Port the parser")?;
    pty.signal(rustix::process::Signal::TERM)?;
    pty.wait_for_end()?;
    let after = pty.left()?;
    assert_eq!((after.termios, after.modes), (before.termios, before.modes));
    Ok(())
}

#[test]
fn long_output_goes_through_the_pager_and_short_output_does_not() -> Result<()> {
    let home = home();
    for n in 1..40 {
        Claude::new(&home, n, &home.project()).user("Port the parser").says("Yes.").write();
    }
    let paged = |args: &[&str]| -> Result<(usize, String)> {
        let out = home.path().join("paged");
        let _ = std::fs::remove_file(&out);
        let mut command = sessions(&home, args);
        command.env("PAGER", format!("cat >'{}'", out.display()));
        let mut pty = Pty::start(&command)?;
        assert_eq!(code(pty.wait_for_end()?), 0);
        Ok((std::fs::read_to_string(out).map_or(0, |t| t.lines().count()), pty.screen()))
    };
    assert_eq!(paged(&["list", "-n", "0"])?.0, 40);
    assert_eq!(paged(&["list", "-n", "5"])?.0, 0, "it fits the screen");
    let (to_pager, screen) = paged(&["list", "-n", "0", "--no-pager"])?;
    assert!(to_pager == 0 && screen.contains("Port the parser"), "{screen}");
    let mut command = sessions(&home, &["list", "-n", "0"]);
    command.env("PAGER", "no-such-pager");
    let mut pty = Pty::start(&command)?;
    assert_eq!(code(pty.wait_for_end()?), 0);
    assert!(
        pty.screen().contains("Port the parser"),
        "without a pager it is simply printed: {}",
        pty.screen()
    );
    Ok(())
}

#[test]
fn in_a_narrow_terminal_no_row_is_wider_than_it() -> Result<()> {
    let home = home();
    let far = home.path().join("work/a-folder-with-a-long-name/and-one-below-it/the-project-itself");
    for (n, words) in [(1, "and its tests "), (2, "とテスト"), (3, "👩‍💻 et les accents e\u{301} ")]
    {
        let asked = format!("Port the parser, number {n}, {}", words.repeat(20));
        Claude::new(&home, n, &far).user(&asked).says("Yes.").write();
    }
    let mut pty = Pty::start(&sessions(&home, &["list", "--all", "--no-pager"]))?;
    assert_eq!(code(pty.wait_for_end()?), 0);
    pty.drained()?;
    let raw = pty.raw();
    let plain = baton_core::plain::plain(&String::from_utf8_lossy(&raw)).into_owned();
    let rows: Vec<&str> = plain.lines().filter(|line| !line.trim().is_empty()).collect();
    assert_eq!(rows.len(), 4, "{plain}");
    for row in rows {
        let width = row.trim_end().chars().map(baton_core::plain::columns).sum::<usize>();
        assert!(width <= 80, "{width}: {row}");
    }
    assert!(plain.contains("the-project-itself") && plain.contains("Port the parser"), "{plain}");
    Ok(())
}

#[test]
fn typing_finds_what_was_said_and_the_selected_row_is_previewed() -> Result<()> {
    let home = home();
    Claude::new(&home, 1, &home.project()).user("Port the parser").says("The flaky lexer is mended.").write();
    Claude::new(&home, 2, &home.project()).user("Fix the tests").says("All green.").write();
    let mut pty = Pty::start(&sessions(&home, &[]))?;
    pty.wait_for("agent: All green.")?;
    pty.send("/FLAKY lexer")?;
    pty.wait_for("Enter search what was said")?;
    pty.send("\r")?;
    pty.wait_until("the one in which it was said", |s| {
        s.contains("(1 of 2)") && s.contains("agent: The flaky lexer is mended.")
    })?;
    pty.send("\r")?;
    assert_eq!(code(pty.wait_for_end()?), 0);
    assert!(started(&home).unwrap().contains(&id(1)));
    Ok(())
}

#[test]
fn the_contexts_of_one_task_are_one_row() -> Result<()> {
    let home = home();
    let mut client = Client::new(&home);
    client.starts("startup").ok();
    let asked = |client: &Client<'_>, words: &str| {
        client.record(
            &json!({ "type": "user", "uuid": words, "sessionId": client.session, "cwd": home.project(),
            "timestamp": "2026-11-16T01:00:00Z", "message": { "role": "user", "content": words } }),
        );
        client.answers(20_000);
        client.hook("Stop").ok();
    };
    asked(&client, "Port the parser");
    client.clears().ok();
    asked(&client, "Go on with it");
    let mut pty = Pty::start(&sessions(&home, &[]))?;
    let screen = pty.wait_for("2 contexts")?;
    assert!(screen.contains("(1 of 1)"), "{screen}");
    pty.send("port the")?;
    pty.wait_until("found by its beginning", |s| s.contains("(1 of 1)") && s.contains("> port the"))?;
    pty.send("\x1b")?;
    pty.wait_for_end()?;
    Ok(())
}
