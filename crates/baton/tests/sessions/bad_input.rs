//! Damaged transcripts, and files that are not transcripts, are left out and reported. The rest still works.

use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use baton_testkit::{Home, trace};
use proptest::prelude::*;
use serde_json::json;

use super::made::{Claude, codex, id};
use crate::BATON;

/// A home with one good conversation, and the folder that holds it.
fn home() -> (Home, PathBuf) {
    let home = Home::in_memory(BATON);
    let path = Claude::new(&home, 1, &home.project()).user("The good one about apples").says("Yes.").write();
    (home, path.parent().unwrap().to_owned())
}

/// Checks that listing and searching still find the good one; returns what they reported.
fn reported(home: &Home) -> String {
    let listed = home.run("sessions list --all");
    assert!(listed.out.contains("The good one about apples"), "{listed:?}");
    let found = home.run("sessions search --all apples");
    assert!(found.out.contains("The good one about apples"), "{found:?}");
    assert_eq!((listed.code, found.code), (Some(0), Some(0)));
    listed.err + &found.err
}

fn mkfifo(path: &Path) {
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
}

fn bad(folder: &Path, n: u32) -> PathBuf {
    folder.join(format!("{}.jsonl", id(n)))
}

#[test]
fn a_folder_an_empty_file_and_garbage_are_left_out_and_named() {
    type Make = fn(&Path);
    let cases: [(&str, Make); 6] = [
        ("not a regular file", |p| std::fs::create_dir(p).unwrap()),
        ("empty", |p| std::fs::write(p, "").unwrap()),
        ("no record in it can be read", |p| std::fs::write(p, [0xff, 0, b'\n', b'{', b'"', b'\n']).unwrap()),
        ("no record in it can be read", |p| std::fs::write(p, "apples\nare not JSON\n").unwrap()),
        ("not a regular file", |p| std::os::unix::fs::symlink("/etc/passwd", p).unwrap()),
        ("not a regular file", |p| mkfifo(p)),
    ];
    for (why, make) in cases {
        let (home, folder) = home();
        make(&bad(&folder, 2));
        let said = reported(&home);
        assert!(said.contains(why) && said.contains(&id(2)), "{why}: {said}");
    }
}

#[test]
fn a_folder_that_cannot_be_listed_is_left_out_and_named() {
    let (home, folder) = home();
    let projects = folder.parent().unwrap();
    let odd = projects.join(std::ffi::OsStr::from_bytes(b"caf\xe9"));
    std::fs::create_dir(&odd).unwrap();
    let said = reported(&home);
    assert!(said.contains("caf") && said.contains("not UTF-8"), "{said}");
    std::fs::remove_dir(&odd).unwrap();
    if !trace::available() {
        return;
    }
    let locked = projects.join("locked");
    std::fs::create_dir(&locked).unwrap();
    let (calls, _) = trace::record(&home, "sessions list --all");
    let call = calls.iter().find(|c| c.name.starts_with("open") && c.line.contains("locked")).unwrap();
    let ran = trace::inject(&home, "sessions list --all", call, "error=EACCES");
    assert!(ran.err.contains("locked was left out: Permission denied"), "{ran:?}");
    assert!(ran.out.contains("The good one"), "{ran:?}");
}

#[test]
fn a_transcript_that_vanishes_is_left_out() {
    if !trace::available() {
        return;
    }
    let (home, folder) = home();
    std::fs::copy(bad(&folder, 1), bad(&folder, 2)).unwrap();
    let (calls, _) = trace::record(&home, "sessions list --all");
    let call = calls.iter().find(|c| c.name.starts_with("open") && c.line.contains(&id(2))).unwrap();
    std::fs::remove_file(home.state().join("cache/sessions.json")).unwrap();
    let ran = trace::inject(&home, "sessions list --all", call, "error=ENOENT");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.err.contains("it has vanished") || ran.out.matches("apples").count() == 2, "{ran:?}");
    assert!(ran.out.contains("The good one"), "{ran:?}");
    assert_eq!(
        home.run("sessions list --all").ok().matches("apples").count(),
        2,
        "what failed once is read again"
    );
}

#[test]
fn a_torn_end_and_a_damaged_middle_cost_only_themselves() {
    let (home, folder) = home();
    let path =
        Claude::new(&home, 2, &home.project()).user("Plums").says("first plum").says("second plum").write();
    let mut text = std::fs::read(&path).unwrap();
    let middle = text.windows(5).position(|w| w == b"first").unwrap();
    text[middle] = 0xff;
    text.truncate(text.len() - 10);
    std::fs::write(&path, text).unwrap();
    assert_eq!(reported(&home), "", "a conversation that is being written is nothing to complain about");
    let row = home.run("sessions list --all --json").json();
    let row = row.as_array().unwrap().iter().find(|r| r["id"] == id(2).as_str()).unwrap().clone();
    assert_eq!(row["title"], "Plums");
    let found = home.run("sessions search --all plum --role assistant --json").json();
    assert_eq!(found.as_array().unwrap().len(), 1, "the torn line is not whole yet: {found:#}");
    drop(folder);
}

#[test]
fn lines_of_a_hundred_megabytes_are_skipped_and_reported() {
    let (home, folder) = home();
    // A hole in the file: it reads as zeros and takes no room.
    let path = Claude::new(&home, 2, &home.project()).user("Before the pears").write();
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    let at = file.metadata().unwrap().len() + (100 << 20);
    let line = json!({ "type": "assistant", "timestamp": "2026-11-03T10:09:00Z", "message": { "id": "m", "content": [{ "type": "text", "text": "pears after it" }] } });
    file.write_all_at(format!("\n{line}\n").as_bytes(), at).unwrap();
    let only = std::fs::File::create(bad(&folder, 3)).unwrap();
    only.set_len(100 << 20).unwrap();
    let said = reported(&home);
    assert!(
        said.contains("no record in it can be read") && said.contains("longer than any record"),
        "{said}"
    );
    let found = home.run("sessions search --all pears");
    assert!(found.out.contains("Before the pears") && found.out.contains("pears after it"), "{found:?}");
    let row = home.run("sessions list --all --json").json();
    assert_eq!(row[0]["ending"], "answered", "{row:#}");
}

/// Texts that would control a terminal, mixed with ordinary writing.
fn hostile() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        3 => any::<char>().prop_map(String::from),
        1 => Just("\u{1b}]0;title\u{7}".to_owned()),
        1 => Just("\u{1b}[2J\u{9b}31m".to_owned()),
        1 => Just("apple ".to_owned()),
        1 => Just("\r\n\t\u{202e}".to_owned()),
    ];
    prop::collection::vec(piece, 1..20).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Promise 14 for everything that `sessions` prints.
    #[test]
    fn no_byte_of_others_text_reaches_the_terminal_as_control(texts in prop::collection::vec(hostile(), 6)) {
        let home = Home::in_memory(BATON);
        let app = home.project();
        let with = |text: &str| format!("{text} apple");
        Claude::new(&home, 1, &app)
            .user(&with(&texts[0]))
            .says(&with(&texts[1]))
            .calls("t", &texts[2], &json!({ "file_path": texts[3], "x": with(&texts[4]) }))
            .gives("t", &with(&texts[5]))
            .record("custom-title", json!({ "customTitle": texts[1], "gitBranch": texts[2], "cwd": texts[3] }))
            .write();
        Claude::new(&home, 2, &app)
            .record("user", json!({ "cwd": texts[0], "sessionId": texts[1], "gitBranch": texts[2], "message": { "content": with(&texts[3]) } }))
            .write();
        codex(&home.path().join(".codex"), 3, Path::new(&texts[4]), &with(&texts[5]), &with(&texts[0]));
        for line in [
            "sessions list --all", "sessions list --all --json", "sessions search --all apple -C 2", "sessions search --all --regex apple --json",
            "sessions show 00000001", "sessions show 00000001 --turns", "sessions show 00000003 --turns", "sessions tree --all",
            "sessions tree 00000001", "sessions resume 00000002", "sessions resume 00000003",
        ] {
            let ran = home.run(line);
            prop_assert!(ran.code.is_some_and(|c| c <= 3), "{}: {:?}", line, ran);
            for text in [&ran.out, &ran.err] {
                let wrong = text.chars().find(|c| c.is_control() && !matches!(c, '\n' | '\t'));
                prop_assert!(wrong.is_none() && !text.contains('\u{202e}'), "{}: {:?} in {:?}", line, wrong, text);
            }
        }
    }
}
