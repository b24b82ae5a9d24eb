//! The actions on an agent, their keys, and the equivalent commands.

use crate::tui::model::is_over;
use crate::views::agent::AgentView;

/// An action on the selected agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AgentAction {
    Attach,
    Send,
    Approve,
    Deny,
    Rotate,
    Undo,
    Spawn,
    Retire,
    Cancel,
    Diff,
    Copy,
}

impl AgentAction {
    pub(crate) const ALL: [Self; 11] = [
        Self::Attach,
        Self::Send,
        Self::Approve,
        Self::Deny,
        Self::Rotate,
        Self::Undo,
        Self::Spawn,
        Self::Retire,
        Self::Cancel,
        Self::Diff,
        Self::Copy,
    ];

    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Attach => "Enter",
            Self::Send => "s",
            Self::Approve => "a",
            Self::Deny => "d",
            Self::Rotate => "r",
            Self::Undo => "u",
            Self::Spawn => "n",
            Self::Retire => "R",
            Self::Cancel => "c",
            Self::Diff => "v",
            Self::Copy => "y",
        }
    }

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Attach => "attach, or resume",
            Self::Send => "send (Ctrl+E: editor)",
            Self::Approve => "approve or answer",
            Self::Deny => "deny, with a reason",
            Self::Rotate => "fresh context now",
            Self::Undo => "undo the last rotation",
            Self::Spawn => "start an agent",
            Self::Retire => "stop it for good",
            Self::Cancel => "cancel a pending handoff",
            Self::Diff => "what its handoff would lack",
            Self::Copy => "copy its transcript's path",
        }
    }

    /// The equivalent command line; `agent` is the selected one.
    pub(crate) fn command(self, agent: Option<&AgentView>) -> String {
        let name = agent.map_or("NAME", |agent| agent.id.as_str());
        match self {
            Self::Attach => agent.map_or_else(|| "baton attach NAME".to_owned(), |a| shown(&attach(a))),
            Self::Send => format!("baton send {name} TEXT"),
            Self::Approve => "baton approve ID".to_owned(),
            Self::Deny => "baton deny ID REASON".to_owned(),
            Self::Rotate => format!("baton rotate {name}"),
            Self::Undo => format!("baton undo {name}"),
            Self::Spawn => "baton spawn NAME --prompt TEXT".to_owned(),
            Self::Retire => format!("baton retire {name}"),
            Self::Cancel => format!("baton handoff --cancel --of {name}"),
            Self::Diff => "baton handoffs draft --against last".to_owned(),
            Self::Copy => format!("baton agents --json # {name}"),
        }
    }
}

/// The command that opens the agent: its pane, or its conversation if it has ended.
pub(crate) fn attach(agent: &AgentView) -> Vec<String> {
    match &agent.session {
        Some(session) if is_over(agent) => words(&["sessions", "resume", session]),
        _ => words(&["attach", &agent.id]),
    }
}

/// The command as the screen runs it: the record of an answer says that it was given here.
pub(crate) fn by_the_screen(command: &[String]) -> Vec<String> {
    let mut command = command.to_vec();
    if command.first().is_some_and(|verb| ["approve", "deny", "answer"].contains(&verb.as_str())) {
        command.insert(1, "--door=screen".to_owned());
    }
    command
}

pub(crate) fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// A command line as a person would type it.
pub(crate) fn shown(words: &[String]) -> String {
    let quoted = |word: &String| {
        let plain = word.chars().all(|c| c.is_alphanumeric() || "-_./:@%+=,".contains(c)) && !word.is_empty();
        if plain { word.clone() } else { format!("'{}'", word.replace('\'', "'\\''")) }
    };
    let words: Vec<String> = words.iter().map(quoted).collect();
    format!("baton {}", words.join(" "))
}
