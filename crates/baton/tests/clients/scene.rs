//! What the scenarios share: a client in its own home, on a scripted model, in our terminals, and the files that baton
//! leaves there.

use std::cell::Cell;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use baton::testing::install::{ours::HookProgram, plugin};
use baton_testkit::clients::claude::{self, Claude};
use baton_testkit::clients::codex::{self, Codex};
use baton_testkit::clients::{ClientHome, Finished, Launch};
use baton_testkit::home;
use baton_testkit::model::{Request, Script, ScriptedModel, shell, text};
use baton_testkit::tmux::{Ended, Pane, Tmux};
use baton_testkit::wait::{LONG, poll};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::BATON;

/// The beginning of a loaded handoff.
pub(super) const LOADED: &str = "=== HANDOFF LOADED (ID: HO-";

/// Keeps baton from asking a full agent for a handoff: whether the client has written the last figures when its turn
/// ends depends on timing, and a turn that continues would compact before the prompt under test.
pub(super) const QUIET: &str = "[context]\nenabled = false\n";

/// A client that a scene can use.
pub(super) trait Client: Sized {
    /// Its name in baton's commands.
    const NAME: &'static str;
    /// What a person types to leave it.
    const EXIT: &'static str;
    /// Returns nothing if it is not installed.
    fn settle(place: &ClientHome, model: &ScriptedModel) -> Result<Option<Self>>;
    fn launch(&self) -> Launch;
    /// Starts it in a terminal and waits until it accepts input.
    fn start<'a>(&self, tmux: &'a Tmux, name: &str) -> Result<Pane<'a>>;
    fn takes_input(screen: &str) -> bool;
}

impl Client for Claude {
    const NAME: &'static str = "claude";
    const EXIT: &'static str = "/exit";

    fn settle(place: &ClientHome, model: &ScriptedModel) -> Result<Option<Self>> {
        Claude::new(place, model)
    }

    fn launch(&self) -> Launch {
        Claude::launch(self)
    }

    fn start<'a>(&self, tmux: &'a Tmux, name: &str) -> Result<Pane<'a>> {
        Claude::start(self, tmux, name)
    }

    fn takes_input(screen: &str) -> bool {
        claude::takes_input(screen)
    }
}

impl Client for Codex {
    const NAME: &'static str = "codex";
    const EXIT: &'static str = "/quit";

    fn settle(place: &ClientHome, model: &ScriptedModel) -> Result<Option<Self>> {
        Codex::new(place, model)
    }

    fn launch(&self) -> Launch {
        Codex::launch(self)
    }

    fn start<'a>(&self, tmux: &'a Tmux, name: &str) -> Result<Pane<'a>> {
        Codex::start(self, tmux, name)
    }

    fn takes_input(screen: &str) -> bool {
        codex::takes_input(screen)
    }
}

/// A client, its model and its home.
pub(super) struct Scene<C> {
    /// First, so that the client ends before its model and its home are dropped.
    tmux: Tmux,
    /// How many terminals there are so far; each has its own name.
    terminals: Cell<usize>,
    pub(super) client: C,
    pub(super) place: ClientHome,
    pub(super) model: ScriptedModel,
}

/// Claude Code with baton on its `PATH` and nothing installed. Returns nothing if the client or tmux is missing.
pub(super) fn claude(script: Script) -> Result<Option<Scene<Claude>>> {
    Scene::new(script, Claude::settle)
}

/// Claude Code with the plugin folder that an install writes: hooks and mod.
pub(super) fn claude_with_mod(script: Script) -> Result<Option<Scene<Claude>>> {
    let Some(scene) = claude(script)? else { return Ok(None) };
    scene.write_plugin(false)?;
    Ok(Some(scene))
}

/// Claude Code from before mods, with the same plugin folder.
pub(super) fn claude_before_mods(script: Script) -> Result<Option<Scene<Claude>>> {
    let Some(scene) = Scene::new(script, Claude::before_mods)? else { return Ok(None) };
    scene.write_plugin(false)?;
    Ok(Some(scene))
}

/// Codex with baton on its `PATH` and nothing installed. Returns nothing if the client or tmux is missing.
pub(super) fn codex(script: Script) -> Result<Option<Scene<Codex>>> {
    Scene::new(script, Codex::settle)
}

/// Codex with baton's hooks, explicitly trusted.
pub(super) fn codex_with_hooks(script: Script) -> Result<Option<Scene<Codex>>> {
    let Some(scene) = codex(script)? else { return Ok(None) };
    scene.baton(&["install", "--provider", "codex", "--trust", "--yes"])?;
    // Its tools run in a login shell, which finds `baton` where the user's profile says.
    let profile = format!("export PATH=\"{}:$PATH\"\n", scene.place.bin().display());
    scene.place.write_home(".bash_profile", profile)?;
    Ok(Some(scene))
}

impl<C: Client> Scene<C> {
    fn new(
        script: Script,
        settle: impl FnOnce(&ClientHome, &ScriptedModel) -> Result<Option<C>>,
    ) -> Result<Option<Self>> {
        let place = ClientHome::new()?;
        place.link("baton", BATON.as_ref())?;
        let model = ScriptedModel::start(script)?;
        let Some(client) = settle(&place, &model)? else { return Ok(None) };
        let Some(tmux) = Tmux::installed()? else { return Ok(None) };
        Ok(Some(Self { tmux, terminals: Cell::new(0), client, place, model }))
    }

    /// Writes the configuration of this home.
    pub(super) fn configure(&self, toml: &str) -> Result<()> {
        self.place.write_home(".config/baton/config.toml", toml).map(drop)
    }

    /// Runs `baton` itself in the same home.
    pub(super) fn baton(&self, args: &[&str]) -> Result<String> {
        let finished = self.place.launch(BATON).args(args).run(LONG)?;
        ensure!(finished.code == Some(0), "baton {}: {finished:?}", args.join(" "));
        Ok(finished.stdout)
    }

    /// Runs a baton command and parses its JSON.
    pub(super) fn json(&self, args: &[&str]) -> Result<Value> {
        serde_json::from_str(&self.baton(args)?).with_context(|| format!("baton {}", args.join(" ")))
    }

    /// Starts the client in another terminal and waits until it accepts input.
    pub(super) fn start(&self) -> Result<Pane<'_>> {
        self.client.start(&self.tmux, &self.next_name())
    }

    /// Starts the client in a terminal under `baton run` and waits until it accepts input.
    pub(super) fn start_under_run(&self) -> Result<Pane<'_>> {
        self.start_as(&under_run::<C>(self.client.launch()))
    }

    /// Starts this launch of the client in a terminal and waits until it accepts input.
    pub(super) fn start_as(&self, launch: &Launch) -> Result<Pane<'_>> {
        let pane = self.open(launch)?;
        pane.wait_until("the input line", LONG, C::takes_input)?;
        Ok(pane)
    }

    /// Starts a launch in a terminal.
    pub(super) fn open(&self, launch: &Launch) -> Result<Pane<'_>> {
        self.tmux.run(&self.next_name(), launch)
    }

    fn next_name(&self) -> String {
        self.terminals.set(self.terminals.get() + 1);
        format!("terminal-{}", self.terminals.get())
    }

    /// Ends everything in our terminals.
    pub(super) fn end_terminals(&self) {
        self.tmux.end();
    }

    /// Runs the client without a terminal under `baton run`.
    pub(super) fn run_headless(&self, args: &[&str]) -> Result<Finished> {
        under_run::<C>(self.client.launch().args(args)).run(LONG)
    }

    /// Types a line and waits for the answer on the screen.
    pub(super) fn ask(&self, pane: &Pane<'_>, line: &str, answer: &str) -> Result<()> {
        pane.submit(line)?;
        self.hear(pane, answer)
    }

    /// Waits for a text on the screen; the error contains the log.
    pub(super) fn hear(&self, pane: &Pane<'_>, text: &str) -> Result<()> {
        pane.wait_for(text, LONG).map(drop).with_context(|| self.log())
    }

    /// Waits for the input line.
    #[expect(clippy::unused_self, reason = "the scene tells which client it is")]
    pub(super) fn wait_for_input(&self, pane: &Pane<'_>) -> Result<()> {
        pane.wait_until("the input line", LONG, C::takes_input).map(drop)
    }

    /// Leaves the client as a person does.
    #[expect(clippy::unused_self, reason = "the scene tells which client it is")]
    pub(super) fn exit(&self, pane: &Pane<'_>) -> Result<()> {
        pane.submit(C::EXIT)?;
        let ended = pane.wait_for_end(LONG)?;
        ensure!(ended == Ended::Code(0), "it ended with {ended:?}");
        Ok(())
    }

    /// The requests of the main conversation so far.
    pub(super) fn asked(&self) -> Vec<Arc<Request>> {
        self.model.main_requests()
    }

    /// Waits for so many requests.
    pub(super) fn wait_for_requests(&self, count: usize) -> Result<Vec<Arc<Request>>> {
        self.model.wait_for(count, LONG).with_context(|| self.log())
    }

    /// Waits until `look` finds something; the error contains the log.
    pub(super) fn wait_for<T>(&self, what: &str, mut look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
        let found = poll(LONG, || look().transpose());
        found.with_context(|| format!("waited in vain for {what}\n{}", self.log()))?
    }

    pub(super) fn wait_until(&self, what: &str, mut holds: impl FnMut() -> bool) -> Result<()> {
        self.wait_for(what, || Ok(holds().then_some(())))
    }

    pub(super) fn state(&self) -> PathBuf {
        self.place.home().join(".local/state/baton")
    }

    /// The log as one text.
    pub(super) fn log(&self) -> String {
        let files = std::fs::read_dir(self.state().join("log")).into_iter().flatten().flatten();
        files.filter_map(|e| std::fs::read_to_string(e.path()).ok()).collect()
    }

    /// How often the log has this event.
    pub(super) fn logged(&self, event: &str) -> usize {
        self.log().matches(&format!("\"event\":\"{event}\"")).count()
    }

    /// All records of one kind, newest last.
    pub(super) fn records(&self, kind: &str) -> Vec<Value> {
        home::records(&self.state().join(kind))
    }

    /// The record of an agent's current session.
    pub(super) fn session_record(&self, id: &str) -> Value {
        home::record(&self.state().join(format!("sessions/{id}.json")))
    }

    /// The name of the first agent here.
    pub(super) fn agent(&self) -> Result<String> {
        let agents = self.records("agents");
        let first = agents.first().context("there is no agent")?;
        Ok(first["id"].as_str().context("an agent without a name")?.to_owned())
    }

    /// What baton knows about the first agent here.
    pub(super) fn status(&self) -> Result<Value> {
        Ok(self.json(&["status", "--all", "--json"])?[0].clone())
    }

    /// Waits until the first agent here is in a state, and returns everything that baton knows about it.
    pub(super) fn wait_for_state(&self, state: &str) -> Result<Value> {
        let what = format!("an agent that is {state}");
        self.wait_for(&what, || Ok(Some(self.status()?).filter(|s| s["state"] == state)))
    }

    /// Seals a handoff as a person does, for the next session.
    pub(super) fn seal(&self, text: &str) -> Result<()> {
        let file = self.place.write_project("handoff.md", text)?;
        self.baton(&["handoffs", "seal", &file.display().to_string()]).map(drop)
    }

    /// Asserts that a handoff was sealed and used.
    #[track_caller]
    pub(super) fn assert_consumed(&self) {
        let handoffs = self.baton(&["handoffs", "--json"]).unwrap();
        assert!(handoffs.contains("\"status\": \"consumed\""), "{handoffs}");
    }
}

/// Methods for Claude Code only.
impl Scene<Claude> {
    /// Adds permission rules, so that no dialog opens.
    pub(super) fn allow(mut self, rules: &[&str]) -> Self {
        self.client = self.client.allow(rules);
        self
    }

    /// The plugin folder that an install writes, which starts the program under test.
    pub(super) fn write_plugin(&self, commands: bool) -> Result<()> {
        let dir = self.place.home().join(".claude/skills/baton");
        for file in plugin::files(&HookProgram::At(BATON.to_owned()), "0.0.0", commands, &dir) {
            self.place.write_home(format!(".claude/skills/baton/{}", file.path), file.text)?;
        }
        Ok(())
    }

    /// The number of running agents; an agent has a record before it has a process.
    pub(super) fn living(&self) -> usize {
        self.records("agents").iter().filter(|agent| agent["process"].is_object()).count()
    }

    /// Waits for the companion of the only client here, and returns its pid.
    pub(super) fn companion(&self) -> Result<u32> {
        self.wait_until("the mod's hello", || self.records("companions").len() == 1 && self.living() == 1)?;
        let pid = self.records("companions")[0]["process"]["pid"].as_u64().context("no pid")?;
        Ok(u32::try_from(pid)?)
    }

    /// Waits for the companion that comes after `pid`.
    pub(super) fn next_companion(&self, pid: u32) -> Result<u32> {
        let next = self.wait_for("the next companion", || {
            let first = self.records("companions").first().and_then(|c| c["process"]["pid"].as_u64());
            Ok(first.filter(|next| *next != u64::from(pid)))
        })?;
        Ok(u32::try_from(next)?)
    }

    /// Waits until the companion has ended and left no record.
    pub(super) fn wait_until_gone(&self, pid: u32) -> Result<()> {
        self.wait_until("the end of the companion", || is_gone(pid))?;
        ensure!(self.records("companions").is_empty(), "a companion is left");
        Ok(())
    }

    /// Plays the exchanges that [`begun`] begins with.
    pub(super) fn begin(&self, pane: &Pane<'_>) -> Result<()> {
        self.ask(pane, "Begin.", "Answer one.")?;
        self.ask(pane, "More.", "Answer two.")?;
        self.ask(pane, "Write the parser. Never change the grammar.", "First answer.")
    }
}

/// How full the window is when Claude Code compacts before the next request.
pub(super) const FULL: u64 = 970_000;

/// Three exchanges, after which the context holds so many tokens. The client does not summarize a conversation of one
/// exchange, so there are more.
pub(super) fn begun(tokens: u64) -> Script {
    Script::new()
        .turn(text("Answer one.").usage(20_000))
        .turn(text("Answer two.").usage(30_000))
        .turn(text("First answer.").usage(tokens))
}

/// The agent hands over when its context holds so many tokens, and continues in a fresh context.
pub(super) fn hands_over(tokens: u64) -> Script {
    Script::new()
        .turn(shell("printf 'The parser is half done; MARK-OF-THE-HANDOFF.' | baton handoff -").usage(tokens))
        .turn(text("Handed over.").usage(tokens + 500))
        .turn(text("I know where I was.").usage(20_000))
}

/// Asserts that the third request of [`hands_over`] begins a fresh context with the handoff.
#[track_caller]
pub(super) fn assert_went_on(asked: &[Arc<Request>]) {
    let fresh = asked[2].text();
    assert_ne!(asked[2].session, asked[0].session, "the conversation was not replaced");
    assert!(fresh.contains(LOADED) && fresh.contains("MARK-OF-THE-HANDOFF"), "{fresh}");
    assert!(fresh.contains("Continue where the loaded handoff HO-"), "{fresh}");
}

/// A task over three contexts; the first two hand over when they hold so many tokens.
pub(super) fn over_three_contexts(tokens: u64) -> Script {
    let hand_over = |mark: &str| shell(format!("printf 'state {mark}' | baton handoff -")).usage(tokens);
    Script::new()
        .turn(hand_over("ONE"))
        .turn(text("first context over").usage(tokens + 100))
        .turn(hand_over("TWO"))
        .turn(text("second context over").usage(tokens + 100))
        .turn(text("All done.").usage(20_000))
}

/// Asserts that [`over_three_contexts`] was completed and printed one result.
#[track_caller]
pub(super) fn assert_over_three_contexts(finished: &Finished, asked: &[Arc<Request>]) {
    assert_eq!((finished.code, finished.stdout.trim()), (Some(0), "All done."), "{finished:?}");
    assert_eq!(asked.len(), 5);
    assert!(asked[2].text().contains("state ONE"), "{}", asked[2].text());
    assert!(asked[4].text().contains("state TWO"), "{}", asked[4].text());
    let mut sessions: Vec<_> = asked.iter().map(|r| r.session.clone()).collect();
    sessions.dedup();
    assert_eq!(sessions.len(), 3, "{sessions:?}");
}

/// A handoff of more than 50 KB with the important part at its beginning.
pub(super) fn long_handoff() -> String {
    let mut text = String::from("# Now\nBEGINNING-OF-IT: fix the parser. Größe: 漢字漢字.\n\n");
    for n in 0..900 {
        let _ = write!(text, "## Note {n}\nSomething that was found out on the way, number {n}: 漢字.\n\n");
    }
    assert!(text.len() > 50_000);
    text
}

/// Asserts that a request has [`long_handoff`] packed, with the path of the whole text.
#[track_caller]
pub(super) fn assert_packed(request: &Request) {
    let seen = request.text();
    assert!(seen.contains("BEGINNING-OF-IT"), "{seen}");
    assert!(seen.contains("=== END HANDOFF === "), "the client has cut the end of the frame off: {seen}");
    assert!(seen.contains("/archive/HO-"), "the way to the whole is missing: {seen}");
    assert!(!seen.contains("<persisted-output>"), "the client replaced it by a preview: {seen}");
}

/// The client under `baton run`, with the arguments and environment of `launch`.
pub(super) fn under_run<C: Client>(launch: Launch) -> Launch {
    launch.under(BATON, &["run", C::NAME])
}

pub(super) fn signal(pid: u32, signal: Signal) -> Result<()> {
    let pid = Pid::from_raw(i32::try_from(pid)?).context("no process")?;
    Ok(kill_process(pid, signal)?)
}

pub(super) fn is_gone(pid: u32) -> bool {
    !std::path::Path::new(&format!("/proc/{pid}")).exists()
}
