//! An agent's levels over time and the events of its context, read from the log.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LevelPoint {
    pub at: Timestamp,
    pub tokens: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MarkKind {
    /// The agent was told that its context is filling up.
    Warned,
    /// It was asked for a handoff.
    Asked,
    Sealed,
    /// A fresh context began with a handoff.
    Rotated,
    /// The client compacted by itself.
    Compacted,
    Limit,
    Crash,
}

impl MarkKind {
    pub const ALL: [Self; 7] =
        [Self::Warned, Self::Asked, Self::Sealed, Self::Rotated, Self::Compacted, Self::Limit, Self::Crash];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Warned => "warned",
            Self::Asked => "asked",
            Self::Sealed => "sealed",
            Self::Rotated => "rotated",
            Self::Compacted => "compacted",
            Self::Limit => "limit",
            Self::Crash => "crash",
        }
    }
}

/// Something that happened to the context.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LevelMark {
    pub at: Timestamp,
    pub kind: MarkKind,
    pub handoff: Option<String>,
}

/// The saw-tooth of one agent.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Levels {
    pub points: Vec<LevelPoint>,
    pub marks: Vec<LevelMark>,
}

impl Levels {
    /// Takes one log line about the agent. Lines come in the order they were written.
    pub fn feed(&mut self, at: Timestamp, event: &str, detail: &Value) {
        if let Some(tokens) = detail["tokens"].as_u64() {
            self.point(at, tokens);
        }
        let handoff = detail["handoff"].as_str().map(str::to_owned);
        let kind = match event {
            "rotation-requested" => MarkKind::Sealed,
            // These contexts begin empty; a resumed or forked one continues where it was.
            "session-start" if matches!(detail["source"].as_str(), Some("clear" | "startup")) => {
                self.point(at, 0);
                if handoff.is_none() {
                    return;
                }
                MarkKind::Rotated
            }
            "compaction" if handoff.is_some() => {
                self.point(at, 0);
                MarkKind::Rotated
            }
            // The client's own compaction; the line above handles one that we answered.
            "pre-compact" => MarkKind::Compacted,
            "post-compact" => return self.point(at, 0),
            "stop-failure" if detail["error"] == "rate_limit" => MarkKind::Limit,
            "session-died" => MarkKind::Crash,
            _ => match detail["said"].as_str() {
                Some("advisory") => MarkKind::Warned,
                Some("request") => MarkKind::Asked,
                _ if detail["asked"] == true => MarkKind::Asked,
                _ => return,
            },
        };
        self.marks.push(LevelMark { at, kind, handoff });
    }

    /// Adds a point; keeps only the first and last point of a run of equal figures.
    fn point(&mut self, at: Timestamp, tokens: u64) {
        if let [.., before, last] = self.points.as_mut_slice()
            && before.tokens == tokens
            && last.tokens == tokens
        {
            last.at = at;
            return;
        }
        self.points.push(LevelPoint { at, tokens });
    }

    /// Thins to at most `most` points, keeping each stretch's first, lowest and highest, so that every tooth stays.
    pub fn thin(&mut self, most: usize) {
        if self.points.len() <= most || most < 4 {
            return;
        }
        let stretch = self.points.len().div_ceil(most / 3);
        let mut kept = Vec::with_capacity(most);
        for points in self.points.chunks(stretch) {
            let by = |point: &&LevelPoint| point.tokens;
            let ends = [points.first(), points.iter().min_by_key(by), points.iter().max_by_key(by)];
            let mut ends: Vec<LevelPoint> = ends.into_iter().flatten().copied().collect();
            ends.sort_by_key(|point| point.at);
            ends.dedup();
            kept.extend(ends);
        }
        if let (Some(last), Some(kept_last)) = (self.points.last(), kept.last())
            && last != kept_last
        {
            kept.push(*last);
        }
        self.points = kept;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_794_790_000 + second).unwrap()
    }

    #[test]
    fn a_cycle_is_a_tooth_with_its_marks() {
        let mut levels = Levels::default();
        levels.feed(at(0), "session-start", &json!({ "source": "startup", "handoff": null, "mail": 0 }));
        levels.feed(at(1), "PostToolUse", &json!({ "tokens": 60_000, "level": "OK" }));
        levels.feed(at(2), "PostToolUse", &json!({ "tokens": 100_000, "level": "WARN", "said": "advisory" }));
        levels.feed(
            at(3),
            "PostToolUse",
            &json!({ "tokens": 130_000, "level": "CRITICAL", "said": "request" }),
        );
        levels.feed(at(4), "rotation-requested", &json!({ "handoff": "HO-1", "by": "the agent" }));
        levels.feed(at(5), "session-start", &json!({ "source": "clear", "handoff": "HO-1", "mail": 0 }));
        levels.feed(at(6), "pre-compact", &json!({ "trigger": "auto", "tokens": 167_000, "handoff": null }));
        levels.feed(at(7), "stop-failure", &json!({ "error": "rate_limit", "message": "later" }));
        levels.feed(at(8), "session-died", &json!({}));
        levels.feed(at(9), "stop-failure", &json!({ "error": "api", "message": "x" }));
        let tokens: Vec<u64> = levels.points.iter().map(|p| p.tokens).collect();
        assert_eq!(tokens, [0, 60_000, 100_000, 130_000, 0, 167_000]);
        let kinds: Vec<&str> = levels.marks.iter().map(|m| m.kind.as_str()).collect();
        assert_eq!(kinds, ["warned", "asked", "sealed", "rotated", "compacted", "limit", "crash"]);
        assert_eq!(levels.marks[2].handoff.as_deref(), Some("HO-1"));
    }

    #[test]
    fn thinned_out_the_teeth_are_still_there() {
        let mut levels = Levels::default();
        for n in 0..1_000 {
            let tokens = if n % 100 == 99 { 5 } else { 1_000 + u64::try_from(n % 100).unwrap() * 1_000 };
            levels.feed(at(n), "PostToolUse", &json!({ "tokens": tokens }));
        }
        levels.thin(120);
        assert!(levels.points.len() <= 121, "{}", levels.points.len());
        assert_eq!(levels.points.iter().filter(|p| p.tokens == 5).count(), 10);
        assert_eq!(levels.points.iter().map(|p| p.tokens).max(), Some(99_000));
        assert_eq!(levels.points.last().unwrap().at, at(999));
    }

    #[test]
    fn figures_that_do_not_change_are_one_stretch() {
        let mut levels = Levels::default();
        for n in 0..50 {
            levels.feed(at(n), "PostToolUse", &json!({ "tokens": 7 }));
        }
        assert_eq!(levels.points.len(), 2);
        assert_eq!(levels.points[1].at, at(49));
    }
}
