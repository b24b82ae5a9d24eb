//! The status line as people see it.

use std::fmt::Write as _;

use baton_testkit::Home;
use baton_testkit::hooks::{Client, send};
use serde_json::json;

use crate::BATON;

fn plain(home: &Home) -> Client<'_> {
    let client = Client::new(home).env("NO_COLOR", "1").env("COLUMNS", "100");
    client.starts("startup").silent();
    client
}

#[test]
fn the_line_at_every_stage_of_a_cycle() {
    let home = Home::new(BATON);
    let client = plain(&home);
    let mut seen = String::new();
    let mut show = |what: &str, line: String| {
        let _ = writeln!(seen, "{what}: {}", line.trim_end());
    };
    show("before the first answer", client.status_line(None));
    show("with room", client.status_line(Some(24_000)));
    show("early", client.status_line(Some(84_000)));
    show("warned", client.status_line(Some(104_000)));
    home.run("send app --important hello").ok();
    show("mail waits", client.status_line(Some(104_000)));
    client.hook("PostToolUse");
    client.answers(136_000);
    client.hook("PostToolUse").context().unwrap();
    client.hook("Stop").message().unwrap();
    show("critical and sealed", client.status_line(Some(136_000)));
    home.run("checkpoint --goal parser --now lexer").ok();
    show("with a checkpoint", client.status_line(Some(136_000)));
    insta::assert_snapshot!(seen);
}

#[test]
fn colour_tells_the_level_and_no_color_is_honoured() {
    let home = Home::new(BATON);
    let client = Client::new(&home).env("COLUMNS", "100");
    client.starts("startup").silent();
    let colours: Vec<String> = [24_000, 84_000, 104_000, 136_000]
        .map(|tokens| {
            let line = client.status_line(Some(tokens));
            line[line.find("\u{1b}[").unwrap()..=line.find('m').unwrap()].replace('\u{1b}', "")
        })
        .into();
    assert_eq!(colours, ["[32m", "[36m", "[33m", "[1;31m"]);
    let plain = Client::new(&home).env("NO_COLOR", "1");
    assert!(!plain.status_line(Some(136_000)).contains('\u{1b}'));
    let dumb = Client::new(&home).env("TERM", "dumb");
    assert!(!dumb.status_line(Some(136_000)).contains('\u{1b}'));
}

#[test]
fn it_fits_the_width_it_is_given_and_a_locale_without_unicode() {
    let home = Home::new(BATON);
    home.run("checkpoint --goal a-rather-long-goal-that-takes-room --now and-a-now-that-is-no-shorter").ok();
    for width in [10, 24, 40, 60, 80] {
        let client = Client::new(&home).env("NO_COLOR", "1").env("COLUMNS", &width.to_string());
        client.starts("startup").silent();
        let line = client.status_line(Some(104_000));
        assert!(line.lines().all(|line| line.chars().count() <= width), "{width}: {line}");
        assert!(line.contains("52%"), "{width}: {line}");
    }
    let ascii = Client::new(&home).env("NO_COLOR", "1").env("LANG", "C");
    ascii.starts("startup").silent();
    assert!(ascii.status_line(Some(104_000)).is_ascii());
}

#[test]
fn goal_and_now_take_a_second_line_when_the_first_has_no_room() {
    let home = Home::new(BATON);
    home.run_with_input(
        "checkpoint --goal the-parser-accepts-tabs --now run-the-tests-then-update-the-changelog",
        "",
    )
    .ok();
    for (width, lines) in [(80, 2), (100, 2), (200, 1)] {
        let client = Client::new(&home).env("NO_COLOR", "1").env("COLUMNS", &width.to_string());
        client.starts("startup").silent();
        let line = client.status_line(Some(104_000));
        assert_eq!(line.lines().count(), lines, "{width}: {line}");
        assert!(line.contains("goal: the-parser") && line.contains("now: run-the-tests"), "{width}: {line}");
    }
}

#[test]
fn a_session_that_could_not_be_recorded_still_has_its_colour() {
    let home = Home::new(BATON);
    let client = Client::new(&home);
    assert!(client.status_line(Some(136_000)).starts_with("\u{1b}[1;31m"), "no hook has spoken for it");
    assert!(client.status_line(Some(24_000)).starts_with("\u{1b}[32m"));
}

#[test]
fn a_session_that_no_hook_has_announced_is_shown_and_nothing_is_kept() {
    let home = Home::new(BATON);
    let client = Client::new(&home).env("NO_COLOR", "1");
    assert!(client.status_line(Some(104_000)).contains("52%"));
    assert!(!home.state().join("sessions").exists());
    assert!(!client.percentage_file().exists());
}

#[test]
fn a_fresh_context_is_empty_at_once_after_a_compaction_and_after_a_clear() {
    let home = Home::new(crate::BATON);
    let mut client = plain(&home);
    client.starts("startup").ok();
    client.answers(140_000);
    client.hook("PostToolUse").ok();
    assert!(client.status_line(Some(140_000)).contains("70%"));
    let published = || std::fs::read_to_string(client.percentage_file()).unwrap();
    client.hook("PreCompact").ok();
    client.starts("compact").ok();
    // The client has no figures before its next answer.
    let line = client.status_line(None);
    assert!(line.contains(" 0%") && !line.contains("70%"), "{line}");
    assert_eq!(published().trim(), "0");
    // Its transcript does not show the compaction yet.
    client.hook("PostToolUse").ok();
    assert!(client.status_line(None).contains(" 0%"), "{}", client.status_line(None));
    client.hook("PostCompact").ok();
    client.answers(30_000);
    client.hook("PostToolUse").ok();
    assert!(client.status_line(None).contains("15%"), "{}", client.status_line(None));

    let before = client.session.clone();
    client.hook_with("SessionEnd", serde_json::json!({ "reason": "clear" })).ok();
    let line = client.status_line(None);
    assert!(line.contains(" 0%"), "the client still names the session that is over: {line}");
    client.clears().ok();
    assert_ne!(client.session, before);
    assert!(client.status_line(None).contains(" 0%"), "{}", client.status_line(None));
}

/// A store that is rewritten at each render wears out the disk and everybody's patience.
#[test]
fn unchanged_numbers_write_nothing() {
    let home = Home::new(BATON);
    let client = plain(&home);
    client.status_line(Some(104_000));
    let before = crate::hooks::tree(&home);
    client.status_line(Some(104_000));
    assert_eq!(crate::hooks::changes(&before, &crate::hooks::tree(&home)), [""; 0]);
}

#[test]
fn whatever_it_is_sent_it_exits_with_0_and_prints_a_line_or_nothing() {
    let home = Home::new(BATON);
    let client = plain(&home);
    for input in ["", "x", "[]", "{", "{}", r#"{"context_window":7,"model":[],"cwd":3}"#] {
        let mut command = home.baton(["statusline"]);
        client.dress(&mut command);
        let heard = send(command, input.as_bytes()).ok();
        assert!(heard.out.lines().count() <= 1, "{input}: {}", heard.out);
    }
    let mut command = home.baton(["statusline"]);
    client.dress(&mut command);
    command.env_remove("HOME").env("BATON_STATE_DIR", home.state());
    let payload = json!({ "session_id": client.session, "context_window": { "context_window_size": 200_000,
        "current_usage": { "input_tokens": 104_000 } } });
    send(command, payload.to_string().as_bytes()).ok();
}

/// A small differential test: the line shows what the transcript says, whichever was read last.
#[test]
fn line_and_transcript_agree_whichever_spoke_last() {
    let home = Home::new(BATON);
    let client = plain(&home);
    client.answers(90_000);
    client.hook("PostToolUse").silent();
    assert!(client.status_line(None).contains("45%"), "the transcript's word is kept");
    assert!(client.status_line(Some(96_000)).contains("48%"));
    assert_eq!(std::fs::read_to_string(client.percentage_file()).unwrap(), "48");
    client.answers(98_000);
    client.hook("PostToolUse").silent();
    assert_eq!(std::fs::read_to_string(client.percentage_file()).unwrap(), "49");
}
