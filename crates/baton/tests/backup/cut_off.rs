//! Long work that is killed, is interrupted or meets a full disk at any call keeps what was there, and the next try
//! succeeds.

use std::path::{Path, PathBuf};

use baton_testkit::{CommandOutput, Home, trace};

use super::{Past, folder, home, moved, newest, past, walk};

/// SIGKILL, Ctrl+C, a full disk; and at which share of the calls each is tried.
const FAULTS: [(&str, usize); 3] = [("signal=KILL", 1), ("signal=INT", 4), ("error=ENOSPC", 1)];

/// When a check is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    /// After the fault.
    Cut,
    /// After the next try.
    Done,
}

/// Injects each fault into each call with which `line` changes something, each time in a fresh home from `make`, and
/// then lets it run undisturbed. Returns the number of tries.
fn at_every_call(
    line: &str,
    make: impl Fn() -> (Home, Past),
    check: impl Fn(When, &Home, &Past, &str),
) -> usize {
    let said = |past: &Past| line.replace("SESSION", &past.session);
    let (home, past) = make();
    let (calls, ran) = trace::record(&home, &said(&past));
    ran.ok();
    // Every home gives the same calls in the same order; only the names differ.
    let calls: Vec<_> = calls.into_iter().filter(|c| !c.name.starts_with("open")).collect();
    let mut tried = 0;
    for (fault, every) in FAULTS {
        for call in calls.iter().step_by(every) {
            tried += 1;
            let (home, past) = make();
            let ran = trace::inject(&home, &said(&past), call, fault);
            let what = format!("{line}: {fault} at {}", call.line);
            if fault.starts_with("error") {
                explains_itself(&ran, &what);
            }
            check(When::Cut, &home, &past, &what);
            home.run(&said(&past)).ok();
            check(When::Done, &home, &past, &what);
        }
    }
    tried
}

/// Asserts that a failure is explained in a line or two and has its exit code.
fn explains_itself(ran: &CommandOutput, what: &str) {
    let told = ran.err.starts_with("baton: ") && !ran.err.contains("panicked");
    match ran.code {
        Some(0) => {}
        Some(1) => assert!(told, "{what}: {}", ran.err),
        _ => panic!("{what}: {ran:?}"),
    }
}

/// Asserts that none of our temporary files and folders is left.
fn no_litter(home: &Home, what: &str) {
    fn look(dir: &Path, found: &mut Vec<PathBuf>) {
        for path in std::fs::read_dir(dir).into_iter().flatten().flatten().map(|e| e.path()) {
            if path.to_string_lossy().ends_with(".0.tmp") {
                found.push(path);
            } else if path.is_dir() {
                look(&path, found);
            }
        }
    }
    let mut left = Vec::new();
    look(home.path(), &mut left);
    assert!(left.is_empty(), "{what}: {left:?}");
}

fn ended(words: &'static str) -> impl Fn() -> (Home, Past) {
    move || {
        let home = home();
        let past = past(&home, words);
        (home, past)
    }
}

#[test]
fn compress_damages_nothing_wherever_it_is_cut_off() {
    if !trace::available() {
        return;
    }
    let tried = at_every_call("backup compress", ended("Cut off"), |when, home, past, what| {
        assert_eq!(newest(home, &past.session), past.bytes, "{what}");
        assert_eq!(std::fs::read(&past.transcript).unwrap(), past.bytes, "{what}");
        if when == When::Done {
            home.run("backup verify").ok();
            no_litter(home, what);
        }
    });
    eprintln!("{tried} faults");
    assert!(tried > 10, "{tried}");
}

/// `verify` first copies what no hook has seen.
#[test]
fn verify_copies_everything_or_a_prefix_wherever_it_is_cut_off() {
    if !trace::available() {
        return;
    }
    let make = || {
        let (home, mut past) = ended("Cut off")();
        past.bytes.extend_from_slice(&b"{\"type\":\"user\"}\n".repeat(1000));
        std::fs::write(&past.transcript, &past.bytes).unwrap();
        (home, past)
    };
    let tried = at_every_call("backup verify", make, |when, home, past, what| {
        let kept = newest(home, &past.session);
        assert!(past.bytes.starts_with(&kept), "{what}: {} bytes of {}", kept.len(), past.bytes.len());
        assert!(
            when == When::Cut || kept == past.bytes,
            "{what}: {} bytes of {}",
            kept.len(),
            past.bytes.len()
        );
        assert_eq!(std::fs::read(&past.transcript).unwrap(), past.bytes, "{what}");
    });
    eprintln!("{tried} faults");
    assert!(tried > 2, "{tried}");
}

#[test]
fn a_restore_puts_back_all_or_nothing_wherever_it_is_cut_off() {
    if !trace::available() {
        return;
    }
    let make = || {
        let (home, past) = ended("Cut off")();
        std::fs::remove_file(&past.transcript).unwrap();
        (home, past)
    };
    let tried = at_every_call("backup restore SESSION", make, |when, home, past, what| {
        assert_eq!(newest(home, &past.session), past.bytes, "{what}");
        if when == When::Done || past.transcript.exists() {
            assert_eq!(std::fs::read(&past.transcript).unwrap(), past.bytes, "{what}");
        }
        if when == When::Done {
            home.run("backup verify").ok();
            no_litter(home, what);
        }
    });
    eprintln!("{tried} faults");
    assert!(tried > 10, "{tried}");
}

#[test]
fn a_restore_from_an_archive_puts_back_all_or_nothing_wherever_it_is_cut_off() {
    if !trace::available() {
        return;
    }
    let make = || {
        let (home, past) = ended("Come back")();
        home.run(&format!("backup export {} out.tar.zst", past.session)).ok();
        std::fs::remove_file(&past.transcript).unwrap();
        (home, past)
    };
    let tried = at_every_call("backup restore out.tar.zst", make, |when, home, past, what| {
        let mut back = walk(&home.path().join(".claude/projects"));
        back.retain(|path| path.extension().is_some_and(|e| e == "jsonl"));
        for path in &back {
            assert_eq!(std::fs::read(path).unwrap(), past.bytes, "{what}");
        }
        if when == When::Done {
            assert_eq!(back.len(), 1, "{what}");
            no_litter(home, what);
        }
    });
    eprintln!("{tried} faults");
    assert!(tried > 20, "{tried}");
}

#[test]
fn an_export_is_there_whole_or_not_at_all_wherever_it_is_cut_off() {
    if !trace::available() {
        return;
    }
    for name in ["out.tar", "out"] {
        let line = format!("backup export SESSION {name}");
        let tried = at_every_call(&line, ended("Take me along"), |when, home, past, what| {
            let out = home.project().join(name);
            assert_eq!(newest(home, &past.session), past.bytes, "{what}");
            if when == When::Done {
                no_litter(home, what);
            } else if !out.exists() {
                return;
            }
            let elsewhere = Home::new(crate::BATON);
            let mut command = elsewhere.baton(["backup", "restore", "--to", "."]);
            baton_testkit::home::run(command.arg(&out)).ok();
            let back = walk(&elsewhere.path().join(".claude/projects"));
            let whole = moved(home, past, &elsewhere.project());
            assert_eq!(std::fs::read_to_string(&back[0]).unwrap(), whole, "{what}");
            // Otherwise the next try would be refused.
            std::fs::remove_dir_all(&out).or_else(|_| std::fs::remove_file(&out)).unwrap();
        });
        eprintln!("{line}: {tried} faults");
        assert!(tried > 5, "{tried}");
    }
}

#[test]
fn a_prune_leaves_a_conversation_whole_or_gone_wherever_it_is_cut_off() {
    if !trace::available() {
        return;
    }
    let make = || {
        let (home, past) = ended("Old")();
        let then = std::time::SystemTime::now() - std::time::Duration::from_hours(72);
        for path in walk(&folder(&home, &past.session)) {
            std::fs::File::open(path).unwrap().set_modified(then).unwrap();
        }
        (home, past)
    };
    let tried = at_every_call("backup prune --keep-days 1", make, |when, home, past, what| {
        if when == When::Done {
            assert!(!folder(home, &past.session).exists(), "{what}");
            home.run("backup list");
            no_litter(home, what);
        } else if folder(home, &past.session).exists() {
            assert_eq!(newest(home, &past.session), past.bytes, "{what}");
        }
    });
    eprintln!("{tried} faults");
    assert!(tried > 10, "{tried}");
}
