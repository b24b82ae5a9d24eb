//! Locks: flock on a file, which the kernel frees when its holder dies, so a stale lock cannot exist.
//!
//! A channel's lock file also names its holder, for people. If a name is still there, the next holder knows that the
//! previous one was killed.

use std::fs::{File, TryLockError};
use std::io::{Read, Seek};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use rustix::fs::OFlags;

use crate::sys::fs::{FileError, is_named, private_dir, regular};

/// Held until dropped.
#[derive(Debug)]
pub struct Lock {
    file: File,
    shown: bool,
    /// The holder before us was killed, and may have left things half done.
    pub predecessor_died: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum LockError {
    #[error(
        "{path} is held by process {holder} and was not released within {waited:?}; \
         see what that process does, or wait and try again"
    )]
    Held { path: PathBuf, holder: String, waited: Duration },
    #[error(transparent)]
    File(#[from] FileError),
}

impl Lock {
    /// Takes the lock `path`, waiting at most `patience`, and writes us into it as `{pid}:{timestamp}`.
    pub fn acquire_shown(path: &Path, patience: Duration) -> Result<Self, LockError> {
        let mut lock = Self::acquire(path, patience)?;
        lock.show();
        Ok(lock)
    }

    /// Takes the lock `path`, waiting at most `patience`.
    pub(crate) fn acquire(path: &Path, patience: Duration) -> Result<Self, LockError> {
        // Taking a free lock needs no clock.
        let mut began = None;
        let mut nap = Duration::from_micros(200);
        loop {
            let file = open(path)?;
            match file.try_lock() {
                Ok(()) if is_at(&file, path)? => {
                    return Ok(Self { file, shown: false, predecessor_died: false });
                }
                Ok(()) | Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(e)) => return Err(FileError::new("lock", path, e).into()),
            }
            let waited = began.get_or_insert_with(Instant::now).elapsed();
            if waited >= patience {
                let holder = read_text(&file);
                let holder = holder.split(':').next().unwrap_or_default().to_owned();
                return Err(LockError::Held { path: path.to_owned(), holder, waited: patience });
            }
            std::thread::sleep(nap.min(patience.saturating_sub(waited)));
            nap = (nap * 2).min(Duration::from_millis(5));
        }
    }

    fn show(&mut self) {
        self.predecessor_died = !read_text(&self.file).is_empty();
        self.shown = true;
        // Overwrite the old text, and only then cut it to length: a held lock is never empty, so that the next holder
        // notices a killed one. Ignore errors, because a full disk must not prevent locking.
        let holder = format!("{}:{}", std::process::id(), Timestamp::now().as_second());
        if self.file.write_all_at(holder.as_bytes(), 0).is_ok() {
            let _ = self.file.set_len(holder.len() as u64);
        }
    }
}

/// Whether a process holds the lock `path`. A missing file is not held.
pub(crate) fn is_held(path: &Path) -> bool {
    crate::sys::fs::open_read(path)
        .is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

impl Drop for Lock {
    fn drop(&mut self) {
        if self.shown {
            let _ = self.file.set_len(0);
        }
        let _ = self.file.unlock();
    }
}

fn open(path: &Path) -> Result<File, FileError> {
    let open = || {
        let how = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        crate::sys::fs::open(path, how, crate::sys::fs::PRIVATE)
    };
    match open() {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            private_dir(path.parent().unwrap_or(Path::new("/")))?;
            open().map_err(|e| FileError::new("open the lock", path, e))
        }
        other => other.map_err(|e| FileError::new("open the lock", path, e)),
    }
}

/// Whether a file that was just locked is the lock at `path`. If its folder was removed between our open and our lock, it
/// guards nothing.
fn is_at(file: &File, path: &Path) -> Result<bool, FileError> {
    let regular = regular(file).map_err(|e| FileError::new("open the lock", path, e))?;
    Ok(is_named(&regular, path))
}

fn read_text(file: &File) -> String {
    let mut text = String::new();
    let mut file = file;
    let _ = file.rewind();
    let _ = Read::by_ref(&mut file).take(64).read_to_string(&mut text);
    text
}
