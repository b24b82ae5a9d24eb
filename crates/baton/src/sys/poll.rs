//! Waits for descriptors.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::Timespec;
pub(crate) use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

/// Waits until one of `fds` is ready, `patience` is over (`None`: forever) or a signal arrives. Their `revents` then
/// say which are ready.
pub(crate) fn wait(fds: &mut [PollFd<'_>], patience: Option<Duration>) -> io::Result<()> {
    let timeout = patience.map(|patience| Timespec {
        tv_sec: i64::try_from(patience.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: patience.subsec_nanos().into(),
    });
    match rustix::event::poll(fds, timeout.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(e) => Err(e.into()),
    }
}

/// Like [`wait`], for one descriptor. Returns whether it can be read, or its other end is gone.
pub(crate) fn readable(fd: impl AsFd, patience: Duration) -> io::Result<bool> {
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    wait(&mut fds, Some(patience))?;
    Ok(!fds[0].revents().is_empty())
}
