//! The tools whose scripts do the same as baton: what belongs to each, and how to recognise it.
//!
//! Names like `status.sh` are common, so a file counts only if its content matches too; and a script only if something
//! registers it: an entry in the client's settings, an alias, or the client's own folder of commands.

use baton_core::session::Duty;

/// A tool, as it installs itself.
#[derive(Debug)]
pub(crate) struct Tool {
    pub name: &'static str,
    pub parts: &'static [ToolPart],
    /// Its data that baton continues to use; never touched.
    pub data: &'static str,
}

/// One file of a tool.
#[derive(Debug)]
pub(crate) struct ToolPart {
    pub file: &'static str,
    pub kind: PartKind,
    /// The file contains at least one of these.
    pub marks: &'static [&'static str],
    /// The part of baton's work that it does.
    pub duty: Option<Duty>,
    /// What it does, in words: "… does this".
    pub does: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PartKind {
    /// Called by an entry in the settings: a hook or the status line.
    Called,
    /// Called in place of the client, by an alias in the shell's profile.
    Wrapper,
    /// A command of the client, registered by its place in `commands/`.
    Command,
    /// Used by the others; counts only beside one of them. The folder is below the client's own.
    Helper(&'static str),
}

const fn called(
    file: &'static str,
    duty: Option<Duty>,
    marks: &'static [&'static str],
    does: &'static str,
) -> ToolPart {
    ToolPart { file, kind: PartKind::Called, marks, duty, does }
}

const fn command(file: &'static str) -> ToolPart {
    const MARKS: &[&str] =
        &["active-context.md", ".pending-backup", "SESSION_BACKUP_PENDING", "session-YYYY"];
    let does = "a command that baton has under the same name";
    ToolPart { file, kind: PartKind::Command, marks: MARKS, duty: None, does }
}

const fn helper(file: &'static str, folder: &'static str, marks: &'static [&'static str]) -> ToolPart {
    ToolPart { file, kind: PartKind::Helper(folder), marks, duty: None, does: "is used by the others" }
}

/// All of session-manager's scripts identify their agent by this variable.
const MANAGER: &[&str] = &["CLAUDE_SESSION_MANAGER_ID"];

pub(crate) const TOOLS: &[Tool] = &[
    Tool {
        name: "claude-auto-handoff",
        parts: &[
            called(
                "context-monitor.sh",
                Some(Duty::Levels),
                &[".context-status"],
                "writes .context-status after each tool call",
            ),
            called(
                "session-start-from-handoff.sh",
                Some(Duty::Load),
                &["load_handoff", ".claude/handoff"],
                "loads handoffs, and deletes archived ones after a week",
            ),
            called(
                "pre-compact-handoff.sh",
                Some(Duty::Seal),
                &["create_handoff", ".claude/handoff", "handoff-manifest.sh"],
                "writes a handoff before a compaction",
            ),
            ToolPart {
                file: "claude-wrapper",
                kind: PartKind::Wrapper,
                marks: &[".restart-session", ".wrapper-pid"],
                duty: None,
                does: "starts the client again when it is full; `baton run` does that",
            },
            helper("get-channel.sh", "hooks/lib", &["get_channel"]),
            helper("handoff-manifest.sh", "hooks/lib", &["create_handoff", "manifest"]),
        ],
        data: "handoffs and manifests in ~/.claude/handoff",
    },
    Tool {
        name: "claude-memory",
        parts: &[
            called(
                "on-session-start.sh",
                Some(Duty::Backups),
                &["SESSION_BACKUP_PENDING"],
                "announces a backup that waits",
            ),
            called(
                "on-session-end.sh",
                Some(Duty::Backups),
                &[".pending-backup"],
                "copies the transcript when a session ends",
            ),
            called(
                "on-pre-compact.sh",
                Some(Duty::Backups),
                &[".pending-backup"],
                "copies the transcript before a compaction",
            ),
            command("document-and-save.md"),
            command("document-and-save-to.md"),
            command("resume-latest.md"),
            command("resume-from.md"),
            command("sessions-list.md"),
            command("discard-backup.md"),
            helper("discard-backup.sh", "scripts", &[".pending-backup"]),
        ],
        data: "session documents, contexts and backups in .claude/memory",
    },
    Tool {
        name: "session-manager",
        parts: &[
            called(
                "context_monitor.sh",
                Some(Duty::StatusLine),
                MANAGER,
                "reports how full the context is to its server, as the status line",
            ),
            called("precompact_notify.sh", None, MANAGER, "reports compactions to its server"),
            called(
                "post_compact_recovery.sh",
                Some(Duty::Load),
                MANAGER,
                "loads the last handoff after a compaction",
            ),
            called("session_clear_notify.sh", None, MANAGER, "reports /clear to its server"),
            called("notify_server.sh", None, MANAGER, "reports the ends of turns to its server"),
            called("log_tool_use.sh", None, MANAGER, "reports tool calls to its server"),
        ],
        data: "handoff documents, wherever its agents wrote them",
    },
    Tool {
        name: "Continuous-Claude",
        parts: &[
            called("session-start-continuity.mjs", Some(Duty::Load), CONTINUITY, LOADS_CONTINUITY),
            called("session-start-continuity.sh", Some(Duty::Load), CONTINUITY, LOADS_CONTINUITY),
            called("pre-compact-continuity.mjs", Some(Duty::Seal), CONTINUITY, SEALS_CONTINUITY),
            called("pre-compact-continuity.sh", Some(Duty::Seal), CONTINUITY, SEALS_CONTINUITY),
            called("status.py", Some(Duty::StatusLine), PERCENTAGE, SHOWS_CONTINUITY),
            called("status.sh", Some(Duty::StatusLine), PERCENTAGE, SHOWS_CONTINUITY),
        ],
        data: "handoffs and ledgers in thoughts/; its other hooks stay, too",
    },
];

const CONTINUITY: &[&str] = &["CONTINUITY_CLAUDE", "-continuity.mjs", "thoughts/ledgers", "thoughts/shared"];
const PERCENTAGE: &[&str] = &["claude-context-pct-"];
const LOADS_CONTINUITY: &str = "loads its ledger and its last handoff";
const SEALS_CONTINUITY: &str = "writes a handoff before a compaction";
const SHOWS_CONTINUITY: &str = "shows the status line";

impl ToolPart {
    /// Whether a file of this name has the right content.
    pub(crate) fn is_in(&self, text: &[u8]) -> bool {
        self.marks.iter().any(|mark| memchr::memmem::find(text, mark.as_bytes()).is_some())
    }
}

/// The parts with this file name.
pub(crate) fn named(file: &str) -> impl Iterator<Item = (&'static Tool, &'static ToolPart)> {
    all().filter(move |(_, part)| part.file == file)
}

pub(crate) fn all() -> impl Iterator<Item = (&'static Tool, &'static ToolPart)> {
    TOOLS.iter().flat_map(|tool| tool.parts.iter().map(move |part| (tool, part)))
}
