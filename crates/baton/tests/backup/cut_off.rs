//! Long work that is killed or interrupted at any call leaves what was there, and the next try does it.

use baton_testkit::{Home, trace};

use super::{Past, folder, home, moved, newest, past, walk};

#[test]
fn a_kill_in_any_call_of_compress_restore_and_verify_damages_nothing() {
    if !trace::available() {
        return;
    }
    let mut tried = 0;
    for line in ["backup compress", "backup restore SESSION", "backup verify"] {
        let make = || {
            let home = home();
            let past = past(&home, "Cut off");
            if line.contains("restore") {
                std::fs::remove_file(&past.transcript).unwrap();
            }
            let line = line.replace("SESSION", &past.session);
            (home, past, line)
        };
        let (home, _, run) = make();
        let (calls, ran) = trace::record(&home, &run);
        ran.ok();
        // The same calls, in the same order, for each home: only the names differ.
        for call in calls.iter().filter(|c| !c.name.starts_with("open")) {
            let (home, past, run) = make();
            trace::inject(&home, &run, call, "signal=KILL");
            let what = format!("{line}: killed before {}", call.line);
            assert_eq!(newest(&home, &past.session), past.bytes, "{what}");
            if past.transcript.exists() {
                assert_eq!(std::fs::read(&past.transcript).unwrap(), past.bytes, "{what}");
            }
            home.run(&run).ok();
            home.run("backup verify").ok();
            assert_eq!(newest(&home, &past.session), past.bytes, "{what}");
            let left = walk(&home.state().join("mirror"));
            assert!(!left.iter().any(|p| p.to_string_lossy().ends_with(".tmp")), "{what}: {left:?}");
            tried += 1;
        }
    }
    eprintln!("{tried} kills");
    assert!(tried > 10);
}

/// Kills `line` before each call by which it changes something, each time in a home of its own that `make` makes, and
/// then lets it run; `check` sees both.
fn killed_at_every_call(
    line: &str,
    make: impl Fn() -> (Home, Past),
    check: impl Fn(&Home, &Past, &str),
) -> usize {
    let said = |past: &Past| line.replace("SESSION", &past.session);
    let (home, past) = make();
    let (calls, ran) = trace::record(&home, &said(&past));
    ran.ok();
    let calls: Vec<_> = calls.into_iter().filter(|c| !c.name.starts_with("open")).collect();
    for call in &calls {
        let (home, past) = make();
        trace::inject(&home, &said(&past), call, "signal=KILL");
        check(&home, &past, &format!("{line}: killed before {}", call.line));
        home.run(&said(&past)).ok();
        check(&home, &past, &format!("{line}: after {}", call.line));
    }
    calls.len()
}

fn no_litter(home: &Home, what: &str) {
    let left = walk(home.path());
    assert!(!left.iter().any(|p| p.to_string_lossy().ends_with(".tmp")), "{what}: {left:?}");
}

#[test]
fn a_kill_in_any_call_of_prune_leaves_a_conversation_whole_or_gone() {
    if !trace::available() {
        return;
    }
    let make = || {
        let home = home();
        let past = past(&home, "Old");
        let then = std::time::SystemTime::now() - std::time::Duration::from_hours(72);
        for path in walk(&folder(&home, &past.session)) {
            std::fs::File::open(path).unwrap().set_modified(then).unwrap();
        }
        (home, past)
    };
    let tried = killed_at_every_call("backup prune --keep-days 1", make, |home, past, what| {
        if what.contains("after") {
            assert!(!folder(home, &past.session).exists(), "{what}");
            no_litter(home, what);
        } else if folder(home, &past.session).exists() {
            assert_eq!(newest(home, &past.session), past.bytes, "{what}");
        }
    });
    assert!(tried > 2, "{tried}");
}

#[test]
fn a_kill_in_any_call_of_export_leaves_no_half_of_it() {
    if !trace::available() {
        return;
    }
    for name in ["out.tar", "out"] {
        let make = || {
            let home = home();
            let past = past(&home, "Take me along");
            (home, past)
        };
        let tried =
            killed_at_every_call(&format!("backup export SESSION {name}"), make, |home, past, what| {
                let out = home.project().join(name);
                assert_eq!(newest(home, &past.session), past.bytes, "{what}");
                if what.contains("after") {
                    no_litter(home, what);
                }
                if out.exists() {
                    let elsewhere = Home::new(crate::BATON);
                    let mut command = elsewhere.baton(["backup", "restore", "--to", "."]);
                    baton_testkit::home::run(command.arg(&out)).ok();
                    let back = walk(&elsewhere.path().join(".claude/projects"));
                    let whole = moved(home, past, &elsewhere.project());
                    assert_eq!(std::fs::read_to_string(&back[0]).unwrap(), whole, "{what}");
                    // So that the next try is not refused.
                    std::fs::remove_dir_all(&out).or_else(|_| std::fs::remove_file(&out)).unwrap();
                }
            });
        assert!(tried > 2, "{tried}");
    }
}

#[test]
fn a_kill_in_any_call_of_a_restore_from_an_archive_leaves_no_half_of_it() {
    if !trace::available() {
        return;
    }
    let make = || {
        let home = home();
        let past = past(&home, "Come back");
        home.run(&format!("backup export {} out.tar.zst", past.session)).ok();
        std::fs::remove_file(&past.transcript).unwrap();
        (home, past)
    };
    let tried = killed_at_every_call("backup restore out.tar.zst", make, |home, past, what| {
        let mut back = walk(&home.path().join(".claude/projects"));
        back.retain(|path| path.extension().is_some_and(|e| e == "jsonl"));
        for path in &back {
            assert_eq!(std::fs::read(path).unwrap(), past.bytes, "{what}");
        }
        if what.contains("after") {
            assert_eq!(back.len(), 1, "{what}");
            no_litter(home, what);
        }
    });
    assert!(tried > 5, "{tried}");
}
