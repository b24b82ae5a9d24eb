//! Whether a session's end finds it saved: `baton memory save` notes when it was and how far the transcript went, and
//! nothing that a person said may have come after it. The client writes down what is said a moment later, so what stands
//! behind that place but was said before that time is saved too.

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
pub struct Saved {
    pub at: Timestamp,
    pub document: PathBuf,
    pub transcript_len: u64,
}

fn path(store: &Store, session: &SessionId) -> PathBuf {
    store.state.join("memory/saved").join(format!("{session}.json"))
}

pub fn note(store: &Store, session: &Session, document: &Path, now: Timestamp) -> Result<(), FileError> {
    let transcript = session.transcript.as_deref().and_then(|t| std::fs::metadata(t).ok());
    let transcript_len = transcript.map_or(0, |m| m.len());
    record::write(
        &path(store, &session.id),
        &Saved { at: now, document: document.to_owned(), transcript_len },
    )
}

/// Was everything that a person said saved?
pub fn covers(store: &Store, session: &Session) -> bool {
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
            Item::Prompt(_) => is_later,
            // It waits for the turn's end: whoever saved did not know of it.
            Item::Queued(_) => true,
            Item::Command { name, .. } => {
                is_later && !matches!(name.trim_start_matches('/'), "exit" | "quit" | "clear")
            }
            _ => false,
        };
        spoke |= !record.sidechain && record.items.iter().any(says);
    });
    read.is_ok() && !spoke
}

#[cfg(test)]
mod tests {
    use baton_core::ids::{AgentId, ChannelName};

    use super::*;
    use crate::paths::Paths;

    #[test]
    fn what_was_said_before_is_saved_however_late_it_is_written_down() {
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
