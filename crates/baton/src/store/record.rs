//! Small JSON records that change under a lock of their own.
//!
//! A record that cannot be understood is set aside and counts as missing: the work goes on, the bytes stay.
//!
//! What hooks change at every turn grows by lines instead of being replaced: the last whole line is the record, and
//! once there are many of them the file is replaced by that one.

use std::path::Path;
use std::time::Duration;

use baton_core::scan;
use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::sys::fs::{self, Access, FileError, Grown, PRIVATE, Sync};
use crate::sys::lock::{Lock, LockError};

/// No record of ours is larger; one that is has been damaged.
const MAX: u64 = 4 << 20;
/// A file that grows by lines is replaced by its last one when it would become larger.
const GROWN: u64 = 32 << 10;

#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Lock(#[from] LockError),
}

/// The record at `path`; `None` if there is none or it was damaged and set aside.
pub fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, FileError> {
    let Some(file) = Grown::open(path, MAX, Access::Read)? else { return Ok(None) };
    understood(path, &file)
}

fn understood<T: DeserializeOwned>(path: &Path, file: &Grown) -> Result<Option<T>, FileError> {
    if let Some(record) = newest(&file.end) {
        return Ok(Some(record));
    }
    if !file.is_whole()
        && let Some(record) = newest(&file.all(path, MAX)?)
    {
        return Ok(Some(record));
    }
    let stamp = Timestamp::now().strftime("%Y%m%d-%H%M%S").to_string();
    fs::set_aside(path, &stamp)?;
    Ok(None)
}

/// The last line that is a record; a writer that died or had no room left half of one behind. A record that a person
/// has laid out over several lines is one too.
fn newest<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    let mut rest = bytes.trim_ascii_end();
    while !rest.is_empty() {
        let before = scan::last(b'\n', rest);
        let line = &rest[before.map_or(0, |newline| newline + 1)..];
        if line.first() == Some(&b'{')
            && let Ok(record) = serde_json::from_slice(line)
        {
            return Some(record);
        }
        rest = &rest[..before.unwrap_or(0)];
    }
    serde_json::from_slice(bytes).ok()
}

/// Replaces the record. Not synced: it is rebuilt from what the clients say.
pub fn write<T: Serialize>(path: &Path, record: &T) -> Result<(), FileError> {
    let bytes = line(path, record)?;
    with_folder(path, || fs::replace(path, &bytes, PRIVATE, Sync::No))
}

fn line<T: Serialize>(path: &Path, record: &T) -> Result<Vec<u8>, FileError> {
    let mut bytes = serde_json::to_vec(record).map_err(|e| FileError::new("encode", path, e))?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// A record that grows by lines, and the file it came from.
#[derive(Default)]
pub struct Growing<T> {
    pub record: Option<T>,
    file: Option<Grown>,
}

impl<T: Serialize + DeserializeOwned> Growing<T> {
    /// One that can only be read.
    pub fn of(record: Option<T>) -> Self {
        Self { record, file: None }
    }

    pub fn read(path: &Path) -> Result<Self, FileError> {
        let Some(file) = Grown::open(path, MAX, Access::Append)? else {
            return Ok(Self { record: None, file: None });
        };
        let record = understood(path, &file)?;
        // One that was set aside has gone with its name.
        Ok(Self { file: record.is_some().then_some(file), record })
    }

    /// Is it still all that its name stands for? What is replaced by another loses its last name.
    fn is_current(&self) -> bool {
        self.record.is_some() && self.file.as_ref().is_some_and(Grown::is_current)
    }

    /// Makes `record` the newest. `path` is where this was read from.
    pub fn write(self, path: &Path, record: &T) -> Result<(), FileError> {
        let bytes = line(path, record)?;
        match self.file {
            Some(mut file) if file.size() + bytes.len() as u64 <= GROWN => {
                file.append(&bytes).map_err(|e| FileError::new("append to", path, e))
            }
            _ => with_folder(path, || fs::replace(path, &bytes, PRIVATE, Sync::No)),
        }
    }
}

/// Creates the record if there is none. `false` if there is one.
pub fn create<T: Serialize>(path: &Path, record: &T) -> Result<bool, FileError> {
    let bytes = line(path, record)?;
    with_folder(path, || fs::create(path, &bytes, PRIVATE, Sync::No))
}

/// Tries `act`, and once more after creating the folder: the usual case pays for no look at it.
fn with_folder<T>(path: &Path, act: impl Fn() -> Result<T, FileError>) -> Result<T, FileError> {
    match act() {
        Err(e) if e.source.kind() == std::io::ErrorKind::NotFound => {
            fs::private_dir(path.parent().unwrap_or(Path::new("/")))?;
            act()
        }
        other => other,
    }
}

/// Changes the record under its lock and returns what `change` returned; `None` if there is no record.
/// Written only if something changed.
pub fn update<T, R>(
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

/// The same for a record that grows by lines. One that was read before is not read again, if nobody changed it since.
pub fn grow<T, R>(
    path: &Path,
    known: Option<Growing<T>>,
    patience: Duration,
    change: impl FnOnce(&mut T) -> R,
) -> Result<Option<R>, RecordError>
where
    T: Serialize + DeserializeOwned + PartialEq + Clone,
{
    let _lock = Lock::acquire(&path.with_extension("lock"), patience)?;
    let mut growing = match known.filter(Growing::is_current) {
        Some(known) => known,
        None => Growing::<T>::read(path)?,
    };
    let Some(before) = growing.record.take() else { return Ok(None) };
    let mut after = before.clone();
    let answer = change(&mut after);
    if after != before {
        growing.write(path, &after)?;
    }
    Ok(Some(answer))
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

        // Somebody died or the disk was full in the middle of the next one.
        let torn = [std::fs::read(&path).unwrap().as_slice(), b"{\"n\":4,\"te"].concat();
        std::fs::write(&path, torn).unwrap();
        assert_eq!(read::<Value>(&path).unwrap().unwrap()["n"], 3);
        grow(&path, None, Duration::ZERO, |v: &mut Value| v["n"] = json!(5)).unwrap().unwrap();
        assert_eq!(read::<Value>(&path).unwrap().unwrap()["n"], 5);
        assert!(grow(&path, None, Duration::ZERO, |_: &mut Value| ()).unwrap().is_some());
        assert_eq!(read_all(&path).len(), 6, "no line for no change");
    }

    /// A hook reads the record before it has the lock: whatever happened in between counts.
    #[test]
    fn what_was_read_before_the_lock_is_used_only_if_nobody_changed_it_since() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.json");
        let add = |known: Option<Growing<Value>>| {
            let add = |v: &mut Value| {
                v["n"] = json!(v["n"].as_i64().unwrap() + 1);
                v["n"].as_i64().unwrap()
            };
            grow(&path, known, Duration::ZERO, add).unwrap()
        };
        let open = || Some(Growing::<Value>::read(&path).unwrap());
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
        assert_eq!(largest, 32);
        assert!(std::fs::metadata(&path).unwrap().len() <= GROWN);
    }

    /// Longer than what is read at first, whole or torn.
    #[test]
    fn a_long_record_is_found_behind_whatever_follows_it() {
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
    fn what_a_person_laid_out_over_lines_is_read_and_what_nobody_understands_is_set_aside() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.json");
        let laid_out = serde_json::to_string_pretty(&json!({ "n": 7, "in": { "a": [1, {}] } })).unwrap();
        std::fs::write(&path, laid_out).unwrap();
        assert_eq!(read::<Value>(&path).unwrap().unwrap()["n"], 7);
        std::fs::write(&path, "{\"n\":\n{ torn").unwrap();
        assert_eq!(Growing::<Value>::read(&path).unwrap().record, None);
        assert!(!path.exists());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "its bytes are kept");
    }
}
