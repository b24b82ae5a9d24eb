//! The memory of a project in Claude Code: each slash command typed, sessions that end in every way and come back.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use baton_testkit::clients::Place;
use baton_testkit::clients::claude::{Claude, takes_input};
use baton_testkit::model::{Script, ScriptedModel, shell, text};
use baton_testkit::tmux::{Ended, Pane, Tmux};
use rustix::process::{Pid, Signal, kill_process};

use super::LONG;
use crate::BATON;

const PENDING: &str = "SESSION_BACKUP_PENDING: A previous session backup exists at ";

/// A home with the plugin folder that an install writes, and a project with a memory. Handoffs are not sealed by
/// themselves, so that what the next session knows comes from here.
fn place() -> Result<Place> {
    let place = super::place()?;
    let program = baton::install::ours::Program::At(BATON.to_owned());
    for file in baton::install::plugin::files(&program, "0.0.0", true) {
        place.write_home(format!(".claude/skills/baton/{}", file.path), file.text)?;
    }
    place.write_home(".config/baton/config.toml", "[handoff]\nseal = false\n")?;
    super::baton(&place, &["memory", "init"])?;
    Ok(place)
}

fn memory(place: &Place, name: &str) -> PathBuf {
    place.project().join(".claude/memory").join(name)
}

fn read(place: &Place, name: &str) -> Result<String> {
    let path = memory(place, name);
    std::fs::read_to_string(&path).with_context(|| path.display().to_string())
}

fn wait_until(what: &str, holds: impl Fn() -> bool) -> Result<()> {
    let began = Instant::now();
    while !holds() {
        ensure!(began.elapsed() < LONG, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Types a line and waits for the answer and for the input line behind it.
fn says(pane: &Pane<'_>, line: &str, answer: &str) -> Result<()> {
    pane.submit(line)?;
    pane.wait_for(answer, LONG)?;
    pane.wait_until("the input line", LONG, takes_input)?;
    Ok(())
}

fn exit(pane: &Pane<'_>) -> Result<()> {
    pane.submit("/exit")?;
    ensure!(pane.wait_for_end(LONG)? == Ended::Code(0));
    Ok(())
}

fn save(to: &str) -> String {
    format!(
        "{BATON} memory save {to}- <<'BATON_END'\nGoal: MARK-ACTIVE.\n=== session document ===\n# Parser\nMARK-DOCUMENT\nBATON_END"
    )
}

/// `/document-and-save`, `/document-and-save-to`, `/sessions-list`, `/resume-from`: no permission is asked for.
#[test]
fn a_session_is_saved_listed_and_resumed_by_typing_the_commands() -> Result<()> {
    let script = Script::new()
        .turn(text("A parser, then.").usage(20_000))
        .turn(shell(save("")).usage(21_000))
        .turn(text("Saved it.").usage(22_000))
        .turn(shell(save("--to 'notes/own.md' ")).usage(23_000))
        .turn(text("Saved it there.").usage(24_000));
    let model = ScriptedModel::start(script)?;
    let place = place()?;
    let Some(claude) = Claude::new(&place, &model)? else { return Ok(()) };
    let tmux = Tmux::new()?;
    let pane = claude.start(&tmux, "first")?;
    says(&pane, "Write the parser.", "A parser, then.")?;
    says(&pane, "/document-and-save", "Saved it.")?;
    let asked = model.main_requests();
    let told = asked[1].text();
    assert!(told.contains("No backup is pending.") && told.contains("memory save - <<'BATON_END'"), "{told}");
    assert!(asked[2].text().contains("(every session here begins with it)"), "{}", asked[2].text());
    assert!(read(&place, "active-context.md")?.contains("MARK-ACTIVE"));
    says(&pane, "/document-and-save-to notes/own.md", "Saved it there.")?;
    assert!(model.main_requests()[3].text().contains("notes/own.md"));
    let document = std::fs::read_to_string(place.project().join("notes/own.md"))?;
    assert!(document.contains("MARK-DOCUMENT") && document.contains("Write the parser."), "{document}");
    exit(&pane)?;
    assert!(!memory(&place, ".pending-backup").exists(), "everything was saved");

    // A new session has the active context from the first request on, and the documents when it asks for them.
    let name = std::fs::read_dir(memory(&place, ""))?
        .flatten()
        .find_map(|e| e.file_name().into_string().ok().filter(|n| n.starts_with("session-")))
        .context("no session document")?;
    model.push(text("Here they are.").usage(20_000));
    model.push(shell(format!("{BATON} memory context --from '{name}'")).usage(21_000));
    model.push(text("I know it all again.").usage(22_000));
    let pane = claude.start(&tmux, "second")?;
    says(&pane, "/sessions-list", "Here they are.")?;
    let asked = model.main_requests();
    assert!(asked[5].text().contains("MARK-ACTIVE"), "imported by CLAUDE.md: {}", asked[5].text());
    assert!(asked[5].text().contains(&name), "{}", asked[5].text());
    assert!(!asked[5].text().contains(PENDING));
    says(&pane, &format!("/resume-from {name}"), "I know it all again.")?;
    let asked = model.main_requests();
    assert!(asked[6].text().contains(&format!("PATH is: {name}")), "{}", asked[6].text());
    assert!(asked[7].text().contains("MARK-DOCUMENT"), "{}", asked[7].text());
    exit(&pane)
}

/// `/exit`, then `/resume-latest`; `/clear`, then `/discard-backup`; `/create_handoff`.
#[test]
fn what_was_not_saved_waits_for_the_next_session() -> Result<()> {
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
    let model = ScriptedModel::start(script)?;
    let place = place()?;
    let Some(claude) = Claude::new(&place, &model)? else { return Ok(()) };
    let tmux = Tmux::new()?;
    let pane = claude.start(&tmux, "first")?;
    says(&pane, "Write the parser, never touch MARK-GRAMMAR.", "Half done.")?;
    exit(&pane)?;
    wait_until("the marker", || memory(&place, ".pending-backup").exists())?;
    let raw = read(&place, ".pending-backup")?;
    assert!(raw.trim().ends_with("_prompt_input_exit.jsonl"), "{raw}");
    let backup = std::fs::read_to_string(raw.trim())?;
    assert!(backup.contains("MARK-GRAMMAR") && backup.contains("Half done."), "{backup}");
    assert!(read(&place, "active-context.md")?.contains("last session ended"));

    let pane = claude.start(&tmux, "second")?;
    says(&pane, "/resume-latest", "Back in it.")?;
    let asked = model.main_requests();
    let told = asked[1].text();
    assert!(told.contains(&format!("{PENDING}{}", raw.trim())), "{told}");
    assert!(told.contains("never touch MARK-GRAMMAR"), "the ledger, not the transcript: {told}");
    assert!(asked[2].text().contains("The backup is settled"), "{}", asked[2].text());
    assert!(read(&place, "active-context.md")?.contains("MARK-SUMMARY"));
    assert!(!memory(&place, ".pending-backup").exists());

    // The same client after /clear: a new session, which is told of the old one.
    pane.submit("/clear")?;
    wait_until("the marker of the cleared session", || memory(&place, ".pending-backup").exists())?;
    let raw = read(&place, ".pending-backup")?;
    assert!(raw.trim().ends_with("_clear.jsonl"), "{raw}");
    pane.wait_until("the input line", LONG, takes_input)?;
    says(&pane, "Hello again.", "Fresh.")?;
    assert!(model.main_requests()[3].text().contains(&format!("{PENDING}{}", raw.trim())));
    says(&pane, "/discard-backup", "It is dropped.")?;
    let told = model.main_requests()[4].text();
    assert!(
        told.contains("Discarded: the backup") && told.contains("The mirrored conversation stays"),
        "{told}"
    );
    assert!(!std::path::Path::new(raw.trim()).exists());
    assert!(!memory(&place, ".pending-backup").exists());

    says(&pane, "/create_handoff release", "Published.")?;
    let latest = super::baton(&place, &["checkpoint", "latest", "--name", "release"])?;
    assert!(latest.contains("MARK-GOAL") && latest.contains("MARK-NOW"), "{latest}");
    exit(&pane)
}

/// SIGKILL: no hook runs. The next start gets the facts, and the conversation itself comes back from the mirror.
#[test]
fn a_killed_session_is_offered_and_its_deleted_transcript_is_restored_and_resumed() -> Result<()> {
    let script = Script::new()
        .turn(shell("echo some-output").usage(20_000))
        .turn(text("Half done.").usage(20_100))
        .turn(text("I see what happened.").usage(20_000));
    let model = ScriptedModel::start(script)?;
    let place = place()?;
    let Some(claude) = Claude::new(&place, &model)? else { return Ok(()) };
    let claude = claude.allow(&["Bash"]);
    let tmux = Tmux::new()?;
    let pane = claude.start(&tmux, "first")?;
    says(&pane, "Write the parser, never touch MARK-GRAMMAR.", "Half done.")?;
    let session = model.main_requests()[0].session.clone().context("a request names its session")?;
    // The client writes what the command printed a little later than it shows the answer, and later than its last hook
    // speaks: what the mirror lacks then is copied when the next session finds this one dead.
    let written = |project: std::fs::DirEntry| {
        let path = project.path().join(format!("{session}.jsonl"));
        std::fs::read_to_string(path).is_ok_and(|t| t.contains("tool_result"))
    };
    wait_until("the transcript", || {
        let projects = std::fs::read_dir(place.home().join(".claude/projects"));
        projects.into_iter().flatten().flatten().any(written)
    })?;
    let pid = Pid::from_raw(pane.pid()?).context("a pane has a process")?;
    kill_process(pid, Signal::KILL)?;
    pane.wait_for_end(LONG)?;

    let pane = claude.start(&tmux, "second")?;
    says(&pane, "Where were we?", "I see what happened.")?;
    let told = model.main_requests()[2].text();
    assert!(told.contains("Type: crash") && told.contains("never touch MARK-GRAMMAR"), "{told}");
    exit(&pane)?;

    let rows: Vec<serde_json::Value> =
        serde_json::from_str(&super::baton(&place, &["backup", "list", "--json"])?)?;
    let row = rows.iter().find(|r| r["session"] == session.as_str()).context("it was mirrored")?;
    let transcript = PathBuf::from(row["transcript"].as_str().context("a path")?);
    super::baton(&place, &["backup", "compress"])?;
    std::fs::remove_file(&transcript)?;
    let said = super::baton(&place, &["backup", "restore", &session])?;
    assert!(said.contains(&format!("claude --resume {session}")), "{said}");
    model.push(text("I remember.").usage(20_000));
    let finished = claude.launch().args(&["--resume", &session, "-p", "--", "Go on."]).run(LONG)?;
    assert_eq!((finished.code, finished.stdout.trim()), (Some(0), "I remember."), "{finished:?}");
    let asked = model.main_requests();
    let resumed = asked.last().context("it was asked")?.text();
    assert!(resumed.contains("never touch MARK-GRAMMAR") && resumed.contains("some-output"), "{resumed}");
    Ok(())
}
