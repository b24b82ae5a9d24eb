//! Calls whose outcome has not come.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::outcomes::OUTPUT;
use crate::ledger::files::is_temporary;
use crate::ledger::names::holds_secrets;
use crate::ledger::words::AnswerState;
use crate::ledger::working::{By, Position};
use crate::ledger::{Ledger, OpenQuestion, text};
use crate::transcript::{Action, Change, Origin, ScriptCall, Touch};

/// More than this many at once means that outcomes are missing.
const OPEN: usize = 128;

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(in crate::ledger) struct OpenCalls {
    calls: VecDeque<(String, Act)>,
    /// How many calls the client itself has reported so far; those are not recorded twice.
    pub(super) reports: u64,
    /// The working folder of the call whose outcome is being read, if known.
    #[serde(skip)]
    pub(super) folder: Option<String>,
}

/// A pending call.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Act {
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
pub(super) type StoredHunk = (u32, i32, Option<String>, Option<String>);

impl OpenCalls {
    pub(super) fn open(&mut self, id: &str, act: Act) {
        if self.calls.len() >= OPEN {
            self.calls.pop_front();
        }
        self.calls.push_back((id.to_owned(), act));
    }

    pub(super) fn close(&mut self, id: &str) -> Option<Act> {
        let at = self.calls.iter().position(|(open, _)| open == id)?;
        self.calls.remove(at).map(|(_, act)| act)
    }

    pub(in crate::ledger) fn labels(&self) -> impl Iterator<Item = &str> {
        self.calls.iter().filter_map(|(_, act)| act.label())
    }
}

impl Act {
    /// A short name for people.
    pub(super) fn label(&self) -> Option<&str> {
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
    pub(super) fn folder(&self) -> Option<&String> {
        match self {
            Self::Shell { folder, .. } | Self::Script { folder, .. } => folder.as_ref(),
            _ => None,
        }
    }

    /// Whether it is the client's own tool, so that its account of a refusal is the client's record.
    pub(super) fn is_clients(&self) -> bool {
        !matches!(self, Self::Other(_) | Self::Poll(_) | Self::Script { .. } | Self::Agent { .. })
    }
}

pub(super) fn commands_of(calls: &[ScriptCall]) -> impl Iterator<Item = &str> {
    calls
        .iter()
        .filter_map(|call| if let ScriptCall::Command(text) = call { Some(text.as_str()) } else { None })
}

impl Ledger {
    pub(super) fn call(&mut self, id: &str, action: Action<'_>, origin: &Origin, recent: bool) {
        self.words.answered = AnswerState::Working;
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
            let ask = |q: &String| OpenQuestion { text: q.clone(), origin: origin.clone() };
            self.questions = questions.iter().take(8).map(ask).collect();
        }
        self.open.open(id, act);
    }

    /// A file is about to be changed: the new text is in play, whether the change succeeds or not.
    pub(super) fn editing(
        &mut self,
        change: Change<'_>,
        origin: &Origin,
        recent: bool,
    ) -> (Touch, String, Vec<StoredHunk>) {
        let path = self.path(&change.path);
        if recent && !holds_secrets(&path) {
            self.names(&path, By::Agent, &Position::NOWHERE, recent);
            let file = (!is_temporary(&path)).then(|| self.files.place(&path, self.working.act, origin));
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
}
