//! Every conversation as one row: the ends of its transcript, our own record of it, the handoffs in and out.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use baton_core::ids::{AgentId, ChannelName, SessionId};
use baton_core::plain::{plain, plain_line};
use baton_core::process::Process;
use baton_core::redact::redact;
use baton_core::transcript::Provider;
use baton_core::transcript::summary::Summary;
use jiff::Timestamp;
use serde::Deserialize;

use super::cache::{self, Cache, Facts, Kept, Known, Link, Recorded};
use super::packed::Transcripts;
use super::sources::{self, Folder, Skipped, Source, Stamp};
use super::{ends, links, mirrors};
use crate::config::Config;
use crate::paths::Paths;
use crate::rotate::is_from_a_person;
use crate::store::mirror::Mirror;
use crate::store::{Store, record};
use crate::sys::fs::STILL;
use crate::sys::process;

/// Longest title that is kept.
const TITLE: usize = 160;

/// All conversations, newest first.
#[derive(Debug, Default)]
pub struct Catalogue {
    pub rows: Rows,
    pub skipped: Vec<Skipped>,
    pub links: Vec<Link>,
}

/// Each where it was made: they are large, and are moved several times.
pub type Rows = Vec<Box<Row>>;

/// One conversation.
#[derive(Debug, Clone)]
pub struct Row {
    pub source: Source,
    pub facts: Facts,
    pub record: Recorded,
}

/// A transcript that tells nothing.
#[derive(Debug)]
pub struct Failed {
    pub source: Source,
    pub why: &'static str,
    /// For a reason outside the file: it is read again the next time.
    pub passing: bool,
}

/// Reads what changed since the last time, and keeps it for the next.
pub fn read(paths: &Paths, config: &Config) -> Catalogue {
    let store = Store::new(paths);
    let Cache { transcripts, mut others } = cache::load(&paths.state);
    let folders = sources::folders(paths);
    let parts = super::gather(folders.len(), 1, |sorted: &mut Sorted, n| {
        sorted.look_into(&folders[n], &transcripts);
    });
    let mut sorted = parts.into_iter().reduce(Sorted::join).unwrap_or_default();
    let mirror = Mirror::new(&paths.state);
    let (orphans, mut changed) = mirrors::orphans(&mirror, sorted.ids(), &mut others.orphans);
    let mirrored = transcripts.mirrored();
    let known = mirrored.by_name();
    for source in orphans {
        let kept = known.get(&("", source.id.as_str())).and_then(|n| mirrored.kept(*n));
        sorted.put(source, kept);
    }
    // What nobody asked for is of transcripts that are gone.
    changed |= !sorted.stale.is_empty() || sorted.known < transcripts.len();
    changed |= sorted.folders.iter().any(|it| it.changed.is_some() && it.changed != it.before);
    sorted.read_stale(&mirror);
    let Sorted { mut rows, failed, mut skipped, folders, .. } = sorted;
    changed |= refresh_records(&paths.state.join("sessions"), &mut rows, &mut others.records_changed);
    changed |= links::refresh(&store.handoffs(config), &mut others.links);
    if changed {
        cache::store(&paths.state, &rows, &failed, &folders, &others);
    }
    skipped.extend(failed.into_iter().map(|it| Skipped { path: it.source.path(), why: it.why.to_string() }));
    skipped.sort_by(|a, b| a.path.cmp(&b.path));
    let links = others.links.into_values().flat_map(|(_, links)| links).collect();
    Catalogue { rows: newest_first(rows), skipped, links }
}

/// Without those that are no conversations of their own.
fn newest_first(rows: Rows) -> Rows {
    let own = rows.into_iter().filter(|row| !row.facts.foreign);
    let mut order: Vec<(i64, Box<Row>)> = own.map(|row| (row.when(), row)).collect();
    order.sort_unstable_by(|(a, one), (b, other)| b.cmp(a).then_with(|| one.source.id.cmp(&other.source.id)));
    order.into_iter().map(|(_, row)| row).collect()
}

/// Transcripts, as far as they are known.
#[derive(Default)]
struct Sorted {
    rows: Rows,
    failed: Vec<Failed>,
    skipped: Vec<Skipped>,
    /// To be read, with what is known of their sessions.
    stale: Vec<(Source, Recorded)>,
    /// How many of those that were kept are still there.
    known: usize,
    folders: Vec<Seen>,
}

/// A folder whose transcripts are known now.
#[derive(Debug)]
pub struct Seen {
    pub path: Arc<Path>,
    /// When its names last changed, if they need not be read again as long as that stays so.
    pub changed: Option<i64>,
    /// What was known of that.
    pub before: Option<i64>,
}

impl Sorted {
    fn look_into(&mut self, folder: &Folder, old: &Transcripts) {
        let Some(folder) = folder.open() else { return };
        let before = old.in_folder(folder.name);
        let skipped = self.skipped.len();
        // Asked first: what changes while its names are read shows the next time.
        let changed = folder.changed();
        if changed.is_some() && changed == before.changed {
            for n in 0..before.len() {
                match before.name(n).and_then(|(prefix, id)| folder.one(prefix, id)) {
                    Some(Ok(source)) => self.put(source, before.kept(n)),
                    Some(Err(skipped)) => self.skipped.push(skipped),
                    None => {}
                }
            }
        } else {
            let known = before.by_name();
            folder.all(|found| match found {
                Ok(source) => {
                    let name = (source.in_client().map_or("", |(_, prefix)| prefix), source.id.as_str());
                    let kept = known.get(&name).and_then(|n| before.kept(*n));
                    self.put(source, kept);
                }
                Err(skipped) => self.skipped.push(skipped),
            });
        }
        // The names of what was passed over are not kept.
        let changed = changed.filter(|_| self.skipped.len() == skipped);
        self.folders.push(Seen { path: folder.path, changed, before: before.changed });
    }

    fn put(&mut self, source: Source, kept: Option<Kept>) {
        let Some(kept) = kept else {
            self.stale.push((source, Recorded::NotLookedFor));
            return;
        };
        self.known += 1;
        match kept.facts {
            // Its session is the same as before.
            _ if kept.stamp != source.stamp => self.stale.push((source, kept.record)),
            Ok(facts) => self.rows.push(Box::new(Row { source, facts, record: kept.record })),
            Err(why) => self.failed.push(Failed { source, why, passing: false }),
        }
    }

    fn join(mut self, mut other: Self) -> Self {
        self.rows.append(&mut other.rows);
        self.failed.append(&mut other.failed);
        self.skipped.append(&mut other.skipped);
        self.stale.append(&mut other.stale);
        self.known += other.known;
        self.folders.append(&mut other.folders);
        self
    }

    fn ids(&self) -> impl Iterator<Item = &SessionId> {
        let rows = self.rows.iter().map(|row| &row.source);
        let others = self.failed.iter().map(|it| &it.source).chain(self.stale.iter().map(|(it, _)| it));
        rows.chain(others).map(|source| &source.id)
    }

    fn read_stale(&mut self, mirror: &Mirror) {
        let stale = std::mem::take(&mut self.stale);
        let read = super::on_all_processors(stale.len(), 16, |n| {
            let source = &stale[n].0;
            let read = if source.is_mirrored() {
                mirrors::ends(mirror, &source.id, source.provider)
            } else {
                ends::read(&source.path(), source.provider)
            };
            read.map(|it| facts(source, &it))
        });
        for ((source, record), read) in stale.into_iter().zip(read) {
            match read {
                Ok(facts) => self.rows.push(Box::new(Row { source, facts, record })),
                Err(no) => {
                    let why = plain_line(&no.why, 200).leak();
                    self.failed.push(Failed { source, why, passing: no.passing });
                }
            }
        }
    }
}

/// For as long as the process: it lists once and ends, so its rows own nothing and are copied for nothing.
pub(super) fn kept(text: String) -> &'static str {
    if text.is_empty() { "" } else { text.leak() }
}

fn facts(source: &Source, it: &Summary) -> Facts {
    let safe = |text: &str| plain_line(&redact(&plain(text)).text, TITLE);
    let name = |text: &Option<String>| {
        text.as_deref().map(|text| plain_line(text, 60)).filter(|text| !text.is_empty()).map(kept)
    };
    Facts {
        // It is shown and pasted into commands: one that would not be read as it is written is none.
        cwd: it.cwd.clone().filter(|cwd| !cwd.contains(['\n', '\t']) && plain(cwd) == *cwd).map_or("", kept),
        branch: name(&it.branch),
        title: it.about().map_or("", |about| kept(safe(about))),
        continued: it.asked.as_deref().is_some_and(|asked| !is_from_a_person(asked)),
        begun: it.begun.map(Timestamp::as_millisecond),
        last: it.last.map(Timestamp::as_millisecond),
        tokens: it.tokens,
        model: name(&it.model),
        ending: it.ending,
        foreign: it.sidechain || it.provider.is_some_and(|p| p != source.provider),
    }
}

/// What begins is put into its folder by renaming, which the folder's time shows; a record that is there grows where it
/// lies when its session ends. Of a folder that is as it was only those are looked at that have not ended.
fn refresh_records(dir: &Path, rows: &mut [Box<Row>], records_changed: &mut Option<i64>) -> bool {
    let folder = std::fs::symlink_metadata(dir).ok();
    let now = folder.as_ref().map(|m| Stamp::of(m).modified);
    let as_it_was = now.is_some() && now == *records_changed;
    let mut changed = false;
    if !as_it_was {
        let is_still = folder.and_then(|m| m.modified().ok()).is_some_and(|changed| {
            SystemTime::now().duration_since(changed).is_ok_and(|since| since > STILL)
        });
        *records_changed = now.filter(|_| is_still);
        changed = records_changed.is_some();
    }
    let may_change = |row: &Row| match &row.record {
        Recorded::NotLookedFor => true,
        Recorded::None => false,
        Recorded::Is(_, known) => known.ended.is_none(),
    };
    let due: Vec<usize> = (0..rows.len()).filter(|n| !as_it_was || may_change(&rows[*n])).collect();
    let read = super::on_all_processors(due.len(), 16, |n| {
        let row = &rows[due[n]];
        let path = dir.join([row.source.id.as_str(), ".json"].concat());
        let Some(stamp) = Stamp::at(&path) else { return Recorded::None };
        match &row.record {
            Recorded::Is(was, known) if *was == stamp => Recorded::Is(stamp, known.clone()),
            _ => match record::read::<Told>(&path) {
                Ok(Some(told)) => Recorded::Is(stamp, known(told)),
                _ => Recorded::None,
            },
        }
    });
    for (n, now) in due.into_iter().zip(read) {
        changed |= now != rows[n].record;
        rows[n].record = now;
    }
    changed
}

/// What a listing wants of a record.
#[derive(Deserialize)]
struct Told {
    provider: String,
    agent: AgentId,
    channel: ChannelName,
    #[serde(default)]
    process: Option<Process>,
    #[serde(default)]
    ended: Option<Ended>,
}

#[derive(Deserialize)]
struct Ended {
    reason: String,
}

fn known(told: Told) -> Known {
    let ended = told.ended.map(|e| kept(plain_line(&e.reason, 200)));
    Known {
        agent: kept(told.agent.to_string()),
        channel: kept(told.channel.to_string()),
        provider: kept(plain_line(&told.provider, 60)),
        process: told.process.filter(|_| ended.is_none()).map(Box::new),
        ended,
    }
}

/// By which a session that only continued has the title of the one before it.
pub struct Titles<'c> {
    by_id: HashMap<&'c SessionId, &'c Row>,
    /// Whose handoff a session loaded.
    before: HashMap<&'c SessionId, &'c SessionId>,
}

impl<'c> Titles<'c> {
    pub fn new(catalogue: &'c Catalogue) -> Self {
        let mut before = HashMap::new();
        for link in &catalogue.links {
            if let Some(to) = &link.to {
                before.entry(to).or_insert(&link.from);
            }
        }
        Self { by_id: catalogue.by_id(), before }
    }

    /// The title of `row`, or of the one where its work began.
    pub fn of<'a>(&'a self, row: &'a Row) -> &'a str {
        let mut at = row;
        // A circle can only come from damaged files.
        for _ in 0..50 {
            if !at.facts.continued {
                break;
            }
            match self.before.get(&at.source.id).and_then(|id| self.by_id.get(id)) {
                Some(before) => at = before,
                None => break,
            }
        }
        at.facts.title
    }
}

impl Catalogue {
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().map(|row| &**row)
    }

    pub fn by_id(&self) -> HashMap<&SessionId, &Row> {
        self.rows().map(|row| (&row.source.id, row)).collect()
    }
}

/// How a conversation stands now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    Running(u32),
    /// With the client's reason.
    Ended(&'static str),
    /// Its process is gone and never said so.
    Died,
    /// We have no record of it; its transcript's last words tell.
    Left,
}

impl Row {
    /// What our own record of it says.
    pub fn known(&self) -> Option<&Known> {
        match &self.record {
            Recorded::Is(_, known) => Some(known),
            Recorded::None | Recorded::NotLookedFor => None,
        }
    }

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
        match self.known() {
            Some(Known { ended: Some(reason), .. }) => State::Ended(reason),
            Some(Known { process: Some(it), .. }) if process::is_alive(it) => State::Running(it.pid),
            Some(Known { process: Some(_), .. }) => State::Died,
            _ => State::Left,
        }
    }

    /// The provider's name, as `baton run` takes it.
    pub fn provider(&self) -> &str {
        match (self.known(), self.source.provider) {
            (Some(known), _) => known.provider,
            (None, Provider::Claude) => "claude",
            (None, Provider::Codex) => "codex",
        }
    }

    pub fn cwd(&self) -> PathBuf {
        PathBuf::from(self.facts.cwd)
    }
}
