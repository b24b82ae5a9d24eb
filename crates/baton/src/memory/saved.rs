//! Whether a session's end finds it saved: `baton memory save` notes how far the transcript went, and nothing that a
//! person said may have come after it.

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
        let says = |item: &Item<'_>| match item {
            Item::Prompt(_) | Item::Queued(_) => true,
            Item::Command { name, .. } => !matches!(name.trim_start_matches('/'), "exit" | "quit" | "clear"),
            _ => false,
        };
        spoke |= !record.sidechain && record.items.iter().any(says);
    });
    read.is_ok() && !spoke
}
