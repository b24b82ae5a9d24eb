//! Commands that build, test, lint and run, with their last outcome; the last errors, whether they were resolved
//! since; and approaches that failed and were replaced by another.

use serde::{Deserialize, Serialize};

use super::capped::Capped;
use super::shell::{self, Kind};
use super::text;
use crate::transcript::Origin;

const COMMANDS: usize = 150;
const COMMAND_CHARS: usize = 1_500;
const ERRORS: usize = 24;
const ERROR_CHARS: usize = 2_000;
const REPLACED: usize = 40;
const RESULT_CHARS: usize = 200;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    pub kind: Kind,
    pub text: String,
    pub runs: u32,
    pub outcome: Outcome,
    /// The line of its last output that says most, verbatim.
    pub result: Option<String>,
    pub stretch: u32,
    pub origin: Origin,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    Exit(i32),
    /// Failed without an exit status (killed, timed out, refused by the tool).
    Failed,
    /// Its result is not in the transcript.
    Unknown,
}

impl Outcome {
    pub fn ok(self) -> bool {
        self == Self::Exit(0)
    }
}

/// A failed tool call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The command, or the tool and its file.
    pub cause: String,
    pub topic: String,
    pub outcome: Outcome,
    pub text: String,
    pub left_out: usize,
    /// Where the same thing worked afterwards.
    pub resolved: Option<Origin>,
    pub stretch: u32,
    pub origin: Origin,
}

/// Something that failed, and what was done in its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replaced {
    pub tried: String,
    pub outcome: Outcome,
    pub instead: String,
    pub stretch: u32,
    pub origin: Origin,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Commands {
    /// In the order of their last run, the newest at the end.
    pub commands: Capped<Command>,
    pub errors: Capped<Failure>,
    pub replaced: Capped<Replaced>,
}

impl Commands {
    /// A shell command ended.
    pub fn ran(&mut self, line: &str, outcome: Outcome, output: &str, stretch: u32, origin: &Origin) {
        let topic = shell::topic(line);
        if let Some(kind) = shell::kind(line) {
            let known = self.commands.items.iter().position(|c| c.text == line.trim());
            let runs = known.and_then(|at| self.commands.items.remove(at)).map_or(0, |c| c.runs);
            let command = Command {
                kind,
                text: text::clip_lines(line, COMMAND_CHARS).to_owned(),
                runs: runs + 1,
                outcome,
                result: telling_line(output),
                stretch,
                origin: origin.clone(),
            };
            self.commands.push(command, COMMANDS);
        }
        if outcome == Outcome::Unknown {
            return;
        }
        if outcome.ok() {
            self.worked(line, &topic, stretch, origin);
        } else {
            self.failed(line, topic, outcome, output, stretch, origin);
        }
    }

    /// A tool call gave an error. `topic` is what a later success must share to resolve it.
    pub fn failed(
        &mut self,
        cause: &str,
        topic: String,
        outcome: Outcome,
        output: &str,
        stretch: u32,
        origin: &Origin,
    ) {
        let output = text::without_escapes(output);
        let whole = output.trim();
        let kept = text::clip_lines(whole, ERROR_CHARS);
        let failure = Failure {
            cause: text::clip_lines(cause, COMMAND_CHARS).to_owned(),
            topic,
            outcome,
            text: kept.to_owned(),
            left_out: whole.chars().count().saturating_sub(kept.chars().count()),
            resolved: None,
            stretch,
            origin: origin.clone(),
        };
        self.errors.push(failure, ERRORS);
    }

    /// Something worked: errors of its topic are over, and if it is another way to do the same, the failed way
    /// was replaced.
    pub fn worked(&mut self, cause: &str, topic: &str, stretch: u32, origin: &Origin) {
        if topic.is_empty() {
            return;
        }
        let mut replaced = Vec::new();
        for error in self.errors.items.iter_mut().filter(|e| e.resolved.is_none() && e.topic == topic) {
            error.resolved = Some(origin.clone());
            if error.cause.trim() != cause.trim() {
                replaced.push(Replaced {
                    tried: error.cause.clone(),
                    outcome: error.outcome,
                    instead: text::clip_lines(cause, COMMAND_CHARS).to_owned(),
                    stretch,
                    origin: error.origin.clone(),
                });
            }
        }
        for entry in replaced {
            self.replaced.push(entry, REPLACED);
        }
    }
}

/// The exit status that Claude Code puts in front of a failed command's output.
pub fn exit_code(output: &str) -> Option<i32> {
    let rest = output.trim_start().strip_prefix("Exit code ")?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..digits].parse().ok()
}

/// The first line that speaks of failure, else the last line that says anything.
fn telling_line(output: &str) -> Option<String> {
    const BAD: [&str; 8] =
        ["FAIL", "error:", "error[", "Error:", "panic", "failed", "undefined:", "not found"];
    let output = text::without_escapes(output);
    let lines = || output.lines().map(str::trim).filter(|l| l.chars().any(char::is_alphanumeric));
    let bad = lines().find(|line| BAD.iter().any(|word| line.contains(word)));
    let line = bad.or_else(|| lines().next_back())?;
    text::fits(line, RESULT_CHARS).then(|| line.to_owned())
}
