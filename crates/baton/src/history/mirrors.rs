//! Conversations that only the mirror still has: deleted by the client, or as they were before the client rewrote them.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use baton_core::ids::SessionId;
use baton_core::transcript::Dialect;
use baton_core::transcript::summary::Summary;
use serde::{Deserialize, Serialize};

use crate::history::ends::{self, Unreadable};
use crate::history::search::{Target, TargetKind};
use crate::history::sources::{FileStamp, NOT_UTF8, Skipped, Sources, TranscriptFile};
use crate::store::mirror::take::subagent_path;
use crate::store::mirror::{Generation, MAIN, Mirror, MirroredSession};
use crate::sys::fs;

/// Mirrored conversations that the client has deleted.
pub(crate) type Orphans = HashMap<SessionId, Orphan>;

/// Where an orphan's newest generation is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Orphan {
    /// Adding or removing a generation changes its folder's time.
    folder: FileStamp,
    path: PathBuf,
    provider: Dialect,
}

/// Adds the mirrored conversations missing from `sources`. Returns whether `known` changed.
pub(crate) fn add_orphans(mirror: &Mirror, sources: &mut Sources, known: &mut Orphans) -> bool {
    let live: HashSet<&SessionId> = sources.found.iter().map(|source| &source.id).collect();
    let gone: Vec<SessionId> = mirror.sessions().into_iter().filter(|id| !live.contains(id)).collect();
    let mut before = std::mem::take(known);
    let mut changed = false;
    for id in gone {
        let was = before.remove(&id);
        let now = match find_orphan(mirror, &id, was.as_ref()) {
            Ok(now) => now,
            Err(skipped) => {
                sources.skipped.push(skipped);
                None
            }
        };
        changed |= now != was;
        let Some(orphan) = now else { continue };
        if let Some(stamp) = FileStamp::at(&orphan.path) {
            let (path, dialect) = (orphan.path.clone(), orphan.provider);
            sources.found.push(TranscriptFile { path, dialect, id: id.clone(), stamp, mirrored: true });
        }
        known.insert(id, orphan);
    }
    changed || !before.is_empty()
}

fn find_orphan(mirror: &Mirror, id: &SessionId, known: Option<&Orphan>) -> Result<Option<Orphan>, Skipped> {
    let dir = mirror.folder(id);
    if dir.to_str().is_none() {
        return Err(Skipped::new(&dir, NOT_UTF8));
    }
    let folder = match std::fs::symlink_metadata(&dir) {
        Ok(about) if about.is_dir() => FileStamp::of(&about),
        Ok(_) => return Ok(None),
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(Skipped::new(&dir, &e)),
    };
    if let Some(known) = known.filter(|known| known.folder == folder) {
        return Ok(Some(known.clone()));
    }
    let mirrored = mirror.of(id).map_err(|e| Skipped::new(&e.path, &e.source))?;
    Ok(mirrored.and_then(|it| {
        let path = it.newest()?.1.path.clone();
        Some(Orphan { folder, path, provider: Dialect::of(&it.meta.provider) })
    }))
}

/// Summarises the two ends of a mirrored conversation.
pub(crate) fn ends(mirror: &Mirror, id: &SessionId, provider: Dialect) -> Result<Summary, Unreadable> {
    let mirrored = mirror.of(id).map_err(|e| io::Error::other(e.to_string()))?;
    let gone = || io::Error::other("its mirror has vanished");
    let mirrored = mirrored.ok_or_else(gone)?;
    let (part, generation) = mirrored.newest().ok_or_else(gone)?;
    match generation.plain_file() {
        Some(path) => ends::read(path, provider),
        None => ends::read_stream(part.open(generation)?),
    }
}

/// Everything in a conversation's mirror that its live files do not contain. `live` is its transcript, if there is one.
pub(crate) fn targets(mirrored: &MirroredSession, provider: Dialect, live: Option<&Path>) -> Vec<Target> {
    let mut targets = Vec::new();
    for part in &mirrored.parts {
        let live = live
            .map(|path| if part.name == MAIN { path.to_owned() } else { subagent_path(path, &part.name) });
        for (n, generation) in part.generations.iter().enumerate() {
            let is_newest = n + 1 == part.generations.len();
            if is_newest && live.as_deref().is_some_and(|live| holds(live, generation)) {
                continue;
            }
            targets.push(Target {
                session: mirrored.session.clone(),
                provider,
                path: generation.path.clone(),
                kind: TargetKind::Mirror,
                size: generation.bytes,
                mirror: Some(Box::new((part.clone(), generation.clone()))),
            });
        }
    }
    targets
}

/// Whether the live file begins with everything in the generation. As in the mirror itself, decided by its length and
/// the bytes at its end.
fn holds(live: &Path, generation: &Generation) -> bool {
    const LOOK: u64 = 4096;
    let Ok(live) = fs::open_read(live) else { return false };
    let Ok(size) = live.metadata().map(|m| m.len()) else { return false };
    let Some(copy) = generation.plain_file().and_then(|path| fs::open_read(path).ok()) else {
        return size == generation.bytes;
    };
    let from = generation.bytes.saturating_sub(LOOK);
    size >= generation.bytes
        && matches!((piece(&live, from, generation.bytes), piece(&copy, from, generation.bytes)), (Ok(a), Ok(b)) if a == b)
}

fn piece(file: &File, from: u64, to: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(to - from).map_err(io::Error::other)?];
    file.read_exact_at(&mut bytes, from)?;
    Ok(bytes)
}

/// Opens a target.
pub(crate) fn open(target: &Target) -> io::Result<Box<dyn Read + Send>> {
    match &target.mirror {
        Some(mirror) => mirror.0.open(&mirror.1),
        None => Ok(Box::new(fs::open_read(&target.path)?)),
    }
}
