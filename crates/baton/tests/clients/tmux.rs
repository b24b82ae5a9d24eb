//! Claude Code in real tmux panes of ours: spawned, written to, handed over. The hooks are in the settings and the mod
//! is not loaded, so everything goes by keys. Codex in the same panes is in `codex_tmux`.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use baton_testkit::clients::claude::Claude;
use baton_testkit::clients::{Launch, Place};
use baton_testkit::model::{Script, ScriptedModel, shell, text};
use serde_json::Value;

use super::LONG;
use crate::BATON;

/// A place with our hooks in the settings, a tmux server of its own and an attendant.
pub(super) struct Panes {
    pub(super) place: Place,
    pub(super) launch: Launch,
    attendant: Option<Child>,
    /// What it is called, and what only its composer shows.
    client: (&'static str, &'static str),
}

impl Panes {
    /// Nothing if the client is not installed.
    pub(super) fn new(model: &ScriptedModel, allow: &[&str]) -> Result<Option<Self>> {
        let place = super::place()?;
        let hooks: serde_json::Map<String, Value> = baton_testkit::hooks::EVENTS
            .iter()
            .map(|event| {
                let hook =
                    serde_json::json!({ "type": "command", "command": BATON, "args": ["hook", event] });
                ((*event).to_owned(), serde_json::json!([{ "hooks": [hook] }]))
            })
            .collect();
        let settings = serde_json::json!({ "hooks": hooks, "permissions": { "allow": allow } });
        place.write_home(".claude/settings.json", settings.to_string())?;
        let Some(claude) = Claude::new(&place, model)? else { return Ok(None) };
        Self::around(place, claude.launch(), ("claude", "❯\u{a0}")).map(Some)
    }

    /// The same for any client whose hooks are there.
    pub(super) fn around(place: Place, launch: Launch, client: (&'static str, &'static str)) -> Result<Self> {
        let mut launch = launch.env("TMUX_TMPDIR", place.home()).env("BATON_PANES_ATTEND", "false");
        launch.program = BATON.into();
        launch.args.clear();
        let mut panes = Self { place, launch, attendant: None, client };
        panes.attend()?;
        Ok(panes)
    }

    pub(super) fn attend(&mut self) -> Result<()> {
        let mut command = self.launch.clone().args(&["panes"]).command();
        let log = std::fs::File::create(self.place.home().join("attendant.err"))?;
        self.attendant = Some(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn()?);
        let socket = self.state().join("run/panes.sock");
        self.wait_for("the attendant", || socket.exists().then_some(()))
    }

    pub(super) fn state(&self) -> PathBuf {
        self.place.home().join(".local/state/baton")
    }

    pub(super) fn baton(&self, args: &[&str]) -> Result<String> {
        let finished = self.launch.clone().args(args).run(LONG)?;
        ensure!(finished.code == Some(0), "baton {args:?}: {finished:?}");
        Ok(finished.stdout)
    }

    /// Spawned, and its composer is there.
    pub(super) fn ready(&self, name: &str, args: &[&str]) -> Result<()> {
        let (client, composer) = self.client;
        let mode: &[&str] = if client == "claude" { &["--", "--permission-mode", "default"] } else { &[] };
        self.baton(&[&["spawn", name, "--provider", client], args, mode].concat())?;
        self.wait_for("the composer", || {
            self.screen(name).ok()?.lines().any(|l| l.starts_with(composer)).then_some(())
        })?;
        self.wait_for("its session", || self.agent(name)["session"].is_string().then_some(()))
    }

    pub(super) fn agent(&self, name: &str) -> Value {
        let bytes = std::fs::read(self.state().join(format!("agents/{name}.json"))).unwrap_or_default();
        serde_json::from_slice(&bytes).unwrap_or_default()
    }

    pub(super) fn turn(&self, name: &str) -> Option<String> {
        let id = self.agent(name)["session"].as_str()?.to_owned();
        let session = baton_testkit::home::record(&self.state().join(format!("sessions/{id}.json")));
        Some(session["turn"].as_str()?.to_owned())
    }

    pub(super) fn tmux(&self, args: &[&str]) -> Result<String> {
        let mut tmux = Command::new("tmux");
        tmux.args(["-u", "-L", "baton"]).args(args).env("TMUX_TMPDIR", self.place.home()).env_remove("TMUX");
        let output = tmux.output()?;
        ensure!(output.status.success(), "tmux {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
    }

    pub(super) fn pane(&self, name: &str) -> Result<String> {
        Ok(self.agent(name)["pane"]["id"].as_str().context("no pane")?.to_owned())
    }

    pub(super) fn screen(&self, name: &str) -> Result<String> {
        self.tmux(&["capture-pane", "-p", "-t", &self.pane(name)?])
    }

    pub(super) fn keys(&self, name: &str, keys: &[&str]) -> Result<()> {
        let pane = self.pane(name)?;
        self.tmux(&[&["send-keys", "-t", &pane], keys].concat()).map(drop)
    }

    pub(super) fn person_types(&self, name: &str, text: &str) -> Result<()> {
        let pane = self.pane(name)?;
        self.tmux(&["send-keys", "-t", &pane, "-l", "--", text])?;
        self.wait_for("the letters", || self.screen(name).ok()?.contains(text).then_some(()))
    }

    pub(super) fn send(&self, name: &str, args: &[&str]) -> Result<String> {
        let told: Value = serde_json::from_str(&self.baton(&[&["send", name, "--json"], args].concat())?)?;
        Ok(told["id"].as_str().context("no id")?.to_owned())
    }

    pub(super) fn message(&self, name: &str, id: &str) -> Result<Value> {
        let inbox: Value = serde_json::from_str(&self.baton(&["inbox", name, "--json"])?)?;
        let found = inbox.as_array().into_iter().flatten().find(|m| m["id"] == id).cloned();
        found.with_context(|| format!("{id} is not in {inbox}"))
    }

    pub(super) fn wait_for_state(&self, name: &str, id: &str, state: &str) -> Result<()> {
        self.wait_for(&format!("{id} to be {state}"), || {
            (self.message(name, id).ok()?["state"] == state).then_some(())
        })
    }

    pub(super) fn wait_for_turn(&self, name: &str, turn: &str) -> Result<()> {
        self.wait_for(&format!("{name} to be {turn}"), || (self.turn(name)? == turn).then_some(()))
    }

    pub(super) fn wait_for<T>(&self, what: &str, mut look: impl FnMut() -> Option<T>) -> Result<T> {
        let end = Instant::now() + LONG;
        loop {
            if let Some(found) = look() {
                return Ok(found);
            }
            if Instant::now() > end {
                let log = self.baton(&["log", "--json", "-n", "30"]).unwrap_or_default();
                let screens = self.tmux(&["list-panes", "-a", "-F", "#{pane_id}"]).unwrap_or_default();
                let shown: String = screens
                    .lines()
                    .filter_map(|p| self.tmux(&["capture-pane", "-p", "-t", p]).ok())
                    .collect();
                anyhow::bail!("waited in vain for {what}\n{log}\n{shown}");
            }
            std::thread::sleep(Duration::from_millis(30));
        }
    }
}

impl Drop for Panes {
    fn drop(&mut self) {
        if let Some(mut attendant) = self.attendant.take() {
            let _ = attendant.kill();
            let _ = attendant.wait();
        }
        let pids = self.tmux(&["list-panes", "-a", "-F", "#{pane_pid}"]).unwrap_or_default();
        let _ = self.tmux(&["kill-server"]);
        let end = Instant::now() + Duration::from_secs(5);
        let runs = |pid: &str| pid.parse().is_ok_and(baton_testkit::tmux::is_running);
        while pids.lines().any(runs) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn mail_reaches_an_idle_claude_by_keys_also_out_of_copy_mode_and_is_seen_by_its_hook() -> Result<()> {
    let script = Script::new()
        .turn(text("First.").usage(20_000))
        .turn(text("Second.").usage(21_000))
        .otherwise(text("More."));
    let model = ScriptedModel::start(script)?;
    let Some(panes) = Panes::new(&model, &[])? else { return Ok(()) };
    panes.ready("alpha", &["--prompt", "Begin."])?;
    panes.wait_for_turn("alpha", "idle")?;
    panes.wait_for("the first answer", || (!model.main_requests().is_empty()).then_some(()))?;
    panes.wait_for_turn("alpha", "idle")?;
    let id = panes.send("alpha", &["--from", "boss", "line one\nEnter\nline three;"])?;
    panes.wait_for_state("alpha", &id, "delivered")?;
    // The hook has seen it; the request to the model follows.
    let said = panes.wait_for("the request", || {
        model.main_requests().into_iter().map(|r| r.last_user_text()).find(|said| said.contains(&id))
    })?;
    assert!(
        said.contains(&format!("[baton message {id} from boss]\nline one\nEnter\nline three;")),
        "{said}"
    );
    assert!(
        panes.message("alpha", &id)?["evidence"].as_str().is_some_and(|e| e.starts_with("prompt of session"))
    );
    panes.wait_for_turn("alpha", "idle")?;
    panes.tmux(&["copy-mode", "-t", &panes.pane("alpha")?])?;
    let id = panes.send("alpha", &["out of copy mode"])?;
    panes.wait_for_state("alpha", &id, "delivered")?;
    let shown = || model.main_requests().iter().filter(|r| r.last_user_text().contains(&id)).count();
    panes.wait_for("the request", || (shown() == 1).then_some(()))?;
    Ok(())
}

#[test]
fn a_draft_in_claudes_composer_is_left_alone_by_mail() -> Result<()> {
    let model = ScriptedModel::start(Script::new().otherwise(text("Answer.").usage(20_000)))?;
    let Some(panes) = Panes::new(&model, &[])? else { return Ok(()) };
    panes.ready("alpha", &[])?;
    panes.person_types("alpha", "half a thought")?;
    let id = panes.send("alpha", &["are you there?"])?;
    panes.wait_for("the reason", || {
        (panes.agent("alpha")["waits"] == "a draft is in the composer").then_some(())
    })?;
    assert!(model.main_requests().is_empty(), "something was submitted");
    panes.keys("alpha", &["Enter"])?;
    panes.wait_for_state("alpha", &id, "delivered")?;
    // With the person's prompt, or as a prompt of its own right behind it; never as one text.
    let mark = format!("[baton message {id} ");
    panes.wait_for("the request", || model.main_requests().last()?.text().contains(&mark).then_some(()))?;
    let asked = model.main_requests();
    assert!(asked[0].last_user_text().contains("half a thought"), "{}", asked[0].last_user_text());
    assert!(asked.iter().all(|r| !r.text().contains("half a thought[baton")), "they were glued together");
    let last = asked.last().context("no request")?.text();
    assert_eq!(last.matches(&mark).count(), 1, "it was shown once");
    Ok(())
}

#[test]
fn a_busy_claude_reads_mail_at_its_next_tool_call_and_an_urgent_one_interrupts() -> Result<()> {
    let script = Script::new()
        .turn(shell("while [ ! -e go ]; do sleep 0.1; done").usage(20_000))
        .turn(shell("true; while [ ! -e never ]; do sleep 0.1; done").usage(21_000))
        .turn(text("I heard.").usage(22_000))
        .otherwise(text("More."));
    let model = ScriptedModel::start(script)?;
    let Some(panes) = Panes::new(&model, &["Bash"])? else { return Ok(()) };
    panes.ready("alpha", &["--prompt", "Begin."])?;
    panes.wait_for_turn("alpha", "working")?;
    panes.wait_for("the tool", || (!model.main_requests().is_empty()).then_some(()))?;
    let id = panes.send("alpha", &["look at this"])?;
    panes.place.write_project("go", "")?;
    panes.wait_for_state("alpha", &id, "delivered")?;
    panes.wait_for("the next request", || (model.main_requests().len() >= 2).then_some(()))?;
    assert!(model.main_requests()[1].text().contains(&id), "at the next tool call");
    let urgent = panes.send("alpha", &["--urgent", "stop that"])?;
    panes.wait_for_state("alpha", &urgent, "delivered")?;
    panes.wait_for("the answer", || panes.screen("alpha").ok()?.contains("I heard.").then_some(()))?;
    let asked = model.main_requests();
    assert!(asked[2].last_user_text().contains(&urgent), "{}", asked[2].last_user_text());
    assert!(!panes.screen("alpha")?.contains("Rewind"));
    Ok(())
}

#[test]
fn an_open_permission_dialog_of_claude_is_not_answered_by_mail() -> Result<()> {
    let script = Script::new().turn(shell("touch made").usage(20_000)).otherwise(text("Done.").usage(21_000));
    let model = ScriptedModel::start(script)?;
    let Some(panes) = Panes::new(&model, &[])? else { return Ok(()) };
    panes.ready("alpha", &["--prompt", "Begin."])?;
    panes.wait_for_turn("alpha", "blocked")?;
    panes.wait_for("the dialog", || {
        panes.screen("alpha").ok()?.contains("Do you want to proceed?").then_some(())
    })?;
    let id = panes.send("alpha", &["--urgent", "1\ny"])?;
    // Another agent's mail is typed after it, so this one's had its chance.
    panes.ready("beta", &[])?;
    let other = panes.send("beta", &["hello"])?;
    panes.wait_for_state("beta", &other, "delivered")?;
    assert_eq!(panes.message("alpha", &id)?["state"], "queued");
    assert!(panes.screen("alpha")?.contains("Do you want to proceed?"));
    assert!(!panes.place.project().join("made").exists());
    panes.keys("alpha", &["Enter"])?;
    panes.wait_for_state("alpha", &id, "delivered")?;
    Ok(())
}

/// Scenario 4: the deferred handoff in tmux, with `/clear` typed, and a draft that comes back.
#[test]
fn the_deferred_handoff_clears_claude_and_goes_on_from_the_file() -> Result<()> {
    let script = Script::new()
        .turn(
            shell("printf '# Handoff\\n\\n## Next\\nRun the third test.\\n' > h.md; baton handoff h.md")
                .usage(20_000),
        )
        .turn(text("Handed over.").usage(21_000))
        .otherwise(text("I go on.").usage(9_000));
    let model = ScriptedModel::start(script)?;
    let Some(panes) = Panes::new(&model, &["Bash"])? else { return Ok(()) };
    panes.ready("alpha", &["--prompt", "Write the parser."])?;
    let old = panes.agent("alpha")["session"].clone();
    panes.wait_for("the fresh context", || panes.screen("alpha").ok()?.contains("I go on.").then_some(()))?;
    let asked = model.main_requests();
    let fresh = asked.last().context("no request")?;
    let file = panes.place.project().join("h.md");
    assert!(
        fresh
            .last_user_text()
            .contains(&format!("Read {} and continue from where you left off.", file.display())),
        "{}",
        fresh.last_user_text()
    );
    assert!(fresh.text().contains("=== HANDOFF LOADED") && fresh.text().contains("Run the third test."));
    assert!(!fresh.messages().iter().any(|m| m.role == "assistant"), "the old conversation is still there");
    let agent = panes.agent("alpha");
    assert_ne!(agent["session"], old);
    assert_eq!(agent["sessions"].as_array().map(Vec::len), Some(2));
    assert!(agent["rotation"].is_null() && agent["last_handoff_path"].is_string(), "{agent}");
    Ok(())
}

#[test]
fn a_draft_is_stashed_while_claude_is_cleared_and_comes_back() -> Result<()> {
    let script = Script::new()
        .turn(shell("echo work | baton handoff -").usage(20_000))
        .turn(text("Handed over.").usage(21_000))
        .otherwise(text("I go on.").usage(9_000));
    let model = ScriptedModel::start(script)?;
    let Some(mut panes) = Panes::new(&model, &["Bash"])? else { return Ok(()) };
    let mut attendant = panes.attendant.take().context("there is one")?;
    attendant.kill()?;
    attendant.wait()?;
    std::fs::remove_file(panes.state().join("run/panes.sock"))?;
    panes.ready("alpha", &["--prompt", "Write the parser."])?;
    panes.wait_for("the request", || panes.agent("alpha")["rotation"].is_object().then_some(()))?;
    panes.person_types("alpha", "half a thought")?;
    panes.attend()?;
    panes.wait_for("the fresh context", || panes.screen("alpha").ok()?.contains("I go on.").then_some(()))?;
    panes.wait_for("the draft", || {
        panes.screen("alpha").ok()?.contains("❯\u{a0}half a thought").then_some(())
    })?;
    let asked = model.main_requests();
    assert!(asked.iter().all(|r| !r.text().contains("half a thought")), "the draft was sent");
    assert!(
        asked.last().context("no request")?.last_user_text().contains("Continue where the loaded handoff")
    );
    Ok(())
}
