//! A ledger as entries of a document: each a few lines of text with a section and a value for the next turn. Code
//! spans, fences and the text after a label are verbatim; the rest is labels, counts and stamps. Verbatim text gets no
//! marks inside, so that a search for it finds it.

mod facts;
mod form;
mod map;
mod quote;
mod section;
mod spoken;

pub(super) use form::code;
use form::{bullets, stamp};
pub(super) use map::{FileLine, Map, NEAR};
pub(super) use quote::{Quote, fold_lines};
pub(super) use section::Section;

use std::collections::BTreeMap;

use crate::ledger::{Command, Commands, Failure, Ledger, ReplacedApproach, Utterance};
use crate::transcript::{Author, Origin};

#[derive(Debug)]
pub(super) struct DocumentEntry {
    pub section: Section,
    /// Higher means that the next turn needs it more.
    pub value: i32,
    /// The text at full length, then shorter forms of the same; never empty.
    pub forms: Vec<String>,
    /// The earlier context that it comes from. Neighbours from one context share a heading that names it.
    pub context: Option<u32>,
    /// Somebody's words, which are left out if another entry shows them.
    pub said: Option<Quote>,
}

/// How much of a budget a single fact may take.
struct Share(usize);

impl Share {
    fn of(&self, part: usize, least: usize) -> usize {
        (self.0 / part).max(least)
    }
}

/// All entries of a ledger, and how many facts of each section the ledger has dropped.
#[derive(Debug)]
pub(super) struct Entries {
    pub list: Vec<DocumentEntry>,
    pub map: Map,
    /// The lines that name earlier contexts.
    pub contexts: BTreeMap<u32, String>,
    not_kept: Vec<(Section, u64)>,
}

impl Entries {
    /// How many there were, kept or not.
    pub(super) fn all(&self, section: Section) -> usize {
        let kept = match section {
            Section::Files => self.map.files.iter().filter(|file| file.value > 0).count(),
            _ => self.list.iter().filter(|entry| entry.section == section).count(),
        };
        let gone: u64 = self.not_kept.iter().filter(|(s, _)| *s == section).map(|(_, n)| *n).sum();
        kept + usize::try_from(gone).unwrap_or(usize::MAX / 2)
    }
}

/// `budget` is that of the whole document: it decides how long a single text may be.
pub(super) fn entries(ledger: &Ledger, budget: usize) -> Entries {
    let mut list = List { out: Vec::new(), share: Share(budget), now: ledger.cycle };
    list.notes(ledger);
    list.requests(ledger);
    list.words(ledger);
    list.own(ledger);
    list.next(ledger);
    list.errors(ledger);
    list.git(ledger);
    list.findings(ledger);
    list.commands(ledger);
    list.done(ledger);
    list.agents(ledger);
    list.exchange(ledger);
    let not_kept = vec![
        (Section::Words, ledger.words.recent.dropped),
        (Section::Next, ledger.todos.dropped),
        (Section::Git, ledger.git.commits.dropped),
        (Section::Files, ledger.files.dropped),
        (Section::Commands, ledger.commands.commands.dropped),
        (Section::Tried, ledger.commands.replaced.dropped),
        (Section::Agents, ledger.jobs.jobs.dropped),
        (Section::Errors, ledger.commands.errors.dropped),
    ];
    let mut list = list.out;
    // The words of the newest context come first; within a context the order stays.
    let newest = |entry: &DocumentEntry| std::cmp::Reverse(entry.context.unwrap_or(u32::MAX));
    list.sort_by_key(|entry| {
        let spoken = matches!(entry.section, Section::Words | Section::Said);
        if spoken { newest(entry) } else { std::cmp::Reverse(u32::MAX) }
    });
    Entries { list, map: map::map(ledger), contexts: contexts(ledger), not_kept }
}

/// `In context 3 (11-17 10:02):` for each context with words.
fn contexts(ledger: &Ledger) -> BTreeMap<u32, String> {
    let words = &ledger.words;
    let said =
        words.first.iter().chain(words.openings.iter()).chain(words.recent.iter()).map(|said| &said.origin);
    let origins = said.chain(words.rules.iter().map(|rule| &rule.origin));
    let mut out: BTreeMap<u32, String> = BTreeMap::new();
    for origin in origins.chain(words.answers.iter().map(|answer| &answer.origin)) {
        out.entry(origin.cycle).or_insert_with(|| {
            let when = stamp(origin.at.as_deref()).map_or_else(String::new, |when| format!(" ({when})"));
            format!("In context {}{when}:", origin.cycle + 1)
        });
    }
    out
}

/// Whether the failed command has a separate line, as one that was given up or as one that ran later. Either is worth
/// more than the error, so it is in every document that has room for the error.
fn is_named(commands: &Commands, error: &Failure) -> bool {
    let cause = error.cause.trim();
    commands.replaced.iter().any(|entry| entry.tried.trim() == cause)
        || commands.commands.iter().any(|command| command.text == cause)
}

/// Is `command`, as it ran last, the try that `entry` says was given up?
fn is_try(command: &Command, entry: &ReplacedApproach) -> bool {
    command.outcome == entry.outcome && command.text == entry.tried.trim()
}

struct List {
    out: Vec<DocumentEntry>,
    share: Share,
    now: u32,
}

impl List {
    fn add(&mut self, section: Section, value: i32, mut forms: Vec<String>) {
        // A text with nothing to show gives no entry.
        forms.retain(|form| !form.is_empty());
        if !forms.is_empty() {
            self.out.push(DocumentEntry { section, value, forms, context: None, said: None });
        }
    }

    fn one(&mut self, section: Section, value: i32, text: String) {
        self.add(section, value, vec![text]);
    }

    /// Adds a message; its words are not repeated elsewhere.
    fn message(&mut self, section: Section, value: i32, forms: Vec<String>, said: &Utterance) {
        self.add(section, value, forms);
        if let Some(entry) = self.out.last_mut() {
            entry.said = Some(Quote::of(&said.text, &said.origin, false));
        }
    }

    /// Adds words under the context that they come from.
    fn spoken(
        &mut self,
        section: Section,
        value: i32,
        forms: Vec<String>,
        origin: &Origin,
        said: Option<Quote>,
    ) {
        self.add(section, value, forms);
        let context = (origin.cycle < self.now).then_some(origin.cycle);
        if let Some(entry) = self.out.last_mut() {
            entry.context = context;
            entry.said = said;
        }
    }

    fn bullet(&mut self, value: i32, said: &Utterance, whole: usize) {
        let words = Quote::of(&said.text, &said.origin, false);
        let section = if said.author == Author::User { Section::Words } else { Section::Said };
        self.spoken(section, value, bullets(said, whole), &said.origin, Some(words));
    }

    /// Facts from before the last fresh context are worth less than those of this one.
    fn value(&self, cycle: u32, here: i32, before: i32, step: i32, rank: usize) -> i32 {
        let rank = i32::try_from(rank).unwrap_or(i32::MAX / 64).min(200);
        if cycle == self.now { here - step * rank } else { before - step * rank }
    }

    fn notes(&mut self, ledger: &Ledger) {
        if ledger.is_empty() {
            let text =
                "Nothing of the work could be read from the transcript: no request, no answer, no file.";
            self.one(Section::Notes, 2_000, text.to_owned());
        }
        for note in ledger.notes() {
            self.one(Section::Notes, 1_500, format!("- {note}"));
        }
    }
}
