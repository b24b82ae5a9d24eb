//! Wakes when one of a few files is replaced. A wake-up says "look again", nothing more.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// Others may write all day where we watch. After a change that was nobody's of ours, the next ones are heard together
/// after this time, and not each for itself.
pub const TOGETHER: std::time::Duration = std::time::Duration::from_millis(20);

/// Readable when something in the watched folders may have changed.
#[derive(Debug)]
pub struct Watch {
    #[cfg(target_os = "linux")]
    fd: OwnedFd,
    #[cfg(not(target_os = "linux"))]
    fd: OwnedFd,
}

#[cfg(target_os = "linux")]
impl Watch {
    /// Watches folders for files that are moved into place or closed after writing.
    pub fn folders(dirs: &[&Path]) -> std::io::Result<Self> {
        use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};
        let fd = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        for dir in dirs {
            match add_watch(&fd, *dir, WatchFlags::MOVED_TO | WatchFlags::CLOSE_WRITE) {
                Ok(_) | Err(rustix::io::Errno::NOENT) => {}
                Err(e) => return Err(e.into()),
            }
        }
        Ok(Self { fd })
    }

    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.fd.as_fd())
    }

    /// Watches one more folder; its number tells what [`Watch::take`] speaks of.
    pub fn add(&self, dir: &Path) -> std::io::Result<i32> {
        use rustix::fs::inotify::{WatchFlags, add_watch};
        Ok(add_watch(&self.fd, dir, WatchFlags::MOVED_TO | WatchFlags::CLOSE_WRITE)?)
    }

    /// Takes what is queued: the folder's number and the file's name.
    pub fn take(&self) -> Vec<(i32, String)> {
        let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
        let mut reader = rustix::fs::inotify::Reader::new(&self.fd, &mut buffer);
        let mut taken = Vec::new();
        while let Ok(event) = reader.next() {
            let name = event.file_name().and_then(|n| n.to_str().ok()).unwrap_or_default().to_owned();
            taken.push((event.wd(), name));
        }
        taken
    }

    /// Takes what is queued. Tells whether one of `names` was among it.
    pub fn drain(&self, names: &[&str]) -> bool {
        self.drain_where(|name| names.contains(&name))
    }

    /// Takes what is queued. Tells whether a name that `ours` knows was among it.
    pub fn drain_where(&self, ours: impl Fn(&str) -> bool) -> bool {
        let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
        let mut reader = rustix::fs::inotify::Reader::new(&self.fd, &mut buffer);
        let mut found = false;
        while let Ok(event) = reader.next() {
            found |= event.file_name().and_then(|n| n.to_str().ok()).is_some_and(&ours);
        }
        found
    }
}

/// Elsewhere the datagrams of the hooks must do; the supervisor also looks from time to time.
#[cfg(not(target_os = "linux"))]
impl Watch {
    pub fn folders(_dirs: &[&Path]) -> std::io::Result<Self> {
        Ok(Self { fd: std::fs::File::open("/dev/null")?.into() })
    }

    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    pub fn add(&self, _dir: &Path) -> std::io::Result<i32> {
        Ok(0)
    }

    pub fn take(&self) -> Vec<(i32, String)> {
        Vec::new()
    }

    pub fn drain(&self, _names: &[&str]) -> bool {
        self.drain_where(|_| false)
    }

    pub fn drain_where(&self, _ours: impl Fn(&str) -> bool) -> bool {
        let _ = self.fd.as_fd();
        false
    }
}
