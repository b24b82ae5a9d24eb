//! Effects and output of commands and scripts, including those that outlive their call.

use super::calls::{Act, commands_of};
use super::outcomes::OUTPUT;
use crate::ledger::Ledger;
use crate::ledger::commands::{self, CommandOutcome};
use crate::ledger::files::{is_temporary, relative};
use crate::ledger::git;
use crate::ledger::jobs;
use crate::ledger::names::names_secrets;
use crate::ledger::shell;
use crate::ledger::working::{By, Position};
use crate::transcript::{self, Body, Origin, ScriptCall, ScriptResult, Touch};

impl Ledger {
    /// A script whose parts the client did not report.
    pub(super) fn scripted(
        &mut self,
        calls: Vec<ScriptCall>,
        reports: u64,
        folder: Option<String>,
        outcome: &transcript::CallOutcome<'_>,
        origin: &Origin,
        recent: bool,
    ) {
        if self.open.reports > reports {
            return;
        }
        let output = outcome.body.text();
        if let Some(cell) = cell_of(&output) {
            // It keeps running in its cell; the next poll uses the cell's name.
            self.open.open(cell, Act::Script { calls, reports, folder });
            return;
        }
        self.open.folder = folder;
        let results = &outcome.results;
        // Either each call printed its result, or the only call printed just its output.
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
                    self.commands.ran(command, CommandOutcome::Unknown, "", origin);
                    self.written_by(command, origin);
                }
            }
        }
        // Nothing says which command a new process belongs to, so assume the last one.
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

    /// One call of a script, and its result.
    pub(super) fn called(
        &mut self,
        call: &ScriptCall,
        result: &ScriptResult,
        failed: bool,
        origin: &Origin,
        recent: bool,
    ) {
        let outcome = transcript::CallOutcome {
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
                self.commands.ran(command, CommandOutcome::Unknown, "", origin);
            }
            (ScriptCall::Command(command), None) => self.ran(command, false, &outcome, origin, recent),
            (ScriptCall::Poll(process), Some(_)) => {
                self.jobs.look(process, origin);
                self.shown(&outcome.body, &Position::NOWHERE, None, origin, recent);
            }
            (ScriptCall::Poll(process), None) => self.process_ended(process, &outcome, origin, recent),
        }
    }

    /// A process was polled once more.
    pub(super) fn polled(
        &mut self,
        process: &str,
        outcome: &transcript::CallOutcome<'_>,
        origin: &Origin,
        recent: bool,
    ) {
        let output = outcome.body.text();
        if let Some(cell) = cell_of(&output) {
            if cell != process {
                // The poll itself keeps running in a cell.
                self.open.open(cell, Act::Poll(process.to_owned()));
            }
            return;
        }
        // An aborted poll shows nothing.
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

    /// A poll did not show the process running: it has ended, with the printed status, if any.
    pub(super) fn process_ended(
        &mut self,
        process: &str,
        outcome: &transcript::CallOutcome<'_>,
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

    /// Whether the call whose outcome is being read ran in the folder of the task, where git speaks of the task's
    /// branch.
    pub(super) fn is_at_home(&self, command: &str) -> bool {
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
    pub(super) fn ran(
        &mut self,
        command: &str,
        background: bool,
        outcome: &transcript::CallOutcome<'_>,
        origin: &Origin,
        recent: bool,
    ) {
        let body = &outcome.body;
        let kind = shell::kind(command);
        let git = command.contains("git") || command.contains("gh ");
        // No rule reads the output of old listings and searches, so it stays undecoded. If the client moved a command
        // to the background by itself, its short answer says so.
        let wanted = recent || outcome.failed || kind.is_some() || git || background || body.size() < 600;
        let output = if wanted && body.size() <= OUTPUT { body.text() } else { "".into() };
        self.commands.used(command);
        if let Some(id) = jobs::background_id(&output).filter(|_| background || output.contains(" with ")) {
            if output.starts_with(RUNNING) {
                self.jobs.left(id, command, origin);
            } else {
                self.jobs.started(id, command, false, origin);
            }
            self.commands.ran(command, CommandOutcome::Unknown, "", origin);
            return;
        }
        let status = match (outcome.exit, outcome.failed) {
            (Some(code), _) => CommandOutcome::Exit(code),
            (None, true) => commands::exit_code(&output).map_or(CommandOutcome::Failed, CommandOutcome::Exit),
            // Where a script hides the status, not every client says that it failed.
            (None, false) if self.provider().is_some_and(|of| !of.marks_failures()) => {
                CommandOutcome::Unknown
            }
            (None, false) => CommandOutcome::Exit(0),
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

    /// Collects the names in a command's output; if it reads files, each name belongs to its file.
    pub(super) fn printed(&mut self, command: &str, output: &str, origin: &Origin) {
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

    /// A file that a command printed; temporary files are not work.
    pub(super) fn looked_at(&mut self, path: &str, origin: &Origin) -> Option<u32> {
        let path = self.path(path);
        (!is_temporary(&path)).then(|| self.files.touch(Touch::Read, &path, self.working.act, origin))
    }

    /// Files that a command writes, moves or removes by name.
    pub(super) fn written_by(&mut self, command: &str, origin: &Origin) {
        for (touch, path) in shell::changed(command) {
            let path = self.path(&path);
            let known =
                self.files.find(&path).and_then(|id| self.files.files.iter().find(|file| file.id == id));
            let path = known.map_or(path, |file| file.path.clone());
            if !is_temporary(&path) {
                self.files.touch(touch, &path, self.working.act, origin);
            }
        }
    }
}

/// An output without the header that Codex adds.
fn without_head(output: &str) -> &str {
    const MARK: &str = "\nOutput:\n";
    let has_head = ["Script completed", "Chunk ID:", "Wall time"].iter().any(|head| output.starts_with(head));
    match output.find(MARK) {
        Some(at) if has_head && at < 400 => output[at + MARK.len()..].trim_start_matches('\n'),
        _ => output,
    }
}

/// How many bytes of `output` each of `parts` printed; `None` if the lines do not add up, as when a file ended early or
/// the client left lines out.
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

/// Codex's words for a process that keeps running.
const RUNNING: &str = "Process running with session ID ";

/// The cell in which a script runs on: `cell 20`.
fn cell_of(output: &str) -> Option<&str> {
    let cell = output.strip_prefix(RUNNING)?.lines().next()?;
    cell.starts_with("cell ").then_some(cell)
}
