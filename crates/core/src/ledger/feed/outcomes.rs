//! The outcome of a call: the facts that it proves.

use super::calls::{Act, commands_of};
use crate::approval::answered_by;
use crate::ledger::commands::CommandOutcome;
use crate::ledger::files::{is_kept_output, is_temporary};
use crate::ledger::jobs;
use crate::ledger::names::holds_secrets;
use crate::ledger::shell;
use crate::ledger::words::{AnswerState, Utterance, UtteranceKind};
use crate::ledger::working::{By, Position};
use crate::ledger::{Ledger, Plan, text};
use crate::transcript::{self, Author, Body, Hunk, Origin, TodoStatus, Touch};

/// A tool's output beyond this is an image or a dump: no rule looks into it.
pub(super) const OUTPUT: usize = 1 << 20;

impl Ledger {
    pub(super) fn outcome(
        &mut self,
        id: &str,
        outcome: &transcript::CallOutcome<'_>,
        origin: &Origin,
        recent: bool,
    ) {
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

    /// The user refused a call; the reason is a correction in their own words. Another tool can print the same
    /// sentence, and its words count only as said in the session.
    pub(super) fn refused(&mut self, act: &Act, output: &str, refused: &str, origin: &Origin, recent: bool) {
        let said = refused.split_once("the user said:").map(|(_, words)| words.trim()).unwrap_or_default();
        if !act.is_clients() {
            self.said(said, UtteranceKind::Refusal, &Author::Unknown, origin, recent);
            return;
        }
        self.words.answered = AnswerState::Interrupted;
        // A refused question comes back wrapped in the client's own text.
        let from_client = said.starts_with("The user wants to clarify these questions");
        if !said.is_empty() && !from_client {
            self.said(said, UtteranceKind::Refusal, &Author::User, origin, recent);
            self.words.answered = AnswerState::No;
        }
        let cause = act.label().unwrap_or_default();
        self.commands.refused(cause, output, origin);
        if matches!(act, Act::Shell { .. } | Act::Edit { .. }) {
            let tried = text::clip_lines(cause, 600).to_owned();
            self.words.refuse(tried, origin);
        }
    }

    pub(super) fn failed(
        &mut self,
        act: Act,
        outcome: &transcript::CallOutcome<'_>,
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
                self.commands.failed(
                    cause,
                    Some(shell::topic(cause)),
                    CommandOutcome::Failed,
                    output,
                    origin,
                );
            }
            Act::Poll(process) => self.polled(&process, outcome, origin, recent),
            Act::Edit { changes, .. } => {
                let Some((_, path, _)) = changes.into_iter().next() else { return };
                let topic = format!("file {path}");
                self.commands.failed(&path, Some(topic), CommandOutcome::Failed, output, origin);
            }
            // A failed read only looked in the wrong place; it blocks nothing.
            Act::Read { path, .. } => {
                self.commands.failed(&path, None, CommandOutcome::Failed, output, origin);
            }
            Act::Asked(_) => {}
            Act::Other(name) => {
                let topic = name.starts_with("mcp__").then(|| format!("tool {name}"));
                self.commands.failed(&name, topic, CommandOutcome::Failed, output, origin);
            }
            Act::Agent { what, .. } | Act::TaskCreated(what) => {
                self.commands.failed(&what, None, CommandOutcome::Failed, output, origin);
            }
            Act::Search { pattern, .. } => {
                self.commands.failed(&pattern, None, CommandOutcome::Failed, output, origin);
            }
            Act::Stopped(_) | Act::Plan => {
                self.commands.failed("", None, CommandOutcome::Failed, output, origin);
            }
        }
    }

    pub(super) fn succeeded(
        &mut self,
        act: Act,
        outcome: &transcript::CallOutcome<'_>,
        origin: &Origin,
        recent: bool,
    ) {
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
                    // Only the answer tells a new file from an existing one.
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

    /// Collects the names in a tool's output.
    pub(super) fn shown(
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

    pub(super) fn read_file(
        &mut self,
        path: &str,
        from: u32,
        lines: u32,
        body: &Body<'_>,
        origin: &Origin,
        recent: bool,
    ) {
        if is_temporary(path) {
            return;
        }
        if is_kept_output(path) {
            let root = self.root.clone();
            let place = Position { file: None, numbered: true, root: root.as_deref() };
            self.shown(body, &place, None, origin, recent);
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

    /// Records that the user refused a call outside the client, with their words: the client's record does not say
    /// whose they are.
    pub fn refused_by_user(&mut self, reason: &str) {
        let reason = reason.trim();
        let is_it = |said: &Utterance| {
            said.way == UtteranceKind::Refusal
                && said.author == Author::User
                && reason.starts_with(&said.text)
        };
        if !reason.is_empty() && !self.words.recent.items.iter().any(is_it) {
            let origin = Origin { cycle: self.cycle, offset: self.read_to, ..Origin::default() };
            self.said(reason, UtteranceKind::Refusal, &Author::User, &origin, true);
        }
    }

    /// The agent's questions were answered, and the client has recorded each question with its answer. If an agent
    /// answered in the user's place, the answer names it, and its words are not the user's.
    pub(super) fn asked(
        &mut self,
        questions: &[String],
        outcome: &transcript::CallOutcome<'_>,
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
                    self.said(&said, UtteranceKind::Reply, &Author::Agent(agent.to_owned()), origin, recent);
                }
                None => self.words.answer(question, answer, origin),
            }
        }
        if !answers.is_empty() {
            self.words.answered = AnswerState::No;
        }
    }

    pub(super) fn touched(&mut self, touch: Touch, path: &str, hunks: &[Hunk], origin: &Origin) {
        if is_temporary(path) {
            return;
        }
        let id = self.files.touch(touch, path, self.working.act, origin);
        self.files.marked(id, hunks);
        self.commands.worked(path, &format!("file {path}"), origin);
        self.planned(touch, path, origin);
    }

    pub(super) fn planned(&mut self, touch: Touch, path: &str, origin: &Origin) {
        if touch == Touch::Deleted || !plan_file(path) {
            return;
        }
        // Reading an old plan does not replace the current one.
        let written =
            self.plan.as_ref().is_some_and(|plan| plan.origin.cycle == origin.cycle && plan.path != path);
        if touch != Touch::Read || !written {
            self.plan = Some(Plan { path: path.to_owned(), origin: origin.clone() });
        }
    }
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

/// A Markdown file in a folder of plans, or with "plan" in its name.
fn plan_file(path: &str) -> bool {
    let Some(stem) = path.strip_suffix(".md") else { return false };
    let lower = stem.to_ascii_lowercase();
    let name = lower.rsplit('/').next().unwrap_or_default();
    lower.contains("/plans/")
        || lower.starts_with("plans/")
        || name.split(['-', '_', '.']).any(|p| p == "plan")
}
