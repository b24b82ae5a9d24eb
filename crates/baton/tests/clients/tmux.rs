//! Claude Code in real tmux panes of ours: spawned, written to, handed over. But for one test the hooks are in the settings
//! and the mod is not loaded, so everything goes by keys. Codex in the same panes is in `codex_tmux`.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use baton_testkit::clients::Launch;
use baton_testkit::clients::claude::Claude;
use baton_testkit::model::{Request, Script, shell, text};
use baton_testkit::wait::{LONG, poll};
use serde_json::{Value, json};

use super::scene::{self, Client, LOADED, Scene};
use crate::BATON;

/// A client with its hooks, a tmux server for `baton spawn`, and an attendant.
pub(super) struct Panes<C> {
    pub(super) scene: Scene<C>,
    pub(super) launch: Launch,
    attendant: Option<Child>,
    /// A text that only the client's composer shows.
    composer: &'static str,
}

/// Claude Code with our hooks in its settings. Returns nothing if the client is not installed.
pub(super) fn claude(script: Script, allow: &[&str]) -> Result<Option<Panes<Claude>>> {
    let Some(scene) = scene::claude(script)? else { return Ok(None) };
    let hook = |event: &str| json!({ "type": "command", "command": BATON, "args": ["hook", event] });
    let hooks: serde_json::Map<String, Value> = baton_testkit::hooks::EVENTS
        .iter()
        .map(|event| ((*event).to_owned(), json!([{ "hooks": [hook(event)] }])))
        .collect();
    let settings = json!({ "hooks": hooks, "permissions": { "allow": allow } });
    scene.place.write_home(".claude/settings.json", settings.to_string())?;
    Panes::around(scene, "❯\u{a0}").map(Some)
}

/// Claude Code with the plugin that an install writes: hooks and mod.
fn claude_with_mod(script: Script, allow: &[&str]) -> Result<Option<Panes<Claude>>> {
    let Some(scene) = scene::claude_with_mod(script)? else { return Ok(None) };
    let settings = json!({ "permissions": { "allow": allow } });
    scene.place.write_home(".claude/settings.json", settings.to_string())?;
    Panes::around(scene, "❯\u{a0}").map(Some)
}

/// The agent writes a file and hands it over; its next context has more to say.
pub(super) fn hands_over_a_file() -> Script {
    let write = "printf '# Handoff\\n\\n## Next\\nRun the third test.\\n' > h.md; baton handoff h.md";
    Script::new()
        .turn(shell(write).usage(20_000))
        .turn(text("Handed over.").usage(21_000))
        .otherwise(text("I go on.").usage(15_000))
}

impl<C: Client> Panes<C> {
    pub(super) fn around(scene: Scene<C>, composer: &'static str) -> Result<Self> {
        let home = scene.place.home();
        let mut launch = scene.client.launch().env("TMUX_TMPDIR", home).env("BATON_PANES_ATTEND", "false");
        launch.program = BATON.into();
        launch.args.clear();
        let mut panes = Self { scene, launch, attendant: None, composer };
        panes.attend()?;
        Ok(panes)
    }

    pub(super) fn attend(&mut self) -> Result<()> {
        let mut command = self.launch.clone().args(&["panes"]).command();
        let log = std::fs::File::create(self.scene.place.home().join("attendant.err"))?;
        self.attendant = Some(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn()?);
        let socket = self.scene.state().join("run/panes.sock");
        self.wait_for("the attendant", || socket.exists().then_some(()))
    }

    /// Leaves the panes to the hooks alone.
    pub(super) fn leave_unattended(&mut self) -> Result<()> {
        let mut attendant = self.attendant.take().context("there is one")?;
        attendant.kill()?;
        attendant.wait()?;
        Ok(())
    }

    pub(super) fn baton(&self, args: &[&str]) -> Result<String> {
        let finished = self.launch.clone().args(args).run(LONG)?;
        ensure!(finished.code == Some(0), "baton {args:?}: {finished:?}");
        Ok(finished.stdout)
    }

    /// Spawns an agent and waits for its composer.
    pub(super) fn ready(&self, name: &str, args: &[&str]) -> Result<()> {
        let composer = self.composer;
        let mode: &[&str] = if C::NAME == "claude" { &["--", "--permission-mode", "default"] } else { &[] };
        self.baton(&[&["spawn", name, "--provider", C::NAME], args, mode].concat())?;
        self.wait_for("the composer", || {
            self.screen(name).ok()?.lines().any(|l| l.starts_with(composer)).then_some(())
        })?;
        self.wait_for("its session", || self.agent(name)["session"].is_string().then_some(()))
    }

    pub(super) fn agent(&self, name: &str) -> Value {
        baton_testkit::home::record(&self.scene.state().join(format!("agents/{name}.json")))
    }

    pub(super) fn turn(&self, name: &str) -> Option<String> {
        let id = self.agent(name)["session"].as_str()?.to_owned();
        Some(self.scene.session_record(&id)["turn"].as_str()?.to_owned())
    }

    pub(super) fn tmux(&self, args: &[&str]) -> Result<String> {
        let mut tmux = self.tmux_command();
        tmux.args(args);
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

    /// Waits until hooks may judge what the last prompt was given: a client may take some seconds to write it.
    pub(super) fn wait_until_written(&self, name: &str) -> Result<()> {
        let id = self.agent(name)["session"].as_str().context("a session")?.to_owned();
        let since = self.scene.session_record(&id)["turn_since"].as_str().context("a turn")?.to_owned();
        let since: jiff::Timestamp = since.parse()?;
        self.wait_for("the time to write", || {
            (jiff::Timestamp::now() > since + jiff::SignedDuration::from_secs(3)).then_some(())
        })
    }

    pub(super) fn wait_for<T>(&self, what: &str, look: impl FnMut() -> Option<T>) -> Result<T> {
        poll(LONG, look).with_context(|| {
            let panes = self.tmux(&["list-panes", "-a", "-F", "#{pane_id}"]).unwrap_or_default();
            let shown: String =
                panes.lines().filter_map(|p| self.tmux(&["capture-pane", "-p", "-t", p]).ok()).collect();
            format!("waited in vain for {what}\n{}\n{shown}", self.scene.log())
        })
    }

    /// Sends mail to an idle agent, which gets it typed as a prompt. Returns the message's id.
    pub(super) fn deliver_by_keys(&self, name: &str) -> Result<String> {
        let id = self.send(name, &["line one\nEnter\nline three;"])?;
        self.wait_for_state(name, &id, "delivered")?;
        // The hook has seen it; now wait for the request to the model.
        let said = self.wait_for("the request", || {
            self.scene.asked().into_iter().map(|r| r.last_user_text()).find(|said| said.contains(&id))
        })?;
        let typed =
            baton_testkit::home::framed(&self.scene.state(), &id, "user", "line one\nEnter\nline three;");
        ensure!(said.contains(&typed), "{said}");
        Ok(id)
    }

    /// Sends mail, which waits while a draft is in the composer. Returns the message's id.
    pub(super) fn send_beside_draft(&self, name: &str) -> Result<String> {
        self.person_types(name, "half a thought")?;
        let id = self.send(name, &["are you there?"])?;
        self.wait_for("the reason", || {
            (self.agent(name)["waits"] == "a draft is in the composer").then_some(())
        })?;
        Ok(id)
    }

    /// Waits until the agent of [`hands_over_a_file`] continues in a fresh context. Returns that context's first
    /// request.
    pub(super) fn continue_from_file(&self, name: &str) -> Result<Arc<Request>> {
        self.hear(name, "I go on.")?;
        let asked = self.scene.asked();
        let fresh = asked.last().context("no request")?;
        let file = self.scene.place.project().join("h.md");
        let wanted = format!("Read {} and continue from where you left off.", file.display());
        ensure!(fresh.last_user_text().contains(&wanted), "{}", fresh.last_user_text());
        ensure!(fresh.text().contains(LOADED) && fresh.text().contains("Run the third test."));
        self.wait_for("the end of the rotation", || self.agent(name)["rotation"].is_null().then_some(()))?;
        let agent = self.agent(name);
        ensure!(agent["sessions"].as_array().map(Vec::len) == Some(2), "{agent}");
        Ok(Arc::clone(fresh))
    }

    /// Waits for a text on an agent's screen.
    pub(super) fn hear(&self, name: &str, text: &str) -> Result<()> {
        let what = format!("{text:?} on the screen of {name}");
        self.wait_for(&what, || self.screen(name).ok()?.contains(text).then_some(()))
    }

    /// Waits for a request to the model that contains this text.
    pub(super) fn wait_for_request(&self, text: &str) -> Result<Arc<Request>> {
        let what = format!("a request with {text:?}");
        self.wait_for(&what, || self.scene.asked().into_iter().find(|r| r.text().contains(text)))
    }

    /// Waits for so many requests to the model.
    pub(super) fn wait_for_requests(&self, count: usize) -> Result<()> {
        self.wait_for(&format!("{count} requests"), || (self.scene.asked().len() >= count).then_some(()))
    }
}

impl<C> Drop for Panes<C> {
    fn drop(&mut self) {
        if let Some(mut attendant) = self.attendant.take() {
            let _ = attendant.kill();
            let _ = attendant.wait();
        }
        let tmux = |args: &[&str]| {
            let mut tmux = self.tmux_command();
            let output = tmux.args(args).output();
            output.map(|out| String::from_utf8_lossy(&out.stdout).into_owned()).unwrap_or_default()
        };
        let pids = tmux(&["list-panes", "-a", "-F", "#{pane_pid}"]);
        tmux(&["kill-server"]);
        let runs = |pid: &str| pid.parse().is_ok_and(baton_testkit::tmux::is_running);
        poll(Duration::from_secs(5), || (!pids.lines().any(runs)).then_some(()));
    }
}

impl<C> Panes<C> {
    fn tmux_command(&self) -> Command {
        let mut tmux = Command::new("tmux");
        tmux.args(["-u", "-L", "baton"]).env("TMUX_TMPDIR", self.scene.place.home()).env_remove("TMUX");
        tmux
    }
}

#[test]
fn mail_reaches_an_idle_claude_by_keys_also_out_of_copy_mode_and_is_seen_by_its_hook() -> Result<()> {
    let script = Script::new()
        .turn(text("First.").usage(20_000))
        .turn(text("Second.").usage(21_000))
        .otherwise(text("More."));
    let Some(panes) = claude(script, &[])? else { return Ok(()) };
    panes.ready("alpha", &["--prompt", "Begin."])?;
    panes.wait_for_turn("alpha", "idle")?;
    panes.wait_for_requests(1)?;
    panes.wait_for_turn("alpha", "idle")?;
    let id = panes.deliver_by_keys("alpha")?;
    assert!(
        panes.message("alpha", &id)?["evidence"].as_str().is_some_and(|e| e.starts_with("prompt of session"))
    );
    panes.wait_for_turn("alpha", "idle")?;
    panes.tmux(&["copy-mode", "-t", &panes.pane("alpha")?])?;
    let id = panes.send("alpha", &["out of copy mode"])?;
    panes.wait_for_state("alpha", &id, "delivered")?;
    let shown = || panes.scene.asked().iter().filter(|r| r.last_user_text().contains(&id)).count();
    panes.wait_for("the request", || (shown() == 1).then_some(()))?;
    Ok(())
}

#[test]
fn a_draft_in_claudes_composer_is_left_alone_by_mail() -> Result<()> {
    let script = Script::new().otherwise(text("Answer.").usage(20_000));
    let Some(panes) = claude(script, &[])? else { return Ok(()) };
    panes.ready("alpha", &[])?;
    let id = panes.send_beside_draft("alpha")?;
    assert!(panes.scene.asked().is_empty(), "something was submitted");
    panes.keys("alpha", &["Enter"])?;
    panes.wait_for_state("alpha", &id, "delivered")?;
    // With the person's prompt, or as a prompt right after it; never as one text.
    let mark = format!("[baton message {id} ");
    panes.wait_for_request(&mark)?;
    let asked = panes.scene.asked();
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
    let Some(panes) = claude(script, &["Bash"])? else { return Ok(()) };
    panes.ready("alpha", &["--prompt", "Begin."])?;
    panes.wait_for_turn("alpha", "working")?;
    panes.wait_for_requests(1)?;
    let id = panes.send("alpha", &["--important", "look at this"])?;
    panes.scene.place.write_project("go", "")?;
    panes.wait_for_state("alpha", &id, "delivered")?;
    panes.wait_for_requests(2)?;
    assert!(panes.scene.asked()[1].text().contains(&id), "at the next tool call");
    let urgent = panes.send("alpha", &["--urgent", "stop that"])?;
    panes.wait_for_state("alpha", &urgent, "delivered")?;
    panes.hear("alpha", "I heard.")?;
    let asked = panes.scene.asked();
    assert!(asked[2].last_user_text().contains(&urgent), "{}", asked[2].last_user_text());
    assert!(!panes.screen("alpha")?.contains("Rewind"));
    Ok(())
}

#[test]
fn an_open_permission_dialog_of_claude_is_not_answered_by_mail() -> Result<()> {
    let script = Script::new().turn(shell("touch made").usage(20_000)).otherwise(text("Done.").usage(21_000));
    let Some(panes) = claude(script, &[])? else { return Ok(()) };
    panes.ready("alpha", &["--prompt", "Begin."])?;
    panes.wait_for_turn("alpha", "blocked")?;
    panes.hear("alpha", "Do you want to proceed?")?;
    let id = panes.send("alpha", &["--urgent", "1\ny"])?;
    // Another agent's mail is typed after it, so this one had its chance.
    panes.ready("beta", &[])?;
    let other = panes.send("beta", &["hello"])?;
    panes.wait_for_state("beta", &other, "delivered")?;
    assert_eq!(panes.message("alpha", &id)?["state"], "queued");
    assert!(panes.screen("alpha")?.contains("Do you want to proceed?"));
    assert!(!panes.scene.place.project().join("made").exists());
    panes.keys("alpha", &["Enter"])?;
    panes.wait_for_state("alpha", &id, "delivered")?;
    Ok(())
}

/// Scenario 4: the deferred handoff in tmux, with `/clear` typed, and a draft that comes back.
#[test]
fn the_deferred_handoff_clears_claude_which_continues_from_the_file() -> Result<()> {
    let Some(panes) = claude(hands_over_a_file(), &["Bash"])? else { return Ok(()) };
    panes.ready("alpha", &["--prompt", "Write the parser."])?;
    let fresh = panes.continue_from_file("alpha")?;
    assert!(!fresh.messages().iter().any(|m| m.role == "assistant"), "the old conversation is still there");
    assert!(panes.agent("alpha")["last_handoff_path"].is_string(), "{}", panes.agent("alpha"));
    Ok(())
}

#[test]
fn a_draft_is_stashed_while_claude_is_cleared_and_comes_back() -> Result<()> {
    let script = Script::new()
        .turn(shell("echo work | baton handoff -").usage(20_000))
        .turn(text("Handed over.").usage(21_000))
        .otherwise(text("I go on.").usage(9_000));
    let Some(mut panes) = claude(script, &["Bash"])? else { return Ok(()) };
    let mut attendant = panes.attendant.take().context("there is one")?;
    attendant.kill()?;
    attendant.wait()?;
    std::fs::remove_file(panes.scene.state().join("run/panes.sock"))?;
    panes.ready("alpha", &["--prompt", "Write the parser."])?;
    panes.wait_for("the request", || panes.agent("alpha")["rotation"].is_object().then_some(()))?;
    panes.person_types("alpha", "half a thought")?;
    panes.attend()?;
    panes.hear("alpha", "I go on.")?;
    panes.hear("alpha", "❯\u{a0}half a thought")?;
    let asked = panes.scene.asked();
    assert!(asked.iter().all(|r| !r.text().contains("half a thought")), "the draft was sent");
    assert!(
        asked.last().context("no request")?.last_user_text().contains("Continue where the loaded handoff")
    );
    Ok(())
}

/// After Esc the client takes no orders of the mod before its person's next prompt, but accepts text typed into the
/// pane.
#[test]
fn after_esc_with_the_mod_mail_and_rotation_are_typed_into_claudes_pane() -> Result<()> {
    let hangs = || shell("while [ ! -e never ]; do sleep 0.1; done").usage(20_000);
    let script = Script::new().turn(hangs()).turn(hangs()).otherwise(text("I go on.").usage(9_000));
    let Some(panes) = claude_with_mod(script, &["Bash"])? else { return Ok(()) };
    let is_braked = || {
        let companions = panes.scene.records("companions");
        companions.iter().any(|companion| companion["braked"] == true).then_some(())
    };
    panes.ready("alpha", &["--prompt", "Begin."])?;
    panes.scene.companion()?;
    panes.wait_for_requests(1)?;
    panes.wait_for_turn("alpha", "working")?;
    panes.keys("alpha", &["Escape"])?;
    panes.wait_for("the brake", is_braked)?;
    let id = panes.send("alpha", &["MAIL-AFTER-ESC"])?;
    panes.wait_for_state("alpha", &id, "delivered")?;
    let evidence = panes.message("alpha", &id)?["evidence"].clone();
    assert!(evidence.as_str().is_some_and(|e| e.starts_with("prompt of session")), "{evidence}");
    panes.wait_for_requests(2)?;
    assert!(panes.scene.asked()[1].last_user_text().contains("MAIL-AFTER-ESC"));
    panes.wait_for_turn("alpha", "working")?;
    panes.keys("alpha", &["Escape"])?;
    panes.wait_for("the brake", is_braked)?;
    panes.baton(&["rotate", "alpha"])?;
    panes.hear("alpha", "I go on.")?;
    let asked = panes.scene.asked();
    let fresh = asked.last().context("no request")?;
    assert!(fresh.text().contains(LOADED), "{}", fresh.text());
    let rotations = panes.scene.records("rotations");
    assert_eq!(rotations.last().context("no rotation")?["actuator"], "tmux", "{rotations:?}");
    Ok(())
}

/// What a person types into a running turn belongs to that turn: whoever looks must not take it for a prompt whose turn
/// has yet to begin.
#[test]
fn a_prompt_typed_into_claudes_turn_does_not_begin_another_before_that_one_ends() -> Result<()> {
    let hangs = shell("while [ ! -e go ]; do sleep 0.1; done").usage(20_000);
    let script = Script::new().turn(hangs).otherwise(text("I go on.").usage(21_000));
    let Some(panes) = claude(script, &["Bash"])? else { return Ok(()) };
    panes.ready("alpha", &["--prompt", "Begin."])?;
    panes.wait_for_requests(1)?;
    panes.wait_for_turn("alpha", "working")?;
    let session = panes.agent("alpha")["session"].as_str().context("no session")?.to_owned();
    let since = |field: &str| panes.scene.session_record(&session)[field].clone();
    let began = since("turn_since");
    panes.keys("alpha", &["TYPED-MEANWHILE", "Enter"])?;
    panes.wait_for("the queued prompt", || {
        let path = panes.scene.session_record(&session)["transcript"].as_str()?.to_owned();
        std::fs::read_to_string(path).ok()?.contains("TYPED-MEANWHILE").then_some(())
    })?;
    // The client runs the hook at once, not when it takes the prompt from its queue.
    panes.wait_for("its hook", || (since("turn_since") != began).then_some(()))?;
    assert_eq!(since("at_work_since"), began, "the turn is still the first one");
    panes.scene.place.write_project("go", "")?;
    panes.wait_for_request("TYPED-MEANWHILE")?;
    panes.hear("alpha", "I go on.")
}

/// Esc takes a prompt back before its turn begins: our hook has seen it, the transcript never shows it, and nothing tells
/// of an end. Mail waited for that end for ever.
#[test]
fn mail_reaches_a_claude_whose_prompt_esc_took_back_before_its_turn_began() -> Result<()> {
    let script = Script::new().otherwise(text("Answer.").usage(20_000));
    let Some(panes) = claude(script, &[])? else { return Ok(()) };
    // A slow hook of somebody else's behind ours: the turn begins when all hooks have ended.
    let path = panes.scene.place.home().join(".claude/settings.json");
    let mut settings: Value = serde_json::from_slice(&std::fs::read(&path)?)?;
    let slow = json!({ "type": "command", "command": "while [ ! -e go ]; do sleep 0.1; done" });
    let hooks = settings["hooks"]["UserPromptSubmit"].as_array_mut().context("no hooks")?;
    hooks.push(json!({ "hooks": [slow] }));
    std::fs::write(&path, settings.to_string())?;
    panes.ready("alpha", &[])?;
    let first = panes.send("alpha", &["FIRST-MAIL"])?;
    panes.wait_for_turn("alpha", "working")?;
    panes.keys("alpha", &["Escape"])?;
    let in_composer = || {
        let screen = panes.screen("alpha").ok()?;
        screen.lines().any(|line| line.starts_with("❯\u{a0}[baton message")).then_some(())
    };
    panes.wait_for("the prompt in the composer", in_composer)?;
    assert!(panes.scene.asked().is_empty(), "no turn has begun");
    panes.scene.place.write_project("go", "")?;
    let second = panes.send("alpha", &["SECOND-MAIL"])?;
    panes.wait_for_state("alpha", &second, "delivered")?;
    panes.wait_for_request(&format!("[baton message {second} "))?;
    let asked = panes.scene.asked();
    let last = asked.last().context("no request")?.text();
    for id in [&first, &second] {
        assert_eq!(last.matches(&format!("[baton message {id} ")).count(), 1, "{id} was shown once: {last}");
    }
    Ok(())
}

/// The client drops what hooks gave with a prompt that Esc takes back, and it never reports that it is idle.
#[test]
fn mail_that_came_with_a_prompt_that_esc_took_back_reaches_claude_with_the_next_one() -> Result<()> {
    let script = Script::new().otherwise(text("Answer.").usage(20_000));
    let Some(mut panes) = claude(script, &[])? else { return Ok(()) };
    panes.leave_unattended()?;
    let path = panes.scene.place.home().join(".claude/settings.json");
    let mut settings: Value = serde_json::from_slice(&std::fs::read(&path)?)?;
    let slow = json!({ "type": "command", "command": "while [ ! -e go ]; do sleep 0.1; done" });
    let hooks = settings["hooks"]["UserPromptSubmit"].as_array_mut().context("no hooks")?;
    hooks.push(json!({ "hooks": [slow] }));
    std::fs::write(&path, settings.to_string())?;
    panes.ready("alpha", &[])?;
    // One turn first: a conversation that goes on has a transcript.
    panes.scene.place.write_project("go", "")?;
    panes.person_types("alpha", "FIRST-PROMPT")?;
    panes.keys("alpha", &["Enter"])?;
    panes.wait_for_requests(1)?;
    panes.wait_for_turn("alpha", "idle")?;
    std::fs::remove_file(panes.scene.place.project().join("go"))?;
    let id = panes.send("alpha", &["THE-MAIL"])?;
    panes.person_types("alpha", "SECOND-PROMPT")?;
    panes.keys("alpha", &["Enter"])?;
    panes.wait_for_state("alpha", &id, "delivered")?;
    panes.keys("alpha", &["Escape"])?;
    panes.wait_for("the prompt in the composer", || {
        let screen = panes.screen("alpha").ok()?;
        screen.lines().any(|line| line.starts_with("❯\u{a0}SECOND-PROMPT")).then_some(())
    })?;
    ensure!(panes.turn("alpha").as_deref() == Some("working"), "no hook has told of its end");
    let listed = panes.wait_for("the end of that turn", || {
        panes.baton(&["agents"]).ok().filter(|listed| !listed.contains("working"))
    })?;
    ensure!(listed.contains("idle"), "{listed}");
    panes.wait_for_state("alpha", &id, "queued")?;
    panes.scene.place.write_project("go", "")?;
    panes.keys("alpha", &["Enter"])?;
    panes.wait_for_requests(2)?;
    let asked = panes.scene.asked()[1].text();
    ensure!(asked.contains("SECOND-PROMPT") && asked.matches("THE-MAIL").count() == 1, "{asked}");
    panes.wait_for_state("alpha", &id, "delivered")
}

/// Where the mod submitted that prompt, the composer stays empty, and only the client's queue has noted it.
#[test]
fn mail_that_the_mod_submitted_and_esc_took_back_reaches_claude_all_the_same_and_once() -> Result<()> {
    let script = Script::new().otherwise(text("Answer.").usage(20_000));
    let Some(panes) = claude_with_mod(script, &[])? else { return Ok(()) };
    let slow = json!({ "type": "command", "command": "while [ ! -e go ]; do sleep 0.1; done" });
    let settings = json!({ "hooks": { "UserPromptSubmit": [{ "hooks": [slow] }] } });
    panes.scene.place.write_home(".claude/settings.json", settings.to_string())?;
    panes.scene.place.write_project("go", "")?;
    panes.ready("alpha", &["--prompt", "Begin."])?;
    panes.scene.companion()?;
    panes.wait_for_requests(1)?;
    panes.wait_for_turn("alpha", "idle")?;
    std::fs::remove_file(panes.scene.place.project().join("go"))?;
    let id = panes.send("alpha", &["THE-MAIL"])?;
    panes.wait_for_turn("alpha", "working")?;
    panes.keys("alpha", &["Escape"])?;
    panes.wait_for("the brake", || {
        panes.scene.records("companions").iter().any(|companion| companion["braked"] == true).then_some(())
    })?;
    ensure!(panes.scene.asked().len() == 1, "no turn has begun");
    panes.scene.place.write_project("go", "")?;
    panes.wait_for_requests(2)?;
    panes.wait_for_turn("alpha", "idle")?;
    let asked = panes.scene.asked();
    let last = asked.last().context("no request")?.text();
    ensure!(last.matches(&format!("[baton message {id} ")).count() == 1, "{last}");
    panes.wait_for_state("alpha", &id, "delivered")
}
