//! `baton sessions search`: finds words with their speaker and time, best first, each hit once.

use baton_testkit::pty::{Pty, code};
use baton_testkit::{CommandOutput, Home};
use serde_json::{Value, json};

use super::made::{Claude, codex, id};
use crate::BATON;

/// A project with a long conversation, an older one, and one of Codex.
fn home() -> Home {
    let home = Home::in_memory(BATON);
    home.write("work/app/.baton.toml", "");
    let app = home.project();
    let metadata =
        json!({ "subtype": "compact_boundary", "compactMetadata": { "trigger": "auto", "preTokens": 9 } });
    Claude::new(&home, 5, &app)
        .user("Port the old parser to \"nom\".\nNever touch the größe table.")
        .says("I read the parser first.")
        .calls("t1", "Read", &json!({ "file_path": app.join("src/parser.rs") }))
        .gives("t1", "fn parse() { /* the quick brown fox */ }\nsecond line\nthird line")
        .calls("t2", "Bash", &json!({ "command": "cargo test parser" }))
        .gives("t2", "test parser::nested ... FAILED")
        .record("system", metadata)
        .record(
            "user",
            json!({ "isCompactSummary": true, "message": { "content": "Summary of the parser work" } }),
        )
        .user("Go on with the lexer.")
        .says("The lexer is done.")
        .write();
    Claude::new(&home, 2, &app).user("Rename the parser module").says("Renamed parser to reader.").write();
    codex(
        &home.path().join(".codex"),
        3,
        &std::fs::canonicalize(app).unwrap(),
        "Look at the tokenizer",
        "The tokenizer is fine.",
    );
    home
}

fn ran(home: &Home, args: &[&str]) -> CommandOutput {
    baton_testkit::home::run(&mut home.baton(["sessions", "search"].iter().chain(args)))
}

fn hits(home: &Home, args: &[&str]) -> Vec<Value> {
    let found = ran(home, &[args, &["--json"]].concat());
    serde_json::from_str(&found.out).unwrap_or_else(|e| panic!("{e}: {found:?}"))
}

fn lines(home: &Home, args: &[&str]) -> Vec<String> {
    hits(home, args).iter().map(|h| h["line"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn words_phrases_and_expressions_are_found_as_they_were_written() {
    let home = home();
    assert_eq!(
        lines(&home, &["old", "parser"]),
        ["Port the old parser to \"nom\"."],
        "all words in one message"
    );
    assert_eq!(lines(&home, &["\"old parser\""]).len(), 1);
    assert_eq!(lines(&home, &["\"parser old\""]).len(), 0, "a phrase is one piece");
    assert_eq!(
        lines(&home, &["to \"nom\"."]),
        ["Port the old parser to \"nom\"."],
        "quotes stand escaped in the file"
    );
    assert_eq!(lines(&home, &["GRÖSSE"]).len(), 0);
    assert_eq!(lines(&home, &["größe"]), ["Never touch the größe table."]);
    assert_eq!(lines(&home, &["QUICK"]).len(), 0, "a capital letter is meant");
    assert_eq!(lines(&home, &["quick fox"]), ["fn parse() { /* the quick brown fox */ }"]);
    assert_eq!(lines(&home, &["--regex", r"par\w+::nes.ed"]), ["test parser::nested ... FAILED"]);
    assert_eq!(lines(&home, &["--regex", r"^second .*$"]), ["second line"]);
    assert_eq!(ran(&home, &["--regex", "("]).code, Some(2), "a wrong expression is wrong usage");
    assert_eq!(ran(&home, &["no-such-word-anywhere"]).code, Some(3));
    assert_eq!(lines(&home, &["tokenizer"]).len(), 2, "Codex too");
}

#[test]
fn text_before_a_compaction_is_found_and_the_clients_own_texts_are_not() {
    let home = home();
    assert_eq!(lines(&home, &["Never touch"]).len(), 1);
    assert_eq!(lines(&home, &["summary"]).len(), 0, "nobody said it");
}

#[test]
fn hits_are_filtered_by_role_tool_file_time_and_project() {
    let home = home();
    let roles = |args: &[&str]| -> Vec<String> {
        let mut roles: Vec<_> =
            hits(&home, args).iter().map(|h| h["role"].as_str().unwrap().to_owned()).collect();
        roles.sort();
        roles.dedup();
        roles
    };
    assert_eq!(roles(&["parser"]), ["assistant", "tool", "user"]);
    for role in ["user", "assistant", "tool"] {
        assert_eq!(roles(&["parser", "--role", role]), [role]);
    }
    assert_eq!(
        lines(&home, &["parser", "--tool", "bash"]),
        ["test parser::nested ... FAILED", "cargo test parser"],
        "the call and what it gave"
    );
    let found = hits(&home, &["quick", "--file", "src/parser.rs"]);
    assert_eq!((found.len(), found[0]["tool"].as_str()), (1, Some("Read")), "the result knows its call");
    assert_eq!(hits(&home, &["quick", "--file", "other.rs"]).len(), 0);
    assert_eq!(
        hits(&home, &["parser", "--until", "2026-11-04T00:00:00Z"]).len(),
        2,
        "the older conversation"
    );
    assert_eq!(hits(&home, &["renamed", "--since", "2026-11-04T00:00:00Z"]).len(), 0);
    assert_eq!(ran(&home, &["parser", "--since", "soon"]).code, Some(1));
    assert_eq!(hits(&home, &["parser", "--project", "elsewhere"]).len(), 0);
    let one = &hits(&home, &["quick"])[0];
    assert_eq!(one["session"], id(5).as_str());
    assert_eq!(one["time"], "2026-11-06T10:04:00Z");
    assert!(
        one["uuid"].is_string() && one["transcript"].is_string() && one["offset"].as_u64() > Some(0),
        "{one:#}"
    );
}

#[test]
fn the_best_come_first_with_lines_around_and_no_more_than_asked_for() {
    let home = home();
    let roles: Vec<_> = hits(&home, &["parser"]).iter().map(|h| h["role"].clone()).collect();
    assert_eq!(roles[0], "user", "the user's own words come first: {roles:?}");
    assert_eq!(roles.last().unwrap(), "tool");
    let together = lines(&home, &["rename", "parser"]);
    assert_eq!(together[0], "Rename the parser module");
    let one = &hits(&home, &["second", "-C", "1"])[0];
    assert_eq!(
        (&one["before"], &one["after"]),
        (&json!(["fn parse() { /* the quick brown fox */ }"]), &json!(["third line"]))
    );
    assert_eq!(hits(&home, &["parser", "-n", "2"]).len(), 2);
    let text = ran(&home, &["parser", "-n", "2"]).ok();
    assert!(
        text.contains("more of them") && text.contains("00000005") && text.contains("Port the old parser"),
        "{text}"
    );
}

#[test]
fn the_same_words_count_once_however_many_files_hold_them() {
    let home = home();
    let first = home.path().join(".claude/projects");
    let path = baton_testkit_find(&first, &id(5));
    // A fork copies the records under another name.
    std::fs::copy(&path, path.with_file_name(format!("{}.jsonl", id(6)))).unwrap();
    let found = hits(&home, &["quick"]);
    assert_eq!((found.len(), found[0]["times"].as_u64()), (1, Some(2)), "{found:#?}");
    let sub = path.with_extension("").join("subagents/agent-1.jsonl");
    std::fs::create_dir_all(sub.parent().unwrap()).unwrap();
    let line = json!({ "type": "assistant", "isSidechain": true, "agentId": "1", "message": { "content": [{ "type": "text", "text": "subagents find a zebra" }] } });
    std::fs::write(sub, format!("{line}\n")).unwrap();
    let found = hits(&home, &["zebra"]);
    assert_eq!(
        (found.len(), found[0]["subagent"].as_bool(), found[0]["session"].as_str()),
        (1, Some(true), Some(id(5).as_str()))
    );
}

fn baton_testkit_find(dir: &std::path::Path, id: &str) -> std::path::PathBuf {
    let entries = std::fs::read_dir(dir).unwrap().flatten();
    entries.map(|e| e.path().join(format!("{id}.jsonl"))).find(|p| p.is_file()).unwrap()
}

#[test]
fn a_secret_is_found_and_not_shown() {
    let home = Home::in_memory(BATON);
    let secret = ["ghp", "_", &"a1B2".repeat(9)].concat();
    Claude::new(&home, 1, &home.project())
        .user(&format!("one\nmy token is {secret} indeed\u{7}\ntwo"))
        .write();
    let found = ran(&home, &["--all", &secret]);
    assert_eq!(found.code, Some(0), "{found:?}");
    assert!(found.out.contains("[REDACTED:") && !found.out.contains("a1B2a1B2"), "{}", found.out);
    assert!(!found.out.contains('\u{7}'), "{:?}", found.out);
    assert!(!ran(&home, &["--all", "token", "--json"]).ok().contains("a1B2a1B2"));
}

#[test]
fn ctrl_c_ends_a_long_search_and_leaves_a_clean_line() -> anyhow::Result<()> {
    let home = Home::in_memory(BATON);
    let path = Claude::new(&home, 1, &home.project()).user("Begin").write();
    // Sparse: takes no space on the disk, and minutes to read.
    std::fs::OpenOptions::new().append(true).open(path)?.set_len(400 << 30)?;
    let mut pty = Pty::start(&home.baton(["sessions", "search", "--all", "nothing-like-it"]))?;
    pty.wait_for("searching: ")?;
    pty.send("\x03")?;
    assert_eq!(code(pty.wait_for_end()?), 130);
    let screen = pty.screen();
    assert!(screen.contains("interrupted") && !screen.contains("searching"), "{screen}");
    Ok(())
}
