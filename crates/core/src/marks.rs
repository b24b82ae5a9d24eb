//! The first words of every text that baton itself gives to an agent. All such texts take their beginning from here, so
//! that none is mistaken for a person's words.

/// The first line of a loaded handoff.
pub const HANDOFF: &str = "=== HANDOFF LOADED (ID: ";

/// The last line of a loaded handoff, and of the files in play.
pub(crate) const HANDOFF_END: &str = "=== END HANDOFF ===";

/// The first line of the files in play.
pub(crate) const FILES: &str = "=== FILES IN PLAY ===";

/// The first line of a message.
pub const MESSAGE: &str = "[baton message ";
/// The last line of a message.
pub(crate) const MESSAGE_END: &str = "[end of message]";

/// Begins everything that baton says in its own name.
pub const NOTICE: &str = "[baton] ";

/// Before and after the id of the handoff that the fresh context loaded.
pub(crate) const CONTINUE: (&str, &str) = ("Continue where the loaded handoff ", " left off.");
/// Before and after the path of the file that the agent wrote.
pub(crate) const READ: (&str, &str) = ("Read ", " and continue from where you left off.");

/// Sent to a parked agent when its usage limit has ended.
pub const UNPARK: &str = "The usage limit has ended. Continue.";

/// Wakes an idle client so that its hook delivers waiting mail.
pub const MAIL_WAITING: &str = "[baton message waiting] Read the message that has arrived with this prompt.";

/// Asks an idle agent to begin its fresh window itself; around the name of the tool.
pub(crate) const OPEN_WINDOW: (&str, &str) = (
    "[baton] Your handoff is sealed. Call the `",
    "` tool now: you continue in a fresh context that begins with it.",
);

/// The first line of the frame that `text` begins with.
pub(crate) fn handoff_head(text: &str) -> Option<&str> {
    let text = text.trim_start();
    text.starts_with(HANDOFF).then(|| text.lines().next().unwrap_or_default())
}
