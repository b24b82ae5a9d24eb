//! Rules that answer for the user: `allow` and `deny` of `[approvals]`, in the client's own pattern syntax.
//!
//! A rule that does not clearly apply does not apply, so a person is asked. Deny wins over allow, and a wide allowance
//! does not decide either if a denial might apply.

use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use crate::approval::{PATCH, PLAN, QUESTION};
use crate::ids::AgentId;

/// Characters that make a command more than one simple command. Control characters are treated like a newline.
const COMPOUND: [char; 9] = [';', '&', '|', '$', '(', ')', '<', '>', '`'];

/// `Tool` or `Tool(pattern)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    text: String,
    tool: String,
    pattern: Pattern,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Pattern {
    Anything,
    /// Exactly this command.
    Command(String),
    /// One simple command that begins with these words.
    Prefix(String),
    /// One simple command of this form; `*` matches anything.
    Form(String),
    /// A file, by segments; `**` matches any number of them.
    Path(Anchor, Vec<String>),
    /// The host of a URL.
    Domain(String),
}

/// Where a path pattern starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Anchor {
    Root,
    Home,
    /// The agent's working folder.
    Folder,
}

impl Anchor {
    fn base<'a>(self, folder: &'a str, home: &'a str) -> &'a str {
        match self {
            Self::Root => "/",
            Self::Home => home,
            Self::Folder => folder,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadRule {
    #[error("{0:?} is no rule; write a tool's name, or Tool(pattern) like \"Bash(cargo test:*)\"")]
    Form(String),
    #[error("{0:?}: no rule answers a question or accepts a plan")]
    Question(String),
    #[error(
        "{0:?}: write //path for an absolute path, ~/path for one in your home, path for one in the project"
    )]
    Path(String),
    #[error("{0:?}: {1} takes no pattern")]
    NoPattern(String, String),
    #[error("{0:?}: a pattern for WebFetch is domain:HOST")]
    Domain(String),
}

impl FromStr for Rule {
    type Err = BadRule;

    fn from_str(text: &str) -> Result<Self, BadRule> {
        let form = || BadRule::Form(text.to_owned());
        let (tool, inner) = match text.split_once('(') {
            Some((tool, rest)) => (tool, Some(rest.strip_suffix(')').ok_or_else(form)?)),
            None => (text, None),
        };
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '*');
        if tool.is_empty() || !tool.chars().all(is_name) || tool.starts_with('*') {
            return Err(form());
        }
        if [QUESTION, PLAN].contains(&tool) {
            return Err(BadRule::Question(text.to_owned()));
        }
        let pattern = match inner {
            None => Pattern::Anything,
            Some("") => return Err(form()),
            Some(inner) if is_shell(tool) => command(inner),
            Some(inner) if family(tool).is_some() => {
                path(inner).ok_or_else(|| BadRule::Path(text.to_owned()))?
            }
            Some(inner) if tool == "WebFetch" => match inner.strip_prefix("domain:") {
                Some(host) if !host.is_empty() => Pattern::Domain(host.to_ascii_lowercase()),
                _ => return Err(BadRule::Domain(text.to_owned())),
            },
            Some(_) => return Err(BadRule::NoPattern(text.to_owned(), tool.to_owned())),
        };
        Ok(Self { text: text.to_owned(), tool: tool.to_owned(), pattern })
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn command(inner: &str) -> Pattern {
    let prefix = inner.strip_suffix(":*").or_else(|| inner.strip_suffix(" *"));
    match prefix {
        Some(prefix) if !prefix.trim().is_empty() && !prefix.contains('*') => {
            Pattern::Prefix(prefix.trim().to_owned())
        }
        _ if inner == "*" || inner == ":*" => Pattern::Anything,
        _ if inner.contains('*') => Pattern::Form(inner.replace(":*", "*")),
        _ => Pattern::Command(inner.to_owned()),
    }
}

fn path(inner: &str) -> Option<Pattern> {
    let (anchor, rest) = if let Some(rest) = inner.strip_prefix("//") {
        (Anchor::Root, rest)
    } else if let Some(rest) = inner.strip_prefix("~/") {
        (Anchor::Home, rest)
    } else if inner.starts_with('/') {
        return None;
    } else {
        (Anchor::Folder, inner.strip_prefix("./").unwrap_or(inner))
    };
    let segments: Vec<String> = rest.split('/').map(str::to_owned).collect();
    let is_plain = segments.iter().all(|s| !s.is_empty() && s != ".." && s != ".");
    is_plain.then_some(Pattern::Path(anchor, segments))
}

fn is_shell(tool: &str) -> bool {
    tool == "Bash"
}

/// The rule name that covers a file tool: `Edit` for all that write, `Read` for all that read.
fn family(tool: &str) -> Option<&'static str> {
    match tool {
        "Edit" | "Write" | "MultiEdit" | "NotebookEdit" | PATCH => Some("Edit"),
        "Read" | "Grep" | "Glob" | "LS" => Some("Read"),
        _ => None,
    }
}

/// Whether a tool looks through a folder and all below it.
fn looks_through(tool: &str) -> bool {
    matches!(tool, "Grep" | "Glob" | "LS")
}

/// The files named in a tool's input.
pub fn files_of<'a>(tool: &str, input: &'a Value) -> Vec<&'a str> {
    let text = |name: &str| input.get(name).and_then(Value::as_str);
    if tool == PATCH {
        return text("command").unwrap_or_default().lines().filter_map(patched_file).collect();
    }
    // We cannot know which of them the client uses, so check all.
    let named = ["file_path", "notebook_path", "path"].into_iter().filter_map(text);
    // Whether a pattern leaves the folder it starts in.
    let leaves = |pattern: &&str| pattern.starts_with(['/', '~']) || pattern.contains("..");
    named.chain(text("pattern").filter(|_| tool == "Glob").filter(leaves)).collect()
}

/// Whether every client reads this name as the same file: some expand `~` and trim spaces.
pub fn is_clear(file: &str) -> bool {
    !file.starts_with('~') && file.trim() == file && !file.contains(char::is_control)
}

/// The file that a line of a patch changes.
fn patched_file(line: &str) -> Option<&str> {
    let rest = line.trim().strip_prefix("*** ")?;
    let (verb, file) = rest.split_once(": ")?;
    ["Add File", "Update File", "Delete File", "Move to"].contains(&verb).then_some(file.trim())
}

/// A tool call to check against the rules.
#[derive(Debug, Clone, Copy)]
pub struct ToolCall<'a> {
    pub tool: &'a str,
    pub input: &'a Value,
    pub home: &'a str,
    /// Each file with the working folder, both absolute: once as named and once with links resolved. An allow must
    /// match every pair, a deny only one.
    pub files: &'a [(String, String)],
    pub agent: &'a AgentId,
    /// Parent, grandparent and so on.
    pub ancestors: &'a [AgentId],
}

impl Rule {
    fn names(&self, tool: &str) -> bool {
        let is_wild = |name: &str| tool.starts_with(name);
        self.tool == tool
            || self.tool.strip_suffix('*').is_some_and(is_wild)
            || family(tool).is_some_and(|family| family == self.tool)
            // A rule for an MCP server covers all its tools.
            || self.tool.starts_with("mcp__") && tool.strip_prefix(&*self.tool).is_some_and(|r| r.starts_with("__"))
    }

    fn allows(&self, asked: &ToolCall<'_>) -> bool {
        self.names(asked.tool)
            && match &self.pattern {
                Pattern::Path(anchor, segments) => {
                    !asked.files.is_empty()
                        && asked
                            .files
                            .iter()
                            .all(|(file, folder)| is_below(*anchor, segments, file, folder, asked.home))
                }
                _ => self.matches(asked),
            }
    }

    fn denies(&self, asked: &ToolCall<'_>) -> bool {
        self.names(asked.tool)
            && match &self.pattern {
                Pattern::Path(anchor, segments) => asked
                    .files
                    .iter()
                    .any(|(file, folder)| is_below(*anchor, segments, file, folder, asked.home)),
                _ => self.matches(asked),
            }
    }

    /// Whether the rule may apply to this call, which may express the same action in other words.
    fn may_deny(&self, asked: &ToolCall<'_>) -> bool {
        let text = |name: &str| asked.input.get(name).and_then(Value::as_str);
        self.names(asked.tool)
            && match &self.pattern {
                Pattern::Anything => true,
                Pattern::Command(words) | Pattern::Prefix(words) | Pattern::Form(words) => {
                    text("command").is_none_or(|command| may_run(command, words))
                }
                Pattern::Path(anchor, pattern) => {
                    asked.files.is_empty()
                        || asked.files.iter().any(|(file, folder)| {
                            let (file, base) = (segments(file), segments(anchor.base(folder, asked.home)));
                            let (Some(file), Some(base)) = (file, base) else { return true };
                            looks_through(asked.tool) && may_contain(&file, &base, pattern)
                        })
                }
                Pattern::Domain(denied) => text("url")
                    .and_then(host_of)
                    .is_none_or(|host| host.trim_end_matches('.').eq_ignore_ascii_case(denied)),
            }
    }

    fn matches(&self, asked: &ToolCall<'_>) -> bool {
        let text = |name: &str| asked.input.get(name).and_then(Value::as_str);
        match &self.pattern {
            Pattern::Anything => true,
            Pattern::Command(exact) => text("command") == Some(exact),
            Pattern::Prefix(prefix) => text("command").is_some_and(|command| {
                is_simple(command)
                    && command
                        .strip_prefix(&**prefix)
                        .is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
            }),
            Pattern::Form(form) => {
                text("command").is_some_and(|command| is_simple(command) && matches_wild(form, command))
            }
            Pattern::Domain(host) => {
                text("url").and_then(host_of).is_some_and(|h| h.eq_ignore_ascii_case(host))
            }
            Pattern::Path(..) => false,
        }
    }
}

/// Whether a shell would see one command: nothing chained, substituted or redirected.
fn is_simple(command: &str) -> bool {
    !command.chars().any(|c| COMPOUND.contains(&c) || c.is_control())
}

/// Whether a shell might run a command of these words: they occur in this order, or the command is not known before it
/// runs.
fn may_run(command: &str, words: &str) -> bool {
    if !is_simple(command) {
        return true;
    }
    let program = command.split_whitespace().next().unwrap_or_default();
    if program.contains(['*', '?', '[', '{']) {
        return true;
    }
    let unquoted: String = command.chars().filter(|c| !matches!(c, '\'' | '"' | '\\')).collect();
    let is_end = |c: char| c.is_whitespace() || matches!(c, '/' | '=' | ',' | '{' | '}');
    let expanded =
        |token| widened(token).map(|form| form.split(is_end).map(str::to_owned).collect::<Vec<_>>());
    let mut found = unquoted.split_whitespace().flat_map(|token| {
        let parts = token.split(is_end).map(str::to_owned);
        parts.chain(expanded(token).unwrap_or_default())
    });
    words.split(|c: char| c == '*' || is_end(c)).filter(|word| !word.is_empty()).all(|word| {
        let word = word.to_ascii_lowercase();
        // A wildcard alone stands for files, not for a word of a command.
        found.any(|other| other != "*" && matches_wild(&other.to_ascii_lowercase(), &word))
    })
}

/// A pattern for what a shell may expand `word` to: `pu{sh,ll}` becomes `pu*`. `None` if the shell leaves it as it is.
fn widened(word: &str) -> Option<String> {
    if !word.contains(['*', '?', '[', '{']) {
        return None;
    }
    let (mut form, mut depth) = (String::new(), 0u32);
    for c in word.chars() {
        match c {
            '{' | '[' => {
                depth += 1;
                form.push('*');
            }
            '}' | ']' => depth = depth.saturating_sub(1),
            _ if depth > 0 => {}
            '?' => form.push('*'),
            c => form.push(c),
        }
    }
    while form.contains("**") {
        form = form.replace("**", "*");
    }
    Some(form)
}

/// `*` matches anything, including nothing.
fn matches_wild(form: &str, text: &str) -> bool {
    let mut pieces = form.split('*');
    let Some(mut rest) = text.strip_prefix(pieces.next().unwrap_or_default()) else { return false };
    let mut pieces: Vec<&str> = pieces.collect();
    let Some(last) = pieces.pop() else { return rest.is_empty() };
    for piece in pieces {
        match rest.find(piece) {
            Some(at) => rest = &rest[at + piece.len()..],
            None => return false,
        }
    }
    rest.len() >= last.len() && rest.ends_with(last)
}

/// The host of a URL; `None` if two parsers could disagree about it.
fn host_of(url: &str) -> Option<&str> {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"))?;
    let host = rest.split(['/', '?', '#', ':']).next()?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
    let authority = rest.split(['/', '?', '#']).next()?;
    (!host.is_empty() && host.chars().all(is_plain) && !authority.contains(['@', '\\'])).then_some(host)
}

/// Whether `file` matches the pattern. An ambiguous path never matches.
fn is_below(anchor: Anchor, pattern: &[String], file: &str, folder: &str, home: &str) -> bool {
    let (Some(file), Some(base)) = (segments(file), segments(anchor.base(folder, home))) else {
        return false;
    };
    let Some(rest) = file.strip_prefix(&*base) else { return false };
    let pattern: Vec<&str> = pattern.iter().map(String::as_str).collect();
    matches_segments(&pattern, rest)
}

/// Whether a file that matches `pattern` below `base` may be in `folder` or below it.
fn may_contain(folder: &[&str], base: &[&str], pattern: &[String]) -> bool {
    let is_same = |(wanted, segment): (&str, &&str)| matches_wild(wanted, segment);
    let literal = base.iter().copied();
    let pattern: Vec<&str> = pattern.iter().map(String::as_str).collect();
    let until = pattern.iter().position(|segment| *segment == "**");
    let known = &pattern[..until.unwrap_or(pattern.len())];
    let length = base.len() + known.len();
    (until.is_some() || folder.len() <= length)
        && literal.chain(known.iter().copied()).zip(folder).all(is_same)
}

fn segments(path: &str) -> Option<Vec<&str>> {
    let rest = path.strip_prefix('/')?;
    let segments: Vec<&str> = rest.split('/').filter(|s| !s.is_empty() && *s != ".").collect();
    (!segments.contains(&"..")).then_some(segments)
}

fn matches_segments(pattern: &[&str], path: &[&str]) -> bool {
    match (pattern, path) {
        ([], []) => true,
        (["**"], path) => !path.is_empty(),
        (["**", rest @ ..], path) => (0..=path.len()).any(|skip| matches_segments(rest, &path[skip..])),
        ([first, pattern @ ..], [segment, path @ ..]) => {
            matches_wild(first, segment) && matches_segments(pattern, path)
        }
        _ => false,
    }
}

/// Whether a client in permission mode `mode` asks its user less than in mode `than`. Unknown modes are treated as the
/// widest.
pub fn is_wider(mode: Option<&str>, than: Option<&str>) -> bool {
    let width = |mode: Option<&str>| match mode {
        Some("plan") => 0,
        None | Some("default") => 1,
        Some("acceptEdits") => 2,
        Some("auto" | "dontAsk") => 3,
        Some(_) => 4,
    };
    width(mode) > width(than)
}

/// The agents that a rule applies to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuleScope {
    Everybody,
    Agent(AgentId),
    /// An agent and all its descendants.
    Tree(AgentId),
}

impl RuleScope {
    fn includes(&self, asked: &ToolCall<'_>) -> bool {
        match self {
            Self::Everybody => true,
            Self::Agent(agent) => agent == asked.agent,
            Self::Tree(root) => root == asked.agent || asked.ancestors.contains(root),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    Allow,
    Deny,
}

/// All the user's rules, in file order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rules(pub Vec<(RuleScope, Decision, Rule)>);

impl Rules {
    /// Whether some rule is about the agent of this name, or about its tree.
    pub fn speak_of(&self, name: &AgentId) -> bool {
        self.0.iter().any(|(whose, ..)| match whose {
            RuleScope::Everybody => false,
            RuleScope::Agent(agent) | RuleScope::Tree(agent) => agent == name,
        })
    }

    /// The rules' decision about a request, and the rule that decided. `None`: ask.
    pub fn decide(&self, asked: &ToolCall<'_>) -> Option<(Decision, &Rule)> {
        // A rule that only names a tool must not answer questions or approve plans.
        if [QUESTION, PLAN].contains(&asked.tool) {
            return None;
        }
        let of = |decision: Decision| {
            self.0
                .iter()
                .filter(move |(whose, d, _)| *d == decision && whose.includes(asked))
                .map(|(.., rule)| rule)
        };
        if let Some(rule) = of(Decision::Deny).find(|rule| rule.denies(asked)) {
            return Some((Decision::Deny, rule));
        }
        let is_doubtful = of(Decision::Deny).any(|rule| rule.may_deny(asked));
        // Only a literal allowance applies, whatever a denial says about parts of the command.
        let is_meant = |rule: &&Rule| !is_doubtful || matches!(rule.pattern, Pattern::Command(_));
        let mut allowed = of(Decision::Allow).filter(|rule| rule.allows(asked));
        allowed.find(is_meant).map(|rule| (Decision::Allow, rule))
    }
}
