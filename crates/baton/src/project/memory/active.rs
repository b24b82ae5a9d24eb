//! `active-context.md`: the state of the work, read by every session that begins. It is kept short: earlier text and
//! text that does not fit moves to session documents.

use baton_core::ids::SessionId;
use jiff::Timestamp;

use crate::project::memory::MemoryDir;
use crate::sys::fs::{self, FileError, SHARED, Sync};

/// Its length in characters is limited, because each session reads it at its start.
pub(crate) const MAX: usize = 6_000;
/// Files that people keep by hand are smaller.
const MAX_FILE: u64 = 1 << 20;

/// The stamps are text, because the client strips HTML comments from imports, and the agent should see how old its
/// context is.
const UPDATED: &str = "_Updated ";
const ENDED: &str = "_The last session ended ";
/// The stamps of earlier versions.
const COMMENTS: [&str; 2] = ["<!-- baton: updated ", "<!-- baton: last session ended "];
const STAMP: &str = "%Y-%m-%d %H:%M:%S";
const STAMP_LEN: usize = "2026-11-16 04:00:00".len();
/// Separates the end of a session from the name of its backup.
const BACKUP: &str = ", backup ";

/// The content before anything was saved.
pub(crate) const FIRST: &str = "\
# Active context

Nothing has been saved yet. `/document-and-save` writes here what is being worked on, what comes next and what is in
the way; every session begins with it.
";

/// The time in a line that begins with `start`; `None` for someone else's line.
fn stamp_of(line: &str, start: &str) -> Option<Timestamp> {
    let stamp = line.strip_prefix(start)?.get(..STAMP_LEN)?;
    let at = jiff::civil::DateTime::strptime(STAMP, stamp).ok()?;
    at.to_zoned(jiff::tz::TimeZone::UTC).ok().map(|z| z.timestamp())
}

fn is_end(line: &str) -> bool {
    line.starts_with(COMMENTS[1]) || stamp_of(line, ENDED).is_some()
}

fn is_stamp(line: &str) -> bool {
    line.starts_with(COMMENTS[0]) || stamp_of(line, UPDATED).is_some() || is_end(line)
}

/// When its words last changed: the time in its stamp, or later, if somebody edited it by hand. `None` if it has only
/// stamps.
pub(crate) fn changed(place: &MemoryDir) -> Result<Option<Timestamp>, FileError> {
    let Some(text) = read(place)?.filter(|text| words(text).is_some()) else { return Ok(None) };
    let stamped =
        text.lines().find_map(|line| stamp_of(line, UPDATED).or_else(|| stamp_of(line, COMMENTS[0])));
    let path = place.active_context();
    let modified = std::fs::metadata(&path).and_then(|meta| meta.modified());
    let modified = modified.map_err(|e| FileError::new("look at", &path, e))?;
    Ok(stamped.max(Timestamp::try_from(modified).ok()))
}

/// Writes `text` without changing the modification time, because our lines about sessions are not the file's own words.
fn restamp(place: &MemoryDir, text: &str) -> Result<(), FileError> {
    let path = place.active_context();
    let modified = std::fs::metadata(&path).and_then(|meta| meta.modified());
    fs::replace_as_it_was(&path, text.as_bytes(), Sync::Later)?;
    if let Ok(modified) = modified {
        let set = std::fs::File::open(&path).and_then(|file| file.set_modified(modified));
        set.map_err(|e| FileError::new("set the time of", &path, e))?;
    }
    Ok(())
}

fn without_stamps(text: &str) -> String {
    let own: Vec<&str> = text.lines().filter(|line| !is_stamp(line)).collect();
    own.join("\n").trim().to_owned()
}

/// The file's own words, without our stamps; `None` if there are none.
pub(crate) fn words(text: &str) -> Option<String> {
    let own = without_stamps(text);
    (!own.is_empty() && own != FIRST.trim()).then_some(own)
}

pub(crate) fn read(place: &MemoryDir) -> Result<Option<String>, FileError> {
    let bytes = fs::read(&place.active_context(), MAX_FILE)?;
    Ok(bytes.map(|b| String::from_utf8_lossy(&b).into_owned()))
}

/// The file's earlier words, and those that did not fit.
#[derive(Debug, Default)]
pub(crate) struct DisplacedText {
    pub before: Option<String>,
    pub overflow: Option<String>,
}

/// Replaces the content with `text`. On disk when this returns.
pub(crate) fn write(
    place: &MemoryDir,
    text: &str,
    session: &SessionId,
    now: Timestamp,
) -> Result<DisplacedText, FileError> {
    // An unreadable file (a person may have put anything there) is set aside, not lost.
    let before = match read(place) {
        Ok(before) => before.as_deref().and_then(words),
        Err(e) => {
            fs::set_aside(&place.active_context(), &now.strftime("%Y%m%d-%H%M%S").to_string())
                .map_err(|_| e)?;
            None
        }
    };
    // The agent has seen the stamps and may repeat them.
    let text = without_stamps(text);
    let (fits, overflow) = bounded(&text);
    let mut out =
        format!("{UPDATED}{} UTC by session {}._\n\n{fits}\n", now.strftime(STAMP), session.short());
    if overflow.is_some() {
        out.push_str("\n(More is in the newest session document.)\n");
    }
    fs::replace(&place.active_context(), out.as_bytes(), SHARED, Sync::Yes)?;
    let before = before.filter(|b| b != fits);
    Ok(DisplacedText { before, overflow: overflow.map(str::to_owned) })
}

/// As many whole lines as fit, and the rest.
fn bounded(text: &str) -> (&str, Option<&str>) {
    let Some((limit, _)) = text.char_indices().nth(MAX) else { return (text, None) };
    let end = text[..limit].rfind('\n').filter(|at| *at > MAX / 2).unwrap_or(limit);
    (text[..end].trim_end(), Some(text[end..].trim()))
}

/// Records when and how the last session ended, in one line that is replaced each time.
pub(crate) fn stamp_end(
    place: &MemoryDir,
    session: &SessionId,
    reason: &str,
    backup: &str,
    now: Timestamp,
) -> Result<(), FileError> {
    let Some(text) = read(place)? else { return Ok(()) };
    let own: Vec<&str> = text.lines().filter(|line| !is_end(line)).collect();
    let line = format!(
        "{ENDED}{} UTC ({reason}), session {}{BACKUP}{backup}._",
        now.strftime(STAMP),
        session.short()
    );
    let text = format!("{}\n\n{line}\n", own.join("\n").trim_end());
    restamp(place, &text)
}

/// Removes the name of a deleted backup from the stamp.
pub(crate) fn forget_backup(place: &MemoryDir, backup: &str) -> Result<(), FileError> {
    let Some(text) = read(place)? else { return Ok(()) };
    let named = format!("{BACKUP}{backup}.");
    if !text.lines().any(|line| is_end(line) && line.contains(&named)) {
        return Ok(());
    }
    let forget =
        |line: &str| if is_end(line) { line.replace(&named, ".") + "\n" } else { format!("{line}\n") };
    let text: String = text.lines().map(forget).collect();
    restamp(place, &text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_does_not_fit_is_cut_at_a_line_and_kept() {
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
        let [updated, ended] = [UPDATED, ENDED].map(|start| format!("{start}2026-11-16 04:00:00 UTC, x._"));
        assert_eq!(words(&format!("{updated}\n{ended}\n\n")), None);
        assert_eq!(words(&format!("{updated}\nGoal: all\n\n{ended}\n")).as_deref(), Some("Goal: all"));
        let [updated, ended] = COMMENTS.map(|start| format!("{start}2026-11-16 04:00:00 UTC -->"));
        assert_eq!(words(&format!("{updated}\nGoal: all\n{ended}\n")).as_deref(), Some("Goal: all"));
        assert_eq!(words("_Updated the parser._\n").as_deref(), Some("_Updated the parser._"));
    }
}
