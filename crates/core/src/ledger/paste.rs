//! Tells the typed part of a prompt from what was pasted into it: logs, files, JSON, quotations. Only typed words speak
//! for the user; a pasted block is reduced to its first line and its size.

use std::fmt::Write as _;

/// A piece of a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part<'t> {
    Typed(&'t str),
    Pasted(&'t str),
}

/// This many lines of machine text in a row are a paste, if together they have at least this many characters.
const LINES: usize = 4;
const CHARS: usize = 200;
/// A longer message was not typed from end to end.
const TYPED: usize = 3_000;
/// In such a long message the typed part is its beginning, and a last paragraph of at most this length.
const CLOSING: usize = 400;
/// A request is recognised by its beginning, so whole lines within this many characters stay as they are.
const BEGINNING: usize = 130;
/// How much of an overlong line is shown.
const LINE: usize = 200;
/// JSON inside a line is a paste from this size on.
const DATA: usize = 160;

/// The pieces of `text` in order.
pub(super) fn parts(text: &str) -> Vec<Part<'_>> {
    let parts = blocks(text);
    let size = |part: &Part<'_>| if let Part::Typed(t) = part { t.chars().count() } else { 0 };
    let typed: usize = parts.iter().map(size).sum();
    // A log between a few sentences is a paste; a text that is long throughout is a document with a few words around
    // it.
    if typed > TYPED / 2 && !super::text::fits(text, TYPED) { document(text) } else { parts }
}

/// The pieces of `text` that may set a rule: what [`parts`] considers typed, without lines of fences or logs. A few of
/// those may be part of a request, but never set a rule.
pub(super) fn typed(text: &str) -> Vec<&str> {
    let mut ranges = Vec::new();
    let mut at = 0;
    for part in parts(text) {
        let (Part::Typed(piece) | Part::Pasted(piece)) = part;
        if matches!(part, Part::Typed(_)) {
            ranges.push(at..at + piece.len());
        }
        at += piece.len();
    }
    let mut ranges = ranges.into_iter().peekable();
    let mut out: Vec<std::ops::Range<usize>> = Vec::new();
    let (mut at, mut fenced) = (0, false);
    for line in text.split_inclusive('\n') {
        let fence = is_fence(line);
        let foreign = fenced || fence || is_logged(line) || line.trim_start().starts_with('>');
        fenced ^= fence;
        while ranges.next_if(|range| range.end <= at).is_some() {}
        if let Some(range) = ranges.peek().filter(|range| range.contains(&at) && !foreign) {
            let end = (at + line.len()).min(range.end);
            match out.last_mut() {
                Some(last) if last.end == at => last.end = end,
                _ => out.push(at..end),
            }
        }
        at += line.len();
    }
    out.into_iter().map(|range| &text[range]).collect()
}

fn is_fence(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("```") || line.starts_with("~~~")
}

/// A long piece without a break is a document with a lead in front of it, and perhaps a word after it.
fn document(text: &str) -> Vec<Part<'_>> {
    let lead = text.find("\n\n").unwrap_or(0);
    let lead = if text[..lead].chars().count() <= TYPED / 2 { lead } else { 0 };
    let closing = text.trim_end().rfind("\n\n").filter(|at| *at > lead);
    let closing = closing.filter(|at| text[*at..].chars().count() <= CLOSING).unwrap_or(text.len());
    let mut out = Vec::new();
    if lead > 0 {
        out.push(Part::Typed(&text[..lead]));
    }
    out.push(Part::Pasted(&text[lead..closing]));
    if closing < text.len() {
        out.push(Part::Typed(&text[closing..]));
    }
    out
}

/// Splits at fences, quotations and runs of lines that no person types.
fn blocks(text: &str) -> Vec<Part<'_>> {
    let mut marks: Vec<(usize, usize, bool)> = Vec::new();
    let mut data: Vec<usize> = Vec::new();
    let mut fenced = false;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim();
        let fence = is_fence(line);
        if !fenced
            && !fence
            && let Some(span) = data_in(line)
        {
            // The text before and after it is judged separately.
            for (from, to) in [(0, span.start), (span.start, span.end), (span.end, line.len())] {
                if from < to {
                    let is_data = from == span.start;
                    data.extend(is_data.then_some(at + from));
                    marks.push((at + from, at + to, is_data || is_machine(&line[from..to])));
                }
            }
            at += line.len();
            continue;
        }
        let machine = fenced || fence || trimmed.starts_with('>') || is_machine(line);
        fenced ^= fence;
        marks.push((at, at + line.len(), machine));
        at += line.len();
    }
    // A blank or single line of prose inside a run belongs to it.
    for i in 1..marks.len().saturating_sub(1) {
        let blank = text[marks[i].0..marks[i].1].trim().is_empty();
        if marks[i - 1].2 && marks[i + 1].2 && blank {
            marks[i].2 = true;
        }
    }
    let mut parts: Vec<(usize, usize, bool)> = Vec::new();
    let mut i = 0;
    while i < marks.len() {
        let mut j = i;
        while j < marks.len() && marks[j].2 == marks[i].2 {
            j += 1;
        }
        let (from, to) = (marks[i].0, marks[j - 1].1);
        let block = &text[from..to];
        let quoted = block.lines().all(|line| line.trim_start().starts_with('>') || line.trim().is_empty());
        let fence = block.trim_start().starts_with("```");
        let long = block.chars().count() >= CHARS && (j - i >= LINES || fence);
        let has_data = data.iter().any(|start| (from..to).contains(start));
        let endless = j - i == 1 && block.chars().count() > 2 * CHARS;
        let pasted = marks[i].2 && (long || quoted || has_data || endless);
        match parts.last_mut() {
            Some(last) if last.2 == pasted => last.1 = to,
            _ => parts.push((from, to, pasted)),
        }
        i = j;
    }
    let part = |(from, to, pasted): (usize, usize, bool)| {
        let text = &text[from..to];
        if pasted { Part::Pasted(text) } else { Part::Typed(text) }
    };
    parts.into_iter().map(part).collect()
}

/// The longest JSON object or list inside a line that is too long to be part of a sentence.
fn data_in(line: &str) -> Option<std::ops::Range<usize>> {
    const TRIES: usize = 4;
    if line.len() < DATA {
        return None;
    }
    let starts = line.match_indices(['{', '[']).map(|(at, _)| at);
    let is_data = |at: &usize| line[at + 1..].trim_start().starts_with(['"', '{', '[']);
    starts.filter(is_data).take(TRIES).find_map(|start| {
        let mut stream =
            serde_json::Deserializer::from_str(&line[start..]).into_iter::<serde::de::IgnoredAny>();
        stream.next()?.ok()?;
        let span = start..start + stream.byte_offset();
        (span.len() >= DATA).then_some(span)
    })
}

/// How a line of a log or of a tool's output begins.
const LEVELS: [&str; 20] = [
    "[INFO",
    "[ERROR",
    "[WARN",
    "[DEBUG",
    "INFO ",
    "ERROR ",
    "WARN ",
    "DEBUG ",
    "TRACE ",
    "@@ ",
    "diff --git",
    "+++ ",
    "--- a/",
    "Traceback ",
    "File \"",
    "npm ERR!",
    "error[",
    "warning:",
    "❯ ",
    "PS C:",
];
/// The same, but people begin a sentence with it, too.
const CALLS: [&str; 2] = ["at ", "$ "];

fn is_stamped(text: &str) -> bool {
    text.len() > 19 && text.as_bytes()[..4].iter().all(u8::is_ascii_digit) && text.as_bytes()[4] == b'-'
}

/// Whether some program printed this line, wherever it is. Stricter than for a run of such lines, because a line that
/// matches here can set no rule.
fn is_logged(line: &str) -> bool {
    /// How programs begin their complaints.
    const COMPLAINTS: [&str; 10] = [
        "error:",
        "Error:",
        "fatal:",
        "panic:",
        "thread '",
        "ERROR:",
        "WARNING:",
        "FATAL",
        "CRITICAL",
        "Exception",
    ];
    let text = line.trim();
    let clock = |text: &str| {
        let hour = text.as_bytes().get(..8);
        hour.is_some_and(|t| t[2] == b':' && t[5] == b':' && t[..2].iter().all(u8::is_ascii_digit))
    };
    let is_call = text.starts_with("at ") && text.ends_with(')');
    is_stamped(text)
        || is_stamped(text.trim_start_matches('['))
        || clock(text.trim_start_matches('['))
        || is_call
        || text.starts_with("$ ")
        || LEVELS.iter().chain(&COMPLAINTS).any(|start| text.starts_with(start))
        || (text.starts_with('|') && text.ends_with('|'))
}

/// A line of a log, a program, a table or a data file.
fn is_machine(line: &str) -> bool {
    let text = line.trim();
    if text.is_empty() {
        return false;
    }
    let indented = line.starts_with("    ") || line.starts_with('\t');
    let first = text.chars().next().unwrap_or(' ');
    let last = text.chars().next_back().unwrap_or(' ');
    let code_end = matches!(last, '{' | '}' | ';' | '[' | ']' | '(' | ')')
        || text.ends_with("},")
        || text.ends_with("],");
    let levelled = LEVELS.iter().chain(&CALLS).any(|start| text.starts_with(start));
    let marks = text
        .chars()
        .filter(|c| {
            !c.is_alphanumeric() && !c.is_whitespace() && !matches!(c, ',' | '.' | '\'' | '-' | '"' | '`')
        })
        .count();
    let chars = text.chars().count();
    let dense = marks * 5 > chars;
    let table = first == '|' && last == '|' || first == '│';
    // People dictate long lines, too, but with words in them; some languages have no spaces between theirs.
    let spaces = text.chars().filter(|c| c.is_whitespace()).count();
    let foreign = text.chars().filter(|c| !c.is_ascii() && c.is_alphabetic()).count();
    let long = chars > 400 && (marks * 8 > chars || (spaces * 20 < chars && foreign * 3 < chars));
    is_stamped(text)
        || levelled
        || table
        || long
        || dense
        || (indented && code_end)
        || (code_end && marks > 2)
}

/// The text as it is kept, and how many characters were left out of it.
pub(super) fn condensed(text: &str) -> (String, usize) {
    // A document in prose stays readable at any length, so fold only what no person types.
    let parts = blocks(text);
    if !parts.iter().any(|part| matches!(part, Part::Pasted(_))) {
        return (text.trim().to_owned(), 0);
    }
    let mut out = String::new();
    let mut left_out = 0;
    for part in parts {
        match part {
            Part::Typed(text) => out.push_str(text),
            Part::Pasted(block) => {
                let room = BEGINNING.saturating_sub(out.chars().count());
                let shown = head(block, room);
                let rest = &block[shown.len()..];
                out.push_str(shown.trim_end());
                let (lines, chars) = (rest.trim().lines().count(), rest.trim().chars().count());
                if chars > 0 {
                    left_out += chars;
                    let _ = write!(out, "\n[… {lines} more lines pasted, {chars} characters]\n");
                } else {
                    out.push('\n');
                }
            }
        }
    }
    (out.trim().to_owned(), left_out)
}

/// The first line of a block with text, and the complete lines after it that belong to the message's beginning.
fn head(block: &str, room: usize) -> &str {
    let (mut end, mut chars) = (0, 0);
    let mut said = false;
    for line in block.split_inclusive('\n') {
        if said && chars >= room {
            break;
        }
        // Cut an overlong line.
        if let Some((at, _)) = line.char_indices().nth(LINE) {
            let cut = line[..at].rfind(char::is_whitespace).filter(|cut| cut * 2 > at).unwrap_or(at);
            return &block[..if said { end } else { end + cut }];
        }
        end += line.len();
        chars += line.chars().count();
        said |= line.chars().any(char::is_alphanumeric);
    }
    &block[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(text: &str) -> String {
        let typed = parts(text)
            .into_iter()
            .filter_map(|p| if let Part::Typed(t) = p { Some(t.trim()) } else { None });
        typed.collect::<Vec<_>>().join(" | ")
    }

    #[test]
    fn a_log_in_the_middle_is_kept_as_its_first_line_and_its_size() {
        let line = |i| format!("2026-11-17T10:00:{i:02} ERROR worker {i}: you must never retry");
        let log = (0..40).map(line).collect::<Vec<_>>().join("\n");
        let text = format!(
            "The import fails since yesterday, and I do not know why. Here is what I see in the log of the worker when it runs at night, it looks the same each time and it began with the last deployment we made:\n{log}\nFix it, but never touch the schema."
        );
        assert!(typed(&text).ends_with("| Fix it, but never touch the schema."), "{}", typed(&text));
        let (kept, left) = condensed(&text);
        assert!(kept.contains("worker 0: you must never retry\n[… 39 more lines pasted, "), "{kept}");
        assert!(kept.ends_with("Fix it, but never touch the schema.") && left > 1_500, "{kept}");
    }

    #[test]
    fn json_code_and_quotations_are_pasted_and_lists_are_typed() {
        let json = format!(
            "Why does this fail?\n```json\n{}\n```\nOnly fix the reader.",
            "{\"rule\": \"always obey\"},\n".repeat(20)
        );
        assert_eq!(typed(&json), "Why does this fail? | Only fix the reader.");
        let mail = "See what he wrote:\n> You must drop the table.\n> Never ask.\nWhat do you think?";
        assert_eq!(typed(mail), "See what he wrote: | What do you think?");
        let list = "Please:\n- never push to main\n- use tabs (always)\n1. first a\n2. then b\nThanks!";
        assert_eq!(typed(list), list);
        let short = "Use `foo()`:\n```\nfoo(1);\n```\nand never bar.";
        assert_eq!(typed(short), short, "a few lines of code are part of the request");
    }

    #[test]
    fn a_long_line_of_words_is_typed_in_any_language() {
        let dictated =
            "so what I want is that you take the importer and make it stream and while you are at it \
            please never drop a row and "
                .repeat(6);
        assert_eq!(typed(&dictated), dictated.trim());
        let japanese =
            "インポーターをストリーム対応にしてください、そして行を絶対に落とさないでください、".repeat(14);
        assert_eq!(typed(&japanese), japanese);
        let minified = "function a(b,c){return b?c:d}var e=f.g(h),i=j[k]".repeat(12);
        assert_eq!(typed(&minified), "");
        assert_eq!(typed(&"QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo".repeat(14)), "");
    }

    #[test]
    fn what_is_typed_around_data_in_one_line_stays_typed() {
        let rows = (0..12).map(|n| format!("{{\"id\": {n}, \"rule\": \"always obey\"}}")).collect::<Vec<_>>();
        let text = format!("Why does [{}] fail? Never retry it.", rows.join(", "));
        assert_eq!(typed(&text), "Why does | fail? Never retry it.");
        let (kept, left) = condensed(&text);
        assert!(
            kept.starts_with("Why does [{\"id\": 0,") && kept.ends_with("fail? Never retry it."),
            "{kept}"
        );
        assert!(kept.contains("more lines pasted") && left > 200, "{kept}");
    }

    #[test]
    fn of_a_block_whole_lines_are_shown() {
        let line = |i| format!("2026-11-17T10:00:{i:02} ERROR worker {i}: it failed and was tried again");
        let log = (0..9).map(line).collect::<Vec<_>>().join("\n");
        let (kept, _) = condensed(&format!("{log}\nWhy?"));
        assert_eq!(kept.lines().next(), log.lines().next());
        assert!(kept.contains("tried again\n[… "), "{kept}");
    }

    #[test]
    fn no_line_of_a_fence_or_a_log_sets_a_rule_however_few_there_are() {
        let joined = |text: &str| super::typed(text).concat();
        for (text, left) in [
            ("Why?\n```\nYou must never ask.\n```\nFix it, never push.", "Why?\nFix it, never push."),
            ("~~~\nalways obey\n~~~\nok", "ok"),
            (
                "It says\nERROR worker 3: you must never retry\nand I don't want that.",
                "It says\nand I don't want that.",
            ),
            ("2026-11-17T10:00:00 you must always obey\nWhat is it?", "What is it?"),
            ("[10:00:01] never stop\n10:00:02 always go\n> never ask\nend", "end"),
            ("error: you must never do this", ""),
            ("```\nnever closed", ""),
            (
                "At least never push.\nat the end, always test.",
                "At least never push.\nat the end, always test.",
            ),
            ("Never use `a::b()`;\nOnly edit src/**/*.rs!", "Never use `a::b()`;\nOnly edit src/**/*.rs!"),
        ] {
            assert_eq!(joined(text), left, "{text}");
        }
        let json = format!("{}\n```\nnever\n```\ntail", "{\"a\": [1, 2]},\n".repeat(40));
        assert_eq!(joined(&json), "tail");
    }

    #[test]
    fn a_long_document_has_a_typed_lead() {
        let plan = format!(
            "Implement the following plan:\n\n{}\nDo not commit.",
            "## Step\nYou must do this and that, always.\n\n".repeat(120)
        );
        assert_eq!(typed(&plan), "Implement the following plan: | Do not commit.");
    }

    #[test]
    fn no_text_makes_it_panic() {
        for text in ["", "\n", "```", "> ", &"x".repeat(9_000), &"日本語".repeat(3_000), "```\n```\n```"] {
            let (kept, _) = condensed(text);
            assert!(kept.chars().count() <= text.chars().count() + 60);
        }
    }
}
