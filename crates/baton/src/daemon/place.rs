//! Where the daemon lives: `run/` with its lock, its socket and the token.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;

use super::auth;
use crate::sys::fs::{self, FileError, PRIVATE, Sync};
use crate::sys::lock::{Lock, LockError};

#[derive(Debug, Clone)]
pub struct Place {
    run: PathBuf,
}

/// May anybody but its owner do anything with it?
fn is_open(found: &std::fs::Metadata) -> bool {
    found.mode() & 0o077 != 0
}

impl Place {
    pub fn new(state: &Path) -> Self {
        Self { run: state.join("run") }
    }

    pub fn socket(&self) -> PathBuf {
        self.run.join("daemon.sock")
    }

    pub fn token_path(&self) -> PathBuf {
        self.run.join("token")
    }

    fn lock_path(&self) -> PathBuf {
        self.run.join("daemon.lock")
    }

    /// Makes the place ours alone, or says who has it.
    pub fn take(&self) -> anyhow::Result<Lock> {
        fs::private_dir(&self.run)?;
        let found =
            std::fs::symlink_metadata(&self.run).map_err(|e| FileError::new("look at", &self.run, e))?;
        let me = rustix::process::geteuid().as_raw();
        anyhow::ensure!(
            found.is_dir() && found.uid() == me,
            "{} must be a folder of your own; look at it and move it away",
            self.run.display()
        );
        if is_open(&found) {
            std::fs::set_permissions(&self.run, std::fs::Permissions::from_mode(0o700))
                .map_err(|e| FileError::new("make private", &self.run, e))?;
        }
        match Lock::acquire_shown(&self.lock_path(), Duration::ZERO) {
            Ok(lock) => Ok(lock),
            Err(LockError::Held { holder, .. }) => {
                anyhow::bail!("it runs already, as process {holder}; `baton serve --stop` stops it")
            }
            Err(e) => Err(e.into()),
        }
    }

    /// Does somebody hold the place now?
    pub fn is_taken(&self) -> bool {
        self.lock_path().exists()
            && matches!(Lock::acquire(&self.lock_path(), Duration::ZERO), Err(LockError::Held { .. }))
    }

    /// The token, made at the first start and kept: scripts have it in their hands.
    pub fn token(&self) -> anyhow::Result<String> {
        let path = self.token_path();
        let read = || -> anyhow::Result<Option<String>> {
            let Some(bytes) = fs::read(&path, 1024)? else { return Ok(None) };
            let found = std::fs::symlink_metadata(&path).map_err(|e| FileError::new("look at", &path, e))?;
            let text = String::from_utf8_lossy(&bytes).trim().to_owned();
            let whole = text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit());
            anyhow::ensure!(
                whole && !is_open(&found) && found.uid() == rustix::process::geteuid().as_raw(),
                "{} may have been read or changed by others; remove it and a new token is made",
                path.display()
            );
            Ok(Some(text))
        };
        if let Some(token) = read()? {
            return Ok(token);
        }
        let token = auth::random_hex().context("could not read /dev/urandom for a token")?;
        fs::create(&path, format!("{token}\n").as_bytes(), PRIVATE, Sync::Yes)?;
        read()?.context("the token vanished as soon as it was written; try again")
    }

    /// Listens on the socket. The lock is ours, so a socket that is there was left by a dead one.
    pub fn listen(&self) -> anyhow::Result<(UnixListener, Address)> {
        let path = self.socket();
        fs::remove(&path)?;
        let listener = UnixListener::bind(&path).map_err(|e| FileError::new("listen on", &path, e))?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))
            .map_err(|e| FileError::new("make private", &path, e))?;
        let id = identity(&path).map_err(|e| FileError::new("look at", &path, e))?;
        Ok((listener, Address { path, id }))
    }
}

/// The socket we listen on, as the file system knows it: nobody can reach us where it is gone or another's.
#[derive(Debug)]
pub struct Address {
    path: PathBuf,
    id: (u64, u64),
}

fn identity(path: &Path) -> std::io::Result<(u64, u64)> {
    std::fs::symlink_metadata(path).map(|found| (found.dev(), found.ino()))
}

impl Address {
    pub fn is_ours(&self) -> bool {
        identity(&self.path).is_ok_and(|id| id == self.id)
    }

    /// Takes the socket away before the lock is let go. Where the folder was removed and made again, the lock is
    /// another file, and so may the socket be.
    pub fn leave(&self) {
        if self.is_ours() {
            let _ = fs::remove(&self.path);
        }
    }
}
