//! A unified diff, for people to see what would change before it does.

use std::fmt::Write as _;

/// Unchanged lines shown around a change.
const AROUND: usize = 3;
/// Files with more lines than this are shown as wholly replaced; the table below is quadratic.
const MOST: usize = 4_000;

/// The difference between two texts, empty if there is none. `None` is a file that does not exist.
pub fn unified(name: &str, before: Option<&str>, after: Option<&str>) -> String {
    if before == after {
        return String::new();
    }
    let old: Vec<&str> = before.unwrap_or_default().split_inclusive('\n').collect();
    let new: Vec<&str> = after.unwrap_or_default().split_inclusive('\n').collect();
    let side = |text: Option<&str>| text.map_or("/dev/null".to_owned(), |_| name.to_owned());
    let mut out = format!("--- {}\n+++ {}\n", side(before), side(after));
    let steps = steps(&old, &new);
    let mut at = 0;
    while at < steps.len() {
        let Some(first) = steps[at..].iter().position(|s| s.sign != ' ').map(|n| n + at) else { break };
        let start = first.saturating_sub(AROUND).max(at);
        let mut end = first;
        while let Some(next) = steps[end..].iter().position(|s| s.sign != ' ').map(|n| n + end) {
            if next > end + 2 * AROUND {
                break;
            }
            end = next + 1;
        }
        let end = (end + AROUND).min(steps.len());
        hunk(&mut out, &steps[start..end]);
        at = end;
    }
    out
}

#[derive(Debug, Clone, Copy)]
struct Step<'a> {
    sign: char,
    line: &'a str,
    /// Lines of each side before this one.
    old: usize,
    new: usize,
}

fn steps<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<Step<'a>> {
    let common = common(old, new);
    let (mut i, mut j) = (0, 0);
    let mut steps = Vec::new();
    for (x, y) in common.into_iter().chain([(old.len(), new.len())]) {
        while i < x {
            steps.push(Step { sign: '-', line: old[i], old: i, new: j });
            i += 1;
        }
        while j < y {
            steps.push(Step { sign: '+', line: new[j], old: i, new: j });
            j += 1;
        }
        if i < old.len() && j < new.len() {
            steps.push(Step { sign: ' ', line: old[i], old: i, new: j });
            (i, j) = (i + 1, j + 1);
        }
    }
    steps
}

/// The longest common subsequence, as pairs of indexes.
fn common(old: &[&str], new: &[&str]) -> Vec<(usize, usize)> {
    if old.len() > MOST || new.len() > MOST {
        return Vec::new();
    }
    let width = new.len() + 1;
    let mut length = vec![0u16; (old.len() + 1) * width];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            length[i * width + j] = if old[i] == new[j] {
                length[(i + 1) * width + j + 1] + 1
            } else {
                length[(i + 1) * width + j].max(length[i * width + j + 1])
            };
        }
    }
    let (mut i, mut j, mut pairs) = (0, 0, Vec::new());
    while i < old.len() && j < new.len() {
        if old[i] == new[j] {
            pairs.push((i, j));
            (i, j) = (i + 1, j + 1);
        } else if length[(i + 1) * width + j] >= length[i * width + j + 1] {
            i += 1;
        } else {
            j += 1;
        }
    }
    pairs
}

fn hunk(out: &mut String, steps: &[Step<'_>]) {
    let count = |skip: char| steps.iter().filter(|s| s.sign != skip).count();
    let (old, new) = (count('+'), count('-'));
    // A side without lines is named by the line before it.
    let begin = |lines: usize, before: usize| if lines == 0 { before } else { before + 1 };
    let _ = writeln!(out, "@@ -{},{old} +{},{new} @@", begin(old, steps[0].old), begin(new, steps[0].new));
    for step in steps {
        let line = step.line.strip_suffix('\n').unwrap_or(step.line);
        let _ = writeln!(out, "{}{}", step.sign, line.strip_suffix('\r').unwrap_or(line));
        if !step.line.ends_with('\n') {
            let _ = writeln!(out, "\\ No newline at end of file");
        }
    }
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
        let Ok(out) =
            std::process::Command::new("patch").args(["-s", "f", "d"]).current_dir(dir.path()).output()
        else {
            eprintln!("SKIPPED: patch is not here");
            return;
        };
        assert!(out.status.success(), "{out:?}\n{diff}");
        assert_eq!(std::fs::read_to_string(dir.path().join("f")).unwrap(), new);
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
