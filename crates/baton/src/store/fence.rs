//! The secret behind the fences of this installation: 32 random bytes that nobody but the user can read.

use std::path::Path;

use baton_core::fence::Key;

use crate::sys::fs::{self, FileError, Sync};

const NAME: &str = "fence.key";

/// The key, made at its first use. If several processes make it at once, one key stays.
pub(super) fn key(state: &Path) -> Result<Key, FileError> {
    let path = state.join(NAME);
    if let Some(key) = read(&path)? {
        return Ok(key);
    }
    fs::private_dir(state)?;
    let secret = random(&path)?;
    if fs::create(&path, &secret, 0o600, Sync::No)? {
        return Ok(Key::new(secret));
    }
    if let Some(key) = read(&path)? {
        return Ok(key);
    }
    // A damaged key verifies nothing. After this, older frames are no longer recognised as ours.
    fs::replace(&path, &secret, 0o600, Sync::No)?;
    Ok(Key::new(secret))
}

/// A key for one frame if none can be stored: nobody can forge it, and nobody can verify it later.
pub(super) fn passing() -> Key {
    let mut secret = [0; Key::LEN];
    // The kernel has random numbers once it has booted.
    let _ = getrandom::fill(&mut secret);
    Key::new(secret)
}

fn read(path: &Path) -> Result<Option<Key>, FileError> {
    let bytes = fs::read(path, Key::LEN as u64)?;
    Ok(bytes.and_then(|bytes| <[u8; Key::LEN]>::try_from(bytes).ok()).map(Key::new))
}

fn random(path: &Path) -> Result<[u8; Key::LEN], FileError> {
    let mut secret = [0; Key::LEN];
    getrandom::fill(&mut secret)
        .map_err(|e| FileError::new("choose a secret for", path, std::io::Error::from(e)))?;
    Ok(secret)
}
