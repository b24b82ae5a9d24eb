//! The project's memory: the three flows as a user experiences them, and everything that can be wrong with its files.

mod died;
mod files;
mod settled;

use std::path::{Path, PathBuf};

use baton_testkit::hooks::Client;
use baton_testkit::{CommandOutput, Home, trace};
use serde_json::json;

const PENDING: &str = "SESSION_BACKUP_PENDING: A previous session backup exists at ";

/// A project with a memory; automatic sealing is off, so that what the tests see comes from the memory.
fn home() -> Home {
    let home = Home::new(crate::BATON);
    home.write(".config/baton/config.toml", "[handoff]\nseal = false\n");
    home.run("memory init").ok();
    home
}

fn memory(home: &Home) -> PathBuf {
    home.project().join(".claude/memory")
}

fn marker(home: &Home) -> Option<String> {
    std::fs::read_to_string(memory(home).join(".pending-backup")).ok().map(|t| t.trim().to_owned())
}

fn raws(home: &Home) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = std::fs::read_dir(memory(home).join("raw"))
        .into_iter()
        .flatten()
        .flatten()
        .map(|e| e.path())
        .filter(|path| path.extension().is_some_and(|x| x == "jsonl"))
        .collect();
    all.sort();
    all
}

fn active(home: &Home) -> String {
    std::fs::read_to_string(memory(home).join("active-context.md")).unwrap()
}

/// A client with a request in it.
fn asked<'a>(home: &'a Home, words: &str) -> Client<'a> {
    let client = Client::new(home);
    client.starts("startup").ok();
    says(&client, words);
    client
}

fn says(client: &Client<'_>, words: &str) {
    client.record(&json!({ "type": "user", "uuid": words, "sessionId": client.session,
        "message": { "role": "user", "content": words } }));
    client.hook_with("UserPromptSubmit", json!({ "prompt": words })).ok();
    client.answers(20_000);
    client.hook("Stop").ok();
}

/// Runs `baton memory …` as the client's Bash does.
fn in_client(home: &Home, client: &Client<'_>, line: &str, text: &str) -> CommandOutput {
    use std::io::Write as _;
    let mut command = home.baton(line.split_whitespace());
    client.dress(&mut command);
    command.stdin(std::process::Stdio::piped());
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    let _ = child.stdin.take().unwrap().write_all(text.as_bytes());
    CommandOutput::of(&child.wait_with_output().unwrap())
}

const SAVED: &str =
    "Goal: the parser. Next: the lexer.\n=== session document ===\n# The parser\nDone: half of it.\n";

/// Flow A: the user saves; the next session begins with it, and nothing nags.
#[test]
fn flow_a_a_session_that_was_saved_by_hand_ends_safely() {
    let home = home();
    let client = asked(&home, "Write the parser");
    let said = in_client(&home, &client, "memory save -", SAVED).ok();
    assert!(said.contains("/resume-from .claude/memory/session-"), "{said}");
    let context = active(&home);
    assert!(context.contains("Goal: the parser. Next: the lexer."), "{context}");
    assert!(context.starts_with("_Updated 20"), "the agent sees the stamp: {context}");
    let documents = home.run("memory list --json").json();
    let path = documents["documents"][0]["path"].as_str().unwrap().to_owned();
    let document = std::fs::read_to_string(&path).unwrap();
    assert!(document.contains("Done: half of it."), "{document}");
    assert!(document.contains("Write the parser"), "what the transcript proves is there: {document}");
    assert!(document.contains(&format!("session_id: {}", client.session)), "{document}");

    client.hook_with("SessionEnd", json!({ "reason": "prompt_input_exit" })).ok();
    assert_eq!(raws(&home).len(), 1, "the raw transcript is kept all the same");
    assert_eq!(marker(&home), None, "everything was saved: nobody has to look at it");

    let next = Client::new(&home);
    assert_eq!(next.starts("startup").context(), None);
    let resumed = in_client(&home, &next, &format!("memory context --from {path}"), "").ok();
    assert!(resumed.contains("Done: half of it."), "{resumed}");
    let newest = in_client(&home, &next, "memory context", "").ok();
    assert!(newest.contains("Done: half of it."), "{newest}");
}

/// Flow A with one more sentence: what was said after the save is not saved.
#[test]
fn text_after_a_save_waits() {
    let home = home();
    let client = asked(&home, "Write the parser");
    in_client(&home, &client, "memory save -", SAVED).ok();
    client.answers(21_000);
    says(&client, "One more thing");
    client.hook("SessionEnd").ok();
    assert!(marker(&home).is_some());
}

/// Flow B: before a compaction the raw transcript is set aside, and the session is told.
#[test]
fn flow_b_a_compaction_leaves_a_backup_that_the_session_is_told_of() {
    let home = home();
    let client = asked(&home, "Write the parser");
    let before = std::fs::read(client.transcript()).unwrap();
    // The client fires it two to four times.
    for _ in 0..3 {
        client.hook("PreCompact").silent();
    }
    let raw = raws(&home);
    assert_eq!(raw.len(), 1, "{raw:?}");
    assert_eq!(std::fs::read(&raw[0]).unwrap(), before);
    let name = raw[0].file_name().unwrap().to_str().unwrap().to_owned();
    assert!(name.len() == "20261116_040000.jsonl".len() && !name.contains("auto"), "{name}");
    assert_eq!(marker(&home).as_deref(), raw[0].to_str());

    let heard = client.starts("compact");
    let context = heard.context().unwrap();
    assert_eq!(
        context,
        format!(
            "{PENDING}{}\nUser should run /resume-latest to restore context, or /discard-backup to discard.",
            raw[0].display()
        )
    );
    assert!(heard.message().unwrap().contains("/resume-latest"));

    let facts = in_client(&home, &client, "memory context --agent", "").ok();
    assert!(facts.contains("Write the parser") && facts.contains("pending backup"), "{facts}");
    in_client(&home, &client, "memory context --update -", "Goal: the parser.\n").ok();
    assert!(active(&home).contains("Goal: the parser."));
    assert_eq!(marker(&home), None, "the marker is gone");
    assert!(raw[0].exists(), "the backup is not");
    let log = std::fs::read_to_string(memory(&home).join(".backup-log")).unwrap();
    assert_eq!(log.lines().count(), 2, "{log}");
    assert!(log.contains("backup precompact") && log.contains("processed precompact"), "{log}");
}

/// Flow B with sealing on: the session gets its handoff, so no marker remains.
#[test]
fn flow_b_with_a_sealed_handoff_leaves_no_marker() {
    let home = Home::new(crate::BATON);
    home.run("memory init").ok();
    let client = asked(&home, "Write the parser");
    client.hook("PreCompact").silent();
    assert!(marker(&home).is_some());
    let context = client.starts("compact").context().unwrap();
    assert!(context.contains("HANDOFF LOADED") && !context.contains(PENDING), "{context}");
    assert_eq!(marker(&home), None);
    assert_eq!(raws(&home).len(), 1);
}

/// Flow C: the user leaves without saving; the next session is told, and processes it.
#[test]
fn flow_c_an_exit_leaves_a_backup_that_the_next_session_processes() {
    let home = home();
    let client = asked(&home, "Write the parser");
    client.hook_with("SessionEnd", json!({ "reason": "prompt_input_exit" })).silent();
    let raw = raws(&home);
    assert!(raw[0].to_str().unwrap().ends_with("_prompt_input_exit.jsonl"), "{raw:?}");
    // Whatever the project's own rules say, git does not track a raw conversation.
    assert_eq!(std::fs::read_to_string(memory(&home).join("raw/.gitignore")).unwrap(), "*\n");
    let context = active(&home);
    assert!(context.contains("_The last session ended 20") && !context.contains("<!--"), "{context}");
    assert!(context.contains("(prompt_input_exit)") && context.contains("backup raw/20"), "{context}");

    let next = Client::new(&home);
    let told = next.starts("startup").context().unwrap();
    assert!(told.starts_with(&format!("{PENDING}{}", raw[0].display())), "{told}");
    let facts = in_client(&home, &next, "memory context --agent", "").ok();
    assert!(facts.contains("Write the parser"), "{facts}");
    in_client(&home, &next, "memory context --update -", "Goal: the parser.\n").ok();
    assert_eq!(marker(&home), None);
    assert_eq!(Client::new(&home).starts("startup").context(), None, "and nobody hears of it again");
}

#[test]
fn backups_of_both_kinds_wait_side_by_side() {
    let home = home();
    let client = asked(&home, "Write the parser");
    client.hook("PreCompact").ok();
    let first = marker(&home).unwrap();
    client.hook_with("SessionEnd", json!({ "stop_reason": "logout", "reason": null })).ok();
    let second = marker(&home).unwrap();
    assert_ne!(first, second);
    assert!(second.ends_with("_logout.jsonl"), "{second}");
    let listed = home.run("memory pending --json").json();
    let paths: Vec<&str> = listed.as_array().unwrap().iter().map(|p| p["path"].as_str().unwrap()).collect();
    assert_eq!(paths, [second.as_str(), first.as_str()], "newest first");

    let said = home.run("memory discard").ok();
    assert!(
        said.contains(&second) && said.contains("1 older") && said.contains("mirrored conversation stays"),
        "{said}"
    );
    assert!(!Path::new(&second).exists() && Path::new(&first).exists());
    assert!(!active(&home).contains(&second[second.len() - 20..]), "no stamp names a deleted file");
    assert_eq!(marker(&home), None);
    assert_eq!(home.run("memory discard").code, Some(3));
    assert_eq!(
        home.run("memory discard --agent").code,
        Some(0),
        "in a skill a code would look like a failure"
    );
    home.run("backup verify").ok();
    assert!(home.run("backup list").ok().contains(&client.session), "the mirror is still there");
}

#[test]
fn a_stale_marker_is_cleaned_up() {
    let home = home();
    // A marker that another script wrote.
    std::fs::write(memory(&home).join(".pending-backup"), "/nowhere/at/all.jsonl\n").unwrap();
    assert_eq!(Client::new(&home).starts("startup").context(), None);
    assert_eq!(marker(&home), None);
    let theirs = home.write(
        "work/app/.claude/backups/theirs.jsonl",
        "{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":\"Hello there\"}}\n",
    );
    std::fs::write(memory(&home).join(".pending-backup"), theirs.to_str().unwrap()).unwrap();
    assert!(Client::new(&home).starts("startup").context().unwrap().contains("the path in"));
    assert!(home.run("memory context").ok().contains("Hello there"));
}

#[test]
fn a_session_that_is_resumed_has_nothing_to_restore() {
    let home = home();
    let client = asked(&home, "Write the parser");
    client.hook("SessionEnd").ok();
    assert!(marker(&home).is_some());
    assert_eq!(client.starts("resume").context(), None);
    assert_eq!(marker(&home), None);
}

#[test]
fn without_a_memory_no_file_of_the_project_is_written_and_nobody_is_reminded() {
    let home = Home::new(crate::BATON);
    home.write(".config/baton/config.toml", "[handoff]\nseal = false\n");
    let client = asked(&home, "Write the parser");
    client.hook("PreCompact").ok();
    client.hook("SessionEnd").ok();
    assert_eq!(std::fs::read_dir(home.project()).unwrap().count(), 0);
    assert_eq!(Client::new(&home).starts("startup").context(), None);
    let listed = home.run("memory pending --json").json();
    let path = listed[0]["path"].as_str().unwrap();
    assert!(path.contains("/mirror/"), "the mirror is the backup: {path}");
    assert!(home.run("memory context").ok().contains("Write the parser"));
    home.run("backup compress").ok();
    assert!(home.run("memory context").ok().contains("Write the parser"), "also when it rests");
    assert!(home.run("memory save -").fails(1).contains("baton memory init"));
}

#[test]
fn a_project_that_cannot_be_written_costs_nothing_but_its_own_files() {
    let home = home();
    let client = asked(&home, "Write the parser");
    // Root may write anywhere, so put a file where the folder belongs; that stops root too.
    std::fs::remove_dir_all(memory(&home).join("raw")).unwrap();
    std::fs::write(memory(&home).join("raw"), "no folder").unwrap();
    client.hook("PreCompact").silent();
    client.hook("SessionEnd").silent();
    let log = home.run("log --faults").ok();
    assert!(log.contains("project's memory"), "{log}");
    home.run("backup verify").ok();
    assert!(home.run("backup list").ok().contains(&client.session));
}

#[test]
fn files_that_are_not_transcripts_leave_no_backup() {
    let home = home();
    let client = Client::new(&home);
    client.starts("startup").ok();
    client.hook("PreCompact").silent();
    client.hook("SessionEnd").silent();
    std::fs::create_dir_all(client.transcript()).unwrap();
    client.hook("PreCompact").silent();
    client.hook("SessionEnd").silent();
    std::fs::remove_dir(client.transcript()).unwrap();
    std::fs::write(client.transcript(), "").unwrap();
    client.hook("PreCompact").silent();
    client.hook("SessionEnd").silent();
    assert_eq!((raws(&home).len(), marker(&home)), (0, None));
}

#[test]
fn a_transcript_that_the_client_deleted_is_backed_up_from_the_mirror() {
    let home = home();
    let client = asked(&home, "Write the parser");
    let bytes = std::fs::read(client.transcript()).unwrap();
    std::fs::remove_file(client.transcript()).unwrap();
    client.hook("SessionEnd").silent();
    assert_eq!(std::fs::read(&raws(&home)[0]).unwrap(), bytes);
}

/// A kill or a full disk at any call that touches the memory leaves only whole backups, and the next run works.
#[test]
fn an_end_that_is_killed_or_fails_at_any_call_leaves_whole_files() {
    if !trace::available() {
        return;
    }
    let make = || {
        let home = home();
        let client = asked(&home, "Write the parser");
        let payload = home.write("payload.json", client.usual("SessionEnd").to_string());
        let bytes = std::fs::read(client.transcript()).unwrap();
        let session = client.session.clone();
        drop(client);
        (home, payload, bytes, session)
    };
    let dress = |payload: &Path, command: &mut std::process::Command| {
        command.stdin(std::fs::File::open(payload).unwrap());
    };
    let (home, payload, ..) = make();
    let (calls, ran) = trace::record_as(&home, "hook SessionEnd", &|c| dress(&payload, c));
    ran.ok();
    let touching = |c: &&trace::Call| c.line.contains("/memory") && !c.name.starts_with("open");
    let calls: Vec<_> = calls.iter().filter(touching).collect();
    assert!(calls.len() > 8, "{calls:?}");
    for (call, fault) in calls.iter().flat_map(|c| [(c, "signal=KILL"), (c, "error=ENOSPC")]) {
        let (home, payload, bytes, session) = make();
        let ran = trace::inject_as(&home, "hook SessionEnd", &|c| dress(&payload, c), call, fault);
        let what = format!("{fault} in {}", call.line);
        if fault != "signal=KILL" {
            assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{what}");
        }
        for raw in raws(&home).iter().filter(|p| !p.to_string_lossy().ends_with(".tmp")) {
            assert_eq!(std::fs::read(raw).unwrap(), bytes, "{what}");
        }
        if let Some(path) = marker(&home) {
            assert_eq!(std::fs::read(&path).unwrap(), bytes, "{what}");
        }
        assert!(active(&home).starts_with("# Active context"), "{what}");
        // The client tries again, or the next session ends; both work.
        let mut again = home.baton(["hook", "SessionEnd"]);
        dress(&payload, &mut again);
        assert!(again.status().unwrap().success(), "{what}");
        assert_eq!(std::fs::read(marker(&home).unwrap()).unwrap(), bytes, "{what}");
        assert!(raws(&home).iter().all(|p| !p.to_string_lossy().ends_with(".tmp")), "{what}");
        let _ = std::fs::remove_file(format!("/tmp/claude-context-pct-{session}.txt"));
    }
}

/// Folders outside git share a channel, but not what their conversations left behind.
#[test]
fn folders_outside_git_have_memory_and_backups_of_their_own() {
    let home = Home::new(crate::BATON);
    home.write(".config/baton/config.toml", "[handoff]\nseal = false\n");
    let folder = |name: &str| {
        let file = home.write(&format!("{name}/file"), "");
        file.parent().unwrap().to_owned()
    };
    let (one, two) = (folder("one"), folder("two"));
    let client = Client::new(&home);
    let cwd = json!({ "cwd": one, "source": "startup" });
    client.hook_with("SessionStart", cwd.clone()).ok();
    client.record(&json!({ "type": "user", "sessionId": client.session,
        "message": { "role": "user", "content": "secret plans" } }));
    client.hook_with("UserPromptSubmit", json!({ "cwd": one, "prompt": "secret plans" })).ok();
    client.answers(20_000);
    client.hook_with("SessionEnd", json!({ "cwd": one, "reason": "other" })).ok();
    let pending = |dir: &Path| {
        let mut command = home.baton(["memory", "pending", "--json"]);
        baton_testkit::home::run(command.current_dir(dir)).out
    };
    assert!(pending(&one).contains(&client.session), "{}", pending(&one));
    assert!(!pending(&two).contains(&client.session), "{}", pending(&two));
    // Nor does one folder see what was saved in the other.
    let memory = |dir: &Path, line: &str, text: &str| {
        use std::io::Write as _;
        let mut command = home.baton(line.split_whitespace());
        command.current_dir(dir).stdin(std::process::Stdio::piped());
        let mut child = command
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let _ = child.stdin.take().unwrap().write_all(text.as_bytes());
        CommandOutput::of(&child.wait_with_output().unwrap())
    };
    for dir in [&one, &two] {
        memory(dir, "memory init", "").ok();
    }
    memory(&one, "memory save -", SAVED).ok();
    let known = |dir: &Path| memory(dir, "memory context", "").out;
    assert!(known(&one).contains("# The parser"), "{}", known(&one));
    assert!(!known(&two).contains("# The parser"), "{}", known(&two));
}
