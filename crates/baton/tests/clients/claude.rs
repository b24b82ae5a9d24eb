//! Claude Code.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Context as _, Result};
use baton_testkit::clients::claude::{Claude, takes_input};
use baton_testkit::model::{Script, ScriptedModel, shell, text};
use baton_testkit::pty::{Left, Pty, code};
use baton_testkit::tmux::{Ended, Tmux};
use rustix::process::{Pid, Signal, kill_process};

use super::{LONG, baton, place, under_run};

const START: Duration = Duration::from_secs(30);

/// Scenario 2: nobody types anything between the agent's own handoff and the fresh context that begins with it.
#[test]
fn an_agent_that_hands_over_under_run_continues_in_a_new_process_with_its_handoff() -> Result<()> {
    let script = Script::new()
        .turn(
            shell(
                "baton handoff - <<'END'\n# Where I am\nThe parser is half done; MARK-OF-THE-HANDOFF.\nEND\n",
            )
            .usage(670_000),
        )
        .turn(text("Handed over.").usage(670_500))
        .turn(text("I know where I was.").usage(30_000));
    let model = ScriptedModel::start(script)?;
    let place = place()?;
    let Some(claude) = Claude::new(&place, &model)? else { return Ok(()) };
    // Hooks alone, without the mod that would do it inside the client: the process is replaced.
    baton(&place, &["install", "--yes", "--settings"])?;
    let tmux = Tmux::new()?;
    let pane = tmux.run("run", &under_run(claude.allow(&["Bash"]).launch()))?;
    pane.wait_until("the input line", START, takes_input)?;
    pane.submit("Write the parser. Never change the grammar.")?;

    let asked = model.wait_for(3, LONG)?;
    let first_of_the_new = asked[2].text();
    assert_ne!(asked[2].session, asked[0].session, "the conversation was not replaced");
    assert!(first_of_the_new.contains("MARK-OF-THE-HANDOFF"), "{first_of_the_new}");
    assert!(first_of_the_new.contains("Never change the grammar."), "the user's own words are missing");
    assert!(first_of_the_new.contains("=== HANDOFF LOADED (ID: HO-"));
    assert!(first_of_the_new.contains("Continue where the loaded handoff HO-"));
    pane.wait_for("I know where I was.", LONG)?;

    pane.submit("/exit")?;
    assert_eq!(pane.wait_for_end(LONG)?, Ended::Code(0));
    let history = place.launch(crate::BATON).args(&["handoffs", "--json"]).run(LONG)?;
    assert!(history.stdout.contains("\"status\": \"consumed\""), "{}", history.stdout);
    Ok(())
}

/// Scenario 8: a headless task goes on over three contexts and prints one result.
#[test]
fn a_headless_task_goes_on_over_three_contexts_and_prints_one_result() -> Result<()> {
    let hand_over = |mark: &str| shell(format!("printf 'state {mark}' | baton handoff -")).usage(700_000);
    let script = Script::new()
        .turn(hand_over("ONE"))
        .turn(text("first context over").usage(700_100))
        .turn(hand_over("TWO"))
        .turn(text("second context over").usage(700_100))
        .turn(text("All done.").usage(30_000));
    let model = ScriptedModel::start(script)?;
    let place = place()?;
    let Some(claude) = Claude::new(&place, &model)? else { return Ok(()) };
    let launch = claude.allow(&["Bash"]).launch().args(&["-p", "--", "Do the long task."]);
    let finished = under_run(launch).run(LONG)?;
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert_eq!(finished.stdout.trim(), "All done.", "{finished:?}");
    let asked = model.main_requests();
    assert_eq!(asked.len(), 5);
    assert!(asked[2].text().contains("state ONE"), "{}", asked[2].text());
    assert!(asked[4].text().contains("state TWO"), "{}", asked[4].text());
    let mut sessions: Vec<_> = asked.iter().map(|r| r.session.clone()).collect();
    sessions.dedup();
    assert_eq!(sessions.len(), 3, "{sessions:?}");
    Ok(())
}

/// Scenario 1: installed into a fresh home; the agent hears each thing once.
#[test]
fn after_an_install_the_status_line_shows_and_the_agent_hears_each_thing_once() -> Result<()> {
    let script = Script::new()
        .turn(text("At forty.").usage(400_000))
        .turn(text("At fifty-two.").usage(520_000))
        .turn(text("At fifty-five.").usage(550_000))
        .turn(text("At sixty-seven.").usage(670_000))
        .turn(text("At seventy.").usage(700_000))
        .turn(text("At seventy-one.").usage(710_000));
    let model = ScriptedModel::start(script)?;
    let place = place()?;
    let Some(claude) = Claude::new(&place, &model)? else { return Ok(()) };
    // Without the mod, which would give the agent a fresh context in the middle of this.
    baton(&place, &["install", "--yes", "--settings"])?;
    let tmux = Tmux::new()?;
    let pane = claude.start(&tmux, "claude")?;
    let answers =
        ["At forty.", "At fifty-two.", "At fifty-five.", "At sixty-seven.", "At seventy.", "At seventy-one."];
    for answer in answers {
        pane.submit("go on")?;
        pane.wait_for(answer, LONG)?;
        pane.wait_until("the input line", LONG, takes_input)?;
    }
    pane.wait_for("71%", LONG)?;
    let asked = model.main_requests();
    let count = |n: usize, what: &str| asked[n].text().matches(what).count();
    assert_eq!([0, 1].map(|n| count(n, "[baton]")), [0, 0], "nothing is said below the first line");
    assert_eq!(
        [2, 3].map(|n| count(n, "carry on as planned")),
        [1, 1],
        "one sentence, and not again at 55 %"
    );
    assert_eq!(count(3, "run `baton handoff"), 0);
    assert_eq!([4, 5].map(|n| count(n, "run `baton handoff")), [1, 1], "one request, and not again at 70 %");
    let session = asked[0].session.clone().unwrap_or_default();
    let percentage = std::fs::read_to_string(format!("/tmp/claude-context-pct-{session}.txt"))?;
    assert_eq!(percentage, "71");
    pane.submit("/exit")?;
    pane.wait_for_end(LONG)?;
    Ok(())
}

/// Scenario 3: the model ignores everything, compaction comes, and the facts come across all the same.
#[test]
fn when_compaction_comes_anyway_the_next_request_carries_the_ledger() -> Result<()> {
    let script = Script::new()
        .turn(shell("echo 'fn main() {}' > parser.rs && echo made").usage(40_000))
        .turn(text("Made the parser.").usage(60_000))
        .turn(text("Nearly full.").usage(969_000))
        .turn(text("Going on.").usage(30_000))
        .on_compaction(text("<summary>\nA summary that forgot everything.\n</summary>"));
    let model = ScriptedModel::start(script)?;
    let place = place()?;
    let Some(claude) = Claude::new(&place, &model)? else { return Ok(()) };
    // Without the mod the client compacts as it always did.
    baton(&place, &["install", "--yes", "--settings"])?;
    let tmux = Tmux::new()?;
    let pane = claude.allow(&["Bash"]).start(&tmux, "claude")?;
    pane.submit("Write parser.rs. Never use regular expressions.")?;
    pane.wait_for("Made the parser.", LONG)?;
    pane.submit("more")?;
    pane.wait_for("Nearly full.", LONG)?;
    pane.submit("and more")?;
    pane.wait_for("Going on.", LONG)?;
    let asked = model.main_requests();
    let after = asked[asked.len() - 1].text();
    assert!(after.contains("Never use regular expressions."), "the user's words are missing: {after}");
    assert!(after.contains("=== HANDOFF LOADED (ID: HO-"), "{after}");
    assert!(baton(&place, &["handoffs", "--json"])?.contains("\"type\": \"precompact\""));
    pane.submit("/exit")?;
    pane.wait_for_end(LONG)?;
    Ok(())
}

/// Scenario 6: two clients in one project; one gets the handoff, the other starts fresh, both see the checkpoint.
#[test]
fn of_two_clients_in_one_project_one_gets_the_handoff_and_both_see_the_checkpoint() -> Result<()> {
    let model = ScriptedModel::start(Script::new().otherwise(text("Hello.").usage(30_000)))?;
    let place = place()?;
    place.git_init()?;
    let Some(claude) = Claude::new(&place, &model)? else { return Ok(()) };
    baton(&place, &["install", "--yes"])?;
    let handoff = place.write_project("handoff.md", "# State\nONLY-ONE-OF-US may have this.\n")?;
    baton(&place, &["handoffs", "seal", &handoff.display().to_string()])?;
    let tmux = Tmux::new()?;
    let one = claude.start(&tmux, "one")?;
    let two = claude.start(&tmux, "two")?;
    one.submit("who are you")?;
    one.wait_for("Hello.", LONG)?;
    two.submit("and you")?;
    two.wait_for("Hello.", LONG)?;
    let given = model.main_requests().iter().filter(|r| r.text().contains("ONLY-ONE-OF-US")).count();
    assert_eq!(given, 1);
    baton(&place, &["checkpoint", "--goal", "Release two", "--now", "write the notes"])?;
    for pane in [&one, &two] {
        // The status line is drawn again by itself after at most ten seconds.
        pane.wait_for("write the notes", LONG)?;
    }
    Ok(())
}

/// Scenario 7: a handoff of 60 KB arrives packed and whole within the client's limit, with the way to the rest.
#[test]
fn a_handoff_of_sixty_kilobytes_arrives_packed_with_the_pointer() -> Result<()> {
    let model = ScriptedModel::start(Script::new().otherwise(text("Read it.").usage(30_000)))?;
    let place = place()?;
    let Some(claude) = Claude::new(&place, &model)? else { return Ok(()) };
    baton(&place, &["install", "--yes"])?;
    let mut long = String::from("# Now\nBEGINNING-OF-IT: fix the parser.\n\n");
    for n in 0..900 {
        let _ = write!(
            long,
            "## Note {n}\nSomething that was found out on the way, number {n}, at some length.\n\n"
        );
    }
    assert!(long.len() > 50_000);
    let file = place.write_project("long.md", &long)?;
    baton(&place, &["handoffs", "seal", &file.display().to_string()])?;
    let tmux = Tmux::new()?;
    let pane = claude.start(&tmux, "claude")?;
    pane.submit("go on")?;
    pane.wait_for("Read it.", LONG)?;
    let seen = model.main_requests()[0].text();
    assert!(seen.contains("BEGINNING-OF-IT"), "{seen}");
    assert!(seen.contains("=== END HANDOFF ==="), "the end of the frame was cut off");
    assert!(seen.contains("/archive/HO-"), "the way to the whole is missing");
    assert!(!seen.contains("<persisted-output>"), "the client replaced it by a preview");
    Ok(())
}

/// The first half of scenario 5: a plain client with only hooks; `/clear` begins with what was handed over.
#[test]
fn in_a_plain_client_clear_begins_with_the_handoff_and_exit_gives_nothing_away() -> Result<()> {
    let script = Script::new()
        .turn(shell("printf 'PLAIN-STATE' | baton handoff -").usage(670_000))
        .turn(text("Handed over.").usage(671_000))
        .turn(text("I know.").usage(30_000));
    let model = ScriptedModel::start(script)?;
    let place = place()?;
    let Some(claude) = Claude::new(&place, &model)? else { return Ok(()) };
    // Hooks in the settings: the way of clients without plugin folders.
    baton(&place, &["install", "--yes", "--settings"])?;
    let tmux = Tmux::new()?;
    let pane = claude.allow(&["Bash"]).start(&tmux, "claude")?;
    pane.submit("work")?;
    pane.wait_for("type /clear to continue", LONG)?;
    pane.submit("/clear")?;
    pane.wait_for("continuing from handoff", LONG)?;
    pane.submit("what do you know?")?;
    pane.wait_for("I know.", LONG)?;
    let asked = model.main_requests();
    assert!(asked[2].text().contains("PLAIN-STATE"), "{}", asked[2].text());
    assert_ne!(asked[2].session, asked[0].session);
    pane.submit("/exit")?;
    assert_eq!(pane.wait_for_end(LONG)?, Ended::Code(0));
    assert!(baton(&place, &["handoffs", "--json"])?.contains("\"status\": \"consumed\""));
    Ok(())
}
/// How the client ended, and how it left the terminal.
fn ended_by(under: bool, signal: Option<Signal>) -> Result<Option<(i32, Left)>> {
    let model = ScriptedModel::start(Script::new())?;
    let place = place()?;
    let Some(claude) = Claude::new(&place, &model)? else { return Ok(None) };
    let launch = claude.launch();
    let launch = if under { under_run(launch) } else { launch };
    let mut pty = Pty::start(&launch.command())?;
    pty.wait_until("the input line", takes_input)?;
    // Drawn to its end: it answers keys.
    pty.send("abc")?;
    pty.wait_for("abc")?;
    let leader = i32::try_from(pty.pid())?;
    let client = if under { only_child(leader)? } else { leader };
    if let Some(signal) = signal {
        kill_process(Pid::from_raw(client).context("a client has a process")?, signal)?;
    } else {
        pty.send("\x03")?;
        pty.wait_until("an empty input line", |s| !s.contains("abc"))?;
        pty.send("/exit")?;
        pty.wait_for("/exit")?;
        pty.send("\r")?;
    }
    let status = pty.wait_for_end()?;
    let mut left = pty.left()?;
    left.text = told_alike(&left.text, &place.project().display().to_string());
    if signal == Some(Signal::KILL) {
        // What we say of a crash moves the cursor; below the input line the client is still drawing hints, and
        // above it its mascot moves.
        let (above, _) = left.text.split_once("abc").context("what was typed stays on the screen")?;
        left.text = above.replace(|c: char| ('\u{2580}'..='\u{259f}').contains(&c), " ");
        left.text = left.text.lines().map(str::trim).collect::<Vec<_>>().join("\n");
        left.modes = left.modes.split(" at ").next().unwrap_or_default().to_owned();
    }
    Ok(Some((code(status), left)))
}

/// The screen without our own lines, and without the names that differ from run to run.
fn told_alike(screen: &str, project: &str) -> String {
    let is_id = |word: &str| word.len() == 36 && word.matches('-').count() == 4;
    let place = project.trim_end_matches("/project");
    let lines = screen.lines().take_while(|line| !line.contains("baton:"));
    let lines = lines.map(|line| {
        let line = line.replace(place, "~");
        let words = line.split(' ').map(|word| if is_id(word) { "ID" } else { word });
        words.collect::<Vec<_>>().join(" ").trim_end().to_owned()
    });
    lines.collect::<Vec<_>>().join("\n").trim().to_owned()
}

fn only_child(of: i32) -> Result<i32> {
    let children = std::fs::read_to_string(format!("/proc/{of}/task/{of}/children"))?;
    Ok(children.split_whitespace().next().context("baton run has one child")?.parse()?)
}

/// Scenario 9: exit code, line settings and every mode of the screen are what the client alone leaves.
#[test]
fn the_terminal_after_each_kind_of_end_is_what_the_client_alone_leaves() -> Result<()> {
    let ends = [(None, 0), (Some(Signal::TERM), 143), (Some(Signal::HUP), 129), (Some(Signal::KILL), 137)];
    for (signal, expected) in ends {
        let Some(alone) = ended_by(false, signal)? else { return Ok(()) };
        let under = ended_by(true, signal)?.context("it was there a moment ago")?;
        assert_eq!(alone.0, expected, "the client alone, {signal:?}");
        assert_eq!(under, alone, "{signal:?}");
    }
    Ok(())
}
