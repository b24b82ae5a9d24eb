//! Differences between two texts, line by line.

use std::fmt::Write as _;

use similar::algorithms::{Capture, Compact, Replace, myers};
use similar::{Change, ChangeTag, DiffOp, group_diff_ops};

/// Unchanged lines shown around a change.
const CONTEXT: usize = 3;

/// The difference between two texts, empty if they are equal. `None` is a missing file.
pub(crate) fn unified(name: &str, before: Option<&str>, after: Option<&str>) -> String {
    if before == after {
        return String::new();
    }
    let old: Vec<&str> = before.unwrap_or_default().split_inclusive('\n').collect();
    let new: Vec<&str> = after.unwrap_or_default().split_inclusive('\n').collect();
    let side = |text: Option<&str>| text.map_or("/dev/null", |_| name);
    let mut out = format!("--- {}\n+++ {}\n", side(before), side(after));
    for hunk in group_diff_ops(operations(&old, &new), CONTEXT) {
        let [mut removed, mut added] = [0, 0];
        let mut lines = String::new();
        for change in hunk.iter().flat_map(|op| op.iter_changes(&old[..], &new[..])) {
            removed += usize::from(change.tag() != ChangeTag::Insert);
            added += usize::from(change.tag() != ChangeTag::Delete);
            let line = change.value().strip_suffix('\n');
            // A carriage return would move the cursor back to the beginning of the line.
            let text = line.unwrap_or(change.value());
            let _ = writeln!(lines, "{}{}", change.tag(), text.strip_suffix('\r').unwrap_or(text));
            if line.is_none() {
                lines += "\\ No newline at end of file\n";
            }
        }
        // An empty side is numbered by the line before it.
        let begin = |count: usize, before: usize| if count == 0 { before } else { before + 1 };
        let (from, to) = hunk.first().map_or((0, 0), |op| (op.old_range().start, op.new_range().start));
        let _ =
            write!(out, "@@ -{},{removed} +{},{added} @@\n{lines}", begin(removed, from), begin(added, to));
    }
    out
}

/// Every line of both texts, with its change.
pub(crate) fn changes<'t>(before: &'t str, after: &'t str) -> Vec<(ChangeTag, &'t str)> {
    let old: Vec<&str> = before.split_inclusive('\n').collect();
    let new: Vec<&str> = after.split_inclusive('\n').collect();
    let changes = operations(&old, &new).into_iter().flat_map(|op| {
        op.iter_changes(&old[..], &new[..])
            .map(|change: Change<&str>| (change.tag(), change.value()))
            .collect::<Vec<_>>()
    });
    changes.collect()
}

/// Use one algorithm only: a choice at run time would compile all of them, a fifteenth of this crate's code.
fn operations(old: &[&str], new: &[&str]) -> Vec<DiffOp> {
    let mut hook = Compact::new(Replace::new(Capture::new()), old, new);
    let Ok(()) = myers::diff(&mut hook, old, 0..old.len(), new, 0..new.len());
    hook.into_inner().into_inner().into_ops()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(count: usize) -> String {
        (1..=count).fold(String::new(), |text, n| text + &format!("line {n}\n"))
    }

    #[test]
    fn only_what_changed_is_shown_with_three_lines_around_it() {
        let old = numbered(20);
        let new = old.replace("line 10\n", "line ten\nand more\n");
        insta::assert_snapshot!(unified("f", Some(&old), Some(&new)), @r"
        --- f
        +++ f
        @@ -7,7 +7,8 @@
         line 7
         line 8
         line 9
        -line 10
        +line ten
        +and more
         line 11
         line 12
         line 13
        ");
        assert_eq!(unified("f", Some(&old), Some(&old)), "");
    }

    #[test]
    fn far_changes_get_hunks_of_their_own_and_patch_agrees() {
        let old = numbered(40);
        let new =
            old.replace("line 3\n", "").replace("line 30\n", "thirty\n").replace("line 40\n", "line 40");
        let diff = unified("f", Some(&old), Some(&new));
        assert_eq!(diff.matches("@@ -").count(), 3, "{diff}");
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("f"), &old).unwrap();
        std::fs::write(dir.path().join("d"), &diff).unwrap();
        if !baton_testkit::tools::has(&["patch"]) {
            return;
        }
        let out = std::process::Command::new("patch").args(["-s", "f", "d"]).current_dir(dir.path()).output();
        let out = out.unwrap();
        assert!(out.status.success(), "{out:?}\n{diff}");
        assert_eq!(std::fs::read_to_string(dir.path().join("f")).unwrap(), new);
    }

    #[test]
    fn a_change_in_a_long_file_is_shown_alone() {
        let old = numbered(10_000);
        let diff = unified("f", Some(&old), Some(&old.replace("line 5000\n", "")));
        assert_eq!(diff.lines().count(), 2 + 1 + 2 * CONTEXT + 1, "{diff}");
    }

    #[test]
    fn a_new_file_comes_from_nowhere() {
        insta::assert_snapshot!(unified("f", None, Some("a\nb")), @r"
        --- /dev/null
        +++ f
        @@ -0,0 +1,2 @@
        +a
        +b
        \ No newline at end of file
        ");
    }
}
