//! `active-context.md`: where the work stands, read by every session that begins. Kept short: what it held before and
//! what does not fit moves to session documents.

use baton_core::ids::SessionId;
use jiff::Timestamp;

use super::Place;
use crate::sys::fs::{self, FileError, SHARED, Sync};

/// Characters that a session reads at its start, each time.
pub const MAX: usize = 6_000;
/// No file that a person keeps by hand is larger.
const MAX_FILE: u64 = 1 << 20;

const HEAD: &str = "<!-- baton: updated ";
const ENDED: &str = "<!-- baton: last session ended ";

/// What the file holds before anything was saved.
pub const FIRST: &str = "\
# Active context

Nothing has been saved yet. `/document-and-save` writes here what is being worked on, what comes next and what is in
the way; every session begins with it.
";

/// What the file said, without our stamps; `None` if it says nothing of its own.
pub fn words(text: &str) -> Option<String> {
    let own: Vec<&str> =
        text.lines().filter(|line| !line.starts_with(HEAD) && !line.starts_with(ENDED)).collect();
    let own = own.join("\n").trim().to_owned();
    (!own.is_empty() && own != FIRST.trim()).then_some(own)
}

pub fn read(place: &Place) -> Result<Option<String>, FileError> {
    let bytes = fs::read(&place.active_context(), MAX_FILE)?;
    Ok(bytes.map(|b| String::from_utf8_lossy(&b).into_owned()))
}

/// What was written, and what has to go elsewhere.
#[derive(Debug, Default)]
pub struct Written {
    pub before: Option<String>,
    pub overflow: Option<String>,
}

/// Puts `text` in the place of what was there. On disk when this returns.
pub fn write(place: &Place, text: &str, session: &SessionId, now: Timestamp) -> Result<Written, FileError> {
    // One that cannot be read (a person may have made anything of it) is set aside, not lost.
    let before = match read(place) {
        Ok(before) => before.as_deref().and_then(words),
        Err(e) => {
            fs::set_aside(&place.active_context(), &now.strftime("%Y%m%d-%H%M%S").to_string())
                .map_err(|_| e)?;
            None
        }
    };
    let (fits, overflow) = bounded(text.trim());
    let mut out = format!(
        "{HEAD}{} UTC by session {} -->\n{fits}\n",
        now.strftime("%Y-%m-%d %H:%M:%S"),
        session.short()
    );
    if overflow.is_some() {
        out.push_str("\n(More is in the newest session document.)\n");
    }
    fs::replace(&place.active_context(), out.as_bytes(), SHARED, Sync::Yes)?;
    let before = before.filter(|b| b != fits);
    Ok(Written { before, overflow: overflow.map(str::to_owned) })
}

/// As many whole lines as fit, and the rest.
fn bounded(text: &str) -> (&str, Option<&str>) {
    let Some((limit, _)) = text.char_indices().nth(MAX) else { return (text, None) };
    let end = text[..limit].rfind('\n').filter(|at| *at > MAX / 2).unwrap_or(limit);
    (text[..end].trim_end(), Some(text[end..].trim()))
}

/// Notes when and how the last session ended, in one line that is replaced each time.
pub fn stamp_end(
    place: &Place,
    session: &SessionId,
    reason: &str,
    backup: &str,
    now: Timestamp,
) -> Result<(), FileError> {
    let Some(text) = read(place)? else { return Ok(()) };
    let mut out: Vec<&str> = text.lines().filter(|line| !line.starts_with(ENDED)).collect();
    while out.last().is_some_and(|line| line.trim().is_empty()) {
        out.pop();
    }
    let line = format!(
        "{ENDED}{} UTC ({reason}), session {}, backup {backup} -->",
        now.strftime("%Y-%m-%d %H:%M:%S"),
        session.short()
    );
    let text = format!("{}\n\n{line}\n", out.join("\n"));
    fs::replace_as_it_was(&place.active_context(), text.as_bytes(), Sync::Later)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_cut_at_a_line_and_nothing_is_lost() {
        let text = "a line of words\n".repeat(1_000);
        let (fits, rest) = bounded(text.trim());
        assert!(fits.chars().count() <= MAX && fits.ends_with("words"), "{}", fits.len());
        assert_eq!(format!("{fits}\n{}", rest.unwrap()), text.trim());
        assert_eq!(bounded("short"), ("short", None));
        let one_more = "ä".repeat(MAX + 1);
        let (fits, rest) = bounded(&one_more);
        assert_eq!((fits.chars().count(), rest), (MAX, Some("ä")));
    }

    #[test]
    fn stamps_and_the_first_content_are_not_words() {
        assert_eq!(words(FIRST), None);
        assert_eq!(words(&format!("{HEAD}x -->\n{ENDED}y -->\n\n")), None);
        assert_eq!(words(&format!("{HEAD}x -->\nGoal: all\n\n{ENDED}y -->\n")).as_deref(), Some("Goal: all"));
    }
}
