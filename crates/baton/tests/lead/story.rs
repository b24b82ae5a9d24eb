//! A day: a lead spawns three agents, two ask, one fails, one hits a limit; the lead waits, reads, reminds and retires.
//! The user's screen shows each event as it happens.

use std::fmt::Write as _;
use std::process::Command;

use baton_testkit::daemon::Served;
use baton_testkit::home::run;
use baton_testkit::wait::wait_until;

use super::wait_for_words;
use crate::BATON;
use crate::top::wide_for;
use crate::world::{World, wait_for_or};

/// The lead's day, turn by turn; each turn begins with a message.
const LEAD: &str = "\
turn
  tokens 5%
  bash ./spawn-all
  say Spawned.
turn
  tokens 6%
  bash baton what tests goal > what.txt; baton tail docs -n 3 > tail.txt; baton remind --in 2s 'retire them' > r.txt
  say Read and reminded.
turn
  tokens 7%
  bash baton wait tests docs fixer --done --timeout 300s > wait.txt
  bash for a in tests docs fixer; do baton retire $a; done > retired.txt
  bash baton done 'the release is ready' > done.txt
  say The release is ready.
";
const TESTS: &str = "\
turn
  tokens 5%
  bash baton send user --ask 'Which database?' > answer.txt
  say The tests run on the database you named.
turn
  tokens 6%
  bash baton done 'tests are green'
  say All green.
";
const DOCS: &str = "\
turn
  tokens 5%
  ask cargo publish --dry-run
  say Published dry.
turn
  tokens 6%
  fail server_error API Error: 500 out of order
turn
  tokens 6%
  bash baton done 'docs are written'
  say Written.
";
const FIXER: &str = "\
turn
  tokens 5%
  fail rate_limit Usage limit reached, resets at 23:59
turn
  tokens 6%
  bash baton done 'fixed'
  say Fixed.
";

/// Waits until the agent has said this, whatever it does now.
fn says(world: &World, name: &str, words: &str) {
    let said = || world.texts(name, "said").iter().any(|said| said == words).then_some(());
    wait_for_or(&format!("{words:?} of {name}"), || world.told(name), said);
}

/// Whether the list has a row for this agent with this mark, anywhere in the tree.
fn has_row(screen: &str, mark: char, name: &str) -> bool {
    screen.lines().any(|line| {
        let mut words = line.trim_start_matches(['│', '▶', ' ']).split_whitespace();
        words.next().is_some_and(|word| word.starts_with(mark))
            && words.find(|word| !["├", "└"].contains(word)) == Some(name)
    })
}

#[test]
fn a_lead_spawns_three_two_ask_one_fails_one_hits_a_limit_and_the_day_ends_with_none_left() {
    let Some(world) = World::unattended("turn\n") else { return };
    let bin = world.home.path().join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    std::os::unix::fs::symlink(BATON, bin.join("baton")).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let mut spawns = String::from("#!/bin/sh\nset -e\n");
    for (name, script) in [("lead", LEAD), ("tests", TESTS), ("docs", DOCS), ("fixer", FIXER)] {
        world.home.write(&format!("{name}.script"), script);
        if name != "lead" {
            let home = world.home.path().display();
            let _ = writeln!(
                spawns,
                "BATON_AGENT_SCRIPT={home}/{name}.script BATON_AGENT_SEEN={home}/seen-{name}.jsonl \
                 baton spawn {name} --provider demo --role {name} --prompt 'Your part: {name}'"
            );
        }
    }
    let script = world.home.write("work/app/spawn-all", spawns);
    Command::new("chmod").arg("+x").arg(&script).status().unwrap();
    let mut daemon = world.command(&["serve"]);
    let _served =
        Served::start(&world.home, std::mem::replace(daemon.env("PATH", &path), Command::new("true")));
    let mut screen = wide_for(&world.command(&["top"]));
    screen.wait_for("No agent is here").unwrap();
    let mut lead = super::spawn_command(&world, "lead", LEAD, &["--prompt", "Get the release ready"]);
    run(lead.env("PATH", &path)).ok();
    says(&world, "lead", "Spawned.");
    let tree = world.baton(&["agents", "--tree"]).ok();
    for name in ["├ docs (docs)", "├ fixer (fixer)", "└ tests (tests)"] {
        assert!(tree.contains(name), "{name}: {tree}");
    }

    // Two ask: one sends its user a message, one needs a permission. One is at a limit. The lead gets a notice of each.
    let mail = |name: &str, part: &str| {
        let list = world.baton(&["inbox", name, "--json"]).json();
        list.as_array().unwrap().iter().any(|m| m["text"].as_str().unwrap().contains(part))
    };
    let state = |name: &str| {
        let agents = world.baton(&["agents", "--json"]).json();
        let row = agents.as_array().unwrap().iter().find(|a| a["agent"]["id"] == name).cloned();
        row.map(|row| row["state"].as_str().unwrap().to_owned()).unwrap_or_default()
    };
    wait_until("the question", || state("tests") == "blocked" && mail("user", "Which database?"));
    wait_until("the dialog", || state("docs") == "blocked");
    wait_until("the limit", || state("fixer") == "limit");
    for row in
        ["? lead/tests", "asks: Which database?", "? lead/docs", "! lead/fixer", "limit until", "3 need you"]
    {
        screen.wait_for(row).unwrap();
    }
    for part in ["tests: asks: Which database?", "docs: asks: ", "fixer: limit until "] {
        wait_for_or(part, || world.told("lead"), || mail("lead", part).then_some(()));
    }
    // The user answers on the screen.
    screen.send("/tests\r").unwrap();
    screen.wait_for("▶ ? lead/tests").unwrap();
    screen.send("a").unwrap();
    screen.wait_for("tests asks").unwrap();
    screen.send("the staging one\r").unwrap();
    screen.wait_for("tests gets your answer").unwrap();
    screen.send("\x1b").unwrap();
    screen.wait_for("2 need you").unwrap();
    wait_for_words(&world, "tests", "The tests run on the database you named.");
    assert_eq!(
        std::fs::read_to_string(world.home.project().join("answer.txt")).unwrap(),
        "the staging one\n"
    );
    world.keys("docs", &["y"]);
    wait_for_words(&world, "docs", "Published dry.");
    screen.wait_for("1 needs you").unwrap();

    // One fails, and the lead gets the error.
    world.baton(&["send", "docs", "go on"]).ok();
    wait_for_or("the error", || world.told("docs"), || mail("lead", "API Error: 500").then_some(()));
    screen.wait_for("✕ lead/docs").unwrap();
    screen.wait_for("error: API Error: 500").unwrap();

    // The lead reads and sets itself a reminder, which wakes it for its last turn.
    says(&world, "lead", "Read and reminded.");
    let file = |name: &str| std::fs::read_to_string(world.home.project().join(name)).unwrap_or_default();
    assert!(
        !file("what.txt").is_empty() && !file("tail.txt").is_empty(),
        "{} {}",
        file("what.txt"),
        file("tail.txt")
    );
    for (name, words) in [("tests", "All green."), ("docs", "Written."), ("fixer", "Fixed.")] {
        world.baton(&["send", name, "finish"]).ok();
        if name == "fixer" {
            // For its person the limit has ended.
            world.person_types(name, "go on");
            world.keys(name, &["Enter"]);
        }
        wait_for_words(&world, name, words);
        // The last one is retired as soon as it is done, so its row may never show that.
        if name != "fixer" {
            screen.wait_until(&format!("{name} is done"), |screen| has_row(screen, '✓', name)).unwrap();
        }
    }
    says(&world, "lead", "The release is ready.");
    wait_until("the reminder", || mail("lead", "set by you] retire them"));
    assert_eq!(file("wait.txt"), "tests: done\ndocs: done\nfixer: done\n");
    assert_eq!(file("retired.txt").matches("was stopped.").count(), 3, "{}", file("retired.txt"));
    wait_until("the lead is done", || state("lead") == "done");
    screen.wait_until("the lead is done", |screen| has_row(screen, '✓', "lead")).unwrap();
    for name in ["tests", "docs", "fixer"] {
        screen.wait_until(&format!("{name} is retired"), |screen| has_row(screen, '·', name)).unwrap();
    }
    screen.wait_for("1 agent · nobody needs you").unwrap();
    screen.send("q").unwrap();
    screen.wait_for_end().unwrap();
    wait_until("the user hears of it", || mail("user", "lead is done: the release is ready"));
    for name in ["tests", "docs", "fixer"] {
        assert_eq!(state(name), "retired");
    }
    assert_eq!(world.tmux(&["list-panes", "-a"]).lines().count(), 1, "only the lead is left");
}
