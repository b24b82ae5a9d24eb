//! Interrupted before every call that changes something: the settings are the old or the new bytes, the folder is whole
//! or absent, and the next run finishes the work.

use baton_testkit::trace::{self, Call};

use super::*;

const KILL: &str = "signal=KILL";
const BEFORE: &str =
    "{\n  // mine\n  \"statusLine\": { \"type\": \"command\", \"command\": \"echo mine\" }\n}\n";

fn fresh() -> (Home, PathBuf) {
    let home = home();
    let path = home.write(".claude/settings.json", BEFORE);
    (home, path)
}

fn settings_after(line: &str) -> Vec<u8> {
    let (home, path) = fresh();
    baton(&home, line).ok();
    // It contains the path of the home.
    let text = home.tidy(&String::from_utf8(bytes(&path).unwrap()).unwrap());
    text.into_bytes()
}

/// The system calls of `line` after the steps of `prepare`.
fn calls(prepare: &[&str], line: &str) -> Vec<Call> {
    let (home, _) = fresh();
    for step in prepare {
        baton(&home, step).ok();
    }
    let (calls, ran) = trace::record(&home, line);
    ran.ok();
    calls
}

/// Kills `line` before each of its calls, or makes each of them fail.
fn check(prepare: &[&str], line: &str, fault: &str) -> usize {
    let mut calls = calls(prepare, line);
    // The caller is looked up in one record per ancestor, before anything is changed.
    calls.retain(|call| !call.line.contains("/processes/"));
    if fault != KILL {
        // A file that cannot be opened for reading proves nothing new here; test only the calls that change something.
        calls.retain(|call| !call.name.starts_with("open") || call.line.contains("O_CREAT"));
        calls.retain(|call| !call.line.contains("install.lock"));
    }
    let news = [settings_after("install --yes"), settings_after("install --yes --settings")];
    super::for_each(calls.len(), |n| {
        let call = &calls[n];
        let (home, path) = fresh();
        for step in prepare {
            baton(&home, step).ok();
        }
        let what = format!("{line}, {fault} at {}", call.line);
        let ran = trace::inject(&home, line, call, fault);
        match ran.code {
            None => assert_eq!(fault, KILL, "{what}"),
            Some(1) => {
                assert!(ran.err.contains("could not") && ran.err.contains("; "), "{what}: {}", ran.err);
            }
            // Failing to clean up is no reason to fail.
            code => assert!(code == Some(0) && fault != KILL, "{what}: {code:?} {}", ran.err),
        }
        let text = home.tidy(&String::from_utf8(bytes(&path).unwrap()).unwrap());
        assert!(text == BEFORE || news.iter().any(|new| new == text.as_bytes()), "{what}:\n{text}");
        let folder = folder_is_whole(&home);
        let hooks = our_hooks(&path);
        assert!(hooks == 0 || (hooks == EVENTS.len() && !folder), "{what}: hooks would run twice");
        // Hooks never point at a program that is not there.
        assert!((hooks == 0 && !folder) || program(&home).exists(), "{what}");
        // The next run finishes, and the uninstall after it restores everything.
        if line.starts_with("install") {
            baton(&home, line).ok();
            let finished = home.tidy(&String::from_utf8(bytes(&path).unwrap()).unwrap());
            assert!(news.iter().any(|new| new == finished.as_bytes()), "{what}");
        }
        let ran = baton(&home, "uninstall --verify");
        assert!(matches!(ran.code, Some(0 | 3)), "{what}: {}", ran.err);
        assert_eq!(String::from_utf8(bytes(&path).unwrap()).unwrap(), BEFORE, "{what}");
        assert!(!folder_is_whole(&home), "{what}");
        // The next run removes what a killed one left.
        let left: Vec<_> = files(&home.path().join(".claude")).into_iter().map(|(name, _)| name).collect();
        assert!(left.iter().all(|name| !name.contains("baton-plugin")), "{what}: {left:?}");
    });
    calls.len()
}

#[test]
fn an_install_killed_at_any_call_leaves_the_old_or_the_new() {
    if !trace::available() {
        return;
    }
    let mut count = check(&[], "install --yes", KILL);
    count += check(&[], "install --yes --settings", KILL);
    count += check(&["install --yes --settings"], "install --yes", KILL);
    assert!(count > 100, "only {count} calls");
    eprintln!("killed before each of {count} calls");
}

#[test]
fn a_full_or_bad_disk_at_any_call_leaves_the_old_or_the_new_and_is_reported() {
    if !trace::available() {
        return;
    }
    let mut count = 0;
    for fault in ["error=ENOSPC", "error=EIO"] {
        count += check(&[], "install --yes", fault);
        count += check(&["install --yes --settings"], "uninstall", fault);
    }
    assert!(count > 60, "only {count} calls");
    eprintln!("{count} faults");
}

#[test]
fn no_hook_is_installed_before_the_program() {
    if !trace::available() {
        return;
    }
    let bare = || {
        let home = Home::new(crate::BATON);
        home.write(".claude/settings.json", BEFORE);
        home
    };
    let (calls, ran) = trace::record(&bare(), "install --yes");
    ran.ok();
    let calls: Vec<Call> = calls.into_iter().filter(|c| c.line.contains(".local/bin")).collect();
    assert!(calls.iter().any(|c| c.name.starts_with("rename")), "{calls:?}");
    super::for_each(calls.len(), |n| {
        let home = bare();
        let ran = trace::inject(&home, "install --yes", &calls[n], "signal=KILL");
        let what = format!("killed before {}", calls[n].line);
        assert_eq!(ran.code, None, "{what}: it got away");
        let there = bytes(&program(&home));
        assert!(there.is_none() || there == bytes(Path::new(crate::BATON)), "{what}: half a program");
        assert!(there.is_some() || !folder_is_whole(&home), "{what}");
        assert_eq!(bytes(&home.path().join(".claude/settings.json")).unwrap(), BEFORE.as_bytes(), "{what}");
        home.run("install --yes").ok();
        assert!(folder_is_whole(&home) && program(&home).exists(), "{what}");
    });
    eprintln!("killed before each of {} calls that place the program", calls.len());
}

#[test]
fn an_uninstall_killed_at_any_call_leaves_the_old_or_the_new() {
    if !trace::available() {
        return;
    }
    let count = check(&["install --yes"], "uninstall", KILL)
        + check(&["install --yes --settings"], "uninstall", KILL);
    assert!(count > 30, "only {count} calls");
    eprintln!("killed before each of {count} calls");
}
