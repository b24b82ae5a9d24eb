//! A live agent that moves from one machine to another and back.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use baton_testkit::clients::claude::Claude;
use baton_testkit::model::{Request, Script, text};
use baton_testkit::postgres::Postgres;
use baton_testkit::tmux::Pane;
use baton_testkit::wait::LONG;

use super::scene::{self, Client, LOADED, Scene};
use crate::BATON;

const TASK: &str = "Write the parser. Never change the grammar.";

fn git(dir: &Path, args: &[&str]) -> Result<()> {
    let identity = ["-c", "user.name=t", "-c", "user.email=t@example", "-c", "init.defaultBranch=main"];
    let ran = Command::new("git").arg("-C").arg(dir).args(identity).args(args).output()?;
    ensure!(ran.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&ran.stderr));
    Ok(())
}

/// One machine of the fleet; its daemon ends with it.
struct Machine {
    scene: Scene<Claude>,
    name: &'static str,
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.scene.baton(&["serve", "--stop"]);
    }
}

impl Machine {
    fn wait_until_connected(&self) -> Result<()> {
        self.scene.wait_until("the database", || {
            let status = self.scene.json(&["fleet", "status", "--json"]);
            status.is_ok_and(|status| status["link"]["state"] == "connected")
        })
    }

    /// Takes a clone of `remote` as the project. Whatever a client leaves there is none of git's business.
    fn clones(&self, remote: &str) -> Result<()> {
        let project = self.scene.place.project();
        git(&project, &["init", "-q"])?;
        std::fs::write(project.join(".git/info/exclude"), "*\n")?;
        git(&project, &["remote", "add", "origin", remote])?;
        git(&project, &["fetch", "-q", "origin"])?;
        git(&project, &["checkout", "-q", "-f", "-B", "main", "origin/main"])
    }

    /// Starts the agent that has arrived here with the command that its user is shown.
    fn goes_on(&self, agent: &str, handoff: &str) -> Result<Pane<'_>> {
        let prompt = self.scene.wait_for("the word to the user", || {
            let inbox = self.scene.baton(&["inbox", "--json"])?;
            let inbox: serde_json::Value = serde_json::from_str(&inbox)?;
            let texts = inbox.as_array().context("no list")?.iter().filter_map(|mail| mail["text"].as_str());
            let told = texts.filter(|text| text.contains(handoff)).find_map(|text| text.split("\n\n").nth(1));
            Ok(told.and_then(|command| baton::testing::words(command.trim()).pop()))
        })?;
        let launch = self.scene.client.launch().args(&["--", &prompt]);
        self.scene.open(&launch.under(BATON, &["run", "--name", agent, <Claude as Client>::NAME]))
    }
}

/// Moves the agent, whose last answer has these words, and waits for the end of its client here.
fn moves(from: &Machine, pane: &Pane<'_>, agent: &str, said: &str, to: &Machine) -> Result<String> {
    // The client writes its transcript a moment after it has shown the answer.
    from.scene.wait_until("the answer in the transcript", || {
        let sessions = from.scene.records("sessions");
        let transcripts = sessions.iter().filter_map(|session| session["transcript"].as_str());
        let mut texts = transcripts.filter_map(|path| std::fs::read_to_string(path).ok());
        texts.any(|text| text.contains(said))
    })?;
    from.wait_until_connected()?;
    to.wait_until_connected()?;
    let moved = from.scene.json(&["move", agent, to.name, "--json"])?;
    ensure!(moved["moved"] == true, "{moved}");
    pane.wait_for_end(LONG).with_context(|| from.scene.log())?;
    Ok(moved["handoff"].as_str().context("no handoff")?.to_owned())
}

#[track_caller]
fn assert_has(request: &Request, facts: &[&str]) {
    let text = request.text();
    for fact in facts {
        assert!(text.contains(fact), "{fact} is missing in {text}");
    }
}

#[test]
fn a_live_agent_moves_to_another_machine_and_back_with_goal_rules_and_the_open_point() -> Result<()> {
    let Some(postgres) = Postgres::start() else { return Ok(()) };
    let first = Script::new()
        .turn(text("Half of it is done. OPEN-POINT-ONE: the lexer is missing.").usage(40_000))
        .turn(text("I am at home again.").usage(20_000));
    let second = Script::new()
        .turn(text("Hello.").usage(10_000))
        .turn(text("The lexer is there. OPEN-POINT-TWO: its tests are missing.").usage(30_000));
    let (Some(laptop), Some(desk)) = (scene::claude_with_mod(first)?, scene::claude_with_mod(second)?) else {
        return Ok(());
    };
    let laptop = Machine { scene: laptop, name: "laptop" };
    let desk = Machine { scene: desk, name: "desk" };
    laptop.scene.baton(&["fleet", "init", &postgres.url()])?;
    laptop.scene.baton(&["fleet", "join", &postgres.url(), "--name", laptop.name])?;
    let said = laptop.scene.baton(&["fleet", "invite", desk.name])?;
    desk.scene.baton(&["fleet", "join", said.split('\'').nth(1).context("no code")?])?;
    let origin = tempfile::tempdir()?;
    git(origin.path(), &["init", "-q", "app"])?;
    git(&origin.path().join("app"), &["commit", "-q", "--allow-empty", "-m", "Begin"])?;
    let remote = origin.path().join("app").display().to_string();
    for machine in [&laptop, &desk] {
        machine.clones(&remote)?;
    }
    // The other machine has worked in its clone before.
    desk.scene.client.print("Hello?", LONG)?;

    let pane = laptop.scene.start_under_run()?;
    laptop.scene.ask(&pane, TASK, "OPEN-POINT-ONE")?;
    laptop.scene.wait_for_state("idle")?;
    let agent = laptop.scene.agent()?;
    let handoff = moves(&laptop, &pane, &agent, "OPEN-POINT-ONE", &desk)?;

    let pane = desk.goes_on(&agent, &handoff)?;
    desk.scene.hear(&pane, "OPEN-POINT-TWO")?;
    assert_has(&desk.scene.asked()[1], &[LOADED, TASK, "OPEN-POINT-ONE"]);
    desk.scene.wait_until("the end of its turn", || {
        let all = desk.scene.json(&["status", "--all", "--json"]);
        all.is_ok_and(|all| {
            all.as_array().is_some_and(|all| {
                all.iter().any(|one| one["agent"]["id"] == *agent && one["state"] == "idle")
            })
        })
    })?;
    let handoff = moves(&desk, &pane, &agent, "OPEN-POINT-TWO", &laptop)?;

    let pane = laptop.goes_on(&agent, &handoff)?;
    laptop.scene.hear(&pane, "I am at home again.")?;
    assert_has(&laptop.scene.asked()[1], &[LOADED, TASK, "OPEN-POINT-TWO"]);
    // Each handoff was claimed on one machine.
    let homes = postgres.sql("SELECT string_agg(home || ' ' || epoch, ',' ORDER BY at) FROM baton.homes");
    assert_eq!(homes, "desk 2,laptop 2");
    laptop.scene.exit(&pane)?;
    laptop.scene.end_terminals();
    desk.scene.end_terminals();
    Ok(())
}
