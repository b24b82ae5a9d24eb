//! Hunks of patches, in the two forms that clients write: unified diffs and Codex's own envelope.

use std::borrow::Cow;

use super::outline::{definition, heading};
use super::record::{Change, Hunk, Touch};

/// The hunk that begins at `line` of the new file. The definition around it is the last one before its first change,
/// or one that it changes itself.
pub(super) fn hunk<'l>(line: u32, old: i32, new: i32, lines: impl Iterator<Item = &'l str>) -> Hunk {
    let (mut around, mut headed) = (None, None);
    let mut first = None;
    let mut at = 0;
    for text in lines {
        let (mark, rest) = text.split_at_checked(1).unwrap_or(("", ""));
        let changed = matches!(mark, "+" | "-");
        if let Some(name) = definition(rest)
            && (first.is_none() || changed)
        {
            around = Some(name.to_owned());
        }
        if let Some(title) = heading(rest)
            && (first.is_none() || headed.is_none())
        {
            headed = Some(title.to_owned());
        }
        if changed && first.is_none() {
            first = Some(at);
        }
        at += u32::from(mark != "-");
        // After the first change only a definition in the change itself matters, and one name is enough.
        if first.is_some() && around.is_some() {
            break;
        }
    }
    let lines = u32::try_from(new.max(1)).unwrap_or(1);
    Hunk { line: line + first.unwrap_or(0), lines, growth: new - old, around, heading: headed }
}

/// The hunks of a unified diff.
pub(super) fn unified(diff: &str) -> Vec<Hunk> {
    let mut hunks = Vec::new();
    let mut lines = diff.lines().peekable();
    while let Some(head) = lines.next() {
        let Some(((_, old), (line, new))) = ranges(head) else { continue };
        let body: Vec<&str> = std::iter::from_fn(|| lines.next_if(|next| !next.starts_with("@@ "))).collect();
        let mut found = hunk(line, old, new, body.iter().copied());
        // Git names the function after the second `@@`.
        let named = head.splitn(3, "@@").nth(2).map(str::trim).filter(|name| !name.is_empty());
        if found.around.is_none() {
            found.around = named.map(|name| definition(name).unwrap_or(name).to_owned());
        }
        hunks.push(found);
    }
    hunks
}

/// `@@ -12,3 +14,5 @@` as two pairs of a line and a count.
fn ranges(head: &str) -> Option<((u32, i32), (u32, i32))> {
    let mut parts = head.strip_prefix("@@ -")?.split_whitespace();
    let pair = |text: &str| {
        let (line, count) = text.split_once(',').unwrap_or((text, "1"));
        Some((line.parse().ok()?, count.parse().ok()?))
    };
    Some((pair(parts.next()?)?, pair(parts.next()?.strip_prefix('+')?)?))
}

/// The files of a patch in Codex's envelope, each with its text.
pub(super) fn envelope<'a>(text: &str) -> Vec<Change<'a>> {
    let mut changes: Vec<Change<'a>> = Vec::new();
    let mut body = String::new();
    let end = |changes: &mut Vec<Change<'a>>, body: &mut String| {
        if let Some(change) = changes.last_mut() {
            let around = body.lines().find_map(|line| {
                let context = line.strip_prefix("@@ ").or_else(|| line.strip_prefix([' ', '+', '-']))?;
                definition(context)
            });
            change.hunks = around
                .map(|name| Hunk {
                    line: 0,
                    lines: 0,
                    growth: 0,
                    around: Some(name.to_owned()),
                    heading: None,
                })
                .into_iter()
                .collect();
            change.texts.push(Cow::Owned(std::mem::take(body)));
        }
        body.clear();
    };
    for line in text.lines() {
        if let Some((touch, path)) = file_head(line) {
            end(&mut changes, &mut body);
            changes.push(Change {
                touch,
                path: Cow::Owned(path.to_owned()),
                texts: Vec::new(),
                hunks: Vec::new(),
            });
        } else if let Some(to) = line.strip_prefix("*** Move to: ") {
            // The old name is gone, the new one carries the text.
            if let Some(change) = changes.last_mut() {
                let from = std::mem::replace(&mut change.path, Cow::Owned(to.trim().to_owned()));
                let gone = Change { touch: Touch::Deleted, path: from, texts: Vec::new(), hunks: Vec::new() };
                changes.insert(changes.len() - 1, gone);
            }
        } else if !line.starts_with("*** ") {
            body.push_str(line);
            body.push('\n');
        }
    }
    end(&mut changes, &mut body);
    changes
}

/// The file that a line of the envelope begins: `*** Update File: src/a.rs`.
pub(crate) fn file_head(line: &str) -> Option<(Touch, &str)> {
    let (kind, path) = line.strip_prefix("*** ")?.split_once(" File: ")?;
    let touch = match kind {
        "Add" => Touch::Created,
        "Update" => Touch::Edited,
        "Delete" => Touch::Deleted,
        _ => return None,
    };
    Some((touch, path.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hunk_knows_its_line_and_the_definition_around_it() {
        let diff = "@@ -10,4 +12,5 @@\n fn load(id: &str) {\n     let x = 1;\n-    old();\n+    new();\n+    more();\n }\n";
        let found = unified(diff);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].line, found[0].growth), (14, 1));
        assert_eq!(found[0].around.as_deref(), Some("load"));
        let named = unified("@@ -1,2 +1,2 @@ func (s *Store) Save() error {\n-a\n+b\n");
        assert_eq!(named[0].around.as_deref(), Some("Save"));
    }

    #[test]
    fn an_envelope_gives_its_files_with_their_texts() {
        let patch = "*** Begin Patch\n*** Update File: src/a.py\n@@ def run(self):\n-old\n+new\n*** Add File: b.txt\n+one\n*** Delete File: c.txt\n*** End Patch";
        let found = envelope(patch);
        let seen: Vec<_> = found.iter().map(|c| (c.touch, c.path.as_ref())).collect();
        assert_eq!(seen, [(Touch::Edited, "src/a.py"), (Touch::Created, "b.txt"), (Touch::Deleted, "c.txt")]);
        assert_eq!(found[0].hunks[0].around.as_deref(), Some("run"));
        assert!(found[0].texts[0].contains("+new"));
    }
}
