//! Every conversation as one row: the ends of its transcript, our own record of it, the handoffs in and out.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use baton_core::ids::SessionId;
use baton_core::plain::{plain, plain_line};
use baton_core::redact::redact;
use baton_core::session::Session;
use baton_core::transcript::Provider;
use baton_core::transcript::summary::Summary;
use jiff::Timestamp;

use super::cache::{self, Cache, Facts, Kept, Known, Link};
use super::sources::{self, Skipped, Source, Stamp};
use super::{ends, links, mirrors};
use crate::config::Config;
use crate::paths::Paths;
use crate::rotate::is_from_a_person;
use crate::store::mirror::Mirror;
use crate::store::{Store, record};
use crate::sys::process;

/// Longest title that is kept.
const TITLE: usize = 160;
/// A folder that changed within this time may change again without showing it.
const STILL: Duration = Duration::from_secs(2);

/// All conversations, newest first.
#[derive(Debug, Default)]
pub struct Catalogue {
    pub rows: Vec<Row>,
    pub skipped: Vec<Skipped>,
    pub links: Vec<Link>,
}

/// One conversation.
#[derive(Debug, Clone)]
pub struct Row {
    pub source: Source,
    pub facts: Facts,
    pub known: Option<Known>,
}

/// Reads what changed since the last time, and keeps it for the next.
pub fn read(paths: &Paths, config: &Config) -> Catalogue {
    let store = Store::new(paths);
    let (mut cache, (mut found, mut skipped)) = std::thread::scope(|scope| {
        let cache = scope.spawn(|| cache::load(&paths.state));
        let found = sources::all(paths);
        (cache.join().unwrap_or_default(), found)
    });
    let mirror = Mirror::new(&paths.state);
    let (orphans, mut changed) = mirrors::orphans(&mirror, &found, &mut cache);
    found.extend(orphans);
    changed |= refresh_transcripts(&mirror, &found, &mut cache);
    changed |= refresh_records(&paths.state.join("sessions"), &found, &mut cache);
    changed |= links::refresh(&store.handoffs(config), &mut cache);
    if changed {
        cache::store(&paths.state, &cache);
    }
    let mut rows = Vec::with_capacity(found.len());
    for source in found {
        let Some(kept) = source.path.to_str().and_then(|p| cache.transcripts.remove(p)) else { continue };
        match kept.facts {
            Ok(facts) if facts.foreign => {}
            Ok(facts) => {
                let known = cache.records.remove(&source.id).map(|(_, known)| known);
                rows.push(Row { source, facts, known });
            }
            Err(why) => skipped.push(Skipped { path: source.path, why }),
        }
    }
    rows.sort_by(|a, b| b.when().cmp(&a.when()).then_with(|| a.source.id.cmp(&b.source.id)));
    skipped.sort_by(|a, b| a.path.cmp(&b.path));
    let links = cache.links.into_values().flat_map(|(_, links)| links).collect();
    Catalogue { rows, skipped, links }
}

fn refresh_transcripts(mirror: &Mirror, found: &[Source], cache: &mut Cache) -> bool {
    let before = cache.transcripts.len();
    let is_fresh = |s: &Source| {
        let kept = s.path.to_str().and_then(|path| cache.transcripts.get(path));
        kept.is_some_and(|kept| kept.stamp == s.stamp)
    };
    let stale: Vec<&Source> = found.iter().filter(|s| s.path.to_str().is_some() && !is_fresh(s)).collect();
    let read = super::on_all_processors(stale.len(), |n| {
        let source = stale[n];
        let read = if source.mirrored {
            mirrors::ends(mirror, &source.id, source.provider)
        } else {
            ends::read(&source.path, source.provider)
        };
        // What failed for a reason outside the file is read again next time: no file has this number.
        let inode = if read.as_ref().is_err_and(|no| no.passing) { 0 } else { source.stamp.inode };
        let facts = read.map(|it| facts(source, &it)).map_err(|no| no.why);
        Kept { stamp: Stamp { inode, ..source.stamp }, facts }
    });
    for (source, kept) in stale.iter().zip(read) {
        cache.transcripts.insert(source.path.display().to_string(), kept);
    }
    let mut changed = !stale.is_empty();
    if cache.transcripts.len() > found.len() {
        let there: std::collections::HashSet<&str> = found.iter().filter_map(|s| s.path.to_str()).collect();
        cache.transcripts.retain(|path, _| there.contains(path.as_str()));
        changed |= cache.transcripts.len() != before;
    }
    changed
}

fn facts(source: &Source, it: &Summary) -> Facts {
    let safe = |text: &str| plain_line(&redact(&plain(text)).text, TITLE);
    Facts {
        // It is shown and pasted into commands: one that would not be read as it is written is none.
        cwd: it
            .cwd
            .clone()
            .filter(|cwd| !cwd.contains(['\n', '\t']) && plain(cwd) == *cwd)
            .unwrap_or_default(),
        branch: it.branch.as_deref().map(|b| plain_line(b, 60)),
        title: it.about().map(safe).unwrap_or_default(),
        continued: it.asked.as_deref().is_some_and(|asked| !is_from_a_person(asked)),
        begun: it.begun.map(Timestamp::as_millisecond),
        last: it.last.map(Timestamp::as_millisecond),
        tokens: it.tokens,
        model: it.model.as_deref().map(|m| plain_line(m, 60)),
        ending: it.ending,
        foreign: it.sidechain || it.provider.is_some_and(|p| p != source.provider),
    }
}

/// What begins is put into its folder by renaming, which the folder's time shows; a record that is there grows where it
/// lies when its session ends. Of a folder that is as it was only those are looked at that have not ended.
fn refresh_records(dir: &Path, found: &[Source], cache: &mut Cache) -> bool {
    let folder = std::fs::symlink_metadata(dir).ok();
    let now = folder.as_ref().map(|m| Stamp::of(m).modified);
    let as_it_was = now.is_some() && now == cache.records_changed;
    let has_ended = |s: &Source| cache.records.get(&s.id).is_none_or(|(_, known)| known.ended.is_some());
    let found: Vec<&Source> = found.iter().filter(|s| !as_it_was || !has_ended(s)).collect();
    let old: Vec<Option<(Stamp, Known)>> = found.iter().map(|s| cache.records.remove(&s.id)).collect();
    let mut changed = false;
    if !as_it_was {
        let is_still = folder.and_then(|m| m.modified().ok()).is_some_and(|changed| {
            SystemTime::now().duration_since(changed).is_ok_and(|since| since > STILL)
        });
        cache.records_changed = now.filter(|_| is_still);
        // What is left now is of transcripts that are gone.
        changed = cache.records_changed.is_some() || !cache.records.is_empty();
        cache.records.clear();
    }
    let read = super::on_all_processors(found.len(), |n| {
        let path = dir.join(format!("{}.json", found[n].id));
        let stamp = Stamp::at(&path)?;
        match &old[n] {
            Some((was, _)) if was == &stamp => None,
            _ => record::read::<Session>(&path).ok().flatten().map(|session| (stamp, known(session))),
        }
        .or_else(|| old[n].clone().filter(|(was, _)| was == &stamp))
    });
    for (n, known) in read.into_iter().enumerate() {
        changed |= known != old[n];
        if let Some(known) = known {
            cache.records.insert(found[n].id.clone(), known);
        }
    }
    changed
}

fn known(session: Session) -> Known {
    let ended = session.ended.map(|e| e.reason);
    Known {
        agent: session.agent.to_string(),
        channel: session.channel.to_string(),
        provider: session.provider,
        process: session.process.filter(|_| ended.is_none()),
        ended,
    }
}

impl Catalogue {
    /// The title of a row; one that was only told to continue has that of the session before it.
    pub fn title<'a>(&'a self, row: &'a Row, by_id: &HashMap<&SessionId, &'a Row>) -> &'a str {
        if !row.facts.continued {
            return &row.facts.title;
        }
        let mut at = row;
        // A circle can only come from damaged files.
        for _ in 0..50 {
            if !at.facts.continued {
                break;
            }
            let from = self.links.iter().find(|l| l.to.as_ref() == Some(&at.source.id)).map(|l| &l.from);
            match from.and_then(|id| by_id.get(id)) {
                Some(before) => at = before,
                None => break,
            }
        }
        &at.facts.title
    }

    pub fn by_id(&self) -> HashMap<&SessionId, &Row> {
        self.rows.iter().map(|row| (&row.source.id, row)).collect()
    }
}

/// How a conversation stands now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    Running(u32),
    /// With the client's reason.
    Ended(String),
    /// Its process is gone and never said so.
    Died,
    /// We have no record of it; its transcript's last words tell.
    Left,
}

impl Row {
    /// The last sign of it, in milliseconds.
    pub fn when(&self) -> i64 {
        self.facts.last.or(self.facts.begun).unwrap_or(self.source.stamp.modified / 1_000_000)
    }

    pub fn last(&self) -> Timestamp {
        Timestamp::from_millisecond(self.when()).unwrap_or(Timestamp::UNIX_EPOCH)
    }

    pub fn begun(&self) -> Option<Timestamp> {
        self.facts.begun.and_then(|ms| Timestamp::from_millisecond(ms).ok())
    }

    pub fn state(&self) -> State {
        match &self.known {
            Some(Known { ended: Some(reason), .. }) => State::Ended(reason.clone()),
            Some(Known { process: Some(it), .. }) if process::is_alive(it) => State::Running(it.pid),
            Some(Known { process: Some(_), .. }) => State::Died,
            _ => State::Left,
        }
    }

    /// The provider's name, as `baton run` takes it.
    pub fn provider(&self) -> &str {
        match (&self.known, self.source.provider) {
            (Some(known), _) => &known.provider,
            (None, Provider::Claude) => "claude",
            (None, Provider::Codex) => "codex",
        }
    }

    pub fn cwd(&self) -> PathBuf {
        PathBuf::from(&self.facts.cwd)
    }
}
