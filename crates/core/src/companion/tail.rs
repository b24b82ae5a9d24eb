//! The unanswered end of a conversation at a compaction: the prompt just submitted, or tool results with their calls.
//! The client loses whatever we do not hand back.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

/// One message of the conversation, reduced to what matters here.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
pub struct MessageRow {
    pub role: String,
    /// Ids of the tool calls it makes.
    #[serde(default)]
    pub uses: Vec<String>,
    /// The tool results in it.
    #[serde(default)]
    pub results: Vec<PendingResult>,
    /// The number of characters of its own text.
    #[serde(default)]
    pub chars: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct PendingResult {
    pub id: String,
    /// Set only after the last answer; older results are not handed back.
    #[serde(default)]
    pub text: String,
}

/// A row to hand back, by index. `results` replaces the texts of these results.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TailState {
    pub row: usize,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub results: BTreeMap<String, String>,
}

/// The rows without an answer: everything after the last answer, plus the earlier rows whose tool calls these results
/// belong to.
pub fn pending(rows: &[MessageRow]) -> Range<usize> {
    let end = rows.len();
    // Only the model answers: a system row after the prompt does not answer it.
    let mut start = rows.iter().rposition(|r| r.role == "assistant").map_or(0, |i| i + 1);
    let answered = |row: &MessageRow| {
        rows[start..].iter().flat_map(|r| &r.results).any(|result| row.uses.contains(&result.id))
    };
    if let Some(first) = rows[..start].iter().position(answered) {
        start = first;
    }
    start..end
}

/// The pending rows, with results shortened so that the tail has at most `budget` characters. `path_of` says where to
/// read a whole result.
pub fn keep(rows: &[MessageRow], budget: usize, path_of: impl Fn(&str) -> String) -> Vec<TailState> {
    let range = pending(rows);
    let size = |text: &str| text.chars().count();
    let mut sizes: Vec<usize> =
        rows[range.clone()].iter().flat_map(|r| &r.results).map(|r| size(&r.text)).collect();
    let own: usize = rows[range.clone()].iter().map(|r| r.chars).sum();
    let cap = cap(&mut sizes, budget.saturating_sub(own));
    range
        .map(|row| {
            let long = rows[row].results.iter().filter(|r| size(&r.text) > cap);
            let results = long.map(|r| (r.id.clone(), shorten(&r.text, cap, &path_of(&r.id)))).collect();
            TailState { row, results }
        })
        .collect()
}

/// The cap per result that makes all of them fit: short ones keep their length, long ones share the rest.
fn cap(sizes: &mut [usize], budget: usize) -> usize {
    sizes.sort_unstable();
    let mut left = budget;
    for (i, &size) in sizes.iter().enumerate() {
        let share = left / (sizes.len() - i);
        if size > share {
            return share;
        }
        left -= size;
    }
    usize::MAX
}

/// Keeps two thirds from the beginning and the rest from the end, where commands report their result.
fn shorten(text: &str, cap: usize, path: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let note = format!("\n[… {} characters in all; the whole is in {path} …]\n", chars.len());
    let room = cap.saturating_sub(note.chars().count());
    let head = room * 2 / 3;
    let mut short: String = chars[..head.min(chars.len())].iter().collect();
    short.push_str(&note);
    short.extend(&chars[chars.len().saturating_sub(room - head)..]);
    short
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn row(role: &str, uses: &[&str], results: &[(&str, usize)]) -> MessageRow {
        let results =
            results.iter().map(|(id, n)| PendingResult { id: (*id).into(), text: "x".repeat(*n) }).collect();
        MessageRow { role: role.into(), uses: uses.iter().map(|u| (*u).into()).collect(), results, chars: 0 }
    }

    #[test]
    fn a_prompt_without_an_answer_is_pending_and_an_answered_conversation_has_nothing() {
        let rows = [row("user", &[], &[]), row("assistant", &[], &[]), row("user", &[], &[])];
        assert_eq!(pending(&rows), 2..3);
        assert_eq!(pending(&rows[..2]), 2..2);
        assert_eq!(pending(&rows[..1]), 0..1);
        assert_eq!(pending(&[]), 0..0);
        let noted = [row("assistant", &[], &[]), row("user", &[], &[]), row("system", &[], &[])];
        assert_eq!(pending(&noted), 1..3, "a note of the client behind the prompt is no answer");
    }

    #[test]
    fn results_of_parallel_calls_come_back_with_every_call_they_answer() {
        let rows = [
            row("user", &[], &[]),
            row("assistant", &["old"], &[]),
            row("user", &[], &[("old", 1)]),
            row("assistant", &["a"], &[]),
            row("assistant", &["b"], &[]),
            row("user", &[], &[("a", 1)]),
            row("user", &[], &[("b", 1)]),
        ];
        assert_eq!(pending(&rows), 3..7);
    }

    #[test]
    fn long_results_share_what_short_ones_leave_and_say_where_the_whole_is() {
        let rows = [
            row("assistant", &["a", "b", "c"], &[]),
            row("user", &[], &[("a", 10), ("b", 5_000), ("c", 700)]),
        ];
        let kept = keep(&rows, 1_610, |id| format!("/whole/{id}"));
        assert!(kept[0].results.is_empty(), "the calls themselves stay as they are");
        let results = &kept[1].results;
        assert_eq!(results.keys().collect::<Vec<_>>(), ["b"]);
        assert!(results["b"].contains("5000 characters in all; the whole is in /whole/b"));
        assert_eq!(results["b"].chars().count(), 900);
    }

    #[test]
    fn a_tail_that_fits_is_handed_back_untouched() {
        let rows = [row("assistant", &["a"], &[]), row("user", &[], &[("a", 1_000)])];
        assert!(keep(&rows, 1_000, |_| unreachable!()).iter().all(|k| k.results.is_empty()));
    }

    proptest! {
        #[test]
        fn the_tail_never_separates_a_result_from_its_call_and_stays_in_its_budget(
            shape in proptest::collection::vec((any::<bool>(), 0usize..3, 0usize..3_000), 0..30),
            budget in 2_000usize..6_000,
        ) {
            let mut open: Vec<String> = Vec::new();
            let mut rows = Vec::new();
            for (i, (user, n, size)) in shape.into_iter().enumerate() {
                if user {
                    let results = open.drain(..).map(|id| PendingResult { id, text: "y".repeat(size) }).collect();
                    rows.push(MessageRow { role: "user".into(), results, ..MessageRow::default() });
                } else {
                    let uses: Vec<String> = (0..n).map(|k| format!("{i}-{k}")).collect();
                    open.extend(uses.iter().cloned());
                    rows.push(MessageRow { role: "assistant".into(), uses, ..MessageRow::default() });
                }
            }
            let kept = keep(&rows, budget, str::to_owned);
            let calls: Vec<&String> = kept.iter().flat_map(|k| &rows[k.row].uses).collect();
            let mut total = 0;
            for result in kept.iter().flat_map(|k| rows[k.row].results.iter().map(move |r| (k, r))) {
                prop_assert!(calls.contains(&&result.1.id), "{} lost its call", result.1.id);
                total += result.0.results.get(&result.1.id).unwrap_or(&result.1.text).chars().count();
            }
            // A share cannot be smaller than the note that replaces the rest.
            let notes = kept.iter().map(|k| k.results.len()).sum::<usize>() * 80;
            prop_assert!(total <= budget + notes, "{total} of {budget}");
        }
    }
}
