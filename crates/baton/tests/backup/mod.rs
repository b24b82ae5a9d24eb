//! `baton backup`: mirrored conversations can be found, checked, compressed, restored, exported and removed.

mod archive;
mod cut_off;
mod prune;

use std::io::Read as _;
use std::path::{Path, PathBuf};

use baton::testing::mirror::Mirror;
use baton_core::ids::SessionId;
use baton_testkit::Home;
use baton_testkit::hooks::Client;
use serde_json::{Value, json};

/// A session that has ended, with its conversation.
struct Past {
    session: String,
    transcript: PathBuf,
    bytes: Vec<u8>,
}

fn past(home: &Home, words: &str) -> Past {
    past_with(home, words, |_| {})
}

/// The same, with something that happens before the last turn ends.
fn past_with(home: &Home, words: &str, happens: impl FnOnce(&Client<'_>)) -> Past {
    let client = Client::new(home);
    client.starts("startup").ok();
    client.record(&json!({ "type": "user", "cwd": home.project(), "sessionId": client.session,
        "message": { "role": "user", "content": words } }));
    for n in 0..20 {
        client.answers(1_000 + n);
    }
    client.record(&json!({ "type": "user", "cwd": home.project(),
        "message": { "role": "user", "content": format!("look at {}/src/main.rs", home.project().display()) } }));
    happens(&client);
    client.hook("Stop").ok();
    client.hook_with("SessionEnd", json!({ "reason": "prompt_input_exit" })).ok();
    let transcript = client.transcript();
    Past { session: client.session.clone(), bytes: std::fs::read(&transcript).unwrap(), transcript }
}

fn home() -> Home {
    Home::new(crate::BATON)
}

/// The text of a conversation after it has moved from its project to another.
fn moved(home: &Home, past: &Past, to: &Path) -> String {
    let to = std::fs::canonicalize(to).unwrap().display().to_string();
    String::from_utf8(past.bytes.clone()).unwrap().replace(&home.project().display().to_string(), &to)
}

fn newest(home: &Home, session: &str) -> Vec<u8> {
    let mirrored = Mirror::new(&home.state()).of(&SessionId::new(session).unwrap()).unwrap().unwrap();
    let (part, generation) = mirrored.newest().unwrap();
    let mut bytes = Vec::new();
    part.open(generation).unwrap().read_to_end(&mut bytes).unwrap();
    bytes
}

fn folder(home: &Home, session: &str) -> PathBuf {
    home.state().join("mirror").join(session)
}

#[test]
fn the_list_shows_every_conversation_and_whether_the_clients_own_is_gone() {
    let home = home();
    let empty = home.run("backup list");
    assert_eq!(empty.code, Some(3));
    let (one, two) = (past(&home, "First"), past(&home, "Second"));
    std::fs::remove_file(&one.transcript).unwrap();
    let text = home.run("backup").ok();
    let line = |session: &str| text.lines().find(|l| l.starts_with(session)).unwrap().to_owned();
    assert!(line(&one.session).contains("the client's own is gone"), "{text}");
    assert!(!line(&two.session).contains("gone"), "{text}");
    assert!(text.contains("2 sessions"), "{text}");
    let rows = home.run("backup list --json").json();
    let bytes = |n: usize| rows[n]["parts"][0]["generations"][0]["bytes"].as_u64().unwrap();
    assert_eq!([bytes(0), bytes(1)], [two.bytes.len() as u64, one.bytes.len() as u64], "newest first");
}

#[test]
fn a_deleted_conversation_comes_back_to_where_the_client_resumes_it() {
    let home = home();
    let past = past(&home, "Fix the parser");
    std::fs::remove_file(&past.transcript).unwrap();
    let said = home.run(&format!("backup restore {}", &past.session[..20])).ok();
    assert_eq!(std::fs::read(&past.transcript).unwrap(), past.bytes);
    assert!(said.contains(&format!("claude --resume {}", past.session)), "{said}");
    assert!(said.contains(&format!("cd {}", home.project().display())), "{said}");
    // Again: the file exists, so nothing can be lost.
    home.run(&format!("backup restore {}", past.session)).ok();
    assert_eq!(home.run("backup restore nobody").code, Some(3));
}

#[test]
fn a_transcript_that_says_more_or_something_else_is_not_replaced_unless_forced_and_then_kept() {
    for (what, there) in [("continues where", "{\"more\":1}\n"), ("holds something else", "")] {
        let home = home();
        let past = past(&home, "Words");
        let mut bytes = past.bytes.clone();
        bytes.extend(there.bytes());
        if there.is_empty() {
            bytes = b"{\"other\":1}\n".to_vec();
        }
        std::fs::write(&past.transcript, &bytes).unwrap();
        let line = format!("backup restore {}", past.session);
        let err = home.run(&line).fails(1);
        assert!(err.contains(what) && err.contains("--force"), "{err}");
        assert_eq!(std::fs::read(&past.transcript).unwrap(), bytes);
        let said = home.run(&format!("{line} --force")).ok();
        assert_eq!(std::fs::read(&past.transcript).unwrap(), past.bytes);
        let kept: Vec<PathBuf> = std::fs::read_dir(past.transcript.parent().unwrap())
            .unwrap()
            .flatten()
            .map(|e| e.path())
            .filter(|p| p.to_string_lossy().contains("before-restore"))
            .collect();
        assert_eq!(kept.len(), 1, "{said}");
        assert_eq!(std::fs::read(&kept[0]).unwrap(), bytes);
    }
}

#[test]
fn under_another_project_the_working_folder_and_the_paths_are_that_projects() {
    let home = home();
    let past = past(&home, "Move it");
    let other = home.path().join("work/other place");
    std::fs::create_dir_all(&other).unwrap();
    let mut command = home.baton(["backup", "restore", &past.session, "--to"]);
    let said = baton_testkit::home::run(command.arg(&other)).ok();
    let real = std::fs::canonicalize(&other).unwrap();
    let name: String =
        real.display().to_string().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let path = home.path().join(format!(".claude/projects/{name}/{}.jsonl", past.session));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{e}: {said}"));
    assert!(!text.contains(&home.project().display().to_string()), "{text}");
    let first: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!(Path::new(first["cwd"].as_str().unwrap()), real);
    let last: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!(last["message"]["content"], format!("look at {}/src/main.rs", real.display()));
    assert_eq!(text.lines().count(), String::from_utf8(past.bytes.clone()).unwrap().lines().count());
    assert!(said.contains(&format!("cd '{}'", real.display())), "{said}");
    assert_eq!(std::fs::read(&past.transcript).unwrap(), past.bytes, "the old one is where it was");
}

#[test]
fn an_earlier_generation_can_be_restored_and_a_running_session_is_left_alone() {
    let home = home();
    let client = Client::new(&home);
    client.starts("startup").ok();
    client.answers(1);
    client.hook("PostToolUse").ok();
    let first = std::fs::read(client.transcript()).unwrap();
    std::fs::write(client.transcript(), "{\"rewritten\":true}\n").unwrap();
    client.hook("PostToolUse").ok();
    let err = home.run(&format!("backup restore {} --generation 1 --force", client.session)).fails(1);
    assert!(err.contains("is running"), "{err}");
    client.hook("SessionEnd").ok();
    let err = home.run(&format!("backup restore {} --generation 7", client.session)).fails(1);
    assert!(err.contains("no generation 7, only 1, 2"), "{err}");
    home.run(&format!("backup restore {} --generation 1 --force", client.session)).ok();
    assert_eq!(std::fs::read(client.transcript()).unwrap(), first);
}

#[test]
fn a_mirror_at_rest_is_compressed_checked_and_unchanged() {
    let home = home();
    let past = past(&home, "Rest");
    let said = home.run("backup compress").ok();
    assert!(said.contains("1 sessions compressed"), "{said}");
    let names: Vec<String> = std::fs::read_dir(folder(&home, &past.session))
        .unwrap()
        .flatten()
        .map(|e| e.file_name().into_string().unwrap())
        .collect();
    assert!(
        names.contains(&"main.1.jsonl.zst".to_owned()) && !names.contains(&"main.jsonl".to_owned()),
        "{names:?}"
    );
    assert_eq!(newest(&home, &past.session), past.bytes);
    home.run("backup verify").ok();
    std::fs::remove_file(&past.transcript).unwrap();
    home.run(&format!("backup restore {}", past.session)).ok();
    assert_eq!(std::fs::read(&past.transcript).unwrap(), past.bytes);

    // Resumed and ended again: the longer copy is kept, because the shorter one has nothing that it lacks.
    let mut client = Client::new(&home);
    client.session.clone_from(&past.session);
    client.starts("resume").ok();
    client.answers(77);
    client.hook("Stop").ok();
    client.hook("SessionEnd").ok();
    home.run("backup compress").ok();
    let rows = home.run("backup list --json").json();
    assert_eq!(rows[0]["parts"][0]["generations"].as_array().unwrap().len(), 1, "{rows:#}");
    assert_eq!(newest(&home, &past.session), std::fs::read(&past.transcript).unwrap());
}

#[test]
fn a_cut_conversation_rests_and_reads_back_whole() {
    let home = home();
    let client = Client::new(&home);
    client.starts("startup").ok();
    for n in 0..30 {
        client.answers(n);
    }
    client.hook("PostToolUse").ok();
    let whole = std::fs::read(client.transcript()).unwrap();
    std::fs::write(client.transcript(), &whole[..whole.len() / 2]).unwrap();
    client.hook("PostToolUse").ok();
    client.answers(99);
    client.hook("SessionEnd").ok();
    let now = std::fs::read(client.transcript()).unwrap();
    home.run("backup compress").ok();
    home.run("backup verify").ok();
    assert_eq!(newest(&home, &client.session), now);
    let mirrored =
        Mirror::new(&home.state()).of(&SessionId::new(client.session.clone()).unwrap()).unwrap().unwrap();
    let part = mirrored.main().unwrap();
    let mut bytes = Vec::new();
    part.open(&part.generations[0]).unwrap().read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes, whole);
}

#[test]
fn verify_takes_what_was_rewritten_meanwhile_and_finds_nothing_wrong_with_it() {
    let home = home();
    let past = past(&home, "Before");
    std::fs::write(&past.transcript, "{\"type\":\"user\"}\n").unwrap();
    let said = home.run("backup verify").ok();
    assert!(said.contains("2 copies of 1 session, none damaged"), "{said}");
    assert_eq!(newest(&home, &past.session), b"{\"type\":\"user\"}\n");
}

#[test]
fn verify_finds_a_damaged_copy_and_says_which() {
    let home = home();
    let (good, bad) = (past(&home, "Good"), past(&home, "Bad"));
    home.run("backup compress").ok();
    let path = folder(&home, &bad.session).join("main.1.jsonl.zst");
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x55;
    std::fs::write(&path, &bytes).unwrap();
    let ran = home.run("backup verify");
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.err.contains(&bad.session) && !ran.err.contains(&good.session), "{}", ran.err);
    let rows = home.run("backup verify --json").out;
    let rows: Vec<Value> = serde_json::from_str(&rows).unwrap();
    assert_eq!(rows.iter().filter(|r| !r["error"].is_null()).count(), 1);
}

#[test]
fn an_export_comes_back_on_another_machine() {
    let home = home();
    let past = past(&home, "Take me along");
    let said = home.run(&format!("backup export {} out", past.session)).ok();
    assert!(said.contains("baton backup restore"), "{said}");
    let out = home.project().join("out");
    assert_eq!(std::fs::read(out.join(format!("{}.jsonl", past.session))).unwrap(), past.bytes);
    assert!(home.run(&format!("backup export {} out", past.session)).fails(1).contains("there already"));

    let other = Home::new(crate::BATON);
    let mut command = other.baton(["backup", "restore"]);
    command.arg(&out).arg("--to").arg(other.project());
    let said = baton_testkit::home::run(&mut command).ok();
    let real = std::fs::canonicalize(other.project()).unwrap();
    assert!(said.contains(&format!("cd {} && claude --resume {}", real.display(), past.session)), "{said}");
    let restored = walk(&other.path().join(".claude/projects"));
    let text = std::fs::read_to_string(&restored[0]).unwrap();
    assert!(text.contains(&format!("{}/src/main.rs", real.display())), "{text}");
}

fn walk(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|e| e.path());
    entries.flat_map(|p| if p.is_dir() { walk(&p) } else { vec![p] }).collect()
}
