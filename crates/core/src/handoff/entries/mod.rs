//! A ledger as entries of a document: each a few lines of text with a section and a value for the next turn. Code
//! spans, fences and the text after a label are verbatim; the rest is labels, counts and stamps. Verbatim text gets no
//! marks inside, so that a search for it finds it.

mod form;
mod map;
mod quote;
mod section;

pub(super) use form::code;
use form::{
    answer_forms, brief, bullets, by, command_forms, concluding, failure, lines, outcome, quoted, stamp,
};
pub(super) use map::{FileLine, Map, NEAR};
pub(super) use quote::{Quote, fold_lines};
pub(super) use section::Section;

use std::collections::BTreeMap;

use super::pack::pack_document;
use crate::ledger::shell::WorkKind;
use crate::ledger::text::{clip, clip_lines, fits, fold, sentences};
use crate::ledger::{
    AnswerState, Command, Commands, Failure, Job, Ledger, ReplacedApproach, Task, Utterance, UtteranceKind,
    rule_strength, slashed,
};
use crate::transcript::{Author, Origin, TodoStatus};

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

    fn requests(&mut self, ledger: &Ledger) {
        let words = &ledger.words;
        let latest = words.latest();
        let same = |a: &Utterance, b: Option<&Utterance>| {
            b.is_some_and(|b| a.origin == b.origin && a.text == b.text)
        };
        if let Some(first) = words.first.as_ref().filter(|f| !same(f, latest)) {
            let sizes = [self.share.of(5, 400), self.share.of(12, 300)];
            let forms = quoted(&format!("First request{}:", by(first)), first, &sizes, 205);
            self.message(Section::Goal, 950, forms, first);
        }
        if let Some(hop) = ledger.hops.last() {
            let began = ledger.hops.first().map_or(hop.at, |first| first.at).strftime("%m-%d %H:%M");
            let count = ledger.hops.len() as u64 + ledger.earlier_hops;
            let text = format!(
                "Sealed in context {} of the task; the first of {count} handoffs before was sealed at {began}, the last \
                 is {}. `baton handoffs chain {}` shows them all.",
                ledger.cycle + 1,
                hop.handoff,
                hop.handoff
            );
            self.one(Section::Goal, 720, text);
        }
        let opening = words.openings.last().filter(|f| f.origin.cycle == self.now);
        if let Some(opening) = opening.filter(|f| !same(f, latest) && !same(f, words.first.as_ref())) {
            let sizes = [self.share.of(8, 300)];
            let forms = quoted("First request of this context:", opening, &sizes, 205);
            self.message(Section::Goal, 940, forms, opening);
        }
        if let Some(latest) = latest {
            let state = match words.answered {
                _ if latest.origin.cycle < self.now => "of an earlier context",
                AnswerState::No => "not answered yet",
                AnswerState::Working => "the agent was working on it",
                AnswerState::Yes => "answered",
                AnswerState::Interrupted => "interrupted by the user",
            };
            let asked =
                latest.asked.as_deref().map(|question| format!(", to \u{201c}{}\u{201d}", fold(question)));
            let label = format!("Latest request{} ({state}{}):", by(latest), asked.unwrap_or_default());
            let sizes = [self.share.of(3, 600), self.share.of(6, 400)];
            self.message(Section::Now, 1_000, quoted(&label, latest, &sizes, 205), latest);
        }
        // A call without an outcome is at work only while the turn is.
        let mut in_flight: Vec<String> = Vec::new();
        for call in ledger.in_flight().filter(|_| words.answered == AnswerState::Working) {
            let text = format!("- in flight at the end: {}", code(&fold(clip_lines(call, 300))));
            if in_flight.len() < 4 && !in_flight.contains(&text) {
                in_flight.push(text);
            }
        }
        for text in in_flight {
            self.one(Section::Now, 872, text);
        }
        // The next turn starts from the agent's last message, so a few hundred characters of it go in before long
        // lists, unless the document is very small.
        if let Some(reply) = ledger.last_reply() {
            const LABEL: &str = "Last message of the agent:";
            let sizes = [self.share.of(3, 900), self.share.of(8, 500), self.share.of(16, 250)];
            let form = |max: usize| {
                if fits(&reply.text, max) && reply.left_out == 0 {
                    return lines(LABEL, &reply.text);
                }
                concluding(LABEL, reply, max).unwrap_or_else(|| brief(LABEL, reply, max.saturating_sub(60)))
            };
            let mut forms: Vec<String> = sizes.into_iter().map(form).collect();
            if self.share.0 < 6_000 {
                forms.push(brief(LABEL, reply, 150));
            }
            forms.sort_by_key(|form| std::cmp::Reverse(form.chars().count()));
            forms.dedup();
            let value = if self.share.0 < 6_000 { 790 } else { 905 };
            self.add(Section::Now, value, forms);
        }
    }

    /// The prompts, newest first: short ones whole, and from long ones the sentences that set a rule. Then the rules of
    /// all contexts separately.
    fn words(&mut self, ledger: &Ledger) {
        let words = &ledger.words;
        let mut shown: Vec<&Utterance> =
            [words.first.as_ref(), words.latest()].into_iter().flatten().collect();
        shown.extend(words.openings.last().filter(|f| f.origin.cycle == self.now));
        let elsewhere =
            |said: &Utterance| shown.iter().any(|s| s.origin == said.origin && s.text == said.text);
        let whole = self.share.of(9, 420);
        let now = self.now;
        // A session may begin with a command; the first request in plain words counts as well.
        let plain = words
            .recent
            .iter()
            .find(|s| s.origin.cycle == now && s.is_request() && s.way != UtteranceKind::Command);
        let mut rank = 0;
        // This many messages are worth more than any list of facts; a small document has room for few.
        let last = i32::try_from((self.share.0 / 450).saturating_sub(7).min(40)).unwrap_or(40);
        for said in words.recent.iter().rev().filter(|s| s.origin.cycle == now && !elsewhere(s)) {
            let user = said.author == Author::User;
            let value = match rule_strength(&said.text) {
                _ if !user => 610,
                _ if plain.is_some_and(|first| std::ptr::eq(first, said)) => 899,
                // The most recent ones come before long lists: files, commands, commits.
                _ if rank < last => 862 - rank,
                Some(true) => 850 - 3 * rank,
                _ if said.way == UtteranceKind::Refusal => 850 - 3 * rank,
                Some(false) => 740 - 3 * rank,
                None => 720 - 3 * rank,
            };
            self.bullet(value, said, whole);
            rank = (rank + 1).min(80);
        }
        for (rank, answer) in words.answers.iter().rev().enumerate() {
            let value = self.value(answer.origin.cycle, 846, 705, 4, rank);
            // The same "yes" to another question is another answer.
            self.spoken(Section::Words, value, answer_forms(answer), &answer.origin, None);
        }
        // The first request of each earlier context, and its other requests.
        let openings = words.openings.iter().rev().filter(|s| s.origin.cycle < now && !elsewhere(s));
        for (rank, said) in openings.enumerate() {
            let value = 880 - i32::try_from(rank.min(60)).unwrap_or(60);
            self.bullet(value, said, whole);
        }
        let opened =
            |said: &Utterance| words.openings.iter().any(|o| o.origin == said.origin && o.text == said.text);
        let earlier =
            words.recent.iter().rev().filter(|s| s.origin.cycle < now && !elsewhere(s) && !opened(s));
        for (rank, said) in earlier.enumerate() {
            let value = if said.author == Author::User { 590 } else { 330 };
            let value = value - 3 * i32::try_from(rank.min(80)).unwrap_or(80);
            self.bullet(value, said, whole);
        }
        for (rank, rule) in words.rules.iter().rev().enumerate() {
            let (here, before) = if rule.strong { (848, 838) } else { (600, 560) };
            let value = self.value(rule.origin.cycle, here, before, 1, rank);
            let said = Quote::of(&rule.text, &rule.origin, true);
            self.spoken(Section::Words, value, vec![lines("-", &rule.text)], &rule.origin, Some(said));
        }
        for (rank, refused) in words.refused.iter().rev().enumerate() {
            let value = self.value(refused.origin.cycle, 700, 330, 10, rank);
            self.one(Section::Tried, value, format!("- refused by the user: {}", code(&fold(&refused.text))));
        }
    }

    /// An earlier agent's words, if the last one wrote none.
    fn own(&mut self, ledger: &Ledger) {
        let Some(narrative) = ledger.narrative.as_ref().filter(|n| n.cycle < self.now) else { return };
        let label = format!("In context {}, {} wrote:", narrative.cycle + 1, narrative.agent);
        let sizes = [self.share.of(4, 500), self.share.of(8, 400), self.share.of(14, 300)];
        let forms = sizes.map(|size| {
            let text = pack_document(&narrative.text, size, "that context's handoff").text;
            format!("{label}\n{}", form::fenced(&text))
        });
        self.add(Section::Own, 868, forms.to_vec());
    }

    fn next(&mut self, ledger: &Ledger) {
        for question in &ledger.questions {
            self.one(Section::Next, 885, lines("- question left open:", &question.text));
        }
        // A long last message may be shown only in part, but its question is always shown.
        let reply =
            ledger.last_reply().filter(|r| ledger.words.answered == AnswerState::Yes && !fits(&r.text, 300));
        for question in
            reply.iter().flat_map(|r| sentences(&r.text)).filter(|s| s.ends_with('?') && fits(s, 300)).take(4)
        {
            self.one(Section::Next, 883, lines("- question left open:", question));
        }
        if let Some(plan) = &ledger.plan {
            self.one(Section::Next, 890, format!("- plan file: {}", code(&plan.path)));
        }
        let mut open: Vec<&Task> = ledger.todos.open().collect();
        open.sort_by_key(|task| task.status != TodoStatus::InProgress);
        for (rank, task) in open.into_iter().enumerate() {
            let mark = if task.status == TodoStatus::InProgress { "in progress" } else { "pending" };
            let number = task.id.as_deref().map(|id| format!("#{id} ")).unwrap_or_default();
            let value = self.value(task.origin.cycle, 895, 880, 2, rank);
            self.one(Section::Next, value, format!("- [{mark}] {number}{}", fold(&task.text)));
        }
        let asked = ledger.words.latest().map(|said| &said.origin);
        let (certain, unsure): (Vec<&Job>, Vec<&Job>) =
            ledger.jobs.running().partition(|job| job.is_certain(asked));
        for (rank, job) in certain.into_iter().enumerate() {
            let what = if job.agent { "subagent" } else { "background process" };
            let value = self.value(job.origin.cycle, 893, 700, 2, rank);
            let form =
                |command: &str| format!("- running {what} {}: {}", code(&job.id), code(&fold(command)));
            self.add(Section::Next, value, vec![form(&job.what), form(clip_lines(&job.what, 80))]);
        }
        // The same command started again and again is one line.
        let mut commands: Vec<(&str, Vec<String>)> = Vec::new();
        for job in unsure {
            match commands.iter_mut().find(|(what, _)| *what == job.what) {
                Some((_, ids)) => ids.push(code(&job.id)),
                None => commands.push((&job.what, vec![code(&job.id)])),
            }
        }
        for (rank, (what, ids)) in commands.into_iter().enumerate() {
            let value = self.value(self.now, 760, 0, 25, rank);
            let command = code(&fold(clip_lines(what, 60)));
            let text = format!("- its end was not seen: background process {}: {command}", ids.join(", "));
            self.one(Section::Next, value, text);
        }
    }

    fn errors(&mut self, ledger: &Ledger) {
        let long = self.share.of(9, 300);
        // An unresolved error blocks while the request it happened under is the latest one.
        let nothing = Origin::default();
        let since = ledger.words.latest().map_or(&nothing, |said| &said.origin);
        let errors = ledger.commands.errors.iter().rev().enumerate();
        let mut newest = true;
        let mut open = 0;
        for (rank, error) in errors.filter(|(rank, error)| *rank == 0 || !error.refusal) {
            let stuck = error.resolved.is_none() && error.blocking;
            let (section, value) = if stuck && (newest || error.origin.is_after(since)) {
                open += 1;
                (Section::Blockers, self.value(error.origin.cycle, 870, 480, 40, open - 1))
            } else {
                let here = if newest { 865 } else { 420 };
                (Section::Errors, self.value(error.origin.cycle, here, 250, 10, rank))
            };
            let most = if newest { self.share.of(6, 300) } else { long };
            let is_named = section == Section::Errors && !newest && is_named(&ledger.commands, error);
            let forms = [most, most.min(500), most.min(250)].map(|max| failure(error, max, is_named));
            let forms = forms.to_vec();
            self.add(section, value, forms);
            // After a refusal, the last real error still counts as the newest.
            newest &= error.refusal;
        }
        for (rank, entry) in ledger.commands.replaced.iter().rev().enumerate() {
            // The command's own line already shows it.
            if ledger.commands.commands.iter().any(|command| is_try(command, entry)) {
                continue;
            }
            let value = self.value(entry.origin.cycle, 838, 605, 2, rank);
            let tried = code(&fold(&entry.tried));
            let text = format!("- {} · {tried} → {}", outcome(entry.outcome), code(&fold(&entry.instead)));
            let short = format!("- {} · {tried}", outcome(entry.outcome));
            self.add(Section::Tried, value, vec![text, short]);
        }
    }

    fn git(&mut self, ledger: &Ledger) {
        if let Some(branch) = &ledger.git.branch {
            self.one(Section::Git, 995, format!("- branch: {}", code(&branch.text)));
        }
        for (rank, name) in ledger.git.earlier_branches.iter().rev().enumerate() {
            let value = if rank == 0 { 846 } else { self.value(0, 500, 500, 20, rank) };
            self.one(Section::Git, value, format!("- earlier branch: {}", code(name)));
        }
        if let Some(root) = &ledger.root {
            self.one(Section::Git, 850, format!("- folder: {}", code(&slashed(root))));
        }
        if let Some(cwd) = ledger.cwd.as_ref().filter(|cwd| ledger.root.as_ref() != Some(cwd)) {
            self.one(Section::Git, 760, format!("- working in: {}", code(&slashed(cwd))));
        }
        for (rank, commit) in ledger.git.commits.iter().rev().enumerate() {
            let value = self.value(commit.origin.cycle, 848, 620, 2, rank);
            let short = format!("- commit {}", code(&commit.hash));
            let full =
                if commit.subject.is_empty() { short.clone() } else { format!("{short} {}", commit.subject) };
            self.add(Section::Git, value, vec![full, short]);
        }
        if let Some(status) = &ledger.git.status {
            let when = if status.outdated {
                "working tree before the last commit"
            } else {
                "working tree as last seen"
            };
            let most = self.share.of(14, 200);
            let value = self.value(status.origin.cycle, if status.outdated { 430 } else { 590 }, 260, 0, 0);
            self.one(Section::Git, value, lines(&format!("- {when}:"), clip_lines(&status.text, most)));
        }
        for (rank, link) in ledger.git.links.iter().rev().enumerate() {
            let value = self.value(link.origin.cycle, 645, 350, 12, rank);
            self.one(Section::Git, value, format!("- link: {}", link.text));
        }
    }

    /// Lines of searches and definitions whose names the agent then used.
    fn findings(&mut self, ledger: &Ledger) {
        let mut rank = 0;
        let names = ledger.working.names();
        for file in ledger.files.files.iter().rev() {
            for hit in ledger.working.findings(file.id).take(12) {
                let text = format!("- {} {}", code(&format!("{}:{}", file.path, hit.line)), code(&hit.text));
                self.one(Section::Findings, 400 - rank, text);
                rank = (rank + 1).min(150);
            }
            if file.outline.is_empty() {
                continue;
            }
            let own: Vec<&str> = names
                .iter()
                .take(400)
                .filter(|name| name.own && name.place.is_some_and(|(id, _)| id == file.id))
                .map(|name| name.text.as_str())
                .collect();
            for definition in file.outline.iter().filter(|d| own.contains(&d.name.as_str())).take(8) {
                let at = code(&format!("{}:{}", file.path, definition.line));
                self.one(Section::Findings, 390 - rank, format!("- {at} {}", code(&definition.text)));
                rank = (rank + 1).min(150);
            }
        }
    }

    fn commands(&mut self, ledger: &Ledger) {
        let mut ranks = [0_usize; 2];
        for command in ledger.commands.commands.iter().rev() {
            let check = matches!(command.kind, WorkKind::Test | WorkKind::Build);
            let rank = &mut ranks[usize::from(check)];
            let here = if check { 835 } else { 715 };
            let mut value = self.value(command.origin.cycle, here, 400, 3, *rank);
            *rank += 1;
            let tries = ledger.commands.replaced.iter().rev().enumerate();
            let replaced = tries.into_iter().find(|(_, entry)| is_try(command, entry));
            if let Some((rank, entry)) = replaced {
                value = value.max(self.value(entry.origin.cycle, 838, 605, 2, rank));
            }
            self.add(Section::Commands, value, command_forms(command, replaced.map(|(_, entry)| entry)));
        }
        for (rank, line) in ledger.commands.other_recent().enumerate() {
            let value = self.value(self.now, 360, 0, 5, rank);
            self.one(Section::Recent, value, format!("- {}", code(&fold(line))));
        }
    }

    fn done(&mut self, ledger: &Ledger) {
        for (rank, task) in ledger.todos.done().rev().enumerate() {
            let value = self.value(task.origin.cycle, 560, 280, 5, rank);
            let number = task.id.as_deref().map(|id| format!("#{id} ")).unwrap_or_default();
            self.one(Section::Done, value, format!("- [done] {number}{}", fold(&task.text)));
        }
    }

    fn agents(&mut self, ledger: &Ledger) {
        for (rank, job) in ledger.jobs.agents().enumerate() {
            let value = self.value(job.origin.cycle, 470, 240, 15, rank);
            let head = format!("- {}", code(&fold(clip_lines(&job.what, 200))));
            let mut forms = Vec::new();
            for most in [self.share.of(10, 400), self.share.of(24, 200)] {
                let result = job.result.as_deref().and_then(|result| clip(result, most));
                forms.extend(result.map(|result| lines(&head, result)));
            }
            forms.push(head);
            forms.dedup();
            self.add(Section::Agents, value, forms);
        }
    }

    /// The last messages of both sides, except those that are shown above.
    fn exchange(&mut self, ledger: &Ledger) {
        let latest = ledger.words.latest();
        let last = ledger.last_reply();
        let above = |said: &Utterance| {
            [latest, last].into_iter().flatten().any(|s| s.origin == said.origin && s.text == said.text)
        };
        for (rank, said) in ledger.exchange.iter().rev().filter(|said| !above(said)).enumerate() {
            let who = match (said.way, &said.author) {
                (UtteranceKind::Reply, _) => "- assistant:".to_owned(),
                (_, Author::User) => "- user:".to_owned(),
                _ => form::label(said),
            };
            let value = self.value(said.origin.cycle, 380, 150, 6, rank);
            let forms = quoted(&who, said, &[self.share.of(8, 400), 600], 160);
            if said.way == UtteranceKind::Reply {
                self.add(Section::Exchange, value, forms);
            } else {
                self.message(Section::Exchange, value, forms, said);
            }
        }
    }
}
