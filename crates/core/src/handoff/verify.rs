//! Checks an agent's own words against the ledger: marks files, commits, test results and figures that the transcript
//! does not show. Supported words stay as they are.

use crate::ledger::seen::{CheckedName, name};
use crate::ledger::{CommandOutcome, Commit, Ledger, shell::WorkKind};

/// Follows a claim that nothing in the transcript supports.
pub(crate) const UNPROVEN: &str = " [unproven]";

/// `narrative` with every unsupported claim marked.
pub fn mark(narrative: &str, ledger: &Ledger) -> String {
    let facts = Facts::of(ledger);
    let mut out = String::with_capacity(narrative.len() + 64);
    let mut fenced = false;
    for line in narrative.split_inclusive('\n') {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        let (body, end) = line.strip_suffix('\n').map_or((line, ""), |body| (body, "\n"));
        if fenced || body.trim_start().starts_with("```") || body.trim_start().starts_with("<!--") {
            out.push_str(body);
        } else {
            mark_line(body, &facts, &mut out);
        }
        out.push_str(end);
    }
    out
}

/// Claims of `narrative` that the ledger does not support, in order.
pub fn unproven(narrative: &str, ledger: &Ledger) -> Vec<String> {
    let marked = mark(narrative, ledger);
    let mut claims = Vec::new();
    for piece in
        marked.split(UNPROVEN).collect::<Vec<_>>().split_last().map(|(_, init)| init).unwrap_or_default()
    {
        let claim = piece.rsplit(char::is_whitespace).next().unwrap_or_default();
        claims.push(claim.trim_matches(['`', '(', ')', ',']).to_owned());
    }
    claims
}

struct Facts<'l> {
    ledger: &'l Ledger,
    /// Everything the ledger holds as text, in which a name may be found.
    text: String,
    /// The outcome of the last test run, if there was one.
    tests: Option<(CommandOutcome, bool)>,
}

impl<'l> Facts<'l> {
    fn of(ledger: &'l Ledger) -> Self {
        // The document itself is the ledger as text; it leaves nothing out.
        let text = super::render::render(ledger, None);
        let mut runs = ledger.commands.commands.iter().rev().filter(|c| c.kind == WorkKind::Test);
        let tests = runs.next().map(|command| (command.outcome, command.complains));
        Self { ledger, text, tests }
    }

    fn supports(&self, claim: &Claim<'_>) -> bool {
        match claim {
            Claim::File(path) => {
                let path = path.trim_start_matches("./");
                let known = |known: &str| {
                    known.strip_suffix(path).is_some_and(|before| before.is_empty() || before.ends_with('/'))
                };
                let base = path.rsplit('/').next().unwrap_or(path);
                let seen = |base| name(base).is_some_and(|name| self.ledger.seen.contains(name));
                self.ledger.files.files.iter().any(|file| known(&file.path))
                    || self.text.contains(path)
                    || seen(base)
            }
            Claim::Commit(hash) => {
                let made = |c: &Commit| c.hash.starts_with(hash) || hash.starts_with(c.hash.as_str());
                self.ledger.git.commits.iter().any(made) || self.ledger.seen.contains(CheckedName::Hash(hash))
            }
            Claim::Figure(number) => self.ledger.seen.contains(CheckedName::Figure(number)),
            Claim::TestsPass => self.tests == Some((CommandOutcome::Exit(0), false)),
        }
    }
}

enum Claim<'a> {
    File(&'a str),
    Commit(&'a str),
    Figure(&'a str),
    TestsPass,
}

fn mark_line(line: &str, facts: &Facts<'_>, out: &mut String) {
    let mut marks: Vec<usize> = Vec::new();
    for (at, word) in words(line) {
        let claim = if let Some(path) = file_name(word) {
            Claim::File(path)
        } else if commit_hash(word) {
            Claim::Commit(word)
        } else if let Some(number) = figure(word).filter(|n| is_telling(word, n)) {
            Claim::Figure(number)
        } else {
            continue;
        };
        if !facts.supports(&claim) {
            // After the closing backtick, so that the code span stays whole.
            let end = at + word.len();
            marks.push(end + usize::from(line[end..].starts_with('`')));
        }
    }
    if let Some(end) = tests_claimed(line)
        && !facts.supports(&Claim::TestsPass)
    {
        marks.push(end);
    }
    marks.sort_unstable();
    marks.dedup();
    let mut from = 0;
    for end in marks {
        out.push_str(&line[from..end]);
        out.push_str(UNPROVEN);
        from = end;
    }
    out.push_str(&line[from..]);
}

/// Words with their place, without the punctuation around them.
fn words(line: &str) -> impl Iterator<Item = (usize, &str)> {
    let parts = line.split(|c: char| {
        c.is_whitespace() || matches!(c, '`' | '"' | '\'' | '(' | ')' | '[' | ']' | '*' | '|')
    });
    parts.filter_map(move |part| {
        let word =
            part.trim_matches([',', ';', ':', '!', '?', '=', '<', '>', '{', '}']).trim_end_matches('.');
        (!word.is_empty()).then(|| (word.as_ptr() as usize - line.as_ptr() as usize, word))
    })
}

/// A name with an extension of letters, without a line number after it. Addresses and versions do not count.
fn file_name(word: &str) -> Option<&str> {
    if word.contains("://") || word.starts_with("www.") || word.starts_with('@') {
        return None;
    }
    let path = match word.split_once(':') {
        Some((path, line)) if line.starts_with(|c: char| c.is_ascii_digit()) => path,
        Some(_) => return None,
        None => word,
    };
    let name = path.rsplit('/').next()?;
    let (stem, extension) = name.rsplit_once('.')?;
    let known = KNOWN.contains(&extension);
    let letters = (1..=5).contains(&extension.len()) && extension.bytes().all(|b| b.is_ascii_alphanumeric());
    let plain = |s: &str| s.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '+' | '@'));
    let whole = path.split('/').all(plain) && (!stem.is_empty() || known);
    // A method call or a domain looks like a name with an extension; only known ones count without a folder.
    (whole
        && (known
            || (letters && path.contains('/') && extension.starts_with(|c: char| c.is_ascii_alphabetic()))))
    .then_some(path)
}

const KNOWN: [&str; 50] = [
    "rs", "go", "py", "js", "ts", "tsx", "jsx", "mjs", "cjs", "java", "kt", "c", "h", "cc", "cpp", "hpp",
    "cs", "rb", "php", "swift", "scala", "sh", "bash", "zsh", "fish", "sql", "md", "txt", "toml", "yaml",
    "yml", "json", "jsonl", "xml", "html", "css", "scss", "vue", "svelte", "lock", "mod", "sum", "proto",
    "ini", "cfg", "conf", "csv", "ex", "exs", "lua",
];

/// Seven or more hexadecimal digits with at least one of each sort: no number, no word.
fn commit_hash(word: &str) -> bool {
    (7..=40).contains(&word.len())
        && word.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
        && word.bytes().any(|b| b.is_ascii_digit())
        && word.bytes().any(|b| b.is_ascii_lowercase())
}

/// The digits of a figure: `42`, `1,234`, `99.5%`, `120ms`, `3x`. Dates, versions, list numbers and line references do
/// not count.
fn figure(word: &str) -> Option<&str> {
    let word = word.trim_start_matches(['~', '+', '-', '$', '#', '≈', '×']);
    let end = word.find(|c: char| !(c.is_ascii_digit() || matches!(c, ',' | '.'))).unwrap_or(word.len());
    let (digits, unit) = word.split_at(end);
    let number = digits.trim_end_matches(['.', ',']);
    let shaped = number.starts_with(|c: char| c.is_ascii_digit()) && number.matches('.').count() < 2;
    let unit =
        ["", "%", "ms", "s", "us", "µs", "ns", "x", "k", "K", "M", "MB", "KB", "GB", "MiB", "KiB", "m", "h"]
            .contains(&unit);
    (shaped && unit).then_some(number)
}

/// Whether a figure can be checked: a plain number below a hundred is often a step, a count or a version that no output
/// shows.
fn is_telling(word: &str, number: &str) -> bool {
    let plain = word.bytes().all(|b| b.is_ascii_digit());
    number.len() > 1 && (!plain || number.len() > 2)
}

/// Where a statement that tests pass ends, if the line makes one.
fn tests_claimed(line: &str) -> Option<usize> {
    const CLAIMS: [&str; 7] = [
        "tests pass",
        "tests are passing",
        "tests passing",
        "tests are green",
        "tests green",
        "test suite passes",
        "passing tests",
    ];
    const DENIALS: [&str; 6] = ["not ", "n't", "until", "make sure", "should", "must"];
    let lower = line.to_ascii_lowercase();
    if !lower.contains("test") {
        return None;
    }
    let claim = CLAIMS.iter().find_map(|claim| Some((lower.find(claim)?, claim)))?;
    let before = &lower[..claim.0];
    if DENIALS.iter().any(|word| before.contains(word))
        || before.ends_with("if ")
        || before.ends_with("once ")
    {
        return None;
    }
    let end = claim.0 + claim.1.len();
    // "passed", "passes": put the mark after the word.
    Some(end + line[end..].find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(line.len() - end))
}
