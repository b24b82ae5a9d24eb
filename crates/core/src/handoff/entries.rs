//! A ledger as entries of a document: each one a few lines of text with a section it stands in and a value for the
//! next turn. Everything in code spans and fences is verbatim, and so is what follows a label; the rest is labels,
//! counts and stamps. Verbatim text gets no marks inside, so that a search for it finds it.

mod form;

pub(super) use form::code;
use form::{bullet, changes, command_forms, digest, failure, lines, outcome, quoted, relative};

use crate::ledger::text::{clip, clip_lines, fits, fold, sentences};
use crate::ledger::{Answered, Ledger, Said, Task, Way};
use crate::ledger::{rule_strength, shell::Kind};
use crate::transcript::TodoStatus;

/// Parts of the document in the order in which they are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Section {
    Notes,
    Goal,
    Now,
    Words,
    Next,
    Blockers,
    Git,
    Files,
    Commands,
    Tried,
    Done,
    Agents,
    Errors,
    Read,
    Mentions,
}

impl Section {
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Notes => "Not read",
            Self::Goal => "Goal",
            Self::Now => "Now",
            Self::Words => "The user's words",
            Self::Next => "Next",
            Self::Blockers => "Blockers",
            Self::Git => "Git",
            Self::Files => "Files changed",
            Self::Commands => "Commands",
            Self::Tried => "Tried and replaced",
            Self::Done => "Done",
            Self::Agents => "Subagents",
            Self::Errors => "Earlier errors",
            Self::Read => "Files read",
            Self::Mentions => "Names used last",
        }
    }
}

#[derive(Debug)]
pub(super) struct Entry {
    pub section: Section,
    /// What the next turn needs most has the highest.
    pub value: i32,
    /// The text at full length, then shorter forms of the same.
    pub forms: Vec<String>,
}

/// How much of a budget a single fact may take.
struct Share(usize);

impl Share {
    fn of(&self, part: usize, least: usize) -> usize {
        (self.0 / part).max(least)
    }
}

/// All entries of a ledger, and how many more facts of a section the ledger saw and let go.
#[derive(Debug)]
pub(super) struct Entries {
    pub list: Vec<Entry>,
    not_kept: Vec<(Section, u64)>,
}

impl Entries {
    /// How many there were, kept or not.
    pub(super) fn all(&self, section: Section) -> usize {
        let kept = self.list.iter().filter(|entry| entry.section == section).count();
        let gone: u64 = self.not_kept.iter().filter(|(s, _)| *s == section).map(|(_, n)| *n).sum();
        kept + usize::try_from(gone).unwrap_or(usize::MAX / 2)
    }
}

pub(super) fn entries(ledger: &Ledger, budget: usize) -> Entries {
    let mut list = List { out: Vec::new(), share: Share(budget), now: ledger.stretch };
    list.notes(ledger);
    list.requests(ledger);
    list.words(ledger);
    list.next(ledger);
    list.errors(ledger);
    list.git(ledger);
    list.files(ledger);
    list.commands(ledger);
    list.done(ledger);
    list.agents(ledger);
    list.mentions(ledger);
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
    Entries { list: list.out, not_kept }
}

struct List {
    out: Vec<Entry>,
    share: Share,
    now: u32,
}

impl List {
    fn add(&mut self, section: Section, value: i32, forms: Vec<String>) {
        self.out.push(Entry { section, value, forms });
    }

    fn one(&mut self, section: Section, value: i32, text: String) {
        self.add(section, value, vec![text]);
    }

    /// Facts from before the last compaction are worth less than those of this stretch.
    fn value(&self, stretch: u32, here: i32, before: i32, step: i32, rank: usize) -> i32 {
        let rank = i32::try_from(rank).unwrap_or(i32::MAX / 64).min(200);
        if stretch == self.now { here - step * rank } else { before - step * rank }
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
        let same = |a: &Said, b: Option<&Said>| b.is_some_and(|b| a.origin == b.origin && a.text == b.text);
        if let Some(first) = words.first.as_ref().filter(|f| !same(f, latest)) {
            let forms =
                quoted("First request:", first, &[self.share.of(5, 400), self.share.of(12, 300), 300]);
            self.add(Section::Goal, 905, forms);
        }
        let start = words.first_of_stretch.as_ref().filter(|f| f.stretch == self.now && self.now > 0);
        if let Some(start) = start.filter(|f| !same(f, latest) && !same(f, words.first.as_ref())) {
            let forms =
                quoted("First request since the last compaction:", start, &[self.share.of(8, 300), 240]);
            self.add(Section::Goal, 900, forms);
        }
        if let Some(latest) = latest {
            let state = match words.answered {
                Answered::No => "not answered yet",
                Answered::Working => "the agent was working on it",
                Answered::Yes => "answered",
                Answered::Interrupted => "interrupted by the user",
            };
            let forms = quoted(
                &format!("Latest request ({state}):"),
                latest,
                &[self.share.of(3, 600), self.share.of(6, 400), 300],
            );
            self.add(Section::Now, 1_000, forms);
        }
        for call in ledger.in_flight().take(4) {
            self.one(
                Section::Now,
                872,
                format!("- in flight at the end: {}", code(&fold(clip_lines(call, 300)))),
            );
        }
        if let Some(reply) = &ledger.last_reply {
            let forms =
                quoted("Last message of the agent:", reply, &[self.share.of(8, 300), self.share.of(16, 200)]);
            self.add(Section::Now, 770, forms);
        }
    }

    /// What the user said, newest first: short messages whole, of long ones the sentences that set a rule.
    fn words(&mut self, ledger: &Ledger) {
        let words = &ledger.words;
        let shown_elsewhere: Vec<&Said> =
            [words.first.as_ref(), words.first_of_stretch.as_ref(), words.latest()]
                .into_iter()
                .flatten()
                .collect();
        let whole = self.share.of(18, 420);
        let mut in_full: Vec<String> = Vec::new();
        let mut rank = 0;
        let now = self.now;
        let opening =
            words.recent.iter().find(|s| s.stretch == now && matches!(s.way, Way::Prompt | Way::Queued));
        for said in words.recent.iter().rev().filter(|s| s.stretch == now) {
            if shown_elsewhere.iter().any(|s| s.origin == said.origin && s.text == said.text) {
                // Rules in it are still listed by themselves when it is too long to be shown whole.
                if fits(&said.text, self.share.of(5, 400)) && said.left_out == 0 {
                    in_full.push(fold(&said.text));
                }
                continue;
            }
            let value = match rule_strength(&said.text) {
                Some(true) => 850,
                _ if said.way == Way::Refusal => 850,
                Some(false) => 740,
                None => 690,
            };
            // A session may begin with a command; the first request in plain words counts as well.
            let opening = opening.is_some_and(|first| std::ptr::eq(first, said));
            let value = if opening { 899 } else { value - 4 * rank.min(100) };
            let mut forms = Vec::new();
            if said.left_out == 0 && fits(&said.text, self.share.of(7, 600)) {
                forms.push(bullet(said, &said.text));
            }
            if forms.is_empty() || !fits(&said.text, whole) {
                let digest = digest(&said.text);
                if !digest.is_empty() {
                    in_full.push(fold(&digest));
                    forms.push(bullet(said, &digest));
                }
            } else {
                in_full.push(fold(&said.text));
            }
            self.add(Section::Words, value, forms);
            rank += 1;
        }
        let rules = words.rules.iter().rev();
        let shown = |text: &str| in_full.iter().any(|full| full.contains(&fold(text)));
        for (rank, rule) in rules.filter(|r| !shown(&r.text)).enumerate() {
            let here = if rule.strong { 845 } else { 600 };
            let before = if rule.strong { 610 } else { 320 };
            let value = self.value(rule.stretch, here, before, 3, rank);
            self.one(Section::Words, value, lines("-", &rule.text));
        }
        for (rank, refused) in words.refused.iter().rev().enumerate() {
            let value = self.value(refused.stretch, 700, 330, 10, rank);
            self.one(Section::Tried, value, format!("- refused by the user: {}", code(&fold(&refused.text))));
        }
    }

    fn next(&mut self, ledger: &Ledger) {
        for question in &ledger.questions {
            self.one(Section::Next, 885, lines("- question left open:", &question.text));
        }
        // A long last message may be shown in part only; what it asks is shown in any case.
        let reply = ledger
            .last_reply
            .as_ref()
            .filter(|r| ledger.words.answered == Answered::Yes && !fits(&r.text, 300));
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
            let value = self.value(task.stretch, 895, 880, 2, rank);
            self.one(Section::Next, value, format!("- [{mark}] {number}{}", fold(&task.text)));
        }
        for (rank, job) in ledger.jobs.running().enumerate() {
            let what = if job.agent { "subagent" } else { "background process" };
            let value = self.value(job.stretch, 893, 700, 2, rank);
            let text = format!("- running {what} {}: {}", code(&job.id), code(&fold(&job.what)));
            self.one(Section::Next, value, text);
        }
    }

    fn errors(&mut self, ledger: &Ledger) {
        let root = ledger.root.as_deref();
        let long = self.share.of(9, 300);
        // An unresolved error blocks while the request it happened under is the latest one.
        let since = ledger.words.latest().map_or(0, |said| said.origin.offset);
        let errors = ledger.commands.errors.iter().rev().enumerate();
        let mut newest = true;
        let mut open = 0;
        for (rank, error) in errors.filter(|(rank, error)| *rank == 0 || !error.refusal) {
            let stuck = error.resolved.is_none() && error.blocking;
            let (section, value) = if stuck && (newest || error.origin.offset >= since) {
                open += 1;
                (Section::Blockers, self.value(error.stretch, 870, 480, 40, open - 1))
            } else {
                (Section::Errors, self.value(error.stretch, if newest { 865 } else { 420 }, 250, 10, rank))
            };
            let most = if newest { self.share.of(6, 300) } else { long };
            let forms = [most, most.min(500), most.min(280)].map(|max| failure(error, root, max)).to_vec();
            self.add(section, value, forms);
            // Behind a refusal the last real error is still the newest.
            newest &= error.refusal;
        }
        for (rank, entry) in ledger.commands.replaced.iter().rev().enumerate() {
            let value = self.value(entry.stretch, 735, 340, 8, rank);
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
            let value = self.value(0, 500, 500, 20, rank);
            self.one(Section::Git, value, format!("- earlier branch: {}", code(name)));
        }
        if let Some(root) = &ledger.root {
            self.one(Section::Git, 850, format!("- folder: {}", code(root)));
        }
        if let Some(cwd) = ledger.cwd.as_ref().filter(|cwd| ledger.root.as_ref() != Some(cwd)) {
            self.one(Section::Git, 760, format!("- working in: {}", code(cwd)));
        }
        for (rank, commit) in ledger.git.commits.iter().rev().enumerate() {
            let value = self.value(commit.stretch, 848, 460, 3, rank);
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
            let value = self.value(status.stretch, if status.outdated { 430 } else { 650 }, 260, 0, 0);
            self.one(Section::Git, value, lines(&format!("- {when}:"), clip_lines(&status.text, most)));
        }
        for (rank, link) in ledger.git.links.iter().rev().enumerate() {
            let value = self.value(link.stretch, 645, 350, 12, rank);
            self.one(Section::Git, value, format!("- link: {}", link.text));
        }
    }

    fn files(&mut self, ledger: &Ledger) {
        let root = ledger.root.as_deref();
        for (rank, file) in ledger.files.changed().enumerate() {
            let value = self.value(file.stretch, 845, 470, 3, rank);
            self.one(
                Section::Files,
                value,
                format!("- {} · {}", changes(file), code(relative(&file.path, root))),
            );
        }
        for (rank, file) in ledger.files.read_only().take(40).enumerate() {
            let value = self.value(file.stretch, 410, 200, 4, rank);
            self.one(Section::Read, value, format!("- {}", code(relative(&file.path, root))));
        }
    }

    fn commands(&mut self, ledger: &Ledger) {
        let mut ranks = [0_usize; 2];
        for command in ledger.commands.commands.iter().rev() {
            let check = matches!(command.kind, Kind::Test | Kind::Build);
            let rank = &mut ranks[usize::from(check)];
            let here = if check { 835 } else { 715 };
            let value = self.value(command.stretch, here, 400, 3, *rank);
            *rank += 1;
            self.add(Section::Commands, value, command_forms(command));
        }
    }

    fn done(&mut self, ledger: &Ledger) {
        for (rank, task) in ledger.todos.done().rev().enumerate() {
            let value = self.value(task.stretch, 560, 280, 5, rank);
            let number = task.id.as_deref().map(|id| format!("#{id} ")).unwrap_or_default();
            self.one(Section::Done, value, format!("- [done] {number}{}", fold(&task.text)));
        }
    }

    fn agents(&mut self, ledger: &Ledger) {
        for (rank, job) in ledger.jobs.agents().enumerate() {
            let value = self.value(job.stretch, 440, 220, 15, rank);
            let head = format!("- {}", code(&fold(&job.what)));
            let most = self.share.of(24, 200);
            let result = job.result.as_deref().and_then(|result| clip(result, most));
            let mut forms = vec![head.clone()];
            if let Some(result) = result {
                forms.insert(0, lines(&head, result));
            }
            self.add(Section::Agents, value, forms);
        }
    }

    fn mentions(&mut self, ledger: &Ledger) {
        for (rank, chunk) in
            ledger.mentions.names.items.iter().rev().collect::<Vec<_>>().chunks(8).take(5).enumerate()
        {
            let names: Vec<String> = chunk.iter().map(|name| code(name)).collect();
            let value = self.value(self.now, 455, 0, 40, rank);
            self.one(Section::Mentions, value, format!("- {}", names.join(" ")));
        }
    }
}
