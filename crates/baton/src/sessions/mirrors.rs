//! What only the mirrors still have: conversations that the client deleted, and what it wrote before it rewrote them.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use baton_core::ids::SessionId;
use baton_core::transcript::Provider;
use baton_core::transcript::summary::Summary;

use super::ends::{self, No};
use super::search::{Kind, Target};
use super::sources::{Place, Source, Stamp};
use crate::store::mirror::take::subagent_path;
use crate::store::mirror::{Generation, MAIN, Mirror, Mirrored, Part};
use crate::sys::fs;

/// The conversations that are not among the `live` ones. `true` if what is kept of them was changed.
pub fn orphans<'a>(
    mirror: &Mirror,
    live: impl Iterator<Item = &'a SessionId>,
    kept: &mut Orphans,
) -> (Vec<Source>, bool) {
    let mirrored = mirror.sessions();
    if mirrored.is_empty() && kept.is_empty() {
        return (Vec::new(), false);
    }
    let live: HashSet<&SessionId> = live.collect();
    let gone: Vec<SessionId> = mirrored.into_iter().filter(|id| !live.contains(id)).collect();
    let mut before = std::mem::take(kept);
    let known: Vec<_> = gone.iter().map(|id| before.remove(id)).collect();
    let mut changed = !before.is_empty();
    let read = super::on_all_processors(gone.len(), 16, |n| {
        let folder = folder_stamp(&mirror.folder(&gone[n]))?;
        match &known[n] {
            // Generations come and go with their folder's time.
            Some((was, orphan)) if was == &folder => Some((folder, orphan.clone())),
            _ => {
                let it = mirror.of(&gone[n]).ok()??;
                let provider = Provider::of(&it.meta.provider);
                let path = it.newest()?.1.path.display().to_string();
                Some((folder, (path, provider)))
            }
        }
    });
    let mut sources = Vec::new();
    for ((id, now), before) in gone.into_iter().zip(read).zip(known) {
        changed |= now != before;
        let Some((folder, (path, provider))) = now else { continue };
        if let Some(stamp) = Stamp::at(Path::new(&path)) {
            let place = Place::Mirror(PathBuf::from(&path));
            sources.push(Source { place, provider, id: id.clone(), stamp });
        }
        kept.insert(id, (folder, (path, provider)));
    }
    (sources, changed)
}

fn folder_stamp(folder: &Path) -> Option<Stamp> {
    std::fs::symlink_metadata(folder).ok().filter(std::fs::Metadata::is_dir).map(|m| Stamp::of(&m))
}

/// What the ends of a mirrored conversation tell.
pub fn ends(mirror: &Mirror, id: &SessionId, provider: Provider) -> Result<Summary, No> {
    let it = mirror.of(id).map_err(|e| io::Error::other(e.to_string()))?;
    let gone = || io::Error::other("its mirror has vanished");
    let it = it.ok_or_else(gone)?;
    let (part, generation) = it.newest().ok_or_else(gone)?;
    match part.plain_file(generation) {
        Some(path) => ends::read(path, provider),
        None => ends::stream(part.open(generation)?),
    }
}

/// Everything in the mirror of a conversation that its live files do not hold; `live` is its transcript, if there is one.
pub fn targets(mirrored: &Mirrored, provider: Provider, live: Option<&Path>) -> Vec<Target> {
    let mut targets = Vec::new();
    for part in &mirrored.parts {
        let live = live
            .map(|path| if part.name == MAIN { path.to_owned() } else { subagent_path(path, &part.name) });
        for (n, generation) in part.generations.iter().enumerate() {
            let is_newest = n + 1 == part.generations.len();
            if is_newest && live.as_deref().is_some_and(|live| holds(live, part, generation)) {
                continue;
            }
            targets.push(Target {
                session: mirrored.session.clone(),
                provider,
                path: generation.path.clone(),
                kind: Kind::Mirror,
                size: generation.bytes,
                mirror: Some(Box::new((part.clone(), generation.clone()))),
            });
        }
    }
    targets
}

/// Does the live file begin with all that the generation holds? Judged by its length and the bytes at its end, as the
/// mirror itself does.
fn holds(live: &Path, part: &Part, generation: &Generation) -> bool {
    const LOOK: u64 = 4096;
    let Ok(live) = fs::open_read(live) else { return false };
    let Ok(size) = live.metadata().map(|m| m.len()) else { return false };
    let Some(copy) = part.plain_file(generation).and_then(|path| fs::open_read(path).ok()) else {
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

/// Opens what a target stands for.
pub fn open(target: &Target) -> io::Result<Box<dyn Read + Send>> {
    match &target.mirror {
        Some(mirror) => mirror.0.open(&mirror.1),
        None => Ok(Box::new(fs::open_read(&target.path)?)),
    }
}

/// By session: where its newest generation lies.
pub type Orphans = HashMap<SessionId, (Stamp, (String, Provider))>;
