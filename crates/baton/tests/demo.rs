//! `baton demo` tells the whole story in order and leaves nothing behind.

use baton_testkit::Home;
use baton_testkit::home::run;

fn demo(home: &Home, args: &[&str]) -> String {
    let tmp = home.path().join("tmp");
    std::fs::create_dir_all(&tmp).unwrap();
    let mut command = home.baton(["demo", "--fast"]);
    command.args(args).env("TMPDIR", tmp);
    run(&mut command).ok()
}

#[test]
fn it_tells_the_story_in_order_and_leaves_nothing_behind() {
    let home = Home::new(crate::BATON);
    let told = demo(&home, &[]);
    let mut rest = told.as_str();
    for part in [
        "baton demo.",
        "1 An agent works",
        "you ▸ session_expiry fails.",
        "47%",
        "you ▸ Now fix it.",
        "2 At half, baton says one sentence",
        "baton ▸ Context is 55% full",
        "3 Nearly full",
        "writes .baton/handoff-app.md",
        "$ baton handoff .baton/handoff-app.md",
        "is sealed",
        "4 A fresh context.",
        "baton ▸ Read",
        "agent ▸ I continue from the handoff. Next: Let `stamp` take `now` as well",
        "test session_expiry ... ok",
        "5 What is left",
        "baton run claude",
    ] {
        let Some(at) = rest.find(part) else { panic!("{part:?} is missing or out of order in:\n{told}") };
        rest = &rest[at + part.len()..];
    }
    assert!(!told.contains('\u{1b}'), "plain output when it is not a terminal");
    let left: Vec<_> =
        std::fs::read_dir(home.path().join("tmp")).unwrap().flatten().map(|e| e.path()).collect();
    assert!(left.is_empty(), "{left:?}");
    assert!(!home.path().join(".claude").exists() && !home.path().join(".local").exists());
}

#[test]
fn with_keep_the_demos_files_are_where_it_says() {
    let home = Home::new(crate::BATON);
    let told = demo(&home, &["--keep"]);
    let kept = told.lines().find_map(|l| l.trim().strip_prefix("in ")).unwrap();
    let named = told.lines().map(str::trim).filter(|l| l.starts_with(".claude/") || l.starts_with(".local/"));
    let named: Vec<_> = named.collect();
    assert_eq!(named.len(), 4, "{told}");
    for path in named {
        assert!(std::path::Path::new(kept).join(path).exists(), "{path}");
    }
}

/// Downloaded under another name, or run from a build folder.
#[test]
fn it_runs_whatever_the_program_is_called() {
    let home = Home::new(crate::BATON);
    let program = home.path().join("baton-0.1.0-linux");
    std::fs::copy(crate::BATON, &program).unwrap();
    let mut command = home.command(&program);
    command.args(["demo", "--fast"]).env("TMPDIR", home.path());
    let told = run(&mut command).ok();
    assert!(told.contains("5 What is left"), "{told}");
}
