//! Entries of what was done: next steps, errors, git, findings, commands, finished items, subagents.

use super::form::{code, command_forms, failure, lines, outcome};
use super::{List, Section, is_named, is_try};
use crate::ledger::shell::WorkKind;
use crate::ledger::text::{clip, clip_lines, fits, fold, sentences};
use crate::ledger::{AnswerState, Job, Ledger, Task, slashed};
use crate::transcript::{Origin, TodoStatus};

impl List {
    pub(super) fn next(&mut self, ledger: &Ledger) {
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

    pub(super) fn errors(&mut self, ledger: &Ledger) {
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

    pub(super) fn git(&mut self, ledger: &Ledger) {
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
    pub(super) fn findings(&mut self, ledger: &Ledger) {
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

    pub(super) fn commands(&mut self, ledger: &Ledger) {
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

    pub(super) fn done(&mut self, ledger: &Ledger) {
        for (rank, task) in ledger.todos.done().rev().enumerate() {
            let value = self.value(task.origin.cycle, 560, 280, 5, rank);
            let number = task.id.as_deref().map(|id| format!("#{id} ")).unwrap_or_default();
            self.one(Section::Done, value, format!("- [done] {number}{}", fold(&task.text)));
        }
    }

    pub(super) fn agents(&mut self, ledger: &Ledger) {
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
}
