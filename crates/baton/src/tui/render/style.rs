//! Colours and marks. Colour never carries meaning alone: a word or a mark says the same.

use baton_core::level::Level;
use ratatui_core::style::{Color, Modifier, Style};

use crate::tui::model::TerminalStyle;
use crate::views::agent::AgentView;

/// The role of a piece of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Dim,
    Bold,
    /// A person is needed.
    Need,
    Bad,
    Good,
    /// Between two contexts.
    Moving,
    Warn,
    /// A key, or something that can be pressed.
    Key,
}

impl TerminalStyle {
    /// Uses the terminal's own sixteen colours, so that light and dark themes both look as their owner wants.
    pub(crate) fn style(self, tone: Tone) -> Style {
        let plain = Style::new();
        let coloured = |colour: Color| if self.colour { plain.fg(colour) } else { plain };
        match tone {
            Tone::Plain => plain,
            Tone::Dim => plain.add_modifier(Modifier::DIM),
            // Not blue, which is unreadable on many dark terminals.
            Tone::Bold | Tone::Key => plain.add_modifier(Modifier::BOLD),
            Tone::Need => coloured(Color::Yellow).add_modifier(Modifier::BOLD),
            Tone::Bad => coloured(Color::Red).add_modifier(Modifier::BOLD),
            Tone::Good => coloured(Color::Green),
            Tone::Moving => coloured(Color::Cyan),
            Tone::Warn => coloured(Color::Yellow),
        }
    }

    pub(crate) fn pick(self, unicode: &'static str, ascii: &'static str) -> &'static str {
        if self.unicode { unicode } else { ascii }
    }

    /// The mark before an agent's name.
    pub(crate) fn mark(self, agent: &AgentView) -> &'static str {
        match (agent.needs.as_ref().map(|need| need.kind.as_str()), agent.state.as_str()) {
            (Some("permission" | "question" | "plan"), _) => "?",
            (Some("error"), _) => self.pick("✕", "x"),
            (Some(_), _) => "!",
            (None, "working") => self.pick("●", "*"),
            (None, "handing over") => self.pick("↻", "~"),
            (None, "done") => self.pick("✓", "v"),
            (None, "ended" | "retired") => self.pick("·", "."),
            (None, _) => self.pick("○", "o"),
        }
    }
}

/// The tone of an agent's state.
pub(crate) fn tone(agent: &AgentView) -> Tone {
    match (agent.needs.as_ref().map(|need| need.kind.as_str()), agent.state.as_str()) {
        (Some("error"), _) => Tone::Bad,
        (Some(_), _) => Tone::Need,
        (None, "working") => Tone::Good,
        (None, "handing over") => Tone::Moving,
        _ => Tone::Dim,
    }
}

pub(crate) fn level_tone(level: Level) -> Tone {
    match level {
        Level::Ok | Level::EarlyWarn => Tone::Plain,
        Level::Warn => Tone::Warn,
        Level::Critical => Tone::Bad,
    }
}
