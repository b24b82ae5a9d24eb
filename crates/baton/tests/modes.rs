//! Promise 15: private files are private from the first instant, and no planted link is followed.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use baton_testkit::home::run;
use baton_testkit::{Home, trace};

const SEAL: &str = "--channel app handoffs seal doc.md";

fn home() -> Home {
    let home = Home::new(crate::BATON);
    home.write("work/app/doc.md", "words\n");
    home
}

fn mode(path: &Path) -> u32 {
    path.symlink_metadata().unwrap().permissions().mode() & 0o7777
}

/// Every path below `dir`, itself included.
fn tree(dir: &Path) -> Vec<std::path::PathBuf> {
    let mut all = vec![dir.to_owned()];
    for entry in std::fs::read_dir(dir).unwrap().flatten() {
        if entry.path().is_dir() {
            all.extend(tree(&entry.path()));
        } else {
            all.push(entry.path());
        }
    }
    all
}

#[test]
fn every_file_is_0600_and_every_folder_0700_under_umask_000() {
    let home = home();
    let script = "umask 000; b=$0; c='--channel app handoffs'
        $b $c seal doc.md && $b $c seal doc.md && $b $c load && $b $c seal doc.md && $b $c clear && $b $c repair";
    run(home.command("sh").args(["-c", script, crate::BATON])).ok();
    let found = tree(&home.path().join(".claude"));
    assert!(found.len() > 8, "{found:?}");
    for path in found {
        let expected = if path.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode(&path), expected, "{}", path.display());
    }
}

#[test]
fn the_mode_is_given_when_the_file_is_created_and_never_mended_afterwards() {
    if !trace::available() {
        return;
    }
    let home = home();
    for line in [SEAL, SEAL, "--channel app handoffs load", "--channel app handoffs repair"] {
        let (calls, ran) = trace::record(&home, line);
        ran.ok();
        for call in &calls {
            assert!(!call.name.contains("chmod"), "{}", call.line);
            if call.line.contains("O_CREAT") {
                assert!(call.line.contains(", 0600) "), "{}", call.line);
                assert!(call.line.contains("O_EXCL") || call.line.contains("O_NOFOLLOW"), "{}", call.line);
            }
            if call.name.starts_with("mkdir") {
                assert!(call.line.contains(", 0700) "), "{}", call.line);
            }
        }
        assert!(calls.iter().any(|c| c.line.contains("O_CREAT")), "nothing was seen to be created");
    }
}

#[test]
fn a_link_planted_where_a_file_of_ours_belongs_is_refused_and_its_target_untouched() {
    for name in ["app-CURRENT.md", "app.manifest.json", "app.lock.d/pid", "app.history.jsonl"] {
        for dangling in [false, true] {
            let home = home();
            home.run(SEAL).ok();
            home.run(SEAL).ok();
            let target = home.path().join("precious");
            if !dangling {
                std::fs::write(&target, "precious").unwrap();
            }
            let planted = home.store().join(name);
            std::fs::remove_file(&planted).unwrap();
            symlink(&target, &planted).unwrap();
            let err = home.run(SEAL).fails(1);
            let what = format!("{name}, dangling: {dangling}: {err}");
            assert!(err.contains(&planted.display().to_string()), "{what}");
            assert!(err.contains("it is a symbolic link where a file of ours belongs"), "{what}");
            assert!(planted.is_symlink(), "{what}");
            if dangling {
                assert!(!target.exists(), "{what}");
            } else {
                assert_eq!(std::fs::read_to_string(&target).unwrap(), "precious", "{what}");
            }
        }
    }
}

#[test]
fn a_link_planted_under_an_archived_id_is_neither_read_nor_written_through() {
    let home = home();
    let id = home.run(SEAL).ok().trim().to_owned();
    let target = home.write("precious", "precious");
    let planted = home.store().join(format!("archive/{id}.md"));
    std::fs::remove_file(&planted).unwrap();
    symlink(&target, &planted).unwrap();
    let err = home.run(&format!("handoffs show {id}")).fails(1);
    assert!(err.contains("it is a symbolic link where a file of ours belongs"), "{err}");
    // A seal in the same second skips the taken name.
    home.run(SEAL).ok();
    home.run(SEAL).ok();
    assert_eq!(std::fs::read_to_string(&target).unwrap(), "precious");
    assert!(planted.is_symlink());
}

#[test]
fn a_claude_folder_that_is_a_link_as_dotfile_managers_make_it_works() {
    let home = home();
    std::fs::create_dir_all(home.path().join("dotfiles/claude")).unwrap();
    symlink(home.path().join("dotfiles/claude"), home.path().join(".claude")).unwrap();
    let id = home.run(SEAL).ok();
    assert!(home.path().join("dotfiles/claude/handoff/archive").join(format!("{}.md", id.trim())).is_file());
    assert!(home.run("--channel app handoffs load").ok().ends_with("words\n"));
}

#[test]
fn a_state_folder_that_others_can_enter_is_closed_again() {
    let home = home();
    let client = baton_testkit::hooks::Client::new(&home);
    client.starts("startup").ok();
    for by in ["a command", "a start"] {
        std::fs::set_permissions(home.state(), std::fs::Permissions::from_mode(0o775)).unwrap();
        if by == "a start" {
            client.starts("startup").ok();
        } else {
            home.run("agents").ok();
        }
        assert_eq!(mode(&home.state()), 0o700, "{by}");
    }
}
