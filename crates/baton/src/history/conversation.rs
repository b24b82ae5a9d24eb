//! A session's conversation as entries, read from its transcript as it grows, or from the mirror if the client deleted
//! it.

use std::io::{self, BufReader, Seek as _, SeekFrom};
use std::path::PathBuf;

use baton_core::session::Session;
use baton_core::transcript::entries::Conversation;
use baton_core::transcript::pages;

use crate::store::Store;
use crate::sys::fs;

/// Read only the end of a longer transcript, which has the newest entries.
const MOST: u64 = 32 << 20;

pub(crate) struct Follower {
    path: PathBuf,
    pub conversation: Conversation,
}

impl Follower {
    /// Reads the newest `most` entries. `None` if nothing is left of the conversation.
    pub(crate) fn open(store: &Store, session: &Session, most: usize) -> anyhow::Result<Option<Self>> {
        let path = session.transcript.as_deref().map(PathBuf::from);
        if let Some(path) = path.filter(|path| path.is_file()) {
            let (mut file, about) = fs::open_regular(&path)?;
            let from = start(&mut file, about.len())?;
            let first_line = pages::first_line(&mut file, about.len())?;
            let conversation = Conversation::new(most, from).knowing(&first_line);
            let mut follower = Self { path, conversation };
            follower.read_on()?;
            return Ok(Some(follower));
        }
        let Some(kept) = store.mirror().of(&session.id)? else { return Ok(None) };
        let Some((part, generation)) = kept.newest() else { return Ok(None) };
        let mut conversation = Conversation::new(most, 0);
        conversation.read(BufReader::with_capacity(256 << 10, part.open(generation)?))?;
        Ok(Some(Self { path: generation.path.clone(), conversation }))
    }

    /// Reads what has been written since.
    pub(crate) fn read_on(&mut self) -> io::Result<()> {
        let (mut file, about) = fs::open_regular(&self.path)?;
        if about.len() <= self.conversation.read_to() {
            return Ok(());
        }
        file.seek(SeekFrom::Start(self.conversation.read_to()))?;
        self.conversation.read(BufReader::with_capacity(256 << 10, file))
    }
}

/// Where to start in a file of this size: at the beginning of a line.
fn start(file: &mut std::fs::File, len: u64) -> io::Result<u64> {
    use std::io::BufRead as _;
    let Some(from) = len.checked_sub(MOST) else { return Ok(0) };
    file.seek(SeekFrom::Start(from))?;
    let skipped = BufReader::new(file).skip_until(b'\n')?;
    Ok(from + skipped as u64)
}
