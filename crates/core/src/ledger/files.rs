//! Files created, edited, deleted and read: what was done to them and where, and what was searched for in them.

use std::borrow::Cow;
use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::transcript::{Hunk, Origin, Touch};

const KEPT: usize = 400;
/// Files that only outputs named.
const MENTIONED: usize = 150;
/// Of each file: changed places, read ranges, searches, definitions.
const MARKS: usize = 12;
const RANGES: usize = 6;
const SEARCHES: usize = 4;
const OUTLINE: usize = 60;
/// How many files keep more than their name and counts; a task works on a few dozen.
const DETAILED: usize = 80;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct File {
    /// Relative to the folder of the task, with slashes; absolute if it is elsewhere.
    pub path: String,
    /// Stays the same while the file is known; names refer to it.
    pub id: u32,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub created: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deleted: bool,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub edits: u32,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub reads: u32,
    /// The agent's act at which it was last touched.
    pub act: u32,
    /// Of the last change, or of the last read if there was no change.
    pub origin: Origin,
    /// Places that were changed, the newest last.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    pub marks: VecDeque<ChangedPlace>,
    /// First and last lines that were read, the newest last. The end is 0 if unknown.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    pub ranges: VecDeque<(u32, u32)>,
    /// The patterns that were searched for in it.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    pub searches: VecDeque<String>,
    /// Definitions that were shown, by line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outline: Vec<Definition>,
}

/// A place in a file that was changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedPlace {
    /// As last seen; 0 when only the definition is known.
    pub line: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub around: Option<String>,
}

/// A line that defines something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Definition {
    pub line: u32,
    pub name: String,
    /// The line itself.
    pub text: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(n: &u32) -> bool {
    *n == 0
}

impl File {
    fn new(path: &str, id: u32, act: u32, origin: &Origin) -> Self {
        Self {
            path: path.to_owned(),
            id,
            created: false,
            deleted: false,
            edits: 0,
            reads: 0,
            act,
            origin: origin.clone(),
            marks: VecDeque::new(),
            ranges: VecDeque::new(),
            searches: VecDeque::new(),
            outline: Vec::new(),
        }
    }

    /// Changed, read or searched, as opposed to named in an output.
    pub fn is_touched(&self) -> bool {
        self.changed() || self.reads > 0 || !self.searches.is_empty()
    }

    pub(crate) fn changed(&self) -> bool {
        self.created || self.deleted || self.edits > 0
    }

    /// The definition around `line`, as far as the outline goes.
    fn around(&self, line: u32) -> Option<&str> {
        let inside = self.outline.iter().rev().find(|definition| definition.line <= line)?;
        Some(&inside.name)
    }

    fn mark(&mut self, hunk: &Hunk) {
        let markdown = [".md", ".mdx", ".markdown"].iter().any(|end| self.path.ends_with(end));
        let around = if markdown { hunk.heading.clone() } else { hunk.around.clone() };
        let around = around.or_else(|| self.around(hunk.line).map(str::to_owned));
        let mark = ChangedPlace { line: hunk.line, around };
        self.marks.retain(|known| known.around.is_none() || known.around != mark.around);
        // The lines below have moved.
        if hunk.line > 0 && hunk.growth != 0 {
            let moved =
                |line: u32| u32::try_from(i64::from(line) + i64::from(hunk.growth)).unwrap_or(1).max(1);
            for known in self.marks.iter_mut().filter(|known| known.line > hunk.line) {
                known.line = moved(known.line);
            }
            for known in self.outline.iter_mut().filter(|known| known.line > hunk.line) {
                known.line = moved(known.line);
            }
        }
        self.marks.push_back(mark);
        if self.marks.len() > MARKS {
            self.marks.pop_front();
        }
    }

    fn forget_details(&mut self) {
        self.ranges.clear();
        self.searches.clear();
        self.outline.clear();
    }
}

/// Files in the order of their last touch, the newest at the end.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Files {
    pub files: Vec<File>,
    pub dropped: u64,
    next: u32,
}

impl Files {
    /// The file at `path`, made if it is not known, moved to the end.
    fn at(&mut self, path: &str, act: u32, origin: &Origin) -> &mut File {
        let known = self.files.iter().rposition(|file| file.path == path);
        let mut file = if let Some(at) = known {
            self.files.remove(at)
        } else {
            self.next += 1;
            File::new(path, self.next, act, origin)
        };
        file.act = act;
        self.files.push(file);
        if self.files.len() > DETAILED {
            let at = self.files.len() - DETAILED - 1;
            self.files[at].forget_details();
        }
        if self.files.len() > KEPT {
            // A file that was only read is the cheapest to forget.
            let old = self.files.iter().position(|f| !f.changed()).unwrap_or(0);
            self.files.remove(old);
            self.dropped += 1;
        }
        self.files.last_mut().unwrap_or_else(|| unreachable!("it was pushed just now"))
    }

    /// Adds a file that is in play although nobody has read or changed it yet. Returns its id.
    pub(crate) fn place(&mut self, path: &str, act: u32, origin: &Origin) -> u32 {
        self.at(path, act, origin).id
    }

    /// The file that a line of an output names. A new one goes after all files that were touched, so that names have a
    /// place, and is the first to be forgotten.
    pub(crate) fn mentioned(&mut self, path: &str, act: u32) -> u32 {
        if let Some(id) = self.find(path) {
            return id;
        }
        self.next += 1;
        let touched = self.files.iter().position(File::is_touched).unwrap_or(self.files.len());
        let file = File::new(path, self.next, act, &Origin::default());
        self.files.insert(touched, file);
        if touched >= MENTIONED || self.files.len() > KEPT {
            self.files.remove(0);
        }
        self.next
    }

    /// Files in which a search found lines. If they are few, they are in play.
    pub(crate) fn searched_in(
        &mut self,
        output: &str,
        root: Option<&str>,
        pattern: &str,
        act: u32,
        origin: &Origin,
    ) {
        const FEW: usize = 12;
        let mut paths: Vec<&str> = Vec::new();
        for line in output.lines() {
            if let Some((path, _, _)) = found_line(line)
                && !paths.contains(&path)
            {
                paths.push(path);
                if paths.len() > FEW {
                    return;
                }
            }
        }
        for path in paths.into_iter().rev() {
            let id = self.place(&relative(path, root), act, origin);
            self.searched(id, pattern);
        }
    }

    /// A file was changed or read. Returns its id.
    pub(crate) fn touch(&mut self, touch: Touch, path: &str, act: u32, origin: &Origin) -> u32 {
        let file = self.at(path, act, origin);
        let changed = file.changed();
        match touch {
            Touch::Created => {
                // A write to a known file is an edit.
                if changed && !file.deleted {
                    file.edits += 1;
                } else {
                    file.created = true;
                }
                file.deleted = false;
            }
            Touch::Edited => {
                file.edits += 1;
                file.deleted = false;
            }
            Touch::Deleted => file.deleted = true,
            Touch::Read => file.reads += 1,
        }
        if touch != Touch::Read || !changed {
            file.origin = origin.clone();
        }
        file.id
    }

    fn get(&mut self, id: u32) -> Option<&mut File> {
        self.files.iter_mut().rev().find(|file| file.id == id)
    }

    /// Where the file was changed.
    pub(crate) fn marked(&mut self, id: u32, hunks: &[Hunk]) {
        let Some(file) = self.get(id) else { return };
        for hunk in hunks.iter().filter(|hunk| hunk.line > 0 || hunk.around.is_some()) {
            file.mark(hunk);
        }
    }

    /// Which lines were read.
    pub(crate) fn ranged(&mut self, id: u32, from: u32, to: u32) {
        let Some(file) = self.get(id) else { return };
        file.ranges.retain(|&(a, b)| !(a >= from && b <= to));
        file.ranges.push_back((from, to));
        if file.ranges.len() > RANGES {
            file.ranges.pop_front();
        }
    }

    /// Notes a search in a file that was named or gave a match.
    pub(crate) fn searched(&mut self, id: u32, pattern: &str) {
        let Some(file) = self.get(id) else { return };
        file.searches.retain(|known| known != pattern);
        file.searches.push_back(pattern.to_owned());
        if file.searches.len() > SEARCHES {
            file.searches.pop_front();
        }
    }

    /// A definition was shown.
    pub(crate) fn defined(&mut self, id: u32, line: u32, name: &str, text: &str) {
        let Some(file) = self.get(id) else { return };
        file.outline.retain(|known| known.line != line && known.name != name);
        if file.outline.len() >= OUTLINE {
            return;
        }
        let at = file.outline.partition_point(|known| known.line < line);
        let text: String = text.trim().chars().take(120).collect();
        file.outline.insert(at, Definition { line, name: name.to_owned(), text });
    }

    /// The id of the known file that `path` means: itself, or the one whose path ends with it.
    pub(crate) fn find(&self, path: &str) -> Option<u32> {
        let path = path.trim_start_matches("./");
        let ends = |file: &&File| {
            file.path.strip_suffix(path).is_some_and(|before| before.is_empty() || before.ends_with('/'))
        };
        self.files
            .iter()
            .rev()
            .find(|file| file.path == path)
            .or_else(|| {
                let mut ending = self.files.iter().rev().filter(ends);
                ending.next().filter(|_| path.len() > 3)
            })
            .map(|file| file.id)
    }

    /// Changed files, the most recently touched first.
    pub fn changed(&self) -> impl Iterator<Item = &File> {
        self.files.iter().rev().filter(|file| file.changed())
    }
}

/// `path:12:text` or `path:text`, as searches write it.
pub(super) fn found_line(line: &str) -> Option<(&str, u32, &str)> {
    let from = usize::from(line.as_bytes().get(1) == Some(&b':')) * 2;
    let end = from + line.get(from..)?.find([':', ' ', '\t']).filter(|at| *at < 300)?;
    let path = &line[..end];
    let rest = line[end..].strip_prefix(':')?;
    // `src/a.ts(12,5): error`, as compilers on Windows write it.
    let spot = path.strip_suffix(')').and_then(|path| path.rsplit_once('('));
    if let Some((path, spot)) = spot {
        let number = spot.split(',').next()?.parse().ok()?;
        return is_found(path).then_some((path, number, rest));
    }
    if !is_found(path) {
        return None;
    }
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 {
        return Some((path, 0, rest));
    }
    let number = rest[..digits].parse().ok()?;
    let rest = &rest[digits..];
    Some((path, number, rest.strip_prefix([':', '-']).unwrap_or(rest)))
}

/// Columns of a table and code are not paths.
fn is_found(path: &str) -> bool {
    let name = path.rsplit(['/', '\\']).next().unwrap_or(path);
    let odd = path.contains("//") || path.contains(['|', '=', '<', '>', '"', '(', '{', ',']);
    name.contains('.') && !odd && name.len() >= 3
}

/// The place that a compiler, a linter or a runner names on a separate line before it shows the text: `-->
/// src/a.rs:12:5`, `❯ src/a.test.ts:3:1`, `at src/a.ts:3:1`, `File "a.py", line 3, in f`.
pub(super) fn spot(line: &str) -> Option<(&str, u32)> {
    let line = line.trim_start();
    if let Some(rest) = line.strip_prefix("File \"") {
        let (path, rest) = rest.split_once("\", line ")?;
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        return Some((path, rest[..digits].parse().ok()?)).filter(|(path, _)| is_found(path));
    }
    let place = ["--> ", "\u{276f} ", "at ", "::: "].iter().find_map(|mark| line.strip_prefix(mark))?;
    let (path, line, _) = found_line(place)?;
    (line > 0).then_some((path, line))
}

/// `path` as people write it: below `root`, with slashes. A temporary file stays whole.
pub(super) fn relative<'p>(path: &'p str, root: Option<&str>) -> Cow<'p, str> {
    if is_windows(path) || root.is_some_and(is_windows) {
        let Some(root) = root.map(slashed) else { return Cow::Owned(slashed(path)) };
        let path = path.replace('\\', "/");
        let driven = with_drive(&path);
        let below = driven.as_deref().map(|path| (path, relative_on_windows(path, &root)));
        // Outside the folder a path stays as it was written.
        let found = below.filter(|(path, below)| below.len() < path.len()).map(|(_, below)| below);
        return Cow::Owned(found.unwrap_or_else(|| relative_on_windows(&path, &root)).to_owned());
    }
    let below = root.and_then(|root| path.strip_prefix(root)?.strip_prefix('/'));
    Cow::Borrowed(below.filter(|rest| !rest.is_empty()).unwrap_or(path).trim_start_matches("./"))
}

fn relative_on_windows<'p>(path: &'p str, root: &str) -> &'p str {
    let below = path.split_at_checked(root.len()).and_then(|(head, rest)| {
        // Drive letters come in both cases.
        let same = head == root || (is_windows(root) && head.eq_ignore_ascii_case(root));
        rest.strip_prefix('/').filter(|rest| same && !rest.is_empty())
    });
    below.unwrap_or(path).trim_start_matches("./")
}

/// `/c/app`, `/mnt/c/app` and `/cygdrive/c/app`, as Unix shells on Windows write it, with its drive.
fn with_drive(path: &str) -> Option<String> {
    let rest = ["/mnt/", "/cygdrive/", "/"].iter().find_map(|start| path.strip_prefix(start));
    let (drive, rest) = rest?.split_once('/')?;
    let is_drive = drive.len() == 1 && drive.as_bytes()[0].is_ascii_alphabetic();
    is_drive.then(|| format!("{}:/{rest}", drive.to_ascii_uppercase()))
}

pub(crate) fn slashed(path: &str) -> String {
    if is_windows(path) { path.replace('\\', "/") } else { path.to_owned() }
}

fn is_windows(path: &str) -> bool {
    let bytes = path.as_bytes();
    bytes.get(1) == Some(&b':') || (path.contains('\\') && !path.contains('/'))
}

/// A scratch file, which is not work. A tree of files below a temporary folder may be a clone that somebody works on.
pub(super) fn is_temporary(path: &str) -> bool {
    const FOLDERS: [&str; 4] = ["/tmp/", "/private/tmp/", "/var/folders/", "/var/tmp/"];
    let lower = path.replace('\\', "/").to_ascii_lowercase();
    let below = FOLDERS.iter().find_map(|folder| lower.strip_prefix(folder));
    let below = below.or_else(|| lower.split_once("/appdata/local/temp/").map(|(_, rest)| rest));
    lower.starts_with("/dev/")
        || lower.contains("/scratchpad/")
        || below.is_some_and(|rest| rest.split('/').count() <= 2 || rest.starts_with("claude"))
}

/// A long output that the client has moved to a separate file: reading that file shows the output.
pub(super) fn is_kept_output(path: &str) -> bool {
    path.contains("/.claude/projects/") && path.contains("/tool-results/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_written_below_their_root_whatever_their_slashes() {
        assert_eq!(relative("/home/dev/app/src/a.rs", Some("/home/dev/app")), "src/a.rs");
        assert_eq!(relative("/home/dev/apple/a.rs", Some("/home/dev/app")), "/home/dev/apple/a.rs");
        assert_eq!(relative(r"c:\Work\App\Models\A.cs", Some(r"C:\Work\App")), "Models/A.cs");
        assert_eq!(relative(r"C:\Other\A.cs", Some(r"C:\Work\App")), "C:/Other/A.cs");
        assert_eq!(relative("./x/y.go", None), "x/y.go");
        let root = Some(r"C:\Work\App");
        assert_eq!(relative("/c/Work/App/cmd/main.go", root), "cmd/main.go", "Git's shell");
        assert_eq!(relative("/mnt/c/Work/App/cmd/main.go", root), "cmd/main.go", "WSL");
        assert_eq!(relative(r".\internal/store\a.go", root), "internal/store/a.go", "both slashes");
        assert_eq!(relative("/c/Other/main.go", root), "/c/Other/main.go", "as it was written");
        assert_eq!(relative("/c/Work/App/cmd/main.go", Some("/home/dev")), "/c/Work/App/cmd/main.go");
    }

    #[test]
    fn scratch_files_are_not_work() {
        for temporary in ["/tmp/x.txt", r"C:\Users\me\AppData\Local\Temp\claude\a.ps1", "/private/tmp/y"] {
            assert!(is_temporary(temporary), "{temporary}");
        }
        for kept in ["/home/dev/tmp/x", "tmp/x", "/tmp/clone/src/lib.rs"] {
            assert!(!is_temporary(kept), "{kept}");
        }
    }

    #[test]
    fn an_edit_moves_the_lines_below_it() {
        let mut files = Files::default();
        let origin = Origin::default();
        let id = files.touch(Touch::Read, "a.rs", 1, &origin);
        files.defined(id, 10, "one", "fn one()");
        files.defined(id, 50, "two", "fn two()");
        files.touch(Touch::Edited, "a.rs", 2, &origin);
        files.marked(id, &[Hunk { line: 20, lines: 9, growth: 5, around: None, heading: None }]);
        let file = &files.files[0];
        assert_eq!(file.marks[0].around.as_deref(), Some("one"));
        assert_eq!(file.outline[1].line, 55);
    }
}
