//! Session documents: `session-YYYY-MM-DD-HHMM.md`, the full account of one session.

use std::path::{Path, PathBuf};

use baton_core::ids::SessionId;
use baton_core::plain::plain_line;
use jiff::Timestamp;

use crate::project::memory::MemoryDir;
use crate::sys::fs::{self, FileError, SHARED, Sync};

const MAX_FILE: u64 = 4 << 20;
/// The heading of the part that baton adds to a saved document.
pub(crate) const FACTS: &str = "\n# What the transcript shows\n";
/// The headings of the parts that a save or a resume moved here from the active context.
pub(crate) const CONTINUED: &str = "\n## Active context, continued\n";
pub(crate) const BEFORE: &str = "\n## Active context before this save\n";

/// A document in a listing.
#[derive(Debug, Clone, serde::Serialize)]
pub(crate) struct DocumentSummary {
    pub path: PathBuf,
    pub title: String,
    /// From the document, else from its name, else from the file system.
    pub saved: Option<Timestamp>,
    pub session: Option<String>,
    pub bytes: u64,
}

/// Writes a document under the first free name of this minute, or at `path`. On disk when this returns.
pub(crate) fn write(
    place: &MemoryDir,
    path: Option<&Path>,
    text: &str,
    session: &SessionId,
    now: Timestamp,
) -> Result<PathBuf, FileError> {
    let head =
        format!("---\nsession_id: {session}\nsaved_at: {}\n---\n\n", now.strftime("%Y-%m-%dT%H:%M:%S%.3fZ"));
    let bytes = format!("{head}{}\n", text.trim());
    if let Some(path) = path {
        if let Some(above) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
            std::fs::create_dir_all(above).map_err(|e| FileError::new("create the folder", above, e))?;
        }
        if !fs::create(path, bytes.as_bytes(), SHARED, Sync::Yes)? {
            let there = std::io::Error::from(std::io::ErrorKind::AlreadyExists);
            return Err(FileError::new("create", path, there));
        }
        return Ok(path.to_owned());
    }
    let stem = format!("session-{}", now.strftime("%Y-%m-%d-%H%M"));
    for n in 1..1000 {
        let again = if n == 1 { String::new() } else { format!("-{n}") };
        let path = place.dir.join(format!("{stem}{again}.md"));
        if fs::create(&path, bytes.as_bytes(), SHARED, Sync::Yes)? {
            return Ok(path);
        }
    }
    Err(FileError::new(
        "create",
        &place.dir,
        std::io::Error::other("a thousand documents of this minute are there"),
    ))
}

/// All documents, newest first, and why others were skipped.
pub(crate) fn list(place: &MemoryDir) -> (Vec<DocumentSummary>, Vec<String>) {
    let (mut found, mut skipped) = (Vec::new(), Vec::new());
    for entry in std::fs::read_dir(&place.dir).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_document =
            name.starts_with("session-") && Path::new(&name).extension().is_some_and(|e| e == "md");
        if !is_document {
            continue;
        }
        match about(&entry.path()) {
            Ok(one) => found.push(one),
            Err(why) => skipped.push(format!("{name}: {why}")),
        }
    }
    // Among the documents of one minute, the later one has the longer name: `…-2`, `…-10`.
    let rank = |about: &DocumentSummary| (about.saved, about.path.as_os_str().len(), about.path.clone());
    found.sort_by_cached_key(|about| std::cmp::Reverse(rank(about)));
    skipped.sort();
    (found, skipped)
}

fn about(path: &Path) -> Result<DocumentSummary, String> {
    let text = read(path)?;
    let (session, saved) = header(&text);
    let title = title(body(&text));
    let bytes = text.len() as u64;
    let by_file = || std::fs::metadata(path).and_then(|m| m.modified()).ok().and_then(|t| t.try_into().ok());
    let saved = saved.or_else(|| by_name(path)).or_else(by_file);
    Ok(DocumentSummary { path: path.to_owned(), title: plain_line(title, 80), saved, session, bytes })
}

/// The first heading of the author's own text, else its first line. The part that baton added has its own headings.
fn title(body: &str) -> &str {
    let end = [FACTS, CONTINUED, BEFORE].iter().filter_map(|heading| body.find(heading)).min();
    let own = &body[..end.unwrap_or(body.len())];
    let heading = |line: &&str| line.trim_start_matches('#').starts_with(' ') && line.starts_with('#');
    let line = own.lines().find(heading).or_else(|| own.lines().find(|line| !line.trim().is_empty()));
    line.map_or("(empty)", |line| line.trim_start_matches('#').trim())
}

/// When it was saved, from its name.
fn by_name(path: &Path) -> Option<Timestamp> {
    let stamp = path.file_stem()?.to_str()?.strip_prefix("session-")?.get(..15)?;
    let at = jiff::civil::DateTime::strptime("%Y-%m-%d-%H%M", stamp).ok()?;
    at.to_zoned(jiff::tz::TimeZone::UTC).ok().map(|z| z.timestamp())
}

/// The text of a document; an error if it is not text.
pub(crate) fn read(path: &Path) -> Result<String, String> {
    let bytes = fs::read(path, MAX_FILE).map_err(|e| e.to_string())?.ok_or("it is not there")?;
    if bytes.iter().take(4096).any(|b| *b == 0) {
        return Err("it is not text".to_owned());
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn front(text: &str) -> Option<(&str, &str)> {
    text.strip_prefix("---\n")?.split_once("\n---\n")
}

fn body(text: &str) -> &str {
    front(text).map_or(text, |(_, body)| body)
}

/// Session and time from the front matter; invalid values are ignored.
fn header(text: &str) -> (Option<String>, Option<Timestamp>) {
    let Some((front, _)) = front(text) else { return (None, None) };
    let value = |key: &str| front.lines().find_map(|l| l.strip_prefix(key)?.strip_prefix(':')).map(str::trim);
    let session = value("session_id").map(|v| plain_line(v, 80));
    (session, value("saved_at").and_then(|v| v.parse().ok()))
}
