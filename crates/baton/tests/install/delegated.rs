//! The status line that was there before goes on below ours, whatever it does.

use super::*;

fn with_theirs(command: &str) -> (Home, PathBuf) {
    let home = home();
    let entry = serde_json::json!({ "statusLine": { "type": "command", "command": command } });
    let path = home.write(".claude/settings.json", entry.to_string());
    baton(&home, "install --yes").ok();
    (home, path)
}

#[test]
fn it_gets_the_same_input() {
    let (home, path) = with_theirs("cat");
    let line = statusline(&home, &path, "s");
    assert!(line.ends_with("{\"session_id\":\"s\",\"cwd\":\"/\"}\n"), "{line}");
}

#[test]
fn it_can_never_become_a_call_of_ourselves() {
    let (home, path) = with_theirs("echo x >> \"$HOME/calls\"; \"$HOME/wrapper\"");
    // A wrapper that somebody wrote around ours, so that ours calls theirs and theirs calls ours.
    let ours = value(&path)["statusLine"]["command"].as_str().unwrap().to_owned();
    home.write("wrapper", format!("#!/bin/sh\necho x >> \"$HOME/calls\"\n{ours}\necho around\n"));
    std::fs::set_permissions(home.path().join("wrapper"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let line = statusline(&home, &path, "s");
    assert_eq!(line.lines().count(), 2, "{line}");
    assert!(line.ends_with("around\n"), "{line}");
    assert_eq!(std::fs::read_to_string(home.path().join("calls")).unwrap(), "x\nx\n");
    // A link of another name to the program itself.
    std::os::unix::fs::symlink(program(&home), home.path().join("bar")).unwrap();
    let direct = format!("{} statusline --then user", home.path().join("bar").display());
    baton::hot::delegate::remember(&home.path().join(".local/state/baton"), "user", &direct).unwrap();
    assert_eq!(statusline(&home, &path, "s").lines().count(), 1);
}

#[test]
fn one_of_ours_is_not_wrapped() {
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
fn a_late_one_holds_nothing_up_and_is_shown_the_next_time() {
    let (home, path) = with_theirs("sleep 1; date +%s%N");
    let began = std::time::Instant::now();
    assert_eq!(statusline(&home, &path, "s").lines().count(), 1, "not there yet");
    assert!(began.elapsed() < std::time::Duration::from_millis(900), "{:?}", began.elapsed());
    std::thread::sleep(std::time::Duration::from_millis(1300));
    let second = statusline(&home, &path, "s");
    assert_eq!(second.lines().count(), 2, "{second}");
    assert_eq!(statusline(&home, &path, "s"), second, "the next run is not done, its last output is shown");
    // Another session has output of its own.
    assert_eq!(statusline(&home, &path, "t").lines().count(), 1);
}

#[test]
fn a_failing_or_silent_one_takes_nothing_from_ours() {
    for command in ["exit 3", "true", "/nowhere/at/all", "kill -9 $$"] {
        let (home, path) = with_theirs(command);
        assert_eq!(statusline(&home, &path, "s").lines().count(), 1, "{command}");
    }
}
