//! A handle to signal a process and wait for it, which cannot be confused with another process that reuses the pid.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::process::{Pid, Signal};

/// On Linux a pidfd; elsewhere the pid, which the caller has checked against the process it means.
#[derive(Debug)]
pub(crate) struct Handle {
    #[cfg(target_os = "linux")]
    fd: std::os::fd::OwnedFd,
    #[cfg(not(target_os = "linux"))]
    pid: Pid,
}

#[cfg(target_os = "linux")]
impl Handle {
    /// `None` if no process has this pid.
    pub(crate) fn open(pid: Pid) -> io::Result<Option<Self>> {
        match rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()) {
            Ok(fd) => Ok(Some(Self { fd })),
            Err(rustix::io::Errno::SRCH) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }

    pub(crate) fn signal(&self, signal: Signal) -> io::Result<()> {
        Ok(rustix::process::pidfd_send_signal(&self.fd, signal)?)
    }

    /// Readable when the process has ended.
    #[expect(clippy::unnecessary_wraps, reason = "other systems have none")]
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(std::os::fd::AsFd::as_fd(&self.fd))
    }

    /// Waits until it has ended, at most `patience`.
    pub(crate) fn wait(&self, patience: Duration) {
        let _ = crate::sys::poll::readable(&self.fd, patience);
    }
}

#[cfg(not(target_os = "linux"))]
impl Handle {
    pub(crate) fn open(pid: Pid) -> io::Result<Option<Self>> {
        let there = crate::sys::process::pid_exists(pid.as_raw_nonzero().get().unsigned_abs());
        Ok(there.then_some(Self { pid }))
    }

    pub(crate) fn signal(&self, signal: Signal) -> io::Result<()> {
        Ok(rustix::process::kill_process(self.pid, signal)?)
    }

    /// Only SIGCHLD reports the end of a child here.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    pub(crate) fn wait(&self, patience: Duration) {
        let until = std::time::Instant::now() + patience;
        let pid = self.pid.as_raw_nonzero().get().unsigned_abs();
        while crate::sys::process::pid_exists(pid) && std::time::Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
