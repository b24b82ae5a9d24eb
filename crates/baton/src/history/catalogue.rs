//! One row per conversation: the two ends of its transcript, baton's record of its session, the handoffs in and out.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use baton_core::ids::SessionId;
use baton_core::plain::plain_line;
use jiff::Timestamp;

use crate::config::Config;
use crate::history::cache::{self, Cache};
use crate::history::ends::{self, Unreadable};
use crate::history::facts::{ConversationFacts, Transcript};
use crate::history::links::{self, HandoffLink};
use crate::history::mirrors;
use crate::history::records::SessionRecord;
use crate::history::sources::{Skipped, Sources, TranscriptFile};
use crate::providers;
use crate::store::Store;
use crate::store::mirror::Mirror;
use crate::sys::paths::Paths;
use crate::sys::process;

/// All conversations, newest first.
#[derive(Debug, Default)]
pub(crate) struct Catalogue {
    pub rows: Vec<Row>,
    pub skipped: Vec<Skipped>,
    pub links: Vec<HandoffLink>,
}

/// One conversation.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub source: TranscriptFile,
    pub facts: ConversationFacts,
    /// baton's own record of the session, if there is one.
    pub record: Option<SessionRecord>,
}

/// Reads the changes since the last time, and caches the result.
pub(crate) fn read(paths: &Paths, config: &Config) -> Catalogue {
    let (cached, mut sources) = std::thread::scope(|scope| {
        let cached = scope.spawn(|| cache::load(&paths.state));
        let sources = Sources::read(paths);
        (cached.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), sources)
    });
    let may_store = cached.is_some();
    let mut cache = cached.unwrap_or_default();
    let mirror = Mirror::new(&paths.state);
    let mut changed = mirrors::add_orphans(&mirror, &mut sources, &mut cache.orphans);
    let Sources { found: sources, mut skipped } = sources;
    changed |= refresh(&mut cache.transcripts, &sources, &mirror, &mut skipped);
    changed |= cache.records.refresh(Store::new(paths).sessions().folder(), &mut skipped);
    changed |= links::refresh(&Store::new(paths).handoffs(config), &mut cache.links);
    if changed && may_store {
        cache::store(&paths.state, &cache);
    }

    let Cache { mut transcripts, records, links, .. } = cache;
    let mut rows = Vec::with_capacity(sources.len());
    for source in sources {
        match transcripts.remove(source.key()).map(|transcript| transcript.facts) {
            Some(Ok(facts)) if !facts.foreign => {
                rows.push(Row { record: records.get(&source.id).cloned(), source, facts });
            }
            Some(Err(why)) => skipped.push(Skipped { path: source.path, why }),
            // Part of another conversation, or already reported.
            Some(Ok(_)) | None => {}
        }
    }
    rows.sort_unstable_by(|a, b| b.last().cmp(&a.last()).then_with(|| a.source.id.cmp(&b.source.id)));
    skipped.sort_by(|a, b| a.path.cmp(&b.path));
    Catalogue { rows, skipped, links: links.into_values().flat_map(|channel| channel.links).collect() }
}

/// Reads new and changed transcripts and drops deleted ones. Returns whether there were any.
fn refresh(
    transcripts: &mut HashMap<String, Transcript>,
    sources: &[TranscriptFile],
    mirror: &Mirror,
    skipped: &mut Vec<Skipped>,
) -> bool {
    let mut changed = false;
    for source in sources {
        if transcripts.get(source.key()).is_some_and(|known| known.stamp == source.stamp) {
            continue;
        }
        changed = true;
        let summary = if source.mirrored {
            mirrors::ends(mirror, &source.id, source.dialect)
        } else {
            ends::read(&source.path, source.dialect)
        };
        let facts = match summary {
            Ok(summary) => Ok(ConversationFacts::new(source, &summary)),
            Err(Unreadable { why, passing: false }) => Err(plain_line(&why, 200)),
            Err(Unreadable { why, passing: true }) => {
                // Forget it, so that the next listing tries again.
                transcripts.remove(source.key());
                skipped.push(Skipped::new(&source.path, &plain_line(&why, 200)));
                continue;
            }
        };
        transcripts.insert(source.key().to_owned(), Transcript { stamp: source.stamp, facts });
    }
    if transcripts.len() > sources.len() || changed {
        let present: HashSet<&str> = sources.iter().map(TranscriptFile::key).collect();
        let before = transcripts.len();
        transcripts.retain(|path, _| present.contains(path.as_str()));
        changed |= transcripts.len() < before;
    }
    changed
}

/// Gives a session that only continued another one the title of the session where the work began.
pub(crate) struct Titles<'c> {
    by_id: HashMap<&'c SessionId, &'c Row>,
    /// The session whose handoff a session loaded.
    predecessors: HashMap<&'c SessionId, &'c SessionId>,
}

impl<'c> Titles<'c> {
    pub(crate) fn new(catalogue: &'c Catalogue) -> Self {
        let mut predecessors = HashMap::new();
        for link in &catalogue.links {
            if let Some(to) = &link.to {
                predecessors.entry(to).or_insert(&link.from);
            }
        }
        Self { by_id: catalogue.by_id(), predecessors }
    }

    /// The title of `row`, or of the session where its work began.
    pub(crate) fn of<'a>(&'a self, row: &'a Row) -> &'a str {
        let mut row = row;
        // Damaged files may form a cycle.
        for _ in 0..50 {
            if !row.facts.continued {
                break;
            }
            match self.predecessors.get(&row.source.id).and_then(|id| self.by_id.get(id)) {
                Some(predecessor) => row = predecessor,
                None => break,
            }
        }
        &row.facts.title
    }
}

impl Catalogue {
    pub(crate) fn by_id(&self) -> HashMap<&SessionId, &Row> {
        self.rows.iter().map(|row| (&row.source.id, row)).collect()
    }
}

/// The state of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ConversationState<'r> {
    /// Runs in the process with this id.
    Running(u32),
    /// With the client's reason.
    Ended(&'r str),
    /// Its process is gone without having reported its end.
    Died,
    /// We have no record of it; only the end of its transcript shows how it was left.
    Left,
}

impl Row {
    /// When something last happened in it.
    pub(crate) fn last(&self) -> Timestamp {
        let written = || Timestamp::from_millisecond(self.source.stamp.modified / 1_000_000).ok();
        self.facts.last.or(self.facts.begun).or_else(written).unwrap_or(Timestamp::UNIX_EPOCH)
    }

    pub(crate) fn state(&self) -> ConversationState<'_> {
        match &self.record {
            Some(SessionRecord { ended: Some(reason), .. }) => ConversationState::Ended(reason),
            Some(SessionRecord { process: Some(it), .. }) if process::is_alive(it) => {
                ConversationState::Running(it.pid)
            }
            Some(SessionRecord { process: Some(_), .. }) => ConversationState::Died,
            _ => ConversationState::Left,
        }
    }

    /// The provider's name as in `baton run`.
    pub(crate) fn provider(&self) -> &str {
        match &self.record {
            Some(record) => &record.provider,
            None => providers::of_dialect(self.source.dialect).name,
        }
    }

    pub(crate) fn cwd(&self) -> PathBuf {
        PathBuf::from(&self.facts.cwd)
    }
}
