//! The files in play come along with a handoff, whichever actuator gives the fresh context; but never a file of
//! secrets, one that git ignores, or a link. `clients::claude_files` uses the real client.

use std::fmt::Write as _;

use baton_testkit::hooks::{Client, session_id};
use baton_testkit::{Home, tools};
use serde_json::json;

use crate::BATON;
use crate::chain::is_sealed;

/// A project in git with files of each kind. Files that may be shown contain `SHOWN`, the others `HIDDEN`.
pub(crate) fn project(home: &Home) {
    let project = home.project();
    let git =
        std::process::Command::new("git").arg("-C").arg(&project).args(["init", "-q"]).status().unwrap();
    assert!(git.success());
    let write = |path: &str, text: &str| {
        let path = project.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("src/a.rs", "fn a() {} // SHOWN-A\n");
    write("src/b.rs", "fn b() {} // SHOWN-B\n");
    write("my notes.md", "SHOWN-NOTES\n");
    write(".env", "PLAIN_WORD=HIDDEN-SECRET\n");
    write("out/c.rs", "HIDDEN-IGNORED\n");
    write(".gitignore", "out/\n");
    std::os::unix::fs::symlink("/etc/hostname", project.join("src/link.rs")).unwrap();
}

/// The agent reads a file of the project.
pub(crate) fn reads(client: &Client<'_>, home: &Home, path: &str) {
    let (id, file) = (session_id(), home.project().join(path));
    let text = std::fs::read_to_string(&file).unwrap();
    let numbered = text.lines().enumerate().fold(String::new(), |mut out, (n, line)| {
        let _ = writeln!(out, "{:>6}→{line}", n + 1);
        out
    });
    client.record(&json!({
        "type": "assistant", "uuid": session_id(), "cwd": home.project(), "sessionId": client.session,
        "message": { "role": "assistant", "content": [
            { "type": "tool_use", "id": id, "name": "Read", "input": { "file_path": file } }] },
    }));
    client.record(&json!({
        "type": "user", "uuid": session_id(), "cwd": home.project(), "sessionId": client.session,
        "message": { "role": "user", "content": [
            { "type": "tool_result", "tool_use_id": id, "content": numbered }] },
        "toolUseResult": { "type": "text", "file": { "filePath": file, "content": text,
            "numLines": text.lines().count(), "startLine": 1, "totalLines": text.lines().count() } },
    }));
}

const READ: [&str; 6] = [".env", "out/c.rs", "src/link.rs", "my notes.md", "src/b.rs", "src/a.rs"];

/// A session with a goal that has read all of them. Nothing without git: the test is skipped.
pub(crate) fn has_read<'a>(home: &'a Home, client: Client<'a>) -> Option<Client<'a>> {
    if !tools::has(&["git"]) {
        return None;
    }
    project(home);
    client.starts("startup");
    client.record(&json!({
        "type": "user", "uuid": session_id(), "cwd": home.project(), "sessionId": client.session,
        "message": { "role": "user", "content": "Port the tests." },
    }));
    for path in READ {
        reads(&client, home, path);
    }
    Some(client)
}

#[track_caller]
pub(crate) fn assert_shown(text: &str, marks: &[&str]) {
    for mark in marks {
        assert_eq!(text.matches(mark).count(), 1, "{mark} in {text}");
    }
    assert!(!text.contains("HIDDEN"), "{text}");
}

const ALL: [&str; 3] = ["SHOWN-A", "SHOWN-B", "SHOWN-NOTES"];

fn lines_of(count: usize) -> String {
    let lines: Vec<String> = (1..=count).map(|n| format!("line number {n} of many\n")).collect();
    lines.concat()
}

#[test]
fn after_a_clear_by_hand_the_first_prompt_brings_the_files_and_the_second_none() {
    let home = Home::new(BATON);
    let Some(mut client) = has_read(&home, Client::new(&home)) else { return };
    let id = is_sealed(&client, "…");
    let start = client.clears().context().unwrap();
    assert!(!start.contains("=== FILES IN PLAY ==="), "the handoff has the start's room: {start}");
    let given = client.hook("UserPromptSubmit").context().unwrap();
    assert!(given.contains("=== FILES IN PLAY ===") && given.chars().count() <= 9_500, "{given}");
    assert_shown(&given, &ALL);
    assert!(given.find("SHOWN-A") < given.find("SHOWN-B"), "the most recent first: {given}");
    let chain = home.run(&format!("handoffs chain {id} --json")).json();
    assert_eq!(chain["attached"], json!(["src/a.rs", "src/b.rs", "my notes.md"]));
    assert_eq!(client.hook("UserPromptSubmit").context(), None);
    assert_eq!(std::fs::read_dir(home.state().join("files")).unwrap().count(), 0, "nothing is left");
}

#[test]
fn a_file_that_the_prompt_mentions_is_not_brought_twice() {
    let home = Home::new(BATON);
    let Some(mut client) = has_read(&home, Client::new(&home)) else { return };
    let id = is_sealed(&client, "…");
    client.clears();
    let prompt = format!(
        "Continue where the loaded handoff {id} left off.\n\nThe files in play are @src/a.rs @src/b.rs as they are now."
    );
    let given = client.hook_with("UserPromptSubmit", json!({ "prompt": prompt })).context().unwrap();
    assert!(!given.contains("SHOWN-A") && !given.contains("SHOWN-B"), "the client shows them: {given}");
    assert_shown(&given, &["SHOWN-NOTES"]);
    let chain = home.run(&format!("handoffs chain {id} --json")).json();
    assert_eq!(chain["attached"].as_array().unwrap().len(), 3, "{chain}");
}

#[test]
fn the_first_prompt_brings_only_the_lines_of_a_large_file_that_were_in_play() {
    let home = Home::new(BATON);
    let Some(mut client) = has_read(&home, Client::new(&home)) else { return };
    let text = lines_of(9_000);
    std::fs::write(home.project().join("src/large.rs"), text).unwrap();
    let id = session_id();
    let input = json!({ "file_path": home.project().join("src/large.rs"), "offset": 7_000, "limit": 50 });
    client.record(&json!({
        "type": "assistant", "uuid": session_id(), "cwd": home.project(), "sessionId": client.session,
        "message": { "role": "assistant", "content": [
            { "type": "tool_use", "id": id, "name": "Read", "input": input }] },
    }));
    client.record(&json!({
        "type": "user", "uuid": session_id(), "cwd": home.project(), "sessionId": client.session,
        "message": { "role": "user", "content": [
            { "type": "tool_result", "tool_use_id": id, "content": "7000→line number 7000 of many\n" }] },
    }));
    is_sealed(&client, "…");
    client.clears();
    let given = client.hook("UserPromptSubmit").context().unwrap();
    assert!(given.contains("line number 7020 of many"), "{given}");
    assert!(!given.contains("line number 1 of many"), "{given}");
    assert_shown(&given, &ALL);
}

#[test]
fn with_the_setting_at_zero_no_file_comes_along() {
    let home = Home::new(BATON);
    home.write(".config/baton/config.toml", "[handoff]\nfiles = 0\n");
    let Some(mut client) = has_read(&home, Client::new(&home)) else { return };
    is_sealed(&client, "…");
    client.clears();
    assert_eq!(client.hook("UserPromptSubmit").context(), None);
}

#[test]
fn no_more_of_a_file_comes_along_than_the_setting_says() {
    let home = Home::new(BATON);
    home.write(".config/baton/config.toml", "[handoff]\nfile_tokens = 100\n");
    let Some(mut client) = has_read(&home, Client::new(&home)) else { return };
    let text = lines_of(90);
    std::fs::write(home.project().join("src/large.rs"), text).unwrap();
    reads(&client, &home, "src/large.rs");
    is_sealed(&client, "…");
    client.clears();
    let given = client.hook("UserPromptSubmit").context().unwrap();
    let lines = given.lines().filter(|line| line.starts_with("line number ")).count();
    assert!((1..=20).contains(&lines), "400 characters are {lines} lines: {given}");
}

#[test]
fn a_session_that_ends_without_a_prompt_leaves_the_files_to_the_next() {
    let home = Home::new(BATON);
    let Some(mut client) = has_read(&home, Client::new(&home)) else { return };
    is_sealed(&client, "…");
    client.clears();
    client.hook("SessionEnd").silent();
    drop(client);
    let next = Client::new(&home);
    assert!(next.starts("startup").context().is_some_and(|given| given.contains("=== HANDOFF LOADED")));
    let given = next.hook("UserPromptSubmit").context().unwrap();
    assert_shown(&given, &ALL);
}
