//! Lets the daemon's event loop wait for a descriptor.

use std::os::fd::OwnedFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Registers `fd`, to wait until it is readable. Must be called inside the event loop.
#[expect(unsafe_code, reason = "tokio asks for a promise about the descriptor, which its owner keeps")]
pub(crate) fn readable(fd: OwnedFd) -> std::io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: the descriptor is owned and moves in here, so it is open, stays the same and is closed with the result.
    let registered = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) };
    Ok(registered?)
}
