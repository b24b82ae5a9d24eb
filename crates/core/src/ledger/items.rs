//! The single items that a task carries, to show them, compare them or strike one.

use serde::Serialize;

use super::{Ledger, UtteranceKind};
use crate::transcript::{Author, Origin, TodoStatus};

/// The kind of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ItemKind {
    Request,
    Rule,
    Answer,
    /// Said in the session by somebody who is not provably the user.
    Said,
    Narrative,
    Open,
    Failed,
    Commit,
    File,
    Command,
    Link,
}

impl ItemKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Rule => "rule",
            Self::Answer => "answer",
            Self::Said => "said",
            Self::Narrative => "narrative",
            Self::Open => "open",
            Self::Failed => "failed",
            Self::Commit => "commit",
            Self::File => "file",
            Self::Command => "command",
            Self::Link => "link",
        }
    }
}

/// One carried item with its author and the record it was read from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TaskItem {
    /// Names it to `handoffs chain drop`; the same words have the same id in every handoff.
    pub id: String,
    pub kind: ItemKind,
    pub author: Author,
    pub text: String,
    pub cycle: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// The record's own id, or the byte of its transcript at which it begins.
    pub source: String,
}

fn id(kind: ItemKind, text: &str) -> String {
    let text = super::text::fold(text);
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64 ^ kind as u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{}{:07x}", &kind.as_str()[..1], hash >> 36)
}

fn item(kind: ItemKind, author: Author, text: &str, origin: &Origin) -> TaskItem {
    TaskItem {
        id: id(kind, text),
        kind,
        author,
        text: text.to_owned(),
        cycle: origin.cycle,
        at: origin.at.clone(),
        source: origin.uuid.clone().unwrap_or_else(|| format!("byte {}", origin.offset)),
    }
}

impl Ledger {
    /// Everything that is carried, each item once, by kind and then in the order of the task.
    pub fn items(&self) -> Vec<TaskItem> {
        let words = &self.words;
        let agent = || Author::Agent(String::new());
        let mut all: Vec<TaskItem> = Vec::new();
        let said = words.first.iter().chain(words.openings.iter()).chain(words.recent.iter());
        for said in said {
            let kind = if said.is_request() { ItemKind::Request } else { ItemKind::Said };
            let kind = if said.way == UtteranceKind::Refusal && said.author == Author::User {
                ItemKind::Rule
            } else {
                kind
            };
            all.push(item(kind, said.author.clone(), &said.text, &said.origin));
        }
        all.extend(
            words.rules.iter().map(|rule| item(ItemKind::Rule, Author::User, &rule.text, &rule.origin)),
        );
        for answer in words.answers.iter() {
            let text = format!("{} → {}", answer.question, answer.text);
            all.push(item(ItemKind::Answer, Author::User, &text, &answer.origin));
        }
        if let Some(narrative) = &self.narrative {
            let origin =
                Origin { cycle: narrative.cycle, at: Some(narrative.at.to_string()), ..Origin::default() };
            all.push(item(
                ItemKind::Narrative,
                Author::Agent(narrative.agent.clone()),
                &narrative.text,
                &origin,
            ));
        }
        all.extend(self.todos.open().map(|task| item(ItemKind::Open, agent(), &task.text, &task.origin)));
        all.extend(
            self.questions
                .iter()
                .map(|question| item(ItemKind::Open, agent(), &question.text, &question.origin)),
        );
        for entry in self.commands.replaced.iter() {
            all.push(item(ItemKind::Failed, Author::Tool, &entry.tried, &entry.origin));
        }
        for commit in self.git.commits.iter() {
            let text = format!("{} {}", commit.hash, commit.subject);
            all.push(item(ItemKind::Commit, Author::Tool, text.trim_end(), &commit.origin));
        }
        all.extend(
            self.files.changed().map(|file| item(ItemKind::File, Author::Tool, &file.path, &file.origin)),
        );
        for command in self.commands.commands.iter() {
            all.push(item(ItemKind::Command, Author::Tool, &command.text, &command.origin));
        }
        all.extend(
            self.git.links.iter().map(|link| item(ItemKind::Link, Author::Unknown, &link.text, &link.origin)),
        );
        let mut seen = std::collections::HashSet::new();
        all.retain(|item| seen.insert(item.id.clone()));
        all.sort_by_key(|item| (item.kind, item.cycle));
        all
    }

    /// Strikes an item: it is gone, and does not come back when its record is read again.
    pub(crate) fn strike(&mut self, item: &str) -> bool {
        let known = self.items().iter().any(|it| it.id == item);
        if known && !self.struck.iter().any(|struck| struck == item) {
            self.struck.push(item.to_owned());
        }
        self.apply_strikes();
        known
    }

    /// Takes out everything that was struck.
    pub fn apply_strikes(&mut self) {
        if self.struck.is_empty() {
            return;
        }
        let struck = self.struck.clone();
        let is = |kind: ItemKind, text: &str| struck.contains(&id(kind, text));
        let said = |text: &str| {
            [ItemKind::Request, ItemKind::Said, ItemKind::Rule].into_iter().any(|kind| is(kind, text))
        };
        let words = &mut self.words;
        words.first.take_if(|first| said(&first.text));
        words.openings.items.retain(|it| !said(&it.text));
        words.recent.items.retain(|it| !said(&it.text));
        words.rules.items.retain(|it| !is(ItemKind::Rule, &it.text));
        words.answers.items.retain(|it| !is(ItemKind::Answer, &format!("{} → {}", it.question, it.text)));
        self.exchange.retain(|it| !said(&it.text));
        self.narrative.take_if(|it| is(ItemKind::Narrative, &it.text));
        self.questions.retain(|it| !is(ItemKind::Open, &it.text));
        for task in self.todos.tasks.iter_mut().filter(|task| is(ItemKind::Open, &task.text)) {
            task.status = TodoStatus::Deleted;
        }
        self.commands.replaced.items.retain(|it| !is(ItemKind::Failed, &it.tried));
        self.commands.commands.items.retain(|it| !is(ItemKind::Command, &it.text));
        self.git
            .commits
            .items
            .retain(|it| !is(ItemKind::Commit, format!("{} {}", it.hash, it.subject).trim_end()));
        self.git.links.items.retain(|it| !is(ItemKind::Link, &it.text));
        self.files.files.retain(|it| !is(ItemKind::File, &it.path));
        if self.words.first.is_none() {
            self.words.first = self.words.openings.items.pop_front();
        }
    }
}
