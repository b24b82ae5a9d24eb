//! Into a budget by value: what the next turn needs most goes in first, what does not fit is counted, and the way
//! to the whole is always there. Same input, same bytes.

use super::entries::{Entries, Entry, entries};
use super::render::{FACTS, sections};
use super::verify;
use crate::ledger::Ledger;

/// A document that fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packed {
    pub text: String,
    /// What was left out, by section: title and number of entries.
    pub dropped: Vec<(String, usize)>,
}

/// Characters for a budget of tokens: four to a token, the rule of thumb for English and code.
pub fn chars_for_tokens(tokens: usize) -> usize {
    tokens.saturating_mul(4)
}

/// The ledger (behind the narrative, if there is one) in at most `budget` characters. `pointer` says where the
/// whole is: a path or a command.
pub fn pack(ledger: &Ledger, narrative: Option<&str>, budget: usize, pointer: &str) -> Packed {
    let narrative = narrative.map(str::trim).filter(|n| !n.is_empty());
    let Some(narrative) = narrative else { return pack_facts(ledger, budget, pointer) };
    let marked = verify::mark(narrative, ledger);
    // The agent's own words may take the larger part; facts get what they leave.
    let size = chars(&marked);
    let most = budget * 3 / 5;
    let own = if size <= most {
        Packed { text: marked, dropped: Vec::new() }
    } else {
        pack_document(&marked, most, pointer)
    };
    let glue = chars(FACTS) + 4;
    let facts = pack_facts(ledger, budget.saturating_sub(chars(&own.text) + glue), pointer);
    let text = format!("{}\n\n{FACTS}\n\n{}", own.text, facts.text);
    if chars(&text) > budget {
        return pack_facts(ledger, budget, pointer);
    }
    Packed { text, dropped: own.dropped.into_iter().chain(facts.dropped).collect() }
}

fn pack_facts(ledger: &Ledger, budget: usize, pointer: &str) -> Packed {
    let entries = entries(ledger, budget);
    let list = &entries.list;
    let mut order: Vec<usize> = (0..list.len()).collect();
    order.sort_by_key(|&i| std::cmp::Reverse(list[i].value));

    // Every section might have to confess what it left out, so that line is paid for before anything else.
    let whole = footer(&[], pointer);
    let worst = footer(&counts(&entries, &[]), pointer);
    let room = budget.saturating_sub(chars(&worst).min(chars(&whole) + 420) + 2);
    let chosen = choose(list, &order, room);
    let dropped = counts(&entries, &chosen);
    let text = join(&assemble(&entries, &chosen), &footer(&dropped, pointer));
    if chars(&text) > budget {
        // Only a budget that does not hold the footer comes here.
        return Packed { text: first_chars(&whole, budget).to_owned(), dropped: counts(&entries, &[]) };
    }
    Packed { text, dropped }
}

/// From this value on an entry is needed rather than useful: as many of these as possible go in, in their shortest
/// form, before any of them is given at length.
const NEEDED: i32 = 600;

fn choose(list: &[Entry], order: &[usize], room: usize) -> Vec<(usize, usize)> {
    let mut chosen: Vec<(usize, usize)> = Vec::new();
    let mut used = 0;
    let mut headed = Vec::new();
    for needed in [true, false] {
        for &i in order.iter().filter(|&&i| (list[i].value >= NEEDED) == needed) {
            let entry = &list[i];
            let head =
                if headed.contains(&entry.section) { 0 } else { chars(entry.section.title()) + HEADING };
            let shortest = entry.forms.len().saturating_sub(1);
            let mut forms = if needed { shortest..shortest + 1 } else { 0..shortest + 1 };
            if let Some(form) = forms.find(|&form| used + head + chars(&entry.forms[form]) < room) {
                used += head + chars(&entry.forms[form]) + 1;
                headed.push(entry.section);
                chosen.push((i, form));
            }
        }
        if needed {
            for (i, form) in &mut chosen {
                let forms = &list[*i].forms;
                let free = room.saturating_sub(used) + chars(&forms[*form]);
                if let Some(longer) = (0..*form).find(|&longer| chars(&forms[longer]) < free) {
                    used = used + chars(&forms[longer]) - chars(&forms[*form]);
                    *form = longer;
                }
            }
        }
    }
    chosen.sort_unstable();
    chosen
}

/// `## `, a count like ` (12 of 345)` and the blank lines around a heading.
const HEADING: usize = 20;

/// The chosen forms of the chosen entries under their headings. A heading counts when something is missing.
pub(super) fn assemble(entries: &Entries, chosen: &[(usize, usize)]) -> String {
    let list = &entries.list;
    let mut out = String::new();
    for section in sections() {
        let all = entries.all(section);
        let here: Vec<&(usize, usize)> = chosen.iter().filter(|(i, _)| list[*i].section == section).collect();
        if here.is_empty() {
            continue;
        }
        if !out.is_empty() {
            out.push('\n');
        }
        let count = if here.len() < all { format!(" ({} of {all})", here.len()) } else { String::new() };
        out.push_str("## ");
        out.push_str(section.title());
        out.push_str(&count);
        out.push('\n');
        for (i, form) in here {
            out.push_str(&list[*i].forms[*form]);
            out.push('\n');
        }
    }
    out.truncate(out.trim_end().len());
    out
}

fn counts(entries: &Entries, chosen: &[(usize, usize)]) -> Vec<(String, usize)> {
    let list = &entries.list;
    let mut dropped = Vec::new();
    for section in sections() {
        let all = entries.all(section);
        let shown = chosen.iter().filter(|(i, _)| list[*i].section == section).count();
        if shown < all {
            dropped.push((section.title().to_lowercase(), all - shown));
        }
    }
    dropped
}

fn footer(dropped: &[(String, usize)], pointer: &str) -> String {
    if dropped.is_empty() {
        return format!("Whole: {pointer}");
    }
    let parts: Vec<String> = dropped.iter().map(|(title, n)| format!("{title} {n}")).collect();
    format!("Left out for space: {}. Whole: {pointer}", parts.join(", "))
}

fn join(body: &str, footer: &str) -> String {
    if body.is_empty() { footer.to_owned() } else { format!("{body}\n\n{footer}") }
}

fn chars(text: &str) -> usize {
    text.chars().count()
}

fn first_chars(text: &str, n: usize) -> &str {
    text.char_indices().nth(n).map_or(text, |(i, _)| &text[..i])
}

/// A Markdown document that somebody wrote, in at most `budget` characters: what stands before the first heading
/// and the most valuable sections whole, of the others their beginning, and a list of what is missing.
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
    let room = budget.saturating_sub(chars(&footer(&all)) + 2);
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
    let text = join(body.trim(), &footer(&left));
    if chars(&text) > budget {
        return Packed { text: first_chars(&footer(&[]), budget).to_owned(), dropped: all };
    }
    Packed { text, dropped: left }
}

struct Part<'a> {
    title: String,
    text: &'a str,
    rank: usize,
}

/// Sections by heading; a `#` inside a code fence is no heading.
fn split_sections(text: &str) -> Vec<Part<'_>> {
    let mut starts = vec![0];
    let mut fenced = false;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim_start();
        if trimmed.starts_with("```") || trimmed.starts_with("~~~") {
            fenced = !fenced;
        } else if !fenced && is_heading(line) && at > 0 {
            starts.push(at);
        }
        at += line.len();
    }
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    let part = |(start, end): (usize, usize)| {
        let text = &text[start..end];
        let first = text.lines().next().unwrap_or_default();
        let title = first.trim_start_matches('#').trim().to_owned();
        // The head of the document (title, header comments) always comes first.
        let rank = if start == 0 { 0 } else { 1 + title_rank(&title) };
        Part { title, text, rank }
    };
    starts.iter().copied().zip(ends).map(part).collect()
}

fn is_heading(line: &str) -> bool {
    let level = line.bytes().take_while(|b| *b == b'#').count();
    (1..=6).contains(&level) && line[level..].starts_with(' ')
}

/// Seed words of a handoff, by what the next turn needs.
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

/// Whole lines of `text` in at most `max` characters, at least one beyond the heading; an open fence is closed.
fn beginning(text: &str, max: usize) -> Option<String> {
    const CLOSE: usize = 4;
    let mut out = String::new();
    let mut used = CLOSE;
    let mut fenced = false;
    let mut lines = 0;
    for line in text.split_inclusive('\n') {
        used += chars(line);
        if used > max {
            break;
        }
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        out.push_str(line);
        lines += usize::from(!line.trim().is_empty());
    }
    if fenced {
        out.push_str("```\n");
    }
    (lines > 1).then_some(out)
}
