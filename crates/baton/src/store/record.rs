//! Small JSON records that change under a lock of their own.
//!
//! A record that cannot be understood is set aside and counts as missing: the work goes on, the bytes stay.

use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::sys::fs::{self, FileError, PRIVATE, Sync};
use crate::sys::lock::{Lock, LockError};

/// No record of ours is larger; one that is has been damaged.
const MAX: u64 = 4 << 20;

#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Lock(#[from] LockError),
}

/// The record at `path`; `None` if there is none or it was damaged and set aside.
pub fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, FileError> {
    let Some(bytes) = fs::read(path, MAX)? else { return Ok(None) };
    if let Ok(record) = serde_json::from_slice(&bytes) {
        return Ok(Some(record));
    }
    let stamp = Timestamp::now().strftime("%Y%m%d-%H%M%S").to_string();
    fs::set_aside(path, &stamp)?;
    Ok(None)
}

/// Replaces the record. Not synced: it is rebuilt from what the clients say.
pub fn write<T: Serialize>(path: &Path, record: &T) -> Result<(), FileError> {
    let mut bytes = serde_json::to_vec(record).map_err(|e| FileError::new("encode", path, e))?;
    bytes.push(b'\n');
    with_folder(path, || fs::replace(path, &bytes, PRIVATE, Sync::No))
}

/// Creates the record if there is none. `false` if there is one.
pub fn create<T: Serialize>(path: &Path, record: &T) -> Result<bool, FileError> {
    let mut bytes = serde_json::to_vec(record).map_err(|e| FileError::new("encode", path, e))?;
    bytes.push(b'\n');
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
