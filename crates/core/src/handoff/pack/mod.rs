//! Packs a document into a budget by value: what the next turn needs most goes in first, the rest is counted, and the
//! path to the whole is always included. The same input gives the same bytes.

mod assemble;
mod choice;
mod document;
mod packer;

use super::entries::entries;
use super::render::FACTS;
use super::verify;
use crate::ledger::Ledger;

pub(super) use assemble::assemble;
use assemble::counts;
pub(super) use choice::Selection;
pub use document::pack_document;
use packer::Packer;

/// A document that fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packed {
    pub text: String,
    /// The sections that lost entries, each with its title and how many.
    pub dropped: Vec<(String, usize)>,
}

/// Characters for a budget of tokens: four to a token, the rule of thumb for English and code.
pub fn chars_for_tokens(tokens: usize) -> usize {
    tokens.saturating_mul(4)
}

/// The ledger (after the narrative, if there is one) in at most `budget` characters. `pointer` says where the whole is:
/// a path or a command.
pub fn pack(ledger: &Ledger, narrative: Option<&str>, budget: usize, pointer: &str) -> Packed {
    let narrative = narrative.map(str::trim).filter(|n| !n.is_empty());
    let Some(narrative) = narrative else { return pack_facts(ledger, budget, pointer) };
    let marked = verify::mark(narrative, ledger);
    let glue = chars(FACTS) + 4;
    // The agent's own words may take half, plus what the facts leave of theirs; then the facts get the rest.
    let least = pack_facts(ledger, budget.saturating_sub(budget / 2 + glue), pointer);
    let own = pack_document(&marked, budget.saturating_sub(chars(&least.text) + glue), pointer);
    let room = budget.saturating_sub(chars(&own.text) + glue);
    let more = pack_facts(ledger, room, pointer);
    let left_out = |packed: &Packed| packed.dropped.iter().map(|(_, n)| n).sum::<usize>();
    let is_enough = chars(&least.text) <= room && left_out(&least) <= left_out(&more);
    let facts = if is_enough { least } else { more };
    let text = format!("{}\n\n{FACTS}\n\n{}", own.text, facts.text);
    if chars(&text) > budget {
        return pack_facts(ledger, budget, pointer);
    }
    Packed { text, dropped: own.dropped.into_iter().chain(facts.dropped).collect() }
}

fn pack_facts(ledger: &Ledger, budget: usize, pointer: &str) -> Packed {
    let entries = entries(ledger, budget);
    // Any section may have to list what it left out, so reserve that line first.
    let whole = footer(&[], pointer);
    let worst = footer(&counts(&entries, &Selection::nothing(&entries)), pointer);
    let room = budget.saturating_sub(chars(&worst).min(chars(&whole) + 440) + 2);
    let mut packer = Packer::new(&entries, room, budget);
    packer.fill();
    // Estimates err on the safe side, so fill the free room while something is left out.
    for _ in 0..REFILLS {
        let dropped = counts(&entries, packer.choice());
        let size = chars(&join(&assemble(&entries, packer.choice()), &footer(&dropped, pointer)));
        let free = budget.saturating_sub(size);
        if dropped.is_empty() || free < SPARE * 2 {
            break;
        }
        packer.refill(free - SPARE);
    }
    let mut choice = packer.into_choice();
    loop {
        let dropped = counts(&entries, &choice);
        let text = join(&assemble(&entries, &choice), &footer(&dropped, pointer));
        if chars(&text) <= budget {
            return Packed { text, dropped };
        }
        // The estimate was a few characters short; only a budget too small for the footer drops everything.
        if !choice.shorten(chars(&text) - budget, &entries) {
            let dropped = counts(&entries, &Selection::nothing(&entries));
            return Packed { text: first_chars(&whole, budget).to_owned(), dropped };
        }
    }
}

/// How often free room is filled again, and how many characters stay free as a margin for estimates.
const REFILLS: usize = 4;
const SPARE: usize = 24;

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
