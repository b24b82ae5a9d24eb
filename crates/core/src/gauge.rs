//! How full a session is. Hooks, the status line, the companion, Codex's server and the API all report to one gauge,
//! and [`Gauge::join`] is the only rule for what it shows.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::level::Level;
use crate::reading::{Reading, ReadingSource, newest};
use crate::transcript::tail::Tail;

/// Stored apart from the session's record, so that measuring never waits for a lock. The newest reading wins.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Gauge {
    pub reading: Option<Reading>,
    pub level: Level,
    /// As reported by the client; a transcript knows only the model.
    pub model: Option<String>,
    pub window: Option<u64>,
    /// The last values published for scripts, so that we write only changes.
    pub status: String,
    pub percentage: Option<u8>,
    /// When the current context began. Ignore readings of earlier contexts, however late they arrive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fresh_since: Option<Timestamp>,
    /// The transcript's inode: a new one means that the client replaced the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inode: Option<u64>,
}

/// One source's report.
#[derive(Debug, Clone, Copy)]
pub struct Report<'a> {
    pub source: ReadingSource,
    pub reading: Option<Reading>,
    pub window: Option<u64>,
    pub model: Option<&'a str>,
    /// The end of the transcript, if the source read it.
    pub tail: Option<&'a Tail>,
}

impl<'a> Report<'a> {
    /// A reading from the client itself, with its window.
    pub fn of(reading: Reading) -> Self {
        Self {
            source: reading.source,
            reading: Some(reading),
            window: Some(reading.window),
            model: None,
            tail: None,
        }
    }

    /// A report from the end of the transcript. `window` is the session's known window.
    pub fn of_tail(
        tail: &'a Tail,
        window: Option<u64>,
        default_window: u64,
        base: u64,
        now: Timestamp,
    ) -> Self {
        let reading = Reading::from_tail(tail, window, default_window, now);
        let model = if let Tail::Usage(usage) = tail { usage.model.as_deref() } else { None };
        Self {
            source: ReadingSource::Transcript,
            reading: reading.map(|reading| Reading { base, ..reading }),
            window: None,
            model,
            tail: Some(tail),
        }
    }
}

impl Gauge {
    /// The gauge of a fresh context that begins now.
    #[must_use]
    pub fn emptied(&self, now: Timestamp) -> Self {
        Self { reading: None, level: Level::default(), fresh_since: Some(now), ..self.clone() }
    }

    /// The reading, or an empty one for a fresh context without readings.
    pub fn shown(&self, default_window: u64) -> Option<Reading> {
        let window = self.window.unwrap_or(default_window);
        let empty =
            |at| Reading { tokens: 0, output: 0, window, base: 0, at, source: ReadingSource::StatusLine };
        self.reading.or_else(|| self.fresh_since.map(empty))
    }

    /// The gauge after `report`. The caller sets the level, because it knows the thresholds.
    #[must_use]
    pub fn join(&self, report: &Report<'_>, now: Timestamp) -> Self {
        let mut gauge = self.clone();
        if report.window.is_some_and(|window| window > 0) {
            gauge.window = report.window;
        }
        // The client names the model it uses; a transcript only fills the gap.
        if let Some(model) = report.model
            && (gauge.model.is_none() || report.source != ReadingSource::Transcript)
        {
            gauge.model = Some(model.to_owned());
        }
        // A stamp in the future means that the clock was set back or belongs to another machine.
        let said = report.reading.map(|reading| Reading { at: reading.at.min(now), ..reading });
        let said = said.filter(|said| self.fresh_since.is_none_or(|since| said.at > since || since > now));
        // A compaction voids readings of the context before it.
        let kept = self.reading.filter(|kept| !is_before_compaction(report.tail, kept));
        gauge.reading = match (kept, said) {
            (Some(kept), Some(said)) if repeats(&kept, &said) => Some(kept),
            // A kept stamp in the future predates the clock being set back, so any new reading is newer.
            (Some(kept), said @ Some(_)) if kept.at > now => said,
            (kept, said) => newest(kept, said),
        };
        gauge
    }
}

/// Whether the figures only repeat. The mod and Codex's server do not know the length of the answer, so their readings
/// count only if the context itself differs.
fn repeats(kept: &Reading, said: &Reading) -> bool {
    let counts_output = !matches!(said.source, ReadingSource::Mod | ReadingSource::AppServer);
    kept.tokens == said.tokens
        && kept.window == said.window
        && (kept.output == said.output || !counts_output)
        && (said.source != ReadingSource::Transcript || kept.at >= said.at)
}

fn is_before_compaction(tail: Option<&Tail>, reading: &Reading) -> bool {
    matches!(tail, Some(Tail::Compacted(c)) if c.at.is_none_or(|at| reading.at <= at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transcript::tail::{Compacted, TailUsage};

    const SOURCES: [ReadingSource; 4] =
        [ReadingSource::Transcript, ReadingSource::Mod, ReadingSource::AppServer, ReadingSource::StatusLine];

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_794_790_000 + second).unwrap()
    }

    fn reading(tokens: u64, second: i64, source: ReadingSource) -> Reading {
        Reading { tokens, output: 50, window: 200_000, base: 0, at: at(second), source }
    }

    fn gauge(reading: Reading) -> Gauge {
        Gauge { reading: Some(reading), window: Some(reading.window), ..Gauge::default() }
    }

    #[test]
    fn after_the_clock_was_set_back_every_source_is_believed_again() {
        for source in SOURCES {
            let ahead = gauge(reading(90_000, 1_000, ReadingSource::StatusLine));
            let joined = ahead.join(&Report::of(reading(5_000, 10, source)), at(10));
            assert_eq!(joined.reading.unwrap().tokens, 5_000, "{source:?}");
            // A stamp in the future is clamped to now.
            let joined = Gauge::default().join(&Report::of(reading(5_000, 1_000, source)), at(10));
            assert_eq!(joined.reading.unwrap().at, at(10), "{source:?}");
        }
    }

    #[test]
    fn an_older_reading_of_any_source_changes_nothing() {
        for source in SOURCES {
            let known = gauge(reading(90_000, 10, ReadingSource::StatusLine));
            let joined = known.join(&Report::of(reading(5_000, 9, source)), at(20));
            assert_eq!(joined, known, "{source:?}");
        }
    }

    #[test]
    fn repeated_figures_are_not_a_new_reading() {
        for source in SOURCES {
            let known = gauge(reading(90_000, 10, ReadingSource::StatusLine));
            let joined = known.join(&Report::of(reading(90_000, 10, source)), at(20));
            assert_eq!(joined, known, "{source:?}");
        }
        let known = gauge(reading(90_000, 10, ReadingSource::Transcript));
        let without_output = Reading { output: 0, ..reading(90_000, 15, ReadingSource::Mod) };
        assert_eq!(known.join(&Report::of(without_output), at(20)), known);
        let grown = Reading { output: 80, ..reading(90_000, 15, ReadingSource::StatusLine) };
        assert_eq!(known.join(&Report::of(grown), at(20)).reading, Some(grown));
    }

    #[test]
    fn a_compaction_in_the_transcript_voids_what_was_read_before_it() {
        let compacted = |second, post_tokens| {
            Tail::Compacted(Compacted { auto: true, pre_tokens: None, post_tokens, at: Some(at(second)) })
        };
        let before = gauge(reading(160_000, 5, ReadingSource::StatusLine));
        let join = |tail: &Tail| {
            before.join(&Report::of_tail(tail, Some(200_000), 200_000, 0, at(20)), at(20)).reading
        };
        assert_eq!(join(&compacted(9, None)), None);
        assert_eq!(join(&compacted(9, Some(3_000))).unwrap().tokens, 3_000);
        assert_eq!(
            join(&compacted(1, Some(3_000))),
            before.reading,
            "the compaction came before the reading"
        );
        assert_eq!(join(&Tail::OutOfReach), before.reading);
        let usage = TailUsage { tokens: 170_000, output: 1, window: None, model: None, at: Some(at(6)) };
        assert_eq!(join(&Tail::Usage(usage)).unwrap().tokens, 170_000);
    }

    #[test]
    fn the_client_names_the_model_and_the_transcript_only_fills_the_gap() {
        let usage = TailUsage { tokens: 9, output: 1, window: None, model: Some("b".into()), at: None };
        let tail = Tail::Usage(usage);
        let report = Report::of_tail(&tail, None, 200_000, 0, at(20));
        assert_eq!(Gauge::default().join(&report, at(20)).model.as_deref(), Some("b"));
        let known = Gauge { model: Some("a".into()), ..Gauge::default() };
        assert_eq!(known.join(&report, at(20)).model.as_deref(), Some("a"));
        let line = Report { model: Some("c"), ..Report::of(reading(1, 1, ReadingSource::StatusLine)) };
        assert_eq!(known.join(&line, at(20)).model.as_deref(), Some("c"));
    }

    #[test]
    fn a_fresh_context_is_empty_whatever_comes_late_from_the_one_before() {
        let full = gauge(reading(140_000, 10, ReadingSource::StatusLine));
        let fresh = full.emptied(at(20));
        assert_eq!((fresh.reading, fresh.level), (None, Level::default()));
        assert_eq!(fresh.shown(100_000).map(|r| (r.tokens, r.window)), Some((0, 200_000)));
        assert_eq!(
            Gauge::default().shown(200_000),
            None,
            "of a context that nobody has seen begin nothing is said"
        );
        for source in SOURCES {
            let late = fresh.join(&Report::of(reading(140_000, 19, source)), at(21));
            assert_eq!(late.reading, None, "{source:?}");
            let first = late.join(&Report::of(reading(9_000, 22, source)), at(22));
            assert_eq!(first.reading.map(|r| r.tokens), Some(9_000), "{source:?}");
        }
        let back = fresh.join(&Report::of(reading(9_000, -100, ReadingSource::Transcript)), at(-100));
        assert_eq!(back.reading.map(|r| r.tokens), Some(9_000), "the clock was set back");
    }
}
