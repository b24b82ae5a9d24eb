//! Compresses, checks and removes mirrored conversations that have ended. Run by commands, never by a hook.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write as _};
use std::path::Path;
use std::time::Duration;

use baton_core::ids::SessionId;
use sha2::{Digest as _, Sha256};

use crate::store::mirror::read::open_own;
use crate::store::mirror::{
    CompressedGeneration, Generation, Mirror, MirrorError, MirrorPart, MirroredSession, generation_name,
};
use crate::sys::copy;
use crate::sys::fs::{self, FileError};
use crate::sys::hash::hex;

/// Frames of this size are compressed separately, so that memory stays bounded and damage spoils only one of them.
const FRAME: usize = 4 << 20;
const PATIENCE: Duration = Duration::from_secs(2);

/// The result of compressing a conversation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RestReport {
    pub generations: usize,
    pub before: u64,
    pub after: u64,
}

impl Mirror {
    /// Compresses the mirror of a session that is over. `told` gets the size of each stretch and returns `false` to
    /// stop.
    ///
    /// Each generation is written beside its place, read back and compared before the plain one is removed. A kill at
    /// any instant leaves one of them, or both.
    pub fn rest(
        &self,
        session: &SessionId,
        told: &mut dyn FnMut(u64) -> bool,
    ) -> Result<RestReport, MirrorError> {
        let mut rested = RestReport::default();
        let Some(mirrored) = self.of(session)? else { return Ok(rested) };
        let _lock = self.lock(session, PATIENCE)?;
        for part in &mirrored.parts {
            for generation in part.generations.iter().filter(|g| !g.compressed) {
                let Some(after) = self.rest_one(session, part, generation, told)? else { return Ok(rested) };
                rested.generations += 1;
                rested.before += generation.stored;
                rested.after += after;
            }
        }
        self.drop_repeated(session)?;
        Ok(rested)
    }

    /// Returns the size of the compressed file; `None`, with nothing changed, if told to stop or if the plain one grew.
    fn rest_one(
        &self,
        session: &SessionId,
        part: &MirrorPart,
        generation: &Generation,
        told: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Option<u64>, MirrorError> {
        let folder = self.folder(session);
        let name = format!("{}.zst", generation_name(&part.name, generation.number));
        let path = folder.join(&name);
        let from = generation.base.map_or(0, |b| b.len);
        let read = |e: io::Error| FileError::new("read", &generation.path, e);
        let mut plain = open_own(generation, from).map_err(read)?;
        let temp = folder.join(format!(".{name}.{}.0.tmp", std::process::id()));
        let fail = |e: io::Error| FileError::new("compress to", &temp, e);
        let written = copy::private_file(&temp).map_err(fail).and_then(|file| {
            let done = compress(&mut plain, file, told).map_err(fail)?;
            let Some((bytes, sum)) = done else { return Ok(None) };
            let back = Generation { path: temp.clone(), compressed: true, base: None, ..generation.clone() };
            let (again, same) =
                digest(&mut open_own(&back, 0).map_err(fail)?, &mut |_| true).map_err(fail)?;
            if (again, &same) != (bytes, &sum) {
                return Err(fail(io::Error::other("what was written does not read back as it was")));
            }
            Ok(Some(CompressedGeneration { bytes, sha256: sum }))
        });
        let resting = match written {
            Ok(Some(resting)) => resting,
            other => {
                fs::remove(&temp)?;
                return other.map(|_| None).map_err(MirrorError::from);
            }
        };
        let grew = std::fs::metadata(&generation.path).map_or(u64::MAX, |m| m.len()) != from + resting.bytes;
        if grew {
            // The session is not over after all.
            fs::remove(&temp)?;
            return Ok(None);
        }
        let size = std::fs::metadata(&temp).map_err(fail)?.len();
        self.change_meta(session, |meta| {
            meta.resting.insert(name.clone(), resting);
        })?;
        std::fs::rename(&temp, &path).map_err(|e| FileError::new("create", &path, e))?;
        fs::sync_parent(&path)?;
        fs::remove(&generation.path)?;
        Ok(Some(size))
    }

    /// Removes generations that are only the beginning of the next one: their session was resumed after it had been
    /// compressed. The caller holds the lock.
    fn drop_repeated(&self, session: &SessionId) -> Result<(), MirrorError> {
        let Some(mirrored) = self.of(session)? else { return Ok(()) };
        for part in &mirrored.parts {
            for pair in part.generations.windows(2) {
                let [old, new] = pair else { continue };
                let built_on = part.generations.iter().any(|g| g.base.is_some_and(|b| b.of == old.number));
                if built_on || old.bytes > new.bytes {
                    continue;
                }
                let same = || -> io::Result<bool> {
                    let (mut a, mut b) = (part.open(old)?, part.open(new)?.take(old.bytes));
                    Ok(digest(&mut a, &mut |_| true)? == digest(&mut b, &mut |_| true)?)
                };
                if same().unwrap_or(false) {
                    fs::remove(&old.path)?;
                    let name = old.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                    self.change_meta(session, |meta| {
                        meta.resting.remove(&name);
                    })?;
                }
            }
        }
        Ok(())
    }

    /// Removes everything of `session`. Renames the folder first, so that nobody sees half of a conversation.
    pub fn remove(&self, session: &SessionId) -> Result<(), FileError> {
        let folder = self.folder(session);
        let gone = self.dir.join(format!(".{session}.{}.0.tmp", std::process::id()));
        std::fs::rename(&folder, &gone).map_err(|e| FileError::new("remove", &folder, e))?;
        std::fs::remove_dir_all(&gone).map_err(|e| FileError::new("remove", &gone, e))
    }

    /// Removes what a killed command left half removed or half written.
    pub fn sweep(&self) {
        for entry in std::fs::read_dir(&self.dir).into_iter().flatten().flatten() {
            let owner = entry.file_name().to_str().and_then(fs::temp_owner);
            let gone = owner.is_some_and(|pid| crate::sys::process::identify(pid).is_none());
            if gone {
                let _ = std::fs::remove_dir_all(entry.path());
            } else if entry.path().is_dir() {
                let _ = fs::sweep_temps(&entry.path(), |pid| crate::sys::process::identify(pid).is_some());
            }
        }
    }
}

impl MirroredSession {
    /// Checks whether a generation can be trusted; the error says why not.
    pub fn check(
        &self,
        part: &MirrorPart,
        generation: &Generation,
        told: &mut dyn FnMut(u64) -> bool,
    ) -> Result<(), String> {
        let name = generation.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut whole = part.open(generation).map_err(|e| e.to_string())?;
        let (bytes, _) = digest(&mut whole, told).map_err(|e| e.to_string())?;
        if bytes < generation.bytes {
            return Err(format!("it holds {bytes} bytes of {}", generation.bytes));
        }
        if generation.compressed {
            let noted = self.meta.resting.get(&name).ok_or("its hash was not noted")?;
            let mut own = open_own(generation, 0).map_err(|e| e.to_string())?;
            let (bytes, sum) = digest(&mut own, told).map_err(|e| e.to_string())?;
            if (bytes, &sum) != (noted.bytes, &noted.sha256) {
                return Err("its content is not what was compressed".to_owned());
            }
        }
        Ok(())
    }
}

/// Compresses `plain` into `file` and syncs it. Returns length and hash of the input, or `None` if told to stop.
fn compress(
    plain: &mut dyn Read,
    file: File,
    told: &mut dyn FnMut(u64) -> bool,
) -> io::Result<Option<(u64, String)>> {
    let mut out = BufWriter::new(file);
    let (mut hash, mut bytes) = (Sha256::new(), 0);
    let mut chunk = Vec::with_capacity(FRAME);
    loop {
        chunk.clear();
        (&mut *plain).take(FRAME as u64).read_to_end(&mut chunk)?;
        if chunk.is_empty() {
            break;
        }
        hash.update(&chunk);
        bytes += chunk.len() as u64;
        // This runs in memory, so it cannot fail.
        let level = ruzstd::encoding::CompressionLevel::Fastest;
        out.write_all(&ruzstd::encoding::compress_to_vec(chunk.as_slice(), level))?;
        if !told(chunk.len() as u64) {
            return Ok(None);
        }
    }
    out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
    Ok(Some((bytes, hex(&hash.finalize()))))
}

/// Length and hash of everything in `reader`.
pub(crate) fn digest(reader: &mut dyn Read, told: &mut dyn FnMut(u64) -> bool) -> io::Result<(u64, String)> {
    let (mut hash, mut bytes) = (Sha256::new(), 0);
    let mut chunk = vec![0; 256 << 10];
    loop {
        match reader.read(&mut chunk) {
            Ok(0) => return Ok((bytes, hex(&hash.finalize()))),
            Ok(n) => {
                hash.update(&chunk[..n]);
                bytes += n as u64;
                if !told(n as u64) {
                    return Err(io::Error::new(io::ErrorKind::Interrupted, "interrupted"));
                }
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}

/// Whether a session has a mirror.
pub fn exists(folder: &Path) -> bool {
    folder.join("meta.json").exists()
}
