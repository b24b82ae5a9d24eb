//! Which files of which folders have changed: for a process that keeps copies of many small files.
//!
//! The kernel queues a change before the call that made it returns, so whoever drains the queue and then looks at a
//! copy never sees one that is older than what somebody has been told was written.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::Path;

/// A watched folder, as the kernel names it.
pub type FolderId = i32;

/// What of a folder is of interest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interest {
    /// Files that are replaced, written or removed.
    Files,
    /// Files that come by being moved there, and leave the same way.
    Queue,
    /// Folders that are made in it.
    Folders,
    /// Files that vanish from it.
    Loss,
}

/// One change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change<'a> {
    /// This file of this folder was written, replaced, moved or removed; or a folder was made in it.
    Of(FolderId, &'a str),
    /// So much happened that the kernel gave up: everything may have changed.
    Anything,
}

/// Readable when something has changed.
#[derive(Debug)]
pub struct Changes {
    fd: OwnedFd,
}

impl AsRawFd for Changes {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

impl AsFd for Changes {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(target_os = "linux")]
impl Changes {
    /// Whether changes are told at all; elsewhere a look from time to time must do.
    pub const TOLD: bool = true;

    pub fn new() -> std::io::Result<Self> {
        use rustix::fs::inotify::{CreateFlags, init};
        Ok(Self { fd: init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)? })
    }

    /// Watches one more folder. Watched twice, it keeps its name.
    pub fn watch(&self, dir: &Path, interest: Interest) -> std::io::Result<FolderId> {
        use rustix::fs::inotify::{WatchFlags, add_watch};
        let flags = match interest {
            Interest::Files => WatchFlags::MOVED_TO | WatchFlags::CLOSE_WRITE | WatchFlags::DELETE,
            Interest::Queue => WatchFlags::MOVED_TO | WatchFlags::MOVED_FROM | WatchFlags::DELETE,
            Interest::Folders => WatchFlags::CREATE | WatchFlags::MOVED_TO,
            Interest::Loss => WatchFlags::DELETE | WatchFlags::MOVED_FROM,
        };
        Ok(add_watch(&self.fd, dir, flags | WatchFlags::ONLYDIR)?)
    }

    /// Takes what is queued.
    pub fn drain(&self, mut each: impl FnMut(Change<'_>)) {
        use rustix::fs::inotify::{ReadFlags, Reader};
        let mut buffer = [std::mem::MaybeUninit::uninit(); 8192];
        let mut reader = Reader::new(&self.fd, &mut buffer);
        while let Ok(event) = reader.next() {
            if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                each(Change::Anything);
            } else if let Some(name) = event.file_name().and_then(|n| n.to_str().ok()) {
                each(Change::Of(event.wd(), name));
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
impl Changes {
    pub const TOLD: bool = false;

    pub fn new() -> std::io::Result<Self> {
        // Something that is never readable: a pipe whose other end stays open as long as the process.
        let (read, write) = rustix::pipe::pipe()?;
        std::mem::forget(write);
        Ok(Self { fd: read })
    }

    pub fn watch(&self, _dir: &Path, _interest: Interest) -> std::io::Result<FolderId> {
        Ok(0)
    }

    pub fn drain(&self, mut each: impl FnMut(Change<'_>)) {
        each(Change::Anything);
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_told_before_the_call_that_made_it_returns() {
        let dir = tempfile::tempdir().unwrap();
        let changes = Changes::new().unwrap();
        let folder = changes.watch(dir.path(), Interest::Files).unwrap();
        for n in 0..200 {
            let path = dir.path().join(format!("{n}.json"));
            crate::sys::fs::replace(&path, b"x", 0o600, crate::sys::fs::Sync::No).unwrap();
            let mut told = false;
            changes.drain(|change| told |= change == Change::Of(folder, &format!("{n}.json")));
            assert!(told, "{n}");
            crate::sys::fs::remove(&path).unwrap();
            let mut told = false;
            changes.drain(|change| told |= change == Change::Of(folder, &format!("{n}.json")));
            assert!(told, "removal of {n}");
        }
    }
}
