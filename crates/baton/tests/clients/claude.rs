//! Claude Code with hooks and status line.

use anyhow::{Context as _, Result};
use baton_testkit::clients::claude::{Claude, takes_input};
use baton_testkit::model::{Script, shell, text};
use baton_testkit::pty::{Pty, TerminalState, code};
use baton_testkit::tools;
use rustix::process::{Pid, Signal, kill_process};

use super::scene::{
    self, LOADED, assert_over_three_contexts, assert_packed, assert_went_on, hands_over, long_handoff,
    over_three_contexts, under_run,
};

/// Scenario 2: the agent hands over, and a fresh context continues without anybody typing.
#[test]
fn an_agent_that_hands_over_under_run_continues_in_a_new_process_with_its_handoff() -> Result<()> {
    let Some(scene) = scene::claude(hands_over(670_000))? else { return Ok(()) };
    // Hooks alone, without the mod that would do it inside the client, so the process is replaced.
    scene.baton(&["install", "--yes", "--settings"])?;
    let scene = scene.allow(&["Bash"]);
    let pane = scene.start_under_run()?;
    pane.submit("Write the parser. Never change the grammar.")?;

    let asked = scene.wait_for_requests(3)?;
    assert_went_on(&asked);
    assert!(asked[2].text().contains("Never change the grammar."), "the user's own words are missing");
    scene.hear(&pane, "I know where I was.")?;

    scene.exit(&pane)?;
    scene.assert_consumed();
    Ok(())
}

/// Scenario 8: a headless task continues over three contexts and prints one result.
#[test]
fn a_headless_task_continues_over_three_contexts_and_prints_one_result() -> Result<()> {
    let Some(scene) = scene::claude(over_three_contexts(700_000))? else { return Ok(()) };
    let scene = scene.allow(&["Bash"]);
    let finished = scene.run_headless(&["-p", "--", "Do the long task."])?;
    assert_over_three_contexts(&finished, &scene.asked());
    Ok(())
}

/// Scenario 1: installed into a fresh home; the agent is told each thing once.
#[test]
fn after_an_install_the_status_line_shows_and_the_agent_is_told_each_thing_once() -> Result<()> {
    let script = Script::new()
        .turn(text("At forty.").usage(400_000))
        .turn(text("At fifty-two.").usage(520_000))
        .turn(text("At fifty-five.").usage(550_000))
        .turn(text("At sixty-seven.").usage(670_000))
        .turn(text("At seventy.").usage(700_000))
        .turn(text("At seventy-one.").usage(710_000));
    let Some(scene) = scene::claude(script)? else { return Ok(()) };
    // Without the mod, which would give the agent a fresh context in the middle of this.
    scene.baton(&["install", "--yes", "--settings"])?;
    let pane = scene.start()?;
    let answers =
        ["At forty.", "At fifty-two.", "At fifty-five.", "At sixty-seven.", "At seventy.", "At seventy-one."];
    for answer in answers {
        scene.ask(&pane, "go on", answer)?;
        scene.wait_for_input(&pane)?;
    }
    scene.hear(&pane, "71%")?;
    let asked = scene.asked();
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
    scene.exit(&pane)
}

/// Scenario 3: the model ignores everything, the client compacts, and the facts still survive.
#[test]
fn when_compaction_comes_anyway_the_next_request_carries_the_ledger() -> Result<()> {
    let script = Script::new()
        .turn(shell("echo 'fn main() {}' > parser.rs && echo made").usage(40_000))
        .turn(text("Made the parser.").usage(60_000))
        .turn(text("Nearly full.").usage(969_000))
        .turn(text("Going on.").usage(30_000))
        .on_compaction(text("<summary>\nA summary that forgot everything.\n</summary>"));
    let Some(scene) = scene::claude(script)? else { return Ok(()) };
    // Without the mod the client compacts as usual.
    scene.baton(&["install", "--yes", "--settings"])?;
    let scene = scene.allow(&["Bash"]);
    let pane = scene.start()?;
    scene.ask(&pane, "Write parser.rs. Never use regular expressions.", "Made the parser.")?;
    scene.ask(&pane, "more", "Nearly full.")?;
    scene.ask(&pane, "and more", "Going on.")?;
    let asked = scene.asked();
    let after = asked[asked.len() - 1].text();
    assert!(after.contains("Never use regular expressions."), "the user's words are missing: {after}");
    assert!(after.contains(LOADED), "{after}");
    assert!(scene.baton(&["handoffs", "--json"])?.contains("\"type\": \"precompact\""));
    scene.exit(&pane)
}

/// Scenario 6: two clients in one project; one gets the handoff, the other starts fresh, both see the checkpoint.
#[test]
fn one_of_two_clients_in_a_project_gets_the_handoff_and_both_see_the_checkpoint() -> Result<()> {
    if !tools::has(&["git"]) {
        return Ok(());
    }
    let script = Script::new().otherwise(text("Hello.").usage(30_000));
    let Some(scene) = scene::claude(script)? else { return Ok(()) };
    scene.place.git_init()?;
    scene.baton(&["install", "--yes"])?;
    scene.seal("# State\nONLY-ONE-OF-US may have this.\n")?;
    let one = scene.start()?;
    let two = scene.start()?;
    scene.ask(&one, "who are you", "Hello.")?;
    scene.ask(&two, "and you", "Hello.")?;
    let given = scene.asked().iter().filter(|r| r.text().contains("ONLY-ONE-OF-US")).count();
    assert_eq!(given, 1);
    scene.baton(&["checkpoint", "--goal", "Release two", "--now", "write the notes"])?;
    for pane in [&one, &two] {
        // The status line is redrawn within ten seconds.
        scene.hear(pane, "write the notes")?;
    }
    Ok(())
}

/// Scenario 7: a handoff of 60 KB arrives packed within the client's limit, with the path of the whole text.
#[test]
fn a_handoff_of_sixty_kilobytes_arrives_packed_with_the_pointer() -> Result<()> {
    let script = Script::new().otherwise(text("Read it.").usage(30_000));
    let Some(scene) = scene::claude(script)? else { return Ok(()) };
    scene.baton(&["install", "--yes"])?;
    scene.seal(&long_handoff())?;
    let pane = scene.start()?;
    scene.ask(&pane, "go on", "Read it.")?;
    assert_packed(&scene.asked()[0]);
    Ok(())
}

/// The first half of scenario 5: a plain client with only hooks; after `/clear` it begins with the handoff.
#[test]
fn in_a_plain_client_clear_begins_with_the_handoff_and_exit_gives_nothing_away() -> Result<()> {
    let script = Script::new()
        .turn(shell("printf 'PLAIN-STATE' | baton handoff -").usage(670_000))
        .turn(text("Handed over.").usage(671_000))
        .turn(text("I know.").usage(30_000));
    let Some(scene) = scene::claude(script)? else { return Ok(()) };
    // Hooks in the settings, as for clients without plugin folders.
    scene.baton(&["install", "--yes", "--settings"])?;
    let scene = scene.allow(&["Bash"]);
    let pane = scene.start()?;
    scene.ask(&pane, "work", "type /clear to continue")?;
    scene.ask(&pane, "/clear", "continuing from handoff")?;
    scene.ask(&pane, "what do you know?", "I know.")?;
    let asked = scene.asked();
    assert!(asked[2].text().contains("PLAIN-STATE"), "{}", asked[2].text());
    assert_ne!(asked[2].session, asked[0].session);
    scene.exit(&pane)?;
    scene.assert_consumed();
    Ok(())
}

/// How the client ended, and how it left the terminal.
fn ended_by(under: bool, signal: Option<Signal>) -> Result<Option<(i32, TerminalState)>> {
    let Some(scene) = scene::claude(Script::new())? else { return Ok(None) };
    let launch = scene.client.launch();
    let launch = if under { under_run::<Claude>(launch) } else { launch };
    let mut pty = Pty::start(&launch.command())?;
    pty.wait_until("the input line", takes_input)?;
    // Once it has drawn everything, it answers keys.
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
    left.text = told_alike(&left.text, &scene.place.project().display().to_string());
    if signal == Some(Signal::KILL) {
        // Our report of a crash moves the cursor; below the input line the client is still drawing hints, and above it
        // its mascot moves.
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

/// Scenario 9: exit code, line settings and every mode of the screen are as the client alone leaves them.
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

/// `/baton:lead` reaches the agent unchanged, with the commands of this install and the task.
#[test]
fn the_lead_skill_is_typed_and_teaches_the_agent_its_commands() -> Result<()> {
    let Some(scene) = scene::claude(Script::new().turn(text("I lead.").usage(20_000)))? else {
        return Ok(());
    };
    scene.write_plugin(true)?;
    let pane = scene.start()?;
    scene.ask(&pane, "/baton:lead port the parser", "I lead.")?;
    let asked = scene.asked();
    let heard = asked.last().context("the model was asked")?.text();
    for words in
        ["You lead: others do the work", " spawn NAME --role ROLE", " wait A B --done", "port the parser"]
    {
        assert!(heard.contains(words), "{words:?} is missing in {heard}");
    }
    scene.exit(&pane)
}
