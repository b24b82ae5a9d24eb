//! How records become facts: a call is remembered until its outcome comes, and only the outcome makes a fact.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::commands::{self, Outcome};
use super::jobs;
use super::shell;
use super::words::{Answered, Said, Way};
use super::{Ledger, Plan, Question, text};
use crate::transcript::{Action, Body, Item, Origin, Record, TodoStatus, Touch};

/// Calls whose outcome has not come. More than this many at once means that outcomes are missing.
const OPEN: usize = 128;
const REPLY_CHARS: usize = 6_000;
/// A tool's output beyond this is an image or a dump: no rule looks into it.
const OUTPUT: usize = 1 << 20;

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct OpenCalls {
    calls: VecDeque<(String, Act)>,
}

/// What is remembered of a call.
#[derive(Debug, Clone, Serialize, Deserialize)]
enum Act {
    Shell { command: String, background: bool },
    Files(Vec<(Touch, String)>),
    TaskCreated(String),
    Agent { what: String, background: bool },
    Stopped(String),
    Asked(Vec<String>),
    Plan,
    Other(String),
}

impl OpenCalls {
    fn open(&mut self, id: &str, act: Act) {
        if self.calls.len() >= OPEN {
            self.calls.pop_front();
        }
        self.calls.push_back((id.to_owned(), act));
    }

    fn close(&mut self, id: &str) -> Option<Act> {
        let at = self.calls.iter().position(|(open, _)| open == id)?;
        self.calls.remove(at).map(|(_, act)| act)
    }

    pub(super) fn labels(&self) -> impl Iterator<Item = &str> {
        self.calls.iter().filter_map(|(_, act)| act.label())
    }
}

impl Act {
    /// What a person would call it.
    fn label(&self) -> Option<&str> {
        match self {
            Self::Shell { command, .. } => Some(command),
            Self::Agent { what, .. } => Some(what),
            Self::Files(files) => files.first().map(|(_, path)| path.as_str()),
            _ => None,
        }
    }
}

impl Ledger {
    pub(super) fn take(&mut self, record: Record<'_>) {
        if record.sidechain {
            return;
        }
        if let Some(time) = &record.time {
            if self.started.is_none() {
                self.started = Some(time.clone().into_owned());
            }
            time.as_ref().clone_into(self.ended.get_or_insert_default());
        }
        if let Some(branch) = &record.branch {
            self.git.on_branch(branch, self.stretch, || record.origin());
        }
        if self.root.is_none() {
            self.root = record.cwd.as_deref().map(str::to_owned);
        }
        for (place, value) in [(&mut self.session, &record.session), (&mut self.cwd, &record.cwd)] {
            if let Some(value) = value
                && place.as_deref() != Some(value)
            {
                *place = Some(value.clone().into_owned());
            }
        }
        if record.items.is_empty() {
            return;
        }
        let origin = record.origin();
        for item in record.items {
            self.item(item, &origin);
        }
    }

    fn item(&mut self, item: Item<'_>, origin: &Origin) {
        let stretch = self.stretch;
        match item {
            Item::Prompt(words) => self.said(&words, Way::Prompt, origin),
            Item::Queued(words) => self.said(&words, Way::Queued, origin),
            Item::Command { args, .. } => self.said(&args, Way::Command, origin),
            Item::Interrupted => self.words.answered = Answered::Interrupted,
            Item::TaskEnded { id, status, result } => self.jobs.ended(&id, &status, &result),
            Item::Reply(reply) => {
                self.words.answered = Answered::Yes;
                self.mentions.find(&reply);
                let kept =
                    text::clip(&reply, REPLY_CHARS).unwrap_or_else(|| text::clip_lines(&reply, REPLY_CHARS));
                self.last_reply = Some(Said {
                    text: kept.to_owned(),
                    way: Way::Answer,
                    left_out: reply.trim().chars().count().saturating_sub(kept.chars().count()),
                    stretch,
                    origin: origin.clone(),
                });
            }
            Item::Call { id, action } => self.call(&id, action, origin),
            Item::Outcome { id, failed, body } => self.outcome(&id, failed, &body, origin),
            Item::TurnEnded => {
                if self.words.answered == Answered::Working {
                    self.words.answered = Answered::Yes;
                }
            }
            Item::Boundary => self.stretch += 1,
            Item::Link(url) => self.git.find_links(&url, stretch, origin),
        }
    }

    fn said(&mut self, words: &str, way: Way, origin: &Origin) {
        if words.trim().is_empty() {
            return;
        }
        // Whatever was asked, the user has spoken since.
        self.questions.clear();
        self.git.find_links(words, self.stretch, origin);
        self.mentions.find(words);
        self.seen.scan(words);
        self.words.say(words, way, self.stretch, origin);
    }

    fn call(&mut self, id: &str, action: Action<'_>, origin: &Origin) {
        self.words.answered = Answered::Working;
        let stretch = self.stretch;
        let act = match action {
            Action::Shell { command, background } => Act::Shell { command: command.into_owned(), background },
            Action::Files(files) => Act::Files(files.into_iter().map(|(t, p)| (t, p.into_owned())).collect()),
            Action::Todos(todos) => {
                self.todos.replace(&todos, stretch, origin);
                Act::Other("TodoWrite".to_owned())
            }
            Action::TaskCreated { subject } => Act::TaskCreated(subject.into_owned()),
            Action::TaskUpdated { id, status, subject } => {
                self.todos.update(&id, status, subject.as_deref(), stretch, origin);
                Act::Other("TaskUpdate".to_owned())
            }
            Action::Agent { description, background } => {
                Act::Agent { what: description.into_owned(), background }
            }
            Action::Stopped { id } => Act::Stopped(id.into_owned()),
            Action::Asked(questions) => Act::Asked(questions.into_iter().map(String::from).collect()),
            Action::Plan(_) => Act::Plan,
            Action::Other(name) => Act::Other(name.into_owned()),
        };
        if let Act::Asked(questions) = &act {
            let ask = |q: &String| Question { text: q.clone(), stretch, origin: origin.clone() };
            self.questions = questions.iter().take(8).map(ask).collect();
        }
        self.open.open(id, act);
    }

    fn outcome(&mut self, id: &str, failed: bool, body: &Body<'_>, origin: &Origin) {
        if body.size() <= OUTPUT {
            self.seen.scan(body.stored());
        }
        let Some(act) = self.open.close(id) else { return };
        if failed {
            let output = body.text();
            if let Some(refused) = output.trim_start().strip_prefix("The user doesn't want to proceed") {
                self.refused(&act, &output, refused, origin);
                return;
            }
            self.failed(act, &output, origin);
            return;
        }
        self.succeeded(act, body, origin);
    }

    /// The user refused a call; what was said with it is a correction in their own words.
    fn refused(&mut self, act: &Act, output: &str, refused: &str, origin: &Origin) {
        self.words.answered = Answered::Interrupted;
        let said = refused.split_once("the user said:").map(|(_, words)| words.trim()).unwrap_or_default();
        // A refused question comes back with a text of the client's around it.
        let from_client = said.starts_with("The user wants to clarify these questions");
        if !said.is_empty() && !from_client {
            self.said(said, Way::Refusal, origin);
            self.words.answered = Answered::No;
        }
        let cause = act.label().unwrap_or_default();
        self.commands.refused(cause, output, self.stretch, origin);
        if matches!(act, Act::Shell { .. } | Act::Files(_)) {
            let tried = text::clip_lines(cause, 600).to_owned();
            self.words.refuse(tried, self.stretch, origin);
        }
    }

    fn failed(&mut self, act: Act, output: &str, origin: &Origin) {
        let stretch = self.stretch;
        match act {
            Act::Shell { command, .. } => {
                let outcome = commands::exit_code(output).map_or(Outcome::Failed, Outcome::Exit);
                if command.contains("git") {
                    self.git.output(&command, output, stretch, origin);
                }
                self.commands.ran(&command, outcome, output, stretch, origin);
            }
            Act::Files(files) => {
                // A file that could not be read is a look in the wrong place; nothing waits for it.
                let Some((touch, path)) = files.into_iter().next() else { return };
                let topic = (touch != Touch::Read).then(|| format!("file {path}"));
                self.commands.failed(&path, topic, Outcome::Failed, output, stretch, origin);
            }
            Act::Asked(_) => {}
            Act::Other(name) => {
                let topic = name.starts_with("mcp__").then(|| format!("tool {name}"));
                self.commands.failed(&name, topic, Outcome::Failed, output, stretch, origin);
            }
            Act::Agent { what, .. } | Act::TaskCreated(what) => {
                self.commands.failed(&what, None, Outcome::Failed, output, stretch, origin);
            }
            Act::Stopped(_) | Act::Plan => {
                self.commands.failed("", None, Outcome::Failed, output, stretch, origin);
            }
        }
    }

    fn succeeded(&mut self, act: Act, body: &Body<'_>, origin: &Origin) {
        let stretch = self.stretch;
        match act {
            Act::Shell { command, background } => self.shell_ran(&command, background, body, origin),
            Act::Files(files) => {
                for (touch, path) in files {
                    // Only the answer tells a new file from one that was there.
                    let touch = if touch == Touch::Created && body.text().contains("has been updated") {
                        Touch::Edited
                    } else {
                        touch
                    };
                    self.touched(touch, &path, origin);
                }
            }
            Act::TaskCreated(subject) => {
                let output = body.text();
                let id =
                    output.strip_prefix("Task #").and_then(|rest| rest.split_once(' ')).map(|(id, _)| id);
                self.todos.add(id, &subject, TodoStatus::Pending, stretch, origin);
            }
            Act::Agent { what, background } => {
                let output = body.text();
                let launched = background || output.starts_with("Async agent launched");
                match jobs::background_id(&output).filter(|_| launched) {
                    Some(id) => self.jobs.started(id, &what, true, stretch, origin),
                    None => self.jobs.returned(&what, &output, stretch, origin),
                }
            }
            Act::Stopped(id) => self.jobs.ended(&id, "stopped", ""),
            Act::Asked(_) => {
                self.questions.clear();
                let output = body.text();
                self.mentions.find(&output);
                self.words.say(&output, Way::Answer, stretch, origin);
            }
            Act::Plan => {
                let output = body.text();
                if let Some((_, rest)) = output.split_once("saved to: ") {
                    let path = rest.lines().next().unwrap_or_default().trim();
                    self.plan = Some(Plan { path: path.to_owned(), stretch, origin: origin.clone() });
                }
            }
            Act::Other(name) => self.commands.worked(&name, &format!("tool {name}"), stretch, origin),
        }
    }

    fn shell_ran(&mut self, command: &str, background: bool, body: &Body<'_>, origin: &Origin) {
        let stretch = self.stretch;
        let kind = shell::kind(command);
        let git = command.contains("git") || command.contains("gh ");
        // Most outputs (listings, searches) are looked at by no rule and stay undecoded. A command that the client
        // moved to the background by itself says so in a short answer.
        let wanted = kind.is_some() || git || background || body.size() < 600;
        let output = if wanted && body.size() <= OUTPUT { body.text() } else { "".into() };
        if let Some(id) = jobs::background_id(&output).filter(|_| background || output.contains(" with ")) {
            self.jobs.started(id, command, false, stretch, origin);
            self.commands.ran(command, Outcome::Unknown, "", stretch, origin);
            return;
        }
        if git {
            self.git.output(command, &output, stretch, origin);
        }
        self.commands.ran(command, Outcome::Exit(0), &output, stretch, origin);
        for path in shell::removed(command) {
            let known = self.files.files.iter().rev().find(|f| ends_with_path(&f.path, &path));
            let path = known.map_or(path, |file| file.path.clone());
            self.files.touch(Touch::Deleted, &path, stretch, origin);
        }
        for path in shell::written(command) {
            let known = self.files.files.iter().rev().find(|f| ends_with_path(&f.path, &path));
            let path = known.map_or(path, |file| file.path.clone());
            self.files.touch(Touch::Edited, &path, stretch, origin);
        }
    }

    fn touched(&mut self, touch: Touch, path: &str, origin: &Origin) {
        let stretch = self.stretch;
        self.files.touch(touch, path, stretch, origin);
        self.commands.worked(path, &format!("file {path}"), stretch, origin);
        if touch == Touch::Deleted || !plan_file(path) {
            return;
        }
        // Reading an old plan does not replace the one that is being written.
        let written = self.plan.as_ref().is_some_and(|plan| plan.stretch == stretch && plan.path != path);
        if touch != Touch::Read || !written {
            self.plan = Some(Plan { path: path.to_owned(), stretch, origin: origin.clone() });
        }
    }
}

fn ends_with_path(known: &str, path: &str) -> bool {
    let path = path.trim_start_matches("./");
    known.strip_suffix(path).is_some_and(|before| before.is_empty() || before.ends_with('/'))
}

/// A Markdown file in a folder of plans, or one that is called a plan.
fn plan_file(path: &str) -> bool {
    let Some(stem) = path.strip_suffix(".md") else { return false };
    let lower = stem.to_ascii_lowercase();
    let name = lower.rsplit('/').next().unwrap_or_default();
    lower.contains("/plans/")
        || lower.starts_with("plans/")
        || name.split(['-', '_', '.']).any(|p| p == "plan")
}
