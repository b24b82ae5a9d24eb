//! A file as memory.

#![expect(unsafe_code, reason = "what is mapped has no owner that the compiler knows")]

use std::fs::File;

use rustix::mm::{MapFlags, ProtFlags, mmap};

/// The first `len` bytes of `file`, for as long as the process. Only of a file that nobody writes to or cuts: one that is
/// replaced by another under its name stays what it is.
pub fn whole(file: &File, len: u64) -> Option<&'static [u8]> {
    let len = usize::try_from(len).ok().filter(|len| *len > 0)?;
    #[cfg(target_os = "linux")]
    let flags = MapFlags::PRIVATE | MapFlags::POPULATE;
    #[cfg(not(target_os = "linux"))]
    let flags = MapFlags::PRIVATE;
    // SAFETY: the system chooses where, so nothing that is there is replaced.
    let start = unsafe { mmap(std::ptr::null_mut(), len, ProtFlags::READ, flags, file, 0) }.ok()?;
    // SAFETY: so many bytes are mapped, are never unmapped, and as the caller promises never change.
    Some(unsafe { std::slice::from_raw_parts(start.cast(), len) })
}
