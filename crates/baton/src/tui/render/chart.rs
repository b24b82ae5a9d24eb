//! The context over time: a saw-tooth with what happened to it.

use baton_core::levels::MarkKind;
use baton_core::reading::tokens;
use jiff::Timestamp;
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;

use crate::sys::clock::age;
use crate::tui::model::Model;
use crate::tui::render::style::Tone;
use crate::tui::render::text::{StyledLine, fit, put, width};
use crate::tui::update::inside;
use crate::views::levels::LevelsView;

/// Width of the labels on the left.
const AXIS: u16 = 6;
const EIGHTHS: [&str; 9] = [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];

pub(crate) fn mark(kind: MarkKind, unicode: bool) -> &'static str {
    match (kind, unicode) {
        (MarkKind::Warned, true) => "△",
        (MarkKind::Asked, true) => "▲",
        (MarkKind::Sealed, true) => "◆",
        (MarkKind::Rotated, true) => "↻",
        (MarkKind::Compacted, true) => "✂",
        (MarkKind::Limit, true) => "‖",
        (MarkKind::Crash, true) => "✕",
        (MarkKind::Warned, false) => "w",
        (MarkKind::Asked, false) => "a",
        (MarkKind::Sealed, false) => "s",
        (MarkKind::Rotated, false) => "r",
        (MarkKind::Compacted, false) => "c",
        (MarkKind::Limit, false) => "l",
        (MarkKind::Crash, false) => "x",
    }
}

pub(crate) fn draw(model: &Model, buffer: &mut Buffer, area: Rect) {
    let inner = inside(area);
    let look = model.look;
    let Some(levels) = model.detail.levels.as_ref().and_then(|levels| levels.as_ref().ok()) else { return };
    let is_measured = levels.points.iter().any(|point| point.tokens > 0);
    if !is_measured || inner.height < 4 || inner.width < AXIS + 20 {
        let text = "nothing measured yet";
        put(buffer, inner, 0, &StyledLine::new(text, look.style(Tone::Dim)));
        return;
    }
    let labels: u16 = 10;
    let columns = inner.width - AXIS - labels;
    let rows = inner.height - 2;
    let from = levels.points.first().map_or(levels.since, |point| point.at);
    let span = model.now.duration_since(from).as_millis().max(60_000);
    let column = |at: Timestamp| {
        let x =
            at.duration_since(from).as_millis().clamp(0, span) * i128::from(columns.saturating_sub(1)) / span;
        u16::try_from(x).unwrap_or(0)
    };
    let highest = levels.points.iter().map(|point| point.tokens).max().unwrap_or(1);
    let top = levels.compacts_at.or(levels.window).unwrap_or(highest).max(highest).max(1);
    let heights = heights(levels, columns, &column);
    let per_row = (top / u64::from(rows)).max(1);
    for row in 0..rows {
        // Row 0 is the highest.
        let floor = u64::from(rows - 1 - row) * top / u64::from(rows);
        let label = if row == 0 {
            format!("{:>5} ", tokens(top))
        } else if row == rows - 1 {
            "    0 ".to_owned()
        } else {
            " ".repeat(usize::from(AXIS))
        };
        let mut line = StyledLine::new(label, look.style(Tone::Dim));
        let ceiling = u64::from(rows - row) * top / u64::from(rows);
        let line_of = |at: Option<u64>| at.is_some_and(|at| at.min(top) > floor && at.min(top) <= ceiling);
        let rule = [(levels.compacts_at, "compacts"), (levels.ask_at, "asks"), (levels.warn_at, "warns")]
            .into_iter()
            .find(|(at, _)| line_of(*at));
        for height in &heights {
            let above = height.saturating_sub(floor);
            let eighth = usize::try_from((above * 8).div_ceil(per_row).min(8)).unwrap_or(8);
            let tone = match *height {
                h if levels.ask_at.is_some_and(|at| h >= at) => Tone::Bad,
                h if levels.warn_at.is_some_and(|at| h >= at) => Tone::Warn,
                _ => Tone::Good,
            };
            let (text, tone) = match (eighth, rule) {
                (0, Some(_)) => (look.pick("┈", "-"), Tone::Dim),
                (0, None) => (" ", Tone::Plain),
                (n, _) if look.unicode => (EIGHTHS[n], tone),
                (n, _) => (if n > 4 { "#" } else { "." }, tone),
            };
            line = line.with(text, look.style(tone));
        }
        if let Some((_, name)) = rule {
            line = line.with(format!(" {name}"), look.style(Tone::Dim));
        }
        put(buffer, inner, row, &line);
    }
    put(buffer, inner, rows, &marks(model, levels, columns, &column));
    let ago = format!("{} ago", age(from, model.now));
    let axis =
        format!("{}{}now", " ".repeat(usize::from(AXIS)), fit(&ago, usize::from(columns).saturating_sub(3)));
    put(buffer, inner, rows + 1, &StyledLine::new(axis, look.style(Tone::Dim)));
}

/// The highest level in each column; a column without a reading repeats the one before.
fn heights(levels: &LevelsView, columns: u16, column: &dyn Fn(Timestamp) -> u16) -> Vec<u64> {
    let mut heights: Vec<Option<u64>> = vec![None; usize::from(columns)];
    let mut ends: Vec<Option<u64>> = vec![None; usize::from(columns)];
    for point in &levels.points {
        let at = usize::from(column(point.at));
        if let (Some(height), Some(end)) = (heights.get_mut(at), ends.get_mut(at)) {
            *height = Some(height.map_or(point.tokens, |known| known.max(point.tokens)));
            *end = Some(point.tokens);
        }
    }
    let mut last = 0;
    heights
        .into_iter()
        .zip(ends)
        .map(|(height, end)| {
            let shown = height.unwrap_or(last);
            last = end.unwrap_or(last);
            shown
        })
        .collect()
}

fn marks(model: &Model, levels: &LevelsView, columns: u16, column: &dyn Fn(Timestamp) -> u16) -> StyledLine {
    let look = model.look;
    let mut cells: Vec<(&str, Tone)> = vec![(" ", Tone::Plain); usize::from(columns)];
    for one in levels.marks.iter().filter(|one| levels.points.first().is_none_or(|first| one.at >= first.at))
    {
        let tone = match one.kind {
            MarkKind::Crash | MarkKind::Compacted => Tone::Bad,
            MarkKind::Warned | MarkKind::Asked | MarkKind::Limit => Tone::Warn,
            MarkKind::Sealed | MarkKind::Rotated => Tone::Moving,
        };
        if let Some(cell) = cells.get_mut(usize::from(column(one.at))) {
            *cell = (mark(one.kind, look.unicode), tone);
        }
    }
    let mut line = StyledLine::new(" ".repeat(usize::from(AXIS)), look.style(Tone::Plain));
    for (text, tone) in cells {
        line = line.with(text, look.style(tone));
    }
    line
}

/// The marks and what they mean.
pub(crate) fn legend(unicode: bool, columns: usize) -> String {
    let mut out = String::new();
    for kind in MarkKind::ALL {
        let one = format!("{} {}  ", mark(kind, unicode), kind.as_str());
        if width(&out) + width(&one) > columns {
            break;
        }
        out.push_str(&one);
    }
    out.trim_end().to_owned()
}
