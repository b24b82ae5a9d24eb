//! Commands that build, test, lint and run, with their last outcome; the last errors, whether they were resolved
//! since; and approaches that failed and were replaced by another.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::capped::Capped;
use super::shell::{self, WorkKind};
use super::text;
use crate::plain::without_escapes;
use crate::transcript::Origin;

const COMMANDS: usize = 150;
const COMMAND_CHARS: usize = 1_500;
const ERRORS: usize = 24;
const ERROR_CHARS: usize = 2_000;
const REPLACED: usize = 40;
const RESULT_CHARS: usize = 200;
const USED: usize = 40;
const USED_CHARS: usize = 300;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    pub kind: WorkKind,
    pub text: String,
    pub runs: u32,
    pub outcome: CommandOutcome,
    /// The most informative line of its last output, verbatim.
    pub result: Option<String>,
    /// Whether that line reports a failure, whatever the exit status: a pipe through `tail` hides it.
    pub complains: bool,
    pub origin: Origin,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CommandOutcome {
    Exit(i32),
    /// Failed without an exit status (killed, timed out, refused by the tool).
    Failed,
    /// Its result is not in the transcript.
    Unknown,
}

impl CommandOutcome {
    pub(crate) fn ok(self) -> bool {
        self == Self::Exit(0)
    }
}

/// A failed tool call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The command, or the tool and its file.
    pub cause: String,
    pub topic: String,
    pub outcome: CommandOutcome,
    pub text: String,
    pub left_out: usize,
    /// It stopped the work: a command or an edit, not a lookup that found nothing.
    pub blocking: bool,
    /// The user refused the call.
    pub refusal: bool,
    /// Where the same thing worked afterwards.
    pub resolved: Option<Origin>,
    pub origin: Origin,
}

/// A failed approach, and what was done instead.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplacedApproach {
    pub tried: String,
    pub outcome: CommandOutcome,
    pub instead: String,
    pub origin: Origin,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Commands {
    /// In the order of their last run, the newest at the end.
    pub commands: Capped<Command>,
    pub errors: Capped<Failure>,
    pub replaced: Capped<ReplacedApproach>,
    /// Whatever was run last, of every kind, the newest at the end.
    #[serde(default)]
    pub recent: VecDeque<String>,
}

impl Commands {
    /// A command was run.
    pub(super) fn used(&mut self, line: &str) {
        let line = text::clip_lines(line, USED_CHARS);
        self.recent.retain(|known| known != line);
        self.recent.push_back(line.to_owned());
        if self.recent.len() > USED {
            self.recent.pop_front();
        }
    }

    /// What was run last, newest first, without the commands that have an entry.
    pub(crate) fn other_recent(&self) -> impl Iterator<Item = &str> {
        let has_entry =
            |line: &str| self.commands.iter().any(|c| text::clip_lines(&c.text, USED_CHARS) == line);
        self.recent.iter().rev().map(String::as_str).filter(move |line| !has_entry(line))
    }

    /// A command that was still running has ended.
    pub(super) fn settled(&mut self, line: &str, outcome: CommandOutcome) {
        let known = self.commands.items.iter_mut().rev().find(|c| c.text == line.trim());
        if let Some(command) = known.filter(|c| c.outcome == CommandOutcome::Unknown) {
            command.outcome = outcome;
        }
    }

    /// A command that was left running has ended: this is the same run, not another one.
    pub(super) fn resumed(&mut self, line: &str) {
        let known = self.commands.items.iter_mut().rev().find(|c| c.text == line.trim());
        if let Some(command) = known.filter(|c| c.outcome == CommandOutcome::Unknown) {
            command.runs = command.runs.saturating_sub(1);
        }
    }

    /// A shell command ended.
    pub(crate) fn ran(&mut self, line: &str, outcome: CommandOutcome, output: &str, origin: &Origin) {
        let topic = shell::topic(line);
        let mut complains = false;
        if let Some(kind) = shell::kind(line) {
            let known = self.commands.items.iter().position(|c| c.text == line.trim());
            let runs = known.and_then(|at| self.commands.items.remove(at)).map_or(0, |c| c.runs);
            let (result, bad) = telling_line(output);
            complains = bad;
            let command = Command {
                kind,
                text: text::clip_lines(line, COMMAND_CHARS).to_owned(),
                runs: runs + 1,
                outcome,
                result,
                complains,
                origin: origin.clone(),
            };
            self.commands.push(command, COMMANDS);
        }
        if outcome == CommandOutcome::Unknown {
            return;
        }
        if !outcome.ok() {
            self.failed(line, Some(topic), outcome, output, origin);
        } else if !complains {
            self.worked(line, &topic, origin);
        }
    }

    /// The user refused a call. Only the newest refusal is kept as an error; the user's words are kept elsewhere.
    pub(crate) fn refused(&mut self, cause: &str, output: &str, origin: &Origin) {
        self.errors.items.retain(|error| !error.refusal);
        self.failed(cause, None, CommandOutcome::Failed, output, origin);
        if let Some(error) = self.errors.items.back_mut() {
            error.refusal = true;
        }
    }

    /// A tool call failed. A later success with the same `topic` resolves it; without a topic nothing can.
    pub(crate) fn failed(
        &mut self,
        cause: &str,
        topic: Option<String>,
        outcome: CommandOutcome,
        output: &str,
        origin: &Origin,
    ) {
        let output = without_escapes(output);
        let whole = output.trim();
        let kept = text::clip_lines(whole, ERROR_CHARS);
        let failure = Failure {
            cause: text::clip_lines(cause, COMMAND_CHARS).to_owned(),
            // One of several calls at once failed, and the client gave up the others.
            blocking: topic.is_some() && !whole.contains("Sibling tool call errored"),
            refusal: false,
            topic: topic.unwrap_or_default(),
            outcome,
            text: kept.to_owned(),
            left_out: whole.chars().count().saturating_sub(kept.chars().count()),
            resolved: None,
            origin: origin.clone(),
        };
        self.errors.push(failure, ERRORS);
    }

    /// Something worked: errors of its topic are resolved, and if it was another way to do the same, it replaced the
    /// failed way.
    pub(crate) fn worked(&mut self, cause: &str, topic: &str, origin: &Origin) {
        if topic.is_empty() {
            return;
        }
        let mut replaced = Vec::new();
        for error in self.errors.items.iter_mut().filter(|e| e.resolved.is_none() && e.topic == topic) {
            error.resolved = Some(origin.clone());
            if error.cause.trim() != cause.trim() {
                replaced.push(ReplacedApproach {
                    tried: error.cause.clone(),
                    outcome: error.outcome,
                    instead: text::clip_lines(cause, COMMAND_CHARS).to_owned(),
                    origin: error.origin.clone(),
                });
            }
        }
        for entry in replaced {
            // Repeated failures of the same kind are one approach.
            self.replaced.items.retain(|known| known.tried != entry.tried || known.outcome != entry.outcome);
            self.replaced.push(entry, REPLACED);
        }
    }
}

/// The exit status that Claude Code puts in front of a failed command's output.
pub(super) fn exit_code(output: &str) -> Option<i32> {
    let rest = output.trim_start().strip_prefix("Exit code ")?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..digits].parse().ok()
}

/// The first line that reports a failure, else the last non-empty line; and whether it is a failure.
fn telling_line(output: &str) -> (Option<String>, bool) {
    let output = without_escapes(output);
    let lines = || output.lines().map(str::trim).filter(|l| l.chars().any(char::is_alphanumeric));
    let bad = lines().find(|line| complaint(line));
    let line = bad.or_else(|| lines().next_back()).filter(|line| text::fits(line, RESULT_CHARS));
    (line.map(str::to_owned), bad.is_some())
}

/// How test runners, compilers and linters say that something failed.
fn complaint(line: &str) -> bool {
    const STARTS: [&str; 14] = [
        "FAIL",
        "--- FAIL",
        "error:",
        "error[",
        "Error:",
        "ERROR",
        "panic:",
        "fatal:",
        "Traceback (most recent call last)",
        "npm ERR!",
        "npm error",
        "make: ***",
        "Failed!",
        "[-] ",
    ];
    const INSIDE: [&str; 6] =
        [": error:", ": error ", "... FAILED", " ERROR ", ": undefined:", "panicked at"];
    if STARTS.iter().any(|s| line.starts_with(s)) || INSIDE.iter().any(|s| line.contains(s)) {
        return true;
    }
    // `Failed: 2`, `failures=1`, but not `Failed: 0`.
    let counted = ["ailed", "ailures", "rrors"].iter().any(|word| {
        line.match_indices(word).any(|(at, _)| {
            let rest =
                line[at + word.len()..].strip_prefix([':', '=']).map(str::trim_start).unwrap_or_default();
            let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            rest[..digits].parse::<u64>().is_ok_and(|n| n > 0)
        })
    });
    if counted {
        return true;
    }
    // `3 failed`, `2 errors`, but not `0 failed`.
    let words: Vec<&str> =
        line.split(|c: char| !c.is_ascii_alphanumeric()).filter(|w| !w.is_empty()).collect();
    words.windows(2).any(|pair| {
        pair[0].parse::<u64>().is_ok_and(|n| n > 0)
            && matches!(pair[1], "failed" | "failure" | "failures" | "error" | "errors" | "failing")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_complains_when_something_failed_and_not_when_nothing_did() {
        for bad in [
            "FAIL",
            "--- FAIL: TestX (0.00s)",
            "error[E0425]: cannot find",
            "3 failed, 2 passed",
            "x.c:1: error: y",
            "Tests Passed: 12, Failed: 2, Skipped: 0",
            "[-] reads a file 12ms (11ms|1ms)",
            "Failed!  - Failed:     1, Passed:    30, Skipped:     0",
            "FAILED (failures=1, errors=2)",
            "Traceback (most recent call last):",
            r"C:\app\A.cs(12,5): error CS1002: ; expected",
            "src/a.ts(3,1): error TS2304: Cannot find name 'x'.",
            "Found 1 error in 1 file (checked 3 source files)",
            "npm ERR! Test failed.  See above for more details.",
        ] {
            assert!(complaint(bad), "{bad}");
        }
        for good in [
            "test result: ok. 5 passed; 0 failed; 0 ignored",
            "0 errors",
            "ok pkg/errors 0.2s",
            "no failures",
            "Tests Passed: 12, Failed: 0, Skipped: 1",
            "Passed!  - Failed:     0, Passed:    30, Skipped:     2",
            "5 passed; 0 failed; 3 ignored; 2 measured",
        ] {
            assert!(!complaint(good), "{good}");
        }
    }

    #[test]
    fn a_run_that_hid_its_failure_behind_a_pipe_does_not_resolve_the_error() {
        let mut commands = Commands::default();
        let origin = Origin::default();
        commands.ran("go test ./a", CommandOutcome::Exit(1), "Exit code 1\nFAIL", &origin);
        commands.ran("go test ./a | tail", CommandOutcome::Exit(0), "--- FAIL: TestA\nFAIL", &origin);
        assert_eq!(commands.errors.last().unwrap().resolved, None);
        commands.ran("go test ./a -v", CommandOutcome::Exit(0), "ok a 0.1s", &origin);
        assert!(commands.errors.last().unwrap().resolved.is_some());
        assert_eq!(commands.replaced.last().unwrap().tried, "go test ./a");
    }
}
