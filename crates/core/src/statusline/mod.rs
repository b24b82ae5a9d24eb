//! The status line: one line that fits, keeping the most useful parts; goal and now go to a second line if the first
//! has no room.
//!
//! Values in, text out; the caller reads the terminal's width, `NO_COLOR` and the clock.

use std::fmt::Write as _;

use crate::level::Level;
use crate::reading::{Reading, tokens};

/// Everything that the line may show. Other people's texts come in plain; control characters are dropped here again.
#[derive(Debug, Clone, Copy, Default)]
pub struct Inputs<'a> {
    pub reading: Option<Reading>,
    pub level: Level,
    /// Tokens until the client compacts.
    pub left: Option<u64>,
    pub turns_left: Option<u64>,
    /// The workflow's latest checkpoint.
    pub goal: Option<&'a str>,
    pub now: Option<&'a str>,
    pub mail: usize,
    /// The user's unread messages.
    pub unread: usize,
    /// A sealed handoff waits to be loaded.
    pub sealed: bool,
    /// Parked at a usage limit until this time, in the user's zone.
    pub parked_until: Option<&'a str>,
}

/// The terminal's capabilities.
#[derive(Debug, Clone, Copy)]
pub struct LineStyle {
    pub width: usize,
    pub colour: bool,
    pub unicode: bool,
}

const BAR: usize = 10;
/// A goal or now with fewer columns than this is useless and makes room for the next part.
const SHORTEST: usize = 24;
/// Half of a line that says something: on narrower ones what comes next is enough.
const LEAST_HALF: usize = 24;

struct Part {
    text: String,
    /// The order of removal when there is no room: highest first.
    expendable: u8,
    /// How it can shrink before it is removed.
    shorter: Shorter,
}

enum Shorter {
    No,
    /// Cut it to the available room.
    Cut,
    /// Use this text instead, with this new rank.
    Instead(String, u8),
}

/// One or two lines of at most `look.width` columns each, without a line end.
pub fn render(inputs: &Inputs<'_>, look: LineStyle) -> String {
    let separator = if look.unicode { " · " } else { " | " };
    let (mut parts, workflow) = (parts(inputs, look.unicode), workflow(inputs));
    let whole = width_of(&parts, separator) + columns(separator) + width_of(&workflow, separator);
    let mut second = Vec::new();
    if workflow.is_empty() || whole <= look.width {
        parts.extend(workflow);
    } else if look.width >= SHORTEST {
        second = workflow;
        share(&mut second, columns(separator), look);
    }
    let colour = look.colour.then(|| colour(inputs.level));
    let mut text = line(parts, separator, look, colour);
    if !second.is_empty() {
        text.push('\n');
        text.push_str(&line(second, separator, look, None));
    }
    text
}

/// Where two texts have no room for the whole of both, each has at least half: a long one does not drive out the other.
fn share(parts: &mut [Part], separator: usize, look: LineStyle) {
    let [first, second] = parts else { return };
    let room = look.width.saturating_sub(separator);
    let half = room / 2;
    if half < LEAST_HALF {
        return;
    }
    let (one, other) = (columns(&first.text), columns(&second.text));
    first.text = cut(&first.text, half.max(room.saturating_sub(other)), look.unicode);
    second.text = cut(&second.text, half.max(room.saturating_sub(one)), look.unicode);
}

/// The parts that fit, the first of them in `colour`.
fn line(mut parts: Vec<Part>, separator: &str, look: LineStyle, colour: Option<&str>) -> String {
    // Remove the least valuable parts first; keep a part that fits when shortened.
    while width_of(&parts, separator) > look.width {
        let Some(at) = (0..parts.len()).max_by_key(|&i| parts[i].expendable) else { break };
        let excess = width_of(&parts, separator) - look.width;
        let alone = parts.len() == 1;
        let part = &mut parts[at];
        let columns = columns(&part.text);
        match std::mem::replace(&mut part.shorter, Shorter::No) {
            Shorter::Instead(text, rank) => (part.text, part.expendable) = (text, rank),
            Shorter::Cut if columns >= excess + SHORTEST => {
                part.text = cut(&part.text, columns - excess, look.unicode);
            }
            _ if alone => part.text = cut(&part.text, look.width, look.unicode),
            _ => {
                parts.remove(at);
            }
        }
    }
    let mut line = String::new();
    for (i, part) in parts.iter().enumerate() {
        if i > 0 {
            line.push_str(separator);
        }
        match colour.filter(|_| i == 0) {
            Some(colour) => {
                let _ = write!(line, "\x1b[{colour}m{}\x1b[0m", part.text);
            }
            None => line.push_str(&part.text),
        }
    }
    line
}

/// The parts in reading order. The fill comes first and is removed last; its bar goes early.
fn parts(inputs: &Inputs<'_>, unicode: bool) -> Vec<Part> {
    let mut parts = Vec::with_capacity(9);
    let mut part = |expendable: u8, shorter: Shorter, text: String| {
        parts.push(Part { text, expendable, shorter });
    };
    match inputs.reading {
        Some(reading) => {
            let percentage = reading.percentage();
            // Measure towards the compaction point, which may come long before the window's end.
            let full = match inputs.left {
                Some(left) => share_of_bar(reading.total(), reading.total().saturating_add(left)),
                None => share_of_bar(reading.total(), reading.window),
            };
            let (on, off) = if unicode { ("▰", "▱") } else { ("#", "-") };
            let bare = format!("{percentage}%");
            let text = format!("{}{} {bare}", on.repeat(full), off.repeat(BAR - full));
            part(5, Shorter::Instead(bare, 0), text);
        }
        None => part(0, Shorter::No, String::from(if unicode { "context –" } else { "context ?" })),
    }
    if let Some(until) = inputs.parked_until {
        part(1, Shorter::No, format!("limit until {}", plain(until)));
    }
    if inputs.sealed {
        part(2, Shorter::No, String::from("handoff ready"));
    }
    if inputs.mail > 0 {
        let sign = if unicode { "✉ " } else { "mail " };
        part(3, Shorter::No, format!("{sign}{}", inputs.mail));
    }
    if inputs.unread > 0 {
        let sign = if unicode { "✉ " } else { "mail " };
        part(3, Shorter::No, format!("{sign}{} for you", inputs.unread));
    }
    if let Some(left) = inputs.left {
        part(4, Shorter::No, format!("{} left", tokens(left)));
    }
    if let Some(turns) = inputs.turns_left {
        part(6, Shorter::No, turns_text(turns));
    }
    parts
}

/// The workflow's goal and next step.
fn workflow(inputs: &Inputs<'_>) -> Vec<Part> {
    let texts = [(8, "goal", inputs.goal), (7, "now", inputs.now)].into_iter();
    let texts = texts.filter_map(|(rank, label, text)| Some((rank, label, plain(text?))));
    let part = |(expendable, label, text): (u8, &str, String)| Part {
        text: format!("{label}: {text}"),
        expendable,
        shorter: Shorter::Cut,
    };
    texts.filter(|(_, _, text)| !text.is_empty()).map(part).collect()
}

/// The filled places of the bar, rounded down: a full bar means that no room is left.
fn share_of_bar(part: u64, whole: u64) -> usize {
    let places = u128::from(part) * BAR as u128 / u128::from(whole.max(1));
    usize::try_from(places).unwrap_or(BAR).min(BAR)
}

fn turns_text(turns: u64) -> String {
    match turns {
        0 => String::from("last turn"),
        1 => String::from("~1 turn"),
        2..=99 => format!("~{turns} turns"),
        _ => String::from("99+ turns"),
    }
}

fn colour(level: Level) -> &'static str {
    match level {
        Level::Ok => "32",
        Level::EarlyWarn => "36",
        Level::Warn => "33",
        Level::Critical => "1;31",
    }
}

/// One line without control characters; runs of white space become one space.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_whitespace() {
            if !out.ends_with(' ') && !out.is_empty() {
                out.push(' ');
            }
        } else if !unprintable(c) {
            out.push(c);
        }
    }
    out.truncate(out.trim_end().len());
    out
}

/// Controls, and characters that reorder or hide their neighbours.
fn unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

fn width_of(parts: &[Part], separator: &str) -> usize {
    let texts: usize = parts.iter().map(|p| columns(&p.text)).sum();
    texts + parts.len().saturating_sub(1) * columns(separator)
}

fn columns(text: &str) -> usize {
    text.chars().map(width).sum()
}

/// Ranges two columns wide: East Asian wide characters and emoji. Where terminals disagree, assume the wider, so that
/// the line is too short rather than wrapped.
#[rustfmt::skip]
const WIDE: [(u32, u32); 37] = [
    (0x1100, 0x115f), (0x231a, 0x231b), (0x23e9, 0x23f3), (0x25fd, 0x25fe), (0x2614, 0x2615),
    (0x2648, 0x2653), (0x267f, 0x267f), (0x2693, 0x2693), (0x26a1, 0x26a1), (0x26aa, 0x26ab),
    (0x26bd, 0x26be), (0x26c4, 0x26c5), (0x26ce, 0x26ce), (0x26d4, 0x26d4), (0x26ea, 0x26ea),
    (0x26f2, 0x26f5), (0x26fa, 0x26fa), (0x26fd, 0x26fd), (0x2705, 0x2705), (0x270a, 0x270b),
    (0x2728, 0x2728), (0x274c, 0x274e), (0x2753, 0x2757), (0x2795, 0x2797), (0x27b0, 0x27b0),
    (0x27bf, 0x27bf), (0x2b1b, 0x2b55), (0x2e80, 0xa4cf), (0xa960, 0xa97f), (0xac00, 0xd7ff),
    (0xf900, 0xfaff), (0xfe30, 0xfe6f), (0xff00, 0xff60), (0xffe0, 0xffe6), (0x16fe0, 0x18fff),
    (0x1b000, 0x1b2ff), (0x1f000, 0x3fffd),
];

/// Ranges of zero width: combining marks and variation selectors.
const COMBINING: [(u32, u32); 5] =
    [(0x0300, 0x036f), (0x1ab0, 0x1aff), (0x20d0, 0x20ff), (0xfe00, 0xfe0f), (0xfe20, 0xfe2f)];

fn width(c: char) -> usize {
    let code = u32::from(c);
    let within = |ranges: &[(u32, u32)]| ranges.iter().any(|&(from, to)| (from..=to).contains(&code));
    match code {
        0..0x0300 => 1,
        _ if within(&COMBINING) => 0,
        _ if within(&WIDE) => 2,
        _ => 1,
    }
}

/// The beginning of `text` in at most `room` columns, with the cut marked.
fn cut(text: &str, room: usize, unicode: bool) -> String {
    if columns(text) <= room {
        return text.to_owned();
    }
    let mark = if unicode { "…" } else { "..." };
    let Some(room) = room.checked_sub(columns(mark)) else { return String::new() };
    let mut used = 0;
    let kept: String = text
        .chars()
        .take_while(|&c| {
            used += width(c);
            used <= room
        })
        .collect();
    format!("{}{mark}", kept.trim_end())
}

#[cfg(test)]
mod tests;
