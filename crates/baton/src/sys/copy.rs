//! Copies large files: shares blocks if the file system can, else copies inside the kernel.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::sys::fs::{FileError, PRIVATE, remove, rename_new};

/// Makes the empty `to` share the content of `from`, without copying a byte. Returns `false` if the file system cannot.
#[cfg_attr(not(target_os = "linux"), expect(unused_variables, reason = "only Linux clones open files"))]
pub(crate) fn share_blocks(from: &File, to: &File) -> bool {
    #[cfg(target_os = "linux")]
    return rustix::fs::ioctl_ficlone(to, from).is_ok();
    #[cfg(not(target_os = "linux"))]
    return false;
}

/// Copies the first `len` bytes of `from` to a new file, whole or not at all.
pub(crate) fn copy_new(from: &File, len: u64, path: &Path) -> Result<(), FileError> {
    let temp = temp_beside(path);
    let all = || -> io::Result<()> {
        let mut to = private_file(&temp)?;
        if from.metadata()?.len() == len && share_blocks(from, &to) {
            return Ok(());
        }
        let mut from = from.try_clone()?;
        io::Seek::rewind(&mut from)?;
        // The standard library asks the kernel to copy from file to file.
        let copied = io::copy(&mut io::Read::take(from, len), &mut to)?;
        if copied < len {
            return Err(io::Error::other(format!("only {copied} of {len} bytes were there")));
        }
        Ok(())
    };
    let done = all().map_err(|e| FileError::new("copy to", path, e)).and_then(|()| rename_new(&temp, path));
    if done.is_err() {
        let _ = remove(&temp);
    }
    done
}

fn temp_beside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{}.0.tmp", std::process::id()))
}

/// Makes a file of `len` bytes that is a hole except for `tail` at its end; whole or not at all.
pub(crate) fn with_hole(path: &Path, len: u64, tail: &[u8]) -> Result<(), FileError> {
    let fail = |e: io::Error| FileError::new("create", path, e);
    let temp = temp_beside(path);
    let made = private_file(&temp)
        .and_then(|file| file.write_all_at(tail, len.saturating_sub(tail.len() as u64)))
        .and_then(|()| std::fs::rename(&temp, path));
    made.map_err(|e| {
        let _ = remove(&temp);
        fail(e)
    })
}

/// A new private file. Replaces one that a killed process with our pid left there.
pub(crate) fn private_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(PRIVATE);
    options.custom_flags((OFlags::NOFOLLOW | OFlags::CLOEXEC).bits().cast_signed());
    match options.open(path) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            std::fs::remove_file(path)?;
            options.open(path)
        }
        other => other,
    }
}
