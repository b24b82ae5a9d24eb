//! A provider's report about its context: tokens, window, time and source.
//!
//! Unknown is not zero, so before the first answer there is no reading.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::transcript::tail::Tail;
use crate::wire::claude::statusline::StatusLine;

/// The window for unknown models, unless the configuration names another.
pub const DEFAULT_WINDOW: u64 = 200_000;

/// The source of a reading, from weakest to strongest at equal stamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadingSource {
    /// The transcript's length: the last resort, without token counts.
    Bytes,
    Transcript,
    Mod,
    /// The server that runs the conversation, while it works.
    AppServer,
    StatusLine,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// Input and cache; levels are decided from this.
    pub tokens: u64,
    /// Output tokens of the last answer; the client compares the sum of this and `tokens` to its compaction point.
    pub output: u64,
    pub window: u64,
    /// Tokens that the client subtracts from both tokens and window before it shows its percentage.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub base: u64,
    pub at: Timestamp,
    pub source: ReadingSource,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands out a reference")]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl Reading {
    /// From the status line; `None` before the first answer.
    pub fn from_statusline(line: &StatusLine<'_>, default_window: u64, now: Timestamp) -> Option<Self> {
        let context = line.context_window?;
        let usage = context.current_usage?;
        let model = line.model.as_ref().and_then(|m| m.id.as_deref());
        Some(Self {
            tokens: usage.input()?,
            output: usage.output_tokens.unwrap_or(0),
            window: resolve_window(context.context_window_size, model, default_window),
            base: 0,
            at: now,
            source: ReadingSource::StatusLine,
        })
    }

    /// From the transcript's tail; `None` after a compaction that did not report its size.
    ///
    /// `window` is this session's window from the status line, if known. `now` replaces a missing stamp.
    pub fn from_tail(tail: &Tail, window: Option<u64>, default_window: u64, now: Timestamp) -> Option<Self> {
        let (tokens, output, own, model, at) = match tail {
            Tail::Usage(u) => (u.tokens, u.output, u.window, u.model.as_deref(), u.at),
            Tail::Compacted(c) => (c.post_tokens?, 0, None, None, c.at),
            Tail::Nothing | Tail::OutOfReach => return None,
        };
        let window = resolve_window(own.or(window), model, default_window);
        Some(Self {
            tokens,
            output,
            window,
            base: 0,
            at: at.unwrap_or(now),
            source: ReadingSource::Transcript,
        })
    }

    /// The total that the client compares to its compaction point.
    pub fn total(&self) -> u64 {
        self.tokens.saturating_add(self.output)
    }

    /// Percent of the window, rounded and capped as the client shows it.
    pub fn percentage(&self) -> u8 {
        percent(self.tokens.saturating_sub(self.base), self.window.saturating_sub(self.base))
    }
}

/// `part` of `whole` in percent: rounded, at most 100, and 0 of an unknown whole.
pub fn percent(part: u64, whole: u64) -> u8 {
    if whole == 0 {
        return 0;
    }
    let (part, whole) = (u128::from(part), u128::from(whole));
    u8::try_from((part * 200 + whole) / (whole * 2)).unwrap_or(100).min(100)
}

/// The newer of two readings; at equal stamps the stronger source.
pub(crate) fn newest(a: Option<Reading>, b: Option<Reading>) -> Option<Reading> {
    match (a, b) {
        (Some(a), Some(b)) => Some(if (b.at, b.source) > (a.at, a.source) { b } else { a }),
        (a, b) => a.or(b),
    }
}

/// The window: from the payload, else from the model, else the default.
pub fn resolve_window(payload: Option<u64>, model: Option<&str>, default: u64) -> u64 {
    payload.filter(|&w| w > 0).or_else(|| model.and_then(window_of)).unwrap_or(default)
}

/// Recorded windows of models; a `[1m]` suffix asks for the long one.
const WINDOWS: [(&str, u64); 5] = [
    ("claude-opus-5-5", 1_000_000),
    ("claude-opus-4", 200_000),
    ("claude-sonnet-4", 200_000),
    ("claude-haiku-4", 200_000),
    ("claude-3", 200_000),
];

/// The window of a model that we know by name, with any reseller's prefix.
pub(crate) fn window_of(model: &str) -> Option<u64> {
    if model.ends_with("[1m]") {
        return Some(1_000_000);
    }
    let name = &model[model.find("claude-")?..];
    WINDOWS.iter().find(|(prefix, _)| name.starts_with(prefix)).map(|&(_, window)| window)
}

/// `950`, `67k`, `1.2M`: short, and never rounded up.
pub fn tokens(n: u64) -> String {
    match n {
        0..=999 => n.to_string(),
        1_000..=999_999 => format!("{}k", n / 1_000),
        _ => format!("{}.{}M", n / 1_000_000, n / 100_000 % 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transcript::tail::{Compacted, TailUsage};
    use crate::wire::claude::statusline::parse_statusline;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_794_790_000 + second).unwrap()
    }

    fn reading(tokens: u64, second: i64, source: ReadingSource) -> Reading {
        Reading { tokens, output: 50, window: 200_000, base: 0, at: at(second), source }
    }

    #[test]
    fn nulls_before_the_first_answer_are_unknown_and_not_zero() {
        let json = br#"{"model":{"id":"claude-haiku-4-5"},"context_window":{"total_input_tokens":0,
            "context_window_size":200000,"current_usage":null,"used_percentage":null}}"#;
        let line = parse_statusline(json).unwrap();
        assert_eq!(Reading::from_statusline(&line, DEFAULT_WINDOW, at(0)), None);
        let zero = br#"{"context_window":{"current_usage":{"input_tokens":0,"output_tokens":0}}}"#;
        assert_eq!(Reading::from_statusline(&parse_statusline(zero).unwrap(), DEFAULT_WINDOW, at(0)), None);
    }

    #[test]
    fn the_status_line_counts_input_and_both_caches_and_keeps_the_output_apart() {
        let json = br#"{"context_window":{"context_window_size":1000000,"used_percentage":2,"current_usage":
            {"input_tokens":100,"output_tokens":50,"cache_creation_input_tokens":500,"cache_read_input_tokens":20000}}}"#;
        let r = Reading::from_statusline(&parse_statusline(json).unwrap(), DEFAULT_WINDOW, at(3)).unwrap();
        assert_eq!((r.tokens, r.output, r.window, r.percentage()), (20_600, 50, 1_000_000, 2));
        assert_eq!((r.total(), r.at, r.source), (20_650, at(3), ReadingSource::StatusLine));
    }

    #[test]
    fn percentages_are_rounded_and_capped_as_the_client_shows_them() {
        // Recorded: 149,950 of 200k is shown as 75, 899,950 of 1M as 90, 204,950 of 200k as 100.
        assert_eq!(percent(149_950, 200_000), 75);
        assert_eq!(percent(899_950, 1_000_000), 90);
        assert_eq!(percent(204_950, 200_000), 100);
        assert_eq!(percent(u64::MAX, 1), 100);
        assert_eq!(percent(5, 0), 0);
    }

    #[test]
    fn our_percentage_leaves_out_what_the_clients_leaves_out() {
        // Codex, window 95,000, base 12,000: its own display at these totals.
        let shown = |tokens| {
            Reading { window: 95_000, base: 12_000, ..reading(tokens, 0, ReadingSource::Transcript) }
                .percentage()
        };
        assert_eq!([12_300, 30_500, 60_500, 85_500].map(shown), [0, 22, 58, 89]);
        assert_eq!([0, 11_999, 95_000, 200_000].map(shown), [0, 0, 100, 100]);
    }

    #[test]
    fn the_newest_reading_wins_and_at_equal_stamps_the_status_line() {
        let old = reading(1, 0, ReadingSource::StatusLine);
        let new = reading(2, 1, ReadingSource::Transcript);
        assert_eq!(newest(Some(old), Some(new)), Some(new));
        assert_eq!(newest(Some(new), Some(old)), Some(new));
        let same = reading(3, 1, ReadingSource::StatusLine);
        assert_eq!(newest(Some(new), Some(same)), Some(same));
        assert_eq!(newest(Some(same), Some(new)), Some(same));
        assert_eq!(newest(None, Some(old)), Some(old));
        assert_eq!(newest(None, None), None);
    }

    #[test]
    fn the_window_comes_from_the_payload_then_the_model_then_the_default() {
        assert_eq!(resolve_window(Some(100_000), Some("claude-opus-5-5"), 7), 100_000);
        assert_eq!(resolve_window(None, Some("claude-opus-5-5"), 7), 1_000_000);
        assert_eq!(resolve_window(Some(0), Some("claude-opus-4-6"), 7), 200_000);
        assert_eq!(resolve_window(None, Some("claude-sonnet-4-5-20250929[1m]"), 7), 1_000_000);
        assert_eq!(resolve_window(None, Some("us.anthropic.claude-haiku-4-5-20251001-v1:0"), 7), 200_000);
        assert_eq!(resolve_window(None, Some("gpt-9"), 7), 7);
        assert_eq!(resolve_window(None, None, 7), 7);
    }

    #[test]
    fn after_a_compaction_the_reading_is_what_it_left_or_unknown() {
        let left = |post_tokens| {
            Tail::Compacted(Compacted { auto: true, pre_tokens: Some(167_000), post_tokens, at: Some(at(9)) })
        };
        let r = Reading::from_tail(&left(Some(2_875)), Some(200_000), DEFAULT_WINDOW, at(20)).unwrap();
        assert_eq!((r.tokens, r.output, r.at), (2_875, 0, at(9)));
        assert_eq!(Reading::from_tail(&left(None), None, DEFAULT_WINDOW, at(20)), None);
        assert_eq!(Reading::from_tail(&Tail::OutOfReach, None, DEFAULT_WINDOW, at(20)), None);
        let usage =
            TailUsage { tokens: 9, output: 1, window: None, model: Some("claude-opus-5-5".into()), at: None };
        let r = Reading::from_tail(&Tail::Usage(usage), None, DEFAULT_WINDOW, at(20)).unwrap();
        assert_eq!((r.tokens, r.window, r.at), (9, 1_000_000, at(20)));
    }
}
