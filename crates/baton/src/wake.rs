//! An idle client that takes prompts from outside is given one, so that its hook hands over the mail at once. The
//! draft in its composer is not touched; a busy one needs no waking, its next hook delivers.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use baton_core::session::{Session, Turn};

use crate::providers;
use crate::sys::process;

/// Told apart from a person's words by its beginning.
pub const PROMPT: &str = "[baton message waiting] Read the message that has arrived with this prompt.";

/// Wakes the client of `session` if it is idle and can be woken; whether it was.
pub fn wake(session: &Session) -> bool {
    let provider = providers::of(&session.provider);
    let Some(queue) = provider.queue else { return false };
    if session.turn != Turn::Idle || session.ended.is_some() {
        return false;
    }
    let Some(home) = session.transcript.as_deref().and_then(home_of) else { return false };
    let lives = match &session.process {
        Some(client) => process::is_alive(client),
        None => home.join(queue.socket).exists(),
    };
    let Some((program, before)) = provider.locate().filter(|_| lives) else { return false };
    let queued = Command::new(program)
        .args(before)
        .args((queue.args)(session.id.as_str(), PROMPT))
        .env(queue.home_variable, home)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    queued.is_ok_and(|status| status.success())
}

/// The client's own folder, which its transcript lies in.
pub fn home_of(transcript: &str) -> Option<PathBuf> {
    Path::new(transcript).ancestors().find(|dir| dir.ends_with("sessions"))?.parent().map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prompt_is_not_a_persons_and_the_home_is_where_the_rollouts_are() {
        assert!(!crate::rotate::is_from_a_person(PROMPT));
        let home = home_of("/h/.codex/sessions/2026/11/16/rollout-x.jsonl").unwrap();
        assert_eq!(home, Path::new("/h/.codex"));
        assert_eq!(home_of("/h/.claude/projects/x.jsonl"), None);
    }
}
