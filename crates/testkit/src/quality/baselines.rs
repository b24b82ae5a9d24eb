//! Baselines in use today: the client's summary, the end of the conversation, the seed's extract, an index of names.

use super::needed;
use super::story::{Cut, Story, What};

fn first_chars(text: &str, n: usize) -> String {
    text.chars().take(n).collect()
}

pub fn summary(cut: &Cut, budget: usize) -> Option<String> {
    cut.summary.as_deref().map(|summary| first_chars(summary, budget))
}

/// `role: text` of the last fifteen messages with text, each at most 500 characters, as the first seed's script writes
/// them.
pub fn last_fifteen(story: &Story, cut: &Cut, budget: usize) -> String {
    let said = story.events[..cut.at].iter().filter_map(|event| match &event.what {
        What::Said(text) => Some(format!("user: {text}")),
        What::Reply(text) => Some(format!("assistant: {text}")),
        _ => None,
    });
    let all: Vec<String> = said.collect();
    let last: Vec<String> = all[all.len().saturating_sub(15)..].iter().map(|m| first_chars(m, 500)).collect();
    first_chars(&last.join("\n"), budget)
}

/// The end of the conversation, including tool calls and results.
pub fn tail(story: &Story, cut: &Cut, budget: usize) -> String {
    let mut pieces = Vec::new();
    let mut size = 0;
    for event in story.events[..cut.at].iter().rev() {
        let text = match &event.what {
            What::Said(text) | What::Reply(text) => text,
            What::Call(call) => &call.text,
            What::Result(outcome) => &outcome.text,
            What::Ended(_) | What::Boundary(_) => continue,
        };
        size += text.chars().count() + 1;
        pieces.push(text.as_str());
        if size > budget {
            break;
        }
    }
    pieces.reverse();
    let text = pieces.join("\n");
    let skip = text.chars().count().saturating_sub(budget);
    text.chars().skip(skip).collect()
}

/// The last names before the cut, most recent first, as many as fit.
pub fn index(story: &Story, cut: &Cut, budget: usize) -> String {
    let mut out = String::new();
    let mut chars = 0;
    for name in needed::recent_names(story, cut) {
        let size = name.chars().count() + 1;
        if chars + size > budget {
            break;
        }
        chars += size;
        out.push_str(&name);
        out.push('\n');
    }
    out
}
