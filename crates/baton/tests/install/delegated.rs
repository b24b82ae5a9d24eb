//! The status line that was there before still runs below ours, whatever it does.

use baton_testkit::wait::wait_for;

use super::*;

fn with_theirs(command: &str) -> (Home, PathBuf) {
    let home = home();
    let entry = serde_json::json!({ "statusLine": { "type": "command", "command": command } });
    let path = home.write(".claude/settings.json", entry.to_string());
    baton(&home, "install --yes").ok();
    (home, path)
}

#[test]
fn the_other_status_line_gets_the_same_input() {
    let (home, path) = with_theirs("cat");
    let line = statusline(&home, &path, "s");
    assert!(line.ends_with("{\"session_id\":\"s\",\"cwd\":\"/\"}\n"), "{line}");
}

#[test]
fn the_other_status_line_never_calls_ours_again() {
    let (home, path) = with_theirs("echo x >> \"$HOME/calls\"; \"$HOME/wrapper\"");
    // Somebody's wrapper around ours: ours calls theirs and theirs calls ours.
    let ours = value(&path)["statusLine"]["command"].as_str().unwrap().to_owned();
    home.write("wrapper", format!("#!/bin/sh\necho x >> \"$HOME/calls\"\n{ours}\necho around\n"));
    std::fs::set_permissions(home.path().join("wrapper"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let line = statusline(&home, &path, "s");
    assert_eq!(line.lines().count(), 2, "{line}");
    assert!(line.ends_with("around\n"), "{line}");
    assert_eq!(std::fs::read_to_string(home.path().join("calls")).unwrap(), "x\nx\n");
    // A link to the program under another name.
    std::os::unix::fs::symlink(program(&home), home.path().join("bar")).unwrap();
    let direct = format!("{} statusline --then user", home.path().join("bar").display());
    baton::testing::delegate::remember(&home.path().join(".local/state/baton"), "user", &direct).unwrap();
    assert_eq!(statusline(&home, &path, "s").lines().count(), 1);
}

#[test]
fn our_own_status_line_is_not_wrapped() {
    let home = home();
    let command = format!("{} statusline", program(&home).display());
    let entry =
        serde_json::json!({ "statusLine": { "type": "command", "command": command, "refreshInterval": 10 } });
    let path = home.write(".claude/settings.json", entry.to_string());
    baton(&home, "install --yes").ok();
    assert_eq!(value(&path)["statusLine"]["command"], command.as_str());
    assert!(!home.path().join(".local/state/baton/delegates").exists());
}

#[test]
fn a_slow_status_line_delays_nothing_and_is_shown_the_next_time() {
    // It prints the contents of `go` as soon as the file exists, and ends when the home is gone.
    let (home, path) =
        with_theirs("while [ -d \"$HOME\" ] && [ ! -s \"$HOME/go\" ]; do sleep 0.01; done; cat \"$HOME/go\"");
    assert_eq!(statusline(&home, &path, "s").lines().count(), 1, "not there yet");
    home.write("go", "theirs\n");
    let shown = wait_for("its line", || {
        Some(statusline(&home, &path, "s")).filter(|line| line.lines().nth(1) == Some("theirs"))
    });
    std::fs::remove_file(home.path().join("go")).unwrap();
    assert_eq!(statusline(&home, &path, "s"), shown, "the next run is not done, its last output is shown");
    // Another session has its own output.
    assert_eq!(statusline(&home, &path, "t").lines().count(), 1);
}

#[test]
fn a_failing_or_silent_status_line_takes_nothing_from_ours() {
    for command in ["exit 3", "true", "/nowhere/at/all", "kill -9 $$"] {
        let (home, path) = with_theirs(command);
        assert_eq!(statusline(&home, &path, "s").lines().count(), 1, "{command}");
    }
}
