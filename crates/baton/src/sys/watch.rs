//! Watches folders for changes, with inotify.
//!
//! The kernel queues a change before the call that made it returns. A reader that drains the queue before it reads a
//! file never sees a version older than one whose write was acknowledged.
//!
//! Without inotify nothing wakes the caller: it polls, and each drain reports that everything may have changed. That
//! happens on other systems, and on Linux when the user's instances (128 by default, and editors take many) or watches
//! are used up.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::Duration;

use crate::sys::poll::{self, PollFd, PollFlags};

/// Other processes write to the watched folders all day. Changes that come within this time of an irrelevant one are
/// read together instead of waking the process one by one.
const DEBOUNCE: Duration = Duration::from_millis(20);
/// How often to poll if nothing wakes us.
const LOOK: Duration = Duration::from_millis(500);

/// A watched folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FolderId(i32);

/// Which changes of a folder to report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interest {
    /// Files that are written, replaced or removed.
    Files,
    /// Files that are moved in or out, as in a maildir.
    Queue,
    /// New folders.
    Folders,
    /// Files that disappear.
    Loss,
}

/// Something happened in a watched folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FolderChange<'a> {
    /// The entry of this name, in the way that the folder's [`Interest`] asks for.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "there nothing reports single changes"))]
    Entry(FolderId, &'a str),
    /// The kernel's queue overflowed and changes were lost: look at everything.
    Everything,
}

/// A set of watched folders.
#[derive(Debug)]
pub(crate) struct Watch {
    /// `None` without inotify: on other systems, or when this user has used up its instances.
    fd: Option<std::os::fd::OwnedFd>,
    /// Some folder could not be watched: this user has used up its watches.
    is_partial: bool,
    /// The last changes concerned others: let more of them collect before the next read.
    is_debouncing: bool,
}

impl Watch {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { fd: inotify::open()?, is_partial: false, is_debouncing: false })
    }

    /// Watches the files of these folders. Skips one that does not exist yet.
    pub(crate) fn folders(dirs: &[&Path]) -> io::Result<Self> {
        let mut watch = Self::new()?;
        for dir in dirs {
            match watch.add(dir, Interest::Files) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
                _ => {}
            }
        }
        Ok(watch)
    }

    /// Watches one more folder. Watching a folder twice gives the same id.
    pub(crate) fn add(&mut self, dir: &Path, interest: Interest) -> io::Result<FolderId> {
        let Some(fd) = &self.fd else { return Ok(FolderId(0)) };
        let id = inotify::add(fd, dir, interest)?;
        self.is_partial |= id.is_none();
        Ok(id.unwrap_or(FolderId(0)))
    }

    /// Whether every change wakes the caller.
    pub(crate) fn wakes(&self) -> bool {
        self.fd.is_some() && !self.is_partial
    }

    /// Readable when something has changed; `None` while changes collect.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.fd.as_ref().filter(|_| !self.is_debouncing).map(AsFd::as_fd)
    }

    /// Like [`Watch::fd`], for the daemon's event loop.
    pub(crate) fn wakeups(&self) -> io::Result<Wakeups> {
        let fd = self.fd.as_ref().map(std::os::fd::OwnedFd::try_clone).transpose()?;
        Ok(Wakeups(fd.map(crate::sys::ready::readable).transpose()?))
    }

    /// How long to poll [`Watch::fd`] at most, for a caller that would wait for `left`. Drain afterwards, whatever woke
    /// the caller, because the descriptor does not wake it while changes collect.
    pub(crate) fn timeout(&self, left: Option<Duration>) -> Option<Duration> {
        let longest = match (self.is_debouncing, self.wakes()) {
            (true, _) => Some(DEBOUNCE),
            (false, false) => Some(LOOK),
            (false, true) => None,
        };
        left.into_iter().chain(longest).min()
    }

    /// Sleeps until something changes, at most `longest`, and discards the changes.
    pub(crate) fn wait(&mut self, longest: Duration) {
        let mut fds: Vec<_> =
            self.fd().into_iter().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        // Interrupted or not, the caller looks again.
        let _ = poll::wait(&mut fds, self.timeout(Some(longest)));
        self.drain(|_| true);
    }

    /// Reads the queued changes. `concerns_us` decides whether a change is of interest; returns whether any was.
    /// [`FolderChange::Everything`] always is.
    pub(crate) fn drain(&mut self, mut concerns_us: impl FnMut(FolderChange<'_>) -> bool) -> bool {
        if !self.wakes() {
            concerns_us(FolderChange::Everything);
            if let Some(fd) = &self.fd {
                inotify::read(fd, |_| {});
            }
            return true;
        }
        let Some(fd) = &self.fd else { return true };
        let (mut any, mut ours) = (false, false);
        inotify::read(fd, |change| {
            any = true;
            ours |= concerns_us(change) || change == FolderChange::Everything;
        });
        self.is_debouncing = any && !ours;
        ours
    }
}

#[cfg(target_os = "linux")]
mod inotify {
    use std::os::fd::OwnedFd;

    use rustix::fs::inotify::{CreateFlags, ReadFlags, Reader, WatchFlags, add_watch, init};
    use rustix::io::Errno;

    use super::{FolderChange, FolderId, Interest, Path, io};

    /// `None` if this user, this process or the system has no more of them.
    pub(super) fn open() -> io::Result<Option<OwnedFd>> {
        match init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK) {
            Ok(fd) => Ok(Some(fd)),
            Err(Errno::MFILE | Errno::NFILE) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }

    /// `None` if this user may not watch more folders.
    pub(super) fn add(fd: &OwnedFd, dir: &Path, interest: Interest) -> io::Result<Option<FolderId>> {
        let flags = match interest {
            Interest::Files => WatchFlags::MOVED_TO | WatchFlags::CLOSE_WRITE | WatchFlags::DELETE,
            Interest::Queue => WatchFlags::MOVED_TO | WatchFlags::MOVED_FROM | WatchFlags::DELETE,
            Interest::Folders => WatchFlags::CREATE | WatchFlags::MOVED_TO,
            Interest::Loss => WatchFlags::DELETE | WatchFlags::MOVED_FROM,
        };
        match add_watch(fd, dir, flags | WatchFlags::ONLYDIR) {
            Ok(id) => Ok(Some(FolderId(id))),
            Err(Errno::NOSPC) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }

    pub(super) fn read(fd: &OwnedFd, mut each: impl FnMut(FolderChange<'_>)) {
        let mut buffer = [std::mem::MaybeUninit::uninit(); 8192];
        let mut reader = Reader::new(fd, &mut buffer);
        loop {
            match reader.next() {
                Ok(event) if event.events().contains(ReadFlags::QUEUE_OVERFLOW) => {
                    each(FolderChange::Everything);
                }
                // All our file names are UTF-8; events without a name are about the watch itself.
                Ok(event) => {
                    if let Some(name) = event.file_name().and_then(|n| n.to_str().ok()) {
                        each(FolderChange::Entry(FolderId(event.wd()), name));
                    }
                }
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR) => {}
                // After a read error anything may have changed.
                Err(_) => return each(FolderChange::Everything),
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod inotify {
    use std::os::fd::OwnedFd;

    use super::{FolderChange, FolderId, Interest, Path, io};

    pub(super) fn open() -> io::Result<Option<OwnedFd>> {
        Ok(None)
    }

    pub(super) fn add(_: &OwnedFd, _: &Path, _: Interest) -> io::Result<Option<FolderId>> {
        Ok(None)
    }

    pub(super) fn read(_: &OwnedFd, _: impl FnMut(FolderChange<'_>)) {}
}

/// Wakes the daemon's event loop for changes.
pub(crate) struct Wakeups(Option<tokio::io::unix::AsyncFd<std::os::fd::OwnedFd>>);

impl Wakeups {
    /// Returns when something has changed, and changes had a moment to collect. Drain afterwards.
    pub(crate) async fn next(&self) {
        match &self.0 {
            Some(fd) => match fd.readable().await {
                Ok(mut ready) => ready.clear_ready(),
                // The event loop is shutting down.
                Err(_) => std::future::pending().await,
            },
            None => std::future::pending().await,
        }
        tokio::time::sleep(DEBOUNCE).await;
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    /// A drain's reports: the names of changed entries, and how often everything may have changed.
    fn drain(watch: &mut Watch, folder: FolderId) -> (Vec<String>, usize) {
        let (mut names, mut overflows) = (Vec::new(), 0);
        watch.drain(|change| {
            match change {
                FolderChange::Entry(id, name) => {
                    assert_eq!(id, folder);
                    names.push(name.to_owned());
                }
                FolderChange::Everything => overflows += 1,
            }
            false
        });
        (names, overflows)
    }

    fn watched() -> (tempfile::TempDir, Watch, FolderId) {
        let dir = tempfile::tempdir().unwrap();
        let mut watch = Watch::new().unwrap();
        let folder = watch.add(dir.path(), Interest::Files).unwrap();
        (dir, watch, folder)
    }

    #[test]
    fn a_change_is_queued_before_the_call_that_made_it_returns() {
        let (dir, mut watch, folder) = watched();
        for n in 0..200 {
            let name = format!("{n}.json");
            let path = dir.path().join(&name);
            crate::sys::fs::replace(&path, b"x", 0o600, crate::sys::fs::Sync::No).unwrap();
            assert!(drain(&mut watch, folder).0.contains(&name), "{name}");
            crate::sys::fs::remove(&path).unwrap();
            let (names, _) = drain(&mut watch, folder);
            assert!(names.contains(&name), "removal of {name}");
        }
    }

    #[test]
    fn an_overflow_says_to_look_at_everything_and_later_changes_are_reported_again() {
        let (dir, mut watch, folder) = watched();
        let limit = std::fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
        let limit: usize = limit.trim().parse().unwrap();
        // The kernel merges equal events in a row, so two files take turns.
        for n in 0..=limit {
            std::fs::write(dir.path().join(["a", "b"][n % 2]), "").unwrap();
        }
        std::fs::write(dir.path().join("lost"), "").unwrap();
        let (names, overflows) = drain(&mut watch, folder);
        assert!(!names.contains(&"lost".to_owned()), "the queue did not overflow");
        assert_eq!((names.len(), overflows), (limit, 1));
        std::fs::write(dir.path().join("after"), "").unwrap();
        assert_eq!(drain(&mut watch, folder), (vec!["after".to_owned()], 0));
    }

    #[test]
    fn only_changes_of_others_are_debounced() {
        let (dir, mut watch, folder) = watched();
        let hour = Duration::from_hours(1);
        let write = |name: &str| std::fs::write(dir.path().join(name), "").unwrap();
        assert!(watch.fd().is_some() && watch.timeout(None).is_none());
        write("theirs");
        assert!(!watch.drain(|change| change == FolderChange::Entry(folder, "ours")));
        assert!(watch.fd().is_none());
        assert_eq!([watch.timeout(None), watch.timeout(Some(hour))], [Some(DEBOUNCE); 2]);
        assert_eq!(watch.timeout(Some(Duration::ZERO)), Some(Duration::ZERO));
        write("theirs");
        write("ours");
        assert!(
            watch.drain(|change| change == FolderChange::Entry(folder, "ours")),
            "read although it is debounced"
        );
        assert!(watch.fd().is_some() && watch.timeout(Some(hour)) == Some(hour));
        assert!(!watch.drain(|_| true) && watch.fd().is_some(), "nothing changed");
    }

    #[test]
    fn without_inotify_the_caller_looks_from_time_to_time() {
        let (dir, _, _) = watched();
        let mut watch = Watch { fd: None, is_partial: false, is_debouncing: false };
        let folder = watch.add(dir.path(), Interest::Files).unwrap();
        assert!(!watch.wakes() && watch.fd().is_none());
        assert_eq!([watch.timeout(None), watch.timeout(Some(Duration::from_hours(1)))], [Some(LOOK); 2]);
        assert_eq!(watch.timeout(Some(DEBOUNCE)), Some(DEBOUNCE));
        assert_eq!(drain(&mut watch, folder), (vec![], 1));
        // Only some folders are watched: their changes still wake us, and we look at everything.
        let mut watch = Watch { is_partial: true, ..Watch::folders(&[dir.path()]).unwrap() };
        assert!(!watch.wakes() && watch.fd().is_some() && watch.timeout(None) == Some(LOOK));
        std::fs::write(dir.path().join("a"), "").unwrap();
        assert_eq!(drain(&mut watch, folder), (vec![], 1));
    }

    #[test]
    fn a_folder_that_does_not_exist_is_left_out_and_a_file_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("file"), "").unwrap();
        assert!(Watch::folders(&[&dir.path().join("missing")]).is_ok());
        assert!(Watch::folders(&[&dir.path().join("file")]).is_err());
    }
}
