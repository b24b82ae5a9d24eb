//! Whether a session was saved before it ended: `baton memory save` records its time and the length of the transcript,
//! and no person may have said anything after it. The client writes records a moment later, so records beyond that
//! length with an earlier time count as saved.

use std::io::{BufReader, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use baton_core::ids::SessionId;
use baton_core::session::Session;
use baton_core::transcript::lines::{self, Line, MAX_LINE};
use baton_core::transcript::{Item, Parser};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::store::{Store, record};
use crate::sys::fs::{self, FileError};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Saved {
    pub at: Timestamp,
    pub document: PathBuf,
    pub transcript_len: u64,
}

fn path(store: &Store, session: &SessionId) -> PathBuf {
    store.state.join("memory/saved").join(format!("{session}.json"))
}

pub(crate) fn note(
    store: &Store,
    session: &Session,
    document: &Path,
    now: Timestamp,
) -> Result<(), FileError> {
    let transcript = session.transcript.as_deref().and_then(|t| std::fs::metadata(t).ok());
    let transcript_len = transcript.map_or(0, |m| m.len());
    record::write(
        &path(store, &session.id),
        &Saved { at: now, document: document.to_owned(), transcript_len },
    )
}

/// Whether the save covers everything that a person said.
pub(crate) fn covers(store: &Store, session: &Session) -> bool {
    let Ok(Some(saved)) = record::read::<Saved>(&path(store, &session.id)) else { return false };
    let Some(mut file) = session.transcript.as_deref().and_then(|t| fs::open_read(Path::new(t)).ok()) else {
        return false;
    };
    if file.seek(SeekFrom::Start(saved.transcript_len)).is_err() {
        return false;
    }
    let mut parser = Parser::default();
    let mut spoke = false;
    let read = lines::for_each(BufReader::new(file), saved.transcript_len, MAX_LINE, |line, offset| {
        let Line::Whole(bytes) = line else { return };
        let Some(record) = parser.feed(bytes, offset) else { return };
        let time = record.time.as_deref().and_then(|t| t.parse::<Timestamp>().ok());
        let is_later = time.is_none_or(|time| time > saved.at);
        let says = |item: &Item<'_>| match item {
            Item::Prompt(text) => is_later && !is_courtesy(text),
            // It waits for the end of the turn, so the save did not include it.
            Item::Queued(_) => true,
            Item::Command { name, .. } => is_later && !LEAVES_NO_WORK.contains(&name.trim_start_matches('/')),
            _ => false,
        };
        spoke |= !record.sidechain && record.items.iter().any(says);
    });
    read.is_ok() && !spoke
}

/// Commands that ask for no work: the client's ways out, and baton's own.
const LEAVES_NO_WORK: [&str; 12] = [
    "exit",
    "quit",
    "clear",
    "document-and-save",
    "document-and-save-to",
    "resume-latest",
    "resume-from",
    "sessions-list",
    "discard-backup",
    "create_handoff",
    "baton:handoff",
    "baton:status",
];

/// A thank-you or a goodbye and nothing else.
fn is_courtesy(text: &str) -> bool {
    const CLOSING: [&str; 7] = ["thanks", "thank", "thx", "ty", "cheers", "bye", "goodbye"];
    const AROUND: [&str; 19] = [
        "you",
        "ok",
        "okay",
        "great",
        "good",
        "perfect",
        "nice",
        "cool",
        "awesome",
        "very",
        "much",
        "so",
        "a",
        "lot",
        "all",
        "for",
        "today",
        "now",
        "everything",
    ];
    let text = text.to_ascii_lowercase();
    let words: Vec<&str> =
        text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    words.iter().any(|word| CLOSING.contains(word))
        && words.iter().all(|word| CLOSING.contains(word) || AROUND.contains(word))
}

#[cfg(test)]
mod tests {
    use baton_core::ids::{AgentId, ChannelName};

    use super::*;
    use crate::sys::paths::Paths;

    #[test]
    fn only_a_bare_courtesy_is_one() {
        for courtesy in ["thanks", "Thank you very much!", "ok, bye", "Great, thx :)"] {
            assert!(is_courtesy(courtesy), "{courtesy}");
        }
        for work in ["", "thanks, now the docs", "go on", "42", "ok", "thanks, 42", "ok do it"] {
            assert!(!is_courtesy(work), "{work}");
        }
    }

    #[test]
    fn words_from_before_a_save_count_as_saved_however_late_they_are_written() {
        let dir = tempfile::tempdir().unwrap();
        let of = |name: &str| dir.path().join(name);
        let paths = Paths { home: of(""), claude: of("claude"), state: of("state"), config: of("config") };
        let (store, transcript) = (Store::new(&paths), of("s.jsonl"));
        let (id, agent) = (SessionId::new("s").unwrap(), AgentId::new("a").unwrap());
        let (channel, at) = (ChannelName::new("c").unwrap(), "2026-11-16T01:00:00Z".parse().unwrap());
        let mut session = Session::new(id, "claude", agent, channel, at, "startup");
        session.transcript = Some(transcript.display().to_string());
        let said = |time: &str| {
            format!(
                r#"{{"type":"user","uuid":"u{time}","timestamp":"2026-11-16T01:{time}Z","cwd":"/p","sessionId":"s","message":{{"role":"user","content":"Save it."}}}}"#
            ) + "\n"
        };
        std::fs::write(&transcript, said("00:10")).unwrap();
        assert!(!covers(&store, &session), "nothing was saved yet");
        note(&store, &session, Path::new("d.md"), "2026-11-16T01:00:30Z".parse().unwrap()).unwrap();
        assert!(covers(&store, &session));
        let late = said("00:10") + &said("00:29");
        std::fs::write(&transcript, &late).unwrap();
        assert!(covers(&store, &session), "it was said before");
        std::fs::write(&transcript, late + &said("00:31")).unwrap();
        assert!(!covers(&store, &session), "that was said after");
    }
}
