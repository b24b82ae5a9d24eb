//! An archive that `baton backup export` wrote, unpacked for `restore` into a folder of our own that is gone afterwards.
//!
//! It may come from anywhere, so nothing in it is believed: only the names that an export gives are written, below our
//! own folder, and no more than a bounded number of bytes.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use baton_core::ids::SessionId;

use super::super::progress::Progress;
use super::tar;
use crate::store::Store;
use crate::store::mirror::frames;
use crate::sys::{copy, fs};

/// More than any conversation with all its subagents; a small archive can claim to hold anything.
const MOST: u64 = 32 << 30;
/// The first bytes of zstd.
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// A folder with what an archive held; it goes when this does. One left by a killed command goes with the next.
pub struct Unpacked {
    pub folder: PathBuf,
}

impl Drop for Unpacked {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

pub fn unpack(store: &Store, archive: &Path) -> anyhow::Result<Unpacked> {
    let tale = || format!("could not read the archive {}; nothing was restored", archive.display());
    let mut file = fs::open_read(archive).with_context(tale)?;
    let mut head = [0; ZSTD.len()];
    let compressed = file.read_exact(&mut head).is_ok() && head == ZSTD;
    file.rewind().with_context(tale)?;
    let packed = file.metadata().with_context(tale)?.len();
    let mut progress = Progress::new("unpacking", if compressed { 0 } else { packed });
    // Where `sweep` looks for what a killed command left.
    let folder = store.mirror().folder_for_import();
    fs::private_dir(&folder)?;
    let unpacked = Unpacked { folder };
    let mut reader: Box<dyn Read> =
        if compressed { frames(file) } else { Box::new(BufReader::with_capacity(256 << 10, file)) };
    all(&mut reader, &unpacked.folder, &mut progress).with_context(tale)?;
    Ok(unpacked)
}

fn all(reader: &mut dyn Read, folder: &Path, progress: &mut Progress) -> anyhow::Result<()> {
    let mut left = MOST;
    while let Some(entry) = tar::next(reader)? {
        let path = folder.join(place_of(&entry.name)?);
        left = left.checked_sub(entry.len).context("it claims to hold more than any conversation")?;
        if let Some(above) = path.parent() {
            fs::private_dir(above)?;
        }
        let mut file: File = copy::private_file(&path)?;
        let mut content = reader.take(entry.len);
        let mut chunk = vec![0; 256 << 10];
        let mut got = 0;
        loop {
            let n = content.read(&mut chunk)?;
            if n == 0 {
                break;
            }
            file.write_all(&chunk[..n])?;
            got += n as u64;
            progress.add(n as u64);
        }
        if got < entry.len {
            bail!("it is cut off in {}", entry.name);
        }
        tar::pad(reader, entry.len)?;
    }
    Ok(())
}

/// `baton.json`, `{session}.jsonl`, `{session}.{n}.jsonl`, and the same of subagents below `{session}/subagents/`.
fn place_of(name: &str) -> anyhow::Result<PathBuf> {
    let is_id = |text: &str| SessionId::new(text).is_ok();
    let is_part = |text: &str| {
        text.strip_suffix(".jsonl").is_some_and(|stem| {
            let (id, number) = stem.rsplit_once('.').unwrap_or((stem, "0"));
            is_id(id) && number.bytes().all(|b| b.is_ascii_digit())
        })
    };
    let pieces: Vec<&str> = name.split('/').collect();
    let ours = match pieces[..] {
        [file] => file == "baton.json" || is_part(file),
        [id, "subagents", file] => is_id(id) && is_part(file),
        _ => false,
    };
    if !ours {
        let shown = baton_core::plain::plain_line(name, 120);
        bail!("{shown:?} is in it, which `baton backup export` does not write");
    }
    Ok(PathBuf::from(name))
}

/// Not the end of a folder's name, and not the name of a folder.
pub fn is_archive(path: &Path) -> io::Result<bool> {
    let mut head = Vec::new();
    let mut file = fs::open_read(path)?;
    if !file.metadata()?.is_file() {
        return Ok(false);
    }
    Read::by_ref(&mut file).take(512).read_to_end(&mut head)?;
    Ok(head.starts_with(&ZSTD) || tar::is_header(&head))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_names_of_an_export_have_a_place() {
        for name in [
            "baton.json",
            "a-1.jsonl",
            "a-1.2.jsonl",
            "a-1/subagents/agent-x.jsonl",
            "a-1/subagents/agent-x.3.jsonl",
        ] {
            assert!(place_of(name).is_ok(), "{name}");
        }
        for name in [
            "",
            "/etc/passwd",
            "../a.jsonl",
            "a/../b.jsonl",
            "a/subagents/../../x.jsonl",
            "./baton.json",
            "a.txt",
            "x/baton.json",
            "a/subagents/.jsonl",
            ".jsonl",
            "..jsonl",
            "a/other/b.jsonl",
            "a.b.jsonl",
            "a\0.jsonl",
        ] {
            assert!(place_of(name).is_err(), "{name:?}");
        }
    }
}
