//! Agents of the scripted client in panes of a real tmux, and an attendant that can be killed.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use baton_testkit::home::run;
use baton_testkit::wait::{LONG, poll, wait_for};
use baton_testkit::{CommandOutput, Home, tools};
use serde_json::Value;

use crate::BATON;

/// A script that waits for prompts and does nothing else.
pub const QUIET: &str = "turn\n  tokens 5%\n  say Hello.\n";

/// A home with its own tmux server, and an attendant that can be killed.
pub struct World {
    pub home: Home,
    pub attendant: Option<Child>,
}

impl World {
    /// Returns nothing if there is no tmux; the test is then skipped.
    pub fn new(script: &str) -> Option<Self> {
        Self::unattended(script).map(Self::attended)
    }

    pub fn unattended(script: &str) -> Option<Self> {
        if !tools::has(&["tmux"]) {
            return None;
        }
        let home = Home::in_memory(BATON);
        home.write("agent.script", script);
        // Its own project, and the client's folder, as in real life.
        home.write("work/app/.claude/keep", "");
        home.write(".claude/keep", "");
        Some(Self { home, attendant: None })
    }

    #[must_use]
    pub fn attended(mut self) -> Self {
        self.start_attendant();
        self
    }

    pub fn start_attendant(&mut self) {
        let mut command = self.command(&["panes"]);
        let log = std::fs::File::create(self.home.path().join("attendant.err")).unwrap();
        self.attendant = Some(command.stdout(Stdio::null()).stderr(log).spawn().unwrap());
        let lock = self.home.state().join("run/panes.sock");
        wait_for("the attendant", || lock.exists().then_some(()));
    }

    pub fn kill_attendant(&mut self) {
        if let Some(mut attendant) = self.attendant.take() {
            attendant.kill().unwrap();
            attendant.wait().unwrap();
            let _ = std::fs::remove_file(self.home.state().join("run/panes.sock"));
        }
    }

    /// `baton` for an agent of this name, with its script and the file of what it has seen.
    pub fn command_for(&self, name: &str, args: &[&str]) -> Command {
        let mut command = self.home.baton(args);
        command
            .env("TMUX_TMPDIR", self.home.path())
            .env("LANG", "C.UTF-8")
            // Tests start an attendant only when they want one.
            .env("BATON_PANES_ATTEND", "false")
            .env("TERM", "xterm-256color")
            .env("BATON_AGENT_SCRIPT", self.home.path().join("agent.script"))
            .env("BATON_AGENT_SEEN", self.seen_path(name));
        command
    }

    pub fn command(&self, args: &[&str]) -> Command {
        self.command_for("nobody", args)
    }

    pub fn baton(&self, args: &[&str]) -> CommandOutput {
        run(&mut self.command(args))
    }

    fn seen_path(&self, name: &str) -> PathBuf {
        self.home.path().join(format!("seen-{name}.jsonl"))
    }

    pub fn spawn(&self, name: &str, args: &[&str]) -> CommandOutput {
        let all = [&["spawn", name, "--provider", "demo"], args].concat();
        run(&mut self.command_for(name, &all))
    }

    /// Spawns an agent and waits for its composer.
    pub fn ready(&self, name: &str) {
        self.spawn(name, &[]).ok();
        self.wait_for_screen(name, "❯");
        wait_for("its session", || self.session(name)["id"].is_string().then_some(()));
    }

    pub fn seen(&self, name: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.seen_path(name)).unwrap_or_default();
        text.lines().filter_map(|l| serde_json::from_str(l).ok()).collect()
    }

    pub fn texts(&self, name: &str, kind: &str) -> Vec<String> {
        let of_kind = self.seen(name).into_iter().filter(|s| s["kind"] == kind);
        of_kind.filter_map(|s| s["text"].as_str().map(str::to_owned)).collect()
    }

    pub fn prompts(&self, name: &str) -> Vec<String> {
        self.texts(name, "prompt")
    }

    #[track_caller]
    pub fn wait_for_prompt(&self, name: &str, part: &str) -> String {
        wait_for_or(
            &format!("a prompt with {part:?}"),
            || self.told(name),
            || self.prompts(name).into_iter().find(|p| p.contains(part)),
        )
    }

    pub fn told(&self, name: &str) -> String {
        format!(
            "screen:\n{}\nlog:\n{}\nattendant: {}\nagent: {}",
            self.baton(&["tail", name, "--screen"]).out,
            self.baton(&["log", "--json", "-n", "40"]).out,
            std::fs::read_to_string(self.home.path().join("attendant.err")).unwrap_or_default(),
            self.agent(name)
        )
    }

    pub fn agent(&self, name: &str) -> Value {
        let bytes = std::fs::read(self.home.state().join(format!("agents/{name}.json"))).unwrap_or_default();
        serde_json::from_slice(&bytes).unwrap_or_default()
    }

    pub fn session(&self, name: &str) -> Value {
        let agent = self.agent(name);
        let Some(id) = agent["session"].as_str() else { return Value::Null };
        baton_testkit::home::record(&self.home.state().join(format!("sessions/{id}.json")))
    }

    pub fn state_of(&self, name: &str, message: &str) -> String {
        let inbox = self.baton(&["inbox", name, "--json"]).json();
        let found = inbox.as_array().unwrap().iter().find(|m| m["id"] == message);
        found.map(|m| m["state"].as_str().unwrap().to_owned()).unwrap_or_default()
    }

    pub fn send(&self, name: &str, args: &[&str]) -> String {
        let all = [&["send", name, "--json"], args].concat();
        self.baton(&all).json()["id"].as_str().unwrap().to_owned()
    }

    pub fn tmux(&self, args: &[&str]) -> String {
        let mut tmux = Command::new("tmux");
        tmux.args(["-u", "-L", "baton"]).args(args).env("TMUX_TMPDIR", self.home.path()).env_remove("TMUX");
        let output = tmux.output().unwrap();
        assert!(output.status.success(), "tmux {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    pub fn pane(&self, name: &str) -> String {
        self.agent(name)["pane"]["id"].as_str().unwrap_or_else(|| panic!("{name} has no pane")).to_owned()
    }

    pub fn screen(&self, name: &str) -> String {
        self.tmux(&["capture-pane", "-p", "-t", &self.pane(name)])
    }

    #[track_caller]
    pub fn wait_for_screen(&self, name: &str, text: &str) {
        wait_for_or(
            &format!("{text:?} on the screen"),
            || self.told(name),
            || self.screen(name).contains(text).then_some(()),
        );
    }

    #[track_caller]
    pub fn wait_for_turn(&self, name: &str, turn: &str) {
        wait_for_or(
            &format!("{name} to be {turn}"),
            || self.told(name),
            || (self.session(name)["turn"] == turn).then_some(()),
        );
    }

    /// Types letters without Enter, as a person does.
    pub fn person_types(&self, name: &str, text: &str) {
        self.tmux(&["send-keys", "-t", &self.pane(name), "-l", "--", text]);
        self.wait_for_screen(name, text);
    }

    pub fn keys(&self, name: &str, keys: &[&str]) {
        let pane = self.pane(name);
        self.tmux(&[&["send-keys", "-t", &pane], keys].concat());
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some(mut attendant) = self.attendant.take() {
            let _ = attendant.kill();
            let _ = attendant.wait();
        }
        let mut tmux = Command::new("tmux");
        tmux.args(["-L", "baton", "kill-server"]).env("TMUX_TMPDIR", self.home.path()).env_remove("TMUX");
        let _ = tmux.stderr(Stdio::null()).status();
        // Processes that are ending still write into the home, which is about to be removed.
        let pids: Vec<i32> = std::fs::read_dir(self.home.state().join("processes"))
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|e| e.path().file_stem()?.to_str()?.parse().ok())
            .collect();
        let is_running = |pid: &i32| baton_testkit::tmux::is_running(*pid);
        poll(Duration::from_secs(5), || (!pids.iter().any(is_running)).then_some(()));
    }
}

/// Waits until `look` finds something; a failure prints what `told` returns.
#[track_caller]
pub fn wait_for_or<T>(what: &str, told: impl Fn() -> String, look: impl FnMut() -> Option<T>) -> T {
    let Some(found) = poll(LONG, look) else { panic!("waited in vain for {what}\n{}", told()) };
    found
}
