//! Literal scoring, white space folded.

use super::probes::{KINDS, Probe, fold};

/// Cases and hits by kind.
#[derive(Debug, Clone, Default)]
pub struct Score {
    pub hits: [usize; KINDS.len()],
    pub cases: [usize; KINDS.len()],
    pub statements: usize,
    pub unsupported: Vec<String>,
}

impl Score {
    pub fn add(&mut self, text: &str, probes: &[Probe]) -> Vec<Probe> {
        let whole = fold(text);
        let lines: Vec<String> = text.lines().map(fold).collect();
        let mut missed = Vec::new();
        for probe in probes {
            self.cases[probe.kind] += 1;
            let has =
                |hay: &str, part: &Vec<String>| part.iter().any(|spelling| hay.contains(spelling.as_str()));
            let hit = match probe.parts.as_slice() {
                [one] => has(&whole, one),
                several => lines.iter().any(|line| {
                    let lower = line.to_lowercase();
                    several.iter().enumerate().all(|(i, part)| has(if i == 0 { line } else { &lower }, part))
                }),
            };
            if hit {
                self.hits[probe.kind] += 1;
            } else {
                missed.push(probe.clone());
            }
        }
        missed
    }

    pub fn share(&self, kind: usize) -> Option<f64> {
        (self.cases[kind] > 0).then(|| self.hits[kind] as f64 / self.cases[kind] as f64)
    }

    pub fn mean(&self) -> f64 {
        let shares: Vec<f64> = (0..KINDS.len()).filter_map(|kind| self.share(kind)).collect();
        shares.iter().sum::<f64>() / shares.len().max(1) as f64
    }

    /// Statements of our document that are not literally in the transcript. A statement is a line without its
    /// labels, counts and stamps: code spans and quoted lines by themselves, then what is left when the labels
    /// are gone.
    pub fn check(&mut self, text: &str, transcript: &str) {
        for statement in statements(text) {
            self.statements += 1;
            if !transcript.contains(&statement) {
                self.unsupported.push(statement);
            }
        }
    }
}

const LABELS: [&str; 42] = [
    "exit 0, but its output complains",
    "resolved since",
    "in full:",
    "in part",
    "working in:",
    "First request since the last compaction:",
    "First request:",
    "Latest request",
    "not answered yet",
    "the agent was working on it",
    "interrupted by the user",
    "answered",
    "Last message of the agent:",
    "in flight at the end:",
    "plan file:",
    "question left open:",
    "running background process",
    "running subagent",
    "refused by the user:",
    "refusing a call:",
    "asked and answered:",
    "with a command:",
    "earlier branch:",
    "branch:",
    "folder:",
    "working tree as last seen:",
    "working tree before the last commit:",
    "link:",
    "commit",
    "created",
    "edited",
    "deleted",
    "[in progress]",
    "[pending]",
    "[done]",
    "test",
    "build",
    "lint",
    "run",
    "failed",
    "result not seen",
    "ok",
];

fn statements(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut fence: Option<&str> = None;
    for line in text.lines() {
        let line = line.trim();
        match fence {
            Some(mark) if line == mark => {
                fence = None;
                continue;
            }
            Some(_) => {
                out.push(fold(line));
                continue;
            }
            None if line.starts_with("```") && line.bytes().all(|b| b == b'`') => {
                fence = Some(line);
                continue;
            }
            None => {}
        }
        if line.is_empty()
            || line.starts_with("## ")
            || line.starts_with("Whole: ")
            || line.starts_with("Left out")
        {
            continue;
        }
        let mut rest = String::new();
        let mut left = line.strip_prefix("- ").unwrap_or(line);
        // Labels stand at the start only, so that a user's word that happens to be one is not taken away.
        let labelled = |t: &str| LABELS.iter().find(|label| t.starts_with(**label)).map(|label| label.len());
        loop {
            left = left.trim_start_matches([' ', '·', ',', '→', ':']);
            if let Some(n) = labelled(left) {
                left = &left[n..];
            } else if left.starts_with('(') || left.starts_with('×') || left.starts_with('#') {
                let end = left.find([')', ' ']).map_or(left.len(), |i| i + 1);
                let stamp = &left[..end];
                if !stamp.bytes().any(|b| b.is_ascii_digit())
                    && labelled(&left[1..]).is_none()
                    && !stamp.starts_with("(exit")
                {
                    break;
                }
                left = left[left.find(')').filter(|_| left.starts_with('(')).map_or(end, |i| i + 1)..]
                    .trim_start();
            } else if left.starts_with('`') {
                let fence = left.len() - left.trim_start_matches('`').len();
                let mark = "`".repeat(fence);
                let Some(end) = left[fence..].find(&mark) else { break };
                out.push(fold(&left[fence..fence + end]));
                left = &left[fence + end + fence..];
            } else {
                break;
            }
        }
        let tail = left.rfind(" (").filter(|i| left[*i..].ends_with("more characters)"));
        rest.push_str(&left[..tail.unwrap_or(left.len())]);
        let rest = fold(&rest);
        if !rest.is_empty() {
            out.push(rest);
        }
    }
    out.retain(|s| !s.is_empty());
    out
}
