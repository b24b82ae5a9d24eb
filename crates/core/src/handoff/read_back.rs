//! Reads back a document without a ledger: its requests, and the words in its list. Nothing proves any longer that the
//! user said them, so they are carried on as words said in the session.

use super::render::FACTS;
use crate::ledger::{Utterance, UtteranceKind};
use crate::transcript::{Author, Origin};

/// The list may be long; the newest words come first in it.
const WORDS: usize = 20;

/// The lists of words.
const SPOKEN: [&str; 2] = ["The user's words", "Said by others"];

/// A heading without its count.
fn title_of(heading: &str) -> &str {
    heading.split_once(" (").map_or(heading, |(title, _)| title)
}

/// The first request, and the words after it.
pub(super) struct ReadBack {
    pub first: Option<Utterance>,
    pub words: Vec<Utterance>,
}

/// Reads the facts in a document's body. The agent's own text above them is skipped.
pub(super) fn read_back(body: &str) -> ReadBack {
    let facts = body.rsplit_once(FACTS).map_or(body, |(_, facts)| facts);
    let (mut first, mut words) = (None, Vec::new());
    let (mut section, mut lines) = ("", facts.lines());
    while let Some(line) = lines.next() {
        if let Some(title) = line.strip_prefix("## ") {
            section = title;
        } else if line.starts_with("First request") || line.starts_with("Latest request") {
            let Some((_, rest)) = line.split_once(':') else { continue };
            let text = if rest.trim().is_empty() { fenced(&mut lines) } else { Some(rest.trim().to_owned()) };
            let said = text.filter(|text| !text.is_empty()).map(said);
            if first.is_none() { first = said } else { words.extend(said) }
        } else if let Some(text) = line.strip_prefix("- ").filter(|_| SPOKEN.contains(&title_of(section))) {
            let whole = if text == "said:" { fenced(&mut lines) } else { Some(text.to_owned()) };
            words.extend(whole.map(said));
        }
    }
    words.truncate(WORDS);
    ReadBack { first, words }
}

/// The text of the block that begins with the next line.
fn fenced<'a>(lines: &mut impl Iterator<Item = &'a str>) -> Option<String> {
    let fence = lines.next().filter(|line| line.starts_with("```"))?;
    Some(lines.take_while(|line| *line != fence).collect::<Vec<_>>().join("\n"))
}

fn said(text: String) -> Utterance {
    Utterance {
        text,
        way: UtteranceKind::Prompt,
        author: Author::Unknown,
        asked: None,
        command: None,
        left_out: 0,
        origin: Origin::default(),
    }
}
