//! Suggestions for mistyped words.

/// The name nearest to `word`, if it is near enough for a typing error.
pub fn nearest<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let near = |name: &&str| if name.len() > 12 { 6 } else { 3 };
    let ranked = names.into_iter().map(|name| (distance(word, name), name));
    ranked.filter(|(far, name)| *far <= near(name)).min().map(|(_, name)| name)
}

/// How many letters must be added, dropped or changed to make one word of the other.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.chars().enumerate() {
            let changed = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.chars().count()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typing_error_has_its_word_and_another_word_has_none() {
        assert_eq!(nearest("cluade", ["codex", "claude"]), Some("claude"));
        let keys = ["context.warning_percentage", "context.warning_tokens", "run.park"];
        assert_eq!(nearest("context.warning_percent", keys), Some("context.warning_percentage"));
        assert_eq!(nearest("vim", ["codex", "claude"]), None);
        assert_eq!(nearest("", ["codex"]), None);
    }
}
