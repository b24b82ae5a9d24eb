//! Mail for other machines: one parcel per file, synced before its sender is told that it was accepted. Its folder
//! shows whether the database has it; `receipts.jsonl` shows how far it has come.

use std::collections::HashMap;
#[cfg(any(feature = "fleet", test))]
use std::collections::HashSet;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use baton_core::fleet::MachineName;
use baton_core::fleet::envelope::Kind;
use baton_core::fleet::stage::{Receipt, Stage};
#[cfg(any(feature = "fleet", test))]
use baton_core::fleet::watermark;
use baton_core::ids::{ChannelName, unsafe_name};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::fleet::folder;
use crate::store::record;
use crate::sys::fs::{self, FileError, PRIVATE, Sync};

/// More than so many waiting parcels are not accepted.
const MAX_WAITING: usize = 20_000;
/// Nor more than so many bytes.
const MAX_BYTES: u64 = 512 << 20;
/// So many bytes of parcels are read at once.
#[cfg(any(feature = "fleet", test))]
const MAX_BATCH: u64 = 8 << 20;

/// Something for another machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Parcel {
    /// The file's name; sorts by time.
    pub name: String,
    pub to: MachineName,
    pub kind: Kind,
    pub at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
    /// The body to seal, as [`baton_core::fleet::envelope`] defines it for its kind.
    pub body: Value,
    /// The channel whose data this is, where it is one's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<ChannelName>,
}

impl Parcel {
    /// Its id in the whole fleet.
    pub(crate) fn id(&self, me: &MachineName) -> String {
        format!("{me}.{}", self.name)
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum OutboxError {
    #[error(
        "{waiting} parcels of {bytes} bytes wait for the database already, and no more are accepted; \
         `baton fleet status` tells since when it is away"
    )]
    Full { waiting: usize, bytes: u64 },
    #[error(transparent)]
    File(#[from] FileError),
}

/// How much waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Backlog {
    pub parcels: usize,
    pub bytes: u64,
    pub since: Option<Timestamp>,
}

pub(crate) struct Outbox {
    root: PathBuf,
}

static COUNT: AtomicU32 = AtomicU32::new(0);

impl Outbox {
    pub(crate) fn of(state: &Path) -> Self {
        Self { root: folder(state).join("outbox") }
    }

    fn dir(&self, place: &str) -> PathBuf {
        self.root.join(place)
    }

    /// Accepts a parcel. When this returns it is on disk and will not be lost.
    pub(crate) fn put(
        &self,
        to: &MachineName,
        kind: Kind,
        expires: Option<Timestamp>,
        body: Value,
        now: Timestamp,
    ) -> Result<Parcel, OutboxError> {
        self.put_of(to, kind, expires, body, None, now)
    }

    /// The same for data of a channel.
    pub(crate) fn put_of(
        &self,
        to: &MachineName,
        kind: Kind,
        expires: Option<Timestamp>,
        body: Value,
        channel: Option<ChannelName>,
        now: Timestamp,
    ) -> Result<Parcel, OutboxError> {
        let backlog = self.backlog()?;
        if backlog.parcels >= MAX_WAITING || backlog.bytes >= MAX_BYTES {
            return Err(OutboxError::Full { waiting: backlog.parcels, bytes: backlog.bytes });
        }
        fs::private_dirs(&self.root, &["new", "sent", "failed"])?;
        // If the clock was set back, the parcel must still sort after those that wait already.
        let class = class(kind);
        let waiting = names(&self.dir("new"))?;
        let last = waiting.iter().rev().find(|name| name.starts_with(class)).and_then(|name| stamp(name));
        let stamp = last.map_or(now.as_nanosecond(), |last| now.as_nanosecond().max(last + 1));
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{class}{stamp:020}-{}-{count:04}", std::process::id());
        let parcel = Parcel { name, to: to.clone(), kind, at: now, expires, body, channel };
        let path = self.dir("new").join(format!("{}.json", parcel.name));
        let bytes = record::encode(&parcel).map_err(|e| FileError::new("encode", &path, e))?;
        fs::create(&path, &bytes, PRIVATE, Sync::Yes)?;
        Ok(parcel)
    }

    #[cfg(any(feature = "fleet", test))]
    /// The oldest parcels that wait, at most `n`. An unreadable one waits for a person and does not delay the others.
    pub(crate) fn waiting(&self, n: usize) -> Result<Vec<Parcel>, FileError> {
        let dir = self.dir("new");
        let (mut parcels, mut bytes) = (Vec::new(), 0);
        for name in names(&dir)? {
            if parcels.len() == n || bytes >= MAX_BATCH {
                break;
            }
            let path = dir.join(format!("{name}.json"));
            bytes += std::fs::metadata(&path).map_or(0, |about| about.len());
            // Reading sets a damaged parcel aside; a newer baton's parcel waits for that version.
            if let Ok(Some(parcel)) = record::read::<Parcel>(&path)
                && parcel.name == name
            {
                parcels.push(parcel);
            }
        }
        Ok(parcels)
    }

    pub(crate) fn backlog(&self) -> Result<Backlog, FileError> {
        let mut backlog = Backlog::default();
        let dir = self.dir("new");
        for name in names(&dir)? {
            let Some(stamp) = stamp(&name) else { continue };
            backlog.parcels += 1;
            // It may have been sent since.
            backlog.bytes += std::fs::metadata(dir.join(format!("{name}.json"))).map_or(0, |meta| meta.len());
            let at = Timestamp::from_nanosecond(stamp).ok();
            backlog.since = backlog.since.into_iter().chain(at).min();
        }
        Ok(backlog)
    }

    #[cfg(any(feature = "fleet", test))]
    /// The database has these, or says that it will never take them.
    pub(crate) fn settle(
        &self,
        parcels: &[&Parcel],
        me: &MachineName,
        stage: Stage,
        evidence: &str,
        now: Timestamp,
    ) -> Result<(), FileError> {
        let place = if stage == Stage::Failed { "failed" } else { "sent" };
        for parcel in parcels {
            let file = format!("{}.json", parcel.name);
            let (from, to) = (self.dir("new").join(&file), self.dir(place).join(&file));
            match std::fs::rename(&from, &to) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                    return Err(FileError::new("settle", &from, e));
                }
                _ => {}
            }
        }
        let receipt =
            |parcel: &&Parcel| Receipt { id: parcel.id(me), stage, at: now, evidence: evidence.to_owned() };
        self.note(&parcels.iter().filter(|p| p.kind != Kind::Receipts).map(receipt).collect::<Vec<_>>())
    }

    #[cfg(any(feature = "fleet", test))]
    /// Appends receipts. Losing one loses the evidence, not the parcel.
    pub(crate) fn note(&self, receipts: &[Receipt]) -> Result<(), FileError> {
        if receipts.is_empty() {
            return Ok(());
        }
        let path = self.root.join("receipts.jsonl");
        let mut lines = Vec::new();
        for receipt in receipts {
            lines.extend(record::encode(receipt).map_err(|e| FileError::new("encode", &path, e))?);
        }
        // A machine that has only given handoffs away has no outbox yet.
        fs::private_dir(&self.root)?;
        fs::append_line(&path, &lines, PRIVATE)
    }

    /// How far each parcel has come, by its id in the fleet.
    pub(crate) fn receipts(&self) -> Result<HashMap<String, Receipt>, FileError> {
        let path = self.root.join("receipts.jsonl");
        let fail = |e: std::io::Error| FileError::new("read", &path, e);
        let mut known: HashMap<String, Receipt> = HashMap::new();
        let file = match fs::open_read(&path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(known),
            opened => opened.map_err(fail)?,
        };
        // However many there are: the database is not used again after a restore before this is read.
        for line in BufReader::new(file).split(b'\n') {
            // A line that a kill cut short says nothing.
            let Ok(receipt) = serde_json::from_slice::<Receipt>(&line.map_err(fail)?) else { continue };
            let joined = match known.remove(&receipt.id) {
                Some(earlier) => earlier.join(receipt),
                None => receipt,
            };
            known.insert(joined.id.clone(), joined);
        }
        Ok(known)
    }

    #[cfg(any(feature = "fleet", test))]
    /// The machine that a parcel of this name is for; `None` if it is gone.
    pub(crate) fn reader(&self, name: &str) -> Result<Option<MachineName>, FileError> {
        if unsafe_name(name).is_some() {
            return Ok(None);
        }
        for place in ["sent", "new", "failed"] {
            if let Some(parcel) = record::read::<Parcel>(&self.dir(place).join(format!("{name}.json")))? {
                return Ok(Some(parcel.to));
            }
        }
        Ok(None)
    }

    /// Every parcel on record with how far it has come, oldest first.
    pub(crate) fn all(&self, me: &MachineName) -> Result<Vec<(Parcel, Receipt)>, FileError> {
        let receipts = self.receipts()?;
        let mut all = Vec::new();
        for (place, stage) in [("new", Stage::Queued), ("sent", Stage::Stored), ("failed", Stage::Failed)] {
            for parcel in record::all_readable::<Parcel>(&self.dir(place)) {
                let by_place = Receipt { id: parcel.id(me), stage, at: parcel.at, evidence: String::new() };
                let known = receipts.get(&by_place.id).cloned();
                let receipt = known.map_or(by_place.clone(), |known| known.join(by_place));
                all.push((parcel, receipt));
            }
        }
        all.sort_by(|a, b| a.0.name.cmp(&b.0.name));
        Ok(all)
    }

    #[cfg(feature = "fleet")]
    /// The names of a channel's parcels in these folders. Fails if one cannot be read: it might be one of them.
    pub(crate) fn of_channel(
        &self,
        places: &[&str],
        channel: &ChannelName,
    ) -> Result<Vec<String>, FileError> {
        let mut found = Vec::new();
        for place in places {
            for name in names(&self.dir(place))? {
                let parcel = record::read::<Parcel>(&self.dir(place).join(format!("{name}.json")))?;
                if parcel.is_some_and(|parcel| parcel.channel.as_ref() == Some(channel)) {
                    found.push(name);
                }
            }
        }
        Ok(found)
    }

    #[cfg(feature = "fleet")]
    /// Removes parcels, wherever they are.
    pub(crate) fn remove(&self, names: &[String]) -> Result<(), FileError> {
        // In this order: the daemon may be moving them on.
        for place in ["new", "sent", "failed"] {
            for name in names {
                fs::remove(&self.dir(place).join(format!("{name}.json")))?;
            }
        }
        Ok(())
    }

    #[cfg(any(feature = "fleet", test))]
    /// After the database was restored from a backup, queues every parcel again that the other side has not confirmed,
    /// in the old order. Returns their number.
    pub(crate) fn send_again(&self, me: &MachineName) -> Result<usize, FileError> {
        let receipts = self.receipts()?;
        let mut again = 0;
        for name in names(&self.dir("sent"))? {
            let is_there = receipts.get(&format!("{me}.{name}")).is_some_and(|r| r.stage.is_there());
            if is_there {
                continue;
            }
            let file = format!("{name}.json");
            let (from, to) = (self.dir("sent").join(&file), self.dir("new").join(&file));
            std::fs::rename(&from, &to).map_err(|e| FileError::new("send again", &from, e))?;
            again += 1;
        }
        Ok(again)
    }

    #[cfg(any(feature = "fleet", test))]
    /// Removes parcels that were acknowledged more than a week ago, and the receipts of parcels that are gone.
    pub(crate) fn sweep(&self, me: &MachineName, now: Timestamp) -> Result<(), FileError> {
        let is_old = |at: Timestamp| now.duration_since(at) > watermark::KEPT;
        let mut kept: HashSet<String> = HashSet::new();
        for place in ["sent", "failed", "new"] {
            for name in names(&self.dir(place))? {
                let path = self.dir(place).join(format!("{name}.json"));
                if place != "new" && moved(&path)?.is_some_and(is_old) {
                    fs::remove(&path)?;
                } else {
                    kept.insert(format!("{me}.{name}"));
                }
            }
        }
        let mut receipts = self.receipts()?;
        let all = receipts.len();
        // Of a handoff that has moved there is no parcel here.
        receipts.retain(|id, receipt| kept.contains(id) || !is_old(receipt.at));
        if receipts.len() < all {
            let path = self.root.join("receipts.jsonl");
            let mut lines = Vec::new();
            for receipt in receipts.values() {
                lines.extend(record::encode(receipt).map_err(|e| FileError::new("encode", &path, e))?);
            }
            fs::replace(&path, &lines, PRIVATE, Sync::Later)?;
        }
        Ok(())
    }
}

/// When a file was renamed to where it is: its status changed then. None: it is gone.
#[cfg(any(feature = "fleet", test))]
fn moved(path: &Path) -> Result<Option<Timestamp>, FileError> {
    use std::os::unix::fs::MetadataExt as _;
    match std::fs::symlink_metadata(path) {
        Ok(about) => Ok(Timestamp::from_second(about.ctime()).ok()),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(FileError::new("look at", path, e)),
    }
}

/// The first letter of a parcel's name. Parcels are sent in the order of their names, so mail goes before conversations.
fn class(kind: Kind) -> char {
    if kind == Kind::Chunk { 't' } else { 'm' }
}

/// The time in a parcel's name.
fn stamp(name: &str) -> Option<i128> {
    name.strip_prefix(['m', 't'])?.split_once('-')?.0.parse().ok()
}

/// Names of parcels in order; a folder that is not there is empty.
fn names(dir: &Path) -> Result<Vec<String>, FileError> {
    let is_parcel = |name: &&str| unsafe_name(name).is_none() && !name.contains(".damaged-");
    let files = fs::names(dir)?;
    let names = files.iter().filter_map(|file| file.strip_suffix(".json")).filter(is_parcel);
    Ok(names.map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use serde_json::json;

    use super::*;

    fn machine(name: &str) -> MachineName {
        MachineName::new(name).unwrap()
    }

    fn put(outbox: &Outbox, n: u32, now: Timestamp) -> Parcel {
        outbox.put(&machine("desk"), Kind::Mail, None, json!({ "n": n }), now).unwrap()
    }

    #[test]
    fn parcels_keep_their_order_although_the_clock_is_set_back() {
        let dir = tempfile::tempdir().unwrap();
        let outbox = Outbox::of(dir.path());
        let now = Timestamp::now();
        for n in 0..5 {
            put(&outbox, n, now - SignedDuration::from_hours(i64::from(n)));
        }
        let order: Vec<_> =
            outbox.waiting(4).unwrap().iter().map(|p| p.body["n"].as_u64().unwrap()).collect();
        assert_eq!(order, [0, 1, 2, 3]);
        assert_eq!(outbox.backlog().unwrap().parcels, 5);
    }

    #[test]
    fn what_the_other_side_has_is_not_sent_again_and_the_rest_is_in_its_old_order() {
        let dir = tempfile::tempdir().unwrap();
        let (outbox, me, now) = (Outbox::of(dir.path()), machine("laptop"), Timestamp::now());
        let sent: Vec<Parcel> = (0..3).map(|n| put(&outbox, n, now)).collect();
        outbox.settle(&sent.iter().collect::<Vec<_>>(), &me, Stage::Stored, "", now).unwrap();
        assert_eq!(outbox.backlog().unwrap(), Backlog::default());
        let receipt = |n: usize, stage| Receipt { id: sent[n].id(&me), stage, at: now, evidence: "e".into() };
        // Late, twice and out of order.
        outbox.note(&[receipt(1, Stage::Seen), receipt(1, Stage::Fetched)]).unwrap();
        let stages: Vec<Stage> = outbox.all(&me).unwrap().iter().map(|(_, r)| r.stage).collect();
        assert_eq!(stages, [Stage::Stored, Stage::Seen, Stage::Stored]);
        let waiting = put(&outbox, 3, now + SignedDuration::from_secs(1));
        assert_eq!(outbox.send_again(&me).unwrap(), 2);
        let again: Vec<String> = outbox.waiting(9).unwrap().into_iter().map(|p| p.name).collect();
        assert_eq!(again, [&sent[0].name, &sent[2].name, &waiting.name].map(Clone::clone));
    }

    #[test]
    fn a_week_after_it_was_acknowledged_a_parcel_goes_with_its_receipts() {
        let dir = tempfile::tempdir().unwrap();
        let (outbox, me, now) = (Outbox::of(dir.path()), machine("laptop"), Timestamp::now());
        let week = SignedDuration::from_hours(7 * 24);
        // It has waited for longer than a week: what counts is when the database took it.
        let late = put(&outbox, 0, now - week * 2);
        outbox.settle(&[&late], &me, Stage::Stored, "", now).unwrap();
        let handoff = Receipt {
            id: "laptop.hHO-1".into(),
            stage: Stage::Fetched,
            at: now - week * 2,
            evidence: String::new(),
        };
        outbox.note(&[handoff]).unwrap();
        let waits = put(&outbox, 1, now - week * 2);
        outbox.sweep(&me, now).unwrap();
        let left = || -> Vec<String> { outbox.all(&me).unwrap().into_iter().map(|(p, _)| p.name).collect() };
        assert_eq!(left(), [late.name.clone(), waits.name.clone()]);
        assert_eq!(outbox.receipts().unwrap().into_keys().collect::<Vec<_>>(), [late.id(&me)]);
        outbox.sweep(&me, now + week + SignedDuration::from_hours(1)).unwrap();
        assert_eq!(left(), [waits.name], "what waits is never removed");
        assert!(outbox.receipts().unwrap().is_empty());
    }

    #[test]
    fn a_folder_that_cannot_be_listed_is_not_an_empty_one() {
        let dir = tempfile::tempdir().unwrap();
        let (outbox, me) = (Outbox::of(dir.path()), machine("laptop"));
        put(&outbox, 0, Timestamp::now());
        for place in ["new", "sent"] {
            let _ = std::fs::remove_dir_all(outbox.dir(place));
            std::fs::write(outbox.dir(place), "no folder").unwrap();
        }
        assert!(outbox.waiting(1).is_err() && outbox.backlog().is_err());
        assert!(outbox.send_again(&me).is_err(), "what was sent would be lost after a restore");
        assert!(outbox.sweep(&me, Timestamp::now()).is_err());
    }

    #[test]
    fn a_receipt_counts_from_the_machine_that_the_parcel_is_for() {
        let dir = tempfile::tempdir().unwrap();
        let outbox = Outbox::of(dir.path());
        let parcel = put(&outbox, 0, Timestamp::now());
        assert_eq!(outbox.reader(&parcel.name).unwrap(), Some(machine("desk")));
        outbox.settle(&[&parcel], &machine("laptop"), Stage::Stored, "", Timestamp::now()).unwrap();
        assert_eq!(outbox.reader(&parcel.name).unwrap(), Some(machine("desk")));
        assert_eq!(outbox.reader("m1-1-1").unwrap(), None);
        assert_eq!(outbox.reader("../config").unwrap(), None);
    }
}
