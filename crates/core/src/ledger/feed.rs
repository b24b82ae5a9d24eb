//! How records become facts: a call is remembered until its outcome comes, and only the outcome makes a fact.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::commands::{self, Outcome};
use super::files::{is_temporary, relative};
use super::git;
use super::jobs;
use super::names::{holds_secrets, names_secrets};
use super::shell;
use super::words::{Answered, Route, Utterance, question_in};
use super::working::{By, Position};
use super::{Ledger, Plan, Question, text};
use crate::approval::answered_by;
use crate::speaker::{Speaker, speaker, without_foreign};
use crate::transcript::{
    self, Action, Author, Body, Change, Hunk, Item, Origin, Record, ScriptCall, ScriptResult, TodoStatus,
    Touch,
};

/// Calls whose outcome has not come. More than this many at once means that outcomes are missing.
const OPEN: usize = 128;
/// A tool's output beyond this is an image or a dump: no rule looks into it.
const OUTPUT: usize = 1 << 20;
/// Frames of ours that are remembered.
const LOADED: usize = 8;

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct OpenCalls {
    calls: VecDeque<(String, Act)>,
    /// What the client has reported by itself so far; a call that it reported needs no second look.
    reports: u64,
    /// Where the call runs whose outcome is being taken in, if that is said.
    #[serde(skip)]
    folder: Option<String>,
}

/// What is remembered of a call.
#[derive(Debug, Clone, Serialize, Deserialize)]
enum Act {
    Shell {
        command: String,
        background: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        folder: Option<String>,
    },
    Script {
        #[serde(default)]
        calls: Vec<ScriptCall>,
        reports: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        folder: Option<String>,
    },
    Poll(String),
    Read {
        path: String,
        from: u32,
        lines: u32,
    },
    Search {
        pattern: String,
        path: Option<String>,
    },
    Edit {
        changes: Vec<(Touch, String, Vec<StoredHunk>)>,
        reports: u64,
    },
    TaskCreated(String),
    Agent {
        what: String,
        background: bool,
    },
    Stopped(String),
    Asked(Vec<String>),
    Plan,
    Other(String),
}

/// A hunk as it is stored: line, growth, the definition and the heading around it.
type StoredHunk = (u32, i32, Option<String>, Option<String>);

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
            Self::Script { calls, .. } => commands_of(calls).next(),
            Self::Agent { what, .. } => Some(what),
            Self::Edit { changes, .. } => changes.first().map(|(_, path, _)| path.as_str()),
            Self::Read { path, .. } => Some(path),
            _ => None,
        }
    }

    /// Where it runs, if the call says so.
    fn folder(&self) -> Option<&String> {
        match self {
            Self::Shell { folder, .. } | Self::Script { folder, .. } => folder.as_ref(),
            _ => None,
        }
    }

    /// A tool of the client itself: what it says about a refusal is the client's own record.
    fn is_clients(&self) -> bool {
        !matches!(self, Self::Other(_) | Self::Poll(_) | Self::Script { .. } | Self::Agent { .. })
    }
}

fn commands_of(calls: &[ScriptCall]) -> impl Iterator<Item = &str> {
    calls
        .iter()
        .filter_map(|call| if let ScriptCall::Command(text) = call { Some(text.as_str()) } else { None })
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
            let cycle = self.cycle;
            self.git.on_branch(branch, || record.origin(cycle));
        }
        if self.root.is_none()
            && let Some(cwd) = &record.cwd
        {
            self.at_home(cwd);
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
        let origin = record.origin(self.cycle);
        let recent = record.offset >= self.recent_from;
        for item in record.items {
            self.item(item, &origin, recent);
        }
    }

    /// The folder of this session is known: paths of sessions that worked elsewhere become whole.
    fn at_home(&mut self, cwd: &str) {
        self.root = Some(cwd.to_owned());
        let Some(former) = self.former_root.take().filter(|former| former != cwd) else { return };
        for file in &mut self.files.files {
            if !file.path.starts_with('/') && file.path.as_bytes().get(1) != Some(&b':') {
                file.path = format!("{}/{}", former.replace('\\', "/"), file.path);
            }
            file.path = relative(&file.path, Some(cwd)).into_owned();
        }
    }

    fn item(&mut self, item: Item<'_>, origin: &Origin, recent: bool) {
        match item {
            Item::Prompt(words) => self.prompted(&words, Route::Prompt, origin, recent),
            Item::Queued(words) => self.prompted(&words, Route::Queued, origin, recent),
            Item::Told { author, text } => self.said(&text, Route::Prompt, &author, origin, recent),
            Item::Command { name, args } => {
                if !is_housekeeping(&name) {
                    let words = if args.trim().is_empty() { &name } else { &args };
                    self.said(words, Route::Command, &Author::User, origin, recent);
                    self.words.with_command(&name, origin);
                }
            }
            Item::Interrupted => self.words.answered = Answered::Interrupted,
            Item::TaskEnded { id, status, result } => {
                self.names(&result, By::Tool, &Position::NOWHERE, recent);
                // The client tells how a command ended that it ran in the background.
                let ended = match status.as_ref() {
                    "completed" => Some(Outcome::Exit(0)),
                    "failed" => Some(Outcome::Failed),
                    _ => None,
                };
                let job = self.jobs.running().find(|job| job.id == id && !job.agent);
                if let (Some(outcome), Some(job)) = (ended, job) {
                    self.commands.settled(&job.what, outcome);
                }
                self.jobs.ended(&id, &status, &result);
            }
            Item::AgentStarted { id } => {
                // The call that spawned it says what it is for, and comes first.
                self.jobs.named(&id);
            }
            Item::Reply(reply) => {
                self.working.act += 1;
                self.names(&reply, By::Agent, &Position::NOWHERE, recent);
                self.reply(&reply, origin);
            }
            Item::Call { id, action } => self.call(&id, action, origin, recent),
            Item::Outcome { id, outcome } => self.outcome(&id, &outcome, origin, recent),
            Item::Ran { id, command, process, folder, outcome } => {
                self.open.reports += 1;
                self.open.folder = folder.map(String::from);
                if let Some(Act::Poll(_) | Act::Edit { .. }) = self.open.close(&id) {
                    return;
                }
                if let Some(process) = process {
                    self.jobs.ended(&process, "ended", "");
                }
                self.ran(&command, false, &outcome, origin, recent);
            }
            Item::Patched { id, changes } => {
                self.open.reports += 1;
                self.open.close(&id);
                for change in &changes {
                    let path = self.path(&change.path);
                    self.touched(change.touch, &path, &change.hunks, origin);
                }
            }
            Item::Loaded(head) => {
                self.loaded.retain(|known| *known != head);
                self.loaded.push(head.into_owned());
                if self.loaded.len() > LOADED {
                    self.loaded.remove(0);
                }
            }
            Item::TurnEnded => {
                if self.words.answered == Answered::Working {
                    self.words.answered = Answered::Yes;
                }
            }
            Item::Boundary => self.cycle += 1,
            Item::Link(url) => self.git.find_links(&url, origin),
            Item::Branch(name) => self.git.on_branch(&name, || origin.clone()),
        }
    }

    /// Names of a text, if it is of the recent past.
    fn names(&mut self, text: &str, by: By, place: &Position<'_>, recent: bool) {
        if recent {
            self.working.take(text, by, place, &mut self.files);
        }
    }

    /// Words in the place of a prompt that the client does not say are someone else's.
    fn prompted(&mut self, words: &str, way: Route, origin: &Origin, recent: bool) {
        let typed = without_foreign(words);
        let Speaker::Person(words) = speaker(&typed) else { return };
        let first = !std::mem::replace(&mut self.prompted, true);
        match self.started_by.clone() {
            Some(agent) if first => self.said(words, Route::Task, &Author::Agent(agent), origin, recent),
            _ => self.said(words, way, &Author::User, origin, recent),
        }
    }

    fn said(&mut self, words: &str, way: Route, author: &Author, origin: &Origin, recent: bool) {
        if words.trim().is_empty() {
            return;
        }
        let user = *author == Author::User;
        if user {
            // Whatever was asked, the user has spoken since.
            self.questions.clear();
            self.git.find_links(words, origin);
        }
        self.names(words, if user { By::User } else { By::Tool }, &Position::NOWHERE, recent);
        self.seen.scan(words);
        let asked = self.last_reply().filter(|_| user && self.words.answered == Answered::Yes);
        let question = asked.and_then(|reply| question_in(&reply.text, words));
        self.words.say(words, way, author, question.as_deref(), origin);
        if let Some(said) = self.words.recent.last().cloned()
            && self.exchange.back() != Some(&said)
        {
            self.exchanged(said);
        }
    }

    /// A path as it is shown: below the folder of the task.
    fn path(&self, path: &str) -> String {
        relative(path, self.root.as_deref()).into_owned()
    }

    fn call(&mut self, id: &str, action: Action<'_>, origin: &Origin, recent: bool) {
        self.words.answered = Answered::Working;
        self.working.act += 1;
        let reports = self.open.reports;
        let act = match action {
            Action::Shell { command, background, folder } => {
                self.names(
                    &command,
                    By::Agent,
                    &Position { root: self.root.clone().as_deref(), ..Position::NOWHERE },
                    recent,
                );
                Act::Shell { command: command.into_owned(), background, folder }
            }
            Action::Script { calls, text, folder } => {
                self.names(
                    &text,
                    By::Agent,
                    &Position { root: self.root.clone().as_deref(), ..Position::NOWHERE },
                    recent,
                );
                Act::Script { calls, reports, folder }
            }
            Action::Poll { process, text } => {
                self.names(&text, By::Agent, &Position::NOWHERE, recent);
                Act::Poll(process)
            }
            Action::Read { path, from, lines } => {
                let path = self.path(&path);
                self.names(&path, By::Agent, &Position::NOWHERE, recent);
                Act::Read { path, from: from.unwrap_or(0), lines: lines.unwrap_or(0) }
            }
            Action::Search { pattern, path } => {
                let path = path.map(|path| self.path(&path));
                self.names(&pattern, By::Agent, &Position::NOWHERE, recent);
                self.names(path.as_deref().unwrap_or_default(), By::Agent, &Position::NOWHERE, recent);
                Act::Search { pattern: text::clip_words(&pattern, 80).into_owned(), path }
            }
            Action::Edit(changes) => {
                let changes =
                    changes.into_iter().map(|change| self.editing(change, origin, recent)).collect();
                Act::Edit { changes, reports }
            }
            Action::Todos(todos) => {
                self.todos.replace(&todos, origin);
                Act::Other("TodoWrite".to_owned())
            }
            Action::TaskCreated { subject } => Act::TaskCreated(subject.into_owned()),
            Action::TaskUpdated { id, status, subject } => {
                self.todos.update(&id, status, subject.as_deref(), origin);
                Act::Other("TaskUpdate".to_owned())
            }
            Action::Agent { description, background } => {
                self.names(&description, By::Agent, &Position::NOWHERE, recent);
                Act::Agent { what: description.into_owned(), background }
            }
            Action::Stopped { id } => Act::Stopped(id.into_owned()),
            Action::Asked(questions) => Act::Asked(questions.into_iter().map(String::from).collect()),
            Action::Plan(plan) => {
                self.names(&plan, By::Agent, &Position::NOWHERE, recent);
                Act::Plan
            }
            Action::Other { name, input } => {
                if recent && input.size() <= OUTPUT {
                    self.names(&input.strings(), By::Agent, &Position::NOWHERE, recent);
                }
                Act::Other(name.into_owned())
            }
        };
        if let Act::Asked(questions) = &act {
            let ask = |q: &String| Question { text: q.clone(), origin: origin.clone() };
            self.questions = questions.iter().take(8).map(ask).collect();
        }
        self.open.open(id, act);
    }

    /// A file is about to be changed: what is written is in play, whatever comes of it.
    fn editing(
        &mut self,
        change: Change<'_>,
        origin: &Origin,
        recent: bool,
    ) -> (Touch, String, Vec<StoredHunk>) {
        let path = self.path(&change.path);
        if recent && !holds_secrets(&path) {
            self.names(&path, By::Agent, &Position::NOWHERE, recent);
            let file = (!is_scratch(&path)).then(|| self.files.place(&path, self.working.act, origin));
            let root = self.root.clone();
            let place = Position { file, numbered: false, root: root.as_deref() };
            for text in &change.texts {
                self.names(text, By::Agent, &place, recent);
            }
        }
        let hunks = change
            .hunks
            .into_iter()
            .map(|hunk| (hunk.line, hunk.growth, hunk.around, hunk.heading))
            .collect();
        (change.touch, path, hunks)
    }

    fn outcome(&mut self, id: &str, outcome: &transcript::Outcome<'_>, origin: &Origin, recent: bool) {
        if outcome.body.size() <= OUTPUT {
            self.seen.scan(outcome.body.stored());
        }
        let Some(act) = self.open.close(id) else { return };
        self.open.folder = act.folder().cloned();
        if outcome.failed {
            let output = outcome.body.text();
            let refused = output.trim_start().strip_prefix("The user doesn't want to proceed");
            if let Some(refused) = refused.filter(|_| outcome.is_refusal()) {
                self.refused(&act, &output, refused, origin, recent);
                return;
            }
            self.failed(act, outcome, &output, origin, recent);
            return;
        }
        self.succeeded(act, outcome, origin, recent);
    }

    /// The user refused a call; what was said with it is a correction in their own words. A tool of others can print
    /// the same sentence, so its words are only something said in the session.
    fn refused(&mut self, act: &Act, output: &str, refused: &str, origin: &Origin, recent: bool) {
        let said = refused.split_once("the user said:").map(|(_, words)| words.trim()).unwrap_or_default();
        if !act.is_clients() {
            self.said(said, Route::Refusal, &Author::Unknown, origin, recent);
            return;
        }
        self.words.answered = Answered::Interrupted;
        // A refused question comes back with a text of the client's around it.
        let from_client = said.starts_with("The user wants to clarify these questions");
        if !said.is_empty() && !from_client {
            self.said(said, Route::Refusal, &Author::User, origin, recent);
            self.words.answered = Answered::No;
        }
        let cause = act.label().unwrap_or_default();
        self.commands.refused(cause, output, origin);
        if matches!(act, Act::Shell { .. } | Act::Edit { .. }) {
            let tried = text::clip_lines(cause, 600).to_owned();
            self.words.refuse(tried, origin);
        }
    }

    fn failed(
        &mut self,
        act: Act,
        outcome: &transcript::Outcome<'_>,
        output: &str,
        origin: &Origin,
        recent: bool,
    ) {
        match act {
            Act::Shell { command, background, .. } => self.ran(&command, background, outcome, origin, recent),
            Act::Script { calls, reports, folder } if !outcome.results.is_empty() => {
                self.scripted(calls, reports, folder, outcome, origin, recent);
            }
            Act::Script { calls, .. } => {
                let cause = commands_of(&calls).next().unwrap_or("script");
                self.commands.failed(cause, Some(shell::topic(cause)), Outcome::Failed, output, origin);
            }
            Act::Poll(process) => self.polled(&process, outcome, origin, recent),
            Act::Edit { changes, .. } => {
                let Some((_, path, _)) = changes.into_iter().next() else { return };
                let topic = format!("file {path}");
                self.commands.failed(&path, Some(topic), Outcome::Failed, output, origin);
            }
            // A file that could not be read is a look in the wrong place; nothing waits for it.
            Act::Read { path, .. } => self.commands.failed(&path, None, Outcome::Failed, output, origin),
            Act::Asked(_) => {}
            Act::Other(name) => {
                let topic = name.starts_with("mcp__").then(|| format!("tool {name}"));
                self.commands.failed(&name, topic, Outcome::Failed, output, origin);
            }
            Act::Agent { what, .. } | Act::TaskCreated(what) => {
                self.commands.failed(&what, None, Outcome::Failed, output, origin);
            }
            Act::Search { pattern, .. } => {
                self.commands.failed(&pattern, None, Outcome::Failed, output, origin);
            }
            Act::Stopped(_) | Act::Plan => self.commands.failed("", None, Outcome::Failed, output, origin),
        }
    }

    fn succeeded(&mut self, act: Act, outcome: &transcript::Outcome<'_>, origin: &Origin, recent: bool) {
        let body = &outcome.body;
        match act {
            Act::Shell { command, background, .. } => self.ran(&command, background, outcome, origin, recent),
            Act::Script { calls, reports, folder } => {
                self.scripted(calls, reports, folder, outcome, origin, recent);
            }
            Act::Poll(process) => self.polled(&process, outcome, origin, recent),
            Act::Read { path, from, lines } => self.read_file(&path, from, lines, body, origin, recent),
            Act::Search { pattern, path } => {
                let root = self.root.clone();
                let file = path.as_deref().filter(|path| has_extension(path)).map(|path| {
                    let id = self.files.touch(Touch::Read, path, self.working.act, origin);
                    self.files.searched(id, &pattern);
                    id
                });
                self.shown(
                    body,
                    &Position { file, numbered: true, root: root.as_deref() },
                    Some(&pattern),
                    origin,
                    recent,
                );
            }
            Act::Edit { changes, reports } => {
                // The client has reported it already.
                if self.open.reports > reports {
                    return;
                }
                let noted = outcome.note.map(transcript::claude::hunks).unwrap_or_default();
                let updated = changes.len() == 1 && body.text().contains("has been updated");
                for (touch, path, hunks) in changes {
                    // Only the answer tells a new file from one that was there.
                    let touch = if touch == Touch::Created && updated { Touch::Edited } else { touch };
                    let hunks: Vec<Hunk> = if noted.is_empty() {
                        let known = |(line, growth, around, heading)| Hunk {
                            line,
                            lines: 1,
                            growth,
                            around,
                            heading,
                        };
                        hunks.into_iter().map(known).collect()
                    } else {
                        noted.clone()
                    };
                    self.touched(touch, &path, &hunks, origin);
                }
            }
            Act::TaskCreated(subject) => {
                let output = body.text();
                let id =
                    output.strip_prefix("Task #").and_then(|rest| rest.split_once(' ')).map(|(id, _)| id);
                self.todos.add(id, &subject, TodoStatus::Pending, origin);
            }
            Act::Agent { what, background } => {
                let output = body.text();
                self.names(&output, By::Tool, &Position::NOWHERE, recent);
                let launched = background || output.starts_with("Async agent launched");
                let id = jobs::background_id(&output).map(str::to_owned).or_else(|| jobs::task_name(&output));
                match id.filter(|_| launched) {
                    Some(id) => self.jobs.started(&id, &what, true, origin),
                    None => self.jobs.returned(&what, &output, origin),
                }
            }
            Act::Stopped(id) => self.jobs.ended(&id, "stopped", ""),
            Act::Asked(questions) => self.asked(&questions, outcome, origin, recent),
            Act::Plan => {
                let output = body.text();
                if let Some((_, rest)) = output.split_once("saved to: ") {
                    let path = rest.lines().next().unwrap_or_default().trim();
                    self.plan = Some(Plan { path: self.path(path), origin: origin.clone() });
                }
            }
            Act::Other(name) => {
                self.shown(body, &Position::NOWHERE, None, origin, recent);
                self.commands.worked(&name, &format!("tool {name}"), origin);
            }
        }
    }

    /// What a tool printed, for its names.
    fn shown(
        &mut self,
        body: &Body<'_>,
        place: &Position<'_>,
        pattern: Option<&str>,
        origin: &Origin,
        recent: bool,
    ) {
        if !recent || body.size() > OUTPUT {
            return;
        }
        let text = body.text();
        if let Some(pattern) = pattern.filter(|_| place.file.is_none()) {
            self.files.searched_in(&text, place.root, pattern, self.working.act, origin);
        }
        self.names(&text, By::Tool, place, recent);
    }

    fn read_file(
        &mut self,
        path: &str,
        from: u32,
        lines: u32,
        body: &Body<'_>,
        origin: &Origin,
        recent: bool,
    ) {
        if is_scratch(path) {
            return;
        }
        let id = self.files.touch(Touch::Read, path, self.working.act, origin);
        self.commands.worked(path, &format!("file {path}"), origin);
        self.planned(Touch::Read, path, origin);
        if from > 0 || lines > 0 {
            self.files.ranged(id, from.max(1), if lines > 0 { from.max(1) + lines - 1 } else { 0 });
        }
        if !holds_secrets(path) {
            let root = self.root.clone();
            self.shown(
                body,
                &Position { file: Some(id), numbered: true, root: root.as_deref() },
                None,
                origin,
                recent,
            );
        }
    }

    /// A call that the user refused from elsewhere, in their words: the client's record does not tell whose they are.
    pub fn refused_by_user(&mut self, reason: &str) {
        let reason = reason.trim();
        let is_it = |said: &Utterance| {
            said.way == Route::Refusal && said.author == Author::User && reason.starts_with(&said.text)
        };
        if !reason.is_empty() && !self.words.recent.items.iter().any(is_it) {
            let origin = Origin { cycle: self.cycle, offset: self.read_to, ..Origin::default() };
            self.said(reason, Route::Refusal, &Author::User, &origin, true);
        }
    }

    /// The agent's questions were answered: the client notes which with what. An agent that answered in the user's place
    /// is named in the answer, and its words are not theirs.
    fn asked(
        &mut self,
        questions: &[String],
        outcome: &transcript::Outcome<'_>,
        origin: &Origin,
        recent: bool,
    ) {
        self.questions.clear();
        let output = outcome.body.text();
        let mut answers = outcome.note.map(transcript::claude::answers).unwrap_or_default();
        if answers.is_empty() {
            answers = quoted_answers(&output, questions);
        }
        let is_agents = answers.iter().any(|(_, answer)| answered_by(answer).is_some());
        self.names(&output, if is_agents { By::Agent } else { By::User }, &Position::NOWHERE, recent);
        for (question, answer) in &answers {
            match answered_by(answer) {
                Some(agent) => {
                    let said = format!("{question} {answer}");
                    self.said(&said, Route::Reply, &Author::Agent(agent.to_owned()), origin, recent);
                }
                None => self.words.answer(question, answer, origin),
            }
        }
        if !answers.is_empty() {
            self.words.answered = Answered::No;
        }
    }

    /// A script whose parts the client did not report.
    fn scripted(
        &mut self,
        calls: Vec<ScriptCall>,
        reports: u64,
        folder: Option<String>,
        outcome: &transcript::Outcome<'_>,
        origin: &Origin,
        recent: bool,
    ) {
        if self.open.reports > reports {
            return;
        }
        let output = outcome.body.text();
        if let Some(cell) = cell_of(&output) {
            // It runs on in its cell; the next look finds it under that name.
            self.open.open(cell, Act::Script { calls, reports, folder });
            return;
        }
        self.open.folder = folder;
        let results = &outcome.results;
        // Each call printed its result, or the only one printed its output alone.
        if let [call] = calls.as_slice() {
            let result = results.last().cloned().unwrap_or_default();
            let own = if result.output.is_some() {
                result
            } else {
                ScriptResult { output: Some(output.into()), ..result }
            };
            self.called(call, &own, outcome.failed, origin, recent);
            return;
        }
        if calls.len() == results.len() {
            for (call, result) in calls.iter().zip(results) {
                self.called(call, result, false, origin, recent);
            }
            return;
        }
        let running: Vec<&str> = results.iter().filter_map(|result| result.process.as_deref()).collect();
        for call in &calls {
            match call {
                ScriptCall::Poll(process) if running.contains(&process.as_str()) => {
                    self.jobs.look(process, origin);
                }
                ScriptCall::Poll(process) => self.jobs.ended(process, "ended", ""),
                ScriptCall::Command(command) => {
                    self.commands.ran(command, Outcome::Unknown, "", origin);
                    self.written_by(command, origin);
                }
            }
        }
        // Nothing tells which of the commands a new process belongs to; the last one ran last.
        for process in running {
            if !self.jobs.look(process, origin)
                && let Some(command) = commands_of(&calls).last()
            {
                self.jobs.left(process, command, origin);
            }
        }
        if !commands_of(&calls).any(names_secrets) {
            let root = self.root.clone();
            let place = Position { file: None, numbered: true, root: root.as_deref() };
            self.shown(&outcome.body, &place, None, origin, recent);
        }
        let at_home = git::tells_branch(&output) && self.is_at_home("git");
        self.git.output("git", &output, at_home, origin);
    }

    /// One call of a script, and what it gave.
    fn called(
        &mut self,
        call: &ScriptCall,
        result: &ScriptResult,
        failed: bool,
        origin: &Origin,
        recent: bool,
    ) {
        let outcome = transcript::Outcome {
            failed: result.exit.map_or(failed, |code| code != 0),
            exit: result.exit,
            body: result.output.as_deref().map_or(Body::Empty, |text| Body::Text(text.into())),
            note: None,
            results: Vec::new(),
        };
        match (call, &result.process) {
            (ScriptCall::Command(command), Some(process)) => {
                self.commands.used(command);
                self.jobs.left(process, command, origin);
                self.commands.ran(command, Outcome::Unknown, "", origin);
            }
            (ScriptCall::Command(command), None) => self.ran(command, false, &outcome, origin, recent),
            (ScriptCall::Poll(process), Some(_)) => {
                self.jobs.look(process, origin);
                self.shown(&outcome.body, &Position::NOWHERE, None, origin, recent);
            }
            (ScriptCall::Poll(process), None) => self.process_ended(process, &outcome, origin, recent),
        }
    }

    /// One more look at a process.
    fn polled(&mut self, process: &str, outcome: &transcript::Outcome<'_>, origin: &Origin, recent: bool) {
        let output = outcome.body.text();
        if let Some(cell) = cell_of(&output) {
            if cell != process {
                // The look itself runs on in a cell.
                self.open.open(cell, Act::Poll(process.to_owned()));
            }
            return;
        }
        // A look that was cut short shows nothing.
        if output.starts_with("aborted by user") {
            return;
        }
        match self.open.close(process) {
            Some(Act::Script { calls, reports, folder }) => {
                self.scripted(calls, reports, folder, outcome, origin, recent);
                return;
            }
            Some(Act::Poll(process)) => {
                self.polled(&process, outcome, origin, recent);
                return;
            }
            _ => {}
        }
        let is_running =
            outcome.results.iter().any(|result| result.process.is_some()) || output.starts_with(RUNNING);
        if is_running {
            self.jobs.look(process, origin);
            self.shown(&outcome.body, &Position::NOWHERE, None, origin, recent);
            return;
        }
        self.process_ended(process, outcome, origin, recent);
    }

    /// A look at a process does not show that it runs: it has ended, with the status that was printed, if one was.
    fn process_ended(
        &mut self,
        process: &str,
        outcome: &transcript::Outcome<'_>,
        origin: &Origin,
        recent: bool,
    ) {
        let command = self.jobs.running().find(|job| job.id == process).map(|job| job.what.clone());
        self.jobs.ended(process, "ended", "");
        match command {
            Some(command) => {
                self.commands.resumed(&command);
                self.ran(&command, false, outcome, origin, recent);
            }
            None => self.shown(&outcome.body, &Position::NOWHERE, None, origin, recent),
        }
    }

    /// Whether the call whose outcome is being taken in runs in the folder of the task: what git says there is about
    /// the task's branch.
    fn is_at_home(&self, command: &str) -> bool {
        let Some(root) = self.root.as_deref() else { return false };
        let below = |path: &str| {
            let path = path.trim_end_matches(['/', '\\']);
            let rest = relative(path, Some(root));
            let outside = rest.starts_with(['/', '~', '$']) || rest.starts_with("..") || rest.contains(':');
            path == root || !(outside || rest.contains("worktree"))
        };
        self.open.folder.as_deref().is_none_or(below)
            && shell::folders(command).iter().all(|folder| below(folder))
    }

    /// A shell command ended, or was left running.
    fn ran(
        &mut self,
        command: &str,
        background: bool,
        outcome: &transcript::Outcome<'_>,
        origin: &Origin,
        recent: bool,
    ) {
        let body = &outcome.body;
        let kind = shell::kind(command);
        let git = command.contains("git") || command.contains("gh ");
        // Outputs of old listings and searches are looked at by no rule and stay undecoded. A command that the client
        // moved to the background by itself says so in a short answer.
        let wanted = recent || outcome.failed || kind.is_some() || git || background || body.size() < 600;
        let output = if wanted && body.size() <= OUTPUT { body.text() } else { "".into() };
        self.commands.used(command);
        if let Some(id) = jobs::background_id(&output).filter(|_| background || output.contains(" with ")) {
            if output.starts_with(RUNNING) {
                self.jobs.left(id, command, origin);
            } else {
                self.jobs.started(id, command, false, origin);
            }
            self.commands.ran(command, Outcome::Unknown, "", origin);
            return;
        }
        let status = match (outcome.exit, outcome.failed) {
            (Some(code), _) => Outcome::Exit(code),
            (None, true) => commands::exit_code(&output).map_or(Outcome::Failed, Outcome::Exit),
            // Where a script hides the status, not every client says that it failed.
            (None, false) if self.provider().is_some_and(|of| !of.marks_failures()) => Outcome::Unknown,
            (None, false) => Outcome::Exit(0),
        };
        if git {
            let at_home = git::tells_branch(&output) && self.is_at_home(command);
            self.git.output(command, &output, at_home, origin);
        }
        self.commands.ran(command, status, &output, origin);
        if recent {
            self.printed(command, &output, origin);
        }
        if !outcome.failed {
            self.written_by(command, origin);
        }
    }

    /// What a command printed, for its names; of the files that it reads, each name belongs to its own.
    fn printed(&mut self, command: &str, output: &str, origin: &Origin) {
        if names_secrets(command) {
            return;
        }
        let root = self.root.clone();
        let place = |file| Position { file, numbered: true, root: root.as_deref() };
        if let Some(path) = shell::reads(command) {
            let file = self.looked_at(&path, origin);
            if let (Some(id), Some((from, to))) = (file, shell::range(command)) {
                self.files.ranged(id, from, to);
            }
            self.names(output, By::Tool, &place(file), true);
            return;
        }
        let parts = shell::prints(command);
        let text = without_head(output);
        let Some(ends) = ends(&parts, text) else {
            self.names(output, By::Tool, &place(None), true);
            return;
        };
        let mut rest = text;
        for (part, end) in parts.iter().zip(ends) {
            let (own, after) = rest.split_at(end);
            rest = after;
            let file = part.file.as_deref().and_then(|path| self.looked_at(path, origin));
            if let (Some(id), Some(lines)) = (file, part.lines.filter(|_| part.from > 0)) {
                self.files.ranged(id, part.from, part.from + lines.saturating_sub(1));
            }
            self.names(own, By::Tool, &place(file), true);
        }
        self.names(rest, By::Tool, &place(None), true);
    }

    /// A file that a command printed; a temporary one is nobody's work.
    fn looked_at(&mut self, path: &str, origin: &Origin) -> Option<u32> {
        let path = self.path(path);
        (!is_scratch(&path)).then(|| self.files.touch(Touch::Read, &path, self.working.act, origin))
    }

    /// Files that a command writes, moves or removes by name.
    fn written_by(&mut self, command: &str, origin: &Origin) {
        for (touch, path) in shell::changed(command) {
            let path = self.path(&path);
            let known =
                self.files.find(&path).and_then(|id| self.files.files.iter().find(|file| file.id == id));
            let path = known.map_or(path, |file| file.path.clone());
            if !is_scratch(&path) {
                self.files.touch(touch, &path, self.working.act, origin);
            }
        }
    }

    fn touched(&mut self, touch: Touch, path: &str, hunks: &[Hunk], origin: &Origin) {
        if is_scratch(path) {
            return;
        }
        let id = self.files.touch(touch, path, self.working.act, origin);
        self.files.marked(id, hunks);
        self.commands.worked(path, &format!("file {path}"), origin);
        self.planned(touch, path, origin);
    }

    fn planned(&mut self, touch: Touch, path: &str, origin: &Origin) {
        if touch == Touch::Deleted || !plan_file(path) {
            return;
        }
        // Reading an old plan does not replace the one that is being written.
        let written =
            self.plan.as_ref().is_some_and(|plan| plan.origin.cycle == origin.cycle && plan.path != path);
        if touch != Touch::Read || !written {
            self.plan = Some(Plan { path: path.to_owned(), origin: origin.clone() });
        }
    }
}

/// An output without what Codex puts above it.
fn without_head(output: &str) -> &str {
    const MARK: &str = "\nOutput:\n";
    let has_head = ["Script completed", "Chunk ID:", "Wall time"].iter().any(|head| output.starts_with(head));
    match output.find(MARK) {
        Some(at) if has_head && at < 400 => output[at + MARK.len()..].trim_start_matches('\n'),
        _ => output,
    }
}

/// How many bytes of `output` each of `parts` printed; nothing where its lines do not add up, as when a file ended
/// early or the client left lines out.
fn ends(parts: &[shell::Stretch], output: &str) -> Option<Vec<usize>> {
    let (last, before) = parts.split_last()?;
    if output.contains("tokens truncated") || output.contains("chars truncated") {
        return None;
    }
    let mut lines = output.split_inclusive('\n');
    let mut ends = Vec::with_capacity(parts.len());
    for part in before {
        let wanted = usize::try_from(part.lines?).ok()?;
        let taken: Vec<&str> = lines.by_ref().take(wanted).collect();
        if taken.len() < wanted {
            return None;
        }
        ends.push(taken.iter().map(|line| line.len()).sum());
    }
    let most = last.lines.map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX));
    let end: usize = lines.take(most).map(str::len).sum();
    (end > 0).then(|| {
        ends.push(end);
        ends
    })
}

/// How a process is said to run on.
const RUNNING: &str = "Process running with session ID ";

/// The cell in which a script runs on: `cell 20`.
fn cell_of(output: &str) -> Option<&str> {
    let cell = output.strip_prefix(RUNNING)?.lines().next()?;
    cell.starts_with("cell ").then_some(cell)
}

/// A temporary file outside the task's folder.
fn is_scratch(path: &str) -> bool {
    is_temporary(path)
}

fn has_extension(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.rsplit_once('.').is_some_and(|(stem, ext)| !stem.is_empty() && ext.len() <= 10)
}

/// `"Question"="Answer"` pairs, as the client writes them into the result.
fn quoted_answers(output: &str, questions: &[String]) -> Vec<(String, String)> {
    let mut answers = Vec::new();
    for question in questions {
        let Some((_, rest)) = output.split_once(&format!("\"{question}\"=\"")) else { continue };
        // The next question, or the end of the list, closes the answer.
        let ends = ["\", \"", "\". ", "\"."];
        let end = ends.iter().filter_map(|end| rest.find(end)).min().unwrap_or(rest.len());
        answers.push((question.clone(), rest[..end].trim_end_matches('"').to_owned()));
    }
    answers
}

/// Commands of the client about itself: no request to the agent.
fn is_housekeeping(name: &str) -> bool {
    const OWN: [&str; 42] = [
        "clear",
        "exit",
        "quit",
        "compact",
        "model",
        "help",
        "config",
        "login",
        "logout",
        "ide",
        "mcp",
        "status",
        "cost",
        "resume",
        "memory",
        "permissions",
        "agents",
        "hooks",
        "doctor",
        "vim",
        "terminal-setup",
        "bug",
        "release-notes",
        "export",
        "context",
        "usage",
        "rename",
        "plugin",
        "add-dir",
        "theme",
        "fast",
        "effort",
        "statusline",
        "tasks",
        "bashes",
        "rewind",
        "upgrade",
        "feedback",
        "new",
        "approvals",
        "diff",
        "undo",
    ];
    OWN.contains(&name.trim_start_matches('/'))
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
