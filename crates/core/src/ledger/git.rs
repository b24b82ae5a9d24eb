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
    pub stretch: u32,
    pub origin: Origin,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    pub text: String,
    pub stretch: u32,
    pub origin: Origin,
    /// A commit was made after it.
    pub outdated: bool,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Git {
    pub branch: Option<Seen>,
    /// Branches left behind, the newest last.
    pub earlier_branches: Vec<String>,
    pub commits: Capped<Commit>,
    pub status: Option<Seen>,
    pub links: Capped<Seen>,
}

impl Git {
    pub fn on_branch(&mut self, name: &str, stretch: u32, origin: impl FnOnce() -> Origin) {
        if name.is_empty() || name == "HEAD" {
            return;
        }
        match &mut self.branch {
            Some(seen) if seen.text == name => seen.stretch = stretch,
            branch => {
                let seen = Seen { text: name.to_owned(), stretch, origin: origin(), outdated: false };
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

    /// The output of a shell command in which `git` or `gh` occurs.
    pub fn output(&mut self, command: &str, output: &str, stretch: u32, origin: &Origin) {
        for line in output.lines() {
            if let Some((hash, subject)) = commit_line(line)
                && !self.commits.iter().any(|c| c.hash == hash)
            {
                let commit = Commit {
                    hash: hash.to_owned(),
                    subject: subject.to_owned(),
                    stretch,
                    origin: origin.clone(),
                };
                self.commits.push(commit, COMMITS);
                if let Some(status) = &mut self.status {
                    status.outdated = true;
                }
            }
        }
        if command.contains("git status") {
            let kept = text::clip_lines(output, STATUS_CHARS);
            if !kept.is_empty() {
                let seen = Seen { text: kept.to_owned(), stretch, origin: origin.clone(), outdated: false };
                self.status = Some(seen);
            }
        }
        if command.contains("gh ") || command.contains("git push") {
            self.find_links(output, stretch, origin);
        }
    }

    /// Addresses of pull requests and issues in `words`.
    pub fn find_links(&mut self, words: &str, stretch: u32, origin: &Origin) {
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
            let seen = Seen { text: url.to_owned(), stretch, origin: origin.clone(), outdated: false };
            self.links.push(seen, LINKS);
        }
    }
}

/// `[branch 1a2b3c4] subject`, also with `(root-commit)`.
fn commit_line(line: &str) -> Option<(&str, &str)> {
    let (inside, subject) = line.trim_start().strip_prefix('[')?.split_once(']')?;
    let (branch, hash) = inside.rsplit_once(' ')?;
    let hex = (7..=40).contains(&hash.len())
        && hash.bytes().all(|b| b.is_ascii_hexdigit() && !b.is_ascii_uppercase());
    (hex && !branch.is_empty()).then_some((hash, subject.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_is_what_git_says_after_committing() {
        assert_eq!(commit_line("[main 1a2b3c4] Fix it"), Some(("1a2b3c4", "Fix it")));
        assert_eq!(commit_line("[x/y (root-commit) 1a2b3c4d] a"), Some(("1a2b3c4d", "a")));
        for no in ["[lint:gofmt] $ x", "[test] ok", "[main ABCDEF1] x", "[main 12] x", "see [this 1a2b3c4] y"]
        {
            assert_eq!(commit_line(no), None, "{no}");
        }
    }
}
