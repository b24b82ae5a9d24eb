//! Parses a script; the module docs of `agent` describe the format.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};

const DEFAULT: &str = include_str!("default.script");

/// How the agent reacts to a request for a handoff.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HandoffManner {
    /// Writes it to the given path and names that path.
    Obey,
    /// Passes the text on standard input.
    ObeyStdin,
    Ignore,
}

#[derive(Debug, Clone)]
pub(super) struct Script {
    pub model: String,
    pub window: u64,
    pub asked: HandoffManner,
    pub idle: Option<Duration>,
    pub alternate_screen: bool,
    /// How many Enters are lost.
    pub drops: u32,
    /// The stash key works.
    pub stash: bool,
    pub handoff: Option<String>,
    contexts: Vec<Vec<Turn>>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Turn {
    pub steps: Vec<ScriptStep>,
    /// The last record reaches the transcript only after the Stop hooks, as usual with the client.
    pub lag: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ScriptStep {
    Tokens(u64),
    Grow(u64),
    Say(String),
    Bash(String),
    Write { path: PathBuf, text: String },
    Wait(PathBuf),
    Task { until: PathBuf, name: String },
    Ask(String),
    Subagent(String),
    Note(String),
    Recall,
    Fail { error: String, text: String },
}

impl Script {
    /// The script named in the environment, else the built-in one.
    pub(super) fn from_env() -> anyhow::Result<(Self, Duration)> {
        let named = std::env::var_os("BATON_AGENT_SCRIPT").map(PathBuf::from);
        let script = match &named {
            Some(path) => {
                let text = std::fs::read_to_string(path)
                    .with_context(|| format!("could not read the script {}", path.display()))?;
                Self::parse(&text).with_context(|| format!("in the script {}", path.display()))?
            }
            None => Self::parse(DEFAULT).context("in the built-in script")?,
        };
        let usual = if named.is_some() { 0 } else { 350 };
        let pace = std::env::var("BATON_AGENT_PACE").ok().and_then(|p| p.parse().ok()).unwrap_or(usual);
        Ok((script, Duration::from_millis(pace)))
    }

    pub(super) fn parse(text: &str) -> anyhow::Result<Self> {
        let mut script = Self {
            model: "claude-opus-4-6".to_owned(),
            window: 200_000,
            asked: HandoffManner::Obey,
            idle: None,
            alternate_screen: false,
            drops: 0,
            stash: true,
            handoff: None,
            contexts: Vec::new(),
        };
        let mut lines = text.lines().enumerate();
        while let Some((n, line)) = lines.next() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (verb, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
            let mut rest = rest.trim().to_owned();
            if let Some((before, mark)) = rest.split_once("<<") {
                let (before, mark) = (before.to_owned(), mark.to_owned());
                let body: Vec<&str> =
                    lines.by_ref().map(|(_, l)| l).take_while(|l| l.trim() != mark).collect();
                rest = format!("{before}{}\n", body.join("\n"));
            }
            script.take(verb, &rest).with_context(|| format!("line {}: {line}", n + 1))?;
        }
        Ok(script)
    }

    fn take(&mut self, verb: &str, rest: &str) -> anyhow::Result<()> {
        match verb {
            "window" => self.window = amount(rest, 0)?,
            "model" => rest.clone_into(&mut self.model),
            "asked" => {
                self.asked = match rest {
                    "obey" => HandoffManner::Obey,
                    "obey-stdin" => HandoffManner::ObeyStdin,
                    "ignore" => HandoffManner::Ignore,
                    _ => bail!("obey, obey-stdin or ignore"),
                }
            }
            "idle" => self.idle = Some(Duration::from_millis(rest.parse()?)),
            "drops" => self.drops = rest.parse()?,
            "stash" => self.stash = rest != "off",
            "screen" => self.alternate_screen = rest == "alternate",
            "handoff" => self.handoff = Some(rest.to_owned()),
            "context" => self.contexts.push(Vec::new()),
            "turn" => {
                if self.contexts.is_empty() {
                    self.contexts.push(Vec::new());
                }
                let turn = Turn { lag: rest == "lag", ..Turn::default() };
                self.contexts.last_mut().context("there is one now")?.push(turn);
            }
            _ => {
                let step = self.step(verb, rest)?;
                let turn = self.contexts.last_mut().and_then(|turns| turns.last_mut());
                turn.context("a step belongs into a turn")?.steps.push(step);
            }
        }
        Ok(())
    }

    fn step(&self, verb: &str, rest: &str) -> anyhow::Result<ScriptStep> {
        let two = || rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        Ok(match verb {
            "tokens" => ScriptStep::Tokens(amount(rest, self.window)?),
            "grow" => ScriptStep::Grow(amount(rest, self.window)?),
            "say" => ScriptStep::Say(rest.to_owned()),
            "bash" => ScriptStep::Bash(rest.to_owned()),
            "write" => ScriptStep::Write { path: two().0.into(), text: two().1.to_owned() },
            "wait" => ScriptStep::Wait(rest.into()),
            "task" => ScriptStep::Task { until: two().0.into(), name: two().1.to_owned() },
            "ask" => ScriptStep::Ask(rest.to_owned()),
            "subagent" => ScriptStep::Subagent(rest.to_owned()),
            "note" => ScriptStep::Note(rest.to_owned()),
            "recall" => ScriptStep::Recall,
            "fail" => ScriptStep::Fail { error: two().0.to_owned(), text: two().1.to_owned() },
            _ => bail!("there is no verb {verb}"),
        })
    }

    /// The turns of the nth context (from 0). The last one repeats.
    pub(super) fn context(&self, n: usize) -> Vec<Turn> {
        self.contexts.get(n).or_else(|| self.contexts.last()).cloned().unwrap_or_default()
    }
}

/// `104000`, `104k` or `52%` of `whole`.
fn amount(text: &str, whole: u64) -> anyhow::Result<u64> {
    let number = |t: &str| t.trim().parse::<u64>().with_context(|| format!("{t:?} is not a number"));
    if let Some(percent) = text.strip_suffix('%') {
        return Ok(number(percent)? * whole / 100);
    }
    match text.strip_suffix('k') {
        Some(thousands) => Ok(number(thousands)? * 1_000),
        None => number(text),
    }
}

/// `path` as a tool resolves it.
pub(super) fn resolve(cwd: &Path, path: &Path) -> PathBuf {
    cwd.join(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_one_verb_a_line_with_contexts_and_turns() {
        let script = Script::parse(
            "window 100k\nasked ignore\nturn\n  tokens 52%\n  bash echo a b\n  write f.txt <<END\none\n  two\nEND\n\
             context\nturn lag\n  say hello there\n",
        )
        .unwrap();
        assert_eq!((script.window, script.asked), (100_000, HandoffManner::Ignore));
        let first = &script.context(0)[0];
        let write = ScriptStep::Write { path: "f.txt".into(), text: "one\n  two\n".into() };
        assert_eq!(first.steps, [ScriptStep::Tokens(52_000), ScriptStep::Bash("echo a b".into()), write]);
        let second = &script.context(1)[0];
        assert!(second.lag);
        assert_eq!(second.steps, [ScriptStep::Say("hello there".into())]);
        assert_eq!(script.context(9).len(), 1, "the last context repeats");
    }

    #[test]
    fn a_mistake_is_named_with_its_line() {
        let error = format!("{:#}", Script::parse("turn\n  dance wildly\n").unwrap_err());
        assert_eq!(error, "line 2: dance wildly: there is no verb dance");
        let error = format!("{:#}", Script::parse("say hello").unwrap_err());
        assert_eq!(error, "line 1: say hello: a step belongs into a turn");
    }

    #[test]
    fn the_built_in_script_is_sound() {
        assert!(Script::parse(DEFAULT).unwrap().contexts.len() >= 2);
    }
}
