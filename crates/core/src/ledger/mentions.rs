//! Names and numbers used most recently: code spans, issue and request numbers in the agent's and the user's
//! words. What the next turn is likely to speak of.

use serde::{Deserialize, Serialize};

use super::capped::Capped;
use super::text;

const KEPT: usize = 80;
const CHARS: usize = 60;

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Mentions {
    /// The newest at the end.
    pub names: Capped<String>,
}

impl Mentions {
    pub fn find(&mut self, words: &str) {
        // Only the end of a long text is recent.
        let from = words.len().saturating_sub(6_000);
        let from = (from..words.len()).find(|&i| words.is_char_boundary(i)).unwrap_or(0);
        let words = &words[from..];
        let mut in_fence = false;
        for line in words.lines() {
            if line.trim_start().starts_with("```") {
                in_fence = !in_fence;
                continue;
            }
            if in_fence {
                continue;
            }
            for span in line.split('`').skip(1).step_by(2) {
                self.note(span);
            }
            for word in
                line.split(|c: char| c.is_whitespace() || matches!(c, '(' | ')' | ',' | '[' | ']' | '`'))
            {
                let word = word.trim_end_matches(['.', ':', ';', '!', '?']);
                let number = word
                    .strip_prefix('#')
                    .is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
                let ticket = word.split_once('-').is_some_and(|(key, n)| {
                    (2..=10).contains(&key.len())
                        && key.bytes().all(|b| b.is_ascii_uppercase())
                        && !n.is_empty()
                        && n.bytes().all(|b| b.is_ascii_digit())
                });
                if number || ticket {
                    self.note(word);
                }
            }
        }
    }

    fn note(&mut self, name: &str) {
        let name = name.trim();
        if name.len() < 2 || !text::fits(name, CHARS) || name.contains('\n') {
            return;
        }
        if let Some(at) = self.names.items.iter().position(|n| n == name) {
            self.names.items.remove(at);
        }
        self.names.push(name.to_owned(), KEPT);
    }
}
