//! Conversations that go to another machine: asked for, allowed by channel, cut into pieces that may come twice, in any
//! order and days apart.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::ids::{ChannelName, SessionId};

/// Bytes of a conversation in one piece, before they are compressed.
pub const PIECE: u64 = 1 << 20;
/// A larger conversation is refused: the database is not an archive.
pub const MAX_CONVERSATION: u64 = 64 << 20;
/// Conversations that a machine names in one answer, the newest first.
pub const MAX_LISTED: usize = 200;

/// A machine's question to another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "lowercase")]
pub enum Ask {
    /// Which conversations it shares.
    List,
    /// The pieces of one. `have`: the version that the asker has pieces of, and which ones.
    Conversation { session: SessionId, have: Option<Have> },
    /// Remove what was fetched of this channel, because it is no longer shared.
    Forget { channel: ChannelName },
}

/// The pieces that arrived before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Have {
    pub parts: Vec<PartHead>,
    pub pieces: Vec<u32>,
}

/// The answer to a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "lowercase")]
pub enum Answer {
    Shelf(Shelf),
    Refused { session: SessionId, why: String },
    Forgotten { channel: ChannelName, conversations: usize },
}

/// The conversations that a machine shares.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Shelf {
    pub conversations: Vec<SharedConversation>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedConversation {
    pub session: SessionId,
    pub provider: String,
    pub channel: ChannelName,
    pub project: String,
    pub title: String,
    pub last: Timestamp,
    pub bytes: u64,
}

/// A file of a conversation: the session's own, or a subagent's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartHead {
    pub name: String,
    pub bytes: u64,
    pub sha256: String,
}

/// The head of every piece, which describes the whole. The concatenated parts are cut every [`PIECE`] bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    pub session: SessionId,
    pub provider: String,
    pub channel: ChannelName,
    pub cwd: String,
    pub transcript: String,
    pub parts: Vec<PartHead>,
    /// When it was cut: a later version replaces an earlier one.
    pub at: Timestamp,
}

/// Why a piece is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadPiece {
    #[error("nobody here asked for it")]
    Unasked,
    #[error("it says that the conversation has {0} bytes, more than {MAX_CONVERSATION}")]
    TooLarge(u64),
    #[error("it names a part {0:?}, which no conversation has")]
    Part(String),
    #[error("it is piece {index} of {pieces}")]
    Index { index: u32, pieces: u32 },
    #[error("its content cannot be unpacked")]
    Content,
    #[error("put together, {0} is not what was sent")]
    Digest(String),
}

impl Head {
    pub fn bytes(&self) -> u64 {
        self.parts.iter().fold(0, |sum, part| sum.saturating_add(part.bytes))
    }

    /// How many pieces it has.
    pub fn pieces(&self) -> u32 {
        u32::try_from(self.bytes().div_ceil(PIECE)).unwrap_or(u32::MAX).max(1)
    }

    /// The length of piece `index`.
    pub fn length(&self, index: u32) -> u64 {
        let from = u64::from(index) * PIECE;
        self.bytes().saturating_sub(from).min(PIECE)
    }

    pub fn check(&self) -> Result<(), BadPiece> {
        if self.bytes() > MAX_CONVERSATION {
            return Err(BadPiece::TooLarge(self.bytes()));
        }
        let is_part = |name: &str| name == "main" || (name.starts_with("agent-") && !name.contains('.'));
        let bad = |name: &str| !is_part(name) || SessionId::new(name).is_err();
        match self.parts.iter().find(|part| bad(&part.name)) {
            Some(part) => Err(BadPiece::Part(part.name.clone())),
            None => Ok(()),
        }
    }

    /// The pieces still missing for a machine that has `have`.
    pub fn missing(&self, have: Option<&Have>) -> Vec<u32> {
        let had = have.filter(|have| have.parts == self.parts).map(|have| have.pieces.as_slice());
        (0..self.pieces()).filter(|n| !had.unwrap_or_default().contains(n)).collect()
    }
}

/// One piece.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunk {
    pub head: Head,
    pub index: u32,
    /// Compressed with zstd, in base64.
    pub data: String,
}

impl Chunk {
    pub fn check(&self) -> Result<(), BadPiece> {
        self.head.check()?;
        let pieces = self.head.pieces();
        if self.index >= pieces { Err(BadPiece::Index { index: self.index, pieces }) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(parts: &[(&str, u64)]) -> Head {
        let part = |(name, bytes): &(&str, u64)| PartHead {
            name: (*name).to_owned(),
            bytes: *bytes,
            sha256: "00".into(),
        };
        Head {
            session: SessionId::new("s-1").unwrap(),
            provider: "demo".into(),
            channel: ChannelName::new("app").unwrap(),
            cwd: "/".into(),
            transcript: "/t.jsonl".into(),
            parts: parts.iter().map(part).collect(),
            at: Timestamp::UNIX_EPOCH,
        }
    }

    #[test]
    fn a_conversation_has_enough_pieces_and_the_last_is_the_rest() {
        let whole = head(&[("main", PIECE + 5), ("agent-a1", PIECE)]);
        assert_eq!((whole.pieces(), whole.length(0), whole.length(2)), (3, PIECE, 5));
        assert_eq!(head(&[("main", 0)]).pieces(), 1);
        assert_eq!(whole.check(), Ok(()));
        assert_eq!(whole.missing(None), [0, 1, 2]);
        let have = Have { parts: whole.parts.clone(), pieces: vec![0, 2] };
        assert_eq!(whole.missing(Some(&have)), [1]);
        let older = Have { parts: Vec::new(), pieces: vec![0, 2] };
        assert_eq!(whole.missing(Some(&older)), [0, 1, 2], "pieces of another version are worth nothing");
    }

    #[test]
    fn what_would_leave_its_folder_or_fill_the_disk_is_refused() {
        for name in ["../main", "", "agent-../x", "other", "agent-a.b", "main.1"] {
            assert!(head(&[(name, 1)]).check().is_err(), "{name}");
        }
        assert!(head(&[("main", MAX_CONVERSATION), ("agent-a", 1)]).check().is_err());
        assert!(head(&[("main", u64::MAX), ("agent-a", u64::MAX)]).check().is_err());
        let beyond = Chunk { head: head(&[("main", 1)]), index: 1, data: String::new() };
        assert_eq!(beyond.check(), Err(BadPiece::Index { index: 1, pieces: 1 }));
    }
}
