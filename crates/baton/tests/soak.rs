//! A fleet of scripted agents in a real tmux under random faults, and what must be true when they stop: nothing waits
//! unseen, nothing is lost, nothing came twice. Two of them run under `baton run --keep-alive`; `clients::claude_soak` adds two
//! real clients. A minute of faults in the suite, 30 minutes with `BATON_LONG=1`. The seed is printed; `BATON_SEED` chooses the
//! same faults again (their instants depend on the machine). Where mounts are possible the handoffs lie on a small file system
//! of their own, which is full at times.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use baton_testkit::home::run;
use baton_testkit::rng::Rng;
use baton_testkit::wait::{poll, wait_for};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::world::World;

const AGENTS: u64 = 10;
/// How many of them, the last ones, have their own supervisor.
const SUPERVISED: u64 = 2;
/// Options of the handoffs' file system, if they have their own.
const DISK: &str = "size=64m,mode=0700";
/// Set inside the mount namespace that the test creates for itself.
const INSIDE: &str = "BATON_SOAK_INSIDE";
/// Everything settles within this time after the faults stop: the longest usage limit in the scripts, and the retries
/// of typed text that was not accepted, which are a minute apart.
const REST: Duration = Duration::from_mins(4);

/// Real clients in the same home.
pub(crate) trait RealClients {
    /// Their names.
    fn agents(&self) -> &[&str];
    /// `baton` as it is called for them.
    fn command(&self, args: &[&str]) -> Command;
    /// What an agent is spawned with.
    fn spawn_args(&self, agent: &str) -> Vec<String>;
    /// Whether the model was shown this text.
    fn was_shown(&self, text: &str) -> bool;
    /// From now on the model does its work and nothing else.
    fn calm_down(&self);
}

pub(crate) struct Soak {
    world: World,
    agents: Vec<String>,
    real: Option<Box<dyn RealClients>>,
    rng: Rng,
    daemon: Option<Child>,
    /// Ids of accepted messages, by addressee.
    sent: Vec<(String, String)>,
    /// Agents whose client was killed: nobody knows what a hook had just told it.
    killed: Vec<String>,
    counts: BTreeMap<&'static str, u32>,
    /// Whether the handoffs have their own file system.
    has_disk: bool,
}

fn is_supervised(agent: &str) -> bool {
    (AGENTS - SUPERVISED..AGENTS).map(name).any(|name| name == agent)
}

fn name(n: u64) -> String {
    format!("agent-{n}")
}

fn kill(pid: &Value) {
    let pid = pid.as_i64().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
    if let Some(pid) = pid {
        let _ = kill_process(pid, Signal::KILL);
    }
}

impl Soak {
    /// Ten scripted agents, and whichever real clients `settle` finds place for in their home.
    pub(crate) fn new(settle: impl FnOnce(&World, &mut Rng) -> Option<Box<dyn RealClients>>) -> Option<Self> {
        let world = World::unattended("")?;
        let mut rng = Rng::announced("soak");
        let real = settle(&world, &mut rng);
        let mut agents: Vec<String> = (0..AGENTS).map(name).collect();
        agents.extend(real.iter().flat_map(|real| real.agents()).map(|name| (*name).to_owned()));
        let handoffs = world.home.path().join(".claude/handoff");
        let has_disk = std::env::var_os(INSIDE).is_some() && {
            std::fs::create_dir_all(&handoffs).unwrap();
            let mut mount = Command::new("mount");
            mount.args(["-t", "tmpfs", "-o", DISK, "baton-soak"]).arg(&handoffs);
            mount.status().is_ok_and(|status| status.success())
        };
        let (sent, killed, counts) = (Vec::new(), Vec::new(), BTreeMap::new());
        Some(Self { world, agents, real, rng, daemon: None, sent, killed, counts, has_disk })
    }

    /// Forty contexts of one agent: work, handoffs with the agent's own words, API errors, hangs and short usage
    /// limits.
    fn script(&mut self, agent: &str) -> String {
        let mut script = String::from("asked obey-stdin\nidle 1000\n");
        for context in 0..40 {
            script.push_str("context\n");
            for turn in 0..8 {
                let document = format!("DOC-{agent}-{context}-{turn}");
                let hands_over = format!(
                    "  bash printf '# H\\n\\n## Next\\nGo on after {document}.\\n' | baton handoff -\n"
                );
                let pause = self.rng.pick(0..4) * 20;
                let _ = write!(script, "turn\n  grow 2%\n  bash sleep 0.{pause:03}\n  bash true\n");
                match self.rng.pick(0..16) {
                    12 => script.push_str("  fail authentication_failed API Error: 403\n"),
                    13 => script.push_str("  fail rate_limit You've hit your limit · resets in 4 seconds\n"),
                    // The API does not answer, and then the client gives up.
                    14 => script.push_str("  bash sleep 5\n  fail unknown API Error: Request timed out.\n"),
                    0..=3 => script.push_str(&hands_over),
                    4 => {
                        let _ = writeln!(script, "{hands_over}  fail overloaded API Error: 529 {document}");
                    }
                    5 => script.push_str("  fail server_error API Error: 500\n"),
                    6 => script.push_str("  fail invalid_request API Error: 400\n"),
                    7 => script.push_str("  tokens 70%\n  bash true\n"),
                    8 => script.push_str("  bash sleep 1\n  bash true\n"),
                    9 => {
                        let _ = writeln!(script, "{hands_over}  bash sleep 1");
                    }
                    _ => {}
                }
                script.push_str("  say On it.\n");
            }
        }
        script
    }

    fn is_real(&self, agent: &str) -> bool {
        self.real.as_ref().is_some_and(|real| real.agents().contains(&agent))
    }

    fn command_for(&self, agent: &str, args: &[&str]) -> Command {
        if let Some(real) = self.real.as_ref().filter(|_| self.is_real(agent)) {
            return real.command(args);
        }
        let mut command = self.world.command_for(agent, args);
        command.env("BATON_AGENT_SCRIPT", self.world.home.path().join(format!("{agent}.script")));
        command
    }

    /// Starts the daemon. If it ends at once, because an agent's command has started another or the disk is full,
    /// starts it again, as the commands that need one do.
    fn start_daemon(&mut self) {
        let socket = self.world.home.state().join("run/panes.sock");
        wait_for("the daemon", || {
            let is_over = self.daemon.as_mut().is_none_or(|daemon| daemon.try_wait().unwrap().is_some());
            if is_over {
                let mut command = self.world.command(&["serve"]);
                command.env("BATON_PANES_ATTEND", "true");
                let errors = std::fs::File::create(self.world.home.path().join("attendant.err")).unwrap();
                self.daemon = Some(command.stdout(Stdio::null()).stderr(errors).spawn().unwrap());
            }
            socket.exists().then_some(())
        });
    }

    fn kill_daemon(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            daemon.kill().unwrap();
            daemon.wait().unwrap();
            let _ = std::fs::remove_file(self.world.home.state().join("run/panes.sock"));
        }
    }

    fn spawn_all(&mut self) {
        for n in 0..AGENTS {
            let agent = name(n);
            let script = self.script(&agent);
            self.world.home.write(&format!("{agent}.script"), script);
            if is_supervised(&agent) {
                self.start_supervised(&agent);
                continue;
            }
            let mut args = vec!["spawn", agent.as_str(), "--provider", "demo"];
            // One has a parent, which gets its notices.
            if n == 1 {
                args.extend(["--parent", "agent-0"]);
            }
            run(&mut self.command_for(&agent, &args)).ok();
        }
        for agent in &self.agents {
            if let Some(real) = self.real.as_ref().filter(|_| self.is_real(agent)) {
                let args = real.spawn_args(agent);
                let args: Vec<&str> = args.iter().map(String::as_str).collect();
                run(&mut real.command(&args)).ok();
            }
        }
    }

    /// Runs `baton run` in a pane and adopts it, so that it is typed to like the others.
    fn start_supervised(&self, agent: &str) {
        let command = self.command_for(agent, &["run", "--keep-alive", "--name", agent, "demo"]);
        let session = format!("run-{agent}");
        let mut args: Vec<String> =
            ["new-session", "-d", "-s", &session, "-x", "100", "-y", "30", "-c"].map(str::to_owned).into();
        args.extend([self.world.home.project().display().to_string(), "env".to_owned()]);
        let text = |part: &std::ffi::OsStr| part.to_str().unwrap().to_owned();
        let envs = command.get_envs().filter_map(|(key, value)| Some((text(key), text(value?))));
        args.extend(envs.map(|(key, value)| format!("{key}={value}")));
        args.push(text(command.get_program()));
        args.extend(command.get_args().map(text));
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let began = jiff::Timestamp::now();
        self.world.tmux(&args);
        let is_fresh = || {
            let started: jiff::Timestamp = self.world.session(agent)["started"].as_str()?.parse().ok()?;
            (started >= began && self.is_running(agent)).then_some(())
        };
        crate::world::wait_for_or("a supervised agent", || self.world.told(agent), is_fresh);
        self.world.baton(&["adopt", agent]).ok();
    }

    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    /// One of the fleet; real clients come as often as all the others together.
    fn any_agent(&mut self) -> String {
        let real = u64::try_from(self.agents.len()).unwrap_or(AGENTS) - AGENTS;
        let n = if real > 0 && self.rng.pick(0..2) == 0 {
            AGENTS + self.rng.pick(0..real)
        } else {
            self.rng.pick(0..AGENTS)
        };
        self.agents[usize::try_from(n).unwrap_or(0)].clone()
    }

    /// The mod starts another one, or the pane is typed into.
    fn kill_companion(&mut self, agent: &str) {
        let client = self.world.agent(agent)["process"].clone();
        let companions = baton_testkit::home::records(&self.world.home.state().join("companions"));
        if let Some(companion) = companions.iter().find(|companion| companion["client"] == client) {
            kill(&companion["process"]["pid"]);
            self.count("companion killed");
        }
    }

    /// One thing that happens to the fleet.
    fn happen(&mut self) {
        let agent = self.any_agent();
        match self.rng.pick(0..26) {
            0..=13 => {
                let how: &[&str] = match self.rng.pick(0..3) {
                    0 => &["--important"],
                    1 => &["--urgent"],
                    _ => &[],
                };
                let text = format!("note {}", self.sent.len());
                let sent = self.world.baton(&[&["send", &agent, "--json"], how, &[&text]].concat());
                if let Some(id) = sent.json()["id"].as_str() {
                    self.sent.push((agent, id.to_owned()));
                }
                self.count("sent");
            }
            14..=15 => {
                if self.world.session(&agent)["turn"] == "working" {
                    self.world.keys(&agent, &["Escape"]);
                    self.count("esc");
                }
            }
            16 => {
                let supervisor = is_supervised(&agent) && self.rng.pick(0..2) == 0;
                let victim = if supervisor { "supervisor" } else { "process" };
                kill(&self.world.agent(&agent)[victim]["pid"]);
                self.killed.push(agent.clone());
                self.count(if supervisor { "supervisor killed" } else { "client killed" });
                self.restore(&agent);
            }
            17 => {
                self.kill_daemon();
                self.start_daemon();
                self.count("daemon killed");
            }
            18..=19 => {
                // Refused if there is nothing to rotate, which is fine.
                self.world.baton(&["rotate", &agent]);
                self.count("rotate");
            }
            // The last document counts, so do not overwrite the agent's own.
            20 if self.world.session(&agent)["turn"] == "idle"
                && self.world.session(&agent)["request"].is_null() =>
            {
                let words = format!("# H\n\n## Next\nGo on after DOC-{agent}-person-{}.\n", self.sent.len());
                self.world.home.write(&format!("work/app/{agent}.md"), words);
                let file = format!("{agent}.md");
                let mut command = self.world.command(&["handoff", &file]);
                let ran = run(command.env("CLAUDE_SESSION_MANAGER_ID", &agent));
                if ran.code == Some(0) {
                    self.count("scheduled by a person");
                }
            }
            21 => {
                if self.has_disk {
                    self.fill_the_disk();
                    return;
                }
                // Nothing can be sealed for a moment, as on a full disk.
                let (folder, aside) = (self.handoffs(), self.world.home.path().join("aside"));
                if folder.is_dir() && std::fs::rename(&folder, &aside).is_ok() {
                    std::fs::write(&folder, "full").unwrap();
                    std::thread::sleep(Duration::from_millis(300));
                    std::fs::remove_file(&folder).unwrap();
                    std::fs::rename(&aside, &folder).unwrap();
                    self.count("disk full");
                }
            }
            22 => self.kill_companion(&agent),
            _ => std::thread::sleep(Duration::from_millis(self.rng.pick(0..200))),
        }
    }

    /// Leaves no free block for a second.
    fn fill_the_disk(&mut self) {
        let filler = self.handoffs().join("filler");
        let mut file = std::fs::File::create(&filler).unwrap();
        let block = vec![0u8; 1 << 20];
        for size in [block.len(), 4096, 1] {
            let error = loop {
                if let Err(error) = file.write(&block[..size]) {
                    break error;
                }
            };
            assert_eq!(error.kind(), std::io::ErrorKind::StorageFull, "{error}");
        }
        std::thread::sleep(Duration::from_secs(1));
        drop(file);
        std::fs::remove_file(&filler).unwrap();
        self.count("disk full");
    }

    fn handoffs(&self) -> PathBuf {
        self.world.home.path().join(".claude/handoff")
    }

    /// Brings an agent back, as after a reboot.
    fn restore(&self, agent: &str) {
        let gone = || {
            let pid = self.world.agent(agent)["process"]["pid"].as_i64();
            pid.is_none_or(|pid| !baton_testkit::tmux::is_running(i32::try_from(pid).unwrap_or(0)))
        };
        poll(Duration::from_secs(5), || gone().then_some(()));
        if is_supervised(agent) {
            self.restore_supervised(agent);
            return;
        }
        run(&mut self.command_for(agent, &["agents", "restore", agent]));
    }

    /// A supervisor restarts its client; a killed supervisor is restarted by the machine's service manager.
    fn restore_supervised(&self, agent: &str) {
        let supervisor = self.world.agent(agent)["supervisor"]["pid"].as_i64();
        let lives =
            supervisor.is_some_and(|pid| baton_testkit::tmux::is_running(i32::try_from(pid).unwrap_or(0)));
        if lives && poll(Duration::from_secs(20), || self.is_running(agent).then_some(())).is_some() {
            return;
        }
        let mut tmux = Command::new("tmux");
        tmux.args(["-L", "baton", "kill-session", "-t", &format!("run-{agent}")]);
        tmux.env("TMUX_TMPDIR", self.world.home.path()).env_remove("TMUX").stderr(Stdio::null());
        let _ = tmux.status();
        poll(Duration::from_secs(5), || (!self.is_running(agent)).then_some(()));
        self.start_supervised(agent);
    }

    fn is_running(&self, agent: &str) -> bool {
        let pid = self.world.agent(agent)["process"]["pid"].as_i64();
        pid.is_some_and(|pid| baton_testkit::tmux::is_running(i32::try_from(pid).unwrap_or(0)))
    }

    /// Lists what has not settled, for people.
    fn unrest(&self) -> Vec<String> {
        let mut found = Vec::new();
        for agent in self.agents.clone() {
            let session = self.world.session(&agent);
            if !self.is_running(&agent) {
                found.push(format!("{agent} does not run"));
            }
            if session["turn"] != "idle" {
                found.push(format!("{agent} is {}", session["turn"]));
            }
            if session["request"].is_object() {
                found.push(format!("{agent} has a pending handoff: {}", session["request"]));
            }
            let record = self.world.agent(&agent);
            if record["rotation"].is_object() {
                found.push(format!("{agent} waits for a fresh context: {}", record["rotation"]));
            }
            if session["claim"].is_string() {
                found.push(format!("{agent} was not told to go on: {}", session["claim"]));
            }
            // Queued, or held by a process that was about to show it.
            let names = |place: &str| {
                let folder = self.world.home.state().join(format!("mail/{agent}/{place}"));
                let names = std::fs::read_dir(folder).into_iter().flatten().flatten();
                names.map(|entry| entry.file_name().to_string_lossy().into_owned())
            };
            let held = names("tmp").filter(|name| name.contains(".by-"));
            let queued = names("new").chain(held).count();
            if queued > 0 {
                found.push(format!("{agent} has {queued} messages waiting ({})", record["waits"]));
            }
        }
        found
    }

    /// All records of the agents' transcripts.
    fn transcripts(&self) -> String {
        let mut text = String::new();
        for folder in std::fs::read_dir(self.world.home.path().join(".claude/projects")).into_iter().flatten()
        {
            for file in std::fs::read_dir(folder.unwrap().path()).unwrap().flatten() {
                text.push_str(&String::from_utf8_lossy(&std::fs::read(file.path()).unwrap_or_default()));
                text.push('\n');
            }
        }
        text
    }

    fn archive(&self) -> String {
        let files = std::fs::read_dir(self.handoffs().join("archive")).into_iter().flatten().flatten();
        files.map(|file| std::fs::read_to_string(file.path()).unwrap_or_default()).collect()
    }

    fn every_message_was_seen_once_or_has_visibly_failed(&self, transcripts: &str) {
        let mut states: BTreeMap<String, String> = BTreeMap::new();
        for agent in &self.agents {
            let inbox = self.world.baton(&["inbox", agent, "--json"]).json();
            for message in inbox.as_array().unwrap() {
                let text = |key: &str| message[key].as_str().unwrap_or_default().to_owned();
                states.insert(text("id"), text("state"));
            }
        }
        // It is shown as a record of its own, as a prompt or as a hook's output; a handoff may quote it later.
        let is_record = |line: &&str| {
            !line.contains("HANDOFF LOADED")
                && (line.contains(r#""type":"user""#) || line.contains("attachment"))
        };
        let mut shown_by_id: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for line in transcripts.lines().filter(is_record) {
            let ids: BTreeSet<&str> = line
                .split("[baton message ")
                .skip(1)
                .filter_map(|rest| rest.split(" from ").next())
                .collect();
            for id in ids {
                shown_by_id.entry(id).or_default().push(line);
            }
        }
        let scripted = self.agents.iter().filter(|agent| !self.is_real(agent));
        let seen_by: BTreeMap<&String, String> = scripted
            .map(|agent| (agent, self.world.seen(agent).iter().map(ToString::to_string).collect()))
            .collect();
        for (agent, id) in &self.sent {
            let state = states.get(id).map_or("lost", String::as_str);
            let told = || self.world.told(agent);
            assert!(matches!(state, "delivered" | "expired" | "failed"), "{id} is {state}\n{}", told());
            let shown = shown_by_id.get(id.as_str()).map(Vec::as_slice).unwrap_or_default();
            // A message delivered just before its client was killed is delivered again after it came back.
            let most = if self.killed.contains(agent) { 2 } else { 1 };
            assert!(shown.len() <= most, "{id} was shown {} times: {shown:#?}\n{}", shown.len(), told());
            let seen = || match &self.real {
                Some(real) if self.is_real(agent) => real.was_shown(id),
                _ => seen_by.get(agent).is_some_and(|seen| seen.contains(id.as_str())),
            };
            if state == "delivered" && !self.killed.contains(agent) {
                assert!(seen(), "{id} counts as delivered and was never seen\n{}", told());
            }
        }
    }

    fn no_handoff_was_lost_or_loaded_twice(&self, transcripts: &str) {
        // A document counts once the command has said that it is scheduled; the last one in a session wins.
        let archive = self.archive();
        let mut last: BTreeMap<String, String> = BTreeMap::new();
        for line in transcripts.lines().filter(|line| line.contains("Handoff scheduled")) {
            // The result does not name the document; its call, one record before, does. Both carry the same id.
            let Some(id) = between(line, r#""tool_use_id":""#, "\"") else { continue };
            let call = transcripts.lines().find(|call| call.contains(&format!(r#""id":"{id}""#)));
            let Some(document) = call.and_then(|call| between(call, "DOC-", ".")) else { continue };
            last.insert(between(line, r#""sessionId":""#, "\"").unwrap_or_default(), document);
        }
        for (session, document) in &last {
            // If nothing could be sealed at the end of any turn, the user was told where the words are.
            let copy = self.world.home.state().join(format!("requests/{session}.md"));
            let is_told = || {
                let words = std::fs::read_to_string(&copy).unwrap_or_default();
                let told = |agent: String| {
                    let messages = self.world.texts(&agent, "message");
                    messages.iter().any(|m| m.contains(session.as_str()) && m.contains("its words are in"))
                };
                words.contains(&format!("DOC-{document}.")) && (0..AGENTS).map(name).any(told)
            };
            // The client was killed and not restarted since: restoring the agent carries out the handoff.
            let record = baton_testkit::home::record(
                &self.world.home.state().join(format!("sessions/{session}.json")),
            );
            let is_pending = || {
                let words = std::fs::read_to_string(&copy).unwrap_or_default();
                words.contains(&format!("DOC-{document}.")) && record["request"].is_object()
            };
            let is_kept = archive.contains(&format!("DOC-{document}.")) || is_pending() || is_told();
            assert!(is_kept, "the document {document} is lost: {}", self.log_of(session));
        }
        assert!(!last.is_empty() || self.sent.len() < 50, "no handoff was written at all");
        // Count handoffs that were loaded into a context which then got a prompt.
        let mut loaded: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for agent in (0..AGENTS).map(name) {
            let seen = self.world.seen(&agent);
            for (n, what) in seen.iter().enumerate() {
                let text = what["text"].as_str().unwrap_or_default();
                let Some(id) =
                    text.contains("=== HANDOFF LOADED").then(|| between(text, "HO-", " ")).flatten()
                else {
                    continue;
                };
                let session = what["session"].as_str().unwrap_or_default().to_owned();
                let spoken_to =
                    seen[n..].iter().any(|s| s["kind"] == "prompt" && s["session"] == session.as_str());
                let sessions = loaded.entry(id).or_default();
                if spoken_to && !sessions.contains(&session) {
                    sessions.push(session);
                }
            }
        }
        for (id, session) in self.loaded_by_real(transcripts) {
            let sessions = loaded.entry(id).or_default();
            if !sessions.contains(&session) {
                sessions.push(session);
            }
        }
        // A client that was killed before its first hook, or whose hook met a full disk, left no sign of life: its claim
        // lapses, and the handoff is loaded again. Nothing that was consumed is.
        let folder = self.world.home.path().join(".claude/handoff");
        let files = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let histories = files.filter(|path| path.to_string_lossy().ends_with(".history.jsonl"));
        let history: String = histories.filter_map(|path| std::fs::read_to_string(path).ok()).collect();
        // Consumption is recorded before it is committed. If the disk was full in between, the log has it at the same
        // instant.
        let log = self.world.baton(&["log", "--json", "--all", "-n", "1000000"]).out;
        let failed: Vec<String> = log
            .lines()
            .filter(|line| line.contains("mark a handoff as consumed"))
            .filter_map(|line| between(line, r#""at":""#, "\""))
            .collect();
        for (id, sessions) in loaded {
            let id = id.trim_end_matches(')');
            let is_consumed = |line: &&str| {
                let is_its = line.contains(&format!(r#""entry":{{"id":"HO-{id}""#));
                let at = between(line, r#""at":""#, "\"").unwrap_or_default();
                is_its && line.contains(r#""what":"consumed""#) && !failed.contains(&at)
            };
            let consumed = history.lines().filter(is_consumed).count();
            let told = || {
                let lines: Vec<&str> = history.lines().filter(|line| line.contains(id)).collect();
                let logs: Vec<String> = sessions.iter().map(|session| self.log_of(session)).collect();
                format!("{}\n\n{}", lines.join("\n"), logs.join("\n\n"))
            };
            assert!(
                sessions.len() <= 1 || consumed <= 1,
                "handoff {id} was loaded into {sessions:?}\n{}",
                told()
            );
        }
    }

    /// The handoffs that real clients were given and then spoken to, with the session: only their transcripts tell.
    fn loaded_by_real(&self, transcripts: &str) -> Vec<(String, String)> {
        let real = self.agents.iter().filter(|agent| self.is_real(agent));
        let sessions: Vec<String> = real
            .flat_map(|agent| self.world.agent(agent)["sessions"].as_array().cloned().unwrap_or_default())
            .filter_map(|session| session.as_str().map(str::to_owned))
            .collect();
        let session_of =
            |line: &str| between(line, r#""sessionId":""#, "\"").filter(|id| sessions.contains(id));
        let spoken_to: Vec<String> = transcripts
            .lines()
            .filter(|line| line.contains(r#""type":"user""#))
            .filter_map(session_of)
            .collect();
        let given = transcripts.lines().filter(|line| {
            line.contains(r#""type":"attachment""#) && line.contains("=== HANDOFF LOADED (ID: HO-")
        });
        let found =
            given.filter_map(|line| Some((between(line, "LOADED (ID: HO-", " ")?, session_of(line)?)));
        found.filter(|(_, session)| spoken_to.contains(session)).collect()
    }

    /// The record of one session.
    fn log_of(&self, session: &str) -> String {
        let log = self.world.baton(&["log", "--json", "-n", "1000000"]).out;
        let lines: Vec<&str> = log.lines().filter(|line| line.contains(session)).collect();
        let record =
            baton_testkit::home::record(&self.world.home.state().join(format!("sessions/{session}.json")));
        format!("{record}\n{}", lines.join("\n"))
    }

    fn nothing_runs_any_more(&mut self) {
        for agent in &self.agents {
            self.world.baton(&["retire", agent]);
        }
        self.kill_daemon();
        let home = self.world.home.path().display().to_string();
        let left = || {
            let processes = std::fs::read_dir("/proc").unwrap().flatten();
            let of_ours = |dir: &PathBuf| {
                let read = |name: &str| {
                    String::from_utf8_lossy(&std::fs::read(dir.join(name)).unwrap_or_default()).into_owned()
                };
                let line = read("cmdline");
                !line.contains("tmux") && read("environ").contains(&home) && line.contains("baton")
            };
            processes
                .map(|e| e.path())
                .filter(of_ours)
                .map(|dir| dir.display().to_string())
                .collect::<Vec<_>>()
        };
        let rest = poll(Duration::from_secs(30), || left().is_empty().then_some(()));
        assert!(rest.is_some(), "still running: {:?}", left());
    }
}

/// The text between two marks.
fn between(text: &str, before: &str, after: &str) -> Option<String> {
    let rest = &text[text.find(before)? + before.len()..];
    Some(rest[..rest.find(after)?].to_owned())
}

impl Drop for Soak {
    fn drop(&mut self) {
        self.kill_daemon();
    }
}

/// Whether we may create mounts on this machine, which takes root.
fn is_inside_possible() -> bool {
    let mut probe = Command::new("unshare");
    probe.args(["--mount", "--propagation", "private", "sh", "-c"]);
    probe.arg("mkdir -p \"$1\" && mount -t tmpfs baton-probe \"$1\"").arg("sh");
    let dir = std::env::temp_dir().join(format!("baton-mount-{}", std::process::id()));
    let possible = probe.arg(&dir).stderr(Stdio::null()).status().is_ok_and(|status| status.success());
    let _ = std::fs::remove_dir(&dir);
    if !possible {
        baton_testkit::tools::skip("the part with a full file system: mounts are not possible here");
    }
    possible
}

/// Runs the calling test again inside a new mount namespace, if possible. `false` inside it, or without one.
pub(crate) fn ran_inside() -> bool {
    if std::env::var_os(INSIDE).is_some() || !is_inside_possible() {
        return false;
    }
    let mut inside = Command::new("unshare");
    inside.args(["--mount", "--propagation", "private"]).arg(std::env::current_exe().unwrap());
    inside.args(["--exact", "--nocapture", std::thread::current().name().unwrap()]);
    assert!(inside.env(INSIDE, "1").status().unwrap().success(), "see above");
    true
}

#[test]
fn soak_ten_agents_under_random_faults_come_to_rest_and_nothing_is_lost_or_came_twice() {
    if ran_inside() {
        return;
    }
    let Some(mut soak) = Soak::new(|_, _| None) else { return };
    soak.run();
}

impl Soak {
    /// The faults, and what must be true afterwards.
    pub(crate) fn run(&mut self) {
        self.start_daemon();
        self.spawn_all();
        let long = baton_testkit::times(1) > 1;
        let until = Instant::now() + Duration::from_mins(if long { 30 } else { 1 });
        while Instant::now() < until {
            self.happen();
        }
        if let Some(real) = &self.real {
            real.calm_down();
        }
        // The faults are over: agents that are gone are restored once more, and all come to rest by themselves.
        for agent in self.agents.clone() {
            if !self.is_running(&agent) {
                self.restore(&agent);
            }
        }
        let rest = poll(REST, || self.unrest().is_empty().then_some(()));
        if rest.is_none() {
            let unrest = self.unrest();
            let first = unrest[0].split(' ').next().unwrap_or_default().to_owned();
            panic!("{:?}\n{}\n{}", self.counts, unrest.join("\n"), self.world.told(&first));
        }
        let transcripts = self.transcripts();
        let loaded = self.loaded_by_real(&transcripts).len();
        eprintln!("soak: {:?}, {} messages, {loaded} loads by real clients", self.counts, self.sent.len());
        assert_eq!(self.real.is_some(), loaded > 0, "real clients take part where there are any");
        self.every_message_was_seen_once_or_has_visibly_failed(&transcripts);
        self.no_handoff_was_lost_or_loaded_twice(&transcripts);
        self.nothing_runs_any_more();
    }
}
