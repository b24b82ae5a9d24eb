//! The client itself: one process, a chain of sessions, and whatever reaches it from outside.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::demo::agent::composer::{Composer, Key, STASH};
use crate::demo::agent::context_log::ContextLog;
use crate::demo::agent::handoff::Ask;
use crate::demo::agent::inbox::{Event, Inbox};
use crate::demo::agent::options::{Options, Resume};
use crate::demo::agent::payload::{Head, Payload};
use crate::demo::agent::screen::Screen;
use crate::demo::agent::script::{Script, Turn};
use crate::demo::agent::settings::Sources;
use crate::demo::agent::transcript::{Stamp, Transcript, folder, uuid};

/// Why work stops.
pub(super) enum Halt {
    Signal(i32),
    /// Esc, or one Ctrl-C: the turn is over, the session is not.
    Escape,
    Exit,
    /// The API refused.
    Refused {
        error: String,
        text: String,
    },
    Failed(anyhow::Error),
}

pub(super) type Go<T> = Result<T, Halt>;

impl From<anyhow::Error> for Halt {
    fn from(e: anyhow::Error) -> Self {
        Self::Failed(e)
    }
}

impl From<std::io::Error> for Halt {
    fn from(e: std::io::Error) -> Self {
        Self::Failed(e.into())
    }
}

pub(super) struct Task {
    pub id: String,
    pub name: String,
    pub until: PathBuf,
}

pub(super) struct Client {
    pub options: Options,
    pub script: Script,
    pub pace: Duration,
    pub sources: Sources,
    pub inbox: Inbox,
    pub screen: Screen,
    pub composer: Composer,
    pub seen: ContextLog,
    pub cwd: PathBuf,
    /// Submitted prompts not yet worked on.
    pub queue: VecDeque<String>,
    pub working: bool,
    input_ended: bool,
    exit_asked: bool,
    pub tasks: Vec<Task>,

    pub session: String,
    pub transcript: Transcript,
    pub prompt_id: Option<String>,
    pub turns: VecDeque<Turn>,
    /// Input and output that the last answer reported; the input of the next one.
    pub reported: u64,
    pub tokens: u64,
    pub last_text: String,
    pub first_prompt: Option<String>,
    pub said: Vec<String>,
    pub notes: Vec<String>,
    pub ask: Option<Ask>,
    pub loaded: Option<String>,
}

/// Runs to the end; the exit code is the client's.
pub(super) fn run(options: Options) -> anyhow::Result<u8> {
    let mut client = Client::new(options)?;
    let headless = client.options.print;
    let outcome = if headless { client.print_once() } else { client.live() };
    let (reason, code) = match outcome {
        Ok(()) if headless => ("other", 0),
        Ok(()) | Err(Halt::Exit | Halt::Escape) => ("prompt_input_exit", 0),
        Err(Halt::Refused { .. }) => ("other", 1),
        Err(Halt::Signal(SIGTERM)) => ("other", 143),
        Err(Halt::Signal(SIGHUP)) => ("other", 129),
        Err(Halt::Signal(SIGINT)) => {
            if headless {
                println!("Execution error");
            }
            ("other", 0)
        }
        Err(Halt::Signal(other)) => ("other", u8::try_from(128 + other).unwrap_or(1)),
        Err(Halt::Failed(e)) => {
            client.screen.leave();
            eprintln!("{e:#}");
            ("other", 1)
        }
    };
    client.end(reason);
    client.screen.leave();
    Ok(code)
}

impl Client {
    fn new(mut options: Options) -> anyhow::Result<Self> {
        let (mut script, pace) = Script::from_env()?;
        if let Some(model) = options.model.take() {
            script.model = model;
        }
        let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
        let config_dir =
            std::env::var_os("CLAUDE_CONFIG_DIR").map_or_else(|| home.join(".claude"), PathBuf::from);
        let cwd = std::env::current_dir().context("the current folder cannot be read")?;
        let sources = Sources {
            config_dir: config_dir.clone(),
            project: cwd.clone(),
            plugin_dirs: std::mem::take(&mut options.plugin_dirs),
            extra: std::mem::take(&mut options.settings),
        };
        let (session, transcript) = conversation(&options, &folder(&config_dir, &cwd))?;
        let tokens = Transcript::tokens(&transcript.path);
        let screen = if options.print { Screen::quiet() } else { Screen::enter(script.alternate_screen) };
        Ok(Self {
            options,
            script,
            pace,
            sources,
            inbox: Inbox::new()?,
            screen,
            composer: Composer::default(),
            seen: ContextLog::from_env(),
            cwd,
            queue: VecDeque::new(),
            working: false,
            input_ended: false,
            exit_asked: false,
            tasks: Vec::new(),
            session,
            transcript,
            prompt_id: None,
            turns: VecDeque::new(),
            reported: tokens,
            tokens,
            last_text: String::new(),
            first_prompt: None,
            said: Vec::new(),
            notes: Vec::new(),
            ask: None,
            loaded: None,
        })
    }

    /// Interactive: takes prompts until told to exit.
    fn live(&mut self) -> Go<()> {
        self.inbox.listen();
        self.screen.line(&format!("✳ Scripted agent · {} · {}", self.script.model, self.cwd.display()));
        self.begin_first()?;
        self.status_line();
        self.queue.extend(self.options.prompt.take());
        loop {
            while let Some(line) = self.queue.pop_front() {
                self.screen.line(&format!("❯\u{a0}{line}"));
                self.submit(&line)?;
            }
            if self.input_ended {
                return Ok(());
            }
            self.wait_for_prompt()?;
        }
    }

    /// Fires SessionStart as the command line asks: fresh, resumed or forked.
    pub(super) fn begin_first(&mut self) -> Go<()> {
        let source = match (&self.options.resume, self.options.fork) {
            (Some(_), true) => "fork",
            (Some(_), false) => "resume",
            (None, _) => "startup",
        };
        self.begin(source)
    }

    /// Begins a session, or a context within it.
    pub(super) fn begin(&mut self, source: &str) -> Go<()> {
        if source != "compact" {
            let n = self.seen.begin_context();
            self.turns = self.script.context(n).into();
            self.note("context-begins", json!({ "source": source, "n": n }));
        }
        let model = (source != "clear").then(|| self.script.model.clone());
        let resumed = matches!(source, "resume" | "fork").then_some((7, self.tokens));
        let answers = self.hooks(&Payload::session_start(source, model.as_deref(), resumed));
        self.take_in("SessionStart", &answers.contexts)
    }

    /// Handles one line from the composer: a client command or a prompt.
    fn submit(&mut self, line: &str) -> Go<()> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "" => Ok(()),
            "/exit" | "/quit" => Err(Halt::Exit),
            "/clear" => self.clear(),
            "/compact" => {
                self.compact("manual", Some(rest).filter(|r| !r.is_empty()))?;
                Ok(())
            }
            _ => self.turn(line),
        }
    }

    /// A new conversation in the same process.
    fn clear(&mut self) -> Go<()> {
        self.hooks(&Payload::session_end("clear"));
        self.note("end", json!({ "reason": "clear" }));
        self.session = uuid()?;
        let name = format!("{}.jsonl", self.session);
        self.transcript = Transcript::new(self.transcript.path.with_file_name(name));
        (self.reported, self.tokens, self.prompt_id) = (0, 0, None);
        (self.ask, self.loaded, self.first_prompt) = (None, None, None);
        self.said.clear();
        self.notes.clear();
        self.screen.clear();
        self.begin("clear")?;
        self.status_line();
        Ok(())
    }

    /// Idle: handles keys and ended background tasks, and after a while notifies that it waits.
    fn wait_for_prompt(&mut self) -> Go<()> {
        let since = Instant::now();
        let mut notified = false;
        while self.queue.is_empty() && !self.input_ended {
            let idle =
                self.script.idle.filter(|_| !notified).map(|idle| idle.saturating_sub(since.elapsed()));
            let tasks = (!self.tasks.is_empty()).then_some(Duration::from_millis(10));
            let patience = idle.into_iter().chain(tasks).min();
            match self.inbox.next(patience) {
                Some(event) => self.handle(event)?,
                None if self.end_tasks() => {}
                None if idle.is_some_and(|i| i.is_zero()) || tasks.is_none() => {
                    notified = true;
                    self.hooks(&Payload::idle());
                }
                None => {}
            }
        }
        Ok(())
    }

    /// An ended background task begins a turn by itself.
    fn end_tasks(&mut self) -> bool {
        let (done, running) = std::mem::take(&mut self.tasks).into_iter().partition(|t| t.until.exists());
        self.tasks = running;
        let done: Vec<Task> = done;
        for task in &done {
            let text = format!(
                "<task-notification>\n<task-id>{}</task-id>\n<status>completed</status>\n<summary>{}</summary>\n\
                 </task-notification>",
                task.id, task.name
            );
            self.queue.push_back(text);
        }
        !done.is_empty()
    }

    /// Waits until `pick` finds what it wants, at most for `patience`; handles everything else meanwhile.
    pub(super) fn attend<T>(
        &mut self,
        patience: Option<Duration>,
        mut pick: impl FnMut(&mut Event) -> Option<T>,
    ) -> Go<Option<T>> {
        let deadline = patience.map(|p| Instant::now() + p);
        loop {
            let left = deadline.map(|d| d.saturating_duration_since(Instant::now()));
            let Some(mut event) = self.inbox.next(left) else { return Ok(None) };
            if let Some(found) = pick(&mut event) {
                return Ok(Some(found));
            }
            self.handle(event)?;
        }
    }

    fn handle(&mut self, event: Event) -> Go<()> {
        match event {
            Event::Signal(signal) => Err(Halt::Signal(signal)),
            Event::InputEnd => {
                self.queue.extend(self.composer.rest());
                self.input_ended = true;
                Ok(())
            }
            Event::Input(bytes) => {
                let mut bytes = bytes;
                bytes.retain(|b| self.script.stash || *b != STASH);
                let keys = self.composer.feed(&bytes);
                let outcome = keys.into_iter().try_for_each(|key| self.press(key));
                self.screen.draft(self.composer.draft());
                outcome
            }
            Event::Done(..) | Event::Written(_) => Ok(()),
        }
    }

    fn press(&mut self, key: Key) -> Go<()> {
        let asked_before = std::mem::take(&mut self.exit_asked);
        match key {
            Key::Submit(line) if self.script.drops > 0 => {
                self.script.drops -= 1;
                self.composer.keep(&line);
            }
            Key::Submit(line) => self.queue.push_back(line),
            Key::Escape if self.working => return Err(Halt::Escape),
            Key::Interrupt if self.working && !asked_before => {
                self.exit_asked = true;
                return Err(Halt::Escape);
            }
            Key::Interrupt | Key::End if asked_before => return Err(Halt::Exit),
            Key::Interrupt | Key::End => {
                self.exit_asked = true;
                self.screen.line("  Press Ctrl-C again to exit");
            }
            Key::Suspend => self.screen.suspend(),
            Key::Escape => self.note("escape-at-idle", json!({})),
        }
        Ok(())
    }

    fn end(&mut self, reason: &str) {
        self.hooks(&Payload::session_end(reason));
        self.note("end", json!({ "reason": reason }));
    }

    pub(super) fn head(&self) -> Head {
        Head {
            session: self.session.clone(),
            transcript: self.transcript.path.display().to_string(),
            cwd: self.cwd.display().to_string(),
            prompt_id: self.prompt_id.clone(),
            permission_mode: self.options.permission_mode.clone(),
        }
    }

    pub(super) fn entrypoint(&self) -> &'static str {
        if self.options.print { "sdk-cli" } else { "cli" }
    }

    /// The environment that hooks, status line and tools share.
    pub(super) fn dress(&self, command: &mut Command) {
        command
            .current_dir(&self.cwd)
            .env("CLAUDECODE", "1")
            .env("CLAUDE_PID", std::process::id().to_string())
            .env("CLAUDE_CODE_SESSION_ID", &self.session)
            .env("CLAUDE_CODE_ENTRYPOINT", self.entrypoint())
            .env("CLAUDE_CODE_SESSION_ATTENDED", if self.options.print { "0" } else { "1" })
            .env("CLAUDE_CODE_CHILD_SESSION", "1");
        if let Some((columns, lines)) = self.screen.size() {
            command.env("COLUMNS", columns.to_string()).env("LINES", lines.to_string());
        }
    }

    /// Where a SessionStart hook may write exports for the tools.
    pub(super) fn env_file(&self, n: usize) -> PathBuf {
        let dir = self.env_folder();
        // Without it the hook has nowhere to write and must cope.
        let _ = std::fs::create_dir_all(&dir);
        dir.join(format!("sessionstart-hook-{n}.sh"))
    }

    pub(super) fn env_files(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.env_folder()).into_iter().flatten().flatten();
        let mut files: Vec<PathBuf> = entries.map(|e| e.path()).collect();
        files.sort();
        files
    }

    fn env_folder(&self) -> PathBuf {
        self.sources.config_dir.join("session-env").join(&self.session)
    }

    pub(super) fn record(&mut self, kind: &str, fields: Value) -> anyhow::Result<()> {
        let cwd = self.cwd.display().to_string();
        let stamp = Stamp { session: &self.session, cwd: &cwd, entrypoint: self.entrypoint() };
        self.transcript.record(&stamp, kind, fields)
    }

    /// Passes hooks' texts to the model and writes them to the transcript.
    pub(super) fn take_in(&mut self, event: &str, contexts: &[String]) -> Go<()> {
        if contexts.is_empty() {
            return Ok(());
        }
        let rendered: Vec<Value> = contexts
            .iter()
            .map(|text| json!({ "content": format!("<system-reminder>\n{event} hook additional context: {text}\n</system-reminder>") }))
            .collect();
        let attachment = json!({
            "type": "hook_additional_context", "content": contexts, "hookName": event, "toolUseID": event,
            "hookEvent": event,
        });
        self.record(
            "attachment",
            json!({ "attachment": attachment, "rendered": rendered, "renderedRole": "system" }),
        )?;
        self.remember(contexts);
        Ok(())
    }

    pub(super) fn note(&self, kind: &str, what: Value) {
        self.seen.note(kind, &self.session, what);
    }
}

/// The conversation's id and its transcript.
fn conversation(options: &Options, folder: &Path) -> anyhow::Result<(String, Transcript)> {
    let path = |id: &str| folder.join(format!("{id}.jsonl"));
    let old = match &options.resume {
        None => {
            let id = options.session.clone().map_or_else(uuid, Ok)?;
            if path(&id).exists() {
                bail!("Error: Session ID {id} is already in use.");
            }
            let transcript = Transcript::new(path(&id));
            return Ok((id, transcript));
        }
        Some(Resume::Id(id)) => id.clone(),
        Some(Resume::Last) => newest(folder).context("No conversation found to continue")?,
    };
    if !path(&old).is_file() {
        bail!("No conversation found with session ID: {old}");
    }
    if !options.fork {
        let transcript = Transcript::resumed(path(&old));
        return Ok((old, transcript));
    }
    let id = options.session.clone().map_or_else(uuid, Ok)?;
    let text = std::fs::read_to_string(path(&old)).context("could not read the conversation to fork")?;
    std::fs::write(path(&id), text.replace(&old, &id)).context("could not write the forked conversation")?;
    let transcript = Transcript::resumed(path(&id));
    Ok((id, transcript))
}

fn newest(folder: &Path) -> Option<String> {
    let entries = std::fs::read_dir(folder).ok()?.flatten().map(|e| e.path());
    let transcripts = entries.filter(|p| p.extension().is_some_and(|e| e == "jsonl"));
    let newest = transcripts.max_by_key(|p| std::fs::metadata(p).and_then(|m| m.modified()).ok())?;
    Some(newest.file_stem()?.to_str()?.to_owned())
}
