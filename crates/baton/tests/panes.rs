//! Agents in real tmux panes: what is typed to them and what is not. Each way in which keys went wrong elsewhere is a
//! test here.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use baton_testkit::home::run;
use baton_testkit::rng::Rng;
use baton_testkit::{Home, Ran};
use serde_json::Value;

use crate::BATON;

const LONG: Duration = Duration::from_mins(1);
/// Waits for prompts and does nothing of note.
pub const QUIET: &str = "turn\n  tokens 5%\n  say Hello.\n";

/// A home with a tmux server of its own, and an attendant that can be killed.
pub struct World {
    pub home: Home,
    attendant: Option<Child>,
}

impl World {
    pub fn new(script: &str) -> Self {
        let world = Self::unattended(script);
        world.attended()
    }

    pub fn unattended(script: &str) -> Self {
        let home = Home::in_memory(BATON);
        home.write("agent.script", script);
        // Its own project, and the client's folder, as they are in life.
        home.write("work/app/.claude/keep", "");
        home.write(".claude/keep", "");
        Self { home, attendant: None }
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

    /// `baton` for an agent of this name: its script and what it has seen.
    pub fn command_for(&self, name: &str, args: &[&str]) -> Command {
        let mut command = self.home.baton(args);
        command
            .env("TMUX_TMPDIR", self.home.path())
            .env("LANG", "C.UTF-8")
            // The tests say when there is an attendant.
            .env("BATON_PANES_ATTEND", "false")
            .env("TERM", "xterm-256color")
            .env("BATON_AGENT_SCRIPT", self.home.path().join("agent.script"))
            .env("BATON_AGENT_SEEN", self.seen_path(name));
        command
    }

    pub fn command(&self, args: &[&str]) -> Command {
        self.command_for("nobody", args)
    }

    pub fn baton(&self, args: &[&str]) -> Ran {
        run(&mut self.command(args))
    }

    fn seen_path(&self, name: &str) -> PathBuf {
        self.home.path().join(format!("seen-{name}.jsonl"))
    }

    pub fn spawn(&self, name: &str, args: &[&str]) -> Ran {
        let all = [&["spawn", name, "--provider", "demo"], args].concat();
        run(&mut self.command_for(name, &all))
    }

    /// Spawned, and its composer is there.
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
            self.baton(&["tail", name]).out,
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

    /// As a person types: letters without Enter.
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
        // What is told to end still writes into the home, which is about to be removed.
        let pids: Vec<i32> = std::fs::read_dir(self.home.state().join("processes"))
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|e| e.path().file_stem()?.to_str()?.parse().ok())
            .collect();
        let end = Instant::now() + Duration::from_secs(5);
        while pids.iter().any(|pid| baton_testkit::tmux::is_running(*pid)) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[track_caller]
pub fn wait_for<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    wait_for_or(what, String::new, look)
}

#[track_caller]
pub fn wait_for_or<T>(what: &str, told: impl Fn() -> String, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + LONG;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "waited in vain for {what}\n{}", told());
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn mail_for_an_idle_agent_is_typed_and_counts_as_delivered_when_its_prompt_was_seen() {
    let world = World::new(QUIET);
    world.ready("alpha");
    let id = world.send("alpha", &["--from", "boss", "how is it going?"]);
    let prompt = world.wait_for_prompt("alpha", &id);
    assert_eq!(prompt, format!("[baton message {id} from boss]\nhow is it going?"));
    wait_for("the receipt", || (world.state_of("alpha", &id) == "delivered").then_some(()));
    let inbox = world.baton(&["inbox", "alpha", "--json"]).json();
    assert!(inbox[0]["evidence"].as_str().unwrap().starts_with("prompt of session "), "{inbox}");
    let outbox = world.baton(&["outbox", "boss", "--json"]).json();
    assert_eq!(
        (&outbox[0]["id"], &outbox[0]["state"]),
        (&id.as_str().into(), &"delivered".into()),
        "{outbox}"
    );
    world.wait_for_turn("alpha", "idle");
    assert_eq!(world.prompts("alpha").len(), 1, "it was typed once");
}

/// FIELD: text equal to a key name became the key; text and Enter were taken for a paste; first characters lost.
#[test]
fn what_looks_like_keys_commands_or_several_lines_arrives_as_it_is() {
    let world = World::new(QUIET);
    world.ready("alpha");
    let texts = [
        "Enter",
        "C-c",
        "two\nlines; and more;",
        "#{pane_id} $(date) `id` ~ \\ \"quoted\" 'too'",
        "-t %0 ünï ❯",
    ];
    for (n, text) in texts.into_iter().enumerate() {
        let id = world.send("alpha", &["--", text]);
        let prompt = world.wait_for_prompt("alpha", &id);
        assert_eq!(prompt, format!("[baton message {id} from user]\n{text}"));
        wait_for("its answer", || (world.texts("alpha", "said").len() > n).then_some(()));
        world.wait_for_turn("alpha", "idle");
    }
    let long = format!("begin {} end", "x".repeat(5_000));
    let id = world.send("alpha", &["--", &long]);
    assert!(world.wait_for_prompt("alpha", &id).ends_with(&long));
}

/// FIELD: a message queued while the agent worked was shown minutes later.
#[test]
fn a_busy_agent_reads_its_mail_at_the_next_tool_call_and_nothing_is_typed() {
    let world = World::new("turn\n  tokens 5%\n  wait go\n  bash true\n  wait end\n  say Done so far.\n");
    world.spawn("alpha", &["--prompt", "begin"]).ok();
    world.wait_for_turn("alpha", "working");
    let id = world.send("alpha", &["look at this"]);
    let important = world.send("alpha", &["--important", "and this"]);
    world.home.write("work/app/go", "");
    wait_for("the hook", || {
        world.texts("alpha", "context").iter().any(|c| c.contains(&important)).then_some(())
    });
    assert!(world.texts("alpha", "context").iter().any(|c| c.contains(&id)));
    wait_for("the receipt", || (world.state_of("alpha", &id) == "delivered").then_some(()));
    world.home.write("work/app/end", "");
    world.wait_for_turn("alpha", "idle");
    assert_eq!(world.prompts("alpha"), ["begin"]);
    let inbox = world.baton(&["inbox", "alpha", "--json"]).json();
    assert!(inbox[0]["evidence"].as_str().unwrap().starts_with("hook of session "), "{inbox}");
}

/// FIELD: a user's half-typed draft was submitted together with the injected text.
#[test]
fn a_draft_is_never_touched_by_mail_which_comes_with_the_persons_own_prompt() {
    let world = World::new(QUIET);
    world.ready("alpha");
    world.person_types("alpha", "half a thought");
    let id = world.send("alpha", &["are you there?"]);
    wait_for_or(
        "the reason",
        || world.told("alpha"),
        || (world.agent("alpha")["waits"] == "a draft is in the composer").then_some(()),
    );
    assert!(world.baton(&["agents"]).ok().contains("a draft is in the composer"));
    assert_eq!(world.prompts("alpha").len(), 0);
    assert!(world.screen("alpha").contains("half a thought"));
    assert_eq!(world.state_of("alpha", &id), "queued");
    world.keys("alpha", &["Enter"]);
    world.wait_for_prompt("alpha", "half a thought");
    // With that prompt, or as one of its own right behind it; never as one text, and once.
    let reached = || [world.prompts("alpha"), world.texts("alpha", "context")].concat().join("\n");
    wait_for("the message", || reached().contains(&id).then_some(()));
    assert_eq!(world.prompts("alpha")[0], "half a thought");
    assert_eq!(reached().matches(&id).count(), 1);
}

#[test]
fn a_draft_that_goes_away_makes_room_for_mail() {
    let world = World::new(QUIET);
    world.ready("alpha");
    world.person_types("alpha", "x");
    let id = world.send("alpha", &["are you there?"]);
    wait_for("the reason", || world.agent("alpha")["waits"].is_string().then_some(()));
    world.keys("alpha", &["BSpace"]);
    world.wait_for_prompt("alpha", &id);
    wait_for("no reason", || world.agent("alpha")["waits"].is_null().then_some(()));
}

/// FIELD: keys vanished into tmux copy mode.
#[test]
fn copy_mode_is_left_before_anything_is_typed() {
    let world = World::new(QUIET);
    world.ready("alpha");
    let pane = world.pane("alpha");
    world.tmux(&["copy-mode", "-t", &pane]);
    assert_eq!(world.tmux(&["display-message", "-p", "-t", &pane, "#{pane_in_mode}"]), "1");
    let id = world.send("alpha", &["are you there?"]);
    world.wait_for_prompt("alpha", &id);
}

/// FIELD: the composer looks idle while a turn runs; dialogs must not be answered by mail.
#[test]
fn an_open_dialog_is_not_answered_and_the_mail_comes_after_it() {
    let world = World::new("turn\n  tokens 5%\n  ask rm -rf build\n  bash true\n  say Done.\n");
    world.spawn("alpha", &["--prompt", "begin"]).ok();
    world.wait_for_turn("alpha", "blocked");
    world.wait_for_screen("alpha", "Do you want to proceed?");
    assert_eq!(world.baton(&["agents", "--json"]).json()[0]["state"], "blocked");
    let id = world.send("alpha", &["--urgent", "yes\ny"]);
    // Something else reaches the attendant after it, so it has had its chance.
    world.ready("beta");
    let other = world.send("beta", &["hello"]);
    world.wait_for_prompt("beta", &other);
    assert_eq!(world.state_of("alpha", &id), "queued");
    assert!(world.screen("alpha").contains("Do you want to proceed?"), "{}", world.told("alpha"));
    world.keys("alpha", &["y"]);
    wait_for("the hook", || world.texts("alpha", "context").iter().any(|c| c.contains(&id)).then_some(()));
    assert_eq!(world.prompts("alpha"), ["begin"]);
}

/// FIELD: typed text lost its Enter. The Enter is tried once more, the text never.
#[test]
fn a_lost_enter_is_tried_again_and_the_text_is_not() {
    let world = World::new("drops 1\nturn\n  say Hello.\n");
    world.ready("alpha");
    let id = world.send("alpha", &["are you there?"]);
    let prompt = world.wait_for_prompt("alpha", &id);
    assert_eq!(prompt.matches(&id).count(), 1, "{prompt}");
    world.wait_for_turn("alpha", "idle");
    assert_eq!(world.prompts("alpha").len(), 1);
}

#[test]
fn an_urgent_message_interrupts_the_turn_with_one_escape_and_is_the_next_prompt() {
    let world = World::new("turn\n  tokens 5%\n  wait never\n  say Done.\nturn\n  say I heard.\n");
    world.spawn("alpha", &["--prompt", "begin"]).ok();
    world.wait_for_turn("alpha", "working");
    let id = world.send("alpha", &["--urgent", "stop that"]);
    world.wait_for_prompt("alpha", &id);
    wait_for("the answer", || world.texts("alpha", "said").contains(&"I heard.".to_owned()).then_some(()));
    assert!(!world.texts("alpha", "said").contains(&"Done.".to_owned()), "the turn was cut");
    assert!(world.seen("alpha").iter().all(|s| s["kind"] != "escape-at-idle"));
}

/// FIELD: two Escapes at an idle pane open a menu. An idle pane never gets one.
#[test]
fn an_idle_pane_never_gets_an_escape() {
    let world = World::new(QUIET);
    world.ready("alpha");
    let id = world.send("alpha", &["--urgent", "now"]);
    world.wait_for_prompt("alpha", &id);
    world.wait_for_turn("alpha", "idle");
    assert!(world.seen("alpha").iter().all(|s| s["kind"] != "escape-at-idle"), "{:?}", world.seen("alpha"));
}

/// FIELD: a stale signal hit the wrong session. A pane is its id, its server and its process.
#[test]
fn nothing_is_typed_to_another_program_in_the_same_pane() {
    let world = World::new(QUIET);
    world.ready("alpha");
    let pane = world.pane("alpha");
    world.tmux(&["set-option", "-t", &pane, "remain-on-exit", "on"]);
    world.tmux(&["respawn-pane", "-k", "-t", &pane, "cat"]);
    wait_for("its end", || world.agent("alpha")["ended"].is_string().then_some(()));
    let id = world.send("alpha", &["are you there?"]);
    world.ready("beta");
    let other = world.send("beta", &["hello"]);
    world.wait_for_prompt("beta", &other);
    assert_eq!(world.state_of("alpha", &id), "queued");
    assert_eq!(world.tmux(&["capture-pane", "-p", "-t", &pane]), "");
    assert_eq!(world.baton(&["agents", "--json"]).json()[0]["state"], "dead");
}

/// FIELD: a message was shown after it had become pointless. It can expire, and is not called delivered.
#[test]
fn a_message_can_expire_and_says_so_and_one_that_is_too_large_is_refused() {
    let world = World::unattended(QUIET);
    world.ready("alpha");
    let id = world.send("alpha", &["--expires", "1ms", "only now"]);
    let kept = world.send("alpha", &["for ever"]);
    let mut world = world;
    world.start_attendant();
    let prompt = world.wait_for_prompt("alpha", &kept);
    assert!(!prompt.contains(&id), "{prompt}");
    assert_eq!(world.state_of("alpha", &id), "expired");
    let large = "x".repeat((1 << 20) + 1);
    let refused = world.home.run_with_input("send alpha -", &large).fails(1);
    assert!(refused.contains("1048576") && refused.contains("send a path instead"), "{refused}");
}

/// Seed 004's stop notification, from end to end: an idle agent is typed to, works, and its sender hears of the end.
#[test]
fn a_sender_that_asked_is_told_when_the_typed_message_was_worked_on() {
    let world = World::unattended("turn\n  tokens 5%\n  wait go\n  say Done with it.\n");
    world.ready("alpha");
    world.ready("beta");
    let mut command =
        world.command(&["send", "alpha", "--from", "beta", "--notify", "--json", "have a look"]);
    // The command that asks for the notice starts the daemon that gives it, panes and all.
    let sent = run(command.env_remove("BATON_PANES_ATTEND")).json();
    let id = sent["id"].as_str().unwrap().to_owned();
    world.wait_for_prompt("alpha", &id);
    world.wait_for_turn("alpha", "working");
    assert!(
        !world.prompts("beta").iter().any(|p| p.contains("has ended its turn")),
        "{}",
        world.told("beta")
    );
    world.home.write("work/app/go", "");
    let notice = world.wait_for_prompt("beta", "alpha has ended its turn");
    assert!(notice.contains("from baton]"), "{notice}");
    world.baton(&["serve", "--stop"]).ok();
}

/// FIELD: a stale signal hit the wrong session. A key alone is kept from another program too, by the server itself.
#[test]
fn no_key_reaches_a_pane_that_has_changed_since_it_was_looked_at() {
    let mut world = World::new("drops 1\nturn\n  say Hello.\n");
    world.ready("alpha");
    let pane = world.pane("alpha");
    world.tmux(&["set-option", "-t", &pane, "remain-on-exit", "on"]);
    world.send("alpha", &["are you there?"]);
    // Its Enter was lost; before it is tried again, another program has the pane.
    world.wait_for_screen("alpha", "[baton message");
    world.tmux(&["respawn-pane", "-k", "-t", &pane, "cat -v"]);
    wait_for("its end", || world.agent("alpha")["ended"].is_string().then_some(()));
    world.kill_attendant();
    assert_eq!(world.tmux(&["capture-pane", "-p", "-t", &pane]), "");
}

/// FIELD: the agent was left busy for ever after what failed. Promise 7: the attendant killed at any instant loses no message, shows none twice, and keeps their order.
#[test]
fn an_attendant_killed_at_any_instant_loses_and_repeats_nothing() {
    let mut world = World::new(QUIET);
    world.ready("alpha");
    let mut rng = Rng::announced("an_attendant_killed_at_any_instant_loses_and_repeats_nothing");
    let mut ids = Vec::new();
    for _ in 0..baton_testkit::times(12) {
        for _ in 0..rng.pick(1..4) {
            ids.push(world.send("alpha", &["one more"]));
        }
        std::thread::sleep(Duration::from_millis(rng.pick(0..120)));
        world.kill_attendant();
        world.start_attendant();
    }
    let last = ids.last().unwrap().clone();
    let everything = || [world.prompts("alpha"), world.texts("alpha", "context")].concat().join("\n");
    wait_for_or("the last message", || world.told("alpha"), || everything().contains(&last).then_some(()));
    // The agent has a prompt before its hook has written the receipt.
    wait_for_or(
        "the receipts",
        || world.told("alpha"),
        || ids.iter().all(|id| world.state_of("alpha", id) == "delivered").then_some(()),
    );
    world.wait_for_turn("alpha", "idle");
    let order: Vec<usize> = ids.iter().map(|id| in_order(&world, "alpha", id)).collect();
    assert!(order.is_sorted(), "{order:?}");
    for id in &ids {
        assert_eq!(everything().matches(&format!("[baton message {id} ")).count(), 1, "{id}");
    }
}

/// Where in everything that reached the agent a message stands.
fn in_order(world: &World, name: &str, id: &str) -> usize {
    let mark = format!("[baton message {id} ");
    let reached = world.seen(name).into_iter().filter(|s| s["kind"] == "prompt" || s["kind"] == "context");
    let all: String = reached.filter_map(|s| s["text"].as_str().map(|t| format!("{t}\n"))).collect();
    all.find(&mark).unwrap_or_else(|| panic!("{id} never arrived"))
}
