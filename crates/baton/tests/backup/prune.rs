//! What `baton backup prune` removes, and what it never removes.

use std::path::PathBuf;

use baton_testkit::Home;
use baton_testkit::hooks::Client;
use serde_json::{Value, json};

use super::{folder, home, past, walk};

#[test]
fn prune_removes_by_age_and_by_size_never_what_is_pinned_or_runs_and_says_what() {
    let home = home();
    let (old, pinned, new) = (past(&home, "Old"), past(&home, "Pinned"), past(&home, "New"));
    let running = Client::new(&home);
    running.starts("startup").ok();
    running.answers(1);
    running.hook("PostToolUse").ok();
    home.run(&format!("backup pin {}", pinned.session)).ok();
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_hours(24 * 100);
    for session in [&old.session, &pinned.session, &running.session] {
        for path in walk(&folder(&home, session)) {
            std::fs::File::open(path).unwrap().set_modified(long_ago).unwrap();
        }
    }
    let said = home.run("backup prune --dry-run").ok();
    assert!(said.contains(&old.session) && said.contains("would be removed"), "{said}");
    assert!(folder(&home, &old.session).exists());
    let said = home.run("backup prune").ok();
    assert!(said.contains("1 sessions removed") && said.contains("2 that are pinned"), "{said}");
    assert!(!folder(&home, &old.session).exists());
    for session in [&pinned.session, &new.session, &running.session] {
        assert!(folder(&home, session).exists());
    }
    // By size, the oldest first.
    home.run(&format!("backup unpin {}", pinned.session)).ok();
    home.write(".config/baton/config.toml", "[mirror]\nkeep_days = 0\nmax_mb = 1\n");
    let big = folder(&home, &pinned.session).join("main.jsonl");
    std::fs::write(&big, "{}\n".repeat(400_000)).unwrap();
    std::fs::File::open(&big).unwrap().set_modified(long_ago).unwrap();
    let said = home.run("backup prune --json").json();
    let gone: Vec<&str> =
        said["removed"].as_array().unwrap().iter().map(|r| r["session"].as_str().unwrap()).collect();
    assert_eq!(gone, [pinned.session.as_str()], "{said:#}");
    assert!(folder(&home, &new.session).exists() && folder(&home, &running.session).exists(), "{said:#}");
}

/// An ended session of so many `kilobytes` in a project with a memory: its id and its raw backup.
fn raw_of(home: &Home, kilobytes: usize) -> (String, PathBuf) {
    let raw = home.project().join(".claude/memory/raw");
    let before = walk(&raw);
    let client = Client::new(home);
    client.starts("startup").ok();
    client.record(&json!({ "type": "user", "uuid": "u", "sessionId": client.session,
        "message": { "role": "user", "content": "x".repeat(kilobytes << 10) } }));
    client.answers(1_000);
    client.hook_with("SessionEnd", json!({ "reason": "prompt_input_exit" })).ok();
    let mut new = walk(&raw);
    new.retain(|path| !before.contains(path) && path.extension().is_some_and(|x| x == "jsonl"));
    assert_eq!(new.len(), 1, "{new:?}");
    (client.session.clone(), new.remove(0))
}

/// Settles every backup that waited.
fn look_at_all(home: &Home) {
    while home.project().join(".claude/memory/.pending-backup").exists() {
        home.run_with_input("memory context --update -", "Goal: read.\n").ok();
    }
}

#[test]
fn raw_backups_in_projects_are_bounded_like_the_mirror_and_what_waits_or_is_pinned_stays() {
    let home = home();
    home.write(".config/baton/config.toml", "[handoff]\nseal = false\n");
    home.run("memory init").ok();
    let ((session, pinned), (_, old), (_, new)) =
        (raw_of(&home, 200), raw_of(&home, 200), raw_of(&home, 200));
    home.run(&format!("backup pin {session}")).ok();
    look_at_all(&home);
    let (_, waits) = raw_of(&home, 200);
    let mine = home.write("work/app/.claude/memory/raw/mine.jsonl", "{}\n");
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_hours(24 * 100);
    for path in [&pinned, &old, &waits, &mine] {
        std::fs::File::open(path).unwrap().set_modified(long_ago).unwrap();
    }
    // Run it elsewhere: it covers every project that has a memory.
    let elsewhere = home.path().join("elsewhere");
    std::fs::create_dir_all(&elsewhere).unwrap();
    let prune = |args: &[&str]| {
        let mut command = home.baton(["backup", "prune"]);
        baton_testkit::home::run(command.args(args).current_dir(&elsewhere)).ok()
    };
    let said = prune(&["--dry-run"]);
    assert!(said.contains(old.file_name().unwrap().to_str().unwrap()), "{said}");
    assert!(said.contains("1 raw backups in projects would be removed") && old.exists(), "{said}");
    let said = prune(&[]);
    assert!(said.contains("1 raw backups in projects removed"), "{said}");
    assert!(said.contains("2 that wait or belong to pinned sessions were spared"), "{said}");
    assert!(!old.exists() && [&pinned, &new, &waits, &mine].iter().all(|p| p.exists()), "{said}");
    let log = std::fs::read_to_string(home.project().join(".claude/memory/.backup-log")).unwrap();
    assert!(log.lines().last().unwrap().contains(" pruned raw session="), "{log}");
    // By size, the oldest first, until the rest fits.
    let (_, large) = raw_of(&home, 900);
    look_at_all(&home);
    let (_, last) = raw_of(&home, 200);
    let said: Value = serde_json::from_str(&prune(&["--keep-days", "0", "--max-mb", "1", "--json"])).unwrap();
    let gone: Vec<PathBuf> = said["raw"]["removed"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| r["path"].as_str().unwrap().into())
        .collect();
    assert_eq!(gone, [waits, new, large], "{said:#}");
    assert!(pinned.exists() && last.exists() && mine.exists(), "{said:#}");
}

/// An unreadable record may be that of a running session.
#[test]
fn the_mirror_of_a_session_whose_record_cannot_be_read_is_neither_removed_nor_restored_over() {
    let home = home();
    let old = past(&home, "Old");
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_hours(24 * 100);
    for path in walk(&folder(&home, &old.session)) {
        std::fs::File::open(path).unwrap().set_modified(long_ago).unwrap();
    }
    let record = home.state().join(format!("sessions/{}.json", old.session));
    let known = std::fs::read(&record).unwrap();
    std::fs::write(&record, "{\"v\":99}\n").unwrap();
    home.run("backup prune").ok();
    assert!(folder(&home, &old.session).exists());
    std::fs::remove_file(&old.transcript).unwrap();
    home.run(&format!("backup restore {}", old.session)).fails(1);
    assert!(!old.transcript.exists());
    // Nothing is removed either while it is unknown which backups wait.
    std::fs::write(&record, known).unwrap();
    let projects = home.write(".local/state/baton/memory/projects.json", "{\"v\":99,\"all\":[]}\n");
    let said = home.run("backup prune").fails(1);
    assert!(said.contains("nothing was removed") && said.contains("a newer baton wrote it"), "{said}");
    assert!(folder(&home, &old.session).exists());
    std::fs::remove_file(projects).unwrap();
    home.run("backup prune").ok();
    assert!(!folder(&home, &old.session).exists(), "it is old, and over");
}
