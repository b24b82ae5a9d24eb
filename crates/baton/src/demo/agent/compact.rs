//! Compaction, on request or because the window is nearly full.

use serde_json::json;

use crate::demo::agent::client::{Client, Go};
use crate::demo::agent::payload::Payload;
use crate::demo::agent::transcript::uuid;

/// The client compacts when less than this is left.
const RESERVE: u64 = 33_000;
/// The size of a summary.
const AFTER: u64 = 2_800;

impl Client {
    /// Before a request, compacts if the last answer's report is too large.
    pub(super) fn compact_if_full(&mut self) -> Go<()> {
        let env = |name: &str| std::env::var(name).ok();
        let off = env("DISABLE_AUTO_COMPACT").is_some_and(|v| !matches!(v.as_str(), "" | "0" | "false"));
        let window = env("CLAUDE_CODE_AUTO_COMPACT_WINDOW").and_then(|w| w.parse().ok());
        let window = window.map_or(self.script.window, |w: u64| w.min(self.script.window));
        if !off && self.reported >= window.saturating_sub(RESERVE) {
            self.compact("auto", None)?;
        }
        Ok(())
    }

    /// Returns whether it happened; a PreCompact hook may block it.
    pub(super) fn compact(&mut self, trigger: &str, instructions: Option<&str>) -> Go<bool> {
        let answers = self.hooks(&Payload::pre_compact(trigger, instructions));
        for text in &answers.plain {
            self.note("instructions", json!({ "text": text }));
        }
        if let Some(reason) = answers.block {
            if trigger == "manual" {
                self.screen.line(&format!("  ⎿ Compaction blocked by PreCompact hook: {reason}"));
            }
            return Ok(false);
        }
        let summary = format!(
            "<analysis>The script's own</analysis>\n<summary>\n{}\n</summary>",
            self.said.last().map_or("Nothing was said yet.", String::as_str)
        );
        let id = format!("a{}", &uuid()?.replace('-', "")[..16]);
        self.transcript.open()?;
        let own = self.transcript.path.with_extension("").join(format!("subagents/agent-{id}.jsonl"));
        self.hooks_of(&Payload::subagent_stop("", &own.display().to_string(), &summary), Some((&id, "")));
        self.record(
            "system",
            json!({
                "subtype": "compact_boundary", "content": "Conversation compacted", "level": "info",
                "compactMetadata": { "trigger": trigger, "preTokens": self.reported, "postTokens": AFTER },
            }),
        )?;
        let content = format!("This session is being continued from a previous conversation.\n{summary}");
        self.record(
            "user",
            json!({ "message": { "role": "user", "content": content }, "isCompactSummary": true }),
        )?;
        (self.reported, self.tokens) = (AFTER, AFTER);
        self.screen.line("✻ Conversation compacted");
        self.begin("compact")?;
        self.hooks(&Payload::post_compact(trigger, &summary));
        Ok(true)
    }
}
