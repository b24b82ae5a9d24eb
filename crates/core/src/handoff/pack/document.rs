//! A Markdown document that somebody wrote, packed by its sections.

use super::{Packed, REFILLS, SPARE, chars, first_chars, join};
use crate::ledger::text::clip;

/// A Markdown document that somebody wrote, in at most `budget` characters: the text before the first heading and the
/// most valuable sections whole, the beginnings of the others, and a list of what is missing.
pub fn pack_document(text: &str, budget: usize, pointer: &str) -> Packed {
    if chars(text.trim_end()) <= budget {
        return Packed { text: text.trim_end().to_owned(), dropped: Vec::new() };
    }
    let parts = split_sections(text);
    let all: Vec<(String, usize)> = parts.iter().map(|p| (p.title.clone(), chars(p.text))).collect();
    let footer = |left: &[(String, usize)]| {
        let mut titles: Vec<String> =
            left.iter().take(12).map(|(title, n)| format!("{} ({n})", first_chars(title, 40))).collect();
        if left.len() > 12 {
            titles.push(format!("{} more", left.len() - 12));
        }
        if titles.is_empty() {
            return format!("Whole: {pointer}");
        }
        format!("Left out for space (characters): {}. Whole: {pointer}", titles.join(", "))
    };
    // Parts that are left out must be listed; room that the list does not need is given to the parts again.
    let mut best: Option<Packed> = None;
    let mut room = budget.saturating_sub(chars(&footer(&all)) + 2);
    for _ in 0..REFILLS {
        let (body, left) = parts_in(&parts, room);
        let text = join(&body, &footer(&left));
        let size = chars(&text);
        if size > budget {
            room = room.saturating_sub(size - budget);
            continue;
        }
        if best.as_ref().is_some_and(|best| chars(&best.text) >= size) {
            break;
        }
        best = Some(Packed { text, dropped: left });
        if budget - size < SPARE {
            break;
        }
        room += budget - size;
    }
    best.unwrap_or_else(|| Packed { text: first_chars(&footer(&[]), budget).to_owned(), dropped: all })
}

/// The most valuable parts in at most `room` characters, and how much of each is missing.
fn parts_in(parts: &[Part<'_>], room: usize) -> (String, Vec<(String, usize)>) {
    let mut order: Vec<usize> = (0..parts.len()).collect();
    order.sort_by_key(|&i| (parts[i].rank, i));
    let mut shown: Vec<Option<String>> = vec![None; parts.len()];
    let mut used = 0;
    for i in order {
        let whole = parts[i].text.trim_end();
        let size = chars(whole) + 2;
        if used + size <= room {
            used += size;
            shown[i] = Some(whole.to_owned());
        } else if let Some(beginning) = beginning(whole, room.saturating_sub(used + 2)) {
            used += chars(&beginning) + 2;
            shown[i] = Some(beginning);
        }
    }
    let mut left = Vec::new();
    let mut body = String::new();
    for (part, shown) in parts.iter().zip(shown) {
        let kept = shown.as_deref().unwrap_or_default().trim_end();
        let missing = chars(part.text.trim_end()).saturating_sub(chars(kept));
        if missing > 0 {
            left.push((part.title.clone(), missing));
        }
        if !kept.is_empty() {
            body.push_str(kept);
            body.push_str("\n\n");
        }
    }
    (body.trim().to_owned(), left)
}

struct Part<'a> {
    title: String,
    text: &'a str,
    rank: usize,
}

/// Splits by headings; a `#` inside a code fence is not one.
fn split_sections(text: &str) -> Vec<Part<'_>> {
    let mut starts = vec![0];
    let mut fenced = false;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if is_fence(line) {
            fenced = !fenced;
        } else if !fenced && is_heading(line) && at > 0 {
            starts.push(at);
        }
        at += line.len();
    }
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    let part = |(i, (start, end)): (usize, (usize, usize))| {
        let before = &text[..start];
        let text = &text[start..end];
        let first = text.lines().next().unwrap_or_default();
        let title = first.trim_start_matches('#').trim().to_owned();
        // The head of the document (header comments, title) always comes first.
        let is_comment = |line: &str| line.trim().is_empty() || line.starts_with("<!--");
        let is_head = i == 0 || (i == 1 && before.lines().all(is_comment));
        let rank = if is_head { 0 } else { 1 + title_rank(&title) };
        Part { title, text, rank }
    };
    starts.iter().copied().zip(ends).enumerate().map(part).collect()
}

fn is_heading(line: &str) -> bool {
    let level = line.bytes().take_while(|b| *b == b'#').count();
    (1..=6).contains(&level) && line[level..].starts_with(' ')
}

/// Ranks a section by the words that titles in handoffs usually have; the next turn needs the first most.
fn title_rank(title: &str) -> usize {
    const ORDER: [&[&str]; 5] = [
        &["now", "next", "current", "state", "status", "todo", "task", "resume", "immediate"],
        &["goal", "request", "objective", "intent", "rule", "constraint", "instruction", "user", "must"],
        &["blocker", "error", "problem", "open", "question", "issue", "pending", "failed", "risk"],
        &["decision", "done", "file", "change", "commit", "command", "test", "result", "progress"],
        &["plan", "context", "summary", "note", "background", "history"],
    ];
    let title = title.to_lowercase();
    ORDER.iter().position(|words| words.iter().any(|word| title.contains(word))).unwrap_or(ORDER.len())
}

/// Whole lines of `text` in at most `max` characters, and of the next one whole sentences; at least one line below the
/// heading. An open fence is closed.
fn beginning(text: &str, max: usize) -> Option<String> {
    const CLOSE: usize = 4;
    let mut out = String::new();
    let mut used = CLOSE;
    let mut fence: Option<&str> = None;
    let mut lines = 0;
    for line in text.split_inclusive('\n') {
        let size = chars(line);
        if used + size > max {
            let cut = max.checked_sub(used + 1).filter(|_| fence.is_none() && !is_fence(line));
            // Do not scan beyond the room, however long the line is.
            let cut = cut.and_then(|room| clip(first_chars(line, room + 1), room));
            if let Some(sentences) = cut.filter(|_| !is_heading(line)) {
                out.push_str(sentences);
                lines += 1;
            }
            break;
        }
        used += size;
        if is_fence(line) {
            fence = if fence.is_some() { None } else { line.trim_start().get(..3) };
        }
        out.push_str(line);
        lines += usize::from(!line.trim().is_empty());
    }
    if let Some(fence) = fence {
        out.push_str(fence);
        out.push('\n');
    }
    let heading = usize::from(text.lines().next().is_some_and(is_heading));
    (lines > heading).then_some(out)
}

fn is_fence(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("```") || line.starts_with("~~~")
}
