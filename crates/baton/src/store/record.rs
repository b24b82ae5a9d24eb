//! Small JSON records, each changed under its own lock.
//!
//! Each record's first field, `v`, is the version of its format. Older versions (none at all is version 0) are read; a
//! newer baton's record is refused with an error and left as it is. A record that cannot be parsed is set aside and
//! treated as missing: the work continues, the bytes stay.
//!
//! Records that hooks change at every turn grow by lines instead of being replaced: the last complete line is the
//! record. When the file gets large, it is replaced by that line.

use std::borrow::Cow;
use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use baton_core::scan;
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::sys::fs::{self, FileError, PRIVATE, Sync};
use crate::sys::grown::{Access, GrownFile};
use crate::sys::lock::{Lock, LockError};

/// Our records are smaller; a larger file is damaged.
const MAX: u64 = 4 << 20;
/// A growing file that would become larger than this is replaced by its last line.
const GROWN: u64 = 32 << 10;

/// The version of every record's format.
pub(crate) const VERSION: u32 = 1;

#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Lock(#[from] LockError),
}

/// The record at `path`; `None` if there is none or it was damaged and set aside.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, FileError> {
    let Some(file) = GrownFile::open(path, MAX, Access::Read)? else { return Ok(None) };
    Ok(understood(path, &file)?.map(|record| *record))
}

/// All records in `dir`, in no order. Fails if one of them, or the folder, cannot be read.
pub(crate) fn every<T: DeserializeOwned>(dir: &Path) -> Result<Vec<T>, FileError> {
    let mut records = Vec::new();
    for name in fs::names(dir)?.iter().filter(|name| name.strip_suffix(".json").is_some()) {
        records.extend(read(&dir.join(name))?);
    }
    Ok(records)
}

/// The readable records in `dir`, in no order. Use [`every`] to decide by what is missing.
pub(crate) fn all_readable<T: DeserializeOwned>(dir: &Path) -> Vec<T> {
    let paths = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let records = paths.filter(|path| path.extension().is_some_and(|e| e == "json"));
    records.filter_map(|path| read(&path).ok().flatten()).collect()
}

fn understood<T: DeserializeOwned>(path: &Path, file: &GrownFile) -> Result<Option<Box<T>>, FileError> {
    let mut outcome = newest(&file.end);
    if matches!(outcome, Outcome::Unknown) && !file.is_whole() {
        outcome = newest(&file.all(path, MAX)?);
    }
    match outcome {
        Outcome::Record(record) => Ok(Some(record)),
        Outcome::Newer(version) => Err(newer(path, version)),
        Outcome::Unknown => {
            let stamp = Timestamp::now().strftime("%Y%m%d-%H%M%S").to_string();
            fs::set_aside(path, &stamp)?;
            Ok(None)
        }
    }
}

/// The error for a file of a newer format. Such a file must not be changed or repaired.
pub(crate) fn newer(path: &Path, version: u64) -> FileError {
    let why = format!(
        "a newer baton wrote it (format {version}, this one knows {VERSION}); it is left as it is. Update baton, \
         or use the one that wrote it"
    );
    FileError::new("read", path, std::io::Error::other(why))
}

/// The record is boxed, because a session's is more than a kilobyte and every caller would copy it on its stack: each page
/// of stack that a hook touches costs it two microseconds.
enum Outcome<T> {
    Record(Box<T>),
    Newer(u64),
    Unknown,
}

/// The last line that is a record. A writer that died or ran out of space leaves half a line behind. A record that a
/// person has formatted over several lines is accepted too.
fn newest<T: DeserializeOwned>(bytes: &[u8]) -> Outcome<T> {
    let mut rest = bytes.trim_ascii_end();
    while !rest.is_empty() {
        let before = scan::last(b'\n', rest);
        let line = &rest[before.map_or(0, |newline| newline + 1)..];
        if line.first() == Some(&b'{') {
            match decode(line) {
                Outcome::Unknown => {}
                outcome => return outcome,
            }
        }
        rest = &rest[..before.unwrap_or(0)];
    }
    decode(bytes)
}

/// One record, however it is formatted.
fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Outcome<T> {
    let (version, body) = split(bytes).unwrap_or_else(|| formatted(bytes));
    if version > u64::from(VERSION) {
        return Outcome::Newer(version);
    }
    match serde_json::from_slice(&body) {
        Ok(record) => Outcome::Record(Box::new(record)),
        Err(_) => wrapped(&body),
    }
}

/// Version and fields of a record that a person has formatted, or from before records had versions.
#[cold]
#[inline(never)]
fn formatted(bytes: &[u8]) -> (u64, Cow<'_, [u8]>) {
    match serde_json::from_slice::<serde_json::Value>(bytes) {
        Ok(serde_json::Value::Object(mut fields)) if fields.contains_key("v") => {
            let version = fields.remove("v").and_then(|v| v.as_u64()).unwrap_or(u64::MAX);
            (version, Cow::Owned(serde_json::to_vec(&fields).unwrap_or_default()))
        }
        _ => (0, Cow::Borrowed(bytes)),
    }
}

#[cold]
#[inline(never)]
fn wrapped<T: DeserializeOwned>(body: &[u8]) -> Outcome<T> {
    serde_json::from_slice::<Wrapped<T>>(body).map_or(Outcome::Unknown, |w| Outcome::Record(Box::new(w.all)))
}

/// A list or a text has no fields, so it is wrapped in one, beside the version. Version 0.1 wrote them bare.
#[derive(Deserialize)]
struct Wrapped<T> {
    all: T,
}

/// Parses the bytes of `path` as a record. `None` if they are not one; nothing is set aside.
pub(crate) fn parse<T: DeserializeOwned>(path: &Path, bytes: &[u8]) -> Result<Option<T>, FileError> {
    match decode(bytes) {
        Outcome::Record(record) => Ok(Some(*record)),
        Outcome::Newer(version) => Err(newer(path, version)),
        Outcome::Unknown => Ok(None),
    }
}

/// Version and fields of a record as [`encode`] wrote it.
fn split(bytes: &[u8]) -> Option<(u64, Cow<'_, [u8]>)> {
    let rest = bytes.strip_prefix(b"{\"v\":")?;
    let digits = rest.iter().position(|b| !b.is_ascii_digit())?;
    let version = std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()?;
    let body = match rest[digits] {
        b',' => [b"{", &rest[digits + 1..]].concat(),
        b'}' => b"{}".to_vec(),
        _ => return None,
    };
    Some((version, Cow::Owned(body)))
}

/// The record on one line, its version first.
pub(crate) fn encode<T: Serialize>(record: &T) -> serde_json::Result<Vec<u8>> {
    let mut bytes = format!("{{\"v\":{VERSION}").into_bytes();
    let start = bytes.len();
    serde_json::to_writer(&mut bytes, record)?;
    match &bytes[start..] {
        [b'{', b'}'] => drop(bytes.remove(start)),
        // The record's own brace becomes the comma after the version.
        [b'{', ..] => bytes[start] = b',',
        // Wrap a list or a text in a field, as `Wrapped` reads it.
        _ => {
            bytes.splice(start..start, *b",\"all\":");
            bytes.push(b'}');
        }
    }
    bytes.push(b'\n');
    Ok(bytes)
}

/// Refuses to replace a newer baton's record. A reader would already have got this error; the check covers writers that
/// have not read the record.
fn refuse_newer(path: &Path) -> Result<(), FileError> {
    let mut head = Vec::new();
    // A growing file is never longer than this, and a longer record begins with its version.
    let read = fs::open_read(path).and_then(|file| file.take(2 * GROWN).read_to_end(&mut head));
    if read.is_err() {
        return Ok(());
    }
    let version = |line: &[u8]| {
        let digits = line.strip_prefix(b"{\"v\":")?.split(|b| !b.is_ascii_digit()).next()?;
        std::str::from_utf8(digits).ok()?.parse::<u64>().ok()
    };
    match head.split(|b| *b == b'\n').filter_map(version).max() {
        Some(version) if version > u64::from(VERSION) => Err(newer(path, version)),
        _ => Ok(()),
    }
}

fn replace(path: &Path, bytes: &[u8], sync: Sync) -> Result<(), FileError> {
    refuse_newer(path)?;
    with_folder(path, || fs::replace(path, bytes, PRIVATE, sync))
}

/// Replaces the record and syncs it, because crash recovery reads it.
pub(crate) fn write_synced<T: Serialize>(path: &Path, record: &T) -> Result<(), FileError> {
    replace(path, &line(path, record)?, Sync::Yes)
}

/// Replaces the record. Not synced, because the clients' next reports rebuild it.
pub(crate) fn write<T: Serialize>(path: &Path, record: &T) -> Result<(), FileError> {
    replace(path, &line(path, record)?, Sync::No)
}

fn line<T: Serialize>(path: &Path, record: &T) -> Result<Vec<u8>, FileError> {
    encode(record).map_err(|e| FileError::new("encode", path, e))
}

/// A record that grows by lines, and the file it came from.
#[derive(Default)]
pub struct GrowingRecord<T> {
    pub record: Option<Box<T>>,
    file: Option<GrownFile>,
}

impl<T: Serialize + DeserializeOwned> GrowingRecord<T> {
    /// A record that can only be read.
    pub fn of(record: Option<T>) -> Self {
        Self { record: record.map(Box::new), file: None }
    }

    pub fn read(path: &Path) -> Result<Self, FileError> {
        let Some(file) = GrownFile::open(path, MAX, Access::Append)? else {
            return Ok(Self { record: None, file: None });
        };
        let record = understood(path, &file)?;
        // A file that was set aside is no longer at its path.
        Ok(Self { file: record.is_some().then_some(file), record })
    }

    /// Whether the open file is still the one at its path.
    fn is_current(&self) -> bool {
        self.record.is_some() && self.file.as_ref().is_some_and(GrownFile::is_current)
    }

    /// Makes `record` the newest. `path` is where this was read from.
    pub fn write(self, path: &Path, record: &T) -> Result<(), FileError> {
        let bytes = line(path, record)?;
        match self.file {
            Some(mut file) if file.size() + bytes.len() as u64 <= GROWN => {
                file.append(&bytes).map_err(|e| FileError::new("append to", path, e))
            }
            _ => replace(path, &bytes, Sync::No),
        }
    }
}

/// Creates the record. Returns `false` if there is one already.
pub(crate) fn create<T: Serialize>(path: &Path, record: &T) -> Result<bool, FileError> {
    let bytes = line(path, record)?;
    with_folder(path, || fs::create(path, &bytes, PRIVATE, Sync::No))
}

/// Tries `act`, and once more after creating the folder, so that the usual case does not check for it.
fn with_folder<T>(path: &Path, act: impl Fn() -> Result<T, FileError>) -> Result<T, FileError> {
    match act() {
        Err(e) if e.source.kind() == std::io::ErrorKind::NotFound => {
            fs::private_dir(path.parent().unwrap_or(Path::new("/")))?;
            act()
        }
        other => other,
    }
}

/// Changes the record under its lock and returns what `change` returned; `None` if there is no record. Writes only if
/// something changed.
pub(crate) fn update<T, R>(
    path: &Path,
    patience: Duration,
    change: impl FnOnce(&mut T) -> R,
) -> Result<Option<R>, RecordError>
where
    T: Serialize + DeserializeOwned + PartialEq + Clone,
{
    let _lock = Lock::acquire(&path.with_extension("lock"), patience)?;
    let Some(before) = read::<T>(path)? else { return Ok(None) };
    let mut after = before.clone();
    let answer = change(&mut after);
    if after != before {
        write(path, &after)?;
    }
    Ok(Some(answer))
}

/// Like [`update`], for a record that grows by lines. Uses `known` if nobody has changed the file since it was read.
pub(crate) fn grow<T, R>(
    path: &Path,
    known: Option<GrowingRecord<T>>,
    patience: Duration,
    change: impl FnOnce(&mut T) -> R,
) -> Result<Option<R>, RecordError>
where
    T: Serialize + DeserializeOwned + PartialEq + Clone,
{
    let (mut change, mut answer) = (Some(change), None);
    grow_by(path, known, patience, &mut |record| answer = change.take().map(|change| change(record)))?;
    Ok(answer)
}

/// Takes the change as an object, so that this is compiled once for each kind of record and not once for each change: a
/// hook has several.
#[inline(never)]
fn grow_by<T>(
    path: &Path,
    known: Option<GrowingRecord<T>>,
    patience: Duration,
    change: &mut dyn FnMut(&mut T),
) -> Result<(), RecordError>
where
    T: Serialize + DeserializeOwned + PartialEq + Clone,
{
    let _lock = Lock::acquire(&path.with_extension("lock"), patience)?;
    let mut growing = match known.filter(GrowingRecord::is_current) {
        Some(known) => known,
        None => GrowingRecord::<T>::read(path)?,
    };
    let Some(before) = growing.record.take() else { return Ok(()) };
    let mut after = before.clone();
    change(&mut after);
    if after != before {
        growing.write(path, &after)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn read_all(path: &Path) -> Vec<String> {
        std::fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn the_last_whole_line_is_the_record() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.json");
        write(&path, &json!({ "n": 0 })).unwrap();
        for n in 1..=3 {
            grow(&path, None, Duration::ZERO, |v: &mut Value| v["n"] = json!(n)).unwrap().unwrap();
        }
        assert_eq!(read_all(&path).len(), 4, "it grew by lines");
        assert_eq!(read::<Value>(&path).unwrap().unwrap()["n"], 3);

        // A writer died, or the disk was full, in the middle of the next line.
        let torn = [std::fs::read(&path).unwrap().as_slice(), b"{\"n\":4,\"te"].concat();
        std::fs::write(&path, torn).unwrap();
        assert_eq!(read::<Value>(&path).unwrap().unwrap()["n"], 3);
        grow(&path, None, Duration::ZERO, |v: &mut Value| v["n"] = json!(5)).unwrap().unwrap();
        assert_eq!(read::<Value>(&path).unwrap().unwrap()["n"], 5);
        assert!(grow(&path, None, Duration::ZERO, |_: &mut Value| ()).unwrap().is_some());
        assert_eq!(read_all(&path).len(), 6, "no line for no change");
    }

    #[test]
    fn a_record_says_its_version_and_one_without_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.json");
        write(&path, &json!({ "n": 3 })).unwrap();
        assert_eq!(read_all(&path), [r#"{"v":1,"n":3}"#]);
        assert_eq!(
            read::<Value>(&path).unwrap().unwrap(),
            json!({ "n": 3 }),
            "the version is no field of it"
        );
        write(&path, &json!({})).unwrap();
        assert_eq!(read_all(&path), [r#"{"v":1}"#]);
        assert_eq!(read::<Value>(&path).unwrap().unwrap(), json!({}));
        for old in ["{\"n\":3}\n", "{\n  \"n\": 3\n}", "{\n  \"v\": 1,\n  \"n\": 3\n}"] {
            std::fs::write(&path, old).unwrap();
            assert_eq!(read::<Value>(&path).unwrap().unwrap(), json!({ "n": 3 }), "{old}");
        }
        write(&path, &json!(["a"])).unwrap();
        assert_eq!(read_all(&path), [r#"{"v":1,"all":["a"]}"#]);
        assert_eq!(read::<Vec<String>>(&path).unwrap().unwrap(), ["a"]);
        for old in ["[\"a\"]\n", "[\n  \"a\"\n]"] {
            std::fs::write(&path, old).unwrap();
            assert_eq!(read::<Vec<String>>(&path).unwrap().unwrap(), ["a"], "{old}");
        }
    }

    #[test]
    fn a_record_of_a_newer_baton_is_refused_and_left_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.json");
        for newer in ["{\"v\":2,\"n\":{}}\n", "{\"v\":1,\"n\":1}\n{\"v\":7}\n", "{\n \"n\": 1, \"v\": 2 }"] {
            std::fs::write(&path, newer).unwrap();
            let refused = read::<Value>(&path).unwrap_err().to_string();
            assert!(refused.contains("a newer baton wrote it"), "{refused}");
            assert!(grow(&path, None, Duration::ZERO, |_: &mut Value| ()).is_err());
            assert!(update(&path, Duration::ZERO, |v: &mut Value| *v = json!({})).is_err());
            // A newer record formatted by a person is only found by reading before writing.
            if newer.starts_with("{\"v\"") {
                assert!(write(&path, &json!({})).is_err(), "whoever has not read it must not replace it");
                assert!(GrowingRecord::<Value>::default().write(&path, &json!({})).is_err());
            }
            assert_eq!(std::fs::read_to_string(&path).unwrap(), newer);
            assert_eq!(
                std::fs::read_dir(dir.path()).unwrap().count(),
                2,
                "nothing is set aside but the lock is"
            );
        }
    }

    /// A hook reads the record before it has the lock, so changes in between must not get lost.
    #[test]
    fn what_was_read_before_the_lock_is_used_only_if_nobody_changed_it_since() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.json");
        let add = |known: Option<GrowingRecord<Value>>| {
            let add = |v: &mut Value| {
                v["n"] = json!(v["n"].as_i64().unwrap() + 1);
                v["n"].as_i64().unwrap()
            };
            grow(&path, known, Duration::ZERO, add).unwrap()
        };
        let open = || Some(GrowingRecord::<Value>::read(&path).unwrap());
        write(&path, &json!({ "n": 0 })).unwrap();
        assert_eq!(add(open()), Some(1));
        let known = open();
        assert_eq!(add(None), Some(2), "another hook");
        assert_eq!(add(known), Some(3), "it had grown");
        let known = open();
        write(&path, &json!({ "n": 10 })).unwrap();
        assert_eq!(add(known), Some(11), "it had been replaced");
        let known = open();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(add(known), None, "it had been removed");
        assert!(!path.exists());
    }

    #[test]
    fn a_file_of_many_lines_becomes_one_of_one_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.json");
        write(&path, &json!({ "n": 0, "text": "x".repeat(1000) })).unwrap();
        let mut largest = 0;
        for n in 1..=80 {
            grow(&path, None, Duration::ZERO, |v: &mut Value| v["n"] = json!(n)).unwrap().unwrap();
            assert_eq!(read::<Value>(&path).unwrap().unwrap()["n"], n);
            largest = largest.max(read_all(&path).len());
        }
        assert_eq!(largest, 31);
        assert!(std::fs::metadata(&path).unwrap().len() <= GROWN);
    }

    /// Longer than the first read, complete or torn.
    #[test]
    fn a_long_record_is_found_whatever_follows_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.json");
        for size in [3_000, 4_050, 5_000, 9_000] {
            write(&path, &json!({ "n": 0, "text": "x".repeat(size) })).unwrap();
            grow(&path, None, Duration::ZERO, |v: &mut Value| v["n"] = json!(1)).unwrap().unwrap();
            assert_eq!(read::<Value>(&path).unwrap().unwrap()["n"], 1, "{size}");
            let whole = std::fs::read(&path).unwrap();
            for torn in [whole.len() - 1, whole.len() - 2, whole.len() / 2 + 10] {
                std::fs::write(&path, &whole[..torn]).unwrap();
                let expected = i32::from(torn == whole.len() - 1);
                assert_eq!(read::<Value>(&path).unwrap().unwrap()["n"], expected, "{size}, {torn}");
                grow(&path, None, Duration::ZERO, |v: &mut Value| v["n"] = json!(2)).unwrap().unwrap();
                assert_eq!(read::<Value>(&path).unwrap().unwrap()["n"], 2, "{size}, {torn}");
            }
        }
    }

    #[test]
    fn a_record_formatted_by_a_person_is_read_and_a_damaged_one_is_set_aside() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.json");
        let laid_out = serde_json::to_string_pretty(&json!({ "n": 7, "in": { "a": [1, {}] } })).unwrap();
        std::fs::write(&path, laid_out).unwrap();
        assert_eq!(read::<Value>(&path).unwrap().unwrap()["n"], 7);
        std::fs::write(&path, "{\"n\":\n{ torn").unwrap();
        assert!(GrowingRecord::<Value>::read(&path).unwrap().record.is_none());
        assert!(!path.exists());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "its bytes are kept");
    }
}
