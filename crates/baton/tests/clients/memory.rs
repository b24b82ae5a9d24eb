//! The memory of a project in Claude Code: each slash command typed, sessions that end in every way and are restored.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use baton_testkit::clients::claude::Claude;
use baton_testkit::model::{Script, shell, text};
use baton_testkit::tmux::Pane;
use baton_testkit::wait::LONG;
use rustix::process::Signal;

use super::scene::{self, Scene, signal};
use crate::BATON;

const PENDING: &str = "SESSION_BACKUP_PENDING: A previous session backup exists at ";

/// Hooks, mod and commands of an install, and a project with a memory. Automatic sealing is off, so that what the next
/// session knows comes from the memory.
fn with_memory(script: Script) -> Result<Option<Scene<Claude>>> {
    let Some(scene) = scene::claude(script)? else { return Ok(None) };
    scene.write_plugin(true)?;
    scene.configure("[handoff]\nseal = false\n")?;
    scene.baton(&["memory", "init"])?;
    Ok(Some(scene))
}

fn memory(scene: &Scene<Claude>, name: &str) -> PathBuf {
    scene.place.project().join(".claude/memory").join(name)
}

fn read(scene: &Scene<Claude>, name: &str) -> Result<String> {
    let path = memory(scene, name);
    std::fs::read_to_string(&path).with_context(|| path.display().to_string())
}

/// Types a line and waits for the answer and for the input line after it.
fn ask(scene: &Scene<Claude>, pane: &Pane<'_>, line: &str, answer: &str) -> Result<()> {
    scene.ask(pane, line, answer)?;
    scene.wait_for_input(pane)
}

fn save(to: &str) -> String {
    format!(
        "{BATON} memory save {to}- <<'BATON_END'\nGoal: MARK-ACTIVE.\n=== session document ===\n# Parser\nMARK-DOCUMENT\nBATON_END"
    )
}

/// `/document-and-save`, `/document-and-save-to`, `/sessions-list`, `/resume-from`: none of them asks for permission.
#[test]
fn a_session_is_saved_listed_and_resumed_by_typing_the_commands() -> Result<()> {
    let script = Script::new()
        .turn(text("A parser, then.").usage(20_000))
        .turn(shell(save("")).usage(21_000))
        .turn(text("Saved it.").usage(22_000))
        .turn(shell(save("--to 'notes/own.md' ")).usage(23_000))
        .turn(text("Saved it there.").usage(24_000));
    let Some(scene) = with_memory(script)? else { return Ok(()) };
    let pane = scene.start()?;
    ask(&scene, &pane, "Write the parser.", "A parser, then.")?;
    ask(&scene, &pane, "/document-and-save", "Saved it.")?;
    let asked = scene.asked();
    let told = asked[1].text();
    assert!(told.contains("No backup is pending.") && told.contains("memory save - <<'BATON_END'"), "{told}");
    assert!(asked[2].text().contains("(every session here begins with it)"), "{}", asked[2].text());
    assert!(read(&scene, "active-context.md")?.contains("MARK-ACTIVE"));
    ask(&scene, &pane, "/document-and-save-to notes/own.md", "Saved it there.")?;
    assert!(scene.asked()[3].text().contains("notes/own.md"));
    let document = std::fs::read_to_string(scene.place.project().join("notes/own.md"))?;
    assert!(document.contains("MARK-DOCUMENT") && document.contains("Write the parser."), "{document}");
    scene.exit(&pane)?;
    assert!(!memory(&scene, ".pending-backup").exists(), "everything was saved");

    // A new session has the active context from the first request on, and the documents when it asks for them.
    let name = std::fs::read_dir(memory(&scene, ""))?
        .flatten()
        .find_map(|e| e.file_name().into_string().ok().filter(|n| n.starts_with("session-")))
        .context("no session document")?;
    scene.model.push(text("Here they are.").usage(20_000));
    scene.model.push(shell(format!("{BATON} memory context --from '{name}'")).usage(21_000));
    scene.model.push(text("I know it all again.").usage(22_000));
    let pane = scene.start()?;
    ask(&scene, &pane, "/sessions-list", "Here they are.")?;
    let asked = scene.asked();
    assert!(asked[5].text().contains("MARK-ACTIVE"), "imported by CLAUDE.md: {}", asked[5].text());
    assert!(asked[5].text().contains(&name), "{}", asked[5].text());
    assert!(!asked[5].text().contains(PENDING));
    ask(&scene, &pane, &format!("/resume-from {name}"), "I know it all again.")?;
    let asked = scene.asked();
    assert!(asked[6].text().contains(&format!("PATH is: {name}")), "{}", asked[6].text());
    assert!(asked[7].text().contains("MARK-DOCUMENT"), "{}", asked[7].text());
    scene.exit(&pane)
}

/// `/exit`, then `/resume-latest`; `/clear`, then `/discard-backup`; `/create_handoff`.
#[test]
fn unsaved_work_waits_for_the_next_session() -> Result<()> {
    let update = format!("{BATON} memory context --update - <<'BATON_END'\nGoal: MARK-SUMMARY.\nBATON_END");
    let checkpoint = format!("{BATON} checkpoint --goal 'MARK-GOAL' --now 'MARK-NOW' --name release");
    let script = Script::new()
        .turn(text("Half done.").usage(20_000))
        .turn(shell(update).usage(20_000))
        .turn(text("Back in it.").usage(21_000))
        .turn(text("Fresh.").usage(20_000))
        .turn(text("It is dropped.").usage(20_000))
        .turn(shell(checkpoint).usage(20_000))
        .turn(text("Published.").usage(20_000));
    let Some(scene) = with_memory(script)? else { return Ok(()) };
    let pane = scene.start()?;
    ask(&scene, &pane, "Write the parser, never touch MARK-GRAMMAR.", "Half done.")?;
    scene.exit(&pane)?;
    scene.wait_until("the marker", || memory(&scene, ".pending-backup").exists())?;
    let raw = read(&scene, ".pending-backup")?;
    assert!(raw.trim().ends_with("_prompt_input_exit.jsonl"), "{raw}");
    let backup = std::fs::read_to_string(raw.trim())?;
    assert!(backup.contains("MARK-GRAMMAR") && backup.contains("Half done."), "{backup}");
    assert!(read(&scene, "active-context.md")?.contains("last session ended"));

    let pane = scene.start()?;
    ask(&scene, &pane, "/resume-latest", "Back in it.")?;
    let asked = scene.asked();
    let told = asked[1].text();
    assert!(told.contains(&format!("{PENDING}{}", raw.trim())), "{told}");
    assert!(told.contains("never touch MARK-GRAMMAR"), "the ledger, not the transcript: {told}");
    assert!(asked[2].text().contains("The backup is settled"), "{}", asked[2].text());
    assert!(read(&scene, "active-context.md")?.contains("MARK-SUMMARY"));
    assert!(!memory(&scene, ".pending-backup").exists());

    // The same client after /clear: a new session, which is told about the old one.
    pane.submit("/clear")?;
    scene.wait_until("the marker of the cleared session", || memory(&scene, ".pending-backup").exists())?;
    let raw = read(&scene, ".pending-backup")?;
    assert!(raw.trim().ends_with("_clear.jsonl"), "{raw}");
    scene.wait_for_input(&pane)?;
    ask(&scene, &pane, "Hello again.", "Fresh.")?;
    assert!(scene.asked()[3].text().contains(&format!("{PENDING}{}", raw.trim())));
    ask(&scene, &pane, "/discard-backup", "It is dropped.")?;
    let told = scene.asked()[4].text();
    assert!(
        told.contains("Discarded: the backup") && told.contains("The mirrored conversation stays"),
        "{told}"
    );
    assert!(!std::path::Path::new(raw.trim()).exists());
    assert!(!memory(&scene, ".pending-backup").exists());

    ask(&scene, &pane, "/create_handoff release", "Published.")?;
    let latest = scene.baton(&["checkpoint", "latest", "--name", "release"])?;
    assert!(latest.contains("MARK-GOAL") && latest.contains("MARK-NOW"), "{latest}");
    scene.exit(&pane)
}

/// SIGKILL, so no hook runs. The next start gets the facts, and the mirror restores the conversation itself.
#[test]
fn a_killed_session_is_offered_and_its_deleted_transcript_is_restored_and_resumed() -> Result<()> {
    let script = Script::new()
        .turn(shell("echo some-output").usage(20_000))
        .turn(text("Half done.").usage(20_100))
        .turn(text("I see what happened.").usage(20_000));
    let Some(scene) = with_memory(script)? else { return Ok(()) };
    let scene = scene.allow(&["Bash"]);
    let pane = scene.start()?;
    ask(&scene, &pane, "Write the parser, never touch MARK-GRAMMAR.", "Half done.")?;
    let session = scene.asked()[0].session.clone().context("a request names its session")?;
    // The client writes a command's output a little later than it shows the answer, and later than its last hook runs.
    // The mirror copies the rest when the next session finds this one dead.
    let written = |project: std::fs::DirEntry| {
        let path = project.path().join(format!("{session}.jsonl"));
        std::fs::read_to_string(path).is_ok_and(|t| t.contains("tool_result"))
    };
    scene.wait_until("the transcript", || {
        let projects = std::fs::read_dir(scene.place.home().join(".claude/projects"));
        projects.into_iter().flatten().flatten().any(written)
    })?;
    signal(u32::try_from(pane.pid()?)?, Signal::KILL)?;
    pane.wait_for_end(LONG)?;

    let pane = scene.start()?;
    ask(&scene, &pane, "Where were we?", "I see what happened.")?;
    let told = scene.asked()[2].text();
    assert!(told.contains("Type: crash") && told.contains("never touch MARK-GRAMMAR"), "{told}");
    scene.exit(&pane)?;

    let rows = scene.json(&["backup", "list", "--json"])?;
    let mirrored = |r: &&serde_json::Value| r["session"] == session.as_str();
    let row = rows.as_array().into_iter().flatten().find(mirrored).context("it was mirrored")?;
    let transcript = PathBuf::from(row["transcript"].as_str().context("a path")?);
    scene.baton(&["backup", "compress"])?;
    std::fs::remove_file(&transcript)?;
    let said = scene.baton(&["backup", "restore", &session])?;
    assert!(said.contains(&format!("claude --resume {session}")), "{said}");
    scene.model.push(text("I remember.").usage(20_000));
    let finished = scene.client.launch().args(&["--resume", &session, "-p", "--", "Go on."]).run(LONG)?;
    assert_eq!((finished.code, finished.stdout.trim()), (Some(0), "I remember."), "{finished:?}");
    let asked = scene.asked();
    let resumed = asked.last().context("it was asked")?.text();
    assert!(resumed.contains("never touch MARK-GRAMMAR") && resumed.contains("some-output"), "{resumed}");
    Ok(())
}
