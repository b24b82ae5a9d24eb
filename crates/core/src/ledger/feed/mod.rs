//! How records become facts: a call is remembered until its outcome comes, and only the outcome makes a fact.
//!
//! `calls` keeps the pending calls, `outcomes` reads their results, `runs` reads what commands and scripts printed.

mod calls;
mod outcomes;
mod runs;

use crate::ledger::Ledger;
use crate::ledger::commands::CommandOutcome;
use crate::ledger::files::relative;
use crate::ledger::words::{AnswerState, UtteranceKind, question_in};
use crate::ledger::working::{By, Position};
use crate::speaker::{Speaker, speaker, without_foreign};
use crate::transcript::{Author, Item, Origin, Record};

use calls::Act;
pub(in crate::ledger) use calls::OpenCalls;

/// Frames of ours that are remembered.
const LOADED: usize = 8;

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
            Item::Prompt(words) => self.prompted(&words, UtteranceKind::Prompt, origin, recent),
            Item::Queued(words) => self.prompted(&words, UtteranceKind::Queued, origin, recent),
            Item::Told { author, text } => self.said(&text, UtteranceKind::Prompt, &author, origin, recent),
            Item::Command { name, args } => {
                if !is_housekeeping(&name) {
                    let words = if args.trim().is_empty() { &name } else { &args };
                    self.said(words, UtteranceKind::Command, &Author::User, origin, recent);
                    self.words.with_command(&name, origin);
                }
            }
            Item::Interrupted => self.words.answered = AnswerState::Interrupted,
            Item::TaskEnded { id, status, result } => {
                self.names(&result, By::Tool, &Position::NOWHERE, recent);
                // The client reports how a command in the background ended.
                let ended = match status.as_ref() {
                    "completed" => Some(CommandOutcome::Exit(0)),
                    "failed" => Some(CommandOutcome::Failed),
                    _ => None,
                };
                let job = self.jobs.running().find(|job| job.id == id && !job.agent);
                if let (Some(outcome), Some(job)) = (ended, job) {
                    self.commands.settled(&job.what, outcome);
                }
                self.jobs.ended(&id, &status, &result);
            }
            Item::AgentStarted { id } => {
                // The call that spawned it comes first and names its purpose.
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
                if self.words.answered == AnswerState::Working {
                    self.words.answered = AnswerState::Yes;
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

    /// Words in the place of a prompt, unless the client attributes them to someone else.
    fn prompted(&mut self, words: &str, way: UtteranceKind, origin: &Origin, recent: bool) {
        let typed = without_foreign(words);
        let Speaker::Person(words) = speaker(&typed) else { return };
        let first = !std::mem::replace(&mut self.prompted, true);
        match self.started_by.clone() {
            Some(agent) if first => {
                self.said(words, UtteranceKind::Task, &Author::Agent(agent), origin, recent);
            }
            _ => self.said(words, way, &Author::User, origin, recent),
        }
    }

    fn said(&mut self, words: &str, way: UtteranceKind, author: &Author, origin: &Origin, recent: bool) {
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
        let asked = self.last_reply().filter(|_| user && self.words.answered == AnswerState::Yes);
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
}

/// Commands about the client itself, which ask nothing of the agent.
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
