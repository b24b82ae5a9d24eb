//! Work beside the conversation: background processes that still run, and subagents with their results.

use serde::{Deserialize, Serialize};

use super::capped::Capped;
use super::text;
use crate::transcript::Origin;

const KEPT: usize = 60;
const RESULT_CHARS: usize = 4_000;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    pub id: String,
    /// The command, or the subagent's task.
    pub what: String,
    pub agent: bool,
    pub running: bool,
    pub status: Option<String>,
    /// The beginning of its result.
    pub result: Option<String>,
    pub origin: Origin,
    /// When a poll last showed it running; `None` if the client itself reports its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<Origin>,
}

impl Job {
    /// Whether it certainly runs: the client would have reported its end, or it was seen running since `asked`.
    pub(crate) fn is_certain(&self, asked: Option<&Origin>) -> bool {
        self.seen.as_ref().is_none_or(|seen| asked.is_none_or(|asked| seen.is_after(asked)))
    }
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Jobs {
    pub jobs: Capped<Job>,
}

impl Jobs {
    pub(crate) fn started(&mut self, id: &str, what: &str, agent: bool, origin: &Origin) {
        self.push(id, what, agent, true, None, origin);
    }

    /// A process was left running, and only polling it again tells whether it has ended.
    pub fn left(&mut self, id: &str, what: &str, origin: &Origin) {
        if !self.look(id, origin) {
            self.started(id, what, false, origin);
            self.look(id, origin);
        }
    }

    /// A poll showed the process running. Returns `false` if the process is unknown.
    pub fn look(&mut self, id: &str, origin: &Origin) -> bool {
        let job = self.jobs.items.iter_mut().rev().find(|job| job.running && job.id == id);
        let known = job.is_some();
        if let Some(job) = job {
            job.seen = Some(origin.clone());
        }
        known
    }

    /// The subagent that was started last has this name.
    pub(crate) fn named(&mut self, id: &str) {
        let is_unnamed = |job: &&mut Job| job.agent && job.running && job.id.is_empty();
        if let Some(job) = self.jobs.items.iter_mut().rev().find(is_unnamed) {
            id.clone_into(&mut job.id);
        }
    }

    /// A subagent that the agent waited for has returned.
    pub(crate) fn returned(&mut self, what: &str, result: &str, origin: &Origin) {
        self.push("", what, true, false, beginning(result), origin);
    }

    fn push(
        &mut self,
        id: &str,
        what: &str,
        agent: bool,
        running: bool,
        result: Option<String>,
        origin: &Origin,
    ) {
        let what = text::clip_lines(what, 600).to_owned();
        let id = id.to_owned();
        let job = Job { id, what, agent, running, status: None, result, origin: origin.clone(), seen: None };
        self.jobs.push(job, KEPT);
    }

    pub(crate) fn ended(&mut self, id: &str, status: &str, result: &str) {
        if let Some(job) = self.jobs.items.iter_mut().rev().find(|job| !id.is_empty() && job.id == id) {
            job.running = false;
            if !status.is_empty() {
                job.status = Some(status.to_owned());
            }
            if let Some(result) = beginning(result) {
                job.result = Some(result);
            }
        }
    }

    pub fn running(&self) -> impl Iterator<Item = &Job> {
        self.jobs.iter().rev().filter(|job| job.running)
    }

    pub(crate) fn agents(&self) -> impl Iterator<Item = &Job> {
        self.jobs.iter().rev().filter(|job| job.agent && !job.running)
    }
}

fn beginning(result: &str) -> Option<String> {
    let result = result.trim();
    // The client appends the agent's id and usage to the answer.
    let result = result.split("\nagentId: ").next().unwrap_or(result);
    let kept = text::clip(result, RESULT_CHARS).unwrap_or_else(|| text::clip_lines(result, RESULT_CHARS));
    (!kept.is_empty()).then(|| kept.to_owned())
}

/// The name that Codex gives a subagent when it starts it: `{"task_name":"/root/helper"}`.
pub(super) fn task_name(output: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Started {
        task_name: String,
    }
    serde_json::from_str::<Started>(output).ok().map(|started| started.task_name)
}

/// The id in the client's answer to a call that went to the background.
pub(super) fn background_id(output: &str) -> Option<&str> {
    const MARKS: [&str; 5] = [
        "running in background with ID: ",
        "running in the background with ID: ",
        "backgrounded by user with ID: ",
        "agentId: ",
        "Process running with session ID ",
    ];
    let (_, rest) = MARKS.iter().find_map(|mark| output.split_once(mark))?;
    let end =
        rest.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))).unwrap_or(rest.len());
    (end > 0).then(|| &rest[..end])
}
