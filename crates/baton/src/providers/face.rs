//! How each provider's client looks and behaves in a terminal, for typing into it. Recorded from the real clients; see
//! `docs/panes.md`.

use baton_core::pane::Manners;
use baton_core::pane::screen::Face;

/// One row: a client's screen and keys.
#[derive(Debug)]
pub(crate) struct Typing {
    pub provider: &'static str,
    pub face: Face,
    pub manners: Manners,
    /// Arguments that a client in a pane needs.
    pub spawn_args: &'static [&'static str],
    /// The key that puts a draft aside.
    pub stash: &'static str,
    /// The command that begins a fresh context.
    pub clear: &'static str,
    /// The key that ends a turn.
    pub interrupt: &'static str,
    /// The text that marks the transcript's record of an interrupted turn.
    pub interrupted: &'static str,
    /// Texts that mark records of the conversation itself; others are the client's notes.
    pub speaks: &'static [&'static str],
    /// Texts that mark notes among these, such as a command that the client itself carried out.
    pub notes: &'static [&'static str],
    /// Texts that mark records of tools, after which the turn continues.
    pub tools: &'static [&'static str],
    /// Texts that mark records of prompts.
    pub prompts: &'static [&'static str],
}

const CLAUDE: Typing = Typing {
    provider: "claude",
    face: Face { prompt: "❯\u{a0}", ruled: true, dialogs: &[], refusal: None },
    manners: Manners { can_stash: true, lazy_start: false },
    spawn_args: &[],
    stash: "C-s",
    clear: "/clear",
    interrupt: "Escape",
    interrupted: "[Request interrupted by user",
    speaks: &["\"type\":\"user\"", "\"type\":\"assistant\""],
    notes: &["<command-name>", "<local-command-"],
    tools: &["\"tool_use\"", "\"tool_result\""],
    prompts: &["\"type\":\"user\"", "\"type\":\"queue-operation\""],
};

const ROWS: &[Typing] = &[
    CLAUDE,
    Typing {
        provider: "codex",
        face: Face {
            prompt: "› ",
            ruled: false,
            dialogs: &["Would you like to ", "Hooks need review", "Where should the new conversation run?"],
            refusal: Some("'/clear' is disabled while a task is in progress"),
        },
        manners: Manners { can_stash: false, lazy_start: true },
        // On its daemon the hooks would run in another process, with another environment.
        spawn_args: &["--no-daemon"],
        stash: "",
        clear: "/clear",
        interrupt: "Escape",
        interrupted: "turn_aborted",
        speaks: &["turn_aborted", "\"task_started\"", "\"task_complete\"", "\"response_item\""],
        notes: &[],
        tools: &["\"task_started\"", "\"response_item\""],
        prompts: &["\"user_message\""],
    },
    Typing {
        provider: "demo",
        face: Face {
            prompt: "❯\u{a0}", ruled: false, dialogs: &["Do you want to proceed?"], refusal: None
        },
        // It writes transcripts and takes keys as Claude Code does.
        ..CLAUDE
    },
];

/// The row of a provider, if text can be typed to it.
pub(crate) fn of(provider: &str) -> Option<&'static Typing> {
    ROWS.iter().find(|row| row.provider == provider)
}
