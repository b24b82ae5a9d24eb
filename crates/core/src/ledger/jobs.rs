//! Work that runs beside the conversation: background processes still running, subagents and what they returned.

use serde::{Deserialize, Serialize};

use super::capped::Capped;
use super::text;
use crate::transcript::Origin;

const KEPT: usize = 60;
const RESULT_CHARS: usize = 1_200;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    pub id: String,
    /// The command, or the subagent's task.
    pub what: String,
    pub agent: bool,
    pub running: bool,
    pub status: Option<String>,
    /// The beginning of what it returned.
    pub result: Option<String>,
    pub stretch: u32,
    pub origin: Origin,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Jobs {
    pub jobs: Capped<Job>,
}

impl Jobs {
    pub fn started(&mut self, id: &str, what: &str, agent: bool, stretch: u32, origin: &Origin) {
        self.push(id, what, agent, true, None, stretch, origin);
    }

    /// A subagent that was waited for.
    pub fn returned(&mut self, what: &str, result: &str, stretch: u32, origin: &Origin) {
        self.push("", what, true, false, beginning(result), stretch, origin);
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of one fact, named at both callers")]
    fn push(
        &mut self,
        id: &str,
        what: &str,
        agent: bool,
        running: bool,
        result: Option<String>,
        stretch: u32,
        origin: &Origin,
    ) {
        let what = text::clip_lines(what, 600).to_owned();
        let id = id.to_owned();
        let job = Job { id, what, agent, running, status: None, result, stretch, origin: origin.clone() };
        self.jobs.push(job, KEPT);
    }

    pub fn ended(&mut self, id: &str, status: &str, result: &str) {
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

    pub fn agents(&self) -> impl Iterator<Item = &Job> {
        self.jobs.iter().rev().filter(|job| job.agent && !job.running)
    }
}

fn beginning(result: &str) -> Option<String> {
    let result = result.trim();
    // The client appends the agent's id and usage to what the agent said.
    let result = result.split("\nagentId: ").next().unwrap_or(result);
    text::clip(result, RESULT_CHARS).map(str::to_owned)
}

/// The id in the client's answer to a call that went to the background.
pub fn background_id(output: &str) -> Option<&str> {
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
