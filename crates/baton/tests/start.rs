//! A session begins: who gets the handoff, who is only told about it, and who gets nothing.

use std::os::unix::fs::PermissionsExt as _;

use baton_testkit::Home;
use baton_testkit::hooks::{Client, HookOutput};
use serde_json::{Value, json};

use crate::BATON;

fn seal(home: &Home, text: &str) -> String {
    home.run_with_input("handoffs seal - --type manual", text).ok().trim().to_owned()
}

fn status(home: &Home, id: &str) -> String {
    let list = home.run("handoffs list --json").json();
    let entry = list.as_array().unwrap().iter().find(|e| e["id"] == id);
    let entry = entry.unwrap_or_else(|| panic!("{id} in {list}"));
    if entry.get("claim").is_some() {
        "claimed".to_owned()
    } else {
        entry["status"].as_str().unwrap().to_owned()
    }
}

fn is_loaded(heard: &HookOutput, id: &str) -> bool {
    heard.context().is_some_and(|c| c.starts_with(&format!("=== HANDOFF LOADED (ID: {id}) ===")))
}

#[test]
fn startup_and_clear_load_and_the_first_prompt_consumes() {
    for source in ["startup", "clear"] {
        let home = Home::new(BATON);
        let id = seal(&home, "# Finish the parser\n");
        let client = Client::new(&home);
        let heard = client.starts(source);
        assert!(is_loaded(&heard, &id), "{source}: {heard:?}");
        assert!(heard.context().unwrap().contains("# Finish the parser"));
        assert!(heard.message().unwrap().contains(&id));
        assert_eq!(status(&home, &id), "claimed", "{source}");
        client.hook("UserPromptSubmit").silent();
        assert_eq!(status(&home, &id), "consumed", "{source}");
        let next = Client::new(&home);
        next.starts("startup").silent();
    }
}

#[test]
fn resume_and_fork_mention_a_waiting_handoff_and_leave_it() {
    for source in ["resume", "fork"] {
        let home = Home::new(BATON);
        let id = seal(&home, "# Waiting\n");
        let client = Client::new(&home);
        let heard = client.starts(source);
        assert_eq!(heard.context(), None, "{source}");
        assert!(heard.message().unwrap().contains(&format!("`baton handoffs load {id}`")), "{heard:?}");
        assert_eq!(status(&home, &id), "active");
    }
}

#[test]
fn a_headless_run_not_started_by_baton_neither_loads_nor_consumes_unless_configured() {
    let home = Home::new(BATON);
    let id = seal(&home, "# For a person\n");
    let client = Client::new(&home).headless();
    client.starts("startup").silent();
    client.hook("UserPromptSubmit").silent();
    client.hook("SessionEnd").silent();
    assert_eq!(status(&home, &id), "active");
    home.write(".config/baton/config.toml", "[handoff]\nheadless = true\n");
    assert!(is_loaded(&Client::new(&home).headless().starts("startup"), &id));
}

#[test]
fn a_claim_without_a_sign_of_life_is_given_back_at_the_end_or_when_its_client_is_gone() {
    let home = Home::new(BATON);
    let id = seal(&home, "# Work\n");
    let client = Client::new(&home);
    assert!(is_loaded(&client.starts("startup"), &id));
    client.hook_with("SessionEnd", json!({ "reason": "prompt_input_exit" })).silent();
    assert_eq!(status(&home, &id), "active");
    {
        let killed = Client::new(&home);
        assert!(is_loaded(&killed.starts("startup"), &id));
    }
    let next = Client::new(&home);
    assert!(is_loaded(&next.starts("startup"), &id), "its claimant died without a word");
    next.hook("PostToolUse").silent();
    assert_eq!(status(&home, &id), "consumed", "a tool call is a sign of life too");
}

#[test]
fn the_second_of_two_starts_begins_fresh_and_says_so() {
    let home = Home::new(BATON);
    let id = seal(&home, "# Work\n");
    let one = Client::new(&home);
    assert!(is_loaded(&one.starts("startup"), &id));
    let two = Client::new(&home);
    let heard = two.starts("startup");
    assert_eq!(heard.context(), None);
    let message = heard.message().unwrap();
    assert!(message.contains(&id) && message.contains("starts fresh"), "{message}");
}

#[test]
fn after_a_compaction_only_the_sessions_own_handoff_comes_back() {
    let home = Home::new(BATON);
    let client = Client::new(&home);
    client.starts("startup").silent();
    let foreign = seal(&home, "# Someone else's\n");
    client.starts("compact").silent();
    client.record(&json!({ "type": "user", "message": { "role": "user", "content": "fix the lexer" } }));
    client.answers(170_000);
    client.hook("PreCompact").silent();
    let heard = client.starts("compact");
    let context = heard.context().unwrap();
    assert!(context.contains("Type: precompact") && context.contains("fix the lexer"), "{context}");
    assert!(!context.contains("Someone else's"));
    assert_ne!(status(&home, &foreign), "consumed");
}

#[test]
fn the_same_compaction_announced_four_times_seals_once_and_the_next_one_again() {
    let home = Home::new(BATON);
    let client = Client::new(&home);
    client.starts("startup").silent();
    client.answers(168_000);
    let sealed = || home.run("handoffs list --json").json().as_array().map_or(0, Vec::len);
    for _ in 0..4 {
        client.hook("PreCompact").silent();
    }
    assert_eq!(sealed(), 1);
    client.starts("compact");
    client.answers(169_000);
    client.hook("PreCompact").silent();
    assert_eq!(sealed(), 2);
}

#[test]
fn a_parent_gets_mail_that_its_child_was_compacted() {
    let home = Home::new(BATON);
    let parent = Client::new(&home);
    parent.starts("startup").silent();
    let child = Client::new(&home).env("CLAUDE_SESSION_MANAGER_ID", "app");
    child.starts("startup").silent();
    child.answers(168_000);
    child.hook("PreCompact").silent();
    let heard = parent.hook("UserPromptSubmit").context().unwrap();
    assert!(heard.contains("app-oak was compacted before it had handed off"), "{heard}");
}

#[test]
fn a_handoff_of_sixty_kilobytes_is_packed_and_says_where_the_whole_is() {
    let home = Home::new(BATON);
    let sections: Vec<String> =
        (0..600).map(|n| format!("## Section {n}\n{}\n\n", "word ".repeat(20))).collect();
    let text = sections.concat();
    assert!(text.len() > 60_000);
    let id = seal(&home, &text);
    let context = Client::new(&home).starts("startup").context().unwrap();
    assert!(context.chars().count() <= 9_500, "{}", context.chars().count());
    let end = context.lines().last().unwrap();
    assert!(end.starts_with("=== END HANDOFF === "), "{end}");
    let path = home.store().join(format!("archive/{id}.md"));
    assert!(context.contains(&path.display().to_string()), "{context}");
    assert!(std::fs::metadata(path).unwrap().len() > 60_000);
}

#[test]
fn a_handoff_that_expired_is_mentioned_with_the_command_that_loads_it() {
    let home = Home::new(BATON);
    home.write(".config/baton/config.toml", "[handoff]\nexpiry = \"1s\"\n");
    let id = seal(&home, "# Old\n");
    let manifest = home.store().join("global.manifest.json");
    let mut json: Value = serde_json::from_str(&std::fs::read_to_string(&manifest).unwrap()).unwrap();
    for pointer in ["/current/created_at", "/current/expires_at"] {
        if let Some(at) = json.pointer_mut(pointer) {
            *at = json!("2026-01-01T00:00:00Z");
        }
    }
    std::fs::write(&manifest, json.to_string()).unwrap();
    let heard = Client::new(&home).starts("startup");
    assert_eq!(heard.context(), None);
    assert!(heard.message().unwrap().contains(&format!("`baton handoffs load {id}`")), "{heard:?}");
}

#[test]
fn a_handoff_is_sealed_at_the_end_of_the_turn_even_if_the_transcript_cannot_be_read() {
    let home = Home::new(BATON);
    let client = Client::new(&home);
    client.starts("startup").silent();
    client.hook("UserPromptSubmit").silent();
    std::fs::create_dir_all(client.transcript()).unwrap();
    let mut command = home.baton(["handoff", "-"]);
    client.dress(&mut command);
    baton_testkit::hooks::send(command, b"# My own words\n").ok();
    let message = client.hook("Stop").message().unwrap();
    assert!(message.contains("is sealed; type /clear"), "{message}");
    let mut client = client;
    let heard = client.clears().context().unwrap();
    assert!(heard.contains("# My own words") || heard.contains("My own words"), "{heard}");
}

#[test]
fn the_published_files_have_the_formats_that_scripts_read_and_are_private() {
    let home = Home::new(BATON);
    let mut client = Client::new(&home);
    client.starts("startup").silent();
    let read = |name: &str| std::fs::read_to_string(home.path().join(".claude").join(name));
    let pair = format!("{}:{}\n", client.session, client.transcript().display());
    assert_eq!(read(".current-session").unwrap(), pair);
    client.answers(134_000);
    client.hook("PostToolUse");
    assert_eq!(read(".context-status").unwrap(), "CRITICAL:0.0MB\n");
    assert_eq!(std::fs::read_to_string(client.percentage_file()).unwrap(), "67");
    assert!(read(".restart-session").is_err(), "never in mid-turn");
    client.hook("Stop").message().unwrap();
    let asked = format!("{}:{}\n", client.session, home.project().display());
    assert_eq!(read(".restart-session").unwrap(), asked);
    for path in [
        home.path().join(".claude/.current-session"),
        home.path().join(".claude/.context-status"),
        client.percentage_file(),
    ] {
        let mode = std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{}", path.display());
    }
    let old = client.percentage_file();
    client.clears();
    assert!(!old.exists(), "of a session that is over nothing is told");
    assert!(read(".restart-session").is_err(), "the fresh context has come");
    client.hook("SessionEnd").silent();
    assert!(read(".current-session").is_err());
}

#[test]
fn a_link_planted_under_the_predictable_name_is_not_followed() {
    let home = Home::new(BATON);
    let client = Client::new(&home);
    let victim = home.write("victim", "precious");
    std::os::unix::fs::symlink(&victim, client.percentage_file()).unwrap();
    client.starts("startup").silent();
    client.answers(60_000);
    client.hook("PostToolUse").silent();
    client.status_line(Some(64_000));
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");
    assert!(std::fs::symlink_metadata(client.percentage_file()).unwrap().is_symlink());
    let faults = home.run("log --faults --json").ok();
    assert!(faults.contains("publish the percentage"), "{faults}");
}

/// A hard link to somebody's file, which is as long as what we write: the link is replaced, and the file stays the
/// same.
#[test]
fn a_hard_link_planted_under_the_predictable_name_is_not_written_through() {
    let home = Home::new(BATON);
    let client = Client::new(&home);
    // Hard links work only within one file system, so keep it next to the link.
    let victim = client.percentage_file().with_extension("victim");
    std::fs::write(&victim, "99").unwrap();
    std::fs::hard_link(&victim, client.percentage_file()).unwrap();
    client.starts("startup").silent();
    for tokens in [60_000, 64_000, 70_000] {
        client.answers(tokens);
        client.hook("PostToolUse").silent();
        let percentage = (tokens / 2_000).to_string();
        assert_eq!(std::fs::read_to_string(client.percentage_file()).unwrap(), percentage);
    }
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "99");
    std::fs::remove_file(victim).unwrap();
}

#[test]
fn a_critical_stop_asks_once_where_a_fresh_context_can_follow_and_never_when_a_hook_is_active() {
    let home = Home::new(BATON);
    let client = Client::new(&home);
    client.starts("startup").silent();
    // As if `baton run` owned the client: this test process poses as the supervisor.
    let path = home.state().join("agents/app.json");
    let mut agent: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let me = baton::testing::identify(std::process::id()).unwrap();
    agent["supervisor"] = json!(me);
    std::fs::write(&path, agent.to_string()).unwrap();
    client.answers(134_000);
    let active = client.hook_with("Stop", json!({ "stop_hook_active": true }));
    active.silent();
    let asked = client.hook("Stop");
    assert_eq!(asked.block(), None, "a block shows an error to the user");
    let reason = asked.context().unwrap();
    assert!(reason.contains("run `baton handoff .baton/handoff-app.md`"), "{reason}");
    let ignore = std::fs::read_to_string(home.project().join(".baton/.gitignore")).unwrap();
    assert_eq!(ignore, "*\n");
    let second = client.hook_with("Stop", json!({ "stop_hook_active": true }));
    assert_eq!(second.context(), None);
    assert!(second.message().unwrap().contains("a fresh context follows"), "{second:?}");
}
