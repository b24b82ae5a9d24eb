//! The lives of mod and companion in Claude Code: background sessions, resume, reload, crashes, older clients, and who
//! takes over when they cannot.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use baton_testkit::clients::Place;
use baton_testkit::clients::claude::{Claude, takes_input};
use baton_testkit::model::{Kind, Script, ScriptedModel, shell, text, tool};
use baton_testkit::tmux::{Ended, Tmux};
use rustix::process::Signal;
use serde_json::json;

use super::companion::{
    LOADED, after_two_turns, agent, baton, companion, is_gone, log, next_companion, place, quiet, records,
    signal, two_turns, wait_until,
};
use super::{LONG, under_run};
use crate::BATON;

const MODULE: &str = ".claude/skills/baton/hooks/register.js";

/// The mod with one piece of it replaced; it must be there.
fn changed_module(place: &Place, from: &str, to: &str) -> Result<()> {
    let module = baton::companion::module(BATON);
    ensure!(module.contains(from), "the mod has no {from}");
    // As an install does it: the client reads what it finds at the first sign of a change, and half a file is none.
    let new = place.write_home(format!("{MODULE}.new"), module.replace(from, to))?;
    std::fs::rename(new, place.home().join(MODULE))?;
    Ok(())
}

/// Changes the mod until the client has taken it, and with it a companion after `old`. The client looks at it from time
/// to time; what was changed before its first look is nothing new to it.
fn take_next_module(place: &Place, old: u32) -> Result<()> {
    const LOOKS: Duration = Duration::from_secs(5);
    for version in 1..=12 {
        changed_module(place, "// baton's mod:", &format!("// baton's mod, version {version}:"))?;
        let changed = Instant::now();
        while changed.elapsed() < LOOKS {
            if records(place, "companions").iter().any(|c| c["process"]["pid"] != old) {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    bail!("the client never took the next mod: {}", log(place))
}

const CLEARS: &str = "return $.command.run({ command: 'clear' })";

/// Waits until nothing lives at this place any more.
fn wait_until_deserted(place: &Place) -> Result<()> {
    let home = format!("HOME={}", place.home().display());
    let lives = |pid: &str| {
        let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environ.split(|b| *b == 0).any(|v| v == home.as_bytes())
    };
    wait_until("the end of everything that was started", || {
        let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let names = processes.filter_map(|e| e.file_name().into_string().ok());
        !names.into_iter().any(|pid| pid.parse::<u32>().is_ok() && lives(&pid))
    })
}

/// A mod that breaks a rule of the client is not loaded, and nobody is told.
#[test]
fn the_client_finds_nothing_wrong_with_the_mod() -> Result<()> {
    let model = ScriptedModel::start(Script::new())?;
    let place = place()?;
    let Some(_claude) = Claude::new(&place, &model)? else { return Ok(()) };
    let folder = place.home().join(".claude/skills/baton");
    let validate = ["plugin", "validate", &folder.display().to_string()];
    let said = place.launch(place.bin().join("claude")).args(&validate).run(LONG)?;
    assert!(said.code == Some(0) && said.stdout.contains("session.compact"), "{said:?}");
    Ok(())
}

/// Nobody looks at it: mail starts its turns, and its compaction is answered.
#[test]
fn a_background_session_gets_its_mail_and_is_compacted_by_its_handoff() -> Result<()> {
    let script = after_two_turns()
        .turn(text("First answer.").usage(970_000))
        .turn(text("Second answer.").usage(30_000));
    let model = ScriptedModel::start(script)?;
    let place = place()?;
    let Some(claude) = Claude::new(&place, &model)? else { return Ok(()) };
    quiet(&place)?;
    let started = claude.launch().args(&["--bg", "--name", "night", "Begin."]).run(LONG)?;
    ensure!(started.code == Some(0), "{started:?}");
    let of_client = |args: &[&str]| place.launch(place.bin().join("claude")).args(args).run(LONG);
    let listed: serde_json::Value = serde_json::from_str(&of_client(&["agents", "--json"])?.stdout)?;
    let id = listed[0]["id"].as_str().with_context(|| listed.to_string())?.to_owned();
    let outcome: Result<u32> = (|| {
        let pid = companion(&place)?;
        let turn_over = |n: usize| {
            wait_until("the end of a turn", || log(&place).matches("\"event\":\"stop\"").count() == n)
                .with_context(|| log(&place))
        };
        for (n, mail) in ["More.", "Write the parser.", "PENDING-MAIL"].into_iter().enumerate() {
            turn_over(n + 1)?;
            baton(&place, &["send", &agent(&place)?, mail])?;
        }
        turn_over(4)?;
        assert_eq!(model.compactions(), 0, "{}", log(&place));
        let asked = model.main_requests();
        let last = asked.last().context("no request")?;
        let seen: Vec<String> = asked.iter().map(|r| r.last_user_text()).collect();
        assert!(last.text().contains(LOADED), "{seen:#?}\n{}", log(&place));
        assert!(last.last_user_text().contains("PENDING-MAIL"), "{seen:#?}\n{}", log(&place));
        Ok(pid)
    })();
    let stopped = of_client(&["stop", &id])?;
    let pid = outcome?;
    ensure!(stopped.code == Some(0), "{stopped:?}");
    wait_until("the end of the companion", || is_gone(pid))?;
    // The client's daemon leaves by itself, some seconds after its last session.
    wait_until_deserted(&place)
}

/// What `claude agents --json` tells of is listed by `baton adopt` under its agent's name, and adopted by the id that the
/// client shows: mail begins its turns, and a rotation gives it a fresh context, with no pane anywhere.
#[test]
fn a_background_session_is_listed_adopted_gets_mail_and_is_rotated() -> Result<()> {
    let script = Script::new()
        .turn(text("Ready.").usage(120_000))
        .turn(text("Read it.").usage(130_000))
        .turn(text("Fresh.").usage(20_000));
    let model = ScriptedModel::start(script)?;
    let place = place()?;
    let Some(claude) = Claude::new(&place, &model)? else { return Ok(()) };
    quiet(&place)?;
    let started = claude.launch().args(&["--bg", "--name", "night", "Begin."]).run(LONG)?;
    ensure!(started.code == Some(0), "{started:?}");
    let of_client = |args: &[&str]| place.launch(place.bin().join("claude")).args(args).run(LONG);
    let listed: serde_json::Value = serde_json::from_str(&of_client(&["agents", "--json"])?.stdout)?;
    let id = listed[0]["id"].as_str().with_context(|| listed.to_string())?.to_owned();
    let session = listed[0]["sessionId"].as_str().with_context(|| listed.to_string())?.to_owned();
    let outcome: Result<()> = (|| {
        companion(&place)?;
        wait_until("its first turn", || log(&place).contains("\"event\":\"stop\""))?;
        let name = agent(&place)?;
        let rows: serde_json::Value = serde_json::from_str(&baton(&place, &["adopt", "--json"])?)?;
        assert_eq!((&rows[0]["agent"], &rows[0]["kind"]), (&json!(name), &json!("background")), "{rows}");
        let agents: serde_json::Value = serde_json::from_str(&baton(&place, &["agents", "--json"])?)?;
        assert_eq!(
            (&agents[0]["agent"]["id"], &agents[0]["state"]),
            (&json!(name), &json!("idle")),
            "{agents}"
        );
        let said = baton(&place, &["adopt", &session])?;
        assert!(said.contains("needs no pane"), "{said}");
        baton(&place, &["send", &name, "MAIL-BY-NIGHT"])?;
        wait_until("the answer to its mail", || model.main_requests().len() == 2)?;
        assert!(model.main_requests()[1].last_user_text().contains("MAIL-BY-NIGHT"));
        wait_until("the end of that turn", || log(&place).matches("\"event\":\"stop\"").count() == 2)?;
        baton(&place, &["rotate", &name])?;
        wait_until("a fresh context", || model.main_requests().len() == 3).with_context(|| log(&place))?;
        assert!(model.main_requests()[2].text().contains(LOADED), "{}", log(&place));
        Ok(())
    })();
    let stopped = of_client(&["stop", &id])?;
    outcome?;
    ensure!(stopped.code == Some(0), "{stopped:?}");
    wait_until_deserted(&place)
}

/// A subagent's conversation is its own: the client sums it up as it would without us, and nothing is sealed for it.
#[test]
fn a_subagents_own_compaction_is_left_alone() -> Result<()> {
    let task = json!({ "description": "look", "prompt": "Look around.", "subagent_type": "general-purpose" });
    let script = Script::new()
        .turn(tool("Agent", task).usage(40_000))
        .turn(text("Main turn over.").usage(41_000))
        .subagent_turn(shell("echo ONE").usage(20_000))
        .subagent_turn(shell("echo TWO").usage(30_000))
        .subagent_turn(shell("echo THREE").usage(970_000))
        .on_subagent(text("Report of the subagent.").usage(30_000));
    let model = ScriptedModel::start(script)?;
    let place = place()?;
    let Some(claude) = Claude::new(&place, &model)? else { return Ok(()) };
    let claude = claude.allow(&["Bash", "Agent", "Task"]);
    let tmux = Tmux::new()?;
    let pane = claude.start(&tmux, "subagent")?;
    companion(&place)?;
    pane.submit("Ask somebody.")?;
    pane.wait_for("Main turn over.", LONG).with_context(|| log(&place))?;
    // The subagent works beside the main conversation, which need not wait for it.
    model.wait_until("the subagent's summary and its report", LONG, |seen| {
        let summary = seen.iter().position(|r| r.kind == Kind::Compaction);
        summary.is_some_and(|at| seen[at..].iter().any(|r| r.kind == Kind::Subagent))
    })?;
    let asked = model.requests();
    assert_eq!(records(&place, "rotations").len(), 0, "{}", log(&place));
    assert!(!asked.iter().any(|r| r.text().contains(LOADED)), "a handoff was given to the subagent");
    Ok(())
}

/// The same conversation in another process: one companion, and mail arrives.
#[test]
fn resumed_and_continued_sessions_have_one_companion_and_leave_none() -> Result<()> {
    let model = ScriptedModel::start(Script::new().otherwise(text("Ready.").usage(20_000)))?;
    let place = place()?;
    let Some(claude) = Claude::new(&place, &model)? else { return Ok(()) };
    let tmux = Tmux::new()?;
    let pane = claude.start(&tmux, "first")?;
    let mut before = companion(&place)?;
    pane.submit("Begin.")?;
    pane.wait_for("Ready.", LONG)?;
    let session = model.main_requests()[0].session.clone().context("no session")?;
    pane.submit("/exit")?;
    pane.wait_for_end(LONG)?;
    for (n, args) in [vec!["--continue"], vec!["--resume", &session]].into_iter().enumerate() {
        wait_until("the end of the companion", || is_gone(before))?;
        assert_eq!(records(&place, "companions").len(), 0);
        let again = claude.launch().args(&args);
        let pane = tmux.run(&format!("again{n}"), &again)?;
        pane.wait_until("the input line", LONG, takes_input)?;
        before = next_companion(&place, before)?;
        // Mail that is there before its first hook comes with that hook, and starts no turn.
        let begun = || log(&place).matches("\"event\":\"session-start\"").count() == n + 2;
        wait_until("its first hook", begun)?;
        assert_eq!(records(&place, "companions").len(), 1);
        assert_eq!(records(&place, "agents").len(), 1, "the agent is the same one");
        let asked = model.main_requests().len();
        baton(&place, &["send", &agent(&place)?, &format!("MAIL-{n}")])?;
        let all = model.wait_for(asked + 1, LONG).with_context(|| log(&place))?;
        assert!(all[asked].last_user_text().contains(&format!("MAIL-{n}")), "{}", all[asked].text());
        assert_eq!(all[asked].session.as_deref(), Some(session.as_str()));
        wait_until("its turn", || log(&place).matches("\"event\":\"stop\"").count() == n + 2)?;
        pane.submit("/exit")?;
        pane.wait_for_end(LONG)?;
    }
    wait_until("the end of the companion", || is_gone(before))?;
    assert_eq!(records(&place, "companions").len(), 0);
    Ok(())
}

/// A new version of baton is installed while clients run: the client takes the new mod by itself.
#[test]
fn after_a_hot_reload_one_companion_goes_on() -> Result<()> {
    let script = Script::new().turn(text("Ready.").usage(120_000)).turn(text("Fresh.").usage(20_000));
    let model = ScriptedModel::start(script)?;
    let place = place()?;
    let Some(claude) = Claude::new(&place, &model)? else { return Ok(()) };
    let tmux = Tmux::new()?;
    let pane = claude.start(&tmux, "reload")?;
    let old = companion(&place)?;
    pane.submit("Begin.")?;
    pane.wait_for("Ready.", LONG)?;
    take_next_module(&place, old)?;
    wait_until("the end of the old one", || is_gone(old))?;
    assert_eq!(records(&place, "companions").len(), 1);
    baton(&place, &["rotate", &agent(&place)?])?;
    pane.wait_for("Fresh.", LONG).with_context(|| log(&place))?;
    assert!(model.main_requests()[1].text().contains(LOADED));
    assert_eq!(records(&place, "rotations").len(), 1);
    Ok(())
}

/// A mod that hangs the client's worker is thrown out by the client; the hooks are still there.
#[test]
fn when_the_mod_crashes_the_hooks_carry_the_facts_over_a_compaction() -> Result<()> {
    let script = after_two_turns()
        .turn(text("First answer.").usage(970_000))
        .turn(text("Second answer.").usage(30_000));
    let model = ScriptedModel::start(script)?;
    let place = place()?;
    let Some(claude) = Claude::new(&place, &model)? else { return Ok(()) };
    quiet(&place)?;
    changed_module(&place, "let answer = await compact($, e)", "for (;;) {}\n    let answer")?;
    let tmux = Tmux::new()?;
    let pane = claude.start(&tmux, "crash")?;
    let pid = companion(&place)?;
    two_turns(&pane)?;
    pane.submit("Write the parser. Never change the grammar.")?;
    pane.wait_for("First answer.", LONG)?;
    pane.submit("PENDING-PROMPT: go on")?;
    pane.wait_for("Second answer.", LONG).with_context(|| log(&place))?;
    assert_eq!(model.compactions(), 1, "the client made its own summary");
    let next = model.main_requests()[3].text();
    assert!(next.contains(LOADED) && next.contains("Never change the grammar."), "{next}");
    wait_until("the end of the companion", || is_gone(pid))?;
    assert!(baton(&place, &["rotate", &agent(&place)?])?.contains("type /clear"));
    Ok(())
}

/// kill -9 in the middle of a rotation in place: the mod starts a companion again, which ends what was left open.
#[test]
fn a_companion_killed_in_the_middle_of_a_rotation_costs_nothing() -> Result<()> {
    let script = Script::new()
        .turn(shell("printf 'MARK-OF-THE-HANDOFF' | baton handoff -").usage(670_000))
        .turn(text("Handed over.").usage(670_500))
        .turn(text("I know where I was.").usage(30_000));
    let model = ScriptedModel::start(script)?;
    let place = place()?;
    let Some(claude) = Claude::new(&place, &model)? else { return Ok(()) };
    // The order has been given and not yet carried out: at this instant the companion dies.
    let script = "kill -9 $(grep -ho '\"pid\": *[0-9]*' \"$HOME\"/.local/state/baton/companions/*.json | head -n 1 \
                  | tr -dc 0-9); touch \"$HOME/killed\"";
    let kill = place.write_home("kill", format!("#!/bin/sh\n{script}\n"))?;
    let kills = format!("{{ await $.process.run(['/bin/sh', '{}']); {CLEARS} }}", kill.display());
    changed_module(&place, CLEARS, &kills)?;
    let tmux = Tmux::new()?;
    let claude = claude.allow(&["Bash"]);
    let pane = claude.start(&tmux, "killed")?;
    let first = companion(&place)?;
    pane.submit("Write the parser.")?;
    pane.wait_for("I know where I was.", LONG).with_context(|| log(&place))?;
    assert!(place.home().join("killed").exists() && is_gone(first), "nobody was killed");
    let asked = model.main_requests();
    assert_eq!(asked.len(), 3, "{}", log(&place));
    assert!(asked[2].text().contains("MARK-OF-THE-HANDOFF") && asked[2].text().contains(LOADED));
    let rotations = records(&place, "rotations");
    // The next companion may come before the client has obeyed: then the first try is given up in words, the second
    // clears once more, and the handoff that nobody had used goes over.
    let (last, before) = rotations.split_last().context("no rotation on record")?;
    assert_eq!(last["step"], "done", "{}", log(&place));
    assert!(before.iter().all(|r| r["step"] == "failed" && r["note"].is_string()), "{before:#?}");
    let handoffs = baton(&place, &["handoffs", "--json"])?;
    assert_eq!(handoffs.matches("\"status\": \"consumed\"").count(), 1, "{handoffs}");
    Ok(())
}

/// A mod that takes the order to clear and does nothing: `baton run` waits so long and then restarts the client.
#[test]
fn under_run_a_mod_that_is_late_is_followed_by_a_restart() -> Result<()> {
    let script = Script::new()
        .turn(shell("printf 'MARK-OF-THE-HANDOFF' | baton handoff -").usage(670_000))
        .turn(text("Handed over.").usage(670_500))
        .turn(text("I know where I was.").usage(30_000));
    let model = ScriptedModel::start(script)?;
    let place = place()?;
    let Some(claude) = Claude::new(&place, &model)? else { return Ok(()) };
    place.write_home(".config/baton/config.toml", "[run]\nin_place_wait = \"1s\"\n")?;
    changed_module(&place, CLEARS, "return new Promise(() => {})")?;
    let tmux = Tmux::new()?;
    let pane = tmux.run("late", &under_run(claude.allow(&["Bash"]).launch()))?;
    pane.wait_until("the input line", LONG, takes_input)?;
    let first = companion(&place)?;
    let before = records(&place, "agents")[0]["process"].clone();
    pane.submit("Write the parser.")?;
    pane.wait_for("I know where I was.", LONG).with_context(|| log(&place))?;
    assert_ne!(records(&place, "agents")[0]["process"], before, "the client was not restarted");
    assert!(model.main_requests()[2].text().contains("MARK-OF-THE-HANDOFF"));
    wait_until("one companion, the new client's", || {
        is_gone(first) && records(&place, "companions").len() == 1
    })?;
    // Where the restart came before the order to clear, there is no word of the mod at all.
    let rotations = records(&place, "rotations");
    let (ours, theirs): (Vec<_>, Vec<_>) = rotations.iter().partition(|r| r["actuator"] == "restart");
    assert!(ours.len() == 1 && ours[0]["step"] == "done", "{rotations:#?}");
    assert!(theirs.iter().all(|r| r["step"] == "failed" && r["note"].is_string()), "{rotations:#?}");
    Ok(())
}

#[test]
fn when_the_client_is_killed_no_companion_is_left() -> Result<()> {
    let model = ScriptedModel::start(Script::new().otherwise(text("Ready.").usage(20_000)))?;
    let place = place()?;
    let Some(claude) = Claude::new(&place, &model)? else { return Ok(()) };
    let tmux = Tmux::new()?;
    let pane = claude.start(&tmux, "client")?;
    let pid = companion(&place)?;
    pane.submit("Begin.")?;
    pane.wait_for("Ready.", LONG)?;
    signal(u32::try_from(pane.pid()?)?, Signal::KILL)?;
    wait_until("the end of the companion", || is_gone(pid))?;
    assert_eq!(records(&place, "companions").len(), 0);
    assert_eq!(pane.wait_for_end(LONG)?, Ended::Signal(9));
    wait_until_deserted(&place)
}

/// A client from before mods: no hello, and the same plugin folder works by its hooks alone.
#[test]
fn an_older_client_without_mods_falls_back_to_hooks() -> Result<()> {
    let script = Script::new()
        .turn(shell("printf 'PLAIN-STATE' | baton handoff -").usage(670_000))
        .turn(text("Handed over.").usage(671_000))
        .turn(text("I know.").usage(30_000));
    let model = ScriptedModel::start(script)?;
    let place = place()?;
    let Some(claude) = Claude::before_mods(&place, &model)? else { return Ok(()) };
    let tmux = Tmux::new()?;
    let pane = claude.allow(&["Bash"]).start(&tmux, "older")?;
    pane.submit("work")?;
    pane.wait_for("type /clear to continue", LONG).with_context(|| log(&place))?;
    assert_eq!(records(&place, "companions").len(), 0, "this client has mods after all");
    let status = baton(&place, &["status"])?;
    assert!(status.contains(" you"), "{status}");
    pane.submit("/clear")?;
    pane.wait_for("continuing from handoff", LONG)?;
    pane.submit("what do you know?")?;
    pane.wait_for("I know.", LONG)?;
    assert!(model.main_requests()[2].text().contains("PLAIN-STATE"));
    Ok(())
}

/// Removed while a client runs: the conversation goes on, whenever the client notices, and nothing is left behind.
#[test]
fn an_uninstall_beside_a_running_client_leaves_the_conversation_alone_and_nothing_behind() -> Result<()> {
    let model = ScriptedModel::start(Script::new().otherwise(text("Ready.").usage(20_000)))?;
    let place = super::place()?;
    let Some(claude) = Claude::new(&place, &model)? else { return Ok(()) };
    baton(&place, &["install", "--yes"])?;
    let tmux = Tmux::new()?;
    let pane = claude.start(&tmux, "client")?;
    let pid = companion(&place)?;
    pane.submit("Begin.")?;
    pane.wait_for("Ready.", LONG)?;
    baton(&place, &["uninstall", "--yes"])?;
    pane.submit("Go on without it.")?;
    let asked = model.wait_for(2, LONG)?;
    assert!(asked[1].last_user_text().contains("Go on without it."), "{}", asked[1].text());
    assert!(asked[1].text().contains("Begin."), "the conversation was lost");
    pane.wait_until("the input line", LONG, takes_input)?;
    pane.submit("/exit")?;
    pane.wait_for_end(LONG)?;
    wait_until("the end of the companion", || is_gone(pid))?;
    assert_eq!(records(&place, "companions").len(), 0);
    wait_until_deserted(&place)
}
