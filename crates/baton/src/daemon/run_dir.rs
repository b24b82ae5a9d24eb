//! `run/` in the state folder: the daemon's lock, its socket and the token of its HTTP port.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::sys::fs::{self, FileError, PRIVATE, Sync};
use crate::sys::lock::{self, Lock, LockError};

#[derive(Debug, Clone)]
pub(crate) struct RunDir {
    path: PathBuf,
}

impl RunDir {
    pub(crate) fn new(state: &Path) -> Self {
        Self { path: state.join("run") }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.path.join("daemon.sock")
    }

    pub(crate) fn token_path(&self) -> PathBuf {
        self.path.join("token")
    }

    fn lock_path(&self) -> PathBuf {
        self.path.join("daemon.lock")
    }

    /// Makes the folder private and takes the daemon's lock, or says who holds it.
    pub(crate) fn lock(&self) -> anyhow::Result<Lock> {
        fs::private_dir(&self.path)?;
        let found =
            std::fs::symlink_metadata(&self.path).map_err(|e| FileError::new("look at", &self.path, e))?;
        anyhow::ensure!(
            found.is_dir() && found.uid() == rustix::process::geteuid().as_raw(),
            "{} must be a folder of your own; look at it and move it away",
            self.path.display()
        );
        let others_may_enter = found.mode() & 0o077 != 0;
        if others_may_enter {
            std::fs::set_permissions(&self.path, std::fs::Permissions::from_mode(0o700))
                .map_err(|e| FileError::new("make private", &self.path, e))?;
        }
        match Lock::acquire_shown(&self.lock_path(), Duration::ZERO) {
            Ok(lock) => Ok(lock),
            Err(LockError::Held { holder, .. }) => {
                anyhow::bail!("it runs already, as process {holder}; `baton serve --stop` stops it")
            }
            Err(e) => Err(e.into()),
        }
    }

    /// Whether a daemon runs.
    pub(crate) fn is_locked(&self) -> bool {
        lock::is_held(&self.lock_path())
    }

    /// Replaces the token. Every start has a new one, so a token that was sent to another program on our port, or read
    /// from a backup, becomes worthless.
    pub(crate) fn write_token(&self, token: &str) -> Result<(), FileError> {
        fs::replace(&self.token_path(), format!("{token}\n").as_bytes(), PRIVATE, Sync::No)
    }

    /// Removes the token, so that no script sends it to whoever takes the port after us.
    pub(crate) fn remove_token(&self) -> Result<(), FileError> {
        fs::remove(&self.token_path())
    }

    /// Listens on the socket. We hold the lock, so a socket that exists was left by a dead daemon.
    pub(crate) fn listen(&self) -> anyhow::Result<(UnixListener, SocketFile)> {
        let path = self.socket();
        fs::remove(&path)?;
        let listener = UnixListener::bind(&path).map_err(|e| FileError::new("listen on", &path, e))?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))
            .map_err(|e| FileError::new("make private", &path, e))?;
        let id = identity(&path).map_err(|e| FileError::new("look at", &path, e))?;
        Ok((listener, SocketFile { path, id }))
    }
}

/// The socket file that we listen on. If it is gone or replaced, nobody can reach us.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    /// Device and inode.
    id: (u64, u64),
}

fn identity(path: &Path) -> std::io::Result<(u64, u64)> {
    std::fs::symlink_metadata(path).map(|found| (found.dev(), found.ino()))
}

impl SocketFile {
    pub(crate) fn is_ours(&self) -> bool {
        identity(&self.path).is_ok_and(|id| id == self.id)
    }

    /// Removes the socket before the lock is released. If the folder was recreated, the lock and the socket in it
    /// belong to a successor.
    pub(crate) fn remove(&self) {
        if self.is_ours() {
            let _ = fs::remove(&self.path);
        }
    }
}
