//! Recognises a prompt that a client has put back into its composer.

/// How many visible characters of a prompt that is longer than its composer identify it.
const ENOUGH: usize = 200;

/// Whether the record of a prompt has the text of this draft, however the composer has broken its lines, folded its
/// long pastes, or cut off what it has no room for.
pub fn is_prompt(record: &str, draft: &str) -> bool {
    fn has(value: &serde_json::Value, pieces: &[Piece]) -> bool {
        match value {
            serde_json::Value::String(text) => is_text(text, pieces),
            serde_json::Value::Array(items) => items.iter().any(|item| has(item, pieces)),
            serde_json::Value::Object(fields) => fields.values().any(|field| has(field, pieces)),
            _ => false,
        }
    }
    let pieces = pieces(&dense(draft));
    !pieces.is_empty() && serde_json::from_str(record).is_ok_and(|record| has(&record, &pieces))
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    /// Visible text, without its blanks.
    Text(String),
    /// `[Pasted text #1 +39 lines]`: a paste with this many line breaks. A long paste of a single line has no number.
    Fold(Option<usize>),
}

fn pieces(draft: &str) -> Vec<Piece> {
    const FOLD: &str = "[Pastedtext#";
    let mut pieces = Vec::new();
    let mut rest = draft;
    while let Some((before, (note, after))) =
        rest.split_once(FOLD).and_then(|(before, after)| Some((before, after.split_once(']')?)))
    {
        if !before.is_empty() {
            pieces.push(Piece::Text(before.to_owned()));
        }
        let lines = note.split_once('+').and_then(|(_, lines)| lines.strip_suffix("lines")?.parse().ok());
        pieces.push(Piece::Fold(lines));
        rest = after;
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest.to_owned()));
    }
    pieces
}

fn is_text(text: &str, pieces: &[Piece]) -> bool {
    let dense_text = dense(text);
    if let [Piece::Text(draft)] = pieces {
        return dense_text == *draft || (draft.chars().count() >= ENOUGH && dense_text.contains(draft));
    }
    let (mut rest, mut folded, mut folds) = (dense_text.as_str(), false, 0);
    for (n, piece) in pieces.iter().enumerate() {
        match piece {
            Piece::Fold(lines) => (folded, folds) = (true, folds + lines.unwrap_or(0)),
            Piece::Text(piece) => {
                let is_last = n + 1 == pieces.len();
                let at = if is_last { rest.rfind(piece) } else { rest.find(piece) };
                // A folded paste is never empty.
                let Some(at) = at.filter(|at| (*at > 0) == folded) else { return false };
                rest = &rest[at + piece.len()..];
                folded = false;
            }
        }
    }
    let breaks = text.trim().matches('\n').count();
    let has_text = pieces.iter().any(|piece| matches!(piece, Piece::Text(_)));
    // The line breaks of visible text are unknown: the composer breaks lines too.
    rest.is_empty() != folded && if has_text { breaks >= folds } else { breaks == folds }
}

fn dense(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(text: &str) -> String {
        serde_json::json!({ "type": "user", "message": { "content": [{ "type": "text", "text": text }] } })
            .to_string()
    }

    #[test]
    fn a_prompt_is_recognised_however_its_lines_are_broken() {
        let record = record("Port the tests.\nAll of them.");
        assert!(is_prompt(&record, "Port the\n tests.\nAll of them."));
        assert!(!is_prompt(&record, "Port the tests."), "a person has begun something else");
        assert!(!is_prompt(&record, "") && !is_prompt("no json", "Port the tests."));
    }

    #[test]
    fn a_long_paste_is_recognised_by_the_note_that_the_composer_shows_for_it() {
        let paste = "line\n".repeat(39) + "end";
        assert!(is_prompt(&record(&paste), "[Pasted text #1 +39 lines]"));
        assert!(is_prompt(&record(&paste), "[Pasted text #1 +39\nlines]"), "in a narrow pane");
        assert!(!is_prompt(&record(&paste), "[Pasted text #1 +40 lines]"), "another paste");
        assert!(!is_prompt(&record("short"), "[Pasted text #1 +39 lines]"));
        assert!(is_prompt(&record(&"x".repeat(2_000)), "[Pasted text #2]"));
    }

    #[test]
    fn typed_words_around_pastes_must_be_there_too() {
        let paste = "line\n".repeat(12) + "end";
        let record = record(&format!("Explain this: {paste} and this: {paste} in a word."));
        let draft = |end: &str| {
            format!("Explain this: [Pasted text #1 +12 lines] and this: [Pasted text #2 +12 lines] {end}")
        };
        assert!(is_prompt(&record, &draft("in a word.")));
        assert!(!is_prompt(&record, &draft("in two words.")));
        assert!(!is_prompt(&record, "Explain that: [Pasted text #1 +12 lines]"));
    }

    #[test]
    fn enough_of_a_prompt_that_is_longer_than_its_composer_identifies_it() {
        let words: Vec<String> = (0..200).map(|n| format!("word{n}")).collect();
        let (words, seen) = (words.join(" "), words[100..160].join(" "));
        assert!(is_prompt(&record(&words), &seen));
        assert!(!is_prompt(&record(&words), "word100 word101"));
    }
}
