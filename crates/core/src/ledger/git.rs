//! Git as the transcript shows it: branch, commits made, the working tree as last seen, pull requests and issues.

use serde::{Deserialize, Serialize};

use super::capped::Capped;
use super::text;
use crate::transcript::Origin;

const COMMITS: usize = 100;
const LINKS: usize = 30;
const STATUS_CHARS: usize = 1_500;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commit {
    pub hash: String,
    pub subject: String,
    pub origin: Origin,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GitOutput {
    pub text: String,
    pub origin: Origin,
    /// A commit was made after it.
    pub outdated: bool,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Git {
    pub branch: Option<GitOutput>,
    /// Branches that were left, newest last.
    pub earlier_branches: Vec<String>,
    pub commits: Capped<Commit>,
    pub status: Option<GitOutput>,
    pub links: Capped<GitOutput>,
}

impl Git {
    pub(crate) fn on_branch(&mut self, name: &str, origin: impl FnOnce() -> Origin) {
        if name.is_empty() || name == "HEAD" {
            return;
        }
        match &mut self.branch {
            Some(seen) if seen.text == name => {}
            branch => {
                let seen = GitOutput { text: name.to_owned(), origin: origin(), outdated: false };
                if let Some(left) = branch.replace(seen) {
                    self.earlier_branches.retain(|b| *b != left.text && b != name);
                    self.earlier_branches.push(left.text);
                    if self.earlier_branches.len() > 8 {
                        self.earlier_branches.remove(0);
                    }
                }
            }
        }
    }

    /// The output of a shell command in which `git` or `gh` occurs. Only `at_home`, in the folder of the task, it tells
    /// the task's branch.
    pub(crate) fn output(&mut self, command: &str, output: &str, at_home: bool, origin: &Origin) {
        for line in output.lines() {
            if let Some(branch) = branch_line(line).filter(|_| at_home) {
                self.on_branch(branch, || origin.clone());
            }
            if let Some((branch, hash, subject)) = commit_line(line)
                && !self.commits.iter().any(|c| c.hash == hash)
            {
                if at_home {
                    self.on_branch(branch, || origin.clone());
                }
                let commit =
                    Commit { hash: hash.to_owned(), subject: subject.to_owned(), origin: origin.clone() };
                self.commits.push(commit, COMMITS);
                if let Some(status) = &mut self.status {
                    status.outdated = true;
                }
            }
        }
        if command.contains("git status") {
            let kept = text::clip_lines(output, STATUS_CHARS);
            if !kept.is_empty() {
                let seen = GitOutput { text: kept.to_owned(), origin: origin.clone(), outdated: false };
                self.status = Some(seen);
            }
        }
        if command.contains("gh ") || command.contains("git push") {
            self.find_links(output, origin);
        }
    }

    /// Addresses of pull requests and issues in `words`.
    pub(crate) fn find_links(&mut self, words: &str, origin: &Origin) {
        if !words.contains("://") {
            return;
        }
        for word in
            words.split(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '<' | '>' | '(' | ')' | '`'))
        {
            let Some((scheme, path)) = word.split_once("://") else { continue };
            let numbered = ["/pull/", "/issues/", "/merge_requests/", "/issue/"].iter().any(|mark| {
                path.split_once(mark)
                    .is_some_and(|(_, rest)| rest.starts_with(|c: char| c.is_ascii_alphanumeric()))
            });
            if !scheme.starts_with("http") || !numbered || word.len() > 300 {
                continue;
            }
            let url = word.trim_end_matches(['.', ',', ';', ':', '!', '?', '*', ']', '|']);
            if let Some(at) = self.links.items.iter().position(|l| l.text == url) {
                self.links.items.remove(at);
            }
            let seen = GitOutput { text: url.to_owned(), origin: origin.clone(), outdated: false };
            self.links.push(seen, LINKS);
        }
    }
}

/// Whether an output may name a branch: a quick check before [`Git::output`] reads it line by line.
pub(super) fn tells_branch(output: &str) -> bool {
    output.starts_with('[') || ["branch", "\n[", "## ", "Already on"].iter().any(|mark| output.contains(mark))
}

/// `On branch x`, `Switched to branch 'x'`, `## x...origin/x`.
fn branch_line(line: &str) -> Option<&str> {
    const MARKS: [&str; 3] = ["Switched to a new branch '", "Switched to branch '", "Already on '"];
    if let Some(rest) = line.strip_prefix("On branch ") {
        return Some(rest.trim()).filter(|name| !name.is_empty() && !name.contains(' '));
    }
    if let Some(rest) = MARKS.iter().find_map(|mark| line.strip_prefix(mark)) {
        return rest.split_once('\'').map(|(name, _)| name);
    }
    // Without its upstream it looks like a heading.
    let (name, upstream) = line.strip_prefix("## ")?.split_once("...")?;
    let upstream = upstream.split(' ').next().unwrap_or_default();
    (!name.contains(' ') && upstream.contains('/')).then_some(name)
}

/// Branch, hash and subject of `[branch 1a2b3c4] subject`, also with `(root-commit)`.
fn commit_line(line: &str) -> Option<(&str, &str, &str)> {
    let (inside, subject) = line.trim_start().strip_prefix('[')?.split_once(']')?;
    let (branch, hash) = inside.rsplit_once(' ')?;
    let hex = (7..=40).contains(&hash.len())
        && hash.bytes().all(|b| b.is_ascii_hexdigit() && !b.is_ascii_uppercase());
    let branch = branch.trim_end_matches("(root-commit)").trim_end();
    let branch = if branch.starts_with("detached ") { "" } else { branch };
    (hex && !inside.starts_with(' ')).then_some((branch, hash, subject.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_says_on_which_branch_it_is() {
        for (line, branch) in [
            ("On branch topic/a", Some("topic/a")),
            ("Switched to a new branch 'topic/b'", Some("topic/b")),
            ("Switched to branch 'main'", Some("main")),
            ("## topic/c...origin/topic/c [ahead 1]", Some("topic/c")),
            ("## What it does", None),
            ("## Wait... what/why", None),
            ("On branch prediction and caches", None),
        ] {
            assert_eq!(branch_line(line), branch, "{line}");
        }
    }

    #[test]
    fn a_commit_is_what_git_says_after_committing() {
        assert_eq!(commit_line("[main 1a2b3c4] Fix it"), Some(("main", "1a2b3c4", "Fix it")));
        assert_eq!(commit_line("[x/y (root-commit) 1a2b3c4d] a"), Some(("x/y", "1a2b3c4d", "a")));
        assert_eq!(commit_line("[detached HEAD 1a2b3c4d] a"), Some(("", "1a2b3c4d", "a")));
        for no in ["[lint:gofmt] $ x", "[test] ok", "[main ABCDEF1] x", "[main 12] x", "see [this 1a2b3c4] y"]
        {
            assert_eq!(commit_line(no), None, "{no}");
        }
    }
}
