//! The files of a memory: documents, the active context, the block in CLAUDE.md.

use baton_testkit::Home;
use baton_testkit::hooks::Client;
use serde_json::json;

use super::{SAVED, active, asked, home, in_client, memory, raws};

#[test]
fn nothing_is_removed_or_made_while_the_record_of_memories_cannot_be_read() {
    let home = home();
    let project = home.project();
    let text = |name: &str| std::fs::read_to_string(project.join(name)).unwrap_or_default();
    let before = (text("CLAUDE.md"), text(".claude/CLAUDE.md"), text(".gitignore"), active(&home));
    assert!(before.1.contains("baton"), "{before:?}");
    let record = home.state().join("memory/projects.json");
    std::fs::remove_file(&record).unwrap();
    std::fs::create_dir(&record).unwrap();
    let project_memory = memory(&home).join("project-memory.md");
    std::fs::remove_file(&project_memory).unwrap();
    for line in ["memory init --remove", "memory init"] {
        assert!(home.run(line).fails(1).contains("projects.json"), "{line}");
        let now = (text("CLAUDE.md"), text(".claude/CLAUDE.md"), text(".gitignore"), active(&home));
        assert_eq!(now, before, "{line}");
        assert!(!project_memory.exists(), "{line}");
    }
}

/// A socket has the one name under which an open fails as it does on a failing disk.
#[test]
fn an_end_whose_transcript_cannot_be_opened_is_reported() {
    let home = home();
    let client = Client::new(&home);
    client.starts("startup").ok();
    std::fs::create_dir_all(client.transcript().parent().unwrap()).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(client.transcript()).unwrap();
    client.hook("SessionEnd").ok();
    assert!(raws(&home).is_empty());
    let log = home.run("log --json").ok();
    assert!(log.contains("\"doing\":\"back up the transcript\""), "{log}");
}

#[test]
fn a_document_that_was_edited_into_nonsense_is_named_and_the_rest_still_works() {
    let home = home();
    let client = asked(&home, "Write the parser");
    in_client(&home, &client, "memory save -", SAVED).ok();
    std::fs::write(memory(&home).join("session-2020-01-01-0000.md"), b"\0\0\xff\xfe").unwrap();
    std::fs::create_dir(memory(&home).join("session-2020-01-02-0000.md")).unwrap();
    std::fs::write(memory(&home).join("session-2020-01-03-0000.md"), "---\nsaved_at: noon\n\x1b[31m# red")
        .unwrap();
    let said = home.run("memory list").ok();
    assert!(said.contains("skipped: session-2020-01-01-0000.md: it is not text"), "{said}");
    assert!(said.contains("skipped: session-2020-01-02-0000.md"), "{said}");
    assert!(said.contains("The parser") && !said.contains('\x1b'), "{said}");
    assert!(home.run("memory context").ok().contains("Done: half of it."));
    let err = home.run("memory context --from session-2020-01-01-0000.md").fails(1);
    assert!(err.contains("it is not text"), "{err}");
    assert!(home.run("memory context --from nowhere.md").fails(1).contains("it is not there"));
}

#[test]
fn the_active_context_never_grows_without_bound_and_nothing_of_it_is_lost() {
    let home = home();
    let client = asked(&home, "Write the parser");
    let lines: Vec<String> = (0..2_000).map(|n| format!("line {n}")).collect();
    let long = lines.join("\n") + "\n";
    for n in 0..3 {
        let text = format!("Round {n}\n{long}=== session document ===\n# Round {n}\n");
        in_client(&home, &client, "memory save -", &text).ok();
        client.hook("SessionEnd").ok();
        assert!(active(&home).chars().count() < 6_500, "{}", active(&home).len());
    }
    let documents = home.run("memory list --json").json();
    let texts: Vec<String> = documents["documents"]
        .as_array()
        .unwrap()
        .iter()
        .map(|d| std::fs::read_to_string(d["path"].as_str().unwrap()).unwrap())
        .collect();
    assert_eq!(texts.len(), 3);
    assert!(texts.iter().all(|t| t.contains("line 1999")), "what did not fit moved");
    assert!(
        texts.iter().any(|t| t.contains("## Active context before this save\n\nRound 1")),
        "what was there moved"
    );
}

#[test]
fn a_save_without_its_two_parts_changes_nothing() {
    let home = home();
    let client = asked(&home, "Write the parser");
    let before = active(&home);
    for text in ["", "only this", "\n=== session document ===\nx", "x\n=== session document ===\n  \n"] {
        let err = in_client(&home, &client, "memory save -", text).fails(2);
        assert!(err.contains("nothing was saved") && err.contains("=== session document ==="), "{err}");
    }
    assert_eq!(active(&home), before);
    assert_eq!(home.run("memory list").code, Some(3));
}

#[test]
fn a_document_goes_where_the_user_wants_it_and_replaces_nothing() {
    let home = home();
    let client = asked(&home, "Write the parser");
    in_client(&home, &client, "memory save --to notes/parser.md -", SAVED).ok();
    let path = home.project().join("notes/parser.md");
    assert!(std::fs::read_to_string(&path).unwrap().contains("Done: half of it."));
    let err = in_client(&home, &client, "memory save --to notes/parser.md -", SAVED).fails(1);
    assert!(err.contains("active-context.md is saved"), "{err}");
}

#[test]
fn secrets_do_not_reach_the_memory() {
    let home = home();
    let client = asked(&home, "Write the parser");
    let secret = format!("ghp_{}", "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8");
    let text = format!("token {secret}\n=== session document ===\n# T\ntoken {secret}\n");
    in_client(&home, &client, "memory save -", &text).ok();
    let everything: String = std::fs::read_dir(memory(&home))
        .unwrap()
        .flatten()
        .filter_map(|e| std::fs::read_to_string(e.path()).ok())
        .collect();
    assert!(!everything.contains(&secret), "{everything}");
}

#[test]
fn init_is_taken_back_byte_for_byte_and_leaves_what_was_saved() {
    for before in [None, Some("# Rules\n"), Some("# Rules, no line end"), Some("# Rules\r\n- x\r\n")] {
        for own in [true, false] {
            let home = Home::new(crate::BATON);
            std::fs::create_dir_all(home.project().join(".git")).unwrap();
            home.write("work/app/.gitignore", "target");
            let name = if own { "work/app/CLAUDE.md" } else { "work/app/.claude/CLAUDE.md" };
            if let Some(before) = before {
                home.write(name, before);
            }
            let files = crate::install::files(&home.project());
            home.run("memory init").ok();
            assert!(home.run("memory init").ok().contains("nothing was changed"));
            let place = if before.is_none() { "work/app/.claude/CLAUDE.md" } else { name };
            let text = std::fs::read_to_string(home.path().join(place)).unwrap();
            let import = if own && before.is_some() {
                "\n@.claude/memory/active-context.md"
            } else {
                "@memory/active-context.md"
            };
            assert!(text.contains(import), "{text}");
            assert!(
                std::fs::read_to_string(home.project().join(".gitignore")).unwrap().contains("memory/raw/")
            );
            home.run("memory init --remove").ok();
            assert_eq!(crate::install::files(&home.project()), files, "{before:?}, {own}");
        }
    }
    let home = home();
    let client = asked(&home, "Write the parser");
    in_client(&home, &client, "memory save -", SAVED).ok();
    let said = home.run("memory init --remove").ok();
    assert!(said.contains("stays"), "{said}");
    assert!(active(&home).contains("Goal: the parser."));
    assert!(!home.project().join(".claude/CLAUDE.md").exists());
}

#[test]
fn existing_imports_are_not_doubled() {
    for (name, import) in [
        ("work/app/CLAUDE.md", "@.claude/memory/active-context.md"),
        ("work/app/.claude/CLAUDE.md", "@memory/active-context.md"),
    ] {
        let home = Home::new(crate::BATON);
        home.write(name, format!("# Rules\n- Context: {import}\n"));
        home.run("memory init").ok();
        let text = std::fs::read_to_string(home.path().join(name)).unwrap();
        assert_eq!(text.matches("active-context.md\n").count(), 1, "{text}");
        assert_eq!(text.matches("memory/project-memory.md").count(), 1, "{text}");
        assert!(home.run("memory init").ok().contains("nothing was changed"));
        home.run("memory init --remove").ok();
        let text = std::fs::read_to_string(home.path().join(name)).unwrap();
        assert_eq!(text, format!("# Rules\n- Context: {import}\n"));
    }
}

#[test]
fn a_saved_document_leaves_out_the_call_that_saved_it() {
    let home = home();
    let client = asked(&home, "Write the parser");
    let command = format!("baton memory save - <<'BATON_END'\n{SAVED}BATON_END");
    client.record(&json!({ "type": "assistant", "uuid": "a-save", "sessionId": client.session,
        "message": { "role": "assistant", "content": [
            { "type": "tool_use", "id": "t-save", "name": "Bash", "input": { "command": command } }] } }));
    in_client(&home, &client, "memory save -", SAVED).ok();
    let list = home.run("memory list --json").json();
    let document = std::fs::read_to_string(list["documents"][0]["path"].as_str().unwrap()).unwrap();
    assert!(document.contains("Write the parser"), "{document}");
    assert!(!document.contains("memory save") && !document.contains("BATON_END"), "{document}");
}

#[test]
fn a_listing_names_a_session_by_its_own_words() {
    let home = home();
    let client = asked(&home, "Write the parser");
    for (text, title) in [
        ("Goal.\n=== session document ===\n## The printer\nAll of it.\n", "The printer"),
        ("Goal.\n=== session document ===\nWe wrote the lexer.\n\nMore.\n", "We wrote the lexer."),
    ] {
        in_client(&home, &client, "memory save -", text).ok();
        let list = home.run("memory list --json").json();
        let titles: Vec<&str> =
            list["documents"].as_array().unwrap().iter().map(|d| d["title"].as_str().unwrap()).collect();
        assert!(titles.contains(&title), "{titles:?}");
    }
}

#[test]
fn an_uninstall_takes_the_block_out_of_every_project() {
    let home = crate::install::home();
    home.write("work/app/CLAUDE.md", "# Rules\n");
    crate::install::baton(&home, "install --yes").ok();
    home.run("memory init").ok();
    let path = home.project().join("CLAUDE.md");
    assert!(std::fs::read_to_string(&path).unwrap().contains("@.claude/memory"));
    crate::install::baton(&home, "uninstall").ok();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "# Rules\n");
    assert!(!home.project().join(".claude").exists());
}
