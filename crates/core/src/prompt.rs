//! The prompts that baton itself submits, types or passes to a client at its start.

use crate::handoff::HandoffId;
use crate::marks::{CONTINUE, OPEN_WINDOW, READ};
pub use crate::marks::{MAIL_WAITING, NOTICE, UNPARK};

/// The first prompt of a fresh context. `file` is the agent's own handoff, if it wrote one that is still there.
pub fn continuation(handoff: &HandoffId, file: Option<&str>) -> String {
    match file {
        Some(path) => format!("{}{path}{}", READ.0, READ.1),
        None => format!("{}{handoff}{}", CONTINUE.0, CONTINUE.1),
    }
}

/// For an agent whose handoff is sealed and whose client lets it begin the fresh window itself, by this tool.
pub fn open_window(tool: &str) -> String {
    format!("{}{tool}{}", OPEN_WINDOW.0, OPEN_WINDOW.1)
}

/// The same with `mentions` of files, which the client then shows to the agent by itself. Words follow the last
/// mention: at the end of a line the client would offer to complete it, and Enter would accept that.
pub fn with_files(prompt: &str, mentions: &[String]) -> String {
    if mentions.is_empty() {
        return prompt.to_owned();
    }
    format!("{prompt}\n\nThe files in play are {} as they are now.", mentions.join(" "))
}
