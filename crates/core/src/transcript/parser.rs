//! From a line of bytes to a record, for whichever provider wrote it, with a count of unreadable lines.

use std::collections::hash_map::DefaultHasher;
use std::collections::{HashSet, VecDeque};
use std::hash::{Hash, Hasher};

use serde::{Deserialize, Serialize};

use super::record::{Item, Record};
use super::{claude, codex};

/// How many record ids are remembered to recognise a record that a resume copied.
const REMEMBERED_IDS: usize = 1 << 12;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dialect {
    Claude,
    Codex,
}

impl Dialect {
    /// The format of the transcripts of the provider with this name.
    pub fn of(name: &str) -> Self {
        if matches!(name, "codex" | "codex-app") { Self::Codex } else { Self::Claude }
    }

    /// How many bytes at the beginning show what a conversation is about; a rollout begins with its instructions.
    pub fn head(self) -> usize {
        match self {
            Self::Claude => 4 << 10,
            Self::Codex => 32 << 10,
        }
    }

    /// Whether a result that is not marked as failed has succeeded.
    pub(crate) fn marks_failures(self) -> bool {
        self == Self::Claude
    }

    /// Whether the client finds a conversation only in the folder of its project.
    pub fn is_kept_by_project(self) -> bool {
        self == Self::Claude
    }
}

/// Counts of the lines by kind; the handoff says so if some are bad.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    pub lines: u64,
    /// Not JSON, or not of the shape of a record.
    pub unreadable: u64,
    /// Bytes that are not UTF-8 were replaced before the line could be read.
    pub mended: u64,
    pub too_long: u64,
    /// Records of a type unknown to this version.
    pub unknown: u64,
    pub sidechain: u64,
    pub repeated: u64,
    pub boundaries: u32,
    /// The file ends in the middle of a line.
    pub torn: bool,
}

/// Reads line after line. Holds a bounded memory of ids and no text.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Parser {
    pub provider: Option<Dialect>,
    pub counts: Counts,
    /// A rollout's description of itself.
    #[serde(default)]
    thread: codex::Thread,
    ids: Recent,
    /// The hashes of the current assistant message's id and of its blocks: streaming may repeat a block.
    message: (u64, Vec<u64>),
    #[serde(skip)]
    mended: String,
}

impl Parser {
    /// The record in `line`, if there is one that counts.
    pub fn feed<'s>(&'s mut self, line: &'s [u8], offset: u64) -> Option<Record<'s>> {
        let line = line.trim_ascii();
        if line.is_empty() {
            return None;
        }
        self.counts.lines += 1;
        // Only the parts in use are checked for UTF-8, so repeat the check only on failure.
        let parsed = match parse(self.provider, line, &mut self.thread) {
            None if std::str::from_utf8(line).is_err() => {
                self.counts.mended += 1;
                self.mended = String::from_utf8_lossy(line).into_owned();
                parse(self.provider, self.mended.as_bytes(), &mut self.thread)
            }
            parsed => parsed,
        };
        let Some(parsed) = parsed else {
            self.counts.unreadable += 1;
            return None;
        };
        self.provider = Some(parsed.provider);
        if !parsed.known {
            self.counts.unknown += 1;
        }
        let mut record = parsed.record;
        record.offset = offset;
        if record.sidechain {
            self.counts.sidechain += 1;
        }
        if record.items.is_empty() {
            let tells = record.branch.is_some() || record.cwd.is_some();
            return tells.then_some(record);
        }
        if let Some(uuid) = &record.uuid
            && !self.ids.insert(hash(uuid.as_ref()))
        {
            self.counts.repeated += 1;
            return None;
        }
        if let Some(id) = &parsed.message {
            drop_repeated_blocks(&mut self.message, hash(id.as_ref()), &mut record.items);
        }
        self.counts.boundaries +=
            u32::try_from(record.items.iter().filter(|i| matches!(i, Item::Boundary)).count()).unwrap_or(0);
        Some(record)
    }

    pub(crate) fn too_long(&mut self) {
        self.counts.lines += 1;
        self.counts.too_long += 1;
    }
}

/// A line as a provider's module read it.
pub(super) struct Parsed<'a> {
    pub provider: Dialect,
    pub record: Record<'a>,
    pub message: Option<std::borrow::Cow<'a, str>>,
    pub known: bool,
}

fn parse<'a>(provider: Option<Dialect>, line: &'a [u8], thread: &mut codex::Thread) -> Option<Parsed<'a>> {
    match provider {
        Some(Dialect::Claude) => claude::parse(line),
        Some(Dialect::Codex) => codex::parse(line, thread),
        // The first line decides: only a rollout wraps everything in a payload.
        None => codex::parse(line, thread).or_else(|| claude::parse(line)),
    }
}

fn drop_repeated_blocks(message: &mut (u64, Vec<u64>), id: u64, items: &mut Vec<Item<'_>>) {
    if message.0 != id {
        *message = (id, Vec::new());
    }
    items.retain(|item| {
        let key = match item {
            Item::Reply(text) => hash(&("reply", text.as_ref())),
            Item::Call { id, .. } => hash(&("call", id.as_ref())),
            _ => return true,
        };
        if message.1.contains(&key) {
            return false;
        }
        if message.1.len() < 256 {
            message.1.push(key);
        }
        true
    });
}

/// `DefaultHasher::new` has fixed keys, so a remembered state stays valid in the next process of the same build;
/// in another build the worst case is one record counted twice.
fn hash(value: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// The newest ids, bounded.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(from = "VecDeque<u64>", into = "VecDeque<u64>")]
struct Recent {
    order: VecDeque<u64>,
    known: HashSet<u64>,
}

impl Recent {
    fn insert(&mut self, id: u64) -> bool {
        if !self.known.insert(id) {
            return false;
        }
        self.order.push_back(id);
        if self.order.len() > REMEMBERED_IDS
            && let Some(old) = self.order.pop_front()
        {
            self.known.remove(&old);
        }
        true
    }
}

impl From<VecDeque<u64>> for Recent {
    fn from(order: VecDeque<u64>) -> Self {
        Self { known: order.iter().copied().collect(), order }
    }
}

impl From<Recent> for VecDeque<u64> {
    fn from(recent: Recent) -> Self {
        recent.order
    }
}
